/* matmul_add_amax_sub_exp_etc_div
 * holds: product, biased, amax, sub, exp, sum, div
 * chain: what a contraction makes goes on to the next while its rows are at hand */
void matmul_add_amax_sub_exp_etc_div_kernel(const fb_kernel_args *args)
{
    const float *restrict x = args->buffers[0];
    const float *restrict w = args->buffers[1];
    const float *restrict b = args->buffers[2];
    float *restrict div = args->buffers[3];

#pragma omp parallel
    {
        float *const product = fb_block_new(131072 * sizeof(float));
#pragma omp for schedule(dynamic)
        for (int64_t block = 0; block < 16; block++) {
            const int64_t first = block * 256;
            const int64_t last = first + 256 < 4096 ? first + 256 : 4096;
            args->multiply(args, 0, last - first, &x[512 * first], &w[0], product);
            for (int64_t i = first; i < last; i++) {
                float amax = -INFINITY;
#pragma omp simd reduction(fb_maxf : amax)
                for (int64_t r = 0; r < 512; r++) {
                    const float biased = product[512 * i + r - 512 * first] + b[r];
                    amax = fb_maxf(amax, biased);
                }
                _Alignas(64) float exp_row[512];
                float sum = 0;
#pragma omp simd reduction(+ : sum)
                for (int64_t r = 0; r < 512; r++) {
                    const float biased = product[512 * i + r - 512 * first] + b[r];
                    const float sub = biased - amax;
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
        fb_block_free(product);
    }
}
