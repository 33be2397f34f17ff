/* cat_matmul_sigmoid
 * holds: both, product, gate
 * reduce: rows are reduced, and all of a row's work is done while it is at hand */
void cat_matmul_sigmoid_kernel(const fb_kernel_args *args)
{
    const float *restrict x = args->buffers[0];
    const float *restrict h = args->buffers[1];
    const float *restrict w = args->buffers[2];
    float *restrict gate = args->buffers[3];

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < 64; i++) {
        float product = 0;
#pragma omp simd reduction(+ : product)
        for (int64_t r = 0; r < 256; r++) {
            const float x_2 = r < 96 ? x[96 * i + r] : 0;
            const float h_2 = r >= 96 ? h[160 * i + r - 96] : 0;
            const float both = r < 96 ? x_2 : h_2;
            product += both * w[r];
        }
        gate[i] = fb_sigmoidf(product);
    }
}
