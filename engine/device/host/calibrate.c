/* What the cost model wants to know of this processor, measured: a few seconds, kept in the cache by processor and core
 * count.
 *
 * Everything is timed in several passes, some tenths of a second apart, and each time is the shortest of all passes:
 * what disturbs (another process, a neighbour on the same chip, a clock that is down) goes on for a while, makes times
 * longer and never shorter, and twelve stretches right after another were all within it. Rates are made of these times
 * once all are there, so that what is the difference of two times, or the choice between two libraries, compares
 * undisturbed ones. Passes end when one of them made no time clearly shorter. */
#include "base/checked.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "device/host/parts.h"
#include "schedule/host_cost.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    COPY_FIRST = 15, /* 2^15 … 2^28 bytes read and written */
    COPY_LAST = 28,
    L1_BYTES = 8 << 10, /* what arithmetic works on, a thread */
    TILE_STRIDE = 64 << 10,
    GEMM_SIZES = 10, /* cubes, and two thin ones */
    GEMM_FEW_ROWS = GEMM_SIZES - 2,
    GEMM_FEW_STEPS = GEMM_SIZES - 1,
};

/* ---- where it is kept ---- */

static bool calibration_path(const fb_machine *m, char *to, size_t room)
{
    char dir[2048], hex[33];
    if (!fb_cache_dir("machines", dir, sizeof dir, NULL)) return false;
    fb_hash_hex(fb_hash_text(m->name), hex);
    return snprintf(to, room, "%s/host-%s.json", dir, hex) < (int)room;
}

static json_t *read_calibration(const fb_machine *m)
{
    char path[2200];
    size_t n;
    bool named = calibration_path(m, path, sizeof path);
    char *text = named ? fb_checked_read(path, fb_file_name(path), 1 << 20, &n) : NULL;
    json_t *value = text ? fb_json_parse(text, n, NULL) : NULL;
    fb_free(text);
    return value;
}

/* What oneDNN there is: a calibration holds for that. */
static const char *dnnl_here(void)
{
    const fb_dnnl *dnnl = fb_dnnl_get(NULL);
    return dnnl ? dnnl->description : "";
}

static void read_sgemm(const json_t *kept, fb_host_sgemm *s)
{
    json_t *o = json_object_get(kept, "sgemm"), *point;
    const char *library = json_string_value(json_object_get(o, "library"));
    size_t i;
    *s = (fb_host_sgemm){.few_rows = json_is_true(json_object_get(o, "few_rows")),
                         .few_steps = json_is_true(json_object_get(o, "few_steps"))};
    snprintf(s->library, sizeof s->library, "%s", library ? library : "");
    json_array_foreach(json_object_get(o, "cubes"), i, point)
    {
        if (s->n == FB_RATE_POINTS) break;
        s->flops[s->n] = json_number_value(json_array_get(point, 0));
        s->dnnl[s->n++] = json_is_true(json_array_get(point, 1));
    }
}

static json_t *write_sgemm(const fb_host_sgemm *s)
{
    json_t *cubes = json_array();
    for (int i = 0; i < s->n; i++) json_array_append_new(cubes, json_pack("[f,b]", s->flops[i], s->dnnl[i]));
    return json_pack("{s:s, s:b, s:b, s:o}", "library", s->library, "few_rows", s->few_rows, "few_steps", s->few_steps,
                     "cubes", cubes);
}

/* Until it is measured: oneDNN, where the BLAS is too old for this CPU, but for the smallest. */
static fb_host_sgemm guessed_sgemm(void)
{
    const fb_blas *blas = fb_blas_get(NULL);
    fb_host_sgemm s = {0};
    if (!blas || !blas->narrow) return s;
    s = (fb_host_sgemm){.n = 2, .flops = {8e3, 64e3}, .dnnl = {false, true}, .few_rows = true, .few_steps = true};
    snprintf(s.library, sizeof s.library, "%s", dnnl_here());
    return s;
}

