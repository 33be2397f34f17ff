/* The canonicalising pass: each promise of its header, and random graphs, which must compute the same before and after.
 */
#include "graph_help.h"

#include "graph/canon.h"
#include "interp/interp.h"

#include <time.h>

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

/* A NaN that is folded has the sign that the machine gave it; two of them are one constant all the same. */
static void test_nan(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_id zero = add_op(g, FB_OP_CONST, NULL, 0, &(fb_attrs){.dtype = FB_F32});
    static const fb_op ops[] = {FB_OP_DIV, FB_OP_REMAINDER};
    char name[2] = "a";
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        fb_id nan = add_op(g, ops[i], ARGS(zero, zero), NULL), negative = add_op(g, FB_OP_NEG, ARGS(nan), NULL);
        output(g, nan, name);
        name[0]++;
        output(g, negative, name);
        name[0]++;
    }
    g = canonical(g);
    assert_int_equal(count(g, FB_OP_CONST), 1);
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

/* An output that lies otherwise than what is computed, or is a part of it, is a copy: one for all outputs that are it.
 * What lies so already is none, nor is a view of a source, which no kernel makes. */
static void test_outputs_that_are_views(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_id x = add_input(g, "x", FB_F32, SHAPE(3, 4)), y = add_op(g, FB_OP_EXP, ARGS(x), NULL);
    fb_id turned = add_op(g, FB_OP_PERMUTE, ARGS(y), &(fb_attrs){.n_axes = 2, .axes = {1, 0}});
    output(g, turned, "turned");
    output(g, add_op(g, FB_OP_PERMUTE, ARGS(y), &(fb_attrs){.n_axes = 2, .axes = {1, 0}}), "again");
    output(g, add_op(g, FB_OP_SLICE, ARGS(y), &(fb_attrs){.stop = 2, .step = 1}), "part");
    output(g, add_op(g, FB_OP_VIEW, ARGS(y), &(fb_attrs){.shape = SHAPE(12)}), "flat");
    output(g, add_op(g, FB_OP_PERMUTE, ARGS(x), &(fb_attrs){.n_axes = 2, .axes = {1, 0}}), "source");
    g = canonical(g);
    static const fb_op expected[] = {FB_OP_COPY, FB_OP_COPY, FB_OP_COPY, FB_OP_VIEW, FB_OP_PERMUTE};
    for (int i = 0; i < 5; i++) assert_int_equal(fb_node_at(g, g->outputs[i])->op, expected[i]);
    assert_int_equal(g->outputs[0], g->outputs[1]);
    assert_int_not_equal(g->outputs[0], g->outputs[2]);
    assert_int_equal(g->n_nodes, 8); /* x, y, four views, two copies */
    fb_graph_free(g);
}

/* An index_add is no -0, whichever side the zeros stand; another sum may be one. */
static void test_added_to_zeros(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_id x = add_input(g, "x", FB_F32, SHAPE(3, 4)), at = add_input(g, "at", FB_I64, SHAPE(3));
    fb_id sums = add_op(g, FB_OP_SCATTER_ADD, ARGS(x, at), &(fb_attrs){.start = 6});
    fb_id turned = add_op(g, FB_OP_PERMUTE, ARGS(sums), &(fb_attrs){.n_axes = 2, .axes = {1, 0}});
    fb_id zero = add_op(g, FB_OP_CONST, NULL, 0, &(fb_attrs){.dtype = FB_F32});
    fb_id zeros = add_op(g, FB_OP_EXPAND, ARGS(zero), &(fb_attrs){.shape = SHAPE(4, 6)});
    output(g, add_op(g, FB_OP_ADD, ARGS(zeros, turned), NULL), "after");
    output(g, add_op(g, FB_OP_ADD, ARGS(sums, zero), NULL), "before");
    output(g, add_op(g, FB_OP_ADD, ARGS(x, zero), NULL), "other");
    output(g, add_op(g, FB_OP_ADD, ARGS(sums, sums), NULL), "twice");
    g = canonical(g);
    const fb_node *copy = fb_node_at(g, g->outputs[0]);
    assert_int_equal(copy->op, FB_OP_COPY);
    assert_int_equal(fb_node_at(g, copy->args[0])->op, FB_OP_PERMUTE);
    assert_int_equal(fb_node_at(g, g->outputs[1])->op, FB_OP_SCATTER_ADD);
    assert_int_equal(fb_node_at(g, g->outputs[2])->op, FB_OP_ADD);
    assert_int_equal(fb_node_at(g, g->outputs[3])->op, FB_OP_ADD);
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
    clock_t begin = clock(); /* of this process alone: others may keep the machine busy */
    g = canonical(g);
    assert_int_equal(g->n_nodes, 25001);
    assert_true(clock() - begin < 5 * CLOCKS_PER_SEC);
    fb_graph_free(g);
}

/* ---- random graphs compute the same before and after ---- */

static uint64_t random_state;

static int draw(int n)
{
    random_state = fb_splitmix64(random_state);
    return (int)(random_state % (uint64_t)n);
}

