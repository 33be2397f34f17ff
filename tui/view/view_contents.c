/* The table of contents of a lesson. */
#include "tui/view/ui.h"

#include <math.h>

static int count(fb_app *app)
{
    const fb_lesson *l = fb_lesson_of(app);
    return l ? l->n_pages : 0;
}

static void opened(fb_app *app)
{
    app->scroll[FB_VIEW_CONTENTS] = (fb_scroll){.cursor = app->lesson.page};
}

static void title(fb_app *app, fb_str *out)
{
    const fb_lesson *l = fb_lesson_of(app);
    double minutes = 0;
    if (!l) return;
    for (int i = 0; i < l->n_pages; i++)
        if (isfinite(l->pages[i].minutes)) minutes += l->pages[i].minutes;
    fb_str_addf(out, "contents · %s", app->lesson.info->title);
    if (minutes > 0) fb_str_addf(out, " · %g minutes", minutes);
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    enum { NUMBER = 2, SIGN = 6, TITLE = 8, SCRIPT = 24, MINUTES = 7 };
    const fb_lesson *l = fb_lesson_of(app);
    for (int y = 0, row; y < r->h && (row = fb_shown_row(app, FB_VIEW_CONTENTS, y, count(app))) != FB_NONE; y++) {
        const fb_lesson_page *p = &l->pages[row];
        bool here = row == app->lesson.page;
        fb_row_ground(app, FB_VIEW_CONTENTS, r, y, row, focused);
        fb_drawf(r, y, NUMBER, FB_ROLE_DIM, "%3d", row + 1);
        if (here) fb_draw(r, y, SIGN, FB_ROLE_FOCUS, "▸");
        fb_draw_cut(r, y, TITLE, r->w - TITLE - SCRIPT - MINUTES - 2, here ? FB_ROLE_FOCUS : FB_ROLE_STRONG, p->title);
        if (p->script)
            fb_draw_cut(r, y, r->w - SCRIPT - MINUTES - 1, SCRIPT, p->puzzle ? FB_ROLE_KEY : FB_ROLE_DIM, p->script);
        if (isfinite(p->minutes)) {
            char text[32];
            snprintf(text, sizeof text, "%g min", p->minutes);
            fb_draw_right(r, y, r->w - 1, FB_ROLE_DIM, text);
        }
    }
}

static void text(fb_app *app, int row, fb_str *out)
{
    fb_str_add(out, fb_lesson_of(app)->pages[row].title);
}

static void explain(fb_app *app, fb_hint *hint)
{
    int at = app->scroll[FB_VIEW_CONTENTS].cursor;
    if (at >= count(app)) return;
    const fb_lesson_page *p = &fb_lesson_of(app)->pages[at];
    fb_str_addf(&hint->title, "page %d", at + 1);
    fb_str_addf(&hint->line[0], "Enter goes there%s%s",
                p->puzzle   ? ": a puzzle, "
                : p->script ? ": with "
                            : "",
                p->script ? p->script : "");
}

static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    int at = app->scroll[FB_VIEW_CONTENTS].cursor;
    (void)arg;
    if (c != FB_CMD_ENTER || at >= count(app)) return false;
    fb_app_hide(app);
    if (at == app->lesson.page)
        fb_lesson_show(app);
    else
        fb_lesson_go(app, at);
    return true;
}

static const fb_view_key keys[] = {
    {FB_CMD_ENTER, "open", "go to the page"},
    {FB_CMD_NONE, NULL, NULL},
};

const fb_view fb_view_contents = {
    .title = title,
    .count = count,
    .draw = draw,
    .text = text,
    .explain = explain,
    .command = command,
    .opened = opened,
    .keys = keys,
    .about =
        "The pages of the lesson, with the script that each of them opens and the minutes that it is meant to take.",
};
