// A block's tile of a contraction: C[m, n] += A[m, k] · B[k, n], accumulated in registers.
//
// A generated kernel names its tile, accumulates one or several products into it, each with functions that say what an
// element of an operand is, then spreads the accumulators over shared memory, where the epilogue reads them:
//
//     using tile = fb_gemm<fb_f16, true, 128, 128, 32, 64, 32, 3>;
//     tile::registers sums = {};
//     tile::accumulate<true, false>(sums, fb_shared, 0, 4096, [&](int m, int k) { … }, [&](int k, int n) { … });
//     float *c = tile::spread(sums, fb_shared);          // c[m * tile::LINE + n]
//
// m and n count within the tile, k within the product. Such a function returns an element as it is to lie in shared
// memory, or where 16 bytes of neighbours along the operand's contiguous dimension are, which then come by cp.async;
// outside the operand zero, or no place. A_ALONG_K: A's neighbours in memory are neighbours in k; else in m.
// B_ALONG_K: in k; else in n. Tiles lie in shared memory the same way; ldmatrix turns what a fragment wants turned.
// STAGES tiles are in flight.

#ifndef FB_GEMM
#define FB_GEMM

template <class ELEM> struct fb_sum_of {
    using type = float;
};
template <> struct fb_sum_of<double> {
    using type = double;
};

// ELEM: of the tiles in shared memory, fb_f16, fb_bf16, float or double. TENSOR: on tensor cores (float: as tf32).
// Without them: in SLICES groups of warps, each of which takes its part of a tile's k, and whose sums are added up when they
// are spread; and which operands' neighbours are neighbours in k, for a thread has the rows (columns) that it can fetch by 16 bytes.
template <class ELEM, bool TENSOR, int M, int N, int K, int WARP_M, int WARP_N, int STAGES, int SLICES = 1, bool A_BY_K = true,
          bool B_BY_K = true>
struct fb_gemm {
    using sum = typename fb_sum_of<ELEM>::type;
    static constexpr int PIECE = 16 / (int)sizeof(ELEM);
    static constexpr bool HALVES = TENSOR && sizeof(ELEM) == 2;
    static constexpr int WARPS_N = N / WARP_N, WARPS = M / WARP_M * WARPS_N, THREADS = 32 * WARPS * SLICES;
    // Without tensor cores a warp is 4 × 8 lanes; each computes every fourth row and every eighth column of the warp's tile, or
    // every fourth (eighth) PIECE of them where these are neighbours in memory.
    static constexpr int STEP = !TENSOR ? 1 : HALVES ? 16 : 8;
    static constexpr int MI = TENSOR ? WARP_M / 16 : WARP_M / 4, NI = WARP_N / 8, SUMS = TENSOR ? 4 : 1;
    static constexpr int A_GROUP = A_BY_K ? 1 : MI < PIECE ? MI : PIECE, B_GROUP = B_BY_K ? 1 : NI < PIECE ? NI : PIECE;
    static constexpr int LINE = N + (TENSOR ? 8 : 4); // of C in shared memory, so that what a warp stores at once meets no bank twice
    static constexpr int OWN = WARP_N + 8;            // of a warp's part of it, likewise
    static constexpr int UNROLL = K / STEP <= 32 ? K / STEP : 8; // longer products would only be longer to compile
    static_assert(M % WARP_M == 0 && N % WARP_N == 0 && K % STEP == 0 && K % PIECE == 0, "tiles and warps");
    static_assert(M % PIECE == 0 && N % PIECE == 0 && WARP_N % (HALVES ? 16 : 8) == 0, "whole pieces and fragments");
    static_assert(STAGES >= 2, "one tile is loaded while another is used");
    static_assert(SLICES == 1 || !TENSOR, "tensor cores take all of a tile's k");
    static_assert(TENSOR || K % (SLICES * PIECE) == 0, "whole pieces of k");

    using registers = sum[MI][NI][SUMS];

