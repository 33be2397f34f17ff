/* The bar of keys at the bottom: what works in the view that has the keys. A click on one of them is the key. */
#include "tui/view/ui.h"

#include <stdio.h>
#include <string.h>

/* Those of the workbench worth a place, in the order of the table, by the pane that has the keys. */
static bool belongs(fb_view_id id, fb_cmd c)
{
    if (c == FB_CMD_BACK) return false;
    if (c == FB_CMD_ENTER) return id == FB_VIEW_GRAPH || id == FB_VIEW_KERNELS;
    return fb_cmd_get(c)->section != FB_SECTION_EDIT || id == FB_VIEW_GRAPH;
}

/* A hint that names its key itself ("/ find") has it as its first word. */
static void parts(const fb_cmd_info *info, const char *hint, char key[16], const char **what)
{
    const char *blank = strrchr(hint, ' ');
    *what = blank ? blank + 1 : hint;
    snprintf(key, 16, "%.*s", (int)(blank ? (size_t)(blank - hint) : strcspn(info->keys, " ")),
             blank ? hint : info->keys);
}

static void put(fb_app *app, int *x, fb_cmd c, const char *hint, int room)
{
    const fb_rect *r = &app->layout.keys;
    char key[16];
    const char *what;
    if (!*hint || app->bar.n == FB_BAR_KEYS) return;
    parts(fb_cmd_get(c), hint, key, &what);
    if (*x + fb_draw_text_width(key) + 1 + fb_draw_text_width(what) > r->w - room) return;
    bool off = fb_app_why_not(app, c) != NULL;
    int from = *x, at = fb_draw(r, 0, *x, off ? FB_ROLE_OFF : FB_ROLE_KEY, key);
    at = fb_draw(r, 0, at + 1, off ? FB_ROLE_OFF : FB_ROLE_DIM, what);
    app->bar.at[app->bar.n++] = (fb_bar_key){c, from, at};
    *x = at + 2;
}

static const char *hint_of(fb_cmd c)
{
    return fb_cmd_get(c)->hint;
}

void fb_bar_draw(fb_app *app)
{
    enum { LAST = 18 }; /* cells kept for the last two */
    fb_view_id id = fb_app_view(app);
    const fb_view_key *own = (int)id < FB_PANES ? NULL : fb_view_at(id)->keys;
    bool bare = id == FB_VIEW_LIST && !app->path; /* there q leaves, and there is nothing to go back to */
    int x = 1;
    app->bar.n = 0;
    for (; own && own->command != FB_CMD_NONE; own++) put(app, &x, own->command, own->hint, LAST + 8);
    for (int c = 0; c < FB_COMMANDS && (int)id < FB_PANES; c++)
        if (c != FB_CMD_HELP && c != FB_CMD_CLOSE && belongs(id, (fb_cmd)c))
            put(app, &x, (fb_cmd)c, hint_of((fb_cmd)c), LAST);
    if ((int)id >= FB_PANES) put(app, &x, FB_CMD_FIND, hint_of(FB_CMD_FIND), LAST);
    put(app, &x, FB_CMD_HELP, hint_of(FB_CMD_HELP), 0);
    put(app, &x, (int)id < FB_PANES || bare ? FB_CMD_CLOSE : FB_CMD_BACK,
        hint_of((int)id < FB_PANES || bare ? FB_CMD_CLOSE : FB_CMD_BACK), 0);
}

bool fb_bar_click(fb_app *app, int x)
{
    for (int i = 0; i < app->bar.n; i++) {
        const fb_bar_key *k = &app->bar.at[i];
        if (x < k->from || x >= k->to) continue;
        char next[16];
        int n = fb_session_columns(app->session);
        snprintf(next, sizeof next, "%d", n ? (app->column + 1) % n + 1 : 1); /* "1-9": the next column */
        fb_app_run(app, k->command, k->command == FB_CMD_COLUMN ? next : "");
        return true;
    }
    return false;
}
