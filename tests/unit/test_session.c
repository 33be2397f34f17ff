/* The session over real scripts and a real host worker ($FUSEBOX). Figures are not looked at, only what happens. */
#include "session/session.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "children.h"
#include "graph/graph_json.h"
#include "measure/compare.h"
#include "own_cache.h"
#include "scratch.h"
#include "session/gather.h"
#include "session/library.h"
#include "session/names.h"
#include "worker/protocol.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char model[] =
    "local fb = require 'fusebox'\n"
    "return fb.script {\n"
    "  params = { n = fb.int { 64, min = 1, max = 4096 }, deep = fb.bool { true }, stuck = fb.bool { false } },\n"
    "  variants = {\n"
    "    one = function(g, p)\n"
    "      local x = g:input('x', { p.n, 32 }):relu():tanh()\n"
    "      if p.deep then x = x:exp() end\n"
    "      return x:sigmoid()\n"
    "    end,\n"
    "    two = function(g, p)\n"
    "      while p.stuck do end\n"
    "      return g:input('x', { p.n, 32 }):mean(-1)\n"
    "    end,\n"
    "  },\n"
    "  plans = { both = function(pl) pl:fuse('relu', 'tanh') end },\n"
    "  experiment = function(e)\n"
    "    for c in e:sweep { variant = { 'one' }, plan = { 'none', 'max' }, n = { 8, 16 } } do\n"
    "      local r = e:measure(c)\n"
    "      e:row(c, { launches = r.launches, failed = r.failed })\n"
    "    end\n"
    "  end,\n"
    "}\n";

static char script[256];

static int set_up(void **state)
{
    fb_json_init();
    if (make_scratch(state) != 0) return -1;
    snprintf(script, sizeof script, "%s", in_scratch("model.lua"));
    setenv("XDG_STATE_HOME", scratch, 1);
    own_cache(scratch);
    return fb_write_file(script, model, strlen(model), NULL) ? 0 : -1;
}

static fb_session *opened(const char *path)
{
    fb_error err = {0};
    fb_session *s = fb_session_new(&(fb_session_options){.self = getenv("FUSEBOX"), .device = "host"}, &err);
    assert_non_null(s);
    assert_true(fb_session_load(s, path, &err));
    return s;
}

/* Until nothing is under way, five minutes at most, for a machine that does other things too. */
static void settle(fb_session *s)
{
    time_t end = time(NULL) + 300;
    do {
        fb_session_wait(s, 100);
        assert_true(time(NULL) < end);
    } while (fb_session_busy(s));
}

static const fb_column *column(fb_session *s, int i)
{
    const fb_column *c = fb_session_column(s, i);
    assert_non_null(c);
    return c;
}

static int added(fb_session *s, const char *spec)
{
    fb_error err = {0};
    int c = fb_session_add(s, spec, &err);
    if (c < 0) fail_msg("%s", err.text);
    return c;
}

static fb_edit fuse(const fb_session *s, int i, const char *a, const char *b)
{
    const fb_graph *g = fb_session_column(s, i)->graph;
    return (fb_edit){.kind = FB_EDIT_FUSE, .a = fb_graph_find(g, a), .b = fb_graph_find(g, b)};
}

/* ---- names ---- */

static void test_nearest(void **state)
{
    (void)state;
    const char *const known[] = {"eager", "max", "none", "inductor"};
    assert_string_equal(fb_nearest("eagr", known, 4), "eager");
    assert_string_equal(fb_nearest("induct", known, 4), "inductor");
    assert_null(fb_nearest("library", known, 4));
    const char *const plots[] = {"low", "log"};
    assert_string_equal(fb_nearest("lgo", plots, 2), "log"); /* neighbours changed places: one slip */
    fb_error err = {0};
    assert_false(fb_fail_unknown(&err, FB_ERR_USAGE, "preset", "zzzzzz", known, 4));
    assert_non_null(strstr(err.text, "there are: eager, max, none, inductor"));
}

static void check_spec(const char *text, const char *variant, const char *plan, const char *device, const char *values)
{
    fb_column_spec spec;
    assert_true(fb_column_spec_parse(text, &spec, NULL));
    assert_string_equal(spec.variant ? spec.variant : "-", variant);
    assert_string_equal(spec.plan, plan);
    assert_string_equal(spec.device ? spec.device : "-", device);
    assert_string_equal(spec.values ? spec.values : "-", values);
    assert_int_equal(fb_column_spec_has(&spec, NULL), !spec.values || strcmp(values, "noise") == 0);
    assert_true(fb_column_spec_has(&spec, spec.values) && !fb_column_spec_has(&spec, "halves"));
    fb_column_spec_free(&spec);
}

static void test_specs(void **state)
{
    (void)state;
    check_spec("max", "-", "max", "-", "-");
    check_spec("one:max@host", "one", "max", "host", "-");
    check_spec("max@cuda:1", "-", "max", "cuda:1", "-");
    check_spec("one:eager@cuda:1", "one", "eager", "cuda:1", "-");
    check_spec("one:plans/mine.json@host", "one", "plans/mine.json", "host", "-");
    check_spec("a@b/mine.json", "-", "a@b/mine.json", "-", "-");
    check_spec("max#zeros", "-", "max", "-", "zeros");
    check_spec("one:max@cuda:1#ones", "one", "max", "cuda:1", "ones");
    check_spec("a@b/mine#2.json", "-", "a@b/mine#2.json", "-", "-");
    check_spec("a@b/mine.json#noise", "-", "a@b/mine.json", "-", "noise");
    fb_column_spec spec;
    fb_error err = {0};
    assert_false(fb_column_spec_parse("@host", &spec, &err));
    assert_int_equal(err.kind, FB_ERR_USAGE);
    assert_false(fb_column_spec_parse("max@", &spec, &err));
    assert_false(fb_column_spec_parse("max#half", &spec, &err));
    assert_false(fb_column_spec_parse("#zeros", &spec, &err));
}

