/* Where values live between launches.
 *
 * requires  a plan
 * provides  a buffer for every value that some kernel stores or reads from memory. Sources, outputs and what a kernel
 * hands to the host have storage of their own; the rest share a pool: at each launch what it stores is placed into the
 * first hole that is large enough, largest first, and what is read for the last time leaves a hole after it. What a
 * body reads from outside lives as long as the loop. What a loop carries has one buffer for initial value, state and
 * result, or two that change places (plan/loops.h); what it stacks is the result's. Of values that live where another
 * does, only that other one has a buffer here.
 */
#include "graph/access.h"

#include "base/mutate.h"
#include "plan/parts.h"

#include <stdlib.h>

enum { ALIGNMENT = 256 };

typedef struct {
    int64_t offset, bytes;
} hole;

typedef struct {
    const fb_plan *plan;
    const fb_graph *g;
    int n_groups;
    int *first, *last;           /* a node: launches; first FB_NONE: has no buffer */
    int *loop_first, *loop_last; /* a region: launches of its body */
    fb_id *home;                 /* a node: the one whose buffer holds it, FB_NONE when it is not in the pool */
    fb_id *around;               /* a node: the region that its buffer belongs to */
    fb_loop *loops;              /* a region, from 1 on */
    FB_VEC(hole) holes;          /* ascending, never adjacent */
    int64_t pool;
} layout;

/* ---- lifetimes ---- */

static void span_regions(layout *l)
{
    for (int r = 0; r < l->g->n_regions; r++) l->loop_first[r] = l->n_groups, l->loop_last[r] = -1;
    for (int i = 0; i < l->n_groups; i++) {
        for (fb_id r = l->g->nodes[l->plan->view->slot_of[i]].region; r > 0; r = l->g->regions[r].parent) {
            if (i < l->loop_first[r]) l->loop_first[r] = i;
            if (i > l->loop_last[r]) l->loop_last[r] = i;
        }
    }
}

/* `node` is in use at launch `at` in region `region`: for the whole of the loops that it lies outside of. */
static void use(layout *l, fb_id node, int at, fb_id region)
{
    node = l->home[node];
    if (node == FB_NONE) return;
    fb_id home = l->around[node];
    int from = at, to = at;
    for (fb_id r = region; r > 0 && r != home; r = l->g->regions[r].parent)
        from = l->loop_first[r], to = l->loop_last[r];
    if (l->first[node] == FB_NONE) l->first[node] = from, l->last[node] = to;
    if (from < l->first[node]) l->first[node] = from;
    if (FB_MUTATE(20, to > l->last[node], false)) l->last[node] = to;
}

static bool has_buffer(const layout *l, fb_id base)
{
    fb_id home = l->home[base];
    return home != FB_NONE && (l->first[home] != FB_NONE || fb_judge_has_storage(l->g->nodes[base].op));
}

/* What group `i` reads from memory: bases of its nodes' operands that it does not compute. */
static void use_operands(layout *l, int i, const fb_group *group)
{
    fb_planner *p = l->plan->planner;
    fb_mark_begin(p, FB_MARK_SET);
    for (int k = 0; k < group->n_nodes; k++) fb_mark(p, FB_MARK_SET, group->nodes[k]);
    for (int k = 0; k < group->n_nodes; k++) {
        const fb_node *n = &l->g->nodes[group->nodes[k]];
        for (int j = n->op == FB_OP_ASSIGN; j < n->n_args; j++) {
            fb_id base = fb_access_base(l->g, n->args[j]);
            if (fb_marked(p, FB_MARK_SET, base)) continue;
            if (has_buffer(l, base)) use(l, base, i, n->region);
        }
    }
}

/* What an assignment stores is the parameter. */
static fb_id storage_of(const fb_graph *g, fb_id stored)
{
    return g->nodes[stored].op == FB_OP_ASSIGN ? g->nodes[stored].args[0] : stored;
}

