/* From decisions to a plan. What a compiler inlines is joined to its one reader, recomputed where several kernels read
 * it, and joined with all of them where those are one kernel in the end. What it fuses is grown along the pairs in
 * their order (plan/grow.c), so that our legality is asked for everything. */
#include "decide/decide.h"

#include "judge/library.h"

#include <stdlib.h>

void fb_decide_mark_recomputed(fb_plan *plan, fb_id node)
{
    fb_id slot = plan->owner[node];
    FB_ASSERT(plan->slot[slot].n == 1);
    fb_slots_forget(plan, slot);
    plan->slot[slot] = (fb_slot){0};
    plan->owner[node] = FB_NONE;
    plan->recompute[node] = true;
    plan->n_recompute++;
    fb_plan_touch(plan);
}

/* Has something to run after what computes `node`, besides its readers? A kernel that joins or repeats `node` inherits
 * that; its other edges go where it goes and close no cycle that was not there. */
static bool has_followers(const fb_plan *plan, fb_id node)
{
    const fb_deps *d = plan->planner->deps;
    for (int k = d->out_start[node]; k < d->out_start[node + 1]; k++)
        if (d->edges[d->out[k]].orders) return true;
    return false;
}

bool fb_decide_try_recomputed(fb_plan *plan, fb_id node)
{
    fb_id on_cycle;
    int pos = plan->slot[plan->owner[node]].pos;
    fb_decide_mark_recomputed(plan, node);
    if (!has_followers(plan, node) || fb_order_all(plan, &on_cycle)) return true;
    plan->recompute[node] = false;
    plan->n_recompute--;
    fb_plan_own_alone(plan, node);
    plan->slot[node].pos = pos;
    return false;
}

bool fb_decide_try_inlined(fb_plan *plan, fb_id node, fb_id reader)
{
    fb_id both[] = {plan->owner[reader], plan->owner[node]};
    if (has_followers(plan, node)) {
        if (fb_order_blocked(plan, both, 2, false) != FB_NONE) return false;
        fb_order_merge(plan, both, 2);
    } else {
        plan->slot[both[1]].pos = plan->slot[both[0]].pos;
    }
    fb_plan_join(plan, both, 2);
    return true;
}

typedef struct {
    fb_id a, b;
    int step;
} tagged;

typedef struct {
    fb_decider *d;
    fb_plan *plan;
    fb_id *root;  /* union-find over nodes: kernels as the compiler would have them */
    bool *again;  /* a node: several of those kernels compute it */
    bool *stored; /* a node that was inlined: a loop reads it, so that it is stored all the same */
    int *step_of; /* a node: the decision that inlined it, or FB_NONE */
    fb_pairs pairs;
    FB_VEC(tagged) tags; /* which decision a pair comes from; sorted when needed */
    FB_VEC(fb_verdict) refusals;
    FB_VEC(tagged) refused;
} applier;

static fb_id find(applier *w, fb_id n)
{
    while (w->root[n] != n) n = w->root[n] = w->root[w->root[n]];
    return n;
}

static void unite(applier *w, fb_id a, fb_id b)
{
    a = find(w, a);
    b = find(w, b);
    w->root[a > b ? a : b] = a > b ? b : a;
}

static const fb_deps *deps_of(const applier *w)
{
    return w->plan->planner->deps;
}

static const char *name_of(const applier *w, fb_id n)
{
    return w->plan->planner->g->nodes[n].name;
}

/* The one kernel that all readers of `u` are in, or FB_NONE. */
static fb_id kernel_of_readers(applier *w, fb_id u)
{
    const fb_deps *d = deps_of(w);
    fb_id one = FB_NONE;
    for (int k = d->out_start[u]; k < d->out_start[u + 1]; k++) {
        const fb_edge *e = &d->edges[d->out[k]];
        if (e->order_only) continue;
        if (w->again[e->consumer]) return FB_NONE;
        fb_id root = find(w, e->consumer);
        if (one != FB_NONE && one != root) return FB_NONE;
        one = root;
    }
    return one;
}

/* A loop that reads `u`, or FB_NONE. */
static fb_id loop_of_readers(const applier *w, fb_id u)
{
    const fb_deps *d = deps_of(w);
    for (int k = d->out_start[u]; k < d->out_start[u + 1]; k++) {
        const fb_edge *e = &d->edges[d->out[k]];
        if (!e->order_only && !fb_node_is_computed(w->plan->planner->g, e->consumer)) return e->consumer;
    }
    return FB_NONE;
}

/* Readers come after what they read, so that one pass from the end knows theirs. */
static void settle_inlined(applier *w)
{
    for (fb_id u = w->plan->planner->g->n_nodes - 1; u >= 0; u--) {
        if (w->step_of[u] == FB_NONE) continue;
        fb_id loop = loop_of_readers(w, u);
        if (loop != FB_NONE) {
            fb_step_unable(w->d, w->step_of[u], "`%s` is a loop, which starts from what is in memory: `%s` is stored",
                           name_of(w, loop), name_of(w, u));
            w->step_of[u] = FB_NONE;
            w->stored[u] = true;
            continue;
        }
        fb_id kernel = kernel_of_readers(w, u);
        if (kernel == FB_NONE)
            w->again[u] = true;
        else
            unite(w, u, kernel);
    }
}

