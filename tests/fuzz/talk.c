/* Messages between our processes, a line each: what a worker is asked and what it says, and what a confined script says
 * of itself. No process is started and nothing is kept from one line to the next. */
#include "fuzz/decoders.h"
#include "fuzz/must.h"

#include "base/json.h"
#include "script/start.h"
#include "worker/messages.h"

#include <limits.h>
#include <math.h>

/* ---- workers ---- */

static void check_request(const fb_request *r)
{
    bool is_case = r->kind == FB_REQUEST_PREPARE || r->kind == FB_REQUEST_CHECK || r->kind == FB_REQUEST_SEARCH;
    MUST(r->limit_s > 0 && r->limit_s <= FB_MOST_LIMIT_S);
    MUST(!fb_request_is_work(r) || r->id >= 1);
    MUST(!is_case || (r->graph && r->device && r->n_seeds >= 1 && r->n_seeds <= FB_SEEDS));
    MUST(r->kind != FB_REQUEST_SAMPLE || (r->n >= 1 && r->n <= FB_MOST_SAMPLES));
    MUST(r->kind != FB_REQUEST_CALIBRATE || r->device);
    MUST(r->kind != FB_REQUEST_VALUES || r->node);
    MUST(r->kind != FB_REQUEST_FILE || (r->key && r->bytes >= 0 && r->bytes <= FB_MOST_FILE));
    MUST((r->kind != FB_REQUEST_GRAPH && r->kind != FB_REQUEST_FORGET) || r->hash);
}

void run_requests(const uint8_t *bytes, size_t n)
{
    const char *at = (const char *)bytes, *end = at + n, *line;
    for (size_t length; next_line(&at, end, &line, &length);) {
        fb_error err = {0};
        fb_request r;
        json_t *message = fb_json_parse(line, length, &err);
        if (!message)
            check_error(&err);
        else if (fb_request_read(message, &r, &err))
            check_request(&r);
        else
            check_error(&err);
        json_decref(message);
    }
}

/* Written and read again it is the same. */
#define CHECK_WRITTEN(TYPE)                                                                                            \
    static void check_##TYPE(const fb_##TYPE *x)                                                                       \
    {                                                                                                                  \
        fb_error err = {0};                                                                                            \
        json_t *once = fb_##TYPE##_to_json(x);                                                                         \
        fb_##TYPE *again = fb_##TYPE##_from_json(once, &err);                                                          \
        MUST(again);                                                                                                   \
        json_t *twice = fb_##TYPE##_to_json(again);                                                                    \
        MUST(json_equal(once, twice));                                                                                 \
        json_decref(once);                                                                                             \
        json_decref(twice);                                                                                            \
        fb_##TYPE##_free(again);                                                                                       \
    }
CHECK_WRITTEN(report)
CHECK_WRITTEN(timeline)
CHECK_WRITTEN(values)
#undef CHECK_WRITTEN

void run_answers(const uint8_t *bytes, size_t n)
{
    const char *at = (const char *)bytes, *end = at + n, *line;
    for (size_t length; next_line(&at, end, &line, &length);) {
        fb_error err = {0};
        char seat[33];
        bool ends;
        fb_worker_event e = {.message = fb_json_parse(line, length, &err)};
        if (!e.message) {
            check_error(&err);
            continue;
        }
        if (fb_reply_kind(e.message, &e.kind, &ends)) {
            if (e.kind == FB_WORKER_HELLO && !fb_reply_greets(e.message, seat, &err)) check_error(&err);
            MUST(e.kind != FB_WORKER_HELLO || strlen(seat) == 0 || strlen(seat) == 32);
            fb_reply_read(&e);
            check_clean(e.text);
            MUST(e.fraction >= 0 && e.fraction <= 1);
            if (e.kind == FB_WORKER_ERROR) check_error(&e.error);
            if (e.report) check_report(e.report);
            if (e.timeline) check_timeline(e.timeline);
            if (e.values) check_values(e.values);
        }
        fb_worker_event_clear(&e);
    }
}

/* ---- scripts ---- */

static void check_lines(const fb_script_lines *l)
{
    MUST((l->first == 0 && l->last == 0) || (l->first >= 1 && l->last >= l->first));
}

/* A page's longer texts have lines. */
static void check_paragraphs(const char *text)
{
    fb_str clean = {0};
    if (!text) return;
    fb_str_add_clean(&clean, text, "\n\t");
    MUST(*text && strcmp(fb_str_get(&clean), text) == 0);
    fb_str_free(&clean);
}

static void check_lesson(const fb_lesson *l)
{
    check_paragraphs(l->about);
    MUST(l->n_pages >= 1 && l->n_pages <= FB_LESSON_PAGES);
    for (int i = 0; i < l->n_pages; i++) {
        const fb_lesson_page *p = &l->pages[i];
        MUST(p->line >= 0 && p->title && p->n_columns <= FB_LESSON_COLUMNS);
        check_clean(p->title);
        check_clean(p->script);
        const char *texts[] = {p->text, p->answer, p->notes, p->keys};
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) check_paragraphs(texts[k]);
        for (int k = 0; k < p->n_columns; k++) check_clean(p->columns[k]);
        MUST(!p->params || json_is_object(p->params));
    }
}

static void check_puzzle(const fb_puzzle *p)
{
    const char *texts[] = {p->compare[0], p->compare[1], p->about, p->ask, p->tell};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) check_clean(texts[i]);
    MUST(p->order >= 0 && p->ask && p->compare[0] && p->compare[1]);
    for (int i = 0; i < p->n_choices; i++) {
        check_clean(p->choice_keys[i]);
        check_clean(p->choices[i]);
        check_clean(p->conditions[i].tell);
    }
    for (int i = 0; i < p->n_hints; i++) check_clean(p->hints[i]);
}

static void check_info(const fb_script_info *s)
{
    check_clean(s->title);
    check_clean(s->computes);
    MUST(s->lesson || s->n_variants > 0);
    for (int i = 0; i < s->n_variants; i++) {
        MUST(!*s->variants[i] || fb_str_is_name(s->variants[i]));
        check_lines(&s->variant_lines[i]);
    }
    for (int i = 0; i < s->n_plans; i++) {
        MUST(!*s->plans[i] || fb_str_is_name(s->plans[i]));
        check_lines(&s->plan_lines[i]);
    }
    for (int i = 0; i < s->n_columns; i++) check_clean(s->columns[i]);
    for (int i = 0; i < s->n_params; i++) {
        const fb_param *p = &s->params[i];
        MUST(fb_str_is_name(p->name) && p->standard);
        check_clean(p->help);
        check_clean(p->step);
        for (int k = 0; k < p->n_choices; k++) check_clean(p->choices[k]);
    }
    if (s->puzzle) check_puzzle(s->puzzle);
    if (s->lesson) check_lesson(s->lesson);
}

void run_script_info(const uint8_t *bytes, size_t n)
{
    fb_error err = {0};
    json_t *message = fb_json_parse((const char *)bytes, n, &err);
    if (!message) {
        check_error(&err);
        return;
    }
    fb_script_info *info = fb_script_info_read(message, "script.lua", &err);
    json_decref(message);
    if (info)
        check_info(info);
    else
        check_error(&err);
    fb_script_info_free(info);
}
