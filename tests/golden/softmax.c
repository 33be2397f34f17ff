/* amax_sub_exp_sum_div
 * holds: amax, sub, exp, sum, div
 * reduce: rows are reduced, and all of a row's work is done while it is at hand */
void amax_sub_exp_sum_div_kernel(const fb_kernel_args *args)
{
    const fb_f16 *restrict x = args->buffers[0];
    fb_f16 *restrict div = args->buffers[1];

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < 2048; i++) {
        float amax = -INFINITY;
#pragma omp simd reduction(fb_maxf : amax)
        for (int64_t r = 0; r < 512; r++) {
            amax = fb_maxf(amax, fb_from_f16(x[512 * i + r]));
        }
        _Alignas(64) float exp_row[512];
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t r = 0; r < 512; r++) {
            const float sub = fb_from_f16(x[512 * i + r]) - amax;
            const float exp = fb_expf(sub);
            exp_row[r] = exp;
            sum += exp;
        }
#pragma omp simd
        for (int64_t r = 0; r < 512; r++) {
            div[512 * i + r] = fb_to_f16(exp_row[r] / sum);
        }
    }
}
