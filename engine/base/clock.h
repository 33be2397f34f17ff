/* Monotonic time, and the time that a process computed. */
#ifndef FB_BASE_CLOCK_H
#define FB_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t fb_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What this process has computed, whoever else does on the same cores. */
static inline int64_t fb_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline double fb_now_us(void)
{
    return (double)fb_now_ns() * 1e-3;
}

#endif
