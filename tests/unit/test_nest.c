/* Nests: what one kernel can hold, what it touches, and what it says when it cannot. */
#include "nest/parts.h"
#include "nest/verify.h"
#include "unit/nest_help.h"

#include <math.h>
#include <string.h>

/* All computed nodes of a graph as one kernel that stores the outputs. */
typedef struct {
    fb_arena *arena;
    fb_graph *g;
    fb_nest *nest;
    fb_nest_facts facts;
    fb_verdict why;
} trial;

static trial build(fb_graph *g, bool library)
{
    trial t = {.arena = fb_arena_new(), .g = g};
    fb_id *nodes = FB_NEW_ARRAY(t.arena, fb_id, g->n_nodes), *stored = FB_NEW_ARRAY(t.arena, fb_id, g->n_nodes);
    int n_nodes = 0, n_stored = 0;
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_HOST);
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (!fb_node_is_computed(g, i)) continue;
        nodes[n_nodes++] = i;
        if (fb_node_is_output(g, i)) stored[n_stored++] = i;
    }
    fb_kernel_nodes k = fb_nest_kernel_of(t.arena, g, nodes, n_nodes, stored, n_stored);
    k.kind = library ? FB_NEST_CALL : FB_NEST_LOOPS;
    t.nest = fb_nest_build(t.arena, &k, &m, &t.why);
    if (t.nest) fb_nest_facts_of(t.nest, &t.facts);
    return t;
}

static void drop(trial *t)
{
    fb_arena_free(t->arena);
    fb_graph_free(t->g);
}

static void expect(const trial *t, int64_t read, int64_t written, int sections)
{
    if (!t->nest) fail_msg("%s", t->why.text);
    int64_t r = 0, w = 0;
    for (int i = 0; i < t->facts.n_reads; i++) r += t->facts.reads[i].bytes;
    for (int i = 0; i < t->facts.n_writes; i++) w += t->facts.writes[i].bytes;
    assert_int_equal(r, read);
    assert_int_equal(w, written);
    assert_int_equal(t->facts.sections, sections);
}

static void test_puzzle(void **state)
{
    (void)state;
    for (int split = 0; split < 2; split++) {
        trial t = build(finished(puzzle(split, 16, 1024, 256)), false);
        expect(&t, (16 * 1024 * 256 + 256 + 1) * 4, 16 * 1024 * 4, 1);
        assert_int_equal(t.facts.rolled, split ? 16 : 1);
        assert_int_equal(t.facts.rows, split ? 1024 : 16 * 1024);
        assert_int_equal(t.facts.inner, 256);
        assert_true(t.facts.has_reduction);
        const fb_section *s = &t.nest->sections[0];
        /* one row loop for members and batch, three passes, no table */
        assert_int_equal(s->rows.n, 1);
        assert_int_equal(s->rows.extent[0], 16 * 1024);
        assert_int_equal(s->n_passes, 3);
        assert_int_equal(s->n_tables, 0);
        drop(&t);
    }
}

static void test_members_without_a_join(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("members");
    fb_error err;
    for (int i = 0; i < 5; i++) {
        fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(8, 32), FB_F32);
        fb_graph_output(g, NODE(g, FB_OP_TANH, "tanh", NULL, layer_norm(g, x)), NULL, &err);
    }
    trial t = build(finished(g), false);
    expect(&t, 5 * 8 * 32 * 4, 5 * 8 * 32 * 4, 1);
    assert_int_equal(t.facts.rolled, 5);
    assert_int_equal(t.nest->sections[0].n_tables, 2); /* where from and where to */
    drop(&t);
}

static void test_views_cost_what_they_touch(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("views");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(64, 100), FB_F32),
          b = source(g, FB_OP_INPUT, "b", SHAPE(1, 25), FB_F16);
    fb_id cut = NODE(g, FB_OP_SLICE, NULL, &((fb_attrs){.dim = 1, .start = 2, .stop = 100, .step = 4}), x);
    fb_id wide = NODE(g, FB_OP_CAST, NULL, &((fb_attrs){.dtype = FB_F32}), b);
    trial t = build(with_output(g, NODE(g, FB_OP_ADD, NULL, NULL, cut, wide)), false);
    expect(&t, 64 * 25 * 4 + 25 * 2, 64 * 25 * 4, 1);
    assert_false(t.facts.has_reduction);
    drop(&t);
}

