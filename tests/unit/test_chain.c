/* Chains: contraction → what is pointwise, or a softmax → contraction, in one kernel. What is taken and what is
 * refused, and results over sizes that no block divides, against the interpreter. */
#include "unit/chain_cases.h"
#include "unit/run_program.h"

typedef struct {
    fb_graph *g;
    fb_planner *planner;
    fb_plan *plan;
} planned;

static planned plan_of(fb_graph *g, fb_device_kind kind, const char *preset)
{
    fb_machine m;
    fb_error err = {0};
    fb_machine_default(&m, kind);
    planned p = {.g = g, .planner = fb_planner_new(g, &m)};
    p.plan = fb_preset_find(preset)->make(p.planner, &err);
    assert_non_null(p.plan);
    return p;
}

static void drop(planned *p)
{
    fb_plan_free(p->plan);
    fb_planner_free(p->planner);
    fb_graph_free(p->g);
}

static void expect_one_chain(const planned *p)
{
    assert_int_equal(fb_plan_groups(p->plan), 1);
    assert_int_equal(fb_plan_group(p->plan, 0)->family, FB_FAMILY_CHAIN);
}

/* ---- results ---- */

/* Whatever it is predicted to take: few rows would not be a chain else. */
static planned fused(fb_graph *g)
{
    planned p = plan_of(g, FB_DEVICE_HOST, "none");
    FB_VEC(fb_id) nodes = {0};
    fb_plan *next = NULL;
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (fb_node_is_computed(g, i)) FB_VEC_PUSH(&nodes, i);
    fb_verdict v =
        fb_plan_try(p.plan, &(fb_edit){.kind = FB_EDIT_FUSE_ALL, .n_nodes = nodes.n, .nodes = nodes.at}, &next);
    FB_VEC_FREE(&nodes);
    if (!next) fail_msg("%s", v.text);
    fb_plan_free(p.plan);
    p.plan = next;
    return p;
}

static void run_all(fb_graph **graphs, int n)
{
    unit u = {0};
    fb_program **programs = fb_calloc((size_t)n + 1, sizeof(fb_program *));
    planned *plans = fb_calloc((size_t)n + 1, sizeof *plans);
    for (int i = 0; i < n; i++) {
        fb_error err = {0};
        plans[i] = fused(graphs[i]);
        expect_one_chain(&plans[i]);
        programs[i] = fb_lower(plans[i].plan, &fb_target_c, &err);
        if (!programs[i]) fail_msg("%s", err.text);
        assert_int_equal(unit_add(&u, programs[i]), i);
    }
    unit_compile(&u, "-O2");
    for (int i = 0; i < n; i++) {
        fb_error err = {0};
        char text[512], *storage;
        fb_interp *in = fb_interp_run(graphs[i], &(fb_interp_options){.seed = 7, .bounds = true}, NULL, 0, &err);
        if (!in) fail_msg("%s", err.text);
        void **buffers = run_program(&u, i, programs[i], graphs[i], 7, &storage);
        if (!check_program(programs[i], buffers, graphs[i], in, text))
            fail_msg("case %d: %s\n%s", i, text, programs[i]->kernels[0].source);
        fb_free(buffers);
        fb_free(storage);
        fb_interp_free(in);
        fb_program_free(programs[i]);
        drop(&plans[i]);
    }
    fb_free(programs);
    fb_free(plans);
    unit_free(&u);
}

static void mlps_of_odd_sizes(void **state)
{
    (void)state;
    fb_graph *g[] = {
        mlp(0, 7, 33, 200, 7, FB_F32),   mlp(0, 33, 65, 129, 33, FB_F32), mlp(0, 100, 7, 33, 7, FB_F64),
        mlp(0, 65, 33, 100, 9, FB_BF16), mlp(0, 300, 17, 33, 5, FB_F16),  mlp(3, 33, 7, 100, 33, FB_F32),
        mlp(5, 7, 64, 64, 64, FB_BF16),
    };
    run_all(g, sizeof g / sizeof *g);
}

