/* Three walks: forward, where each node is simplified, folded and looked up among those before it, and stands for
 * itself or an earlier node afterwards; backward, marking what outputs and effects need; forward again, copying that
 * into a new graph. Order, names, lines and scopes of what stays do not change. */
#include "graph/canon.h"

#include "base/mem.h"
#include "graph/access.h"
#include "graph/build.h"
#include "graph/fold.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define uthash_malloc(bytes)      fb_alloc(bytes)
#define uthash_free(block, bytes) fb_free(block)
#include <uthash.h>

typedef struct {
    fb_id id;
    UT_hash_handle hh;
    int64_t key[]; /* op, region, op scope, attributes, operands */
} computed;

typedef struct {
    const fb_graph *g;
    fb_node *nodes;  /* working copies: operands replaced, perhaps simplified */
    fb_id *stands;   /* the node that each node is replaced by, itself as a rule */
    fb_id *op_scope; /* of each node */
    bool *live;
    fb_id *scope_to, *to; /* ids in the new graph, FB_NONE for gone */
    computed *table;
    fb_arena *scratch;
    fb_graph *out;
} pass;

/* ---- simplifying one node; its operands are simplified already ---- */

static fb_node *operand(const pass *p, const fb_node *n, int i)
{
    return &p->nodes[n->args[i]];
}

static bool is_identity(const pass *p, const fb_node *n)
{
    const fb_node *x = operand(p, n, 0);
    if (!fb_shape_equal(&n->shape, &x->shape)) return false;
    switch (n->op) {
    case FB_OP_VIEW:
    case FB_OP_EXPAND:
    case FB_OP_PAD:
    case FB_OP_SLICE: return true; /* a slice of the same shape is the whole */
    case FB_OP_FLIP:
        for (int i = 0; i < n->attrs->n_axes; i++)
            if (n->shape.dim[n->attrs->axes[i]] > 1) return false;
        return true;
    case FB_OP_PERMUTE:
        for (int i = 0; i < n->attrs->n_axes; i++)
            if (n->attrs->axes[i] != i) return false;
        return true;
    default: return false;
    }
}

static const fb_node *behind_views(const pass *p, fb_id id)
{
    const fb_node *n = &p->nodes[id];
    while (fb_op_get(n->op)->cls == FB_CLASS_VIEW && n->op != FB_OP_PAD) n = &p->nodes[n->args[0]];
    return n;
}

/* Zeros to which rows are added, as frameworks write it: an index_add begins at 0, so that it is never -0, which 0 would
 * change. FB_NONE: it is another addition. */
static fb_id added_to_zeros(const pass *p, const fb_node *n)
{
    for (int k = 0; k < 2 && n->op == FB_OP_ADD; k++) {
        const fb_node *zero = behind_views(p, n->args[k]), *x = operand(p, n, 1 - k);
        if (zero->op != FB_OP_CONST || zero->attrs->value != 0 || zero->dtype != n->dtype) continue;
        if (x->dtype == n->dtype && fb_shape_equal(&x->shape, &n->shape) &&
            behind_views(p, n->args[1 - k])->op == FB_OP_SCATTER_ADD)
            return n->args[1 - k];
    }
    return FB_NONE;
}

/* What view `n` of view `inner` is as one view: its attributes in *at. False where the two are not one. */
static bool merge(const fb_node *n, const fb_node *inner, fb_attrs *at)
{
    const fb_attrs *a = n->attrs, *b = inner->attrs;
    memcpy(at, a, sizeof *at);
    switch (n->op) {
    case FB_OP_VIEW:
    case FB_OP_EXPAND: return true;
    case FB_OP_PERMUTE:
        for (int i = 0; i < a->n_axes; i++) at->axes[i] = b->axes[a->axes[i]];
        return true;
    case FB_OP_SLICE:
        if (a->dim != b->dim) return false;
        at->start = b->start + a->start * b->step;
        at->step = a->step * b->step;
        if (a->stop - a->start <= 1) at->step = 1;
        at->stop = a->stop > a->start ? at->start + (a->stop - 1 - a->start) * b->step + 1 : at->start;
        return true;
    case FB_OP_PAD:
        for (int d = 0; d < FB_MAX_RANK; d++) {
            at->before[d] += b->before[d];
            at->after[d] += b->after[d];
        }
        return memcmp(&a->value, &b->value, sizeof a->value) == 0;
    case FB_OP_FLIP: {
        unsigned flipped = 0;
        for (int i = 0; i < a->n_axes; i++) flipped ^= 1u << a->axes[i];
        for (int i = 0; i < b->n_axes; i++) flipped ^= 1u << b->axes[i];
        memset(at->axes, 0, sizeof at->axes);
        at->n_axes = 0;
        for (int d = 0; d < FB_MAX_RANK; d++)
            if (flipped >> d & 1) at->axes[at->n_axes++] = d;
        return true;
    }
    default: return false;
    }
}

