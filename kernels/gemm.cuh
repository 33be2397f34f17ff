// A generated contraction: C[b] = A[b]·B[b] with a prologue on the operands and an epilogue on the accumulators.
//
// This text is the body. In front of it stand the prelude and these macros, with real names and access maps in them:
//   FB_ENTRY, FB_PARAMS     the kernel's name and parameter list
//   FB_M FB_N FB_K          extents (constants); the grid is (tiles of N, tiles of M, batch × FB_SPLIT_K)
//   FB_BM FB_BN FB_BK       extents of a block's tile; FB_WM FB_WN: what one warp computes; FB_STAGES: tiles in flight
//   fb_elem                 type of the tiles in shared memory: fb_f16, fb_bf16, float, double
//   fb_acc                  type of the accumulators: float, double
//   FB_MMA                  16: tensor cores, 16-bit operands (m16n8k16); 8: tf32 (m16n8k8); 0: ordinary arithmetic
//   FB_MMA_TYPE             "f16" or "bf16" where FB_MMA is 16
//   FB_LOAD_A(b, m, k)      operand element as fb_elem, prologue included; only asked for inside the extents
//   FB_LOAD_B(b, k, n)
//   FB_A_PIECE(b, m, k)     defined where A has no prologue and its 16-byte pieces along the contiguous dimension are aligned:
//   FB_B_PIECE(b, k, n)       the address of such a piece, which then comes by cp.async
//   FB_A_K_MAJOR            1 where A's contiguous dimension is k, 0 where it is m; FB_B_K_MAJOR likewise (k or n)
//   FB_STORE(b, m, n, acc)  epilogue and store of one element; neighbours in n are stored by neighbouring threads
//
// A tile lies in shared memory the way it lies in memory (k-major or not), each line padded by 16 bytes against bank conflicts;
// ldmatrix transposes on the way to the registers where a fragment wants it. FB_STAGES tiles are in flight. The
// accumulators go back through shared memory, so that the epilogue reads and writes whole lines.

#define FB_WARPS_M (FB_BM / FB_WM)
#define FB_WARPS_N (FB_BN / FB_WN)
#define FB_THREADS (32 * FB_WARPS_M * FB_WARPS_N)
#define FB_PIECE (16 / (int)sizeof(fb_elem))
#define FB_A_LINES (FB_A_K_MAJOR ? FB_BM : FB_BK)
#define FB_B_LINES (FB_B_K_MAJOR ? FB_BN : FB_BK)
#define FB_A_LINE ((FB_A_K_MAJOR ? FB_BK : FB_BM) + FB_PIECE)
#define FB_B_LINE ((FB_B_K_MAJOR ? FB_BK : FB_BN) + FB_PIECE)
#define FB_A_TILE (FB_A_LINES * FB_A_LINE)
#define FB_B_TILE (FB_B_LINES * FB_B_LINE)
#define FB_C_LINE (FB_BN + 4)
// An element of a tile in shared memory, whichever way it lies.
#define FB_A_SHARED(tile, m, k) ((tile)[FB_A_K_MAJOR ? (m) * FB_A_LINE + (k) : (k) * FB_A_LINE + (m)])
#define FB_B_SHARED(tile, k, n) ((tile)[FB_B_K_MAJOR ? (n) * FB_B_LINE + (k) : (k) * FB_B_LINE + (n)])

#if FB_MMA
#define FB_STEP FB_MMA
#define FB_MI (FB_WM / 16)
#define FB_NI (FB_WN / 8)
#define FB_ACCS 4
#else
// A warp is 4 × 8 lanes; each computes every fourth row and every eighth column of the warp's tile.
#define FB_STEP 1
#define FB_MI (FB_WM / 4)
#define FB_NI (FB_WN / 8)
#define FB_ACCS 1
#endif

static __device__ __forceinline__ unsigned fb_shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

// Where a piece lies outside the operand, zeros are written instead and nothing is read.
static __device__ __forceinline__ void fb_copy_piece(void *to, const void *from, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(fb_shared_address(to)), "l"(from), "r"(inside ? 16 : 0));
}

#if FB_MMA == 16
static __device__ __forceinline__ void fb_load_fragment(unsigned r[4], const void *at, bool transposed)
{
    if (transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(fb_shared_address(at)));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(fb_shared_address(at)));
}

