/* Shape and dtype inference, and the checking of attributes: one function an op (pointwise ops and reductions share
 * theirs), found in a table.
 *
 * requires  operands that are in the graph and a number of them that the op takes
 * provides  the node's dtype and shape, and its attributes normalised as graph.h says
 * A refusal is "op: what is wrong (x: f32[4,1000], …)": every sentence ends with the operands it speaks of. */
#include "graph/build.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const fb_graph *g;
    fb_node *n;
    fb_attrs *at;
    fb_error *err;
} context;

static const fb_node *arg(const context *c, int i)
{
    return &c->g->nodes[c->n->args[i]];
}

static const char *arg_name(fb_op op, int i, char to[16])
{
    static const char *const names[FB_OPS][3] = {
        [FB_OP_WHERE] = {"condition", "a", "b"},
        [FB_OP_EMBEDDING] = {"table", "index"},
        [FB_OP_SCATTER_ADD] = {"src", "index"},
        [FB_OP_ASSIGN] = {"param", "value"},
        [FB_OP_RESULT] = {"loop"},
    };
    if (i < 3 && names[op][i]) return names[op][i];
    const fb_op_info *info = fb_op_get(op);
    if (info->max_args == 1) return "x";
    snprintf(to, 16, info->max_args == 2 ? "%c" : "x%d", info->max_args == 2 ? 'a' + i : i);
    return to;
}

