/* Loops held against each other: one computation however it is written, and what keeps the others apart. */
#include "graph/access.h"
#include "graph/canon.h"
#include "graph/loop_compare.h"
#include "graph/roll.h"

#include "tests/unit/interp_help.h"

enum { H = 4, MOST_STEPS = 8 };

/* How steps h' = a z + h, a = sigmoid(s), z = tanh(s), s = x[t] W + b + h U + d are written. */
typedef struct {
    int steps;
    int64_t rows;
    double most;      /* of h' */
    bool swapped;     /* operands in the other order, and carried values */
    bool flat;        /* x in two dims, cut in rows */
    bool batch_first; /* x[:, t] */
    bool regrouped;   /* (x[t] W + b) + (h U + d) */
    bool hoisted;     /* x W of all steps before */
    bool joined;      /* [x[t], h] times one matrix */
    bool crossed;     /* h' = a h + z */
    bool counts;      /* a second value goes from step to step */
    bool square;      /* steps as wide as states */
    bool looped;      /* written as a loop */
} writing;

static const writing plain = {.steps = 5, .rows = 2, .most = 0.5};

typedef struct {
    rig r;
    const writing *w;
    int64_t I;
    fb_id x, W, U, WU, b, d, xw;
} cell;

static fb_id drawn(rig *r, const char *name, fb_op op, fb_shape shape)
{
    fb_attrs at = {.dtype = FB_F32, .shape = shape, .dist = FB_DIST_UNIFORM, .high = 1};
    fb_id id = fb_graph_add(r->g, op, NULL, 0, &at, name, 0, &r->err);
    if (id == FB_NONE) fail_msg("%s", r->err.text);
    return id;
}

static fb_id two(cell *c, fb_op op, fb_id a, fb_id b)
{
    return c->w->swapped ? add2(&c->r, op, b, a) : add2(&c->r, op, a, b);
}

static fb_id view(cell *c, fb_id a, int64_t rows, int64_t columns)
{
    return add_at(&c->r, FB_OP_VIEW, a, (fb_attrs){.shape = SHAPE(rows, columns)});
}

static fb_id part(cell *c, fb_id a, int dim, int64_t at, int64_t n)
{
    return add_at(&c->r, FB_OP_SLICE, a, (fb_attrs){.dim = dim, .start = at, .stop = at + n, .step = 1});
}

static cell cell_of(const writing *w)
{
    cell c = {.r = rig_new(), .w = w, .I = w->square ? H : 3};
    fb_shape of_x = w->flat          ? SHAPE(w->steps * w->rows, c.I)
                    : w->batch_first ? SHAPE(w->rows, w->steps, c.I)
                                     : SHAPE(w->steps, w->rows, c.I);
    c.x = drawn(&c.r, w->swapped ? "data" : "x", FB_OP_INPUT, of_x);
    c.W = drawn(&c.r, "W", FB_OP_PARAM, SHAPE(c.I, H));
    c.U = drawn(&c.r, "U", FB_OP_PARAM, SHAPE(H, H));
    c.b = drawn(&c.r, "b", FB_OP_PARAM, SHAPE(H));
    c.d = drawn(&c.r, "d", FB_OP_PARAM, SHAPE(H));
    if (w->joined) c.WU = add(&c.r, FB_OP_CAT, &(fb_attrs){0}, 2, (fb_id[]){c.W, c.U});
    if (w->hoisted) c.xw = add2(&c.r, FB_OP_MATMUL, c.x, c.W);
    return c;
}

static fb_id sum_of(cell *c, fb_id x, fb_id h)
{
    rig *r = &c->r;
    if (c->w->joined) {
        fb_id xh = add(r, FB_OP_CAT, &(fb_attrs){.dim = 1}, 2, (fb_id[]){x, h});
        return two(c, FB_OP_ADD, two(c, FB_OP_ADD, add2(r, FB_OP_MATMUL, xh, c->WU), c->b), c->d);
    }
    fb_id xw = c->w->hoisted ? x : add2(r, FB_OP_MATMUL, x, c->W), hu = add2(r, FB_OP_MATMUL, h, c->U);
    if (c->w->regrouped) return two(c, FB_OP_ADD, two(c, FB_OP_ADD, xw, c->b), two(c, FB_OP_ADD, hu, c->d));
    return two(c, FB_OP_ADD, two(c, FB_OP_ADD, two(c, FB_OP_ADD, xw, c->b), hu), c->d);
}

