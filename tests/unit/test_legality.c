/* One test for each rule that an edit may break; judge/legality.c names them. */
#include "plan_help.h"

#include "judge/legality.h"
#include "judge/parts.h"

typedef struct {
    fb_graph *g;
    fb_planner *p;
    fb_plan *plan;
} bench;

static bench bench_on(fb_graph *g, fb_device_kind kind)
{
    bench b = {.g = g, .p = planner_of(g, kind)};
    b.plan = fb_plan_new(b.p);
    check_plan(b.plan);
    return b;
}

static bench bench_of(fb_graph *g)
{
    return bench_on(g, FB_DEVICE_HOST);
}

static void bench_free(bench *b)
{
    fb_plan_free(b->plan);
    fb_planner_free(b->p);
    fb_graph_free(b->g);
}

static fb_edit edit_of(const bench *b, fb_edit_kind kind, const char *a, const char *c)
{
    return (fb_edit){.kind = kind, .a = named(b->g, a), .b = c ? named(b->g, c) : FB_NONE};
}

static bool seen[FB_RULES]; /* rules that some test has made speak */

/* Tries an edit that must be refused with this rule, in these words among others, and neither kept nor changed. */
static void refused_saying(const bench *b, fb_edit e, fb_verdict_kind kind, fb_rule rule, const char *words)
{
    fb_plan *result = NULL;
    fb_verdict v = fb_plan_try(b->plan, &e, &result);
    if (!strstr(v.text, words)) fail_msg("not \"%s\" but: %s", words, v.text);
    if (v.kind != kind || v.rule != rule) fail_msg("%s, rule %d: %s", fb_verdict_kind_name(v.kind), v.rule, v.text);
    assert_null(result);
    assert_true(strlen(v.text) > 10);
    seen[rule] = true;
}

static void refused(const bench *b, fb_edit e, fb_verdict_kind kind, fb_rule rule)
{
    refused_saying(b, e, kind, rule, "");
}

/* Makes an edit that must be fine. */
static void apply(bench *b, fb_edit e)
{
    fb_plan *result = NULL;
    fb_verdict v = fb_plan_try(b->plan, &e, &result);
    if (!result) fail_msg("%s", v.text);
    fb_plan_free(b->plan);
    b->plan = result;
    check_plan(b->plan);
}

/* x → relu → tanh → exp */
static fb_graph *three(void)
{
    fb_graph *g = fb_graph_new("three");
    output(g,
           node1(g, FB_OP_EXP, "c", node1(g, FB_OP_TANH, "b", node1(g, FB_OP_RELU, "a", input(g, "x", DIMS(64, 64))))));
    return finish(g);
}

static void same_group(void **state)
{
    (void)state;
    bench b = bench_of(three());
    apply(&b, edit_of(&b, FB_EDIT_FUSE, "a", "b"));
    fb_edit again[] = {edit_of(&b, FB_EDIT_FUSE, "a", "b"), edit_of(&b, FB_EDIT_CUT, "b", "c"),
                       edit_of(&b, FB_EDIT_STORE, "a", NULL), edit_of(&b, FB_EDIT_ISOLATE, "c", NULL)};
    for (int i = 0; i < 4; i++) {
        fb_verdict v = fb_plan_try(b.plan, &again[i], NULL);
        assert_int_equal(v.kind, FB_VERDICT_FINE);
        assert_int_equal(v.rule, FB_RULE_SAME_GROUP);
        seen[v.rule] = true;
    }
    bench_free(&b);
}

static void not_computed(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("view");
    fb_id x = input(g, "x", DIMS(64, 64));
    output(g, node1(g, FB_OP_RELU, "b", transpose(g, node1(g, FB_OP_TANH, "a", x))));
    bench b = bench_of(finish(g));
    refused(&b, edit_of(&b, FB_EDIT_FUSE, "x", "a"), FB_VERDICT_ILLEGAL, FB_RULE_NOT_COMPUTED);
    refused(&b, edit_of(&b, FB_EDIT_FUSE, "permute", "b"), FB_VERDICT_ILLEGAL, FB_RULE_NOT_COMPUTED);
    refused(&b, edit_of(&b, FB_EDIT_RECOMPUTE, "x", NULL), FB_VERDICT_ILLEGAL, FB_RULE_NOT_COMPUTED);
    refused(&b, (fb_edit){.kind = FB_EDIT_ISOLATE, .a = 1 << 19}, FB_VERDICT_ILLEGAL, FB_RULE_NOT_COMPUTED);
    bench_free(&b);
}

