/* The process that touches devices: one request at a time, until its input ends or it is killed. */
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "decide/preset.h"
#include "graph/graph_json.h"
#include "measure/best.h"
#include "measure/check.h"
#include "worker/messages.h"
#include "worker/phases.h"
#include "worker/worker_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_DEVICES = 16 };
static const int64_t lock_idle_ns = 50000000;   /* after this long without a request others may measure */
static const int64_t lock_hold_ns = 2000000000; /* and after this long with requests, when somebody waits */

/* A graph with the planner of the device that asked last. */
typedef struct {
    fb_graph *graph;
    fb_planner *planner;
    char device[64];
    int cases;      /* prepared from it */
    bool forgotten; /* goes when the last case does */
} known_graph;

typedef struct {
    int64_t id;
    fb_measurement *m;
    known_graph *graph;
    fb_device *device;
} prepared_case;

typedef struct {
    fb_channel *channel;
    FB_VEC(known_graph *) graphs;
    FB_VEC(prepared_case) cases;
    fb_device *devices[MAX_DEVICES];
    int n_devices;
    fb_worker_files files;
    fb_check_memo *memo;
    fb_graph_reader *reader; /* while a graph's lines arrive */
    FB_VEC(char *) later;    /* lines that came while a request ran */
    int64_t running;         /* id of the request; 0: none */
    bool cancelled;
    fb_progress_sender sender;
    fb_phases phases;
    fb_progress during; /* runs of the devices: as of the request that runs */
    fb_device_lock lock;
    char locked[64]; /* the device */
    int64_t lock_since;
} child;

/* ---- progress and cancelling ---- */

static bool is_cancel_of(const char *line, size_t n, int64_t id)
{
    if (!strstr(line, "\"cancel\"")) return false;
    json_t *message = fb_json_parse(line, n, NULL);
    bool yes = strcmp(fb_json_string_or(message, "type", ""), "cancel") == 0 && fb_json_int_or(message, "id", 0) == id;
    json_decref(message);
    return yes;
}

/* What arrives while a request runs: its cancelling takes effect, the rest waits. */
static void look_around(child *c)
{
    size_t n;
    if (!fb_channel_pump(c->channel, NULL)) _exit(0); /* nobody is left to answer to */
    for (const char *line; (line = fb_channel_line(c->channel, &n));) {
        if (is_cancel_of(line, n, c->running))
            c->cancelled = true;
        else
            FB_VEC_PUSH(&c->later, fb_strdup(line));
    }
}

static bool child_step(void *ctx, const char *what, double fraction)
{
    child *c = ctx;
    fb_phases_note(&c->phases, "device", what);
    fb_send_progress(&c->sender, what, fraction);
    look_around(c);
    return !c->cancelled;
}

static fb_progress progress_of(child *c, int64_t id)
{
    c->running = id;
    c->cancelled = false;
    c->sender = (fb_progress_sender){.channel = c->channel, .id = id};
    return (fb_progress){.step = child_step, .ctx = c};
}

/* ---- devices and their locks ---- */

static void send_machine(child *c, int64_t id, const fb_device *d)
{
    json_t *machine = fb_machine_to_json(d->ops->machine(d));
    fb_channel_send(c->channel, json_pack("{s:s, s:I, s:s, s:o}", "type", "machine", "id", (json_int_t)id, "device",
                                          d->name, "machine", machine));
}

static fb_device *device_named(child *c, const char *name, fb_error *err)
{
    for (int i = 0; i < c->n_devices; i++) {
        if (strcmp(c->devices[i]->name, name) == 0) return c->devices[i];
    }
    if (c->n_devices == MAX_DEVICES) {
        fb_fail(err, FB_ERR_LIMIT, "a worker serves at most %d devices", MAX_DEVICES);
        return NULL;
    }
    fb_device *d = fb_device_open_confined(name, err);
    if (!d) return NULL;
    d->progress = &c->during;
    c->devices[c->n_devices++] = d;
    if (d->ops->machine) send_machine(c, 0, d);
    return d;
}

static void unlock(child *c)
{
    fb_lock_leave(&c->lock);
    c->locked[0] = '\0';
}