void fb_host_machine(fb_machine *m, fb_host_sgemm *sgemm)
{
    fb_host_system(m);
    json_t *kept = read_calibration(m);
    fb_machine known;
    fb_host_sgemm chosen;
    read_sgemm(kept, &chosen);
    if (sgemm) *sgemm = guessed_sgemm();
    if (kept && fb_machine_from_json(&known, json_object_get(kept, "machine"), NULL) &&
        strcmp(known.name, m->name) == 0 && known.glane_steps > 0 &&
        (known.convolution.n > 0) == fb_dnnl_convolves() && /* else from before these were measured */
        strcmp(chosen.library, dnnl_here()) == 0) {
        *m = known;
        if (sgemm) *sgemm = chosen;
    }
    json_decref(kept);
}

void fb_host_one_core(fb_rate_curve *c)
{
    fb_machine m;
    fb_host_system(&m);
    json_t *kept = read_calibration(&m), *pair;
    size_t i;
    *c = (fb_rate_curve){0};
    json_array_foreach(json_object_get(kept, "copy_one_core"), i, pair)
    {
        if (c->n == FB_RATE_POINTS) break;
        c->size[c->n] = json_number_value(json_array_get(pair, 0));
        c->rate[c->n++] = json_number_value(json_array_get(pair, 1));
    }
    json_decref(kept);
}

static void keep_calibration(const fb_machine *m, const fb_host_sgemm *sgemm, const fb_rate_curve *one_core)
{
    char path[2200];
    if (!calibration_path(m, path, sizeof path)) return;
    json_t *o = json_object(), *curve = json_array();
    json_object_set_new(o, "machine", fb_machine_to_json(m));
    for (int i = 0; i < one_core->n; i++)
        json_array_append_new(curve, json_pack("[f,f]", one_core->size[i], one_core->rate[i]));
    json_object_set_new(o, "copy_one_core", curve);
    if (sgemm->library[0]) json_object_set_new(o, "sgemm", write_sgemm(sgemm));
    char *line = fb_json_line(o);
    /* a cache that cannot be written to means calibrating again */
    fb_checked_write(path, fb_file_name(path), line, strlen(line), NULL);
    fb_free(line);
    json_decref(o);
}

/* ---- timing ---- */

enum { CONVOLUTIONS = 3 };

/* What is timed, as a place in a table; sizes, dtypes and libraries follow. */
enum {
    TIME_LAUNCH,
    TIME_BARRIERS,                 /* few, many */
    TIME_SUMS = TIME_BARRIERS + 2, /* of long rows less and more, of short rows less and more */
    TIME_APART = TIME_SUMS + 4,    /* less, more */
    TIME_FAR = TIME_APART + 2,
    TIME_TURN,
    TIME_SPECIALS,
    TIME_FEW_LANES,
    TIME_LANES,
    TIME_ARITHMETIC = TIME_LANES + FB_DTYPES,
    TIME_COPY_HOT = TIME_ARITHMETIC + FB_DTYPES,
    TIME_COPY_COLD = TIME_COPY_HOT + COPY_LAST + 1,
    TIME_COPY_ONE = TIME_COPY_COLD + COPY_LAST + 1,
    TIME_GEMM = TIME_COPY_ONE + COPY_LAST + 1, /* of each dtype so many sizes, with either library */
    TIME_CONVOLUTION = TIME_GEMM + FB_DTYPES * 2 * GEMM_SIZES,
    TIMES = TIME_CONVOLUTION + CONVOLUTIONS,
};

typedef struct {
    fb_host *h;
    const fb_progress *progress;
    char *memory; /* two halves to copy between; also the matrices */
    int64_t bytes;
    double us[TIMES]; /* the shortest of all passes; 0: not timed */
    bool shorter;     /* this pass made one clearly shorter */
} bench;

typedef void (*action)(bench *b, void *ctx);

static double keep_shortest(bench *b, int which, double now_us)
{
    const double clearly = 0.95;
    double was = b->us[which];
    if (!(was > 0) || now_us < clearly * was) b->shorter = true;
    if (!(was > 0) || now_us < was) b->us[which] = now_us;
    return b->us[which];
}

/* µs of one call: the shortest of many short stretches of calls, so that interruptions do not count; of some even
 * where the first was interrupted for longer than all of them may take: a thread that another process keeps waiting
 * gets its turn after a few. */
