/* The plan as a graph of slots: who must run after whom, whether a merge makes a cycle, and the launch order. */
#include "plan/parts.h"

#include <stdlib.h>

/* ---- edges between slots ---- */

/* Slots that own a reader of recomputed node `r`, directly or through other recomputed ones. Each `r` is walked once.
 */
static void visit_recomputing(const fb_plan *plan, fb_id r, fb_visit_slot *visit, void *ctx)
{
    const fb_deps *d = plan->planner->deps;
    if (fb_marked(plan->planner, FB_MARK_DOWN, r)) return;
    fb_mark(plan->planner, FB_MARK_DOWN, r);
    for (int k = d->out_start[r]; k < d->out_start[r + 1]; k++) {
        const fb_edge *e = &d->edges[d->out[k]];
        if (e->order_only) continue;
        if (plan->recompute[e->consumer])
            visit_recomputing(plan, e->consumer, visit, ctx);
        else
            visit(ctx, plan->owner[e->consumer]);
    }
}

void fb_slots_computing(const fb_plan *plan, fb_id node, fb_visit_slot *visit, void *ctx)
{
    if (plan->recompute[node]) {
        fb_mark_begin(plan->planner, FB_MARK_DOWN);
        visit_recomputing(plan, node, visit, ctx);
    } else {
        visit(ctx, plan->owner[node]);
    }
}

/* A recomputed producer reads what it reads wherever it is computed, so all of these precede what it must precede. */
static void after_recomputed(const fb_plan *plan, fb_id node, fb_visit_slot *visit, void *ctx)
{
    const fb_deps *d = plan->planner->deps;
    for (int i = d->in_start[node]; i < d->in_start[node + 1]; i++) {
        fb_id p = d->edges[i].producer;
        if (d->edges[i].order_only || !plan->recompute[p] || fb_marked(plan->planner, FB_MARK_UP, p)) continue;
        fb_mark(plan->planner, FB_MARK_UP, p);
        for (int k = d->out_start[p]; k < d->out_start[p + 1]; k++) {
            const fb_edge *e = &d->edges[d->out[k]];
            if (e->orders) visit(ctx, plan->owner[e->consumer]);
        }
        after_recomputed(plan, p, visit, ctx);
    }
}

void fb_slots_after(const fb_plan *plan, fb_id node, bool values_only, fb_visit_slot *visit, void *ctx)
{
    const fb_deps *d = plan->planner->deps;
    for (int k = d->out_start[node]; k < d->out_start[node + 1]; k++) {
        const fb_edge *e = &d->edges[d->out[k]];
        if (!e->order_only || !values_only) fb_slots_computing(plan, e->consumer, visit, ctx);
    }
    if (!plan->n_recompute || values_only) return;
    fb_mark_begin(plan->planner, FB_MARK_UP);
    after_recomputed(plan, node, visit, ctx);
}

static void visit_before(const fb_plan *plan, fb_id node, bool values_only, fb_visit_slot *visit, void *ctx)
{
    const fb_deps *d = plan->planner->deps;
    for (int i = d->in_start[node]; i < d->in_start[node + 1]; i++) {
        const fb_edge *e = &d->edges[i];
        if (e->order_only && values_only) continue;
        if (!plan->recompute[e->producer]) {
            visit(ctx, plan->owner[e->producer]);
            continue;
        }
        if (e->orders && !values_only) fb_slots_computing(plan, e->producer, visit, ctx);
        if (!e->order_only && !fb_marked(plan->planner, FB_MARK_UP, e->producer)) {
            fb_mark(plan->planner, FB_MARK_UP, e->producer);
            visit_before(plan, e->producer, values_only, visit, ctx);
        }
    }
}

void fb_slots_before(const fb_plan *plan, fb_id node, bool values_only, fb_visit_slot *visit, void *ctx)
{
    fb_mark_begin(plan->planner, FB_MARK_UP);
    visit_before(plan, node, values_only, visit, ctx);
}

/* ---- merging ---- */

