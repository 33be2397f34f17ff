/* Matmul through CBLAS (or a plain loop where there is none), and gathers. */
#include "interp/parts.h"

#include "base/blas.h"
#include "graph/intmath.h"

#include <limits.h>
#include <string.h>

/* ---- matmul ---- */

/* Blocked over k and n, so that a panel of b stays in the cache while all rows of a pass over it. */
void fb_matmul_plain(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c)
{
    enum { K_BLOCK = 64, N_BLOCK = 256 };
    memset(c, 0, (size_t)(m * n) * sizeof *c);
    for (int64_t k0 = 0; k0 < k; k0 += K_BLOCK) {
        int64_t k1 = k0 + K_BLOCK < k ? k0 + K_BLOCK : k;
        for (int64_t n0 = 0; n0 < n; n0 += N_BLOCK) {
            int64_t n1 = n0 + N_BLOCK < n ? n0 + N_BLOCK : n;
            for (int64_t i = 0; i < m; i++) {
                for (int64_t p = k0; p < k1; p++) {
                    double x = a[i * k + p];
                    for (int64_t j = n0; j < n1; j++) c[i * n + j] += x * b[p * n + j];
                }
            }
        }
    }
}

static void multiply(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c)
{
    const fb_blas *blas = m <= INT_MAX && n <= INT_MAX && k <= INT_MAX ? fb_blas_get(NULL) : NULL;
    if (m == 0 || n == 0) return;
    if (!blas || k == 0) {
        fb_matmul_plain(m, n, k, a, b, c);
        return;
    }
    blas->dgemm(FB_BLAS_ROW_MAJOR, FB_BLAS_NO_TRANS, FB_BLAS_NO_TRANS, (int)m, (int)n, (int)k, 1, a, (int)k, b, (int)n,
                0, c, (int)n);
}

/* The matrices of one matmul node: `batch` of them, broadcast operands at step 0. */
typedef struct {
    int64_t m, n, k, batch;
    int rank; /* of the batch */
    int64_t dim[FB_MAX_RANK], a_step[FB_MAX_RANK], b_step[FB_MAX_RANK];
} product;

static void batch_steps(const fb_shape *s, int rank, int64_t *steps)
{
    fb_shape batch = fb_shape_of(s->rank - 2, s->dim);
    fb_shape_expanded_strides(&batch, rank, steps);
}

static product product_open(const fb_interp *in, const fb_node *node)
{
    const fb_shape *a = &fb_operand_node(in, node, 0)->shape, *b = &fb_operand_node(in, node, 1)->shape;
    product p = {.m = a->dim[a->rank - 2], .k = a->dim[a->rank - 1], .n = b->dim[b->rank - 1], .batch = 1};
    p.rank = node->shape.rank - 2;
    for (int d = 0; d < p.rank; d++) p.batch *= p.dim[d] = node->shape.dim[d];
    batch_steps(a, p.rank, p.a_step);
    batch_steps(b, p.rank, p.b_step);
    /* One matrix on the right for all on the left: their rows are the rows of one tall matrix. */
    bool shared = true, natural = fb_shape_elements(a) == p.batch * p.m * p.k;
    for (int d = 0; d < p.rank; d++) shared &= p.b_step[d] == 0;
    if (shared && natural) p.m *= p.batch, p.batch = 1, p.rank = 0;
    return p;
}

/* Which matrix of an operand belongs to batch number `at`. */
static int64_t batch_at(const product *p, const int64_t *steps, int64_t at)
{
    int64_t which = 0;
    for (int d = p->rank - 1; d >= 0; d--) {
        which += at % p->dim[d] * steps[d];
        at /= p->dim[d];
    }
    return which;
}

static void multiply_all(const product *p, const double *a, const double *b, double *c)
{
    for (int64_t i = 0; i < p->batch; i++) {
        multiply(p->m, p->n, p->k, a + batch_at(p, p->a_step, i) * p->m * p->k,
                 b + batch_at(p, p->b_step, i) * p->k * p->n, c + i * p->m * p->n);
    }
}

/* What the bounds are multiplied from. With γ the sum's error and tf32's rounding of the operands in `share`,
 *     |Â·B̂ − A·B| ≤ (E_A + share·(|A| + E_A))·(|B| + E_B) + |A|·E_B
 * The first product is always needed, the second only where B has bounds. */
typedef struct {
    fb_buffer *left, *right;     /* E_A + share·(|A| + E_A) and |B| + E_B */
    fb_buffer *a_size, *b_error; /* |A| and E_B; NULL where B is exact */
    fb_buffer *second;
} error_terms;

