/* How a GPU's threads are dealt to rows that are reduced: part of the schedule (schedule/schedule.h). */
#ifndef FB_SCHEDULE_TEAM_H
#define FB_SCHEDULE_TEAM_H

#include "target/target.h"

#include <stdint.h>

enum {
    FB_TEAM_SPLIT = 512, /* threads of a block that has a part of a row */
    FB_TEAM_STEPS = 16,  /* of a lane that has its part of a stage's row, at most */
};

typedef struct {
    int threads; /* a block */
    int team;    /* threads a row */
    int64_t rows_a_block;
} fb_team;

/* `across`: neighbouring rows lie side by side in memory, and threads take neighbouring rows. `longest`: points of the
 * longest pass, in groups of elements that move together. `stage`: of a kernel of several (code/merge.c). */
fb_team fb_team_of(const fb_target *target, bool across, bool stage, int64_t rows, int64_t longest);

/* Few long rows, each of which several blocks reduce: into so many parts a row is cut. */
int fb_team_parts(int64_t rows, int64_t longest);

#endif
