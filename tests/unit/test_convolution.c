/* Convolutions: what is read of a graph as one computes what the graph does, whatever else looks like one is none, and
 * libraries and plain loops make the same of its numbers. */
#include "base/dnnl.h"
#include "base/mem.h"
#include "base/rng.h"
#include "code/lower.h"
#include "decide/preset.h"
#include "device/host/parts.h"
#include "graph/access.h"
#include "graph/convolution.h"
#include "graph/storage.h"
#include "interp/interp.h"
#include "judge/library.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/graph_help.h"
#include "unit/naive_convolution.h"
#include "unit/run_program.h"

/* ---- graphs of convolutions, as scripts/lib/pictures.lua writes them ---- */

enum { SPACE = FB_CONVOLUTION_SPACE };
typedef enum { X_PLAIN, X_LAST, X_CUT, X_APART, X_MADE, X_MADE_LAST, X_FLIPPED, X_EXPANDED } x_way;
typedef enum { W_PLAIN, W_APART, W_CUT, W_PERMUTED, W_TURNED, W_FLIPPED } w_way;

typedef struct {
    int space;
    int64_t batch, groups, in, out; /* batch 0: x has no such dim; in, out: of a group */
    int64_t size[SPACE], kernel[SPACE], stride[SPACE], dilation[SPACE], before[SPACE], after[SPACE];
    int64_t skip[SPACE], every[SPACE]; /* of the windows: those after the first few, every so many of them */
    int depth[1 + SPACE];              /* the order of the sum: 0 channels, 1 + d an element of the kernel */
    int order[SPACE];                  /* of the result's dims of space */
    double fill;                       /* what x is padded with */
    int64_t pad_channels;
    x_way x;
    w_way w;
    fb_dtype dtype;
} picture;

static fb_id view(fb_graph *g, fb_id x, fb_shape shape)
{
    return add_op(g, FB_OP_VIEW, ARGS(x), &(fb_attrs){.shape = shape});
}

static fb_id cut(fb_graph *g, fb_id x, int dim, int64_t start, int64_t stop, int64_t step)
{
    return add_op(g, FB_OP_SLICE, ARGS(x), &(fb_attrs){.dim = dim, .start = start, .stop = stop, .step = step});
}

static fb_id permuted(fb_graph *g, fb_id x, int n, const int *axes)
{
    fb_attrs at = {.n_axes = n};
    for (int d = 0; d < n; d++) at.axes[d] = axes[d];
    return add_op(g, FB_OP_PERMUTE, ARGS(x), &at);
}

static fb_id normal(fb_graph *g, const char *name, fb_dtype dtype, fb_shape shape)
{
    fb_error err = {0};
    fb_attrs at = {.dtype = dtype, .shape = shape, .dist = FB_DIST_NORMAL, .high = 1};
    return must(fb_graph_add(g, FB_OP_INPUT, NULL, 0, &at, name, 0, &err), &err);
}

static fb_id tensor(fb_graph *g, const picture *p)
{
    fb_shape s = {.rank = (p->batch > 0) + 1 + p->space};
    int channels = p->batch > 0;
    if (channels) s.dim[0] = p->batch;
    s.dim[channels] = p->groups * p->in - p->pad_channels;
    for (int d = 0; d < p->space; d++) s.dim[channels + 1 + d] = p->size[d];
    fb_shape own = s;
    int last = s.rank - 1, axes[8];
    switch (p->x) {
    case X_LAST:
    case X_MADE_LAST: { /* channels behind space, seen in front of it */
        for (int d = channels; d < last; d++) own.dim[d] = s.dim[d + 1];
        own.dim[last] = s.dim[channels];
        fb_id x = normal(g, "x", p->dtype, own);
        if (p->x == X_MADE_LAST) x = add_op(g, FB_OP_NEG, ARGS(x), NULL);
        for (int d = 0; d <= last; d++) axes[d] = d < channels ? d : d == channels ? last : d - 1;
        return permuted(g, x, s.rank, axes);
    }
    case X_CUT:
        for (int d = 0; d <= last; d++) own.dim[d] += 3;
        fb_id x = normal(g, "x", p->dtype, own);
        for (int d = 0; d <= last; d++) x = cut(g, x, d, 1, 1 + s.dim[d], 1);
        return x;
    case X_APART:
        own.dim[last] = 2 * s.dim[last] + 1;
        return cut(g, normal(g, "x", p->dtype, own), last, 1, own.dim[last], 2);
    case X_MADE: return add_op(g, FB_OP_NEG, ARGS(normal(g, "x", p->dtype, s)), NULL);
    case X_FLIPPED:
        return add_op(g, FB_OP_FLIP, ARGS(normal(g, "x", p->dtype, s)), &(fb_attrs){.n_axes = 1, .axes = {last}});
    case X_EXPANDED:
        own.dim[channels] = 1;
        return add_op(g, FB_OP_EXPAND, ARGS(normal(g, "x", p->dtype, own)), &(fb_attrs){.shape = s});
    default: return normal(g, "x", p->dtype, s);
    }
}

