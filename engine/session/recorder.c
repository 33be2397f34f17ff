/* The recorder: what is to be measured, in which order, by which worker, and when it is enough. Asks workers as any
 * front does. Leaves a recording that is whole whenever it is saved. */
#include "session/recorder.h"

#include "config.h"

#include "base/ascii.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "decide/preset.h"
#include "device/replay/recording.h"
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
    HOT_ROUNDS = 24, /* requests of HOT_SAMPLES each: a traced run comes with every request */
    HOT_SAMPLES = 2,
    COLD_ROUNDS = 5,
    COLD_SAMPLES = 2,
    FEWEST_ROUNDS = 3, /* of what takes long: fewer than can be paired */
    TRIES = 3,         /* of a column that is disturbed */
    MOST_TRACED = 5000 /* launches of a run */
};
static const double patience_us = 1.0e6;       /* of sampling one plan in one state of the cache */
static const double usual_spread = 2;          /* p90 over p10: undisturbed columns on an H200 have 1.0 to 1.6 */
static const double enough_prepared_us = 40e6; /* what takes longer to prepare is recorded in parts: less is lost */
static const double grace_s = 5;               /* what runs when the time is over */
static const double silence_s = 20;            /* of a kernel that never ends, before its process is killed */
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
    const fb_target *target;
    fb_recording *file;
    json_t *devices; /* what the worker listed */
    int count_failures, counted;
    int64_t saved_ns, until_ns; /* until_ns 0: no limit */
    json_t *sent[2];            /* keys of files that our worker and the peer's have */
    json_t *cases;              /* graphs of the experiment that is being recorded */
    char *cases_of;             /* its script */
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

