/* Files that carry a checksum (checked.h). */
#include "base/checked.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
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

fb_checked fb_checked_map_file(const char *path, const char *key, fb_checked_map *out)
{
    int fd;
    trailer t;
    *out = (fb_checked_map){0};
    fb_checked how = open_checked(path, &fd, &t);
    if (how == FB_CHECKED_WHOLE) {
        size_t size = (size_t)(t.contents + t.keys) + sizeof t;
        void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED) {
            close(fd);
            return FB_CHECKED_ABSENT; /* memory ran out: that is not the file's fault */
        }
        madvise(map, size, MADV_SEQUENTIAL);
        *out = (fb_checked_map){.at = map, .n = (size_t)t.contents, .mapped = size};
        fb_hasher *h = fb_hasher_new();
        fb_hasher_add(h, map, (size_t)(t.contents + t.keys));
        bool good = has_key((const char *)map + t.contents, (size_t)t.keys, key);
        good = fb_hash_equal(fb_hasher_end(h), t.hash) && good;
        madvise(map, size, MADV_NORMAL);
        if (!good) {
            fb_checked_unmap(out);
            how = FB_CHECKED_DAMAGED;
        }
    }
    return close_checked(path, fd, how);
}

void fb_checked_unmap(fb_checked_map *map)
{
    if (map->at) munmap((void *)map->at, map->mapped);
    *map = (fb_checked_map){0};
}

/* ---- writing ---- */

bool fb_checked_begin(fb_checked_writer *w, const char *path, fb_error *err)
{
    *w = (fb_checked_writer){0};
    if (!fb_new_file_begin(&w->file, path, FB_FILE_PRIVATE, err)) return false;
    w->hasher = fb_hasher_new();
    return true;
}

void fb_checked_add(fb_checked_writer *w, const void *bytes, size_t n)
{
    if (w->why) return;
    if (!fb_write_all(w->file.fd, bytes, n)) w->why = errno;
    fb_hasher_add(w->hasher, bytes, n);
    w->n += n;
}

void fb_checked_abandon(fb_checked_writer *w)
{
    if (w->hasher) fb_hasher_end(w->hasher);
    w->hasher = NULL;
    fb_new_file_abandon(&w->file);
}

static trailer trailer_of(fb_hasher *h, uint64_t contents, const char *keys)
{
    trailer t = {.contents = contents, .keys = strlen(keys)};
    fb_hasher_add(h, keys, strlen(keys));
    t.hash = fb_hasher_end(h);
    memcpy(t.magic, magic, sizeof magic);
    return t;
}

static bool finish(fb_checked_writer *w, const char *keys, bool durable, fb_error *err)
{
    trailer t = trailer_of(w->hasher, w->n, keys);
    w->hasher = NULL;
    if (!w->why && (!fb_write_all(w->file.fd, keys, strlen(keys)) || !fb_write_all(w->file.fd, &t, sizeof t)))
        w->why = errno;
    if (!w->why) return fb_new_file_commit(&w->file, durable, err);
    fb_fail(err, FB_ERR_SYSTEM, "%s: %s", w->file.path, strerror(w->why));
    fb_new_file_abandon(&w->file);
    return false;
}

bool fb_checked_end(fb_checked_writer *w, const char *keys, fb_error *err)
{
    return finish(w, keys, true, err);
}

/* Not waited for until it is on the disk: a small file is made again sooner, and a torn one is seen. */
bool fb_checked_write(const char *path, const char *key, const void *bytes, size_t n, fb_error *err)
{
    fb_checked_writer w;
    if (!fb_checked_begin(&w, path, err)) return false;
    fb_checked_add(&w, bytes, n);
    return finish(&w, key, false, err);
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
