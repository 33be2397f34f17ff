/* Family gemm: its kernels by execution on an emulated GPU against the interpreter, and what it refuses. FB_KEEP prints
 * the text of a kernel that is wrong. */
#include "schedule/gemm.h"
#include "unit/emulate_cuda.h"
#include "unit/gemm_cases.h"
#include "unit/turn.h"

static fb_planner *planner_for(const fb_graph *g, const struct gemm_case *c)
{
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    m = gemm_machine(&m, c);
    return fb_planner_new(g, &m);
}

static fb_planner *planner_of(const fb_graph *g)
{
    return planner_for(g, &(struct gemm_case){0});
}

static fb_program *lowered(const char *name, const fb_plan *plan)
{
    fb_error err;
    fb_program *p = fb_lower(plan, &fb_target_cuda, &err);
    if (!p) fail_msg("%s: %s", name, err.text);
    return p;
}

static void check_run(const char *name, const unit *u, int number, const fb_program *p, const fb_graph *g)
{
    char text[512];
    if (!runs_right(u, number, p, g, text)) fail_msg("%s: %s", name, text);
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
        if (only ? !strstr(gemm_cases[i].name, only) : !is_our_turn((unsigned)i)) continue;
        graphs[i] = gemm_graph(&gemm_cases[i]);
        fb_planner *planner = planner_for(graphs[i], &gemm_cases[i]);
        fb_plan *plan = gemm_plan(planner, &gemm_cases[i]);
        programs[i] = lowered(gemm_cases[i].name, plan);
        const char *source = programs[i]->kernels[0].source;
        bool wide = strncmp(gemm_cases[i].name, "wide", 4) == 0, uneven = strstr(gemm_cases[i].name, "uneven"),
             pairs = wide && strstr(gemm_cases[i].name, "pair");
        const char *shared_by = strstr(gemm_cases[i].name, "shared by");
        if (!strstr(source, "fb_gemm_wide<") != !uneven || !strstr(source, "fb_gemm_tma<") != !(wide && !uneven) ||
            (pairs && programs[i]->kernels[0].needs.cluster != 2) ||
            (shared_by && programs[i]->kernels[0].needs.cluster != atoi(shared_by + sizeof "shared by")))
            fail_msg("%s: another tile", gemm_cases[i].name);
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

/* Few rows by windows are read where they lie, unless somebody asks for a tile. */
static void test_windows_are_read_where_they_lie(void **state)
{
    (void)state;
    int seen = 0;
    for (int i = 0; i < GEMM_CASES; i++) {
        if (!strstr(gemm_cases[i].name, "windows")) continue;
        fb_graph *g = gemm_graph(&gemm_cases[i]);
        fb_planner *planner = planner_of(g);
        fb_plan *plan = gemm_plan(planner, &gemm_cases[i]);
        const fb_group *group = fb_plan_group(plan, 0);
        const fb_gemm_tile t = fb_gemm_tile_had(group->nest, &group->knobs);
        if (t.direct != (gemm_cases[i].knobs[0].value == 0)) fail_msg("%s", gemm_cases[i].name);
        bool by_periods = t.direct && !strstr(gemm_cases[i].name, "odd");
        bool small = strstr(gemm_cases[i].name, "small") != NULL;
        if (small && !t.joined) fail_msg("%s: tiles end with an image", gemm_cases[i].name);
        if (t.period != (by_periods ? 9 : 0)) fail_msg("%s: periods of %d", gemm_cases[i].name, t.period);
        seen++;
        fb_plan_free(plan);
        fb_planner_free(planner);
        fb_graph_free(g);
    }
    assert_int_equal(seen, 6);
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

/* ---- what is refused, and what max makes of it ---- */

typedef struct {
    fb_graph *g;
    fb_planner *planner;
    fb_plan *plan;
} planned;

/* `none`, with contractions that are to be generated. */
static planned generated(fb_graph *g)
{
    planned p = {.g = g, .planner = planner_of(g)};
    p.plan = fb_plan_new(p.planner);
    fb_verdict v;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (fb_node_class(g, i) != FB_CLASS_CONTRACTION) continue;
        p.plan = try_edit(p.plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = i, .b = FB_NONE}, &v);
        if (!p.plan) fail_msg("%s", v.text);
    }
    return p;
}

