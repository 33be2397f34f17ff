/* Growing groups along many edges. Judging one edge analyses the whole group that it would make, so that a chain of n
 * fusions judged one after the other would cost n²/2 nodes. Here edges are joined optimistically: those of one
 * resulting group are judged as one, and only where that is refused are they halved and the halves tried in order. A
 * run of good edges costs one analysis, a bad edge among n costs log n. */
#include "plan/parts.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    fb_plan *plan;
    fb_growth *growth;
    fb_id *root; /* union-find over slots, valid where FB_MARK_DOWN holds */
} grower;

static fb_id find(grower *w, fb_id slot)
{
    while (w->root[slot] != slot) slot = w->root[slot] = w->root[w->root[slot]];
    return slot;
}

static fb_id enter(grower *w, fb_id slot)
{
    fb_planner *p = w->plan->planner;
    if (!fb_marked(p, FB_MARK_DOWN, slot)) {
        fb_mark(p, FB_MARK_DOWN, slot);
        w->root[slot] = slot;
    }
    return find(w, slot);
}

/* A pair, and the slot that stands for the group it would be in. */
typedef struct {
    fb_id component;
    int order;
    fb_pair pair;
} member;

typedef FB_VEC(member) members;

static int by_component(const void *a, const void *b)
{
    const member *x = a, *y = b;
    return x->component != y->component ? (x->component > y->component) - (x->component < y->component)
                                        : x->order - y->order;
}

static bool apart(const fb_plan *plan, fb_pair e)
{
    return plan->owner[e.a] != FB_NONE && plan->owner[e.b] != FB_NONE && plan->owner[e.a] != plan->owner[e.b];
}

/* Sorts the pairs that still have something to join by the group they would make, each group's in their order. */
static void components(grower *w, const fb_pair *pairs, int n, members *out)
{
    fb_mark_begin(w->plan->planner, FB_MARK_DOWN);
    for (int i = 0; i < n; i++) {
        if (!apart(w->plan, pairs[i])) continue;
        fb_id a = enter(w, w->plan->owner[pairs[i].a]), b = enter(w, w->plan->owner[pairs[i].b]);
        if (a != b) w->root[a > b ? a : b] = a > b ? b : a;
        FB_VEC_PUSH(out, (member){.order = i, .pair = pairs[i]});
    }
    for (int i = 0; i < out->n; i++) out->at[i].component = find(w, w->plan->owner[out->at[i].pair.a]);
    if (out->n) qsort(out->at, (size_t)out->n, sizeof *out->at, by_component);
}

static int by_slot(const void *a, const void *b)
{
    return (*(const fb_id *)a > *(const fb_id *)b) - (*(const fb_id *)a < *(const fb_id *)b);
}

/* The slots that these pairs join, each once. */
static void slots_of(const fb_plan *plan, const member *m, int n, fb_ids *slots)
{
    for (int i = 0; i < n; i++) {
        FB_VEC_PUSH(slots, plan->owner[m[i].pair.a]);
        FB_VEC_PUSH(slots, plan->owner[m[i].pair.b]);
    }
    qsort(slots->at, (size_t)slots->n, sizeof *slots->at, by_slot);
    int kept = 0;
    for (int i = 0; i < slots->n; i++)
        if (!kept || slots->at[kept - 1] != slots->at[i]) slots->at[kept++] = slots->at[i];
    slots->n = kept;
}

/* Does one of the slots hold a contraction in this family? */
static bool has_contraction(const fb_plan *plan, const fb_ids *slots, fb_family family, fb_id *which)
{
    const fb_graph *g = plan->planner->g;
    for (int i = 0; i < slots->n; i++) {
        fb_id s = slots->at[i];
        bool contraction = false;
        for (fb_id k = s; k != FB_NONE && !contraction; k = plan->next[k]) {
            contraction = fb_node_class(g, k) == FB_CLASS_CONTRACTION;
            if (contraction) *which = k;
        }
        if (contraction && fb_slots_analysis(plan, s)->family == family) return true;
    }
    return false;
}

static double us_of(const fb_plan *plan, fb_analysis *a)
{
    const fb_group_cost *c = fb_analysis_cost(plan->planner, a);
    return c->us + fb_launching_us(&plan->planner->machine, plan->launch, c->launches, c->calls, c->us);
}

