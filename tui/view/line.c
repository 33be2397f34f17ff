/* The command line at the bottom: running what was typed, finding rows. Completing is complete.c's. */
#include "base/near.h"
#include "tui/view/ui.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- finding ---- */

static bool row_holds(fb_app *app, const fb_view *view, int row)
{
    fb_str text = {0};
    view->text(app, row, &text);
    bool holds = fb_filter_holds(fb_str_get(&text), app->find);
    fb_str_free(&text);
    return holds;
}

void fb_view_find(fb_app *app, int step)
{
    fb_view_id id = fb_app_view(app);
    const fb_view *view = fb_view_at(id);
    fb_scroll *scroll = &app->scroll[id];
    int n = view->count(app);
    bool found = false;
    if (!*app->find) {
        fb_app_say(app, FB_ROLE_WARN, "nothing was looked for yet: / does");
        return;
    }
    if (!view->find && !view->text) {
        fb_app_say(app, FB_ROLE_WARN, "find: there is no list here");
        return;
    }
    if (view->find) {
        found = view->find(app, app->find, step);
    } else {
        for (int k = 1; k <= n && !found; k++) {
            int row = ((scroll->cursor + step * k) % n + n) % n;
            if (row_holds(app, view, row)) {
                scroll->cursor = row;
                found = true;
            }
        }
    }
    if (found && view->moved) view->moved(app);
    if (!found) fb_app_say(app, FB_ROLE_WARN, "no row here holds \"%s\"", app->find);
}

/* ---- running ---- */

static bool is_number(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isdigit((unsigned char)s[i])) return false;
    return n > 0;
}

/* The only command that begins with what was typed, or FB_CMD_NONE. */
static fb_cmd only_one(const char *name, size_t n)
{
    fb_cmd found = FB_CMD_NONE;
    for (int c = 0; c < FB_COMMANDS && n; c++) {
        if (strncmp(fb_cmd_get((fb_cmd)c)->name, name, n) != 0) continue;
        if (found != FB_CMD_NONE) return FB_CMD_NONE;
        found = (fb_cmd)c;
    }
    return found;
}

static void say_unknown(fb_app *app, const char *line, size_t n)
{
    const char *names[FB_COMMANDS], *near;
    char name[64];
    for (int c = 0; c < FB_COMMANDS; c++) names[c] = fb_cmd_get((fb_cmd)c)->name;
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), line);
    near = fb_nearest(name, names, FB_COMMANDS);
    if (near)
        fb_app_say(app, FB_ROLE_BAD, "no command \"%s\"; did you mean \"%s\"?", name, near);
    else
        fb_app_say(app, FB_ROLE_BAD, "no command \"%s\"; ? lists them", name);
}

void fb_line_run(fb_app *app, const char *line)
{
    line += strspn(line, " ");
    size_t n = strcspn(line, " ");
    const char *arg = line + n + strspn(line + n, " ");
    if (!n) return;
    if (is_number(line, n)) {
        char *number = fb_strdup(line);
        number[n] = '\0';
        fb_app_run(app, FB_CMD_COLUMN, number);
        fb_free(number);
        return;
    }
    fb_cmd c = fb_cmd_find(line, n);
    if (c == FB_CMD_NONE) c = only_one(line, n);
    if (c == FB_CMD_NONE) {
        say_unknown(app, line, n);
        return;
    }
    const fb_cmd_info *info = fb_cmd_get(c);
    char *clean = fb_strdup(arg);
    for (size_t end = strlen(clean); end && clean[end - 1] == ' ';) clean[--end] = '\0';
    if (*clean && !*info->args)
        fb_app_say(app, FB_ROLE_BAD, "%s takes nothing after it", info->name);
    else {
        app->by_prompt = true;
        fb_app_run(app, c, clean);
        app->by_prompt = false;
    }
    fb_free(clean);
}

const char *fb_line_ghost(fb_app *app)
{
    const char *line = fb_str_get(&app->prompt.text);
    size_t n = strlen(line);
    static char says[64];
    if (app->prompt.kind == '/') return fb_filter_says(app, says);
    if (app->prompt.kind != ':' || !n || line[n - 1] != ' ') return "";
    fb_cmd c = fb_cmd_find(line, n - 1);
    return c == FB_CMD_NONE ? "" : fb_cmd_get(c)->args;
}

void fb_line_key(fb_app *app, int key)
{
    char kind = app->prompt.kind;
    if (key == FB_KEY_TAB) {
        fb_line_complete(app);
        return;
    }
    fb_str_clear(&app->message);
    if (kind == '/' && fb_filter_move(app, key)) return;
    switch (fb_prompt_key(&app->prompt, key)) {
    case FB_PROMPT_GOES_ON:
        if (kind == '/') fb_filter_type(app, fb_str_get(&app->prompt.text));
        return;
    case FB_PROMPT_LEFT:
        fb_prompt_close(&app->prompt, false);
        if (kind == '/') fb_filter_ended(app, false);
        return;
    case FB_PROMPT_DONE: break;
    }
    char *typed = fb_strdup(fb_str_get(&app->prompt.text));
    fb_prompt_close(&app->prompt, true);
    if (kind == ':')
        fb_line_run(app, typed);
    else if (fb_filter_ended(app, true)) { /* the row that was chosen */
        snprintf(app->find, sizeof app->find, "%s", typed);
        if (fb_view_at(fb_app_view(app))->moved) fb_view_at(fb_app_view(app))->moved(app);
    } else if (*typed)
        fb_app_run(app, FB_CMD_FIND, typed);
    fb_free(typed);
}
