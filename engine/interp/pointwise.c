/* Pointwise ops: ops.def's columns f64 and i64 become one loop each; operands are brought to the result's shape block
 * by block, so that broadcasting costs no memory and a block's values and bounds stay in the first-level cache. */
#include "interp/parts.h"

#include "base/mem.h"
#include "graph/intmath.h"

#include <string.h>

typedef void f64_kernel(const fb_attrs *at, int n, const double *xa, const double *xb, const double *xc, double *to);
typedef void i64_kernel(const fb_attrs *at, int n, const int64_t *xa, const int64_t *xb, const int64_t *xc,
                        int64_t *to);

/* Inference never lets an op meet a dtype that it has no form for. */
#define FB_NO (fb_bug(__FILE__, __LINE__, "op has no form for this dtype"), 0)

#define FB_F64_VALUE(F64, I64) F64
#define FB_I64_VALUE(F64, I64) I64
#define POINTWISE(ID, NAME, OPERANDS, ACCEPTS, RESULT, PARAMS, VALUE, ...)                                             \
    static void f64_##ID(const fb_attrs *at, int n, const double *xa, const double *xb, const double *xc, double *to)  \
    {                                                                                                                  \
        (void)at;                                                                                                      \
        for (int k = 0; k < n; k++) {                                                                                  \
            const double a = xa[k], b = xb[k], c = xc[k];                                                              \
            (void)a, (void)b, (void)c;                                                                                 \
            to[k] = FB_F64_##VALUE;                                                                                    \
        }                                                                                                              \
    }                                                                                                                  \
    static void i64_##ID(const fb_attrs *at, int n, const int64_t *xa, const int64_t *xb, const int64_t *xc,           \
                         int64_t *to)                                                                                  \
    {                                                                                                                  \
        (void)at;                                                                                                      \
        for (int k = 0; k < n; k++) {                                                                                  \
            const int64_t a = xa[k], b = xb[k], c = xc[k];                                                             \
            (void)a, (void)b, (void)c;                                                                                 \
            to[k] = FB_I64_##VALUE;                                                                                    \
        }                                                                                                              \
    }
#include "graph/ops.def"
#undef POINTWISE

static const struct {
    f64_kernel *f64;
    i64_kernel *i64;
} kernels[FB_OPS] = {
#define POINTWISE(ID, ...) [FB_OP_##ID] = {f64_##ID, i64_##ID},
#include "graph/ops.def"
#undef POINTWISE
};

void fb_pointwise_f64(fb_op op, const fb_attrs *at, int n, const double *a, const double *b, const double *c,
                      double *to)
{
    kernels[op].f64(at, n, a, b, c, to);
}

void fb_pointwise_i64(fb_op op, const fb_attrs *at, int n, const int64_t *a, const int64_t *b, const int64_t *c,
                      int64_t *to)
{
    kernels[op].i64(at, n, a, b, c, to);
}

/* ---- operands ---- */

/* One operand on its way through the result's elements: `step` is its distance, in cells, between neighbours along each
 * of the result's dimensions, 0 where it is broadcast. */
typedef struct {
    const fb_buffer *data, *bound;
    bool is_float;
    bool whole; /* the result's own shape: blocks are taken where they lie */
    int rank;
    int64_t dim[FB_MAX_RANK], step[FB_MAX_RANK], index[FB_MAX_RANK];
    int64_t at;
} operand;

static operand operand_open(const fb_value *value, const fb_node *from, const fb_shape *to)
{
    operand o = {.data = value->data, .bound = value->bound, .is_float = fb_dtype_is_float(from->dtype)};
    o.whole = fb_shape_equal(&from->shape, to);
    int64_t steps[FB_MAX_RANK];
    fb_shape_expanded_strides(&from->shape, to->rank, steps);
    /* Neighbouring dimensions that one step serves become one; the innermost is index 0. */
    for (int d = to->rank - 1; d >= 0; d--) {
        if (to->dim[d] == 1) continue;
        if (o.rank && steps[d] == o.step[o.rank - 1] * o.dim[o.rank - 1]) {
            o.dim[o.rank - 1] *= to->dim[d];
            continue;
        }
        o.dim[o.rank] = to->dim[d];
        o.step[o.rank++] = steps[d];
    }
    return o;
}

/* Advances to the next run of elements and returns its length, at most `most`. */
static int64_t operand_run(operand *o, int64_t most, int64_t *from)
{
    *from = o->at;
    if (!o->rank) return most;
    int64_t run = o->dim[0] - o->index[0] < most ? o->dim[0] - o->index[0] : most;
    o->index[0] += run;
    o->at += run * o->step[0];
    for (int d = 0; d + 1 < o->rank && o->index[d] == o->dim[d]; d++) {
        o->index[d] = 0;
        o->at += o->step[d + 1] - o->dim[d] * o->step[d];
        o->index[d + 1]++;
    }
    return run;
}

