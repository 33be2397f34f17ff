/* The guard above a compiler (guarded.h). Between fork and exec only what a signal handler may call: the process that
 * forks has threads. */
#include "device/guarded.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/confine.h"
#include "base/mem.h"
#include "base/polite.h"
#include "base/str.h"
#include "base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
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

/* ---- where headers and compilers lie ---- */

typedef FB_VEC(const char *) path_list;

static void add_folder(path_list *to, fb_arena *arena, const char *path)
{
    if (path[0] == '/' && path[1]) FB_VEC_PUSH(to, fb_arena_strdup(arena, path));
}

/* The folder of a command, and, where it is some prefix's bin, that prefix: its compiler keeps headers beside it. Not a
 * home folder, which has one too. */
static void add_bin(path_list *to, fb_arena *arena, const char *folder)
{
    char real[PATH_MAX];
    const char *home = getenv("HOME");
    add_folder(to, arena, folder);
    if (!realpath(folder, real)) return;
    add_folder(to, arena, real);
    char *slash = strrchr(real, '/');
    if (!slash || strcmp(slash, "/bin") != 0) return;
    *slash = '\0';
    if (real[0] && !(home && strcmp(home, real) == 0)) add_folder(to, arena, real);
}

static void add_list(path_list *to, fb_arena *arena, const char *name)
{
    char *all = fb_arena_strdup(arena, getenv(name) ? getenv(name) : "");
    for (char *folder; (folder = strsep(&all, ":"));) {
        if (strcmp(name, "PATH") == 0)
            add_bin(to, arena, folder);
        else
            add_folder(to, arena, folder);
    }
}

/* What a word of the command names: "/opt/cc/bin/cc", "-I/opt/include", "--sysroot=/opt/root". */
static void add_word(path_list *to, fb_arena *arena, const char *word)
{
    char real[PATH_MAX], *path = fb_arena_strdup(arena, strchr(word, '/'));
    add_folder(to, arena, path);
    if (!realpath(path, real)) return;
    add_folder(to, arena, real);
    char *slash = strrchr(real, '/');
    if (word[0] != '/' || slash == real) return;
    *slash = '\0';
    add_bin(to, arena, real);
}

static void list_places(path_list *to, fb_arena *arena, char *const *argv)
{
    static const char *const places[] = {"/usr",    "/bin",      "/sbin",     "/lib",         "/lib32",     "/lib64",
                                         "/libx32", "/etc",      "/opt",      "/nix",         "/gnu",       "/proc",
                                         "/sys",    "/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"};
    static const char *const lists[] = {"PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) add_folder(to, arena, places[i]);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) add_list(to, arena, lists[i]);
    for (; *argv; argv++)
        if (strchr(*argv, '/')) add_word(to, arena, *argv);
}

/* Headers are looked for where the compiler itself looks, whatever the environment adds: what a kernel reads must be
 * what was agreed to. A wrapper that keeps what it compiled would write to a cache of its own, and ours stands before
 * it. */
static _Noreturn void exec_command(char *const *argv, int log, const fb_guarded_limits *l, const fb_confinement *c)
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
    setenv("CCACHE_DISABLE", "1", 1);
    if (l->work) setenv("TMPDIR", l->work, 1);
    fb_confine_enter(c);
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

static _Noreturn void guard(char *const *argv, int log, const fb_guarded_limits *l, const fb_confinement *c,
                            pid_t parent)
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
    if (command == 0) exec_command(argv, log, l, c);
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

/* ---- by this process itself ---- */

/* The guard's process, or -1 with errno. */
static pid_t start_guard(char *const *argv, int log, const fb_guarded_limits *limits)
{
    path_list reads = {0};
    fb_arena *arena = fb_arena_new();
    list_places(&reads, arena, argv);
    fb_confine_places places = {
        .write = &limits->work, .n_write = limits->work != NULL, .read = reads.at, .n_read = reads.n};
    fb_confinement *c = fb_confine_prepare(FB_ROLE_COMPILER, &places, NULL);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) guard(argv, log, limits, c, parent);
    int why = errno;
    fb_confine_free(c);
    fb_arena_free(arena);
    FB_VEC_FREE(&reads);
    errno = why;
    return pid;
}