static bool refuse(const context *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(const context *c, const char *format, ...)
{
    enum { SHOWN = 4 };
    char text[256], operands[320] = "", shape[192], name[16];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    for (int i = 0, at = 0; i < c->n->n_args && i < SHOWN && at < (int)sizeof operands - 1; i++) {
        const fb_node *x = arg(c, i);
        at += snprintf(operands + at, sizeof operands - (size_t)at, "%s%s: %s%s", i ? ", " : "",
                       arg_name(c->n->op, i, name), fb_shape_format(&x->shape, x->dtype, shape),
                       i == SHOWN - 1 && c->n->n_args > SHOWN ? ", …" : "");
    }
    const char *op = fb_op_get(c->n->op)->name;
    if (!c->n->n_args) return fb_fail(c->err, FB_ERR_INPUT, "%s: %s", op, text);
    return fb_fail(c->err, FB_ERR_INPUT, "%s: %s (%s)", op, text, operands);
}

/* ---- what several ops share ---- */

static bool set(const context *c, fb_dtype dtype, const fb_shape *shape)
{
    c->n->dtype = dtype;
    c->n->shape = *shape;
    return true;
}

static bool check_shape(const context *c, const fb_shape *s)
{
    if (s->rank < 0 || s->rank > FB_MAX_RANK)
        return refuse(c, "%d dimensions are more than the %d there may be", s->rank, FB_MAX_RANK);
    int64_t n = 1;
    for (int d = 0; d < s->rank; d++) {
        if (s->dim[d] < 0) return refuse(c, "dimension %d has the negative size %lld", d, (long long)s->dim[d]);
        /* Zeros are passed over, so that strides stay in range too. */
        if (s->dim[d] && n > FB_MAX_ELEMENTS / s->dim[d])
            return refuse(c, "the result has more than the %lld elements there may be", (long long)FB_MAX_ELEMENTS);
        if (s->dim[d]) n *= s->dim[d];
    }
    return true;
}

static bool accepts(const context *c, fb_op_accepts what, const fb_node *x)
{
    static const struct {
        bool floats, integers, logic;
        const char *words;
    } table[] = {
        [FB_ACCEPTS_ANY] = {true, true, true, "anything"},
        [FB_ACCEPTS_FLOAT] = {true, false, false, "floats"},
        [FB_ACCEPTS_INT] = {false, true, false, "integers"},
        [FB_ACCEPTS_NUMBER] = {true, true, false, "numbers"},
        [FB_ACCEPTS_LOGIC] = {false, false, true, "bool"},
        [FB_ACCEPTS_BITS] = {false, true, true, "integers or bool"},
    };
    bool ok = fb_dtype_is_float(x->dtype) ? table[what].floats
              : x->dtype == FB_BOOL       ? table[what].logic
                                          : table[what].integers;
    return ok || refuse(c, "takes %s, not %s; cast it first", table[what].words, fb_dtype_name(x->dtype));
}

static bool same_dtype(const context *c, int from)
{
    for (int i = from + 1; i < c->n->n_args; i++)
        if (arg(c, i)->dtype != arg(c, from)->dtype)
            return refuse(c, "%s and %s do not mix; cast one", fb_dtype_name(arg(c, from)->dtype),
                          fb_dtype_name(arg(c, i)->dtype));
    return true;
}

/* A dim in -rank … rank-1, made non-negative. */
static bool norm_dim(const context *c, int *dim, int rank)
{
    if (*dim < -rank || *dim >= rank) {
        if (!rank) return refuse(c, "there is no dimension %d in a scalar", *dim);
        return refuse(c, "dimension %d is not between %d and %d", *dim, -rank, rank - 1);
    }
    if (*dim < 0) *dim += rank;
    return true;
}

/* Axes made non-negative; each at most once. */
static bool norm_axes(const context *c, int rank)
{
    fb_attrs *at = c->at;
    if (at->n_axes < 0 || at->n_axes > rank) return refuse(c, "%d axes for %d dimensions", at->n_axes, rank);
    unsigned seen = 0;
    for (int i = 0; i < at->n_axes; i++) {
        if (!norm_dim(c, &at->axes[i], rank)) return false;
        if (seen >> at->axes[i] & 1) return refuse(c, "axis %d is given twice", at->axes[i]);
        seen |= 1u << at->axes[i];
    }
    return true;
}

static void sort_axes(fb_attrs *at)
{
    for (int i = 1; i < at->n_axes; i++)
        for (int j = i; j > 0 && at->axes[j - 1] > at->axes[j]; j--) {
            int swap = at->axes[j];
            at->axes[j] = at->axes[j - 1];
            at->axes[j - 1] = swap;
        }
}

/* Broadcasts *with into *to, the last dims aligned. */
static bool broadcast(fb_shape *to, const fb_shape *with)
{
    fb_shape out = to->rank >= with->rank ? *to : *with;
    for (int d = 0; d < out.rank; d++) {
        int i = d - (out.rank - to->rank), j = d - (out.rank - with->rank);
        int64_t a = i < 0 ? 1 : to->dim[i], b = j < 0 ? 1 : with->dim[j];
        if (a != b && a != 1 && b != 1) return false;
        out.dim[d] = a == 1 ? b : a;
    }
    *to = out;
    return true;
}

/* ---- sources ---- */

static bool check_dtype(const context *c)
{
    return (unsigned)c->at->dtype < FB_DTYPES || refuse(c, "unknown dtype %d", (int)c->at->dtype);
}

static bool infer_declared(const context *c)
{
    return check_dtype(c) && set(c, c->at->dtype, &c->at->shape);
}

/* Printable, without what JSON would have to escape. */
static bool is_file_key(const char *key)
{
    if (!key || !*key || strlen(key) > 200) return false;
    for (; *key; key++)
        if (*key <= ' ' || *key > '~' || *key == '"' || *key == '\\') return false;
    return true;
}

static bool infer_data(const context *c)
{
    fb_attrs *at = c->at;
    switch (at->dist) {
    case FB_DIST_UNIFORM:
    case FB_DIST_INTEGER:
        if (!isfinite(at->value) || !isfinite(at->high) || at->value > at->high)
            return refuse(c, "%g to %g is no range to draw from", at->value, at->high);
        if (at->dist == FB_DIST_INTEGER && (fabs(at->value) > 0x1p53 || fabs(at->high) > 0x1p53))
            return refuse(c, "integers are drawn from -2^53 to 2^53, not %g to %g", at->value, at->high);
        break;
    case FB_DIST_NORMAL:
        if (!isfinite(at->value) || !isfinite(at->high) || at->high < 0)
            return refuse(c, "mean %g and deviation %g make no normal distribution", at->value, at->high);
        break;
    case FB_DIST_CONSTANT: at->high = 0; break;
    case FB_DIST_FILE:
        if (c->n->op == FB_OP_RANDOM) return refuse(c, "random values do not come from a file");
        if (!is_file_key(at->file)) return refuse(c, "values from a file need the file's key");
        at->value = at->high = 0;
        break;
    default: return refuse(c, "unknown distribution %d", (int)at->dist);
    }
    if (at->dist != FB_DIST_FILE) at->file = NULL;
    return infer_declared(c);
}

static bool infer_const(const context *c)
{
    if (!check_dtype(c)) return false;
    c->at->value = fb_dtype_round(c->at->dtype, c->at->value);
    return infer_declared(c);
}

static bool infer_iota(const context *c)
{
    if (c->at->shape.rank < 0 || c->at->shape.rank > FB_MAX_RANK) return check_shape(c, &c->at->shape);
    if (!check_dtype(c) || !norm_dim(c, &c->at->dim, c->at->shape.rank)) return false;
    return c->at->dtype != FB_BOOL ? infer_declared(c) : refuse(c, "counts in numbers, not bool");
}

static bool infer_step(const context *c)
{
    if (c->n->region == 0) return refuse(c, "a loop's counter only exists in a loop");
    return set(c, FB_I64, &(fb_shape){0});
}

static bool infer_member(const context *c)
{
    const fb_region *r = &c->g->regions[c->n->region];
    int n = c->n->op == FB_OP_CARRIED ? r->n_carried : r->n_items;
    if (c->n->region == 0) return refuse(c, "only exists in a loop");
    if (c->at->index < 0 || c->at->index >= n)
        return refuse(c, "there is no number %d, the loop has %d", c->at->index, n);
    return infer_declared(c);
}

/* ---- pointwise and reductions ---- */

static bool infer_pointwise(const context *c)
{
    const fb_op_info *info = fb_op_get(c->n->op);
    int first = c->n->op == FB_OP_WHERE;
    if (first && arg(c, 0)->dtype != FB_BOOL)
        return refuse(c, "the condition is %s, not bool", fb_dtype_name(arg(c, 0)->dtype));
    if (!accepts(c, info->accepts, arg(c, first)) || !same_dtype(c, first)) return false;
    if (info->result == FB_RESULT_CAST && !check_dtype(c)) return false;
    fb_shape shape = arg(c, 0)->shape;
    for (int i = 1; i < c->n->n_args; i++)
        if (!broadcast(&shape, &arg(c, i)->shape)) return refuse(c, "the shapes do not broadcast");
    fb_dtype dtype = info->result == FB_RESULT_BOOL   ? FB_BOOL
                     : info->result == FB_RESULT_CAST ? c->at->dtype
                                                      : arg(c, first)->dtype;
    return set(c, dtype, &shape);
}

static bool infer_reduction(const context *c)
{
    const fb_op_info *info = fb_op_get(c->n->op);
    const fb_node *x = arg(c, 0);
    fb_attrs *at = c->at;
    if (!accepts(c, info->accepts, x) || !norm_axes(c, x->shape.rank)) return false;
    if (!at->n_axes)
        for (int d = 0; d < x->shape.rank; d++) at->axes[at->n_axes++] = d;
    sort_axes(at);
    if (info->result == FB_RESULT_I64 && at->n_axes > 1) return refuse(c, "takes one axis, not %d", at->n_axes);
    fb_shape shape = {0};
    unsigned reduced = 0;
    for (int i = 0; i < at->n_axes; i++) reduced |= 1u << at->axes[i];
    for (int d = 0; d < x->shape.rank; d++) {
        bool gone = reduced >> d & 1;
        bool has_identity = c->n->op == FB_OP_SUM || c->n->op == FB_OP_PROD || c->n->op == FB_OP_MEAN;
        if (gone && !x->shape.dim[d] && !has_identity)
            return refuse(c, "dimension %d is empty, there is nothing to take", d);
        if (!gone || at->keepdim) shape.dim[shape.rank++] = gone ? 1 : x->shape.dim[d];
    }
    return set(c, info->result == FB_RESULT_I64 ? FB_I64 : x->dtype, &shape);
}

static bool infer_running(const context *c)
{
    const fb_node *x = arg(c, 0);
    return accepts(c, FB_ACCEPTS_NUMBER, x) && norm_dim(c, &c->at->dim, x->shape.rank) && set(c, x->dtype, &x->shape);
}

static bool infer_rank(const context *c)
{
    const fb_node *x = arg(c, 0);
    if (!accepts(c, FB_ACCEPTS_NUMBER, x) || !norm_dim(c, &c->at->dim, x->shape.rank)) return false;
    if (c->at->start < 0 || c->at->start > 1)
        return refuse(c, "starts at the smallest (0) or the largest (1), not at %lld", (long long)c->at->start);
    return set(c, FB_I64, &x->shape);
}

/* ---- views ---- */

/* A view's dim of -1 takes what the others leave. */
static bool infer_view(const context *c)
{
    const fb_node *x = arg(c, 0);
    fb_shape *shape = &c->at->shape;
    char wanted[192];
    if (shape->rank < 0 || shape->rank > FB_MAX_RANK) return check_shape(c, shape);
    int open = FB_NONE;
    fb_shape rest = *shape;
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dim[d] != -1) continue;
        if (open != FB_NONE) return refuse(c, "only one dimension can be -1");
        open = d;
        rest.dim[d] = 1;
    }
    if (!check_shape(c, &rest)) return false;
    int64_t have = fb_shape_elements(&x->shape), n = fb_shape_elements(&rest);
    if (open != FB_NONE && !n) return refuse(c, "-1 can be anything beside a dimension of size 0");
    if (open != FB_NONE && have % n == 0) shape->dim[open] = have / n;
    if (open != FB_NONE ? have % n != 0 : have != n)
        return refuse(c, "%lld elements do not fit shape %s", (long long)have,
                      fb_shape_format(shape, FB_DTYPES, wanted));
    return set(c, x->dtype, shape);
}

