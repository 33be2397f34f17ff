/* Trials: which lanes differ, and by how much; decisions; loops; what is given; blocks, samples and limits. */
#include "interp_help.h"
#include "trial_help.h"

#include "base/rng.h"
#include "graph/element.h"
#include "measure/judging.h"

#include <float.h>
#include <pthread.h>
#include <time.h>

static void finish_rig(rig *r, const fb_id *outputs, int n)
{
    for (int i = 0; i < n; i++) {
        if (!fb_graph_output(r->g, outputs[i], NULL, &r->err)) fail_msg("%s", r->err.text);
    }
    if (!fb_graph_finish(r->g, &r->err)) fail_msg("%s", r->err.text);
}

static trials *try_all(rig *r, const fb_id *want, int n)
{
    fb_trial_options o = {.trials = FB_TRIALS, .threads = 2, .files = rig_file, .files_ctx = r};
    finish_rig(r, want, n);
    trials *t = trials_of(r->g, &o, want, n, &r->err);
    for (int i = 0; i < n; i++) {
        for (int64_t k = 0; k < t->at[i].n; k++) assert_int_equal(t->at[i].seen[k], 1);
    }
    return t;
}

static fb_id normal(rig *r, fb_op op, fb_dtype dtype, fb_shape shape)
{
    return add(r, op, &(fb_attrs){.dtype = dtype, .shape = shape, .dist = FB_DIST_NORMAL, .high = 1}, 0, NULL);
}

static double most_spread(const trials *t, int which)
{
    double most = 0;
    for (int64_t k = 0; k < t->at[which].n; k++) most = fmax(most, spread_at(t, which, k));
    return most;
}

static int lanes_with(const trials *t, int which, int64_t k, double value)
{
    int n = 0;
    for (int l = 1; l <= t->trials; l++) n += t->at[which].v[l][k] == value;
    return n;
}

static const fb_attrs last_axis = {.n_axes = 1, .axes = {-1}};

/* What integers cannot hold is what each device makes of it. */
static void test_casts_that_do_not_fit_are_open(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(64));
    fb_id scale = add(&r, FB_OP_CONST, &(fb_attrs){.dtype = FB_F32, .value = 1e10}, 0, NULL);
    fb_id large = add2(&r, FB_OP_MUL, scale, x);
    fb_id want[] = {
        add_at(&r, FB_OP_CAST, x, (fb_attrs){.dtype = FB_I32}),
        add_at(&r, FB_OP_CAST, add1(&r, FB_OP_SQRT, x), (fb_attrs){.dtype = FB_I64}), /* NaN of what is negative */
        add_at(&r, FB_OP_CAST, large, (fb_attrs){.dtype = FB_I32}),
    };
    trials *t = try_all(&r, want, 3);
    assert_true(most_spread(t, 0) == 0);
    for (int64_t k = 0; k < 64; k++) assert_true(spread_at(t, 2, k) > 0 || fabs(t->at[2].v[0][k]) < 0x1p31);
    assert_true(most_spread(t, 1) > 0 && most_spread(t, 2) > 0);
    trials_free(t);
    rig_free(&r);
}

/* A product that a fused multiply-add keeps, less the same product rounded by way of a choice. */
static void test_choices_are_rounded(void **state)
{
    (void)state;
    static const fb_op ops[] = {FB_OP_AMAX, FB_OP_RELU, FB_OP_MAXIMUM};
    for (int i = 0; i < 6; i++) {
        rig r = rig_new();
        fb_op op = ops[i % 3];
        fb_id x = normal(&r, FB_OP_INPUT, i < 3 ? FB_F32 : FB_F64, SHAPE(100, 1)), p = add2(&r, FB_OP_MUL, x, x);
        fb_id chosen = op == FB_OP_AMAX   ? add_at(&r, op, p, last_axis)
                       : op == FB_OP_RELU ? add1(&r, op, p)
                                          : add2(&r, op, p, x);
        if (op == FB_OP_AMAX) chosen = add_at(&r, FB_OP_VIEW, chosen, (fb_attrs){.shape = SHAPE(100, 1)});
        fb_id y = add2(&r, FB_OP_SUB, p, chosen);
        trials *t = try_all(&r, &y, 1);
        for (int64_t k = 0; k < 100; k++)
            if (t->at[0].v[0][k] == 0) assert_true(i < 3 ? t->at[0].v[2][k] != 0 : spread_at(t, 0, k) > 0);
        trials_free(t);
        rig_free(&r);
    }
}

/* The maximum of a row whose values bf16 does not tell apart, stored; the row computed anew and kept wide has no value
 * like it, however many come close. */
static void test_a_maximum_may_equal_none(void **state)
{
    (void)state;
    rig r = rig_new();
    double close[64];
    for (int k = 0; k < 64; k++) close[k] = 0.0078125 * (1 + (k & 7) / 64.0);
    fb_id y = add1(&r, FB_OP_COS, data(&r, FB_BF16, SHAPE(4, 16), close));
    fb_id most = add_at(&r, FB_OP_AMAX, y, (fb_attrs){.n_axes = 1, .axes = {1}, .keepdim = true});
    fb_id same = add_at(&r, FB_OP_CAST, add2(&r, FB_OP_EQ, y, most), (fb_attrs){.dtype = FB_F32});
    fb_id count = add_at(&r, FB_OP_SUM, same, last_axis);
    trials *t = try_all(&r, &count, 1);
    for (int64_t k = 0; k < 4; k++) assert_true(lanes_with(t, 0, k, 0) > 0 && lanes_with(t, 0, k, 16) > 0);
    trials_free(t);
    rig_free(&r);
}

/* A value in a register less its own mean, which was stored: a rounding of the mean is left. */
static void test_a_value_and_its_stored_mean(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = normal(&r, FB_OP_INPUT, FB_BF16, SHAPE(100, 1)), p = add2(&r, FB_OP_MUL, x, x);
    fb_id y = add2(&r, FB_OP_SUB, p, add_at(&r, FB_OP_MEAN, p, (fb_attrs){.n_axes = 1, .axes = {1}, .keepdim = true}));
    trials *t = try_all(&r, &y, 1);
    int left = 0;
    for (int64_t k = 0; k < 100; k++) left += t->at[0].v[3][k] != 0;
    assert_true(left > 80); /* all but those whose square bf16 holds */
    trials_free(t);
    rig_free(&r);
}

/* The same of a value that was summed up itself. */
static void test_a_sum_and_its_stored_mean(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_attrs row = {.n_axes = 1, .axes = {1}, .keepdim = true};
    fb_id x = normal(&r, FB_OP_INPUT, FB_BF16, SHAPE(100, 4)), sum = add_at(&r, FB_OP_SUM, x, row);
    fb_id y = add2(&r, FB_OP_SUB, sum, add_at(&r, FB_OP_MEAN, sum, row));
    trials *t = try_all(&r, &y, 1);
    int left = 0;
    for (int64_t k = 0; k < 100; k++) left += t->at[0].v[6][k] != 0;
    assert_true(left > 40); /* not those whose sum bf16 holds */
    trials_free(t);
    rig_free(&r);
}

/* Lanes in which an element is no number that the dtype holds. */
static int lanes_lost(const trials *t, int which, int64_t element)
{
    int lost = 0;
    for (int l = 1; l <= FB_TRIALS; l++) lost += !isfinite(t->at[which].v[l][element]);
    return lost;
}

/* 70 to the 36th is beyond f32, whatever it is multiplied by then. */
static void test_products_that_overflow_on_the_way_are_open(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_attrs many = {.dtype = FB_F32, .shape = SHAPE(2, 36), .dist = FB_DIST_UNIFORM, .value = 70, .high = 71};
    fb_attrs none = {.dtype = FB_F32, .shape = SHAPE(2, 1), .dist = FB_DIST_CONSTANT};
    fb_id x = add(&r, FB_OP_INPUT, &many, 0, NULL), both[2] = {x, add(&r, FB_OP_INPUT, &none, 0, NULL)};
    fb_id all = add(&r, FB_OP_CAT, &(fb_attrs){.dim = 1}, 2, both);
    fb_id y[] = {add_at(&r, FB_OP_PROD, all, last_axis), add_at(&r, FB_OP_CUMPROD, all, (fb_attrs){.dim = 1})};
    trials *t = try_all(&r, y, 2);
    for (int64_t k = 0; k < 2; k++) {
        assert_true(t->at[0].v[0][k] == 0 && lanes_lost(t, 0, k) > 0 && lanes_lost(t, 0, k) < FB_TRIALS);
        assert_true(t->at[1].v[0][37 * k + 36] == 0 && lanes_lost(t, 1, 37 * k + 36) > 0);
        assert_int_equal(lanes_lost(t, 1, 37 * k + 19), 0); /* as yet nothing is lost */
    }
    trials_free(t);
    rig_free(&r);
}

/* Large factors and small ones: infinity, nothing or no number, as they come. */
static void test_products_lost_both_ways_are_open(void **state)
{
    (void)state;
    rig r = rig_new();
    enum { N = 40 };
    double factors[N];
    for (int k = 0; k < N; k++) factors[k] = k < N / 2 ? 0x1p-20 : 0x1p100;
    fb_id x = data(&r, FB_F32, SHAPE(1, N), factors);
    fb_id y[] = {add_at(&r, FB_OP_PROD, x, last_axis), add_at(&r, FB_OP_CUMPROD, x, (fb_attrs){.dim = 1})};
    trials *t = try_all(&r, y, 2);
    for (int i = 0; i < 2; i++) {
        int64_t last = t->at[i].n - 1;
        assert_true(isinf(t->at[i].v[0][last]));
        int open = 0;
        for (int l = 1; l <= FB_TRIALS; l++) open += isnan(t->at[i].v[l][last]);
        assert_int_equal(open, FB_TRIALS / 2);
    }
    trials_free(t);
    rig_free(&r);
}

/* A walk up and down: what is multiplied stands together, so that nothing overflows that is small on the way. With nine
 * large ones in a row it may. */
static void test_running_products_go_in_order(void **state)
{
    (void)state;
    enum { N = 90 };
    for (int row = 0; row < 2; row++) {
        rig r = rig_new();
        double factors[N];
        for (int k = 0; k < N; k++) factors[k] = row ? (k / 9 % 2 ? 0x1.1p-16 : 0x1p15) : k % 2 ? 0x1.1p-16 : 0x1p15;
        fb_id x = data(&r, FB_F32, SHAPE(1, N), factors);
        fb_id y[] = {add_at(&r, FB_OP_CUMPROD, x, (fb_attrs){.dim = 1}), add_at(&r, FB_OP_PROD, x, last_axis)};
        trials *t = try_all(&r, y, 2);
        assert_int_equal(lanes_lost(t, 0, N - 1) > 0, row);
        assert_true(lanes_lost(t, 1, 0) > 0); /* a sum by strides takes the large ones first */
        trials_free(t);
        rig_free(&r);
    }
}

/* 4e38 is beyond f32, and so is what is taken from it: their difference is not, and may be no number in a kernel. So may
 * what is infinite less something beyond f32, but not less a number. */
static void test_terms_beyond_the_accumulator_are_open(void **state)
{
    (void)state;
    rig r = rig_new();
    double a[] = {3e38, 3e38, 1}, b[] = {1.4, -1.3, 5};
    fb_id y = add2(&r, FB_OP_MATMUL, data(&r, FB_F32, SHAPE(1, 3), a), data(&r, FB_F32, SHAPE(3, 1), b));
    double c[] = {1e18, 1e18, 1};
    fb_id small = add2(&r, FB_OP_MATMUL, data(&r, FB_F32, SHAPE(1, 3), c), data(&r, FB_F32, SHAPE(3, 1), b));
    double infinite[] = {INFINITY, 3e38, 1}, above[] = {1, 1.3, -5};
    fb_id row = data(&r, FB_F32, SHAPE(1, 3), infinite);
    fb_id against = add2(&r, FB_OP_MATMUL, row, data(&r, FB_F32, SHAPE(3, 1), b));
    fb_id along = add2(&r, FB_OP_MATMUL, row, data(&r, FB_F32, SHAPE(3, 1), above));
    fb_id want[] = {y, small, against, along};
    trials *t = try_all(&r, want, 4);
    int lost = 0, met = 0;
    for (int l = 1; l <= FB_TRIALS; l++) {
        lost += isnan(t->at[0].v[l][0]);
        assert_true(isfinite(t->at[1].v[l][0]));
        met += isnan(t->at[2].v[l][0]);
        assert_true(t->at[3].v[l][0] == INFINITY);
    }
    assert_int_equal(lost, 2);
    assert_int_equal(met, 2);
    trials_free(t);
    rig_free(&r);
}

/* A factor of 0 that comes first hides nothing: in another order infinity is multiplied by it. */
static void test_products_with_nothing_in_them_may_overflow(void **state)
{
    (void)state;
    enum { N = 40 };
    for (int large = 0; large < 2; large++) {
        rig r = rig_new();
        double factors[N] = {0};
        for (int k = 1; k < N; k++) factors[k] = large ? 1000 : 2;
        fb_id y = add_at(&r, FB_OP_PROD, data(&r, FB_F32, SHAPE(1, N), factors), last_axis);
        trials *t = try_all(&r, &y, 1);
        assert_true(t->at[0].v[0][0] == 0);
        assert_int_equal(lanes_lost(t, 0, 0) > 0, large);
        trials_free(t);
        rig_free(&r);
    }
}

/* x·Φ(x) of -9 is 1e-18, and 0 in floats: its sign may be each of three, and the sign's size two. */
static void test_signs_near_zero_may_be_zero(void **state)
{
    (void)state;
    rig r = rig_new();
    double x[3] = {-9, -8, -2};
    fb_id y = add1(&r, FB_OP_ABS, add1(&r, FB_OP_SIGN, add1(&r, FB_OP_GELU, data(&r, FB_F32, SHAPE(3), x))));
    trials *t = try_all(&r, &y, 1);
    for (int64_t k = 0; k < 3; k++) assert_int_equal(lanes_with(t, 0, k, 0), k < 2 ? 2 : 0);
    trials_free(t);
    rig_free(&r);
}

/* The sum of four is beyond f32, their mean is not: whether it is there is up to when a device divides. */
static void test_means_whose_sums_overflow_are_open(void **state)
{
    (void)state;
    rig r = rig_new();
    double large[8] = {0x1p126, 0x1p126, 0x1p126, 0x1p126, -3e38, -1e38, 0, -0.5};
    fb_id y = add_at(&r, FB_OP_MEAN, data(&r, FB_F32, SHAPE(2, 4), large), last_axis);
    trials *t = try_all(&r, &y, 1);
    for (int64_t k = 0; k < 2; k++) {
        assert_true(isfinite(t->at[0].v[0][k]));
        assert_int_equal(lanes_with(t, 0, k, k ? -INFINITY : INFINITY), FB_TRIALS / 2);
    }
    trials_free(t);
    rig_free(&r);
}

/* Nothing but roundings is left of x·y - y·x: who divides by it may divide by 0, for a quotient or for a remainder. */
static void test_poles_in_reach_are_open(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(100)), y = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(100));
    fb_id small = add2(&r, FB_OP_SUB, add2(&r, FB_OP_ADD, add2(&r, FB_OP_ADD, x, y), x),
                       add2(&r, FB_OP_ADD, y, add2(&r, FB_OP_ADD, x, x)));
    fb_id want[] = {add2(&r, FB_OP_DIV, x, small), add1(&r, FB_OP_LOG, add1(&r, FB_OP_ABS, small)),
                    add2(&r, FB_OP_DIV, x, y), add2(&r, FB_OP_REMAINDER, x, small)};
    trials *t = try_all(&r, want, 4);
    for (int64_t k = 0; k < 100; k++) {
        int open = !isfinite(t->at[1].v[0][k]), none = 0; /* the exact lane alone may be at the pole */
        for (int l = 1; l <= FB_TRIALS; l++) open += !isfinite(t->at[1].v[l][k]), none += isnan(t->at[3].v[l][k]);
        assert_true(open > 0 && none > 0);
        assert_true(isfinite(t->at[2].v[1][k]) && isfinite(t->at[2].v[2][k]));
    }
    trials_free(t);
    rig_free(&r);
}

/* One exponent of all elements is whole or not: in one lane no power of what is negative is a number, in one all are. */
static void test_powers_share_their_exponent(void **state)
{
    (void)state;
    enum { N = 64 };
    rig r = rig_new();
    fb_id x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(1)), y = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(1));
    fb_id small = add2(&r, FB_OP_SUB, add2(&r, FB_OP_ADD, add2(&r, FB_OP_ADD, x, y), x),
                       add2(&r, FB_OP_ADD, y, add2(&r, FB_OP_ADD, x, x)));
    fb_id base = add1(&r, FB_OP_NEG, add1(&r, FB_OP_EXP, normal(&r, FB_OP_INPUT, FB_F32, SHAPE(N))));
    fb_id power = add2(&r, FB_OP_POW, base, small);
    trials *t = try_all(&r, &power, 1);
    bool all = false, none = false;
    for (int l = 1; l <= FB_TRIALS; l++) {
        int numbers = 0;
        for (int k = 0; k < N; k++) numbers += !isnan(t->at[0].v[l][k]);
        all |= numbers == N;
        none |= numbers == 0;
    }
    assert_true(all && none);
    trials_free(t);
    rig_free(&r);
}

/* Prefix sums are off together: the mean of a line is off as its elements are. So are products, each by its share. */
static void test_prefixes_are_off_together(void **state)
{
    (void)state;
    enum { N = 4096 };
    static double x[N];
    for (int product = 0; product < 2; product++) {
        rig r = rig_new();
        for (int k = 0; k < N; k++)
            x[k] = (float)(product + (product ? 0x1p-7 : 1) * fb_rng_uniform(fb_rng_bits(1, (uint64_t)k), -1, 1));
        fb_id y =
            add_at(&r, product ? FB_OP_CUMPROD : FB_OP_CUMSUM, data(&r, FB_F32, SHAPE(N), x), (fb_attrs){.dim = 0});
        trials *t = try_all(&r, &y, 1);
        double most = 0, usual = 0;
        for (int l = 1; l <= FB_TRIALS; l++) {
            double mean = 0;
            for (int64_t k = 0; k < N; k++) {
                double exact = t->at[0].v[0][k];
                mean += (t->at[0].v[l][k] - exact) / (product ? exact : 1) / N;
            }
            most = fmax(most, fabs(mean));
        }
        for (int64_t k = 0; k < N; k++) usual += spread_at(t, 0, k) / (product ? t->at[0].v[0][k] : 1) / N;
        assert_true(usual > 0 && most > usual / 4);
        trials_free(t);
        rig_free(&r);
    }
}

/* A product of n factors is rounded n - 1 times in f32, one after the other: the trials lie as far off, and not much
 * further. */
static void test_running_products_spread_as_they_round(void **state)
{
    (void)state;
    enum { N = 1000 };
    double x[N];
    for (int k = 0; k < N; k++) x[k] = (float)fb_rng_uniform(fb_rng_bits(2, (uint64_t)k), 0.9, 1.1);
    rig r = rig_new();
    fb_id y = add_at(&r, FB_OP_CUMPROD, data(&r, FB_F32, SHAPE(N), x), (fb_attrs){.dim = 0});
    trials *t = try_all(&r, &y, 1);
    float so_far = 1;
    for (int k = 0; k < N; k++) {
        double exact = t->at[0].v[0][k], spread = spread_at(t, 0, k);
        so_far *= (float)x[k];
        assert_true(fabs(so_far - exact) <= FB_TRIAL_MARGIN * spread);
        assert_true(spread <= 2 * sqrt(k + 1.0) * 0x1p-24 * fabs(exact) && (spread > 0) == (k > 0));
    }
    trials_free(t);
    rig_free(&r);
}

/* Factors next to 1, multiplied by pairs and pairs of pairs, lose about the same each time; factors further from 1 do not.
 * The trials lie as far off, and not much further. */