static const fb_id *one_operand(pass *p, fb_id id)
{
    return fb_arena_copy(p->scratch, &id, sizeof id);
}

/* An op scope's operands are what it is given: a view outside is not merged into one inside. */
static void merge_views(pass *p, fb_id id)
{
    fb_node *n = &p->nodes[id];
    fb_attrs at;
    for (;;) {
        fb_id below = n->args[0];
        const fb_node *inner = &p->nodes[below];
        if (inner->op != n->op || p->op_scope[below] != p->op_scope[id] || inner->region != n->region) return;
        if (!merge(n, inner, &at)) return;
        n->attrs = fb_arena_copy(p->scratch, &at, sizeof at);
        n->args = one_operand(p, inner->args[0]);
    }
}

static void become_constant(pass *p, fb_node *n, double value)
{
    fb_attrs *at = FB_NEW(p->scratch, fb_attrs);
    /* one NaN, as nodes that are added have: 0 / 0 has a sign on some machines */
    at->value = isnan(value) ? NAN : value;
    at->dtype = n->dtype;
    at->shape.rank = n->shape.rank; /* field by field: the record is hashed as bytes */
    for (int d = 0; d < n->shape.rank; d++) at->shape.dim[d] = n->shape.dim[d];
    n->op = FB_OP_CONST;
    n->attrs = at;
    n->n_args = 0;
    n->args = NULL;
}

static void fold(pass *p, fb_id id)
{
    fb_node *n = &p->nodes[id];
    fb_op_class cls = fb_op_get(n->op)->cls;
    double values[3] = {0}, value;
    if ((cls != FB_CLASS_POINTWISE && cls != FB_CLASS_VIEW) || n->n_args > 3) return;
    for (int i = 0; i < n->n_args; i++) {
        if (operand(p, n, i)->op != FB_OP_CONST) return;
        values[i] = operand(p, n, i)->attrs->value;
    }
    if (cls == FB_CLASS_VIEW) {
        if (n->op == FB_OP_PAD && memcmp(&n->attrs->value, &values[0], sizeof values[0]) != 0) return;
        become_constant(p, n, values[0]);
    } else if (fb_fold(n, operand(p, n, n->op == FB_OP_WHERE)->dtype, values, &value)) {
        become_constant(p, n, value);
    }
}

/* ---- common subexpressions ---- */

/* Data and effects are each their own; two loops are two, whatever they hold. */
static bool may_be_shared(fb_op op)
{
    fb_op_class cls = fb_op_get(op)->cls;
    return cls != FB_CLASS_EFFECT && op != FB_OP_INPUT && op != FB_OP_PARAM && op != FB_OP_LOOP;
}

static fb_id earlier_equal(pass *p, fb_id id)
{
    enum { HEAD = 5 };
    const fb_node *n = &p->nodes[id];
    size_t bytes = sizeof(int64_t) * (HEAD + (size_t)n->n_args);
    computed *entry = fb_arena_alloc(p->scratch, sizeof *entry + bytes), *found;
    entry->id = id;
    entry->key[0] = n->op;
    entry->key[1] = n->region;
    entry->key[2] = p->op_scope[id];
    fb_hash attrs = fb_hash_bytes(n->attrs, sizeof *n->attrs);
    entry->key[3] = (int64_t)attrs.high;
    entry->key[4] = (int64_t)attrs.low;
    for (int i = 0; i < n->n_args; i++) entry->key[HEAD + i] = n->args[i];
    HASH_FIND(hh, p->table, entry->key, bytes, found);
    if (found) return found->id;
    HASH_ADD_KEYPTR(hh, p->table, entry->key, bytes, entry);
    return id;
}

