/* Trials and the judge where choices lie inside choices: what devices give of such graphs is right, whatever they round
 * and in whichever order they add; the same a few hundredths larger, or without one of its terms, is wrong.
 *
 * A device is a walk over the graph in floats. It rounds all nodes to their dtype, or none, or some; adds products
 * forwards, backwards, in pairs or in eight parts; takes products into sums as they are, or does not. */
#include "interp_help.h"
#include "trial_help.h"

#include "base/rng.h"
#include "graph/autodiff.h"
#include "graph/element.h"
#include "interp/parts.h"
#include "measure/judge.h"

enum { M = 48, N = 48, K = 64, OPERANDS = 3, CELLS = M * N, DEVICES = 8 };

/* ---- devices ---- */

typedef enum { ROUNDS_ALL, ROUNDS_NONE, ROUNDS_SUMS, ROUNDS_SOME } rounding;
typedef struct {
    rounding how;
    int order;
    bool fused;
    bool cuts; /* accumulators cut off what does not fit, as those of tensor cores do */
    int ulps;  /* so many steps of a float its sums are off by, up or down */
    uint64_t key;
} device;

typedef struct {
    const fb_graph *g;
    const device *d;
    double **v; /* a node each; products that are not rounded yet among them */
    bool *product;
} walk;

/* Towards 0. */
static float cut_off(double x)
{
    float f = (float)x;
    return fabs((double)f) > fabs(x) ? nextafterf(f, 0) : f;
}

static double add_cut(int n, const float *a, const float *b, int step)
{
    float sum = 0;
    for (int k = 0; k < n; k++) sum = cut_off((double)sum + (double)a[k] * (double)b[k * step]);
    return (double)sum;
}

static double add_terms(int order, int n, const float *a, const float *b, int step)
{
    float parts[8] = {0};
    if (order == 2 && n > 1)
        return (double)((float)add_terms(2, n / 2, a, b, step) +
                        (float)add_terms(2, n - n / 2, a + n / 2, b + n / 2 * step, step));
    for (int i = 0; i < n; i++) {
        int k = order == 1 ? n - 1 - i : i, to = order == 3 ? i % 8 : 0;
        parts[to] = fmaf(a[k], b[k * step], parts[to]);
    }
    for (int i = 1; i < 8; i++) parts[0] += parts[i];
    return (double)parts[0];
}

static void walk_matmul(walk *w, const fb_node *n, double *to)
{
    const fb_shape *s = &w->g->nodes[n->args[0]].shape;
    int m = (int)s->dim[0], k = (int)s->dim[1], columns = (int)n->shape.dim[1];
    float *a = fb_alloc(sizeof *a * (size_t)(m * k)), *b = fb_alloc(sizeof *b * (size_t)(k * columns));
    for (int i = 0; i < m * k; i++) a[i] = (float)w->v[n->args[0]][i];
    for (int i = 0; i < k * columns; i++) b[i] = (float)w->v[n->args[1]][i];
    for (int i = 0; i < m * columns; i++) {
        const float *row = a + i / columns * k, *column = b + i % columns;
        float sum = (float)(w->d->cuts && n->dtype != FB_F32 ? add_cut(k, row, column, columns)
                                                             : add_terms(w->d->order, k, row, column, columns));
        float toward = fb_splitmix64(w->d->key + (uint64_t)i) >> 63 ? INFINITY : -INFINITY;
        for (int u = 0; u < w->d->ulps; u++) sum = nextafterf(sum, toward);
        to[i] = (double)sum;
    }
    fb_free(a);
    fb_free(b);
}

/* Element k of a node's result, of an operand that is broadcast to it. */
static int64_t place_in(const fb_shape *of, const fb_shape *in, int64_t k)
{
    int64_t at = 0, steps[FB_MAX_RANK];
    fb_shape_strides(of, steps);
    for (int d = in->rank - 1, s = of->rank - 1; s >= 0; d--, s--) {
        if (of->dim[s] != 1) at += k % in->dim[d] * steps[s];
        k /= in->dim[d];
    }
    return at;
}

