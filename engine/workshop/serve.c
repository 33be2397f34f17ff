/* The life of a workshop: it listens, asks its worker what devices there are, gives each shared one a lane, and carries
 * what seats and workers say. */
#include "workshop/parts.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/near.h"
#include "base/str.h"
#include "workshop/place.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- limits ---- */

typedef struct {
    const char *name, *help;
    double otherwise, low, high;
    size_t at;
} limit_row;

static const limit_row limit_rows[] = {
#define LIMIT(NAME, DEFAULT, LOW, HIGH, HELP) {#NAME, HELP, DEFAULT, LOW, HIGH, offsetof(fb_workshop_limits, NAME)},
#include "workshop/limits.def"
#undef LIMIT
};
enum { LIMITS = sizeof limit_rows / sizeof *limit_rows };

static double *limit_in(fb_workshop_limits *l, const limit_row *row)
{
    return (double *)(void *)((char *)l + row->at);
}

fb_workshop_limits fb_workshop_limits_default(void)
{
    fb_workshop_limits l;
    for (int i = 0; i < LIMITS; i++) *limit_in(&l, &limit_rows[i]) = limit_rows[i].otherwise;
    return l;
}

bool fb_workshop_limit_at(int i, const char **name, double *otherwise, const char **help)
{
    if (i < 0 || i >= LIMITS) return false;
    *name = limit_rows[i].name;
    *otherwise = limit_rows[i].otherwise;
    *help = limit_rows[i].help;
    return true;
}

bool fb_workshop_limit_set(fb_workshop_limits *l, const char *text, fb_error *err)
{
    const char *names[LIMITS], *equals = strchr(text, '=');
    char name[32];
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - text) : 0, text);
    for (int i = 0; i < LIMITS; i++) {
        const limit_row *row = &limit_rows[i];
        names[i] = row->name;
        if (!equals || strcmp(row->name, name) != 0) continue;
        char *end;
        double value = strtod(equals + 1, &end);
        if (!equals[1] || *end || !(value >= row->low && value <= row->high))
            return fb_fail(err, FB_ERR_USAGE, "limit %s: a number from %g to %g", name, row->low, row->high);
        *limit_in(l, row) = value;
        return true;
    }
    if (!equals) return fb_fail(err, FB_ERR_USAGE, "a limit is NAME=VALUE, not \"%.40s\"", text);
    return fb_fail_unknown(err, FB_ERR_USAGE, "limit", name, names, LIMITS);
}

/* ---- saying ---- */

void fb_workshop_changed(fb_workshop *w)
{
    w->serial++;
}

void fb_workshop_say(fb_workshop *w, const char *format, ...)
{
    char text[sizeof w->note];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    fb_text_clean(w->note, sizeof w->note, text, strlen(text));
    fb_workshop_changed(w);
}

/* ---- devices ---- */

/* It runs what is asked for; GPUs are shared before the host, which prepares for them. */
static bool is_offered(const fb_workshop *w, const json_t *entry, bool accelerators)
{
    const char *name = fb_json_string_or(entry, "device", "");
    const fb_device_ops *ops = fb_device_find(name, NULL);
    if (fb_json_string_or(entry, "missing", NULL) || !ops || !ops->load) return false;
    bool named = false;
    for (int i = 0; i < w->options.n_devices; i++) named |= strcmp(name, w->devices[i]) == 0;
    return w->options.n_devices ? named : ops->target->accelerates == accelerators;
}

static void add_lane(fb_workshop *w, const json_t *entry)
{
    fb_workshop_lane *l = &w->lanes[w->n_lanes];
    l->worker = w->n_lanes ? fb_worker_new(w->self, NULL) : w->lister;
    l->device = fb_strdup(fb_json_string_or(entry, "device", ""));
    l->entry = json_copy((json_t *)entry);
    json_object_set_new(l->entry, "shared", json_true()); /* whoever is a seat calibrates nothing */
    if (!l->machine) l->machine = json_incref(json_object_get(entry, "machine"));
    w->n_lanes++;
}

static void list_event(fb_workshop *w, const fb_worker_event *e)
{
    json_t *entry, *list = json_object_get(e->message, "devices");
    size_t i;
    if (w->n_lanes || !json_is_array(list)) return;
    for (int gpus = 1; gpus >= 0 && !w->n_lanes; gpus--)
        json_array_foreach(list, i, entry) if (w->n_lanes < FB_WORKSHOP_LANES && is_offered(w, entry, gpus))
            add_lane(w, entry);
    const char *missing = w->n_lanes ? NULL : fb_target_everywhere()->device;
    for (int k = 0; k < w->options.n_devices; k++)
        if (fb_lane_named(w, w->devices[k]) == FB_NONE) missing = w->devices[k];
    if (missing) fb_fail(&w->error, FB_ERR_UNAVAILABLE, "there is no device \"%s\" to share", missing);
    for (int k = 0; k < w->seats.n; k++) fb_channel_pause(w->seats.at[k]->channel, false);
    fb_workshop_changed(w);
}

