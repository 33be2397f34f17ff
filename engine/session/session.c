/* The façade: its life, its log and its pump, which gives every part what has arrived. The parts are the files
 * beside it (internal.h). */
#include "session/internal.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "session/library.h"

#include <stdarg.h>
#include <string.h>

static const int64_t settle_ns = FB_SESSION_SETTLE_MS * 1000000ll;

/* Folders that another user could have put something into are passed over, which is told. Ones that cannot be made cost
 * time only. */
static void look_at_folders(fb_session *s)
{
    char path[4096];
    fb_error why = {0};
    if (!fb_cache_dir(fb_target_everywhere()->device, path, sizeof path, &why) && why.kind == FB_ERR_UNAVAILABLE)
        fb_session_say(s, "%s; work goes on without a cache", why.text);
    why.kind = FB_OK;
    if (!fb_state_usable(&why) && why.kind == FB_ERR_UNAVAILABLE)
        fb_session_say(s, "%s; nothing is remembered", why.text);
}

fb_session *fb_session_new(const fb_session_options *o, fb_error *err)
{
    fb_session *s = fb_calloc(1, sizeof *s);
    s->options = *o;
    s->options.set = NULL;
    s->self = fb_strdup(o->self);
    s->device = fb_session_copy_text(o->device);
    s->set = o->set ? json_deep_copy(o->set) : json_object();
    s->params = json_object();
    if (!fb_devices_start(s, err)) {
        fb_session_free(s);
        return NULL;
    }
    look_at_folders(s);
    return s;
}

void fb_session_free(fb_session *s)
{
    if (!s) return;
    fb_experiment_free(s);
    for (int i = 0; i < s->columns.n; i++) fb_column_free(s->columns.at[i]);
    for (int i = 0; i < s->hidden.n; i++) fb_column_free(s->hidden.at[i]);
    FB_VEC_FREE(&s->columns);
    FB_VEC_FREE(&s->hidden);
    fb_scheduler_free(s);
    fb_load_free(s);
    fb_peek_free(s);
    fb_kernels_free(s);
    fb_devices_free(s);
    for (int i = 0; i < s->log.n; i++) fb_free(s->log.at[i].text);
    FB_VEC_FREE(&s->log);
    json_decref(s->set);
    json_decref(s->params);
    fb_free(s->self);
    fb_free(s->device);
    fb_free(s->path);
    fb_free(s);
}

void fb_session_changed(fb_session *s)
{
    s->serial++;
}

uint64_t fb_session_serial(const fb_session *s)
{
    return s->serial;
}

/* ---- the log ---- */

void fb_session_log(fb_session *s, const char *text, bool printed)
{
    size_t n = strlen(text), room = 3 * n + 1; /* a bad byte becomes one sign, never more */
    char *line = fb_alloc(room);
    fb_text_clean(line, room, text, n);
    if (s->log.n == FB_SESSION_LOG) {
        fb_free(s->log.at[0].text);
        memmove(s->log.at, s->log.at + 1, (size_t)(--s->log.n) * sizeof *s->log.at);
        s->log_dropped++;
    }
    FB_VEC_PUSH(&s->log, (fb_log_line){.text = line, .printed = printed});
    fb_session_changed(s);
}

void fb_session_say(fb_session *s, const char *format, ...)
{
    fb_str text = {0};
    va_list ap;
    va_start(ap, format);
    fb_str_vaddf(&text, format, ap);
    va_end(ap);
    fb_session_log(s, fb_str_get(&text), false);
    fb_str_free(&text);
}

int fb_session_log_lines(const fb_session *s)
{
    return s->log.n;
}

const char *fb_session_log_line(const fb_session *s, int i)
{
    return i >= 0 && i < s->log.n ? s->log.at[i].text : "";
}

bool fb_session_log_printed(const fb_session *s, int i)
{
    return i >= 0 && i < s->log.n && s->log.at[i].printed;
}

int64_t fb_session_log_dropped(const fb_session *s)
{
    return s->log_dropped;
}

/* ---- events ---- */

static void sooner(int *timeout_ms, int ms)
{
    if (ms >= 0 && (*timeout_ms < 0 || ms < *timeout_ms)) *timeout_ms = ms;
}

static int until(int64_t when_ns)
{
    int64_t left = when_ns - fb_now_ns();
    return left <= 0 ? 0 : (int)(left / 1000000) + 1;
}

