/* Starts a process of a worker with its descriptors where it expects them, ends it with all that it started, and
 * says in words how it ended. */
#include "base/clock.h"
#include "base/coverage.h"
#include "base/mem.h"
#include "worker/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the new process needs, gathered before the fork. */
typedef struct {
    char *const *argv;
    int (*main_fn)(void *ctx, int in, int out);
    void *ctx;
    int in, out, stderr_fd;
    int report_fd; /* close-on-exec: carries errno when exec fails */
    pid_t parent;
} start;

static bool move_fd(int from, int to)
{
    if (from == to) {
        int flags = fcntl(from, F_GETFD);
        return flags >= 0 && fcntl(from, F_SETFD, flags & ~FD_CLOEXEC) == 0;
    }
    return dup2(from, to) == to;
}

/* The three standard descriptors may be among ours (a front started without stdin): lift them out of the way first. */
static int lifted(int fd)
{
    return fd >= 0 && fd < 3 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : fd;
}

static _Noreturn void run_child(start *s)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != s->parent) _exit(127); /* it died before the line above */
    for (int sig = 1; sig < NSIG; sig++) signal(sig, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);

    int in = lifted(s->in), out = lifted(s->out), error_fd = lifted(s->stderr_fd);
    if (!move_fd(in, 0) || !move_fd(out, 1) || (error_fd >= 0 && !move_fd(error_fd, 2))) _exit(127);
    if (!s->argv) {
        /* Nothing of the front stays open here: a pipe end kept by accident would keep its peer alive. */
        close_range(3, ~0u, 0);
        _exit(s->main_fn(s->ctx, 0, 1));
    }
    execvp(s->argv[0], s->argv);
    int why = errno;
    ssize_t ignored = write(s->report_fd, &why, sizeof why);
    (void)ignored;
    _exit(127);
}

static void close_pair(int pair[2])
{
    if (pair[0] >= 0) close(pair[0]);
    if (pair[1] >= 0) close(pair[1]);
}

/* 0 once exec has succeeded, else its errno. */
static int exec_result(int fd)
{
    int why = 0;
    ssize_t k;
    do k = read(fd, &why, sizeof why);
    while (k < 0 && errno == EINTR);
    return k == (ssize_t)sizeof why ? why : 0;
}

bool fb_child_start(fb_child *c, char *const argv[], int (*main_fn)(void *ctx, int in, int out), void *ctx,
                    int stderr_fd, fb_error *err)
{
    int to[2] = {-1, -1}, from[2] = {-1, -1}, report[2] = {-1, -1};
    *c = (fb_child){0};
    if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0 || pipe2(report, O_CLOEXEC) < 0) {
        fb_fail(err, FB_ERR_SYSTEM, "no pipe for a new process: %s", strerror(errno));
        goto failed;
    }
    start s = {.argv = argv,
               .main_fn = main_fn,
               .ctx = ctx,
               .in = to[0],
               .out = from[1],
               .stderr_fd = stderr_fd,
               .report_fd = lifted(report[1]),
               .parent = getpid()};
    /* Until it has none of the front's handlers left: one that ran in the child would tell the front, through a pipe
     * that both hold, to end. */
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) run_child(&s);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (s.report_fd != report[1]) close(s.report_fd);
    if (pid < 0) {
        fb_fail(err, FB_ERR_SYSTEM, "cannot start a process: %s", strerror(errno));
        goto failed;
    }
    setpgid(pid, pid); /* here and in the child: whoever comes first */
    close(to[0]);
    close(from[1]);
    close(report[1]);
    to[0] = from[1] = report[1] = -1;
    c->pid = pid;
    int why = argv ? exec_result(report[0]) : 0;
    if (why) {
        fb_child_kill(c);
        fb_fail(err, FB_ERR_UNAVAILABLE, "cannot run %s: %s", argv[0], strerror(why));
        goto failed;
    }
    close(report[0]);
    c->channel = fb_channel_new(from[0], to[1]);
    return true;
failed:
    close_pair(to);
    close_pair(from);
    close_pair(report);
    return false;
}

/* A process in an uninterruptible call outlives SIGKILL for a while; the front does not wait for it longer than this.
 */
enum { REAP_MS = 500, LATE = 64 };

/* Those that were not waited for to the end: fb_child_reap does it later. */
static pid_t late[LATE];
static int n_late;

bool fb_child_reap(void)
{
    for (int i = 0; i < n_late; i++) {
        pid_t got = waitpid(late[i], NULL, WNOHANG);
        if (got == late[i] || (got < 0 && errno == ECHILD)) late[i--] = late[--n_late];
    }
    return n_late > 0;
}

void fb_child_kill(fb_child *c)
{
    if (c->pid > 0) {
        fb_coverage_await(c->pid);
        kill(-c->pid, SIGKILL);
        kill(c->pid, SIGKILL); /* the group may not exist yet */
        int64_t deadline = fb_now_ns() + REAP_MS * 1000000ll;
        pid_t got;
        while ((got = waitpid(c->pid, NULL, WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
            if (fb_now_ns() > deadline) break;
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        }
        if (got == 0 && n_late < LATE) late[n_late++] = c->pid;
    }
    fb_channel_free(c->channel);
    *c = (fb_child){0};
}

bool fb_child_ended(fb_child *c, char *how, size_t room)
{
    if (c->pid <= 0) {
        if (room) snprintf(how, room, "has ended");
        return true;
    }
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0) return false;
    kill(-c->pid, SIGKILL); /* before it is reaped, while its number cannot be anyone else's */
    waitpid(c->pid, NULL, WNOHANG);
    c->pid = 0;
    if (!room) return true;
    const char *name = info.si_code == CLD_EXITED ? NULL : sigabbrev_np(info.si_status);
    if (info.si_code == CLD_EXITED)
        snprintf(how, room, "exited with status %d", info.si_status);
    else if (name)
        snprintf(how, room, "was killed by SIG%s", name);
    else
        snprintf(how, room, "was killed by signal %d", info.si_status);
    return true;
}
