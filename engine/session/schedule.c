/* Measuring. Every machine has at most one request under way, whichever of its workers serves it, so that nothing
 * disturbs a measurement and a new wish or a cancel takes effect at once:
 *
 *     search for plans → prepare all that wait → one small sample request each in turn until each has enough, hot →
 * check each → the same cold → a trace each, where that is wanted → release
 *
 * Turns are what makes a comparison fair: drift of clocks and caches hits all columns alike. A column that comes later
 * is prepared at once and joins the turns.
 */
#include "session/internal.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "interp/input.h"
#include "measure/audit.h"
#include "measure/compare.h"
#include "script/files.h"

#include <math.h>
#include <string.h>

enum {
    HOT_LEAST = 20, /* samples */
    HOT_MOST = 2000,
    CHUNK_MOST = 256,
    LONG_CHUNK_MOST = 1024, /* of columns that are compared: short runs have as many rounds as long ones */
    MANY_NODES = 1000,      /* in kernels */
    COLD = 10,
    COLD_FEWEST = 3,
};
static const double hot_us = 350e3, patience_us = 8e6, chunk_us = 25e3, cold_patience_us = 2e6;

static fb_worker *worker_of(const fb_session *s, const fb_job *j)
{
    return s->workers[j->worker].worker;
}

/* ---- jobs ---- */

static void job_remove(fb_session *s, fb_job *j)
{
    for (int i = 0; i < s->jobs.n; i++)
        if (s->jobs.at[i] == j) {
            memmove(s->jobs.at + i, s->jobs.at + i + 1, (size_t)(--s->jobs.n - i) * sizeof j);
            break;
        }
    fb_free(j);
}

static void job_end(fb_session *s, fb_job *j)
{
    if (j->id) fb_worker_release(worker_of(s, j), j->id);
    if (j->column) j->column->job = NULL;
    job_remove(s, j);
}

void fb_job_forget(fb_column_record *c)
{
    fb_job *j = c->job;
    if (!j) return;
    c->job = NULL;
    j->column = NULL;
    if (!j->outstanding)
        job_end(c->session, j);
    else if (j->stage == FB_JOB_PREPARING || j->stage == FB_JOB_SEARCH || j->checking)
        fb_worker_cancel(worker_of(c->session, j), j->id);
    /* A sample is short: its answer ends the job. */
}

void fb_job_start(fb_session *s, fb_column_record *c, bool verify_only)
{
    if (c->shown.state == FB_COLUMN_BUILDING) {
        if (verify_only)
            c->verify_wanted = true;
        else
            c->measure_wanted = true;
        return;
    }
    if (c->job || (!c->shown.plan && !fb_column_foreign(c))) return;
    bool wait = false;
    fb_error why = {0};
    fb_device_record *d = fb_session_device_named(s, c->device, &wait, &why);
    if (!d || !fb_kernels_ready(c, &why)) {
        fb_column_fail(c, &why);
        return;
    }
    fb_job *j = fb_calloc(1, sizeof *j);
    j->column = c;
    j->worker = d->worker;
    j->verify_only = verify_only;
    c->job = j;
    c->changed_ns = 0;
    fb_timeline_free(c->timeline);
    c->timeline = NULL;
    c->no_timeline = (fb_error){0};
    FB_VEC_PUSH(&s->jobs, j);
    fb_devices_interrupt(s, d->worker);
    fb_column_set_state(c, FB_COLUMN_QUEUED);
}

static void job_failed(fb_session *s, fb_job *j, const fb_error *why)
{
    fb_column_record *c = j->column;
    job_end(s, j);
    if (!c) return;
    if (why->kind == FB_ERR_CANCELLED)
        fb_column_set_state(c, c->report ? FB_COLUMN_DONE : FB_COLUMN_READY);
    else
        fb_column_fail(c, why);
}

void fb_scheduler_unpair(fb_column_record *c)
{
    if (c->against && c->against->against == c) c->against->against = NULL;
    c->against = NULL;
    c->turn_us = 0;
}

static void job_done(fb_session *s, fb_job *j)
{
    fb_column_record *c = j->column;
    job_end(s, j);
    s->measured++;
    if (!c) return;
    fb_scheduler_unpair(c);
    fb_column_set_state(c, FB_COLUMN_DONE);
    fb_devices_judge(s, c);
}

