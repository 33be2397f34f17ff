/* Arithmetic of sizes. */
#ifndef FB_BASE_INTEGER_H
#define FB_BASE_INTEGER_H

#include <stdint.h>

/* So many pieces of `by` hold n; n >= 0, by > 0. */
static inline int64_t fb_ceil_div(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

/* The largest that divides both, not negative; of 0 and n: n. */
static inline int64_t fb_gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

/* The least power of two that is n or more; not above `most`, which is one. */
static inline int fb_power_of_two(int64_t n, int most)
{
    int p = 1;
    while (p < n && p < most) p *= 2;
    return p;
}

/* The least p with 2^p >= n; n <= 2^62. */
static inline int fb_log2_ceil(int64_t n)
{
    int p = 0;
    while ((int64_t)1 << p < n) p++;
    return p;
}

/* For qsort: int64_t, ascending. */
static inline int fb_by_int64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

#endif