/* ---- results files ---- */

static void test_results(void **state)
{
    (void)state;
    const char *path = in_scratch("rows.jsonl");
    fb_error err = {0};
    fb_results *r = fb_results_open(path, &err);
    assert_non_null(r);
    json_t *row = json_pack("{s:s,s:s,s:s,s:s,s:{s:i}}", "script", "a/m.lua", "variant", "one", "plan", "max", "device",
                            "host", "params", "n", 4);
    assert_true(fb_results_add(r, row, &err));
    assert_null(fb_results_open(path, &err));
    assert_int_equal(err.kind, FB_ERR_UNAVAILABLE);
    fb_results_close(r);

    FILE *f = fopen(path, "a");
    fputs("{\"cut", f);
    fclose(f);
    r = fb_results_open(path, &err);
    assert_non_null(r);
    assert_int_equal(fb_results_rows(r), 1);
    json_t *params = json_pack("{s:i}", "n", 4), *others = json_pack("{s:i}", "n", 5);
    fb_column c = {.variant = "one", .plan_name = "max", .device = "host", .params = params};
    assert_non_null(fb_results_find(r, "elsewhere/m.lua", &c));
    assert_null(fb_results_find(r, "other.lua", &c));
    c.params = others;
    assert_null(fb_results_find(r, "m.lua", &c));
    assert_true(fb_results_add(r, row, &err));
    fb_results_close(r);
    r = fb_results_read(path, &err);
    assert_non_null(r);
    assert_int_equal(fb_results_rows(r), 2);
    fb_results_close(r);
    json_decref(row);
    json_decref(params);
    json_decref(others);
}

/* ---- columns ---- */

static void test_columns(void **state)
{
    (void)state;
    fb_session *s = opened(script);
    fb_error err = {0};
    added(s, "none"); /* before the script has answered: becomes one a variant */
    settle(s);
    assert_int_equal(fb_session_columns(s), 2);
    assert_string_equal(column(s, 0)->variant, "one");
    assert_string_equal(column(s, 1)->variant, "two");
    assert_int_equal(column(s, 0)->state, FB_COLUMN_READY);
    assert_string_equal(column(s, 0)->device, "host");
    assert_true(column(s, 0)->predicted.us > 0);
    int c = added(s, "one:both");
    settle(s);
    assert_ptr_equal(column(s, 0)->graph, column(s, c)->graph);
    assert_int_equal(fb_plan_groups(column(s, c)->plan), fb_plan_groups(column(s, 0)->plan) - 1);
    assert_int_equal(fb_session_add(s, "one:bth", &err), -1);
    assert_non_null(strstr(err.text, "did you mean \"both\""));
    assert_int_equal(fb_session_add(s, "three:max", &err), -1);
    assert_int_equal(fb_session_add(s, "one:max@abacus", &err), -1);
    assert_int_equal(err.kind, FB_ERR_UNAVAILABLE);
    fb_session_move(s, c, 0);
    assert_string_equal(column(s, 0)->plan_name, "both");
    assert_int_equal(fb_session_duplicate(s, 0), 1);
    assert_true(fb_plan_equal(column(s, 0)->plan, column(s, 1)->plan));
    fb_session_drop(s, 0);
    assert_int_equal(fb_session_columns(s), 3);
    assert_true(fb_session_set_variant(s, 0, "two", &err));
    settle(s);
    assert_int_equal(column(s, 0)->state, FB_COLUMN_FAILED); /* the plan names nodes that this variant lacks */
    assert_true(fb_session_set_plan(s, 0, "max", &err));
    settle(s);
    assert_int_equal(column(s, 0)->state, FB_COLUMN_READY);
    fb_session_free(s);
}

/* Columns asked for before it is known which devices there are. */
static void test_absent(void **state)
{
    (void)state;
    fb_session *s = opened(script);
    added(s, "one:eager@abacus");
    settle(s);
    assert_int_equal(column(s, 0)->state, FB_COLUMN_FAILED);
    fb_session_drop_absent(s);
    assert_int_equal(fb_session_columns(s), 1); /* something has to say why there is nothing */
    fb_session_free(s);

    s = opened(script);
    added(s, "one:eager@abacus");
    added(s, "one:max");
    added(s, "two:max@abacus");
    settle(s);
    fb_session_drop_absent(s);
    assert_int_equal(fb_session_columns(s), 1);
    assert_string_equal(column(s, 0)->text, "one:max");
    const char *line = fb_session_log_line(s, fb_session_log_lines(s) - 1);
    assert_non_null(strstr(line, "one:eager@abacus is left out: "));
    fb_session_free(s);
}

