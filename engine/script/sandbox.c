/* The sandbox: resource limits, and the role of a script (base/confine.h), which ends the process at any system call
 * but the few that it needs. Memory is the pool that was mapped before; asking for more says that there is none.
 *
 * requires  the pool, the Lua state, and anything else that opens files or maps memory, done before
 * provides  a process that can read and write what it holds open, read clocks and end */
#include "config.h"

#include "base/confine.h"
#include "script/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Where less is allowed already, that stays: asking for more would be refused. */
static bool limit(int what, rlim_t value, const char *name, fb_error *err)
{
    struct rlimit r = {value, value}, now;
    if (getrlimit(what, &now) == 0) {
        if (now.rlim_max != RLIM_INFINITY && now.rlim_max < r.rlim_max) r.rlim_max = now.rlim_max;
        if (now.rlim_cur != RLIM_INFINITY && now.rlim_cur < r.rlim_cur) r.rlim_cur = now.rlim_cur;
        if (r.rlim_cur > r.rlim_max) r.rlim_cur = r.rlim_max;
    }
    return setrlimit(what, &r) == 0 || fb_fail(err, FB_ERR_SYSTEM, "cannot limit %s: %s", name, strerror(errno));
}

/* What the front was started with may hold secrets, and its stderr is the user's terminal: a script that broke out of
 * Lua finds neither. */
static bool forget_front(fb_error *err)
{
    for (char **at = environ; at && *at; at++) explicit_bzero(*at, strlen(*at));
    clearenv();
#ifndef FB_ASAN
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    bool moved = fd >= 0 && (fd == STDERR_FILENO || dup2(fd, STDERR_FILENO) == STDERR_FILENO);
    if (fd > STDERR_FILENO) close(fd);
    if (!moved) return fb_fail(err, FB_ERR_SYSTEM, "cannot open /dev/null: %s", strerror(errno));
#else
    (void)err;
#endif
    return true;
}

bool fb_sandbox_enter(fb_error *err)
{
    /* CPU time is limited a turn at a time (serve.c and the front); this is for a process that lost its front. */
    enum { CPU_SECONDS = 3600 };
    if (!forget_front(err)) return false;
    fb_error why = {0};
    fb_confinement *c = fb_confine_prepare(FB_ROLE_SCRIPT, NULL, &why); /* while there is room to make it in */
    if (!limit(RLIMIT_CPU, CPU_SECONDS, "CPU time", err) || !limit(RLIMIT_CORE, 0, "core dumps", err)) return false;
#ifndef FB_ASAN
    if (!limit(RLIMIT_FSIZE, 0, "file size", err) || !limit(RLIMIT_NOFILE, 0, "open files", err)) return false;
    if (!limit(RLIMIT_DATA, 0, "memory", err)) return false; /* what is mapped stays */
#endif
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return fb_fail(err, FB_ERR_SYSTEM, "cannot give up privileges: %s", strerror(errno));
    bool held = fb_confine_enter(c) & FB_HOLDS_CALLS;
    int number = errno;
    fb_confine_free(c);
    return held ||
           fb_fail(err, FB_ERR_UNAVAILABLE, "the kernel takes no system-call filter (%s), so scripts are not run",
                   why.kind ? why.text : strerror(number));
}
