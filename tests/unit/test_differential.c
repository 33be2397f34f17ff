/* Random small graphs under random legal plans, generated, compiled and run, against the interpreter: some of `fusebox
 * fuzz`, whose generator this is, with seeds that are the same every day. Then what it found once, and how it makes
 * failures small. FB_SEED and FB_COUNT give other graphs; without them FB_TURN (turn.h) takes a third. */
#include "base/mem.h"
#include "decide/preset.h"
#include "graph/canon.h"
#include "judge/legality.h"
#include "measure/fuzz.h"
#include "own_cache.h"
#include "scratch.h"
#include "turn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static fb_device *device(void)
{
    fb_error err = {0};
    fb_device *d = fb_device_open("host", &err);
    if (!d) fail_msg("%s", err.text);
    return d;
}

static void random_graphs_under_random_plans(void **state)
{
    (void)state;
    enum { AT_ONCE = 20, PLANS = 3 };
    const char *seed = getenv("FB_SEED"), *count = getenv("FB_COUNT");
    int left = count ? atoi(count) : 60;
    uint64_t first = seed ? strtoull(seed, NULL, 10) : 1;
    fb_device *d = device();
    fb_fuzz_board *board = fb_calloc(1, sizeof *board);
    for (unsigned round = 0; left > 0; left -= AT_ONCE, first += AT_ONCE, round++)
        if (seed || count || turn_is(round, 1))
            fb_fuzz_round(d, first, left < AT_ONCE ? left : AT_ONCE, PLANS, FB_NONE, board);
    for (int i = 0; i < board->n_findings; i++) {
        print_error("seed %llu, plan %d: %s\n", (unsigned long long)board->finding[i].seed, board->finding[i].plan,
                    board->finding[i].text);
    }
    assert_int_equal(board->n_findings, 0);
    assert_true(board->elements > 0 && board->undecided * 4 < board->elements);
    assert_true(board->open <= board->undecided && board->open * 20 < board->elements);
    fb_free(board);
    d->ops->close(d);
}

/* ---- what was found once ---- */

static fb_id add(fb_graph *g, fb_op op, int n, const fb_id *args, const fb_attrs *at, const char *name)
{
    fb_error err = {0};
    fb_id id = fb_graph_add(g, op, args, n, at, name, 0, &err);
    if (id == FB_NONE) fail_msg("%s", err.text);
    return id;
}

static fb_id source(fb_graph *g, fb_op op, fb_dtype dtype, int64_t n, const char *name)
{
    fb_attrs at = {.shape = {.rank = 1, .dim = {n}}, .dtype = dtype, .dist = FB_DIST_INTEGER, .high = 9};
    return add(g, op, 0, NULL, &at, name);
}

static fb_graph *canonical(fb_graph *g)
{
    fb_error err = {0};
    fb_graph *c = fb_graph_finish(g, &err) ? fb_graph_canonical(g, &err) : NULL;
    if (!c) fail_msg("%s", err.text);
    fb_graph_free(g);
    return c;
}

/* Runs every preset of the graph together, or `n_edits` edits of `none` one after the other. */
static void check_plans(fb_graph *g, const fb_edit *edits, int n_edits)
{
    fb_error err = {0};
    fb_graph *c = canonical(g);
    fb_device *d = device();
    fb_fuzz_reference *in = fb_fuzz_reference_new(c, &err);
    if (!in) fail_msg("%s", err.text);
    fb_planner *p = fb_planner_new(c, d->ops->machine(d));
    int n = n_edits ? n_edits : fb_presets();
    fb_fuzz_case *cases = fb_calloc((size_t)n, sizeof *cases);
    for (int i = 0; i < n; i++) {
        fb_plan *plan = NULL;
        cases[i].reference = in;
        if (n_edits) {
            fb_plan *none = fb_plan_new(p);
            fb_verdict v = fb_plan_try(i ? cases[i - 1].plan : none, &edits[i], &plan);
            if (!plan) fail_msg("edit %d: %s", i, v.text);
            fb_plan_free(none);
        } else if (!(plan = fb_preset_at(i)->make(p, &err))) {
            fail_msg("%s", err.text);
        }
        cases[i].plan = plan;
    }
    fb_fuzz_run(d, cases, n);
    for (int i = 0; i < n; i++) {
        if (cases[i].result.kind != FB_FUZZ_FINE) fail_msg("plan %d: %s", i, cases[i].result.text);
        assert_true(cases[i].result.elements > 0);
        fb_plan_free((fb_plan *)cases[i].plan);
    }
    fb_free(cases);
    fb_planner_free(p);
    fb_fuzz_reference_free(in);
    d->ops->close(d);
    fb_graph_free(c);
}

