/* Backwards through the nodes in order of their ids, users before operands: by the time a node is reached, all that
 * reads it has added its share to the node's gradient. One rule an op, in a table; a rule adds to the gradients of its
 * operands. ops.def names the rule of each op: a row without one does not compile. */
#include "graph/autodiff_parts.h"

#include "base/mem.h"
#include "graph/build.h"

#include <math.h>
#include <string.h>

typedef fb_tape tape;

/* ---- building; after a failure everything is FB_NONE and nothing more is added ---- */

fb_id fb_tape_put(tape *t, fb_op op, const fb_id *args, int n_args, const fb_attrs *attrs)
{
    fb_id few[8] = {0}, *now = n_args <= 8 ? few : fb_alloc((size_t)n_args * sizeof *now);
    for (int i = 0; i < n_args; i++) {
        now[i] = args[i] == FB_NONE ? FB_NONE : fb_tape_value(t, args[i]);
        if (now[i] == FB_NONE) t->failed = true;
    }
    fb_id id = t->failed ? FB_NONE : fb_graph_add(t->g, op, now, n_args, attrs, NULL, t->line, t->err);
    if (now != few) fb_free(now);
    t->failed = t->failed || id == FB_NONE;
    return id;
}

static fb_id put(tape *t, fb_op op, const fb_id *args, int n_args, const fb_attrs *attrs)
{
    return fb_tape_put(t, op, args, n_args, attrs);
}

static fb_id one(tape *t, fb_op op, fb_id a)
{
    return put(t, op, (fb_id[]){a}, 1, NULL);
}

static fb_id two(tape *t, fb_op op, fb_id a, fb_id b)
{
    return put(t, op, (fb_id[]){a, b}, 2, NULL);
}

static fb_id three(tape *t, fb_op op, fb_id a, fb_id b, fb_id c)
{
    return put(t, op, (fb_id[]){a, b, c}, 3, NULL);
}

static fb_id number(tape *t, fb_id like, double value)
{
    if (like == FB_NONE) return FB_NONE;
    return put(t, FB_OP_CONST, NULL, 0, &(fb_attrs){.value = value, .dtype = t->g->nodes[like].dtype});
}

static fb_id mul(tape *t, fb_id a, fb_id b)
{
    return two(t, FB_OP_MUL, a, b);
}

static fb_id scaled(tape *t, fb_id a, double factor)
{
    return mul(t, a, number(t, a, factor));
}

static fb_shape shape_of(const tape *t, fb_id id)
{
    return t->g->nodes[id].shape;
}

fb_id fb_tape_view(tape *t, fb_id a, fb_shape shape)
{
    if (a == FB_NONE || fb_shape_equal(&t->g->nodes[a].shape, &shape)) return a;
    return put(t, FB_OP_VIEW, (fb_id[]){a}, 1, &(fb_attrs){.shape = shape});
}

static fb_id view(tape *t, fb_id a, fb_shape shape)
{
    return fb_tape_view(t, a, shape);
}

static fb_id expand(tape *t, fb_id a, fb_shape shape)
{
    if (a == FB_NONE || fb_shape_equal(&t->g->nodes[a].shape, &shape)) return a;
    return put(t, FB_OP_EXPAND, (fb_id[]){a}, 1, &(fb_attrs){.shape = shape});
}

fb_id fb_tape_slice(tape *t, fb_id a, int dim, int64_t start, int64_t stop, int64_t step)
{
    fb_attrs at = {.dim = dim, .start = start, .stop = stop, .step = step};
    return put(t, FB_OP_SLICE, (fb_id[]){a}, 1, &at);
}

static fb_id slice(tape *t, fb_id a, int dim, int64_t start, int64_t stop)
{
    return fb_tape_slice(t, a, dim, start, stop, 1);
}

/* A permutation of what was permuted the other way is what there was before. */
static fb_id permuted(tape *t, fb_id a, const fb_attrs *at)
{
    if (a == FB_NONE) return FB_NONE;
    const fb_node *n = &t->g->nodes[a];
    bool undone = n->op == FB_OP_PERMUTE;
    for (int d = 0; d < at->n_axes && undone; d++) undone = n->attrs->axes[at->axes[d]] == d;
    return undone ? n->args[0] : put(t, FB_OP_PERMUTE, (fb_id[]){a}, 1, at);
}

/* The last two dims of `rank` change places. */
static fb_attrs transposition(int rank)
{
    fb_attrs at = {.n_axes = rank};
    for (int d = 0; d < rank; d++) at.axes[d] = d < rank - 2 ? d : 2 * rank - 3 - d;
    return at;
}

static fb_id transposed(tape *t, fb_id a)
{
    if (a == FB_NONE) return FB_NONE;
    fb_attrs at = transposition(t->g->nodes[a].shape.rank);
    return permuted(t, a, &at);
}

static bool is_transposed(const tape *t, fb_id a)
{
    const fb_node *n = &t->g->nodes[a];
    fb_attrs at = transposition(n->shape.rank);
    return n->op == FB_OP_PERMUTE && memcmp(n->attrs->axes, at.axes, sizeof at.axes) == 0;
}

fb_id fb_tape_padded(tape *t, fb_id a, int dim, int64_t before, int64_t after)
{
    fb_attrs at = {0};
    at.before[dim] = before;
    at.after[dim] = after;
    return before || after ? put(t, FB_OP_PAD, (fb_id[]){a}, 1, &at) : a;
}

