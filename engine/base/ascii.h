/* ASCII's letters in their other case, whatever the user's language makes of an i. */
#ifndef FB_BASE_ASCII_H
#define FB_BASE_ASCII_H

#include <stdbool.h>
#include <stddef.h>

static inline char fb_ascii_upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static inline char fb_ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* `text` begins with the first `n` characters of `word`, in any case. */
static inline bool fb_ascii_begins(const char *text, const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!text[i] || fb_ascii_lower(text[i]) != fb_ascii_lower(word[i])) return false;
    return true;
}

#endif
