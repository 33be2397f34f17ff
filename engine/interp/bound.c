/* Running error analysis, pointwise: how far the computed value can lie from the reference's when every operand lies
 * within its own bound. A rule is rigorous for bounds of any size (not only the first-order term), so a chain of rules
 * stays a bound; it gives INFINITY where the operands' intervals leave the result undecided. */
#include "graph/intmath.h"
#include "interp/parts.h"

#include "base/rng.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

static const struct {
    double tiny;    /* smallest normal: devices may flush below it. Half arithmetic has subnormals everywhere, so there
                     * it is the subnormal's spacing */
    double largest; /* finite */
} limits[FB_DTYPES] = {
    [FB_F32] = {FLT_MIN, FLT_MAX},
    [FB_F16] = {0x1p-24, 65504},
    [FB_BF16] = {FLT_MIN, 0x1.fep127},
    [FB_F64] = {DBL_MIN, DBL_MAX},
};

double fb_bound_unit(fb_dtype dtype)
{
    return fb_dtype_roundoff(dtype) * (1 + 0x1p-10) + DBL_EPSILON / 2;
}

double fb_bound_sum_unit(fb_dtype dtype)
{
    return fb_bound_unit(dtype == FB_F64 ? FB_F64 : FB_F32);
}

double fb_bound_store_unit(fb_dtype dtype)
{
    return fb_dtype_is_half(dtype) ? fb_bound_unit(dtype) : 0;
}

double fb_bound_tiny(fb_dtype dtype)
{
    return limits[dtype].tiny;
}

/* Whatever the order of a sum, its error is at most n·u·Σ|x| (Higham, Accuracy and Stability, 4.2: γ of a tree as deep
 * as can be). Where roundings are as good as random the error is some √n·u·Σ|x| (Higham and Mary 2019), and 8 times
 * that is as good as never reached. But what a term loses when it is added to a sum much larger depends on that term
 * alone: one that comes m times loses the same thing m times over, and Σm² takes the place of n, which for equal terms
 * is n² and the first bound. */
double fb_bound_gamma(int64_t n, double repeats, double u)
{
    return fmin((double)n, 8 * sqrt(fmax(repeats, (double)n))) * u;
}

bool fb_bound_overflows(fb_dtype dtype, double value, double bound)
{
    return !(fabs(value) + bound <= limits[dtype].largest);
}

static uint64_t key_of(fb_dtype dtype, double x)
{
    uint64_t wide;
    uint32_t bits;
    memcpy(&wide, &x, sizeof wide);
    if (dtype == FB_F64) return wide;
    memcpy(&bits, &(float){(float)x}, sizeof bits);
    int cut = dtype == FB_F16 ? 13 : dtype == FB_BF16 ? 16 : 0;
    return cut ? (bits + (1u << (cut - 1))) >> cut : bits; /* what is one value on a device is one here */
}

void fb_bound_repeat(fb_bound_repeats *r, fb_dtype dtype, double x)
{
    if (x == 0) return;
    uint64_t hash = fb_splitmix64(key_of(dtype, x));
    int32_t *b = &r->bucket[hash % FB_BOUND_BUCKETS], sign = hash >> 63 ? 1 : -1;
    r->squares += 2 * sign * *b + 1;
    *b += sign;
}

/* The exponent of the lowest bit of x that is set. */
static int lowest_bit(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52 & 0x7ff);
    uint64_t fraction = bits & 0xfffffffffffffu;
    return fraction ? exponent - 1075 + __builtin_ctzll(fraction) : exponent - 1023;
}

fb_bound_terms fb_bound_terms_new(fb_dtype dtype, fb_dtype of, int64_t n)
{
    return (fb_bound_terms){.dtype = dtype, .of = of, .n = n, .lowest = INT_MAX};
}

void fb_bound_term(fb_bound_terms *t, double x, double e)
{
    t->added++;
    t->magnitude += fabs(x);
    t->spread += e;
    if (x == 0) return;
    int lowest = lowest_bit(x);
    if (lowest < t->lowest) t->lowest = lowest;
    if (t->n > FB_BOUND_SURE) fb_bound_repeat(&t->repeats, t->of, x);
}

/* Sums of a few terms that are multiples of one power of two, and of which all of them together have no more bits than
 * the accumulator: no order rounds anything. */
