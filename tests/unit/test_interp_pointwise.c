/* The reference interpreter, pointwise: every op against known values, casts, wrapping, broadcasting. */
#include "tests/unit/interp_help.h"

typedef struct {
    fb_op op;
    double a, b, c; /* clamp: b and c are its limits */
    double wanted;
} point;

#define INF  INFINITY
#define IMIN ((double)INT64_MIN)

/* Values with PyTorch's answer. Every op with a float form is here (a test below counts them). */
static const point float_points[] = {
    {FB_OP_NEG, 1.5, 0, 0, -1.5},
    {FB_OP_NEG, 0, 0, 0, -0.0},
    {FB_OP_COPY, -1.5, 0, 0, -1.5},
    {FB_OP_COPY, 0, 0, 0, 0},
    {FB_OP_ABS, -2.5, 0, 0, 2.5},
    {FB_OP_SIGN, -3, 0, 0, -1},
    {FB_OP_SIGN, NAN, 0, 0, 0},
    {FB_OP_SIGN, -0.0, 0, 0, 0},
    {FB_OP_EXP, 1, 0, 0, M_E},
    {FB_OP_EXP, -INF, 0, 0, 0},
    {FB_OP_EXP2, 10, 0, 0, 1024},
    {FB_OP_LOG, M_E, 0, 0, 1},
    {FB_OP_LOG, 0, 0, 0, -INF},
    {FB_OP_LOG, -1, 0, 0, NAN},
    {FB_OP_LOG2, 8, 0, 0, 3},
    {FB_OP_LOG1P, 1e-20, 0, 0, 1e-20},
    {FB_OP_LOG1P, M_E - 1, 0, 0, 1},
    {FB_OP_LOG1P, -1, 0, 0, -INF},
    {FB_OP_LOG1P, -2, 0, 0, NAN},
    {FB_OP_SQRT, 2, 0, 0, M_SQRT2},
    {FB_OP_SQRT, -1, 0, 0, NAN},
    {FB_OP_RSQRT, 4, 0, 0, 0.5},
    {FB_OP_RSQRT, 0, 0, 0, INF},
    {FB_OP_RECIP, -8, 0, 0, -0.125},
    {FB_OP_SIN, M_PI_2, 0, 0, 1},
    {FB_OP_COS, M_PI, 0, 0, -1},
    {FB_OP_TANH, 0.5, 0, 0, 0.46211715726000975850},
    {FB_OP_SIGMOID, 0.5, 0, 0, 0.62245933120185456464},
    {FB_OP_SIGMOID, -800, 0, 0, 0},
    {FB_OP_SIGMOID, -712, 0, 0, 6.05799464199894e-310}, /* no less than what a kernel may find */
    {FB_OP_ERF, 1, 0, 0, 0.84270079294971486934},
    {FB_OP_ERFINV, 0.5, 0, 0, 0.47693627620446988},
    {FB_OP_ERFINV, -0.999999, 0, 0, -3.4589107372754988},
    {FB_OP_ERFINV, 1e-20, 0, 0, 8.8622692545275801e-21},
    {FB_OP_ERFINV, -1, 0, 0, -INF},
    {FB_OP_ERFINV, 2, 0, 0, NAN},
    {FB_OP_LGAMMA, 0.5, 0, 0, 0.57236494292470008},
    {FB_OP_LGAMMA, 10.3, 0, 0, 13.482036786138359},
    {FB_OP_LGAMMA, -0.5, 0, 0, 1.2655121234846454},
    {FB_OP_LGAMMA, -2, 0, 0, INF},
    {FB_OP_DIGAMMA, 0.5, 0, 0, -1.9635100260214235},
    {FB_OP_DIGAMMA, -0.5, 0, 0, 0.036489973978576520},
    {FB_OP_DIGAMMA, 12.5, 0, 0, 2.4851956512749123},
    {FB_OP_DIGAMMA, 0, 0, 0, -INF},
    {FB_OP_DIGAMMA, -2, 0, 0, NAN},
    {FB_OP_GELU, 1, 0, 0, 0.84134474606854294859},
    {FB_OP_RELU, -2, 0, 0, 0},
    {FB_OP_RELU, 2, 0, 0, 2},
    {FB_OP_RELU, NAN, 0, 0, NAN},
    {FB_OP_SOFTPLUS, 0.5, 1, 20, 0.9740769841801067},
    {FB_OP_SOFTPLUS, -40, 1, 20, 4.2483542552915889e-18},
    {FB_OP_SOFTPLUS, 0.5, 2, 20, 0.6566308437591114},
    {FB_OP_SOFTPLUS, 3, 2, 5, 3}, /* above the threshold */
    {FB_OP_SOFTPLUS, 800, 1, INF, 800},
    {FB_OP_SOFTPLUS, -INF, 1, 20, 0},
    {FB_OP_SOFTPLUS, NAN, 1, 20, NAN},
    {FB_OP_ELU, 2, 0.5, 0, 2},
    {FB_OP_ELU, -1, 0.5, 0, -0.31606027941427883},
    {FB_OP_ELU, -1e-20, 1, 0, -1e-20},
    {FB_OP_ELU, -INF, 2, 0, -2},
    {FB_OP_ELU, NAN, 1, 0, NAN},
    {FB_OP_MISH, 1, 0, 0, 0.8650983882673103},
    {FB_OP_MISH, -30, 0, 0, -2.807286890651921e-12},
    {FB_OP_MISH, 900, 0, 0, 900},
    {FB_OP_FLOOR, -1.5, 0, 0, -2},
    {FB_OP_CEIL, -1.5, 0, 0, -1},
    {FB_OP_ROUND, 2.5, 0, 0, 2},
    {FB_OP_ROUND, -3.5, 0, 0, -4},
    {FB_OP_CLAMP, 5, -1, 1, 1},
    {FB_OP_CLAMP, -5, -1, 1, -1},
    {FB_OP_CLAMP, 0.25, -1, 1, 0.25},
    {FB_OP_CLAMP, 1e30, 0, INF, 1e30},
    {FB_OP_ADD, 1.25, 2, 0, 3.25},
    {FB_OP_SUB, 1.25, 2, 0, -0.75},
    {FB_OP_SUB, INF, INF, 0, NAN},
    {FB_OP_MUL, 1.25, -2, 0, -2.5},
    {FB_OP_DIV, 1, 3, 0, 1.0 / 3},
    {FB_OP_DIV, -1, 0, 0, -INF},
    {FB_OP_POW, 2, -2, 0, 0.25},
    {FB_OP_POW, -2, 3, 0, -8},
    {FB_OP_POW, -2, 0.5, 0, NAN},
    {FB_OP_MINIMUM, 1, 2, 0, 1},
    {FB_OP_MINIMUM, NAN, 2, 0, NAN},
    {FB_OP_MINIMUM, 2, NAN, 0, NAN},
    {FB_OP_MAXIMUM, 1, 2, 0, 2},
    {FB_OP_MAXIMUM, NAN, 2, 0, NAN},
    {FB_OP_MAXIMUM, 2, NAN, 0, NAN},
    {FB_OP_REMAINDER, -7, 3, 0, 2},
    {FB_OP_REMAINDER, 7, -3, 0, -2},
    {FB_OP_REMAINDER, 5.5, 2, 0, 1.5},
    {FB_OP_REMAINDER, -1, INF, 0, INF},
    {FB_OP_ATAN2, 1, -1, 0, 3 * M_PI_4},
    {FB_OP_ATAN2, -0.0, -1, 0, -M_PI},
    {FB_OP_ATAN2, 0, 0, 0, 0},
    {FB_OP_ATAN2, INF, INF, 0, M_PI_4},
    {FB_OP_ATAN2, NAN, 1, 0, NAN},
    {FB_OP_COPYSIGN, 2, -0.0, 0, -2},
    {FB_OP_COPYSIGN, -2, 3, 0, 2},
    {FB_OP_COPYSIGN, -2, -NAN, 0, 2},
    {FB_OP_EQ, 1, 1, 0, 1},
    {FB_OP_EQ, NAN, NAN, 0, 0},
    {FB_OP_EQ, 0, -0.0, 0, 1},
    {FB_OP_NE, NAN, NAN, 0, 1},
    {FB_OP_NE, 1, 1, 0, 0},
    {FB_OP_LT, 1, 2, 0, 1},
    {FB_OP_LE, 2, 2, 0, 1},
    {FB_OP_GT, 1, 2, 0, 0},
    {FB_OP_GE, NAN, 2, 0, 0},
    {FB_OP_WHERE, 1, 2, 3, 2},
    {FB_OP_WHERE, 0, NAN, 3, 3},
};

