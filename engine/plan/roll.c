/* A plan of written out steps becomes one of loops, and back: what was decided goes along.
 *
 * The two graphs are known node by node (graph/roll.h). Nodes share a kernel in the new plan where those that they were
 * do in the old one, as far as that is legal. Of the steps that become a body the decisions of one are taken; a body's
 * are those of each step. Kernels that go over from step to step, or from a step to what is around, end there. */
#include "plan/parts.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const fb_plan *from;
    fb_plan *to;
    const fb_roll *r;
    bool rolled;
} carrier;

/* What a node of the new plan is in the old one's graph; FB_NONE. */
static fb_id before(const carrier *c, fb_id node)
{
    return c->rolled ? c->r->was[node] : c->r->is[node];
}

/* Nodes of one kernel in the old plan have equal keys; those of different steps of a body do not. */
typedef struct {
    fb_id slot, node;
    int member;
} place;

static int by_slot(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->slot != y->slot) return x->slot < y->slot ? -1 : 1;
    if (x->member != y->member) return x->member < y->member ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

static place place_of(const carrier *c, fb_id node)
{
    fb_id was = before(c, node);
    place p = {.slot = FB_NONE, .node = node, .member = c->rolled ? 0 : c->r->member[node]};
    if (was != FB_NONE && fb_node_is_computed(c->to->planner->g, node)) p.slot = c->from->owner[was];
    return p;
}

static bool same_kernel(const place *a, const place *b)
{
    return a->slot != FB_NONE && a->slot == b->slot && a->member == b->member;
}

/* What was asked for, where there is a choice. */
static void carry_choices(carrier *c)
{
    const fb_graph *g = c->to->planner->g;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        fb_id was = before(c, i), own = c->to->owner[i];
        if (was == FB_NONE || own == FB_NONE || fb_node_class(g, i) != FB_CLASS_CONTRACTION) continue;
        if (c->from->owner[was] == FB_NONE) continue;
        c->to->slot[own].choice = c->from->slot[c->from->owner[was]].choice;
        fb_slots_forget(c->to, own);
        if (fb_slots_analysis(c->to, own)->accepted) continue;
        c->to->slot[own].choice = FB_CHOICE_AUTO;
        fb_slots_forget(c->to, own);
    }
}

static void replace(carrier *c, fb_edit e)
{
    fb_plan *next = NULL;
    fb_plan_try(c->to, &e, &next);
    if (!next) return;
    fb_plan_free(c->to);
    c->to = next;
}

static void carry_recomputed(carrier *c)
{
    const fb_graph *g = c->to->planner->g;
    for (fb_id i = 0; i < g->n_nodes && c->from->n_recompute; i++) {
        fb_id was = before(c, i);
        if (was != FB_NONE && fb_node_is_computed(g, i) && c->from->recompute[was])
            replace(c, (fb_edit){.kind = FB_EDIT_RECOMPUTE, .a = i, .b = FB_NONE});
    }
}

/* Along edges first; then what no edge joins. */
static void carry_kernels(carrier *c)
{
    const fb_deps *d = c->to->planner->deps;
    int n = c->to->planner->g->n_nodes, used = 0;
    fb_pairs pairs = {0};
    fb_growth growth = {0};
    place *places = fb_calloc((size_t)n + 1, sizeof *places), *owned = fb_calloc((size_t)n + 1, sizeof *owned);
    for (fb_id i = 0; i < n; i++) {
        places[i] = place_of(c, i);
        if (c->to->owner[i] != FB_NONE && places[i].slot != FB_NONE) owned[used++] = places[i];
    }
    for (int i = 0; i < d->n_edges; i++) {
        fb_pair e = {d->edges[i].producer, d->edges[i].consumer};
        if (d->edges[i].order_only || c->to->owner[e.a] == FB_NONE || c->to->owner[e.b] == FB_NONE) continue;
        if (same_kernel(&places[e.a], &places[e.b])) FB_VEC_PUSH(&pairs, e);
    }
    fb_plan_grow(c->to, pairs.at, pairs.n, &growth);
    pairs.n = 0;
    if (used) qsort(owned, (size_t)used, sizeof *owned, by_slot);
    for (int i = 1; i < used; i++) {
        fb_pair e = {owned[i - 1].node, owned[i].node};
        if (same_kernel(&owned[i - 1], &owned[i]) && c->to->owner[e.a] != c->to->owner[e.b]) FB_VEC_PUSH(&pairs, e);
    }
    fb_plan_grow(c->to, pairs.at, pairs.n, &growth);
    FB_VEC_FREE(&pairs);
    fb_free(places);
    fb_free(owned);
}

static void carry_knobs(carrier *c)
{
    const fb_graph *g = c->to->planner->g;
    fb_verdict why;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        fb_id was = before(c, i), own = c->to->owner[i];
        if (own != i || was == FB_NONE || c->from->owner[was] == FB_NONE) continue;
        const fb_knobs *knobs = c->from->slot[c->from->owner[was]].knobs;
        for (int k = 0; knobs && k < FB_KNOBS; k++)
            if (knobs->value[k] && fb_may_set_knob(&c->to->planner->machine, fb_slots_analysis(c->to, own),
                                                   c->to->slot[own].knobs, (fb_knob)k, knobs->value[k], &why))
                fb_plan_set_knob(c->to, own, (fb_knob)k, knobs->value[k]);
    }
}