static void keep_for_loop(layout *l, fb_id node, fb_id region)
{
    fb_id base = fb_access_base(l->g, node);
    if (!has_buffer(l, base) || l->loop_last[region] < 0) return;
    use(l, base, l->loop_first[region], l->g->nodes[base].region);
    use(l, base, l->loop_last[region], l->g->nodes[base].region);
}

static void use_there(layout *l, fb_id node, int at, fb_id region)
{
    fb_id base = fb_access_base(l->g, node);
    if (has_buffer(l, base)) use(l, base, at, region);
}

/* A loop without kernels copies its operands and what it hands on, between the launches around it. */
static void use_empty(layout *l)
{
    const fb_order_entry *steps;
    int n = fb_plan_order(l->plan, &steps), before = 0;
    for (int i = 0; i < n; i++) {
        before += steps[i].kind == FB_ORDER_GROUP;
        if (steps[i].kind != FB_ORDER_OPEN || l->loop_last[steps[i].number] >= 0) continue;
        fb_id parent = l->g->regions[steps[i].number].parent;
        int low = parent ? l->loop_first[parent] : 0, high = parent ? l->loop_last[parent] : l->n_groups - 1;
        int at = before - 1 < low ? low : before - 1 > high ? high : before - 1;
        const fb_region *r = &l->g->regions[steps[i].number];
        const fb_node *loop = &l->g->nodes[r->loop];
        if (high < low) continue;
        for (int k = 0; k < loop->n_args; k++) use_there(l, loop->args[k], at, parent);
        for (int k = 0; k < r->n_carried; k++) use_there(l, r->yields[k], at, parent);
        for (int k = 0; k < r->n_stacked; k++) use_there(l, r->stacked[k], at, parent);
    }
}

/* Operands of a loop are copied or scanned by its whole body; carried and stacked values outlive a step. */
static void use_loops(layout *l)
{
    use_empty(l);
    for (int r = 1; r < l->g->n_regions; r++) {
        const fb_region *region = &l->g->regions[r];
        const fb_node *loop = &l->g->nodes[region->loop];
        for (int i = 0; i < loop->n_args; i++) keep_for_loop(l, loop->args[i], r);
        for (int i = 0; i < region->n_carried; i++) keep_for_loop(l, region->yields[i], r);
        for (int i = 0; i < region->n_stacked; i++) keep_for_loop(l, region->stacked[i], r);
    }
}

static bool leaves(const layout *l, fb_id node)
{
    return node != FB_NONE && l->g->nodes[node].region == 0 && l->plan->planner->keep[node];
}

static void move_in(layout *l, fb_id node, fb_id home)
{
    if (node != FB_NONE) l->home[node] = home;
}

/* Homes of what the loop of region `r` hands about. The states of a loop without kernels have no place in the order of
 * launches, so they are not in the pool. */
static void settle(layout *l, int r)
{
    const fb_loop *loop = &l->loops[r];
    fb_id outside = l->g->regions[r].parent;
    bool empty = l->loop_last[r] < 0;
    for (int i = 0; i < loop->n_carried; i++) {
        const fb_carry *c = &loop->carried[i];
        fb_id home = empty ? FB_NONE : c->state;
        if (c->state != FB_NONE) l->around[c->state] = outside;
        move_in(l, c->carried, home);
        move_in(l, c->result, home);
        if (c->base != FB_NONE) l->around[c->base] = outside;
        if (c->kind == FB_CARRY_IN_PLACE) move_in(l, c->base, home);
    }
    for (int i = 0; i < loop->n_scanned; i++)
        move_in(l, loop->scanned[i].item, empty ? FB_NONE : loop->scanned[i].base);
    for (int i = 0; i < loop->n_collected; i++) {
        const fb_collected *c = &loop->collected[i];
        if (c->result == FB_NONE) continue;
        if (empty) l->home[c->result] = FB_NONE;
        if (c->base != FB_NONE) move_in(l, c->base, c->result);
    }
}

