/* embedding_gelu
 * holds: row, gelu
 * pointwise: every element by itself */
void embedding_gelu_kernel(const fb_kernel_args *args)
{
    const fb_bf16 *restrict table = args->buffers[0];
    const int64_t *restrict token = args->buffers[1];
    fb_bf16 *restrict gelu = args->buffers[2];

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < 129; i++) {
        const int64_t index_1 = i - 1 >= 0 ? token[i - 1] : 0;
#pragma omp simd
        for (int64_t j = 0; j < 64; j++) {
            const float table_2 = i - 1 >= 0 && index_1 >= 0 && index_1 < 1000 ? fb_from_bf16(table[64 * index_1 + j]) : 0;
            const float row = index_1 >= 0 && index_1 < 1000 ? table_2 : 0.0f;
            const float row_2 = i - 1 >= 0 ? row : 0.0f;
            gelu[64 * i + j] = fb_to_bf16(fb_geluf(row_2));
        }
    }
}
