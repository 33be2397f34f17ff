// Two contractions in one kernel: f(A · B0) · B1 for a block's rows of A, the rows between them never in memory.
//
// Columns of the first product are rows of B1: a tile of them at a time is computed, passed through f, and multiplied
// into the sums of the second, which stay in registers. With ONLINE, f's results are scores, and their softmax over all
// columns is multiplied: with a running maximum and a running sum for each row, by which what was summed so far is
// scaled when the maximum grows (Milakov and Gimelshein 2018; Dao et al. 2022).
//
//     using chain = fb_chain<fb_f16, true, 128, 16, 64, 256, 256, 256, 2, false>;
//     chain::registers sums = {};
//     chain::run<true, false, false>(sums, fb_shared,
//         [&](int m, int k) { … }, [&](int k, int n) { … },      // A and B0, as kernels/gemm.cuh takes operands
//         [&](int k, int n) { … },                               // B1: its k is B0's n
//         [&](int m, int n, float sum) { … });                   // f, of the first product's element
//     float *c = chain::second::spread(sums, fb_shared);     // c[m * chain::second::LINE + n]
//
// What a running softmax rounds more than one over whole rows: a factor exp(old - new maximum) whenever the maximum of a
// row grows, at most once a tile, 5 roundings each. The sum of n products that follows is allowed 8 √n roundings
// (fb_bound_gamma), which covers growth in every tile up to n = (8 · TILE / 5)², some 10,000 columns at 64 a tile; scores
// in no particular order grow log n times.
//
// On tensor cores with 16-bit operands the results of f are already where the second product wants its left
// operand, in the same thread's registers; others go through shared memory, where only the own warp reads them.

#ifndef FB_CHAIN
#define FB_CHAIN

FB_DEVICE void fb_put(fb_f16 *to, float x) { *to = fb_to_f16(x); }
FB_DEVICE void fb_put(fb_bf16 *to, float x) { *to = fb_to_bf16(x); }
FB_DEVICE void fb_put(float *to, float x) { *to = x; }
FB_DEVICE void fb_put(double *to, double x) { *to = x; }

// Two neighbours in one register, the first in the low half.
FB_DEVICE unsigned fb_both(float low, float high, fb_f16) { return fb_to_f16(low).bits | (unsigned)fb_to_f16(high).bits << 16; }
FB_DEVICE unsigned fb_both(float low, float high, fb_bf16) { return fb_to_bf16(low).bits | (unsigned)fb_to_bf16(high).bits << 16; }

// Of 16-bit scores the rounding alone moves exp by far more than multiplying by 1 / ln 2 first does.
FB_DEVICE float fb_exp_of(float x, fb_f16) { return exp2f(x * 1.44269504088896341f); }
FB_DEVICE float fb_exp_of(float x, fb_bf16) { return exp2f(x * 1.44269504088896341f); }
FB_DEVICE float fb_exp_of(float x, float) { return expf(x); }
FB_DEVICE double fb_exp_of(double x, double) { return exp(x); }

// ROWS: of a block, WARP_ROWS of a warp. TILE: columns of the first product at a time, WIDTH of them altogether. DEPTH:
// k of the first product, in whole fragments; 0: there is none, and f reads memory. COLUMNS: of the second, likewise.
template <class ELEM, bool TENSOR, int ROWS, int WARP_ROWS, int TILE, int WIDTH, int DEPTH, int COLUMNS, int STAGES, bool ONLINE>
struct fb_chain {
    using first = fb_gemm<ELEM, TENSOR, ROWS, TILE, DEPTH ? DEPTH : 16, WARP_ROWS, TILE, 2>;
    using second = fb_gemm<ELEM, TENSOR, ROWS, COLUMNS, TILE, WARP_ROWS, COLUMNS, 2>;
    using sum = typename first::sum;
    using registers = typename second::registers;
    static constexpr int THREADS = first::THREADS, MI = first::MI, NI = first::NI, SUMS = first::SUMS;
    static constexpr bool IN_REGISTERS = first::HALVES;
    static constexpr int SLOTS = TENSOR ? 2 * MI : MI;   // rows that a thread has a part of
    static constexpr int LANES = TENSOR ? 4 : 8;         // threads that have parts of the same row
    using between = typename second::template operand<true, ROWS>; // f's results in shared memory

