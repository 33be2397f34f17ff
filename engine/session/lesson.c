/* Lessons in a session: a lesson is loaded as a script is, then handed to whoever shows it, and its pages' scripts are
 * opened one after the other in its place. The lesson's own file is read again beside them. */
#include "session/internal.h"

#include "session/library.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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

/* ---- the scripts of pages ---- */

static bool is_plain(const char *name)
{
    if (!*name || *name == '/' || strlen(name) > 200 || strstr(name, "..")) return false;
    for (const char *c = name; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./", *c)) return false;
    return true;
}

const char *fb_lesson_script(const char *lesson, const char *name, fb_arena *arena, fb_error *err)
{
    static const char *const endings[] = {"", ".lua"};
    const char *slash = strrchr(lesson, '/');
    struct stat st;
    if (!is_plain(name)) {
        fb_fail(err, FB_ERR_INPUT,
                "script \"%.100s\": scripts are named relative to the lesson's folder, without \"..\"", name);
        return NULL;
    }
    for (size_t i = 0; i < sizeof endings / sizeof *endings && stat(lesson, &st) == 0; i++) {
        const char *path =
            fb_arena_printf(arena, "%.*s%s%s", (int)(slash ? slash - lesson + 1 : 0), lesson, name, endings[i]);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) return path;
    }
    return fb_find_bundled(name, arena, err);
}