    template <bool ALONG_K, int OUTER> struct operand {
        static constexpr bool ALONG = ALONG_K;
        static constexpr int LINES = ALONG_K ? OUTER : K, ACROSS = ALONG_K ? K : OUTER, LINE = ACROSS + PIECE;
        static constexpr int SIZE = LINES * LINE;

        FB_DEVICE ELEM *element(ELEM *tile, int outer, int k)
        {
            return tile + (ALONG_K ? outer * LINE + k : k * LINE + outer);
        }

        // One tile, from k0 on, dealt round the threads in pieces. of(outer, k): see above.
        template <class F> FB_DEVICE void load(ELEM *tile, int k0, F of)
        {
            constexpr int PIECES = ACROSS / PIECE, ALL = LINES * PIECES, EACH = (ALL + THREADS - 1) / THREADS;
            using found = decltype(of(0, 0));
            auto copy = [&](int line, int at) {
                const int outer = ALONG_K ? line : at, k = k0 + (ALONG_K ? at : line);
                ELEM *const to = tile + line * LINE + at;
                if constexpr (fb_is_piece<found>::value) {
                    fb_copy_piece(to, of(outer, k));
                } else if constexpr (!fb_is_word<found>::value) {
                    __align__(16) ELEM piece[PIECE];
#pragma unroll
                    for (int e = 0; e < PIECE; e++) piece[e] = of(outer + (ALONG_K ? 0 : e), k + (ALONG_K ? e : 0));
                    fb_store(to, *reinterpret_cast<const fb_pack<ELEM, PIECE> *>(piece));
                }
            };
            if constexpr (fb_is_word<found>::value) {
                constexpr int WORDS = LINES * ACROSS, TURNS = (WORDS + THREADS - 1) / THREADS;
#pragma unroll TURNS <= 4 ? TURNS : 4
                for (int turn = 0; turn < TURNS; turn++) {
                    const int i = threadIdx.x + turn * THREADS, line = i / ACROSS, at = i % ACROSS;
                    if (WORDS % THREADS == 0 || i < WORDS)
                        fb_copy_word(tile + line * LINE + at, of(ALONG_K ? line : at, k0 + (ALONG_K ? at : line)));
                }
            } else if constexpr (!TENSOR && fb_is_piece<found>::value && THREADS % PIECES == 0 && ALL % THREADS == 0) {
                // A thread's pieces are the same ones of other lines.
                const int line = threadIdx.x / PIECES, at = threadIdx.x % PIECES * PIECE;
#pragma unroll
                for (int turn = 0; turn < EACH; turn++) copy(line + turn * (THREADS / PIECES), at);
            } else if constexpr (HALVES && EACH <= 4) {
                // A few turns stand side by side, where tensor cores wait for nothing else; elsewhere they only take registers.
#pragma unroll
                for (int turn = 0; turn < EACH; turn++) {
                    const int i = threadIdx.x + turn * THREADS;
                    if (ALL % THREADS == 0 || i < ALL) copy(i / PIECES, i % PIECES * PIECE);
                }
            } else {
#pragma unroll
                for (int i = threadIdx.x; i < ALL; i += THREADS) copy(i / PIECES, i % PIECES * PIECE);
            }
        }
    };

    // What a warp multiplies of 16-bit operands at once: 16 steps of k, all its rows and columns.
    struct fragments {
        unsigned a[MI][4], b[NI][2];
    };

    template <class A, class B> FB_DEVICE void fetch(fragments &f, ELEM *a, ELEM *b, int wm, int wn, int k)
    {
        const int lane = threadIdx.x & 31, j = lane >> 3, r = lane & 7;
        constexpr bool a_along = A::ALONG, b_along = B::ALONG;
#pragma unroll
        for (int i = 0; i < MI; i++)
            fb_load_fragment<!a_along>(f.a[i], a_along ? A::element(a, wm + 16 * i + (lane & 15), k + (lane >> 4) * 8)
                                                       : A::element(a, wm + 16 * i + (j & 1) * 8, k + (j >> 1) * 8 + r));
#pragma unroll
        for (int i = 0; i < NI; i += 2) {
            unsigned two[4]; // the fragments of two neighbours in n
            fb_load_fragment<!b_along>(two, b_along ? B::element(b, wn + 8 * i + (j >> 1) * 8 + r, k + (j & 1) * 8)
                                                    : B::element(b, wn + 8 * i + (j >> 1) * 8, k + (j & 1) * 8 + r));
            f.b[i][0] = two[0], f.b[i][1] = two[1], f.b[i + 1][0] = two[2], f.b[i + 1][1] = two[3];
        }
    }

