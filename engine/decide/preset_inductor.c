/* What torch.compile launches: the rules of TorchInductor's lowering and scheduler on our graph (constants:
 * decide/rules.c).
 *
 * 1. Lowering decides which values are buffers (torch/_inductor/lowering.py, ir.py). A pointwise value is inlined into
 *    all of its readers unless it is an output, is read by an external call or written into a join, or is read several
 *    times and dear (more than 4 reads, 30 operations, or 8 reads in any case). Reductions are always buffers. A
 *    matrix product is an external kernel: nothing fuses with it, so bias and relu are a pointwise kernel of their own
 *    (max-autotune, which may use a template with an epilogue, is another preset); a bias that more than pointwise work
 *    reads, or that has 16 bits, goes with the product (addmm), and attention is one kernel of the library's where that
 *    has one for its sizes. A reduction of under 8 elements is written out. A join of many or of stored parts is no
 *    kernel: its parts are written in place; where most of them have a place of their own already, they are copied.
 * 2. The scheduler fuses buffers pair by pair (scheduler.py fuse_nodes, choices.py): candidates share a buffer, the
 * best score first, in rounds until nothing changes. A reader fuses with what it reads where it reads it with the very
 *    index it was written with, and where the loops fit (codegen/simd.py can_fuse).
 *
 * So the puzzler's split_stack is 18 kernels: layer_norm and tanh of each of 16 features (mean, variance and the
 * normalised value have the same rows; the features read different parts of the input, so that no two of them share
 * data), the product with a vector (external), and bias with relu; the stack is written in place by the 16. combined is
 * 3. A step of the LSTM is two external products and one pointwise kernel: over 16 steps with the zeros of the first
 * state 49, which a profiler counts as 81 because cuBLAS splits each product over k and sums in a second kernel. With
 * [x, h] in one product it is the join, one product (two kernels) and the pointwise kernel: 64. LoRA is three products
 * and one pointwise kernel: 4 calls, 5 kernels in f32 and 7 in bf16 by the same split. All counted on an H200 with
 * PyTorch 2.11.
 *
 * Left out: reductions of few outputs are split in two kernels there, and
 * candidates benchmarked when that is asked for. Loops are unrolled by PyTorch; here a body is decided for itself. */
#include "decide/decide.h"

#include "decide/rules.h"
#include "graph/access.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum {
    POINTWISE,
    REDUCTION,
    EXTERNAL,
    IN_PLACE, /* a join that its parts write */
    COPIED,   /* a join whose parts have places of their own */
} kernel_kind;

/* An access to a buffer: the map by a key, 0 where it is the very index the buffer is written with. */
typedef struct {
    fb_id buffer;
    uint64_t key;
    int64_t bytes;
    int64_t spread; /* key 0: so many neighbours read each element */
} dep;

typedef FB_VEC(dep) deps;

/* A computed node as lowering leaves it. */
typedef struct {
    kernel_kind kind;
    bool buffer;   /* it is stored; else inlined */
    bool placed;   /* … straight into a join */
    int unrolled;  /* a reduction of so many elements that is written out; 0 */
    fb_id call;    /* the first node of the framework's call that it is a part of, which is one kernel; FB_NONE */
    fb_id bias_of; /* the product that takes this sum along as its bias; FB_NONE */
    int64_t numel, rnumel;
    int ops;    /* of its own and inlined */
    deps reads; /* of buffers and sources */
} value;

/* A kernel of the scheduler, named by its slot in the model plan. */
typedef struct {
    int first, last; /* order of its members */
    int n;
    int64_t numel, rnumel;
    bool reduction;
    deps reads, writes;
} cluster;

typedef struct {
    fb_decider *d;
    const fb_graph *g;
    value *value;
    cluster *cluster;
    fb_plan *model; /* groups as the scheduler has them: order and cycles */
} inductor;

static double limit_of(fb_constant c)
{
    return fb_constant_value(c);
}

static const char *name_of(const inductor *w, fb_id n)
{
    return w->g->nodes[n].name;
}

/* ---- access maps ---- */

typedef struct {
    fb_id base;
    uint64_t key; /* 0: the index as written, up to trailing dims that are broadcast */
    bool full;    /* key 0 and as many elements */
    int64_t bytes, spread;
} map;

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    return h * 0xff51afd7ed558ccdu;
}

/* The dims that `node` loops over when it reads `arg`, as dims of arg: kept ones first, then reduced ones. */
static int loop_order(const fb_node *n, int rank, int order[FB_MAX_RANK])
{
    bool inner[FB_MAX_RANK] = {false};
    int k = 0;
    if (fb_op_get(n->op)->cls == FB_CLASS_REDUCTION)
        for (int i = 0; i < n->attrs->n_axes; i++) inner[n->attrs->axes[i]] = true;
    if (fb_op_is_running(n->op)) inner[n->attrs->dim] = true;
    for (int d = 0; d < rank; d++)
        if (!inner[d]) order[k++] = d;
    for (int d = 0; d < rank; d++)
        if (inner[d]) order[k++] = d;
    return rank;
}

/* Extents and strides of the loops of `node` over operand `arg`, normalised: dims of one element and trailing dims that
 * are broadcast dropped (*spread elements), neighbours merged where one step continues the other. */
static int normal_dims(const fb_graph *g, const fb_node *n, fb_id arg, const int64_t *strides, int64_t *extent,
                       int64_t *stride, int64_t *spread)
{
    const fb_shape *s = &g->nodes[arg].shape, *result = &n->shape;
    bool pointwise = fb_op_get(n->op)->cls == FB_CLASS_POINTWISE || n->op == FB_OP_ASSIGN;
    int order[FB_MAX_RANK], rank = pointwise ? result->rank : loop_order(n, s->rank, order), k = 0;
    for (int i = 0; i < rank; i++) {
        int d = pointwise ? i - (result->rank - s->rank) : order[i];
        int64_t e = pointwise ? result->dim[i] : s->dim[d];
        int64_t step = d < 0 || s->dim[d] == 1 ? 0 : strides[d];
        if (e == 1) continue;
        if (k && stride[k - 1] == e * step) {
            extent[k - 1] *= e;
            stride[k - 1] = step;
        } else {
            extent[k] = e;
            stride[k++] = step;
        }
    }
    *spread = 1;
    while (k && stride[k - 1] == 0) *spread *= extent[--k];
    return k;
}

