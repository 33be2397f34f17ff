/* Content hashes: 128-bit XXH3, written as 32 lower-case hex digits. Not for secrets. */
#ifndef FB_BASE_HASH_H
#define FB_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t high, low;
} fb_hash;

typedef struct fb_hasher fb_hasher;

fb_hash fb_hash_bytes(const void *bytes, size_t n);
fb_hash fb_hash_text(const char *text);
uint64_t fb_digest(const void *bytes, size_t n); /* 64-bit XXH3: to see that memory has not changed */

fb_hasher *fb_hasher_new(void);
void fb_hasher_add(fb_hasher *h, const void *bytes, size_t n);
/* With its terminator, so that "ab","c" differs from "a","bc". */
void fb_hasher_add_text(fb_hasher *h, const char *text);
void fb_hasher_add_i64(fb_hasher *h, int64_t value);
fb_hash fb_hasher_end(fb_hasher *h); /* frees h */

static inline bool fb_hash_equal(fb_hash a, fb_hash b)
{
    return a.high == b.high && a.low == b.low;
}
const char *fb_hash_hex(fb_hash h, char to[33]); /* returns `to` */
bool fb_hash_parse(const char *hex, fb_hash *out);

#endif