static bool infer_permute(const context *c)
{
    const fb_node *x = arg(c, 0);
    if (!norm_axes(c, x->shape.rank)) return false;
    if (c->at->n_axes != x->shape.rank) return refuse(c, "%d axes for %d dimensions", c->at->n_axes, x->shape.rank);
    fb_shape shape = x->shape;
    for (int d = 0; d < shape.rank; d++) shape.dim[d] = x->shape.dim[c->at->axes[d]];
    return set(c, x->dtype, &shape);
}

static bool infer_slice(const context *c)
{
    const fb_node *x = arg(c, 0);
    fb_attrs *at = c->at;
    if (!norm_dim(c, &at->dim, x->shape.rank)) return false;
    int64_t size = x->shape.dim[at->dim];
    if (at->step < 1) return refuse(c, "step %lld is not positive", (long long)at->step);
    if (at->start < 0 || at->start > at->stop || at->stop > size)
        return refuse(c, "%lld to %lld is not within dimension %d of size %lld", (long long)at->start,
                      (long long)at->stop, at->dim, (long long)size);
    int64_t n = at->stop > at->start ? (at->stop - at->start - 1) / at->step + 1 : 0;
    if (n <= 1) at->step = 1;
    at->stop = n ? at->start + (n - 1) * at->step + 1 : at->start;
    fb_shape shape = x->shape;
    shape.dim[at->dim] = n;
    return set(c, x->dtype, &shape);
}

