// softmax(f(Q · K)) · V for a block's rows of Q on the warpgroup's tensor core instructions of compute capability 9.0 (target
// sm_90a), 16-bit operands: what kernels/chain.cuh does with ONLINE, as fast as the tensor cores allow (after Shah et al.,
// "FlashAttention-3", 2024). Stands on kernels/chain.cuh and kernels/wgmma.cuh.
//
// A block of threads that has COPIERS stays, and takes one block of rows after the other: the copiers draw its number (fb_draw)
// and send for its tiles while the others still store what they have of the one before. So the rows that take longest go first
// and whoever is free takes the next, as if each were a block of its own, and nobody waits for one to begin.
//
// Warpgroups have 64 rows each, and STAGES tiles of K and V are on chip at once. At each tile a warpgroup will
//
//     send for      tiles to come, if not threads of their own do (COPIERS)
//     send off      scores of the next tile = Q · K, then sums += P · V of this one
//     meanwhile     when the scores have come: their maximum, exp, and the row's sum, while P · V goes on
//     afterwards    sums of rows whose maximum has grown are scaled, exp of the scores rounded: they are the next P
//
// Scores of m64 lie as wgmma wants its left operand, so P never leaves its thread's registers.
//
// A row's maximum is only followed when it has grown by more than 5.5: until then exp of what scores are more than it is below
// 2^8, which floats and 16-bit types hold as exactly as 1.
//
// *Hidden* scores: where f is `visible ? score : hidden`, a tile of which no element is visible (a causal mask) is left out,
// and f goes without the question where all are. A hidden score counts only in a row that has nothing larger by far: if one
// of the block's rows is such, the tiles that were left out are taken at the end.

#ifndef FB_ATTENTION
#define FB_ATTENTION

// ---- PTX -----------------------------------------------------------------------------------------------------------

// Sums of so many columns, in steps of 8 columns: 4 registers of each thread.
#define FB_OWN_8 "%0, %1, %2, %3"
#define FB_OWN_16 FB_OWN_8 ", %4, %5, %6, %7"
#define FB_OWN_24 FB_OWN_16 ", %8, %9, %10, %11"
#define FB_OWN_32 FB_OWN_24 ", %12, %13, %14, %15"
#define FB_OWN_40 FB_OWN_32 ", %16, %17, %18, %19"
#define FB_OWN_48 FB_OWN_40 ", %20, %21, %22, %23"
#define FB_OWN_56 FB_OWN_48 ", %24, %25, %26, %27"
#define FB_OWN_72 FB_SUMS_64 ", %32, %33, %34, %35"
#define FB_OWN_80 FB_OWN_72 ", %36, %37, %38, %39"
#define FB_OWN_88 FB_OWN_80 ", %40, %41, %42, %43"
#define FB_OWN_96 FB_OWN_88 ", %44, %45, %46, %47"
#define FB_OWN_104 FB_OWN_96 ", %48, %49, %50, %51"
#define FB_OWN_112 FB_OWN_104 ", %52, %53, %54, %55"
#define FB_OWN_120 FB_OWN_112 ", %56, %57, %58, %59"
#define FB_OWN_64 FB_SUMS_64
#define FB_OWN_128 FB_SUMS_128
#define FB_TO_OWN_4(c, i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define FB_TO_OWN_8(c) FB_TO_OWN_4(c, 0)
#define FB_TO_OWN_16(c) FB_TO_OWN_8(c), FB_TO_OWN_4(c, 4)
#define FB_TO_OWN_24(c) FB_TO_OWN_16(c), FB_TO_OWN_4(c, 8)
#define FB_TO_OWN_32(c) FB_TO_OWN_24(c), FB_TO_OWN_4(c, 12)
#define FB_TO_OWN_40(c) FB_TO_OWN_32(c), FB_TO_OWN_4(c, 16)
#define FB_TO_OWN_48(c) FB_TO_OWN_40(c), FB_TO_OWN_4(c, 20)
#define FB_TO_OWN_56(c) FB_TO_OWN_48(c), FB_TO_OWN_4(c, 24)
#define FB_TO_OWN_72(c) FB_TO_64(c), FB_TO_OWN_4(c, 32)
#define FB_TO_OWN_80(c) FB_TO_OWN_72(c), FB_TO_OWN_4(c, 36)
#define FB_TO_OWN_88(c) FB_TO_OWN_80(c), FB_TO_OWN_4(c, 40)
#define FB_TO_OWN_96(c) FB_TO_OWN_88(c), FB_TO_OWN_4(c, 44)
#define FB_TO_OWN_104(c) FB_TO_OWN_96(c), FB_TO_OWN_4(c, 48)
#define FB_TO_OWN_112(c) FB_TO_OWN_104(c), FB_TO_OWN_4(c, 52)
#define FB_TO_OWN_120(c) FB_TO_OWN_112(c), FB_TO_OWN_4(c, 56)
#define FB_TO_OWN_64(c) FB_TO_64(c)
#define FB_TO_OWN_128(c) FB_TO_128(c)

