/* Generated C: the text of a few kernels against tests/golden (FB_UPDATE_GOLDEN=1 writes them anew), and what lowering
 * makes of plans. That the text computes the right thing is test_differential's matter, but for the order of loops. */
#include "base/json.h"
#include "base/mem.h"
#include "code/lower.h"
#include "code/names.h"
#include "graph/storage.h"
#include "unit/nest_help.h"
#include "unit/run_program.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    fb_graph *g;
    fb_planner *planner;
    fb_plan *plan;
    fb_program *p;
} lowered;

/* products: FB_EDIT_GENERATE, FB_EDIT_LIBRARY: all are so; else as the preset has them. */
static lowered lower_with(fb_device_kind kind, fb_graph *g, const char *preset, fb_edit_kind products)
{
    fb_machine m;
    fb_error err;
    fb_machine_default(&m, kind);
    lowered l = {.g = g, .planner = fb_planner_new(g, &m)};
    l.plan = fb_preset_find(preset)->make(l.planner, &err);
    for (fb_id i = 0; i < g->n_nodes && products; i++) {
        fb_plan *next = NULL;
        if (fb_node_class(g, i) != FB_CLASS_CONTRACTION) continue;
        fb_verdict v = fb_plan_try(l.plan, &(fb_edit){.kind = products, .a = i, .b = FB_NONE}, &next);
        if (!next) fail_msg("%s", v.text);
        fb_plan_free(l.plan);
        l.plan = next;
    }
    l.p = fb_lower(l.plan, kind == FB_DEVICE_HOST ? &fb_target_c : &fb_target_cuda, &err);
    if (!l.p) fail_msg("%s", err.text);
    return l;
}

static lowered lower_for(fb_device_kind kind, fb_graph *g, const char *preset)
{
    return lower_with(kind, g, preset, 0);
}

static lowered lower(fb_graph *g, const char *preset)
{
    return lower_for(FB_DEVICE_HOST, g, preset);
}

static void drop(lowered *l)
{
    fb_program_free(l->p);
    fb_plan_free(l->plan);
    fb_planner_free(l->planner);
    fb_graph_free(l->g);
}

static void golden(const char *name, fb_graph *g, const char *preset)
{
    lowered l = lower(g, preset);
    fb_str text = {0};
    char path[512];
    const char *dir = getenv("FB_SRCDIR");
    fb_error err;
    for (int i = 0; i < l.p->n_kernels; i++) fb_str_addf(&text, "%s%s", i ? "\n" : "", l.p->kernels[i].source);
    snprintf(path, sizeof path, "%s/tests/golden/%s.c", dir ? dir : ".", name);
    if (getenv("FB_UPDATE_GOLDEN") && !fb_write_file(path, text.text, text.n, &err)) fail_msg("%s", err.text);
    size_t n;
    char *want = fb_read_file(path, 1 << 20, &n, &err);
    if (!want) fail_msg("%s", err.text);
    assert_string_equal(fb_str_get(&text), want);
    fb_free(want);
    fb_str_free(&text);
    drop(&l);
}

static fb_graph *pointwise(void)
{
    fb_graph *g = fb_graph_new("pointwise");
    fb_id y = source(g, FB_OP_INPUT, "y", SHAPE(4096, 4096), FB_F32),
          z = source(g, FB_OP_INPUT, "z", SHAPE(4096, 4096), FB_F32);
    fb_id b = source(g, FB_OP_PARAM, "b", SHAPE(4096), FB_F32);
    fb_id half = node(g, FB_OP_CONST, "half", &(fb_attrs){.value = 0.5}, 0, NULL);
    fb_id sum = NODE(g, FB_OP_ADD, "sum", NULL, y, NODE(g, FB_OP_MUL, "scaled", NULL, z, half));
    return with_output(g, NODE(g, FB_OP_RELU, "relu", NULL, NODE(g, FB_OP_ADD, "biased", NULL, sum, b)));
}