bool fb_recorder_over(const fb_recorder *r)
{
    return r->until_ns && fb_now_ns() > r->until_ns;
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
        if (r->until_ns && fb_now_ns() > r->until_ns + (int64_t)(grace_s * 1e9)) return give_up(r, w, grace_s, err);
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

static bool sample_once(fb_recorder *r, fb_worker **w, int64_t id, fb_cache_state cache, fb_report **report,
                        fb_error *err)
{
    fb_worker_sample(*w, id, cache == FB_CACHE_COLD ? COLD_SAMPLES : HOT_SAMPLES, cache, false);
    return take_report(r, w, id, report, err);
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

static bool save(fb_recorder *r, bool now, fb_error *err)
{
    if (r->o.compile || r->o.list) return true;
    if (!now && fb_now_ns() - r->saved_ns < save_ns) return true;
    r->saved_ns = fb_now_ns();
    return fb_recording_write(r->file, r->path, err);
}

/* ---- columns that are measured in turns ---- */

/* One of ours, or a peer's. */
typedef struct {
    fb_worker **worker;
    const fb_graph *graph;
    fb_plan *plan; /* ours; NULL: a peer's */
    fb_program *program;
    const char *peer_plan;
    char what[240], signature[FB_SIGNATURE];
    bool counters;
    bool beside; /* ours, and in the file: only its samples beside the others' are wanted */
    int64_t id;  /* 0: it is not prepared */
    fb_report *report;
    json_t *timeline;
    double since_us; /* when the first of those in turn with it began, by its worker's clock */
    double turn_us;  /* and by the calendar */
    int tries;
    bool failed, recorded;
} column_run;

typedef FB_VEC(column_run) entries;

static void entries_free(entries *all)
{
    for (int i = 0; i < all->n; i++) {
        fb_plan_free(all->at[i].plan);
        fb_program_free(all->at[i].program);
        fb_report_free(all->at[i].report);
        json_decref(all->at[i].timeline);
    }
    FB_VEC_FREE(all);
}

static void failed(fb_recorder *r, const char *what, const fb_error *why)
{
    if (fb_recorder_over(r)) return; /* the next run does it */
    r->n.failed++;
    say(r, "%s: %s", what, why->text);
}

/* What a peer cannot have on this machine (a CUDA graph on a processor) is said once and is no failure. */
static void entry_failed(fb_recorder *r, column_run *e, const fb_error *why)
{
    e->failed = true;
    if (!e->peer_plan || why->kind != FB_ERR_UNAVAILABLE) {
        failed(r, e->what, why);
        return;
    }
    if (!json_object_get(r->peer.without, e->peer_plan))
        say(r, "without %s@%s: %s", e->peer_plan, r->peer.device, why->text);
    json_object_set_new(r->peer.without, e->peer_plan, json_true());
}

static bool send_files(fb_recorder *r, const column_run *e, fb_error *err)
{
    json_t **sent = &r->sent[e->worker == &r->peer.worker];
    if (!*sent) *sent = json_object();
    for (int i = 0; r->o.file && i < e->graph->n_nodes; i++) {
        const fb_attrs *a = e->graph->nodes[i].attrs;
        if (a->dist != FB_DIST_FILE || !a->file || json_object_get(*sent, a->file)) continue;
        fb_session_weights read;
        if (!r->o.file(r->o.ctx, &e->graph->nodes[i], &read, err)) return false;
        fb_worker_send_file(*e->worker, a->file, read.values, read.n);
        json_object_set_new(*sent, a->file, json_true());
        fb_free(read.own);
    }
    return true;
}

/* A process that died has none. */
static void forget_files(fb_recorder *r, const column_run *e)
{
    json_object_clear(r->sent[e->worker == &r->peer.worker]);
}

static bool prepare_with(fb_recorder *r, column_run *e, bool counters, fb_error *err)
{
    const fb_measure_options o = {
        .seeds = {0}, .n_seeds = 1, .counters = counters, .ahead = r->o.compile != NULL, .limit_s = silence_s};
    if (!send_files(r, e, err)) return false;
    fb_report_free(e->report);
    e->report = NULL;
    e->id = e->plan ? fb_worker_prepare(*e->worker, e->graph, e->plan, r->device, &o)
                    : fb_worker_prepare_named(*e->worker, e->graph, e->peer_plan, r->peer.device, &o);
    return take_report(r, e->worker, e->id, &e->report, err) &&
           (e->beside || check(r, e->worker, e->id, e->graph, &o, &e->report, err));
}

static void release_entry(fb_recorder *r, column_run *e)
{
    if (e->id) release(r, e->worker, e->id);
    e->id = 0;
}

/* Counters that cannot be had are no reason to go without times. */
static bool prepare_entry(fb_recorder *r, column_run *e, fb_error *err)
{
    bool counters = e->counters && r->o.counters && (r->counted || r->count_failures < 2);
    fb_error why = {0};
    if (prepare_with(r, e, counters, &why)) {
        r->counted += counters;
        return true;
    }
    if (!counters || why.kind != FB_ERR_UNAVAILABLE) return fb_fail(err, why.kind, "%s", why.text);
    if (!r->count_failures++) say(r, "without counters: %s", why.text);
    release_entry(r, e);
    return prepare_with(r, e, false, err);
}

/* Those prepared beside it may be gone as well, or stand in its way. */
static bool is_grave(const fb_error *why)
{
    return why->kind == FB_ERR_CRASH || why->kind == FB_ERR_LIMIT;
}

static void release_all(fb_recorder *r, column_run *e, int n)
{
    for (int i = 0; i < n; i++) release_entry(r, &e[i]);
}

/* Prepares them side by side. Returns how many stand: the others come after them, on their own; those that are left
 * fail. What goes beside them costs a moment, and is there at any rate. */
static int stand_together(fb_recorder *r, column_run *e, int n)
{
    double start = fb_now_us();
    for (bool lost = true; lost;) {
        bool any = lost = false, others = false;
        for (int i = 0; i < n && !lost && !fb_recorder_over(r); i++) {
            fb_error why = {0};
            if (e[i].failed) continue;
            if (!others) start = fb_now_us();
            if (others && fb_now_us() - start > enough_prepared_us) {
                n = i;
                break;
            }
            if (prepare_entry(r, &e[i], &why)) {
                any = true;
                others |= !e[i].beside;
                continue;
            }
            release_entry(r, &e[i]);
            if (!is_grave(&why) || !any) entry_failed(r, &e[i], &why);
            if (!is_grave(&why)) continue;
            release_all(r, e, i);
            forget_files(r, &e[i]);
            if (any) n = i;
            lost = true;
        }
    }
    return n;
}

static bool in_state(const column_run *e, fb_cache_state cache)
{
    return !e->beside || cache == FB_CACHE_HOT;
}

/* A round of each, again and again. False when they are lost. */
static bool sample_in_turns(fb_recorder *r, column_run *e, int n, fb_cache_state cache, fb_error *err)
{
    int rounds = cache == FB_CACHE_COLD ? COLD_ROUNDS : HOT_ROUNDS, alive = 0;
    double start = fb_now_us();
    for (int i = 0; i < n; i++) alive += !e[i].failed && in_state(&e[i], cache);
    for (int k = 0; k < rounds && (k < FEWEST_ROUNDS || fb_now_us() - start < patience_us * alive); k++) {
        for (int i = 0; i < n; i++) {
            fb_error why = {0};
            if (e[i].failed || !in_state(&e[i], cache)) continue;
            if (sample_once(r, e[i].worker, e[i].id, cache, &e[i].report, &why)) continue;
            if (is_grave(&why)) return fb_fail(err, why.kind, "%s", why.text);
            entry_failed(r, &e[i], &why);
        }
    }
    return true;
}

static double now_by_calendar_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void note_turn(column_run *e, int n, double turn_us)
{
    double since = INFINITY;
    for (int i = 0; i < n; i++)
        if (!e[i].failed && e[i].report->n_rounds) since = fmin(since, e[i].report->rounds[0].at_us);
    for (int i = 0; i < n; i++) e[i].since_us = since, e[i].turn_us = floor(turn_us / 1e6) * 1e6;
}

/* That there is none is no failure. */
static void trace_entry(fb_recorder *r, column_run *e)
{
    fb_worker_event event;
    if (!e->plan || fb_plan_launch_mode(e->plan) == FB_LAUNCH_GRAPH || e->report->launches > MOST_TRACED) return;
    fb_error why = {0};
    fb_worker_trace(*e->worker, e->id, !r->o.no_metrics);
    if (!answer(r, e->worker, e->id, &event, &why)) {
        if (why.kind == FB_ERR_CRASH) forget_files(r, e);
        return;
    }
    json_decref(e->timeline);
    e->timeline = json_incref(json_object_get(event.message, "timeline"));
    fb_worker_event_clear(&event);
}

/* Hot, cold and traced. False when they are lost, or the time is over. */
static bool measure_together(fb_recorder *r, column_run *e, int n, fb_error *err)
{
    double turn_us = now_by_calendar_us();
    if (fb_recorder_over(r)) return fb_fail(err, FB_ERR_LIMIT, "the time is over");
    if (!sample_in_turns(r, e, n, FB_CACHE_HOT, err)) return false;
    note_turn(e, n, turn_us);
    if (!sample_in_turns(r, e, n, FB_CACHE_COLD, err)) return false;
    for (int i = 0; i < n; i++)
        if (!e[i].failed && !e[i].beside) trace_entry(r, &e[i]);
    return true;
}

static bool is_disturbed(const fb_recorder *r, const column_run *e)
{
    const fb_stat *wall = &e->report->wall_us;
    return !wall->n || wall->p90 > (r->o.spread > 0 ? r->o.spread : usual_spread) * wall->p10;
}

static void record_entry(fb_recorder *r, column_run *e);

/* Records what was measured well; what was disturbed waits for another try, or has had its last. */
static void take_measured(fb_recorder *r, column_run *e, int n)
{
    for (int i = 0; i < n; i++) {
        if (e[i].failed) continue;
        const fb_stat *wall = &e[i].report->wall_us;
        if (!is_disturbed(r, &e[i])) {
            record_entry(r, &e[i]);
            e[i].recorded = true;
        } else if (e[i].beside) {
            e[i].recorded = true; /* the file has it from before */
        } else if (++e[i].tries >= TRIES) {
            char low[32], high[32];
            say(r, "%s: left out, it was disturbed each of %d times: %s to %s", e[i].what, TRIES,
                fb_format_us(low, wall->p10), fb_format_us(high, wall->p90));
            e[i].failed = true;
            r->n.disturbed++;
        }
    }
}

/* By itself, where others stood in its way or it was disturbed. */
static void measure_alone(fb_recorder *r, column_run *e)
{
    while (!e->failed && !e->recorded && !fb_recorder_over(r)) {
        fb_error why = {0};
        stand_together(r, e, 1);
        bool ok = !e->failed && measure_together(r, e, 1, &why);
        if (!e->failed && !ok) entry_failed(r, e, &why);
        if (!ok) forget_files(r, e);
        release_entry(r, e);
        take_measured(r, e, 1);
    }
}

/* Those of n beside which the ones after them are measured too come last; returns how many. Where nothing else was among
 * the n they have been there in vain. */
static int keep_beside(column_run *e, int n)
{
    column_run *all = fb_alloc((size_t)n * sizeof *all);
    memcpy(all, e, (size_t)n * sizeof *all);
    int kept = 0, done = 0;
    for (int i = 0; i < n; i++) kept += all[i].beside && !all[i].failed;
    for (int i = 0, k = n - kept; i < n; i++) {
        bool again = all[i].beside && !all[i].failed;
        e[again ? k++ : done++] = all[i];
        if (again) e[k - 1].recorded = false;
    }
    fb_free(all);
    return done ? kept : 0;
}

/* All that are not known: as many as stand together at a time. */
static bool measure_entries(fb_recorder *r, entries *all, fb_error *err)
{
    for (int from = 0, n; from < all->n && !fb_recorder_over(r); from += n) {
        column_run *e = all->at + from;
        fb_error why = {0};
        say(r, "%s%s%s", e->what, all->n - from > 1 ? " … " : "", all->n - from > 1 ? all->at[all->n - 1].what : "");
        n = stand_together(r, e, all->n - from);
        bool ok = measure_together(r, e, n, &why);
        release_all(r, e, n);
        if (!ok) forget_files(r, e);
        if (ok) take_measured(r, e, n);
        for (int i = 0; i < n; i++)
            if (!e[i].beside) measure_alone(r, &e[i]);
        if (from + n < all->n) n -= keep_beside(e, n);
        if (!save(r, false, err)) return false;
    }
    return true;
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
            codes[n++] = fb_recording_code_name(p, &p->launches[i], fb_arena_alloc(arena, FB_SIGNATURE));
        }
        fb_recording_set_group(r->file, fb_recording_group_signature(plan, g, signature), n, codes);
    }
    fb_arena_free(arena);
}

