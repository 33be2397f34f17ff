/* Knobs: what they do to the text for both targets, what is refused with which sentence, and that the host's kernels
 * stay right whatever they are set to. */
#include "plan_help.h"

#include "own_cache.h"
#include "scratch.h"

#include "code/lower.h"
#include "measure/measure.h"
#include "schedule/print.h"

#include <unistd.h>

typedef struct {
    fb_knob knob;
    int64_t value;
} setting;

static fb_verdict set_knob(fb_plan **plan, fb_id node, fb_knob knob, int64_t value)
{
    fb_plan *to = NULL;
    fb_verdict v = fb_plan_try(*plan, &(fb_edit){.kind = FB_EDIT_KNOB, .a = node, .knob = knob, .value = value}, &to);
    if (!to) return v;
    fb_plan_free(*plan);
    *plan = to;
    return v;
}

static fb_plan *with_knobs(fb_planner *p, const char *name, const setting *set, int n)
{
    fb_plan *plan = preset(p, name);
    for (int i = 0; i < fb_plan_groups(plan); i++)
        for (int k = 0; k < n; k++) set_knob(&plan, fb_plan_group(plan, i)->stored[0], set[k].knob, set[k].value);
    return plan;
}

/* ---- graphs: elements, rows, columns, a library call with an epilogue, many values ---- */

static fb_graph *elements(void)
{
    fb_graph *g = fb_graph_new("elements");
    fb_id x = input(g, "x", DIMS(37, 250)), y = input(g, "y", DIMS(250));
    output(g, node1(g, FB_OP_TANH, "t", node2(g, FB_OP_ADD, "s", x, y)));
    return finish(g);
}

/* Neighbours that move together from one end to the other. */
static fb_graph *line(void)
{
    fb_graph *g = fb_graph_new("line");
    output(g, node1(g, FB_OP_TANH, "t", input(g, "x", DIMS(9252))));
    return finish(g);
}

static fb_graph *rows(void)
{
    fb_graph *g = fb_graph_new("rows");
    output(g, node1(g, FB_OP_TANH, "t", layer_norm(g, input(g, "x", DIMS(133, 96)))));
    return finish(g);
}

static fb_graph *columns(void)
{
    fb_graph *g = fb_graph_new("columns");
    fb_id x = input(g, "x", DIMS(200, 130));
    output(g, node2(g, FB_OP_SUB, "d", x, over_axis(g, FB_OP_AMAX, "m", x, 0, true)));
    return finish(g);
}

static fb_graph *library(void)
{
    fb_graph *g = fb_graph_new("library");
    output(g, node1(g, FB_OP_RELU, "relu", linear(g, input(g, "x", DIMS(70, 40)), 24)));
    return finish(g);
}

/* Twenty values of one shape, all stored by one kernel. */
static fb_graph *many(void)
{
    fb_graph *g = fb_graph_new("many");
    fb_id x = input(g, "x", DIMS(16, 32)), y = input(g, "y", DIMS(16, 32));
    for (int i = 0; i < 24; i++) {
        fb_id z = node2(g, i % 2 ? FB_OP_ADD : FB_OP_MUL, NULL, x, y);
        if (i % 5 == 4) z = node2(g, FB_OP_SUB, NULL, z, over_axis(g, FB_OP_MEAN, NULL, z, 1, true));
        output(g, z);
        y = x;
        x = node1(g, FB_OP_TANH, NULL, z);
    }
    return finish(g);
}

static fb_graph *(*const graphs[])(void) = {elements, rows, columns, library, many};

/* ---- the host runs them ---- */

static void check_run(fb_device *d, const fb_plan *plan, const char *what)
{
    fb_error err = {0};
    const fb_graph *g = fb_planner_graph(fb_plan_planner(plan));
    if (!fb_reference_make(g, 5, NULL, NULL, NULL, &err)) fail_msg("%s", err.text);
    fb_measurement *m = fb_measure_prepare(d, plan, &(fb_measure_options){.seeds = {5}, .n_seeds = 1}, NULL, &err);
    if (!m || !fb_measure_check(m, NULL, &err)) fail_msg("%s: %s", what, err.text);
    fb_report *r = fb_measure_report(m);
    if (!r->error.ok) fail_msg("%s: %s", what, r->error.worst);
    fb_report_free(r);
    fb_measure_free(m);
}

