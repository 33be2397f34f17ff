/* Random graphs. A small generator over fb_graph_add: what it refuses (another dtype, a shape that does not fit) is
 * simply not there. With every value goes an estimate of its magnitude, so that a long chain of multiplications and
 * exponentials is brought back to where results can be told apart. */
#include "measure/fuzz_parts.h"

#include "base/rng.h"
#include "base/vec.h"
#include "graph/autodiff.h"
#include "graph/canon.h"

#include <math.h>
#include <string.h>

enum { MOST_ELEMENTS = 6000, MOST_LARGE = 150000, MOST_NODES = 400, VAST = 200 };

typedef struct {
    fb_random r;
    fb_graph *g;
    FB_VEC(fb_id) values;  /* what later nodes may read */
    FB_VEC(double) size;   /* of each node: about the largest magnitude */
    FB_VEC(bool) constant; /* of each node: it is made of constants alone */
    int from;              /* of values: what is before is out of sight */
    int64_t most;          /* elements of a value */
    int most_nodes;
    bool large;
    bool paired; /* of this seed there is a twin: what hangs on numbers of nodes is left out */
    bool twin;   /* written in another way: choices of this kind come from `other`, all others are the same */
    fb_random other;
    int extra; /* nodes that only the twin has */
} maker;

static int64_t below(maker *m, int64_t n)
{
    return fb_random_below(&m->r, n);
}

static bool one_in(maker *m, int64_t n)
{
    return below(m, n) == 0;
}

static const fb_node *at(const maker *m, fb_id id)
{
    return &m->g->nodes[id];
}

/* ---- magnitudes ---- */

static double arg_size(const maker *m, const fb_node *n, int i)
{
    return i < n->n_args && n->args[i] < m->size.n ? m->size.at[n->args[i]] : 1;
}

static double source_size(const fb_node *n)
{
    const fb_attrs *a = n->attrs;
    if (n->op == FB_OP_IOTA) return n->shape.rank ? (double)n->shape.dim[a->dim] : 1;
    if (n->op == FB_OP_CONST) return fabs(a->value);
    if (a->dist == FB_DIST_NORMAL) return fabs(a->value) + 3.5 * fabs(a->high);
    return fmax(fabs(a->value), fabs(a->high));
}

/* Of a product: how many terms a sum has. */
static double inner_extent(const maker *m, const fb_node *n)
{
    const fb_shape *a = &at(m, n->args[0])->shape;
    return (double)a->dim[a->rank - 1];
}

static double estimate(const maker *m, fb_id id)
{
    const fb_node *n = &m->g->nodes[id];
    double a = arg_size(m, n, 0), b = arg_size(m, n, 1), c = arg_size(m, n, 2), most = 0;
    const fb_attrs *at = n->attrs;
    double fewer = (double)fb_shape_elements(&n->shape);
    double in = n->n_args ? (double)fb_shape_elements(&m->g->nodes[n->args[0]].shape) : 1;
    for (int i = 0; i < n->n_args; i++) most = fmax(most, arg_size(m, n, i));
    switch (n->op) {
#define FB_SIZE_FUZZED(DOMAIN, SIZE) SIZE
#define POINTWISE(ID, NAME, OPERANDS, ACCEPTS, RESULT, PARAMS, VALUE, SPELLED, COST, XLA, ROUNDS, TURNS, DERIVES,      \
                  FUZZED, ...)                                                                                         \
    case FB_OP_##ID:                                                                                                   \
        return FB_SIZE_##FUZZED;
#include "graph/ops.def"
#undef POINTWISE
    case FB_OP_SUM: return fewer > 0 ? a * fmax(1, in / fewer) : 0;
    case FB_OP_PROD: return fewer > 0 ? pow(fmax(a, 1), fmin(in / fewer, 300)) : 1;
    case FB_OP_CUMSUM: return a * (n->shape.rank ? (double)n->shape.dim[n->attrs->dim] : 1);
    case FB_OP_CUMPROD: return pow(fmax(a, 1), n->shape.rank ? fmin((double)n->shape.dim[n->attrs->dim], 300) : 1);
    case FB_OP_SCATTER_ADD: return a * fmax(1, in);
    case FB_OP_MATMUL: return a * b * inner_extent(m, n);
    case FB_OP_PAD: return fmax(a, fabs(n->attrs->value));
    case FB_OP_ARGMAX:
    case FB_OP_ARGMIN:
    case FB_OP_RANK: return in;
    default: return fb_op_get(n->op)->cls == FB_CLASS_SOURCE ? source_size(n) : most;
    }
}

/* ---- adding ---- */

/* Is it made of constants alone? Then it is one, with no roundings of its own; a twin that computes it has some. */
static bool is_constant(const maker *m, const fb_node *n)
{
    fb_op_class class = fb_op_get(n->op)->cls;
    bool all = n->op == FB_OP_CONST || ((class == FB_CLASS_POINTWISE || class == FB_CLASS_VIEW) && n->n_args);
    for (int i = 0; i < n->n_args && all; i++) all = m->constant.at[n->args[i]];
    return all;
}

static void know(maker *m)
{
    while (m->size.n < m->g->n_nodes) {
        double most = estimate(m, m->size.n);
        FB_VEC_PUSH(&m->constant, is_constant(m, at(m, m->size.n)));
        FB_VEC_PUSH(&m->size, isnan(most) ? INFINITY : most);
    }
}

static fb_id another_way(maker *m, fb_id id);

/* FB_NONE for a node that cannot be, and wherever an operand already was none. */
static fb_id add(maker *m, fb_op op, const fb_attrs *attrs, int n, const fb_id *args)
{
    fb_error err;
    for (int i = 0; i < n; i++)
        if (args[i] == FB_NONE) return FB_NONE;
    if (m->g->n_nodes - m->extra >= m->most_nodes) return FB_NONE;
    fb_id id = fb_graph_add(m->g, op, args, n, attrs, NULL, 0, &err);
    if (id == FB_NONE) return FB_NONE;
    know(m);
    if (fb_shape_elements(&at(m, id)->shape) > m->most) return FB_NONE;
    if (m->twin) id = another_way(m, id);
    FB_VEC_PUSH(&m->values, id);
    return id;
}

static fb_id add1(maker *m, fb_op op, fb_id x)
{
    return add(m, op, NULL, 1, &x);
}

static fb_id add2(maker *m, fb_op op, fb_id x, fb_id y)
{
    return add(m, op, NULL, 2, (fb_id[]){x, y});
}

static fb_id constant(maker *m, fb_dtype dtype, double v)
{
    return add(m, FB_OP_CONST, &(fb_attrs){.dtype = dtype, .value = v}, 0, NULL);
}

static fb_id scaled(maker *m, fb_id x, double by)
{
    return x == FB_NONE ? FB_NONE : add2(m, FB_OP_MUL, x, constant(m, at(m, x)->dtype, by));
}

static fb_id reduce(maker *m, fb_op op, fb_id x, int axis, bool keepdim)
{
    return add(m, op, &(fb_attrs){.n_axes = 1, .axes = {axis}, .keepdim = keepdim}, 1, &x);
}

static double ceiling(const maker *m, fb_id x)
{
    fb_dtype d = at(m, x)->dtype;
    return fb_dtype_is_half(d) ? 60 : 3000;
}

/* A float whose magnitude is not out of hand. Of a sine of what is beyond all measure roundings decide, and it tells
 * nothing. */
static fb_id tamed(maker *m, fb_id x, double most)
{
    if (x == FB_NONE || !fb_dtype_is_float(at(m, x)->dtype) || m->size.at[x] <= most) return x;
    switch (below(m, 4)) {
    case 0: return add1(m, FB_OP_TANH, x);
    case 1: return add(m, FB_OP_CLAMP, &(fb_attrs){.value = -1.5, .high = 2}, 1, &x);
    case 2:
        if (m->size.at[x] <= ceiling(m, x)) return add1(m, FB_OP_SIN, x);
        break;
    default: break;
    }
    return scaled(m, x, 1 / m->size.at[x]);
}

/* ---- choosing ---- */

static fb_id any(maker *m)
{
    /* mostly recent ones, so that graphs are deep */
    int64_t n = m->values.n - m->from, back = below(m, 3) ? below(m, n < 6 ? n : 6) : below(m, n);
    return m->values.at[m->values.n - 1 - back];
}

static fb_id any_like(maker *m, fb_id x, bool same_shape)
{
    for (int i = 0; i < 12; i++) {
        fb_id y = any(m);
        if (at(m, y)->dtype != at(m, x)->dtype) continue;
        if (!same_shape || fb_shape_equal(&at(m, y)->shape, &at(m, x)->shape)) return y;
    }
    return x;
}

static fb_id any_float(maker *m, int least_rank)
{
    for (int i = 0; i < 12; i++) {
        fb_id x = any(m);
        if (fb_dtype_is_float(at(m, x)->dtype) && at(m, x)->shape.rank >= least_rank) return x;
    }
    return FB_NONE;
}

static bool takes(fb_op_accepts what, fb_dtype d)
{
    bool f = fb_dtype_is_float(d);
    switch (what) {
    case FB_ACCEPTS_FLOAT: return f;
    case FB_ACCEPTS_INT: return !f && d != FB_BOOL;
    case FB_ACCEPTS_NUMBER: return d != FB_BOOL;
    case FB_ACCEPTS_LOGIC: return d == FB_BOOL;
    case FB_ACCEPTS_BITS: return !f;
    default: return true;
    }
}

/* x as the op takes it, as a rule. */
static fb_id made_for(maker *m, fb_op op, fb_id x)
{
    fb_op_accepts what = fb_op_get(op)->accepts;
    if (takes(what, at(m, x)->dtype) || one_in(m, 3)) return x;
    fb_dtype to = what == FB_ACCEPTS_FLOAT ? FB_F32 : what == FB_ACCEPTS_LOGIC ? FB_BOOL : FB_I32;
    fb_id y = add(m, FB_OP_CAST, &(fb_attrs){.dtype = to}, 1, &x);
    return y == FB_NONE ? x : y;
}

/* One that the op takes; made to be, where there is none. */
static fb_id any_for(maker *m, fb_op op)
{
    fb_op_accepts what = fb_op_get(op)->accepts;
    fb_id x = any(m);
    for (int i = 0; i < 12 && !takes(what, at(m, x)->dtype); i++) x = any(m);
    return made_for(m, op, x);
}

