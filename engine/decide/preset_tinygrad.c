/* What tinygrad launches: its rangeify pass on our graph (constants: decide/rules.c; tests/peers/tinygrad.py checks the
 * kernel counts against the package).
 *
 * Everything is generated, matrix products are a multiplication and a sum, a kernel has one output. A value is inlined
 * wherever it is read unless it has to be a buffer:
 * 1. Going back from the outputs, every value gets the ranges (indices) at which its readers want it
 *    (schedule/indexing.py run_rangeify). It becomes a buffer where two readers want different ones, and where a range
 *    ends: a reduction that is read by a broadcast would be computed again for each element of it; so would what is
 *    read by a matrix product through the dims it lacks, and what lies above such a value.
 * 2. Then buffers are removed again (schedule/rangeify.py remove_bufferize), from the inputs on: what is computed from
 *    3 buffers or fewer with no reduction inside that reads one is computed again in each reader.
 * So layer_norm is three kernels: the mean, the variance, and the rest; a product takes its epilogue up to where the
 * next product begins; the four gates of an LSTM are one kernel with both products, and each state one more.
 *
 * Left out: splitting reductions of 32768 : 1 and more in two kernels, and the limit of 31 buffers a kernel on the CPU:
 * neither cut lies between two nodes of our graph. */
#include "decide/decide.h"

#include "decide/rules.h"
#include "graph/access.h"

#include <math.h>

typedef enum { INLINE, OUTPUT, DIFFERENT_RANGES, RANGE_ENDS, HIDDEN_ACCESS } cause;

typedef struct {
    bool ranged;
    fb_ix out[FB_MAX_RANK];    /* where it is wanted */
    fb_ix in[FB_MAX_RANK + 1]; /* reductions and products: indices of the operand, or those and k */
    bool ending;               /* what it reads is wanted along ranges that it ends */
    cause why;
    fb_ids buffers; /* what computing it in place would read, sources included */
    bool reduces;   /* a reduction among that reads a buffer */
    bool kept;
} value;

typedef struct {
    fb_decider *d;
    const fb_graph *g;
    fb_index_pool *pool;
    value *value;
} tinygrad;

static bool is_reduction(const fb_graph *g, fb_id n)
{
    switch (fb_node_class(g, n)) {
    case FB_CLASS_REDUCTION:
    case FB_CLASS_SCAN:
    case FB_CLASS_CONTRACTION:
    case FB_CLASS_GATHER: return true; /* a gather is a sum over a one-hot row */
    default: return false;
    }
}

static fb_ix new_range(tinygrad *w, int64_t extent)
{
    return extent == 1 ? fb_ix_const(w->pool, 0) : fb_ix_var(w->pool, "r", extent > 0 ? extent : 1);
}

static void new_ranges(tinygrad *w, fb_id node)
{
    const fb_shape *s = &w->g->nodes[node].shape;
    for (int d = 0; d < s->rank; d++) w->value[node].out[d] = new_range(w, s->dim[d]);
    w->value[node].ranged = true;
}

/* ---- the ranges that a reader wants ---- */

/* Where operand `arg` of `node` is read; false where that is decided by data. */
static bool operand_ranges(tinygrad *w, fb_id node, int arg, fb_ix *at)
{
    const fb_graph *g = w->g;
    const fb_node *n = &g->nodes[node];
    const fb_shape *s = &g->nodes[n->args[arg]].shape;
    value *v = &w->value[node];
    int dim, last = n->shape.rank - 1;
    int64_t low, high;
    switch (fb_node_class(g, node)) {
    case FB_CLASS_POINTWISE: fb_access_broadcast(g, w->pool, node, arg, v->out, at); return true;
    case FB_CLASS_JOIN: fb_access_piece(g, w->pool, node, arg, v->out, at, &dim, &low, &high); return true;
    case FB_CLASS_EFFECT:
        for (int d = 0; d < s->rank; d++) at[d] = v->out[d];
        return true;
    case FB_CLASS_REDUCTION:
    case FB_CLASS_SCAN:
        for (int d = 0; d < s->rank; d++) at[d] = v->in[d];
        return true;
    case FB_CLASS_CONTRACTION:
        for (int d = 0; d < s->rank - 2; d++) {
            int from = d + n->shape.rank - s->rank;
            at[d] = s->dim[d] == 1 ? fb_ix_const(w->pool, 0) : v->out[from];
        }
        at[s->rank - 2] = arg == 0 ? v->out[last - 1] : v->in[0];
        at[s->rank - 1] = arg == 0 ? v->in[0] : v->out[last];
        return true;
    default: return false;
    }
}

