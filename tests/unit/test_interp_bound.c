/* Bounds: what real single- and half-precision arithmetic gives stays within them, in every order of summation; they
 * are not absurdly wide; and what cannot be decided says so. */
#include "graph/element.h"
#include "tests/unit/interp_help.h"

#include <stdlib.h>

/* ---- a second evaluator, in float, that makes up a graph as it goes ---- */

enum { ROWS = 3, COLUMNS = 200, CELLS = ROWS * COLUMNS, STEPS = 12, WAYS = 4 };

/* A device: its order of summation, and whether it rounds 16-bit values at every node or carries them in float. */
typedef struct {
    enum { FORWARD, BACKWARD, PAIRS, LANES } order;
    bool rounds;
} way;

static const way ways[WAYS] = {{FORWARD, true}, {BACKWARD, false}, {PAIRS, true}, {LANES, false}};

typedef struct {
    fb_id id;
    int columns; /* COLUMNS, or 1 of a reduction that kept its dimension */
    float at[WAYS][CELLS];
} tensor;

static float sum_pairs(const float *x, int n)
{
    if (n == 1) return x[0];
    return sum_pairs(x, n / 2) + sum_pairs(x + n / 2, n - n / 2);
}

static float sum_row(const float *x, int n, int order)
{
    float sum = 0, lanes[8] = {0};
    if (order == PAIRS) return sum_pairs(x, n);
    for (int k = 0; k < n; k++) {
        if (order == FORWARD) sum += x[k];
        if (order == BACKWARD) sum += x[n - 1 - k];
        if (order == LANES) lanes[k % 8] += x[k];
    }
    return order == LANES ? sum_pairs(lanes, 8) : sum;
}

static float multiply_row(const float *x, int n, int order)
{
    if (n == 1) return x[0];
    int half = order == PAIRS || order == LANES ? n / 2 : order == BACKWARD ? 1 : n - 1;
    return multiply_row(x, half, order) * multiply_row(x + half, n - half, order);
}

static float point(fb_op op, float a, float b)
{
    switch ((int)op) {
    case FB_OP_NEG: return -a;
    case FB_OP_ABS: return fabsf(a);
    case FB_OP_EXP: return expf(a);
    case FB_OP_EXP2: return exp2f(a);
    case FB_OP_LOG: return logf(a);
    case FB_OP_LOG2: return log2f(a);
    case FB_OP_FLOOR: return floorf(a);
    case FB_OP_ROUND: return nearbyintf(a);
    case FB_OP_SIGN: return (float)((a > 0) - (a < 0));
    case FB_OP_POW: return powf(a, b);
    case FB_OP_REMAINDER: return fmodf(a, b) + (fmodf(a, b) != 0 && (fmodf(a, b) < 0) != (b < 0) ? b : 0);
    case FB_OP_SQRT: return sqrtf(a);
    case FB_OP_RSQRT: return 1 / sqrtf(a);
    case FB_OP_RECIP: return 1 / a;
    case FB_OP_SIN: return sinf(a);
    case FB_OP_COS: return cosf(a);
    case FB_OP_TANH: return tanhf(a);
    case FB_OP_SIGMOID: return 1 / (1 + expf(-a));
    case FB_OP_ERF: return erff(a);
    case FB_OP_GELU: return 0.5f * a * (1 + erff(a * (float)M_SQRT1_2));
    case FB_OP_RELU: return a < 0 ? 0 : a;
    case FB_OP_ADD: return a + b;
    case FB_OP_SUB: return a - b;
    case FB_OP_MUL: return a * b;
    case FB_OP_DIV: return a / b;
    case FB_OP_MINIMUM: return b < a || isnan(b) ? b : a;
    case FB_OP_MAXIMUM: return b > a || isnan(b) ? b : a;
    default: fail_msg("%s has no float form here", fb_op_get(op)->name); return 0;
    }
}

static float reduce_row(fb_op op, const float *x, int n, int order)
{
    float acc = x[0];
    if (op == FB_OP_SUM) return sum_row(x, n, order);
    if (op == FB_OP_MEAN)
        return order == LANES ? sum_row(x, n, order) * (1.0f / (float)n) : sum_row(x, n, order) / (float)n;
    if (op == FB_OP_PROD) return multiply_row(x, n, order);
    for (int k = 1; k < n; k++) acc = point(op == FB_OP_AMAX ? FB_OP_MAXIMUM : FB_OP_MINIMUM, acc, x[k]);
    return acc;
}

