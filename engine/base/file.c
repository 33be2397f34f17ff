/* Opening, reading and writing files (file.h).
 *
 * A file is opened without waiting (O_NONBLOCK) and looked at before it is used; the check is of what was opened, not
 * of a name that may change meanwhile. */
#include "base/file.h"

#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(off_t) == 8, "files may be longer than 32 bits can say: configure asks for that");

static bool writes(unsigned use)
{
    return use & (FB_FILE_WRITE | FB_FILE_APPEND | FB_FILE_UPDATE);
}

static fb_error_kind kind_of(unsigned use)
{
    return writes(use) ? FB_ERR_SYSTEM : FB_ERR_INPUT;
}

bool fb_file_check(int fd, const char *path, unsigned use, fb_error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0) return fb_fail(err, kind_of(use), "%s: %s", path, strerror(errno));
    bool device = writes(use) && !(use & FB_FILE_PRIVATE) && S_ISCHR(st.st_mode);
    if (!S_ISREG(st.st_mode) && !device) return fb_fail(err, kind_of(use), "%s: not a regular file", path);
    if (!(use & FB_FILE_PRIVATE)) return true;
    if (st.st_uid != geteuid())
        return fb_fail(err, kind_of(use), "%s: belongs to another user, so it is not used", path);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return fb_fail(err, kind_of(use), "%s: others may write to it, so it is not used (chmod 600)", path);
    return true;
}

static int flags_of(unsigned use)
{
    int flags = use & FB_FILE_WRITE    ? O_WRONLY | O_CREAT
                : use & FB_FILE_APPEND ? O_RDWR | O_CREAT | O_APPEND
                : use & FB_FILE_UPDATE ? O_RDWR | O_CREAT
                                       : O_RDONLY;
    if (use & FB_FILE_NEW) flags |= O_CREAT | O_EXCL;
    if (use & FB_FILE_PRIVATE) flags |= O_NOFOLLOW;
    return flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
}

