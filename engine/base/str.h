/* A string being built. A zeroed fb_str is empty; fb_str_free gives it back; `s.text` is always terminated once
 * anything was added, and NULL before. */
#ifndef FB_BASE_STR_H
#define FB_BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *text;
    size_t n, room;
} fb_str;

void fb_str_add(fb_str *s, const char *text);
void fb_str_add_n(fb_str *s, const char *bytes, size_t n);
void fb_str_addf(fb_str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fb_str_vaddf(fb_str *s, const char *format, va_list ap) __attribute__((format(printf, 2, 0)));
void fb_str_clear(fb_str *s); /* keeps the room */
void fb_str_free(fb_str *s);
char *fb_str_take(fb_str *s);            /* the caller frees with fb_free; never NULL */
const char *fb_str_get(const fb_str *s); /* "" when empty */

/* A name that may stand in generated source: [A-Za-z_][A-Za-z0-9_]{0,63}. */
bool fb_str_is_name(const char *name);

/* What comes after the last slash. */
const char *fb_file_name(const char *path);

bool fb_text_ends(const char *text, const char *end);

/* Copies with control, bidi and invalid UTF-8 replaced by '?', for anything that came from outside and goes to a
 * screen or log. Always terminates. */
void fb_text_clean(char *to, size_t room, const char *from, size_t n);

/* The same for text of any length, added whole; control characters that stand in `kept` ("\n\t") stay as they are. */
void fb_str_add_clean(fb_str *s, const char *text, const char *kept);

/* Whether there is nothing in it that anybody could read. */
bool fb_text_is_blank(const char *text);

/* One word of a shell's command line: quoted where the shell would take it for anything else. */
void fb_str_add_word(fb_str *s, const char *word);

/* The first character of `text` (n bytes): its length, and in *seen whether a screen may get it. Bytes that are no
 * UTF-8 come one by one, and are never seen. For those who spell what is not seen in a way of their own. */
size_t fb_text_next(const char *text, size_t n, uint32_t *code, bool *seen);

/* "1.2 µs", "3.4 ms"; "16.8 MB" (powers of ten, as device makers count); into `to`, returned. */
const char *fb_format_us(char to[32], double us);
const char *fb_format_bytes(char to[32], double bytes);

/* A sentence that was cut to fit must not end inside a character: drops the partial one. */
void fb_trim_partial(char *text);

#endif
