/* Loops that are written out, made loops: the same values to the last bit, whichever way the steps are written; and
 * why the others are none. */
#include "graph/autodiff.h"
#include "graph/canon.h"
#include "graph/roll.h"

#include "tests/unit/interp_help.h"

enum { STEPS = 6, N = 4, I = 3, H = 4, MOST_OUT = 8 };

/* What a step does otherwise than the others, or all do. */
typedef struct {
    bool scopes, zeros, batch_first, from_the_end, one_product;
    bool skips_first;   /* the first step has no state to multiply */
    bool own_weights;   /* in each step */
    int back;           /* the cell state of so many steps before that of the step before */
    int odd_slope;      /* a step that has another clamp; FB_NONE */
    int odd_slice;      /* a step that reads what lies elsewhere; FB_NONE */
    int part, apart;    /* rows of a step in x, and how far apart; 0: one entry of dim 0 */
    bool look_in;       /* a gate of step 3 is an output */
    bool turned_output; /* collected the other way round */
    bool joined;        /* collected by cat */
    bool without_first; /* what the first step gives is not collected */
} writing;

static const writing plain = {.odd_slope = FB_NONE, .odd_slice = FB_NONE};

static fb_id drawn(rig *r, const char *name, fb_op op, fb_shape shape)
{
    fb_attrs at = {.dtype = FB_F64, .shape = shape, .dist = FB_DIST_UNIFORM, .value = -0.8, .high = 0.8};
    fb_id id = fb_graph_add(r->g, op, NULL, 0, &at, name, 0, &r->err);
    if (id == FB_NONE) fail_msg("%s", r->err.text);
    return id;
}

static fb_id transposed(rig *r, fb_id a)
{
    return add_at(r, FB_OP_PERMUTE, a, (fb_attrs){.n_axes = 2, .axes = {1, 0}});
}

static fb_id slice(rig *r, fb_id a, int dim, int64_t start, int64_t n)
{
    return add_at(r, FB_OP_SLICE, a, (fb_attrs){.dim = dim, .start = start, .stop = start + n, .step = 1});
}

static fb_id gate(rig *r, fb_id gates, int k)
{
    return slice(r, gates, 1, k * H, H);
}

static fb_id mul(rig *r, fb_id a, fb_id b)
{
    return add2(r, FB_OP_MUL, a, b);
}

static fb_id plus(rig *r, fb_id a, fb_id b)
{
    return add2(r, FB_OP_ADD, a, b);
}

/* What step t reads of x. */
static fb_id read_x(rig *r, const writing *w, fb_id x, int t)
{
    int at = w->from_the_end ? STEPS - 1 - t : t;
    if (t == w->odd_slice) at = 0;
    if (w->part) return slice(r, x, 0, at * w->apart, w->part);
    fb_id one = slice(r, x, w->batch_first ? 1 : 0, at, 1);
    return add_at(r, FB_OP_VIEW, one, (fb_attrs){.shape = SHAPE(N, I)});
}

typedef struct {
    rig r;
    fb_id x, w_x[STEPS], w_h, bias, h, c, h0;
    fb_id each[STEPS], outs[MOST_OUT];
    int n_out;
} lstm;

static void step(lstm *m, const writing *w, int t, const fb_id *cs)
{
    rig *r = &m->r;
    fb_id from_x = add2(r, FB_OP_MATMUL, read_x(r, w, m->x, t), transposed(r, m->w_x[w->own_weights ? t : 0]));
    fb_id gates = plus(r, from_x, m->bias);
    if (!w->skips_first || t) gates = plus(r, gates, add2(r, FB_OP_MATMUL, m->h, transposed(r, m->w_h)));
    fb_id i = add1(r, FB_OP_SIGMOID, gate(r, gates, 0)), f = add1(r, FB_OP_SIGMOID, gate(r, gates, 1));
    fb_id z = add1(r, FB_OP_TANH, gate(r, gates, 2)), o = add1(r, FB_OP_SIGMOID, gate(r, gates, 3));
    fb_id before = w->back && t > w->back ? cs[t - 1 - w->back] : m->c;
    m->c = plus(r, mul(r, f, before), mul(r, i, z));
    fb_id held = add_at(r, FB_OP_CLAMP, m->c, (fb_attrs){.value = -0.5, .high = t == w->odd_slope ? 0.25 : 0.5});
    m->h = mul(r, o, add1(r, FB_OP_TANH, held));
    if (w->look_in && t == 3) m->outs[m->n_out++] = z;
}

