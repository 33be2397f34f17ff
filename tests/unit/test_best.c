/* best on the host: found, measured, kept, found again; without a device; cancelled; with plans that fail. */
#include "plan_help.h"

#include "fault_cc.h"
#include "measure/best.h"
#include "own_cache.h"
#include "scratch.h"

#include <math.h>
#include <unistd.h>

static void fresh_cache(const char *name)
{
    own_cache(in_scratch(name));
    unsetenv("CC");
}

typedef struct {
    fb_graph *g;
    fb_device *d;
    fb_planner *p;
} subject;

static subject subject_of(fb_graph *g)
{
    fb_error err = {0};
    subject s = {.g = g, .d = fb_device_open("host", NULL)};
    assert_non_null(s.d);
    s.p = fb_planner_new(g, s.d->ops->machine(s.d));
    if (!fb_reference_make(g, 3, NULL, NULL, NULL, &err)) fail_msg("%s", err.text);
    return s;
}

static void subject_free(subject *s)
{
    fb_planner_free(s->p);
    s->d->ops->close(s->d);
    fb_graph_free(s->g);
}

static const fb_best_options usual = {.measure = {.seeds = {3}, .n_seeds = 1}, .most = 300};

static void it_is_found_measured_and_kept(void **state)
{
    (void)state;
    fresh_cache("kept");
    subject s = subject_of(split_stack(4, 64, 32));
    fb_best_summary first, again, anew;
    fb_error err = {0};
    fb_plan *a = fb_best_find(s.d, s.p, &usual, NULL, &first, &err);
    if (!a) fail_msg("%s", err.text);
    check_plan(a);
    assert_true(first.considered > 20);
    assert_true(first.measured >= 2 && first.measured <= 7);
    assert_int_equal(first.failed, 0);
    assert_int_equal(first.source, FB_SOURCE_MEASURED);
    assert_true(first.us > 0 && first.off_median >= 0 && first.off_worst >= first.off_median);
    assert_true(first.tried > 0 && first.tuned <= first.tried);
    assert_false(first.cached);
    fb_plan *b = fb_best_find(s.d, s.p, &usual, NULL, &again, &err);
    assert_non_null(b);
    assert_true(again.cached);
    assert_int_equal(again.considered, first.considered);
    assert_true(fb_plan_equal(a, b));
    fb_best_options o = usual;
    o.again = true;
    fb_plan *c = fb_best_find(s.d, s.p, &o, NULL, &anew, &err);
    assert_non_null(c);
    assert_false(anew.cached);
    fb_plan_free(a);
    fb_plan_free(b);
    fb_plan_free(c);
    subject_free(&s);
}

static void without_a_device_it_is_the_models(void **state)
{
    (void)state;
    fresh_cache("model");
    fb_graph *g = split_stack(4, 64, 32);
    fb_planner *p = planner_of(g, FB_DEVICE_CUDA);
    fb_best_summary s;
    fb_error err = {0};
    fb_plan *plan = fb_best_find(NULL, p, &usual, NULL, &s, &err);
    if (!plan) fail_msg("%s", err.text);
    assert_int_equal(s.measured, 0);
    assert_int_equal(s.source, FB_SOURCE_PREDICTED);
    assert_true(isnan(s.off_median));
    fb_str text = {0};
    fb_best_sentence(&s, &text);
    assert_non_null(strstr(text.text, "none measured"));
    fb_str_free(&text);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
}

static void a_summary_survives_json(void **state)
{
    (void)state;
    const fb_best_summary s = {.considered = 1234,
                               .measured = 6,
                               .failed = 1,
                               .tried = 9,
                               .tuned = 2,
                               .source = FB_SOURCE_COMPOSED,
                               .us = 12.5,
                               .predicted_us = 10,
                               .off_median = 0.25,
                               .off_worst = NAN,
                               .seconds = 1.5,
                               .date = "2026-01-02T03:04:05Z",
                               .why = "no"};
    fb_best_summary t;
    json_t *o = fb_best_summary_to_json(&s);
    assert_true(fb_best_summary_from_json(&t, o, NULL));
    assert_int_equal(t.considered, 1234);
    assert_int_equal(t.measured, 6);
    assert_int_equal(t.failed, 1);
    assert_int_equal(t.tuned, 2);
    assert_int_equal(t.source, FB_SOURCE_COMPOSED);
    assert_true(t.us == 12.5 && t.off_median == 0.25 && isnan(t.off_worst));
    assert_string_equal(t.why, "no");
    json_object_del(o, "source");
    assert_false(fb_best_summary_from_json(&t, o, NULL));
    json_decref(o);
}

typedef struct {
    const char *at; /* words at which it is cancelled; NULL: never */
    bool seen;
} watcher;

static bool watch(void *ctx, const char *what, double fraction)
{
    watcher *w = ctx;
    assert_true(fraction >= 0 && fraction <= 1);
    if (!w->at || !strstr(what, w->at)) return true;
    w->seen = true;
    return false;
}

static void it_is_cancelled_wherever_it_is(void **state)
{
    (void)state;
    empty_cache(in_scratch("cancel"));
    static const char *const at[] = {"searching", "compiling", "measuring"};
    subject s = subject_of(split_stack(4, 64, 32));
    for (size_t i = 0; i < 3; i++) {
        watcher w = {.at = at[i]};
        fb_best_summary sum;
        fb_error err = {0};
        assert_null(fb_best_find(s.d, s.p, &usual, &(fb_progress){.step = watch, .ctx = &w}, &sum, &err));
        assert_int_equal(err.kind, FB_ERR_CANCELLED);
        assert_true(w.seen);
    }
    subject_free(&s);
}

/* Every kernel named for `faulty` gives a wrong answer: nothing is chosen then, and it is said why. */
static void wrong_plans_are_never_the_best(void **state)
{
    (void)state;
    fresh_cache("wrong");
    fb_graph *g = fb_graph_new("relu");
    fb_id x = input(g, "faulty", DIMS(8, 40));
    output(g, node1(g, FB_OP_RELU, "relu", node1(g, FB_OP_TANH, "tanh", x)));
    subject s = subject_of(finish(g));
    fault_compiler(scratch, "wrong_cc", "faulty", NULL, "((float *)args->buffers[1])[3] += 1;", NULL);
    fb_best_summary sum;
    fb_error err = {0};
    fb_plan *plan = fb_best_find(s.d, s.p, &usual, NULL, &sum, &err);
    assert_null(plan);
    assert_non_null(strstr(err.text, "is right"));
    assert_true(sum.failed > 0);
    unsetenv("CC");
    subject_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_found_measured_and_kept),  cmocka_unit_test(without_a_device_it_is_the_models),
        cmocka_unit_test(a_summary_survives_json),        cmocka_unit_test(it_is_cancelled_wherever_it_is),
        cmocka_unit_test(wrong_plans_are_never_the_best),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
