/* What the decoders' files share: what has to hold, and bytes as a text. */
#ifndef TESTS_FUZZ_MUST_H
#define TESTS_FUZZ_MUST_H

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A fuzzer keeps the input of an abort. */
#define MUST(what)                                                                                                     \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #what);                                   \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Nothing in it does harm to a terminal; NULL is fine. */
static inline void check_clean(const char *text)
{
    if (!text) return;
    fb_str clean = {0};
    fb_str_add_clean(&clean, text, "");
    MUST(strcmp(fb_str_get(&clean), text) == 0);
    fb_str_free(&clean);
}

/* A refusal is one sentence. */
static inline void check_error(const fb_error *err)
{
    MUST(err->kind != FB_OK && err->text[0]);
    check_clean(err->text);
}

/* The bytes with an end; the caller frees with fb_free. */
static inline char *text_of(const uint8_t *bytes, size_t n)
{
    char *text = fb_alloc(n + 1);
    if (n) memcpy(text, bytes, n);
    text[n] = '\0';
    return text;
}

/* The next line from *at on, without its newline; false at the end. */
static inline bool next_line(const char **at, const char *end, const char **line, size_t *n)
{
    if (*at >= end) return false;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    *line = *at;
    *n = (size_t)((stop ? stop : end) - *at);
    *at = stop ? stop + 1 : end;
    return true;
}

#endif