static void test_products_by_trees_lose_alike(void **state)
{
    (void)state;
    enum { N = 1 << 14 };
    static double x[N];
    static float part[N];
    for (int wide = 0; wide < 2; wide++) {
        rig r = rig_new();
        double far = wide ? 0x1p-6 : 0x1p-13, u = 0x1p-24;
        for (int k = 0; k < N; k++) {
            x[k] = (float)exp(far * fb_rng_uniform(fb_rng_bits(2, (uint64_t)k), -1, 1));
            part[k] = (float)x[k];
        }
        fb_id of = data(&r, FB_F32, SHAPE(1, N), x);
        fb_id y[] = {add_at(&r, FB_OP_CUMPROD, of, (fb_attrs){.dim = 1}), add_at(&r, FB_OP_PROD, of, last_axis)};
        trials *t = try_all(&r, y, 2);
        for (int n = N; n > 1; n /= 2)
            for (int k = 0; k < n / 2; k++) part[k] = part[2 * k] * part[2 * k + 1];
        double exact = t->at[1].v[0][0], off = fabs(part[0] - exact) / exact, likely = sqrt(N) * u;
        assert_true(wide ? off < 2 * likely : off > 8 * likely);
        for (int i = 0; i < 2; i++) {
            double spread = spread_at(t, i, i ? 0 : N - 1) / exact;
            assert_true(off <= FB_TRIAL_MARGIN * spread && spread <= 2 * fmax(off, likely));
        }
        trials_free(t);
        rig_free(&r);
    }
}

/* Where what is divided by is 0 exactly, as a count of values that are equal to a rounded one, lanes in which roundings
 * make some equal have a quotient. */
static void test_counts_that_may_be_zero(void **state)
{
    (void)state;
    enum { N = 64 };
    rig r = rig_new();
    double angles[N], sines[N];
    for (int k = 0; k < N; k++) {
        angles[k] = (float)(0.4 + k / 100.0);
        sines[k] = (float)sin(angles[k]);
    }
    fb_id x = data(&r, FB_F32, SHAPE(N), angles), y = data(&r, FB_F32, SHAPE(N), sines);
    fb_id equal = add2(&r, FB_OP_EQ, add1(&r, FB_OP_SIN, x), y);
    fb_id count = add_at(&r, FB_OP_CAST, equal, (fb_attrs){.dtype = FB_F32});
    fb_id want[] = {count, add2(&r, FB_OP_DIV, constant(&r, FB_F32, 2), count)};
    trials *t = try_all(&r, want, 2);
    int differ = 0;
    for (int k = 0; k < N; k++)
        for (int l = 1; l <= FB_TRIALS; l++) {
            bool one = t->at[0].v[l][k] == 1;
            if (t->at[0].v[0][k] == 1) continue;
            differ += one;
            assert_true(one ? isfinite(t->at[1].v[l][k]) : isinf(t->at[1].v[l][k]));
        }
    assert_true(differ > N);
    trials_free(t);
    rig_free(&r);
}

/* A mean that two nodes read may be added up for each: what one of them has of it is not what the other has. A product
 * of two inputs is the same for all. */
static void test_readers_may_have_it_apart(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(37, 64)), y = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(64));
    fb_id mean = add_at(&r, FB_OP_MEAN, x, (fb_attrs){.n_axes = 1, .axes = {0}});
    fb_id square = add2(&r, FB_OP_MUL, y, y);
    fb_id want[] = {add2(&r, FB_OP_SUB, add1(&r, FB_OP_ABS, mean), mean),
                    add2(&r, FB_OP_SUB, add1(&r, FB_OP_ABS, square), square), mean};
    trials *t = try_all(&r, want, 3);
    for (int k = 0; k < 64; k++) {
        bool positive = t->at[2].v[0][k] > 0;
        if (positive) assert_true(spread_at(t, 0, k) > 0 && spread_at(t, 0, k) < 4 * spread_at(t, 2, k));
        assert_true(spread_at(t, 1, k) == 0);
    }
    trials_free(t);
    rig_free(&r);
}

/* Sums that are 0, each of terms of another size: their ceilings turn one without the other. */
static void test_sums_of_nothing_turn_one_by_one(void **state)
{
    (void)state;
    enum { K = 22, N = 8 };
    rig r = rig_new();
    double signs[K], terms[K * N];
    for (int k = 0; k < K; k++) {
        signs[k] = k % 2 ? -1 : 1;
        for (int i = 0; i < N; i++) terms[k * N + i] = (float)(0.37 + 0.61 * i);
    }
    fb_id x = data(&r, FB_F32, SHAPE(1, K), signs), w = data(&r, FB_F32, SHAPE(K, N), terms);
    fb_id want[] = {add1(&r, FB_OP_CEIL, add2(&r, FB_OP_MATMUL, x, w))};
    trials *t = try_all(&r, want, 1);
    int together = 0;
    for (int i = 1; i < N; i++) {
        int alike = 0;
        for (int l = 1; l <= FB_TRIALS; l++) alike += t->at[0].v[l][i] == t->at[0].v[l][0];
        int above = lanes_with(t, 0, i, 1);
        assert_true(above > 0 && above < FB_TRIALS);
        together += alike == FB_TRIALS;
    }
    assert_true(together < N / 2);
    trials_free(t);
    rig_free(&r);
}

/* What is infinite in lane 0, at a pole, is so in half of the others, and a number in those that lie beside it: so is what
 * it is added up with. */
static void test_sums_beside_a_pole_are_numbers(void **state)
{
    (void)state;
    enum { K = 22, N = 8 };
    rig r = rig_new();
    double signs[K], terms[K * N];
    for (int k = 0; k < K; k++) {
        signs[k] = k % 2 ? -1 : 1;
        for (int i = 0; i < N; i++) terms[k * N + i] = i ? signs[k] : (double)0.37f;
    }
    fb_id x = data(&r, FB_F32, SHAPE(1, K), signs), w = data(&r, FB_F32, SHAPE(K, N), terms);
    fb_id over = add1(&r, FB_OP_DIGAMMA, add2(&r, FB_OP_MATMUL, x, w));
    fb_id want[] = {add_at(&r, FB_OP_SUM, over, last_axis), add_at(&r, FB_OP_MEAN, over, last_axis)};
    trials *t = try_all(&r, want, 2);
    for (int i = 0; i < 2; i++) {
        int numbers = 0;
        for (int l = 1; l <= FB_TRIALS; l++) numbers += isfinite(t->at[i].v[l][0]);
        assert_true(isinf(t->at[i].v[0][0]) && numbers == FB_TRIALS / 2);
    }
    trials_free(t);
    rig_free(&r);
}

/* The floor of what is next to 1 is 0 or 1 in each lane, and so is the sign of that; a comparison goes by the same. */
static void test_decisions_follow_from_decisions(void **state)
{
    (void)state;
    rig r = rig_new();
    const double large[] = {9, 10, 12, 14, 8.5, 11, 9.5, 13};
    fb_id step = add1(&r, FB_OP_FLOOR, add1(&r, FB_OP_TANH, data(&r, FB_F32, SHAPE(8), large)));
    fb_id above = add2(&r, FB_OP_GT, step, constant(&r, FB_F32, 0.5));
    fb_id want[] = {step, add1(&r, FB_OP_SIGN, step), add_at(&r, FB_OP_CAST, above, (fb_attrs){.dtype = FB_F32})};
    trials *t = try_all(&r, want, 3);
    assert_true(most_spread(t, 0) == 1);
    for (int k = 0; k < 8; k++)
        for (int l = 1; l <= FB_TRIALS; l++)
            for (int i = 1; i < 3; i++) assert_true(t->at[i].v[l][k] == t->at[0].v[l][k]);
    trials_free(t);
    rig_free(&r);
}

/* What a function gave, stored as it comes from most devices, less the same computed anew: 0, whatever its size. */
static void test_a_value_less_itself_is_nothing(void **state)
{
    (void)state;
    enum { N = 32 };
    rig r = rig_new();
    double of[N], stored[N];
    for (int k = 0; k < N; k++) {
        of[k] = (float)(60 + 0.17 * k);
        stored[k] = (float)exp2(of[k]);
    }
    fb_id x = data(&r, FB_F32, SHAPE(N), of), y = data(&r, FB_F32, SHAPE(N), stored);
    fb_id sub = add2(&r, FB_OP_SUB, add1(&r, FB_OP_EXP2, x), y);
    fb_id want[] = {add2(&r, FB_OP_MUL, sub, sub), sub};
    trials *t = try_all(&r, want, 2);
    for (int k = 0; k < N; k++) {
        if (t->at[1].v[0][k] == 0) continue;
        bool straddles = false;
        for (int l = 2; l <= FB_TRIALS; l++) straddles |= t->at[1].v[l][k] * t->at[1].v[1][k] < 0;
        if (straddles && lanes_with(t, 0, k, 0) == 0) fail_msg("%d", k);
    }
    trials_free(t);
    rig_free(&r);
}

/* The smallest of some sums is one of them, unless a kernel adds that up again in another order; of what is only copied
 * it is for sure. */
static void test_compared_sums_may_be_apart(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(37, 9)), y = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(9));
    fb_attrs first = {.n_axes = 1, .axes = {0}};
    fb_id sum = add_at(&r, FB_OP_SUM, x, first);
    fb_id want[] = {add2(&r, FB_OP_GT, add_at(&r, FB_OP_AMIN, sum, first), sum),
                    add2(&r, FB_OP_GT, add_at(&r, FB_OP_AMIN, y, first), y), sum};
    trials *t = try_all(&r, want, 3);
    int open = 0, smallest = 0;
    for (int k = 0; k < 9; k++) {
        open += isinf(spread_at(t, 0, k)) || spread_at(t, 0, k) > 0;
        if (t->at[2].v[0][k] < t->at[2].v[0][smallest]) smallest = k;
        assert_true(spread_at(t, 1, k) == 0);
    }
    assert_true(open == 1 && (isinf(spread_at(t, 0, smallest)) || spread_at(t, 0, smallest) > 0));
    trials_free(t);
    rig_free(&r);
}

/* A sum on a product of few rows and its negative lie on one line through 0; but a kernel may have added each up in its
 * own order, and of what nearly cancels the angle tells. */
static void test_angles_of_sums_may_be_apart(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id a = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(200, 3)), b = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(3, 5));
    fb_id sum = add2(&r, FB_OP_ADD, add2(&r, FB_OP_MATMUL, a, b), normal(&r, FB_OP_INPUT, FB_F32, SHAPE(200, 5)));
    fb_id one = add_at(&r, FB_OP_SLICE, sum, (fb_attrs){.dim = 1, .start = 1, .stop = 2, .step = 1});
    fb_id angle = add2(&r, FB_OP_ATAN2, sum, add1(&r, FB_OP_NEG, one));
    trials *t = try_all(&r, &angle, 1);
    double most = 0;
    for (int64_t k = 1; k < t->at[0].n; k += 5) most = fmax(most, spread_at(t, 0, k));
    assert_true(most > 0x1p-20);
    trials_free(t);
    rig_free(&r);
}

/* Terms that are all 0 leave a zero of either sign; terms that cancel leave one of a known sign. */
static void test_products_of_nothing_have_either_sign(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id w = normal(&r, FB_OP_PARAM, FB_F32, SHAPE(1, 33));
    fb_id one = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(1, 1)), zero = add2(&r, FB_OP_SUB, one, one);
    fb_id want[] = {add1(&r, FB_OP_RSQRT, add2(&r, FB_OP_MATMUL, zero, w)), add2(&r, FB_OP_MATMUL, zero, w)};
    trials *t = try_all(&r, want, 2);
    for (int k = 0; k < 33; k++) {
        bool plus = false, minus = false;
        for (int l = 1; l <= FB_TRIALS; l++) plus |= t->at[0].v[l][k] > 0, minus |= t->at[0].v[l][k] < 0;
        assert_true(plus && minus && spread_at(t, 1, k) == 0);
    }
    trials_free(t);
    rig_free(&r);
}

/* Which of two zeros is the larger is up to the kernel, and so is the sign that a copysign takes from it; that of what is
 * given is not, nor that of any other maximum. */
static void test_signs_of_computed_zeros_are_open(void **state)
{
    (void)state;
    rig r = rig_new();
    const double rows[] = {-1, -0.0, 0.0, 0.5, 0.25, -2}, given[] = {-0.0, 0.0};
    fb_id x = add1(&r, FB_OP_ERF, data(&r, FB_F32, SHAPE(2, 3), rows)), one = constant(&r, FB_F32, 1);
    fb_id want[] = {add2(&r, FB_OP_COPYSIGN, one, add_at(&r, FB_OP_AMAX, x, last_axis)),
                    add2(&r, FB_OP_COPYSIGN, one, data(&r, FB_F32, SHAPE(2), given))};
    trials *t = try_all(&r, want, 2);
    assert_in_range(lanes_with(t, 0, 0, -1), 1, FB_TRIALS - 1);
    assert_int_equal(lanes_with(t, 0, 1, 1), FB_TRIALS);
    for (int k = 0; k < 2; k++) assert_true(spread_at(t, 1, k) == 0);
    trials_free(t);
    rig_free(&r);
}

/* So it is where the zeros were given: a maximum has either, beside a pole, and of both operands of an angle. */
static void test_signs_of_given_zeros_are_open(void **state)
{
    (void)state;
    rig r = rig_new();
    const double rows[] = {-1, -0.0, 0.0, 0.0, 0.0, -2};
    fb_id most = add_at(&r, FB_OP_AMAX, data(&r, FB_F32, SHAPE(2, 3), rows), last_axis);
    fb_id want[] = {add1(&r, FB_OP_RECIP, most), add2(&r, FB_OP_ATAN2, most, most),
                    add2(&r, FB_OP_ATAN2, constant(&r, FB_F32, 0), most)};
    trials *t = try_all(&r, want, 3);
    for (int k = 0; k < 2; k++) {
        assert_in_range(lanes_with(t, 0, k, -INFINITY), 1, FB_TRIALS - 1);
        assert_in_range(lanes_with(t, 0, k, INFINITY), 1, FB_TRIALS - 1);
        assert_true(spread_at(t, 1, k) > 3 && spread_at(t, 2, k) > 3);
    }
    trials_free(t);
    rig_free(&r);
}

/* Functions of nothing keep its sign in each lane. */
static void test_functions_keep_the_sign_of_zeros(void **state)
{
    (void)state;
    static const fb_op ops[] = {FB_OP_TANH, FB_OP_ERF, FB_OP_GELU, FB_OP_SIN};
    const double terms[] = {0.3f, 0.7f, -0.7f, -0.3f};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        rig r = rig_new();
        fb_id sum = add_at(&r, FB_OP_SUM, data(&r, FB_F32, SHAPE(1, 4), terms), last_axis);
        fb_id of = add1(&r, FB_OP_ROUND, sum), want[] = {add1(&r, FB_OP_RECIP, add1(&r, ops[i], of)), of};
        trials *t = try_all(&r, want, 2);
        for (int l = 1; l <= FB_TRIALS; l++)
            assert_true(t->at[0].v[l][0] == (signbit(t->at[1].v[l][0]) ? -INFINITY : INFINITY));
        assert_in_range(lanes_with(t, 0, 0, INFINITY), 1, FB_TRIALS - 1);
        trials_free(t);
        rig_free(&r);
    }
}

/* The sum of one number is that, with the sign of its zero: a kernel hands it on. */
static void test_sums_of_one_keep_their_sign(void **state)
{
    (void)state;
    rig r = rig_new();
    const double zeros[] = {-0.0, 0.0, -1, 2};
    fb_id x = data(&r, FB_F32, SHAPE(1, 4), zeros);
    fb_id mean = add_at(&r, FB_OP_MEAN, x, (fb_attrs){.n_axes = 1, .axes = {0}});
    fb_id running = add_at(&r, FB_OP_CUMSUM, x, (fb_attrs){.dim = 0});
    fb_id want[] = {add1(&r, FB_OP_RECIP, mean), add1(&r, FB_OP_RECIP, running)};
    trials *t = try_all(&r, want, 2);
    const double expected[] = {-INFINITY, INFINITY, -1, 0.5};
    for (int k = 0; k < 8; k++)
        for (int l = 0; l <= FB_TRIALS; l++) {
            double v = t->at[k / 4].v[l][k % 4], e = expected[k % 4];
            assert_true(v == e || fabs(v / e - 1) < 1e-5);
        }
    trials_free(t);
    rig_free(&r);
}

/* Two that roundings may exchange change places in half of the lanes, together; the third stays. */
static void test_close_ranks_are_exchanged(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id third = data(&r, FB_F32, SHAPE(1), (double[]){0.333333343267440796});
    fb_id parts[] = {add2(&r, FB_OP_MUL, third, constant(&r, FB_F32, 3)), data(&r, FB_F32, SHAPE(2), (double[]){1, 5})};
    fb_id row = add(&r, FB_OP_CAT, &(fb_attrs){.dim = 0}, 2, parts);
    fb_id y = add_at(&r, FB_OP_RANK, row, (fb_attrs){.dim = 0});
    trials *t = try_all(&r, &y, 1);
    int first = 0;
    for (int l = 1; l <= FB_TRIALS; l++) {
        first += t->at[0].v[l][0] == 0;
        assert_true(t->at[0].v[l][0] + t->at[0].v[l][1] == 1 && t->at[0].v[l][2] == 2);
    }
    assert_int_equal(first, FB_TRIALS / 2);
    trials_free(t);
    rig_free(&r);
}

/* ---- what is exact stays so ---- */

static void test_exact_ops_have_no_spread(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(40, 50)), y = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(50));
    fb_id whole = add1(&r, FB_OP_FLOOR, x);
    fb_id want[] = {
        add1(&r, FB_OP_RELU, x),
        add2(&r, FB_OP_MAXIMUM, x, y),
        whole,
        add2(&r, FB_OP_LT, x, y),
        add_at(&r, FB_OP_AMAX, x, last_axis),
        add_at(&r, FB_OP_ARGMAX, x, last_axis),
        add_at(&r, FB_OP_CAST, x, (fb_attrs){.dtype = FB_I32}),
        add2(&r, FB_OP_ADD, whole, whole), /* small integers: every sum is one */
        add_at(&r, FB_OP_SUM, whole, last_axis),
        add_at(&r, FB_OP_CUMSUM, whole, (fb_attrs){.dim = 1}),
        add_at(&r, FB_OP_CUMPROD, add1(&r, FB_OP_SIGN, x), (fb_attrs){.dim = 1}),
        add2(&r, FB_OP_MATMUL, whole, add_at(&r, FB_OP_PERMUTE, whole, (fb_attrs){.n_axes = 2, .axes = {1, 0}})),
    };
    int n = (int)(sizeof want / sizeof *want);
    trials *t = try_all(&r, want, n);
    for (int i = 0; i < n; i++) {
        assert_int_equal(t->at[i].most_lanes, 1);
        assert_true(most_spread(t, i) == 0);
    }
    trials_free(t);
    rig_free(&r);
}

static void test_inexact_ops_spread(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(300)), d = normal(&r, FB_OP_INPUT, FB_F64, SHAPE(300));
    fb_id want[] = {
        add2(&r, FB_OP_MUL, x, x), add1(&r, FB_OP_TANH, x), add_at(&r, FB_OP_SUM, x, last_axis),
        add2(&r, FB_OP_MUL, d, d), add1(&r, FB_OP_EXP, d),
    };
    trials *t = try_all(&r, want, 5);
    const double u[] = {0x1p-24, 0x1p-24, 0x1p-24, 0x1p-53, 0x1p-53};
    for (int i = 0; i < 5; i++) {
        double size = 0;
        for (int64_t k = 0; k < t->at[i].n; k++) size = fmax(size, fabs(t->at[i].v[0][k]));
        assert_true(most_spread(t, i) > 0.1 * u[i] * size);
        assert_true(most_spread(t, i) < 100 * u[i] * fmax(size, 17)); /* 17: the norm of the sum's terms */
    }
    trials_free(t);
    rig_free(&r);
}

/* ---- rounding ---- */

/* The neighbours of x in the dtype. */
static void neighbours(fb_dtype dtype, double x, double *below, double *above)
{
    double nearest, step;
    fb_elements_round(dtype, 1, &x, &nearest);
    int bits = dtype == FB_F32 ? 23 : dtype == FB_F16 ? 10 : 7;
    step = ldexp(1, ilogb(x) - bits);
    *below = nearest <= x ? nearest : nearest - step;
    *above = nearest >= x ? nearest : nearest + step;
}