static const fb_op unary[] = {FB_OP_NEG, FB_OP_ABS,  FB_OP_EXP,  FB_OP_SIN,  FB_OP_COS,   FB_OP_TANH,  FB_OP_SIGMOID,
                              FB_OP_ERF, FB_OP_GELU, FB_OP_RELU, FB_OP_EXP2, FB_OP_FLOOR, FB_OP_ROUND, FB_OP_SIGN};
static const fb_op positive[] = {FB_OP_LOG, FB_OP_SQRT, FB_OP_RSQRT, FB_OP_RECIP, FB_OP_LOG2}; /* after exp */
static const fb_op binary[] = {FB_OP_ADD,     FB_OP_SUB,     FB_OP_MUL,      FB_OP_DIV,
                               FB_OP_MINIMUM, FB_OP_MAXIMUM, FB_OP_REMAINDER};
static const fb_op reducing[] = {FB_OP_SUM, FB_OP_MEAN, FB_OP_AMAX, FB_OP_AMIN, FB_OP_PROD};
#define PICK(d, table) table[roll_below(d, (int)(sizeof table / sizeof *table))]

typedef struct {
    rig r;
    fb_dtype dtype;
    dice d;
    int n;
    tensor t[4 * STEPS];
} maker;

/* A tensor as the device would hold it after its node. */
static void round_node(maker *m, tensor *t)
{
    for (int w = 0; w < WAYS; w++) {
        for (int k = 0; k < ROWS * t->columns && ways[w].rounds && m->dtype != FB_F32; k++)
            t->at[w][k] = (float)fb_dtype_round(m->dtype, t->at[w][k]);
    }
}

static tensor *make_point(maker *m, fb_op op, const tensor *a, const tensor *b)
{
    tensor *t = &m->t[m->n++];
    t->id = b ? add2(&m->r, op, a->id, b->id) : add1(&m->r, op, a->id);
    t->columns = b && b->columns > a->columns ? b->columns : a->columns;
    for (int w = 0; w < WAYS; w++) {
        for (int k = 0; k < ROWS * t->columns; k++) {
            float x = a->at[w][a->columns == t->columns ? k : k / t->columns];
            float y = !b ? 0 : b->at[w][b->columns == t->columns ? k : k / t->columns];
            t->at[w][k] = point(op, x, y);
        }
    }
    round_node(m, t);
    return t;
}

static tensor *make_reduction(maker *m, fb_op op, const tensor *a)
{
    tensor *t = &m->t[m->n++];
    t->id = add_at(&m->r, op, a->id, (fb_attrs){.n_axes = 1, .axes = {1}, .keepdim = true});
    t->columns = 1;
    for (int w = 0; w < WAYS; w++) {
        for (int k = 0; k < ROWS; k++)
            t->at[w][k] = reduce_row(op, a->at[w] + k * a->columns, a->columns, (int)ways[w].order);
    }
    round_node(m, t);
    return t;
}

static tensor *make_running(maker *m, fb_op op, const tensor *a)
{
    tensor *t = &m->t[m->n++];
    t->id = add_at(&m->r, op, a->id, (fb_attrs){.dim = 1});
    t->columns = a->columns;
    for (int w = 0; w < WAYS; w++) {
        for (int k = 0; k < ROWS * a->columns; k++) {
            int row = k / a->columns * a->columns;
            t->at[w][k] = reduce_row(fb_op_running(op), a->at[w] + row, k - row + 1, (int)ways[w].order);
        }
    }
    round_node(m, t);
    return t;
}

static void make_input(maker *m, const double *values)
{
    tensor *t = &m->t[m->n++];
    t->id = data(&m->r, m->dtype, SHAPE(ROWS, COLUMNS), values);
    t->columns = COLUMNS;
    for (int w = 0; w < WAYS; w++) {
        for (int k = 0; k < CELLS; k++) t->at[w][k] = (float)values[k];
    }
}

static void make_step(maker *m)
{
    const tensor *a = &m->t[roll_below(&m->d, m->n)], *b = &m->t[roll_below(&m->d, m->n)];
    switch (roll_below(&m->d, 10)) {
    case 0:
    case 1: make_point(m, PICK(&m->d, unary), a, NULL); break;
    case 2:
        make_point(m, PICK(&m->d, positive), make_point(m, FB_OP_EXP, make_point(m, FB_OP_TANH, a, NULL), NULL), NULL);
        break;
    case 3: make_reduction(m, PICK(&m->d, reducing), a); break;
    case 4: make_running(m, FB_OP_CUMSUM, a); break;
    case 9: make_running(m, FB_OP_CUMPROD, a); break;
    case 5: make_point(m, FB_OP_POW, make_point(m, FB_OP_SIGMOID, a, NULL), b); break;
    default: make_point(m, PICK(&m->d, binary), a, b);
    }
}

