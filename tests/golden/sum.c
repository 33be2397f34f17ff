/* abs_sum
 * holds: abs, sum
 * reduce: rows are reduced, and all of a row's work is done while it is at hand */
void abs_sum_kernel(const fb_kernel_args *args)
{
    const float *restrict x = args->buffers[0];
    float *restrict sum = args->buffers[1];

    float sum_2 = 0;
#pragma omp parallel for simd reduction(+ : sum_2) schedule(static)
    for (int64_t r = 0; r < 4194304; r++) {
        const float abs_2 = fabsf(x[r]);
        sum_2 += abs_2;
    }
    sum[0] = sum_2;
}
