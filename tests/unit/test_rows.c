/* The graph view's model: outline, letters, rows and their edges, over a graph of four equal branches that are stacked.
 */
#include "tui/view/rows.h"

#include "decide/preset.h"
#include "graph/canon.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

typedef struct {
    fb_graph *graph;
    fb_planner *planner;
    fb_plan *plan;
    fb_outline *outline;
    fb_letters letters;
    fb_rows rows;
} world;

static fb_id op(fb_graph *g, fb_op o, fb_id a, fb_id b, const fb_attrs *at, const char *name)
{
    fb_id args[2] = {a, b};
    fb_error err = {0};
    fb_id id = fb_graph_add(g, o, args, b != FB_NONE ? 2 : a != FB_NONE ? 1 : 0, at, name, 1, &err);
    if (id == FB_NONE) fail_msg("%s", err.text);
    return id;
}

static fb_graph *finished(fb_graph *g, fb_id out)
{
    fb_error err = {0};
    assert_true(fb_graph_output(g, out, "y", &err));
    assert_true(fb_graph_finish(g, &err));
    fb_graph *canonical = fb_graph_canonical(g, &err);
    assert_non_null(canonical);
    fb_graph_free(g);
    return canonical;
}

/* branch[i]: op scope norm { exp, add of a literal }, tanh; the last branch has a relu as well when `unlike`. */
static fb_graph *branches(int n, bool unlike)
{
    fb_graph *g = fb_graph_new("branches");
    fb_attrs shape = {.shape = {.rank = 2, .dim = {8, 16}}, .dtype = FB_F32, .dist = FB_DIST_NORMAL, .high = 1};
    fb_attrs half = {.dtype = FB_F32, .value = 0.5}, first = {.dim = 0};
    fb_id ends[64];
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        fb_id x = op(g, FB_OP_INPUT, FB_NONE, FB_NONE, &shape, name);
        fb_graph_scope_open(g, "branch", i, NULL, NULL, 0, NULL, 1, NULL);
        fb_graph_scope_open(g, "norm", FB_NONE, "norm", &x, 1, NULL, 1, NULL);
        fb_id y = op(g, FB_OP_ADD, op(g, FB_OP_EXP, x, FB_NONE, NULL, NULL),
                     op(g, FB_OP_CONST, FB_NONE, FB_NONE, &half, "half"), NULL, NULL);
        fb_graph_scope_close(g, &y, 1, NULL);
        y = op(g, FB_OP_TANH, y, FB_NONE, NULL, NULL);
        ends[i] = unlike && i == n - 1 ? op(g, FB_OP_RELU, y, FB_NONE, NULL, NULL) : y;
        fb_graph_scope_close(g, NULL, 0, NULL);
    }
    return finished(g, fb_graph_add(g, FB_OP_STACK, ends, n, &first, "stack", 1, NULL));
}

static void rebuild(world *w)
{
    fb_letters_free(&w->letters);
    fb_letters_make(&w->letters, w->plan, w->outline);
    fb_rows_make(&w->rows, w->outline, w->plan, &w->letters);
}

static world make(fb_graph *g, const char *preset)
{
    world w = {.graph = g};
    fb_machine m;
    fb_error err = {0};
    fb_machine_default(&m, FB_DEVICE_HOST);
    w.planner = fb_planner_new(g, &m);
    w.plan = fb_preset_find(preset)->make(w.planner, &err);
    assert_non_null(w.plan);
    w.outline = fb_outline_new(g);
    rebuild(&w);
    return w;
}

static void unmake(world *w)
{
    fb_rows_free(&w->rows);
    fb_letters_free(&w->letters);
    fb_outline_free(w->outline);
    fb_plan_free(w->plan);
    fb_planner_free(w->planner);
    fb_graph_free(w->graph);
}

static int row_named(const world *w, const char *name)
{
    for (int i = 0; i < w->rows.rows.n; i++)
        if (!strcmp(fb_row_name(&w->rows, i), name)) return i;
    fail_msg("no row %s", name);
    return FB_NONE;
}

static const fb_entry *entry_of(const world *w, int row)
{
    return &w->outline->entries[w->rows.rows.at[row].entry];
}

