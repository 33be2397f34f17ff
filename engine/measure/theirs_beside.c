/* A framework's plan on a graph of ours, and beside a plan of ours. Units are compared: a node, or what the framework
 * was given as one call, inside of which nothing is known. Names that the graph does not have are nobody's. */
#include "measure/theirs.h"

#include "base/mem.h"
#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

int *fb_theirs_kernel_of(const fb_theirs *t, const fb_graph *g, fb_arena *arena)
{
    int *of = FB_NEW_ARRAY(arena, int, g->n_nodes);
    for (fb_id i = 0; i < g->n_nodes; i++) of[i] = FB_NONE;
    for (int k = t->n_kernels - 1; k >= 0; k--)
        for (int i = 0; i < t->kernels[k].nodes.n; i++) {
            fb_id node = fb_graph_find(g, t->kernels[k].nodes.at[i]);
            if (node != FB_NONE && fb_node_is_computed(g, node)) of[node] = k;
        }
    return of;
}

/* ---- beside a plan of ours ---- */

/* Pairs, sorted: which sets a unit is in, or which units a set holds. */
typedef struct {
    int key, value;
} member;
typedef FB_VEC(member) members;

static int by_member(const void *x, const void *y)
{
    const member *a = x, *b = y;
    return a->key != b->key ? (a->key > b->key) - (a->key < b->key) : (a->value > b->value) - (a->value < b->value);
}

/* Sorted, each once. */
static void settle(members *m)
{
    int kept_n = 0;
    if (m->n) qsort(m->at, (size_t)m->n, sizeof *m->at, by_member);
    for (int i = 0; i < m->n; i++)
        if (!kept_n || by_member(&m->at[kept_n - 1], &m->at[i]) != 0) m->at[kept_n++] = m->at[i];
    m->n = kept_n;
}

