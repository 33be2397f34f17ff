// A kernel's tiles of a contraction, one after the other in blocks that stay: the warpgroup's tensor core instructions of
// compute capability 9.0 (target sm_90a), 16-bit operands whose rows lie evenly, so that the copy engine brings them by tensor
// maps. Stands on kernels/wgmma.cuh.
//
// Two warpgroups multiply, 64 rows each by all N columns. One warp of the last warpgroup asks for what they want, STAGES steps of
// 64 of k ahead and past the end of a tile, so that the next one's operands come while sums are stored; and for what is loaded
// beside the sums, into the second cache. Each warp makes what becomes of its 16 rows of sums in registers, or, where a thread
// stores one element or two, through a piece of shared memory of its own, PART columns of every strip at a time.
//
// TOGETHER blocks, a cluster, have neighbouring rows of tiles and the same columns: each brings its share of the right operand
// for all of them. A stage is free when all warps of the cluster are done with it; they say so without a fence, for what was
// there was only read. (With one, .release.cluster, 4096³ took 340 µs on an H200, and 173 to 214 without.)
//
// Where tiles are few, SPLIT blocks, a cluster, share the steps of one. Each then gets from all of them the sums of its OWN columns
// of every strip, always added in the same order, and makes what becomes of these.
//
// What is beyond an operand comes as zero.

#ifndef FB_GEMM_TMA
#define FB_GEMM_TMA

// Where an operand lies: made by the kernel itself, so that who launches it need not know of it.
struct __align__(128) fb_tensor_map {
    unsigned words[32];
};

// Elements of 16 bits: so many side by side, such lines, and batches of these; how far apart they begin, in bytes. A copy takes a
// box of 64 × `box`.
struct fb_tensor_shape {
    int inner, lines, batches;
    long long line, batch;
    int box;
};

// ---- PTX -----------------------------------------------------------------------------------------------------------

// Bytes of a stride as tensormap.replace wants them; before CUDA 12.5 without their last four bits, as CUTLASS tells.
#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 5)
#define FB_TENSOR_STRIDE(bytes) (bytes)
#else
#define FB_TENSOR_STRIDE(bytes) ((bytes) >> 4)
#endif

// A warp makes the map in shared memory and puts it where copies may read it (PTX ISA, tensormap.replace: from zeros, all of its
// fields). The swizzle is wgmma's of 128 bytes.
FB_DEVICE void fb_tensor_describe(fb_tensor_map *made, fb_tensor_map *to, const void *at, const fb_tensor_shape &x)
{
    const unsigned map = fb_shared_address(made);
    made->words[threadIdx.x % 32] = 0;
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
        asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;\n"
                     "tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], 2;\n" // dimensions less one
                     "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, %2;\n"
                     "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %3;\n"
                     "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 2, %4;\n"
                     "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %5;\n"
                     "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 1, %6;\n"
                     "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 0, 64;\n"
                     "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 1, %7;\n"
                     "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 2, 1;\n"
                     "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 0, 1;\n"
                     "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 1, 1;\n"
                     "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 2, 1;\n"
                     "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], 1;\n" // 16 bits
                     "tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%0], 0;\n"
                     "tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 3;\n"
                     "tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 0;" ::"r"(map),
                     "l"(at), "r"(x.inner), "r"(x.lines), "r"(x.batches), "l"(FB_TENSOR_STRIDE(x.line)), "l"(FB_TENSOR_STRIDE(x.batch)), "r"(x.box)
                     : "memory");
    }
    __syncwarp();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(to),
                 "r"(map)
                 : "memory");
}

// Before a thread copies by a map that another one has made.
FB_DEVICE void fb_tensor_see(const fb_tensor_map *map)
{
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

// The warpgroup that brings meets.
FB_DEVICE void fb_bringing_meet()
{
    asm volatile("bar.sync 1, 128;" ::: "memory");
}

// A box into shared memory, and its bytes into a count of this block; outside of the tensor all is zero.
FB_DEVICE void fb_tensor_bring(void *to, const fb_tensor_map *map, int inner, int line, int batch, unsigned long long *count)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
                     fb_shared_address(to)),
                 "l"(map), "r"(inner), "r"(line), "r"(batch), "r"(fb_shared_address(count))
                 : "memory");
}