/* [out, depth], or [groups, out, depth]. */
static fb_id weights(fb_graph *g, const picture *p)
{
    fb_shape s = {.rank = 2 + p->space, .dim = {p->groups * p->out, p->in}};
    int64_t all = p->groups * p->out, depth = p->in;
    for (int d = 0; d < p->space; d++) s.dim[2 + d] = p->kernel[d], depth *= p->kernel[d];
    fb_shape own = s, to = {.rank = 2, .dim = {all, depth}};
    if (p->groups > 1) to = (fb_shape){.rank = 3, .dim = {p->groups, p->out, depth}};
    fb_id w;
    int axes[8] = {0};
    switch (p->w) {
    case W_APART:
        own.dim[0] *= 2;
        w = cut(g, normal(g, "w", p->dtype, own), 0, 1, own.dim[0], 2);
        break;
    case W_CUT:
        for (int d = 0; d < s.rank; d++) own.dim[d] += 1;
        w = normal(g, "w", p->dtype, own);
        for (int d = 0; d < s.rank; d++) w = cut(g, w, d, d % 2, d % 2 + s.dim[d], 1);
        break;
    case W_PERMUTED: /* kernel elements in front of all others */
        for (int d = 0; d < p->space; d++) own.dim[d] = p->kernel[d], axes[2 + d] = d;
        own.dim[p->space] = p->in, own.dim[p->space + 1] = all;
        axes[0] = p->space + 1, axes[1] = p->space;
        w = permuted(g, normal(g, "w", p->dtype, own), s.rank, axes);
        break;
    case W_TURNED:
        w = permuted(g, normal(g, "w", p->dtype, SHAPE(depth, all)), 2, (int[]){1, 0});
        w = view(g, w, s);
        break;
    case W_FLIPPED: {
        fb_attrs flip = {.n_axes = p->space};
        for (int d = 0; d < p->space; d++) flip.axes[d] = 2 + d;
        w = add_op(g, FB_OP_FLIP, ARGS(normal(g, "w", p->dtype, s)), &flip);
        break;
    }
    default: w = normal(g, "w", p->dtype, s);
    }
    for (int d = 0; d <= p->space; d++) axes[1 + d] = 1 + p->depth[d];
    axes[0] = 0;
    return view(g, permuted(g, w, s.rank, axes), to);
}

static fb_id padded(fb_graph *g, fb_id x, const picture *p)
{
    fb_attrs pad = {.value = p->fill};
    int channels = p->batch > 0;
    bool any = p->pad_channels > 0;
    pad.before[channels] = p->pad_channels;
    for (int d = 0; d < p->space; d++) {
        pad.before[channels + 1 + d] = p->before[d], pad.after[channels + 1 + d] = p->after[d];
        any |= p->before[d] || p->after[d];
    }
    return any ? add_op(g, FB_OP_PAD, ARGS(x), &pad) : x;
}

static fb_id columns(fb_graph *g, fb_id x, const picture *p)
{
    int first = p->batch > 0, axes[8];
    for (int d = 0; d < p->space; d++) {
        int64_t span = p->dilation[d] * (p->kernel[d] - 1) + 1;
        x = add_op(g, FB_OP_UNFOLD, ARGS(x), &(fb_attrs){.dim = first + 1 + d, .stop = span, .step = p->stride[d]});
        if (p->dilation[d] > 1) x = cut(g, x, g->nodes[x].shape.rank - 1, 0, span, p->dilation[d]);
    }
    for (int d = 0; d < p->space; d++) {
        int64_t n = g->nodes[x].shape.dim[first + 1 + d];
        if (p->every[d] > 1 || p->skip[d]) x = cut(g, x, first + 1 + d, n > 1 ? p->skip[d] : 0, n, p->every[d]);
    }
    const fb_shape s = g->nodes[x].shape;
    int64_t depth = s.dim[first], places = 1;
    for (int d = 0; d < p->space; d++) depth *= p->kernel[d], places *= s.dim[first + 1 + d];
    axes[0] = 0;
    for (int d = 0; d <= p->space; d++) axes[first + d] = p->depth[d] ? first + p->space + p->depth[d] : first;
    for (int d = 0; d < p->space; d++) axes[first + 1 + p->space + d] = first + 1 + p->order[d];
    fb_shape to = {.rank = first};
    if (first) to.dim[0] = p->batch;
    if (p->groups > 1) to.dim[to.rank++] = p->groups;
    to.dim[to.rank++] = depth / p->groups;
    to.dim[to.rank++] = places;
    return view(g, permuted(g, x, s.rank, axes), to);
}

static fb_id convolved(fb_graph *g, const picture *p)
{
    return add_op(g, FB_OP_MATMUL, ARGS(weights(g, p), columns(g, padded(g, tensor(g, p), p), p)), NULL);
}

