/* The judge: what honest roundings give is right at every size and dtype, and small systematic errors are not. Trials
 * are made here by hand: a value and its two neighbours. */
#include "unit/chain_cases.h"
#include "unit/score_kept.h"

#include "base/mem.h"
#include "base/rng.h"
#include "graph/element.h"
#include "measure/check_parts.h"
#include "measure/judge.h"
#include "measure/judging.h"

#include <float.h>
#include <math.h>

typedef struct {
    fb_node node;
    fb_judge_shape shape;
    int64_t n;
    double *exact, *lane[FB_TRIALS];
    void *got;
} tensor;

/* Up or down to a neighbour in the dtype, as often as it is near. */
static double either_way(fb_dtype dtype, double x, double u)
{
    double near, other;
    fb_elements_round(dtype, 1, &x, &near);
    if (near == x) return x;
    double step = x * (dtype == FB_F32 ? 0x1p-23 : dtype == FB_F16 ? 0x1p-10 : 0x1p-7);
    double beyond = (near < x) == (x > 0) ? x + step / 2 : x - step / 2;
    fb_elements_round(dtype, 1, &beyond, &other);
    if (other == near)
        beyond = near < x ? near + fabs(step) : near - fabs(step), fb_elements_round(dtype, 1, &beyond, &other);
    double of_other = fabs(x - near) / fabs(other - near);
    return u < of_other ? other : near;
}

static tensor tensor_new(fb_dtype dtype, int64_t rows, int64_t columns, double mean)
{
    tensor t = {.node = {.name = "t", .dtype = dtype, .shape = {2, {rows, columns}}}, .n = rows * columns};
    t.shape = fb_judgement_shape_of(&t.node);
    t.exact = fb_alloc((size_t)t.n * sizeof(double));
    for (int l = 0; l < FB_TRIALS; l++) t.lane[l] = fb_alloc((size_t)t.n * sizeof(double));
    t.got = fb_alloc((size_t)t.n * 8);
    for (int64_t k = 0; k < t.n; k++) {
        double x = t.exact[k] = mean + fb_rng_normal(fb_rng_bits(11, (uint64_t)k), 0, 1) + 1e-9;
        for (int l = 0; l < FB_TRIALS; l++)
            t.lane[l][k] = either_way(dtype, x, fb_rng_uniform(fb_rng_bits((uint64_t)l + 77, (uint64_t)k), 0, 1));
    }
    fb_elements_store(dtype, t.n, t.exact, t.got);
    return t;
}

static void tensor_free(tensor *t)
{
    fb_free(t->exact);
    for (int l = 0; l < FB_TRIALS; l++) fb_free(t->lane[l]);
    fb_free(t->got);
}

/* In blocks of `most` elements. */
static fb_error_report judged_in(const tensor *t, int64_t most)
{
    fb_judgement j;
    fb_spread s = {0};
    fb_error_report e;
    fb_judgement_clear(&j);
    int size = fb_dtype_size(t->shape.dtype);
    for (int64_t at = 0, n; at < t->n; at += n) {
        n = t->n - at < most ? t->n - at : most;
        fb_trial_block b = {.first = at, .n = n, .lanes = 1 + FB_TRIALS, .v = {t->exact + at}};
        float *spread = fb_alloc((size_t)n * sizeof *spread);
        for (int l = 0; l < FB_TRIALS; l++) b.v[l + 1] = t->lane[l] + at;
        fb_spread_add(&s, &t->shape, &b, spread);
        fb_judgement_add(&j, &t->shape, at, n, b.v[0], NULL, spread, (const char *)t->got + at * size);
        fb_free(spread);
    }
    fb_judgement_end(&j, &s, &t->shape, &t->node, &e);
    return e;
}

static fb_error_report judged(const tensor *t)
{
    return judged_in(t, 1 << 16);
}

static void store(tensor *t, int64_t k, double x)
{
    fb_elements_store(t->shape.dtype, 1, &x, (char *)t->got + k * fb_dtype_size(t->shape.dtype));
}

static const struct {
    int64_t rows, columns;
} sizes[] = {{1, 1}, {1, 7}, {3, 1}, {8, 40}, {1, 5000}, {300, 77}, {1000, 64}};
static const fb_dtype dtypes[] = {FB_F32, FB_F16, FB_BF16};

#define FOR_CASES(DTYPE, ROWS, COLUMNS, BODY)                                                                          \
    for (size_t d_ = 0; d_ < sizeof dtypes / sizeof *dtypes; d_++)                                                     \
        for (size_t s_ = 0; s_ < sizeof sizes / sizeof *sizes; s_++) {                                                 \
            const fb_dtype DTYPE = dtypes[d_];                                                                         \
            const int64_t ROWS = sizes[s_].rows, COLUMNS = sizes[s_].columns;                                          \
            BODY                                                                                                       \
        }