/* The sum over the dims along which `shape` was broadcast to get `a`'s shape. */
static fb_id unbroadcast(tape *t, fb_id a, fb_shape shape)
{
    if (a == FB_NONE) return FB_NONE;
    fb_shape from = shape_of(t, a);
    fb_attrs at = {0};
    for (int d = 0; d < from.rank; d++) {
        int own = d - (from.rank - shape.rank);
        if (from.dim[d] == 1 || (own >= 0 && shape.dim[own] != 1)) continue;
        at.axes[at.n_axes++] = d;
        at.keepdim = at.keepdim || own >= 0;
    }
    if (at.n_axes) a = put(t, FB_OP_SUM, (fb_id[]){a}, 1, &at);
    return view(t, a, shape);
}

bool fb_tape_wants(const tape *t, fb_id id)
{
    return id >= 0 && id < t->n && t->wanted[id];
}

static bool wants(const tape *t, fb_id id)
{
    return fb_tape_wants(t, id);
}

void fb_tape_give(tape *t, fb_id id, fb_id share)
{
    if (!wants(t, id) || t->failed) return;
    if (fb_tape_adds_up(t, id)) {
        fb_tape_collect(t, id, share);
        return;
    }
    share = unbroadcast(t, share, shape_of(t, id));
    t->gradient[id] = t->gradient[id] == FB_NONE ? share : two(t, FB_OP_ADD, t->gradient[id], share);
}

static void give(tape *t, fb_id id, fb_id share)
{
    fb_tape_give(t, id, share);
}

/* ---- the rules: y = op(a, b, c), dy its gradient ---- */

typedef struct {
    fb_id y, dy;
    fb_op op;
    int n_args;
    const fb_id *args;
    fb_id a, b, c;
    const fb_attrs *at;
} step;

typedef void (*rule)(tape *t, const step *s);

static void d_zero(tape *t, const step *s)
{
    (void)t, (void)s;
}

static void d_neg(tape *t, const step *s)
{
    give(t, s->a, one(t, FB_OP_NEG, s->dy));
}
static void d_abs(tape *t, const step *s)
{
    give(t, s->a, mul(t, s->dy, one(t, FB_OP_SIGN, s->a)));
}
static void d_exp(tape *t, const step *s)
{
    give(t, s->a, mul(t, s->dy, s->y));
}
static void d_exp2(tape *t, const step *s)
{
    give(t, s->a, scaled(t, mul(t, s->dy, s->y), M_LN2));
}
static void d_log(tape *t, const step *s)
{
    give(t, s->a, two(t, FB_OP_DIV, s->dy, s->a));
}
static void d_log2(tape *t, const step *s)
{
    give(t, s->a, scaled(t, two(t, FB_OP_DIV, s->dy, s->a), 1 / M_LN2));
}
static void d_log1p(tape *t, const step *s)
{
    give(t, s->a, two(t, FB_OP_DIV, s->dy, two(t, FB_OP_ADD, s->a, number(t, s->a, 1))));
}
static void d_sqrt(tape *t, const step *s)
{
    give(t, s->a, scaled(t, two(t, FB_OP_DIV, s->dy, s->y), 0.5));
}
static void d_sin(tape *t, const step *s)
{
    give(t, s->a, mul(t, s->dy, one(t, FB_OP_COS, s->a)));
}
static void d_cos(tape *t, const step *s)
{
    give(t, s->a, one(t, FB_OP_NEG, mul(t, s->dy, one(t, FB_OP_SIN, s->a))));
}

static void d_rsqrt(tape *t, const step *s)
{
    give(t, s->a, scaled(t, mul(t, s->dy, mul(t, s->y, mul(t, s->y, s->y))), -0.5));
}

static void d_reciprocal(tape *t, const step *s)
{
    give(t, s->a, one(t, FB_OP_NEG, mul(t, s->dy, mul(t, s->y, s->y))));
}

static void d_tanh(tape *t, const step *s)
{
    give(t, s->a, mul(t, s->dy, two(t, FB_OP_SUB, number(t, s->y, 1), mul(t, s->y, s->y))));
}

static void d_sigmoid(tape *t, const step *s)
{
    give(t, s->a, mul(t, s->dy, mul(t, s->y, two(t, FB_OP_SUB, number(t, s->y, 1), s->y))));
}

static void d_erf(tape *t, const step *s)
{
    fb_id bell = one(t, FB_OP_EXP, one(t, FB_OP_NEG, mul(t, s->a, s->a)));
    give(t, s->a, scaled(t, mul(t, s->dy, bell), M_2_SQRTPI));
}

/* √π/2 · exp(y²) */
static void d_erfinv(tape *t, const step *s)
{
    give(t, s->a, scaled(t, mul(t, s->dy, one(t, FB_OP_EXP, mul(t, s->y, s->y))), 1 / M_2_SQRTPI));
}

static void d_lgamma(tape *t, const step *s)
{
    give(t, s->a, mul(t, s->dy, one(t, FB_OP_DIGAMMA, s->a)));
}

/* Its slope at x > 0: 1/x² + 1/(x + 1)² + … up to x + 6, where the series in 1/x has all digits of a float:
 * 1/x + 1/(2x²) + 1/(6x³) − 1/(30x⁵) + 1/(42x⁷). */