/* What stands in a pipe's or a terminal's place is not emptied before it is known to be a file. */
int fb_file_open(const char *path, unsigned use, fb_error *err)
{
    int fd = open(path, flags_of(use), use & FB_FILE_PRIVATE ? 0600 : 0666);
    if (fd < 0) {
        const char *why = errno == ENXIO                                   ? "not a regular file"
                          : errno == ELOOP && (use & FB_FILE_PRIVATE) != 0 ? "a link, so it is not used"
                                                                           : strerror(errno);
        fb_fail(err, kind_of(use), "%s: %s", path, why);
        return -1;
    }
    int flags;
    bool fine = fb_file_check(fd, path, use, err);
    if (fine && (use & FB_FILE_PRIVATE) && (use & FB_FILE_NEW)) fine = fchmod(fd, 0600) == 0;
    if (fine && (use & FB_FILE_WRITE) && ftruncate(fd, 0) < 0 && errno != EINVAL)
        fine = fb_fail(err, FB_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    if (fine && (flags = fcntl(fd, F_GETFL)) >= 0) fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    if (fine) return fd;
    close(fd);
    errno = EINVAL; /* of the wrong kind */
    return -1;
}

FILE *fb_file_stream(const char *path, unsigned use, fb_error *err)
{
    int fd = fb_file_open(path, use, err);
    if (fd < 0) return NULL;
    FILE *f = fdopen(fd, use & FB_FILE_WRITE ? "w" : use & FB_FILE_APPEND ? "a+" : "r");
    if (f) return f;
    fb_fail(err, FB_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    close(fd);
    return NULL;
}

/* ---- reading ---- */

static char *read_whole(const char *path, unsigned use, size_t limit, size_t *n, fb_error *err)
{
    int fd = fb_file_open(path, use, err);
    struct stat st;
    char *text = NULL;
    if (fd < 0) return NULL;
    if (fstat(fd, &st) < 0) {
        fb_fail(err, FB_ERR_INPUT, "%s: %s", path, strerror(errno));
    } else if ((uint64_t)st.st_size > limit) {
        fb_fail(err, FB_ERR_LIMIT, "%s: %lld bytes is more than the limit of %zu", path, (long long)st.st_size, limit);
    } else {
        text = fb_alloc((size_t)st.st_size + 1);
        size_t got = 0;
        ssize_t k = 0;
        while (got < (size_t)st.st_size) {
            k = read(fd, text + got, (size_t)st.st_size - got);
            if (k < 0 && errno == EINTR) continue;
            if (k <= 0) break;
            got += (size_t)k;
        }
        text[got] = '\0';
        if (n) *n = got;
        if (k < 0) {
            fb_fail(err, FB_ERR_INPUT, "%s: %s", path, strerror(errno));
            fb_free(text);
            text = NULL;
        }
    }
    close(fd);
    return text;
}

char *fb_read_file(const char *path, size_t limit, size_t *n, fb_error *err)
{
    return read_whole(path, FB_FILE_READ, limit, n, err);
}

char *fb_read_private_file(const char *path, size_t limit, size_t *n, fb_error *err)
{
    return read_whole(path, FB_FILE_READ | FB_FILE_PRIVATE, limit, n, err);
}

/* ---- writing ---- */

bool fb_write_all(int fd, const void *bytes, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = write(fd, (const char *)bytes + done, n - done);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return false;
        done += (size_t)k;
    }
    return true;
}

struct fb_written {
    _Atomic int64_t bytes;
};

static fb_written *written_here;

fb_written *fb_written_new(void)
{
    void *page = mmap(NULL, sizeof(fb_written), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? NULL : page;
}

void fb_written_count(fb_written *page)
{
    written_here = page;
}

void fb_written_add(int64_t bytes)
{
    if (written_here) atomic_fetch_add(&written_here->bytes, bytes);
}

int64_t fb_written_take(fb_written *page)
{
    return page ? atomic_exchange(&page->bytes, 0) : 0;
}

/* A file without a name, which goes with the process whatever ends that; -1 where the folder's system has none. */
static int open_nameless(const char *path, unsigned use)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    if (access("/proc/self/fd", X_OK) < 0) return -1; /* it would never get one */
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    int fd = open(folder[0] ? folder : "/", O_TMPFILE | O_RDWR | O_CLOEXEC, use & FB_FILE_PRIVATE ? 0600 : 0666);
    if (fd >= 0 && (use & FB_FILE_PRIVATE)) fchmod(fd, 0600); /* under any umask */
    return fd;
}

bool fb_new_file_begin(fb_new_file *f, const char *path, unsigned use, fb_error *err)
{
    static atomic_uint number; /* besides the process: two threads may write the same file */
    *f = (fb_new_file){.fd = -1};
    bool fits = snprintf(f->path, sizeof f->path, "%s", path) < (int)sizeof f->path - 32;
    if (!fits) return fb_fail(err, FB_ERR_SYSTEM, "%s: the path is too long", path);
    snprintf(f->temporary, sizeof f->temporary, "%s.%d.%u.tmp", path, (int)getpid(), atomic_fetch_add(&number, 1));
    unlink(f->temporary); /* of a process of that number which is long dead */
    f->fd = open_nameless(path, use);
    f->nameless = f->fd >= 0;
    if (!f->nameless) f->fd = fb_file_open(f->temporary, FB_FILE_UPDATE | FB_FILE_NEW | use, err);
    if (f->fd >= 0) return true;
    if (err) fb_fail(err, FB_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    return false;
}

bool fb_new_file_commit(fb_new_file *f, bool durable, fb_error *err)
{
    struct stat st;
    int64_t bytes = fstat(f->fd, &st) == 0 ? (int64_t)st.st_size : 0;
    char own[64];
    int why = 0;
    if (durable && fsync(f->fd) < 0) why = errno;
    snprintf(own, sizeof own, "/proc/self/fd/%d", f->fd);
    if (f->nameless && !why && linkat(AT_FDCWD, own, AT_FDCWD, f->temporary, AT_SYMLINK_FOLLOW) < 0) why = errno;
    if (close(f->fd) < 0 && !why) why = errno;
    f->fd = -1;
    if (!why && rename(f->temporary, f->path) < 0) why = errno;
    if (!why) fb_written_add(bytes);
    if (!why) return true;
    unlink(f->temporary);
    return fb_fail(err, FB_ERR_SYSTEM, "%s: %s", f->path, strerror(why));
}

void fb_new_file_abandon(fb_new_file *f)
{
    if (f->fd < 0) return;
    close(f->fd);
    unlink(f->temporary);
    f->fd = -1;
}

static bool write_in_place(const char *path, const void *bytes, size_t n, fb_error *err)
{
    int fd = fb_file_open(path, FB_FILE_WRITE, err);
    if (fd < 0) return false;
    int why = fb_write_all(fd, bytes, n) ? 0 : errno;
    if (close(fd) < 0 && !why) why = errno;
    return !why || fb_fail(err, FB_ERR_SYSTEM, "%s: %s", path, strerror(why));
}

bool fb_write_file(const char *path, const void *bytes, size_t n, fb_error *err)
{
    fb_new_file f;
    struct stat st;
    /* a device is not replaced by a file, and a pipe or folder in the way is refused in its own words */
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) return write_in_place(path, bytes, n, err);
    bool replaces = access(path, F_OK) == 0; /* what stood there must not go when the power does */
    if (!fb_new_file_begin(&f, path, 0, err)) return false;
    if (fb_write_all(f.fd, bytes, n)) return fb_new_file_commit(&f, replaces, err);
    fb_fail(err, FB_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    fb_new_file_abandon(&f);
    return false;
}

bool fb_file_append(const char *path, unsigned use, const char *line, fb_error *err)
{
    struct stat st;
    char last = '\n';
    int fd = fb_file_open(path, FB_FILE_APPEND | use, err);
    if (fd < 0) return false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && pread(fd, &last, 1, st.st_size - 1) != 1)
        last = '\n';
    fb_str text = {0};
    fb_str_addf(&text, "%s%s\n", last == '\n' ? "" : "\n", line);
    ssize_t done = write(fd, text.text, text.n);
    int why = done < 0 ? errno : ENOSPC;
    bool whole = done == (ssize_t)text.n;
    fb_str_free(&text);
    if (close(fd) < 0 && whole) whole = false, why = errno;
    return whole || fb_fail(err, FB_ERR_SYSTEM, "%s: %s", path, strerror(why));
}

/* ---- folders ---- */

/* Where a container maps one user alone, the system's own folders show as nobody's. */
static bool is_the_systems(uid_t uid)
{
    enum { NOBODY = 65534 };
    char map[64] = "";
    if (uid != NOBODY) return uid == 0;
    int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, map, sizeof map - 1) : 0;
    unsigned first = 0, outside = 0, count = 0;
    if (fd >= 0) close(fd);
    return n > 0 && sscanf(map, "%u %u %u", &first, &outside, &count) == 3 && count != UINT32_MAX;
}

