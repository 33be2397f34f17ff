/* Every fusion that is legal and generated, edge by edge from the inputs on. */
#include "decide/decide.h"

/* Every edge is a decision; those that stand beside it are the next ones. */
static void decide_edges(fb_decider *d, const fb_pairs *edges)
{
    const fb_graph *g = d->planner->g;
    fb_candidates all = {0};
    for (int i = 0; i < edges->n; i++) {
        fb_candidate c = {FB_STEP_FUSE, edges->at[i].a, edges->at[i].b, (double)fb_node_bytes(g, edges->at[i].a)};
        FB_VEC_PUSH(&all, c);
    }
    for (int i = 0; i < all.n && !fb_decider_done(d); i++) {
        fb_beside beside = {all.at + i + 1, all.n - i - 1};
        fb_decide(d, all.at[i], beside, "the next edge from the inputs on: fused, `%s` is not stored for `%s`",
                  g->nodes[all.at[i].a].name, g->nodes[all.at[i].b].name);
    }
    FB_VEC_FREE(&all);
}

/* Its only rule is our legality, so that what that refuses the preset refuses; and around contractions the faster one
 * of a library call and a generated kernel, of one kernel and two, as predicted. */
fb_plan *fb_max_plan(fb_decider *d)
{
    const fb_planner *p = d->planner;
    fb_pairs edges = {0};
    fb_ids nodes = {0};
    for (fb_id i = 0; i < p->g->n_nodes; i++)
        if (fb_node_is_computed(p->g, i)) FB_VEC_PUSH(&nodes, i);
    fb_decide_edges(p, nodes.at, nodes.n, FB_NONE, &edges);
    decide_edges(d, &edges);
    FB_VEC_FREE(&edges);
    FB_VEC_FREE(&nodes);
    return fb_decisions_apply(d, FB_LIBRARY_WEIGH);
}