static void test_edits(void **state)
{
    (void)state;
    fb_session *s = opened(script);
    int c = added(s, "one:none");
    settle(s);
    int groups = fb_plan_groups(column(s, c)->plan);
    fb_edit e = fuse(s, c, "relu", "tanh");
    assert_int_equal(fb_session_try(s, c, &e, false).kind, FB_VERDICT_FINE);
    assert_int_equal(fb_plan_groups(column(s, c)->plan), groups);
    fb_session_edit(s, c, &e, false);
    assert_int_equal(fb_plan_groups(column(s, c)->plan), groups - 1);
    assert_string_equal(column(s, c)->plan_name, "mine");
    assert_string_equal(fb_session_undo(s, c), "fuse relu into tanh");
    assert_string_equal(column(s, c)->plan_name, "none");
    assert_null(fb_session_undo(s, c));
    assert_non_null(fb_session_redo(s, c));
    assert_null(fb_session_redo(s, c));
    assert_int_equal(fb_plan_groups(column(s, c)->plan), groups - 1);

    fb_error err = {0};
    char path[256];
    snprintf(path, sizeof path, "%s", in_scratch("mine.json"));
    assert_true(fb_session_save_plan(s, c, path, &err));
    char spec[300];
    snprintf(spec, sizeof spec, "one:%s", path);
    int again = added(s, spec);
    settle(s);
    assert_true(fb_plan_equal(column(s, c)->plan, column(s, again)->plan));
    fb_session_free(s);
}

/* Launches of what is composed take as long as those did that were recorded before the edit. */
static void test_composed_beside_recorded(void **state)
{
    (void)state;
    fb_error err = {0};
    fb_session *s = fb_session_new(&(fb_session_options){.self = getenv("FUSEBOX"), .device = "replay:h200"}, &err);
    assert_non_null(s);
    assert_true(fb_session_load(s, "split_stack", &err));
    settle(s);
    int c = added(s, "split_stack:none");
    settle(s);
    fb_session_measure(s, &c, 1);
    settle(s);
    const fb_report *r = column(s, c)->report;
    if (!r || r->source != FB_SOURCE_RECORDED) fail_msg("%s is not recorded", column(s, c)->text);
    double wall = r->wall_us.median, each = r->gap_us / (double)r->launches;
    fb_edit e = fuse(s, c, "feature[1].tanh", "stack");
    fb_session_edit(s, c, &e, true);
    fb_session_measure(s, &c, 1);
    settle(s);
    r = column(s, c)->report;
    assert_true(r && r->source != FB_SOURCE_RECORDED && r->source != FB_SOURCE_MEASURED && r->launches < 116);
    if (r->wall_us.median >= wall)
        fail_msg("%g µs with %d launches, %g with 116", r->wall_us.median, (int)r->launches, wall);
    double now = r->gap_us / (double)r->launches;
    assert_true(fabs(now / each - 1) < 0.02);
    assert_true(fabs(r->wall_us.median - r->device_us.median - r->gap_us) < 1e-6 * wall);
    fb_session_free(s);
}

/* An edited plan follows the names of its nodes to other sizes and through a reload; what is gone is said. */
static void test_carried(void **state)
{
    (void)state;
    fb_session *s = opened(script);
    fb_error err = {0};
    int c = added(s, "one:none");
    settle(s);
    fb_edit e = fuse(s, c, "relu", "tanh"), more = fuse(s, c, "exp", "sigmoid");
    fb_session_edit(s, c, &e, false);
    fb_session_edit(s, c, &more, false);
    json_t *value = json_integer(128);
    assert_true(fb_session_set_param(s, "n", value, &err));
    json_decref(value);
    settle(s);
    assert_string_equal(column(s, c)->plan_name, "mine");
    assert_int_equal(column(s, c)->graph->nodes[0].shape.dim[0], 128);
    const fb_graph *g = column(s, c)->graph;
    assert_int_equal(fb_plan_group_of(column(s, c)->plan, fb_graph_find(g, "relu")),
                     fb_plan_group_of(column(s, c)->plan, fb_graph_find(g, "tanh")));
    assert_true(fb_session_set_param(s, "deep", json_false(), &err));
    settle(s);
    int lines = fb_session_log_lines(s);
    assert_true(lines > 0);
    assert_non_null(strstr(fb_session_log_line(s, lines - 1), "exp"));
    assert_true(fb_session_load(s, script, &err));
    settle(s);
    assert_string_equal(column(s, c)->plan_name, "mine");
    assert_int_equal(json_integer_value(fb_session_param(s, "n")), 128);
    fb_session_free(s);
}

static void test_params(void **state)
{
    (void)state;
    fb_session *s = opened(script);
    fb_error err = {0};
    settle(s);
    json_t *low = json_integer(0), *text = json_string("x");
    assert_false(fb_session_set_param(s, "n", low, &err));
    assert_non_null(strstr(err.text, "at least 1"));
    assert_false(fb_session_set_param(s, "n", text, &err));
    assert_false(fb_session_set_param(s, "dep", json_true(), &err));
    assert_non_null(strstr(err.text, "did you mean \"deep\""));
    json_decref(low);
    json_decref(text);
    fb_session_free(s);
}