static void attention_of_odd_sizes(void **state)
{
    (void)state;
    fb_graph *g[] = {
        attention(3, 33, 65, 7, NO_MASK, FB_F32), attention(2, 7, 33, 16, ADDED, FB_F32),
        attention(1, 33, 33, 8, CAUSAL, FB_F32),  attention(4, 65, 65, 33, CAUSAL, FB_F32),
        attention(3, 1, 33, 16, NO_MASK, FB_F32), attention(2, 40, 100, 16, ADDED, FB_BF16),
        attention(2, 33, 33, 64, CAUSAL, FB_F16), attention(2, 33, 7, 5, CAUSAL, FB_F64),
    };
    run_all(g, sizeof g / sizeof *g);
}

/* What several readers want is stored on the way, also where it never was in memory before. */
static void hidden_values_may_be_stored_too(void **state)
{
    (void)state;
    fb_graph *g[2];
    for (int i = 0; i < 2; i++) {
        g[i] = fb_graph_new("stored");
        fb_error err;
        fb_id x = source(g[i], FB_OP_INPUT, "x", SHAPE(70, 33), FB_F32);
        fb_id w1 = source(g[i], FB_OP_PARAM, "w1", SHAPE(33, 90), FB_F32),
              w2 = source(g[i], FB_OP_PARAM, "w2", SHAPE(90, 90), FB_F32);
        fb_id h = NODE(g[i], FB_OP_TANH, "h", NULL, NODE(g[i], FB_OP_MATMUL, "first", NULL, x, w1));
        fb_id y = NODE(g[i], FB_OP_MATMUL, "second", NULL, h, w2);
        if (i) y = NODE(g[i], FB_OP_ADD, "residual", NULL, y, h); /* reads the first product again */
        fb_graph_output(g[i], h, "h", &err);
        g[i] = with_output(g[i], layer_norm(g[i], y));
    }
    run_all(g, 2);
}

/* A block has some of the rows, and goes through no others where a test says that only some need one. */
static void padded_rows_are_a_block_s_too(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("padded");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(3, 400, 32), FB_F32),
          y = source(g, FB_OP_INPUT, "y", SHAPE(3, 396, 1), FB_F32);
    fb_id w1 = source(g, FB_OP_PARAM, "w1", SHAPE(3, 32, 48), FB_F32),
          w2 = source(g, FB_OP_PARAM, "w2", SHAPE(3, 48, 1), FB_F32);
    fb_id h = NODE(g, FB_OP_RELU, "h", NULL, NODE(g, FB_OP_MATMUL, "first", NULL, x, w1));
    fb_id padded = NODE(g, FB_OP_PAD, NULL, (&(fb_attrs){.before = {0, 2, 0}, .after = {0, 2, 0}}), y);
    fb_id sum = NODE(g, FB_OP_ADD, NULL, NULL, NODE(g, FB_OP_MATMUL, "second", NULL, h, w2), padded);
    run_all((fb_graph *[]){with_output(g, sum)}, 1);
}

/* ---- verdicts ---- */

static fb_verdict fuse(const planned *p, const char *a, const char *b)
{
    fb_edit e = {.kind = FB_EDIT_FUSE, .a = fb_graph_find(p->g, a), .b = fb_graph_find(p->g, b)};
    assert_true(e.a != FB_NONE && e.b != FB_NONE);
    return fb_plan_try(p->plan, &e, NULL);
}

static void says(fb_verdict v, fb_verdict_kind kind, const char *part)
{
    if (v.kind == kind && strstr(v.text, part)) return;
    fail_msg("%s: %s", fb_verdict_kind_name(v.kind), v.text);
}

static void apply(planned *p, const char *a, const char *b)
{
    fb_edit e = {.kind = FB_EDIT_FUSE, .a = fb_graph_find(p->g, a), .b = fb_graph_find(p->g, b)};
    fb_plan *next = NULL;
    fb_verdict v = fb_plan_try(p->plan, &e, &next);
    if (!next) fail_msg("%s → %s: %s", a, b, v.text);
    fb_plan_free(p->plan);
    p->plan = next;
}