/* A search from the slots of a set through the slots that lie between its first and last position. Two run in turn, one
 * forward and one backward: whichever ends first has looked at everything on its side, and found no way back. */
typedef struct {
    const fb_plan *plan;
    bool forward, values_only;
    int mark, limit;
    fb_ids queue;
    int at;
    fb_id node; /* the next to look at of queue[at]; FB_NONE: take the next slot */
    fb_id found;
    int n_set;
} search;

static void reach(void *ctx, fb_id slot)
{
    search *s = ctx;
    fb_planner *p = s->plan->planner;
    if (fb_marked(p, FB_MARK_SET, slot)) {
        if (s->at >= s->n_set) s->found = s->queue.at[s->at];
        return;
    }
    int pos = s->plan->slot[slot].pos;
    if ((s->forward ? pos > s->limit : pos < s->limit) || fb_marked(p, s->mark, slot)) return;
    fb_mark(p, s->mark, slot);
    FB_VEC_PUSH(&s->queue, slot);
}

/* Looks at one node. False when there is none left. */
static bool step(search *s)
{
    if (s->node == FB_NONE) {
        if (s->at + 1 >= s->queue.n) return false;
        s->node = s->queue.at[++s->at];
        /* What lies beyond the outermost slot of the set lies outside the window. */
        if (s->at < s->n_set && s->plan->slot[s->node].pos == s->limit) {
            s->node = FB_NONE;
            return true;
        }
    }
    (s->forward ? fb_slots_after : fb_slots_before)(s->plan, s->node, s->values_only, reach, s);
    s->node = s->plan->next[s->node];
    return true;
}

static search search_new(const fb_plan *plan, const fb_id *slots, int n, bool forward, int limit)
{
    search s = {
        .plan = plan, .forward = forward, .limit = limit, .at = -1, .node = FB_NONE, .found = FB_NONE, .n_set = n};
    s.mark = forward ? FB_MARK_FORWARD : FB_MARK_BACKWARD;
    fb_mark_begin(plan->planner, s.mark);
    for (int i = 0; i < n; i++) FB_VEC_PUSH(&s.queue, slots[i]);
    return s;
}

/* The two searches of one set, before their first step. */
static void searches(const fb_plan *plan, const fb_id *slots, int n, search *f, search *b)
{
    fb_planner *p = plan->planner;
    fb_mark_begin(p, FB_MARK_SET);
    int low = plan->slot[slots[0]].pos, high = low;
    for (int i = 0; i < n; i++) {
        int pos = plan->slot[slots[i]].pos;
        fb_mark(p, FB_MARK_SET, slots[i]);
        if (pos < low) low = pos;
        if (pos > high) high = pos;
    }
    *f = search_new(plan, slots, n, true, high);
    *b = search_new(plan, slots, n, false, low);
}

static fb_id run_searches(search *f, search *b, bool *more_f, bool *more_b)
{
    *more_f = *more_b = true;
    while (*more_f && *more_b) {
        *more_f = step(f);
        if (f->found != FB_NONE) return f->found;
        *more_b = step(b);
        if (b->found != FB_NONE) return b->found;
    }
    return FB_NONE;
}

fb_id fb_order_blocked(const fb_plan *plan, const fb_id *slots, int n, bool values_only)
{
    search f, b;
    bool more_f, more_b;
    searches(plan, slots, n, &f, &b);
    f.values_only = b.values_only = values_only;
    fb_id through = run_searches(&f, &b, &more_f, &more_b);
    FB_VEC_FREE(&f.queue);
    FB_VEC_FREE(&b.queue);
    return through;
}

typedef struct {
    int pos;
    fb_id slot;
} place;

static int by_pos(const void *a, const void *b)
{
    return ((const place *)a)->pos - ((const place *)b)->pos;
}

/* The places of all concerned are dealt out again: what precedes the set, the set, what follows it. Pearce and Kelly's
 * reordering ("A dynamic topological sort algorithm for directed acyclic graphs", 2006) with the set as one vertex. */
