// A recurrence in a cluster of blocks, as kernels/cluster.cuh, in single precision: plain multiply-adds in place of tensor cores.
//
// A warp has columns of its own, all strips of each, and its lanes share k, four neighbours at a time, so that the weights of a
// lane are few enough for its registers: those of its first HELD chunks of k stay there, the others in shared memory. SLICES
// lanes share k; where that are sixteen, two lanes in a row have columns of their own. What a warp reads at each step is the
// state alone, four of a row at once, for EACH columns.
//
// Rows are taken in sets of PASSES × BATCH, a batch at a time. The parts of its sums are added up by shuffles, each time half of
// the rows on either side, then half of the columns, until no lane has a sum that another one has. Slice s numbers the rows of
// a batch from s on (j stands for row j ^ s), and its columns likewise, so that what a lane sends away always lies in the same
// registers. By shared memory the sums of a set come to the threads that make its elements, one after the other in memory.
//
// What these have made they store in the block's own copy of the next state. When all have, some warps send it on to the other
// blocks, 512 bytes at a time; the others go on with the next set, while that one is on its way.

#ifndef FB_CLUSTER_F32
#define FB_CLUSTER_F32

// ---- PTX -----------------------------------------------------------------------------------------------------------

// A count that so many arrive at in a phase.
FB_DEVICE void fb_inbox_start_of(unsigned long long *inbox, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\nfence.mbarrier_init.release.cluster;" ::"r"(fb_shared_address(inbox)),
                 "r"(arrivals)
                 : "memory");
}

FB_DEVICE void fb_inbox_arrive(unsigned long long *inbox)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(fb_shared_address(inbox)) : "memory");
}

// ---- end of PTX ----------------------------------------------------------------------------------------------------

template <int CLUSTER, int STRIPS, int K, int ROWS, int UNITS, int SLICES, int EACH, int BATCH, int PASSES, int HELD>
struct fb_recurrence_f32 {
    static constexpr int CHUNK = 4, NEAR = 32 / SLICES; // of k, that a lane takes at a time; lanes with columns of their own
    static constexpr int SET = BATCH * PASSES, SETS = ROWS / SET;
    static constexpr int COLUMNS = EACH * STRIPS, WARPS = UNITS / (NEAR * EACH), THREADS = 32 * WARPS;
    static constexpr int EVEN = COLUMNS & -COLUMNS, SPLIT = EVEN < SLICES / BATCH ? EVEN : SLICES / BATCH, SUB = COLUMNS / SPLIT;
    static constexpr int ELEMENTS = SET * UNITS, MINE = (ELEMENTS + THREADS - 1) / THREADS;
    static constexpr int CHUNKS = (K + SLICES * CHUNK - 1) / (SLICES * CHUNK), LEFT = CHUNKS - HELD;
    static constexpr int DEPTH = CHUNKS * SLICES * CHUNK, WIDTH = CLUSTER * UNITS; // what is multiplied; what is sent
    static constexpr int LINE = DEPTH > WIDTH ? DEPTH : (WIDTH + 31) / 32 * 32;    // of a state: rows begin at the same bank
    static constexpr int SUMS = UNITS * STRIPS + 8;                                // of a row of sums
    static constexpr int COUNTS = (SETS * 24 + 15) / 16 * 16, STATE = 2 * ROWS * LINE * 4, PARTS = (SETS > 1 ? 2 : 1) * SET * SUMS * 4;
    static constexpr int SHARED = COUNTS + STATE + PARTS + WARPS * LEFT * COLUMNS * 512;
    static constexpr int BYTES = (CLUSTER - 1) * ELEMENTS * 4, PIECES = ELEMENTS / 4; // of a set: that come, of 16 bytes that go
    static constexpr int TEAM = WARPS / SETS > 0 ? WARPS / SETS : 1;                  // warps that send a set
    static_assert(UNITS % (NEAR * EACH) == 0 && UNITS % 4 == 0 && ROWS % SET == 0 && SLICES % BATCH == 0 && HELD <= CHUNKS, "shares");

    // What stays in a thread's registers.
    using weights = float[HELD > 0 ? HELD : 1][COLUMNS][CHUNK];
    template <int OWN> struct kept {
        static_assert(OWN == 0, "all that a thread carries is in memory");
        weights held;
    };

    FB_DEVICE unsigned long long *inbox(unsigned char *shared, int set, int step)
    {
        return reinterpret_cast<unsigned long long *>(shared) + 3 * set + step % 2;
    }
    FB_DEVICE unsigned long long *outbox(unsigned char *shared, int set)
    {
        return reinterpret_cast<unsigned long long *>(shared) + 3 * set + 2;
    }
    FB_DEVICE float *state(unsigned char *shared, int step)
    {
        return reinterpret_cast<float *>(shared + COUNTS) + step % 2 * ROWS * LINE;
    }
    FB_DEVICE float *parts(unsigned char *shared, int set)
    {
        return reinterpret_cast<float *>(shared + COUNTS + STATE) + (SETS > 1 ? set % 2 : 0) * SET * SUMS;
    }
    FB_DEVICE float *rest(unsigned char *shared, int s, int c)
    {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        return reinterpret_cast<float *>(shared + COUNTS + STATE + PARTS) +
               (((warp * LEFT + s - HELD) * COLUMNS + c) * 32 + lane) * CHUNK;
    }
    FB_DEVICE int slice() { return threadIdx.x % 32 / NEAR; }

    // Which of the block's columns × strips the lane's c of COLUMNS is.
    FB_DEVICE int sum_of(int c)
    {
        return (threadIdx.x / 32 * NEAR + threadIdx.x % NEAR) * COLUMNS + (c / SUB ^ slice() / BATCH % SPLIT) * SUB + c % SUB;
    }