/* ---- by a process apart ----
 *
 * Messages over a pair of sockets, one a packet: START with the log's descriptor is answered by STARTED; STOP is
 * answered as every end is, by ENDED. */

typedef enum { START, STOP, STARTED, ENDED } kind;

typedef struct {
    kind kind;
    pid_t pid;
    int number; /* STARTED: errno, 0: it runs; ENDED: the status */
    int seconds, n_words;
    int64_t memory;
    bool work; /* the first word behind argv */
} message;

enum { PACKET_MOST = 1 << 17, WORDS_MOST = 4096 };

typedef struct {
    pid_t pid;
    int status;
} ended;

/* Of the process that has another one apart. */
static struct {
    int fd; /* -1: there is none */
    FB_VEC(ended) ended;
} apart = {.fd = -1};

static bool send_packet(int fd, const message *m, const void *words, size_t n, int log)
{
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec parts[] = {{(void *)(uintptr_t)m, sizeof *m}, {(void *)(uintptr_t)words, n}};
    struct msghdr h = {.msg_iov = parts, .msg_iovlen = n ? 2 : 1};
    if (log >= 0) {
        h.msg_control = control.room;
        h.msg_controllen = sizeof control.room;
        struct cmsghdr *c = CMSG_FIRSTHDR(&h);
        *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(c), &log, sizeof log);
    }
    ssize_t sent;
    do sent = sendmsg(fd, &h, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)(sizeof *m + n);
}

/* 1, 0: nothing waits, or what waited was no message; -1: the other end is gone. */
static int take_packet(int fd, message *m, char *words, size_t room, size_t *n, int *log, int flags)
{
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec parts[] = {{m, sizeof *m}, {words, room}};
    struct msghdr h = {.msg_iov = parts,
                       .msg_iovlen = room ? 2 : 1,
                       .msg_control = control.room,
                       .msg_controllen = sizeof control.room};
    ssize_t got;
    do got = recvmsg(fd, &h, flags | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    if (got <= 0) return -1;
    if (got < (ssize_t)sizeof *m) return 0; /* a kernel that writes into whatever is open */
    *n = (size_t)got - sizeof *m;
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);
    if (log) *log = -1;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && log) memcpy(log, CMSG_DATA(c), sizeof *log);
    return 1;
}

/* Waits for the answer to what was sent; ends of others are kept for when they are asked for. */
static bool await(kind what, pid_t pid, message *answer)
{
    size_t n;
    while (take_packet(apart.fd, answer, NULL, 0, &n, NULL, 0) > 0) { /* it sends nothing but messages */
        if (answer->kind == what && (pid <= 0 || answer->pid == pid)) return true;
        if (answer->kind == ENDED) FB_VEC_PUSH(&apart.ended, ((ended){answer->pid, answer->number}));
    }
    return false;
}

static pid_t ask_start(char *const *argv, int log, const fb_guarded_limits *limits)
{
    fb_str words = {0};
    message m = {.kind = START, .seconds = limits->seconds, .memory = limits->memory, .work = limits->work != NULL};
    for (; argv[m.n_words]; m.n_words++) fb_str_add_n(&words, argv[m.n_words], strlen(argv[m.n_words]) + 1);
    if (limits->work) fb_str_add_n(&words, limits->work, strlen(limits->work) + 1);
    bool sent = send_packet(apart.fd, &m, words.text, words.n, log);
    fb_str_free(&words);
    if (!sent || !await(STARTED, 0, &m)) {
        errno = sent ? ECHILD : errno;
        return -1;
    }
    errno = m.number;
    return m.number ? -1 : m.pid;
}