static void settle_between(fb_plan *plan, const fb_id *slots, int n, const search *forward, const search *backward)
{
    FB_VEC(place) before = {0}, after = {0}, all = {0};
    for (int i = n; i < backward->queue.n; i++)
        FB_VEC_PUSH(&before, (place){plan->slot[backward->queue.at[i]].pos, backward->queue.at[i]});
    for (int i = n; i < forward->queue.n; i++)
        FB_VEC_PUSH(&after, (place){plan->slot[forward->queue.at[i]].pos, forward->queue.at[i]});
    if (before.n) qsort(before.at, (size_t)before.n, sizeof *before.at, by_pos);
    if (after.n) qsort(after.at, (size_t)after.n, sizeof *after.at, by_pos);
    for (int i = 0; i < before.n; i++) FB_VEC_PUSH(&all, before.at[i]);
    for (int i = 0; i < after.n; i++) FB_VEC_PUSH(&all, after.at[i]);
    for (int i = 0; i < n; i++) FB_VEC_PUSH(&all, (place){plan->slot[slots[i]].pos, slots[i]});
    qsort(all.at, (size_t)all.n, sizeof *all.at, by_pos);
    for (int i = 0; i < before.n; i++) plan->slot[before.at[i].slot].pos = all.at[i].pos;
    for (int i = 0; i < n; i++) plan->slot[slots[i]].pos = all.at[before.n].pos;
    for (int i = 0; i < after.n; i++) plan->slot[after.at[i].slot].pos = all.at[all.n - after.n + i].pos;
    FB_VEC_FREE(&before);
    FB_VEC_FREE(&after);
    FB_VEC_FREE(&all);
}

static void settle_at(fb_plan *plan, const fb_id *slots, int n, int pos)
{
    for (int i = 0; i < n; i++) plan->slot[slots[i]].pos = pos;
}

void fb_order_merge(fb_plan *plan, const fb_id *slots, int n)
{
    search f, b;
    bool more_f, more_b;
    searches(plan, slots, n, &f, &b);
    FB_ASSERT(run_searches(&f, &b, &more_f, &more_b) == FB_NONE);
    if (!more_f && f.queue.n == n) {
        settle_at(plan, slots, n, f.limit);
    } else if (!more_b && b.queue.n == n) {
        settle_at(plan, slots, n, b.limit);
    } else {
        while (step(&f)) {}
        while (step(&b)) {}
        settle_between(plan, slots, n, &f, &b);
    }
    FB_VEC_FREE(&f.queue);
    FB_VEC_FREE(&b.queue);
}

/* ---- the whole order ---- */

typedef struct {
    fb_id first, slot;
} ready;

typedef struct {
    const fb_plan *plan;
    int *waits;   /* a slot: edges from slots not yet out */
    fb_id *first; /* a slot: its first node, which breaks ties */
    fb_id own;    /* whose edges are walked */
    int delta;    /* +1 counting, -1 releasing */
    FB_VEC(ready) heap;
    fb_ids out; /* slots in order */
} kahn;

static void push(kahn *k, fb_id slot)
{
    FB_VEC_PUSH(&k->heap, (ready){k->first[slot], slot});
    int i = k->heap.n - 1;
    ready *h = k->heap.at, item = h[i];
    for (; i > 0 && h[(i - 1) / 2].first > item.first; i = (i - 1) / 2) h[i] = h[(i - 1) / 2];
    h[i] = item;
}

static fb_id pop(kahn *k)
{
    ready *h = k->heap.at, top = h[0], item = h[--k->heap.n];
    int i = 0, n = k->heap.n;
    for (int c; (c = 2 * i + 1) < n; i = c) {
        if (c + 1 < n && h[c + 1].first < h[c].first) c++;
        if (h[c].first >= item.first) break;
        h[i] = h[c];
    }
    h[i] = item;
    return top.slot;
}

static void follow(void *ctx, fb_id slot)
{
    kahn *k = ctx;
    if (slot == k->own) return;
    k->waits[slot] += k->delta;
    if (k->delta < 0 && k->waits[slot] == 0) push(k, slot);
}

