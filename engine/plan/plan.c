/* Planners and plans as values: made, copied, compared, joined and taken apart. Groups are rings of nodes; numbering
 * and records are made when somebody asks, and dropped by the next edit (fb_plan_touch). Nothing is judged here.
 */
#include "plan/parts.h"

#include <stdlib.h>
#include <string.h>

const char *fb_launch_mode_name(fb_launch_mode m)
{
    static const char *const name[] = {
        [FB_LAUNCH_STREAM] = "stream", [FB_LAUNCH_GRAPH] = "graph", [FB_LAUNCH_MEGA] = "mega"};
    return name[m];
}

/* ---- life ---- */

static fb_plan *plan_alloc(fb_planner *p)
{
    size_t n = (size_t)p->g->n_nodes + 1;
    fb_plan *plan = fb_calloc(1, sizeof *plan);
    plan->planner = p;
    plan->owner = fb_alloc(n * sizeof *plan->owner);
    plan->next = fb_alloc(n * sizeof *plan->next);
    plan->slot = fb_calloc(n, sizeof *plan->slot);
    plan->recompute = fb_calloc(n, sizeof *plan->recompute);
    plan->view = fb_calloc(1, sizeof *plan->view);
    return plan;
}

fb_plan *fb_plan_new(fb_planner *p)
{
    fb_plan *plan = plan_alloc(p);
    for (fb_id i = 0; i < p->g->n_nodes; i++) {
        plan->owner[i] = plan->next[i] = FB_NONE;
        if (p->vertex[i]) fb_plan_own_alone(plan, i);
    }
    fb_id on_cycle;
    FB_ASSERT(fb_order_all(plan, &on_cycle)); /* single nodes are as acyclic as the graph */
    return plan;
}

fb_plan *fb_plan_copy(const fb_plan *from)
{
    size_t n = (size_t)from->planner->g->n_nodes;
    fb_plan *plan = plan_alloc(from->planner);
    memcpy(plan->owner, from->owner, n * sizeof *plan->owner);
    memcpy(plan->next, from->next, n * sizeof *plan->next);
    memcpy(plan->slot, from->slot, n * sizeof *plan->slot);
    memcpy(plan->recompute, from->recompute, n * sizeof *plan->recompute);
    for (size_t i = 0; i < n; i++)
        if (plan->slot[i].analysis) fb_analysis_hold(plan->planner, plan->slot[i].analysis);
    plan->n_recompute = from->n_recompute;
    plan->launch = from->launch;
    plan->overlap = from->overlap;
    return plan;
}

void fb_plan_touch(fb_plan *plan)
{
    fb_free(plan->view->slot_of);
    fb_free(plan->view->number);
    fb_free(plan->view->group);
    fb_free(plan->view->order);
    *plan->view = (fb_view){0};
}

void fb_plan_free(fb_plan *plan)
{
    if (!plan) return;
    for (fb_id i = 0; i < plan->planner->g->n_nodes; i++) fb_slots_forget(plan, i);
    fb_plan_touch(plan);
    fb_free(plan->view);
    fb_free(plan->owner);
    fb_free(plan->next);
    fb_free(plan->slot);
    fb_free(plan->recompute);
    fb_free(plan);
}

fb_planner *fb_plan_planner(const fb_plan *plan)
{
    return plan->planner;
}

bool fb_plan_rolled(const fb_plan *plan)
{
    return plan->planner->written != NULL;
}

/* ---- slots ---- */

void fb_slots_forget(fb_plan *plan, fb_id slot)
{
    if (plan->slot[slot].analysis) fb_analysis_drop(plan->planner, plan->slot[slot].analysis);
    plan->slot[slot].analysis = NULL;
}

void fb_plan_own_alone(fb_plan *plan, fb_id node)
{
    plan->owner[node] = node;
    plan->next[node] = FB_NONE;
    plan->slot[node] = (fb_slot){.tail = node, .n = 1};
}

fb_choice fb_choice_joined(const fb_plan *plan, const fb_id *slots, int n)
{
    fb_choice choice = FB_CHOICE_AUTO;
    for (int i = 0; i < n; i++) {
        fb_choice c = plan->slot[slots[i]].choice;
        if (c == FB_CHOICE_LIBRARY || (c == FB_CHOICE_GENERATE && choice == FB_CHOICE_AUTO)) choice = c;
    }
    return choice;
}

