/* The reference interpreter: every op that is not pointwise against a straightforward evaluation, sources, loops,
 * assigns, and what it refuses. */
#include "base/blas.h"
#include "graph/element.h"
#include "interp/parts.h"
#include "tests/data/lecture_tables.h"
#include "tests/unit/interp_help.h"

#include <pthread.h>
#include <stdlib.h>

/* ---- reductions ---- */

static double reduce_naively(fb_op op, const double *x, int n)
{
    double acc = op == FB_OP_PROD ? 1 : op == FB_OP_SUM || op == FB_OP_MEAN ? 0 : x[0];
    int best = 0;
    for (int k = 0; k < n; k++) {
        if (op == FB_OP_SUM || op == FB_OP_MEAN) acc += x[k];
        if (op == FB_OP_PROD) acc *= x[k];
        if (op == FB_OP_AMAX) acc = fmax(acc, x[k]);
        if (op == FB_OP_AMIN) acc = fmin(acc, x[k]);
        if (op == FB_OP_ARGMAX ? x[k] > x[best] : x[k] < x[best]) best = k;
    }
    if (op == FB_OP_ARGMAX || op == FB_OP_ARGMIN) return best;
    return op == FB_OP_MEAN ? acc / n : acc;
}

/* Whole numbers, so that every order of summation gives the same. */
static void check_reduction(fb_op op, fb_dtype dtype, unsigned axes, bool keepdim, const double *x)
{
    static const int64_t dim[3] = {3, 4, 5};
    rig r = rig_new();
    fb_id from = data(&r, dtype, fb_shape_of(3, dim), x);
    fb_attrs at = {.keepdim = keepdim};
    for (int d = 0; d < 3; d++) {
        if (axes >> d & 1) at.axes[at.n_axes++] = d;
    }
    fb_id y = add_at(&r, op, from, at);
    run(&r, y);
    const fb_tensor *t = get(&r, y);
    double rows[60][60];
    int n[60] = {0}, count = 0;
    for (int k = 0; k < 60; k++) {
        int index[3] = {k / 20, k / 5 % 4, k % 5}, row = 0;
        for (int d = 0; d < 3; d++) {
            if (!(axes >> d & 1)) row = row * (int)dim[d] + index[d];
        }
        rows[row][n[row]++] = x[k];
        if (row >= count) count = row + 1;
    }
    assert_int_equal(t->n, count);
    assert_int_equal(r.g->nodes[y].shape.rank, keepdim ? 3 : 3 - at.n_axes);
    for (int k = 0; k < count; k++) {
        double wanted = reduce_naively(op, rows[k], n[k]);
        if (fabs(value_at(t, k) - wanted) > 1e-14 * fabs(wanted))
            fail_msg("%s over axes %x: [%d] is %.17g, not %.17g", fb_op_get(op)->name, axes, k, value_at(t, k), wanted);
    }
    rig_free(&r);
}

static void reductions_agree_with_plain_loops(void **state)
{
    (void)state;
    dice d = {7};
    double x[60];
    for (int k = 0; k < 60; k++) x[k] = roll_below(&d, 9) - 4 + (k % 3 == 0 ? 0 : 5);
    for (int op = 0; op < FB_OPS; op++) {
        const fb_op_info *info = fb_op_get((fb_op)op);
        if (info->cls != FB_CLASS_REDUCTION) continue;
        for (unsigned axes = 1; axes < 8; axes++) {
            if (info->result == FB_RESULT_I64 && (axes & (axes - 1))) continue;
            check_reduction((fb_op)op, FB_F32, axes, axes & 1, x);
            if (info->accepts == FB_ACCEPTS_NUMBER) check_reduction((fb_op)op, FB_I64, axes, !(axes & 1), x);
        }
    }
}

static void reductions_have_pytorch_s_edges(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_F32, SHAPE(2, 4), (double[]){1, NAN, 5, NAN, 7, 3, 7, 3});
    fb_id gone = data(&r, FB_F32, SHAPE(2, 0), NULL),
          low = data(&r, FB_F32, SHAPE(2), (double[]){-INFINITY, -INFINITY});
    fb_attrs last = {.n_axes = 1, .axes = {-1}};
    fb_id y[] = {
        add_at(&r, FB_OP_ARGMAX, x, last),  add_at(&r, FB_OP_ARGMIN, x, last), add_at(&r, FB_OP_AMAX, x, last),
        add_at(&r, FB_OP_AMIN, x, last),    add_at(&r, FB_OP_SUM, gone, last), add_at(&r, FB_OP_PROD, gone, last),
        add_at(&r, FB_OP_MEAN, gone, last), add1(&r, FB_OP_AMAX, low),         add1(&r, FB_OP_SUM, low)};
    run_keeping_all(&r, y, 9, true);
    EXPECT(&r, y[0], 1, 0); /* the first NaN wins; the first of equals */
    EXPECT(&r, y[1], 1, 1);
    EXPECT(&r, y[2], NAN, 7);
    EXPECT(&r, y[3], NAN, 3);
    EXPECT(&r, y[4], 0, 0);
    EXPECT(&r, y[5], 1, 1);
    EXPECT(&r, y[6], NAN, NAN);
    EXPECT(&r, y[7], -INFINITY);
    EXPECT(&r, y[8], -INFINITY);
    for (int i = 4; i < 9; i++) assert_true(bound_at(get(&r, y[i]), 0) == 0);
    rig_free(&r);
}

