/* The functions of kernels/prelude.h against double precision: every FB_STEP-th float (1: all of them, minutes). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/prelude.h"

#include "graph/op.h"

typedef struct {
    const char *name;
    float (*f)(float);
    double (*reference)(double);
    double units; /* allowed, in ulps of the result */
} function;

static double rsqrt_reference(double x)
{
    return 1 / sqrt(x);
}

static double sigmoid_reference(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double gelu_reference(double x)
{
    return 0.5 * x * erfc(-x * M_SQRT1_2);
}

static double ulp(double v)
{
    int exponent = v == 0 ? -126 : ilogb(v);
    return ldexp(1, (exponent < -126 ? -126 : exponent) - 23);
}

static bool agrees(const function *f, float x)
{
    double want = f->reference((double)x), got = (double)f->f(x);
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (fabs(want) > 0x1.fffffep127) return isinf(got) || fabs(got) == 0x1.fffffep127;
    if (want == 0 && got == 0 && signbit(want) != signbit(got)) return false; /* as one divided by it tells */
    double tolerance = fabs(want) < 0x1p-126 ? 0x1p-126 : f->units * ulp(want);
    return fabs(want - got) <= tolerance;
}

static void check(const function *f)
{
    const char *step = getenv("FB_STEP");
    uint64_t by = step ? strtoull(step, NULL, 10) : 1009;
    const float edges[] = {0.0f,       -0.0f,           INFINITY,         -INFINITY, NAN,        1.0f,   -1.0f,
                           88.72283f,  88.7229f,        -87.3365f,        -103.9f,   127.99999f, 128.0f, -126.0f,
                           0x1p-149f,  0x1.fffffep127f, -0x1.fffffep127f, 0.5f,      0.625f,     9.01f,  18.5f,
                           0.70710678f};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        if (!agrees(f, edges[i])) fail_msg("%s(%a) is %a", f->name, (double)edges[i], (double)f->f(edges[i]));
    for (uint64_t i = 0; i < (uint64_t)1 << 32; i += by) {
        float x = fb_float((uint32_t)i);
        if (!agrees(f, x)) fail_msg("%s(%a) is %a", f->name, (double)x, (double)f->f(x));
    }
}

#define FUNCTION(NAME, F, REFERENCE, UNITS)                                                                            \
    static void test_##NAME(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        check(&(function){#NAME, F, REFERENCE, UNITS});                                                                \
    }
FUNCTION(exp, fb_expf, exp, 3)
FUNCTION(exp2, fb_exp2f, exp2, 3)
FUNCTION(log, fb_logf, log, 3)
FUNCTION(log2, fb_log2f, log2, 3)
FUNCTION(log1p, fb_log1pf, log1p, 3)
FUNCTION(rsqrt, fb_rsqrtf, rsqrt_reference, 3)
FUNCTION(tanh, fb_tanhf, tanh, 3)
FUNCTION(sigmoid, fb_sigmoidf, sigmoid_reference, 3)
FUNCTION(erf, fb_erff, erf, 3)

/* 1 + erf cancels left of zero: the error there is that of the argument. */
static void test_gelu(void **state)
{
    (void)state;
    for (float x = -12; x < 12; x += 0x1p-11f)
        if (fabs((double)fb_geluf(x) - gelu_reference((double)x)) > 3 * ulp(gelu_reference((double)x)) + ulp((double)x))
            fail_msg("gelu(%a) is %a", (double)x, (double)fb_geluf(x));
}

static double lgamma_of_positive(double x)
{
    return x < 0 ? (double)fb_lgammaf((float)x) : lgamma(x); /* left of 0 it is libm's, near its zeros as well */
}

static float softplus_by_default(float x)
{
    return fb_softplusf(x, 1, 20);
}

static double softplus_reference(double x)
{
    return x > 20 ? x : log1p(exp(x));
}
FUNCTION(softplus, softplus_by_default, softplus_reference, 4)