    FB_DEVICE void multiply(registers &sums, const fragments &f)
    {
#pragma unroll
        for (int i = 0; i < MI; i++)
#pragma unroll
            for (int n = 0; n < NI; n++) fb_multiply(sums[i][n], f.a[i], f.b[n], ELEM());
    }

    // Without tensor cores: the row of a lane among the warp's four, its column among eight, and where its sums i are.
    FB_DEVICE int lane_row() { return threadIdx.x >> 3 & 3; }
    FB_DEVICE int lane_column() { return threadIdx.x & 7; }
    FB_DEVICE int row_of(int i) { return i / A_GROUP * 4 * A_GROUP + lane_row() * A_GROUP + i % A_GROUP; }
    FB_DEVICE int column_of(int i) { return i / B_GROUP * 8 * B_GROUP + lane_column() * B_GROUP + i % B_GROUP; }

    // COUNT rows (columns) of a lane, the first at `outer`, further ones in groups LANES groups apart: at PIECE steps of k.
    template <class O, bool BY_K, int GROUP, int COUNT, int LANES>
    FB_DEVICE void fetch_lane(sum (&to)[PIECE][COUNT], ELEM *tile, int outer, int k)
    {
        constexpr bool vectors = O::ALONG == BY_K;
#pragma unroll
        for (int i = 0; i < COUNT; i += GROUP)
#pragma unroll
            for (int e = 0; e < PIECE; e += vectors && BY_K ? PIECE : 1) {
                ELEM *const at = O::element(tile, outer + i * LANES, k + e);
                if constexpr (vectors && BY_K) {
                    const auto found = fb_load<PIECE>(at);
#pragma unroll
                    for (int j = 0; j < PIECE; j++) to[j][i] = found.at[j];
                } else if constexpr (vectors) {
                    const auto found = fb_load<GROUP>(at);
#pragma unroll
                    for (int j = 0; j < GROUP; j++) to[e][i + j] = found.at[j];
                } else {
#pragma unroll
                    for (int j = 0; j < GROUP; j++) to[e][i + j] = *O::element(tile, outer + i * LANES + j, k + e);
                }
            }
    }

    // Its slice of one tile's product, without tensor cores.
    template <class A, class B> FB_DEVICE void multiply_lanes(registers &sums, ELEM *a, ELEM *b, int wm, int wn)
    {
        const int first = SLICES > 1 ? threadIdx.x / (32 * WARPS) * (K / SLICES) : 0;
        wm += lane_row() * A_GROUP, wn += lane_column() * B_GROUP;
#pragma unroll
        for (int k = 0; k < K / SLICES; k += PIECE) {
            sum fa[PIECE][MI], fb[PIECE][NI];
            fetch_lane<A, A_BY_K, A_GROUP, MI, 4>(fa, a, wm, first + k);
            fetch_lane<B, B_BY_K, B_GROUP, NI, 8>(fb, b, wn, first + k);
#pragma unroll
            for (int e = 0; e < PIECE; e++)
#pragma unroll
                for (int i = 0; i < MI; i++)
#pragma unroll
                    for (int n = 0; n < NI; n++) sums[i][n][0] += fa[e][i] * fb[e][n];
        }
    }

    // Adds one tile's product to the accumulators of the warp at (wm, wn).
    template <class A, class B> FB_DEVICE void multiply(registers &sums, ELEM *a, ELEM *b, int wm, int wn)
    {
        const int lane = threadIdx.x & 31;
        if constexpr (!TENSOR) {
            multiply_lanes<A, B>(sums, a, b, wm, wn);
            return;
        }
#pragma unroll UNROLL
        for (int k = 0; k < K; k += STEP) {
            if constexpr (HALVES) {
                fragments f;
                fetch<A, B>(f, a, b, wm, wn, k);
                multiply(sums, f);
            } else if constexpr (TENSOR) {
                unsigned fa[MI][4], fb[NI][2];
                const int g = lane >> 2, t = lane & 3;
#pragma unroll
                for (int i = 0; i < MI; i++)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        fa[i][e] = fb_tf32(*A::element(a, wm + 16 * i + g + (e & 1) * 8, k + t + (e >> 1) * 4));
#pragma unroll
                for (int i = 0; i < NI; i++)
#pragma unroll
                    for (int e = 0; e < 2; e++) fb[i][e] = fb_tf32(*B::element(b, wn + 8 * i + g, k + t + e * 4));
#pragma unroll
                for (int i = 0; i < MI; i++)
#pragma unroll
                    for (int n = 0; n < NI; n++) fb_multiply(sums[i][n], fa[i], fb[n], ELEM());
            }
        }
    }