static void check_presets(fb_graph *g)
{
    check_plans(g, NULL, 0);
}

static void what_is_received_has_a_buffer(void **state)
{
    (void)state;
    static const fb_op sources[] = {FB_OP_INPUT, FB_OP_PARAM, FB_OP_FEED, FB_OP_RANDOM, FB_OP_IOTA};
    fb_graph *g = fb_graph_new("received");
    for (int i = 0; i < 5; i++) {
        fb_id x = source(g, sources[i], FB_I32, 6, NULL);
        add(g, FB_OP_RECEIVE, 1, &x, NULL, NULL);
        fb_id part = add(g, FB_OP_SLICE, 1, &x, &(fb_attrs){.start = 1, .stop = 5, .step = 2}, NULL);
        add(g, FB_OP_RECEIVE, 1, &part, NULL, NULL);
        fb_id y = add(g, FB_OP_NEG, 1, &part, NULL, NULL);
        add(g, FB_OP_RECEIVE, 1, &y, NULL, NULL);
        /* all of what is received leaves under another name as well */
        fb_id z = add(g, FB_OP_NEG, 1, &x, NULL, NULL);
        add(g, FB_OP_RECEIVE, 1, &z, NULL, NULL);
        fb_error err;
        fb_id view = add(g, FB_OP_VIEW, 1, &z, &(fb_attrs){.shape = fb_shape_of(2, (int64_t[]){2, 3})}, NULL);
        assert_true(fb_graph_output(g, view, NULL, &err));
    }
    check_presets(g);
}

static void parameters_are_handed_round(void **state)
{
    (void)state;
    for (int n = 2; n < 5; n++) {
        fb_graph *g = fb_graph_new("round");
        fb_id p[4], reversed;
        fb_error err;
        for (int i = 0; i < n; i++) p[i] = source(g, FB_OP_PARAM, FB_F32, 5, NULL);
        fb_id sum = add(g, FB_OP_ADD, 2, p, NULL, NULL);
        for (int i = 0; i < n; i++) {
            reversed = add(g, FB_OP_FLIP, 1, &p[(i + 1) % n], &(fb_attrs){.n_axes = 1}, NULL);
            add(g, FB_OP_ASSIGN, 2, (fb_id[]){p[i], i ? reversed : p[1]}, NULL, NULL);
        }
        fb_graph_output(g, sum, NULL, &err);
        check_presets(g);
    }
}

/* Batches from the last to the first, where a library's call has 16-bit operands widened. */
static void batches_run_backwards(void **state)
{
    (void)state;
    for (fb_dtype dtype = FB_F16; dtype <= FB_BF16; dtype++) {
        fb_error err;
        fb_graph *g = fb_graph_new("backwards");
        fb_id x = source(g, FB_OP_INPUT, dtype, 9, NULL), w = source(g, FB_OP_PARAM, dtype, 6, NULL);
        fb_id batches = add(g, FB_OP_VIEW, 1, &x, &(fb_attrs){.shape = fb_shape_of(3, (int64_t[]){3, 1, 3})}, NULL);
        fb_id turned = add(g, FB_OP_FLIP, 1, &batches, &(fb_attrs){.n_axes = 2, .axes = {0, 1}}, NULL);
        fb_id right = add(g, FB_OP_VIEW, 1, &w, &(fb_attrs){.shape = fb_shape_of(2, (int64_t[]){3, 2})}, NULL);
        fb_id y = add(g, FB_OP_MATMUL, 2, (fb_id[]){turned, right}, NULL, NULL);
        assert_true(fb_graph_output(g, y, NULL, &err));
        check_presets(g);
    }
}

static void an_empty_parameter_is_assigned(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("empty");
    fb_id p = source(g, FB_OP_PARAM, FB_F32, 0, "p"), x = source(g, FB_OP_INPUT, FB_F32, 3, "x");
    fb_id turned = add(g, FB_OP_FLIP, 1, &p, &(fb_attrs){.n_axes = 1}, NULL);
    add(g, FB_OP_ASSIGN, 2, (fb_id[]){p, turned}, NULL, NULL);
    add(g, FB_OP_RECEIVE, 1, &x, NULL, NULL);
    check_presets(g);
    g = fb_graph_new("empty round");
    p = source(g, FB_OP_PARAM, FB_F32, 0, "p"), x = source(g, FB_OP_INPUT, FB_F32, 3, "x");
    fb_id q = source(g, FB_OP_PARAM, FB_F32, 0, "q");
    add(g, FB_OP_ASSIGN, 2, (fb_id[]){p, q}, NULL, NULL);
    add(g, FB_OP_ASSIGN, 2, (fb_id[]){q, p}, NULL, NULL);
    add(g, FB_OP_RECEIVE, 1, &x, NULL, NULL);
    check_presets(g);
}