static void test_lanes_round_to_a_neighbour(void **state)
{
    (void)state;
    for (fb_dtype dtype = FB_F32; dtype <= FB_BF16; dtype++) {
        rig r = rig_new();
        fb_id x = add(&r, FB_OP_INPUT,
                      &(fb_attrs){.dtype = dtype, .shape = SHAPE(1000), .dist = FB_DIST_UNIFORM, .value = 1, .high = 9},
                      0, NULL);
        fb_id y = add2(&r, FB_OP_MUL, x, add_at(&r, FB_OP_FLIP, x, (fb_attrs){.n_axes = 1, .axes = {0}}));
        trials *t = try_all(&r, &y, 1);
        int up = 0, down = 0;
        for (int64_t k = 0; k < 1000; k++) {
            double below, above, exact = t->at[0].v[0][k];
            neighbours(dtype, exact, &below, &above);
            for (int l = 1; l <= FB_TRIALS; l++) {
                double v = t->at[0].v[l][k];
                if (!(v == below || v == above))
                    fail_msg("%s lane %d: %.17g of %.17g between %.17g and %.17g", fb_dtype_name(dtype), l, v, exact,
                             below, above);
                up += v > exact;
                down += v < exact;
                /* y is its own mirror image: equal values round alike */
                assert_true(v == t->at[0].v[l][999 - k]);
            }
        }
        assert_true(up > 2000 && down > 2000);
        trials_free(t);
        rig_free(&r);
    }
}

/* Two lanes round as devices do, to the nearest, and a third one what has 16 bits: what one correctly rounded op gives is
 * among the lanes bit for bit. */
static void test_some_lanes_round_to_the_nearest(void **state)
{
    (void)state;
    static const fb_dtype dtypes[] = {FB_BF16, FB_F16, FB_F32};
    for (int d = 0; d < 3; d++) {
        rig r = rig_new();
        fb_id x = normal(&r, FB_OP_INPUT, dtypes[d], SHAPE(3000)), y = normal(&r, FB_OP_PARAM, dtypes[d], SHAPE(3000));
        fb_id z = add2(&r, FB_OP_MUL, x, y);
        trials *t = try_all(&r, &z, 1);
        int lanes = 0;
        for (int l = 1; l <= FB_TRIALS; l++) {
            bool same = true;
            for (int64_t k = 0; k < 3000; k++) {
                double rounded, exact = t->at[0].v[0][k];
                fb_elements_round(dtypes[d], 1, &exact, &rounded);
                same &= rounded == t->at[0].v[l][k];
            }
            lanes += same;
        }
        if (lanes != (dtypes[d] == FB_F32 ? 2 : 3))
            fail_msg("%s: %d lanes round to the nearest", fb_dtype_name(dtypes[d]), lanes);
        trials_free(t);
        rig_free(&r);
    }
}

/* 16-bit values plus one number have few different rests, and a device rounds equal rests alike: the sum is off on
 * average, and some lane is off as far. */
static void test_equal_rests_are_rounded_alike(void **state)
{
    (void)state;
    for (int which = 0; which < 8; which++) {
        fb_dtype dtype = which % 2 ? FB_F16 : FB_BF16;
        rig r = rig_new();
        fb_id x = normal(&r, FB_OP_INPUT, dtype, SHAPE(4000));
        fb_id c = add(&r, FB_OP_CONST, &(fb_attrs){.dtype = dtype, .value = 0.0071 * (which + 1)}, 0, NULL);
        fb_id y = add2(&r, FB_OP_ADD, x, c);
        trials *t = try_all(&r, &y, 1);
        double nearest = 0, most = 0;
        for (int64_t k = 0; k < 4000; k++) {
            double rounded, exact = t->at[0].v[0][k];
            fb_elements_round(dtype, 1, &exact, &rounded);
            nearest += rounded - exact;
        }
        for (int l = 1; l <= FB_TRIALS; l++) {
            double offset = 0;
            for (int64_t k = 0; k < 4000; k++) offset += t->at[0].v[l][k] - t->at[0].v[0][k];
            most = fmax(most, fabs(offset));
        }
        if (!(fabs(nearest) < 4 * most)) fail_msg("%d: nearest %g, lanes %g", which, nearest, most);
        trials_free(t);
        rig_free(&r);
    }
}

/* Between two 16-bit ops a lane may keep f32: then the second op sees what the first did not round away. */
static void test_sixteen_bits_may_be_kept_wider(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = normal(&r, FB_OP_INPUT, FB_BF16, SHAPE(500)), one = constant(&r, FB_BF16, 1.0);
    fb_id y = add2(&r, FB_OP_ADD, x, one), z = add2(&r, FB_OP_SUB, y, one);
    trials *t = try_all(&r, &z, 1);
    double rounded = 0, kept = 0;
    for (int64_t k = 0; k < 500; k++) {
        double exact = t->at[0].v[0][k];
        rounded = fmax(rounded, fabs(t->at[0].v[1][k] - exact));
        kept = fmax(kept, fabs(t->at[0].v[2][k] - exact));
        for (int l = 1; l <= FB_TRIALS; l++) {
            double v = t->at[0].v[l][k], held;
            fb_elements_round(FB_BF16, 1, &v, &held);
            assert_true(v == held);
        }
    }
    assert_true(rounded > 0x1p-9);
    assert_true(kept < 0x1p-20);
    trials_free(t);
    rig_free(&r);
}

static void test_small_numbers_are_flushed_in_half_of_the_lanes(void **state)
{
    (void)state;
    rig r = rig_new();
    const double small[] = {0x1.5p-120, 0x1.5p-120};
    fb_id y = add2(&r, FB_OP_MUL, data(&r, FB_F32, SHAPE(2), small), constant(&r, FB_F32, 0x1p-10));
    trials *t = try_all(&r, &y, 1);
    int flushed = 0;
    for (int l = 1; l <= FB_TRIALS; l++) flushed += t->at[0].v[l][0] == 0;
    assert_int_equal(flushed, FB_TRIALS / 2);
    trials_free(t);
    rig_free(&r);
}

/* clamp(elu(y)) is y itself above 0. Where every kernel rounds y alike, y is not less than that; where y is a sum that
 * may hold a product as it is, y computed anew may differ from y stored. */
static void test_ties_by_construction(void **state)
{
    (void)state;
    enum { N = 400 };
    for (int product = 0; product < 2; product++) {
        rig r = rig_new();
        fb_id a = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(N)), half = constant(&r, FB_F32, 0.5);
        fb_id b = product ? normal(&r, FB_OP_INPUT, FB_F32, SHAPE(N)) : FB_NONE;
        fb_id of = product ? add2(&r, FB_OP_MUL, a, b) : a;
        fb_id y = add1(&r, FB_OP_LOG, add1(&r, FB_OP_ABS, add2(&r, FB_OP_ADD, of, half)));
        fb_id elu = add_at(&r, FB_OP_ELU, y, (fb_attrs){.value = 1});
        fb_id clamp = add_at(&r, FB_OP_CLAMP, elu, (fb_attrs){.value = -1.5, .high = 2});
        fb_id want[] = {add2(&r, FB_OP_LT, clamp, y), y};
        trials *t = try_all(&r, want, 2);
        int ties = 0, open = 0;
        for (int64_t k = 0; k < N; k++) {
            if (!(t->at[1].v[0][k] > 0.01 && t->at[1].v[0][k] < 1.99)) continue;
            assert_true(t->at[0].v[0][k] == 0);
            ties++;
            open += spread_at(t, 0, k) != 0;
        }
        assert_true(ties > N / 10);
        if (product ? open < ties / 2 : open > 0) fail_msg("%d: %d of %d are open", product, open, ties);
        trials_free(t);
        rig_free(&r);
    }
}

/* ln(1 + e^-z) / beta: e^-z is no normal number, and the result is one. */
static void test_what_is_flushed_on_the_way(void **state)
{
    (void)state;
    rig r = rig_new();
    const double x[] = {174.7, 177, 173.5};
    fb_attrs at = {.value = -0.5, .high = 1.5};
    fb_id y = add_at(&r, FB_OP_SOFTPLUS, data(&r, FB_F32, SHAPE(3), x), at);
    trials *t = try_all(&r, &y, 1);
    assert_true(fabs(t->at[0].v[0][0]) > FLT_MIN && fabs(t->at[0].v[0][1]) < FLT_MIN);
    assert_int_equal(lanes_with(t, 0, 0, 0), FB_TRIALS / 2);
    assert_in_range(lanes_with(t, 0, 1, 0), FB_TRIALS / 2, FB_TRIALS);
    assert_int_equal(lanes_with(t, 0, 2, 0), 0);
    trials_free(t);
    rig_free(&r);
}

static void test_overflow_is_told(void **state)
{
    (void)state;
    rig r = rig_new();
    const double big[] = {1, 200, 300, 300};
    fb_id x = data(&r, FB_F16, SHAPE(4), big), y = add2(&r, FB_OP_MUL, x, x), z = add2(&r, FB_OP_ADD, y, y);
    trials *t = try_all(&r, &z, 1);
    assert_int_equal(t->overflow.node, y);
    assert_int_equal(t->overflow.element, 2);
    assert_true(t->overflow.value == 90000);
    assert_true(t->at[0].v[0][2] == 180000 && isinf(t->at[0].v[1][2]));
    trials_free(t);
    rig_free(&r);
}

/* A power that a float does not hold has no sine: what jumps or bends there is open, whichever way lanes decide. */
static void test_what_overflowed_is_not_decided(void **state)
{
    (void)state;
    rig r = rig_new();
    const double big[] = {60, 70.5, 80, 95};
    fb_id x = data(&r, FB_F32, SHAPE(4), big), sine = add1(&r, FB_OP_SIN, add2(&r, FB_OP_POW, x, x));
    fb_id want[] = {add1(&r, FB_OP_CEIL, sine), add1(&r, FB_OP_FLOOR, sine), add1(&r, FB_OP_RELU, sine),
                    add2(&r, FB_OP_REMAINDER, sine, x), add1(&r, FB_OP_LOG, sine)};
    enum { WANTED = sizeof want / sizeof *want };
    trials *t = try_all(&r, want, WANTED);
    for (int i = 0; i < WANTED; i++) {
        for (int k = 0; k < 4; k++) {
            bool open = false;
            for (int l = 1; l <= FB_TRIALS; l++) open |= isnan(t->at[i].v[l][k]);
            if (!open) fail_msg("result %d, element %d is decided", i, k);
        }
    }
    trials_free(t);
    rig_free(&r);
}

/* e^12 is more than f16 holds: infinite in lanes that store it, and above 2 in all. What is decided by that is the same in
 * each, as what lies below the least of f16 is to a bound above it. */
static void test_what_overflowed_stays_on_its_side(void **state)
{
    (void)state;
    rig r = rig_new();
    const double large[] = {12, 15, 65};
    fb_id y = add1(&r, FB_OP_EXP, data(&r, FB_F16, SHAPE(3), large)), below = add1(&r, FB_OP_NEG, y);
    fb_id two = constant(&r, FB_F16, 2);
    const fb_attrs between = {.value = -1.5, .high = 2};
    fb_id same[] = {add_at(&r, FB_OP_CLAMP, y, between),
                    add_at(&r, FB_OP_CLAMP, below, between),
                    add1(&r, FB_OP_RELU, below),
                    add2(&r, FB_OP_MINIMUM, y, two),
                    add2(&r, FB_OP_MAXIMUM, two, below),
                    add1(&r, FB_OP_SIGN, y),
                    add2(&r, FB_OP_GT, y, two),
                    add2(&r, FB_OP_LT, two, below),
                    add2(&r, FB_OP_ATAN2, two, add1(&r, FB_OP_NEG, add1(&r, FB_OP_ABS, y)))};
    enum { SAME = sizeof same / sizeof *same };
    fb_id want[SAME + 1];
    memcpy(want, same, sizeof same);
    want[SAME] = y;
    trials *t = try_all(&r, want, SAME + 1);
    for (int k = 0; k < 3; k++) {
        assert_true(lanes_with(t, SAME, k, INFINITY) > 0);
        for (int i = 0; i < SAME; i++) {
            for (int l = 1; l <= FB_TRIALS; l++) {
                double off = fabs(t->at[i].v[l][k] - t->at[i].v[0][k]);
                if (!(off < 0x1p-8)) fail_msg("result %d, element %d turns in lane %d", i, k, l);
            }
        }
    }
    trials_free(t);
    rig_free(&r);
}

static void test_what_is_not_finite_stays_so(void **state)
{
    (void)state;
    rig r = rig_new();
    const double a[] = {NAN, 1, INFINITY, 1}, b[] = {0, 1, 0, 1};
    fb_id x = data(&r, FB_F32, SHAPE(2, 2), a), y = data(&r, FB_F32, SHAPE(2, 2), b);
    fb_id want[] = {add2(&r, FB_OP_MATMUL, x, y), add1(&r, FB_OP_EXP, x), add_at(&r, FB_OP_SUM, x, last_axis)};
    trials *t = try_all(&r, want, 3);
    for (int l = 0; l <= FB_TRIALS; l++) {
        for (int k = 0; k < 2; k++) assert_true(isnan(t->at[0].v[l][k]));
        assert_true(isnan(t->at[0].v[l][2])); /* inf · 0 */
        assert_true(t->at[0].v[l][3] == INFINITY);
        assert_true(isnan(t->at[1].v[l][0]) && t->at[1].v[l][2] == INFINITY);
        assert_true(isnan(t->at[2].v[l][0]) && t->at[2].v[l][1] == INFINITY);
    }
    assert_int_equal(t->overflow.node, FB_NONE);
    trials_free(t);
    rig_free(&r);
}

/* ---- decisions ---- */

/* Equal values less their mean, over what is left of them: 0 / 0, and a number where the mean was rounded. A product of
 * that is no number in lane 0, and one in lanes that have one. */
static void test_lanes_are_numbers_where_the_exact_one_is_none(void **state)
{
    (void)state;
    enum { M = 8, K = 32 };
    double equal[M * K], weights[K];
    for (int k = 0; k < M * K; k++) equal[k] = (double)(float)fb_rng_normal(fb_rng_bits(5, (uint64_t)(k / K)), 0, 1);
    for (int k = 0; k < K; k++) weights[k] = (double)(float)fb_rng_normal(fb_rng_bits(6, (uint64_t)k), 0, 1);
    fb_attrs over = {.n_axes = 1, .axes = {1}, .keepdim = true};
    rig r = rig_new();
    fb_id x = data(&r, FB_F32, SHAPE(M, K), equal), w = data(&r, FB_F32, SHAPE(K, 1), weights);
    fb_id left = add2(&r, FB_OP_SUB, x, add_at(&r, FB_OP_MEAN, x, over));
    fb_id size = add_at(&r, FB_OP_MEAN, add2(&r, FB_OP_MUL, left, left), over);
    fb_id unit = add1(&r, FB_OP_TANH, add2(&r, FB_OP_MUL, left, add1(&r, FB_OP_RSQRT, size)));
    fb_id want = add2(&r, FB_OP_MATMUL, unit, w);
    trials *t = try_all(&r, &want, 1);
    int numbers = 0;
    for (int k = 0; k < M; k++) {
        assert_true(isnan(t->at[0].v[0][k]));
        for (int l = 1; l <= FB_TRIALS; l++) numbers += isfinite(t->at[0].v[l][k]);
    }
    assert_true(numbers > M * FB_TRIALS / 2);
    trials_free(t);
    rig_free(&r);
}

static void test_close_decisions_go_both_ways(void **state)
{
    (void)state;
    rig r = rig_new();
    /* 3 · (1/3) in f32 is 1 but for a rounding; far away nothing is open. */
    const double thirds[] = {0.333333343267440796, 0.25};
    fb_id x = data(&r, FB_F32, SHAPE(2), thirds), y = add2(&r, FB_OP_MUL, x, constant(&r, FB_F32, 3));
    fb_id one = constant(&r, FB_F32, 1), rest = add2(&r, FB_OP_SUB, y, one);
    fb_id want[] = {
        add2(&r, FB_OP_LT, y, one),
        add1(&r, FB_OP_FLOOR, y),
        add1(&r, FB_OP_CEIL, y),
        add1(&r, FB_OP_SIGN, rest),
        add_at(&r, FB_OP_CAST, y, (fb_attrs){.dtype = FB_I32}),
        add2(&r, FB_OP_REMAINDER, y, one),
        add1(&r, FB_OP_ROUND, add2(&r, FB_OP_SUB, y, constant(&r, FB_F32, 0.5))),
        add2(&r, FB_OP_EQ, y, one),
    };
    trials *t = try_all(&r, want, 8);
    const double low[] = {0, 0, 1, -1, 0, -1, 0, 0}, high[] = {1, 1, 2, 1, 1, -1, 1, 1};
    for (int i = 0; i < 8; i++) {
        if (i == 5) continue;
        int zero = i == 3 ? 2 : 0, n_low = lanes_with(t, i, 0, low[i]), n_high = lanes_with(t, i, 0, high[i]);
        if (zero) assert_int_equal(lanes_with(t, i, 0, 0), zero); /* a sign's third value */
        assert_true(n_low + n_high + zero == FB_TRIALS);
        assert_true(n_low > 0 && n_high > 0); /* each lane goes its own way, but one that goes up, and one down */
        assert_true(spread_at(t, i, 1) == 0);
    }
    int next_to_one = 0, next_to_nothing = 0;
    for (int l = 1; l <= FB_TRIALS; l++) {
        next_to_one += t->at[5].v[l][0] > 0.999;
        next_to_nothing += fabs(t->at[5].v[l][0]) < 0.001;
    }
    assert_true(next_to_one > 0 && next_to_nothing > 0 && next_to_one + next_to_nothing == FB_TRIALS);
    trials_free(t);
    rig_free(&r);
}

/* The remainder of a number next to 1 is nothing or almost 1. Each element goes its own way, over 1 as over 3; two lanes
 * alone take all elements one way. */
static void test_remainders_turn_one_by_one(void **state)
{
    (void)state;
    enum { N = 32, LANE_DOWN = 3, LANE_UP = 4 };
    double x[N];
    for (int k = 0; k < N; k++) x[k] = 3.6 + k / 128.0; /* erf is 4e-7 to 6e-8 less than 1 */
    for (int divisor = 1; divisor <= 3; divisor += 2) {
        rig r = rig_new();
        fb_id one = add1(&r, FB_OP_ERF, data(&r, FB_F32, SHAPE(N), x)), of = constant(&r, FB_F32, divisor);
        fb_id y = add2(&r, FB_OP_REMAINDER, add2(&r, FB_OP_MUL, one, of), of);
        trials *t = try_all(&r, &y, 1);
        for (int l = 1; l <= FB_TRIALS; l++) {
            int nothing = 0;
            for (int k = 0; k < N; k++) nothing += t->at[0].v[l][k] < 0.5;
            if (l == LANE_DOWN || l == LANE_UP)
                assert_int_equal(nothing, l == LANE_UP ? N : 0);
            else
                assert_in_range(nothing, N / 8, N - N / 8);
        }
        trials_free(t);
        rig_free(&r);
    }
}

/* Far beyond one jump a step is what it is of: lanes that lie hundreds apart are not brought together. */
static void test_steps_of_what_is_far_apart(void **state)
{
    (void)state;
    enum { N = 256 };
    rig r = rig_new();
    double exponents[N];
    for (int k = 0; k < N; k++) exponents[k] = (float)(27.5 + k / 512.0);
    fb_id x = data(&r, FB_F32, SHAPE(N), exponents);
    fb_id z = add1(&r, FB_OP_EXP2, add2(&r, FB_OP_MUL, x, constant(&r, FB_F32, 0.9999)));
    fb_id want[] = {z, add1(&r, FB_OP_ROUND, z), add1(&r, FB_OP_FLOOR, z), add1(&r, FB_OP_CEIL, z),
                    add2(&r, FB_OP_SUB, z, add2(&r, FB_OP_REMAINDER, z, constant(&r, FB_F32, 3)))};
    trials *t = try_all(&r, want, 5);
    for (int i = 1; i < 5; i++)
        for (int k = 0; k < N; k++)
            for (int l = 1; l <= FB_TRIALS; l++)
                if (!(fabs(t->at[i].v[l][k] - t->at[0].v[l][k]) <= 40))
                    fail_msg("%d: lane %d of element %d is %.9g, and %.9g before", i, l, k, t->at[i].v[l][k],
                             t->at[0].v[l][k]);
    assert_true(most_spread(t, 0) > 100);
    trials_free(t);
    rig_free(&r);
}