static float elu_by_default(float x)
{
    return fb_eluf(x, 1);
}

static double elu_reference(double x)
{
    return x > 0 ? x : expm1(x);
}
FUNCTION(elu, elu_by_default, elu_reference, 3)

static double mish_reference(double x)
{
    return x * tanh(log1p(exp(x)));
}
FUNCTION(mish, fb_mishf, mish_reference, 6)

FUNCTION(sine, fb_sinf, sin, 0.57)
FUNCTION(cosine, fb_cosf, cos, 0.57)
FUNCTION(erfinv, fb_erfinvf, fb_erfinv, 5)
FUNCTION(lgamma, fb_lgammaf, lgamma_of_positive, 6)

/* Where it is beside 0, at 1.46 and left of 0, what it is the difference of counts. */
static void test_digamma(void **state)
{
    (void)state;
    for (float x = 0x1p-20f; x < 1e6f; x *= 1.0001f)
        if (!(fabs((double)fb_digammaf(x) - fb_digamma((double)x)) <= 4 * ulp(fabs(fb_digamma((double)x)) + 4)))
            fail_msg("digamma(%a) is %a", (double)x, (double)fb_digammaf(x));
    for (float x = -20; x < 0; x += 0x1.1p-8f) {
        if (x == floorf(x)) continue;
        double want = fb_digamma((double)x), slope = pow(M_PI / sin(M_PI * (double)x), 2);
        if (!(fabs((double)fb_digammaf(x) - want) <= 4 * ulp(fabs(want) + 8) + slope * ulp((double)x)))
            fail_msg("digamma(%a) is %a, not %a", (double)x, (double)fb_digammaf(x), want);
    }
    assert_true(isinf(fb_digammaf(0)) && signbit(fb_digammaf(0)) && isnan(fb_digammaf(-3)) && isnan(fb_digammaf(NAN)));
    assert_true(isinf(fb_digammaf(INFINITY)) && isnan(fb_digammaf(-INFINITY)));
}

/* All octants, the axes with the signs of their zeros, infinities. */
static void test_atan2(void **state)
{
    (void)state;
    const float edges[] = {0.0f,        -0.0f,     1.0f,       -1.0f,           INFINITY,         -INFINITY,
                           NAN,         0x1p-149f, -0x1p-149f, 0x1.fffffep127f, -0x1.fffffep127f, 0x1p-126f,
                           0.41421356f, 2.5f};
    enum { EDGES = sizeof edges / sizeof *edges, MANY = 4000000 };
    uint32_t bits = 12345;
    for (int i = 0; i < EDGES * EDGES + MANY; i++) {
        bits = bits * 1664525u + 1013904223u;
        uint32_t other = bits * 22695477u + 1;
        float y = i < EDGES * EDGES ? edges[i / EDGES] : fb_float(bits);
        float x = i < EDGES * EDGES ? edges[i % EDGES]
                  : i & 1           ? fb_float(other)
                                    : y * (1 + fb_float(other >> 9 | 0x3f800000));
        double want = atan2((double)y, (double)x), got = (double)fb_atan2f(y, x);
        bool same = isnan(want) ? isnan(got) : fabs(want - got) <= 3 * ulp(want) && signbit(want) == signbit(got);
        if (!same && !(fabs(want) < 0x1p-126 && fabs(got) < 0x1p-125))
            fail_msg("atan2(%a, %a) is %a, not %a", (double)y, (double)x, got, want);
    }
    /* Upright, whichever zero lies under it: who looks for the smallest angle takes the first of equal ones. */
    for (int i = 0; i < EDGES; i++)
        if (edges[i] != 0) assert_true(isnan(edges[i]) || fb_atan2f(edges[i], 0.0f) == fb_atan2f(edges[i], -0.0f));
}