static void write_steps(lstm *m, const writing *w)
{
    rig *r = &m->r;
    fb_id cs[STEPS];
    for (int t = 0; t < STEPS; t++) {
        if (w->scopes && fb_graph_scope_open(r->g, "step", t + 1, NULL, NULL, 0, NULL, 0, &r->err) == FB_NONE)
            fail_msg("%s", r->err.text);
        step(m, w, t, cs);
        cs[t] = m->c;
        m->each[w->turned_output ? STEPS - 1 - t : t] = m->h;
        if (w->scopes) assert_true(fb_graph_scope_close(r->g, NULL, 0, &r->err));
    }
}

static void write_lstm(lstm *m, const writing *w)
{
    rig *r = &m->r;
    fb_shape state = SHAPE(N, H);
    *m = (lstm){.r = rig_new()};
    m->x = drawn(r, "x", FB_OP_INPUT,
                 w->part          ? SHAPE((STEPS - 1) * w->apart + N, I)
                 : w->batch_first ? SHAPE(N, STEPS, I)
                                  : SHAPE(STEPS, N, I));
    for (int t = 0; t < (w->own_weights ? STEPS : 1); t++) m->w_x[t] = drawn(r, "w_x", FB_OP_PARAM, SHAPE(4 * H, I));
    m->w_h = drawn(r, "w_h", FB_OP_PARAM, SHAPE(4 * H, H));
    m->bias = drawn(r, "bias", FB_OP_PARAM, SHAPE(4 * H));
    m->h0 = m->h = w->zeros ? add_at(r, FB_OP_EXPAND, constant(r, FB_F64, 0), (fb_attrs){.shape = state})
                            : drawn(r, "h", FB_OP_INPUT, state);
    m->c = w->zeros ? m->h : drawn(r, "c", FB_OP_INPUT, state);
    write_steps(m, w);
    int skip = w->without_first;
    m->outs[m->n_out++] =
        add(r, w->joined ? FB_OP_CAT : FB_OP_STACK, &(fb_attrs){.dim = w->batch_first}, STEPS - skip, m->each + skip);
    m->outs[m->n_out++] = m->c;
}

static fb_graph *canonical(rig *r, const fb_id *outs, int n)
{
    for (int i = 0; i < n; i++)
        if (!fb_graph_output(r->g, outs[i], NULL, &r->err)) fail_msg("%s", r->err.text);
    if (!fb_graph_finish(r->g, &r->err)) fail_msg("%s", r->err.text);
    fb_graph *g = fb_graph_canonical(r->g, &r->err);
    if (!g) fail_msg("%s", r->err.text);
    rig_free(r);
    return g;
}

static fb_graph *graph_of(const writing *w)
{
    lstm m;
    write_lstm(&m, w);
    return canonical(&m.r, m.outs, m.n_out);
}

static fb_interp *values_of(const fb_graph *g)
{
    fb_error err = {0};
    fb_interp *in = fb_interp_run(g, &(fb_interp_options){.seed = 7}, NULL, 0, &err);
    if (!in) fail_msg("%s", err.text);
    return in;
}

static fb_roll *roll_of(const fb_graph *g)
{
    fb_error err = {0};
    fb_roll *rolled = fb_graph_roll(g, &err);
    if (!rolled) fail_msg("%s", err.text);
    return rolled;
}