static void test_argmax_takes_both_of_a_tie(void **state)
{
    (void)state;
    rig r = rig_new();
    const double rows[] = {0.1, 0.7, 0.69999993, 0.2, 5, 1, 2, 3};
    fb_id x = data(&r, FB_F32, SHAPE(2, 4), rows), y = add2(&r, FB_OP_MUL, x, constant(&r, FB_F32, 0.3));
    fb_id want[] = {add_at(&r, FB_OP_ARGMAX, y, last_axis), add_at(&r, FB_OP_ARGMAX, x, last_axis)};
    trials *t = try_all(&r, want, 2);
    assert_true(lanes_with(t, 0, 0, 1) > 0);
    assert_true(lanes_with(t, 0, 0, 2) > 0);
    assert_int_equal(lanes_with(t, 0, 0, 1) + lanes_with(t, 0, 0, 2), FB_TRIALS);
    assert_true(spread_at(t, 0, 1) == 0 && t->at[1].most_lanes == 1);
    trials_free(t);
    rig_free(&r);
}

/* ---- loops ---- */

typedef struct {
    fb_id w, x, carried, item, step, next, assigned, product, last, stacked, after;
} loop_graph;

/* w is assigned in the body, carried multiplied and stacked. */
static loop_graph loop_of(rig *r)
{
    loop_graph l = {.w = normal(r, FB_OP_PARAM, FB_F32, SHAPE(3)), .x = normal(r, FB_OP_INPUT, FB_F32, SHAPE(5, 3))};
    fb_id init = normal(r, FB_OP_INPUT, FB_F32, SHAPE(3));
    if (fb_graph_region_open(r->g, 5, &init, 1, &l.x, 1, &l.carried, &l.item, 0, &r->err) == FB_NONE)
        fail_msg("%s", r->err.text);
    l.step = add(r, FB_OP_STEP, NULL, 0, NULL);
    l.product = add2(r, FB_OP_MUL, l.item, l.w);
    l.next = add2(r, FB_OP_ADD, l.carried, l.product);
    fb_id count = add_at(r, FB_OP_CAST, l.step, (fb_attrs){.dtype = FB_F32});
    l.assigned = add2(r, FB_OP_ASSIGN, l.w, add2(r, FB_OP_ADD, add2(r, FB_OP_MUL, l.w, l.next), count));
    fb_id loop = fb_graph_region_close(r->g, &l.next, &l.product, 1, &r->err);
    if (loop == FB_NONE) fail_msg("%s", r->err.text);
    l.last = add_at(r, FB_OP_RESULT, loop, (fb_attrs){.index = 0});
    l.stacked = add_at(r, FB_OP_RESULT, loop, (fb_attrs){.index = 1});
    l.after = add2(r, FB_OP_ADD, l.last, l.w); /* reads the old w */
    return l;
}

static void test_loops_run(void **state)
{
    (void)state;
    rig r = rig_new();
    loop_graph l = loop_of(&r);
    fb_id want[] = {l.after, l.stacked, l.assigned, l.product}, outputs[] = {l.after, l.stacked};
    finish_rig(&r, outputs, 2);
    fb_trial_options o = {.trials = FB_TRIALS, .threads = 2};
    trials *t = trials_of(r.g, &o, want, 4, &r.err);
    r.in = fb_interp_run(r.g, &(fb_interp_options){0}, want, 4, &r.err);
    for (int i = 0; i < 4; i++) {
        const fb_tensor *e = get(&r, want[i]);
        for (int64_t k = 0; k < e->n; k++) {
            assert_true(t->at[i].v[0][k] == e->v[k]);
            assert_true(spread_at(t, i, k) <= 1e-4 * (1 + fabs(e->v[k])));
        }
        assert_true(most_spread(t, i) > 0);
    }
    trials_free(t);
    rig_free(&r);
}

/* What a step finds was stored by the one before, also in lanes that keep such values wide. */
static void test_loops_carry_what_is_stored(void **state)
{
    (void)state;
    enum { N = 50 };
    rig r = rig_new();
    fb_id init = normal(&r, FB_OP_INPUT, FB_BF16, SHAPE(N)), x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(2, N)), h, item;
    if (fb_graph_region_open(r.g, 2, &init, 1, &x, 1, &h, &item, 0, &r.err) == FB_NONE) fail_msg("%s", r.err.text);
    fb_id wide = add_at(&r, FB_OP_CAST, h, (fb_attrs){.dtype = FB_F32});
    fb_id next = add_at(&r, FB_OP_CAST, add2(&r, FB_OP_MUL, wide, item), (fb_attrs){.dtype = FB_BF16});
    fb_id loop = fb_graph_region_close(r.g, &next, &wide, 1, &r.err);
    if (loop == FB_NONE) fail_msg("%s", r.err.text);
    fb_id found = add_at(&r, FB_OP_RESULT, loop, (fb_attrs){.index = 1});
    finish_rig(&r, &found, 1);
    trials *t = trials_of(r.g, &(fb_trial_options){.trials = FB_TRIALS}, &found, 1, &r.err);
    int differ = 0;
    for (int l = 1; l <= FB_TRIALS; l++)
        for (int64_t k = N; k < 2 * N; k++) {
            double v = t->at[0].v[l][k];
            assert_true(fb_dtype_round(FB_BF16, v) == v);
            differ += v != t->at[0].v[3][k];
        }
    assert_true(differ > N / 4); /* lanes still round to either neighbour */
    trials_free(t);
    rig_free(&r);
}

/* A step may hand on what lies outside of the body. */
static void test_loops_yield_what_lies_outside(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id init = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(3)), other = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(3)), carried;
    if (fb_graph_region_open(r.g, 3, &init, 1, NULL, 0, &carried, NULL, 0, &r.err) == FB_NONE)
        fail_msg("%s", r.err.text);
    fb_id loop = fb_graph_region_close(r.g, &other, NULL, 0, &r.err);
    if (loop == FB_NONE) fail_msg("%s", r.err.text);
    fb_id want[] = {add_at(&r, FB_OP_RESULT, loop, (fb_attrs){.index = 0}), add1(&r, FB_OP_NEG, other)};
    trials *t = try_all(&r, want, 2);
    for (int64_t k = 0; k < 3; k++) assert_true(t->at[0].v[0][k] == -t->at[1].v[0][k] && t->at[0].v[0][k] != 0);
    trials_free(t);
    rig_free(&r);
}

static void test_one_step_of_a_body(void **state)
{
    (void)state;
    rig r = rig_new();
    loop_graph l = loop_of(&r);
    finish_rig(&r, (fb_id[]){l.after, l.stacked}, 2);
    const float w[] = {1, 2, 3}, item[] = {0.5f, 0.25f, 4}, carried[] = {10, 20, 30};
    const int64_t step = 7;
    fb_given given[] = {{l.w, w}, {l.carried, carried}, {l.item, item}, {l.step, &step}};
    fb_trial_options o = {.trials = FB_TRIALS, .threads = 1, .n_given = 4, .given = given};
    fb_id want[] = {l.next, l.assigned};
    trials *t = trials_of(r.g, &o, want, 2, &r.err);
    const double next[] = {10.5, 20.5, 42}, assigned[] = {17.5, 48, 133};
    for (int k = 0; k < 3; k++) {
        assert_true(t->at[0].v[0][k] == next[k]);
        assert_true(t->at[1].v[0][k] == assigned[k]);
    }
    trials_free(t);
    rig_free(&r);
}

/* ---- what is given ---- */

static void test_given_nodes_are_leaves(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(3)), y = add1(&r, FB_OP_EXP, x), z = add2(&r, FB_OP_ADD, y, y);
    finish_rig(&r, &z, 1);
    const float bytes[] = {1, -2, 1e30f};
    fb_trial_options o = {.trials = FB_TRIALS, .threads = 1, .n_given = 1, .given = &(fb_given){y, bytes}};
    trials *t = trials_of(r.g, &o, (fb_id[]){z, y}, 2, &r.err);
    for (int k = 0; k < 3; k++) {
        assert_true(t->at[0].v[0][k] == 2 * (double)bytes[k]);
        assert_true(t->at[1].v[0][k] == (double)bytes[k]);
    }
    assert_int_equal(t->at[0].most_lanes, 1);
    trials_free(t);
    rig_free(&r);
}

/* ---- blocks, samples, limits ---- */

/* layer_norm, a softmax behind it, and a product. The softmax reads the norm twice, for each alone as with all others:
 * what several read they may have apart. */
static int block_graph(rig *r, fb_id *want)
{
    fb_attrs mean = {.n_axes = 1, .axes = {-1}, .keepdim = true};
    fb_id x = normal(r, FB_OP_INPUT, FB_BF16, SHAPE(600, 130)), w = normal(r, FB_OP_INPUT, FB_BF16, SHAPE(130, 150));
    fb_id m = add_at(r, FB_OP_MEAN, x, mean), d = add2(r, FB_OP_SUB, x, m);
    fb_id deviation = add1(r, FB_OP_SQRT, add_at(r, FB_OP_MEAN, add2(r, FB_OP_MUL, d, d), mean));
    fb_id y = add2(r, FB_OP_DIV, d, deviation), z = add2(r, FB_OP_MATMUL, y, w);
    fb_id e = add1(r, FB_OP_EXP, add2(r, FB_OP_SUB, z, add_at(r, FB_OP_AMAX, z, mean)));
    want[0] = m;
    want[1] = deviation;
    want[2] = y;
    want[3] = add2(r, FB_OP_DIV, e, add2(r, FB_OP_ADD, add_at(r, FB_OP_SUM, e, mean), add_at(r, FB_OP_AMAX, y, mean)));
    want[4] = add_at(r, FB_OP_VIEW, add_at(r, FB_OP_PERMUTE, y, (fb_attrs){.n_axes = 2, .axes = {1, 0}}),
                     (fb_attrs){.shape = SHAPE(13, -1)});
    want[5] = add_at(r, FB_OP_SUM, y, (fb_attrs){.n_axes = 1, .axes = {0}});
    want[6] = add_at(r, FB_OP_CUMSUM, y, (fb_attrs){.dim = 0});
    return 7;
}

static void same_where_seen(const trials *a, const trials *b)
{
    for (int i = 0; i < a->n; i++) {
        for (int64_t k = 0; k < a->at[i].n; k++) {
            for (int l = 0; b->at[i].seen[k] && l <= a->trials; l++) {
                double x = a->at[i].v[l][k], y = b->at[i].v[l][k];
                if (fabs(x - y) > (l ? 0 : 1e-13 * fabs(x)))
                    fail_msg("%d[%lld] lane %d: %.17g %.17g", i, (long long)k, l, x, y);
            }
        }
    }
}

static void test_threads_and_blocks_change_nothing(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id want[8];
    int n = block_graph(&r, want);
    finish_rig(&r, want, n);
    fb_trial_options o = {.trials = FB_TRIALS, .threads = 1};
    trials *one = trials_of(r.g, &o, want, n, &r.err);
    assert_true(one->at[2].blocks > 1);
    for (int threads = 2; threads <= 3; threads++) {
        o.threads = threads;
        trials *more = trials_of(r.g, &o, want, n, &r.err);
        same_where_seen(one, more);
        trials_free(more);
    }
    /* Each alone, and in the smaller blocks of a sample. */
    o.sample = 3000;
    for (int i = 0; i < n; i++) {
        trials *own = trials_of(r.g, &o, want + i, 1, &r.err);
        trials of = *one;
        of.at += i;
        of.n = 1;
        same_where_seen(&of, own);
        trials_free(own);
    }
    trials_free(one);
    rig_free(&r);
}

static void test_samples_hold_both_ends(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(1000, 777)), y = add1(&r, FB_OP_EXP, x);
    finish_rig(&r, &y, 1);
    fb_trial_options o = {.trials = 2, .threads = 2, .sample = 20000};
    trials *t = trials_of(r.g, &o, &y, 1, &r.err);
    int64_t seen = 0;
    for (int64_t k = 0; k < t->at[0].n; k++) {
        assert_true(t->at[0].seen[k] <= 1);
        seen += t->at[0].seen[k];
    }
    assert_true(t->at[0].seen[0] && t->at[0].seen[t->at[0].n - 1]);
    assert_true(seen >= 20000 && seen < 200000);
    trials_free(t);
    rig_free(&r);
}

/* A table of eight gigabytes in doubles, of which three rows are read. */
static void test_tables_are_read_by_rows(void **state)
{
    (void)state;
    rig r = rig_new();
    const double ids[] = {5, 16000000, -1};
    fb_id table = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(1 << 24, 64)), index = data(&r, FB_I32, SHAPE(3), ids);
    fb_id y = add2(&r, FB_OP_EMBEDDING, table, index);
    /* A part of the table that another node wants is not what the index asks for. */
    fb_id part = add_at(&r, FB_OP_SLICE, table, (fb_attrs){.dim = 0, .start = 2, .stop = 3, .step = 1});
    fb_id want[] = {y, part};
    finish_rig(&r, want, 2);
    fb_trial_options o = {.trials = 2, .threads = 1, .files = rig_file, .files_ctx = &r, .max_bytes = 1 << 20};
    trials *t = trials_of(r.g, &o, want, 2, &r.err);
    float row[64];
    assert_true(fb_interp_fill_source(r.g, table, 0, NULL, NULL, (int64_t)16000000 * 64, 64, row, &r.err));
    for (int k = 0; k < 64; k++) {
        assert_true(t->at[0].v[0][64 + k] == (double)row[k]);
        assert_true(t->at[0].v[0][128 + k] == 0);
    }
    trials_free(t);
    rig_free(&r);
}

static void drop_block(void *ctx, int thread, const fb_trial_block *b)
{
    (void)ctx, (void)thread, (void)b;
}

/* Sums and a softmax of rows that would take half a gigabyte a node, in less. */
static void test_long_rows_come_in_slabs(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_attrs mean = {.n_axes = 1, .axes = {-1}, .keepdim = true}, ends = {.n_axes = 2, .axes = {0, 2}};
    fb_id x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(3, 1 << 21)),
          y = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(700, 5, 1300));
    fb_id e = add1(&r, FB_OP_EXP, add2(&r, FB_OP_SUB, x, add_at(&r, FB_OP_AMAX, x, mean)));
    fb_id soft = add2(&r, FB_OP_DIV, e, add_at(&r, FB_OP_SUM, e, mean));
    fb_id squares = add_at(&r, FB_OP_MEAN, add2(&r, FB_OP_MUL, y, y), ends);
    fb_id all = add_at(&r, FB_OP_SUM, soft, (fb_attrs){.n_axes = 2, .axes = {0, 1}});
    fb_id want[] = {squares, all};
    finish_rig(&r, want, 2);
    fb_trial_options o = {.trials = FB_TRIALS, .threads = 2, .max_bytes = (int64_t)200 << 20};
    trials *t = trials_of(r.g, &o, want, 2, &r.err);
    r.in = fb_interp_run(r.g, &(fb_interp_options){0}, want, 2, &r.err);
    for (int i = 0; i < 2; i++) {
        const fb_tensor *v = get(&r, want[i]);
        for (int64_t k = 0; k < v->n; k++) {
            assert_true(fabs(t->at[i].v[0][k] - v->v[k]) <= 1e-11 * v->v[k]);
            assert_true(spread_at(t, i, k) > 0 && spread_at(t, i, k) < 0.01 * v->v[k]);
        }
    }
    o.threads = 1;
    o.max_bytes = 0;
    trials *one = trials_of(r.g, &o, want, 2, &r.err);
    same_where_seen(t, one);
    trials_free(one);
    trials_free(t);
    rig_free(&r);
}

/* A loss is one number of all rows. Where they are more than memory holds, the sums of rows come first, some rows at a
 * time, and of a table that is computed the rows alone that a block's ids name, once these are known. */
static void test_losses_come_some_rows_at_a_time(void **state)
{
    (void)state;
    enum { ROWS = 8192, COLUMNS = 520 };
    rig r = rig_new();
    fb_attrs row = {.n_axes = 1, .axes = {-1}, .keepdim = true}, all = {.n_axes = 1, .axes = {0}};
    fb_id x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(ROWS, COLUMNS));
    fb_id far = add1(&r, FB_OP_SQRT, add_at(&r, FB_OP_SUM, add2(&r, FB_OP_MUL, x, x), last_axis));
    fb_id e = add1(&r, FB_OP_EXP, add2(&r, FB_OP_SUB, x, add_at(&r, FB_OP_AMAX, x, row)));
    fb_id soft = add2(&r, FB_OP_DIV, e, add_at(&r, FB_OP_SUM, e, row));
    fb_id flat = add_at(&r, FB_OP_VIEW, soft, (fb_attrs){.shape = SHAPE(ROWS * COLUMNS)});
    fb_id first = add(&r, FB_OP_IOTA, &(fb_attrs){.dtype = FB_I64, .shape = SHAPE(ROWS)}, 0, NULL);
    fb_id begin = add2(&r, FB_OP_MUL, first, constant(&r, FB_I64, COLUMNS));
    fb_id named =
        add(&r, FB_OP_INPUT,
            &(fb_attrs){.dtype = FB_I64, .shape = SHAPE(ROWS), .dist = FB_DIST_INTEGER, .high = COLUMNS}, 0, NULL);
    fb_id picked = add2(&r, FB_OP_EMBEDDING, flat, add2(&r, FB_OP_ADD, begin, named));
    fb_id want[] = {add_at(&r, FB_OP_MEAN, far, all), add_at(&r, FB_OP_MEAN, add1(&r, FB_OP_LOG, picked), all)};
    finish_rig(&r, want, 2);
    fb_trial_options o = {.trials = FB_TRIALS, .threads = 2, .max_bytes = (int64_t)100 << 20};
    trials *t = trials_of(r.g, &o, want, 2, &r.err);
    o.max_bytes = (int64_t)8 << 30;
    trials *whole = trials_of(r.g, &o, want, 2, &r.err);
    same_where_seen(whole, t);
    trials_free(whole);
    trials_free(t);
    rig_free(&r);
}

/* A product whose blocks all need the whole right operand: cut nevertheless where it would not fit. */
static void test_blocks_are_as_small_as_memory(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id a = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(1000, 60)), b = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(60, 1000));
    /* Whole numbers, whose sums do not depend on how BLAS orders them. */
    fb_id product = add2(&r, FB_OP_MATMUL, add1(&r, FB_OP_FLOOR, a), add1(&r, FB_OP_FLOOR, b));
    fb_id y = add1(&r, FB_OP_TANH, add2(&r, FB_OP_MUL, product, constant(&r, FB_F32, 0.3)));
    finish_rig(&r, &y, 1);
    fb_trial_options o = {.trials = FB_TRIALS, .threads = 2, .max_bytes = 25000000};
    trials *t = trials_of(r.g, &o, &y, 1, &r.err);
    assert_true(t->at[0].blocks > 5);
    o.max_bytes = 0;
    trials *free = trials_of(r.g, &o, &y, 1, &r.err);
    same_where_seen(free, t);
    trials_free(t);
    trials_free(free);
    rig_free(&r);
}

/* A weight that is turned has one plane as it had before, so that the last layer of a network is no reason to compute
 * all layers before it block by block. */
static void test_what_is_moved_has_one_plane(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(1, 400)), w = normal(&r, FB_OP_PARAM, FB_F32, SHAPE(400, 400));
    fb_id h = add1(&r, FB_OP_TANH, add2(&r, FB_OP_MATMUL, x, w));
    fb_id turned = add_at(&r, FB_OP_PERMUTE, normal(&r, FB_OP_PARAM, FB_F32, SHAPE(2000, 400)),
                          (fb_attrs){.n_axes = 2, .axes = {1, 0}});
    fb_id y = add2(&r, FB_OP_MATMUL, h, turned);
    finish_rig(&r, &y, 1);
    fb_trial_options o = {.trials = FB_TRIALS, .threads = 2, .max_bytes = 24000000};
    trials *t = trials_of(r.g, &o, &y, 1, &r.err);
    assert_int_equal(t->at[0].blocks, 1);
    trials_free(t);
    rig_free(&r);
}