static bool infer_expand(const context *c)
{
    const fb_node *x = arg(c, 0);
    fb_shape *shape = &c->at->shape;
    char wanted[192];
    if (shape->rank < 0 || shape->rank > FB_MAX_RANK) return check_shape(c, shape);
    bool fits = shape->rank >= x->shape.rank;
    for (int d = shape->rank - 1, i = x->shape.rank - 1; fits && i >= 0; d--, i--) {
        if (shape->dim[d] == -1) shape->dim[d] = x->shape.dim[i];
        fits = x->shape.dim[i] == 1 || x->shape.dim[i] == shape->dim[d];
    }
    if (!fits) return refuse(c, "does not expand to %s", fb_shape_format(shape, FB_DTYPES, wanted));
    return set(c, x->dtype, shape);
}

static bool infer_pad(const context *c)
{
    const fb_node *x = arg(c, 0);
    fb_attrs *at = c->at;
    fb_shape shape = x->shape;
    for (int d = 0; d < FB_MAX_RANK; d++) {
        if (d >= shape.rank) {
            if (at->before[d] || at->after[d]) return refuse(c, "there is no dimension %d to pad", d);
            continue;
        }
        if (at->before[d] < 0 || at->after[d] < 0 || at->before[d] > FB_MAX_ELEMENTS || at->after[d] > FB_MAX_ELEMENTS)
            return refuse(c, "cannot pad dimension %d by %lld and %lld", d, (long long)at->before[d],
                          (long long)at->after[d]);
        shape.dim[d] += at->before[d] + at->after[d];
    }
    at->value = fb_dtype_round(x->dtype, at->value);
    return set(c, x->dtype, &shape);
}

