/* Files that carry a checksum (checked.h). */
#include "base/checked.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1 << 18, KEYS_MAX = 1 << 20 };

/* The last bytes of a file. */
typedef struct {
    uint64_t contents, keys; /* bytes */
    fb_hash hash;            /* of contents and keys */
    char magic[8];
} trailer;

static const char magic[8] = "fbcheck1";

/* ---- reading ---- */

/* Reads all of `n` bytes; false at the file's end too. */
static bool read_all(int fd, void *to, size_t n, uint64_t from)
{
    for (size_t got = 0; got < n;) {
        ssize_t k = pread(fd, (char *)to + got, n - got, (off_t)(from + got));
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        got += (size_t)k;
    }
    return true;
}

static bool fits(const trailer *t, uint64_t size)
{
    return memcmp(t->magic, magic, sizeof magic) == 0 && t->keys <= KEYS_MAX && t->contents <= size &&
           t->contents + t->keys + sizeof *t == size;
}

static bool has_key(const char *keys, size_t n, const char *key)
{
    size_t length = strlen(key);
    for (const char *at = keys, *end; at <= keys + n; at = end + 1) {
        end = memchr(at, '\n', (size_t)(keys + n - at));
        if (!end) end = keys + n;
        if ((size_t)(end - at) == length && memcmp(at, key, length) == 0) return true;
    }
    return false;
}

/* Everything but the hash of the contents: what `t` says fits the file, and it is kept under this key. `hasher` gets
 * the keys after the contents. */
static bool keys_match(int fd, const trailer *t, const char *key, fb_hasher *h)
{
    char *keys = fb_alloc((size_t)t->keys + 1);
    bool good = read_all(fd, keys, (size_t)t->keys, t->contents) && has_key(keys, (size_t)t->keys, key);
    if (good) fb_hasher_add(h, keys, (size_t)t->keys);
    fb_free(keys);
    return good;
}

/* By reading, not by mapping: a file that is cut while it is read is a short read, not a signal. */
static bool contents_match(int fd, const trailer *t, const char *key, void *copy)
{
    fb_hasher *h = fb_hasher_new();
    char *chunk = copy ? NULL : fb_alloc(CHUNK);
    bool good = true;
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    for (uint64_t at = 0; good && at < t->contents;) {
        size_t n = t->contents - at < CHUNK ? (size_t)(t->contents - at) : CHUNK;
        char *to = copy ? (char *)copy + at : chunk;
        good = read_all(fd, to, n, at);
        if (good) fb_hasher_add(h, to, n);
        at += n;
    }
    good = good && keys_match(fd, t, key, h);
    good = fb_hash_equal(fb_hasher_end(h), t->hash) && good;
    fb_free(chunk);
    return good;
}

/* Opens a file and reads what stands at its end. */
static fb_checked open_checked(const char *path, int *fd, trailer *t)
{
    struct stat st;
    *fd = fb_file_open(path, FB_FILE_READ, NULL);
    if (*fd < 0) return errno == EINVAL ? FB_CHECKED_DAMAGED : FB_CHECKED_ABSENT; /* EINVAL: no file at all */
    bool good = fstat(*fd, &st) == 0 && st.st_size >= (off_t)sizeof *t &&
                read_all(*fd, t, sizeof *t, (uint64_t)st.st_size - sizeof *t) && fits(t, (uint64_t)st.st_size);
    return good ? FB_CHECKED_WHOLE : FB_CHECKED_DAMAGED;
}

static fb_checked close_checked(const char *path, int fd, fb_checked how)
{
    if (how == FB_CHECKED_DAMAGED) unlink(path);
    if (fd >= 0) close(fd);
    return how;
}

fb_checked fb_checked_verify(const char *path, const char *key)
{
    int fd;
    trailer t;
    fb_checked how = open_checked(path, &fd, &t);
    if (how == FB_CHECKED_WHOLE && !contents_match(fd, &t, key, NULL)) how = FB_CHECKED_DAMAGED;
    return close_checked(path, fd, how);
}

char *fb_checked_read(const char *path, const char *key, size_t limit, size_t *n)
{
    int fd;
    trailer t;
    char *text = NULL;
    fb_checked how = open_checked(path, &fd, &t);
    if (how == FB_CHECKED_WHOLE && t.contents <= limit) {
        text = fb_alloc((size_t)t.contents + 1);
        if (!contents_match(fd, &t, key, text)) how = FB_CHECKED_DAMAGED;
    }
    close_checked(path, fd, how);
    if (text && how == FB_CHECKED_WHOLE) {
        text[t.contents] = '\0';
        if (n) *n = (size_t)t.contents;
        return text;
    }
    fb_free(text);
    return NULL;
}

/* ---- writing ---- */

static trailer trailer_of(fb_hasher *h, uint64_t contents, const char *keys)
{
    trailer t = {.contents = contents, .keys = strlen(keys)};
    fb_hasher_add(h, keys, strlen(keys));
    t.hash = fb_hasher_end(h);
    memcpy(t.magic, magic, sizeof magic);
    return t;
}

bool fb_checked_write(const char *path, const char *key, const void *bytes, size_t n, fb_error *err)
{
    fb_new_file file;
    if (!fb_new_file_begin(&file, path, FB_FILE_PRIVATE, err)) return false;
    fb_hasher *h = fb_hasher_new();
    fb_hasher_add(h, bytes, n);
    trailer t = trailer_of(h, n, key);
    if (fb_write_all(file.fd, bytes, n) && fb_write_all(file.fd, key, strlen(key)) &&
        fb_write_all(file.fd, &t, sizeof t))
        return fb_new_file_commit(&file, false, err);
    fb_fail(err, FB_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    fb_new_file_abandon(&file);
    return false;
}

bool fb_checked_seal(const char *path, const char *keys, fb_error *err)
{
    int fd = fb_file_open(path, FB_FILE_APPEND, err);
    if (fd < 0) return false;
    char *chunk = fb_alloc(CHUNK);
    fb_hasher *h = fb_hasher_new();
    uint64_t n = 0;
    ssize_t k;
    while ((k = pread(fd, chunk, CHUNK, (off_t)n)) > 0 || (k < 0 && errno == EINTR)) {
        if (k < 0) continue;
        fb_hasher_add(h, chunk, (size_t)k);
        n += (uint64_t)k;
    }
    trailer t = trailer_of(h, n, keys);
    bool good = k == 0 && fb_write_all(fd, keys, strlen(keys)) && fb_write_all(fd, &t, sizeof t);
    int why = errno;
    if (close(fd) < 0 && good) good = false, why = errno;
    fb_free(chunk);
    if (good) fb_written_add((int64_t)(n + strlen(keys) + sizeof t));
    return good || fb_fail(err, FB_ERR_SYSTEM, "%s: %s", path, strerror(why));
}
