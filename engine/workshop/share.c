/* Sharing devices: cases and requests. Equal requests are one task, and what was prepared and measured for one seat
 * answers the next that asks for the same. Tasks wait in line by seats: who was served last goes to the end. A process
 * that dies on a device is the trouble of whoever asked for what it did; others' cases are prepared again when they are
 * next asked for, and their request is tried once more. */
#include "workshop/parts.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    CASES_KEPT = 256, /* that nobody uses, for what they gave */
    FOUND_KEPT = 64,
    ANNOUNCE_MS = 200,
    GRACE_MS = 250, /* a seat whose turn it is may think so long about its next request */
};
static const int64_t repeat_ns = 20000000000; /* who waits hears so at least this often */

/* ---- answers ---- */

static fb_case_user *user_of(fb_case *c, const fb_seat *s, int64_t id)
{
    for (int i = 0; i < c->users.n; i++)
        if (c->users.at[i].seat == s && c->users.at[i].id == id) return &c->users.at[i];
    return NULL;
}

/* The case that a seat prepared under this id. */
static fb_case *case_of(fb_workshop *w, const fb_seat *s, int64_t id)
{
    for (int i = 0; i < w->cases.n; i++)
        if (user_of(w->cases.at[i], s, id)) return w->cases.at[i];
    return NULL;
}

static void tell_report(fb_seat *s, const char *type, int64_t id, const fb_case *c)
{
    fb_seat_send(s, json_pack("{s:s, s:I, s:i, s:b, s:O}", "type", type, "id", (json_int_t)id, "waited_us", 0, "brief",
                              false, "report", c->report));
}

/* `n` samples of those that there are, at what one of them took on average. */
static void tell_samples(fb_seat *s, int64_t id, fb_case *c, bool cold, int n)
{
    fb_case_user *u = user_of(c, s, id);
    double each = c->samples[cold] > 0 ? c->spent_us[cold] / (double)c->samples[cold] : 0;
    if (u) u->seen[cold] += n;
    fb_seat_send(s, json_pack("{s:s, s:I, s:i, s:f, s:b, s:O}", "type", "sampled", "id", (json_int_t)id, "waited_us", 0,
                              "took_us", n * each, "brief", false, "report", c->report));
}

static void tell_found(fb_seat *s, int64_t id, const fb_found *f)
{
    fb_seat_send(s, json_pack("{s:s, s:I, s:O, s:O}", "type", "found", "id", (json_int_t)id, "plan", f->plan, "summary",
                              f->summary));
}

static void tell_released(fb_seat *s, int64_t id)
{
    fb_seat_send(s, json_pack("{s:s, s:I}", "type", "released", "id", (json_int_t)id));
}

static void tell_progress(fb_seat *s, int64_t id, const char *what, double fraction)
{
    fb_seat_send(s, json_pack("{s:s, s:I, s:s, s:f}", "type", "progress", "id", (json_int_t)id, "what", what,
                              "fraction", isfinite(fraction) ? fraction : 0));
}

/* ---- cases ---- */

/* What must be the same for two requests to be one. */
static char *key_of(const fb_ask *ask)
{
    fb_str key = {0};
    char *plan = ask->plan ? fb_json_line(ask->plan) : NULL;
    fb_str_addf(&key, "%s %s %s", fb_ask_name(ask->kind), ask->graph, ask->device);
    for (int i = 0; i < ask->n_seeds; i++) fb_str_addf(&key, " %llu", (unsigned long long)ask->seeds[i]);
    fb_str_addf(&key, " %d %s", ask->again, plan ? plan : "");
    fb_free(plan);
    return fb_str_take(&key);
}

static void case_free(fb_workshop *w, fb_case *c)
{
    for (int i = 0; i < w->cases.n; i++)
        if (w->cases.at[i] == c) w->cases.at[i] = w->cases.at[--w->cases.n];
    if (c->id) fb_worker_release(w->lanes[c->lane].worker, c->id);
    fb_workshop_unuse(w, c->graph);
    json_decref(c->plan);
    json_decref(c->report);
    FB_VEC_FREE(&c->users);
    FB_VEC_FREE(&c->served);
    fb_free(c->key);
    fb_free(c);
}

static bool in_task(const fb_workshop *w, const fb_case *c)
{
    for (int i = 0; i < w->tasks.n; i++)
        if (w->tasks.at[i]->of == c) return true;
    return false;
}

/* Not prepared any more; what it gave stays until it is prepared again. */
static void lose(fb_case *c)
{
    c->was_checked |= c->checked;
    c->checked = false;
    c->id = 0;
}

static void unprepare(fb_workshop *w, fb_case *c)
{
    if (c->id) fb_worker_release(w->lanes[c->lane].worker, c->id);
    c->id = 0;
}

/* Of those that nobody uses only the figures stay, and of these no more than some. */
static void settle(fb_workshop *w, fb_case *c)
{
    if (c->users.n || in_task(w, c)) return;
    unprepare(w, c);
    c->was_checked |= c->checked;
    if (!c->report || c->old) {
        case_free(w, c);
        return;
    }
    int idle = 0;
    fb_case *oldest = NULL;
    for (int i = 0; i < w->cases.n; i++) {
        fb_case *k = w->cases.at[i];
        if (k->users.n || in_task(w, k)) continue;
        idle++;
        if (!oldest || k->used < oldest->used) oldest = k;
    }
    if (idle > CASES_KEPT) case_free(w, oldest);
}