static bool is_launch(const fb_launch *l)
{
    return l->kind == FB_LAUNCH_KERNEL || l->kind == FB_LAUNCH_GEMM;
}

static bool code_known(const fb_recorder *r, const fb_program *p, const fb_launch *l)
{
    char code[FB_SIGNATURE];
    fb_recorded_kernel have;
    return fb_recording_kernel(r->file, fb_recording_code_name(p, l, code), &have);
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
            fb_recording_set_kernel(r->file, fb_recording_code_name(p, &p->launches[i], code), &nothing),
                r->n.kernels++;
    return true;
}

/* ---- whole plans ---- */

static void record_rounds(const column_run *e, fb_rounds *to)
{
    to->n = e->report->n_rounds;
    for (int i = 0; i < to->n; i++) {
        to->at[i] = e->report->rounds[i];
        to->at[i].at_us += e->turn_us - e->since_us;
    }
}

/* What launching took is told of others by this: not where copies are in the same time. */
static double launches_noted(const fb_program *p)
{
    return fb_program_has_copies(p) ? 0 : (double)fb_program_launches(p);
}

/* Other launch modes of the same program stay as they were. */
static void record_plan(fb_recorder *r, const column_run *e)
{
    const fb_report *report = e->report;
    fb_launch_mode mode = fb_plan_launch_mode(e->plan);
    char code[FB_SIGNATURE];
    fb_recorded_plan *plan = fb_calloc(1, sizeof *plan), *have = fb_calloc(1, sizeof *have);
    fb_recording_program_code(e->program, plan->code);
    bool known = fb_recording_plan(r->file, e->signature, have) && strcmp(have->code, plan->code) == 0;
    json_t *kernels = known && mode == FB_LAUNCH_GRAPH ? fb_recording_plan_kernels(r->file, e->signature) : NULL;
    if (known) *plan = *have;
    fb_recording_graph_signature(e->graph, plan->graph);
    plan->wall_us[mode] = report->wall_us;
    record_rounds(e, &plan->rounds[mode]);
    if (mode != FB_LAUNCH_GRAPH || !plan->device_us.n) plan->device_us = report->device_us;
    if (mode != FB_LAUNCH_GRAPH) plan->cold_us = report->cold_us;
    plan->max_abs = report->error.max_abs;
    plan->max_rel = report->error.max_rel;
    plan->bound = report->error.bound;
    plan->undecided = report->error.undecided;
    plan->launches = launches_noted(e->program);
    plan->calls = (double)fb_program_calls(e->program);
    fb_recording_set_plan(r->file, e->signature, plan);
    for (int i = 0; !kernels && i < report->n_kernels; i++) {
        const fb_kernel_report *k = &report->kernels[i];
        fb_stat one = of_one(&k->device_us, k->count);
        if (!k->code || !k->device_us.n) continue;
        snprintf(code, sizeof code, "%s", k->code);
        fb_recording_set_plan_kernel(r->file, e->signature, code, &one);
    }
    if (kernels) fb_recording_set_plan_kernels(r->file, e->signature, kernels);
    if (e->timeline) fb_recording_set_timeline(r->file, e->signature, e->timeline);
    json_decref(kernels);
    fb_free(plan);
    fb_free(have);
    r->n.plans++;
}

