/* Gradients through loops against those of the same steps written out, in double precision: several bodies, stored and
 * recomputed, in segments, truncated, forwards and backwards. */
#include "graph/autodiff.h"
#include "graph/canon.h"

#include "tests/unit/interp_help.h"

enum { STATES = 4, ITEMS = 2, WEIGHTS = 5, COLLECTED = 2, STEPS = 6, ROOM = 256 };

/* One step: from what it scans and its states (`time` is its number) to the next states and what is collected. */
typedef struct {
    const char *name;
    int n_states, n_items, n_weights, n_collected;
    fb_shape states[STATES], items[ITEMS], weights[WEIGHTS];
    void (*step)(rig *r, const fb_id *x, const fb_id *s, const fb_id *w, fb_id time, fb_id *next, fb_id *out);
} network;

static fb_id transposed(rig *r, fb_id a)
{
    return add_at(r, FB_OP_PERMUTE, a, (fb_attrs){.n_axes = 2, .axes = {1, 0}});
}

static fb_id columns(rig *r, fb_id a, int k, int n)
{
    return add_at(r, FB_OP_SLICE, a, (fb_attrs){.dim = 1, .start = k * n, .stop = (k + 1) * n, .step = 1});
}

static fb_id mul(rig *r, fb_id a, fb_id b)
{
    return add2(r, FB_OP_MUL, a, b);
}

static fb_id plus(rig *r, fb_id a, fb_id b)
{
    return add2(r, FB_OP_ADD, a, b);
}

static void lstm(rig *r, const fb_id *x, const fb_id *s, const fb_id *w, fb_id time, fb_id *next, fb_id *out)
{
    (void)time;
    fb_id from_x = plus(r, add2(r, FB_OP_MATMUL, x[0], transposed(r, w[0])), w[2]);
    fb_id gates = plus(r, from_x, add2(r, FB_OP_MATMUL, s[0], transposed(r, w[1])));
    fb_id i = add1(r, FB_OP_SIGMOID, columns(r, gates, 0, 3)), f = add1(r, FB_OP_SIGMOID, columns(r, gates, 1, 3));
    fb_id z = add1(r, FB_OP_TANH, columns(r, gates, 2, 3)), o = add1(r, FB_OP_SIGMOID, columns(r, gates, 3, 3));
    next[1] = plus(r, mul(r, f, s[1]), mul(r, i, z));
    out[0] = next[0] = mul(r, o, add1(r, FB_OP_TANH, next[1]));
}

static void gru(rig *r, const fb_id *x, const fb_id *s, const fb_id *w, fb_id time, fb_id *next, fb_id *out)
{
    (void)time;
    fb_id from_x = add2(r, FB_OP_MATMUL, x[0], transposed(r, w[0]));
    fb_id from_h = plus(r, add2(r, FB_OP_MATMUL, s[0], transposed(r, w[1])), w[2]);
    fb_id reset = add1(r, FB_OP_SIGMOID, plus(r, columns(r, from_x, 0, 3), columns(r, from_h, 0, 3)));
    fb_id update = add1(r, FB_OP_SIGMOID, plus(r, columns(r, from_x, 1, 3), columns(r, from_h, 1, 3)));
    fb_id n = add1(r, FB_OP_TANH, plus(r, columns(r, from_x, 2, 3), mul(r, reset, columns(r, from_h, 2, 3))));
    out[0] = next[0] = plus(r, n, mul(r, update, add2(r, FB_OP_SUB, s[0], n)));
}

/* States of several shapes: one that stays, one that is another's of the step before; a weight that is scaled in the
 * body, a matrix on the left, one a batch, a scalar; the counter; a choice; a state that nobody reads before it ends.
 */
