/* What loops that are one kernel save of what their kernels would take one by one, each with a meeting of the grid.
 *
 * Blocks meet before a stage that needs what another one stored since they met last, and once between two steps
 * (code/merge.c places the meetings by buffers; here values stand for these). A meeting takes the calibrated
 * barrier: about 1 µs on an H200, whatever the number of blocks. Stages without a meeting between them follow each
 * other in each block. Where each thread goes through a loop's steps by itself (plan/loops.h) nobody meets in it, and what
 * it takes is the schedule's to say where its steps' values stay in registers (schedule/through.h). A loop
 * that runs in clusters (plan/recurrence.c) has no meeting of the grid at all. Products whose right operands stay in
 * shared memory (plan/kept.c) wait neither for tiles of them nor for each other's warps at each tile. */
#include "plan/parts.h"
#include "schedule/thread_cost.h"

#include <math.h>

typedef struct {
    const fb_plan *plan;
    const fb_graph *g;
    int *stored, *read; /* a node: the meeting after which that happened last, counted from 1 */
    int met;
} counter;

static counter counter_of(const fb_plan *plan)
{
    const fb_graph *g = plan->planner->g;
    size_t n = (size_t)g->n_nodes + 1;
    return (counter){.plan = plan, .g = g, .stored = fb_calloc(n, sizeof(int)), .read = fb_calloc(n, sizeof(int))};
}

static void counter_free(counter *c)
{
    fb_free(c->stored);
    fb_free(c->read);
}

static bool waits(const counter *c, const fb_analysis *a)
{
    for (int i = 0; i < a->facts.n_reads; i++)
        if (c->stored[a->facts.reads[i].node] == c->met) return true;
    for (int i = 0; i < a->facts.n_writes; i++) { /* an assigned parameter */
        fb_id to = a->facts.writes[i].node;
        if (c->stored[to] == c->met || c->read[to] == c->met) return true;
    }
    return false;
}

static fb_analysis *analysis_of(const fb_plan *plan, int group)
{
    return fb_slots_analysis(plan, plan->view->slot_of[group]);
}

/* Does each thread go through this loop's steps, with what they leave in registers? Then *us is what all of them take. */
static bool goes_through(const fb_plan *plan, fb_id region, double *us)
{
    fb_arena *arena = fb_arena_new();
    fb_through through;
    fb_loop loop;
    const bool goes = fb_plan_goes_through(plan, region, arena, &through);
    if (goes) {
        fb_plan_loop(plan, region, arena, &loop);
        const fb_group *group = fb_plan_group(plan, loop.first);
        *us = fb_through_us(fb_nest_go_through(group->nest, &through, arena), &group->knobs, &plan->planner->machine);
    }
    fb_arena_free(arena);
    return goes && *us > 0;
}

/* Meetings that stages of the loop `whole` do without, of all its steps. */
static double meetings_saved(counter *c, fb_id whole)
{
    const fb_order_entry *order;
    int n = fb_plan_order(c->plan, &order);
    double saved = 0;
    fb_id last = 0; /* region of the stage before */
    for (int i = 0; i < n; i++) {
        if (order[i].kind != FB_ORDER_GROUP) continue;
        const fb_analysis *a = analysis_of(c->plan, order[i].number);
        fb_id region = c->g->nodes[c->plan->view->slot_of[order[i].number]].region;
        if (!fb_region_within(c->g, region, whole)) continue;
        double us;
        bool through = goes_through(c->plan, region, &us); /* counted as a whole */
        bool apart = !through && region != last && fb_plan_steps_apart(c->plan, region);
        if (apart) saved += fb_judge_region_trips(c->g, region);
        if (apart && region != whole) saved -= fb_judge_region_trips(c->g, c->g->regions[region].parent);
        if (region == last && !waits(c, a))
            saved += fb_judge_region_trips(c->g, region);
        else
            c->met++; /* also where a loop begins: its first stage waits for the step before */
        for (int k = 0; k < a->facts.n_reads; k++) c->read[a->facts.reads[k].node] = c->met;
        for (int k = 0; k < a->facts.n_writes; k++) c->stored[a->facts.writes[k].node] = c->met;
        last = region;
    }
    return saved;
}

/* Of one step. */
static double keeping_saves_us(const fb_plan *plan, int group, fb_arena *arena)
{
    const fb_planner *p = plan->planner;
    fb_analysis *a = analysis_of(plan, group), with = *a;
    fb_group_cost cost;
    with.nest = fb_nest_keep_right(a->nest, arena);
    fb_cost_of_analysis(p, &with, &cost);
    return fmax(fb_analysis_cost(plan->planner, a)->us - cost.us, 0);
}