static void a_scalar_reduces_to_itself(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = constant(&r, FB_F32, 3);
    fb_id y[] = {add1(&r, FB_OP_SUM, x), add1(&r, FB_OP_AMAX, x), add1(&r, FB_OP_MEAN, x)};
    run_keeping_all(&r, y, 3, true);
    for (int i = 0; i < 3; i++) EXPECT(&r, y[i], 3);
    assert_true(bound_at(get(&r, y[0]), 0) == 0);
    rig_free(&r);
}

static void cumsum_runs_along_any_dim(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_F32, SHAPE(2, 3), (double[]){1, 2, 3, 4, 5, 6});
    fb_id i = data(&r, FB_I32, SHAPE(2), (double[]){0x1p31 - 1, 1});
    fb_id y[] = {add_at(&r, FB_OP_CUMSUM, x, (fb_attrs){.dim = 0}), add_at(&r, FB_OP_CUMSUM, x, (fb_attrs){.dim = 1}),
                 add_at(&r, FB_OP_CUMSUM, i, (fb_attrs){.dim = 0})};
    run_keeping_all(&r, y, 3, true);
    EXPECT(&r, y[0], 1, 2, 3, 5, 7, 9);
    EXPECT(&r, y[1], 1, 3, 6, 4, 9, 15);
    EXPECT(&r, y[2], 0x1p31 - 1, -0x1p31);
    rig_free(&r);
}

static void cumprod_runs_along_any_dim(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_F32, SHAPE(2, 3), (double[]){1, 2, 3, 4, -5, 6});
    fb_id i = data(&r, FB_I32, SHAPE(2), (double[]){0x1p30 + 1, 4});
    fb_id odd = data(&r, FB_F32, SHAPE(4), (double[]){-2, INFINITY, 0, 3});
    fb_id minus = data(&r, FB_F32, SHAPE(1, 2), (double[]){-0.0, 1});
    fb_id half = data(&r, FB_F16, SHAPE(3), (double[]){300, 300, 0});
    fb_attrs first = {.dim = 0};
    fb_id y[] = {add_at(&r, FB_OP_CUMPROD, x, first),     add_at(&r, FB_OP_CUMPROD, x, (fb_attrs){.dim = 1}),
                 add_at(&r, FB_OP_CUMPROD, i, first),     add_at(&r, FB_OP_CUMPROD, odd, first),
                 add_at(&r, FB_OP_CUMPROD, minus, first), add_at(&r, FB_OP_CUMPROD, half, first)};
    run_keeping_all(&r, y, 6, true);
    EXPECT(&r, y[0], 1, 2, 3, 4, -10, 18);
    EXPECT(&r, y[1], 1, 2, 6, 4, -20, -120);
    EXPECT(&r, y[2], 0x1p30 + 1, 4);
    EXPECT(&r, y[3], -2, -INFINITY, NAN, NAN);
    assert_true(signbit(get(&r, y[4])->v[0]));
    const fb_tensor *beyond = get(&r, y[5]);
    assert_true(bound_at(beyond, 0) == 0 && bound_at(beyond, 1) == INFINITY && bound_at(beyond, 2) < 1);
    rig_free(&r);
}

/* As PyTorch's stable sort: equals keep their order, NaN is the largest, at either end. */
static void a_rank_is_a_stable_sort_s(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_F32, SHAPE(2, 4), (double[]){2, NAN, -INFINITY, 2, 1, NAN, 1, NAN});
    fb_id i = data(&r, FB_I64, SHAPE(3, 2), (double[]){5, -1, 5, 3, -7, 3});
    fb_id y[] = {
        add_at(&r, FB_OP_RANK, x, (fb_attrs){.dim = 1}), add_at(&r, FB_OP_RANK, x, (fb_attrs){.dim = 1, .start = 1}),
        add_at(&r, FB_OP_RANK, i, (fb_attrs){.dim = 0}), add_at(&r, FB_OP_RANK, i, (fb_attrs){.dim = 0, .start = 1})};
    run_keeping_all(&r, y, 4, true);
    EXPECT(&r, y[0], 1, 3, 0, 2, 0, 2, 1, 3);
    EXPECT(&r, y[1], 1, 0, 3, 2, 2, 0, 3, 1);
    EXPECT(&r, y[2], 1, 0, 2, 1, 0, 2);
    EXPECT(&r, y[3], 0, 2, 1, 0, 2, 1);
    rig_free(&r);
}

/* ---- views and joins ---- */