static void gather_run(uint64_t *to, const uint64_t *from, int64_t step, int64_t n)
{
    if (step == 1) {
        memcpy(to, from, (size_t)n * sizeof *to);
    } else {
        for (int64_t k = 0; k < n; k++) to[k] = from[k * step];
    }
}

/* The next n elements and bounds in scratch memory, or where they lie. */
static void operand_block(operand *o, int n, uint64_t *data, uint64_t *bound, const uint64_t **x, const uint64_t **e)
{
    *x = data;
    *e = bound;
    if (o->whole) {
        *x = o->data->at->raw + o->at;
        if (o->bound) *e = o->bound->at->raw + o->at;
        o->at += n;
        return;
    }
    int64_t step = o->rank ? o->step[0] : 0, from;
    for (int done = 0; done < n;) {
        int64_t run = operand_run(o, n - done, &from);
        gather_run(data + done, o->data->at->raw + from, step, run);
        if (o->bound) gather_run(bound + done, o->bound->at->raw + from, step, run);
        done += (int)run;
    }
}

/* ---- one node ---- */

typedef struct {
    fb_interp *in;
    const fb_node *node;
    operand args[3];
    bool f64; /* evaluated in doubles; else in int64_t */
    bool result_float;
    fb_value value;
    int64_t cells;
} job;

/* Blocks of up to three operands; absent ones stay zero. Cells are 64 bits of either kind. */
typedef struct {
    uint64_t data[3][FB_BLOCK], bound[3][FB_BLOCK];
    double converted[3][FB_BLOCK], result[FB_BLOCK], spread[FB_BLOCK];
    const uint64_t *x[3];
    const double *e[3];
} blocks;

int64_t fb_interp_int_of_double(fb_dtype dtype, double value)
{
    if (dtype == FB_BOOL) return value != 0;
    if (fabs(value) < 0x1p63) return fb_int_wrap(dtype, (int64_t)value);
    return (int64_t)fb_dtype_round(dtype, value);
}

/* An infinity whose sign is that of a zero: bounds do not follow the signs of zeros. */
static bool from_a_zero(fb_op op, const fb_bound_block *b, int k)
{
    if (!isinf(b->v[k])) return false;
    return op == FB_OP_DIV ? b->x[1][k] == 0
                           : (op == FB_OP_RECIP || op == FB_OP_RSQRT || op == FB_OP_POW) && b->x[0][k] == 0;
}

/* Of where(), whose operands' bounds are `e`: the branch that is taken is certain, or it does not matter which one is,
 * for both are the `same`. */
static bool branch_is_certain(bool condition, bool same, const double e[3])
{
    if (e[0] == 0) return e[condition ? 1 : 2] == 0;
    return same && e[1] == 0 && e[2] == 0;
}

static bool where_is_certain(const fb_bound_block *b, int k)
{
    const double yes = b->x[1][k], no = b->x[2][k], e[] = {b->e[0][k], b->e[1][k], b->e[2][k]};
    return branch_is_certain(b->x[0][k] != 0, yes == no || (isnan(yes) && isnan(no)), e);
}

/* The result of one element when its operands take the ends of their intervals: the same for all ends, or undecided.
 * pow(1, NaN) and pow(NaN, 0) are 1, which ends do not show. */
static bool corners_agree(const job *j, const fb_bound_block *b, int k)
{
    int ends = 1 << j->node->n_args;
    double x[3][8] = {{0}}, y[8];
    if (j->node->op == FB_OP_WHERE) return where_is_certain(b, k);
    if (from_a_zero(j->node->op, b, k)) return false;
    if (j->node->op == FB_OP_POW && b->e[0][k] + b->e[1][k] > 0) return false;
    for (int c = 0; c < ends; c++) {
        for (int a = 0; a < j->node->n_args; a++) {
            double e = b->e[a][k];
            if (isinf(e)) return false;
            x[a][c] = b->x[a][k] + (c >> a & 1 ? e : -e);
        }
    }
    kernels[j->node->op].f64(j->node->attrs, ends, x[0], x[1], x[2], y);
    for (int c = 0; c < ends; c++) {
        if (!(y[c] == b->v[k] || (isnan(y[c]) && isnan(b->v[k])))) return false;
    }
    return true;
}

/* The bound buffer is made when the first bound other than zero comes up. */
static bool store_bounds(job *j, int64_t at, int n, const double *e)
{
    if (!j->value.bound) {
        int k = 0;
        while (k < n && e[k] == 0) k++;
        if (k == n) return true;
        j->value.bound = fb_buffer_zeroed(j->in, (fb_id)(j->node - j->in->g->nodes), j->cells);
        if (!j->value.bound) return false;
    }
    memcpy(j->value.bound->at->f + at, e, (size_t)n * sizeof *e);
    return true;
}

