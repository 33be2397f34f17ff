/* Beam search.
 *
 * requires  a planner
 * provides  plans, fastest first as predicted
 *
 * The moves are the same for every plan: an edge is fused or cut, readers of one value are put side by side, a producer
 * goes with all its readers, all members of a repetition share a launch, a value is recomputed or stored, a contraction
 * becomes a library call or a generated kernel. The beam begins with the presets' plans, and with each of them with its
 * loops as one kernel each and as one kernel altogether, where that can be, also in as few stages as verdicts allow; so
 * does what was found, in the end. What is
 * repeated is edited in all repetitions at once, as a user would; so a network of 48 equal layers has the moves of one.
 * A round judges every move on every plan of the beam; judging costs no copy of the plan. The best unseen ones are made
 * and are the next beam, even when they are slower than what they came from: two edits may pay off where one does not.
 */
#include "decide/search.h"

#include "decide/moves.h"
#include "decide/preset.h"
#include "plan/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BEAM = 6, BEST = 8, STALE_ROUNDS = 3, POOL = 2 * FB_SEARCH_MOST, MERGED = 4, WAYS = 5 };
enum { LEAST_CONSIDERED = 400, MOST_CONSIDERED = 20000, NODES_CONSIDERED = 8000000 };

typedef struct {
    fb_hash key;
    UT_hash_handle hh;
} seen_plan;

typedef struct {
    fb_plan *plan;
    double us;
} state;

typedef struct {
    double us;
    int from, move;
} candidate;

typedef struct {
    fb_planner *p;
    fb_arena *arena;
    fb_search_options o;
    int n_moves;
    const fb_move *moves; /* the arena's */
    seen_plan *seen;
    state pool[POOL]; /* the best there were, in no order */
    int n_pool;
    FB_VEC(state) beam;
    FB_VEC(candidate) candidates;
    int64_t considered;
    double best_us;
    bool cancelled;
} search;

/* ---- what a plan costs ---- */

/* The sum over its slots, without numbering the plan unless a loop is one kernel. */
static double cost_of(const fb_plan *plan)
{
    const fb_planner *p = plan->planner;
    double us = (isfinite(p->machine.sync_us) ? p->machine.sync_us : 0) + fb_merged_us(plan);
    for (fb_id s = 0; s < p->g->n_nodes; s++) {
        if (!plan->slot[s].n || !fb_node_is_computed(p->g, s)) continue;
        fb_id region = p->g->nodes[s].region;
        fb_analysis *a = fb_slots_analysis(plan, s);
        fb_group_cost cost;
        fb_slots_cost(plan, s, &cost);
        us += fb_plan_kernel_us(plan, region, a, &cost) * fb_judge_region_trips(p->g, region);
    }
    return us + fb_copied_values_us(plan, 0) - fb_plan_loops_save_us(plan);
}

static bool has_kernels(const fb_plan *plan)
{
    const fb_planner *p = plan->planner;
    for (fb_id s = 0; s < p->g->n_nodes; s++)
        if (plan->slot[s].n && fb_node_is_computed(p->g, s) && !fb_slots_analysis(plan, s)->accepted) return false;
    return true;
}

static bool is_one_kernel(const fb_plan *plan, fb_id region)
{
    return plan->slot[plan->planner->g->regions[region].loop].choice == FB_CHOICE_GENERATE;
}

/* Of the sets of nodes that are kernels, whichever order they were made in, and of the loops that are one. */
static fb_hash key_of(const fb_plan *plan)
{
    const fb_planner *p = plan->planner;
    fb_hash sum = {.high = (uint64_t)plan->launch};
    for (fb_id s = 0; s < p->g->n_nodes; s++) {
        if (!plan->slot[s].n || !fb_node_is_computed(p->g, s)) continue;
        fb_hash k = fb_slots_analysis(plan, s)->key;
        sum.high += k.high;
        sum.low += k.low;
    }
    for (fb_id r = 1; r < p->g->n_regions; r++)
        if (is_one_kernel(plan, r)) sum.low = sum.low * 31 + (uint64_t)r;
    return sum;
}

static bool is_new(search *s, const fb_plan *plan)
{
    seen_plan *known;
    fb_hash key = key_of(plan);
    HASH_FIND(hh, s->seen, &key, sizeof key, known);
    if (known) return false;
    known = FB_NEW(s->arena, seen_plan);
    known->key = key;
    HASH_ADD(hh, s->seen, key, sizeof known->key, known);
    return true;
}

/* ---- keeping the best ---- */

static int by_time(const void *a, const void *b)
{
    const state *x = a, *y = b;
    return (x->us > y->us) - (x->us < y->us);
}