/* Whoever may write to a folder may put another in the place of one below it, unless it is sticky as /tmp is. */
static bool safe_above(const char *path, fb_error *err)
{
    struct stat status, *st = &status;
    if (stat(path, st) < 0) return fb_fail(err, FB_ERR_SYSTEM, "the folder %s: %s", path, strerror(errno));
    if (st->st_uid != geteuid() && !is_the_systems(st->st_uid))
        return fb_fail(err, FB_ERR_UNAVAILABLE, "%s belongs to another user: nothing below it is used", path);
    if ((st->st_mode & (S_IWGRP | S_IWOTH)) && !(st->st_mode & S_ISVTX))
        return fb_fail(err, FB_ERR_UNAVAILABLE, "others may write to %s: nothing below it is used (chmod go-w)", path);
    return true;
}

/* `named`: by the path that was given, and so a folder for nothing else; what a link leads to keeps its mode. */
static bool is_ours(const char *path, bool named, fb_error *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int why = errno;
        if (fd >= 0) close(fd);
        return fb_fail(err, FB_ERR_SYSTEM, "the folder %s cannot be used: %s", path, strerror(why));
    }
    bool fine = true;
    if (st.st_uid != geteuid())
        fine = fb_fail(err, FB_ERR_UNAVAILABLE, "the folder %s belongs to another user, so it is not used", path);
    else if (st.st_mode & (S_IWGRP | S_IWOTH))
        fine = fb_fail(err, FB_ERR_UNAVAILABLE,
                       "others may write to the folder %s, so it is not used (remove it, or chmod 700)", path);
    else if (named && (st.st_mode & 0777) != 0700 && fchmod(fd, 0700) < 0)
        fine = fb_fail(err, FB_ERR_SYSTEM, "the folder %s cannot be closed to others: %s", path, strerror(errno));
    close(fd);
    return fine;
}

static bool make_one(const char *path, fb_error *err)
{
    if (mkdir(path, 0700) == 0)
        return chmod(path, 0700) == 0 || fb_fail(err, FB_ERR_SYSTEM, "the folder %s: %s", path, strerror(errno));
    int why = errno;
    struct stat st;
    if (why == EEXIST || (stat(path, &st) == 0 && S_ISDIR(st.st_mode))) return true;
    return fb_fail(err, FB_ERR_SYSTEM, "the folder %s cannot be made: %s", path, strerror(why));
}

/* Does to every folder above `path`, from the top. */
static bool all_above(const char *path, bool (*step)(const char *folder, fb_error *err), fb_error *err)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = part + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        if (!step(part, err)) return false;
    }
    return true;
}

/* Both ways to it are looked at: as it is named, and as it lies where links lead. */
bool fb_private_folder(const char *path, fb_error *err)
{
    char real[PATH_MAX];
    struct stat st;
    if (path[0] != '/' || strlen(path) >= PATH_MAX)
        return fb_fail(err, FB_ERR_SYSTEM, "the folder %s: not an absolute path that fits", path);
    if (!all_above(path, make_one, err) || !make_one(path, err)) return false;
    if (!realpath(path, real)) return fb_fail(err, FB_ERR_SYSTEM, "the folder %s: %s", path, strerror(errno));
    return all_above(path, safe_above, err) && all_above(real, safe_above, err) &&
           is_ours(real, lstat(path, &st) == 0 && S_ISDIR(st.st_mode), err);
}

bool fb_make_folder(const char *path, fb_error *err)
{
    struct stat st;
    if (mkdir(path, 0777) == 0) return true;
    int why = errno;
    if (why == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return true;
    return fb_fail(err, FB_ERR_SYSTEM, "%s: %s", path, strerror(why == EEXIST ? ENOTDIR : why));
}
