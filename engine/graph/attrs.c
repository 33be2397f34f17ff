/* Which attributes each op reads, and when two sets of them are equal. Building, hashing, reading and writing ask
 * here, so that they agree. Parameters of pointwise ops come from ops.def. */
#include "graph/build.h"

#include <string.h>

const fb_attrs fb_attrs_none;

enum { DATA = FB_AT_SHAPE | FB_AT_DTYPE | FB_AT_DIST | FB_AT_VALUE | FB_AT_HIGH };

static const unsigned by_op[FB_OPS] = {
    [FB_OP_CAST] = FB_AT_DTYPE,
    [FB_OP_INPUT] = DATA | FB_AT_FILE,
    [FB_OP_PARAM] = DATA | FB_AT_FILE,
    [FB_OP_FEED] = DATA | FB_AT_FILE,
    [FB_OP_RANDOM] = DATA | FB_AT_SEED,
    [FB_OP_CONST] = FB_AT_VALUE | FB_AT_DTYPE | FB_AT_SHAPE,
    [FB_OP_IOTA] = FB_AT_SHAPE | FB_AT_DTYPE | FB_AT_DIM,
    [FB_OP_CARRIED] = FB_AT_INDEX | FB_AT_SHAPE | FB_AT_DTYPE,
    [FB_OP_ITEM] = FB_AT_INDEX | FB_AT_SHAPE | FB_AT_DTYPE,
    [FB_OP_VIEW] = FB_AT_SHAPE,
    [FB_OP_PERMUTE] = FB_AT_AXES,
    [FB_OP_SLICE] = FB_AT_DIM | FB_AT_START | FB_AT_STOP,
    [FB_OP_EXPAND] = FB_AT_SHAPE,
    [FB_OP_PAD] = FB_AT_PADDING | FB_AT_VALUE,
    [FB_OP_FLIP] = FB_AT_AXES,
    [FB_OP_UNFOLD] = FB_AT_DIM | FB_AT_STOP,
    [FB_OP_CAT] = FB_AT_DIM,
    [FB_OP_STACK] = FB_AT_DIM,
    [FB_OP_CUMSUM] = FB_AT_DIM,
    [FB_OP_CUMPROD] = FB_AT_DIM,
    [FB_OP_RANK] = FB_AT_DIM | FB_AT_START,
    [FB_OP_MATMUL] = FB_AT_PRECISION,
    [FB_OP_SCATTER_ADD] = FB_AT_START,
    [FB_OP_LOOP] = FB_AT_REGION | FB_AT_TRIPS,
    [FB_OP_RESULT] = FB_AT_INDEX,
};

unsigned fb_op_attrs(fb_op op)
{
    const fb_op_info *info = fb_op_get(op);
    if (info->cls == FB_CLASS_REDUCTION) return FB_AT_AXES | FB_AT_KEEPDIM;
    return by_op[op] | (info->params[0].name ? FB_AT_VALUE : 0) | (info->params[1].name ? FB_AT_HIGH : 0);
}

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static bool same_file(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool fb_attrs_equal(const fb_attrs *a, const fb_attrs *b)
{
    if (a == b) return true;
    return a->n_axes == b->n_axes && memcmp(a->axes, b->axes, sizeof a->axes) == 0 && a->keepdim == b->keepdim &&
           a->dim == b->dim && a->start == b->start && a->stop == b->stop && a->step == b->step &&
           fb_shape_equal(&a->shape, &b->shape) && memcmp(a->before, b->before, sizeof a->before) == 0 &&
           memcmp(a->after, b->after, sizeof a->after) == 0 && same_bits(a->value, b->value) &&
           same_bits(a->high, b->high) && a->dtype == b->dtype && a->dist == b->dist && a->precision == b->precision &&
           a->index == b->index && a->region == b->region && a->trips == b->trips && a->seed == b->seed &&
           same_file(a->file, b->file);
}