static void walk_pointwise(walk *w, const fb_node *n, double *to)
{
    bool floats = fb_dtype_is_float(n->dtype), sums = n->op == FB_OP_ADD || n->op == FB_OP_SUB;
    for (int a = 0; a < n->n_args; a++) floats |= fb_dtype_is_float(w->g->nodes[n->args[a]].dtype);
    for (int64_t k = 0; k < fb_shape_elements(&n->shape); k++) {
        double x[3] = {0};
        for (int a = 0; a < n->n_args; a++) {
            x[a] = w->v[n->args[a]][place_in(&w->g->nodes[n->args[a]].shape, &n->shape, k)];
            if (w->product[n->args[a]] && !sums) x[a] = (double)(float)x[a];
        }
        if (floats) {
            fb_pointwise_f64(n->op, n->attrs, 1, &x[0], &x[1], &x[2], &to[k]);
            if (!fb_dtype_is_float(n->dtype)) to[k] = (double)fb_interp_int_of_double(n->dtype, to[k]);
            continue;
        }
        int64_t i[3] = {(int64_t)x[0], (int64_t)x[1], (int64_t)x[2]}, y;
        fb_pointwise_i64(n->op, n->attrs, 1, &i[0], &i[1], &i[2], &y);
        to[k] = (double)y;
    }
}

/* Along the last dimension. */
static double reduce_line(const walk *w, const fb_node *n, const double *x, int count)
{
    double best = x[0], index = 0;
    float sum = 0;
    bool most = n->op == FB_OP_AMAX || n->op == FB_OP_ARGMAX;
    for (int k = 0; k < count; k++) {
        sum += (float)x[w->d->order == 1 ? count - 1 - k : k];
        if (most ? x[k] > best : x[k] < best) best = x[k], index = k;
    }
    if (n->op == FB_OP_SUM) return (double)sum;
    return n->op == FB_OP_AMAX || n->op == FB_OP_AMIN ? best : index;
}

/* What an element stands behind in its line: equals in their order. */
static void rank_line(const fb_node *n, const double *x, int count, double *to)
{
    bool largest = n->attrs->start == 1;
    for (int k = 0; k < count; k++) {
        int before = 0;
        for (int i = 0; i < count; i++) before += (largest ? x[i] > x[k] : x[i] < x[k]) || (x[i] == x[k] && i < k);
        to[k] = before;
    }
}

static void walk_other(walk *w, const fb_node *n, double *to)
{
    const fb_shape *of = &w->g->nodes[n->args[0]].shape;
    const double *x = w->v[n->args[0]];
    int64_t cells = fb_shape_elements(&n->shape);
    int last = (int)of->dim[of->rank - 1];
    switch (n->op) {
    case FB_OP_VIEW: memcpy(to, x, (size_t)cells * sizeof *to); break;
    case FB_OP_EXPAND:
        for (int64_t k = 0; k < cells; k++) to[k] = x[place_in(of, &n->shape, k)];
        break;
    case FB_OP_STACK: /* in the last dimension */
        for (int64_t k = 0; k < cells; k++) to[k] = w->v[n->args[k % n->n_args]][k / n->n_args];
        break;
    case FB_OP_SLICE:
        for (int64_t k = 0; k < cells; k++) {
            int64_t width = n->shape.dim[n->shape.rank - 1];
            to[k] = x[k / width * last + n->attrs->start + k % width * n->attrs->step];
        }
        break;
    case FB_OP_RANK:
        for (int64_t k = 0; k < cells; k += last) rank_line(n, x + k, last, to + k);
        break;
    case FB_OP_EMBEDDING:
        for (int64_t k = 0; k < cells; k++) to[k] = x[(int64_t)w->v[n->args[1]][k]];
        break;
    default:
        if (fb_op_get(n->op)->cls != FB_CLASS_REDUCTION) fail_msg("%s is not walked", n->name);
        for (int64_t k = 0; k < cells; k++) to[k] = reduce_line(w, n, x + k * last, last);
    }
}

static bool device_rounds(const device *d, const fb_node *n, fb_id id)
{
    bool sum = n->op == FB_OP_MATMUL || fb_op_get(n->op)->cls == FB_CLASS_REDUCTION;
    return d->how == ROUNDS_ALL || (d->how == ROUNDS_SUMS && sum) ||
           (d->how == ROUNDS_SOME && fb_splitmix64(d->key ^ (uint64_t)id) >> 63);
}

static void walk_node(walk *w, const rig *r, fb_id id)
{
    const fb_node *n = &w->g->nodes[id];
    int64_t cells = fb_shape_elements(&n->shape);
    double *to = w->v[id] = fb_calloc((size_t)cells + 1, sizeof *to);
    bool floats = fb_dtype_is_float(n->dtype);
    switch (fb_op_get(n->op)->cls) {
    case FB_CLASS_SOURCE:
        if (n->op == FB_OP_CONST || n->op == FB_OP_IOTA) {
            for (int64_t k = 0; k < cells; k++) to[k] = n->op == FB_OP_CONST ? n->attrs->value : (double)k;
            if (floats) fb_elements_round(n->dtype, cells, to, to);
        } else {
            assert_true(rig_file((void *)r, n->attrs->file, cells, to));
        }
        return;
    case FB_CLASS_POINTWISE: walk_pointwise(w, n, to); break;
    case FB_CLASS_CONTRACTION: walk_matmul(w, n, to); break;
    default: walk_other(w, n, to); break;
    }
    if (!floats) return;
    w->product[id] = n->op == FB_OP_MUL && w->d->fused && !device_rounds(w->d, n, id);
    for (int64_t k = 0; k < cells && !w->product[id]; k++) to[k] = (double)(float)to[k];
    if (device_rounds(w->d, n, id)) fb_elements_round(n->dtype, cells, to, to);
}

