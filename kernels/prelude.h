/* What stands before every generated C kernel.
 *
 * Accuracy of the float functions, against the correctly rounded value and over all finite arguments (checked by
 * tests/unit/test_prelude.c): exp, exp2, log, log2, log1p, rsqrt, sigmoid, tanh, erf, elu at most 3 ulp, gelu and
 * softplus at most 4 ulp, mish 6, sin and cos 0.57, results below the normal range to within the smallest normal. pow
 * and everything in double come from libm. NaN and infinities behave as in libm. All of them are straight-line code, so
 * that a loop marked `omp simd` stays a vector loop.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* buffers: in the kernel's order. first, last: the rows to do, for epilogues that are called on blocks of rows; other
 * kernels do all of theirs. multiply: for chains, product number `product` of so many rows by the library, on this
 * thread. gemm: makes library call `number` on A, B, C and what its epilogue takes, for kernels of several stages,
 * whose calls are numbered from `first`. */
typedef struct fb_kernel_args {
    void *const *buffers;
    int64_t first, last;
    void (*multiply)(const struct fb_kernel_args *args, int product, int64_t rows, const void *a, const void *b,
                     void *to);
    void *context;
    void (*gemm)(void *device, int number, void *const *buffers);
    void *device;
    int64_t steps;
} fb_kernel_args;

/* A thread's own memory for a block of rows. */
static inline void *fb_block_new(int64_t bytes)
{
    return aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64);
}

static inline void fb_block_free(void *block)
{
    free(block);
}

/* ---- bits ---- */

static inline uint32_t fb_bits(float x)
{
    uint32_t u;
    __builtin_memcpy(&u, &x, sizeof u);
    return u;
}

static inline float fb_float(uint32_t u)
{
    float x;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}

/* ---- 16-bit floats: stored so, computed in float ---- */

/* Conversions in integer arithmetic, which vectorises everywhere. Both round to nearest, ties to even; a NaN stays one. What
 * is chosen is chosen by masks: of branches gcc 12 makes no vectors without jump threading (4.3 ns for a sum of two f16, 0.9 so).
 */
typedef struct {
    uint16_t bits;
} fb_f16;
typedef struct {
    uint16_t bits;
} fb_bf16;

static inline uint32_t fb_choose(int first, uint32_t a, uint32_t b)
{
    return b ^ ((a ^ b) & -(uint32_t)first);
}

static inline float fb_from_f16(fb_f16 h)
{
    uint32_t sign = (uint32_t)(h.bits & 0x8000) << 16, rest = (uint32_t)(h.bits & 0x7fff) << 13;
    /* the exponent's bias is 112 less; the product is right for subnormals too */
    uint32_t finite = fb_bits(fb_float(rest) * 0x1p112f);
    return fb_float(sign | fb_choose(rest >= 0x0f800000, rest | 0x7f800000, finite));
}