static void what_rounds_to_nearest_is_right(void **state)
{
    (void)state;
    FOR_CASES(dtype, rows, columns, {
        for (double mean = 0; mean < 100; mean += 64) {
            tensor t = tensor_new(dtype, rows, columns, mean);
            fb_error_report e = judged(&t);
            if (!e.ok)
                fail_msg("%s %lld × %lld: %s", fb_dtype_name(dtype), (long long)rows, (long long)columns, e.worst);
            assert_int_equal(e.compared, rows * columns);
            assert_int_equal(e.undecided, 0);
            tensor_free(&t);
        }
    });
}

/* Another lane's roundings, put off by a few roundoffs of f32 as other orders of summation would. */
static void another_honest_kernel_is_right(void **state)
{
    (void)state;
    FOR_CASES(dtype, rows, columns, {
        tensor t = tensor_new(dtype, rows, columns, 0);
        for (int64_t k = 0; k < t.n; k++)
            store(&t, k, either_way(dtype, t.exact[k], fb_rng_uniform(fb_rng_bits(5, (uint64_t)k), 0, 1)));
        fb_error_report e = judged(&t);
        if (!e.ok) fail_msg("%s %lld × %lld: %s", fb_dtype_name(dtype), (long long)rows, (long long)columns, e.worst);
        tensor_free(&t);
    });
}

static void a_factor_is_found(void **state)
{
    (void)state;
    FOR_CASES(dtype, rows, columns, {
        tensor t = tensor_new(dtype, rows, columns, 0);
        double factor = dtype == FB_F32 ? 1.01 : 1.04;
        bool counts = dtype == FB_F32 || rows * columns >= 40; /* of few 16-bit values a rounding is as much */
        for (int64_t k = 0; k < t.n; k++) store(&t, k, t.exact[k] * factor);
        fb_error_report e = judged(&t);
        if (counts && e.ok) fail_msg("%s %lld × %lld", fb_dtype_name(dtype), (long long)rows, (long long)columns);
        tensor_free(&t);
    });
}

static void an_offset_is_found(void **state)
{
    (void)state;
    FOR_CASES(dtype, rows, columns, {
        tensor t = tensor_new(dtype, rows, columns, 0);
        for (int64_t k = 0; k < t.n; k++) store(&t, k, t.exact[k] + 0.01);
        fb_error_report e = judged(&t);
        if (t.n >= 1000 && e.ok) fail_msg("%s %lld × %lld", fb_dtype_name(dtype), (long long)rows, (long long)columns);
        tensor_free(&t);
    });
}

/* One row or column of many, by a factor that each of its elements hides in its rounding. */
static void a_region_is_found(void **state)
{
    (void)state;
    enum { ROWS = 300, COLUMNS = 257 };
    for (int region = 0; region < 5; region++) {
        tensor t = tensor_new(FB_BF16, ROWS, COLUMNS, 0);
        for (int64_t k = 0; k < t.n; k++) {
            int64_t row = k / COLUMNS, column = k % COLUMNS;
            bool in = region == 0   ? row == 0
                      : region == 1 ? row == ROWS - 1
                      : region == 2 ? column == 0
                      : region == 3 ? column == COLUMNS - 1
                                    : row >= 256 && column >= 192;
            if (in) store(&t, k, t.exact[k] * 1.01);
        }
        fb_error_report e = judged(&t);
        if (e.ok) fail_msg("region %d", region);
        tensor_free(&t);
    }
}

static void one_element_is_found(void **state)
{
    (void)state;
    FOR_CASES(dtype, rows, columns, {
        tensor t = tensor_new(dtype, rows, columns, 4);
        store(&t, t.n - 1, t.exact[t.n - 1] * 1.25);
        fb_error_report e = judged(&t);
        assert_false(e.ok);
        assert_non_null(strstr(e.worst, "expected"));
        tensor_free(&t);
    });
}

/* Rows most unlike: what is usual in one says nothing of another, where a value has lost a third. */
static void a_small_row_is_found(void **state)
{
    (void)state;
    enum { COLUMNS = 8 };
    tensor t = tensor_new(FB_BF16, 64, COLUMNS, 0);
    for (int64_t k = 0; k < t.n; k++) {
        double scale = k / COLUMNS % 2 ? 0x1p12 : 1;
        t.exact[k] *= scale;
        for (int l = 0; l < FB_TRIALS; l++) t.lane[l][k] *= scale;
        store(&t, k, t.exact[k]);
    }
    assert_true(judged(&t).ok);
    store(&t, 4 * COLUMNS + 3, t.exact[4 * COLUMNS + 3] * 0.67);
    assert_false(judged(&t).ok);
    tensor_free(&t);
}

/* Few elements are off by three times as much as roundings are, this way and that: none is too far off, no mean is, and
 * a median of so few says nothing. */
