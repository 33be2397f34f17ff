/* Gradients against central differences of the reference, in double precision throughout: op by op, in random graphs,
 * where PyTorch has a convention, and in loops. The last test asks whether every op of the table was seen. */
#include "graph/autodiff.h"
#include "graph/backward.h"

#include "tests/unit/interp_help.h"

enum { MAX_INPUTS = 4, MAX_ELEMENTS = 64 };

static bool seen[FB_OPS]; /* ops that lay on the way to a loss */

/* ---- the comparison ---- */

typedef fb_id (*model)(rig *r, const fb_id *x, fb_op op);

typedef struct {
    rig r;
    int n;
    fb_shape shapes[MAX_INPUTS];
    double values[MAX_INPUTS][MAX_ELEMENTS], weights[1024];
    fb_id x[MAX_INPUTS], gradients[MAX_INPUTS], loss;
} problem;

/* One graph, run again and again while the values change. */
static double run_again(problem *p, const fb_id *keep, int n_keep, double *kept)
{
    fb_interp_options o = {.files = rig_file, .files_ctx = &p->r};
    fb_interp *in = fb_interp_run(p->r.g, &o, keep, n_keep, &p->r.err);
    if (!in) fail_msg("%s", p->r.err.text);
    for (int i = 0; i < n_keep && kept; i++) {
        const fb_tensor *t = fb_interp_get(in, keep[i]);
        for (int64_t k = 0; k < t->n; k++) kept[i * MAX_ELEMENTS + k] = t->v[k];
    }
    double loss = fb_interp_get(in, p->loss)->v[0];
    fb_interp_free(in);
    return loss;
}

static void note_ops(const problem *p)
{
    bool *on_the_way = fb_calloc((size_t)p->loss + 1, sizeof *on_the_way);
    for (int i = 0; i < p->n; i++) on_the_way[p->x[i]] = true;
    for (fb_id id = 0; id <= p->loss; id++) {
        const fb_node *n = fb_node_at(p->r.g, id);
        for (int k = 0; k < n->n_args; k++) on_the_way[id] |= on_the_way[n->args[k]] && fb_dtype_is_float(n->dtype);
        if (on_the_way[id]) seen[n->op] = true;
    }
    fb_free(on_the_way);
}

/* sum(y weights), so that no two elements of y count the same */
static fb_id weighted(problem *p, fb_id y)
{
    dice d = {99};
    fb_shape shape = fb_node_at(p->r.g, y)->shape;
    assert_true(fb_shape_elements(&shape) <= 1024);
    for (int k = 0; k < 1024; k++) p->weights[k] = roll_between(&d, 0.5, 1.5);
    fb_id as_double = add_at(&p->r, FB_OP_CAST, y, (fb_attrs){.dtype = FB_F64});
    fb_id w = data(&p->r, FB_F64, shape, p->weights);
    return add1(&p->r, FB_OP_SUM, add2(&p->r, FB_OP_MUL, as_double, w));
}

static void prepare(problem *p, model m, fb_op op)
{
    p->r = rig_new();
    for (int i = 0; i < p->n; i++) p->x[i] = data(&p->r, FB_F64, p->shapes[i], p->values[i]);
    p->loss = weighted(p, m(&p->r, p->x, op));
    note_ops(p);
    if (!fb_autodiff(p->r.g, p->loss, p->x, p->n, p->gradients, 0, &p->r.err)) fail_msg("%s", p->r.err.text);
    for (int i = 0; i < p->n; i++) {
        assert_true(fb_shape_equal(&fb_node_at(p->r.g, p->gradients[i])->shape, &p->shapes[i]));
        assert_int_equal(fb_node_at(p->r.g, p->gradients[i])->dtype, FB_F64);
    }
    if (!fb_graph_output(p->r.g, p->loss, NULL, &p->r.err) || !fb_graph_finish(p->r.g, &p->r.err))
        fail_msg("%s", p->r.err.text);
}

/* The values must be away from where the function breaks. */
static void check_values(problem *p, model m, fb_op op, const char *what)
{
    static const double h = 1e-5;
    double got[MAX_INPUTS * MAX_ELEMENTS];
    prepare(p, m, op);
    run_again(p, p->gradients, p->n, got);
    for (int i = 0; i < p->n; i++) {
        for (int64_t k = 0; k < fb_shape_elements(&p->shapes[i]); k++) {
            double at = p->values[i][k];
            p->values[i][k] = at + h;
            double above = run_again(p, NULL, 0, NULL);
            p->values[i][k] = at - h;
            double wanted = (above - run_again(p, NULL, 0, NULL)) / (2 * h), is = got[i * MAX_ELEMENTS + k];
            p->values[i][k] = at;
            if (!(fabs(is - wanted) <= 1e-6 * (1 + fabs(wanted))))
                fail_msg("%s, input %d[%d] = %g: the gradient is %.10g, by differences %.10g", what, i, (int)k, at, is,
                         wanted);
        }
    }
    rig_free(&p->r);
}

/* Random values between low and high for `n` inputs of these shapes. */
static void check(model m, fb_op op, const char *what, int n, const fb_shape *shapes, double low, double high)
{
    problem *p = fb_calloc(1, sizeof *p);
    dice d = {7 + (uint64_t)op};
    p->n = n;
    for (int i = 0; i < n; i++) {
        p->shapes[i] = shapes[i];
        assert_true(fb_shape_elements(&shapes[i]) <= MAX_ELEMENTS);
        for (int k = 0; k < MAX_ELEMENTS; k++) p->values[i][k] = roll_between(&d, low, high);
    }
    check_values(p, m, op, what);
    fb_free(p);
}

