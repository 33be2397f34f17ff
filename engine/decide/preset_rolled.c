/* max, of the graph with its steps as loops, and each loop that was found as one kernel where that is predicted to pay.
 */
#include "decide/decide.h"

#include "decide/whole_loop.h"

#include <math.h>

/* Is it a decision to have loops for steps? What is no loop is on record, with what keeps it from being one. */
static bool decide_roll(fb_decider *d)
{
    const fb_roll *r = fb_planner_roll(d->planner);
    if (!r || !r->n || fb_decider_done(d)) return false;
    fb_candidate what = {FB_STEP_ROLL, r->finds[0].node, FB_NONE, NAN};
    fb_plan *none = fb_plan_new(d->planner);
    fb_edit e = {.kind = FB_EDIT_ROLL, .a = FB_NONE, .b = FB_NONE, .value = 1};
    fb_verdict v = {0};
    if (d->log) v = fb_plan_try(none, &e, NULL);
    fb_plan_free(none);
    if (r->graph) return fb_decide(d, what, (fb_beside){0}, "%s", v.text);
    fb_decline_by_rule(d, what, (fb_beside){0}, "%s", v.text);
    return false;
}

static fb_plan *merge_found(fb_decider *d, fb_plan *plan)
{
    fb_planner *p = plan->planner;
    for (fb_id i = 0; i < p->g->n_nodes && !fb_decider_done(d); i++)
        if (p->g->nodes[i].op == FB_OP_LOOP && fb_planner_roll(p)->was[i] == FB_NONE) plan = fb_decide_loop(d, plan, i);
    return plan;
}

/* Where no step is a loop it is max. */
fb_plan *fb_rolled_plan(fb_decider *d)
{
    bool already = fb_planner_written(d->planner) != d->planner;
    if (!already && !decide_roll(d)) return fb_max_plan(d);
    d->planner = fb_planner_rolled(d->planner);
    return merge_found(d, fb_max_plan(d));
}
