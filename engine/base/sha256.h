/* SHA-256 (FIPS 180-4), as 64 lower-case hex digits: what `sha256sum` prints. For what somebody could want to forge;
 * base/hash.h is the quick one. */
#ifndef FB_BASE_SHA256_H
#define FB_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

/* In parts: begin, add as often as wanted, end. */
typedef struct {
    uint32_t state[8];
    uint8_t block[64];
    uint64_t n; /* bytes so far */
} fb_sha256;
void fb_sha256_begin(fb_sha256 *h);
void fb_sha256_add(fb_sha256 *h, const void *bytes, size_t n);
const char *fb_sha256_end(fb_sha256 *h, char to[65]); /* returns `to` */

const char *fb_sha256_hex(const void *bytes, size_t n, char to[65]); /* returns `to` */

#endif