static void remove_user(fb_workshop *w, fb_case *c, const fb_seat *s, int64_t id)
{
    for (int i = 0; i < c->users.n; i++) {
        if (c->users.at[i].seat != s || c->users.at[i].id != id) continue;
        c->users.at[i] = c->users.at[--c->users.n];
        FB_VEC_PUSH(&c->served, s->number);
        break;
    }
    settle(w, c);
}

static bool had_it(const fb_case *c, const fb_seat *s)
{
    for (int i = 0; i < c->served.n; i++)
        if (c->served.at[i] == s->number) return true;
    return false;
}

static bool uses(const fb_case *c, const fb_seat *s)
{
    for (int i = 0; i < c->users.n; i++)
        if (c->users.at[i].seat == s) return true;
    return false;
}

/* One that answers a seat's request to prepare. Who asks for the same again wants it measured again, and who asks for
 * it twice wants to see two. */
static fb_case *to_join(fb_workshop *w, const fb_seat *s, const char *key)
{
    for (int i = 0; i < w->cases.n; i++) {
        fb_case *c = w->cases.at[i];
        if (c->old || strcmp(c->key, key) != 0 || uses(c, s)) continue;
        if (!had_it(c, s)) return c;
        c->old = true;
        settle(w, c);
        return NULL;
    }
    return NULL;
}

/* How much the lane's prepared cases may hold. */
static double room_of(const fb_workshop *w, const fb_workshop_lane *l)
{
    double all = fb_json_number_or(l->machine, "memory_bytes", 4e9);
    return w->options.limits.device_mb > 0 ? w->options.limits.device_mb * 1e6 : all / 2;
}

/* Cases that were not used for longest make room for another: they come back when they are asked for. */
static void make_room(fb_workshop *w, int lane, double bytes)
{
    double held = bytes, most = room_of(w, &w->lanes[lane]);
    for (int i = 0; i < w->cases.n; i++)
        if (w->cases.at[i]->lane == lane && w->cases.at[i]->id) held += w->cases.at[i]->graph->value_bytes;
    while (held > most) {
        fb_case *oldest = NULL;
        for (int i = 0; i < w->cases.n; i++) {
            fb_case *c = w->cases.at[i];
            if (c->lane == lane && c->id && (!oldest || c->used < oldest->used)) oldest = c;
        }
        if (!oldest) return;
        held -= oldest->graph->value_bytes;
        fb_worker_release(w->lanes[lane].worker, oldest->id);
        lose(oldest);
    }
}

/* ---- tasks ---- */

/* The device is free; what was used of it is counted. */
static void stop_using(fb_workshop_lane *l, int lane)
{
    int64_t now = fb_now_ns();
    if (l->used_by) l->used_by->owes_ns[lane] += now - l->used_ns;
    l->used_by = NULL;
    l->running = NULL;
    l->idle_ns = now;
}

static void task_free(fb_workshop *w, fb_task *t)
{
    for (int i = 0; i < w->tasks.n; i++)
        if (w->tasks.at[i] == t) {
            memmove(w->tasks.at + i, w->tasks.at + i + 1, (size_t)(--w->tasks.n - i) * sizeof t);
            break;
        }
    if (w->lanes[t->lane].running == t) stop_using(&w->lanes[t->lane], t->lane);
    fb_workshop_unuse(w, t->graph);
    FB_VEC_FREE(&t->waiters);
    fb_free(t->key);
    fb_free(t);
    w->to_announce = true;
    fb_workshop_changed(w);
}

static int queued_of(const fb_workshop *w, const fb_seat *s)
{
    int n = 0;
    for (int i = 0; i < w->tasks.n; i++)
        for (int k = 0; k < w->tasks.at[i]->waiters.n; k++) n += w->tasks.at[i]->waiters.at[k].seat == s;
    return n;
}

/* One that was given up, and runs until it has heard so, answers nobody. */
static fb_task *task_named(fb_workshop *w, const char *key)
{
    for (int i = 0; i < w->tasks.n; i++)
        if (!w->tasks.at[i]->stopped && strcmp(w->tasks.at[i]->key, key) == 0) return w->tasks.at[i];
    return NULL;
}

/* Joins the task of that key, or begins one. Takes the key; NULL: there is no room. */
static fb_task *join(fb_workshop *w, fb_seat *s, const fb_ask *ask, int lane, fb_known_graph *g, char *key)
{
    if (queued_of(w, s) >= (int)w->options.limits.queued) {
        fb_seat_refuse(w, s, ask->id, FB_ERR_LIMIT, "more than %.0f requests of a seat wait", w->options.limits.queued);
        fb_free(key);
        return NULL;
    }
    fb_task *t = task_named(w, key);
    if (t) {
        fb_free(key);
        w->shared++;
    } else {
        t = fb_calloc(1, sizeof *t);
        *t = (fb_task){.key = key, .kind = ask->kind, .lane = lane, .graph = g};
        g->users++;
        FB_VEC_PUSH(&w->tasks, t);
    }
    FB_VEC_PUSH(&t->waiters, (fb_waiter){.seat = s, .id = ask->id, .asked_ns = fb_now_ns(), .n = ask->n, .told = -1});
    if (ask->n > t->n && t->step == FB_TASK_WAITS) t->n = ask->n;
    w->to_announce = true;
    fb_workshop_changed(w);
    return t;
}

/* ---- the disk ---- */

