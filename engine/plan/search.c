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
#include "plan/search.h"

#include "graph/access.h"
#include "plan/plan_parts.h"
#include "plan/preset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BEAM = 6,
    BEST = 8,
    STALE_ROUNDS = 3,
    MOVES_MOST = 1024,
    STAR_MOST = 64,
    POOL = 2 * FB_SEARCH_MOST,
    MERGED = 4,
    WAYS = 5
};
enum { LEAST_CONSIDERED = 400, MOST_CONSIDERED = 20000, NODES_CONSIDERED = 8000000 };

typedef enum { MOVE_EDGE, MOVE_BESIDE, MOVE_STAR, MOVE_MEMBERS, MOVE_RECOMPUTE, MOVE_CHOICE } move_kind;

typedef struct {
    move_kind kind;
    bool repeated;
    fb_id a, b;
    int n_nodes;
    const fb_id *nodes;
    double weight; /* bytes that it is about: where there are too many moves, the weightiest are tried */
    int order;
} move;

/* Moves that differ in the indices of their scopes alone. */
typedef struct {
    char *key;
    int move, count;
    fb_ids nodes; /* members, MOVE_RECOMPUTE's alone: they are the pattern's nodes */
    UT_hash_handle hh;
} move_class;

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
    FB_VEC(move) moves;
    move_class *classes;
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
        fb_analysis *a = fb_slot_analysis(plan, s);
        us += fb_kernel_us(plan, region, a, fb_analysis_cost(plan->planner, a)) * fb_region_trips(p->g, region);
    }
    return us - fb_loops_save_us(plan);
}

static bool has_kernels(const fb_plan *plan)
{
    const fb_planner *p = plan->planner;
    for (fb_id s = 0; s < p->g->n_nodes; s++)
        if (plan->slot[s].n && fb_node_is_computed(p->g, s) && !fb_slot_analysis(plan, s)->accepted) return false;
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
        fb_hash k = fb_slot_analysis(plan, s)->key;
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

/* ---- moves ---- */

/* The pattern of each node and how their indices differ: what two alike moves share. */
static char *key_text(search *s, move_kind kind, fb_id a, fb_id b)
{
    const fb_node *nodes = s->p->g->nodes;
    int64_t at[FB_MAX_STARS] = {0}, bt[FB_MAX_STARS] = {0};
    fb_str key = {0};
    fb_str_addf(&key, "%d ", kind);
    int n = fb_name_pattern(nodes[a].name, &key, at);
    if (b != FB_NONE) {
        fb_str_add(&key, " ");
        int m = fb_name_pattern(nodes[b].name, &key, bt);
        for (int i = 0; i < n && i < m; i++) fb_str_addf(&key, " %lld", (long long)(bt[i] - at[i]));
    }
    char *text = fb_arena_strdup(s->arena, fb_str_get(&key));
    fb_str_free(&key);
    return text;
}

/* False: one like it is there already, and now stands for its repetitions. */
static move_class *add_move(search *s, const move *m)
{
    char *key = key_text(s, m->kind, m->a, m->b);
    move_class *c;
    HASH_FIND_STR(s->classes, key, c);
    if (c) {
        move *first = &s->moves.at[c->move];
        first->repeated = true;
        first->weight += m->weight;
        c->count++;
        return c;
    }
    c = FB_NEW(s->arena, move_class);
    *c = (move_class){.key = key, .move = s->moves.n, .count = 1};
    HASH_ADD_KEYPTR(hh, s->classes, key, strlen(key), c);
    FB_VEC_PUSH(&s->moves, *m);
    s->moves.at[c->move].order = c->move;
    return c;
}

static double bytes_of(const search *s, fb_id node)
{
    return (double)fb_node_bytes(s->p->g, node) * fb_region_trips(s->p->g, s->p->g->nodes[node].region);
}

static bool is_fusible(const search *s, const fb_edge *e)
{
    const fb_graph *g = s->p->g;
    return !e->order_only && fb_node_is_computed(g, e->producer) && fb_node_is_computed(g, e->consumer);
}

/* Edges, and a producer with all that read it. */
static void add_edge_moves(search *s)
{
    const fb_deps *d = s->p->deps;
    for (int i = 0; i < d->n_edges; i++) {
        const fb_edge *e = &d->edges[i];
        if (!is_fusible(s, e)) continue;
        add_move(s, &(move){.kind = MOVE_EDGE, .a = e->producer, .b = e->consumer, .weight = bytes_of(s, e->producer)});
    }
    for (fb_id a = 0; a < s->p->g->n_nodes; a++) {
        int n = d->out_start[a + 1] - d->out_start[a], kept = 1;
        if (n < 2 || n > STAR_MOST || !fb_node_is_computed(s->p->g, a)) continue;
        fb_id *nodes = FB_NEW_ARRAY(s->arena, fb_id, n + 1);
        nodes[0] = a;
        for (int k = 0; k < n; k++) {
            const fb_edge *e = &d->edges[d->out[d->out_start[a] + k]];
            if (is_fusible(s, e)) nodes[kept++] = e->consumer;
        }
        if (kept < 3) continue;
        add_move(
            s, &(move){
                   .kind = MOVE_STAR, .a = a, .b = FB_NONE, .n_nodes = kept, .nodes = nodes, .weight = bytes_of(s, a)});
    }
}

/* Readers of one value, two after the other: in one kernel it is read once. */
static void add_beside_moves(search *s)
{
    const fb_graph *g = s->p->g;
    fb_id *last = fb_alloc(((size_t)g->n_nodes + 1) * sizeof *last);
    for (fb_id i = 0; i < g->n_nodes; i++) last[i] = FB_NONE;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (!fb_node_is_computed(g, i)) continue;
        for (int k = 0; k < g->nodes[i].n_args; k++) {
            fb_id base = fb_access_base(g, g->nodes[i].args[k]), before = last[base];
            last[base] = i;
            if (before == FB_NONE || before == i || g->nodes[before].region != g->nodes[i].region) continue;
            if (fb_deps_find(s->p->deps, before, i) != FB_NONE) continue;
            add_move(s, &(move){.kind = MOVE_BESIDE, .a = before, .b = i, .weight = bytes_of(s, base)});
        }
    }
    fb_free(last);
}