/* ---- recomputing ---- */

static bool keeps_library(const applier *w, fb_id slot)
{
    const fb_graph *g = w->plan->planner->g;
    return fb_node_class(g, slot) == FB_CLASS_CONTRACTION &&
           fb_family_row_of(fb_slots_analysis(w->plan, slot)->family)->calls;
}

typedef struct {
    applier *w;
    fb_ids slots;
} readers;

static void add_reader(void *ctx, fb_id slot)
{
    readers *r = ctx;
    for (int i = 0; i < r->slots.n; i++)
        if (r->slots.at[i] == slot) return;
    FB_VEC_PUSH(&r->slots, slot);
}

/* Computes `u` where it is read, if every reader is still a kernel then and none loses its library call. */
static void try_recompute(applier *w, fb_id u)
{
    fb_verdict why;
    if (!fb_plan_may_recompute(w->plan, u, &why)) {
        fb_step_unable(w->d, w->step_of[u], "%s", why.text);
        return;
    }
    readers r = {.w = w};
    fb_id call = FB_NONE;
    fb_slots_after(w->plan, u, true, add_reader, &r);
    for (int i = 0; i < r.slots.n && call == FB_NONE; i++)
        if (keeps_library(w, r.slots.at[i])) call = r.slots.at[i];
    if (call != FB_NONE) {
        fb_step_unable(w->d, w->step_of[u],
                       "`%s` is a library call, which reads its operands from memory: `%s` is stored", name_of(w, call),
                       name_of(w, u));
        FB_VEC_FREE(&r.slots);
        return;
    }
    if (!fb_decide_try_recomputed(w->plan, u)) {
        fb_step_unable(w->d, w->step_of[u],
                       "`%s` reads a parameter that would be overwritten before all of its readers have run",
                       name_of(w, u));
        FB_VEC_FREE(&r.slots);
        return;
    }
    for (int i = 0; i < r.slots.n; i++) fb_slots_forget(w->plan, r.slots.at[i]);
    for (int i = 0; i < r.slots.n; i++) {
        fb_analysis *a = fb_slots_analysis(w->plan, r.slots.at[i]);
        if (a->accepted) continue;
        fb_step_unable(w->d, w->step_of[u], "%s", a->why.text);
        w->plan->recompute[u] = false;
        w->plan->n_recompute--;
        fb_plan_own_alone(w->plan, u);
        for (int k = 0; k < r.slots.n; k++) fb_slots_forget(w->plan, r.slots.at[k]);
        break;
    }
    FB_VEC_FREE(&r.slots);
}

static void recompute_all(applier *w)
{
    for (fb_id u = w->plan->planner->g->n_nodes - 1; u >= 0; u--)
        if (w->again[u]) try_recompute(w, u);
    fb_id on_cycle;
    FB_ASSERT(fb_order_all(w->plan, &on_cycle)); /* single nodes, some of them several times: as acyclic as the graph */
    fb_plan_touch(w->plan);
}

/* ---- joining ---- */

static void add_pair(applier *w, fb_id a, fb_id b, int step)
{
    if (w->plan->owner[a] == FB_NONE || w->plan->owner[b] == FB_NONE) return;
    FB_VEC_PUSH(&w->pairs, (fb_pair){a, b});
    FB_VEC_PUSH(&w->tags, (tagged){a, b, step});
}

static void add_pairs(applier *w, const fb_taken *t)
{
    const fb_deps *d = deps_of(w);
    fb_id a = t->what.a;
    if (t->what.kind == FB_STEP_FUSE) add_pair(w, a, t->what.b, t->step);
    if (t->what.kind != FB_STEP_INLINE || w->again[a] || w->stored[a]) return;
    for (int k = d->out_start[a]; k < d->out_start[a + 1]; k++)
        if (!d->edges[d->out[k]].order_only) add_pair(w, a, d->edges[d->out[k]].consumer, t->step);
}

static int by_pair(const void *x, const void *y)
{
    const tagged *a = x, *b = y;
    return a->a != b->a ? (a->a > b->a) - (a->a < b->a) : (a->b > b->b) - (a->b < b->b);
}

static void note_refusal(void *ctx, fb_pair pair, const fb_verdict *why)
{
    applier *w = ctx;
    if (!w->d->log) return;
    tagged key = {pair.a, pair.b, 0};
    const tagged *t = bsearch(&key, w->tags.at, (size_t)w->tags.n, sizeof key, by_pair);
    if (!t) return;
    FB_VEC_PUSH(&w->refused, *t);
    FB_VEC_PUSH(&w->refusals, *why);
}

