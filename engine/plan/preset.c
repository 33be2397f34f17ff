#include "plan/preset.h"

#include "plan/plan_parts.h"

#include <string.h>

static fb_plan *make_none(fb_planner *p, fb_error *err)
{
    (void)err;
    return fb_plan_new(p);
}

/* ---- edges to grow along ---- */

/* Edges that carry a value to one of `nodes` from one inside `scope`, in topological order: by consumer. */
static void value_edges(const fb_planner *p, const fb_id *nodes, int n, fb_id scope, fb_pairs *out)
{
    const fb_deps *d = p->deps;
    for (int i = 0; i < n; i++) {
        for (int k = d->in_start[nodes[i]]; k < d->in_start[nodes[i] + 1]; k++) {
            fb_id from = d->edges[k].producer;
            if (d->edges[k].order_only || !fb_node_is_computed(p->g, from)) continue;
            if (fb_scope_within(p->g, p->g->nodes[from].scope, scope)) FB_VEC_PUSH(out, (fb_pair){from, nodes[i]});
        }
    }
}

static void grow_inside(fb_plan *plan, const fb_id *nodes, int n, fb_id scope)
{
    fb_pairs edges = {0};
    fb_growth growth = {.keep_library = true};
    value_edges(plan->planner, nodes, n, scope, &edges);
    fb_plan_grow(plan, edges.at, edges.n, &growth);
    FB_VEC_FREE(&edges);
}

static fb_plan *make_max(fb_planner *p, fb_error *err)
{
    (void)err;
    fb_plan *plan = fb_plan_new(p);
    fb_ids nodes = {0};
    for (fb_id i = 0; i < p->g->n_nodes; i++)
        if (fb_node_is_computed(p->g, i)) FB_VEC_PUSH(&nodes, i);
    grow_inside(plan, nodes.at, nodes.n, FB_NONE);
    FB_VEC_FREE(&nodes);
    return plan;
}

/* ---- eager: one kernel for each of the framework's own calls ---- */

/* The op scope nearest below `above` (FB_NONE: the graph) on the way down to `scope`; FB_NONE when there is none. */
static fb_id op_scope_below(const fb_graph *g, fb_id scope, fb_id above)
{
    fb_id found = FB_NONE;
    for (; scope != above && scope != FB_NONE; scope = g->scopes[scope].parent)
        if (g->scopes[scope].kind == FB_SCOPE_OP) found = scope;
    return found;
}

/* One group of all these nodes, where that is a kernel. */
static bool join_nodes(fb_plan *plan, const fb_id *nodes, int n)
{
    fb_verdict why;
    fb_analysis *to;
    fb_ids slots = {0};
    for (int i = 0; i < n; i++) FB_VEC_PUSH(&slots, plan->owner[nodes[i]]);
    bool good = n == 1 || (fb_may_join(plan, slots.at, n, &why) && fb_judge_join(plan, slots.at, n, &to, &why));
    if (good && n > 1) fb_commit_join(plan, slots.at, n, to);
    FB_VEC_FREE(&slots);
    return good;
}

/* Nodes of the op scope `scope`, in order: one kernel, or else a kernel for each op scope just below it and for each
 * other node, and then as few as its own edges allow. */
static void group_scope(fb_plan *plan, fb_id scope, const fb_id *nodes, int n)
{
    const fb_graph *g = plan->planner->g;
    if (join_nodes(plan, nodes, n)) return;
    fb_ids inner = {0};
    bool *done = fb_calloc((size_t)n, sizeof *done);
    for (int i = 0; i < n; i++) {
        fb_id child = op_scope_below(g, g->nodes[nodes[i]].scope, scope);
        if (child == FB_NONE || done[i]) continue;
        inner.n = 0;
        for (int k = i; k < n; k++) {
            if (!fb_scope_within(g, g->nodes[nodes[k]].scope, child)) continue;
            done[k] = true;
            FB_VEC_PUSH(&inner, nodes[k]);
        }
        group_scope(plan, child, inner.at, inner.n);
    }
    fb_free(done);
    FB_VEC_FREE(&inner);
    grow_inside(plan, nodes, n, scope);
}

static fb_plan *make_eager(fb_planner *p, fb_error *err)
{
    (void)err;
    const fb_graph *g = p->g;
    fb_plan *plan = fb_plan_new(p);
    fb_ids *inside = fb_calloc((size_t)g->n_scopes + 1, sizeof *inside);
    for (fb_id i = 0; i < g->n_nodes; i++) {
        fb_id scope = fb_node_is_computed(g, i) ? op_scope_below(g, g->nodes[i].scope, FB_NONE) : FB_NONE;
        if (scope != FB_NONE) FB_VEC_PUSH(&inside[scope], i);
    }
    for (fb_id s = 0; s < g->n_scopes; s++) {
        if (inside[s].n) group_scope(plan, s, inside[s].at, inside[s].n);
        FB_VEC_FREE(&inside[s]);
    }
    fb_free(inside);
    return plan;
}

/* ---- the table ---- */

static const fb_preset table[] = {
    {"none", "every primitive its own kernel", make_none},
    {"eager", "one kernel for each call of the framework: what PyTorch launches without a compiler", make_eager},
    {"max", "every fusion that is legal and generated, library calls kept", make_max},
};

int fb_presets(void)
{
    return sizeof table / sizeof *table;
}

const fb_preset *fb_preset_at(int i)
{
    return i >= 0 && i < fb_presets() ? &table[i] : NULL;
}

const fb_preset *fb_preset_find(const char *name)
{
    for (int i = 0; i < fb_presets(); i++)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    return NULL;
}