static double time_hot(bench *b, int which, action act, void *ctx, double budget_us)
{
    enum { ROUNDS = 12, LEAST = 2, MORE = 2 };
    act(b, ctx);
    double begin = fb_now_us(), start = begin;
    act(b, ctx);
    double best = fb_now_us() - start;
    for (int round = 0; round < ROUNDS; round++) {
        double spent = fb_now_us() - begin, most = best > budget_us / ROUNDS ? MORE * budget_us : budget_us;
        if (round >= LEAST && spent >= most) break;
        int64_t calls = (int64_t)(budget_us / ROUNDS / (best + 0.05)) + 1;
        start = fb_now_us();
        for (int64_t i = 0; i < calls; i++) act(b, ctx);
        double each = (fb_now_us() - start) / (double)calls;
        if (each < best) best = each;
    }
    return keep_shortest(b, which, best);
}

typedef struct {
    action act;
    void *ctx;
} timed;

/* The same of several calls that are compared: what is the difference of two times is nothing where a clock went up
 * between them. They take turns, and those of the turn that was the shortest in all are kept together. */
static void time_set(bench *b, int which, int n, const timed *t, double budget_us)
{
    enum { MOST = 8, ROUNDS = 24, LEAST = 2, STRETCH_US = 30 };
    int64_t calls[MOST];
    for (int i = 0; i < n; i++) {
        t[i].act(b, t[i].ctx);
        double start = fb_now_us();
        t[i].act(b, t[i].ctx);
        calls[i] = (int64_t)(STRETCH_US / (fb_now_us() - start + 0.05)) + 1;
    }
    double begin = fb_now_us(), kept = 0;
    for (int i = 0; i < n; i++) kept += b->us[which + i] > 0 ? b->us[which + i] : INFINITY;
    for (int round = 0; round < ROUNDS && (round < LEAST || fb_now_us() - begin < budget_us); round++) {
        double us[MOST], sum = 0;
        for (int i = 0; i < n; i++) {
            double start = fb_now_us();
            for (int64_t k = 0; k < calls[i]; k++) t[i].act(b, t[i].ctx);
            us[i] = (fb_now_us() - start) / (double)calls[i];
            sum += us[i];
        }
        if (!(sum < kept)) continue;
        b->shorter |= sum < 0.95 * kept;
        kept = sum;
        for (int i = 0; i < n; i++) b->us[which + i] = us[i];
    }
}

static double time_cold(bench *b, int which, action act, void *ctx)
{
    double best = INFINITY;
    for (int round = 0; round < 2; round++) {
        fb_host_flush(b->h);
        double start = fb_now_us();
        act(b, ctx);
        best = fmin(best, fb_now_us() - start);
    }
    return keep_shortest(b, which, best);
}

static void add_point(fb_rate_curve *c, double size, double rate)
{
    c->size[c->n] = size;
    c->rate[c->n++] = rate;
}

/* ---- what is timed ---- */

typedef struct {
    int64_t elements;
    int all_cores;
} copy;

static void do_copy(bench *b, void *ctx)
{
    const copy *c = ctx;
    b->h->rt.copy((float *)(void *)b->memory, (const float *)(const void *)(b->memory + b->bytes / 2), c->elements,
                  c->all_cores);
}

/* GB/s are bytes read plus written a µs, divided by 1000. */
static void measure_copies(bench *b, fb_machine *m, fb_rate_curve *one_core)
{
    m->copy_hot = m->copy_cold = m->copy_in = *one_core = (fb_rate_curve){0};
    for (int e = COPY_FIRST; e <= COPY_LAST; e++) {
        double bytes = ldexp(1, e);
        copy all = {.elements = (int64_t)1 << (e - 3), .all_cores = 1},
             one = {.elements = all.elements, .all_cores = 0};
        double hot = time_hot(b, TIME_COPY_HOT + e, do_copy, &all, 5000);
        double cold = bytes > 4 * (double)m->cache_bytes ? hot : time_cold(b, TIME_COPY_COLD + e, do_copy, &all);
        add_point(&m->copy_hot, bytes, bytes / hot * 1e-3);
        add_point(&m->copy_cold, bytes, bytes / cold * 1e-3);
        add_point(one_core, bytes, bytes / time_hot(b, TIME_COPY_ONE + e, do_copy, &one, 2500) * 1e-3);
        /* a feed is one core's copy: half of the bytes arrive */
        add_point(&m->copy_in, bytes / 2, one_core->rate[one_core->n - 1] / 2);
    }
    m->copy_out = m->copy_in;
}

