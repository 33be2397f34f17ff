/* What processes may do. The script's, call by call: every system call but the few that are allowed ends it, by any of
 * the doors that the processor has, and hostile C in its place reaches nothing. The other roles, by what they must not
 * do and by each call that their lists do not have; and what is left where a kernel has less. */
#include "config.h"

#include "base/confine.h"
#include "base/file.h"
#include "scratch.h"
#include "script/process.h"
#include "worker/protocol.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAST_CALL = 600, LET = 10, REFUSED = 11, NO_SANDBOX = 12 };

static bool is_one_of(long number, const long *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == number) return true;
    return false;
}

#ifndef FB_ASAN /* the sanitizer needs calls of its own in the script's process */
/* What a process in the sandbox comes to that asks for this. */
static int fate_of(void (*ask)(long), long what)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        fb_error err = {0};
        if (!fb_sandbox_enter(&err)) _exit(NO_SANDBOX);
        errno = 0;
        ask(what);
        _exit(errno == ENOMEM ? REFUSED : LET);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void call(long number)
{
    syscall(number, 0, 0, 0, 0, 0, 0);
}

static bool was_killed(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
}

static void every_other_call_kills(void **state)
{
    (void)state;
    /* Held here once more, apart from the list of sandbox.c: one that is added there is to be seen. */
    static const long allowed[] = {SYS_read, SYS_write, SYS_clock_gettime, SYS_exit, SYS_exit_group, SYS_brk};
    static const long refused[] = {SYS_sysinfo, SYS_mmap, SYS_mremap, SYS_munmap, SYS_madvise};
    /* uretprobe and uprobe: the kernel's own way back from its traps, which no filter sees where a kernel has them.
     * They do nothing but at the places where it put a trap. */
    static const long traps[] = {335, 336};
    int killed = 0, others = 0;
    for (long n = 0; n <= LAST_CALL; n++) {
        if (is_one_of(n, allowed, sizeof allowed / sizeof *allowed)) continue;
        if (is_one_of(n, traps, sizeof traps / sizeof *traps)) continue;
        others++;
        int status = fate_of(call, n);
        if (is_one_of(n, refused, sizeof refused / sizeof *refused)) {
            if (!WIFEXITED(status) || WEXITSTATUS(status) != REFUSED) fail_msg("call %ld: status %#x", n, status);
        } else if (!was_killed(status)) {
            fail_msg("call %ld does not kill: status %#x", n, status);
        } else {
            killed++;
        }
    }
    assert_int_equal(killed, others - (int)(sizeof refused / sizeof *refused));
}

#ifdef __x86_64__
/* The same calls under their other numbers, and through the gate of 32 bits (which a kernel may have closed). */
static void call_x32(long number)
{
    call(number | 0x40000000);
}

static void call_32(long number)
{
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(0L), "c"(0L), "d"(0L)
                     : "memory", "r8", "r9", "r10", "r11");
    errno = result < 0 ? 0 : errno;
}

static void other_doors_kill_too(void **state)
{
    (void)state;
    static const long x32[] = {SYS_getpid, SYS_read, SYS_open, SYS_socket},
                      of_32[] = {20 /* getpid */, 5 /* open */, 11};
    for (size_t i = 0; i < sizeof x32 / sizeof *x32; i++) assert_true(was_killed(fate_of(call_x32, x32[i])));
    for (size_t i = 0; i < sizeof of_32 / sizeof *of_32; i++) {
        int status = fate_of(call_32, of_32[i]);
        if (!WIFSIGNALED(status)) fail_msg("call %ld of 32 bits: status %#x", of_32[i], status);
    }
}
#endif
#endif

/* ---- roles ---- */

static char given[256], elsewhere[256], secret_file[300];

static void make_places(void)
{
    char path[300];
    snprintf(given, sizeof given, "%s", in_scratch("given"));
    snprintf(elsewhere, sizeof elsewhere, "%s", in_scratch("elsewhere"));
    mkdir(given, 0700);
    mkdir(elsewhere, 0700);
    snprintf(secret_file, sizeof secret_file, "%s/secret", elsewhere);
    assert_true(fb_write_file(secret_file, "the secret", 10, NULL));
    snprintf(path, sizeof path, "%s/mine", given);
    assert_true(fb_write_file(path, "x", 1, NULL));
}

