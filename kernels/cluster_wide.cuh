// A recurrence in clusters of blocks, as kernels/cluster.cuh has it, on GPUs of compute capability 9.0: its products are those of whole
// warpgroups (wgmma, target sm_90a), which read the state from shared memory by themselves, while the weights stay in the
// registers of the threads that multiply by them, or in shared memory where registers are too few.
//
// The weights are the left operand, 64 lines to a warpgroup. A warp has 16 of them: of 16 / LINES columns all strips, so that
// two lanes at most share what an element needs of the sums, and a block needs no barrier for them. The state is the right
// operand: ROWS rows of it in shared memory, 8 columns (16 bytes) of all rows beside each other, then the next 8, so that what a
// block makes is in one piece. It is put together in the block's own memory, and one thread for each other block has it copied
// there in the background.
#ifndef FB_CLUSTER_WIDE
#define FB_CLUSTER_WIDE

// ---- PTX -----------------------------------------------------------------------------------------------------------

// Bytes of this block's memory to the same place in another block's, and into its count, in the background.
FB_DEVICE void fb_send_bytes(void *at, unsigned long long *inbox, unsigned rank, int bytes)
{
    asm volatile("{\n.reg .b32 to, inbox;\n"
                 "mapa.shared::cluster.u32 to, %0, %2;\nmapa.shared::cluster.u32 inbox, %1, %2;\n"
                 "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to], [%0], %3, [inbox];\n}" ::"r"(
                     fb_shared_address(at)),
                 "r"(fb_shared_address(inbox)), "r"(rank), "r"(bytes)
                 : "memory");
}

FB_DEVICE unsigned fb_cluster_rank()
{
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// A tile of k, 8 elements beside each other: groups of 8 lines follow each other, and the next 8 of k are `next` bytes on.
FB_DEVICE fb_wide_tile fb_describe_plain(const void *at, int next)
{
    const unsigned long long start = fb_shared_address(at) >> 4 & 0x3fff;
    return {start | (unsigned long long)(next >> 4) << 16 | 8ull << 32};
}

FB_DEVICE fb_wide_tile fb_wide_after(fb_wide_tile tile, int bytes) { return {tile.bits + (bytes >> 4)}; }

#define FB_SUMS_8 "%0, %1, %2, %3"
#define FB_SUMS_16 FB_SUMS_8 ", %4, %5, %6, %7"
#define FB_SUMS_24 FB_SUMS_16 ", %8, %9, %10, %11"
#define FB_SUMS_32 FB_SUMS_24 ", %12, %13, %14, %15"
#define FB_SUMS_40 FB_SUMS_32 ", %16, %17, %18, %19"
#define FB_SUMS_48 FB_SUMS_40 ", %20, %21, %22, %23"
#define FB_SUMS_56 FB_SUMS_48 ", %24, %25, %26, %27"
#define FB_TO_4(c, i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define FB_TO_OF_8(c) FB_TO_4(c, 0)
#define FB_TO_OF_16(c) FB_TO_OF_8(c), FB_TO_4(c, 4)
#define FB_TO_OF_24(c) FB_TO_OF_16(c), FB_TO_4(c, 8)
#define FB_TO_OF_32(c) FB_TO_OF_24(c), FB_TO_4(c, 12)
#define FB_TO_OF_40(c) FB_TO_OF_32(c), FB_TO_4(c, 16)
#define FB_TO_OF_48(c) FB_TO_OF_40(c), FB_TO_4(c, 20)
#define FB_TO_OF_56(c) FB_TO_OF_48(c), FB_TO_4(c, 24)
#define FB_TO_OF_64(c) FB_TO_OF_56(c), FB_TO_4(c, 28)

// c (+)= a · b of 64 lines, N columns and 16 of k, in the background; a in registers, or in shared memory. Lanes have the sums of
// kernels/wgmma.cuh.
template <int N> struct fb_wide_round;
#define FB_WIDE_ROUND_OF(N, TYPE, ELEM, A0, A1, A2, A3, B, ADD, B_LEFT, ADD_LEFT)                                          \
    FB_DEVICE void add(float *c, const unsigned *a, fb_wide_tile b, bool more, ELEM)                                       \
    {                                                                                                                      \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADD ", 0;\n"                                                      \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" FB_SUMS_##N "}, {" A0 ", " A1    \
                     ", " A2 ", " A3 "}, " B ", p, 1, 1, 0;\n}"                                                            \
                     : FB_TO_OF_##N(c)                                                                                     \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits), "r"((int)more)                             \
                     : "memory");                                                                                          \
    }                                                                                                                      \
    FB_DEVICE void add(float *c, fb_wide_tile a, fb_wide_tile b, bool more, ELEM)                                          \
    {                                                                                                                      \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " B_LEFT ", 0;\n"                                                   \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" FB_SUMS_##N "}, " A0 ", " A1     \
                     ", p, 1, 1, 0, 0;\n}"                                                                                 \
                     : FB_TO_OF_##N(c)                                                                                     \
                     : "l"(a.bits), "l"(b.bits), "r"((int)more)                                                            \
                     : "memory");                                                                                          \
    }
