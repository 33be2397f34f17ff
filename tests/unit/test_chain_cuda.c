/* Chains for a GPU: by execution on an emulated one against the interpreter, and what is refused. FB_KEEP prints the
 * text of a kernel that is wrong. */
#include "unit/chain_cases.h"
#include "unit/emulate_cuda.h"

/* units: multiprocessors; few are busy with few rows. */
static fb_plan *plan_for(fb_graph *g, fb_planner **planner, const char *preset, int units, int capability)
{
    fb_machine m;
    fb_error err = {0};
    fb_machine_default(&m, FB_DEVICE_CUDA);
    m.units = units;
    m.compute_major = capability;
    *planner = fb_planner_new(g, &m);
    fb_plan *plan = fb_preset_find(preset)->make(*planner, &err);
    assert_non_null(plan);
    return plan;
}

static fb_plan *plan_of(fb_graph *g, fb_planner **planner, const char *preset)
{
    return plan_for(g, planner, preset, 132, 9);
}

static void check_run(int which, const unit *u, int number, const fb_program *p, const fb_graph *g)
{
    char text[512];
    if (!runs_right(u, number, p, g, text)) fail_msg("case %d: %s", which, text);
}

static void test_emulated(void **state)
{
    (void)state;
    if (!emulation_exists()) {
        print_message("# skipped: there is no C++ compiler\n");
        skip();
    }
    fb_graph *graphs[] = {
        mlp(0, 33, 40, 72, 24, FB_BF16),
        mlp(0, 65, 33, 100, 7, FB_F16),
        mlp(3, 7, 16, 33, 33, FB_F32),
        mlp(0, 70, 9, 65, 17, FB_F64),
        mlp(0, 70, 40, 100, 72, FB_BF16), /* rows of `h` whole, with columns beyond it */
        mlp(2, 33, 33, 64, 129, FB_F16),
        attention(2, 33, 65, 16, NO_MASK, FB_F16),
        attention(2, 40, 100, 24, ADDED, FB_BF16),
        attention(3, 33, 33, 7, CAUSAL, FB_F32),
        attention(1, 65, 129, 33, CAUSAL, FB_F16),
        attention(2, 7, 33, 5, ADDED, FB_F64),
    };
    enum { CASES = sizeof graphs / sizeof *graphs };
    unit u = {0};
    fb_program *programs[CASES];
    int number[CASES];
    for (int i = 0; i < CASES; i++) {
        fb_error err;
        fb_planner *planner;
        fb_plan *plan = plan_of(graphs[i], &planner, "max");
        assert_int_equal(fb_plan_groups(plan), 1);
        assert_int_equal(fb_plan_group(plan, 0)->family, FB_FAMILY_CHAIN);
        programs[i] = fb_lower(plan, &fb_target_cuda, &err);
        if (!programs[i]) fail_msg("%s", err.text);
        number[i] = unit_add_cuda(&u, programs[i]);
        fb_plan_free(plan);
        fb_planner_free(planner);
    }
    unit_emulate(&u);
    for (int i = 0; i < CASES; i++) {
        check_run(i, &u, number[i], programs[i], graphs[i]);
        fb_program_free(programs[i]);
        fb_graph_free(graphs[i]);
    }
    unit_free(&u);
}

/* Whole warpgroups multiply where the device can, sizes suit, and rows keep it busy. */
static void test_wide(void **state)
{
    (void)state;
    if (!emulation_exists()) {
        print_message("# skipped: there is no C++ compiler\n");
        skip();
    }
    struct {
        fb_graph *g;
        int units;
    } cases[] = {
        {mlp(0, 200, 128, 256, 128, FB_BF16), 2},
        {mlp(0, 130, 264, 200, 72, FB_F16), 2}, /* strips that are partly outside; more steps than stages */
        {mlp(3, 64, 64, 64, 64, FB_BF16), 3},   /* one warpgroup multiplies */
        {mlp(0, 70, 67, 129, 65, FB_F16), 1},   /* no pieces of 16 bytes */
        {mlp_turned(256, 72, 192, 136, FB_F16), 2},
        {mlp_turned(100, 64, 100, 320, FB_BF16), 1},
    };
    enum { CASES = sizeof cases / sizeof *cases };
    unit u = {0};
    fb_program *programs[CASES];
    int number[CASES];
    for (int i = 0; i < CASES; i++) {
        fb_error err;
        for (int capability = 8; capability <= 9; capability++) {
            fb_planner *planner;
            fb_plan *plan = plan_for(cases[i].g, &planner, "max", cases[i].units, capability);
            programs[i] = fb_lower(plan, &fb_target_cuda, &err);
            if (!programs[i]) fail_msg("%s", err.text);
            assert_int_equal(programs[i]->n_kernels, 1);
            bool wide = strstr(programs[i]->kernels[0].source, "fb_chain_wide");
            if (wide != (capability == 9)) fail_msg("case %d, capability %d: %d", i, capability, wide);
            if (!wide) fb_program_free(programs[i]);
            fb_plan_free(plan);
            fb_planner_free(planner);
        }
        number[i] = unit_add_cuda(&u, programs[i]);
    }
    unit_emulate(&u);
    for (int i = 0; i < CASES; i++) {
        check_run(i, &u, number[i], programs[i], cases[i].g);
        fb_program_free(programs[i]);
        fb_graph_free(cases[i].g);
    }
    unit_free(&u);
}

