/* What a nest must hold: nests of every family hold it, and each way to make one wrong is noticed in a sentence. */
#include "nest/parts.h"
#include "nest/print.h"
#include "nest/verify.h"
#include "unit/nest_help.h"

#include <string.h>

typedef struct {
    fb_arena *arena;
    fb_graph *g;
    fb_nest *nest;
} built;

/* All computed nodes as one kernel for the host. */
static built build(fb_graph *g, bool library)
{
    built t = {.arena = fb_arena_new(), .g = g};
    fb_id *nodes = FB_NEW_ARRAY(t.arena, fb_id, g->n_nodes), *stored = FB_NEW_ARRAY(t.arena, fb_id, g->n_nodes);
    int n_nodes = 0, n_stored = 0;
    fb_machine m;
    fb_verdict why;
    fb_machine_default(&m, FB_DEVICE_HOST);
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (!fb_node_is_computed(g, i)) continue;
        nodes[n_nodes++] = i;
        if (fb_node_is_output(g, i)) stored[n_stored++] = i;
    }
    fb_kernel_nodes k = fb_nest_kernel_of(t.arena, g, nodes, n_nodes, stored, n_stored);
    k.kind = library ? FB_NEST_CALL : FB_NEST_LOOPS;
    t.nest = fb_nest_build(t.arena, &k, &m, &why);
    if (!t.nest) fail_msg("%s", why.text);
    return t;
}

static void drop(built *t)
{
    fb_arena_free(t->arena);
    fb_graph_free(t->g);
}

static fb_section *first(fb_nest *n)
{
    return &n->sections[0];
}

static fb_value *value_of_kind(fb_nest *n, fb_value_kind kind)
{
    for (int i = 0; i < first(n)->n_values; i++)
        if (first(n)->values[i].kind == kind) return &first(n)->values[i];
    fail_msg("no value of kind %d", (int)kind);
    return NULL;
}

/* ---- ways to be wrong ---- */

static void use_before_made(fb_nest *n)
{
    value_of_kind(n, FB_VALUE_OP)->args[0] = first(n)->n_values - 1;
}

static void miss_a_depth(fb_nest *n)
{
    value_of_kind(n, FB_VALUE_REDUCE)->depth--;
}

static void lose_a_pass(fb_nest *n)
{
    first(n)->n_passes--;
}

static void swap_passes(fb_nest *n)
{
    fb_pass *p = first(n)->passes, kept = p[0];
    p[0] = p[1];
    p[1] = kept;
}

static void read_past_the_end(fb_nest *n)
{
    fb_value *v = value_of_kind(n, FB_VALUE_LOAD);
    v->at = fb_ix_add(n->pool, v->at, fb_ix_const(n->pool, 1));
}

static void read_before_the_start(fb_nest *n)
{
    fb_value *v = value_of_kind(n, FB_VALUE_LOAD);
    v->at = fb_ix_sub(n->pool, v->at, fb_ix_const(n->pool, 1));
}

static void store_past_the_end(fb_nest *n)
{
    fb_root *r = &first(n)->roots[0];
    r->at = fb_ix_scale(n->pool, r->at, 2);
}

static void use_a_strangers_variable(fb_nest *n)
{
    first(n)->roots[0].at = fb_ix_var(n->pool, "z", 7);
}

static void leave_the_space(fb_nest *n)
{
    value_of_kind(n, FB_VALUE_LOAD)->space = FB_NONE;
}

static void widen_a_loop(fb_nest *n)
{
    first(n)->rows.extent[0]++;
}

static void store_no_value(fb_nest *n)
{
    first(n)->roots[0].value = first(n)->n_values;
}

static void forget_a_read(fb_nest *n)
{
    n->n_reads--;
}

static void list_a_read_too_many(fb_nest *n)
{
    fb_id *reads = FB_NEW_ARRAY(n->arena, fb_id, n->n_reads + 1);
    memcpy(reads, n->reads, (size_t)n->n_reads * sizeof *reads);
    reads[n->n_reads++] = n->graph->n_nodes - 1;
    n->reads = reads;
}

static void forget_a_write(fb_nest *n)
{
    n->n_writes--;
}

static void reduce_over_nothing(fb_nest *n)
{
    value_of_kind(n, FB_VALUE_REDUCE)->over = FB_NONE;
}

/* Every index stays inside, as where two loops of equal length became one. */
static void store_one_row(fb_nest *n)
{
    fb_section *s = first(n);
    for (int d = 0; d < s->rows.n; d++) {
        for (int i = 0; i < s->n_values; i++)
            s->values[i].at = fb_ix_substitute(n->pool, s->values[i].at, s->rows.var[d], fb_ix_const(n->pool, 0));
        for (int i = 0; i < s->n_roots; i++)
            s->roots[i].at = fb_ix_substitute(n->pool, s->roots[i].at, s->rows.var[d], fb_ix_const(n->pool, 0));
    }
    s->rows.n = 0;
}

