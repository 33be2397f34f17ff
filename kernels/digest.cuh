// Digests memory where it lies, so that what has not changed need not be copied to the host to be seen.
//
// Each 32-bit word is mixed with its place and added up: the sum is the same in whatever order threads come. A tail of fewer
// than four bytes counts as a word. Values of 16 bits may begin in the middle of a word of memory, and bools anywhere: such
// a word is put together of two neighbours, of which the second holds its last bytes.

typedef unsigned long long fb_u64;

__device__ static inline fb_u64 fb_mixed(fb_u64 x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

extern "C" __global__ void fb_digest(const unsigned char *from, long long bytes, fb_u64 *sum)
{
    const long long words = bytes / 4, step = (long long)gridDim.x * blockDim.x;
    const unsigned skew = 8 * ((fb_u64)from & 3);
    const unsigned *line = (const unsigned *)(from - skew / 8);
    long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    fb_u64 mine = 0;
    if (at == 0) {
        fb_u64 tail = bytes;
        for (long long i = words * 4; i < bytes; i++) tail = tail * 257 + from[i];
        mine = fb_mixed(tail + 0x9e3779b97f4a7c15ull);
    }
    for (; at < words; at += step) {
        const unsigned word = skew ? line[at] >> skew | line[at + 1] << (32 - skew) : line[at];
        mine += fb_mixed(word + (fb_u64)(at + 2) * 0x9e3779b97f4a7c15ull);
    }
    for (int mask = 16; mask; mask /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, mask);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}