/* Index, rows, and the whole result: rows to which nothing is added are zeros that somebody writes. */
static void test_added_rows_are_all_written(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("added");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(32, 8), FB_F32), at = source(g, FB_OP_INPUT, "at", SHAPE(32), FB_I64);
    trial t = build(with_output(g, NODE(g, FB_OP_SCATTER_ADD, NULL, &((fb_attrs){.start = 1000}), x, at)), false);
    expect(&t, 32 * 8 * 4 + 32 * 8, 1000 * 8 * 4, 1);
    drop(&t);
}

/* Of a table those rows that 32 points name, some of them twice: 31.5. */
static void test_rows_looked_up_are_what_is_read(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("looked up");
    fb_id table = source(g, FB_OP_PARAM, "table", SHAPE(1000, 8), FB_F32),
          at = source(g, FB_OP_INPUT, "at", SHAPE(32), FB_I64);
    trial t = build(with_output(g, NODE(g, FB_OP_EMBEDDING, NULL, NULL, table, at)), false);
    expect(&t, 252 * 4 + 32 * 8, 32 * 8 * 4, 1);
    drop(&t);
}

/* What is done to a parameter of 1000 rows, with rows added to nothing by an index of 32. */
typedef enum { PLAIN, DECAY, TWICE, COUNTED, MADE_OF_ZERO, OTHER_ROW, TURNED } update;

static trial updated(update how, fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("updated");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(32, 8), dtype), at = source(g, FB_OP_INPUT, "at", SHAPE(32), FB_I64);
    fb_id p = source(g, FB_OP_PARAM, "p", SHAPE(1000, 8), dtype), from = p;
    fb_id sum = NODE(g, FB_OP_SCATTER_ADD, "sum", &((fb_attrs){.start = 1000}), x, at);
    fb_id rate =
        node(g, FB_OP_CONST, NULL, &(fb_attrs){.dtype = dtype, .value = how == COUNTED ? INFINITY : 0.125}, 0, NULL);
    fb_attrs turn = {.n_axes = 1, .axes = {0}};
    if (how == TURNED) sum = NODE(g, FB_OP_FLIP, NULL, &turn, sum);
    fb_id step = NODE(g, FB_OP_MUL, "step", NULL, rate, sum);
    if (how == DECAY) step = NODE(g, FB_OP_ADD, "decayed", NULL, step, NODE(g, FB_OP_MUL, "decay", NULL, rate, p));
    if (how == TWICE) step = NODE(g, FB_OP_MUL, "twice", NULL, step, NODE(g, FB_OP_NEG, NULL, NULL, step));
    if (how == MADE_OF_ZERO) step = NODE(g, FB_OP_COS, "cosine", NULL, step);
    if (how == OTHER_ROW) from = source(g, FB_OP_PARAM, "q", SHAPE(1000, 8), dtype);
    NODE(g, FB_OP_ASSIGN, NULL, NULL, p, NODE(g, FB_OP_SUB, NULL, NULL, from, step));
    return build(finished(g), false);
}