/* A variant that never ends fails alone, and the process that died of it is replaced. */
static void test_stuck(void **state)
{
    (void)state;
    fb_session *s = opened(script);
    fb_error err = {0};
    settle(s);
    assert_true(fb_session_set_param(s, "stuck", json_true(), &err));
    int two = added(s, "two:none"), one = added(s, "one:both");
    settle(s);
    assert_int_equal(column(s, two)->state, FB_COLUMN_FAILED);
    assert_non_null(strstr(column(s, two)->error.text, "model.lua"));
    assert_int_equal(column(s, one)->state, FB_COLUMN_READY);
    assert_true(fb_session_set_param(s, "stuck", json_false(), &err));
    settle(s);
    assert_int_equal(column(s, two)->state, FB_COLUMN_READY);
    assert_int_equal(column(s, one)->state, FB_COLUMN_READY);
    fb_session_free(s);
}

static void test_broken_reload(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s", in_scratch("changing.lua"));
    const char *first = "return function(g) return g:input('x', {8}):relu() end\n", *then = "return function(g\n";
    fb_error err = {0};
    assert_true(fb_write_file(path, first, strlen(first), &err));
    fb_session *s = opened(path);
    int c = added(s, "none");
    settle(s);
    assert_true(fb_write_file(path, then, strlen(then), &err));
    assert_true(fb_session_load(s, path, &err));
    settle(s);
    assert_non_null(strstr(fb_session_script_error(s)->text, "changing.lua:"));
    assert_non_null(column(s, c)->plan); /* what was there is still there to look at */
    assert_true(fb_write_file(path, first, strlen(first), &err));
    assert_true(fb_session_load(s, path, &err));
    settle(s);
    assert_int_equal(fb_session_script_error(s)->kind, FB_OK);
    assert_int_equal(column(s, c)->state, FB_COLUMN_READY);
    fb_session_free(s);
}

static void test_graph_file(void **state)
{
    (void)state;
    fb_session *s = opened(script);
    int c = added(s, "one:none");
    settle(s);
    fb_str text = {0};
    fb_graph_write_json(column(s, c)->graph, &text);
    char path[256];
    snprintf(path, sizeof path, "%s", in_scratch("graph.json"));
    assert_true(fb_write_file(path, text.text, text.n, NULL));
    fb_str_free(&text);
    fb_session_free(s);
    s = opened(path);
    c = added(s, "max");
    settle(s);
    assert_int_equal(column(s, c)->state, FB_COLUMN_READY);
    assert_int_equal(fb_session_script(s)->n_variants, 1);
    fb_session_drop(s, c);
    c = added(s, "none");
    settle(s);
    assert_int_equal(column(s, c)->state, FB_COLUMN_READY);
    fb_session_free(s);
}

/* ---- measuring ---- */

static void test_measure(void **state)
{
    (void)state;
    fb_session *s = opened(script);
    settle(s);
    int columns[] = {added(s, "one:none"), added(s, "one:max"), added(s, "two:max")};
    fb_session_measure(s, columns, 3);
    settle(s);
    for (int i = 0; i < 3; i++) {
        const fb_column *c = column(s, columns[i]);
        if (c->state != FB_COLUMN_DONE) fail_msg("%s: %s", c->text, c->error.text);
        assert_true(c->report->error.ok);
        assert_in_range(c->report->wall_us.n, 20, 1000000);
        assert_true(c->report->cold_us.n > 0);
        assert_string_equal(c->report->device, "host");
        assert_int_equal(json_integer_value(json_object_get(c->report->params, "n")), 64);
    }
    assert_int_equal(column(s, columns[0])->report->launches, 4);
    assert_int_equal(column(s, columns[1])->report->launches, 1);
    fb_edit e = {.kind = FB_EDIT_CUT};
    fb_edit f = fuse(s, columns[1], "relu", "tanh");
    e.a = f.a;
    e.b = f.b;
    fb_session_set_auto(s, true);
    fb_session_edit(s, columns[1], &e, false);
    assert_null(column(s, columns[1])->report);
    assert_non_null(column(s, columns[1])->before);
    while (column(s, columns[1])->state == FB_COLUMN_READY) fb_session_wait(s, 1000);
    settle(s);
    assert_int_equal(column(s, columns[1])->state, FB_COLUMN_DONE);
    assert_int_equal(column(s, columns[1])->report->launches, 2);
    fb_session_free(s);
}

static void test_check(void **state)
{
    (void)state;
    fb_session *s = opened(script);
    settle(s);
    int c = added(s, "two:none");
    fb_session_check(s, &c, 1);
    settle(s);
    assert_int_equal(column(s, c)->state, FB_COLUMN_DONE);
    assert_true(column(s, c)->report->error.ok);
    assert_int_equal(column(s, c)->report->wall_us.n, 0);
    fb_session_free(s);
}