/* Its end, when it is among those that were told. */
static bool take_ended(pid_t pid, int *status)
{
    for (int i = 0; i < apart.ended.n; i++) {
        if (apart.ended.at[i].pid != pid) continue;
        *status = apart.ended.at[i].status;
        apart.ended.at[i] = apart.ended.at[--apart.ended.n];
        return true;
    }
    return false;
}

/* As waitpid with WNOHANG: the process, 0 while it runs, -1 when nothing more will be heard. */
static pid_t look_apart(pid_t pid, int *status)
{
    message m;
    size_t n;
    int got;
    while ((got = take_packet(apart.fd, &m, NULL, 0, &n, NULL, MSG_DONTWAIT)) > 0)
        if (m.kind == ENDED) FB_VEC_PUSH(&apart.ended, ((ended){m.pid, m.number}));
    if (take_ended(pid, status)) return pid;
    return got < 0 ? -1 : 0;
}

/* ---- … and that process ---- */

typedef struct {
    int fd, signals;
    bool (*may)(char *const *argv, const fb_guarded_limits *limits);
    FB_VEC(pid_t) guards;
    bool gone; /* who asks */
} starter;

/* Splits the words of a packet; false where it is none of ours. */
static bool read_words(const message *m, const char *words, size_t n, char **argv, fb_guarded_limits *limits)
{
    int all = m->n_words + m->work, k = 0;
    if (m->n_words < 1 || all >= WORDS_MOST || !n || words[n - 1]) return false;
    for (const char *at = words; at < words + n && k < all; at += strlen(at) + 1) argv[k++] = (char *)(uintptr_t)at;
    if (k != all) return false;
    *limits = (fb_guarded_limits){.work = m->work ? argv[all - 1] : NULL, .seconds = m->seconds, .memory = m->memory};
    argv[m->n_words] = NULL;
    return true;
}

static void start_asked(starter *s, const message *m, const char *words, size_t n, int log)
{
    static char *argv[WORDS_MOST + 1];
    fb_guarded_limits limits;
    message answer = {.kind = STARTED, .number = EPERM};
    if (log >= 0 && read_words(m, words, n, argv, &limits) && s->may(argv, &limits)) {
        int high = log < 3 ? fcntl(log, F_DUPFD_CLOEXEC, 3) : log;
        answer.pid = high < 0 ? -1 : start_guard(argv, high, &limits);
        answer.number = answer.pid < 0 ? errno : 0;
        if (high >= 0 && high != log) close(high);
        if (answer.pid > 0) FB_VEC_PUSH(&s->guards, answer.pid);
    }
    if (log >= 0) close(log);
    if (!send_packet(s->fd, &answer, NULL, 0, -1)) s->gone = true;
}

static void stop_guard(pid_t pid)
{
    kill(pid, SIGTERM);
    kill(pid, SIGCONT);
}

static void tell_ended(starter *s)
{
    struct signalfd_siginfo ignored;
    ssize_t got = read(s->signals, &ignored, sizeof ignored);
    (void)got;
    for (int i = 0; i < s->guards.n; i++) {
        message m = {.kind = ENDED, .pid = s->guards.at[i]};
        if (waitpid(m.pid, &m.number, WNOHANG) != m.pid) continue;
        s->guards.at[i--] = s->guards.at[--s->guards.n];
        if (!send_packet(s->fd, &m, NULL, 0, -1)) s->gone = true;
    }
}

static void hear_asked(starter *s, char *words)
{
    message m;
    size_t n;
    int log;
    int got = take_packet(s->fd, &m, words, PACKET_MOST, &n, &log, MSG_DONTWAIT);
    if (got < 0) s->gone = true;
    if (got <= 0) return;
    if (m.kind == START) {
        start_asked(s, &m, words, n, log);
        return;
    }
    if (log >= 0) close(log);
    for (int i = 0; i < s->guards.n; i++)
        if (m.kind == STOP && s->guards.at[i] == m.pid) stop_guard(m.pid);
}