static void do_nothing(bench *b, void *ctx)
{
    b->h->rt.nothing((void *[]){b->memory}, *(int64_t *)ctx);
}

static void do_barriers(bench *b, void *ctx)
{
    b->h->rt.barriers(*(int64_t *)ctx);
}

static void measure_launches(bench *b, fb_machine *m)
{
    int64_t rows = b->h->rt.threads, few = 10, many = 110;
    m->launch_us = time_hot(b, TIME_LAUNCH, do_nothing, &rows, 5000);
    m->sync_us = 0; /* a call has ended when it returns */
    time_set(b, TIME_BARRIERS, 2, (timed[]){{do_barriers, &few}, {do_barriers, &many}}, 5000);
    m->barrier_us = (b->us[TIME_BARRIERS + 1] - b->us[TIME_BARRIERS]) / 100;
    if (m->barrier_us < 0) m->barrier_us = 0;
}

typedef struct {
    void (*run)(void *data, int64_t n, int64_t rounds, int64_t stride);
    int64_t n, rounds;
} arithmetic;

static void do_arithmetic(bench *b, void *ctx)
{
    const arithmetic *a = ctx;
    a->run(b->memory, a->n, a->rounds, TILE_STRIDE);
}

static void do_specials(bench *b, void *ctx)
{
    const arithmetic *a = ctx;
    b->h->rt.specials((float *)(void *)b->memory, a->n, a->rounds, TILE_STRIDE);
}

typedef struct {
    int64_t rows, n;
} rows_of;

static void do_sums(bench *b, void *ctx)
{
    const rows_of *r = ctx;
    b->h->rt.sums((float *)(void *)b->memory, r->rows, r->n, TILE_STRIDE);
}

typedef struct {
    void (*run)(void *data, int64_t rows, int64_t stride);
    int64_t rows;
} lanes;

static void do_lanes(bench *b, void *ctx)
{
    const lanes *s = ctx;
    s->run(b->memory, s->rows, TILE_STRIDE);
}

static void do_gather(bench *b, void *ctx)
{
    b->h->rt.gather((float *)(void *)b->memory, *(int64_t *)ctx, 7, TILE_STRIDE);
}

static void do_transpose(bench *b, void *ctx)
{
    b->h->rt.transpose((float *)(void *)b->memory, (const float *)(const void *)(b->memory + b->bytes / 2),
                       *(int64_t *)ctx);
}

static void do_turn(bench *b, void *ctx)
{
    b->h->rt.turn((float *)(void *)b->memory, (const float *)(const void *)(b->memory + b->bytes / 2), *(int64_t *)ctx);
}

static const double least_us = 0.02; /* of a clock whose steps are that */

void fb_host_sums(fb_machine *m, double threads, const fb_host_rows *few, const fb_host_rows *many)
{
    double few_us = few->more_us - few->less_us, many_us = many->more_us - many->less_us;
    double few_rows = (double)(few->more_rows - few->less_rows),
           many_rows = (double)(many->more_rows - many->less_rows);
    double row_us = fmax(many_us - few_us, 0.001) / (many_rows - few_rows);
    m->gsum_rows = threads / row_us * 1e-3;
    m->gsum = threads * few_rows * (double)few->length / fmax(few_us - row_us * few_rows, least_us) * 1e-3;
}

/* What loops do that is not arithmetic side by side: elements and rows of sums, from rows of two lengths with as many
 * elements in all; elements apart. The call, which is most of a short one, is in both of two sizes. */