static __device__ __forceinline__ void fb_multiply(float c[4], const unsigned a[4], const unsigned b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." FB_MMA_TYPE "." FB_MMA_TYPE ".f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#elif FB_MMA == 8
static __device__ __forceinline__ unsigned fb_tf32(float x)
{
    unsigned r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}

static __device__ __forceinline__ void fb_multiply(float c[4], const unsigned a[4], const unsigned b[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

// Adds one tile's product to the accumulators of the warp at (wm, wn).
static __device__ __forceinline__ void fb_multiply_tile(fb_acc acc[FB_MI][FB_NI][FB_ACCS], const fb_elem *a, const fb_elem *b, int wm, int wn)
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int k = 0; k < FB_BK; k += FB_STEP) {
#if FB_MMA == 16
        unsigned fa[FB_MI][4], fb[FB_NI][2];
        const int j = lane >> 3, r = lane & 7;
#pragma unroll
        for (int i = 0; i < FB_MI; i++)
            fb_load_fragment(fa[i], FB_A_K_MAJOR ? &FB_A_SHARED(a, wm + 16 * i + (lane & 15), k + (lane >> 4) * 8)
                                                 : &FB_A_SHARED(a, wm + 16 * i + (j & 1) * 8, k + (j >> 1) * 8 + r),
                             !FB_A_K_MAJOR);
#pragma unroll
        for (int i = 0; i < FB_NI; i += 2) {
            unsigned two[4]; // the fragments of two neighbours in n
            fb_load_fragment(two, FB_B_K_MAJOR ? &FB_B_SHARED(b, k + (j & 1) * 8, wn + 8 * i + (j >> 1) * 8 + r)
                                               : &FB_B_SHARED(b, k + (j & 1) * 8 + r, wn + 8 * i + (j >> 1) * 8),
                             !FB_B_K_MAJOR);
            fb[i][0] = two[0], fb[i][1] = two[1], fb[i + 1][0] = two[2], fb[i + 1][1] = two[3];
        }
#elif FB_MMA == 8
        unsigned fa[FB_MI][4], fb[FB_NI][2];
        const int g = lane >> 2, t = lane & 3;
#pragma unroll
        for (int i = 0; i < FB_MI; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) fa[i][e] = fb_tf32(FB_A_SHARED(a, wm + 16 * i + g + (e & 1) * 8, k + t + (e >> 1) * 4));
#pragma unroll
        for (int i = 0; i < FB_NI; i++)
#pragma unroll
            for (int e = 0; e < 2; e++) fb[i][e] = fb_tf32(FB_B_SHARED(b, k + t + e * 4, wn + 8 * i + g));
#else
        fb_acc fa[FB_MI], fb[FB_NI];
#pragma unroll
        for (int i = 0; i < FB_MI; i++) fa[i] = (fb_acc)FB_A_SHARED(a, wm + 4 * i + (lane >> 3), k);
#pragma unroll
        for (int i = 0; i < FB_NI; i++) fb[i] = (fb_acc)FB_B_SHARED(b, k, wn + 8 * i + (lane & 7));
#endif
#pragma unroll
        for (int i = 0; i < FB_MI; i++)
#pragma unroll
            for (int n = 0; n < FB_NI; n++)
#if FB_MMA
                fb_multiply(acc[i][n], fa[i], fb[n]);
#else
                acc[i][n][0] += fa[i] * fb[n];
#endif
    }
}

// The accumulators of one warp into the block's tile of C in shared memory.
static __device__ __forceinline__ void fb_spread(fb_acc *c, const fb_acc acc[FB_MI][FB_NI][FB_ACCS], int wm, int wn)
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < FB_MI; i++)
#pragma unroll
        for (int n = 0; n < FB_NI; n++)
#pragma unroll
            for (int e = 0; e < FB_ACCS; e++) {
#if FB_MMA
                int row = wm + 16 * i + (lane >> 2) + (e >> 1) * 8, col = wn + 8 * n + (lane & 3) * 2 + (e & 1);
#else
                int row = wm + 4 * i + (lane >> 3), col = wn + 8 * n + (lane & 7);
#endif
                c[row * FB_C_LINE + col] = acc[i][n][e];
            }
}