/* What a worker put there while it did this belongs to who asked first; a reference to who asked for its graph, for it
 * may have become ready later. */
static void charge(fb_workshop *w, const fb_task *t, const json_t *message)
{
    const char *hex;
    json_t *bytes;
    double wrote = fb_json_number_or(message, "wrote_bytes", 0);
    if (wrote > 0) fb_account_charge(w, t->graph->asked_by, wrote);
    json_object_foreach(json_object_get(message, "references"), hex, bytes)
    {
        int by = 0;
        for (int i = 0; i < w->graphs.n; i++)
            if (strcmp(w->graphs.at[i]->hex, hex) == 0) by = w->graphs.at[i]->asked_by;
        fb_account_charge(w, by, json_number_value(bytes));
    }
}

/* What has to be written for a request that nobody else has made: its kernels, whose size is known afterwards, and the
 * references that are not there. */
static bool may_write(fb_workshop *w, fb_seat *s, const fb_ask *ask, const fb_known_graph *g)
{
    double bytes = 0;
    for (int i = 0; i < ask->n_seeds; i++)
        if (!fb_reference_there(g->graph, ask->seeds[i])) bytes += fb_reference_bytes(g->graph);
    return fb_seat_may_write(w, s, ask->id, bytes);
}

/* ---- what is asked ---- */

int fb_lane_named(const fb_workshop *w, const char *device)
{
    for (int i = 0; i < w->n_lanes; i++)
        if (strcmp(w->lanes[i].device, device) == 0) return i;
    return FB_NONE;
}

/* A seat outweighs whatever waits. */
static int load_of(const fb_workshop *w, int lane)
{
    enum { SEAT = 1 << 16 };
    int load = 0;
    for (int i = 0; i < w->seats.n; i++)
        if (w->seats.at[i]->greeted && w->seats.at[i]->lane == lane) load += SEAT;
    for (int i = 0; i < w->tasks.n; i++) load += w->tasks.at[i]->lane == lane;
    return load;
}

int fb_lane_free(const fb_workshop *w)
{
    int best = 0;
    for (int i = 1; i < w->n_lanes; i++)
        if (load_of(w, i) < load_of(w, best)) best = i;
    return best;
}

static int cases_of(const fb_workshop *w, const fb_seat *s)
{
    int n = 0;
    for (int i = 0; i < w->cases.n; i++)
        for (int k = 0; k < w->cases.at[i]->users.n; k++) n += w->cases.at[i]->users.at[k].seat == s;
    return n;
}

/* Graph and device of a request; NULL, and said, where they are not to be had. */
static fb_known_graph *subject(fb_workshop *w, fb_seat *s, const fb_ask *ask, int *lane)
{
    const fb_workshop_limits *l = &w->options.limits;
    fb_known_graph *g = fb_seat_graph(s, ask->graph);
    *lane = fb_lane_named(w, ask->device);
    double left_s = (double)(s->account->pause_until_ns - fb_now_ns()) * 1e-9;
    if (*lane == FB_NONE)
        fb_seat_refuse(w, s, ask->id, FB_ERR_UNAVAILABLE, "this workshop shares no device \"%s\"", ask->device);
    else if (!g)
        fb_seat_refuse(w, s, ask->id, FB_ERR_INPUT, "graph %s was not sent, or long ago", ask->graph);
    else if (g->value_bytes > l->memory_mb * 1e6)
        fb_seat_refuse(w, s, ask->id, FB_ERR_LIMIT,
                       "the graph's values have %.0f MB, and a workshop takes %.0f: make its parameters smaller",
                       g->value_bytes * 1e-6, l->memory_mb);
    else if (left_s > 0)
        fb_seat_refuse(w, s, ask->id, FB_ERR_LIMIT,
                       "%d requests of this seat ended a process on the device: it may ask again in %.0f s",
                       s->account->faults, ceil(left_s));
    else if (fb_seat_has_inputs(w, s, ask->id, g->graph))
        return g;
    return NULL;
}

static fb_measure_options options_of(const fb_ask *ask)
{
    fb_measure_options o = {.n_seeds = ask->n_seeds};
    memcpy(o.seeds, ask->seeds, sizeof o.seeds);
    return o;
}

static char *task_key(const fb_case *c, const char *what, const char *how)
{
    fb_str key = {0};
    fb_str_addf(&key, "%s #%lld %s", what, (long long)c->number, how);
    return fb_str_take(&key);
}

/* False, and said, where this seat may prepare nothing more, or not so. */
static bool may_prepare(fb_workshop *w, fb_seat *s, const fb_ask *ask)
{
    if (case_of(w, s, ask->id)) {
        fb_seat_refuse(w, s, ask->id, FB_ERR_INPUT, "case %lld is prepared already", (long long)ask->id);
        return false;
    }
    if (cases_of(w, s) >= (int)w->options.limits.cases) {
        fb_seat_refuse(w, s, ask->id, FB_ERR_LIMIT, "a seat has at most %.0f cases at a time", w->options.limits.cases);
        return false;
    }
    if (!ask->counters) return true;
    fb_error why = {0}; /* no fault: the front asks again without */
    fb_fail(&why, FB_ERR_UNAVAILABLE, "a workshop counts no traffic: counters would stop the device for others");
    fb_seat_error(w, s, ask->id, &why);
    return false;
}