/* States from before the first step, and what takes turns with one as long as it. */
static void use_states(layout *l, int r)
{
    const fb_loop *loop = &l->loops[r];
    if (l->loop_last[r] < 0) return;
    for (int i = 0; i < loop->n_carried; i++) {
        const fb_carry *c = &loop->carried[i];
        if (c->state == FB_NONE) continue;
        use(l, c->state, l->loop_first[r], l->around[c->state]);
        use(l, c->state, l->loop_last[r], l->around[c->state]);
    }
    for (int i = 0; i < loop->n_collected; i++) {
        const fb_collected *c = &loop->collected[i];
        if (c->result == FB_NONE) continue;
        use(l, c->result, l->loop_first[r], l->around[c->result]);
        use(l, c->result, l->loop_last[r], l->around[c->result]);
    }
}

static void use_partners(layout *l, int r)
{
    const fb_loop *loop = &l->loops[r];
    for (int i = 0; i < loop->n_carried; i++) {
        const fb_carry *c = &loop->carried[i];
        if (c->kind != FB_CARRY_SWAP || l->first[c->state] == FB_NONE) continue;
        fb_id base = l->home[c->base];
        if (l->first[c->state] < l->first[base]) l->first[base] = l->first[c->state];
        if (l->last[c->state] > l->last[base]) l->last[base] = l->last[c->state];
        if (leaves(l, c->result)) l->last[base] = l->n_groups - 1;
        l->first[c->state] = l->first[base];
        l->last[c->state] = l->last[base];
    }
}

static void find_lifetimes(layout *l)
{
    span_regions(l);
    for (fb_id i = 0; i < l->g->n_nodes; i++) {
        l->first[i] = l->last[i] = FB_NONE;
        l->home[i] = i;
        l->around[i] = l->g->nodes[i].region;
    }
    for (int r = 1; r < l->g->n_regions; r++) settle(l, r);
    for (int i = 0; i < l->n_groups; i++) {
        const fb_group *group = fb_plan_group(l->plan, i);
        use_operands(l, i, group);
        for (int k = 0; k < group->n_stored; k++) {
            fb_id to = storage_of(l->g, group->stored[k]);
            use(l, to, i, l->g->nodes[group->stored[k]].region);
        }
    }
    for (int r = 1; r < l->g->n_regions; r++) use_states(l, r);
    use_loops(l);
    for (int r = l->g->n_regions - 1; r > 0; r--) use_partners(l, r);
}

/* ---- the pool ---- */