static fb_id trigamma(tape *t, fb_id x)
{
    enum { STEPS = 6 };
    fb_id sum = FB_NONE;
    for (int k = 0; k < STEPS; k++) {
        fb_id by = one(t, FB_OP_RECIP, k ? two(t, FB_OP_ADD, x, number(t, x, k)) : x), square = mul(t, by, by);
        sum = k ? two(t, FB_OP_ADD, sum, square) : square;
    }
    fb_id r = one(t, FB_OP_RECIP, two(t, FB_OP_ADD, x, number(t, x, STEPS))), rr = mul(t, r, r),
          tail = scaled(t, rr, 1.0 / 42);
    const double terms[] = {-1.0 / 30, 1.0 / 6, 1};
    for (int k = 0; k < 3; k++) {
        tail = two(t, FB_OP_ADD, tail, number(t, x, terms[k]));
        if (k < 2) tail = mul(t, tail, rr);
    }
    return two(t, FB_OP_ADD, sum, two(t, FB_OP_ADD, mul(t, tail, r), scaled(t, rr, 0.5)));
}

/* Left of 1/2, π²/sin²(πa) less the slope at 1 − a. */
static void d_digamma(tape *t, const step *s)
{
    fb_id left = two(t, FB_OP_LT, s->a, number(t, s->a, 0.5)), mirrored = two(t, FB_OP_SUB, number(t, s->a, 1), s->a);
    fb_id slope = trigamma(t, three(t, FB_OP_WHERE, left, mirrored, s->a));
    fb_id wave = scaled(t, one(t, FB_OP_RECIP, one(t, FB_OP_SIN, scaled(t, s->a, M_PI))), M_PI);
    slope = three(t, FB_OP_WHERE, left, two(t, FB_OP_SUB, mul(t, wave, wave), slope), slope);
    give(t, s->a, mul(t, s->dy, slope));
}

/* x/(x² + y²) of the height y, and −y/(x² + y²) of x */
static void d_atan2(tape *t, const step *s)
{
    fb_id by = two(t, FB_OP_DIV, s->dy, two(t, FB_OP_ADD, mul(t, s->a, s->a), mul(t, s->b, s->b)));
    if (wants(t, s->a)) give(t, s->a, mul(t, by, s->b));
    if (wants(t, s->b)) give(t, s->b, one(t, FB_OP_NEG, mul(t, by, s->a)));
}

/* Of the sign, nothing; of 0 nothing, as in PyTorch. */
static void d_copysign(tape *t, const step *s)
{
    fb_id turned = mul(t, one(t, FB_OP_SIGN, s->y), one(t, FB_OP_SIGN, s->a));
    if (wants(t, s->a)) give(t, s->a, mul(t, s->dy, turned));
}

/* Φ(a) + a φ(a), of the standard normal distribution */
static void d_gelu(tape *t, const step *s)
{
    fb_id below = scaled(t, two(t, FB_OP_ADD, one(t, FB_OP_ERF, scaled(t, s->a, M_SQRT1_2)), number(t, s->a, 1)), 0.5);
    fb_id density = scaled(t, one(t, FB_OP_EXP, scaled(t, mul(t, s->a, s->a), -0.5)), 0.5 * M_2_SQRTPI * M_SQRT1_2);
    give(t, s->a, mul(t, s->dy, two(t, FB_OP_ADD, below, mul(t, s->a, density))));
}

/* dy where the condition holds, else nothing */
static fb_id where(tape *t, fb_id condition, fb_id dy)
{
    return three(t, FB_OP_WHERE, condition, dy, number(t, dy, 0));
}

/* Asked of the result, which is above zero where the operand is: it is read by others too, and the operand need not be
 * stored. */
static void d_relu(tape *t, const step *s)
{
    give(t, s->a, where(t, two(t, FB_OP_GT, s->y, number(t, s->y, 0)), s->dy));
}

/* sigmoid(beta a), and 1 above the threshold */
static void d_softplus(tape *t, const step *s)
{
    fb_id z = s->at->value == 1 ? s->a : scaled(t, s->a, s->at->value);
    fb_id linear = two(t, FB_OP_GT, z, number(t, z, s->at->high));
    give(t, s->a, three(t, FB_OP_WHERE, linear, s->dy, mul(t, s->dy, one(t, FB_OP_SIGMOID, z))));
}

/* 1, and alpha e^a below zero; e^a is not asked for where it may overflow. */
static void d_elu(tape *t, const step *s)
{
    fb_id zero = number(t, s->a, 0), below = one(t, FB_OP_EXP, two(t, FB_OP_MINIMUM, s->a, zero));
    if (s->at->value != 1) below = scaled(t, below, s->at->value);
    give(t, s->a, three(t, FB_OP_WHERE, two(t, FB_OP_GT, s->a, zero), s->dy, mul(t, s->dy, below)));
}

/* t + a sigmoid(a) (1 - t^2), where t is the hyperbolic tangent of softplus */
static void d_mish(tape *t, const step *s)
{
    fb_id plus = put(t, FB_OP_SOFTPLUS, (fb_id[]){s->a}, 1, &(fb_attrs){.value = 1, .high = 20});
    fb_id tanh = one(t, FB_OP_TANH, plus), rest = two(t, FB_OP_SUB, number(t, s->a, 1), mul(t, tanh, tanh));
    fb_id bend = mul(t, mul(t, s->a, one(t, FB_OP_SIGMOID, s->a)), rest);
    give(t, s->a, mul(t, s->dy, two(t, FB_OP_ADD, tanh, bend)));
}

