/* What is cached carries a checksum: a file whose contents are followed by the keys it may be asked for by, its length
 * and the XXH3-128 of all that. A disk that filled up, a machine that lost power, a copy cut short, an entry under
 * another's name: each is seen before anything is made of it, removed, and made again.
 *
 *     contents · keys, one a line · { contents' bytes, keys' bytes, hash, magic }
 *
 * The check stands behind the contents, so that a shared object can be loaded as it is. A key is any text without a
 * newline; one file may be kept under several names with a key each. Only for folders of our own (fb_private_folder):
 * the hash is against accidents, not against somebody who may write there. */
#ifndef FB_BASE_CHECKED_H
#define FB_BASE_CHECKED_H

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { FB_CHECKED_ABSENT, FB_CHECKED_WHOLE, FB_CHECKED_DAMAGED } fb_checked;

/* ---- reading: a damaged file is removed, whoever finds it ---- */

/* Reads the file once, from end to end. */
fb_checked fb_checked_verify(const char *path, const char *key);
/* The contents, terminated; NULL: absent, damaged or longer than `limit`. The caller frees with fb_free. */
char *fb_checked_read(const char *path, const char *key, size_t limit, size_t *n);

/* The same mapped, for large files: `at` is page-aligned and holds `n` bytes of contents. */
typedef struct {
    const void *at; /* NULL: nothing */
    size_t n, mapped;
} fb_checked_map;
fb_checked fb_checked_map_file(const char *path, const char *key, fb_checked_map *out);
void fb_checked_unmap(fb_checked_map *map);

/* ---- writing ---- */

/* Whole or not at all, as fb_write_file. */
bool fb_checked_write(const char *path, const char *key, const void *bytes, size_t n, fb_error *err);

/* In parts. After begin, add as often as wanted, then end or abandon; a part that cannot be written shows at the end.
 * The file is private, and on the disk before it has its name. */
typedef struct {
    fb_new_file file;
    fb_hasher *hasher;
    uint64_t n;
    int why; /* errno of the first failure */
} fb_checked_writer;
bool fb_checked_begin(fb_checked_writer *w, const char *path, fb_error *err);
void fb_checked_add(fb_checked_writer *w, const void *bytes, size_t n);
bool fb_checked_end(fb_checked_writer *w, const char *keys, fb_error *err); /* keys: one a line */
void fb_checked_abandon(fb_checked_writer *w);

/* Puts the check behind a file that another program wrote; `keys`: one a line. */
bool fb_checked_seal(const char *path, const char *keys, fb_error *err);

#endif