static int first_of(const members *m, int key)
{
    int low = 0, high = m->n;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (m->at[mid].key < key)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool is_in_any(const members *m, int key)
{
    int i = first_of(m, key);
    return i < m->n && m->at[i].key == key;
}

/* Is there a value that both keys have? */
static bool share(const members *m, int a, int b)
{
    int i = first_of(m, a), k = first_of(m, b);
    while (i < m->n && m->at[i].key == a && k < m->n && m->at[k].key == b) {
        if (m->at[i].value == m->at[k].value) return true;
        if (m->at[i].value < m->at[k].value)
            i++;
        else
            k++;
    }
    return false;
}

/* Kernels hold units: nodes, or calls of the framework as a whole, named by one of their nodes. */
typedef struct {
    const fb_theirs *t;
    const fb_plan *plan;
    const fb_graph *g;
    fb_id *unit;
    members theirs, ours;       /* unit → kernel */
    members in_theirs, in_ours; /* kernel → unit, of those that are known */
    fb_id *from, *to;           /* of their reasons: units, or FB_NONE */
} beside;

static fb_id unit_named(const beside *w, const char *name)
{
    fb_id node = fb_graph_find(w->g, name);
    return node == FB_NONE || !fb_node_is_computed(w->g, node) ? FB_NONE : w->unit[node];
}

static void find_units(beside *w)
{
    for (fb_id i = 0; i < w->g->n_nodes; i++) w->unit[i] = i;
    for (int c = 0; c < w->t->n_calls; c++) {
        const fb_names *call = &w->t->calls[c];
        fb_id first = FB_NONE;
        for (int i = 0; i < call->n; i++) {
            fb_id node = fb_graph_find(w->g, call->at[i]);
            if (node == FB_NONE || !fb_node_is_computed(w->g, node)) continue;
            if (first == FB_NONE) first = w->unit[node];
            w->unit[node] = first;
        }
    }
}

static void find_members(beside *w)
{
    for (int k = 0; k < w->t->n_kernels; k++)
        for (int i = 0; i < w->t->kernels[k].nodes.n; i++) {
            fb_id u = unit_named(w, w->t->kernels[k].nodes.at[i]);
            if (u == FB_NONE) continue;
            FB_VEC_PUSH(&w->theirs, (member){u, k});
            FB_VEC_PUSH(&w->in_theirs, (member){k, u});
        }
    settle(&w->theirs);
    settle(&w->in_theirs);
    for (int k = 0; k < fb_plan_groups(w->plan); k++) {
        const fb_group *group = fb_plan_group(w->plan, k);
        for (int i = 0; i < group->n_nodes; i++) {
            fb_id u = w->unit[group->nodes[i]];
            FB_VEC_PUSH(&w->ours, (member){u, k});
            if (is_in_any(&w->theirs, u)) FB_VEC_PUSH(&w->in_ours, (member){k, u});
        }
    }
    settle(&w->ours);
    settle(&w->in_ours);
    for (int i = 0; i < w->t->n_apart; i++) {
        w->from[i] = unit_named(w, w->t->apart[i].from);
        w->to[i] = unit_named(w, w->t->apart[i].to);
    }
}

/* What they gave as the reason for keeping the kernels of these two apart. */
static const char *reason(const beside *w, fb_id a, fb_id b)
{
    const char *found = NULL;
    for (int i = 0; i < w->t->n_apart; i++) {
        if (w->from[i] == FB_NONE || w->to[i] == FB_NONE || !w->t->apart[i].why) continue;
        if (w->from[i] == a && w->to[i] == b) return w->t->apart[i].why;
        if (!found && share(&w->theirs, w->from[i], a) && share(&w->theirs, w->to[i], b)) found = w->t->apart[i].why;
    }
    return found;
}

typedef struct {
    fb_id a, b, producer, consumer; /* units, and the first edge between them */
} pair;

static int by_pair(const void *x, const void *y)
{
    const pair *a = x, *b = y;
    if (a->b != b->b) return (a->b > b->b) - (a->b < b->b);
    if (a->a != b->a) return (a->a > b->a) - (a->a < b->a);
    return a->consumer != b->consumer ? (a->consumer > b->consumer) - (a->consumer < b->consumer)
                                      : (a->producer > b->producer) - (a->producer < b->producer);
}

typedef FB_VEC(fb_their_edge) edges;

static void compare_edges(const beside *w, fb_theirs_beside *out, edges *differ)
{
    const fb_deps *d = fb_planner_deps(fb_plan_planner(w->plan));
    FB_VEC(pair) pairs = {0};
    for (int i = 0; i < d->n_edges; i++) {
        const fb_edge *e = &d->edges[i];
        if (e->order_only || !fb_node_is_computed(w->g, e->producer) || !fb_node_is_computed(w->g, e->consumer))
            continue;
        pair p = {w->unit[e->producer], w->unit[e->consumer], e->producer, e->consumer};
        if (p.a != p.b) FB_VEC_PUSH(&pairs, p);
    }
    if (pairs.n) qsort(pairs.at, (size_t)pairs.n, sizeof *pairs.at, by_pair);
    for (int i = 0; i < pairs.n; i++) {
        pair p = pairs.at[i];
        if (i && pairs.at[i - 1].a == p.a && pairs.at[i - 1].b == p.b) continue;
        if (!is_in_any(&w->theirs, p.a) || !is_in_any(&w->theirs, p.b)) {
            out->unknown++;
            continue;
        }
        bool theirs = share(&w->theirs, p.a, p.b), ours = share(&w->ours, p.a, p.b);
        out->edges++;
        out->equal += theirs == ours;
        if (theirs == ours) continue;
        fb_their_edge e = {p.producer, p.consumer, theirs, theirs ? NULL : reason(w, p.a, p.b)};
        FB_VEC_PUSH(differ, e);
    }
    FB_VEC_FREE(&pairs);
}

static bool same_set(const members *a, int x, const members *b, int y)
{
    int i = first_of(a, x), k = first_of(b, y);
    if (i == a->n || a->at[i].key != x) return false;
    for (;; i++, k++) {
        bool more = i < a->n && a->at[i].key == x, also = k < b->n && b->at[k].key == y;
        if (more != also) return false;
        if (!more) return true;
        if (a->at[i].value != b->at[k].value) return false;
    }
}

/* Each of theirs stands for one of ours at most, and is of those that hold our group's first unit. */
static void compare_kernels(const beside *w, fb_theirs_beside *out)
{
    bool *taken = fb_calloc((size_t)w->t->n_kernels + 1, sizeof *taken);
    for (int k = 0; k < fb_plan_groups(w->plan); k++) {
        int at = first_of(&w->in_ours, k);
        if (at == w->in_ours.n || w->in_ours.at[at].key != k) continue;
        int unit = w->in_ours.at[at].value;
        for (int i = first_of(&w->theirs, unit); i < w->theirs.n && w->theirs.at[i].key == unit; i++) {
            int there = w->theirs.at[i].value;
            if (taken[there] || !same_set(&w->in_ours, k, &w->in_theirs, there)) continue;
            taken[there] = true;
            out->alike++;
            break;
        }
    }
    for (int k = 0; k < w->t->n_kernels; k++) out->nameless += !is_in_any(&w->in_theirs, k);
    fb_free(taken);
}

bool fb_theirs_compare(const fb_theirs *t, const fb_plan *plan, fb_arena *arena, fb_theirs_beside *out)
{
    *out = (fb_theirs_beside){0};
    if (t->unavailable || fb_plan_rolled(plan)) return false;
    beside w = {.t = t, .plan = plan, .g = fb_planner_deps(fb_plan_planner(plan))->graph};
    edges differ = {0};
    w.unit = FB_NEW_ARRAY(arena, fb_id, w.g->n_nodes);
    w.from = FB_NEW_ARRAY(arena, fb_id, t->n_apart);
    w.to = FB_NEW_ARRAY(arena, fb_id, t->n_apart);
    find_units(&w);
    find_members(&w);
    out->kernels = fb_plan_groups(plan);
    out->their_kernels = fb_theirs_launches(t);
    compare_edges(&w, out, &differ);
    compare_kernels(&w, out);
    out->n = differ.n;
    out->differ = fb_arena_copy(arena, differ.at, (size_t)differ.n * sizeof *differ.at);
    FB_VEC_FREE(&differ);
    FB_VEC_FREE(&w.theirs);
    FB_VEC_FREE(&w.ours);
    FB_VEC_FREE(&w.in_theirs);
    FB_VEC_FREE(&w.in_ours);
    return true;
}