// The same for the first BLOCKS of the cluster: to the same place of each, and into the count there.
template <int BLOCKS>
FB_DEVICE void fb_tensor_bring_all(void *to, const fb_tensor_map *map, int inner, int line, int batch, unsigned long long *count)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(fb_shared_address(to)),
                 "l"(map), "r"(inner), "r"(line), "r"(batch), "r"(fb_shared_address(count)), "h"((unsigned short)((1 << BLOCKS) - 1))
                 : "memory");
}

// Asks for a line of memory, into the second cache.
FB_DEVICE void fb_touch(const void *at)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

// A count of arrivals and of bytes to come (mbarrier); blocks of the cluster arrive, too.
FB_DEVICE void fb_stage_start(unsigned long long *count, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\nfence.mbarrier_init.release.cluster;" ::"r"(fb_shared_address(count)),
                 "r"(arrivals)
                 : "memory");
}

FB_DEVICE void fb_stage_expect(unsigned long long *count, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(fb_shared_address(count)), "r"(bytes) : "memory");
}

FB_DEVICE void fb_stage_free(unsigned long long *count, unsigned rank)
{
    asm volatile("{\n.reg .b32 count;\nmapa.shared::cluster.u32 count, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [count];\n}" ::"r"(fb_shared_address(count)),
                 "r"(rank)
                 : "memory");
}

FB_DEVICE void fb_stage_wait(unsigned long long *count, int parity)
{
    fb_count_wait(count, parity);
}

// A warpgroup's registers: what those that only ask for copies give back, those that multiply take.
template <int N> FB_DEVICE void fb_stage_fewer_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> FB_DEVICE void fb_stage_more_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

// ---- end of PTX ----------------------------------------------------------------------------------------------------

// Which tile a block has in its cluster's turn: row and column of tiles, and batch.
struct fb_tile_place {
    int row, column, batch;
};

template <class T> struct fb_two {
    T low, high;
};

// Opens I … COUNT - 1, then closes them: what each loads is under way while the others open.
template <int I, int COUNT, class O, class C> FB_DEVICE void fb_ahead(O open, C close)
{
    const auto late = open(I);
    if constexpr (I + 1 < COUNT) fb_ahead<I + 1, COUNT>(open, close);
    close(I, late);
}

template <class ELEM, int M, int N, int STRIPS, bool A_ALONG_K, bool B_ALONG_K, int STAGES, int TOGETHER, int SPLIT>
struct fb_gemm_tma {
    static constexpr int STEP = 64, WIDE = 128, BOX = 64;
    static constexpr int GROUPS = M / 64, THREADS = WIDE * (GROUPS + 1), STRIP = N / STRIPS;
    static constexpr int PART = 32 / STRIPS, LINE = STRIPS * PART + 8, OWN = STRIP / SPLIT;
    static_assert(M % 64 == 0 && N % 64 == 0 && N <= 256 && STAGES >= 2, "whole instructions; one step comes while another is used");
    static_assert(STRIP % BOX == 0 && OWN % PART == 0 && M <= 256, "a copy brings of one strip alone");
    static_assert(STRIP % SPLIT == 0 && (SPLIT == 1 || TOGETHER == 1), "a cluster shares operands or steps");
    using parts = fb_chain_wide<ELEM, 64, N, N, STEP, STEP, STAGES>; // its ways to lay tiles and to multiply them
    using A = typename parts::template operand<A_ALONG_K, M, STEP>;
    using B = typename parts::template operand<B_ALONG_K, N, STEP>;
    using registers = float[N / 2];
    using owned = float[N / SPLIT / 2];

    // A copy has LINES lines of the right operand: a strip's, or a block's share of one.
    static constexpr int B_LINES = !B_ALONG_K ? STEP : STRIP < N / TOGETHER ? STRIP : N / TOGETHER;
    static constexpr int A_LINES = A_ALONG_K ? M : STEP, SIZE = A::SIZE + B::SIZE;
    static constexpr int B_BOXES = B::SIZE / (BOX * B_LINES), B_OUTER = B_ALONG_K ? B_LINES : BOX;
    static_assert(B_BOXES % TOGETHER == 0, "each block brings as much");

    // In shared memory behind the tiles and the warps' pieces: tensor maps while they are made, one a warp; then counts: a step has come; all
    // warps of the cluster are done with it.
    struct counts {
        unsigned long long full[STAGES], empty[STAGES];
    };