static int64_t any_dim(maker *m)
{
    static const int64_t dims[] = {1, 2, 3, 4, 5, 7, 8, 12, 17, 33, 1, 4, 8, 0};
    static const int64_t large[] = {1, 3, 16, 31, 64, 100, 128, 255, 257, 1000, 1024, 4097, 33000};
    int64_t i = below(m, 60);
    return m->large ? large[i % 13] : dims[i < 14 ? i : i % 13];
}

static fb_dtype any_dtype(maker *m)
{
    static const fb_dtype dtypes[] = {FB_F32, FB_F32,  FB_F32, FB_F32, FB_F32, FB_F64,
                                      FB_F16, FB_BF16, FB_I32, FB_I64, FB_BOOL};
    return dtypes[below(m, 11)];
}

static fb_shape any_shape(maker *m)
{
    fb_shape s = {.rank = (int)below(m, 4)};
    if (one_in(m, 12)) s.rank += 2;
    for (int d = 0; d < s.rank; d++) s.dim[d] = any_dim(m);
    return s;
}

/* ---- sources ---- */

static fb_id source(maker *m, fb_shape shape, fb_dtype dtype)
{
    bool f = fb_dtype_is_float(dtype);
    fb_attrs a = {.shape = shape, .dtype = dtype, .dist = FB_DIST_INTEGER, .value = -3, .high = 9};
    if (f) a.dist = one_in(m, 3) ? FB_DIST_UNIFORM : FB_DIST_NORMAL, a.value = 0, a.high = 1;
    if (a.dist == FB_DIST_UNIFORM) a.value = -1;
    if (dtype == FB_BOOL) a.value = 0, a.high = 2;
    if (f && one_in(m, 20)) a.dist = FB_DIST_CONSTANT, a.value = 0.5;
    a.seed = (uint64_t)below(m, 1000);
    static const fb_op ops[] = {FB_OP_INPUT, FB_OP_INPUT, FB_OP_INPUT, FB_OP_INPUT, FB_OP_PARAM,
                                FB_OP_PARAM, FB_OP_PARAM, FB_OP_PARAM, FB_OP_FEED,  FB_OP_RANDOM};
    return add(m, ops[below(m, 10)], &a, 0, NULL);
}

/* A window of a larger one: every other row, or some columns of the middle. */
static fb_id weight_window(maker *m, int64_t rows, int64_t columns, fb_dtype dtype)
{
    bool step = below(m, 2);
    fb_attrs a = {.shape = {.rank = 2, .dim = {step ? 2 * rows : rows, step ? columns : columns + 3}},
                  .dtype = dtype,
                  .dist = FB_DIST_NORMAL,
                  .high = 0.5};
    fb_id w = add(m, FB_OP_PARAM, &a, 0, NULL);
    fb_attrs cut = {.dim = 0, .start = below(m, 2), .stop = 2 * rows, .step = 2};
    if (!step) cut = (fb_attrs){.dim = 1, .start = 2, .stop = columns + 2, .step = 1};
    if (cut.start > cut.stop) cut.start = cut.stop;
    return add(m, FB_OP_SLICE, &cut, 1, &w);
}

static fb_id weight(maker *m, int64_t rows, int64_t columns, fb_dtype dtype)
{
    if (one_in(m, 4)) return weight_window(m, rows, columns, dtype);
    fb_attrs a = {.shape = {.rank = 2, .dim = {rows, columns}}, .dtype = dtype, .dist = FB_DIST_NORMAL, .high = 0.5};
    if (one_in(m, 2)) return add(m, FB_OP_PARAM, &a, 0, NULL);
    a.shape.dim[0] = columns, a.shape.dim[1] = rows;
    fb_id w = add(m, FB_OP_PARAM, &a, 0, NULL);
    return add(m, FB_OP_PERMUTE, &(fb_attrs){.n_axes = 2, .axes = {1, 0}}, 1, &w);
}

static fb_id row(maker *m, int64_t n, fb_dtype dtype)
{
    return source(m, (fb_shape){.rank = 1, .dim = {n}}, dtype);
}

/* ---- single ops ---- */

static void add_choice(maker *m);

static fb_op any_pointwise(maker *m)
{
    return (fb_op)(FB_OP_NEG + below(m, FB_OP_WHERE - FB_OP_NEG + 1));
}

static void add_pointwise_of(maker *m, fb_op op, fb_id x)
{
    fb_id args[3] = {x, any_like(m, x, false), any_like(m, x, false)};
    fb_attrs a = {.dtype = any_dtype(m), .value = -0.5, .high = 1.5};
    bool f = fb_dtype_is_float(at(m, x)->dtype);
    const fb_op_param *params = fb_op_get(op)->params;
    if (params[0].name && isfinite(params[0].otherwise) && one_in(m, 2))
        a.value = params[0].otherwise, a.high = params[1].otherwise;
    switch (fb_op_get(op)->domain) {
    case FB_DOMAIN_EXPONENT: args[0] = tamed(m, x, 5); break;
    case FB_DOMAIN_ANGLE: args[0] = tamed(m, x, ceiling(m, x)); break;
    case FB_DOMAIN_POSITIVE:
        if (f && below(m, 4)) args[0] = add2(m, FB_OP_ADD, add1(m, FB_OP_ABS, x), constant(m, at(m, x)->dtype, 0.5));
        break;
    case FB_DOMAIN_FRACTION: args[0] = scaled(m, add1(m, FB_OP_TANH, x), 0.98); break;
    case FB_DOMAIN_DIVISOR:
        if (f && below(m, 4))
            args[1] = add2(m, FB_OP_ADD, add1(m, FB_OP_ABS, args[1]), constant(m, at(m, x)->dtype, 0.5));
        break;
    case FB_DOMAIN_POWER:
        if (f && below(m, 4)) {
            args[0] = add2(m, FB_OP_ADD, add1(m, FB_OP_ABS, tamed(m, x, 4)), constant(m, at(m, x)->dtype, 0.1));
            args[1] = tamed(m, args[1], 3);
        }
        break;
    case FB_DOMAIN_CHOICE:
        args[2] = any_like(m, args[1], false);
        for (int i = 0; i < 8 && at(m, args[0])->dtype != FB_BOOL; i++) args[0] = any(m);
        break;
    case FB_DOMAIN_FACTORS:
        for (int i = 0; i < 2; i++) args[i] = tamed(m, args[i], ceiling(m, x));
        break;
    case FB_DOMAIN_CONVERTED:
        if (one_in(m, 2)) break;
        args[0] = tamed(m, x, 100);
        break;
    case FB_DOMAIN_ANY: args[0] = tamed(m, x, 30 * ceiling(m, x));
    }
    add(m, op, &a, fb_op_get(op)->min_args, args);
}

static void add_pointwise(maker *m)
{
    if (one_in(m, 20)) {
        add_choice(m);
        return;
    }
    fb_op op = any_pointwise(m);
    add_pointwise_of(m, op, any_for(m, op));
}

/* Between two values by a third one's size. */
static void add_choice(maker *m)
{
    static const fb_op compared[] = {FB_OP_LT, FB_OP_LE, FB_OP_GT, FB_OP_GE, FB_OP_EQ, FB_OP_NE};
    fb_id x = any_for(m, FB_OP_LT), y = any_like(m, x, false), z = any_like(m, x, false);
    fb_id test = add2(m, compared[below(m, 6)], x, below(m, 2) ? z : constant(m, at(m, x)->dtype, below(m, 3)));
    add(m, FB_OP_WHERE, NULL, 3, (fb_id[]){test, x, y});
}

/* Down columns that are more than the lanes of a block, and no multiple of them as a rule. */
static void add_lanes(maker *m)
{
    static const fb_op ops[] = {FB_OP_SUM, FB_OP_MEAN, FB_OP_AMAX, FB_OP_AMIN};
    fb_shape s = {.rank = 2, .dim = {2 + below(m, 9), 65 + below(m, 400)}};
    fb_id x = source(m, s, FB_F32);
    if (x != FB_NONE) reduce(m, ops[below(m, 4)], x, 0, below(m, 2));
}

static void add_reduction(maker *m)
{
    if (one_in(m, 16)) {
        add_lanes(m);
        return;
    }
    fb_op op = (fb_op)(FB_OP_SUM + below(m, FB_OP_ARGMIN - FB_OP_SUM + 1));
    fb_id x = any_for(m, op);
    int rank = at(m, x)->shape.rank;
    fb_attrs a = {.keepdim = below(m, 2)};
    for (int d = 0; d < rank; d++)
        if (below(m, 2)) a.axes[a.n_axes++] = d;
    if ((op == FB_OP_ARGMAX || op == FB_OP_ARGMIN) && a.n_axes > 1) a.n_axes = 1;
    x = tamed(m, x, op == FB_OP_PROD ? 2 : ceiling(m, x));
    add(m, op, &a, 1, &x);
}

static void add_shape(maker *m, fb_id x)
{
    const fb_shape copy = at(m, x)->shape, *s = &copy;
    fb_attrs a = {.shape = *s};
    if (s->rank < 2 || !below(m, 2)) { /* move a factor */
        a.shape = (fb_shape){.rank = 2, .dim = {1, fb_shape_elements(s)}};
        for (int64_t f = 2; f < 9; f++)
            if (below(m, 2) && a.shape.dim[1] % f == 0) a.shape.dim[0] *= f, a.shape.dim[1] /= f;
    } else { /* flatten two dims */
        int d = (int)below(m, s->rank - 1);
        a.shape.dim[d] *= s->dim[d + 1];
        for (int e = d + 1; e < s->rank - 1; e++) a.shape.dim[e] = s->dim[e + 1];
        a.shape.rank--;
    }
    add(m, FB_OP_VIEW, &a, 1, &x);
}

static void add_permute(maker *m, fb_id x)
{
    fb_attrs a = {.n_axes = at(m, x)->shape.rank};
    for (int d = 0; d < a.n_axes; d++) a.axes[d] = d;
    for (int d = a.n_axes - 1; d > 0; d--) {
        int e = (int)below(m, d + 1), t = a.axes[d];
        a.axes[d] = a.axes[e];
        a.axes[e] = t;
    }
    add(m, FB_OP_PERMUTE, &a, 1, &x);
}