static void a_small_tensor_is_found(void **state)
{
    (void)state;
    tensor t = tensor_new(FB_BF16, 3, 8, 0);
    for (int64_t k = 0; k < t.n; k++) store(&t, k, t.exact[k] * (k % 2 ? 0.983 : 1.017));
    fb_error_report e = judged(&t);
    assert_false(e.ok);
    assert_non_null(strstr(e.worst, "times what roundings do, on average"));
    tensor_free(&t);
}

/* A relu cuts off what lanes find below 0: what is left of a spread is as small as chance makes it, and a right kernel
 * may lie where the lanes that were cut off did. */
static void what_a_relu_cuts_off_is_no_spread(void **state)
{
    (void)state;
    for (int cut = 0; cut < 2; cut++) {
        tensor t = tensor_new(FB_BF16, 40, 300, 0);
        double exact = cut ? 0 : 1e-4; /* by a lane's value of nearly 0, or one whose lanes lie where it does */
        t.exact[77] = exact;
        for (int l = 0; l < FB_TRIALS; l++) t.lane[l][77] = exact;
        t.lane[3][77] = exact + 1e-6;
        store(&t, 77, exact + 5e-4);
        assert_int_equal(judged(&t).ok, cut);
        tensor_free(&t);
    }
}

/* Of very many elements a few may be a little further off than lanes say; not far; of some thousand one, hardly, and of
 * few none. */
static void of_very_many_a_few_are_undecided(void **state)
{
    (void)state;
    static const struct {
        fb_dtype dtype;
        int rows;
        double times;
    } cases[] = {{FB_F32, 3, 1}, {FB_F32, 40, FB_JUDGE_ONE_AT}, {FB_BF16, 400, FB_JUDGE_BEYOND_AT}};
    for (int c = 0; c < 3; c++) {
        tensor t = tensor_new(cases[c].dtype, cases[c].rows, 300, 4);
        double first = 0, last = 0;
        for (double off = 1e-8; !last; off *= 1.1) {
            store(&t, 77, t.exact[77] * (1 + off));
            fb_error_report e = judged(&t);
            assert_true(!e.ok || e.undecided <= 1);
            if (!first && (!e.ok || e.undecided)) first = off;
            if (!e.ok) last = off;
        }
        double times = last / first;
        assert_true(times == 1 ? cases[c].times == 1 : fabs(log(times / cases[c].times)) < log(1.2));
        store(&t, 77, t.exact[77] * (1 + 2 * first));
        store(&t, 177, t.exact[177] * (1 + 2 * first));
        assert_false(judged(&t).ok);
        tensor_free(&t);
    }
}

/* Rows that are all alike are off by one draw: what would be far too much on average of many is not of one, and what
 * one draw does not explain is too much of these as well. */
static void rows_that_are_alike_are_off_by_one_draw(void **state)
{
    (void)state;
    for (int alike = 0; alike < 2; alike++) {
        tensor t = tensor_new(FB_F32, 400, 1, 4);
        for (int64_t k = 0; k < t.n; k++) {
            double off = (alike ? 1 : k % 2 ? 1 : -1) * 1e-6; /* steps of f32 are 2 to 5e-7 here */
            if (alike) t.exact[k] = t.exact[0];
            for (int l = 0; l < FB_TRIALS; l++)
                t.lane[l][k] =
                    t.exact[k] + off * fb_rng_normal(fb_rng_bits(5, (uint64_t)(alike ? l : l + 9 * k)), 0, 1);
        }
        for (double times = 2.5; times <= 5; times += 2.5) {
            for (int64_t k = 0; k < t.n; k++) {
                double spread = 0;
                for (int l = 0; l < FB_TRIALS; l++) spread = fmax(spread, fabs(t.lane[l][k] - t.exact[k]));
                store(&t, k, t.exact[k] + (alike || k % 2 ? 1 : -1) * times * spread);
            }
            bool right = judged(&t).ok;
            assert_int_equal(right, alike && times < 4);
        }
        tensor_free(&t);
    }
}

/* One of squares may be most of a tensor, and all its lanes round it to one number by chance: it may be off by what the
 * others are, and not by more. */
static void one_element_is_off_by_what_the_others_are(void **state)
{
    (void)state;
    for (int times = 1; times <= 4; times += 3) {
        tensor t = tensor_new(FB_BF16, 9, 1, 0);
        for (int64_t k = 0; k < t.n; k++) {
            t.exact[k] = k ? 0.0103 * (double)k : 1.00015;
            store(&t, k, t.exact[k]);
            for (int l = 0; l < FB_TRIALS; l++) t.lane[l][k] = k ? t.exact[k] * (l % 2 ? 1.007 : 0.993) : 1;
        }
        store(&t, 0, 1 - times * 0x1p-7);
        assert_int_equal(judged(&t).ok, times == 1);
        tensor_free(&t);
    }
}

/* ---- inputs that tell ---- */