static void odd(rig *r, const fb_id *x, const fb_id *s, const fb_id *w, fb_id time, fb_id *next, fb_id *out)
{
    fb_id a = s[0], still = s[2], scaled = mul(r, w[0], constant(r, FB_F64, 2));
    fb_id t = mul(r, add_at(r, FB_OP_CAST, time, (fb_attrs){.dtype = FB_F64}), constant(r, FB_F64, 0.05));
    fb_id rows = add_at(r, FB_OP_VIEW, a, (fb_attrs){.shape = SHAPE(2, 1, 3)});
    fb_id each = add_at(r, FB_OP_VIEW, add2(r, FB_OP_MATMUL, rows, w[2]), (fb_attrs){.shape = SHAPE(2, 3)});
    fb_id from_a = plus(r, add2(r, FB_OP_MATMUL, a, add1(r, FB_OP_TANH, scaled)), add2(r, FB_OP_MATMUL, w[1], a));
    fb_id from_x = plus(r, mul(r, x[0], s[1]), mul(r, mul(r, x[1], t), still));
    fb_id sum = plus(r, plus(r, from_a, from_x), plus(r, each, w[4]));
    fb_id positive = add2(r, FB_OP_GT, sum, constant(r, FB_F64, 0));
    fb_id leaky = add(r, FB_OP_WHERE, NULL, 3, (fb_id[]){positive, sum, mul(r, sum, s[3])});
    next[0] = add1(r, FB_OP_TANH, leaky);
    fb_id total = add_at(r, FB_OP_SUM, next[0], (fb_attrs){.n_axes = 1, .axes = {0}});
    next[1] = plus(r, mul(r, s[1], constant(r, FB_F64, 0.5)), mul(r, total, w[3]));
    next[2] = still;
    next[3] = a;
    out[0] = next[0];
    out[1] = mul(r, next[1], x[1]);
}

static const network networks[] = {
    {"lstm", 2, 1, 3, 1, {{2, {2, 3}}, {2, {2, 3}}}, {{2, {2, 3}}}, {{2, {12, 3}}, {2, {12, 3}}, {1, {12}}}, lstm},
    {"gru", 1, 1, 3, 1, {{2, {2, 3}}}, {{2, {2, 3}}}, {{2, {9, 3}}, {2, {9, 3}}, {1, {9}}}, gru},
    {"odd",
     4,
     2,
     5,
     2,
     {{2, {2, 3}}, {1, {3}}, {2, {2, 3}}, {2, {2, 3}}},
     {{2, {2, 3}}, {0}},
     {{2, {3, 3}}, {2, {2, 2}}, {3, {2, 3, 3}}, {0}, {2, {2, 3}}},
     odd},
};

/* ---- the same network twice ---- */

typedef struct {
    rig r;
    const network *n;
    bool backwards;
    int layers;
    int64_t truncate; /* written out: by detaching the states */
    double room[STATES + ITEMS + WEIGHTS][ROOM];
    fb_id x[STATES + ITEMS + WEIGHTS]; /* states, then scanned tensors, then weights */
    int n_x;
} problem;

static void draw(problem *p, fb_shape shape)
{
    dice d = {31 + (uint64_t)p->n_x};
    assert_true(fb_shape_elements(&shape) <= ROOM);
    for (int k = 0; k < ROOM; k++) p->room[p->n_x][k] = roll_between(&d, -0.8, 0.8);
    p->x[p->n_x] = data(&p->r, FB_F64, shape, p->room[p->n_x]);
    p->n_x++;
}

static fb_shape of_steps(fb_shape of)
{
    fb_shape all = {.rank = of.rank + 1, .dim = {STEPS}};
    for (int d = 0; d < of.rank; d++) all.dim[d + 1] = of.dim[d];
    return all;
}

static void begin(problem *p, const network *n)
{
    p->n = n;
    p->r = rig_new();
    p->n_x = 0;
    for (int i = 0; i < n->n_states; i++) draw(p, n->states[i]);
    for (int k = 0; k < n->n_items; k++) draw(p, of_steps(n->items[k]));
    for (int k = 0; k < n->n_weights; k++) draw(p, n->weights[k]);
}