/* Windows that are turned and cut: views of views, which nothing but such views reads. */
static fb_id windows_turned(rig *r, fb_id x, fb_id *views)
{
    views[0] = add_at(r, FB_OP_UNFOLD, x, (fb_attrs){.dim = 1, .stop = 5, .step = 2});
    views[1] = add_at(r, FB_OP_FLIP, views[0], (fb_attrs){.n_axes = 2, .axes = {1, 3}});
    views[2] = add_at(r, FB_OP_UNFOLD, views[1], (fb_attrs){.dim = 2, .stop = 3, .step = 1});
    views[3] = add_at(r, FB_OP_SLICE, views[2], (fb_attrs){.dim = 2, .start = 3, .stop = 120, .step = 4});
    views[4] = add_at(r, FB_OP_EXPAND, views[3], (fb_attrs){.shape = SHAPE(2, 6, 38, 30, 5, 3)});
    return add_at(r, FB_OP_PERMUTE, views[4], (fb_attrs){.n_axes = 6, .axes = {3, 1, 5, 0, 4, 2}});
}

/* They are read through: the same as when each is asked for by itself. */
static void test_views_of_views_are_read_through(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = add1(&r, FB_OP_TANH, normal(&r, FB_OP_INPUT, FB_F32, SHAPE(6, 80, 122))), want[7];
    fb_id y = add_at(&r, FB_OP_SUM, windows_turned(&r, x, want + 1), (fb_attrs){.n_axes = 2, .axes = {2, 4}});
    want[0] = add1(&r, FB_OP_EXP, y);
    finish_rig(&r, want, 6);
    fb_trial_options o = {.trials = FB_TRIALS, .threads = 2};
    trials *all = trials_of(r.g, &o, want, 6, &r.err), first = *all;
    first.n = 1;
    for (int threads = 1; threads <= 3; threads++) {
        fb_trial_options few = {.trials = FB_TRIALS, .threads = threads};
        trials *one = trials_of(r.g, &few, want, 1, &r.err);
        same_where_seen(&first, one);
        trials_free(one);
    }
    trials_free(all);
    rig_free(&r);
}

/* A softmax down the columns: cut along its rows, each block would need all of it, 75 MB a node. What is summed over
 * stays whole, and the columns are cut behind it; the sum of each column comes along, one dimension before. */
static void test_columns_are_cut_behind_what_is_summed(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_attrs down = {.n_axes = 1, .axes = {0}};
    fb_id x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(64, 1 << 14)), most = add_at(&r, FB_OP_AMAX, x, down);
    fb_id e = add1(&r, FB_OP_EXP, add2(&r, FB_OP_SUB, x, most));
    fb_id sum = add_at(&r, FB_OP_SUM, e, down), want[] = {add2(&r, FB_OP_DIV, e, sum), sum};
    finish_rig(&r, want, 2);
    fb_trial_options o = {.trials = FB_TRIALS, .threads = 1};
    trials *whole = trials_of(r.g, &o, want, 2, &r.err);
    o.max_bytes = 30 << 20;
    trials *t = trials_of(r.g, &o, want, 2, &r.err);
    assert_true(t->at[0].blocks > 8 && t->at[1].blocks > 8);
    for (int i = 0; i < 2; i++)
        for (int64_t k = 0; k < t->at[i].n; k++) assert_int_equal(t->at[i].seen[k], 1);
    same_where_seen(whole, t);
    trials_free(t);
    /* A sample is cut so too, and takes less. */
    o.sample = 2000;
    o.max_bytes = 8 << 20;
    t = trials_of(r.g, &o, want, 1, &r.err);
    int64_t seen = 0;
    for (int64_t k = 0; k < t->at[0].n; k++) seen += t->at[0].seen[k];
    assert_true(seen >= 2000 && seen < t->at[0].n / 2);
    assert_true(t->at[0].seen[0] && t->at[0].seen[t->at[0].n - 1]);
    trials of = *whole;
    of.n = 1;
    same_where_seen(&of, t);
    trials_free(t);
    trials_free(whole);
    rig_free(&r);
}

/* What is summed over lies on both sides of what is cut. */
static void test_channels_are_cut_between_what_is_summed(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_attrs ends = {.n_axes = 2, .axes = {0, 2}, .keepdim = true};
    fb_id x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(16, 64, 1024));
    fb_id y = add2(&r, FB_OP_SUB, x, add_at(&r, FB_OP_AMAX, add1(&r, FB_OP_TANH, x), ends));
    finish_rig(&r, &y, 1);
    fb_trial_options o = {.trials = FB_TRIALS, .threads = 1};
    trials *whole = trials_of(r.g, &o, &y, 1, &r.err);
    o.max_bytes = 30 << 20;
    trials *t = trials_of(r.g, &o, &y, 1, &r.err);
    for (int64_t k = 0; k < t->at[0].n; k++) assert_int_equal(t->at[0].seen[k], 1);
    same_where_seen(whole, t);
    trials_free(t);
    trials_free(whole);
    rig_free(&r);
}

/* h = tanh(h / 2 + x[t]), and all states; mixed: h of the row at the other end, so that a step needs more rows than the
 * one behind it. What is scanned is a source, or computed. */
static void loop_over_rows(rig *r, bool backwards, bool mixed, bool computed, fb_id want[2])
{
    enum { STEPS = 6, ROWS = 2000, COLUMNS = 24 };
    fb_id x = normal(r, FB_OP_INPUT, FB_F32, SHAPE(STEPS, ROWS, COLUMNS)), carried, item;
    fb_id init = normal(r, FB_OP_INPUT, FB_F32, SHAPE(ROWS, COLUMNS)), half = constant(r, FB_F32, 0.51);
    if (computed) x = add1(r, FB_OP_SIN, x);
    if (fb_graph_region_open(r->g, STEPS, &init, 1, &x, 1, &carried, &item, 0, &r->err) == FB_NONE)
        fail_msg("%s", r->err.text);
    if (backwards) fb_graph_region_turn(r->g);
    fb_id h = mixed ? add_at(r, FB_OP_FLIP, carried, (fb_attrs){.n_axes = 1, .axes = {0}}) : carried;
    fb_id next = add1(r, FB_OP_TANH, add2(r, FB_OP_ADD, add2(r, FB_OP_MUL, h, half), item));
    fb_id loop = fb_graph_region_close(r->g, &next, &next, 1, &r->err);
    if (loop == FB_NONE) fail_msg("%s", r->err.text);
    want[0] = add_at(r, FB_OP_RESULT, loop, (fb_attrs){.index = 0});
    want[1] = add_at(r, FB_OP_RESULT, loop, (fb_attrs){.index = 1});
    finish_rig(r, want, 2);
}

/* All states are 21 MB, and as much is scanned. Some rows are taken through all steps, then others. */
static void test_loops_go_by_rows(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        rig r = rig_new();
        fb_id want[2];
        bool mixed = i >> 1 & 1;
        loop_over_rows(&r, i & 1, mixed, i >> 2 & 1, want);
        fb_trial_options o = {.trials = FB_TRIALS, .threads = 1};
        if (!mixed) o.max_bytes = 16 << 20;
        trials *t = trials_of(r.g, &o, want, 2, &r.err);
        r.in = fb_interp_run(r.g, &(fb_interp_options){0}, want, 2, &r.err);
        for (int w = 0; w < 2; w++) {
            const fb_tensor *v = get(&r, want[w]);
            if (!mixed) assert_true(t->at[w].blocks > 1);
            for (int64_t k = 0; k < v->n; k++) {
                assert_int_equal(t->at[w].seen[k], 1);
                if (t->at[w].v[0][k] != v->v[k])
                    fail_msg("%d: %d[%lld]: %g, not %g", i, w, (long long)k, t->at[w].v[0][k], v->v[k]);
            }
            assert_true(most_spread(t, w) > 0);
        }
        /* Some rows of the last state alone: of each the same, whatever else is computed. */
        fb_trial_options some = {.trials = FB_TRIALS, .threads = 2, .sample = 1000};
        if (!mixed) some.max_bytes = 8 << 20;
        trials *s = trials_of(r.g, &some, want, 1, &r.err);
        trials of = *t;
        of.n = 1;
        same_where_seen(&of, s);
        trials_free(s);
        trials_free(t);
        rig_free(&r);
    }
}

/* Blocks that two threads hold at the same time. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t both;
    int first; /* the thread that came first; -1: none yet */
    bool met, late;
} meeting;

/* The first thread waits for another one: in vain, and long, where blocks come one after the other. */
static void meet(void *ctx, int thread, const fb_trial_block *b)
{
    enum { PATIENCE_S = 60 };
    meeting *m = ctx;
    struct timespec until;
    (void)b;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&m->lock);
    if (m->first < 0) m->first = thread;
    m->met |= thread != m->first;
    pthread_cond_broadcast(&m->both);
    while (!m->met && !m->late) m->late = pthread_cond_timedwait(&m->both, &m->lock, &until) != 0;
    pthread_mutex_unlock(&m->lock);
}

/* A sample of a loop of many small steps is a few rows, each of which takes long: they go beside each other. */
static void test_few_long_blocks_go_beside_each_other(void **state)
{
    enum { STEPS = 400, ROWS = 64, COLUMNS = 384 };
    (void)state;
    rig r = rig_new();
    fb_id x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(STEPS, ROWS, COLUMNS)), carried, item;
    fb_id init = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(ROWS, COLUMNS));
    if (fb_graph_region_open(r.g, STEPS, &init, 1, &x, 1, &carried, &item, 0, &r.err) == FB_NONE)
        fail_msg("%s", r.err.text);
    fb_id next = add1(&r, FB_OP_TANH, add2(&r, FB_OP_ADD, carried, item));
    fb_id loop = fb_graph_region_close(r.g, &next, &next, 1, &r.err);
    fb_id all = add_at(&r, FB_OP_RESULT, loop, (fb_attrs){.index = 1});
    finish_rig(&r, &all, 1);
    meeting m = {.lock = PTHREAD_MUTEX_INITIALIZER, .both = PTHREAD_COND_INITIALIZER, .first = -1};
    fb_trial_options o = {.trials = FB_TRIALS, .threads = 8, .sample = 1000};
    if (!fb_trial_run(r.g, &o, &all, 1, meet, &m, NULL, &r.err)) fail_msg("%s", r.err.text);
    assert_true(m.met);
    rig_free(&r);
}

static bool stop_half_way(void *ctx, int64_t done, int64_t total)
{
    int64_t *most = ctx;
    assert_true(done >= 0 && done <= total);
    if (done > *most) *most = done;
    return done < total / 2;
}

static void test_limits_and_cancelling(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(2000, 500)), y = add1(&r, FB_OP_EXP, x);
    finish_rig(&r, &y, 1);
    fb_trial_options o = {.trials = 8, .threads = 2, .max_bytes = 100000};
    assert_false(fb_trial_run(r.g, &o, &y, 1, drop_block, NULL, NULL, &r.err));
    assert_int_equal(r.err.kind, FB_ERR_LIMIT);
    assert_non_null(strstr(r.err.text, "input: "));
    int64_t most = 0;
    o = (fb_trial_options){.trials = 8, .threads = 1, .progress = stop_half_way, .progress_ctx = &most};
    assert_false(fb_trial_run(r.g, &o, &y, 1, drop_block, NULL, NULL, &r.err));
    assert_int_equal(r.err.kind, FB_ERR_CANCELLED);
    assert_true(most >= 500000 && most < 700000);
    rig_free(&r);
}

/* ---- contractions ---- */

/* Terms that go up and come down again: one after the other they are rounded where the sum is large, and it is not. */
static void test_sums_that_rise_and_fall(void **state)
{
    (void)state;
    enum { M = 6, N = 40, K = 1536 };
    rig r = rig_new();
    fb_attrs high = {.dtype = FB_F32, .shape = SHAPE(M, K / 2), .dist = FB_DIST_UNIFORM, .value = 99.1, .high = 101.7},
             low = {.dtype = FB_F32, .shape = SHAPE(M, K / 2), .dist = FB_DIST_UNIFORM, .value = -101.3, .high = -98.9},
             weight = {.dtype = FB_F32, .shape = SHAPE(K, N), .dist = FB_DIST_UNIFORM, .value = 0.91, .high = 1.13};
    fb_id x = add(&r, FB_OP_INPUT, &high, 0, NULL), h = add(&r, FB_OP_INPUT, &low, 0, NULL);
    fb_id a = add(&r, FB_OP_CAT, &(fb_attrs){.dim = 1}, 2, (fb_id[]){x, h}), b = add(&r, FB_OP_PARAM, &weight, 0, NULL);
    fb_id want[] = {a, b, add2(&r, FB_OP_MATMUL, a, b)};
    trials *t = try_all(&r, want, 3);
    double off = 0, most = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0;
            for (int k = 0; k < K; k++)
                sum = fmaf((float)t->at[0].v[0][i * K + k], (float)t->at[1].v[0][k * N + j], sum);
            double exact = t->at[2].v[0][i * N + j];
            off = fmax(off, fabs((double)sum - exact));
            for (int l = 1; l <= FB_TRIALS; l++) most = fmax(most, fabs(t->at[2].v[l][i * N + j] - exact));
        }
    if (!(off < 4 * most && most < 40 * off)) fail_msg("one after the other %g, lanes %g", off, most);
    trials_free(t);
    rig_free(&r);
}

/* h · w + b + x · v in one accumulator, h first: where a row of x and a column of v are constant (inputs that tell
 * are), each of x's terms loses the same to the sum that h left. Their own sum is small, and says nothing of that. */
static void test_products_in_one_accumulator(void **state)
{
    (void)state;
    enum { M = 4, N = 40, K = 384 };
    rig r = rig_new();
    fb_attrs same = {.dtype = FB_F32, .shape = SHAPE(M, K), .dist = FB_DIST_CONSTANT, .value = 0.0100234},
             columns = {.dtype = FB_F32, .shape = SHAPE(1, N), .dist = FB_DIST_UNIFORM, .value = 0.6, .high = 0.7},
             state_of = {.dtype = FB_F32, .shape = SHAPE(M, K), .dist = FB_DIST_NORMAL, .value = 0, .high = 2};
    fb_id x = add(&r, FB_OP_INPUT, &same, 0, NULL), h = add(&r, FB_OP_INPUT, &state_of, 0, NULL);
    fb_id v = add_at(&r, FB_OP_EXPAND, add(&r, FB_OP_PARAM, &columns, 0, NULL), (fb_attrs){.shape = SHAPE(K, N)}),
          w = normal(&r, FB_OP_PARAM, FB_F32, SHAPE(K, N)), b = normal(&r, FB_OP_PARAM, FB_F32, SHAPE(N));
    fb_id sum = add2(&r, FB_OP_ADD, add2(&r, FB_OP_ADD, add2(&r, FB_OP_MATMUL, x, v), b), add2(&r, FB_OP_MATMUL, h, w));
    fb_id want[] = {x, h, v, w, b, sum};
    trials *t = try_all(&r, want, 6);
    double off = 0, most = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float s = 0;
            for (int k = 0; k < K; k++) s = fmaf((float)t->at[1].v[0][i * K + k], (float)t->at[3].v[0][k * N + j], s);
            for (int k = 0; k < K; k++) s = fmaf((float)t->at[0].v[0][i * K + k], (float)t->at[2].v[0][k * N + j], s);
            s += (float)t->at[4].v[0][j];
            off = fmax(off, fabs((double)s - t->at[5].v[0][i * N + j]) / spread_at(t, 5, i * N + j));
            most = fmax(most, spread_at(t, 5, i * N + j));
        }
    if (!(off < 4 && most < 5e-3)) fail_msg("off by %g spreads, of which the largest is %g", off, most);
    trials_free(t);
    rig_free(&r);
}

/* [x, h] by one weight: h's terms are nearly equal, and each loses the same to what x left, by and by more than √n. */
static void test_even_terms_on_top_of_others(void **state)
{
    (void)state;
    enum { M = 6, N = 40, K = 384 };
    rig r = rig_new();
    fb_attrs same = {.dtype = FB_F32, .shape = SHAPE(M, K), .dist = FB_DIST_CONSTANT, .value = 0.76159418},
             far = {.dtype = FB_F32, .shape = SHAPE(M, K), .dist = FB_DIST_NORMAL, .value = 64, .high = 1},
             even = {
                 .dtype = FB_F32, .shape = SHAPE(2 * K, N), .dist = FB_DIST_UNIFORM, .value = 2.784, .high = 2.7843};
    fb_id x = add(&r, FB_OP_INPUT, &far, 0, NULL), h = add(&r, FB_OP_INPUT, &same, 0, NULL),
          v = add(&r, FB_OP_PARAM, &even, 0, NULL);
    fb_id xh = add(&r, FB_OP_CAT, &(fb_attrs){.dim = 1}, 2, (fb_id[]){x, h});
    fb_id want[] = {xh, v, add2(&r, FB_OP_MATMUL, xh, v)};
    trials *t = try_all(&r, want, 3);
    double off = 0, most = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float s = 0;
            for (int k = 0; k < 2 * K; k++)
                s = fmaf((float)t->at[0].v[0][i * 2 * K + k], (float)t->at[1].v[0][k * N + j], s);
            off = fmax(off, fabs((double)s - t->at[2].v[0][i * N + j]) / spread_at(t, 2, i * N + j));
            most = fmax(most, spread_at(t, 2, i * N + j));
        }
    if (!(off < 6 && most < 4)) fail_msg("off by %g spreads, of which the largest is %g", off, most);
    trials_free(t);
    rig_free(&r);
}

/* x · w with columns 2 and 8 of w equal, or w · x with rows 2 and 8 of w equal, and these the largest; what is wanted
 * is the product less its maximum, from a kernel that rounds the equal sums in its own ways. */
enum { EQUAL_M = 24, EQUAL_N = 9, EQUAL_K = 64, EQUAL_ONE = 2, EQUAL_TWO = 8 };

typedef struct {
    rig r;
    double x[EQUAL_M * EQUAL_K], w[EQUAL_K * EQUAL_N];
    bool turned, stored;
    trials *t;
} equal_sums;

static void equal_sums_open(equal_sums *e)
{
    e->r = rig_new();
    for (int i = 0; i < EQUAL_M * EQUAL_K; i++)
        e->x[i] = (double)(float)(0.5 + fb_rng_uniform(fb_rng_bits(5, (uint64_t)i), 0, 1));
    for (int k = 0; k < EQUAL_K; k++) {
        for (int j = 0; j < EQUAL_N; j++) {
            uint64_t draw = fb_rng_bits(6, (uint64_t)(k * EQUAL_N + (j == EQUAL_TWO ? EQUAL_ONE : j)));
            bool largest = j == EQUAL_ONE || j == EQUAL_TWO;
            double w = (double)(float)(fb_rng_uniform(draw, 0, 1) + (largest ? 1 : -0.5));
            e->w[e->turned ? j * EQUAL_K + k : k * EQUAL_N + j] = w;
        }
    }
    int m = e->turned ? EQUAL_K : EQUAL_M, n = e->turned ? EQUAL_M : EQUAL_K;
    fb_id x = data(&e->r, FB_F32, SHAPE(m, n), e->x);
    fb_id w = data(&e->r, FB_F32, e->turned ? SHAPE(EQUAL_N, EQUAL_K) : SHAPE(EQUAL_K, EQUAL_N), e->w);
    fb_id p = e->turned ? add2(&e->r, FB_OP_MATMUL, w, x) : add2(&e->r, FB_OP_MATMUL, x, w);
    fb_attrs over = {.n_axes = 1, .axes = {e->turned ? 0 : 1}, .keepdim = true};
    fb_id want[] = {add2(&e->r, FB_OP_SUB, p, add_at(&e->r, FB_OP_AMAX, p, over)), p};
    e->t = try_all(&e->r, want, e->stored ? 2 : 1);
}

/* What is stored where the sums of a line are off by up[0] and up[1] steps of a float, and the second one a factor
 * times what it should be. */