static fb_id added(fb_graph *g, fb_op op, fb_id arg, fb_attrs at)
{
    fb_error err;
    fb_id id = fb_graph_add(g, op, &arg, arg == FB_NONE ? 0 : 1, &at, NULL, 0, &err);
    if (id == FB_NONE) fail_msg("%s", err.text);
    return id;
}

/* Mean and deviation of elements first, first + step, … of what is told of x. */
static void line_told(const float *x, int n, int step, double *mean, double *deviation)
{
    double sum = 0, squares = 0;
    for (int k = 0; k < n; k++) sum += (double)x[k * step], squares += (double)x[k * step] * (double)x[k * step];
    *mean = sum / n;
    *deviation = sqrt(fmax(squares / n - *mean * *mean, 0));
}

/* A kernel that takes the mean of columns, or of groups of neighbours, gets such columns and groups far from 0. */
static void what_tells_lies_along_what_is_reduced(void **state)
{
    (void)state;
    enum { ROWS = 64, COLUMNS = 40, GROUPS = 16, GROUP = ROWS * COLUMNS / GROUPS };
    fb_graph *g = fb_graph_new("told");
    fb_shape whole = {.rank = 2, .dim = {ROWS, COLUMNS}}, groups = {.rank = 2, .dim = {GROUPS, GROUP}};
    fb_id x = added(g, FB_OP_INPUT, FB_NONE, (fb_attrs){.dtype = FB_F32, .shape = whole, .high = 1});
    fb_id column = added(g, FB_OP_MEAN, x, (fb_attrs){.n_axes = 1, .axes = {0}});
    fb_id view = added(g, FB_OP_VIEW, x, (fb_attrs){.shape = groups});
    fb_id group = added(g, FB_OP_AMAX, view, (fb_attrs){.n_axes = 1, .axes = {1}});
    fb_support support = {-1, 1, false};
    static float to[ROWS * COLUMNS];
    for (int k = 0; k < 3; k++) {
        fb_place reads[] = {{.node = x}}, stores[] = {{.node = k == 0 ? column : group}};
        fb_launch l = {.n_reads = 1, .reads = reads, .n_stores = k < 2, .stores = stores};
        fb_lines lines = fb_lines_of(g, &l, x, 5);
        double mean, deviation;
        fb_tell(&g->nodes[x], &lines, &support, 7, to);
        line_told(to + (k == 0   ? 1
                        : k == 1 ? GROUP
                                 : COLUMNS),
                  k == 0   ? ROWS
                  : k == 1 ? GROUP
                           : COLUMNS,
                  k == 0 ? COLUMNS : 1, &mean, &deviation);
        if (!(mean > 60 && mean < 68 && deviation > 0.5 && deviation < 2))
            fail_msg("%d: mean %g, deviation %g", k, mean, deviation);
    }
    fb_graph_free(g);
}

/* ---- a chain's rounding between its products ---- */

typedef struct {
    int64_t n;
    void *bytes;
    float *x;
} operand;

/* Inputs that tell, as a check gives them. */
static operand operand_new(const fb_graph *g, const char *name, int number, fb_given *given)
{
    fb_error err;
    fb_id id = fb_graph_find(g, name);
    operand o = {.n = fb_shape_elements(&g->nodes[id].shape)};
    o.bytes = fb_calloc((size_t)o.n, 2);
    o.x = fb_calloc((size_t)o.n, sizeof *o.x);
    double *x = fb_calloc((size_t)o.n, sizeof *x);
    if (!fb_interp_fill_source(g, id, DATA_SEED, NULL, NULL, 0, o.n, o.bytes, &err)) fail_msg("%s", err.text);
    fb_support support = fb_support_of(FB_BF16, o.n, o.bytes);
    fb_lines rows = fb_lines_of(g, &(fb_launch){0}, id, number);
    fb_tell(&g->nodes[id], &rows, &support, fb_splitmix64(fb_splitmix64(0x7e11) + (uint64_t)number), o.bytes);
    fb_elements_load(FB_BF16, o.n, o.bytes, x);
    for (int64_t k = 0; k < o.n; k++) o.x[k] = (float)x[k];
    fb_free(x);
    given[number] = (fb_given){id, o.bytes};
    return o;
}

/* One row of x w + b, added up in floats. */
static void product_row(const float *x, const operand *w, const operand *b, float *sum)
{
    int64_t k = w->n / b->n;
    memset(sum, 0, (size_t)b->n * sizeof *sum);
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < b->n; j++) sum[j] += x[i] * w->x[i * b->n + j];
    for (int64_t j = 0; j < b->n; j++) sum[j] += b->x[j];
}

/* What a kernel on an H200 stored, bit by bit: floats throughout, and bf16 between the products. With sums of 10^5 that
 * cancel, ahead of a sigmoid, one result in some 10^5 is off by more than lanes say. */
