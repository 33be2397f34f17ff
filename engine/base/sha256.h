/* SHA-256 (FIPS 180-4), as 64 lower-case hex digits: what `sha256sum` prints. For what somebody could want to forge;
 * base/hash.h is the quick one. */
#ifndef FB_BASE_SHA256_H
#define FB_BASE_SHA256_H

#include <stddef.h>

const char *fb_sha256_hex(const void *bytes, size_t n, char to[65]); /* returns `to` */

#endif