static fb_graph *softmax_of_half(void)
{
    fb_graph *g = fb_graph_new("softmax");
    return with_output(g, softmax(g, source(g, FB_OP_INPUT, "x", SHAPE(2048, 512), FB_F16)));
}

static fb_graph *columns(void)
{
    fb_graph *g = fb_graph_new("columns");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(4096, 1000), FB_F32);
    return with_output(
        g, NODE(g, FB_OP_MEAN, "mean", &((fb_attrs){.n_axes = 1, .axes = {0}}), NODE(g, FB_OP_EXP, "exp", NULL, x)));
}

static fb_graph *everything_summed(void)
{
    fb_graph *g = fb_graph_new("sum");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(4096, 1024), FB_F32);
    return with_output(
        g, NODE(g, FB_OP_SUM, "sum", &((fb_attrs){.n_axes = 2, .axes = {0, 1}}), NODE(g, FB_OP_ABS, "abs", NULL, x)));
}

static fb_graph *joined_gate(void)
{
    fb_graph *g = fb_graph_new("gate");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(64, 96), FB_F32),
          h = source(g, FB_OP_INPUT, "h", SHAPE(64, 160), FB_F32);
    fb_id w = source(g, FB_OP_PARAM, "w", SHAPE(256, 1), FB_F32);
    fb_id both = NODE(g, FB_OP_CAT, "both", &((fb_attrs){.dim = 1}), x, h);
    return with_output(g, NODE(g, FB_OP_SIGMOID, "gate", NULL, NODE(g, FB_OP_MATMUL, "product", NULL, both, w)));
}

static fb_graph *linear_softmax(void)
{
    fb_graph *g = fb_graph_new("linear");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(4096, 512), FB_F32),
          w = source(g, FB_OP_PARAM, "w", SHAPE(512, 512), FB_F32);
    fb_id b = source(g, FB_OP_PARAM, "b", SHAPE(512), FB_F32);
    return with_output(g,
                       softmax(g, NODE(g, FB_OP_ADD, "biased", NULL, NODE(g, FB_OP_MATMUL, "product", NULL, x, w), b)));
}

static fb_graph *heads(void)
{
    fb_graph *g = fb_graph_new("heads");
    fb_id q = source(g, FB_OP_INPUT, "q", SHAPE(8, 512, 64), FB_F32),
          keys = source(g, FB_OP_INPUT, "keys", SHAPE(8, 512, 64), FB_F32),
          v = source(g, FB_OP_INPUT, "v", SHAPE(8, 512, 64), FB_F32);
    fb_id turned = NODE(g, FB_OP_PERMUTE, NULL, &((fb_attrs){.n_axes = 3, .axes = {0, 2, 1}}), keys);
    fb_id eighth = node(g, FB_OP_CONST, "eighth", &(fb_attrs){.value = 0.125}, 0, NULL);
    fb_id scores = NODE(g, FB_OP_MUL, "scaled", NULL, NODE(g, FB_OP_MATMUL, "scores", NULL, q, turned), eighth);
    return with_output(g, NODE(g, FB_OP_MATMUL, "mixed", NULL, softmax(g, scores), v));
}

/* A matrix and the transpose of another, added; the sum is stored, or its rows are added up. */
static fb_graph *turned(bool summed)
{
    fb_graph *g = fb_graph_new("turned");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(1000, 512), FB_F32),
          y = source(g, FB_OP_INPUT, "y", SHAPE(512, 1000), FB_F32);
    fb_id both = NODE(g, FB_OP_ADD, "both", NULL, x,
                      NODE(g, FB_OP_PERMUTE, NULL, &((fb_attrs){.n_axes = 2, .axes = {1, 0}}), y));
    return with_output(g, summed ? NODE(g, FB_OP_SUM, "sum", &((fb_attrs){.n_axes = 1, .axes = {1}}), both) : both);
}