static void machine_event(fb_workshop *w, const fb_worker_event *e)
{
    const char *device = fb_json_string_or(e->message, "device", "");
    json_t *machine = json_object_get(e->message, "machine");
    for (int i = 0; i < w->n_lanes && json_is_object(machine); i++) {
        fb_workshop_lane *l = &w->lanes[i];
        if (strcmp(l->device, device) != 0) continue;
        json_decref(l->machine);
        l->machine = json_incref(machine);
        for (int k = 0; k < w->seats.n; k++)
            if (w->seats.at[k]->greeted)
                fb_seat_send(w->seats.at[k], json_pack("{s:s, s:i, s:s, s:O}", "type", "machine", "id", 0, "device",
                                                       device, "machine", machine));
    }
}

static void worker_event(fb_workshop *w, int lane, fb_worker_event *e)
{
    bool listing = e->id && e->id == w->listing && lane == 0;
    if (e->kind == FB_WORKER_HELLO || e->kind == FB_WORKER_DEVICES)
        list_event(w, e);
    else if (e->kind == FB_WORKER_MACHINE)
        machine_event(w, e);
    else if (e->kind == FB_WORKER_ERROR && listing && !w->n_lanes)
        w->error = e->error;
    else if (lane < w->n_lanes)
        fb_share_event(w, lane, e);
    if (e->kind == FB_WORKER_ERROR && !e->id) fb_workshop_say(w, "%s", e->error.text);
}

/* True: something came. */
static bool take_events(fb_workshop *w)
{
    bool any = false;
    int n = w->n_lanes ? w->n_lanes : 1;
    for (int i = 0; i < n; i++) {
        fb_worker_event e;
        fb_worker *k = i ? w->lanes[i].worker : w->lister;
        while (fb_worker_next(k, &e)) {
            worker_event(w, i, &e);
            fb_worker_event_clear(&e);
            any = true;
        }
    }
    return any;
}

/* ---- seats ---- */

static void turn_away(fb_workshop *w, int fd)
{
    fb_channel *c = fb_channel_new(fd, fd);
    fb_channel_send(c, json_pack("{s:s, s:i, s:s, s:s}", "type", "error", "id", 0, "kind", "limit", "text",
                                 "every seat of the workshop is taken"));
    fb_channel_flush(c, 0, NULL);
    fb_channel_free(c);
    w->refused++;
}

static void accept_seats(fb_workshop *w)
{
    enum { A_TURN = 16 };
    for (int i = 0; i < A_TURN; i++) {
        pid_t pid = 0;
        fb_error why = {0};
        int fd = fb_workshop_accept(w->listener, &pid, &why);
        if (why.kind) {
            w->refused++;
            fb_workshop_say(w, "%s", why.text);
        }
        if (fd < 0 && !why.kind) return;
        if (fd < 0) continue;
        if (w->seats.n >= (int)w->options.limits.seats) {
            turn_away(w, fd);
            continue;
        }
        FB_VEC_PUSH(&w->seats, fb_seat_new(w, fd, pid));
        fb_workshop_changed(w);
    }
}

static void drop_gone(fb_workshop *w)
{
    for (int i = 0; i < w->seats.n; i++) {
        fb_seat *s = w->seats.at[i];
        if (!s->gone) continue;
        w->seats.at[i--] = w->seats.at[--w->seats.n];
        fb_seat_free(w, s);
        fb_workshop_changed(w);
    }
}

/* ---- its life ---- */

fb_workshop *fb_workshop_new(const fb_workshop_options *o, fb_error *err)
{
    fb_workshop *w = fb_calloc(1, sizeof *w);
    w->options = *o;
    w->self = o->self ? fb_strdup(o->self) : NULL;
    for (int i = 0; i < o->n_devices; i++) w->devices[i] = fb_strdup(o->devices[i]);
    w->listener = fb_workshop_listen(o->socket, w->socket, sizeof w->socket, err);
    if (w->listener < 0) {
        w->socket[0] = '\0';
        fb_workshop_free(w);
        return NULL;
    }
    w->lister = fb_worker_new(w->self, NULL);
    w->listing = fb_worker_devices(w->lister, false);
    return w;
}

