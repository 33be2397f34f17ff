/* The graphs of the benchmarks, grown from a few patterns until they have enough nodes. */
#include "bench/bench_graphs.h"

#include "base/mem.h"
#include "base/rng.h"
#include "bench/bench.h"

static fb_id add(fb_graph *g, fb_op op, const fb_attrs *at, int n, const fb_id *args)
{
    fb_error err = {0};
    fb_id id = fb_graph_add(g, op, args, n, at, NULL, 0, &err);
    bench_need(id != FB_NONE, &err);
    return id;
}

static fb_id one(fb_graph *g, fb_op op, fb_id a)
{
    return add(g, op, NULL, 1, &a);
}

static fb_id two(fb_graph *g, fb_op op, fb_id a, fb_id b)
{
    return add(g, op, NULL, 2, (fb_id[]){a, b});
}

static fb_id source(fb_graph *g, fb_op op, fb_shape shape)
{
    return add(g, op, &(fb_attrs){.shape = shape, .dtype = FB_F32, .dist = FB_DIST_UNIFORM, .high = 1}, 0, NULL);
}

#define SHAPE(...) fb_shape_of(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

static void open_scope(fb_graph *g, const char *name, int index, const char *op, const fb_id *arg)
{
    fb_error err = {0};
    bench_need(fb_graph_scope_open(g, name, index, op, arg, arg != NULL, NULL, 0, &err) != FB_NONE, &err);
}

static void close_scope(fb_graph *g, const fb_id *result)
{
    fb_error err = {0};
    bench_need(fb_graph_scope_close(g, result, result != NULL, &err), &err);
}

static fb_graph *finish(fb_graph *g, fb_id out)
{
    fb_error err = {0};
    bench_need(out == FB_NONE || fb_graph_output(g, out, NULL, &err), &err);
    bench_need(fb_graph_finish(g, &err), &err);
    return g;
}

static fb_id mean(fb_graph *g, fb_id x)
{
    int last = g->nodes[x].shape.rank - 1;
    return add(g, FB_OP_MEAN, &(fb_attrs){.n_axes = 1, .axes = {last}, .keepdim = true}, 1, &x);
}

/* (x - mean) * rsqrt(mean((x - mean)²)): six nodes. */
static fb_id layer_norm(fb_graph *g, fb_id x)
{
    open_scope(g, "layer_norm", FB_NONE, "layer_norm", &x);
    fb_id centred = two(g, FB_OP_SUB, x, mean(g, x));
    fb_id y = two(g, FB_OP_MUL, centred, one(g, FB_OP_RSQRT, mean(g, two(g, FB_OP_MUL, centred, centred))));
    close_scope(g, &y);
    return y;
}

/* One pointwise op after the other. */
static fb_graph *chain(int n)
{
    fb_graph *g = fb_graph_new("chain");
    fb_id x = source(g, FB_OP_INPUT, SHAPE(64, 64)), y = source(g, FB_OP_INPUT, SHAPE(64, 64));
    static const fb_op ops[] = {FB_OP_ADD, FB_OP_TANH, FB_OP_MUL, FB_OP_RELU};
    for (int i = 2; i < n; i++) x = i % 2 ? one(g, ops[i % 4], x) : two(g, ops[i % 4], x, y);
    return finish(g, x);
}

/* Rows of one input that have nothing to do with each other until a sum per sixteen of them. */
static fb_graph *wide(int n)
{
    enum { EACH = 5, TOGETHER = 16, COLUMNS = 256 };
    fb_graph *g = fb_graph_new("wide");
    fb_error err = {0};
    int rows = n / EACH;
    fb_id x = source(g, FB_OP_INPUT, SHAPE(rows, COLUMNS)), sum = FB_NONE;
    for (int i = 0; i < rows; i++) {
        fb_id row = add(g, FB_OP_SLICE, &(fb_attrs){.dim = 0, .start = i, .stop = i + 1, .step = 1}, 1, &x);
        fb_id y = one(g, FB_OP_RELU, two(g, FB_OP_MUL, one(g, FB_OP_TANH, row), row));
        sum = i % TOGETHER == 0 ? y : two(g, FB_OP_ADD, sum, y);
        if (i % TOGETHER == TOGETHER - 1 || i == rows - 1) bench_need(fb_graph_output(g, sum, NULL, &err), &err);
    }
    return finish(g, FB_NONE);
}

