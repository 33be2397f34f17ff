/* What a plan copies beside the kernels of its groups: outputs that are views or sources, what a loop carries where it
 * has a place of its own, and what an assignment would overwrite too early. Lowering makes these copies
 * (code/lower.c, code/lower_loops.c), the cost model counts them. */
#ifndef FB_PLAN_COPIES_H
#define FB_PLAN_COPIES_H

#include "plan/plan.h"

/* Values that leave a graph: outputs, and what is received once. A node may be among them twice. */
typedef struct {
    int n;
    fb_id *node;
} fb_leaving;

/* In `arena`. */
fb_leaving fb_leaving_of(const fb_graph *g, fb_arena *arena);
/* The one that is kept where `node` is: it itself, or a view of all of it, in order. FB_NONE: none is. */
fb_id fb_leaving_stands_in(const fb_graph *g, const fb_leaving *l, fb_id node);

typedef struct {
    fb_id node;   /* what is copied; of op step: the numbers of the steps, which are written once */
    fb_id region; /* at every step of this loop; 0: once */
} fb_copied_value;

/* Sources that kernels compute as they go (iota, random, a constant), which a library called for the group wants in
 * memory: once each, before the loops around it. None where those have no steps. *out in `arena`; returns how many. */
int fb_laid_sources(const fb_plan *plan, const fb_group *group, fb_arena *arena, fb_id **out);

/* In `arena`; without what has no elements, and without views that a library call has laid out, which are in its
 * group's cost. */
int fb_plan_copied_values(const fb_plan *plan, fb_arena *arena, fb_copied_value **out);

/* One copy of `node`: a kernel of family copy. */
void fb_copying_cost(const fb_plan *plan, fb_id node, fb_group_cost *out);

#endif