/* Of 1000 rows 32 points name 31.5, as likely as each other: 252 elements. */
static void test_rows_that_nobody_names_are_not_touched(void **state)
{
    (void)state;
    static const struct {
        update how;
        fb_dtype dtype;
        bool spares;
        const char *says;
    } cases[] = {
        {PLAIN, FB_F32, true, "rows that the index does not name stay as they are"},
        {PLAIN, FB_F16, true, "rows that the index does not name stay as they are"},
        {TWICE, FB_F32, true, "rows that the index does not name stay as they are"},
        {DECAY, FB_F32, false, "all rows are stored: `decay` changes those, too, that the index does not name"},
        {COUNTED, FB_F32, false, "all rows are stored: `sub` changes those, too, that the index does not name"},
        {MADE_OF_ZERO, FB_F32, false, "all rows are stored: `sub` changes those, too, that the index does not name"},
        {OTHER_ROW, FB_F32, false, "all rows are stored"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trial t = updated(cases[i].how, cases[i].dtype);
        int64_t size = fb_dtype_size(cases[i].dtype), all = 1000 * 8 * size;
        int64_t named = size == 4 ? 252 * size : 496 * size; /* of 500 sectors, each of two rows, 31.0 */
        int64_t rows = cases[i].spares ? named : all;
        expect(&t, 32 * 8 * size + 32 * 8 + rows, rows, 1);
        fb_added a;
        fb_str says = {0};
        assert_true(fb_section_adds(t.nest, &t.nest->sections[0], &a));
        assert_int_equal(a.spares, cases[i].spares);
        fb_added_says(t.nest, &a, &says);
        assert_string_equal(fb_str_get(&says), cases[i].says);
        fb_str_free(&says);
        drop(&t);
    }
    trial t = updated(TURNED, FB_F32);
    assert_null(t.nest);
    assert_non_null(strstr(t.why.text, "all 32.0 kB of it must be there before it is read"));
    drop(&t);
}

/* Three tables are one section, whose members are looked up in tables of pointers. */
static void test_equal_updates_share_a_section(void **state)
{
    (void)state;
    enum { TABLES = 3 };
    fb_graph *g = fb_graph_new("tables");
    fb_id rate = node(g, FB_OP_CONST, NULL, &(fb_attrs){.dtype = FB_F32, .value = 0.125}, 0, NULL);
    for (int i = 0; i < TABLES; i++) {
        fb_id x = source(g, FB_OP_INPUT, NULL, SHAPE(32, 8), FB_F32),
              at = source(g, FB_OP_INPUT, NULL, SHAPE(32), FB_I64);
        fb_id p = source(g, FB_OP_PARAM, NULL, SHAPE(1000, 8), FB_F32);
        fb_id sum = NODE(g, FB_OP_SCATTER_ADD, NULL, &((fb_attrs){.start = 1000}), x, at);
        fb_id step = NODE(g, FB_OP_MUL, NULL, NULL, rate, sum);
        NODE(g, FB_OP_ASSIGN, NULL, NULL, p, NODE(g, FB_OP_SUB, NULL, NULL, p, step));
    }
    trial t = build(finished(g), false);
    expect(&t, TABLES * (32 * 8 * 4 + 32 * 8 + 252 * 4), TABLES * 252 * 4, 1);
    fb_added a;
    assert_true(fb_section_adds(t.nest, &t.nest->sections[0], &a));
    assert_true(a.spares);
    assert_int_equal(t.nest->sections[0].members, TABLES);
    assert_int_equal(a.rows, 1000);
    assert_int_equal(a.width, 8);
    drop(&t);
}

static void test_unlike_reductions_of_one_input_share_a_pass(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("siblings");
    fb_error err;
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(128, 64), FB_F32);
    fb_attrs rows = {.n_axes = 1, .axes = {1}};
    fb_graph_output(g, NODE(g, FB_OP_SUM, NULL, &rows, x), NULL, &err);
    fb_graph_output(g, NODE(g, FB_OP_AMAX, NULL, &rows, x), NULL, &err);
    trial t = build(finished(g), false);
    expect(&t, 128 * 64 * 4, 2 * 128 * 4, 1);
    assert_int_equal(t.nest->sections[0].n_passes, 1);
    drop(&t);
}

static void test_softmax_keeps_its_exponentials(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("softmax");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(32, 100), FB_F32);
    trial t = build(with_output(g, softmax(g, x)), false);
    expect(&t, 32 * 100 * 4, 32 * 100 * 4, 1);
    /* one exp and one division an element, on the host three tenths of the former */
    assert_int_equal(t.facts.specials, 13 * 32 * 100 / 10);
    assert_int_equal(t.facts.sums, 2 * 32); /* a maximum and a sum a row */
    assert_int_equal(t.facts.summed, (4 + 1) * 32 * 100);
    assert_int_equal(t.facts.gathered + t.facts.far, 0);
    drop(&t);
}

/* What keeps loops from vectors: elements that lie apart, or pages apart, and those of 16 bits. */
static void test_loops_that_are_no_vectors(void **state)
{
    (void)state;
    for (int columns = 8; columns <= 512; columns *= 64) {
        fb_graph *g = fb_graph_new("turned");
        fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(64, columns), FB_BF16);
        fb_id turned = NODE(g, FB_OP_PERMUTE, NULL, &((fb_attrs){.n_axes = 2, .axes = {1, 0}}), x);
        trial t = build(with_output(g, NODE(g, FB_OP_RELU, NULL, NULL, turned)), false);
        assert_int_equal(columns == 8 ? t.facts.gathered : t.facts.far, 64 * columns);
        assert_int_equal(columns == 8 ? t.facts.far : t.facts.gathered, 0);
        assert_int_equal(t.facts.converted[FB_BF16], 2 * 64 * columns);
        drop(&t);
    }
}