/* The case of a request: one that is there, or a new one. */
static fb_case *case_for(fb_workshop *w, fb_seat *s, const fb_ask *ask, int lane, fb_known_graph *g)
{
    char *key = key_of(ask);
    fb_case *c = to_join(w, s, key);
    if (c) {
        fb_free(key);
        return c;
    }
    c = fb_calloc(1, sizeof *c);
    *c = (fb_case){.number = ++w->clock,
                   .key = key,
                   .graph = g,
                   .lane = lane,
                   .plan = json_incref(ask->plan),
                   .options = options_of(ask)};
    g->users++;
    FB_VEC_PUSH(&w->cases, c);
    return c;
}

static void prepare(fb_workshop *w, fb_seat *s, const fb_ask *ask)
{
    int lane;
    fb_known_graph *g = subject(w, s, ask, &lane);
    if (!g || !may_prepare(w, s, ask)) return;
    fb_case *c = case_for(w, s, ask, lane, g);
    c->used = ++w->clock;
    if (c->report) {
        FB_VEC_PUSH(&c->users, (fb_case_user){.seat = s, .id = ask->id});
        w->shared++;
        tell_report(s, "prepared", ask->id, c);
        return;
    }
    bool may = c->users.n || may_write(w, s, ask, g);
    fb_task *t = may ? join(w, s, ask, lane, g, task_key(c, "prepare", "")) : NULL;
    if (t) {
        t->of = c;
        FB_VEC_PUSH(&c->users, (fb_case_user){.seat = s, .id = ask->id});
    }
    settle(w, c);
}

/* A request for what is prepared: answered with what there is, or one more that waits. */
static void ask_case(fb_workshop *w, fb_seat *s, const fb_ask *ask)
{
    fb_case *c = case_of(w, s, ask->id);
    if (!c || !c->report) {
        fb_error why = {0};
        fb_fail(&why, FB_ERR_CRASH, "case %lld is not prepared", (long long)ask->id);
        fb_seat_error(w, s, ask->id, &why);
        return;
    }
    c->used = ++w->clock;
    if (ask->kind == FB_ASK_SAMPLE && user_of(c, s, ask->id)->seen[ask->cold] < c->samples[ask->cold]) {
        w->shared++;
        tell_samples(s, ask->id, c, ask->cold, ask->n);
        return;
    }
    if (ask->kind == FB_ASK_CHECK && (c->checked || (!c->id && c->was_checked))) {
        w->shared++;
        tell_report(s, "checked", ask->id, c);
        return;
    }
    const char *how = ask->kind == FB_ASK_SAMPLE  ? (ask->cold ? "cold" : "hot")
                      : ask->kind == FB_ASK_TRACE ? (ask->metrics ? "metrics" : "")
                                                  : ask->node;
    fb_task *t = join(w, s, ask, c->lane, c->graph, task_key(c, fb_ask_name(ask->kind), how));
    if (!t) return;
    t->of = c;
    t->cold = ask->cold;
    t->metrics = ask->metrics;
    memcpy(t->node, ask->node, sizeof t->node);
}

static void search(fb_workshop *w, fb_seat *s, const fb_ask *ask)
{
    int lane;
    fb_known_graph *g = subject(w, s, ask, &lane);
    if (!g) return;
    char *key = key_of(ask);
    for (int i = 0; i < w->found.n && !ask->again; i++) {
        if (strcmp(w->found.at[i].key, key) != 0) continue;
        w->found.at[i].used = ++w->clock;
        w->shared++;
        tell_found(s, ask->id, &w->found.at[i]);
        fb_free(key);
        return;
    }
    fb_task *t = NULL;
    if (task_named(w, key) || may_write(w, s, ask, g))
        t = join(w, s, ask, lane, g, key);
    else
        fb_free(key);
    if (!t) return;
    t->again = ask->again;
    t->options = options_of(ask);
}

/* ---- an end to waiting ---- */

/* Nobody waits for it any more. What runs is asked to stop, and its answer ends it. */
static void abandon(fb_workshop *w, fb_task *t)
{
    if (t->waiters.n) return;
    if (w->lanes[t->lane].running == t) {
        if (!t->stopped) fb_worker_cancel(w->lanes[t->lane].worker, t->id);
        t->stopped = true;
        return;
    }
    fb_case *c = t->of;
    task_free(w, t);
    if (c) settle(w, c);
}

/* Takes the waiters of a seat (id 0: all of its) off a task. */
static void stop_waiting(fb_workshop *w, fb_task *t, const fb_seat *s, int64_t id)
{
    bool any = false;
    for (int i = 0; i < t->waiters.n; i++) {
        fb_waiter *at = &t->waiters.at[i];
        if (at->seat != s || (id && at->id != id)) continue;
        any = true;
        memmove(at, at + 1, (size_t)(--t->waiters.n - i) * sizeof *at);
        i--;
    }
    if (any) w->to_announce = true;
    if (any) abandon(w, t);
}

static void cancel(fb_workshop *w, fb_seat *s, int64_t id)
{
    fb_error why = {0};
    fb_fail(&why, FB_ERR_CANCELLED, "cancelled");
    for (int i = w->tasks.n - 1; i >= 0; i--) {
        fb_task *t = w->tasks.at[i];
        bool waits = false;
        for (int k = 0; k < t->waiters.n; k++) waits |= t->waiters.at[k].seat == s && t->waiters.at[k].id == id;
        if (!waits) continue;
        fb_case *preparing = t->kind == FB_ASK_PREPARE ? t->of : NULL;
        if (preparing) { /* its user goes first, so that the case may go with the task */
            for (int k = 0; k < preparing->users.n; k++)
                if (preparing->users.at[k].seat == s && preparing->users.at[k].id == id)
                    preparing->users.at[k--] = preparing->users.at[--preparing->users.n];
        }
        fb_seat_error(w, s, id, &why);
        stop_waiting(w, t, s, id);
        if (i > w->tasks.n) i = w->tasks.n;
    }
}