/* These slots as one kernel that leaves a library call what it is; INFINITY where they are none. */
static double us_joined(const fb_plan *plan, const fb_id *slots, int n)
{
    fb_verdict why;
    fb_analysis *joined;
    fb_family family = fb_slots_analysis(plan, slots[0])->family;
    if (n == 1) return us_of(plan, fb_slots_analysis(plan, slots[0]));
    if (!fb_plan_judge_join(plan, slots, n, &joined, &why)) return INFINITY;
    double us = !fb_family_row_of(family)->calls || joined->family == family ? us_of(plan, joined) : INFINITY;
    fb_analysis_drop(plan->planner, joined);
    return us;
}

/* As few kernels as they take, or one each. */
static double us_of_slots(const fb_plan *plan, const fb_id *slots, int n)
{
    double us = n ? us_joined(plan, slots, n) : 0, each = 0;
    for (int i = 0; i < n && !isfinite(us); i++) each += us_of(plan, fb_slots_analysis(plan, slots[i]));
    return isfinite(us) ? us : each;
}

static bool is_multiplied(const fb_plan *plan, fb_id slot)
{
    return fb_family_row_of(fb_slots_analysis(plan, slot)->family)->multiplies;
}

/* Contractions element by element, each a sum of its own, are no kernel that `max` would make. */
static bool is_summed(const fb_analysis *a)
{
    return a->kernel.n_contractions && fb_family_row_of(a->family)->sums;
}

/* What follows a contraction joined to it where that goes, else the contraction as it is and what follows in as few
 * kernels as it takes. */
static double us_followed(const fb_plan *plan, const fb_id *slots, int n)
{
    if (!n || !is_multiplied(plan, slots[0])) return us_of_slots(plan, slots, n);
    double apart = us_of(plan, fb_slots_analysis(plan, slots[0])) + us_of_slots(plan, slots + 1, n - 1);
    return fmin(us_joined(plan, slots, n), apart);
}

/* The slots apart, each contraction in a kernel of its own: with what follows it, or with all else in as few kernels as
 * it takes. */
static double us_apart(const fb_plan *plan, const fb_ids *slots)
{
    double us = 0, followed = 0;
    fb_ids others = {0};
    int from = 0;
    for (int i = 0; i < slots->n; i++) {
        if (!is_multiplied(plan, slots->at[i])) {
            FB_VEC_PUSH(&others, slots->at[i]);
            continue;
        }
        us += us_of(plan, fb_slots_analysis(plan, slots->at[i]));
        followed += us_followed(plan, slots->at + from, i - from);
        from = i;
    }
    us += us_of_slots(plan, others.at, others.n);
    followed += us_followed(plan, slots->at + from, slots->n - from);
    FB_VEC_FREE(&others);
    return fmin(us, followed);
}

enum { MOST_TILED = 256 }; /* nodes with a contraction that are weighed as a tile */

/* May the contraction of a library call or tile go to the family that `to` has? */
static bool may_turn(const grower *w, const fb_ids *slots, fb_analysis *to, fb_id call, fb_verdict *why)
{
    const char *name = w->plan->planner->g->nodes[call].name;
    const fb_family_row *family = fb_family_row_of(to->family);
    if (family->calls || (family->lone && !w->growth->weigh)) return true;
    if (family->sums || !w->growth->weigh) {
        *why = fb_verdict_make(FB_VERDICT_UNSUPPORTED, FB_RULE_LIBRARY, "`%s` would no longer be a library call", name);
        return false;
    }
    char apart[32], together[32];
    double before = us_apart(w->plan, slots), after = us_of(w->plan, to);
    if (after < before) return true;
    if (w->plan->planner->machine.doubted) {
        *why = fb_verdict_make(FB_VERDICT_SLOWER, FB_RULE_LIBRARY,
                               "`%s` stays a library call: the calibration is doubted, so no time is predicted", name);
        return false;
    }
    *why = fb_verdict_make(FB_VERDICT_SLOWER, FB_RULE_LIBRARY,
                           "`%s` stays a library call: %s are predicted with it, and %s as one generated kernel", name,
                           fb_format_us(apart, before), fb_format_us(together, after));
    return false;
}

static int nodes_of(const fb_plan *plan, const fb_ids *slots)
{
    int n = 0;
    for (int i = 0; i < slots->n; i++) n += plan->slot[slots->at[i]].n;
    return n;
}