static void a_chain_is_right(void **state)
{
    (void)state;
    enum { ROWS = 8000, IN = 67, HIDDEN = 129, OUT = 65 };
    static const char *const names[] = {"x", "w1", "b1", "w2", "b2"};
    fb_graph *g = mlp(0, ROWS, IN, HIDDEN, OUT, FB_BF16);
    fb_error err = {0};
    fb_error_report e;
    fb_given given[5];
    operand o[5];
    for (int k = 0; k < 5; k++) o[k] = operand_new(g, names[k], k, given);
    fb_id want = fb_graph_find(g, "y");
    kept k = kept_new(g, &want, 1);
    fb_trial_options options = {.n_given = 5, .given = given, .seed = DATA_SEED, .trials = FB_TRIALS};
    if (!fb_trial_run(g, &options, &want, 1, keep_block, &k, NULL, &err)) fail_msg("%s", err.text);
    for (int64_t r = 0; r < ROWS; r++) {
        float h[HIDDEN], y[OUT];
        double wide[HIDDEN];
        product_row(o[0].x + r * IN, &o[1], &o[2], h);
        for (int64_t j = 0; j < HIDDEN; j++) wide[j] = h[j] > 0 ? (double)h[j] : 0;
        fb_elements_round(FB_BF16, HIDDEN, wide, wide);
        for (int64_t j = 0; j < HIDDEN; j++) h[j] = (float)wide[j];
        product_row(h, &o[3], &o[4], y);
        for (int64_t j = 0; j < OUT; j++) wide[j] = (double)(1 / (1 + expf(-y[j])));
        fb_elements_store(FB_BF16, OUT, wide, (char *)k.value[0].right + r * OUT * 2);
    }
    if (!is_accepted(&k.value[0], g, k.value[0].right, &e)) fail_msg("%s", e.worst);
    assert_true(e.undecided <= 1); /* as the draws fall */
    for (int i = 0; i < 5; i++) fb_free(o[i].bytes), fb_free(o[i].x);
    kept_free(&k);
    fb_graph_free(g);
}

/* What tells of a value of floats, as a check gives it. */
static float *told_floats(const fb_graph *g, fb_id id, int number)
{
    int64_t n = fb_shape_elements(&g->nodes[id].shape);
    float *to = fb_calloc((size_t)n, sizeof *to);
    const fb_support any = {-1, 1, false};
    fb_lines rows = fb_lines_of(g, &(fb_launch){0}, id, number);
    fb_tell(&g->nodes[id], &rows, &any, fb_splitmix64(fb_splitmix64(0x7e11) + (uint64_t)number), to);
    return to;
}

/* A product as a GPU's library makes it: 8,192 terms one after the other, in floats. What a sum loses of a term hangs on
 * the term, and where a row of the right operand is constant, all sums of a row lose the same: they are off to one side. */
static void a_long_product_in_order_is_right(void **state)
{
    (void)state;
    enum { ROWS = 16, DEPTH = 8192, COLUMNS = 4096, FAR = 64 };
    static const float factors[] = {1, 1.0002F};
    fb_graph *g = fb_graph_new("long");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(ROWS, DEPTH), FB_F32);
    fb_id w = source(g, FB_OP_INPUT, "w", SHAPE(DEPTH, COLUMNS), FB_F32);
    fb_id y = NODE(g, FB_OP_MATMUL, "y", NULL, x, w);
    float *a = fb_calloc(ROWS * DEPTH, sizeof *a), *b = told_floats(g, w, 1),
          *got = fb_calloc(ROWS * COLUMNS, sizeof *got);
    for (int64_t k = 0; k < ROWS * DEPTH; k++) a[k] = (float)fb_rng_normal(fb_rng_bits(3, (uint64_t)k), FAR, 1);
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t i = 0; i < DEPTH; i++)
            for (int64_t c = 0; c < COLUMNS; c++) got[r * COLUMNS + c] += a[r * DEPTH + i] * b[i * COLUMNS + c];
    fb_given given[] = {{x, a}, {w, b}};
    const void *stored = got;
    fb_judging j = {.g = g, .o = {.n_given = 2, .given = given, .seed = DATA_SEED}, .want = &y, .got = &stored, .n = 1};
    for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
        fb_error_report e;
        fb_error err;
        for (int64_t k = 0; k < ROWS * COLUMNS; k++) got[k] *= factors[f];
        if (!fb_judgement_make(&j, &e, NULL, &err)) fail_msg("%s", err.text);
        if (e.ok != (f == 0)) fail_msg("%g: %s", (double)factors[f], e.worst);
    }
    fb_free(a), fb_free(b), fb_free(got);
    fb_graph_free(g);
}

/* x (x + b + x) + x, where few elements lie near x = -(1 + b) / 2: what is usual in samples says nothing of these, which
 * have trials of their own. */
