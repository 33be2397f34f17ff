/* Short ways to build graphs in tests: a refusal fails the test with its sentence. */
#ifndef FB_TESTS_GRAPH_HELP_H
#define FB_TESTS_GRAPH_HELP_H

#include "base/rng.h"
#include "graph/canon.h"
#include "graph/graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SHAPE(...)                                                                                                     \
    fb_shape_of((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
#define ARGS(...) ((const fb_id[]){__VA_ARGS__}), (int)(sizeof((fb_id[]){__VA_ARGS__}) / sizeof(fb_id))

static inline fb_id must(fb_id id, const fb_error *err)
{
    if (id == FB_NONE) fail_msg("%s", err->text);
    return id;
}

static inline fb_id add_op(fb_graph *g, fb_op op, const fb_id *args, int n, const fb_attrs *at)
{
    fb_error err = {0};
    return must(fb_graph_add(g, op, args, n, at, NULL, 0, &err), &err);
}

static inline fb_id add_input(fb_graph *g, const char *name, fb_dtype dtype, fb_shape shape)
{
    fb_error err = {0};
    fb_attrs at = {.dtype = dtype, .shape = shape, .dist = FB_DIST_UNIFORM, .high = 1};
    return must(fb_graph_add(g, FB_OP_INPUT, NULL, 0, &at, name, 0, &err), &err);
}

static inline fb_id add_param(fb_graph *g, const char *name, fb_shape shape)
{
    fb_error err = {0};
    fb_attrs at = {.dtype = FB_F32, .shape = shape, .dist = FB_DIST_NORMAL, .high = 1};
    return must(fb_graph_add(g, FB_OP_PARAM, NULL, 0, &at, name, 0, &err), &err);
}

static inline fb_id add_const(fb_graph *g, fb_dtype dtype, double value)
{
    return add_op(g, FB_OP_CONST, NULL, 0, &(fb_attrs){.dtype = dtype, .value = value});
}

static inline void finish(fb_graph *g)
{
    fb_error err = {0};
    if (!fb_graph_finish(g, &err)) fail_msg("%s", err.text);
}

/* Finishes `raw`, which is freed, and makes it one that plans are made for. */
static inline fb_graph *finish_canonical(fb_graph *raw)
{
    fb_error err = {0};
    finish(raw);
    fb_graph *g = fb_graph_canonical(raw, &err);
    if (!g) fail_msg("%s", err.text);
    fb_graph_free(raw);
    return g;
}

static inline void output(fb_graph *g, fb_id id, const char *name)
{
    fb_error err = {0};
    if (!fb_graph_output(g, id, name, &err)) fail_msg("%s", err.text);
}

static inline void open_scope(fb_graph *g, const char *name, int index, const char *op, const fb_id *args, int n)
{
    fb_error err = {0};
    must(fb_graph_scope_open(g, name, index, op, args, n, "{\"eps\": 0.5}", 7, &err), &err);
}

static inline void close_scope(fb_graph *g, const fb_id *results, int n)
{
    fb_error err = {0};
    if (!fb_graph_scope_close(g, results, n, &err)) fail_msg("%s", err.text);
}

/* Something of everything: scopes that repeat, an op scope, a loop with carried, scanned and stacked values, an update,
 * views, joins, all attributes, and a node that canonicalising removes. */
static inline fb_graph *varied_graph(void)
{
    fb_error err = {0};
    fb_graph *g = fb_graph_new("a \"varied\" graph");
    fb_id x = add_input(g, "x", FB_F32, SHAPE(4, 6)), w = add_param(g, "w", SHAPE(6, 6));
    fb_attrs file = {.dtype = FB_F32, .shape = SHAPE(4, 6), .dist = FB_DIST_FILE, .file = "rows.csv#0123"};
    fb_id rows = must(fb_graph_add(g, FB_OP_INPUT, NULL, 0, &file, "rows", 3, &err), &err);
    fb_id parts[3];
    for (int i = 0; i < 3; i++) {
        open_scope(g, "feature", i + 1, NULL, NULL, 0);
        fb_id half =
            add_op(g, FB_OP_SLICE, ARGS(x), &(fb_attrs){.dim = 1, .start = 2 * i, .stop = 2 * i + 2, .step = 1});
        open_scope(g, "norm", FB_NONE, "norm", ARGS(half));
        fb_id mean = add_op(g, FB_OP_MEAN, ARGS(half), &(fb_attrs){.n_axes = 1, .axes = {-1}, .keepdim = true});
        parts[i] = add_op(g, FB_OP_SUB, ARGS(half, mean), NULL);
        close_scope(g, ARGS(parts[i]));
        parts[i] = add_op(g, FB_OP_TANH, ARGS(parts[i]), NULL);
        close_scope(g, NULL, 0);
    }
    fb_id all = add_op(g, FB_OP_CAT, parts, 3, &(fb_attrs){.dim = -1});
    all = add_op(g, FB_OP_CLAMP, ARGS(all), &(fb_attrs){.value = -INFINITY, .high = 0.1});
    all = add_op(g, FB_OP_ADD, ARGS(all, rows), NULL);
    fb_id carried, item;
    must(fb_graph_region_open(g, 4, ARGS(w), ARGS(all), &carried, &item, 9, &err), &err);
    fb_id row = add_op(g, FB_OP_VIEW, ARGS(item), &(fb_attrs){.shape = SHAPE(1, -1)});
    fb_id step = add_op(g, FB_OP_CAST, ARGS(add_op(g, FB_OP_STEP, NULL, 0, NULL)), &(fb_attrs){.dtype = FB_F32});
    fb_id y = add_op(g, FB_OP_MATMUL, ARGS(row, carried), &(fb_attrs){.precision = FB_PRECISION_TF32});
    fb_id next = add_op(g, FB_OP_ADD, ARGS(carried, add_op(g, FB_OP_MUL, ARGS(y, step), NULL)), NULL);
    fb_id loop = must(fb_graph_region_close(g, &next, ARGS(y), &err), &err);
    fb_id last = add_op(g, FB_OP_RESULT, ARGS(loop), &(fb_attrs){.index = 0});
    fb_id seen = add_op(g, FB_OP_RESULT, ARGS(loop), &(fb_attrs){.index = 1});
    add_op(g, FB_OP_ASSIGN, ARGS(w, last), NULL);
    fb_id padded = add_op(g, FB_OP_PAD, ARGS(seen), &(fb_attrs){.before = {0, 1}, .after = {2}, .value = -INFINITY});
    fb_id flipped = add_op(g, FB_OP_FLIP, ARGS(padded), &(fb_attrs){.n_axes = 2, .axes = {2, 0}});
    fb_id turned = add_op(g, FB_OP_PERMUTE, ARGS(flipped), &(fb_attrs){.n_axes = 3, .axes = {2, 0, 1}});
    fb_attrs noise = {.dtype = FB_I64, .shape = SHAPE(5), .dist = FB_DIST_INTEGER, .high = 6, .seed = UINT64_MAX - 3};
    fb_id index = add_op(g, FB_OP_RANDOM, NULL, 0, &noise);
    fb_id looked = add_op(g, FB_OP_EMBEDDING, ARGS(turned, index), NULL);
    fb_id back = add_op(g, FB_OP_SCATTER_ADD, ARGS(looked, index), &(fb_attrs){.start = 9});
    add_op(g, FB_OP_EXP, ARGS(x), NULL); /* dead */
    output(g, add_op(g, FB_OP_CUMSUM, ARGS(back), &(fb_attrs){.dim = 1}), NULL);
    output(g, add_op(g, FB_OP_ARGMAX, ARGS(looked), &(fb_attrs){.n_axes = 1, .axes = {1}}), "best");
    return g;
}

#endif