/* Loops that were one kernel already, and how it is launched. */
static void carry_launches(carrier *c)
{
    const fb_graph *g = c->to->planner->g;
    fb_verdict why;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        fb_id was = g->nodes[i].op == FB_OP_LOOP ? before(c, i) : FB_NONE;
        if (was != FB_NONE && c->from->slot[was].choice == FB_CHOICE_GENERATE)
            replace(c, (fb_edit){.kind = FB_EDIT_GENERATE, .a = i, .b = FB_NONE});
    }
    bool may = fb_may_launch(&c->to->planner->machine, c->from->launch, &why) &&
               (c->from->launch != FB_LAUNCH_MEGA || fb_plan_may_merge(c->to, 0, &why));
    if (may) c->to->launch = c->from->launch;
    c->to->overlap = c->from->overlap;
}

fb_id fb_plan_written_node(const fb_plan *plan, fb_id node)
{
    fb_planner *p = plan->planner;
    const fb_graph *g = p->g, *written = fb_planner_written(p)->g;
    if (!fb_plan_rolled(plan) || node == FB_NONE) return node;
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i] == node) return written->outputs[i];
    return fb_planner_roll(p)->was[node];
}

void fb_plan_roll_says(const fb_roll_find *f, fb_str *out)
{
    fb_str_addf(out, "%d steps of `%s`, %d operation%s each", f->members, f->name, f->nodes, f->nodes == 1 ? "" : "s");
    if (f->why) {
        fb_str_addf(out, ", are no loop: %s", f->why);
        return;
    }
    fb_str_addf(out, ", as a loop of %d", f->trips);
    int rest = f->members - f->first - f->trips;
    if (f->first) fb_str_addf(out, "; the first%s left: %s", f->first == 1 ? " is" : " are", f->left);
    if (rest) fb_str_addf(out, "; the last%s left: %s", rest == 1 ? " is" : " are", f->rest);
}

/* Why there is nothing to roll. */
static void refuse(fb_planner *p, fb_verdict *why)
{
    const fb_roll *r = fb_planner_roll(p);
    fb_str says = {0};
    if (!r || !r->n) {
        *why = fb_verdict_make(FB_VERDICT_UNSUPPORTED, FB_RULE_STEPS,
                               "nothing is written out: no three equal stretches of operations follow each other");
        return;
    }
    fb_plan_roll_says(&r->finds[0], &says);
    if (r->finds[0].differs)
        *why = fb_verdict_make(FB_VERDICT_ILLEGAL, FB_RULE_STEPS, "steps that differ: %s", fb_str_get(&says));
    else
        *why = fb_verdict_make(FB_VERDICT_UNSUPPORTED, FB_RULE_STEPS, "nothing to gain: %s", fb_str_get(&says));
    fb_str_free(&says);
}

fb_plan *fb_plan_carry_rolled(const fb_plan *from, bool rolled, fb_verdict *why)
{
    fb_planner *p = from->planner;
    carrier c = {.from = from, .rolled = rolled};
    if (rolled == fb_plan_rolled(from)) {
        *why = fb_verdict_make(FB_VERDICT_FINE, FB_RULE_SAME_GROUP, "%s already",
                               rolled ? "the steps are a loop" : "the steps are as they are written");
        return NULL;
    }
    fb_planner *of = rolled ? fb_planner_rolled(p) : fb_planner_written(p);
    if (!of) {
        refuse(p, why);
        return NULL;
    }
    c.r = fb_planner_roll(p);
    c.to = fb_plan_new(of);
    carry_choices(&c);
    carry_recomputed(&c);
    carry_kernels(&c);
    carry_knobs(&c);
    carry_launches(&c);
    return c.to;
}

/* ---- loops of two plans ---- */

static const fb_graph *graph_with_loops(const fb_plan *plan, bool found)
{
    const fb_roll *r = found ? fb_planner_roll(plan->planner) : NULL;
    return r && r->graph ? r->graph : plan->planner->g;
}

/* Where there is no loop, what comes nearest to one says why. */
static void add_nearest(const fb_plan *plan, fb_loops *out)
{
    const fb_roll *r = fb_planner_roll(plan->planner);
    fb_str says = {0};
    if (!r || !r->n || !r->finds[0].why || out->n == FB_LOOPS_REASONS) return;
    fb_plan_roll_says(&r->finds[0], &says);
    fb_text_clean(out->why[out->n++], sizeof out->why[0], fb_str_get(&says), says.n);
    fb_str_free(&says);
}

void fb_plan_loops(const fb_plan *a, const char *name_a, const fb_plan *b, const char *name_b, bool found,
                   fb_loops *out)
{
    const fb_graph *of[2] = {graph_with_loops(a, found), graph_with_loops(b, found)};
    fb_loops_compare(of[0], name_a, of[1], name_b, out);
    if (!found) return;
    if (!fb_graph_has_loop(of[0])) add_nearest(a, out);
    if (!fb_graph_has_loop(of[1])) add_nearest(b, out);
}