/* What the device gives of a node, to be freed. */
static double *device_gives(const rig *r, const device *d, fb_id want)
{
    walk w = {.g = r->g, .d = d};
    w.v = fb_calloc((size_t)r->g->n_nodes, sizeof *w.v);
    w.product = fb_calloc((size_t)r->g->n_nodes, sizeof *w.product);
    for (fb_id id = 0; id <= want; id++) walk_node(&w, r, id);
    double *gives = w.v[want];
    for (fb_id id = 0; id < want; id++) fb_free(w.v[id]);
    fb_free(w.v);
    fb_free(w.product);
    return gives;
}

/* ---- operands ---- */

/* x · (W + V) + b. Biases take the sums where choices turn: of each 16 rows 13 are all apart, in one all are next to 0,
 * in one next to each other, in one the first two. In every eighth column of these all are made of the same numbers. */
typedef struct {
    rig r;
    fb_dtype dtype;
    double x[M * K], w[OPERANDS][K * N], v[OPERANDS][K * N], b[OPERANDS][CELLS];
    fb_id p[OPERANDS], bare; /* bare: the first one without its bias */
} bench;

static void draw(fb_dtype dtype, uint64_t key, int64_t n, double size, double *to)
{
    for (int64_t k = 0; k < n; k++) to[k] = size * fb_rng_uniform(fb_rng_bits(key, (uint64_t)k), -1, 1);
    fb_elements_round(dtype, n, to, to);
}

static double aim(uint64_t key, int i, int operand)
{
    int kind = i / N % 16 < 13 ? 0 : i / N % 16 - 12;
    if (kind == 1) return 0;
    int own = kind == 0 || (kind == 3 && operand == 2) ? operand : 0;
    return fb_rng_uniform(fb_rng_bits(key + 77 + (uint64_t)own, (uint64_t)i), -4, 4);
}

static void draw_operand(bench *e, uint64_t key, int p)
{
    draw(e->dtype, key + 10 + (uint64_t)p, K * N, 1, e->w[p]);
    draw(e->dtype, key + 20 + (uint64_t)p, K * N, 0.3, e->v[p]);
    for (int i = 0; i < K * N; i++)
        if (i % 8 == 0) e->w[p][i] = e->w[0][i], e->v[p][i] = e->v[0][i];
    for (int i = 0; i < CELLS; i++) {
        double sum = 0;
        for (int k = 0; k < K; k++) sum += e->x[i / N * K + k] * (e->w[p][k * N + i % N] + e->v[p][k * N + i % N]);
        e->b[p][i] = aim(key, i, i % 8 == 0 && i / N % 16 >= 13 ? 0 : p) - sum;
    }
    fb_elements_round(e->dtype, CELLS, e->b[p], e->b[p]);
}

static bench *bench_open(fb_dtype dtype, uint64_t key)
{
    bench *e = fb_calloc(1, sizeof *e);
    e->r = rig_new();
    e->dtype = dtype;
    draw(dtype, key, M * K, 1, e->x);
    fb_id x = data(&e->r, dtype, SHAPE(M, K), e->x);
    for (int p = 0; p < OPERANDS; p++) {
        draw_operand(e, key, p);
        fb_id w = data(&e->r, dtype, SHAPE(K, N), e->w[p]), v = data(&e->r, dtype, SHAPE(K, N), e->v[p]),
              b = data(&e->r, dtype, SHAPE(M, N), e->b[p]);
        fb_id sum = add2(&e->r, FB_OP_MATMUL, x, add2(&e->r, FB_OP_ADD, w, v));
        if (p == 0) e->bare = sum;
        e->p[p] = add2(&e->r, FB_OP_ADD, sum, b);
    }
    return e;
}

static void bench_close(bench *e)
{
    rig_free(&e->r);
    fb_free(e);
}

/* ---- judging ---- */

typedef struct {
    trials *t;
    float *spread;
    fb_spread s;
    fb_judge_shape shape;
    const fb_node *node;
    fb_trial_block b;
} bar;