/* Waits in line. A lock that cannot be had at all (no place for its file) stops nobody from measuring. */
static bool lock_device(child *c, const fb_device *d, const fb_progress *progress, fb_error *err)
{
    char what[64];
    bool ours = strcmp(c->locked, d->name) == 0;
    if (ours && fb_now_ns() - c->lock_since > lock_hold_ns && fb_lock_wanted(&c->lock)) ours = false;
    if (ours) return true;
    unlock(c);
    if (!fb_lock_enter(&c->lock, d->name, NULL)) return true;
    for (int ahead; (ahead = fb_lock_ahead(&c->lock)) > 0;) {
        snprintf(what, sizeof what, "waiting, %d ahead", ahead);
        if (!progress->step(progress->ctx, what, 0)) {
            unlock(c);
            return fb_fail(err, FB_ERR_CANCELLED, "cancelled while waiting for %s", d->name);
        }
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    snprintf(c->locked, sizeof c->locked, "%s", d->name);
    c->lock_since = fb_now_ns();
    return true;
}

/* ---- graphs ---- */

static known_graph *graph_named(child *c, const char *hex)
{
    fb_hash hash;
    if (!fb_hash_parse(hex, &hash)) return NULL;
    for (int i = 0; i < c->graphs.n; i++) {
        known_graph *k = c->graphs.at[i];
        if (!k->forgotten && fb_hash_equal(k->graph->hash, hash)) return k;
    }
    return NULL;
}

static void drop_unused_graphs(child *c)
{
    for (int i = 0; i < c->graphs.n;) {
        known_graph *k = c->graphs.at[i];
        if (!k->forgotten || k->cases) {
            i++;
            continue;
        }
        fb_planner_free(k->planner);
        fb_graph_free(k->graph);
        fb_free(k);
        c->graphs.at[i] = c->graphs.at[--c->graphs.n];
    }
}

static fb_planner *planner_of(known_graph *k, const fb_device *d)
{
    if (k->planner && strcmp(k->device, d->name) == 0) {
        fb_planner_set_machine(k->planner, d->ops->machine(d));
        return k->planner;
    }
    fb_planner_free(k->planner);
    snprintf(k->device, sizeof k->device, "%s", d->name);
    return k->planner = fb_planner_new(k->graph, d->ops->machine(d));
}

/* The supervisor has read the graph before: an error here is a bug, and one that it hears of. */
static void feed_graph(child *c, const char *line, size_t n)
{
    bool done = false;
    fb_error why = {0};
    if (!fb_graph_reader_feed(c->reader, line, n, &done, &why)) {
        fb_send_error(c->channel, 0, &why);
        done = true;
    } else if (done) {
        known_graph *k = fb_calloc(1, sizeof *k);
        k->graph = fb_graph_reader_take(c->reader);
        FB_VEC_PUSH(&c->graphs, k);
    }
    if (!done) return;
    fb_graph_reader_free(c->reader);
    c->reader = NULL;
}

/* ---- requests ---- */

static prepared_case *case_of(child *c, int64_t id)
{
    for (int i = 0; i < c->cases.n; i++) {
        if (c->cases.at[i].id == id) return &c->cases.at[i];
    }
    return NULL;
}

/* Takes the report. */
static void send_report(child *c, const char *type, int64_t id, fb_report *r)
{
    fb_channel_send(c->channel, json_pack("{s:s, s:I, s:f, s:b, s:o}", "type", type, "id", (json_int_t)id, "waited_us",
                                          0.0, "brief", 0, "report", fb_report_to_json(r)));
    fb_report_free(r);
}

static void send_sampled(child *c, int64_t id, fb_measurement *m, int64_t waited_ns, bool brief)
{
    fb_report *r = fb_measure_report(m);
    for (int i = 0; brief && i < r->n_kernels; i++) r->kernels[i].n_nodes = 0;
    json_t *message = json_pack("{s:s, s:I, s:f, s:b, s:o}", "type", "sampled", "id", (json_int_t)id, "waited_us",
                                (double)waited_ns / 1e3, "brief", brief, "report", fb_report_to_json(r));
    fb_json_set_number(message, "least_us", fb_measure_least_us(m));
    fb_channel_send(c->channel, message);
    fb_report_free(r);
}

/* A plan file, or the name of a preset. */
static fb_plan *plan_of(fb_planner *planner, const json_t *value, fb_error *err)
{
    if (!json_is_string(value)) return fb_plan_from_json(planner, value, true, NULL, err);
    fb_preset_use use;
    fb_error badly = {0};
    if (fb_preset_parse(json_string_value(value), &use, &badly)) return fb_preset_make(&use, planner, NULL, err);
    if (badly.kind)
        *err = badly;
    else
        fb_fail(err, FB_ERR_INPUT, "there is no preset \"%s\"", json_string_value(value));
    return NULL;
}

static fb_measure_options options_of(child *c, const fb_request *r)
{
    fb_measure_options o = {.files = fb_worker_files_get,
                            .files_ctx = &c->files,
                            .memo = c->memo,
                            .n_seeds = r->n_seeds,
                            .counters = r->counters};
    memcpy(o.seeds, r->seeds, sizeof o.seeds);
    return o;
}

/* There is no case to keep: the report is all that there will be. */
static bool recall_named(child *c, int64_t id, fb_device *d, const fb_graph *g, const json_t *plan, fb_error *err)
{
    if (!json_is_string(plan)) return fb_fail(err, FB_ERR_INPUT, "%s planned for itself: a plan is a name", d->name);
    fb_report *r = fb_measure_recall_named(d, g, json_string_value(plan), err);
    if (r) send_report(c, "prepared", id, r);
    return r != NULL;
}

static known_graph *canonical_graph(child *c, const fb_request *r, fb_error *err)
{
    known_graph *k = graph_named(c, r->graph);
    if (!k)
        fb_fail(err, FB_ERR_INPUT, "graph %.40s was not sent", r->graph);
    else if (!k->graph->canonical)
        fb_fail(err, FB_ERR_INPUT, "graph %.40s is not canonical", r->graph);
    return k && k->graph->canonical ? k : NULL;
}

static bool do_prepare(child *c, const fb_request *r, const fb_progress *progress, fb_error *err)
{
    known_graph *k = canonical_graph(c, r, err);
    fb_device *d = k ? device_named(c, r->device, err) : NULL;
    if (!d) return false;
    if (d->ops->recall_named) return recall_named(c, r->id, d, k->graph, r->plan, err);
    const fb_measure_options o = options_of(c, r);
    const char *path;
    json_t *text;
    json_object_foreach((json_t *)r->sources, path, text) if (json_is_string(text))
        fb_planner_set_source(planner_of(k, d), path, json_string_value(text));
    fb_plan *plan = plan_of(planner_of(k, d), r->plan, err);
    fb_measurement *m = plan ? fb_measure_prepare(d, plan, &o, progress, err) : NULL;
    fb_plan_free(plan);
    if (!m) return false;
    k->cases++;
    FB_VEC_PUSH(&c->cases, (prepared_case){.id = r->id, .m = m, .graph = k, .device = d});
    send_report(c, "prepared", r->id, fb_measure_report(m));
    return true;
}

/* The device is waited for again and again in between, so that others get at it. */
typedef struct {
    child *c;
    fb_device *d;
} taking_turns;

static bool take_turn(void *ctx, const fb_progress *progress, fb_error *err)
{
    const taking_turns *t = ctx;
    return lock_device(t->c, t->d, progress, err);
}

static void send_found(child *c, int64_t id, const fb_plan *plan, const fb_best_summary *summary)
{
    fb_channel_send(c->channel, json_pack("{s:s, s:I, s:o, s:o}", "type", "found", "id", (json_int_t)id, "plan",
                                          fb_plan_to_json(plan), "summary", fb_best_summary_to_json(summary)));
}

/* For a machine that is not here: with its figures alone. */
static bool search_for(child *c, int64_t id, const fb_graph *g, const json_t *machine, fb_best_options *o,
                       const fb_progress *progress, fb_error *err)
{
    fb_machine m;
    fb_best_summary summary;
    if (!fb_machine_from_json(&m, machine, err)) return false;
    fb_planner *planner = fb_planner_new(g, &m);
    fb_plan *plan = fb_best_find(NULL, planner, o, progress, &summary, err);
    if (plan) send_found(c, id, plan, &summary);
    fb_plan_free(plan);
    fb_planner_free(planner);
    return plan != NULL;
}

static bool do_search(child *c, const fb_request *r, const fb_progress *progress, fb_error *err)
{
    fb_best_options o = {.measure = options_of(c, r), .again = r->again};
    fb_best_summary summary;
    known_graph *k = canonical_graph(c, r, err);
    if (!k) return false;
    if (r->machine) return search_for(c, r->id, k->graph, r->machine, &o, progress, err);
    fb_device *d = device_named(c, r->device, err);
    if (!d) return false;
    if (!d->ops->machine)
        return fb_fail(err, FB_ERR_UNAVAILABLE, "%s plans for itself: nothing is searched", r->device);
    taking_turns turns = {c, d};
    if (!d->ops->recall) o.turn = take_turn;
    o.turn_ctx = &turns;
    fb_plan *plan = fb_best_find(d, planner_of(k, d), &o, progress, &summary, err);
    if (plan) send_found(c, r->id, plan, &summary);
    fb_plan_free(plan);
    return plan != NULL;
}

static prepared_case *case_asked(child *c, const fb_request *r, fb_error *err)
{
    prepared_case *p = case_of(c, r->id);
    if (!p) fb_fail(err, FB_ERR_INPUT, "no case %lld is prepared", (long long)r->id);
    return p;
}

static bool do_sample(child *c, const fb_request *r, const fb_progress *progress, fb_error *err)
{
    prepared_case *p = case_asked(c, r, err);
    if (!p) return false;
    int64_t asked_ns = fb_now_ns();
    if (!lock_device(c, p->device, progress, err)) return false;
    int64_t waited_ns = fb_now_ns() - asked_ns;
    if (!fb_measure_sample(p->m, r->cache, r->n, progress, err)) return false;
    send_sampled(c, r->id, p->m, waited_ns, r->brief);
    return true;
}

static bool do_check(child *c, const fb_request *r, const fb_progress *progress, fb_error *err)
{
    prepared_case *p = case_asked(c, r, err);
    if (!p) return false;
    if (!fb_measure_check(p->m, progress, err)) return false;
    send_report(c, "checked", r->id, fb_measure_report(p->m));
    return true;
}

static bool do_trace(child *c, const fb_request *r, const fb_progress *progress, fb_error *err)
{
    prepared_case *p = case_asked(c, r, err);
    if (!p) return false;
    if (!lock_device(c, p->device, progress, err)) return false;
    fb_timeline *t = fb_measure_timeline(p->m, r->metrics, progress, err);
    if (!t) return false;
    fb_channel_send(c->channel, json_pack("{s:s, s:I, s:o}", "type", "traced", "id", (json_int_t)r->id, "timeline",
                                          fb_timeline_to_json(t)));
    fb_timeline_free(t);
    return true;
}

static bool do_values(child *c, const fb_request *r, const fb_progress *progress, fb_error *err)
{
    prepared_case *p = case_asked(c, r, err);
    if (!p) return false;
    fb_values *v = fb_measure_values(p->m, r->node, progress, err);
    if (!v) return false;
    fb_channel_send(c->channel, json_pack("{s:s, s:I, s:o}", "type", "values", "id", (json_int_t)r->id, "values",
                                          fb_values_to_json(v)));
    fb_values_free(v);
    return true;
}

static bool do_release(child *c, const fb_request *r, const fb_progress *progress, fb_error *err)
{
    (void)progress, (void)err;
    prepared_case *p = case_of(c, r->id);
    if (p) {
        fb_measure_free(p->m);
        p->graph->cases--;
        *p = c->cases.at[--c->cases.n];
        drop_unused_graphs(c);
    }
    fb_channel_send(c->channel, json_pack("{s:s, s:I}", "type", "released", "id", (json_int_t)r->id));
    return true;
}

static bool do_calibrate(child *c, const fb_request *r, const fb_progress *progress, fb_error *err)
{
    fb_device *d = device_named(c, r->device, err);
    if (!d || !lock_device(c, d, progress, err) || !d->ops->calibrate(d, progress, err)) return false;
    send_machine(c, r->id, d);
    return true;
}

static bool (*const works[])(child *c, const fb_request *r, const fb_progress *progress, fb_error *err) = {
    [FB_REQUEST_PREPARE] = do_prepare, [FB_REQUEST_SAMPLE] = do_sample,       [FB_REQUEST_CHECK] = do_check,
    [FB_REQUEST_TRACE] = do_trace,     [FB_REQUEST_VALUES] = do_values,       [FB_REQUEST_RELEASE] = do_release,
    [FB_REQUEST_SEARCH] = do_search,   [FB_REQUEST_CALIBRATE] = do_calibrate,
};

static void run_request(child *c, const fb_request *r)
{
    fb_error why = {0};
    fb_progress progress = progress_of(c, r->id);
    bool ok = works[r->kind](c, r, &progress, &why);
    fb_phases_note(&c->phases, "device", NULL);
    c->running = 0;
    if (ok) return;
    fb_send_error(c->channel, r->id, &why);
    if (why.kind != FB_ERR_CRASH) return;
    fb_channel_flush(c->channel, 1000, NULL); /* the device is lost to this process; the next one gets it afresh */
    _exit(1);
}

/* ---- messages ---- */

static bool receive_file(child *c, const char *key, int64_t bytes)
{
    double *values = fb_alloc((size_t)bytes + 1);
    while (!fb_channel_bytes(c->channel, values, (size_t)bytes)) {
        struct pollfd fds[2];
        poll(fds, (nfds_t)fb_channel_poll(c->channel, fds), -1);
        if (!fb_channel_pump(c->channel, NULL)) return false;
    }
    fb_worker_files_put(&c->files, key, values, bytes / (int64_t)sizeof *values);
    return true;
}

/* False: the connection is over. */
static bool handle_line(child *c, const char *line, size_t n)
{
    if (c->reader) {
        feed_graph(c, line, n);
        return true;
    }
    json_t *message = fb_json_parse(line, n, NULL);
    fb_request r;
    fb_error why = {0};
    bool open = true;
    if (!fb_request_read(message, &r, &why)) {
        fb_send_error(c->channel, r.id, &why);
    } else if (r.kind == FB_REQUEST_GRAPH) {
        c->reader = fb_graph_reader_new();
    } else if (r.kind == FB_REQUEST_FILE) {
        open = receive_file(c, r.key, r.bytes);
    } else if (r.kind == FB_REQUEST_FORGET) {
        known_graph *k = graph_named(c, r.hash);
        if (k) k->forgotten = true;
        drop_unused_graphs(c);
    } else if (fb_request_is_work(&r)) {
        run_request(c, &r);
    }
    json_decref(message);
    return open;
}

/* The next line, from those that came during the last request first. The caller frees. */
static char *next_line(child *c)
{
    if (c->later.n) {
        char *line = c->later.at[0];
        memmove(c->later.at, c->later.at + 1, (size_t)--c->later.n * sizeof *c->later.at);
        return line;
    }
    size_t n;
    fb_error why = {0};
    const char *line = fb_channel_wait_line(c->channel, &n, c->locked[0] ? (int)(lock_idle_ns / 1000000) : -1, &why);
    if (!line && why.kind == FB_ERR_LIMIT) {
        unlock(c);
        line = fb_channel_wait_line(c->channel, &n, -1, NULL);
    }
    return line ? fb_strdup(line) : NULL;
}

int fb_worker_device_main(void *ctx, int in, int out)
{
    fb_written_count(ctx);
    child c = {.channel = fb_channel_private(in, out), .memo = fb_check_memo_new(), .lock = {.fd = -1}};
    c.during = (fb_progress){.step = child_step, .ctx = &c};
    bool open = true;
    for (char *line; open && (line = next_line(&c));) {
        open = handle_line(&c, line, strlen(line));
        fb_channel_flush(c.channel, 0, NULL);
        fb_free(line);
    }
    return 0; /* the system takes back memory, mappings and locks sooner than we could */
}
