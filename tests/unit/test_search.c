/* The search with the model alone: as good as trying all subsets of edges, better than any preset, the same each time.
 */
#include "plan_help.h"

#include "decide/search.h"

#include <math.h>

static fb_search_result found(fb_planner *p, const fb_search_options *o)
{
    fb_search_result r;
    fb_error err = {0};
    if (!fb_decide_search(p, o, &r, &err)) fail_msg("%s", err.text);
    assert_true(r.n > 0);
    for (int i = 0; i < r.n; i++) {
        fb_plan_cost cost;
        check_plan(r.plan[i]);
        fb_plan_cost_of(r.plan[i], &cost);
        assert_true(fabs(cost.us - r.us[i]) <= 1e-6 * cost.us);
        if (i) assert_true(r.us[i - 1] <= r.us[i]);
    }
    return r;
}

static double predicted(const fb_plan *plan)
{
    fb_plan_cost cost;
    fb_plan_cost_of(plan, &cost);
    return cost.us;
}

/* The least over all subsets of edges, fused in order. */
static double least_of_all(fb_planner *p)
{
    const fb_deps *d = fb_planner_deps(p);
    double least = INFINITY;
    assert_true(d->n_edges <= 10);
    for (unsigned set = 0; set < 1u << d->n_edges; set++) {
        fb_plan *plan = preset(p, "none");
        for (int i = 0; i < d->n_edges; i++) {
            fb_plan *next = NULL;
            if (!(set >> i & 1)) continue;
            fb_plan_try(plan, &(fb_edit){.kind = FB_EDIT_FUSE, .a = d->edges[i].producer, .b = d->edges[i].consumer},
                        &next);
            if (!next) continue;
            fb_plan_free(plan);
            plan = next;
        }
        least = fmin(least, predicted(plan));
        fb_plan_free(plan);
    }
    return least;
}

static fb_graph *diamond(void)
{
    fb_graph *g = fb_graph_new("diamond");
    fb_id x = input(g, "x", DIMS(512, 64)), a = node1(g, FB_OP_EXP, "a", x);
    fb_id rows = over_axis(g, FB_OP_SUM, "rows", a, 1, true), columns = over_axis(g, FB_OP_SUM, "columns", a, 0, true);
    fb_id y = node2(g, FB_OP_DIV, "y", a, rows);
    output(g, node2(g, FB_OP_MUL, "z", y, columns));
    return finish(g);
}

static fb_graph *norm(void)
{
    fb_graph *g = fb_graph_new("norm");
    output(g, node1(g, FB_OP_TANH, "tanh", layer_norm(g, input(g, "x", DIMS(256, 128)))));
    return finish(g);
}

static void it_finds_what_trying_all_finds(void **state)
{
    (void)state;
    fb_graph *(*const make[])(void) = {diamond, norm};
    static const fb_device_kind kinds[] = {FB_DEVICE_HOST, FB_DEVICE_CUDA};
    for (size_t i = 0; i < 4; i++) {
        fb_graph *g = make[i / 2]();
        fb_planner *p = planner_of(g, kinds[i % 2]);
        double least = least_of_all(p);
        fb_search_result r = found(p, &(fb_search_options){0});
        if (r.us[0] > least * 1.0001) fail_msg("%s: found %g µs, the least is %g µs", g->title, r.us[0], least);
        fb_decide_search_clear(&r);
        fb_planner_free(p);
        fb_graph_free(g);
    }
}

static void it_is_never_worse_than_a_preset(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        fb_graph *g = random_graph(seed, 24);
        fb_planner *p = planner_of(g, seed % 2 ? FB_DEVICE_HOST : FB_DEVICE_CUDA);
        fb_search_result r = found(p, &(fb_search_options){.most = 1500});
        for (int i = 0; i < fb_presets(); i++) {
            fb_plan *plan = preset(p, fb_preset_at(i)->name);
            assert_true(r.us[0] <= predicted(plan) * 1.0001);
            fb_plan_free(plan);
        }
        fb_decide_search_clear(&r);
        fb_planner_free(p);
        fb_graph_free(g);
    }
}

/* A cheap value of two vectors is read before a sum of all of it and after: storing it costs two passes over memory. */
static void it_recomputes_what_is_cheaper_computed_twice(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("twice");
    fb_id x = input(g, "x", DIMS(4096, 1)), y = input(g, "y", DIMS(1, 1024));
    fb_id wide = node2(g, FB_OP_ADD, "wide", x, y);
    fb_id all = over_axis(g, FB_OP_SUM, "all", over_axis(g, FB_OP_SUM, "rows", wide, 1, true), 0, true);
    output(g, node2(g, FB_OP_DIV, "share", wide, all));
    g = finish(g);
    fb_planner *p = planner_of(g, FB_DEVICE_CUDA);
    fb_search_result r = found(p, &(fb_search_options){0});
    assert_true(fb_plan_recomputed(r.plan[0], named(g, "wide")));
    fb_plan *max = preset(p, "max");
    assert_true(r.us[0] < 0.8 * predicted(max));
    fb_plan_free(max);
    fb_decide_search_clear(&r);
    fb_planner_free(p);
    fb_graph_free(g);
}

/* Two kernels that no edge joins, but one input. */
static void it_puts_side_by_side(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("beside");
    fb_id x = input(g, "x", DIMS(1 << 20));
    output(g, node1(g, FB_OP_RELU, "relu", x));
    output(g, node1(g, FB_OP_ABS, "abs", x));
    g = finish(g);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_search_result r = found(p, &(fb_search_options){0});
    assert_int_equal(fb_plan_groups(r.plan[0]), 1);
    fb_decide_search_clear(&r);
    fb_planner_free(p);
    fb_graph_free(g);
}