static bool try_component(grower *w, const fb_ids *slots, fb_verdict *why)
{
    fb_id call = FB_NONE;
    fb_analysis *to;
    if (!fb_plan_may_join(w->plan, slots->at, slots->n, why)) return false;
    bool library = w->growth->keep_library && has_contraction(w->plan, slots, FB_FAMILY_LIBRARY, &call);
    bool tiled = !library && has_contraction(w->plan, slots, FB_FAMILY_GEMM, &call);
    bool weigh = w->growth->weigh && nodes_of(w->plan, slots) <= MOST_TILED;
    if (library && !weigh && !fb_plan_library_takes(w->plan, slots->at, slots->n, why) &&
        !fb_plan_chain_takes(w->plan, slots->at, slots->n))
        return false;
    if (!fb_plan_judge_join(w->plan, slots->at, slots->n, &to, why)) return false;
    if ((library && !may_turn(w, slots, to, call, why)) || (tiled && fb_family_row_of(to->family)->sums)) {
        if (tiled)
            *why =
                fb_verdict_make(FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                "`%s` would no longer be multiplied in tiles", w->plan->planner->g->nodes[call].name);
        fb_analysis_drop(w->plan->planner, to);
        return false;
    }
    fb_commit_join(w->plan, slots->at, slots->n, to);
    return true;
}

static void grow(grower *w, const fb_pair *pairs, int n);

static void grow_component(grower *w, const member *m, int n)
{
    fb_verdict why = {0};
    fb_ids slots = {0};
    slots_of(w->plan, m, n, &slots);
    bool joined = try_component(w, &slots, &why);
    FB_VEC_FREE(&slots);
    if (joined) return;
    if (n == 1) {
        if (!w->growth->refused++) w->growth->first = why;
        if (w->growth->refusal) w->growth->refusal(w->growth->ctx, m[0].pair, &why);
        return;
    }
    fb_pair *pairs = fb_alloc((size_t)n * sizeof *pairs);
    for (int i = 0; i < n; i++) pairs[i] = m[i].pair;
    grow(w, pairs, n / 2);
    grow(w, pairs + n / 2, n - n / 2);
    fb_free(pairs);
}

static void grow(grower *w, const fb_pair *pairs, int n)
{
    members m = {0};
    components(w, pairs, n, &m);
    for (int i = 0, end; i < m.n; i = end) {
        for (end = i + 1; end < m.n && m.at[end].component == m.at[i].component;) end++;
        grow_component(w, m.at + i, end - i);
    }
    FB_VEC_FREE(&m);
}

/* ---- weighing again ---- */

/* A library call that loses against a tile with a part of what surrounds it may win against one with all of it, which
 * is together only when every edge has been tried. */
static bool join_faster(fb_plan *plan, const fb_pair *pairs, int n)
{
    bool changed = false;
    for (int i = 0; i < n; i++) {
        if (!apart(plan, pairs[i])) continue;
        fb_id slots[] = {plan->owner[pairs[i].a], plan->owner[pairs[i].b]};
        fb_verdict why;
        fb_analysis *to;
        if (!is_multiplied(plan, slots[0]) && !is_multiplied(plan, slots[1])) continue;
        if (plan->slot[slots[0]].n + plan->slot[slots[1]].n > MOST_TILED) continue;
        if (!fb_plan_may_join(plan, slots, 2, &why) || !fb_plan_judge_join(plan, slots, 2, &to, &why)) continue;
        double before = us_of(plan, fb_slots_analysis(plan, slots[0])) + us_of(plan, fb_slots_analysis(plan, slots[1]));
        bool faster = us_of(plan, to) < before && !is_summed(to);
        if (faster)
            fb_commit_join(plan, slots, 2, to);
        else
            fb_analysis_drop(plan->planner, to);
        changed |= faster;
    }
    return changed;
}

/* Time of the kernels that own some of the nodes; INFINITY where one is none. Adds their slots. */
static double us_of_parts(const fb_plan *plan, const fb_ids *nodes, fb_ids *slots)
{
    double us = 0;
    for (int i = 0; i < nodes->n; i++) {
        fb_id s = plan->owner[nodes->at[i]];
        bool seen = false;
        for (int k = 0; k < slots->n; k++) seen |= slots->at[k] == s;
        if (seen) continue;
        FB_VEC_PUSH(slots, s);
        fb_analysis *a = fb_slots_analysis(plan, s);
        us += a->accepted && !is_summed(a) ? us_of(plan, a) : INFINITY;
    }
    return us;
}

