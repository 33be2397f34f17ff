/* Preloaded into every process of a command: lets the nth call of one kind fail, once (tests/cli/faults.sh).
 *
 *     FAULT=KIND      read, write, sync, rename, map, open, alloc, fork, pipe
 *     FAULT_AT=N      so many calls go well before
 *     FAULT_FILE=F    8 bytes that all processes of the command share, 0 at first: the calls of that kind so far
 *     FAULT_TRACE=F   where it was, to be looked at with addr2line
 *
 * Calls are counted in fusebox's own processes alone, not in compilers and shells, and from where main begins. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { READ, WRITE, SYNC, RENAME, MAP, OPEN, ALLOC, FORK, PIPE, KINDS };
static const char *const names[KINDS] = {"read", "write", "sync", "rename", "map", "open", "alloc", "fork", "pipe"};

static enum kind kind = KINDS;
static int64_t at;
static _Atomic int64_t *calls; /* NULL: nothing is counted */

static int trace = -1;

static int fails(enum kind k)
{
    void *frames[24];
    if (!calls || k != kind || atomic_fetch_add(calls, 1) != at) return 0;
    if (trace >= 0) backtrace_symbols_fd(frames, backtrace(frames, 24), trace);
    return 1;
}

#define REAL(RESULT, NAME, ...)                                                                                        \
    static RESULT (*real)(__VA_ARGS__);                                                                                \
    if (!real) {                                                                                                       \
        void *found = dlsym(RTLD_NEXT, #NAME);                                                                         \
        memcpy(&real, &found, sizeof found);                                                                           \
    }

#define FAIL(K, WHY, RESULT)                                                                                           \
    if (fails(K)) {                                                                                                    \
        errno = WHY;                                                                                                   \
        return RESULT;                                                                                                 \
    }

ssize_t read(int fd, void *to, size_t n)
{
    REAL(ssize_t, read, int, void *, size_t)
    FAIL(READ, EIO, -1)
    return real(fd, to, n);
}

ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    REAL(ssize_t, pread, int, void *, size_t, off_t)
    FAIL(READ, EIO, -1)
    return real(fd, to, n, at);
}

ssize_t write(int fd, const void *from, size_t n)
{
    REAL(ssize_t, write, int, const void *, size_t)
    FAIL(WRITE, ENOSPC, -1)
    return real(fd, from, n);
}

ssize_t pwrite(int fd, const void *from, size_t n, off_t at)
{
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t)
    FAIL(WRITE, ENOSPC, -1)
    return real(fd, from, n, at);
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
    REAL(ssize_t, writev, int, const struct iovec *, int)
    FAIL(WRITE, ENOSPC, -1)
    return real(fd, v, n);
}

int fsync(int fd)
{
    REAL(int, fsync, int)
    FAIL(SYNC, EIO, -1)
    return real(fd);
}

int fdatasync(int fd)
{
    REAL(int, fdatasync, int)
    FAIL(SYNC, EIO, -1)
    return real(fd);
}

int ftruncate(int fd, off_t n)
{
    REAL(int, ftruncate, int, off_t)
    FAIL(WRITE, ENOSPC, -1)
    return real(fd, n);
}

int rename(const char *from, const char *to)
{
    REAL(int, rename, const char *, const char *)
    FAIL(RENAME, EIO, -1)
    return real(from, to);
}

void *mmap(void *where, size_t n, int protection, int flags, int fd, off_t from)
{
    REAL(void *, mmap, void *, size_t, int, int, int, off_t)
    FAIL(MAP, ENOMEM, MAP_FAILED)
    return real(where, n, protection, flags, fd, from);
}

#define OPEN_MODE                                                                                                      \
    mode_t mode = 0;                                                                                                   \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                                               \
        va_list ap;                                                                                                    \
        va_start(ap, flags);                                                                                           \
        mode = va_arg(ap, mode_t);                                                                                     \
        va_end(ap);                                                                                                    \
    }

int open(const char *path, int flags, ...)
{
    REAL(int, open, const char *, int, ...)
    OPEN_MODE
    FAIL(OPEN, EMFILE, -1)
    return real(path, flags, mode);
}

int openat(int at, const char *path, int flags, ...)
{
    REAL(int, openat, int, const char *, int, ...)
    OPEN_MODE
    FAIL(OPEN, EMFILE, -1)
    return real(at, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    REAL(FILE *, fopen, const char *, const char *)
    FAIL(OPEN, EMFILE, NULL)
    return real(path, mode);
}

pid_t fork(void)
{
    REAL(pid_t, fork, void)
    FAIL(FORK, EAGAIN, -1)
    return real();
}

int pipe(int ends[2])
{
    REAL(int, pipe, int *)
    FAIL(PIPE, EMFILE, -1)
    return real(ends);
}

int pipe2(int ends[2], int flags)
{
    REAL(int, pipe2, int *, int)
    FAIL(PIPE, EMFILE, -1)
    return real(ends, flags);
}

/* dlsym itself allocates: these go by the C library's own names. */
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *at, size_t n);

void *malloc(size_t n)
{
    FAIL(ALLOC, ENOMEM, NULL)
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    FAIL(ALLOC, ENOMEM, NULL)
    return __libc_calloc(n, size);
}

void *realloc(void *at, size_t n)
{
    FAIL(ALLOC, ENOMEM, NULL)
    return __libc_realloc(at, n);
}

static int is_fusebox(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0) return 0;
    path[n] = '\0';
    const char *name = strrchr(path, '/');
    return name && strcmp(name + 1, "fusebox") == 0;
}

__attribute__((constructor)) static void start(void)
{
    const char *which = getenv("FAULT"), *file = getenv("FAULT_FILE"), *number = getenv("FAULT_AT");
    if (!which || !file || !number || !is_fusebox()) return;
    at = strtoll(number, NULL, 10);
    int fd = open(file, O_RDWR | O_CLOEXEC);
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    if (getenv("FAULT_TRACE")) trace = open(getenv("FAULT_TRACE"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (map == MAP_FAILED) return;
    for (int k = 0; k < KINDS; k++)
        if (strcmp(names[k], which) == 0) kind = (enum kind)k;
    calls = map;
}