static bool sums_exactly(const fb_bound_terms *t)
{
    bool wide = t->dtype == FB_F64;
    if (t->spread != 0 || t->lowest < (wide ? -1022 : -126)) return false;
    return t->magnitude == 0 || t->magnitude <= ldexp(1, t->lowest + (wide ? 53 : 24));
}

double fb_bound_sum(const fb_bound_terms *t, double sum)
{
    if (!isfinite(sum)) return fb_bound_special(isfinite(t->spread));
    double e = t->spread;
    if (t->added > 1) {
        if (!sums_exactly(t))
            e += fb_bound_gamma(t->added, (double)t->repeats.squares, fb_bound_sum_unit(t->dtype)) *
                 (t->magnitude + t->spread);
        if (e > 0 || fb_dtype_round(t->dtype, sum) != sum) e += fb_bound_store_unit(t->dtype) * (fabs(sum) + e);
        if (e > 0) e += (double)t->added * limits[t->dtype].tiny;
    }
    return fb_bound_overflows(t->dtype, sum, e) ? INFINITY : e;
}

/* ---- what the rules are written with ---- */

static inline double decided(bool yes)
{
    return yes ? 0 : INFINITY;
}

/* exp(e) − 1, from above. */
static inline double growth(double e)
{
    return e <= 1 ? e * (1 + e) : expm1(e);
}

/* Where exp is nothing, as that of a masked score, its relative growth may be beyond all numbers: then the upper end of
 * the interval counts, which is next to nothing too. */
static inline double exp_spread(double a, double e, double v)
{
    double spread = v * growth(e);
    return isfinite(spread) || isinf(e) || isnan(v) ? spread : exp(a + e);
}

/* Of a function whose values all lie within `range` of each other; an operand that is not known at all leaves NaN or
 * nothing to say. */
static inline double within(double range, double spread)
{
    return isfinite(spread) ? fmin(range, spread) : spread;
}

/* The largest |log(a + d) − log(a)|, |d| ≤ e. −log(1 − r) = r + r²/2 + r³/3 … ≤ r + r² up to r = 1/2. */
static inline double log_spread(double a, double e)
{
    double r = e / fabs(a);
    if (e == 0 || r <= 0.5) return e == 0 ? 0 : r * (1 + r);
    return r < 1 ? -log1p(-r) : INFINITY;
}

/* 1 − √(1 − r) ≤ r/2 + r²/2 for r in [0, 1]. A negative operand is possible beyond: NaN. */
static inline double sqrt_spread(double a, double e, double v)
{
    double r = e / a;
    if (e == 0) return 0;
    return r <= 1 && r >= 0 ? v * 0.5 * r * (1 + r) : INFINITY;
}

/* 1/√(1 − r) − 1 ≤ r/2 + r² up to r = 1/2. */
static inline double rsqrt_spread(double a, double e, double v)
{
    double r = e / a;
    if (e == 0) return 0;
    if (!(r >= 0 && r < 1)) return INFINITY;
    return v * (r <= 0.5 ? r * (0.5 + r) : 1 / sqrt(1 - r) - 1);
}

/* |(a + da)/(b + db) − a/b| = |da·b − a·db| / (|b|·|b + db|). */
static inline double div_spread(double ea, double b, double eb, double v)
{
    return eb < fabs(b) ? (ea + fabs(v) * eb) / (fabs(b) - eb) : decided(ea == 0 && eb == 0);
}

/* f' at the point and half the largest |f''| for the rest, or f' at its largest: whichever is less. */
static inline double smooth_spread(double e, double slope, double steepest, double curvature)
{
    return fmin(steepest * e, slope * e + 0.5 * curvature * e * e);
}

/* erf' = 2/√π · exp(−x²), largest where the interval is nearest to 0. */
static inline double erf_spread(double a, double e)
{
    double near = fmax(fabs(a) - e, 0);
    return e == 0 ? 0 : M_2_SQRTPI * exp(-near * near) * e;
}

/* gelu' = Φ(x) + x·φ(x), at most 1.13 in magnitude; |gelu''| ≤ 2φ(0) < 0.8. */
static inline double gelu_spread(double a, double e)
{
    if (e == 0) return 0;
    double density = 0.5 * M_SQRT1_2 * M_2_SQRTPI * exp(-0.5 * a * a);
    return smooth_spread(e, fabs(0.5 * (1 + erf(a * M_SQRT1_2)) + a * density), 1.13, 0.8);
}

