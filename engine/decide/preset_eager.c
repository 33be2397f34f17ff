/* One kernel for each of the framework's own calls, where there is such a kernel; else as few as its own edges allow. Needs
 * the scopes that scripts and the importer put around a call.
 */
#include "decide/decide.h"

#include <math.h>

static void grow_inside(fb_plan *plan, const fb_id *nodes, int n, fb_id scope)
{
    fb_pairs edges = {0};
    fb_growth growth = {.keep_library = true};
    fb_decide_edges(plan->planner, nodes, n, scope, &edges);
    fb_plan_grow(plan, edges.at, edges.n, &growth);
    FB_VEC_FREE(&edges);
}

/* The op scope nearest below `above` (FB_NONE: the graph) on the way down to `scope`; FB_NONE when there is none. */
static fb_id op_scope_below(const fb_graph *g, fb_id scope, fb_id above)
{
    fb_id found = FB_NONE;
    for (; scope != above && scope != FB_NONE; scope = g->scopes[scope].parent)
        if (g->scopes[scope].kind == FB_SCOPE_OP) found = scope;
    return found;
}

/* Nodes of the op scope `scope`, in order: one kernel, or else a kernel for each op scope just below it and for each
 * other node, and then as few as its own edges allow. */
static void group_scope(fb_plan *plan, fb_id scope, const fb_id *nodes, int n)
{
    const fb_graph *g = plan->planner->g;
    if (fb_decide_try_joined(plan, nodes, n)) return;
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

static void decide_call(fb_decider *d, fb_plan *plan, const fb_scope *scope, const fb_ids *inside)
{
    fb_candidate what = {FB_STEP_CALL, inside->at[inside->n - 1], FB_NONE, NAN};
    if (fb_decide(d, what, (fb_beside){0}, "`%s` is one call of the framework: %d nodes", scope->path, inside->n))
        group_scope(plan, (fb_id)(scope - plan->planner->g->scopes), inside->at, inside->n);
}

fb_plan *fb_eager_plan(fb_decider *d)
{
    fb_planner *p = d->planner;
    const fb_graph *g = p->g;
    fb_plan *plan = fb_plan_new(p);
    fb_ids *inside = fb_calloc((size_t)g->n_scopes + 1, sizeof *inside);
    for (fb_id i = 0; i < g->n_nodes; i++) {
        fb_id scope = fb_node_is_computed(g, i) ? op_scope_below(g, g->nodes[i].scope, FB_NONE) : FB_NONE;
        if (scope != FB_NONE) FB_VEC_PUSH(&inside[scope], i);
    }
    for (fb_id s = 0; s < g->n_scopes; s++) {
        if (inside[s].n > 1) decide_call(d, plan, &g->scopes[s], &inside[s]);
        FB_VEC_FREE(&inside[s]);
    }
    fb_free(inside);
    return plan;
}