static const point int_points[] = {
    {FB_OP_NEG, IMIN, 0, 0, IMIN},
    {FB_OP_NEG, 5, 0, 0, -5},
    {FB_OP_ABS, -5, 0, 0, 5},
    {FB_OP_SIGN, -5, 0, 0, -1},
    {FB_OP_RELU, -5, 0, 0, 0},
    {FB_OP_CLAMP, -5, 0, INF, 0},
    {FB_OP_CLAMP, 9, -INF, 7.9, 7},
    {FB_OP_BITWISE_NOT, 5, 0, 0, -6},
    {FB_OP_COPY, -7, 0, 0, -7},
    {FB_OP_ADD, IMIN, -1024, 0, 0x1p63 - 1024},
    {FB_OP_SUB, 5, 7, 0, -2},
    {FB_OP_MUL, -3, 7, 0, -21},
    {FB_OP_FLOOR_DIV, -7, 2, 0, -4},
    {FB_OP_FLOOR_DIV, 7, 0, 0, 0},
    {FB_OP_FLOOR_DIV, IMIN, -1, 0, IMIN},
    {FB_OP_MINIMUM, 3, -4, 0, -4},
    {FB_OP_MAXIMUM, 3, -4, 0, 3},
    {FB_OP_REMAINDER, -7, 3, 0, 2},
    {FB_OP_REMAINDER, 7, -3, 0, -2},
    {FB_OP_REMAINDER, 7, 0, 0, 0},
    {FB_OP_EQ, 3, 3, 0, 1},
    {FB_OP_NE, 3, 3, 0, 0},
    {FB_OP_LT, -1, 3, 0, 1},
    {FB_OP_LE, 4, 3, 0, 0},
    {FB_OP_GT, 4, 3, 0, 1},
    {FB_OP_GE, 3, 3, 0, 1},
    {FB_OP_BITWISE_AND, 12, 10, 0, 8},
    {FB_OP_BITWISE_OR, 12, 10, 0, 14},
    {FB_OP_BITWISE_XOR, 12, 10, 0, 6},
    {FB_OP_SHL, 3, 4, 0, 48},
    {FB_OP_SHL, 3, 64, 0, 0},
    {FB_OP_SHR, -16, 2, 0, -4},
    {FB_OP_SHR, -16, 99, 0, -1},
    {FB_OP_WHERE, 0, 2, 3, 3},
    {FB_OP_WHERE, 1, 2, 3, 2},
};