static void add_slice(maker *m, fb_id x)
{
    const fb_shape *s = &at(m, x)->shape;
    if (!s->rank) return;
    fb_attrs a = {.dim = (int)below(m, s->rank)};
    int64_t n = s->dim[a.dim];
    a.start = n && below(m, 2) ? below(m, n) : 0;
    a.stop = one_in(m, 3) ? n : a.start + below(m, n - a.start + 1);
    a.step = 1 + (below(m, 2) ? 0 : below(m, 3));
    add(m, FB_OP_SLICE, &a, 1, &x);
}

static void add_expand(maker *m, fb_id x)
{
    fb_attrs a = {.shape = at(m, x)->shape};
    for (int d = 0; d < a.shape.rank; d++)
        if (a.shape.dim[d] == 1) a.shape.dim[d] = any_dim(m);
    if (one_in(m, 3) && a.shape.rank < 5) { /* a new first dimension */
        for (int d = a.shape.rank++; d > 0; d--) a.shape.dim[d] = a.shape.dim[d - 1];
        a.shape.dim[0] = any_dim(m);
    }
    add(m, FB_OP_EXPAND, &a, 1, &x);
}

static void add_pad(maker *m, fb_id x)
{
    static const double values[] = {0, -1, 2.5, -INFINITY};
    fb_attrs a = {.value = values[below(m, fb_dtype_is_float(at(m, x)->dtype) && one_in(m, 8) ? 4 : 2)]};
    for (int d = 0; d < at(m, x)->shape.rank; d++) a.before[d] = below(m, 3), a.after[d] = below(m, 2);
    if (at(m, x)->dtype == FB_BOOL) a.value = 0;
    add(m, FB_OP_PAD, &a, 1, &x);
}

static void add_flip(maker *m, fb_id x)
{
    fb_attrs a = {0};
    for (int d = 0; d < at(m, x)->shape.rank; d++)
        if (below(m, 2)) a.axes[a.n_axes++] = d;
    if (a.n_axes) add(m, FB_OP_FLIP, &a, 1, &x);
}

static void add_unfold(maker *m, fb_id x)
{
    const fb_shape *s = &at(m, x)->shape;
    if (!s->rank || s->rank > 4) return;
    fb_attrs a = {.dim = (int)below(m, s->rank), .step = 1 + (below(m, 2) ? 0 : below(m, 3))};
    int64_t n = s->dim[a.dim];
    if (!n) return;
    a.stop = 1 + below(m, n < 5 ? n : 5);
    add(m, FB_OP_UNFOLD, &a, 1, &x);
}

/* The elements up to the first one of a row, in another order than they lie in memory: where indices fall apart into
 * quotients and remainders, and are just too large to be left as they are. */
static void add_across(maker *m, fb_id x)
{
    const fb_shape s = at(m, x)->shape;
    int64_t n = fb_shape_elements(&s), row = s.rank ? s.dim[s.rank - 1] : 0;
    if (s.rank < 2 || row < 2 || n < 2 * row) return;
    fb_id flat = add(m, FB_OP_VIEW, &(fb_attrs){.shape = {.rank = 1, .dim = {n}}}, 1, &x);
    int64_t first = below(m, n / row - 1) * row;
    fb_attrs cut = {.start = first + below(m, row - 1), .stop = first + row + 1, .step = 1};
    flat = add(m, FB_OP_SLICE, &cut, 1, &flat);
    if (flat != FB_NONE && below(m, 2)) add1(m, FB_OP_ABS, flat);
}

/* Some views on top of each other. */
static fb_id viewed(maker *m, fb_id x, int n)
{
    static void (*const views[])(maker *, fb_id) = {add_shape, add_permute, add_slice, add_expand,
                                                    add_pad,   add_flip,    add_unfold};
    for (; n > 0; n--) {
        int before = m->values.n;
        views[below(m, (int64_t)(sizeof views / sizeof *views))](m, x);
        if (m->values.n > before) x = m->values.at[m->values.n - 1];
    }
    return x;
}

static void add_view(maker *m)
{
    fb_id x = any(m);
    if (one_in(m, 6)) {
        x = viewed(m, x, 1);
        add_across(m, x);
    } else {
        viewed(m, x, one_in(m, 4) ? 3 : 1);
    }
}

static fb_id slice(maker *m, fb_id x, int dim, int64_t start, int64_t stop)
{
    return add(m, FB_OP_SLICE, &(fb_attrs){.dim = dim, .start = start, .stop = stop, .step = 1}, 1, &x);
}

static void add_join(maker *m)
{
    fb_id x = any(m), parts[5];
    int rank = at(m, x)->shape.rank, n = 1 + (int)below(m, 4);
    for (int i = 0; i < n; i++) parts[i] = any_like(m, x, true);
    bool stack = below(m, 2) || !rank;
    int dim = (int)below(m, rank + stack);
    if (!stack && n > 1 && below(m, 2)) { /* parts of unlike size */
        int64_t whole = at(m, x)->shape.dim[dim];
        parts[1] = slice(m, parts[1], dim, whole ? below(m, whole) : 0, whole);
    }
    fb_id y = add(m, stack ? FB_OP_STACK : FB_OP_CAT, &(fb_attrs){.dim = dim}, n, parts);
    if (y == FB_NONE || !one_in(m, 3)) return;
    /* every second or third of them: what a row variable steps over does not end where a part does */
    int64_t size = at(m, y)->shape.dim[dim];
    add(m, FB_OP_SLICE, &(fb_attrs){.dim = dim, .start = below(m, 2), .stop = size, .step = 2 + below(m, 2)}, 1, &y);
}

/* A window whose rows lie apart, in another shape: rows and columns of which one no longer steps evenly, or does. */
static fb_id refolded(maker *m, fb_id x)
{
    const fb_shape s = at(m, x)->shape;
    fb_attrs cut = {.dim = s.rank - 1 - (int)below(m, 2), .step = 1};
    if (s.dim[cut.dim] < 2) return x;
    cut.stop = s.dim[cut.dim] - 1 - below(m, s.dim[cut.dim] / 2);
    cut.start = below(m, 2) ? 0 : below(m, cut.stop);
    fb_id window = add(m, FB_OP_SLICE, &cut, 1, &x);
    if (window == FB_NONE) return x;
    int64_t n = fb_shape_elements(&at(m, window)->shape), k = at(m, window)->shape.dim[s.rank - 1], columns = k;
    if (!k) return window;
    for (int64_t f = 6; f > 1; f--)
        if (n % (k * f) == 0 && below(m, 2)) columns = k * f;
    if (columns == k && k % 2 == 0) columns = k / 2;
    fb_attrs to = {.shape = {.rank = 2, .dim = {n / columns, columns}}};
    fb_id y = add(m, FB_OP_VIEW, &to, 1, &window);
    return y == FB_NONE ? window : y;
}

/* One that is large enough to be worked on in blocks of rows, and what reads its rows in another order. */
static void add_tall(maker *m)
{
    int64_t rows = 96 + below(m, 80), k = 20 + below(m, 12), columns = 20 + below(m, 12);
    fb_attrs a = {.shape = {.rank = 2, .dim = {rows, k}}, .dtype = FB_F32, .dist = FB_DIST_NORMAL, .high = 1};
    fb_id y = add2(m, FB_OP_MATMUL, add(m, FB_OP_INPUT, &a, 0, NULL), weight(m, k, columns, FB_F32));
    if (y == FB_NONE) return;
    y = below(m, 2) ? viewed(m, y, 1) : add(m, FB_OP_FLIP, &(fb_attrs){.n_axes = 1}, 1, &y);
    add1(m, below(m, 2) ? FB_OP_TANH : FB_OP_NEG, y);
}

static fb_attrs last_two_swapped(int rank)
{
    fb_attrs a = {.n_axes = rank};
    for (int d = 0; d < rank; d++) a.axes[d] = d;
    a.axes[rank - 2] = rank - 1, a.axes[rank - 1] = rank - 2;
    return a;
}

static void add_contraction(maker *m)
{
    if (one_in(m, 6)) {
        add_tall(m);
        return;
    }
    fb_id x = any_float(m, 2);
    if (x == FB_NONE) return;
    x = tamed(m, x, 30);
    if (x == FB_NONE) return;
    if (one_in(m, 3))
        x = refolded(m, x);
    else if (below(m, 2))
        x = viewed(m, x, 1 + (int)below(m, 3));
    if (at(m, x)->shape.rank < 2) return;
    const fb_node n = *at(m, x); /* adding moves nodes */
    int64_t k = n.shape.dim[n.shape.rank - 1], columns = any_dim(m);
    fb_id w;
    if (n.shape.rank > 2 && below(m, 2)) { /* batched */
        fb_shape s = n.shape;
        s.dim[s.rank - 2] = k, s.dim[s.rank - 1] = columns;
        if (!one_in(m, 3)) s.dim[0] = 1; /* the same one for every batch */
        w = source(m, s, n.dtype);
    } else if (one_in(m, 4)) { /* with itself, turned */
        const fb_attrs a = last_two_swapped(n.shape.rank);
        w = any_like(m, x, true);
        w = add(m, FB_OP_PERMUTE, &a, 1, &w);
    } else {
        w = weight(m, k, columns, n.dtype);
    }
    fb_attrs a = {.precision = n.dtype == FB_F32 && one_in(m, 8) ? FB_PRECISION_TF32 : FB_PRECISION_IEEE};
    add(m, FB_OP_MATMUL, &a, 2, (fb_id[]){x, w});
}

/* What may be done to a product while it is at hand: any few ops, and perhaps the next product. */
static void add_dressed(maker *m)
{
    int before = m->values.n;
    add_contraction(m);
    if (m->values.n == before) return;
    for (int64_t i = 1 + below(m, 4); i > 0; i--) {
        fb_id y = m->values.at[m->values.n - 1];
        fb_op op = any_pointwise(m);
        for (int k = 0; k < 12 && !takes(fb_op_get(op)->accepts, at(m, y)->dtype); k++) op = any_pointwise(m);
        add_pointwise_of(m, op, made_for(m, op, y));
    }
    fb_id y = m->values.at[m->values.n - 1];
    if (one_in(m, 3) || !fb_dtype_is_float(at(m, y)->dtype) || at(m, y)->shape.rank < 2) return;
    y = tamed(m, y, 10);
    if (y == FB_NONE) return;
    add2(m, FB_OP_MATMUL, y, weight(m, at(m, y)->shape.dim[at(m, y)->shape.rank - 1], any_dim(m), at(m, y)->dtype));
}