static bool equal_sums_judged(const equal_sums *e, int up_one, int up_two, float factor)
{
    const fb_node *node = &e->r.g->nodes[e->t->at[0].node];
    fb_judge_shape shape = fb_judgement_shape_of(node);
    fb_trial_block b = {.node = e->t->at[0].node, .n = e->t->at[0].n, .lanes = 1 + FB_TRIALS};
    float got[EQUAL_M * EQUAL_N], spread[EQUAL_M * EQUAL_N];
    for (int i = 0; i < EQUAL_M; i++) {
        float sum[EQUAL_N], most = -INFINITY;
        for (int j = 0; j < EQUAL_N; j++) {
            double exact = 0;
            for (int k = 0; k < EQUAL_K; k++)
                exact += e->turned ? e->w[j * EQUAL_K + k] * e->x[k * EQUAL_M + i]
                                   : e->x[i * EQUAL_K + k] * e->w[k * EQUAL_N + j];
            int up = j == EQUAL_ONE ? up_one : j == EQUAL_TWO ? up_two : 0;
            sum[j] = (float)exact;
            for (; up > 0; up--) sum[j] = nextafterf(sum[j], INFINITY);
            if (j == EQUAL_TWO) sum[j] *= factor;
            most = fmaxf(most, sum[j]);
        }
        for (int j = 0; j < EQUAL_N; j++) got[e->turned ? j * EQUAL_M + i : i * EQUAL_N + j] = sum[j] - most;
    }
    fb_spread s = {0};
    fb_judgement j;
    fb_error_report report;
    for (int l = 0; l <= FB_TRIALS; l++) b.v[l] = e->t->at[0].v[l];
    fb_judgement_clear(&j);
    fb_spread_add(&s, &shape, &b, spread);
    fb_judgement_add(&j, &shape, 0, b.n, b.v[0], NULL, spread, got);
    fb_judgement_end(&j, &s, &shape, node, &report);
    assert_true(!fb_report_error_says_nothing(&report));
    return report.ok;
}

/* A library adds in another order at the edge of its tile, where one of two equal columns may lie. */
static void test_equal_sums_may_be_rounded_unlike(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        equal_sums e = {.turned = way & 1, .stored = way & 2};
        equal_sums_open(&e);
        if (!equal_sums_judged(&e, 0, 0, 1)) fail_msg("%d: alike", way);
        if (!equal_sums_judged(&e, 1, 1, 1)) fail_msg("%d: alike, and one step off", way);
        if (!equal_sums_judged(&e, 0, 1, 1)) fail_msg("%d: the second one a step above the first", way);
        if (!equal_sums_judged(&e, 1, 0, 1)) fail_msg("%d: the first one a step above the second", way);
        if (equal_sums_judged(&e, 0, 0, 1.01F)) fail_msg("%d: one column 1.01 times as large", way);
        if (equal_sums_judged(&e, 0, 0, 0.99F)) fail_msg("%d: one column 0.99 times as large", way);
        if (equal_sums_judged(&e, 0, 0, 1.0001F)) fail_msg("%d: one column 1.0001 times as large", way);
        trials_free(e.t);
        rig_free(&e.r);
    }
}

/* relu(x · (W + A · B) + b) in bf16 as one kernel gives it that rounds W + A · B once, where many sums lie near 0: no
 * lane is that kernel, and of thousands of sums all lanes of a few are by chance
 * nearer to the exact one than it is. */
enum { NEAR_M = 256, NEAR_N = 256, NEAR_K = 64, NEAR_R = 8 };

typedef struct {
    rig r;
    double x[NEAR_M * NEAR_K], w[NEAR_K * NEAR_N], a[NEAR_K * NEAR_R], b[NEAR_R * NEAR_N], bias[NEAR_M * NEAR_N];
    float sums[NEAR_M * NEAR_N]; /* of the kernel, without the bias */
    trials *t;
} near_kinks;

static void draw_bf16(int key, int64_t n, double size, double *to)
{
    for (int64_t k = 0; k < n; k++) to[k] = size * fb_rng_uniform(fb_rng_bits((uint64_t)key, (uint64_t)k), -1, 1);
    fb_elements_round(FB_BF16, n, to, to);
}

/* Biases are what takes the sums to 0, and in every fourth row further. */
static void near_kinks_open(near_kinks *e, fb_id (*build)(rig *r, fb_id x))
{
    double w[NEAR_K * NEAR_N];
    draw_bf16(1, NEAR_M * NEAR_K, 1, e->x);
    draw_bf16(2, NEAR_K * NEAR_N, 1, e->w);
    draw_bf16(3, NEAR_K * NEAR_R, 1, e->a);
    draw_bf16(4, NEAR_R * NEAR_N, 1, e->b);
    draw_bf16(5, NEAR_M * NEAR_N, 4, e->bias);
    for (int i = 0; i < NEAR_K * NEAR_N; i++) {
        float sum = 0;
        for (int k = 0; k < NEAR_R; k++)
            sum = fmaf((float)e->a[i / NEAR_N * NEAR_R + k], (float)e->b[k * NEAR_N + i % NEAR_N], sum);
        w[i] = (double)((float)e->w[i] + sum);
    }
    fb_elements_round(FB_BF16, NEAR_K * NEAR_N, w, w);
    for (int i = 0; i < NEAR_M * NEAR_N; i++) {
        float sum = 0;
        for (int k = 0; k < NEAR_K; k++)
            sum = fmaf((float)e->x[i / NEAR_N * NEAR_K + k], (float)w[k * NEAR_N + i % NEAR_N], sum);
        e->sums[i] = sum;
        if (i / NEAR_N % 4) e->bias[i] = 0;
        e->bias[i] -= (double)sum;
    }
    fb_elements_round(FB_BF16, NEAR_M * NEAR_N, e->bias, e->bias);
    e->r = rig_new();
    fb_id x = data(&e->r, FB_BF16, SHAPE(NEAR_M, NEAR_K), e->x), w0 = data(&e->r, FB_BF16, SHAPE(NEAR_K, NEAR_N), e->w),
          a = data(&e->r, FB_BF16, SHAPE(NEAR_K, NEAR_R), e->a), b = data(&e->r, FB_BF16, SHAPE(NEAR_R, NEAR_N), e->b),
          bias = data(&e->r, FB_BF16, SHAPE(NEAR_M, NEAR_N), e->bias);
    fb_id sum = add2(&e->r, FB_OP_ADD, w0, add2(&e->r, FB_OP_MATMUL, a, b));
    fb_id want = build(&e->r, add2(&e->r, FB_OP_ADD, add2(&e->r, FB_OP_MATMUL, x, sum), bias));
    e->t = try_all(&e->r, &want, 1);
}

/* Is it right to store this of each sum? */
static bool near_kinks_judged(const near_kinks *e, float (*op)(float x), fb_error_report *report)
{
    const fb_node *node = &e->r.g->nodes[e->t->at[0].node];
    fb_judge_shape shape = fb_judgement_shape_of(node);
    fb_trial_block b = {.node = e->t->at[0].node, .n = e->t->at[0].n, .lanes = 1 + FB_TRIALS};
    double wide[NEAR_M * NEAR_N];
    uint16_t got[NEAR_M * NEAR_N];
    float *spread = fb_alloc(sizeof *spread * NEAR_M * NEAR_N);
    for (int i = 0; i < NEAR_M * NEAR_N; i++) wide[i] = (double)op(e->sums[i] + (float)e->bias[i]);
    fb_elements_store(FB_BF16, b.n, wide, got);
    fb_spread s = {0};
    fb_judgement j;
    for (int l = 0; l <= FB_TRIALS; l++) b.v[l] = e->t->at[0].v[l];
    fb_judgement_clear(&j);
    fb_spread_add(&s, &shape, &b, spread);
    fb_judgement_add(&j, &shape, 0, b.n, b.v[0], NULL, spread, got);
    fb_judgement_end(&j, &s, &shape, node, report);
    fb_free(spread);
    assert_true(!fb_report_error_says_nothing(report));
    return report->ok;
}

static float relu_of(float x)
{
    return x < 0 ? 0 : x;
}
static float leaky_relu_of(float x)
{
    return x < 0 ? 0.01F * x : x;
}
static float shifted_relu_of(float x)
{
    return relu_of(x + 0.01F);
}
static float scaled_relu_of(float x)
{
    return 1.04F * relu_of(x);
}
static float clamp_of(float x)
{
    return x < 0 ? 0 : x > 2 ? 2 : x;
}
static float moved_clamp_of(float x)
{
    return x < 0 ? 0 : x > 2.0625F ? 2.0625F : x;
}
static float elu_of(float x)
{
    return x > 0 ? x : 0.01F * expm1f(x);
}

static float magnitude_of(float x)
{
    return fabsf(x);
}
static float scaled_magnitude_of(float x)
{
    return 1.04F * fabsf(x);
}
static float half_magnitude_of(float x)
{
    return x < 0 ? -0.5F * x : x;
}

static fb_id const_bf16(rig *r, double value)
{
    return add(r, FB_OP_CONST, &(fb_attrs){.dtype = FB_BF16, .value = value}, 0, NULL);
}
static fb_id build_relu(rig *r, fb_id x)
{
    return add1(r, FB_OP_RELU, x);
}
static fb_id build_clamp(rig *r, fb_id x)
{
    return add_at(r, FB_OP_CLAMP, x, (fb_attrs){.value = 0, .high = 2});
}
static fb_id build_elu(rig *r, fb_id x)
{
    return add_at(r, FB_OP_ELU, x, (fb_attrs){.value = 0.01});
}
static fb_id build_abs(rig *r, fb_id x)
{
    return add1(r, FB_OP_ABS, x);
}
static fb_id choose(rig *r, fb_id condition, fb_id a, fb_id b)
{
    return add(r, FB_OP_WHERE, NULL, 3, (fb_id[]){condition, a, b});
}
static fb_id where_relu(rig *r, fb_id x)
{
    return choose(r, add2(r, FB_OP_GT, x, const_bf16(r, 0)), x, const_bf16(r, 0));
}
static fb_id where_leaky_relu(rig *r, fb_id x)
{
    return choose(r, add2(r, FB_OP_GT, x, const_bf16(r, 0)), x, add2(r, FB_OP_MUL, x, const_bf16(r, 0.01)));
}
static fb_id where_not_relu(rig *r, fb_id x)
{
    fb_id below = add1(r, FB_OP_LOGICAL_NOT, add2(r, FB_OP_GT, x, const_bf16(r, 0)));
    below = add_at(r, FB_OP_VIEW, below, (fb_attrs){.shape = SHAPE(NEAR_M * NEAR_N)});
    below = add_at(r, FB_OP_VIEW, below, (fb_attrs){.shape = SHAPE(NEAR_M, NEAR_N)});
    return choose(r, below, const_bf16(r, 0), x);
}
static fb_id where_clamp(rig *r, fb_id x)
{
    fb_id two = const_bf16(r, 2), low = where_relu(r, x);
    return choose(r, add2(r, FB_OP_LT, low, two), low, two);
}
static fb_id where_both(rig *r, fb_id x)
{
    fb_id above = add2(r, FB_OP_GT, x, const_bf16(r, 0)), far = add2(r, FB_OP_LT, x, const_bf16(r, -1));
    fb_id outside = add2(r, FB_OP_LOGICAL_OR, add1(r, FB_OP_LOGICAL_NOT, above), far);
    fb_id inside = add2(r, FB_OP_LOGICAL_AND, add1(r, FB_OP_LOGICAL_NOT, outside), above);
    return choose(r, inside, x, const_bf16(r, 0));
}
static fb_id where_magnitude(rig *r, fb_id x)
{
    return choose(r, add2(r, FB_OP_LT, x, const_bf16(r, 0)), add1(r, FB_OP_NEG, x), x);
}
static fb_id masked_relu(rig *r, fb_id x)
{
    fb_id mask = add_at(r, FB_OP_CAST, add2(r, FB_OP_GT, x, const_bf16(r, 0)), (fb_attrs){.dtype = FB_BF16});
    return add2(r, FB_OP_MUL, x, mask);
}
/* The largest of 16 in which only the first is not 0, in a dimension of its own or before the last. */
static fb_id pooled_relu(rig *r, fb_id x, int dim)
{
    fb_id zero = add2(r, FB_OP_MUL, x, const_bf16(r, 0)), args[16] = {x};
    for (int k = 1; k < 16; k++) args[k] = zero;
    fb_id rows = add(r, FB_OP_STACK, &(fb_attrs){.dim = dim}, 16, args);
    return add_at(r, FB_OP_AMAX, rows, (fb_attrs){.n_axes = 1, .axes = {dim}});
}
static fb_id pooled_last(rig *r, fb_id x)
{
    return pooled_relu(r, x, 2);
}
static fb_id pooled_first(rig *r, fb_id x)
{
    return pooled_relu(r, x, 0);
}