    FB_DEVICE ELEM *stage(unsigned char *shared, int step) { return reinterpret_cast<ELEM *>(shared) + step % STAGES * SIZE; }
    FB_DEVICE float *sums(unsigned char *shared) { return reinterpret_cast<float *>(stage(shared, 0) + STAGES * SIZE); }
    FB_DEVICE fb_tensor_map *map(unsigned char *shared) { return reinterpret_cast<fb_tensor_map *>(sums(shared) + M * LINE); }
    FB_DEVICE counts *at(unsigned char *shared) { return reinterpret_cast<counts *>(map(shared) + 4); }

    FB_DEVICE bool brings() { return threadIdx.x >= WIDE * GROUPS; }
    FB_DEVICE unsigned rank() { return blockIdx.x % TOGETHER; }
    FB_DEVICE int part() { return SPLIT == 1 ? 0 : blockIdx.x % SPLIT; }

    // Turns go through bands of BAND clusters' rows, in each column by column.
    template <int ROWS, int COLUMNS, int BAND> FB_DEVICE fb_tile_place place(int turn)
    {
        const int batch = turn / (ROWS * COLUMNS), in = turn % (ROWS * COLUMNS), first = in / (BAND * COLUMNS) * BAND;
        const int band = ROWS - first < BAND ? ROWS - first : BAND, at = in % (BAND * COLUMNS);
        return {(first + at % band) * TOGETHER + (int)rank(), at / band, batch};
    }

    FB_DEVICE void begin(unsigned char *shared)
    {
        if (threadIdx.x == 0) {
            for (int i = 0; i < STAGES; i++) {
                fb_stage_start(&at(shared)->full[i], 1);
                fb_stage_start(&at(shared)->empty[i], 4 * GROUPS * TOGETHER);
            }
        }
        if constexpr (TOGETHER > 1)
            fb_cluster_meet();
        else
            fb_meet<THREADS>();
    }

    // First thing in what either kind of warpgroup does, and they never do the same again but for the end: else the compiler
    // leaves registers as they are.
    FB_DEVICE void begin_bringing() { fb_stage_fewer_registers<40>(); }
    FB_DEVICE void begin_multiplying() { fb_stage_more_registers<232>(); }

    // Map number `which`, by one of the warps that bring: they take turns, for each map is waited for.
    FB_DEVICE void describe(unsigned char *shared, fb_tensor_map *maps, int which, const ELEM *first, int inner, int lines,
                            int batches, long long line, long long batch, int box)
    {
        if (threadIdx.x / 32 % 4 != which % 4) return;
        const fb_tensor_shape shape = {inner, lines, batches, 2 * line, 2 * (batch ? batch : line), box};
        fb_tensor_describe(map(shared) + which % 4, maps + which, first, shape);
    }

    // All of them are there.
    template <int MAPS> FB_DEVICE void described(const fb_tensor_map *maps)
    {
        fb_bringing_meet();
        for (int i = 0; i < MAPS; i++) fb_tensor_see(maps + i);
    }

    // A step of k from k on, by one thread.
    template <class L, class R> FB_DEVICE void ask(unsigned char *shared, int s, int k, L left, R right)
    {
        unsigned long long *const full = &at(shared)->full[s % STAGES];
        ELEM *const a = stage(shared, s), *const b = a + A::SIZE;
        if (s >= STAGES) fb_stage_wait(&at(shared)->empty[s % STAGES], (s / STAGES - 1) & 1);
        fb_stage_expect(full, SIZE * 2);
        left([&](const fb_tensor_map *map, int row, int batch) {
            if constexpr (A_ALONG_K)
                fb_tensor_bring(a, map, k, row, batch, full);
            else
#pragma unroll
                for (int i = 0; i < M / BOX; i++) fb_tensor_bring(a + i * BOX * STEP, map, row + i * BOX, k, batch, full);
        });
#pragma unroll
        for (int i = 0; i < B_BOXES / TOGETHER; i++) {
            const int box = rank() * (B_BOXES / TOGETHER) + i;
            right(box * B_OUTER / STRIP, [&](const fb_tensor_map *map, int column, int batch) {
                ELEM *const to = b + box * BOX * B_LINES;
                const int outer = column + box * B_OUTER % STRIP, inner = B_ALONG_K ? k : outer, line = B_ALONG_K ? outer : k;
                if constexpr (TOGETHER > 1)
                    fb_tensor_bring_all<TOGETHER>(to, map, inner, line, batch, full);
                else
                    fb_tensor_bring(to, map, inner, line, batch, full);
            });
        }
    }