static void planned_free(planned *p)
{
    fb_plan_free(p->plan);
    fb_planner_free(p->planner);
    fb_graph_free(p->g);
}

/* All nodes in one kernel: refused, and the sentence has these words. */
static void refused(fb_graph *g, fb_rule rule, const char *words)
{
    planned p = generated(g);
    FB_VEC(fb_id) nodes = {0};
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (fb_node_is_computed(g, i)) FB_VEC_PUSH(&nodes, i);
    fb_verdict v =
        fb_plan_try(p.plan, &(fb_edit){.kind = FB_EDIT_FUSE_ALL, .n_nodes = nodes.n, .nodes = nodes.at}, NULL);
    if (v.kind != FB_VERDICT_UNSUPPORTED || v.rule != rule || !strstr(v.text, words))
        fail_msg("not \"%s\" but %s: %s", words, fb_verdict_kind_name(v.kind), v.text);
    FB_VEC_FREE(&nodes);
    planned_free(&p);
}

static void test_refusals(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("long rows");
    fb_id x = in(g, "x", FB_F32, SHAPE(64, 32));
    refused(with_output(g, softmax(g, MATMUL(x, in(g, "w", FB_F32, SHAPE(32, 4096))))), FB_RULE_REDUCED_FIRST,
            "4096 columns, and a tile holds at most 1024");
    g = fb_graph_new("strangers");
    fb_id y = MATMUL(in(g, "x", FB_F32, SHAPE(640, 320)), in(g, "w", FB_F32, SHAPE(320, 480)));
    x = MATMUL(in(g, "u", FB_F32, SHAPE(640, 320)), in(g, "v", FB_F32, SHAPE(320, 480)));
    refused(with_output(g, OP2(MUL, x, y)), FB_RULE_CONTRACTION, "half of a tile would be empty");
    g = fb_graph_new("rows of another");
    x = MATMUL(in(g, "x", FB_F32, SHAPE(640, 320)), in(g, "w", FB_F32, SHAPE(320, 640)));
    refused(with_output(g, OP2(ADD, x, OP1(RELU, turned(g, x)))), FB_RULE_CONTRACTION,
            "a tile of products goes row by row");
    g = fb_graph_new("norm before");
    x = layer_norm(g, in(g, "x", FB_F32, SHAPE(64, 512)));
    refused(with_output(g, MATMUL(x, in(g, "w", FB_F32, SHAPE(512, 64)))), FB_RULE_REDUCED_FIRST,
            "would have to stay on chip, and a block has 232 kB there");
    g = fb_graph_new("largest before");
    x = in(g, "x", FB_F32, SHAPE(64, 512));
    fb_id largest = NODE(g, FB_OP_AMAX, NULL, (&(fb_attrs){.n_axes = 2, .axes = {0, 1}}), x);
    refused(with_output(g, MATMUL(OP2(SUB, x, largest), in(g, "w", FB_F32, SHAPE(512, 64)))), FB_RULE_REDUCED_FIRST,
            "needs 32768 elements before its first: it has to be stored");
}

static void knob_refused(const planned *p, fb_id a, fb_knob knob, int64_t value, const char *words)
{
    fb_edit e = {.kind = FB_EDIT_KNOB, .a = a, .b = FB_NONE, .knob = knob, .value = value};
    fb_verdict v = fb_plan_try(p->plan, &e, NULL);
    if (v.kind < FB_VERDICT_UNSUPPORTED || !strstr(v.text, words)) fail_msg("not \"%s\" but: %s", words, v.text);
}