/* Undecided elements would turn a zero beside them into NaN; they are taken out here and put back by rows and columns.
 */
static double finite_or_zero(double x)
{
    return isfinite(x) ? x : 0;
}

/* tf32 keeps 10 bits after the point; the hardware cuts off the rest where a library does not round first. */
static double sum_share(const fb_node *node, int64_t k, double repeats)
{
    double share = fb_bound_gamma(k, repeats, fb_bound_sum_unit(node->dtype));
    return node->attrs->precision == FB_PRECISION_TF32 && node->dtype == FB_F32 ? share + 2 * 0x1p-10 + 0x1p-20 : share;
}

/* The most that values repeat in a column of any matrix of b: products repeat no more often than either factor does. */
static double column_repeats(const product *p, fb_dtype dtype, const double *b, int64_t matrices)
{
    double most = 0;
    for (int64_t i = 0; i < matrices * p->n && p->k > FB_BOUND_SURE; i++) {
        fb_bound_repeats r = {0};
        const double *column = b + i / p->n * p->k * p->n + i % p->n;
        for (int64_t k = 0; k < p->k; k++) fb_bound_repeat(&r, dtype, column[k * p->n]);
        most = fmax(most, (double)r.squares);
    }
    return most;
}

static double row_repeats(const product *p, fb_dtype dtype, const double *row)
{
    fb_bound_repeats r = {0};
    for (int64_t k = 0; k < p->k && p->k > FB_BOUND_SURE; k++) fb_bound_repeat(&r, dtype, row[k]);
    return (double)r.squares;
}

static bool prepare_terms(fb_interp *in, fb_id id, const product *p, const fb_value *a, const fb_value *b,
                          error_terms *t)
{
    const fb_node *node = &in->g->nodes[id];
    int64_t na = fb_shape_elements(&fb_operand_node(in, &in->g->nodes[id], 0)->shape);
    int64_t nb = fb_shape_elements(&fb_operand_node(in, &in->g->nodes[id], 1)->shape);
    t->left = fb_buffer_new(in, id, na);
    t->right = t->left ? fb_buffer_new(in, id, nb) : NULL;
    if (!t->right) return false;
    double in_columns = p->k && p->n ? column_repeats(p, node->dtype, b->data->at->f, nb / p->k / p->n) : 0, share = 0;
    for (int64_t k = 0; k < na; k++) {
        double e = a->bound ? a->bound->at->f[k] : 0;
        if (k % p->k == 0)
            share = sum_share(node, p->k, fmin(in_columns, row_repeats(p, node->dtype, a->data->at->f + k)));
        t->left->at->f[k] = finite_or_zero(e + share * (fabs(a->data->at->f[k]) + e));
    }
    for (int64_t k = 0; k < nb; k++) {
        double e = b->bound ? b->bound->at->f[k] : 0;
        t->right->at->f[k] = finite_or_zero(fabs(b->data->at->f[k]) + e);
    }
    if (!b->bound) return true;
    t->a_size = fb_buffer_new(in, id, na);
    t->b_error = t->a_size ? fb_buffer_new(in, id, nb) : NULL;
    t->second = t->b_error ? fb_buffer_new(in, id, fb_shape_elements(&in->g->nodes[id].shape)) : NULL;
    if (!t->second) return false;
    for (int64_t k = 0; k < na; k++) t->a_size->at->f[k] = finite_or_zero(fabs(a->data->at->f[k]));
    for (int64_t k = 0; k < nb; k++) t->b_error->at->f[k] = finite_or_zero(b->bound->at->f[k]);
    return true;
}

static void drop_terms(fb_interp *in, error_terms *t)
{
    fb_buffer *all[] = {t->left, t->right, t->a_size, t->b_error, t->second};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) fb_buffer_drop(in, all[i]);
}

/* Row i of a, or column j of b, holds something undecided: so is all of that row, or column, of the result. */
static void spread_undecided(const product *p, const double *ea, const double *eb, double *bound)
{
    for (int64_t i = 0; ea && i < p->m; i++) {
        bool undecided = false;
        for (int64_t k = 0; k < p->k; k++) undecided |= !isfinite(ea[i * p->k + k]);
        for (int64_t j = 0; undecided && j < p->n; j++) bound[i * p->n + j] = INFINITY;
    }
    for (int64_t k = 0; eb && k < p->k; k++) {
        for (int64_t j = 0; j < p->n; j++) {
            if (isfinite(eb[k * p->n + j])) continue;
            for (int64_t i = 0; i < p->m; i++) bound[i * p->n + j] = INFINITY;
        }
    }
}

