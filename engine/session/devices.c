/* Workers and the devices they offer: starting them, listing, names across machines, calibrations and doubts about
 * them. Leaves the device by default. */
#include "session/internal.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "session/names.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- workers ---- */

static void add_worker(fb_session *s, const char *command)
{
    fb_worker_record *w = &s->workers[s->n_workers++];
    w->worker = fb_worker_new(s->self, command);
    w->listing = fb_worker_devices(w->worker, s->options.libraries);
}

/* Workers that the user gave come first, so that their devices are the ones meant; this machine's own is the last. */
bool fb_devices_start(fb_session *s, fb_error *err)
{
    const fb_session_options *o = &s->options;
    if (o->n_workers > FB_SESSION_WORKERS - 1)
        return fb_fail(err, FB_ERR_USAGE, "no more than %d workers", FB_SESSION_WORKERS - 1);
    for (int i = 0; i < o->n_workers; i++) add_worker(s, o->workers[i]);
    add_worker(s, NULL);
    return true;
}

void fb_devices_free(fb_session *s)
{
    for (int i = 0; i < s->n_workers; i++) {
        fb_worker_free(s->workers[i].worker);
        fb_free(s->workers[i].host);
        json_decref(s->workers[i].devices);
        json_decref(s->workers[i].libraries);
        for (int k = 0; k < s->workers[i].files.n; k++) fb_free(s->workers[i].files.at[k]);
        FB_VEC_FREE(&s->workers[i].files);
    }
    for (int i = 0; i < s->devices.n; i++) {
        json_decref(s->devices.at[i]->entry);
        fb_free(s->devices.at[i]->name);
        fb_free(s->devices.at[i]);
    }
    FB_VEC_FREE(&s->devices);
    json_decref(s->device_list);
    json_decref(s->library_list);
    while (s->predictions.n) json_decref(s->predictions.at[--s->predictions.n]);
    FB_VEC_FREE(&s->predictions);
}

bool fb_session_devices_known(const fb_session *s)
{
    return s->n_listed == s->n_workers;
}

/* ---- devices ---- */

static bool recalls(const json_t *entry)
{
    return strcmp(fb_json_string_or(entry, "kind", ""), "replay") == 0;
}

/* The recording holds the script that is loaded, which is called by the name of its file. */
static bool has_recorded(const fb_session *s, const fb_device_record *d)
{
    char name[256];
    snprintf(name, sizeof name, "%s", s->path ? fb_file_name(s->path) : "");
    char *dot = strrchr(name, '.');
    if (dot) *dot = '\0';
    return json_object_get(json_object_get(d->entry, "scripts"), name) != NULL;
}

static bool is_recording(const json_t *entry)
{
    return recalls(entry) || json_object_get(entry, "recorded");
}

/* "replay" or "torch" alone, for "replay:h200" or "torch:h200": the first recording with the script, else the first
 * there is. */
static fb_device_record *any_recorded(const fb_session *s, const char *name)
{
    fb_device_record *first = NULL;
    size_t n = strlen(name);
    for (int i = 0; i < s->devices.n; i++) {
        fb_device_record *d = s->devices.at[i];
        if (!is_recording(d->entry) || strncmp(d->name, name, n) != 0 || d->name[n] != ':') continue;
        if (has_recorded(s, d)) return d;
        if (!first) first = d;
    }
    return first;
}

/* An entry that says what is missing is there to be read; it opens no device. */
static const char *missing(const json_t *entry)
{
    return fb_json_string_or(entry, "missing", NULL);
}

static const char *missing_for(const fb_session *s, const char *name)
{
    size_t i;
    json_t *entry;
    json_array_foreach(s->device_list, i, entry)
    {
        if (missing(entry) && strcmp(fb_json_string_or(entry, "device", ""), name) == 0) return missing(entry);
    }
    return NULL;
}

static fb_device_record *listed(const fb_session *s, const char *name)
{
    for (int i = 0; i < s->devices.n; i++)
        if (strcmp(s->devices.at[i]->name, name) == 0) return s->devices.at[i];
    return NULL;
}

static fb_device_record *called(const fb_session *s, int worker, const char *name)
{
    for (int i = 0; i < s->devices.n; i++)
        if (s->devices.at[i]->worker == worker && strcmp(s->devices.at[i]->called, name) == 0) return s->devices.at[i];
    return NULL;
}

