/* What commands do to columns: their variant, plan and device, adding and dropping, measuring, parameters, files. */
#include "base/json.h"
#include "tui/view/actions.h"

#include <stdlib.h>
#include <string.h>

static void told(fb_app *app, bool good, const fb_error *err)
{
    app->touched |= good;
    if (!good) fb_app_say(app, FB_ROLE_BAD, "%s", err->text);
    fb_model_update(app);
}

void fb_do_variant(fb_app *app, const char *arg)
{
    const fb_script_info *info = fb_session_script(app->session);
    fb_error err = {0};
    if (info->n_variants < 2) {
        fb_app_say(app, FB_ROLE_WARN, "the script is a single model: it has no variants");
        return;
    }
    for (int i = 0; i < info->n_variants && !*arg; i++)
        if (!strcmp(info->variants[i], app->model.column->variant)) {
            arg = info->variants[(i + 1) % info->n_variants];
            break;
        }
    told(app, fb_session_set_variant(app->session, app->column, arg, &err), &err);
}

/* What would tell the answer of a puzzle. */
static bool hidden(fb_app *app, const char *spec)
{
    if (!fb_puzzle_hides(app, spec)) return false;
    fb_app_say(app, FB_ROLE_WARN, "hidden until the puzzle is answered: t shows it");
    return true;
}

/* The command waits for its word at the prompt; what there is to choose from is shown. */
static void ask(fb_app *app, const char *line)
{
    fb_prompt_open(&app->prompt, ':', line);
    fb_line_complete(app);
}

void fb_do_plan(fb_app *app, const char *arg)
{
    fb_error err = {0};
    if (!*arg)
        ask(app, "plan ");
    else if (!hidden(app, arg))
        told(app, fb_session_set_plan(app->session, app->column, arg, &err), &err);
}

void fb_do_search(fb_app *app, const char *arg)
{
    (void)arg;
    fb_error err = {0};
    if (!hidden(app, FB_SEARCH_NAME)) told(app, fb_session_search(app->session, app->column, &err), &err);
}

void fb_do_device(fb_app *app, const char *arg)
{
    fb_error err = {0};
    if (!*arg)
        ask(app, "device ");
    else
        told(app, fb_session_set_device(app->session, app->column, arg, &err), &err);
}

void fb_do_add(fb_app *app, const char *arg)
{
    fb_error err = {0};
    if (!*arg) {
        ask(app, "add ");
        return;
    }
    if (hidden(app, arg)) return;
    int at = fb_session_add(app->session, arg, &err);
    if (at >= 0) {
        app->column = at;
        app->first_measured = false; /* it joins the measurement once it is there */
    }
    told(app, at >= 0, &err);
}

void fb_do_copy(fb_app *app, const char *arg)
{
    (void)arg;
    int at = fb_session_duplicate(app->session, app->column);
    if (at >= 0) app->column = at;
    app->touched |= at >= 0;
    fb_model_update(app);
}

void fb_do_drop(fb_app *app, const char *arg)
{
    (void)arg;
    fb_keep_drop(app, app->column);
    fb_model_update(app);
}

void fb_do_fresh(fb_app *app, const char *arg)
{
    (void)arg;
    fb_app_fresh_columns(app);
    fb_app_say(app, FB_ROLE_DIM, "the script's own columns: u brings yours back");
    fb_model_update(app);
}

static void move_column(fb_app *app, int step)
{
    int to = app->column + step;
    if (to < 0 || to >= fb_session_columns(app->session)) return;
    fb_session_move(app->session, app->column, to);
    app->column = to;
    app->touched = true;
    fb_model_update(app);
}

void fb_do_move_left(fb_app *app, const char *arg)
{
    (void)arg;
    move_column(app, -1);
}

void fb_do_move_right(fb_app *app, const char *arg)
{
    (void)arg;
    move_column(app, 1);
}

void fb_do_column(fb_app *app, const char *arg)
{
    int at = atoi(arg), n = fb_session_columns(app->session);
    if (at < 1 || at > n) {
        fb_app_say(app, FB_ROLE_WARN, "no column %s: there %s %d", arg, n == 1 ? "is" : "are", n);
        return;
    }
    app->column = at - 1;
    fb_model_update(app);
}

void fb_do_measure(fb_app *app, const char *arg)
{
    (void)arg;
    int n = fb_session_columns(app->session);
    int *all = fb_calloc((size_t)n + 1, sizeof *all);
    for (int i = 0; i < n; i++) all[i] = i;
    fb_session_measure(app->session, all, n);
    fb_free(all);
}

void fb_do_automatic(fb_app *app, const char *arg)
{
    (void)arg;
    bool on = !fb_session_auto(app->session);
    fb_session_set_auto(app->session, on);
    fb_app_say(app, FB_ROLE_DIM, on ? "each edit is measured by itself" : "nothing is measured before you press m");
}

void fb_do_cancel(fb_app *app, const char *arg)
{
    (void)arg;
    fb_session_cancel(app->session);
    fb_app_say(app, FB_ROLE_DIM, "cancelled");
}

void fb_do_calibrate(fb_app *app, const char *arg)
{
    (void)arg;
    fb_error err = {0};
    const char *device = app->model.column->device;
    bool good = fb_session_calibrate(app->session, device, &err) != 0;
    if (good) fb_app_say(app, FB_ROLE_DIM, "calibrating %s: a few seconds; what is measured meanwhile waits", device);
    if (!good) told(app, good, &err);
}

/* A value as typed: what JSON takes for a value is one; anything else is a word. */
void fb_do_set(fb_app *app, const char *arg)
{
    const char *equals = strchr(arg, '=');
    fb_error err = {0};
    if (!*arg) {
        ask(app, "set ");
        return;
    }
    if (!equals || equals == arg) {
        fb_app_say(app, FB_ROLE_WARN, "set takes name=value");
        return;
    }
    char *name = fb_strdup(arg);
    name[equals - arg] = '\0';
    json_t *value = json_loads(equals + 1, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    if (!value) value = json_string(equals + 1);
    bool good = value ? fb_session_set_param(app->session, name, value, &err)
                      : fb_fail(&err, FB_ERR_INPUT, "the value of %s is not text", name);
    const bool touched = app->touched; /* the columns are what they were */
    told(app, good, &err);
    app->touched = touched;
    app->params_set |= good;
    json_decref(value);
    fb_free(name);
}

void fb_do_export(fb_app *app, const char *arg)
{
    if (!*arg)
        fb_prompt_open(&app->prompt, ':', "export ");
    else
        fb_view_export(app, arg);
}

void fb_do_save(fb_app *app, const char *arg)
{
    fb_error err = {0};
    if (!*arg)
        fb_prompt_open(&app->prompt, ':', "save ");
    else if (fb_session_save_plan(app->session, app->column, arg, &err))
        fb_app_say(app, FB_ROLE_GOOD, "saved in %s", arg);
    else
        fb_app_say(app, FB_ROLE_BAD, "%s", err.text);
}