static fb_graph *picture_graph(const picture *p)
{
    fb_graph *g = fb_graph_new("convolution");
    output(g, convolved(g, p), "y");
    return finish_canonical(g);
}

static fb_id product_of(const fb_graph *g)
{
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (fb_node_class(g, i) == FB_CLASS_CONTRACTION) return i;
    fail_msg("no product");
    return FB_NONE;
}

static void say(const picture *p, char to[400])
{
    int n = snprintf(to, 400, "batch %d, %d groups of %d to %d, x %d, w %d, %s;", (int)p->batch, (int)p->groups,
                     (int)p->in, (int)p->out, p->x, p->w, fb_dtype_name(p->dtype));
    for (int d = 0; d < p->space; d++)
        n += snprintf(to + n, 400 - (size_t)n, " %d by %d, stride %d, dilation %d, %d before, %d after, order %d;",
                      (int)p->size[d], (int)p->kernel[d], (int)p->stride[d], (int)p->dilation[d], (int)p->before[d],
                      (int)p->after[d], p->order[d]);
}

/* ---- chosen at random ---- */

static picture plain_picture(int space)
{
    picture p = {.space = space, .batch = 1, .groups = 1, .in = 3, .out = 4, .dtype = FB_F32};
    for (int d = 0; d < space; d++) {
        p.size[d] = 7 + d, p.kernel[d] = 3, p.stride[d] = p.dilation[d] = p.every[d] = 1;
        p.before[d] = p.after[d] = 1;
        p.order[d] = d;
    }
    for (int d = 0; d <= space; d++) p.depth[d] = d;
    return p;
}

static int64_t below(uint64_t *r, int64_t n)
{
    *r = fb_splitmix64(*r);
    return (int64_t)((*r >> 11) % (uint64_t)n);
}

static void shuffle(uint64_t *r, int *at, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int k = (int)below(r, i + 1), held = at[i];
        at[i] = at[k], at[k] = held;
    }
}

static picture any_picture(uint64_t *r)
{
    static const fb_dtype dtypes[] = {FB_F32, FB_F32, FB_F32, FB_F32, FB_F16, FB_BF16, FB_F64};
    static const int64_t batches[] = {0, 1, 1, 2, 3, 5};
    picture p = plain_picture(1 + (int)below(r, SPACE));
    p.batch = batches[below(r, 6)];
    p.groups = below(r, 3) ? 1 : 1 + below(r, 4);
    p.in = 1 + below(r, 4), p.out = 1 + below(r, 5);
    p.dtype = dtypes[below(r, 7)];
    p.x = below(r, 2) ? X_PLAIN : (x_way)below(r, X_FLIPPED);
    p.w = below(r, 2) ? W_PLAIN : (w_way)below(r, W_FLIPPED + 1);
    for (int d = 0; d < p.space; d++) {
        p.kernel[d] = 1 + below(r, 4);
        p.dilation[d] = below(r, 3) ? 1 : 2 + below(r, 2);
        p.stride[d] = below(r, 2) ? 1 : 2 + below(r, 2);
        p.before[d] = below(r, 3), p.after[d] = below(r, 3);
        int64_t span = p.dilation[d] * (p.kernel[d] - 1) + 1, least = span - p.before[d] - p.after[d];
        p.size[d] = (least > 1 ? least : 1) + (below(r, 6) ? below(r, 7) : 0);
        if (!below(r, 6)) p.every[d] = 2, p.skip[d] = below(r, 2);
    }
    if (p.groups == 1 && !below(r, 4)) shuffle(r, p.depth, 1 + p.space);
    if (!below(r, 6)) shuffle(r, p.order, p.space);
    return p;
}

/* ---- its numbers against the graph's values ---- */

/* The node's values where its elements lie. */
static double *as_it_lies(const fb_graph *g, const fb_interp *in, fb_id node)
{
    const fb_tensor *t = fb_interp_get(in, node);
    const fb_shape *s = &g->nodes[node].shape;
    int64_t strides[FB_MAX_RANK];
    if (!t) fail_msg("%s has no value", g->nodes[node].name);
    double *to = fb_calloc((size_t)t->n + 1, sizeof *to);
    fb_storage_strides(g, node, strides);
    for (int64_t i = 0; i < t->n; i++) {
        int64_t rest = i, at = 0;
        for (int d = s->rank - 1; d >= 0; d--) at += rest % s->dim[d] * strides[d], rest /= s->dim[d];
        to[at] = t->v[i];
    }
    return to;
}

static double of_doubles(const void *from, int64_t i)
{
    return ((const double *)from)[i];
}

static void a_part(void (*part)(void *ctx, int index, int count), void *ctx)
{
    for (int i = 0; i < 3; i++) part(ctx, i, 3);
}

static float *narrowed(const double *from, int64_t n)
{
    float *to = fb_calloc((size_t)n + 1, sizeof *to);
    for (int64_t i = 0; i < n; i++) to[i] = (float)from[i];
    return to;
}