#define SHAPES(...)                                                                                                    \
    (int)(sizeof((fb_shape[]){__VA_ARGS__}) / sizeof(fb_shape)), (fb_shape[])                                          \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define CHECK(m, low, high, ...) check(m, FB_OPS, #m, SHAPES(__VA_ARGS__), low, high)

/* ---- pointwise ---- */

static fb_attrs params;

static fb_id unary(rig *r, const fb_id *x, fb_op op)
{
    return add_at(r, op, x[0], params);
}

static fb_id binary(rig *r, const fb_id *x, fb_op op)
{
    return add2(r, op, x[0], x[1]);
}

static bool takes_floats(const fb_op_info *info)
{
    return info->cls == FB_CLASS_POINTWISE && info->result != FB_RESULT_BOOL &&
           (info->accepts == FB_ACCEPTS_FLOAT || info->accepts == FB_ACCEPTS_NUMBER || info->accepts == FB_ACCEPTS_ANY);
}

static void pointwise_ops_of_one_operand(void **state)
{
    (void)state;
    int n = 0;
    for (int op = 0; op < FB_OPS; op++) {
        const fb_op_info *info = fb_op_get((fb_op)op);
        if (!takes_floats(info) || info->max_args != 1) continue;
        n++;
        double high = info->domain == FB_DOMAIN_POSITIVE ? 3 : info->domain == FB_DOMAIN_FRACTION ? 0.95 : 2;
        double low = info->domain == FB_DOMAIN_POSITIVE ? 0.2 : -high;
        params = (fb_attrs){.value = -0.5, .high = 0.75, .dtype = FB_F32};
        check(unary, (fb_op)op, info->name, SHAPES(SHAPE(3, 5)), low, high);
        if (!info->params[0].name || !isfinite(info->params[0].otherwise)) continue;
        params = (fb_attrs){.value = info->params[0].otherwise, .high = info->params[1].otherwise};
        check(unary, (fb_op)op, info->name, SHAPES(SHAPE(3, 5)), low, high);
    }
    assert_true(n > 20);
    params = (fb_attrs){0};
    check(unary, FB_OP_LGAMMA, "lgamma", SHAPES(SHAPE(3, 5)), -1.8, -1.2); /* by reflection */
    check(unary, FB_OP_DIGAMMA, "digamma", SHAPES(SHAPE(3, 5)), -0.8, -0.2);
}

static void pointwise_ops_of_two_operands_broadcast(void **state)
{
    (void)state;
    const fb_shape shapes[][2] = {
        {SHAPE(3, 4), SHAPE(3, 4)},    {SHAPE(3, 4), SHAPE(4)}, {SHAPE(3, 1), SHAPE(2, 1, 4)}, {SCALAR, SHAPE(2, 3)},
        {SHAPE(1, 1, 3), SHAPE(2, 1)}, {SHAPE(1), SCALAR},      {SHAPE(0, 3), SHAPE(1, 3)},
    };
    int n = 0;
    for (int op = 0; op < FB_OPS; op++) {
        const fb_op_info *info = fb_op_get((fb_op)op);
        if (!takes_floats(info) || info->max_args != 2) continue;
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
            check(binary, (fb_op)op, info->name, 2, shapes[k], 0.3, 2.2);
        n++;
    }
    assert_int_equal(n, 10);
}

static fb_id choose(rig *r, const fb_id *x, fb_op op)
{
    (void)op;
    fb_id condition = add2(r, FB_OP_GT, x[0], constant(r, FB_F64, 0));
    return add(r, FB_OP_WHERE, NULL, 3, (fb_id[]){condition, x[1], x[2]});
}

/* The way through an integer gives nothing; the gradient keeps to each value's dtype. */
static fb_id through_dtypes(rig *r, const fb_id *x, fb_op op)
{
    (void)op;
    fb_id half = add_at(r, FB_OP_CAST, x[0], (fb_attrs){.dtype = FB_F16});
    fb_id whole = add_at(r, FB_OP_CAST, x[0], (fb_attrs){.dtype = FB_I64});
    fb_id back = add_at(r, FB_OP_CAST, whole, (fb_attrs){.dtype = FB_F16});
    return add1(r, FB_OP_TANH, add2(r, FB_OP_MUL, half, add2(r, FB_OP_ADD, half, back)));
}

static void where_and_casts(void **state)
{
    (void)state;
    CHECK(choose, -1, 1, SHAPE(3, 4), SHAPE(3, 4), SHAPE(3, 4));
    CHECK(choose, -1, 1, SHAPE(4), SHAPE(3, 1), SCALAR);
    CHECK(choose, -1, 1, SHAPE(2, 3, 1), SHAPE(1, 4), SHAPE(4));
    CHECK(through_dtypes, 0.1, 0.9, SHAPE(6));
}

/* ---- reductions and scans ---- */

static fb_attrs axes_of_mask(unsigned mask, bool keepdim)
{
    fb_attrs at = {.keepdim = keepdim};
    for (int d = 0; d < 3; d++)
        if (mask >> d & 1) at.axes[at.n_axes++] = d;
    return at;
}

static unsigned mask;
static bool keepdim;

static fb_id reduction(rig *r, const fb_id *x, fb_op op)
{
    return add_at(r, op, x[0], axes_of_mask(mask, keepdim));
}

static void reductions_over_any_axes(void **state)
{
    (void)state;
    int n = 0;
    for (int op = 0; op < FB_OPS; op++) {
        const fb_op_info *info = fb_op_get((fb_op)op);
        if (info->cls != FB_CLASS_REDUCTION || info->result == FB_RESULT_I64) continue;
        n++;
        for (mask = 0; mask < 8; mask++)
            for (int k = 0; k < 2; k++) {
                keepdim = k;
                check(reduction, (fb_op)op, info->name, SHAPES(SHAPE(2, 3, 4)), 0.5, 1.5);
                check(reduction, (fb_op)op, info->name, SHAPES(SHAPE(3, 1, 2)), -1.5, -0.5);
                if (op != FB_OP_AMAX && op != FB_OP_AMIN)
                    check(reduction, (fb_op)op, info->name, SHAPES(SHAPE(2, 0, 4)), 0, 1);
            }
    }
    assert_int_equal(n, 5);
}

static fb_id product_of_rows(rig *r, const fb_id *x, fb_op op)
{
    (void)op;
    return add_at(r, FB_OP_PROD, x[0], (fb_attrs){.n_axes = 1, .axes = {1}});
}

static void products_with_zeros(void **state)
{
    (void)state;
    problem *p = fb_calloc(1, sizeof *p);
    p->n = 1;
    p->shapes[0] = SHAPE(3, 3);
    memcpy(p->values[0], (double[]){2, 0, 3, 0, 5, 0, -2, 4, 0.5}, 9 * sizeof(double));
    check_values(p, product_of_rows, FB_OPS, "prod");
    fb_free(p);
}

static fb_id running(rig *r, const fb_id *x, fb_op op)
{
    fb_id y = add_at(r, op, x[0], (fb_attrs){.dim = 0});
    return add_at(r, op, add2(r, FB_OP_MUL, y, y), (fb_attrs){.dim = -1});
}

static void running_values_along_any_dim(void **state)
{
    (void)state;
    const fb_shape shapes[] = {SHAPE(3, 4), SHAPE(2, 3, 2), SHAPE(0, 3), SHAPE(1, 1)};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check(running, FB_OP_CUMSUM, "cumsum", 1, &shapes[i], -1, 1);
        check(running, FB_OP_CUMPROD, "cumprod", 1, &shapes[i], 0.5, 1.5);
        check(running, FB_OP_CUMPROD, "cumprod", 1, &shapes[i], -1.5, -0.5);
    }
}

static int along;

static fb_id running_product(rig *r, const fb_id *x, fb_op op)
{
    return add_at(r, op, x[0], (fb_attrs){.dim = along});
}

