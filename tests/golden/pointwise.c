/* mul_add_relu
 * holds: scaled, sum, biased, relu
 * pointwise: every element by itself */
void mul_add_relu_kernel(const fb_kernel_args *args)
{
    const float *restrict y = args->buffers[0];
    const float *restrict z = args->buffers[1];
    const float *restrict b = args->buffers[2];
    float *restrict relu = args->buffers[3];

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < 4096; i++) {
#pragma omp simd
        for (int64_t j = 0; j < 4096; j++) {
            const float scaled = z[4096 * i + j] * 0.5f;
            const float sum = y[4096 * i + j] + scaled;
            const float biased = sum + b[j];
            relu[4096 * i + j] = biased < 0 ? 0 : biased;
        }
    }
}