// c (+)= a · b of 64 rows, N columns and 16 of k, a in registers: as kernels/wgmma.cuh has it of 64 columns. What a strip of b has
// beyond them is not read.
template <int N> struct fb_wide_columns;
#define FB_WIDE_COLUMNS_OF(N, TYPE, ELEM, A0, A1, A2, A3, B, ADD, TURNED)                                                  \
    template <bool B_TURNED> FB_DEVICE void add(float *c, const unsigned *a, fb_wide_tile b, bool more, ELEM)              \
    {                                                                                                                      \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADD ", 0;\n"                                                      \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" FB_OWN_##N "}, {" A0 ", " A1     \
                     ", " A2 ", " A3 "}, " B ", p, 1, 1, " TURNED ";\n}"                                                   \
                     : FB_TO_OWN_##N(c)                                                                                    \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits), "r"((int)more), "n"((int)B_TURNED)         \
                     : "memory");                                                                                          \
    }
#define FB_WIDE_COLUMNS(N, A0, A1, A2, A3, B, ADD, TURNED)                                                                 \
    template <> struct fb_wide_columns<N> {                                                                                \
        FB_WIDE_COLUMNS_OF(N, "f16", fb_f16, A0, A1, A2, A3, B, ADD, TURNED)                                               \
        FB_WIDE_COLUMNS_OF(N, "bf16", fb_bf16, A0, A1, A2, A3, B, ADD, TURNED)                                             \
    };
FB_WIDE_COLUMNS(8, "%4", "%5", "%6", "%7", "%8", "%9", "%10")
FB_WIDE_COLUMNS(16, "%8", "%9", "%10", "%11", "%12", "%13", "%14")
FB_WIDE_COLUMNS(24, "%12", "%13", "%14", "%15", "%16", "%17", "%18")
FB_WIDE_COLUMNS(32, "%16", "%17", "%18", "%19", "%20", "%21", "%22")
FB_WIDE_COLUMNS(40, "%20", "%21", "%22", "%23", "%24", "%25", "%26")
FB_WIDE_COLUMNS(48, "%24", "%25", "%26", "%27", "%28", "%29", "%30")
FB_WIDE_COLUMNS(56, "%28", "%29", "%30", "%31", "%32", "%33", "%34")
FB_WIDE_COLUMNS(64, "%32", "%33", "%34", "%35", "%36", "%37", "%38")
FB_WIDE_COLUMNS(72, "%36", "%37", "%38", "%39", "%40", "%41", "%42")
FB_WIDE_COLUMNS(80, "%40", "%41", "%42", "%43", "%44", "%45", "%46")
FB_WIDE_COLUMNS(88, "%44", "%45", "%46", "%47", "%48", "%49", "%50")
FB_WIDE_COLUMNS(96, "%48", "%49", "%50", "%51", "%52", "%53", "%54")
FB_WIDE_COLUMNS(104, "%52", "%53", "%54", "%55", "%56", "%57", "%58")
FB_WIDE_COLUMNS(112, "%56", "%57", "%58", "%59", "%60", "%61", "%62")
FB_WIDE_COLUMNS(120, "%60", "%61", "%62", "%63", "%64", "%65", "%66")
FB_WIDE_COLUMNS(128, "%64", "%65", "%66", "%67", "%68", "%69", "%70")

// Of the registers that threads of a block began with, those that only copy give some to those that multiply.
template <int N> FB_DEVICE void fb_registers_fewer()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> FB_DEVICE void fb_registers_more()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

// The warpgroup that a thread belongs to, known to be the same for all of a warp.
FB_DEVICE int fb_warpgroup()
{
    return __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);
}