static void no_edge(void **state)
{
    (void)state;
    bench b = bench_of(three());
    refused(&b, edit_of(&b, FB_EDIT_CUT, "a", "c"), FB_VERDICT_ILLEGAL, FB_RULE_NO_EDGE);
    bench_free(&b);
}

static void cycle(void **state)
{
    (void)state;
    bench b = bench_of(three());
    refused(&b, edit_of(&b, FB_EDIT_FUSE, "a", "c"), FB_VERDICT_ILLEGAL, FB_RULE_CYCLE);
    refused(&b, edit_of(&b, FB_EDIT_FUSE, "c", "a"), FB_VERDICT_ILLEGAL, FB_RULE_CYCLE);
    /* With b recomputed inside it, the kernel of a and c needs nobody in between; storing b would bring the cycle back.
     */
    apply(&b, edit_of(&b, FB_EDIT_RECOMPUTE, "b", NULL));
    apply(&b, edit_of(&b, FB_EDIT_FUSE, "a", "c"));
    refused(&b, edit_of(&b, FB_EDIT_STORE, "b", NULL), FB_VERDICT_ILLEGAL, FB_RULE_CYCLE);
    bench_free(&b);
}

static void region(void **state)
{
    (void)state;
    fb_error err = {0};
    fb_graph *g = fb_graph_new("loop");
    fb_id x = input(g, "x", DIMS(8, 8)), before = node1(g, FB_OP_TANH, "before", x), carried, stacked = FB_NONE;
    assert_true(fb_graph_region_open(g, 4, &before, 1, NULL, 0, &carried, NULL, 0, &err) != FB_NONE);
    fb_id inside = node2(g, FB_OP_MUL, "inside", carried, carried), yield = node2(g, FB_OP_ADD, "yield", inside, x);
    fb_id loop = fb_graph_region_close(g, &yield, &stacked, 0, &err);
    fb_id result = add_node(g, FB_OP_RESULT, "result", &(fb_attrs){.index = 0}, 1, &loop);
    output(g, node2(g, FB_OP_ADD, "after", node1(g, FB_OP_RELU, "shown", result), before));
    bench b = {.g = finish(g)};
    b.p = planner_of(b.g, FB_DEVICE_HOST);
    b.plan = fb_plan_new(b.p);
    refused_saying(&b, edit_of(&b, FB_EDIT_FUSE, "before", "inside"), FB_VERDICT_ILLEGAL, FB_RULE_REGION,
                   "one runs 1 time, the other 4");
    refused(&b, edit_of(&b, FB_EDIT_FUSE, "inside", "after"), FB_VERDICT_ILLEGAL, FB_RULE_REGION);
    /* The loop itself lies between, though no kernel of the outer region does. */
    refused(&b, edit_of(&b, FB_EDIT_FUSE, "before", "shown"), FB_VERDICT_ILLEGAL, FB_RULE_CYCLE);
    for (fb_id i = 0; i < b.g->n_nodes; i++) {
        fb_verdict why = {0};
        if (fb_node_class(b.g, i) != FB_CLASS_CONTROL) continue;
        assert_false(fb_may_own(b.p, i, &why));
        assert_non_null(strstr(why.text, "is a loop: its body's nodes are fused, not the loop"));
    }
    apply(&b, edit_of(&b, FB_EDIT_FUSE, "inside", "yield"));
    assert_true(fb_plan_group_of(b.plan, named(b.g, "before")) < fb_plan_group_of(b.plan, named(b.g, "inside")));
    assert_true(fb_plan_group_of(b.plan, named(b.g, "inside")) < fb_plan_group_of(b.plan, named(b.g, "shown")));
    bench_free(&b);
}