static void measure_rows(bench *b, fb_machine *m)
{
    enum { LESS = 2048, MORE = 16384, LONG = 512, SHORT = 32 }; /* elements, of a row */
    double threads = b->h->rt.threads;
    int64_t less = 128, more = 1024, side = 1024;
    rows_of sums[] = {{LESS / LONG, LONG}, {MORE / LONG, LONG}, {LESS / SHORT, SHORT}, {MORE / SHORT, SHORT}};
    timed t[4];
    for (int i = 0; i < 4; i++) t[i] = (timed){do_sums, &sums[i]};
    time_set(b, TIME_SUMS, 4, t, 10000);
    const double *us = &b->us[TIME_SUMS];
    fb_host_sums(m, threads, &(fb_host_rows){LONG, sums[0].rows, sums[1].rows, us[0], us[1]},
                 &(fb_host_rows){SHORT, sums[2].rows, sums[3].rows, us[2], us[3]});
    time_set(b, TIME_APART, 2, (timed[]){{do_gather, &less}, {do_gather, &more}}, 5000);
    us = &b->us[TIME_APART];
    m->ggather = threads * (double)(more - less) / fmax(us[1] - us[0], least_us) * 1e-3;
    m->gfar = (double)(side * side) / time_hot(b, TIME_FAR, do_transpose, &side, 5000) * 1e-3;
    m->gturn = (double)(side * side) / time_hot(b, TIME_TURN, do_turn, &side, 5000) * 1e-3;
}

/* Sums side by side: many at once show what an element takes, few what a step does. */
static void measure_lanes(bench *b, fb_machine *m)
{
    enum { WIDE = 64, STEPS = 32, ROWS = 1024 }; /* as in kernels/host_runtime.c */
    const fb_host_runtime *rt = &b->h->rt;
    void (*const run[FB_DTYPES])(void *, int64_t, int64_t) = {
        [FB_F32] = rt->lanes_f32, [FB_F64] = rt->lanes_f64, [FB_F16] = rt->lanes_f16, [FB_BF16] = rt->lanes_bf16};
    double steps = (double)STEPS * ROWS * rt->threads;
    memset(b->memory, 0, (size_t)rt->threads * TILE_STRIDE);
    for (int d = 0; d < FB_DTYPES; d++) {
        lanes all = {run[d], ROWS};
        m->glanes[d] = run[d] ? WIDE * steps / time_hot(b, TIME_LANES + d, do_lanes, &all, 2500) * 1e-3 : NAN;
    }
    lanes few = {rt->lanes_few, ROWS};
    m->glane_steps = steps / time_hot(b, TIME_FEW_LANES, do_lanes, &few, 2500) * 1e-3;
}

static void measure_arithmetic(bench *b, fb_machine *m)
{
    const fb_host_runtime *rt = &b->h->rt;
    void (*const run[FB_DTYPES])(void *, int64_t, int64_t, int64_t) = {
        [FB_F32] = rt->arithmetic_f32,  [FB_F16] = rt->arithmetic_f16, [FB_BF16] = rt->arithmetic_bf16,
        [FB_F64] = rt->arithmetic_f64,  [FB_I32] = rt->arithmetic_i32, [FB_I64] = rt->arithmetic_i64,
        [FB_BOOL] = rt->arithmetic_bool};
    enum { FLOPS = 8 }; /* an element and round, see kernels/host_runtime.c */
    memset(b->memory, 0, (size_t)rt->threads * TILE_STRIDE);
    for (int d = 0; d < FB_DTYPES; d++) {
        arithmetic a = {.run = run[d], .n = L1_BYTES / fb_dtype_size((fb_dtype)d), .rounds = 200};
        double us = time_hot(b, TIME_ARITHMETIC + d, do_arithmetic, &a, 4000);
        m->gflops[d] = (double)(FLOPS * a.n * a.rounds * rt->threads) / us * 1e-3;
        memset(b->memory, 0, (size_t)rt->threads * TILE_STRIDE);
    }
    arithmetic a = {.n = L1_BYTES / 4, .rounds = 50};
    m->gspecial = (double)(a.n * a.rounds * rt->threads) / time_hot(b, TIME_SPECIALS, do_specials, &a, 4000) * 1e-3;
}

static void do_gemm(bench *b, void *ctx)
{
    int64_t third = b->bytes / 3 / 64 * 64;
    fb_host_gemm_run(ctx, b->memory, b->memory + third, b->memory + 2 * third, NULL);
}

static double product_us(bench *b, int which, int64_t rows, int64_t columns, int64_t k, fb_dtype dtype, fb_error *err)
{
    fb_gemm_call call = fb_program_plain_gemm(dtype, rows, columns, k);
    fb_host_gemm *g = fb_host_gemm_new(b->h, &call, NULL, err);
    if (!g) return NAN;
    double us = time_hot(b, which, do_gemm, g, 4000);
    fb_host_gemm_free(g);
    return us;
}