/* Every finite bound holds; a ratio of bound to error for what had an error. */
static int compare_node(const maker *m, const tensor *t, double *ratios)
{
    const fb_tensor *ref = get(&m->r, t->id);
    int n = 0;
    for (int k = 0; k < ROWS * t->columns; k++) {
        double worst = 0, bound = bound_at(ref, k);
        if (isinf(bound)) continue;
        for (int w = 0; w < WAYS; w++) {
            double stored = fb_dtype_round(m->dtype, t->at[w][k]);
            double error = same(stored, ref->v[k]) ? 0 : fabs(stored - ref->v[k]);
            if (!(error <= bound))
                fail_msg("%s[%d] as %s: %.9g is %g from %.17g, beyond the bound %g", m->r.g->nodes[t->id].name, k,
                         fb_dtype_name(m->dtype), stored, error, ref->v[k], bound);
            worst = fmax(worst, error);
        }
        if (worst > 0) ratios[n++] = bound / worst;
    }
    return n;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return x[n / 2];
}

static void simulate(fb_dtype dtype, int graphs)
{
    maker *m = fb_calloc(1, sizeof *m);
    double *ratios = fb_calloc((size_t)graphs * 4 * STEPS * CELLS, sizeof *ratios), values[2][CELLS];
    int n = 0, finite = 0, all = 0;
    for (int i = 0; i < graphs; i++) {
        *m = (maker){.r = rig_new(), .dtype = dtype, .d = {(uint64_t)i * 977 + dtype}};
        for (int k = 0; k < 2 * CELLS; k++)
            values[k / CELLS][k % CELLS] = fb_dtype_round(dtype, roll_between(&m->d, i % 2 ? 0 : -2, 2));
        make_input(m, values[0]);
        make_input(m, values[1]);
        for (int s = 0; s < STEPS; s++) make_step(m);
        run(&m->r, m->t[m->n - 1].id);
        for (int t = 0; t < m->n; t++) {
            n += compare_node(m, &m->t[t], ratios + n);
            const fb_tensor *ref = get(&m->r, m->t[t].id);
            for (int64_t k = 0; k < ref->n; k++) all++, finite += isfinite(bound_at(ref, k));
        }
        rig_free(&m->r);
    }
    double middle = median(ratios, n);
    print_message("# %s: %d elements, %.1f %% decided, bound / error: median %.1f, 90 %% below %.3g\n",
                  fb_dtype_name(dtype), all, 100.0 * finite / all, middle, ratios[n * 9 / 10]);
    assert_true(n > 1000);
    assert_true(middle < 1e4);
    assert_true(finite > all / 2);
    fb_free(ratios);
    fb_free(m);
}

static void float_arithmetic_stays_within_bounds(void **state)
{
    (void)state;
    simulate(FB_F32, 150);
}

static void half_arithmetic_stays_within_bounds(void **state)
{
    (void)state;
    simulate(FB_F16, 60);
    simulate(FB_BF16, 60);
}

/* ---- layer_norm → tanh → dot ---- */

static fb_id over_rows(rig *r, fb_op op, fb_id x)
{
    return add_at(r, op, x, (fb_attrs){.n_axes = 1, .axes = {-1}, .keepdim = true});
}

static void a_layer_norm_keeps_a_useful_bound(void **state)
{
    (void)state;
    enum { B = 8, D = 256 };
    rig r = rig_new();
    fb_attrs at = {.dtype = FB_F32, .shape = SHAPE(B, D), .high = 1};
    fb_id x = add(&r, FB_OP_INPUT, &at, 0, NULL);
    at.shape = SHAPE(D, 1);
    fb_id w = add(&r, FB_OP_PARAM, &at, 0, NULL);
    fb_id centred = add2(&r, FB_OP_SUB, x, over_rows(&r, FB_OP_MEAN, x));
    fb_id variance = over_rows(&r, FB_OP_MEAN, add2(&r, FB_OP_MUL, centred, centred));
    fb_id norm = add2(&r, FB_OP_MUL, centred, add1(&r, FB_OP_RSQRT, variance));
    fb_id dot = add2(&r, FB_OP_MATMUL, add1(&r, FB_OP_TANH, norm), w);
    run(&r, dot);
    const fb_tensor *t = get(&r, dot);
    double largest = 0;
    for (int k = 0; k < B; k++) largest = fmax(largest, fabs(t->v[k]));
    for (int k = 0; k < B; k++) assert_true(t->bound[k] > 0 && t->bound[k] < 1e-3 * largest);
    rig_free(&r);
}