static void write_after_read(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("update");
    fb_id w = source(g, FB_OP_PARAM, "w", DIMS(64, 64), FB_F32), x = input(g, "x", DIMS(64, 64));
    fb_id step = node2(g, FB_OP_SUB, "step", w, x);
    assign(g, w, step, "update");
    fb_id old = node2(g, FB_OP_MUL, "old", w, step);
    output(g, node1(g, FB_OP_TANH, "shown", old));
    output(g, node2(g, FB_OP_ADD, "turned", x, transpose(g, w)));
    bench b = bench_of(finish(g));
    int update = fb_plan_group_of(b.plan, named(b.g, "update"));
    assert_true(fb_plan_group_of(b.plan, named(b.g, "old")) < update);
    assert_true(fb_plan_group_of(b.plan, named(b.g, "turned")) < update);
    /* `old` reads the old value and needs `step`: it cannot wait for a kernel that also assigns. */
    refused(&b, edit_of(&b, FB_EDIT_FUSE, "step", "update"), FB_VERDICT_ILLEGAL, FB_RULE_WRITE_AFTER_READ);
    /* In one kernel, other elements of w would be read than the one written. */
    refused(&b, edit_of(&b, FB_EDIT_FUSE, "turned", "update"), FB_VERDICT_UNSUPPORTED, FB_RULE_WRITE_AFTER_READ);
    fb_id all[] = {named(b.g, "step"), named(b.g, "old"), named(b.g, "update")};
    apply(&b, (fb_edit){.kind = FB_EDIT_FUSE_ALL, .n_nodes = 3, .nodes = all});
    bench_free(&b);
    /* Blocks of rows, or tiles, of a product would read what others have overwritten. */
    for (int kind = FB_DEVICE_HOST; kind <= FB_DEVICE_CUDA; kind++) {
        g = fb_graph_new("operand");
        w = source(g, FB_OP_PARAM, "w", DIMS(64, 64), FB_F32);
        assign(g, w, node2(g, FB_OP_MATMUL, "product", w, input(g, "x", DIMS(64, 64))), "update");
        b = (bench){.g = finish(g)};
        b.p = planner_of(b.g, (fb_device_kind)kind);
        b.plan = fb_plan_new(b.p);
        if (kind == FB_DEVICE_CUDA) apply(&b, edit_of(&b, FB_EDIT_GENERATE, "product", NULL));
        refused(&b, edit_of(&b, FB_EDIT_FUSE, "product", "update"), FB_VERDICT_UNSUPPORTED, FB_RULE_WRITE_AFTER_READ);
        bench_free(&b);
    }
}

static void reduced_first(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("two axes");
    fb_id x = input(g, "x", DIMS(4096, 4096));
    fb_id most = over_axis(g, FB_OP_AMAX, "most", x, 0, true);
    output(g, over_axis(g, FB_OP_SUM, "total", node2(g, FB_OP_SUB, "below", x, most), 1, false));
    bench b = bench_of(finish(g));
    apply(&b, edit_of(&b, FB_EDIT_FUSE, "below", "total"));
    refused_saying(&b, edit_of(&b, FB_EDIT_FUSE, "most", "below"), FB_VERDICT_UNSUPPORTED, FB_RULE_REDUCED_FIRST,
                   "before its first element, `total` needs all 4096 of `most`: the 67.1 MB that `most` reads");
    bench_free(&b);
}

static void access_map(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("running sum");
    fb_id sum = add_node(g, FB_OP_CUMSUM, "running", &(fb_attrs){.dim = 1}, 1, (fb_id[]){input(g, "x", DIMS(64, 64))});
    fb_id back = add_node(g, FB_OP_FLIP, NULL, &(fb_attrs){.n_axes = 1, .axes = {1}}, 1, &sum);
    output(g, node2(g, FB_OP_ADD, "both", sum, back));
    bench b = bench_of(finish(g));
    refused(&b, edit_of(&b, FB_EDIT_FUSE, "running", "both"), FB_VERDICT_UNSUPPORTED, FB_RULE_ACCESS);
    bench_free(&b);
}