/* Takes a copy where it is among the best so far. */
static void offer(search *s, const fb_plan *plan, double us)
{
    if (us < s->best_us) s->best_us = us;
    int at = s->n_pool;
    if (s->n_pool == POOL) {
        at = 0;
        for (int i = 1; i < POOL; i++)
            if (s->pool[i].us > s->pool[at].us) at = i;
        if (s->pool[at].us <= us) return;
        fb_plan_free(s->pool[at].plan);
    } else {
        s->n_pool++;
    }
    s->pool[at] = (state){fb_plan_copy(plan), us};
}

/* Makes the edit where it can be made. */
static bool change(fb_plan **plan, const fb_edit *e)
{
    fb_plan *to = NULL;
    fb_verdict v = fb_plan_try(*plan, e, &to);
    if (!to) return false;
    fb_plan_free(*plan);
    *plan = to;
    return v.rule != FB_RULE_SAME_GROUP;
}

static double launches_of(const fb_plan *plan)
{
    const fb_planner *p = plan->planner;
    double n = fb_merged_launches(plan);
    for (fb_id s = 0; s < p->g->n_nodes; s++)
        if (plan->slot[s].n && fb_node_is_computed(p->g, s)) n += fb_judge_region_trips(p->g, p->g->nodes[s].region);
    return n;
}

/* Each plan in the launch mode that costs least: a graph, where there are any and it is not too long for one. */
static void set_cheapest_launch(fb_plan **plan)
{
    const fb_machine *m = &(*plan)->planner->machine;
    fb_verdict why;
    if (!fb_may_launch(m, FB_LAUNCH_GRAPH, &why) || launches_of(*plan) > FB_GRAPH_LAUNCHES) return;
    if (fb_launch_us(m, FB_LAUNCH_GRAPH) < fb_launch_us(m, FB_LAUNCH_STREAM))
        change(plan, &(fb_edit){.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_GRAPH});
}

/* Takes the plan: into the beam and among the best, where it is new. */
static void begin_with(search *s, fb_plan *plan)
{
    s->considered++;
    if (!is_new(s, plan)) {
        fb_plan_free(plan);
        return;
    }
    state first = {plan, cost_of(plan)};
    if (has_kernels(plan)) offer(s, plan, first.us);
    FB_VEC_PUSH(&s->beam, first);
}

/* ---- many kernels as one ---- */

/* Is the slot a library call, or a chain: what no larger kernel holds? */
static bool stands_alone(const fb_plan *plan, fb_id slot)
{
    return fb_judge_stands_alone(&plan->planner->machine, fb_slots_analysis(plan, slot)->family);
}

/* Generates the contractions of `region` and the loops in it; false where they are too many to try, or one stays a
 * library call. */
static bool generate_all(fb_plan **plan, fb_id region)
{
    enum { MOST = 128 };
    const fb_graph *g = (*plan)->planner->g;
    int changed = 0;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        fb_id slot = (*plan)->owner[i];
        if (!fb_region_within(g, g->nodes[i].region, region) || slot == FB_NONE) continue;
        if (fb_node_class(g, i) != FB_CLASS_CONTRACTION) continue;
        if (!stands_alone(*plan, slot)) continue;
        if (changed++ == MOST) return false;
        if (!change(plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = i, .b = FB_NONE}) ||
            stands_alone(*plan, (*plan)->owner[i]))
            return false;
    }
    return true;
}

/* The plan with its outermost loops as one kernel each, as far as they can be; NULL: none can. */
static fb_plan *with_whole_loops(const fb_plan *from)
{
    const fb_graph *g = from->planner->g;
    fb_plan *plan = fb_plan_copy(from);
    bool any = false;
    for (fb_id r = 1; r < g->n_regions; r++) {
        if (g->regions[r].parent != 0 || is_one_kernel(plan, r)) continue;
        fb_plan *to = fb_plan_copy(plan);
        bool whole = generate_all(&to, r) &&
                     change(&to, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = g->regions[r].loop, .b = FB_NONE});
        fb_plan_free(whole ? plan : to);
        if (whole) plan = to;
        any |= whole;
    }
    if (any) return plan;
    fb_plan_free(plan);
    return NULL;
}

/* The plan as one kernel; NULL: it cannot be. */
static fb_plan *as_one_kernel(const fb_plan *from)
{
    fb_verdict why;
    if (from->launch == FB_LAUNCH_MEGA || !fb_may_launch(&from->planner->machine, FB_LAUNCH_MEGA, &why)) return NULL;
    fb_plan *plan = fb_plan_copy(from);
    if (generate_all(&plan, 0) && change(&plan, &(fb_edit){.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_MEGA}))
        return plan;
    fb_plan_free(plan);
    return NULL;
}