static void remove_places(void)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s' '%s'", given, elsewhere);
    assert_int_equal(system(command), 0);
}

static const char *in_elsewhere(const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", elsewhere, name);
    return path;
}

/* What a process tries: 0, or the errno of what stopped it. */
static int outcome(long result)
{
    return result >= 0 ? 0 : errno;
}

static int try_program(void)
{
    execl("/bin/true", "true", (char *)NULL);
    return errno; /* where it may, it ends with status 0 as well */
}

static int try_process(void)
{
    pid_t child = fork();
    if (child == 0) _exit(0);
    if (child > 0) waitpid(child, NULL, 0);
    return outcome(child);
}

static void *nothing(void *ctx)
{
    return ctx;
}

static int try_thread(void)
{
    pthread_t t;
    int failed = pthread_create(&t, NULL, nothing, NULL);
    if (!failed) pthread_join(t, NULL);
    return failed;
}

static int try_network(void)
{
    return outcome(socket(AF_INET, SOCK_STREAM, 0));
}

static int try_network_6(void)
{
    return outcome(socket(AF_INET6, SOCK_DGRAM, 0));
}

static int try_packets(void)
{
    return outcome(socket(AF_PACKET, SOCK_RAW, 0));
}

static int try_local_socket(void)
{
    return outcome(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int try_ring(void)
{
    char room[256] = {0};
    return outcome(syscall(SYS_io_uring_setup, 1, room));
}

static int try_own_file(void)
{
    char path[300], other[300];
    snprintf(path, sizeof path, "%s/mine", given);
    snprintf(other, sizeof other, "%s/other", given);
    int fd = open(path, O_RDWR | O_TRUNC);
    if (fd < 0 || write(fd, "y", 1) != 1 || link(path, other) < 0 || unlink(other) < 0) return errno;
    return 0;
}

static int try_new_file(void)
{
    return outcome(open(in_elsewhere("new"), O_WRONLY | O_CREAT, 0600));
}

static int try_append(void)
{
    return outcome(open(secret_file, O_WRONLY | O_APPEND));
}

static int try_truncate(void)
{
    return outcome(truncate(secret_file, 0));
}

static int try_unlink(void)
{
    return outcome(unlink(secret_file));
}

static int try_rename(void)
{
    return outcome(rename(secret_file, in_elsewhere("moved")));
}

static int try_take(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/taken", given);
    return outcome(rename(secret_file, path));
}

static int try_folder(void)
{
    return outcome(mkdir(in_elsewhere("folder"), 0700));
}

static int try_link(void)
{
    return outcome(symlink("/etc/passwd", in_elsewhere("link")));
}

static int try_mode(void)
{
    return outcome(chmod(secret_file, 0777));
}

static int try_owner(void)
{
    return outcome(chown(secret_file, 0, 0));
}

static int try_read(void)
{
    return outcome(open(secret_file, O_RDONLY));
}

static int try_read_system(void)
{
    return outcome(open("/etc/passwd", O_RDONLY));
}

static int try_null(void)
{
    return outcome(open("/dev/null", O_WRONLY));
}

static int try_signal(void)
{
    return outcome(kill(getppid(), 0));
}

static int try_own_signal(void)
{
    return outcome(kill(getpid(), 0));
}

static int try_trace(void)
{
    return outcome(ptrace(PTRACE_SEIZE, getppid(), NULL, NULL));
}

static int try_memory(void)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {secret_file, 1};
    return outcome(process_vm_readv(getppid(), &here, 1, &there, 1, 0));
}

static int try_limits(void)
{
    struct rlimit r;
    return outcome(prlimit(getppid(), RLIMIT_CORE, NULL, &r));
}

/* Types a letter into the terminal that the test made for it. */
static int terminal = -1;

static int try_typing(void)
{
    return outcome(ioctl(terminal, TIOCSTI, "x"));
}

static int try_mount(void)
{
    return outcome(mount("none", elsewhere, "tmpfs", 0, NULL));
}

static int try_name_space(void)
{
    return outcome(unshare(CLONE_NEWUSER));
}

enum {
    R = 1 << FB_ROLE_REFERENCE,
    K = 1 << FB_ROLE_KERNELS,
    D = 1 << FB_ROLE_DRIVER,
    COMPILER = 1 << FB_ROLE_COMPILER
};

/* Who may not. by_files: Landlock stops it; where there is none, nobody does. Signals: from its version 6 on. */
typedef enum { BY_CALLS, BY_FILES, BY_SCOPE } stopped_by;

static const struct {
    const char *what;
    int (*try)(void);
    int denied;
    stopped_by by;
} attempts[] = {
    {"starts a program", try_program, R | K | D, BY_CALLS},
    {"starts a process", try_process, R | K, BY_CALLS},
    {"starts a thread", try_thread, 0, BY_CALLS},
    {"opens a socket", try_network, R | K | D | COMPILER, BY_CALLS},
    {"opens one of IPv6", try_network_6, R | K | D | COMPILER, BY_CALLS},
    {"listens to packets", try_packets, R | K | D | COMPILER, BY_CALLS},
    {"opens a local socket", try_local_socket, R | K | COMPILER, BY_CALLS},
    {"makes a ring", try_ring, R | K | D | COMPILER, BY_CALLS},
    {"writes where it was told", try_own_file, 0, BY_FILES},
    {"makes a file", try_new_file, R | K | COMPILER, BY_FILES},
    {"appends to a file", try_append, R | K | COMPILER, BY_FILES},
    {"empties a file", try_truncate, R | K | COMPILER, BY_FILES},
    {"removes a file", try_unlink, R | K | COMPILER, BY_FILES},
    {"renames a file", try_rename, R | K | COMPILER, BY_FILES},
    {"takes a file to its own", try_take, R | K | COMPILER, BY_FILES},
    {"makes a folder", try_folder, R | K | COMPILER, BY_FILES},
    {"makes a link", try_link, R | K, BY_CALLS},
    {"makes a link", try_link, COMPILER, BY_FILES},
    {"changes a mode", try_mode, R | K, BY_CALLS},
    {"changes an owner", try_owner, R | K, BY_CALLS},
    {"reads a file of the user's", try_read, COMPILER, BY_FILES},
    {"reads a file of the system's", try_read_system, 0, BY_FILES},
    {"writes to nowhere", try_null, 0, BY_FILES},
    {"signals another process", try_signal, R | K, BY_CALLS},
    {"signals another process", try_signal, COMPILER, BY_SCOPE},
    {"signals itself", try_own_signal, 0, BY_CALLS},
    {"traces another process", try_trace, R | K | COMPILER, BY_CALLS},
    {"reads another's memory", try_memory, R | K | COMPILER, BY_CALLS},
    {"asks for another's limits", try_limits, R | K, BY_CALLS},
    {"types into the terminal", try_typing, R | K | COMPILER, BY_CALLS},
    {"mounts", try_mount, R | K | COMPILER, BY_CALLS},
    {"makes a name space", try_name_space, R | K | COMPILER, BY_CALLS},
};

static unsigned take_role(fb_role role)
{
    static const char *const system[] = {"/usr", "/lib", "/lib64", "/bin", "/etc", "/proc"};
    const char *write[] = {given};
    fb_confine_places places = {.write = write, .n_write = 1, .read = system, .n_read = 6};
    return fb_confine(role, &places);
}

/* What `try` comes to in a role, or in none; above 255: the signal it ended by. */
static int in_role(int role, int (*try)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        if (role >= 0 && !(take_role((fb_role)role) & FB_HOLDS_CALLS)) _exit(255);
        _exit(try());
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static int landlock(void)
{
    return (int)syscall(444, NULL, 0, 1);
}

static bool applies(stopped_by by)
{
    return by == BY_CALLS || landlock() >= (by == BY_FILES ? 3 : 6);
}

static void each_role_may_do_what_it_needs(void **state)
{
    (void)state;
    static const int stops[] = {EPERM, EACCES, ENOSYS, EXDEV};
    terminal = posix_openpt(O_RDWR | O_NOCTTY);
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++) {
        for (int role = FB_ROLE_REFERENCE; role < FB_ROLES; role++) {
            if (!applies(attempts[i].by) || (attempts[i].denied && !(attempts[i].denied & 1 << role))) continue;
            make_places();
            int got = in_role(role, attempts[i].try);
            bool stopped = false;
            for (size_t k = 0; k < sizeof stops / sizeof *stops; k++) stopped = stopped || got == stops[k];
            if (attempts[i].denied) {
                if (!stopped) fail_msg("role %d %s: %d", role, attempts[i].what, got);
            } else if (got) {
                fail_msg("role %d cannot: %s: %s", role, attempts[i].what, strerror(got));
            }
            remove_places();
        }
    }
    close(terminal);
}

#ifdef __x86_64__
/* What these two may ask, held here once more: whatever is added to confine.c is to be seen. */
static void every_other_call_of_a_role_fails(void **state)
{
    (void)state;
    static const long may[] = {
        SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_lseek, SYS_close, SYS_close_range,
        SYS_dup, SYS_dup2, SYS_dup3, SYS_fcntl, SYS_poll, SYS_ppoll, SYS_select, SYS_pselect6, SYS_pipe, SYS_pipe2,
        SYS_sendmsg, SYS_recvmsg, SYS_sendto, SYS_recvfrom, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise,
        SYS_brk, SYS_mincore, SYS_msync, SYS_mlock, SYS_munlock, SYS_membarrier, SYS_mbind, SYS_get_mempolicy,
        SYS_set_mempolicy, SYS_memfd_create, SYS_eventfd2, SYS_futex, SYS_set_robust_list, SYS_get_robust_list,
        SYS_rseq, SYS_set_tid_address, SYS_arch_prctl, SYS_prctl, SYS_clock_gettime, SYS_clock_getres,
        SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_time, SYS_times, SYS_getrusage, SYS_getcpu,
        SYS_sysinfo, SYS_uname, SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_setaffinity, SYS_sched_getparam,
        SYS_sched_getscheduler, SYS_sched_get_priority_max, SYS_sched_get_priority_min, SYS_getpriority,
        SYS_setpriority, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending, SYS_rt_sigtimedwait,
        SYS_rt_sigsuspend, SYS_sigaltstack, SYS_restart_syscall, SYS_pause, SYS_prlimit64 /* its own */,
        SYS_clone /* a thread */, SYS_getrlimit, SYS_getpid, SYS_getppid, SYS_gettid, SYS_getpgrp, SYS_getuid,
        SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getrandom, SYS_exit, SYS_exit_group,
        /* files by name, which Landlock looks at */
        SYS_open, SYS_openat, SYS_creat, SYS_stat, SYS_lstat, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_statfs,
        SYS_fstatfs, SYS_access, SYS_faccessat, SYS_faccessat2, SYS_readlink, SYS_readlinkat, SYS_getdents64,
        SYS_getcwd, SYS_umask, SYS_unlink, SYS_unlinkat, SYS_rename, SYS_renameat, SYS_renameat2, SYS_link, SYS_linkat,
        SYS_mkdir, SYS_mkdirat, SYS_rmdir, SYS_truncate, SYS_ftruncate, SYS_fallocate, SYS_fadvise64, SYS_fsync,
        SYS_fdatasync, SYS_flock, SYS_utimensat, SYS_fchmod};
    static const long traps[] = {335, 336}; /* as above */
    static const fb_role strict[] = {FB_ROLE_REFERENCE, FB_ROLE_KERNELS};
    for (size_t r = 0; r < sizeof strict / sizeof *strict; r++) {
        int report[2], wrong[2];
        assert_int_equal(pipe(report), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            if (!(take_role(strict[r]) & FB_HOLDS_CALLS)) _exit(NO_SANDBOX);
            for (int n = 0; n <= LAST_CALL; n++) {
                if (is_one_of(n, may, sizeof may / sizeof *may) || is_one_of(n, traps, 2)) continue;
                /* arguments that no process could take for anything of its own */
                long got = syscall(n, -1, -1, -1, -1, -1, -1);
                if (got == -1 && (errno == ENOSYS || errno == EPERM)) continue;
                ssize_t ignored = write(report[1], (int[2]){n, errno}, sizeof wrong);
                (void)ignored;
            }
            _exit(0);
        }
        int status;
        close(report[1]);
        if (read(report[0], wrong, sizeof wrong) > 0)
            fail_msg("role %d: call %d: %s", strict[r], wrong[0], strerror(wrong[1]));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        close(report[0]);
    }
}
#endif

/* ---- where the kernel, or a container, has less ---- */

/* The process hears from here on that there is no such call. */
static void deny(int call, int number)
{
    scmp_filter_ctx c = seccomp_init(SCMP_ACT_ALLOW);
    if (!c || seccomp_rule_add(c, SCMP_ACT_ERRNO((uint32_t)number), call, 0) || seccomp_load(c)) _exit(NO_SANDBOX);
    seccomp_release(c);
}

static int without_filters(void)
{
    fb_error err = {0};
    char text[160];
    bool less;
    scmp_filter_ctx c = seccomp_init(SCMP_ACT_ALLOW);
    if (!c || seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(seccomp), 0) ||
        seccomp_rule_add(c, SCMP_ACT_ERRNO(EINVAL), SCMP_SYS(prctl), 1, SCMP_A0(SCMP_CMP_EQ, PR_SET_SECCOMP)) ||
        seccomp_load(c))
        return 1;
    fb_confinement_there(text, &less);
    if (!less || !strstr(text, "not system calls")) return 2;
    if (take_role(FB_ROLE_KERNELS) & FB_HOLDS_CALLS) return 3;
    if (landlock() > 1 && try_new_file() == 0) return 4; /* files are kept all the same */
    if (fb_sandbox_enter(&err)) return 5;
    return strstr(err.text, "takes no system-call filter") ? 0 : 6; /* a script is not run, then */
}