/* A sort reads whole rows: what makes them is stored, and so is it before a row of it is reduced; what is done with an
 * element's own place goes along. */
static void sorted_rows(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("sort");
    fb_id e = node1(g, FB_OP_EXP, "scores", input(g, "x", DIMS(64, 96)));
    fb_id place = add_node(g, FB_OP_RANK, "place", &(fb_attrs){.dim = 1}, 1, &e);
    fb_id most = add_node(g, FB_OP_AMAX, "most", &(fb_attrs){.n_axes = 1, .axes = {1}}, 1, &place);
    output(g, most);
    output(g, node2(g, FB_OP_ADD, "twice", place, place));
    bench b = bench_of(finish(g));
    refused_saying(
        &b, edit_of(&b, FB_EDIT_FUSE, "scores", "place"), FB_VERDICT_UNSUPPORTED, FB_RULE_REDUCED_FIRST,
        "`place` sorts, and reads a whole row of `scores` for each element that it gives: `scores` has to be stored");
    refused(&b, edit_of(&b, FB_EDIT_FUSE, "place", "most"), FB_VERDICT_UNSUPPORTED, FB_RULE_REDUCED_FIRST);
    apply(&b, edit_of(&b, FB_EDIT_FUSE, "place", "twice"));
    bench_free(&b);
}

static void gather(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("scatter");
    fb_id rows = source(g, FB_OP_INPUT, "rows", DIMS(32), FB_I64);
    fb_id sum = add_node(g, FB_OP_SCATTER_ADD, "added", &(fb_attrs){.start = 4}, 2,
                         (fb_id[]){input(g, "x", DIMS(32, 8)), rows});
    fb_id most = add_node(g, FB_OP_AMAX, "most", &(fb_attrs){.n_axes = 1, .axes = {0}}, 1, &sum);
    output(g, node2(g, FB_OP_SUB, "below", sum, most));
    bench b = bench_of(finish(g));
    refused_saying(&b, edit_of(&b, FB_EDIT_FUSE, "added", "most"), FB_VERDICT_UNSUPPORTED, FB_RULE_GATHER,
                   "all 128 B of it must be there before it is read");
    bench_free(&b);
}

/* x [512, 512] → tanh → · w → relu */
static fb_graph *product(fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("product");
    fb_id x = source(g, FB_OP_INPUT, "x", DIMS(512, 512), dtype),
          w = source(g, FB_OP_PARAM, "w", DIMS(512, 512), dtype);
    fb_id y = node2(g, FB_OP_MATMUL, "matmul", node1(g, FB_OP_NEG, "neg", x), w);
    output(g, node1(g, FB_OP_RELU, "relu", y));
    return finish(g);
}

static void contraction(void **state)
{
    (void)state;
    bench b = bench_of(product(FB_F32));
    refused(&b, edit_of(&b, FB_EDIT_LIBRARY, "relu", NULL), FB_VERDICT_ILLEGAL, FB_RULE_CONTRACTION);
    bench_free(&b);
    /* No tile where nothing of it is stored: the last product has no columns; what is read lies in the padding. */
    for (int padded = 0; padded < 2; padded++) {
        fb_graph *g = fb_graph_new("nothing");
        fb_id first = node2(g, FB_OP_MATMUL, "first", input(g, "x", DIMS(7, 8)), input(g, "w", DIMS(8, 4)));
        fb_id around = add_node(g, FB_OP_PAD, NULL, &(fb_attrs){.before = {2}, .value = 1}, 1, &first);
        output(g, padded ? node1(g, FB_OP_TANH, "last", slice(g, around, 0, 0, 2))
                         : node2(g, FB_OP_MATMUL, "last", first, input(g, "u", DIMS(4, 0))));
        b = (bench){.g = finish(g)};
        b.p = planner_of(b.g, FB_DEVICE_CUDA);
        b.plan = fb_plan_new(b.p);
        apply(&b, edit_of(&b, FB_EDIT_GENERATE, "first", NULL));
        apply(&b, edit_of(&b, FB_EDIT_FUSE, "first", "last"));
        const fb_group *group = fb_plan_group(b.plan, fb_plan_group_of(b.plan, named(b.g, "last")));
        assert_int_not_equal(group->family, FB_FAMILY_GEMM);
        bench_free(&b);
    }
}