/* Scores a tile at a time in whole warpgroups: lengths and widths that are no multiples, hidden tiles, rows that see
 * nothing. */
static void test_attention(void **state)
{
    (void)state;
    if (!emulation_exists()) {
        print_message("# skipped: there is no C++ compiler\n");
        skip();
    }
    struct {
        fb_graph *g;
        int units;
    } cases[] = {
        {attention(2, 64, 128, 64, NO_MASK, FB_BF16), 1}, /* one warpgroup multiplies */
        {attention(1, 256, 256, 64, CAUSAL, FB_BF16), 1}, /* two of them, and tiles that are left out */
        {attention(2, 200, 300, 40, CAUSAL, FB_F16), 2},  /* more columns than rows */
        {attention(1, 129, 77, 33, ADDED, FB_F16), 1},    /* no pieces of 16 bytes, one tile */
        {attention(1, 130, 500, 128, ADDED, FB_BF16), 1}, /* more tiles than stages */
        {attention(1, 70, 200, 200, CAUSAL, FB_BF16), 1}, /* narrow tiles */
        {attention(2, 100, 190, 32, WINDOW, FB_F16), 1},  /* a window */
        {attention(1, 140, 600, 64, LATE, FB_BF16), 1},   /* rows that see nothing */
        {attention(5, 136, 140, 32, CAUSAL, FB_BF16), 2}, /* ten blocks of rows for two that stay */
        {attention(1, 390, 70, 16, NO_MASK, FB_F16), 1},  /* four for one, of one tile each */
        /* widths that are no whole strips: one and a half, an eight beyond one, less than one; k that is no whole 16s */
        {attention(2, 130, 384, 96, NO_MASK, FB_BF16), 1},
        {attention(1, 256, 256, 96, CAUSAL, FB_F16), 1},
        {attention(1, 260, 300, 80, CAUSAL, FB_BF16), 1},
        {attention(1, 130, 200, 80, WINDOW, FB_F16), 2},
        {attention(3, 136, 256, 72, NO_MASK, FB_F16), 2}, /* zeros beyond k outlast blocks of rows */
        {attention(1, 200, 260, 72, CAUSAL, FB_BF16), 1},
        {attention(1, 130, 256, 40, NO_MASK, FB_BF16), 1},
        {attention(1, 64, 100, 112, LATE, FB_BF16), 1},
        {attention(1, 70, 130, 136, NO_MASK, FB_F16), 1}, /* of two instructions the second has one eight */
        {attention(1, 130, 129, 77, CAUSAL, FB_BF16), 1}, /* no pieces, and the last eight is not whole */
        {attention_turned(1, 130, 200, 72, FB_BF16), 1},  /* contiguous along rows and scores */
        {attention_turned(2, 64, 128, 96, FB_F16), 2},
        /* what comes eight elements at once: whole tiles, a part of one, narrow ones, one warpgroup */
        {attention(1, 130, 256, 64, ADDED, FB_BF16), 1},
        {attention(2, 100, 200, 64, CHOSEN, FB_F16), 1},
        {attention(1, 70, 168, 200, CHOSEN, FB_BF16), 1},
        {attention(2, 64, 104, 40, PADDED, FB_F16), 1},
        {attention(1, 130, 256, 96, ADDED, FB_F16), 1},
        {attention(1, 140, 136, 72, CHOSEN, FB_BF16), 1},
    };
    enum { CASES = sizeof cases / sizeof *cases, TOGETHER = 6 };
    unit u = {0};
    fb_program *programs[CASES];
    int number[CASES];
    for (int i = 0; i < CASES; i++) {
        fb_error err;
        fb_planner *planner;
        fb_plan *plan = with_tile_k(plan_for(cases[i].g, &planner, "max", cases[i].units, 9), cases[i].g, "mixed", 64);
        programs[i] = fb_lower(plan, &fb_target_cuda, &err);
        if (!programs[i]) fail_msg("%s", err.text);
        assert_int_equal(programs[i]->n_kernels, 1);
        if (!strstr(programs[i]->kernels[0].source, "fb_attention<")) fail_msg("case %d", i);
        bool together = strstr(programs[i]->kernels[0].source, "(&fb_c)[8]");
        if (together != (i >= CASES - TOGETHER)) fail_msg("case %d: %d", i, together);
        fb_plan_free(plan);
        fb_planner_free(planner);
        number[i] = unit_add_cuda(&u, programs[i]);
    }
    unit_emulate(&u);
    for (int i = 0; i < CASES; i++) {
        check_run(i, &u, number[i], programs[i], cases[i].g);
        fb_program_free(programs[i]);
        fb_graph_free(cases[i].g);
    }
    unit_free(&u);
}