/* A step in clusters: what the schedule counts, or its bytes from memory, whichever takes longer. What such steps save
 * is all that their kernel would take as a stage that meets grid-wide, but this. */
static double clusters_save_us(const fb_plan *plan, fb_id whole, const fb_recurrence *r)
{
    const fb_machine *m = &plan->planner->machine;
    fb_analysis *a = analysis_of(plan, r->group);
    fb_group_cost c;
    fb_slots_cost(plan, plan->view->slot_of[r->group], &c);
    double clock = fb_cycles_a_us(m), us = clock > 0 ? r->tile.cycles / clock : c.us;
    int64_t bytes = c.bytes_read + c.bytes_written - r->tile.weight_bytes * r->tile.blocks;
    us = fmax(us, bytes > 0 ? fb_memory_filled_us(m, (double)bytes) : 0);
    double start = clock > 0 ? r->tile.start / clock : 0;
    return (fb_plan_kernel_us(plan, whole, a, &c) - us) * fb_judge_region_trips(plan->planner->g, whole) - start;
}

/* Loops within that threads go through by themselves: what their kernels would take step by step, but what they take so,
 * with one meeting where the loop is in another one. */
static double going_through_saves_us(const fb_plan *plan, fb_id whole)
{
    const fb_graph *g = plan->planner->g;
    const fb_machine *m = &plan->planner->machine;
    double saves = 0, us;
    for (fb_id r = whole; r < g->n_regions; r++) {
        fb_group_cost c;
        if (!fb_region_within(g, r, whole) || !goes_through(plan, r, &us)) continue;
        int group = 0;
        while (g->nodes[plan->view->slot_of[group]].region != r) group++;
        fb_slots_cost(plan, plan->view->slot_of[group], &c);
        if (r != whole) us += fb_launch_us(m, FB_LAUNCH_MEGA);
        saves += fb_plan_kernel_us(plan, r, analysis_of(plan, group), &c) * fb_judge_region_trips(g, r) -
                 us * fb_judge_region_trips(g, g->regions[r].parent);
    }
    return saves;
}

static double loop_saves_us(const fb_plan *plan, fb_id whole)
{
    fb_recurrence recurrence;
    if (fb_plan_recurrence(plan, whole, &recurrence, NULL)) return clusters_save_us(plan, whole, &recurrence);
    const fb_graph *g = plan->planner->g;
    double barrier_us = plan->planner->machine.barrier_us;
    int n = fb_plan_groups(plan); /* numbers them */
    counter c = counter_of(plan);
    double us = isfinite(barrier_us) ? meetings_saved(&c, whole) * barrier_us : 0;
    counter_free(&c);
    us += going_through_saves_us(plan, whole);
    fb_arena *arena = fb_arena_new();
    bool *kept = FB_NEW_ARRAY(arena, bool, n + 1);
    fb_plan_kept(plan, whole, kept, NULL);
    for (int i = 0; i < n; i++)
        if (kept[i])
            us += keeping_saves_us(plan, i, arena) * fb_judge_region_trips(g, g->nodes[plan->view->slot_of[i]].region);
    fb_arena_free(arena);
    return us;
}

double fb_plan_loops_save_us(const fb_plan *plan)
{
    const fb_graph *g = plan->planner->g;
    double us = 0;
    if (plan->launch == FB_LAUNCH_MEGA || !plan->planner->machine.target->keeps) return 0;
    for (fb_id r = 1; r < g->n_regions; r++)
        if (fb_plan_whole_loop(plan, r) == r) us += loop_saves_us(plan, r);
    return us;
}

double fb_plan_one_kernel_us(const fb_plan *plan, fb_id whole)
{
    const fb_graph *g = plan->planner->g;
    double us = 0, outer = whole ? fb_judge_region_trips(g, g->regions[whole].parent) : 1;
    int n = fb_plan_groups(plan);
    for (int i = 0; i < n; i++) {
        fb_id region = g->nodes[plan->view->slot_of[i]].region;
        fb_analysis *a = analysis_of(plan, i);
        if (!fb_region_within(g, region, whole)) continue;
        fb_group_cost cost;
        fb_slots_cost(plan, plan->view->slot_of[i], &cost);
        us += fb_plan_kernel_us(plan, region, a, &cost) * fb_judge_region_trips(g, region);
    }
    us += fb_copied_values_us(plan, whole);
    if (whole && plan->planner->machine.target->keeps) us -= loop_saves_us(plan, whole);
    return outer > 0 ? us / outer : 0;
}
