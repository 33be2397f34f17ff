#include "plan_help.h"

static int launches(const fb_plan *plan)
{
    fb_plan_cost c;
    fb_plan_cost_of(plan, &c);
    return c.launches;
}

static void eager_launches_what_the_framework_does(void **state)
{
    (void)state;
    fb_graph *g = split_stack(16, 1024, 256);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = preset(p, "eager");
    check_plan(plan);
    assert_int_equal(launches(plan), 35);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
}

static void max_is_one_kernel_for_both_variants(void **state)
{
    (void)state;
    fb_graph *variant[] = {split_stack(16, 1024, 256), combined(16, 1024, 256)};
    for (int i = 0; i < 2; i++) {
        fb_planner *p = planner_of(variant[i], FB_DEVICE_HOST);
        fb_plan *plan = preset(p, "max");
        check_plan(plan);
        assert_int_equal(launches(plan), 1);
        fb_plan_cost c;
        fb_plan_cost_of(plan, &c);
        /* The input, the weight and the bias once, one result a row. */
        assert_int_equal(c.bytes_read, 4 * (16 * 1024 * 256 + 256 + 1));
        assert_int_equal(c.bytes_written, 4 * 16 * 1024);
        assert_true(c.us >= c.floor_us);
        fb_plan_free(plan);
        fb_planner_free(p);
        fb_graph_free(variant[i]);
    }
}

static fb_graph *network(int layers)
{
    fb_graph *g = fb_graph_new("network");
    fb_id x = input(g, "x", DIMS(256, 256));
    for (int i = 0; i < layers; i++) {
        open_scope(g, "layer", i, NULL, FB_NONE);
        x = node1(g, FB_OP_TANH, "tanh", linear(g, layer_norm(g, x), 256));
        close_scope(g, FB_NONE);
    }
    output(g, x);
    return finish(g);
}

static void library_calls_keep_their_epilogue(void **state)
{
    (void)state;
    fb_graph *g = network(3);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *eager = preset(p, "eager"), *max = preset(p, "max");
    check_plan(eager);
    check_plan(max);
    assert_int_equal(launches(eager), 9);
    assert_int_equal(launches(max), 6);
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "layer[%d].linear.matmul", i);
        assert_int_equal(fb_plan_group(eager, fb_plan_group_of(eager, named(g, name)))->family, FB_FAMILY_LIBRARY);
        int at = fb_plan_group_of(max, named(g, name));
        assert_int_equal(fb_plan_group(max, at)->family, FB_FAMILY_LIBRARY);
        snprintf(name, sizeof name, "layer[%d].tanh", i);
        assert_int_equal(fb_plan_group_of(max, named(g, name)), at);
    }
    fb_plan_free(eager);
    fb_plan_free(max);
    fb_planner_free(p);
    fb_graph_free(g);
}

/* softmax(x · w1) · w2 as one call of the framework: no kernel holds both contractions, so it falls into its parts, and
 * those are fused among themselves and not with what stands around. */
static void a_call_too_large_for_a_kernel_falls_apart(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("attention");
    fb_id x = node1(g, FB_OP_RELU, "before", input(g, "x", DIMS(256, 256)));
    fb_id w1 = source(g, FB_OP_PARAM, "w1", DIMS(256, 256), FB_F32),
          w2 = source(g, FB_OP_PARAM, "w2", DIMS(256, 256), FB_F32);
    open_scope(g, "attention", FB_NONE, "attention", x);
    fb_id scaled = node1(g, FB_OP_TANH, "scaled", node2(g, FB_OP_MATMUL, "scores", x, w1));
    open_scope(g, "softmax", FB_NONE, "softmax", scaled);
    fb_id e = node1(g, FB_OP_EXP, "exp",
                    node2(g, FB_OP_SUB, "sub", scaled, over_axis(g, FB_OP_AMAX, "most", scaled, 1, true)));
    fb_id soft = node2(g, FB_OP_DIV, "div", e, over_axis(g, FB_OP_SUM, "sum", e, 1, true));
    close_scope(g, soft);
    fb_id y = node2(g, FB_OP_MATMUL, "mix", soft, w2);
    close_scope(g, y);
    output(g, node1(g, FB_OP_NEG, "after", y));
    g = finish(g);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = preset(p, "eager");
    check_plan(plan);
    /* before | scores, scaled | softmax | mix | after */
    assert_int_equal(fb_plan_groups(plan), 5);
    assert_int_equal(fb_plan_group_of(plan, named(g, "attention.scores")),
                     fb_plan_group_of(plan, named(g, "attention.scaled")));
    assert_int_equal(fb_plan_group_of(plan, named(g, "attention.softmax.sub")),
                     fb_plan_group_of(plan, named(g, "attention.softmax.div")));
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
}

/* Beyond what one kernel holds, `max` still ends, and soon: a chain and a fan-in of thousands of nodes. */
static void max_on_large_graphs(void **state)
{
    (void)state;
    fb_graph *chain = fb_graph_new("chain");
    fb_id x = input(chain, "x", DIMS(64)), y = input(chain, "y", DIMS(64));
    for (int i = 0; i < 10000; i++) x = node2(chain, i % 2 ? FB_OP_ADD : FB_OP_MUL, NULL, x, y);
    output(chain, x);
    fb_graph *large[] = {finish(chain), split_stack(1200, 8, 8)};
    for (int i = 0; i < 2; i++) {
        fb_planner *p = planner_of(large[i], FB_DEVICE_HOST);
        fb_plan *plan = preset(p, "max");
        if (i == 0) assert_in_range(fb_plan_groups(plan), 3, 12);
        /* Each feature is a kernel; their stack reads too many tensors to be more than one itself. */
        if (i == 1) assert_true(fb_plan_groups(plan) <= 1202);
        fb_plan_free(plan);
        fb_planner_free(p);
        fb_graph_free(large[i]);
    }
}

static void presets_have_names(void **state)
{
    (void)state;
    for (int i = 0; i < fb_presets(); i++) {
        assert_ptr_equal(fb_preset_find(fb_preset_at(i)->name), fb_preset_at(i));
        assert_true(strlen(fb_preset_at(i)->summary) > 10);
    }
    assert_null(fb_preset_find("fastest"));
    assert_null(fb_preset_at(fb_presets()));
    assert_null(fb_preset_at(-1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eager_launches_what_the_framework_does),
        cmocka_unit_test(max_is_one_kernel_for_both_variants),
        cmocka_unit_test(library_calls_keep_their_epilogue),
        cmocka_unit_test(a_call_too_large_for_a_kernel_falls_apart),
        cmocka_unit_test(max_on_large_graphs),
        cmocka_unit_test(presets_have_names),
    };
    return cmocka_run_group_tests_name("preset", tests, NULL, NULL);
}