static void d_clamp(tape *t, const step *s)
{
    fb_id above = two(t, FB_OP_GE, s->a, number(t, s->a, s->at->value));
    fb_id below = two(t, FB_OP_LE, s->a, number(t, s->a, s->at->high));
    give(t, s->a, where(t, two(t, FB_OP_LOGICAL_AND, above, below), s->dy));
}

static void d_cast(tape *t, const step *s)
{
    give(t, s->a, put(t, FB_OP_CAST, (fb_id[]){s->dy}, 1, &(fb_attrs){.dtype = t->g->nodes[s->a].dtype}));
}

static void d_add(tape *t, const step *s)
{
    give(t, s->a, s->dy);
    give(t, s->b, s->dy);
}

static void d_sub(tape *t, const step *s)
{
    give(t, s->a, s->dy);
    if (wants(t, s->b)) give(t, s->b, one(t, FB_OP_NEG, s->dy));
}

static void d_mul(tape *t, const step *s)
{
    if (wants(t, s->a)) give(t, s->a, mul(t, s->dy, s->b));
    if (wants(t, s->b)) give(t, s->b, mul(t, s->dy, s->a));
}

/* e^z over its own sums is a softmax: y (dy - Σ dy y), of the result alone. Through quotient, sum and power it would
 * be the same, but e^z and its sums would be read again as well. */
static bool d_softmax(tape *t, const step *s)
{
    const fb_node *power = &t->g->nodes[s->a], *sum = &t->g->nodes[s->b];
    if (power->op != FB_OP_EXP || sum->op != FB_OP_SUM || sum->args[0] != s->a || !sum->attrs->keepdim) return false;
    fb_id under = power->args[0];
    fb_attrs at = *sum->attrs;
    fb_id sums = put(t, FB_OP_SUM, (fb_id[]){mul(t, s->dy, s->y)}, 1, &at);
    give(t, under, mul(t, s->y, two(t, FB_OP_SUB, s->dy, sums)));
    return true;
}

static void d_div(tape *t, const step *s)
{
    if (d_softmax(t, s)) return;
    fb_id by = two(t, FB_OP_DIV, s->dy, s->b);
    give(t, s->a, by);
    if (wants(t, s->b)) give(t, s->b, one(t, FB_OP_NEG, mul(t, by, s->y)));
}

/* b a^(b - 1) and a^b ln a, with 0 for the limits at b = 0 and at a = 0, where the formulas give 0 times infinity. */
static void d_pow(tape *t, const step *s)
{
    fb_id zero = number(t, s->y, 0);
    if (wants(t, s->a)) {
        fb_id less = two(t, FB_OP_POW, s->a, two(t, FB_OP_SUB, s->b, number(t, s->b, 1)));
        fb_id slope = mul(t, s->dy, mul(t, s->b, less));
        give(t, s->a, three(t, FB_OP_WHERE, two(t, FB_OP_EQ, s->b, zero), zero, slope));
    }
    if (wants(t, s->b)) {
        fb_id flat = two(t, FB_OP_LOGICAL_AND, two(t, FB_OP_EQ, s->a, zero), two(t, FB_OP_GE, s->b, zero));
        fb_id slope = mul(t, s->dy, mul(t, s->y, one(t, FB_OP_LOG, s->a)));
        give(t, s->b, three(t, FB_OP_WHERE, flat, zero, slope));
    }
}

/* The chosen operand takes the gradient; equals take half each. */
static void d_choice(tape *t, const step *s)
{
    fb_op wins = s->op == FB_OP_MAXIMUM ? FB_OP_GT : FB_OP_LT;
    fb_id half = where(t, two(t, FB_OP_EQ, s->a, s->b), scaled(t, s->dy, 0.5));
    if (wants(t, s->a)) give(t, s->a, three(t, FB_OP_WHERE, two(t, wins, s->a, s->b), s->dy, half));
    if (wants(t, s->b)) give(t, s->b, three(t, FB_OP_WHERE, two(t, wins, s->b, s->a), s->dy, half));
}

static void d_remainder(tape *t, const step *s)
{
    give(t, s->a, s->dy);
    if (wants(t, s->b))
        give(t, s->b, one(t, FB_OP_NEG, mul(t, s->dy, one(t, FB_OP_FLOOR, two(t, FB_OP_DIV, s->a, s->b)))));
}

static void d_where(tape *t, const step *s)
{
    if (wants(t, s->b)) give(t, s->b, where(t, s->a, s->dy));
    if (wants(t, s->c)) give(t, s->c, three(t, FB_OP_WHERE, s->a, number(t, s->dy, 0), s->dy));
}

/* A reduction's value (or gradient) with its axes back, of extent 1. */
static fb_id kept(tape *t, const step *s, fb_id value)
{
    fb_shape shape = shape_of(t, s->a);
    for (int i = 0; i < s->at->n_axes; i++) shape.dim[s->at->axes[i]] = 1;
    return view(t, value, shape);
}

static void d_sum(tape *t, const step *s)
{
    give(t, s->a, expand(t, kept(t, s, s->dy), shape_of(t, s->a)));
}

