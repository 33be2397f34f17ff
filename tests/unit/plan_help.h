/* Graphs for the tests of plans: short builders, the puzzler, and random graphs. */
#ifndef FB_TESTS_PLAN_HELP_H
#define FB_TESTS_PLAN_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "decide/preset.h"
#include "graph/canon.h"
#include "plan/plan.h"

static inline fb_id add_node(fb_graph *g, fb_op op, const char *name, const fb_attrs *at, int n, const fb_id *args)
{
    fb_error err = {0};
    fb_id id = fb_graph_add(g, op, args, n, at, name, 0, &err);
    if (id == FB_NONE) fail_msg("%s", err.text);
    return id;
}

static inline fb_id node1(fb_graph *g, fb_op op, const char *name, fb_id a)
{
    return add_node(g, op, name, NULL, 1, &a);
}

static inline fb_id node2(fb_graph *g, fb_op op, const char *name, fb_id a, fb_id b)
{
    return add_node(g, op, name, NULL, 2, (fb_id[]){a, b});
}

#define DIMS(...) fb_shape_of(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

static inline fb_id source(fb_graph *g, fb_op op, const char *name, fb_shape shape, fb_dtype dtype)
{
    fb_attrs at = {.shape = shape, .dtype = dtype, .dist = FB_DIST_UNIFORM, .value = 0, .high = 1};
    if (dtype == FB_I32 || dtype == FB_I64) at.dist = FB_DIST_INTEGER, at.high = 4;
    return add_node(g, op, name, &at, 0, NULL);
}

static inline fb_id input(fb_graph *g, const char *name, fb_shape shape)
{
    return source(g, FB_OP_INPUT, name, shape, FB_F32);
}

static inline fb_id over_axis(fb_graph *g, fb_op op, const char *name, fb_id a, int axis, bool keepdim)
{
    return add_node(g, op, name, &(fb_attrs){.n_axes = 1, .axes = {axis}, .keepdim = keepdim}, 1, &a);
}

static inline fb_id view(fb_graph *g, fb_id a, fb_shape shape)
{
    return add_node(g, FB_OP_VIEW, NULL, &(fb_attrs){.shape = shape}, 1, &a);
}

static inline fb_id slice(fb_graph *g, fb_id a, int dim, int64_t start, int64_t stop)
{
    return add_node(g, FB_OP_SLICE, NULL, &(fb_attrs){.dim = dim, .start = start, .stop = stop, .step = 1}, 1, &a);
}

static inline fb_id transpose(fb_graph *g, fb_id a)
{
    return add_node(g, FB_OP_PERMUTE, NULL, &(fb_attrs){.n_axes = 2, .axes = {1, 0}}, 1, &a);
}

static inline fb_id assign(fb_graph *g, fb_id param, fb_id value, const char *name)
{
    return node2(g, FB_OP_ASSIGN, name, param, value);
}

static inline void output(fb_graph *g, fb_id node)
{
    fb_error err = {0};
    if (!fb_graph_output(g, node, NULL, &err)) fail_msg("%s", err.text);
}

static inline void open_scope(fb_graph *g, const char *name, int index, const char *op, fb_id arg)
{
    fb_error err = {0};
    if (fb_graph_scope_open(g, name, index, op, op ? &arg : NULL, op != NULL, NULL, 0, &err) == FB_NONE)
        fail_msg("%s", err.text);
}

static inline void close_scope(fb_graph *g, fb_id result)
{
    fb_error err = {0};
    if (!fb_graph_scope_close(g, &result, result != FB_NONE, &err)) fail_msg("%s", err.text);
}

/* (x - mean) * rsqrt(mean((x - mean)²)) over the last axis, as an op scope. */
static inline fb_id layer_norm(fb_graph *g, fb_id x)
{
    int last = g->nodes[x].shape.rank - 1;
    open_scope(g, "layer_norm", FB_NONE, "layer_norm", x);
    fb_id mean = over_axis(g, FB_OP_MEAN, "mean", x, last, true);
    fb_id centred = node2(g, FB_OP_SUB, "centred", x, mean);
    fb_id var = over_axis(g, FB_OP_MEAN, "var", node2(g, FB_OP_MUL, "square", centred, centred), last, true);
    fb_id y = node2(g, FB_OP_MUL, "normal", centred, node1(g, FB_OP_RSQRT, "rsqrt", var));
    close_scope(g, y);
    return y;
}

/* x · w + b with w [K, N], as an op scope. */
static inline fb_id linear(fb_graph *g, fb_id x, int64_t n)
{
    const fb_shape *s = &g->nodes[x].shape;
    open_scope(g, "linear", FB_NONE, "linear", x);
    fb_id w = source(g, FB_OP_PARAM, "weight", DIMS(s->dim[s->rank - 1], n), FB_F32);
    fb_id b = source(g, FB_OP_PARAM, "bias", DIMS(n), FB_F32);
    fb_id y = node2(g, FB_OP_ADD, "add", node2(g, FB_OP_MATMUL, "matmul", x, w), b);
    close_scope(g, y);
    return y;
}

static inline fb_graph *finish(fb_graph *g)
{
    fb_error err = {0};
    if (!fb_graph_finish(g, &err)) fail_msg("%s", err.text);
    fb_graph *canonical = fb_graph_canonical(g, &err);
    if (!canonical) fail_msg("%s", err.text);
    fb_graph_free(g);
    return canonical;
}