static int gemm_time(fb_dtype dtype, int size, bool dnnl)
{
    return TIME_GEMM + ((int)dtype * GEMM_SIZES + size) * 2 + dnnl;
}

/* Of floats: with either library, and with which it was clearly less. From here on this device has it done so. */
static double sgemm_us(bench *b, int size, int64_t rows, int64_t columns, int64_t k, bool *dnnl, fb_error *err)
{
    const double clearly = 0.95;
    fb_host_sgemm *s = &b->h->sgemm, chosen = *s;
    int blas_time = gemm_time(FB_F32, size, false), dnnl_time = gemm_time(FB_F32, size, true);
    *dnnl = false;
    if (!chosen.library[0]) return product_us(b, blas_time, rows, columns, k, FB_F32, err);
    *s = (fb_host_sgemm){0};
    double blas_us = product_us(b, blas_time, rows, columns, k, FB_F32, err);
    *s = (fb_host_sgemm){.n = 1, .flops = {1}, .dnnl = {true}, .few_rows = true, .few_steps = true};
    memcpy(s->library, chosen.library, sizeof s->library);
    double dnnl_us = product_us(b, dnnl_time, rows, columns, k, FB_F32, err);
    *s = chosen;
    *dnnl = dnnl_us < clearly * blas_us;
    return *dnnl ? dnnl_us : blas_us;
}

/* Products of few rows, and of few steps, against cubes of as much work: what they move beyond these is what they take
 * longer. */
static bool measure_thin(bench *b, fb_machine *m, fb_error *err)
{
    enum { WIDE = 512, THIN = 4 };
    double flops = 2.0 * WIDE * WIDE * THIN, side = cbrt(flops / 2),
           cube_us = flops / fb_rate_at(&m->gemm[FB_F32], flops) * 1e-3;
    fb_host_sgemm *s = &b->h->sgemm;
    double in_us = sgemm_us(b, GEMM_FEW_ROWS, THIN, WIDE, WIDE, &s->few_rows, err),
           out_us = sgemm_us(b, GEMM_FEW_STEPS, WIDE, WIDE, THIN, &s->few_steps, err);
    if (isnan(in_us) || isnan(out_us)) return false;
    double in = 4 * (WIDE * (WIDE + THIN) - 2 * side * side), out = 4 * (WIDE * WIDE - side * side);
    m->gemm_in = in / fmax(in_us - cube_us, in_us / 10) * 1e-3;
    m->gemm_out = out / fmax(out_us - cube_us, out_us / 10) * 1e-3;
    return true;
}

/* Of what they take, copies into blocks and out of them are none of the rate: others have more or less of these. */
static bool measure_convolutions(bench *b, fb_machine *m, fb_error *err)
{
    static const struct {
        int64_t channels, side;
    } rows[CONVOLUTIONS] = {{16, 16}, {32, 32}, {64, 56}};
    m->convolution = (fb_rate_curve){0};
    for (int i = 0; i < CONVOLUTIONS && fb_dnnl_convolves(); i++) {
        fb_gemm_call call = fb_program_plain_convolution(FB_F32, 1, rows[i].channels, rows[i].side);
        fb_host_gemm *g = fb_host_gemm_new(b->h, &call, NULL, err);
        if (!g) return false;
        double us = time_hot(b, TIME_CONVOLUTION + i, do_gemm, g, 4000);
        fb_host_gemm_free(g);
        double flops = fb_convolution_flops(&call.convolution),
               copies_us = fb_schedule_host_copies_us(m, &call.convolution, FB_F32);
        add_point(&m->convolution, flops, flops / fmax(us - copies_us, us / 4) * 1e-3);
    }
    return true;
}

static void add_choice(fb_host_sgemm *s, double flops, bool dnnl)
{
    if (s->n == FB_RATE_POINTS) return;
    s->flops[s->n] = flops;
    s->dnnl[s->n++] = dnnl;
}