/* Scores of -1e30 are no scores, whatever they round to: of their softmax everything is known. */
static void a_masked_softmax_keeps_a_useful_bound(void **state)
{
    (void)state;
    enum { N = 6 };
    rig r = rig_new();
    fb_attrs at = {.dtype = FB_F32, .shape = SHAPE(N, N), .high = 1};
    fb_id x = add(&r, FB_OP_INPUT, &at, 0, NULL);
    fb_id column = add(&r, FB_OP_IOTA, &(fb_attrs){.dtype = FB_I64, .shape = SHAPE(N)}, 0, NULL);
    fb_id row = add_at(&r, FB_OP_VIEW, column, (fb_attrs){.shape = SHAPE(N, 1)});
    fb_id seen = add2(&r, FB_OP_GE, row, column), none = constant(&r, FB_F32, -1e30);
    fb_id scores = add(&r, FB_OP_WHERE, NULL, 3, (fb_id[]){seen, add2(&r, FB_OP_MUL, x, x), none});
    fb_id shifted = add2(&r, FB_OP_SUB, scores, over_rows(&r, FB_OP_AMAX, scores));
    fb_id e = add1(&r, FB_OP_EXP, shifted), two = add1(&r, FB_OP_EXP2, shifted);
    fb_id soft = add2(&r, FB_OP_DIV, e, over_rows(&r, FB_OP_SUM, e)), flat = add1(&r, FB_OP_SIGMOID, shifted);
    run_keeping_all(&r, (fb_id[]){soft, two, flat, add1(&r, FB_OP_TANH, shifted)}, 4, true);
    for (int k = 0; k < N * N; k++) {
        bool masked = k % N > k / N;
        assert_true(bound_at(get(&r, soft), k) < 1e-5 && bound_at(get(&r, two), k) < 1e-5);
        if (masked) assert_true(value_at(get(&r, soft), k) == 0 && bound_at(get(&r, soft), k) < 1e-30);
        assert_true(bound_at(get(&r, flat), k) <= 1.001);
    }
    rig_free(&r);
}

/* ---- long sums ---- */

/* Orders that kernels take, in float. */
static double worst_order(const float *x, int n, double want)
{
    double worst = 0;
    for (int order = 0; order <= LANES; order++) worst = fmax(worst, fabs(sum_row(x, n, order) - want));
    return worst;
}

/* Of equal terms all roundings go the same way, of unlike ones they do not: the one bound must be wide, the other
 * narrow enough to miss a term in. */
static void long_sums_of_equal_terms_stay_within_bounds(void **state)
{
    (void)state;
    enum { N = 8272, CASES = 6 };
    double *values = fb_calloc(N, sizeof *values);
    float *x = fb_calloc(N, sizeof *x);
    dice d = {77};
    for (int i = 0; i < CASES; i++) {
        static const double equal[] = {3.01e-5, 0.1, 1 / 3.0};
        double sum = 0, magnitude = 0;
        for (int k = 0; k < N; k++) {
            values[k] = x[k] = (float)(i < 3 ? equal[i] : i == 3 ? equal[k % 3] : roll_between(&d, i == 4 ? 0 : -1, 1));
            sum += values[k];
            magnitude += fabs(values[k]);
        }
        rig r = rig_new();
        fb_id in = data(&r, FB_F32, SHAPE(N), values), total = add1(&r, FB_OP_SUM, in);
        fb_id running = add_at(&r, FB_OP_CUMSUM, in, (fb_attrs){0});
        fb_id product = add2(&r, FB_OP_MATMUL, add_at(&r, FB_OP_VIEW, in, (fb_attrs){.shape = SHAPE(1, N)}),
                             add_at(&r, FB_OP_VIEW, in, (fb_attrs){.shape = SHAPE(N, 1)}));
        run_keeping_all(&r, (fb_id[]){total, running, product}, 3, true);
        double bound = bound_at(get(&r, total), 0);
        assert_true(worst_order(x, N, sum) <= bound);
        assert_true(worst_order(x, N, sum) <= bound_at(get(&r, running), N - 1));
        if (i >= 4) assert_true(bound < magnitude / N);
        double dot = 0;
        float in_order = 0;
        for (int k = 0; k < N; k++) dot += values[k] * values[k], in_order += x[k] * x[k];
        assert_true(fabs(in_order - dot) <= bound_at(get(&r, product), 0));
        if (i >= 4) assert_true(bound_at(get(&r, product), 0) < dot / N);
        rig_free(&r);
    }
    fb_free(values);
    fb_free(x);
}