static fb_graph *biased_half(void)
{
    fb_graph *g = fb_graph_new("halves");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(4096, 1000), FB_F16),
          b = source(g, FB_OP_PARAM, "b", SHAPE(1000), FB_F16);
    return with_output(g, NODE(g, FB_OP_RELU, "relu", NULL, NODE(g, FB_OP_ADD, "biased", NULL, x, b)));
}

static fb_graph *padded_lookup(void)
{
    fb_graph *g = fb_graph_new("lookup");
    fb_id table = source(g, FB_OP_PARAM, "table", SHAPE(1000, 64), FB_BF16);
    fb_id token =
        node(g, FB_OP_INPUT, "token",
             &((fb_attrs){.shape = SHAPE(128), .dtype = FB_I64, .dist = FB_DIST_INTEGER, .high = 1000}), 0, NULL);
    fb_id row = NODE(g, FB_OP_EMBEDDING, "row", NULL, table, token);
    fb_id shifted = NODE(g, FB_OP_PAD, NULL, &((fb_attrs){.before = {1, 0}, .after = {0, 0}}), row);
    return with_output(g, NODE(g, FB_OP_GELU, "gelu", NULL, shifted));
}

static void test_golden(void **state)
{
    (void)state;
    golden("split_stack", finished(puzzle(true, 16, 1024, 256)), "max");
    golden("combined", finished(puzzle(false, 16, 1024, 256)), "max");
    golden("pointwise", pointwise(), "max");
    golden("softmax", softmax_of_half(), "max");
    golden("columns", columns(), "max");
    golden("sum", everything_summed(), "max");
    golden("gate", joined_gate(), "max");
    golden("linear_softmax", linear_softmax(), "max");
    golden("heads", heads(), "max");
    golden("lookup", padded_lookup(), "max");
    golden("halves", biased_half(), "max");
    golden("turned", turned(false), "max");
    golden("turned_rows", turned(true), "max");
    golden("split_stack_none", finished(puzzle(true, 16, 1024, 256)), "none");
}

/* The function's statements, without name and comment. */
static const char *body(const fb_program *p, int kernel)
{
    return strstr(p->kernels[kernel].source, "\n{\n");
}

static void test_both_puzzles_become_the_same_kernel(void **state)
{
    (void)state;
    lowered split = lower(finished(puzzle(true, 16, 1024, 256)), "max");
    lowered combined = lower(finished(puzzle(false, 16, 1024, 256)), "max");
    assert_int_equal(split.p->n_kernels, 1);
    assert_int_equal(fb_program_launches(split.p), 1);
    assert_int_equal(split.p->pool_bytes, 0);
    assert_string_equal(body(split.p, 0), body(combined.p, 0));
    drop(&split);
    drop(&combined);
}

static void test_members_share_a_kernel(void **state)
{
    (void)state;
    lowered l = lower(finished(puzzle(true, 16, 1024, 256)), "none");
    /* six steps of the layer_norm, tanh, stack, matmul (a library call or a kernel), add, relu */
    assert_true(l.p->n_kernels <= 11);
    assert_int_equal(fb_program_launches(l.p), 16 * 7 + 4);
    assert_null(l.p->launches[0].offsets);
    const fb_launch *second = NULL; /* the same kernel on the next piece of the input */
    for (int i = 1; i < l.p->n_launches && !second; i++)
        if (l.p->launches[i].kind == FB_LAUNCH_KERNEL && l.p->launches[i].kernel == l.p->launches[0].kernel)
            second = &l.p->launches[i];
    assert_non_null(second);
    assert_non_null(second->offsets);
    assert_int_equal(second->offsets[0], 1024 * 256 * 4);
    drop(&l);
}