static void views_move_elements(void **state)
{
    (void)state;
    rig r = rig_new();
    double x[24];
    for (int k = 0; k < 24; k++) x[k] = k;
    fb_id a = data(&r, FB_F32, SHAPE(2, 3, 4), x);
    fb_id y[] = {
        add_at(&r, FB_OP_VIEW, a, (fb_attrs){.shape = SHAPE(4, 6)}),
        add_at(&r, FB_OP_PERMUTE, a, (fb_attrs){.n_axes = 3, .axes = {2, 0, 1}}),
        add_at(&r, FB_OP_SLICE, a, (fb_attrs){.dim = 2, .start = 1, .stop = 4, .step = 2}),
        add_at(&r, FB_OP_FLIP, a, (fb_attrs){.n_axes = 2, .axes = {0, 2}}),
        add_at(&r, FB_OP_SLICE, a, (fb_attrs){.dim = 1, .start = 3, .stop = 3, .step = 1}),
        add_at(&r, FB_OP_UNFOLD, a, (fb_attrs){.dim = 1, .stop = 2, .step = 1}),
    };
    run_keeping_all(&r, y, 6, true);
    expect_values(&r, y[0], 24, x);
    double wanted[24];
    for (int k = 0; k < 24; k++) wanted[k] = k / 6 + 12 * (k / 3 % 2) + 4 * (k % 3);
    expect_values(&r, y[1], 24, wanted);
    EXPECT(&r, y[2], 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23);
    for (int k = 0; k < 24; k++) wanted[k] = 12 * (1 - k / 12) + 4 * (k / 4 % 3) + 3 - k % 4;
    expect_values(&r, y[3], 24, wanted);
    assert_int_equal(get(&r, y[4])->n, 0);
    rig_free(&r);
}

/* Dims of more than a few cache lines are turned in pieces of them. */
static void large_views_are_turned(void **state)
{
    (void)state;
    enum { A = 67, B = 3, C = 101 };
    static double x[A * B * C], wanted[A * B * C];
    for (int k = 0; k < A * B * C; k++) x[k] = k;
    rig r = rig_new();
    fb_id a = data(&r, FB_F32, SHAPE(A, B, C), x);
    fb_id y[] = {add_at(&r, FB_OP_PERMUTE, a, (fb_attrs){.n_axes = 3, .axes = {2, 1, 0}}),
                 add_at(&r, FB_OP_PERMUTE, a, (fb_attrs){.n_axes = 3, .axes = {1, 2, 0}})};
    run_keeping_all(&r, y, 2, true);
    for (int k = 0; k < A * B * C; k++) wanted[k] = k % A * (B * C) + k / A % B * C + k / (A * B);
    expect_values(&r, y[0], A * B * C, wanted);
    for (int k = 0; k < A * B * C; k++) wanted[k] = k % A * (B * C) + k / (A * C) * C + k / A % C;
    expect_values(&r, y[1], A * B * C, wanted);
    rig_free(&r);
}

static void expand_and_pad_add_elements(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id a = data(&r, FB_F32, SHAPE(2, 1), (double[]){1, 2}), s = constant(&r, FB_I32, 9);
    fb_id gone = data(&r, FB_F32, SHAPE(0, 2), NULL);
    fb_id y[] = {
        add_at(&r, FB_OP_EXPAND, a, (fb_attrs){.shape = SHAPE(2, 2, 3)}),
        add_at(&r, FB_OP_EXPAND, s, (fb_attrs){.shape = SHAPE(2, 2)}),
        add_at(&r, FB_OP_PAD, a, (fb_attrs){.before = {1, 0}, .after = {0, 2}, .value = -1}),
        add_at(&r, FB_OP_PAD, gone, (fb_attrs){.before = {1}, .after = {1}, .value = 5}),
    };
    run_keeping_all(&r, y, 4, true);
    EXPECT(&r, y[0], 1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2);
    EXPECT(&r, y[1], 9, 9, 9, 9);
    EXPECT(&r, y[2], -1, -1, -1, 1, -1, -1, 2, -1, -1);
    EXPECT(&r, y[3], 5, 5, 5, 5);
    rig_free(&r);
}

static void joins_put_operands_side_by_side(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id a = data(&r, FB_F32, SHAPE(2, 2), (double[]){1, 2, 3, 4}),
          b = data(&r, FB_F32, SHAPE(2, 1), (double[]){5, 6});
    fb_id none = data(&r, FB_F32, SHAPE(2, 0), NULL), c = add1(&r, FB_OP_EXP, a);
    fb_id y[] = {add(&r, FB_OP_CAT, &(fb_attrs){.dim = 1}, 3, (fb_id[]){a, none, b}),
                 add(&r, FB_OP_CAT, &(fb_attrs){.dim = 0}, 2, (fb_id[]){a, a}),
                 add(&r, FB_OP_STACK, &(fb_attrs){.dim = 2}, 2, (fb_id[]){a, a}),
                 add(&r, FB_OP_STACK, &(fb_attrs){.dim = 0}, 2, (fb_id[]){a, c})};
    run_keeping_all(&r, y, 4, true);
    EXPECT(&r, y[0], 1, 2, 5, 3, 4, 6);
    EXPECT(&r, y[1], 1, 2, 3, 4, 1, 2, 3, 4);
    EXPECT(&r, y[2], 1, 1, 2, 2, 3, 3, 4, 4);
    assert_true(bound_at(get(&r, y[3]), 3) == 0 && bound_at(get(&r, y[3]), 4) > 0);
    assert_null(get(&r, y[0])->bound);
    rig_free(&r);
}

/* ---- contractions and gathers ---- */

