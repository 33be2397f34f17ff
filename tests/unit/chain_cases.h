/* The graphs that the tests of chains share. */
#ifndef TESTS_UNIT_CHAIN_CASES_H
#define TESTS_UNIT_CHAIN_CASES_H

#include "unit/nest_help.h"

static const fb_attrs turn_last_two = {.n_axes = 3, .axes = {0, 2, 1}};

/* sigmoid(relu(x w1 + b1) w2 + b2), x [members, rows, in] or [rows, in]. */
static inline fb_graph *mlp(int64_t members, int64_t rows, int64_t in, int64_t hidden, int64_t out, fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("mlp");
    fb_shape x_shape = members ? SHAPE(members, rows, in) : SHAPE(rows, in);
    fb_id x = source(g, FB_OP_INPUT, "x", x_shape, dtype);
    fb_id w1 = source(g, FB_OP_PARAM, "w1", SHAPE(in, hidden), dtype),
          b1 = source(g, FB_OP_PARAM, "b1", SHAPE(hidden), dtype);
    fb_id w2 = source(g, FB_OP_PARAM, "w2", SHAPE(hidden, out), dtype),
          b2 = source(g, FB_OP_PARAM, "b2", SHAPE(out), dtype);
    fb_id a = NODE(g, FB_OP_ADD, "biased", NULL, NODE(g, FB_OP_MATMUL, "first", NULL, x, w1), b1);
    fb_id h = NODE(g, FB_OP_RELU, "h", NULL, a);
    fb_id y = NODE(g, FB_OP_ADD, "biased_too", NULL, NODE(g, FB_OP_MATMUL, "second", NULL, h, w2), b2);
    return with_output(g, NODE(g, FB_OP_SIGMOID, "y", NULL, y));
}

/* x w1ᵀ and so on, weights as they lie in PyTorch's linear layers; x comes turned, too. */
static inline fb_graph *mlp_turned(int64_t rows, int64_t in, int64_t hidden, int64_t out, fb_dtype dtype)
{
    static const fb_attrs turned = {.n_axes = 2, .axes = {1, 0}};
    fb_graph *g = fb_graph_new("mlp_turned");
    fb_id x = source(g, FB_OP_INPUT, "x", SHAPE(in, rows), dtype);
    fb_id w1 = source(g, FB_OP_PARAM, "w1", SHAPE(hidden, in), dtype),
          w2 = source(g, FB_OP_PARAM, "w2", SHAPE(out, hidden), dtype);
    fb_id h = NODE(g, FB_OP_RELU, "h", NULL,
                   NODE(g, FB_OP_MATMUL, "first", NULL, NODE(g, FB_OP_PERMUTE, NULL, &turned, x),
                        NODE(g, FB_OP_PERMUTE, NULL, &turned, w1)));
    fb_id y = NODE(g, FB_OP_MATMUL, "second", NULL, h, NODE(g, FB_OP_PERMUTE, NULL, &turned, w2));
    return with_output(g, NODE(g, FB_OP_TANH, "y", NULL, y));
}

/* ADDED, CHOSEN: numbers, or truths, in memory. PADDED: both for all rows alike, as of what a batch is filled up with.
 * WINDOW: the row's own column and 50 before it. LATE: a row sees what is 40 or more before it, the first ones nothing. */
typedef enum { NO_MASK, ADDED, CHOSEN, PADDED, CAUSAL, WINDOW, LATE } mask_kind;