static void edit(world *w, const fb_edit *e, bool repeated)
{
    fb_plan *result = NULL;
    fb_verdict v = repeated ? fb_plan_try_repeated(w->plan, e, &result) : fb_plan_try(w->plan, e, &result);
    if (!result) fail_msg("%s", v.text);
    fb_rows_free(&w->rows);
    fb_plan_free(w->plan);
    w->plan = result;
    rebuild(w);
}

/* ---- tests ----------------------------------------------------------------------------------------------------------
 */

static void repetitions_are_one_line(void **state)
{
    (void)state;
    world w = make(branches(4, false), "none");
    int row = row_named(&w, "branch");
    assert_int_equal(entry_of(&w, row)->kind, FB_ENTRY_REPEAT);
    assert_int_equal(entry_of(&w, row)->members, 4);
    assert_true(w.rows.rows.at[row_named(&w, "tanh")].repeated);
    assert_false(w.rows.rows.at[row_named(&w, "stack")].repeated);
    assert_int_equal(w.rows.rows.n, 4 + 3 + 1); /* inputs; branch, norm, tanh; stack */
    unmake(&w);
}

/* Branches between which an input stands are not side by side in the graph, but still siblings. */
static void unlike_members_stand_alone(void **state)
{
    (void)state;
    world w = make(branches(4, true), "none");
    int row = row_named(&w, "branch");
    assert_int_equal(entry_of(&w, row)->members, 3);
    assert_string_equal(fb_row_name(&w.rows, row_named(&w, "branch[3]")), "branch[3]");
    row_named(&w, "relu");
    unmake(&w);
}

/* x[:, 2i : 2i + n] and its transpose, in rounds, of which the last slice is `last` wide; then each transpose is read.
 */
static fb_graph *rounds(int n, int64_t last, bool apart)
{
    fb_graph *g = fb_graph_new("rounds");
    fb_attrs shape = {.shape = {.rank = 2, .dim = {4, 64}}, .dtype = FB_F32, .dist = FB_DIST_NORMAL, .high = 1};
    fb_attrs turned = {.axes = {1, 0}, .n_axes = 2}, first = {.dim = 0};
    fb_id x = op(g, FB_OP_INPUT, FB_NONE, FB_NONE, &shape, "x"), ends[16];
    for (int i = 0; i < n; i++) {
        fb_attrs part = {.dim = 1, .start = 2 * i, .stop = 2 * i + (i == n - 1 ? last : 2), .step = 1};
        ends[i] = op(g, FB_OP_PERMUTE, op(g, FB_OP_SLICE, x, FB_NONE, &part, "slice"), FB_NONE, &turned, "t");
        if (apart) ends[i] = op(g, FB_OP_RELU, ends[i], FB_NONE, NULL, "relu");
    }
    for (int i = 0; i < n && !apart; i++) ends[i] = op(g, FB_OP_RELU, ends[i], FB_NONE, NULL, "relu");
    return finished(g, fb_graph_add(g, FB_OP_CAT, ends, n, &first, "cat", 1, NULL));
}

static void rounds_of_views_are_lines(void **state)
{
    (void)state;
    for (int last = 2; last <= 3; last++) { /* of one size, or not */
        world w = make(rounds(5, last, false), "none");
        int slice = row_named(&w, "slice"), turned = row_named(&w, "t");
        assert_int_equal(turned, slice + 1);
        assert_int_equal(entry_of(&w, slice)->members, 5);
        assert_int_equal(entry_of(&w, turned)->members, 5);
        assert_int_equal(w.rows.rows.n, 1 + 2 + 5 + 1);
        for (fb_id i = 0; i < w.graph->n_nodes; i++) { /* each stands behind the line of its like */
            const fb_entry *e = entry_of(&w, fb_rows_find(&w.rows, i));
            assert_int_equal(w.graph->nodes[e->id].op, w.graph->nodes[i].op);
        }
        unmake(&w);
    }
    world w = make(rounds(2, 2, false), "none"); /* two are not many */
    assert_int_equal(w.rows.rows.n, 1 + 2 * 2 + 2 + 1);
    unmake(&w);
    w = make(rounds(5, 2, true), "none"); /* what computes stands between them */
    assert_int_equal(w.rows.rows.n, 1 + 5 * 3 + 1);
    unmake(&w);
}