static void simplify_all(pass *p)
{
    const fb_graph *g = p->g;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        fb_node *n = &p->nodes[i];
        fb_id *args = FB_NEW_ARRAY(p->scratch, fb_id, n->n_args);
        for (int k = 0; k < n->n_args; k++) args[k] = p->stands[n->args[k]];
        n->args = args;
        p->stands[i] = i;
        p->op_scope[i] = fb_scope_op(g, n->scope);
        fold(p, i);
        if (fb_op_get(n->op)->cls == FB_CLASS_VIEW) {
            merge_views(p, i);
            if (is_identity(p, n)) {
                p->stands[i] = n->args[0];
                continue;
            }
        }
        fb_id sums = added_to_zeros(p, n);
        if (sums != FB_NONE) {
            p->stands[i] = sums;
            continue;
        }
        if (may_be_shared(n->op)) p->stands[i] = earlier_equal(p, i);
    }
}

/* ---- what is needed ---- */

static void mark(pass *p, fb_id id)
{
    if (id != FB_NONE) p->live[p->stands[id]] = true;
}

/* A loop needs all that its region hands on. */
static void mark_operands(pass *p, fb_id id)
{
    const fb_node *n = &p->nodes[id];
    for (int k = 0; k < n->n_args; k++) p->live[n->args[k]] = true;
    if (n->op != FB_OP_LOOP) return;
    const fb_region *r = &p->g->regions[n->attrs->region];
    for (int i = 0; i < r->n_carried; i++) mark(p, r->yields[i]);
    for (int i = 0; i < r->n_stacked; i++) mark(p, r->stacked[i]);
}

static void mark_live(pass *p)
{
    const fb_graph *g = p->g;
    for (int i = 0; i < g->n_outputs; i++) mark(p, g->outputs[i]);
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (!fb_node_is_output(g, i) || fb_op_get(g->nodes[i].op)->cls != FB_CLASS_EFFECT) continue;
        p->live[i] = true;
        for (fb_id r = g->nodes[i].region; r; r = g->regions[r].parent) p->live[g->regions[r].loop] = true;
    }
    for (fb_id i = g->n_nodes - 1; i >= 0; i--)
        if (p->live[i]) mark_operands(p, i);
}

/* ---- the new graph ---- */

static fb_id renumbered(const pass *p, fb_id old)
{
    return old == FB_NONE ? FB_NONE : p->to[p->stands[old]];
}

static const fb_id *renumber(pass *p, const fb_id *old, int n)
{
    fb_id *ids = FB_NEW_ARRAY(p->scratch, fb_id, n);
    for (int i = 0; i < n; i++) ids[i] = renumbered(p, old[i]);
    return ids;
}

/* New ids of the live nodes and of the scopes and regions that still hold one. A scope is FB_NONE until a live node is
 * seen in it, then 0 until it gets its number. */
static void number_all(pass *p, fb_id *region_to)
{
    const fb_graph *g = p->g;
    for (fb_id s = 0; s < g->n_scopes; s++) p->scope_to[s] = FB_NONE;
    for (fb_id i = 0, next = 0; i < g->n_nodes; i++) {
        p->to[i] = p->live[i] ? next++ : FB_NONE;
        for (fb_id s = g->nodes[i].scope; p->live[i] && s != FB_NONE && p->scope_to[s] == FB_NONE;
             s = g->scopes[s].parent)
            p->scope_to[s] = 0;
    }
    for (fb_id s = 0, next = 0; s < g->n_scopes; s++)
        if (p->scope_to[s] == 0) p->scope_to[s] = next++;
    for (fb_id r = 0, next = 0; r < g->n_regions; r++)
        region_to[r] = !r || p->live[g->regions[r].loop] ? next++ : FB_NONE;
}

static bool copy_scopes(pass *p, fb_error *err)
{
    for (fb_id i = 0; i < p->g->n_scopes; i++) {
        fb_scope s = p->g->scopes[i];
        if (p->scope_to[i] == FB_NONE) continue;
        if (s.parent != FB_NONE) s.parent = p->scope_to[s.parent];
        s.args = renumber(p, s.args, s.n_args);
        s.results = renumber(p, s.results, s.n_results);
        if (fb_build_scope(p->out, &s, err) == FB_NONE) return false;
    }
    return true;
}