static void the_host_stays_right(void **state)
{
    (void)state;
    static const setting sets[][3] = {{{FB_KNOB_ROWS, 3}, {FB_KNOB_VECTOR, 4}, {FB_KNOB_THREADS, 2}},
                                      {{FB_KNOB_ROWS, 100000}, {FB_KNOB_VECTOR, 1}, {FB_KNOB_THREADS, 1}},
                                      {{FB_KNOB_ROWS, 1}, {FB_KNOB_VECTOR, 32}, {FB_KNOB_THREADS, 7}}};
    fb_device *d = fb_device_open("host", NULL);
    assert_non_null(d);
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        fb_graph *g = graphs[i]();
        fb_planner *p = planner_of(g, FB_DEVICE_HOST);
        for (size_t k = 0; k < 3; k++) {
            fb_plan *plan = with_knobs(p, "max", sets[k], 3);
            check_run(d, plan, g->title);
            fb_plan_free(plan);
        }
        fb_planner_free(p);
        fb_graph_free(g);
    }
    d->ops->close(d);
}

static void a_kernel_that_stores_many_values_is_one_section(void **state)
{
    (void)state;
    fb_graph *g = many();
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = preset(p, "max");
    assert_int_equal(fb_plan_groups(plan), 1);
    const fb_group *group = fb_plan_group(plan, 0);
    assert_true(group->n_stored >= 20);
    fb_nest_facts facts;
    fb_nest_facts_of(group->nest, &facts);
    assert_int_equal(facts.sections, 1);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
}

/* ---- the text ---- */

/* The kernel of `graph` under one knob, in the language of `kind`; the launch's geometry of CUDA. */
static char *text_of(fb_graph *(*make)(void), fb_device_kind kind, fb_knob knob, int64_t value, int *grid, int *block)
{
    fb_error err = {0};
    fb_graph *g = make();
    fb_planner *p = planner_of(g, kind);
    fb_plan *plan = preset(p, "max");
    fb_verdict v = set_knob(&plan, fb_plan_group(plan, 0)->stored[0], knob, value);
    if (v.kind >= FB_VERDICT_UNSUPPORTED) fail_msg("%s", v.text);
    fb_program *program = fb_lower(plan, kind == FB_DEVICE_CUDA ? &fb_target_cuda : &fb_target_c, &err);
    if (!program) fail_msg("%s", err.text);
    char *text = fb_strdup(program->kernels[0].source);
    if (grid) *grid = program->kernels[0].grid[0];
    if (block) *block = program->kernels[0].block[0];
    fb_program_free(program);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
    return text;
}

static void expect_text(fb_graph *(*make)(void), fb_device_kind kind, setting s, const char *holds)
{
    char *text = text_of(make, kind, s.knob, s.value, NULL, NULL);
    if (!strstr(text, holds))
        fail_msg("%s = %lld: no \"%s\" in\n%s", fb_knob_name(s.knob), (long long)s.value, holds, text);
    fb_free(text);
}

static void they_are_seen_in_the_text(void **state)
{
    (void)state;
    expect_text(rows, FB_DEVICE_HOST, (setting){FB_KNOB_VECTOR, 4}, "simdlen(4)");
    fb_graph *(*big[])(void) = {elements, rows};
    for (int i = 0; i < 2; i++) {
        expect_text(big[i], FB_DEVICE_HOST, (setting){FB_KNOB_THREADS, 3}, "num_threads(3)");
        char *text = text_of(big[i], FB_DEVICE_HOST, FB_KNOB_THREADS, 1, NULL, NULL);
        assert_null(strstr(text, "parallel"));
        fb_free(text);
    }
    expect_text(elements, FB_DEVICE_CUDA, (setting){FB_KNOB_VECTOR, 2}, "v < 2");
    expect_text(elements, FB_DEVICE_CUDA, (setting){FB_KNOB_GRID, 5}, "block += 5");
    expect_text(elements, FB_DEVICE_CUDA, (setting){FB_KNOB_ROWS, 4}, "fb_l < 4");
    int one, four;
    fb_free(text_of(line, FB_DEVICE_CUDA, FB_KNOB_ROWS, 1, &one, NULL));
    fb_free(text_of(line, FB_DEVICE_CUDA, FB_KNOB_ROWS, 4, &four, NULL));
    assert_int_equal(one, 10);
    assert_int_equal(four, 3);
    expect_text(line, FB_DEVICE_CUDA, (setting){FB_KNOB_ROWS, 4}, "fb_g < 4");
}

