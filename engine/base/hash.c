/* XXH3 of bytes, texts and numbers in order, in memory as they lie. Large data is digested in pieces, on several
 * threads. */
#include "base/hash.h"

#include "base/mem.h"
#include "base/parallel.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

struct fb_hasher {
    XXH3_state_t state;
    void *block;
};

static fb_hash of(XXH128_hash_t h)
{
    return (fb_hash){h.high64, h.low64};
}

fb_hash fb_hash_bytes(const void *bytes, size_t n)
{
    return of(XXH3_128bits(bytes, n));
}

fb_hash fb_hash_text(const char *text)
{
    return fb_hash_bytes(text, strlen(text));
}

/* What is large is digested in pieces, side by side, and then their digests. */
enum { PIECE = 4 << 20 };

typedef struct {
    const char *from;
    uint64_t *to;
} pieces;

static void digest_piece(void *ctx, int64_t first, int64_t last)
{
    const pieces *p = ctx;
    p->to[first / PIECE] = XXH3_64bits(p->from + first, (size_t)(last - first));
}

uint64_t fb_digest(const void *bytes, size_t n)
{
    if (n <= PIECE) return XXH3_64bits(bytes, n);
    size_t count = (n - 1) / PIECE + 1;
    pieces p = {bytes, fb_alloc(count * sizeof *p.to)};
    fb_parallel_for((int64_t)n, PIECE, digest_piece, &p);
    uint64_t all = XXH3_64bits(p.to, count * sizeof *p.to);
    fb_free(p.to);
    return all;
}

fb_hasher *fb_hasher_new(void)
{
    /* XXH3's state wants 64-byte alignment, which fb_alloc does not promise. */
    void *block = fb_alloc(sizeof(fb_hasher) + 64);
    fb_hasher *h = (fb_hasher *)(((uintptr_t)block + 63) & ~(uintptr_t)63);
    h->block = block;
    XXH3_INITSTATE(&h->state);
    XXH3_128bits_reset(&h->state);
    return h;
}

void fb_hasher_add(fb_hasher *h, const void *bytes, size_t n)
{
    if (n) XXH3_128bits_update(&h->state, bytes, n);
}

void fb_hasher_add_text(fb_hasher *h, const char *text)
{
    fb_hasher_add(h, text, strlen(text) + 1);
}

void fb_hasher_add_i64(fb_hasher *h, int64_t value)
{
    fb_hasher_add(h, &value, sizeof value);
}

fb_hash fb_hasher_end(fb_hasher *h)
{
    fb_hash out = of(XXH3_128bits_digest(&h->state));
    fb_free(h->block);
    return out;
}

const char *fb_hash_hex(fb_hash h, char to[33])
{
    snprintf(to, 33, "%016" PRIx64 "%016" PRIx64, h.high, h.low);
    return to;
}

bool fb_hash_parse(const char *hex, fb_hash *out)
{
    if (!hex || strlen(hex) != 32 || strspn(hex, "0123456789abcdef") != 32) return false;
    return sscanf(hex, "%16" SCNx64 "%16" SCNx64, &out->high, &out->low) == 2;
}
