/* gzip (RFC 1952): what is compressed here has the same bytes every time, without a name or a date. Members that follow
 * each other are read one by one. */
#ifndef FB_BASE_GZIP_H
#define FB_BASE_GZIP_H

#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

bool fb_is_gzip(const void *bytes, size_t n);
/* Appends one member. */
void fb_gzip(const void *bytes, size_t n, fb_str *out);
/* The first member, terminated, of at most `limit` bytes; *used: what it takes of the n. NULL with a sentence when it
 * is cut off, damaged or longer. The caller frees with fb_free. */
char *fb_gunzip(const void *bytes, size_t n, size_t limit, size_t *out_n, size_t *used, fb_error *err);

#endif