/* In a group of its own: who kills the group of the one that asks leaves it to put away what is left. */
static _Noreturn void serve_apart(starter *s, void (*leave)(void))
{
    sigset_t children;
    char *words = fb_alloc(PACKET_MOST);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, 0); /* it hears that its parent has ended by the socket */
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, NULL);
    signal(SIGCHLD, SIG_DFL);
    s->signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    while (!s->gone && s->signals >= 0) {
        struct pollfd fds[] = {{.fd = s->fd, .events = POLLIN}, {.fd = s->signals, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR) break;
        if (fds[1].revents) tell_ended(s);
        if (fds[0].revents) hear_asked(s, words);
    }
    for (int i = 0; i < s->guards.n; i++) stop_guard(s->guards.at[i]);
    for (int i = 0; i < s->guards.n; i++)
        while (waitpid(s->guards.at[i], NULL, 0) < 0 && errno == EINTR) continue;
    leave();
    _exit(0);
}

bool fb_guarded_apart(bool (*may)(char *const *argv, const fb_guarded_limits *limits), void (*leave)(void),
                      fb_error *err)
{
    int ends[2];
    if (apart.fd >= 0) return true;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return fb_fail(err, FB_ERR_SYSTEM, "no process can be had to start compilers: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        /* a child of nobody's here: when it ends, nobody waits for it */
        if ((pid = fork()) != 0) _exit(pid < 0);
        starter s = {.fd = ends[1] < 3 ? fcntl(ends[1], F_DUPFD_CLOEXEC, 3) : ends[1], .may = may};
        if (s.fd < 0) _exit(1);
        if (s.fd > 3) close_range(3, (unsigned)s.fd - 1, 0); /* pipes that others wait to see closed */
        close_range((unsigned)s.fd + 1, ~0u, 0);
        serve_apart(&s, leave);
    }
    int why = errno, status = 1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    close(ends[1]);
    if (status == 0) {
        apart.fd = ends[0];
        return true;
    }
    close(ends[0]);
    return fb_fail(err, FB_ERR_SYSTEM, "no process can be had to start compilers: %s",
                   strerror(pid > 0 ? EAGAIN : why));
}

/* ---- our side ---- */

bool fb_guarded_start(fb_guarded *g, char *const *argv, const fb_guarded_limits *limits, fb_error *err)
{
    *g = (fb_guarded){.log = memfd_create("compiler", MFD_CLOEXEC), .started_ns = fb_now_ns()};
    if (g->log < 0) return fb_fail(err, FB_ERR_SYSTEM, "the compiler cannot be started: %s", strerror(errno));
    int log = g->log < 3 ? fcntl(g->log, F_DUPFD_CLOEXEC, 3) : g->log;
    g->pid = log < 0 ? -1 : apart.fd >= 0 ? ask_start(argv, log, limits) : start_guard(argv, log, limits);
    int why = errno;
    if (log >= 0 && log != g->log) close(log);
    if (g->pid > 0) return true;
    close(g->log);
    *g = (fb_guarded){.log = -1};
    if (why == ECHILD || why == EPIPE) /* this process starts nothing any more; the next one can */
        return fb_fail(err, FB_ERR_CRASH, "the process that starts compilers has ended");
    return fb_fail(err, FB_ERR_SYSTEM, "the compiler cannot be started: %s", strerror(why));
}

bool fb_guarded_ended(fb_guarded *g, int *status)
{
    pid_t got = apart.fd >= 0 ? look_apart(g->pid, status) : waitpid(g->pid, status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR)) return false;
    if (got < 0) *status = 1 << 8; /* reaped by another: taken for a failure */
    g->pid = 0;
    return true;
}

void fb_guarded_stop(fb_guarded *g)
{
    int status;
    message m = {.kind = STOP, .pid = g->pid};
    if (g->pid <= 0) return;
    if (apart.fd < 0) {
        stop_guard(g->pid);
        while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR) continue;
    } else if (!take_ended(g->pid, &status) && send_packet(apart.fd, &m, NULL, 0, -1)) {
        await(ENDED, g->pid, &m);
    }
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
