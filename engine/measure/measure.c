/* One prepared case: from a plan to samples. Its report's rows are in measure/rows.c. */
#include "measure/measure.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "codegen/lower.h"
#include "measure/rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    FILL_ELEMENTS = 1 << 18, /* between two looks at whether the user cancelled */
    TRACES = 15,             /* enough for a median of a kernel's time */
    MAX_SPANS = 1 << 20,
    TURN_CALLS = 4, /* hot samples come this many calls at a time from one seed */
};
static const double chunk_us = 250e3; /* of samples between two looks */
static const double metrics_us = 5e3; /* of runs under sampling: 250 samples */

typedef FB_VEC(double) samples;

struct fb_measurement {
    fb_device *device;
    const fb_graph *g;
    fb_measure_options o;
    fb_program *program;
    fb_loaded *loaded;
    fb_kernel_rows *rows; /* the report's kernels, as far as the plan tells */
    fb_recall recall;     /* where the device recalls instead of running */
    fb_arena *arena;
    fb_id *checked; /* nodes whose values are verified */
    int n_checked;
    int seed; /* whose inputs are on the device */
    bool verified[FB_SEEDS];
    void **images[FB_SEEDS]; /* of each seed and buffer: what is written; kept where seeds rotate */
    fb_error_report error;
    samples hot, cold, busy, copied, hidden; /* µs */
    fb_span *spans;
    int calls;
    double compile_ms;
};

/* ---- inputs ---- */

static bool step(const fb_progress *p, const char *what, double fraction, fb_error *err)
{
    if (!p || !p->step || p->step(p->ctx, what, fraction)) return true;
    return fb_fail(err, FB_ERR_CANCELLED, "cancelled while %s", what);
}

static bool is_filled(const fb_buffer *b)
{
    return b->kind == FB_BUFFER_INPUT || b->kind == FB_BUFFER_PARAM;
}

static bool fill_buffer(fb_measurement *m, const fb_buffer *b, uint64_t seed, char *to, const fb_progress *progress,
                        fb_error *err)
{
    int size = fb_dtype_size(b->dtype);
    for (int64_t at = 0; at < b->elements; at += FILL_ELEMENTS) {
        int64_t n = b->elements - at < FILL_ELEMENTS ? b->elements - at : FILL_ELEMENTS;
        if (!fb_source_fill(m->g, b->node, seed, m->o.files, m->o.files_ctx, at, n, to + at * size, err)) return false;
        if (!step(progress, "filling the inputs", (double)(at + n) / (double)b->elements, err)) return false;
    }
    return true;
}

static void drop_images(fb_measurement *m, int seed)
{
    if (!m->images[seed]) return;
    for (int b = 0; b < m->program->n_buffers; b++) fb_free(m->images[seed][b]);
    fb_free(m->images[seed]);
    m->images[seed] = NULL;
}

static bool make_images(fb_measurement *m, int seed, const fb_progress *progress, fb_error *err)
{
    const fb_program *p = m->program;
    if (m->images[seed]) return true;
    m->images[seed] = fb_calloc((size_t)p->n_buffers + 1, sizeof *m->images[seed]);
    for (int b = 0; b < p->n_buffers; b++) {
        if (!is_filled(&p->buffers[b])) continue;
        m->images[seed][b] = fb_alloc((size_t)p->buffers[b].bytes + 1);
        if (fill_buffer(m, &p->buffers[b], m->o.seeds[seed], m->images[seed][b], progress, err)) continue;
        drop_images(m, seed);
        return false;
    }
    return true;
}

static bool write_inputs(fb_measurement *m, int seed, const fb_progress *progress, fb_error *err)
{
    const fb_program *p = m->program;
    bool ok = make_images(m, seed, progress, err);
    for (int b = 0; ok && b < p->n_buffers; b++) {
        if (is_filled(&p->buffers[b])) ok = m->device->ops->write(m->loaded, b, m->images[seed][b], err);
    }
    m->seed = ok ? seed : -1;
    if (m->o.n_seeds < 2) drop_images(m, seed);
    return ok;
}

/* ---- verifying ---- */

