/* What a plan as a whole forbids, told without a nest: cycles, sizes, order of assignments, what can be computed again,
 * what can be one kernel. A plan is asked, never changed. */
#include "base/mutate.h"
#include "graph/access.h"
#include "plan/parts.h"

#include <math.h>

enum { RECOMPUTED_TOGETHER = 256 };

/* ---- joining ---- */

static const char *slot_name(const fb_plan *plan, fb_id slot)
{
    return plan->planner->g->nodes[slot].name;
}

/* Blocked by order alone or by values too? */
static bool blocked(const fb_plan *plan, const fb_id *slots, int n, fb_verdict *why)
{
    fb_id through = fb_order_blocked(plan, slots, n, false);
    if (through == FB_NONE) return false;
    if (fb_order_blocked(plan, slots, n, true) == FB_NONE)
        *why = fb_verdict_make(
            FB_VERDICT_ILLEGAL, FB_RULE_WRITE_AFTER_READ,
            "`%s` still reads a parameter that `%s` and `%s`, in one kernel, would already have overwritten",
            slot_name(plan, through), slot_name(plan, slots[0]), slot_name(plan, slots[1]));
    else
        *why = fb_verdict_make(
            FB_VERDICT_ILLEGAL, FB_RULE_CYCLE,
            "the kernel of `%s` lies between: it would have to run both before and after the kernel of `%s` and `%s`",
            slot_name(plan, through), slot_name(plan, slots[0]), slot_name(plan, slots[1]));
    return true;
}

bool fb_plan_may_join(const fb_plan *plan, const fb_id *slots, int n, fb_verdict *why)
{
    const fb_graph *g = plan->planner->g;
    int total = 0;
    for (int i = 0; i < n; i++) {
        if (g->nodes[slots[i]].op == FB_OP_LOOP) return fb_may_own(plan->planner, slots[i], why);
        if (g->nodes[slots[i]].region != g->nodes[slots[0]].region)
            return FB_REFUSE(why, ILLEGAL, FB_RULE_REGION,
                             "`%s` and `%s` are in different loop bodies: one runs %.0f time%s, the other %.0f",
                             slot_name(plan, slots[0]), slot_name(plan, slots[i]),
                             fb_judge_region_trips(g, g->nodes[slots[0]].region),
                             fb_judge_region_trips(g, g->nodes[slots[0]].region) == 1 ? "" : "s",
                             fb_judge_region_trips(g, g->nodes[slots[i]].region));
        total += plan->slot[slots[i]].n;
    }
    if (total > FB_KERNEL_NODES)
        return FB_REFUSE(why, UNSUPPORTED, FB_RULE_SIZE, "one kernel would hold %d nodes; %d is the most", total,
                         FB_KERNEL_NODES);
    return !FB_MUTATE(23, blocked(plan, slots, n, why), false);
}

/* ---- recomputing ---- */

/* Recomputed nodes that hang together with `node` by edges; walks over them are as long. */
static int recomputed_with(const fb_plan *plan, fb_id node, int count)
{
    const fb_deps *d = plan->planner->deps;
    fb_mark(plan->planner, FB_MARK_SET, node);
    count++;
    for (int i = d->in_start[node]; i < d->in_start[node + 1] && count <= RECOMPUTED_TOGETHER; i++) {
        fb_id other = d->edges[i].producer;
        if (plan->recompute[other] && !fb_marked(plan->planner, FB_MARK_SET, other))
            count = recomputed_with(plan, other, count);
    }
    for (int k = d->out_start[node]; k < d->out_start[node + 1] && count <= RECOMPUTED_TOGETHER; k++) {
        fb_id other = d->edges[d->out[k]].consumer;
        if (plan->recompute[other] && !fb_marked(plan->planner, FB_MARK_SET, other))
            count = recomputed_with(plan, other, count);
    }
    return count;
}

static bool read_by_loop(const fb_planner *p, fb_id node)
{
    const fb_deps *d = p->deps;
    for (int k = d->out_start[node]; k < d->out_start[node + 1]; k++)
        if (p->g->nodes[d->edges[d->out[k]].consumer].op == FB_OP_LOOP) return true;
    return false;
}