static void check_matmul(fb_shape sa, fb_shape sb)
{
    enum { MOST = 4096 };
    dice d = {3};
    double *x = fb_calloc(MOST, sizeof *x), *y = fb_calloc(MOST, sizeof *y);
    for (int k = 0; k < MOST; k++) x[k] = roll_below(&d, 17) - 8, y[k] = roll_below(&d, 17) - 8;
    rig r = rig_new();
    fb_id c = add2(&r, FB_OP_MATMUL, data(&r, FB_F32, sa, x), data(&r, FB_F32, sb, y));
    run(&r, c);
    const fb_tensor *t = get(&r, c);
    fb_shape s = r.g->nodes[c].shape;
    int64_t m = sa.dim[sa.rank - 2], k = sa.dim[sa.rank - 1], n = sb.dim[sb.rank - 1];
    for (int64_t i = 0; i < t->n; i++) {
        int64_t which[2] = {0, 0}, step[2] = {1, 1}, rest = i / (m * n);
        for (int dd = s.rank - 3; dd >= 0; dd--) {
            int64_t index = rest % s.dim[dd];
            rest /= s.dim[dd];
            for (int o = 0; o < 2; o++) {
                const fb_shape *from = o ? &sb : &sa;
                int own = dd - (s.rank - from->rank);
                if (own < 0) continue;
                which[o] += from->dim[own] == 1 ? 0 : index * step[o];
                step[o] *= from->dim[own];
            }
        }
        double sum = 0;
        for (int64_t p = 0; p < k; p++)
            sum += x[which[0] * m * k + i / n % m * k + p] * y[which[1] * k * n + p * n + i % n];
        assert_true(t->v[i] == sum);
    }
    rig_free(&r);
    fb_free(x);
    fb_free(y);
}

static void matmul_broadcasts_batches(void **state)
{
    (void)state;
    check_matmul(SHAPE(3, 4), SHAPE(4, 5));
    check_matmul(SHAPE(2, 3, 4), SHAPE(4, 5));
    check_matmul(SHAPE(3, 4), SHAPE(2, 4, 5));
    check_matmul(SHAPE(2, 1, 3, 4), SHAPE(3, 4, 2));
    check_matmul(SHAPE(1, 3, 4), SHAPE(2, 4, 2));
    check_matmul(SHAPE(64, 20), SHAPE(20, 1));
    check_matmul(SHAPE(3, 0), SHAPE(0, 2));
    check_matmul(SHAPE(0, 3), SHAPE(3, 2));
    check_matmul(SHAPE(0, 2, 3), SHAPE(3, 2));
}

/* OpenBLAS says in its description which CPU it works for; one that is newer than it, it takes for a Prescott. */
static void blas_works_for_this_cpu(void **state)
{
    (void)state;
#if defined(__x86_64__) && defined(__GNUC__)
    const fb_blas *blas = fb_blas_get(NULL);
    __builtin_cpu_init();
    if (!blas || getenv("OPENBLAS_CORETYPE") || !__builtin_cpu_supports("avx2")) {
        print_message("# skipped: there is no choice to make\n");
        return;
    }
    assert_null(strstr(blas->description, "Prescott"));
    assert_null(getenv("OPENBLAS_CORETYPE"));
#endif
}

static void the_plain_product_agrees_with_blas(void **state)
{
    (void)state;
    enum { M = 37, N = 300, K = 130 };
    fb_error err = {0};
    const fb_blas *blas = fb_blas_get(&err);
    dice d = {11};
    double *a = fb_calloc(M * K, 8), *b = fb_calloc(K * N, 8), *c = fb_calloc(M * N, 8), *wanted = fb_calloc(M * N, 8);
    for (int k = 0; k < M * K; k++) a[k] = roll_below(&d, 100);
    for (int k = 0; k < K * N; k++) b[k] = roll_below(&d, 100);
    for (int i = 0; i < M * N; i++) {
        for (int k = 0; k < K; k++) wanted[i] += a[i / N * K + k] * b[k * N + i % N];
    }
    fb_matmul_plain(M, N, K, a, b, c);
    assert_memory_equal(c, wanted, M * N * 8);
    if (blas) {
        assert_true(blas->description[0] != 0 && blas->library[0] != 0);
        assert_ptr_equal(fb_blas_get(NULL), blas);
        blas->dgemm(FB_BLAS_ROW_MAJOR, FB_BLAS_NO_TRANS, FB_BLAS_NO_TRANS, M, N, K, 1, a, K, b, N, 0, c, N);
        assert_memory_equal(c, wanted, M * N * 8);
    } else {
        assert_int_equal(err.kind, FB_ERR_UNAVAILABLE);
    }
    fb_free(a);
    fb_free(b);
    fb_free(c);
    fb_free(wanted);
}

static void gathers_ignore_rows_that_are_not_there(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id table = data(&r, FB_F32, SHAPE(3, 2), (double[]){1, 2, 3, 4, 5, 6});
    fb_id index = data(&r, FB_I64, SHAPE(2, 2), (double[]){2, -1, 0, 3});
    fb_id src = data(&r, FB_F32, SHAPE(2, 2, 2), (double[]){1, 2, 3, 4, 5, 6, 7, 8});
    fb_id twice = data(&r, FB_I32, SHAPE(3), (double[]){1, 1, 0}), s = data(&r, FB_I32, SHAPE(3), (double[]){5, 6, 7});
    fb_id y[] = {add2(&r, FB_OP_EMBEDDING, table, index),
                 add(&r, FB_OP_SCATTER_ADD, &(fb_attrs){.start = 3}, 2, (fb_id[]){src, index}),
                 add(&r, FB_OP_SCATTER_ADD, &(fb_attrs){.start = 2}, 2, (fb_id[]){s, twice})};
    run_keeping_all(&r, y, 3, true);
    EXPECT(&r, y[0], 5, 6, 0, 0, 1, 2, 0, 0);
    EXPECT(&r, y[1], 5, 6, 0, 0, 1, 2);
    EXPECT(&r, y[2], 7, 11);
    rig_free(&r);
}

