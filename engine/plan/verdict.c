#include "plan/verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *fb_verdict_kind_name(fb_verdict_kind k)
{
    static const char *const name[] = {
        [FB_VERDICT_FINE] = "fine",
        [FB_VERDICT_SLOWER] = "slower",
        [FB_VERDICT_UNSUPPORTED] = "unsupported",
        [FB_VERDICT_ILLEGAL] = "illegal",
    };
    return name[k];
}

/* A sentence that was cut must not end inside a character. */
static void trim_partial(char *text)
{
    size_t n = strlen(text), back = 0;
    while (back < n && back < 3 && ((unsigned char)text[n - 1 - back] & 0xc0) == 0x80) back++;
    if (back == n) return;
    unsigned char lead = (unsigned char)text[n - 1 - back];
    size_t need = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
    if (back < need) text[n - 1 - back] = '\0';
}

fb_verdict fb_verdict_make(fb_verdict_kind kind, fb_rule rule, const char *format, ...)
{
    fb_verdict v = {.kind = kind, .rule = rule, .before_us = NAN, .after_us = NAN};
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(v.text, sizeof v.text, format, ap);
    va_end(ap);
    if (n >= (int)sizeof v.text) trim_partial(v.text);
    return v;
}