bool fb_plan_may_recompute(const fb_plan *plan, fb_id node, fb_verdict *why)
{
    const fb_planner *p = plan->planner;
    const fb_node *n = &p->g->nodes[node];
    fb_op_class cls = fb_node_class(p->g, node);
    bool by_element = cls == FB_CLASS_POINTWISE || cls == FB_CLASS_JOIN || n->op == FB_OP_EMBEDDING;
    if (!by_element && !fb_node_is_short_reduction(p->g, node)) {
        char bytes[32], pass[96];
        int64_t read = 0;
        for (int k = 0; k < n->n_args; k++) read += fb_node_bytes(p->g, n->args[k]);
        snprintf(pass, sizeof pass, "costs a whole pass over the %s of its operands",
                 fb_format_bytes(bytes, (double)read));
        return FB_REFUSE(why, ILLEGAL, FB_RULE_RECOMPUTE,
                         "`%s` is not computed element by element: computing it again in each reader %s", n->name,
                         cls == FB_CLASS_EFFECT ? "would repeat its effect" : pass);
    }
    if (FB_MUTATE(24, p->keep[node], false))
        return FB_REFUSE(why, ILLEGAL, FB_RULE_RECOMPUTE,
                         "`%s` must end up in memory: it is an output, or carried to the next step", n->name);
    if (read_by_loop(p, node))
        return FB_REFUSE(why, ILLEGAL, FB_RULE_RECOMPUTE,
                         "`%s` is read inside a loop, which would compute it again at each step", n->name);
    fb_mark_begin(plan->planner, FB_MARK_SET);
    if (recomputed_with(plan, node, 0) > RECOMPUTED_TOGETHER)
        return FB_REFUSE(why, UNSUPPORTED, FB_RULE_RECOMPUTE,
                         "with `%s`, more than %d nodes that are computed again would feed each other", n->name,
                         RECOMPUTED_TOGETHER);
    return true;
}

/* ---- merging ---- */

bool fb_plan_may_merge(const fb_plan *plan, fb_id region, fb_verdict *why)
{
    const fb_graph *g = plan->planner->g;
    for (fb_id slot = 0; slot < g->n_nodes; slot++) {
        if (!plan->slot[slot].n || !fb_node_is_computed(g, slot)) continue;
        if (!fb_region_within(g, g->nodes[slot].region, region)) continue;
        if (plan->slot[slot].source)
            return FB_REFUSE(
                why, UNSUPPORTED, FB_RULE_KNOB,
                "`%s` has a kernel of its own in %s, which cannot become part of a larger one: generate it "
                "again first",
                g->nodes[slot].name, fb_file_name(plan->slot[slot].source->path));
        if (!fb_may_be_stage_of(plan->planner, fb_slots_analysis(plan, slot), region, why)) return false;
    }
    return true;
}

bool fb_plan_may_be_stage(const fb_plan *plan, const fb_analysis *a, fb_verdict *why)
{
    const fb_graph *g = plan->planner->g;
    if (plan->launch == FB_LAUNCH_MEGA) return fb_may_be_stage_of(plan->planner, a, 0, why);
    for (fb_id r = g->nodes[a->kernel.nodes[0]].region; r > 0; r = g->regions[r].parent)
        if (plan->slot[g->regions[r].loop].choice == FB_CHOICE_GENERATE)
            return fb_may_be_stage_of(plan->planner, a, r, why);
    return true;
}

/* ---- families, by what slots hold ---- */

bool fb_plan_library_takes(const fb_plan *plan, const fb_id *slots, int n, fb_verdict *why)
{
    fb_ids nodes = {0}, stored = {0};
    fb_plan_gather(plan, slots, n, &nodes, &stored);
    bool takes = fb_library_takes(plan->planner, &nodes, &stored, why);
    FB_VEC_FREE(&nodes);
    FB_VEC_FREE(&stored);
    return takes;
}

bool fb_plan_chain_takes(const fb_plan *plan, const fb_id *slots, int n)
{
    enum { MOST = 2 };
    int contractions = 0;
    for (int i = 0; i < n && contractions <= MOST; i++)
        for (fb_id node = slots[i]; node != FB_NONE; node = plan->next[node])
            contractions += fb_node_class(plan->planner->g, node) == FB_CLASS_CONTRACTION;
    return contractions <= MOST;
}