static void library(void **state)
{
    (void)state;
    bench b = bench_of(product(FB_F32));
    assert_int_equal(fb_plan_group(b.plan, fb_plan_group_of(b.plan, named(b.g, "matmul")))->family, FB_FAMILY_LIBRARY);
    apply(&b, edit_of(&b, FB_EDIT_LIBRARY, "matmul", NULL));
    refused(&b, edit_of(&b, FB_EDIT_FUSE, "neg", "matmul"), FB_VERDICT_UNSUPPORTED, FB_RULE_LIBRARY);
    apply(&b, edit_of(&b, FB_EDIT_FUSE, "matmul", "relu"));
    assert_int_equal(fb_plan_group(b.plan, fb_plan_group_of(b.plan, named(b.g, "matmul")))->family, FB_FAMILY_LIBRARY);
    bench_free(&b);
    /* One stride serves all batches: of two dims both run backwards, or none. */
    for (int both = 0; both < 2; both++) {
        fb_graph *g = fb_graph_new("backwards");
        fb_attrs turned = {.n_axes = 1 + both, .axes = {1, 0}};
        fb_id x = input(g, "x", DIMS(2, 2, 8, 16));
        fb_id y = node2(g, FB_OP_MATMUL, "matmul", add_node(g, FB_OP_FLIP, "turned", &turned, 1, &x),
                        input(g, "w", DIMS(2, 2, 16, 8)));
        output(g, y);
        b = bench_of(finish(g));
        fb_family family = fb_plan_group(b.plan, fb_plan_group_of(b.plan, named(b.g, "matmul")))->family;
        assert_int_equal(family == FB_FAMILY_LIBRARY, both);
        bench_free(&b);
    }
}

/* Too many nodes, and too many tensors. */
static void size(void **state)
{
    (void)state;
    enum { LONG = 4200, MANY = 500 };
    fb_graph *g = fb_graph_new("long");
    fb_id x = input(g, "x", DIMS(16)), y = input(g, "y", DIMS(16));
    for (int i = 0; i < LONG; i++) x = node2(g, i % 2 ? FB_OP_ADD : FB_OP_MUL, NULL, x, y);
    output(g, x);
    bench b = bench_of(finish(g));
    fb_id *all = fb_alloc(LONG * sizeof *all);
    int n = 0;
    for (fb_id i = 0; i < b.g->n_nodes; i++)
        if (fb_node_is_computed(b.g, i)) all[n++] = i;
    refused(&b, (fb_edit){.kind = FB_EDIT_FUSE_ALL, .n_nodes = n, .nodes = all}, FB_VERDICT_UNSUPPORTED, FB_RULE_SIZE);
    fb_verdict why = {0};
    fb_kernel_nodes whole = {.nodes = all, .n_nodes = FB_KERNEL_NODES + 1};
    assert_true(n >= whole.n_nodes);
    assert_false(fb_may_be_kernel(b.p, &whole, &why));
    assert_non_null(strstr(why.text, "4097 nodes; 4096 is the most"));
    apply(&b, (fb_edit){.kind = FB_EDIT_FUSE_ALL, .n_nodes = n / 8, .nodes = all});
    bench_free(&b);

    g = fb_graph_new("many");
    x = input(g, "x0", DIMS(16));
    for (int i = 1; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        x = node2(g, FB_OP_ADD, NULL, x, input(g, name, DIMS(16)));
    }
    output(g, x);
    b = bench_of(finish(g));
    n = 0;
    for (fb_id i = 0; i < b.g->n_nodes; i++)
        if (fb_node_is_computed(b.g, i)) all[n++] = i;
    refused(&b, (fb_edit){.kind = FB_EDIT_FUSE_ALL, .n_nodes = n, .nodes = all}, FB_VERDICT_UNSUPPORTED, FB_RULE_SIZE);
    bench_free(&b);
    fb_free(all);

    g = fb_graph_new("pieces"); /* 20 unlike parts, each beside each */
    fb_id part[20];
    int64_t length = 0;
    for (int i = 0; i < 20; length += 4 + i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        part[i] = input(g, name, DIMS(4 + i));
    }
    x = add_node(g, FB_OP_CAT, "cat", &(fb_attrs){.dim = 0}, 20, part);
    output(g, node2(g, FB_OP_MUL, "mul", view(g, x, DIMS(length, 1)), view(g, x, DIMS(1, length))));
    b = bench_of(finish(g));
    refused(&b, edit_of(&b, FB_EDIT_FUSE, "cat", "mul"), FB_VERDICT_UNSUPPORTED, FB_RULE_SIZE);
    bench_free(&b);
}

