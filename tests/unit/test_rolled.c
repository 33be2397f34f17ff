/* Plans whose written out steps are loops: made by an edit and taken back, carried over, kept in files, predicted. */
#include "plan_help.h"

#include "plan/loops.h"

#include <jansson.h>
#include <math.h>

enum { STEPS = 5 };

/* h' = tanh(h w + x[t] + b), all steps stacked; `own`: each step with weights of its own. */
static fb_graph *steps_of_size(int n, bool own, int rows, int width)
{
    fb_graph *g = fb_graph_new("steps");
    fb_id x = input(g, "x", DIMS(n * rows, width)), h = input(g, "h", DIMS(rows, width)),
          b = input(g, "b", DIMS(width));
    fb_id w = own ? FB_NONE : source(g, FB_OP_PARAM, "w", DIMS(width, width), FB_F32), each[16];
    for (int t = 0; t < n; t++) {
        open_scope(g, "step", t, NULL, FB_NONE);
        if (own) w = source(g, FB_OP_PARAM, "w", DIMS(width, width), FB_F32);
        fb_id sum = node2(g, FB_OP_ADD, "sum", node2(g, FB_OP_MATMUL, "product", h, w),
                          slice(g, x, 0, rows * t, rows * t + rows));
        h = each[t] = node1(g, FB_OP_TANH, "tanh", node2(g, FB_OP_ADD, "moved", sum, b));
        close_scope(g, FB_NONE);
    }
    output(g, add_node(g, FB_OP_STACK, "all", NULL, n, each));
    return finish(g);
}

static fb_graph *steps_of(int n, bool own)
{
    return steps_of_size(n, own, 16, 32);
}

typedef struct {
    fb_graph *g;
    fb_planner *p;
    fb_plan *plan;
} bench;

static bench bench_of(fb_graph *g, fb_device_kind kind)
{
    bench b = {.g = g, .p = planner_of(g, kind)};
    b.plan = fb_plan_new(b.p);
    return b;
}

static void bench_free(bench *b)
{
    fb_plan_free(b->plan);
    fb_planner_free(b->p);
    fb_graph_free(b->g);
}

static fb_verdict edit(fb_plan **plan, fb_edit e)
{
    fb_plan *to = NULL;
    fb_verdict v = fb_plan_try(*plan, &e, &to);
    if (to) {
        fb_plan_free(*plan);
        *plan = to;
        check_plan(to);
    }
    return v;
}

static fb_verdict roll(fb_plan **plan, bool on)
{
    return edit(plan, (fb_edit){.kind = FB_EDIT_ROLL, .a = FB_NONE, .b = FB_NONE, .value = on});
}

static const fb_graph *graph_of(const fb_plan *plan)
{
    return fb_planner_graph(fb_plan_planner(plan));
}

static int group_of(const fb_plan *plan, const char *name)
{
    fb_id id = fb_graph_find(graph_of(plan), name);
    if (id == FB_NONE) fail_msg("no node %s", name);
    return fb_plan_group_of(plan, id);
}

/* "sum", "moved" and "tanh" of each step in one kernel. */
static void fuse_steps(fb_plan **plan, int n)
{
    for (int t = 0; t < n; t++) {
        char name[3][32];
        const char *const ends[] = {"sum", "moved", "tanh"};
        fb_id nodes[3];
        for (int i = 0; i < 3; i++) {
            snprintf(name[i], sizeof name[i], "step[%d].%s", t, ends[i]);
            nodes[i] = fb_graph_find(graph_of(*plan), name[i]);
        }
        fb_verdict v = edit(plan, (fb_edit){.kind = FB_EDIT_FUSE_ALL, .n_nodes = 3, .nodes = nodes});
        if (v.kind > FB_VERDICT_SLOWER) fail_msg("%s", v.text);
    }
}