/* Rows that are there, some beside them, and some so far away that whoever reads them is stopped. */
static fb_id row_numbers(maker *m, fb_shape s)
{
    fb_id index = source(m, s, below(m, 2) ? FB_I64 : FB_I32);
    return below(m, 2) ? scaled(m, index, 100000007) : index;
}

static void add_gather(maker *m)
{
    fb_id x = any(m);
    fb_shape s = {.rank = 1 + (int)below(m, 2), .dim = {any_dim(m), any_dim(m)}};
    if (!at(m, x)->shape.rank) return;
    fb_id y = add2(m, FB_OP_EMBEDDING, x, row_numbers(m, s));
    if (y == FB_NONE || one_in(m, 3)) return;
    y = viewed(m, y, 1 + (int)below(m, 3));
    if (takes(fb_op_get(FB_OP_NEG)->accepts, at(m, y)->dtype)) add1(m, FB_OP_NEG, y);
}

static void add_scatter(maker *m)
{
    fb_id x = tamed(m, any(m), 30);
    if (x == FB_NONE || !at(m, x)->shape.rank) return;
    const fb_node n = *at(m, x);
    fb_shape s = {.rank = 1 + (n.shape.rank > 1 && one_in(m, 3)), .dim = {n.shape.dim[0], n.shape.dim[1]}};
    fb_id index = row_numbers(m, s);
    add(m, FB_OP_SCATTER_ADD, &(fb_attrs){.start = below(m, 8)}, 2, (fb_id[]){x, index});
}

static void add_other(maker *m)
{
    fb_id x = any(m);
    const fb_node n = *at(m, x);
    switch (below(m, 7)) {
    case 5:
        if (n.shape.rank && takes(FB_ACCEPTS_NUMBER, n.dtype))
            add(m, FB_OP_RANK, &(fb_attrs){.dim = (int)below(m, n.shape.rank), .start = below(m, 2)}, 1, &x);
        return;
    case 0: {
        fb_op op = one_in(m, 3) ? FB_OP_CUMPROD : FB_OP_CUMSUM;
        x = tamed(m, x, op == FB_OP_CUMPROD ? 2 : 50);
        if (n.shape.rank) add(m, op, &(fb_attrs){.dim = (int)below(m, n.shape.rank)}, 1, &x);
        return;
    }
    case 1: add_gather(m); return;
    case 2: add_scatter(m); return;
    case 3: constant(m, n.dtype, 0.5 * (double)below(m, 7) - 1); return;
    case 4: source(m, one_in(m, 2) ? n.shape : any_shape(m), any_dtype(m)); return;
    default: {
        fb_attrs a = {.shape = any_shape(m), .dtype = below(m, 2) ? FB_I64 : FB_F32};
        if (!a.shape.rank) return;
        a.dim = (int)below(m, a.shape.rank);
        add(m, FB_OP_IOTA, &a, 0, NULL);
    }
    }
}

/* ---- what models are made of ---- */

static fb_id softmax(maker *m, fb_id x, int axis)
{
    fb_id e = add1(m, FB_OP_EXP, add2(m, FB_OP_SUB, x, reduce(m, FB_OP_AMAX, x, axis, true)));
    return add2(m, FB_OP_DIV, e, reduce(m, FB_OP_SUM, e, axis, true));
}

static fb_id layer_norm(maker *m, fb_id x, int axis)
{
    fb_id d = add2(m, FB_OP_SUB, x, reduce(m, FB_OP_MEAN, x, axis, true));
    fb_id var = reduce(m, FB_OP_MEAN, add2(m, FB_OP_MUL, d, d), axis, true);
    if (var == FB_NONE) return FB_NONE;
    return add2(m, FB_OP_MUL, d, add1(m, FB_OP_RSQRT, add2(m, FB_OP_ADD, var, constant(m, at(m, var)->dtype, 0.1))));
}

/* As the framework's op half of the time. */
static fb_id in_scope(maker *m, const char *op, fb_id (*make)(maker *, fb_id, int), fb_id x, int axis)
{
    fb_error err;
    bool scope = one_in(m, 2) && fb_graph_scope_open(m->g, op, FB_NONE, op, &x, 1, NULL, 0, &err) != FB_NONE;
    fb_id y = make(m, x, axis);
    if (scope) fb_graph_scope_close(m->g, y == FB_NONE ? NULL : &y, y != FB_NONE, &err);
    return y;
}

static void add_norm(maker *m)
{
    fb_id x = tamed(m, any_float(m, 1), 30);
    if (x == FB_NONE || !at(m, x)->shape.rank) return;
    int rank = at(m, x)->shape.rank, axis = one_in(m, 3) ? (int)below(m, rank) : rank - 1;
    if (below(m, 2))
        in_scope(m, "softmax", softmax, x, axis);
    else
        in_scope(m, "layer_norm", layer_norm, x, axis);
}

static fb_id activation(maker *m, fb_id x)
{
    static const fb_op ops[] = {FB_OP_RELU, FB_OP_GELU, FB_OP_TANH, FB_OP_SIGMOID, FB_OP_SIN, FB_OP_ABS};
    return add1(m, ops[below(m, 6)], x);
}

static fb_id linear(maker *m, fb_id x, int64_t columns)
{
    if (x == FB_NONE) return FB_NONE;
    const fb_node n = *at(m, x);
    fb_id y = add2(m, FB_OP_MATMUL, x, weight(m, n.shape.dim[n.shape.rank - 1], columns, n.dtype));
    return one_in(m, 3) ? y : add2(m, FB_OP_ADD, y, row(m, columns, n.dtype));
}

/* Linear layers with activations and norms; several that share an input; a low-rank update; attention. */
static void add_layer(maker *m)
{
    fb_id x = tamed(m, any_float(m, 2), 10);
    if (x == FB_NONE || at(m, x)->shape.rank < 2) return;
    int64_t n = any_dim(m);
    switch (below(m, 4)) {
    case 0: {
        fb_id y = activation(m, linear(m, x, n));
        if (below(m, 2)) y = linear(m, tamed(m, y, 10), any_dim(m));
        if (below(m, 2) && y != FB_NONE)
            in_scope(m, "layer_norm", layer_norm, tamed(m, y, 20), at(m, y)->shape.rank - 1);
        return;
    }
    case 1: {
        fb_id a = linear(m, x, n), b = linear(m, x, n);
        add2(m, FB_OP_MUL, add1(m, FB_OP_SIGMOID, a), add1(m, FB_OP_TANH, b));
        return;
    }
    case 2: {
        fb_id low = linear(m, tamed(m, linear(m, x, 1 + below(m, 4)), 10), n);
        add2(m, FB_OP_ADD, linear(m, x, n), scaled(m, low, 0.5));
        return;
    }
    default: {
        int rank = at(m, x)->shape.rank;
        const fb_attrs a = last_two_swapped(rank);
        fb_id q = linear(m, x, n), k = linear(m, x, n), v = linear(m, x, any_dim(m));
        fb_id scores = tamed(m, add2(m, FB_OP_MATMUL, q, add(m, FB_OP_PERMUTE, &a, 1, &k)), 10);
        if (scores == FB_NONE) return;
        add2(m, FB_OP_MATMUL, in_scope(m, "softmax", softmax, scores, rank - 1), v);
    }
    }
}

/* Along long rows, of factors so close to 1 that the product is of no size. Nothing else is made of these: of values that
 * are nearly equal little can be told. */
static void multiply_along(maker *m, fb_id x)
{
    int before = m->values.n;
    fb_id factors = add1(m, FB_OP_EXP, scaled(m, add1(m, FB_OP_SIN, x), 0x1p-13));
    fb_id y = add(m, FB_OP_CUMPROD, &(fb_attrs){.dim = 1}, 1, &factors);
    m->values.n = before;
    if (y != FB_NONE) FB_VEC_PUSH(&m->values, y);
}

/* A few rows that are long enough for a team of threads to share each. */
static void add_long(maker *m)
{
    static const fb_op ops[] = {FB_OP_SUM,    FB_OP_MEAN,   FB_OP_AMAX,   FB_OP_AMIN,
                                FB_OP_ARGMAX, FB_OP_CUMSUM, FB_OP_CUMSUM, FB_OP_CUMPROD};
    fb_attrs a = {.shape = {.rank = 2, .dim = {1 + below(m, 3), 32800 + below(m, 2000)}},
                  .dtype = FB_F32,
                  .dist = one_in(m, 6) ? FB_DIST_CONSTANT : FB_DIST_NORMAL,
                  .high = 1,
                  .seed = (uint64_t)below(m, 1000)};
    if (a.dist == FB_DIST_CONSTANT) a.value = 0.1 * (double)below(m, 9) + 3e-5;
    fb_id x = add(m, below(m, 2) ? FB_OP_INPUT : FB_OP_PARAM, &a, 0, NULL);
    if (below(m, 2)) x = add1(m, below(m, 2) ? FB_OP_ABS : FB_OP_SIN, x);
    for (int64_t i = 1 + below(m, 2); i > 0; i--) {
        fb_op op = ops[below(m, 8)];
        if (op == FB_OP_CUMPROD)
            multiply_along(m, x);
        else if (op == FB_OP_CUMSUM)
            add(m, op, &(fb_attrs){.dim = 1}, 1, &x);
        else if (x != FB_NONE)
            reduce(m, op, x, 1, below(m, 2));
    }
    if (x != FB_NONE && one_in(m, 3)) in_scope(m, "softmax", softmax, x, 1);
}

static void add_single(maker *m);

/* The same nodes on each part of a value, in scopes of one name, then joined again. */
static void add_repeated(maker *m)
{
    fb_id x = any(m), results[4];
    const fb_shape s = at(m, x)->shape;
    int n = 2 + (int)below(m, 3), dim = s.rank ? (int)below(m, s.rank) : 0, kept = m->from;
    int unlike = one_in(m, 4);
    if (!s.rank || s.dim[dim] < n) return;
    int64_t each = s.dim[dim] / n, nodes = 1 + below(m, 4);
    fb_random start = m->r;
    for (int i = 0; i < n; i++) {
        fb_error err;
        if (!unlike) m->r = start;
        fb_id part = slice(m, x, dim, i * each, (i + 1) * each);
        if (part == FB_NONE) return;
        m->from = m->values.n - 1;
        bool scope = fb_graph_scope_open(m->g, "part", i, NULL, NULL, 0, NULL, 0, &err) != FB_NONE;
        for (int64_t k = 0; k < nodes; k++) add_single(m);
        if (scope) fb_graph_scope_close(m->g, NULL, 0, &err);
        results[i] = m->values.at[m->values.n - 1];
        m->from = kept;
    }
    if (below(m, 4)) add(m, below(m, 2) ? FB_OP_STACK : FB_OP_CAT, NULL, n, results);
}