static void the_schedule_says_them(void **state)
{
    (void)state;
    static const setting set[] = {{FB_KNOB_ROWS, 3}, {FB_KNOB_VECTOR, 4}, {FB_KNOB_THREADS, 2}};
    fb_graph *g = rows();
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = with_knobs(p, "max", set, 3);
    const fb_group *group = fb_plan_group(plan, 0);
    fb_str out = {0};
    fb_schedule_print(group->nest, group->family, &group->knobs, &out);
    const char *says = ", vectors of 4, shared by 2 threads in chunks of 3\n";
    if (!strstr(fb_str_get(&out), says)) fail_msg("no \"%s\" in %s", says, fb_str_get(&out));
    fb_str_free(&out);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
}

static void they_set_the_geometry(void **state)
{
    (void)state;
    int grid, block;
    fb_free(text_of(elements, FB_DEVICE_CUDA, FB_KNOB_THREADS, 128, &grid, &block));
    assert_int_equal(block, 128);
    assert_int_equal(grid, (37 * 250 / 2 + 127) / 128);
    fb_free(text_of(elements, FB_DEVICE_CUDA, FB_KNOB_GRID, 5, &grid, &block));
    assert_int_equal(grid, 5);
    fb_free(text_of(rows, FB_DEVICE_CUDA, FB_KNOB_ROWS, 1, &grid, &block));
    assert_int_equal(grid, 133);
    fb_free(text_of(rows, FB_DEVICE_CUDA, FB_KNOB_ROWS, 16, &grid, &block));
    assert_int_equal(grid, (133 + 15) / 16);
    assert_int_equal(block % 32, 0);
    fb_free(text_of(rows, FB_DEVICE_CUDA, FB_KNOB_THREADS, 64, &grid, &block));
    assert_int_equal(block, 64);
}

/* ---- the prediction ---- */

static fb_graph *long_elements(void)
{
    fb_graph *g = fb_graph_new("long_elements");
    output(g, node1(g, FB_OP_TANH, "t", input(g, "x", DIMS(4096, 1024))));
    return finish(g);
}

static fb_graph *long_rows(void)
{
    fb_graph *g = fb_graph_new("long_rows");
    output(g, node1(g, FB_OP_TANH, "t", layer_norm(g, input(g, "x", DIMS(4096, 256)))));
    return finish(g);
}

static fb_graph *few_rows(void)
{
    fb_graph *g = fb_graph_new("few_rows");
    output(g, node1(g, FB_OP_TANH, "t", layer_norm(g, input(g, "x", DIMS(16, 16384)))));
    return finish(g);
}

/* Each so long that several blocks have it. */
static fb_graph *cut_rows(void)
{
    fb_graph *g = fb_graph_new("cut_rows");
    output(g, node1(g, FB_OP_TANH, "t", layer_norm(g, input(g, "x", DIMS(8, 262144)))));
    return finish(g);
}

/* Few tiles of much depth. */
static fb_graph *deep_product(void)
{
    fb_graph *g = fb_graph_new("deep_product");
    output(g, node1(g, FB_OP_RELU, "relu", linear(g, input(g, "x", DIMS(64, 16384)), 64)));
    return finish(g);
}

/* So little to multiply in each tile that the next one is waited for. */
static fb_graph *narrow(void)
{
    fb_graph *g = fb_graph_new("narrow");
    fb_id x = source(g, FB_OP_INPUT, "x", DIMS(4096, 512), FB_F16);
    fb_id w = source(g, FB_OP_PARAM, "w", DIMS(512, 16), FB_F16);
    output(g, node1(g, FB_OP_RELU, "relu", node2(g, FB_OP_MATMUL, "y", x, w)));
    return finish(g);
}

static fb_graph *product(void)
{
    fb_graph *g = fb_graph_new("product");
    output(g, node1(g, FB_OP_RELU, "relu", linear(g, input(g, "x", DIMS(4096, 1024)), 4096)));
    return finish(g);
}

static fb_graph *many_points(void)
{
    fb_graph *g = fb_graph_new("many_points");
    fb_attrs places = {.dtype = FB_I64, .shape = DIMS(100000), .dist = FB_DIST_INTEGER, .high = 20000};
    fb_id both[] = {input(g, "x", DIMS(100000, 32)), add_node(g, FB_OP_INPUT, "at", &places, 0, NULL)};
    output(g, add_node(g, FB_OP_SCATTER_ADD, "sum", &(fb_attrs){.start = 20000}, 2, both));
    return finish(g);
}