/* The buffer that holds a checked value after a run. */
static int buffer_of(const fb_measurement *m, fb_id node)
{
    const fb_program *p = m->program;
    const fb_node *n = &m->g->nodes[node];
    fb_id held = n->op == FB_OP_ASSIGN || n->op == FB_OP_RECEIVE ? n->args[0] : node;
    fb_buffer_kind kind = n->op == FB_OP_ASSIGN ? FB_BUFFER_PARAM : FB_BUFFER_OUTPUT;
    for (int b = 0; b < p->n_buffers; b++) {
        if (p->buffers[b].node == held && p->buffers[b].kind == kind) return b;
    }
    for (int b = 0; b < p->n_buffers; b++) { /* an output under another of its names */
        if (p->buffers[b].node == held) return b;
    }
    return FB_NONE;
}

static void add_error(fb_error_report *all, const fb_error_report *one)
{
    if (!(one->max_abs <= all->max_abs)) all->max_abs = one->max_abs;
    if (!(one->max_rel <= all->max_rel)) all->max_rel = one->max_rel;
    all->undecided += one->undecided;
    all->compared += one->compared;
    if (!one->ok && all->ok) memcpy(all->worst, one->worst, sizeof all->worst);
    all->ok = all->ok && one->ok;
    if (!(one->bound <= all->bound)) all->bound = one->bound;
}

static bool verify_outputs(fb_measurement *m, const char *reference, fb_error *err)
{
    bool ok = true;
    for (int i = 0; ok && i < m->n_checked; i++) {
        int b = buffer_of(m, m->checked[i]);
        if (b == FB_NONE) return fb_fail(err, FB_ERR_SYSTEM, "no buffer holds %s", m->g->nodes[m->checked[i]].name);
        void *bytes = fb_alloc((size_t)m->program->buffers[b].bytes + 1);
        fb_error_report one;
        ok = m->device->ops->read(m->loaded, b, bytes, err) &&
             fb_verify(reference, m->g, m->checked[i], bytes, &one, err);
        if (ok) add_error(&m->error, &one);
        fb_free(bytes);
    }
    return ok;
}

