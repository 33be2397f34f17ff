/* Kernels that the user improves by hand: taking one over, what a save does, and what may run. */
#include "tui/view/editor.h"
#include "tui/view/ui.h"

#include <limits.h>
#include <string.h>

/* ---- saves ---- */

void fb_view_watch_kernels(fb_app *app)
{
    const char **files;
    fb_arena *arena = fb_arena_new();
    int n = fb_session_kernel_files(app->session, arena, &files);
    for (int i = 0; i < n; i++) fb_watch_add(app->watch, files[i]);
    fb_arena_free(arena);
}

void fb_view_kernels_saved(fb_app *app)
{
    int n = fb_session_kernels_saved(app->session);
    if (!n) return;
    fb_app_say(app, FB_ROLE_DIM, "a kernel was saved: %d column%s %s", n, n == 1 ? " is" : "s are",
               fb_session_auto(app->session) ? "measured again" : "to be measured: m");
}

static void edit(fb_app *app, const char *path)
{
    fb_session_own_kernel(app->session, path);
    switch (fb_editor_run(app, path)) {
    case FB_EDITOR_NONE:
        fb_app_say(app, FB_ROLE_GOOD, "edit %s: every save is compiled, checked and timed (EDITOR names no editor)",
                   path);
        return;
    case FB_EDITOR_FAILED:
        fb_app_say(app, FB_ROLE_BAD, "%s cannot be run; every save of %s is compiled, checked and timed",
                   fb_editor_command(), path);
        break;
    case FB_EDITOR_DONE: fb_app_say(app, FB_ROLE_GOOD, "every save of %s is compiled, checked and timed", path); break;
    }
    fb_view_kernels_saved(app);
}

/* ---- the command ---- */

static bool take_over(fb_app *app, int group, const char *arg, char path[PATH_MAX], fb_error *err)
{
    char folder[PATH_MAX];
    if (*arg)
        snprintf(path, PATH_MAX, "%s", arg);
    else if (!fb_session_folder(app->session, folder))
        return fb_fail(err, FB_ERR_SYSTEM, "there is no place for the file: name one");
    else if (!fb_session_eject_path(app->session, app->column, group, folder, path, err))
        return false;
    int at = fb_session_eject(app->session, app->column, group, path, false, err);
    if (at < 0) return false;
    app->column = at;
    fb_model_update(app);
    fb_view_watch_kernels(app);
    return true;
}

void fb_view_eject(fb_app *app, const char *arg)
{
    const fb_plan *plan = app->model.column->plan;
    int group = fb_source_group(app);
    char path[PATH_MAX];
    fb_error err = {0};
    const fb_kernel_source *own = group == FB_NONE ? NULL : fb_plan_group(plan, group)->source;
    if (group == FB_NONE) {
        fb_app_say(app, FB_ROLE_WARN, "eject: there is no kernel under the cursor");
    } else if (own && !*arg) {
        snprintf(path, sizeof path, "%s", own->path); /* the plan may change while it is edited */
        edit(app, path);
    } else if (take_over(app, group, arg, path, &err)) {
        edit(app, path);
    } else {
        fb_app_say(app, FB_ROLE_BAD, "eject: %s", err.text);
    }
    if (fb_app_view(app) == FB_VIEW_SOURCE) fb_app_show(app, FB_VIEW_SOURCE);
}

/* ---- what may run ---- */

/* Asked once for each text of a file. */
void fb_trust_follow(fb_app *app)
{
    const char *hash;
    fb_arena *arena = fb_arena_new();
    const char *path = fb_session_untrusted(app->session, arena, &hash);
    if (path && strcmp(hash, app->trust.refused) != 0) {
        app->trust.asked = true;
        snprintf(app->trust.hash, sizeof app->trust.hash, "%s", hash);
        fb_str_clear(&app->trust.question);
        fb_str_addf(&app->trust.question,
                    "run %s? Native code, which runs as you · y: yes, as long as it stays so · n: no · SHA-256 %s",
                    path, hash);
        app->dirty = true;
    } else if (!path) {
        app->trust.asked = false;
    }
    fb_arena_free(arena);
}

bool fb_trust_key(fb_app *app, int key)
{
    if (!app->trust.asked || (key != 'y' && key != 'n')) return false;
    app->trust.asked = false;
    app->dirty = true;
    if (key == 'y')
        fb_session_trust(app->session, app->trust.hash);
    else
        snprintf(app->trust.refused, sizeof app->trust.refused, "%s", app->trust.hash);
    return true;
}