static void as_loop(problem *p, const fb_id *scanned, fb_id *ends, fb_id *all)
{
    const network *n = p->n;
    fb_id s[STATES], x[ITEMS], next[STATES], out[COLLECTED];
    rig *r = &p->r;
    if (fb_graph_region_open(r->g, STEPS, p->x, n->n_states, scanned, n->n_items, s, x, 0, &r->err) == FB_NONE)
        fail_msg("%s", r->err.text);
    if (p->backwards) fb_graph_region_turn(r->g);
    n->step(r, x, s, p->x + n->n_states + n->n_items, add(r, FB_OP_STEP, NULL, 0, NULL), next, out);
    fb_id loop = fb_graph_region_close(r->g, next, out, n->n_collected, &r->err);
    if (loop == FB_NONE) fail_msg("%s", r->err.text);
    for (int i = 0; i < n->n_states; i++) ends[i] = add_at(r, FB_OP_RESULT, loop, (fb_attrs){.index = i});
    for (int j = 0; j < n->n_collected; j++)
        all[j] = add_at(r, FB_OP_RESULT, loop, (fb_attrs){.index = n->n_states + j});
}

static fb_id entry(rig *r, fb_id x, int64_t t)
{
    fb_shape shape = fb_node_at(r->g, x)->shape;
    fb_id one = add_at(r, FB_OP_SLICE, x, (fb_attrs){.start = t, .stop = t + 1, .step = 1});
    return add_at(r, FB_OP_VIEW, one, (fb_attrs){.shape = fb_shape_of(shape.rank - 1, shape.dim + 1)});
}

static void written_out(problem *p, const fb_id *scanned, fb_id *ends, fb_id *all)
{
    const network *n = p->n;
    fb_id s[STATES], x[ITEMS], out[COLLECTED], collected[COLLECTED][STEPS];
    rig *r = &p->r;
    memcpy(s, p->x, sizeof s);
    for (int t = 0; t < STEPS; t++) {
        int at = p->backwards ? STEPS - 1 - t : t;
        for (int k = 0; k < n->n_items; k++) x[k] = entry(r, scanned[k], at);
        for (int i = 0; i < n->n_states; i++)
            if (p->truncate && t && t % p->truncate == 0) s[i] = fb_autodiff_detach(r->g, s[i], 0, &r->err);
        n->step(r, x, s, p->x + n->n_states + n->n_items, constant(r, FB_I64, t), ends, out);
        memcpy(s, ends, sizeof s);
        for (int j = 0; j < n->n_collected; j++) collected[j][at] = out[j];
    }
    for (int j = 0; j < n->n_collected; j++) all[j] = add(r, FB_OP_STACK, NULL, STEPS, collected[j]);
}

static fb_id squares(rig *r, fb_id a)
{
    return add1(r, FB_OP_SUM, mul(r, a, a));
}

static fb_id loss_of(problem *p, void (*steps)(problem *p, const fb_id *scanned, fb_id *ends, fb_id *all))
{
    const network *n = p->n;
    fb_id ends[STATES], all[COLLECTED], scanned[ITEMS], loss = constant(&p->r, FB_F64, 0);
    memcpy(scanned, p->x + n->n_states, sizeof scanned);
    for (int layer = 0; layer < p->layers; layer++) {
        steps(p, scanned, ends, all);
        scanned[0] = all[0];
    }
    for (int i = 0; i < n->n_states; i += 2) loss = plus(&p->r, loss, squares(&p->r, ends[i])); /* not of all states */
    return plus(&p->r, loss, plus(&p->r, squares(&p->r, all[0]), squares(&p->r, all[n->n_collected - 1])));
}

