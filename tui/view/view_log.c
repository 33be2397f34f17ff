/* The log: what the script printed, what was dropped, why a worker ended. */
#include "tui/view/ui.h"

static int count(fb_app *app)
{
    return fb_session_log_lines(app->session);
}

static void opened(fb_app *app)
{
    int n = count(app);
    app->scroll[FB_VIEW_LOG] = (fb_scroll){.cursor = n ? n - 1 : 0};
}

static void title(fb_app *app, fb_str *out)
{
    (void)app;
    fb_str_add(out, "log");
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    const fb_scroll *s = &app->scroll[FB_VIEW_LOG];
    if (!count(app)) fb_draw(r, 1, 2, FB_ROLE_DIM, "nothing was said so far");
    for (int y = 0, row; y < r->h && (row = fb_shown_row(app, FB_VIEW_LOG, y, count(app))) != FB_NONE; y++) {
        fb_row_ground(app, FB_VIEW_LOG, r, y, row, focused);
        fb_draw(r, y, 1 - s->left, FB_ROLE_TEXT, fb_session_log_line(app->session, row));
    }
}

static void text(fb_app *app, int row, fb_str *out)
{
    fb_str_add(out, fb_session_log_line(app->session, row));
}

static void explain(fb_app *app, fb_hint *hint)
{
    int at = app->scroll[FB_VIEW_LOG].cursor;
    if (at < count(app)) fb_str_add(&hint->line[0], fb_session_log_line(app->session, at)); /* long lines in full */
}

static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    enum { STEP = 8 };
    fb_scroll *s = &app->scroll[FB_VIEW_LOG];
    (void)arg;
    if (c == FB_CMD_RIGHT)
        s->left += STEP;
    else if (c == FB_CMD_LEFT)
        s->left -= s->left >= STEP ? STEP : s->left;
    else
        return false;
    return true;
}

static const fb_view_key keys[] = {
    {FB_CMD_LEFT, "", "the beginning of long lines"},
    {FB_CMD_RIGHT, "", "the end of long lines"},
    {FB_CMD_NONE, NULL, NULL},
};

const fb_view fb_view_log = {
    .title = title,
    .count = count,
    .draw = draw,
    .text = text,
    .explain = explain,
    .command = command,
    .opened = opened,
    .keys = keys,
    .about = "What the script printed, and what happened in the background: what could not be kept after a "
             "change, which worker ended, and why.",
};