static void judge_unlike(int every, double wrong, fb_error_report *e)
{
    enum { N = 1 << 20, SAMPLES = 1 << 12, WRONG = 7 };
    fb_graph *g = fb_graph_new("unlike");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(N), FB_F32);
    fb_id b = source(g, FB_OP_INPUT, "b", SHAPE(N), FB_F32);
    fb_id sum = NODE(g, FB_OP_ADD, "sum", NULL, NODE(g, FB_OP_ADD, "a", NULL, x, b), x);
    fb_id y = NODE(g, FB_OP_ADD, "y", NULL, NODE(g, FB_OP_MUL, "product", NULL, x, sum), x);
    float *at = fb_alloc(N * sizeof *at), *of = fb_alloc(N * sizeof *of), *got = fb_alloc(N * sizeof *got);
    for (int64_t k = 0; k < N; k++) {
        of[k] = (float)fb_rng_uniform(fb_rng_bits(5, (uint64_t)k), 4, 8);
        at[k] = (float)fb_rng_normal(fb_rng_bits(6, (uint64_t)k), 0, 0.01);
        if (k % every == every / 3) at[k] = -(1 + of[k]) / 2;
        volatile float a = at[k] + of[k], all = a + at[k], product = at[k] * all;
        got[k] = product + at[k];
        if (k == (int64_t)WRONG * every + every / 3) got[k] += (float)wrong;
    }
    fb_given given[] = {{x, at}, {b, of}};
    const void *stored = got;
    fb_judging j = {.g = g, .want = &y, .got = &stored, .n = 1, .rest = true};
    j.o = (fb_trial_options){.n_given = 2, .given = given, .seed = DATA_SEED, .sample = SAMPLES, .threads = 2};
    fb_error err;
    if (!fb_judgement_make(&j, e, NULL, &err)) fail_msg("%s", err.text);
    fb_free(at), fb_free(of), fb_free(got);
    fb_graph_free(g);
}

static void what_is_unlike_the_samples_has_trials_of_its_own(void **state)
{
    (void)state;
    fb_error_report e;
    judge_unlike(30011, 0, &e);
    if (!e.ok) fail_msg("%s", e.worst);
    assert_int_equal(e.undecided, 0);
    judge_unlike(30011, 4e-5, &e);
    assert_false(e.ok);
    assert_non_null(strstr(e.worst, "expected"));
    judge_unlike(131, 0, &e);
    if (!e.ok) fail_msg("%s", e.worst);
}

static void of_many_suspects_some_are_told(void **state)
{
    (void)state;
    enum { N = 4096, MOST = 8 };
    tensor t = tensor_new(FB_F32, 1, N, 0);
    fb_usual_spread usual = {0, 1e-8};
    fb_suspects all = {.most = MOST};
    fb_judgement j;
    fb_judgement_clear(&j);
    for (int64_t k = 0; k < N; k++) ((float *)t.got)[k] *= k % 2 ? 1.01F : 1;
    fb_judgement_add_usual(&j, &t.shape, 0, N, t.exact, &usual, t.got, &all);
    assert_int_equal(all.at.n, MOST);
    assert_int_equal(all.more, N / 2 - MOST);
    int64_t behind = 0;
    for (int64_t k = 0; k < MOST; k++) assert_int_equal(all.at.at[k] % 2, 1), behind += all.at.at[k] > N / 2;
    assert_in_range(behind, 1, MOST - 1); /* from anywhere */
    FB_VEC_FREE(&all.at);
    tensor_free(&t);
}

static void what_is_not_a_number_is_wrong_where_one_is_expected(void **state)
{
    (void)state;
    tensor t = tensor_new(FB_F32, 8, 40, 0);
    store(&t, 3, NAN);
    assert_false(judged(&t).ok);
    assert_true(isinf(judged(&t).bound));
    t.exact[3] = NAN;
    for (int l = 0; l < FB_TRIALS; l++) t.lane[l][3] = NAN;
    assert_true(judged(&t).ok);
    t.exact[3] = INFINITY;
    for (int l = 0; l < FB_TRIALS; l++) t.lane[l][3] = INFINITY;
    assert_false(judged(&t).ok);
    store(&t, 3, INFINITY);
    assert_true(judged(&t).ok);
    t.lane[5][3] = 7; /* honest roundings lead here and there */
    assert_true(judged(&t).ok);
    assert_int_equal(judged(&t).undecided, 1);
    store(&t, 3, -1);
    assert_true(judged(&t).ok);
    tensor_free(&t);
}

