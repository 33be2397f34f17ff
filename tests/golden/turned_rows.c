/* add_sum
 * holds: both, sum
 * reduce: rows are reduced, and all of a row's work is done while it is at hand */
void add_sum_kernel(const fb_kernel_args *args)
{
    const float *restrict x = args->buffers[0];
    const float *restrict y = args->buffers[1];
    float *restrict sum = args->buffers[2];

#pragma omp parallel for schedule(static)
    for (int64_t i0 = 0; i0 < 1000; i0 += 32) {
        const int64_t i_end = i0 + 32 < 1000 ? i0 + 32 : 1000;
        _Alignas(64) float y_turned[32][512];
        {
            const int64_t i = i0, r = 0;
            fb_turn_32(&y[1000 * r + i], 1000, i_end - i0, 512, y_turned, 512);
        }
        for (int64_t i = i0; i < i_end; i++) {
            float sum_2 = 0;
#pragma omp simd reduction(+ : sum_2)
            for (int64_t r = 0; r < 512; r++) {
                const float both = x[512 * i + r] + y_turned[i - i0][r];
                sum_2 += both;
            }
            sum[i] = sum_2;
        }
    }
}
