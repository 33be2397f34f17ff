/* Ops and dtypes: the enums and facts that graph/ops.def holds, as tables. */
#ifndef FB_GRAPH_OP_H
#define FB_GRAPH_OP_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { FB_F32, FB_F16, FB_BF16, FB_F64, FB_I32, FB_I64, FB_BOOL, FB_DTYPES } fb_dtype;

const char *fb_dtype_name(fb_dtype dtype); /* "f32" … */
bool fb_dtype_parse(const char *name, fb_dtype *out);
int fb_dtype_size(fb_dtype dtype); /* bytes an element: 4 2 2 8 4 8 1 */
bool fb_dtype_is_float(fb_dtype dtype);
/* A float of 16 bits? */
static inline bool fb_dtype_is_half(fb_dtype dtype)
{
    return dtype == FB_F16 || dtype == FB_BF16;
}
/* Unit roundoff u of a float dtype (2^-24, 2^-11, 2^-8, 2^-53); 0 for the others. */
double fb_dtype_roundoff(fb_dtype dtype);
/* `value` rounded to nearest-even into dtype and back; integers truncate and wrap, bool is value != 0. */
double fb_dtype_round(fb_dtype dtype, double value);

typedef enum {
    FB_CLASS_SOURCE,
    FB_CLASS_POINTWISE,
    FB_CLASS_REDUCTION,
    FB_CLASS_SCAN,
    FB_CLASS_VIEW,
    FB_CLASS_JOIN,
    FB_CLASS_CONTRACTION,
    FB_CLASS_GATHER,
    FB_CLASS_EFFECT,
    FB_CLASS_CONTROL,
} fb_op_class;

typedef enum {
#define POINTWISE(ID, ...) FB_OP_##ID,
#define REDUCTION(ID, ...) FB_OP_##ID,
#define OTHER(ID, ...)     FB_OP_##ID,
#include "graph/ops.def"
#undef POINTWISE
#undef REDUCTION
#undef OTHER
    FB_OPS
} fb_op;

/* Which operand dtypes a pointwise op or reduction takes, and what dtype it gives (ops.def says what each means). */
typedef enum {
    FB_ACCEPTS_ANY,
    FB_ACCEPTS_FLOAT,
    FB_ACCEPTS_INT,
    FB_ACCEPTS_NUMBER,
    FB_ACCEPTS_LOGIC,
    FB_ACCEPTS_BITS,
} fb_op_accepts;
/* What operands a pointwise op is fond of: those that a random graph, or a test of its gradient, gives it. */
typedef enum {
    FB_DOMAIN_ANY,
    FB_DOMAIN_EXPONENT, /* small */
    FB_DOMAIN_ANGLE,    /* not so large that roundings are whole turns */
    FB_DOMAIN_POSITIVE,
    FB_DOMAIN_FRACTION,  /* less than 1 */
    FB_DOMAIN_DIVISOR,   /* the second, away from zero */
    FB_DOMAIN_POWER,     /* a positive base, a small exponent */
    FB_DOMAIN_FACTORS,   /* whose product is not out of hand */
    FB_DOMAIN_CHOICE,    /* a bool, then two of one dtype */
    FB_DOMAIN_CONVERTED, /* what another dtype may hold */
} fb_op_domain;

/* A number beside the operands, and its value where it is not given. */
typedef struct {
    const char *name; /* NULL: none */
    double otherwise;
} fb_op_param;

typedef enum { FB_RESULT_SAME, FB_RESULT_BOOL, FB_RESULT_CAST, FB_RESULT_I64 } fb_op_result;

typedef struct {
    const char *name;
    fb_op_class cls;
    fb_op_accepts accepts;  /* pointwise and reductions */
    fb_op_result result;    /* pointwise and reductions */
    int min_args, max_args; /* max_args -1: any number */
    bool any_order;         /* of two operands: either may be the first */
    int flops;              /* an output element for pointwise, an input element for reductions */
    bool special;           /* slow function: recomputing it costs */
    /* spellings, NULL or "" where there is none; see ops.def */
    const char *c, *cuda, *integer;
    /* pointwise ops only */
    fb_op_param params[2]; /* the attributes value and high */
    fb_op_domain domain;
    const char *schema, *torch, *onnx; /* PyTorch's and ONNX's names, "" where there is none; see ops.def */
    const char *doc;                   /* a line for people: x (and y) are the operands */
} fb_op_info;

const fb_op_info *fb_op_get(fb_op op);
bool fb_op_parse(const char *name, fb_op *out);

/* A node of these classes is computed by a kernel; sources, views and control are not. */
static inline bool fb_class_is_computed(fb_op_class c)
{
    return c == FB_CLASS_POINTWISE || c == FB_CLASS_REDUCTION || c == FB_CLASS_SCAN || c == FB_CLASS_JOIN ||
           c == FB_CLASS_CONTRACTION || c == FB_CLASS_GATHER || c == FB_CLASS_EFFECT;
}

/* What a scan reduces the elements up to each one by; FB_OPS: it is no running value of a reduction, as rank. */
static inline fb_op fb_op_running(fb_op op)
{
    return op == FB_OP_CUMSUM ? FB_OP_SUM : op == FB_OP_CUMPROD ? FB_OP_PROD : FB_OPS;
}

static inline bool fb_op_is_running(fb_op op)
{
    return fb_op_running(op) != FB_OPS;
}

#endif