/* Nothing was rounded: every bit counts. */
/* Whatever part of a block is finite, also where the first difference is of a NaN. */
static void what_lanes_disagree_about_is_undecided(void **state)
{
    (void)state;
    for (int64_t columns = 1; columns < 2000; columns = 3 * columns + 1) {
        tensor t = tensor_new(FB_F32, 1, columns, 0);
        for (int64_t k = 0; k < columns; k++) {
            t.exact[k] = k % 2 ? NAN : -25.5;
            for (int l = 0; l < FB_TRIALS; l++) t.lane[l][k] = l % 3 == 0 ? -INFINITY : l % 3 == 1 ? NAN : -22;
            store(&t, k, -INFINITY);
        }
        for (int64_t most = 1; most < 600; most *= 8) {
            fb_error_report e = judged_in(&t, most);
            assert_true(e.ok);
            assert_int_equal(e.undecided, columns);
        }
        tensor_free(&t);
    }
}

/* As of a floor: a few elements that rounding decides, as large as all others together. The others are judged. */
static void what_rounding_decides_is_counted_by_elements(void **state)
{
    (void)state;
    enum { MOVED = 100 };
    tensor t = tensor_new(FB_F32, 8, 100, 0);
    for (int64_t k = 0; k < t.n; k++) {
        t.exact[k] = 1;
        for (int l = 0; l < FB_TRIALS; l++) t.lane[l][k] = k < MOVED && l % 2 ? 2 : 1;
        store(&t, k, k < MOVED && k % 3 == 0 ? 2 : 1);
    }
    fb_error_report e = judged(&t);
    assert_true(e.ok && !fb_report_error_says_nothing(&e));
    assert_int_equal(e.undecided, MOVED);
    store(&t, MOVED + 1, 1.001);
    assert_false(judged(&t).ok);
    store(&t, MOVED + 1, 1);
    for (int64_t k = MOVED; k < t.n; k++)
        for (int l = 0; l < FB_TRIALS; l += 2) t.lane[l][k] = 2;
    e = judged(&t);
    assert_true(e.ok && fb_report_error_says_nothing(&e));
    assert_int_equal(e.undecided, t.n);
    tensor_free(&t);
}

/* Most of it undecided is as good as all; of what was not counted, as in a recording, nothing follows. */
static void most_undecided_says_nothing(void **state)
{
    (void)state;
    assert_true(fb_report_error_says_nothing(&(fb_error_report){.compared = 100, .undecided = 51}));
    assert_false(fb_report_error_says_nothing(&(fb_error_report){.compared = 100, .undecided = 50}));
    assert_false(fb_report_error_says_nothing(&(fb_error_report){.undecided = 3}));
}

static void exact_values_must_be_exact(void **state)
{
    (void)state;
    tensor t = tensor_new(FB_F32, 8, 40, 0);
    for (int64_t k = 0; k < t.n; k++) {
        t.exact[k] = (double)k;
        for (int l = 0; l < FB_TRIALS; l++) t.lane[l][k] = (double)k;
        store(&t, k, (double)k);
    }
    assert_true(judged(&t).ok);
    store(&t, 300, 300 * (1 + 0x1p-22));
    assert_false(judged(&t).ok);
    tensor_free(&t);
}

static void blocks_of_any_length_are_judged_alike(void **state)
{
    (void)state;
    tensor t = tensor_new(FB_BF16, 300, 77, 0);
    for (int64_t k = 0; k < t.n; k++) store(&t, k, t.exact[k] * 1.004);
    fb_error_report whole = judged_in(&t, t.n);
    static const int64_t lengths[] = {4096, 8192, 12288};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        fb_error_report e = judged_in(&t, lengths[i]);
        assert_true(e.max_abs == whole.max_abs && e.ok == whole.ok);
        assert_true(fabs(e.bound - whole.bound) <= 1e-9 * whole.bound);
    }
    tensor_free(&t);
}

static void integers_are_equal_or_wrong(void **state)
{
    (void)state;
    fb_node n = {.name = "ids", .dtype = FB_I32, .shape = {1, {4}}};
    fb_judge_shape shape = fb_judgement_shape_of(&n);
    int64_t exact[] = {1, 2, 3, 4}, other[] = {1, 2, 7, 4};
    int32_t got[] = {1, 2, 9, 4};
    for (int lanes_differ = 0; lanes_differ < 2; lanes_differ++) {
        fb_judgement j;
        fb_spread s = {0};
        fb_error_report e;
        float spread[4];
        fb_trial_block b = {.n = 4, .lanes = 2, .i = {exact, lanes_differ ? other : exact}};
        fb_judgement_clear(&j);
        fb_spread_add(&s, &shape, &b, spread);
        fb_judgement_add(&j, &shape, 0, 4, NULL, exact, spread, got);
        fb_judgement_end(&j, &s, &shape, &n, &e);
        assert_true(e.ok == (lanes_differ == 1));
        assert_int_equal(e.undecided, lanes_differ);
    }
}

/* ---- sources ---- */

/* A device that holds one buffer and is asked for it. */
typedef struct {
    const char *holds;
    int64_t asked; /* the most at once */
} holder;

static bool holder_does(fb_loaded *l, fb_error *err)
{
    (void)l, (void)err;
    return true;
}