/* Gradients of a scalar, and updates of the parameters among what they are taken of. */
static void add_gradient(maker *m)
{
    fb_id x = any_float(m, 0), wrt[3], to[3];
    int n = 0;
    fb_error err;
    if (x == FB_NONE || m->paired) return;
    if (at(m, x)->shape.rank) {
        fb_attrs a = {0};
        for (int d = 0; d < at(m, x)->shape.rank; d++) a.axes[a.n_axes++] = d;
        x = add(m, one_in(m, 2) ? FB_OP_SUM : FB_OP_MEAN, &a, 1, &x);
    }
    if (x == FB_NONE) return;
    for (int i = 0; i < 20 && n < 3; i++) {
        fb_id id = (fb_id)below(m, x);
        bool again = false;
        for (int k = 0; k < n; k++) again |= wrt[k] == id;
        if (again || !fb_dtype_is_float(at(m, id)->dtype)) continue;
        if (i < 10 && at(m, id)->op != FB_OP_PARAM && at(m, id)->op != FB_OP_INPUT) continue;
        wrt[n++] = id;
    }
    if (!n || !fb_autodiff(m->g, x, wrt, n, to, 0, &err)) return;
    know(m);
    for (int i = 0; i < n; i++) {
        if (fb_shape_elements(&at(m, to[i])->shape) > m->most) continue;
        FB_VEC_PUSH(&m->values, to[i]);
        if (at(m, wrt[i])->op == FB_OP_PARAM && below(m, 2))
            add2(m, FB_OP_SUB, wrt[i], scaled(m, tamed(m, to[i], 100), 0.125));
    }
}

static bool assign(maker *m, fb_id param, fb_id value)
{
    fb_error err;
    fb_id args[2] = {param, value};
    for (fb_id i = param; i >= 0 && i < m->g->n_nodes; i++)
        if (at(m, i)->op == FB_OP_ASSIGN && at(m, i)->args[0] == param) return false;
    if (param == FB_NONE || value == FB_NONE || param == value) return false;
    if (fb_graph_add(m->g, FB_OP_ASSIGN, args, 2, NULL, NULL, 0, &err) == FB_NONE) return false;
    know(m);
    return true;
}

/* Parameters that are read and written in one kernel: one handed on to the other, its next value made of itself or of
 * something else, or of rows' sums, and a reader of what it was. */
static void add_updates(maker *m)
{
    fb_shape s = {.rank = 2, .dim = {any_dim(m), any_dim(m)}};
    fb_attrs a = {.shape = s, .dtype = FB_F32, .dist = FB_DIST_NORMAL, .high = 1, .seed = (uint64_t)below(m, 1000)};
    fb_id p = add(m, FB_OP_PARAM, &a, 0, NULL), q = below(m, 2) ? add(m, FB_OP_PARAM, &a, 0, NULL) : FB_NONE;
    fb_id x = source(m, s, FB_F32), of = below(m, 2) ? p : x, next = of;
    if (p == FB_NONE || x == FB_NONE) return;
    if (below(m, 2)) next = add2(m, FB_OP_SUB, of, reduce(m, FB_OP_MEAN, of, (int)below(m, 2), true));
    if (next == of || below(m, 2)) next = activation(m, next);
    bool first = below(m, 2);
    if (first) assign(m, q, p);
    if (below(m, 3)) assign(m, p, next);
    if (!first) assign(m, q, p);
    add2(m, FB_OP_ADD, below(m, 2) ? next : x, activation(m, below(m, 3) ? p : x));
}

/* ---- loops ---- */

/* A body that carries one value and may scan another, read what lies outside and stack what it makes. */
static void add_loop(maker *m)
{
    fb_id init = tamed(m, any_float(m, 0), 10), over = any(m), carried[1], items[1], yields[1], stacked[1];
    if (init == FB_NONE) return;
    fb_error err;
    const fb_shape s = at(m, over)->shape;
    bool scans = s.rank && s.dim[0] > 0 && s.dim[0] < 9 && below(m, 4);
    int64_t trips = scans ? s.dim[0] : below(m, 5);
    fb_id region = fb_graph_region_open(m->g, trips, &init, 1, &over, scans, carried, items, 0, &err);
    if (region == FB_NONE) return;
    if (one_in(m, 4)) fb_graph_region_turn(m->g);
    know(m);
    int outside = m->values.n, kept = m->from;
    FB_VEC_PUSH(&m->values, carried[0]);
    if (scans) FB_VEC_PUSH(&m->values, items[0]);
    if (one_in(m, 2)) {
        fb_id step = add(m, FB_OP_STEP, NULL, 0, NULL);
        if (below(m, 2)) step = add(m, FB_OP_CAST, &(fb_attrs){.dtype = at(m, init)->dtype}, 1, &step);
        if (below(m, 2)) add2(m, FB_OP_ADD, carried[0], step);
    }
    if (one_in(m, 3)) m->from = outside;
    for (int64_t k = 2 + below(m, 4); k > 0; k--) add_single(m);
    yields[0] = carried[0];
    for (int i = 0; i < 12; i++) {
        fb_id y = any_like(m, carried[0], true);
        bool inside = false;
        for (int k = outside; k < m->values.n; k++) inside |= m->values.at[k] == y;
        if (inside && y != carried[0]) yields[0] = y;
    }
    if (yields[0] == carried[0]) yields[0] = scaled(m, carried[0], 0.5);
    if (yields[0] != FB_NONE && m->size.at[yields[0]] > 2 * m->size.at[init])
        yields[0] = add1(m, FB_OP_TANH, yields[0]);
    if (yields[0] == FB_NONE) yields[0] = carried[0]; /* the graph is as large as it gets */
    stacked[0] = m->values.at[m->values.n - 1];
    m->values.n = outside;
    m->from = kept;
    int n_stacked = (int)below(m, 2);
    fb_id loop = fb_graph_region_close(m->g, yields, stacked, n_stacked, &err);
    if (loop == FB_NONE) return;
    know(m);
    for (int i = 0; i < 1 + n_stacked; i++) add(m, FB_OP_RESULT, &(fb_attrs){.index = i}, 1, &loop);
}

/* What a step is made of: one of a few cells, the same in all steps. */
static fb_id cell(maker *m, int64_t how, fb_id h, fb_id part, fb_id w)
{
    fb_id y = add2(m, FB_OP_ADD, add2(m, FB_OP_MATMUL, h, w), part);
    if (how == 0) return add1(m, FB_OP_TANH, y);
    fb_id z = add1(m, FB_OP_SIGMOID, y);
    if (how == 1) return add1(m, FB_OP_TANH, add2(m, FB_OP_ADD, add2(m, FB_OP_MUL, z, h), part));
    return add1(m, FB_OP_SIN, add2(m, FB_OP_SUB, add2(m, FB_OP_MUL, z, part), reduce(m, FB_OP_MEAN, h, 1, true)));
}

/* What is chosen by the place in a row that is long enough for a host to find the first places alone: where that is all
 * that is made of a place, or where the others are chosen, too. */
static void add_first(maker *m)
{
    enum { LONG = 192, PART = 16 };
    static const fb_op compares[] = {FB_OP_LT, FB_OP_LE, FB_OP_GT, FB_OP_GE, FB_OP_EQ, FB_OP_NE};
    int64_t n = LONG + below(m, LONG), left = below(m, 2), yes = below(m, 2);
    fb_shape s = {.rank = 2, .dim = {1 + below(m, 3), n}};
    fb_id x = source(m, s, one_in(m, 3) ? FB_F64 : FB_F32), none = constant(m, FB_I64, -1);
    if (x == FB_NONE || none == FB_NONE) return;
    fb_id place = add(m, FB_OP_RANK, &(fb_attrs){.dim = 1, .start = below(m, 2)}, 1, &x);
    fb_id k = constant(m, FB_I64, (double)below(m, LONG / PART));
    if (place == FB_NONE || k == FB_NONE) return;
    fb_id is = add2(m, compares[below(m, 6)], left ? place : k, left ? k : place);
    if (is != FB_NONE) add(m, FB_OP_WHERE, NULL, 3, (fb_id[]){is, yes ? place : none, yes ? none : place});
}

/* ---- convolutions ---- */

enum { SPACE = 3, MOST_OF_WINDOWS = 60000, MOST_OF_PRODUCTS = 200000 };

/* [batch, channels, space …], the batch only where there is one. */
typedef struct {
    int space, first; /* first: the dim of channels */
    int64_t batch, groups, in, out;
    int64_t kernel[SPACE], dilation[SPACE];
    int order[SPACE]; /* of the result's dims of space */
} picture;

/* Of a larger one, or with its channels last, or computed. */
static fb_id picture_tensor(maker *m, const picture *p, const int64_t *size, fb_dtype dtype)
{
    fb_shape s = {.rank = p->first + 1 + p->space, .dim = {p->batch}};
    fb_attrs last = {.n_axes = s.rank};
    s.dim[p->first] = p->groups * p->in;
    for (int d = 0; d < p->space; d++) s.dim[p->first + 1 + d] = size[d];
    int64_t how = below(m, 5);
    if (how == 1) { /* a window of it */
        int d = (int)below(m, s.rank);
        int64_t n = s.dim[d];
        s.dim[d] += 3;
        return slice(m, source(m, s, dtype), d, 2, 2 + n);
    }
    if (how == 2) {
        for (int d = 0; d < s.rank; d++) last.axes[d] = d <= p->first - 1 ? d : d == p->first ? s.rank - 1 : d - 1;
        fb_shape own = s;
        for (int d = 0; d < s.rank; d++) own.dim[last.axes[d]] = s.dim[d];
        fb_id x = source(m, own, dtype);
        return add(m, FB_OP_PERMUTE, &last, 1, &x);
    }
    fb_id x = source(m, s, dtype);
    return how == 3 ? add1(m, FB_OP_NEG, x) : x;
}