static void settle_bounds(const fb_node *node, const product *p, const fb_value *a, const fb_value *b, const double *v,
                          double *bound)
{
    double store = fb_bound_store_unit(node->dtype), tiny = (double)p->k * fb_bound_tiny(node->dtype);
    bool exact = !a->bound && !b->bound;
    for (int64_t k = 0; k < p->batch * p->m * p->n; k++) {
        double e = bound[k] + store * (fabs(v[k]) + bound[k]);
        if (e > 0) e += tiny;
        if (!isfinite(v[k]))
            e = fb_bound_special(exact);
        else if (fb_bound_overflows(node->dtype, v[k], e))
            e = INFINITY;
        bound[k] = e;
    }
    for (int64_t i = 0; i < p->batch && !exact; i++) {
        spread_undecided(p, a->bound ? a->bound->at->f + batch_at(p, p->a_step, i) * p->m * p->k : NULL,
                         b->bound ? b->bound->at->f + batch_at(p, p->b_step, i) * p->k * p->n : NULL,
                         bound + i * p->m * p->n);
    }
}

static fb_buffer *matmul_bounds(fb_interp *in, fb_id id, const product *p, const fb_value *a, const fb_value *b,
                                const fb_buffer *v)
{
    const fb_node *node = &in->g->nodes[id];
    error_terms t = {0};
    fb_buffer *bound = fb_buffer_new(in, id, fb_shape_elements(&node->shape));
    if (!bound || !prepare_terms(in, id, p, a, b, &t)) {
        drop_terms(in, &t);
        fb_buffer_drop(in, bound);
        return NULL;
    }
    multiply_all(p, t.left->at->f, t.right->at->f, bound->at->f);
    if (t.second) {
        multiply_all(p, t.a_size->at->f, t.b_error->at->f, t.second->at->f);
        for (int64_t k = 0; k < bound->cells; k++) bound->at->f[k] += t.second->at->f[k];
    }
    drop_terms(in, &t);
    settle_bounds(node, p, a, b, v->at->f, bound->at->f);
    return bound;
}

bool fb_eval_contraction(fb_interp *in, fb_id id)
{
    const fb_node *node = &in->g->nodes[id];
    const fb_value *a = fb_operand(in, node, 0), *b = fb_operand(in, node, 1);
    product p = product_open(in, node);
    fb_value value = {.data = fb_buffer_new(in, id, fb_shape_elements(&node->shape))};
    if (!value.data) return false;
    multiply_all(&p, a->data->at->f, b->data->at->f, value.data->at->f);
    if (in->o->bounds) {
        value.bound = matmul_bounds(in, id, &p, a, b, value.data);
        if (!value.bound) {
            fb_interp_drop_value(in, &value);
            return false;
        }
    }
    in->values[id] = value;
    return true;
}

/* ---- gathers ---- */

/* Rows of the table by index. Without a bound for the row's elements and a certain index, the result is exact. */
static bool embedding(fb_interp *in, fb_id id, fb_value *value)
{
    const fb_node *node = &in->g->nodes[id];
    const fb_value *table = fb_operand(in, node, 0), *index = fb_operand(in, node, 1);
    const fb_shape *from = &fb_operand_node(in, node, 0)->shape;
    int64_t count = fb_shape_elements(&fb_operand_node(in, node, 1)->shape), width = 1;
    for (int d = 1; d < from->rank; d++) width *= from->dim[d];
    value->data = fb_buffer_zeroed(in, id, count * width);
    bool wants_bound = table->bound || index->bound;
    if (value->data && wants_bound) value->bound = fb_buffer_zeroed(in, id, count * width);
    if (!value->data || (wants_bound && !value->bound)) return false;
    for (int64_t k = 0; k < count; k++) {
        int64_t row = index->data->at->i[k];
        bool inside = row >= 0 && row < from->dim[0];
        size_t bytes = (size_t)width * 8;
        if (inside) memcpy(value->data->at->raw + k * width, table->data->at->raw + row * width, bytes);
        if (inside && table->bound) memcpy(value->bound->at->f + k * width, table->bound->at->f + row * width, bytes);
        if (!index->bound || index->bound->at->f[k] == 0) continue;
        for (int64_t d = 0; d < width; d++) value->bound->at->f[k * width + d] = INFINITY;
    }
    return true;
}

