/* matmul_mul_amax_sub_exp_etc_div
 * holds: scores, scaled, amax, sub, exp, sum, div, mixed
 * chain: what a contraction makes goes on to the next while its rows are at hand */
void matmul_mul_amax_sub_exp_etc_div_kernel(const fb_kernel_args *args)
{
    const float *restrict q = args->buffers[0];
    const float *restrict keys = args->buffers[1];
    const float *restrict v = args->buffers[2];
    float *restrict mixed = args->buffers[3];

#pragma omp parallel
    {
        float *const scores = fb_block_new(116224 * sizeof(float));
        float *const mixed_2 = fb_block_new(14528 * sizeof(float));
#pragma omp for schedule(dynamic)
        for (int64_t block = 0; block < 24; block++) {
            const int64_t i = block / 3;
            const int64_t first = block % 3 * 227;
            const int64_t last = first + 227 < 512 ? first + 227 : 512;
            args->multiply(args, 0, last - first, &q[32768 * i + 64 * first], &keys[32768 * i], scores);
            {
                for (int64_t j = first; j < last; j++) {
                    float amax = -INFINITY;
#pragma omp simd reduction(fb_maxf : amax)
                    for (int64_t r = 0; r < 512; r++) {
                        const float scaled = fb_productf(scores[512 * j + r - 512 * first], 0.125f);
                        amax = fb_maxf(amax, scaled);
                    }
                    _Alignas(64) float exp_row[512];
                    float sum = 0;
#pragma omp simd reduction(+ : sum)
                    for (int64_t r = 0; r < 512; r++) {
                        const float scaled = fb_productf(scores[512 * j + r - 512 * first], 0.125f);
                        const float sub = scaled - amax;
                        const float exp = fb_expf(sub);
                        exp_row[r] = exp;
                        sum += exp;
                    }
#pragma omp simd
                    for (int64_t r = 0; r < 512; r++) {
                        scores[512 * j + r - 512 * first] = exp_row[r] / sum;
                    }
                }
            }
            args->multiply(args, 1, last - first, scores, &v[32768 * i], mixed_2);
            {
                for (int64_t j = first; j < last; j++) {
#pragma omp simd
                    for (int64_t k = 0; k < 64; k++) {
                        mixed[32768 * i + 64 * j + k] = mixed_2[64 * j + k - 64 * first];
                    }
                }
            }
        }
        fb_block_free(scores);
        fb_block_free(mixed_2);
    }
}