/* softplus: beta·a is rounded first, which exp makes of a relative error of |beta·a|. */
static inline double softplus_beside(const fb_attrs *at, double a, double v)
{
    return at->value == 1 ? 0 : fabs(v) * fmin(fabs(at->value * a), 800);
}

/* The slope is sigmoid(beta·a), at most 1. At the threshold it jumps onto the line; exp may be flushed to zero. */
static inline double softplus_spread(const fb_attrs *at, fb_dtype dtype, double u, double a, double e)
{
    double beta = at->value, z = beta * a;
    double reach = fabs(beta) * e + (beta == 1 ? 0 : 2 * u * fabs(z));
    if (fabs(z - at->high) < reach) return e + (log1p(exp(-at->high)) + fb_bound_tiny(dtype)) / fabs(beta);
    if (z > at->high) return e;
    return smooth_spread(e, 1 / (1 + exp(-z)), 1, 0.25 * fabs(beta)) + fb_bound_tiny(dtype) / fabs(beta);
}

/* Where exp is not normal; a rounding of its operand moves that place. Of half it is computed in f32. */
static inline double softplus_flushed(const fb_attrs *at, fb_dtype dtype)
{
    return (1 + 0x1p-10) * (dtype == FB_F64 ? DBL_MIN : FLT_MIN) / fabs(at->value);
}

/* elu' is 1 above zero and alpha·e^a below: largest at the interval's upper end. */
static inline double elu_spread(double alpha, double a, double e)
{
    if (e == 0 || a - e > 0) return e;
    return fmax(a + e > 0, fabs(alpha) * exp(fmin(a + e, 0))) * e;
}

/* mish' = t + a·sigmoid(a)·(1 − t²) with t = v/a, at most 1.0885 in magnitude; |mish''| < 0.6443. */
static inline double mish_spread(double a, double e, double v)
{
    if (e == 0) return 0;
    double t = a == 0 ? 0.6 : v / a;
    return smooth_spread(e, fabs(t + a / (1 + exp(-a)) * (1 - t * t)), 1.0886, 0.6443);
}

/* a^b = exp(b·log a). A base that may be zero or negative keeps a bound where the exponent is certain and whole. */
/* erfinv' = √π/2 · exp(v²), largest at the outer end; beyond 1 there is nothing. */
static inline double erfinv_spread(double a, double e, double v)
{
    if (e == 0) return 0;
    double end = fabs(a) + e;
    return end < 1 ? fb_erfinv(end) - fabs(v) : INFINITY;
}

/* Of a function that rises, or is bent upwards, between the whole numbers left of 0 and right of them: what either end of
 * the interval differs by. */
static double rising_spread(double (*f)(double), double a, double e, double v)
{
    if (e == 0) return 0;
    double low = a - e, high = a + e;
    if (!(low > 0) && !(floor(low) == floor(high))) return INFINITY;
    return fmax(fabs(f(low) - v), fabs(f(high) - v));
}

/* Right of 0 a library has all digits; left of it, what it reflects: ln π − ln |x sin πx| − lgamma(−x). */
static double lgamma_beside(double a)
{
    return a < 0 && isfinite(a) ? 4 + fabs(fb_lgamma(-a)) : 0;
}

/* The terms of the recurrence and the logarithm, which cancel beside 1.46; left of 0 also π/tan πx. */
static double digamma_beside(double a)
{
    if (!isfinite(a)) return 0;
    return 6 + log(fabs(a) + 8) + (a < 0 ? fabs(M_PI / tan(M_PI * (a - nearbyint(a)))) * (1 + fabs(a)) : 0);
}

/* An angle is off by e/r at the distance r, in a circle of e; across the cut left of 0, and beside 0, by a whole turn. */
static double atan2_spread(double a, double ea, double b, double eb)
{
    if (ea == 0 && eb == 0) return 0;
    double e = ea + eb, r = hypot(a, b);
    if (!(e < r) || (b - eb < 0 && fabs(a) <= ea)) return isfinite(e) ? 2 * M_PI : e;
    return M_PI_2 * e / r;
}

