/* ops.def as a table of facts, and the dtypes: names, sizes, rounding to nearest-even in plain doubles. */
#include "graph/op.h"

#include <math.h>
#include <string.h>

typedef struct {
    const char *name;
    int size;
    int bits;                /* of a float's significand, the hidden one included; 0: no float */
    double quantum, largest; /* the smallest and the largest positive value of a float */
} dtype_info;

static const dtype_info dtypes[FB_DTYPES] = {
    [FB_F32] = {"f32", 4, 24, 0x1p-149, 0x1.fffffep127},
    [FB_F16] = {"f16", 2, 11, 0x1p-24, 65504},
    [FB_BF16] = {"bf16", 2, 8, 0x1p-133, 0x1.fep127},
    [FB_F64] = {"f64", 8, 53, 0x1p-1074, 0x1.fffffffffffffp1023},
    [FB_I32] = {"i32", 4, 0, 0, 0},
    [FB_I64] = {"i64", 8, 0, 0, 0},
    [FB_BOOL] = {"bool", 1, 0, 0, 0},
};

const char *fb_dtype_name(fb_dtype dtype)
{
    return (unsigned)dtype < FB_DTYPES ? dtypes[dtype].name : "?";
}

bool fb_dtype_parse(const char *name, fb_dtype *out)
{
    for (int i = 0; i < FB_DTYPES; i++) {
        if (strcmp(dtypes[i].name, name) != 0) continue;
        *out = (fb_dtype)i;
        return true;
    }
    return false;
}

int fb_dtype_size(fb_dtype dtype)
{
    return dtypes[dtype].size;
}

bool fb_dtype_is_float(fb_dtype dtype)
{
    return dtypes[dtype].bits > 0;
}

double fb_dtype_roundoff(fb_dtype dtype)
{
    return dtypes[dtype].bits ? ldexp(1, -dtypes[dtype].bits) : 0;
}

/* Scales so that the last significand bit is the unit, where nearbyint rounds to even; scaling by powers of two is
 * exact. */
static double round_float(const dtype_info *t, double value)
{
    if (!isfinite(value) || value == 0) return value;
    int exponent;
    frexp(value, &exponent);
    double unit = fmax(ldexp(1, exponent - t->bits), t->quantum);
    double rounded = nearbyint(value / unit) * unit;
    return fabs(rounded) > t->largest ? copysign(INFINITY, value) : copysign(rounded, value);
}

/* Modulo 2^64, since a conversion that does not fit is undefined in C. */
static uint64_t wrap_integer(double value)
{
    if (!isfinite(value)) return 0;
    double rest = fmod(trunc(value), 0x1p64);
    return rest < 0 ? -(uint64_t)-rest : (uint64_t)rest;
}

double fb_dtype_round(fb_dtype dtype, double value)
{
    switch (dtype) {
    case FB_F64: return value;
    case FB_F32: return (double)(float)value;
    case FB_F16:
    case FB_BF16: return round_float(&dtypes[dtype], value);
    case FB_I32: return (int32_t)(uint32_t)wrap_integer(value);
    case FB_I64: return (double)(int64_t)wrap_integer(value);
    default: return value != 0;
    }
}

static const fb_op_info ops[FB_OPS] = {
#define FB_SPELLINGS_SPELLED(C, CUDA, INTEGER) .c = C, .cuda = CUDA, .integer = INTEGER
#define FB_OPERANDS_OF(N)                      .min_args = N, .max_args = N
#define FB_OPERANDS_ONE                        FB_OPERANDS_OF(1)
#define FB_OPERANDS_TWO                        FB_OPERANDS_OF(2)
#define FB_OPERANDS_PAIR                       FB_OPERANDS_OF(2), .any_order = true
#define FB_OPERANDS_THREE                      FB_OPERANDS_OF(3)
#define FB_PARAMS_NONE
#define FB_PARAMS_PARAM(NAME, VALUE)                                                                                   \
    {                                                                                                                  \
#NAME, VALUE                                                                                                   \
    }
#define FB_PARAMS_PARAMS(NAME, VALUE, N, V)                                                                            \
    {#NAME, VALUE},                                                                                                    \
    {                                                                                                                  \
#N, V                                                                                                          \
    }
#define FB_SPECIAL_PLAIN                  false
#define FB_SPECIAL_SLOW(...)              true
#define FB_COSTS_COST(FLOPS, SPEED)       .flops = FLOPS, .special = FB_SPECIAL_##SPEED
#define FB_DOMAIN_OF_FUZZED(DOMAIN, SIZE) FB_DOMAIN_##DOMAIN
#define FB_NAMES_TORCH(SCHEMA, CALL)      .schema = SCHEMA, .torch = CALL
#define FB_NAMES_ONNX(NAME)               .onnx = NAME
#define POINTWISE(ID, NAME, OPERANDS, ACCEPTS, RESULT, PARAMS, VALUE, SPELLED, COST, XLA, ROUNDS, TURNS, DERIVES,      \
                  FUZZED, TORCH, ONNX, DOC)                                                                            \
    [FB_OP_##ID] = {.name = #NAME,                                                                                     \
                    .cls = FB_CLASS_POINTWISE,                                                                         \
                    .accepts = FB_ACCEPTS_##ACCEPTS,                                                                   \
                    .result = FB_RESULT_##RESULT,                                                                      \
                    FB_OPERANDS_##OPERANDS,                                                                            \
                    FB_COSTS_##COST,                                                                                   \
                    FB_SPELLINGS_##SPELLED,                                                                            \
                    .params = {FB_PARAMS_##PARAMS},                                                                    \
                    .domain = FB_DOMAIN_OF_##FUZZED,                                                                   \
                    FB_NAMES_##TORCH,                                                                                  \
                    FB_NAMES_##ONNX,                                                                                   \
                    .doc = DOC},
#define REDUCTION(ID, NAME, ACCEPTS, RESULT, FLOPS, ...)                                                               \
    [FB_OP_##ID] = {.name = #NAME,                                                                                     \
                    .cls = FB_CLASS_REDUCTION,                                                                         \
                    .accepts = FB_ACCEPTS_##ACCEPTS,                                                                   \
                    .result = FB_RESULT_##RESULT,                                                                      \
                    .min_args = 1,                                                                                     \
                    .max_args = 1,                                                                                     \
                    .flops = FLOPS},
#define OTHER(ID, NAME, CLASS, MIN, MAX, ...)                                                                          \
    [FB_OP_##ID] = {.name = #NAME, .cls = FB_CLASS_##CLASS, .min_args = MIN, .max_args = MAX},
#include "graph/ops.def"
#undef POINTWISE
#undef REDUCTION
#undef OTHER
};

const fb_op_info *fb_op_get(fb_op op)
{
    return &ops[op];
}

bool fb_op_parse(const char *name, fb_op *out)
{
    for (int i = 0; i < FB_OPS; i++) {
        if (strcmp(ops[i].name, name) != 0) continue;
        *out = (fb_op)i;
        return true;
    }
    return false;
}
