/* Making a failing case small: one change after the other, each kept when the case still fails. */
#include "measure/fuzz_parts.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "graph/build.h"
#include "graph/canon.h"

#include <string.h>

/* What is done to a graph; fields that are not used hold FB_NONE. */
typedef struct {
    fb_id source;     /* becomes an input of its shape and dtype */
    fb_id bypassed;   /* is replaced by its operand … */
    int operand;      /* … of this number */
    int output;       /* is left out; with only_output, all but this one */
    bool only_output; /* and no effects */
    fb_id dropped;    /* an effect that is left out */
    int64_t dim, to;  /* sizes of `dim` become `to` */
    int dtype;        /* becomes f32 */
    bool no_scopes;
} change;

static const change nothing = {
    .source = FB_NONE, .bypassed = FB_NONE, .output = FB_NONE, .dropped = FB_NONE, .dim = FB_NONE, .dtype = FB_NONE};

static bool is_gone(const fb_graph *g, fb_id i, const change *c)
{
    fb_op op = g->nodes[i].op;
    return i == c->dropped || (c->only_output && (op == FB_OP_ASSIGN || op == FB_OP_RECEIVE));
}

static void change_dims(const change *c, fb_shape *s)
{
    for (int d = 0; c->dim != FB_NONE && d < s->rank; d++)
        if (s->dim[d] == c->dim) s->dim[d] = c->to;
}

static void change_attrs(const change *c, const fb_node *n, fb_attrs *at)
{
    change_dims(c, &at->shape);
    if (c->dtype != FB_NONE && at->dtype == (fb_dtype)c->dtype) at->dtype = FB_F32;
    if (c->dim == FB_NONE) return;
    if (n->op == FB_OP_SCATTER_ADD && at->start == c->dim) at->start = c->to;
    if (n->op != FB_OP_SLICE) return;
    if (at->start >= c->to) at->start = c->to ? c->to - 1 : 0;
    if (at->stop > c->to) at->stop = c->to;
}

static bool kept_output(const change *c, int i)
{
    return c->output == FB_NONE || (c->only_output ? i == c->output : i != c->output);
}

/* A slice's stop is within what its operand has now. */
static void fit_slice(const fb_graph *out, const fb_node *n, fb_attrs *at)
{
    if (n->op != FB_OP_SLICE) return;
    int64_t size = out->nodes[n->args[0]].shape.dim[at->dim];
    if (at->stop > size) at->stop = size;
    if (at->start > at->stop) at->start = at->stop;
}

static bool copy_node(const fb_graph *g, fb_graph *out, fb_id i, fb_id *to, const change *c, fb_error *err)
{
    fb_node n = g->nodes[i];
    fb_id args[64];
    if (is_gone(g, i, c)) {
        to[i] = FB_NONE;
        return true;
    }
    if (i == c->bypassed) {
        if (c->operand >= n.n_args) return false;
        to[i] = to[n.args[c->operand]];
        return to[i] != FB_NONE;
    }
    if (n.n_args > 64) return false;
    for (int k = 0; k < n.n_args; k++)
        if ((args[k] = to[n.args[k]]) == FB_NONE) return false;
    fb_attrs at;
    memcpy(&at, n.attrs, sizeof at);
    n.args = args;
    change_attrs(c, &n, &at);
    fit_slice(out, &n, &at);
    if (i == c->source) {
        fb_shape shape = n.shape;
        bool f = fb_dtype_is_float(n.dtype);
        change_dims(c, &shape);
        memset(&at, 0, sizeof at);
        at.shape = shape, at.dtype = n.dtype;
        at.dist = f ? FB_DIST_UNIFORM : FB_DIST_INTEGER;
        at.value = f ? -1 : 0, at.high = n.dtype == FB_BOOL ? 2 : f ? 1 : 4;
        n.op = FB_OP_INPUT, n.n_args = 0;
    }
    n.attrs = &at;
    if (c->no_scopes) n.scope = FB_NONE;
    return (to[i] = fb_build_node(out, &n, err)) != FB_NONE;
}

static const fb_id *renumbered(fb_arena *arena, const fb_id *old, int n, const fb_id *to)
{
    fb_id *ids = FB_NEW_ARRAY(arena, fb_id, n);
    for (int i = 0; i < n; i++) ids[i] = old[i] == FB_NONE ? FB_NONE : to[old[i]];
    return ids;
}