/* Ranges of what a reduction sums over, made once. */
static void reduced_ranges(tinygrad *w, fb_id node)
{
    const fb_node *n = &w->g->nodes[node];
    value *v = &w->value[node];
    if (!n->n_args) return;
    const fb_shape *s = &w->g->nodes[n->args[0]].shape;
    int kept = 0;
    switch (fb_node_class(w->g, node)) {
    case FB_CLASS_CONTRACTION: v->in[0] = new_range(w, s->dim[s->rank - 1]); return;
    case FB_CLASS_SCAN:
        for (int d = 0; d < s->rank; d++) v->in[d] = d == n->attrs->dim ? new_range(w, s->dim[d]) : v->out[d];
        return;
    case FB_CLASS_REDUCTION:
        for (int d = 0; d < s->rank; d++) {
            bool reduced = false;
            for (int i = 0; i < n->attrs->n_axes; i++) reduced |= n->attrs->axes[i] == d;
            if (reduced)
                v->in[d] = new_range(w, s->dim[d]);
            else
                v->in[d] = v->out[n->attrs->keepdim ? d : kept];
            kept += !reduced;
        }
        return;
    default: return;
    }
}

/* Has `arg` fewer elements along a dim than the loops of pointwise `node`? */
static bool broadcasts(const fb_graph *g, fb_id node, fb_id arg)
{
    const fb_shape *to = &g->nodes[node].shape, *from = &g->nodes[arg].shape;
    for (int d = 0; d < to->rank; d++) {
        int at = d - (to->rank - from->rank);
        if (to->dim[d] > 1 && (at < 0 || from->dim[at] == 1)) return true;
    }
    return false;
}

static bool expands(const fb_graph *g, fb_id node)
{
    for (; fb_node_class(g, node) == FB_CLASS_VIEW; node = g->nodes[node].args[0])
        if (g->nodes[node].op == FB_OP_EXPAND && fb_node_bytes(g, node) > fb_node_bytes(g, g->nodes[node].args[0]))
            return true;
    return false;
}

/* Does the product run over a dim that its operand lacks? */
static bool product_broadcasts(const fb_graph *g, fb_id node, int arg)
{
    const fb_node *n = &g->nodes[node];
    const fb_shape *s = &g->nodes[n->args[arg]].shape;
    int last = n->shape.rank - 1;
    if (n->shape.dim[arg == 0 ? last : last - 1] > 1) return true;
    for (int d = 0; d < last - 1; d++) {
        int at = d - (n->shape.rank - s->rank);
        if (n->shape.dim[d] > 1 && (at < 0 || s->dim[at] == 1)) return true;
    }
    return false;
}

typedef struct {
    int n; /* readers with ranges */
    fb_ix at[FB_MAX_RANK];
    bool differ, hidden, stored;
    bool ending; /* a range ends between it and a reader, or above one */
    bool direct; /* a reader broadcasts it itself */
} wanted;

static void want(tinygrad *w, fb_id x, fb_id reader, int arg, wanted *out)
{
    const fb_graph *g = w->g;
    const fb_node *n = &g->nodes[reader];
    fb_id at = n->args[arg];
    fb_ix coords[FB_MAX_RANK];
    if (!w->value[reader].ranged || !operand_ranges(w, reader, arg, coords)) {
        out->hidden = true;
        return;
    }
    fb_access a;
    fb_access_at(g, w->pool, at, coords, &a);
    if (a.base != x) {
        out->hidden = true;
        return;
    }
    for (int d = 0; d < a.rank; d++) {
        if (out->n && out->at[d] != a.coords[d]) out->differ = true;
        out->at[d] = a.coords[d];
    }
    out->n++;
    bool product = fb_node_class(g, reader) == FB_CLASS_CONTRACTION,
         pointwise = fb_node_class(g, reader) == FB_CLASS_POINTWISE;
    /* `a - b` is a + -b and `a / b` is a · 1/b: there the broadcast reads what is between. A mean is a sum and a
     * product. */
    bool between = at != x || (arg == 1 && (n->op == FB_OP_SUB || n->op == FB_OP_DIV)) || g->nodes[x].op == FB_OP_MEAN;
    bool broadcast = product ? product_broadcasts(g, reader, arg) : pointwise && broadcasts(g, reader, at);
    out->ending |= w->value[reader].ending || expands(g, at) || (broadcast && (product || between));
    out->direct |= broadcast && !product && !between;
}

static void range_value(tinygrad *w, fb_id x)
{
    const fb_graph *g = w->g;
    const fb_deps *d = w->d->planner->deps;
    value *v = &w->value[x];
    wanted r = {.stored = w->d->planner->keep[x] || fb_node_class(g, x) == FB_CLASS_EFFECT};
    for (int k = d->out_start[x]; k < d->out_start[x + 1]; k++) {
        const fb_edge *e = &d->edges[d->out[k]];
        if (e->order_only) continue;
        if (!fb_node_is_computed(g, e->consumer)) {
            r.stored = true;
            continue;
        }
        const fb_node *n = &g->nodes[e->consumer];
        for (int arg = n->op == FB_OP_ASSIGN; arg < n->n_args; arg++)
            if (fb_access_base(g, n->args[arg]) == x) want(w, x, e->consumer, arg, &r);
    }
    bool passes = g->nodes[x].op == FB_OP_STACK; /* a selection, which ends no range itself */
    if (r.stored)
        v->why = OUTPUT;
    else if (r.hidden)
        v->why = HIDDEN_ACCESS;
    else if (r.differ)
        v->why = DIFFERENT_RANGES;
    else if (!passes && (r.ending || (r.direct && is_reduction(g, x))))
        v->why = RANGE_ENDS;
    if (v->why == INLINE) {
        for (int i = 0; i < g->nodes[x].shape.rank; i++) v->out[i] = r.at[i];
        v->ranged = true;
        v->ending = r.ending;
    } else {
        new_ranges(w, x);
    }
    v->ending |= r.direct;
    reduced_ranges(w, x);
}