static void test_knobs(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("knobs");
    fb_id x = in(g, "x", FB_F16, SHAPE(512, 4096)), w = in(g, "w", FB_F16, SHAPE(4096, 8192));
    planned p = generated(with_output(g, NODE(g, FB_OP_MATMUL, "product", NULL, x, w)));
    fb_id product = find(p.g, "product");
    knob_refused(&p, product, FB_KNOB_STAGES, 1, "is 2 at least");
    knob_refused(&p, product, FB_KNOB_TILE_K, 8, "multiple of 16");
    knob_refused(&p, product, FB_KNOB_SPLIT_K, 128, "would take 2048 MiB, and 64 are the most");
    knob_refused(&p, product, FB_KNOB_VECTOR, 4, "have no knob");
    fb_edit larger = {.kind = FB_EDIT_KNOB, .a = product, .b = FB_NONE, .knob = FB_KNOB_TILE_M, .value = 256};
    fb_edit deeper = {.kind = FB_EDIT_KNOB, .a = product, .b = FB_NONE, .knob = FB_KNOB_TILE_K, .value = 128};
    fb_verdict v;
    p.plan = try_edit(p.plan, &larger, &v);
    if (!p.plan) fail_msg("%s", v.text);
    knob_refused(&p, product, FB_KNOB_TILE_N, 256, "more registers than a multiprocessor has");
    p.plan = try_edit(p.plan, &deeper, &v);
    if (!p.plan) fail_msg("%s", v.text);
    knob_refused(&p, product, FB_KNOB_STAGES, 8, "KiB of shared memory");
    planned_free(&p);
}

/* What max makes of `product`; takes the graph. */
static fb_family family_by_max(fb_graph *g, fb_device_kind device)
{
    fb_error err;
    fb_machine m;
    fb_machine_default(&m, device);
    fb_planner *planner = fb_planner_new(g, &m);
    fb_plan *plan = fb_preset_find("max")->make(planner, &err);
    fb_family family = fb_plan_group(plan, fb_plan_group_of(plan, find(g, "product")))->family;
    fb_plan_free(plan);
    fb_planner_free(planner);
    fb_graph_free(g);
    return family;
}

/* bias and gelu after a product of `rows` rows, `depth` terms a sum: what max makes of it. */
static fb_family family_of_max(fb_device_kind device, int64_t rows, int64_t depth)
{
    fb_graph *g = fb_graph_new("dense");
    fb_id product = NODE(g, FB_OP_MATMUL, "product", NULL, in(g, "x", FB_F32, SHAPE(rows, depth)),
                         in(g, "w", FB_F32, SHAPE(depth, 256)));
    return family_by_max(with_output(g, OP1(GELU, OP2(ADD, product, in(g, "b", FB_F32, SHAPE(256))))), device);
}

/* Two layers 256 wide: what max makes of the second on a large GPU. */
static fb_family family_of_layers(fb_dtype dtype, int64_t rows)
{
    fb_graph *g = fb_graph_new("layers");
    fb_id one = OP2(MATMUL, in(g, "x", dtype, SHAPE(rows, 256)), in(g, "w1", dtype, SHAPE(256, 256)));
    fb_id hidden = OP1(RELU, OP2(ADD, one, in(g, "b1", dtype, SHAPE(256))));
    fb_id product = NODE(g, FB_OP_MATMUL, "product", NULL, hidden, in(g, "w2", dtype, SHAPE(256, 256)));
    g = with_output(g, OP1(SIGMOID, OP2(ADD, product, in(g, "b2", dtype, SHAPE(256)))));
    return family_by_max(g, FB_DEVICE_CUDA);
}

static void test_max_weighs(void **state)
{
    (void)state;
    assert_int_equal(family_of_max(FB_DEVICE_CUDA, 128, 64), FB_FAMILY_GEMM);
    assert_int_equal(family_of_max(FB_DEVICE_CUDA, 16384, 64), FB_FAMILY_GEMM);
    assert_int_equal(family_of_max(FB_DEVICE_CUDA, 16384, 8192), FB_FAMILY_LIBRARY);
    assert_int_equal(family_of_max(FB_DEVICE_HOST, 128, 64), FB_FAMILY_LIBRARY);
    assert_int_equal(family_of_layers(FB_BF16, 16384), FB_FAMILY_CHAIN);
    assert_int_equal(family_of_layers(FB_BF16, 1024), FB_FAMILY_CHAIN);
    assert_int_not_equal(family_of_layers(FB_F32, 1024), FB_FAMILY_CHAIN);
}