/* Nothing is rounded: a term less is found however many there are. */
static void sums_of_whole_terms_are_exact(void **state)
{
    (void)state;
    enum { N = 100000 };
    double *values = fb_calloc(N, sizeof *values);
    rig r = rig_new();
    for (int k = 0; k < N; k++) values[k] = k % 5 - 1.5;
    fb_id x = data(&r, FB_F32, SHAPE(N), values), sum = add1(&r, FB_OP_SUM, x);
    fb_id running = add_at(&r, FB_OP_CUMSUM, x, (fb_attrs){0});
    run_keeping_all(&r, (fb_id[]){sum, running}, 2, true);
    assert_true(bound_at(get(&r, sum), 0) == 0);
    for (int k = 0; k < N; k++) assert_true(bound_at(get(&r, running), k) == 0);
    rig_free(&r);
    for (int k = 0; k < N; k++) values[k] = k % 5 ? 0.5 : 0x1p-20; /* more bits together than a float has */
    r = rig_new();
    sum = add1(&r, FB_OP_SUM, data(&r, FB_F32, SHAPE(N), values));
    run(&r, sum);
    assert_true(bound_at(get(&r, sum), 0) > 0);
    rig_free(&r);
    fb_free(values);
}

/* log(exp(x)) is x within a few ulps: as good as equal, and undecided where it matters. */
static fb_id about(rig *r, fb_id x)
{
    return add1(r, FB_OP_LOG, add1(r, FB_OP_EXP, x));
}

/* ---- matmul ---- */

/* As the tensor cores take a float that nobody rounded before. */
static float cut_to_tf32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0xffffe000;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

static void check_product(fb_dtype dtype, fb_precision precision, double reach)
{
    enum { M = 5, K = 300, N = 7 };
    dice d = {21};
    double a[M * K], b[K * N];
    for (int k = 0; k < M * K; k++) a[k] = fb_dtype_round(dtype, roll_between(&d, -1, 1));
    for (int k = 0; k < K * N; k++) b[k] = fb_dtype_round(dtype, roll_between(&d, -1, 1));
    rig r = rig_new();
    fb_id x = data(&r, dtype, SHAPE(M, K), a), y = data(&r, dtype, SHAPE(K, N), b);
    fb_id tx = add1(&r, FB_OP_TANH, x), ty = add1(&r, FB_OP_TANH, y);
    fb_attrs at = {.precision = precision};
    fb_id c[] = {add(&r, FB_OP_MATMUL, &at, 2, (fb_id[]){x, y}), add(&r, FB_OP_MATMUL, &at, 2, (fb_id[]){tx, y}),
                 add(&r, FB_OP_MATMUL, &at, 2, (fb_id[]){x, ty}), add(&r, FB_OP_MATMUL, &at, 2, (fb_id[]){tx, ty})};
    run_keeping_all(&r, c, 4, true);
    for (int which = 0; which < 4; which++) {
        const fb_tensor *t = get(&r, c[which]);
        for (int i = 0; i < M * N; i++) {
            float sum = 0;
            double magnitude = 0;
            for (int k = 0; k < K; k++) {
                float p = (float)a[i / N * K + k], q = (float)b[k * N + i % N];
                if (which & 1) p = (float)fb_dtype_round(dtype, tanhf(p));
                if (which & 2) q = (float)fb_dtype_round(dtype, tanhf(q));
                if (precision == FB_PRECISION_TF32) p = cut_to_tf32(p), q = cut_to_tf32(q);
                sum += p * q;
                magnitude += fabs((double)p * q);
            }
            double error = fabs(fb_dtype_round(dtype, sum) - t->v[i]);
            assert_true(error <= t->bound[i]);
            assert_true(t->bound[i] <= reach * magnitude);
        }
    }
    rig_free(&r);
}