static bool holder_peek(fb_loaded *l, int buffer, int64_t offset, int64_t bytes, void *to, fb_error *err)
{
    holder *h = (void *)l;
    (void)buffer, (void)err;
    h->asked = bytes > h->asked ? bytes : h->asked;
    memcpy(to, h->holds + offset, (size_t)bytes);
    return true;
}

/* A byte that a source does not hold is found wherever it lies, and no copy of the source is made for it. */
static void sources_hold_what_was_written(void **state)
{
    enum { BYTES = 72 << 20 };
    static const int64_t wrong[] = {-1, 0, (64 << 20) - 1, 64 << 20, BYTES - 1};
    const fb_stepping stepping = {.rewind = holder_does, .finish = holder_does, .peek = holder_peek};
    const fb_device_ops ops = {.poison = holder_does, .stepping = &stepping};
    fb_device device = {.ops = &ops};
    fb_buffer buffer = {.kind = FB_BUFFER_INPUT, .name = "x", .dtype = FB_F32, .elements = BYTES / 4, .bytes = BYTES};
    fb_program program = {.n_buffers = 1, .buffers = &buffer};
    fb_graph graph = {.n_nodes = 1};
    char *written = fb_calloc(BYTES, 1), *there = fb_calloc(BYTES, 1);
    void *images[] = {written};
    (void)state;
    for (int i = 0; i < 5; i++) {
        holder h = {.holds = there};
        fb_check_job job = {
            .device = &device, .loaded = (void *)&h, .program = &program, .g = &graph, .images = images};
        fb_check_result out;
        fb_error err = {0};
        if (wrong[i] >= 0) there[wrong[i]] = 1;
        assert_true(fb_check_kernels(&job, &out, NULL, &err));
        assert_int_equal(out.error.ok, wrong[i] < 0);
        if (wrong[i] >= 0) assert_string_equal(out.error.worst, "x does not hold what was written to it");
        assert_true(h.asked > 0 && h.asked < BYTES);
        if (wrong[i] >= 0) there[wrong[i]] = 0;
    }
    fb_free(written);
    fb_free(there);
}

/* Of values of which only the reference's own roundings are left, as of what is 0 but for them, nothing is told by what
 * goes along them: a mean of three equal values may be 1e-17 off. */
static void nothing_goes_along_roundings_of_doubles(void **state)
{
    (void)state;
    for (int large = 0; large < 2; large++) {
        tensor t = tensor_new(FB_F32, 400, 1, 4);
        for (int64_t k = 0; k < t.n; k++) {
            double sign = k % 2 ? 1 : -1;
            t.exact[k] = sign * (large ? 1e-4 : 1e-17);
            for (int l = 0; l < FB_TRIALS; l++) t.lane[l][k] = t.exact[k] + (l % 2 ? 1e-6 : -1e-6); /* to one side */
            store(&t, k, t.exact[k] + sign * 1.5e-6); /* along the values */
        }
        fb_error_report e = judged(&t);
        assert_int_equal(e.ok, !large);
        assert_true(e.ok || strstr(e.worst, "all"));
        tensor_free(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_hold_what_was_written),
        cmocka_unit_test(what_rounds_to_nearest_is_right),
        cmocka_unit_test(another_honest_kernel_is_right),
        cmocka_unit_test(a_factor_is_found),
        cmocka_unit_test(an_offset_is_found),
        cmocka_unit_test(a_region_is_found),
        cmocka_unit_test(one_element_is_found),
        cmocka_unit_test(a_small_row_is_found),
        cmocka_unit_test(a_small_tensor_is_found),
        cmocka_unit_test(of_very_many_a_few_are_undecided),
        cmocka_unit_test(rows_that_are_alike_are_off_by_one_draw),
        cmocka_unit_test(nothing_goes_along_roundings_of_doubles),
        cmocka_unit_test(one_element_is_off_by_what_the_others_are),
        cmocka_unit_test(what_a_relu_cuts_off_is_no_spread),
        cmocka_unit_test(what_tells_lies_along_what_is_reduced),
        cmocka_unit_test(a_chain_is_right),
        cmocka_unit_test(a_long_product_in_order_is_right),
        cmocka_unit_test(what_is_unlike_the_samples_has_trials_of_its_own),
        cmocka_unit_test(of_many_suspects_some_are_told),
        cmocka_unit_test(what_is_not_a_number_is_wrong_where_one_is_expected),
        cmocka_unit_test(what_lanes_disagree_about_is_undecided),
        cmocka_unit_test(what_rounding_decides_is_counted_by_elements),
        cmocka_unit_test(most_undecided_says_nothing),
        cmocka_unit_test(exact_values_must_be_exact),
        cmocka_unit_test(blocks_of_any_length_are_judged_alike),
        cmocka_unit_test(integers_are_equal_or_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