extern "C" __global__ void __launch_bounds__(FB_THREADS) FB_ENTRY(FB_PARAMS)
{
    extern __shared__ __align__(16) unsigned char fb_shared[];
    fb_elem *const tiles_a = (fb_elem *)fb_shared;
    fb_elem *const tiles_b = tiles_a + FB_STAGES * FB_A_TILE;
    const int m0 = blockIdx.y * FB_BM, n0 = blockIdx.x * FB_BN;
    const long long fb_batch = blockIdx.z;
    const int warp = threadIdx.x / 32, wm = warp / FB_WARPS_N * FB_WM, wn = warp % FB_WARPS_N * FB_WN;

    // One tile of each operand, starting at k0, dealt round the threads in pieces of 16 bytes.
    auto load = [&](int stage, int k0) {
        fb_elem *const a = tiles_a + stage * FB_A_TILE, *const b = tiles_b + stage * FB_B_TILE;
        const int across_a = (FB_A_K_MAJOR ? FB_BK : FB_BM) / FB_PIECE, across_b = (FB_B_K_MAJOR ? FB_BK : FB_BN) / FB_PIECE;
#pragma unroll
        for (int i = threadIdx.x; i < FB_A_LINES * across_a; i += FB_THREADS) {
            const int line = i / across_a, at = i % across_a * FB_PIECE;
            const int m = m0 + (FB_A_K_MAJOR ? line : at), k = k0 + (FB_A_K_MAJOR ? at : line);
            fb_elem *const to = a + line * FB_A_LINE + at;
#ifdef FB_A_PIECE
            const bool inside = m < FB_M && k < FB_K;
            fb_copy_piece(to, FB_A_PIECE(fb_batch, (inside ? m : 0), (inside ? k : 0)), inside);
#else
#pragma unroll
            for (int e = 0; e < FB_PIECE; e++) {
                const int me = m + (FB_A_K_MAJOR ? 0 : e), ke = k + (FB_A_K_MAJOR ? e : 0);
                to[e] = me < FB_M && ke < FB_K ? FB_LOAD_A(fb_batch, me, ke) : fb_elem(0);
            }
#endif
        }
#pragma unroll
        for (int i = threadIdx.x; i < FB_B_LINES * across_b; i += FB_THREADS) {
            const int line = i / across_b, at = i % across_b * FB_PIECE;
            const int n = n0 + (FB_B_K_MAJOR ? line : at), k = k0 + (FB_B_K_MAJOR ? at : line);
            fb_elem *const to = b + line * FB_B_LINE + at;
#ifdef FB_B_PIECE
            const bool inside = n < FB_N && k < FB_K;
            fb_copy_piece(to, FB_B_PIECE(fb_batch, (inside ? k : 0), (inside ? n : 0)), inside);
#else
#pragma unroll
            for (int e = 0; e < FB_PIECE; e++) {
                const int ne = n + (FB_B_K_MAJOR ? 0 : e), ke = k + (FB_B_K_MAJOR ? e : 0);
                to[e] = ne < FB_N && ke < FB_K ? FB_LOAD_B(fb_batch, ke, ne) : fb_elem(0);
            }
#endif
        }
        asm volatile("cp.async.commit_group;");
    };

    fb_acc acc[FB_MI][FB_NI][FB_ACCS];
#pragma unroll
    for (int i = 0; i < FB_MI; i++)
#pragma unroll
        for (int n = 0; n < FB_NI; n++)
#pragma unroll
            for (int e = 0; e < FB_ACCS; e++) acc[i][n][e] = 0;

    const int steps = (FB_K + FB_BK - 1) / FB_BK;
#pragma unroll
    for (int s = 0; s < FB_STAGES - 1; s++) {
        if (s < steps) load(s, s * FB_BK);
        else asm volatile("cp.async.commit_group;"); // one group a step keeps the count below right
    }
    for (int s = 0; s < steps; s++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(FB_STAGES - 2));
        __syncthreads(); // tile s has come, and everyone is done with the tile that the next load overwrites
        const int next = s + FB_STAGES - 1;
        if (next < steps) load(next % FB_STAGES, next * FB_BK);
        else asm volatile("cp.async.commit_group;");
        fb_multiply_tile(acc, tiles_a + s % FB_STAGES * FB_A_TILE, tiles_b + s % FB_STAGES * FB_B_TILE, wm, wn);
    }

    asm volatile("cp.async.wait_group 0;");
    __syncthreads(); // the tiles' memory becomes C's
    fb_acc *const c = (fb_acc *)fb_shared;
    fb_spread(c, acc, wm, wn);
    __syncthreads();
    for (int i = threadIdx.x; i < FB_BM * FB_BN; i += FB_THREADS) {
        const int m = m0 + i / FB_BN, n = n0 + i % FB_BN;
        if (m < FB_M && n < FB_N) FB_STORE(fb_batch, m, n, c[i / FB_BN * FB_C_LINE + i % FB_BN]);
    }
}
