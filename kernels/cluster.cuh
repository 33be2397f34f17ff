// A recurrence whose state goes round a cluster of blocks (plan/cluster.h): each step multiplies the state by weights that
// never leave the chip, and makes of the sums the next state.
//
// A cluster takes ROWS rows of the state through all steps, its blocks UNITS columns each: as many of every strip of the
// weights, as the four gates of an LSTM. Clusters know nothing of each other. A block has all columns of its rows twice in
// shared memory, this step's and the next one's; what its threads make of their columns goes straight into the memory of all
// blocks of the cluster. The bytes that have come are counted there, and a step begins when all have: blocks need no other
// barrier, for whoever has all of a state knows that everybody is through with the one before it.
//
// Weights are the left operand of the tensor cores, so that 8 rows of the state fill them: a tile of 16 lines has 8 columns of
// one strip and the same of the next, and a thread then has all strips' sums of its element. Warps share the columns (ACROSS of
// them), and DEEP warps the steps along k of one product, whose sums are added up in shared memory. The fragments of a warp's
// first HELD steps stay in registers, the others in shared memory, as the lanes want them.

#ifndef FB_CLUSTER
#define FB_CLUSTER

// ---- PTX -----------------------------------------------------------------------------------------------------------

// Some warps of a block meet.
template <int THREADS> FB_DEVICE void fb_warps_meet(int barrier)
{
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}

// A count of bytes that others send (mbarrier). One arrival says how many are to come; when they have, the phase ends.
FB_DEVICE void fb_inbox_start(unsigned long long *inbox)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(fb_shared_address(inbox))
                 : "memory");
}

FB_DEVICE void fb_inbox_expect(unsigned long long *inbox, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(fb_shared_address(inbox)), "r"(bytes)
                 : "memory");
}

// Acquires for the block: what came is in its own shared memory. For the cluster (.acquire.cluster) all of the first cache would
// be thrown away too, and what is under way into it be waited for.
FB_DEVICE void fb_inbox_wait(unsigned long long *inbox, int parity)
{
    int ended;
    do {
        asm volatile("{\n.reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}"
                     : "=r"(ended)
                     : "r"(fb_shared_address(inbox)), "r"(parity)
                     : "memory");
    } while (!ended);
}

// 16 bytes into another block's memory, to where `to` is in this one's, and into its count.
FB_DEVICE void fb_send_16(void *to, unsigned long long *inbox, unsigned rank, const unsigned (&piece)[4])
{
    asm volatile("{\n.reg .b32 to, inbox;\n"
                 "mapa.shared::cluster.u32 to, %0, %2;\nmapa.shared::cluster.u32 inbox, %1, %2;\n"
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [to], {%3, %4, %5, %6}, [inbox];\n}" ::"r"(
                     fb_shared_address(to)),
                 "r"(fb_shared_address(inbox)), "r"(rank), "r"(piece[0]), "r"(piece[1]), "r"(piece[2]), "r"(piece[3])
                 : "memory");
}

// ---- end of PTX ----------------------------------------------------------------------------------------------------