/* The newest that there is room for. */
static void add_rounds(fb_rounds *to, const fb_rounds *more)
{
    int over = to->n + more->n - FB_ROUNDS, gone = over < 0 ? 0 : over < to->n ? over : to->n;
    if (to->n && more->n && more->at[0].at_us < to->at[to->n - 1].at_us) return; /* the calendar went back */
    to->n -= gone;
    memmove(to->at, to->at + gone, (size_t)to->n * sizeof *to->at);
    memcpy(to->at + to->n, more->at, (size_t)more->n * sizeof *to->at);
    to->n += more->n;
}

/* What it took is in the file; these samples are added to its own. */
static void record_beside(fb_recorder *r, const column_run *e)
{
    fb_launch_mode mode = fb_plan_launch_mode(e->plan);
    fb_recorded_plan *plan = fb_calloc(1, sizeof *plan);
    fb_rounds *more = fb_calloc(1, sizeof *more);
    json_t *kernels = fb_recording_plan_kernels(r->file, e->signature);
    if (fb_recording_plan(r->file, e->signature, plan)) {
        record_rounds(e, more);
        add_rounds(&plan->rounds[mode], more);
        fb_recording_set_plan(r->file, e->signature, plan);
        fb_recording_set_plan_kernels(r->file, e->signature, kernels);
    }
    json_decref(kernels);
    fb_free(more);
    fb_free(plan);
}

static void record_peer_plan(fb_recorder *r, const column_run *e);

static void record_entry(fb_recorder *r, column_run *e)
{
    if (e->beside) {
        record_beside(r, e);
    } else if (e->peer_plan) {
        record_peer_plan(r, e);
    } else {
        if (fb_plan_launch_mode(e->plan) != FB_LAUNCH_GRAPH) record_kernels(r, e->report);
        record_plan(r, e);
    }
}

/* As it stands in the file, with its samples. Recordings of before have no counts of launches: they come now. */
static bool plan_known(fb_recorder *r, const char *signature, const fb_program *p, fb_launch_mode mode)
{
    char code[FB_SIGNATURE];
    fb_recorded_plan *have = fb_calloc(1, sizeof *have);
    bool same =
        fb_recording_plan(r->file, signature, have) && strcmp(have->code, fb_recording_program_code(p, code)) == 0;
    bool known = same && have->wall_us[mode].n && have->rounds[mode].n && (mode == FB_LAUNCH_GRAPH || all_known(r, p));
    if (same && !(have->launches > 0))
        fb_recording_set_plan_launches(r->file, signature, launches_noted(p), (double)fb_program_calls(p));
    fb_free(have);
    return known;
}

static bool is_among(const entries *all, const char *signature, const fb_plan *plan)
{
    for (int i = 0; i < all->n; i++)
        if (strcmp(all->at[i].signature, signature) == 0 &&
            fb_plan_launch_mode(all->at[i].plan) == fb_plan_launch_mode(plan))
            return true;
    return false;
}

/* Adds a plan, which it takes, unless it is known: compiled or counted at once where nothing is measured. `beside`: a
 * known one too, for others to be measured beside it. */
static void add_plan(fb_recorder *r, entries *all, const char *what, const fb_graph *g, fb_plan *plan, bool beside)
{
    fb_error why = {0};
    column_run e = {.worker = &r->worker, .graph = g, .plan = plan};
    fb_launch_mode mode = fb_plan_launch_mode(plan);
    e.program = fb_lower(plan, r->target, &why);
    snprintf(e.what, sizeof e.what, "%s%s", what, mode == FB_LAUNCH_GRAPH ? " as a graph" : "");
    fb_recording_plan_signature(plan, e.signature);
    bool twice = is_among(all, e.signature, plan), known = e.program && plan_known(r, e.signature, e.program, mode);
    if (r->o.compile && e.program) known |= all_known(r, e.program);
    if (e.program) record_groups(r, plan, e.program);
    if (e.program && !twice && (!known || beside) && !r->o.compile && !r->o.list) {
        e.beside = known;
        e.counters = !known && mode != FB_LAUNCH_GRAPH;
        FB_VEC_PUSH(all, e);
        return;
    }
    r->n.known += known && !twice;
    if (!e.program || (!known && r->o.compile && !compile(r, e.program, &why)))
        failed(r, what, &why);
    else if (!known && !twice)
        r->n.plans++;
    if (e.program && !twice && !known) { /* so that it counts once */
        e.report = NULL;
        FB_VEC_PUSH(all, e);
        return;
    }
    fb_program_free(e.program);
    fb_plan_free(plan);
}

