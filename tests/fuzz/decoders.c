/* The decoders, each with what must hold of what it accepted. Large inputs are cut, so that a round stays short. */
#include "fuzz/decoders.h"
#include "fuzz/must.h"

#include "base/gzip.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "decide/preset.h"
#include "device/replay/head.h"
#include "device/replay/recording.h"
#include "graph/graph_json.h"
#include "plan/plan.h"
#include "script/files.h"
#include "session/results.h"
#include "tui/view/command.h"
#include "tui/view/keys.h"
#include "workshop/admit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPH_NODES = 200, TEXT_MOST = 1 << 16 };

/* ---- graphs and plans ---- */

/* Every preset makes a plan of it, which is written and read as the same. */
static void plan_it(const fb_graph *g, fb_device_kind kind)
{
    fb_machine m;
    fb_machine_default(&m, kind);
    fb_planner *p = fb_planner_new(g, &m);
    for (int i = 0; i < fb_presets(); i++) {
        fb_error err = {0};
        fb_plan *plan = fb_preset_at(i)->make(p, &err);
        fb_plan_cost cost;
        fb_plan_cost_of(plan, &cost);
        json_t *text = fb_plan_to_json(plan);
        fb_plan *again = fb_plan_from_json(p, text, true, NULL, &err);
        MUST(again && fb_plan_equal(plan, again));
        fb_plan_free(again);
        json_decref(text);
        fb_plan_free(plan);
    }
    fb_planner_free(p);
}

static void run_graph(const uint8_t *bytes, size_t n)
{
    fb_error err = {0};
    fb_graph *g = fb_graph_read_json((const char *)bytes, n, &err);
    if (!g) {
        check_error(&err);
        return;
    }
    fb_str text = {0}, more = {0};
    fb_graph_write_json(g, &text);
    fb_graph *again = fb_graph_read_json(fb_str_get(&text), text.n, &err);
    MUST(again);
    fb_graph_write_json(again, &more);
    MUST(strcmp(fb_str_get(&text), fb_str_get(&more)) == 0);
    if (g->canonical && g->n_nodes <= GRAPH_NODES) {
        plan_it(g, FB_DEVICE_HOST);
        plan_it(g, FB_DEVICE_CUDA);
    }
    fb_str_free(&text);
    fb_str_free(&more);
    fb_graph_free(again);
    fb_graph_free(g);
}

/* A line of a graph's message each; whatever it makes of them, it is freed. */
static void run_graph_lines(const uint8_t *bytes, size_t n)
{
    fb_graph_reader *r = fb_graph_reader_new();
    const char *at = (const char *)bytes, *end = at + n;
    bool done = false;
    while (at < end && !done) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end) line_end = end;
        fb_error err = {0};
        if (!fb_graph_reader_feed(r, at, (size_t)(line_end - at), &done, &err)) {
            check_error(&err);
            break;
        }
        at = line_end + 1;
    }
    if (done) fb_graph_free(fb_graph_reader_take(r));
    fb_graph_reader_free(r);
}

/* Plans are of a graph: the one that the first line of the input holds. */
static void run_plan(const uint8_t *bytes, size_t n)
{
    const char *text = (const char *)bytes, *rest = memchr(text, '\n', n);
    if (!rest) return;
    fb_error err = {0};
    fb_graph *g = fb_graph_read_json(text, (size_t)(rest - text), &err);
    json_t *value = g ? fb_json_parse(rest + 1, n - (size_t)(rest + 1 - text), &err) : NULL;
    if (g && g->canonical && g->n_nodes <= GRAPH_NODES && value) {
        fb_machine m;
        fb_machine_default(&m, FB_DEVICE_CUDA);
        fb_planner *p = fb_planner_new(g, &m);
        for (int strict = 0; strict < 2; strict++) {
            fb_str dropped = {0};
            fb_plan *plan = fb_plan_from_json(p, value, strict, &dropped, &err), *again = NULL;
            if (plan) {
                fb_plan_cost cost;
                fb_plan_cost_of(plan, &cost);
                json_t *back = fb_plan_to_json(plan);
                again = fb_plan_from_json(p, back, true, NULL, &err);
                MUST(again && fb_plan_equal(plan, again));
                json_decref(back);
            } else {
                check_error(&err);
            }
            fb_plan_free(again);
            fb_plan_free(plan);
            fb_str_free(&dropped);
        }
        fb_planner_free(p);
    }
    if (value) json_decref(value);
    fb_graph_free(g);
}

/* ---- what a workshop's seat says ---- */

/* No text of its own but names: nothing in it is a path, a command or a line of code. */
static void check_names(const json_t *value)
{
    const char *key, *text = json_string_value(value);
    json_t *one;
    size_t i;
    if (text) MUST(!strpbrk(text, "/\\\"'`$;&|<>(){}\n ") && strlen(text) <= FB_ASK_NODE);
    json_array_foreach((json_t *)value, i, one) check_names(one);
    json_object_foreach((json_t *)value, key, one)
    {
        MUST(strcmp(key, "source") != 0 && strcmp(key, "sources") != 0);
        check_names(one);
    }
}

/* A line each. */
static void run_seat(const uint8_t *bytes, size_t n)
{
    const char *at = (const char *)bytes, *end = at + n;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end) line_end = end;
        fb_ask ask;
        fb_error err = {0};
        if (!fb_ask_read(at, (size_t)(line_end - at), &ask, &err)) {
            check_error(&err);
        } else {
            MUST(ask.id >= 0 && ask.n_seeds <= FB_SEEDS && ask.n <= FB_ASK_SAMPLES && ask.bytes >= 0);
            MUST(!ask.plan == (ask.kind != FB_ASK_PREPARE));
            check_names(ask.plan);
        }
        fb_ask_clear(&ask);
        at = line_end + 1;
    }
}

