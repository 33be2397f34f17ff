/* The canonicalising pass: each promise of its header, and random graphs for those that hold everywhere. */
#include "graph_help.h"

#include "base/clock.h"
#include "graph/canon.h"

static fb_graph *canonical(fb_graph *g)
{
    fb_error err = {0};
    finish(g);
    fb_graph *c = fb_graph_canonical(g, &err);
    if (!c) fail_msg("%s", err.text);
    assert_true(c->canonical);
    assert_true(fb_graph_verify(c, &err));
    fb_graph *again = fb_graph_canonical(c, &err);
    assert_non_null(again);
    assert_true(fb_hash_equal(again->hash, c->hash));
    fb_graph_free(again);
    fb_graph_free(g);
    return c;
}

static int count(const fb_graph *g, fb_op op)
{
    int n = 0;
    for (fb_id i = 0; i < g->n_nodes; i++) n += g->nodes[i].op == op;
    return n;
}

static void test_dead_and_common(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_id x = add_input(g, "x", FB_F32, SHAPE(4)), unused = add_input(g, "unused", FB_F32, SHAPE(4));
    add_op(g, FB_OP_EXP, ARGS(unused), NULL);
    fb_id a = add_op(g, FB_OP_TANH, ARGS(x), NULL), b = add_op(g, FB_OP_TANH, ARGS(x), NULL);
    output(g, add_op(g, FB_OP_MUL, ARGS(a, b), NULL), "y");
    g = canonical(g);
    assert_int_equal(g->n_nodes, 3);
    assert_int_equal(fb_graph_find(g, "unused"), FB_NONE);
    assert_int_equal(fb_graph_find(g, "tanh"), 1);
    assert_int_equal(g->nodes[2].args[0], g->nodes[2].args[1]);
    fb_graph_free(g);
}

/* Two op scopes compute their own; regions of the script do not part equal nodes. */
static void test_scopes(void **state)
{
    (void)state;
    for (int is_op = 0; is_op < 2; is_op++) {
        fb_graph *g = fb_graph_new("");
        fb_id x = add_input(g, "x", FB_F32, SHAPE(4)), dead = add_input(g, "dead", FB_F32, SHAPE(4)), y[2];
        for (int i = 0; i < 2; i++) {
            open_scope(g, "part", i, is_op ? "act" : NULL, (fb_id[]){dead, x}, 2);
            y[i] = add_op(g, FB_OP_TANH, ARGS(x), NULL);
            close_scope(g, &y[i], is_op);
        }
        open_scope(g, "empty", FB_NONE, NULL, NULL, 0);
        close_scope(g, NULL, 0);
        output(g, add_op(g, FB_OP_ADD, ARGS(y[0], y[1]), NULL), NULL);
        g = canonical(g);
        assert_int_equal(count(g, FB_OP_TANH), is_op ? 2 : 1);
        assert_int_equal(g->n_scopes, is_op ? 2 : 1);
        if (is_op) {
            assert_int_equal(g->scopes[1].args[0], FB_NONE);
            assert_int_equal(g->scopes[1].args[1], fb_graph_find(g, "x"));
            assert_int_equal(g->scopes[1].results[0], fb_graph_find(g, "part[1].tanh"));
            assert_int_equal(fb_node_at(g, g->scopes[1].results[0])->scope, 1);
        }
        fb_graph_free(g);
    }
}

static void test_constants(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_id two = add_const(g, FB_F32, 2), big = add_const(g, FB_I64, 0x1p27 + 1), third = add_const(g, FB_BF16, 1.0 / 3);
    fb_id wide =
        add_op(g, FB_OP_EXPAND, ARGS(add_op(g, FB_OP_MUL, ARGS(two, two), NULL)), &(fb_attrs){.shape = SHAPE(3, 4)});
    fb_id pick = add_op(g, FB_OP_WHERE, ARGS(add_op(g, FB_OP_LT, ARGS(big, big), NULL), two, wide), NULL);
    output(g, pick, "four");
    output(g, add_op(g, FB_OP_MUL, ARGS(big, big), NULL), "too_big");
    output(g, add_op(g, FB_OP_ADD, ARGS(third, third), NULL), "rounded");
    output(g,
           add_op(g, FB_OP_CAST, ARGS(add_op(g, FB_OP_DIV, ARGS(two, add_const(g, FB_F32, 0)), NULL)),
                  &(fb_attrs){.dtype = FB_F16}),
           "inf");
    g = canonical(g);
    const fb_node *four = fb_node_at(g, g->outputs[0]), *rounded = fb_node_at(g, g->outputs[2]);
    assert_int_equal(four->op, FB_OP_CONST);
    assert_true(four->attrs->value == 4 && four->shape.rank == 2);
    assert_int_equal(fb_node_at(g, g->outputs[1])->op, FB_OP_MUL);
    assert_true(rounded->op == FB_OP_CONST && rounded->attrs->value == 0.66796875);
    assert_true(isinf(fb_node_at(g, g->outputs[3])->attrs->value));
    assert_int_equal(g->n_nodes, 5);
    fb_graph_free(g);
}