/* Whole warpgroups multiply where the device can, by tiles that reach its multiprocessors: not a short k, not few rows, no
 * operand that is made or whose lines begin anywhere, and in halves alone. */
static void test_warpgroups_multiply(void **state)
{
    (void)state;
    static const struct {
        int64_t rows, k, columns;
        fb_dtype dtype;
        int capability, m, n, split; /* rows and columns of a tile, and blocks that share its steps; 0: the other way */
    } cases[] = {
        {4096, 4096, 4096, FB_BF16, 9, 128, 256, 1}, {4096, 4096, 4096, FB_BF16, 8, 0, 0, 1},
        {4096, 4096, 4096, FB_F32, 9, 0, 0, 1},      {2048, 512, 2048, FB_F16, 9, 128, 256, 1},
        {1024, 768, 3072, FB_BF16, 9, 128, 192, 1},  {1024, 768, 768, FB_BF16, 9, 128, 64, 1},
        {512, 1024, 1024, FB_F16, 9, 64, 64, 1},     {2048, 768, 768, FB_F16, 9, 128, 128, 1},
        {127, 1024, 1024, FB_F16, 9, 0, 0, 1},       {8192, 128, 8192, FB_F16, 9, 128, 192, 1},
        {8192, 32, 8192, FB_F16, 9, 0, 0, 1},        {1024, 128, 2048, FB_F16, 9, 0, 0, 1},
        {4096, 1000, 4104, FB_F16, 9, 128, 128, 1},  {4096, 1000, 4100, FB_F16, 9, 0, 0, 1},
        {4096, 1001, 4096, FB_F16, 9, 0, 0, 1},      {1024, 3072, 768, FB_BF16, 9, 128, 128, 2},
        {768, 8192, 768, FB_F16, 9, 128, 256, 4},    {512, 4096, 1024, FB_BF16, 9, 128, 64, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_graph *g = fb_graph_new("product");
        fb_id x = in(g, "x", cases[i].dtype, SHAPE(cases[i].rows, cases[i].k));
        fb_id w = in(g, "w", cases[i].dtype, SHAPE(cases[i].k, cases[i].columns));
        g = with_output(g, OP1(SIGMOID, MATMUL(x, w)));
        fb_machine m;
        fb_machine_default(&m, FB_DEVICE_CUDA);
        m.compute_major = cases[i].capability;
        fb_planner *planner = fb_planner_new(g, &m);
        fb_plan *plan = gemm_plan(planner, &(struct gemm_case){.name = "product"});
        const fb_group *group = fb_plan_group(plan, 0);
        const fb_gemm_tile t = fb_gemm_tile_had(group->nest, &group->knobs);
        if (t.wide != (cases[i].n > 0) ||
            (t.wide && (t.m != cases[i].m || t.n != cases[i].n || t.split != cases[i].split)))
            fail_msg("case %zu: %d, a tile of %d × %d, shared by %d", i, t.wide, t.m, t.n, t.split);
        fb_plan_free(plan);
        fb_planner_free(planner);
        fb_graph_free(g);
    }
}

/* Kernels of one name get others, and are written anew for it, when what they were made with is gone. */
static void test_several_products_have_their_text(void **state)
{
    (void)state;
    enum { PRODUCTS = 3 };
    static const char *const names[PRODUCTS] = {"w0", "w1", "w2"};
    fb_graph *g = fb_graph_new("products");
    fb_id y = in(g, "x", FB_F16, SHAPE(256, 512));
    for (int i = 0; i < PRODUCTS; i++) y = OP1(RELU, MATMUL(y, in(g, names[i], FB_F16, SHAPE(512, 512))));
    g = with_output(g, y);
    fb_planner *planner = planner_of(g);
    fb_plan *plan = fb_plan_new(planner);
    fb_verdict v;
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == FB_OP_MATMUL) {
            plan = try_edit(plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = i, .b = FB_NONE}, &v);
            plan = fused(plan, i, g->users[g->user_start[i]]);
        }
    fb_program *p = lowered("products", plan);
    assert_int_equal(p->n_kernels, PRODUCTS);
    for (int k = 0; k < PRODUCTS; k++) {
        const char *source = p->kernels[k].source;
        assert_non_null(strstr(source, "}(), 512, 256, 1, 512, 0, fb_tile::A_LINES);"));
        assert_non_null(strstr(source, "}(), 512, 512, 1, 512, 0, fb_tile::B_LINES);"));
    }
    fb_program_free(p);
    fb_plan_free(plan);
    fb_planner_free(planner);
    fb_graph_free(g);
}

