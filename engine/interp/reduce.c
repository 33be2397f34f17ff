/* Reductions, running sums and products. The reduced axes are brought to the end first (by a copy, where they are not
 * there already), so that every reduction is one over rows of a matrix. */
#include "interp/parts.h"

#include "graph/intmath.h"

#include <string.h>

enum { DIVISION_UNITS = 4 }; /* of mean's last step, as for div */

/* ---- one row of doubles: ops.def's init, step and finish ---- */

#define REDUCTION(ID, NAME, ACCEPTS, RESULT, FLOPS, INIT, STEP, FINISH, ...)                                           \
    static double row_##ID(const double *row, int64_t n)                                                               \
    {                                                                                                                  \
        if (n == 1) return row[0]; /* as kernels hand it on, with the sign of its zero */                              \
        double acc = INIT;                                                                                             \
        for (int64_t k = 0; k < n; k++) {                                                                              \
            const double x = row[k];                                                                                   \
            acc = STEP;                                                                                                \
        }                                                                                                              \
        return FINISH;                                                                                                 \
    }
#include "graph/ops.def"
#undef REDUCTION

static double (*const row_kernels[FB_OPS])(const double *row, int64_t n) = {
#define REDUCTION(ID, ...) [FB_OP_##ID] = row_##ID,
#include "graph/ops.def"
#undef REDUCTION
};

/* The first of the extreme elements; a NaN is beyond everything. `sign` is 1 for argmax, -1 for argmin. */
static int64_t arg_row(const double *row, int64_t n, double sign)
{
    int64_t best = 0;
    for (int64_t k = 1; k < n && !isnan(row[best]); k++) {
        if (sign * row[k] > sign * row[best] || isnan(row[k])) best = k;
    }
    return best;
}

static int64_t arg_row_max(const double *row, int64_t n)
{
    return arg_row(row, n, 1);
}

static int64_t arg_row_min(const double *row, int64_t n)
{
    return arg_row(row, n, -1);
}

/* ---- bounds of a row; e is NULL where the operand is exact ---- */

static double bound_sum_in(fb_dtype accumulator, const double *x, const double *e, int64_t n, fb_dtype dtype, double v)
{
    fb_bound_terms t = fb_bound_terms_new(accumulator, dtype, n);
    for (int64_t k = 0; k < n; k++) fb_bound_term(&t, x[k], e ? e[k] : 0);
    return fb_bound_sum(&t, v);
}

static double bound_sum(const double *x, const double *e, int64_t n, fb_dtype dtype, double v)
{
    return bound_sum_in(dtype, x, e, n, dtype, v);
}

/* The division at the end. A sum beyond f16 is no reason: devices keep it in f32. */
static double bound_mean(const double *x, const double *e, int64_t n, fb_dtype dtype, double v)
{
    fb_dtype accumulator = dtype == FB_F64 ? FB_F64 : FB_F32;
    double spread = n ? bound_sum_in(accumulator, x, e, n, dtype, v * (double)n) / (double)n : 0;
    if (!isfinite(v) || (v == 0 && spread == 0)) return spread;
    return spread + DIVISION_UNITS * fb_bound_unit(dtype) * (fabs(v) + spread) + fb_bound_tiny(dtype);
}

/* Between the extreme of the intervals' lower ends and that of their upper ends. */
static double bound_extreme(const double *x, const double *e, int64_t n, double sign, double v)
{
    if (!e) return 0;
    double low = -INFINITY, high = -INFINITY;
    for (int64_t k = 0; k < n; k++) {
        low = fmax(low, sign * x[k] - e[k]);
        high = fmax(high, sign * x[k] + e[k]);
        if (isinf(e[k])) high = INFINITY;
    }
    if (!isfinite(v)) return fb_bound_special(isnan(v) ? isfinite(high) : low == high);
    return fmax(high - sign * v, sign * v - low);
}

static double bound_amax(const double *x, const double *e, int64_t n, fb_dtype dtype, double v)
{
    (void)dtype;
    return bound_extreme(x, e, n, 1, v);
}

static double bound_amin(const double *x, const double *e, int64_t n, fb_dtype dtype, double v)
{
    (void)dtype;
    return bound_extreme(x, e, n, -1, v);
}

/* Π(|x| + e)(1 + u) − Π|x|, kept as product and excess so that nothing cancels. In some order all factors beyond 1 come
 * together: their product must not overflow, and it magnifies what underflows in the others. */