/* The same kink, however it is written. */
static void test_operands_near_a_kink_by_chance(void **state)
{
    (void)state;
    static const struct {
        fb_id (*build)(rig *r, fb_id x);
        float (*right)(float), (*wrong[3])(float);
    } cases[] = {
        {build_relu, relu_of, {leaky_relu_of, shifted_relu_of, scaled_relu_of}},
        {build_clamp, clamp_of, {relu_of, moved_clamp_of}},
        {build_abs, magnitude_of, {half_magnitude_of, scaled_magnitude_of}},
        {build_elu, elu_of, {relu_of}},
        {where_relu, relu_of, {leaky_relu_of, shifted_relu_of, scaled_relu_of}},
        {where_leaky_relu, leaky_relu_of, {relu_of, shifted_relu_of, scaled_relu_of}},
        {where_not_relu, relu_of, {leaky_relu_of, shifted_relu_of, scaled_relu_of}},
        {where_clamp, clamp_of, {relu_of, moved_clamp_of}},
        {where_both, relu_of, {leaky_relu_of, shifted_relu_of, scaled_relu_of}},
        {where_magnitude, magnitude_of, {half_magnitude_of, scaled_magnitude_of}},
        {masked_relu, relu_of, {leaky_relu_of, shifted_relu_of, scaled_relu_of}},
        {pooled_last, relu_of, {leaky_relu_of, shifted_relu_of, scaled_relu_of}},
        {pooled_first, relu_of, {leaky_relu_of, shifted_relu_of, scaled_relu_of}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        near_kinks *e = fb_calloc(1, sizeof *e);
        fb_error_report report;
        near_kinks_open(e, cases[k].build);
        if (!near_kinks_judged(e, cases[k].right, &report)) fail_msg("%d: %s", (int)k, report.worst);
        for (int i = 0; i < 3 && cases[k].wrong[i]; i++)
            if (near_kinks_judged(e, cases[k].wrong[i], &report)) fail_msg("%d: wrong %d", (int)k, i);
        trials_free(e->t);
        rig_free(&e->r);
        fb_free(e);
    }
}

/* What a relu's gradient adds up to: (relu(x · w + b) > 0 ? d : 0)ᵀ · c, where some sums are next to 0. A kernel turns
 * any of these, one at a time as well: what one adds to a result, another may take away, and lanes in which all turn
 * together would not show it. */
enum { MASK_ROWS = 64, MASK_NEAR = 8, MASK_K = 32, MASK_COLUMNS = 512 };

static bool mask_judged(const rig *r, const trials *t, const double *sums)
{
    const fb_node *node = &r->g->nodes[t->at[0].node];
    fb_judge_shape shape = fb_judgement_shape_of(node);
    fb_trial_block b = {.node = t->at[0].node, .n = t->at[0].n, .lanes = 1 + FB_TRIALS};
    float got[MASK_COLUMNS], spread[MASK_COLUMNS];
    fb_spread s = {0};
    fb_judgement j;
    fb_error_report report;
    for (int k = 0; k < MASK_COLUMNS; k++) got[k] = (float)sums[k];
    for (int l = 0; l <= FB_TRIALS; l++) b.v[l] = t->at[0].v[l];
    fb_judgement_clear(&j);
    fb_spread_add(&s, &shape, &b, spread);
    fb_judgement_add(&j, &shape, 0, b.n, b.v[0], NULL, spread, got);
    fb_judgement_end(&j, &s, &shape, node, &report);
    return report.ok;
}

static void test_masks_turn_one_by_one(void **state)
{
    (void)state;
    double x[MASK_ROWS * MASK_K], w[MASK_K], bias[MASK_ROWS], d[MASK_ROWS], c[MASK_ROWS * MASK_COLUMNS];
    rig r = rig_new();
    for (int i = 0; i < MASK_ROWS * MASK_K; i++) x[i] = fb_rng_normal(fb_rng_bits(1, (uint64_t)i), 0, 1);
    for (int i = 0; i < MASK_K; i++) w[i] = fb_rng_normal(fb_rng_bits(2, (uint64_t)i), 0, 1);
    for (int i = 0; i < MASK_ROWS; i++) d[i] = fb_rng_normal(fb_rng_bits(3, (uint64_t)i), 0, 1);
    for (int i = 0; i < MASK_ROWS * MASK_COLUMNS; i++) c[i] = fb_rng_normal(fb_rng_bits(4, (uint64_t)i), 0, 1);
    fb_elements_round(FB_F32, MASK_ROWS * MASK_K, x, x);
    fb_elements_round(FB_F32, MASK_K, w, w);
    for (int i = 0; i < MASK_ROWS; i++) {
        double sum = 0;
        for (int k = 0; k < MASK_K; k++) sum += x[i * MASK_K + k] * w[k];
        bias[i] = i < MASK_NEAR ? -(double)nextafterf((float)sum, INFINITY) : i % 2 ? 10 - sum : -10 - sum;
    }
    fb_id product =
        add2(&r, FB_OP_MATMUL, data(&r, FB_F32, SHAPE(MASK_ROWS, MASK_K), x), data(&r, FB_F32, SHAPE(MASK_K, 1), w));
    fb_id sum = add2(&r, FB_OP_ADD, product, data(&r, FB_F32, SHAPE(MASK_ROWS, 1), bias));
    fb_id above = add2(&r, FB_OP_GT, add1(&r, FB_OP_RELU, sum), constant(&r, FB_F32, 0));
    fb_id of_rows = data(&r, FB_F32, SHAPE(MASK_ROWS, 1), d);
    fb_id masked = choose(&r, above, of_rows, constant(&r, FB_F32, 0));
    masked = add_at(&r, FB_OP_PERMUTE, masked, (fb_attrs){.n_axes = 2, .axes = {1, 0}});
    fb_id want = add2(&r, FB_OP_MATMUL, masked, data(&r, FB_F32, SHAPE(MASK_ROWS, MASK_COLUMNS), c));
    trials *t = try_all(&r, &want, 1);
    double sums[MASK_COLUMNS];
    fb_elements_round(FB_F32, MASK_ROWS, d, d);
    fb_elements_round(FB_F32, MASK_ROWS * MASK_COLUMNS, c, c);
    for (int turned = 0; turned < MASK_NEAR + 2; turned++) {
        for (int k = 0; k < MASK_COLUMNS; k++) sums[k] = t->at[0].v[0][k];
        for (int k = 0; k < MASK_COLUMNS && turned < MASK_NEAR; k++)
            sums[k] += d[turned] * c[turned * MASK_COLUMNS + k];
        for (int k = 0; k < MASK_COLUMNS && turned == MASK_NEAR; k++) /* a row that is far from 0 */
            sums[k] += 8 * d[MASK_NEAR] * c[MASK_NEAR * MASK_COLUMNS + k];
        for (int k = 0; k < MASK_COLUMNS && turned > MASK_NEAR; k++) sums[k] *= 8;
        if (mask_judged(&r, t, sums) != (turned < MASK_NEAR)) fail_msg("row %d", turned);
    }
    trials_free(t);
    rig_free(&r);
}

/* Gates of an LSTM in 16 bits, (x · w + b) + (h · u + c), as a library's kernel gives them: both sums rounded, the
 * products in them not. Where they nearly cancel, both may be rounded by half a step to the same side, and in all of
 * eight lanes none, or both against each other: in one graph of some hundred, for which lanes round a node is drawn once
 * for all of it. */
enum { GATE_ROWS = 32, GATE_COLUMNS = 64, GATE_K = 16, GATE_N = GATE_ROWS * GATE_COLUMNS };

typedef struct {
    double x[GATE_ROWS * GATE_K], w[GATE_K * GATE_COLUMNS], bias[GATE_N], sum[GATE_N];
} gate_half;

static void sum_half(gate_half *g)
{
    for (int i = 0; i < GATE_N; i++) {
        float sum = 0;
        for (int k = 0; k < GATE_K; k++)
            sum =
                fmaf((float)g->x[i / GATE_COLUMNS * GATE_K + k], (float)g->w[k * GATE_COLUMNS + i % GATE_COLUMNS], sum);
        g->sum[i] = (double)(sum + (float)g->bias[i]);
    }
}

static fb_id gate_node(rig *r, const gate_half *g)
{
    fb_id x = data(r, FB_BF16, SHAPE(GATE_ROWS, GATE_K), g->x), w = data(r, FB_BF16, SHAPE(GATE_K, GATE_COLUMNS), g->w);
    fb_id bias = data(r, FB_BF16, SHAPE(GATE_ROWS, GATE_COLUMNS), g->bias);
    return add2(r, FB_OP_ADD, add2(r, FB_OP_MATMUL, x, w), bias);
}

static void draw_half(gate_half *g, int key)
{
    draw_bf16(key, GATE_ROWS * GATE_K, 0.1, g->x);
    draw_bf16(key + 1, GATE_K * GATE_COLUMNS, 0.1, g->w);
    draw_bf16(key + 2, GATE_N, 0.01, g->bias);
    sum_half(g);
}

static fb_error_report judge_gates(int shift, double beside)
{
    gate_half *two = fb_calloc(2, sizeof *two);
    uint16_t got[GATE_N];
    double wide[GATE_N], rounded[2][GATE_N];
    fb_error_report report;
    draw_half(&two[0], 3 * shift);
    draw_half(&two[1], 3 * shift + 1000000);
    for (int i = 0; i < GATE_N; i++) two[1].bias[i] -= two[0].sum[i] + two[1].sum[i];
    fb_elements_round(FB_BF16, GATE_N, two[1].bias, two[1].bias);
    sum_half(&two[1]);
    for (int h = 0; h < 2; h++) fb_elements_round(FB_BF16, GATE_N, two[h].sum, rounded[h]);
    for (int i = 0; i < GATE_N; i++) wide[i] = rounded[0][i] + rounded[1][i] + beside;
    fb_elements_store(FB_BF16, GATE_N, wide, got);
    rig r = rig_new();
    for (int i = 0; i < shift; i++) constant(&r, FB_BF16, i + 1); /* other numbers of nodes, other draws */
    fb_id want = add2(&r, FB_OP_ADD, gate_node(&r, &two[0]), gate_node(&r, &two[1]));
    finish_rig(&r, &want, 1);
    fb_judging j = {.g = r.g, .want = &want, .got = (const void *[]){got}, .n = 1};
    j.o = (fb_trial_options){.threads = 1, .files = rig_file, .files_ctx = &r};
    if (!fb_judgement_make(&j, &report, NULL, &r.err)) fail_msg("%s", r.err.text);
    rig_free(&r);
    fb_free(two);
    return report;
}

static void test_eight_lanes_alone_accuse_nothing(void **state)
{
    (void)state;
    for (int shift = 0; shift < 400; shift++) {
        fb_error_report right = judge_gates(shift, 0);
        if (!right.ok) fail_msg("%d: %s", shift, right.worst);
        if (shift % 50 == 0) assert_false(judge_gates(shift, 0.0005).ok);
    }
}

/* A library's call may round h · w + x to 16 bits before b comes (cuBLASLt, on an H100: 27 of 1,200 small LSTMs). */
static void test_a_sum_that_is_rounded_before_its_bias(void **state)
{
    (void)state;
    enum { M = 64, N = 384, K = 16 };
    rig r = rig_new();
    fb_attrs small = {.dtype = FB_F16, .shape = SHAPE(M, K), .dist = FB_DIST_NORMAL, .value = 0, .high = 1e-3},
             bias = {.dtype = FB_F16, .shape = SHAPE(N), .dist = FB_DIST_UNIFORM, .value = 0.005, .high = 0.007},
             other = {.dtype = FB_F16, .shape = SHAPE(M, N), .dist = FB_DIST_UNIFORM, .value = -0.007, .high = -0.005};
    fb_id h = add(&r, FB_OP_INPUT, &small, 0, NULL), w = normal(&r, FB_OP_PARAM, FB_F16, SHAPE(K, N)),
          b = add(&r, FB_OP_PARAM, &bias, 0, NULL), x = add(&r, FB_OP_INPUT, &other, 0, NULL);
    fb_id m = add2(&r, FB_OP_MATMUL, h, w);
    fb_id want[] = {m, b, x, add2(&r, FB_OP_ADD, add2(&r, FB_OP_ADD, m, b), x)};
    trials *t = try_all(&r, want, 4);
    double off = 0;
    for (int64_t k = 0; k < M * N; k++) {
        double sum, result, before = t->at[0].v[0][k] + t->at[2].v[0][k];
        fb_elements_round(FB_F16, 1, &before, &sum);
        sum += t->at[1].v[0][k % N];
        fb_elements_round(FB_F16, 1, &sum, &result);
        double step = ldexp(1, (int)fmax(logb(result), -14) - 10); /* of 0, the smallest there is */
        off = fmax(off, fabs(result - t->at[3].v[0][k]) / fmax(spread_at(t, 3, k), step / 2));
    }
    if (!(off < 8)) fail_msg("off by %g spreads", off);
    trials_free(t);
    rig_free(&r);
}

/* (h · w + x) + b for (h · w + b) + x, as a library does it: where the product is next to nothing and x is about -b. */
static void test_what_is_added_to_a_product_in_another_order(void **state)
{
    (void)state;
    enum { M = 64, N = 384, K = 16 };
    rig r = rig_new();
    fb_attrs small = {.dtype = FB_F32, .shape = SHAPE(M, K), .dist = FB_DIST_NORMAL, .value = 0, .high = 1e-7},
             bias = {.dtype = FB_F32, .shape = SHAPE(N), .dist = FB_DIST_UNIFORM, .value = 0.0015, .high = 0.0019},
             other = {.dtype = FB_F32, .shape = SHAPE(M, N), .dist = FB_DIST_UNIFORM, .value = -0.0025, .high = -0.002};
    fb_id h = add(&r, FB_OP_INPUT, &small, 0, NULL), w = normal(&r, FB_OP_PARAM, FB_F32, SHAPE(K, N)),
          b = add(&r, FB_OP_PARAM, &bias, 0, NULL), x = add(&r, FB_OP_INPUT, &other, 0, NULL);
    fb_id m = add2(&r, FB_OP_MATMUL, h, w);
    fb_id want[] = {m, b, x, add2(&r, FB_OP_ADD, x, add2(&r, FB_OP_ADD, m, b))};
    trials *t = try_all(&r, want, 4);
    double off = 0;
    for (int64_t k = 0; k < M * N; k++) {
        float sum = (float)t->at[0].v[0][k] + (float)t->at[2].v[0][k];
        sum += (float)t->at[1].v[0][k % N];
        off = fmax(off, fabs((double)sum - t->at[3].v[0][k]) / spread_at(t, 3, k));
    }
    if (!(off < 16)) fail_msg("off by %g spreads", off);
    trials_free(t);
    rig_free(&r);
}

/* Graphs of a sum of four given inputs, each with other draws: what devices may give of them lies within the spread of
 * honest roundings. */
typedef struct {
    fb_id (*sum_of)(rig *r, const fb_id x[4]);
    void (*give)(int k, float x[4]);                  /* element k of the inputs */
    int (*devices)(const float x[4], float gives[2]); /* how many results there may be */
} four_inputs;

static void hold_devices(const four_inputs *of)
{
    enum { N = 2000, GRAPHS = 40 };
    for (int g = 0; g < GRAPHS; g++) {
        rig r = rig_new();
        for (int i = 0; i < g; i++) normal(&r, FB_OP_PARAM, FB_F32, SHAPE(1));
        fb_id x[4];
        float *values[4], one[4], gives[2];
        fb_given given[4];
        for (int i = 0; i < 4; i++) {
            x[i] = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(N));
            values[i] = fb_alloc(N * sizeof(float));
            given[i] = (fb_given){x[i], values[i]};
        }
        for (int k = 0; k < N; k++) {
            of->give(k, one);
            for (int i = 0; i < 4; i++) values[i][k] = one[i];
        }
        fb_id sum = of->sum_of(&r, x);
        finish_rig(&r, &sum, 1);
        trials *t =
            trials_of(r.g, &(fb_trial_options){.n_given = 4, .given = given, .trials = FB_TRIALS}, &sum, 1, &r.err);
        for (int k = 0; k < N; k++) {
            double v = t->at[0].v[0][k], room = 1.01 * spread_at(t, 0, k) + 0x1p-23 * fabs(v);
            for (int i = 0; i < 4; i++) one[i] = values[i][k];
            for (int i = of->devices(one, gives); i-- > 0;)
                if (!(fabs((double)gives[i] - v) <= room))
                    fail_msg("graph %d, %d: %.9g, expected %.9g ± %.2g", g, k, (double)gives[i], v, room);
        }
        trials_free(t);
        for (int i = 0; i < 4; i++) fb_free(values[i]);
        rig_free(&r);
    }
}

/* a·b + c·d where both are about the same, but for the sign: a compiler rounds one of them and takes the other as it
 * is, whichever it likes. Draws differ from node to node. */
static fb_id two_products(rig *r, const fb_id x[4])
{
    return add2(r, FB_OP_ADD, add2(r, FB_OP_MUL, x[0], x[1]), add2(r, FB_OP_MUL, x[2], x[3]));
}

static void give_two_products(int k, float x[4])
{
    for (int i = 0; i < 2; i++) x[i] = (float)fb_rng_normal(fb_rng_bits(1 + (uint64_t)i, (uint64_t)k), 0, 1);
    x[2] = -x[0];
    x[3] = x[1] * (float)fb_rng_uniform(fb_rng_bits(3, (uint64_t)k), 0.99, 1.01);
}

static int fuse_either(const float x[4], float gives[2])
{
    gives[0] = fmaf(x[0], x[1], x[2] * x[3]);
    gives[1] = fmaf(x[2], x[3], x[0] * x[1]);
    return 2;
}

static void test_either_product_is_fused(void **state)
{
    (void)state;
    hold_devices(&(four_inputs){two_products, give_two_products, fuse_either});
}

/* (a·b)·c + d where d is about the rest's negative: the outer product is taken in as it is, the inner one is rounded
 * first, and that is all there is to see. */
static fb_id product_of_a_product(rig *r, const fb_id x[4])
{
    return add2(r, FB_OP_ADD, x[3], add2(r, FB_OP_MUL, add2(r, FB_OP_MUL, x[0], x[1]), x[2]));
}

static void give_product_of_a_product(int k, float x[4])
{
    for (int i = 0; i < 3; i++) x[i] = (float)fb_rng_normal(fb_rng_bits(1 + (uint64_t)i, (uint64_t)k), 0, 1);
    x[3] = (float)(-fb_rng_uniform(fb_rng_bits(4, (uint64_t)k), 0.99, 1.01) * x[0] * x[1] * x[2]);
}

static int fuse_the_outer(const float x[4], float gives[2])
{
    float inner = x[0] * x[1];
    gives[0] = fmaf(inner, x[2], x[3]);
    return 1;
}

static void test_a_factor_is_rounded(void **state)
{
    (void)state;
    hold_devices(&(four_inputs){product_of_a_product, give_product_of_a_product, fuse_the_outer});
}

static void test_products_of_a_product(void **state)
{
    (void)state;
    for (int precision = FB_PRECISION_IEEE; precision <= FB_PRECISION_TF32; precision++) {
        rig r = rig_new();
        fb_attrs at = {.precision = (fb_precision)precision};
        fb_id a = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(2, 30, 40)), b = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(40, 50)),
              c = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(2, 50, 20));
        fb_id ab = add(&r, FB_OP_MATMUL, &at, 2, (fb_id[]){a, b}),
              abc = add(&r, FB_OP_MATMUL, &at, 2, (fb_id[]){ab, c});
        fb_id cab = add(&r, FB_OP_MATMUL, &at, 2,
                        (fb_id[]){add_at(&r, FB_OP_PERMUTE, c, (fb_attrs){.n_axes = 3, .axes = {0, 2, 1}}),
                                  add_at(&r, FB_OP_PERMUTE, ab, (fb_attrs){.n_axes = 3, .axes = {0, 2, 1}})});
        fb_id want[] = {ab, abc, cab};
        trials *t = try_all(&r, want, 3);
        double u = precision == FB_PRECISION_TF32 ? 0x1p-11 : 0x1p-24;
        for (int i = 0; i < 3; i++) {
            double scale = i ? 45 : 6.3, least = INFINITY;
            assert_true(most_spread(t, i) > u * scale && most_spread(t, i) < 40 * u * scale);
            for (int64_t k = 0; k < t->at[i].n; k++) least = fmin(least, spread_at(t, i, k));
            assert_true(least > 0);
        }
        trials_free(t);
        rig_free(&r);
    }
}

/* x · 30 - m, with m the product rounded, computed anew for each of two who read it: in a fused multiply-add here,
 * rounded first there. s - log(exp(s)) is about nothing in every lane that has one s, and what the product was rounded
 * by in a kernel that has two. */
static void test_sums_computed_again(void **state)
{
    (void)state;
    enum { N = 512 };
    static double x[N], m[N];
    rig r = rig_new();
    for (int k = 0; k < N; k++) {
        x[k] = (double)(float)fb_rng_uniform(fb_rng_bits(1, (uint64_t)k), 20, 60);
        m[k] = (double)((float)x[k] * 30);
    }
    fb_id thirty = add(&r, FB_OP_CONST, &(fb_attrs){.dtype = FB_F32, .value = 30}, 0, NULL);
    fb_id product = add2(&r, FB_OP_MUL, data(&r, FB_F32, SHAPE(N), x), thirty);
    fb_id s = add2(&r, FB_OP_SUB, product, data(&r, FB_F32, SHAPE(N), m));
    fb_id z = add2(&r, FB_OP_SUB, s, add1(&r, FB_OP_LOG, add1(&r, FB_OP_EXP, s)));
    trials *t = try_all(&r, &z, 1);
    for (int k = 0; k < N; k++) {
        float rest = fmaf((float)x[k], 30, -(float)m[k]), gives = rest - logf(expf(0));
        double room = FB_TRIAL_CHANCE * spread_at(t, 0, k) + 0x1p-22;
        if (!(fabs((double)gives - t->at[0].v[0][k]) <= room)) fail_msg("%d: %g ± %g", k, (double)gives, room);
        assert_true(spread_at(t, 0, k) < 0x1p-23 * m[k]);
    }
    trials_free(t);
    rig_free(&r);
}

/* [y, y] - mean([y, y]): the loop that makes one half of a join may add y up in another order than the one that makes the
 * other half, or reads it as it was stored. */
static void test_parts_of_a_join_computed_again(void **state)
{
    (void)state;
    enum { N = 256, K = 7 };
    static double a[N * K], b[K];
    rig r = rig_new();
    for (int k = 0; k < N * K; k++) a[k] = (double)(float)fb_rng_uniform(fb_rng_bits(1, (uint64_t)k), -1, 1);
    for (int k = 0; k < K; k++) b[k] = (double)(float)fb_rng_uniform(fb_rng_bits(2, (uint64_t)k), -1, 1);
    fb_id y = add2(&r, FB_OP_MATMUL, data(&r, FB_F32, SHAPE(N, K), a), data(&r, FB_F32, SHAPE(K, 1), b));
    fb_id both[] = {y, y};
    fb_id join = add(&r, FB_OP_CAT, &(fb_attrs){.dim = 1}, 2, both);
    fb_id mean = add_at(&r, FB_OP_MEAN, join, (fb_attrs){.n_axes = 1, .axes = {1}, .keepdim = true});
    fb_id rest = add2(&r, FB_OP_SUB, join, mean);
    trials *t = try_all(&r, &rest, 1);
    int apart = 0;
    for (int k = 0; k < N; k++) {
        float up = 0, down = 0;
        for (int i = 0; i < K; i++) up = fmaf((float)a[k * K + i], (float)b[i], up);
        for (int i = K - 1; i >= 0; i--) down += (float)a[k * K + i] * (float)b[i];
        apart += up != down;
        for (int half = 0; half < 2; half++) {
            double gives = (double)((half ? down : up) - (up + down) / 2);
            double room = FB_TRIAL_CHANCE * spread_at(t, 0, 2 * k + half);
            if (!(fabs(gives) <= room)) fail_msg("%d: %g ± %g", k, gives, room);
            assert_true(room < 1e-4);
        }
    }
    assert_true(apart > N / 4);
    trials_free(t);
    rig_free(&r);
}

/* The same in f64, where no lane holds the product as a fused multiply-add takes it in. Products that are exact leave
 * nothing. */
static void test_products_taken_in_by_doubles(void **state)
{
    (void)state;
    enum { N = 512 };
    static double x[N], m[N];
    rig r = rig_new();
    for (int k = 0; k < N; k++) {
        x[k] = k % 2 ? (double)k : fb_rng_uniform(fb_rng_bits(1, (uint64_t)k), 20, 60);
        m[k] = x[k] * 30;
    }
    fb_id thirty = add(&r, FB_OP_CONST, &(fb_attrs){.dtype = FB_F64, .value = 30}, 0, NULL);
    fb_id z =
        add2(&r, FB_OP_SUB, add2(&r, FB_OP_MUL, data(&r, FB_F64, SHAPE(N), x), thirty), data(&r, FB_F64, SHAPE(N), m));
    trials *t = try_all(&r, &z, 1);
    for (int k = 0; k < N; k++) {
        double rest = fma(x[k], 30, -m[k]), spread = spread_at(t, 0, k);
        assert_true(t->at[0].v[0][k] == 0 && fabs(rest) <= FB_TRIAL_CHANCE * spread && spread <= 0x1p-51 * m[k]);
        if (k % 2) assert_true(spread == 0);
    }
    trials_free(t);
    rig_free(&r);
}

/* Of d = x - mean(x), with a mean for each that reads it, the largest is taken away twice: from what a kernel computes
 * anew something is left, though in exact numbers the largest of d - amax(d) is 0. */
static void test_little_that_is_left_may_be_apart(void **state)
{
    (void)state;
    enum { ROWS = 200, N = 5 };
    rig r = rig_new();
    fb_attrs along = {.n_axes = 1, .axes = {1}, .keepdim = true};
    fb_id x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(ROWS, N));
    fb_id d = add2(&r, FB_OP_SUB, x, add(&r, FB_OP_MEAN, &along, 1, &x));
    fb_id e = add2(&r, FB_OP_SUB, d, add(&r, FB_OP_AMAX, &along, 1, &d));
    fb_id f = add2(&r, FB_OP_SUB, e, add(&r, FB_OP_AMAX, &along, 1, &e));
    trials *t = try_all(&r, &f, 1);
    for (int k = 0; k < ROWS * N; k++)
        if (t->at[0].v[0][k] == 0) assert_true(spread_at(t, 0, k) > 0 && spread_at(t, 0, k) < 0x1p-19);
    trials_free(t);
    rig_free(&r);
}

/* A constant row less its mean is nothing in exact numbers, and in a kernel that adds it up from one end to the other a
 * rounding of each: products with that are off by roundings of their own. On either side. */
