/* The sandbox: resource limits, no new privileges, and a filter that ends the process at any system call but the few
 * that it needs. Memory is the pool that was mapped before; asking for more says that there is none.
 *
 * requires  the pool, the Lua state, and anything else that opens files or maps memory, done before
 * provides  a process that can read and write what it holds open, read clocks and end */
#include "config.h"
#include "script/process.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

static const int allowed[] = {
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(brk), /* finds no room (RLIMIT_DATA); the C library takes an error number for the new end of its heap */
#ifdef FB_ASAN
    /* What the sanitizer's own bookkeeping and reports need. */
    SCMP_SYS(open),
    SCMP_SYS(mmap),
    SCMP_SYS(munmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(madvise),
    SCMP_SYS(mremap),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(futex),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(tgkill),
    SCMP_SYS(prctl),
    SCMP_SYS(openat),
    SCMP_SYS(close),
    SCMP_SYS(readlink),
    SCMP_SYS(fstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(getrandom),
    SCMP_SYS(sched_yield),
    SCMP_SYS(ioctl),
    SCMP_SYS(lseek),
#endif
};

/* The C library asks for these in passing (qsort, for one, how much memory there is) and lives with a no. */
static const int refused[] = {
    SCMP_SYS(sysinfo),
#ifndef FB_ASAN
    SCMP_SYS(mmap),    SCMP_SYS(mremap), SCMP_SYS(munmap), SCMP_SYS(madvise),
#endif
};

static bool filter(fb_error *err)
{
    scmp_filter_ctx c = seccomp_init(SCMP_ACT_KILL_PROCESS);
    int failed = c ? 0 : -ENOMEM;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed && !failed; i++)
        failed = seccomp_rule_add(c, SCMP_ACT_ALLOW, allowed[i], 0);
    for (size_t i = 0; i < sizeof refused / sizeof *refused && !failed; i++)
        failed = seccomp_rule_add(c, SCMP_ACT_ERRNO(ENOMEM), refused[i], 0);
#ifdef FB_COVERAGE
    /* The file that tells what was run is locked while it is written. */
    if (!failed) failed = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 0);
#endif
    if (!failed) failed = seccomp_load(c);
    if (c) seccomp_release(c);
    if (!failed) return true;
    return fb_fail(err, FB_ERR_UNAVAILABLE, "the kernel takes no system-call filter (%s), so scripts are not run",
                   strerror(-failed));
}

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

/* libseccomp builds the filter on the heap when that may no longer grow: room for it is made before. */
static void leave_room(void)
{
    enum { ROOM = 96 << 10 }; /* bytes; small enough that the C library keeps what is freed */
    void *volatile room = malloc(ROOM);
    free(room);
}

bool fb_sandbox_enter(fb_error *err)
{
    /* CPU time is limited a turn at a time (serve.c and the front); this is for a process that lost its front. */
    enum { CPU_SECONDS = 3600 };
    if (!forget_front(err)) return false;
    if (!limit(RLIMIT_CPU, CPU_SECONDS, "CPU time", err) || !limit(RLIMIT_CORE, 0, "core dumps", err)) return false;
    leave_room();
#ifndef FB_ASAN
    if (!limit(RLIMIT_FSIZE, 0, "file size", err) || !limit(RLIMIT_NOFILE, 0, "open files", err)) return false;
    if (!limit(RLIMIT_DATA, 0, "memory", err)) return false; /* what is mapped stays */
#endif
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return fb_fail(err, FB_ERR_SYSTEM, "cannot give up privileges: %s", strerror(errno));
    return filter(err);
}
