#include "session/recorder.h"

#include "config.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "device/recording.h"
#include "plan/preset.h"
#include "worker/worker.h"

#include <ctype.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    HOT_ROUNDS = 15, /* requests of HOT_SAMPLES each: a traced run comes with every request */
    HOT_SAMPLES = 2,
    COLD_ROUNDS = 5,
    COLD_SAMPLES = 2,
    FEWEST_ROUNDS = 3,
};
static const double patience_us = 1.5e6;  /* of sampling one plan in one state of the cache */
static const double silence_s = 20;       /* of a kernel that never ends, before its process is killed */
static const double peer_silence_s = 900; /* of a peer, which compiles as long as it likes and has nobody to watch it */
static const int64_t save_ns = 3000000000;

struct fb_recorder {
    fb_recorder_options o;
    fb_worker *worker;
    struct {
        fb_worker *worker; /* NULL: there is none */
        int given;         /* which of the given ones */
        char *device;      /* "torch" */
        char *name;        /* "PyTorch 2.11 on NVIDIA H200" */
        json_t *plans;     /* their names */
        json_t *without;   /* plans that it cannot have here → true */
    } peer;
    char *device, *path;
    const fb_dialect *dialect;
    fb_recording *file;
    json_t *devices; /* what the worker listed */
    int count_failures, counted;
    int64_t saved_ns;
    fb_recorder_counts n;
};

/* ---- talking to the worker ---- */

