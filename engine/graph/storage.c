/* Decides for each value in which order its elements lie in memory, and says where one lies.
 *
 * requires  a graph whose users are known (fb_build_index)
 * provides  g->lies_as
 *
 * A value lies as its readers' permutation where all of them read it through that one and nothing is lost by it: what
 * lies side by side stays so, at least a sector of it, and the value is no library call's result, for such a call
 * writes rows at one stride (what is made of a product and of whole rows of it, as a layer norm is, is none). What lies
 * channels last is graph/channels.h's to say. What leaves the graph, or is met again in a loop, lies row by row.
 */
#include "graph/storage.h"

#include "base/mem.h"
#include "base/mutate.h"
#include "base/vec.h"
#include "graph/access.h"
#include "graph/channels.h"
#include "graph/convolution.h"

#include <string.h>

enum { SECTOR = 32 };

static bool is_view(const fb_graph *g, fb_id id)
{
    return fb_node_class(g, id) == FB_CLASS_VIEW;
}

/* ---- what a library takes ---- */

bool fb_storage_is_matrix(int64_t rows, int64_t cols, int64_t r, int64_t c)
{
    if (rows == 1) r = cols > 1 && c != 1 ? 1 : cols;
    if (cols == 1) c = rows > 1 && r != 1 ? 1 : rows;
    return (c == 1 && r >= cols) || (r == 1 && c >= rows);
}

bool fb_storage_is_one(int64_t batch, int64_t rows, int64_t cols, int64_t row, int64_t col, int64_t step)
{
    return step == rows * row && fb_storage_is_matrix(batch * rows, cols, row, col);
}

static bool blas_matrix(const fb_shape *s, const int64_t *stride)
{
    return fb_storage_is_matrix(s->dim[s->rank - 2], s->dim[s->rank - 1], stride[s->rank - 2], stride[s->rank - 1]);
}

/* Batch dims step evenly, so that one stride serves them all. Broadcast dims step by 0, dims that run backwards by
 * less. */
static bool even_batches(const fb_shape *result, const fb_shape *operand, const int64_t *stride)
{
    int64_t expect = 0;
    bool any = false;
    for (int d = result->rank - 3; d >= 0; d--) {
        int at = d - (result->rank - operand->rank);
        int64_t extent = result->dim[d], step = at < 0 || operand->dim[at] == 1 ? 0 : stride[at];
        if (extent == 1) continue;
        if (any && step != expect) return false;
        expect = step * extent;
        any = true;
    }
    return true;
}

/* Does a view exchange its last two dims, and nothing else? */
static bool transposes(const fb_node *n)
{
    const int rank = n->shape.rank;
    if (n->op != FB_OP_PERMUTE || rank < 2) return false;
    for (int d = 0; d < rank - 2; d++)
        if (n->attrs->axes[d] != d) return false;
    return n->attrs->axes[rank - 1] == rank - 2;
}

/* Of neighbours along the last dim of a view, from its middle, as many as are neighbours in memory. */
static int neighbours_in_memory(const fb_graph *g, fb_id view)
{
    enum { LOOKED_AT = 64 };
    const fb_shape *s = &g->nodes[view].shape;
    const int last = s->rank - 1;
    fb_index_pool *pool = fb_index_pool_new();
    fb_ix at[FB_MAX_RANK], along = fb_ix_var(pool, "along", s->dim[last]);
    fb_access access;
    for (int d = 0; d < last; d++) at[d] = fb_ix_const(pool, s->dim[d] / 2);
    at[last] = along;
    fb_access_at(g, pool, view, at, &access);
    const fb_ix offset = fb_storage_offset(g, pool, access.base, access.coords);
    int n = 0;
    for (int64_t i = 0, before = 0, here = 0; i < s->dim[last] && i < LOOKED_AT; i++, before = here) {
        if (!fb_ix_is_const(pool, fb_ix_substitute(pool, offset, along, fb_ix_const(pool, i)), &here)) break;
        n += i > 0 && here == before + 1;
    }
    fb_index_pool_free(pool);
    return n;
}