/* What the slot's nodes take when it is split in front of `at`. It is again what it was then, unless it is to `stay`
 * split, after which the plan has to be ordered anew. */
static double us_split(fb_plan *plan, fb_id slot, fb_id at, bool stay)
{
    fb_ids owned = {0}, parts = {0};
    fb_slot was = plan->slot[slot];
    fb_analysis *whole = fb_slots_analysis(plan, slot);
    fb_analysis_hold(plan->planner, whole);
    fb_plan_owned(plan, slot, &owned);
    int *side = fb_downstream(plan, &owned, at);
    fb_plan_split(plan, slot, &owned, side, 2);
    double us = us_of_parts(plan, &owned, &parts);
    if (stay) {
        fb_analysis_drop(plan->planner, whole);
    } else {
        fb_slot *again = &plan->slot[fb_plan_join(plan, parts.at, parts.n)];
        again->choice = was.choice;
        again->knobs = was.knobs;
        again->pos = was.pos;
        again->analysis = whole;
    }
    fb_free(side);
    FB_VEC_FREE(&owned);
    FB_VEC_FREE(&parts);
    return us;
}

/* Where a kernel may be cut: in front of `at`. It is known by the first of its nodes. */
typedef struct {
    fb_id first, at;
} place;
typedef FB_VEC(place) places;

static int by_kernel(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return x->first != y->first ? (x->first > y->first) - (x->first < y->first) : (x->at > y->at) - (x->at < y->at);
}

/* Adds where a cut of this edge may be faster. What makes an operand of a contraction makes it once for each tile that
 * needs it, and several contractions in one kernel share its registers. */
static void add_place(const fb_plan *plan, fb_pair e, places *to)
{
    const fb_graph *g = plan->planner->g;
    fb_id slot = plan->owner[e.b], first = e.b;
    if (slot == FB_NONE || plan->owner[e.a] != slot || plan->slot[slot].n > MOST_TILED) return;
    if (!is_multiplied(plan, slot)) return;
    int contractions = 0;
    for (fb_id k = slot; k != FB_NONE; k = plan->next[k]) {
        contractions += fb_node_class(g, k) == FB_CLASS_CONTRACTION;
        if (k < first) first = k;
    }
    if (contractions > 1 || fb_node_class(g, e.b) == FB_CLASS_CONTRACTION) FB_VEC_PUSH(to, (place){first, e.b});
}

/* Cuts each kernel with contractions that two kernels are predicted to be faster than, where these are the fastest. */
static bool cut_faster(fb_plan *plan, const fb_pair *pairs, int n)
{
    places at = {0};
    bool changed = false;
    for (int i = 0; i < n; i++) add_place(plan, pairs[i], &at);
    if (at.n) qsort(at.at, (size_t)at.n, sizeof *at.at, by_kernel);
    for (int i = 0, end; i < at.n; i = end) {
        fb_id first = at.at[i].first, best = FB_NONE;
        double least = us_of(plan, fb_slots_analysis(plan, plan->owner[first]));
        for (end = i; end < at.n && at.at[end].first == first; end++) {
            if (end > i && at.at[end].at == at.at[end - 1].at) continue;
            double us = us_split(plan, plan->owner[first], at.at[end].at, false);
            if (us < least) least = us, best = at.at[end].at;
        }
        if (best == FB_NONE) continue;
        us_split(plan, plan->owner[first], best, true);
        changed = true;
    }
    FB_VEC_FREE(&at);
    return changed;
}

/* Both make the plan faster, as far as is predicted, so that it ends. */
static void weigh_again(fb_plan *plan, const fb_pair *pairs, int n)
{
    enum { ROUNDS = 8 };
    for (int round = 0; round < ROUNDS; round++) {
        bool joined = join_faster(plan, pairs, n), cut = cut_faster(plan, pairs, n);
        fb_id on_cycle;
        if (cut) FB_ASSERT(fb_order_all(plan, &on_cycle)); /* parts of what could be ordered */
        if (!joined && !cut) return;
    }
}

void fb_plan_grow(fb_plan *plan, const fb_pair *pairs, int n, fb_growth *growth)
{
    grower w = {.plan = plan, .growth = growth};
    w.root = fb_alloc(((size_t)plan->planner->g->n_nodes + 1) * sizeof *w.root);
    grow(&w, pairs, n);
    if (growth->weigh) weigh_again(plan, pairs, n);
    fb_free(w.root);
}
