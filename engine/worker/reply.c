/* Reads what a worker says. It may be any program on any machine: what comes out is whole, in range and fit for a
 * screen, or an error that says so. */
#include "config.h"

#include "base/json.h"
#include "base/str.h"
#include "worker/messages.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *type;
    fb_worker_event_kind kind;
    bool ends; /* the request of its id */
} kinds[] = {
    {"hello", FB_WORKER_HELLO, false},      {"progress", FB_WORKER_PROGRESS, false},
    {"prepared", FB_WORKER_PREPARED, true}, {"sampled", FB_WORKER_SAMPLED, true},
    {"checked", FB_WORKER_CHECKED, true},   {"traced", FB_WORKER_TRACED, true},
    {"values", FB_WORKER_VALUES, true},     {"released", FB_WORKER_RELEASED, true},
    {"found", FB_WORKER_FOUND, true},       {"machine", FB_WORKER_MACHINE, true},
    {"devices", FB_WORKER_DEVICES, true},   {"error", FB_WORKER_ERROR, true},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

bool fb_reply_kind(const json_t *message, fb_worker_event_kind *kind, bool *ends)
{
    const char *type = fb_json_string_or(message, "type", "");
    for (int k = 0; k < KINDS; k++) {
        if (strcmp(type, kinds[k].type) != 0) continue;
        *kind = kinds[k].kind;
        *ends = kinds[k].ends;
        return true;
    }
    return false;
}

/* What is out of range is not known, as where nothing is said: a bar has no other end. */
static void read_progress(fb_worker_event *e)
{
    const char *what = fb_json_string_or(e->message, "what", "");
    double fraction = fb_json_number_or(e->message, "fraction", 0);
    fb_text_clean(e->text, sizeof e->text, what, strlen(what));
    e->fraction = fraction >= 0 && fraction <= 1 ? fraction : 0;
}

/* Somebody reads it: an error without a word is none. */
static void read_error(fb_worker_event *e)
{
    char clean[sizeof e->error.text];
    const char *text = fb_json_string_or(e->message, "text", "");
    fb_text_clean(clean, sizeof clean, text, strlen(text));
    fb_fail(&e->error, fb_error_kind_parse(fb_json_string_or(e->message, "kind", "")), "%s",
            fb_text_is_blank(text) ? "it gave no reason" : clean);
}

/* False with a sentence: the part that is the answer makes no sense. */
static bool read_part(fb_worker_event *e, fb_error *err)
{
    switch (e->kind) {
    case FB_WORKER_PREPARED:
    case FB_WORKER_SAMPLED:
    case FB_WORKER_CHECKED:
        e->report = fb_report_from_json(json_object_get(e->message, "report"), err);
        return e->report != NULL;
    case FB_WORKER_TRACED:
        e->timeline = fb_timeline_from_json(json_object_get(e->message, "timeline"), err);
        return e->timeline != NULL;
    case FB_WORKER_VALUES:
        e->values = fb_values_from_json(json_object_get(e->message, "values"), err);
        return e->values != NULL;
    default: return true;
    }
}

void fb_reply_read(fb_worker_event *e)
{
    fb_error why = {0};
    if (e->kind == FB_WORKER_PROGRESS) read_progress(e);
    if (e->kind == FB_WORKER_ERROR) read_error(e);
    if (read_part(e, &why)) return;
    e->kind = FB_WORKER_ERROR;
    e->error = why;
}

bool fb_reply_greets(const json_t *message, char seat[33], fb_error *err)
{
    char version[21];
    int64_t theirs = fb_json_int_or(message, "fusebox", 0);
    const char *who = fb_json_string_or(message, "seat", ""), *said = fb_json_string_or(message, "version", "?");
    snprintf(seat, 33, "%s", strlen(who) == 32 ? who : "");
    if (theirs == FB_PROTOCOL_VERSION) return true;
    fb_text_clean(version, sizeof version, said, strlen(said));
    return fb_fail(err, FB_ERR_UNAVAILABLE,
                   "is fusebox %s and speaks protocol %lld, this is %s and speaks %d: install the same version on both",
                   version, (long long)theirs, PACKAGE_VERSION, FB_PROTOCOL_VERSION);
}