fb_id fb_storage_laid(const fb_graph *g, fb_id product, int arg)
{
    const fb_id operand = g->nodes[product].args[arg];
    if (!transposes(&g->nodes[operand])) return operand;
    const fb_id of = g->nodes[operand].args[0];
    return fb_node_class(g, of) == FB_CLASS_VIEW && neighbours_in_memory(g, of) > neighbours_in_memory(g, operand)
               ? of
               : operand;
}

fb_operand_way fb_storage_operand(const fb_graph *g, fb_id product, int arg, int64_t strides[FB_MAX_RANK])
{
    fb_id operand = g->nodes[product].args[arg], base;
    int64_t offset;
    const fb_shape *s = &g->nodes[operand].shape, *result = &g->nodes[product].shape;
    if (fb_access_strided(g, operand, &base, &offset, strides) && blas_matrix(s, strides))
        return even_batches(result, s, strides) ? FB_OPERAND_LIES : FB_OPERAND_UNEVEN;
    const bool turned = fb_storage_laid(g, product, arg) != operand;
    fb_shape_strides(turned ? &g->nodes[g->nodes[operand].args[0]].shape : s, strides);
    if (turned) {
        const int64_t row = strides[s->rank - 1];
        strides[s->rank - 1] = strides[s->rank - 2];
        strides[s->rank - 2] = row;
    }
    return even_batches(result, s, strides) ? FB_OPERAND_LAID_OUT : FB_OPERAND_UNEVEN;
}

int64_t fb_storage_batch_stride(const fb_shape *result, const fb_shape *operand, const int64_t *strides)
{
    for (int d = result->rank - 3; d >= 0; d--) {
        int at = d - (result->rank - operand->rank);
        if (result->dim[d] > 1) return at < 0 || FB_MUTATE(15, operand->dim[at] == 1, false) ? 0 : strides[at];
    }
    return 0;
}

bool fb_storage_is_tall(const fb_graph *g, fb_id product)
{
    int64_t strides[FB_MAX_RANK];
    const fb_node *n = &g->nodes[product];
    const fb_shape *a = &g->nodes[n->args[0]].shape, *b = &g->nodes[n->args[1]].shape;
    fb_storage_operand(g, product, 1, strides);
    if (fb_storage_batch_stride(&n->shape, b, strides) != 0) return false;
    fb_storage_operand(g, product, 0, strides);
    int64_t batch = 1;
    for (int d = 0; d < n->shape.rank - 2; d++) batch *= n->shape.dim[d];
    return fb_storage_is_one(batch, a->dim[a->rank - 2], a->dim[a->rank - 1], strides[a->rank - 2],
                             strides[a->rank - 1], fb_storage_batch_stride(&n->shape, a, strides));
}

/* ---- the order ---- */

/* Does a permutation leave the last dim where it is, a sector or more of it, and change the order of others? */
static bool keeps_neighbours(const fb_graph *g, fb_id permutation)
{
    const fb_node *n = &g->nodes[permutation];
    const fb_shape *in = &g->nodes[n->args[0]].shape;
    int last = in->rank - 1, before = -1;
    bool moves = false;
    if (last < 1 || n->attrs->axes[last] != last || in->dim[last] * fb_dtype_size(n->dtype) < SECTOR) return false;
    for (int d = 0; d <= last; d++) {
        int axis = n->attrs->axes[d];
        if (in->dim[axis] <= 1) continue;
        moves |= axis < before;
        before = axis;
    }
    return moves;
}

static int users_of(const fb_graph *g, fb_id node, const fb_id **users)
{
    *users = g->users + g->user_start[node];
    return g->user_start[node + 1] - g->user_start[node];
}

bool fb_storage_leaves(const fb_graph *g, fb_id node)
{
    const fb_id *users;
    int n = users_of(g, node, &users);
    if (fb_node_is_output(g, node)) return true;
    for (int i = 0; i < n; i++) {
        const fb_node *u = &g->nodes[users[i]];
        bool taken = u->region != g->nodes[node].region || (!is_view(g, users[i]) && !fb_node_is_computed(g, users[i]));
        if (taken || fb_node_class(g, users[i]) == FB_CLASS_EFFECT ||
            (is_view(g, users[i]) && fb_storage_leaves(g, users[i])))
            return true;
    }
    return false;
}