static void walk(kahn *k, fb_id slot, int delta)
{
    k->own = slot;
    k->delta = delta;
    for (fb_id n = slot; n != FB_NONE; n = k->plan->next[n]) fb_slots_after(k->plan, n, false, follow, k);
}

/* All slots, topological, ties by first node. The caller frees. */
static fb_ids sorted(const fb_plan *plan, fb_id *on_cycle)
{
    size_t n = (size_t)plan->planner->g->n_nodes;
    kahn k = {.plan = plan, .waits = fb_calloc(n + 1, sizeof(int)), .first = fb_calloc(n + 1, sizeof(fb_id))};
    int total = 0;
    for (fb_id s = 0; s < (fb_id)n; s++) {
        if (!plan->slot[s].n) continue;
        total++;
        k.first[s] = s;
        for (fb_id i = s; i != FB_NONE; i = plan->next[i])
            if (i < k.first[s]) k.first[s] = i;
        walk(&k, s, 1);
    }
    for (fb_id s = 0; s < (fb_id)n; s++)
        if (plan->slot[s].n && !k.waits[s]) push(&k, s);
    while (k.heap.n) {
        fb_id s = pop(&k);
        FB_VEC_PUSH(&k.out, s);
        walk(&k, s, -1);
    }
    if (k.out.n < total && on_cycle) {
        for (fb_id s = 0; s < (fb_id)n; s++)
            if (plan->slot[s].n && k.waits[s]) *on_cycle = s;
    }
    if (k.out.n < total) FB_VEC_FREE(&k.out);
    fb_free(k.waits);
    fb_free(k.first);
    FB_VEC_FREE(&k.heap);
    return k.out;
}

bool fb_order_all(fb_plan *plan, fb_id *on_cycle)
{
    *on_cycle = FB_NONE;
    fb_ids order = sorted(plan, on_cycle);
    for (int i = 0; i < order.n; i++) plan->slot[order.at[i]].pos = i;
    FB_VEC_FREE(&order);
    return *on_cycle == FB_NONE;
}

typedef struct {
    const fb_graph *g;
    const fb_ids *order;
    fb_view *view;
    int *start, *in_region; /* order's entries, by region */
} numbering;

static void add_step(fb_view *view, fb_order_kind kind, int number)
{
    view->order[view->n_order++] = (fb_order_entry){kind, number};
}

static void number_region(numbering *n, fb_id region)
{
    for (int i = n->start[region]; i < n->start[region + 1]; i++) {
        fb_id slot = n->in_region[i];
        if (n->g->nodes[slot].op == FB_OP_LOOP) {
            fb_id inner = n->g->nodes[slot].attrs->region;
            add_step(n->view, FB_ORDER_OPEN, inner);
            number_region(n, inner);
            add_step(n->view, FB_ORDER_CLOSE, inner);
            continue;
        }
        add_step(n->view, FB_ORDER_GROUP, n->view->n);
        n->view->number[slot] = n->view->n;
        n->view->slot_of[n->view->n++] = slot;
    }
}

void fb_order_number(const fb_plan *plan, fb_view *view)
{
    const fb_graph *g = plan->planner->g;
    fb_ids order = sorted(plan, NULL);
    numbering n = {.g = g, .order = &order, .view = view};
    n.start = fb_calloc((size_t)g->n_regions + 2, sizeof(int));
    n.in_region = fb_calloc((size_t)order.n + 1, sizeof(int));
    for (int i = 0; i < order.n; i++) n.start[g->nodes[order.at[i]].region + 2]++;
    for (int r = 1; r <= g->n_regions; r++) n.start[r + 1] += n.start[r];
    for (int i = 0; i < order.n; i++) n.in_region[n.start[g->nodes[order.at[i]].region + 1]++] = order.at[i];
    view->n = view->n_order = 0;
    view->order = fb_calloc((size_t)order.n + (size_t)g->n_regions + 1, sizeof *view->order);
    number_region(&n, 0);
    fb_free(n.start);
    fb_free(n.in_region);
    FB_VEC_FREE(&order);
}