static double pow_spread(double a, double ea, double b, double eb, double v)
{
    if (ea == 0 && eb == 0) return 0;
    bool whole = eb == 0 && b == nearbyint(b);
    if (ea < fabs(a) && (a > 0 || whole)) {
        double exponent = (eb == 0 ? 0 : fabs(log(a)) * eb) + (fabs(b) + eb) * log_spread(a, ea);
        return fabs(v) * growth(exponent);
    }
    return whole && b >= 0 ? pow(fabs(a) + ea, b) + fabs(v) : INFINITY;
}

/* Certain only while the whole interval of a / b lies between the same two integers. */
static double remainder_spread(double a, double ea, double b, double eb)
{
    if (ea == 0 && eb == 0) return 0;
    double q = a / b, near = div_spread(ea, b, eb, q) + fabs(q) * DBL_EPSILON;
    return floor(q - near) == floor(q + near) ? ea + fabs(floor(q)) * eb : INFINITY;
}

static inline double compare(double a, double ea, double b, double eb)
{
    return decided(ea + eb == 0 || fabs(a - b) > ea + eb);
}

/* An undecided condition leaves the distance between the branches, which is little where they meet (a hand-written
 * relu), and undecided where a branch is. */
static inline double where_spread(double a, double ea, double b, double eb, double c, double ec)
{
    if (ea == 0) return a != 0 ? eb : ec;
    return fabs(b - c) + fmax(eb, ec);
}

static inline bool representable(fb_dtype dtype, double v)
{
    if (dtype == FB_F32) return (double)(float)v == v;
    return fb_dtype_round(dtype, v) == v;
}

/* The limits are rounded to the dtype on a device. */
static inline double clamp_spread(const fb_attrs *at, fb_dtype dtype, double u, double e)
{
    double low = representable(dtype, at->value) ? 0 : fabs(at->value);
    double high = representable(dtype, at->high) ? 0 : fabs(at->high);
    return e + u * fmax(low, high);
}

static inline double cast_spread(double a, double ea, double u, fb_dtype to)
{
    if (to == FB_BOOL) return decided(ea == 0 || fabs(a) > ea);
    if (to != FB_I32 && to != FB_I64) return ea == 0 && representable(to, a) ? 0 : ea + u * (fabs(a) + ea);
    double beyond = to == FB_I32 ? 0x1p31 : 0x1p63; /* conversions that do not fit differ between devices */
    return decided(fabs(a) + ea < beyond && trunc(a - ea) == trunc(a + ea));
}

/* What IEEE 754 rounds correctly is exact when the result fits: masks and counters kept in floats stay decided. Not for
 * f64, where the reference itself has rounded. */
static inline bool hit_exactly(fb_dtype dtype, double spread, double v)
{
    return spread == 0 && dtype != FB_F64 && representable(dtype, v);
}

/* ---- the rules ----
 * ROUNDS(units, beside, spread) of ops.def: bound = spread + units · u · (|v| + beside), u one rounding into the dtype.
 * `units` is the accuracy allowed to the devices: 1 for what IEEE 754 rounds correctly (half an ulp), 4 for 2 ulps
 * (division by a reciprocal and a Newton step), 8 for 4 ulps, 16 for 8, 32 for 16. C's and CUDA's functions
 * must be better than this. 0: exact. `beside` is what else is rounded on the way, where the result may be smaller than
 * that.
 */
enum { EXACT = 0, ROUNDED = 1, DIVISION = 4, FUNCTION = 8, COMPOSED = 16, POWER = 32 };

/* The names that a rule is written with: v the result, a b c the operands and ea eb ec their bounds, of element k. */
#define NAMES                                                                                                          \
    const fb_attrs *at = in->at;                                                                                       \
    const fb_dtype dtype = in->dtype;                                                                                  \
    const double v = in->v[k], a = in->x[0][k], ea = in->e[0][k], b = in->x[1][k], eb = in->e[1][k], c = in->x[2][k],  \
                 ec = in->e[2][k];                                                                                     \
    (void)at, (void)dtype, (void)v, (void)a, (void)ea, (void)b, (void)eb, (void)c, (void)ec

typedef void bound_rule(const fb_bound_block *in, double u, double *e);

