/* Lists moves by their patterns: two edges whose names differ in the indices of their scopes alone, by the same steps,
 * are one move. Needs a planner's graph and dependences; the weights are bytes, trips of loops counted.
 */
#include "decide/moves.h"

#include "graph/access.h"
#include "plan/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STAR_MOST = 64 };

/* Moves that differ in the indices of their scopes alone. */
typedef struct {
    char *key;
    int move, count;
    fb_ids nodes; /* members, FB_MOVE_RECOMPUTE's alone: they are the pattern's nodes */
    UT_hash_handle hh;
} move_class;

typedef struct {
    const fb_planner *p;
    fb_arena *arena;
    FB_VEC(fb_move) moves;
    move_class *classes;
} listing;

/* The pattern of each node and how their indices differ: what two alike moves share. */
static char *key_text(listing *s, fb_move_kind kind, fb_id a, fb_id b)
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
static move_class *add_move(listing *s, const fb_move *m)
{
    char *key = key_text(s, m->kind, m->a, m->b);
    move_class *c;
    HASH_FIND_STR(s->classes, key, c);
    if (c) {
        fb_move *first = &s->moves.at[c->move];
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

static double bytes_of(const listing *s, fb_id node)
{
    return (double)fb_node_bytes(s->p->g, node) * fb_judge_region_trips(s->p->g, s->p->g->nodes[node].region);
}

static bool is_fusible(const listing *s, const fb_edge *e)
{
    const fb_graph *g = s->p->g;
    return !e->order_only && fb_node_is_computed(g, e->producer) && fb_node_is_computed(g, e->consumer);
}

/* Edges, and a producer with all that read it. */
static void add_edge_moves(listing *s)
{
    const fb_deps *d = s->p->deps;
    for (int i = 0; i < d->n_edges; i++) {
        const fb_edge *e = &d->edges[i];
        if (!is_fusible(s, e)) continue;
        add_move(s, &(fb_move){
                        .kind = FB_MOVE_EDGE, .a = e->producer, .b = e->consumer, .weight = bytes_of(s, e->producer)});
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
            s,
            &(fb_move){
                .kind = FB_MOVE_STAR, .a = a, .b = FB_NONE, .n_nodes = kept, .nodes = nodes, .weight = bytes_of(s, a)});
    }
}

/* Readers of one value, two after the other: in one kernel it is read once. */
static void add_beside_moves(listing *s)
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
            add_move(s, &(fb_move){.kind = FB_MOVE_BESIDE, .a = before, .b = i, .weight = bytes_of(s, base)});
        }
    }
    fb_free(last);
}

static void add_node_moves(listing *s)
{
    const fb_graph *g = s->p->g;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (!fb_node_is_computed(g, i)) continue;
        fb_op_class cls = fb_node_class(g, i);
        bool cheap = cls == FB_CLASS_POINTWISE || cls == FB_CLASS_JOIN || cls == FB_CLASS_GATHER;
        fb_move m = {.kind = FB_MOVE_RECOMPUTE, .a = i, .b = FB_NONE, .weight = bytes_of(s, i)};
        move_class *c = cheap && !s->p->keep[i] ? add_move(s, &m) : NULL;
        if (c) FB_VEC_PUSH(&c->nodes, i);
        m.kind = FB_MOVE_CHOICE;
        if (cls == FB_CLASS_CONTRACTION) add_move(s, &m);
        m.kind = FB_MOVE_ORDER;
        if (s->p->machine.target->grid && g->nodes[i].op == FB_OP_SCATTER_ADD) add_move(s, &m);
    }
}

/* All members of a repetition in one launch. */
static void add_member_moves(listing *s)
{
    for (move_class *c = s->classes; c; c = c->hh.next) {
        fb_move m = s->moves.at[c->move];
        if (c->nodes.n < 2) continue;
        m.kind = FB_MOVE_MEMBERS;
        m.repeated = false;
        m.n_nodes = c->nodes.n;
        m.nodes = fb_arena_copy(s->arena, c->nodes.at, (size_t)c->nodes.n * sizeof *c->nodes.at);
        m.order = s->moves.n;
        FB_VEC_PUSH(&s->moves, m);
    }
}

