/* Roles of processes: seccomp by libseccomp, Landlock by its raw system calls, for C libraries do not have them.
 *
 * requires  Linux; nothing more: what is not there is left out
 * provides  a process that may do what its row of `roles` says
 *
 * A role names groups of calls. Where `otherwise` is a refusal, a group lists what may be done; where it is to allow,
 * what may not. What is refused fails (ENOSYS: the C library then goes another way, or EPERM), for a library may ask in
 * passing; only a script, which has no business to ask, ends. */
#include "config.h"

#include "base/confine.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- groups of calls ---- */

typedef enum {
    ALWAYS,
    OWN,      /* its first argument is this process (or 0, which means the same) */
    A_THREAD, /* clone with CLONE_THREAD */
    A_LOOK,   /* ioctl that asks whether a descriptor is a terminal */
    PUSHES,   /* ioctl that types into a terminal */
    ABROAD,   /* socket, but a local or a kernel's one */
} when;

typedef struct {
    int call;
    when when;
} rule;

typedef struct {
    const rule *at;
    size_t n;
} group;

#define C(NAME)                                                                                                        \
    {                                                                                                                  \
        SCMP_SYS(NAME), ALWAYS                                                                                         \
    }
#define IF(NAME, WHEN)                                                                                                 \
    {                                                                                                                  \
        SCMP_SYS(NAME), WHEN                                                                                           \
    }
#define GROUP(NAME)                                                                                                    \
    {                                                                                                                  \
        NAME, sizeof NAME / sizeof *(NAME)                                                                             \
    }

static const rule script_calls[] = {
    C(read),
    C(write),
    C(clock_gettime),
    C(exit),
    C(exit_group),
#ifdef FB_COVERAGE
    C(fcntl), /* the file that tells what was run is locked while it is written */
#endif
    C(brk), /* finds no room (RLIMIT_DATA); the C library takes an error number for the new end of its heap */
#ifdef FB_ASAN
    /* What the sanitizer's own bookkeeping and reports need. */
    C(open),
    C(mmap),
    C(munmap),
    C(mprotect),
    C(madvise),
    C(mremap),
    C(sigaltstack),
    C(rt_sigaction),
    C(rt_sigprocmask),
    C(rt_sigreturn),
    C(futex),
    C(getpid),
    C(gettid),
    C(tgkill),
    C(prctl),
    C(openat),
    C(close),
    C(readlink),
    C(fstat),
    C(newfstatat),
    C(getrandom),
    C(sched_yield),
    C(ioctl),
    C(lseek),
#endif
};

/* The C library asks for these in passing (qsort, for one, how much memory there is) and lives with a no. */
static const rule script_refused[] = {
    C(sysinfo),
#ifndef FB_ASAN
    C(mmap),    C(mremap), C(munmap), C(madvise),
#endif
};

/* Memory, threads, clocks, and what it holds open. */
static const rule computing[] = {
    C(read),
    C(write),
    C(readv),
    C(writev),
    C(pread64),
    C(pwrite64),
    C(lseek),
    C(close),
    C(close_range),
    C(dup),
    C(dup2),
    C(dup3),
    C(fcntl),
    C(poll),
    C(ppoll),
    C(select),
    C(pselect6),
    C(pipe),
    C(pipe2),
    C(sendmsg), /* on the sockets that it has; it gets no others */
    C(recvmsg),
    C(sendto),
    C(recvfrom),
    C(mmap),
    C(munmap),
    C(mprotect),
    C(mremap),
    C(madvise),
    C(brk),
    C(mincore),
    C(msync),
    C(mlock),
    C(munlock),
    C(membarrier),
    C(mbind),
    C(get_mempolicy),
    C(set_mempolicy),
    C(memfd_create),
    C(eventfd2),
    C(futex),
    C(set_robust_list),
    C(get_robust_list),
    C(rseq),
    C(set_tid_address),
    C(arch_prctl),
    IF(clone, A_THREAD),
    C(prctl),
    C(clock_gettime),
    C(clock_getres),
    C(clock_nanosleep),
    C(nanosleep),
    C(gettimeofday),
    C(time),
    C(times),
    C(getrusage),
    C(getcpu),
    C(sysinfo),
    C(uname),
    C(sched_yield),
    C(sched_getaffinity),
    C(sched_setaffinity),
    C(sched_getparam),
    C(sched_getscheduler),
    C(sched_get_priority_max),
    C(sched_get_priority_min),
    C(getpriority),
    C(setpriority),
    C(rt_sigaction),
    C(rt_sigprocmask),
    C(rt_sigreturn),
    C(rt_sigpending),
    C(rt_sigtimedwait),
    C(rt_sigsuspend),
    C(sigaltstack),
    C(restart_syscall),
    C(pause),
    IF(tgkill, OWN),
    IF(kill, OWN),
    IF(prlimit64, OWN),
    C(getrlimit),
    C(getpid),
    C(getppid),
    C(gettid),
    C(getpgrp),
    C(getuid),
    C(geteuid),
    C(getgid),
    C(getegid),
    C(getrandom),
    IF(ioctl, A_LOOK),
    C(exit),
    C(exit_group),
};