/* No zero, one of them first, in the middle and last, and two. */
static void running_products_with_zeros(void **state)
{
    (void)state;
    for (along = 0; along < 2; along++) {
        problem *p = fb_calloc(1, sizeof *p);
        p->n = 1;
        p->shapes[0] = SHAPE(5, 4);
        const double values[] = {2, 0.5, 3, 4, 0, 5, 2, 1, 3, 0, -2, 4, 1, 2, 3, 0, 2, 0, -3, 0};
        memcpy(p->values[0], values, sizeof values);
        check_values(p, running_product, FB_OP_CUMPROD, "cumprod");
        fb_free(p);
    }
}

/* ---- views and joins ---- */

static fb_id squared(rig *r, fb_id x)
{
    return add2(r, FB_OP_MUL, x, x);
}

static fb_id reshaped(rig *r, const fb_id *x, fb_op op)
{
    (void)op;
    fb_id y = add_at(r, FB_OP_VIEW, x[0], (fb_attrs){.shape = SHAPE(4, -1)});
    fb_id turned = add_at(r, FB_OP_PERMUTE, squared(r, y), (fb_attrs){.n_axes = 2, .axes = {1, 0}});
    return add_at(r, FB_OP_VIEW, turned, (fb_attrs){.shape = SHAPE(2, -1)});
}

static fb_id rotated(rig *r, const fb_id *x, fb_op op)
{
    (void)op;
    fb_id y = add_at(r, FB_OP_PERMUTE, x[0], (fb_attrs){.n_axes = 4, .axes = {2, 0, 3, 1}}); /* not its own inverse */
    return add_at(r, FB_OP_FLIP, squared(r, y), (fb_attrs){.n_axes = 2, .axes = {0, -1}});
}

/* Windows that overlap, and that leave elements between them and at the end. */
static fb_id windowed(rig *r, const fb_id *x, fb_op op)
{
    (void)op;
    fb_id y = add_at(r, FB_OP_UNFOLD, x[0], (fb_attrs){.dim = 1, .stop = 2, .step = 1});
    return squared(r, add_at(r, FB_OP_UNFOLD, squared(r, y), (fb_attrs){.dim = 3, .stop = 1, .step = 3}));
}

/* Windows side by side, of which the last one may lack what lies behind its elements. */
static fb_id windowed_apart(rig *r, const fb_id *x, fb_op op)
{
    (void)op;
    fb_id y = add_at(r, FB_OP_UNFOLD, x[0], (fb_attrs){.dim = 1, .stop = 2, .step = 2});
    return squared(r, add_at(r, FB_OP_UNFOLD, squared(r, y), (fb_attrs){.dim = 2, .stop = 2, .step = 3}));
}

static fb_id spread(rig *r, const fb_id *x, fb_op op)
{
    (void)op;
    fb_id y = add_at(r, FB_OP_EXPAND, x[0], (fb_attrs){.shape = SHAPE(2, 3, -1, 4)});
    return squared(r, y);
}

static fb_id padded(rig *r, const fb_id *x, fb_op op)
{
    (void)op;
    fb_attrs at = {.before = {1, 0, 2}, .after = {0, 0, 3}, .value = 1.5};
    return squared(r, add_at(r, FB_OP_PAD, x[0], at));
}

static fb_attrs cut; /* the slice that is asked about */

static fb_id sliced(rig *r, const fb_id *x, fb_op op)
{
    (void)op;
    return squared(r, add_at(r, FB_OP_SLICE, x[0], cut));
}

static void views(void **state)
{
    (void)state;
    CHECK(reshaped, -1, 1, SHAPE(2, 3, 4));
    CHECK(reshaped, -1, 1, SHAPE(8));
    CHECK(rotated, -1, 1, SHAPE(2, 3, 1, 4));
    CHECK(rotated, -1, 1, SHAPE(2, 2, 3, 2));
    CHECK(windowed, -1, 1, SHAPE(2, 5, 1, 2));
    CHECK(windowed, -1, 1, SHAPE(1, 2, 3, 4));
    CHECK(windowed_apart, -1, 1, SHAPE(1, 3, 8));
    CHECK(windowed_apart, -1, 1, SHAPE(1, 4, 3, 2));
    CHECK(windowed_apart, -1, 1, SHAPE(2, 2, 5));
    CHECK(spread, -1, 1, SHAPE(2, 1));
    CHECK(spread, -1, 1, SHAPE(1, 5, 4));
    CHECK(spread, -1, 1, SHAPE(3, 1, 1));
    CHECK(padded, -1, 1, SHAPE(2, 3, 2));
    CHECK(padded, -1, 1, SHAPE(2, 0, 2));
}

static void slices_of_any_step(void **state)
{
    (void)state;
    for (cut.dim = 0; cut.dim < 3; cut.dim++)
        for (cut.step = 1; cut.step <= 4; cut.step++)
            for (cut.start = 0; cut.start <= 4; cut.start++)
                for (int64_t stop = cut.start; stop <= 4; stop++) {
                    cut.stop = stop;
                    fb_shape shape = SHAPE(2, 2, 2);
                    shape.dim[cut.dim] = 4;
                    check(sliced, FB_OPS, "slice", 1, &shape, -1, 1);
                }
    /* of a tensor that has no dimension to spare */
    cut = (fb_attrs){.dim = 3, .start = 1, .stop = 6, .step = 2};
    CHECK(sliced, -1, 1, SHAPE(1, 2, 1, 6, 2, 1, 1, 2));
}

static fb_id concatenated(rig *r, const fb_id *x, fb_op op)
{
    (void)op;
    fb_id parts[] = {x[0], x[1], x[0], x[2]};
    return squared(r, add(r, FB_OP_CAT, &(fb_attrs){.dim = 1}, 4, parts));
}

static fb_id stacked(rig *r, const fb_id *x, fb_op op)
{
    (void)op;
    fb_id last = add(r, FB_OP_STACK, &(fb_attrs){.dim = -1}, 3, (fb_id[]){x[0], x[1], x[0]});
    fb_id middle = add(r, FB_OP_STACK, &(fb_attrs){.dim = 1}, 2, (fb_id[]){x[1], squared(r, x[0])});
    return add2(r, FB_OP_MUL, add1(r, FB_OP_SUM, squared(r, last)), middle);
}

static void joins(void **state)
{
    (void)state;
    CHECK(concatenated, -1, 1, SHAPE(2, 3), SHAPE(2, 1), SHAPE(2, 2));
    CHECK(concatenated, -1, 1, SHAPE(2, 0, 2), SHAPE(2, 1, 2), SHAPE(2, 3, 2));
    CHECK(stacked, -1, 1, SHAPE(2, 3), SHAPE(2, 3));
}

/* ---- contractions and gathers ---- */

