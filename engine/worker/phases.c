/* Where the time of a request goes.
 *
 * requires  what progress is told of, in the order in which it comes
 * provides  for FB_DEBUG: of each phase its seconds, and the seconds that all threads of the process computed in it */
#include "worker/phases.h"

#include "base/clock.h"
#include "base/debug.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const int64_t long_ns = 5000000000; /* a phase that takes longer is told of while it goes on */

static int64_t computed_ns(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* "checking kernel 2 of 5" is the phase of "checking kernel 3 of 5". */
static void without_numbers(const char *what, char *to, size_t room)
{
    size_t n = 0;
    for (; *what && n + 1 < room; what++) {
        bool digit = *what >= '0' && *what <= '9';
        if (!digit)
            to[n++] = *what;
        else if (!n || to[n - 1] != '#')
            to[n++] = '#';
    }
    to[n] = '\0';
}

void fb_phases_note(fb_phases *p, const char *who, const char *what)
{
    char now[sizeof p->what] = "", line[sizeof p->what + 100];
    if (!fb_debug('t')) return;
    if (what) without_numbers(what, now, sizeof now);
    int64_t ns = fb_now_ns(), computed = computed_ns();
    bool same = strcmp(now, p->what) == 0;
    if (same && ns - p->told_ns < long_ns) return;
    if (!p->first_ns) p->first_ns = ns;
    p->told_ns = ns;
    if (p->what[0]) {
        snprintf(line, sizeof line, "%s at %.3f s: %s%s: %.3f s, computed %.3f s", who,
                 (double)(ns - p->first_ns) / 1e9, same ? "still " : "", p->what, (double)(ns - p->since_ns) / 1e9,
                 (double)(computed - p->computed_ns) / 1e9);
        fb_debug_show(line, "");
    }
    if (same) return;
    snprintf(p->what, sizeof p->what, "%s", now);
    p->since_ns = ns;
    p->computed_ns = computed;
}