static void expect_near(const fb_convolution *c, const double *x, const double *w, const float *y, const char *what)
{
    for (int64_t i = 0; i < fb_convolution_y(c); i++) {
        double size, want = naive_convolution(c, of_doubles, x, w, i, &size);
        if (!(fabs((double)y[i] - want) <= 1e-5 * (1 + size)))
            fail_msg("%s: element %d is %g, not %g", what, (int)i, (double)y[i], want);
    }
}

/* Whoever convolves here, with room in front of the operands and behind them as far as they go. Returns whether the
 * library took it. */
static bool expect_libraries(const fb_convolution *c, const double *x, int64_t n_x, const double *w, int64_t n_w,
                             const char *what)
{
    float *wide_x = narrowed(x, n_x), *wide_w = narrowed(w, n_w),
          *y = fb_calloc((size_t)fb_convolution_y(c), sizeof *y);
    double *same_x = fb_calloc((size_t)n_x + 1, sizeof *same_x), *same_w = fb_calloc((size_t)n_w + 1, sizeof *same_w);
    for (int64_t i = 0; i < n_x; i++) same_x[i] = (double)wide_x[i];
    for (int64_t i = 0; i < n_w; i++) same_w[i] = (double)wide_w[i];
    fb_dnnl_convolution *own = fb_dnnl_convolution_new(c, 1);
    bool taken = own != NULL;
    for (int again = 0; own && again < 2; again++) {
        memset(y, 0xff, (size_t)fb_convolution_y(c) * sizeof *y);
        assert_true(fb_dnnl_convolution_run(own, wide_x, wide_w, y));
        expect_near(c, same_x, same_w, y, what);
    }
    fb_dnnl_convolution_free(own);
    const fb_host_runtime rt = {.threads = 1, .team = a_part};
    fb_host_convolution *host = fb_host_convolution_new(c, &rt);
    memset(y, 0xff, (size_t)fb_convolution_y(c) * sizeof *y);
    fb_host_convolution_run(host, wide_x, wide_w, y);
    expect_near(c, same_x, same_w, y, what);
    fb_host_convolution_free(host);
    fb_free(same_w), fb_free(same_x), fb_free(y), fb_free(wide_w), fb_free(wide_x);
    return taken;
}

/* How far an operand's elements go. */
static void expect_inside(const fb_graph *g, fb_id node, int64_t first, int n, const int64_t *extent,
                          const int64_t *step, const char *what)
{
    int64_t last = first;
    for (int i = 0; i < n; i++) last += (extent[i] - 1) * step[i];
    if (first < 0 || last >= fb_shape_elements(&g->nodes[node].shape))
        fail_msg("%s: reads %d to %d of %d elements", what, (int)first, (int)last,
                 (int)fb_shape_elements(&g->nodes[node].shape));
}

static void expect_operands_inside(const fb_graph *g, const fb_convolution *c, fb_id x, int64_t x_first, fb_id w,
                                   int64_t w_first, const char *what)
{
    int64_t extent[2 + SPACE] = {c->batch, c->groups * c->in}, step[2 + SPACE] = {c->x_batch, c->x_channel};
    for (int d = 0; d < c->space; d++) {
        const fb_convolution_dim *at = &c->dim[d];
        assert_true(at->size > 0 && at->before >= 0 && at->after >= 0 && at->places > 0 && at->kernel > 0);
        int64_t over =
            at->before + at->size + at->after - ((at->places - 1) * at->stride + (at->kernel - 1) * at->dilation + 1);
        assert_in_range(over, 0, at->stride - 1);
        extent[2 + d] = at->size, step[2 + d] = at->x_step;
    }
    expect_inside(g, x, x_first, 2 + c->space, extent, step, what);
    extent[0] = c->groups * c->out, step[0] = c->w_out, extent[1] = c->in, step[1] = c->w_in;
    for (int d = 0; d < c->space; d++) extent[2 + d] = c->dim[d].kernel, step[2 + d] = c->dim[d].w_step;
    expect_inside(g, w, w_first, 2 + c->space, extent, step, what);
}

typedef enum { NONE, FOUND, TAKEN } outcome;