static bool infer_flip(const context *c)
{
    const fb_node *x = arg(c, 0);
    if (!norm_axes(c, x->shape.rank)) return false;
    sort_axes(c->at);
    return set(c, x->dtype, &x->shape);
}

static bool infer_unfold(const context *c)
{
    const fb_node *x = arg(c, 0);
    fb_attrs *at = c->at;
    fb_shape shape = x->shape;
    if (!norm_dim(c, &at->dim, shape.rank)) return false;
    if (shape.rank == FB_MAX_RANK) return refuse(c, "its windows would be one dimension more than %d", FB_MAX_RANK);
    int64_t size = shape.dim[at->dim];
    if (at->step < 1) return refuse(c, "step %lld is not positive", (long long)at->step);
    if (at->stop < 1 || at->stop > size)
        return refuse(c, "a window of %lld does not fit into dimension %d of size %lld", (long long)at->stop, at->dim,
                      (long long)size);
    shape.dim[at->dim] = (size - at->stop) / at->step + 1;
    shape.dim[shape.rank++] = at->stop;
    return set(c, x->dtype, &shape);
}

/* ---- joins, contraction, gathers ---- */

static bool infer_cat(const context *c)
{
    fb_shape shape = arg(c, 0)->shape;
    if (!same_dtype(c, 0) || !norm_dim(c, &c->at->dim, shape.rank)) return false;
    for (int i = 1; i < c->n->n_args; i++) {
        const fb_shape *s = &arg(c, i)->shape;
        bool fits = s->rank == shape.rank;
        for (int d = 0; fits && d < shape.rank; d++) fits = d == c->at->dim || s->dim[d] == shape.dim[d];
        if (!fits) return refuse(c, "tensor %d differs from the first in more than dimension %d", i, c->at->dim);
        if (s->dim[c->at->dim] > FB_MAX_ELEMENTS - shape.dim[c->at->dim])
            return refuse(c, "the result has more than the %lld elements there may be", (long long)FB_MAX_ELEMENTS);
        shape.dim[c->at->dim] += s->dim[c->at->dim];
    }
    return set(c, arg(c, 0)->dtype, &shape);
}

static bool infer_stack(const context *c)
{
    const fb_shape *x = &arg(c, 0)->shape;
    if (x->rank == FB_MAX_RANK)
        return refuse(c, "the result has more than the %d dimensions there may be", FB_MAX_RANK);
    if (!same_dtype(c, 0) || !norm_dim(c, &c->at->dim, x->rank + 1)) return false;
    for (int i = 1; i < c->n->n_args; i++)
        if (!fb_shape_equal(&arg(c, i)->shape, x)) return refuse(c, "tensor %d has another shape than the first", i);
    fb_shape shape = {.rank = x->rank + 1};
    for (int d = 0; d < shape.rank; d++) shape.dim[d] = d == c->at->dim ? c->n->n_args : x->dim[d - (d > c->at->dim)];
    return set(c, arg(c, 0)->dtype, &shape);
}

static bool infer_matmul(const context *c)
{
    const fb_node *a = arg(c, 0), *b = arg(c, 1);
    if (!accepts(c, FB_ACCEPTS_FLOAT, a) || !accepts(c, FB_ACCEPTS_FLOAT, b) || !same_dtype(c, 0)) return false;
    if (a->shape.rank < 2 || b->shape.rank < 2) return refuse(c, "takes matrices, at least two dimensions each");
    int64_t k = a->shape.dim[a->shape.rank - 1], rows = b->shape.dim[b->shape.rank - 2];
    if (k != rows) return refuse(c, "inner sizes %lld and %lld differ", (long long)k, (long long)rows);
    if ((unsigned)c->at->precision > FB_PRECISION_TF32) return refuse(c, "unknown precision %d", (int)c->at->precision);
    fb_shape batch = fb_shape_of(a->shape.rank - 2, a->shape.dim), other = fb_shape_of(b->shape.rank - 2, b->shape.dim);
    if (!broadcast(&batch, &other)) return refuse(c, "the batch dimensions do not broadcast");
    batch.dim[batch.rank++] = a->shape.dim[a->shape.rank - 2];
    batch.dim[batch.rank++] = b->shape.dim[b->shape.rank - 1];
    return set(c, a->dtype, &batch);
}