static void say(fb_recorder *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(fb_recorder *r, const char *format, ...)
{
    fb_str text = {0};
    va_list ap;
    va_start(ap, format);
    fb_str_vaddf(&text, format, ap);
    va_end(ap);
    if (r->o.say) r->o.say(r->o.ctx, fb_str_get(&text));
    fb_str_free(&text);
}

static bool answers(const fb_worker_event *e, int64_t id)
{
    return e->id == id && e->kind != FB_WORKER_PROGRESS && e->kind != FB_WORKER_HELLO;
}

/* A process that does not answer is replaced; what it had prepared goes with it. */
static bool give_up(fb_recorder *r, fb_worker **w, double seconds, fb_error *err)
{
    fb_worker *next = fb_worker_new(r->o.self, fb_worker_command(*w));
    fb_worker_free(*w);
    *w = next;
    return fb_fail(err, FB_ERR_LIMIT, "no answer within %g s", seconds);
}

/* Waits for the answer of a request; the caller clears it. False with the error that the worker answered. */
static bool answer(fb_recorder *r, fb_worker **w, int64_t id, fb_worker_event *out, fb_error *err)
{
    double start = fb_now_us();
    for (;;) {
        while (fb_worker_next(*w, out)) {
            if (answers(out, id)) {
                if (out->kind != FB_WORKER_ERROR) return true;
                if (err) *err = out->error;
                fb_worker_event_clear(out);
                return false;
            }
            fb_worker_event_clear(out);
        }
        struct pollfd fds[3];
        int n = fb_worker_poll(*w, fds);
        poll(fds, (nfds_t)n, 100);
        fb_worker_pump(*w);
        if (w == &r->peer.worker && fb_now_us() - start > peer_silence_s * 1e6)
            return give_up(r, w, peer_silence_s, err);
    }
}

static bool take_report(fb_recorder *r, fb_worker **w, int64_t id, fb_report **report, fb_error *err)
{
    fb_worker_event e;
    if (!answer(r, w, id, &e, err)) return false;
    fb_report_free(*report);
    *report = e.report;
    e.report = NULL;
    fb_worker_event_clear(&e);
    if (!*report) return fb_fail(err, FB_ERR_SYSTEM, "the worker answered without a report");
    if ((*report)->failed) return fb_fail(err, (*report)->failed_kind, "%s", (*report)->failed);
    if (!(*report)->error.ok) return fb_fail(err, FB_ERR_INPUT, "wrong result: %s", (*report)->error.worst);
    return true;
}

static bool sample(fb_recorder *r, fb_worker **w, int64_t id, fb_cache_state cache, fb_report **report, fb_error *err)
{
    bool cold = cache == FB_CACHE_COLD;
    int rounds = cold ? COLD_ROUNDS : HOT_ROUNDS;
    double start = fb_now_us();
    for (int i = 0; i < rounds && (i < FEWEST_ROUNDS || fb_now_us() - start < patience_us); i++) {
        fb_worker_sample(*w, id, cold ? COLD_SAMPLES : HOT_SAMPLES, cache, false);
        if (!take_report(r, w, id, report, err)) return false;
    }
    return true;
}

static void release(fb_recorder *r, fb_worker **w, int64_t id)
{
    fb_worker_event e;
    fb_worker_release(*w, id);
    if (answer(r, w, id, &e, NULL)) fb_worker_event_clear(&e);
}

/* Frameworks' workers have compared by then what they will. */
static bool check(fb_recorder *r, fb_worker **w, int64_t id, const fb_graph *g, const fb_measure_options *o,
                  fb_report **report, fb_error *err)
{
    if ((*report)->error.state != FB_CHECK_CHECKING) return true;
    fb_worker_check(*w, id, g, r->device, o);
    return take_report(r, w, id, report, err);
}

/* Checks and samples what was asked to be prepared, and releases it. The caller frees the report; NULL with the error.
 */
static fb_report *sample_prepared(fb_recorder *r, fb_worker **w, int64_t id, const fb_graph *g,
                                  const fb_measure_options *o, bool cold, fb_error *err)
{
    fb_report *report = NULL;
    bool ok = take_report(r, w, id, &report, err) && check(r, w, id, g, o, &report, err) &&
              sample(r, w, id, FB_CACHE_HOT, &report, err) && (!cold || sample(r, w, id, FB_CACHE_COLD, &report, err));
    release(r, w, id);
    if (ok) return report;
    fb_report_free(report);
    return NULL;
}

static fb_report *measure_once(fb_recorder *r, const fb_graph *g, const fb_plan *plan, bool counters, bool cold,
                               fb_error *err)
{
    const fb_measure_options o = {.seeds = {0}, .n_seeds = 1, .counters = counters, .limit_s = silence_s};
    return sample_prepared(r, &r->worker, fb_worker_prepare(r->worker, g, plan, r->device, &o), g, &o, cold, err);
}

/* Counters that cannot be had are no reason to go without times. */
static fb_report *measure(fb_recorder *r, const fb_graph *g, const fb_plan *plan, bool whole_graph, fb_error *err)
{
    bool counters = r->o.counters && !whole_graph && (r->counted || r->count_failures < 2);
    fb_report *report = measure_once(r, g, plan, counters, !whole_graph, err);
    if (report && counters) r->counted++;
    if (report || !counters || !err || err->kind != FB_ERR_UNAVAILABLE) return report;
    if (!r->count_failures++) say(r, "without counters: %s", err->text);
    return measure_once(r, g, plan, false, !whole_graph, err);
}

/* ---- into the file ---- */

static fb_stat of_one(const fb_stat *s, int64_t count)
{
    double n = count > 0 ? (double)count : 1;
    return (fb_stat){s->median / n, s->p10 / n, s->p90 / n, s->n};
}

static void record_kernel(fb_recorder *r, const fb_kernel_report *k)
{
    char code[FB_SIGNATURE];
    double n = k->count > 0 ? (double)k->count : 1;
    fb_recorded_kernel have, one = {
                                 .hot_us = of_one(&k->device_us, k->count),
                                 .cold_us = of_one(&k->cold_us, k->count),
                                 .dram_read = k->measured_read / n,
                                 .dram_written = k->measured_written / n,
                                 .l2_bytes = k->l2_bytes / n,
                                 .resources = {.registers = k->registers,
                                               .shared_bytes = k->shared_bytes,
                                               .spill_bytes = k->spill_bytes,
                                               .local_bytes = k->local_bytes / (k->count > 0 ? (double)k->count : 1),
                                               .occupancy = k->occupancy},
                             };
    if (!k->code || !k->device_us.n) return;
    snprintf(code, sizeof code, "%s", k->code);
    if (fb_recording_kernel(r->file, code, &have)) return;
    fb_recording_set_kernel(r->file, code, &one);
    r->n.kernels++;
}

static void record_kernels(fb_recorder *r, const fb_report *report)
{
    for (int i = 0; i < report->n_kernels; i++) record_kernel(r, &report->kernels[i]);
}

/* Which codes each group launches. */
static void record_groups(fb_recorder *r, const fb_plan *plan, const fb_program *p)
{
    char signature[FB_SIGNATURE];
    fb_arena *arena = fb_arena_new();
    const char **codes = FB_NEW_ARRAY(arena, const char *, p->n_launches);
    for (int g = 0; g < fb_plan_groups(plan); g++) {
        int n = 0;
        for (int i = 0; i < p->n_launches; i++) {
            if (p->launches[i].group != g) continue;
            codes[n++] = fb_code_name(p, &p->launches[i], fb_arena_alloc(arena, FB_SIGNATURE));
        }
        fb_recording_set_group(r->file, fb_group_signature(plan, g, signature), n, codes);
    }
    fb_arena_free(arena);
}

static bool save(fb_recorder *r, bool now, fb_error *err)
{
    if (r->o.compile) return true;
    if (!now && fb_now_ns() - r->saved_ns < save_ns) return true;
    r->saved_ns = fb_now_ns();
    return fb_recording_write(r->file, r->path, err);
}

static bool is_launch(const fb_launch *l)
{
    return l->kind == FB_LAUNCH_KERNEL || l->kind == FB_LAUNCH_GEMM;
}

static bool code_known(const fb_recorder *r, const fb_program *p, const fb_launch *l)
{
    char code[FB_SIGNATURE];
    fb_recorded_kernel have;
    return fb_recording_kernel(r->file, fb_code_name(p, l, code), &have);
}

static bool all_known(const fb_recorder *r, const fb_program *p)
{
    for (int i = 0; i < p->n_launches; i++)
        if (is_launch(&p->launches[i]) && !code_known(r, p, &p->launches[i])) return false;
    return true;
}

/* Compiled, a kernel counts as known. */
static bool compile(fb_recorder *r, const fb_program *p, fb_error *err)
{
    char code[FB_SIGNATURE];
    const fb_recorded_kernel nothing = {.dram_read = NAN, .l2_bytes = NAN, .resources = {-1, -1, -1, NAN}};
    if (!r->o.compile(r->o.ctx, p, err)) return false;
    for (int i = 0; i < p->n_launches; i++)
        if (!code_known(r, p, &p->launches[i]))
            fb_recording_set_kernel(r->file, fb_code_name(p, &p->launches[i], code), &nothing), r->n.kernels++;
    return true;
}

/* ---- whole plans ---- */

static void record_plan(fb_recorder *r, const char *signature, const fb_program *p, const fb_report *stream,
                        const fb_report *graph)
{
    fb_recorded_plan plan = {
        .wall_us = {[FB_LAUNCH_STREAM] = stream->wall_us, [FB_LAUNCH_GRAPH] = graph ? graph->wall_us : (fb_stat){0}},
        .device_us = stream->device_us,
        .cold_us = stream->cold_us,
        .max_abs = stream->error.max_abs,
        .max_rel = stream->error.max_rel,
        .bound = stream->error.bound,
        .undecided = stream->error.undecided,
    };
    fb_program_code(p, plan.code);
    fb_recording_set_plan(r->file, signature, &plan);
    for (int i = 0; i < stream->n_kernels; i++) {
        const fb_kernel_report *k = &stream->kernels[i];
        char code[FB_SIGNATURE];
        fb_stat one = of_one(&k->device_us, k->count);
        if (!k->code || !k->device_us.n) continue;
        snprintf(code, sizeof code, "%s", k->code);
        fb_recording_set_plan_kernel(r->file, signature, code, &one);
    }
    r->n.plans++;
}

static void failed(fb_recorder *r, const char *what, const char *mode, const fb_error *why)
{
    r->n.failed++;
    say(r, "%s%s: %s", what, mode, why->text);
}

/* The same plan launched as a graph; NULL on devices that have none, which is no failure. */
static fb_report *measure_as_graph(fb_recorder *r, const char *what, const fb_plan *plan)
{
    fb_plan *as_graph = NULL;
    fb_error why = {0};
    const fb_edit edit = {.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_GRAPH};
    if (fb_recording_machine(r->file)->kind != FB_DEVICE_CUDA) return NULL;
    fb_plan_try(plan, &edit, &as_graph);
    fb_report *report = as_graph ? measure(r, fb_planner_graph(fb_plan_planner(plan)), as_graph, true, &why) : NULL;
    if (as_graph && !report) failed(r, what, " as a graph", &why);
    fb_plan_free(as_graph);
    return report;
}

static void whole_plan(fb_recorder *r, const char *what, const fb_plan *plan)
{
    char signature[FB_SIGNATURE], code[FB_SIGNATURE];
    fb_recorded_plan have;
    fb_error why = {0};
    fb_program *p = fb_lower(plan, r->dialect, &why);
    if (!p) {
        failed(r, what, "", &why);
        return;
    }
    fb_plan_signature(plan, signature);
    bool known = fb_recording_plan(r->file, signature, &have) && strcmp(have.code, fb_program_code(p, code)) == 0;
    if (known && all_known(r, p)) {
        r->n.known++;
    } else if (r->o.compile) {
        if (compile(r, p, &why))
            r->n.plans++;
        else
            failed(r, what, "", &why);
    } else {
        fb_report *stream = measure(r, fb_planner_graph(fb_plan_planner(plan)), plan, false, &why);
        if (stream) {
            fb_report *graph = measure_as_graph(r, what, plan);
            record_kernels(r, stream);
            record_plan(r, signature, p, stream, graph);
            fb_report_free(graph);
        } else {
            failed(r, what, "", &why);
        }
        fb_report_free(stream);
    }
    record_groups(r, plan, p);
    fb_program_free(p);
}

/* ---- toggles ---- */

/* Toggles that are measured together: a plan with all of them, and the codes that it is measured for. */
typedef struct {
    fb_plan *plan;
    json_t *wanted; /* code → true */
    FB_VEC(int) edges;
} pack;

static fb_plan *toggled(const fb_plan *plan, const fb_edge *e)
{
    int group = fb_plan_group_of(plan, e->producer);
    bool fused = group != FB_NONE && group == fb_plan_group_of(plan, e->consumer);
    const fb_edit edit = {.kind = fused ? FB_EDIT_CUT : FB_EDIT_FUSE, .a = e->producer, .b = e->consumer};
    fb_plan *result = NULL;
    fb_plan_try_repeated(plan, &edit, &result);
    return result;
}

/* The codes of a plan that the file does not hold; NULL when it cannot be lowered. Notes its groups. */
static json_t *missing_codes(fb_recorder *r, const fb_plan *plan)
{
    char code[FB_SIGNATURE];
    fb_program *p = fb_lower(plan, r->dialect, NULL);
    json_t *missing = p ? json_object() : NULL;
    for (int i = 0; p && i < p->n_launches; i++) {
        const fb_launch *l = &p->launches[i];
        if (is_launch(l) && !code_known(r, p, l)) json_object_set_new(missing, fb_code_name(p, l, code), json_true());
    }
    if (p) record_groups(r, plan, p);
    fb_program_free(p);
    return missing;
}

static bool holds_all(const json_t *set, const json_t *of)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)of, key, value)
    {
        if (!json_object_get(set, key)) return false;
    }
    return true;
}