/* By the name of its machine and what that calls it, also where the shorter name would do. */
static fb_device_record *of_machine(const fb_session *s, const char *name)
{
    for (int i = 0; i < s->devices.n; i++) {
        fb_device_record *d = s->devices.at[i];
        const char *host = s->workers[d->worker].host;
        size_t n = host ? strlen(host) : 0;
        if (n && strncmp(name, host, n) == 0 && name[n] == ':' && strcmp(name + n + 1, d->called) == 0) return d;
    }
    return NULL;
}

/* A machine's name alone: its first GPU, else the first device that runs what it is given. */
static fb_device_record *first_of_machine(const fb_session *s, const char *name)
{
    fb_device_record *first = NULL;
    for (int i = 0; i < s->devices.n; i++) {
        fb_device_record *d = s->devices.at[i];
        const char *host = s->workers[d->worker].host;
        if (!host || strcmp(host, name) != 0 || is_recording(d->entry)) continue;
        if (!first || (d->target->accelerates && !first->target->accelerates)) first = d;
    }
    return first;
}

/* A recorded peer stands in only where no worker has the peer itself, which may take its time to answer; one that the
 * user gave and that cannot run is to be heard of. */
static fb_device_record *find(const fb_session *s, const char *name)
{
    fb_device_record *d = listed(s, name);
    if (!d) d = of_machine(s, name);
    if (!d) d = first_of_machine(s, name);
    if (d) return d;
    if (strcmp(name, "replay") != 0 && (!fb_session_devices_known(s) || missing_for(s, name))) return NULL;
    return any_recorded(s, name);
}

static bool names_replay(const char *column)
{
    const char *at = column ? strrchr(column, '@') : NULL;
    return at && strncmp(at + 1, "replay", 6) == 0;
}

/* A script asks for the replay by naming it in its columns or its puzzle. */
static bool asks_for_replay(const fb_session *s)
{
    bool asks = false;
    for (int i = 0; s->info && i < s->info->n_columns; i++) asks |= names_replay(s->info->columns[i]);
    const fb_puzzle *puzzle = s->info ? s->info->puzzle : NULL;
    return asks || (puzzle && (names_replay(puzzle->compare[0]) || names_replay(puzzle->compare[1])));
}

/* ---- names ---- */

bool fb_same_machine(const fb_worker_record *a, const fb_worker_record *b)
{
    return a->host && b->host && strcmp(a->host, b->host) == 0;
}

/* What the session calls a worker's device: as the worker does, or "gpubox:cuda:0" where an earlier worker of another
 * machine has a cuda:0, and always "workshop:cuda:0" of one that is shared. False where it is an earlier worker's very
 * own: of the same machine, or the same recording. */
