// What kernels of many stages stand on (code/merge.c): the stages' blocks are dealt to the blocks of one cooperative
// launch, and the whole grid meets where a stage needs what another one wrote.

#ifndef FB_GRID
#define FB_GRID

struct fb_dims {
    unsigned x, y, z;
};

// The block with this number of a grid of x × y × z.
FB_DEVICE fb_dims fb_block_at(unsigned at, unsigned x, unsigned y)
{
    return {at % x, at / x % y, at / (x * y)};
}

// All threads of a stage are through with a block. Not the barrier of fb_meet: some of them may have had no part in the
// block, and arrive while the others still meet among themselves.
template <int THREADS> FB_DEVICE void fb_block_done()
{
    FB_MEET_SOME(2, THREADS);
}

template <class T> FB_DEVICE void fb_exchange(T *&a, T *&b)
{
    T *const held = a;
    a = b;
    b = held;
}

// What a block keeps in shared memory for a stage belongs to the columns with this number; is it there yet?
FB_DEVICE bool fb_keep(unsigned &held, unsigned columns)
{
    const bool fresh = held != columns;
    held = columns;
    return fresh;
}

FB_DEVICE void fb_fetch_line(const void *at);

// The grid asks for what a later step reads, so that it comes from memory while this one is at work. All blocks call it.
FB_DEVICE void fb_fetch_ahead(const void *from, int64_t bytes)
{
    const int64_t step = 128 * (int64_t)gridDim.x * blockDim.x;
    for (int64_t at = 128 * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x); at < bytes; at += step)
        fb_fetch_line(static_cast<const char *>(from) + at);
}

// ---- PTX ----
FB_DEVICE void fb_fetch_line(const void *at)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

// All blocks of the launch meet, and see what the others wrote before: release and acquire hold for the whole block, between
// its two barriers, and need no fence beside them. Every block adds 1, the first one what makes the
// sum 2^31: so the top bit changes when all have come, and the counter is right for the next time without a reset.
// Nothing that was written by a stage before may be read through the read-only cache: the stages' pointers are neither
// const __restrict__ nor read with __ldg.
static __device__ unsigned fb_arrivals;

static __device__ __noinline__ void fb_meet_all()
{
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned mine = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
        unsigned before, now;
        asm volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(&fb_arrivals), "r"(mine) : "memory");
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(&fb_arrivals) : "memory");
        } while (((before ^ now) & 0x80000000u) == 0);
    }
    __syncthreads();
}
// ---- end of PTX ----

#endif