/* softmax(q kᵀ / 4 + mask) v with q, k, v [heads, …]. */
static inline fb_graph *attention(int64_t heads, int64_t rows, int64_t keys, int64_t dim, mask_kind mask,
                                  fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("attention");
    fb_id q = source(g, FB_OP_INPUT, "q", SHAPE(heads, rows, dim), dtype),
          k = source(g, FB_OP_INPUT, "k", SHAPE(heads, keys, dim), dtype),
          v = source(g, FB_OP_INPUT, "v", SHAPE(heads, keys, dim), dtype);
    fb_id quarter = node(g, FB_OP_CONST, "quarter", &(fb_attrs){.value = 0.25, .dtype = dtype}, 0, NULL);
    fb_id turned = NODE(g, FB_OP_PERMUTE, NULL, &turn_last_two, k);
    fb_id s = NODE(g, FB_OP_MUL, "scaled", NULL, NODE(g, FB_OP_MATMUL, "scores", NULL, q, turned), quarter);
    if (mask == ADDED)
        s = NODE(g, FB_OP_ADD, "masked", NULL, s, source(g, FB_OP_INPUT, "mask", SHAPE(rows, keys), dtype));
    fb_id never = node(g, FB_OP_CONST, "never", &(fb_attrs){.value = -1e30, .dtype = dtype}, 0, NULL);
    if (mask == PADDED)
        s = NODE(g, FB_OP_ADD, "biased", NULL, s, source(g, FB_OP_INPUT, "bias", SHAPE(heads, 1, keys), dtype));
    if (mask == CHOSEN || mask == PADDED) {
        fb_shape shape = mask == CHOSEN ? SHAPE(heads, rows, keys) : SHAPE(1, 1, keys);
        s = NODE(g, FB_OP_WHERE, "masked", NULL, source(g, FB_OP_INPUT, "sees", shape, FB_BOOL), s, never);
    }
    if (mask >= CAUSAL) {
        fb_attrs down = {.shape = SHAPE(rows, keys), .dtype = FB_I32, .dim = 0}, right = down;
        right.dim = 1;
        fb_id row = node(g, FB_OP_IOTA, "row", &down, 0, NULL), column = node(g, FB_OP_IOTA, "column", &right, 0, NULL);
        fb_id far = node(g, FB_OP_CONST, "far", &(fb_attrs){.value = mask == LATE ? 40 : 50, .dtype = FB_I32}, 0, NULL);
        fb_id sees =
            NODE(g, FB_OP_GE, "sees", NULL, mask == LATE ? NODE(g, FB_OP_SUB, "late", NULL, row, far) : row, column);
        if (mask == WINDOW)
            sees = NODE(g, FB_OP_LOGICAL_AND, "window", NULL, sees,
                        NODE(g, FB_OP_LE, "near", NULL, NODE(g, FB_OP_SUB, "apart", NULL, row, column), far));
        s = NODE(g, FB_OP_WHERE, "masked", NULL, sees, s, never);
    }
    return with_output(g, NODE(g, FB_OP_MATMUL, "mixed", NULL, softmax(g, s), v));
}

/* The same unmasked, q, k and v lying the other way round: [heads, dim, …]. */
static inline fb_graph *attention_turned(int64_t heads, int64_t rows, int64_t keys, int64_t dim, fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("attention_turned");
    fb_id q = source(g, FB_OP_INPUT, "q", SHAPE(heads, dim, rows), dtype),
          k = source(g, FB_OP_INPUT, "k", SHAPE(heads, dim, keys), dtype),
          v = source(g, FB_OP_INPUT, "v", SHAPE(heads, dim, keys), dtype);
    fb_id quarter = node(g, FB_OP_CONST, "quarter", &(fb_attrs){.value = 0.25, .dtype = dtype}, 0, NULL);
    fb_id rows_of_q = NODE(g, FB_OP_PERMUTE, NULL, &turn_last_two, q);
    fb_id s = NODE(g, FB_OP_MUL, "scaled", NULL, NODE(g, FB_OP_MATMUL, "scores", NULL, rows_of_q, k), quarter);
    fb_id columns_of_v = NODE(g, FB_OP_PERMUTE, NULL, &turn_last_two, v);
    return with_output(g, NODE(g, FB_OP_MATMUL, "mixed", NULL, softmax(g, s), columns_of_v));
}

/* The plan with a knob of the kernel that holds `node`. */
static inline fb_plan *with_knob_of(fb_plan *plan, fb_id node, fb_knob knob, int64_t value)
{
    fb_plan *to = NULL;
    fb_edit e = {.kind = FB_EDIT_KNOB, .a = node, .b = FB_NONE, .knob = knob, .value = value};
    fb_verdict v = fb_plan_try(plan, &e, &to);
    if (!to) fail_msg("%s", v.text);
    fb_plan_free(plan);
    return to;
}

/* Of tile_k 64 asks for whole warpgroups. */
static inline fb_plan *with_tile_k(fb_plan *plan, const fb_graph *g, const char *node, int64_t value)
{
    return with_knob_of(plan, fb_graph_find(g, node), FB_KNOB_TILE_K, value);
}

#endif
