/* A loop as one kernel by one decision: its products are generated, for such a kernel can call no library, what is made
 * of them goes into the same stage, so that blocks meet as seldom as can be or, as a recurrence in clusters, not at
 * all (plan/recurrence.c), and then the loop is made one. Each of these steps alone may be predicted to cost.
 *
 * requires  a plan, and a loop of its graph
 * provides  the plan after all of that, and the verdict of the last step
 */
#include "decide/whole_loop.h"

#include "plan/parts.h"

#include <math.h>

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

static void tell_whole(const fb_plan *before, const fb_plan *whole, const char *verdict, fb_str *why)
{
    char from[32], to[32];
    fb_format_us(from, fb_plan_us(before)), fb_format_us(to, fb_plan_us(whole));
    fb_str_addf(why,
                "with its products generated and all of a step in one stage, %s → %s predicted for the whole run: %s",
                from, to, verdict);
}

/* The plan with that loop as one kernel, as it has the loop's body or, where that is faster, with all of a step in one
 * stage. NULL where neither is predicted to be faster than loops of launches. */
static fb_plan *faster_as_one(const fb_plan *plan, fb_id loop, fb_str *why)
{
    fb_plan *plain = NULL;
    const fb_edit edit = {.kind = FB_EDIT_GENERATE, .a = loop, .b = FB_NONE};
    fb_verdict v = fb_plan_try(plan, &edit, &plain), all = {0};
    fb_plan *whole = fb_decide_whole_loop(plan, loop, &all);
    bool plain_pays = plain && v.kind == FB_VERDICT_FINE;
    bool whole_pays = whole && fb_plan_us(whole) < fb_plan_us(plain_pays ? plain : plan);
    if (whole && (whole_pays || !plain_pays))
        tell_whole(plan, whole, all.text, why);
    else
        fb_str_add(why, v.text);
    fb_plan *faster = whole_pays ? whole : plain_pays ? plain : NULL;
    if (faster != plain) fb_plan_free(plain);
    if (faster != whole) fb_plan_free(whole);
    return faster;
}

fb_plan *fb_decide_loop(fb_decider *d, fb_plan *plan, fb_id loop)
{
    const fb_candidate what = {FB_STEP_GENERATE, loop, FB_NONE, NAN};
    fb_str why = {0};
    fb_plan *next = faster_as_one(plan, loop, &why);
    if (!next) fb_decline_by_rule(d, what, (fb_beside){0}, "%s", fb_str_get(&why));
    bool taken = next && fb_decide(d, what, (fb_beside){0}, "%s", fb_str_get(&why));
    fb_str_free(&why);
    fb_plan_free(taken ? plan : next);
    return taken ? next : plan;
}