fb_id fb_plan_join(fb_plan *plan, const fb_id *slots, int n)
{
    fb_choice choice = fb_choice_joined(plan, slots, n);
    const fb_knobs *knobs = NULL;
    fb_id into = slots[0];
    for (int i = 0; i < n; i++) {
        if (!knobs) knobs = plan->slot[slots[i]].knobs;
        if (plan->slot[slots[i]].n > plan->slot[into].n) into = slots[i];
        fb_slots_forget(plan, slots[i]);
    }
    fb_slot *to = &plan->slot[into];
    for (int i = 0; i < n; i++) {
        fb_id from = slots[i];
        if (from == into) continue;
        for (fb_id k = from; k != FB_NONE; k = plan->next[k]) plan->owner[k] = into;
        plan->next[to->tail] = from;
        to->tail = plan->slot[from].tail;
        to->n += plan->slot[from].n;
        plan->slot[from] = (fb_slot){0};
    }
    to->choice = choice;
    to->knobs = knobs;
    to->source = NULL; /* it was written for one of the parts */
    fb_plan_touch(plan);
    return into;
}

void fb_plan_split(fb_plan *plan, fb_id slot, const fb_ids *owned, const int *part, int n_parts)
{
    fb_choice choice = plan->slot[slot].choice;
    fb_slots_forget(plan, slot);
    plan->slot[slot] = (fb_slot){0};
    fb_id *head = fb_alloc((size_t)n_parts * sizeof *head);
    for (int i = 0; i < n_parts; i++) head[i] = FB_NONE;
    for (int i = 0; i < owned->n; i++) {
        fb_id node = owned->at[i], *h = &head[part[i]];
        fb_plan_own_alone(plan, node);
        if (fb_node_class(plan->planner->g, node) == FB_CLASS_CONTRACTION) plan->slot[node].choice = choice;
        *h = *h == FB_NONE ? node : fb_plan_join(plan, (fb_id[]){*h, node}, 2);
    }
    fb_free(head);
    fb_plan_touch(plan);
}

void fb_plan_owned(const fb_plan *plan, fb_id slot, fb_ids *out)
{
    for (fb_id i = slot; i != FB_NONE; i = plan->next[i]) FB_VEC_PUSH(out, i);
    fb_ids_sort(out);
}

static int by_id(const void *a, const void *b)
{
    fb_id x = *(const fb_id *)a, y = *(const fb_id *)b;
    return (x > y) - (x < y);
}

void fb_ids_sort(fb_ids *ids)
{
    int i = 1;
    while (i < ids->n && ids->at[i - 1] <= ids->at[i]) i++;
    if (i < ids->n) qsort(ids->at, (size_t)ids->n, sizeof *ids->at, by_id);
}

void fb_plan_set_knob(fb_plan *plan, fb_id slot, fb_knob knob, int64_t value)
{
    fb_knobs *knobs = fb_arena_alloc(plan->planner->arena, sizeof *knobs);
    if (plan->slot[slot].knobs) *knobs = *plan->slot[slot].knobs;
    knobs->value[knob] = value;
    plan->slot[slot].knobs = knobs;
    fb_plan_touch(plan);
}

/* ---- the user's kernels ---- */

void fb_plan_set_source(fb_plan *plan, fb_id slot, const char *path)
{
    plan->slot[slot].source = path ? fb_planner_source(plan->planner, path) : NULL;
    fb_plan_touch(plan);
}

int fb_plan_sources(const fb_plan *plan, fb_arena *arena, const fb_kernel_source ***out)
{
    int n = 0;
    *out = FB_NEW_ARRAY(arena, const fb_kernel_source *, plan->planner->sources.n);
    for (int i = 0; i < plan->planner->sources.n; i++) {
        const fb_kernel_source *s = plan->planner->sources.at[i];
        bool named = false;
        for (fb_id k = 0; k < plan->planner->g->n_nodes && !named; k++)
            named = plan->slot[k].n && plan->slot[k].source == s;
        if (named) (*out)[n++] = s;
    }
    return n;
}

/* ---- what a kernel of some slots computes and stores ---- */

typedef struct {
    fb_planner *planner;
    bool outside;
} leaving;

static void leaves(void *ctx, fb_id slot)
{
    leaving *l = ctx;
    if (!fb_marked(l->planner, FB_MARK_SET, slot)) l->outside = true;
}

static bool is_stored(const fb_plan *plan, fb_id node)
{
    const fb_deps *d = plan->planner->deps;
    leaving l = {plan->planner, plan->planner->keep[node]};
    for (int k = d->out_start[node]; k < d->out_start[node + 1] && !l.outside; k++) {
        const fb_edge *e = &d->edges[d->out[k]];
        if (!e->order_only) fb_slots_computing(plan, e->consumer, leaves, &l);
    }
    return l.outside;
}

