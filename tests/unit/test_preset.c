/* Presets: counts of kernels on the bundled graphs, decisions that are taken, refused and limited. */
#include "plan_help.h"

#include "decide/rules.h"

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
    /* two layers are a chain, with what is around them */
    assert_int_equal(launches(max), 2);
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "layer[%d].linear.matmul", i);
        assert_int_equal(fb_plan_group(eager, fb_plan_group_of(eager, named(g, name)))->family, FB_FAMILY_LIBRARY);
        int at = fb_plan_group_of(max, named(g, name));
        fb_family family = fb_plan_group(max, at)->family;
        assert_true(family == FB_FAMILY_LIBRARY || family == FB_FAMILY_CHAIN);
        snprintf(name, sizeof name, "layer[%d].tanh", i);
        assert_int_equal(fb_plan_group_of(max, named(g, name)), at);
    }
    fb_plan_free(eager);
    fb_plan_free(max);
    fb_planner_free(p);
    fb_graph_free(g);
}

/* softmax(x · w1) · w2 as one call of the framework: no cache holds rows of its scores, so it falls into its parts, and
 * those are fused among themselves and not with what stands around. */
static void a_call_too_large_for_a_kernel_falls_apart(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("attention");
    fb_id x = node1(g, FB_OP_RELU, "before", input(g, "x", DIMS(256, 256)));
    fb_id w1 = source(g, FB_OP_PARAM, "w1", DIMS(256, 65536), FB_F32),
          w2 = source(g, FB_OP_PARAM, "w2", DIMS(65536, 256), FB_F32);
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

/* ---- the compilers ---- */

static int kernels(const fb_graph *g, const char *name)
{
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = preset(p, name);
    check_plan(plan);
    int n = launches(plan);
    fb_plan_free(plan);
    fb_planner_free(p);
    return n;
}

/* relu(x W + s (x A) B + bias) */
static fb_graph *lora(void)
{
    fb_graph *g = fb_graph_new("lora");
    fb_id x = input(g, "x", DIMS(128, 512)), w = source(g, FB_OP_PARAM, "w", DIMS(512, 512), FB_F32);
    fb_id a = source(g, FB_OP_PARAM, "a", DIMS(512, 16), FB_F32),
          b = source(g, FB_OP_PARAM, "b", DIMS(16, 512), FB_F32);
    fb_id s = input(g, "s", DIMS(1)), bias = source(g, FB_OP_PARAM, "bias", DIMS(512), FB_F32);
    fb_id low = node2(g, FB_OP_MATMUL, "low", node2(g, FB_OP_MATMUL, "thin", x, a), b);
    fb_id sum = node2(g, FB_OP_ADD, "sum", node2(g, FB_OP_MATMUL, "full", x, w), node2(g, FB_OP_MUL, "scaled", s, low));
    output(g, node1(g, FB_OP_RELU, "relu", node2(g, FB_OP_ADD, "biased", sum, bias)));
    return finish(g);
}

/* An LSTM over `steps` steps with its states stacked: two products a step, or one of [x, h]. */
static fb_graph *lstm(int steps, bool cat)
{
    enum { N = 64, H = 32 };
    fb_graph *g = fb_graph_new("lstm");
    fb_id x = input(g, "x", DIMS(steps, N, H)), h = input(g, "h", DIMS(N, H)), c = input(g, "c", DIMS(N, H));
    fb_id w = source(g, FB_OP_PARAM, "w", DIMS(H, 4 * H), FB_F32),
          u = source(g, FB_OP_PARAM, "u", DIMS(H, 4 * H), FB_F32);
    fb_id wu = source(g, FB_OP_PARAM, "wu", DIMS(2 * H, 4 * H), FB_F32),
          b = source(g, FB_OP_PARAM, "b", DIMS(4 * H), FB_F32);
    fb_id *out = fb_alloc((size_t)steps * sizeof *out);
    for (int t = 0; t < steps; t++) {
        fb_id xt = view(g, slice(g, x, 0, t, t + 1), DIMS(N, H)), gates;
        if (cat)
            gates = node2(g, FB_OP_MATMUL, NULL,
                          add_node(g, FB_OP_CAT, NULL, &(fb_attrs){.dim = 1}, 2, (fb_id[]){xt, h}), wu);
        else
            gates = node2(g, FB_OP_ADD, NULL, node2(g, FB_OP_MATMUL, NULL, xt, w), node2(g, FB_OP_MATMUL, NULL, h, u));
        gates = node2(g, FB_OP_ADD, NULL, gates, b);
        fb_id part[4];
        for (int k = 0; k < 4; k++)
            part[k] = node1(g, k == 2 ? FB_OP_TANH : FB_OP_SIGMOID, NULL, slice(g, gates, 1, k * H, (k + 1) * H));
        c = node2(g, FB_OP_ADD, NULL, node2(g, FB_OP_MUL, NULL, part[1], c),
                  node2(g, FB_OP_MUL, NULL, part[0], part[2]));
        h = out[t] = node2(g, FB_OP_MUL, NULL, part[3], node1(g, FB_OP_TANH, NULL, c));
    }
    output(g, add_node(g, FB_OP_STACK, "states", &(fb_attrs){.dim = 0}, steps, out));
    fb_free(out);
    return finish(g);
}

/* A GRU: two products a step, of three gates each. */
static fb_graph *gru(int steps)
{
    enum { N = 16, H = 128 };
    fb_graph *g = fb_graph_new("gru");
    fb_id x = input(g, "x", DIMS(N, H)), h = input(g, "h", DIMS(N, H)), one = input(g, "one", DIMS(1));
    fb_id w = source(g, FB_OP_PARAM, "w", DIMS(H, 3 * H), FB_F32),
          u = source(g, FB_OP_PARAM, "u", DIMS(H, 3 * H), FB_F32), b = source(g, FB_OP_PARAM, "b", DIMS(3 * H), FB_F32);
    for (int t = 0; t < steps; t++) {
        fb_id a = node2(g, FB_OP_ADD, NULL, node2(g, FB_OP_MATMUL, NULL, x, w), b), gate[3];
        fb_id c = node2(g, FB_OP_ADD, NULL, node2(g, FB_OP_MATMUL, NULL, h, u), b);
        for (int k = 0; k < 3; k++) {
            fb_id mine = slice(g, c, 1, k * H, (k + 1) * H);
            if (k == 2) mine = node2(g, FB_OP_MUL, NULL, gate[0], mine);
            gate[k] = node1(g, k == 2 ? FB_OP_TANH : FB_OP_SIGMOID, NULL,
                            node2(g, FB_OP_ADD, NULL, slice(g, a, 1, k * H, (k + 1) * H), mine));
        }
        h = node2(g, FB_OP_ADD, NULL, node2(g, FB_OP_MUL, NULL, node2(g, FB_OP_SUB, NULL, one, gate[1]), gate[2]),
                  node2(g, FB_OP_MUL, NULL, gate[1], h));
    }
    output(g, h);
    return finish(g);
}

/* Maxima over windows of tanh(x + y), two by two. */
static fb_graph *pool(void)
{
    fb_graph *g = fb_graph_new("pool");
    fb_id x = input(g, "x", DIMS(8, 16, 64, 64)), y = input(g, "y", DIMS(8, 16, 64, 64));
    fb_id at = node1(g, FB_OP_TANH, "tanh", node2(g, FB_OP_ADD, "sum", x, y));
    for (int d = 2; d < 4; d++)
        at = add_node(g, FB_OP_UNFOLD, NULL, &(fb_attrs){.dim = d, .stop = 2, .step = 2}, 1, &at);
    output(g, add_node(g, FB_OP_AMAX, "pool", &(fb_attrs){.n_axes = 2, .axes = {4, 5}}, 1, &at));
    return finish(g);
}

/* Rows normalised in `groups` parts, which a bias for all of a row follows. */
static fb_graph *group_norm(int64_t groups)
{
    enum { ROWS = 64, WIDE = 2048 };
    fb_graph *g = fb_graph_new("group_norm");
    fb_id x = input(g, "x", DIMS(ROWS, WIDE)), bias = source(g, FB_OP_PARAM, "bias", DIMS(WIDE), FB_F32);
    fb_id y = layer_norm(g, view(g, x, DIMS(ROWS, groups, WIDE / groups)));
    output(g, node2(g, FB_OP_ADD, "biased", view(g, y, DIMS(ROWS, WIDE)), bias));
    return finish(g);
}

/* One part is in two joins: the first has so many that each is written in place. */
static fb_graph *joins(void)
{
    enum { PARTS = 9 };
    fb_graph *g = fb_graph_new("joins");
    fb_id part[PARTS], w = source(g, FB_OP_PARAM, "w", DIMS(128, 32), FB_F32);
    for (int i = 0; i < PARTS; i++) part[i] = node1(g, FB_OP_TANH, NULL, input(g, "x", DIMS(256, 64)));
    output(g, add_node(g, FB_OP_CAT, "all", &(fb_attrs){.dim = 1}, PARTS, part));
    fb_id late = node1(g, FB_OP_EXP, "late", input(g, "y", DIMS(256, 64)));
    fb_id both = add_node(g, FB_OP_CAT, "both", &(fb_attrs){.dim = 1}, 2, (fb_id[]){part[0], late});
    output(g, node2(g, FB_OP_MATMUL, "product", both, w));
    return finish(g);
}

/* Maxima over windows of something computed, of which the mean is taken: written out in it up to 25 elements. */
static fb_graph *pool_and_mean(int64_t high, int64_t wide)
{
    fb_graph *g = fb_graph_new("pool_and_mean");
    fb_id at = node1(g, FB_OP_EXP, "exp", input(g, "x", DIMS(8, 16, 64, 64)));
    for (int d = 2; d < 4; d++)
        at = add_node(g, FB_OP_UNFOLD, NULL, &(fb_attrs){.dim = d, .stop = d == 2 ? high : wide, .step = 2}, 1, &at);
    at = add_node(g, FB_OP_AMAX, "pool", &(fb_attrs){.n_axes = 2, .axes = {4, 5}}, 1, &at);
    output(g, add_node(g, FB_OP_MEAN, "mean", &(fb_attrs){.n_axes = 2, .axes = {2, 3}}, 1, &at));
    return finish(g);
}

/* Products are joined, which a library has written elsewhere: they are copied, and read from there. */
static fb_graph *join_of_products(void)
{
    enum { PARTS = 9 };
    fb_graph *g = fb_graph_new("join_of_products");
    fb_id part[PARTS];
    for (int i = 0; i < PARTS; i++)
        part[i] = node2(g, FB_OP_MATMUL, NULL, input(g, "x", DIMS(256, 64)), input(g, "w", DIMS(64, 32)));
    fb_id all = add_node(g, FB_OP_CAT, "all", &(fb_attrs){.dim = 1}, PARTS, part);
    output(g, node1(g, FB_OP_TANH, "tanh", all));
    return finish(g);
}

/* PyTorch's roll along each of the first two dims, as the importer writes it. */
static fb_id rolled(fb_graph *g, fb_id x, int64_t n)
{
    open_scope(g, "roll", FB_NONE, "aten_roll", x);
    for (int d = 0; d < 2; d++)
        x = add_node(g, FB_OP_CAT, NULL, &(fb_attrs){.dim = d}, 2,
                     (fb_id[]){slice(g, x, d, n - 3, n), slice(g, x, d, 0, n - 3)});
    close_scope(g, x);
    return x;
}

/* Rows normalised, rolled and multiplied: the two steps of the roll are of the kernel that normalises. */
static fb_graph *norm_rolled(void)
{
    fb_graph *g = fb_graph_new("norm_rolled");
    fb_id x = layer_norm(g, input(g, "x", DIMS(8, 8, 256)));
    fb_id w = source(g, FB_OP_PARAM, "w", DIMS(256, 64), FB_F32);
    output(g, node2(g, FB_OP_MATMUL, "product", view(g, rolled(g, x, 8), DIMS(64, 256)), w));
    return finish(g);
}

/* What torch.compile launches, with one launch for a library call where cuBLAS takes two kernels. The stack of the
 * LSTM's states is written in place there and is a copy here. */
static void inductor_has_the_kernels_of_torch_compile(void **state)
{
    (void)state;
    const struct {
        fb_graph *g;
        int kernels;
    } want[] = {
        {split_stack(16, 1024, 256), 18},
        {combined(16, 1024, 256), 3},
        {lora(), 4},
        {lstm(16, false), 3 * 16 + 1},
        {lstm(16, true), 3 * 16 + 1},
        {pool(), 2},
        {group_norm(16), 2},
        {group_norm(1), 1},
        {joins(), 9 + 1 + 1 + 1},
        {pool_and_mean(2, 2), 1},
        {pool_and_mean(5, 5), 1},
        {pool_and_mean(2, 13), 2},
        {join_of_products(), 9 + 1 + 1},
        {norm_rolled(), 3},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        int n = kernels(want[i].g, "inductor");
        if (n != want[i].kernels) fail_msg("%s: %d kernels instead of %d", want[i].g->title, n, want[i].kernels);
        fb_graph_free(want[i].g);
    }
}

/* x W + b in windows of 4 × 4 that are put together, or in heads; read by a call that is not pointwise. */
static fb_graph *biased(bool windows, bool heads)
{
    fb_graph *g = fb_graph_new("biased");
    fb_id w = source(g, FB_OP_PARAM, "w", DIMS(32, 64), FB_F32), b = source(g, FB_OP_PARAM, "b", DIMS(64), FB_F32);
    fb_id y = node2(g, FB_OP_MATMUL, "product", input(g, "x", DIMS(64, 32)), w);
    y = node2(g, FB_OP_ADD, "sum", y, b);
    if (heads) {
        fb_id at = view(g, y, DIMS(4, 16, 4, 16)), other = input(g, "other", DIMS(4, 4, 16, 8));
        at = add_node(g, FB_OP_PERMUTE, NULL, &(fb_attrs){.n_axes = 4, .axes = {0, 2, 1, 3}}, 1, &at);
        output(g, node2(g, FB_OP_MATMUL, "scores", at, other));
        return finish(g);
    }
    fb_id at = view(g, y, DIMS(2, 2, 4, 4, 64));
    if (windows) at = add_node(g, FB_OP_PERMUTE, NULL, &(fb_attrs){.n_axes = 5, .axes = {0, 2, 1, 3, 4}}, 1, &at);
    output(g, over_axis(g, FB_OP_SUM, "rows", view(g, at, DIMS(8, 8, 64)), 1, false));
    return finish(g);
}

/* A copy is pointwise work, in which Inductor adds the bias. */
static void a_bias_leaves_its_product_for_a_copy(void **state)
{
    (void)state;
    const struct {
        fb_graph *g;
        bool together;
    } want[] = {{biased(false, false), true}, {biased(true, false), false}, {biased(false, true), false}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        fb_planner *p = planner_of(want[i].g, FB_DEVICE_HOST);
        fb_plan *plan = preset(p, "inductor");
        check_plan(plan);
        bool same =
            fb_plan_group_of(plan, named(want[i].g, "product")) == fb_plan_group_of(plan, named(want[i].g, "sum"));
        assert_int_equal(same, want[i].together);
        fb_plan_free(plan);
        fb_planner_free(p);
        fb_graph_free(want[i].g);
    }
}

static bool multiplies(const fb_plan *plan, fb_id node)
{
    fb_family family = fb_plan_group(plan, fb_plan_group_of(plan, node))->family;
    return family == FB_FAMILY_LIBRARY || family == FB_FAMILY_GEMM || family == FB_FAMILY_CHAIN;
}

/* Fails where the edge's other state is predicted to be faster, all products being made by kernels for products. */
static void check_at_rest(fb_plan *plan, const fb_edge *e)
{
    const fb_graph *g = fb_planner_graph(fb_plan_planner(plan));
    bool apart = fb_plan_group_of(plan, e->producer) != fb_plan_group_of(plan, e->consumer);
    bool operand = fb_node_class(g, e->consumer) == FB_CLASS_CONTRACTION;
    if (!multiplies(plan, e->consumer) && !(apart && multiplies(plan, e->producer))) return;
    if (!apart && !operand) return;
    fb_plan *next = NULL;
    fb_edit edit = {.kind = apart ? FB_EDIT_FUSE : FB_EDIT_CUT, .a = e->producer, .b = e->consumer};
    fb_verdict v = fb_plan_try(plan, &edit, &next);
    if (next && v.after_us < v.before_us * 0.99 && multiplies(next, e->producer) && multiplies(next, e->consumer))
        fail_msg("%s: %s", g->title, v.text);
    fb_plan_free(next);
}

/* A library call stays one in `max` only where no tile with what surrounds it is predicted to be faster; with what is
 * only together when all else has been fused. */
static void max_is_at_rest_around_products(void **state)
{
    (void)state;
    fb_graph *g[] = {lstm(3, false), lstm(3, true), lora(), gru(3)};
    for (size_t i = 0; i < sizeof g / sizeof *g; i++) {
        fb_planner *p = planner_of(g[i], FB_DEVICE_CUDA);
        fb_plan *plan = preset(p, "max");
        check_plan(plan);
        const fb_deps *d = fb_planner_deps(p);
        for (int k = 0; k < d->n_edges; k++)
            if (!d->edges[k].order_only) check_at_rest(plan, &d->edges[k]);
        fb_plan_free(plan);
        fb_planner_free(p);
        fb_graph_free(g[i]);
    }
}

/* Normalised rows, their product with a vector and what follows are one kernel of XLA, other products the library's;
 * decisions do not depend on the machine. */
static void xla_and_tinygrad(void **state)
{
    (void)state;
    fb_graph *g = combined(16, 64, 32), *l = lora();
    assert_int_equal(kernels(g, "xla"), 1);
    assert_int_equal(kernels(g, "tinygrad"), 3);
    assert_int_equal(kernels(l, "xla"), 4);
    fb_graph *fits = combined(16, 64, 4096), *long_rows = combined(2, 4, 26215);
    assert_int_equal(kernels(fits, "xla"), 1);
    assert_int_equal(kernels(long_rows, "xla"), 4);
    fb_graph_free(fits);
    fb_graph_free(long_rows);
    fb_planner *host = planner_of(g, FB_DEVICE_HOST), *gpu = planner_of(g, FB_DEVICE_CUDA);
    fb_plan *here = preset(host, "xla"), *there = preset(gpu, "xla");
    assert_int_equal(fb_plan_groups(here), fb_plan_groups(there));
    fb_plan_free(here);
    fb_plan_free(there);
    fb_planner_free(host);
    fb_planner_free(gpu);
    fb_graph_free(g);
    fb_graph_free(l);
}

/* Halves that are computed apart and joined, a hundred times: 2^100 ways from the first to the last. */
static void ways_are_not_counted(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("halves");
    fb_id x = input(g, "x", DIMS(2));
    for (int i = 0; i < 100; i++) {
        char name[3][16];
        for (int k = 0; k < 3; k++) snprintf(name[k], sizeof name[k], "%c%d", "abj"[k], i);
        fb_op op = i % 2 ? FB_OP_SIN : FB_OP_ABS;
        fb_id parts[] = {node1(g, op, name[0], slice(g, x, 0, 0, 1)), node1(g, op, name[1], slice(g, x, 0, 1, 2))};
        x = add_node(g, FB_OP_CAT, name[2], &(fb_attrs){.dim = 0}, 2, parts);
    }
    output(g, x);
    g = finish(g);
    static const char *const names[] = {"eager", "inductor", "xla", "tinygrad", "max", "auto"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) assert_true(kernels(g, names[i]) >= 1);
    fb_graph_free(g);
}

/* `sum` would be part of what stores it in `b`, but `a` has b's value by then, which is found when the plan is made;
 * `relu` has become part of its readers before. */
static void xla_settles_what_an_update_keeps_apart(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("update");
    fb_id a = source(g, FB_OP_PARAM, "a", DIMS(4, 8), FB_F32), b = source(g, FB_OP_PARAM, "b", DIMS(4, 8), FB_F32);
    fb_id relu = node1(g, FB_OP_RELU, "relu", b), sum = node2(g, FB_OP_ADD, "sum", relu, a);
    output(g, over_axis(g, FB_OP_CUMSUM, "rows", relu, 1, false));
    assign(g, a, b, "b_to_a");
    assign(g, b, sum, "sum_to_b");
    g = finish(g);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = preset(p, "xla");
    check_plan(plan);
    assert_int_not_equal(fb_plan_group_of(plan, named(g, "sum")), fb_plan_group_of(plan, named(g, "sum_to_b")));
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
}

/* ---- steps ---- */

static fb_plan *made(fb_planner *p, const char *text, fb_steps **steps)
{
    fb_preset_use use;
    fb_error err = {0};
    if (!fb_preset_parse(text, &use, &err)) fail_msg("%s: %s", text, err.text);
    fb_plan *plan = fb_preset_make(&use, p, steps, &err);
    assert_non_null(plan);
    check_plan(plan);
    return plan;
}

/* The first none of a preset's decisions are `none`, all of them are the preset, and each in between is a plan. */
static void presets_are_replayed_step_by_step(void **state)
{
    (void)state;
    fb_graph *g = split_stack(4, 32, 16);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    for (int i = 1; i < fb_presets(); i++) {
        const char *name = fb_preset_at(i)->name;
        fb_steps *steps;
        fb_plan *none = fb_plan_new(p), *all = made(p, name, &steps), *before = fb_plan_copy(none);
        int n = fb_steps_count(steps), changes = 0;
        assert_int_equal(fb_steps_kept(steps), n);
        assert_true(n > 0);
        for (int k = 0; k <= n; k++) {
            char text[64];
            fb_steps *some;
            snprintf(text, sizeof text, "%s[:%d]", name, k);
            fb_plan *plan = made(p, text, &some);
            assert_int_equal(fb_steps_count(some), k);
            if (k == 0) assert_true(fb_plan_equal(plan, none));
            if (k == n) assert_true(fb_plan_equal(plan, all));
            if (k && fb_steps_at(steps, k - 1)->outcome == FB_STEP_REFUSED) assert_true(fb_plan_equal(plan, before));
            changes += !fb_plan_equal(plan, before);
            for (int s = 0; s < k; s++) assert_int_equal(fb_steps_at(some, s)->what.a, fb_steps_at(steps, s)->what.a);
            fb_steps_free(some);
            fb_plan_free(before);
            before = plan;
        }
        assert_true(changes > 0);
        fb_steps_free(steps);
        fb_plan_free(none);
        fb_plan_free(all);
        fb_plan_free(before);
    }
    fb_planner_free(p);
    fb_graph_free(g);
}

/* Refusing a decision that was taken leaves it out, says so, and the procedure goes on. */
static void a_decision_can_be_refused(void **state)
{
    (void)state;
    fb_graph *g = combined(4, 32, 16);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    for (int i = 1; i < fb_presets(); i++) {
        const char *name = fb_preset_at(i)->name;
        fb_steps *steps, *branch;
        fb_plan *all = made(p, name, &steps);
        for (int k = 0; k < fb_steps_count(steps); k++) {
            if (fb_steps_at(steps, k)->outcome != FB_STEP_TAKEN) continue;
            char text[64];
            snprintf(text, sizeof text, "%s[no%d]", name, k + 1);
            fb_plan *plan = made(p, text, &branch);
            assert_int_equal(fb_steps_at(branch, k)->outcome, FB_STEP_DECLINED);
            assert_int_equal(fb_steps_at(branch, k)->what.a, fb_steps_at(steps, k)->what.a);
            assert_true(fb_steps_count(branch) > k);
            fb_steps_free(branch);
            fb_plan_free(plan);
        }
        fb_steps_free(steps);
        fb_plan_free(all);
    }
    fb_planner_free(p);
    fb_graph_free(g);
}

/* What the compiler does and our families do not is on record with a verdict. */
static void what_is_not_generated_is_said(void **state)
{
    (void)state;
    fb_graph *g = lstm(4, false);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_steps *steps;
    fb_plan *plan = made(p, "max", &steps);
    int unable = 0;
    for (int i = 0; i < fb_steps_kept(steps); i++) {
        const fb_step *s = fb_steps_at(steps, i);
        assert_int_equal(s->outcome == FB_STEP_UNABLE, s->verdict != NULL);
        if (s->outcome != FB_STEP_UNABLE) continue;
        unable++;
        assert_int_not_equal(fb_plan_group_of(plan, s->what.a), fb_plan_group_of(plan, s->what.b));
        assert_true(strlen(s->verdict) > 10);
    }
    assert_true(unable > 0);
    fb_steps_free(steps);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
}

static void preset_texts(void **state)
{
    (void)state;
    static const char *const good[] = {"max", "max[:12]", "eager[:0]", "inductor[no5]", "inductor[no5,no9:12]"};
    static const char *const bad[] = {"max[",         "max[]",    "max[:]",  "max[no]", "max[no0]", "max[no5,no5]",
                                      "max[no9,no5]", "max[:-1]", "max[12]", "max[:3",  "max[:3]x", "max[no1,]"};
    fb_preset_use use;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        fb_error err = {0};
        fb_str text = {0};
        assert_true(fb_preset_parse(good[i], &use, &err));
        fb_preset_write(&use, &text);
        assert_string_equal(fb_str_get(&text), good[i]);
        fb_str_free(&text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fb_error err = {0};
        if (fb_preset_parse(bad[i], &use, &err)) fail_msg("%s", bad[i]);
        assert_int_equal(err.kind, FB_ERR_USAGE);
    }
    fb_error err = {0};
    assert_false(fb_preset_parse("fastest[:3]", &use, &err));
    assert_int_equal(err.kind, FB_OK);
}

/* The record of a graph of 10,000 nodes is bounded, and making it does not take long. */
static void records_are_bounded(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("wide");
    fb_id x = input(g, "x", DIMS(64)), y = input(g, "y", DIMS(64));
    for (int i = 0; i < 10000; i++) {
        x = node2(g, i % 2 ? FB_OP_ADD : FB_OP_MUL, NULL, x, y);
        if (i % 3 == 0 && i < 9000) output(g, x);
    }
    output(g, x);
    g = finish(g);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    for (int i = 1; i < fb_presets(); i++) {
        fb_steps *steps;
        fb_plan *plan = made(p, fb_preset_at(i)->name, &steps);
        assert_true(fb_steps_kept(steps) <= FB_STEPS_KEPT);
        assert_true(fb_steps_kept(steps) == fb_steps_count(steps) || fb_steps_kept(steps) == FB_STEPS_KEPT);
        fb_steps_free(steps);
        fb_plan_free(plan);
    }
    fb_planner_free(p);
    fb_graph_free(g);
}

static void constants_have_sources(void **state)
{
    (void)state;
    for (int i = 0; i < FB_CONSTANTS; i++) {
        assert_true(strlen(fb_constant_name((fb_constant)i)) > 2);
        assert_non_null(strstr(fb_constant_source((fb_constant)i), "."));
        assert_true(fb_constant_value((fb_constant)i) > 0);
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
    assert_null(fb_preset_at(fb_presets_all()));
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
        cmocka_unit_test(inductor_has_the_kernels_of_torch_compile),
        cmocka_unit_test(a_bias_leaves_its_product_for_a_copy),
        cmocka_unit_test(max_is_at_rest_around_products),
        cmocka_unit_test(xla_and_tinygrad),
        cmocka_unit_test(ways_are_not_counted),
        cmocka_unit_test(xla_settles_what_an_update_keeps_apart),
        cmocka_unit_test(presets_are_replayed_step_by_step),
        cmocka_unit_test(a_decision_can_be_refused),
        cmocka_unit_test(what_is_not_generated_is_said),
        cmocka_unit_test(preset_texts),
        cmocka_unit_test(records_are_bounded),
        cmocka_unit_test(constants_have_sources),
        cmocka_unit_test(presets_have_names),
    };
    return cmocka_run_group_tests_name("preset", tests, NULL, NULL);
}