/* ---- sources ---- */

static void elements_round_and_store_like_their_dtype(void **state)
{
    (void)state;
    for (int bits = 0; bits < 65536; bits++) {
        uint16_t from = (uint16_t)bits, back;
        double value;
        for (int dtype = FB_F16; dtype <= FB_BF16; dtype++) {
            fb_elements_load((fb_dtype)dtype, 1, &from, &value);
            fb_elements_store((fb_dtype)dtype, 1, &value, &back);
            if (!isnan(value)) {
                assert_int_equal(back, from);
                continue;
            }
            fb_elements_load((fb_dtype)dtype, 1, &back, &value);
            assert_true(isnan(value));
        }
    }
    dice d = {5};
    for (int k = 0; k < 200000; k++) {
        double x = ldexp(roll_between(&d, -2, 2), roll_below(&d, 60) - 40), have;
        if (k % 4 == 0) x = ldexp(nearbyint(x * 4096) / 4096, roll_below(&d, 30) - 25); /* often half-way */
        if (k % 7 == 0) x += ldexp(x, -40);
        for (int dtype = 0; dtype <= FB_F64; dtype++) {
            fb_elements_round((fb_dtype)dtype, 1, &x, &have);
            if (!same(have, fb_dtype_round((fb_dtype)dtype, x)))
                fail_msg("%a as %s is %a, not %a", x, fb_dtype_name((fb_dtype)dtype), have,
                         fb_dtype_round((fb_dtype)dtype, x));
        }
    }
}

static void a_source_is_a_function_of_seed_name_and_index(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_attrs uniform = {.dtype = FB_F32, .shape = SHAPE(100, 100), .value = -1, .high = 1};
    fb_attrs normal = {.dtype = FB_F16, .shape = SHAPE(100, 100), .dist = FB_DIST_NORMAL, .value = 3, .high = 2};
    fb_attrs whole = {.dtype = FB_I32, .shape = SHAPE(100, 100), .dist = FB_DIST_INTEGER, .value = -5, .high = 5};
    fb_id u = add(&r, FB_OP_INPUT, &uniform, 0, NULL), n = add(&r, FB_OP_PARAM, &normal, 0, NULL);
    fb_id i = add(&r, FB_OP_FEED, &whole, 0, NULL), v = add(&r, FB_OP_INPUT, &uniform, 0, NULL);
    fb_id outputs[] = {u, n, i, v};
    run_keeping_all(&r, outputs, 4, true);
    double mean = 0, square = 0;
    bool differ = false;
    for (int k = 0; k < 10000; k++) {
        double x = get(&r, u)->v[k], z = get(&r, n)->v[k];
        assert_true(x >= -1 && x < 1 && x == (double)(float)x);
        assert_true(z == fb_dtype_round(FB_F16, z));
        assert_true(get(&r, i)->i[k] >= -5 && get(&r, i)->i[k] < 5);
        differ |= x != get(&r, v)->v[k];
        mean += z / 10000, square += z * z / 10000;
    }
    assert_true(differ); /* another name, other values */
    assert_true(fabs(mean - 3) < 0.1 && fabs(sqrt(square - mean * mean) - 2) < 0.1);
    /* Any part of it, as stored, is the same. */
    float part[5000];
    uint16_t half[7];
    assert_true(fb_interp_fill_source(r.g, u, 0, NULL, NULL, 17, 5000, part, NULL));
    for (int k = 0; k < 5000; k++) assert_true(part[k] == (float)get(&r, u)->v[17 + k]);
    assert_true(fb_interp_fill_source(r.g, n, 0, NULL, NULL, 9993, 7, half, NULL));
    double last;
    fb_elements_load(FB_F16, 1, &half[6], &last);
    assert_true(last == get(&r, n)->v[9999]);
    assert_true(fb_interp_fill_source(r.g, u, 1, NULL, NULL, 0, 1, part, NULL));
    assert_true(part[0] != (float)get(&r, u)->v[0]); /* another seed */
    rig_free(&r);
}

static void constants_iota_and_random_need_no_seed(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_attrs random = {.dtype = FB_F32, .shape = SHAPE(3), .high = 1, .seed = 42};
    fb_attrs iota = {.dtype = FB_I32, .shape = SHAPE(2, 3), .dim = 1};
    fb_id c = constant(&r, FB_F32, 0.1), b = constant(&r, FB_BOOL, 2);
    fb_id x = add(&r, FB_OP_RANDOM, &random, 0, NULL), y = add(&r, FB_OP_RANDOM, &random, 0, NULL);
    fb_id i = add(&r, FB_OP_IOTA, &iota, 0, NULL);
    iota.dim = 0, iota.dtype = FB_F16;
    fb_id j = add(&r, FB_OP_IOTA, &iota, 0, NULL), outputs[] = {c, b, x, y, i, j};
    run_keeping_all(&r, outputs, 6, true);
    assert_true(get(&r, c)->v[0] == (double)0.1f);
    EXPECT(&r, b, 1);
    EXPECT(&r, i, 0, 1, 2, 0, 1, 2);
    EXPECT(&r, j, 0, 0, 0, 1, 1, 1);
    expect_values(&r, y, 3, get(&r, x)->v);
    float stored[3];
    assert_true(fb_interp_fill_source(r.g, x, 99, NULL, NULL, 0, 3, stored, NULL));
    for (int k = 0; k < 3; k++) assert_true(stored[k] == (float)get(&r, x)->v[k]);
    rig_free(&r);
}