/* Measured: traced as well where that is wanted. */
static void job_measured(fb_session *s, fb_job *j)
{
    if (s->trace && j->column)
        j->stage = FB_JOB_TRACE;
    else
        job_done(s, j);
}

/* ---- reports ---- */

/* What the worker cannot know, and what the front predicted. */
static void complete(const fb_column_record *c, fb_report *r)
{
    r->script = fb_arena_strdup(r->arena, c->session->path);
    r->variant = fb_arena_strdup(r->arena, c->shown.variant);
    r->plan = fb_arena_strdup(r->arena, c->plan_name);
    r->device = fb_arena_strdup(r->arena, c->shown.device);
    json_decref(r->params);
    r->params = json_deep_copy(c->shown.params);
    r->nodes = c->shown.graph->n_nodes;
    r->values = c->inputs ? fb_arena_strdup(r->arena, c->inputs) : NULL;
    r->computes = c->shown.computes ? fb_arena_strdup(r->arena, c->shown.computes) : NULL;
    json_decref(r->search);
    r->search = c->shown.search ? fb_best_summary_to_json(c->shown.search) : NULL;
    if (c->shown.machine && c->shown.machine->doubted) fb_report_withdraw(r);
    if (!c->shown.plan || (c->shown.machine && c->shown.machine->doubted)) return;
    const fb_plan_cost *p = &c->shown.predicted;
    if (!isfinite(r->predicted_us)) r->predicted_us = p->us;
    if (!isfinite(r->floor_us)) r->floor_us = p->floor_us;
    r->floor_guessed = p->floor_guessed;
}

/* What was found to come out belongs to the variant: its other columns know it by that. What the script says goes
 * before what is found. */
static void learn_computes(fb_column_record *c, fb_report *later)
{
    if (c->slot->said && !c->inputs) {
        later->computes = fb_arena_strdup(later->arena, c->slot->computes);
        return;
    }
    if (!later->computes || c->inputs || !c->shown.computes) return;
    if (strcmp(later->computes, c->shown.computes) == 0) return;
    fb_slot_computes(c->session, c->slot, later->computes);
    c->shown.computes = c->slot->computes; /* also of one that is no column of the session */
    if (c->report) c->report->computes = fb_arena_strdup(c->report->arena, later->computes);
}

static void take_report(fb_job *j, fb_worker_event *e)
{
    fb_column_record *c = j->column;
    if (!c || !e->report) return;
    if (j->look && c->report && !c->report->failed) return; /* it is looked at, not timed: its figures stay */
    learn_computes(c, e->report);
    if (c->report && fb_json_bool_or(e->message, "brief", false) && fb_report_refresh(c->report, e->report)) {
        fb_session_changed(c->session);
        return;
    }
    complete(c, e->report);
    fb_report_free(c->report);
    c->report = e->report;
    e->report = NULL;
    c->shown.report = c->report;
    fb_session_changed(c->session);
}

/* A plan whose answer is wrong shows no time: the column fails and its report keeps the error alone. */
static bool is_wrong(const fb_job *j, fb_error *why)
{
    const fb_report *r = j->column ? j->column->report : NULL;
    if (!r || r->failed || !fb_report_is_wrong(r)) return false;
    return !fb_fail(why, FB_ERR_INPUT, "wrong result%s%s%s%s", r->error.kernel[0] ? " of kernel " : "", r->error.kernel,
                    r->error.worst[0] ? ": " : "", r->error.worst);
}

/* Its figures are all there is: sampling adds none. */
static bool is_recalled(const fb_job *j)
{
    return j->column && j->column->report && j->column->report->source != FB_SOURCE_MEASURED;
}

static bool has_failed(const fb_job *j, fb_error *why)
{
    const fb_report *r = j->column ? j->column->report : NULL;
    if (r && r->failed) return !fb_fail(why, r->failed_kind, "%s", r->failed);
    return is_wrong(j, why);
}

/* ---- requests ---- */