static fb_id products(rig *r, const fb_id *x, fb_op op)
{
    (void)op;
    return squared(r, add2(r, FB_OP_MATMUL, x[0], x[1]));
}

/* aᵀ bᵀ */
static fb_id transposed_products(rig *r, const fb_id *x, fb_op op)
{
    fb_id t[2];
    for (int i = 0; i < 2; i++) {
        int rank = fb_node_at(r->g, x[i])->shape.rank;
        fb_attrs last = {.n_axes = rank, .axes = {0, 1, 2}};
        last.axes[rank - 2] = rank - 1;
        last.axes[rank - 1] = rank - 2;
        t[i] = add_at(r, FB_OP_PERMUTE, x[i], last);
    }
    return products(r, t, op);
}

static void contractions_with_any_batch(void **state)
{
    (void)state;
    CHECK(products, -1, 1, SHAPE(3, 4), SHAPE(4, 2));
    CHECK(products, -1, 1, SHAPE(1, 4), SHAPE(4, 1));
    CHECK(products, -1, 1, SHAPE(2, 3, 4), SHAPE(2, 4, 2));
    CHECK(products, -1, 1, SHAPE(2, 3, 4), SHAPE(4, 2));
    CHECK(products, -1, 1, SHAPE(2, 2, 3, 4), SHAPE(4, 2));
    CHECK(products, -1, 1, SHAPE(3, 4), SHAPE(2, 4, 2));
    CHECK(products, -1, 1, SHAPE(2, 1, 2, 3), SHAPE(4, 3, 2));
    CHECK(products, -1, 1, SHAPE(1, 2, 3), SHAPE(3, 1, 3, 2));
    CHECK(products, -1, 1, SHAPE(3, 0), SHAPE(0, 2));
    CHECK(products, -1, 1, SHAPE(2, 0, 3), SHAPE(3, 2));
    CHECK(transposed_products, -1, 1, SHAPE(4, 3), SHAPE(2, 4));
    CHECK(transposed_products, -1, 1, SHAPE(2, 4, 3), SHAPE(2, 2, 4));
    CHECK(transposed_products, -1, 1, SHAPE(2, 4, 3), SHAPE(2, 4));
    CHECK(transposed_products, -1, 1, SHAPE(4, 3), SHAPE(3, 2, 4));
}

static const double rows[] = {0, 2, 2, -1, 3, 7}; /* outside the table they count for nothing */

static fb_id looked_up(rig *r, const fb_id *x, fb_op op)
{
    (void)op;
    fb_id index = data(r, FB_I64, SHAPE(2, 3), rows);
    return squared(r, add2(r, FB_OP_EMBEDDING, x[0], index));
}

static fb_id summed_up(rig *r, const fb_id *x, fb_op op)
{
    (void)op;
    fb_id index = data(r, FB_I64, SHAPE(2, 3), rows);
    return squared(r, add(r, FB_OP_SCATTER_ADD, &(fb_attrs){.start = 5}, 2, (fb_id[]){x[0], index}));
}

static void gathers(void **state)
{
    (void)state;
    CHECK(looked_up, -1, 1, SHAPE(4, 2));
    CHECK(looked_up, -1, 1, SHAPE(4));
    CHECK(looked_up, -1, 1, SHAPE(4, 2, 3));
    CHECK(summed_up, -1, 1, SHAPE(2, 3, 2));
    CHECK(summed_up, -1, 1, SHAPE(2, 3));
}

/* ---- compositions ---- */

static fb_id last_axis(rig *r, fb_op op, fb_id x)
{
    return add_at(r, op, x, (fb_attrs){.n_axes = 1, .axes = {-1}, .keepdim = true});
}

static fb_id softmax(rig *r, fb_id x)
{
    fb_id e = add1(r, FB_OP_EXP, add2(r, FB_OP_SUB, x, last_axis(r, FB_OP_AMAX, x)));
    return add2(r, FB_OP_DIV, e, last_axis(r, FB_OP_SUM, e));
}

static fb_id layer_norm(rig *r, fb_id x)
{
    fb_id centred = add2(r, FB_OP_SUB, x, last_axis(r, FB_OP_MEAN, x));
    fb_id variance = last_axis(r, FB_OP_MEAN, squared(r, centred));
    return add2(r, FB_OP_MUL, centred, add1(r, FB_OP_RSQRT, add2(r, FB_OP_ADD, variance, constant(r, FB_F64, 1e-5))));
}

/* softmax(q kᵀ) v of normalised operands */
static fb_id attention(rig *r, const fb_id *x, fb_op op)
{
    (void)op;
    fb_id q = layer_norm(r, x[0]), k = layer_norm(r, x[1]);
    fb_id kt = add_at(r, FB_OP_PERMUTE, k, (fb_attrs){.n_axes = 3, .axes = {0, 2, 1}});
    return add2(r, FB_OP_MATMUL, softmax(r, add2(r, FB_OP_MATMUL, q, kt)), x[2]);
}

static void compositions(void **state)
{
    (void)state;
    CHECK(attention, -1, 1, SHAPE(2, 3, 4), SHAPE(2, 5, 4), SHAPE(5, 2));
    CHECK(attention, -1, 1, SHAPE(1, 2, 3), SHAPE(2, 2, 3), SHAPE(2, 2, 4));
}

/* ---- random graphs ---- */

static fb_id smooth_unary(rig *r, dice *d, fb_id x)
{
    static const fb_op ops[] = {FB_OP_TANH, FB_OP_SIGMOID, FB_OP_SIN,  FB_OP_COS,  FB_OP_ERF, FB_OP_GELU,
                                FB_OP_EXP,  FB_OP_EXP2,    FB_OP_RELU, FB_OP_SIGN, FB_OP_NEG, FB_OP_ABS};
    return add1(r, ops[roll_below(d, sizeof ops / sizeof *ops)], x);
}

static fb_id random_reduction(rig *r, dice *d, fb_id x)
{
    static const fb_op ops[] = {FB_OP_SUM, FB_OP_MEAN, FB_OP_AMAX, FB_OP_AMIN};
    fb_op op = ops[roll_below(d, 4)];
    fb_attrs at = {.n_axes = 1, .axes = {roll_below(d, fb_node_at(r->g, x)->shape.rank)}, .keepdim = true};
    return add_at(r, op, x, at);
}