static bool infer_embedding(const context *c)
{
    const fb_node *table = arg(c, 0), *index = arg(c, 1);
    if (!accepts(c, FB_ACCEPTS_INT, index)) return false;
    if (table->shape.rank < 1) return refuse(c, "the table needs a dimension of rows");
    if (table->shape.rank + index->shape.rank - 1 > FB_MAX_RANK)
        return refuse(c, "the result has more than the %d dimensions there may be", FB_MAX_RANK);
    fb_shape shape = index->shape;
    for (int d = 1; d < table->shape.rank; d++) shape.dim[shape.rank++] = table->shape.dim[d];
    return set(c, table->dtype, &shape);
}

static bool infer_scatter_add(const context *c)
{
    const fb_node *src = arg(c, 0), *index = arg(c, 1);
    if (!accepts(c, FB_ACCEPTS_NUMBER, src) || !accepts(c, FB_ACCEPTS_INT, index)) return false;
    bool fits = src->shape.rank >= index->shape.rank && src->shape.rank - index->shape.rank < FB_MAX_RANK;
    for (int d = 0; fits && d < index->shape.rank; d++) fits = src->shape.dim[d] == index->shape.dim[d];
    if (!fits) return refuse(c, "src does not begin with the dimensions of index");
    if (c->at->start < 0) return refuse(c, "%lld rows", (long long)c->at->start);
    fb_shape shape = {.rank = 1, .dim = {c->at->start}};
    for (int d = index->shape.rank; d < src->shape.rank; d++) shape.dim[shape.rank++] = src->shape.dim[d];
    return set(c, src->dtype, &shape);
}

/* ---- effects and control ---- */

static bool infer_assign(const context *c)
{
    const fb_node *param = arg(c, 0), *value = arg(c, 1);
    if (param->op != FB_OP_PARAM) return refuse(c, "%s is no parameter", param->name);
    if (!same_dtype(c, 0)) return false;
    if (!fb_shape_equal(&param->shape, &value->shape))
        return refuse(c, "the value has another shape than parameter %s", param->name);
    return set(c, param->dtype, &param->shape);
}

static bool infer_same(const context *c)
{
    return set(c, arg(c, 0)->dtype, &arg(c, 0)->shape);
}

static bool infer_loop(const context *c)
{
    fb_id id = c->at->region;
    if (id <= 0 || id >= c->g->n_regions) return refuse(c, "there is no region %d", id);
    const fb_region *r = &c->g->regions[id];
    if (r->parent != c->n->region) return refuse(c, "region %d does not lie in the loop's own region", id);
    if (c->at->trips < 0) return refuse(c, "%lld trips", (long long)c->at->trips);
    if (c->at->trips != r->trips)
        return refuse(c, "%lld trips, its region has %lld", (long long)c->at->trips, (long long)r->trips);
    if (c->n->n_args != r->n_carried + r->n_items)
        return refuse(c, "%d operands for %d carried values and %d scanned tensors", c->n->n_args, r->n_carried,
                      r->n_items);
    return set(c, FB_I64, &(fb_shape){0});
}

static bool infer_result(const context *c)
{
    const fb_node *loop = arg(c, 0);
    if (loop->op != FB_OP_LOOP) return refuse(c, "%s is no loop", loop->name);
    const fb_region *r = &c->g->regions[loop->attrs->region];
    int i = c->at->index, n = r->n_carried + r->n_stacked;
    if (i < 0 || i >= n) return refuse(c, "there is no result %d, the loop has %d", i, n);
    fb_id from = i < r->n_carried ? loop->args[i] : r->stacked[i - r->n_carried];
    if (from < 0 || from >= c->g->n_nodes) return refuse(c, "result %d has no value", i);
    const fb_node *x = &c->g->nodes[from];
    if (i < r->n_carried) return set(c, x->dtype, &x->shape);
    if (x->shape.rank == FB_MAX_RANK) return refuse(c, "a stacked value has at most %d dimensions", FB_MAX_RANK - 1);
    fb_shape shape = {.rank = 1, .dim = {r->trips / fb_region_every(r, i - r->n_carried)}};
    for (int d = 0; d < x->shape.rank; d++) shape.dim[shape.rank++] = x->shape.dim[d];
    return set(c, x->dtype, &shape);
}

