// A block's tile of a contraction as kernels/gemm.cuh has it, on the warpgroup's tensor core instructions of compute capability
// 9.0 (target sm_90a), 16-bit operands whose pieces of 16 bytes are copied as they are. Stands on kernels/wgmma.cuh. (4096³ in bf16
// on an H200: 244 to 255 µs, where mma.sync takes 534. Operands that lie evenly come by kernels/gemm_tma.cuh: 214.)
//
// Two warpgroups multiply, 64 rows each by all N columns; the last one copies: steps of 64 of k, STAGES of them in shared memory
// at once. Only k may be outside of an operand: rows and columns beyond the last are others once more, and are not stored. A
// thread that multiplies sends off a step's multiplications and lets go of the step before, so that one is always under way; sums
// stay in registers until the product is over, and lie in shared memory afterwards, where all threads find them.

#ifndef FB_GEMM_WIDE
#define FB_GEMM_WIDE

template <class ELEM, int M, int N, int STAGES> struct fb_gemm_wide {
    static constexpr int STRIP = 64, WIDE = 128;
    static constexpr int GROUPS = M / 64, THREADS = WIDE * (GROUPS + 1), LINE = N + 8;
    static_assert(M % 64 == 0 && N % 64 == 0 && N <= 256 && STAGES >= 2, "whole instructions; one step comes while another is used");
    using parts = fb_chain_wide<ELEM, 64, N, N, STRIP, STRIP, STAGES>; // its ways to lay tiles and to multiply them
    using registers = float[N / 2];

    // In shared memory behind the tiles: a step has come (each copying thread arrives once for what it wrote and once for its
    // copies); all warps are done with it.
    struct counts {
        unsigned long long full[STAGES], empty[STAGES];
    };

    template <class A, class B, class FA, class FB>
    FB_DEVICE void copy(ELEM *tiles, counts *c, int first, int steps, FA a_of, FB b_of)
    {
#pragma unroll 1
        for (int s = 0; s < steps; s++) {
            ELEM *const stage = tiles + s % STAGES * (A::SIZE + B::SIZE);
            const int k0 = first + s * STRIP;
            if (s >= STAGES) fb_count_wait(&c->empty[s % STAGES], (s / STAGES - 1) & 1);
            if (s + 1 < steps) { // nothing lies beyond the last k, and no copy has to ask
                A::load(stage, [&](int m, int k) { return fb_inside<ELEM>(a_of(m, k0 + k).at); });
                B::load(stage + A::SIZE, [&](int n, int k) { return fb_inside<ELEM>(b_of(k0 + k, n).at); });
            } else {
                A::load(stage, [&](int m, int k) { return a_of(m, k0 + k); });
                B::load(stage + A::SIZE, [&](int n, int k) { return b_of(k0 + k, n); });
                fb_written_for_wide(); // zeros
            }
            fb_count_arrive(&c->full[s % STAGES]);
            fb_count_copies(&c->full[s % STAGES]);
        }
        fb_copies_wait<0>();
    }

    FB_DEVICE void done(counts *c, int s)
    {
        if (threadIdx.x % 32 == 0) fb_count_arrive(&c->empty[s % STAGES]);
    }

    template <class A, class B> FB_DEVICE void multiply(registers &sums, ELEM *tiles, counts *c, int steps, int group)
    {
#pragma unroll 1
        for (int s = 0; s < steps; s++) {
            ELEM *const stage = tiles + s % STAGES * (A::SIZE + B::SIZE);
            fb_count_wait(&c->full[s % STAGES], s / STAGES & 1);
            fb_written_for_wide(); // what was copied, too
            fb_wide_begin();
#pragma unroll
            for (int k = 0; k < STRIP; k += 16) parts::template multiply<A, B>(sums, stage, stage + A::SIZE, 64 * group, k, true);
            fb_wide_mark();
            fb_wide_wait<1>();
            if (s) done(c, s - 1);
        }
        fb_wide_wait<0>();
    }

    // As fb_gemm's: adds the product over first <= k < last.
    template <bool A_ALONG_K, bool B_ALONG_K, class FA, class FB>
    FB_DEVICE void accumulate(registers &sums, unsigned char *shared, int first, int last, FA a_of, FB b_of)
    {
        using A = typename parts::template operand<A_ALONG_K, M, STRIP>;
        using B = typename parts::template operand<B_ALONG_K, N, STRIP>;
        ELEM *const tiles = reinterpret_cast<ELEM *>(shared);
        counts *const c = reinterpret_cast<counts *>(tiles + STAGES * (A::SIZE + B::SIZE));
        const int steps = (last - first + STRIP - 1) / STRIP, group = threadIdx.x / WIDE;
        if (threadIdx.x == 0) {
            for (int i = 0; i < STAGES; i++) {
                fb_count_start(&c->full[i], 2 * WIDE);
                fb_count_start(&c->empty[i], 4 * GROUPS);
            }
        }
        fb_meet<THREADS>();
        if (group == GROUPS)
            copy<A, B>(tiles, c, first, steps, a_of, b_of);
        else
            multiply<A, B>(sums, tiles, c, steps, group);
        fb_meet<THREADS>(); // the tiles' memory is free for what follows
    }

    // The block's tile of C in shared memory, whole when it returns: c[m * LINE + n].
    FB_DEVICE float *spread(const registers &sums, unsigned char *shared)
    {
        float *const c = reinterpret_cast<float *>(shared);
        const int lane = threadIdx.x & 31, row = threadIdx.x / 32 * 16 + (lane >> 2);
        if (threadIdx.x < WIDE * GROUPS) {
#pragma unroll
            for (int i = 0; i < N / 2; i += 2)
                fb_store(c + (row + (i >> 1 & 1) * 8) * LINE + i / 4 * 8 + (lane & 3) * 2, fb_pack<float, 2>{sums[i], sums[i + 1]});
        }
        fb_meet<THREADS>();
        return c;
    }
};

#endif
