/* The columns with which a script's work begins: those asked for, those of the last time, or the script's own; what is
 * not here is left out, and what stays is measured. */
#include "tui/view/ui.h"

#include <stdio.h>
#include <string.h>

static void add_columns(fb_app *app, const char *const *specs, int n)
{
    fb_error err = {0};
    for (int i = 0; i < n; i++)
        if (!fb_puzzle_hides(app, specs[i]) && fb_session_add(app->session, specs[i], &err) < 0)
            fb_app_say(app, FB_ROLE_BAD, "%s", err.text);
}

static void add_own_columns(fb_app *app, const fb_script_info *info)
{
    int n;
    const char *const *specs = fb_script_columns(info, &n);
    app->own_columns = true;
    add_columns(app, specs, n);
}

/* Those of a lesson's page; of a puzzle the two that it compares. */
static void add_page_columns(fb_app *app, const fb_script_info *info, const fb_lesson_page *page)
{
    app->own_columns = true;
    if (page->n_columns)
        add_columns(app, page->columns, page->n_columns);
    else if (page->puzzle && info->puzzle)
        add_columns(app, (const char *const *)app->puzzle.spec, 2);
    else
        add_own_columns(app, info);
    if (page->puzzle && !info->puzzle)
        fb_fail(&app->lesson.trouble, FB_ERR_INPUT, "%s:%d: %s asks no puzzle", fb_file_name(app->lesson.path),
                page->line, page->script);
}

/* Those that were asked for, else those of the last time, else the script's own. */
void fb_first_columns(fb_app *app, const fb_script_info *info)
{
    const fb_lesson_page *page = fb_lesson_now(app);
    fb_puzzle_begin(app);
    if (page)
        add_page_columns(app, info, page);
    else if (app->n_asked)
        add_columns(app, app->asked, app->n_asked);
    else if (!fb_keep_restore(app))
        add_own_columns(app, info);
    fb_puzzle_columns(app);
    app->columns_made = true;
    fb_view_results_reopened(app);
}

void fb_app_fresh_columns(fb_app *app)
{
    for (int n = fb_session_columns(app->session); n > 0; n--) fb_keep_drop(app, n - 1);
    fb_keep_forget(app);
    app->column = 0;
    app->chosen = app->placed = app->first_measured = false;
    if (fb_lesson_now(app))
        add_page_columns(app, fb_session_script(app->session), fb_lesson_now(app));
    else
        add_own_columns(app, fb_session_script(app->session));
    fb_puzzle_columns(app);
}

/* The focus stays on its column, whatever goes before it. */
static void drop_absent(fb_app *app)
{
    int n = fb_session_columns(app->session);
    const fb_column *focused = app->column < n ? fb_session_column(app->session, app->column) : NULL;
    fb_session_drop_absent(app->session);
    for (int i = 0; i < fb_session_columns(app->session); i++)
        if (fb_session_column(app->session, i) == focused) app->column = i;
}

/* The device of a recording: "torch:h200" was recorded beside "replay:h200". */
static bool is_recorded(const fb_app *app, const char *device)
{
    char replay[128];
    const char *colon = device ? strchr(device, ':') : NULL;
    snprintf(replay, sizeof replay, "replay%s", colon ? colon : ":");
    return colon && fb_session_machine(app->session, replay);
}

/* One table, one device: what a script suggests of a device that is not here is no reason to set recordings of another
 * machine beside what is measured on this one. Who asks for them by name, or for a recording as the device, has them.
 */
static void drop_recorded(fb_app *app)
{
    const char *standard = fb_session_default_device(app->session);
    int n = fb_session_columns(app->session), recorded = 0;
    char device[64] = "";
    if (!app->own_columns || is_recorded(app, standard)) return;
    app->own_columns = false;
    for (int i = 0; i < n; i++) recorded += is_recorded(app, fb_session_column(app->session, i)->device);
    if (!recorded || recorded == n) return;
    for (int i = n - 1; i >= 0; i--) {
        const fb_column *c = fb_session_column(app->session, i);
        const char *asked = strrchr(c->text, '@');
        if (!is_recorded(app, c->device) || (asked && !strcmp(asked + 1, c->device))) continue;
        snprintf(device, sizeof device, "%s", c->device);
        fb_session_drop(app->session, i);
        if (app->column > i) app->column--;
    }
    if (!*device || (app->message.n && app->message_role == FB_ROLE_BAD)) return; /* an error is not talked over */
    fb_app_say(app, FB_ROLE_DIM,
               "left out: columns that were recorded elsewhere, as %s; --device replay%s shows recordings alone",
               device, strchr(device, ':'));
}

void fb_first_measure(fb_app *app)
{
    enum { MOST = 64 };
    int all[MOST], n = fb_session_columns(app->session);
    for (int i = 0; i < n; i++)
        if (fb_session_column(app->session, i)->state == FB_COLUMN_BUILDING) return;
    app->first_measured = true;
    app->settled = false;
    drop_absent(app);
    drop_recorded(app);
    n = fb_session_columns(app->session);
    if (n > MOST) n = MOST;
    for (int i = 0; i < n; i++) all[i] = i;
    if (n && fb_session_auto(app->session)) fb_session_measure(app->session, all, n);
}

/* What a recording turns out not to hold is not here either. */
void fb_first_settle(fb_app *app)
{
    if (app->settled || !app->first_measured || fb_puzzle_waits(app)) return;
    drop_absent(app);
    app->settled = true;
    for (int i = 0; i < fb_session_columns(app->session); i++) {
        fb_column_state state = fb_session_column(app->session, i)->state;
        if (state == FB_COLUMN_BUILDING || state == FB_COLUMN_QUEUED || state == FB_COLUMN_MEASURING)
            app->settled = false;
    }
}