/* best as a column's plan: found, told, instant when asked again; what is cancelled leaves the plan that was there. */
static void test_best(void **state)
{
    (void)state;
    fb_session *s = opened(script);
    int c = added(s, "one:best");
    fb_session_measure(s, &c, 1);
    settle(s);
    const fb_column *col = column(s, c);
    assert_int_equal(col->state, FB_COLUMN_DONE);
    assert_string_equal(col->plan_name, "best");
    assert_non_null(col->search);
    assert_true(col->search->measured > 0);
    assert_false(col->searching);
    fb_report *r = fb_session_report(s, c);
    assert_true(json_is_integer(json_object_get(r->search, "considered")));
    fb_report_free(r);
    int again = added(s, "one:best");
    settle(s);
    assert_true(column(s, again)->search->cached);
    assert_true(fb_plan_equal(column(s, again)->plan, col->plan));
    fb_error err = {0};
    assert_true(fb_session_set_plan(s, again, "none", &err));
    settle(s);
    assert_null(column(s, again)->search);
    assert_true(fb_session_search(s, again, &err));
    while (!column(s, again)->searching) fb_session_wait(s, 100);
    fb_session_cancel(s);
    settle(s);
    assert_int_equal(column(s, again)->state, FB_COLUMN_READY);
    assert_string_equal(column(s, again)->plan_name, "none");
    assert_true(fb_session_search(s, again, &err));
    settle(s);
    assert_false(column(s, again)->search->cached);
    int late = added(s, "two:best");
    while (!column(s, late)->searching) fb_session_wait(s, 100);
    fb_session_cancel(s);
    settle(s);
    assert_int_equal(column(s, late)->state, FB_COLUMN_FAILED);
    assert_int_equal(column(s, late)->error.kind, FB_ERR_CANCELLED);
    fb_session_free(s);
}

static void test_cancel(void **state)
{
    (void)state;
    fb_session *s = opened(script);
    settle(s);
    int columns[] = {added(s, "one:none"), added(s, "one:max")};
    fb_session_measure(s, columns, 2);
    while (column(s, columns[0])->state != FB_COLUMN_MEASURING) fb_session_wait(s, 1000);
    fb_session_cancel(s);
    settle(s);
    assert_int_not_equal(column(s, columns[0])->state, FB_COLUMN_FAILED);
    fb_session_measure(s, columns, 2);
    settle(s);
    assert_int_equal(column(s, columns[0])->state, FB_COLUMN_DONE);
    assert_int_equal(column(s, columns[1])->state, FB_COLUMN_DONE);
    fb_session_free(s);
}

/* The worker is the child of this process that runs $FUSEBOX. */
static pid_t worker_pid(void)
{
    pid_t all[64];
    int children = 0;
    add_children(getpid(), all, 64, &children);
    for (int i = 0; i < children; i++) {
        char path[64], line[512] = "";
        snprintf(path, sizeof path, "/proc/%d/cmdline", (int)all[i]);
        FILE *f = fopen(path, "r");
        size_t n = f ? fread(line, 1, sizeof line - 1, f) : 0;
        if (f) fclose(f);
        size_t first = strlen(line) + 1;
        if (first < n && strcmp(line + first, "worker") == 0) return all[i];
    }
    return 0;
}