/* x * 3 less what `more` makes of it, else less another input. */
static fb_graph *scaled(bool more)
{
    fb_graph *g = fb_graph_new("scaled");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(7, 37), FB_F32);
    fb_id by = node(g, FB_OP_CONST, "by", &(fb_attrs){.dtype = FB_F32, .value = 3}, 0, NULL);
    fb_id product = NODE(g, FB_OP_MUL, "product", NULL, x, by);
    fb_attrs rows = {.n_axes = 1, .axes = {1}, .keepdim = true};
    fb_id less = more ? NODE(g, FB_OP_AMAX, "most", &rows, product) : source(g, FB_OP_INPUT, "y", SHAPE(7, 1), FB_F32);
    return with_output(g, NODE(g, FB_OP_SUB, "less", NULL, product, less));
}

/* A compiler may take a product into a sum as it is, in one loop and not in another: x - amax(x) would no longer be 0
 * where x is the largest. */
static void test_readers_of_a_product_read_the_same(void **state)
{
    (void)state;
    lowered l = lower(scaled(true), "max");
    assert_int_equal(l.p->n_kernels, 1);
    assert_non_null(strstr(body(l.p, 0), " fb_productf("));
    assert_null(strstr(body(l.p, 0), " * 3.0f"));
    drop(&l);
    l = lower(scaled(false), "max");
    assert_null(strstr(body(l.p, 0), "fb_product"));
    drop(&l);
}

static void expect_right(const lowered *l)
{
    unit u = {0};
    fb_error err = {0};
    char text[512], *storage;
    fb_interp *in = fb_interp_run(l->g, &(fb_interp_options){.seed = 7, .bounds = true}, NULL, 0, &err);
    if (!in) fail_msg("%s", err.text);
    unit_add(&u, l->p);
    unit_compile(&u, "-O2");
    void **buffers = run_program(&u, 0, l->p, l->g, 7, &storage);
    if (!check_program(l->p, buffers, l->g, in, text)) fail_msg("%s\n%s", text, l->p->kernels[0].source);
    fb_free(buffers);
    fb_free(storage);
    fb_interp_free(in);
    unit_free(&u);
}

/* x and what lies two rows or columns before it, 0 where nothing does; joined: 2x from there on. */
static fb_graph *shifted(int dim, bool joined, bool flipped)
{
    fb_graph *g = fb_graph_new("shifted");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(7, 96), FB_F32), other;
    fb_attrs cut = {.dim = dim, .start = 0, .stop = dim ? 94 : 5, .step = 1}, flip = {.n_axes = 1, .axes = {1}},
             rest = {.dim = dim, .start = 0, .stop = 2, .step = 1}, at = {.dim = dim}, pad = {.value = 0};
    pad.before[dim] = 2;
    fb_id before = NODE(g, FB_OP_SLICE, "cut", &cut, flipped ? NODE(g, FB_OP_FLIP, "flip", &flip, x) : x);
    if (joined) {
        fb_id first = NODE(g, FB_OP_SLICE, "first", &rest, x);
        fb_id double_x = NODE(g, FB_OP_ADD, "double", NULL, before, before);
        other = NODE(g, FB_OP_CAT, "joined", &at, first, double_x);
    } else {
        other = NODE(g, FB_OP_PAD, "padded", &pad, before);
    }
    return with_output(g, NODE(g, FB_OP_ADD, "sum", NULL, x, other));
}

/* Loads behind a test of rows alone are made whether there is a row or not; behind one of columns, where parts are
 * joined, or where columns go backwards, they are not. */
static void test_loads_of_rows_that_are_not_there(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        lowered l = lower(shifted(i == 1, i == 2, i == 3), "max");
        assert_int_equal(l.p->n_kernels, 1);
        bool ahead = strstr(body(l.p, 0), " : 0) + ") != NULL;
        if (ahead != (i == 0)) fail_msg("%d: %s", i, body(l.p, 0));
        expect_right(&l);
        drop(&l);
    }
}

/* All rows of a product go by while a chunk of the right operand's columns is in a near cache, of each member of the
 * batch that has one of its own; what is small is near anyway. */
