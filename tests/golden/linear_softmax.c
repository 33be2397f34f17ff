/* matmul_add
 * holds: product, biased
 * library: what follows a library call, on rows of its result that are still in the cache */
void matmul_add_kernel(const fb_kernel_args *args)
{
    const float *restrict b = args->buffers[0];
    float *restrict biased = args->buffers[1];

#pragma omp parallel for schedule(static) if (args->last - args->first > 31)
    for (int64_t i = args->first; i < args->last; i++) {
#pragma omp simd
        for (int64_t j = 0; j < 512; j++) {
            const float product = biased[512 * i + j];
            const float biased_2 = product + b[j];
            biased[512 * i + j] = biased_2;
        }
    }
}

/* amax_sub_exp_sum_div
 * holds: amax, sub, exp, sum, div
 * reduce: rows are reduced, and all of a row's work is done while it is at hand */
void amax_sub_exp_sum_div_kernel(const fb_kernel_args *args)
{
    const float *restrict biased = args->buffers[0];
    float *restrict div = args->buffers[1];

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < 4096; i++) {
        float amax = -INFINITY;
#pragma omp simd reduction(fb_maxf : amax)
        for (int64_t r = 0; r < 512; r++) {
            amax = fb_maxf(amax, biased[512 * i + r]);
        }
        _Alignas(64) float exp_row[512];
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t r = 0; r < 512; r++) {
            const float sub = biased[512 * i + r] - amax;
            const float exp = fb_expf(sub);
            exp_row[r] = exp;
            sum += exp;
        }
#pragma omp simd
        for (int64_t r = 0; r < 512; r++) {
            div[512 * i + r] = exp_row[r] / sum;
        }
    }
}
