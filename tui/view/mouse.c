/* The mouse: a click goes to the row, a click on that row opens it, the wheel moves the cursor; on a column's head it
 * chooses the column, on the bar of keys it is the key. */
#include "tui/view/ui.h"

#include <ncurses.h>

static bool inside(const fb_rect *r, int y, int x)
{
    return y >= r->y && y < r->y + r->h && x >= r->x && x < r->x + r->w;
}

/* The view under that place and its rectangle. */
static fb_view_id view_at(const fb_app *app, int y, int x, const fb_rect **r)
{
    *r = &app->layout.whole;
    if (app->n_over) return inside(*r, y, x) ? fb_app_view(app) : FB_VIEW_NONE;
    for (int p = 0; p < FB_PANES; p++) {
        *r = &app->layout.pane[p];
        if (inside(*r, y, x)) return (fb_view_id)p;
    }
    return FB_VIEW_NONE;
}

static void click(fb_app *app, int y, int x)
{
    const fb_rect *r;
    fb_view_id id = view_at(app, y, x, &r);
    if (inside(&app->layout.keys, y, x)) fb_bar_click(app, x - app->layout.keys.x);
    if (id == FB_VIEW_NONE) return;
    fb_scroll *s = &app->scroll[id];
    const fb_view *view = fb_view_at(id);
    int row = view->row_at ? view->row_at(app, y - r->y, x - r->x) : s->top + y - r->y - view->head;
    bool focused = fb_app_view(app) == id, again = focused && row == s->cursor;
    if (!app->n_over) app->focus = id;
    if (row < 0 || row >= view->count(app)) return;
    if (id == FB_VIEW_GRAPH && row != s->cursor) app->edge = 0;
    s->cursor = row;
    if (!again && view->moved) view->moved(app);
    if (again) fb_app_run(app, FB_CMD_ENTER, "");
}

static void wheel(fb_app *app, int y, int x, fb_cmd c)
{
    enum { ROWS = 3 };
    const fb_rect *r;
    fb_view_id id = view_at(app, y, x, &r);
    if (id == FB_VIEW_NONE) return;
    if (!app->n_over) app->focus = id;
    for (int i = 0; i < ROWS; i++) fb_app_run(app, c, "");
}

void fb_mouse(fb_app *app)
{
    MEVENT e;
    if (getmouse(&e) != OK || app->layout.too_small || app->prompt.kind) return;
    app->dirty = true;
    fb_str_clear(&app->message);
    if (e.bstate & BUTTON1_PRESSED) click(app, e.y, e.x);
    if (e.bstate & BUTTON4_PRESSED) wheel(app, e.y, e.x, FB_CMD_UP);
#ifdef BUTTON5_PRESSED
    if (e.bstate & BUTTON5_PRESSED) wheel(app, e.y, e.x, FB_CMD_DOWN);
#endif
}