int fb_session_poll(const fb_session *s, struct pollfd out[FB_SESSION_FDS], int *timeout_ms)
{
    int n = 0;
    *timeout_ms = s->advanced == s->serial ? -1 : 0; /* what changed since may be carried on with at once */
    if (s->script) {
        int ms = -1;
        n += fb_script_poll(s->script, out, &ms);
        sooner(timeout_ms, ms);
    }
    if (s->peek.script) {
        int ms = -1;
        n += fb_script_poll(s->peek.script, out + n, &ms);
        sooner(timeout_ms, ms);
    }
    for (int i = 0; i < s->n_workers; i++) {
        n += fb_worker_poll(s->workers[i].worker, out + n);
        int64_t deadline = fb_worker_deadline(s->workers[i].worker);
        if (deadline != INT64_MAX) sooner(timeout_ms, until(deadline));
    }
    if (s->automatic)
        for (int i = 0; i < s->columns.n; i++) {
            const fb_column_record *c = s->columns.at[i];
            if (c->changed_ns && c->shown.state == FB_COLUMN_READY)
                sooner(timeout_ms, until(c->changed_ns + settle_ns));
        }
    sooner(timeout_ms, fb_devices_timeout(s));
    return n;
}

static void worker_event(fb_session *s, int worker, fb_worker_event *e)
{
    switch (e->kind) {
    case FB_WORKER_HELLO:
    case FB_WORKER_DEVICES: fb_devices_list_event(s, worker, e); break;
    case FB_WORKER_MACHINE: fb_devices_machine_event(s, worker, e); break;
    case FB_WORKER_ERROR:
        if (!fb_devices_error(s, worker, e)) fb_scheduler_event(s, worker, e);
        break;
    default: fb_scheduler_event(s, worker, e); break;
    }
}

/* Columns that changed and were left alone for a moment are measured together. */
static void measure_changed(fb_session *s)
{
    int64_t now = fb_now_ns();
    for (int i = 0; i < s->columns.n; i++) {
        fb_column_record *c = s->columns.at[i];
        if (c->changed_ns && c->shown.state == FB_COLUMN_BUILDING) return; /* wait for it, so that all interleave */
        if (c->changed_ns && c->shown.state == FB_COLUMN_READY && c->changed_ns + settle_ns > now) return;
    }
    for (int i = 0; i < s->columns.n; i++) {
        fb_column_record *c = s->columns.at[i];
        if (c->changed_ns && c->shown.state == FB_COLUMN_READY) fb_job_start(s, c, false);
        c->changed_ns = 0;
    }
}

static bool advance_all(fb_session *s)
{
    bool moved = false;
    for (int i = 0; i < s->columns.n; i++) moved |= fb_column_advance(s->columns.at[i]);
    for (int i = 0; i < s->hidden.n; i++) moved |= fb_column_advance(s->hidden.at[i]);
    return moved;
}

void fb_session_pump(fb_session *s)
{
    fb_load_pump(s);
    fb_peek_pump(s);
    for (int i = 0; i < s->n_workers; i++) {
        fb_worker_event e;
        fb_worker_pump(s->workers[i].worker);
        while (fb_worker_next(s->workers[i].worker, &e)) {
            worker_event(s, i, &e);
            fb_worker_event_clear(&e);
        }
    }
    while (advance_all(s)) fb_session_changed(s);
    s->advanced = s->serial;
    fb_experiment_pump(s);
    if (s->automatic) measure_changed(s);
    fb_scheduler_run(s);
    fb_devices_idle(s);
}

static bool column_busy(const fb_column_record *c)
{
    return c->shown.state == FB_COLUMN_BUILDING || c->shown.state == FB_COLUMN_QUEUED ||
           c->shown.state == FB_COLUMN_MEASURING;
}

bool fb_session_busy(const fb_session *s)
{
    if (s->script_loading || s->peek.script || s->jobs.n || s->experiment) return true;
    for (int i = 0; i < s->columns.n; i++)
        if (column_busy(s->columns.at[i])) return true;
    for (int i = 0; i < s->n_workers; i++)
        if (s->workers[i].listing) return true;
    for (int i = 0; i < s->devices.n; i++)
        if (s->devices.at[i]->calibration && s->devices.at[i]->asked_for) return true;
    return false;
}

void fb_session_wait(fb_session *s, int timeout_ms)
{
    struct pollfd fds[FB_SESSION_FDS];
    int ms, n = fb_session_poll(s, fds, &ms);
    sooner(&ms, timeout_ms);
    poll(fds, (nfds_t)n, ms);
    fb_session_pump(s);
}

void fb_session_set_auto(fb_session *s, bool on)
{
    s->automatic = on;
    fb_session_changed(s);
}

bool fb_session_auto(const fb_session *s)
{
    return s->automatic;
}