static bar bar_open(bench *e, fb_id want)
{
    if (!fb_graph_output(e->r.g, want, NULL, &e->r.err)) fail_msg("%s", e->r.err.text);
    if (!fb_graph_finish(e->r.g, &e->r.err)) fail_msg("%s", e->r.err.text);
    fb_trial_options o = {.trials = FB_TRIALS, .threads = 2, .files = rig_file, .files_ctx = &e->r};
    bar b = {.t = trials_of(e->r.g, &o, &want, 1, &e->r.err), .node = &e->r.g->nodes[want]};
    b.shape = fb_judgement_shape_of(b.node);
    b.b = (fb_trial_block){.node = want, .n = b.t->at[0].n, .lanes = 1 + FB_TRIALS};
    for (int l = 0; l <= FB_TRIALS; l++) b.b.v[l] = b.t->at[0].v[l];
    b.spread = fb_calloc((size_t)b.b.n + 1, sizeof *b.spread);
    fb_spread_add(&b.s, &b.shape, &b.b, b.spread);
    return b;
}

static void bar_close(bar *b)
{
    fb_free(b->spread);
    trials_free(b->t);
}

static fb_error_report judged(const bar *b, const double *gives)
{
    void *got = fb_alloc((size_t)b->b.n * 8);
    fb_error_report report;
    fb_judgement j;
    fb_elements_store(b->shape.dtype, b->b.n, gives, got);
    fb_judgement_clear(&j);
    fb_judgement_add(&j, &b->shape, 0, b->b.n, b->b.v[0], NULL, b->spread, got);
    fb_judgement_end(&j, &b->s, &b->shape, b->node, &report);
    fb_free(got);
    return report;
}

/* ---- choices inside choices ---- */

typedef struct {
    bench *e;
    fb_id x, y, z;
} parts;

static fb_id number(const parts *p, double value)
{
    return constant(&p->e->r, p->e->dtype, value);
}
static fb_id two(const parts *p, fb_op op, fb_id a, fb_id b)
{
    return add2(&p->e->r, op, a, b);
}
static fb_id choose(const parts *p, fb_id condition, fb_id a, fb_id b)
{
    return add(&p->e->r, FB_OP_WHERE, NULL, 3, (fb_id[]){condition, a, b});
}
static fb_id above(const parts *p, fb_id a)
{
    return two(p, FB_OP_GT, a, number(p, 0));
}
static fb_id relu(const parts *p, fb_id a)
{
    return add1(&p->e->r, FB_OP_RELU, a);
}
static fb_id leaky(const parts *p, fb_id a)
{
    return choose(p, above(p, a), a, two(p, FB_OP_MUL, a, number(p, 0.125)));
}
static fb_id larger(const parts *p, fb_id a, fb_id b)
{
    return choose(p, two(p, FB_OP_GT, a, b), a, b);
}
static fb_id smaller(const parts *p, fb_id a, fb_id b)
{
    return choose(p, two(p, FB_OP_LT, a, b), a, b);
}
static fb_id rows(const parts *p)
{
    return add(&p->e->r, FB_OP_STACK, &(fb_attrs){.dim = 2}, 3, (fb_id[]){p->x, p->y, p->z});
}
static fb_id over_rows(const parts *p, fb_op op, fb_id x)
{
    return add_at(&p->e->r, op, x, (fb_attrs){.n_axes = 1, .axes = {2}});
}