static void release(fb_workshop *w, fb_seat *s, int64_t id)
{
    fb_case *c = case_of(w, s, id);
    for (int i = w->tasks.n - 1; i >= 0; i--)
        if (i < w->tasks.n) stop_waiting(w, w->tasks.at[i], s, id);
    c = c ? case_of(w, s, id) : NULL;
    if (c) remove_user(w, c, s, id);
    tell_released(s, id);
}

void fb_share_drop_seat(fb_workshop *w, fb_seat *s)
{
    for (int i = 0; i < w->n_lanes; i++)
        if (w->lanes[i].turn == s) w->lanes[i].turn = NULL;
    for (int i = 0; i < w->cases.n; i++) {
        fb_case *c = w->cases.at[i];
        for (int k = 0; k < c->users.n; k++)
            if (c->users.at[k].seat == s) c->users.at[k--] = c->users.at[--c->users.n];
    }
    for (int i = w->tasks.n - 1; i >= 0; i--)
        if (i < w->tasks.n) stop_waiting(w, w->tasks.at[i], s, 0);
    for (int i = w->cases.n - 1; i >= 0; i--)
        if (i < w->cases.n) settle(w, w->cases.at[i]);
}

void fb_share_ask(fb_workshop *w, fb_seat *s, const fb_ask *ask)
{
    for (int i = 0; i < w->n_lanes; i++)
        if (w->lanes[i].turn == s) w->lanes[i].idle_ns = fb_now_ns();
    switch (ask->kind) {
    case FB_ASK_PREPARE: prepare(w, s, ask); break;
    case FB_ASK_SEARCH: search(w, s, ask); break;
    case FB_ASK_CANCEL: cancel(w, s, ask->id); break;
    case FB_ASK_RELEASE: release(w, s, ask->id); break;
    default: ask_case(w, s, ask); break;
    }
}

/* ---- running ---- */

static void send_files(fb_workshop *w, fb_workshop_lane *l, const fb_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const char *key = g->nodes[i].attrs->file;
        if (!key || g->nodes[i].attrs->dist != FB_DIST_FILE) continue;
        bool there = false;
        for (int k = 0; k < l->files.n; k++) there |= strcmp(l->files.at[k], key) == 0;
        for (int k = 0; k < w->files.n && !there; k++) {
            const fb_known_file *f = &w->files.at[k];
            if (strcmp(f->key, key) != 0 || !f->values) continue;
            fb_worker_send_file(l->worker, key, f->values, f->n);
            FB_VEC_PUSH(&l->files, fb_strdup(key));
            there = true;
        }
    }
}

static void send_check(fb_workshop *w, fb_task *t)
{
    t->step = FB_TASK_CHECKS;
    fb_worker_check(w->lanes[t->lane].worker, t->id, t->graph->graph, w->lanes[t->lane].device, &t->of->options);
}

/* The request itself, of a case that is prepared. */
static void send_request(fb_workshop *w, fb_task *t)
{
    fb_worker *k = w->lanes[t->lane].worker;
    t->id = t->of->id;
    t->step = FB_TASK_RUNS;
    t->started_ns = fb_now_ns();
    if (t->kind == FB_ASK_SAMPLE)
        fb_worker_sample(k, t->id, t->n > 0 ? t->n : 1, t->cold ? FB_CACHE_COLD : FB_CACHE_HOT, false);
    else if (t->kind == FB_ASK_CHECK)
        send_check(w, t);
    else if (t->kind == FB_ASK_TRACE)
        fb_worker_trace(k, t->id, t->metrics);
    else
        fb_worker_values(k, t->id, t->node);
}

static void start_task(fb_workshop *w, fb_task *t)
{
    fb_workshop_lane *l = &w->lanes[t->lane];
    l->running = t;
    l->used_by = t->waiters.n ? t->waiters.at[0].seat->account : NULL;
    l->used_ns = t->started_ns = fb_now_ns();
    t->waited_us = 0;
    t->doing[0] = '\0';
    w->to_announce = true;
    fb_workshop_changed(w);
    if (t->of) t->of->used = ++w->clock;
    if (t->waiters.n) t->graph->asked_by = t->waiters.at[0].seat->account->serial;
    if (t->of && t->of->id) {
        send_request(w, t);
        return;
    }
    send_files(w, l, t->graph->graph);
    t->step = t->of ? FB_TASK_PREPARES : FB_TASK_RUNS;
    if (t->of) make_room(w, t->lane, t->graph->value_bytes);
    t->id = t->of ? fb_worker_prepare_json(l->worker, t->graph->graph, t->of->plan, l->device, &t->of->options)
                  : fb_worker_search(l->worker, t->graph->graph, l->device, &t->options, t->again, NULL);
}

/* ---- turns ---- */

static bool is_for(const fb_task *t, const fb_seat *s)
{
    for (int i = 0; i < t->waiters.n; i++)
        if (t->waiters.at[i].seat == s) return true;
    return false;
}