static void test_worker_dies(void **state)
{
    (void)state;
    fb_session *s = opened(script);
    settle(s);
    int c = added(s, "one:none");
    fb_session_measure(s, &c, 1);
    while (column(s, c)->state != FB_COLUMN_MEASURING) fb_session_wait(s, 1000);
    pid_t pid = worker_pid();
    assert_true(pid > 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    settle(s);
    assert_int_equal(column(s, c)->state, FB_COLUMN_FAILED);
    assert_int_equal(column(s, c)->error.kind, FB_ERR_CRASH);
    assert_true(fb_session_log_lines(s) > 0);
    fb_session_measure(s, &c, 1);
    settle(s);
    assert_int_equal(column(s, c)->state, FB_COLUMN_DONE);
    fb_session_free(s);
}

/* ---- the experiment ---- */

typedef struct {
    int measured, rows, known;
    json_t *reports; /* of the first run */
} seen;

static json_t *seen_known(void *ctx, const fb_column *c)
{
    seen *x = ctx;
    size_t i;
    json_t *r;
    json_array_foreach(x->reports, i, r)
    {
        if (strcmp(fb_json_string_or(r, "plan", ""), c->plan_name) != 0) continue;
        if (!json_equal(json_object_get(r, "params"), c->params)) continue;
        x->known++;
        return json_incref(r);
    }
    return NULL;
}

static bool seen_measured(void *ctx, const fb_report *r, fb_error *err)
{
    (void)err;
    seen *x = ctx;
    x->measured++;
    if (r->failed) fail_msg("%s", r->failed);
    json_array_append_new(x->reports, fb_report_to_json(r));
    return true;
}

static bool seen_row(void *ctx, const json_t *which, const json_t *row, fb_figure_source kind, fb_error *err)
{
    (void)err;
    assert_int_equal(kind, FB_SOURCE_MEASURED);
    ((seen *)ctx)->rows++;
    assert_true(json_is_object(which));
    assert_true(json_integer_value(json_object_get(row, "launches")) > 0);
    return true;
}

static void test_experiment(void **state)
{
    (void)state;
    fb_session *s = opened(script);
    settle(s);
    seen x = {.reports = json_array()};
    fb_experiment_hooks hooks = {.ctx = &x, .known = seen_known, .measured = seen_measured, .row = seen_row};
    fb_error err = {0};
    assert_true(fb_session_experiment(s, &hooks, &err));
    assert_false(fb_session_experiment(s, &hooks, &err));
    settle(s);
    assert_int_equal(fb_session_experiment_error(s)->kind, FB_OK);
    assert_int_equal(x.measured, 4);
    assert_int_equal(x.rows, 4);
    assert_true(fb_session_experiment(s, &hooks, &err));
    settle(s);
    assert_int_equal(x.known, 4);
    assert_int_equal(x.measured, 4);
    assert_int_equal(x.rows, 8);
    assert_int_equal(fb_session_columns(s), 0);
    json_decref(x.reports);
    fb_session_free(s);
}

/* Stopped after its first row: the script ends there, is asked for graphs again, and goes on where it stopped. */
static void test_experiment_stops(void **state)
{
    (void)state;
    fb_session *s = opened(script);
    settle(s);
    fb_error err = {0};
    fb_results *file = fb_results_open(in_scratch("stopped.jsonl"), &err);
    fb_gather g = {.session = s, .results = file, .cases = json_array(), .plots = json_array()};
    assert_false(fb_session_experiment_runs(s));
    assert_true(fb_gather_start(&g, &err));
    while (!json_array_size(g.cases)) fb_session_wait(s, -1);
    while (!fb_session_experiment_column(s)) fb_session_wait(s, -1); /* the second one */
    assert_true(fb_session_experiment_runs(s));
    fb_session_cancel(s);
    settle(s);
    assert_false(fb_session_experiment_runs(s));
    assert_int_equal(fb_session_experiment_error(s)->kind, FB_ERR_CANCELLED);
    assert_int_equal(fb_session_script_error(s)->kind, FB_OK);
    assert_int_equal(json_array_size(g.cases), 1);
    int c = added(s, "one:max@host");
    settle(s);
    assert_non_null(column(s, c)->graph);
    fb_session_drop(s, c);
    json_array_clear(g.cases);
    assert_true(fb_gather_start(&g, &err));
    settle(s);
    assert_int_equal(fb_session_experiment_error(s)->kind, FB_OK);
    assert_int_equal(json_array_size(g.cases), 4);
    assert_int_equal(g.n, 4);
    assert_int_equal(g.known, 1);
    const json_t *params = json_object_get(json_array_get(g.cases, 0), "params");
    assert_int_equal(json_object_size(params), fb_session_script(s)->n_params); /* what is not swept, too */
    /* Another script comes while it runs. */
    g.results = NULL;
    assert_true(fb_gather_start(&g, &err));
    while (!fb_session_experiment_column(s)) fb_session_wait(s, -1);
    assert_true(fb_session_load(s, fb_session_path(s), &err));
    settle(s);
    assert_false(fb_session_experiment_runs(s));
    assert_int_equal(fb_session_experiment_error(s)->kind, FB_ERR_CANCELLED);
    fb_results_close(file);
    json_decref(g.cases);
    json_decref(g.plots);
    fb_session_free(s);
}

/* ---- kernels in files ---- */

/* What a file holds runs when somebody agreed to it, whatever it holds when it is our own; a save is another plan. */
static void test_kernels_are_trusted(void **state)
{
    (void)state;
    fb_error err = {0};
    fb_arena *arena = fb_arena_new();
    const char *hash = NULL, *path = in_scratch("own.c"), **files;
    static const char harmless[] = "/* nothing */\n", more[] = "/* nothing more */\n";
    fb_session *s = opened(script);
    int c = added(s, "one:both@host");
    settle(s);
    int own = fb_session_eject(s, c, 0, path, false, &err);
    if (own < 0) fail_msg("%s", err.text);
    assert_int_equal(fb_session_eject(s, c, 0, path, false, &err), -1);
    assert_int_equal(fb_session_kernel_files(s, arena, &files), 1);
    fb_session_check(s, &own, 1); /* as it was written */
    settle(s);
    assert_int_equal(column(s, own)->state, FB_COLUMN_DONE);
    assert_int_equal(fb_session_kernels_saved(s), 0);
    assert_true(fb_write_file(path, harmless, strlen(harmless), &err)); /* our own: refused for what it is */
    assert_int_equal(fb_session_kernels_saved(s), 1);
    fb_session_check(s, &own, 1);
    settle(s);
    assert_int_equal(column(s, own)->state, FB_COLUMN_FAILED);
    assert_non_null(strstr(column(s, own)->error.text, "has no line @language"));
    assert_true(fb_session_save_plan(s, own, in_scratch("own.json"), &err));
    fb_session_free(s);

    char spec[300];
    snprintf(spec, sizeof spec, "one:%s@host", in_scratch("own.json"));
    path = in_scratch("own.c");
    assert_true(fb_write_file(path, more, strlen(more), &err)); /* somebody else's */
    s = opened(script);
    c = added(s, spec);
    settle(s);
    assert_null(fb_session_untrusted(s, arena, &hash)); /* looking is free */
    fb_session_check(s, &c, 1);
    settle(s);
    assert_non_null(strstr(column(s, c)->error.text, "native code"));
    assert_non_null(fb_session_untrusted(s, arena, &hash));
    assert_int_equal(strlen(hash), 64);
    fb_session_trust(s, "another");
    assert_non_null(fb_session_untrusted(s, arena, &hash));
    fb_session_trust(s, hash);
    assert_null(fb_session_untrusted(s, arena, &hash));
    settle(s);
    assert_non_null(strstr(column(s, c)->error.text, "has no line @language"));
    fb_session_free(s);
    fb_arena_free(arena);
}

/* ---- calibrations in doubt ---- */

/* A worker of a device that is calibrated at once, this program's own other half: "fake STATE" says how good its
 * calibration is. Plans run on it in next to no time; the machine's name counts the calibrations. */
static json_t *fake_machine(const char *state, int calibrations)
{
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    snprintf(m.name, sizeof m.name, "calibrated %d times", calibrations);
    m.calibrated = strcmp(state, "uncalibrated") != 0 || calibrations;
    m.doubted = !strcmp(state, "doubted") && !calibrations;
    return fb_machine_to_json(&m);
}

static json_t *fake_report(bool measured)
{
    fb_report *r = fb_report_new();
    r->error = (fb_error_report){.max_abs = 0, .max_rel = 0, .bound = 0, .ok = true};
    r->source = measured ? FB_SOURCE_MEASURED : FB_SOURCE_RECORDED;
    r->wall_us = (fb_stat){1e-6, 1e-6, 1e-6, 20};
    json_t *value = fb_report_to_json(r);
    fb_report_free(r);
    return value;
}

/* Which of those that were prepared, from the first on. */
static int fake_case(json_int_t id)
{
    enum { CASES = 8 };
    static json_int_t ids[CASES];
    int k = 0;
    while (k < CASES - 1 && ids[k] && ids[k] != id) k++;
    ids[k] = id;
    return k % 2;
}

/* Rounds in turns of two cases, each request another one: the second is a tenth faster in the middle, and that is lost
 * in noise of a fifth for the first dozens. */
static json_t *fake_rounds(int k)
{
    static struct {
        int n;
        fb_round rounds[FB_ROUNDS];
    } cases[2];
    static double now_us;
    bool second = k;
    double noise = second ? 0 : cases[k].n % 2 ? 0.2 : -0.2;
    if (cases[k].n < FB_ROUNDS)
        cases[k].rounds[cases[k].n++] = (fb_round){now_us += 1e3, (second ? 90 : 100) * exp(noise), NAN};
    fb_report *r = fb_report_new();
    r->error = (fb_error_report){.max_abs = 0, .max_rel = 0, .bound = 0, .ok = true};
    r->source = FB_SOURCE_MEASURED;
    r->wall_us = (fb_stat){second ? 90 : 100, 60, 140, 256 * cases[k].n};
    r->n_rounds = cases[k].n;
    memcpy(r->rounds, cases[k].rounds, sizeof r->rounds);
    json_t *value = fb_report_to_json(r);
    fb_report_free(r);
    return value;
}

static json_t *fake_answer(const char *state, const char *type, json_int_t id, int *calibrations)
{
    const bool measured = !strcmp(state, "undercut") || !strcmp(state, "timed");
    if (!strcmp(type, "hello") || !strcmp(type, "devices"))
        return json_pack("{s:s, s:I, s:i, s:s, s:s, s:[{s:s, s:s, s:o}], s:[]}", "type", type, "id", id, "fusebox",
                         FB_PROTOCOL_VERSION, "version", "0", "host", "fake", "devices", "device", "cuda:7", "kind",
                         "cuda", "machine", fake_machine(state, 0), "libraries");
    if (!strcmp(type, "sample") && !strcmp(state, "timed"))
        return json_pack("{s:s, s:I, s:o}", "type", "sampled", "id", id, "report", fake_rounds(fake_case(id)));
    if (!strcmp(type, "prepare")) fake_case(id);
    if (!strcmp(type, "prepare") || !strcmp(type, "sample"))
        return json_pack("{s:s, s:I, s:o}", "type", *type == 'p' ? "prepared" : "sampled", "id", id, "report",
                         fake_report(measured));
    if (!strcmp(type, "release")) return json_pack("{s:s, s:I}", "type", "released", "id", id);
    if (strcmp(type, "calibrate") != 0) return NULL;
    return json_pack("{s:s, s:I, s:s, s:o}", "type", "machine", "id", id, "device", "cuda:7", "machine",
                     fake_machine(state, ++*calibrations));
}

static int fake_worker(const char *state)
{
    int calibrations = 0;
    fb_channel *c = fb_channel_new(STDIN_FILENO, STDOUT_FILENO);
    const char *line;
    size_t n;
    while ((line = fb_channel_wait_line(c, &n, -1, NULL))) {
        json_t *m = fb_json_parse(line, n, NULL);
        json_t *answer =
            fake_answer(state, fb_json_string_or(m, "type", ""), fb_json_int_or(m, "id", 0), &calibrations);
        if (answer) fb_channel_send(c, answer);
        fb_channel_flush(c, -1, NULL);
        json_decref(m);
    }
    fb_channel_free(c);
    return 0;
}

/* Something is measured, then nothing is left to do: the machine as the session knows it after that. */
static fb_machine after_a_calm(const char *state)
{
    enum { CALM_MS = 20, ROUNDS = 200, LATER_MS = 5000 };
    fb_error err = {0};
    char command[64];
    snprintf(command, sizeof command, "/proc/self/exe fake %s", state);
    const char *const workers[] = {command};
    const fb_session_options o = {.self = getenv("FUSEBOX"),
                                  .device = "cuda:7",
                                  .n_workers = 1,
                                  .workers = workers,
                                  .calibrate = true,
                                  .calm_ms = CALM_MS};
    fb_session *s = fb_session_new(&o, &err);
    assert_non_null(s);
    assert_true(fb_session_load(s, script, &err));
    int c = added(s, "one:none"), timeout = 0;
    settle(s);
    assert_false(fb_session_calibrating(s, "cuda:7")); /* nothing was measured yet */
    fb_session_measure(s, &c, 1);
    settle(s);
    if (column(s, c)->state != FB_COLUMN_DONE) fail_msg("%s", column(s, c)->error.text);
    for (int i = 0; i < ROUNDS; i++) {
        struct pollfd fds[FB_SESSION_FDS];
        timeout = -1;
        fb_session_poll(s, fds, &timeout);
        if (timeout > LATER_MS) timeout = -1; /* when a worker that works on would be given up */
        if (timeout < 0 && !fb_session_calibrating(s, "cuda:7")) break;
        fb_session_wait(s, CALM_MS);
    }
    assert_int_equal(timeout, -1); /* nothing is waited for any more: it is not made a second time */
    fb_machine m = *fb_session_machine(s, "cuda:7");
    fb_session_free(s);
    return m;
}

static void test_calibrations_in_doubt(void **state)
{
    (void)state;
    fb_machine m = after_a_calm("good");
    assert_true(m.calibrated && !m.doubted);
    assert_string_equal(m.name, "calibrated 0 times"); /* it is kept */
    m = after_a_calm("uncalibrated");
    assert_true(m.calibrated);
    assert_string_equal(m.name, "calibrated 1 times");
    m = after_a_calm("doubted"); /* while the machine was busy: made again */
    assert_true(m.calibrated && !m.doubted);
    assert_string_equal(m.name, "calibrated 1 times");
    m = after_a_calm("undercut"); /* nothing is faster than its floor: made again, and in doubt still */
    assert_true(m.calibrated && m.doubted);
    assert_string_equal(m.name, "calibrated 1 times");
}

/* Two columns of a worker whose times are made up, measured; the caller frees the session. */
static fb_session *measured(void (*measure)(fb_session *s, int a, int b), int *a, int *b)
{
    fb_error err = {0};
    const char *const workers[] = {"/proc/self/exe fake timed"};
    const fb_session_options o = {.self = getenv("FUSEBOX"), .device = "cuda:7", .n_workers = 1, .workers = workers};
    fb_session *s = fb_session_new(&o, &err);
    assert_non_null(s);
    assert_true(fb_session_load(s, script, &err));
    settle(s);
    *a = added(s, "one:none"), *b = added(s, "one:max");
    settle(s);
    measure(s, *a, *b);
    settle(s);
    if (column(s, *a)->state != FB_COLUMN_DONE) fail_msg("%s", column(s, *a)->error.text);
    return s;
}

/* What the pairs say when the session has enough of them. */
static fb_comparison compared(void (*measure)(fb_session *s, int a, int b))
{
    int a, b;
    fb_session *s = measured(measure, &a, &b);
    fb_comparison c = fb_compare_reports(column(s, a)->report, column(s, b)->report, FB_TIME_WALL);
    fb_session_free(s);
    return c;
}

static void measure_both(fb_session *s, int a, int b)
{
    fb_session_measure(s, (const int[]){a, b}, 2);
}

static void test_compared_until_settled(void **state)
{
    (void)state;
    fb_comparison c = compared(measure_both);
    assert_int_equal(c.what, FB_CANNOT_TELL);
    c = compared(fb_session_compare);
    assert_int_equal(c.what, FB_FASTER);
}

static void compare_times(fb_session *s, int a, int b)
{
    fb_session_compare_times(s, a, b, 1000, 64);
}

/* Who goes first in a round is drawn anew: a machine with a rhythm of its own favours nobody. The worker's rounds bear
 * the time at which they were asked for. */
static void drawn_turns(void (*measure)(fb_session *s, int a, int b))
{
    int a, b, first = 0, turned = 0;
    fb_session *s = measured(measure, &a, &b);
    const fb_report *of_a = column(s, a)->report, *of_b = column(s, b)->report;
    int n = of_a->n_rounds < of_b->n_rounds ? of_a->n_rounds : of_b->n_rounds;
    assert_in_range(n, 24, FB_ROUNDS);
    for (int i = 0, before = 0; i < n; i++) {
        int now = of_a->rounds[i].at_us < of_b->rounds[i].at_us;
        double apart = fabs(of_a->rounds[i].at_us - of_b->rounds[i].at_us);
        assert_true(apart == 1e3); /* in turns: nobody has two before the other has one */
        first += now;
        turned += i && now != before;
        before = now;
    }
    fb_session_free(s);
    assert_in_range(first, 1, n - 1);  /* not A first each time, and not B */
    assert_in_range(turned, 1, n - 2); /* nor A B, B A by rule */
}

static void test_turns_are_drawn(void **state)
{
    (void)state;
    drawn_turns(compare_times);
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "fake")) {
        fb_json_init();
        return fake_worker(argv[2]);
    }
    if (!getenv("FUSEBOX")) {
        puts("1..0 # SKIP FUSEBOX does not name the binary");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_specs),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_absent),
        cmocka_unit_test(test_edits),
        cmocka_unit_test(test_composed_beside_recorded),
        cmocka_unit_test(test_carried),
        cmocka_unit_test(test_params),
        cmocka_unit_test(test_stuck),
        cmocka_unit_test(test_broken_reload),
        cmocka_unit_test(test_graph_file),
        cmocka_unit_test(test_measure),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_best),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_worker_dies),
        cmocka_unit_test(test_compared_until_settled),
        cmocka_unit_test(test_turns_are_drawn),
        cmocka_unit_test(test_experiment),
        cmocka_unit_test(test_experiment_stops),
        cmocka_unit_test(test_kernels_are_trusted),
        cmocka_unit_test(test_calibrations_in_doubt),
    };
    return cmocka_run_group_tests_name("session", tests, set_up, remove_scratch);
}
