/* Where a loop's values live: what reads the state, and when, decides whether it can be overwritten. */
#include "plan/loops.h"

#include "graph/access.h"
#include "nest/parts.h"
#include "plan/parts.h"
#include "schedule/through.h"

#include <limits.h>

static fb_id result_of(const fb_graph *g, fb_id loop, int index)
{
    for (int u = g->user_start[loop]; u < g->user_start[loop + 1]; u++) {
        const fb_node *n = &g->nodes[g->users[u]];
        if (n->op == FB_OP_RESULT && n->attrs->index == index) return g->users[u];
    }
    return FB_NONE;
}

/* By a node, by the world, or by the end of a step of a loop around it or further in. */
static bool is_read(const fb_graph *g, fb_id id)
{
    if (id == FB_NONE) return false;
    if (g->user_start[id] < g->user_start[id + 1] || g->is_output[id]) return true;
    for (fb_id at = g->nodes[id].region; at < g->n_regions; at++) {
        const fb_region *r = &g->regions[at];
        for (int i = 0; i < r->n_carried; i++)
            if (r->yields[i] == id) return true;
        for (int i = 0; i < r->n_stacked; i++)
            if (r->stacked[i] == id) return true;
    }
    return false;
}

static void find_span(const fb_plan *plan, fb_id region, int *first, int *last)
{
    const fb_graph *g = plan->planner->g;
    *first = fb_plan_groups(plan);
    *last = -1;
    for (int i = 0; i < fb_plan_groups(plan); i++) {
        if (!fb_region_within(g, g->nodes[plan->view->slot_of[i]].region, region)) continue;
        if (i < *first) *first = i;
        if (i > *last) *last = i;
    }
}

/* ---- carried values ---- */

typedef struct {
    const fb_plan *plan;
    const fb_graph *g;
    fb_loop *loop;
} finder;

static bool reads(const finder *f, const fb_group *group, fb_id base)
{
    for (int k = 0; k < group->n_nodes; k++) {
        const fb_node *n = &f->g->nodes[group->nodes[k]];
        for (int j = n->op == FB_OP_ASSIGN; j < n->n_args; j++)
            if (fb_access_base(f->g, n->args[j]) == base) return true;
    }
    return false;
}

/* Is the state read by anything but kernels of the body: copies at the end of a step, or a loop inside? */
static bool read_by_others(const finder *f, fb_id carried)
{
    for (fb_id inner = f->loop->region; inner < f->g->n_regions; inner++) {
        const fb_region *r = &f->g->regions[inner];
        if (!fb_region_within(f->g, inner, f->loop->region)) continue;
        for (int i = 0; i < r->n_carried; i++)
            if (fb_access_base(f->g, r->yields[i]) == carried) return true;
        for (int i = 0; i < r->n_stacked; i++)
            if (fb_access_base(f->g, r->stacked[i]) == carried) return true;
        if (inner == f->loop->region) continue;
        const fb_node *loop = &f->g->nodes[f->g->regions[inner].loop];
        for (int i = 0; i < loop->n_args; i++)
            if (fb_access_base(f->g, loop->args[i]) == carried) return true;
    }
    return false;
}

/* May the kernel that stores `base` store it over the state? Every earlier read is over, none comes later, and its own
 * are of the very element that is overwritten. */
static bool overwrites(const finder *f, fb_id base, fb_id carried)
{
    if (carried == FB_NONE) return true;
    if (read_by_others(f, carried)) return false;
    int writer = fb_plan_group_of(f->plan, base);
    for (int i = f->loop->first; i <= f->loop->last; i++) {
        const fb_group *group = fb_plan_group(f->plan, i);
        if (!reads(f, group, carried)) continue;
        if (i > writer) return false;
        if (i < writer) continue;
        if (!group->nest || fb_family_row_of(group->family)->calls || !fb_nest_overwrites(group->nest, carried, base))
            return false;
    }
    return true;
}

static bool is_taken(const finder *f, int n, fb_id base)
{
    for (int i = 0; i < n; i++)
        if (f->loop->carried[i].base == base) return true;
    return false;
}

static void find_carried(finder *f, int i)
{
    const fb_region *r = &f->g->regions[f->loop->region];
    fb_carry *c = &f->loop->carried[i];
    *c = (fb_carry){.init = f->g->nodes[r->loop].args[i],
                    .carried = r->carried[i],
                    .yield = r->yields[i],
                    .result = result_of(f->g, r->loop, i),
                    .base = FB_NONE};
    if (!is_read(f->g, c->result)) c->result = FB_NONE;
    c->state = c->carried != FB_NONE ? c->carried : c->result;
    if (c->state == FB_NONE || c->yield == c->carried) return;
    fb_id base;
    bool whole = fb_access_whole(f->g, c->yield, &base) && fb_node_is_computed(f->g, base) &&
                 f->g->nodes[base].region == f->loop->region && f->g->nodes[base].op != FB_OP_ASSIGN;
    c->kind = FB_CARRY_COPY;
    if (!whole || is_taken(f, i, base)) return;
    c->base = base;
    c->kind = overwrites(f, base, c->carried) ? FB_CARRY_IN_PLACE : FB_CARRY_SWAP;
}