/* The plan, in which kernels are stages of larger ones, in as few stages as verdicts allow: a product that was a
 * library call goes together with what is made of it, and the grid meets less often. NULL: it cannot be. */
static fb_plan *in_few_stages(const fb_plan *from)
{
    const fb_planner *p = from->planner;
    fb_plan *plan = fb_plan_copy(from);
    fb_pairs pairs = {0};
    fb_verdict why;
    for (int i = 0; i < p->deps->n_edges; i++) {
        const fb_edge *e = &p->deps->edges[i];
        if (e->order_only || !fb_node_is_computed(p->g, e->producer) || !fb_node_is_computed(p->g, e->consumer))
            continue;
        fb_id r = p->g->nodes[e->consumer].region;
        while (r > 0 && !is_one_kernel(plan, r)) r = p->g->regions[r].parent;
        if (r > 0 || plan->launch == FB_LAUNCH_MEGA) FB_VEC_PUSH(&pairs, (fb_pair){e->producer, e->consumer});
    }
    fb_plan_grow(plan, pairs.at, pairs.n, &(fb_growth){0});
    FB_VEC_FREE(&pairs);
    bool whole = plan->launch != FB_LAUNCH_MEGA || fb_plan_may_merge(plan, 0, &why);
    for (fb_id r = 1; r < p->g->n_regions && whole; r++)
        whole = !is_one_kernel(plan, r) || fb_plan_may_merge(plan, r, &why);
    if (whole) return plan;
    fb_plan_free(plan);
    return NULL;
}

static void begin_in_stages(search *s, fb_plan *plan)
{
    fb_plan *few = in_few_stages(plan);
    begin_with(s, plan);
    if (few) begin_with(s, few);
}

static void begin_with_all(search *s, fb_plan *plan)
{
    fb_plan *loops = with_whole_loops(plan), *one = as_one_kernel(plan);
    set_cheapest_launch(&plan);
    begin_with(s, plan);
    if (loops) {
        set_cheapest_launch(&loops);
        begin_in_stages(s, loops);
    }
    if (one) begin_in_stages(s, one);
}

/* Copies beside the kernels where that is predicted to be faster. */
static void set_cheapest_copies(fb_plan **plan)
{
    fb_plan *to = NULL;
    fb_verdict v = fb_plan_try(*plan, &(fb_edit){.kind = FB_EDIT_OVERLAP, .value = 1}, &to);
    if (!to) return;
    bool faster = v.kind == FB_VERDICT_FINE && v.after_us < v.before_us;
    fb_plan_free(faster ? *plan : to);
    if (faster) *plan = to;
}

static void start_from_presets(search *s)
{
    for (int i = 0; i < fb_presets() && !s->cancelled; i++) {
        fb_plan *plan = fb_preset_at(i)->make(s->p, NULL);
        if (!plan) continue;
        set_cheapest_copies(&plan);
        begin_with_all(s, plan);
    }
}

/* What was found in small kernels, in large ones. */
static void merge_best(search *s)
{
    FB_VEC(fb_plan *) best = {0};
    qsort(s->pool, (size_t)s->n_pool, sizeof *s->pool, by_time);
    for (int i = 0; i < s->n_pool && i < MERGED; i++) FB_VEC_PUSH(&best, fb_plan_copy(s->pool[i].plan));
    for (int i = 0; i < best.n; i++) begin_with_all(s, best.at[i]);
    FB_VEC_FREE(&best);
}

/* ---- rounds ---- */

static bool go_on(search *s)
{
    enum { BETWEEN = 16 };
    if (s->o.step && s->considered % BETWEEN == 0 && !s->cancelled)
        s->cancelled = !s->o.step(s->o.ctx, s->considered, (double)s->considered / (double)s->o.most, s->best_us);
    return !s->cancelled && s->considered < s->o.most;
}

static void judge_moves(search *s, int from)
{
    const state *at = &s->beam.at[from];
    for (int k = 0; k < s->n_moves && go_on(s); k++) {
        const fb_move *m = &s->moves[k];
        fb_edit e;
        if (!fb_move_edit(at->plan, m, &e)) continue;
        s->considered++;
        fb_verdict v = fb_move_try(at->plan, m, &e, NULL);
        double gain = fb_move_gain(at->plan, m, &v);
        if (isnan(gain)) continue;
        FB_VEC_PUSH(&s->candidates, (candidate){at->us - gain, from, k});
    }
}

static int by_us(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->us != y->us) return x->us < y->us ? -1 : 1;
    return x->from != y->from ? x->from - y->from : x->move - y->move;
}