/* Where the product reads as a convolution, its value is computed from those numbers alone. `libraries`: theirs, too. */
static outcome outcome_of(const fb_graph *g, const char *what, bool libraries)
{
    fb_convolution c = {0};
    fb_id x, w, product = product_of(g);
    int64_t x_first, w_first = 0, strides[FB_MAX_RANK];
    fb_error err = {0};
    bool is = fb_graph_convolution(g, product, &c, &x, &x_first), taken = false;
    assert_int_equal(is, c.space > 0);
    if (!is) return NONE;
    w = g->nodes[product].args[0];
    if (fb_storage_operand(g, product, 0, strides) != FB_OPERAND_LAID_OUT)
        assert_true(fb_access_strided(g, w, &w, &w_first, strides));
    expect_operands_inside(g, &c, x, x_first, w, w_first, what);
    fb_interp *in =
        fb_interp_run(g, &(fb_interp_options){.seed = 7, .bounds = true}, (fb_id[]){x, w, product}, 3, &err);
    if (!in) fail_msg("%s: %s", what, err.text);
    const fb_tensor *y = fb_interp_get(in, product);
    double *x_lies = as_it_lies(g, in, x), *w_lies;
    if (fb_node_class(g, w) == FB_CLASS_VIEW) {
        const fb_tensor *t = fb_interp_get(in, w);
        w_lies = fb_calloc((size_t)t->n + 1, sizeof *w_lies);
        memcpy(w_lies, t->v, (size_t)t->n * sizeof *w_lies);
    } else {
        w_lies = as_it_lies(g, in, w);
    }
    assert_int_equal(fb_convolution_y(&c), y->n);
    for (int64_t i = 0; i < y->n; i++) {
        double size, want = naive_convolution(&c, of_doubles, x_lies + x_first, w_lies + w_first, i, &size);
        double room = g->nodes[product].dtype == FB_BF16 ? 1e-2 : g->nodes[product].dtype == FB_F16 ? 2e-3 : 1e-5;
        if (!(fabs(y->v[i] - want) <= room * (1 + size)))
            fail_msg("%s: element %d is %g by its numbers, and %g", what, (int)i, want, y->v[i]);
    }
    if (libraries)
        taken = expect_libraries(&c, x_lies + x_first, fb_shape_elements(&g->nodes[x].shape) - x_first,
                                 w_lies + w_first, fb_shape_elements(&g->nodes[w].shape) - w_first, what);
    fb_free(w_lies), fb_free(x_lies);
    fb_interp_free(in);
    return taken ? TAKEN : FOUND;
}

static outcome outcome_for(const picture *p, bool libraries)
{
    char what[400];
    say(p, what);
    fb_graph *g = picture_graph(p);
    outcome is = outcome_of(g, what, libraries);
    fb_graph_free(g);
    return is;
}

/* Does any window reach into x, along each dimension? What reads zeros alone need be no convolution. */
static bool reads_some(const picture *p)
{
    for (int d = 0; d < p->space; d++) {
        int64_t span = p->dilation[d] * (p->kernel[d] - 1) + 1;
        int64_t all = (p->size[d] + p->before[d] + p->after[d] - span) / p->stride[d] + 1;
        bool any = false;
        for (int64_t q = all > 1 ? p->skip[d] : 0; q < all; q += p->every[d])
            for (int64_t k = 0; k < p->kernel[d]; k++) {
                int64_t at = q * p->stride[d] + k * p->dilation[d] - p->before[d];
                any |= at >= 0 && at < p->size[d];
            }
        if (!any) return false;
    }
    return true;
}

/* Weights of groups that would be laid out, with several pictures for each, are no operand of a library. */
static bool has_to_be_found(const picture *p)
{
    return reads_some(p) && (p->groups == 1 || p->batch < 2 || p->w == W_PLAIN || p->w == W_APART);
}

/* ---- what is read of graphs ---- */

static void convolutions_are_read_for_what_they_compute(void **state)
{
    (void)state;
    const int many = getenv("FB_FULL") ? 20000 : 600;
    uint64_t r = 11;
    int found = 0, taken = 0;
    char what[400];
    for (int i = 0; i < many; i++) {
        picture p = any_picture(&r);
        outcome is = outcome_for(&p, true);
        found += is != NONE;
        taken += is == TAKEN;
        say(&p, what);
        if (is == NONE && has_to_be_found(&p)) fail_msg("%s is none", what);
    }
    print_message("# %d of %d are convolutions, %d are taken by the library\n", found, many, taken);
    assert_true(found >= many * 9 / 10);
    if (fb_dnnl_convolves()) assert_true(taken >= found * 9 / 10);
}

static void what_is_none(void **state)
{
    (void)state;
    for (int space = 1; space <= SPACE; space++) {
        for (int batch = 0; batch < 3; batch++) {
            picture whole = plain_picture(space), p;
            whole.batch = batch;
            assert_int_not_equal(outcome_for(&whole, false), NONE);
            p = whole, p.fill = 1;
            assert_int_equal(outcome_for(&p, false), NONE);
            p = whole, p.pad_channels = 1;
            assert_int_equal(outcome_for(&p, false), NONE);
            p = whole, p.x = X_FLIPPED;
            assert_int_equal(outcome_for(&p, false), NONE);
            p = whole, p.x = X_EXPANDED;
            assert_int_equal(outcome_for(&p, false), NONE);
            p = whole, p.fill = -INFINITY, p.in = 1;
            assert_int_equal(outcome_for(&p, false), NONE);
        }
    }
}