/* When who waits for it first last had a turn. */
static int64_t served(const fb_task *t, int lane)
{
    return t->waiters.at[0].seat->account->served[lane];
}

/* The first of a lane that waits, for that seat or (NULL) for the one that was served longest ago. */
static fb_task *first_for(const fb_workshop *w, int lane, const fb_seat *s)
{
    fb_task *best = NULL;
    for (int i = 0; i < w->tasks.n; i++) {
        fb_task *t = w->tasks.at[i];
        if (t->lane != lane || !t->waiters.n || (s && !is_for(t, s))) continue;
        if (s) return t;
        if (!best || served(t, lane) < served(best, lane)) best = t;
    }
    return best;
}

/* When the turn of a lane goes on to the next that waits: a measurement is many requests, and one after the other is
 * answered sooner, and measured with less disturbance, than all at once. */
static int64_t end_of_turn(const fb_workshop *w, const fb_workshop_lane *l)
{
    int64_t most = l->turn_ns + (int64_t)(w->options.limits.turn_s * 1e9);
    int64_t idle = l->idle_ns + (cases_of(w, l->turn) ? GRACE_MS * 1000000ll : 0);
    return most < idle || first_for(w, (int)(l - w->lanes), l->turn) ? most : idle;
}

/* Who waits for whom else? One alone may go on for as long as it likes. */
static bool others_wait(const fb_workshop *w, int lane, const fb_account *a)
{
    for (int i = 0; i < w->tasks.n; i++) {
        const fb_task *t = w->tasks.at[i];
        if (t->lane == lane && t->waiters.n && t->waiters.at[0].seat->account != a) return true;
    }
    return false;
}

/* The next whose turn it is. A request that has begun is let end, so one may use more than its turn; it is then passed
 * over as many times as others could have had a turn meanwhile. */
static fb_task *next_turn(fb_workshop *w, int lane)
{
    int64_t turn = (int64_t)(fmax(w->options.limits.turn_s, 1) * 1e9);
    for (;;) {
        fb_task *t = first_for(w, lane, NULL);
        fb_account *a = t ? t->waiters.at[0].seat->account : NULL;
        if (!t) return NULL;
        bool passed = a->owes_ns[lane] > 2 * turn && others_wait(w, lane, a);
        a->owes_ns[lane] = passed || a->owes_ns[lane] > turn ? a->owes_ns[lane] - turn : 0;
        if (!passed) return t;
        a->served[lane] = ++w->clock;
    }
}

static fb_task *next_of(fb_workshop *w, int lane)
{
    fb_workshop_lane *l = &w->lanes[lane];
    if (l->turn && first_for(w, lane, NULL) && fb_now_ns() < end_of_turn(w, l)) return first_for(w, lane, l->turn);
    fb_task *any = next_turn(w, lane);
    if (!any) return NULL;
    l->turn = any->waiters.at[0].seat;
    l->turn_ns = l->idle_ns = fb_now_ns();
    l->turn->account->served[lane] = ++w->clock;
    w->to_announce = true;
    return any;
}

/* ---- what came of it ---- */

static void count_fault(fb_workshop *w, fb_account *a)
{
    w->lost++;
    if (++a->faults % (int)w->options.limits.faults == 0)
        a->pause_until_ns = fb_now_ns() + (int64_t)(w->options.limits.pause_s * 1e9);
}

static void task_failed(fb_workshop *w, fb_task *t, const fb_error *why)
{
    fb_case *c = t->of;
    if (why->kind == FB_ERR_CRASH || why->kind == FB_ERR_LIMIT || why->kind == FB_ERR_COMPILE)
        fb_workshop_say(w, "seat %d: %s", t->waiters.n ? t->waiters.at[0].seat->number : 0, why->text);
    if (why->kind == FB_ERR_CRASH && t->waiters.n) count_fault(w, t->waiters.at[0].seat->account);
    bool preparing = t->kind == FB_ASK_PREPARE || t->step == FB_TASK_PREPARES;
    bool gone = preparing || why->kind == FB_ERR_CRASH || why->kind == FB_ERR_LIMIT;
    for (int i = 0; i < t->waiters.n; i++) {
        fb_waiter *at = &t->waiters.at[i];
        fb_seat_error(w, at->seat, at->id, why);
        for (int k = 0; c && gone && k < c->users.n; k++)
            if (c->users.at[k].seat == at->seat && c->users.at[k].id == at->id)
                c->users.at[k--] = c->users.at[--c->users.n];
    }
    task_free(w, t);
    if (!c) return;
    if (gone) c->old = true;
    settle(w, c);
}

/* Nothing is prepared on that lane any more. */
static void lane_lost(fb_workshop *w, int lane)
{
    fb_workshop_lane *l = &w->lanes[lane];
    while (l->files.n) fb_free(l->files.at[--l->files.n]);
    for (int i = 0; i < w->cases.n; i++) {
        fb_case *c = w->cases.at[i];
        if (c->lane != lane || !c->id) continue;
        fb_worker_release(l->worker, c->id); /* should it be there still */
        lose(c);
    }
}