static int64_t aligned(int64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int64_t place(layout *l, int64_t bytes)
{
    for (int i = 0; i < l->holes.n; i++) {
        hole *h = &l->holes.at[i];
        if (h->bytes < bytes) continue;
        int64_t at = h->offset;
        h->offset += bytes;
        h->bytes -= bytes;
        if (h->bytes == 0) {
            for (int k = i; k + 1 < l->holes.n; k++) l->holes.at[k] = l->holes.at[k + 1];
            l->holes.n--;
        }
        return at;
    }
    /* The pool grows; a hole at its end is grown with it. */
    hole *end = l->holes.n ? &l->holes.at[l->holes.n - 1] : NULL;
    int64_t at = end && end->offset + end->bytes == l->pool ? end->offset : l->pool;
    if (at < l->pool) l->holes.n--;
    l->pool = at + bytes;
    return at;
}

static void give_back(layout *l, int64_t offset, int64_t bytes)
{
    if (!bytes) return;
    int i = l->holes.n;
    FB_VEC_PUSH(&l->holes, (hole){0});
    for (; i > 0 && l->holes.at[i - 1].offset > offset; i--) l->holes.at[i] = l->holes.at[i - 1];
    l->holes.at[i] = (hole){offset, bytes};
    for (int k = i; k >= i - 1 && k >= 0; k--) {
        if (k + 1 >= l->holes.n || l->holes.at[k].offset + l->holes.at[k].bytes != l->holes.at[k + 1].offset) continue;
        l->holes.at[k].bytes += l->holes.at[k + 1].bytes;
        for (int m = k + 1; m + 1 < l->holes.n; m++) l->holes.at[m] = l->holes.at[m + 1];
        l->holes.n--;
    }
}

/* By first launch, and among those of one launch the largest first. */
static int by_first(const void *a, const void *b)
{
    const fb_buffer_plan *x = *(fb_buffer_plan *const *)a, *y = *(fb_buffer_plan *const *)b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

static int by_last(const void *a, const void *b)
{
    const fb_buffer_plan *x = *(fb_buffer_plan *const *)a, *y = *(fb_buffer_plan *const *)b;
    return x->last != y->last ? (x->last > y->last) - (x->last < y->last) : by_first(a, b);
}

static void place_all(layout *l, fb_buffer_plan *buffers, int n)
{
    FB_VEC(fb_buffer_plan *) starts = {0}, ends = {0};
    for (int i = 0; i < n; i++) {
        if (buffers[i].offset == FB_NONE) continue;
        FB_VEC_PUSH(&starts, &buffers[i]);
        FB_VEC_PUSH(&ends, &buffers[i]);
    }
    if (starts.n) qsort(starts.at, (size_t)starts.n, sizeof *starts.at, by_first);
    if (ends.n) qsort(ends.at, (size_t)ends.n, sizeof *ends.at, by_last);
    for (int i = 0, e = 0; i < starts.n; i++) {
        for (; FB_MUTATE(18, ends.at[e]->last < starts.at[i]->first,
                         e < ends.n && ends.at[e]->last <= starts.at[i]->first);
             e++)
            give_back(l, ends.at[e]->offset, aligned(ends.at[e]->bytes));
        starts.at[i]->offset = place(l, FB_MUTATE(19, aligned(starts.at[i]->bytes), aligned(starts.at[i]->bytes / 2)));
    }
    FB_VEC_FREE(&starts);
    FB_VEC_FREE(&ends);
}

/* The result that a carried value's buffer ends as. */
static fb_id result_held(const layout *l, fb_id node)
{
    const fb_node *n = &l->g->nodes[node];
    return n->op == FB_OP_CARRIED ? l->loops[n->region].carried[n->attrs->index].result : FB_NONE;
}

int fb_plan_buffers(const fb_plan *plan, fb_arena *arena, fb_buffer_plan **out, int64_t *pool_bytes)
{
    const fb_graph *g = plan->planner->g;
    layout l = {.plan = plan, .g = g, .n_groups = fb_plan_groups(plan)};
    fb_arena *scratch = fb_arena_new();
    l.first = FB_NEW_ARRAY(scratch, int, g->n_nodes + 1);
    l.last = FB_NEW_ARRAY(scratch, int, g->n_nodes + 1);
    l.loop_first = FB_NEW_ARRAY(scratch, int, g->n_regions + 1);
    l.loop_last = FB_NEW_ARRAY(scratch, int, g->n_regions + 1);
    l.home = FB_NEW_ARRAY(scratch, fb_id, g->n_nodes + 1);
    l.around = FB_NEW_ARRAY(scratch, fb_id, g->n_nodes + 1);
    l.loops = FB_NEW_ARRAY(scratch, fb_loop, g->n_regions + 1);
    for (int r = 1; r < g->n_regions; r++) fb_plan_loop(plan, r, scratch, &l.loops[r]);
    find_lifetimes(&l);
    int n = 0;
    for (fb_id i = 0; i < g->n_nodes; i++) n += l.first[i] != FB_NONE;
    fb_buffer_plan *b = *out = FB_NEW_ARRAY(arena, fb_buffer_plan, n + 1);
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (l.first[i] == FB_NONE) continue;
        bool kept = leaves(&l, i) || leaves(&l, result_held(&l, i));
        fb_op op = g->nodes[i].op;
        bool own = op == FB_OP_INPUT || op == FB_OP_PARAM || op == FB_OP_FEED || kept;
        *b++ = (fb_buffer_plan){.node = i,
                                .bytes = fb_node_bytes(g, i),
                                .first = l.first[i],
                                .last = kept ? l.n_groups - 1 : l.last[i],
                                .offset = own ? FB_NONE : 0};
    }
    place_all(&l, *out, n);
    *pool_bytes = l.pool;
    FB_VEC_FREE(&l.holes);
    fb_arena_free(scratch);
    return n;
}
