/* What a plan takes: the sum of its kernels, their launches, and one wait; with what is copied in and out before and
 * after it, or, where copies and kernels overlap, whatever takes longest of the three. */
#include "plan/copies.h"
#include "plan/loops.h"
#include "plan/parts.h"

#include <math.h>

/* Saturates, so that absurd trip counts stay numbers. */
static int64_t times(int64_t what, double trips)
{
    return (int64_t)fmin((double)what * trips, 1e15);
}

fb_id fb_plan_whole_loop(const fb_plan *plan, fb_id r)
{
    const fb_graph *g = plan->planner->g;
    fb_id whole = 0;
    for (; r > 0; r = g->regions[r].parent)
        if (plan->slot[g->regions[r].loop].choice == FB_CHOICE_GENERATE) whole = r;
    return whole;
}

static bool is_merged(const fb_plan *plan, fb_id region)
{
    return plan->launch == FB_LAUNCH_MEGA || fb_plan_whole_loop(plan, region);
}

bool fb_plan_is_stage(const fb_plan *plan, const fb_group *group)
{
    return is_merged(plan, plan->planner->g->nodes[group->nodes[0]].region);
}

double fb_plan_kernel_us(const fb_plan *plan, fb_id region, fb_analysis *a, const fb_group_cost *c)
{
    const fb_machine *m = &plan->planner->machine;
    if (!is_merged(plan, region)) return c->us + fb_launching_us(m, plan->launch, c->launches, c->calls, c->us);
    if (!m->target->grid_barrier) return c->us;
    /* a stage of a larger kernel: it waits for the others at most once, and begins and ends no kernel */
    double us = c->us - (a->nest ? FB_KERNEL_START_US : 0) - fb_analysis_stage_saves_us(plan->planner, a);
    return fmax(us, 0) + fb_launch_us(m, FB_LAUNCH_MEGA);
}

double fb_merged_launches(const fb_plan *plan)
{
    const fb_graph *g = plan->planner->g;
    double n = 0;
    if (plan->launch == FB_LAUNCH_MEGA) return 1;
    for (fb_id r = 1; r < g->n_regions; r++)
        if (fb_plan_whole_loop(plan, r) == r) n += fb_judge_region_trips(g, g->regions[r].parent);
    return n;
}

double fb_merged_us(const fb_plan *plan)
{
    /* a plan that is one kernel is launched as any other */
    fb_launch_mode mode = plan->launch == FB_LAUNCH_MEGA ? FB_LAUNCH_STREAM : plan->launch;
    return fb_merged_launches(plan) * fb_launch_us(&plan->planner->machine, mode);
}

static double copied_value_us(const fb_plan *plan, const fb_copied_value *v)
{
    const fb_machine *m = &plan->planner->machine;
    fb_group_cost c;
    fb_copying_cost(plan, v->node, &c);
    if (!is_merged(plan, v->region)) return c.us + fb_launching_us(m, plan->launch, c.launches, c.calls, c.us);
    return m->target->grid_barrier ? fmax(c.us - FB_KERNEL_START_US, 0) : c.us; /* it waits with the stage behind it */
}

/* A kernel of cost `c`, at every step of region `region`, that takes `us` with what launching it takes. */
static void add_kernel(const fb_plan *plan, fb_id region, const fb_group_cost *c, double us, fb_plan_cost *out)
{
    double trips = fb_judge_region_trips(plan->planner->g, region);
    const fb_machine *m = &plan->planner->machine;
    double each = fb_launching_us(m, plan->launch, c->launches, c->calls, c->us);
    double launch_us = is_merged(plan, region) ? 0 : each * trips;
    out->us += us * trips;
    out->launch_us += launch_us;
    out->bytes_read += times(c->bytes_read, trips);
    out->bytes_written += times(c->bytes_written, trips);
    out->flops += times(c->flops, trips);
    if (!is_merged(plan, region)) out->launches += (int)fmin(c->launches * trips, INT32_MAX / 2);
}

