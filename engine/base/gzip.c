/* gzip by zlib. Needs nothing; leaves nothing behind. */
#include "base/gzip.h"

#include "base/mem.h"

#include <string.h>
#include <zlib.h>

enum { WINDOW = 15, GZIP = 16, CHUNK = 1 << 16 };

bool fb_is_gzip(const void *bytes, size_t n)
{
    return n >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0;
}

void fb_gzip(const void *bytes, size_t n, fb_str *out)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)n};
    FB_ASSERT(n < UINT32_MAX);
    FB_ASSERT(deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, WINDOW + GZIP, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    char *chunk = fb_alloc(CHUNK);
    int state = Z_OK;
    while (state != Z_STREAM_END) {
        z.next_out = (Bytef *)chunk;
        z.avail_out = CHUNK;
        state = deflate(&z, Z_FINISH);
        fb_str_add_n(out, chunk, CHUNK - z.avail_out);
    }
    deflateEnd(&z);
    fb_free(chunk);
}

/* Z_STREAM_END, or why not. */
static int inflate_all(z_stream *z, size_t limit, fb_str *out)
{
    char *chunk = fb_alloc(CHUNK);
    int state = Z_OK;
    while (state == Z_OK && out->n <= limit) {
        z->next_out = (Bytef *)chunk;
        z->avail_out = CHUNK;
        state = inflate(z, Z_NO_FLUSH);
        fb_str_add_n(out, chunk, CHUNK - z->avail_out);
    }
    fb_free(chunk);
    return state;
}

char *fb_gunzip(const void *bytes, size_t n, size_t limit, size_t *out_n, size_t *used, fb_error *err)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)(n < UINT32_MAX ? n : UINT32_MAX - 1)};
    fb_str out = {0};
    FB_ASSERT(inflateInit2(&z, WINDOW + GZIP) == Z_OK);
    int state = inflate_all(&z, limit, &out);
    *used = n - z.avail_in;
    *out_n = out.n;
    inflateEnd(&z);
    if (state == Z_STREAM_END && out.n <= limit) {
        fb_str_add(&out, "");
        return fb_str_take(&out);
    }
    fb_str_free(&out);
    if (state == Z_BUF_ERROR)
        fb_fail(err, FB_ERR_INPUT, "its compressed data is cut off");
    else if (state == Z_OK || state == Z_STREAM_END)
        fb_fail(err, FB_ERR_LIMIT, "it holds more than %zu MiB", limit >> 20);
    else
        fb_fail(err, FB_ERR_INPUT, "its compressed data is damaged");
    return NULL;
}
