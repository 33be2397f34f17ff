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

#include <stdbool.h>
#include <stddef.h>

typedef enum { FB_CHECKED_ABSENT, FB_CHECKED_WHOLE, FB_CHECKED_DAMAGED } fb_checked;

/* ---- reading: a damaged file is removed, whoever finds it ---- */

/* Reads the file once, from end to end. */
fb_checked fb_checked_verify(const char *path, const char *key);
/* The contents, terminated; NULL: absent, damaged or longer than `limit`. The caller frees with fb_free. */
char *fb_checked_read(const char *path, const char *key, size_t limit, size_t *n);

/* ---- writing ---- */

/* Whole or not at all, as fb_write_file; not waited for until it is on the disk: a small file is made again sooner, and
 * a torn one is seen. */
bool fb_checked_write(const char *path, const char *key, const void *bytes, size_t n, fb_error *err);

/* Puts the check behind a file that another program wrote; `keys`: one a line. */
bool fb_checked_seal(const char *path, const char *keys, fb_error *err);

#endif