static const point bool_points[] = {
    {FB_OP_COPY, 1, 0, 0, 1},        {FB_OP_LOGICAL_NOT, 1, 0, 0, 0}, {FB_OP_LOGICAL_NOT, 0, 0, 0, 1},
    {FB_OP_LOGICAL_AND, 1, 1, 0, 1}, {FB_OP_LOGICAL_AND, 1, 0, 0, 0}, {FB_OP_LOGICAL_OR, 0, 1, 0, 1},
    {FB_OP_LOGICAL_OR, 0, 0, 0, 0},  {FB_OP_BITWISE_AND, 1, 0, 0, 0}, {FB_OP_BITWISE_OR, 1, 0, 0, 1},
    {FB_OP_BITWISE_XOR, 1, 1, 0, 0}, {FB_OP_EQ, 1, 0, 0, 0},          {FB_OP_WHERE, 1, 0, 1, 0},
};

static void check_point(const point *p, fb_dtype dtype)
{
    rig r = rig_new();
    const double *from[3] = {&p->a, &p->b, &p->c};
    const fb_op_info *info = fb_op_get(p->op);
    fb_id args[3];
    for (int a = 0; a < info->min_args; a++) {
        args[a] = data(&r, p->op == FB_OP_WHERE && a == 0 ? FB_BOOL : dtype, SCALAR, from[a]);
    }
    fb_id y = add(&r, p->op, &(fb_attrs){.value = p->b, .high = p->c}, info->min_args, args);
    run(&r, y);
    const fb_tensor *t = get(&r, y);
    assert_int_equal(t->n, 1);
    double have = value_at(t, 0);
    if (!same(have, p->wanted) && !(fabs(have - p->wanted) <= 1e-15 * fmax(1, fabs(p->wanted))))
        fail_msg("%s(%g, %g, %g) as %s is %.17g, not %.17g", info->name, p->a, p->b, p->c, fb_dtype_name(dtype), have,
                 p->wanted);
    if (!isfinite(p->wanted) && !fb_op_get(p->op)->special && t->v) assert_true(bound_at(t, 0) == 0);
    rig_free(&r);
}

static void pointwise_ops_give_known_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof float_points / sizeof *float_points; i++) check_point(&float_points[i], FB_F64);
    for (size_t i = 0; i < sizeof int_points / sizeof *int_points; i++) check_point(&int_points[i], FB_I64);
    for (size_t i = 0; i < sizeof bool_points / sizeof *bool_points; i++) check_point(&bool_points[i], FB_BOOL);
}

static void no_pointwise_op_is_left_out(void **state)
{
    (void)state;
    bool seen[FB_OPS] = {[FB_OP_CAST] = true}; /* has a test of its own */
    for (size_t i = 0; i < sizeof float_points / sizeof *float_points; i++) seen[float_points[i].op] = true;
    for (size_t i = 0; i < sizeof int_points / sizeof *int_points; i++) seen[int_points[i].op] = true;
    for (size_t i = 0; i < sizeof bool_points / sizeof *bool_points; i++) seen[bool_points[i].op] = true;
    for (int op = 0; op < FB_OPS; op++) {
        if (fb_op_get((fb_op)op)->cls == FB_CLASS_POINTWISE && !seen[op])
            fail_msg("%s is not tested", fb_op_get((fb_op)op)->name);
    }
}

