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

static void run_case(const struct gemm_case *c)
{
    fb_error err;
    fb_graph *g = gemm_graph(c);
    fb_planner *planner = planner_of(g);
    fb_plan *plan = gemm_plan(planner, c);
    fb_program *p = fb_lower(plan, &fb_dialect_cuda, &err);
    if (!p) fail_msg("%s: %s", c->name, err.text);
    unit u = {0};
    unit_emulate(&u, p);
    fb_interp *reference = fb_interp_run(g, &(fb_interp_options){.seed = 3, .bounds = true}, NULL, 0, &err);
    if (!reference) fail_msg("%s", err.text);
    char text[512], *storage;
    void **buffers = run_program(&u, 0, p, g, 3, &storage);
    bool right = check_program(p, buffers, g, reference, text);
    if (!right && getenv("FB_KEEP")) fprintf(stderr, "%s\n", p->kernels[0].source);
    if (!right) fail_msg("%s: %s", c->name, text);
    fb_free(storage);
    fb_free(buffers);
    fb_interp_free(reference);
    unit_free(&u);
    fb_program_free(p);
    fb_plan_free(plan);
    fb_planner_free(planner);
    fb_graph_free(g);
}

static void test_emulated(void **state)
{
    (void)state;
    if (!emulation_exists()) {
        print_message("# skipped: there is no C++ compiler\n");
        skip();
    }
    const char *only = getenv("FB_ONLY");
    for (int i = 0; i < GEMM_CASES; i++)
        if (!only || strstr(gemm_cases[i].name, only)) run_case(&gemm_cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_emulated)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