/* Adds a toggle where that leaves every kernel to be measured in place: those of the pack and the toggle's own. */
static bool pack_add(fb_recorder *r, pack *k, const fb_deps *d, int edge, const json_t *wanted)
{
    fb_plan *both = toggled(k->plan, &d->edges[edge]);
    json_t *codes = both ? missing_codes(r, both) : NULL;
    bool fits = codes && holds_all(codes, wanted) && holds_all(codes, k->wanted);
    json_decref(codes);
    if (!fits) {
        fb_plan_free(both);
        return false;
    }
    fb_plan_free(k->plan);
    k->plan = both;
    json_object_update(k->wanted, (json_t *)wanted);
    FB_VEC_PUSH(&k->edges, edge);
    return true;
}

static bool measure_toggled(fb_recorder *r, const fb_plan *plan, fb_error *err)
{
    fb_program *p = r->o.compile ? fb_lower(plan, r->dialect, err) : NULL;
    if (r->o.compile) {
        bool ok = p && compile(r, p, err);
        fb_program_free(p);
        return ok;
    }
    fb_report *report = measure(r, fb_planner_graph(fb_plan_planner(plan)), plan, false, err);
    if (!report) return false;
    record_kernels(r, report);
    fb_report_free(report);
    return true;
}

/* One by one, when the pack as a whole did not run. */
static void measure_singly(fb_recorder *r, const char *what, const fb_plan *plan, const pack *k)
{
    const fb_deps *d = fb_planner_deps(fb_plan_planner(plan));
    const fb_graph *g = d->graph;
    for (int i = 0; i < k->edges.n; i++) {
        const fb_edge *e = &d->edges[k->edges.at[i]];
        fb_plan *one = toggled(plan, e);
        json_t *missing = missing_codes(r, one);
        fb_error why = {0};
        if (json_object_size(missing) && !measure_toggled(r, one, &why)) {
            char name[300];
            snprintf(name, sizeof name, "%.100s, %.64s → %.64s", what, g->nodes[e->producer].name,
                     g->nodes[e->consumer].name);
            failed(r, name, "", &why);
        }
        json_decref(missing);
        fb_plan_free(one);
    }
}