/* The same outputs, to the last bit. */
static void expect_same(const fb_graph *g, const fb_graph *as_loop)
{
    fb_interp *a = values_of(g), *b = values_of(as_loop);
    assert_int_equal(g->n_outputs, as_loop->n_outputs);
    for (int i = 0; i < g->n_outputs; i++) {
        const fb_tensor *x = fb_interp_get(a, g->outputs[i]), *y = fb_interp_get(b, as_loop->outputs[i]);
        assert_string_equal(g->output_names[i], as_loop->output_names[i]);
        assert_int_equal(x->n, y->n);
        for (int64_t k = 0; k < x->n; k++)
            if (!same(value_at(x, k), value_at(y, k)))
                fail_msg("output %d[%d] is %.17g as a loop, %.17g written out", i, (int)k, value_at(y, k),
                         value_at(x, k));
    }
    fb_interp_free(a);
    fb_interp_free(b);
}

/* The maps between the graphs agree with each other and with what the nodes are. */
static void expect_maps(const fb_graph *g, const fb_roll *r)
{
    for (fb_id i = 0; i < r->graph->n_nodes; i++) {
        const fb_node *n = &r->graph->nodes[i];
        if (r->was[i] == FB_NONE) {
            assert_true(!fb_node_is_computed(r->graph, i) || n->op == FB_OP_CAT || n->op == FB_OP_STACK ||
                        n->op == FB_OP_COPY);
            continue;
        }
        if (n->op != FB_OP_CAT) assert_int_equal(n->op, g->nodes[r->was[i]].op); /* a stack with ends that were left */
        if (fb_node_is_computed(g, r->was[i])) assert_int_equal(r->is[r->was[i]], i);
    }
    for (fb_id i = 0; i < g->n_nodes; i++) {
        bool inside = r->is[i] != FB_NONE && r->graph->nodes[r->is[i]].region > 0;
        if (fb_node_is_computed(g, i)) assert_int_equal(inside, r->member[i] > 0);
    }
}

static int computed(const fb_graph *g)
{
    int n = 0;
    for (fb_id i = 0; i < g->n_nodes; i++) n += fb_node_is_computed(g, i);
    return n;
}

/* One loop of so many trips, from member `first` on. */
static fb_roll *expect_loop(const fb_graph *g, int first, int trips)
{
    fb_roll *r = roll_of(g);
    if (!r->graph) fail_msg("no loop: %s", r->n ? r->finds[0].why : "nothing repeats");
    assert_int_equal(r->finds[0].first, first);
    assert_int_equal(r->finds[0].trips, trips);
    assert_null(r->finds[0].why);
    assert_true(r->n == 1 || r->finds[1].why || r->graph->n_regions > 2);
    expect_same(g, r->graph);
    expect_maps(g, r);
    return r;
}

static void becomes(writing w, int first, int trips)
{
    fb_graph *g = graph_of(&w);
    fb_roll *r = expect_loop(g, first, trips), *again = roll_of(r->graph);
    assert_null(again->graph); /* a loop is no loop written out */
    fb_roll_free(again);
    fb_roll_free(r);
    fb_graph_free(g);
}

/* ---- what is a loop ---- */

static void steps_become_a_loop(void **state)
{
    (void)state;
    writing w = plain;
    w.scopes = true;
    fb_graph *g = graph_of(&w);
    fb_roll *r = expect_loop(g, 0, STEPS);
    assert_int_equal(r->graph->n_regions, 2);
    assert_int_equal(r->finds[0].carried, 2);
    assert_int_equal(r->finds[0].members, STEPS);
    assert_int_equal(r->finds[0].nodes * STEPS + 1, computed(g)); /* and the stack */
    assert_int_equal(computed(r->graph), r->finds[0].nodes);
    assert_string_equal(r->finds[0].name, "step[*].matmul");
    assert_int_not_equal(fb_graph_find(r->graph, "step.matmul"), FB_NONE);
    assert_null(r->finds[0].left);
    assert_null(r->finds[0].rest);
    fb_roll_free(r);
    fb_graph_free(g);
}