static void test_joins(void **state)
{
    (void)state;
    for (int dim = 0; dim < 2; dim++) {
        fb_graph *g = fb_graph_new("cat");
        fb_id a = source(g, FB_OP_INPUT, "a", SHAPE(6, 8), FB_F32),
              b = source(g, FB_OP_INPUT, "b", SHAPE(6, 8), FB_F32);
        fb_id both = NODE(g, FB_OP_CAT, NULL, &((fb_attrs){.dim = dim}), NODE(g, FB_OP_EXP, NULL, NULL, a), b);
        fb_id out = NODE(g, FB_OP_SUM, NULL, &((fb_attrs){.n_axes = 1, .axes = {1}}), both);
        trial t = build(with_output(g, out), false);
        /* along the rows the join splits the section, along the reduced dim it becomes a choice inside */
        expect(&t, 2 * 48 * 4, dim == 0 ? 12 * 4 : 6 * 4, dim == 0 ? 2 : 1);
        drop(&t);
    }
}

static void test_library(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("linear");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(4, 64, 32), FB_F32),
          w = source(g, FB_OP_PARAM, "w", SHAPE(32, 48), FB_F32);
    fb_id b = source(g, FB_OP_PARAM, "b", SHAPE(48), FB_F32);
    fb_id sum = NODE(g, FB_OP_ADD, NULL, NULL, NODE(g, FB_OP_MATMUL, NULL, NULL, x, w), b);
    trial t = build(with_output(g, softmax(g, sum)), true);
    expect(&t, (4 * 64 * 32 + 32 * 48 + 48) * 4, 4 * 64 * 48 * 4, 1);
    assert_true(t.nest->sections[0].blocked);
    assert_int_equal(t.nest->sections[0].rows.extent[0], 4 * 64);
    assert_true(fb_nest_product(t.nest) == t.g->outputs[0]); /* the softmax overwrites it */
    drop(&t);
}

static void refused(fb_graph *g, bool library, fb_rule rule, const char *first, const char *second)
{
    trial t = build(g, library);
    assert_null(t.nest);
    assert_int_equal(t.why.rule, rule);
    assert_int_equal(t.why.kind, FB_VERDICT_UNSUPPORTED);
    assert_non_null(strstr(t.why.text, first));
    assert_non_null(strstr(t.why.text, second));
    drop(&t);
}

static void test_refusals(void **state)
{
    (void)state;
    fb_attrs columns = {.n_axes = 1, .axes = {0}};
    fb_graph *g = fb_graph_new("columns of rows");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(128, 64), FB_F32);
    refused(with_output(g, NODE(g, FB_OP_SUM, "total", &columns, layer_norm(g, x))), false, FB_RULE_REDUCED_FIRST,
            "total", "32.8 kB");

    g = fb_graph_new("two contractions");
    x = source(g, FB_OP_INPUT, "x", SHAPE(512, 512), FB_F32);
    fb_id w = source(g, FB_OP_PARAM, "w", SHAPE(512, 512), FB_F32);
    fb_id hidden = NODE(g, FB_OP_RELU, "hidden", NULL, NODE(g, FB_OP_MATMUL, "up", NULL, x, w));
    refused(with_output(g, NODE(g, FB_OP_MATMUL, "down", NULL, hidden, w)), true, FB_RULE_LIBRARY, "up", "down");

    g = fb_graph_new("prologue");
    x = source(g, FB_OP_INPUT, "x", SHAPE(512, 512), FB_F32);
    hidden = NODE(g, FB_OP_RELU, "hidden", NULL, x);
    refused(with_output(g, NODE(g, FB_OP_MATMUL, "product", NULL, hidden, x)), true, FB_RULE_LIBRARY, "hidden",
            "product");

    g = fb_graph_new("large contraction");
    x = source(g, FB_OP_INPUT, "x", SHAPE(512, 512), FB_F32);
    hidden = NODE(g, FB_OP_RELU, "hidden", NULL, x);
    refused(with_output(g, NODE(g, FB_OP_MATMUL, "product", NULL, hidden, x)), false, FB_RULE_CONTRACTION, "product",
            "512");
}