/* Scopes and regions name nodes that come later: only graphs whose nodes keep their numbers can have them copied. */
static bool copy_frames(const fb_graph *g, fb_graph *out, const fb_id *to, const change *c, fb_arena *arena,
                        fb_error *err)
{
    for (fb_id i = 0; i < g->n_scopes && !c->no_scopes; i++) {
        fb_scope s = g->scopes[i];
        s.args = renumbered(arena, s.args, s.n_args, to);
        s.results = renumbered(arena, s.results, s.n_results, to);
        if (fb_build_scope(out, &s, err) == FB_NONE) return false;
    }
    for (fb_id i = 1; i < g->n_regions; i++) {
        fb_region r = g->regions[i];
        r.loop = to[r.loop];
        r.carried = renumbered(arena, r.carried, r.n_carried, to);
        r.yields = renumbered(arena, r.yields, r.n_carried, to);
        r.items = renumbered(arena, r.items, r.n_items, to);
        r.stacked = renumbered(arena, r.stacked, r.n_stacked, to);
        if (fb_build_region(out, &r, err) == FB_NONE) return false;
    }
    return true;
}

/* Where nodes will be: known before any is built. */
static void number(const fb_graph *g, const change *c, fb_id *to)
{
    fb_id next = 0;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        const fb_node *n = &g->nodes[i];
        if (i == c->bypassed)
            to[i] = c->operand < n->n_args ? to[n->args[c->operand]] : FB_NONE;
        else
            to[i] = is_gone(g, i, c) ? FB_NONE : next++;
    }
}

static fb_graph *changed(const fb_graph *g, const change *c)
{
    fb_error err;
    fb_arena *arena = fb_arena_new();
    fb_graph *out = fb_graph_new(g->title), *canonical = NULL;
    fb_id *to = FB_NEW_ARRAY(arena, fb_id, g->n_nodes);
    number(g, c, to);
    bool ok = copy_frames(g, out, to, c, arena, &err);
    for (fb_id i = 0; ok && i < g->n_nodes; i++) ok = copy_node(g, out, i, to, c, &err);
    for (int i = 0; ok && i < g->n_outputs; i++)
        if (kept_output(c, i)) ok = fb_build_output(out, to[g->outputs[i]], g->output_names[i], &err);
    if (ok && fb_graph_finish(out, &err)) canonical = fb_graph_canonical(out, &err);
    fb_graph_free(out);
    fb_arena_free(arena);
    return canonical;
}

/* ---- the search ---- */

typedef struct {
    fb_graph *g;
    json_t *plan;
    const fb_machine *m;
    int trials;
    fb_fuzz_still still;
    void *ctx;
} shrinking;

/* The plan on another graph, as far as its nodes are there; NULL: there is none. */
static json_t *plan_on(const shrinking *s, const fb_graph *g, const json_t *plan)
{
    fb_error err;
    fb_planner *p = fb_planner_new(g, s->m);
    fb_plan *made = fb_plan_from_json(p, plan, false, NULL, &err);
    json_t *json = made ? fb_plan_to_json(made) : NULL;
    fb_plan_free(made);
    fb_planner_free(p);
    return json;
}

/* Takes what it is given, or frees it. */
static bool try_case(shrinking *s, fb_graph *g, json_t *plan)
{
    if (g && plan && s->trials-- > 0 && s->still(s->ctx, g, plan)) {
        if (g != s->g) fb_graph_free(s->g);
        json_decref(s->plan);
        s->g = g;
        s->plan = plan;
        return true;
    }
    json_decref(plan);
    if (g && g != s->g) fb_graph_free(g);
    return false;
}

static bool leaves_anything(const fb_graph *g)
{
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (fb_node_is_output(g, i)) return true;
    return false;
}

static bool try_change(shrinking *s, const change *c)
{
    if (s->trials <= 0) return false;
    fb_graph *g = changed(s->g, c);
    if (!g || fb_hash_equal(g->hash, s->g->hash) || g->n_nodes > s->g->n_nodes || !leaves_anything(g)) {
        if (g) fb_graph_free(g);
        return false;
    }
    return try_case(s, g, plan_on(s, g, s->plan));
}

static bool fewer_outputs(shrinking *s)
{
    bool any = false;
    for (int i = 0; i < s->g->n_outputs; i++) {
        change c = nothing;
        c.output = i, c.only_output = true;
        if (try_change(s, &c)) return true;
    }
    for (int i = s->g->n_outputs - 1; i >= 0; i--) {
        change c = nothing;
        c.output = i;
        if (i < s->g->n_outputs) any |= try_change(s, &c);
    }
    for (fb_id i = s->g->n_nodes - 1; i >= 0; i--) {
        change c = nothing;
        c.dropped = i;
        if (i >= s->g->n_nodes || fb_op_get(s->g->nodes[i].op)->cls != FB_CLASS_EFFECT) continue;
        if (s->g->nodes[i].op != FB_OP_FEED) any |= try_change(s, &c);
    }
    return any;
}