static map map_of(const fb_graph *g, fb_id node, int arg)
{
    const fb_node *n = &g->nodes[node];
    fb_id at = n->args[arg];
    int64_t offset, strides[FB_MAX_RANK], extent[FB_MAX_RANK], stride[FB_MAX_RANK];
    map m = {.base = fb_access_base(g, at), .key = mix(7, (uint64_t)at), .spread = 1};
    m.bytes = fb_node_bytes(g, m.base);
    fb_op_class cls = fb_node_class(g, node);
    bool indirect = cls == FB_CLASS_GATHER && !(n->op == FB_OP_EMBEDDING && arg == 1);
    if (cls == FB_CLASS_CONTRACTION || indirect || !fb_access_strided(g, at, &m.base, &offset, strides)) return m;
    int k = normal_dims(g, n, at, strides, extent, stride, &m.spread);
    int64_t numel = fb_shape_elements(&g->nodes[m.base].shape), touched = 1;
    for (int i = 0; i < k; i++)
        if (stride[i]) touched *= extent[i];
    m.bytes = touched * (int64_t)fb_dtype_size(g->nodes[m.base].dtype);
    if (offset == 0 && (k == 0 ? numel == 1 : k == 1 && stride[0] == 1 && extent[0] == numel) && cls != FB_CLASS_JOIN) {
        m.key = 0;
        m.full = fb_shape_elements(&n->shape) == numel || cls == FB_CLASS_REDUCTION;
        return m;
    }
    m.key = mix(mix(11, (uint64_t)offset), cls == FB_CLASS_JOIN ? (uint64_t)arg + 1 : 0);
    for (int i = 0; i < k; i++) m.key = mix(mix(m.key, (uint64_t)extent[i]), (uint64_t)stride[i]);
    return m;
}

static void add_dep(deps *to, dep x)
{
    for (int i = 0; i < to->n; i++)
        if (to->at[i].buffer == x.buffer && to->at[i].key == x.key) return;
    FB_VEC_PUSH(to, x);
}

/* Do the innermost loops of `node` go over whole runs of `spread` elements? A loop over [8, 64] that reads an element
 * for every 16 does so by an index of its own. */
static bool in_whole_loops(const fb_graph *g, fb_id node, int64_t spread)
{
    const fb_node *n = &g->nodes[node];
    bool reduces = fb_op_get(n->op)->cls == FB_CLASS_REDUCTION || fb_op_is_running(n->op);
    const fb_shape *s = reduces ? &g->nodes[n->args[0]].shape : &n->shape;
    int order[FB_MAX_RANK] = {0}, rank = s->rank;
    if (reduces) loop_order(n, rank, order);
    int64_t run = 1;
    for (int i = rank - 1; i >= 0 && run < spread; i--) run *= s->dim[reduces ? order[i] : i];
    return run == spread;
}

/* What `node`, a reader through `m` of an inlined value, reads of `inner`, one of that value's reads. */
static dep through(const fb_graph *g, fb_id node, map m, dep inner)
{
    bool same = m.full && (inner.key || in_whole_loops(g, node, inner.spread));
    if (same || (m.key == 0 && inner.key == 0 && !m.full)) return inner;
    uint64_t key = mix(mix(mix(3, m.key), inner.key), m.full ? (uint64_t)inner.spread : 0);
    return (dep){inner.buffer, key ? key : 1, inner.bytes, 1};
}

/* What the value reads through one access to an operand. */
static void read_through(inductor *w, fb_id node, map m)
{
    value *v = &w->value[node];
    const value *from = &w->value[m.base];
    dep own = {m.base, m.key, m.bytes, m.spread};
    if (!fb_node_is_computed(w->g, m.base)) {
        if (fb_judge_has_storage(w->g->nodes[m.base].op)) add_dep(&v->reads, own);
    } else if (from->buffer) {
        add_dep(&v->reads, own);
    } else {
        v->ops += from->ops;
        for (int i = 0; i < from->reads.n; i++) add_dep(&v->reads, through(w->g, node, m, from->reads.at[i]));
    }
}

/* A step of PyTorch's roll: it reads by an index of its own what its two parts are cut out of (torch/_refs roll). */
static bool rolls(const fb_graph *g, fb_id join)
{
    const fb_node *n = &g->nodes[join];
    const char *op = n->scope == FB_NONE ? NULL : g->scopes[n->scope].op;
    return n->op == FB_OP_CAT && op && strcmp(op, "aten_roll") == 0;
}

static void collect_reads(inductor *w, fb_id node)
{
    const fb_node *n = &w->g->nodes[node];
    value *v = &w->value[node];
    v->reads.n = 0;
    v->ops = 1 + v->unrolled;
    if (rolls(w->g, node)) {
        fb_id whole = w->g->nodes[n->args[0]].args[0];
        map m = {.base = fb_access_base(w->g, whole),
                 .key = mix(17, (uint64_t)node),
                 .bytes = fb_node_bytes(w->g, whole),
                 .spread = 1};
        read_through(w, node, m);
        return;
    }
    for (int k = n->op == FB_OP_ASSIGN; k < n->n_args; k++) {
        map m = map_of(w->g, node, k);
        if (!v->unrolled) read_through(w, node, m);
        for (int i = 0; i < v->unrolled; i++) { /* each element by an index of its own */
            map one = {.base = m.base,
                       .key = mix(mix(13, m.key), (uint64_t)i + 1),
                       .bytes = m.bytes / v->unrolled,
                       .spread = 1};
            read_through(w, node, one);
        }
    }
}

/* ---- lowering: which values are buffers ---- */

static int n_readers(const inductor *w, fb_id node)
{
    const fb_deps *d = w->d->planner->deps;
    int n = 0;
    for (int k = d->out_start[node]; k < d->out_start[node + 1]; k++) n += !d->edges[d->out[k]].order_only;
    return n;
}