static bool f64_bounds(job *j, blocks *s, int64_t at, int n, const double *const x[3], const double *v)
{
    const fb_node *node = j->node;
    fb_bound_block b = {.at = node->attrs, .dtype = node->dtype, .n = n, .v = v};
    for (int a = 0; a < 3; a++) b.x[a] = x[a], b.e[a] = s->e[a];
    fb_bound_pointwise(node->op, &b, s->spread);
    for (int k = 0; k < n && j->result_float; k++) {
        if (!isfinite(v[k]) && corners_agree(j, &b, k)) s->spread[k] = 0;
    }
    return store_bounds(j, at, n, s->spread);
}

static bool f64_block(job *j, blocks *s, int64_t at, int n, bool bounds)
{
    const fb_node *node = j->node;
    const double *x[3];
    for (int a = 0; a < 3; a++) {
        x[a] = (const double *)s->x[a];
        if (a >= node->n_args || j->args[a].is_float) continue;
        for (int k = 0; k < n; k++) s->converted[a][k] = (double)((const int64_t *)s->x[a])[k];
        x[a] = s->converted[a];
    }
    double *to = j->result_float ? j->value.data->at->f + at : s->result;
    kernels[node->op].f64(node->attrs, n, x[0], x[1], x[2], to);
    if (!j->result_float) {
        int64_t *whole = j->value.data->at->i + at;
        for (int k = 0; k < n; k++) whole[k] = fb_interp_int_of_double(node->dtype, to[k]);
    }
    return !bounds || f64_bounds(j, s, at, n, x, to);
}

/* Integers are exact or undecided: undecided when an operand is, except for a branch not taken and branches that agree.
 */
static bool i64_bounds(job *j, blocks *s, int64_t at, int n, const int64_t *const x[3])
{
    for (int k = 0; k < n; k++) {
        const double e[] = {s->e[0][k], s->e[1][k], s->e[2][k]};
        bool undecided = e[0] != 0 || e[1] != 0 || e[2] != 0;
        if (j->node->op == FB_OP_WHERE) undecided = !branch_is_certain(x[0][k] != 0, x[1][k] == x[2][k], e);
        s->spread[k] = undecided ? INFINITY : 0;
    }
    return store_bounds(j, at, n, s->spread);
}

static bool i64_block(job *j, blocks *s, int64_t at, int n, bool bounds)
{
    const int64_t *x[3];
    for (int a = 0; a < 3; a++) x[a] = (const int64_t *)s->x[a];
    int64_t *to = j->value.data->at->i + at;
    kernels[j->node->op].i64(j->node->attrs, n, x[0], x[1], x[2], to);
    if (j->node->dtype == FB_I32) {
        for (int k = 0; k < n; k++) to[k] = fb_int_wrap(FB_I32, to[k]);
    } else if (j->node->dtype == FB_BOOL) {
        for (int k = 0; k < n; k++) to[k] = to[k] != 0;
    }
    return !bounds || i64_bounds(j, s, at, n, x);
}

static bool run_blocks(job *j, blocks *s, bool bounds)
{
    for (int64_t at = 0; at < j->cells; at += FB_BLOCK) {
        int n = j->cells - at < FB_BLOCK ? (int)(j->cells - at) : FB_BLOCK;
        for (int a = 0; a < j->node->n_args; a++) {
            const uint64_t *e;
            operand_block(&j->args[a], n, s->data[a], s->bound[a], &s->x[a], &e);
            s->e[a] = (const double *)e;
        }
        if (!(j->f64 ? f64_block(j, s, at, n, bounds) : i64_block(j, s, at, n, bounds))) return false;
    }
    return true;
}

/* Whether bounds can be other than zero at all. */
static bool wants_bounds(const job *j)
{
    if (!j->in->o->bounds) return false;
    if (j->f64 && !fb_bound_is_exact(j->node->op)) return true;
    for (int a = 0; a < j->node->n_args; a++) {
        if (j->args[a].bound) return true;
    }
    return false;
}

bool fb_eval_pointwise(fb_interp *in, fb_id id)
{
    const fb_node *node = &in->g->nodes[id];
    job j = {.in = in, .node = node, .cells = fb_shape_elements(&node->shape)};
    j.result_float = fb_dtype_is_float(node->dtype);
    j.f64 = j.result_float;
    for (int a = 0; a < node->n_args; a++) {
        j.args[a] = operand_open(fb_operand(in, node, a), fb_operand_node(in, node, a), &node->shape);
        j.f64 |= j.args[a].is_float;
    }
    j.value.data = fb_buffer_new(in, id, j.cells);
    if (!j.value.data) return false;
    blocks *s = fb_calloc(1, sizeof *s);
    for (int a = 0; a < 3; a++) s->x[a] = s->data[a], s->e[a] = (const double *)s->bound[a];
    bool ok = run_blocks(&j, s, wants_bounds(&j));
    fb_free(s);
    if (ok)
        in->values[id] = j.value;
    else
        fb_interp_drop_value(in, &j.value);
    return ok;
}