static bool name_device(const fb_session *s, int worker, const json_t *entry, char *to, size_t room)
{
    const fb_worker_record *w = &s->workers[worker];
    const char *name = fb_json_string_or(entry, "device", NULL);
    bool clashes = w->workshop;
    for (int i = 0; i < worker && name; i++) {
        if (s->workers[i].workshop) continue;
        const json_t *other = fb_json_find(s->workers[i].devices, "device", name);
        if (!other || (missing(other) && !missing(entry))) continue;
        if (is_recording(entry) || !w->host || fb_same_machine(w, &s->workers[i])) return false;
        clashes = true;
    }
    clashes = clashes && w->host;
    snprintf(to, room, "%s%s%s", clashes ? w->host : "", clashes ? ":" : "", name ? name : "");
    for (char *p = to; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._-:", *p)) *p = '-'; /* a column's text can name it */
    return name && *name;
}

static void list_device(fb_session *s, int worker, const char *name, json_t *entry)
{
    if (missing(entry) || listed(s, name)) return;
    fb_device_record *d = fb_calloc(1, sizeof *d);
    d->name = fb_strdup(name);
    d->called = json_string_value(json_object_get(entry, "device"));
    d->worker = worker;
    d->target = fb_target_of_device(fb_json_string_or(entry, "kind", ""));
    d->recalls = recalls(entry);
    d->entry = json_incref(entry);
    fb_machine_default(&d->machine, d->target->kind);
    snprintf(d->machine.name, sizeof d->machine.name, "%s", fb_json_string_or(entry, "name", name));
    const json_t *machine = json_object_get(entry, "machine");
    d->known = machine && fb_machine_from_json(&d->machine, machine, NULL);
    FB_VEC_PUSH(&s->devices, d);
}

/* Each machine's once, with its name. */
static void list_libraries(fb_session *s, int worker)
{
    const fb_worker_record *w = &s->workers[worker];
    size_t i;
    json_t *one;
    if (!s->library_list) s->library_list = json_array();
    for (int k = 0; k < worker; k++)
        if (s->workers[k].libraries && json_array_size(s->workers[k].libraries) && fb_same_machine(w, &s->workers[k]))
            return;
    json_array_foreach(w->libraries, i, one)
    {
        json_t *copy = json_copy(one);
        if (w->host) json_object_set_new(copy, "machine", json_string(w->host));
        json_array_append_new(s->library_list, copy);
    }
}

/* To each workshop, once it is known which workers are one. */
static void tell_predictions(fb_session *s)
{
    if (!fb_session_devices_known(s)) return;
    for (int k = 0; k < s->predictions.n; k++) {
        for (int i = 0; i < s->n_workers; i++)
            if (s->workers[i].workshop) fb_worker_tell(s->workers[i].worker, json_incref(s->predictions.at[k]));
        json_decref(s->predictions.at[k]);
    }
    s->predictions.n = 0;
}

/* Two workers may have a device of the same name, and the first in order keeps it, whichever answers first: so the
 * later wait for those before them. */
static void list_in_order(fb_session *s)
{
    while (s->n_listed < s->n_workers && s->workers[s->n_listed].answered) {
        fb_worker_record *w = &s->workers[s->n_listed];
        size_t i;
        json_t *entry;
        if (!s->device_list) s->device_list = json_array();
        json_array_foreach(w->devices, i, entry)
        {
            char name[160];
            if (!name_device(s, s->n_listed, entry, name, sizeof name)) continue;
            list_device(s, s->n_listed, name, entry);
            json_t *shown = json_copy(entry);
            json_object_set_new(shown, "device", json_string(name));
            json_array_append_new(s->device_list, shown);
        }
        list_libraries(s, s->n_listed);
        s->n_listed++;
    }
    tell_predictions(s);
    fb_session_changed(s);
}

/* What a worker calls its devices, its libraries and itself is for screens and files: cleaned once, here, and no more
 * of it than there are on any machine. */
static json_t *told(fb_session *s, int worker, const json_t *message, const char *key)
{
    enum { MOST = 256, LONGEST = 400 };
    json_t *list = json_object_get(message, key);
    if (!json_is_array(list)) return NULL;
    json_t *clean = json_array();
    for (size_t i = 0; i < json_array_size(list) && i < MOST; i++)
        json_array_append_new(clean, fb_json_cleaned(json_array_get(list, i), LONGEST));
    if (json_array_size(list) > MOST)
        fb_session_say(s, "the worker (%s) has %zu %s, of which the first %d are used",
                       fb_worker_command(s->workers[worker].worker), json_array_size(list), key, MOST);
    return clean;
}

void fb_devices_list_event(fb_session *s, int worker, const fb_worker_event *e)
{
    fb_worker_record *w = &s->workers[worker];
    if (e->kind == FB_WORKER_DEVICES && e->id == w->listing) w->listing = 0;
    const char *host = fb_json_string_or(e->message, "host", "");
    if (*host && !w->host) {
        char clean[80];
        fb_text_clean(clean, sizeof clean, host, strlen(host));
        w->host = fb_strdup(clean);
    }
    if (w->answered || !json_is_array(json_object_get(e->message, "devices"))) return;
    w->workshop |= fb_json_bool_or(e->message, "workshop", false); /* greetings alone say so */
    /* A greeting need not have the libraries that were asked for. */
    if (s->options.libraries && w->listing && !json_array_size(json_object_get(e->message, "libraries"))) return;
    w->answered = true;
    w->devices = told(s, worker, e->message, "devices");
    w->libraries = told(s, worker, e->message, "libraries");
    list_in_order(s);
}

const char *fb_session_default_device(const fb_session *s)
{
    if (s->device) return s->device;
    if (!fb_session_devices_known(s)) return NULL;
    for (int i = 0; i < s->devices.n; i++) {
        const fb_device_record *d = s->devices.at[i];
        if (d->target->accelerates && !d->recalls) return d->name;
    }
    fb_device_record *replay = asks_for_replay(s) ? any_recorded(s, "replay") : NULL;
    return replay && has_recorded(s, replay) ? replay->name : fb_target_everywhere()->device;
}

const char *fb_session_device_called(const fb_session *s, const char *name)
{
    const fb_device_record *d = listed(s, name);
    return d ? d->called : name;
}

fb_device_record *fb_session_device_named(fb_session *s, const char *name, bool *wait, fb_error *err)
{
    if (!name) name = fb_session_default_device(s);
    fb_device_record *d = name ? find(s, name) : NULL;
    *wait = !d && !fb_session_devices_known(s);
    if (d || *wait) return d;
    const char *why = missing_for(s, name);
    if (why) return fb_fail(err, FB_ERR_UNAVAILABLE, "device \"%s\": %s", name, why), NULL;
    fb_arena *arena = fb_arena_new();
    const char **names = FB_NEW_ARRAY(arena, const char *, s->devices.n);
    for (int i = 0; i < s->devices.n; i++) names[i] = s->devices.at[i]->name;
    fb_fail_unknown(err, FB_ERR_UNAVAILABLE, "device", name, names, s->devices.n);
    fb_arena_free(arena);
    return NULL;
}

/* ---- machines ---- */

static void predict_again(fb_session *s, const fb_device_record *d)
{
    for (int i = 0; i < s->slots.n; i++) {
        fb_slot *slot = s->slots.at[i];
        for (int k = 0; k < slot->planners.n; k++)
            if (strcmp(slot->planners.at[k].device, d->name) == 0 &&
                (!s->options.plan_as || (!d->target->stands_in && !s->options.plan_as_gpus)))
                fb_planner_set_machine(slot->planners.at[k].planner, &d->machine);
    }
    for (int i = 0; i < s->columns.n; i++) {
        fb_column_record *c = s->columns.at[i];
        if (c->shown.machine != &d->machine) continue;
        fb_column_predict(c);
        /* What was measured stays; what it is set against does not. */
        if (!c->report || !c->shown.plan || c->report->source != FB_SOURCE_MEASURED) continue;
        c->report->predicted_us = c->shown.predicted.us;
        c->report->floor_us = c->shown.predicted.floor_us;
        c->report->floor_guessed = c->shown.predicted.floor_guessed;
        if (d->machine.doubted) fb_report_withdraw(c->report);
    }
    fb_session_changed(s);
}

/* ---- doubts: no plan is faster than its floor, so where one clearly is, the device was calibrated while busy ---- */

static bool below_floor(const fb_column_record *c, const fb_device_record *d)
{
    static const double clearly = 0.85;
    const fb_report *r = c->report;
    double floor_us = c->shown.plan ? c->shown.predicted.floor_us : NAN;
    return c->shown.machine == &d->machine && d->machine.calibrated && r && !r->failed && r->error.ok &&
           r->source == FB_SOURCE_MEASURED && r->wall_us.n > 0 && r->wall_us.median < clearly * floor_us;
}

void fb_devices_judge(fb_session *s, const fb_column_record *c)
{
    char us[32], floor_us[32];
    for (int i = 0; i < s->devices.n && !s->options.plan_as; i++) {
        fb_device_record *d = s->devices.at[i];
        if (!below_floor(c, d)) continue;
        d->undercut = true;
        if (d->machine.doubted) continue;
        d->machine.doubted = true;
        fb_session_say(s, "%s: %s took %s, less than its floor of %s: calibrated while the machine was busy?%s",
                       d->name, c->shown.text, fb_format_us(us, c->report->wall_us.median),
                       fb_format_us(floor_us, c->shown.predicted.floor_us),
                       s->options.calibrate && !d->tried ? " It is calibrated again when nothing else runs" : "");
        predict_again(s, d);
    }
}

void fb_devices_machine_event(fb_session *s, int worker, const fb_worker_event *e)
{
    fb_device_record *d = called(s, worker, fb_json_string_or(e->message, "device", ""));
    if (!d) return;
    fb_error why = {0};
    if (!fb_machine_from_json(&d->machine, json_object_get(e->message, "machine"), &why))
        fb_session_say(s, "%s: %s", d->name, why.text);
    d->known = true;
    if (e->id && e->id == d->calibration) {
        d->calibration = 0;
        d->tried = true;
        d->undercut = false;
    }
    d->machine.doubted |= d->undercut;
    predict_again(s, d);
    for (int i = 0; i < s->columns.n; i++) fb_devices_judge(s, s->columns.at[i]);
}

bool fb_session_calibrating(const fb_session *s, const char *device)
{
    const fb_device_record *d = device ? find(s, device) : NULL;
    return d && d->calibration;
}

bool fb_devices_error(fb_session *s, int worker, const fb_worker_event *e)
{
    fb_worker_record *w = &s->workers[worker];
    bool own = !e->id && !w->answered && e->error.kind == FB_ERR_CRASH; /* why its list will be empty */
    if (e->id && e->id == w->listing) {
        w->listing = 0;
        w->answered = true; /* its devices are not there, and whoever asks for one hears so */
        list_in_order(s);
        own = true;
    }
    for (int i = 0; i < s->devices.n; i++) {
        fb_device_record *d = s->devices.at[i];
        if (!e->id || d->worker != worker || d->calibration != e->id) continue;
        d->calibration = 0;
        d->tried = e->error.kind != FB_ERR_CANCELLED;
        own = true;
    }
    if (own && e->error.kind != FB_ERR_CANCELLED) {
        const char *command = fb_worker_command(w->worker);
        fb_session_say(s, "%s: %s", command ? command : "worker", e->error.text);
    }
    fb_session_changed(s);
    return own;
}

/* A workshop's, which whoever runs it calibrates. */
static bool is_shared(const fb_device_record *d)
{
    return fb_json_bool_or(d->entry, "shared", false);
}

/* A recording was calibrated where it was made, and a framework calibrates nothing. */
static bool calibrates(const fb_device_record *d)
{
    return d->target->generates && !d->recalls && !is_shared(d);
}

int64_t fb_session_calibrate(fb_session *s, const char *device, fb_error *err)
{
    bool wait = false;
    fb_device_record *d = fb_session_device_named(s, device, &wait, err);
    if (!d) {
        if (wait) fb_fail(err, FB_ERR_UNAVAILABLE, "%s: the worker has not answered yet", device ? device : "device");
        return 0;
    }
    if (!calibrates(d)) {
        fb_fail(err, FB_ERR_UNAVAILABLE,
                d->recalls     ? "%s is a recording: it was calibrated where it was made"
                : is_shared(d) ? "%s is shared by a workshop: whoever runs that calibrates it"
                               : "%s calibrates nothing: it plans for itself",
                d->name);
        return 0;
    }
    if (!d->calibration) d->calibration = fb_worker_calibrate(s->workers[d->worker].worker, d->called);
    d->asked_for = true;
    return d->calibration;
}

/* ---- calibration in the background: once, when nothing else is to be done ---- */

static fb_device_record *to_calibrate(const fb_session *s)
{
    if (!s->options.calibrate || !s->measured || s->jobs.n) return NULL;
    for (int i = 0; i < s->devices.n; i++) {
        fb_device_record *d = s->devices.at[i];
        bool wanted = !d->machine.calibrated || d->machine.doubted;
        if (d->known && wanted && !d->tried && !d->calibration && calibrates(d)) return d;
    }
    return NULL;
}

static int64_t calm_ns(const fb_session *s)
{
    enum { USUAL_MS = 1500 };
    return (s->options.calm_ms ? s->options.calm_ms : USUAL_MS) * 1000000ll;
}

int fb_devices_timeout(const fb_session *s)
{
    if (!s->idle_since_ns || !to_calibrate(s)) return -1;
    int64_t left = s->idle_since_ns + calm_ns(s) - fb_now_ns();
    return left <= 0 ? 0 : (int)(left / 1000000) + 1;
}

void fb_devices_idle(fb_session *s)
{
    fb_device_record *d = to_calibrate(s);
    if (!d)
        s->idle_since_ns = 0;
    else if (!s->idle_since_ns)
        s->idle_since_ns = fb_now_ns();
    else if (fb_now_ns() - s->idle_since_ns >= calm_ns(s)) {
        d->asked_for = false;
        d->calibration = fb_worker_calibrate(s->workers[d->worker].worker, d->called);
    }
}

void fb_devices_interrupt(fb_session *s, int worker)
{
    for (int i = 0; i < s->devices.n; i++) {
        fb_device_record *d = s->devices.at[i];
        if (d->worker == worker && d->calibration && !d->asked_for)
            fb_worker_cancel(s->workers[worker].worker, d->calibration);
    }
}

/* ---- the header's functions ---- */

void fb_session_predict(fb_session *s, const char *puzzle, const char *chosen, double guess)
{
    if (!s->options.predictions) return;
    json_t *message = json_pack("{s:s, s:s, s:s}", "type", "predict", "puzzle", puzzle, "chosen", chosen);
    fb_json_set_number(message, "guess", guess);
    FB_VEC_PUSH(&s->predictions, message);
    tell_predictions(s);
}

const json_t *fb_session_devices(const fb_session *s)
{
    return s->device_list;
}

const json_t *fb_session_libraries(const fb_session *s)
{
    return s->library_list;
}

const fb_machine *fb_session_machine(const fb_session *s, const char *device)
{
    const fb_device_record *d = device ? find(s, device) : NULL;
    return d ? &d->machine : NULL;
}