static void literals_are_left_out(void **state)
{
    (void)state;
    world w = make(branches(2, false), "none");
    fb_outline_fold_all(w.outline, false);
    fb_rows_make(&w.rows, w.outline, w.plan, &w.letters);
    for (int i = 0; i < w.rows.rows.n; i++) assert_string_not_equal(fb_row_name(&w.rows, i), "half");
    unmake(&w);
}

static void every_node_is_found(void **state)
{
    (void)state;
    world w = make(branches(4, true), "none");
    for (int fold = 0; fold < 3; fold++) {
        for (int e = 0; e < w.outline->n; e++) {
            fb_entry *x = &w.outline->entries[e];
            if (x->kind != FB_ENTRY_NODE)
                x->fold = fold == 0 ? FB_FOLDED : fold == 2 && x->kind == FB_ENTRY_REPEAT ? FB_MEMBERS : FB_OPEN;
        }
        fb_rows_make(&w.rows, w.outline, w.plan, &w.letters);
        for (fb_id i = 0; i < w.graph->n_nodes; i++) {
            if (w.outline->entry_of[i] == FB_NONE) continue;
            int row = fb_rows_find(&w.rows, i);
            assert_true(row >= 0 && row < w.rows.rows.n);
            const fb_entry *x = entry_of(&w, row);
            if (x->kind == FB_ENTRY_NODE)
                assert_int_equal(w.outline->class_of[x->id], w.outline->class_of[i]);
            else
                assert_true(x->fold == FB_FOLDED);
        }
    }
    unmake(&w);
}

static void revealed_nodes_have_rows(void **state)
{
    (void)state;
    world w = make(branches(4, true), "none");
    fb_outline_fold_all(w.outline, true);
    fb_id node = fb_graph_find(w.graph, "branch[2].norm.add");
    assert_true(node != FB_NONE);
    fb_outline_reveal(w.outline, node);
    fb_rows_make(&w.rows, w.outline, w.plan, &w.letters);
    assert_int_equal(entry_of(&w, fb_rows_find(&w.rows, node))->id, node);
    unmake(&w);
}

static void folds_are_carried_over(void **state)
{
    (void)state;
    world w = make(branches(4, false), "none");
    int row = row_named(&w, "branch");
    w.outline->entries[w.rows.rows.at[row].entry].fold = FB_FOLDED;
    fb_graph *other = branches(3, false);
    fb_outline *next = fb_outline_new(other);
    fb_outline_carry(next, w.outline);
    for (int e = 0; e < next->n; e++)
        if (next->entries[e].kind == FB_ENTRY_REPEAT) assert_int_equal(next->entries[e].fold, FB_FOLDED);
    fb_outline_free(next);
    fb_graph_free(other);
    unmake(&w);
}

static void repeated_groups_share_a_letter(void **state)
{
    (void)state;
    world w = make(branches(4, false), "eager");
    assert_int_equal(w.letters.n_groups, 4 * 2 + 1);
    assert_int_equal(w.letters.n, 3);
    int norm = row_named(&w, "norm"), tanh = row_named(&w, "tanh");
    assert_int_equal(w.letters.count[w.rows.rows.at[norm].letter], 4);
    assert_int_not_equal(w.rows.rows.at[norm].letter, w.rows.rows.at[tanh].letter);
    assert_false(w.rows.rows.at[norm].several);
    unmake(&w);
}

static void letters_have_names(void **state)
{
    (void)state;
    char to[8];
    assert_string_equal(fb_letter_name(0, to), "a");
    assert_string_equal(fb_letter_name(25, to), "z");
    assert_string_equal(fb_letter_name(26, to), "aa");
    assert_string_equal(fb_letter_name(26 + 26 * 26 - 1, to), "zz");
    assert_string_equal(fb_letter_name(26 + 26 * 26, to), "aaa");
}