/* ---- removing buffers ---- */

static void add_buffer(fb_ids *to, fb_id buffer)
{
    for (int i = 0; i < to->n; i++)
        if (to->at[i] == buffer) return;
    if (to->n < 64) FB_VEC_PUSH(to, buffer); /* far beyond the limit it does not matter how many */
}

static void gather_buffers(tinygrad *w, fb_id x)
{
    const fb_graph *g = w->g;
    const fb_node *n = &g->nodes[x];
    value *v = &w->value[x];
    for (int k = n->op == FB_OP_ASSIGN; k < n->n_args; k++) {
        fb_id base = fb_access_base(g, n->args[k]);
        const value *from = &w->value[base];
        if (!fb_node_is_computed(g, base) ? fb_judge_has_storage(g->nodes[base].op) : from->kept) {
            add_buffer(&v->buffers, base);
        } else if (fb_node_is_computed(g, base)) {
            for (int i = 0; i < from->buffers.n; i++) add_buffer(&v->buffers, from->buffers.at[i]);
            v->reduces |= from->reduces;
        }
    }
    v->reduces |= is_reduction(g, x) && v->buffers.n > 0;
}

static const char *name_of(const tinygrad *w, fb_id n)
{
    return w->g->nodes[n].name;
}

static int readers(const tinygrad *w, fb_id x)
{
    const fb_deps *d = w->d->planner->deps;
    return d->out_start[x + 1] - d->out_start[x];
}

static void decide_value(tinygrad *w, fb_id x)
{
    value *v = &w->value[x];
    int most = (int)fb_constant_value(FB_TINYGRAD_BUFFERS), n = v->buffers.n, r = readers(w, x);
    fb_candidate c = {FB_STEP_INLINE, x, FB_NONE, n};
    fb_beside none = {0};
    const char *name = name_of(w, x);
    static const char *const ends[] = {[INLINE] = "",
                                       [OUTPUT] = "",
                                       [DIFFERENT_RANGES] = "its readers read different elements at a time",
                                       [RANGE_ENDS] = "a reader uses each element many times",
                                       [HIDDEN_ACCESS] = "which elements are read depends on data"};
    v->kept = true;
    if (v->why == OUTPUT) return;
    if (v->why == HIDDEN_ACCESS)
        fb_decline_by_rule(w->d, c, none, "%s: `%s` is stored", ends[v->why], name);
    else if (v->why == INLINE)
        v->kept = !fb_decide(
            w->d, c, none,
            r == 1 ? "its reader reads it element by element" : "its %d readers read the same element at a time", r);
    else if (v->reduces)
        fb_decline_by_rule(w->d, c, none, "%s, and computing it again would repeat a reduction: `%s` is stored",
                           ends[v->why], name);
    else if (n > most)
        fb_decline_by_rule(w->d, c, none, "%s, and it is computed from %d buffers (%d is the most): `%s` is stored",
                           ends[v->why], n, most, name);
    else
        v->kept =
            !fb_decide(w->d, c, none, "%s, but computing it again reads no more than %d buffer%s (%d is the most)",
                       ends[v->why], n, n == 1 ? "" : "s", most);
}

static void decide_all(fb_decider *d)
{
    tinygrad w = {.d = d, .g = d->planner->g, .pool = fb_index_pool_new()};
    w.value = fb_calloc((size_t)w.g->n_nodes + 1, sizeof *w.value);
    for (fb_id i = w.g->n_nodes - 1; i >= 0; i--)
        if (fb_node_is_computed(w.g, i)) range_value(&w, i);
    for (fb_id i = 0; i < w.g->n_nodes; i++) {
        if (!fb_node_is_computed(w.g, i)) continue;
        gather_buffers(&w, i);
        decide_value(&w, i);
    }
    for (fb_id i = 0; i < w.g->n_nodes; i++) FB_VEC_FREE(&w.value[i].buffers);
    fb_index_pool_free(w.pool);
    fb_free(w.value);
}

fb_plan *fb_tinygrad_plan(fb_decider *d)
{
    decide_all(d);
    return fb_decisions_apply(d, FB_LIBRARY_FREE);
}