static void add_node_moves(search *s)
{
    const fb_graph *g = s->p->g;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (!fb_node_is_computed(g, i)) continue;
        fb_op_class cls = fb_node_class(g, i);
        bool cheap = cls == FB_CLASS_POINTWISE || cls == FB_CLASS_JOIN || cls == FB_CLASS_GATHER;
        move m = {.kind = MOVE_RECOMPUTE, .a = i, .b = FB_NONE, .weight = bytes_of(s, i)};
        move_class *c = cheap && !s->p->keep[i] ? add_move(s, &m) : NULL;
        if (c) FB_VEC_PUSH(&c->nodes, i);
        m.kind = MOVE_CHOICE;
        if (cls == FB_CLASS_CONTRACTION) add_move(s, &m);
    }
}

/* All members of a repetition in one launch. */
static void add_member_moves(search *s)
{
    for (move_class *c = s->classes; c; c = c->hh.next) {
        move m = s->moves.at[c->move];
        if (c->nodes.n < 2) continue;
        m.kind = MOVE_MEMBERS;
        m.repeated = false;
        m.n_nodes = c->nodes.n;
        m.nodes = fb_arena_copy(s->arena, c->nodes.at, (size_t)c->nodes.n * sizeof *c->nodes.at);
        m.order = s->moves.n;
        FB_VEC_PUSH(&s->moves, m);
    }
}

static int by_weight(const void *a, const void *b)
{
    const move *x = a, *y = b;
    return x->weight != y->weight ? (x->weight < y->weight) - (x->weight > y->weight) : x->order - y->order;
}

static void list_moves(search *s)
{
    add_edge_moves(s);
    add_beside_moves(s);
    add_node_moves(s);
    add_member_moves(s);
    if (s->moves.n) qsort(s->moves.at, (size_t)s->moves.n, sizeof *s->moves.at, by_weight);
    if (s->moves.n > MOVES_MOST) s->moves.n = MOVES_MOST;
}