/* ---- loops and assigns ---- */

/* h' = tanh(h · 0.5 + x[t]), stacked, against the same in C. */
static void a_loop_carries_scans_and_stacks(void **state)
{
    (void)state;
    enum { T = 4, N = 3 };
    double x[T * N], wanted[T * N], h[N] = {0.1, 0.2, 0.3};
    for (int k = 0; k < T * N; k++) x[k] = 0.1 * k - 0.5;
    rig r = rig_new();
    fb_id init = data(&r, FB_F64, SHAPE(N), h), xs = data(&r, FB_F64, SHAPE(T, N), x), carried, item;
    assert_int_not_equal(fb_graph_region_open(r.g, T, &init, 1, &xs, 1, &carried, &item, 0, &r.err), FB_NONE);
    fb_id step = add(&r, FB_OP_STEP, NULL, 0, NULL);
    fb_id next =
        add1(&r, FB_OP_TANH, add2(&r, FB_OP_ADD, add2(&r, FB_OP_MUL, carried, constant(&r, FB_F64, 0.5)), item));
    fb_id loop = fb_graph_region_close(r.g, &next, (fb_id[]){next, step}, 2, &r.err);
    assert_int_not_equal(loop, FB_NONE);
    fb_id out[3];
    for (int i = 0; i < 3; i++) out[i] = add_at(&r, FB_OP_RESULT, loop, (fb_attrs){.index = i});
    run_keeping_all(&r, out, 3, true);
    double now[N] = {0.1, 0.2, 0.3};
    for (int k = 0; k < T * N; k++) wanted[k] = now[k % N] = tanh(now[k % N] * 0.5 + x[k]);
    expect_values(&r, out[0], N, now);
    expect_values(&r, out[1], T * N, wanted);
    EXPECT(&r, out[2], 0, 1, 2, 3);
    assert_true(bound_at(get(&r, out[1]), 0) > 0 && isfinite(bound_at(get(&r, out[0]), 0)));
    assert_true(bound_at(get(&r, out[0]), 1) == bound_at(get(&r, out[1]), (T - 1) * N + 1));
    rig_free(&r);
}

static void two_carried_values_are_exchanged_at_once(void **state)
{
    (void)state;
    for (int trips = 0; trips < 4; trips++) {
        rig r = rig_new();
        fb_id init[2] = {constant(&r, FB_I64, 1), constant(&r, FB_I64, 1)}, c[2];
        assert_int_not_equal(fb_graph_region_open(r.g, trips, init, 2, NULL, 0, c, NULL, 0, &r.err), FB_NONE);
        fb_id yields[2] = {c[1], add2(&r, FB_OP_ADD, c[0], c[1])};
        fb_id loop = fb_graph_region_close(r.g, yields, yields, 1, &r.err);
        assert_int_not_equal(loop, FB_NONE);
        fb_id out[3];
        for (int i = 0; i < 3; i++) out[i] = add_at(&r, FB_OP_RESULT, loop, (fb_attrs){.index = i});
        run_keeping_all(&r, out, 3, true);
        static const double fibonacci[] = {1, 1, 2, 3, 5};
        expect_values(&r, out[0], 1, fibonacci + trips);
        expect_values(&r, out[1], 1, fibonacci + trips + 1);
        expect_values(&r, out[2], trips, fibonacci + 1);
        rig_free(&r);
    }
}

/* Inner: a += outer's counter, inner's trips times; outer: three times. */
static void loops_nest(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id zero = constant(&r, FB_I64, 0), a, b;
    assert_int_not_equal(fb_graph_region_open(r.g, 3, &zero, 1, NULL, 0, &a, NULL, 0, &r.err), FB_NONE);
    fb_id outer_step = add(&r, FB_OP_STEP, NULL, 0, NULL);
    assert_int_not_equal(fb_graph_region_open(r.g, 4, &a, 1, NULL, 0, &b, NULL, 0, &r.err), FB_NONE);
    fb_id sum = add2(&r, FB_OP_ADD, b, outer_step);
    fb_id inner = fb_graph_region_close(r.g, &sum, NULL, 0, &r.err);
    assert_int_not_equal(inner, FB_NONE);
    fb_id after = add_at(&r, FB_OP_RESULT, inner, (fb_attrs){0});
    fb_id outer = fb_graph_region_close(r.g, &after, &after, 1, &r.err);
    assert_int_not_equal(outer, FB_NONE);
    fb_id last = add_at(&r, FB_OP_RESULT, outer, (fb_attrs){0}),
          all = add_at(&r, FB_OP_RESULT, outer, (fb_attrs){.index = 1});
    run_keeping_all(&r, (fb_id[]){last, all}, 2, true);
    EXPECT(&r, last, 12);
    EXPECT(&r, all, 0, 4, 12);
    rig_free(&r);
}