/* Recomputed nodes that `node` reads, each once. */
static void pull(const fb_plan *plan, fb_id node, fb_ids *nodes)
{
    const fb_deps *d = plan->planner->deps;
    for (int i = d->in_start[node]; i < d->in_start[node + 1]; i++) {
        fb_id p = d->edges[i].producer;
        if (d->edges[i].order_only || !plan->recompute[p] || fb_marked(plan->planner, FB_MARK_FORWARD, p)) continue;
        fb_mark(plan->planner, FB_MARK_FORWARD, p);
        FB_VEC_PUSH(nodes, p);
        pull(plan, p, nodes);
    }
}

void fb_plan_gather(const fb_plan *plan, const fb_id *slots, int n, fb_ids *nodes, fb_ids *stored)
{
    fb_planner *p = plan->planner;
    fb_mark_begin(p, FB_MARK_SET);
    fb_mark_begin(p, FB_MARK_FORWARD);
    for (int i = 0; i < n; i++) fb_mark(p, FB_MARK_SET, slots[i]);
    for (int i = 0; i < n; i++) {
        for (fb_id k = slots[i]; k != FB_NONE; k = plan->next[k]) {
            FB_VEC_PUSH(nodes, k);
            if (is_stored(plan, k)) FB_VEC_PUSH(stored, k);
            if (plan->n_recompute) pull(plan, k, nodes);
        }
    }
    fb_ids_sort(nodes);
    fb_ids_sort(stored);
}

fb_analysis *fb_slots_analysis(const fb_plan *plan, fb_id slot)
{
    fb_slot *s = &plan->slot[slot];
    if (s->analysis) return s->analysis;
    fb_ids nodes = {0}, stored = {0};
    fb_plan_gather(plan, &slot, 1, &nodes, &stored);
    s->analysis = fb_analyse(plan->planner, &nodes, &stored, s->choice);
    FB_VEC_FREE(&nodes);
    FB_VEC_FREE(&stored);
    return s->analysis;
}

/* ---- groups ---- */

static const fb_view *view_of(const fb_plan *plan)
{
    fb_view *v = plan->view;
    if (v->numbered) return v;
    size_t n = (size_t)plan->planner->g->n_nodes + 1;
    v->slot_of = fb_alloc(n * sizeof *v->slot_of);
    v->number = fb_alloc(n * sizeof *v->number);
    for (size_t i = 0; i < n; i++) v->number[i] = FB_NONE;
    fb_order_number(plan, v);
    v->group = fb_calloc((size_t)v->n + 1, sizeof *v->group);
    v->numbered = true;
    return v;
}

int fb_plan_groups(const fb_plan *plan)
{
    return view_of(plan)->n;
}

int fb_plan_group_of(const fb_plan *plan, fb_id node)
{
    if (node < 0 || node >= plan->planner->g->n_nodes || plan->owner[node] == FB_NONE) return FB_NONE;
    return view_of(plan)->number[plan->owner[node]];
}

bool fb_plan_recomputed(const fb_plan *plan, fb_id node)
{
    return node >= 0 && node < plan->planner->g->n_nodes && plan->recompute[node];
}

fb_launch_mode fb_plan_launch_mode(const fb_plan *plan)
{
    return plan->launch;
}

bool fb_plan_overlap(const fb_plan *plan)
{
    return plan->overlap;
}

static fb_analysis *group_analysis(const fb_plan *plan, int group)
{
    return fb_slots_analysis(plan, view_of(plan)->slot_of[group]);
}

bool fb_group_stores(const fb_group *group, fb_id node)
{
    for (int i = 0; i < group->n_stored; i++)
        if (group->stored[i] == node) return true;
    return false;
}

const fb_group *fb_plan_group(const fb_plan *plan, int group)
{
    fb_group *out = &view_of(plan)->group[group];
    if (out->nodes) return out;
    const fb_analysis *a = group_analysis(plan, group);
    const fb_knobs *knobs = plan->slot[plan->view->slot_of[group]].knobs;
    if (knobs) out->knobs = *knobs;
    *out = (fb_group){.family = a->family,
                      .knobs = out->knobs,
                      .n_nodes = a->kernel.n_nodes,
                      .nodes = a->kernel.nodes,
                      .n_stored = a->kernel.n_stored,
                      .stored = a->kernel.stored,
                      .nest = a->nest,
                      .source = plan->slot[plan->view->slot_of[group]].source};
    return out;
}

const fb_verdict *fb_plan_group_refusal(const fb_plan *plan, int group)
{
    const fb_analysis *a = group_analysis(plan, group);
    return a->accepted ? NULL : &a->why;
}