static bool read_beside_graph(const fb_session *s, const fb_node *node, fb_session_weights *out, fb_error *err)
{
    const char *key = node->attrs->file;
    size_t stem = s->path ? strlen(s->path) : 0;
    if (stem < 5 || strcmp(s->path + stem - 5, ".json") != 0 || strchr(key, '/'))
        return fb_fail(err, FB_ERR_INPUT, "%s: its file %s is not there", node->name, key);
    fb_str path = {0};
    fb_file_table table;
    fb_str_addf(&path, "%.*s.weights/%s.npy", (int)(stem - 5), s->path, key);
    bool ok = fb_weights_read(fb_str_get(&path), key, &table, err);
    if (ok && !fb_shape_equal(&table.shape, &node->shape)) {
        fb_free(table.values);
        ok = fb_fail(err, FB_ERR_INPUT, "%s: not of the shape of %s", fb_str_get(&path), node->name);
    }
    if (ok) *out = (fb_session_weights){.values = table.values, .n = table.n, .own = table.values};
    fb_str_free(&path);
    return ok;
}

bool fb_session_file(const fb_session *s, const fb_node *node, fb_session_weights *out, fb_error *err)
{
    *out = (fb_session_weights){0};
    if (!s->script) return read_beside_graph(s, node, out, err);
    out->values = fb_script_file(s->script, node->attrs->file, &out->n);
    return out->values || fb_fail(err, FB_ERR_INPUT, "%s: its file %s is not there", node->name, node->attrs->file);
}

bool fb_scheduler_send_files(fb_session *s, int worker, const fb_graph *g, fb_error *err)
{
    fb_worker_record *w = &s->workers[worker];
    for (int i = 0; i < g->n_nodes; i++) {
        const char *key = g->nodes[i].attrs->file;
        bool there = !key || g->nodes[i].attrs->dist != FB_DIST_FILE;
        for (int k = 0; k < w->files.n && !there; k++) there = strcmp(w->files.at[k], key) == 0;
        if (there) continue;
        fb_session_weights read;
        if (!fb_session_file(s, &g->nodes[i], &read, err)) return false;
        fb_worker_send_file(w->worker, key, read.values, read.n);
        FB_VEC_PUSH(&w->files, fb_strdup(key));
        fb_free(read.own);
    }
    return true;
}

static void forget_files(fb_worker_record *w)
{
    while (w->files.n) fb_free(w->files.at[--w->files.n]);
}

/* Inputs rotate while a case is timed, or are what its column says; to be checked alone, one set is enough. */
static fb_measure_options seeds_of(const fb_session *s, const fb_job *j)
{
    fb_input_kind kind = FB_INPUT_NOISE;
    if (j->column && j->column->inputs) fb_input_kind_parse(j->column->inputs, &kind);
    return (fb_measure_options){.seeds = {s->options.seed, fb_input_seed(kind, s->options.seed + 1)},
                                .n_seeds = j->verify_only ? 1 : 2};
}

static void prepare(fb_session *s, fb_job *j)
{
    fb_column_record *c = j->column;
    fb_worker *w = worker_of(s, j);
    fb_measure_options o = seeds_of(s, j);
    bool counters = c->shown.machine && c->shown.machine->target->counters;
    o.counters = j->counting = s->options.counters && counters && !j->verify_only && !j->uncounted.kind;
    fb_error why = {0};
    if (!fb_scheduler_send_files(s, j->worker, c->shown.written, &why)) {
        job_failed(s, j, &why);
        return;
    }
    j->stage = FB_JOB_PREPARING;
    j->outstanding = true;
    j->hot = j->cold = j->rounds = 0;
    j->spent_us = j->least_us = 0;
    const char *device = fb_session_device_called(s, c->shown.device);
    j->id = c->obeyed       ? fb_worker_prepare_json(w, c->shown.written, c->obeyed, device, &o)
            : c->shown.plan ? fb_worker_prepare(w, c->shown.written, c->shown.plan, device, &o)
                            : fb_worker_prepare_named(w, c->shown.written, c->plan_name, device, &o);
    fb_column_set_state(c, FB_COLUMN_MEASURING);
}

static bool times_alone(const fb_job *j)
{
    return j->column && j->column->turn_us > 0;
}

/* By the shortest run, not by the time that was spent: what other processes took of it would make the rounds of one
 * column shorter than those of its like, and short ones are slower, for a processor wakes up slowly. */
static double each_us(const fb_job *j)
{
    return j->least_us > 0 ? j->least_us : j->spent_us / j->hot;
}