static const struct {
    const char *name;
    void (*make)(fb_nest *n);
    const char *said;
} wrongs[] = {
    {"an operand after its user", use_before_made, "does not come before it"},
    {"a depth too low", miss_a_depth, "depth"},
    {"a pass lost", lose_a_pass, "pass"},
    {"passes out of order", swap_passes, "too late"},
    {"an element past the end", read_past_the_end, "element"},
    {"an element before the start", read_before_the_start, "element -1"},
    {"a store past the end", store_past_the_end, "element"},
    {"a variable of no loop", use_a_strangers_variable, "none of its loops"},
    {"a value outside its space", leave_the_space, "none of its loops"},
    {"a loop longer than its variable", widen_a_loop, "whose variable goes to"},
    {"a value that is not there stored", store_no_value, "stores value"},
    {"a read that is not listed", forget_a_read, "not listed as read"},
    {"a listed read that is none", list_a_read_too_many, "no value loads it"},
    {"a write that is not listed", forget_a_write, "not listed as written"},
    {"a reduction over no space", reduce_over_nothing, "goes over space"},
    {"elements that nothing stores", store_one_row, "are stored"},
};

static void test_wrong_nests_are_noticed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        built t = build(finished(puzzle(true, 4, 8, 16)), false);
        fb_str why = {0};
        wrongs[i].make(t.nest);
        if (fb_nest_verify(t.nest, &why)) fail_msg("%s: not noticed", wrongs[i].name);
        if (!strstr(why.text, wrongs[i].said)) fail_msg("%s: \"%s\"", wrongs[i].name, why.text);
        fb_str_free(&why);
        drop(&t);
    }
}

static void expect_holds(fb_graph *g, bool library)
{
    built t = build(g, library);
    fb_str why = {0};
    if (!fb_nest_verify(t.nest, &why)) fail_msg("%s", why.text);
    fb_str_free(&why);
    drop(&t);
}

static void test_right_nests_hold(void **state)
{
    (void)state;
    expect_holds(finished(puzzle(true, 16, 64, 32)), false);
    expect_holds(finished(puzzle(false, 16, 64, 32)), false);
    fb_graph *g = fb_graph_new("softmax");
    fb_error err;
    fb_graph_output(g, softmax(g, source(g, FB_OP_INPUT, "x", SHAPE(5, 77), FB_F32)), NULL, &err);
    expect_holds(finished(g), false);
    g = fb_graph_new("epilogue");
    fb_id product = NODE(g, FB_OP_MATMUL, "product", NULL, source(g, FB_OP_INPUT, "x", SHAPE(33, 17), FB_F32),
                         source(g, FB_OP_PARAM, "w", SHAPE(17, 9), FB_F32));
    fb_graph_output(g, NODE(g, FB_OP_RELU, "relu", NULL, product), NULL, &err);
    expect_holds(finished(g), true);
}

/* What rows are reduced of is stored too, and a running sum goes along the rows: the sum's loop cannot store it. */
static void test_a_running_sum_of_rows_stores_them_apart(void **state)
{
    (void)state;
    for (int columns = 2; columns <= 3; columns++) {
        fb_graph *g = fb_graph_new("rows");
        fb_error err;
        fb_id x = NODE(g, FB_OP_SIGMOID, "gate", NULL, source(g, FB_OP_INPUT, "x", SHAPE(2, columns), FB_F32));
        fb_id mean = NODE(g, FB_OP_MEAN, "mean", (&(fb_attrs){.n_axes = 1, .axes = {1}, .keepdim = true}), x);
        fb_graph_output(g, x, "gate", &err);
        fb_graph_output(g, NODE(g, FB_OP_CUMSUM, "running", &((fb_attrs){.dim = 0}), mean), "running", &err);
        built t = build(finished(g), false);
        fb_str why = {0};
        if (!fb_nest_verify(t.nest, &why)) fail_msg("%d columns: %s", columns, why.text);
        drop(&t);
    }
}

static void test_print_shows_each_part(void **state)
{
    (void)state;
    built t = build(finished(puzzle(true, 4, 8, 16)), false);
    fb_str out = {0};
    fb_nest_print(t.nest, &out);
    static const char *const parts[] = {"reads ",
                                        "writes ",
                                        "section 0: rows ",
                                        "space 0: ",
                                        "mean over ",
                                        "store ",
                                        "pass 2: over space 0 at depth 2"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(out.text, parts[i])) fail_msg("no \"%s\" in:\n%s", parts[i], out.text);
    fb_str_free(&out);
    drop(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_nests_are_noticed),
        cmocka_unit_test(test_right_nests_hold),
        cmocka_unit_test(test_a_running_sum_of_rows_stores_them_apart),
        cmocka_unit_test(test_print_shows_each_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