#define FB_WIDE_ROUND(N, A0, A1, A2, A3, B, ADD)                                                                           \
    template <> struct fb_wide_round<N> {                                                                                  \
        FB_WIDE_ROUND_OF(N, "f16", fb_f16, A0, A1, A2, A3, B, ADD, A2, )                                                   \
        FB_WIDE_ROUND_OF(N, "bf16", fb_bf16, A0, A1, A2, A3, B, ADD, A2, )                                                 \
    };
FB_WIDE_ROUND(8, "%4", "%5", "%6", "%7", "%8", "%9")
FB_WIDE_ROUND(16, "%8", "%9", "%10", "%11", "%12", "%13")
FB_WIDE_ROUND(24, "%12", "%13", "%14", "%15", "%16", "%17")
FB_WIDE_ROUND(32, "%16", "%17", "%18", "%19", "%20", "%21")
FB_WIDE_ROUND(40, "%20", "%21", "%22", "%23", "%24", "%25")
FB_WIDE_ROUND(48, "%24", "%25", "%26", "%27", "%28", "%29")
FB_WIDE_ROUND(56, "%28", "%29", "%30", "%31", "%32", "%33")
FB_WIDE_ROUND(64, "%32", "%33", "%34", "%35", "%36", "%37")

// ---- end of PTX ----------------------------------------------------------------------------------------------------

