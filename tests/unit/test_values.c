/* A tensor to look at: its statistics, its error by element, and the way through JSON. */
#include "measure/values.h"

#include "graph_help.h"

/* y = sqrt(x): x is given, so that the reference knows what y should be. */
typedef struct {
    fb_graph *g;
    fb_id x, y;
    float given[8], stored[8];
} example;

static example example_new(void)
{
    fb_error err = {0};
    example e = {.g = fb_graph_new("values"), .given = {0, 1, 4, 9, 16, 25, 36, 49}};
    e.x = add_input(e.g, "x", FB_F32, SHAPE(2, 4));
    e.y = add_op(e.g, FB_OP_SQRT, ARGS(e.x), NULL);
    if (!fb_graph_output(e.g, e.y, NULL, &err) || !fb_graph_finish(e.g, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < 8; i++) e.stored[i] = (float)i;
    return e;
}

static fb_values *look(const example *e)
{
    fb_error err = {0};
    const fb_given given = {e->x, e->given};
    fb_values *v = fb_values_of(e->g, e->y, "stored by sqrt", e->stored);
    if (!fb_values_judge(v, e->g, e->y, e->stored, &(fb_trial_options){.n_given = 1, .given = &given}, &err))
        fail_msg("%s", err.text);
    return v;
}

static void test_statistics(void **state)
{
    example e = example_new();
    (void)state;
    e.stored[6] = NAN;
    e.stored[7] = -INFINITY;
    fb_values *v = fb_values_of(e.g, e.y, "stored by sqrt", e.stored);
    assert_int_equal(v->elements, 8);
    assert_int_equal(v->zeros, 1);
    assert_int_equal(v->nans, 1);
    assert_int_equal(v->infinities, 1);
    assert_true(v->min == 0 && v->max == 5);
    assert_true(v->mean == 2.5);
    assert_true(fabs(v->deviation - sqrt(17.5 / 6)) < 1e-12);
    assert_int_equal(v->rows, 2);
    assert_int_equal(v->columns, 4);
    assert_true(v->corner[5] == 5 && isnan(v->corner[6]));
    int64_t all = 0;
    for (int k = 0; k < FB_VALUES_BINS; k++) all += v->bin[k];
    assert_int_equal(all, 6);
    assert_int_equal(v->bin[0], 1);
    assert_int_equal(v->bin[FB_VALUES_BINS - 1], 1);
    fb_values_free(v);
    fb_graph_free(e.g);
}

static void test_nothing_finite(void **state)
{
    example e = example_new();
    (void)state;
    for (int i = 0; i < 8; i++) e.stored[i] = NAN;
    fb_values *v = fb_values_of(e.g, e.y, "stored by sqrt", e.stored);
    assert_true(isnan(v->min) && isnan(v->max) && isnan(v->mean) && isnan(v->deviation));
    assert_int_equal(v->nans, 8);
    fb_values_free(v);
    fb_graph_free(e.g);
}

static void test_right(void **state)
{
    example e = example_new();
    (void)state;
    fb_values *v = look(&e);
    assert_true(v->right);
    assert_int_equal(v->compared, 8);
    assert_int_equal(v->n_worst, 0);
    assert_null(v->wrong);
    fb_values_free(v);
    fb_graph_free(e.g);
}

static void test_furthest_first(void **state)
{
    example e = example_new();
    char at[128];
    (void)state;
    e.stored[2] = 2.25F;
    e.stored[5] = 7;
    e.stored[7] = NAN;
    fb_values *v = look(&e);
    assert_false(v->right);
    assert_non_null(v->wrong);
    assert_int_equal(v->n_worst, 3);
    assert_int_equal(v->worst[0].element, 7);
    assert_int_equal(v->worst[1].element, 5);
    assert_true(v->worst[1].got == 7 && v->worst[1].expected == 5);
    assert_int_equal(v->worst[2].element, 2);
    assert_string_equal(fb_values_at(&v->shape, v->worst[1].element, at), "[1,1]");
    fb_values_free(v);
    fb_graph_free(e.g);
}

static void test_json(void **state)
{
    example e = example_new();
    fb_error err = {0};
    (void)state;
    e.stored[3] = INFINITY;
    e.stored[4] = NAN;
    fb_values *v = look(&e);
    json_t *there = fb_values_to_json(v);
    fb_values *back = fb_values_from_json(there, &err);
    if (!back) fail_msg("%s", err.text);
    json_t *again = fb_values_to_json(back);
    assert_true(json_equal(there, again));
    assert_true(isinf(back->corner[3]) && isnan(back->corner[4]));
    json_decref(there);
    json_decref(again);
    fb_values_free(v);
    fb_values_free(back);
    fb_graph_free(e.g);
}

static void test_malformed(void **state)
{
    static const char *const texts[] = {
        "[]",
        "{}",
        "{\"node\":\"y\",\"from\":\"\",\"dtype\":\"f33\",\"histogram\":[]}",
        "{\"node\":\"y\",\"from\":\"\",\"dtype\":\"f32\",\"histogram\":[],\"shape\":[2,-1]}",
        "{\"node\":\"y\",\"from\":\"\",\"dtype\":\"f32\",\"histogram\":[],\"shape\":[2],\"elements\":3,\"zeros\":0,"
        "\"nan\":0,"
        "\"inf\":0,\"corner\":[]}",
        "{\"node\":\"y\",\"from\":\"\",\"dtype\":\"f32\",\"histogram\":[],\"shape\":[2],\"elements\":2,\"zeros\":0,"
        "\"nan\":0,"
        "\"inf\":0,\"corner\":[[1,\"one\"]]}",
        "{\"node\":\"y\",\"from\":\"\",\"dtype\":\"f32\",\"histogram\":[],\"shape\":[2],\"elements\":2,\"zeros\":0,"
        "\"nan\":0,"
        "\"inf\":0,\"corner\":[],\"error\":{\"compared\":2,\"worst\":[{\"element\":2,\"got\":1,\"expected\":1}]}}"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        fb_error err = {0};
        json_t *value = json_loads(texts[i], 0, NULL);
        assert_non_null(value);
        assert_null(fb_values_from_json(value, &err));
        assert_int_equal(err.kind, FB_ERR_INPUT);
        json_decref(value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistics),     cmocka_unit_test(test_nothing_finite), cmocka_unit_test(test_right),
        cmocka_unit_test(test_furthest_first), cmocka_unit_test(test_json),           cmocka_unit_test(test_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
