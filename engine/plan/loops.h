/* Where a loop keeps what it carries, scans and collects, under a plan.
 *
 * What a loop carries is its *state*: a buffer that holds the initial value before the first step, and the final one
 * after the last. A step makes the next state where the state is, when every read of it is over by then; into a second
 * buffer that changes places with the first at the end of the step; or, when the next state is no value that a kernel
 * of the body stores, by a copy at the end of the step. */
#ifndef FB_PLAN_LOOPS_H
#define FB_PLAN_LOOPS_H

#include "plan/plan.h"
#include "schedule/cluster.h"

typedef enum {
    FB_CARRY_SAME,     /* it does not change, or nobody reads it */
    FB_CARRY_IN_PLACE, /* `base` is stored into the state */
    FB_CARRY_SWAP,     /* `base` is stored beside the state, and the two change places */
    FB_CARRY_COPY,     /* `yield` is copied beside the state, and the two change places */
} fb_carry_kind;

typedef struct {
    fb_carry_kind kind;
    fb_id state; /* the node that stands for the state's buffer: the carried node or else the result; FB_NONE: nobody
                    reads it */
    fb_id init, carried, yield, result; /* carried, result: FB_NONE when not there */
    fb_id base;                         /* the computed node under `yield`; FB_NONE unless IN_PLACE or SWAP */
} fb_carry;

/* A scanned tensor: element e of its item at step t is element offset + t · stride + e of `base`. (stride < 0: from the
 * last step to the first, as over a flipped tensor, or of a loop that runs backwards.) */
typedef struct {
    fb_id item, scanned; /* item: FB_NONE when the body does not read it */
    fb_id base;          /* FB_NONE: the tensor lies otherwise, and is copied before the loop */
    int64_t offset, stride;
} fb_scanned;

/* What is stacked over the steps. */
typedef struct {
    fb_id value, result; /* result: FB_NONE when nobody reads it */
    fb_id base;          /* computed node that is stored at its place in `result` itself, … */
    int64_t every;       /* of each so many steps the last stays */
    fb_id also; /* … or by the same kernel there too, as it has a place of its own; both FB_NONE: copied there */
} fb_collected;

typedef struct {
    fb_id region, node; /* node: the loop */
    int64_t trips;
    int n_carried, n_scanned, n_collected;
    fb_carry *carried;
    fb_scanned *scanned;
    fb_collected *collected;
    bool backwards;  /* scanned and collected from the last entry to the first */
    bool whole;      /* one kernel runs all steps: family scan */
    int first, last; /* groups of the body; last < first: it has none */
} fb_loop;

/* Arrays in `arena`. */
void fb_plan_loop(const fb_plan *plan, fb_id region, fb_arena *arena, fb_loop *out);

/* The outermost loop, a region, that is one kernel and holds region `r`; 0: none. */
fb_id fb_plan_whole_loop(const fb_plan *plan, fb_id r);
/* Is the group's kernel a stage of a larger one: of such a loop, or of the whole plan's (launch mode mega)? */
bool fb_plan_is_stage(const fb_plan *plan, const fb_group *group);
/* kept[i]: group i, of a loop that is one kernel, keeps the right operands of its products in shared memory from step
 * to step. `says` (may be NULL) gets what stays, and why something does not. */
void fb_plan_kept(const fb_plan *plan, fb_id region, bool *kept, fb_str *says);
/* Can each thread go through the loop's steps by itself? Its body is one kernel that makes each element from what the same
 * element was at the step before, and from what no step changes. */
bool fb_plan_steps_apart(const fb_plan *plan, fb_id region);
/* Does each thread go through the loop's steps by itself, and keep in registers what a step leaves to the next? Its body is
 * one kernel, the loop too, and the schedule deals it so (schedule/through.h). What moves with its steps is in `arena`. */
struct fb_through;
bool fb_plan_goes_through(const fb_plan *plan, fb_id region, fb_arena *arena, struct fb_through *out);
/* The first value that moves with the steps of the loop, or is not in memory at a place that is known, among those that
 * the right operands of a product's nest are made of; FB_NONE: they stand still. */
fb_id fb_plan_moves_right(const fb_plan *plan, fb_id region, const fb_nest *nest);

/* A loop that runs in clusters: its one group, and the value that goes round. */
typedef struct {
    int group;
    fb_id made;
    fb_cluster_tile tile;
} fb_recurrence;
/* Does it? `says` (may be NULL) gets how, or why not. */
bool fb_plan_recurrence(const fb_plan *plan, fb_id region, fb_recurrence *out, fb_str *says);
/* Predicted: one launch of the kernel that this loop is (0: of the plan as one kernel), without what launching takes.
 */
double fb_plan_one_kernel_us(const fb_plan *plan, fb_id region);

/* The plan in order: groups, and where loops begin and end. */
typedef enum { FB_ORDER_GROUP, FB_ORDER_OPEN, FB_ORDER_CLOSE } fb_order_kind;
typedef struct {
    fb_order_kind kind;
    int number; /* of the group, or region of the loop */
} fb_order_entry;
/* Borrowed until the plan is edited or freed. */
int fb_plan_order(const fb_plan *plan, const fb_order_entry **out);

/* What an output or effect of the plan's graph is in the graph as written, where steps may be loops. */
fb_id fb_plan_written_node(const fb_plan *plan, fb_id node);

#endif
