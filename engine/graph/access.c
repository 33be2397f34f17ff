/* Follows views from a node to its base and rewrites the index on the way, one function a view; and once more with
 * numbers alone, where a strided answer is wanted. Needs a finished graph; leaves it as it is. */
#include "graph/access.h"

#include "base/mutate.h"
#include "base/vec.h"
#include "graph/storage.h"

#include <string.h>

static const fb_shape *shape_of(const fb_graph *g, fb_id id)
{
    return &g->nodes[id].shape;
}

static bool is_view(const fb_graph *g, fb_id id)
{
    return fb_node_class(g, id) == FB_CLASS_VIEW;
}

fb_id fb_access_base(const fb_graph *g, fb_id node)
{
    while (is_view(g, node)) node = g->nodes[node].args[0];
    return node;
}

/* ---- symbolic: one function a view, from the view's coordinates to its operand's ---- */

/* Dims that two shapes share stay apart: going through a linear index only where dims merge or split keeps expressions
 * short, and right even for coordinates whose ranges are not known well. A group is the shortest run of dims of both
 * with one product. */
static void through_view(fb_index_pool *p, const fb_shape *out, const fb_shape *in, const fb_ix *coords, fb_ix *to)
{
    if (fb_shape_elements(out) == 0) {
        for (int d = 0; d < in->rank; d++) to[d] = fb_ix_const(p, 0);
        return;
    }
    for (int i = 0, j = 0; i < out->rank || j < in->rank;) {
        int i0 = i, j0 = j;
        int64_t a = i < out->rank ? out->dim[i++] : 1, b = j < in->rank ? in->dim[j++] : 1;
        while (a != b) {
            if (a < b)
                a *= out->dim[i++];
            else
                b *= in->dim[j++];
        }
        if (i - i0 == 1 && j - j0 == 1) {
            to[j0] = coords[i0];
            continue;
        }
        fb_ix linear = fb_ix_ravel(p, i - i0, out->dim + i0, coords + i0);
        fb_ix_unravel(p, linear, j - j0, in->dim + j0, to + j0);
    }
}

static fb_ix reversed(fb_index_pool *p, fb_ix at, int64_t size)
{
    return fb_ix_sub(p, fb_ix_const(p, FB_MUTATE(2, size - 1, size > 1 ? size - 2 : 0)), at);
}

/* Appends the guards that a pad needs; false, and nothing appended, when there is no room for them. */
static bool guard(fb_index_pool *p, const fb_node *pad, const fb_shape *in, const fb_ix *to, fb_access *a)
{
    int n = a->n_guards;
    for (int d = 0; d < in->rank; d++) {
        int64_t low, high;
        fb_ix_range(p, to[d], &low, &high);
        if (FB_MUTATE(3, low >= 0 && high < in->dim[d], high < in->dim[d])) continue;
        if (n == FB_MAX_GUARDS) return false;
        a->guards[n++] = (fb_guard){
            .at = to[d], .low = 0, .high = FB_MUTATE(4, in->dim[d], in->dim[d] + 1), .otherwise = pad->attrs->value};
    }
    a->n_guards = n;
    return true;
}

/* One step down: a->base is a view, a->coords are its coordinates. False when the walk has to end here. */
static bool step(const fb_graph *g, fb_index_pool *p, fb_access *a)
{
    const fb_node *n = fb_node_at(g, a->base);
    const fb_attrs *at = n->attrs;
    const fb_shape *in = shape_of(g, n->args[0]);
    int guards = a->n_guards;
    fb_ix to[FB_MAX_RANK];
    for (int d = 0; d < in->rank && d < n->shape.rank; d++) to[d] = a->coords[d];
    switch (n->op) {
    case FB_OP_VIEW: through_view(p, &n->shape, in, a->coords, to); break;
    case FB_OP_PERMUTE:
        for (int d = 0; d < in->rank; d++)
            to[at->axes[d]] = FB_MUTATE(6, a->coords[d], a->coords[at->axes[at->axes[d]]]);
        break;
    case FB_OP_SLICE:
        to[at->dim] = fb_ix_add(p, fb_ix_scale(p, to[at->dim], at->step),
                                fb_ix_const(p, FB_MUTATE(1, at->start, at->start + (at->start > 0))));
        break;
    case FB_OP_EXPAND:
        for (int d = 0; d < in->rank; d++)
            to[d] = in->dim[d] == 1 ? fb_ix_const(p, 0) : a->coords[FB_MUTATE(7, d + n->shape.rank - in->rank, d)];
        break;
    case FB_OP_PAD:
        for (int d = 0; d < in->rank; d++)
            to[d] = fb_ix_sub(p, to[d], fb_ix_const(p, FB_MUTATE(5, at->before[d], at->after[d])));
        if (!guard(p, n, in, to, a)) return false;
        break;
    case FB_OP_FLIP:
        for (int i = 0; i < at->n_axes; i++) to[at->axes[i]] = reversed(p, to[at->axes[i]], in->dim[at->axes[i]]);
        break;
    case FB_OP_UNFOLD: to[at->dim] = fb_ix_add(p, fb_ix_scale(p, to[at->dim], at->step), a->coords[in->rank]); break;
    default: fb_bug(__FILE__, __LINE__, "a view without an access map");
    }
    for (int d = 0; d < in->rank; d++)
        if (fb_ix_size(p, to[d]) > FB_MAX_INDEX_SIZE) {
            a->n_guards = guards;
            return false;
        }
    memcpy(a->coords, to, sizeof to);
    a->rank = in->rank;
    a->base = n->args[0];
    return true;
}