    FB_DEVICE int warp_row() { return threadIdx.x / 32 * WARP_ROWS; }
    FB_DEVICE int row_of(int i, int e)
    {
        const int lane = threadIdx.x & 31;
        return warp_row() + (TENSOR ? 16 * i + (lane >> 2) + (e >> 1) * 8 : 4 * i + (lane >> 3));
    }
    FB_DEVICE int column_of(int n, int e)
    {
        const int lane = threadIdx.x & 31;
        return 8 * n + (TENSOR ? (lane & 3) * 2 + (e & 1) : lane & 7);
    }
    FB_DEVICE int slot_of(int i, int e) { return TENSOR ? 2 * i + (e >> 1) : i; }

    template <class OP> FB_DEVICE sum across(sum x)
    {
#pragma unroll
        for (int mask = LANES / 2; mask > 0; mask /= 2) x = OP::of(x, fb_shuffle(x, mask));
        return x;
    }

    // What softmax needs of a row: the largest score so far, and this thread's part of the sum of exp(score - largest).
    struct running {
        sum largest[SLOTS], total[SLOTS];
    };

    // Scores become exp(score - largest), and all sums so far are brought to the same largest.
    FB_DEVICE void soften(typename first::registers &s, registers &sums, running &r)
    {
        sum base[SLOTS], factor[SLOTS];
        bool grown = false;
#pragma unroll
        for (int i = 0; i < SLOTS; i++) base[i] = r.largest[i];
#pragma unroll
        for (int i = 0; i < MI; i++)
#pragma unroll
            for (int n = 0; n < NI; n++)
#pragma unroll
                for (int e = 0; e < SUMS; e++) base[slot_of(i, e)] = fb_larger::of(base[slot_of(i, e)], s[i][n][e]);
#pragma unroll
        for (int i = 0; i < SLOTS; i++) {
            const sum was = r.largest[i], now = across<fb_larger>(base[i]);
            base[i] = now == -(sum)INFINITY ? 0 : now; // nothing seen of the row yet, or nothing to see
            factor[i] = was == now ? 1 : fb_exp_of(was - base[i], ELEM());
            grown |= was != now;
            r.largest[i] = now;
            r.total[i] *= factor[i];
        }
        if (grown) {
#pragma unroll
            for (int i = 0; i < MI; i++)
#pragma unroll
                for (int n = 0; n < second::NI; n++)
#pragma unroll
                    for (int e = 0; e < SUMS; e++) sums[i][n][e] *= factor[slot_of(i, e)];
        }
#pragma unroll
        for (int i = 0; i < MI; i++)
#pragma unroll
            for (int n = 0; n < NI; n++)
#pragma unroll
                for (int e = 0; e < SUMS; e++) {
                    s[i][n][e] = fb_exp_of(s[i][n][e] - base[slot_of(i, e)], ELEM());
                    r.total[slot_of(i, e)] += s[i][n][e];
                }
    }

