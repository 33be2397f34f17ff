/* What threads hold in registers over the passes of a row or column: elements as they lie in memory, all of which are on
 * their way before the first pass begins, and slow functions of them. Part of the schedule (schedule/schedule.h), for rows
 * here, for columns in schedule/bands.h. */
#ifndef FB_SCHEDULE_HELD_H
#define FB_SCHEDULE_HELD_H

#include "schedule/long.h"
#include "schedule/schedule.h"

/* Registers of a group of so many neighbours, between the passes that have most of them; what is loaded is there from the
 * start. */
int fb_held_registers(const fb_nest *nest, const fb_section *s, const fb_long_life *of, const bool *held, int each);
/* Marks slow functions that several passes need: they are kept from the first of these on. `halves`: also those of 16 bits,
 * which take as much room in registers as they do not take in memory. False: there are none. */
bool fb_held_slow(const fb_nest *nest, fb_section *s, const fb_long_life *of, bool halves, bool *held);
/* Deals rows to as many threads each as hold all in registers, where several passes would read or compute it again: sets
 * `fetched`, what is kept, team and blocks. */
bool fb_held_rows(const fb_nest *nest, const fb_knobs *knobs, fb_section_schedule *x, fb_arena *arena);

#endif