static int chunk(const fb_job *j)
{
    if (j->stage == FB_JOB_COLD) return COLD / 2;
    if (!j->rounds) return 3;
    int most = j->column && j->column->against ? LONG_CHUNK_MOST : CHUNK_MOST;
    double turn_us = times_alone(j) ? j->column->turn_us : chunk_us, each = each_us(j);
    double n = each > 0 ? turn_us / each : most;
    return n < 1 ? 1 : n > most ? most : (int)n;
}

/* Thousands of names take longer to read than a key may wait for its frame: what was prepared has told them. */
static bool names_many(const fb_job *j)
{
    const fb_report *r = j->column ? j->column->report : NULL;
    int nodes = 0;
    for (int i = 0; r && i < r->n_kernels; i++) nodes += r->kernels[i].n_nodes;
    return nodes > MANY_NODES;
}

static void sample(fb_session *s, fb_job *j)
{
    j->asked = chunk(j);
    j->asked_us = fb_now_us();
    j->outstanding = true;
    fb_worker_sample(worker_of(s, j), j->id, j->asked, j->stage == FB_JOB_COLD ? FB_CACHE_COLD : FB_CACHE_HOT,
                     names_many(j));
}

static void check(fb_session *s, fb_job *j)
{
    fb_measure_options o = seeds_of(s, j);
    j->outstanding = j->checking = true;
    fb_worker_check(worker_of(s, j), j->id, j->column->shown.written,
                    fb_session_device_called(s, j->column->shown.device), &o);
}

static void trace(fb_session *s, fb_job *j)
{
    j->outstanding = true;
    fb_worker_trace(worker_of(s, j), j->id, s->trace_metrics);
}

static void look(fb_session *s, fb_job *j)
{
    j->outstanding = true;
    fb_worker_values(worker_of(s, j), j->id, j->column->looked_at);
}

static void sampled(fb_job *j, const json_t *message)
{
    j->rounds++;
    double elapsed_us = fb_now_us() - j->asked_us - fb_json_number_or(message, "waited_us", 0);
    j->spent_us += fmax(0, fb_json_number_or(message, "took_us", elapsed_us));
    j->least_us = fb_json_number_or(message, "least_us", NAN); /* a foreign worker does not say */
    if (j->stage == FB_JOB_HOT)
        j->hot += j->asked;
    else
        j->cold += j->asked;
    if (j->column) j->column->shown.fraction = fmin(1, j->spent_us / hot_us);
}

/* Both are being sampled, and more of it may still tell them apart. */
static bool unsettled(const fb_job *j)
{
    const fb_column_record *a = j->column, *b = a ? a->against : NULL;
    const fb_job *other = b ? b->job : NULL;
    if (!other || other->stage != FB_JOB_HOT || !a->report || !b->report) return false;
    return !fb_compare_settled(a->report, b->report, j->spent_us + other->spent_us);
}

/* Where its partner is no more, there is nothing to wait for; nor where too many rounds are dropped. */
static bool times_enough(const fb_job *j)
{
    enum { PATIENCE = 4 };
    const fb_column_record *c = j->column;
    bool alone = !c->against || !c->against->job;
    return alone || (c->report && c->report->n_rounds >= c->rounds_wanted) || j->rounds >= PATIENCE * c->rounds_wanted;
}

static bool hot_enough(const fb_job *j)
{
    if (times_alone(j)) return times_enough(j);
    if (unsettled(j)) return false;
    /* Of fewer rounds a comparison with another column tells little, or nothing. */
    if (j->rounds < (j->spent_us > patience_us ? FB_PAIRS_FEW : FB_PAIRS_LEAST)) return false;
    if (j->spent_us > patience_us) return true;
    return j->hot >= HOT_LEAST && (j->spent_us >= hot_us || j->hot >= HOT_MOST);
}

static bool cold_enough(const fb_job *j)
{
    return j->cold >= COLD || (j->cold >= COLD_FEWEST && j->spent_us > cold_patience_us);
}

/* ---- turns ---- */

/* A column still on its way that is to be measured with the others. */
static bool someone_comes(const fb_session *s)
{
    for (int i = 0; i < s->columns.n; i++)
        if (s->columns.at[i]->measure_wanted && s->columns.at[i]->shown.state == FB_COLUMN_BUILDING) return true;
    return false;
}

/* On the same machine as the worker. */
static bool shares(const fb_session *s, const fb_job *j, int worker)
{
    return j->worker == worker || fb_same_machine(&s->workers[j->worker], &s->workers[worker]);
}