/* Windows of `wide` elements along the last dim, the next one `step` further on. */
static fb_id windows(fb_graph *g, fb_op op, const char *name, fb_id x, int64_t wide, int64_t step)
{
    int rank = g->nodes[x].shape.rank;
    fb_id w = NODE(g, FB_OP_UNFOLD, NULL, (&(fb_attrs){.dim = rank - 1, .stop = wide, .step = step}), x);
    return NODE(g, op, name, (&(fb_attrs){.n_axes = 1, .axes = {rank}}), w);
}

static int count_kind(const fb_section *s, fb_value_kind kind)
{
    int n = 0;
    for (int i = 0; i < s->n_values; i++) n += s->values[i].kind == kind;
    return n;
}

/* A pool inside a sum over all of its elements: no row of its own, and its steps are counted. */
static void test_windows_are_written_out_in_a_loop(void **state)
{
    (void)state;
    const struct {
        fb_op op;
        int folds; /* of three elements: two steps, and a mean's division */
    } want[] = {{FB_OP_AMAX, 2}, {FB_OP_AMIN, 2}, {FB_OP_SUM, 2}, {FB_OP_PROD, 2}, {FB_OP_MEAN, 3}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        fb_graph *g = fb_graph_new("pool and sum");
        fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(32, 129), FB_F32);
        fb_id pool = windows(g, want[i].op, "pool", x, 3, 2);
        fb_id total = NODE(g, FB_OP_SUM, "total", (&(fb_attrs){.n_axes = 1, .axes = {1}}), pool);
        trial t = build(with_output(g, total), false);
        expect(&t, 32 * 129 * 4, 32 * 4, 1);
        const fb_section *s = &t.nest->sections[0];
        assert_int_equal(count_kind(s, FB_VALUE_FOLD), want[i].folds);
        assert_int_equal(count_kind(s, FB_VALUE_REDUCE), 1);
        assert_int_equal(t.facts.flops, 32 * 64 * (want[i].folds + 1));
        fb_str says = {0};
        fb_nest_says_written(t.nest, &says);
        assert_string_equal(fb_str_get(&says), "`pool` is computed where it is read, of 3 elements each time");
        fb_str_free(&says);
        drop(&t);
    }
}

/* A pool that is scaled by what all of it sums up to: rows of both would be each other's repetition. */
static void test_windows_are_written_out_beside_a_row(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("pool, scaled");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(64, 4096), FB_F32), pool = windows(g, FB_OP_AMAX, "pool", x, 2, 2);
    fb_id total = NODE(g, FB_OP_SUM, "total", (&(fb_attrs){.n_axes = 1, .axes = {1}, .keepdim = true}), pool);
    trial t = build(with_output(g, NODE(g, FB_OP_MUL, "scaled", NULL, pool, total)), false);
    expect(&t, 64 * 4096 * 4, 64 * 2048 * 4, 1);
    assert_int_equal(t.facts.rows, 64);
    assert_int_equal(count_kind(&t.nest->sections[0], FB_VALUE_REDUCE), 1);
    fb_str says = {0};
    fb_nest_says_written(t.nest, &says);
    assert_string_equal(fb_str_get(&says),
                        "`pool` is computed where it is read, of 2 elements each time, 2 times over");
    fb_str_free(&says);
    drop(&t);
    /* alone it is a row's, as before */
    g = fb_graph_new("pool");
    x = source(g, FB_OP_INPUT, "x", SHAPE(64, 4096), FB_F32);
    t = build(with_output(g, windows(g, FB_OP_AMAX, "pool", x, 2, 2)), false);
    assert_int_equal(count_kind(&t.nest->sections[0], FB_VALUE_FOLD), 0);
    drop(&t);
}