    // The tiles of a product, STAGES of them under way: load(s) sends for tile s, A and B of tile s begin at a_of(s) and b_of(s).
    // The first STAGES - 1 have been sent for.
    template <class A, class B, class LOAD, class FA, class FB>
    FB_DEVICE void go_through(registers &sums, int steps, LOAD load, FA a_of, FB b_of)
    {
        const int warp = threadIdx.x / 32 % WARPS, wm = warp / WARPS_N * WARP_M, wn = warp % WARPS_N * WARP_N;
        if constexpr (HALVES) {
            // Fragments are fetched while those before them are multiplied, also from one tile to the next.
            constexpr int GROUPS = K / STEP;
            fragments f[2];
            fb_copies_wait<STAGES - 2>();
            fb_meet<THREADS>();
            if (steps > 0) fetch<A, B>(f[0], a_of(0), b_of(0), wm, wn, 0);
            for (int s = 0; s < steps; s += GROUPS % 2 + 1) {
#pragma unroll
                for (int g = 0; g < GROUPS * (GROUPS % 2 + 1); g++) {
                    const int t = s + g / GROUPS, group = g % GROUPS;
                    if (t >= steps) break;
                    if (group == 0) load(t + STAGES - 1); // over a tile whose last fragments everyone has fetched
                    if (group == GROUPS - 1) {
                        fb_copies_wait<STAGES - 2>();
                        fb_meet<THREADS>(); // tile t + 1 has come
                        if (t + 1 < steps) fetch<A, B>(f[(g + 1) % 2], a_of(t + 1), b_of(t + 1), wm, wn, 0);
                    } else {
                        fetch<A, B>(f[(g + 1) % 2], a_of(t), b_of(t), wm, wn, (group + 1) * STEP);
                    }
                    multiply(sums, f[g % 2]);
                }
            }
        } else {
            for (int s = 0; s < steps; s++) {
                fb_copies_wait<STAGES - 2>();
                fb_meet<THREADS>(); // tile s has come, and everyone is done with the one that the next load overwrites
                load(s + STAGES - 1);
                multiply<A, B>(sums, a_of(s), b_of(s), wm, wn);
            }
        }
        fb_copies_wait<0>();
        fb_meet<THREADS>(); // the tiles' memory is free for what follows
    }

    // Adds the product over first <= k < last. All threads of the block call it; `first` is a multiple of K. The steps are gone
    // through from step `turn` on and round: blocks that need all of the same B then ask for other parts of it at one time.
    template <bool A_ALONG_K, bool B_ALONG_K, class FA, class FB>
    FB_DEVICE void accumulate(registers &sums, unsigned char *shared, int first, int last, FA a_of, FB b_of, int turn = 0)
    {
        using A = operand<A_ALONG_K, M>;
        using B = operand<B_ALONG_K, N>;
        ELEM *const a = reinterpret_cast<ELEM *>(shared), *const b = a + STAGES * A::SIZE;
        const int steps = (last - first + K - 1) / K;
        auto load = [&](int step) {
            if (step < steps) {
                const int k = first + (step + turn < steps ? step + turn : step + turn - steps) * K;
                A::load(a + step % STAGES * A::SIZE, k, a_of);
                B::load(b + step % STAGES * B::SIZE, k, [&](int n, int k) { return b_of(k, n); });
            }
            fb_copies_mark(); // one batch a step, also where there is nothing left to load, keeps the count below right
        };
#pragma unroll
        for (int s = 0; s < STAGES - 1; s++) load(s);
        go_through<A, B>(
            sums, steps, load, [&](int s) { return a + s % STAGES * A::SIZE; }, [&](int s) { return b + s % STAGES * B::SIZE; });
    }