static int without_landlock(void)
{
    char text[160];
    bool less;
    deny(444, ENOSYS);
    fb_confinement_there(text, &less);
    if (!less || !strstr(text, "no Landlock")) return 1;
    if (take_role(FB_ROLE_KERNELS) != FB_HOLDS_CALLS) return 2;
    return try_network() == EPERM ? 0 : 3;
}

/* What entering says where prctl(no, …) is refused, and with `filters` every filter, too. */
static void said_without(int no, bool filters, char *to, size_t room)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        fb_error err = {0};
        scmp_filter_ctx c = seccomp_init(SCMP_ACT_ALLOW);
        int failed = seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prctl), 1, SCMP_A0(SCMP_CMP_EQ, (uint64_t)no));
        if (filters) failed |= seccomp_rule_add(c, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(seccomp), 0);
        failed |= seccomp_load(c);
        seccomp_release(c);
        bool entered = fb_sandbox_enter(&err);
        const char *text = failed ? "no filter could be set" : entered ? "entered" : err.text;
        ssize_t n = write(ends[1], text, strlen(text));
        _exit(n < 0);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], to, room - 1);
    to[n < 0 ? 0 : n] = '\0';
    close(ends[0]);
    waitpid(child, NULL, 0);
}

static void what_is_not_shut_is_not_entered(void **state)
{
    (void)state;
    char said[256];
    said_without(PR_SET_NO_NEW_PRIVS, false, said, sizeof said);
    assert_string_equal(said, "cannot give up privileges: Operation not permitted");
    said_without(PR_SET_SECCOMP, true, said, sizeof said);
    assert_non_null(strstr(said, "the kernel takes no system-call filter"));
    assert_non_null(strstr(said, "so scripts are not run"));
}