    // Where this thread's element i of MINE is, within the cluster's rows and the block's columns, and whether there is one.
    FB_DEVICE int row(int set, int i) { return set * SET + (i * THREADS + threadIdx.x) / UNITS; }
    FB_DEVICE int column(int i) { return (i * THREADS + threadIdx.x) % UNITS; }
    FB_DEVICE bool makes(int i) { return i * THREADS + threadIdx.x < ELEMENTS; }

    // The weights, and the state before the first step: as fb_recurrence's.
    template <class L, class R> FB_DEVICE void begin(weights &held, unsigned char *shared, L left, R right)
    {
        if (threadIdx.x == 0) {
            for (int s = 0; s < SETS; s++) {
                for (int b = 0; b < 2; b++) {
                    fb_inbox_start_of(inbox(shared, s, b), 2); // the block's own part, and what is expected
                    fb_inbox_expect(inbox(shared, s, b), BYTES);
                }
                fb_inbox_start_of(outbox(shared, s), WARPS);
            }
        }
        auto weight = [&](int s, int c, int e) {
            return right((s * SLICES + slice()) * CHUNK + e, sum_of(c) % STRIPS, sum_of(c) / STRIPS);
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

    // Adds up what the lanes have of a batch, and leaves the sums in shared memory, row after row from `to` on.
    FB_DEVICE void gather(float (&all)[BATCH][COLUMNS], float *to)
    {
#pragma unroll
        for (int half = BATCH / 2; half > 0; half /= 2)
#pragma unroll
            for (int j = 0; j < half; j++)
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) all[j][c] += fb_shuffle(all[j + half][c], NEAR * half);
#pragma unroll
        for (int half = SPLIT / 2; half > 0; half /= 2)
#pragma unroll
            for (int c = 0; c < half * SUB; c++) all[0][c] += fb_shuffle(all[0][c + half * SUB], NEAR * BATCH * half);
#pragma unroll
        for (int far = BATCH * SPLIT; far < SLICES; far *= 2)
#pragma unroll
            for (int c = 0; c < SUB; c++) all[0][c] += fb_shuffle(all[0][c], NEAR * far);
        if (BATCH * SPLIT == SLICES || slice() < BATCH * SPLIT) {
#pragma unroll
            for (int c = 0; c < SUB; c++) to[slice() % BATCH * SUMS + sum_of(c)] = all[0][c];
        }
    }

    // The sums of this thread's elements, of a set of rows of the state of this step.
    FB_DEVICE void multiply(float (&sums)[MINE][STRIPS], const weights &held, unsigned char *shared, int step, int set)
    {
        const float *h = state(shared, step) + set * SET * LINE + slice() * CHUNK;
        float *const to = parts(shared, set);
        if (step > 0) {
            fb_inbox_wait(inbox(shared, set, step), (step - 1) / 2 % 2);
            if (threadIdx.x == 0) fb_inbox_expect(inbox(shared, set, step), BYTES); // what comes here next is two steps ahead
        }
#pragma unroll 1
        for (int p = 0; p < PASSES; p++, h += BATCH * LINE) {
            float all[BATCH][COLUMNS] = {};
            // Columns one after the other: what is read of their weights then takes few registers.
            auto multiply_chunk = [&](int s, auto weight) {
                fb_pack<float, CHUNK> x[BATCH];
#pragma unroll
                for (int j = 0; j < BATCH; j++) x[j] = fb_load<CHUNK>(h + (j ^ slice() % BATCH) * LINE + s * SLICES * CHUNK);
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
            gather(all, to + p * BATCH * SUMS);
        }
        fb_meet<THREADS>();
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            const float *const from = to + (row(0, i) * SUMS + column(i) * STRIPS);
            if (!makes(i)) continue;
            if constexpr (STRIPS % 4 == 0) {
#pragma unroll
                for (int s = 0; s < STRIPS; s += 4) {
                    const auto four = fb_load<4>(from + s);
#pragma unroll
                    for (int e = 0; e < 4; e++) sums[i][s + e] = four.at[e];
                }
            } else {
#pragma unroll
                for (int s = 0; s < STRIPS; s++) sums[i][s] = from[s];
            }
        }
    }

    // What this thread made of its elements, zero outside of what there is: the state of the step after this one, in all blocks.
    // first: the block's first column. Every warp has a part of it, so that who has all of a set knows where all warps are.
    FB_DEVICE void send(const float (&made)[MINE], unsigned char *shared, int step, int set, int first)
    {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, mine = (warp + WARPS - set * TEAM % WARPS) % WARPS;
#pragma unroll
        for (int i = 0; i < MINE; i++)
            if (makes(i)) state(shared, step + 1)[row(set, i) * LINE + first + column(i)] = made[i];
        __syncwarp();
        if (lane == 0) fb_inbox_arrive(outbox(shared, set));
        if (mine >= TEAM) return;
        fb_inbox_wait(outbox(shared, set), step % 2);
        if (mine == 0 && lane == 0) fb_inbox_arrive(inbox(shared, set, step + 1));
        float *const from = state(shared, step + 1) + set * SET * LINE + first;
#pragma unroll 1
        for (int i = lane; i < PIECES; i += 32) {
            float *const at = from + i / (UNITS / 4) * LINE + i % (UNITS / 4) * 4;
            const auto four = fb_load<4>(reinterpret_cast<const unsigned *>(at));
            const unsigned piece[4] = {four.at[0], four.at[1], four.at[2], four.at[3]};
#pragma unroll 1
            for (int n = 1 + mine; n < CLUSTER; n += TEAM)
                fb_send_16(at, inbox(shared, set, step + 1), (first / UNITS + n) % CLUSTER, piece);
        }
    }
};

#endif
