/* On a GPU: the instructions that nvcc 13.0 makes of the function for compute capability 9.0, where it takes no branch
 * for arguments that are rare, and each of the special function unit as four others (it takes an eighth of them and
 * works beside them), over those of expf. On the host: times of loops over a vector of 2048, compiled as kernels are,
 * over that of fb_expf (AVX-512, gcc 12; sin, cos and remainder AVX2); pow and all of f64 are calls of libm, an element
 * each. The figures are in ops.def. */
#include "target/special.h"

static const struct {
    float gpu, host, host_f64;
    bool branches; /* on a GPU */
} cost[FB_OPS] = {
#define STRAIGHT false
#define BRANCHES true
#define FB_SPEED_PLAIN                                                                                                 \
    {                                                                                                                  \
        0                                                                                                              \
    }
#define FB_SPEED_SLOW(GPU, HOST, HOST_F64, TURNS)                                                                      \
    {                                                                                                                  \
        GPU, HOST, HOST_F64, TURNS                                                                                     \
    }
#define FB_SPEED_COST(FLOPS, SPEED) FB_SPEED_##SPEED
#define POINTWISE(ID, NAME, OPERANDS, ACCEPTS, RESULT, PARAMS, VALUE, SPELLED, COST, ...)                              \
    [FB_OP_##ID] = FB_SPEED_##COST,
#include "graph/ops.def"
#undef POINTWISE
};

double fb_special_cost(fb_op op, fb_dtype dtype, const fb_target *target)
{
    if (!fb_op_get(op)->special) return 0;
    if (!target->grid) return dtype == FB_F64 ? cost[op].host_f64 : cost[op].host;
    /* rounded to 16 bits they are approximations, of half as many instructions */
    bool rough = (op == FB_OP_EXP || op == FB_OP_SIGMOID) && fb_dtype_size(dtype) == 2;
    return rough ? cost[op].gpu / 2 : cost[op].gpu;
}

bool fb_special_branches(fb_op op)
{
    return cost[op].branches;
}
