/* Timelines: to JSON and back, what is refused, and the events of a trace. */
#include "measure/timeline.h"

#include "base/json.h"
#include "base/mem.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Two kernels of one graph, one of a call of its own on another stream, one that nobody knows, a copy in and one out;
 * three samples of two metrics. */
static fb_timeline *example(void)
{
    static const char *names[] = {"norm", "tanh", "copy x"};
    static fb_span spans[] = {{0, 5, 8, 0, 3, 7, FB_LANE_KERNEL},     {1, 8, 9.5, 0, 3, 7, FB_LANE_KERNEL},
                              {1, 12, 14, 10, 11, 9, FB_LANE_KERNEL}, {-1, 15, 16, NAN, NAN, 7, FB_LANE_KERNEL},
                              {2, 9, 13, NAN, NAN, 11, FB_LANE_IN},   {2, 14, 18, NAN, NAN, 13, FB_LANE_OUT}};
    static double at[] = {0, 20, 40}, values[] = {0, 0.5, 1, NAN, 0.25, 0}, runs[] = {1, 30, 31, 55};
    fb_timeline *t = fb_timeline_new();
    t->n_names = 3;
    t->names = names;
    t->n_spans = 6;
    t->spans = spans;
    t->metrics = (fb_metric_log){.n_metrics = 2,
                                 .metric = {"SM active", "DRAM read"},
                                 .interval_us = 20,
                                 .n = 3,
                                 .n_runs = 2,
                                 .at_us = at,
                                 .value = values,
                                 .run_us = runs};
    return t;
}

static void test_round_trip(void **state)
{
    (void)state;
    fb_error err = {0};
    fb_timeline *t = example();
    json_t *there = fb_timeline_to_json(t);
    fb_timeline *back = fb_timeline_from_json(there, &err);
    assert_non_null(back);
    json_t *again = fb_timeline_to_json(back);
    assert_true(json_equal(there, again));
    assert_true(isnan(back->spans[3].issue_start_us));
    assert_true(isnan(back->metrics.value[3]));
    assert_true(fabs(fb_timeline_busy_us(back) - 7.5) < 1e-12);
    int64_t kernels = 0;
    for (int64_t i = 0; i < back->n_spans; i++) kernels += back->spans[i].lane == FB_LANE_KERNEL;
    assert_true(kernels > 0 && kernels < back->n_spans);
    assert_int_equal(fb_timeline_kernels(back), kernels);
    double hidden;
    assert_true(fabs(fb_spans_copied_us(back->spans, back->n_spans, &hidden) - 8) < 1e-12);
    assert_true(fabs(hidden - (0.5 + 1 + 1)) < 1e-12);
    fb_spans_sort(back->spans, back->n_spans);
    assert_true(back->spans[2].lane == FB_LANE_IN && back->spans[5].index == -1);
    json_decref(there);
    json_decref(again);
    fb_timeline_free(t);
    fb_timeline_free(back);
}

/* A sample from before the runs, as all recordings of an H200 have one: it is none of theirs. */
static void test_first_sample(void **state)
{
    (void)state;
    static const char text[] =
        "{\"names\":[],\"spans\":[],\"metrics\":{\"names\":[\"x\"],\"at_us\":[0,655846.8,655866.8],"
        "\"values\":[0,0.5,0.25],\"runs\":[0,30],\"interval_us\":20}}";
    fb_error err = {0};
    json_t *value = fb_json_parse(text, strlen(text), &err);
    fb_timeline *t = fb_timeline_from_json(value, &err);
    assert_non_null(t);
    assert_int_equal(t->metrics.n, 2);
    assert_true(t->metrics.at_us[0] == 0 && fabs(t->metrics.at_us[1] - 20) < 1e-6);
    assert_true(t->metrics.value[0] == 0.5 && t->metrics.value[1] == 0.25);
    json_decref(value);
    fb_timeline_free(t);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{}",
        "{\"names\":[1],\"spans\":[]}",
        "{\"names\":[],\"spans\":[[0,1,2,null,null,0]]}",
        "{\"names\":[\"a\"],\"spans\":[[-2,1,2,null,null,0]]}",
        "{\"names\":[\"a\"],\"spans\":[[0,2,1,null,null,0]]}",
        "{\"names\":[\"a\"],\"spans\":[[0,1,2,1,null,0]]}",
        "{\"names\":[\"a\"],\"spans\":[[0,1,2,2,1,0]]}",
        "{\"names\":[\"a\"],\"spans\":[7]}",
        "{\"names\":[\"a\"],\"spans\":[[0,1,2,null,null,0,3]]}",
        "{\"names\":[],\"spans\":[],\"metrics\":{}}",
        "{\"names\":[],\"spans\":[],\"metrics\":{\"names\":[\"x\"],\"at_us\":[0],\"values\":[1,2],\"runs\":[],"
        "\"interval_us\":20}}",
        "{\"names\":[],\"spans\":[],\"metrics\":{\"names\":[],\"at_us\":[],\"values\":[],\"runs\":[],"
        "\"interval_us\":20}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fb_error err = {0};
        json_t *value = fb_json_parse(bad[i], strlen(bad[i]), &err);
        assert_non_null(value);
        fb_timeline *t = fb_timeline_from_json(value, &err);
        if (t) fail_msg("taken: %s", bad[i]);
        assert_true(err.text[0]);
        json_decref(value);
    }
    fb_error err = {0};
    assert_null(fb_timeline_from_json(NULL, &err));
}

static int count(const json_t *events, const char *phase, int track, const char *name)
{
    int n = 0;
    size_t i;
    json_t *e;
    json_array_foreach(events, i, e)
    {
        bool of_track = track < 0 || fb_json_int_or(e, "tid", -1) == track;
        bool of_name = !name || strcmp(fb_json_string_or(e, "name", ""), name) == 0;
        n += strcmp(fb_json_string_or(e, "ph", ""), phase) == 0 && of_track && of_name;
    }
    return n;
}

static void test_events(void **state)
{
    (void)state;
    json_t *events = json_array();
    fb_timeline *t = example();
    fb_timeline_events(t, 3, "max@cuda:0", events);
    assert_int_equal(count(events, "X", 1, NULL), 2); /* one call for both kernels of the graph */
    assert_int_equal(count(events, "X", 1, "launch of a graph"), 1);
    assert_int_equal(count(events, "X", 1, "tanh"), 1);
    assert_int_equal(count(events, "X", 10, NULL), 3);
    assert_int_equal(count(events, "X", 10, "(unknown)"), 1);
    assert_int_equal(count(events, "X", 20, "tanh"), 1); /* the other stream */
    assert_int_equal(count(events, "s", 1, NULL), 3);
    assert_int_equal(count(events, "f", -1, NULL), 3);
    assert_int_equal(count(events, "X", 8, "copy x"), 1);
    assert_int_equal(count(events, "X", 90, "copy x"), 1);
    assert_int_equal(count(events, "M", 8, "thread_name") + count(events, "M", 90, "thread_name"), 2);
    assert_int_equal(count(events, "C", -1, "SM active %"), 3);
    assert_int_equal(count(events, "C", -1, "DRAM read %"), 2); /* what is not known is absent */
    assert_int_equal(count(events, "X", 2, "run"), 2);
    json_decref(events);
    fb_timeline_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_first_sample),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_events)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