static void test_identity_views(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_id x = add_input(g, "x", FB_F32, SHAPE(3, 1)), v = x;
    v = add_op(g, FB_OP_VIEW, ARGS(v), &(fb_attrs){.shape = SHAPE(3, 1)});
    v = add_op(g, FB_OP_SLICE, ARGS(v), &(fb_attrs){.stop = 3, .step = 1});
    v = add_op(g, FB_OP_PERMUTE, ARGS(v), &(fb_attrs){.n_axes = 2, .axes = {0, 1}});
    v = add_op(g, FB_OP_EXPAND, ARGS(v), &(fb_attrs){.shape = SHAPE(-1, -1)});
    v = add_op(g, FB_OP_FLIP, ARGS(v), &(fb_attrs){.n_axes = 1, .axes = {1}});
    v = add_op(g, FB_OP_PAD, ARGS(v), NULL);
    output(g, v, "same");
    output(g, add_op(g, FB_OP_VIEW, ARGS(v), &(fb_attrs){.shape = SHAPE(3)}), "flat");
    output(g, x, "x");
    g = canonical(g);
    assert_int_equal(g->n_nodes, 2);
    assert_int_equal(g->outputs[0], g->outputs[2]);
    fb_graph_free(g);
}

static void test_merged_views(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_id x = add_input(g, "x", FB_F32, SHAPE(4, 10)), v = x;
    v = add_op(g, FB_OP_SLICE, ARGS(v), &(fb_attrs){.dim = 1, .start = 1, .stop = 10, .step = 2});
    v = add_op(g, FB_OP_SLICE, ARGS(v), &(fb_attrs){.dim = 1, .start = 1, .stop = 5, .step = 3});
    v = add_op(g, FB_OP_PERMUTE, ARGS(v), &(fb_attrs){.n_axes = 2, .axes = {1, 0}});
    v = add_op(g, FB_OP_PERMUTE, ARGS(v), &(fb_attrs){.n_axes = 2, .axes = {1, 0}});
    v = add_op(g, FB_OP_FLIP, ARGS(v), &(fb_attrs){.n_axes = 1, .axes = {0}});
    v = add_op(g, FB_OP_FLIP, ARGS(v), &(fb_attrs){.n_axes = 2, .axes = {0, 1}});
    v = add_op(g, FB_OP_PAD, ARGS(v), &(fb_attrs){.before = {1}, .value = 2});
    v = add_op(g, FB_OP_PAD, ARGS(v), &(fb_attrs){.after = {0, 3}, .value = 2});
    v = add_op(g, FB_OP_PAD, ARGS(v), &(fb_attrs){.after = {1}, .value = 3});
    output(g, v, "y");
    g = canonical(g);
    assert_int_equal(g->n_nodes, 5);
    const fb_attrs *slice = g->nodes[1].attrs, *flip = g->nodes[2].attrs, *pad = g->nodes[3].attrs;
    assert_true(slice->start == 3 && slice->stop == 10 && slice->step == 6);
    assert_true(flip->n_axes == 1 && flip->axes[0] == 1);
    assert_true(pad->before[0] == 1 && pad->after[1] == 3);
    fb_graph_free(g);
}

/* An op scope's operand is not looked through from inside. */
static void test_scope_keeps_operand(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_id x = add_input(g, "x", FB_F32, SHAPE(12));
    fb_id given = add_op(g, FB_OP_VIEW, ARGS(x), &(fb_attrs){.shape = SHAPE(3, 4)});
    open_scope(g, "linear", FB_NONE, "linear", ARGS(given));
    fb_id inner = add_op(g, FB_OP_VIEW, ARGS(given), &(fb_attrs){.shape = SHAPE(4, 3)});
    fb_id y = add_op(g, FB_OP_TANH, ARGS(inner), NULL);
    close_scope(g, ARGS(y));
    output(g, y, NULL);
    g = canonical(g);
    assert_int_equal(g->n_nodes, 4);
    assert_int_equal(g->scopes[0].args[0], 1);
    fb_graph_free(g);
}