/* The permutation through which all read it. */
static fb_id read_through(const fb_graph *g, fb_id node)
{
    const fb_id *users;
    int n = users_of(g, node, &users);
    for (int i = 0; i < n; i++) {
        const fb_node *u = &g->nodes[users[i]];
        if (u->op != FB_OP_PERMUTE) return FB_NONE;
        if (memcmp(u->attrs->axes, g->nodes[users[0]].attrs->axes, sizeof u->attrs->axes) != 0) return FB_NONE;
    }
    return n ? users[0] : FB_NONE;
}

/* Does a node with this operand have another that is made of whole rows of the same, as x - mean(x) has? Then no library
 * does it on a product's way out. */
static bool has_rows_of(const fb_graph *g, fb_id node, fb_id operand)
{
    const fb_node *n = &g->nodes[node];
    for (int a = 0; a < n->n_args; a++) {
        fb_id other = fb_access_base(g, n->args[a]);
        if (fb_node_class(g, other) == FB_CLASS_REDUCTION &&
            fb_access_base(g, g->nodes[other].args[0]) == fb_access_base(g, operand))
            return true;
    }
    return false;
}

/* A product that a library may make, or what it may do to one on its way out. */
static bool is_of_library(const fb_graph *g, fb_id node, const bool *of_library)
{
    const fb_node *n = &g->nodes[node];
    if (fb_node_class(g, node) == FB_CLASS_CONTRACTION) {
        int64_t strides[FB_MAX_RANK];
        fb_convolution convolution;
        for (int arg = 0; arg < 2; arg++)
            if (fb_storage_operand(g, node, arg, strides) == FB_OPERAND_UNEVEN)
                return fb_graph_convolution(g, node, &convolution, NULL, NULL);
        return true;
    }
    bool any = false;
    for (int a = 0; a < n->n_args && fb_node_class(g, node) == FB_CLASS_POINTWISE; a++)
        any |= of_library[n->args[a]] && !has_rows_of(g, node, n->args[a]);
    return any;
}

/* Dim `last` behind all others. */
static const int *with_last(fb_graph *g, fb_id node, int last)
{
    int *order = FB_NEW_ARRAY(g->arena, int, FB_MAX_RANK), n = 0, rank = g->nodes[node].shape.rank;
    for (int d = 0; d < rank; d++)
        if (d != last) order[n++] = d;
    order[n] = last;
    return order;
}

void fb_storage_order(fb_graph *g)
{
    bool *of_library = fb_calloc((size_t)g->n_nodes + 1, sizeof *of_library);
    int *channels = fb_calloc((size_t)g->n_nodes + 1, sizeof *channels);
    g->lies_as = FB_NEW_ARRAY(g->arena, const int *, g->n_nodes + 1);
    for (fb_id i = 0; i < g->n_nodes; i++) g->lies_as[i] = NULL;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        fb_op_class cls = fb_node_class(g, i);
        bool made = cls == FB_CLASS_POINTWISE || cls == FB_CLASS_CONTRACTION || cls == FB_CLASS_JOIN;
        of_library[i] = made && is_of_library(g, i, of_library);
        if (!made || of_library[i] || g->nodes[i].region || g->nodes[i].shape.rank < 3) continue;
        fb_id as = read_through(g, i);
        if (as != FB_NONE && keeps_neighbours(g, as) && !fb_storage_leaves(g, i))
            g->lies_as[i] = g->nodes[as].attrs->axes;
    }
    fb_channels_last(g, channels);
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (channels[i] != FB_NONE) g->lies_as[i] = with_last(g, i, channels[i]);
    fb_free(channels);
    fb_free(of_library);
}

/* ---- where an element lies ---- */

/* As its dims lie in memory. */
static fb_shape lying(const fb_graph *g, fb_id node, const int *order)
{
    const fb_shape *own = &g->nodes[node].shape;
    fb_shape s = {.rank = own->rank};
    for (int d = 0; d < s.rank; d++) s.dim[d] = own->dim[order[d]];
    return s;
}