static void an_updated_parameter_is_read_again_before(void **state)
{
    (void)state;
    fb_error err;
    fb_graph *g = fb_graph_new("again");
    fb_id p = source(g, FB_OP_PARAM, FB_I32, 7, "p");
    fb_id u = add(g, FB_OP_BITWISE_NOT, 1, &p, NULL, "u");
    fb_id y = add(g, FB_OP_BITWISE_OR, 2, (fb_id[]){u, u}, NULL, "y");
    fb_id updated = add(g, FB_OP_ASSIGN, 2, (fb_id[]){p, u}, NULL, NULL);
    fb_id z = add(g, FB_OP_NEG, 1, &y, NULL, "z");
    fb_graph_output(g, z, NULL, &err);
    check_plans(g,
                (fb_edit[]){{.kind = FB_EDIT_FUSE_ALL, .n_nodes = 2, .nodes = (fb_id[]){y, z}},
                            {.kind = FB_EDIT_RECOMPUTE, .a = u},
                            {.kind = FB_EDIT_ISOLATE, .a = updated}},
                3);
    /* u and v each computed again in the other's update: in no order do both read what was there */
    g = fb_graph_new("crossed");
    fb_id a = source(g, FB_OP_PARAM, FB_F32, 7, "a"), b = source(g, FB_OP_PARAM, FB_F32, 7, "b");
    fb_id of_a = add(g, FB_OP_NEG, 1, &a, NULL, NULL), of_b = add(g, FB_OP_RELU, 1, &b, NULL, NULL);
    add(g, FB_OP_ASSIGN, 2, (fb_id[]){a, of_b}, NULL, NULL);
    add(g, FB_OP_ASSIGN, 2, (fb_id[]){b, of_a}, NULL, NULL);
    fb_graph_output(g, add(g, FB_OP_ADD, 2, (fb_id[]){of_a, of_b}, NULL, NULL), NULL, &err);
    check_presets(g);
    /* the same with each the other's update alone to be part of */
    g = fb_graph_new("crossed once");
    a = source(g, FB_OP_PARAM, FB_F32, 7, "a"), b = source(g, FB_OP_PARAM, FB_F32, 7, "b");
    of_a = add(g, FB_OP_NEG, 1, &a, NULL, NULL), of_b = add(g, FB_OP_RELU, 1, &b, NULL, NULL);
    add(g, FB_OP_ASSIGN, 2, (fb_id[]){a, of_b}, NULL, NULL);
    add(g, FB_OP_ASSIGN, 2, (fb_id[]){b, of_a}, NULL, NULL);
    check_presets(g);
}

static void check_running(fb_op op)
{
    fb_error err;
    fb_graph *g = fb_graph_new("running");
    fb_attrs at = {.shape = {.rank = 2, .dim = {9, 3}}, .dtype = FB_F32, .dist = FB_DIST_UNIFORM, .high = 1};
    fb_id x = add(g, FB_OP_INPUT, 0, NULL, &at, "x");
    at.shape.dim[0] = 3, at.shape.dim[1] = 5;
    fb_id w = add(g, FB_OP_INPUT, 0, NULL, &at, "w");
    fb_id before = add(g, op, 1, &x, &(fb_attrs){.dim = 0}, NULL);
    fb_id y = add(g, FB_OP_MATMUL, 2, (fb_id[]){before, w}, NULL, NULL);
    fb_graph_output(g, add(g, op, 1, &y, &(fb_attrs){.dim = 0}, NULL), NULL, &err);
    check_presets(g);
}

static void running_values_over_blocks_of_rows_are_stored(void **state)
{
    (void)state;
    check_running(FB_OP_CUMSUM);
    check_running(FB_OP_CUMPROD);
}

static fb_id matrix(fb_graph *g, fb_op op, int64_t rows, int64_t columns, const char *name)
{
    fb_attrs at = {
        .shape = {.rank = 2, .dim = {rows, columns}}, .dtype = FB_F32, .dist = FB_DIST_UNIFORM, .value = -1, .high = 1};
    return add(g, op, 0, NULL, &at, name);
}