static void free_beam(search *s)
{
    while (s->beam.n) fb_plan_free(s->beam.at[--s->beam.n].plan);
}

/* The next beam: the best of all that was judged and is new. */
static void advance(search *s)
{
    FB_VEC(state) next = {0};
    if (s->candidates.n) qsort(s->candidates.at, (size_t)s->candidates.n, sizeof *s->candidates.at, by_us);
    for (int i = 0; i < s->candidates.n && next.n < s->o.beam; i++) {
        const candidate *c = &s->candidates.at[i];
        const fb_move *m = &s->moves[c->move];
        fb_plan *plan = NULL;
        fb_edit e;
        fb_move_edit(s->beam.at[c->from].plan, m, &e);
        fb_move_try(s->beam.at[c->from].plan, m, &e, &plan);
        if (!plan) continue;
        if (!is_new(s, plan)) {
            fb_plan_free(plan);
            continue;
        }
        state to = {plan, cost_of(plan)};
        if (has_kernels(plan)) offer(s, plan, to.us);
        FB_VEC_PUSH(&next, to);
    }
    free_beam(s);
    FB_VEC_FREE(&s->beam);
    s->beam.at = next.at;
    s->beam.n = next.n;
    s->beam.room = next.room;
}

static void run(search *s)
{
    for (int stale = 0; stale < STALE_ROUNDS && s->beam.n && go_on(s);) {
        double before = s->best_us;
        s->candidates.n = 0;
        for (int i = 0; i < s->beam.n && !s->cancelled; i++) judge_moves(s, i);
        if (s->cancelled) return;
        advance(s);
        stale = s->best_us < before * 0.9999 ? 0 : stale + 1;
    }
}

/* ---- the result ---- */

static int slots_of(const fb_plan *plan)
{
    int n = 0;
    for (fb_id i = 0; i < plan->planner->g->n_nodes; i++) n += plan->slot[i].n > 0;
    return n;
}

/* Plans that the model cannot tell apart would spend a measurement each on nothing. */
static bool unlike_the_others(const fb_search_result *out, const state *s)
{
    for (int i = 0; i < out->n; i++)
        if (fabs(out->us[i] - s->us) <= 0.005 * s->us && slots_of(out->plan[i]) == slots_of(s->plan)) return false;
    return true;
}

static void take_best(search *s, fb_search_result *out)
{
    qsort(s->pool, (size_t)s->n_pool, sizeof *s->pool, by_time);
    for (int i = 0; i < s->n_pool && out->n < s->o.n_best; i++) {
        if (!unlike_the_others(out, &s->pool[i])) continue;
        out->plan[out->n] = s->pool[i].plan;
        out->us[out->n++] = s->pool[i].us;
        s->pool[i].plan = NULL;
    }
}

static void search_free(search *s)
{
    HASH_CLEAR(hh, s->seen);
    for (int i = 0; i < s->n_pool; i++) fb_plan_free(s->pool[i].plan);
    free_beam(s);
    FB_VEC_FREE(&s->beam);
    FB_VEC_FREE(&s->candidates);
    fb_arena_free(s->arena);
}

static int64_t clamped(int64_t n, int64_t low, int64_t high)
{
    return n < low ? low : n > high ? high : n;
}

bool fb_decide_search(fb_planner *p, const fb_search_options *o, fb_search_result *out, fb_error *err)
{
    search s = {.p = p, .arena = fb_arena_new(), .o = *o, .best_us = INFINITY};
    if (!s.o.beam) s.o.beam = BEAM;
    if (!s.o.n_best) s.o.n_best = BEST;
    if (s.o.n_best > FB_SEARCH_MOST) s.o.n_best = FB_SEARCH_MOST;
    if (!s.o.most) s.o.most = clamped(NODES_CONSIDERED / (p->g->n_nodes + 1), LEAST_CONSIDERED, MOST_CONSIDERED);
    *out = (fb_search_result){0};
    s.o.most -=
        s.o.most / 4 < WAYS * MERGED ? s.o.most / 4 : WAYS * MERGED; /* the rest is for what is merged in the end */
    start_from_presets(&s);
    if (go_on(&s)) {
        s.n_moves = fb_moves_list(p, s.arena, &s.moves);
        run(&s);
    }
    if (!s.cancelled) merge_best(&s);
    out->considered = s.considered;
    if (!s.cancelled) take_best(&s, out);
    bool good = !s.cancelled || fb_fail(err, FB_ERR_CANCELLED, "the search was cancelled");
    search_free(&s);
    return good;
}

void fb_decide_search_clear(fb_search_result *r)
{
    for (int i = 0; i < r->n; i++) fb_plan_free(r->plan[i]);
    r->n = 0;
}
