#include "plan/verdict.h"

#include "base/str.h"

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

fb_verdict fb_verdict_make(fb_verdict_kind kind, fb_rule rule, const char *format, ...)
{
    fb_verdict v = {.kind = kind, .rule = rule, .before_us = NAN, .after_us = NAN};
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(v.text, sizeof v.text, format, ap);
    va_end(ap);
    if (n >= (int)sizeof v.text) fb_trim_partial(v.text);
    return v;
}
