/* add_relu
 * holds: biased, relu
 * pointwise: every element by itself */
void add_relu_kernel(const fb_kernel_args *args)
{
    const fb_f16 *restrict x = args->buffers[0];
    const fb_f16 *restrict b = args->buffers[1];
    fb_f16 *restrict relu = args->buffers[2];

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < 4096; i++) {
        for (int64_t j0 = 0; j0 < 1000; j0 += 256) {
            const int64_t j_end = j0 + 256 < 1000 ? j0 + 256 : 1000;
            _Alignas(64) float x_wide[256];
            {
                const int64_t j = j0;
                fb_widen(&x[1000 * i + j], x_wide, j_end - j0);
            }
            _Alignas(64) float b_wide[256];
            {
                const int64_t j = j0;
                fb_widen(&b[j], b_wide, j_end - j0);
            }
            _Alignas(64) float relu_wide[256];
#pragma omp simd
            for (int64_t j = j0; j < j_end; j++) {
                const float biased = x_wide[j - j0] + b_wide[j - j0];
                relu_wide[j - j0] = biased < 0 ? 0 : biased;
            }
            {
                const int64_t j = j0;
                fb_narrow(relu_wide, &relu[1000 * i + j], j_end - j0);
            }
        }
    }
}
