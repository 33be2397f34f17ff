/* What the host device itself needs of generated code's world: its team of threads, and the loops that calibration
 * times. Compiled as a kernel is, after the prelude, so that there is one OpenMP runtime in the process and one set of
 * flags. */
#ifdef _OPENMP
#include <omp.h>
#endif

int fb_team_threads(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

/* Calls part(ctx, i, count) once on each thread. */
void fb_team(void (*part)(void *ctx, int index, int count), void *ctx)
{
#ifdef _OPENMP
#pragma omp parallel
    part(ctx, omp_get_thread_num(), omp_get_num_threads());
#else
    part(ctx, 0, 1);
#endif
}

enum { STRIP = 4096 };

static int strip_of(int64_t left)
{
    return left < STRIP ? (int)left : STRIP;
}

/* Contractions of 16-bit operands are computed in float: elements first … last - 1 there and back. */
void fb_widen_f16(float *to, const fb_f16 *from, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i += STRIP) fb_widen(from + i, to + i, strip_of(last - i));
}

void fb_widen_bf16(float *to, const fb_bf16 *from, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) to[i] = fb_from_bf16(from[i]);
}

void fb_narrow_f16(fb_f16 *to, const float *from, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i += STRIP) fb_narrow(from + i, to + i, strip_of(last - i));
}

void fb_narrow_bf16(fb_bf16 *to, const float *from, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) to[i] = fb_to_bf16(from[i]);
}

/* Writes every cache line of a buffer, each thread a share of its own. */
void fb_flush(char *at, int64_t bytes)
{
#pragma omp parallel for
    for (int64_t i = 0; i < bytes; i += 64) at[i]++;
}

void fb_copy(float *restrict to, const float *restrict from, int64_t n, int all_cores)
{
    (void)all_cores;
#pragma omp parallel for simd if (parallel : all_cores)
    for (int64_t i = 0; i < n; i++) to[i] = from[i];
}

void fb_nothing(void *const *buffers, int64_t rows)
{
#pragma omp parallel for
    for (int64_t i = 0; i < rows; i++) ((float *)buffers[0])[i * 16] = 0;
}

void fb_barriers(int64_t count)
{
#pragma omp parallel
    for (int64_t i = 0; i < count; i++) {
#pragma omp barrier
    }
    (void)count;
}