static void reads_see_the_old_parameter(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id p = source(&r, FB_OP_PARAM, FB_F32, SHAPE(2), (double[]){1, 2});
    fb_id doubled = add2(&r, FB_OP_ADD, p, p), assign = add2(&r, FB_OP_ASSIGN, p, doubled);
    fb_id late = add1(&r, FB_OP_NEG, p), receive = add1(&r, FB_OP_RECEIVE, doubled);
    run(&r, late);
    EXPECT(&r, assign, 2, 4);
    EXPECT(&r, late, -1, -2);
    EXPECT(&r, receive, 2, 4);
    rig_free(&r);
}

/* Gradient descent on p²/2 with rate 1/2, in a loop: p halves each step for the body, stays for what lies outside. */
static void assigns_in_a_loop_take_effect_between_steps(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id p = source(&r, FB_OP_PARAM, FB_F64, SCALAR, (double[]){8});
    assert_int_not_equal(fb_graph_region_open(r.g, 3, NULL, 0, NULL, 0, NULL, NULL, 0, &r.err), FB_NONE);
    fb_id half = add2(&r, FB_OP_MUL, p, constant(&r, FB_F64, 0.5)), assign = add2(&r, FB_OP_ASSIGN, p, half);
    fb_id seen = add1(&r, FB_OP_NEG, p);
    fb_id loop = fb_graph_region_close(r.g, NULL, &seen, 1, &r.err);
    assert_int_not_equal(loop, FB_NONE);
    fb_id all = add_at(&r, FB_OP_RESULT, loop, (fb_attrs){0}), after = add1(&r, FB_OP_NEG, p);
    run_keeping_all(&r, (fb_id[]){all, after}, 2, true);
    EXPECT(&r, all, -8, -4, -2);
    EXPECT(&r, assign, 1);
    EXPECT(&r, after, -8);
    rig_free(&r);
}

/* ---- what is kept, refused, cancelled ---- */

static bool stop_at_two(void *ctx, int done, int total)
{
    int *calls = ctx;
    assert_true(done <= total);
    return ++*calls < 3;
}

static void only_what_was_asked_for_is_kept(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_F32, SHAPE(2), (double[]){1, 2}), a = add1(&r, FB_OP_NEG, x), b = add1(&r, FB_OP_EXP, a);
    fb_id unused = add1(&r, FB_OP_EXP, x);
    assert_true(fb_graph_output(r.g, b, NULL, &r.err) && fb_graph_finish(r.g, &r.err));
    fb_interp_options o = {.files = rig_file, .files_ctx = &r};
    fb_interp *in = fb_interp_run(r.g, &o, NULL, 0, &r.err);
    assert_non_null(in);
    assert_null(fb_interp_get(in, x));
    assert_null(fb_interp_get(in, a));
    assert_null(fb_interp_get(in, unused));
    assert_null(fb_interp_get(in, -1));
    assert_null(fb_interp_get(in, 1000));
    assert_null(fb_interp_get(in, b)->bound); /* bounds were not asked for */
    fb_interp_free(in);
    in = fb_interp_run(r.g, &o, &a, 1, &r.err);
    assert_true(fb_interp_get(in, a)->v[1] == -2);
    fb_interp_free(in);
    rig_free(&r);
}

static void refusals_name_the_node(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_attrs big = {.dtype = FB_F32, .shape = SHAPE(1 << 20)};
    fb_id x = add(&r, FB_OP_INPUT, &big, 0, NULL), y = add1(&r, FB_OP_EXP, add1(&r, FB_OP_NEG, x));
    assert_true(fb_graph_output(r.g, y, NULL, &r.err) && fb_graph_finish(r.g, &r.err));
    fb_interp_options o = {.max_bytes = 9 << 20};
    assert_null(fb_interp_run(r.g, &o, NULL, 0, &r.err));
    assert_int_equal(r.err.kind, FB_ERR_LIMIT);
    assert_non_null(strstr(r.err.text, "neg"));
    o.max_bytes = 17 << 20; /* two tensors at a time are enough for a chain */
    fb_interp_free(fb_interp_run(r.g, &o, NULL, 0, &(fb_error){0}));
    fb_error none = {0};
    fb_interp *in = fb_interp_run(r.g, &o, NULL, 0, &none);
    assert_non_null(in);
    fb_interp_free(in);
    int calls = 0;
    o.progress = stop_at_two, o.progress_ctx = &calls;
    assert_null(fb_interp_run(r.g, &o, NULL, 0, &r.err));
    assert_int_equal(r.err.kind, FB_ERR_CANCELLED);
    assert_int_equal(calls, 3);
    rig_free(&r);
}

static void a_file_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_F32, SHAPE(2), NULL), y = add1(&r, FB_OP_NEG, x);
    assert_true(fb_graph_output(r.g, y, NULL, &r.err) && fb_graph_finish(r.g, &r.err));
    assert_null(fb_interp_run(r.g, &(fb_interp_options){0}, NULL, 0, &r.err));
    assert_int_equal(r.err.kind, FB_ERR_INPUT);
    assert_non_null(strstr(r.err.text, "input"));
    float to[2];
    assert_false(fb_interp_fill_source(r.g, x, 0, NULL, NULL, 0, 2, to, &r.err));
    rig_free(&r);
}

