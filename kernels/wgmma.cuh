// Two contractions in one kernel on the warpgroup's tensor core instructions of compute capability 9.0 (target sm_90a):
// f(A · B0) · B1 for a block's rows of A, 16-bit operands, what is between the products in registers.
//
// A warpgroup is four warps; its wgmma multiplies 64 rows at once, reads right operands from shared memory by itself and
// leaves threads free meanwhile. The last warpgroup of a block copies: it goes through the steps of both products, STAGES of
// them in shared memory at once. The others have 64 rows each:
//
//     first product      a step is 64 of k: A[rows, 64] and B0[64, WIDTH]; sums of all WIDTH columns, 2 rows a thread
//     between            f of each sum, rounded: sums of m64 lie as wgmma wants its left operand (PTX ISA, 9.7.15.5.1),
//                        so they become fragments without leaving their thread
//     second product     a step is 64 columns: B1[WIDTH, 64]; what is made of them is stored while the others multiply
//
// so only a small part of the results is left to be made when the last step has come. Two groups take turns: one multiplies
// while the other makes something of its sums, since neither the tensor cores nor the rest of a multiprocessor does both at
// once for one group (multiplications with a left operand in registers keep their warps until they are under way).
// Blocks begin with different steps, and ask for other parts of the right operands at one time.
//
// A *tile* in shared memory is strips of 64 elements, 128 bytes, a line, in lines along the operand's contiguous dimension;
// piece p of 16 bytes of line l lies at place p ^ l % 8: the 128-byte swizzle, by which 8 lines meet no bank twice (PTX ISA,
// 9.7.15.5.1.2; tiles begin at multiples of 1024 bytes).

#ifndef FB_WGMMA
#define FB_WGMMA

// ---- PTX -----------------------------------------------------------------------------------------------------------

// Where a tile begins, and how far apart its parts are, as wgmma wants to know it (PTX ISA, matrix descriptor format): of
// tiles whose contiguous dimension is k, groups of 8 lines are `group` bytes apart; of others those of 8 k, and strips of 64
// elements are `strip` bytes apart. In units of 16 bytes; layout 1 is the 128-byte swizzle.
struct fb_wide_tile {
    unsigned long long bits;
};

FB_DEVICE fb_wide_tile fb_describe(const void *at, int strip, int group)
{
    const unsigned long long start = fb_shared_address(at) >> 4 & 0x3fff;
    return {start | (unsigned long long)(strip >> 4) << 16 | (unsigned long long)(group >> 4) << 32 | 1ull << 62};
}

// What threads have written to shared memory is seen by wgmma after this.
FB_DEVICE void fb_written_for_wide()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Before the first wgmma that reads registers, or adds to such as were written otherwise.
FB_DEVICE void fb_wide_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// wgmmas since the last mark are one batch; waiting is for all batches but the LEFT newest.
FB_DEVICE void fb_wide_mark()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int LEFT> FB_DEVICE void fb_wide_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

// Sums of 64, 128 or 256 columns are 32, 64 or 128 registers of each thread.
#define FB_SUMS_64 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
    "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31 "
#define FB_SUMS_128 FB_SUMS_64 \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, " \
    "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63 "
#define FB_SUMS_256 FB_SUMS_128 \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, " \
    "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, " \
    "%103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, " \
    "%120, %121, %122, %123, %124, %125, %126, %127 "
#define FB_TO_8(c, i) \
    "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]), "+f"(c[i + 7])
#define FB_TO_32(c, i) FB_TO_8(c, i), FB_TO_8(c, i + 8), FB_TO_8(c, i + 16), FB_TO_8(c, i + 24)
#define FB_TO_64(c) FB_TO_32(c, 0)
#define FB_TO_128(c) FB_TO_32(c, 0), FB_TO_32(c, 32)
#define FB_TO_256(c) FB_TO_128(c), FB_TO_32(c, 64), FB_TO_32(c, 96)