/* As a product with what the windows have become: the first dims are summed up, the others are places. */
static fb_id product_with(fb_graph *g, fb_id x, int summed)
{
    const fb_shape s = g->nodes[x].shape;
    int64_t depth = 1, places = 1;
    for (int d = 0; d < s.rank; d++) *(d < summed ? &depth : &places) *= s.dim[d];
    return add_op(g, FB_OP_MATMUL, ARGS(normal(g, "w", FB_F32, SHAPE(3, depth)), view(g, x, SHAPE(depth, places))),
                  NULL);
}

static void windows_of_windows_are_none(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("windows of windows");
    fb_id x = normal(g, "x", FB_F32, SHAPE(2, 20));
    x = add_op(g, FB_OP_UNFOLD, ARGS(x), &(fb_attrs){.dim = 1, .stop = 3, .step = 1});
    x = add_op(g, FB_OP_UNFOLD, ARGS(x), &(fb_attrs){.dim = 1, .stop = 4, .step = 1});
    output(g, product_with(g, permuted(g, x, 4, (int[]){0, 2, 3, 1}), 3), "y");
    g = finish_canonical(g);
    assert_int_equal(outcome_of(g, "windows of windows", false), NONE);
    fb_graph_free(g);
}

/* One element of each window is x itself; with zeros around that, the last elements of x are not seen. */
static void zeros_may_hide_some_of_it(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("hidden");
    fb_id x = normal(g, "x", FB_F32, SHAPE(2, 10));
    x = add_op(g, FB_OP_UNFOLD, ARGS(x), &(fb_attrs){.dim = 1, .stop = 3, .step = 1});
    x = view(g, cut(g, x, 2, 0, 1, 1), SHAPE(2, 8));
    x = add_op(g, FB_OP_PAD, ARGS(x), &(fb_attrs){.before = {0, 1}, .after = {0, 1}});
    output(g, product_with(g, x, 1), "y");
    g = finish_canonical(g);
    outcome_of(g, "hidden", true);
    fb_graph_free(g);
}

/* Windows behind any few views, put in any order: whatever is read as a convolution is one. */
static fb_id viewed(fb_graph *g, uint64_t *r, fb_id x)
{
    const fb_shape s = g->nodes[x].shape;
    int d = (int)below(r, s.rank), axes[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    fb_attrs at = {0};
    switch (below(r, 6)) {
    case 0: return s.dim[d] > 2 ? cut(g, x, d, below(r, 2), s.dim[d] - below(r, 2), 1 + below(r, 2)) : x;
    case 1:
        at.before[d] = below(r, 3), at.after[d] = below(r, 3);
        if (!below(r, 6)) at.value = 2;
        return add_op(g, FB_OP_PAD, ARGS(x), &at);
    case 2: return add_op(g, FB_OP_FLIP, ARGS(x), &(fb_attrs){.n_axes = 1, .axes = {d}});
    case 3:
        if (s.rank > 5) return x;
        at = (fb_attrs){.dim = d, .stop = 1 + below(r, s.dim[d]), .step = 1 + below(r, 2)};
        return add_op(g, FB_OP_UNFOLD, ARGS(x), &at);
    case 4: {
        shuffle(r, axes, s.rank);
        return permuted(g, x, s.rank, axes);
    }
    default:
        at.shape = s;
        if (d == s.rank - 1) return x;
        at.shape.dim[d] *= s.dim[d + 1];
        for (int e = d + 1; e < s.rank - 1; e++) at.shape.dim[e] = s.dim[e + 1];
        at.shape.rank--;
        return at.shape.rank > 1 ? add_op(g, FB_OP_VIEW, ARGS(x), &at) : x;
    }
}

static void windows_behind_any_views(void **state)
{
    (void)state;
    uint64_t r = 23;
    int found = 0;
    char what[60];
    for (int64_t i = 0, many = getenv("FB_FULL") ? 100000 : 3000; i < many; i++) {
        fb_graph *g = fb_graph_new("views");
        fb_shape s = {.rank = 2 + (int)below(&r, 2)};
        for (int d = 0; d < s.rank; d++) s.dim[d] = 2 + below(&r, 7);
        fb_id x = normal(g, "x", FB_F32, s);
        for (int64_t n = below(&r, 3); n > 0; n--) x = viewed(g, &r, x);
        fb_attrs windows = {.dim = (int)below(&r, g->nodes[x].shape.rank), .step = 1 + below(&r, 2)};
        windows.stop = 1 + below(&r, g->nodes[x].shape.dim[windows.dim]);
        if (g->nodes[x].shape.rank < 7) x = add_op(g, FB_OP_UNFOLD, ARGS(x), &windows);
        for (int64_t n = below(&r, 4); n > 0; n--) x = viewed(g, &r, x);
        output(g, product_with(g, x, 1 + (int)below(&r, g->nodes[x].shape.rank)), "y");
        g = finish_canonical(g);
        snprintf(what, sizeof what, "views %d", (int)i);
        if (fb_shape_elements(&g->nodes[product_of(g)].shape)) found += outcome_of(g, what, false) != NONE;
        fb_graph_free(g);
    }
    print_message("# %d are convolutions\n", found);
    assert_true(found > 100);
}

/* ---- libraries ---- */

/* Channels and neighbours that lie in each other: no library of tensors takes that, and loops do. */
static void what_no_library_takes_is_done_in_loops(void **state)
{
    (void)state;
    for (int space = 1; space <= SPACE; space++) {
        enum { ROOM = 4096 };
        fb_convolution c = {.space = space, .batch = 3, .groups = 2, .in = 3, .out = 2};
        double *x = fb_calloc(ROOM, sizeof *x), *w = fb_calloc(ROOM, sizeof *w);
        uint64_t r = 5;
        for (int i = 0; i < ROOM; i++) x[i] = (double)below(&r, 200) / 100 - 1, w[i] = (double)below(&r, 200) / 100 - 1;
        c.x_channel = 2, c.x_batch = 50, c.w_in = 1, c.w_out = c.in;
        for (int d = 0; d < space; d++)
            c.dim[d] = (fb_convolution_dim){.size = 7 - d,
                                            .kernel = 3,
                                            .places = 4,
                                            .stride = 2,
                                            .dilation = 1 + d % 2,
                                            .before = 1,
                                            .x_step = 1 + d,
                                            .w_step = c.groups * c.out * c.in << (2 * d)};
        for (int d = 0; d < space; d++)
            c.dim[d].after = 3 * 2 + 2 * c.dim[d].dilation + 1 - c.dim[d].before - c.dim[d].size;
        assert_false(expect_libraries(&c, x, ROOM, w, ROOM, "in each other"));
        fb_free(w), fb_free(x);
    }
}

static void flops_and_elements(void **state)
{
    (void)state;
    fb_convolution c = {.space = 2, .batch = 2, .groups = 3, .in = 4, .out = 5};
    c.dim[0] = (fb_convolution_dim){.size = 7, .kernel = 2, .places = 6};
    c.dim[1] = (fb_convolution_dim){.size = 9, .kernel = 3, .places = 8};
    assert_int_equal(fb_convolution_x(&c), 2 * 3 * 4 * 7 * 9);
    assert_int_equal(fb_convolution_w(&c), 3 * 5 * 4 * 2 * 3);
    assert_int_equal(fb_convolution_y(&c), 2 * 3 * 5 * 6 * 8);
    assert_true(fb_convolution_flops(&c) == 2.0 * 2 * 3 * 5 * 6 * 8 * 4 * 2 * 3);
}

/* ---- programs ---- */

static fb_machine machine_with(bool curve)
{
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_HOST);
    m.convolution = curve ? m.gemm[FB_F32] : (fb_rate_curve){0};
    return m;
}