/* A reader that needs `node` in memory: an external call, a loop. */
static fb_id needs_stored(const inductor *w, fb_id node)
{
    const fb_deps *d = w->d->planner->deps;
    for (int k = d->out_start[node]; k < d->out_start[node + 1]; k++) {
        fb_id c = d->edges[d->out[k]].consumer;
        if (d->edges[d->out[k]].order_only) continue;
        if (!fb_node_is_computed(w->g, c) || w->value[c].kind == EXTERNAL) return c;
    }
    return FB_NONE;
}

static bool dear(const inductor *w, fb_id node)
{
    const value *v = &w->value[node];
    return v->reads.n > limit_of(FB_INDUCTOR_REALIZE_ACC_READS) || v->ops > limit_of(FB_INDUCTOR_REALIZE_OPS) ||
           (n_readers(w, node) > 1 && v->reads.n > limit_of(FB_INDUCTOR_REALIZE_READS));
}

/* Is its place in memory settled before the join? A library that reads it wants it as it is, and an earlier join of so
 * many parts that each is written in place has taken it. */
static bool settled(const inductor *w, fb_id base, fb_id join)
{
    const fb_deps *d = w->d->planner->deps;
    for (int k = d->out_start[base]; k < d->out_start[base + 1]; k++) {
        fb_id c = d->edges[d->out[k]].consumer;
        if (c >= join || !fb_node_is_computed(w->g, c)) continue;
        bool many = w->g->nodes[c].n_args > limit_of(FB_INDUCTOR_CAT_INPUTS);
        if (w->value[c].kind == EXTERNAL || (w->value[c].kind == IN_PLACE && many)) return true;
    }
    return false;
}

/* Would this part of a join need a copy anyway, or is it not stored yet? (lowering.py should_lower_cat_input) What a
 * view shows has its place already, and so has what a library writes or has read. */
static bool lowered_part(const inductor *w, fb_id part, fb_id join)
{
    fb_id base = fb_access_base(w->g, part);
    const value *v = &w->value[base];
    if (!fb_node_is_computed(w->g, base)) return true;
    if (v->kind == EXTERNAL || (v->kind == POINTWISE && !v->buffer)) return true;
    return v->buffer && (base != part || settled(w, base, join));
}

/* Does it reduce, or read what does? (can_fuse_reduction) */
static bool of_reduction(const inductor *w, fb_id base)
{
    const value *v = &w->value[base];
    if (!fb_node_is_computed(w->g, base)) return false;
    if (v->kind == REDUCTION) return true;
    for (int i = 0; v->kind == POINTWISE && !v->buffer && i < v->reads.n; i++) {
        fb_id from = v->reads.at[i].buffer;
        if (fb_node_is_computed(w->g, from) && w->value[from].kind == REDUCTION) return true;
    }
    return false;
}

/* A join becomes a pointwise kernel that selects (pointwise_cat), or is written in place by its parts (ConcatKernel).
 */
static bool selects(const inductor *w, fb_id join)
{
    const fb_node *n = &w->g->nodes[join];
    const fb_deps *d = w->d->planner->deps;
    if (rolls(w->g, join)) return true;
    if (n->n_args > limit_of(FB_INDUCTOR_CAT_INPUTS)) return false;
    bool any = false, all = true, uses = n_readers(w, join) > 0 && !w->d->planner->keep[join];
    for (int k = 0; k < n->n_args; k++) {
        bool lowered = lowered_part(w, n->args[k], join);
        any |= lowered;
        all &= lowered && !of_reduction(w, fb_access_base(w->g, n->args[k]));
    }
    for (int k = d->out_start[join]; k < d->out_start[join + 1]; k++) {
        fb_id c = d->edges[d->out[k]].consumer;
        fb_op_class cls = fb_node_class(w->g, c);
        uses &= fb_node_is_computed(w->g, c) && (cls == FB_CLASS_POINTWISE || cls == FB_CLASS_JOIN) &&
                w->value[c].call == FB_NONE;
    }
    return all || (any && uses);
}

/* Must this part be copied to the join (ir.py ConcatKernel.realize_into)? What a library writes, what is there before,
 * what a view shows and what lies in an earlier join cannot be written there. */
static bool is_copied(const inductor *w, fb_id part)
{
    fb_id base = fb_access_base(w->g, part);
    const value *v = &w->value[base];
    return base != part || !fb_node_is_computed(w->g, base) || v->kind == EXTERNAL || v->placed;
}

/* A join that does not select. */
static void lower_join(inductor *w, fb_id join)
{
    const fb_node *n = &w->g->nodes[join];
    int copied = 0;
    for (int k = 0; k < n->n_args; k++) copied += is_copied(w, n->args[k]);
    w->value[join].kind = 2 * copied > n->n_args ? COPIED : IN_PLACE;
    for (int k = 0; k < n->n_args && w->value[join].kind == IN_PLACE; k++) {
        value *part = &w->value[fb_access_base(w->g, n->args[k])];
        part->buffer = part->placed = true;
    }
}

/* ---- a product's bias (fx_passes/post_grad.py) ---- */

static bool expands_to(const fb_shape *s, const fb_shape *to)
{
    if (s->rank > to->rank) return false;
    for (int d = 0; d < s->rank; d++)
        if (s->dim[d] != 1 && s->dim[d] != to->dim[d + to->rank - s->rank]) return false;
    return true;
}

/* The framework's own call of both; views in it are not seen. */
static bool in_linear(const fb_graph *g, fb_id a, fb_id b)
{
    for (fb_id s = g->nodes[a].scope; s != FB_NONE; s = g->scopes[s].parent) {
        const char *op = g->scopes[s].op;
        if (op && (strcmp(op, "linear") == 0 || strcmp(op, "addmm") == 0))
            return fb_scope_within(g, g->nodes[b].scope, s);
    }
    return false;
}

/* The product that `sum` adds a bias to, where that may be one call; FB_NONE. */
static fb_id product_under(const inductor *w, fb_id sum)
{
    const fb_node *n = &w->g->nodes[sum];
    if (n->op != FB_OP_ADD) return FB_NONE;
    for (int k = 0; k < 2; k++) {
        fb_id m = fb_access_base(w->g, n->args[k]);
        if (w->g->nodes[m].op != FB_OP_MATMUL || n_readers(w, m) != 1 || w->d->planner->keep[m]) continue;
        bool plain = m == n->args[k] && w->g->nodes[m].shape.rank == 2;
        if (!plain && !in_linear(w->g, sum, m)) continue;
        if (expands_to(&w->g->nodes[n->args[1 - k]].shape, &n->shape) &&
            fb_shape_elements(&n->shape) == fb_shape_elements(&w->g->nodes[m].shape))
            return m;
    }
    return FB_NONE;
}