/* `rounds` multiply-adds on each of n elements that stay in the first-level cache; every thread does the same work. */
#define FB_ARITHMETIC(NAME, TYPE, WIDE, LOAD, STORE)                                                                   \
    void fb_arithmetic_##NAME(void *data, int64_t n, int64_t rounds, int64_t stride)                                   \
    {                                                                                                                  \
        _Pragma("omp parallel for") for (int64_t thread = 0; thread < fb_team_threads(); thread++)                     \
        {                                                                                                              \
            TYPE *x = (TYPE *)((char *)data + thread * stride);                                                        \
            for (int64_t r = 0; r < rounds; r++) {                                                                     \
                _Pragma("omp simd") for (int64_t i = 0; i < n; i++)                                                    \
                {                                                                                                      \
                    WIDE v = LOAD(x[i]);                                                                               \
                    v = v * (WIDE)3 + (WIDE)1;                                                                         \
                    v = v * (WIDE)3 + (WIDE)1;                                                                         \
                    v = v * (WIDE)3 + (WIDE)1;                                                                         \
                    v = v * (WIDE)3 + (WIDE)1;                                                                         \
                    x[i] = STORE(v);                                                                                   \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
FB_ARITHMETIC(f32, float, float, , )
FB_ARITHMETIC(f64, double, double, , )
FB_ARITHMETIC(f16, fb_f16, float, fb_from_f16, fb_to_f16)
FB_ARITHMETIC(bf16, fb_bf16, float, fb_from_bf16, fb_to_bf16)
FB_ARITHMETIC(i32, uint32_t, uint32_t, , )
FB_ARITHMETIC(i64, uint64_t, uint64_t, , )
FB_ARITHMETIC(bool, uint8_t, uint8_t, , )

/* Sums of rows that stay in the first-level cache, a thread: each waits for the one before. */
void fb_sums(float *data, int64_t rows, int64_t n, int64_t stride)
{
#pragma omp parallel for
    for (int64_t thread = 0; thread < fb_team_threads(); thread++) {
        float *x = (float *)((char *)data + thread * stride);
        for (int64_t row = 0; row < rows; row++) {
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t i = 0; i < n; i++) sum += x[row * n + i];
            x[row] = sum * 0x1p-20f;
        }
    }
}

/* Sums side by side, as of a product's columns: each of FB_LANE_STEPS steps adds to all `width` of a thread's, which
 * stay in the first-level cache as what is added does. One step's additions wait for those of the step before. */
enum { FB_LANE_STEPS = 32 };
#define FB_LANES(NAME, TYPE, WIDE, LOAD, WIDTH)                                                                        \
    void fb_lanes_##NAME(void *data, int64_t rows, int64_t stride)                                                     \
    {                                                                                                                  \
        _Pragma("omp parallel for") for (int64_t thread = 0; thread < fb_team_threads(); thread++)                     \
        {                                                                                                              \
            const TYPE *restrict x = (const TYPE *)((const char *)data + thread * stride), *restrict y = x + 512;      \
            WIDE *restrict to = (WIDE *)((char *)data + (thread + 1) * stride) - (WIDTH);                              \
            for (int64_t row = 0; row < rows; row++) {                                                                 \
                const int64_t width = (WIDTH), first = row & 7;                                                        \
                _Alignas(64) WIDE sum[WIDTH];                                                                          \
                for (int64_t i = 0; i < width; i++) sum[i] = 0;                                                        \
                for (int64_t k = 0; k < FB_LANE_STEPS; k++) {                                                          \
                    _Pragma("omp simd") for (int64_t i = 0; i < width; i++)                                            \
                    {                                                                                                  \
                        sum[i] += LOAD(x[first + k]) * LOAD(y[k * width + i]);                                         \
                    }                                                                                                  \
                }                                                                                                      \
                _Pragma("omp simd") for (int64_t i = 0; i < width; i++) to[i] = sum[i];                                \
            }                                                                                                          \
        }                                                                                                              \
    }
FB_LANES(f32, float, float, , 64)
FB_LANES(f64, double, double, , 64)
FB_LANES(f16, fb_f16, float, fb_from_f16, 64)
FB_LANES(bf16, fb_bf16, float, fb_from_bf16, 64)
FB_LANES(few, float, float, , 16)

/* Elements that do not lie side by side, into some that do: the two halves of a thread's share. */
void fb_gather(float *data, int64_t n, int64_t step, int64_t stride)
{
#pragma omp parallel for
    for (int64_t thread = 0; thread < fb_team_threads(); thread++) {
        const float *restrict x = (const float *)((const char *)data + thread * stride);
        float *restrict y = (float *)((char *)data + thread * stride + stride / 2);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = x[i * step] + 1.0f;
    }
}

void fb_transpose(float *restrict to, const float *restrict from, int64_t n)
{
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) to[i * n + j] = from[j * n + i];
    }
}

/* The same by tiles, as kernels have them that read so (fb_turn_32). */
void fb_turn(float *restrict to, const float *restrict from, int64_t n)
{
    enum { HIGH = 32, WIDE = 128 };
#pragma omp parallel for collapse(2)
    for (int64_t j0 = 0; j0 < n; j0 += WIDE) {
        for (int64_t i0 = 0; i0 < n; i0 += HIGH) {
            const int64_t wide = n - j0 < WIDE ? n - j0 : WIDE, high = n - i0 < HIGH ? n - i0 : HIGH;
            _Alignas(64) float turned[HIGH][WIDE];
            fb_turn_32(from + j0 * n + i0, n, high, wide, turned, WIDE);
            for (int64_t i = 0; i < high; i++) {
#pragma omp simd
                for (int64_t j = 0; j < wide; j++) to[(i0 + i) * n + j0 + j] = turned[i][j];
            }
        }
    }
}

/* One exponential an element and round; what is read changes from round to round, so that none is left out. */
void fb_specials(float *data, int64_t n, int64_t rounds, int64_t stride)
{
#pragma omp parallel for
    for (int64_t thread = 0; thread < fb_team_threads(); thread++) {
        float *x = (float *)((char *)data + thread * stride);
        for (int64_t r = 0; r < rounds; r++) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) x[i] = fb_expf(-x[i]);
        }
    }
}