typedef struct {
    fb_planner *planner;
    fb_plan *plan;
} planned;

/* Each product as a library call. */
static planned library_plan(const fb_graph *g, const fb_machine *m)
{
    fb_error err = {0};
    planned p = {.planner = fb_planner_new(g, m)};
    p.plan = fb_preset_find("none")->make(p.planner, &err);
    if (!p.plan) fail_msg("%s", err.text);
    for (fb_id i = 0; i < g->n_nodes; i++) {
        fb_plan *next = NULL;
        if (fb_node_class(g, i) != FB_CLASS_CONTRACTION) continue;
        fb_verdict v = fb_plan_try(p.plan, &(fb_edit){.kind = FB_EDIT_LIBRARY, .a = i, .b = FB_NONE}, &next);
        if (!next) fail_msg("%s", v.text);
        fb_plan_free(p.plan);
        p.plan = next;
    }
    return p;
}

static void drop_plan(planned *p)
{
    fb_plan_free(p->plan);
    fb_planner_free(p->planner);
}

static fb_program *lowered(const planned *p, fb_program *(*lower)(const fb_plan *, const fb_target *, fb_error *))
{
    fb_error err = {0};
    fb_program *to = lower(p->plan, &fb_target_c, &err);
    if (!to) fail_msg("%s", err.text);
    return to;
}

static int convolutions_in(const fb_program *p)
{
    int n = 0;
    for (int i = 0; i < p->n_gemms; i++) n += p->gemms[i].convolution.space > 0;
    return n;
}

static void expect_program(const fb_program *p, const fb_graph *g)
{
    char text[512];
    unit u = {0};
    int number = unit_add(&u, p);
    unit_compile(&u, "-O1");
    if (!runs_right(&u, number, p, g, text)) fail_msg("%s", text);
    unit_free(&u);
}