static void expect_equal(const problem *p, fb_id is, fb_id wanted, const char *what)
{
    const fb_tensor *a = get(&p->r, is), *b = get(&p->r, wanted);
    assert_int_equal(a->n, b->n);
    for (int64_t k = 0; k < a->n; k++)
        if (!(fabs(a->v[k] - b->v[k]) <= 1e-11 * (1 + fabs(b->v[k]))))
            fail_msg("%s, %s: [%d] is %.15g, written out %.15g", p->n->name, what, (int)k, a->v[k], b->v[k]);
}

static void compare(const network *n, fb_through through, bool backwards, int layers)
{
    enum { MOST = STATES + ITEMS + WEIGHTS };
    problem *p = fb_calloc(1, sizeof *p);
    fb_id is[MOST + 1], wanted[MOST + 1], out[2 * MOST + 2];
    char what[160];
    *p = (problem){.backwards = backwards, .layers = layers, .truncate = through.truncate};
    begin(p, n);
    snprintf(what, sizeof what, "%s every %d truncated %d%s%s, %d layers", through.recomputed ? "recomputed" : "stored",
             (int)through.every, (int)through.truncate, through.step_by_step ? " step by step" : "",
             backwards ? " backwards" : "", layers);
    is[p->n_x] = loss_of(p, as_loop);
    wanted[p->n_x] = loss_of(p, written_out);
    if (!fb_autodiff_through(p->r.g, is[p->n_x], p->x, p->n_x, is, &through, 0, &p->r.err) ||
        !fb_autodiff(p->r.g, wanted[p->n_x], p->x, p->n_x, wanted, 0, &p->r.err))
        fail_msg("%s, %s: %s", n->name, what, p->r.err.text);
    for (int i = 0; i <= p->n_x; i++) {
        out[2 * i] = is[i];
        out[2 * i + 1] = wanted[i];
    }
    run_keeping_all(&p->r, out, 2 * p->n_x + 2, false);
    for (int i = 0; i <= p->n_x; i++) expect_equal(p, is[i], wanted[i], what);
    rig_free(&p->r);
    fb_free(p);
}

static void each(fb_through through)
{
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        for (int backwards = 0; backwards < 2; backwards++) compare(&networks[i], through, backwards, 1);
}

static void stored(void **state)
{
    (void)state;
    each((fb_through){0});
    each((fb_through){.truncate = 2});
    each((fb_through){.truncate = 4});
}

static void step_by_step(void **state)
{
    (void)state;
    each((fb_through){.step_by_step = true});
}

static void recomputed(void **state)
{
    (void)state;
    each((fb_through){.recomputed = true});
    each((fb_through){.recomputed = true, .truncate = 3});
}

static void in_segments(void **state)
{
    (void)state;
    each((fb_through){.recomputed = true, .every = 2});
    each((fb_through){.recomputed = true, .every = 3, .truncate = 2});
    each((fb_through){.recomputed = true, .every = 6});
}

static void layers_share_their_weights(void **state)
{
    (void)state;
    compare(&networks[0], (fb_through){0}, false, 2);
    compare(&networks[1], (fb_through){.recomputed = true, .every = 3}, true, 2);
}

/* The gradient of the squares of the gradients: back through the loop that went back. */
static void again(problem *p, fb_id loss, fb_through through, fb_id *to)
{
    fb_id sum = constant(&p->r, FB_F64, 0);
    if (!fb_autodiff_through(p->r.g, loss, p->x, p->n_x, to, &through, 0, &p->r.err)) fail_msg("%s", p->r.err.text);
    for (int i = 0; i < p->n_x; i++) sum = plus(&p->r, sum, squares(&p->r, to[i]));
    if (!fb_autodiff_through(p->r.g, sum, p->x, p->n_x, to, &through, 0, &p->r.err)) fail_msg("%s", p->r.err.text);
}