static fb_id maximum_of_three(const parts *p)
{
    return two(p, FB_OP_MAXIMUM, two(p, FB_OP_MAXIMUM, p->x, p->y), p->z);
}
static fb_id relu_of_maximum(const parts *p)
{
    return relu(p, two(p, FB_OP_MAXIMUM, p->x, p->y));
}
static fb_id maximum_of_where(const parts *p)
{
    return two(p, FB_OP_MAXIMUM, leaky(p, p->x), p->y);
}
static fb_id clamp_of_where(const parts *p)
{
    return add_at(&p->e->r, FB_OP_CLAMP, larger(p, p->x, p->y), (fb_attrs){.value = 0, .high = 2});
}
static fb_id where_in_where(const parts *p)
{
    return larger(p, larger(p, p->x, p->y), p->z);
}
static fb_id where_in_both_ways(const parts *p)
{
    return choose(p, two(p, FB_OP_GT, p->x, p->y), larger(p, p->x, p->z), larger(p, p->y, p->z));
}
static fb_id quadrants(const parts *p)
{
    fb_id sum = two(p, FB_OP_ADD, p->x, p->y), zero = number(p, 0);
    return choose(p, above(p, p->x), choose(p, above(p, p->y), sum, p->x), choose(p, above(p, p->y), p->y, zero));
}
static fb_id median_of_three(const parts *p)
{
    fb_id low = two(p, FB_OP_MINIMUM, p->x, p->y), high = two(p, FB_OP_MAXIMUM, p->x, p->y);
    return two(p, FB_OP_MAXIMUM, low, two(p, FB_OP_MINIMUM, high, p->z));
}
static fb_id median_by_where(const parts *p)
{
    return larger(p, smaller(p, p->x, p->y), smaller(p, larger(p, p->x, p->y), p->z));
}
static fb_id masks_that_add_up(const parts *p)
{
    fb_id m = add_at(&p->e->r, FB_OP_CAST, two(p, FB_OP_GT, p->x, p->y), (fb_attrs){.dtype = p->e->dtype});
    fb_id other = two(p, FB_OP_SUB, number(p, 1), m);
    return two(p, FB_OP_ADD, two(p, FB_OP_MUL, p->x, m), two(p, FB_OP_MUL, p->y, other));
}
static fb_id magnitude_of_difference(const parts *p)
{
    return add1(&p->e->r, FB_OP_ABS, two(p, FB_OP_SUB, two(p, FB_OP_MAXIMUM, p->x, p->y), p->z));
}
static fb_id relu_of_relu(const parts *p)
{
    return relu(p, two(p, FB_OP_SUB, relu(p, p->x), relu(p, p->y)));
}
static fb_id leaky_of_leaky(const parts *p)
{
    return leaky(p, two(p, FB_OP_ADD, leaky(p, p->x), p->y));
}
static fb_id amax_of_three(const parts *p)
{
    return over_rows(p, FB_OP_AMAX, rows(p));
}
static fb_id amin_of_relus(const parts *p)
{
    return over_rows(p, FB_OP_AMIN, relu(p, rows(p)));
}
static fb_id amax_of_wheres(const parts *p)
{
    return over_rows(p, FB_OP_AMAX, leaky(p, rows(p)));
}
static fb_id sum_of_relus(const parts *p)
{
    return over_rows(p, FB_OP_SUM, relu(p, rows(p)));
}
static fb_id chosen_by_argmax(const parts *p)
{
    fb_id at = over_rows(p, FB_OP_ARGMAX, rows(p));
    fb_id first = constant(&p->e->r, FB_I64, 0), second = constant(&p->e->r, FB_I64, 1);
    return choose(p, two(p, FB_OP_EQ, at, first), p->x, choose(p, two(p, FB_OP_EQ, at, second), p->y, p->z));
}
static fb_id read_by_argmax(const parts *p)
{
    fb_id at = over_rows(p, FB_OP_ARGMAX, rows(p));
    fb_id place = add_at(&p->e->r, FB_OP_VIEW,
                         add(&p->e->r, FB_OP_IOTA, &(fb_attrs){.dtype = FB_I64, .shape = SHAPE(CELLS)}, 0, NULL),
                         (fb_attrs){.shape = SHAPE(M, N)});
    place = two(p, FB_OP_ADD, two(p, FB_OP_MUL, place, constant(&p->e->r, FB_I64, 3)), at);
    fb_id table = add_at(&p->e->r, FB_OP_VIEW, rows(p), (fb_attrs){.shape = SHAPE(CELLS * 3)});
    return two(p, FB_OP_EMBEDDING, table, place);
}
static fb_id index_of_three(const parts *p)
{
    return over_rows(p, FB_OP_ARGMAX, rows(p));
}
static fb_id ranked(const parts *p, int largest)
{
    return add_at(&p->e->r, FB_OP_RANK, rows(p), (fb_attrs){.dim = 2, .start = largest});
}
/* The k-th of three by its rank: the sum of what has it. */
static fb_id kth_of_three(const parts *p, int k)
{
    fb_id is = two(p, FB_OP_EQ, ranked(p, 1), constant(&p->e->r, FB_I64, k));
    return over_rows(p, FB_OP_SUM, choose(p, is, rows(p), number(p, 0)));
}
static fb_id second_of_three(const parts *p)
{
    return kth_of_three(p, 1);
}
static fb_id two_largest(const parts *p)
{
    fb_id is = two(p, FB_OP_LT, ranked(p, 1), constant(&p->e->r, FB_I64, 2));
    return over_rows(p, FB_OP_SUM, choose(p, is, rows(p), number(p, 0)));
}