static void recompute(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("again");
    fb_id x = input(g, "x", DIMS(64, 64)), w = source(g, FB_OP_PARAM, "w", DIMS(64, 64), FB_F32);
    fb_id sum = over_axis(g, FB_OP_SUM, "sum", x, 1, true), a = node2(g, FB_OP_SUB, "a", x, sum);
    assign(g, w, node1(g, FB_OP_TANH, "t", a), "update");
    output(g, node1(g, FB_OP_EXP, "e", a));
    bench b = bench_of(finish(g));
    refused_saying(&b, edit_of(&b, FB_EDIT_RECOMPUTE, "sum", NULL), FB_VERDICT_ILLEGAL, FB_RULE_RECOMPUTE,
                   "a whole pass over the 16.4 kB of its operands");
    refused(&b, edit_of(&b, FB_EDIT_RECOMPUTE, "update", NULL), FB_VERDICT_ILLEGAL, FB_RULE_RECOMPUTE);
    refused(&b, edit_of(&b, FB_EDIT_RECOMPUTE, "e", NULL), FB_VERDICT_ILLEGAL, FB_RULE_RECOMPUTE);
    apply(&b, edit_of(&b, FB_EDIT_RECOMPUTE, "a", NULL));
    refused(&b, edit_of(&b, FB_EDIT_ISOLATE, "a", NULL), FB_VERDICT_ILLEGAL, FB_RULE_RECOMPUTE);
    bench_free(&b);
}

/* A pool may be computed again by each reader; what it says of one inside another loop. */
static void recompute_pool(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("pool again");
    fb_id at = input(g, "x", DIMS(64, 4096));
    at = add_node(g, FB_OP_UNFOLD, NULL, &(fb_attrs){.dim = 1, .stop = 4, .step = 4}, 1, &at);
    fb_id pool = over_axis(g, FB_OP_AMAX, "pool", at, 2, false);
    output(g, node1(g, FB_OP_TANH, "t", pool));
    output(g, over_axis(g, FB_OP_SUM, "total", pool, 1, false));
    bench b = bench_of(finish(g));
    fb_edit fuse = edit_of(&b, FB_EDIT_FUSE, "pool", "total");
    fb_verdict v = fb_plan_try(b.plan, &fuse, NULL);
    assert_int_equal(v.rule, FB_RULE_NONE);
    if (!strstr(v.text, "`pool` is computed where it is read, of 4 elements each time")) fail_msg("%s", v.text);
    apply(&b, edit_of(&b, FB_EDIT_RECOMPUTE, "pool", NULL));
    assert_true(fb_plan_recomputed(b.plan, named(b.g, "pool")));
    assert_int_equal(fb_plan_groups(b.plan), 2);
    bench_free(&b);
    g = fb_graph_new("long windows");
    at = input(g, "x", DIMS(64, 4096));
    at = add_node(g, FB_OP_UNFOLD, NULL, &(fb_attrs){.dim = 1, .stop = 28, .step = 28}, 1, &at);
    output(g, node1(g, FB_OP_TANH, "t", over_axis(g, FB_OP_AMAX, "pool", at, 2, false)));
    b = bench_of(finish(g));
    refused(&b, edit_of(&b, FB_EDIT_RECOMPUTE, "pool", NULL), FB_VERDICT_ILLEGAL, FB_RULE_RECOMPUTE);
    bench_free(&b);
}