static void measure_pack(fb_recorder *r, const char *what, const fb_plan *plan, pack *k)
{
    fb_error why = {0};
    if (k->edges.n && !measure_toggled(r, k->plan, &why)) measure_singly(r, what, plan, k);
    r->n.toggles += k->edges.n;
    fb_plan_free(k->plan);
    json_decref(k->wanted);
    FB_VEC_FREE(&k->edges);
}

/* What toggling each edge would have to measure; NULL: nothing. */
static json_t **wanted_by_edge(fb_recorder *r, const fb_plan *plan)
{
    const fb_deps *d = fb_planner_deps(fb_plan_planner(plan));
    json_t **wanted = fb_calloc((size_t)d->n_edges + 1, sizeof *wanted), *seen = json_object();
    for (int i = 0; i < d->n_edges; i++) {
        const fb_edge *e = &d->edges[i];
        if (e->order_only || !fb_node_is_computed(d->graph, e->producer) || !fb_node_is_computed(d->graph, e->consumer))
            continue;
        char signature[FB_SIGNATURE];
        fb_plan *one = toggled(plan, e);
        if (!one) continue;
        bool again = json_object_get(seen, fb_plan_signature(one, signature)) != NULL; /* of a repetition */
        json_object_set_new(seen, signature, json_true());
        if (!again) wanted[i] = missing_codes(r, one);
        fb_plan_free(one);
        if (wanted[i] && json_object_size(wanted[i])) continue;
        json_decref(wanted[i]);
        wanted[i] = NULL;
    }
    json_decref(seen);
    return wanted;
}