static void casts_convert_between_all_dtypes(void **state)
{
    (void)state;
    static const struct {
        fb_dtype from, to;
        double x, wanted;
    } cases[] = {
        {FB_F64, FB_F32, 0.1, 0.1 /* the reference does not round */},
        {FB_F32, FB_I32, -2.7, -2},
        {FB_F64, FB_I64, 0x1p62, 0x1p62},
        {FB_F64, FB_I64, NAN, 0},
        {FB_F64, FB_I32, 0x1p32 + 5, 5},
        {FB_F32, FB_BOOL, 0.25, 1},
        {FB_F16, FB_BOOL, 0, 0},
        {FB_I64, FB_I32, 0x1p32 + 7, 7},
        {FB_I64, FB_I32, 0x1p31, -0x1p31},
        {FB_I32, FB_BOOL, -4, 1},
        {FB_I32, FB_F16, 2049, 2049},
        {FB_BOOL, FB_F32, 1, 1},
        {FB_BOOL, FB_I64, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r = rig_new();
        fb_id x = data(&r, cases[i].from, SHAPE(1), &cases[i].x);
        fb_id y = add_at(&r, FB_OP_CAST, x, (fb_attrs){.dtype = cases[i].to});
        run(&r, y);
        EXPECT(&r, y, cases[i].wanted);
        rig_free(&r);
    }
}

static void i32_wraps_at_32_bits(void **state)
{
    (void)state;
    rig r = rig_new();
    fb_id x = data(&r, FB_I32, SHAPE(2), (double[]){0x1p31 - 1, -0x1p31});
    fb_id one = constant(&r, FB_I32, 1);
    fb_id y[] = {add2(&r, FB_OP_ADD, x, one), add1(&r, FB_OP_ABS, x), add2(&r, FB_OP_SHL, x, one),
                 add1(&r, FB_OP_SUM, x)};
    run_keeping_all(&r, y, 4, true);
    EXPECT(&r, y[0], -0x1p31, -0x1p31 + 1);
    EXPECT(&r, y[1], 0x1p31 - 1, -0x1p31);
    EXPECT(&r, y[2], -2, 0);
    EXPECT(&r, y[3], -1);
    rig_free(&r);
}

/* Any two shapes that broadcast, element by element, across block boundaries. */
static void broadcasting_reads_the_right_elements(void **state)
{
    (void)state;
    static const struct {
        fb_shape a, b;
    } cases[] = {
        {{0}, {2, {3, 4}}},
        {{2, {3, 1}}, {1, {4}}},
        {{3, {2, 1, 5}}, {2, {3, 1}}},
        {{1, {1}}, {0}},
        {{2, {700, 3}}, {1, {3}}},
        {{2, {3, 700}}, {2, {3, 1}}},
        {{2, {2, 600}}, {1, {600}}},
        {{4, {2, 1, 3, 1}}, {3, {4, 1, 5}}},
        {{2, {1, 5}}, {2, {0, 5}}},
    };
    double *x = fb_calloc(4096, sizeof *x), *y = fb_calloc(4096, sizeof *y);
    for (int i = 0; i < 4096; i++) x[i] = i, y[i] = i * 0x1p-13;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r = rig_new();
        fb_id a = data(&r, FB_F64, cases[i].a, x), b = data(&r, FB_F64, cases[i].b, y);
        fb_id c = add2(&r, FB_OP_ADD, a, b);
        run(&r, c);
        const fb_tensor *t = get(&r, c);
        fb_shape s = r.g->nodes[c].shape;
        assert_int_equal(t->n, fb_shape_elements(&s));
        for (int64_t k = 0; k < t->n; k++) {
            int64_t at[2] = {0, 0}, step[2] = {1, 1}, rest = k;
            for (int d = s.rank - 1; d >= 0; d--) {
                int64_t index = rest % s.dim[d];
                rest /= s.dim[d];
                for (int o = 0; o < 2; o++) {
                    const fb_shape *from = o ? &cases[i].b : &cases[i].a;
                    int own = d - (s.rank - from->rank);
                    if (own < 0) continue;
                    at[o] += from->dim[own] == 1 ? 0 : index * step[o];
                    step[o] *= from->dim[own];
                }
            }
            assert_true(t->v[k] == x[at[0]] + y[at[1]]);
        }
        rig_free(&r);
    }
    fb_free(x);
    fb_free(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointwise_ops_give_known_values),       cmocka_unit_test(no_pointwise_op_is_left_out),
        cmocka_unit_test(casts_convert_between_all_dtypes),      cmocka_unit_test(i32_wraps_at_32_bits),
        cmocka_unit_test(broadcasting_reads_the_right_elements),
    };
    return cmocka_run_group_tests_name("interp pointwise", tests, NULL, NULL);
}