    // The same where A lies in shared memory already, or comes to lie there by what `between` does while the first tiles of B
    // are under way: A's neighbours are neighbours in k. `last` is a multiple of K.
    template <class A, bool B_ALONG_K, class FB, class BETWEEN>
    FB_DEVICE void accumulate_right(registers &sums, ELEM *a, ELEM *b, int last, FB b_of, BETWEEN between)
    {
        using B = operand<B_ALONG_K, N>;
        static_assert(A::ALONG, "steps along k are steps in memory");
        const int steps = last / K;
        auto load = [&](int step) {
            if (step < steps) B::load(b + step % STAGES * B::SIZE, step * K, [&](int n, int k) { return b_of(k, n); });
            fb_copies_mark();
        };
#pragma unroll
        for (int s = 0; s < STAGES - 1; s++) load(s);
        between();
        go_through<A, B>(
            sums, steps, load, [&](int s) { return a + s * K; }, [&](int s) { return b + s % STAGES * B::SIZE; });
    }

    // The same from the start, where B stays in shared memory from one call to the next: all of it, tile after tile, at `kept`.
    // It is loaded when it is not there yet (`fresh`).
    template <bool A_ALONG_K, bool B_ALONG_K, class FA, class FB>
    FB_DEVICE void accumulate_kept(registers &sums, unsigned char *shared, unsigned char *kept, bool fresh, int last, FA a_of,
                                   FB b_of)
    {
        using A = operand<A_ALONG_K, M>;
        using B = operand<B_ALONG_K, N>;
        ELEM *const a = reinterpret_cast<ELEM *>(shared), *const b = reinterpret_cast<ELEM *>(kept);
        const int steps = (last + K - 1) / K;
        auto load = [&](int step) {
            if (step < steps) A::load(a + step % STAGES * A::SIZE, step * K, a_of);
            fb_copies_mark();
        };
        if (fresh) {
#pragma unroll 1
            for (int s = 0; s < steps; s++) B::load(b + s * B::SIZE, s * K, [&](int n, int k) { return b_of(k, n); });
        }
#pragma unroll
        for (int s = 0; s < STAGES - 1; s++) load(s); // B's pieces are of the first batch, with A's first
        go_through<A, B>(
            sums, steps, load, [&](int s) { return a + s % STAGES * A::SIZE; }, [&](int s) { return b + s * B::SIZE; });
    }

    FB_DEVICE void scale(registers &sums, sum by)
    {
#pragma unroll
        for (int i = 0; i < MI; i++)
#pragma unroll
            for (int n = 0; n < NI; n++)
#pragma unroll
                for (int e = 0; e < SUMS; e++) sums[i][n][e] *= by;
    }

    // SPLIT blocks have each a part of the sums of one tile: they leave them in memory, and the one that comes last adds them
    // up, in order, and goes on (true). The counter is left at zero for the next launch.
    template <int SPLIT> FB_DEVICE bool combine(sum *c, sum *parts, unsigned *arrived, int place, int part)
    {
        __shared__ bool is_last;
        sum *const all = parts + (long long)place * SPLIT * M * N;
        for (int i = threadIdx.x; i < M * N; i += THREADS) all[part * M * N + i] = c[i / N * LINE + i % N];
        __threadfence();
        fb_meet<THREADS>();
        if (threadIdx.x == 0) is_last = atomicAdd(&arrived[place], 1u) == SPLIT - 1;
        fb_meet<THREADS>();
        if (!is_last) return false;
        __threadfence();
        for (int i = threadIdx.x; i < M * N; i += THREADS) {
            sum total = 0;
            for (int p = 0; p < SPLIT; p++) total += *(volatile sum *)&all[p * M * N + i];
            c[i / N * LINE + i % N] = total;
        }
        if (threadIdx.x == 0) arrived[place] = 0;
        fb_meet<THREADS>();
        return true;
    }

