/* The counter-based generator behind every input: element i of the tensor named `name` under `seed` is a pure
 * function of the three, the same on every machine and in every language. Integer arithmetic and exact scaling only.
 *
 *     key     = splitmix64(seed ^ fnv1a64(name))
 *     bits(i) = splitmix64(key + i * 0x9e3779b97f4a7c15)
 *     uniform = low + (high - low) * (bits >> 40) / 2^24                   in [low, high)
 *     normal  = low + high * (sum of the four 16-bit fields of bits - 131070) * sqrt(3) / 65536
 *               (Irwin–Hall of four: mean `low`, deviation `high`, bounded at ±3.47 deviations)
 *     integer = low + (bits >> 11) % (high - low)                          in [low, high)
 *
 * The caller rounds the value to the tensor's dtype.
 */
#ifndef FB_BASE_RNG_H
#define FB_BASE_RNG_H

#include <stdint.h>

static inline uint64_t fb_splitmix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t fb_rng_key(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (const unsigned char *p = (const unsigned char *)name; *p; p++) h = (h ^ *p) * 0x100000001b3u;
    return fb_splitmix64(seed ^ h);
}

static inline uint64_t fb_rng_bits(uint64_t key, uint64_t i)
{
    return fb_splitmix64(key + i * 0x9e3779b97f4a7c15u);
}

static inline double fb_rng_uniform(uint64_t bits, double low, double high)
{
    return low + (high - low) * ((double)(bits >> 40) * 0x1p-24);
}

static inline double fb_rng_normal(uint64_t bits, double mean, double deviation)
{
    int64_t sum = (int64_t)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48)) - 131070;
    return mean + deviation * ((double)sum * (1.7320508075688772 / 65536.0));
}

static inline int64_t fb_rng_integer(uint64_t bits, int64_t low, int64_t high)
{
    return high > low ? low + (int64_t)((bits >> 11) % (uint64_t)(high - low)) : low;
}

#endif
