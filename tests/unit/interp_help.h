/* Small graphs with given data, for the interpreter's tests. A `rig` builds one, runs it, and frees all. */
#ifndef TESTS_UNIT_INTERP_HELP_H
#define TESTS_UNIT_INTERP_HELP_H

#include "base/mem.h"
#include "interp/interp.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { RIG_FILES = 64 };

typedef struct {
    fb_graph *g;
    fb_interp *in;
    int n_files;
    const double *files[RIG_FILES];
    char keys[RIG_FILES][16];
    fb_error err;
} rig;

static inline rig rig_new(void)
{
    return (rig){.g = fb_graph_new("test")};
}

static inline void rig_free(rig *r)
{
    fb_interp_free(r->in);
    fb_graph_free(r->g);
}

static inline bool rig_file(void *ctx, const char *key, int64_t n, double *out)
{
    const rig *r = ctx;
    for (int i = 0; i < r->n_files; i++) {
        if (strcmp(r->keys[i], key) != 0) continue;
        if (n) memcpy(out, r->files[i], (size_t)n * sizeof *out);
        return true;
    }
    return false;
}

#define SHAPE(...) fb_shape_of((int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})
#define SCALAR     ((fb_shape){0})

/* Adds a node; the test fails with the builder's sentence when it is refused. */
static inline fb_id add(rig *r, fb_op op, const fb_attrs *at, int n, const fb_id *args)
{
    fb_id id = fb_graph_add(r->g, op, args, n, at, NULL, 0, &r->err);
    if (id == FB_NONE) fail_msg("%s", r->err.text);
    return id;
}

static inline fb_id add1(rig *r, fb_op op, fb_id a)
{
    return add(r, op, NULL, 1, &a);
}

static inline fb_id add2(rig *r, fb_op op, fb_id a, fb_id b)
{
    return add(r, op, NULL, 2, (fb_id[]){a, b});
}

static inline fb_id add_at(rig *r, fb_op op, fb_id a, fb_attrs at)
{
    return add(r, op, &at, 1, &a);
}

/* A source that holds `values`, which must live as long as the rig. */
static inline fb_id source(rig *r, fb_op op, fb_dtype dtype, fb_shape shape, const double *values)
{
    assert_true(r->n_files < RIG_FILES);
    snprintf(r->keys[r->n_files], sizeof r->keys[0], "k%d", r->n_files);
    fb_attrs at = {.dtype = dtype, .shape = shape, .dist = FB_DIST_FILE, .file = r->keys[r->n_files]};
    r->files[r->n_files++] = values;
    return add(r, op, &at, 0, NULL);
}

static inline fb_id data(rig *r, fb_dtype dtype, fb_shape shape, const double *values)
{
    return source(r, FB_OP_INPUT, dtype, shape, values);
}

static inline fb_id constant(rig *r, fb_dtype dtype, double value)
{
    return add(r, FB_OP_CONST, &(fb_attrs){.dtype = dtype, .value = value}, 0, NULL);
}

/* Finishes the graph with these outputs and evaluates it, keeping every node. */
static inline void run_keeping_all(rig *r, const fb_id *outputs, int n, bool bounds)
{
    for (int i = 0; i < n; i++) {
        if (!fb_graph_output(r->g, outputs[i], NULL, &r->err)) fail_msg("%s", r->err.text);
    }
    if (!fb_graph_finish(r->g, &r->err)) fail_msg("%s", r->err.text);
    fb_id *all = fb_calloc((size_t)r->g->n_nodes, sizeof *all);
    for (int i = 0; i < r->g->n_nodes; i++) all[i] = i;
    fb_interp_options o = {.bounds = bounds, .files = rig_file, .files_ctx = r};
    r->in = fb_interp_run(r->g, &o, all, r->g->n_nodes, &r->err);
    fb_free(all);
    if (!r->in) fail_msg("%s", r->err.text);
}

static inline void run(rig *r, fb_id output)
{
    run_keeping_all(r, &output, 1, true);
}

static inline const fb_tensor *get(const rig *r, fb_id id)
{
    const fb_tensor *t = fb_interp_get(r->in, id);
    if (!t) fail_msg("%s has no value", r->g->nodes[id].name);
    assert_int_equal(t->node, id);
    return t;
}

static inline double value_at(const fb_tensor *t, int64_t k)
{
    return t->v ? t->v[k] : (double)t->i[k];
}

static inline double bound_at(const fb_tensor *t, int64_t k)
{
    return t->bound ? t->bound[k] : 0;
}

/* Equal, NaN to NaN and the sign of zero included. */
static inline bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static inline void expect_values(const rig *r, fb_id id, int64_t n, const double *wanted)
{
    const fb_tensor *t = get(r, id);
    assert_int_equal(t->n, n);
    for (int64_t k = 0; k < n; k++) {
        if (same(value_at(t, k), wanted[k]) || fabs(value_at(t, k) - wanted[k]) <= 1e-14 * fabs(wanted[k])) continue;
        fail_msg("%s[%lld] is %.17g, not %.17g", r->g->nodes[id].name, (long long)k, value_at(t, k), wanted[k]);
    }
}

#define EXPECT(r, id, ...)                                                                                             \
    expect_values(r, id, (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

/* A small generator of its own: SplitMix64. */
typedef struct {
    uint64_t state;
} dice;

static inline uint64_t roll(dice *d)
{
    uint64_t x = d->state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline int roll_below(dice *d, int n)
{
    return (int)(roll(d) % (uint64_t)n);
}

static inline double roll_between(dice *d, double low, double high)
{
    return low + (high - low) * ((double)(roll(d) >> 11) * 0x1p-53);
}

#endif
