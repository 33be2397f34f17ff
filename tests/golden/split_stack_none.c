/* layer_norm_mean
 * holds: mean
 * reduce: rows are reduced, and all of a row's work is done while it is at hand */
void layer_norm_mean_kernel(const fb_kernel_args *args)
{
    const float *restrict input_data = args->buffers[0];
    float *restrict mean = args->buffers[1];

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < 1024; i++) {
        float mean_2 = 0;
#pragma omp simd reduction(+ : mean_2)
        for (int64_t r = 0; r < 256; r++) {
            mean_2 += input_data[256 * i + r];
        }
        mean_2 /= 256.0f;
        mean[i] = mean_2;
    }
}

/* layer_norm_centred
 * holds: centred
 * pointwise: every element by itself */
void layer_norm_centred_kernel(const fb_kernel_args *args)
{
    const float *restrict input_data = args->buffers[0];
    const float *restrict mean = args->buffers[1];
    float *restrict centred = args->buffers[2];

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < 1024; i++) {
#pragma omp simd
        for (int64_t j = 0; j < 256; j++) {
            centred[256 * i + j] = input_data[256 * i + j] - mean[i];
        }
    }
}

/* layer_norm_square
 * holds: square
 * pointwise: every element by itself */
void layer_norm_square_kernel(const fb_kernel_args *args)
{
    const float *restrict centred = args->buffers[0];
    float *restrict square = args->buffers[1];

#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < 262144; i++) {
        const float centred_2 = centred[i];
        square[i] = centred_2 * centred_2;
    }
}

/* layer_norm_variance
 * holds: variance
 * reduce: rows are reduced, and all of a row's work is done while it is at hand */
void layer_norm_variance_kernel(const fb_kernel_args *args)
{
    const float *restrict square = args->buffers[0];
    float *restrict variance = args->buffers[1];

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < 1024; i++) {
        float variance_2 = 0;
#pragma omp simd reduction(+ : variance_2)
        for (int64_t r = 0; r < 256; r++) {
            variance_2 += square[256 * i + r];
        }
        variance_2 /= 256.0f;
        variance[i] = variance_2;
    }
}

/* layer_norm_scale
 * holds: scale
 * pointwise: every element by itself */
void layer_norm_scale_kernel(const fb_kernel_args *args)
{
    const float *restrict variance = args->buffers[0];
    float *restrict scale = args->buffers[1];

#pragma omp simd
    for (int64_t i = 0; i < 1024; i++) {
        scale[i] = fb_rsqrtf(variance[i]);
    }
}

/* layer_norm_normed
 * holds: normed
 * pointwise: every element by itself */
void layer_norm_normed_kernel(const fb_kernel_args *args)
{
    const float *restrict centred = args->buffers[0];
    const float *restrict scale = args->buffers[1];
    float *restrict normed = args->buffers[2];

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < 1024; i++) {
#pragma omp simd
        for (int64_t j = 0; j < 256; j++) {
            normed[256 * i + j] = centred[256 * i + j] * scale[i];
        }
    }
}

/* tanh
 * holds: tanh
 * pointwise: every element by itself */
void tanh_kernel(const fb_kernel_args *args)
{
    const float *restrict normed = args->buffers[0];
    float *restrict tanh = args->buffers[1];

#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < 262144; i++) {
        tanh[i] = fb_tanhf(normed[i]);
    }
}

/* stack
 * holds: stack
 * copy: what no index arithmetic can stand for */
void stack_kernel(const fb_kernel_args *args)
{
    const float *restrict tanh = args->buffers[0];
    const float *restrict tanh_2 = args->buffers[1];
    const float *restrict tanh_3 = args->buffers[2];
    const float *restrict tanh_4 = args->buffers[3];
    const float *restrict tanh_5 = args->buffers[4];
    const float *restrict tanh_6 = args->buffers[5];
    const float *restrict tanh_7 = args->buffers[6];
    const float *restrict tanh_8 = args->buffers[7];
    const float *restrict tanh_9 = args->buffers[8];
    const float *restrict tanh_10 = args->buffers[9];
    const float *restrict tanh_11 = args->buffers[10];
    const float *restrict tanh_12 = args->buffers[11];
    const float *restrict tanh_13 = args->buffers[12];
    const float *restrict tanh_14 = args->buffers[13];
    const float *restrict tanh_15 = args->buffers[14];
    const float *restrict tanh_16 = args->buffers[15];
    float *restrict stack = args->buffers[16];

    const float *const tanh_of[16] = {tanh, tanh_2, tanh_3, tanh_4, tanh_5, tanh_6, tanh_7, tanh_8,
            tanh_9, tanh_10, tanh_11, tanh_12, tanh_13, tanh_14, tanh_15, tanh_16};
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t member = 0; member < 16; member++) {
        for (int64_t i0 = 0; i0 < 262144; i0 += 4096) {
#pragma omp simd
            for (int64_t i = i0; i < i0 + 4096; i++) {
                const float tanh_17 = tanh_of[member][i];
                stack[262144 * member + i] = tanh_17;
            }
        }
    }
}

/* matmul
 * holds: matmul
 * reduce: rows are reduced, and all of a row's work is done while it is at hand */
void matmul_kernel(const fb_kernel_args *args)
{
    const float *restrict weight = args->buffers[0];
    const float *restrict stack = args->buffers[1];
    float *restrict matmul = args->buffers[2];

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < 16384; i++) {
        float matmul_2 = 0;
#pragma omp simd reduction(+ : matmul_2)
        for (int64_t r = 0; r < 256; r++) {
            matmul_2 += stack[256 * i + r] * weight[r];
        }
        matmul[i] = matmul_2;
    }
}

/* add
 * holds: add
 * pointwise: every element by itself */
void add_kernel(const fb_kernel_args *args)
{
    const float *restrict bias = args->buffers[0];
    const float *restrict matmul = args->buffers[1];
    float *restrict add = args->buffers[2];

#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < 16384; i++) {
        add[i] = matmul[i] + bias[0];
    }
}

/* relu
 * holds: relu
 * pointwise: every element by itself */
void relu_kernel(const fb_kernel_args *args)
{
    const float *restrict add = args->buffers[0];
    float *restrict relu = args->buffers[1];

#pragma omp simd
    for (int64_t i = 0; i < 16384; i++) {
        const float add_2 = add[i];
        relu[i] = add_2 < 0 ? 0 : add_2;
    }
}