static void what_is_missing_is_left_out(void **state)
{
    (void)state;
    char text[160];
    bool less;
    make_places();
    assert_true(fb_confinement_there(text, &less) & FB_HOLDS_CALLS);
    assert_non_null(strstr(text, "system calls, network"));
    assert_int_equal(in_role(-1, without_filters), 0);
    assert_int_equal(in_role(-1, without_landlock), 0);
    remove_places();
}

#ifndef FB_ASAN
/* ---- a script's process that was taken over ---- */

/* Hostile C where the script would be, in a process that is started as the front starts it, with the sandbox entered:
 * each goes for something that the test holds, and writes what it has got of it to its only way out. */
static struct {
    int listener, pty;
    unsigned short port;
    pid_t test;
} goal;

static void tell(const char *text, ssize_t n)
{
    if (n > 0 && write(1, text, (size_t)n) < 0) _exit(1);
}

static void steal_file(void)
{
    char text[64];
    int fd = open(secret_file, O_RDONLY);
    tell(text, read(fd, text, sizeof text));
}

static void leave_file(void)
{
    int fd = open(in_elsewhere("left"), O_WRONLY | O_CREAT, 0600);
    tell("left", fd >= 0 ? 4 : 0);
}

static void use_what_was_open(void)
{
    char text[64];
    for (int fd = 3; fd < 1024; fd++) {
        tell(text, read(fd, text, sizeof text));
        if (write(fd, "x", 1) == 1) tell("wrote", 5);
    }
}