// c (+)= a · b of 64 rows, N columns and 16 of k, in the background. A_TURNED, B_TURNED: the operand's contiguous dimension
// is not k. Lane l of the warpgroup's warp w holds c[4 n + e] at row 16 w + l / 4 (+ 8 where e > 1) and column
// 8 n + 2 (l % 4) + e % 2; fragments of a are the same places of 16 columns, two to a register.
#define FB_WIDE_FROM_SHARED(N, TYPE, ELEM, A, B, ADD, TA, TB)                                                              \
    template <bool A_TURNED, bool B_TURNED>                                                                                \
    FB_DEVICE void fb_wide_##N(float *c, fb_wide_tile a, fb_wide_tile b, bool add, ELEM)                                   \
    {                                                                                                                      \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADD ", 0;\n"                                                      \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" FB_SUMS_##N "}, " A ", " B       \
                     ", p, 1, 1, " TA ", " TB ";\n}"                                                                       \
                     : FB_TO_##N(c)                                                                                        \
                     : "l"(a.bits), "l"(b.bits), "r"((int)add), "n"((int)A_TURNED), "n"((int)B_TURNED)                     \
                     : "memory");                                                                                          \
    }
#define FB_WIDE_FROM_REGISTERS(TYPE, ELEM)                                                                                 \
    template <bool B_TURNED> FB_DEVICE void fb_wide_64(float *c, const unsigned *a, fb_wide_tile b, bool add, ELEM)        \
    {                                                                                                                      \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"                                                          \
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {" FB_SUMS_64                           \
                     "}, {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}"                                                      \
                     : FB_TO_64(c)                                                                                         \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits), "r"((int)add), "n"((int)B_TURNED)          \
                     : "memory");                                                                                          \
    }
FB_WIDE_FROM_SHARED(64, "f16", fb_f16, "%32", "%33", "%34", "%35", "%36")
FB_WIDE_FROM_SHARED(64, "bf16", fb_bf16, "%32", "%33", "%34", "%35", "%36")
FB_WIDE_FROM_SHARED(128, "f16", fb_f16, "%64", "%65", "%66", "%67", "%68")
FB_WIDE_FROM_SHARED(128, "bf16", fb_bf16, "%64", "%65", "%66", "%67", "%68")
FB_WIDE_FROM_SHARED(256, "f16", fb_f16, "%128", "%129", "%130", "%131", "%132")
FB_WIDE_FROM_SHARED(256, "bf16", fb_bf16, "%128", "%129", "%130", "%131", "%132")
FB_WIDE_FROM_REGISTERS("f16", fb_f16)
FB_WIDE_FROM_REGISTERS("bf16", fb_bf16)

// A count in shared memory that threads wait for (mbarrier): each time so many have arrived, its phase ends and the next
// begins. Phases are told apart by parity. What was written before arriving is seen after waiting.
FB_DEVICE void fb_count_start(unsigned long long *count, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(fb_shared_address(count)), "r"(arrivals) : "memory");
}

FB_DEVICE void fb_count_arrive(unsigned long long *count)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(fb_shared_address(count)) : "memory");
}

FB_DEVICE void fb_count_wait(unsigned long long *count, int parity)
{
    int ended;
    do {
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}"
                     : "=r"(ended)
                     : "r"(fb_shared_address(count)), "r"(parity)
                     : "memory");
    } while (!ended);
}

// Arrives when this thread's copies so far (fb_copy_16) have come.
FB_DEVICE void fb_count_copies(unsigned long long *count)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(fb_shared_address(count)) : "memory");
}

// Where the result is rounded to 16 bits, as fb_sigmoidh, in half as many instructions: e^-x too small for a float is 0, and
// one too large makes 0.
FB_DEVICE float fb_sigmoid_wide(float x)
{
    float e, y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * -1.44269504088896341f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0f + e));
    return y;
}

// One instruction, where comparing and choosing are two: what lies between the products waits for nothing else. NaN stays.
FB_DEVICE float fb_relu_wide(float x)
{
    float y;
    asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(y) : "f"(x));
    return y;
}

// ---- end of PTX ----------------------------------------------------------------------------------------------------

template <class T> FB_DEVICE T fb_relu_wide(T x) { return x < 0 ? 0 : x; }

