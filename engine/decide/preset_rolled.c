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

static double us_of(const fb_plan *plan)
{
    fb_plan_cost c;
    fb_plan_cost_of(plan, &c);
    return c.us;
}

static void tell_whole(const fb_plan *before, const fb_plan *whole, const char *verdict, fb_str *why)
{
    char from[32], to[32];
    fb_format_us(from, us_of(before)), fb_format_us(to, us_of(whole));
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
    bool whole_pays = whole && us_of(whole) < us_of(plain_pays ? plain : plan);
    if (whole && (whole_pays || !plain_pays))
        tell_whole(plan, whole, all.text, why);
    else
        fb_str_add(why, v.text);
    fb_plan *faster = whole_pays ? whole : plain_pays ? plain : NULL;
    if (faster != plain) fb_plan_free(plain);
    if (faster != whole) fb_plan_free(whole);
    return faster;
}

/* Decides on a loop that was found, and returns the plan that goes on. */
static fb_plan *merge_loop(fb_decider *d, fb_plan *plan, fb_id loop)
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

static fb_plan *merge_found(fb_decider *d, fb_plan *plan)
{
    fb_planner *p = plan->planner;
    for (fb_id i = 0; i < p->g->n_nodes && !fb_decider_done(d); i++)
        if (p->g->nodes[i].op == FB_OP_LOOP && fb_planner_roll(p)->was[i] == FB_NONE) plan = merge_loop(d, plan, i);
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