/* ---- scanned and collected values ---- */

/* Kernels read and write whole vectors of up to 16 bytes where a step's part is a multiple of that. */
static bool is_aligned(const fb_node *item, int64_t elements)
{
    int64_t size = fb_dtype_size(item->dtype), bytes = fb_shape_elements(&item->shape) * size, unit = 16;
    while (unit > size && bytes % unit) unit /= 2;
    return elements * size % unit == 0;
}

static bool is_assigned(const fb_graph *g, fb_id param)
{
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == FB_OP_ASSIGN && g->nodes[i].args[0] == param) return true;
    return false;
}

static void find_scanned(finder *f, int i)
{
    const fb_region *r = &f->g->regions[f->loop->region];
    const fb_node *loop = &f->g->nodes[r->loop];
    fb_scanned *s = &f->loop->scanned[i];
    *s = (fb_scanned){.item = r->items[i], .scanned = loop->args[r->n_carried + i], .base = FB_NONE};
    if (s->item == FB_NONE) return;
    const fb_node *item = &f->g->nodes[s->item];
    fb_id base;
    int64_t offset, strides[FB_MAX_RANK];
    if (!fb_access_strided(f->g, s->scanned, &base, &offset, strides)) return;
    if (!fb_shape_is_row_major(&item->shape, strides + 1)) return;
    /* What moves with an outer loop's step, or belongs to its state, is copied. */
    fb_op op = f->g->nodes[base].op;
    bool stands = fb_node_is_computed(f->g, base) ? f->g->nodes[base].region == 0
                                                  : op == FB_OP_INPUT || op == FB_OP_PARAM || op == FB_OP_FEED;
    if (op == FB_OP_PARAM && base != s->scanned && is_assigned(f->g, base)) stands = false;
    if (!stands || !is_aligned(item, offset) || !is_aligned(item, strides[0])) return;
    s->base = base;
    s->offset = offset + fb_region_place(r, 0) * strides[0];
    s->stride = r->backwards ? -strides[0] : strides[0];
}

/* What has a place already, as the next state or in another stack: can its kernel store it a second time? */
static bool is_stored_twice(const finder *f, fb_id base)
{
    const fb_group *group = fb_plan_group(f->plan, fb_plan_group_of(f->plan, base));
    const fb_family_row *family = fb_family_row_of(group->family);
    return group->nest && !family->calls && !family->lone && fb_nest_stores_alike(group->nest, base);
}

static void find_collected(finder *f, int i)
{
    const fb_region *r = &f->g->regions[f->loop->region];
    fb_collected *s = &f->loop->collected[i];
    *s = (fb_collected){.value = r->stacked[i],
                        .result = result_of(f->g, r->loop, r->n_carried + i),
                        .base = FB_NONE,
                        .every = fb_region_every(r, i),
                        .also = FB_NONE};
    if (!is_read(f->g, s->result)) s->result = FB_NONE;
    fb_id base;
    if (s->result == FB_NONE || !fb_access_whole(f->g, s->value, &base) || !fb_node_is_computed(f->g, base)) return;
    if (f->g->nodes[base].region != f->loop->region || f->g->nodes[base].op == FB_OP_ASSIGN) return;
    bool taken = is_taken(f, r->n_carried, base);
    for (int k = 0; k < i; k++) taken |= f->loop->collected[k].base == base;
    const fb_group *group = fb_plan_group(f->plan, fb_plan_group_of(f->plan, base));
    if (r->backwards && fb_family_row_of(group->family)->calls) return; /* a call stores at the start and moves on */
    if (!taken)
        s->base = base;
    else if (is_stored_twice(f, base))
        s->also = base;
}

void fb_plan_loop(const fb_plan *plan, fb_id region, fb_arena *arena, fb_loop *out)
{
    const fb_graph *g = plan->planner->g;
    const fb_region *r = &g->regions[region];
    finder f = {.plan = plan, .g = g, .loop = out};
    *out = (fb_loop){.region = region,
                     .node = r->loop,
                     .trips = r->trips,
                     .backwards = r->backwards,
                     .whole = plan->slot[r->loop].choice == FB_CHOICE_GENERATE,
                     .n_carried = r->n_carried,
                     .n_scanned = r->n_items,
                     .n_collected = r->n_stacked};
    out->carried = FB_NEW_ARRAY(arena, fb_carry, r->n_carried + 1);
    out->scanned = FB_NEW_ARRAY(arena, fb_scanned, r->n_items + 1);
    out->collected = FB_NEW_ARRAY(arena, fb_collected, r->n_stacked + 1);
    find_span(plan, region, &out->first, &out->last);
    for (int i = 0; i < r->n_carried; i++) find_carried(&f, i);
    for (int i = 0; i < r->n_items; i++) find_scanned(&f, i);
    for (int i = 0; i < r->n_stacked; i++) find_collected(&f, i);
}

