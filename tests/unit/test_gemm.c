/* Family gemm: its kernels by execution on an emulated GPU against the interpreter, and what it refuses. FB_KEEP prints
 * the text of a kernel that is wrong. */
#include "unit/emulate_cuda.h"
#include "unit/gemm_cases.h"

static fb_planner *planner_of(const fb_graph *g)
{
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    return fb_planner_new(g, &m);
}

static fb_program *lowered(const char *name, const fb_plan *plan)
{
    fb_error err;
    fb_program *p = fb_lower(plan, &fb_dialect_cuda, &err);
    if (!p) fail_msg("%s: %s", name, err.text);
    return p;
}

static void check_run(const char *name, const unit *u, int number, const fb_program *p, const fb_graph *g)
{
    fb_error err;
    fb_interp *reference = fb_interp_run(g, &(fb_interp_options){.seed = 3, .bounds = true}, NULL, 0, &err);
    if (!reference) fail_msg("%s", err.text);
    char text[512], *storage;
    void **buffers = run_program(u, number, p, g, 3, &storage);
    bool right = check_program(p, buffers, g, reference, text);
    if (!right && getenv("FB_KEEP")) fprintf(stderr, "%s\n", p->kernels[0].source);
    if (!right) fail_msg("%s: %s", name, text);
    fb_free(storage);
    fb_free(buffers);
    fb_interp_free(reference);
}

static void test_emulated(void **state)
{
    (void)state;
    if (!emulation_exists()) {
        print_message("# skipped: there is no C++ compiler\n");
        skip();
    }
    const char *only = getenv("FB_ONLY");
    unit u = {0};
    fb_graph *graphs[GEMM_CASES];
    fb_program *programs[GEMM_CASES] = {0};
    int number[GEMM_CASES];
    for (int i = 0; i < GEMM_CASES; i++) {
        if (only && !strstr(gemm_cases[i].name, only)) continue;
        graphs[i] = gemm_graph(&gemm_cases[i]);
        fb_planner *planner = planner_of(graphs[i]);
        fb_plan *plan = gemm_plan(planner, &gemm_cases[i]);
        programs[i] = lowered(gemm_cases[i].name, plan);
        number[i] = unit_add_cuda(&u, programs[i]);
        fb_plan_free(plan);
        fb_planner_free(planner);
    }
    unit_emulate(&u);
    for (int i = 0; i < GEMM_CASES; i++) {
        if (!programs[i]) continue;
        check_run(gemm_cases[i].name, &u, number[i], programs[i], graphs[i]);
        fb_program_free(programs[i]);
        fb_graph_free(graphs[i]);
    }
    unit_free(&u);
}

/* ---- library calls that accumulate ---- */

static fb_plan *fused(fb_plan *plan, fb_id a, fb_id b)
{
    fb_verdict v;
    fb_plan *next = try_edit(plan, &(fb_edit){.kind = FB_EDIT_FUSE, .a = a, .b = b}, &v);
    if (!next) fail_msg("%s", v.text);
    return next;
}

static fb_id find(const fb_graph *g, const char *name)
{
    fb_id id = fb_graph_find(g, name);
    if (id == FB_NONE) fail_msg("no node %s", name);
    return id;
}

/* relu(x W + 0.5 (u B) + bias), the sum a library call's own: of either product. */
static void test_library_accumulates(void **state)
{
    (void)state;
    for (int scaled_last = 0; scaled_last < 2; scaled_last++) {
        fb_graph *g = fb_graph_new("lora");
        fb_id x = in(g, "x", FB_F32, SHAPE(2, 20, 24)), w = in(g, "w", FB_F32, SHAPE(24, 40));
        fb_id u = in(g, "u", FB_F32, SHAPE(2, 20, 8)), b = in(g, "b", FB_F32, SHAPE(8, 40));
        fb_id update =
            NODE(g, FB_OP_MUL, "scaled", NULL, NODE(g, FB_OP_MATMUL, "thin", NULL, u, b), constant(g, FB_F32, 0.5));
        fb_id sum = NODE(g, FB_OP_ADD, "sum", NULL, NODE(g, FB_OP_MATMUL, "wide", NULL, x, w), update);
        fb_id biased = NODE(g, FB_OP_ADD, "biased", NULL, sum, in(g, "bias", FB_F32, SHAPE(40)));
        g = with_output(g, NODE(g, FB_OP_RELU, "relu", NULL, biased));
        fb_planner *planner = planner_of(g);
        fb_plan *plan = fused(fb_plan_new(planner), find(g, "thin"), find(g, "scaled"));
        plan = fused(plan, find(g, scaled_last ? "scaled" : "wide"), find(g, "sum"));
        plan = fused(fused(plan, find(g, "sum"), find(g, "biased")), find(g, "biased"), find(g, "relu"));
        assert_int_equal(fb_plan_groups(plan), 2);
        for (int i = 0; i < 2; i++) assert_int_equal(fb_plan_group(plan, i)->family, FB_FAMILY_LIBRARY);
        fb_program *p = lowered("accumulated", plan);
        check_run("accumulated", NULL, 0, p, g); /* library calls alone */
        fb_program_free(p);
        fb_plan_free(plan);
        fb_planner_free(planner);
        fb_graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_library_accumulates), cmocka_unit_test(test_emulated)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
