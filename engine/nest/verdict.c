/* Makes verdicts. Each place that makes one is counted, so that fuzz --coverage can say which were never reached. */
#include "nest/verdict.h"

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

/* The linker makes the array, and none in a program without places. */
extern fb_verdict_place *const __start_fb_verdict_places[] __attribute__((weak));
extern fb_verdict_place *const __stop_fb_verdict_places[] __attribute__((weak));
static _Atomic int64_t made[FB_VERDICT_ILLEGAL + 1][FB_RULES];

int fb_verdict_places(void)
{
    return (int)(__stop_fb_verdict_places - __start_fb_verdict_places);
}

fb_verdict_place *fb_verdict_place_at(int i)
{
    return __start_fb_verdict_places[i];
}

int64_t fb_verdict_made(fb_verdict_kind kind, fb_rule rule)
{
    return made[kind][rule];
}

fb_verdict fb_verdict_make_unseen(fb_verdict_kind kind, fb_rule rule, const char *format, ...)
{
    atomic_fetch_add_explicit(&made[kind][rule], 1, memory_order_relaxed);
    fb_verdict v = {.kind = kind, .rule = rule, .before_us = NAN, .after_us = NAN};
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(v.text, sizeof v.text, format, ap);
    va_end(ap);
    if (n >= (int)sizeof v.text) fb_trim_partial(v.text);
    return v;
}