/* In its own launch mode, and where that is a stream and the device has graphs, as one of these. */
static void add_both(fb_recorder *r, entries *all, const char *what, const fb_graph *g, fb_plan *plan, bool beside)
{
    fb_plan *as_graph = NULL;
    const fb_edit edit = {.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_GRAPH};
    if (fb_plan_launch_mode(plan) == FB_LAUNCH_STREAM && fb_recording_machine(r->file)->target->graphs && !r->o.compile)
        fb_plan_try(plan, &edit, &as_graph);
    add_plan(r, all, what, g, plan, beside);
    if (as_graph) add_plan(r, all, what, g, as_graph, beside);
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
    fb_program *p = fb_lower(plan, r->target, NULL);
    json_t *missing = p ? json_object() : NULL;
    for (int i = 0; p && i < p->n_launches; i++) {
        const fb_launch *l = &p->launches[i];
        if (is_launch(l) && !code_known(r, p, l))
            json_object_set_new(missing, fb_recording_code_name(p, l, code), json_true());
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
    fb_program *p = r->o.compile ? fb_lower(plan, r->target, err) : NULL;
    if (r->o.compile) {
        bool ok = p && compile(r, p, err);
        fb_program_free(p);
        return ok;
    }
    column_run e = {.worker = &r->worker,
                    .graph = fb_planner_graph(fb_plan_planner(plan)),
                    .plan = (fb_plan *)(uintptr_t)plan,
                    .counters = true};
    bool ok = prepare_entry(r, &e, err) && sample_in_turns(r, &e, 1, FB_CACHE_HOT, err) &&
              sample_in_turns(r, &e, 1, FB_CACHE_COLD, err);
    release_entry(r, &e);
    if (ok) record_kernels(r, e.report);
    fb_report_free(e.report);
    return ok;
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
            failed(r, name, &why);
        }
        json_decref(missing);
        fb_plan_free(one);
    }
}

