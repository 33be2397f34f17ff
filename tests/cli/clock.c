/* Preloaded by surroundings.sh: the clock of the day jumps, with each look at it, hours and years to and fro; the one
 * that only goes on does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

static long long jump(void)
{
    static const long long by[] = {0, 86400 * 400, -3600 * 5, 3, -86400 * 3000, 3600 * 2, -1};
    static unsigned looks;
    return by[looks++ % (sizeof by / sizeof *by)];
}

int clock_gettime(clockid_t clock, struct timespec *to)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, to);
    if (clock == CLOCK_REALTIME) to->tv_sec += jump();
    return status;
}

time_t time(time_t *to)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to) *to = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict to, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *to = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}