static fb_id random_view(rig *r, dice *d, fb_id x)
{
    fb_shape shape = fb_node_at(r->g, x)->shape;
    int dim = roll_below(d, shape.rank);
    switch (roll_below(d, 7)) {
    case 6: {
        fb_attrs at = {.dim = dim, .stop = 1 + roll_below(d, (int)shape.dim[dim]), .step = 1 + roll_below(d, 3)};
        fb_id windows = add_at(r, FB_OP_UNFOLD, x, at);
        return add_at(r, FB_OP_VIEW, windows, (fb_attrs){.shape = SHAPE(1, -1)});
    }
    case 0: return add_at(r, FB_OP_VIEW, x, (fb_attrs){.shape = SHAPE(1, -1)});
    case 1: return add_at(r, FB_OP_PERMUTE, x, (fb_attrs){.n_axes = 2, .axes = {1, 0}});
    case 2: return add_at(r, FB_OP_FLIP, x, (fb_attrs){.n_axes = 1, .axes = {dim}});
    case 3: return add_at(r, FB_OP_CUMSUM, x, (fb_attrs){.dim = dim});
    case 4: return add_at(r, FB_OP_PAD, x, (fb_attrs){.before = {dim}, .after = {0, 1}, .value = 0.5});
    default:
        return add_at(r, FB_OP_SLICE, x,
                      (fb_attrs){.dim = dim,
                                 .start = roll_below(d, 2) && shape.dim[dim] > 1,
                                 .stop = shape.dim[dim],
                                 .step = 1 + roll_below(d, 3)});
    }
}

/* Two values that go together as they are, or by way of a product with one's own transpose. */
static fb_id random_pair(rig *r, dice *d, fb_id a, fb_id b)
{
    static const fb_op ops[] = {FB_OP_ADD, FB_OP_SUB, FB_OP_MUL, FB_OP_MAXIMUM};
    const fb_shape *p = &fb_node_at(r->g, a)->shape, *q = &fb_node_at(r->g, b)->shape;
    bool fits = true;
    for (int i = 0; i < 2; i++) fits = fits && (p->dim[i] == q->dim[i] || p->dim[i] == 1 || q->dim[i] == 1);
    if (p->dim[1] == q->dim[0]) return add2(r, FB_OP_MATMUL, a, b);
    if (p->dim[0] == q->dim[0] && roll_below(d, 3) == 0)
        return add(r, FB_OP_CAT, &(fb_attrs){.dim = 1}, 2, (fb_id[]){a, b});
    if (fits) return add2(r, ops[roll_below(d, 4)], a, b);
    return add2(r, FB_OP_MATMUL, a, add_at(r, FB_OP_PERMUTE, a, (fb_attrs){.n_axes = 2, .axes = {1, 0}}));
}

static uint64_t graph_seed;

static fb_id random_graph(rig *r, const fb_id *x, fb_op op)
{
    (void)op;
    dice d = {graph_seed};
    fb_id pool[14] = {x[0], x[1]};
    int n = 2;
    while (n < 14) {
        fb_id a = pool[roll_below(&d, n)], b = pool[roll_below(&d, n)], y;
        switch (roll_below(&d, 4)) {
        case 0: y = smooth_unary(r, &d, a); break;
        case 1: y = random_reduction(r, &d, a); break;
        case 2: y = random_view(r, &d, a); break;
        default: y = random_pair(r, &d, a, b); break;
        }
        fb_shape shape = fb_node_at(r->g, y)->shape;
        if (fb_shape_elements(&shape) > 200) y = add_at(r, FB_OP_MEAN, y, (fb_attrs){.keepdim = true});
        pool[n++] = add1(r, FB_OP_TANH, y); /* keeps values, and with them the error of the differences, small */
    }
    fb_id sum = add1(r, FB_OP_SUM, pool[n - 1]);
    for (int i = n - 4; i < n - 1; i++) sum = add2(r, FB_OP_ADD, sum, add1(r, FB_OP_SUM, pool[i]));
    return sum;
}

static void random_graphs(void **state)
{
    (void)state;
    for (graph_seed = 1; graph_seed <= 150; graph_seed++) {
        char what[32];
        snprintf(what, sizeof what, "graph %d", (int)graph_seed);
        check(random_graph, FB_OPS, what, SHAPES(SHAPE(3, 4), SHAPE(4, 2)), -1, 1);
    }
}

/* ---- where there is a convention ---- */

static void gradients_of(rig *r, fb_id loss, int n, const fb_id *wrt, fb_id *gradients)
{
    if (!fb_autodiff(r->g, loss, wrt, n, gradients, 0, &r->err)) fail_msg("%s", r->err.text);
}

/* The gradient of sum(op(values …)) by each of the n operands of three elements, all in one list. */
static void expect_convention(fb_op op, int n, const double (*values)[3], const double *wanted)
{
    rig r = rig_new();
    fb_id x[3], dx[3];
    fb_attrs at = {.value = -1, .high = 1};
    for (int i = 0; i < n; i++) x[i] = data(&r, FB_F32, SHAPE(3), values[i]);
    gradients_of(&r, add1(&r, FB_OP_SUM, add(&r, op, &at, n, x)), n, x, dx);
    run_keeping_all(&r, dx, n, false);
    for (int i = 0; i < n; i++) expect_values(&r, dx[i], 3, wanted + 3 * i);
    rig_free(&r);
}

#define CONVENTION(op, n, in, ...) expect_convention(op, n, (const double[n][3])in, (double[]){__VA_ARGS__})
#define IN(...)                                                                                                        \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

static void conventions_are_pytorch_s(void **state)
{
    (void)state;
    CONVENTION(FB_OP_RELU, 1, IN({-1, 0, 2}), 0, 0, 1);
    CONVENTION(FB_OP_ABS, 1, IN({-1, 0, 2}), -1, 0, 1);
    CONVENTION(FB_OP_CLAMP, 1, IN({-1, 1, 1.5}), 1, 1, 0);
    CONVENTION(FB_OP_SQRT, 1, IN({0, 4, 1}), INFINITY, 0.25, 0.5);
    CONVENTION(FB_OP_MAXIMUM, 2, IN({1, 2, 3}, {2, 2, 2}), 0, 0.5, 1, 1, 0.5, 0);
    CONVENTION(FB_OP_MINIMUM, 2, IN({1, 2, 3}, {2, 2, 2}), 1, 0.5, 0, 0, 0.5, 1);
    CONVENTION(FB_OP_AMAX, 1, IN({2, 1, 2}), 0.5, 0, 0.5);
    CONVENTION(FB_OP_AMIN, 1, IN({1, 1, 1}), 1.0 / 3, 1.0 / 3, 1.0 / 3);
    CONVENTION(FB_OP_POW, 2, IN({0, 0, 0}, {0, 1, 2}), 0, 1, 0, 0, 0, 0);
    CONVENTION(FB_OP_REMAINDER, 2, IN({5, -5, 4}, {3, 3, 4}), 1, 1, 1, -1, 2, -1);
}