static bool copy_regions(pass *p, const fb_id *region_to, fb_error *err)
{
    for (fb_id i = 1; i < p->g->n_regions; i++) {
        fb_region r = p->g->regions[i];
        if (region_to[i] == FB_NONE) continue;
        r.parent = region_to[r.parent];
        r.loop = p->to[r.loop];
        r.carried = renumber(p, r.carried, r.n_carried);
        r.yields = renumber(p, r.yields, r.n_carried);
        r.items = renumber(p, r.items, r.n_items);
        r.stacked = renumber(p, r.stacked, r.n_stacked);
        if (fb_build_region(p->out, &r, err) == FB_NONE) return false;
    }
    return true;
}

static bool copy_nodes(pass *p, const fb_id *region_to, fb_error *err)
{
    for (fb_id i = 0; i < p->g->n_nodes; i++) {
        fb_node n = p->nodes[i];
        if (!p->live[i]) continue;
        n.args = renumber(p, n.args, n.n_args);
        if (n.scope != FB_NONE) n.scope = p->scope_to[n.scope];
        n.region = region_to[n.region];
        fb_attrs at;
        if (n.op == FB_OP_LOOP) {
            memcpy(&at, n.attrs, sizeof at);
            at.region = region_to[at.region];
            n.attrs = &at;
        }
        if (fb_build_node(p->out, &n, err) == FB_NONE) return false;
    }
    return true;
}

/* A view of what is computed, which an output cannot be: it lies otherwise, or is a part. As a node of its own the copy
 * that this takes may be fused. */
static bool wants_copy(const fb_graph *g, fb_id id)
{
    fb_id base = fb_access_base(g, id), whole;
    if (base == id || (!fb_node_is_computed(g, base) && g->nodes[base].op != FB_OP_RESULT)) return false;
    return !fb_access_whole(g, id, &whole);
}

static fb_id add_copy(pass *p, fb_id view, fb_error *err)
{
    fb_node n = p->out->nodes[view];
    char name[FB_MAX_PATH];
    int number = 1;
    do {
        snprintf(name, sizeof name, number > 1 ? "%s_copy_%d" : "%s_copy", n.name, number);
        number++;
    } while (fb_build_taken(p->out, name));
    n = (fb_node){.op = FB_OP_COPY, .n_args = 1, .args = &view, .name = name, .line = n.line, .scope = n.scope};
    return fb_build_node(p->out, &n, err);
}

static bool copy_outputs(pass *p, fb_error *err)
{
    const fb_graph *g = p->g;
    fb_id *copied = FB_NEW_ARRAY(p->scratch, fb_id, p->out->n_nodes + 1);
    for (fb_id i = 0; i < p->out->n_nodes; i++) copied[i] = FB_NONE;
    for (int i = 0; i < g->n_outputs; i++) {
        fb_id id = renumbered(p, g->outputs[i]);
        if (wants_copy(p->out, id)) {
            if (copied[id] == FB_NONE) copied[id] = add_copy(p, id, err);
            id = copied[id];
        }
        if (id == FB_NONE || !fb_build_output(p->out, id, g->output_names[i], err)) return false;
    }
    return true;
}

fb_graph *fb_graph_canonical(const fb_graph *g, fb_error *err)
{
    FB_ASSERT(g->finished);
    fb_arena *scratch = fb_arena_new();
    pass p = {.g = g, .scratch = scratch, .out = fb_graph_new(g->title)};
    p.nodes = fb_arena_copy(scratch, g->nodes, (size_t)g->n_nodes * sizeof *g->nodes);
    p.stands = FB_NEW_ARRAY(scratch, fb_id, g->n_nodes);
    p.op_scope = FB_NEW_ARRAY(scratch, fb_id, g->n_nodes);
    p.live = FB_NEW_ARRAY(scratch, bool, g->n_nodes);
    p.to = FB_NEW_ARRAY(scratch, fb_id, g->n_nodes);
    p.scope_to = FB_NEW_ARRAY(scratch, fb_id, g->n_scopes);
    fb_id *region_to = FB_NEW_ARRAY(scratch, fb_id, g->n_regions);
    simplify_all(&p);
    mark_live(&p);
    number_all(&p, region_to);
    bool ok = copy_scopes(&p, err) && copy_regions(&p, region_to, err) && copy_nodes(&p, region_to, err) &&
              copy_outputs(&p, err) && fb_graph_finish(p.out, err);
    HASH_CLEAR(hh, p.table);
    fb_arena_free(scratch);
    p.out->canonical = ok;
    if (ok) return p.out;
    fb_graph_free(p.out);
    return NULL;
}