/* Is everything that a step leaves stored by its kernel, in one place each? */
static bool is_left_in_place(const fb_loop *loop)
{
    bool in_place = true;
    for (int i = 0; i < loop->n_carried; i++)
        in_place &= loop->carried[i].kind == FB_CARRY_SAME || loop->carried[i].kind == FB_CARRY_IN_PLACE;
    for (int i = 0; i < loop->n_collected; i++) {
        const fb_collected *c = &loop->collected[i];
        in_place &= c->result == FB_NONE || c->base != FB_NONE || c->also != FB_NONE;
    }
    return in_place;
}

/* The group that is all of the loop's body, if its kernel stores all that a step leaves and makes each element alone, or
 * with `rows` each row; NULL: there is none. */
static const fb_group *alone_in(const fb_plan *plan, const fb_loop *loop, bool rows)
{
    const fb_graph *g = plan->planner->g;
    bool alone = loop->first == loop->last && is_left_in_place(loop);
    for (fb_id r = loop->region + 1; r < g->n_regions; r++) alone &= !fb_region_within(g, r, loop->region);
    const fb_group *group = alone ? fb_plan_group(plan, loop->first) : NULL;
    return group && group->nest && fb_nest_makes_each_alone(group->nest, rows) ? group : NULL;
}

bool fb_plan_steps_apart(const fb_plan *plan, fb_id region)
{
    fb_arena *arena = fb_arena_new();
    fb_loop loop;
    fb_plan_loop(plan, region, arena, &loop);
    bool apart = alone_in(plan, &loop, false);
    fb_arena_free(arena);
    return apart;
}

/* ---- threads that go through all steps ---- */

static void add_moved(fb_through *to, fb_moved *list, fb_id storage, int64_t stride, int64_t every)
{
    if (storage == FB_NONE) return;
    list[to->n_moved++] = (fb_moved){storage, stride, every};
}

/* As code/lower_loops.c lays them out: items, what is collected, and the loop's counter. */
static void find_moved(const fb_graph *g, const fb_loop *loop, fb_arena *arena, fb_through *out)
{
    const int64_t way = loop->backwards ? -1 : 1;
    fb_moved *list = FB_NEW_ARRAY(arena, fb_moved, loop->n_scanned + loop->n_collected + g->n_nodes);
    *out = (fb_through){.trips = loop->trips, .moved = list};
    for (int i = 0; i < loop->n_scanned; i++) {
        const fb_scanned *s = &loop->scanned[i];
        if (s->item == FB_NONE) continue;
        const int64_t own = way * fb_shape_elements(&g->nodes[s->item].shape);
        add_moved(out, list, s->item, s->base == FB_NONE ? own : s->stride, 1);
    }
    for (int i = 0; i < loop->n_collected; i++) {
        const fb_collected *c = &loop->collected[i];
        if (c->result == FB_NONE) continue;
        const fb_id stored = c->also == FB_NONE ? c->base : c->also;
        add_moved(out, list, c->also == FB_NONE ? c->base : c->result, way * fb_shape_elements(&g->nodes[stored].shape),
                  c->every);
    }
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == FB_OP_STEP && g->nodes[i].region == loop->region) add_moved(out, list, i, 1, 1);
}

static void find_starts(const fb_graph *g, const fb_loop *loop, fb_arena *arena, fb_through *out)
{
    fb_start *list = FB_NEW_ARRAY(arena, fb_start, loop->n_carried + 1);
    for (int i = 0; i < loop->n_carried; i++) {
        const fb_carry *c = &loop->carried[i];
        const fb_node *init = &g->nodes[c->init];
        if (c->kind == FB_CARRY_IN_PLACE && init->op == FB_OP_CONST)
            list[out->n_starts++] = (fb_start){c->state, init->attrs->value};
    }
    out->starts = list;
}

bool fb_plan_goes_through(const fb_plan *plan, fb_id region, fb_arena *arena, fb_through *out)
{
    enum { MOST = 1 << 30 }; /* steps, which an int counts */
    const fb_graph *g = plan->planner->g;
    if (!plan->planner->machine.target->grid || g->regions[region].trips < 1 || g->regions[region].trips > MOST)
        return false;
    if (plan->launch == FB_LAUNCH_MEGA || !fb_plan_whole_loop(plan, region)) return false;
    fb_loop loop;
    fb_plan_loop(plan, region, arena, &loop);
    const fb_group *group = alone_in(plan, &loop, true);
    if (!group || group->source) return false;
    const fb_family_row *family = fb_family_row_of(group->family);
    if (family->calls || family->lone || !fb_through_fits(group->nest, &group->knobs)) return false;
    find_moved(g, &loop, arena, out);
    find_starts(g, &loop, arena, out);
    return true;
}

int fb_plan_order(const fb_plan *plan, const fb_order_entry **out)
{
    fb_plan_groups(plan);
    *out = plan->view->order;
    return plan->view->n_order;
}