static bool measure_gemm(bench *b, fb_dtype dtype, double budget_us, fb_rate_curve *curve, fb_error *err)
{
    enum { LEAST = 128, MOST = 2048 }; /* the small ones take microseconds where nothing disturbs them */
    *curve = (fb_rate_curve){0};
    double us = 0;
    int size = 0;
    for (int64_t n = 16; n <= MOST && (n <= LEAST || us * 10 < budget_us); n *= 2, size++) {
        double flops = 2 * (double)n * (double)n * (double)n;
        bool dnnl;
        us = dtype == FB_F32 ? sgemm_us(b, size, n, n, n, &dnnl, err)
                             : product_us(b, gemm_time(dtype, size, false), n, n, n, dtype, err);
        if (isnan(us)) return false;
        if (dtype == FB_F32) add_choice(&b->h->sgemm, flops, dnnl);
        add_point(curve, flops, flops / us * 1e-3);
    }
    return true;
}

static bool step(const bench *b, const char *what, double fraction, fb_error *err)
{
    if (!b->progress || !b->progress->step || b->progress->step(b->progress->ctx, what, fraction)) return true;
    return fb_fail(err, FB_ERR_CANCELLED, "calibration was cancelled");
}

static bool measure_gemms(bench *b, fb_machine *m, fb_error *err)
{
    static const struct {
        fb_dtype dtype;
        double budget_us; /* of the largest product */
    } rows[] = {{FB_F32, 100000}, {FB_F64, 100000}, {FB_F16, 20000}, {FB_BF16, 20000}};
    memset(b->memory, 0, (size_t)b->bytes); /* denormals and NaNs would be timed otherwise */
    b->h->sgemm = (fb_host_sgemm){0};
    snprintf(b->h->sgemm.library, sizeof b->h->sgemm.library, "%s", dnnl_here());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!measure_gemm(b, rows[i].dtype, rows[i].budget_us, &m->gemm[rows[i].dtype], err)) return false;
    }
    m->gemm_tf32 = (fb_rate_curve){0};
    return measure_thin(b, m, err);
}

static void date_now(char to[32])
{
    time_t now = time(NULL);
    struct tm t;
    strftime(to, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &t));
}

static bool measure_all(bench *b, fb_machine *m, fb_rate_curve *one_core, fb_error *err)
{
    if (!step(b, "calibrating: launches", 0, err)) return false;
    measure_launches(b, m);
    if (!step(b, "calibrating: arithmetic", 0.1, err)) return false;
    measure_arithmetic(b, m);
    measure_rows(b, m);
    measure_lanes(b, m);
    if (!step(b, "calibrating: copies", 0.2, err)) return false;
    measure_copies(b, m, one_core);
    return step(b, "calibrating: contractions", 0.6, err) && measure_gemms(b, m, err) &&
           measure_convolutions(b, m, err);
}

/* ---- a busy machine ----
 *
 * What runs on all cores waits for the slowest, so that another process on one of them costs a parallel region whole
 * time slices: everything is too slow then, by a factor of two or of a hundred, and floors are too high. It shows where
 * all cores copy less than one does. What another process takes is never gained, so the best of several passes, and of
 * the calibration before, is the truth, or nearest to it. */

/* A rate that both of its neighbours are several times better than. */
static bool has_dent(const fb_rate_curve *c)
{
    enum { SEVERAL = 4 };
    for (int i = 1; i + 1 < c->n; i++)
        if (SEVERAL * c->rate[i] < c->rate[i - 1] && SEVERAL * c->rate[i] < c->rate[i + 1]) return true;
    return false;
}

/* A row's end is more than two of its elements; two loads of 16 elements each at 6 GHz are what a core can do in a ns.
 */
static bool sums_are_likely(const fb_machine *m)
{
    const double most = 200;
    return m->gsum_rows <= m->gsum / 2 && m->gsum <= most * m->units;
}

static bool seems_busy(const fb_machine *m, const fb_rate_curve *one_core)
{
    enum { LARGE = 8 << 20 }; /* bytes: starting a parallel region is next to nothing beside that */
    enum { FEW = 20 };        /* times that arithmetic of one type may be slower than that of another */
    enum { SLUMP = 4 };       /* times that a larger product may be slower than a smaller one */
    const double slow_launch_us = 200;
    static const fb_dtype plain[] = {FB_F64, FB_I32, FB_I64};
    if (m->launch_us > slow_launch_us || has_dent(&m->copy_hot)) return true;
    for (int i = 1; i < m->gemm[FB_F32].n; i++)
        if (SLUMP * m->gemm[FB_F32].rate[i] < m->gemm[FB_F32].rate[i - 1]) return true;
    if (!sums_are_likely(m)) return true;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (FEW * m->gflops[plain[i]] < m->gflops[FB_F32] || FEW * m->gflops[FB_F32] < m->gflops[plain[i]]) return true;
    for (int i = 0; i < m->copy_hot.n && i < one_core->n; i++)
        if (one_core->size[i] >= LARGE && m->copy_hot.rate[i] < 0.7 * one_core->rate[i]) return true;
    return false;
}

