/* Preloaded into every process of a command: writes down what it does to files below TRACE_ROOT, in order, for power.c
 * to play back up to any place. A record a call: its kind, path (relative to the root), a second path or numbers,
 * bytes.
 *
 * Only fusebox's own processes are traced. What a compiler wrote appears whole, as it is linked or opened to be
 * changed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "trace.h"

static int out = -1;
static char root[4096];

#define REAL(RESULT, NAME, ...)                                                                                        \
    static RESULT (*real)(__VA_ARGS__);                                                                                \
    if (!real) {                                                                                                       \
        void *found = dlsym(RTLD_NEXT, #NAME);                                                                         \
        memcpy(&real, &found, sizeof found);                                                                           \
    }

/* The path below the root, or NULL: not ours to look at. */
static const char *below(const char *path)
{
    size_t n = strlen(root);
    return out >= 0 && strncmp(path, root, n) == 0 && path[n] == '/' ? path + n + 1 : NULL;
}

static const char *of_fd(int fd, char room[4096])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = out >= 0 ? readlink(link, room, 4095) : -1;
    if (n <= 0) return NULL;
    room[n] = '\0';
    char *gone = strstr(room, " (deleted)");
    return gone ? NULL : below(room);
}

/* A path relative to a folder's descriptor. */
static const char *at_fd(int fd, const char *path, char room[8300])
{
    char folder[4096];
    if (path[0] == '/') return below(path);
    if (fd == AT_FDCWD) {
        if (!getcwd(folder, sizeof folder)) return NULL;
        snprintf(room, 8300, "%s/%s", folder, path);
        return below(room);
    }
    const char *in = of_fd(fd, folder);
    if (!in) return NULL;
    snprintf(room, 8300, "%s/%s", in, path);
    return room;
}

static void reopen(void)
{
    REAL(int, open, const char *, int, ...)
    int fd = real(getenv("TRACE_FILE"), O_WRONLY | O_APPEND | O_CLOEXEC);
    out = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 500);
    if (fd >= 0) close(fd);
}

static void record(enum trace_kind kind, const char *path, const char *to, int64_t at, const void *bytes, int64_t n)
{
    static ssize_t (*real)(int, const struct iovec *, int);
    if (!path || out < 0) return;
    if (!real) {
        void *found = dlsym(RTLD_NEXT, "writev");
        memcpy(&real, &found, sizeof found);
    }
    if (fcntl(out, F_GETFD) < 0) reopen(); /* a process of a worker has closed all that it did not know */
    trace_record r = {
        .kind = kind, .path = (int64_t)strlen(path) + 1, .to = to ? (int64_t)strlen(to) + 1 : 0, .at = at, .n = n};
    struct iovec parts[] = {{&r, sizeof r},
                            {(void *)(uintptr_t)path, (size_t)r.path},
                            {(void *)(uintptr_t)(to ? to : ""), (size_t)r.to},
                            {(void *)(uintptr_t)bytes, bytes ? (size_t)n : 0}};
    int was = errno;
    ssize_t ignored = real(out, parts, 4);
    (void)ignored;
    errno = was;
}

/* What is there already, as somebody else wrote it. */
static void record_whole(const char *path, const char *whole)
{
    REAL(int, open, const char *, int, ...)
    struct stat st;
    int fd = path ? real(whole, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size < 1 << 24) {
        char *bytes = malloc((size_t)st.st_size + 1);
        ssize_t n = bytes ? pread(fd, bytes, (size_t)st.st_size, 0) : -1;
        if (n >= 0) record(TRACE_FOUND, path, NULL, 0, bytes, n);
        free(bytes);
    }
    if (fd >= 0) close(fd);
}

ssize_t write(int fd, const void *from, size_t n)
{
    REAL(ssize_t, write, int, const void *, size_t)
    char room[4096];
    const char *path = fd > 2 ? of_fd(fd, room) : NULL;
    off_t at = path ? lseek(fd, 0, fcntl(fd, F_GETFL) & O_APPEND ? SEEK_END : SEEK_CUR) : 0;
    ssize_t done = real(fd, from, n);
    if (done > 0) record(TRACE_WRITE, path, NULL, at, from, done);
    return done;
}