/* Files by name. Which of them may be changed, Landlock says; what it does not look at (owners, modes by name, marks)
 * is not here. */
static const rule filing[] = {
    C(open),   C(openat),    C(creat),   C(stat),      C(lstat),      C(fstat),     C(newfstatat), C(statx),
    C(statfs), C(fstatfs),   C(access),  C(faccessat), C(faccessat2), C(readlink),  C(readlinkat), C(getdents64),
    C(getcwd), C(umask),     C(unlink),  C(unlinkat),  C(rename),     C(renameat),  C(renameat2),  C(link),
    C(linkat), C(mkdir),     C(mkdirat), C(rmdir),     C(truncate),   C(ftruncate), C(fallocate),  C(fadvise64),
    C(fsync),  C(fdatasync), C(flock),   C(utimensat), C(fchmod), /* of what it could open: its own folders are closed
                                                                     to others with it */
};

static const rule programs[] = {C(execve), C(execveat)};

/* io_uring makes sockets and opens files past any filter of calls. */
static const rule sockets[] = {C(socket), C(socketpair), C(io_uring_setup)};
static const rule sockets_abroad[] = {IF(socket, ABROAD), C(io_uring_setup)};

/* Other processes, their memory, and the machine. Filters that allow the rest refuse these besides. */
static const rule others[] = {
    C(ptrace),
    C(process_vm_readv),
    C(process_vm_writev),
    C(pidfd_getfd),
    C(kcmp),
    C(bpf),
    C(perf_event_open),
    C(userfaultfd),
    C(keyctl),
    C(add_key),
    C(request_key),
    C(mount),
    C(umount2),
    C(pivot_root),
    C(chroot),
    C(unshare),
    C(setns),
    C(init_module),
    C(finit_module),
    C(delete_module),
    C(kexec_load),
    C(reboot),
    C(swapon),
    C(swapoff),
    IF(ioctl, PUSHES),
};

/* ---- roles ---- */

typedef enum { ANYWHERE, AS_TOLD } reach;

/* One row says what a process may do. */
static const struct {
    uint32_t otherwise; /* what becomes of calls in no group */
    group let[2];
    uint32_t refusal; /* what becomes of those in … */
    group refuse[3];
    bool files; /* by Landlock, too */
    reach writes, reads;
} roles[FB_ROLES] = {
    [FB_ROLE_SCRIPT] = {.otherwise = SCMP_ACT_KILL_PROCESS,
                        .let = {GROUP(script_calls)},
                        .refusal = SCMP_ACT_ERRNO(ENOMEM),
                        .refuse = {GROUP(script_refused)}},
    [FB_ROLE_REFERENCE] = {.otherwise = SCMP_ACT_ERRNO(ENOSYS),
                           .let = {GROUP(computing), GROUP(filing)},
                           .refusal = SCMP_ACT_ERRNO(EPERM),
                           .refuse = {GROUP(programs), GROUP(sockets)},
                           .files = true,
                           .writes = AS_TOLD},
    [FB_ROLE_KERNELS] = {.otherwise = SCMP_ACT_ERRNO(ENOSYS),
                         .let = {GROUP(computing), GROUP(filing)},
                         .refusal = SCMP_ACT_ERRNO(EPERM),
                         .refuse = {GROUP(programs), GROUP(sockets)},
                         .files = true,
                         .writes = AS_TOLD},
    /* A driver asks for what only its makers know. */
    [FB_ROLE_DRIVER] = {.otherwise = SCMP_ACT_ALLOW,
                        .refusal = SCMP_ACT_ERRNO(EPERM),
                        .refuse = {GROUP(programs), GROUP(sockets_abroad)}},
    [FB_ROLE_COMPILER] = {.otherwise = SCMP_ACT_ALLOW,
                          .refusal = SCMP_ACT_ERRNO(EPERM),
                          .refuse = {GROUP(sockets), GROUP(others)},
                          .files = true,
                          .writes = AS_TOLD,
                          .reads = AS_TOLD},
};

struct fb_confinement {
    fb_role role;
    bool off; /* the user said so */
    fb_confine_places places;
    struct sock_fprog filter; /* len 0: none could be made */
};

/* ---- system calls ---- */

static int add_one(scmp_filter_ctx c, uint32_t what, int call, struct scmp_arg_cmp cmp)
{
    int failed = seccomp_rule_add_array(c, what, call, 1, &cmp);
    return failed == -EEXIST ? 0 : failed;
}