/* A GPU whose clock is known, or a team of cores. */
static fb_planner *planner_of_team(fb_graph *g, fb_device_kind kind)
{
    fb_machine m;
    fb_machine_default(&m, kind);
    m.units = kind == FB_DEVICE_CUDA ? 132 : 8;
    if (kind == FB_DEVICE_CUDA) m.gflops[FB_F32] = 60000;
    return fb_planner_new(g, &m);
}

/* The group's predicted time under a knob (0: automatic); generated. */
static double us_of(fb_graph *(*make)(void), fb_device_kind kind, setting s)
{
    fb_graph *g = make();
    fb_planner *p = planner_of_team(g, kind);
    fb_plan *plan = preset(p, "max"), *generated = NULL;
    fb_group_cost c;
    fb_id node = fb_plan_group(plan, 0)->stored[0];
    fb_plan_try(plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = node}, &generated);
    if (generated) fb_plan_free(plan), plan = generated;
    fb_verdict v = set_knob(&plan, node, s.knob, s.value);
    if (v.kind >= FB_VERDICT_UNSUPPORTED) fail_msg("%s", v.text);
    fb_plan_group_cost(plan, fb_plan_group_of(plan, node), &c);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
    return c.us;
}

/* All of them on both kinds of device, each the way that is known of it. */
static void each_moves_the_prediction(void **state)
{
    (void)state;
    enum { SLOWER = 1, FASTER = -1 };
    static const struct {
        fb_graph *(*make)(void);
        fb_device_kind kind;
        setting set;
        int way;
    } cases[] = {
        {long_elements, FB_DEVICE_CUDA, {FB_KNOB_VECTOR, 1}, SLOWER},
        {long_elements, FB_DEVICE_CUDA, {FB_KNOB_GRID, 4}, SLOWER},
        {long_rows, FB_DEVICE_CUDA, {FB_KNOB_VECTOR, 1}, SLOWER},
        {long_rows, FB_DEVICE_CUDA, {FB_KNOB_GRID, 4}, SLOWER},
        {long_rows, FB_DEVICE_CUDA, {FB_KNOB_ROWS, 1}, SLOWER},
        {few_rows, FB_DEVICE_CUDA, {FB_KNOB_THREADS, 64}, SLOWER},
        {cut_rows, FB_DEVICE_CUDA, {FB_KNOB_PARTS, 1}, SLOWER},
        {product, FB_DEVICE_CUDA, {FB_KNOB_TILE_M, 16}, SLOWER},
        {product, FB_DEVICE_CUDA, {FB_KNOB_TILE_N, 16}, SLOWER},
        {product, FB_DEVICE_CUDA, {FB_KNOB_TILE_K, 8}, SLOWER},
        {narrow, FB_DEVICE_CUDA, {FB_KNOB_STAGES, 2}, SLOWER},
        {deep_product, FB_DEVICE_CUDA, {FB_KNOB_SPLIT_K, 1}, SLOWER},
        {many_points, FB_DEVICE_CUDA, {FB_KNOB_ATOMICS, 1}, FASTER},
        {long_elements, FB_DEVICE_HOST, {FB_KNOB_THREADS, 1}, SLOWER},
        {long_elements, FB_DEVICE_HOST, {FB_KNOB_VECTOR, 2}, SLOWER},
        {long_elements, FB_DEVICE_HOST, {FB_KNOB_ROWS, 1 << 20}, SLOWER},
        {long_rows, FB_DEVICE_HOST, {FB_KNOB_THREADS, 2}, SLOWER},
        {long_rows, FB_DEVICE_HOST, {FB_KNOB_ROWS, 3000}, SLOWER},
    };
    unsigned moved[2] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_device_kind kind = cases[i].kind;
        double automatic = us_of(cases[i].make, kind, (setting){cases[i].set.knob, 0}),
               set = us_of(cases[i].make, kind, cases[i].set);
        if (cases[i].way * (set - automatic) <= 0)
            fail_msg("case %zu: %s = %lld: %g µs, automatic %g", i, fb_knob_name(cases[i].set.knob),
                     (long long)cases[i].set.value, set, automatic);
        moved[kind == FB_DEVICE_HOST] |= 1u << cases[i].set.knob;
    }
    assert_int_equal(moved[0], (1u << FB_KNOBS) - 1);
    assert_int_equal(moved[1], 1u << FB_KNOB_ROWS | 1u << FB_KNOB_VECTOR | 1u << FB_KNOB_THREADS);
}