static void however_they_are_written(void **state)
{
    (void)state;
    writing w = plain;
    becomes(w, 0, STEPS); /* without scopes */
    w.zeros = true;
    becomes(w, 0, STEPS);
    w.scopes = true;
    becomes(w, 0, STEPS);
    w.batch_first = true;
    becomes(w, 0, STEPS);
    w.joined = true;
    becomes(w, 0, STEPS);
    w.batch_first = false;
    becomes(w, 0, STEPS);
    w.from_the_end = true;
    becomes(w, 0, STEPS);
    w.turned_output = true;
    becomes(w, 0, STEPS);
    w.from_the_end = false;
    becomes(w, 0, STEPS);
    w = plain;
    w.back = 1; /* where a step begins with what follows from that state */
    becomes(w, 1, STEPS - 2);
    w.back = 0;
    w.look_in = true;
    becomes(w, 0, STEPS);
    w.without_first = true;
    becomes(w, 0, STEPS);
}

static void parts_of_a_tensor(void **state)
{
    (void)state;
    writing w = plain;
    w.part = N;
    for (w.apart = N; w.apart < N + 3; w.apart++) becomes(w, 0, STEPS);
    w.from_the_end = true;
    for (w.apart = N; w.apart < N + 3; w.apart++) becomes(w, 0, STEPS);
}

static void ends_are_left(void **state)
{
    (void)state;
    writing w = plain;
    w.scopes = w.skips_first = true;
    becomes(w, 0, STEPS - 1); /* the run begins with the second step */
    w.skips_first = false;
    w.odd_slope = 0;
    becomes(w, 1, STEPS - 1);
    w.odd_slope = STEPS - 1;
    becomes(w, 0, STEPS - 1);
    w.odd_slope = 1;
    becomes(w, 2, STEPS - 2);
    fb_graph *g = graph_of(&w);
    fb_roll *r = roll_of(g);
    assert_non_null(strstr(r->finds[0].left, "has other numbers or axes than"));
    fb_roll_free(r);
    fb_graph_free(g);
    w.odd_slope = FB_NONE;
    w.back = 2;
    g = graph_of(&w);
    r = expect_loop(g, 0, 3);
    assert_non_null(strstr(r->finds[0].rest, "which is of a step further back"));
    fb_roll_free(r);
    fb_graph_free(g);
    w.back = 0;
    w.odd_slope = FB_NONE;
    w.odd_slice = 0; /* where it would be anyway */
    becomes(w, 0, STEPS);
    w.odd_slice = STEPS - 1;
    becomes(w, 0, STEPS - 1);
}

/* The loop forward, and the one that takes it back. */
static void gradients_become_loops(void **state)
{
    (void)state;
    for (int zeros = 0; zeros < 2; zeros++) {
        writing w = plain;
        lstm m;
        fb_id to[3];
        w.scopes = true;
        w.zeros = zeros;
        write_lstm(&m, &w);
        fb_id all = m.outs[0], loss = add1(&m.r, FB_OP_SUM, mul(&m.r, all, all));
        fb_id wrt[] = {m.w_x[0], m.w_h, m.bias};
        if (!fb_autodiff(m.r.g, loss, wrt, 3, to, 0, &m.r.err)) fail_msg("%s", m.r.err.text);
        fb_graph *g = canonical(&m.r, to, 3);
        fb_roll *r = roll_of(g);
        assert_non_null(r->graph);
        expect_same(g, r->graph);
        expect_maps(g, r);
        assert_int_equal(r->graph->n_regions, 3);
        bool backwards = false;
        for (fb_id i = 1; i < r->graph->n_regions; i++) {
            assert_true(r->graph->regions[i].trips >= STEPS - 2);
            backwards |= r->graph->regions[i].backwards;
        }
        assert_true(backwards);
        fb_roll_free(r);
        fb_graph_free(g);
    }
}

/* ---- what is none ---- */

static void expect_no(fb_graph *g, const char *why)
{
    fb_roll *r = roll_of(g);
    assert_null(r->graph);
    if (r->n != 1) fail_msg("%d findings, not 1: %s", r->n, why);
    if (!strstr(r->finds[0].why, why)) fail_msg("\"%s\" does not say \"%s\"", r->finds[0].why, why);
    assert_int_equal(r->finds[0].trips, 0);
    fb_roll_free(r);
    fb_graph_free(g);
}