/* Does PyTorch copy what `at` shows before anybody reads it? A reshape of what lies in another order is a copy, and so is
 * what a product of several batch dims makes one of (aten matmul; attention as one call reads it as it lies). Inductor
 * takes a copy for pointwise work. */
static bool copied_first(const inductor *w, fb_id reader, fb_id at)
{
    const fb_graph *g = w->g;
    fb_id base;
    int64_t offset, strides[FB_MAX_RANK];
    const fb_shape *s = &g->nodes[at].shape;
    bool several = g->nodes[reader].op == FB_OP_MATMUL && w->value[reader].call == FB_NONE && s->rank > 3;
    if (several && fb_access_strided(g, at, &base, &offset, strides))
        for (int d = 0; d + 3 < s->rank; d++)
            if (s->dim[d] != 1 && s->dim[d + 1] != 1 && strides[d] != strides[d + 1] * s->dim[d + 1]) return true;
    for (; !fb_node_is_computed(g, at) && g->nodes[at].n_args; at = g->nodes[at].args[0])
        if (g->nodes[at].op == FB_OP_VIEW && !fb_access_strided(g, at, &base, &offset, strides) &&
            fb_access_strided(g, g->nodes[at].args[0], &base, &offset, strides))
            return true;
    return false;
}

/* Is each read of `sum` by `reader` pointwise work: the reader's own, or a copy before it? */
static bool reads_pointwise(const inductor *w, fb_id sum, fb_id reader)
{
    const fb_node *n = &w->g->nodes[reader];
    if (fb_node_class(w->g, reader) == FB_CLASS_POINTWISE && w->value[reader].call == FB_NONE) return true;
    for (int k = 0; k < n->n_args; k++)
        if (fb_access_base(w->g, n->args[k]) == sum && !copied_first(w, reader, n->args[k])) return false;
    return true;
}

/* should_prefer_unfused_addmm: a sum goes with what is pointwise, if all that reads it is, and is no further rounding.
 */
static bool bias_is_apart(const inductor *w, fb_id sum)
{
    const fb_deps *d = w->d->planner->deps;
    fb_dtype dtype = w->g->nodes[sum].dtype;
    if (fb_dtype_is_half(dtype) || w->d->planner->keep[sum]) return false;
    for (int k = d->out_start[sum]; k < d->out_start[sum + 1]; k++) {
        const fb_edge *e = &d->edges[d->out[k]];
        if (e->order_only || !fb_node_is_computed(w->g, e->consumer)) continue; /* a loop: its steps read views */
        if (!reads_pointwise(w, sum, e->consumer)) return false;
    }
    return true;
}

/* The picture whose windows `node` reduces, as a pool does; FB_NONE. */
static fb_id pooled(const fb_graph *g, fb_id node)
{
    if (fb_node_class(g, node) != FB_CLASS_REDUCTION || !fb_reduces_windows(g, node)) return FB_NONE;
    fb_id picture = fb_access_base(g, g->nodes[node].args[0]);
    return fb_node_is_computed(g, picture) ? picture : FB_NONE;
}

/* Is a reduction of so many elements written out, and no loop? A pool's bound is the largest that is. */
static bool is_unrolled(const fb_graph *g, fb_id node, int64_t elements)
{
    if (pooled(g, node) != FB_NONE) return (double)elements <= limit_of(FB_INDUCTOR_UNROLLED_POOL);
    return (double)elements < limit_of(FB_INDUCTOR_UNROLLED);
}

static void set_loops(const inductor *w, fb_id node)
{
    const fb_node *n = &w->g->nodes[node];
    value *v = &w->value[node];
    v->numel = fb_shape_elements(&n->shape);
    v->rnumel = 1;
    v->bias_of = FB_NONE;
    if (fb_node_class(w->g, node) == FB_CLASS_REDUCTION && v->numel > 0) v->rnumel = fb_reduced_elements(w->g, node);
    if (v->kind == REDUCTION && v->rnumel > 0 && is_unrolled(w->g, node, v->rnumel) && !fb_op_is_running(n->op)) {
        v->kind = POINTWISE;
        v->unrolled = (int)v->rnumel;
        v->rnumel = 1;
    }
    if (fb_op_is_running(n->op) && n->shape.dim[n->attrs->dim] > 0) {
        v->rnumel = n->shape.dim[n->attrs->dim];
        v->numel /= v->rnumel;
    }
}

static kernel_kind kind_of(const fb_graph *g, fb_id node)
{
    switch (fb_node_class(g, node)) {
    case FB_CLASS_REDUCTION:
    case FB_CLASS_SCAN: return REDUCTION;
    case FB_CLASS_CONTRACTION: return EXTERNAL;
    case FB_CLASS_GATHER: return g->nodes[node].op == FB_OP_EMBEDDING ? POINTWISE : EXTERNAL;
    default: return POINTWISE;
    }
}

/* ---- calls of a library: attention (aten's scaled_dot_product_attention), convolution ---- */

/* Is it a kernel of the library's? Others are the plain formula, as far as this preset is concerned. */
static bool is_attention(const fb_graph *g, const fb_scope *s)
{
    enum { OPERANDS = 3, ALIGNED_BYTES = 16 };
    if (!s->op || strcmp(s->op, "scaled_dot_product_attention") != 0 || s->n_args < OPERANDS || s->n_results != 1)
        return false;
    for (int i = 0; i < OPERANDS; i++) {
        const fb_node *n = s->args[i] == FB_NONE ? NULL : &g->nodes[s->args[i]];
        if (!n || n->shape.rank != 4 || (n->dtype != FB_F32 && n->dtype != FB_F16 && n->dtype != FB_BF16)) return false;
        if (n->shape.dim[3] * (int64_t)fb_dtype_size(n->dtype) % ALIGNED_BYTES) return false;
    }
    return s->results[0] != FB_NONE;
}

