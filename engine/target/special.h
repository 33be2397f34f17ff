/* What slow functions cost, in exponentials of f32: what the calibrated rate of slow functions (fb_machine, gspecial)
 * counts. */
#ifndef FB_TARGET_SPECIAL_H
#define FB_TARGET_SPECIAL_H

#include "target/machine.h"

/* 0 for an op that is arithmetic like any other. */
double fb_special_cost(fb_op op, fb_dtype dtype, const fb_target *target);
/* On a GPU: are some arguments treated apart, so that neighbouring elements are computed one after the other? */
bool fb_special_branches(fb_op op);

#endif