static void machines_that_convolve_are_asked_to(void **state)
{
    (void)state;
    static const fb_dtype dtypes[] = {FB_F32, FB_F16, FB_BF16, FB_F64};
    for (int i = 0; i < 4; i++) {
        picture what = plain_picture(2);
        what.dtype = dtypes[i];
        what.batch = 2;
        fb_graph *g = picture_graph(&what);
        const fb_machine with = machine_with(true), without = machine_with(false);
        planned own = library_plan(g, &with), other = library_plan(g, &without);
        fb_program *a = lowered(&own, fb_lower), *b = lowered(&other, fb_lower), *c = lowered(&own, fb_lower_portable);
        int is = dtypes[i] != FB_F64;
        assert_int_equal(convolutions_in(a), is);
        assert_int_equal(convolutions_in(b), 0);
        assert_int_equal(convolutions_in(c), 0);
        assert_int_equal(a->n_launches, is ? 1 : 2); /* nothing is laid out */
        assert_int_equal(c->n_launches, 2);
        assert_true(fb_hash_equal(a->hash, b->hash) == !is);
        assert_true(fb_hash_equal(b->hash, c->hash));
        assert_true(fb_hash_equal(fb_program_gemm_code(&a->gemms[0]), fb_program_gemm_code(&b->gemms[0])) == !is);
        expect_program(a, g);
        expect_program(c, g);
        fb_program_free(c), fb_program_free(b), fb_program_free(a);
        drop_plan(&other), drop_plan(&own);
        fb_graph_free(g);
    }
}

/* Each number of a call is part of its name. */
static void other_numbers_are_other_calls(void **state)
{
    (void)state;
    picture what = plain_picture(2);
    fb_graph *g = picture_graph(&what);
    const fb_machine m = machine_with(true);
    planned own = library_plan(g, &m);
    fb_program *p = lowered(&own, fb_lower);
    fb_gemm_call *c = &p->gemms[0];
    fb_convolution *v = &c->convolution;
    fb_convolution_dim *d = &v->dim[1];
    int64_t *const numbers[] = {&v->batch,    &v->groups, &v->in,    &v->out,    &v->x_batch, &v->x_channel,
                                &v->w_out,    &v->w_in,   &d->size,  &d->kernel, &d->places,  &d->stride,
                                &d->dilation, &d->before, &d->after, &d->x_step, &d->w_step};
    const fb_hash was = fb_program_gemm_code(c);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        ++*numbers[i];
        assert_false(fb_hash_equal(fb_program_gemm_code(c), was));
        --*numbers[i];
    }
    assert_true(fb_hash_equal(fb_program_gemm_code(c), was));
    fb_program_free(p);
    drop_plan(&own);
    fb_graph_free(g);
}

/* Of several pictures in groups no library of matrices makes the product, and one that convolves does. Its result lies row
 * by row, however it is read; and somewhere else the product is generated. */
static void groups_of_several_pictures(void **state)
{
    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        picture what = plain_picture(2);
        what.batch = 3, what.groups = 2;
        fb_graph *g = fb_graph_new("groups");
        fb_id y = convolved(g, &what);
        if (turned) y = permuted(g, y, 4, (int[]){1, 0, 2, 3});
        output(g, add_op(g, FB_OP_TANH, ARGS(y), NULL), "y");
        g = finish_canonical(g);
        const fb_machine m = machine_with(true);
        planned own = library_plan(g, &m);
        fb_program *a = lowered(&own, fb_lower), *b = lowered(&own, fb_lower_portable);
        assert_int_equal(convolutions_in(a), 1);
        assert_int_equal(convolutions_in(b), 0);
        expect_program(a, g);
        expect_program(b, g);
        fb_program_free(b), fb_program_free(a);
        drop_plan(&own);
        fb_graph_free(g);
    }
}

static void machines_keep_their_curve(void **state)
{
    (void)state;
    for (int curve = 0; curve < 2; curve++) {
        fb_machine m = machine_with(curve), back;
        fb_error err = {0};
        for (int i = 0; i < m.convolution.n; i++) m.convolution.rate[i] += 0.5;
        json_t *o = fb_machine_to_json(&m);
        if (!fb_machine_from_json(&back, o, &err)) fail_msg("%s", err.text);
        assert_int_equal(back.convolution.n, m.convolution.n);
        for (int i = 0; i < m.convolution.n; i++)
            assert_true(back.convolution.size[i] == m.convolution.size[i] &&
                        back.convolution.rate[i] == m.convolution.rate[i]);
        json_object_set_new(o, "convolution", json_string("fast"));
        assert_false(fb_machine_from_json(&back, o, &err));
        json_decref(o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_are_read_for_what_they_compute),
        cmocka_unit_test(what_is_none),
        cmocka_unit_test(windows_of_windows_are_none),
        cmocka_unit_test(zeros_may_hide_some_of_it),
        cmocka_unit_test(windows_behind_any_views),
        cmocka_unit_test(what_no_library_takes_is_done_in_loops),
        cmocka_unit_test(flops_and_elements),
        cmocka_unit_test(machines_that_convolve_are_asked_to),
        cmocka_unit_test(other_numbers_are_other_calls),
        cmocka_unit_test(groups_of_several_pictures),
        cmocka_unit_test(machines_keep_their_curve),
    };
    return cmocka_run_group_tests_name("convolution", tests, NULL, NULL);
}
