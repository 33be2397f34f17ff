/* Lowering: plan → program, for one target. */
#ifndef FB_CODE_LOWER_H
#define FB_CODE_LOWER_H

#include "code/eject.h"
#include "code/printer.h"
#include "code/program.h"

/* The caller frees with fb_program_free; independent of the plan afterwards. Fails only for limits (a launch mode the
 * device does not have, sizes beyond an index type), with the sentence. */
fb_program *fb_lower(const fb_plan *plan, const fb_target *target, fb_error *err);

/* The same program with every kernel launched by itself, in a stream: loops and plans that are one kernel are lists of
 * their stages here. What they store is told launch by launch (fb_launch's places). */
fb_program *fb_lower_apart(const fb_plan *plan, const fb_target *target, fb_error *err);

/* The same program for somewhere else: of libraries it asks for products alone, and what this device's library convolves
 * is laid out for one. */
fb_program *fb_lower_portable(const fb_plan *plan, const fb_target *target, fb_error *err);

/* The kernel of one group alone, for the kernel pane: source text (arena-owned), the user's own where the group has it;
 * NULL for pure library calls. */
const char *fb_lower_group_source(const fb_plan *plan, int group, const fb_target *target, fb_arena *arena);

/* The kernel of a group, with what it has to do, as a file to be improved by hand; shares[i]: it is that of group i
 * too, as of all members of a repetition. False, with the reason, when it has none of its own. */
bool fb_lower_eject(const fb_plan *plan, int group, const fb_target *target, const fb_eject_origin *from, fb_str *out,
                    bool *shares, fb_error *err);

/* The whole text of a program, prelude included, as `emit` prints it. */
void fb_program_print(const fb_program *p, const fb_target *target, fb_str *out);

#endif