static fb_id picture_windows(maker *m, const picture *p, fb_id x, const int64_t *stride)
{
    for (int d = 0; d < p->space; d++) {
        int64_t span = p->dilation[d] * (p->kernel[d] - 1) + 1;
        fb_attrs a = {.dim = p->first + 1 + d, .stop = span, .step = stride[d]};
        x = add(m, FB_OP_UNFOLD, &a, 1, &x);
        a = (fb_attrs){.dim = p->first + 1 + p->space + d, .stop = span, .step = p->dilation[d]};
        if (p->dilation[d] > 1) x = add(m, FB_OP_SLICE, &a, 1, &x);
    }
    for (int d = 0; d < p->space && x != FB_NONE; d++) { /* some of them alone */
        int64_t n = at(m, x)->shape.dim[p->first + 1 + d];
        if (n > 2 && one_in(m, 6)) x = slice(m, x, p->first + 1 + d, 1, n - below(m, 2));
    }
    return x;
}

/* The windows as columns: one product with the weights for each group. */
static fb_id picture_product(maker *m, const picture *p, fb_id x, fb_id w)
{
    const fb_shape s = at(m, x)->shape;
    int64_t depth = p->in, places = 1;
    fb_attrs turn = {.n_axes = s.rank}, columns = {.shape = {.rank = p->first, .dim = {p->batch}}};
    for (int d = 0; d < p->space; d++) {
        turn.axes[p->first + 1 + d] = p->first + 1 + p->space + d;
        turn.axes[p->first + 1 + p->space + d] = p->first + 1 + p->order[d];
        depth *= p->kernel[d];
        places *= s.dim[p->first + 1 + d];
    }
    turn.axes[p->first] = p->first;
    fb_attrs rows = {.shape = {.rank = 2, .dim = {p->out, depth}}};
    if (p->groups > 1) {
        columns.shape.dim[columns.shape.rank++] = p->groups;
        rows.shape = (fb_shape){.rank = 3, .dim = {p->groups, p->out, depth}};
    }
    columns.shape.dim[columns.shape.rank++] = depth;
    columns.shape.dim[columns.shape.rank++] = places;
    x = add(m, FB_OP_PERMUTE, &turn, 1, &x);
    x = add(m, FB_OP_VIEW, &columns, 1, &x);
    return add2(m, FB_OP_MATMUL, add(m, FB_OP_VIEW, &rows, 1, &w), x);
}

/* As scripts write them (scripts/lib/pictures.lua), with a little before and behind them. */
static void add_convolution(maker *m)
{
    picture p = {.space = 1 + (int)below(m, SPACE), .batch = below(m, 4), .groups = 1, .in = 1 + below(m, 4)};
    int64_t size[SPACE], stride[SPACE], most = m->most;
    fb_dtype dtype = one_in(m, 5) ? below(m, 2) ? FB_F16 : FB_BF16 : FB_F32;
    fb_attrs pad = {0}, flip = {0};
    bool any = false;
    p.out = 1 + below(m, 6);
    p.first = p.batch > 0;
    if (one_in(m, 3)) p.groups = 2 + below(m, 2);
    fb_shape weights = {.rank = 2 + p.space, .dim = {p.groups * p.out, p.in}};
    for (int d = 0; d < p.space; d++) {
        int dim = p.first + 1 + d;
        p.kernel[d] = weights.dim[2 + d] = 1 + below(m, p.space == SPACE ? 3 : 5);
        p.dilation[d] = one_in(m, 3) ? 2 : 1;
        p.order[d] = d;
        stride[d] = one_in(m, 3) ? 2 + below(m, 2) : 1;
        if (below(m, 2)) pad.before[dim] = below(m, 3), pad.after[dim] = below(m, 3);
        any |= pad.before[dim] || pad.after[dim];
        size[d] = p.dilation[d] * (p.kernel[d] - 1) + 1 + below(m, 18 / p.space);
        flip.axes[flip.n_axes++] = 2 + d;
    }
    if (p.space > 1 && one_in(m, 6)) p.order[0] = p.space - 1, p.order[p.space - 1] = 0;
    m->most = MOST_OF_WINDOWS;
    fb_id x = tamed(m, picture_tensor(m, &p, size, dtype), 10), w = source(m, weights, dtype);
    if (any) x = add(m, FB_OP_PAD, &pad, 1, &x);
    if (one_in(m, 6)) w = add(m, FB_OP_FLIP, &flip, 1, &w);
    x = picture_windows(m, &p, x, stride);
    fb_id y = x == FB_NONE || w == FB_NONE ? FB_NONE : picture_product(m, &p, x, w);
    m->most = most;
    if (y == FB_NONE) return;
    if (below(m, 2)) y = add2(m, FB_OP_ADD, y, source(m, (fb_shape){.rank = 2, .dim = {p.out, 1}}, dtype));
    if (below(m, 2)) y = activation(m, tamed(m, y, ceiling(m, y)));
    if (y != FB_NONE && one_in(m, 3)) add_permute(m, y);
}

/* ---- pictures from one convolution to the next ---- */

/* [N, C, H, W] as [N, out, H', W']: windows of k by k, padded to as many where step is 1. */
static fb_id picture_layer(maker *m, fb_id x, int64_t out, int64_t k, int64_t step)
{
    const fb_shape s = at(m, x)->shape;
    const fb_dtype dtype = at(m, x)->dtype;
    picture p = {.space = 2,
                 .first = 1,
                 .batch = s.dim[0],
                 .groups = 1,
                 .in = s.dim[1],
                 .out = out,
                 .kernel = {k, k},
                 .dilation = {1, 1},
                 .order = {0, 1}};
    const fb_attrs pad = {.before = {0, 0, k / 2, k / 2}, .after = {0, 0, k / 2, k / 2}};
    fb_id w = source(m, (fb_shape){.rank = 4, .dim = {out, s.dim[1], k, k}}, dtype);
    if (k > 1) x = add(m, FB_OP_PAD, &pad, 1, &x);
    for (int d = 2; d < 4; d++) x = add(m, FB_OP_UNFOLD, &(fb_attrs){.dim = d, .stop = k, .step = step}, 1, &x);
    if (x == FB_NONE || w == FB_NONE) return FB_NONE;
    const fb_shape seen = at(m, x)->shape;
    fb_id y = picture_product(m, &p, x, w);
    return add(m, FB_OP_VIEW, &(fb_attrs){.shape = {.rank = 4, .dim = {s.dim[0], out, seen.dim[2], seen.dim[3]}}}, 1,
               &y);
}

/* What networks of pictures have between two: a pool, another picture beside it, a norm over groups of channels. */
static fb_id between_pictures(maker *m, fb_id x, fb_id held)
{
    const fb_shape s = at(m, x)->shape;
    fb_id pair[] = {x, held}, y = x;
    switch (below(m, 6)) {
    case 0:
        for (int d = 2; d < 4; d++)
            y = s.dim[d] > 1 ? add(m, FB_OP_UNFOLD, &(fb_attrs){.dim = d, .stop = 2, .step = 1 + below(m, 2)}, 1, &y)
                             : FB_NONE;
        return add(m, below(m, 2) ? FB_OP_AMAX : FB_OP_MEAN, &(fb_attrs){.n_axes = 2, .axes = {4, 5}}, 1, &y);
    case 1: return held == FB_NONE ? x : add(m, FB_OP_CAT, &(fb_attrs){.dim = 1}, 2, pair);
    case 2: {
        fb_attrs grouped = {.shape = {.rank = 3, .dim = {s.dim[0], 4, s.dim[1] / 4 * s.dim[2] * s.dim[3]}}};
        if (s.dim[1] % 4) return x;
        y = add(m, FB_OP_VIEW, &grouped, 1, &x);
        y = add2(m, FB_OP_SUB, y, add(m, FB_OP_MEAN, &(fb_attrs){.n_axes = 1, .axes = {2}, .keepdim = true}, 1, &y));
        return add(m, FB_OP_VIEW, &(fb_attrs){.shape = s}, 1, &y);
    }
    default: return x;
    }
}

static bool is_alike(maker *m, fb_id x, fb_id y)
{
    return x != FB_NONE && y != FB_NONE && fb_shape_equal(&at(m, x)->shape, &at(m, y)->shape);
}

/* Mostly in 16 bits, and as many channels as make them lie channels last. */
static void add_pictures(maker *m)
{
    static const fb_dtype dtypes[] = {FB_F16, FB_F16, FB_BF16, FB_BF16, FB_F32};
    const fb_dtype dtype = dtypes[below(m, 5)];
    const fb_shape shape = {
        .rank = 4, .dim = {1 + below(m, 3), one_in(m, 3) ? 16 : 1 + below(m, 4), 3 + below(m, 7), 3 + below(m, 7)}};
    int64_t most = m->most;
    fb_id x = source(m, shape, dtype), held = FB_NONE, last = FB_NONE;
    m->most = MOST_OF_WINDOWS;
    for (int64_t layers = 2 + below(m, 3); layers > 0 && x != FB_NONE; layers--) {
        int64_t out = one_in(m, 6) ? 12 : 16 + 8 * below(m, 2), k = one_in(m, 3) ? 1 : 3;
        x = picture_layer(m, tamed(m, x, 4), out, k, one_in(m, 5) ? 2 : 1);
        if (x == FB_NONE) break;
        if (below(m, 2)) x = add2(m, FB_OP_ADD, x, source(m, (fb_shape){.rank = 3, .dim = {out, 1, 1}}, dtype));
        if (is_alike(m, x, held) && below(m, 2)) x = add2(m, FB_OP_ADD, x, held);
        if (x != FB_NONE && below(m, 3))
            x = below(m, 2) ? add1(m, FB_OP_RELU, x) : activation(m, tamed(m, x, ceiling(m, x)));
        if (x != FB_NONE) last = x;
        fb_id next = x == FB_NONE ? FB_NONE : between_pictures(m, x, is_alike(m, x, held) ? held : FB_NONE);
        held = x;
        x = next;
    }
    m->most = most;
    if (last != FB_NONE && below(m, 2)) add(m, FB_OP_MEAN, &(fb_attrs){.n_axes = 2, .axes = {2, 3}}, 1, &last);
}

/* ---- products that whole warpgroups multiply ---- */