static void an_enormous_tensor_is_refused(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id zero = constant(&r, FB_F32, 0);
    fb_id y = add_at(&r, FB_OP_EXPAND, zero, (fb_attrs){.shape = SHAPE(1 << 20, 1 << 20)});
    assert_true(fb_graph_output(r.g, y, NULL, &r.err) && fb_graph_finish(r.g, &r.err));
    assert_null(fb_interp_run(r.g, &(fb_interp_options){0}, NULL, 0, &r.err));
    assert_int_equal(r.err.kind, FB_ERR_LIMIT);
    rig_free(&r);
}

/* ---- the lecture's numbers ---- */

static void expect_near(const rig *r, fb_id id, const double *wanted, double tolerance)
{
    const fb_tensor *t = get(r, id);
    assert_int_equal(t->n, LECTURE_ROWS * LECTURE_COLUMNS);
    for (int k = 0; k < LECTURE_ROWS * LECTURE_COLUMNS; k++) assert_true(fabs(t->v[k] - wanted[k]) <= tolerance);
}

static void the_lecture_s_tables_come_out(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_F32, SHAPE(LECTURE_ROWS, LECTURE_COLUMNS), lecture_x);
    fb_id y = data(&r, FB_F32, SHAPE(LECTURE_ROWS, LECTURE_COLUMNS), lecture_y);
    fb_id bias = data(&r, FB_F32, SHAPE(LECTURE_COLUMNS), lecture_bias), s = constant(&r, FB_F32, LECTURE_SCALE);
    fb_id add_relu = add1(&r, FB_OP_RELU, add2(&r, FB_OP_ADD, x, bias));
    fb_id scaled = add2(&r, FB_OP_ADD, x, add2(&r, FB_OP_MUL, s, y));
    fb_id add_mul_relu = add1(&r, FB_OP_RELU, add2(&r, FB_OP_ADD, scaled, bias));
    run_keeping_all(&r, (fb_id[]){add_relu, add_mul_relu}, 2, true);
    expect_near(&r, add_relu, lecture_add_relu, LECTURE_ADD_RELU_TOLERANCE);
    expect_near(&r, add_mul_relu, lecture_add_mul_relu, LECTURE_ADD_MUL_RELU_TOLERANCE);
    rig_free(&r);
}

static void the_lecture_s_ones_make_twos(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_attrs ones = {.dtype = FB_F32, .shape = SHAPE(128, 512), .dist = FB_DIST_CONSTANT, .value = 1};
    fb_id x = add(&r, FB_OP_INPUT, &ones, 0, NULL);
    ones.shape = SHAPE(512);
    fb_id y = add1(&r, FB_OP_RELU, add2(&r, FB_OP_ADD, x, add(&r, FB_OP_INPUT, &ones, 0, NULL)));
    run(&r, y);
    for (int k = 0; k < 128 * 512; k++) assert_true(get(&r, y)->v[k] == 2);
    rig_free(&r);
}

static void *look_for_blas(void *unused)
{
    (void)unused;
    return (void *)fb_blas_get(NULL);
}

static void blas_is_opened_once_for_all_threads(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, look_for_blas, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        void *found;
        assert_int_equal(pthread_join(threads[i], &found), 0);
        assert_ptr_equal(found, fb_blas_get(NULL));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blas_is_opened_once_for_all_threads),
        cmocka_unit_test(reductions_agree_with_plain_loops),
        cmocka_unit_test(reductions_have_pytorch_s_edges),
        cmocka_unit_test(a_scalar_reduces_to_itself),
        cmocka_unit_test(cumsum_runs_along_any_dim),
        cmocka_unit_test(cumprod_runs_along_any_dim),
        cmocka_unit_test(a_rank_is_a_stable_sort_s),
        cmocka_unit_test(views_move_elements),
        cmocka_unit_test(large_views_are_turned),
        cmocka_unit_test(expand_and_pad_add_elements),
        cmocka_unit_test(joins_put_operands_side_by_side),
        cmocka_unit_test(matmul_broadcasts_batches),
        cmocka_unit_test(blas_works_for_this_cpu),
        cmocka_unit_test(the_plain_product_agrees_with_blas),
        cmocka_unit_test(gathers_ignore_rows_that_are_not_there),
        cmocka_unit_test(elements_round_and_store_like_their_dtype),
        cmocka_unit_test(a_source_is_a_function_of_seed_name_and_index),
        cmocka_unit_test(constants_iota_and_random_need_no_seed),
        cmocka_unit_test(a_loop_carries_scans_and_stacks),
        cmocka_unit_test(two_carried_values_are_exchanged_at_once),
        cmocka_unit_test(loops_nest),
        cmocka_unit_test(reads_see_the_old_parameter),
        cmocka_unit_test(assigns_in_a_loop_take_effect_between_steps),
        cmocka_unit_test(only_what_was_asked_for_is_kept),
        cmocka_unit_test(refusals_name_the_node),
        cmocka_unit_test(a_file_that_is_not_there_is_an_error),
        cmocka_unit_test(an_enormous_tensor_is_refused),
        cmocka_unit_test(the_lecture_s_tables_come_out),
        cmocka_unit_test(the_lecture_s_ones_make_twos),
    };
    return cmocka_run_group_tests_name("interp", tests, NULL, NULL);
}