static bool toggles(fb_recorder *r, const char *what, const fb_plan *plan, fb_error *err)
{
    const fb_deps *d = fb_planner_deps(fb_plan_planner(plan));
    json_t **wanted = wanted_by_edge(r, plan);
    bool ok = true;
    for (int first = 0; ok && first < d->n_edges; first++) {
        if (!wanted[first]) continue;
        pack k = {.plan = fb_plan_copy(plan), .wanted = json_object()};
        for (int i = first; i < d->n_edges; i++) {
            if (!wanted[i] || (!pack_add(r, &k, d, i, wanted[i]) && i != first)) continue;
            json_decref(wanted[i]);
            wanted[i] = NULL;
        }
        measure_pack(r, what, plan, &k);
        ok = save(r, false, err);
    }
    for (int i = 0; i < d->n_edges; i++) json_decref(wanted[i]);
    fb_free(wanted);
    return ok;
}

/* ---- peers ---- */

static int by_time(const void *a, const void *b)
{
    const fb_peer_kernel *x = a, *y = b;
    return (x->device_us.median < y->device_us.median) - (x->device_us.median > y->device_us.median);
}

static void record_peer_plan(fb_recorder *r, const char *graph, const char *name, const fb_report *report)
{
    fb_peer_plan plan = {.wall_us = report->wall_us,
                         .device_us = report->device_us,
                         .cold_us = report->cold_us,
                         .launches = report->launches,
                         .launch_mode = report->launch_mode,
                         .max_abs = report->error.max_abs,
                         .max_rel = report->error.max_rel,
                         .bound = report->error.bound};
    fb_peer_kernel *all = fb_calloc((size_t)report->n_kernels + 1, sizeof *all);
    int n = 0;
    for (int i = 0; i < report->n_kernels; i++) {
        const fb_kernel_report *k = &report->kernels[i];
        if (k->name && k->device_us.n) all[n++] = (fb_peer_kernel){k->name, k->family, k->count, k->device_us};
    }
    qsort(all, (size_t)n, sizeof *all, by_time);
    plan.n_kernels = n < FB_PEER_KERNELS ? n : FB_PEER_KERNELS;
    memcpy(plan.kernels, all, (size_t)plan.n_kernels * sizeof *all);
    fb_free(all);
    fb_recording_set_peer_plan(r->file, graph, r->peer.device, name, &plan);
    r->n.plans++;
}

