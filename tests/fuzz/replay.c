/* Runs files through a decoder, and what becomes of each when it is cut, doubled or changed: replay DECODER FILE…
 * The changes follow from the file's name and bytes, so that a finding is found again. "DECODER: N inputs" at the end.
 */
#include "fuzz/decoders.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANGES = 200, FILE_MOST = 1 << 20 };

static long inputs;

static void run(const decoder *d, const uint8_t *bytes, size_t n)
{
    /* exactly as long as it is: one byte further belongs to nobody */
    uint8_t *own = fb_alloc(n ? n : 1);
    memcpy(own, bytes, n);
    d->run(own, n);
    fb_free(own);
    inputs++;
}

/* One to four changes: a byte, a stretch repeated, left out or taken from elsewhere. */
static void run_changed(const decoder *d, const uint8_t *bytes, size_t n, uint64_t seed)
{
    uint8_t *own = fb_alloc(2 * n + 1);
    uint64_t key = fb_splitmix64(seed);
    memcpy(own, bytes, n);
    for (uint64_t k = 0; k <= key % 4 && n; k++) {
        uint64_t r = fb_rng_bits(key, 2 * k), s = fb_rng_bits(key, 2 * k + 1);
        size_t at = (size_t)(r >> 8) % n, long_ = (size_t)(s % 16) < n - at ? (size_t)(s % 16) : n - at;
        switch (r % 4) {
        case 0: own[at] = (uint8_t)s; break;
        case 1: own[at] = own[(size_t)(s >> 8) % n]; break;
        case 2:
            memmove(own + at, own + at + long_, n - at - long_);
            n -= long_;
            break;
        default: memmove(own + at, own + (size_t)(s >> 8) % (n - long_ + 1), long_); break;
        }
    }
    run(d, own, n);
    fb_free(own);
}

int main(int argc, char **argv)
{
    const decoder *d = argc > 1 ? decoder_find(argv[1]) : NULL;
    if (!d) {
        fprintf(stderr, "usage: replay DECODER FILE…\n");
        return 2;
    }
    fb_json_init();
    run(d, (const uint8_t *)"", 0);
    for (int i = 2; i < argc; i++) {
        fb_error err = {0};
        size_t n = 0;
        char *text = fb_read_file(argv[i], FILE_MOST, &n, &err);
        if (!text) {
            fprintf(stderr, "%s\n", err.text);
            return 2;
        }
        run(d, (const uint8_t *)text, n);
        for (size_t cut = 1; cut < 64 && cut < n; cut++) run(d, (const uint8_t *)text, n * cut / 64);
        for (uint64_t k = 0; k < CHANGES; k++) run_changed(d, (const uint8_t *)text, n, k * 1000003 + n);
        fb_free(text);
    }
    printf("%s: %ld inputs\n", d->name, inputs);
    return 0;
}