/* One loop an op, with the rule inlined. The computed value, not the exact one, is what gets rounded: |v| + spread. */
#define RULE(ID, UNITS, BESIDE, SPREAD, FLUSHED)                                                                       \
    static void rule_##ID(const fb_bound_block *in, double u, double *e)                                               \
    {                                                                                                                  \
        for (int k = 0; k < in->n; k++) {                                                                              \
            NAMES;                                                                                                     \
            double spread = SPREAD;                                                                                    \
            if ((UNITS) && !((UNITS) == ROUNDED && hit_exactly(in->dtype, spread, v)))                                 \
                spread += (UNITS)*u * (fabs(v) + (BESIDE) + spread);                                                   \
            e[k] = spread;                                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static void beside_##ID(const fb_bound_block *in, double *to)                                                      \
    {                                                                                                                  \
        for (int k = 0; k < in->n; k++) {                                                                              \
            NAMES;                                                                                                     \
            to[k] = BESIDE;                                                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    static double flushed_##ID(const fb_attrs *at, fb_dtype dtype)                                                     \
    {                                                                                                                  \
        (void)at, (void)dtype;                                                                                         \
        return FLUSHED;                                                                                                \
    }
#define RULE_OF(...)                                    RULE(__VA_ARGS__)
#define FB_RULE_ROUNDS(UNITS, BESIDE, SPREAD)           UNITS, BESIDE, SPREAD, 0
#define FB_RULE_FLUSHES(UNITS, BESIDE, SPREAD, FLUSHED) UNITS, BESIDE, SPREAD, FLUSHED
#define FB_RULE_WHOLE                                   EXACT, 0, decided(ea == 0 && eb == 0), 0
#define POINTWISE(ID, NAME, OPERANDS, ACCEPTS, RESULT, PARAMS, VALUE, SPELLED, COST, XLA, ROUNDS, ...)                 \
    RULE_OF(ID, FB_RULE_##ROUNDS)
#include "graph/ops.def"
#undef POINTWISE

static const struct {
    bound_rule *rule;
    void (*beside)(const fb_bound_block *in, double *to); /* NULL: nothing */
    double (*flushed)(const fb_attrs *at, fb_dtype dtype);
    int units;
} rules[FB_OPS] = {
#define ROW(ID, UNITS, BESIDE, SPREAD, FLUSHED)                                                                        \
    [FB_OP_##ID] = {rule_##ID, sizeof #BESIDE > sizeof "0" ? beside_##ID : NULL, flushed_##ID, UNITS},
#define ROW_OF(...) ROW(__VA_ARGS__)
#define POINTWISE(ID, NAME, OPERANDS, ACCEPTS, RESULT, PARAMS, VALUE, SPELLED, COST, XLA, ROUNDS, ...)                 \
    ROW_OF(ID, FB_RULE_##ROUNDS)
#include "graph/ops.def"
#undef POINTWISE
};

bool fb_bound_has_beside(fb_op op)
{
    return rules[op].beside;
}

bool fb_bound_beside(fb_op op, const fb_bound_block *b, double *to)
{
    if (rules[op].beside) rules[op].beside(b, to);
    return rules[op].beside;
}

int fb_bound_units(fb_op op)
{
    return rules[op].units;
}

double fb_bound_flushed(fb_op op, const fb_attrs *at, fb_dtype dtype)
{
    return rules[op].flushed(at, dtype);
}

bool fb_bound_ends_rounded(fb_op op)
{
    return op != FB_OP_MUL && rules[op].rule && rules[op].units <= FUNCTION && !rules[op].beside;
}

bool fb_bound_is_exact(fb_op op)
{
    return rules[op].units == EXACT && op != FB_OP_CLAMP && op != FB_OP_CAST;
}

void fb_bound_pointwise(fb_op op, const fb_bound_block *b, double *e)
{
    FB_ASSERT(rules[op].rule);
    bool is_float = fb_dtype_is_float(b->dtype);
    rules[op].rule(b, is_float ? fb_bound_unit(b->dtype) : 0, e);
    if (!is_float) return;
    double tiny = fb_bound_is_exact(op) ? 0 : limits[b->dtype].tiny, largest = limits[b->dtype].largest;
    for (int k = 0; k < b->n; k++) {
        double size = fabs(b->v[k]), bound = e[k];
        /* Of the smallest doubles, u·|v| is zero too. */
        if (bound > 0 || (size > 0 && size < DBL_MIN)) bound += tiny;
        e[k] = size + bound <= largest ? bound : INFINITY;
    }
}