/* A convolution's windows and product are one call, whatever its groups. Its bias is added by whoever reads it
 * (lowering.py convolution). */
static bool is_convolution(const fb_scope *s)
{
    return s->op && strncmp(s->op, "conv", 4) == 0 && s->n_results == 1 && s->results[0] != FB_NONE;
}

/* What the library writes: the scope's result, or of a convolution the product under its bias. */
static fb_id call_result(const fb_graph *g, const fb_scope *s)
{
    fb_id out = fb_access_base(g, s->results[0]);
    if (!is_convolution(s) || g->nodes[out].op != FB_OP_ADD) return out;
    return fb_access_base(g, g->nodes[out].args[0]);
}

/* Does anybody outside of the call read what is not its result? `result`: what comes after it is outside. */
static bool leaks(const inductor *w, fb_id scope, fb_id node, fb_id result)
{
    const fb_deps *d = w->d->planner->deps;
    if (node == result) return false;
    if (w->d->planner->keep[node]) return true;
    for (int k = d->out_start[node]; k < d->out_start[node + 1]; k++) {
        fb_id reader = d->edges[d->out[k]].consumer;
        if (reader > result || !fb_scope_within(w->g, w->g->nodes[reader].scope, scope)) return true;
    }
    return false;
}

static void find_calls(inductor *w)
{
    const fb_graph *g = w->g;
    for (fb_id i = 0; i < g->n_nodes; i++) w->value[i].call = FB_NONE;
    for (fb_id s = 0; s < g->n_scopes; s++) {
        fb_ids inside = {0};
        bool whole = is_attention(g, &g->scopes[s]) || is_convolution(&g->scopes[s]);
        fb_id result = whole ? call_result(g, &g->scopes[s]) : FB_NONE;
        for (fb_id i = 0; whole && i <= result; i++) {
            if (!fb_node_is_computed(g, i) || !fb_scope_within(g, g->nodes[i].scope, s)) continue;
            whole = !leaks(w, s, i, result) && w->value[i].call == FB_NONE;
            FB_VEC_PUSH(&inside, i);
        }
        for (int i = 0; whole && i < inside.n; i++) w->value[inside.at[i]].call = inside.at[0];
        FB_VEC_FREE(&inside);
    }
}

/* First without record: a join decides for its parts, which come before it. */
static void lower(inductor *w)
{
    const fb_graph *g = w->g;
    find_calls(w);
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (!fb_node_is_computed(g, i)) continue;
        value *v = &w->value[i];
        v->kind = v->call == FB_NONE ? kind_of(g, i) : EXTERNAL;
        set_loops(w, i);
        if (v->call != FB_NONE) continue;
        fb_id product = product_under(w, i);
        if (product == FB_NONE || bias_is_apart(w, i)) continue;
        v->kind = EXTERNAL;
        v->bias_of = product;
    }
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (!fb_node_is_computed(g, i)) continue;
        value *v = &w->value[i];
        fb_id picture = pooled(g, i);
        if (picture != FB_NONE && w->value[picture].reads.n > 1) w->value[picture].buffer = true;
        collect_reads(w, i);
        if (fb_node_class(g, i) == FB_CLASS_JOIN && !selects(w, i)) lower_join(w, i);
        if (v->kind != POINTWISE || w->d->planner->keep[i] || fb_node_class(g, i) == FB_CLASS_EFFECT) v->buffer = true;
        if (needs_stored(w, i) != FB_NONE || dear(w, i)) v->buffer = true;
    }
}

static bool is_pooled(const fb_graph *g, fb_id picture)
{
    for (fb_id i = picture + 1; i < g->n_nodes; i++)
        if (pooled(g, i) == picture) return true;
    return false;
}

static void record_buffer(inductor *w, fb_id i)
{
    value *v = &w->value[i];
    fb_candidate c = {FB_STEP_INLINE, i, FB_NONE, NAN};
    const char *name = name_of(w, i);
    fb_id reader = needs_stored(w, i);
    if (w->d->planner->keep[i] || fb_node_class(w->g, i) == FB_CLASS_EFFECT)
        return; /* an output: there is nothing to decide */
    if (reader != FB_NONE)
        fb_decline_by_rule(w->d, c, (fb_beside){0}, "`%s` reads it and is %s: `%s` is stored", name_of(w, reader),
                           fb_node_is_computed(w->g, reader) ? "a library call" : "a loop", name);
    else if (dear(w, i))
        fb_decline_by_rule(w->d, c, (fb_beside){0},
                           "%d readers would each repeat %d reads and %d operations: `%s` is stored", n_readers(w, i),
                           v->reads.n, v->ops, name);
    else if (v->kind == COPIED)
        fb_decline_by_rule(w->d, c, (fb_beside){0},
                           "most of what `%s` joins has a place in memory: it is copied to another", name);
    else if (is_pooled(w->g, i))
        fb_decline_by_rule(w->d, c, (fb_beside){0},
                           "each of its elements is in several windows of a pool: `%s` is stored", name);
    else
        fb_decline_by_rule(w->d, c, (fb_beside){0}, "`%s` is written straight to its place in what it is joined to",
                           name);
}

/* Then for the record, with the reads as they are in the end. */
static void lower_on_record(inductor *w)
{
    const fb_graph *g = w->g;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (!fb_node_is_computed(g, i)) continue;
        value *v = &w->value[i];
        collect_reads(w, i);
        fb_candidate c = {FB_STEP_INLINE, i, FB_NONE, NAN};
        if (v->kind == IN_PLACE) {
            fb_decide(w->d, c, (fb_beside){0},
                      "each of its %d parts is written straight to its place: `%s` needs no kernel; here its readers "
                      "read the parts",
                      g->nodes[i].n_args, name_of(w, i));
        } else if (v->kind == POINTWISE && !v->buffer) {
            int n = n_readers(w, i);
            char who[64] = "its reader computes it";
            if (n > 1) snprintf(who, sizeof who, "each of its %d readers computes it again", n);
            v->buffer = !fb_decide(w->d, c, (fb_beside){0}, "%s, with %d read%s and %d operation%s: cheap", who,
                                   v->reads.n, v->reads.n == 1 ? "" : "s", v->ops, v->ops == 1 ? "" : "s");
        } else if (v->kind == POINTWISE || v->kind == COPIED) {
            record_buffer(w, i);
        }
    }
}

