/* Writes the one sentence of an error: cleaned of what is not fit for a screen, cut to its room between characters.
 * Allocates nothing, so that it works when memory is what is missing. */
#include "base/error.h"

#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An error may quote what came from outside, and goes to screens and logs. */
static void clean(fb_error *err)
{
    char raw[sizeof err->text];
    for (char *p = err->text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) *p = ' ';
    memcpy(raw, err->text, sizeof raw);
    fb_text_clean(err->text, sizeof err->text, raw, strlen(raw));
}

/* Truncation may cut a UTF-8 sequence in two; drop the half that is left. */
static void trim_utf8(char *text)
{
    size_t n = strlen(text), back = 0;
    while (back < 3 && back < n && ((unsigned char)text[n - 1 - back] & 0xc0) == 0x80) back++;
    if (back >= n) return;
    unsigned char lead = (unsigned char)text[n - 1 - back];
    size_t want = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
    if (want > back) text[n - 1 - back] = '\0';
}

bool fb_vfail(fb_error *err, fb_error_kind kind, const char *format, va_list ap)
{
    if (!err) return false;
    err->kind = kind;
    int n = vsnprintf(err->text, sizeof err->text, format, ap);
    if (n < 0) err->text[0] = '\0';
    if (n >= (int)sizeof err->text) trim_utf8(err->text);
    clean(err);
    return false;
}

bool fb_fail(fb_error *err, fb_error_kind kind, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fb_vfail(err, kind, format, ap);
    va_end(ap);
    return false;
}

bool fb_fail_prefix(fb_error *err, const char *format, ...)
{
    if (!err) return false;
    char prefix[240];
    va_list ap;
    va_start(ap, format);
    vsnprintf(prefix, sizeof prefix, format, ap);
    va_end(ap);
    char whole[sizeof prefix + sizeof err->text + 3];
    snprintf(whole, sizeof whole, "%s: %s", prefix, err->text);
    return fb_fail(err, err->kind, "%s", whole);
}

static const char *const kind_names[] = {
    [FB_OK] = "ok",
    [FB_ERR_INPUT] = "input",
    [FB_ERR_USAGE] = "usage",
    [FB_ERR_UNAVAILABLE] = "unavailable",
    [FB_ERR_LIMIT] = "limit",
    [FB_ERR_SYSTEM] = "system",
    [FB_ERR_CRASH] = "crash",
    [FB_ERR_COMPILE] = "compile",
    [FB_ERR_CANCELLED] = "cancelled",
};

const char *fb_error_kind_name(fb_error_kind kind)
{
    return (unsigned)kind < sizeof kind_names / sizeof *kind_names ? kind_names[kind] : "system";
}

fb_error_kind fb_error_kind_parse(const char *name)
{
    for (unsigned i = FB_OK + 1; name && i < sizeof kind_names / sizeof *kind_names; i++)
        if (strcmp(kind_names[i], name) == 0) return (fb_error_kind)i;
    return FB_ERR_SYSTEM;
}

_Noreturn void fb_bug(const char *file, int line, const char *what)
{
    fprintf(stderr, "fusebox: bug at %s:%d: %s\n", file, line, what);
    abort();
}