static fb_id step(cell *c, fb_id x, fb_id h)
{
    rig *r = &c->r;
    fb_id s = sum_of(c, x, h), a = add1(r, FB_OP_SIGMOID, s), z = add1(r, FB_OP_TANH, s);
    fb_id next = two(c, FB_OP_ADD, two(c, FB_OP_MUL, a, c->w->crossed ? h : z), c->w->crossed ? z : h);
    return add_at(r, FB_OP_CLAMP, next, (fb_attrs){.value = -0.5, .high = c->w->most});
}

static fb_id part_of_x(cell *c, int t)
{
    const writing *w = c->w;
    if (w->flat) return part(c, c->x, 0, t * w->rows, w->rows);
    if (w->hoisted) return view(c, part(c, c->xw, 0, t, 1), w->rows, H);
    return view(c, part(c, c->x, w->batch_first, t, 1), w->rows, c->I);
}

static fb_graph *canonical(cell *c, fb_id out)
{
    rig *r = &c->r;
    if (!fb_graph_output(r->g, out, NULL, &r->err) || !fb_graph_finish(r->g, &r->err)) fail_msg("%s", r->err.text);
    fb_graph *g = fb_graph_canonical(r->g, &r->err);
    if (!g) fail_msg("%s", r->err.text);
    rig_free(r);
    return g;
}

/* With steps written out as they are. */
static fb_graph *written(const writing *w)
{
    cell c = cell_of(w);
    fb_id h = drawn(&c.r, "h", FB_OP_INPUT, SHAPE(w->rows, H)), n = h, each[MOST_STEPS];
    for (int t = 0; t < w->steps; t++) {
        h = each[t] = step(&c, part_of_x(&c, t), h);
        if (w->counts) n = each[t] = two(&c, FB_OP_ADD, add1(&c.r, FB_OP_TANH, n), h);
    }
    return canonical(&c, add(&c.r, FB_OP_STACK, NULL, w->steps, each));
}

/* As a loop of the script's. */
static fb_graph *looped(const writing *w)
{
    cell c = cell_of(w);
    rig *r = &c.r;
    fb_id h = drawn(r, "h", FB_OP_INPUT, SHAPE(w->rows, H)), carried, item;
    if (fb_graph_region_open(r->g, w->steps, &h, 1, &c.x, 1, &carried, &item, 0, &r->err) == FB_NONE)
        fail_msg("%s", r->err.text);
    fb_id next = step(&c, item, carried), loop = fb_graph_region_close(r->g, &next, &next, 1, &r->err);
    if (loop == FB_NONE) fail_msg("%s", r->err.text);
    return canonical(&c, add_at(r, FB_OP_RESULT, loop, (fb_attrs){.index = 1}));
}

static fb_graph *with_loop(writing w)
{
    fb_error err = {0};
    if (w.looped) return looped(&w);
    fb_graph *g = written(&w);
    fb_roll *r = fb_graph_roll(g, &err);
    if (!r || !r->graph) fail_msg("no loop: %s", r && r->n ? r->finds[0].why : err.text);
    fb_graph *as_loop = r->graph;
    r->graph = NULL;
    fb_roll_free(r);
    fb_graph_free(g);
    return as_loop;
}

static fb_loops loops_of(writing a, writing b)
{
    fb_graph *of_a = with_loop(a), *of_b = with_loop(b);
    fb_loops l, back, self;
    fb_loops_compare(of_a, "first", of_b, "second", &l);
    fb_loops_compare(of_b, "second", of_a, "first", &back);
    assert_int_equal(l.is, back.is);
    assert_int_equal(l.n, back.n);
    fb_loops_compare(of_b, "second", of_b, "again", &self);
    assert_int_equal(self.is, FB_LOOPS_SAME);
    fb_graph_free(of_a);
    fb_graph_free(of_b);
    return l;
}

static void expect(writing b, fb_loops_is is, const char *says)
{
    fb_str text = {0};
    fb_loops l = loops_of(plain, b);
    fb_loops_says(&l, &text);
    if (l.is != is || !strstr(fb_str_get(&text), says))
        fail_msg("%s: \"%s\" is not %s: \"%s\"", fb_loops_name(l.is), fb_str_get(&text), fb_loops_name(is), says);
    fb_str_free(&text);
}