static void second_order(void **state)
{
    (void)state;
    enum { MOST = STATES + ITEMS + WEIGHTS };
    for (int recomputed = 0; recomputed < 2; recomputed++) {
        problem *p = fb_calloc(1, sizeof *p);
        fb_id is[MOST], wanted[MOST], out[2 * MOST];
        p->layers = 1;
        begin(p, &networks[recomputed]);
        again(p, loss_of(p, as_loop), (fb_through){.recomputed = recomputed}, is);
        again(p, loss_of(p, written_out), (fb_through){0}, wanted);
        for (int i = 0; i < p->n_x; i++) {
            out[2 * i] = is[i];
            out[2 * i + 1] = wanted[i];
        }
        run_keeping_all(&p->r, out, 2 * p->n_x, false);
        for (int i = 0; i < p->n_x; i++) expect_equal(p, is[i], wanted[i], "of second order");
        rig_free(&p->r);
        fb_free(p);
    }
}

/* ---- what is kept ---- */

static int count_nodes(const fb_graph *g, fb_op op, bool in_loops)
{
    int n = 0;
    for (fb_id i = 0; i < g->n_nodes; i++) n += g->nodes[i].op == op && (g->nodes[i].region > 0) == in_loops;
    return n;
}

/* The graph of an LSTM's gradients by states, items and weights. */
static fb_graph *gradients_of_lstm(fb_through through)
{
    problem *p = fb_calloc(1, sizeof *p);
    fb_id is[STATES + ITEMS + WEIGHTS];
    p->layers = 1;
    begin(p, &networks[0]);
    fb_id loss = loss_of(p, as_loop);
    if (!fb_autodiff_through(p->r.g, loss, p->x, p->n_x, is, &through, 0, &p->r.err)) fail_msg("%s", p->r.err.text);
    for (int i = 0; i < p->n_x; i++)
        if (!fb_graph_output(p->r.g, is[i], NULL, &p->r.err)) fail_msg("%s", p->r.err.text);
    if (!fb_graph_finish(p->r.g, &p->r.err)) fail_msg("%s", p->r.err.text);
    fb_graph *g = fb_graph_canonical(p->r.g, &p->r.err);
    if (!g) fail_msg("%s", p->r.err.text);
    rig_free(&p->r);
    fb_free(p);
    return g;
}

/* Forward two products a step. Backwards one, of the gates' gradient with W_hh: what x and the weights get is three
 * products after the loop. Stored: h, c and the four gates. */
static void one_product_after_the_loop(void **state)
{
    (void)state;
    fb_graph *g = gradients_of_lstm((fb_through){0});
    assert_int_equal(count_nodes(g, FB_OP_MATMUL, true), 3);
    assert_int_equal(count_nodes(g, FB_OP_MATMUL, false), 3);
    assert_int_equal(g->regions[1].n_stacked, 6);
    assert_false(g->regions[1].backwards);
    assert_true(g->regions[2].backwards);
    assert_int_equal(g->regions[2].n_carried, 2);
    assert_int_equal(g->regions[2].n_stacked, 1); /* the gates' gradient, side by side */
    fb_graph_free(g);
    g = gradients_of_lstm((fb_through){.step_by_step = true});
    assert_int_equal(count_nodes(g, FB_OP_MATMUL, true), 6);
    assert_int_equal(count_nodes(g, FB_OP_MATMUL, false), 0);
    fb_graph_free(g);
    g = gradients_of_lstm((fb_through){.recomputed = true});
    assert_int_equal(count_nodes(g, FB_OP_MATMUL, true), 5);
    assert_int_equal(g->regions[1].n_stacked, 2);
    fb_graph_free(g);
    g = gradients_of_lstm((fb_through){.recomputed = true, .every = 2});
    assert_int_equal(g->regions[1].n_stacked, 3); /* h as the script asks for it, and as segments begin with it */
    int64_t rows = 0;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == FB_OP_RESULT && g->nodes[i].args[0] == g->regions[1].loop)
            rows += fb_region_every(&g->regions[1], g->nodes[i].attrs->index - 2) == 2 ? g->nodes[i].shape.dim[0] : 0;
    assert_int_equal(rows, 2 * STEPS / 2);
    fb_graph_free(g);
}

/* ---- refusals ---- */

