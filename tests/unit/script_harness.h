/* Drives one script process for tests: waits for the events of a request, with a limit. */
#ifndef TEST_SCRIPT_HARNESS_H
#define TEST_SCRIPT_HARNESS_H

#include "base/clock.h"
#include "script/script.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The next event; those of the log are passed over unless `logs`. False after `limit_ms`. */
static inline bool next_event_of(fb_script *s, fb_script_event *e, int limit_ms, bool logs)
{
    int64_t end = fb_now_ns() + limit_ms * 1000000ll;
    for (;;) {
        while (fb_script_next(s, e)) {
            if (logs || e->kind != FB_SCRIPT_LOG) return true;
            fb_script_event_clear(e);
        }
        int timeout = (int)((end - fb_now_ns()) / 1000000);
        if (timeout < 0) return false;
        struct pollfd fds[2];
        int n = fb_script_poll(s, fds, &timeout);
        poll(fds, (nfds_t)n, timeout);
        fb_script_pump(s);
    }
}

static inline bool next_event(fb_script *s, fb_script_event *e, int limit_ms)
{
    return next_event_of(s, e, limit_ms, false);
}

/* The script of a file, that has said what it holds. */
static inline fb_script *script_of(const char *path, int limit_ms)
{
    fb_error err = {0};
    fb_script *s = fb_script_start(path, NULL, &err);
    if (!s) fail_msg("%s", err.text);
    fb_script_event e;
    assert_true(next_event(s, &e, limit_ms));
    if (e.kind != FB_SCRIPT_INFO) fail_msg("%s", e.error.text);
    fb_script_info_free(e.info);
    return s;
}

#endif