/* ---- what is refused ---- */

static void refused(fb_graph *(*make)(void), fb_device_kind kind, setting s, const char *says)
{
    fb_graph *g = make();
    fb_planner *p = planner_of(g, kind);
    fb_plan *plan = preset(p, "max");
    fb_verdict v = set_knob(&plan, fb_plan_group(plan, 0)->stored[0], s.knob, s.value);
    if (v.kind != FB_VERDICT_ILLEGAL || v.rule != FB_RULE_KNOB || !strstr(v.text, says))
        fail_msg("%s = %lld: %s, expected \"%s\"", fb_knob_name(s.knob), (long long)s.value, v.text, says);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    refused(elements, FB_DEVICE_CUDA, (setting){FB_KNOB_THREADS, 100}, "a multiple of 32");
    refused(elements, FB_DEVICE_CUDA, (setting){FB_KNOB_THREADS, 2048}, "from 32 to 1024");
    refused(elements, FB_DEVICE_CUDA, (setting){FB_KNOB_VECTOR, 8}, "16 bytes at once");
    refused(elements, FB_DEVICE_CUDA, (setting){FB_KNOB_PARTS, 4}, "no knob `parts` on a GPU");
    refused(rows, FB_DEVICE_CUDA, (setting){FB_KNOB_ROWS, 5}, "a power of two");
    refused(rows, FB_DEVICE_HOST, (setting){FB_KNOB_GRID, 5}, "no knob `grid` on the host");
    refused(rows, FB_DEVICE_HOST, (setting){FB_KNOB_STAGES, 2}, "no knob `stages`");
}

/* ---- another target ---- */

/* A grid of threads, and nothing else that a GPU may have: as another vendor's would begin. */
static void a_plain_grid(void **state)
{
    (void)state;
    static const fb_dtype dtypes[] = {FB_F32, FB_F16};
    fb_target plain = fb_target_cuda;
    plain.tiles = plain.keeps = plain.streams = plain.clusters = plain.library_epilogues = plain.grid_barrier = false;
    for (int i = 0; i < 2; i++) {
        fb_error err = {0};
        fb_graph *g = fb_graph_new("plain");
        fb_id x = source(g, FB_OP_INPUT, "x", DIMS(8, 262144), dtypes[i]);
        fb_id a = source(g, FB_OP_INPUT, "a", DIMS(512, 64), dtypes[i]);
        fb_id w = source(g, FB_OP_PARAM, "w", DIMS(64, 512), dtypes[i]);
        fb_id v = source(g, FB_OP_PARAM, "v", DIMS(512, 64), dtypes[i]);
        fb_id s = node2(g, FB_OP_MATMUL, "first", a, w);
        fb_id e = node1(g, FB_OP_EXP, "e", node2(g, FB_OP_SUB, "d", s, over_axis(g, FB_OP_AMAX, "most", s, 1, true)));
        fb_id y = node2(g, FB_OP_DIV, "y", e, over_axis(g, FB_OP_SUM, "sum", e, 1, true));
        output(g, node1(g, FB_OP_TANH, "t", layer_norm(g, x)));
        output(g, node2(g, FB_OP_MATMUL, "second", y, v));
        g = finish(g);
        fb_machine m;
        fb_machine_default(&m, plain.kind);
        m.target = &plain;
        fb_planner *p = fb_planner_new(g, &m);
        fb_plan *plan = preset(p, "max");
        fb_program *program = fb_lower(plan, &plain, &err);
        if (!program) fail_msg("%s", err.text);
        assert_true(program->n_kernels > 0);
        for (int k = 0; k < program->n_kernels; k++)
            assert_null(fb_program_kernel_piece(&plain, &program->kernels[k], 0)); /* stands on the prelude alone */
        fb_program_free(program);
        fb_plan_free(plan);
        fb_planner_free(p);
        fb_graph_free(g);
    }
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
        cmocka_unit_test(the_host_stays_right),
        cmocka_unit_test(a_kernel_that_stores_many_values_is_one_section),
        cmocka_unit_test(they_are_seen_in_the_text),
        cmocka_unit_test(they_set_the_geometry),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(the_schedule_says_them),
        cmocka_unit_test(a_plain_grid),
        cmocka_unit_test(each_moves_the_prediction),
    };
    return cmocka_run_group_tests(tests, set_up, remove_scratch);
}
