/* Follows channels from the convolutions that make them to those that add them up.
 *
 * requires  a graph whose users are known, g->lies_as with what lies as its readers' permutation
 *
 * A convolution's result may lie channels last, and so may what is computed of such a value element by element, in windows
 * or by putting it beside another. It does where all that read it gain or lose nothing: convolutions, products over the
 * channels, and values that lie so themselves. Whatever else reads it, norms over groups of channels or a matrix of rows
 * times columns, would find its neighbours far apart, and then it lies row by row. Taking the order from one value may
 * take it from those around it, until nothing changes.
 */
#include "graph/channels.h"

#include "graph/access.h"
#include "graph/convolution.h"
#include "graph/storage.h"

enum { SECTOR = 32, BLOCK = 8 }; /* bytes that memory moves; channels that tensor cores take at a time */

typedef struct {
    const fb_graph *g;
    int *channel;
} follow;

static bool is_view(const fb_graph *g, fb_id id)
{
    return fb_node_class(g, id) == FB_CLASS_VIEW;
}

/* ---- from a value to what is read of it ---- */

/* The dim of `node`, a view or value, along which its base's channels go one by one; FB_NONE. */
static int channel_through(const follow *f, fb_id node)
{
    const fb_graph *g = f->g;
    const fb_shape *s = &g->nodes[node].shape;
    fb_id base = fb_access_base(g, node);
    if (f->channel[base] == FB_NONE || base == node) return f->channel[base];
    fb_index_pool *pool = fb_index_pool_new();
    fb_ix vars[FB_MAX_RANK];
    fb_access at;
    int found = FB_NONE;
    for (int d = 0; d < s->rank; d++) vars[d] = s->dim[d] > 1 ? fb_ix_var(pool, "at", s->dim[d]) : fb_ix_const(pool, 0);
    fb_access_at(g, pool, node, vars, &at);
    for (int d = 0; d < s->rank && at.base == base; d++) {
        int64_t step, none;
        fb_ix rest;
        if (s->dim[d] == 1 || !fb_ix_uses(pool, at.coords[f->channel[base]], vars[d])) continue;
        bool one_by_one = found == FB_NONE && fb_ix_stride(pool, at.coords[f->channel[base]], vars[d], &step, &rest) &&
                          step == 1 && fb_ix_is_const(pool, rest, &none);
        for (int other = 0; other < at.rank && one_by_one; other++)
            one_by_one = other == f->channel[base] || !fb_ix_uses(pool, at.coords[other], vars[d]);
        found = one_by_one ? d : FB_NONE;
        if (!one_by_one) break;
    }
    fb_index_pool_free(pool);
    return found;
}

/* ---- what a node's result may have ---- */

static bool on_tensor_cores(const fb_node *n)
{
    return fb_dtype_is_half(n->dtype) || (n->dtype == FB_F32 && n->attrs->precision == FB_PRECISION_TF32);
}

/* A convolution of pictures whose library reads and writes channels last. */
static bool convolves(const fb_graph *g, fb_id product)
{
    fb_convolution c;
    return fb_graph_convolution(g, product, &c, NULL, NULL) && c.groups == 1 && c.space > 1;
}

static int of_contraction(const follow *f, fb_id id)
{
    const fb_node *n = &f->g->nodes[id];
    int rows = n->shape.rank - 2, right = f->g->nodes[n->args[1]].shape.rank;
    if (n->shape.dim[rows] % BLOCK || !on_tensor_cores(n)) return FB_NONE;
    /* products with the channels of each place, such as windows of one place are */
    bool mixes = channel_through(f, n->args[1]) == right - 2 && channel_through(f, n->args[0]) == FB_NONE;
    return mixes || convolves(f->g, id) ? rows : FB_NONE;
}

static int of_pointwise(const follow *f, fb_id id)
{
    const fb_node *n = &f->g->nodes[id];
    for (int a = 0; a < n->n_args; a++) {
        const fb_shape *s = &f->g->nodes[n->args[a]].shape;
        if (fb_shape_elements(s) != fb_shape_elements(&n->shape)) continue;
        int at = channel_through(f, n->args[a]);
        if (at != FB_NONE) return at + n->shape.rank - s->rank;
    }
    return FB_NONE;
}