static inline fb_f16 fb_to_f16(float x)
{
    uint32_t u = fb_bits(x), sign = u >> 16 & 0x8000, rest = u & 0x7fffffff;
    uint32_t normal = (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13;
    /* adding 1/2 leaves a subnormal result, rounded, in the low bits */
    uint32_t small = fb_bits(fb_float(rest) + 0.5f) - 0x3f000000;
    uint32_t large = fb_choose(rest > 0x7f800000, 0x7e00, 0x7c00);
    uint32_t finite = fb_choose(rest < 0x38800000, small, normal);
    return (fb_f16){(uint16_t)(sign | fb_choose(rest >= 0x47800000, large, finite))};
}

static inline float fb_from_bf16(fb_bf16 h)
{
    return fb_float((uint32_t)h.bits << 16);
}

static inline fb_bf16 fb_to_bf16(float x)
{
    uint32_t u = fb_bits(x);
    uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (fb_bf16){(uint16_t)(x != x ? (u >> 16 | 0x40) : rounded)};
}

/* ---- strips of f16 ---- */

#ifdef __has_builtin
#if defined __F16C__ && __has_builtin(__builtin_ia32_vcvtph2ps256) && __has_builtin(__builtin_ia32_vcvtps2ph256)
#define FB_CONVERTS_F16
typedef short __attribute__((vector_size(16), aligned(2), may_alias)) fb_eight_f16;
typedef float __attribute__((vector_size(32), aligned(4), may_alias)) fb_eight_floats;
#endif
#endif

/* n elements to floats and back, by the instructions that some processors have for eight at once: of loops that convert one by
 * one, as above, compilers make no use of them. NaNs may have other bits. */
static inline void fb_widen(const fb_f16 *from, float *to, int n)
{
    int i = 0;
#ifdef FB_CONVERTS_F16
    for (; i + 8 <= n; i += 8)
        *(fb_eight_floats *)(to + i) = __builtin_ia32_vcvtph2ps256(*(const fb_eight_f16 *)(from + i));
#endif
    for (; i < n; i++) to[i] = fb_from_f16(from[i]);
}

static inline void fb_narrow(const float *from, fb_f16 *to, int n)
{
    int i = 0;
#ifdef FB_CONVERTS_F16
    for (; i + 8 <= n; i += 8)
        *(fb_eight_f16 *)(to + i) = __builtin_ia32_vcvtps2ph256(*(const fb_eight_floats *)(from + i), 0);
#endif
    for (; i < n; i++) to[i] = fb_to_f16(from[i]);
}

/* ---- tiles that are turned ---- */

/* Element (r, c) of a tile of `high` by `wide` lies at from[step · c + r] and goes to to[line · r + c]. Eight by eight at a
 * time in registers, of 16 and 32 bits: one by one, the stores to eight lines would take twice as long. */
typedef uint8_t __attribute__((may_alias)) fb_bits_8;
typedef uint16_t __attribute__((may_alias)) fb_bits_16;
typedef uint32_t __attribute__((may_alias)) fb_bits_32;
typedef uint64_t __attribute__((may_alias)) fb_bits_64;

#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define FB_TURNS_BY_VECTORS
#endif
#endif

#ifdef FB_TURNS_BY_VECTORS
typedef uint16_t __attribute__((vector_size(16), aligned(2), may_alias)) fb_vector_16;
typedef uint32_t __attribute__((vector_size(32), aligned(4), may_alias)) fb_vector_32;

/* The first halves of a and b, element by element, and the second ones. */
#define FB_FIRST(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define FB_SECOND(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)

static inline void fb_turn_block_16(const fb_bits_16 *from, int64_t step, fb_bits_16 *to, int64_t line)
{
    fb_vector_16 a[8], b[8];
    for (int c = 0; c < 8; c++) a[c] = *(const fb_vector_16 *)(from + step * c);
    for (int c = 0; c < 4; c++) b[2 * c] = FB_FIRST(a[c], a[c + 4]), b[2 * c + 1] = FB_SECOND(a[c], a[c + 4]);
    for (int c = 0; c < 4; c++) a[2 * c] = FB_FIRST(b[c], b[c + 4]), a[2 * c + 1] = FB_SECOND(b[c], b[c + 4]);
    for (int c = 0; c < 4; c++) b[2 * c] = FB_FIRST(a[c], a[c + 4]), b[2 * c + 1] = FB_SECOND(a[c], a[c + 4]);
    for (int r = 0; r < 8; r++) *(fb_vector_16 *)(to + line * r) = b[r];
}

/* Halves of 16 bytes stay apart up to the last step, as processors have it. */
static inline void fb_turn_block_32(const fb_bits_32 *from, int64_t step, fb_bits_32 *to, int64_t line)
{
    fb_vector_32 a[8], b[8];
    for (int c = 0; c < 8; c++) a[c] = *(const fb_vector_32 *)(from + step * c);
    for (int c = 0; c < 8; c += 2) {
        b[c] = __builtin_shufflevector(a[c], a[c + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        b[c + 1] = __builtin_shufflevector(a[c], a[c + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int c = 0; c < 8; c += c % 4 == 1 ? 3 : 1) {
        a[c / 4 * 4 + c % 4 * 2] = __builtin_shufflevector(b[c], b[c + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        a[c / 4 * 4 + c % 4 * 2 + 1] = __builtin_shufflevector(b[c], b[c + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int r = 0; r < 4; r++) {
        *(fb_vector_32 *)(to + line * r) = __builtin_shufflevector(a[r], a[r + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        *(fb_vector_32 *)(to + line * (r + 4)) = __builtin_shufflevector(a[r], a[r + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}
#endif

#define FB_TURN(BITS, BLOCK, BLOCKS)                                                                                   \
    static inline void fb_turn_##BITS(const void *from, int64_t step, int64_t high, int64_t wide, void *to,            \
                                      int64_t line)                                                                    \
    {                                                                                                                  \
        const fb_bits_##BITS *f = (const fb_bits_##BITS *)from;                                                        \
        fb_bits_##BITS *t = (fb_bits_##BITS *)to;                                                                      \
        const int64_t rows = BLOCKS ? high / 8 * 8 : 0, columns = BLOCKS ? wide / 8 * 8 : 0;                           \
        for (int64_t c = 0; c < columns; c += 8)                                                                       \
            for (int64_t r = 0; r < rows; r += 8) BLOCK(f + step * c + r, step, t + line * r + c, line);               \
        for (int64_t c = 0; c < wide; c++)                                                                             \
            for (int64_t r = c < columns ? rows : 0; r < high; r++) t[line * r + c] = f[step * c + r];                 \
    }
#define FB_NO_BLOCK(from, step, to, line) (void)0
FB_TURN(8, FB_NO_BLOCK, 0)
FB_TURN(64, FB_NO_BLOCK, 0)
#ifdef FB_TURNS_BY_VECTORS
FB_TURN(16, fb_turn_block_16, 1)
FB_TURN(32, fb_turn_block_32, 1)
#else
FB_TURN(16, FB_NO_BLOCK, 0)
FB_TURN(32, FB_NO_BLOCK, 0)
#endif

/* ---- integers of floats as floats again ---- */

/* A compiler that makes one truncation of both conversions (gcc 12) leaves the sign of what came to nothing, and what is
 * beyond all integers: here that is the least one, as the processor has it, whether the integer is stored or not. Never -0. */
static inline float fb_wholef(float x, float most)
{
    x = __builtin_fabsf(x) < most ? x : -most;
    uint32_t u = fb_bits(x);
    return fb_float(u == 0x80000000u ? 0 : u);
}

static inline double fb_whole(double x, double most)
{
    uint64_t u;
    x = __builtin_fabs(x) < most ? x : -most;
    __builtin_memcpy(&u, &x, sizeof u);
    u = u == 0x8000000000000000u ? 0 : u;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}

/* A product that is rounded before anything is made of it: gcc takes one into a sum in one loop and not in another, and
 * x - amax(x) is no longer 0 where x is the largest. */
static inline float fb_productf(float a, float b)
{
#if defined __FMA__ && !defined __clang__
    return __builtin_fmaf(a, b, -0.0f);
#else
    return a * b;
#endif
}

static inline double fb_product(double a, double b)
{
#if defined __FMA__ && !defined __clang__
    return __builtin_fma(a, b, -0.0);
#else
    return a * b;
#endif
}

/* ---- minimum and maximum: NaN wins, as in PyTorch ----
 *
 * In two steps, of which a compiler makes a maximum and a choice of vectors; of one condition of both it makes branches
 * where a relu comes before it, and guesses half of them wrong (a pool of windows of 2 x 2 x 2: 3.5 ms, 0.11 so). */

static inline float fb_minf(float a, float b)
{
    const float m = b < a ? b : a;
    return b != b ? b : m;
}

static inline float fb_maxf(float a, float b)
{
    const float m = b > a ? b : a;
    return b != b ? b : m;
}

static inline double fb_min(double a, double b)
{
    const double m = b < a ? b : a;
    return b != b ? b : m;
}

static inline double fb_max(double a, double b)
{
    const double m = b > a ? b : a;
    return b != b ? b : m;
}

static inline int64_t fb_mini(int64_t a, int64_t b)
{
    return b < a ? b : a;
}

static inline int64_t fb_maxi(int64_t a, int64_t b)
{
    return b > a ? b : a;
}

/* Two choices side by side, as above: a choice inside a choice becomes branches. */
static inline float fb_clampf(float x, float low, float high)
{
    const float m = x > high ? high : x;
    return x < low ? low : m;
}

static inline double fb_clamp(double x, double low, double high)
{
    const double m = x > high ? high : x;
    return x < low ? low : m;
}

/* clang-format off */
#pragma omp declare reduction(fb_minf : float : omp_out = fb_minf(omp_out, omp_in)) initializer(omp_priv = INFINITY)
#pragma omp declare reduction(fb_maxf : float : omp_out = fb_maxf(omp_out, omp_in)) initializer(omp_priv = -INFINITY)
#pragma omp declare reduction(fb_min : double : omp_out = fb_min(omp_out, omp_in)) initializer(omp_priv = (double)INFINITY)
#pragma omp declare reduction(fb_max : double : omp_out = fb_max(omp_out, omp_in)) initializer(omp_priv = -(double)INFINITY)
/* clang-format on */

/* ---- exponentials ---- */

/* (e^r - 1) for |r| <= ln 2 / 2: Taylor with the last coefficients fitted (Cephes). */
static inline float fb_expm1_core(float r)
{
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return p * (r * r) + r;
}

/* Adding 1.5·2^23 leaves the nearest integer in the low bits. */
#define FB_ROUNDER 12582912.0f

/* x = n ln 2 + r; *shifted is n + FB_ROUNDER. */
static inline float fb_exp_reduce(float x, float *shifted)
{
    *shifted = x * 1.44269504088896341f + FB_ROUNDER;
    float n = *shifted - FB_ROUNDER;
    float r = x - n * 0.693359375f;
    return r - n * -2.12194440e-4f;
}

/* x · 2^n, both normal: n goes into the exponent's bits. */
static inline float fb_scale(float x, float shifted)
{
    return fb_float(fb_bits(x) + (fb_bits(shifted) << 23));
}

static inline float fb_expf(float x)
{
    float shifted, r = fb_exp_reduce(x, &shifted);
    float y = fb_scale(fb_expm1_core(r) + 1.0f, shifted);
    y = x > 88.7228394f ? INFINITY : y;
    y = x < -87.3365448f ? 0.0f : y; /* below the normal range */
    return x != x ? x : y;
}

static inline float fb_exp2f(float x)
{
    float shifted = x + FB_ROUNDER;
    float r = x - (shifted - FB_ROUNDER);
    float y = fb_scale(fb_expm1_core(r * 0.693147180559945309f) + 1.0f, shifted);
    y = x >= 128.0f ? INFINITY : y;
    y = x < -126.0f ? 0.0f : y;
    return x != x ? x : y;
}

static inline float fb_sigmoidf(float x)
{
    float e = fb_expf(-fabsf(x)); /* never overflows */
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}

/* With m = e^2x - 1: m / (m + 2), which cancels nowhere. From 9.02 on it is 1. */
static inline float fb_tanhf(float x)
{
    float a = fabsf(x), twice = a + a;
    twice = twice > 18.5f ? 18.5f : twice;
    float shifted, p = fb_expm1_core(fb_exp_reduce(twice, &shifted)), s = fb_scale(1.0f, shifted);
    float m = p * s + (s - 1.0f);
    return copysignf(m / (m + 2.0f), x);
}

/* ---- logarithms ---- */

/* x = 2^e · (1 + f) with 1 + f in [√½, √2); the logarithm of 1 + f is f + the value returned (Cephes). */
static inline float fb_log_core(float x, float *e, float *f)
{
    float small = x < 0x1p-126f ? 0x1p23f : 1.0f; /* subnormals are scaled up first */
    uint32_t u = fb_bits(x * small);
    int32_t shifted = (int32_t)(u - 0x3f3504f3u);
    int32_t n = shifted >> 23;
    float m = fb_float(u - ((uint32_t)n << 23)) - 1.0f;
    *e = (float)n - (x < 0x1p-126f ? 23.0f : 0.0f);
    *f = m;
    float z = m * m;
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    /* One product is rounded by itself: gcc put either of two into the difference, in vectors the one and in what is left
     * over the other, and equal elements had unequal logarithms. */
    return p * m * z - fb_productf(0.5f, z);
}

/* What a logarithm is outside the positive finite numbers. */
static inline float fb_log_edges(float x, float inside)
{
    float y = x == INFINITY ? INFINITY : inside;
    y = x == 0 ? -INFINITY : y;
    return x >= 0 ? y : NAN;
}

static inline float fb_logf(float x)
{
    float e, f, y = fb_log_core(x, &e, &f);
    return fb_log_edges(x, e * 0.693359375f + (f + (y + e * -2.12194440e-4f)));
}

static inline float fb_log2f(float x)
{
    float e, f, y = fb_log_core(x, &e, &f);
    /* log2 e = 1 + 0.4427 keeps the leading bits exact; one product is rounded by itself, as above */
    return fb_log_edges(x, e + (f + (y + (f * 0.442695040888963407f + fb_productf(y, 0.442695040888963407f)))));
}

/* ln(1 + x): of 1 + x as it is rounded, and what the rounding lost. It has the sign of x, also of -0. */
static inline float fb_log1pf(float x)
{
    float u = 1.0f + x, lost = x - (u - 1.0f), e, f, y = fb_log_core(u, &e, &f);
    return copysignf(fb_log_edges(u, e * 0.693359375f + (f + (y + (e * -2.12194440e-4f + lost / u)))), x);
}

/* ---- sines ---- */

/* One of four words, by which of these bounds are reached. */
static inline uint32_t fb_word(int second, int third, int fourth, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    return fb_choose(fourth, d, fb_choose(third, c, fb_choose(second, b, a)));
}

/* Sine of x and so many quarter turns: within 0.57 units in the last place of all floats, as far as one in 997 of them tells.
 * Up to 2^20 x is reduced by pi/2 in two pieces, of which products with the first are exact; beyond, by the 96 bits of 2/pi
 * that its exponent asks for (Payne and Hanek). Both are worked out and one is chosen, as a vector's lanes have to. */
static inline float fb_sine(float x, uint32_t turns)
{
    const uint32_t bits = fb_bits(x), size = bits & 0x7fffffff, negative = bits >> 31;
    const int far = size >= 0x49800000;
    const double shifted = (double)x * 0x1.45f306dc9c883p-1 + 0x1.8p52,
                 k = shifted - 0x1.8p52; /* the nearest integer */
    const double near = ((double)x - k * 0x1.921fb544p+0) - k * 0x1.0b4611a626331p-34;

    const uint32_t whole = (size & 0x7fffff) | 0x800000, at = (size >> 23) - 147, by = at & 31;
    const int b1 = at >= 32, b2 = at >= 64, b3 = at >= 96;
    const uint32_t w0 = fb_word(b1, b2, b3, 0x0517cc1b, 0x727220a9, 0x4fe13abe, 0x8fa9a6ee),
                   w1 = fb_word(b1, b2, b3, 0x727220a9, 0x4fe13abe, 0x8fa9a6ee, 0x06db14ac),
                   w2 = fb_word(b1, b2, b3, 0x4fe13abe, 0x8fa9a6ee, 0x06db14ac, 0xc9e21c82),
                   w3 = fb_word(b1, b2, b3, 0x8fa9a6ee, 0x06db14ac, 0xc9e21c82, 0x0ff28b1d);
    const uint32_t p0 = w0 << by | w1 >> 1 >> (31 - by), p1 = w1 << by | w2 >> 1 >> (31 - by),
                   p2 = w2 << by | w3 >> 1 >> (31 - by);
    const uint64_t part = ((uint64_t)(whole * p0) << 32) + (uint64_t)whole * p1 + ((uint64_t)whole * p2 >> 32);
    const uint32_t top = (uint32_t)(part >> 32), quarters = (top + (1u << 29)) >> 30; /* of a turn: part over 2^62 */
    const double above = (int32_t)(top - (quarters << 30)), below = (int32_t)((uint32_t)part >> 1);
    const double rest = (above * 0x1p32 + below * 2) * 0x1.921fb54442d18p-62, beyond = negative ? -rest : rest;

    const double r = far ? beyond : near, z = r * r;
    const uint32_t n = fb_choose(far, (quarters ^ -negative) + negative, (uint32_t)(int32_t)k) + turns;
    /* minimax up to pi/4: 2^-28 and 2^-33 */
    double sine = -0x1.994e5b1ba7993p-13, cosine = 0x1.99066dddbe6ebp-16;
    sine = sine * z + 0x1.11075f557a8b1p-7;
    sine = sine * z - 0x1.55554596f2109p-3;
    cosine = cosine * z - 0x1.6c07f29de530dp-10;
    cosine = cosine * z + 0x1.55553db67e8dap-5;
    cosine = cosine * z - 0x1.ffffffd59f8fdp-2;
    const float s = (float)(r * (1 + z * sine)), c = (float)(1 + z * cosine); /* -0 stays what it is */
    const float y = fb_float(fb_choose((int)(n & 1), fb_bits(c), fb_bits(s)) ^ n >> 1 << 31);
    return size >= 0x7f800000 ? NAN : y;
}

static inline float fb_sinf(float x)
{
    return fb_sine(x, 0);
}

static inline float fb_cosf(float x)
{
    return fb_sine(x, 1);
}

static inline double fb_sin(double x)
{
    return sin(x);
}

static inline double fb_cos(double x)
{
    return cos(x);
}

/* ---- the rest of the slow functions ---- */

static inline float fb_rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}

/* Two minimax forms meeting at 475/512: a·P(a²) below, 1 - e^R(a) above (N. Juffa). */
static inline float fb_erff(float x)
{
    float a = fabsf(x), s = x * x;
    float p = -5.96761703e-4f;
    p = p * s + 4.99119423e-3f;
    p = p * s - 2.67681349e-2f;
    p = p * s + 1.12819925e-1f;
    p = p * s - 3.76125336e-1f;
    p = p * s + 1.28379166e-1f;
    float near = p * x + x;
    float t = a < 4.0f ? a : 4.0f; /* 1 from there on */
    float r = -1.72853470e-5f * t + 3.83197126e-4f;
    r = r * (t * t) + (-3.88396438e-3f * t + 2.42546219e-2f);
    r = r * t - 1.06777877e-1f;
    r = r * t - 6.34846687e-1f;
    r = r * t - 1.28717512e-1f;
    r = r * t - t;
    float far = copysignf(1.0f - fb_expf(r), x);
    float y = a > 0.927734375f ? far : near;
    return x != x ? x : y;
}

static inline float fb_geluf(float x)
{
    return 0.5f * x * (1.0f + fb_erff(x * 0.707106781186547524f));
}

/* ln(1 + e^z) / beta in a form that never overflows. */
static inline float fb_softplusf(float x, float beta, float threshold)
{
    float z = x * beta, y = (z > 0 ? z : 0.0f) + fb_log1pf(fb_expf(-fabsf(z)));
    return z > threshold ? x : y / beta;
}

/* Below -20 it is -alpha; of -0 it is -0, as divisors tell. */
static inline float fb_eluf(float x, float alpha)
{
    float a = x > 0 ? 0.0f : x < -20.0f ? -20.0f : x;
    float shifted, p = fb_expm1_core(fb_exp_reduce(a, &shifted)), s = fb_scale(1.0f, shifted);
    return x > 0 ? x : alpha * copysignf(p * s + (s - 1.0f), a);
}

/* With e = e^x, tanh(ln(1 + e)) = e(e + 2) / (e(e + 2) + 2). Half of the exponent at a time: e^x is flushed to zero
 * where x·e^x is not. From 20 on it is x. */
static inline float fb_mishf(float x)
{
    float a = x < 20.0f ? x : 20.0f, h = fb_expf(0.5f * a), e = h * h;
    float y = x * h * h * ((e + 2.0f) / (e * (e + 2.0f) + 2.0f));
    return x > 20.0f ? x : y;
}

/* The angle of the point (x, y): the smaller coordinate over the larger, from tan π/8 on beside π/4 (the polynomial is
 * Cephes'), then turned into its octant. π/2 and π come in two parts. */
static inline float fb_atan2f(float y, float x)
{
    float a = fabsf(x), b = fabsf(y), most = a > b ? a : b, least = a > b ? b : a;
    float scale = most > 0x1p125f ? 0.25f : 1.0f; /* no sum overflows */
    least = least == INFINITY ? 1.0f : most == INFINITY ? 0.0f : least * scale;
    most = most == INFINITY ? 1.0f : most == 0.0f ? 1.0f : most * scale;
    bool far = least > 0.414213562f * most;
    float t = (far ? least - most : least) / (far ? least + most : most), z = t * t;
    float p = 8.05374449538e-2f;
    p = p * z - 1.38776856032e-1f;
    p = p * z + 1.99777106478e-1f;
    p = p * z - 3.33329491539e-1f;
    float r = p * z * t + t;
    r = far ? 0.785398185f + (r - 2.18556941e-8f) : r;
    r = b > a ? 1.57079637f - (r + 4.37113883e-8f) : r;
    bool upright = a == 0.0f && b > 0.0f; /* either zero of x has the same angle */
    r = copysignf(1.0f, x) < 0 && !upright ? 3.14159274f - (r + 8.74227766e-8f) : r;
    return x != x || y != y ? x + y : copysignf(r, y);
}

/* M. Giles, Approximating the erfinv function. */
static inline float fb_erfinvf(float x)
{
    float w = -fb_logf((1.0f - x) * (1.0f + x)), near = w - 2.5f, far = sqrtf(w > 5.0f ? w : 5.0f) - 3.0f;
    float p = 2.81022636e-08f, q = -0.000200214257f;
    p = p * near + 3.43273939e-07f;
    p = p * near - 3.5233877e-06f;
    p = p * near - 4.39150654e-06f;
    p = p * near + 0.00021858087f;
    p = p * near - 0.00125372503f;
    p = p * near - 0.00417768164f;
    p = p * near + 0.246640727f;
    p = p * near + 1.50140941f;
    q = q * far + 0.000100950558f;
    q = q * far + 0.00134934322f;
    q = q * far - 0.00367342844f;
    q = q * far + 0.00573950773f;
    q = q * far - 0.0076224613f;
    q = q * far + 0.00943887047f;
    q = q * far + 1.00167406f;
    q = q * far + 2.83297682f;
    float y = (w < 5.0f ? p : q) * x;
    return fabsf(x) == 1.0f ? copysignf(INFINITY, x) : fabsf(x) < 1.0f ? y : NAN;
}

/* Left of 0 by reflection, up to 6 by recurrence, then the asymptotic series. */
static inline float fb_digammaf(float x)
{
    bool left = x < 0;
    float part = x - rintf(x), y = left ? -3.14159265f / tanf(3.14159265f * part) : 0.0f, z = left ? 1.0f - x : x;
    for (int k = 0; k < 6; k++) {
        bool small = z < 6.0f;
        y -= small ? 1.0f / z : 0.0f;
        z += small ? 1.0f : 0.0f;
    }
    float r = 1.0f / (z * z), tail = r * (0.0833333333f - r * (0.00833333333f - r * 0.00396825397f));
    y += fb_logf(z) - 0.5f / z - tail;
    y = x < 0 && (part == 0 || isinf(x)) ? NAN : y;
    return x == 0 ? copysignf(INFINITY, -x) : y;
}

float lgammaf_r(float x, int *sign);
double lgamma_r(double x, int *sign);

static inline float fb_lgammaf(float x)
{
    int sign;
    return lgammaf_r(x, &sign);
}

static inline float fb_powf(float x, float y)
{
    return powf(x, y);
}

static inline double fb_exp(double x)
{
    return exp(x);
}

static inline double fb_exp2(double x)
{
    return exp2(x);
}

static inline double fb_log(double x)
{
    return log(x);
}

static inline double fb_log2(double x)
{
    return log2(x);
}

static inline double fb_log1p(double x)
{
    return log1p(x);
}

static inline double fb_rsqrt(double x)
{
    return 1 / sqrt(x);
}

static inline double fb_tanh(double x)
{
    return tanh(x);
}

static inline double fb_sigmoid(double x)
{
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

static inline double fb_erf(double x)
{
    return erf(x);
}

static inline double fb_gelu(double x)
{
    return 0.5 * x * erfc(x * -0.70710678118654752440);
}

static inline double fb_softplus(double x, double beta, double threshold)
{
    double z = x * beta;
    return z > threshold ? x : ((z > 0 ? z : 0) + log1p(exp(-fabs(z)))) / beta;
}

static inline double fb_elu(double x, double alpha)
{
    return x > 0 ? x : alpha * expm1(x);
}

static inline double fb_mish(double x)
{
    return x * tanh(log1p(exp(x)));
}

/* The sign of a NaN hangs on how it was made. */
static inline float fb_copysignf(float a, float b)
{
    return copysignf(a, b != b ? 1.0f : b);
}

static inline double fb_copysign(double a, double b)
{
    return copysign(a, b != b ? 1 : b);
}

static inline double fb_atan2(double y, double x)
{
    return atan2(y, x);
}

static inline double fb_lgamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

static inline double fb_digamma(double x)
{
    if (x == 0) return copysign(INFINITY, -x);
    if (x < 0 && (x == floor(x) || isinf(x))) return NAN;
    double y = 0;
    if (x < 0) {
        y = -3.14159265358979323846 / tan(3.14159265358979323846 * (x - rint(x)));
        x = 1 - x;
    }
    for (; x < 10; x++) y -= 1 / x;
    double r = 1 / (x * x);
    double tail =
        r * (1.0 / 12 - r * (1.0 / 120 - r * (1.0 / 252 - r * (1.0 / 240 - r * (1.0 / 132 - r * 691.0 / 32760)))));
    return y + log(x) - 0.5 / x - tail;
}

/* A first guess, mended by Halley's rule; with erfc where erf has no digits left. */
static inline double fb_erfinv(double y)
{
    double a = fabs(y), w = -log((1 - a) * (1 + a)), x;
    if (!(a < 1)) return a == 1 ? copysign(INFINITY, y) : NAN;
    if (w < 5) {
        double t = w - 2.5;
        x = a * (1.50140941 + t * (0.246640727 + t * (-0.00417768164 + t * (-0.00125372503 + t * 0.00021858087))));
    } else {
        x = sqrt(w - 0.5 * log(3.14159265358979323846 * w));
    }
    for (int i = 0; i < 4; i++) {
        double off = (a < 0.5 ? erf(x) - a : (1 - a) - erfc(x)) / (1.12837916709551257390 * exp(-x * x));
        x -= off / (1 + x * off);
    }
    return copysign(x, y);
}

static inline double fb_pow(double x, double y)
{
    return pow(x, y);
}

/* What is left of the division of a by b, exactly, in double where products are taken into sums unrounded: six times, which
 * the largest float and the smallest need, a quotient of 53 bits is taken off, which roundings may make one too large or too
 * small. A float divided by infinity stays what it is. */
static inline float fb_fmodf(float a, float b)
{
#ifdef __FMA__
    const double by = __builtin_fabs((double)b), over = 1 / by;
    double r = __builtin_fabs((double)a);
    r = __builtin_fma(-__builtin_trunc(r * over), by, r); /* written out: gcc makes no vectors of a loop */
    r = __builtin_fma(-__builtin_trunc(r * over), by, r);
    r = __builtin_fma(-__builtin_trunc(r * over), by, r);
    r = __builtin_fma(-__builtin_trunc(r * over), by, r);
    r = __builtin_fma(-__builtin_trunc(r * over), by, r);
    r = __builtin_fma(-__builtin_trunc(r * over), by, r);
    r = r < 0 ? r + by : r;
    r = r >= by ? r - by : r;
    const float y = __builtin_copysignf((float)r, a);
    const uint32_t top = 0x7f800000, of_a = fb_bits(a) & 0x7fffffff, of_b = fb_bits(b) & 0x7fffffff;
    return fb_float(fb_choose((of_b == top) & (of_a < top), fb_bits(a), fb_bits(y)));
#else
    return fmodf(a, b);
#endif
}

/* Remainders take the divisor's sign. */
static inline float fb_fmod_floorf(float a, float b)
{
    float r = fb_fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline double fb_fmod_floor(double a, double b)
{
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* ---- integers: everything wraps, division and remainder floor, what has no value is 0 ---- */

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
    if (b == -1) return fb_wrap_sub(0, a); /* the smallest integer / -1 would trap */
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static inline int64_t fb_mod_floor(int64_t a, int64_t b)
{
    if (b == 0 || b == -1) return 0;
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline int64_t fb_shl(int64_t a, int64_t b)
{
    return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
}

static inline int64_t fb_shr(int64_t a, int64_t b)
{
    return a >> (b < 0 || b > 63 ? 63 : b);
}

/* The whole part of a float, clipped; NaN is 0. */
static inline int64_t fb_int_of(double x)
{
    return x != x ? 0 : x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x;
}

/* ---- random sources: the counter-based generator that fills inputs, element by element ---- */

static inline uint64_t fb_splitmix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* A number that is rounded to 16 bits next: of the two floats around it that with the odd last bit, so that the second
 * rounding leaves what one alone would. */
static inline float fb_odd_float(double x)
{
    float nearest = (float)x;
    double left = x - (double)nearest;
    uint32_t u = fb_bits(nearest);
    if (left == 0 || nearest == 0 || (u & 1)) return nearest;
    return fb_float((left > 0) == (nearest > 0) ? u + 1 : u - 1);
}

static inline double fb_random_uniform(uint64_t key, int64_t i, double low, double high)
{
    uint64_t bits = fb_splitmix64(key + (uint64_t)i * 0x9e3779b97f4a7c15u);
    return low + (high - low) * ((double)(bits >> 40) * 0x1p-24);
}

static inline double fb_random_normal(uint64_t key, int64_t i, double mean, double deviation)
{
    uint64_t bits = fb_splitmix64(key + (uint64_t)i * 0x9e3779b97f4a7c15u);
    int64_t sum = (int64_t)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48)) - 131070;
    return mean + deviation * ((double)sum * (1.7320508075688772 / 65536.0));
}

static inline int64_t fb_random_integer(uint64_t key, int64_t i, int64_t low, int64_t high)
{
    uint64_t bits = fb_splitmix64(key + (uint64_t)i * 0x9e3779b97f4a7c15u);
    return high > low ? low + (int64_t)((bits >> 11) % (uint64_t)(high - low)) : low;
}

/* ---- index_add: points of the index, sorted by row ---- */

/* Words of a row (above) and a point, in the order of points: by rows, digit by digit. room: of n. */
static inline void fb_sort_points(uint64_t *words, int64_t n, uint64_t *room)
{
    enum { SHORT = 32, BITS = 8, DIGITS = 1 << BITS };
    uint64_t *from = words, *to = room, rows = 0;
    for (int64_t i = 0; i < n; i++) rows |= words[i] >> 32;
    if (n < SHORT) {
        for (int64_t i = 1; i < n; i++) {
            const uint64_t word = words[i];
            int64_t k = i;
            for (; k > 0 && words[k - 1] > word; k--) words[k] = words[k - 1];
            words[k] = word;
        }
        return;
    }
    for (int shift = 32; rows; shift += BITS, rows >>= BITS) {
        int64_t starts[DIGITS + 1] = {0};
        for (int64_t i = 0; i < n; i++) starts[(from[i] >> shift & (DIGITS - 1)) + 1]++;
        for (int k = 0; k < DIGITS; k++) starts[k + 1] += starts[k];
        for (int64_t i = 0; i < n; i++) to[starts[from[i] >> shift & (DIGITS - 1)]++] = from[i];
        uint64_t *const sorted = to;
        to = from;
        from = sorted;
    }
    if (from != words) __builtin_memcpy(words, from, (size_t)n * sizeof *words);
}

/* ---- rank: places in a sorted row ---- */

/* Keys in the order of what they are of: -0 is 0, and what is no number comes after all numbers. */
static inline uint64_t fb_keyf(float x)
{
    uint32_t u = fb_bits(x + 0.0f);
    return x != x ? UINT32_MAX : u >> 31 ? (uint32_t)~u : u | 0x80000000u;
}

static inline uint64_t fb_key(double x)
{
    const union {
        double x;
        uint64_t u;
    } bits = {x + 0.0};
    return x != x ? UINT64_MAX : bits.u >> 63 ? ~bits.u : bits.u | 1ull << 63;
}

static inline uint64_t fb_keyi(int64_t x)
{
    return (uint64_t)x ^ 1ull << 63;
}

/* Of few words of which no two are equal, in one loop: the two below take three times as long. */
static inline void fb_words_counted(const uint64_t *words, int32_t n, int32_t *ranks)
{
    for (int32_t i = 0; i < n; i++) {
        const uint64_t own = words[i];
        int64_t rank = 0;
#pragma omp simd reduction(+ : rank)
        for (int32_t k = 0; k < n; k++) rank += words[k] < own;
        ranks[i] = (int32_t)rank;
    }
}

/* Of few keys: for each, those that go before it. */
static inline void fb_ranks_counted(const uint64_t *keys, int32_t n, int32_t *ranks)
{
    for (int32_t i = 0; i < n; i++) {
        const uint64_t own = keys[i];
        int64_t rank = 0;
#pragma omp simd reduction(+ : rank)
        for (int32_t k = 0; k < i; k++) rank += keys[k] <= own;
#pragma omp simd reduction(+ : rank)
        for (int32_t k = i; k < n; k++) rank += keys[k] < own;
        ranks[i] = (int32_t)rank;
    }
}

/* Counts become where each digit's keys start. False where all have the digit of the first: they stay as they are. */
static inline bool fb_digit_starts(int32_t *counts, int32_t digits, int32_t n, uint64_t first)
{
    int32_t sum = 0;
    if (counts[first] == n) return false;
    for (int32_t k = 0; k < digits; k++) {
        const int32_t count = counts[k];
        counts[k] = sum;
        sum += count;
    }
    return true;
}

/* By `passes` digits of so many bits, lowest first; counts: a zero for each. A key and its place make one word, so that
 * passes read in order; the last one leaves ranks. */
static inline void fb_ranks_by(uint64_t *keys, int32_t n, int bits, int passes, int32_t *counts, uint64_t *room,
                               int32_t *ranks)
{
    const int32_t digits = 1 << bits;
    const uint64_t all = (uint64_t)digits - 1;
    uint64_t *from = keys, *to = room;
    int sorted = 0, last = -1;
    for (int32_t i = 0; i < n; i++) {
        const uint64_t word = keys[i] << 32 | (uint32_t)i;
        for (int p = 0; p < passes; p++) counts[digits * p + (int32_t)(word >> (32 + bits * p) & all)]++;
        keys[i] = word;
    }
    for (int p = 0; p < passes; p++) {
        if (!fb_digit_starts(counts + digits * p, digits, n, keys[0] >> (32 + bits * p) & all)) continue;
        sorted |= 1 << p;
        last = p;
    }
    for (int p = 0; p < last; p++) {
        if (!(sorted >> p & 1)) continue;
        for (int32_t i = 0; i < n; i++)
            to[counts[digits * p + (int32_t)(from[i] >> (32 + bits * p) & all)]++] = from[i];
        uint64_t *const other = to;
        to = from;
        from = other;
    }
    for (int32_t i = 0; i < n; i++)
        ranks[(uint32_t)from[i]] =
            last < 0 ? i : counts[digits * last + (int32_t)(from[i] >> (32 + bits * last) & all)]++;
}

/* ranks[i]: how many of n keys go before that of i, of equal ones those that come first. Keys are of four bytes, what is
 * above is lost, and so are they; room: of n. Long rows pay for longer digits. */
static inline void fb_ranks(uint64_t *keys, int32_t n, uint64_t *room, int32_t *ranks)
{
    enum { SHORT = 112, LONG = 1536 };
    if (n < SHORT) {
        for (int32_t i = 0; i < n; i++) keys[i] = keys[i] << 32 | (uint32_t)i;
        fb_words_counted(keys, n, ranks);
    } else if (n < LONG) {
        int32_t counts[4 << 8] = {0};
        fb_ranks_by(keys, n, 8, 4, counts, room, ranks);
    } else {
        int32_t counts[3 << 11] = {0};
        fb_ranks_by(keys, n, 11, 3, counts, room, ranks);
    }
}

/* The same of keys of eight bytes; room: of 2 n. Bytes that are the same in all are passed over, and of what lies within
 * a small range the upper ones are. */
static inline void fb_ranks_wide(uint64_t *keys, int32_t n, int32_t *room, int32_t *ranks)
{
    enum { SHORT = 96 };
    int32_t counts[8][256] = {{0}}, *from = room, *to = from + n;
    uint64_t least = UINT64_MAX;
    if (n < SHORT) {
        fb_ranks_counted(keys, n, ranks);
        return;
    }
    for (int32_t i = 0; i < n; i++) least = keys[i] < least ? keys[i] : least;
    for (int32_t i = 0; i < n; i++) {
        from[i] = i;
        keys[i] -= least;
        for (int b = 0; b < 8; b++) counts[b][keys[i] >> 8 * b & 255]++;
    }
    for (int b = 0; b < 8; b++) {
        int32_t *const other = to;
        if (!fb_digit_starts(counts[b], 256, n, keys[0] >> 8 * b & 255)) continue;
        for (int32_t i = 0; i < n; i++) to[counts[b][keys[from[i]] >> 8 * b & 255]++] = from[i];
        to = from;
        from = other;
    }
    for (int32_t i = 0; i < n; i++) ranks[from[i]] = i;
}

/* ---- the first places of a row ---- */

/* Keys that may be among the `first` smallest, and where they are, in the row's order: kept so far, of room for 2 · first
 * + FB_FIRST_ROOM; those above `most` are not among them. A row's keys come in pieces. */
typedef struct {
    uint64_t *keys;
    int32_t *at, kept, first;
    uint64_t most;
} fb_firsts;

enum { FB_FIRST_BLOCK = 64, FB_FIRST_ROOM = 2 * FB_FIRST_BLOCK };

/* A key that `first` of those kept are at most, found digit by digit from the highest bits that differ; *least: so many
 * are less. It may be one more than any of these where they are just as many. */
static inline uint64_t fb_first_bound(const fb_firsts *f, int32_t *less)
{
    uint64_t differ = 0, bound = f->keys[0];
    for (int32_t i = 0; i < f->kept; i++) differ |= f->keys[i] ^ bound;
    int top = differ ? 64 - __builtin_clzll(differ) : 0;
    *less = 0;
    while (top > 0) {
        const int low = top > 8 ? top - 8 : 0;
        const uint64_t above = top < 64 ? UINT64_MAX << top : 0;
        int32_t counts[257] = {0}, digit = 0;
        for (int32_t i = 0; i < f->kept; i++)
            counts[(f->keys[i] ^ bound) & above ? 256 : (f->keys[i] & ~above) >> low]++;
        while (*less + counts[digit] < f->first) *less += counts[digit++];
        bound = (bound & above) | (uint64_t)digit << low;
        top = low;
    }
    return bound;
}

/* Keeps the first ones alone. */
static inline void fb_first_trim(fb_firsts *f)
{
    int32_t less, kept = 0;
    const uint64_t bound = fb_first_bound(f, &less);
    int32_t equal = f->first - less;
    for (int32_t i = 0; i < f->kept; i++) {
        const uint64_t key = f->keys[i];
        const bool is = key == bound, keep = key < bound || (is && equal > 0);
        f->keys[kept] = key;
        f->at[kept] = f->at[i];
        equal -= is;
        kept += keep;
    }
    f->kept = kept;
    f->most = bound ? bound - 1 : 0;
}

/* The row's next keys, n of them from place `from` on. Most blocks have none that matters. */
static inline void fb_first_keys(fb_firsts *f, const uint64_t *keys, int32_t from, int32_t n)
{
    for (int32_t start = 0; start < n; start += FB_FIRST_BLOCK) {
        const int32_t end = start + FB_FIRST_BLOCK < n ? start + FB_FIRST_BLOCK : n;
        uint64_t *const kept = f->keys;
        int32_t *const at = f->at;
        const uint64_t most = f->most;
        int64_t any = 0;
#pragma omp simd reduction(+ : any)
        for (int32_t i = start; i < end; i++) any += keys[i] <= most;
        if (!any) continue;
        int32_t to = f->kept;
        for (int32_t i = start; i < end; i++) {
            kept[to] = keys[i];
            at[to] = from + i;
            to += keys[i] <= most;
        }
        f->kept = to;
        if (to > 2 * f->first + FB_FIRST_ROOM - FB_FIRST_BLOCK - 1) fb_first_trim(f);
    }
}

/* ranks[i], of n keys: as many as go before that of i, where these are fewer than `first`; else `first`. room: of 3 ·
 * first. */
static inline void fb_first_ranks(fb_firsts *f, int32_t n, int32_t *room, int32_t *ranks)
{
    int32_t *const own = room + 2 * f->first;
    if (f->kept > f->first) fb_first_trim(f);
    for (int32_t i = 0; i < n; i++) ranks[i] = f->first;
    fb_ranks_wide(f->keys, f->kept, room, own);
    for (int32_t i = 0; i < f->kept; i++) ranks[f->at[i]] = own[i];
}