/* A matrix, or a batch of them, of any lines that begin at whole eights; it may lie turned. */
static fb_id even_matrix(maker *m, int64_t batch, int64_t rows, int64_t columns, fb_dtype dtype)
{
    const bool lies_turned = one_in(m, 3);
    fb_shape s = {.rank = 2, .dim = {lies_turned ? columns : rows, lies_turned ? rows : columns}};
    if (batch) s = (fb_shape){.rank = 3, .dim = {batch, s.dim[0], s.dim[1]}};
    const fb_attrs order = last_two_swapped(s.rank);
    fb_id x = source(m, s, dtype);
    return lies_turned ? add(m, FB_OP_PERMUTE, &order, 1, &x) : x;
}

/* What is often made of such a product: a bias, another tensor, a function, its product with a second one's function. */
static void add_even_product(maker *m)
{
    const fb_dtype dtype = below(m, 2) ? FB_F16 : FB_BF16;
    const int64_t most = m->most, eight = 8, batch = one_in(m, 4) ? 2 : 0;
    const int64_t rows = one_in(m, 3) ? 128 + below(m, 90) : 128 + eight * below(m, 12);
    const int64_t k = 256 + eight * below(m, 9), columns = one_in(m, 4) ? 60 + below(m, 90) : 64 + eight * below(m, 17);
    m->most = MOST_OF_PRODUCTS;
    fb_id x = even_matrix(m, batch, rows, k, dtype), other = FB_NONE;
    fb_id y = add2(m, FB_OP_MATMUL, x, even_matrix(m, batch && below(m, 2) ? batch : 0, k, columns, dtype));
    if (one_in(m, 4)) other = add2(m, FB_OP_MATMUL, x, even_matrix(m, 0, k, columns, dtype));
    y = tamed(m, y, 10);
    if (y != FB_NONE && below(m, 2)) y = add2(m, FB_OP_ADD, y, row(m, columns, dtype));
    if (y != FB_NONE && one_in(m, 3)) y = add2(m, FB_OP_ADD, y, source(m, at(m, y)->shape, dtype));
    if (y != FB_NONE && below(m, 3)) y = activation(m, tamed(m, y, ceiling(m, y)));
    if (y != FB_NONE && other != FB_NONE) y = add2(m, FB_OP_MUL, y, tamed(m, other, 10));
    if (y != FB_NONE && one_in(m, 6)) y = add(m, FB_OP_CAST, &(fb_attrs){.dtype = FB_F32}, 1, &y);
    m->most = most;
}

/* Steps that are written out, each of what the one before gave: a plan may make a loop of them. One may be unlike, and
 * what leaves them is all, joined, or one, or their gradient. */
static void add_steps(maker *m)
{
    enum { MOST = 6 };
    int64_t steps = 3 + below(m, MOST - 2), rows = 1 + below(m, 4), n = 2 + below(m, 4), how = below(m, 3);
    int64_t unlike = one_in(m, 4) ? below(m, steps) : FB_NONE;
    int dim = (int)below(m, 2);
    bool scopes = below(m, 2), back = one_in(m, 4);
    fb_attrs a = {.shape = {.rank = 2, .dim = {rows, n}}, .dtype = FB_F32, .dist = FB_DIST_NORMAL, .high = 1};
    fb_id h = add(m, FB_OP_INPUT, &a, 0, NULL), w = weight(m, n, n, FB_F32), each[MOST], to;
    fb_error err;
    a.shape.dim[dim] *= steps;
    fb_id x = add(m, FB_OP_INPUT, &a, 0, NULL);
    for (int64_t i = 0; i < steps && x != FB_NONE; i++) {
        int64_t at_x = (back ? steps - 1 - i : i) * (dim ? n : rows);
        bool open = scopes && fb_graph_scope_open(m->g, "step", (int)i, NULL, NULL, 0, NULL, 0, &err) != FB_NONE;
        fb_id part = slice(m, x, dim, at_x, at_x + (dim ? n : rows));
        h = each[i] = cell(m, how, i == unlike ? scaled(m, h, 0.5) : h, part, w);
        if (open) fb_graph_scope_close(m->g, NULL, 0, &err);
        if (h == FB_NONE) return;
    }
    if (x == FB_NONE) return;
    fb_id all = below(m, 3) ? add(m, below(m, 2) ? FB_OP_STACK : FB_OP_CAT, &(fb_attrs){.dim = dim}, (int)steps, each)
                            : each[below(m, steps)];
    if (all == FB_NONE || w == FB_NONE || !one_in(m, 3)) return;
    fb_attrs axes = {0};
    for (int d = 0; d < at(m, all)->shape.rank; d++) axes.axes[axes.n_axes++] = d;
    fb_id loss = add(m, FB_OP_SUM, &axes, 1, &all);
    if (loss == FB_NONE || !fb_autodiff(m->g, loss, &w, 1, &to, 0, &err)) return;
    know(m);
    FB_VEC_PUSH(&m->values, to);
}

/* ---- another way to write the same ---- */

static fb_id put(maker *m, fb_op op, const fb_attrs *attrs, int n, const fb_id *args)
{
    fb_error err;
    for (int i = 0; i < n; i++)
        if (args[i] == FB_NONE) return FB_NONE;
    fb_id id = fb_graph_add(m->g, op, args, n, attrs, NULL, 0, &err);
    know(m);
    return id;
}

static fb_id part_of(maker *m, fb_id x, int dim, int64_t start, int64_t stop)
{
    return put(m, FB_OP_SLICE, &(fb_attrs){.dim = dim, .start = start, .stop = stop, .step = 1}, 1, &x);
}

static fb_id turned(maker *m, fb_id x)
{
    const fb_attrs a = last_two_swapped(at(m, x)->shape.rank);
    return put(m, FB_OP_PERMUTE, &a, 1, &x);
}

/* A dimension of at least two, and where to part it; FB_NONE: there is none. */
static int parting(maker *m, const fb_shape *s, int64_t *where)
{
    for (int i = 0; s->rank && i < 6; i++) {
        int d = (int)fb_random_below(&m->other, s->rank);
        if (s->dim[d] < 2) continue;
        *where = 1 + fb_random_below(&m->other, s->dim[d] - 1);
        return d;
    }
    return FB_NONE;
}

/* Its values in two parts, one behind the other again. Operands that have the dimension are parted with it. */
static fb_id in_parts(maker *m, const fb_node *n)
{
    fb_id parts[2], args[3];
    int64_t where;
    int dim = parting(m, &n->shape, &where);
    if (dim == FB_NONE || n->n_args > 3 || is_constant(m, n)) return FB_NONE;
    for (int p = 0; p < 2; p++) {
        for (int i = 0; i < n->n_args; i++) {
            const fb_shape *s = &at(m, n->args[i])->shape;
            int d = dim - (n->shape.rank - s->rank);
            bool whole = d < 0 || s->dim[d] == 1;
            args[i] = whole ? n->args[i] : part_of(m, n->args[i], d, p ? where : 0, p ? s->dim[d] : where);
        }
        parts[p] = put(m, n->op, n->attrs, n->n_args, args);
    }
    return put(m, FB_OP_CAT, &(fb_attrs){.dim = dim}, 2, parts);
}

/* By columns, by rows, by steps, or the other way round. */
static fb_id product_otherwise(maker *m, const fb_node *n)
{
    fb_id a = n->args[0], b = n->args[1], parts[2];
    int ra = at(m, a)->shape.rank, rb = at(m, b)->shape.rank, r = n->shape.rank;
    int64_t k = at(m, a)->shape.dim[ra - 1], rows = n->shape.dim[r - 2], columns = n->shape.dim[r - 1];
    bool wide = (n->dtype == FB_F32 && n->attrs->precision == FB_PRECISION_IEEE) || n->dtype == FB_F64;
    switch (fb_random_below(&m->other, 4)) {
    case 0: {
        fb_id both[2] = {turned(m, b), turned(m, a)}, y = put(m, FB_OP_MATMUL, n->attrs, 2, both);
        return y == FB_NONE ? FB_NONE : turned(m, y);
    }
    case 1:
        if (columns < 2) return FB_NONE;
        for (int p = 0; p < 2; p++) {
            fb_id of = part_of(m, b, rb - 1, p ? columns / 2 : 0, p ? columns : columns / 2);
            parts[p] = put(m, FB_OP_MATMUL, n->attrs, 2, (fb_id[]){a, of});
        }
        return put(m, FB_OP_CAT, &(fb_attrs){.dim = r - 1}, 2, parts);
    case 2:
        if (rows < 2) return FB_NONE;
        for (int p = 0; p < 2; p++) {
            fb_id of = part_of(m, a, ra - 2, p ? rows / 2 : 0, p ? rows : rows / 2);
            parts[p] = put(m, FB_OP_MATMUL, n->attrs, 2, (fb_id[]){of, b});
        }
        return put(m, FB_OP_CAT, &(fb_attrs){.dim = r - 2}, 2, parts);
    default:
        if (k < 2 || !wide) return FB_NONE; /* 16-bit sums would be rounded twice */
        for (int p = 0; p < 2; p++) {
            fb_id left = part_of(m, a, ra - 1, p ? k / 2 : 0, p ? k : k / 2);
            fb_id right = part_of(m, b, rb - 2, p ? k / 2 : 0, p ? k : k / 2);
            parts[p] = put(m, FB_OP_MATMUL, n->attrs, 2, (fb_id[]){left, right});
        }
        return put(m, FB_OP_ADD, NULL, 2, parts);
    }
}

/* The sum of two sums, the larger of two largest. */
static fb_id reduced_in_parts(maker *m, const fb_node *n)
{
    const fb_shape s = at(m, n->args[0])->shape;
    int64_t where;
    int dim = parting(m, &s, &where);
    bool along = false;
    for (int i = 0; i < n->attrs->n_axes; i++) along |= n->attrs->axes[i] == dim;
    if (dim == FB_NONE || !along || (n->op == FB_OP_SUM && fb_dtype_is_half(n->dtype))) return FB_NONE;
    fb_id parts[2];
    for (int p = 0; p < 2; p++) {
        fb_id of = part_of(m, n->args[0], dim, p ? where : 0, p ? s.dim[dim] : where);
        parts[p] = put(m, n->op, n->attrs, 1, &of);
    }
    return put(m, n->op == FB_OP_SUM ? FB_OP_ADD : n->op == FB_OP_AMAX ? FB_OP_MAXIMUM : FB_OP_MINIMUM, NULL, 2, parts);
}