template <class ELEM, int CLUSTER, int STRIPS, int K, int ROWS, int UNITS, int EACH, int HELD> struct fb_wide_recurrence {
    static constexpr int LINES = STRIPS > 2 ? 4 : STRIPS, COLUMNS = 16 / LINES; // of a column; columns of a warp's 16 lines
    static constexpr int TILES = UNITS / COLUMNS, WARPS = TILES / EACH, THREADS = 32 * WARPS;
    static constexpr int GROUPS = ROWS / 8, MINE = EACH * GROUPS * (4 / LINES);
    static constexpr int STEPS = (K + 15) / 16, LEFT = STEPS - HELD, WIDTH = CLUSTER * UNITS;
    static constexpr int DEPTH = STEPS * 16 > WIDTH ? STEPS * 16 : WIDTH;
    static constexpr int SLICE = UNITS * ROWS * 2, STATE = DEPTH * ROWS * 2; // bytes: what a block makes, and a whole state
    static constexpr int WEIGHTS = WARPS * EACH * LEFT * 512, SHARED = 128 + 2 * STATE + WEIGHTS;
    static_assert(STRIPS <= 4 && UNITS % COLUMNS == 0 && TILES % (4 * EACH) == 0 && HELD <= STEPS && UNITS % 8 == 0, "shares");

    using weights = unsigned[EACH][HELD > 0 ? HELD : 1][4];
    template <int OWN> struct kept { // as fb_recurrence's
        weights held;
        float own[OWN > 0 ? OWN : 1][MINE];
    };

    FB_DEVICE unsigned long long *inbox(unsigned char *shared, int step)
    {
        return reinterpret_cast<unsigned long long *>(shared) + step % 2;
    }
    FB_DEVICE unsigned char *state(unsigned char *shared, int step) { return shared + 128 + step % 2 * STATE; }
    FB_DEVICE int place(int row, int k) { return k / 8 * (ROWS * 16) + row * 16 + k % 8 * 2; }
    FB_DEVICE unsigned char *left(unsigned char *shared, int group, int each)
    {
        return shared + 128 + 2 * STATE + (group * EACH + each) * LEFT * 2048;
    }

    // Warps of a group have lines beside each other: tile `each` of theirs.
    FB_DEVICE int tile(int each) { return (threadIdx.x / 128 * EACH + each) * 4 + threadIdx.x / 32 % 4; }
    // Line l of a tile is of this strip and column of the tile.
    FB_DEVICE int strip(int l) { return LINES == 4 ? l % 2 + l / 8 * 2 : LINES == 2 ? l / 8 : 0; }
    FB_DEVICE int of_tile(int l) { return LINES == 4 ? l % 8 / 2 : LINES == 2 ? l % 8 : l; }

    // Where this thread's element i of MINE is, within the cluster's rows and the block's columns.
    FB_DEVICE int row(int i)
    {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        return i / (4 / LINES) % GROUPS * 8 + 2 * t + (LINES == 4 ? g % 2 : i % 2);
    }
    FB_DEVICE int column(int i)
    {
        const int g = threadIdx.x % 32 / 4, of = LINES == 4 ? g / 2 : LINES == 2 ? g : g + i / 2 % 2 * 8;
        return tile(i / (4 / LINES) / GROUPS) * COLUMNS + of;
    }

    template <class L, class R> FB_DEVICE void begin(weights &held, unsigned char *shared, L first, R right)
    {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        if (threadIdx.x == 0) {
#pragma unroll
            for (int b = 0; b < 2; b++) {
                fb_inbox_start(inbox(shared, b));
                fb_inbox_expect(inbox(shared, b), (CLUSTER - 1) * SLICE);
            }
        }
        auto weight = [&](int tile, int line, int k) -> unsigned {
            return strip(line) < STRIPS ? right(k, strip(line), tile * COLUMNS + of_tile(line)).bits : 0;
        };
#pragma unroll
        for (int c = 0; c < EACH; c++)
#pragma unroll
            for (int s = 0; s < HELD; s++)
#pragma unroll
                for (int r = 0; r < 4; r++) {
                    const int line = g + r % 2 * 8, k = s * 16 + r / 2 * 8 + 2 * t;
                    held[c][s][r] = weight(tile(c), line, k) | weight(tile(c), line, k + 1) << 16;
                }
        for (int i = threadIdx.x; i < WEIGHTS / 2; i += THREADS) {
            const int k = i % 8 + i / 512 % (LEFT > 0 ? 2 * LEFT : 1) * 8, line = i / 8 % 64, of = i / 1024 / (LEFT > 0 ? LEFT : 1);
            reinterpret_cast<ELEM *>(left(shared, 0, 0))[i].bits =
                (unsigned short)weight(of * 4 + line / 16, line % 16, HELD * 16 + k);
        }
        for (int i = threadIdx.x; i < 2 * ROWS * DEPTH; i += THREADS) {
            const int m = i / DEPTH % ROWS, k = i % DEPTH;
            *reinterpret_cast<ELEM *>(state(shared, i / DEPTH / ROWS) + place(m, k)) =
                i < ROWS * DEPTH && k < K ? first(m, k) : ELEM{0};
        }
        fb_written_for_wide();
        fb_cluster_meet();
    }

    FB_DEVICE void multiply(float (&sums)[MINE][STRIPS], const weights &held, unsigned char *shared, int step)
    {
        float all[EACH][4 * GROUPS];
        if (step > 0 && CLUSTER > 1) {
            fb_inbox_wait(inbox(shared, step), (step - 1) / 2 % 2);
            if (threadIdx.x == 0) fb_inbox_expect(inbox(shared, step), (CLUSTER - 1) * SLICE); // of two steps ahead
        }
        const fb_wide_tile h = fb_describe_plain(state(shared, step), ROWS * 16);
        fb_wide_begin();
#pragma unroll
        for (int s = 0; s < STEPS; s++)
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                float *const c = all[e];
                const fb_wide_tile right = fb_wide_after(h, s * 32 * ROWS);
                if (s < HELD)
                    fb_wide_round<ROWS>::add(c, held[e][s < HELD ? s : 0], right, s > 0, ELEM());
                else
                    fb_wide_round<ROWS>::add(
                        c, fb_wide_after(fb_describe_plain(left(shared, threadIdx.x / 128, e), 1024), (s - HELD) * 2048),
                        right, s > 0, ELEM());
            }
        fb_wide_mark();
        fb_wide_wait<0>();
        const bool odd = threadIdx.x / 4 % 2;
#pragma unroll
        for (int c = 0; c < EACH; c++)
#pragma unroll
            for (int n = 0; n < GROUPS; n++) {
                const float *const four = &all[c][4 * n]; // lines g and g + 8, rows 2 t and 2 t + 1 of each
                const int i = (c * GROUPS + n) * (4 / LINES);
                if constexpr (LINES == 4) { // of two lanes one makes the first row, the other one the second
                    const float low = __shfl_xor_sync(0xffffffffu, odd ? four[0] : four[1], 4);
                    const float high = __shfl_xor_sync(0xffffffffu, odd ? four[2] : four[3], 4);
                    const float strips[4] = {odd ? low : four[0], odd ? four[1] : low, odd ? high : four[2],
                                             odd ? four[3] : high};
#pragma unroll
                    for (int s = 0; s < STRIPS; s++) sums[i][s] = strips[s];
                } else {
#pragma unroll
                    for (int e = 0; e < 4; e++) sums[i + (LINES == 2 ? e % 2 : e)][LINES == 2 ? e / 2 : 0] = four[e];
                }
            }
    }

    // A block's memory stays until the others have what it sent last.
    FB_DEVICE void end() { fb_cluster_meet(); }

    // What this thread made of its elements goes into the block's own memory; when all of it is there, into the others'. Who has
    // all of a state knows that all threads are through with the one before it.
    FB_DEVICE void send(const ELEM (&made)[MINE], unsigned char *shared, int step, int first)
    {
        unsigned char *const next = state(shared, step + 1);
#pragma unroll
        for (int i = 0; i < MINE; i++) *reinterpret_cast<ELEM *>(next + place(row(i), first + column(i))) = made[i];
        fb_written_for_wide();
        __syncthreads();
        const unsigned rank = threadIdx.x;
        if (rank < CLUSTER && rank != fb_cluster_rank())
            fb_send_bytes(next + first * ROWS * 2, inbox(shared, step + 1), rank, SLICE);
    }
};

// What steps read of memory, ROWS rows of a block's UNITS columns: copied into shared memory two steps before they are wanted,
// so that nobody waits for it.
template <class T, int ROWS, int UNITS, int THREADS> struct fb_items {
    static constexpr int EACH = 16 / sizeof(T), ACROSS = UNITS / EACH, LINE = UNITS * (int)sizeof(T) + 16;
    static constexpr int BYTES = 3 * ROWS * LINE;
    static_assert(UNITS % EACH == 0, "whole pieces");

    // piece(row, column): where one begins. For all of the block's threads.
    template <class F> FB_DEVICE void fetch(unsigned char *to, int step, F piece)
    {
        for (int i = threadIdx.x; i < ROWS * ACROSS; i += THREADS)
            fb_copy_piece(to + (step % 3 * ROWS + i / ACROSS) * LINE + i % ACROSS * 16, piece(i / ACROSS, i % ACROSS * EACH));
    }
    FB_DEVICE T at(const unsigned char *from, int step, int row, int column)
    {
        return reinterpret_cast<const T *>(from + (step % 3 * ROWS + row) * LINE)[column];
    }
};

#endif