static void failed(fb_workshop *w, int lane, fb_task *t, const fb_error *err)
{
    fb_error why = *err;
    if (t->stopped && why.kind == FB_ERR_CANCELLED && t->waiters.n) {
        double most =
            t->step == FB_TASK_RUNS && t->kind != FB_ASK_SEARCH ? w->options.limits.run_s : w->options.limits.prepare_s;
        fb_fail(&why, FB_ERR_LIMIT, "stopped after %g s, a limit of the workshop%s%s", most, t->doing[0] ? ": " : "",
                t->doing);
    }
    /* what was cancelled by force is found lost when it is next asked for */
    if (err->kind == FB_ERR_CRASH || err->kind == FB_ERR_LIMIT) lane_lost(w, lane);
    /* what it had was perhaps lost to another's fault: that costs one try */
    if (why.kind == FB_ERR_CRASH && t->of && t->step != FB_TASK_PREPARES && !t->retried && t->waiters.n) {
        t->retried = true;
        t->step = FB_TASK_WAITS;
        stop_using(&w->lanes[lane], lane);
        return;
    }
    task_failed(w, t, &why);
}

static void take_case_report(fb_case *c, const fb_worker_event *e)
{
    json_t *report = json_object_get(e->message, "report");
    if (!report) return;
    json_decref(c->report);
    c->report = json_incref(report);
}

static void prepared(fb_workshop *w, fb_task *t, fb_worker_event *e)
{
    fb_case *c = t->of;
    c->id = e->id;
    memset(c->samples, 0, sizeof c->samples);
    memset(c->spent_us, 0, sizeof c->spent_us);
    for (int i = 0; i < c->users.n; i++) memset(c->users.at[i].seen, 0, sizeof c->users.at[i].seen);
    take_case_report(c, e);
    c->checked = false;
    if (t->kind != FB_ASK_PREPARE) { /* it was lost, and is there again */
        if (c->was_checked && t->kind != FB_ASK_CHECK)
            send_check(w, t);
        else
            send_request(w, t);
        return;
    }
    w->measured++;
    for (int i = 0; i < t->waiters.n; i++) tell_report(t->waiters.at[i].seat, "prepared", t->waiters.at[i].id, c);
    task_free(w, t);
    settle(w, c);
}

static void sampled(fb_workshop *w, fb_task *t, fb_worker_event *e)
{
    fb_case *c = t->of;
    double took = (double)(fb_now_ns() - t->started_ns) * 1e-3 - fb_json_number_or(e->message, "waited_us", 0);
    take_case_report(c, e);
    c->samples[t->cold] += t->n;
    c->spent_us[t->cold] += took > 0 ? took : 0;
    for (int i = 0; i < t->waiters.n; i++)
        tell_samples(t->waiters.at[i].seat, t->waiters.at[i].id, c, t->cold, t->waiters.at[i].n);
    task_free(w, t);
    settle(w, c);
}

static void checked(fb_workshop *w, fb_task *t, fb_worker_event *e)
{
    fb_case *c = t->of;
    take_case_report(c, e);
    c->checked = true;
    if (t->kind != FB_ASK_CHECK) {
        send_request(w, t);
        return;
    }
    for (int i = 0; i < t->waiters.n; i++) tell_report(t->waiters.at[i].seat, "checked", t->waiters.at[i].id, c);
    task_free(w, t);
    settle(w, c);
}

/* A timeline or values, as the worker told them. */
static void told(fb_workshop *w, fb_task *t, fb_worker_event *e, const char *type, const char *what)
{
    fb_case *c = t->of;
    for (int i = 0; i < t->waiters.n; i++)
        fb_seat_send(t->waiters.at[i].seat,
                     json_pack("{s:s, s:I, s:O}", "type", type, "id", (json_int_t)t->waiters.at[i].id, what,
                               json_object_get(e->message, what)));
    task_free(w, t);
    settle(w, c);
}

static void found(fb_workshop *w, fb_task *t, fb_worker_event *e)
{
    fb_found f = {.key = fb_strdup(t->key),
                  .plan = json_incref(json_object_get(e->message, "plan")),
                  .summary = json_incref(json_object_get(e->message, "summary")),
                  .used = ++w->clock};
    if (f.plan && f.summary)
        for (int i = 0; i < t->waiters.n; i++) tell_found(t->waiters.at[i].seat, t->waiters.at[i].id, &f);
    int at = 0;
    for (int i = 0; i < w->found.n; i++)
        if (w->found.at[i].used < w->found.at[at].used) at = i;
    if (w->found.n < FOUND_KEPT) {
        FB_VEC_PUSH(&w->found, f);
    } else {
        fb_free(w->found.at[at].key);
        json_decref(w->found.at[at].plan);
        json_decref(w->found.at[at].summary);
        w->found.at[at] = f;
    }
    task_free(w, t);
}

static void progress(fb_workshop *w, fb_task *t, const fb_worker_event *e)
{
    snprintf(t->doing, sizeof t->doing, "%.*s", (int)sizeof t->doing - 1, e->text);
    for (int i = 0; i < t->waiters.n; i++)
        tell_progress(t->waiters.at[i].seat, t->waiters.at[i].id, e->text, e->fraction);
    fb_workshop_changed(w);
}

void fb_share_event(fb_workshop *w, int lane, fb_worker_event *e)
{
    fb_task *t = w->lanes[lane].running;
    if (!t || !e->id || e->id != t->id) return; /* an answer to what was given up */
    charge(w, t, e->message);
    switch (e->kind) {
    case FB_WORKER_PROGRESS: progress(w, t, e); break;
    case FB_WORKER_PREPARED: prepared(w, t, e); break;
    case FB_WORKER_SAMPLED: sampled(w, t, e); break;
    case FB_WORKER_CHECKED: checked(w, t, e); break;
    case FB_WORKER_TRACED: told(w, t, e, "traced", "timeline"); break;
    case FB_WORKER_VALUES: told(w, t, e, "values", "values"); break;
    case FB_WORKER_FOUND: found(w, t, e); break;
    case FB_WORKER_ERROR: failed(w, lane, t, &e->error); break;
    default: break;
    }
}

