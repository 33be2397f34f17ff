// What stands before every generated CUDA kernel. No header is included: NVRTC then starts in milliseconds.

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;

#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define INT64_MIN (-9223372036854775807LL - 1)
#define INT64_MAX 9223372036854775807LL
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define FB_DEVICE static __device__ __forceinline__

// ---- 16-bit floats: stored so, computed in float -------------------------------------------------------------------

struct fb_f16 {
    unsigned short bits;
};
struct fb_bf16 {
    unsigned short bits;
};

FB_DEVICE float fb_from_f16(fb_f16 h)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h.bits));
    return x;
}

FB_DEVICE fb_f16 fb_to_f16(float x)
{
    fb_f16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(x));
    return h;
}

FB_DEVICE float fb_from_bf16(fb_bf16 h)
{
    return __uint_as_float((uint32_t)h.bits << 16);
}

FB_DEVICE fb_bf16 fb_to_bf16(float x)
{
    fb_bf16 h;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h.bits) : "f"(x));
#else
    const uint32_t bits = __float_as_uint(x);
    h.bits = x != x ? 0x7fff : (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16); // ties to even
#endif
    return h;
}

// ---- several neighbours in one access ------------------------------------------------------------------------------

template <class T, int N> struct __align__(sizeof(T) * N) fb_pack {
    T at[N];
};

template <int N, class T> FB_DEVICE fb_pack<T, N> fb_load(const T *from)
{
    return *reinterpret_cast<const fb_pack<T, N> *>(from);
}

template <int N, class T> FB_DEVICE void fb_store(T *to, const fb_pack<T, N> &values)
{
    *reinterpret_cast<fb_pack<T, N> *>(to) = values;
}

// ---- one instruction, a unit off at most, and what is smaller than a normal float is 0 ------------------------------