typedef struct {
    fb_dtype accumulator, dtype;
    int64_t n;
    double product, excess, largest;
    bool uncertain;
} product_bound;

static product_bound product_bound_new(fb_dtype dtype)
{
    return (product_bound){
        .accumulator = dtype == FB_F64 ? FB_F64 : FB_F32, .dtype = dtype, .product = 1, .largest = 1};
}

static void product_bound_factor(product_bound *b, double x, double e)
{
    double magnitude = fabs(x);
    b->excess = b->excess * (magnitude + e) + b->product * e;
    b->product *= magnitude;
    if (b->n++) b->excess += fb_bound_unit(b->accumulator) * (b->product + b->excess);
    b->largest *= fmax(1, magnitude + e);
    b->uncertain |= e != 0;
}

/* Of the product v of the factors so far. */
static double product_bound_of(const product_bound *b, double v)
{
    if (!isfinite(v)) return fb_bound_special(!b->uncertain);
    if (fb_bound_overflows(b->accumulator, b->largest, 0)) return INFINITY;
    double excess = b->excess;
    if (b->n < 2) return excess; /* one factor is itself */
    excess += (double)b->n * fb_bound_tiny(b->accumulator) * b->largest;
    if (b->dtype != b->accumulator)
        excess += fb_bound_unit(b->dtype) * (fabs(v) + excess) + (v != 0 ? fb_bound_tiny(b->dtype) : 0);
    return excess;
}

static double bound_prod(const double *x, const double *e, int64_t n, fb_dtype dtype, double v)
{
    product_bound b = product_bound_new(dtype);
    for (int64_t k = 0; k < n; k++) product_bound_factor(&b, x[k], e ? e[k] : 0);
    return product_bound_of(&b, v);
}

/* Decided while no other element's interval reaches the winner's. Equal exact elements are decided: the first. */
static double bound_arg(const double *x, const double *e, int64_t n, double sign, int64_t best)
{
    for (int64_t k = 0; e && k < n; k++) {
        bool reaches = !(sign * x[k] + e[k] < sign * x[best] - e[best]);
        if (k == best ? isinf(e[k]) : reaches && e[k] + e[best] > 0) return INFINITY;
    }
    return 0;
}

/* ---- one row of integers ---- */

static int64_t irow_sum(const int64_t *row, int64_t n)
{
    int64_t acc = 0;
    for (int64_t k = 0; k < n; k++) acc = fb_wrap_add(acc, row[k]);
    return acc;
}

static int64_t irow_prod(const int64_t *row, int64_t n)
{
    int64_t acc = 1;
    for (int64_t k = 0; k < n; k++) acc = fb_wrap_mul(acc, row[k]);
    return acc;
}

static int64_t irow_argmax(const int64_t *row, int64_t n)
{
    int64_t best = 0;
    for (int64_t k = 1; k < n; k++) best = row[k] > row[best] ? k : best;
    return best;
}

static int64_t irow_argmin(const int64_t *row, int64_t n)
{
    int64_t best = 0;
    for (int64_t k = 1; k < n; k++) best = row[k] < row[best] ? k : best;
    return best;
}

static int64_t irow_amax(const int64_t *row, int64_t n)
{
    return row[irow_argmax(row, n)];
}

static int64_t irow_amin(const int64_t *row, int64_t n)
{
    return row[irow_argmin(row, n)];
}

static const struct {
    double (*bound)(const double *x, const double *e, int64_t n, fb_dtype dtype, double v);
    int64_t (*irow)(const int64_t *row, int64_t n);
    int64_t (*arg)(const double *row, int64_t n); /* of doubles; the others have a row kernel */
    double sign;
} reductions[FB_OPS] = {
    [FB_OP_SUM] = {.bound = bound_sum, .irow = irow_sum},
    [FB_OP_MEAN] = {.bound = bound_mean},
    [FB_OP_AMAX] = {.bound = bound_amax, .irow = irow_amax},
    [FB_OP_AMIN] = {.bound = bound_amin, .irow = irow_amin},
    [FB_OP_PROD] = {.bound = bound_prod, .irow = irow_prod},
    [FB_OP_ARGMAX] = {.irow = irow_argmax, .arg = arg_row_max, .sign = 1},
    [FB_OP_ARGMIN] = {.irow = irow_argmin, .arg = arg_row_min, .sign = -1},
};