ssize_t pwrite(int fd, const void *from, size_t n, off_t at)
{
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t)
    char room[4096];
    ssize_t done = real(fd, from, n, at);
    if (done > 0) record(TRACE_WRITE, of_fd(fd, room), NULL, at, from, done);
    return done;
}

int ftruncate(int fd, off_t n)
{
    REAL(int, ftruncate, int, off_t)
    char room[4096];
    int failed = real(fd, n);
    if (!failed) record(TRACE_LENGTH, of_fd(fd, room), NULL, n, NULL, 0);
    return failed;
}

int fsync(int fd)
{
    REAL(int, fsync, int)
    char room[4096];
    int failed = real(fd);
    if (!failed) record(TRACE_SYNC, of_fd(fd, room), NULL, 0, NULL, 0);
    return failed;
}

int rename(const char *from, const char *to)
{
    REAL(int, rename, const char *, const char *)
    char a[8300], b[8300];
    const char *source = at_fd(AT_FDCWD, from, a), *target = at_fd(AT_FDCWD, to, b);
    int failed = real(from, to);
    if (!failed && target) record(TRACE_RENAME, source, target, 0, NULL, 0);
    return failed;
}

int link(const char *from, const char *to)
{
    REAL(int, link, const char *, const char *)
    char a[8300], b[8300];
    const char *source = at_fd(AT_FDCWD, from, a), *target = at_fd(AT_FDCWD, to, b);
    int failed = real(from, to);
    if (!failed && target) record(TRACE_LINK, source, target, 0, NULL, 0);
    return failed;
}

int unlink(const char *path)
{
    REAL(int, unlink, const char *)
    char room[8300];
    const char *name = at_fd(AT_FDCWD, path, room);
    int failed = real(path);
    if (!failed) record(TRACE_UNLINK, name, NULL, 0, NULL, 0);
    return failed;
}

int unlinkat(int fd, const char *path, int flags)
{
    REAL(int, unlinkat, int, const char *, int)
    char room[8300];
    const char *name = at_fd(fd, path, room);
    int failed = real(fd, path, flags);
    if (!failed && !(flags & AT_REMOVEDIR)) record(TRACE_UNLINK, name, NULL, 0, NULL, 0);
    return failed;
}

int mkdir(const char *path, mode_t mode)
{
    REAL(int, mkdir, const char *, mode_t)
    char room[8300];
    int failed = real(path, mode);
    if (!failed) record(TRACE_FOLDER, at_fd(AT_FDCWD, path, room), NULL, 0, NULL, 0);
    return failed;
}

char *mkdtemp(char *path)
{
    REAL(char *, mkdtemp, char *)
    char room[8300];
    char *made = real(path);
    if (made) record(TRACE_FOLDER, at_fd(AT_FDCWD, made, room), NULL, 0, NULL, 0);
    return made;
}

int open(const char *path, int flags, ...)
{
    REAL(int, open, const char *, int, ...)
    mode_t mode = 0;
    char room[8300];
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list ap;
        va_start(ap, flags);
        mode = va_arg(ap, mode_t);
        va_end(ap);
    }
    if (out >= 0 && (flags & O_TMPFILE) == O_TMPFILE) { /* one without a name would not be seen */
        errno = EOPNOTSUPP;
        return -1;
    }
    bool changes = (flags & O_ACCMODE) != O_RDONLY && out >= 0, there = changes && access(path, F_OK) == 0;
    int fd = real(path, flags, mode);
    if (fd < 0 || !changes) return fd;
    const char *name = at_fd(AT_FDCWD, path, room);
    if (there && !(flags & O_TRUNC))
        record_whole(name, path);
    else
        record(TRACE_MADE, name, NULL, 0, NULL, 0);
    return fd;
}

__attribute__((constructor)) static void start(void)
{
    const char *file = getenv("TRACE_FILE"), *below_this = getenv("TRACE_ROOT");
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (!file || !below_this || n <= 0) return;
    path[n] = '\0';
    const char *name = strrchr(path, '/');
    if (!name || strcmp(name + 1, "fusebox") != 0) return;
    snprintf(root, sizeof root, "%s", below_this);
    reopen();
}