static void edges_lead_to_a_chain_one_by_one(void **state)
{
    (void)state;
    planned p = plan_of(mlp(0, 1024, 256, 256, 256, FB_F32), FB_DEVICE_HOST, "none");
    apply(&p, "first", "biased");
    apply(&p, "biased", "h");
    apply(&p, "h", "second");
    apply(&p, "second", "biased_too");
    apply(&p, "biased_too", "y");
    expect_one_chain(&p);
    drop(&p);
    p = plan_of(attention(4, 256, 256, 64, CAUSAL, FB_F32), FB_DEVICE_HOST, "none");
    static const char *const edges[][2] = {{"scores", "scaled"}, {"scaled", "masked"}, {"sees", "masked"},
                                           {"masked", "amax"},   {"amax", "sub"},      {"sub", "exp"},
                                           {"exp", "sum"},       {"sum", "div"},       {"div", "mixed"}};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) apply(&p, edges[i][0], edges[i][1]);
    expect_one_chain(&p);
    drop(&p);
}

static void what_does_not_fit_is_said_in_numbers(void **state)
{
    (void)state;
    planned p = plan_of(mlp(0, 256, 64, 65536, 64, FB_F32), FB_DEVICE_HOST, "max");
    says(fuse(&p, "h", "second"), FB_VERDICT_UNSUPPORTED, "the 65536-wide row of `h` takes 262 kB");
    drop(&p);
}

static void other_shapes_are_refused(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("side_by_side");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(256, 256), FB_F32),
          w = source(g, FB_OP_PARAM, "w", SHAPE(256, 256), FB_F32),
          u = source(g, FB_OP_PARAM, "u", SHAPE(256, 256), FB_F32);
    fb_id a = NODE(g, FB_OP_MATMUL, "a", NULL, x, w), b = NODE(g, FB_OP_MATMUL, "b", NULL, x, u);
    fb_id right =
        NODE(g, FB_OP_MATMUL, "right", NULL, x, NODE(g, FB_OP_TANH, "t", NULL, NODE(g, FB_OP_ADD, "c", NULL, a, b)));
    planned p = plan_of(with_output(g, right), FB_DEVICE_HOST, "none");
    says(fuse(&p, "a", "b"), FB_VERDICT_UNSUPPORTED, "is the left operand of the other, as a chain needs");
    apply(&p, "a", "c");
    apply(&p, "c", "t");
    says(fuse(&p, "t", "right"), FB_VERDICT_UNSUPPORTED, "`right` needs all 262 kB of `t` for each of its 256 rows");
    drop(&p);
}

/* ---- what they are predicted to take ---- */

static double us_of(const planned *p)
{
    fb_plan_cost c;
    fb_plan_cost_of(p->plan, &c);
    return c.us;
}

/* A machine that computes in no time, with a second cache of 1 MB and a third that is ten times as slow. */
static double generated_us(int64_t rows, int64_t depth, int64_t columns)
{
    fb_machine m;
    fb_plan *next = NULL;
    fb_machine_default(&m, FB_DEVICE_HOST);
    m.units = 1, m.shared_bytes = 1 << 20, m.cache_bytes = 1 << 30, m.launch_us = 0;
    m.copy_hot = m.copy_cold = (fb_rate_curve){.n = 2, .size = {1 << 20, (1 << 20) + 1}, .rate = {100, 10}};
    m.gflops[FB_F32] = m.glanes[FB_F32] = m.glane_steps = m.gsum = m.gsum_rows = m.ggather = m.gfar = 1e9;
    fb_graph *g = fb_graph_new("again");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(rows, depth), FB_F32),
          w = source(g, FB_OP_PARAM, "w", SHAPE(depth, columns), FB_F32), y = NODE(g, FB_OP_MATMUL, "y", NULL, x, w);
    planned p = {.g = with_output(g, y)};
    p.planner = fb_planner_new(p.g, &m);
    p.plan = fb_plan_new(p.planner);
    fb_id product = FB_NONE;
    for (fb_id i = 0; i < p.g->n_nodes; i++)
        if (fb_node_class(p.g, i) == FB_CLASS_CONTRACTION) product = i;
    fb_verdict v = fb_plan_try(p.plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = product, .b = FB_NONE}, &next);
    if (!next) fail_msg("%s", v.text);
    fb_plan_free(p.plan);
    p.plan = next;
    double us = us_of(&p);
    drop(&p);
    return us;
}