/* A sum of no rows that padding makes two of: it has no steps, and nothing is divided by their number. */
static void test_sums_of_no_rows_are_said(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("sums of nothing");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(4, 0, 4), FB_F32);
    fb_id parts = NODE(g, FB_OP_SUM, "parts", (&(fb_attrs){.n_axes = 1, .axes = {0}}), x);
    fb_id pad = NODE(g, FB_OP_PAD, "pad", (&(fb_attrs){.before = {1, 0}, .after = {1, 0}}), parts);
    fb_id total = NODE(g, FB_OP_SUM, "total", (&(fb_attrs){.n_axes = 1, .axes = {1}}), pad);
    trial t = build(with_output(g, total), false);
    fb_str says = {0};
    fb_nest_says_written(t.nest, &says);
    assert_string_equal(fb_str_get(&says), "`parts` is computed where it is read, of 4 elements each time");
    fb_str_free(&says);
    drop(&t);
}

static fb_graph *summed(fb_op op, int64_t wide, bool window)
{
    fb_graph *g = fb_graph_new("summed");
    fb_id x = source(g, FB_OP_INPUT, "x", window ? SHAPE(32, 4096) : SHAPE(32, 512, wide), FB_F32), at;
    if (window)
        at = windows(g, op, "short", x, wide, wide);
    else
        at = NODE(g, op, "short", (&(fb_attrs){.n_axes = 1, .axes = {2}}), x);
    return with_output(g, NODE(g, FB_OP_SUM, "total", (&(fb_attrs){.n_axes = 1, .axes = {1}}), at));
}

/* Only windows of 27 and other reductions of 8 elements at most, and none that is read over and over. */
static void test_what_is_not_written_out(void **state)
{
    (void)state;
    trial t = build(summed(FB_OP_AMAX, 27, true), false);
    assert_non_null(t.nest);
    drop(&t);
    t = build(summed(FB_OP_AMAX, 8, false), false);
    assert_non_null(t.nest);
    drop(&t);
    refused(summed(FB_OP_AMAX, 28, true), false, FB_RULE_REDUCED_FIRST, "total", "short");
    refused(summed(FB_OP_AMAX, 9, false), false, FB_RULE_REDUCED_FIRST, "total", "short");
    refused(summed(FB_OP_ARGMAX, 4, true), false, FB_RULE_REDUCED_FIRST, "total", "short");

    fb_graph *g = fb_graph_new("read by many");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(32, 1, 4096), FB_F32);
    fb_id y = source(g, FB_OP_INPUT, "y", SHAPE(32, 64, 1024), FB_F32), pool = windows(g, FB_OP_AMAX, "pool", x, 4, 4);
    fb_id both = NODE(g, FB_OP_ADD, "both", NULL, pool, y);
    refused(with_output(g, NODE(g, FB_OP_SUM, "total", (&(fb_attrs){.n_axes = 2, .axes = {1, 2}}), both)), false,
            FB_RULE_REDUCED_FIRST, "pool", "64 times over");
}

/* Products of all before, by doubling: element i of each step is made of two of the step before. Twelve steps as one
 * kernel are 8,000 values, and soon found to be too many. */
static fb_graph *running_product(int steps)
{
    fb_graph *g = fb_graph_new("a running product");
    fb_id at = source(g, FB_OP_INPUT, "x", SHAPE(4, 1 << steps), FB_F32);
    for (int step = 0; step < steps; step++) {
        int64_t by = (int64_t)1 << step;
        fb_attrs before = {.dim = 1, .stop = ((int64_t)1 << steps) - by, .step = 1};
        fb_id moved = NODE(g, FB_OP_PAD, NULL, (&(fb_attrs){.before = {0, by}, .value = 1}),
                           NODE(g, FB_OP_SLICE, NULL, &before, at));
        at = NODE(g, FB_OP_MUL, step + 1 == steps ? "product" : NULL, NULL, at, moved);
    }
    return with_output(g, at);
}

static void test_values_are_counted(void **state)
{
    (void)state;
    trial t = build(running_product(5), false);
    assert_non_null(t.nest);
    drop(&t);
    refused(running_product(20), false, FB_RULE_SIZE, "more than 8192 values for each element", "one kernel");
}

