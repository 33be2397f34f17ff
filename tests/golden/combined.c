/* layer_norm_tanh_matmul_add_relu
 * holds: mean, centred, square, variance, scale, normed, tanh, matmul, add, relu
 * reduce: rows are reduced, and all of a row's work is done while it is at hand */
void layer_norm_tanh_matmul_add_relu_kernel(const fb_kernel_args *args)
{
    const float *restrict input_data = args->buffers[0];
    const float *restrict weight = args->buffers[1];
    const float *restrict bias = args->buffers[2];
    float *restrict relu = args->buffers[3];

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < 16384; i++) {
        float mean = 0;
#pragma omp simd reduction(+ : mean)
        for (int64_t r = 0; r < 256; r++) {
            mean += input_data[256 * i + r];
        }
        mean /= 256.0f;
        float variance = 0;
#pragma omp simd reduction(+ : variance)
        for (int64_t r = 0; r < 256; r++) {
            const float centred = input_data[256 * i + r] - mean;
            const float square = centred * centred;
            variance += square;
        }
        variance /= 256.0f;
        const float scale = fb_rsqrtf(variance);
        float matmul = 0;
#pragma omp simd reduction(+ : matmul)
        for (int64_t r = 0; r < 256; r++) {
            const float centred = input_data[256 * i + r] - mean;
            const float normed = centred * scale;
            const float tanh = fb_tanhf(normed);
            matmul += tanh * weight[r];
        }
        const float add = matmul + bias[0];
        relu[i] = add < 0 ? 0 : add;
    }
}
