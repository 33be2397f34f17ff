/* The graphs that the tests of nests and of generated text share. */
#ifndef TESTS_UNIT_NEST_HELP_H
#define TESTS_UNIT_NEST_HELP_H

#include "decide/preset.h"
#include "graph/canon.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define SHAPE(...) fb_shape_of((int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})
#define NODE(G, OP, NAME, AT, ...)                                                                                     \
    node(G, OP, NAME, AT, (int)(sizeof((fb_id[]){__VA_ARGS__}) / sizeof(fb_id)), (fb_id[]){__VA_ARGS__})

static inline fb_id node(fb_graph *g, fb_op op, const char *name, const fb_attrs *at, int n, const fb_id *args)
{
    fb_error err;
    fb_id id = fb_graph_add(g, op, args, n, at, name, 0, &err);
    if (id == FB_NONE) fail_msg("%s", err.text);
    return id;
}

static inline fb_id source(fb_graph *g, fb_op op, const char *name, fb_shape shape, fb_dtype dtype)
{
    return node(g, op, name, &(fb_attrs){.shape = shape, .dtype = dtype, .dist = FB_DIST_NORMAL, .high = 1}, 0, NULL);
}

static inline fb_id layer_norm(fb_graph *g, fb_id x)
{
    fb_error err;
    fb_attrs last = {.n_axes = 1, .axes = {g->nodes[x].shape.rank - 1}, .keepdim = true};
    if (fb_graph_scope_open(g, "layer_norm", FB_NONE, "layer_norm", &x, 1, "{}", 0, &err) == FB_NONE)
        fail_msg("%s", err.text);
    fb_id mean = NODE(g, FB_OP_MEAN, "mean", &last, x), centred = NODE(g, FB_OP_SUB, "centred", NULL, x, mean);
    fb_id square = NODE(g, FB_OP_MUL, "square", NULL, centred, centred);
    fb_id scale = NODE(g, FB_OP_RSQRT, "scale", NULL, NODE(g, FB_OP_MEAN, "variance", &last, square));
    fb_id out = NODE(g, FB_OP_MUL, "normed", NULL, centred, scale);
    if (!fb_graph_scope_close(g, &out, 1, &err)) fail_msg("%s", err.text);
    return out;
}

static inline fb_id softmax(fb_graph *g, fb_id x)
{
    fb_attrs last = {.n_axes = 1, .axes = {g->nodes[x].shape.rank - 1}, .keepdim = true};
    fb_id e = NODE(g, FB_OP_EXP, NULL, NULL, NODE(g, FB_OP_SUB, NULL, NULL, x, NODE(g, FB_OP_AMAX, NULL, &last, x)));
    return NODE(g, FB_OP_DIV, NULL, NULL, e, NODE(g, FB_OP_SUM, NULL, &last, e));
}

/* The puzzle: `members` pieces of one input, each normalised, and a linear layer over all of them. `split` as the
 * puzzle has it, else the same in one go. members 0 … : at most 64. */
static inline fb_graph *puzzle(bool split, int members, int batch, int dim)
{
    fb_graph *g = fb_graph_new(split ? "split_stack" : "combined");
    fb_error err;
    int64_t each = (int64_t)batch * dim;
    fb_id x = source(g, FB_OP_INPUT, "input_data", SHAPE(members * each), FB_F32);
    fb_id weight = source(g, FB_OP_PARAM, "weight", SHAPE(1, dim), FB_F32),
          bias = source(g, FB_OP_PARAM, "bias", SHAPE(1), FB_F32);
    fb_id all, parts[64];
    for (int i = 0; i < members && split; i++) {
        fb_id piece =
            NODE(g, FB_OP_SLICE, NULL, &((fb_attrs){.start = i * each, .stop = (i + 1) * each, .step = 1}), x);
        if (fb_graph_scope_open(g, "feature", i, NULL, NULL, 0, NULL, 0, &err) == FB_NONE) fail_msg("%s", err.text);
        fb_id v = NODE(g, FB_OP_VIEW, NULL, &((fb_attrs){.shape = SHAPE(batch, dim)}), piece);
        parts[i] = NODE(g, FB_OP_TANH, "tanh", NULL, layer_norm(g, v));
        if (!fb_graph_scope_close(g, NULL, 0, &err)) fail_msg("%s", err.text);
    }
    if (split)
        all = node(g, FB_OP_STACK, "stack", &(fb_attrs){.dim = 0}, members, parts);
    else
        all = NODE(g, FB_OP_TANH, "tanh", NULL,
                   layer_norm(g, NODE(g, FB_OP_VIEW, NULL, &((fb_attrs){.shape = SHAPE(members, batch, dim)}), x)));
    fb_id turned = NODE(g, FB_OP_PERMUTE, NULL, &((fb_attrs){.n_axes = 2, .axes = {1, 0}}), weight);
    fb_id product = NODE(g, FB_OP_MATMUL, "matmul", NULL, all, turned);
    fb_graph_output(g, NODE(g, FB_OP_RELU, "relu", NULL, NODE(g, FB_OP_ADD, "add", NULL, product, bias)), "out", &err);
    return g;
}

/* Finishes and canonicalises; frees `g`. */
static inline fb_graph *finished(fb_graph *g)
{
    fb_error err;
    fb_graph *c = fb_graph_finish(g, &err) ? fb_graph_canonical(g, &err) : NULL;
    if (!c) fail_msg("%s", err.text);
    fb_graph_free(g);
    return c;
}

static inline fb_graph *with_output(fb_graph *g, fb_id out)
{
    fb_error err;
    if (!fb_graph_output(g, out, "out", &err)) fail_msg("%s", err.text);
    return finished(g);
}

#endif
