// Columns that lie side by side, a band of them to a block or to a cluster of blocks: BESIDE threads side by side have EACH
// neighbours each, and the block's others go on along the columns. What several passes read lies in shared memory, where a
// thread only ever looks at what it fetched itself.

#ifndef FB_BANDS
#define FB_BANDS

// ---- PTX ----
// Copies until here are a group: a thread waits until no more than so many of its latest ones are on their way.
FB_DEVICE void fb_band_mark()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// A piece of 16 bytes, and its whole line into the cache, of which neighbouring blocks have the rest.
FB_DEVICE void fb_band_copy(void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from));
#else
    *static_cast<uint4 *>(to) = *static_cast<const uint4 *>(from); // not in the background
#endif
}

template <int LEFT> FB_DEVICE void fb_band_await()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}
// ---- end of PTX ----

template <int N, class T> FB_DEVICE void fb_band_fetch(T *to, const T *from)
{
#pragma unroll
    for (int i = 0; i < N; i += 16 / (int)sizeof(T)) fb_band_copy(to + i, from + i);
}

// A block's sums, of each warp and of them all: one after the other in the same place.
template <class T, int N> struct __align__(16) fb_band_sums {
    T at[N];
};

template <class T, int WARPS, int COLUMNS> FB_DEVICE fb_band_sums<T, COLUMNS> *fb_band_warps()
{
    __shared__ fb_band_sums<T, COLUMNS> fb_sums[WARPS + 1];
    return fb_sums;
}

// What each of the block's warps has of its columns, by OP.
template <class OP, int THREADS, int BESIDE, int EACH, class T> FB_DEVICE fb_band_sums<T, BESIDE * EACH> *fb_band_leave(T (&x)[EACH])
{
    fb_band_sums<T, BESIDE * EACH> *const warps = fb_band_warps<T, THREADS / 32, BESIDE * EACH>();
#pragma unroll
    for (int v = 0; v < EACH; v++)
#pragma unroll
        for (int mask = 16; mask >= BESIDE; mask /= 2) x[v] = OP::of(x[v], fb_shuffle(x[v], mask));
    if (threadIdx.x % 32 < BESIDE)
#pragma unroll
        for (int v = 0; v < EACH; v++) warps[threadIdx.x / 32].at[threadIdx.x % BESIDE * EACH + v] = x[v];
    __syncthreads();
    return warps;
}

template <class OP, int WARPS, class T, int N> FB_DEVICE T fb_band_of_warps(const fb_band_sums<T, N> *warps, int column)
{
    T x = warps[0].at[column];
#pragma unroll
    for (int i = 1; i < WARPS; i++) x = OP::of(x, warps[i].at[column]);
    return x;
}

// What all threads of the block have of the columns of this one, by OP.
template <class OP, int THREADS, int BESIDE, int EACH, class T> FB_DEVICE void fb_band(T (&x)[EACH])
{
    constexpr int WARPS = THREADS / 32, COLUMNS = BESIDE * EACH;
    fb_band_sums<T, COLUMNS> *const warps = fb_band_leave<OP, THREADS, BESIDE>(x);
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) warps[WARPS].at[c] = fb_band_of_warps<OP, WARPS>(warps, c);
    __syncthreads(); // and the sums of warps have been read
#pragma unroll
    for (int v = 0; v < EACH; v++) x[v] = warps[WARPS].at[threadIdx.x % BESIDE * EACH + v];
}

// … and all threads of the cluster's blocks: each block sends what it has to all of them. NUMBER: as in fb_long_exchange.
template <class OP, int THREADS, int BESIDE, int EACH, int PARTS, int NUMBER, class T> FB_DEVICE void fb_band_exchange(T (&x)[EACH], int part)
{
    constexpr int WARPS = THREADS / 32, COLUMNS = BESIDE * EACH;
    __shared__ fb_band_sums<T, COLUMNS> fb_sent[PARTS];
    fb_band_sums<T, COLUMNS> *const warps = fb_band_leave<OP, THREADS, BESIDE>(x);
    for (int i = threadIdx.x; i < PARTS * COLUMNS; i += THREADS)
        fb_long_send(&fb_sent[part].at[i % COLUMNS], fb_band_of_warps<OP, WARPS>(warps, i % COLUMNS), i / COLUMNS);
    fb_long_meet(); // and the sums of warps have been read
#pragma unroll
    for (int v = 0; v < EACH; v++) x[v] = fb_band_of_warps<OP, PARTS>(fb_sent, threadIdx.x % BESIDE * EACH + v);
}

#endif