static int by_weight(const void *a, const void *b)
{
    const fb_move *x = a, *y = b;
    return x->weight != y->weight ? (x->weight < y->weight) - (x->weight > y->weight) : x->order - y->order;
}

int fb_moves_list(const fb_planner *p, fb_arena *arena, const fb_move **out)
{
    listing s = {.p = p, .arena = arena};
    add_edge_moves(&s);
    add_beside_moves(&s);
    add_node_moves(&s);
    add_member_moves(&s);
    int n = s.moves.n < FB_MOVES_MOST ? s.moves.n : FB_MOVES_MOST;
    if (s.moves.n) qsort(s.moves.at, (size_t)s.moves.n, sizeof *s.moves.at, by_weight);
    *out = n ? fb_arena_copy(arena, s.moves.at, (size_t)n * sizeof *s.moves.at) : NULL;
    for (move_class *c = s.classes; c; c = c->hh.next) FB_VEC_FREE(&c->nodes);
    HASH_CLEAR(hh, s.classes);
    FB_VEC_FREE(&s.moves);
    return n;
}

bool fb_move_edit(const fb_plan *plan, const fb_move *m, fb_edit *e)
{
    *e = (fb_edit){.a = m->a, .b = m->b, .n_nodes = m->n_nodes, .nodes = m->nodes};
    fb_id slot = plan->owner[m->a];
    switch (m->kind) {
    case FB_MOVE_EDGE:
        if (slot == FB_NONE || plan->owner[m->b] == FB_NONE) return false;
        e->kind = slot == plan->owner[m->b] ? FB_EDIT_CUT : FB_EDIT_FUSE;
        return true;
    case FB_MOVE_BESIDE:
        e->kind = FB_EDIT_FUSE;
        return slot != FB_NONE && plan->owner[m->b] != FB_NONE && slot != plan->owner[m->b];
    case FB_MOVE_STAR:
    case FB_MOVE_MEMBERS: {
        bool apart = false;
        for (int i = 0; i < m->n_nodes; i++) {
            if (plan->owner[m->nodes[i]] == FB_NONE) return false;
            apart |= plan->owner[m->nodes[i]] != slot;
        }
        e->kind = FB_EDIT_FUSE_ALL;
        return apart;
    }
    case FB_MOVE_RECOMPUTE: e->kind = plan->recompute[m->a] ? FB_EDIT_STORE : FB_EDIT_RECOMPUTE; return true;
    case FB_MOVE_CHOICE:
        if (slot == FB_NONE) return false;
        e->kind = fb_family_row_of(fb_slots_analysis(plan, slot)->family)->calls ? FB_EDIT_GENERATE : FB_EDIT_LIBRARY;
        return true;
    case FB_MOVE_ORDER:
        if (slot == FB_NONE) return false;
        e->kind = FB_EDIT_KNOB;
        e->knob = FB_KNOB_ATOMICS;
        e->value = !fb_knob_of(plan->slot[slot].knobs, FB_KNOB_ATOMICS);
        return true;
    }
    return false;
}

fb_verdict fb_move_try(const fb_plan *plan, const fb_move *m, const fb_edit *e, fb_plan **result)
{
    return (m->repeated ? fb_plan_try_repeated : fb_plan_try)(plan, e, result);
}

double fb_move_gain(const fb_plan *plan, const fb_move *m, const fb_verdict *v)
{
    if (v->rule == FB_RULE_SAME_GROUP || !isfinite(v->before_us) || !isfinite(v->after_us)) return NAN;
    /* of repetitions some may have been made before one was refused */
    bool refused = v->kind >= FB_VERDICT_UNSUPPORTED;
    if (refused && (!m->repeated || v->before_us == v->after_us)) return NAN;
    const fb_graph *g = plan->planner->g;
    return (v->before_us - v->after_us) * fb_judge_region_trips(g, g->nodes[m->a].region);
}
