/* exp_mean
 * holds: exp, mean
 * reduce: rows are reduced, and all of a row's work is done while it is at hand */
void exp_mean_kernel(const fb_kernel_args *args)
{
    const float *restrict x = args->buffers[0];
    float *restrict mean = args->buffers[1];

#pragma omp parallel for schedule(static)
    for (int64_t i0 = 0; i0 < 1000; i0 += 64) {
        const int64_t lanes = 1000 - i0 < 64 ? 1000 - i0 : 64;
        _Alignas(64) float mean_2[64];
        for (int64_t lane = 0; lane < 64; lane++) {
            mean_2[lane] = 0;
        }
        for (int64_t r = 0; r < 4096; r++) {
#pragma omp simd
            for (int64_t i = i0; i < i0 + lanes; i++) {
                const float exp = fb_expf(x[1000 * r + i]);
                mean_2[i - i0] += exp;
            }
        }
        for (int64_t lane = 0; lane < 64; lane++) mean_2[lane] /= 4096.0f;
#pragma omp simd
        for (int64_t i = i0; i < i0 + lanes; i++) {
            mean[i] = mean_2[i - i0];
        }
    }
}