/* What a where() leaves out may be anything. */
static void a_branch_not_taken_gives_no_nan(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_F32, SHAPE(2), (double[]){NAN, 3}), w = data(&r, FB_F32, SHAPE(2), (double[]){2, 5}), d[2];
    fb_id taken = add2(&r, FB_OP_EQ, x, x);
    fb_id y = add(&r, FB_OP_WHERE, NULL, 3, (fb_id[]){taken, x, w});
    gradients_of(&r, add1(&r, FB_OP_SUM, add2(&r, FB_OP_MUL, y, w)), 2, (fb_id[]){x, w}, d);
    run_keeping_all(&r, d, 2, false);
    EXPECT(&r, d[0], 0, 5);
    EXPECT(&r, d[1], 4, 3);
    rig_free(&r);
}

static void what_is_asked_for_may_be_any_value(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_F16, SHAPE(2), (double[]){3, 4}), other = data(&r, FB_BF16, SHAPE(0, 2), NULL);
    fb_id y = squared(&r, x), z = squared(&r, y);
    fb_id loss = add_at(&r, FB_OP_SUM, z, (fb_attrs){.n_axes = 1, .axes = {0}, .keepdim = true});
    fb_id wrt[] = {y, x, loss, other, x, constant(&r, FB_F32, 7)}, d[6];
    gradients_of(&r, loss, 6, wrt, d);
    assert_int_equal(d[1], d[4]);
    run_keeping_all(&r, d, 4, false);
    EXPECT(&r, d[0], 18, 32); /* in between */
    EXPECT(&r, d[1], 108, 256);
    EXPECT(&r, d[2], 1); /* itself */
    assert_int_equal(get(&r, d[3])->n, 0);
    for (int i = 0; i < 6; i++) {
        const fb_node *a = fb_node_at(r.g, wrt[i]), *b = fb_node_at(r.g, d[i]);
        assert_int_equal(a->dtype, b->dtype);
        assert_true(fb_shape_equal(&a->shape, &b->shape));
    }
    rig_free(&r);
}

/* Only what lies in several windows gets a sum. */
static void windows_apart_are_not_added_up(void **state)
{
    (void)state;
    for (int step = 1; step <= 3; step++) {
        rig r = rig_new();
        fb_id x = data(&r, FB_F64, SHAPE(5), (double[]){1, 2, 3, 4, 5}), dx;
        fb_id y = add_at(&r, FB_OP_UNFOLD, x, (fb_attrs){.dim = 0, .stop = 2, .step = step});
        fb_id loss = add1(&r, FB_OP_SUM, y);
        gradients_of(&r, loss, 1, &x, &dx);
        int sums = 0;
        for (fb_id i = loss + 1; i < r.g->n_nodes; i++) sums += fb_node_at(r.g, i)->op == FB_OP_SUM;
        assert_int_equal(sums > 0, step < 2);
        run_keeping_all(&r, &dx, 1, false);
        expect_values(&r, dx, 5,
                      step == 1   ? (double[]){1, 2, 2, 2, 1}
                      : step == 2 ? (double[]){1, 1, 1, 1, 0}
                                  : (double[]){1, 1, 0, 1, 1});
        rig_free(&r);
    }
}

static void a_detached_value_is_a_constant(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_F64, SHAPE(2), (double[]){3, 4}), y = squared(&r, x);
    fb_id fixed = fb_autodiff_detach(r.g, y, 0, &r.err), d[2], only;
    fb_id loss = add1(&r, FB_OP_SUM, add2(&r, FB_OP_MUL, fixed, x));
    gradients_of(&r, loss, 2, (fb_id[]){x, fixed}, d); /* x³ would have 3 x² */
    gradients_of(&r, add1(&r, FB_OP_SUM, fixed), 1, &x, &only);
    run_keeping_all(&r, (fb_id[]){d[0], d[1], only}, 3, false);
    EXPECT(&r, d[0], 9, 16);
    EXPECT(&r, d[1], 3, 4);
    EXPECT(&r, only, 0, 0);
    rig_free(&r);
}

/* A batch that shares its weights: one product, no sum over a batch of products. */
static void shared_weights_get_their_gradient_from_one_product(void **state)
{
    (void)state;
    rig r = rig_new();
    double x[24] = {1}, w[8] = {1};
    fb_id a = data(&r, FB_F32, SHAPE(2, 3, 4), x), b = data(&r, FB_F32, SHAPE(4, 2), w), d;
    fb_id loss = add1(&r, FB_OP_SUM, add2(&r, FB_OP_MATMUL, a, b));
    gradients_of(&r, loss, 1, &b, &d);
    const fb_node *last = fb_node_at(r.g, d);
    assert_int_equal(last->op, FB_OP_MATMUL);
    assert_int_equal(last->shape.rank, 2);
    rig_free(&r);
}

/* x Wᵀ: the gradient of W is a product that lies as W does, with nothing to transpose afterwards. */
static void a_transposed_weight_gets_its_gradient_as_it_lies(void **state)
{
    (void)state;
    rig r = rig_new();
    double x[12] = {1}, w[8] = {1};
    fb_id a = data(&r, FB_F32, SHAPE(3, 4), x), b = data(&r, FB_F32, SHAPE(2, 4), w), d;
    fb_id t = add_at(&r, FB_OP_PERMUTE, b, (fb_attrs){.n_axes = 2, .axes = {1, 0}});
    gradients_of(&r, add1(&r, FB_OP_SUM, add2(&r, FB_OP_MATMUL, a, t)), 1, &b, &d);
    const fb_node *last = fb_node_at(r.g, d);
    assert_int_equal(last->op, FB_OP_MATMUL);
    assert_int_equal(last->args[1], a);
    rig_free(&r);
}

static int readers(const rig *r, fb_id of)
{
    int n = 0;
    for (fb_id i = 0; i < r->g->n_nodes; i++)
        for (int a = 0; a < r->g->nodes[i].n_args; a++) n += r->g->nodes[i].args[a] == of;
    return n;
}

/* Going back through a softmax or a relu reads what it gave, and nothing that it was made of. */
static void results_alone_are_read_again(void **state)
{
    (void)state;
    rig r = rig_new();
    double x[12] = {0.5, -1, 2};
    fb_id a = data(&r, FB_F32, SHAPE(3, 4), x), less = add2(&r, FB_OP_MUL, a, constant(&r, FB_F32, 0.5)), d;
    fb_id e = add1(&r, FB_OP_EXP, less), sum = last_axis(&r, FB_OP_SUM, e), part = add2(&r, FB_OP_DIV, e, sum);
    fb_id shifted = add2(&r, FB_OP_SUB, part, constant(&r, FB_F32, 0.25)), over = add1(&r, FB_OP_RELU, shifted);
    gradients_of(&r, add1(&r, FB_OP_SUM, squared(&r, over)), 1, &a, &d);
    assert_int_equal(readers(&r, e), 2); /* the sum and the quotient */
    assert_int_equal(readers(&r, sum), 1);
    assert_int_equal(readers(&r, shifted), 1);
    assert_true(readers(&r, part) > 1);
    assert_true(readers(&r, over) > 2);
    rig_free(&r);
}