/* Windows of 5 × 5, the next one `step` further on, of what is padded by two on all sides, times a weight a channel. */
static fb_graph *depthwise(int64_t channels, int64_t size, int64_t step)
{
    fb_graph *g = fb_graph_new("depthwise");
    int64_t out = (size - 1) / step + 1;
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(channels, size, size), FB_F32),
          weight = source(g, FB_OP_PARAM, "weight", SHAPE(channels, 25, 1), FB_F32);
    fb_id at = NODE(g, FB_OP_PAD, NULL, (&(fb_attrs){.before = {0, 2, 2}, .after = {0, 2, 2}}), x);
    for (int d = 1; d <= 2; d++) at = NODE(g, FB_OP_UNFOLD, NULL, (&(fb_attrs){.dim = d, .stop = 5, .step = step}), at);
    at = NODE(g, FB_OP_VIEW, NULL, &((fb_attrs){.shape = SHAPE(channels, out * out, 25)}), at);
    at = NODE(g, FB_OP_MATMUL, "product", NULL, at, weight);
    at = NODE(g, FB_OP_VIEW, NULL, &((fb_attrs){.shape = SHAPE(channels, out, out)}), at);
    return with_output(g, NODE(g, FB_OP_RELU, NULL, NULL, at));
}

/* They are done side by side, go by loops of their own, and have nothing to test inside of what is padded. */
static void test_rows_of_windows_are_neighbours(void **state)
{
    (void)state;
    for (int64_t step = 1; step <= 2; step++) {
        trial t = build(depthwise(6, 28, step), false);
        expect(&t, (6 * 28 * 28 + 6 * 25) * 4, 6 * (28 / step) * (28 / step) * 4, 1);
        const fb_section *s = &t.nest->sections[0];
        const fb_interior x = fb_section_interior(t.nest, s, 0);
        assert_int_equal(s->rows.n, 3);
        assert_int_equal(s->rows.extent[2], 28 / step);
        assert_int_equal(s->n_spaces, 1);
        assert_int_equal(s->spaces[0].n, 2);
        assert_int_equal(s->spaces[0].extent[1], 5);
        assert_true(fb_section_lies_across(t.nest->pool, s));
        assert_int_equal(x.var, s->rows.var[2]);
        assert_int_equal(x.from, step == 1 ? 2 : 1);
        assert_int_equal(x.to, step == 1 ? 26 : 13);
        assert_int_equal(t.facts.summed, 0);
        drop(&t);
    }
    /* so few that they are none: a window is written out */
    trial t = build(depthwise(64, 7, 1), false);
    assert_false(fb_section_lies_across(t.nest->pool, &t.nest->sections[0]));
    assert_true(fb_space_is_window(&t.nest->sections[0].spaces[0]));
    assert_int_equal(t.facts.summed, 0);
    assert_int_equal(t.facts.gathered, 64 * 49 * 25);
    drop(&t);
}

/* A copy that unfolds has a loop for each dim of the windows' places, not one of which places are worked out. */
static void test_an_unfolded_copy_has_plain_loops(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("unfolded");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(4, 16, 16), FB_F32);
    fb_id at = NODE(g, FB_OP_PAD, NULL, (&(fb_attrs){.before = {0, 1, 1}, .after = {0, 1, 1}}), x);
    for (int d = 1; d <= 2; d++) at = NODE(g, FB_OP_UNFOLD, NULL, (&(fb_attrs){.dim = d, .stop = 3, .step = 1}), at);
    at = NODE(g, FB_OP_PERMUTE, NULL, &((fb_attrs){.n_axes = 5, .axes = {0, 3, 4, 1, 2}}), at);
    at = NODE(g, FB_OP_VIEW, NULL, &((fb_attrs){.shape = SHAPE(36, 256)}), at);
    trial t = build(with_output(g, NODE(g, FB_OP_RELU, NULL, NULL, at)), false);
    const fb_section *s = &t.nest->sections[0];
    const fb_interior inside = fb_section_interior(t.nest, s, FB_NONE);
    assert_int_equal(s->rows.n, 3);
    assert_int_equal(s->rows.extent[1], 16);
    assert_int_equal(s->rows.extent[2], 16);
    assert_int_equal(inside.var, s->rows.var[2]);
    assert_int_equal(inside.from, 1);
    assert_int_equal(inside.to, 15);
    assert_int_equal(t.facts.gathered, 0);
    drop(&t);
}