static void measure_pack(fb_recorder *r, const char *what, const fb_plan *plan, pack *k)
{
    fb_error why = {0};
    if (k->edges.n && !r->o.list && !measure_toggled(r, k->plan, &why)) measure_singly(r, what, plan, k);
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
        bool again = json_object_get(seen, fb_recording_plan_signature(one, signature)) != NULL; /* of a repetition */
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

/* Each of its edges would be another kernel that is as large, compiled for a second and measured by itself. */
static bool is_too_large(const fb_plan *plan)
{
    enum { MOST = 256 }; /* nodes of a kernel */
    int n_nodes = fb_planner_graph(fb_plan_planner(plan))->n_nodes, most = 0;
    int *members = fb_calloc((size_t)n_nodes + 1, sizeof *members); /* there is a group for some node each */
    for (int i = 0; i < n_nodes; i++) {
        int group = fb_plan_group_of(plan, i);
        if (group != FB_NONE && group < n_nodes && ++members[group] > most) most = members[group];
    }
    fb_free(members);
    return most > MOST;
}

static bool toggles_of(fb_recorder *r, const char *what, const fb_plan *plan, fb_error *err)
{
    if (is_too_large(plan)) return true;
    const fb_deps *d = fb_planner_deps(fb_plan_planner(plan));
    json_t **wanted = wanted_by_edge(r, plan);
    bool ok = true;
    for (int first = 0; ok && first < d->n_edges && !fb_recorder_over(r); first++) {
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

static void record_peer_plan(fb_recorder *r, const column_run *e)
{
    const fb_report *report = e->report;
    char graph[FB_SIGNATURE];
    fb_peer_plan *plan = fb_calloc(1, sizeof *plan);
    *plan = (fb_peer_plan){.wall_us = report->wall_us,
                           .device_us = report->device_us,
                           .cold_us = report->cold_us,
                           .launches = report->launches,
                           .launch_mode = report->launch_mode,
                           .max_abs = report->error.max_abs,
                           .max_rel = report->error.max_rel,
                           .bound = report->error.bound};
    record_rounds(e, &plan->rounds);
    fb_peer_kernel *all = fb_calloc((size_t)report->n_kernels + 1, sizeof *all);
    int n = 0;
    for (int i = 0; i < report->n_kernels; i++) {
        const fb_kernel_report *k = &report->kernels[i];
        if (k->name && k->device_us.n) all[n++] = (fb_peer_kernel){k->name, k->family, k->count, k->device_us};
    }
    qsort(all, (size_t)n, sizeof *all, by_time);
    plan->n_kernels = n < FB_PEER_KERNELS ? n : FB_PEER_KERNELS;
    memcpy(plan->kernels, all, (size_t)plan->n_kernels * sizeof *all);
    fb_free(all);
    fb_recording_set_peer_plan(r->file, fb_recording_graph_signature(e->graph, graph), r->peer.device, e->peer_plan,
                               plan);
    fb_free(plan);
    r->n.plans++;
}

static bool overlap(const fb_rounds *a, const fb_rounds *b)
{
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k + 1 < b->n; k++)
            if (a->at[i].at_us >= b->at[k].at_us && a->at[i].at_us <= b->at[k + 1].at_us &&
                b->at[k + 1].at_us - b->at[k].at_us < FB_ROUNDS_APART_US)
                return true;
    return false;
}

/* Were its samples taken in turns with those of any plan of ours? Where we have none there is nothing to compare. */
static bool in_turns_with_ours(const fb_recorder *r, const char *graph, const fb_rounds *rounds)
{
    fb_arena *arena = fb_arena_new();
    const char **plans;
    int n = fb_recording_plans(r->file, graph, arena, &plans);
    bool found = n == 0;
    fb_recorded_plan *ours = fb_calloc(1, sizeof *ours);
    for (int i = 0; i < n && !found; i++) {
        fb_recording_plan(r->file, plans[i], ours);
        for (size_t m = 0; m < sizeof ours->rounds / sizeof *ours->rounds; m++)
            found |= overlap(rounds, &ours->rounds[m]);
    }
    fb_free(ours);
    fb_arena_free(arena);
    return found;
}

static bool peer_known(const fb_recorder *r, const fb_graph *g, const char *plan)
{
    char graph[FB_SIGNATURE];
    fb_peer_plan *have = fb_calloc(1, sizeof *have);
    bool known = fb_recording_peer_plan(r->file, fb_recording_graph_signature(g, graph), r->peer.device, plan, have) &&
                 have->rounds.n && in_turns_with_ours(r, graph, &have->rounds);
    fb_free(have);
    return known;
}

static column_run peer_entry(fb_recorder *r, const char *script, const char *variant, const fb_graph *g,
                             const char *plan)
{
    column_run e = {.worker = &r->peer.worker, .graph = g, .peer_plan = plan};
    snprintf(e.what, sizeof e.what, "%.60s %.60s%s%.40s@%.40s", script, variant, variant[0] ? ":" : "", plan,
             r->peer.device);
    return e;
}

/* What is launched as a graph is the code of the plan that is not. */
static bool is_compiled_alone(const char *plan)
{
    return strncmp(plan, "eager", 5) != 0 && !strchr(plan, '+');
}

static bool compile_peers(fb_recorder *r, entries *all)
{
    for (int i = 0; i < all->n && !fb_recorder_over(r); i++) {
        column_run *e = &all->at[i];
        fb_error why = {0};
        say(r, "%s", e->what);
        if (prepare_with(r, e, false, &why))
            r->n.plans++;
        else
            entry_failed(r, e, &why);
        release_entry(r, e);
    }
    return true;
}

/* ---- graphs ---- */

static fb_plan *preset_plan(const fb_preset *preset, fb_planner *planner, fb_recorder *r, const char *what)
{
    fb_error why = {0};
    fb_plan *plan = preset->make(planner, &why);
    if (!plan) failed(r, what, &why);
    return plan;
}

/* The same plan, of our planner. */
static fb_plan *given_plan(fb_recorder *r, const char *what, fb_planner *planner, const fb_plan *given)
{
    fb_error why = {0};
    json_t *names = fb_plan_to_json(given);
    fb_plan *plan = fb_plan_from_json(planner, names, true, NULL, &why);
    if (!plan) failed(r, what, &why);
    json_decref(names);
    return plan;
}

static const char *call_it(char to[200], const char *script, const char *variant, const char *plan)
{
    snprintf(to, 200, "%.60s %.60s%s%.60s", script, variant, variant[0] ? ":" : "", plan);
    return to;
}

static void add_variant(fb_recorder *r, entries *all, const char *script, const fb_recorder_variant *v,
                        fb_planner *planner, bool beside)
{
    char what[200], number[40];
    for (int i = 0; i < fb_presets(); i++) {
        call_it(what, script, v->name, fb_preset_at(i)->name);
        fb_plan *plan = preset_plan(fb_preset_at(i), planner, r, what);
        if (plan) add_both(r, all, what, v->graph, plan, beside);
    }
    for (int i = 0; i < v->n_plans; i++) {
        snprintf(number, sizeof number, "plan %d of the script", i + 1);
        fb_plan *plan = given_plan(r, call_it(what, script, v->name, number), planner, v->plans[i]);
        if (plan) add_both(r, all, what, v->graph, plan, beside);
    }
}

bool fb_recorder_plans(fb_recorder *r, const char *script, int n, const fb_recorder_variant *v, fb_error *err)
{
    entries all = {0};
    fb_planner **planners = fb_calloc((size_t)n + 1, sizeof *planners);
    for (int k = 0; k < n; k++) {
        planners[k] = fb_planner_new(v[k].graph, fb_recording_machine(r->file));
        fb_recording_add_script(r->file, script, v[k].name, v[k].graph->hash);
        add_variant(r, &all, script, &v[k], planners[k], false);
    }
    bool ok = r->o.compile || r->o.list || measure_entries(r, &all, err);
    entries_free(&all);
    for (int k = 0; k < n; k++) fb_planner_free(planners[k]);
    fb_free(planners);
    return ok && save(r, false, err);
}

/* A variant's plans of the peer that are not known. */
static void add_peers(fb_recorder *r, entries *all, const char *script, const fb_recorder_variant *v)
{
    json_t *name;
    size_t i;
    json_array_foreach(r->peer.plans, i, name)
    {
        const char *plan = json_string_value(name);
        if (json_object_get(r->peer.without, plan)) continue;
        if (peer_known(r, v->graph, plan))
            r->n.known++;
        else if (r->o.list)
            r->n.plans++;
        else if (r->peer.worker && (!r->o.compile || is_compiled_alone(plan)))
            FB_VEC_PUSH(all, peer_entry(r, script, v->name, v->graph, plan));
    }
}

/* Before them come ours of all variants, so that theirs are measured in turns with these. */
bool fb_recorder_peers(fb_recorder *r, const char *script, int n, const fb_recorder_variant *v, fb_error *err)
{
    entries theirs = {0}, all = {0};
    fb_planner **planners = fb_calloc((size_t)n + 1, sizeof *planners);
    for (int k = 0; k < n; k++) {
        if (!r->o.compile && !r->o.list) fb_recording_add_script(r->file, script, v[k].name, v[k].graph->hash);
        add_peers(r, &theirs, script, &v[k]);
    }
    int known = r->n.known;
    for (int k = 0; theirs.n && !r->o.compile && k < n; k++) {
        planners[k] = fb_planner_new(v[k].graph, fb_recording_machine(r->file));
        add_variant(r, &all, script, &v[k], planners[k], true);
    }
    r->n.known = known;
    for (int i = 0; i < theirs.n; i++) FB_VEC_PUSH(&all, theirs.at[i]);
    bool ok = r->o.compile ? compile_peers(r, &all) : measure_entries(r, &all, err);
    FB_VEC_FREE(&theirs);
    entries_free(&all);
    for (int k = 0; k < n; k++)
        if (planners[k]) fb_planner_free(planners[k]);
    fb_free(planners);
    return ok;
}

bool fb_recorder_toggles(fb_recorder *r, const char *script, int n, const fb_recorder_variant *v, fb_error *err)
{
    bool ok = true;
    for (int k = 0; ok && k < n; k++) {
        fb_planner *planner = fb_planner_new(v[k].graph, fb_recording_machine(r->file));
        for (int i = 0; ok && i < fb_presets() && !fb_recorder_over(r); i++) {
            char what[200];
            call_it(what, script, v[k].name, fb_preset_at(i)->name);
            fb_plan *plan = preset_plan(fb_preset_at(i), planner, r, what);
            if (!plan) continue;
            ok = toggles_of(r, what, plan, err);
            fb_plan_free(plan);
        }
        fb_planner_free(planner);
    }
    return ok;
}

/* ---- experiments ---- */

static json_t *failed_case(const char *why, fb_error_kind kind)
{
    return json_pack("{s:s, s:s}", "failed", why, "failed_kind", fb_error_kind_name(kind));
}

/* Graphs of the same script gather until its experiment has ended; until then it keeps those it had. */
static void note_case(fb_recorder *r, const char *script, const fb_graph *g)
{
    char graph[FB_SIGNATURE];
    if (!r->cases_of || strcmp(r->cases_of, script) != 0) {
        fb_free(r->cases_of);
        json_decref(r->cases);
        r->cases_of = fb_strdup(script);
        r->cases = json_object();
    }
    json_object_set_new(r->cases, fb_recording_graph_signature(g, graph), json_true());
    const json_t *had = fb_recording_experiment(r->file, script);
    json_t *now = had ? json_deep_copy(had) : json_object();
    json_object_update(now, r->cases);
    fb_recording_set_experiment(r->file, script, now);
    json_decref(now);
}

void fb_recorder_experiment_done(fb_recorder *r, const char *script)
{
    if (!r->cases_of || strcmp(r->cases_of, script) != 0 || fb_recorder_over(r)) return;
    fb_recording_set_experiment(r->file, script, r->cases);
}

static json_t *known_case(void)
{
    return failed_case("it is in the recording", FB_ERR_UNAVAILABLE);
}

json_t *fb_recorder_case(fb_recorder *r, const char *script, const fb_graph *g, const fb_plan *plan,
                         const char *plan_name, const char *device)
{
    entries all = {0};
    fb_error err = {0};
    fb_planner *planner = fb_planner_new(g, fb_recording_machine(r->file));
    char what[200];
    json_t *report = NULL;
    call_it(what, script, "", plan_name);
    if (fb_recorder_over(r)) {
        fb_planner_free(planner);
        return failed_case("the time is over", FB_ERR_LIMIT);
    }
    if (plan) {
        note_case(r, script, g);
        const fb_preset *preset = fb_preset_find(plan_name);
        fb_plan *ours = preset ? preset_plan(preset, planner, r, what) : given_plan(r, what, planner, plan);
        if (ours) add_plan(r, &all, what, g, ours, false);
    } else if (r->peer.worker && strcmp(device, r->peer.device) == 0 && !peer_known(r, g, plan_name)) {
        note_case(r, script, g);
        FB_VEC_PUSH(&all, peer_entry(r, script, "", g, plan_name));
    } else {
        r->n.known += peer_known(r, g, plan_name);
    }
    bool ok = r->o.compile || r->o.list || measure_entries(r, &all, &err);
    if (ok && all.n && all.at[0].recorded) report = fb_report_to_json(all.at[0].report);
    entries_free(&all);
    fb_planner_free(planner);
    return report ? report : known_case();
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

/* "h200.json.gz" for "NVIDIA H200 141GB", whose machine is its accelerator: the first word with a digit; else the
 * device's kind. */
static char *short_path(const fb_target *target, const char *machine, const char *device)
{
    char name[41] = "";
    for (const char *at = machine; target->accelerates && *at && !name[0];) {
        size_t n = strcspn(at, " "), k = 0;
        bool fits = strcspn(at, "0123456789") < n && n < sizeof name;
        for (size_t i = 0; fits && i < n; i++)
            if (isalnum((unsigned char)at[i])) name[k++] = fb_ascii_lower(at[i]);
        at += n + (at[n] == ' ');
    }
    fb_str path = {0};
    fb_str_add_n(&path, name[0] ? name : device, name[0] ? strlen(name) : strcspn(device, ":"));
    fb_str_add(&path, ".json.gz");
    return fb_str_take(&path);
}

/* Goes on with what an earlier run left. `machine` NULL: of whatever machine. */
static bool reopen(fb_recorder *r, const char *machine, fb_error *err)
{
    size_t n;
    char *text = fb_read_file(r->path, FB_RECORDING_MAX, &n, err);
    r->file = text ? fb_recording_read(text, n, err) : NULL;
    fb_free(text);
    if (!r->file) return fb_fail_prefix(err, "%s", r->path);
    if (!machine) return true;
    const char *was = fb_recording_text(r->file, "device");
    if (was && strcmp(machine, was) == 0) return true;
    return fb_fail(err, FB_ERR_INPUT, "%s is a recording of %s, and this is %s", r->path, was ? was : "another",
                   machine);
}

/* Before anything is measured. */
static bool can_be_written(const char *path, fb_error *err)
{
    fb_new_file f;
    if (!fb_new_file_begin(&f, path, 0, err)) return false;
    fb_new_file_abandon(&f);
    return true;
}

static bool open_or_begin(fb_recorder *r, const json_t *entry, fb_error *err)
{
    fb_machine m;
    const char *machine = fb_json_string_or(entry, "name", "");
    r->path = r->o.out ? fb_strdup(r->o.out) : short_path(r->target, machine, r->device);
    if (!can_be_written(r->path, err)) return false;
    if (access(r->path, F_OK) == 0) return reopen(r, machine, err);
    if (!find_machine(r, entry, &m, err)) return false;
    r->file = fb_recording_new(&m);
    return true;
}

static bool open_file(fb_recorder *r, const json_t *entry, fb_error *err)
{
    if (!open_or_begin(r, entry, err)) return false;
    if (fb_recorder_machine(r)->doubted)
        say(r,
            "%s was busy when it was calibrated: the recording keeps a calibration that is doubted, and no time is "
            "predicted by it",
            r->device);
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
    if (!answer(r, &w, fb_worker_devices(w, false), &e, err)) {
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
    r->target = ops->target;
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

/* Nothing is measured: there is no device. Which plans a peer has, those of its recorded ones tell. */
static bool open_unmeasured(fb_recorder *r, fb_error *err)
{
    static const char *const usual[] = {"eager", "eager+graph", "compile", "compile+graph"};
    bool there = r->o.out && access(r->o.out, F_OK) == 0;
    r->path = fb_strdup(r->o.out ? r->o.out : "");
    if (!there && !r->o.machine)
        return fb_fail(err, FB_ERR_USAGE, "%s: there is no such recording: nothing is done yet",
                       r->o.out ? r->o.out : "--out");
    if (there && !reopen(r, NULL, err)) return false;
    if (!there) r->file = fb_recording_new(r->o.machine);
    r->target = fb_recording_machine(r->file)->target;
    fb_str missing = {0};
    for (int i = 0; r->o.compile && i < r->o.n_workers; i++)
        if (!take_worker(r, i, &missing, err)) return false;
    fb_str_free(&missing);
    if (r->peer.worker) return true;
    r->peer.device = fb_strdup("torch");
    r->peer.plans = json_array();
    r->peer.without = json_object();
    for (size_t i = 0; r->o.list && i < sizeof usual / sizeof *usual; i++)
        if (r->target->graphs || !strchr(usual[i], '+')) json_array_append_new(r->peer.plans, json_string(usual[i]));
    return true;
}

fb_recorder *fb_recorder_new(const fb_recorder_options *o, fb_error *err)
{
    fb_recorder *r = fb_calloc(1, sizeof *r);
    r->o = *o;
    r->device = fb_strdup(o->device);
    int64_t since = fb_now_ns();
    if (o->compile || o->list ? open_unmeasured(r, err) : open_all(r, err)) {
        if (o->seconds > 0) r->until_ns = since + (int64_t)(o->seconds * 1e9); /* calibrating is seen to its end */
        return r;
    }
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
    json_decref(r->sent[0]);
    json_decref(r->sent[1]);
    json_decref(r->devices);
    json_decref(r->cases);
    fb_free(r->cases_of);
    fb_free(r->device);
    fb_free(r->path);
    fb_free(r);
}

const char *fb_recorder_path(const fb_recorder *r)
{
    return r->path;
}

const fb_machine *fb_recorder_machine(const fb_recorder *r)
{
    return fb_recording_machine(r->file);
}

int fb_recorder_peer(const fb_recorder *r)
{
    return r->peer.worker ? r->peer.given : -1;
}

bool fb_recorder_finish(fb_recorder *r, fb_error *err)
{
    if (r->o.compile || r->o.list) return true;
    fb_recording_prune(r->file);
    return save(r, true, err);
}

fb_recorder_counts fb_recorder_counted(const fb_recorder *r)
{
    return r->n;
}