static void keep_faster(fb_rate_curve *to, const fb_rate_curve *from)
{
    for (int i = 0; i < from->n; i++) {
        if (i >= to->n) add_point(to, from->size[i], from->rate[i]);
        to->rate[i] = fmax(to->rate[i], from->rate[i]);
    }
}

static void keep_best(fb_machine *m, const fb_machine *again)
{
    m->launch_us = fmin(m->launch_us, again->launch_us);
    m->barrier_us = fmin(m->barrier_us, again->barrier_us);
    m->gspecial = fmax(m->gspecial, again->gspecial);
    if (!sums_are_likely(m) && sums_are_likely(again)) { /* of differences the most is not the best */
        m->gsum = again->gsum;
        m->gsum_rows = again->gsum_rows;
        m->ggather = again->ggather;
    }
    m->gfar = fmax(m->gfar, again->gfar);
    m->gturn = fmax(m->gturn, again->gturn);
    m->glane_steps = fmax(m->glane_steps, again->glane_steps);
    m->gemm_in = fmax(m->gemm_in, again->gemm_in);
    m->gemm_out = fmax(m->gemm_out, again->gemm_out);
    keep_faster(&m->copy_hot, &again->copy_hot);
    keep_faster(&m->copy_cold, &again->copy_cold);
    keep_faster(&m->copy_in, &again->copy_in);
    m->copy_out = m->copy_in;
    keep_faster(&m->convolution, &again->convolution);
    for (int d = 0; d < FB_DTYPES; d++) {
        m->gflops[d] = fmax(m->gflops[d], again->gflops[d]);
        m->glanes[d] = fmax(m->glanes[d], again->glanes[d]);
        keep_faster(&m->gemm[d], &again->gemm[d]);
    }
}

/* A machine that is busy all the while is calibrated with what there was. */
static bool measure_passes(bench *b, fb_machine *m, fb_rate_curve *one_core, fb_error *err)
{
    enum { LEAST = 3, MOST = 8, ENOUGH_US = 6000000, PAUSE_US = 100000 };
    double begin = fb_now_us();
    for (int pass = 0; pass < MOST; pass++) {
        b->shorter = false;
        if (!measure_all(b, m, one_core, err)) return false;
        bool settled = !b->shorter && !seems_busy(m, one_core);
        if ((settled && pass + 1 >= LEAST) || fb_now_us() - begin > ENOUGH_US) break;
        usleep(PAUSE_US);
    }
    return true;
}

bool fb_host_calibrate(fb_host *h, const fb_progress *progress, fb_error *err)
{
    bench b = {.h = h, .progress = progress, .bytes = (int64_t)1 << COPY_LAST};
    fb_rate_curve one_core;
    fb_machine m;
    if (!fb_host_ready(h, progress, err)) return false;
    b.memory = mmap(NULL, (size_t)b.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b.memory == MAP_FAILED) return fb_fail(err, FB_ERR_LIMIT, "there is no memory to calibrate in");
    madvise(b.memory, (size_t)b.bytes, MADV_HUGEPAGE);
    memset(b.memory, 0, (size_t)b.bytes);
    fb_host_system(&m);
    m.units = h->rt.threads;
    bool ok = measure_passes(&b, &m, &one_core, err);
    munmap(b.memory, (size_t)b.bytes);
    if (!ok) return false;
    if (seems_busy(&m, &one_core) && h->machine.calibrated) keep_best(&m, &h->machine);
    m.calibrated = true;
    m.links_guessed = m.products_guessed = false;
    m.doubted = seems_busy(&m, &one_core);
    date_now(m.date);
    keep_calibration(&m, &h->sgemm, &one_core);
    h->machine = m;
    return true;
}