// What all threads of a warp have alike, known to be so: where the compiler does not know it, a branch on it makes it wait at
// each wgmma behind.
FB_DEVICE int fb_of_warp(int x)
{
    return __shfl_sync(0xffffffffu, x, 0);
}

FB_DEVICE float fb_exp2_wide(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

FB_DEVICE float fb_larger_wide(float a, float b)
{
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

// What comes next waits for a sum of exp, which is never negative: the assembler of CUDA 13.0 would move the wait for wgmmas in
// front of the arithmetic that is meant to hide it. (A branch here would make the compiler wait at each wgmma.)
FB_DEVICE void fb_first(float sum)
{
    asm volatile("{\n.reg .pred p;\nsetp.lt.f32 p, %0, 0f00000000;\n@p nanosleep.u32 0;\n}" ::"f"(sum) : "memory");
}

// Two neighbours in one register, the first in the low half.
FB_DEVICE unsigned fb_both_wide(float low, float high, fb_f16)
{
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

FB_DEVICE unsigned fb_both_wide(float low, float high, fb_bf16)
{
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

// ---- end of PTX ----------------------------------------------------------------------------------------------------

// Blocks of rows that nobody has taken yet, and blocks of threads that have left: both 0 again when the last one leaves.
struct fb_draw {
    unsigned next, left;
};

template <class T> struct fb_is_inside {
    static constexpr bool value = false;
};
template <class T> struct fb_is_inside<fb_inside<T>> {
    static constexpr bool value = true;
};

// ROWS: of a block, 64 for each warpgroup that multiplies. TILE: columns of scores at a time, WIDTH of them altogether. DEPTH:
// k of the scores, and COLUMNS of V, in whole 8s: so many are brought and multiplied, though their places are whole strips.
// COPIERS: threads that copy and do nothing else; 0: all threads copy. HIDES: some scores may be hidden. TURNS: a warpgroup
// sends off its multiplications while another makes something of its scores. TOGETHER: scores that f makes at once, 1 or 8
// (then WIDTH is a multiple of 8, and K and V lie row by row).
template <class ELEM, int ROWS, int TILE, int WIDTH, int DEPTH, int COLUMNS, int STAGES, int COPIERS, bool HIDES, bool TURNS, int TOGETHER> struct fb_attention {
    static constexpr int STRIP = 64, LINE_BYTES = 128, WIDE = 128;
    static constexpr int GROUPS = ROWS / 64, THREADS = WIDE * GROUPS + COPIERS;
    static constexpr int COPYING = COPIERS ? COPIERS : THREADS;
    static constexpr int TILES = (WIDTH + TILE - 1) / TILE;
    static_assert(ROWS % 64 == 0 && DEPTH % 8 == 0 && COLUMNS % 8 == 0 && (TILE == 64 || TILE == 128), "whole instructions");
    using wide = fb_chain_wide<ELEM, 64, STRIP, STRIP, STRIP, STRIP, 2>; // its way to hand out sums

    // INSIDE: k that are brought. An instruction takes 16 of them: an 8 that is missing is zeros from the beginning on.
    template <bool ALONG_K, int OUTER, int INSIDE> struct operand {
        static constexpr bool TURNED = !ALONG_K;
        static constexpr int K = (INSIDE + 15) / 16 * 16, LINES = ALONG_K ? OUTER : K, USED = ALONG_K ? K : OUTER;
        static constexpr int SIZE = LINES * ((USED + STRIP - 1) / STRIP * STRIP);
        static constexpr int BROUGHT = ALONG_K ? OUTER : INSIDE, PIECES = (ALONG_K ? INSIDE : OUTER) / 8; // of a line

        FB_DEVICE fb_wide_tile at(ELEM *tile, int outer, int k)
        {
            const int line = ALONG_K ? outer : k, across = ALONG_K ? k : outer;
            return fb_describe(tile + across / STRIP * (LINES * STRIP) + line * STRIP + across % STRIP, LINES * LINE_BYTES,
                               8 * LINE_BYTES);
        }

        FB_DEVICE ELEM *piece_at(ELEM *tile, int line, int at)
        {
            return tile + at / STRIP * (LINES * STRIP) + line * STRIP + ((at % STRIP / 8) ^ (line & 7)) * 8;
        }

        FB_DEVICE void clear(ELEM *tile)
        {
            for (int i = threadIdx.x; K > INSIDE && i < OUTER; i += THREADS)
                fb_zero_16(ALONG_K ? piece_at(tile, i, INSIDE) : piece_at(tile, INSIDE + i % 8, i / 8 * 8));
        }

        // The tile, dealt round the copying threads in pieces. Of a line so many at once as are a power of two: a thread has the
        // same ones of all its lines then, and divides by nothing. (Copiers have few registers: with four turns at once, those of
        // several parts are spilled.) of(outer, k): as kernels/gemm.cuh takes operands.
        template <int FROM = 0, class F> FB_DEVICE void load(ELEM *tile, F of)
        {
            constexpr int LEFT = PIECES - FROM, N = LEFT >= 32 ? 32 : LEFT >= 16 ? 16 : LEFT >= 8 ? 8 : LEFT >= 4 ? 4 : LEFT >= 2 ? 2 : 1;
#pragma unroll(N == PIECES ? 4 : 2)
            for (int turn = 0; turn < (BROUGHT * N + COPYING - 1) / COPYING; turn++) {
                const int i = turn * COPYING + threadIdx.x % COPYING, line = i / N, at = (FROM + i % N) * 8;
                if (BROUGHT * N % COPYING != 0 && line >= BROUGHT) continue;
                const int outer = ALONG_K ? line : at, k = ALONG_K ? at : line;
                ELEM *const to = piece_at(tile, line, at);
                if constexpr (fb_is_piece<decltype(of(0, 0))>::value) {
                    fb_copy_piece(to, of(outer, k));
                } else {
                    __align__(16) ELEM piece[8];
#pragma unroll
                    for (int e = 0; e < 8; e++) piece[e] = of(outer + (ALONG_K ? 0 : e), k + (ALONG_K ? e : 0));
                    fb_store(to, *reinterpret_cast<const fb_pack<ELEM, 8> *>(piece));
                }
            }
            if constexpr (LEFT > N) load<FROM + N>(tile, of);
        }
    };

    // Counts in shared memory: tiles have come (each copying thread arrives once for what it wrote and once for its copies),
    // all warps are done with them; a warpgroup may send off its multiplications. Who has rows with nothing visible, and which
    // rows come next: by turns in two places, for some may be there already while others still look.
    struct counts {
        unsigned long long q, q_empty, k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES], turn[GROUPS];
        unsigned unseen[2][THREADS / 32];
        int block[2];
    };

    // How far a thread is, over all blocks of rows: which one it is at, tiles of K and V, and times that it was its turn.
    struct place {
        int round, s, turns;
    };

    FB_DEVICE void start(counts *c)
    {
        fb_count_start(&c->q, 2 * COPYING);
        fb_count_start(&c->q_empty, 4 * GROUPS);
        for (int i = 0; i < STAGES; i++) {
            fb_count_start(&c->k_full[i], 2 * COPYING);
            fb_count_start(&c->v_full[i], 2 * COPYING);
            fb_count_start(&c->k_empty[i], 4 * GROUPS);
            fb_count_start(&c->v_empty[i], 4 * GROUPS);
        }
        for (int i = 0; i < GROUPS; i++) fb_count_start(&c->turn[i], 4);
    }

    // What `of` gave has been sent for, or stored. (Where all is copied, those who wait for the copies see to the rest.)
    template <class PART> FB_DEVICE void brought(unsigned long long *count)
    {
        if (!fb_is_inside<PART>::value) fb_written_for_wide();
        fb_count_arrive(count);
        fb_count_copies(count);
    }

    FB_DEVICE void await(unsigned long long *count, int step)
    {
        fb_count_wait(count, step / STAGES & 1);
        fb_written_for_wide(); // what was copied, too
    }

    FB_DEVICE void done(unsigned long long *count)
    {
        if (threadIdx.x % 32 == 0) fb_count_arrive(count);
    }

    // The tiles that have something visible for the block, from t on; afterwards those that have nothing.
    template <class SEEN> FB_DEVICE int following(int t, bool unseen, SEEN seen)
    {
        if constexpr (HIDES)
#pragma unroll 1 // of 64 tiles the compiler would keep in registers which ones, more than copiers have
            while (t < TILES && (seen(0, ROWS, t * TILE, TILE) == 0) != unseen) t++;
        return t;
    }

    // Has one of the block's rows nothing visible? All threads ask.
    FB_DEVICE bool any(counts *c, int round, bool mine)
    {
        unsigned *const unseen = c->unseen[round % 2];
        fb_vote<1, THREADS>(unseen, &mine);
        __syncthreads();
        unsigned all = 0;
        for (int i = 0; i < THREADS / 32; i++) all |= unseen[i];
        return all != 0;
    }

    // Which of a tile's columns of scores lies at this place. A thread has places 8i + 2t and 8i + 2t + 1; that of four such i
    // it may have eight columns side by side, i and t change places.
    FB_DEVICE int column(int place)
    {
        return TOGETHER == 1 ? place : (place & ~30) | (place >> 2 & 6) | (place << 2 & 24);
    }

    // Tiles on their way: the next one of K, that of V which is one behind it, and how many have been sent for.
    template <class B0, class B1, class F0, class F1, class SEEN> struct courier {
        ELEM *k, *v;
        counts *c;
        F0 b0_of;
        F1 b1_of;
        SEEN seen;
        int next, behind, k_sent, v_sent;
        bool unseen;

        __device__ __forceinline__ void begin(bool those)
        {
            unseen = those;
            next = following(0, unseen, seen);
            behind = TILES;
        }

        __device__ __forceinline__ bool is_over() { return next >= TILES && behind >= TILES; }

        __device__ __forceinline__ void send()
        {
            if (next < TILES) {
                const int stage = k_sent % STAGES;
                if (k_sent >= STAGES) fb_count_wait(&c->k_empty[stage], (k_sent / STAGES - 1) & 1);
                B0::load(k + stage * B0::SIZE, [&](int n, int at) { return b0_of(at, next * TILE + column(n)); });
                brought<decltype(b0_of(0, 0))>(&c->k_full[stage]);
                k_sent++;
            }
            if (behind < TILES) {
                const int stage = v_sent % STAGES;
                if (v_sent >= STAGES) fb_count_wait(&c->v_empty[stage], (v_sent / STAGES - 1) & 1);
                B1::load(v + stage * B1::SIZE, [&](int n, int at) { return b1_of(behind * TILE + column(at), n); });
                brought<decltype(b1_of(0, 0))>(&c->v_full[stage]);
                v_sent++;
            }
            behind = next;
            if (next < TILES) next = following(next + 1, unseen, seen);
        }
    };

    template <class A, class B0> FB_DEVICE void send_scores(float (&x)[TILE / 2], ELEM *q, ELEM *k, int row)
    {
#pragma unroll
        for (int at = 0; at < DEPTH; at += 16) {
            const fb_wide_tile left = A::at(q, row, at), right = B0::at(k, 0, at);
            if constexpr (TILE == 128)
                fb_wide_128<A::TURNED, B0::TURNED>(x, left, right, at > 0, ELEM());
            else
                fb_wide_64<A::TURNED, B0::TURNED>(x, left, right, at > 0, ELEM());
        }
        fb_wide_mark();
    }

    template <class B1, int FROM = 0> FB_DEVICE void send_columns(float *o, const unsigned *p, ELEM *v, int k)
    {
        constexpr int N = COLUMNS - FROM >= 128 ? 128 : COLUMNS - FROM;
        fb_wide_columns<N>::template add<B1::TURNED>(o, p, B1::at(v, FROM, k), true, ELEM());
        if constexpr (COLUMNS > FROM + N) send_columns<B1, FROM + N>(o + N / 2, p, v, k);
    }

    template <class B1> FB_DEVICE void send_sums(float (&o)[COLUMNS / 2], const unsigned (&p)[TILE / 16][4], ELEM *v)
    {
#pragma unroll
        for (int k = 0; k < TILE; k += 16) send_columns<B1>(o, p[k / 16], v, k);
        fb_wide_mark();
    }

    // Of a thread's two rows: what is subtracted of what f gave, which is multiplied by scale / ln 2 before, and so is this; the
    // thread's part of their sums of exp; and by what earlier sums have to be multiplied. Scores of 2^24 and more, which have no
    // fractions, are multiplied by 1: what rounding the product adds to all of a row would be no small number any more.
    struct running {
        float largest[2], by[2], shift[2], total[2], factor[2];
        bool grown;
    };

    // Products become scores, of the tile from column n on.
    template <bool ALL, class F> FB_DEVICE void score(float (&x)[TILE / 2], int m, int n, F f)
    {
        const int thread = threadIdx.x % 4;
        if constexpr (TOGETHER == 1) {
#pragma unroll
            for (int i = 0; i < TILE / 2; i++) {
                const int row = m + (i >> 1 & 1) * 8, at = n + thread * 2 + i / 4 * 8 + (i & 1);
                const bool inside = ALL || WIDTH % TILE == 0 || at < WIDTH;
                const float y = f(row, inside ? at : WIDTH - 1, x[i]);
                x[i] = inside ? y : -INFINITY;
            }
        } else {
#pragma unroll
            for (int i = 0; i < TILE / 16; i++) {
                const int h = i & 1, from = i / 2 * 16 + 2 * h, at = n + i / 2 * 32 + thread * 8;
                const bool inside = ALL || WIDTH % TILE == 0 || at < WIDTH;
                float y[8];
#pragma unroll
                for (int j = 0; j < 8; j++) y[j] = x[from + j / 2 * 4 + j % 2];
                f(m + 8 * h, inside ? at : WIDTH - 8, y);
#pragma unroll
                for (int j = 0; j < 8; j++) x[from + j / 2 * 4 + j % 2] = inside ? y[j] : -INFINITY;
            }
        }
    }

    // Scores become exp of what they are less than the largest.
    FB_DEVICE void soften(float (&x)[TILE / 2], running &r, float scale)
    {
        const float per = scale * 1.44269504088896341f, growth = 5.5f / scale; // e^5.5 < 2^8
        r.grown = false;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float now = x[2 * h], other = x[2 * h + 1];
#pragma unroll
            for (int i = 4; i < TILE / 2; i += 4) {
                now = fb_larger_wide(now, x[i + 2 * h]);
                other = fb_larger_wide(other, x[i + 2 * h + 1]);
            }
            now = fb_larger_wide(now, other);
            now = fb_larger_wide(now, fb_shuffle(now, 1));
            now = fb_larger_wide(now, fb_shuffle(now, 2));
            const bool grown = !(now <= r.largest[h] + growth); // or NaN
            const float by = fabsf(now) * scale < 16777216.0f ? per : 1, shift = now * by;
            const float factor = r.largest[h] == -INFINITY ? 0 : fb_exp2_wide(r.shift[h] - shift);
            r.factor[h] = grown ? factor : 1;
            r.largest[h] = grown ? now : r.largest[h];
            r.by[h] = grown ? by : r.by[h];
            r.shift[h] = grown ? shift : r.shift[h];
            r.total[h] *= r.factor[h];
            r.grown |= grown;
        }
        float total[2][2] = {};
#pragma unroll
        for (int i = 0; i < TILE / 2; i++) {
            const int h = i >> 1 & 1;
            x[i] = fb_exp2_wide(fmaf(x[i], r.by[h], -r.shift[h]));
            total[h][i & 1] += x[i];
        }
#pragma unroll
        for (int h = 0; h < 2; h++) r.total[h] += total[h][0] + total[h][1];
    }

    FB_DEVICE void follow(float (&o)[COLUMNS / 2], const running &r)
    {
        if (!r.grown) return;
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; i++) o[i] *= r.factor[i >> 1 & 1];
    }

    FB_DEVICE void round(unsigned (&p)[TILE / 16][4], const float (&x)[TILE / 2])
    {
#pragma unroll
        for (int i = 0; i < TILE / 2; i += 2) p[i / 8][i / 2 % 4] = fb_both_wide(x[i], x[i + 1], ELEM());
    }

    // g(c, m, n) of what the sums have become, as `each` of kernels/wgmma.cuh, 32 columns at a time.
    template <int VECTOR, bool GUARDED, class G>
    FB_DEVICE void each(const float (&o)[COLUMNS / 2], const float (&part)[2], int row, int rows, G g)
    {
        const int lane = threadIdx.x & 31;
#pragma unroll
        for (int n = 0; n < COLUMNS; n += 32)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float c[8];
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    const int at = n / 2 + 4 * (i / 2) + 2 * h + i % 2;
                    c[i] = at < COLUMNS / 2 ? o[at] * part[h] : 0;
                }
                wide::turn_four(c);
                const int m = row + (lane >> 2) + 8 * h, column = n + 8 * (lane & 3);
                if ((GUARDED && m >= rows) || (n + 32 > COLUMNS && column >= COLUMNS)) continue;
#pragma unroll
                for (int v = 0; v < 8; v += VECTOR) g(c + v, m, column + v);
            }
    }

    // f_all: of an element where all of its tile are visible. What f gives is multiplied by `scale` (> 0) to be scores; `hidden`
    // is what f gives for hidden ones. g: what becomes of the result, as in kernels/wgmma.cuh.
    template <int VECTOR, bool RAGGED, class A, class B0, class B1, class COURIER, class SEEN, class FALL, class F, class G>
    FB_DEVICE void multiply(COURIER &to, ELEM *q, ELEM *k, ELEM *v, counts *c, place &at, int group, int rows, float scale, float hidden, SEEN seen, FALL f_all, F f, G g)
    {
        const int row = fb_of_warp(threadIdx.x / 32 * 16), m = row + (threadIdx.x % 32 >> 2);
        float o[COLUMNS / 2];
        running r;
#pragma unroll
        for (int h = 0; h < 2; h++) r.largest[h] = -INFINITY, r.by[h] = 1, r.shift[h] = r.total[h] = 0;
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; i++) o[i] = 0;
        int s = at.s, turns = at.turns;
        auto make = [&](float (&x)[TILE / 2], int t) {
            const int n = t * TILE;
            if ((WIDTH % TILE == 0 || n + TILE <= WIDTH) && (!HIDES || seen(64 * group, 64, n, TILE) == 2))
                score<true>(x, m, n, f_all);
            else
                score<false>(x, m, n, f);
            soften(x, r, scale);
        };
        for (int unseen = 0; unseen <= (HIDES ? 1 : 0); unseen++) {
            if (unseen) {
                bool mine = false;
#pragma unroll
                for (int h = 0; h < 2; h++) mine |= m + 8 * h < rows && !(r.largest[h] > hidden + 110 / scale); // e^-110 is 0
                if (!any(c, at.round, mine)) break;
            }
            int t = following(0, unseen, seen);
            if (t >= TILES) continue;
            if (!COPIERS) {
                to.begin(unseen);
                to.send();
                to.send();
                if (!unseen) fb_count_wait(&c->q, 0);
            }
            float x[TILE / 2];
            unsigned p[TILE / 16][4];
            await(&c->k_full[s % STAGES], s);
            fb_wide_begin();
            send_scores<A, B0>(x, q, k + s % STAGES * B0::SIZE, 64 * group);
            fb_wide_wait<0>();
            done(&c->k_empty[s % STAGES]);
            make(x, t);
            follow(o, r);
            round(p, x);
#pragma unroll 1
            for (t = following(t + 1, unseen, seen); t < TILES; t = following(t + 1, unseen, seen)) {
                const int next = s + 1;
                if (!COPIERS) to.send(); // between multiplications and waiting for them, branches would make the compiler wait
                await(&c->k_full[next % STAGES], next);
                if (TURNS && (group || turns)) fb_count_wait(&c->turn[group], (group ? turns : turns - 1) & 1);
                fb_wide_begin();
                send_scores<A, B0>(x, q, k + next % STAGES * B0::SIZE, 64 * group);
                await(&c->v_full[s % STAGES], s);
                send_sums<B1>(o, p, v + s % STAGES * B1::SIZE);
                if (TURNS) done(&c->turn[(group + 1) % GROUPS]), turns++;
                fb_wide_wait<1>();
                done(&c->k_empty[next % STAGES]);
                make(x, t);
                fb_first(r.total[0] + r.total[1]);
                fb_wide_wait<0>();
                done(&c->v_empty[s % STAGES]);
                follow(o, r);
                round(p, x);
                s = next;
            }
            await(&c->v_full[s % STAGES], s);
            fb_wide_begin();
            send_sums<B1>(o, p, v + s % STAGES * B1::SIZE);
            fb_wide_wait<0>();
            done(&c->v_empty[s % STAGES]);
            s++;
        }
        if (COPIERS) {
            __syncwarp(); // all lanes have looked which rows these are
            done(&c->q_empty);
        }
        at = {at.round + 1, s, turns};
        float part[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float all = r.total[h];
            all += fb_shuffle(all, 1);
            all += fb_shuffle(all, 2);
            part[h] = 1 / all;
        }
        if (!RAGGED || row + 16 <= rows)
            each<VECTOR, false>(o, part, row, rows, g);
        else
            each<VECTOR, true>(o, part, row, rows, g);
        __syncwarp(); // some lanes had nothing to store: the compiler would make the next rows' multiplications wait one by one
    }

    // What copiers do: all tiles of this block of rows, then those of the next one, and so on until there is none. Its number is
    // drawn as late as can be: what is drawn early is work that nobody else can take.
    template <class A, class COURIER, class AT, class FA>
    FB_DEVICE void bring(COURIER &to, ELEM *q, counts *c, fb_draw *draw, int block, int here, int blocks, AT at, FA a_of)
    {
        const bool first = threadIdx.x % WIDE == 0;
        if (first) c->block[0] = block;
        for (int round = 0;; round++) {
            int next = 0;
            if (round) fb_count_wait(&c->q_empty, (round - 1) & 1);
            if (block >= blocks) break;
            at(block);
            A::load(q, a_of);
            brought<decltype(a_of(0, 0))>(&c->q);
            for (int unseen = 0; unseen <= (HIDES ? 1 : 0); unseen++) {
                if (unseen && !any(c, round, false)) break;
                to.begin(unseen);
#pragma unroll 1
                while (!to.is_over()) to.send();
                if (first && !unseen) next = here + (int)atomicAdd(&draw->next, 1u);
            }
            if (first) c->block[(round + 1) % 2] = next;
            FB_MEET_SOME(2, COPYING); // 1 is that of a kernel of several stages
            block = c->block[(round + 1) % 2];
        }
        fb_count_arrive(&c->q);
        fb_count_copies(&c->q);
        fb_copies_wait<0>();
        if (first && atomicAdd(&draw->left, 1u) == here - 1u) draw->next = draw->left = 0;
    }

    // Blocks of rows from `block` on, of `blocks`; `here` blocks of threads share them. at(block): a_of and all others are of
    // these rows from now on; gives how many there are from the first of them on.
    template <int VECTOR, bool RAGGED, bool A_ALONG_K, bool B0_ALONG_K, bool B1_ALONG_K, class AT, class FA, class F0, class F1, class SEEN, class FALL, class F, class G>
    FB_DEVICE void run(unsigned char *shared, fb_draw *draw, int block, int here, int blocks, float scale, float hidden, AT at, FA a_of, F0 b0_of, F1 b1_of, SEEN seen, FALL f_all, F f, G g)
    {
        using A = operand<A_ALONG_K, ROWS, DEPTH>;
        using B0 = operand<B0_ALONG_K, TILE, DEPTH>;
        using B1 = operand<B1_ALONG_K, COLUMNS, TILE>;
        ELEM *const q = reinterpret_cast<ELEM *>(shared), *const k = q + A::SIZE, *const v = k + STAGES * B0::SIZE;
        counts *const c = reinterpret_cast<counts *>(v + STAGES * B1::SIZE);
        if (threadIdx.x == 0) start(c);
        A::clear(q);
        for (int s = 0; s < STAGES; s++) B0::clear(k + s * B0::SIZE);
        if (DEPTH % 16) fb_written_for_wide();
        __syncthreads();
        const int group = fb_warpgroup();
        courier<B0, B1, F0, F1, SEEN> to = {k, v, c, b0_of, b1_of, seen};
        place is = {};
        if constexpr (COPIERS == 0) {
            const int rows = at(block);
            A::load(q, a_of);
            brought<decltype(a_of(0, 0))>(&c->q);
            multiply<VECTOR, RAGGED, A, B0, B1>(to, q, k, v, c, is, group, rows, scale, hidden, seen, f_all, f, g);
            fb_copies_wait<0>();
        } else if (group == GROUPS) {
            if constexpr (GROUPS > 1) fb_registers_fewer<GROUPS == 2 ? 40 : 32>();
            bring<A>(to, q, c, draw, block, here, blocks, at, a_of);
        } else {
            if constexpr (GROUPS > 1) fb_registers_more<GROUPS == 2 ? 232 : 160>();
            for (;;) {
                fb_count_wait(&c->q, is.round & 1);
                block = fb_of_warp(c->block[is.round % 2]);
                if (block >= blocks) break;
                const int rows = at(block);
                multiply<VECTOR, RAGGED, A, B0, B1>(to, q, k, v, c, is, group, rows, scale, hidden, seen, f_all, f, g);
            }
        }
    }
};

#endif