static void it_chooses_the_launch_mode(void **state)
{
    (void)state;
    fb_graph *g = split_stack(4, 16, 32);
    for (int cuda = 0; cuda < 2; cuda++) {
        fb_planner *p = planner_of(g, cuda ? FB_DEVICE_CUDA : FB_DEVICE_HOST);
        fb_search_result r = found(p, &(fb_search_options){0});
        assert_int_equal(fb_plan_launch_mode(r.plan[0]), cuda ? FB_LAUNCH_GRAPH : FB_LAUNCH_STREAM);
        fb_decide_search_clear(&r);
        fb_planner_free(p);
    }
    fb_graph_free(g);
}

/* A step of tanh(h · w), many times: launching its kernels one by one takes longer than they do. */
static fb_graph *recurrence(int trips)
{
    fb_error err = {0};
    fb_graph *g = fb_graph_new("recurrence");
    fb_id h = input(g, "h", DIMS(32, 64)), w = source(g, FB_OP_PARAM, "w", DIMS(64, 64), FB_F32), carried, none;
    assert_true(fb_graph_region_open(g, trips, &h, 1, NULL, 0, &carried, NULL, 0, &err) != FB_NONE);
    fb_id next = node1(g, FB_OP_TANH, "next", node2(g, FB_OP_MATMUL, "product", carried, w));
    fb_id loop = fb_graph_region_close(g, &next, &none, 0, &err);
    output(g, node1(g, FB_OP_RELU, "last", add_node(g, FB_OP_RESULT, "h_n", &(fb_attrs){.index = 0}, 1, &loop)));
    return finish(g);
}

static bool has_library(const fb_plan *plan)
{
    bool any = false;
    for (int i = 0; i < fb_plan_groups(plan); i++) any |= fb_plan_group(plan, i)->family == FB_FAMILY_LIBRARY;
    return any;
}

static void it_makes_loops_and_plans_one_kernel(void **state)
{
    (void)state;
    static const int trips[] = {500, 100000}; /* the latter is too long for a CUDA graph */
    for (int i = 0; i < 2; i++) {
        fb_graph *g = recurrence(trips[i]);
        fb_planner *p = planner_of(g, FB_DEVICE_CUDA);
        fb_search_result r = found(p, &(fb_search_options){.n_best = 8});
        fb_plan_cost cost;
        fb_plan_cost_of(r.plan[0], &cost);
        assert_true(cost.launches < 4); /* it, or its loop, is one kernel */
        assert_false(has_library(r.plan[0]));
        for (int k = 0; k < r.n; k++) {
            fb_plan_cost_of(r.plan[k], &cost);
            assert_true(fb_plan_launch_mode(r.plan[k]) != FB_LAUNCH_GRAPH || cost.launches <= FB_GRAPH_LAUNCHES);
        }
        fb_decide_search_clear(&r);
        fb_planner_free(p);
        fb_graph_free(g);
    }
}

static void it_is_the_same_each_time(void **state)
{
    (void)state;
    fb_graph *g = split_stack(6, 64, 32);
    fb_search_result r[2];
    fb_planner *p[2];
    for (int i = 0; i < 2; i++) {
        p[i] = planner_of(g, FB_DEVICE_HOST);
        r[i] = found(p[i], &(fb_search_options){.n_best = 5});
    }
    assert_int_equal(r[0].considered, r[1].considered);
    assert_int_equal(r[0].n, r[1].n);
    for (int k = 0; k < r[0].n; k++) assert_true(fb_hash_equal(fb_plan_hash(r[0].plan[k]), fb_plan_hash(r[1].plan[k])));
    for (int i = 0; i < 2; i++) {
        fb_decide_search_clear(&r[i]);
        fb_planner_free(p[i]);
    }
    fb_graph_free(g);
}

typedef struct {
    int calls, enough;
    int64_t considered;
} counter;

static bool count_step(void *ctx, int64_t considered, double fraction, double best_us)
{
    counter *c = ctx;
    (void)best_us;
    assert_true(fraction >= 0 && considered >= c->considered);
    c->considered = considered;
    return ++c->calls < c->enough;
}

static void it_is_cancelled(void **state)
{
    (void)state;
    fb_graph *g = split_stack(6, 64, 32);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    for (int enough = 1; enough < 6; enough++) {
        fb_error err = {0};
        fb_search_result r;
        counter c = {.enough = enough};
        assert_false(fb_decide_search(p, &(fb_search_options){.step = count_step, .ctx = &c}, &r, &err));
        assert_int_equal(err.kind, FB_ERR_CANCELLED);
        assert_int_equal(r.n, 0);
        assert_int_equal(c.calls, enough);
    }
    fb_planner_free(p);
    fb_graph_free(g);
}

static void it_stops_at_its_limit(void **state)
{
    (void)state;
    fb_graph *g = random_graph(3, 40);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_search_result r = found(p, &(fb_search_options){.most = 40, .n_best = 2});
    assert_true(r.considered <= 40);
    assert_true(r.n <= 2);
    fb_decide_search_clear(&r);
    fb_planner_free(p);
    fb_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_finds_what_trying_all_finds),
        cmocka_unit_test(it_is_never_worse_than_a_preset),
        cmocka_unit_test(it_recomputes_what_is_cheaper_computed_twice),
        cmocka_unit_test(it_puts_side_by_side),
        cmocka_unit_test(it_chooses_the_launch_mode),
        cmocka_unit_test(it_makes_loops_and_plans_one_kernel),
        cmocka_unit_test(it_is_the_same_each_time),
        cmocka_unit_test(it_is_cancelled),
        cmocka_unit_test(it_stops_at_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