template <class ELEM, int CLUSTER, int STRIPS, int K, int ROWS, int UNITS, int ACROSS, int DEEP, int HELD> struct fb_recurrence {
    static constexpr int CHUNKS = UNITS / 8, EACH = CHUNKS / ACROSS; // of 8 columns: a block's, a warp's
    static constexpr int TILES = (STRIPS + 1) / 2, GROUPS = ROWS / 8;
    static constexpr int PAIRS = (K + 32 * DEEP - 1) / (32 * DEEP), STEPS = 2 * PAIRS; // along k, of 16, a warp
    static constexpr int DEPTH = STEPS * DEEP * 16, WIDTH = (CLUSTER * UNITS + 15) / 16 * 16; // what is multiplied; what is sent
    static constexpr int LINE = (DEPTH > WIDTH ? DEPTH : WIDTH) + 8, BYTES = CLUSTER * UNITS * ROWS * 2; // of a state in memory
    static constexpr int ENTRIES = EACH * GROUPS * 2, MINE = ENTRIES / DEEP; // elements a lane has sums of, and makes states of
    static constexpr int THREADS = 32 * ACROSS * DEEP, LEFT = STEPS - HELD;
    static constexpr int CHAINS = EACH * TILES * GROUPS < 4 ? 2 : 1; // sums added up apart, so that few wait for each other
    static constexpr int STATE = 2 * ROWS * LINE * 2, WEIGHTS = ACROSS * DEEP * LEFT * EACH * TILES * 512;
    static constexpr int SUMS = DEEP > 1 ? ACROSS * DEEP * (DEEP - 1) * MINE * STRIPS * 128 : 0;
    static constexpr int SHARED = 16 + STATE + WEIGHTS + SUMS;
    static_assert(CHUNKS % ACROSS == 0 && ENTRIES % DEEP == 0 && HELD <= STEPS && ROWS % 8 == 0 && UNITS % 8 == 0, "shares");

    // What stays in a thread's registers: weights, and what it carries of its elements from step to step, OWN values of each.
    using weights = unsigned[EACH][TILES][HELD > 0 ? HELD : 1][4];
    template <int OWN> struct kept {
        weights held;
        float own[OWN > 0 ? OWN : 1][MINE];
    };

    FB_DEVICE unsigned long long *inbox(unsigned char *shared, int step)
    {
        return reinterpret_cast<unsigned long long *>(shared) + step % 2;
    }
    FB_DEVICE ELEM *state(unsigned char *shared, int step)
    {
        return reinterpret_cast<ELEM *>(shared + 16) + step % 2 * ROWS * LINE;
    }

    FB_DEVICE int part(int warp, int from, int i, int strip)
    {
        return (((warp * (DEEP - 1) + from) * MINE + i) * STRIPS + strip) * 32;
    }

    // Where this thread's element i of MINE is, within the cluster's rows and the block's columns.
    FB_DEVICE int own(int i) { return i * DEEP + threadIdx.x / 32 % DEEP; }
    FB_DEVICE int row(int i) { return own(i) / 2 % GROUPS * 8 + threadIdx.x % 4 * 2 + own(i) % 2; }
    FB_DEVICE int column(int i) { return (threadIdx.x / 32 / DEEP * EACH + own(i) / 2 / GROUPS) * 8 + threadIdx.x % 32 / 4; }

    // The weights, and the state before the first step. left(row, k): an element of it; right(k, strip, column): a weight; both
    // within the cluster's rows and the block's columns, zero outside of what there is.
    template <class L, class R> FB_DEVICE void begin(weights &held, unsigned char *shared, L left, R right)
    {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, deep = warp % DEEP, g = lane / 4, t = lane % 4;
        unsigned *const rest = reinterpret_cast<unsigned *>(shared + 16 + STATE);
        if (threadIdx.x == 0) {
#pragma unroll
            for (int b = 0; b < 2; b++) {
                fb_inbox_start(inbox(shared, b));
                fb_inbox_expect(inbox(shared, b), BYTES);
            }
        }
        auto fragment = [&](int c, int j, int s, int r) { // register r: lines g and g + 8, then k + 8
            const int strip = 2 * j + r % 2, column = (warp / DEEP * EACH + c) * 8 + g;
            const int k = (deep * STEPS + s) * 16 + r / 2 * 8 + 2 * t;
            if (strip >= STRIPS) return 0u;
            return (unsigned)right(k, strip, column).bits | (unsigned)right(k + 1, strip, column).bits << 16;
        };
#pragma unroll
        for (int c = 0; c < EACH; c++)
#pragma unroll
            for (int j = 0; j < TILES; j++) {
#pragma unroll
                for (int s = 0; s < HELD; s++)
#pragma unroll
                    for (int r = 0; r < 4; r++) held[c][j][s][r] = fragment(c, j, s, r);
#pragma unroll 1
                for (int s = HELD; s < STEPS; s++) {
#pragma unroll
                    for (int r = 0; r < 4; r++)
                        rest[((((warp * LEFT + s - HELD) * EACH + c) * TILES + j) * 32 + lane) * 4 + r] = fragment(c, j, s, r);
                }
            }
        for (int i = threadIdx.x; i < 2 * ROWS * LINE; i += THREADS) {
            const int m = i / LINE % ROWS, k = i % LINE;
            state(shared, 0)[i] = i < ROWS * LINE && k < K ? left(m, k) : ELEM{0};
        }
        fb_cluster_meet();
    }

    // The sums of this thread's elements, of the state of this step.
    FB_DEVICE void multiply(float (&sums)[MINE][STRIPS], const weights &held, unsigned char *shared, int step)
    {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, deep = warp % DEEP;
        const unsigned *const rest = reinterpret_cast<const unsigned *>(shared + 16 + STATE);
        float *const parts = reinterpret_cast<float *>(shared + 16 + STATE + WEIGHTS);
        const ELEM *const h = state(shared, step) + lane % 8 * LINE + deep * STEPS * 16 + lane / 8 * 8;
        float all[CHAINS][EACH][TILES][GROUPS][4] = {};
        if (step > 0) {
            fb_inbox_wait(inbox(shared, step), (step - 1) / 2 % 2);
            if (threadIdx.x == 0) fb_inbox_expect(inbox(shared, step), BYTES); // what comes here next is two steps ahead
        }
#pragma unroll
        for (int p = 0; p < PAIRS; p++) {
            unsigned b[GROUPS][4];
#pragma unroll
            for (int n = 0; n < GROUPS; n++) fb_load_fragment<false>(b[n], h + n * 8 * LINE + p * 32);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int s = 2 * p + half;
#pragma unroll
                for (int c = 0; c < EACH; c++)
#pragma unroll
                    for (int j = 0; j < TILES; j++) {
                        unsigned a[4];
                        if (s < HELD) {
#pragma unroll
                            for (int r = 0; r < 4; r++) a[r] = held[c][j][s < HELD ? s : 0][r];
                        } else {
                            const auto four =
                                fb_load<4>(rest + ((((warp * LEFT + s - HELD) * EACH + c) * TILES + j) * 32 + lane) * 4);
#pragma unroll
                            for (int r = 0; r < 4; r++) a[r] = four.at[r];
                        }
#pragma unroll
                        for (int n = 0; n < GROUPS; n++) {
                            const unsigned two[2] = {b[n][2 * half], b[n][2 * half + 1]};
                            fb_multiply(all[s % CHAINS][c][j][n], a, two, ELEM());
                        }
                    }
            }
        }
        auto sum = [&](int i, int s) { // of element i of ENTRIES
            const int c = i / 2 / GROUPS, n = i / 2 % GROUPS, e = s % 2 * 2 + i % 2;
            const float x = all[0][c][s / 2][n][e];
            return CHAINS > 1 ? x + all[CHAINS - 1][c][s / 2][n][e] : x;
        };
#pragma unroll
        for (int d = 0; d < DEEP; d++)
#pragma unroll
            for (int i = 0; i < MINE; i++)
#pragma unroll
                for (int s = 0; s < STRIPS; s++) {
                    const float x = sum(i * DEEP + d, s);
                    if (d == deep)
                        sums[i][s] = x;
                    else // of the others' parts mine lies at the place that my number has among them
                        parts[part(warp / DEEP * DEEP + d, deep > d ? deep - 1 : deep, i, s) + lane] = x;
                }
        if constexpr (DEEP > 1) {
            fb_warps_meet<32 * DEEP>(1 + warp / DEEP);
#pragma unroll
            for (int d = 0; d < DEEP - 1; d++)
#pragma unroll
                for (int i = 0; i < MINE; i++)
#pragma unroll
                    for (int s = 0; s < STRIPS; s++)
                        sums[i][s] += parts[part(warp, d, i, s) + lane];
        }
    }

    FB_DEVICE void end() {} // what is under way comes out of registers

    // What this thread made of its elements, zero outside of what there is: the state of the step after this one, in all blocks.
    // first: the block's first column. Every warp sends, so that who has all of a state knows where all warps are.
    FB_DEVICE void send(const ELEM (&made)[MINE], unsigned char *shared, int step, int first)
    {
        const int lane = threadIdx.x % 32, g = lane / 4;
        __syncwarp(); // all lanes have read what others may overwrite once they have this
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            // Eight lanes have the neighbours of one row: each gets all of them, and sends them to blocks of its own.
            const unsigned mine = made[i].bits, one = fb_shuffle(mine, 4);
            const unsigned pair = g & 1 ? one | mine << 16 : mine | one << 16, two = fb_shuffle(pair, 8);
            const unsigned low = g & 2 ? two : pair, high = g & 2 ? pair : two;
            const unsigned other_low = fb_shuffle(low, 16), other_high = fb_shuffle(high, 16);
            const unsigned piece[4] = {g & 4 ? other_low : low, g & 4 ? other_high : high, g & 4 ? low : other_low,
                                       g & 4 ? high : other_high};
            ELEM *const to = state(shared, step + 1) + row(i) * LINE + first + column(i) - g;
#pragma unroll
            for (int rank = 0; rank < CLUSTER; rank += 8)
                if (CLUSTER % 8 == 0 || rank + g < CLUSTER) fb_send_16(to, inbox(shared, step + 1), rank + g, piece);
        }
    }
};

#endif