static void test_rows_go_by_a_chunk_of_columns(void **state)
{
    (void)state;
    const struct {
        fb_shape a, b;
        fb_dtype dtype;
        const char *order; /* of loops, those over rows and chunks */
    } cases[] = {
        {SHAPE(20, 70), SHAPE(70, 300), FB_F32, "ji"},           {SHAPE(20, 70), SHAPE(70, 64), FB_F32, "ij"},
        {SHAPE(40, 150), SHAPE(150, 130), FB_BF16, "ji"},        {SHAPE(20, 70), SHAPE(70, 100), FB_F64, "ji"},
        {SHAPE(3, 20, 70), SHAPE(70, 300), FB_F32, "ji"},        {SHAPE(3, 20, 70), SHAPE(3, 70, 300), FB_F32, "ikj"},
        {SHAPE(3, 4, 9, 70), SHAPE(4, 70, 150), FB_F32, "ijlk"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_graph *g = fb_graph_new("chunks");
        fb_id a = source(g, FB_OP_INPUT, "a", cases[i].a, cases[i].dtype),
              b = source(g, FB_OP_PARAM, "b", cases[i].b, cases[i].dtype);
        fb_id sum = NODE(g, FB_OP_MATMUL, "sum", NULL, a, b);
        lowered l = lower_with(FB_DEVICE_HOST, with_output(g, NODE(g, FB_OP_RELU, "relu", NULL, sum)), "none",
                               FB_EDIT_GENERATE);
        char order[8] = "";
        const char *at = l.p->kernels[0].source;
        for (int n = 0; cases[i].order[n]; n++) {
            at = strstr(at, "for (int64_t ");
            assert_non_null(at);
            at += strlen("for (int64_t ");
            order[n] = *at, order[n + 1] = 0;
        }
        assert_string_equal(order, cases[i].order);
        expect_right(&l);
        drop(&l);
    }
}

/* Where every thread of every block has an element, the texts for two sizes are the same, and the grids are not. */
static void test_equal_texts_of_two_sizes_are_two_kernels(void **state)
{
    (void)state;
    static const int64_t sizes[] = {12288, 16384, 12288};
    fb_graph *g = fb_graph_new("sizes");
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "x%d", i);
        fb_id e = NODE(g, FB_OP_EXP, "exp", NULL, source(g, FB_OP_INPUT, name, SHAPE(sizes[i]), FB_F32));
        e = NODE(g, FB_OP_NEG, "neg", NULL, e); /* takes "exp" in all three, where exp takes x0, x1, x2 */
        assert_true(fb_graph_output(g, e, i == 0 ? "a" : i == 1 ? "b" : "c", NULL));
    }
    lowered l = lower_for(FB_DEVICE_CUDA, finished(g), "none");
    assert_int_equal(l.p->n_launches, 6);
    assert_int_equal(l.p->n_kernels, 3 + 2);
    for (int i = 0; i < l.p->n_launches; i++) {
        const fb_launch *launch = &l.p->launches[i];
        const fb_kernel *k = &l.p->kernels[launch->kernel];
        int64_t elements = l.p->buffers[launch->args[0]].bytes / 4;
        assert_true((int64_t)k->grid[0] * k->block[0] * 4 == elements);
    }
    drop(&l);
}

static void test_names_are_safe(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("names");
    fb_id a = source(g, FB_OP_INPUT, "i", SHAPE(8, 8), FB_F32),
          b = source(g, FB_OP_INPUT, "double", SHAPE(8, 8), FB_F32);
    fb_id c = source(g, FB_OP_INPUT, "args", SHAPE(8), FB_F32), d = NODE(g, FB_OP_ADD, "sqrtf", NULL, a, b);
    lowered l = lower(with_output(g, NODE(g, FB_OP_SQRT, "for", NULL,
                                          NODE(g, FB_OP_MUL, "NAN", NULL, d, NODE(g, FB_OP_ADD, "j0", NULL, c, d)))),
                      "max");
    const char *text = l.p->kernels[0].source;
    assert_null(strstr(text, " double ="));
    assert_null(strstr(text, "restrict args ="));
    assert_null(strstr(text, "restrict i ="));
    assert_null(strstr(text, "float NAN ="));
    drop(&l);
    static const char *const words[] = {"BIG_ENDIAN", "M_2_PI",   "M_LN2",    "NULL",  "WNOHANG", "alignas",
                                        "char",       "char16_t", "co_await", "i386",  "int",     "int8_t",
                                        "size_t",     "uint16_t", "while",    "xor_eq"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) assert_true(fb_names_is_word(words[i]));
    assert_false(fb_names_is_word("") || fb_names_is_word("in") || fb_names_is_word("sum") || fb_names_is_word("int "));
}