/* Knob tile_k says which way, where there are two. */
static void a_knob_chooses(void **state)
{
    (void)state;
    static const struct {
        int64_t tile_k;
        bool wide;
    } cases[] = {{0, true}, {32, false}, {64, true}};
    fb_graph *g = mlp(0, 256, 128, 128, 128, FB_BF16);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_error err;
        fb_planner *planner;
        fb_plan *plan = plan_for(g, &planner, "max", 2, 9);
        plan = with_tile_k(plan, g, "h", cases[i].tile_k);
        fb_program *p = fb_lower(plan, &fb_target_cuda, &err);
        if (!p) fail_msg("%s", err.text);
        assert_int_equal(strstr(p->kernels[0].source, "fb_chain_wide") != NULL, cases[i].wide);
        fb_program_free(p);
        fb_plan_free(plan);
        fb_planner_free(planner);
    }
    fb_graph_free(g);
}

/* Tiles that are left out, and the choice by size: short rows of scores go the other way. */
static void a_mask_leaves_tiles_out(void **state)
{
    (void)state;
    static const struct {
        mask_kind mask;
        int64_t rows, keys;
        bool attends, asks;
    } cases[] = {
        {CAUSAL, 1024, 1024, true, true}, {WINDOW, 1024, 1024, true, true},   {LATE, 600, 600, true, true},
        {ADDED, 600, 600, true, false},   {NO_MASK, 1024, 1024, true, false}, {CAUSAL, 200, 256, true, true},
        {CAUSAL, 1024, 128, true, true},  {CAUSAL, 512, 512, true, true},     {CAUSAL, 60, 256, false, false},
        {CAUSAL, 1024, 60, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_error err;
        fb_planner *planner;
        fb_graph *g = attention(200, cases[i].rows, cases[i].keys, 64, cases[i].mask, FB_BF16);
        fb_plan *plan = plan_for(g, &planner, "max", 132, 9);
        fb_program *p = fb_lower(plan, &fb_target_cuda, &err);
        if (!p) fail_msg("%s", err.text);
        const char *text = p->kernels[0].source;
        assert_int_equal(strstr(text, "fb_attention<") != NULL, cases[i].attends);
        assert_int_equal(strstr(text, "< 0) return 0;") != NULL, cases[i].asks);
        fb_program_free(p);
        fb_plan_free(plan);
        fb_planner_free(planner);
        fb_graph_free(g);
    }
}

static fb_verdict fuse(fb_graph *g, const char *a, const char *b)
{
    fb_planner *planner;
    fb_plan *plan = plan_of(g, &planner, "max");
    fb_edit e = {.kind = FB_EDIT_FUSE, .a = fb_graph_find(g, a), .b = fb_graph_find(g, b)};
    assert_true(e.a != FB_NONE && e.b != FB_NONE);
    fb_verdict v = fb_plan_try(plan, &e, NULL);
    fb_plan_free(plan);
    fb_planner_free(planner);
    fb_graph_free(g);
    return v;
}

static void says(fb_verdict v, const char *part)
{
    if (v.kind == FB_VERDICT_UNSUPPORTED && strstr(v.text, part)) return;
    fail_msg("%s: %s", fb_verdict_kind_name(v.kind), v.text);
}

static void what_does_not_fit_is_said_in_numbers(void **state)
{
    (void)state;
    says(fuse(mlp(0, 1024, 8192, 48, 256, FB_BF16), "h", "second"),
         "the 8192-wide rows that `first` is made of take 16.4 kB each: a block would keep 32 of them and "
         "a tile of both right operands, ");
    says(fuse(mlp(0, 1024, 256, 256, 2048, FB_BF16), "h", "second"),
         "a row of `second` is 2048 wide: its sums would take 1032 of a thread's 255 registers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_emulated),           cmocka_unit_test(test_wide),
        cmocka_unit_test(test_attention),          cmocka_unit_test(a_knob_chooses),
        cmocka_unit_test(a_mask_leaves_tiles_out), cmocka_unit_test(what_does_not_fit_is_said_in_numbers),
    };
    return cmocka_run_group_tests_name("chain_cuda", tests, NULL, NULL);
}