/* ---- the scheduler ---- */

static fb_id cluster_of(const inductor *w, fb_id buffer)
{
    return w->model->owner[buffer];
}

static void start_clusters(inductor *w)
{
    const fb_graph *g = w->g;
    fb_id on_cycle;
    for (fb_id i = g->n_nodes - 1; i >= 0; i--) /* readers first, so that each is tried with all that repeat it */
        if (fb_node_is_computed(g, i) && !w->value[i].buffer)
            w->value[i].buffer = !fb_decide_try_recomputed(w->model, i);
    FB_ASSERT(fb_order_all(w->model, &on_cycle));
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (!fb_node_is_computed(g, i) || !w->value[i].buffer) continue;
        value *v = &w->value[i];
        cluster *c = &w->cluster[i];
        *c = (cluster){
            .first = i, .last = i, .n = 1, .numel = v->numel, .rnumel = v->rnumel, .reduction = v->kind == REDUCTION};
        for (int k = 0; k < v->reads.n; k++) FB_VEC_PUSH(&c->reads, v->reads.at[k]);
        FB_VEC_PUSH(&c->writes, (dep){i, 0, fb_node_bytes(g, i), 1});
    }
}

static int64_t shared_with(const deps *a, const deps *b)
{
    int64_t bytes = 0;
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++)
            if (a->at[i].buffer == b->at[k].buffer && a->at[i].key == b->at[k].key) bytes += a->at[i].bytes;
    return bytes;
}

/* Bytes of equal accesses (scheduler.py score_fusion_memory). */
static int64_t shared_bytes(const cluster *a, const cluster *b)
{
    return shared_with(&a->reads, &b->reads) + shared_with(&a->reads, &b->writes) + shared_with(&a->writes, &b->reads);
}

typedef struct {
    fb_id a, b; /* buffers; a is written before b */
    int64_t bytes;
    bool alike; /* both reduce or neither does */
    int distance;
} pair;

typedef FB_VEC(pair) pairs;

static int distance(const cluster *a, const cluster *b)
{
    int x = abs(a->first - b->last), y = abs(b->first - a->last);
    return x > y ? x : y;
}

static bool reads_of(const inductor *w, const cluster *from, const cluster *to, bool *matches)
{
    bool reads = false;
    *matches = true;
    for (int i = 0; i < to->reads.n; i++) {
        const dep *r = &to->reads.at[i];
        if (!fb_node_is_computed(w->g, r->buffer)) continue;
        if (&w->cluster[cluster_of(w, r->buffer)] != from) continue;
        reads = true;
        *matches &= r->key == 0;
    }
    return reads;
}

/* Buffers that one kernel alone reads could be reused if the two stayed apart (can_fusion_increase_peak_memory). */
static bool grows_peak(const inductor *w, const cluster *a, const cluster *b, int64_t saved)
{
    int64_t overhead = 0;
    for (int i = 0; i < a->reads.n; i++) {
        fb_id x = a->reads.at[i].buffer;
        if (!fb_node_is_computed(w->g, x) || n_readers(w, x) != 1) continue;
        for (int k = 0; k < b->reads.n; k++) {
            fb_id y = b->reads.at[k].buffer;
            if (y == x || !fb_node_is_computed(w->g, y) || n_readers(w, y) != 1) continue;
            if (w->g->nodes[x].dtype != w->g->nodes[y].dtype || fb_node_bytes(w->g, x) != fb_node_bytes(w->g, y))
                continue;
            overhead += fb_node_bytes(w->g, x);
            break;
        }
    }
    return (double)overhead > limit_of(FB_INDUCTOR_PEAK_FACTOR) * (double)saved;
}

static const char *loops(const cluster *c, char text[64])
{
    snprintf(text, 64, c->rnumel > 1 ? "%lld × %lld" : "%lld", (long long)c->numel, (long long)c->rnumel);
    return text;
}

static bool loops_fit(const cluster *a, const cluster *b)
{
    if (a->rnumel > 1 && b->rnumel > 1) return a->numel == b->numel && a->rnumel == b->rnumel;
    if (a->rnumel == 1 && b->rnumel == 1) return a->numel == b->numel;
    const cluster *red = a->rnumel > 1 ? a : b, *pw = a->rnumel > 1 ? b : a;
    return pw->numel == red->numel * red->rnumel || pw->numel == red->numel;
}

/* NULL, or why these two stay apart; `text` is room for it. */
static const char *apart(const inductor *w, fb_id sa, fb_id sb, char text[256])
{
    const cluster *a = &w->cluster[sa], *b = &w->cluster[sb];
    const value *va = &w->value[a->writes.at[0].buffer], *vb = &w->value[b->writes.at[0].buffer];
    const char *na = name_of(w, a->writes.at[0].buffer), *nb = name_of(w, b->writes.at[0].buffer);
    char la[64], lb[64];
    if (va->kind == EXTERNAL || vb->kind == EXTERNAL) {
        snprintf(text, 256, "`%s` is a library call (cuBLAS or the like): nothing is fused into it",
                 va->kind == EXTERNAL ? na : nb);
        return text;
    }
    if (va->kind == IN_PLACE || vb->kind == IN_PLACE) {
        snprintf(text, 256, "`%s` has no kernel: its parts are written straight to their places",
                 va->kind == IN_PLACE ? na : nb);
        return text;
    }
    if (va->kind == COPIED || vb->kind == COPIED) {
        snprintf(text, 256, "the parts of `%s` are copied one by one, in loops of their own",
                 va->kind == COPIED ? na : nb);
        return text;
    }
    if (a->n + b->n > limit_of(FB_INDUCTOR_FUSION_SIZE)) {
        snprintf(text, 256, "one kernel would hold %d buffers; %.0f is the most", a->n + b->n,
                 limit_of(FB_INDUCTOR_FUSION_SIZE));
        return text;
    }
    bool matches, vertical = reads_of(w, a, b, &matches);
    if (!vertical) vertical = reads_of(w, b, a, &matches);
    int64_t bytes = shared_bytes(a, b);
    if (vertical && !matches) return "one writes the elements in another order than the other reads them";
    if (bytes == 0) return "they share no data";
    if (!vertical && (double)bytes < limit_of(FB_INDUCTOR_SHARED_BYTES)) {
        snprintf(text, 256, "neither reads the other, and they share %lld bytes only; %.0f is the least",
                 (long long)bytes, limit_of(FB_INDUCTOR_SHARED_BYTES));
        return text;
    }
    if (!vertical && distance(a, b) > limit_of(FB_INDUCTOR_DISTANCE)) {
        snprintf(text, 256, "they are %d nodes apart; %.0f is the most", distance(a, b),
                 limit_of(FB_INDUCTOR_DISTANCE));
        return text;
    }
    if (!loops_fit(a, b)) {
        snprintf(text, 256, "their loops differ: %s and %s", loops(a, la), loops(b, lb));
        return text;
    }
    if (grows_peak(w, a, b, bytes)) return "fused, they would need more memory at once, by over 32 times what is saved";
    return NULL;
}