/* What a peer cannot have on this machine (a CUDA graph on a processor) is said once and is no failure. */
static void peer_failed(fb_recorder *r, const char *what, const char *plan, const fb_error *why)
{
    if (why->kind != FB_ERR_UNAVAILABLE) {
        failed(r, what, "", why);
        return;
    }
    json_object_set_new(r->peer.without, plan, json_true());
    say(r, "without %s@%s: %s", plan, r->peer.device, why->text);
}

static bool peer_plans(fb_recorder *r, const char *script, const char *variant, const fb_graph *g, fb_error *err)
{
    const fb_measure_options o = {.seeds = {0}, .n_seeds = 1};
    char what[240], graph[FB_SIGNATURE];
    fb_peer_plan have;
    json_t *name;
    size_t i;
    fb_graph_signature(g, graph);
    json_array_foreach(r->peer.plans, i, name)
    {
        const char *plan = json_string_value(name);
        if (json_object_get(r->peer.without, plan)) continue;
        if (fb_recording_peer_plan(r->file, graph, r->peer.device, plan, &have)) {
            r->n.known++;
            continue;
        }
        fb_error why = {0};
        snprintf(what, sizeof what, "%.60s %.60s%s%.40s@%.40s", script, variant, variant[0] ? ":" : "", plan,
                 r->peer.device);
        say(r, "%s", what);
        int64_t id = fb_worker_prepare_named(r->peer.worker, g, plan, r->peer.device, &o);
        fb_report *report = sample_prepared(r, &r->peer.worker, id, g, &o, true, &why);
        if (report)
            record_peer_plan(r, graph, plan, report);
        else
            peer_failed(r, what, plan, &why);
        fb_report_free(report);
        if (!save(r, false, err)) return false;
    }
    return true;
}

/* ---- graphs ---- */

static fb_plan *preset_plan(const fb_preset *preset, fb_planner *planner, fb_recorder *r, const char *what)
{
    fb_error why = {0};
    fb_plan *plan = preset->make(planner, &why);
    if (!plan) failed(r, what, "", &why);
    return plan;
}

static void given_plan(fb_recorder *r, const char *what, fb_planner *planner, const fb_plan *given)
{
    fb_error why = {0};
    json_t *names = fb_plan_to_json(given);
    fb_plan *plan = fb_plan_from_json(planner, names, true, NULL, &why);
    if (plan)
        whole_plan(r, what, plan);
    else
        failed(r, what, "", &why);
    fb_plan_free(plan);
    json_decref(names);
}

bool fb_recorder_graph(fb_recorder *r, const char *script, const char *variant, const fb_graph *g, int n_plans,
                       const fb_plan *const *plans, fb_error *err)
{
    fb_planner *planner = fb_planner_new(g, fb_recording_machine(r->file));
    char what[200];
    bool ok = true;
    fb_recording_add_script(r->file, script, variant, g->hash);
    for (int i = 0; ok && i < fb_presets(); i++) {
        snprintf(what, sizeof what, "%.60s %.60s%s%s", script, variant, variant[0] ? ":" : "", fb_preset_at(i)->name);
        say(r, "%s", what);
        fb_plan *plan = preset_plan(fb_preset_at(i), planner, r, what);
        if (!plan) continue;
        whole_plan(r, what, plan);
        ok = save(r, false, err) && toggles(r, what, plan, err);
        fb_plan_free(plan);
    }
    for (int i = 0; ok && i < n_plans; i++) {
        snprintf(what, sizeof what, "%.60s %.60s, plan %d of the script", script, variant, i + 1);
        given_plan(r, what, planner, plans[i]);
        ok = save(r, false, err);
    }
    fb_planner_free(planner);
    return ok && (!r->peer.worker || peer_plans(r, script, variant, g, err));
}

/* ---- opening ---- */