static void products_stay_within_bounds(void **state)
{
    (void)state;
    check_product(FB_F32, FB_PRECISION_IEEE, 1e-4);
    check_product(FB_F32, FB_PRECISION_TF32, 4e-3);
    check_product(FB_F16, FB_PRECISION_IEEE, 2e-2);
    check_product(FB_BF16, FB_PRECISION_IEEE, 2e-1);
}

static void an_undecided_element_spoils_its_row_alone(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_F32, SHAPE(3, 2), (double[]){1, 2.5, 3, 4.5, 5.5, 6.5}), identity, y;
    identity = data(&r, FB_F32, SHAPE(2, 2), (double[]){1, 0, 0, 1});
    y = add1(&r, FB_OP_FLOOR, about(&r, x)); /* undecided at 1 and 3 */
    fb_id right = add2(&r, FB_OP_MATMUL, y, identity);
    fb_id left = add2(&r, FB_OP_MATMUL, data(&r, FB_F32, SHAPE(1, 3), (double[]){0, 0, 1}), y);
    run_keeping_all(&r, (fb_id[]){right, left}, 2, true);
    for (int k = 0; k < 6; k++) assert_true(isinf(bound_at(get(&r, right), k)) == (k < 4));
    assert_true(isinf(bound_at(get(&r, left), 0)) && isfinite(bound_at(get(&r, left), 1)));
    rig_free(&r);
}

/* ---- undecided ---- */

static void comparisons_of_close_values_are_undecided(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_F32, SHAPE(3), (double[]){1, 2, 3}), two = constant(&r, FB_F32, 2), near = about(&r, x);
    fb_id less = add2(&r, FB_OP_LT, near, two), exact = add2(&r, FB_OP_LE, x, two);
    fb_id chosen = add(&r, FB_OP_WHERE, NULL, 3, (fb_id[]){less, x, two});
    fb_id far = add(&r, FB_OP_WHERE, NULL, 3, (fb_id[]){less, x, add1(&r, FB_OP_NEG, x)});
    fb_id counted = add1(&r, FB_OP_SUM, add_at(&r, FB_OP_CAST, less, (fb_attrs){.dtype = FB_I64}));
    run_keeping_all(&r, (fb_id[]){chosen, far, counted, exact}, 4, true);
    assert_true(bound_at(get(&r, less), 0) == 0 && isinf(bound_at(get(&r, less), 1)) &&
                bound_at(get(&r, less), 2) == 0);
    assert_null(get(&r, exact)->bound);
    assert_true(bound_at(get(&r, chosen), 1) == 0); /* both branches are 2 */
    assert_true(bound_at(get(&r, far), 1) == 4 && bound_at(get(&r, far), 0) == 0);
    assert_true(isinf(bound_at(get(&r, counted), 0)));
    rig_free(&r);
}

static void steps_near_their_edge_are_undecided(void **state)
{
    (void)state;
    static const fb_op ops[] = {FB_OP_FLOOR, FB_OP_CEIL, FB_OP_ROUND, FB_OP_SIGN};
    static const double edges[] = {3, 3, 2.5, 0};
    for (int i = 0; i < 4; i++) {
        rig r = rig_new();
        double values[] = {edges[i], edges[i] + 0.25};
        fb_id x = data(&r, FB_F32, SHAPE(2), values), one = constant(&r, FB_F32, 1);
        fb_id near = add2(&r, FB_OP_SUB, about(&r, add2(&r, FB_OP_ADD, x, one)), one), y = add1(&r, ops[i], near);
        fb_id whole = add_at(&r, FB_OP_CAST, add2(&r, FB_OP_ADD, near, constant(&r, FB_F32, 3 - edges[i])),
                             (fb_attrs){.dtype = FB_I32});
        run_keeping_all(&r, (fb_id[]){y, whole}, 2, true);
        assert_true(isinf(bound_at(get(&r, y), 0)) && bound_at(get(&r, y), 1) == 0);
        assert_true(isinf(bound_at(get(&r, whole), 0)) && bound_at(get(&r, whole), 1) == 0);
        rig_free(&r);
    }
}

