/* matmul_add_sigmoid_mul_tanh
 * holds: matmul ×2, add ×4, sigmoid ×3, mul ×3, tanh ×2
 * gemm: sums of products stay on chip until all that is made of them is stored */
extern "C" __global__ void __launch_bounds__(128)
matmul_add_sigmoid_mul_tanh_kernel(const fb_f16 *__restrict__ x, const fb_f16 *__restrict__ h, const fb_f16 *__restrict__ wi, const fb_f16 *__restrict__ wh, const fb_f16 *__restrict__ bi, const fb_f16 *__restrict__ bh, const fb_f16 *__restrict__ c, fb_f16 *__restrict__ add, fb_f16 *__restrict__ mul){
    using fb_at = int;
    using fb_tile = fb_gemm<fb_f16, true, 16, 64, 32, 16, 16, 3>;
    static_assert(fb_tile::THREADS == 128, "as launched");
    extern __shared__ __align__(16) unsigned char fb_shared[];
    const fb_at m0 = blockIdx.y * 16, n0 = blockIdx.x * 16;
    const int fb_i = threadIdx.x;
    const int fb_m = min(fb_i / 8, (int)(23 - m0)), fb_n = min(fb_i % 8 * 2, (int)(22 - n0));
    const bool fb_own = m0 + fb_i / 8 < 24 && n0 + fb_i % 8 * 2 < 24;
    const fb_at point = (m0 + fb_m) * 12 + (n0 + fb_n) / 2;
    const fb_at j0 = (point % 12) * 2;
    const fb_at i = point / 12;
    const auto fb_bi_2 = fb_load<2>(&bi[j0 + 72]);
    const auto fb_bh_2 = fb_load<2>(&bh[j0 + 72]);
    const auto fb_bi_3 = fb_load<2>(&bi[j0 + 24]);
    const auto fb_bh_3 = fb_load<2>(&bh[j0 + 24]);
    const auto fb_c_2 = fb_load<2>(&c[24 * i + j0]);
    const auto fb_bi_4 = fb_load<2>(&bi[j0]);
    const auto fb_bh_4 = fb_load<2>(&bh[j0]);
    const auto fb_bi_5 = fb_load<2>(&bi[j0 + 48]);
    const auto fb_bh_5 = fb_load<2>(&bh[j0 + 48]);
    fb_tile::registers fb_sums = {};
    fb_tile::accumulate<true, true>(
        fb_sums, fb_shared, 0, 24,
        [&](fb_at fb_m, fb_at fb_k) -> fb_piece<fb_f16> {
            const fb_at r = m0 + fb_m;
            const fb_at s = fb_k;
            return {&h[24 * r + s], m0 + fb_m < 24 && fb_k < 24};
        },
        [&](fb_at fb_k, fb_at fb_n) -> fb_piece<fb_f16> {
            const fb_at fb_strip = fb_n / 16, fb_column = n0 + fb_n % 16;
            const fb_at s = fb_k;
            const fb_at r = fb_column + fb_strip * 24;
            return {&wh[24 * r + s], fb_column < 24 && fb_k < 24};
        });
    fb_tile::accumulate<true, true>(
        fb_sums, fb_shared, 0, 40,
        [&](fb_at fb_m, fb_at fb_k) -> fb_piece<fb_f16> {
            const fb_at r = m0 + fb_m;
            const fb_at s = fb_k;
            return {&x[40 * r + s], m0 + fb_m < 24 && fb_k < 40};
        },
        [&](fb_at fb_k, fb_at fb_n) -> fb_piece<fb_f16> {
            const fb_at fb_strip = fb_n / 16, fb_column = n0 + fb_n % 16;
            const fb_at s = fb_k;
            const fb_at r = fb_column + fb_strip * 24;
            return {&wi[40 * r + s], fb_column < 24 && fb_k < 40};
        });
    float *const fb_c = fb_tile::spread(fb_sums, fb_shared);
    if (fb_own) {
        fb_pack<fb_f16, 2> fb_out0;
        fb_pack<fb_f16, 2> fb_out1;
#pragma unroll
        for (int v = 0; v < 2; v++) {
            const fb_at j = j0 + v;
            const float matmul = fb_c[fb_m * fb_tile::LINE + fb_n + v + 48];
            const float matmul_2 = fb_c[fb_m * fb_tile::LINE + fb_n + v + 16];
            const float matmul_3 = fb_c[fb_m * fb_tile::LINE + fb_n + v];
            const float matmul_4 = fb_c[fb_m * fb_tile::LINE + fb_n + v + 32];
            const float add_2 = matmul + fb_from_f16(fb_bi_2.at[v]);
            const float add_3 = add_2 + fb_from_f16(fb_bh_2.at[v]);
            const float sigmoid = fb_sigmoidh(add_3);
            const float add_4 = matmul_2 + fb_from_f16(fb_bi_3.at[v]);
            const float add_5 = add_4 + fb_from_f16(fb_bh_3.at[v]);
            const float sigmoid_2 = fb_sigmoidh(add_5);
            const float mul_2 = sigmoid_2 * fb_from_f16(fb_c_2.at[v]);
            const float add_6 = matmul_3 + fb_from_f16(fb_bi_4.at[v]);
            const float add_7 = add_6 + fb_from_f16(fb_bh_4.at[v]);
            const float sigmoid_3 = fb_sigmoidh(add_7);
            const float add_8 = matmul_4 + fb_from_f16(fb_bi_5.at[v]);
            const float add_9 = add_8 + fb_from_f16(fb_bh_5.at[v]);
            const float tanh_2 = tanhf(add_9);
            const float mul_3 = sigmoid_3 * tanh_2;
            const float add_10 = mul_2 + mul_3;
            const float tanh_3 = tanhf(add_10);
            const float mul_4 = sigmoid * tanh_3;
            fb_out0.at[v] = fb_to_f16(mul_4);
            fb_out1.at[v] = fb_to_f16(add_10);
        }
        fb_store(&mul[24 * i + j0], fb_out0);
        fb_store(&add[24 * i + j0], fb_out1);
    }
}