/* The machine: from the list, else by calibrating. */
static bool find_machine(fb_recorder *r, const json_t *entry, fb_machine *m, fb_error *err)
{
    const json_t *listed = json_object_get(entry, "machine");
    if (listed && fb_machine_from_json(m, listed, NULL) && m->calibrated) return true;
    say(r, "calibrating %s", r->device);
    fb_worker_event e;
    if (!answer(r, &r->worker, fb_worker_calibrate(r->worker, r->device), &e, err)) return false;
    bool ok = fb_machine_from_json(m, json_object_get(e.message, "machine"), err);
    fb_worker_event_clear(&e);
    return ok;
}

/* "h200.json" for "NVIDIA H200 141GB": the first word with a digit, else the device's kind. */
static char *short_path(const char *machine, const char *device)
{
    char name[41] = "";
    bool gpu = strncmp(device, "cuda", 4) == 0;
    for (const char *at = machine; gpu && *at && !name[0];) {
        size_t n = strcspn(at, " "), k = 0;
        bool fits = strcspn(at, "0123456789") < n && n < sizeof name;
        for (size_t i = 0; fits && i < n; i++)
            if (isalnum((unsigned char)at[i])) name[k++] = (char)tolower((unsigned char)at[i]);
        at += n + (at[n] == ' ');
    }
    fb_str path = {0};
    fb_str_add_n(&path, name[0] ? name : device, name[0] ? strlen(name) : strcspn(device, ":"));
    fb_str_add(&path, ".json");
    return fb_str_take(&path);
}

/* Goes on with what an earlier run left. */
static bool reopen(fb_recorder *r, const char *machine, fb_error *err)
{
    size_t n;
    char *text = fb_read_file(r->path, FB_RECORDING_MAX, &n, err);
    r->file = text ? fb_recording_read(text, n, err) : NULL;
    fb_free(text);
    if (!r->file) return fb_fail_prefix(err, "%s", r->path);
    const char *was = fb_recording_text(r->file, "device");
    if (was && strcmp(machine, was) == 0) return true;
    return fb_fail(err, FB_ERR_INPUT, "%s is a recording of %s, and this is %s", r->path, was ? was : "another",
                   machine);
}

static bool open_file(fb_recorder *r, const json_t *entry, fb_error *err)
{
    fb_machine m;
    const char *machine = fb_json_string_or(entry, "name", "");
    r->path = r->o.out ? fb_strdup(r->o.out) : short_path(machine, r->device);
    if (access(r->path, F_OK) == 0) return reopen(r, machine, err);
    if (!find_machine(r, entry, &m, err)) return false;
    r->file = fb_recording_new(&m);
    return true;
}