static inline fb_graph *split_stack(int features, int64_t batch, int64_t dim)
{
    fb_graph *g = fb_graph_new("split_stack");
    fb_id x = input(g, "input_data", DIMS(features * batch * dim));
    fb_id *norm = fb_alloc((size_t)features * sizeof *norm);
    for (int i = 0; i < features; i++) {
        open_scope(g, "feature", i, NULL, FB_NONE);
        fb_id f = view(g, slice(g, x, 0, i * batch * dim, (i + 1) * batch * dim), DIMS(batch, dim));
        norm[i] = node1(g, FB_OP_TANH, "tanh", layer_norm(g, f));
        close_scope(g, FB_NONE);
    }
    fb_id stack = add_node(g, FB_OP_STACK, "stack", &(fb_attrs){.dim = 0}, features, norm);
    output(g, node1(g, FB_OP_RELU, "relu", linear(g, stack, 1)));
    fb_free(norm);
    return finish(g);
}

static inline fb_graph *combined(int features, int64_t batch, int64_t dim)
{
    fb_graph *g = fb_graph_new("combined");
    fb_id x = view(g, input(g, "input_data", DIMS(features * batch * dim)), DIMS(features, batch, dim));
    output(g, node1(g, FB_OP_RELU, "relu", linear(g, node1(g, FB_OP_TANH, "tanh", layer_norm(g, x)), 1)));
    return finish(g);
}

static inline fb_planner *planner_of(const fb_graph *g, fb_device_kind kind)
{
    fb_machine m;
    fb_machine_default(&m, kind);
    return fb_planner_new(g, &m);
}

static inline fb_plan *preset(fb_planner *p, const char *name)
{
    fb_error err = {0};
    const fb_preset *row = fb_preset_find(name);
    assert_non_null(row);
    fb_plan *plan = row->make(p, &err);
    assert_non_null(plan);
    return plan;
}

static inline fb_id named(const fb_graph *g, const char *name)
{
    fb_id id = fb_graph_find(g, name);
    if (id == FB_NONE) fail_msg("no node %s", name);
    return id;
}

/* Every computed node is stored once or recomputed, groups come after what they read, and each was accepted. */
static inline void check_plan(const fb_plan *plan)
{
    const fb_planner *p = fb_plan_planner(plan);
    const fb_graph *g = fb_planner_graph(p);
    const fb_deps *d = fb_planner_deps(p);
    for (fb_id i = 0; i < g->n_nodes; i++) {
        bool stored = fb_plan_group_of(plan, i) != FB_NONE;
        assert_int_equal(stored + fb_plan_recomputed(plan, i), fb_node_is_computed(g, i));
    }
    for (int i = 0; i < d->n_edges; i++) {
        int from = fb_plan_group_of(plan, d->edges[i].producer), to = fb_plan_group_of(plan, d->edges[i].consumer);
        if (from != FB_NONE && to != FB_NONE) assert_true(from <= to);
    }
    for (int i = 0; i < fb_plan_groups(plan); i++) {
        const fb_group *group = fb_plan_group(plan, i);
        assert_true(group->n_nodes > 0);
        if (!group->nest) fail_msg("%s: %s", g->nodes[group->nodes[0]].name, fb_plan_group_refusal(plan, i)->text);
    }
}

/* A graph of about `n` nodes over [rows, cols]: pointwise, row reductions, slices and stacks, all drawn from `seed`. */
static inline fb_graph *random_graph(uint64_t seed, int n)
{
    fb_graph *g = fb_graph_new("random");
    uint64_t key = fb_rng_key(seed, "graph");
    int64_t rows = 4 + (int64_t)(fb_rng_bits(key, 1) % 4), cols = 8;
    fb_id pool[64];
    int k = 0;
    pool[k++] = input(g, "x", DIMS(rows, cols));
    pool[k++] = input(g, "y", DIMS(rows, cols));
    pool[k++] = input(g, "w", DIMS(cols, cols));
    for (int i = 0; i < n && k < 60; i++) {
        uint64_t r = fb_rng_bits(key, 10 + (uint64_t)i);
        fb_id a = pool[(r >> 8) % (uint64_t)k], b = pool[(r >> 16) % (uint64_t)k];
        bool same = fb_shape_equal(&g->nodes[a].shape, &g->nodes[b].shape);
        switch (r % 8) {
        case 0: pool[k++] = node1(g, FB_OP_TANH, NULL, a); break;
        case 1: pool[k++] = node2(g, FB_OP_SUB, NULL, a, over_axis(g, FB_OP_MEAN, NULL, a, 1, true)); break;
        case 2: pool[k++] = node2(g, FB_OP_MATMUL, NULL, a, pool[2]); break;
        case 3: pool[k++] = node2(g, FB_OP_SUB, NULL, a, over_axis(g, FB_OP_AMAX, NULL, a, 0, true)); break;
        default:
            pool[k++] = same ? node2(g, r & 64 ? FB_OP_ADD : FB_OP_MUL, NULL, a, b) : node1(g, FB_OP_RELU, NULL, a);
            break;
        }
    }
    for (int i = 3; i < k; i++)
        if (i == k - 1 || fb_rng_bits(key, 1000 + (uint64_t)i) % 5 == 0) output(g, pool[i]);
    return finish(g);
}

#endif