    // One warp asks for `steps` steps of a tile from number `from` on. left(ask): ask(map, row, batch) of the tile's first row;
    // right(strip, ask): the same of the first column of a strip. Meanwhile touch(m, n) of every row and every EVERYth column (0: of
    // none) that the block makes something of: what will be loaded beside the sums.
    template <int EVERY, class L, class R, class T>
    FB_DEVICE void bring(unsigned char *shared, int first, int from, int steps, L left, R right, T touch)
    {
        constexpr int LINES = EVERY ? (OWN + EVERY - 1) / EVERY : 1, ALL = EVERY ? M * LINES : 0;
        const int lane = threadIdx.x % 32, each = (ALL + steps - 1) / steps;
        if (threadIdx.x / 32 != 4 * GROUPS) return;
#pragma unroll 1
        for (int s = 0; s < steps; s++) {
            if (lane == 0) ask(shared, first + s, (from + s) * STEP, left, right);
            __syncwarp();
            for (int i = s * each + lane; i < (s + 1) * each && i < ALL; i += 32) touch(i / LINES, part() * OWN + i % LINES * EVERY);
        }
    }

    FB_DEVICE void done(counts *c, int step)
    {
        if (threadIdx.x % 32 != 0) return;
#pragma unroll
        for (int r = 0; r < TOGETHER; r++) fb_stage_free(&c->empty[step % STAGES], r + part());
    }

    // A thread sends off a step's multiplications and lets go of the step before, so that one is always under way.
    FB_DEVICE void multiply(registers &sums, unsigned char *shared, int first, int steps)
    {
        counts *const c = at(shared);
#pragma unroll 1
        for (int s = first; s < first + steps; s++) {
            ELEM *const tile = stage(shared, s);
            fb_stage_wait(&c->full[s % STAGES], s / STAGES & 1);
            fb_wide_begin();
#pragma unroll
            for (int k = 0; k < STEP; k += 16) parts::template multiply<A, B>(sums, tile, tile + A::SIZE, threadIdx.x / WIDE * 64, k, true);
            fb_wide_mark();
            fb_wide_wait<1>();
            if (s > first) done(c, s - 1);
        }
        fb_wide_wait<0>();
        done(c, first + steps - 1);
    }

    // What was summed so far, times `by`.
    FB_DEVICE void scale(registers &sums, float by)
    {
#pragma unroll
        for (float &sum : sums) sum *= by;
    }

