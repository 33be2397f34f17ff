/* A loop as one kernel by one decision: its products are generated, for such a kernel can call no library, what is made
 * of them goes into the same stage, so that blocks meet as seldom as can be or, as a recurrence in clusters, not at
 * all (plan/recurrence.c), and then the loop is made one. Each of these steps alone may be predicted to cost.
 *
 * requires  a plan, and a loop of its graph
 * provides  the plan after all of that, and the verdict of the last step
 */
#include "decide/whole_loop.h"

#include "plan/parts.h"

static bool is_inside(const fb_graph *g, fb_id node, fb_id region)
{
    return fb_region_within(g, g->nodes[node].region, region);
}

/* Takes the plan; the same one where the edit cannot be made. */
static fb_plan *edited(fb_plan *plan, const fb_edit *e, fb_verdict *v)
{
    fb_plan *next = NULL;
    *v = fb_plan_try(plan, e, &next);
    if (!next) return plan;
    fb_plan_free(plan);
    return next;
}

fb_plan *fb_decide_whole_loop(const fb_plan *plan, fb_id loop, fb_verdict *v)
{
    const fb_graph *g = plan->planner->g;
    const fb_deps *d = fb_planner_deps(plan->planner);
    fb_id region = g->nodes[loop].attrs->region;
    fb_plan *to = fb_plan_copy(plan);
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == FB_OP_MATMUL && is_inside(g, i, region))
            to = edited(to, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = i, .b = FB_NONE}, v);
    for (int i = 0; i < d->n_edges; i++) {
        fb_edit e = {.kind = FB_EDIT_FUSE, .a = d->edges[i].producer, .b = d->edges[i].consumer};
        if (is_inside(g, e.a, region) && is_inside(g, e.b, region)) to = edited(to, &e, v);
    }
    to = edited(to, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = loop, .b = FB_NONE}, v);
    if (v->kind <= FB_VERDICT_SLOWER) return to;
    fb_plan_free(to);
    return NULL;
}