static bool wait_for(const char *path, const fb_progress *progress, fb_error *err)
{
    while (access(path, R_OK) != 0) {
        if (!step(progress, "waiting for the reference", 0, err)) return false;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return true;
}

/* Every second run is given other feeds, of another seed: what comes a run late or early shows. */
static bool write_second(fb_measurement *m, int seed, const fb_progress *progress, fb_error *err)
{
    const fb_program *p = m->program;
    bool good = true;
    for (int b = 0; good && b < p->n_buffers; b++) {
        if (!p->buffers[b].fed) continue;
        char *other = fb_alloc((size_t)p->buffers[b].bytes + 1);
        good = fill_buffer(m, &p->buffers[b], m->o.seeds[seed] + 1, other, progress, err) &&
               m->device->ops->write_second(m->loaded, b, other, err);
        fb_free(other);
    }
    return good;
}

/* Runs from poisoned memory, of which the last is checked; more than one where feeds may come late. */
static bool verify_seed(fb_measurement *m, int seed, const fb_progress *progress, fb_error *err)
{
    char path[2200];
    fb_run_time times[3];
    bool late = fb_program_is_fed(m->program) && m->program->overlap;
    const fb_device_ops *ops = m->device->ops;
    if (!step(progress, "running", 0, err) || (late && !write_second(m, seed, progress, err))) return false;
    const fb_run_how how = {.cache = FB_CACHE_COLD, .samples = late ? 3 : 1};
    if (!ops->poison(m->loaded, err) || !ops->run(m->loaded, &how, times, err)) return false;
    if (!fb_reference_path(m->g, m->o.seeds[seed], path, sizeof path, err) || !wait_for(path, progress, err))
        return false;
    if (!step(progress, "verifying", 0, err) || !verify_outputs(m, path, err)) return false;
    m->verified[seed] = true;
    return true;
}

/* ---- preparing ---- */

void fb_measure_free(fb_measurement *m)
{
    if (!m) return;
    for (int s = 0; s < FB_SEEDS; s++) {
        if (m->program) drop_images(m, s);
    }
    if (m->loaded) m->device->ops->unload(m->loaded);
    fb_program_free(m->program);
    fb_kernel_rows_free(m->rows);
    FB_VEC_FREE(&m->hot);
    FB_VEC_FREE(&m->cold);
    FB_VEC_FREE(&m->busy);
    FB_VEC_FREE(&m->copied);
    FB_VEC_FREE(&m->hidden);
    fb_free(m->spans);
    fb_arena_free(m->arena);
    fb_free(m);
}

/* Compiles, fills, runs once and verifies. */
static bool prepare_run(fb_measurement *m, const fb_progress *progress, fb_error *err)
{
    m->loaded = m->device->ops->load(m->device, m->program, progress, err);
    if (!m->loaded) return false;
    m->compile_ms = m->device->ops->compile_ms(m->loaded);
    if (!write_inputs(m, 0, progress, err) || !verify_seed(m, 0, progress, err)) return false;
    return !m->o.counters || fb_kernel_rows_count(m->rows, m->device, m->loaded, err);
}

static bool prepare_recall(fb_measurement *m, const fb_plan *plan, fb_error *err)
{
    if (!m->device->ops->recall(m->device, plan, m->program, m->arena, &m->recall, err)) return false;
    fb_kernel_rows_recall(m->rows, &m->recall);
    m->compile_ms = NAN;
    m->error = (fb_error_report){.max_abs = m->recall.max_abs,
                                 .max_rel = m->recall.max_rel,
                                 .bound = m->recall.bound,
                                 .undecided = m->recall.undecided,
                                 .ok = true};
    return true;
}

fb_measurement *fb_measure_prepare(fb_device *d, const fb_plan *plan, const fb_measure_options *o,
                                   const fb_progress *progress, fb_error *err)
{
    fb_measurement *m = fb_calloc(1, sizeof *m);
    m->device = d;
    m->g = fb_planner_graph(fb_plan_planner(plan));
    m->o = *o;
    m->seed = -1;
    m->arena = fb_arena_new();
    m->error = (fb_error_report){.ok = true};
    m->n_checked = fb_reference_nodes(m->g, m->arena, &m->checked);
    FB_ASSERT(o->n_seeds >= 1 && o->n_seeds <= FB_SEEDS);
    bool ok = step(progress, "lowering", 0, err) && (m->program = fb_lower(plan, d->ops->dialect, err)) != NULL;
    if (ok) {
        m->rows = fb_kernel_rows_new(plan, m->program);
        ok = d->ops->recall ? prepare_recall(m, plan, err) : prepare_run(m, progress, err);
    }
    if (ok) return m;
    fb_measure_free(m);
    return NULL;
}

/* ---- sampling ---- */

static bool refuse_wrong(const fb_measurement *m, fb_error *err)
{
    if (m->error.ok) return true;
    return fb_fail(err, FB_ERR_INPUT, "the result is wrong, so no time is taken: %s", m->error.worst);
}

/* Inputs of the next seed, once in a while; a seed whose reference is still being computed is left for later. */
static bool rotate(fb_measurement *m, fb_cache_state cache, const fb_progress *progress, fb_error *err)
{
    char path[2200];
    int turn = cache == FB_CACHE_COLD ? 1 : TURN_CALLS;
    int next = m->calls++ / turn % m->o.n_seeds;
    if (next == m->seed) return true;
    if (!m->verified[next]) {
        if (!fb_reference_path(m->g, m->o.seeds[next], path, sizeof path, err)) return false;
        if (m->seed >= 0 && access(path, R_OK) != 0) return true;
    }
    if (!write_inputs(m, next, progress, err)) return false;
    return m->verified[next] || verify_seed(m, next, progress, err);
}

/* One run with its launches timed apart: in a pass of its own, so that the clock disturbs no wall time. Leaves its
 * spans in m->spans, *n of them. */
static bool trace_spans(fb_measurement *m, fb_cache_state cache, int64_t *n, fb_error *err)
{
    int64_t room = 2 * fb_program_launches(m->program) + m->program->n_buffers + 16; /* a library call may be several
                                                                                       kernels */
    if (!m->spans) m->spans = fb_alloc((size_t)room * sizeof *m->spans);
    if (!m->device->ops->trace(m->loaded, cache, m->spans, room, n, err)) return false;
    if (*n > room) *n = room;
    return true;
}

static bool trace(fb_measurement *m, fb_cache_state cache, fb_error *err)
{
    int64_t n;
    if (fb_program_launches(m->program) > MAX_SPANS) return true; /* a long loop: the wall time is all there is */
    if (!trace_spans(m, cache, &n, err)) return false;
    double us = fb_kernel_rows_trace(m->rows, cache, m->spans, n), hidden;
    double copied = fb_spans_copied_us(m->spans, n, &hidden);
    if (cache == FB_CACHE_HOT && isfinite(us)) {
        FB_VEC_PUSH(&m->busy, us);
        FB_VEC_PUSH(&m->copied, copied);
        FB_VEC_PUSH(&m->hidden, hidden);
    }
    return true;
}

static bool take_samples(fb_measurement *m, fb_cache_state cache, int n, const fb_progress *progress, fb_error *err)
{
    enum { MOST = 256 };
    fb_run_time times[MOST];
    samples *to = cache == FB_CACHE_COLD ? &m->cold : &m->hot;
    for (int done = 0, now = 1; done < n; done += now) {
        double each = done ? times[0].wall_us : INFINITY; /* the first alone tells how many fit between two looks */
        double fit = chunk_us / (each > 0.01 ? each : 0.01);
        now = !done || cache == FB_CACHE_COLD || fit < 1 ? 1 : fit > MOST ? MOST : (int)fit;
        if (now > n - done) now = n - done;
        if (!step(progress, "measuring", (double)done / n, err)) return false;
        if (!m->device->ops->run(m->loaded, &(fb_run_how){.cache = cache, .samples = now}, times, err)) return false;
        for (int i = 0; i < now; i++) FB_VEC_PUSH(to, times[i].wall_us);
    }
    return true;
}

bool fb_measure_sample(fb_measurement *m, fb_cache_state cache, int n, const fb_progress *progress, fb_error *err)
{
    if (m->device->ops->recall) return true; /* there is nothing to add */
    if (!refuse_wrong(m, err) || !rotate(m, cache, progress, err) || !refuse_wrong(m, err)) return false;
    if (!take_samples(m, cache, n, progress, err)) return false;
    return (cache == FB_CACHE_HOT && m->busy.n >= TRACES) || trace(m, cache, err);
}

/* ---- a timeline ---- */

static void name_copies(const fb_program *p, fb_timeline *t)
{
    int *buffers = fb_alloc(((size_t)p->n_buffers + 1) * sizeof *buffers), first_out;
    int n = fb_program_copies(p, buffers, &first_out);
    for (int i = 0; i < n; i++)
        t->names[t->n_names++] =
            fb_arena_printf(t->arena, "%s %s", i < first_out ? "feed" : "receive", p->buffers[buffers[i]].name);
    fb_free(buffers);
}

static void take_spans(const fb_measurement *m, fb_timeline *t, int64_t n)
{
    const fb_program *p = m->program;
    t->names = FB_NEW_ARRAY(t->arena, const char *, p->n_kernels + p->n_gemms + p->n_buffers);
    t->kernels = FB_NEW_ARRAY(t->arena, int, p->n_kernels + p->n_gemms + p->n_buffers);
    for (int i = 0; i < p->n_kernels + p->n_gemms + p->n_buffers; i++)
        t->kernels[i] = i < p->n_kernels + p->n_gemms ? fb_kernel_rows_find(m->rows, i) : FB_NONE;
    for (; t->n_names < p->n_kernels + p->n_gemms; t->n_names++) {
        const char *name = fb_kernel_rows_name(m->rows, t->n_names);
        t->names[t->n_names] = fb_arena_strdup(t->arena, name ? name : "");
    }
    name_copies(p, t);
    t->n_spans = n < FB_TIMELINE_SPANS ? n : FB_TIMELINE_SPANS;
    t->spans = FB_NEW_ARRAY(t->arena, fb_span, t->n_spans);
    fb_spans_sort(m->spans, n);
    memcpy(t->spans, m->spans, (size_t)t->n_spans * sizeof *t->spans);
}

static double *kept(const fb_timeline *t, const double *values, int64_t n)
{
    double *copy = FB_NEW_ARRAY(t->arena, double, n);
    if (n) memcpy(copy, values, (size_t)n * sizeof *copy);
    return copy;
}

/* That there are none is a remark on the timeline; that the device broke is an error. */
static bool take_metrics(fb_measurement *m, fb_timeline *t, fb_error *err)
{
    fb_metric_log log = {0};
    fb_error why = {0};
    const fb_device_ops *ops = m->device->ops;
    bool good = ops->sample_metrics ? ops->sample_metrics(m->loaded, metrics_us, &log, &why)
                                    : fb_fail(&why, FB_ERR_UNAVAILABLE, "%s has no metrics over time", m->device->name);
    if (good) {
        t->metrics = log;
        t->metrics.at_us = kept(t, log.at_us, log.n);
        t->metrics.value = kept(t, log.value, log.n * log.n_metrics);
        t->metrics.run_us = kept(t, log.run_us, 2 * log.n_runs);
    } else if (why.kind == FB_ERR_UNAVAILABLE) {
        t->no_metrics = fb_arena_strdup(t->arena, why.text);
    }
    fb_metric_log_clear(&log);
    return good || why.kind == FB_ERR_UNAVAILABLE || fb_fail(err, why.kind, "%s", why.text);
}

fb_timeline *fb_measure_timeline(fb_measurement *m, bool metrics, const fb_progress *progress, fb_error *err)
{
    int64_t n = 0;
    if (!m->device->ops->trace) {
        fb_fail(err, FB_ERR_UNAVAILABLE, "%s runs nothing that could be traced", m->device->name);
        return NULL;
    }
    if (fb_program_launches(m->program) > MAX_SPANS) {
        fb_fail(err, FB_ERR_LIMIT, "more than %d launches are too many to trace", MAX_SPANS);
        return NULL;
    }
    if (!refuse_wrong(m, err) || !step(progress, "tracing", 0, err) || !trace_spans(m, FB_CACHE_HOT, &n, err))
        return NULL;
    fb_timeline *t = fb_timeline_new();
    take_spans(m, t, n);
    if (!metrics || (step(progress, "sampling metrics", 0.5, err) && take_metrics(m, t, err))) return t;
    fb_timeline_free(t);
    return NULL;
}

/* ---- the report ---- */

static void report_recalled(const fb_recall *recall, fb_report *r)
{
    r->source = recall->source;
    r->stale = recall->stale;
    r->wall_us = recall->wall_us;
    r->device_us = recall->device_us;
    r->cold_us = recall->cold_us;
    if (!r->copies) return;
    r->copy_us = (fb_stat){recall->copy_us, recall->copy_us, recall->copy_us, 1};
    r->copy_hidden_us = recall->copy_hidden_us;
}

static void report_measured(const fb_measurement *m, fb_report *r)
{
    r->source = FB_SOURCE_MEASURED;
    if (!m->error.ok) return; /* a plan whose answer is wrong shows no time */
    r->wall_us = fb_stat_of(m->hot.at, m->hot.n);
    r->cold_us = fb_stat_of(m->cold.at, m->cold.n);
    r->device_us = fb_stat_of(m->busy.at, m->busy.n);
    if (!r->copies || !m->copied.n) return;
    r->copy_us = fb_stat_of(m->copied.at, m->copied.n);
    r->copy_hidden_us = fb_stat_of(m->hidden.at, m->hidden.n).median;
}

fb_report *fb_measure_report(fb_measurement *m)
{
    fb_report *r = fb_report_new();
    fb_kernel_rows_report(m->rows, m->device, m->loaded, r);
    r->compile_ms = m->compile_ms;
    r->error = m->error;
    if (m->device->ops->recall)
        report_recalled(&m->recall, r);
    else
        report_measured(m, r);
    double alone = r->copy_us.n ? r->copy_us.median - r->copy_hidden_us : 0; /* copies that nothing ran beside */
    if (r->wall_us.n && r->device_us.n) r->gap_us = fmax(0, r->wall_us.median - r->device_us.median - alone);
    return r;
}

fb_report *fb_measure_recall_named(fb_device *d, const fb_graph *g, const char *plan, fb_error *err)
{
    fb_peer_plan p;
    if (!d->ops->recall_named(d, g, plan, &p, err)) return NULL;
    fb_report *r = fb_report_new();
    r->source = FB_SOURCE_RECORDED;
    r->nodes = g->n_nodes;
    r->launches = p.launches;
    r->launch_mode = fb_arena_strdup(r->arena, p.launch_mode);
    r->wall_us = p.wall_us;
    r->device_us = p.device_us;
    r->cold_us = p.cold_us;
    r->error = (fb_error_report){.max_abs = p.max_abs, .max_rel = p.max_rel, .bound = p.bound, .ok = !(p.bound > 1)};
    r->n_kernels = p.n_kernels;
    r->kernels = FB_NEW_ARRAY(r->arena, fb_kernel_report, p.n_kernels);
    for (int i = 0; i < p.n_kernels; i++) {
        fb_kernel_report *k = &r->kernels[i];
        fb_kernel_report_clear(k);
        k->name = fb_arena_strdup(r->arena, p.kernels[i].name);
        k->family = fb_arena_strdup(r->arena, p.kernels[i].family);
        k->count = p.kernels[i].count;
        k->device_us = p.kernels[i].device_us;
        k->source = FB_SOURCE_RECORDED;
    }
    if (r->wall_us.n && r->device_us.n) r->gap_us = fmax(0, r->wall_us.median - r->device_us.median);
    return r;
}