static void rows_without_columns_have_an_epilogue(void **state)
{
    (void)state;
    for (int64_t rows = 1; rows < 5; rows += 3) {
        fb_error err;
        fb_graph *g = fb_graph_new("columns");
        fb_id x = matrix(g, FB_OP_INPUT, rows, 3, "x"), w = matrix(g, FB_OP_PARAM, 3, 0, "w");
        fb_id z = matrix(g, FB_OP_INPUT, rows, 5, "z");
        fb_id y = add(g, FB_OP_MATMUL, 2, (fb_id[]){x, w}, NULL, NULL), after = add(g, FB_OP_TANH, 1, &z, NULL, NULL);
        fb_graph_output(g, y, NULL, &err);
        fb_graph_output(g, after, NULL, &err);
        check_plans(g,
                    (fb_edit[]){{.kind = FB_EDIT_LIBRARY, .a = y},
                                {.kind = FB_EDIT_FUSE_ALL, .n_nodes = 2, .nodes = (fb_id[]){y, after}}},
                    2);
    }
}

/* -0.3 as an integer is 0, and that as a float is 0, not -0: one over it is above all numbers. */
static void small_negative_numbers_become_whole(void **state)
{
    (void)state;
    static const fb_dtype wholes[] = {FB_I32, FB_I64}, floats[] = {FB_F32, FB_F64};
    for (int i = 0; i < 4; i++) {
        fb_error err;
        fb_graph *g = fb_graph_new("whole");
        fb_attrs at = {.shape = {.rank = 1, .dim = {40}}, .dtype = floats[i / 2], .dist = FB_DIST_UNIFORM, .value = -1};
        fb_id x = add(g, FB_OP_INPUT, 0, NULL, &at, "x");
        fb_id whole = add(g, FB_OP_CAST, 1, &x, &(fb_attrs){.dtype = wholes[i % 2]}, NULL);
        fb_id back = add(g, FB_OP_CAST, 1, &whole, &(fb_attrs){.dtype = floats[i / 2]}, NULL);
        fb_graph_output(g, add(g, FB_OP_RECIP, 1, &back, NULL, NULL), NULL, &err);
        check_presets(g);
    }
}

/* Parts of a join are written in place, unless it is what a loop starts from; a sum over rows starts one as it is, and
 * not made again. */
static void loops_start_from_memory(void **state)
{
    (void)state;
    fb_error err;
    for (int scattered = 0; scattered < 2; scattered++) {
        fb_graph *g = fb_graph_new("start");
        fb_id x = matrix(g, FB_OP_INPUT, 3, 4, "x"), y = add(g, FB_OP_SIN, 1, &x, NULL, "y"), carried, none;
        fb_attrs rows = {.shape = {.rank = 1, .dim = {3}}, .dtype = FB_I64, .dist = FB_DIST_INTEGER, .high = 6};
        fb_id first = scattered ? add(g, FB_OP_SCATTER_ADD, 2, (fb_id[]){y, add(g, FB_OP_INPUT, 0, NULL, &rows, "i")},
                                      &(fb_attrs){.start = 6}, NULL)
                                : add(g, FB_OP_CAT, 2, (fb_id[]){x, y}, &(fb_attrs){.dim = 0}, NULL);
        assert_true(fb_graph_region_open(g, 3, &first, 1, NULL, 0, &carried, NULL, 0, &err) != FB_NONE);
        fb_id next = add(g, FB_OP_TANH, 1, &carried, NULL, NULL);
        fb_id loop = fb_graph_region_close(g, &next, &none, 0, &err);
        fb_graph_output(g, add(g, FB_OP_RESULT, 1, &loop, &(fb_attrs){0}, NULL), NULL, &err);
        if (scattered)
            check_plans(g, (fb_edit[]){{.kind = FB_EDIT_RECOMPUTE, .a = y}}, 1);
        else
            check_presets(g);
    }
}

/* A pad reads a sum inside a loop of its own: the test of that loop is none of the sum's, which is there before; also
 * where both loops are of one length. */