static int of_reduction(const follow *f, fb_id id)
{
    const fb_node *n = &f->g->nodes[id];
    int at = channel_through(f, n->args[0]), gone = 0;
    for (int i = 0; i < n->attrs->n_axes && at != FB_NONE; i++) {
        if (n->attrs->axes[i] == at) return FB_NONE;
        gone += n->attrs->axes[i] < at;
    }
    return at == FB_NONE ? FB_NONE : n->attrs->keepdim ? at : at - gone;
}

static int of_join(const follow *f, fb_id id)
{
    const fb_node *n = &f->g->nodes[id];
    for (int a = 0; a < n->n_args && n->op == FB_OP_CAT; a++) {
        int at = channel_through(f, n->args[a]);
        if (at != FB_NONE) return at;
    }
    return FB_NONE;
}

static int channel_of(const follow *f, fb_id id)
{
    const fb_node *n = &f->g->nodes[id];
    switch (fb_node_class(f->g, id)) {
    case FB_CLASS_CONTRACTION: return of_contraction(f, id);
    case FB_CLASS_POINTWISE: return of_pointwise(f, id);
    case FB_CLASS_REDUCTION: return n->n_args == 1 ? of_reduction(f, id) : FB_NONE;
    case FB_CLASS_JOIN: return of_join(f, id);
    default: return FB_NONE;
    }
}

/* Is there something behind the channels, and are they a sector at least? */
static bool is_worth(const fb_graph *g, fb_id id, int channel)
{
    const fb_node *n = &g->nodes[id];
    int64_t behind = 1;
    for (int d = channel + 1; d < n->shape.rank; d++) behind *= n->shape.dim[d];
    return behind > 1 && n->shape.dim[channel] * fb_dtype_size(n->dtype) >= SECTOR;
}

/* ---- what all readers make of it ---- */

/* A mean of each picture's channels, or the like: neighbours add up side by side. */
static bool is_over_places(const follow *f, fb_id reduction, fb_id of)
{
    const fb_node *n = &f->g->nodes[reduction];
    if (fb_node_class(f->g, reduction) != FB_CLASS_REDUCTION || n->n_args != 1) return false;
    int channel = channel_through(f, of);
    for (int i = 0; i < n->attrs->n_axes; i++)
        if (n->attrs->axes[i] <= channel) return false;
    return channel != FB_NONE;
}

static bool reads_well(const follow *f, fb_id user, fb_id arg)
{
    const fb_graph *g = f->g;
    const fb_node *u = &g->nodes[user];
    if (fb_node_class(g, user) == FB_CLASS_CONTRACTION)
        return on_tensor_cores(u) && arg == u->args[1] && arg != u->args[0] &&
               (convolves(g, user) || channel_through(f, arg) == g->nodes[arg].shape.rank - 2);
    return f->channel[user] != FB_NONE || is_over_places(f, user, arg);
}

/* `node`: the value, or a view of it. */
static bool all_read_well(const follow *f, fb_id node)
{
    const fb_graph *g = f->g;
    for (int i = g->user_start[node]; i < g->user_start[node + 1]; i++) {
        fb_id user = g->users[i];
        if (is_view(g, user) ? !all_read_well(f, user) : !reads_well(f, user, node)) return false;
    }
    return true;
}

void fb_channels_last(const fb_graph *g, int *channel)
{
    follow f = {g, channel};
    bool any = false, changed = true;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        channel[i] = FB_NONE;
        if (g->nodes[i].region || g->lies_as[i] || g->nodes[i].shape.rank < 3) continue;
        int at = channel_of(&f, i);
        if (at == FB_NONE || !is_worth(g, i, at) || fb_storage_leaves(g, i)) continue;
        channel[i] = at;
        any = true;
    }
    while (any && changed) {
        changed = any = false;
        for (fb_id i = g->n_nodes - 1; i >= 0; i--) {
            if (channel[i] == FB_NONE) continue;
            if (!all_read_well(&f, i)) channel[i] = FB_NONE, changed = true;
        }
        for (fb_id i = 0; i < g->n_nodes; i++) {
            if (channel[i] == FB_NONE) continue;
            if (channel_of(&f, i) != channel[i]) channel[i] = FB_NONE, changed = true;
            any |= channel[i] != FB_NONE;
        }
    }
}