const fb_verdict *fb_plan_refusal(const fb_plan *plan, int *group)
{
    const fb_verdict *why = NULL;
    for (int i = 0; i < fb_plan_groups(plan) && !why; i++) {
        why = fb_plan_group_refusal(plan, i);
        if (why && group) *group = i;
    }
    return why;
}

void fb_plan_group_cost(const fb_plan *plan, int group, fb_group_cost *out)
{
    fb_plan_groups(plan); /* numbers them */
    fb_slots_cost(plan, plan->view->slot_of[group], out);
}

void fb_slots_cost(const fb_plan *plan, fb_id slot, fb_group_cost *out)
{
    fb_analysis *a = fb_slots_analysis(plan, slot);
    *out = *fb_analysis_cost(plan->planner, a);
    if (!plan->slot[slot].knobs || !a->accepted) return;
    fb_analysis with = *a;
    with.knobs = plan->slot[slot].knobs;
    fb_cost_of_analysis(plan->planner, &with, out);
}

/* ---- identity ---- */

static bool same_knobs(const fb_knobs *a, const fb_knobs *b)
{
    return memcmp(a ? a : &fb_knobs_automatic, b ? b : &fb_knobs_automatic, sizeof *a) == 0;
}

/* A file is what it says, wherever it lies. */
static bool same_source(const fb_kernel_source *a, const fb_kernel_source *b)
{
    if (!a || !b || a == b) return a == b;
    if (!a->text || !b->text) return !a->text && !b->text && strcmp(a->path, b->path) == 0;
    return strcmp(a->text, b->text) == 0;
}

/* Only a contraction can be made by more than one family. */
static fb_family family_of(const fb_plan *plan, fb_id slot)
{
    for (fb_id i = slot; i != FB_NONE; i = plan->next[i])
        if (fb_node_class(plan->planner->g, i) == FB_CLASS_CONTRACTION) return fb_slots_analysis(plan, slot)->family;
    return FB_FAMILIES;
}

static bool same_slot(const fb_plan *a, fb_id x, const fb_plan *b, fb_id y)
{
    if (a->slot[x].n != b->slot[y].n || !same_knobs(a->slot[x].knobs, b->slot[y].knobs)) return false;
    if (!same_source(a->slot[x].source, b->slot[y].source)) return false;
    for (fb_id i = x; i != FB_NONE; i = a->next[i])
        if (b->owner[i] != y) return false;
    if (a->planner->g->nodes[x].op == FB_OP_LOOP) return a->slot[x].choice == b->slot[y].choice;
    return family_of(a, x) == family_of(b, y);
}

bool fb_plan_equal(const fb_plan *a, const fb_plan *b)
{
    int n = a->planner->g->n_nodes;
    if (a->planner->g->n_nodes != b->planner->g->n_nodes || a->launch != b->launch) return false;
    if (a->overlap != b->overlap) return false;
    if (!fb_hash_equal(a->planner->g->hash, b->planner->g->hash)) return false;
    for (fb_id i = 0; i < n; i++) {
        if (a->recompute[i] != b->recompute[i]) return false;
        if (a->slot[i].n && (b->owner[i] == FB_NONE || !same_slot(a, i, b, b->owner[i]))) return false;
    }
    return true;
}

fb_hash fb_plan_hash(const fb_plan *plan)
{
    const fb_graph *g = plan->planner->g;
    fb_hasher *h = fb_hasher_new();
    fb_hasher_add(h, &g->hash, sizeof g->hash);
    fb_hasher_add_i64(h, plan->launch);
    if (plan->overlap) fb_hasher_add_text(h, "overlap");
    fb_hasher_add(h, plan->recompute, (size_t)g->n_nodes * sizeof *plan->recompute);
    const fb_view *v = view_of(plan);
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == FB_OP_LOOP && plan->slot[i].choice != FB_CHOICE_AUTO) fb_hasher_add_i64(h, i);
    for (fb_id i = 0; i < g->n_nodes; i++) {
        fb_hasher_add_i64(h, plan->owner[i] == FB_NONE ? FB_NONE : v->number[plan->owner[i]]);
    }
    for (int i = 0; i < v->n; i++) {
        fb_hasher_add_i64(h, family_of(plan, v->slot_of[i]));
        const fb_knobs *k = plan->slot[v->slot_of[i]].knobs;
        if (k && !same_knobs(k, NULL))
            fb_hasher_add(h, k, sizeof *k);
        else
            fb_hasher_add_i64(h, 0);
        const fb_kernel_source *s = plan->slot[v->slot_of[i]].source;
        if (!s) continue;
        fb_hasher_add_i64(h, i);
        fb_hasher_add_text(h, s->text ? s->text : s->path);
    }
    return fb_hasher_end(h);
}