static void edges_are_counted_together(void **state)
{
    (void)state;
    int n;
    world w = make(branches(4, false), "eager");
    const fb_row_edge *e = fb_rows_edges(&w.rows, row_named(&w, "stack"), &n);
    assert_int_equal(n, 1);
    assert_int_equal(e[0].count, 4);
    assert_true(e[0].repeated && e[0].incoming);
    assert_int_equal(fb_row_edge_state(&e[0]), FB_EDGE_CUT);
    e = fb_rows_edges(&w.rows, row_named(&w, "tanh"), &n);
    assert_int_equal(n, 2);
    assert_true(e[0].incoming);
    assert_false(e[1].incoming);
    e = fb_rows_edges(&w.rows, row_named(&w, "norm"), &n);
    assert_int_equal(n, 2);
    assert_true(e[1].inside); /* last while it is fused, as `eager` has it */
    assert_int_equal(fb_row_edge_state(&e[1]), FB_EDGE_FUSED);
    unmake(&w);
}

static void members_have_edges_of_their_own(void **state)
{
    (void)state;
    int n;
    world w = make(branches(4, false), "eager");
    w.outline->entries[w.rows.rows.at[row_named(&w, "branch")].entry].fold = FB_MEMBERS;
    fb_rows_make(&w.rows, w.outline, w.plan, &w.letters);
    const fb_row_edge *e = fb_rows_edges(&w.rows, row_named(&w, "stack"), &n);
    assert_int_equal(n, 4);
    for (int i = 0; i < n; i++) assert_true(e[i].count == 1 && !e[i].repeated);
    unmake(&w);
}

static void fusing_one_member_is_mixed(void **state)
{
    (void)state;
    int n;
    world w = make(branches(4, false), "eager");
    int row = row_named(&w, "tanh");
    const fb_row_edge *e = fb_rows_edges(&w.rows, row, &n);
    edit(&w, &(fb_edit){.kind = FB_EDIT_FUSE, .a = e[0].a, .b = e[0].b}, false);
    row = row_named(&w, "tanh");
    e = fb_rows_edges(&w.rows, row, &n);
    assert_int_equal(fb_row_edge_state(&e[0]), FB_EDGE_MIXED);
    assert_int_equal(e[0].fused, 1);
    assert_true(w.rows.rows.at[row].several);
    unmake(&w);
}

static void rows_of_one_kernel_are_tied(void **state)
{
    (void)state;
    int n;
    world w = make(branches(4, false), "eager");
    const fb_row_edge *e = fb_rows_edges(&w.rows, row_named(&w, "tanh"), &n);
    assert_int_equal(w.rows.rows.at[row_named(&w, "tanh")].tie, FB_TIE_ALONE);
    edit(&w, &(fb_edit){.kind = FB_EDIT_FUSE, .a = e[0].a, .b = e[0].b}, true);
    assert_int_equal(w.rows.rows.at[row_named(&w, "norm")].tie, FB_TIE_FIRST);
    assert_int_equal(w.rows.rows.at[row_named(&w, "tanh")].tie, FB_TIE_LAST);
    e = fb_rows_edges(&w.rows, row_named(&w, "tanh"), &n);
    assert_int_equal(fb_row_edge_state(&e[0]), FB_EDGE_FUSED);
    assert_int_equal(e[0].fused, 4);
    unmake(&w);
}

/* Another's kernels are drawn like ours, with nothing to fuse or cut. */
static void kernels_of_others_are_tied(void **state)
{
    (void)state;
    int n;
    world w = make(branches(4, false), "eager");
    int *theirs = fb_calloc((size_t)w.graph->n_nodes, sizeof *theirs);
    for (fb_id i = 0; i < w.graph->n_nodes; i++)
        theirs[i] = !fb_node_is_computed(w.graph, i) ? FB_NONE : w.graph->nodes[i].op == FB_OP_STACK ? 1 : 0;
    fb_rows_make_theirs(&w.rows, w.outline, theirs);
    assert_int_equal(w.rows.rows.at[row_named(&w, "norm")].tie, FB_TIE_FIRST);
    assert_int_equal(w.rows.rows.at[row_named(&w, "tanh")].tie, FB_TIE_LAST);
    assert_int_equal(w.rows.rows.at[row_named(&w, "tanh")].letter, 0);
    assert_int_equal(w.rows.rows.at[row_named(&w, "stack")].letter, 1);
    assert_null(fb_rows_edges(&w.rows, row_named(&w, "tanh"), &n));
    assert_int_equal(n, 0);
    fb_free(theirs);
    unmake(&w);
}