static void d_mean(tape *t, const step *s)
{
    fb_shape in = shape_of(t, s->a);
    double n = 1;
    for (int i = 0; i < s->at->n_axes; i++) n *= (double)in.dim[s->at->axes[i]];
    give(t, s->a, expand(t, kept(t, s, scaled(t, s->dy, n > 0 ? 1 / n : 0)), in));
}

/* The reduction `op` of `x` over the same axes, which stay. */
static fb_id reduced(tape *t, const step *s, fb_op op, fb_id x)
{
    fb_attrs at = *s->at;
    at.keepdim = true;
    return put(t, op, (fb_id[]){x}, 1, &at);
}

/* 1 where the condition holds, else 0 */
static fb_id ones_where(tape *t, fb_id condition, fb_dtype dtype)
{
    return put(t, FB_OP_CAST, (fb_id[]){condition}, 1, &(fb_attrs){.dtype = dtype});
}

static void d_extremum(tape *t, const step *s)
{
    fb_id chosen = ones_where(t, two(t, FB_OP_EQ, s->a, kept(t, s, s->y)), t->g->nodes[s->a].dtype);
    fb_id count = reduced(t, s, FB_OP_SUM, chosen);
    give(t, s->a, mul(t, chosen, two(t, FB_OP_DIV, kept(t, s, s->dy), count)));
}

/* The product of the others: that of all that are not 0, over the element if it is one of them, as long as none of the
 * others is 0. */
static void d_prod(tape *t, const step *s)
{
    fb_id zero = number(t, s->a, 0), is_zero = two(t, FB_OP_EQ, s->a, zero);
    fb_id zeros = ones_where(t, is_zero, t->g->nodes[s->a].dtype);
    fb_id factors = three(t, FB_OP_WHERE, is_zero, number(t, s->a, 1), s->a);
    fb_id other_zeros = two(t, FB_OP_SUB, reduced(t, s, FB_OP_SUM, zeros), zeros);
    fb_id others = two(t, FB_OP_DIV, mul(t, kept(t, s, s->dy), reduced(t, s, FB_OP_PROD, factors)), factors);
    give(t, s->a, where(t, two(t, FB_OP_EQ, other_zeros, zero), others));
}

/* The running sum, or product, of `x` along the same dim. */
static fb_id running(tape *t, const step *s, fb_op op, fb_id x)
{
    return put(t, op, (fb_id[]){x}, 1, &(fb_attrs){.dim = s->at->dim});
}

/* The sum of each element and all that follow it. */
static fb_id sums_of_rest(tape *t, const step *s, fb_id x)
{
    fb_attrs turn = {.n_axes = 1, .axes = {s->at->dim}};
    fb_id turned = put(t, FB_OP_FLIP, (fb_id[]){x}, 1, &turn);
    return put(t, FB_OP_FLIP, (fb_id[]){running(t, s, FB_OP_CUMSUM, turned)}, 1, &turn);
}

static void d_cumsum(tape *t, const step *s)
{
    give(t, s->a, sums_of_rest(t, s, s->dy));
}

/* Σ dy y of the element and what follows, over the element: before the first 0 of a line, where there is one. That 0
 * itself gets the same of the products without it, and what follows it nothing: the 0 is in all of its products. */
static void d_cumprod(tape *t, const step *s)
{
    fb_id zero = number(t, s->a, 0), one_ = number(t, s->a, 1), is_zero = two(t, FB_OP_EQ, s->a, zero);
    fb_id zeros = running(t, s, FB_OP_CUMSUM, ones_where(t, is_zero, t->g->nodes[s->a].dtype));
    fb_id first = two(t, FB_OP_LOGICAL_AND, is_zero, two(t, FB_OP_EQ, zeros, one_));
    fb_id without = running(t, s, FB_OP_CUMPROD, three(t, FB_OP_WHERE, first, one_, s->a));
    fb_id at_first = where(t, first, sums_of_rest(t, s, mul(t, s->dy, without)));
    fb_id factors = three(t, FB_OP_WHERE, is_zero, one_, s->a);
    fb_id before = two(t, FB_OP_DIV, sums_of_rest(t, s, mul(t, s->dy, s->y)), factors);
    give(t, s->a, three(t, FB_OP_WHERE, two(t, FB_OP_EQ, zeros, zero), before, at_first));
}

static void d_view(tape *t, const step *s)
{
    give(t, s->a, view(t, s->dy, shape_of(t, s->a)));
}

static void d_permute(tape *t, const step *s)
{
    fb_attrs back = {.n_axes = s->at->n_axes};
    for (int d = 0; d < s->at->n_axes; d++) back.axes[s->at->axes[d]] = d;
    give(t, s->a, permuted(t, s->dy, &back));
}

/* Each element of dim d with stride - 1 zeros after it, which come as a dim of their own. */
static fb_id set_apart(tape *t, fb_id x, int d, int64_t stride)
{
    fb_shape out = shape_of(t, x), apart = {.rank = 4, .dim = {1, out.dim[d], 1, 1}}, joined = out;
    for (int k = 0; k < d; k++) apart.dim[0] *= out.dim[k];
    for (int k = d + 1; k < out.rank; k++) apart.dim[3] *= out.dim[k];
    joined.dim[d] *= stride;
    return view(t, fb_tape_padded(t, view(t, x, apart), 2, 0, stride - 1), joined);
}