    // The same of blocks that are a cluster, through each other's shared memory: each adds up every SPLIT-th share of the rows and
    // goes on with these. No block may end before all have: fb_cluster_meet comes last.
    template <int SPLIT> FB_DEVICE void combine_near(sum *c, int part)
    {
        static_assert(M % SPLIT == 0, "a share of the rows each");
        constexpr int ROWS = M / SPLIT, GROUPS = ROWS * N / PIECE;
        fb_cluster_meet();
#pragma unroll GROUPS / THREADS <= 4 ? 4 : 1
        for (int i = threadIdx.x; i < GROUPS; i += THREADS) {
            sum *const at = c + (part * ROWS + i / (N / PIECE)) * LINE + i % (N / PIECE) * PIECE;
            fb_pack<sum, PIECE> found[SPLIT];
#pragma unroll
            for (int p = 0; p < SPLIT; p++) fb_take_16(found[p], at, p);
            fb_pack<sum, PIECE> total = found[0];
#pragma unroll
            for (int p = 1; p < SPLIT; p++)
#pragma unroll
                for (int e = 0; e < PIECE; e++) total.at[e] += found[p].at[e];
            fb_store(at, total);
        }
        fb_meet<THREADS>();
    }

    // The block's tile of C in shared memory, whole when it returns.
    FB_DEVICE sum *spread(const registers &sums, unsigned char *shared)
    {
        sum *const c = reinterpret_cast<sum *>(shared);
        const int warp = threadIdx.x / 32 % WARPS, wm = warp / WARPS_N * WARP_M, wn = warp % WARPS_N * WARP_N;
        if constexpr (TENSOR) {
            const int lane = threadIdx.x & 31;
#pragma unroll
            for (int i = 0; i < MI; i++)
#pragma unroll
                for (int n = 0; n < NI; n++)
#pragma unroll
                    for (int e = 0; e < SUMS; e += 2) {
                        const int row = wm + 16 * i + (lane >> 2) + (e >> 1) * 8, col = wn + 8 * n + (lane & 3) * 2;
                        fb_store(c + row * LINE + col, fb_pack<sum, 2>{sums[i][n][e], sums[i][n][e + 1]});
                    }
        } else {
            // A slice after the other, so that sums are always added in the same order.
#pragma unroll
            for (int slice = 0; slice < SLICES; slice++) {
                if (slice) fb_meet<THREADS>();
                if (SLICES > 1 && threadIdx.x / (32 * WARPS) != slice) continue;
#pragma unroll
                for (int i = 0; i < MI; i++)
#pragma unroll
                    for (int n = 0; n < NI; n += B_GROUP) {
                        sum *const at = c + (wm + row_of(i)) * LINE + wn + column_of(n);
                        fb_pack<sum, B_GROUP> group;
                        if (slice) group = fb_load<B_GROUP>(at);
#pragma unroll
                        for (int e = 0; e < B_GROUP; e++) group.at[e] = slice ? group.at[e] + sums[i][n + e][0] : sums[i][n + e][0];
                        fb_store(at, group);
                    }
            }
        }
        fb_meet<THREADS>();
        return c;
    }

    // Where results need no element of another warp's: f(c, m, n) for the sums of VECTOR neighbours at c, of which the first is
    // at (m, n) of the tile. 16 rows of a warp at a time go through shared memory of its own, and no warp waits for another.
    template <int VECTOR, class F> FB_DEVICE void each(const registers &sums, unsigned char *shared, F f)
    {
        static_assert(TENSOR, "a warp's rows are 16 at a time");
        const int warp = threadIdx.x / 32, wm = warp / WARPS_N * WARP_M, wn = warp % WARPS_N * WARP_N, lane = threadIdx.x & 31;
        sum *const own = reinterpret_cast<sum *>(shared) + warp * 16 * OWN;
#pragma unroll
        for (int i = 0; i < MI; i++) {
#pragma unroll
            for (int n = 0; n < NI; n++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    fb_store(own + ((lane >> 2) + 8 * h) * OWN + 8 * n + (lane & 3) * 2,
                             fb_pack<sum, 2>{sums[i][n][2 * h], sums[i][n][2 * h + 1]});
            __syncwarp();
#pragma unroll
            for (int p = lane; p < 16 * WARP_N / VECTOR; p += 32) {
                const int m = p / (WARP_N / VECTOR), n = p % (WARP_N / VECTOR) * VECTOR;
                f(own + m * OWN + n, wm + 16 * i + m, wn + n);
            }
            __syncwarp();
        }
    }
};

#endif