static bool any_in(const fb_session *s, int worker, fb_job_stage stage)
{
    for (int i = 0; i < s->jobs.n; i++)
        if (shares(s, s->jobs.at[i], worker) && s->jobs.at[i]->stage == stage) return true;
    return false;
}

static fb_job *least_rounds(const fb_session *s, int worker, fb_job_stage stage)
{
    fb_job *best = NULL;
    for (int i = 0; i < s->jobs.n; i++) {
        fb_job *j = s->jobs.at[i];
        if (shares(s, j, worker) && j->stage == stage && (!best || j->rounds < best->rounds)) best = j;
    }
    return best;
}

/* A time is shown from the first sample on; what it is worth, the check says. */
static bool is_unchecked(const fb_job *j)
{
    return j->column && j->column->report && j->column->report->error.state == FB_CHECK_CHECKING;
}

static fb_job *unchecked(const fb_session *s, int worker)
{
    for (int i = 0; i < s->jobs.n; i++) {
        fb_job *j = s->jobs.at[i];
        bool due = j->stage == FB_JOB_CHECK || (j->stage == FB_JOB_HOT && hot_enough(j) && is_unchecked(j));
        if (shares(s, j, worker) && due) return j;
    }
    return NULL;
}

/* Those of which no more is wanted than the times that they have. */
static void end_times_alone(fb_session *s, int worker)
{
    for (int i = s->jobs.n; i-- > 0;) {
        fb_job *j = s->jobs.at[i];
        if (shares(s, j, worker) && j->stage == FB_JOB_HOT && times_alone(j) && hot_enough(j)) job_done(s, j);
    }
}

/* Hot ones that have enough wait for the others before any cache is flushed. */
static void go_cold(fb_session *s, int worker)
{
    for (int i = 0; i < s->jobs.n; i++) {
        fb_job *j = s->jobs.at[i];
        if (!shares(s, j, worker) || j->stage != FB_JOB_HOT) continue;
        j->stage = FB_JOB_COLD;
        j->rounds = 0;
        j->spent_us = 0;
    }
}

/* Who is behind, and of several anyone: a machine that others use has rhythms of its own, and by one order again and
 * again one column would always have the better half. */
static fb_job *hot_turn(const fb_session *s, int worker)
{
    fb_job *best = NULL;
    int alike = 0;
    for (int i = 0; i < s->jobs.n; i++) {
        fb_job *j = s->jobs.at[i];
        if (!shares(s, j, worker) || j->stage != FB_JOB_HOT || hot_enough(j)) continue;
        if (best && j->rounds > best->rounds) continue;
        alike = best && j->rounds == best->rounds ? alike + 1 : 1;
        if (fb_seed_unseen() % (uint64_t)alike == 0) best = j;
    }
    return best;
}

static bool busy(const fb_session *s, int worker)
{
    for (int i = 0; i < s->jobs.n; i++)
        if (shares(s, s->jobs.at[i], worker) && s->jobs.at[i]->outstanding) return true;
    return false;
}

static void next_turn(fb_session *s, int worker)
{
    if (busy(s, worker)) return;
    fb_job *j = least_rounds(s, worker, FB_JOB_SEARCH);
    if (j) {
        fb_search_send(s, j);
        return;
    }
    j = least_rounds(s, worker, FB_JOB_WAITING);
    if (j) {
        prepare(s, j);
        return;
    }
    if (someone_comes(s)) return;
    if (any_in(s, worker, FB_JOB_HOT)) {
        j = hot_turn(s, worker);
    }
    if (!j) {
        end_times_alone(s, worker);
        fb_job *due = unchecked(s, worker);
        if (due) {
            check(s, due);
            return;
        }
        go_cold(s, worker);
    }
    if (!j) j = least_rounds(s, worker, FB_JOB_COLD);
    if (j) {
        sample(s, j);
        return;
    }
    j = least_rounds(s, worker, FB_JOB_TRACE);
    if (j) {
        trace(s, j);
        return;
    }
    j = least_rounds(s, worker, FB_JOB_VALUES);
    if (j) look(s, j);
}

void fb_scheduler_run(fb_session *s)
{
    for (int i = 0; i < s->n_workers; i++) next_turn(s, i);
}

/* ---- answers ---- */