/* What the slice left out gets zeros. */
static void d_slice(tape *t, const step *s)
{
    int d = s->at->dim;
    fb_shape in = shape_of(t, s->a), out = shape_of(t, s->y);
    fb_id dy = s->dy;
    int64_t stride = s->at->step, covered = out.dim[d], room = in.dim[d] - s->at->start;
    if (stride == 1 && fb_tape_collect_piece(t, s->a, d, s->at->start, dy)) return;
    if (stride > 1) {
        dy = set_apart(t, dy, d, stride);
        covered *= stride;
        if (covered > room) dy = slice(t, dy, d, 0, covered = room);
    }
    give(t, s->a, fb_tape_padded(t, dy, d, s->at->start, room - covered));
}

static void d_pad(tape *t, const step *s)
{
    fb_shape in = shape_of(t, s->a), out = shape_of(t, s->y);
    fb_id dy = s->dy;
    for (int d = 0; d < in.rank; d++)
        if (in.dim[d] != out.dim[d]) dy = slice(t, dy, d, s->at->before[d], s->at->before[d] + in.dim[d]);
    give(t, s->a, dy);
}

static void d_flip(tape *t, const step *s)
{
    give(t, s->a, put(t, FB_OP_FLIP, (fb_id[]){s->dy}, 1, s->at));
}

/* Of windows that do not overlap: each lies in its own step, with zeros behind it. */
static void give_windows_apart(tape *t, const step *s)
{
    int d = s->at->dim;
    fb_shape in = shape_of(t, s->a), out = shape_of(t, s->y), row = in;
    fb_attrs places = {.n_axes = out.rank};
    for (int k = 0; k < out.rank; k++) places.axes[k] = k <= d ? k : k == d + 1 ? out.rank - 1 : k - 1;
    row.dim[d] = out.dim[d] * s->at->step;
    fb_id dy = fb_tape_padded(t, s->dy, out.rank - 1, 0, s->at->step - s->at->stop);
    dy = view(t, permuted(t, dy, &places), row);
    int64_t left = in.dim[d] - row.dim[d]; /* elements behind the last step; of the last one some may be missing */
    give(t, s->a, left < 0 ? slice(t, dy, d, 0, in.dim[d]) : fb_tape_padded(t, dy, d, 0, left));
}

/* An element gets the sum over all windows that hold it: place k of the window that begins k before it. With the places
 * as rows that are one element longer than the result, reading on as if they were as long shifts row k by k, and what
 * comes in from the row before is of the zeros at its end. */
static void d_unfold(tape *t, const step *s)
{
    int d = s->at->dim;
    fb_shape in = shape_of(t, s->a), out = shape_of(t, s->y);
    int64_t size = s->at->stop, windows = out.dim[d];
    fb_id dy = s->dy;
    if (s->at->step >= size) {
        give_windows_apart(t, s);
        return;
    }
    if (s->at->step > 1) {
        windows = (windows - 1) * s->at->step + 1;
        dy = slice(t, set_apart(t, dy, d, s->at->step), d, 0, windows);
    }
    int64_t length = windows + size - 1;
    fb_attrs places = {.n_axes = out.rank};
    for (int k = 0; k < out.rank; k++) places.axes[k] = k < d ? k : k == d ? out.rank - 1 : k - 1;
    fb_shape rows = {.rank = 3, .dim = {1, size * (length + 1), 1}}, shifted = {.rank = out.rank};
    for (int k = 0; k < in.rank; k++) {
        if (k != d) rows.dim[k < d ? 0 : 2] *= in.dim[k];
        shifted.dim[k < d ? k : k + 1] = k == d ? length : in.dim[k];
    }
    shifted.dim[d] = size;
    dy = view(t, fb_tape_padded(t, permuted(t, dy, &places), d + 1, 0, size), rows);
    dy = view(t, slice(t, dy, 1, 0, size * length), shifted);
    dy = put(t, FB_OP_SUM, (fb_id[]){dy}, 1, &(fb_attrs){.n_axes = 1, .axes = {d}});
    give(t, s->a, fb_tape_padded(t, dy, d, 0, in.dim[d] - length));
}

static void d_cat(tape *t, const step *s)
{
    int64_t start = 0;
    for (int i = 0; i < s->n_args; i++) {
        int64_t extent = shape_of(t, s->args[i]).dim[s->at->dim];
        if (wants(t, s->args[i])) give(t, s->args[i], slice(t, s->dy, s->at->dim, start, start + extent));
        start += extent;
    }
}

static void d_stack(tape *t, const step *s)
{
    for (int i = 0; i < s->n_args; i++)
        if (wants(t, s->args[i]))
            give(t, s->args[i], view(t, slice(t, s->dy, s->at->dim, i, i + 1), shape_of(t, s->args[i])));
}

static fb_id product(tape *t, fb_id a, fb_id b, const fb_attrs *at)
{
    return put(t, FB_OP_MATMUL, (fb_id[]){a, b}, 2, &(fb_attrs){.precision = at->precision});
}

/* All leading dims as one: [rows, columns]. */
static fb_id matrix(tape *t, fb_id a)
{
    fb_shape from = shape_of(t, a), to = {.rank = 2, .dim = {1, from.dim[from.rank - 1]}};
    for (int d = 0; d < from.rank - 1; d++) to.dim[0] *= from.dim[d];
    return view(t, a, to);
}