static void knob(void **state)
{
    (void)state;
    bench b = bench_of(three());
    fb_edit e = {.kind = FB_EDIT_KNOB, .a = named(b.g, "b"), .knob = FB_KNOB_TILE_M, .value = 64};
    refused(&b, e, FB_VERDICT_ILLEGAL, FB_RULE_KNOB);
    e.knob = FB_KNOB_VECTOR, e.value = 3;
    refused(&b, e, FB_VERDICT_ILLEGAL, FB_RULE_KNOB);
    e.value = -4;
    refused(&b, e, FB_VERDICT_ILLEGAL, FB_RULE_KNOB);
    e.knob = FB_KNOBS, e.value = 1;
    refused(&b, e, FB_VERDICT_ILLEGAL, FB_RULE_KNOB);
    e.knob = FB_KNOB_VECTOR, e.value = 4;
    apply(&b, e);
    assert_int_equal(fb_plan_group(b.plan, fb_plan_group_of(b.plan, e.a))->knobs.value[FB_KNOB_VECTOR], 4);
    refused(&b, (fb_edit){.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_GRAPH}, FB_VERDICT_UNSUPPORTED, FB_RULE_KNOB);
    refused(&b, (fb_edit){.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_MEGA}, FB_VERDICT_UNSUPPORTED, FB_RULE_KNOB);
    refused_saying(&b, (fb_edit){.kind = FB_EDIT_OVERLAP, .value = 1}, FB_VERDICT_ILLEGAL, FB_RULE_KNOB,
                   "there are no copies to overlap");
    fb_verdict why = {0};
    assert_false(fb_may_launch(fb_planner_machine(b.p), (fb_launch_mode)99, &why));
    assert_string_equal(why.text, "there is no such launch mode");
    bench_free(&b);

    b = bench_on(three(), FB_DEVICE_CUDA);
    e.knob = FB_KNOB_THREADS, e.value = 48;
    refused_saying(&b, e, FB_VERDICT_ILLEGAL, FB_RULE_KNOB, "`threads` is a multiple of 32, not 48");
    e.knob = FB_KNOB_VECTOR, e.value = 16;
    refused_saying(&b, e, FB_VERDICT_ILLEGAL, FB_RULE_KNOB, "at most 16 bytes at once: 4 elements of f32, not 16");
    e.knob = FB_KNOB_GRID, e.value = 1 << 21;
    refused_saying(&b, e, FB_VERDICT_ILLEGAL, FB_RULE_KNOB, "`grid` is from 1 to 1048576");
    bench_free(&b);
}

/* A chain of two products, on a GPU one kernel by itself; and a product in a library's call. */
static void by_itself(void **state)
{
    (void)state;
    fb_verdict why = {0};
    fb_graph *g = fb_graph_new("chain");
    fb_id x = source(g, FB_OP_INPUT, "x", DIMS(64, 32), FB_F16), v = source(g, FB_OP_PARAM, "v", DIMS(32, 64), FB_F16);
    fb_id w = source(g, FB_OP_PARAM, "w", DIMS(64, 32), FB_F16);
    fb_id first = node2(g, FB_OP_MATMUL, "first", x, v);
    output(g, node2(g, FB_OP_MATMUL, "second", node1(g, FB_OP_RELU, "relu", first), w));
    bench b = bench_on(finish(g), FB_DEVICE_CUDA);
    fb_edit file = {.kind = FB_EDIT_SOURCE, .a = named(b.g, "first"), .source = "own.cu"};
    refused_saying(&b, file, FB_VERDICT_UNSUPPORTED, FB_RULE_LIBRARY, "is in a library call, which has no source");
    const fb_edit mega = {.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_MEGA};
    refused_saying(&b, mega, FB_VERDICT_UNSUPPORTED, FB_RULE_LIBRARY,
                   "is a library call, and a plan as one kernel calls no library");
    apply(&b, edit_of(&b, FB_EDIT_GENERATE, "first", NULL));
    apply(&b, edit_of(&b, FB_EDIT_GENERATE, "second", NULL));
    apply(&b, edit_of(&b, FB_EDIT_FUSE, "first", "relu"));
    apply(&b, edit_of(&b, FB_EDIT_FUSE, "relu", "second"));
    assert_int_equal(fb_plan_group(b.plan, 0)->family, FB_FAMILY_CHAIN);
    refused_saying(&b, mega, FB_VERDICT_UNSUPPORTED, FB_RULE_LIBRARY,
                   "is part of a chain, a kernel that stands by itself");
    fb_edit knob = {.kind = FB_EDIT_KNOB, .a = named(b.g, "first"), .knob = FB_KNOB_TILE_K, .value = 24};
    refused(&b, knob, FB_VERDICT_ILLEGAL, FB_RULE_KNOB);
    knob.value = 0;
    apply(&b, knob);

    fb_analysis none = {.kernel = {.graph = b.g, .nodes = &file.a, .n_nodes = 1}};
    assert_false(fb_may_set_source(fb_planner_machine(b.p), &none, "own.cu", &why));
    assert_non_null(strstr(why.text, "`first` alone is no kernel"));
    bench_free(&b);
}

