// A recurrence in a cluster of blocks, as kernels/cluster.cuh, in single precision: plain multiply-adds in place of tensor cores.
//
// A warp has columns of its own, two in a row of lanes by EACH a lane, and all strips of these; its sixteen pairs of lanes share
// k, four neighbours at a time, so that the weights of a lane are few enough for its registers: those of its first HELD chunks of
// k stay there, the others in shared memory. What it reads at each step is the state alone, four of a row at once.
//
// Rows are taken in sets of PASSES × BATCH. The sixteen parts of a sum are added up by shuffles, each time half of the rows on
// either side, until a lane has all strips of one row's element; lanes that are left over have the same one. Pair p numbers the
// rows of a set from p on (j stands for row j ^ p), so that what a lane sends away always lies in the same registers. No warp
// waits for another one of its block, and while the state of one set is on its way the next set is multiplied.

#ifndef FB_CLUSTER_F32
#define FB_CLUSTER_F32

// ---- PTX -----------------------------------------------------------------------------------------------------------

// 8 bytes into another block's memory, as fb_send_16.
FB_DEVICE void fb_send_8(void *to, unsigned long long *inbox, unsigned rank, const unsigned (&piece)[2])
{
    asm volatile("{\n.reg .b32 to, inbox;\n"
                 "mapa.shared::cluster.u32 to, %0, %2;\nmapa.shared::cluster.u32 inbox, %1, %2;\n"
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [to], {%3, %4}, [inbox];\n}" ::"r"(
                     fb_shared_address(to)),
                 "r"(fb_shared_address(inbox)), "r"(rank), "r"(piece[0]), "r"(piece[1])
                 : "memory");
}

// ---- end of PTX ----------------------------------------------------------------------------------------------------

template <int CLUSTER, int STRIPS, int K, int ROWS, int UNITS, int EACH, int BATCH, int PASSES, int HELD> struct fb_recurrence_f32 {
    static constexpr int SLICES = 16, CHUNK = 4; // pairs of lanes, and how many of k each takes at a time
    static constexpr int SET = BATCH * PASSES, SETS = ROWS / SET, SPARE = SLICES / SET; // lanes that end with the same element
    static constexpr int COLUMNS = EACH * STRIPS, WARPS = UNITS / (2 * EACH), THREADS = 32 * WARPS, MINE = EACH;
    static constexpr int CHUNKS = (K + SLICES * CHUNK - 1) / (SLICES * CHUNK), LEFT = CHUNKS - HELD;
    static constexpr int DEPTH = CHUNKS * SLICES * CHUNK, WIDTH = CLUSTER * UNITS; // what is multiplied; what is sent
    static constexpr int LINE = DEPTH > WIDTH ? DEPTH : (WIDTH + 31) / 32 * 32;    // of a state: rows begin at the same bank
    static constexpr int BYTES = WIDTH * SET * 4, COUNTS = SETS * 2 * 8, STATE = 2 * ROWS * LINE * 4;
    static constexpr int SHARED = COUNTS + STATE + WARPS * LEFT * COLUMNS * 512;
    static_assert(UNITS % (2 * EACH) == 0 && ROWS % SET == 0 && SLICES % SET == 0 && HELD <= CHUNKS, "shares");
    static_assert(EACH == 1 || EACH == 2 || EACH == 4, "whole pieces");

    // What stays in a thread's registers.
    using weights = float[HELD > 0 ? HELD : 1][COLUMNS][CHUNK];

    FB_DEVICE unsigned long long *inbox(unsigned char *shared, int set, int step)
    {
        return reinterpret_cast<unsigned long long *>(shared) + 2 * set + step % 2;
    }
    FB_DEVICE float *state(unsigned char *shared, int step)
    {
        return reinterpret_cast<float *>(shared + COUNTS) + step % 2 * ROWS * LINE;
    }
    FB_DEVICE float *rest(unsigned char *shared, int s, int c)
    {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        return reinterpret_cast<float *>(shared + COUNTS + STATE) + (((warp * LEFT + s - HELD) * COLUMNS + c) * 32 + lane) * CHUNK;
    }

    // Where this thread's element i of MINE is, within the cluster's rows and the block's columns, and whether it is this
    // thread that makes it.
    FB_DEVICE int row(int set, int) { return set * SET + threadIdx.x % 32 / 2 % SET; }
    FB_DEVICE int column(int i) { return (threadIdx.x / 32 * 2 + threadIdx.x % 2) * EACH + i; }
    FB_DEVICE bool makes() { return SPARE == 1 || threadIdx.x % 32 < 2 * SET; }

    // The weights, and the state before the first step: as fb_recurrence's.
    template <class L, class R> FB_DEVICE void begin(weights &held, unsigned char *shared, L left, R right)
    {
        const int slice = threadIdx.x % 32 / 2;
        if (threadIdx.x == 0) {
            for (int b = 0; b < 2 * SETS; b++) {
                fb_inbox_start(inbox(shared, b / 2, b));
                fb_inbox_expect(inbox(shared, b / 2, b), BYTES);
            }
        }
        auto weight = [&](int s, int c, int e) {
            return right((s * SLICES + slice) * CHUNK + e, c % STRIPS, column(c / STRIPS));
        };
#pragma unroll
        for (int s = 0; s < HELD; s++)
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                for (int e = 0; e < CHUNK; e++) held[s][c][e] = weight(s, c, e);
#pragma unroll 1
        for (int s = HELD; s < CHUNKS; s++) {
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                for (int e = 0; e < CHUNK; e++) rest(shared, s, c)[e] = weight(s, c, e);
        }
        for (int i = threadIdx.x; i < 2 * ROWS * LINE; i += THREADS) {
            const int m = i / LINE % ROWS, k = i % LINE;
            state(shared, 0)[i] = i < ROWS * LINE && k < K ? left(m, k) : 0.0f;
        }
        fb_cluster_meet();
    }

    // The sums of this thread's elements, of a set of rows of the state of this step.
    FB_DEVICE void multiply(float (&sums)[MINE][STRIPS], const weights &held, unsigned char *shared, int step, int set)
    {
        const int slice = threadIdx.x % 32 / 2;
        const float *const h = state(shared, step) + set * SET * LINE + slice * CHUNK;
        float part[PASSES][COLUMNS];
        if (step > 0) {
            fb_inbox_wait(inbox(shared, set, step), (step - 1) / 2 % 2);
            if (threadIdx.x == 0) fb_inbox_expect(inbox(shared, set, step), BYTES); // what comes here next is two steps ahead
        }
#pragma unroll
        for (int p = 0; p < PASSES; p++) {
            const float *from[BATCH];
            float all[BATCH][COLUMNS] = {};
#pragma unroll
            for (int j = 0; j < BATCH; j++) from[j] = h + ((p * BATCH + j) ^ slice % SET) * LINE;
            // Columns one after the other: what is read of their weights then takes few registers.
            auto multiply_chunk = [&](int s, auto weight) {
                fb_pack<float, CHUNK> x[BATCH];
#pragma unroll
                for (int j = 0; j < BATCH; j++) x[j] = fb_load<CHUNK>(from[j] + s * SLICES * CHUNK);
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) {
                    const fb_pack<float, CHUNK> w = weight(c);
#pragma unroll
                    for (int e = 0; e < CHUNK; e++)
#pragma unroll
                        for (int j = 0; j < BATCH; j++) all[j][c] += w.at[e] * x[j].at[e];
                }
            };
#pragma unroll
            for (int s = 0; s < HELD; s++)
                multiply_chunk(s, [&](int c) {
                    return fb_pack<float, CHUNK>{held[s][c][0], held[s][c][1], held[s][c][2], held[s][c][3]};
                });
#pragma unroll 1
            for (int s = HELD; s < CHUNKS; s++) multiply_chunk(s, [&](int c) { return fb_load<CHUNK>(rest(shared, s, c)); });
#pragma unroll
            for (int half = BATCH / 2; half > 0; half /= 2)
#pragma unroll
                for (int j = 0; j < half; j++)
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++) all[j][c] += fb_shuffle(all[j + half][c], 2 * half);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) part[p][c] = all[0][c];
        }