static void sums_are_read_under_tests_of_another_loop(void **state)
{
    (void)state;
    for (int64_t rows = 2; rows < 4; rows++) {
        fb_error err;
        fb_graph *g = fb_graph_new("padded");
        fb_attrs at = {.shape = {.rank = 3, .dim = {rows, rows == 2 ? 2 : 1, 4}},
                       .dtype = FB_F32,
                       .dist = FB_DIST_UNIFORM,
                       .high = 1};
        fb_id x = add(g, FB_OP_INPUT, 0, NULL, &at, "x");
        fb_id sum = add(g, FB_OP_SUM, 1, &x, &(fb_attrs){.n_axes = 2, .axes = {0, 1}, .keepdim = true}, NULL);
        fb_id size = add(g, FB_OP_ABS, 1, &sum, NULL, NULL);
        fb_id first = add(g, FB_OP_SLICE, 1, &size, &(fb_attrs){.dim = 2, .stop = 1, .step = 1}, NULL);
        fb_id pad = add(g, FB_OP_PAD, 1, &first, &(fb_attrs){.before = {1, 1, 1}, .after = {0, 1, 0}}, NULL);
        fb_id flat = add(g, FB_OP_VIEW, 1, &pad, &(fb_attrs){.shape = {.rank = 1, .dim = {12}}}, NULL);
        fb_id y = add(g, FB_OP_CLAMP, 1, &flat, &(fb_attrs){.value = -1.5, .high = 2}, NULL);
        fb_graph_output(g, y, NULL, &err);
        check_plans(g, (fb_edit[]){{.kind = FB_EDIT_FUSE_ALL, .n_nodes = 3, .nodes = (fb_id[]){sum, size, y}}}, 1);
    }
}

/* ---- making failures small ---- */

typedef struct {
    int calls;
} wanted;

/* "Fails" while an exponential shares a kernel with a sum. */
static bool still_there(void *ctx, const fb_graph *g, const json_t *plan)
{
    ((wanted *)ctx)->calls++;
    fb_error err;
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_HOST);
    fb_planner *p = fb_planner_new(g, &m);
    fb_plan *made = fb_plan_from_json(p, plan, true, NULL, &err);
    if (!made) fail_msg("%s", err.text);
    bool there = false;
    for (fb_id i = 0; i < g->n_nodes; i++)
        for (fb_id k = 0; k < g->n_nodes; k++)
            there |= g->nodes[i].op == FB_OP_EXP && g->nodes[k].op == FB_OP_SUM &&
                     fb_plan_group_of(made, i) != FB_NONE && fb_plan_group_of(made, i) == fb_plan_group_of(made, k);
    fb_plan_free(made);
    fb_planner_free(p);
    return there;
}

static void failures_become_small(void **state)
{
    (void)state;
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_HOST);
    int tried = 0;
    for (uint64_t seed = 1; seed < 2000 && tried < 3; seed++) {
        fb_error err;
        wanted w = {0};
        fb_graph *g = fb_fuzz_graph(seed, &err);
        fb_planner *p = fb_planner_new(g, &m);
        fb_plan *plan = fb_preset_find("max")->make(p, &err);
        json_t *json = fb_plan_to_json(plan);
        fb_plan_free(plan);
        fb_planner_free(p);
        if (g->n_nodes > 15 && g->n_regions == 1 && still_there(&w, g, json)) {
            tried++;
            w.calls = 0;
            fb_fuzz_shrink(&g, &json, &m, 1000, still_there, &w);
            assert_true(still_there(&w, g, json));
            assert_true(w.calls <= 1001);
            assert_in_range(g->n_nodes, 3, 9);
            for (fb_id i = 0; i < g->n_nodes; i++) assert_true(fb_shape_elements(&g->nodes[i].shape) <= 64);
        }
        json_decref(json);
        fb_graph_free(g);
    }
    assert_int_equal(tried, 3);
}

/* Of one seed in four: as many outputs, of the same shapes, made of other nodes. */
static void a_twin_is_another_graph(void **state)
{
    (void)state;
    fb_error err;
    int twins = 0, larger = 0;
    for (uint64_t seed = 1; seed < 400; seed++) {
        fb_graph *a = fb_fuzz_graph_of(seed, 0, &err), *b = fb_fuzz_graph_of(seed, 1, &err);
        if (!a || !b) fail_msg("%s", err.text);
        assert_int_equal(a->n_outputs, b->n_outputs);
        for (int k = 0; k < a->n_outputs; k++) {
            const fb_node *x = &a->nodes[a->outputs[k]], *y = &b->nodes[b->outputs[k]];
            assert_true(fb_shape_equal(&x->shape, &y->shape) && x->dtype == y->dtype);
        }
        twins += !fb_hash_equal(a->hash, b->hash);
        larger += b->n_nodes > a->n_nodes + 4;
        fb_graph_free(a);
        fb_graph_free(b);
    }
    assert_in_range(twins, 80, 100);
    assert_true(larger > 60);
}