static void read_the_environment(void)
{
    const char *found = getenv("FB_TEST_SECRET");
    if (found) tell(found, (ssize_t)strlen(found));
}

static void call_home(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = goal.port, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0) tell("home", 4);
}

static void start_a_shell(void)
{
    char command[400];
    snprintf(command, sizeof command, "touch %s", in_elsewhere("left"));
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
}

static void start_a_process(void)
{
    if (fork() == 0) leave_file();
}

static void hit_the_front(void)
{
    kill(goal.test, SIGUSR1);
}

static void type_into_the_terminal(void)
{
    for (int fd = 0; fd < 3; fd++) ioctl(fd, TIOCSTI, "x");
    tell("typed", 5);
}

static void write_to_the_terminal(void)
{
    if (write(2, "\033[2J", 4) == 4) return; /* /dev/null */
    tell("wrote", 5);
}

static void open_the_terminal(void)
{
    int fd = open("/dev/tty", O_RDWR);
    tell("opened", fd >= 0 ? 6 : 0);
}

static void make_code(void)
{
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tell("mapped", at != MAP_FAILED ? 6 : 0);
}

static void (*hostile)(void);

static int taken_over(void *ctx, int in, int out)
{
    (void)ctx, (void)in, (void)out;
    fb_error err = {0};
    if (!fb_sandbox_enter(&err)) return NO_SANDBOX;
    hostile();
    return 0;
}