#pragma unroll
        for (int half = PASSES / 2; half > 0; half /= 2)
#pragma unroll
            for (int p = 0; p < half; p++)
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) part[p][c] += fb_shuffle(part[p + half][c], 2 * BATCH * half);
#pragma unroll
        for (int far = SET; far < SLICES; far *= 2)
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) part[0][c] += fb_shuffle(part[0][c], 2 * far);
#pragma unroll
        for (int i = 0; i < MINE; i++)
#pragma unroll
            for (int s = 0; s < STRIPS; s++) sums[i][s] = part[0][i * STRIPS + s];
    }

    // What this thread made of its elements, zero where it made none or outside of what there is: the state of the step after
    // this one, in all blocks. first: the block's first column. Every warp sends, so that who has all of a set knows where all
    // warps are.
    FB_DEVICE void send(const float (&made)[MINE], unsigned char *shared, int step, int set, int first)
    {
        constexpr int SENDERS = EACH == 4 ? SPARE : 2 * SPARE; // lanes that have the same piece
        const int lane = threadIdx.x % 32, right = lane % 2, other = lane / 2 / SET;
        unsigned mine[MINE];
        __syncwarp(); // all lanes have read what others may overwrite once they have this
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            mine[i] = __float_as_uint(made[i]);
#pragma unroll
            for (int far = SET; far < SLICES; far *= 2) mine[i] |= fb_shuffle(mine[i], 2 * far);
        }
        float *const to = state(shared, step + 1) + row(set, 0) * LINE + first + column(0) - (EACH == 4 ? 0 : right * EACH);
        unsigned long long *const count = inbox(shared, set, step + 1);
        unsigned piece[EACH == 1 ? 2 : 4];
        if constexpr (EACH == 4) {
#pragma unroll
            for (int i = 0; i < 4; i++) piece[i] = mine[i];
        } else {
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                const unsigned beside = fb_shuffle(mine[i], 1);
                piece[i] = right ? beside : mine[i];
                piece[EACH + i] = right ? mine[i] : beside;
            }
        }
        const int number = EACH == 4 ? other : 2 * other + right;
#pragma unroll
        for (int rank = 0; rank < CLUSTER; rank += SENDERS) {
            if (CLUSTER % SENDERS && rank + number >= CLUSTER) break;
            if constexpr (EACH == 1)
                fb_send_8(to, count, rank + number, piece);
            else
                fb_send_16(to, count, rank + number, piece);
        }
    }
};

#endif