/* The gradient of a transposed operand (a weight, as a rule) is computed the way the operand itself lies. */
static fb_id product_like(tape *t, fb_id operand, fb_id a, fb_id b, const fb_attrs *at)
{
    if (!is_transposed(t, operand)) return product(t, a, b, at);
    return transposed(t, product(t, transposed(t, b), transposed(t, a), at));
}

fb_id fb_tape_product_gradient(tape *t, fb_id b, fb_id a, fb_id dy, const fb_attrs *at)
{
    fb_id rows = matrix(t, a), of = matrix(t, dy); /* in this order: nodes are numbered as they come */
    return product_like(t, b, transposed(t, rows), of, at);
}

/* A matrix b that a batch shares gets its gradient from one product over all the rows. */
static void d_matmul(tape *t, const step *s)
{
    bool shared = shape_of(t, s->b).rank == 2;
    if (wants(t, s->a)) give(t, s->a, product_like(t, s->a, s->dy, transposed(t, s->b), s->at));
    if (!wants(t, s->b)) return;
    if (!shared)
        give(t, s->b, product_like(t, s->b, transposed(t, s->a), s->dy, s->at));
    else if (!fb_tape_collect_product(t, s->b, s->a, s->dy, s->at))
        give(t, s->b, fb_tape_product_gradient(t, s->b, s->a, s->dy, s->at));
}

static void d_embedding(tape *t, const step *s)
{
    fb_attrs rows = {.start = shape_of(t, s->a).dim[0]};
    give(t, s->a, put(t, FB_OP_SCATTER_ADD, (fb_id[]){s->dy, s->b}, 2, &rows));
}

static void d_index_add(tape *t, const step *s)
{
    give(t, s->a, two(t, FB_OP_EMBEDDING, s->dy, s->b));
}

