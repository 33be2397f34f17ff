/* Launches of a program as one kernel. */
#ifndef FB_CODE_MERGE_H
#define FB_CODE_MERGE_H

#include "code/printer.h"
#include "code/program.h"

/* Puts one kernel in the place of launches first … last - 1, in which every REPEAT has its END. `what` is it for
 * sentences ("the plan", "the loop of scan"), `name` the kernel's, if it is free. On CUDA the kernel is launched
 * cooperatively with as many of its blocks as the device holds at once, or with a few a multiprocessor, of which it has
 * `units`, where that is enough for its stages. False when it cannot be: a library call on CUDA, too many tensors. */
bool fb_program_merge(fb_program *p, const fb_target *target, int units, int first, int last, const char *what,
                      const char *name, fb_error *err);

#endif