/* ---- one node ---- */

/* The operand as rows × n. `data` and `bound` are held by the caller. */
typedef struct {
    int64_t rows, n;
    fb_value x;
} row_view;

static bool already_last(const fb_attrs *at, int rank)
{
    for (int a = 0; a < at->n_axes; a++) {
        if (at->axes[a] != rank - at->n_axes + a) return false;
    }
    return true;
}

/* The shape with the kept dimensions first and the reduced ones last, and the steps that read it from the operand. */
static void axes_last(const fb_attrs *at, const fb_shape *from, fb_shape *shape, int64_t *steps)
{
    int64_t natural[FB_MAX_RANK];
    bool reduced[FB_MAX_RANK] = {0};
    fb_shape_strides(from, natural);
    for (int a = 0; a < at->n_axes; a++) reduced[at->axes[a]] = true;
    shape->rank = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int d = 0; d < from->rank; d++) {
            if (reduced[d] != (pass == 1)) continue;
            steps[shape->rank] = natural[d];
            shape->dim[shape->rank++] = from->dim[d];
        }
    }
}

static bool open_rows(fb_interp *in, fb_id id, row_view *r)
{
    const fb_node *node = &in->g->nodes[id];
    const fb_value *x = fb_operand(in, node, 0);
    const fb_shape *from = &fb_operand_node(in, node, 0)->shape;
    int64_t elements = fb_shape_elements(from);
    *r = (row_view){.n = 1};
    for (int a = 0; a < node->attrs->n_axes; a++) r->n *= from->dim[node->attrs->axes[a]];
    r->rows = fb_shape_elements(&node->shape);
    if (already_last(node->attrs, from->rank) || elements == 0) {
        r->x = fb_interp_keep_value(x);
        return true;
    }
    fb_shape shape;
    int64_t steps[FB_MAX_RANK];
    axes_last(node->attrs, from, &shape, steps);
    r->x.data = fb_buffer_new(in, id, elements);
    if (r->x.data) fb_interp_copy_strided(r->x.data->at->raw, x->data->at->raw, &shape, steps);
    if (r->x.data && x->bound) {
        r->x.bound = fb_buffer_new(in, id, elements);
        if (r->x.bound) fb_interp_copy_strided(r->x.bound->at->raw, x->bound->at->raw, &shape, steps);
    }
    return r->x.data && (r->x.bound || !x->bound);
}

static void reduce_values(const fb_node *node, bool from_float, const row_view *r, fb_buffer *to)
{
    for (int64_t k = 0; k < r->rows; k++) {
        const fb_buffer *x = r->x.data;
        if (!from_float)
            to->at->i[k] = fb_int_wrap(node->dtype, reductions[node->op].irow(x->at->i + k * r->n, r->n));
        else if (reductions[node->op].arg)
            to->at->i[k] = reductions[node->op].arg(x->at->f + k * r->n, r->n);
        else
            to->at->f[k] = row_kernels[node->op](x->at->f + k * r->n, r->n);
    }
}

static double any_undecided(const double *e, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        if (e[k] != 0) return INFINITY;
    }
    return 0;
}

static void reduce_bounds(const fb_node *node, bool from_float, const row_view *r, const fb_buffer *v, double *bound)
{
    fb_op op = node->op;
    for (int64_t k = 0; k < r->rows; k++) {
        const double *x = r->x.data->at->f + k * r->n, *e = r->x.bound ? r->x.bound->at->f + k * r->n : NULL;
        if (!from_float) {
            bound[k] = any_undecided(e, r->n);
        } else if (reductions[op].arg) {
            bound[k] = bound_arg(x, e, r->n, reductions[op].sign, v->at->i[k]);
        } else {
            bound[k] = reductions[op].bound(x, e, r->n, node->dtype, v->at->f[k]);
            if (isfinite(v->at->f[k]) && fb_bound_overflows(node->dtype, v->at->f[k], bound[k])) bound[k] = INFINITY;
        }
    }
}