static void add_group(const fb_plan *plan, int group, fb_plan_cost *out)
{
    fb_group_cost c;
    fb_id slot = plan->view->slot_of[group], region = plan->planner->g->nodes[slot].region;
    fb_plan_group_cost(plan, group, &c);
    add_kernel(plan, region, &c, fb_plan_kernel_us(plan, region, fb_slots_analysis(plan, slot), &c), out);
}

static void add_copy_kernels(const fb_plan *plan, fb_plan_cost *out)
{
    fb_arena *arena = fb_arena_new();
    fb_copied_value *copied;
    int n = fb_plan_copied_values(plan, arena, &copied);
    for (int i = 0; i < n; i++) {
        fb_group_cost c;
        fb_copying_cost(plan, copied[i].node, &c);
        add_kernel(plan, copied[i].region, &c, copied_value_us(plan, &copied[i]), out);
    }
    fb_arena_free(arena);
}

double fb_copied_values_us(const fb_plan *plan, fb_id region)
{
    const fb_graph *g = plan->planner->g;
    fb_arena *arena = fb_arena_new();
    fb_copied_value *copied;
    int n = fb_plan_copied_values(plan, arena, &copied);
    double us = 0;
    for (int i = 0; i < n; i++)
        if (fb_region_within(g, copied[i].region, region))
            us += copied_value_us(plan, &copied[i]) * fb_judge_region_trips(g, copied[i].region);
    fb_arena_free(arena);
    return us;
}

/* Everything that has storage of its own, and the pool. */
static int64_t peak_bytes(const fb_plan *plan)
{
    fb_arena *arena = fb_arena_new();
    fb_buffer_plan *buffer;
    int64_t bytes;
    int n = fb_plan_buffers(plan, arena, &buffer, &bytes);
    for (int i = 0; i < n; i++)
        if (buffer[i].offset == FB_NONE) bytes += buffer[i].bytes;
    fb_arena_free(arena);
    return bytes;
}

/* A host has one thread that copies, a GPU an engine each way. */
static void add_copies(const fb_plan *plan, fb_plan_cost *c)
{
    const fb_graph *g = plan->planner->g;
    const fb_machine *m = &plan->planner->machine;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (!fb_node_is_copied(g, i)) continue;
        double bytes = (double)fb_node_bytes(g, i);
        if (g->nodes[i].op == FB_OP_FEED)
            c->copy_in_us += fb_copy_in_us(m, bytes);
        else
            c->copy_out_us += fb_copy_out_us(m, bytes);
    }
    double both = c->copy_in_us + c->copy_out_us;
    if (!plan->overlap)
        c->us += both;
    else
        c->us = fmax(c->us, m->target->copy_engines ? fmax(c->copy_in_us, c->copy_out_us) : both);
}

void fb_plan_cost_of(const fb_plan *plan, fb_plan_cost *out)
{
    const fb_planner *p = plan->planner;
    int n = fb_plan_groups(plan);
    fb_view *view = plan->view;
    if (view->cost_epoch != p->epoch) {
        fb_plan_cost c = {0};
        for (int i = 0; i < n; i++) add_group(plan, i, &c);
        add_copy_kernels(plan, &c);
        double merged_us = n > 0 ? fb_merged_us(plan) : 0,
               sync_us = isfinite(p->machine.sync_us) ? p->machine.sync_us : 0;
        if (n > 0) c.launches += (int)fmin(fb_merged_launches(plan), INT32_MAX / 2);
        c.launch_us += merged_us + sync_us;
        c.us += merged_us + sync_us - fb_plan_loops_save_us(plan);
        add_copies(plan, &c);
        c.peak_bytes = peak_bytes(plan);
        c.floor_us = fb_judge_floor_us(p->g, &p->machine, NULL, NULL, NULL, &c.floor_guessed);
        view->cost = c;
        view->cost_epoch = p->epoch;
    }
    *out = view->cost;
}

double fb_plan_us(const fb_plan *plan)
{
    fb_plan_cost c;
    fb_plan_cost_of(plan, &c);
    return c.us;
}