static fb_job *job_of(const fb_session *s, int worker, int64_t id)
{
    for (int i = 0; i < s->jobs.n; i++)
        if (id && s->jobs.at[i]->worker == worker && s->jobs.at[i]->id == id) return s->jobs.at[i];
    return NULL;
}

/* The process that held the prepared cases is gone, or was ended by a cancel: the other jobs begin again. */
static void process_died(fb_session *s, int worker, const fb_job *but)
{
    forget_files(&s->workers[worker]);
    for (int i = 0; i < s->jobs.n; i++) {
        fb_job *j = s->jobs.at[i];
        if (j == but || j->worker != worker || !j->id || j->outstanding) continue;
        fb_worker_release(worker_of(s, j), j->id); /* should it be there still */
        j->id = 0;
        j->stage = FB_JOB_WAITING;
    }
}

/* For whoever runs it, as what the script prints. */
static void tell(fb_session *s, const fb_job *j, const char *what)
{
    fb_str line = {0};
    fb_str_addf(&line, "%s: %.300s", j->column->text, what);
    fb_session_log(s, line.text, true);
    fb_str_free(&line);
}

/* What a framework made of a plan that it was to keep to: group by group where it did not. */
static void say_obeyed(fb_session *s, const fb_job *j, const json_t *message)
{
    enum { MOST = 20 };
    const json_t *told = json_object_get(json_object_get(message, "report"), "obeyed");
    const json_t *others = json_object_get(told, "others"), *note;
    if (!told || !j->column) return;
    int64_t groups = fb_json_int_or(told, "groups", 0), kernels = fb_json_int_or(told, "kernels", 0);
    fb_str line = {0};
    fb_str_addf(&line, "%lld of %lld groups are kernels as planned; %lld kernels in all",
                (long long)fb_json_int_or(told, "obeyed", 0), (long long)groups, (long long)kernels);
    tell(s, j, line.text);
    size_t i, n = json_array_size(others);
    json_array_foreach(others, i, note)
    {
        if (i < MOST && json_is_string(note)) tell(s, j, json_string_value(note));
    }
    fb_str_clear(&line);
    fb_str_addf(&line, "and %zu groups more", n - MOST);
    if (n > MOST) tell(s, j, line.text);
    fb_str_free(&line);
}

static void prepared(fb_session *s, fb_job *j, fb_worker_event *e)
{
    fb_error why = {0};
    say_obeyed(s, j, e->message);
    if (j->uncounted.kind) s->uncounted = j->uncounted;
    take_report(j, e);
    if (!j->column)
        job_end(s, j);
    else if (j->look && !is_recalled(j))
        j->stage = FB_JOB_VALUES;
    else if (has_failed(j, &why))
        job_failed(s, j, &why);
    else if (is_recalled(j) && !j->verify_only && j->column->shown.plan)
        job_measured(s, j);
    else if (is_recalled(j) || (j->verify_only && !is_unchecked(j)))
        job_done(s, j);
    else
        j->stage = j->verify_only ? FB_JOB_CHECK : FB_JOB_HOT;
}

static void more_samples(fb_session *s, fb_job *j, fb_worker_event *e)
{
    fb_error why = {0};
    sampled(j, e->message);
    take_report(j, e);
    if (!j->column)
        job_end(s, j);
    else if (has_failed(j, &why))
        job_failed(s, j, &why);
    else if (j->stage == FB_JOB_COLD && cold_enough(j) && is_unchecked(j))
        j->stage = FB_JOB_HOT; /* whoever checked it is gone, and it was prepared anew elsewhere: once more */
    else if (j->stage == FB_JOB_COLD && cold_enough(j))
        job_measured(s, j);
}

static void checked(fb_session *s, fb_job *j, fb_worker_event *e)
{
    fb_error why = {0};
    take_report(j, e);
    if (!j->column)
        job_end(s, j);
    else if (has_failed(j, &why))
        job_failed(s, j, &why);
    else if (j->stage == FB_JOB_CHECK)
        job_done(s, j);
}

static void traced(fb_session *s, fb_job *j, fb_worker_event *e)
{
    if (j->column) {
        fb_timeline_free(j->column->timeline);
        j->column->timeline = e->timeline;
        e->timeline = NULL;
    }
    job_done(s, j);
}

