/* Lessons in a session: a lesson is loaded as a script is, then handed to whoever shows it, and its pages' scripts are
 * opened one after the other in its place. The lesson's own file is read again beside them. */
#include "session/internal.h"

#include <string.h>

fb_script_info *fb_session_take_lesson(fb_session *s)
{
    if (!s->info || !s->info->lesson) return NULL;
    fb_script_info *info = s->info;
    s->info = NULL;
    fb_session_close(s);
    return info;
}

/* ---- beside the script that is open ---- */

void fb_session_peek(fb_session *s, const char *path)
{
    fb_peek_free(s);
    s->peek.script = fb_script_start(path, NULL, &s->peek.error);
    fb_session_changed(s);
}

bool fb_session_peeked(fb_session *s, fb_script_info **info, fb_error *err)
{
    if (s->peek.script || (!s->peek.info && !s->peek.error.kind)) return false;
    *info = s->peek.info;
    *err = s->peek.error;
    s->peek.info = NULL;
    s->peek.error = (fb_error){0};
    return true;
}

void fb_peek_pump(fb_session *s)
{
    fb_script_event e;
    if (!s->peek.script) return;
    fb_script_pump(s->peek.script);
    while (!s->peek.info && !s->peek.error.kind && fb_script_next(s->peek.script, &e)) {
        if (e.kind == FB_SCRIPT_INFO) {
            s->peek.info = e.info;
            e.info = NULL;
        } else if (e.kind == FB_SCRIPT_ERROR) {
            s->peek.error = e.error;
        } else if (e.kind == FB_SCRIPT_LOG) {
            fb_session_log(s, e.text, true);
        }
        fb_script_event_clear(&e);
    }
    if (!s->peek.info && !s->peek.error.kind) return;
    fb_script_free(s->peek.script);
    s->peek.script = NULL;
    fb_session_changed(s);
}

void fb_peek_free(fb_session *s)
{
    fb_script_free(s->peek.script);
    fb_script_info_free(s->peek.info);
    memset(&s->peek, 0, sizeof s->peek);
}