static void argmax_of_close_values_is_undecided(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_F32, SHAPE(3, 3), (double[]){1, 2, 2, 1, 2, 3, 5, 5, 1});
    fb_attrs last = {.n_axes = 1, .axes = {1}};
    fb_id sure = add_at(&r, FB_OP_ARGMAX, x, last), unsure = add_at(&r, FB_OP_ARGMAX, about(&r, x), last);
    fb_id table = data(&r, FB_F32, SHAPE(3), (double[]){10, 20, 30}), y = add2(&r, FB_OP_EMBEDDING, table, unsure);
    fb_id z = add(&r, FB_OP_SCATTER_ADD, &(fb_attrs){.start = 3}, 2, (fb_id[]){sure, unsure});
    run_keeping_all(&r, (fb_id[]){sure, y, z}, 3, true);
    EXPECT(&r, sure, 1, 2, 0);
    assert_true(!get(&r, sure)->bound);
    for (int k = 0; k < 3; k++) {
        assert_true(isinf(bound_at(get(&r, unsure), k)) == (k != 1));
        assert_true(isinf(bound_at(get(&r, y), k)) == (k != 1));
        assert_true(isinf(bound_at(get(&r, z), k)));
    }
    rig_free(&r);
}

/* Elements whose order roundings may turn are undecided, the others of the row are not; exact equals are decided. */
static void a_rank_among_close_values_is_undecided(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_F32, SHAPE(2, 4), (double[]){2, 7, 2, 1, 4, 3, 2, 1});
    fb_id sure = add_at(&r, FB_OP_RANK, x, (fb_attrs){.dim = 1});
    fb_id up = add_at(&r, FB_OP_RANK, about(&r, x), (fb_attrs){.dim = 1});
    fb_id down = add_at(&r, FB_OP_RANK, about(&r, x), (fb_attrs){.dim = 1, .start = 1});
    run_keeping_all(&r, (fb_id[]){sure, up, down}, 3, true);
    EXPECT(&r, sure, 1, 3, 2, 0, 3, 2, 1, 0);
    assert_true(!get(&r, sure)->bound);
    for (int k = 0; k < 8; k++) {
        assert_true(isinf(bound_at(get(&r, up), k)) == (k == 0 || k == 2));
        assert_true(isinf(bound_at(get(&r, down), k)) == (k == 0 || k == 2));
    }
    rig_free(&r);
}

static void overflow_is_undecided_and_infinity_is_not(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_F16, SHAPE(2), (double[]){300, 2}), square = add2(&r, FB_OP_MUL, x, x);
    fb_id f = data(&r, FB_F32, SHAPE(2), (double[]){1, 2}), near = about(&r, f),
          hidden = constant(&r, FB_F32, -INFINITY);
    fb_id mask = data(&r, FB_BOOL, SHAPE(2), (double[]){1, 0});
    fb_id masked = add(&r, FB_OP_WHERE, NULL, 3, (fb_id[]){mask, near, hidden});
    fb_id shifted = add2(&r, FB_OP_SUB, masked, over_rows(&r, FB_OP_AMAX, masked)), e = add1(&r, FB_OP_EXP, shifted);
    fb_id y = add2(&r, FB_OP_DIV, e, over_rows(&r, FB_OP_SUM, e));
    fb_id inverse = add1(&r, FB_OP_RECIP, add2(&r, FB_OP_SUB, near, f));
    run_keeping_all(&r, (fb_id[]){square, y, inverse}, 3, true);
    assert_true(isinf(bound_at(get(&r, square), 0)) && bound_at(get(&r, square), 1) == 0);
    assert_true(isinf(get(&r, masked)->v[1]) && bound_at(get(&r, masked), 1) == 0);
    assert_true(isinf(get(&r, shifted)->v[1]) && bound_at(get(&r, shifted), 1) == 0);
    assert_true(get(&r, y)->v[0] == 1 && get(&r, y)->v[1] == 0);
    assert_true(bound_at(get(&r, y), 0) < 1e-5 && bound_at(get(&r, y), 1) < 1e-30);
    assert_true(isinf(bound_at(get(&r, inverse), 0)));
    rig_free(&r);
}

/* 1/0 − 1/0, of a zero that a device may not hit: no NaN there. A branch that is not taken does not matter, nor which
 * one is when both are NaN. */