/* The gradient of Σ y² / 2 with respect to the first operand. */
static fb_id gradient_of(const parts *p, fb_id y)
{
    rig *r = &p->e->r;
    fb_id dx, all = add_at(r, FB_OP_VIEW, two(p, FB_OP_MUL, y, y), (fb_attrs){.shape = SHAPE(CELLS)});
    fb_id loss = add_at(r, FB_OP_SUM, all, (fb_attrs){.n_axes = 1, .axes = {0}});
    loss = two(p, FB_OP_MUL, loss, number(p, 0.5));
    if (!fb_autodiff(r->g, loss, &p->x, 1, &dx, 0, &r->err)) fail_msg("%s", r->err.text);
    return dx;
}
static fb_id gradient_of_maximum(const parts *p)
{
    return gradient_of(p, maximum_of_three(p));
}
static fb_id gradient_of_amax(const parts *p)
{
    return gradient_of(p, amax_of_three(p));
}
static fb_id gradient_of_relu(const parts *p)
{
    return gradient_of(p, relu_of_maximum(p));
}
static fb_id gradient_of_where(const parts *p)
{
    return gradient_of(p, maximum_of_where(p));
}
static fb_id gradient_of_median(const parts *p)
{
    return gradient_of(p, median_of_three(p));
}

/* open: of ties so many of a hundred elements may go any way, of 16 bits and of f32. A maximum of 16 bits that was
 * stored need not be equal to any of the values that it was made of, where these are computed anew; its gradient is no
 * number then. */
typedef struct {
    const char *name;
    fb_id (*build)(const parts *p);
    int open[2];
} nested;

