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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eager_launches_what_the_framework_does),
        cmocka_unit_test(max_is_one_kernel_for_both_variants),
    };
    return cmocka_run_group_tests_name("preset", tests, NULL, NULL);
}