static void what_was_decided_goes_along(void **state)
{
    (void)state;
    bench b = bench_of(steps_of(STEPS, false), FB_DEVICE_HOST);
    fuse_steps(&b.plan, STEPS);
    fb_id first = fb_graph_find(b.g, "step[1].tanh");
    edit(&b.plan, (fb_edit){.kind = FB_EDIT_KNOB, .a = first, .b = FB_NONE, .knob = FB_KNOB_THREADS, .value = 1});
    fb_plan *written = fb_plan_copy(b.plan);
    fb_verdict v = roll(&b.plan, true);
    assert_true(v.kind <= FB_VERDICT_SLOWER && fb_plan_rolled(b.plan));
    assert_non_null(strstr(v.text, "5 steps of `step[*].product`, 4 operations each, as a loop of 5"));
    assert_true(isfinite(v.before_us) && isfinite(v.after_us));
    assert_true(graph_of(b.plan) != b.g && graph_of(b.plan)->n_regions == 2);
    assert_int_equal(group_of(b.plan, "step.sum"), group_of(b.plan, "step.tanh"));
    assert_int_not_equal(group_of(b.plan, "step.product"), group_of(b.plan, "step.tanh"));
    assert_int_equal(fb_plan_groups(b.plan), 2);
    assert_int_equal(fb_plan_group(b.plan, group_of(b.plan, "step.tanh"))->knobs.value[FB_KNOB_THREADS], 1);
    assert_false(fb_plan_equal(written, b.plan));
    assert_false(fb_hash_equal(fb_plan_hash(written), fb_plan_hash(b.plan)));
    assert_int_equal(roll(&b.plan, true).rule, FB_RULE_SAME_GROUP);
    /* and back: each step as the body was */
    fb_plan *rolled = fb_plan_copy(b.plan);
    roll(&b.plan, false);
    assert_ptr_equal(graph_of(b.plan), b.g);
    for (int t = 0; t < STEPS; t++) {
        char sum[32], tanh[32];
        snprintf(sum, sizeof sum, "step[%d].sum", t);
        snprintf(tanh, sizeof tanh, "step[%d].tanh", t);
        assert_int_equal(group_of(b.plan, sum), group_of(b.plan, tanh));
    }
    assert_int_equal(fb_plan_groups(b.plan), fb_plan_groups(written));
    assert_int_equal(roll(&b.plan, false).rule, FB_RULE_SAME_GROUP);
    fb_plan_free(written);
    fb_plan_free(rolled);
    bench_free(&b);
}

static fb_plan *again(const fb_plan *plan, fb_planner *p, bool strict, fb_str *dropped, fb_error *err)
{
    json_t *o = fb_plan_to_json(plan);
    fb_plan *back = fb_plan_from_json(p, o, strict, dropped, err);
    json_decref(o);
    return back;
}

static void files_say_it(void **state)
{
    (void)state;
    bench b = bench_of(steps_of(STEPS, false), FB_DEVICE_HOST), none = bench_of(steps_of(2, false), FB_DEVICE_HOST);
    fb_error err = {0};
    fb_str lua = {0}, dropped = {0};
    roll(&b.plan, true);
    fb_id nodes[] = {fb_graph_find(graph_of(b.plan), "step.sum"), fb_graph_find(graph_of(b.plan), "step.moved")};
    edit(&b.plan, (fb_edit){.kind = FB_EDIT_FUSE_ALL, .n_nodes = 2, .nodes = nodes});
    fb_plan *back = again(b.plan, b.p, true, NULL, &err);
    if (!back) fail_msg("%s", err.text);
    assert_true(fb_plan_rolled(back) && fb_plan_equal(back, b.plan));
    fb_plan_free(back);
    back = again(b.plan, fb_plan_planner(b.plan), true, NULL, &err); /* either planner will do */
    assert_true(back && fb_plan_equal(back, b.plan));
    fb_plan_to_lua(b.plan, NULL, &lua);
    assert_int_equal(strncmp(fb_str_get(&lua), "pl:roll()\n", 10), 0);
    json_t *o = fb_plan_to_json(b.plan);
    assert_true(json_is_true(json_object_get(o, "rolled")));
    json_object_set_new(o, "rolled", json_integer(1));
    assert_null(fb_plan_from_json(b.p, o, true, NULL, &err));
    assert_non_null(strstr(err.text, "\"rolled\" is neither true nor false"));
    json_decref(o);
    /* of a graph that has no such loop */
    err = (fb_error){0};
    assert_null(again(b.plan, none.p, true, NULL, &err));
    assert_non_null(strstr(err.text, "no steps of this graph are a loop"));
    fb_plan *left = again(b.plan, none.p, false, &dropped, &err);
    assert_true(left && !fb_plan_rolled(left));
    assert_non_null(strstr(fb_str_get(&dropped), "no steps of this graph are a loop"));
    fb_plan_free(left);
    fb_plan_free(back);
    fb_str_free(&lua);
    fb_str_free(&dropped);
    bench_free(&b);
    bench_free(&none);
}

static void steps_apart_stay_apart(void **state)
{
    (void)state;
    bench b = bench_of(steps_of(STEPS, true), FB_DEVICE_HOST), two = bench_of(steps_of(2, false), FB_DEVICE_HOST);
    fb_verdict v = roll(&b.plan, true);
    assert_int_equal(v.kind, FB_VERDICT_ILLEGAL);
    assert_int_equal(v.rule, FB_RULE_STEPS);
    assert_non_null(strstr(v.text, "`step[1].product` reads `step[1].w` where `step[0].product` reads `step[0].w`"));
    assert_false(fb_plan_rolled(b.plan));
    v = roll(&two.plan, true);
    assert_int_equal(v.kind, FB_VERDICT_UNSUPPORTED);
    bench_free(&b);
    bench_free(&two);
}

