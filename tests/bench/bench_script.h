/* Answers of a script's process, for benchmarks that start one. */
#ifndef FB_TESTS_BENCH_SCRIPT_H
#define FB_TESTS_BENCH_SCRIPT_H

#include "bench/bench.h"
#include "script/script.h"

enum { BENCH_SCRIPT_MS = 60000 };

/* The next event of a kind; false when there is an error instead and these may be. */
static inline bool bench_next(fb_script *s, fb_script_event_kind wanted, bool may_fail, fb_script_event *e)
{
    fb_error late = {.text = "the script did not answer"};
    for (;;) {
        while (fb_script_next(s, e)) {
            if (e->kind == FB_SCRIPT_ERROR && may_fail) return false;
            bench_need(e->kind != FB_SCRIPT_ERROR, &e->error);
            if (e->kind == wanted) return true;
            fb_script_event_clear(e);
        }
        struct pollfd fds[2];
        int timeout = BENCH_SCRIPT_MS, n = fb_script_poll(s, fds, &timeout);
        bench_need(poll(fds, (nfds_t)n, timeout) >= 0, &late);
        fb_script_pump(s);
    }
}

#endif
