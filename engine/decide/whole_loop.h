/* A loop as one kernel, with all that this takes, as one decision. */
#ifndef FB_DECIDE_WHOLE_LOOP_H
#define FB_DECIDE_WHOLE_LOOP_H

#include "decide/decide.h"

/* The plan with that loop (a node) as one kernel, its products generated and what is made of them in one stage as far
 * as may be; the caller frees it. NULL where it cannot be one kernel. `v`: the verdict on the last step. */
fb_plan *fb_decide_whole_loop(const fb_plan *plan, fb_id loop, fb_verdict *v);

/* Decides on record whether the loop is to be one kernel: as the plan has its body or, where that is faster, with all of
 * a step in one stage, if either is predicted to be faster than loops of launches. Takes the plan, and returns the one
 * that goes on. */
fb_plan *fb_decide_loop(fb_decider *d, fb_plan *plan, fb_id loop);

#endif