static void test_half_floats(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < (uint64_t)1 << 32; i += 4093) {
        float x = fb_float((uint32_t)i);
        double want = fb_dtype_round(FB_BF16, (double)x), got = (double)fb_from_bf16(fb_to_bf16(x));
        if (!(want == got || (isnan(want) && isnan(got)))) fail_msg("%a becomes bf16 %a, not %a", (double)x, got, want);
        want = fb_dtype_round(FB_F16, (double)x);
        got = (double)fb_from_f16(fb_to_f16(x));
        if (!(want == got || (isnan(want) && isnan(got)))) fail_msg("%a becomes f16 %a, not %a", (double)x, got, want);
    }
    for (uint32_t bits = 0; bits < 1 << 16; bits++) { /* every one survives the way there and back */
        fb_f16 back = fb_to_f16(fb_from_f16((fb_f16){(uint16_t)bits}));
        bool nan = (bits & 0x7fff) > 0x7c00;
        if (nan ? (back.bits & 0x7fff) <= 0x7c00 : back.bits != bits)
            fail_msg("f16 %04x becomes %04x", bits, back.bits);
    }
}

static void test_minimum_and_maximum(void **state)
{
    (void)state;
    assert_true(isnan(fb_minf(NAN, 1)) && isnan(fb_minf(1, NAN)) && isnan(fb_maxf(NAN, 1)) && isnan(fb_maxf(1, NAN)));
    assert_true(fb_minf(-INFINITY, 1) == -INFINITY && fb_maxf(2, 1) == 2 && fb_min(3, 4) == 3 && fb_max(3, 4) == 4);
}

static void test_integers(void **state)
{
    (void)state;
    assert_true(fb_wrap_add(INT64_MAX, 1) == INT64_MIN && fb_wrap_sub(INT64_MIN, 1) == INT64_MAX);
    assert_true(fb_floor_div(-7, 2) == -4 && fb_floor_div(7, -2) == -4 && fb_floor_div(7, 0) == 0);
    assert_true(fb_floor_div(INT64_MIN, -1) == INT64_MIN && fb_mod_floor(INT64_MIN, -1) == 0);
    assert_true(fb_mod_floor(-7, 3) == 2 && fb_mod_floor(7, -3) == -2 && fb_mod_floor(7, 0) == 0);
    assert_true(fb_shl(1, 64) == 0 && fb_shl(1, -1) == 0 && fb_shr(-8, 70) == -1 && fb_shr(-8, 1) == -4);
    assert_true(fb_fmod_floorf(-7, 3) == 2 && fb_fmod_floor(7, -3) == -2);
}

/* Of floats of all sizes, and of whole quotients; the program is compiled without the instructions that the exact form asks
 * for on some machines, and kernels are by test_host. */
static void test_remainders(void **state)
{
    (void)state;
    uint64_t draw = 1;
    for (int k = 0; k < 1 << 20; k++) {
        draw = draw * 6364136223846793005u + 1442695040888963407u;
        float a = fb_float((uint32_t)(draw >> 32)), b = fb_float((uint32_t)(draw * 0x9e3779b97f4a7c15u >> 32));
        if (k % 4 == 1) b = ldexpf(b, ilogbf(fabsf(a) > 0 ? a : 1) - ilogbf(fabsf(b) > 0 ? b : 1));
        if (k % 4 == 2) a = (float)(k % 1000) * b;
        const float want = fmodf(a, b), got = fb_fmodf(a, b);
        if (isnan(want) ? !isnan(got) : fb_bits(want) != fb_bits(got))
            fail_msg("%a mod %a is %a, not %a", (double)a, (double)b, (double)want, (double)got);
    }
}

static bool same_half(fb_f16 a, fb_f16 b)
{
    const bool nans = (a.bits & 0x7fff) > 0x7c00 && (b.bits & 0x7fff) > 0x7c00;
    return a.bits == b.bits || nans;
}