static bool fewer_nodes(shrinking *s)
{
    bool any = false;
    for (fb_id i = s->g->n_nodes - 1; i >= 0; i--) {
        change c = nothing;
        if (i >= s->g->n_nodes) continue;
        const fb_node *n = &s->g->nodes[i];
        if (n->op == FB_OP_LOOP || n->op == FB_OP_ASSIGN || n->region) continue;
        if (fb_op_get(n->op)->cls != FB_CLASS_SOURCE) {
            c.source = i;
            if (try_change(s, &c)) {
                any = true;
                continue;
            }
            c.source = FB_NONE;
        }
        for (int k = 0; i < s->g->n_nodes && k < s->g->nodes[i].n_args && k < 4; k++) {
            c.bypassed = i, c.operand = k;
            if (try_change(s, &c)) {
                any = true;
                break;
            }
        }
    }
    return any;
}

static bool smaller_dims(shrinking *s)
{
    bool any = false;
    FB_VEC(int64_t) sizes = {0};
    for (fb_id i = 0; i < s->g->n_nodes; i++)
        for (int d = 0; d < s->g->nodes[i].shape.rank; d++) {
            int64_t size = s->g->nodes[i].shape.dim[d];
            bool there = size < 2;
            for (int k = 0; k < sizes.n; k++) there |= sizes.at[k] == size;
            if (!there) FB_VEC_PUSH(&sizes, size);
        }
    for (int k = 0; k < sizes.n; k++) {
        const int64_t to[] = {1, 2, 3, sizes.at[k] / 2, sizes.at[k] - 1};
        for (int t = 0; t < 5; t++) {
            change c = nothing;
            c.dim = sizes.at[k], c.to = to[t];
            if (c.to >= c.dim || !try_change(s, &c)) continue;
            any = true;
            break;
        }
    }
    FB_VEC_FREE(&sizes);
    return any;
}

static bool simpler_dtypes(shrinking *s)
{
    bool any = false;
    static const fb_dtype dtypes[] = {FB_F64, FB_F16, FB_BF16};
    for (int i = 0; i < 3; i++) {
        change c = nothing;
        c.dtype = (int)dtypes[i];
        any |= try_change(s, &c);
    }
    return any;
}

/* Groups that need not be: each dropped from the plan file, its nodes then on their own. */
static bool fewer_groups(shrinking *s)
{
    bool any = false;
    static const char *const lists[] = {"groups", "recompute"};
    for (int l = 0; l < 2; l++)
        for (size_t i = json_array_size(json_object_get(s->plan, lists[l])); i-- > 0;) {
            json_t *plan = json_deep_copy(s->plan);
            json_array_remove(json_object_get(plan, lists[l]), i);
            json_t *settled = s->trials > 0 ? plan_on(s, s->g, plan) : NULL;
            json_decref(plan);
            any |= try_case(s, s->g, settled);
        }
    return any;
}

/* And single nodes of those that must. */
static bool smaller_groups(shrinking *s)
{
    bool any = false;
    for (size_t i = 0; i < json_array_size(json_object_get(s->plan, "groups")); i++) {
        const json_t *group = json_array_get(json_object_get(s->plan, "groups"), i);
        for (size_t k = json_array_size(json_object_get(group, "nodes")); k-- > 0;) {
            json_t *plan = json_deep_copy(s->plan);
            json_t *nodes = json_object_get(json_array_get(json_object_get(plan, "groups"), i), "nodes");
            json_array_remove(nodes, k);
            json_t *settled = s->trials > 0 ? plan_on(s, s->g, plan) : NULL;
            json_decref(plan);
            if (!try_case(s, s->g, settled)) continue;
            any = true;
            break;
        }
    }
    return any;
}

void fb_fuzz_shrink(fb_graph **g, json_t **plan, const fb_machine *m, int trials, fb_fuzz_still still, void *ctx)
{
    shrinking s = {.g = *g, .plan = *plan, .m = m, .trials = trials, .still = still, .ctx = ctx};
    change flat = nothing;
    flat.no_scopes = true;
    for (bool any = true; any && s.trials > 0;) {
        any = fewer_outputs(&s);
        any |= fewer_nodes(&s);
        any |= fewer_groups(&s);
        any |= smaller_groups(&s);
        any |= smaller_dims(&s);
        any |= simpler_dtypes(&s);
        if (s.g->n_scopes) any |= try_change(&s, &flat);
    }
    *g = s.g;
    *plan = s.plan;
}
