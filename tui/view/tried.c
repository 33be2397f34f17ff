/* Appends what was tried to the history file and reads it back, also while other workbenches write to it. */
#include "tui/view/tried.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/vec.h"
#include "session/library.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { MOST_KERNELS = 200 };

struct fb_tried {
    FB_VEC(fb_hash) written;
    FB_VEC(const fb_report *) seen; /* by column: what was looked at last, only to be compared */
};

fb_tried *fb_tried_new(void)
{
    return fb_calloc(1, sizeof(fb_tried));
}

void fb_tried_free(fb_tried *t)
{
    if (!t) return;
    FB_VEC_FREE(&t->written);
    FB_VEC_FREE(&t->seen);
    fb_free(t);
}

bool fb_tried_path(char *to, size_t room)
{
    return fb_state_path("history.jsonl", to, room);
}

/* The same measurement: the same plan on the same device, and the very same figures. */
static fb_hash key_of(const fb_column *c)
{
    fb_hasher *h = fb_hasher_new();
    fb_hash plan = c->plan ? fb_plan_hash(c->plan) : (fb_hash){0};
    fb_hasher_add_text(h, c->text);
    fb_hasher_add(h, &c->graph->hash, sizeof c->graph->hash);
    fb_hasher_add(h, &plan, sizeof plan);
    fb_hasher_add(h, &c->report->wall_us, sizeof c->report->wall_us);
    return fb_hasher_end(h);
}

static bool is_new(fb_tried *t, fb_hash key)
{
    for (int i = t->written.n - 1; i >= 0; i--)
        if (fb_hash_equal(t->written.at[i], key)) return false;
    FB_VEC_PUSH(&t->written, key);
    return true;
}

/* Nothing to look at again: hashing a large plan takes a while. */
static bool was_seen(fb_tried *t, int column, const fb_column *c)
{
    const fb_report *report = c->state == FB_COLUMN_DONE ? c->report : NULL;
    while (t->seen.n <= column) FB_VEC_PUSH(&t->seen, NULL);
    if (t->seen.at[column] == report) return true;
    t->seen.at[column] = report;
    return false;
}

static void append(const char *path, const fb_session *s, int column)
{
    char script[PATH_MAX];
    const fb_column *c = fb_session_column(s, column);
    fb_report *report = fb_session_report(s, column);
    json_t *row = fb_report_to_json(report);
    if (report->n_kernels > MOST_KERNELS) json_object_del(row, "kernels"); /* a row is to be read and written quickly */
    json_object_set_new(row, "when", json_integer((json_int_t)time(NULL)));
    if (fb_session_path(s) && realpath(fb_session_path(s), script))
        json_object_set_new(row, "path", json_string(script));
    if (c->plan && !strcmp(c->plan_name, "mine")) json_object_set_new(row, "edited", fb_plan_to_json(c->plan));
    fb_append_line(path, row, NULL);
    json_decref(row);
    fb_report_free(report);
}

bool fb_tried_follow(fb_tried *t, const fb_session *s)
{
    char path[PATH_MAX];
    bool any = false;
    for (int i = 0; i < fb_session_columns(s); i++) {
        const fb_column *c = fb_session_column(s, i);
        bool measured = c->state == FB_COLUMN_DONE && c->report && c->graph && c->report->wall_us.n &&
                        c->report->source != FB_SOURCE_PREDICTED;
        if (was_seen(t, i, c) || !measured || !is_new(t, key_of(c)) || !fb_tried_path(path, sizeof path)) continue;
        append(path, s, i);
        any = true;
    }
    return any;
}

/* Its name is that of its content, so that the same plan is written once. */
bool fb_tried_plan_file(const json_t *plan, fb_str *to, fb_error *err)
{
    char name[64], hex[33], path[PATH_MAX];
    char *text = fb_json_line(plan);
    fb_hasher *h = fb_hasher_new();
    fb_hasher_add_text(h, text);
    fb_hash_hex(fb_hasher_end(h), hex);
    snprintf(name, sizeof name, "plans");
    bool good = fb_state_path(name, path, sizeof path);
    good = good && fb_private_folder(path, err);
    snprintf(name, sizeof name, "plans/%.16s.json", hex);
    good = good && fb_state_path(name, path, sizeof path) && fb_write_file(path, text, strlen(text), err);
    fb_free(text);
    if (good) fb_str_add(to, path);
    return good || (err && err->kind) || fb_fail(err, FB_ERR_SYSTEM, "there is no place for the plan");
}

bool fb_tried_spec(const json_t *row, fb_str *spec, fb_error *err)
{
    const json_t *which = json_object_get(row, "case"), *of = which ? which : row;
    const json_t *edited = json_object_get(row, "edited");
    const char *variant = fb_json_string_or(of, "variant", ""), *plan = fb_json_string_or(of, "plan", NULL),
               *device = fb_json_string_or(of, "device", ""), *values = fb_json_string_or(of, "values", "");
    if (*variant) fb_str_addf(spec, "%s:", variant);
    if (edited) {
        if (!fb_tried_plan_file(edited, spec, err)) return false;
    } else if (!plan || !strcmp(plan, "mine")) {
        return fb_fail(err, FB_ERR_INPUT, "the row does not say which plan it was");
    } else {
        fb_str_add(spec, plan);
    }
    if (*device) fb_str_addf(spec, "@%s", device);
    if (*values) fb_str_addf(spec, "#%s", values);
    return true;
}