/* What a loop hands on stays, whether it is read outside or not; what its body does not read goes. */
static void test_loops(void **state)
{
    (void)state;
    fb_error err = {0};
    fb_graph *g = fb_graph_new("");
    fb_id h = add_input(g, "h", FB_F32, SHAPE(3)), k = add_input(g, "k", FB_F32, SHAPE(3)), carried[2];
    fb_id dead = add_input(g, "dead", FB_F32, SHAPE(3)), none;
    must(fb_graph_region_open(g, 5, ARGS(dead), NULL, 0, &none, NULL, 0, &err), &err);
    must(fb_graph_region_close(g, &none, NULL, 0, &err), &err);
    must(fb_graph_region_open(g, 5, ARGS(h, k), NULL, 0, carried, NULL, 0, &err), &err);
    fb_id t = add_op(g, FB_OP_TANH, ARGS(carried[0]), NULL), u = add_op(g, FB_OP_TANH, ARGS(carried[0]), NULL);
    fb_id loop = must(fb_graph_region_close(g, (fb_id[]){t, u}, NULL, 0, &err), &err);
    output(g, add_op(g, FB_OP_RESULT, ARGS(loop), NULL), NULL);
    g = canonical(g);
    assert_int_equal(g->n_regions, 2);
    assert_int_equal(g->regions[1].carried[1], FB_NONE);
    assert_int_equal(g->regions[1].yields[0], g->regions[1].yields[1]);
    assert_int_equal(count(g, FB_OP_INPUT), 2);
    assert_int_equal(count(g, FB_OP_LOOP), 1);
    fb_graph_free(g);
}

/* An update inside a loop keeps the loop alive, though nothing reads its results. */
static void test_effects(void **state)
{
    (void)state;
    fb_error err = {0};
    fb_graph *g = fb_graph_new("");
    fb_id w = add_param(g, "w", SHAPE(3));
    must(fb_graph_region_open(g, 5, NULL, 0, NULL, 0, NULL, NULL, 0, &err), &err);
    add_op(g, FB_OP_ASSIGN, ARGS(w, add_op(g, FB_OP_TANH, ARGS(w), NULL)), NULL);
    must(fb_graph_region_close(g, NULL, NULL, 0, &err), &err);
    g = canonical(g);
    assert_int_equal(g->n_nodes, 4);
    fb_graph_free(g);
}

static void test_varied(void **state)
{
    (void)state;
    fb_graph *g = canonical(varied_graph());
    assert_int_equal(g->n_nodes, 38);
    fb_graph_free(g);
}

/* 50,000 nodes, a quarter of them duplicates, in well under the bound. */
static void test_large(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_id x = add_input(g, "x", FB_F32, SHAPE(8));
    for (int i = 0; i < 12500; i++) {
        if (i % 100 == 0) open_scope(g, "layer", i / 100, NULL, NULL, 0);
        fb_id a = add_op(g, FB_OP_TANH, ARGS(x), NULL), b = add_op(g, FB_OP_TANH, ARGS(x), NULL);
        fb_id c = add_op(g, FB_OP_SLICE, ARGS(a), &(fb_attrs){.stop = 8, .step = 1});
        x = add_op(g, FB_OP_ADD, ARGS(c, b), NULL);
        if (i % 100 == 99) close_scope(g, NULL, 0);
    }
    output(g, x, NULL);
    int64_t begin = fb_now_ns();
    g = canonical(g);
    assert_int_equal(g->n_nodes, 25001);
    assert_true(fb_now_ns() - begin < (int64_t)5000000000);
    fb_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dead_and_common), cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_constants),       cmocka_unit_test(test_identity_views),
        cmocka_unit_test(test_merged_views),    cmocka_unit_test(test_scope_keeps_operand),
        cmocka_unit_test(test_loops),           cmocka_unit_test(test_effects),
        cmocka_unit_test(test_varied),          cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests_name("canon", tests, NULL, NULL);
}