/* All of shape [4,6], so that anything goes with anything. */
static fb_id random_node(fb_graph *g, const fb_id *all, int n)
{
    static const fb_op unary[] = {FB_OP_TANH, FB_OP_NEG, FB_OP_RELU, FB_OP_ABS};
    static const fb_op binary[] = {FB_OP_ADD, FB_OP_MUL, FB_OP_MAXIMUM, FB_OP_SUB};
    fb_id a = all[draw(n)], b = all[draw(n)];
    fb_attrs at = {0};
    switch (draw(8)) {
    case 0: return add_op(g, unary[draw(4)], ARGS(a), NULL);
    case 1: return add_op(g, binary[draw(4)], ARGS(a, b), NULL);
    case 2:
        at = (fb_attrs){.n_axes = 2, .axes = {draw(2)}};
        at.axes[1] = !at.axes[0];
        a = add_op(g, FB_OP_PERMUTE, ARGS(a), &at);
        at.axes[0] = draw(2);
        at.axes[1] = !at.axes[0];
        a = add_op(g, FB_OP_PERMUTE, ARGS(a), &at);
        return add_op(g, FB_OP_VIEW, ARGS(a), &(fb_attrs){.shape = SHAPE(4, 6)});
    case 3: return add_op(g, FB_OP_FLIP, ARGS(a), &(fb_attrs){.n_axes = 1 + draw(2), .axes = {0, 1}});
    case 4: {
        int before = draw(3), from = draw(before + 1);
        a = add_op(g, FB_OP_PAD, ARGS(a), &(fb_attrs){.before = {0, before}, .value = draw(2)});
        a = add_op(g, FB_OP_PAD, ARGS(a), &(fb_attrs){.after = {0, 2}, .value = draw(2)});
        return add_op(g, FB_OP_SLICE, ARGS(a), &(fb_attrs){.dim = 1, .start = from, .stop = from + 6, .step = 1});
    }
    case 5: {
        fb_id c = add_op(g, binary[draw(4)], ARGS(add_const(g, FB_F32, draw(3)), add_const(g, FB_F32, 0.1)), NULL);
        return add_op(g, FB_OP_MUL, ARGS(a, c), NULL);
    }
    case 6: {
        a = add_op(g, FB_OP_CAT, ARGS(a, b, a), &(fb_attrs){.dim = 0});
        int start = draw(3), step = 1 + draw(2);
        a = add_op(g, FB_OP_SLICE, ARGS(a), &(fb_attrs){.start = start, .stop = 11, .step = step});
        return add_op(g, FB_OP_SLICE, ARGS(a), &(fb_attrs){.start = 0, .stop = 4, .step = 1});
    }
    default:
        a = add_op(g, FB_OP_SUM, ARGS(a), &(fb_attrs){.n_axes = 1, .axes = {draw(2)}, .keepdim = true});
        return add_op(g, FB_OP_EXPAND, ARGS(a), &(fb_attrs){.shape = SHAPE(4, 6)});
    }
}

static void expect_same_values(const fb_graph *a, const fb_graph *b)
{
    fb_error err = {0};
    fb_interp_options options = {.seed = 5};
    fb_interp *x = fb_interp_run(a, &options, NULL, 0, &err), *y = fb_interp_run(b, &options, NULL, 0, &err);
    if (!x || !y) fail_msg("%s", err.text);
    for (int i = 0; i < a->n_outputs; i++) {
        const fb_tensor *s = fb_interp_get(x, a->outputs[i]), *t = fb_interp_get(y, b->outputs[i]);
        assert_non_null(s);
        assert_non_null(t);
        assert_int_equal(s->n, t->n);
        /* Folded constants are rounded to f32, the interpreter's are not. */
        for (int64_t k = 0; k < s->n; k++) assert_true(fabs(s->v[k] - t->v[k]) <= 1e-4 * (1 + fabs(s->v[k])));
    }
    fb_interp_free(x);
    fb_interp_free(y);
}

static void test_random(void **state)
{
    (void)state;
    enum { NODES = 24, OUTPUTS = 4 };
    for (uint64_t seed = 0; seed < 300; seed++) {
        random_state = seed;
        fb_error err = {0};
        fb_graph *g = fb_graph_new("");
        fb_id all[NODES + 1] = {add_input(g, "x", FB_F32, SHAPE(4, 6))};
        for (int i = 1; i <= NODES; i++) {
            if (i % 6 == 1) open_scope(g, "part", FB_NONE, draw(2) ? "op" : NULL, NULL, 0);
            all[i] = random_node(g, all, i);
            if (i % 6 == 0) close_scope(g, NULL, 0);
        }
        for (int i = 0; i < OUTPUTS; i++) output(g, all[NODES - 5 * i], NULL);
        finish(g);
        fb_graph *c = fb_graph_canonical(g, &err);
        if (!c) fail_msg("%s", err.text);
        expect_same_values(g, c);
        fb_graph *again = fb_graph_canonical(c, &err);
        assert_true(fb_hash_equal(again->hash, c->hash));
        fb_graph_free(again);
        fb_graph_free(c);
        fb_graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dead_and_common),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_identity_views),
        cmocka_unit_test(test_outputs_that_are_views),
        cmocka_unit_test(test_added_to_zeros),
        cmocka_unit_test(test_merged_views),
        cmocka_unit_test(test_scope_keeps_operand),
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_effects),
        cmocka_unit_test(test_varied),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_nan),
    };
    return cmocka_run_group_tests_name("canon", tests, NULL, NULL);
}