/* Rows that a library call has done in blocks are not all there when the loop over them goes by. */
static void test_rows_of_blocks_have_no_inside(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("blocks");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(32, 8), FB_F32), y = source(g, FB_OP_INPUT, "y", SHAPE(30, 1), FB_F32);
    fb_id product = NODE(g, FB_OP_MATMUL, NULL, NULL, x, source(g, FB_OP_PARAM, "w", SHAPE(8, 1), FB_F32));
    fb_id padded = NODE(g, FB_OP_PAD, NULL, (&(fb_attrs){.before = {1, 0}, .after = {1, 0}}), y);
    trial t = build(with_output(g, NODE(g, FB_OP_ADD, NULL, NULL, product, padded)), true);
    const fb_section *s = &t.nest->sections[0];
    assert_int_equal(s->rows.n, 1);
    assert_int_equal(s->blocked, 1);
    assert_int_equal(fb_section_interior(t.nest, s, FB_NONE).var, FB_NONE);
    drop(&t);
}

/* Of what is cut out of padding alone no element is read, not even one before the first. */
static void test_padding_alone_reads_nothing(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("padding");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(1, 4), FB_F32);
    fb_id at = NODE(g, FB_OP_PAD, NULL, (&(fb_attrs){.before = {2, 2}, .after = {1, 1}, .value = -1}), x);
    at = NODE(g, FB_OP_SLICE, NULL, &((fb_attrs){.dim = 0, .start = 0, .stop = 1, .step = 1}), at);
    trial t = build(with_output(g, NODE(g, FB_OP_RELU, NULL, NULL, at)), false);
    fb_str why = {0};
    if (!fb_nest_verify(t.nest, &why)) fail_msg("%s", why.text);
    drop(&t);
    /* nor of a product that is seen as a line: all that is read of its operands lies before them */
    g = fb_graph_new("a line of a product");
    fb_id product = NODE(g, FB_OP_MATMUL, NULL, NULL, source(g, FB_OP_INPUT, "x", SHAPE(2, 7), FB_F32),
                         source(g, FB_OP_PARAM, "w", SHAPE(7, 3), FB_F32));
    at = NODE(g, FB_OP_VIEW, NULL, (&(fb_attrs){.shape = SHAPE(6)}), product);
    at = NODE(g, FB_OP_PAD, NULL, (&(fb_attrs){.before = {2}}), at);
    at = NODE(g, FB_OP_SLICE, NULL, &((fb_attrs){.dim = 0, .start = 0, .stop = 2, .step = 1}), at);
    t = build(with_output(g, NODE(g, FB_OP_TANH, NULL, NULL, at)), false);
    if (!fb_nest_verify(t.nest, &why)) fail_msg("%s", why.text);
    drop(&t);
    /* nor of what is put around nothing */
    g = fb_graph_new("around nothing");
    x = source(g, FB_OP_INPUT, "x", SHAPE(0, 1), FB_F32);
    at = NODE(g, FB_OP_PAD, NULL, (&(fb_attrs){.before = {2, 1}, .after = {1, 0}}), x);
    t = build(with_output(g, NODE(g, FB_OP_RELU, NULL, NULL, at)), false);
    if (!fb_nest_verify(t.nest, &why)) fail_msg("%s", why.text);
    drop(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_puzzle),
        cmocka_unit_test(test_members_without_a_join),
        cmocka_unit_test(test_views_cost_what_they_touch),
        cmocka_unit_test(test_added_rows_are_all_written),
        cmocka_unit_test(test_rows_looked_up_are_what_is_read),
        cmocka_unit_test(test_rows_that_nobody_names_are_not_touched),
        cmocka_unit_test(test_equal_updates_share_a_section),
        cmocka_unit_test(test_unlike_reductions_of_one_input_share_a_pass),
        cmocka_unit_test(test_softmax_keeps_its_exponentials),
        cmocka_unit_test(test_loops_that_are_no_vectors),
        cmocka_unit_test(test_joins),
        cmocka_unit_test(test_library),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_windows_are_written_out_in_a_loop),
        cmocka_unit_test(test_sums_of_no_rows_are_said),
        cmocka_unit_test(test_windows_are_written_out_beside_a_row),
        cmocka_unit_test(test_what_is_not_written_out),
        cmocka_unit_test(test_values_are_counted),
        cmocka_unit_test(test_rows_of_windows_are_neighbours),
        cmocka_unit_test(test_an_unfolded_copy_has_plain_loops),
        cmocka_unit_test(test_rows_of_blocks_have_no_inside),
        cmocka_unit_test(test_padding_alone_reads_nothing),
    };
    return cmocka_run_group_tests_name("nest", tests, NULL, NULL);
}