static bool (*const by_op[FB_OPS])(const context *c) = {
    [FB_OP_INPUT] = infer_data,
    [FB_OP_PARAM] = infer_data,
    [FB_OP_FEED] = infer_data,
    [FB_OP_RANDOM] = infer_data,
    [FB_OP_CONST] = infer_const,
    [FB_OP_IOTA] = infer_iota,
    [FB_OP_CARRIED] = infer_member,
    [FB_OP_ITEM] = infer_member,
    [FB_OP_STEP] = infer_step,
    [FB_OP_VIEW] = infer_view,
    [FB_OP_PERMUTE] = infer_permute,
    [FB_OP_SLICE] = infer_slice,
    [FB_OP_EXPAND] = infer_expand,
    [FB_OP_PAD] = infer_pad,
    [FB_OP_FLIP] = infer_flip,
    [FB_OP_UNFOLD] = infer_unfold,
    [FB_OP_CAT] = infer_cat,
    [FB_OP_STACK] = infer_stack,
    [FB_OP_CUMSUM] = infer_running,
    [FB_OP_CUMPROD] = infer_running,
    [FB_OP_RANK] = infer_rank,
    [FB_OP_MATMUL] = infer_matmul,
    [FB_OP_EMBEDDING] = infer_embedding,
    [FB_OP_SCATTER_ADD] = infer_scatter_add,
    [FB_OP_ASSIGN] = infer_assign,
    [FB_OP_RECEIVE] = infer_same,
    [FB_OP_LOOP] = infer_loop,
    [FB_OP_RESULT] = infer_result,
};

/* Fields that the op does not read become zero, as do the ends of arrays. */
static void keep_read_fields(const fb_node *n, fb_attrs *at)
{
    unsigned reads = fb_op_attrs(n->op);
    fb_attrs kept;
    memset(&kept, 0, sizeof kept);
    if (reads & FB_AT_AXES) {
        kept.n_axes = at->n_axes;
        for (int i = 0; i < at->n_axes && i < FB_MAX_RANK; i++) kept.axes[i] = at->axes[i];
    }
    if (reads & FB_AT_KEEPDIM) kept.keepdim = at->keepdim;
    if (reads & FB_AT_DIM) kept.dim = at->dim;
    if (reads & FB_AT_START) kept.start = at->start;
    if (reads & FB_AT_STOP) {
        kept.stop = at->stop;
        kept.step = at->step;
    }
    if (reads & FB_AT_SHAPE) {
        kept.shape.rank = at->shape.rank;
        for (int d = 0; d < at->shape.rank && d < FB_MAX_RANK; d++) kept.shape.dim[d] = at->shape.dim[d];
    }
    for (int d = 0; d < FB_MAX_RANK && (reads & FB_AT_PADDING); d++) {
        kept.before[d] = at->before[d];
        kept.after[d] = at->after[d];
    }
    /* one NaN, so that equal graphs have equal hashes */
    if (reads & FB_AT_VALUE) kept.value = isnan(at->value) ? NAN : at->value;
    if (reads & FB_AT_HIGH) kept.high = isnan(at->high) ? NAN : at->high;
    if (reads & FB_AT_DTYPE) kept.dtype = at->dtype;
    if (reads & FB_AT_DIST) kept.dist = at->dist;
    if (reads & FB_AT_PRECISION) kept.precision = at->precision;
    if (reads & FB_AT_INDEX) kept.index = at->index;
    if (reads & FB_AT_REGION) kept.region = at->region;
    if (reads & FB_AT_TRIPS) kept.trips = at->trips;
    if (reads & FB_AT_SEED) kept.seed = at->seed;
    if (reads & FB_AT_FILE) kept.file = at->file;
    memcpy(at, &kept, sizeof kept);
}

bool fb_infer(const fb_graph *g, fb_node *n, fb_attrs *at, fb_error *err)
{
    const fb_op_info *info = fb_op_get(n->op);
    context c = {g, n, at, err};
    keep_read_fields(n, at);
    if (n->n_args < info->min_args || (info->max_args >= 0 && n->n_args > info->max_args))
        return refuse(&c, "takes %s%d operand%s, not %d", info->max_args < 0 ? "at least " : "", info->min_args,
                      info->min_args == 1 ? "" : "s", n->n_args);
    bool (*infer)(const context *) = by_op[n->op];
    if (!infer) infer = info->cls == FB_CLASS_POINTWISE ? infer_pointwise : infer_reduction;
    if (!infer(&c) || !check_shape(&c, &n->shape)) return false;
    n->shape = fb_shape_of(n->shape.rank, n->shape.dim);
    return true;
}