void fb_workshop_free(fb_workshop *w)
{
    if (!w) return;
    fb_share_free(w);
    while (w->seats.n) fb_seat_free(w, w->seats.at[--w->seats.n]);
    fb_accounts_free(w);
    FB_VEC_FREE(&w->seats);
    while (w->graphs.n) {
        w->graphs.at[0]->users = 1;
        fb_workshop_unuse(w, w->graphs.at[0]);
    }
    FB_VEC_FREE(&w->graphs);
    for (int i = 0; i < w->files.n; i++) {
        fb_free(w->files.at[i].key);
        fb_free(w->files.at[i].values);
    }
    FB_VEC_FREE(&w->files);
    for (int i = 0; i < w->n_lanes; i++) {
        fb_workshop_lane *l = &w->lanes[i];
        if (i) fb_worker_free(l->worker);
        while (l->files.n) fb_free(l->files.at[--l->files.n]);
        FB_VEC_FREE(&l->files);
        json_decref(l->entry);
        json_decref(l->machine);
        fb_free(l->device);
    }
    fb_worker_free(w->lister);
    fb_tally_free(w);
    if (w->listener >= 0) close(w->listener);
    if (w->socket[0]) unlink(w->socket);
    fb_free(w->self);
    for (int i = 0; i < w->options.n_devices; i++) fb_free(w->devices[i]);
    fb_free(w);
}

static void sooner(int *timeout_ms, int ms)
{
    if (ms >= 0 && (*timeout_ms < 0 || ms < *timeout_ms)) *timeout_ms = ms;
}

int fb_workshop_poll(const fb_workshop *w, struct pollfd out[FB_WORKSHOP_FDS], int *timeout_ms)
{
    int n = 0, lanes = w->n_lanes ? w->n_lanes : 1;
    *timeout_ms = fb_share_timeout(w);
    out[n++] = (struct pollfd){.fd = w->listener, .events = POLLIN};
    for (int i = 0; i < lanes; i++) {
        const fb_worker *k = i ? w->lanes[i].worker : w->lister;
        n += fb_worker_poll(k, out + n);
        int64_t deadline = fb_worker_deadline(k), left = deadline - fb_now_ns();
        if (deadline != INT64_MAX) sooner(timeout_ms, left <= 0 ? 0 : (int)(left / 1000000) + 1);
    }
    for (int i = 0; i < w->seats.n && n + 2 <= FB_WORKSHOP_FDS; i++) {
        n += fb_channel_poll(w->seats.at[i]->channel, out + n);
        sooner(timeout_ms, fb_seat_timeout(w->seats.at[i]));
    }
    return n;
}

void fb_workshop_pump(fb_workshop *w)
{
    accept_seats(w);
    int lanes = w->n_lanes ? w->n_lanes : 1;
    for (int i = 0; i < lanes; i++) fb_worker_pump(i ? w->lanes[i].worker : w->lister);
    take_events(w);
    for (int i = 0; i < w->seats.n; i++) fb_seat_pump(w, w->seats.at[i]);
    drop_gone(w);
    do fb_share_run(w);
    while (take_events(w)); /* a worker that cannot start says so at once */
    for (int i = 0; i < w->seats.n; i++) fb_channel_flush(w->seats.at[i]->channel, 0, NULL);
}

uint64_t fb_workshop_serial(const fb_workshop *w)
{
    return w->serial;
}

const fb_error *fb_workshop_error(const fb_workshop *w)
{
    return &w->error;
}

/* ---- what a screen shows ---- */

void fb_workshop_state_of(const fb_workshop *w, fb_workshop_state *out)
{
    *out = (fb_workshop_state){.socket = w->socket,
                               .seats = w->seats.n,
                               .seats_ever = w->last_seat,
                               .waiting = w->tasks.n,
                               .measured = w->measured,
                               .shared = w->shared,
                               .refused = w->refused,
                               .lost = w->lost,
                               .written = w->written};
    for (int i = 0; i < w->n_lanes; i++) out->waiting -= w->lanes[i].running != NULL;
}

int fb_workshop_devices(const fb_workshop *w)
{
    return w->n_lanes;
}

const char *fb_workshop_device(const fb_workshop *w, int i, const char **title, const char **doing, int *seat)
{
    const fb_workshop_lane *l = &w->lanes[i];
    const fb_task *t = l->running;
    *title = fb_json_string_or(l->entry, "name", l->device);
    *doing = !t ? NULL : t->doing[0] ? t->doing : fb_ask_name(t->kind);
    *seat = t && t->waiters.n ? t->waiters.at[0].seat->number : 0;
    return l->device;
}

const char *fb_workshop_note(const fb_workshop *w)
{
    return w->note;
}
