/* add
 * holds: both
 * pointwise: every element by itself */
void add_kernel(const fb_kernel_args *args)
{
    const float *restrict x = args->buffers[0];
    const float *restrict y = args->buffers[1];
    float *restrict both = args->buffers[2];

#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t j0 = 0; j0 < 512; j0 += 128) {
        for (int64_t i0 = 0; i0 < 1000; i0 += 32) {
            const int64_t i_end = i0 + 32 < 1000 ? i0 + 32 : 1000;
            _Alignas(64) float y_turned[32][128];
            {
                const int64_t i = i0, j = j0;
                fb_turn_32(&y[1000 * j + i], 1000, i_end - i0, 128, y_turned, 128);
            }
            for (int64_t i = i0; i < i_end; i++) {
#pragma omp simd
                for (int64_t j = j0; j < j0 + 128; j++) {
                    both[512 * i + j] = x[512 * i + j] + y_turned[i - i0][j - j0];
                }
            }
        }
    }
}