/* ---- loops ---- */

/* w := w - 0.1 d/dw sum(w⁴ + c w), three times, in a loop's body; c from outside. */
static void a_step_s_own_gradient_in_a_loop(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id w0 = data(&r, FB_F64, SHAPE(2), (double[]){0.5, -1}), c = data(&r, FB_F64, SCALAR, (double[]){0.25}), w, d[2];
    fb_id sum0 = constant(&r, FB_F64, 0), carried[2];
    assert_true(fb_graph_region_open(r.g, 3, (fb_id[]){w0, sum0}, 2, NULL, 0, carried, NULL, 0, &r.err) != FB_NONE);
    w = carried[0];
    fb_id loss = add1(&r, FB_OP_SUM, add2(&r, FB_OP_ADD, squared(&r, squared(&r, w)), add2(&r, FB_OP_MUL, c, w)));
    gradients_of(&r, loss, 2, (fb_id[]){w, c}, d);
    fb_id next = add2(&r, FB_OP_SUB, w, add2(&r, FB_OP_MUL, d[0], constant(&r, FB_F64, 0.1)));
    fb_id sum = add2(&r, FB_OP_ADD, carried[1], d[1]);
    fb_id loop = fb_graph_region_close(r.g, (fb_id[]){next, sum}, NULL, 0, &r.err);
    assert_true(loop != FB_NONE);
    fb_id out[] = {add_at(&r, FB_OP_RESULT, loop, (fb_attrs){.index = 0}),
                   add_at(&r, FB_OP_RESULT, loop, (fb_attrs){.index = 1})};
    run_keeping_all(&r, out, 2, false);
    double v[2] = {0.5, -1}, total = 0;
    for (int step = 0; step < 3; step++) {
        total += v[0] + v[1];
        for (int k = 0; k < 2; k++) v[k] -= 0.1 * (4 * v[k] * v[k] * v[k] + 0.25);
    }
    expect_values(&r, out[0], 2, v);
    expect_values(&r, out[1], 1, &total);
    rig_free(&r);
}

static void expect_refusal(rig *r, fb_id loss, fb_id wrt, const char *text)
{
    fb_id d;
    fb_error err = {0};
    assert_false(fb_autodiff(r->g, loss, &wrt, 1, &d, 12, &err));
    if (!strstr(err.text, text)) fail_msg("\"%s\" does not say \"%s\"", err.text, text);
}

/* Opens a loop of 3 steps over w [3] with `init` carried. */
static void open_loop(rig *r, fb_id init, fb_id scanned, fb_id *carried, fb_id *item)
{
    int n = scanned != FB_NONE;
    if (fb_graph_region_open(r->g, 3, &init, 1, &scanned, n, carried, item, 0, &r->err) == FB_NONE)
        fail_msg("%s", r->err.text);
}

static fb_id close_loop(rig *r, fb_id yield)
{
    fb_id loop = fb_graph_region_close(r->g, &yield, NULL, 0, &r->err);
    if (loop == FB_NONE) fail_msg("%s", r->err.text);
    return add_at(r, FB_OP_RESULT, loop, (fb_attrs){.index = 0});
}

/* Through a finished loop there is one (test_autodiff_loop), through the one around there is not. */
static void an_open_loop_is_in_the_way(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id w = data(&r, FB_F64, SHAPE(3), (double[]){1, 2, 3}), zero = constant(&r, FB_F64, 0), carried, item;
    fb_id total = add1(&r, FB_OP_SUM, w);
    open_loop(&r, zero, FB_NONE, &carried, NULL);
    fb_id inner = add2(&r, FB_OP_ADD, carried, total), by_capture = close_loop(&r, inner);
    expect_refusal(&r, by_capture, inner, "is a value inside a loop and has no gradient outside it");
    expect_refusal(&r, inner, w, "is a value inside a loop and has no gradient outside it");
    open_loop(&r, total, w, &carried, &item);
    expect_refusal(&r, add2(&r, FB_OP_MUL, carried, carried), w,
                   "no derivative through a loop that is open (carried_2)");
    expect_refusal(&r, add2(&r, FB_OP_MUL, item, item), w, "no derivative through a loop that is open (item)");
    close_loop(&r, carried);
    rig_free(&r);
}

/* One that has nothing to do with the value is none of its business. */
static void a_loop_beside_the_way(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id w = data(&r, FB_F64, SHAPE(2), (double[]){2, 3}), one = constant(&r, FB_F64, 1), carried, d;
    open_loop(&r, one, FB_NONE, &carried, NULL);
    fb_id eight = close_loop(&r, add2(&r, FB_OP_ADD, carried, carried));
    gradients_of(&r, add1(&r, FB_OP_SUM, add2(&r, FB_OP_MUL, squared(&r, w), eight)), 1, &w, &d);
    run_keeping_all(&r, &d, 1, false);
    EXPECT(&r, d, 32, 48);
    rig_free(&r);
}

static void refusals(void **state)
{
    (void)state;
    rig r = rig_new();
    double x[6] = {0};
    fb_id a = data(&r, FB_F32, SHAPE(2, 3), x), i = data(&r, FB_I64, SCALAR, x), none = data(&r, FB_F32, SHAPE(0), x);
    fb_id loss = add1(&r, FB_OP_SUM, a), p = source(&r, FB_OP_PARAM, FB_F32, SCALAR, x);
    fb_id assigned = add2(&r, FB_OP_ASSIGN, p, loss);
    expect_refusal(&r, a, a, "grad: the loss must be one element (input: f32[2,3])");
    expect_refusal(&r, none, a, "grad: the loss must be one element (input_3: f32[0])");
    expect_refusal(&r, i, a, "grad: input_2 is i64, not a float");
    expect_refusal(&r, loss, i, "grad: input_2 is i64, not a float");
    expect_refusal(&r, add1(&r, FB_OP_ARGMAX, add_at(&r, FB_OP_VIEW, a, (fb_attrs){.shape = SHAPE(6)})), a,
                   "is i64, not a float");
    expect_refusal(&r, assigned, a, "is an effect without a value");
    rig_free(&r);
}

/* ---- the table ---- */