FB_DEVICE float fb_reciprocal_near(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// ---- minimum and maximum: NaN wins, as in PyTorch ------------------------------------------------------------------

FB_DEVICE float fb_minf(float a, float b) { return b < a || b != b ? b : a; }
FB_DEVICE float fb_maxf(float a, float b) { return b > a || b != b ? b : a; }
FB_DEVICE double fb_min(double a, double b) { return b < a || b != b ? b : a; }
FB_DEVICE double fb_max(double a, double b) { return b > a || b != b ? b : a; }
FB_DEVICE int64_t fb_mini(int64_t a, int64_t b) { return b < a ? b : a; }
FB_DEVICE int64_t fb_maxi(int64_t a, int64_t b) { return b > a ? b : a; }

// ---- division of a whole row ---------------------------------------------------------------------------------------

// What a row is divided by. A quotient is made of the reciprocal, and then, where it is not rounded to 16 bits anyway,
// corrected by what is left over, as a division does it. Divisors so small or large that this would overflow are moved by a power
// of two first, and what they divide with them: so there is no branch for other elements to wait behind.
struct fb_long_divisor {
    float scale, by, over;
    __device__ __forceinline__ fb_long_divisor(float x)
        : scale(fabsf(x) < 1e-30f ? 0x1p64f : fabsf(x) > 1e30f ? 0x1p-64f : 1.0f), by(x * scale), over(1.0f / by)
    {
        if (over == 0) by = 0; // infinite: nothing is left over
    }
};

FB_DEVICE float fb_long_overh(float x, const fb_long_divisor &d) { return x * d.scale * d.over; }

FB_DEVICE float fb_long_over(float x, const fb_long_divisor &d)
{
    const float y = x * d.scale, q = y * d.over;
    return fabsf(q) < INFINITY ? fmaf(fmaf(-q, d.by, y), d.over, q) : q;
}

// ---- functions that CUDA has not -----------------------------------------------------------------------------------

// Not fabsf: ptxas 13.0 takes what abs.f32 gives for a number, and fabsf(x) + 0.5f > 0.1f holds there for a NaN as well.
FB_DEVICE float fb_absf(float x) { return __int_as_float(__float_as_int(x) & 0x7fffffff); }
FB_DEVICE double fb_abs(double x) { return fabs(x); }

FB_DEVICE float fb_sigmoidf(float x) { return fb_reciprocal_near(1.0f + expf(-x)); } // 0 where e^-x is too large

FB_DEVICE double fb_sigmoid(double x)
{
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

// Where the result is rounded to 16 bits: a few units in a float's last place do not show.
FB_DEVICE float fb_exph(float x) { return __expf(x); }
FB_DEVICE float fb_sigmoidh(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }

FB_DEVICE float fb_expf(float x) { return expf(x); }
FB_DEVICE double fb_exp(double x) { return exp(x); }

FB_DEVICE float fb_geluf(float x) { return 0.5f * x * (1.0f + erff(x * 0.707106781186547524f)); }
FB_DEVICE double fb_gelu(double x) { return 0.5 * x * erfc(x * -0.70710678118654752440); }

FB_DEVICE float fb_log1pf(float x) { return log1pf(x); }
FB_DEVICE double fb_log1p(double x) { return log1p(x); }

FB_DEVICE float fb_softplusf(float x, float beta, float threshold)
{
    float z = x * beta; // never overflows
    return z > threshold ? x : ((z > 0 ? z : 0.0f) + log1pf(expf(-fabsf(z)))) / beta;
}

FB_DEVICE double fb_softplus(double x, double beta, double threshold)
{
    double z = x * beta;
    return z > threshold ? x : ((z > 0 ? z : 0) + log1p(exp(-fabs(z)))) / beta;
}

FB_DEVICE float fb_eluf(float x, float alpha) { return x > 0 ? x : alpha * expm1f(x); }
FB_DEVICE double fb_elu(double x, double alpha) { return x > 0 ? x : alpha * expm1(x); }

// As in prelude.h.
FB_DEVICE float fb_mishf(float x)
{
    float h = expf(0.5f * (x < 20.0f ? x : 20.0f)), e = h * h;
    float y = x * h * h * ((e + 2.0f) / (e * (e + 2.0f) + 2.0f));
    return x > 20.0f ? x : y;
}

FB_DEVICE double fb_mish(double x) { return x * tanh(log1p(exp(x))); }

// The sign of a NaN hangs on how it was made.
FB_DEVICE float fb_copysignf(float a, float b) { return copysignf(a, b != b ? 1.0f : b); }
FB_DEVICE double fb_copysign(double a, double b) { return copysign(a, b != b ? 1.0 : b); }

// As in prelude.h.
FB_DEVICE float fb_digammaf(float x)
{
    bool left = x < 0;
    float part = x - rintf(x), y = left ? -3.14159265f / tanf(3.14159265f * part) : 0.0f, z = left ? 1.0f - x : x;
    for (int k = 0; k < 6; k++) {
        bool small = z < 6.0f;
        y -= small ? 1.0f / z : 0.0f;
        z += small ? 1.0f : 0.0f;
    }
    float r = 1.0f / (z * z), tail = r * (0.0833333333f - r * (0.00833333333f - r * 0.00396825397f));
    y += logf(z) - 0.5f / z - tail;
    y = x < 0 && (part == 0 || x == -INFINITY) ? NAN : y;
    return x == 0 ? copysignf(INFINITY, -x) : y;
}

FB_DEVICE double fb_digamma(double x)
{
    if (x == 0) return copysign((double)INFINITY, -x);
    if (x < 0 && (x == floor(x) || x == -INFINITY)) return NAN;
    double y = 0;
    if (x < 0) {
        y = -3.14159265358979323846 / tan(3.14159265358979323846 * (x - rint(x)));
        x = 1 - x;
    }
    for (; x < 10; x++) y -= 1 / x;
    double r = 1 / (x * x);
    double tail = r * (1.0 / 12 - r * (1.0 / 120 - r * (1.0 / 252 - r * (1.0 / 240 - r * (1.0 / 132 - r * 691.0 / 32760)))));
    return y + log(x) - 0.5 / x - tail;
}

// Remainders take the divisor's sign.
FB_DEVICE float fb_fmod_floorf(float a, float b)
{
    float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

FB_DEVICE double fb_fmod_floor(double a, double b)
{
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// A product that is rounded before it is added to anything.
FB_DEVICE float fb_productf(float a, float b) { return __fmul_rn(a, b); }
FB_DEVICE double fb_product(double a, double b) { return __dmul_rn(a, b); }

// ---- integers: everything wraps, division and remainder floor, what has no value is 0 ------------------------------

FB_DEVICE int64_t fb_wrap_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
FB_DEVICE int64_t fb_wrap_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
FB_DEVICE int64_t fb_wrap_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

FB_DEVICE int64_t fb_floor_div(int64_t a, int64_t b)
{
    if (b == 0) return 0;
    if (b == -1) return fb_wrap_sub(0, a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

FB_DEVICE int64_t fb_mod_floor(int64_t a, int64_t b)
{
    if (b == 0 || b == -1) return 0;
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

FB_DEVICE int64_t fb_shl(int64_t a, int64_t b) { return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b); }
FB_DEVICE int64_t fb_shr(int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }

// The whole part of a float, clipped; NaN is 0.
FB_DEVICE int64_t fb_int_of(double x)
{
    return x != x ? 0 : x >= 9223372036854775808.0 ? INT64_MAX : x < -9223372036854775808.0 ? INT64_MIN : (int64_t)x;
}

// ---- random sources: the counter-based generator that fills inputs, element by element -----------------------------

FB_DEVICE uint64_t fb_splitmix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// Products and sums apart, as on every other machine: a fused multiply-add would round differently.
FB_DEVICE double fb_random_uniform(uint64_t key, int64_t i, double low, double high)
{
    uint64_t bits = fb_splitmix64(key + (uint64_t)i * 0x9e3779b97f4a7c15u);
    return __dadd_rn(low, __dmul_rn(high - low, (double)(bits >> 40) * 5.9604644775390625e-8));
}

// A number that is rounded to 16 bits next: cut off, and odd where something was.
FB_DEVICE float fb_odd_float(double x)
{
    const float cut = __double2float_rz(x);
    return (double)cut == x ? cut : __int_as_float(__float_as_int(cut) | 1);
}

FB_DEVICE double fb_random_normal(uint64_t key, int64_t i, double mean, double deviation)
{
    uint64_t bits = fb_splitmix64(key + (uint64_t)i * 0x9e3779b97f4a7c15u);
    int64_t sum = (int64_t)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48)) - 131070;
    return __dadd_rn(mean, __dmul_rn(deviation, (double)sum * (1.7320508075688772 / 65536.0)));
}

FB_DEVICE int64_t fb_random_integer(uint64_t key, int64_t i, int64_t low, int64_t high)
{
    uint64_t bits = fb_splitmix64(key + (uint64_t)i * 0x9e3779b97f4a7c15u);
    return high > low ? low + (int64_t)((bits >> 11) % (uint64_t)(high - low)) : low;
}

// ---- reductions across threads -------------------------------------------------------------------------------------
//
// A team is the threads that work on one row: G neighbouring lanes of a warp, a whole block, or (columns) the threads of a
// block that are 32 apart, so that neighbours in a warp stand on neighbouring rows. Each returns the result to
// every thread of the team. All threads of the block call them.

struct fb_plus {
    template <class T> static __device__ T of(T a, T b) { return a + b; }
    static __device__ int64_t of(int64_t a, int64_t b) { return fb_wrap_add(a, b); }
};
struct fb_times {
    template <class T> static __device__ T of(T a, T b) { return a * b; }
    static __device__ int64_t of(int64_t a, int64_t b) { return fb_wrap_mul(a, b); }
    static __device__ int32_t of(int32_t a, int32_t b) { return (int32_t)fb_wrap_mul(a, b); }
};
struct fb_larger {
    template <class T> static __device__ T of(T a, T b) { return b > a || b != b ? b : a; }
};
struct fb_smaller {
    template <class T> static __device__ T of(T a, T b) { return b < a || b != b ? b : a; }
};

#ifndef FB_MEET_SOME
#define FB_MEET_SOME(barrier, threads) asm volatile("bar.sync %0, %1;" ::"n"(barrier), "n"(threads) : "memory")
#endif

// The first THREADS threads of the block meet: all of them, but where a kernel has several stages (kernels/grid.cuh).
template <int THREADS> FB_DEVICE void fb_meet()
{
#ifdef FB_STAGES
    FB_MEET_SOME(1, THREADS);
#else
    __syncthreads();
#endif
}

template <class T> FB_DEVICE T fb_shuffle(T x, int mask)
{
    return __shfl_xor_sync(0xffffffffu, x, mask);
}

template <class OP, int G, class T> FB_DEVICE T fb_team(T x)
{
#pragma unroll
    for (int mask = G / 2; mask > 0; mask /= 2) x = OP::of(x, fb_shuffle(x, mask));
    return x;
}

// Which of the block's threads say yes to each of EACH questions: bits of a word a warp, warps of a question side by side.
template <int EACH, int THREADS> FB_DEVICE void fb_vote(unsigned *words, const bool *yes)
{
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const unsigned word = __ballot_sync(0xffffffffu, yes[i]);
        if (threadIdx.x % 32 == 0) words[(i * THREADS + threadIdx.x) / 32] = word;
    }
}

template <class OP, int THREADS, class T> FB_DEVICE T fb_block(T x)
{
    __shared__ T fb_parts[32];
    x = fb_team<OP, 32>(x);
    fb_meet<THREADS>(); // the parts of an earlier call have been read
    if (threadIdx.x % 32 == 0) fb_parts[threadIdx.x / 32] = x;
    fb_meet<THREADS>();
    x = fb_parts[0];
#pragma unroll
    for (int i = 1; i < THREADS / 32; i++) x = OP::of(x, fb_parts[i]);
    return x;
}

template <class OP, int ROWS, class T> FB_DEVICE T fb_columns(T x)
{
    __shared__ T fb_parts[ROWS][32];
    fb_meet<32 * ROWS>();
    fb_parts[threadIdx.x / 32][threadIdx.x % 32] = x;
    fb_meet<32 * ROWS>();
    x = fb_parts[0][threadIdx.x % 32];
#pragma unroll
    for (int i = 1; i < ROWS; i++) x = OP::of(x, fb_parts[i][threadIdx.x % 32]);
    return x;
}

// Where a thread has EACH neighbouring rows, 32 / EACH threads side by side have the 32 rows: rows of a thread each afterwards.
template <class OP, int ROWS, int EACH, class T> FB_DEVICE T fb_columns_each(const T (&x)[EACH])
{
    __shared__ T fb_parts[ROWS][32];
    T sums[EACH];
#pragma unroll
    for (int v = 0; v < EACH; v++) {
        sums[v] = x[v];
#pragma unroll
        for (int mask = 16; mask >= 32 / EACH; mask /= 2) sums[v] = OP::of(sums[v], fb_shuffle(sums[v], mask));
    }
    fb_meet<32 * ROWS>();
    if (threadIdx.x % 32 < 32 / EACH)
#pragma unroll
        for (int v = 0; v < EACH; v++) fb_parts[threadIdx.x / 32][threadIdx.x % 32 * EACH + v] = sums[v];
    fb_meet<32 * ROWS>();
    T all = fb_parts[0][threadIdx.x % 32];
#pragma unroll
    for (int i = 1; i < ROWS; i++) all = OP::of(all, fb_parts[i][threadIdx.x % 32]);
    return all;
}

template <class T> struct fb_same {
    using type = T;
};

// The better of two (value, index) pairs: NaN first, then the larger (smaller) value, then the lower index.
template <bool MAX, class T> FB_DEVICE void fb_better(T &best, int64_t &at, typename fb_same<T>::type other, int64_t other_at)
{
    bool nan = best != best, other_nan = other != other;
    bool wins = MAX ? other > best : other < best;
    bool equal = nan == other_nan && (nan || other == best);
    if ((other_nan && !nan) || (!nan && !other_nan && wins) || (equal && other_at < at)) {
        best = other;
        at = other_at;
    }
}

/* The same of elements that come in order: one that is equal comes too late. A third of the instructions, which decide
 * where a row is read at the memory's speed. */
template <bool MAX, class T>
FB_DEVICE void fb_better_next(T &best, int64_t &at, typename fb_same<T>::type other, int64_t other_at)
{
    bool stays = MAX ? best >= other : best <= other;
    if (!stays && best == best) {
        best = other;
        at = other_at;
    }
}

template <bool MAX, int G, class T> FB_DEVICE void fb_team_arg(T &best, int64_t &at)
{
#pragma unroll
    for (int mask = G / 2; mask > 0; mask /= 2) {
        T other = fb_shuffle(best, mask);
        int64_t other_at = fb_shuffle(at, mask);
        fb_better<MAX>(best, at, other, other_at);
    }
}

template <bool MAX, int THREADS, class T> FB_DEVICE void fb_block_arg(T &best, int64_t &at)
{
    __shared__ T fb_bests[32];
    __shared__ int64_t fb_ats[32];
    fb_team_arg<MAX, 32>(best, at);
    fb_meet<THREADS>();
    if (threadIdx.x % 32 == 0) fb_bests[threadIdx.x / 32] = best, fb_ats[threadIdx.x / 32] = at;
    fb_meet<THREADS>();
    best = fb_bests[0], at = fb_ats[0];
    for (int i = 1; i < THREADS / 32; i++) fb_better<MAX>(best, at, fb_bests[i], fb_ats[i]);
}

template <bool MAX, int ROWS, class T> FB_DEVICE void fb_columns_arg(T &best, int64_t &at)
{
    __shared__ T fb_bests[ROWS][32];
    __shared__ int64_t fb_ats[ROWS][32];
    fb_meet<32 * ROWS>();
    fb_bests[threadIdx.x / 32][threadIdx.x % 32] = best, fb_ats[threadIdx.x / 32][threadIdx.x % 32] = at;
    fb_meet<32 * ROWS>();
    best = fb_bests[0][threadIdx.x % 32], at = fb_ats[0][threadIdx.x % 32];
    for (int i = 1; i < ROWS; i++) fb_better<MAX>(best, at, fb_bests[i][threadIdx.x % 32], fb_ats[i][threadIdx.x % 32]);
}