static void test_products_of_what_roundings_left(void **state)
{
    (void)state;
    enum { ROWS = 16, N = 6 };
    static double x[ROWS * N], w[N * N];
    for (int k = 0; k < ROWS * N; k++) x[k] = (double)(float)fb_rng_uniform(fb_rng_bits(1, (uint64_t)(k / N)), 1, 2);
    for (int k = 0; k < N * N; k++) w[k] = k % N < N / 2 ? 1 + k % N : -1 - (k % N - N / 2);
    for (int turned = 0; turned < 2; turned++) {
        rig r = rig_new();
        fb_attrs along = {.n_axes = 1, .axes = {1}, .keepdim = true}, turn = {.n_axes = 2, .axes = {1, 0}};
        fb_id a = data(&r, FB_F32, SHAPE(ROWS, N), x), b = data(&r, FB_F32, SHAPE(N, N), w);
        fb_id tenth = add(&r, FB_OP_CONST, &(fb_attrs){.dtype = FB_F32, .value = 0.1}, 0, NULL);
        fb_id d = add2(&r, FB_OP_MUL, add2(&r, FB_OP_SUB, a, add(&r, FB_OP_MEAN, &along, 1, &a)), tenth);
        fb_id left = turned ? b : d, right = add_at(&r, FB_OP_PERMUTE, turned ? d : b, turn);
        fb_id product = add2(&r, FB_OP_MATMUL, left, right);
        trials *t = try_all(&r, &product, 1);
        int open = 0;
        for (int64_t k = 0; k < t->at[0].n; k++) {
            open += spread_at(t, 0, k) > 0;
            assert_true(spread_at(t, 0, k) < 0x1p-40);
        }
        assert_true(open == ROWS * N);
        trials_free(t);
        rig_free(&r);
    }
}

/* A function computed twice, for what is divided and for what it is divided by: the rest is nothing or all of it. */
static void test_rests_of_what_is_computed_twice(void **state)
{
    (void)state;
    enum { N = 40 };
    rig r = rig_new();
    fb_id x = add1(&r, FB_OP_TANH, normal(&r, FB_OP_INPUT, FB_F32, SHAPE(N)));
    fb_id row = add_at(&r, FB_OP_VIEW, x, (fb_attrs){.shape = SHAPE(1, N)}),
          column = add_at(&r, FB_OP_VIEW, x, (fb_attrs){.shape = SHAPE(N, 1)});
    fb_id rest = add2(&r, FB_OP_REMAINDER, row, column);
    trials *t = try_all(&r, &rest, 1);
    for (int k = 0; k < N; k++) assert_true(spread_at(t, 0, (int64_t)k * (N + 1)) > 0);
    trials_free(t);
    rig_free(&r);
}

/* Several of them multiplied are small beyond all that a lane's own draw would be off by. */
static void test_products_of_what_doubles_left(void **state)
{
    (void)state;
    enum { N = 33 };
    static double x[N * N], m[N];
    const double c = 0.001488095238095238;
    rig r = rig_new();
    for (int k = 0; k < N * N; k++) x[k] = fb_rng_uniform(fb_rng_bits(1, (uint64_t)k), -1, 1) + 2 * (k % (3 * N) == 0);
    for (int i = 0; i < N; i++) {
        m[i] = -INFINITY;
        for (int k = 0; k < N; k++) m[i] = fmax(m[i], x[i * N + k] * c);
    }
    fb_id by = add(&r, FB_OP_CONST, &(fb_attrs){.dtype = FB_F64, .value = c}, 0, NULL);
    fb_id d = add2(&r, FB_OP_SUB, add2(&r, FB_OP_MUL, data(&r, FB_F64, SHAPE(N, N), x), by),
                   data(&r, FB_F64, SHAPE(N, 1), m));
    fb_id p = add_at(&r, FB_OP_PROD, d, (fb_attrs){.n_axes = 1, .axes = {0}});
    trials *t = try_all(&r, &p, 1);
    for (int j = 0; j < N; j++) {
        double gives = 1;
        for (int i = 0; i < N; i++) gives *= fma(x[i * N + j], c, -m[i]);
        double v = t->at[0].v[0][j], spread = spread_at(t, 0, j);
        if (!(fabs(gives - v) <= FB_TRIAL_CHANCE * spread)) fail_msg("%d: %g for %g ± %g", j, gives, v, spread);
        assert_true(j > 0 || (v == 0 && gives != 0));
    }
    trials_free(t);
    rig_free(&r);
}

/* ceil(tanh(x)) of a small x is -1 or 0, by a rounding. However two such are drawn, their sum is seen to be open. */
static void test_steps_do_not_make_up_for_each_other(void **state)
{
    (void)state;
    enum { ROWS = 500 };
    static double x[2 * ROWS];
    for (int k = 0; k < 2 * ROWS; k++) x[k] = (double)(float)fb_rng_uniform(fb_rng_bits(1, (uint64_t)k), -30, -12);
    rig r = rig_new();
    fb_id steps = add1(&r, FB_OP_CEIL, add1(&r, FB_OP_TANH, data(&r, FB_F32, SHAPE(ROWS, 2), x)));
    fb_id sum = add_at(&r, FB_OP_SUM, steps, (fb_attrs){.n_axes = 1, .axes = {1}});
    trials *t = try_all(&r, &sum, 1);
    for (int k = 0; k < ROWS; k++) assert_true(spread_at(t, 0, k) >= 1);
    trials_free(t);
    rig_free(&r);
}

/* Rows of two values each, as many of either in all rows; where they begin is drawn, and the last row is the first one
 * again. */
static void draw_orders(int rows, int n, double *x)
{
    for (int k = 0; k < rows * n; k++) {
        uint64_t row = (uint64_t)(k / n % (rows - 1)), begin = fb_rng_bits(1, row) + row % 2;
        x[k] = (double)(float)exp((begin + 7 * (uint64_t)k) % (uint64_t)n < (uint64_t)n / 2 ? 1 : -1);
    }
}

/* Rows of the same terms in other orders have one sum in exact numbers, and not in a kernel: their ranks are open. Of
 * two terms both orders are rounded alike, and so are rows that are equal. */
static void test_sums_of_the_same_terms_in_other_orders(void **state)
{
    (void)state;
    enum { ROWS = 11, N = 20, TWO = 3, RANK = 4 };
    double x[ROWS * N], two[ROWS * 2], rows[ROWS * N];
    draw_orders(ROWS, N, x);
    draw_orders(ROWS, 2, two);
    for (int k = 0; k < ROWS * N; k++) rows[k] = k / N;
    rig r = rig_new();
    fb_id of = data(&r, FB_F32, SHAPE(ROWS, N), x), sum = add_at(&r, FB_OP_SUM, of, last_axis);
    fb_id by_row[] = {add_at(&r, FB_OP_VIEW, of, (fb_attrs){.shape = SHAPE(ROWS * N)}),
                      data(&r, FB_I64, SHAPE(ROWS * N), rows)};
    fb_id want[] = {sum, add_at(&r, FB_OP_PROD, of, last_axis),
                    add(&r, FB_OP_SCATTER_ADD, &(fb_attrs){.start = ROWS}, 2, by_row),
                    add_at(&r, FB_OP_SUM, data(&r, FB_F32, SHAPE(ROWS, 2), two), last_axis),
                    add_at(&r, FB_OP_RANK, sum, (fb_attrs){.dim = 0})};
    trials *t = try_all(&r, want, 5);
    for (int i = 0; i < RANK; i++) {
        int unlike = 0;
        for (int l = 1; l <= FB_TRIALS; l++) {
            const double *y = t->at[i].v[l];
            for (int k = 1; k < ROWS; k++) unlike += y[k] != y[0];
            assert_true(y[ROWS - 1] == y[0]);
        }
        assert_true(i == TWO ? unlike == 0 : unlike > ROWS / 2);
    }
    for (int k = 0; k < ROWS; k++) assert_true(spread_at(t, RANK, k) > 1);
    trials_free(t);
    rig_free(&r);
}

/* s · a - s · b, of a sum s that a kernel may add up for each of the products: as much is left as a rounding of s makes
 * of either, not only of their difference. */
static void test_products_of_what_is_computed_twice(void **state)
{
    (void)state;
    enum { ROWS = 40, N = 33 };
    static const fb_op ops[] = {FB_OP_MATMUL, FB_OP_MUL};
    for (int i = 0; i < 2; i++) {
        rig r = rig_new();
        fb_id x = normal(&r, FB_OP_INPUT, FB_F32, SHAPE(ROWS, N));
        fb_id s = add1(&r, FB_OP_SIN, add_at(&r, FB_OP_SUM, x, (fb_attrs){.n_axes = 1, .axes = {1}, .keepdim = true}));
        fb_id a = data(&r, FB_F32, SHAPE(1, 1), (double[]){1.25}),
              b = data(&r, FB_F32, SHAPE(1, 1), (double[]){1.1875});
        fb_id want[] = {add2(&r, FB_OP_SUB, add2(&r, ops[i], s, a), add2(&r, ops[i], s, b)), s};
        trials *t = try_all(&r, want, 2);
        int apart = 0;
        for (int k = 0; k < ROWS; k++) {
            double spread = spread_at(t, 0, k), of = spread_at(t, 1, k);
            apart += spread > of / 2;
            assert_true(spread < 3 * of);
        }
        assert_true(apart > ROWS * 3 / 4);
        trials_free(t);
        rig_free(&r);
    }
}

/* 3e38 + 3e38 is beyond f32: what is taken from it then is taken from infinity. Where both sides are, a sum is no number
 * in some order, and where one is, it may be infinite. */
static void test_sums_beyond_the_accumulator_are_open(void **state)
{
    (void)state;
    enum { N = 4, BEYOND = 1, FIT = 3, ROWS };
    static const double terms[ROWS][N] = {{3e38, 3e38, -3e38, -2.5e38},
                                          {3.4e38, 3.4e38, 3.4e38, 3.4e38},
                                          {3e38, 3e38, -2.8e38, 0},
                                          {1e38, 1e38, -1e38, 0}};
    double x[2 * ROWS * N]; /* a second half of 0 */
    for (int k = 0; k < 2 * ROWS * N; k++) {
        int row = k / (2 * N), i = k % (2 * N);
        x[k] = row == BEYOND ? (i < N ? 1 : -0.9) * terms[row][i % N] : i < N ? terms[row][i] : 0;
    }
    rig r = rig_new();
    fb_id of = data(&r, FB_F32, SHAPE(ROWS, 2 * N), x);
    fb_id want[] = {add_at(&r, FB_OP_SUM, of, last_axis), add_at(&r, FB_OP_MEAN, of, last_axis),
                    add_at(&r, FB_OP_CUMSUM, of, (fb_attrs){.dim = 1})};
    trials *t = try_all(&r, want, 3);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < ROWS; k++) {
            int64_t at = i == 2 ? 2 * N * k + 2 * N - 1 : k;
            int nan = 0, lost = lanes_lost(t, i, at);
            for (int l = 1; l <= FB_TRIALS; l++) nan += isnan(t->at[i].v[l][at]);
            assert_int_equal(nan > 0, k <= BEYOND);
            assert_true(k == FIT ? lost == 0 : lost > 0 && lost < FB_TRIALS);
        }
    }
    trials_free(t);
    rig_free(&r);
}

/* Whether a value is 0 is for those lanes to say in which it is a number, though they be few. 1 - tanh(10) is 0 or what
 * tanh was rounded by; a share of ties is none where a lane has none. */
static void test_few_lanes_decide_both_ways(void **state)
{
    (void)state;
    enum { ROWS = 300, N = 7 };
    rig r = rig_new();
    fb_attrs tens = {.dtype = FB_F32, .shape = SHAPE(ROWS, 1), .dist = FB_DIST_UNIFORM, .value = 9.5, .high = 11};
    fb_id one = constant(&r, FB_F32, 1), y = add2(&r, FB_OP_MATMUL, normal(&r, FB_OP_INPUT, FB_F32, SHAPE(ROWS, N)),
                                                  normal(&r, FB_OP_PARAM, FB_F32, SHAPE(N, N)));
    fb_id m = add1(&r, FB_OP_SIN, y);
    fb_attrs keep = {.n_axes = 1, .axes = {-1}, .keepdim = true};
    fb_id tie =
        add_at(&r, FB_OP_CAST, add2(&r, FB_OP_EQ, m, add_at(&r, FB_OP_AMAX, m, keep)), (fb_attrs){.dtype = FB_F32});
    fb_id share = add2(&r, FB_OP_MUL, tie, add2(&r, FB_OP_DIV, one, add_at(&r, FB_OP_SUM, tie, keep)));
    fb_id rest = add2(&r, FB_OP_SUB, one, add1(&r, FB_OP_TANH, add(&r, FB_OP_INPUT, &tens, 0, NULL)));
    fb_id sum = add2(&r, FB_OP_ADD, rest, share);
    fb_id want[] = {sum, add_at(&r, FB_OP_CAST, sum, (fb_attrs){.dtype = FB_BOOL}), add1(&r, FB_OP_SIGN, sum)};
    trials *t = try_all(&r, want, 3);
    int few = 0;
    for (int64_t k = 0; k < t->at[0].n; k++) {
        int numbers = 0, truths = 0, signs = 0;
        double sum_is = t->at[0].v[0][k], off = 0;
        for (int l = 1; l <= FB_TRIALS; l++) {
            numbers += !isnan(t->at[0].v[l][k]);
            off = fmax(off, fabs(t->at[0].v[l][k] - sum_is));
            truths += t->at[1].v[l][k] != t->at[1].v[0][k];
            signs += t->at[2].v[l][k] <= 0;
        }
        if (!(sum_is < 1e-7 && off > sum_is)) continue;
        few += numbers == 1 || numbers == 2;
        assert_true(truths > 0 && signs > 0);
    }
    assert_true(few > 10);
    trials_free(t);
    rig_free(&r);
}

/* What 1 + erf loses is as large beside gelu(-4.4) as 1 is, and no two elements lose the same: of each less their mean as
 * much is left as of the elements. */
static void test_functions_lose_beside_one_by_one(void **state)
{
    (void)state;
    enum { N = 33 };
    double x[N];
    for (int k = 0; k < N; k++) x[k] = (float)(-4.4 + 0.001 * k);
    rig r = rig_new();
    fb_id y = add1(&r, FB_OP_GELU, data(&r, FB_F32, SHAPE(1, N), x));
    fb_id want[] = {
        y, add2(&r, FB_OP_SUB, y, add_at(&r, FB_OP_MEAN, y, (fb_attrs){.n_axes = 1, .axes = {-1}, .keepdim = true}))};
    trials *t = try_all(&r, want, 2);
    for (int64_t k = 0; k < N; k++) assert_true(spread_at(t, 1, k) > spread_at(t, 0, k) / 16);
    trials_free(t);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_computed_again),
        cmocka_unit_test(test_parts_of_a_join_computed_again),
        cmocka_unit_test(test_products_taken_in_by_doubles),
        cmocka_unit_test(test_rests_of_what_is_computed_twice),
        cmocka_unit_test(test_steps_do_not_make_up_for_each_other),
        cmocka_unit_test(test_products_of_what_roundings_left),
        cmocka_unit_test(test_products_of_what_doubles_left),
        cmocka_unit_test(test_little_that_is_left_may_be_apart),
        cmocka_unit_test(test_exact_ops_have_no_spread),
        cmocka_unit_test(test_inexact_ops_spread),
        cmocka_unit_test(test_lanes_round_to_a_neighbour),
        cmocka_unit_test(test_some_lanes_round_to_the_nearest),
        cmocka_unit_test(test_equal_rests_are_rounded_alike),
        cmocka_unit_test(test_sixteen_bits_may_be_kept_wider),
        cmocka_unit_test(test_small_numbers_are_flushed_in_half_of_the_lanes),
        cmocka_unit_test(test_ties_by_construction),
        cmocka_unit_test(test_what_is_flushed_on_the_way),
        cmocka_unit_test(test_overflow_is_told),
        cmocka_unit_test(test_what_overflowed_is_not_decided),
        cmocka_unit_test(test_what_overflowed_stays_on_its_side),
        cmocka_unit_test(test_what_is_not_finite_stays_so),
        cmocka_unit_test(test_lanes_are_numbers_where_the_exact_one_is_none),
        cmocka_unit_test(test_close_decisions_go_both_ways),
        cmocka_unit_test(test_remainders_turn_one_by_one),
        cmocka_unit_test(test_steps_of_what_is_far_apart),
        cmocka_unit_test(test_argmax_takes_both_of_a_tie),
        cmocka_unit_test(test_loops_run),
        cmocka_unit_test(test_loops_carry_what_is_stored),
        cmocka_unit_test(test_loops_yield_what_lies_outside),
        cmocka_unit_test(test_one_step_of_a_body),
        cmocka_unit_test(test_given_nodes_are_leaves),
        cmocka_unit_test(test_threads_and_blocks_change_nothing),
        cmocka_unit_test(test_samples_hold_both_ends),
        cmocka_unit_test(test_tables_are_read_by_rows),
        cmocka_unit_test(test_long_rows_come_in_slabs),
        cmocka_unit_test(test_losses_come_some_rows_at_a_time),
        cmocka_unit_test(test_blocks_are_as_small_as_memory),
        cmocka_unit_test(test_what_is_moved_has_one_plane),
        cmocka_unit_test(test_views_of_views_are_read_through),
        cmocka_unit_test(test_columns_are_cut_behind_what_is_summed),
        cmocka_unit_test(test_channels_are_cut_between_what_is_summed),
        cmocka_unit_test(test_loops_go_by_rows),
        cmocka_unit_test(test_few_long_blocks_go_beside_each_other),
        cmocka_unit_test(test_limits_and_cancelling),
        cmocka_unit_test(test_sums_that_rise_and_fall),
        cmocka_unit_test(test_products_in_one_accumulator),
        cmocka_unit_test(test_even_terms_on_top_of_others),
        cmocka_unit_test(test_equal_sums_may_be_rounded_unlike),
        cmocka_unit_test(test_operands_near_a_kink_by_chance),
        cmocka_unit_test(test_masks_turn_one_by_one),
        cmocka_unit_test(test_eight_lanes_alone_accuse_nothing),
        cmocka_unit_test(test_a_sum_that_is_rounded_before_its_bias),
        cmocka_unit_test(test_what_is_added_to_a_product_in_another_order),
        cmocka_unit_test(test_either_product_is_fused),
        cmocka_unit_test(test_a_factor_is_rounded),
        cmocka_unit_test(test_products_of_a_product),
        cmocka_unit_test(test_casts_that_do_not_fit_are_open),
        cmocka_unit_test(test_choices_are_rounded),
        cmocka_unit_test(test_a_maximum_may_equal_none),
        cmocka_unit_test(test_a_value_and_its_stored_mean),
        cmocka_unit_test(test_a_sum_and_its_stored_mean),
        cmocka_unit_test(test_products_that_overflow_on_the_way_are_open),
        cmocka_unit_test(test_means_whose_sums_overflow_are_open),
        cmocka_unit_test(test_products_lost_both_ways_are_open),
        cmocka_unit_test(test_running_products_go_in_order),
        cmocka_unit_test(test_products_with_nothing_in_them_may_overflow),
        cmocka_unit_test(test_terms_beyond_the_accumulator_are_open),
        cmocka_unit_test(test_signs_near_zero_may_be_zero),
        cmocka_unit_test(test_poles_in_reach_are_open),
        cmocka_unit_test(test_powers_share_their_exponent),
        cmocka_unit_test(test_prefixes_are_off_together),
        cmocka_unit_test(test_running_products_spread_as_they_round),
        cmocka_unit_test(test_products_by_trees_lose_alike),
        cmocka_unit_test(test_counts_that_may_be_zero),
        cmocka_unit_test(test_readers_may_have_it_apart),
        cmocka_unit_test(test_compared_sums_may_be_apart),
        cmocka_unit_test(test_angles_of_sums_may_be_apart),
        cmocka_unit_test(test_products_of_nothing_have_either_sign),
        cmocka_unit_test(test_signs_of_computed_zeros_are_open),
        cmocka_unit_test(test_signs_of_given_zeros_are_open),
        cmocka_unit_test(test_functions_keep_the_sign_of_zeros),
        cmocka_unit_test(test_sums_of_one_keep_their_sign),
        cmocka_unit_test(test_sums_of_nothing_turn_one_by_one),
        cmocka_unit_test(test_sums_beside_a_pole_are_numbers),
        cmocka_unit_test(test_decisions_follow_from_decisions),
        cmocka_unit_test(test_a_value_less_itself_is_nothing),
        cmocka_unit_test(test_close_ranks_are_exchanged),
        cmocka_unit_test(test_sums_of_the_same_terms_in_other_orders),
        cmocka_unit_test(test_products_of_what_is_computed_twice),
        cmocka_unit_test(test_sums_beyond_the_accumulator_are_open),
        cmocka_unit_test(test_few_lanes_decide_both_ways),
        cmocka_unit_test(test_functions_lose_beside_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
