/* Typing after `/`: which rows of the view hold the text, and moving among them. */
#include "tui/view/filter.h"

#include "base/ascii.h"
#include "tui/view/ui.h"

#include <ctype.h>
#include <string.h>

/* ---- matching ---- */

/* The length of "[17]" at `name`; 0: there is no index. */
static size_t index_at(const char *name)
{
    size_t n = 1;
    if (*name != '[') return 0;
    while (isdigit((unsigned char)name[n])) n++;
    return n > 1 && name[n] == ']' ? n + 1 : 0;
}

static bool begins(const char *name, const char *text)
{
    while (*text) {
        size_t n = !strncmp(text, "[*]", 3) ? index_at(name) : 0;
        if (n) {
            name += n;
            text += 3;
        } else if (fb_ascii_lower(*name) != fb_ascii_lower(*text)) {
            return false;
        } else {
            name++;
            text++;
        }
    }
    return true;
}

bool fb_filter_holds(const char *name, const char *text)
{
    if (!*text) return true;
    for (; *name; name++)
        if (begins(name, text)) return true;
    return false;
}

static bool row_holds(fb_app *app, const fb_view *view, int row, const char *text)
{
    if (view->holds) return view->holds(app, row, text);
    fb_str all = {0};
    view->text(app, row, &all);
    bool holds = fb_filter_holds(fb_str_get(&all), text);
    fb_str_free(&all);
    return holds;
}

/* ---- its course ---- */

static fb_scroll *scroll_of(fb_app *app)
{
    return &app->scroll[app->filter.view];
}

void fb_filter_begin(fb_app *app)
{
    fb_filter *f = &app->filter;
    fb_view_id id = fb_app_view(app);
    const fb_view *view = fb_view_at(id);
    f->view = view->text || view->holds ? id : FB_VIEW_NONE;
    f->typed = f->moved = false;
    f->rows.n = f->top = 0;
    if (f->view == FB_VIEW_NONE) return;
    f->cursor_before = scroll_of(app)->cursor;
    f->top_before = scroll_of(app)->top;
    f->edge = app->edge;
}

static void back(fb_app *app)
{
    scroll_of(app)->cursor = app->filter.cursor_before;
    scroll_of(app)->top = app->filter.top_before;
    app->edge = app->filter.edge;
}

void fb_filter_type(fb_app *app, const char *text)
{
    fb_filter *f = &app->filter;
    if (f->view == FB_VIEW_NONE) return;
    const fb_view *view = fb_view_at((fb_view_id)f->view);
    back(app);
    f->typed = *text;
    f->moved = false;
    f->rows.n = f->top = 0;
    f->all = view->count(app);
    int first = FB_NONE;
    for (int i = 0; i < f->all && f->typed; i++) {
        if (!row_holds(app, view, i, text)) continue;
        if (first == FB_NONE && i > f->cursor_before) first = i;
        FB_VEC_PUSH(&f->rows, i);
    }
    if (!f->rows.n) return;
    scroll_of(app)->cursor = first == FB_NONE ? f->rows.at[0] : first;
    if (f->view == FB_VIEW_GRAPH) app->edge = 0;
}

bool fb_filter_ended(fb_app *app, bool keep)
{
    fb_filter *f = &app->filter;
    bool moved = f->view != FB_VIEW_NONE && f->moved;
    if (f->view != FB_VIEW_NONE && !(keep && moved)) back(app);
    f->view = FB_VIEW_NONE;
    return moved;
}

/* ---- the rows that are left ---- */

static bool works(const fb_app *app, fb_view_id id)
{
    return app->filter.view == (int)id && app->filter.typed;
}

static int place_of(const fb_app *app)
{
    const fb_filter *f = &app->filter;
    for (int i = 0; i < f->rows.n; i++)
        if (f->rows.at[i] == app->scroll[f->view].cursor) return i;
    return 0;
}

bool fb_filter_move(fb_app *app, int key)
{
    fb_filter *f = &app->filter;
    fb_cmd c = fb_cmd_of_key(key);
    if (key < FB_KEY_UP || f->view == FB_VIEW_NONE || !works(app, (fb_view_id)f->view) || !f->rows.n) return false;
    if (c != FB_CMD_DOWN && c != FB_CMD_UP && c != FB_CMD_PAGE_DOWN && c != FB_CMD_PAGE_UP) return false;
    fb_scroll among = {.cursor = place_of(app), .top = f->top};
    fb_scroll_command(&among, f->rows.n, app->layout.whole.h > 0 ? app->layout.whole.h : 10, c);
    scroll_of(app)->cursor = f->rows.at[among.cursor];
    f->moved = true;
    app->edge = 0;
    return true;
}

void fb_filter_fit(fb_app *app, fb_view_id id, int h)
{
    if (!works(app, id)) return;
    fb_scroll among = {.cursor = place_of(app), .top = app->filter.top};
    fb_scroll_fit(&among, app->filter.rows.n, h);
    app->filter.top = among.top;
}

int fb_shown_row(const fb_app *app, fb_view_id id, int y, int n)
{
    const fb_filter *f = &app->filter;
    int row = app->scroll[id].top + y;
    if (!works(app, id)) return row < n ? row : FB_NONE;
    row = f->top + y < f->rows.n ? f->rows.at[f->top + y] : FB_NONE;
    return row < n ? row : FB_NONE;
}

bool fb_filter_shows(const fb_app *app, fb_view_id id, int row)
{
    const fb_filter *f = &app->filter;
    bool shown = !works(app, id);
    for (int i = 0; i < f->rows.n && !shown; i++) shown = f->rows.at[i] == row;
    return shown;
}

const char *fb_filter_says(const fb_app *app, char to[64])
{
    const fb_filter *f = &app->filter;
    *to = '\0';
    if (f->view == FB_VIEW_NONE)
        snprintf(to, 64, "  Enter finds it");
    else if (!f->typed)
        snprintf(to, 64, "  only rows that hold the text are shown");
    else
        snprintf(to, 64, "  %d of %d rows · Up Down choose", f->rows.n, f->all);
    return to;
}