/* Graphs with more than a kernel may hold, and what no plan may be: a verdict of each rule comes of a few hundred
 * plans. */
static void every_rule_is_met(void **state)
{
    (void)state;
    fb_error err;
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_HOST);
    int vast = 0, plans = 0;
    int64_t odd = fb_verdict_made(FB_VERDICT_ILLEGAL, FB_RULE_KNOB);
    for (uint64_t seed = 1; seed < 6000 && vast < 8; seed++) {
        fb_graph *g = fb_fuzz_graph(seed, &err);
        bool large = g->n_nodes > 600;
        if (large || plans < 600) {
            fb_planner *p = fb_planner_new(g, &m);
            for (int k = 0; k < (large ? 2 : 4); k++, plans++) fb_plan_free(fb_fuzz_plan(p, seed, k));
            fb_planner_free(p);
        }
        vast += large;
        fb_graph_free(g);
    }
    assert_int_equal(vast, 8);
    assert_true(fb_verdict_made(FB_VERDICT_ILLEGAL, FB_RULE_KNOB) > odd);
    for (int r = FB_RULE_NONE + 1; r < FB_RULES; r++) {
        int64_t made = 0;
        for (int k = 0; k <= FB_VERDICT_ILLEGAL; k++) made += fb_verdict_made((fb_verdict_kind)k, (fb_rule)r);
        if (!made) fail_msg("no plan of %d met the rule \"%s\"", plans, fb_rule_get((fb_rule)r)->name);
    }
}

static void a_seed_is_a_graph_and_a_plan(void **state)
{
    (void)state;
    fb_error err;
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_HOST);
    bool ops[FB_OPS] = {false}, dtypes[FB_DTYPES] = {false};
    for (uint64_t seed = 1; seed < 1000; seed++) {
        fb_graph *a = fb_fuzz_graph(seed, &err), *b = fb_fuzz_graph(seed, &err);
        assert_non_null(a);
        assert_true(fb_hash_equal(a->hash, b->hash));
        for (fb_id i = 0; i < a->n_nodes; i++) ops[a->nodes[i].op] = dtypes[a->nodes[i].dtype] = true;
        if (seed < 40) {
            fb_planner *p = fb_planner_new(a, &m), *q = fb_planner_new(b, &m);
            for (int k = 0; k < 4; k++) {
                fb_plan *x = fb_fuzz_plan(p, seed, k), *y = fb_fuzz_plan(q, seed, k);
                assert_true(fb_hash_equal(fb_plan_hash(x), fb_plan_hash(y)));
                json_t *json = fb_plan_to_json(x);
                fb_plan *again = fb_plan_from_json(p, json, true, NULL, &err);
                if (!again) fail_msg("seed %d, plan %d: %s", (int)seed, k, err.text);
                json_decref(json);
                fb_plan_free(again);
                fb_plan_free(x);
                fb_plan_free(y);
            }
            fb_planner_free(p);
            fb_planner_free(q);
        }
        fb_graph_free(a);
        fb_graph_free(b);
    }
    for (int i = 0; i < FB_OPS; i++)
        if (!ops[i]) fail_msg("no %s in any graph", fb_op_get((fb_op)i)->name);
    for (int i = 0; i < FB_DTYPES; i++) assert_true(dtypes[i]);
}

static int set_up(void **state)
{
    if (make_scratch(state) != 0) return -1;
    own_cache(scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_under_random_plans),
        cmocka_unit_test(what_is_received_has_a_buffer),
        cmocka_unit_test(batches_run_backwards),
        cmocka_unit_test(parameters_are_handed_round),
        cmocka_unit_test(an_empty_parameter_is_assigned),
        cmocka_unit_test(an_updated_parameter_is_read_again_before),
        cmocka_unit_test(running_values_over_blocks_of_rows_are_stored),
        cmocka_unit_test(rows_without_columns_have_an_epilogue),
        cmocka_unit_test(loops_start_from_memory),
        cmocka_unit_test(sums_are_read_under_tests_of_another_loop),
        cmocka_unit_test(small_negative_numbers_become_whole),
        cmocka_unit_test(failures_become_small),
        cmocka_unit_test(a_seed_is_a_graph_and_a_plan),
        cmocka_unit_test(every_rule_is_met),
        cmocka_unit_test(a_twin_is_another_graph),
    };
    return cmocka_run_group_tests_name("differential", tests, set_up, remove_scratch);
}