/* Three steps of weights of their own; and nothing that is repeated. */
static void steps(void **state)
{
    (void)state;
    fb_edit roll = {.kind = FB_EDIT_ROLL, .a = FB_NONE, .b = FB_NONE, .value = 1};
    fb_graph *g = fb_graph_new("steps");
    fb_id h = input(g, "h", DIMS(4, 4));
    for (int t = 0; t < 3; t++) {
        open_scope(g, "step", t, NULL, FB_NONE);
        h = node1(g, FB_OP_TANH, "tanh",
                  node2(g, FB_OP_MATMUL, "y", h, source(g, FB_OP_PARAM, "w", DIMS(4, 4), FB_F32)));
        close_scope(g, FB_NONE);
    }
    output(g, h);
    bench b = bench_of(finish(g)), none = bench_of(three());
    refused_saying(&b, roll, FB_VERDICT_ILLEGAL, FB_RULE_STEPS, "`step[1].y` reads `step[1].w` where");
    refused_saying(&none, roll, FB_VERDICT_UNSUPPORTED, FB_RULE_STEPS, "nothing is written out");
    bench_free(&b);
    bench_free(&none);
}

#define TESTS(T)                                                                                                       \
    T(same_group)                                                                                                      \
    T(not_computed)                                                                                                    \
    T(no_edge)                                                                                                         \
    T(cycle)                                                                                                           \
    T(region)                                                                                                          \
    T(write_after_read)                                                                                                \
    T(reduced_first)                                                                                                   \
    T(access_map)                                                                                                      \
    T(sorted_rows) T(gather) T(contraction) T(library) T(size) T(recompute) T(recompute_pool) T(knob) T(steps)

/* Runs last: the test that the table names is there, and the rule has spoken in one of them. */
static void every_rule_has_a_test(void **state)
{
    (void)state;
#define NAME(t) #t,
    static const char *const name[] = {TESTS(NAME)};
    for (int r = FB_RULE_NONE + 1; r < FB_RULES; r++) {
        const fb_rule_info *rule = fb_rule_get((fb_rule)r);
        assert_non_null(rule);
        bool found = false;
        for (size_t i = 0; i < sizeof name / sizeof *name; i++) found |= strcmp(name[i], rule->test) == 0;
        if (!found) fail_msg("rule %s names test %s, which is not there", rule->name, rule->test);
        if (!seen[r]) fail_msg("rule %s: no test makes it speak", rule->name);
    }
    assert_null(fb_rule_get(FB_RULE_NONE));
}

int main(void)
{
#define UNIT(t) cmocka_unit_test(t),
    const struct CMUnitTest tests[] = {TESTS(UNIT) cmocka_unit_test(by_itself),
                                       cmocka_unit_test(every_rule_has_a_test)};
    return cmocka_run_group_tests_name("legality", tests, NULL, NULL);
}
