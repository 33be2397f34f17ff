/* The guard above a compiler (guarded.h). Between fork and exec only what a signal handler may call: the process that
 * forks has threads. */
#include "device/guarded.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/polite.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOG_MAX = 1 << 16, STOP_MS = 2000 };

/* A lower limit that we run under ourselves stays. */
static void limit(int which, rlim_t soft, rlim_t hard)
{
    struct rlimit now;
    if (getrlimit(which, &now) < 0) return;
    if (now.rlim_max != RLIM_INFINITY && now.rlim_max < hard) hard = now.rlim_max;
    now.rlim_cur = now.rlim_cur != RLIM_INFINITY && now.rlim_cur < soft ? now.rlim_cur : soft;
    if (now.rlim_cur > hard) now.rlim_cur = hard;
    now.rlim_max = hard;
    setrlimit(which, &now);
}

/* Headers are looked for where the compiler itself looks, whatever the environment adds: what a kernel reads must be
 * what was agreed to. */
static _Noreturn void exec_command(char *const *argv, int log, const fb_guarded_limits *l)
{
    static const char *const paths[] = {"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"};
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    limit(RLIMIT_CPU, (rlim_t)l->seconds, (rlim_t)l->seconds + 1);
    limit(RLIMIT_CORE, 0, 0);
    fb_give_way();
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, 0);
    dup2(log, 1);
    dup2(log, 2);
    setenv("LC_ALL", "C", 1);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) unsetenv(paths[i]);
    if (l->work) setenv("TMPDIR", l->work, 1);
    /* last: nothing of ours has room under it where a sanitizer has mapped its shadow */
    if (l->memory) limit(RLIMIT_AS, (rlim_t)l->memory, (rlim_t)l->memory);
    execvp(argv[0], argv);
    dprintf(2, "%s\n", strerror(errno));
    _exit(127);
}

/* ---- the guard ---- */

static void kill_children(void)
{
    char list[4096];
    int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, list, sizeof list - 1) : 0;
    if (fd >= 0) close(fd);
    long pid = 0;
    for (ssize_t i = 0; i < n; i++) {
        if (list[i] >= '0' && list[i] <= '9')
            pid = 10 * pid + (list[i] - '0');
        else if (pid)
            kill((pid_t)pid, SIGKILL), pid = 0;
    }
    if (pid) kill((pid_t)pid, SIGKILL);
}

/* The children of what is killed become ours, so that round after round nothing is left. One that hangs in the system
 * is not waited for longer than this. */
static void kill_all(pid_t command)
{
    int64_t deadline = fb_now_ns() + STOP_MS * 1000000ll;
    kill(-command, SIGKILL);
    for (;;) {
        kill_children();
        pid_t got;
        while ((got = waitpid(-1, NULL, WNOHANG)) > 0) continue;
        if ((got < 0 && errno == ECHILD) || fb_now_ns() > deadline) return;
        nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
    }
}

/* Ends as the command did. */
static _Noreturn void end_as(int status)
{
    if (WIFSIGNALED(status)) {
        int sig = WTERMSIG(status);
        sigset_t set;
        limit(RLIMIT_CORE, 0, 0);
        signal(sig, SIG_DFL);
        sigemptyset(&set);
        sigaddset(&set, sig);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        kill(getpid(), sig);
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static _Noreturn void guard(char *const *argv, int log, const fb_guarded_limits *l, pid_t parent)
{
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGCHLD);
    sigprocmask(SIG_BLOCK, &watched, NULL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
    setpgid(0, 0); /* who kills our parent's group leaves us to do our work */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (getppid() != parent) _exit(1);
    if (log > 3) close_range(3, (unsigned)log - 1, 0); /* pipes that others wait to see closed */
    close_range((unsigned)log + 1, ~0u, 0);
    pid_t command = fork();
    if (command == 0) exec_command(argv, log, l);
    if (command < 0) _exit(126);
    setpgid(command, command); /* here and in the child: whoever comes first */
    for (;;) {
        int status, sig = sigwaitinfo(&watched, NULL);
        pid_t got = 0;
        while (sig != SIGTERM && (got = waitpid(-1, &status, WNOHANG)) > 0 && got != command) continue;
        if (sig != SIGTERM && got != command) continue;
        kill_all(command);
        if (sig == SIGTERM) _exit(1);
        end_as(status);
    }
}

/* ---- our side ---- */

bool fb_guarded_start(fb_guarded *g, char *const *argv, const fb_guarded_limits *limits, fb_error *err)
{
    *g = (fb_guarded){.log = memfd_create("compiler", MFD_CLOEXEC), .started_ns = fb_now_ns()};
    if (g->log < 0) return fb_fail(err, FB_ERR_SYSTEM, "the compiler cannot be started: %s", strerror(errno));
    int log = g->log < 3 ? fcntl(g->log, F_DUPFD_CLOEXEC, 3) : g->log;
    pid_t parent = getpid();
    g->pid = log < 0 ? -1 : fork();
    if (g->pid == 0) guard(argv, log, limits, parent);
    int why = errno;
    if (log >= 0 && log != g->log) close(log);
    if (g->pid > 0) return true;
    close(g->log);
    *g = (fb_guarded){.log = -1};
    return fb_fail(err, FB_ERR_SYSTEM, "the compiler cannot be started: %s", strerror(why));
}

bool fb_guarded_ended(fb_guarded *g, int *status)
{
    pid_t got = waitpid(g->pid, status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR)) return false;
    if (got < 0) *status = 1 << 8; /* reaped by another: taken for a failure */
    g->pid = 0;
    return true;
}

void fb_guarded_stop(fb_guarded *g)
{
    if (g->pid <= 0) return;
    kill(g->pid, SIGTERM);
    kill(g->pid, SIGCONT);
    while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR) continue;
    close(g->log);
    *g = (fb_guarded){.log = -1};
}

char *fb_guarded_log(fb_guarded *g)
{
    char *text = fb_alloc(LOG_MAX + 1);
    ssize_t n = pread(g->log, text, LOG_MAX, 0);
    text[n > 0 ? n : 0] = '\0';
    close(g->log);
    g->log = -1;
    return text;
}