    // Sums of this block's OWN columns, from all blocks of the cluster: `mine` are of all columns, after the last of `steps` steps.
    // They go where the steps were, each thread's side by side with its neighbours'.
    FB_DEVICE void combine(owned &all, const registers &mine, unsigned char *shared, int steps)
    {
        static_assert(M * N * 2 <= STAGES * SIZE && OWN % 8 == 0, "sums have room where steps were, and go by fours");
        constexpr int APART = WIDE * GROUPS * 4;
        float *const place = reinterpret_cast<float *>(stage(shared, 0)) + threadIdx.x * 4;
        fb_stage_wait(&at(shared)->empty[(steps - 1) % STAGES], (steps - 1) / STAGES & 1); // all have read all steps
#pragma unroll
        for (int i = 0; i < N / 8; i++)
            fb_store(place + i * APART, fb_pack<float, 4>{mine[4 * i], mine[4 * i + 1], mine[4 * i + 2], mine[4 * i + 3]});
        fb_cluster_meet();
#pragma unroll
        for (int i = 0; i < N / SPLIT / 8; i++) {
            const float *const from = place + (i / (OWN / 8) * (STRIP / 8) + part() * (OWN / 8) + i % (OWN / 8)) * APART;
            fb_pack<float, 4> found[SPLIT];
#pragma unroll
            for (int p = 0; p < SPLIT; p++) fb_take_16(found[p], from, p);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                all[4 * i + e] = found[0].at[e];
#pragma unroll
                for (int p = 1; p < SPLIT; p++) all[4 * i + e] += found[p].at[e];
            }
        }
    }

    // Of the warp's eighths of rows, number i: its line of 8 columns, which comes from the four threads that have pairs of it, from
    // each strip.
    FB_DEVICE void take(const owned &sums_of, int i, float (&c)[STRIPS][8])
    {
#pragma unroll
        for (int s = 0; s < STRIPS; s++) {
#pragma unroll
            for (int e = 0; e < 8; e++) c[s][e] = sums_of[s * OWN / 2 + i / 2 * 16 + e / 2 * 4 + i % 2 * 2 + e % 2];
            parts::turn_four(c[s]);
        }
    }

    // Lines in registers.
    template <int VECTOR, class O> FB_DEVICE void lines(const owned &sums_of, O open)
    {
        static_assert(OWN % 32 == 0, "whole lines of four threads");
        constexpr int AHEAD = VECTOR == 8 && STRIPS == 1 && OWN % 128 == 0 ? 8 : OWN % 64 == 0 ? 4 : 2;
        const int row = threadIdx.x / 32 * 16 + (threadIdx.x & 31) / 4, column = part() * OWN + (threadIdx.x & 3) * 8;
#pragma unroll
        for (int first = 0; first < OWN / 16; first += AHEAD) {
            const auto at = [&](int i, int v) { return open(row + (first + i) % 2 * 8, (first + i) / 2 * 32 + column + v); };
            if constexpr (VECTOR == 8) {
                fb_ahead<0, AHEAD>([&](int i) { return at(i, 0); },
                                   [&](int i, const auto &late) {
                                       float c[STRIPS][8];
                                       take(sums_of, first + i, c);
                                       late(c[0]);
                                   });
            } else {
                fb_ahead<0, AHEAD>([&](int i) { return fb_two<decltype(at(0, 0))>{at(i, 0), at(i, VECTOR)}; },
                                   [&](int i, const auto &late) {
                                       float c[STRIPS][8];
                                       take(sums_of, first + i, c);
                                       late.low(c[0]);
                                       late.high(c[0] + VECTOR);
                                   });
            }
        }
    }

    // PART of its OWN columns of each strip, from part · PART on, of this warp's rows: strip s's sum of row m and the part's column n is at
    // [m * LINE + s * PART + n] until the next part.
    FB_DEVICE const float *spread(const owned &sums_of, unsigned char *shared, int part)
    {
        float *const c = sums(shared);
        const int lane = threadIdx.x & 31, row = threadIdx.x / 32 * 16 + (lane >> 2);
        __syncwarp();
#pragma unroll
        for (int s = 0; s < STRIPS; s++)
#pragma unroll
            for (int i = 0; i < PART / 2; i += 2)
                fb_store(c + (row + (i >> 1 & 1) * 8) * LINE + s * PART + i / 4 * 8 + (lane & 3) * 2,
                         fb_pack<float, 2>{sums_of[(s * OWN + part * PART) / 2 + i], sums_of[(s * OWN + part * PART) / 2 + i + 1]});
        __syncwarp();
        return c;
    }

    // Parts of lines in shared memory, neighbouring threads at neighbouring columns.
    template <int VECTOR, class O> FB_DEVICE void by_parts(const owned &sums_of, unsigned char *shared, O open)
    {
        constexpr int ACROSS = PART / VECTOR, DOWN = 32 / ACROSS, ROUNDS = 16 / DOWN;
        const int lane = threadIdx.x & 31, row = threadIdx.x / 32 * 16 + lane / ACROSS, column = lane % ACROSS * VECTOR;
#pragma unroll
        for (int p = 0; p < OWN / PART; p++) {
            const float *const c = spread(sums_of, shared, p);
            fb_ahead<0, ROUNDS>([&](int i) { return open(row + i * DOWN, part() * OWN + p * PART + column); },
                                [&](int i, const auto &late) { late(c + (row + i * DOWN) * LINE + column); });
        }
    }

    // What becomes of the sums, VECTOR neighbours at a time: open(m, n) loads what else is needed for those from row m and column n
    // on, and returns what is to be done with their sums: late(c), where strip s's are at c[s * 8 + v], or at c[s * PART + v] of
    // fewer than four.
    template <int VECTOR, class O> FB_DEVICE void each(const owned &sums_of, unsigned char *shared, O open)
    {
        if constexpr (VECTOR >= 4)
            lines<VECTOR>(sums_of, open);
        else
            by_parts<VECTOR>(sums_of, shared, open);
    }

    // Those that bring, while the others combine().
    FB_DEVICE void meet_others()
    {
        __syncwarp();
        fb_cluster_meet();
    }

    // Of what others still send to, or read, no block may end.
    FB_DEVICE void end()
    {
        __syncwarp();
        if constexpr (TOGETHER * SPLIT > 1) fb_cluster_meet();
    }
};

#endif