static void expect_refusal(rig *r, fb_id loss, fb_id wrt, fb_through through, const char *text)
{
    fb_id d;
    fb_error err = {0};
    int nodes = r->g->n_nodes, regions = r->g->n_regions;
    assert_false(fb_autodiff_through(r->g, loss, &wrt, 1, &d, &through, 12, &err));
    if (!strstr(err.text, text)) fail_msg("\"%s\" does not say \"%s\"", err.text, text);
    assert_int_equal(r->g->n_nodes, nodes);
    assert_int_equal(r->g->n_regions, regions);
}

static fb_id open_loop(rig *r, fb_id init, int64_t trips)
{
    fb_id carried;
    if (fb_graph_region_open(r->g, trips, &init, 1, NULL, 0, &carried, NULL, 7, &r->err) == FB_NONE)
        fail_msg("%s", r->err.text);
    return carried;
}

static fb_id close_loop(rig *r, fb_id yield)
{
    fb_id loop = fb_graph_region_close(r->g, &yield, NULL, 0, &r->err);
    if (loop == FB_NONE) fail_msg("%s", r->err.text);
    return add_at(r, FB_OP_RESULT, loop, (fb_attrs){.index = 0});
}

static void refusals(void **state)
{
    (void)state;
    rig r = rig_new();
    double one = 1;
    fb_id w = data(&r, FB_F64, SCALAR, &one), p = source(&r, FB_OP_PARAM, FB_F64, SCALAR, &one);
    fb_id a = open_loop(&r, w, 3), b = open_loop(&r, a, 2);
    fb_id nested = close_loop(&r, close_loop(&r, mul(&r, b, b)));
    expect_refusal(&r, nested, w, (fb_through){0},
                   "no derivative through a loop inside a loop (loop, line 7; the loop");
    a = open_loop(&r, w, 3);
    fb_id next = mul(&r, a, p);
    add2(&r, FB_OP_ASSIGN, p, next);
    fb_id effect = close_loop(&r, next);
    expect_refusal(&r, effect, w, (fb_through){0}, "through a loop whose body has an effect (assign, line 0; the loop");
    a = open_loop(&r, w, 6);
    fb_id plain = close_loop(&r, mul(&r, a, w));
    fb_through through = {.recomputed = true, .every = 4};
    expect_refusal(&r, plain, w, through, "every = 4 does not divide the 6 steps of the loop of line 7");
    expect_refusal(&r, plain, w, (fb_through){.every = 2}, "every = 2 needs through = \"recomputed\"");
    fb_id d;
    if (!fb_autodiff(r.g, plain, &w, 1, &d, 0, &r.err)) fail_msg("%s", r.err.text);
    run_keeping_all(&r, &d, 1, false);
    assert_float_equal(get(&r, d)->v[0], 7, 0); /* w to the seventh */
    rig_free(&r);
}

/* A loop without steps hands its states on. */
static void no_steps(void **state)
{
    (void)state;
    rig r = rig_new();
    double three = 3;
    fb_id w = data(&r, FB_F64, SCALAR, &three), a = open_loop(&r, mul(&r, w, w), 0), d;
    fb_id end = close_loop(&r, mul(&r, a, a));
    if (!fb_autodiff(r.g, end, &w, 1, &d, 0, &r.err)) fail_msg("%s", r.err.text);
    run_keeping_all(&r, &d, 1, false);
    assert_float_equal(get(&r, d)->v[0], 6, 0);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored),
        cmocka_unit_test(step_by_step),
        cmocka_unit_test(recomputed),
        cmocka_unit_test(in_segments),
        cmocka_unit_test(layers_share_their_weights),
        cmocka_unit_test(second_order),
        cmocka_unit_test(one_product_after_the_loop),
        cmocka_unit_test(refusals),
        cmocka_unit_test(no_steps),
    };
    return cmocka_run_group_tests_name("autodiff_loop", tests, NULL, NULL);
}
