/* Integer arithmetic without undefined behaviour, as ops.def's i64 column uses it: everything wraps in two's complement
 * as PyTorch does, division and remainder floor, and what has no value (division by zero) is 0. */
#ifndef FB_GRAPH_INTMATH_H
#define FB_GRAPH_INTMATH_H

#include "graph/op.h"

#include <math.h>
#include <stdint.h>

static inline int64_t fb_wrap_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t fb_wrap_sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static inline int64_t fb_wrap_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static inline int64_t fb_floor_div(int64_t a, int64_t b)
{
    if (b == 0) return 0;
    if (b == -1) return fb_wrap_sub(0, a); /* INT64_MIN / -1 traps */
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Takes the divisor's sign. */
static inline int64_t fb_mod_floor(int64_t a, int64_t b)
{
    if (b == 0 || b == -1) return 0;
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline double fb_fmod_floor(double a, double b)
{
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* Shifts by anything outside 0 … 63 shift everything out: zeros from the right, the sign from the left. */
static inline int64_t fb_shl(int64_t a, int64_t b)
{
    return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
}

static inline int64_t fb_shr(int64_t a, int64_t b)
{
    return a >> (b < 0 || b > 63 ? 63 : b);
}

/* The whole part, clipped to what int64_t holds; NaN is 0. For attributes, where ±infinity means no bound. */
static inline int64_t fb_int_of(double value)
{
    if (isnan(value)) return 0;
    if (value >= 0x1p63) return INT64_MAX;
    if (value < -0x1p63) return INT64_MIN;
    return (int64_t)value;
}

/* An int64_t result as an integer or bool dtype holds it. */
static inline int64_t fb_int_wrap(fb_dtype dtype, int64_t value)
{
    return dtype == FB_I32 ? (int32_t)(uint32_t)(uint64_t)value : dtype == FB_BOOL ? value != 0 : value;
}

#endif