static volatile sig_atomic_t was_hit;

static void on_hit(int sig)
{
    (void)sig;
    was_hit = 1;
}

static void a_script_that_is_taken_over_reaches_nothing(void **state)
{
    (void)state;
    static void (*const tries[])(void) = {
        steal_file,      leave_file,    use_what_was_open,      read_the_environment,  call_home,         start_a_shell,
        start_a_process, hit_the_front, type_into_the_terminal, write_to_the_terminal, open_the_terminal, make_code};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof at;
    make_places();
    setenv("FB_TEST_SECRET", "very-secret", 1);
    signal(SIGUSR1, on_hit);
    goal.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    bool network = bind(goal.listener, (struct sockaddr *)&at, n) == 0 && listen(goal.listener, 1) == 0 &&
                   getsockname(goal.listener, (struct sockaddr *)&at, &n) == 0;
    goal.port = at.sin_port;
    goal.test = getpid();
    int open_file = open(secret_file, O_RDONLY); /* not close-on-exec: whatever the front forgot */
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        fb_child c;
        char how[80] = "", said[256];
        hostile = tries[i];
        assert_true(fb_child_start(&c, NULL, taken_over, NULL, -1, NULL));
        size_t got;
        const char *line = fb_channel_wait_line(c.channel, &got, 20000, NULL); /* NULL at its end */
        snprintf(said, sizeof said, "%s", line ? line : "");
        for (int wait = 0; wait < 20000 && !fb_child_ended(&c, how, sizeof how); wait++) usleep(1000);
        if (!strstr(how, "SIGSYS") && strcmp(how, "exited with status 0") != 0) fail_msg("%zu %s", i, how);
        bool spoke = fb_channel_bytes(c.channel, said, 1);
        fb_child_kill(&c);
        if (line || spoke) fail_msg("attempt %zu got through: %s", i, said);
    }
    close(open_file);
    assert_false(was_hit);
    assert_true(access(in_elsewhere("left"), F_OK) < 0);
    if (network) assert_true(accept(goal.listener, NULL, NULL) < 0);
    close(goal.listener);
    remove_places();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifndef FB_ASAN
        cmocka_unit_test(every_other_call_kills),
#ifdef __x86_64__
        cmocka_unit_test(other_doors_kill_too),
#endif
        cmocka_unit_test(a_script_that_is_taken_over_reaches_nothing),
#endif
        cmocka_unit_test(each_role_may_do_what_it_needs),
#ifdef __x86_64__
        cmocka_unit_test(every_other_call_of_a_role_fails),
#endif
        cmocka_unit_test(what_is_missing_is_left_out),
        cmocka_unit_test(what_is_not_shut_is_not_entered),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
