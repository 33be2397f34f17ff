/* Where the time of a request goes: with t in FB_DEBUG, the processes of a worker show each phase of their work when it
 * ends, and a long one while it goes on (docs/DEBUGGING.md). A phase is what progress says, without its numbers. */
#ifndef FB_WORKER_PHASES_H
#define FB_WORKER_PHASES_H

#include <stdint.h>

/* Zero: no phase runs. One a process. */
typedef struct {
    char what[160];
    int64_t first_ns, since_ns, told_ns, computed_ns;
} fb_phases;

/* Work of this phase goes on or begins; NULL: it has ended. `who` is the process. */
void fb_phases_note(fb_phases *p, const char *who, const char *what);

#endif