void fb_access_until(const fb_graph *g, fb_index_pool *p, fb_id node, const fb_ix *coords, fb_id until, fb_access *out)
{
    *out = (fb_access){.base = node, .rank = shape_of(g, node)->rank};
    for (int d = 0; d < out->rank; d++) out->coords[d] = coords[d];
    while (out->base != until && is_view(g, out->base) && step(g, p, out)) {}
}

void fb_access_at(const fb_graph *g, fb_index_pool *p, fb_id node, const fb_ix *coords, fb_access *out)
{
    fb_access_until(g, p, node, coords, FB_NONE, out);
}

fb_ix fb_access_offset(const fb_graph *g, fb_index_pool *p, const fb_access *a)
{
    return fb_storage_offset(g, p, a->base, a->coords);
}

void fb_access_broadcast(const fb_graph *g, fb_index_pool *p, fb_id node, int arg, const fb_ix *coords,
                         fb_ix *arg_coords)
{
    const fb_shape *x = shape_of(g, g->nodes[node].args[arg]);
    int shift = shape_of(g, node)->rank - x->rank;
    for (int d = 0; d < x->rank; d++)
        arg_coords[d] = FB_MUTATE(8, x->dim[d] == 1, x->dim[d] == 1 && d > 0) ? fb_ix_const(p, 0) : coords[d + shift];
}

void fb_access_piece(const fb_graph *g, fb_index_pool *p, fb_id node, int arg, const fb_ix *coords, fb_ix *arg_coords,
                     int *dim, int64_t *low, int64_t *high)
{
    const fb_node *n = fb_node_at(g, node);
    *dim = n->attrs->dim;
    if (n->op == FB_OP_STACK) {
        *low = arg;
        *high = arg + 1;
        for (int d = 0, k = 0; d < n->shape.rank; d++)
            if (d != *dim) arg_coords[k++] = coords[d];
        return;
    }
    FB_ASSERT(n->op == FB_OP_CAT);
    *low = 0;
    for (int i = 0; i < arg; i++)
        *low += FB_MUTATE(9, shape_of(g, n->args[i])->dim[*dim], shape_of(g, n->args[0])->dim[*dim]);
    *high = *low + shape_of(g, n->args[arg])->dim[*dim];
    for (int d = 0; d < n->shape.rank; d++)
        arg_coords[d] = d == *dim ? fb_ix_sub(p, coords[d], fb_ix_const(p, *low)) : coords[d];
}

/* ---- strided: numbers alone, from the base upwards ---- */

typedef struct {
    int64_t offset, strides[FB_MAX_RANK];
} window;

/* Strides of `out` over what `in` walks with `was`, as PyTorch's computeStride finds them: `in` falls into runs of dims
 * that lie densely behind each other, and each run must be covered by whole dims of `out`. */