static int add_rule(scmp_filter_ctx c, uint32_t what, rule r)
{
    int failed = 0;
    switch (r.when) {
    case ALWAYS: return seccomp_rule_add(c, what, r.call, 0);
    case OWN:
        failed = add_one(c, what, r.call, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
        return failed ? failed : r.call == SCMP_SYS(prlimit64) ? add_one(c, what, r.call, SCMP_A0(SCMP_CMP_EQ, 0)) : 0;
    case A_THREAD: return add_one(c, what, r.call, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
    case A_LOOK: return add_one(c, what, r.call, SCMP_A1(SCMP_CMP_EQ, TCGETS));
    case PUSHES: return add_one(c, what, r.call, SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffff, TIOCSTI));
    case ABROAD:
        for (int domain = 0; domain < AF_MAX && !failed; domain++)
            if (domain != AF_UNIX && domain != AF_NETLINK)
                failed = add_one(c, what, r.call, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)domain));
        return failed;
    }
    return 0;
}

static int add_groups(scmp_filter_ctx c, uint32_t what, const group *groups, size_t n)
{
    int failed = 0;
    for (size_t g = 0; g < n; g++)
        for (size_t i = 0; i < groups[g].n && !failed; i++) failed = add_rule(c, what, groups[g].at[i]);
    return failed;
}

/* A filter that starts from allowing is for programs of others, which may be of the older kind. */
static int add_architectures(scmp_filter_ctx c)
{
    int failed = 0;
#ifdef __x86_64__
    failed = seccomp_arch_add(c, SCMP_ARCH_X86);
    if (!failed || failed == -EEXIST) failed = seccomp_arch_add(c, SCMP_ARCH_X32);
#elif defined __aarch64__
    failed = seccomp_arch_add(c, SCMP_ARCH_ARM);
#else
    (void)c;
#endif
    return failed == -EEXIST ? 0 : failed;
}

/* The program that libseccomp would load. It is loaded later, where nothing may allocate. */
static int take_program(scmp_filter_ctx c, struct sock_fprog *out)
{
    struct stat st;
    int fd = memfd_create("filter", MFD_CLOEXEC), failed = fd < 0 ? -errno : seccomp_export_bpf(c, fd);
    if (!failed && fstat(fd, &st) < 0) failed = -errno;
    if (!failed) {
        size_t n = (size_t)st.st_size;
        out->filter = fb_alloc(n + 1);
        out->len = (unsigned short)(n / sizeof *out->filter);
        if (pread(fd, out->filter, n, 0) != (ssize_t)n) {
            fb_free(out->filter);
            *out = (struct sock_fprog){0};
            failed = -EIO;
        }
    }
    if (fd >= 0) close(fd);
    return failed;
}

static bool make_filter(fb_confinement *to, fb_error *err)
{
    enum { LET = sizeof roles->let / sizeof *roles->let, REFUSE = sizeof roles->refuse / sizeof *roles->refuse };
    fb_role role = to->role;
    scmp_filter_ctx c = seccomp_init(roles[role].otherwise);
    int failed = c ? 0 : -ENOMEM;
    if (!failed && roles[role].otherwise == SCMP_ACT_ALLOW) failed = add_architectures(c);
    if (!failed) failed = add_groups(c, SCMP_ACT_ALLOW, roles[role].let, LET);
    if (!failed) failed = add_groups(c, roles[role].refusal, roles[role].refuse, REFUSE);
    if (!failed) failed = take_program(c, &to->filter);
    if (c) seccomp_release(c);
    return !failed || fb_fail(err, FB_ERR_UNAVAILABLE, "no filter of system calls can be made: %s", strerror(-failed));
}

/* For all threads where there are some; a kernel that refuses the flag has one at most of ours. */
static bool enter_filter(const struct sock_fprog *filter)
{
    if (!filter->len) return false;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, filter) == 0 ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter) == 0;
}

/* ---- files: Landlock ---- */

enum {
    LANDLOCK_CREATE = 444, /* the numbers are the same on all processors */
    LANDLOCK_ADD = 445,
    LANDLOCK_ENTER = 446,
    LANDLOCK_VERSION = 1, /* the flag that asks for it */
    LANDLOCK_BENEATH = 1,
    LEAST_VERSION = 2, /* the first one kept every file in its folder: compiled kernels could not get their names */
};

/* Rights, as in the kernel's interface. */
#define MAY_EXECUTE                (1ull << 0)
#define MAY_WRITE_FILE             (1ull << 1)
#define MAY_READ                   (1ull << 2 | 1ull << 3)
#define MAY_CHANGE_FOLDERS         0x1ff0ull /* remove and make what there is */
#define MAY_MOVE                   (1ull << 13)
#define MAY_TRUNCATE               (1ull << 14) /* from version 3 */
#define MAY_ASK_DEVICES            (1ull << 15) /* from 5 */
#define MAY_TCP                    3ull         /* from 4: bind, connect */
#define OTHERS_SOCKETS_AND_SIGNALS 3ull         /* from 6 */