static void looked(fb_session *s, fb_job *j, fb_worker_event *e)
{
    if (j->column) {
        j->column->values = e->values;
        e->values = NULL;
    }
    job_done(s, j);
}

static void saw_nothing(fb_session *s, fb_job *j, const fb_worker_event *e)
{
    if (j->column) j->column->no_values = e->error;
    job_done(s, j);
}

/* The figures stand without it. */
static void not_traced(fb_session *s, fb_job *j, const fb_worker_event *e)
{
    if (j->column) j->column->no_timeline = e->error;
    job_done(s, j);
}

static void refused(fb_session *s, fb_job *j, const fb_worker_event *e)
{
    bool crash = e->error.kind == FB_ERR_CRASH;
    if (crash || e->error.kind == FB_ERR_CANCELLED || e->error.kind == FB_ERR_LIMIT) process_died(s, j->worker, j);
    if (crash) fb_session_say(s, "%s: %s", j->column ? j->column->text : "worker", e->error.text);
    j->id = 0;
    if (j->counting && j->stage == FB_JOB_PREPARING && e->error.kind == FB_ERR_UNAVAILABLE && j->column) {
        j->uncounted = e->error; /* no permission for counters is no reason to show no times */
        j->stage = FB_JOB_WAITING;
        return;
    }
    job_failed(s, j, &e->error);
}

/* The search is over, one way or the other. */
static void search_answered(fb_session *s, fb_job *j, const fb_worker_event *e)
{
    fb_column_record *c = j->column;
    bool failed = e->kind != FB_WORKER_FOUND;
    if (failed && (e->error.kind == FB_ERR_CRASH || e->error.kind == FB_ERR_CANCELLED || e->error.kind == FB_ERR_LIMIT))
        process_died(s, j->worker, j);
    j->id = 0;
    job_end(s, j);
    if (!c) return;
    if (failed)
        fb_search_ended(c, &e->error);
    else
        fb_search_found(c, e->message);
}

void fb_scheduler_event(fb_session *s, int worker, fb_worker_event *e)
{
    fb_job *j = job_of(s, worker, e->id);
    if (!j) return; /* an answer to what was forgotten */
    if (e->kind == FB_WORKER_PROGRESS) {
        if (!j->column) return;
        snprintf(j->column->shown.progress, sizeof j->column->shown.progress, "%.*s",
                 (int)sizeof j->column->shown.progress - 1, e->text);
        j->column->shown.fraction = e->fraction;
        fb_session_changed(s);
        return;
    }
    if (e->kind == FB_WORKER_RELEASED) return;
    j->outstanding = j->checking = false;
    if (j->stage == FB_JOB_SEARCH)
        search_answered(s, j, e);
    else if (e->kind == FB_WORKER_PREPARED)
        prepared(s, j, e);
    else if (e->kind == FB_WORKER_SAMPLED)
        more_samples(s, j, e);
    else if (e->kind == FB_WORKER_CHECKED)
        checked(s, j, e);
    else if (e->kind == FB_WORKER_TRACED)
        traced(s, j, e);
    else if (e->kind == FB_WORKER_VALUES)
        looked(s, j, e);
    else if (e->kind == FB_WORKER_ERROR && j->stage == FB_JOB_VALUES && e->error.kind != FB_ERR_CRASH)
        saw_nothing(s, j, e);
    else if (e->kind == FB_WORKER_ERROR && j->stage == FB_JOB_TRACE && e->error.kind != FB_ERR_CRASH)
        not_traced(s, j, e);
    else if (e->kind == FB_WORKER_ERROR)
        refused(s, j, e);
}

void fb_scheduler_free(fb_session *s)
{
    while (s->jobs.n) fb_free(s->jobs.at[--s->jobs.n]);
    FB_VEC_FREE(&s->jobs);
}

/* ---- the header's functions ---- */

const char *fb_session_uncounted(const fb_session *s)
{
    return s->uncounted.kind ? s->uncounted.text : NULL;
}

void fb_session_trace(fb_session *s, bool metrics)
{
    s->trace = true;
    s->trace_metrics = metrics;
}

