/* Builds with --enable-coverage: what a process ran is written down when it ends by _exit() too, which the linker
 * sends here, and when it is about to be killed. Nothing of this is in other builds. */
#ifndef FB_BASE_COVERAGE_H
#define FB_BASE_COVERAGE_H

#include "config.h"

#include <sys/types.h>

#ifdef FB_COVERAGE
/* Gives a process that is about to be killed time to write down what it ran. */
void fb_coverage_await(pid_t pid);
#else
static inline void fb_coverage_await(pid_t pid)
{
    (void)pid;
}
#endif

#endif