/* The preset: max on the loop's graph, one kernel of a loop where that is predicted to pay; max where there is none. */
static void the_preset_rolls(void **state)
{
    (void)state;
    for (int gpu = 0; gpu < 2; gpu++) {
        fb_device_kind kind = gpu ? FB_DEVICE_CUDA : FB_DEVICE_HOST;
        bench b = bench_of(steps_of(STEPS, false), kind), two = bench_of(steps_of(2, false), kind);
        fb_plan *rolled = preset(b.p, "rolled"), *max = preset(two.p, "max"), *same = preset(two.p, "rolled");
        check_plan(rolled);
        assert_true(fb_plan_rolled(rolled));
        assert_true(fb_plan_equal(max, same));
        fb_plan_cost c;
        fb_plan_cost_of(rolled, &c);
        assert_true(isfinite(c.us));
        assert_true(c.launches >= 1 && c.launches <= 3 * STEPS);
        fb_plan *const plans[] = {rolled, max, same};
        for (int i = 0; i < 3; i++) fb_plan_free(plans[i]);
        bench_free(&b);
        bench_free(&two);
    }
}

/* On a GPU the loop that was found is one kernel in clusters: predicted to be faster than the loop with its kernels;
 * where that decision is not taken it is not. */
static void the_preset_sends_round(void **state)
{
    (void)state;
    bench b = bench_of(steps_of_size(STEPS, false, 256, 512), FB_DEVICE_CUDA);
    fb_preset_use use;
    fb_error err;
    fb_recurrence found;
    fb_steps *steps = NULL;
    assert_true(fb_preset_parse("rolled", &use, &err));
    fb_plan *all = fb_preset_make(&use, b.p, &steps, &err);
    const fb_step *last = fb_steps_at(steps, fb_steps_kept(steps) - 1);
    assert_true(last->what.kind == FB_STEP_GENERATE && last->outcome == FB_STEP_TAKEN && last->rolled);
    assert_non_null(strstr(last->why, "each cluster of"));
    check_plan(all);
    assert_true(fb_plan_recurrence(all, 1, &found, NULL) && found.tile.batch > 0);
    use.n_no = 1;
    use.no[0] = fb_steps_count(steps);
    fb_plan *apart = fb_preset_make(&use, b.p, NULL, &err);
    assert_false(fb_plan_recurrence(apart, 1, &found, NULL));
    fb_plan_cost one, many;
    fb_plan_cost_of(all, &one);
    fb_plan_cost_of(apart, &many);
    assert_true(one.us < many.us && one.launches < many.launches);
    fb_steps_free(steps);
    fb_plan_free(all);
    fb_plan_free(apart);
    bench_free(&b);
}

/* A loop that is written as one: `auto` has it as one kernel, unless that decision is refused. */
static void a_loop_as_written_is_one_kernel_in_auto(void **state)
{
    (void)state;
    bench b = bench_of(steps_of_size(STEPS, false, 256, 512), FB_DEVICE_CUDA);
    fb_planner *p = planner_of(fb_planner_roll(b.p)->graph, FB_DEVICE_CUDA);
    fb_preset_use use;
    fb_error err;
    fb_steps *steps = NULL;
    assert_true(fb_preset_parse("auto", &use, &err));
    fb_plan *one = fb_preset_make(&use, p, &steps, &err);
    assert_int_equal(fb_plan_whole_loop(one, 1), 1);
    check_plan(one);
    int at = 0;
    while (at < fb_steps_kept(steps) && fb_steps_at(steps, at)->what.kind != FB_STEP_GENERATE) at++;
    assert_true(at < fb_steps_kept(steps) && fb_steps_at(steps, at)->outcome == FB_STEP_TAKEN);
    use.n_no = 1;
    use.no[0] = at + 1;
    fb_plan *apart = fb_preset_make(&use, p, NULL, &err);
    assert_int_equal(fb_plan_whole_loop(apart, 1), 0);
    fb_steps_free(steps);
    fb_plan_free(one);
    fb_plan_free(apart);
    fb_planner_free(p);
    bench_free(&b);
}

/* No preset of the list makes another graph of it. */
static void it_is_asked_for(void **state)
{
    (void)state;
    bench b = bench_of(steps_of(STEPS, false), FB_DEVICE_HOST);
    for (int i = 0; i < fb_presets(); i++) {
        fb_plan *plan = preset(b.p, fb_preset_at(i)->name);
        assert_false(fb_plan_rolled(plan));
        fb_plan_free(plan);
    }
    assert_true(fb_presets_all() > fb_presets());
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_decided_goes_along),
        cmocka_unit_test(files_say_it),
        cmocka_unit_test(steps_apart_stay_apart),
        cmocka_unit_test(the_preset_rolls),
        cmocka_unit_test(the_preset_sends_round),
        cmocka_unit_test(a_loop_as_written_is_one_kernel_in_auto),
        cmocka_unit_test(it_is_asked_for),
    };
    return cmocka_run_group_tests_name("rolled", tests, NULL, NULL);
}
