/* Writes down the columns of a script and brings them back: at once by u, or at the next start from a file. */
#include "tui/view/keep.h"

#include "base/json.h"
#include "base/mem.h"
#include "session/library.h"
#include "tui/view/ui.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEPT_MAX = 16 << 20, VERSION = 1 };

/* ---- what was dropped -----------------------------------------------------------------------------------------------
 */

void fb_keep_drop(fb_app *app, int column)
{
    json_t *kept = fb_session_keep(app->session, column);
    const char *text = kept ? fb_session_column(app->session, column)->text : "";
    if (kept) {
        fb_app_say(app, FB_ROLE_DIM, "dropped %d %s: u brings it back", column + 1, text);
        json_object_set_new(kept, "at", json_integer(column));
        if (!app->dropped) app->dropped = json_array();
        json_array_append_new(app->dropped, kept);
        app->dropped_last = true;
    }
    fb_session_drop(app->session, column);
    app->touched = true;
}

bool fb_keep_bring_back(fb_app *app)
{
    size_t n = json_array_size(app->dropped);
    fb_error err = {0};
    if (!n) return false;
    const json_t *kept = json_array_get(app->dropped, n - 1);
    int at = fb_session_restore(app->session, kept, (int)json_integer_value(json_object_get(kept, "at")), &err);
    json_array_remove(app->dropped, n - 1);
    app->dropped_last = n > 1;
    if (at < 0) {
        fb_app_say(app, FB_ROLE_BAD, "%s", err.text);
        return true;
    }
    app->column = at;
    app->touched = true;
    app->first_measured = false; /* it joins the measurement once it is there */
    fb_app_say(app, FB_ROLE_DIM, "brought back: %d %s", at + 1, fb_session_column(app->session, at)->text);
    return true;
}

void fb_keep_free(fb_app *app)
{
    json_decref(app->dropped);
    app->dropped = NULL;
    app->dropped_last = app->touched = app->params_set = false;
}

/* ---- across runs ----------------------------------------------------------------------------------------------------
 */

bool fb_keep_path(const fb_app *app, const char *what, const char *ending, char *to, size_t room)
{
    const char *script = fb_session_path(app->session);
    char whole[PATH_MAX], name[64], hex[33];
    if (!script) return false;
    if (!realpath(script, whole)) snprintf(whole, sizeof whole, "%s", script); /* a bundled one */
    fb_hasher *h = fb_hasher_new();
    fb_hasher_add_text(h, whole);
    snprintf(name, sizeof name, "%s-%.16s.%s", what, fb_hash_hex(fb_hasher_end(h), hex), ending);
    return fb_state_path(name, to, room);
}

static bool path_of(const fb_app *app, char *to, size_t room)
{
    return fb_keep_path(app, "columns", "json", to, room);
}

bool fb_keep_save(fb_app *app, fb_error *err)
{
    char path[PATH_MAX];
    if (!app->touched || !app->columns_made || app->lesson.info) return true; /* a page is always as it is written */
    if (!path_of(app, path, sizeof path)) return fb_state_usable(err) && fb_fail(err, FB_ERR_SYSTEM, "no place for it");
    json_t *columns = json_array();
    for (int i = 0; i < fb_session_columns(app->session); i++) {
        json_t *kept = fb_session_keep(app->session, i);
        if (kept) json_array_append_new(columns, kept);
    }
    if (!json_array_size(columns)) { /* none is nothing to come back to */
        json_decref(columns);
        return true;
    }
    json_t *all = json_pack("{s:i, s:s, s:i, s:o}", "fusebox", VERSION, "script", fb_session_path(app->session),
                            "focus", app->column, "columns", columns);
    char *text = fb_json_line(all);
    bool fine = fb_write_file(path, text, strlen(text), err);
    fb_free(text);
    json_decref(all);
    if (fine) app->touched = false;
    return fine;
}

bool fb_keep_leave(fb_app *app)
{
    fb_error err = {0};
    if (fb_keep_save(app, &err) || app->leaving) return true;
    app->leaving = true;
    fb_app_say(app, FB_ROLE_BAD, "your columns cannot be kept: %s; once more leaves without them", err.text);
    return false;
}

json_t *fb_keep_parse(const char *text, size_t n, fb_error *err)
{
    json_t *all = fb_json_parse(text, n, err);
    bool known = all && json_integer_value(json_object_get(all, "fusebox")) == VERSION;
    if (known && json_array_size(json_object_get(all, "columns"))) return all;
    if (all) fb_fail(err, FB_ERR_INPUT, "it holds no columns");
    json_decref(all);
    return NULL;
}

/* NULL, and nothing said, where there is no such file. */
static json_t *read_kept(const char *path, fb_error *err)
{
    size_t n;
    if (access(path, F_OK) < 0) return NULL;
    char *text = fb_read_file(path, KEPT_MAX, &n, err);
    json_t *all = text ? fb_keep_parse(text, n, err) : NULL;
    fb_free(text);
    return all;
}

bool fb_keep_restore(fb_app *app)
{
    char path[PATH_MAX];
    fb_error err = {0};
    json_t *all = path_of(app, path, sizeof path) ? read_kept(path, &err) : NULL;
    int made = 0, edited = 0;
    size_t i;
    const json_t *kept;
    json_array_foreach(json_object_get(all, "columns"), i, kept)
    {
        if (fb_session_restore(app->session, kept, -1, &err) < 0) continue;
        made++;
        edited += json_object_get(kept, "plan") != NULL;
    }
    if (made) {
        int focus = (int)json_integer_value(json_object_get(all, "focus"));
        app->column = focus >= 0 && focus < made ? focus : 0;
        app->chosen = true;
        app->touched = true;
        fb_app_say(app, FB_ROLE_DIM, "your columns as you left them%s; K shows the script's own",
                   edited ? ", edits too" : "");
    } else if (err.kind) {
        fb_app_say(app, FB_ROLE_WARN, "the columns kept of this script are left out: %s", err.text);
    }
    json_decref(all);
    return made > 0;
}

void fb_keep_forget(fb_app *app)
{
    char path[PATH_MAX];
    if (!app->lesson.info && path_of(app, path, sizeof path)) unlink(path);
    app->touched = false;
}