const fb_timeline *fb_session_timeline(const fb_session *s, int i, fb_error *err)
{
    const fb_column_record *c = fb_column_at(s, i);
    if (c && c->timeline && c->report) return c->timeline;
    if (c && c->no_timeline.kind)
        fb_fail(err, c->no_timeline.kind, "%s", c->no_timeline.text);
    else if (c && c->report && c->report->source != FB_SOURCE_MEASURED)
        fb_fail(err, FB_ERR_UNAVAILABLE,
                "%s: its figures were recorded, and of these no timeline was kept. A column on a device that is here, "
                "as %s@host, is measured and traced.",
                c->shown.text, c->plan_name);
    else
        fb_fail(err, FB_ERR_UNAVAILABLE, "it has not been measured here");
    return NULL;
}

void fb_session_look(fb_session *s, int i, const char *node)
{
    fb_column_record *c = fb_column_at(s, i);
    if (!c) return;
    fb_values_free(c->values);
    fb_free(c->looked_at);
    c->values = NULL;
    c->no_values = (fb_error){0};
    c->looked_at = fb_strdup(node);
    if (fb_column_foreign(c)) {
        fb_fail(
            &c->no_values, FB_ERR_UNAVAILABLE,
            "%s: a framework plans it, and shows no values of its own. A column that fusebox plans, as max@host, does.",
            c->shown.text);
        return;
    }
    fb_job_start(s, c, true);
    if (c->job) c->job->look = true;
}

const fb_values *fb_session_values(const fb_session *s, int i, fb_error *err)
{
    const fb_column_record *c = fb_column_at(s, i);
    if (c && c->values) return c->values;
    if (c && c->no_values.kind)
        fb_fail(err, c->no_values.kind, "%s", c->no_values.text);
    else if (c && c->shown.state == FB_COLUMN_FAILED)
        fb_fail(err, c->shown.error.kind, "%s: %s", c->shown.text, c->shown.error.text);
    else if (c && c->report && c->report->source != FB_SOURCE_MEASURED)
        fb_fail(err, FB_ERR_UNAVAILABLE,
                "%s: a recording keeps figures and no values. A column on a device that is here, as %s@host, has them.",
                c->shown.text, c->plan_name);
    else
        fb_fail(err, FB_ERR_UNAVAILABLE, "%s was not asked for", c && c->looked_at ? c->looked_at : "a value");
    return NULL;
}

static void start_all(fb_session *s, const int *columns, int n, bool verify_only)
{
    for (int i = 0; i < n; i++) {
        fb_column_record *c = fb_column_at(s, columns[i]);
        if (c) fb_job_start(s, c, verify_only);
    }
}

void fb_session_measure(fb_session *s, const int *columns, int n)
{
    start_all(s, columns, n, false);
}

void fb_session_compare(fb_session *s, int a, int b)
{
    const int both[] = {a, b};
    fb_column_record *first = fb_column_at(s, a), *second = fb_column_at(s, b);
    fb_session_measure(s, both, 2);
    if (!first || !second || first == second) return;
    fb_scheduler_unpair(first);
    fb_scheduler_unpair(second);
    first->against = second;
    second->against = first;
}

void fb_session_compare_times(fb_session *s, int a, int b, double turn_us, int rounds)
{
    fb_column_record *both[] = {fb_column_at(s, a), fb_column_at(s, b)};
    fb_session_compare(s, a, b);
    for (int i = 0; i < 2 && both[0] && both[1] && both[i]->against; i++) {
        both[i]->turn_us = turn_us;
        both[i]->rounds_wanted = rounds;
    }
}

void fb_session_check(fb_session *s, const int *columns, int n)
{
    start_all(s, columns, n, true);
}

void fb_session_cancel(fb_session *s)
{
    fb_session_stop_experiment(s);
    for (int i = s->jobs.n; i-- > 0;) {
        fb_job *j = s->jobs.at[i];
        fb_column_record *c = j->column;
        if (!c) continue;
        bool searching = j->stage == FB_JOB_SEARCH;
        if (j->outstanding) fb_worker_cancel(worker_of(s, j), j->id);
        fb_job_forget(c);
        if (searching)
            fb_search_ended(c, &(fb_error){.kind = FB_ERR_CANCELLED});
        else
            fb_column_set_state(c, c->report ? FB_COLUMN_DONE : FB_COLUMN_READY);
    }
    for (int i = 0; i < s->columns.n; i++) {
        fb_column_record *c = s->columns.at[i];
        c->measure_wanted = c->verify_wanted = false;
        c->changed_ns = 0;
    }
}