/* The sums that index_add makes, and what their bounds need. */
typedef struct {
    const fb_value *src, *index;
    int64_t rows, count, width;
} scatter;

static void scatter_values(const scatter *s, bool is_float, fb_dtype dtype, fb_buffer *to)
{
    for (int64_t k = 0; k < s->count; k++) {
        int64_t row = s->index->data->at->i[k];
        if (row < 0 || row >= s->rows) continue;
        for (int64_t d = 0; d < s->width; d++) {
            int64_t at = row * s->width + d, from = k * s->width + d;
            if (is_float)
                to->at->f[at] += s->src->data->at->f[from];
            else
                to->at->i[at] = fb_int_wrap(dtype, fb_wrap_add(to->at->i[at], s->src->data->at->i[from]));
        }
    }
}

/* Σ|x| and Σe an element, and the number of terms a row. An undecided index may add its row anywhere. */
static void scatter_errors(const scatter *s, bool is_float, double *magnitude, double *spread, int64_t *terms)
{
    for (int64_t k = 0; k < s->count; k++) {
        bool lost = s->index->bound && s->index->bound->at->f[k] != 0;
        int64_t first = lost ? 0 : s->index->data->at->i[k], last = lost ? s->rows - 1 : first;
        if (first < 0 || last >= s->rows) continue;
        for (int64_t row = first; row <= last; row++) {
            terms[row]++;
            for (int64_t d = 0; d < s->width; d++) {
                int64_t at = row * s->width + d, from = k * s->width + d;
                if (is_float) magnitude[at] += fabs(s->src->data->at->f[from]);
                spread[at] += lost ? INFINITY : s->src->bound ? s->src->bound->at->f[from] : 0;
            }
        }
    }
}

/* Of terms whose order and repetitions nobody has counted. */
static double added_bound(fb_dtype dtype, int64_t n, double magnitude, double spread, double sum)
{
    fb_bound_terms t = fb_bound_terms_new(dtype, dtype, n);
    t.added = n;
    t.magnitude = magnitude;
    t.spread = spread;
    t.lowest = INT_MIN;
    t.repeats.squares = n * n;
    return fb_bound_sum(&t, sum);
}

static bool scatter_bounds(fb_interp *in, fb_id id, const scatter *s, bool is_float, fb_value *value)
{
    const fb_node *node = &in->g->nodes[id];
    fb_buffer *magnitude = fb_buffer_zeroed(in, id, s->rows * s->width);
    fb_buffer *terms = magnitude ? fb_buffer_zeroed(in, id, s->rows) : NULL;
    value->bound = terms ? fb_buffer_zeroed(in, id, s->rows * s->width) : NULL;
    if (value->bound) {
        scatter_errors(s, is_float, magnitude->at->f, value->bound->at->f, terms->at->i);
        for (int64_t k = 0; k < s->rows * s->width; k++) {
            double *e = &value->bound->at->f[k];
            if (!is_float)
                *e = *e != 0 ? INFINITY : 0;
            else
                *e = added_bound(node->dtype, terms->at->i[k / s->width], magnitude->at->f[k], *e,
                                 value->data->at->f[k]);
        }
    }
    fb_buffer_drop(in, magnitude);
    fb_buffer_drop(in, terms);
    return value->bound != NULL;
}

static bool index_add(fb_interp *in, fb_id id, fb_value *value)
{
    const fb_node *node = &in->g->nodes[id];
    bool is_float = fb_dtype_is_float(node->dtype);
    scatter s = {
        .src = fb_operand(in, node, 0), .index = fb_operand(in, node, 1), .rows = node->attrs->start, .width = 1};
    s.count = fb_shape_elements(&fb_operand_node(in, node, 1)->shape);
    for (int d = 1; d < node->shape.rank; d++) s.width *= node->shape.dim[d];
    value->data = fb_buffer_zeroed(in, id, s.rows * s.width);
    if (!value->data) return false;
    scatter_values(&s, is_float, node->dtype, value->data);
    bool wants_bound = in->o->bounds && (is_float || s.src->bound || s.index->bound);
    return !wants_bound || scatter_bounds(in, id, &s, is_float, value);
}

bool fb_eval_gather(fb_interp *in, fb_id id)
{
    fb_value value = {0};
    bool ok = in->g->nodes[id].op == FB_OP_EMBEDDING ? embedding(in, id, &value) : index_add(in, id, &value);
    if (ok)
        in->values[id] = value;
    else
        fb_interp_drop_value(in, &value);
    return ok;
}