bool fb_eval_reduction(fb_interp *in, fb_id id)
{
    const fb_node *node = &in->g->nodes[id];
    bool from_float = fb_dtype_is_float(fb_operand_node(in, node, 0)->dtype);
    row_view r;
    fb_value value = {0};
    bool ok = open_rows(in, id, &r);
    if (ok) ok = (value.data = fb_buffer_new(in, id, r.rows)) != NULL;
    if (ok) reduce_values(node, from_float, &r, value.data);
    bool rounds = node->op == FB_OP_SUM || node->op == FB_OP_MEAN || node->op == FB_OP_PROD;
    if (ok && in->o->bounds && (r.x.bound || (from_float && rounds))) {
        ok = (value.bound = fb_buffer_new(in, id, r.rows)) != NULL;
        if (ok) reduce_bounds(node, from_float, &r, value.data, value.bound->at->f);
    }
    fb_interp_drop_value(in, &r.x);
    if (ok)
        in->values[id] = value;
    else
        fb_interp_drop_value(in, &value);
    return ok;
}

/* ---- running sums and products ---- */

/* One line of n elements, `step` cells apart. */
static void sum_line(const double *x, const double *e, int64_t n, int64_t step, fb_dtype dtype, double *to,
                     double *bound)
{
    double sum = n == 1 ? -0.0 : 0; /* one is itself, its sign too */
    fb_bound_terms t = fb_bound_terms_new(dtype, dtype, n);
    for (int64_t k = 0; k < n; k++) {
        sum += x[k * step];
        to[k * step] = sum;
        if (!bound) continue;
        fb_bound_term(&t, x[k * step], e ? e[k * step] : 0);
        bound[k * step] = fb_bound_sum(&t, sum);
    }
}

static void multiply_line(const double *x, const double *e, int64_t n, int64_t step, fb_dtype dtype, double *to,
                          double *bound)
{
    double product = 1;
    product_bound b = product_bound_new(dtype);
    for (int64_t k = 0; k < n; k++) {
        product *= x[k * step];
        to[k * step] = product;
        if (!bound) continue;
        product_bound_factor(&b, x[k * step], e ? e[k * step] : 0);
        double off = product_bound_of(&b, product);
        bound[k * step] = isfinite(product) && fb_bound_overflows(dtype, product, off) ? INFINITY : off;
    }
}

static void scan_line_int(const fb_node *node, const int64_t *x, const double *e, int64_t n, int64_t step, int64_t *to,
                          double *bound)
{
    bool adds = fb_op_running(node->op) == FB_OP_SUM;
    int64_t so_far = adds ? 0 : 1;
    double undecided = 0;
    for (int64_t k = 0; k < n; k++) {
        int64_t next = x[k * step];
        so_far = fb_int_wrap(node->dtype, adds ? fb_wrap_add(so_far, next) : fb_wrap_mul(so_far, next));
        to[k * step] = so_far;
        if (!bound) continue;
        undecided = fmax(undecided, e[k * step]);
        bound[k * step] = undecided;
    }
}

bool fb_eval_scan(fb_interp *in, fb_id id)
{
    const fb_node *node = &in->g->nodes[id];
    if (node->op == FB_OP_RANK) return fb_eval_rank(in, id);
    const fb_value *x = fb_operand(in, node, 0);
    bool is_float = fb_dtype_is_float(node->dtype);
    int64_t elements = fb_shape_elements(&node->shape), n = node->shape.dim[node->attrs->dim], inner = 1;
    for (int d = node->attrs->dim + 1; d < node->shape.rank; d++) inner *= node->shape.dim[d];
    bool wants_bound = in->o->bounds && (x->bound || is_float);

    fb_value value = {.data = fb_buffer_new(in, id, elements)};
    if (value.data && wants_bound) value.bound = fb_buffer_new(in, id, elements);
    if (!value.data || (wants_bound && !value.bound)) {
        fb_interp_drop_value(in, &value);
        return false;
    }
    for (int64_t line = 0; n && line < elements / n; line++) {
        int64_t at = line / inner * n * inner + line % inner;
        const double *e = x->bound ? x->bound->at->f + at : NULL;
        double *bound = value.bound ? value.bound->at->f + at : NULL;
        if (!is_float)
            scan_line_int(node, x->data->at->i + at, e, n, inner, value.data->at->i + at, bound);
        else if (fb_op_running(node->op) == FB_OP_SUM)
            sum_line(x->data->at->f + at, e, n, inner, node->dtype, value.data->at->f + at, bound);
        else
            multiply_line(x->data->at->f + at, e, n, inner, node->dtype, value.data->at->f + at, bound);
    }
    in->values[id] = value;
    return true;
}