static const nested cases[] = {
#define CASE(NAME, ...)                                                                                                \
    {                                                                                                                  \
#NAME, NAME,                                                                                                   \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
    CASE(maximum_of_three, 0),
    CASE(relu_of_maximum, 0),
    CASE(maximum_of_where, 0),
    CASE(clamp_of_where, 0),
    CASE(where_in_where, 0),
    CASE(where_in_both_ways, 0),
    CASE(quadrants, 0),
    CASE(median_of_three, 0),
    CASE(median_by_where, 0),
    CASE(masks_that_add_up, 0),
    CASE(magnitude_of_difference, 0),
    CASE(relu_of_relu, 0),
    CASE(leaky_of_leaky, 0),
    CASE(amax_of_three, 0),
    CASE(amin_of_relus, 0),
    CASE(amax_of_wheres, 0),
    CASE(sum_of_relus, 0),
    CASE(chosen_by_argmax, 0),
    CASE(read_by_argmax, 0),
    CASE(second_of_three, 0),
    CASE(two_largest, 0),
    CASE(index_of_three, 25, 25),
    CASE(gradient_of_maximum, 25, 25),
    CASE(gradient_of_amax, 100, 25),
    CASE(gradient_of_relu, 25, 25),
    CASE(gradient_of_where, 30, 25),
    CASE(gradient_of_median, 35, 25),
#undef CASE
};

static device device_of(int k)
{
    return (device){.how = k < ROUNDS_SOME ? (rounding)k : ROUNDS_SOME,
                    .order = k % 4,
                    .fused = k / 2 % 2,
                    .cuts = k % 4 == 1,
                    .ulps = k == 6 ? 2 : 0,
                    .key = 99 + (uint64_t)k};
}

static void hold_floats(const bench *e, const nested *n, const bar *b, fb_id want, fb_id less)
{
    bool wide = e->dtype == FB_F32;
    for (int k = 0; k < DEVICES; k++) {
        device d = device_of(k);
        double *gives = device_gives(&e->r, &d, want), *without = device_gives(&e->r, &d, less);
        fb_error_report report = judged(b, gives);
        if (!report.ok) fail_msg("%s, %s, device %d: %s", n->name, fb_dtype_name(e->dtype), k, report.worst);
        if (report.undecided * 100 > n->open[wide] * b->b.n)
            fail_msg("%s, %s: %lld are undecided", n->name, fb_dtype_name(e->dtype), (long long)report.undecided);
        if (n->open[wide] < 100) {
            for (int64_t i = 0; i < b->b.n; i++) gives[i] *= wide ? 1.01 : 1.04;
            if (judged(b, gives).ok) fail_msg("%s, %s: larger by a share", n->name, fb_dtype_name(e->dtype));
            if (judged(b, without).ok) fail_msg("%s, %s: a bias less", n->name, fb_dtype_name(e->dtype));
        }
        fb_free(gives);
        fb_free(without);
    }
}

/* What no lane turns no device turns. */
static void hold_integers(const bench *e, const nested *n, const bar *b, fb_id want)
{
    for (int k = 0; k < DEVICES; k++) {
        device d = device_of(k);
        double *gives = device_gives(&e->r, &d, want);
        int open = 0;
        for (int64_t i = 0; i < b->b.n; i++) {
            bool agree = true;
            for (int l = 1; l <= FB_TRIALS; l++) agree = agree && b->b.v[l][i] == b->b.v[0][i];
            open += !agree;
            if (agree && gives[i] != b->b.v[0][i]) fail_msg("%s, device %d: element %d", n->name, k, (int)i);
        }
        if (open * 100 > n->open[0] * b->b.n) fail_msg("%s: %d are undecided", n->name, open);
        fb_free(gives);
    }
}

static void test_choices_inside_choices(void **state)
{
    (void)state;
    static const fb_dtype dtypes[] = {FB_BF16, FB_F16, FB_F32};
    for (size_t k = 0; k < sizeof cases / sizeof *cases * 3; k++) {
        const nested *n = &cases[k / 3];
        bench *e = bench_open(dtypes[k % 3], 1000 + k);
        parts all = {e, e->p[0], e->p[1], e->p[2]}, fewer = {e, e->bare, e->p[1], e->p[2]};
        fb_id want = n->build(&all), less = n->build(&fewer);
        if (!fb_graph_output(e->r.g, less, NULL, &e->r.err)) fail_msg("%s", e->r.err.text);
        bar b = bar_open(e, want);
        if (fb_dtype_is_float(b.node->dtype))
            hold_floats(e, n, &b, want, less);
        else
            hold_integers(e, n, &b, want);
        bar_close(&b);
        bench_close(e);
    }
}

/* ---- edges ---- */

enum { EDGES = 20000 };

/* What a device gives of each of many elements; those that are open may be anything, and are few enough. */
static void hold_edges(rig *r, fb_id want, const double *gives, double open_at_most)
{
    if (!fb_graph_output(r->g, want, NULL, &r->err)) fail_msg("%s", r->err.text);
    if (!fb_graph_finish(r->g, &r->err)) fail_msg("%s", r->err.text);
    fb_trial_options o = {.trials = FB_TRIALS, .threads = 2, .files = rig_file, .files_ctx = r};
    trials *t = trials_of(r->g, &o, &want, 1, &r->err);
    int open = 0;
    for (int64_t k = 0; k < EDGES; k++) {
        double v = t->at[0].v[0][k], spread = spread_at(t, 0, k);
        bool special = false;
        for (int l = 0; l <= FB_TRIALS; l++) special |= isnan(t->at[0].v[l][k]) != isnan(v);
        open += special;
        if (special || (isnan(v) && isnan(gives[k]))) continue;
        if (!(fabs(gives[k] - v) <= 8 * spread))
            fail_msg("element %d: %g, expected %g ± %g", (int)k, gives[k], v, spread);
    }
    if (open > open_at_most * EDGES) fail_msg("%d are open", open);
    trials_free(t);
}

/* tanh(x) to the power of itself next to -1: -1 is a whole exponent, and the float beside it is none. */
static void test_powers_of_what_is_next_to_minus_one(void **state)
{
    (void)state;
    static double x[EDGES], gives[EDGES];
    rig r = rig_new();
    for (int k = 0; k < EDGES; k++) {
        x[k] = (double)(float)fb_rng_uniform(fb_rng_bits(8, (uint64_t)k), -10, -3);
        float t = tanhf((float)x[k]);
        if (t > -1 && k % 2) t = nextafterf(t, -1); /* as exact as devices promise */
        gives[k] = (double)powf(t, t);
    }
    fb_id t = add1(&r, FB_OP_TANH, data(&r, FB_F32, SHAPE(EDGES), x));
    hold_edges(&r, add2(&r, FB_OP_POW, t, t), gives, 0.6);
    rig_free(&r);
}

/* sqrt(a · b - c) where that is about 0: no number where it comes out below. */
static void test_roots_of_about_nothing(void **state)
{
    (void)state;
    static double a[EDGES], b[EDGES], c[EDGES], gives[EDGES];
    rig r = rig_new();
    for (int k = 0; k < EDGES; k++) {
        a[k] = (double)(float)fb_rng_uniform(fb_rng_bits(9, (uint64_t)k), 1, 2);
        b[k] = (double)(float)fb_rng_uniform(fb_rng_bits(10, (uint64_t)k), 1, 2);
        double far = k % 4 ? 1e-3 : 1e-7;
        c[k] = (double)(float)(a[k] * b[k] - far * fb_rng_uniform(fb_rng_bits(11, (uint64_t)k), -1, 1));
        float product = (float)a[k] * (float)b[k];
        gives[k] = (double)sqrtf(k % 2 ? product - (float)c[k] : fmaf((float)a[k], (float)b[k], -(float)c[k]));
    }
    fb_id product = add2(&r, FB_OP_MUL, data(&r, FB_F32, SHAPE(EDGES), a), data(&r, FB_F32, SHAPE(EDGES), b));
    fb_id rest = add2(&r, FB_OP_SUB, product, data(&r, FB_F32, SHAPE(EDGES), c));
    hold_edges(&r, add1(&r, FB_OP_SQRT, rest), gives, 0.3);
    rig_free(&r);
}

/* |floor tanh x| + 0.5 is a half or one and a half, and never the 0 that twice the difference leads to. Which lanes go
 * there is drawn by the node. */
static void test_steps_that_lead_away_from_a_pole(void **state)
{
    (void)state;
    static double x[EDGES], gives[EDGES];
    for (int before = 0; before < 6; before++) {
        rig r = rig_new();
        for (int k = 0; k < EDGES; k++) {
            x[k] = (double)(float)fb_rng_uniform(fb_rng_bits(12, (uint64_t)k), 8, 14);
            float t = tanhf((float)x[k]);
            gives[k] = (double)erff(1 / (fabsf(floorf(k % 2 ? t : nextafterf(t, 0))) + 0.5f));
        }
        for (int k = 0; k < before; k++) constant(&r, FB_F32, k);
        fb_id step = add1(&r, FB_OP_FLOOR, add1(&r, FB_OP_TANH, data(&r, FB_F32, SHAPE(EDGES), x)));
        fb_id over = add2(&r, FB_OP_ADD, add1(&r, FB_OP_ABS, step), constant(&r, FB_F32, 0.5));
        hold_edges(&r, add1(&r, FB_OP_ERF, add1(&r, FB_OP_RECIP, over)), gives, 0);
        rig_free(&r);
    }
}

/* Steps that may go either way, added up and clamped: from one bound to the other, and their variance with them. */
static void test_clamped_sums_of_steps(void **state)
{
    (void)state;
    enum { STEPS = 4, CERTAIN = 2, COLUMNS = 8 };
    static double x[EDGES * STEPS], w[STEPS * COLUMNS], gives[EDGES];
    static const double about[STEPS] = {-2, -3, 28, -28};
    rig r = rig_new();
    for (int k = 0; k < EDGES * STEPS; k++)
        x[k] = k % STEPS < CERTAIN ? -2 : (double)(float)fb_rng_uniform(fb_rng_bits(13, (uint64_t)k), 8.3, 9.3);
    for (int k = 0; k < STEPS * COLUMNS; k++) {
        double of = about[k / COLUMNS], off = fb_rng_uniform(fb_rng_bits(14, (uint64_t)k), -1, 1);
        w[k] = (double)(float)((k % COLUMNS < COLUMNS / 2 ? of : fabs(of) > 9 ? 28 : of) + off);
    }
    for (int i = 0; i < EDGES; i++) {
        float y[COLUMNS], mean = 0, variance = 0;
        for (int c = 0; c < COLUMNS; c++) {
            float sum = 0;
            for (int k = 0; k < STEPS; k++) sum += floorf(tanhf((float)x[i * STEPS + k])) * (float)w[k * COLUMNS + c];
            y[c] = fminf(fmaxf(sum, -1.5f), 2);
            mean += y[c] / COLUMNS;
        }
        for (int c = 0; c < COLUMNS; c++) variance += (y[c] - mean) * (y[c] - mean) / COLUMNS;
        gives[i] = (double)variance;
    }
    fb_id step = add1(&r, FB_OP_FLOOR, add1(&r, FB_OP_TANH, data(&r, FB_F32, SHAPE(EDGES, STEPS), x)));
    fb_id sum = add2(&r, FB_OP_MATMUL, step, data(&r, FB_F32, SHAPE(STEPS, COLUMNS), w));
    fb_attrs bounds = {.value = -1.5, .high = 2}, row = {.n_axes = 1, .axes = {1}, .keepdim = true};
    fb_id y = add_at(&r, FB_OP_CLAMP, sum, bounds);
    fb_id off = add2(&r, FB_OP_SUB, y, add_at(&r, FB_OP_MEAN, y, row)), square = add2(&r, FB_OP_MUL, off, off);
    hold_edges(&r, add_at(&r, FB_OP_MEAN, square, row), gives, 0);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices_inside_choices), cmocka_unit_test(test_powers_of_what_is_next_to_minus_one),
        cmocka_unit_test(test_roots_of_about_nothing), cmocka_unit_test(test_steps_that_lead_away_from_a_pole),
        cmocka_unit_test(test_clamped_sums_of_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