/* 100 rows read 64 columns of the right operand again each: out of the second cache where they fit there, which they do
 * not where there are many of them, or where a stride of a power of two leaves most of its sets empty. */
static void what_is_read_again_costs_its_cache(void **state)
{
    (void)state;
    const double bytes = 100.0 * 4 * 1000 * 520;
    double near = generated_us(100, 1000, 520), far = generated_us(100, 10000, 520),
           crowded = generated_us(100, 1000, 512), once = generated_us(1, 10000, 520);
    if (near < bytes / 100e3 || near > 1.5 * bytes / 100e3) fail_msg("near: %g µs", near);
    if (far < 10 * bytes / 10e3 || far > 15 * bytes / 10e3) fail_msg("far: %g µs", far);
    if (crowded < 0.9 * bytes / 10e3 || crowded > 1.5 * bytes / 10e3) fail_msg("crowded: %g µs", crowded);
    if (once > 1.1 * 4 * 10000 * 520 / 10e3) fail_msg("once: %g µs", once);
}

/* Few rows are one block, which one core makes, and a library call is all cores' work. */
static void a_block_of_rows_is_one_core_s(void **state)
{
    (void)state;
    static const int64_t rows[] = {16, 4096};
    for (int i = 0; i < 2; i++) {
        planned chain = fused(mlp(0, rows[i], 384, 384, 384, FB_F32)),
                max = plan_of(mlp(0, rows[i], 384, 384, 384, FB_F32), FB_DEVICE_HOST, "max");
        expect_one_chain(&chain);
        double more = us_of(&chain) / us_of(&max);
        if (rows[i] == 16 ? more < 1.5 : more > 1.25) fail_msg("%d rows: %g times", (int)rows[i], more);
        drop(&chain);
        drop(&max);
    }
}

/* A batch over one right operand is one tall product, as the library is asked for it. */
static void a_tall_batch_is_one_product(void **state)
{
    (void)state;
    double us[2];
    for (int flat = 0; flat < 2; flat++) {
        fb_graph *g = fb_graph_new("tall");
        fb_id x = source(g, FB_OP_INPUT, "x", flat ? SHAPE(128, 256) : SHAPE(8, 16, 256), FB_F32),
              w = source(g, FB_OP_PARAM, "w", SHAPE(256, 512), FB_F32);
        planned p = plan_of(with_output(g, NODE(g, FB_OP_MATMUL, "y", NULL, x, w)), FB_DEVICE_HOST, "none");
        us[flat] = us_of(&p);
        drop(&p);
    }
    assert_float_equal(us[0], us[1], 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlps_of_odd_sizes),
        cmocka_unit_test(attention_of_odd_sizes),
        cmocka_unit_test(hidden_values_may_be_stored_too),
        cmocka_unit_test(padded_rows_are_a_block_s_too),
        cmocka_unit_test(edges_lead_to_a_chain_one_by_one),
        cmocka_unit_test(what_does_not_fit_is_said_in_numbers),
        cmocka_unit_test(other_shapes_are_refused),
        cmocka_unit_test(what_is_read_again_costs_its_cache),
        cmocka_unit_test(a_block_of_rows_is_one_core_s),
        cmocka_unit_test(a_tall_batch_is_one_product),
    };
    return cmocka_run_group_tests_name("chain", tests, NULL, NULL);
}