/* ---- files ---- */

static void run_recording(const uint8_t *bytes, size_t n)
{
    fb_error err = {0};
    fb_str head = {0};
    fb_recording_places places = {0};
    fb_recording_head((const char *)bytes, n, &head, &places); /* as lists and replays read it */
    fb_recording_place_of(&places, FB_FIGURES_PLANS, "0123456789abcdef");
    fb_recording_places_free(&places);
    fb_str_free(&head);
    fb_recording *r = fb_recording_read((const char *)bytes, n, &err);
    if (!r) {
        check_error(&err);
        return;
    }
    fb_recorded_plan plan;
    fb_recorded_kernel kernel;
    fb_recording_plan(r, "0123456789abcdef", &plan);
    fb_recording_kernel(r, "0123456789abcdef", &kernel);
    json_decref(fb_recording_timeline(r, "0123456789abcdef", &err));
    fb_recording_prune(r);
    fb_recording_free(r);
}

/* The first byte says what kind of table it is. */
static void run_table(const uint8_t *bytes, size_t n)
{
    static const char *const names[] = {"x.npy", "x.csv", "x.txt"};
    if (!n) return;
    fb_error err = {0};
    fb_file_table table = {0};
    if (!fb_script_parse_file(names[bytes[0] % 3], (const char *)bytes + 1, n - 1, NULL, &table, &err)) {
        check_error(&err);
        return;
    }
    MUST(table.n == fb_shape_elements(&table.shape));
    MUST(strlen(table.key) == 32);
    fb_free(table.values);
}

static void run_results(const uint8_t *bytes, size_t n)
{
    for (int skim = 0; skim < 2; skim++) {
        fb_error err = {0};
        fb_results *r = fb_results_parse((const char *)bytes, n, "rows", skim, &err);
        if (!r) {
            check_error(&err);
            continue;
        }
        for (int i = 0; i < fb_results_rows(r); i++) MUST(json_is_object(fb_results_row(r, i)));
        fb_results_close(r);
    }
}

static void run_gzip(const uint8_t *bytes, size_t n)
{
    fb_error err = {0};
    size_t out_n = 0, used = 0;
    char *text = fb_gunzip(bytes, n, TEXT_MOST, &out_n, &used, &err);
    if (!text) {
        check_error(&err);
        return;
    }
    MUST(out_n <= TEXT_MOST && used <= n);
    fb_free(text);
}

static void run_keys(const uint8_t *bytes, size_t n)
{
    fb_error err = {0};
    char *text = text_of(bytes, n);
    fb_keys *k = fb_keys_parse(text, "keys", &err);
    fb_free(text);
    if (!k) {
        check_error(&err);
        return;
    }
    bool ended = false;
    int wait = 0;
    for (size_t i = 0; i <= 2 * n + 2 && !ended; i++) { /* less than all where one says to wait */
        int key = fb_keys_next(k, true, &wait, &ended);
        MUST(key != FB_KEY_NONE || ended || wait >= 0);
    }
    fb_keys_free(k);
}

/* ---- texts that go to a screen ---- */

/* What is shown of any JSON holds nothing that a terminal would obey, and is the same JSON. */
static void run_json(const uint8_t *bytes, size_t n)
{
    fb_error err = {0};
    json_t *value = fb_json_parse((const char *)bytes, n, &err);
    if (!value) {
        check_error(&err);
        return;
    }
    char *shown = fb_json_shown_line(value);
    fb_str clean = {0};
    fb_str_add_clean(&clean, shown, "");
    MUST(strcmp(fb_str_get(&clean), shown) == 0);
    json_t *again = fb_json_parse(shown, strlen(shown), &err);
    MUST(again && json_equal(value, again));
    json_decref(again);
    json_decref(value);
    fb_str_free(&clean);
    fb_free(shown);
}

/* Cleaned text is clean, whatever it was, and cleaning it again changes nothing. */
static void run_text(const uint8_t *bytes, size_t n)
{
    char small[64];
    char *text = text_of(bytes, n);
    fb_text_clean(small, sizeof small, text, n);
    MUST(strlen(small) < sizeof small);
    fb_str once = {0}, twice = {0};
    fb_str_add_clean(&once, text, "");
    fb_str_add_clean(&twice, fb_str_get(&once), "");
    MUST(strcmp(fb_str_get(&once), fb_str_get(&twice)) == 0);
    for (const char *at = fb_str_get(&once); *at;) {
        uint32_t code;
        bool seen;
        at += fb_text_next(at, strlen(at), &code, &seen);
        MUST(seen);
    }
    fb_str_free(&once);
    fb_str_free(&twice);
    fb_free(text);
}

const decoder decoders[] = {
    {"graph", run_graph},
    {"graph_lines", run_graph_lines},
    {"plan", run_plan},
    {"recording", run_recording},
    {"table", run_table},
    {"results", run_results},
    {"gzip", run_gzip},
    {"keys", run_keys},
    {"json", run_json},
    {"text", run_text},
    {"seat", run_seat},
    {"requests", run_requests},
    {"answers", run_answers},
    {"script_info", run_script_info},
    {"config", run_config},
    {"state", run_state},
    {"lua_graph", run_lua_graph},
    {"lua_plan", run_lua_plan},
    {"lua_experiment", run_lua_experiment},
};
const int n_decoders = sizeof decoders / sizeof *decoders;

const decoder *decoder_find(const char *name)
{
    for (int i = 0; i < n_decoders; i++)
        if (strcmp(decoders[i].name, name) == 0) return &decoders[i];
    return NULL;
}