static void a_nan_that_may_be_none_is_undecided(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_F32, SHAPE(2), (double[]){1, 2}), near = about(&r, x), nan = constant(&r, FB_F32, NAN);
    fb_id inverse = add1(&r, FB_OP_RECIP, add2(&r, FB_OP_SUB, near, x)), lost = add2(&r, FB_OP_SUB, inverse, inverse);
    fb_id mask = data(&r, FB_BOOL, SHAPE(2), (double[]){1, 0}), unsure = add2(&r, FB_OP_LT, near, x);
    fb_id taken = add(&r, FB_OP_WHERE, NULL, 3, (fb_id[]){mask, lost, x});
    fb_id either = add(&r, FB_OP_WHERE, NULL, 3, (fb_id[]){unsure, nan, x});
    fb_id other = add(&r, FB_OP_WHERE, NULL, 3, (fb_id[]){unsure, x, nan});
    fb_id both = add(&r, FB_OP_WHERE, NULL, 3, (fb_id[]){unsure, nan, nan});
    run_keeping_all(&r, (fb_id[]){taken, either, other, both}, 4, true);
    assert_true(isnan(get(&r, taken)->v[0]) && isinf(bound_at(get(&r, taken), 0)));
    assert_true(get(&r, taken)->v[1] == 2 && bound_at(get(&r, taken), 1) == 0);
    assert_true(isinf(bound_at(get(&r, either), 0)) && isinf(bound_at(get(&r, other), 0)));
    assert_true(isnan(get(&r, both)->v[0]) && bound_at(get(&r, both), 0) == 0);
    rig_free(&r);
}

static void what_is_exact_has_no_bound(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_F32, SHAPE(4), (double[]){1, -2, 3.5, 0.1f}), two = constant(&r, FB_F32, 2);
    fb_id y[] = {add1(&r, FB_OP_RELU, x),
                 add1(&r, FB_OP_AMAX, x),
                 add2(&r, FB_OP_MAXIMUM, x, two),
                 add_at(&r, FB_OP_FLIP, x, (fb_attrs){.n_axes = 1, .axes = {0}}),
                 add2(&r, FB_OP_MUL, x, two) /* fits */,
                 add_at(&r, FB_OP_CAST, add2(&r, FB_OP_GT, x, two), (fb_attrs){0})};
    run_keeping_all(&r, y, 6, true);
    for (int i = 0; i < 6; i++) assert_null(get(&r, y[i])->bound);
    rig_free(&r);
}

/* What a long run of the simulation once found. */
static void orders_and_signs_that_a_device_may_choose_are_undecided(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_F32, SHAPE(4), (double[]){1e30, 1e-30, 1e30, 1e-30}), one = constant(&r, FB_F32, 1);
    fb_id zero = add1(&r, FB_OP_ROUND, data(&r, FB_F32, SCALAR, (double[]){-0.25}));
    fb_id nan = data(&r, FB_F32, SCALAR, (double[]){NAN}), tiny = data(&r, FB_F64, SCALAR, (double[]){0x1p-1060});
    fb_id product = add1(&r, FB_OP_PROD, x); /* 1e60 on the way, in some order */
    fb_id inverse = add2(&r, FB_OP_DIV, one, zero), power = add2(&r, FB_OP_POW, about(&r, one), nan);
    fb_id small = add1(&r, FB_OP_TANH, add_at(&r, FB_OP_CAST, tiny, (fb_attrs){.dtype = FB_F32})); /* flushed to zero */
    run_keeping_all(&r, (fb_id[]){product, inverse, power, small}, 4, true);
    assert_true(isinf(bound_at(get(&r, product), 0)));
    assert_true(isinf(bound_at(get(&r, inverse), 0)));
    assert_true(isinf(bound_at(get(&r, power), 0)));
    assert_true(bound_at(get(&r, small), 0) >= get(&r, small)->v[0]);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float_arithmetic_stays_within_bounds),
        cmocka_unit_test(half_arithmetic_stays_within_bounds),
        cmocka_unit_test(a_layer_norm_keeps_a_useful_bound),
        cmocka_unit_test(a_masked_softmax_keeps_a_useful_bound),
        cmocka_unit_test(long_sums_of_equal_terms_stay_within_bounds),
        cmocka_unit_test(sums_of_whole_terms_are_exact),
        cmocka_unit_test(products_stay_within_bounds),
        cmocka_unit_test(an_undecided_element_spoils_its_row_alone),
        cmocka_unit_test(comparisons_of_close_values_are_undecided),
        cmocka_unit_test(steps_near_their_edge_are_undecided),
        cmocka_unit_test(argmax_of_close_values_is_undecided),
        cmocka_unit_test(a_rank_among_close_values_is_undecided),
        cmocka_unit_test(overflow_is_undecided_and_infinity_is_not),
        cmocka_unit_test(a_nan_that_may_be_none_is_undecided),
        cmocka_unit_test(what_is_exact_has_no_bound),
        cmocka_unit_test(orders_and_signs_that_a_device_may_choose_are_undecided),
    };
    return cmocka_run_group_tests_name("interp bounds", tests, NULL, NULL);
}
