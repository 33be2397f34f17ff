/* One pointwise op on constants, by the same expressions of ops.def that the interpreter runs. Leaves the value
 * rounded to the node's dtype. */
#include "graph/fold.h"

#include "graph/intmath.h"

#include <math.h>

#define FB_NO 0

static double fold_float(const fb_node *n, double a, double b, double c)
{
    const fb_attrs *at = n->attrs;
    (void)at;
    switch (n->op) {
#define FB_F64_VALUE(F64, I64) F64
#define POINTWISE(ID, NAME, OPERANDS, ACCEPTS, RESULT, PARAMS, VALUE, ...)                                             \
    case FB_OP_##ID:                                                                                                   \
        return FB_F64_##VALUE;
#include "graph/ops.def"
#undef POINTWISE
    default: return 0;
    }
}

static int64_t fold_integer(const fb_node *n, int64_t a, int64_t b, int64_t c)
{
    const fb_attrs *at = n->attrs;
    (void)at;
    switch (n->op) {
#define FB_I64_VALUE(F64, I64) I64
#define POINTWISE(ID, NAME, OPERANDS, ACCEPTS, RESULT, PARAMS, VALUE, ...)                                             \
    case FB_OP_##ID:                                                                                                   \
        return FB_I64_##VALUE;
#include "graph/ops.def"
#undef POINTWISE
    default: return 0;
    }
}

bool fb_fold(const fb_node *n, fb_dtype in, const double values[3], double *out)
{
    double a = values[0], b = values[1], c = values[2];
    if (fb_dtype_is_float(in)) {
        *out = fb_dtype_round(n->dtype, fold_float(n, a, b, c));
        return true;
    }
    int64_t v = fold_integer(n, fb_int_of(a), fb_int_of(b), fb_int_of(c));
    if (fb_dtype_is_float(n->dtype)) {
        *out = fb_dtype_round(n->dtype, (double)v);
        return true;
    }
    v = fb_int_wrap(n->dtype, v);
    *out = (double)v;
    return v >= -((int64_t)1 << 53) && v <= (int64_t)1 << 53;
}