/* What the move is on this plan; false where it is nothing. */
static bool edit_of(const fb_plan *plan, const move *m, fb_edit *e)
{
    *e = (fb_edit){.a = m->a, .b = m->b, .n_nodes = m->n_nodes, .nodes = m->nodes};
    fb_id slot = plan->owner[m->a];
    switch (m->kind) {
    case MOVE_EDGE:
        if (slot == FB_NONE || plan->owner[m->b] == FB_NONE) return false;
        e->kind = slot == plan->owner[m->b] ? FB_EDIT_CUT : FB_EDIT_FUSE;
        return true;
    case MOVE_BESIDE:
        e->kind = FB_EDIT_FUSE;
        return slot != FB_NONE && plan->owner[m->b] != FB_NONE && slot != plan->owner[m->b];
    case MOVE_STAR:
    case MOVE_MEMBERS: {
        bool apart = false;
        for (int i = 0; i < m->n_nodes; i++) {
            if (plan->owner[m->nodes[i]] == FB_NONE) return false;
            apart |= plan->owner[m->nodes[i]] != slot;
        }
        e->kind = FB_EDIT_FUSE_ALL;
        return apart;
    }
    case MOVE_RECOMPUTE: e->kind = plan->recompute[m->a] ? FB_EDIT_STORE : FB_EDIT_RECOMPUTE; return true;
    case MOVE_CHOICE:
        if (slot == FB_NONE) return false;
        e->kind = fb_slot_analysis(plan, slot)->family == FB_FAMILY_LIBRARY ? FB_EDIT_GENERATE : FB_EDIT_LIBRARY;
        return true;
    }
    return false;
}

static fb_verdict try_move(const fb_plan *plan, const move *m, const fb_edit *e, fb_plan **result)
{
    return (m->repeated ? fb_plan_try_repeated : fb_plan_try)(plan, e, result);
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
        if (plan->slot[s].n && fb_node_is_computed(p->g, s)) n += fb_region_trips(p->g, p->g->nodes[s].region);
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
    fb_family f = fb_slot_analysis(plan, slot)->family;
    return f == FB_FAMILY_CHAIN || (f == FB_FAMILY_LIBRARY && plan->planner->machine.kind == FB_DEVICE_CUDA);
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
    bool whole = plan->launch != FB_LAUNCH_MEGA || fb_may_merge(plan, 0, &why);
    for (fb_id r = 1; r < p->g->n_regions && whole; r++) whole = !is_one_kernel(plan, r) || fb_may_merge(plan, r, &why);
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
    for (int k = 0; k < s->moves.n && go_on(s); k++) {
        const move *m = &s->moves.at[k];
        fb_edit e;
        if (!edit_of(at->plan, m, &e)) continue;
        s->considered++;
        fb_verdict v = try_move(at->plan, m, &e, NULL);
        if (v.rule == FB_RULE_SAME_GROUP || !isfinite(v.before_us) || !isfinite(v.after_us)) continue;
        bool refused = v.kind >= FB_VERDICT_UNSUPPORTED;
        if (refused && (!m->repeated || v.before_us == v.after_us)) continue;
        double trips = fb_region_trips(s->p->g, s->p->g->nodes[m->a].region);
        FB_VEC_PUSH(&s->candidates, (candidate){at->us + (v.after_us - v.before_us) * trips, from, k});
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
        const move *m = &s->moves.at[c->move];
        fb_plan *plan = NULL;
        fb_edit e;
        edit_of(s->beam.at[c->from].plan, m, &e);
        try_move(s->beam.at[c->from].plan, m, &e, &plan);
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
    for (move_class *c = s->classes; c; c = c->hh.next) FB_VEC_FREE(&c->nodes);
    HASH_CLEAR(hh, s->classes);
    HASH_CLEAR(hh, s->seen);
    for (int i = 0; i < s->n_pool; i++) fb_plan_free(s->pool[i].plan);
    free_beam(s);
    FB_VEC_FREE(&s->beam);
    FB_VEC_FREE(&s->moves);
    FB_VEC_FREE(&s->candidates);
    fb_arena_free(s->arena);
}

static int64_t clamped(int64_t n, int64_t low, int64_t high)
{
    return n < low ? low : n > high ? high : n;
}

bool fb_search(fb_planner *p, const fb_search_options *o, fb_search_result *out, fb_error *err)
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
        list_moves(&s);
        run(&s);
    }
    if (!s.cancelled) merge_best(&s);
    out->considered = s.considered;
    if (!s.cancelled) take_best(&s, out);
    bool good = !s.cancelled || fb_fail(err, FB_ERR_CANCELLED, "the search was cancelled");
    search_free(&s);
    return good;
}

void fb_search_result_clear(fb_search_result *r)
{
    for (int i = 0; i < r->n; i++) fb_plan_free(r->plan[i]);
    r->n = 0;
}
