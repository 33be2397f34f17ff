/* What ops.def's value columns call. Integer arithmetic without undefined behaviour: everything wraps in two's complement
 * as PyTorch does, division and remainder floor, and what has no value (division by zero) is 0. Functions of doubles that
 * libm lacks or computes otherwise. The preludes have the same in their own words, so that a slip in either is found. */
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

/* Of an e^-|x| that never overflows, so that the smallest results are not 0. */
static inline double fb_sigmoid(double x)
{
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

/* The sign of a NaN hangs on how it was made. */
static inline double fb_copysign(double a, double b)
{
    return copysign(a, isnan(b) ? 1 : b);
}

static inline double fb_lgamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

/* Left of 0 by reflection; up to 10 by recurrence; then the asymptotic series. */
static inline double fb_digamma(double x)
{
    if (x == 0) return copysign(INFINITY, -x);
    if (x < 0 && (x == floor(x) || isinf(x))) return NAN;
    double y = 0;
    if (x < 0) {
        y = -M_PI / tan(M_PI * (x - nearbyint(x)));
        x = 1 - x;
    }
    for (; x < 10; x++) y -= 1 / x;
    double r = 1 / (x * x);
    double tail =
        r * (1.0 / 12 - r * (1.0 / 120 - r * (1.0 / 252 - r * (1.0 / 240 - r * (1.0 / 132 - r * 691.0 / 32760)))));
    return y + log(x) - 0.5 / x - tail;
}

/* From a first guess (M. Giles' polynomials; far out the first terms of erfc's series) by Halley's rule, with erfc where
 * erf has no digits left. */
static inline double fb_erfinv(double y)
{
    double a = fabs(y), w = -log((1 - a) * (1 + a)), x;
    if (!(a < 1)) return a == 1 ? copysign(INFINITY, y) : NAN;
    if (w < 5) {
        double t = w - 2.5;
        x = a * (1.50140941 + t * (0.246640727 + t * (-0.00417768164 + t * (-0.00125372503 + t * 0.00021858087))));
    } else {
        x = sqrt(w - 0.5 * log(M_PI * w));
    }
    for (int i = 0; i < 4; i++) {
        double off = (a < 0.5 ? erf(x) - a : (1 - a) - erfc(x)) / (M_2_SQRTPI * exp(-x * x));
        x -= off / (1 + x * off);
    }
    return copysign(x, y);
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
