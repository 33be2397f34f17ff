/* Buffers of a plan: what is alive at the same time never shares memory, and no value is without a place. */
#include "plan_help.h"

/* Random fusions of a random plan, so that groups store many kinds of values. */
static fb_plan *shuffled(fb_planner *p, uint64_t seed)
{
    const fb_deps *d = fb_planner_deps(p);
    fb_plan *plan = fb_plan_new(p);
    uint64_t key = fb_rng_key(seed, "edits");
    for (int i = 0; i < 20 && d->n_edges; i++) {
        const fb_edge *e = &d->edges[fb_rng_bits(key, (uint64_t)i) % (uint64_t)d->n_edges];
        fb_plan *next = NULL;
        fb_plan_try(plan, &(fb_edit){.kind = FB_EDIT_FUSE, .a = e->producer, .b = e->consumer}, &next);
        if (!next) continue;
        fb_plan_free(plan);
        plan = next;
    }
    return plan;
}

static void check_apart(const fb_buffer_plan *b, int n, int64_t pool)
{
    for (int i = 0; i < n; i++) {
        assert_true(b[i].first <= b[i].last);
        if (b[i].offset == FB_NONE) continue;
        assert_int_equal(b[i].offset % 256, 0);
        assert_true(b[i].offset >= 0 && b[i].offset + b[i].bytes <= pool);
        for (int k = 0; k < i; k++) {
            bool in_time = b[k].first <= b[i].last && b[i].first <= b[k].last;
            bool in_space = b[k].offset != FB_NONE && b[k].offset < b[i].offset + b[i].bytes &&
                            b[i].offset < b[k].offset + b[k].bytes;
            if (in_time && in_space) fail_msg("buffers of nodes %d and %d overlap", b[k].node, b[i].node);
        }
    }
}

/* Everything that a group stores is there from then on until all who read it are done. */
static void check_complete(const fb_plan *plan, const fb_buffer_plan *b, int n)
{
    const fb_deps *d = fb_planner_deps(fb_plan_planner(plan));
    for (int i = 0; i < fb_plan_groups(plan); i++) {
        const fb_group *g = fb_plan_group(plan, i);
        for (int k = 0; k < g->n_stored; k++) {
            int at = 0;
            while (at < n && b[at].node != g->stored[k]) at++;
            assert_true(at < n);
            assert_int_equal(b[at].first, i);
            for (int e = d->out_start[g->stored[k]]; e < d->out_start[g->stored[k] + 1]; e++)
                assert_true(b[at].last >= fb_plan_group_of(plan, d->edges[d->out[e]].consumer));
        }
    }
}

static void live_buffers_never_overlap(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        fb_graph *g = random_graph(seed, 50);
        fb_planner *p = planner_of(g, FB_DEVICE_HOST);
        fb_plan *plan = shuffled(p, seed);
        fb_arena *arena = fb_arena_new();
        fb_buffer_plan *b;
        int64_t pool;
        int n = fb_plan_buffers(plan, arena, &b, &pool);
        check_apart(b, n, pool);
        check_complete(plan, b, n);
        fb_arena_free(arena);
        fb_plan_free(plan);
        fb_planner_free(p);
        fb_graph_free(g);
    }
}

static void a_chain_needs_two_buffers(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("chain");
    fb_id x = input(g, "x", DIMS(100)), y = x;
    for (int i = 0; i < 10; i++) y = node1(g, i % 2 ? FB_OP_TANH : FB_OP_EXP, NULL, y);
    output(g, y);
    g = finish(g);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = fb_plan_new(p);
    fb_arena *arena = fb_arena_new();
    fb_buffer_plan *b;
    int64_t pool;
    int n = fb_plan_buffers(plan, arena, &b, &pool), own = 0;
    assert_int_equal(n, 11);
    assert_int_equal(pool, 2 * 512);
    for (int i = 0; i < n; i++) own += b[i].offset == FB_NONE;
    assert_int_equal(own, 2);
    assert_int_equal(b[n - 1].last, 9);
    fb_plan_cost c;
    fb_plan_cost_of(plan, &c);
    assert_int_equal(c.peak_bytes, 2 * 512 + 2 * 400);
    fb_arena_free(arena);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
}

/* What an assignment stores is the parameter; what goes around a loop lives as long as the loop. */
static void parameters_and_loops(void **state)
{
    (void)state;
    fb_error err = {0};
    fb_graph *g = fb_graph_new("loop");
    fb_id x = input(g, "x", DIMS(64)), w = source(g, FB_OP_PARAM, "w", DIMS(64), FB_F32), carried;
    fb_id before = node1(g, FB_OP_TANH, "before", x), kept = node1(g, FB_OP_EXP, "kept", x);
    assert_true(fb_graph_region_open(g, 4, &before, 1, NULL, 0, &carried, NULL, 0, &err) != FB_NONE);
    fb_id inside = node2(g, FB_OP_MUL, "inside", carried, kept), yield = node2(g, FB_OP_ADD, "yield", inside, w);
    fb_id loop = fb_graph_region_close(g, &yield, NULL, 0, &err);
    fb_id result = add_node(g, FB_OP_RESULT, "result", &(fb_attrs){.index = 0}, 1, &loop);
    fb_id after = node2(g, FB_OP_ADD, "after", result, w);
    assign(g, w, after, "update");
    output(g, after);
    g = finish(g);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = fb_plan_new(p);
    fb_arena *arena = fb_arena_new();
    fb_buffer_plan *b;
    int64_t pool;
    int n = fb_plan_buffers(plan, arena, &b, &pool);
    int last_of_loop = fb_plan_group_of(plan, named(g, "yield"));
    check_apart(b, n, pool);
    for (int i = 0; i < n; i++) {
        assert_int_not_equal(b[i].node, named(g, "update"));
        if (b[i].node == named(g, "kept")) assert_true(b[i].last >= last_of_loop);
        if (b[i].node == named(g, "yield")) assert_true(b[i].first <= fb_plan_group_of(plan, named(g, "inside")));
        if (b[i].node == named(g, "w")) assert_int_equal(b[i].offset, FB_NONE);
    }
    fb_arena_free(arena);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_buffers_never_overlap),
        cmocka_unit_test(a_chain_needs_two_buffers),
        cmocka_unit_test(parameters_and_loops),
    };
    return cmocka_run_group_tests_name("buffers", tests, NULL, NULL);
}