static void the_same_however_it_is_written(void **state)
{
    (void)state;
    writing w = plain;
    w.swapped = true;
    expect(w, FB_LOOPS_SAME, "the same loop");
    w.flat = true; /* the same memory, cut in another way */
    expect(w, FB_LOOPS_SAME, "the same loop");
    w = plain;
    w.looped = true;
    expect(w, FB_LOOPS_SAME, "the same loop");
    w.swapped = true;
    expect(w, FB_LOOPS_SAME, "the same loop");
}

static void what_makes_no_other_operation(void **state)
{
    (void)state;
    writing w = plain;
    w.batch_first = true;
    expect(w, FB_LOOPS_LAID, "but `x` in first and `x` in second lie otherwise in memory");
    w = plain;
    w.regrouped = true;
    expect(w, FB_LOOPS_SUMMED, "the 4 terms of `add");
    w.swapped = true;
    expect(w, FB_LOOPS_SUMMED, "but for rounding");
}

static void a_product_that_stands_outside(void **state)
{
    (void)state;
    writing w = plain, joined = plain;
    w.hoisted = true;
    expect(w, FB_LOOPS_APART,
           "products a step: 2 of [2,3]×[3,4] and [2,4]×[4,4] in first, 1 of [2,4]×[4,4] in second; ");
    expect(w, FB_LOOPS_APART,
           "` in first stands before the loop in second, for all steps at once: `matmul`, [5,2,3]×[3,4]");
    joined.joined = true;
    expect(joined, FB_LOOPS_APART, "1 of [2,7]×[7,4] in second; ");
    expect(joined, FB_LOOPS_APART, "in second is those 2 of first in one, side by side");
    expect(joined, FB_LOOPS_APART, "operations a step, in first and second: 4 and 3 add, 0 and 1 cat");
    fb_loops l = loops_of(joined, w);
    assert_int_equal(l.is, FB_LOOPS_APART);
    assert_non_null(strstr(l.why[1], "a part of `"));
    assert_non_null(strstr(l.why[1], "` in first stands before the loop in second"));
}

/* Of two products of one size it is the one that waits for no step. */
static void which_product_stands_outside(void **state)
{
    (void)state;
    fb_graph *a, *b;
    fb_loops l;
    writing w = plain, hoisted = plain;
    w.square = hoisted.square = hoisted.hoisted = true;
    a = with_loop(w);
    b = with_loop(hoisted);
    fb_loops_compare(a, "first", b, "second", &l);
    assert_int_equal(l.is, FB_LOOPS_APART);
    char name[64];
    assert_int_equal(sscanf(l.why[1], "`%63[^`]` in first stands before the loop in second", name), 1);
    fb_id product = fb_graph_find(a, name);
    assert_true(product != FB_NONE && a->nodes[product].op == FB_OP_MATMUL);
    assert_int_equal(a->nodes[fb_access_base(a, a->nodes[product].args[0])].op, FB_OP_ITEM);
    fb_graph_free(a);
    fb_graph_free(b);
}

static void what_keeps_loops_apart(void **state)
{
    (void)state;
    writing w = plain;
    w.rows = 6;
    expect(w, FB_LOOPS_APART, "the same operations in another size: `");
    expect(w, FB_LOOPS_APART, "f32[2,4] in first, `");
    w = plain;
    w.most = 0.25;
    expect(w, FB_LOOPS_APART, "the same operations with other numbers or axes: `clamp");
    w = plain;
    w.steps = 7;
    expect(w, FB_LOOPS_APART, "a step is the same; 5 steps in first, 7 in second");
    w = plain;
    w.crossed = true;
    expect(w, FB_LOOPS_APART, "the same operations on other values, from `");
    w = plain;
    w.counts = true;
    expect(w, FB_LOOPS_APART, "from step to step go 1 value in first, 2 in second; operations a step");
}

static void without_a_loop(void **state)
{
    (void)state;
    fb_graph *none = written(&plain), *loop = with_loop(plain);
    fb_loops l;
    fb_loops_compare(loop, "first", none, "second", &l);
    assert_int_equal(l.is, FB_LOOPS_NONE);
    assert_string_equal(l.why[0], "second has no loop");
    fb_loops_compare(none, "first", none, "second", &l);
    assert_int_equal(l.is, FB_LOOPS_NONE);
    assert_string_equal(l.why[0], "neither has a loop");
    fb_graph_free(none);
    fb_graph_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_however_it_is_written), cmocka_unit_test(what_makes_no_other_operation),
        cmocka_unit_test(a_product_that_stands_outside),  cmocka_unit_test(which_product_stands_outside),
        cmocka_unit_test(what_keeps_loops_apart),         cmocka_unit_test(without_a_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