    // Adds what f made of a tile, times rows of B1, to the sums.
    template <class B1> FB_DEVICE void multiply(registers &sums, const typename first::registers &s, ELEM *b, ELEM *left)
    {
        if constexpr (IN_REGISTERS) {
            const int lane = threadIdx.x & 31, j = lane >> 3, r = lane & 7;
#pragma unroll
            for (int k = 0; k < TILE; k += 16) {
                unsigned fa[MI][4];
#pragma unroll
                for (int i = 0; i < MI; i++)
#pragma unroll
                    for (int q = 0; q < 4; q++) {
                        const float *two = &s[i][k / 8 + (q >> 1)][(q & 1) * 2];
                        fa[i][q] = fb_both(two[0], two[1], ELEM());
                    }
#pragma unroll
                for (int n = 0; n < second::NI; n += 2) {
                    unsigned two[4]; // the fragments of two neighbours in n
                    constexpr bool along = B1::ALONG;
                    fb_load_fragment<!along>(two, along ? B1::element(b, 8 * n + (j >> 1) * 8 + r, k + (j & 1) * 8)
                                                        : B1::element(b, 8 * n + (j >> 1) * 8, k + (j & 1) * 8 + r));
                    const unsigned low[2] = {two[0], two[1]}, high[2] = {two[2], two[3]};
#pragma unroll
                    for (int i = 0; i < MI; i++) {
                        fb_multiply(sums[i][n], fa[i], low, ELEM());
                        fb_multiply(sums[i][n + 1], fa[i], high, ELEM());
                    }
                }
            }
        } else {
#pragma unroll
            for (int i = 0; i < MI; i++)
#pragma unroll
                for (int n = 0; n < NI; n++)
#pragma unroll
                    for (int e = 0; e < SUMS; e++) fb_put(between::element(left, row_of(i, e), column_of(n, e)), s[i][n][e]);
            __syncwarp();
            second::template multiply<between, B1>(sums, left, b, warp_row(), 0);
        }
    }

    template <bool A_ALONG_K, bool B0_ALONG_K, bool B1_ALONG_K, class FA, class F0, class F1, class F>
    FB_DEVICE void run(registers &sums, unsigned char *shared, FA a_of, F0 b0_of, F1 b1_of, F f)
    {
        using A = typename first::template operand<A_ALONG_K, ROWS>;
        using B0 = typename first::template operand<B0_ALONG_K, TILE>;
        using B1 = typename second::template operand<B1_ALONG_K, COLUMNS>;
        constexpr int TILES = (WIDTH + TILE - 1) / TILE, B0_SIZE = DEPTH ? B0::SIZE : 0;
        ELEM *const a = reinterpret_cast<ELEM *>(shared), *const b0 = a + (DEPTH ? A::SIZE : 0);
        ELEM *const b1 = b0 + STAGES * B0_SIZE, *const left = b1 + STAGES * B1::SIZE;
        auto load = [&](int t) {
            const int stage = t % STAGES;
            if constexpr (DEPTH > 0)
                B0::load(b0 + stage * B0_SIZE, 0, [&](int n, int k) { return b0_of(k, t * TILE + n); });
            B1::load(b1 + stage * B1::SIZE, 0, [&](int n, int k) { return b1_of(t * TILE + k, n); });
            fb_copies_mark();
        };
        running r;
#pragma unroll
        for (int i = 0; i < SLOTS; i++) r.largest[i] = -(sum)INFINITY, r.total[i] = 0;
        if constexpr (DEPTH > 0) A::load(a, 0, a_of);
        if constexpr (STAGES > 1) load(0);
        for (int t = 0; t < TILES; t++) {
            if constexpr (STAGES == 1) {
                if (t) __syncthreads(); // everyone is done with the tile before
                load(t);
            }
            fb_copies_wait<0>();
            __syncthreads(); // tile t has come, and everyone is done with the one that the next load overwrites
            if constexpr (STAGES > 1)
                if (t + 1 < TILES) load(t + 1);
            typename first::registers s = {};
            if constexpr (DEPTH > 0) first::template multiply<A, B0>(s, a, b0 + t % STAGES * B0_SIZE, warp_row(), 0);
#pragma unroll
            for (int i = 0; i < MI; i++)
#pragma unroll
                for (int n = 0; n < NI; n++)
#pragma unroll
                    for (int e = 0; e < SUMS; e++) {
                        const int at = t * TILE + column_of(n, e);
                        const bool inside = WIDTH % TILE == 0 || at < WIDTH;
                        const sum x = f(row_of(i, e), inside ? at : WIDTH - 1, s[i][n][e]);
                        s[i][n][e] = inside ? x : ONLINE ? -(sum)INFINITY : 0;
                    }
            if constexpr (ONLINE) soften(s, sums, r);
            multiply<B1>(sums, s, b1 + t % STAGES * B1::SIZE, left);
        }
        __syncthreads(); // the tiles' memory is free for what follows
        if constexpr (ONLINE) {
#pragma unroll
            for (int i = 0; i < SLOTS; i++) r.total[i] = across<fb_plus>(r.total[i]);
#pragma unroll
            for (int i = 0; i < MI; i++)
#pragma unroll
                for (int n = 0; n < second::NI; n++)
#pragma unroll
                    for (int e = 0; e < SUMS; e++) sums[i][n][e] /= r.total[slot_of(i, e)];
        }
    }
};