static const char *date_now(char to[32])
{
    time_t now = time(NULL);
    struct tm utc;
    strftime(to, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    return to;
}

static void write_head(fb_recorder *r, const json_t *entry)
{
    char date[32];
    fb_recording_set_text(r->file, "version", PACKAGE_VERSION);
    fb_recording_set_text(r->file, "date", date_now(date));
    fb_recording_set_text(r->file, "driver", fb_json_string_or(entry, "driver", NULL));
    fb_recording_set_clock_mhz(r->file, fb_json_number_or(entry, "clock_mhz", NAN));
}

/* The first device of a list that plans for itself, and now. */
static const json_t *peer_in(const json_t *devices)
{
    size_t i;
    json_t *entry;
    json_array_foreach((json_t *)devices, i, entry)
    {
        const fb_device_ops *ops = fb_device_find(fb_json_string_or(entry, "device", ""), NULL);
        if ((!ops || ops->recall_named) && !json_object_get(entry, "recorded")) return entry;
    }
    return NULL;
}

static void set_peer(fb_recorder *r, int given, fb_worker *w, const json_t *entry)
{
    r->peer.worker = w;
    r->peer.given = given;
    r->peer.device = fb_strdup(fb_json_string_or(entry, "device", ""));
    r->peer.name = fb_strdup(fb_json_string_or(entry, "name", r->peer.device));
    r->peer.plans = json_array();
    r->peer.without = json_object();
    size_t i;
    json_t *plan;
    json_array_foreach(json_object_get(entry, "plans"), i, plan)
    {
        bool slow = json_is_string(plan) && strcmp(json_string_value(plan), "max-autotune") == 0;
        if (json_is_string(plan) && (!slow || r->o.max_autotune)) json_array_append(r->peer.plans, plan);
    }
}

/* What a worker is here for; one that is for nothing is ended. `given` -1: our own. */
static bool take_worker(fb_recorder *r, int given, fb_str *missing, fb_error *err)
{
    fb_worker_event e;
    fb_worker *w = fb_worker_new(r->o.self, given < 0 ? NULL : r->o.workers[given]);
    if (!answer(r, &w, fb_worker_devices(w), &e, err)) {
        fb_worker_free(w);
        return false;
    }
    const json_t *devices = json_object_get(e.message, "devices"), *entry = fb_json_find(devices, "device", r->device),
                 *peer = given < 0 || r->peer.worker ? NULL : peer_in(devices);
    const char *why = fb_json_string_or(entry, "missing", NULL), *no_peer = fb_json_string_or(peer, "missing", NULL);
    if (why) fb_str_clear(missing), fb_str_add(missing, why);
    if (no_peer) say(r, "without %s: %s", fb_json_string_or(peer, "device", "?"), no_peer), r->n.failed++;
    if (!r->worker && entry && !why) {
        r->worker = w;
        r->devices = json_deep_copy(devices);
    } else if (peer && !no_peer) {
        set_peer(r, given, w, peer);
    } else {
        fb_worker_free(w);
    }
    fb_worker_event_clear(&e);
    return true;
}

static void write_peer(fb_recorder *r)
{
    char date[32];
    if (r->peer.worker && !fb_recording_set_peer(r->file, r->peer.device, r->peer.name, date_now(date)))
        say(r, "%s is another one now, %s: its plans are measured again", r->peer.device, r->peer.name);
}

static bool open_all(fb_recorder *r, fb_error *err)
{
    const fb_device_ops *ops = fb_device_find(r->device, err);
    if (!ops) return false;
    if (ops->recall) return fb_fail(err, FB_ERR_USAGE, "%s runs nothing: record on a device that does", r->device);
    if (!ops->load)
        return fb_fail(err, FB_ERR_USAGE, "%s plans for itself: it is recorded beside a device of ours", r->device);
    fb_str missing = {0};
    bool ok = true;
    r->dialect = ops->dialect;
    for (int i = 0; ok && i < r->o.n_workers; i++) ok = take_worker(r, i, &missing, err);
    if (ok && !r->worker) ok = take_worker(r, -1, &missing, err);
    if (ok && !r->worker)
        ok = fb_fail(err, FB_ERR_UNAVAILABLE, "device \"%s\": %s", r->device,
                     missing.n ? missing.text : "there is none");
    fb_str_free(&missing);
    if (!ok) return false;
    const json_t *entry = fb_json_find(r->devices, "device", r->device);
    if (!open_file(r, entry, err)) return false;
    write_head(r, entry);
    write_peer(r);
    return true;
}

fb_recorder *fb_recorder_new(const fb_recorder_options *o, fb_error *err)
{
    fb_recorder *r = fb_calloc(1, sizeof *r);
    r->o = *o;
    r->device = fb_strdup(o->device);
    if (o->compile) {
        r->dialect = &fb_dialect_cuda;
        r->file = fb_recording_new(o->machine);
        return r;
    }
    if (open_all(r, err)) return r;
    fb_recorder_free(r);
    return NULL;
}

void fb_recorder_free(fb_recorder *r)
{
    if (!r) return;
    fb_worker_free(r->worker);
    fb_worker_free(r->peer.worker);
    fb_free(r->peer.device);
    fb_free(r->peer.name);
    json_decref(r->peer.plans);
    json_decref(r->peer.without);
    fb_recording_free(r->file);
    json_decref(r->devices);
    fb_free(r->device);
    fb_free(r->path);
    fb_free(r);
}

const char *fb_recorder_path(const fb_recorder *r)
{
    return r->path;
}

int fb_recorder_peer(const fb_recorder *r)
{
    return r->peer.worker ? r->peer.given : -1;
}

bool fb_recorder_finish(fb_recorder *r, fb_error *err)
{
    if (r->o.compile) return true;
    fb_recording_prune(r->file);
    return save(r, true, err);
}

fb_recorder_counts fb_recorder_counted(const fb_recorder *r)
{
    return r->n;
}