// ROWS: of a block, 64 for each warpgroup that multiplies. WIDTH: columns of the first product and k of the second, INSIDE of
// them in the operands; DEPTH: k of the first; COLUMNS: of the second. All are whole strips of 64 elements.
template <class ELEM, int ROWS, int WIDTH, int INSIDE, int DEPTH, int COLUMNS, int STAGES> struct fb_chain_wide {
    static constexpr int STRIP = 64, LINE_BYTES = 128, WIDE = 128;          // threads of a warpgroup
    static constexpr int GROUPS = ROWS / 64, THREADS = WIDE * (GROUPS + 1); // the last group copies
    static constexpr int FIRST = DEPTH / STRIP, SECOND = COLUMNS / STRIP, STEPS = FIRST + SECOND;
    static_assert(ROWS % 64 == 0 && WIDTH % STRIP == 0 && DEPTH % STRIP == 0 && COLUMNS % STRIP == 0, "whole strips");
    static_assert(WIDTH <= 256 && GROUPS <= 2, "sums of the first product are half as many registers; two take turns");

    template <bool ALONG_K, int OUTER, int K> struct operand {
        static constexpr bool TURNED = !ALONG_K;
        static constexpr int LINES = ALONG_K ? OUTER : K, ACROSS = ALONG_K ? K : OUTER, SIZE = OUTER * K;

        FB_DEVICE fb_wide_tile at(ELEM *tile, int outer, int k)
        {
            const int line = ALONG_K ? outer : k, across = ALONG_K ? k : outer;
            return fb_describe(tile + across / STRIP * (LINES * STRIP) + line * STRIP + across % STRIP, LINES * LINE_BYTES,
                               8 * LINE_BYTES);
        }

        // The tile, dealt round the copying threads in pieces. of(outer, k): as kernels/gemm.cuh takes operands.
        template <class F> FB_DEVICE void load(ELEM *tile, F of)
        {
            constexpr int PIECES = ACROSS / 8;
#pragma unroll 16
            for (int turn = 0; turn < LINES * PIECES / WIDE; turn++) {
                const int i = turn * WIDE + threadIdx.x % WIDE, line = i / PIECES, at = i % PIECES * 8;
                const int outer = ALONG_K ? line : at, k = ALONG_K ? at : line;
                ELEM *const to = tile + at / STRIP * (LINES * STRIP) + line * STRIP + ((at % STRIP / 8) ^ (line & 7)) * 8;
                if constexpr (fb_is_piece<decltype(of(0, 0))>::value) {
                    fb_copy_piece(to, of(outer, k));
                } else {
                    __align__(16) ELEM piece[8];
#pragma unroll
                    for (int e = 0; e < 8; e++) piece[e] = of(outer + (ALONG_K ? 0 : e), k + (ALONG_K ? e : 0));
                    fb_store(to, *reinterpret_cast<const fb_pack<ELEM, 8> *>(piece));
                }
            }
        }
    };

    // Counts in shared memory, of each stage: the copying threads have brought it (each arrives once for what it wrote and once
    // for its copies), all warps are done with it. And of each group: the other one has sent its multiplications off.
    struct counts {
        unsigned long long full[STAGES], empty[STAGES], turn[2];
    };

    // A small operand beside the tiles, for what is made of the products: by the copying threads, with the first stage.
    template <class T> FB_DEVICE void bring(T *to, const T *from, int bytes)
    {
        for (int i = threadIdx.x % WIDE * 16; i < bytes; i += WIDE * 16)
            fb_copy_16(reinterpret_cast<char *>(to) + i, reinterpret_cast<const char *>(from) + i);
    }

    // 64 rows and 16 of k of the first product; as many columns at once as there are instructions for.
    template <class A, class B, int FROM = 0> FB_DEVICE void multiply(float *sums, ELEM *a, ELEM *b, int row, int k, bool add)
    {
        constexpr int LEFT = WIDTH - FROM, N = LEFT >= 256 ? 256 : LEFT >= 128 ? 128 : 64;
        const fb_wide_tile left = A::at(a, row, k), right = B::at(b, FROM, k);
        if constexpr (N == 256)
            fb_wide_256<A::TURNED, B::TURNED>(sums, left, right, add, ELEM());
        else if constexpr (N == 128)
            fb_wide_128<A::TURNED, B::TURNED>(sums, left, right, add, ELEM());
        else
            fb_wide_64<A::TURNED, B::TURNED>(sums, left, right, add, ELEM());
        if constexpr (LEFT > N) multiply<A, B, FROM + N>(sums + N / 2, a, b, row, k, add);
    }

    // Of 4 × 4 pairs, lane l of each four has the l-th of every list; it gets the l-th list.
    FB_DEVICE void turn_four(float (&c)[8])
    {
        const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
        for (int e = 0; e < 2; e++) {
#pragma unroll
            for (int i = e; i < 8; i += 4) {
                const float got = fb_shuffle(odd ? c[i] : c[i + 2], 1);
                c[i] = odd ? got : c[i], c[i + 2] = odd ? c[i + 2] : got;
            }
#pragma unroll
            for (int i = e; i < 4; i += 2) {
                const float got = fb_shuffle(high ? c[i] : c[i + 4], 2);
                c[i] = high ? got : c[i], c[i + 4] = high ? c[i + 4] : got;
            }
        }
    }

    // Sums of 64 rows and 64 columns: g(c, m, n) for VECTOR neighbours, of which the first is at (m, n), whole lines of 8 from
    // the four threads that have pairs of them. GUARDED: of the first `rows` rows only.
    template <int VECTOR, bool GUARDED, class G> FB_DEVICE void each(const float (&sums)[32], int row, int column, int rows, G g)
    {
        const int lane = threadIdx.x & 31;
#pragma unroll
        for (int q = 0; q < 2; q++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float c[8];
#pragma unroll
                for (int i = 0; i < 8; i++) c[i] = sums[16 * q + 4 * (i / 2) + 2 * h + i % 2];
                turn_four(c);
                const int m = row + (lane >> 2) + 8 * h;
                if (GUARDED && m >= rows) continue;
#pragma unroll
                for (int v = 0; v < 8; v += VECTOR) g(c + v, m, column + 8 * (4 * q + (lane & 3)) + v);
            }
    }

    template <class A, class B0, class B1> static constexpr __device__ int stage_size()
    {
        return A::SIZE + B0::SIZE > B1::SIZE ? A::SIZE + B0::SIZE : B1::SIZE;
    }

    template <class A, class B0, class B1, class FA, class F0, class F1, class N>
    FB_DEVICE void copy(ELEM *tiles, counts *c, FA a_of, F0 b0_of, F1 b1_of, N near)
    {
        near();
#pragma unroll 1
        for (int s = 0; s < STEPS; s++) {
            ELEM *const stage = tiles + s % STAGES * stage_size<A, B0, B1>();
            if (s >= STAGES) fb_count_wait(&c->empty[s % STAGES], (s / STAGES - 1) & 1);
            if (s < FIRST) {
                const int k0 = (s + blockIdx.x) % FIRST * STRIP;
                A::load(stage, [&](int m, int k) { return a_of(m, k0 + k); });
                B0::load(stage + A::SIZE, [&](int n, int k) { return b0_of(k0 + k, n); });
            } else {
                const int n0 = (s - FIRST + blockIdx.x) % SECOND * STRIP;
                B1::load(stage, [&](int n, int k) { return b1_of(k, n0 + n); });
            }
            fb_written_for_wide();
            fb_count_arrive(&c->full[s % STAGES]);
            fb_count_copies(&c->full[s % STAGES]);
        }
        fb_copies_wait<0>();
    }

    // Stage s has come, and it is this group's turn: one multiplies while the other makes something of its sums.
    FB_DEVICE void begin(counts *c, int s, int group)
    {
        fb_count_wait(&c->full[s % STAGES], s / STAGES & 1);
        fb_written_for_wide(); // what was copied, too
        if (GROUPS == 2 && (group || s)) fb_count_wait(&c->turn[group], (group ? s : s - 1) & 1);
        fb_wide_begin();
    }

    // Its multiplications are under way.
    FB_DEVICE void sent(counts *c, int group)
    {
        fb_wide_mark();
        if (GROUPS == 2 && threadIdx.x % 32 == 0) fb_count_arrive(&c->turn[1 - group]);
    }

    FB_DEVICE void done(counts *c, int s)
    {
        fb_wide_wait<0>();
        if (threadIdx.x % 32 == 0) fb_count_arrive(&c->empty[s % STAGES]);
    }

    // near: what is brought to lie beside the tiles; f: of an element of the first product; g: what becomes of the second, see
    // `each`. RAGGED: of the block's rows there may be but `rows`; warps that have all of theirs go without conditions.
    template <int VECTOR, bool RAGGED, bool A_ALONG_K, bool B0_ALONG_K, bool B1_ALONG_K, class FA, class F0, class F1, class N, class F, class G>
    FB_DEVICE void run(unsigned char *shared, int rows, FA a_of, F0 b0_of, F1 b1_of, N near, F f, G g)
    {
        using A = operand<A_ALONG_K, ROWS, STRIP>;
        using B0 = operand<B0_ALONG_K, WIDTH, STRIP>;
        using B1 = operand<B1_ALONG_K, STRIP, WIDTH>;
        constexpr int STAGE = stage_size<A, B0, B1>();
        ELEM *const tiles = reinterpret_cast<ELEM *>(shared);
        counts *const c = reinterpret_cast<counts *>(tiles + STAGES * STAGE);
        if (threadIdx.x == 0) {
            for (int i = 0; i < STAGES; i++) {
                fb_count_start(&c->full[i], 2 * WIDE);
                fb_count_start(&c->empty[i], 4 * GROUPS);
            }
            for (int i = 0; i < 2; i++) fb_count_start(&c->turn[i], 4);
        }
        __syncthreads();
        const int group = threadIdx.x / WIDE, row = threadIdx.x / 32 * 16; // of the warp
        if (group == GROUPS) {
            copy<A, B0, B1>(tiles, c, a_of, b0_of, b1_of, near);
            return;
        }
        unsigned h[WIDTH / 16][4];
        {
            float sums[WIDTH / 2];
#pragma unroll
            for (int i = 0; i < WIDTH / 2; i++) sums[i] = 0;
#pragma unroll(FIRST <= 4 ? FIRST : 1)
            for (int s = 0; s < FIRST; s++) {
                ELEM *const stage = tiles + s % STAGES * STAGE;
                begin(c, s, group);
#pragma unroll
                for (int k = 0; k < STRIP; k += 16) multiply<A, B0>(sums, stage, stage + A::SIZE, 64 * group, k, true);
                sent(c, group);
                done(c, s);
            }
            const int m = row + (threadIdx.x % 32 >> 2), n = threadIdx.x % 4 * 2;
#pragma unroll
            for (int i = 0; i < WIDTH / 2; i += 2) {
                float two[2];
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int at = n + i / 4 * 8 + e;
                    const bool inside = INSIDE == WIDTH || at < INSIDE;
                    const float x = f(m + (i >> 1 & 1) * 8, inside ? at : INSIDE - 1, sums[i + e]);
                    two[e] = inside ? x : 0;
                }
                h[i / 8][i / 2 % 4] = fb_both(two[0], two[1], ELEM());
            }
        }
#pragma unroll 1
        for (int s = FIRST; s < STEPS; s++) {
            ELEM *const stage = tiles + s % STAGES * STAGE;
            float sums[32];
#pragma unroll
            for (int i = 0; i < 32; i++) sums[i] = 0;
            begin(c, s, group);
#pragma unroll
            for (int k = 0; k < WIDTH; k += 16) fb_wide_64<B1::TURNED>(sums, h[k / 16], B1::at(stage, 0, k), k > 0, ELEM());
            sent(c, group);
            done(c, s);
            const int column = (s - FIRST + blockIdx.x) % SECOND * STRIP;
            if (!RAGGED || row + 16 <= rows)
                each<VECTOR, false>(sums, row, column, rows, g);
            else
                each<VECTOR, true>(sums, row, column, rows, g);
        }
    }
};

// What kernels of this file call it by.
#define fb_sigmoidh fb_sigmoid_wide

#endif