/* The puzzler's split_stack with as many features as it takes. */
static fb_graph *repeated(int n)
{
    enum { EACH = 9, ROWS = 64, COLUMNS = 64 };
    fb_graph *g = fb_graph_new("repeated");
    int features = n / EACH;
    fb_id x = source(g, FB_OP_INPUT, SHAPE(features * ROWS * COLUMNS));
    fb_id *norm = fb_calloc((size_t)features, sizeof *norm);
    for (int i = 0; i < features; i++) {
        int64_t from = (int64_t)i * ROWS * COLUMNS;
        open_scope(g, "feature", i, NULL, NULL);
        fb_id f = add(g, FB_OP_SLICE, &(fb_attrs){.start = from, .stop = from + ROWS * COLUMNS, .step = 1}, 1, &x);
        f = add(g, FB_OP_VIEW, &(fb_attrs){.shape = SHAPE(ROWS, COLUMNS)}, 1, &f);
        norm[i] = one(g, FB_OP_TANH, layer_norm(g, f));
        close_scope(g, NULL);
    }
    fb_id stack = add(g, FB_OP_STACK, &(fb_attrs){.dim = 0}, features, norm);
    fb_free(norm);
    fb_id w = source(g, FB_OP_PARAM, SHAPE(COLUMNS, 1)), b = source(g, FB_OP_PARAM, SHAPE(1));
    return finish(g, one(g, FB_OP_RELU, two(g, FB_OP_ADD, two(g, FB_OP_MATMUL, stack, w), b)));
}

/* Residual layers: matmul, bias, relu, add, layer_norm. */
static fb_graph *layers(int n)
{
    enum { EACH = 12, WIDTH = 64 };
    fb_graph *g = fb_graph_new("layers");
    fb_id x = source(g, FB_OP_INPUT, SHAPE(64, WIDTH));
    for (int i = 0; i < n / EACH; i++) {
        open_scope(g, "layer", i, NULL, NULL);
        fb_id w = source(g, FB_OP_PARAM, SHAPE(WIDTH, WIDTH)), b = source(g, FB_OP_PARAM, SHAPE(WIDTH));
        fb_id y = one(g, FB_OP_RELU, two(g, FB_OP_ADD, two(g, FB_OP_MATMUL, x, w), b));
        x = layer_norm(g, two(g, FB_OP_ADD, x, y));
        close_scope(g, NULL);
    }
    return finish(g, x);
}

/* Every node reads two of the last hundred. */
static fb_graph *tangle(int n)
{
    fb_graph *g = fb_graph_new("tangle");
    uint64_t key = fb_rng_key(1, "tangle");
    fb_id *nodes = fb_calloc((size_t)n, sizeof *nodes);
    fb_error err = {0};
    for (int i = 0; i < 2; i++) nodes[i] = source(g, FB_OP_INPUT, SHAPE(64, 64));
    for (int i = 2; i < n; i++) {
        uint64_t r = fb_rng_bits(key, (uint64_t)i), room = (uint64_t)(i < 100 ? i : 100);
        fb_id a = nodes[i - 1 - (int)((r >> 8) % room)], b = nodes[i - 1 - (int)((r >> 32) % room)];
        nodes[i] = two(g, r & 1 ? FB_OP_ADD : FB_OP_MUL, a, b);
        if (r % 32 == 0) nodes[i] = two(g, FB_OP_SUB, nodes[i], mean(g, nodes[i])), i++;
        if (i < n && !nodes[i]) nodes[i] = nodes[i - 1];
    }
    for (int i = n > 100 ? n - 100 : 0; i < n; i++) fb_graph_output(g, nodes[i], NULL, &err); /* twice is refused */
    fb_free(nodes);
    return finish(g, FB_NONE);
}

const bench_shape bench_shapes[] = {
    {"chain", chain}, {"wide", wide}, {"repeated", repeated}, {"layers", layers}, {"tangle", tangle}, {0},
};

fb_graph *bench_canonical(fb_graph *g)
{
    fb_error err = {0};
    fb_graph *canonical = fb_graph_canonical(g, &err);
    bench_need(canonical != NULL, &err);
    fb_graph_free(g);
    return canonical;
}