static const int *order_of(const fb_graph *g, fb_id node)
{
    return g->lies_as ? g->lies_as[node] : NULL;
}

int fb_storage_innermost(const fb_graph *g, fb_id node)
{
    const int *order = order_of(g, node), last = g->nodes[node].shape.rank - 1;
    return !order || order[last] == last ? FB_NONE : order[last];
}

bool fb_storage_is_turned(const fb_graph *g, fb_id product, fb_id node)
{
    fb_contraction c = fb_contraction_of(g, product);
    const fb_shape *s = &g->nodes[node].shape;
    int rows = fb_storage_innermost(g, node);
    int64_t batch = 1;
    for (int d = 0; d < rows; d++) batch *= s->dim[d];
    return rows != FB_NONE && batch == c.batch && s->dim[rows] == c.rows &&
           fb_shape_elements(s) == c.batch * c.rows * c.columns;
}

void fb_storage_strides(const fb_graph *g, fb_id node, int64_t strides[FB_MAX_RANK])
{
    const int *order = order_of(g, node);
    if (!order) {
        fb_shape_strides(&g->nodes[node].shape, strides);
        return;
    }
    int64_t own[FB_MAX_RANK];
    const fb_shape s = lying(g, node, order);
    fb_shape_strides(&s, own);
    for (int d = 0; d < s.rank; d++) strides[order[d]] = own[d];
}

fb_ix fb_storage_offset(const fb_graph *g, fb_index_pool *p, fb_id node, const fb_ix *coords)
{
    const int *order = order_of(g, node);
    if (!order) return fb_ix_ravel(p, g->nodes[node].shape.rank, g->nodes[node].shape.dim, coords);
    fb_ix to[FB_MAX_RANK];
    const fb_shape s = lying(g, node, order);
    for (int d = 0; d < s.rank; d++) to[d] = coords[order[d]];
    return fb_ix_ravel(p, s.rank, s.dim, to);
}

/* A line along the last dim of its own order; elements of `size` bytes lie `step` bytes apart in memory. */
static void move_line(char *own, char *lies, int64_t n, int64_t step, size_t size, bool to_own)
{
#define MOVE(BYTES)                                                                                                    \
    case BYTES:                                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                                \
            memcpy(to_own ? own + i *BYTES : lies + i * step, to_own ? lies + i * step : own + i * BYTES, BYTES);      \
        break
    switch (size) {
        MOVE(1);
        MOVE(2);
        MOVE(4);
        MOVE(8);
    default: fb_bug(__FILE__, __LINE__, "elements of a size that no dtype has");
    }
#undef MOVE
}

static bool rearrange(const fb_graph *g, fb_id node, void *bytes, bool to_own)
{
    const fb_node *n = &g->nodes[node];
    int64_t total = fb_node_bytes(g, node), strides[FB_MAX_RANK], at[FB_MAX_RANK] = {0};
    if (!order_of(g, node) || !total) return true;
    char *was = fb_try_alloc((size_t)total), *now = bytes;
    if (!was) return false;
    memcpy(was, bytes, (size_t)total);
    fb_storage_strides(g, node, strides);
    int size = fb_dtype_size(n->dtype), last = n->shape.rank - 1;
    int64_t run = n->shape.dim[last] * size;
    for (int64_t own = 0; own < total; own += run) {
        int64_t lies = 0;
        for (int d = 0; d < last; d++) lies += at[d] * strides[d] * size;
        if (strides[last] == 1)
            memcpy(now + (to_own ? own : lies), was + (to_own ? lies : own), (size_t)run);
        else
            move_line((to_own ? now : was) + own, (to_own ? was : now) + lies, n->shape.dim[last], strides[last] * size,
                      (size_t)size, to_own);
        for (int d = last - 1; d >= 0 && ++at[d] == n->shape.dim[d]; d--) at[d] = 0;
    }
    fb_free(was);
    return true;
}

bool fb_storage_to_own(const fb_graph *g, fb_id node, void *bytes)
{
    return rearrange(g, node, bytes, true);
}

bool fb_storage_from_own(const fb_graph *g, fb_id node, void *bytes)
{
    return rearrange(g, node, bytes, false);
}