/* ---- who waits ---- */

static void announce_to(fb_waiter *at, int ahead, int64_t now)
{
    char what[64];
    if ((at->told == ahead && now - at->told_ns < repeat_ns) || ahead == 0) return;
    at->told = ahead;
    at->told_ns = now;
    snprintf(what, sizeof what, "waiting, %d ahead", ahead);
    tell_progress(at->seat, at->id, what, 0);
}

/* Ahead of a seat are the one whose turn it is, and those that wait and were served longer ago. */
static int ahead_of(const fb_workshop_lane *l, int lane, const fb_seat *const *line, int n, const fb_seat *s)
{
    int ahead = l->turn && l->turn != s;
    for (int i = 0; i < n && l->turn != s; i++) {
        const fb_seat *o = line[i];
        int64_t his = o->account->served[lane], own = s->account->served[lane];
        bool before = his < own || (his == own && o->number < s->number);
        ahead += o != s && o != l->turn && before;
    }
    return ahead;
}

static void announce_lane(fb_workshop *w, int lane, int64_t now)
{
    const fb_workshop_lane *l = &w->lanes[lane];
    FB_VEC(const fb_seat *) line = {0}; /* those with a task that is theirs to wait for */
    for (int i = 0; i < w->tasks.n; i++) {
        const fb_task *t = w->tasks.at[i];
        bool there = t->lane != lane || !t->waiters.n || l->running == t;
        for (int k = 0; k < line.n && !there; k++) there = line.at[k] == t->waiters.at[0].seat;
        if (!there) FB_VEC_PUSH(&line, t->waiters.at[0].seat);
    }
    for (int i = 0; i < w->tasks.n; i++) {
        fb_task *t = w->tasks.at[i];
        if (t->lane != lane || !t->waiters.n || l->running == t) continue;
        int ahead = ahead_of(l, lane, line.at, line.n, t->waiters.at[0].seat);
        for (int k = 0; k < t->waiters.n; k++) announce_to(&t->waiters.at[k], ahead, now);
    }
    FB_VEC_FREE(&line);
}

static void announce(fb_workshop *w)
{
    int64_t now = fb_now_ns();
    bool due = w->to_announce || (w->tasks.n && now - w->announced_ns > repeat_ns);
    if (!due || now - w->announced_ns < ANNOUNCE_MS * 1000000ll) return;
    for (int i = 0; i < w->n_lanes; i++) announce_lane(w, i, now);
    w->announced_ns = now;
    w->to_announce = false;
}

/* ---- limits ---- */

static int64_t deadline_of(const fb_workshop *w, const fb_task *t)
{
    const fb_workshop_limits *l = &w->options.limits;
    bool runs = t->step == FB_TASK_RUNS && t->kind != FB_ASK_SEARCH;
    return t->started_ns + (int64_t)((runs ? l->run_s : l->prepare_s) * 1e9);
}

static void check_limit(fb_workshop *w, fb_workshop_lane *l)
{
    fb_task *t = l->running;
    if (!t || t->stopped || fb_now_ns() < deadline_of(w, t)) return;
    t->stopped = true;
    fb_worker_cancel(l->worker, t->id);
}

void fb_share_run(fb_workshop *w)
{
    for (int i = 0; i < w->n_lanes; i++) {
        check_limit(w, &w->lanes[i]);
        if (w->lanes[i].running) continue;
        fb_task *t = next_of(w, i);
        if (t) start_task(w, t);
    }
    announce(w);
}

int fb_share_timeout(const fb_workshop *w)
{
    int64_t now = fb_now_ns(), until = INT64_MAX;
    for (int i = 0; i < w->n_lanes; i++) {
        const fb_task *t = w->lanes[i].running;
        if (t && !t->stopped && deadline_of(w, t) < until) until = deadline_of(w, t);
    }
    for (int i = 0; i < w->n_lanes; i++) {
        const fb_workshop_lane *l = &w->lanes[i];
        if (l->turn && !l->running && first_for(w, i, NULL) && end_of_turn(w, l) < until) until = end_of_turn(w, l);
    }
    if (w->tasks.n && w->announced_ns + repeat_ns < until) until = w->announced_ns + repeat_ns;
    if (w->to_announce && w->announced_ns + ANNOUNCE_MS * 1000000ll < until)
        until = w->announced_ns + ANNOUNCE_MS * 1000000ll;
    return until == INT64_MAX ? -1 : until <= now ? 0 : (int)((until - now) / 1000000 + 1);
}

void fb_share_free(fb_workshop *w)
{
    while (w->tasks.n) task_free(w, w->tasks.at[0]);
    while (w->cases.n) {
        w->cases.at[0]->id = 0;
        case_free(w, w->cases.at[0]);
    }
    for (int i = 0; i < w->found.n; i++) {
        fb_free(w->found.at[i].key);
        json_decref(w->found.at[i].plan);
        json_decref(w->found.at[i].summary);
    }
    FB_VEC_FREE(&w->tasks);
    FB_VEC_FREE(&w->cases);
    FB_VEC_FREE(&w->found);
}