/* Predicted time of a product whose left operand is op(x), or a join of parts of it, made on the way in. */
static double us_of_operand(fb_op op, int parts)
{
    fb_graph *g = fb_graph_new("operand");
    fb_id made = op == FB_OP_CAST ? in(g, "x", FB_F32, SHAPE(64, 512))
                                  : NODE(g, op, "made", NULL, in(g, "x", FB_F32, SHAPE(64, 512)));
    fb_id part[16];
    for (int i = 0; i < parts; i++)
        part[i] =
            NODE(g, FB_OP_SLICE, NULL, &((fb_attrs){.dim = 1, .start = i, .stop = i + 512 / parts, .step = 1}), made);
    fb_error err;
    if (parts) made = fb_graph_add(g, FB_OP_CAT, part, parts, &(fb_attrs){.dim = 1}, "joined", 0, &err);
    g = with_output(g, NODE(g, FB_OP_MATMUL, "product", NULL, made, in(g, "w", FB_F32, SHAPE(512, 256))));
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    fb_planner *planner = fb_planner_new(g, &m);
    fb_plan *plan = fb_plan_new(planner);
    fb_verdict v;
    fb_id product = find(g, "product");
    const fb_edit edits[] = {{.kind = FB_EDIT_GENERATE, .a = product, .b = FB_NONE},
                             {.kind = FB_EDIT_FUSE, .a = fb_graph_find(g, parts ? "joined" : "made"), .b = product}};
    for (int i = 0; i < (op == FB_OP_CAST && !parts ? 1 : 2); i++) {
        plan = try_edit(plan, &edits[i], &v);
        if (!plan) fail_msg("%s", v.text);
    }
    fb_group_cost c;
    fb_plan_group_cost(plan, fb_plan_group_of(plan, product), &c);
    fb_plan_free(plan);
    fb_planner_free(planner);
    fb_graph_free(g);
    return c.us;
}

static void test_operands_take_time(void **state)
{
    (void)state;
    double copied = us_of_operand(FB_OP_CAST, 0), relu = us_of_operand(FB_OP_RELU, 0);
    assert_true(relu > copied);
    /* of the kernel's time only what is beside the product: blocks that share k share this, too */
    double made = relu - copied;
    assert_true(us_of_operand(FB_OP_SIGMOID, 0) - copied > 2 * made);
    assert_true(us_of_operand(FB_OP_CAST, 16) - copied > 2 * made);
}

/* bf16, what is left to a library. */
static double us_of_lines(int64_t rows, int64_t depth, int64_t columns)
{
    fb_graph *g = fb_graph_new("lines");
    fb_id x = in(g, "x", FB_BF16, SHAPE(rows, depth)), w = in(g, "w", FB_BF16, SHAPE(depth, columns));
    g = with_output(g, NODE(g, FB_OP_MATMUL, "product", NULL, x, w));
    fb_planner *planner = planner_of(g);
    fb_verdict v;
    fb_plan *plan =
        try_edit(fb_plan_new(planner), &(fb_edit){.kind = FB_EDIT_LIBRARY, .a = find(g, "product"), .b = FB_NONE}, &v);
    assert_int_equal(fb_plan_group(plan, 0)->family, FB_FAMILY_LIBRARY);
    fb_group_cost c;
    fb_plan_group_cost(plan, 0, &c);
    fb_plan_free(plan);
    fb_planner_free(planner);
    fb_graph_free(g);
    return c.us;
}