static void edit_inside(world *w, const char *scope, fb_edit_kind kind, int expected_fused)
{
    int n, row = row_named(w, scope);
    fb_id nodes[16];
    fb_edit e = {.kind = kind, .a = FB_NONE, .b = FB_NONE, .nodes = nodes};
    e.n_nodes = fb_rows_inside(&w->rows, row, nodes, 16);
    assert_true(e.n_nodes >= 2);
    edit(w, &e, true);
    const fb_row_edge *edges = fb_rows_edges(&w->rows, row_named(w, scope), &n);
    const fb_row_edge *inside = &edges[expected_fused ? n - 1 : 0];
    assert_true(inside->inside);
    assert_int_equal(inside->fused, expected_fused);
}

/* A scope as one kernel and apart again, in all repetitions and as one edit. */
static void scopes_are_toggled_as_one(void **state)
{
    (void)state;
    world w = make(branches(4, false), "none");
    assert_int_equal(w.letters.n_groups, 4 * 3 + 1);
    edit_inside(&w, "branch", FB_EDIT_FUSE_ALL, 4);
    assert_int_equal(w.letters.n_groups, 4 + 1);
    edit_inside(&w, "norm", FB_EDIT_ISOLATE, 0);
    assert_int_equal(w.letters.n_groups, 4 * 3 + 1);
    unmake(&w);
}

static void many_nodes_are_quick(void **state)
{
    (void)state;
    enum { NODES = 20000 };
    fb_graph *g = fb_graph_new("chain");
    fb_attrs shape = {.shape = {.rank = 1, .dim = {64}}, .dtype = FB_F32, .dist = FB_DIST_NORMAL, .high = 1};
    fb_id x = op(g, FB_OP_INPUT, FB_NONE, FB_NONE, &shape, "x");
    for (int i = 0; i < NODES; i++) {
        if (i % 10 == 0) fb_graph_scope_open(g, "part", i / 10, NULL, NULL, 0, NULL, 1, NULL);
        x = op(g, i % 2 ? FB_OP_TANH : FB_OP_RELU, x, FB_NONE, NULL, NULL);
        if (i % 10 == 9) fb_graph_scope_close(g, NULL, 0, NULL);
    }
    world w = make(finished(g, x), "none");
    fb_outline_fold_all(w.outline, false);
    for (int e = 0; e < w.outline->n; e++)
        if (w.outline->entries[e].kind == FB_ENTRY_REPEAT) w.outline->entries[e].fold = FB_MEMBERS;
    clock_t before = clock();
    fb_rows_make(&w.rows, w.outline, w.plan, &w.letters);
    double us = (double)(clock() - before) * (1e6 / CLOCKS_PER_SEC);
    assert_true(w.rows.rows.n > NODES);
    assert_true(us < 250e3); /* some 5 ms on a laptop; sanitizers and slow machines get room */
    unmake(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repetitions_are_one_line),
        cmocka_unit_test(unlike_members_stand_alone),
        cmocka_unit_test(rounds_of_views_are_lines),
        cmocka_unit_test(literals_are_left_out),
        cmocka_unit_test(every_node_is_found),
        cmocka_unit_test(revealed_nodes_have_rows),
        cmocka_unit_test(folds_are_carried_over),
        cmocka_unit_test(repeated_groups_share_a_letter),
        cmocka_unit_test(letters_have_names),
        cmocka_unit_test(edges_are_counted_together),
        cmocka_unit_test(members_have_edges_of_their_own),
        cmocka_unit_test(fusing_one_member_is_mixed),
        cmocka_unit_test(rows_of_one_kernel_are_tied),
        cmocka_unit_test(kernels_of_others_are_tied),
        cmocka_unit_test(scopes_are_toggled_as_one),
        cmocka_unit_test(many_nodes_are_quick),
    };
    return cmocka_run_group_tests_name("rows", tests, NULL, NULL);
}
