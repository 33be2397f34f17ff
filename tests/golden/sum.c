/* abs_sum
 * holds: abs, sum
 * reduce: rows are reduced, and all of a row's work is done while it is at hand */
void abs_sum_kernel(const fb_kernel_args *args)
{
    const float *restrict x = args->buffers[0];
    float *restrict sum = args->buffers[1];

    float sum_2 = 0;
    float fb_parts_sum_2[256];
#pragma omp parallel for schedule(static)
    for (int64_t fb_part = 0; fb_part < 256; fb_part++) {
        const int64_t fb_first = fb_part * 16384;
        const int64_t fb_last = fb_first + 16384 < 4194304 ? fb_first + 16384 : 4194304;
        float sum_2 = 0;
#pragma omp simd reduction(+ : sum_2)
        for (int64_t r = fb_first; r < fb_last; r++) {
            const float abs_2 = fabsf(x[r]);
            sum_2 += abs_2;
        }
        fb_parts_sum_2[fb_part] = sum_2;
    }
    for (int64_t fb_part = 0; fb_part < 256; fb_part++) {
        sum_2 = sum_2 + fb_parts_sum_2[fb_part];
    }
    sum[0] = sum_2;
}