/* Lines of 16 bits that begin at no multiple of 16 bytes are slow in a library, those of an odd number most of all. */
static void test_lines_that_begin_anywhere_take_time(void **state)
{
    (void)state;
    double whole = us_of_lines(4096, 4096, 4096), words = us_of_lines(4096, 4096, 4098),
           odd = us_of_lines(4096, 4096, 4097), depth = us_of_lines(4096, 4097, 4096);
    assert_true(words > 2.5 * whole && odd > 2 * words);
    assert_true(depth > 5 * whole && depth < odd);
    assert_true(us_of_lines(1, 4096, 4097) < 1.1 * us_of_lines(1, 4096, 4096)); /* one line begins where it likes */
}

/* What the cache does not hold of the right operand is read by a few rows of tiles together: here by 16, and by the two
 * that are left. */
static void test_a_few_rows_of_tiles_go_on_together(void **state)
{
    (void)state;
    enum { ROWS = 16 * 17 + 3, DEPTH = 24, COLUMNS = 75 };
    if (!emulation_exists()) skip();
    fb_graph *g = fb_graph_new("wide");
    fb_id x = in(g, "x", FB_F16, SHAPE(ROWS, DEPTH)), w = in(g, "w", FB_F16, SHAPE(DEPTH, COLUMNS));
    g = with_output(g, OP1(RELU, NODE(g, FB_OP_MATMUL, "product", NULL, x, w)));
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    for (int small = 0; small < 2; small++) {
        if (small) m.cache_bytes = 2 * DEPTH * COLUMNS;
        fb_planner *planner = fb_planner_new(g, &m);
        fb_plan *plan = gemm_plan(planner, &(struct gemm_case){.name = "wide", .knobs = {{FB_KNOB_TILE_M, 16}}});
        const fb_group *group = fb_plan_group(plan, 0);
        assert_int_equal(fb_gemm_tile_had(group->nest, &group->knobs).band, small ? 16 : 0);
        fb_program *p = lowered("wide", plan);
        unit u = {0};
        int number = unit_add_cuda(&u, p);
        unit_emulate(&u);
        check_run("wide", &u, number, p, g);
        unit_free(&u);
        fb_program_free(p);
        fb_plan_free(plan);
        fb_planner_free(planner);
    }
    fb_graph_free(g);
}

/* ---- the text of one ---- */

static void test_golden(void **state)
{
    (void)state;
    const struct gemm_case *c = &gemm_cases[0];
    while (strcmp(c->name, "lstm f16") != 0) c++;
    fb_graph *g = gemm_graph(c);
    fb_planner *planner = planner_of(g);
    fb_plan *plan = gemm_plan(planner, c);
    fb_program *p = lowered(c->name, plan);
    char path[4096], have[16384] = "";
    const char *dir = getenv("FB_SRCDIR");
    snprintf(path, sizeof path, "%s/tests/golden/lstm.cu", dir ? dir : ".");
    FILE *f = fopen(path, getenv("FB_UPDATE_GOLDEN") ? "w" : "r");
    assert_non_null(f);
    if (getenv("FB_UPDATE_GOLDEN"))
        fputs(p->kernels[0].source, f);
    else
        have[fread(have, 1, sizeof have - 1, f)] = '\0';
    fclose(f);
    if (!getenv("FB_UPDATE_GOLDEN")) assert_string_equal(p->kernels[0].source, have);
    fb_program_free(p);
    fb_plan_free(plan);
    fb_planner_free(planner);
    fb_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_knobs),
                                       cmocka_unit_test(test_max_weighs),
                                       cmocka_unit_test(test_operands_take_time),
                                       cmocka_unit_test(test_lines_that_begin_anywhere_take_time),
                                       cmocka_unit_test(test_a_few_rows_of_tiles_go_on_together),
                                       cmocka_unit_test(test_golden),
                                       cmocka_unit_test(test_library_accumulates),
                                       cmocka_unit_test(test_windows_are_read_where_they_lie),
                                       cmocka_unit_test(test_warpgroups_multiply),
                                       cmocka_unit_test(test_several_products_have_their_text),
                                       cmocka_unit_test(test_emulated)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