static void test_program_prints(void **state)
{
    (void)state;
    lowered l = lower(linear_softmax(), "none");
    fb_str s = {0};
    fb_program_print(l.p, &fb_target_c, &s);
    assert_non_null(strstr(fb_str_get(&s), "fb_kernel_args"));
    assert_non_null(strstr(fb_str_get(&s), "gemm(x, w)  4096 × 512 × 512"));
    lowered again = lower(linear_softmax(), "none");
    assert_true(fb_hash_equal(l.p->hash, again.p->hash));
    fb_str_free(&s);
    drop(&l);
    drop(&again);
}

static void test_group_source(void **state)
{
    (void)state;
    lowered l = lower(finished(puzzle(true, 2, 8, 16)), "max");
    fb_arena *arena = fb_arena_new();
    const char *text = fb_lower_group_source(l.plan, 0, &fb_target_c, arena);
    assert_non_null(text);
    assert_string_equal(text, l.p->kernels[0].source);
    fb_arena_free(arena);
    drop(&l);
}

/* A batch over one right operand is one product where its rows follow each other; not where they go backwards, or where
 * windows lie in each other: no library reads such a matrix. */
static void test_batches_that_are_one_matrix(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        fb_graph *g = fb_graph_new("batches");
        fb_id a, w;
        if (k < 2) {
            a = source(g, FB_OP_INPUT, "x", k ? SHAPE(5, 1, 8) : SHAPE(5, 3, 8), FB_F32);
            if (k == 1) a = NODE(g, FB_OP_FLIP, "flip", &((fb_attrs){.n_axes = 2, .axes = {0, 1}}), a);
            w = source(g, FB_OP_PARAM, "w", SHAPE(8, 4), FB_F32);
        } else {
            fb_attrs by = {.dim = 0, .stop = 5, .step = 1};
            a = NODE(g, FB_OP_UNFOLD, "unfold", &by, source(g, FB_OP_INPUT, "x", SHAPE(10, 3), FB_F32));
            w = source(g, FB_OP_PARAM, "w", SHAPE(5, 4), FB_F32);
        }
        g = with_output(g, NODE(g, FB_OP_MATMUL, "matmul", NULL, a, w));
        lowered l = lower_with(FB_DEVICE_CUDA, g, "none", FB_EDIT_LIBRARY);
        assert_int_equal(l.p->n_gemms, 1);
        const fb_gemm_call *c = &l.p->gemms[0];
        assert_true(fb_storage_is_matrix(c->m, c->k, c->a_row, c->a_col));
        assert_int_equal(c->batch, k == 0 ? 1 : k == 1 ? 5 : 6);
        drop(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_both_puzzles_become_the_same_kernel),
        cmocka_unit_test(test_members_share_a_kernel),
        cmocka_unit_test(test_readers_of_a_product_read_the_same),
        cmocka_unit_test(test_loads_of_rows_that_are_not_there),
        cmocka_unit_test(test_rows_go_by_a_chunk_of_columns),
        cmocka_unit_test(test_equal_texts_of_two_sizes_are_two_kernels),
        cmocka_unit_test(test_names_are_safe),
        cmocka_unit_test(test_program_prints),
        cmocka_unit_test(test_group_source),
        cmocka_unit_test(test_batches_that_are_one_matrix),
    };
    return cmocka_run_group_tests_name("codegen", tests, NULL, NULL);
}