static bool blocked(const inductor *w, fb_id sa, fb_id sb)
{
    return fb_order_blocked(w->model, (fb_id[]){sa, sb}, 2, false) != FB_NONE;
}

static bool user_declined(const inductor *w, fb_id sa, fb_id sb)
{
    for (int i = 0; i < w->d->declined.n; i++) {
        fb_pair p = w->d->declined.at[i];
        if (p.b == FB_NONE) continue;
        fb_id x = cluster_of(w, p.a), y = cluster_of(w, p.b);
        if ((x == sa && y == sb) || (x == sb && y == sa)) return true;
    }
    return false;
}

static int by_score(const void *x, const void *y)
{
    const pair *a = x, *b = y;
    if (a->alike != b->alike) return b->alike - a->alike;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    if (a->distance != b->distance) return a->distance - b->distance;
    if (a->a != b->a) return a->a - b->a;
    return a->b - b->b;
}

typedef struct {
    fb_id buffer, user;
} use;

static int by_use(const void *x, const void *y)
{
    const use *a = x, *b = y;
    return a->buffer != b->buffer ? (a->buffer > b->buffer) - (a->buffer < b->buffer)
                                  : (a->user > b->user) - (a->user < b->user);
}

static int by_pair(const void *x, const void *y)
{
    const pair *a = x, *b = y;
    return a->a != b->a ? (a->a > b->a) - (a->a < b->a) : (a->b > b->b) - (a->b < b->b);
}

static void add_if_open(const inductor *w, fb_id sa, fb_id sb, pairs *out)
{
    char text[256];
    if (sa == sb || w->g->nodes[sa].region != w->g->nodes[sb].region) return;
    const cluster *a = &w->cluster[sa], *b = &w->cluster[sb];
    if (apart(w, sa, sb, text)) return;
    fb_id x = a->first < b->first ? sa : sb;
    pair p = {x, x == sa ? sb : sa, shared_bytes(a, b), (a->rnumel > 1) == (b->rnumel > 1), distance(a, b)};
    FB_VEC_PUSH(out, p);
}

/* Clusters that share a buffer, each pair once (scheduler.py get_possible_fusions). */
static void possible(const inductor *w, pairs *out)
{
    FB_VEC(use) uses = {0};
    for (fb_id i = 0; i < w->g->n_nodes; i++) {
        const cluster *c = &w->cluster[i];
        if (!c->n || !w->model->slot[i].n) continue;
        for (int k = 0; k < c->reads.n; k++) FB_VEC_PUSH(&uses, (use){c->reads.at[k].buffer, i});
        for (int k = 0; k < c->writes.n; k++) FB_VEC_PUSH(&uses, (use){c->writes.at[k].buffer, i});
    }
    if (uses.n) qsort(uses.at, (size_t)uses.n, sizeof *uses.at, by_use);
    int window = (int)limit_of(FB_INDUCTOR_PAIR_WINDOW);
    for (int i = 0; i < uses.n; i++)
        for (int k = i + 1; k < uses.n && k <= i + window && uses.at[k].buffer == uses.at[i].buffer; k++)
            add_if_open(w, uses.at[i].user, uses.at[k].user, out);
    FB_VEC_FREE(&uses);
    if (out->n) qsort(out->at, (size_t)out->n, sizeof *out->at, by_pair);
    int kept = 0;
    for (int i = 0; i < out->n; i++)
        if (!kept || by_pair(&out->at[kept - 1], &out->at[i]) != 0) out->at[kept++] = out->at[i];
    out->n = kept;
    if (out->n) qsort(out->at, (size_t)out->n, sizeof *out->at, by_score);
}

static void merge(inductor *w, fb_id sa, fb_id sb)
{
    fb_id both[] = {sa, sb};
    fb_order_merge(w->model, both, 2);
    fb_id s = fb_plan_join(w->model, both, 2), other = s == sa ? sb : sa;
    cluster *to = &w->cluster[s], *from = &w->cluster[other];
    to->first = to->first < from->first ? to->first : from->first;
    to->last = to->last > from->last ? to->last : from->last;
    to->n += from->n;
    if (from->rnumel > 1) to->numel = from->numel, to->rnumel = from->rnumel;
    to->reduction |= from->reduction;
    for (int i = 0; i < from->reads.n; i++) add_dep(&to->reads, from->reads.at[i]);
    for (int i = 0; i < from->writes.n; i++) add_dep(&to->writes, from->writes.at[i]);
    FB_VEC_FREE(&from->reads);
    FB_VEC_FREE(&from->writes);
    *from = (cluster){0};
}

static fb_candidate candidate(const pair *p)
{
    return (fb_candidate){FB_STEP_FUSE, p->a, p->b, (double)p->bytes};
}