#define MAY_ON_FILES (MAY_EXECUTE | MAY_WRITE_FILE | 1ull << 2 | MAY_TRUNCATE | MAY_ASK_DEVICES)

typedef struct {
    uint64_t files, net, scoped;
} ruleset;

typedef struct {
    uint64_t may;
    int32_t at;
} __attribute__((packed)) beneath;

static int landlock_version(void)
{
    long version = syscall(LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION);
    return version < LEAST_VERSION ? 0 : (int)version;
}

static void allow(int rules, const char *path, uint64_t may)
{
    struct stat st;
    beneath b = {.may = may, .at = open(path, O_PATH | O_CLOEXEC)};
    if (b.at >= 0 && fstat(b.at, &st) == 0) {
        if (!S_ISDIR(st.st_mode)) b.may &= MAY_ON_FILES;
        syscall(LANDLOCK_ADD, rules, LANDLOCK_BENEATH, &b, 0);
    }
    if (b.at >= 0) close(b.at);
}

static bool enter_files(const fb_confinement *c)
{
    static const char *const sinks[] = {"/dev/null", "/dev/full", "/dev/zero"};
    int version = landlock_version();
    if (!version) return false;
    bool reads = roles[c->role].reads == AS_TOLD;
    uint64_t changes = MAY_WRITE_FILE | MAY_CHANGE_FOLDERS | MAY_MOVE | (version >= 3 ? MAY_TRUNCATE : 0);
    uint64_t looks = reads ? MAY_READ | MAY_EXECUTE : 0;
    ruleset r = {.files = changes | looks | (version >= 5 ? MAY_ASK_DEVICES : 0),
                 .net = version >= 4 ? MAY_TCP : 0,
                 .scoped = version >= 6 ? OTHERS_SOCKETS_AND_SIGNALS : 0};
    size_t size = version >= 6 ? sizeof r : version >= 4 ? 2 * sizeof r.files : sizeof r.files;
    int rules = (int)syscall(LANDLOCK_CREATE, &r, size, 0);
    if (rules < 0) return false;
    for (int i = 0; i < c->places.n_write; i++) allow(rules, c->places.write[i], changes | looks);
    for (int i = 0; i < c->places.n_read && reads; i++) allow(rules, c->places.read[i], looks);
    for (size_t i = 0; i < sizeof sinks / sizeof *sinks; i++)
        allow(rules, sinks[i], (changes | looks) & (MAY_WRITE_FILE | MAY_READ | MAY_TRUNCATE));
    bool entered = syscall(LANDLOCK_ENTER, rules, 0) == 0;
    close(rules);
    return entered;
}

/* ---- both ---- */

fb_confinement *fb_confine_prepare(fb_role role, const fb_confine_places *places, fb_error *err)
{
    fb_confinement *c = fb_calloc(1, sizeof *c);
    c->role = role;
    if (places) c->places = *places;
    const char *asked = getenv("FUSEBOX_CONFINE");
    c->off = role != FB_ROLE_SCRIPT && asked && strcmp(asked, "no") == 0;
#ifdef FB_COVERAGE
    c->off = role != FB_ROLE_SCRIPT; /* each process writes what it ran */
#endif
    if (!c->off) make_filter(c, err);
    return c;
}

unsigned fb_confine_enter(const fb_confinement *c)
{
    unsigned holds = 0;
    if (c->off) return 0;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return 0;
    if (roles[c->role].files && enter_files(c))
        holds |= FB_HOLDS_FILES; /* before: the filter does not let it be asked */
    if (enter_filter(&c->filter)) holds |= FB_HOLDS_CALLS;
    return holds;
}

void fb_confine_free(fb_confinement *c)
{
    if (!c) return;
    fb_free(c->filter.filter);
    fb_free(c);
}

unsigned fb_confine(fb_role role, const fb_confine_places *places)
{
    fb_confinement *c = fb_confine_prepare(role, places, NULL);
    unsigned holds = fb_confine_enter(c);
    fb_confine_free(c);
    return holds;
}

unsigned fb_confinement_there(char text[160], bool *missing)
{
    uint32_t act = SECCOMP_RET_KILL_PROCESS;
    bool calls = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &act) == 0;
    int version = landlock_version();
    char files[64] = "not files: the kernel has no Landlock";
    if (version) snprintf(files, sizeof files, "files (Landlock %d)", version);
    snprintf(text, 160, "%s, %s",
             calls ? "system calls, network" : "not system calls: the kernel takes no filter of them", files);
    if (missing) *missing = !calls || !version;
    return (calls ? FB_HOLDS_CALLS : 0u) | (version ? FB_HOLDS_FILES : 0u);
}