static void refused(writing w, const char *why)
{
    w.scopes = true;
    expect_no(graph_of(&w), why);
}

static void steps_that_are_no_loop(void **state)
{
    (void)state;
    writing w = plain;
    w.own_weights = true;
    refused(w, "`step[2].matmul` reads `w_x_2` where `step[1].matmul` reads `w_x`");
    w.own_weights = false;
    w.part = N;
    w.apart = 1;
    refused(w, "parts of `x` that overlap");
}

/* f(scope, i, before) writes member i. */
static fb_graph *members(int n, fb_id (*f)(rig *r, int i, fb_id before, fb_id w, fb_id x))
{
    rig r = rig_new();
    fb_id outs[STEPS], x = drawn(&r, "x", FB_OP_INPUT, SHAPE(24, 4)), w = drawn(&r, "w", FB_OP_PARAM, SHAPE(4, 4));
    fb_id before = slice(&r, x, 0, 0, 4);
    for (int i = 0; i < n; i++) {
        if (fb_graph_scope_open(r.g, "block", i, NULL, NULL, 0, NULL, 0, &r.err) == FB_NONE) fail_msg("%s", r.err.text);
        outs[i] = before = f(&r, i, before, w, x);
        assert_true(fb_graph_scope_close(r.g, NULL, 0, &r.err));
    }
    return canonical(&r, outs, n);
}

static fb_id side_by_side(rig *r, int i, fb_id before, fb_id w, fb_id x)
{
    (void)before;
    return add1(r, FB_OP_TANH, add2(r, FB_OP_MATMUL, slice(r, x, 0, 4 * i, 4), w));
}

static fb_id growing(rig *r, int i, fb_id before, fb_id w, fb_id x)
{
    fb_id rows = add(r, FB_OP_CAT, &(fb_attrs){0}, 2, (fb_id[]){before, slice(r, x, 0, 4 * i, 4)});
    return add1(r, FB_OP_TANH, add2(r, FB_OP_MATMUL, rows, w));
}

static fb_id pointwise(rig *r, int i, fb_id before, fb_id w, fb_id x)
{
    (void)i, (void)x;
    return plus(r, before, w);
}

static fb_id unevenly(rig *r, int i, fb_id before, fb_id w, fb_id x)
{
    return add1(r, FB_OP_TANH, plus(r, add2(r, FB_OP_MATMUL, before, w), slice(r, x, 0, i * i, 4)));
}

static fb_id other_views(rig *r, int i, fb_id before, fb_id w, fb_id x)
{
    fb_id part = slice(r, x, 0, 0, 4);
    return add1(r, FB_OP_TANH, plus(r, add2(r, FB_OP_MATMUL, before, w), i % 2 ? transposed(r, part) : part));
}

static void members_that_are_no_loop(void **state)
{
    (void)state;
    expect_no(members(4, side_by_side), "no step reads another one's values: 4 equal members, side by side");
    expect_no(members(4, growing), "`block[1].cat` is f64[12,4], `block[0].cat` is f64[8,4]");
    expect_no(members(4, pointwise), "1 pointwise operation a step: all steps together are one kernel");
    expect_no(members(4, unevenly), "lie not as far apart as those of the steps before");
    expect_no(members(4, other_views), "through views that differ");
}

static void nothing_repeats(void **state)
{
    (void)state;
    fb_graph *g = members(2, side_by_side);
    fb_roll *r = roll_of(g);
    assert_null(r->graph);
    assert_int_equal(r->n, 0);
    fb_roll_free(r);
    fb_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_become_a_loop),      cmocka_unit_test(however_they_are_written),
        cmocka_unit_test(parts_of_a_tensor),        cmocka_unit_test(ends_are_left),
        cmocka_unit_test(gradients_become_loops),   cmocka_unit_test(steps_that_are_no_loop),
        cmocka_unit_test(members_that_are_no_loop), cmocka_unit_test(nothing_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