/* What was refused as a pair may have been joined by others. */
static void report_refusals(applier *w)
{
    for (int i = 0; i < w->refused.n; i++) {
        const tagged *t = &w->refused.at[i];
        if (w->plan->owner[t->a] != w->plan->owner[t->b]) fb_step_unable(w->d, t->step, "%s", w->refusals.at[i].text);
    }
}

/* Kernels as the compiler has them. */
static int count_kernels(applier *w)
{
    const fb_graph *g = w->plan->planner->g;
    int n = 0;
    for (fb_id i = 0; i < g->n_nodes; i++) n += fb_node_is_computed(g, i) && !w->again[i] && find(w, i) == i;
    return n;
}

fb_plan *fb_decisions_apply(fb_decider *d, fb_library_use use)
{
    fb_planner *p = d->planner;
    size_t n = (size_t)p->g->n_nodes + 1;
    applier w = {.d = d, .plan = fb_plan_new(p)};
    w.root = fb_alloc(n * sizeof *w.root);
    w.step_of = fb_alloc(n * sizeof *w.step_of);
    w.again = fb_calloc(n, sizeof *w.again);
    w.stored = fb_calloc(n, sizeof *w.stored);
    for (fb_id i = 0; i < p->g->n_nodes; i++) w.root[i] = i, w.step_of[i] = FB_NONE;
    for (int i = 0; i < d->taken.n; i++) {
        const fb_taken *t = &d->taken.at[i];
        if (t->what.kind == FB_STEP_FUSE) unite(&w, t->what.a, t->what.b);
        for (int k = 1; t->what.kind == FB_STEP_CALL && k < t->n_nodes; k++) unite(&w, t->nodes[0], t->nodes[k]);
        if (t->what.kind == FB_STEP_INLINE) w.step_of[t->what.a] = t->step;
    }
    settle_inlined(&w);
    if (d->log) fb_steps_set_kernels(d->log, count_kernels(&w));
    recompute_all(&w);
    for (int i = 0; i < d->taken.n; i++) add_pairs(&w, &d->taken.at[i]);
    if (w.tags.n) qsort(w.tags.at, (size_t)w.tags.n, sizeof *w.tags.at, by_pair);
    fb_growth growth = {
        .keep_library = use != FB_LIBRARY_FREE, .weigh = use == FB_LIBRARY_WEIGH, .refusal = note_refusal, .ctx = &w};
    fb_plan_grow(w.plan, w.pairs.at, w.pairs.n, &growth);
    report_refusals(&w);
    FB_VEC_FREE(&w.pairs);
    FB_VEC_FREE(&w.tags);
    FB_VEC_FREE(&w.refused);
    FB_VEC_FREE(&w.refusals);
    fb_free(w.root);
    fb_free(w.again);
    fb_free(w.stored);
    fb_free(w.step_of);
    return w.plan;
}

void fb_decide_convolutions(fb_plan *plan)
{
    const fb_planner *p = plan->planner;
    for (fb_id i = 0; i < p->g->n_nodes; i++) {
        fb_id slot = plan->owner[i];
        if (slot == FB_NONE || plan->slot[slot].n != 1 || plan->slot[slot].choice != FB_CHOICE_AUTO) continue;
        if (!fb_library_convolves(&p->machine, p->g, i, NULL, NULL, NULL)) continue;
        plan->slot[slot].choice = FB_CHOICE_LIBRARY;
        fb_slots_forget(plan, slot);
        if (fb_slots_analysis(plan, slot)->accepted) continue;
        plan->slot[slot].choice = FB_CHOICE_AUTO;
        fb_slots_forget(plan, slot);
    }
    fb_plan_touch(plan);
}

/* ---- for presets that decide about groups ---- */

void fb_decide_edges(const fb_planner *p, const fb_id *nodes, int n, fb_id scope, fb_pairs *out)
{
    const fb_deps *d = p->deps;
    for (int i = 0; i < n; i++) {
        for (int k = d->in_start[nodes[i]]; k < d->in_start[nodes[i] + 1]; k++) {
            fb_id from = d->edges[k].producer;
            if (d->edges[k].order_only || !fb_node_is_computed(p->g, from)) continue;
            if (fb_scope_within(p->g, p->g->nodes[from].scope, scope)) FB_VEC_PUSH(out, (fb_pair){from, nodes[i]});
        }
    }
}

bool fb_decide_try_joined(fb_plan *plan, const fb_id *nodes, int n)
{
    fb_verdict why;
    fb_analysis *to;
    fb_ids slots = {0};
    for (int i = 0; i < n; i++) FB_VEC_PUSH(&slots, plan->owner[nodes[i]]);
    bool good =
        n == 1 || (fb_plan_may_join(plan, slots.at, n, &why) && fb_plan_judge_join(plan, slots.at, n, &to, &why));
    if (good && n > 1) fb_commit_join(plan, slots.at, n, to);
    FB_VEC_FREE(&slots);
    return good;
}