#define d_none                NULL /* never a float, or never asked: sources, effects, loops (autodiff_loop.c) */
#define FB_RULE_DERIVES(RULE) d_##RULE
static const rule rules[FB_OPS] = {
#define POINTWISE(ID, NAME, OPERANDS, ACCEPTS, RESULT, PARAMS, VALUE, SPELLED, COST, XLA, ROUNDS, TURNS, DERIVES, ...) \
    [FB_OP_##ID] = FB_RULE_##DERIVES,
#define REDUCTION(ID, NAME, ACCEPTS, RESULT, FLOPS, INIT, STEP, FINISH, DERIVES) [FB_OP_##ID] = FB_RULE_##DERIVES,
#define OTHER(ID, NAME, CLASS, MIN, MAX, DERIVES)                                [FB_OP_##ID] = FB_RULE_##DERIVES,
#include "graph/ops.def"
#undef POINTWISE
#undef REDUCTION
#undef OTHER
};

/* ---- the walk ---- */

/* Where a value that enters a loop's body comes from: its operand of the loop. */
static fb_id enters_from(const tape *t, const fb_node *node)
{
    if (node->op != FB_OP_CARRIED && node->op != FB_OP_ITEM) return FB_NONE;
    const fb_region *r = &t->g->regions[node->region];
    const fb_id *operands = r->loop == FB_NONE ? fb_build_loop_operands(t->g, node->region) : t->g->nodes[r->loop].args;
    return operands ? operands[(node->op == FB_OP_ITEM ? r->n_carried : 0) + node->attrs->index] : FB_NONE;
}

static bool depends(const tape *t, const fb_node *node)
{
    if (!fb_dtype_is_float(node->dtype)) return false;
    if (node->op == FB_OP_RESULT) {
        const fb_node *loop = &t->g->nodes[node->args[0]];
        const fb_region *r = &t->g->regions[loop->attrs->region];
        int i = node->attrs->index;
        if (i >= r->n_carried) return t->wanted[r->stacked[i - r->n_carried]];
        return t->wanted[loop->args[i]] || t->wanted[r->yields[i]];
    }
    fb_id from = enters_from(t, node);
    if (from != FB_NONE && t->wanted[from]) return true;
    const fb_region *r = &t->g->regions[node->region];
    if (node->op == FB_OP_CARRIED && r->loop != FB_NONE) return t->wanted[r->yields[node->attrs->index]];
    for (int k = 0; k < node->n_args; k++)
        if (t->wanted[node->args[k]]) return true;
    return false;
}

/* What a step hands on comes to be wanted after what it begins with: again until nothing changes. */
static void mark_wanted(tape *t, const fb_id *wrt, int n)
{
    for (int i = 0; i < n; i++) t->wanted[wrt[i]] = true;
    for (bool changed = true; changed;) {
        changed = false;
        for (fb_id id = 0; id < t->n; id++) {
            if (t->wanted[id] || t->detached[id] || !depends(t, &t->g->nodes[id])) continue;
            t->wanted[id] = true;
            changed |= t->g->nodes[id].region > 0;
        }
    }
}

bool fb_tape_differentiate(tape *t, fb_id id)
{
    const fb_node node = t->g->nodes[id]; /* adding nodes moves the array */
    if (node.op == FB_OP_LOOP) return fb_tape_loop(t, id);
    if (t->gradient[id] == FB_NONE || t->detached[id] || node.op == FB_OP_RESULT) return true;
    fb_id from = enters_from(t, &node);
    if (from != FB_NONE && t->wanted[from] && t->g->regions[node.region].loop == FB_NONE)
        return fb_fail(t->err, FB_ERR_INPUT, "grad: there is no derivative through a loop that is open (%s)",
                       node.name);
    if (node.n_args == 0) return true;
    if (!rules[node.op])
        return fb_fail(t->err, FB_ERR_INPUT, "grad: there is no derivative of %s (%s)", fb_op_get(node.op)->name,
                       node.name);
    step s = {
        .y = id, .dy = t->gradient[id], .op = node.op, .n_args = node.n_args, .args = node.args, .at = node.attrs};
    s.a = node.args[0];
    s.b = node.n_args > 1 ? node.args[1] : FB_NONE; /* wanted by nobody */
    s.c = node.n_args > 2 ? node.args[2] : FB_NONE;
    rules[node.op](t, &s);
    return !t->failed;
}

static bool check_value(const fb_graph *g, fb_id id, fb_error *err)
{
    const fb_node *x = &g->nodes[id];
    if (!fb_dtype_is_float(x->dtype))
        return fb_fail(err, FB_ERR_INPUT, "grad: %s is %s, not a float", x->name, fb_dtype_name(x->dtype));
    if (x->op == FB_OP_ASSIGN || x->op == FB_OP_RECEIVE)
        return fb_fail(err, FB_ERR_INPUT, "grad: %s is an effect without a value", x->name);
    if (x->region && g->regions[x->region].loop != FB_NONE)
        return fb_fail(err, FB_ERR_INPUT, "grad: %s is a value inside a loop and has no gradient outside it", x->name);
    return true;
}

static bool check_all(const fb_graph *g, fb_id loss, const fb_id *wrt, int n, fb_error *err)
{
    const fb_node *l = &g->nodes[loss];
    char shape[192];
    if (!check_value(g, loss, err)) return false;
    if (fb_shape_elements(&l->shape) != 1)
        return fb_fail(err, FB_ERR_INPUT, "grad: the loss must be one element (%s: %s)", l->name,
                       fb_shape_format(&l->shape, l->dtype, shape));
    for (int i = 0; i < n; i++)
        if (!check_value(g, wrt[i], err)) return false;
    return true;
}

fb_id fb_tape_filled_like(tape *t, fb_id id, double value)
{
    return expand(t, number(t, id, value), shape_of(t, id));
}

void fb_tape_grow(tape *t)
{
    int n = t->g->n_nodes;
    t->gradient = fb_realloc(t->gradient, (size_t)n * sizeof *t->gradient);
    t->wanted = fb_realloc(t->wanted, (size_t)n * sizeof *t->wanted);
    t->detached = fb_realloc(t->detached, (size_t)n * sizeof *t->detached);
    for (int i = t->n; i < n; i++) {
        t->gradient[i] = FB_NONE;
        t->wanted[i] = t->detached[i] = false;
    }
    t->n = n;
}

static bool check_through(const fb_through *through, fb_error *err)
{
    if (through->every < 0 || through->truncate < 0)
        return fb_fail(err, FB_ERR_INPUT, "grad: a number of steps is not negative");
    if (through->every > 1 && !through->recomputed)
        return fb_fail(err, FB_ERR_INPUT, "grad: every = %lld needs through = \"recomputed\": what is stored is stored",
                       (long long)through->every);
    if (through->every > FB_MAX_NODES)
        return fb_fail(err, FB_ERR_LIMIT, "grad: a segment has at most %d steps", FB_MAX_NODES);
    return true;
}

bool fb_autodiff_through(fb_graph *g, fb_id loss, const fb_id *wrt, int n, fb_id *gradients, const fb_through *through,
                         int line, fb_error *err)
{
    static const fb_through stored;
    if (!through) through = &stored;
    if (!check_all(g, loss, wrt, n, err) || !check_through(through, err)) return false;
    tape t = {.g = g, .line = line, .err = err, .through = *through};
    fb_build_mark start = fb_build_here(g);
    fb_tape_grow(&t);
    const fb_id *detached;
    for (int i = fb_build_detached(g, &detached); i-- > 0;) t.detached[detached[i]] = true;
    mark_wanted(&t, wrt, n);
    if (t.wanted[loss]) t.gradient[loss] = fb_tape_filled_like(&t, loss, 1);
    bool good = !t.failed;
    for (fb_id id = loss; id >= 0 && good; id--) good = fb_tape_differentiate(&t, id);
    for (int i = 0; i < n && good; i++) {
        gradients[i] = t.gradient[wrt[i]] != FB_NONE ? t.gradient[wrt[i]] : fb_tape_filled_like(&t, wrt[i], 0);
        good = !t.failed;
    }
    if (!good) fb_build_back(g, start);
    fb_free(t.gradient);
    fb_free(t.wanted);
    fb_free(t.detached);
    return good;
}

bool fb_autodiff(fb_graph *g, fb_id loss, const fb_id *wrt, int n, fb_id *gradients, int line, fb_error *err)
{
    return fb_autodiff_through(g, loss, wrt, n, gradients, NULL, line, err);
}

fb_id fb_autodiff_detach(fb_graph *g, fb_id x, int line, fb_error *err)
{
    fb_attrs same = {.shape = g->nodes[x].shape};
    fb_id id = fb_graph_add(g, FB_OP_VIEW, &x, 1, &same, "detach", line, err);
    if (id != FB_NONE) fb_build_detach(g, id);
    return id;
}