/* Calls of the framework that are one kernel of a library's. */
static void take_calls(inductor *w)
{
    const fb_graph *g = w->g;
    for (fb_id first = 0; first < g->n_nodes; first++) {
        fb_ids inside = {0};
        for (fb_id i = first; fb_node_is_computed(g, first) && w->value[first].call == first && i < g->n_nodes; i++)
            if (fb_node_is_computed(g, i) && w->value[i].call == first) FB_VEC_PUSH(&inside, i);
        fb_candidate what = {FB_STEP_CALL, inside.n ? inside.at[inside.n - 1] : first, FB_NONE, NAN};
        if (inside.n > 1 &&
            fb_decide(w->d, what, (fb_beside){0}, "the library has one kernel for this call: %d nodes", inside.n)) {
            fb_taken *t = &w->d->taken.at[w->d->taken.n - 1];
            t->n_nodes = inside.n;
            t->nodes = fb_arena_copy(w->d->planner->arena, inside.at, (size_t)inside.n * sizeof *inside.at);
            for (int i = 1; i < inside.n; i++) {
                fb_id a = cluster_of(w, first), b = cluster_of(w, inside.at[i]);
                if (a != b && !blocked(w, a, b)) merge(w, a, b);
            }
        }
        FB_VEC_FREE(&inside);
    }
}

/* Sums that are a product's bias: one call with it. */
static void take_biases(inductor *w)
{
    for (fb_id i = 0; i < w->g->n_nodes; i++) {
        if (!fb_node_is_computed(w->g, i) || w->value[i].bias_of == FB_NONE) continue;
        pair p = {.a = w->value[i].bias_of, .b = i, .bytes = fb_node_bytes(w->g, w->value[i].bias_of)};
        if (blocked(w, cluster_of(w, p.a), cluster_of(w, i))) continue;
        if (fb_decide(w->d, candidate(&p), (fb_beside){0},
                      "addmm adds `%s`'s bias: what reads the sum is not all pointwise, or it has 16 bits",
                      name_of(w, p.a)))
            merge(w, cluster_of(w, p.a), cluster_of(w, i));
    }
}

/* One round over the candidates, best first; whether any was fused. */
static bool fuse_round(inductor *w)
{
    pairs open = {0};
    fb_candidates show = {0};
    bool any = false;
    possible(w, &open);
    for (int i = 0; i < open.n; i++) FB_VEC_PUSH(&show, candidate(&open.at[i]));
    for (int i = 0; i < open.n && !fb_decider_done(w->d); i++) {
        char text[256];
        fb_id sa = cluster_of(w, open.at[i].a), sb = cluster_of(w, open.at[i].b);
        if (sa == sb || user_declined(w, sa, sb) || apart(w, sa, sb, text) || blocked(w, sa, sb)) continue;
        bool matches, vertical = reads_of(w, &w->cluster[sa], &w->cluster[sb], &matches);
        if (!vertical) vertical = reads_of(w, &w->cluster[sb], &w->cluster[sa], &matches);
        int64_t bytes = shared_bytes(&w->cluster[sa], &w->cluster[sb]);
        char shared[32], at[64];
        if (!fb_decide(w->d, show.at[i], (fb_beside){show.at + i + 1, open.n - i - 1},
                       "most bytes shared: %s %s, in loops of %s",
                       vertical ? "one writes and the other reads" : "both read",
                       fb_format_bytes(shared, (double)bytes),
                       loops(w->cluster[sa].rnumel > 1 ? &w->cluster[sa] : &w->cluster[sb], at)))
            continue;
        merge(w, sa, sb);
        any = true;
    }
    FB_VEC_FREE(&open);
    FB_VEC_FREE(&show);
    return any;
}

/* What reads another kernel's buffer and is a kernel of its own in the end: why, once a pair of kernels. */
static void record_apart(inductor *w)
{
    pairs left = {0};
    for (fb_id i = 0; i < w->g->n_nodes; i++) {
        const cluster *c = &w->cluster[i];
        for (int k = 0; c->n && k < c->reads.n; k++) {
            fb_id from = c->reads.at[k].buffer;
            if (!fb_node_is_computed(w->g, from) || cluster_of(w, from) == i) continue;
            FB_VEC_PUSH(&left, (pair){.a = from, .b = c->writes.at[0].buffer, .bytes = c->reads.at[k].bytes});
        }
    }
    if (left.n) qsort(left.at, (size_t)left.n, sizeof *left.at, by_pair);
    for (int i = 0; i < left.n; i++) {
        char text[256];
        fb_id sa = cluster_of(w, left.at[i].a), sb = cluster_of(w, left.at[i].b);
        if ((i && by_pair(&left.at[i - 1], &left.at[i]) == 0) || user_declined(w, sa, sb)) continue;
        if (w->g->nodes[sa].region != w->g->nodes[sb].region) continue;
        const char *why = apart(w, sa, sb, text);
        if (!why)
            why = blocked(w, sa, sb) ? "a kernel between them needs one and feeds the other"
                                     : "the rounds of fusing were over";
        fb_decline_by_rule(w->d, candidate(&left.at[i]), (fb_beside){0}, "%s", why);
    }
    FB_VEC_FREE(&left);
}

static void decide_all(fb_decider *d)
{
    size_t n = (size_t)d->planner->g->n_nodes + 1;
    inductor w = {.d = d, .g = d->planner->g, .model = fb_plan_new(d->planner)};
    w.value = fb_calloc(n, sizeof *w.value);
    w.cluster = fb_calloc(n, sizeof *w.cluster);
    lower(&w);
    lower_on_record(&w);
    start_clusters(&w);
    take_calls(&w);
    take_biases(&w);
    for (int round = 0; round < limit_of(FB_INDUCTOR_ROUNDS) && fuse_round(&w);) round++;
    record_apart(&w);
    for (fb_id i = 0; i < w.g->n_nodes; i++) {
        FB_VEC_FREE(&w.value[i].reads);
        FB_VEC_FREE(&w.cluster[i].reads);
        FB_VEC_FREE(&w.cluster[i].writes);
    }
    fb_plan_free(w.model);
    fb_free(w.value);
    fb_free(w.cluster);
}

fb_plan *fb_inductor_plan(fb_decider *d)
{
    decide_all(d);
    fb_plan *plan = fb_decisions_apply(d, FB_LIBRARY_KEEP);
    for (int i = 0; i < d->taken.n; i++) {
        const fb_taken *t = &d->taken.at[i];
        if (t->what.kind != FB_STEP_CALL || !t->n_nodes || fb_decide_try_joined(plan, t->nodes, t->n_nodes)) continue;
        fb_step_unable(d, t->step, "no kernel here holds all %d nodes of the call", t->n_nodes);
    }
    fb_decide_convolutions(plan);
    return plan;
}
