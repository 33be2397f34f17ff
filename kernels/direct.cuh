// A block's tile of a contraction of few rows, in single precision, by multiply-adds: a thread has all rows of its columns.
//
// The right operand is read where it lies, element by element, and each element meets all rows at once: nothing of it goes
// through shared memory, what follows of k alone is worked out once a warp, and what follows of a column once a product. The
// left operand lies in shared memory, K steps at a time, where a thread finds the rows of a step side by side.
//
// Windows come again channel by channel: element k = P c + t lies as many elements behind t as c channels take, and is
// inside where t is. Such steps are taken with c innermost, some of them written out: what says where the first is says it of
// all, and the others are so many bytes on, which costs no instruction.
//
// It is used as kernels/gemm.cuh's tiles are, by functions that say what an element of an operand is.

#ifndef FB_DIRECT
#define FB_DIRECT

template <int M, int N, int K, int THREADS_OF_BLOCK> struct fb_direct {
    static constexpr int THREADS = THREADS_OF_BLOCK, EACH = N / THREADS, LINE = N + 4, PIECE = 4;
    static_assert(M % PIECE == 0 && K % PIECE == 0 && N % THREADS == 0, "whole pieces and columns");

    using registers = float[M][EACH];

    FB_DEVICE float value_of(float x) { return x; }
    FB_DEVICE float value_of(const fb_word<float> &x) { return x.inside ? *x.at : 0; }
    FB_DEVICE fb_pack<float, PIECE> piece_of(const fb_inside<float> &x) { return fb_load<PIECE>(x.at); }
    FB_DEVICE fb_pack<float, PIECE> piece_of(const fb_piece<float> &x)
    {
        return x.inside ? fb_load<PIECE>(x.at) : fb_pack<float, PIECE>{};
    }

    // K steps of the left operand from k0 on, dealt round the threads; of(m, k): a piece, or an element.
    template <bool ALONG_K, class F> FB_DEVICE void load(float *a, int k0, F of)
    {
        if constexpr (fb_is_piece<decltype(of(0, 0))>::value) {
            for (int i = threadIdx.x; i < M * K / PIECE; i += THREADS) {
                const int m = ALONG_K ? i % M : i % (M / PIECE) * PIECE, k = ALONG_K ? i / M * PIECE : i / (M / PIECE);
                const fb_pack<float, PIECE> found = piece_of(of(m, k0 + k));
#pragma unroll
                for (int e = 0; e < PIECE; e++) a[(k + (ALONG_K ? e : 0)) * M + m + (ALONG_K ? 0 : e)] = found.at[e];
            }
        } else {
            for (int i = threadIdx.x; i < M * K; i += THREADS) a[i] = value_of(of(i % M, k0 + i / M));
        }
    }

    // Adds one step: `a` holds the rows of it, b the thread's columns.
    FB_DEVICE void add(registers &sums, const float *a, const float (&b)[EACH])
    {
#pragma unroll
        for (int m = 0; m < M; m += PIECE) {
            const fb_pack<float, PIECE> rows = fb_load<PIECE>(a + m);
#pragma unroll
            for (int r = 0; r < PIECE; r++)
#pragma unroll
                for (int e = 0; e < EACH; e++) sums[m + r][e] += rows.at[r] * b[e];
        }
    }

    // Adds the product over first <= k < last. All threads of the block call it.
    template <bool A_ALONG_K, bool B_ALONG_K, class FA, class FB>
    FB_DEVICE void accumulate(registers &sums, unsigned char *shared, int first, int last, FA a_of, FB b_of)
    {
        float *const a = reinterpret_cast<float *>(shared);
        for (int k0 = first; k0 < last; k0 += K) {
            fb_meet<THREADS>(); // everyone is done with what lies there
            load<A_ALONG_K>(a, k0, a_of);
            fb_meet<THREADS>();
            const int steps = last - k0 < K ? last - k0 : K;
#pragma unroll 8
            for (int k = 0; k < steps; k++) {
                float b[EACH];
#pragma unroll
                for (int e = 0; e < EACH; e++) b[e] = value_of(b_of(k0 + k, (int)threadIdx.x + e * THREADS));
                add(sums, a + k * M, b);
            }
        }
        fb_meet<THREADS>(); // the memory is free for what follows
    }

    // The same over all k = P c + t, c < last, of b_of(c, t, n); TOGETHER of c are written out, and divide `last`.
    template <bool A_ALONG_K, int P, int TOGETHER, class FA, class FB>
    FB_DEVICE void accumulate_periods(registers &sums, unsigned char *shared, int last, FA a_of, FB b_of)
    {
        constexpr int PERIODS = K / (P * TOGETHER) * TOGETHER; // that lie in shared memory
        static_assert(PERIODS > 0, "whole periods");
        float *const a = reinterpret_cast<float *>(shared);
        for (int first = 0; first < last; first += PERIODS) {
            fb_meet<THREADS>(); // everyone is done with what lies there
            load<A_ALONG_K>(a, first * P, a_of);
            fb_meet<THREADS>();
            const int end = last - first < PERIODS ? last - first : PERIODS;
            for (int c0 = 0; c0 < end; c0 += TOGETHER)
#pragma unroll 1
                for (int t = 0; t < P; t++)
#pragma unroll
                    for (int c = 0; c < TOGETHER; c++) {
                        float b[EACH];
#pragma unroll
                        for (int e = 0; e < EACH; e++)
                            b[e] = value_of(b_of(first + c0 + c, t, (int)threadIdx.x + e * THREADS));
                        add(sums, a + ((c0 + c) * P + t) * M, b);
                    }
        }
        fb_meet<THREADS>(); // the memory is free for what follows
    }

    FB_DEVICE void scale(registers &sums, float by)
    {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int e = 0; e < EACH; e++) sums[m][e] *= by;
    }

    // The block's tile of sums in shared memory, whole when it returns.
    FB_DEVICE float *spread(const registers &sums, unsigned char *shared)
    {
        float *const c = reinterpret_cast<float *>(shared);
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int e = 0; e < EACH; e++) c[m * LINE + threadIdx.x + e * THREADS] = sums[m][e];
        fb_meet<THREADS>();
        return c;
    }
};

#endif