static bool restride(const fb_shape *in, const int64_t *was, const fb_shape *out, int64_t *strides)
{
    if (fb_shape_elements(in) == 0) {
        fb_shape_strides(out, strides);
        return true;
    }
    int o = out->rank - 1;
    int64_t run = 1, covered = 1, base = in->rank ? was[in->rank - 1] : 1;
    for (int d = in->rank - 1; d >= 0; d--) {
        run *= in->dim[d];
        bool joins = d > 0 && (in->dim[d - 1] == 1 || was[d - 1] == run * base);
        if (joins) continue;
        while (o >= 0 && (covered < run || out->dim[o] == 1)) {
            strides[o] = covered * base;
            covered *= out->dim[o--];
        }
        if (FB_MUTATE(12, covered != run, false)) return false;
        run = covered = 1;
        if (d > 0) base = was[d - 1];
    }
    for (; o >= 0; o--) strides[o] = base; /* ones in front */
    return true;
}

static bool apply(const fb_graph *g, const fb_node *n, window *w)
{
    const fb_attrs *at = n->attrs;
    const fb_shape *in = shape_of(g, n->args[0]);
    window was = *w;
    switch (n->op) {
    case FB_OP_VIEW: return restride(in, was.strides, &n->shape, w->strides);
    case FB_OP_PERMUTE:
        for (int d = 0; d < in->rank; d++) w->strides[d] = was.strides[at->axes[d]];
        return true;
    case FB_OP_SLICE:
        w->offset += at->start * was.strides[at->dim];
        w->strides[at->dim] *= FB_MUTATE(11, at->step, 1);
        return true;
    case FB_OP_EXPAND:
        for (int d = 0, shift = n->shape.rank - in->rank; d < n->shape.rank; d++)
            w->strides[d] = d < shift || (in->dim[d - shift] == 1 && n->shape.dim[d] != 1) ? 0 : was.strides[d - shift];
        return true;
    case FB_OP_FLIP:
        for (int i = 0; i < at->n_axes; i++) {
            int d = at->axes[i];
            if (in->dim[d] > 0) w->offset += (in->dim[d] - 1) * was.strides[d];
            w->strides[d] = FB_MUTATE(10, -was.strides[d], was.strides[d]);
        }
        return true;
    case FB_OP_UNFOLD: /* windows may overlap */
        w->strides[in->rank] = was.strides[at->dim];
        w->strides[at->dim] *= at->step;
        return true;
    default: return fb_shape_equal(in, &n->shape); /* a pad by nothing is no pad */
    }
}

bool fb_access_strided(const fb_graph *g, fb_id node, fb_id *base, int64_t *offset, int64_t strides[FB_MAX_RANK])
{
    FB_VEC(fb_id) views = {0};
    while (is_view(g, node)) {
        FB_VEC_PUSH(&views, node);
        node = g->nodes[node].args[0];
    }
    window w = {0};
    fb_storage_strides(g, node, w.strides);
    bool ok = true;
    for (int i = views.n - 1; i >= 0 && ok; i--) ok = apply(g, fb_node_at(g, views.at[i]), &w);
    FB_VEC_FREE(&views);
    *base = node;
    *offset = w.offset;
    memcpy(strides, w.strides, sizeof w.strides);
    return ok;
}

bool fb_access_whole(const fb_graph *g, fb_id node, fb_id *base)
{
    int64_t offset, strides[FB_MAX_RANK];
    if (!fb_access_strided(g, node, base, &offset, strides) || offset != 0) return false;
    const fb_shape *s = shape_of(g, node);
    if (!fb_shape_is_row_major(s, strides)) return false;
    return FB_MUTATE(13, fb_shape_elements(s) == fb_shape_elements(shape_of(g, *base)), true);
}

double fb_node_power(const fb_graph *g, fb_id node)
{
    static const double powers[] = {2, 3, 4, -1, 0.5};
    const fb_node *n = &g->nodes[node];
    fb_id base;
    int64_t offset, strides[FB_MAX_RANK];
    if (n->op != FB_OP_POW || !fb_dtype_is_float(n->dtype)) return 0;
    if (!fb_access_strided(g, n->args[1], &base, &offset, strides) || g->nodes[base].op != FB_OP_CONST) return 0;
    for (size_t i = 0; i < sizeof powers / sizeof *powers; i++)
        if (g->nodes[base].attrs->value == powers[i]) return powers[i];
    return 0;
}

fb_op fb_node_computed_as(const fb_graph *g, fb_id node)
{
    double power = fb_node_power(g, node);
    return power == 0 ? (fb_op)g->nodes[node].op : power == -1 ? FB_OP_RECIP : power == 0.5 ? FB_OP_SQRT : FB_OP_MUL;
}