/* Strips convert as elements do, in pieces of eight and in what is left over; nothing beside them is written. */
static void test_strips(void **state)
{
    (void)state;
    enum { ALL = 1 << 16, MOST = 29 };
    static fb_f16 halves[ALL], narrow[ALL];
    static float wide[ALL];
    for (int k = 0; k < ALL; k++) halves[k].bits = (uint16_t)k;
    fb_widen(halves, wide, ALL);
    for (int k = 0; k < ALL; k++) {
        const float one = fb_from_f16(halves[k]);
        if (isnan(one))
            assert_true(isnan(wide[k]));
        else
            assert_int_equal(fb_bits(wide[k]), fb_bits(one));
    }
    for (uint64_t first = 0; first < 1ull << 32; first += (uint64_t)ALL * 409) {
        for (uint64_t k = 0; k < ALL; k++) wide[k] = fb_float((uint32_t)(first + 409 * k));
        fb_narrow(wide, narrow, ALL);
        for (int k = 0; k < ALL; k++) assert_true(same_half(narrow[k], fb_to_f16(wide[k])));
    }
    for (int n = 0; n < MOST; n++) {
        float to[MOST + 1];
        fb_f16 back[MOST + 1];
        for (int k = 0; k <= MOST; k++) to[k] = -1, back[k].bits = 0xa5a5;
        fb_widen(halves + 0x3c00, to, n);
        fb_narrow(to, back, n);
        for (int k = 0; k <= MOST; k++) {
            assert_int_equal(back[k].bits, k < n ? 0x3c00 + k : 0xa5a5);
            if (k >= n) assert_true(to[k] == -1);
        }
    }
}

/* Each element of a tile comes to its place, and nothing beside it is written. */
static void test_turned_tiles(void **state)
{
    (void)state;
    enum { SIDE = 37, STEP = 45, LINE = 43, SIZES = 4 };
    static void (*const turn[SIZES])(const void *, int64_t, int64_t, int64_t, void *,
                                     int64_t) = {fb_turn_8, fb_turn_16, fb_turn_32, fb_turn_64};
    for (int size = 0; size < SIZES; size++) {
        const size_t bytes = (size_t)1 << size;
        for (int k = 0; k < SIDE * SIDE * 2; k++) {
            const int high = k % SIDE, wide = k / SIDE % SIDE;
            const int64_t step = k < SIDE * SIDE ? STEP : -STEP;
            unsigned char from[SIDE * STEP * 8], to[SIDE * LINE * 8];
            for (size_t at = 0; at < sizeof from; at++) from[at] = (unsigned char)(at * 2654435761u >> 24);
            memset(to, 0xa5, sizeof to);
            const unsigned char *first = from + (step < 0 ? (size_t)(SIDE - 1) * STEP * bytes : 0);
            turn[size](first, step, high, wide, to, LINE);
            for (int r = 0; r < SIDE; r++)
                for (int c = 0; c < LINE; c++) {
                    const unsigned char *is = to + (size_t)(r * LINE + c) * bytes,
                                        kept[8] = {0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5};
                    const bool within = r < high && c < wide;
                    assert_memory_equal(is, within ? first + (step * c + r) * (int64_t)bytes : kept, bytes);
                }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_exp2),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_log2),
        cmocka_unit_test(test_log1p),
        cmocka_unit_test(test_rsqrt),
        cmocka_unit_test(test_tanh),
        cmocka_unit_test(test_sigmoid),
        cmocka_unit_test(test_erf),
        cmocka_unit_test(test_gelu),
        cmocka_unit_test(test_mish),
        cmocka_unit_test(test_elu),
        cmocka_unit_test(test_softplus),
        cmocka_unit_test(test_half_floats),
        cmocka_unit_test(test_minimum_and_maximum),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_erfinv),
        cmocka_unit_test(test_lgamma),
        cmocka_unit_test(test_sine),
        cmocka_unit_test(test_cosine),
        cmocka_unit_test(test_remainders),
        cmocka_unit_test(test_strips),
        cmocka_unit_test(test_turned_tiles),
        cmocka_unit_test(test_digamma),
        cmocka_unit_test(test_atan2),
    };
    return cmocka_run_group_tests_name("prelude", tests, NULL, NULL);
}