/* Views by way of others. */
static fb_id view_otherwise(maker *m, const fb_node *n)
{
    fb_attrs a = *n->attrs, b = a;
    fb_id x = n->args[0];
    int rank = n->shape.rank;
    switch (n->op) {
    case FB_OP_VIEW:
        a = (fb_attrs){.shape = {.rank = 1, .dim = {fb_shape_elements(&n->shape)}}};
        b = (fb_attrs){.shape = n->shape};
        break;
    case FB_OP_PERMUTE:
        for (int d = 0; d < rank; d++) a.axes[d] = rank - 1 - d, b.axes[d] = rank - 1 - n->attrs->axes[d];
        break;
    case FB_OP_SLICE:
        a.step = 1;
        b.start = 0;
        b.stop = a.stop - a.start;
        break;
    case FB_OP_FLIP:
        if (a.n_axes < 2) return FB_NONE;
        b.n_axes = a.n_axes - 1;
        a.axes[0] = a.axes[a.n_axes - 1];
        a.n_axes = 1;
        break;
    case FB_OP_UNFOLD: /* some of all windows */
        a.step = 1;
        x = put(m, n->op, &a, 1, &x);
        b = (fb_attrs){.dim = a.dim, .stop = at(m, x)->shape.dim[a.dim], .step = b.step};
        return put(m, FB_OP_SLICE, &b, 1, &x);
    default: return FB_NONE;
    }
    x = put(m, n->op, &a, 1, &x);
    return put(m, n->op, &b, 1, &x);
}

/* Joins in twos; a stack as the join of parts with a dimension of their own. */
static fb_id join_otherwise(maker *m, const fb_node *n)
{
    fb_id y = FB_NONE;
    for (int i = 0; i < n->n_args; i++) {
        fb_id part = n->args[i];
        fb_attrs own = {.shape = n->shape};
        own.shape.dim[n->attrs->dim] = 1;
        if (n->op == FB_OP_STACK) part = put(m, FB_OP_VIEW, &own, 1, &part);
        y = i ? put(m, FB_OP_CAT, &(fb_attrs){.dim = n->attrs->dim}, 2, (fb_id[]){y, part}) : part;
    }
    return y;
}

/* The node in other words, or as it is. It stays where it is, dead, so that shapes, magnitudes and all choices that
 * hang on them are the same. */
static fb_id another_way(maker *m, fb_id id)
{
    const fb_node n = *at(m, id); /* adding moves nodes */
    fb_id args[8], y = FB_NONE;
    fb_op_class cls = fb_op_get(n.op)->cls;
    int before = m->g->n_nodes;
    if (cls == FB_CLASS_SOURCE || n.n_args > 8 || fb_random_below(&m->other, 3)) return id;
    fb_node copy = n;
    for (int i = 0; i < n.n_args; i++) args[i] = n.args[i];
    copy.args = args;
    if (n.op == FB_OP_SUB && fb_random_below(&m->other, 2)) {
        fb_id less = put(m, FB_OP_NEG, NULL, 1, &args[1]);
        y = put(m, FB_OP_ADD, NULL, 2, (fb_id[]){args[0], less});
    } else if (cls == FB_CLASS_POINTWISE) {
        y = in_parts(m, &copy);
    } else if (n.op == FB_OP_MATMUL) {
        y = product_otherwise(m, &copy);
    } else if (n.op == FB_OP_SUM || n.op == FB_OP_AMAX || n.op == FB_OP_AMIN) {
        y = reduced_in_parts(m, &copy);
    } else if (cls == FB_CLASS_VIEW) {
        y = view_otherwise(m, &copy);
    } else if (cls == FB_CLASS_JOIN) {
        y = join_otherwise(m, &copy);
    }
    m->extra += m->g->n_nodes - before;
    if (y <= id || !fb_shape_equal(&at(m, y)->shape, &n.shape) || at(m, y)->dtype != n.dtype) return id;
    m->size.at[y] = m->size.at[id];
    return y;
}

/* ---- all of it ---- */

static void add_single(maker *m)
{
    int64_t what = below(m, 40);
    if (what < 15)
        add_pointwise(m);
    else if (what < 20)
        add_reduction(m);
    else if (what < 28)
        add_view(m);
    else if (what < 31)
        add_join(m);
    else if (what < 34)
        add_contraction(m);
    else if (what < 37)
        add_norm(m);
    else
        add_other(m);
}

/* More than a kernel may hold: tensors that it reads, parts that it joins, ops one upon the other, nodes. */
static void add_vast(maker *m)
{
    enum { TENSORS = 402, PARTS = 257, DEEP = 1002, NODES = 4097 };
    static const fb_op ops[] = {FB_OP_SIN, FB_OP_NEG, FB_OP_ABS};
    const fb_shape small = {.rank = 1, .dim = {2}};
    fb_id parts[PARTS + 8], x = source(m, small, FB_F32);
    int64_t how = below(m, 16), extra = below(m, 8);
    m->most_nodes += NODES + 8;
    if (how < 6) {
        for (int64_t i = 0; i < TENSORS + extra; i++) x = add2(m, FB_OP_ADD, x, source(m, small, FB_F32));
    } else if (how < 11) {
        for (int64_t i = 0; i < PARTS + extra; i++) parts[i] = add1(m, ops[below(m, 3)], source(m, small, FB_F32));
        add(m, FB_OP_CAT, NULL, PARTS + (int)extra, parts);
    } else {
        for (int64_t i = 0; i < (how < 15 ? DEEP : NODES) + extra; i++) x = add1(m, ops[i % 3], x);
    }
}

static void add_some(maker *m)
{
    int64_t what = below(m, 44);
    if (what < 2)
        add_repeated(m);
    else if (what >= 40)
        add_dressed(m);
    else if (what < 5)
        add_layer(m);
    else if (what < 6)
        add_gradient(m);
    else if (what < 9)
        add_loop(m);
    else if (what < 10)
        add_updates(m);
    else
        add_single(m);
}

/* A value, preferably one that nothing reads, so that little of the graph is dead. */
static fb_id any_output(maker *m, const bool *used)
{
    for (int i = 0; i < 20; i++) {
        fb_id x = m->values.at[below(m, m->values.n)];
        if (!used[x] && fb_op_get(at(m, x)->op)->cls != FB_CLASS_SOURCE) return x;
    }
    return m->values.at[below(m, m->values.n)];
}

/* Some of the first rows: what lies at the beginning of a value, and is less than all of it. */
static fb_id beginning_of(maker *m, fb_id x)
{
    const fb_shape *s = &at(m, x)->shape;
    if (!s->rank || s->dim[0] < 2) return x;
    fb_attrs cut = {.stop = 1 + below(m, s->dim[0] - 1), .step = 1};
    fb_id y = add(m, FB_OP_SLICE, &cut, 1, &x);
    return y == FB_NONE ? x : y;
}

static void add_outputs(maker *m)
{
    fb_error err;
    bool *used = fb_calloc((size_t)m->g->n_nodes + 16, sizeof *used);
    for (fb_id i = 0; i < m->g->n_nodes; i++)
        for (int k = 0; k < at(m, i)->n_args; k++) used[at(m, i)->args[k]] = true;
    for (int64_t i = 0, n = 1 + below(m, 6); i < n; i++) {
        fb_id out = i == 0         ? m->values.at[m->values.n - 1]
                    : one_in(m, 4) ? m->values.at[below(m, m->values.n)]
                                   : any_output(m, used);
        if (one_in(m, 8)) out = beginning_of(m, out);
        if (one_in(m, 12))
            add1(m, FB_OP_RECEIVE, out);
        else
            fb_graph_output(m->g, out, NULL, &err);
    }
    fb_free(used);
    for (fb_id i = 0, n = m->g->n_nodes, updated = 0; i < n && updated < 3; i++) {
        if (at(m, i)->op != FB_OP_PARAM || below(m, 2)) continue;
        for (int t = 0; t < 10; t++) {
            if (!assign(m, i, any_like(m, i, true))) continue;
            updated++;
            break;
        }
    }
}

bool fb_fuzz_is_paired(uint64_t seed)
{
    return seed % 4 == 1;
}

fb_graph *fb_fuzz_graph_raw(uint64_t seed, bool twin, fb_error *err)
{
    maker m = {.r = {fb_splitmix64(seed)},
               .g = fb_graph_new("fuzz"),
               .most = MOST_ELEMENTS,
               .most_nodes = MOST_NODES,
               .paired = fb_fuzz_is_paired(seed),
               .twin = twin,
               .other = {fb_splitmix64(~seed)}};
    m.large = one_in(&m, 24);
    if (m.large) m.most = MOST_LARGE;
    for (int i = 0; i < 3; i++) source(&m, any_shape(&m), i ? any_dtype(&m) : FB_F32);
    if (!m.values.n) source(&m, (fb_shape){.rank = 1, .dim = {4}}, FB_F32);
    if (m.large && below(&m, 4)) add_long(&m);
    bool vast = !m.large && one_in(&m, VAST);
    for (int64_t i = m.large ? 8 : vast ? 3 : 8 + below(&m, 20); i > 0; i--) add_some(&m);
    if (vast) add_vast(&m);
    if (!m.large && seed % 8 == 6) add_steps(&m); /* neither of one that is paired */
    if (seed % 8 == 2) add_first(&m);
    bool pictures = seed % 32 == 8 || seed % 32 == 12;
    if (!m.large && pictures) add_pictures(&m);
    if (!m.large && !pictures && seed % 8 == 4) add_convolution(&m);
    if (!m.large && seed % 32 == 16) add_even_product(&m);
    add_outputs(&m);
    FB_VEC_FREE(&m.values);
    FB_VEC_FREE(&m.size);
    FB_VEC_FREE(&m.constant);
    if (fb_graph_finish(m.g, err)) return m.g;
    fb_graph_free(m.g);
    return NULL;
}

static fb_graph *canonical_of(uint64_t seed, bool twin, fb_error *err)
{
    fb_graph *raw = fb_fuzz_graph_raw(seed, twin, err), *c = raw ? fb_graph_canonical(raw, err) : NULL;
    if (raw) fb_graph_free(raw);
    return c;
}

fb_graph *fb_fuzz_graph(uint64_t seed, fb_error *err)
{
    return canonical_of(seed, false, err);
}

fb_graph *fb_fuzz_graph_of(uint64_t seed, int number, fb_error *err)
{
    return canonical_of(seed, fb_fuzz_is_paired(seed) && number % 2, err);
}