static void every_op_has_been_seen_or_carries_no_gradient(void **state)
{
    (void)state;
    static const char *const exempt[FB_OPS] = {
        [FB_OP_RECEIVE] = "hands on, gives nothing",
        [FB_OP_ASSIGN] = "nobody reads it",
        [FB_OP_LOOP] = "nobody reads it",
        [FB_OP_RESULT] = "test_autodiff_loop",
        [FB_OP_CARRIED] = "like a source, or refused",
        [FB_OP_ITEM] = "like a source, or refused",
        [FB_OP_PARAM] = "a source",
        [FB_OP_CONST] = "a source",
        [FB_OP_IOTA] = "a source",
        [FB_OP_RANDOM] = "a source",
        [FB_OP_FEED] = "a source",
        [FB_OP_STEP] = "an integer",
        [FB_OP_RANK] = "an integer",
    };
    for (int op = 0; op < FB_OPS; op++) {
        const fb_op_info *info = fb_op_get((fb_op)op);
        bool never_float = info->cls == FB_CLASS_POINTWISE
                               ? info->result == FB_RESULT_BOOL || info->accepts == FB_ACCEPTS_INT ||
                                     info->accepts == FB_ACCEPTS_BITS || info->accepts == FB_ACCEPTS_LOGIC
                               : info->cls == FB_CLASS_REDUCTION && info->result == FB_RESULT_I64;
        if (seen[op] == (never_float || exempt[op]))
            fail_msg("%s: %s", info->name, seen[op] ? "was not expected to have a gradient" : "no test asked for it");
    }
}

/* ---- the graph that goes with another one ---- */

static const double *value_of(const fb_interp *in, fb_id node)
{
    return fb_interp_get(in, node)->v;
}

/* y = tanh(x w) and x itself leave, x as a copy: so x has the gradients of both. */
static void a_backward_graph_takes_gradients_to_sources(void **state)
{
    (void)state;
    enum { N = 5 };
    static const double x_values[N] = {-1, -0.5, 0.25, 0.5, 2}, w_values[N] = {0.5, 2, -1, 0, 1};
    rig r = rig_new();
    fb_arena *arena = fb_arena_new();
    fb_backward b;
    fb_id x = data(&r, FB_F64, SHAPE(N), x_values), w = data(&r, FB_F64, SHAPE(N), w_values);
    fb_id y = add1(&r, FB_OP_TANH, add2(&r, FB_OP_MUL, x, w));
    assert_true(fb_graph_output(r.g, y, "y", &r.err) && fb_graph_output(r.g, x, "same", &r.err));
    assert_true(fb_graph_finish(r.g, &r.err));
    if (!fb_graph_backward(r.g, arena, &b, &r.err)) fail_msg("%s", r.err.text);
    assert_int_equal(b.n, 2);
    assert_true(b.graph->canonical);
    fb_id given[2], left[2];
    for (int i = 0; i < 2; i++) {
        given[i] = fb_graph_find(b.graph, b.arrives[i]);
        assert_int_equal(b.graph->nodes[given[i]].op, FB_OP_INPUT);
        assert_int_equal(b.source[i], i ? w : x);
        left[i] = b.graph->outputs[b.leaves[i]];
    }
    const fb_id keep[] = {given[0], given[1], left[0], left[1]};
    fb_interp_options o = {.seed = 3, .files = rig_file, .files_ctx = &r};
    fb_interp *in = fb_interp_run(b.graph, &o, keep, 4, &r.err);
    if (!in) fail_msg("%s", r.err.text);
    for (int i = 0; i < N; i++) {
        double t = tanh(x_values[i] * w_values[i]), slope = value_of(in, given[0])[i] * (1 - t * t);
        double to_x = slope * w_values[i] + value_of(in, given[1])[i], to_w = slope * x_values[i];
        assert_true(fabs(value_of(in, left[0])[i] - to_x) <= 1e-12 * fmax(1, fabs(to_x)));
        assert_true(fabs(value_of(in, left[1])[i] - to_w) <= 1e-12 * fmax(1, fabs(to_w)));
    }
    fb_interp_free(in);
    fb_graph_free(b.graph);
    fb_arena_free(arena);
    rig_free(&r);
}

static void a_backward_graph_is_refused_with_a_reason(void **state)
{
    (void)state;
    static const double value[] = {1, 2};
    fb_arena *arena = fb_arena_new();
    fb_backward b;
    rig r = rig_new();
    fb_id p = source(&r, FB_OP_PARAM, FB_F32, SHAPE(2), value);
    add2(&r, FB_OP_ASSIGN, p, add1(&r, FB_OP_TANH, p));
    assert_true(fb_graph_output(r.g, add1(&r, FB_OP_EXP, p), "y", &r.err) && fb_graph_finish(r.g, &r.err));
    assert_false(fb_graph_backward(r.g, arena, &b, &r.err));
    assert_non_null(strstr(r.err.text, "in place"));
    assert_null(b.graph);
    rig_free(&r);
    r = rig_new();
    fb_id i = data(&r, FB_I32, SHAPE(2), value);
    assert_true(fb_graph_output(r.g, add2(&r, FB_OP_ADD, i, i), "y", &r.err) && fb_graph_finish(r.g, &r.err));
    assert_false(fb_graph_backward(r.g, arena, &b, &r.err));
    assert_non_null(strstr(r.err.text, "none of its outputs is a float"));
    rig_free(&r);
    fb_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_backward_graph_takes_gradients_to_sources),
        cmocka_unit_test(a_backward_graph_is_refused_with_a_reason),
        cmocka_unit_test(pointwise_ops_of_one_operand),
        cmocka_unit_test(pointwise_ops_of_two_operands_broadcast),
        cmocka_unit_test(where_and_casts),
        cmocka_unit_test(reductions_over_any_axes),
        cmocka_unit_test(products_with_zeros),
        cmocka_unit_test(running_values_along_any_dim),
        cmocka_unit_test(running_products_with_zeros),
        cmocka_unit_test(views),
        cmocka_unit_test(slices_of_any_step),
        cmocka_unit_test(joins),
        cmocka_unit_test(contractions_with_any_batch),
        cmocka_unit_test(gathers),
        cmocka_unit_test(compositions),
        cmocka_unit_test(random_graphs),
        cmocka_unit_test(conventions_are_pytorch_s),
        cmocka_unit_test(a_branch_not_taken_gives_no_nan),
        cmocka_unit_test(what_is_asked_for_may_be_any_value),
        cmocka_unit_test(windows_apart_are_not_added_up),
        cmocka_unit_test(a_detached_value_is_a_constant),
        cmocka_unit_test(shared_weights_get_their_gradient_from_one_product),
        cmocka_unit_test(a_transposed_weight_gets_its_gradient_as_it_lies),
        cmocka_unit_test(results_alone_are_read_again),
        cmocka_unit_test(a_step_s_own_gradient_in_a_loop),
        cmocka_unit_test(an_open_loop_is_in_the_way),
        cmocka_unit_test(a_loop_beside_the_way),
        cmocka_unit_test(refusals),
        cmocka_unit_test(every_op_has_been_seen_or_carries_no_gradient),
    };
    return cmocka_run_group_tests_name("autodiff", tests, NULL, NULL);
}