// The same where a block's rows of what is between the products lie in shared memory whole: then both products are those of
// kernels/gemm.cuh, each warp has a part of the columns, and a thread holds the sums of one product at a time.
//
// ROWS, WIDTH (of the first product) and COLUMNS (of the second) are dealt to WARPS_M × WARPS_N warps; DEPTH is the first
// product's k, K a step of either.
template <class ELEM, bool TENSOR, int ROWS, int WIDTH, int INSIDE, int DEPTH, int COLUMNS, int K, int WARPS_M, int WARPS_N, int STAGES>
struct fb_chain_whole {
    using first = fb_gemm<ELEM, TENSOR, ROWS, WIDTH, K, ROWS / WARPS_M, WIDTH / WARPS_N, STAGES>;
    using second = fb_gemm<ELEM, TENSOR, ROWS, COLUMNS, K, ROWS / WARPS_M, COLUMNS / WARPS_N, STAGES>;
    using middle = typename fb_gemm<ELEM, TENSOR, ROWS, COLUMNS, WIDTH, ROWS / WARPS_M, COLUMNS / WARPS_N, 2>::template operand<true, ROWS>;
    using registers = typename second::registers;
    static constexpr int THREADS = first::THREADS;
    static_assert(first::HALVES && WIDTH % K == 0, "two neighbours are one register");

    template <bool A_ALONG_K, bool B0_ALONG_K, bool B1_ALONG_K, class FA, class F0, class F1, class F>
    FB_DEVICE void run(registers &sums, unsigned char *shared, FA a_of, F0 b0_of, F1 b1_of, F f)
    {
        ELEM *const between = reinterpret_cast<ELEM *>(shared), *const tiles = between + middle::SIZE;
        typename first::registers s = {};
        first::template accumulate<A_ALONG_K, B0_ALONG_K>(s, reinterpret_cast<unsigned char *>(tiles), 0, DEPTH, a_of, b0_of,
                                                         blockIdx.x % ((DEPTH + K - 1) / K));
        second::template accumulate_right<middle, B1_ALONG_K>(sums, between, tiles, WIDTH, b1_of, [&] {
            const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
            const int row = warp / WARPS_N * (ROWS / WARPS_M) + (lane >> 2), column = warp % WARPS_N * (WIDTH / WARPS_N) + (lane & 3) * 2;
#pragma unroll
            for (int n = 0; n < first::NI; n++)
#pragma unroll
                for (int i = 0; i < first::MI; i++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        const int at = column + 8 * n + (e & 1);
                        const bool inside = INSIDE == WIDTH || at < INSIDE;
                        const float x = f(row + 16 * i + (e >> 1) * 8, inside ? at : INSIDE - 1, s[i][n][e]);
                        s[i][n][e] = inside ? x : 0;
                    }
#pragma unroll
            for (int n = 0; n < first::NI; n++)
#pragma unroll
                for (int i = 0; i < first::MI; i++)
#pragma unroll
                    for (int h = 0; h < 2; h++)
                        *reinterpret_cast<unsigned *>(middle::element(between, row + 16 * i + 8 * h, column + 8 * n)) =
                            fb_both(s[i][n][2 * h], s[i][n][2 * h + 1], ELEM());
        });
    }
};

#endif
