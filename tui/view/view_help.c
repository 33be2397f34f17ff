/* Help: the keys of the view it was called from, then every command of the table, with its keys, and why it cannot be
 * used just now. Then what the signs mean. */
#include "tui/view/ui.h"

#include <string.h>

typedef struct {
    const char *text; /* a heading, or NULL for a command */
    fb_cmd command;
    const char *help;           /* of the command there */
    const char *sign, *meaning; /* both NULL: none */
} line;

static const struct {
    const char *sign, *meaning;
} signs[] = {
    {"a b c", "kernels: rows with one letter share one; a+ holds several"},
    {"┏ ┃ ┗", "the kernels that the last edit made, until the next key"},
    {"● ○ ✗ ◐", "a row's edges from above: fused, cut, cannot be fused, some of each"},
    {"◆ ╭─ ╰▸", "the rail: the row under the cursor, what it reads, who reads it"},
    {"*", "a marked row: Space makes one kernel of them"},
    {"×16", "repetitions shown as one line; what is done there is done to all"},
    {"~", "predicted by the cost model, not measured"},
    {"≈", "composed of recorded kernels and launch costs"},
    {"…", "on its way, or cut where there is no room"},
    {"→ ← ↓", "there is more in that direction"},
    {"!", "a kernel that moved over 1.2 × what is modelled; the line below says why"},
    {"measured", "figures of this plan, measured here"},
    {"recorded", "figures of this plan from a recording of another machine; composed: of its kernels; stale: source "
                 "that has changed since"},
    {"same, ?", "within 2 %; cannot be told from the samples there are"},
};
enum {
    SIGNS = sizeof signs / sizeof *signs,
    OWN_MAX = 24,
    LINES_MAX = FB_COMMANDS + SIGNS + OWN_MAX + 3 * (FB_SECTIONS + 2)
};

typedef struct {
    int n;
    line lines[LINES_MAX];
} help;

static void add(help *h, line l)
{
    h->lines[h->n++] = l;
}

/* What lies below the help. */
static fb_view_id below(const fb_app *app)
{
    return app->n_over > 1 ? app->over[app->n_over - 2] : app->focus;
}

/* "In the graph", by the first words of its title. */
static void add_own(fb_app *app, help *h)
{
    const fb_view *view = fb_view_at(below(app));
    fb_str title = {0};
    if (!view->keys) return;
    view->title(app, &title);
    const char *dot = strstr(fb_str_get(&title), " · ");
    add(h,
        (line){.text = fb_arena_printf(app->arena[FB_VIEW_HELP], "Here: %.*s",
                                       (int)(dot ? (size_t)(dot - fb_str_get(&title)) : title.n), fb_str_get(&title))});
    fb_str_free(&title);
    for (int i = 0; i < OWN_MAX && view->keys[i].command != FB_CMD_NONE; i++)
        add(h, (line){.command = view->keys[i].command, .help = view->keys[i].help});
    add(h, (line){.text = ""});
}

static void opened(fb_app *app)
{
    help *h = fb_view_state(app, FB_VIEW_HELP, sizeof *h);
    app->scroll[FB_VIEW_HELP] = (fb_scroll){.cursor = 1};
    add_own(app, h);
    for (int s = 0; s < FB_SECTIONS; s++) {
        if (s) add(h, (line){.text = ""});
        add(h, (line){.text = fb_command_section_name((fb_section)s)});
        for (int c = 0; c < FB_COMMANDS; c++)
            if (fb_cmd_get((fb_cmd)c)->section == (fb_section)s)
                add(h, (line){.command = (fb_cmd)c, .help = fb_cmd_get((fb_cmd)c)->help});
    }
    add(h, (line){.text = ""});
    add(h, (line){.text = "Signs"});
    for (int i = 0; i < SIGNS; i++) add(h, (line){.sign = signs[i].sign, .meaning = signs[i].meaning});
}

static void title(fb_app *app, fb_str *out)
{
    (void)app;
    fb_str_add(out, "help");
}

static int count(fb_app *app)
{
    const help *h = app->state[FB_VIEW_HELP];
    return h ? h->n : 0;
}

/* The view that help was called from decides what works: it lies below. */
static const char *why_not(fb_app *app, fb_cmd c)
{
    int over = app->n_over;
    app->n_over = over - (fb_app_view(app) == FB_VIEW_HELP);
    const char *why = fb_app_why_not(app, c);
    app->n_over = over;
    return why;
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    enum { KEYS = 2, NAME = 14, TEXT = 29 };
    const help *h = app->state[FB_VIEW_HELP];
    for (int y = 0, row; y < r->h && (row = fb_shown_row(app, FB_VIEW_HELP, y, h->n)) != FB_NONE; y++) {
        const line *l = &h->lines[row];
        fb_row_ground(app, FB_VIEW_HELP, r, y, row, focused);
        if (l->text) {
            fb_draw(r, y, KEYS - 1, FB_ROLE_FOCUS, l->text);
        } else if (l->sign) {
            fb_draw(r, y, KEYS, FB_ROLE_KEY, l->sign);
            fb_draw_cut(r, y, NAME, r->w - NAME, FB_ROLE_TEXT, l->meaning);
        } else {
            const fb_cmd_info *info = fb_cmd_get(l->command);
            bool off = why_not(app, l->command) != NULL;
            fb_draw_cut(r, y, KEYS, NAME - KEYS - 1, off ? FB_ROLE_OFF : FB_ROLE_KEY, info->keys);
            fb_draw_cut(r, y, NAME, TEXT - NAME - 1, off ? FB_ROLE_OFF : FB_ROLE_STRONG, info->name);
            fb_draw_cut(r, y, TEXT, r->w - TEXT, off ? FB_ROLE_OFF : FB_ROLE_TEXT, l->help);
        }
    }
}

static void text(fb_app *app, int row, fb_str *out)
{
    const line *l = &((const help *)app->state[FB_VIEW_HELP])->lines[row];
    if (l->text)
        fb_str_add(out, l->text);
    else if (l->sign)
        fb_str_addf(out, "%s %s", l->sign, l->meaning);
    else
        fb_str_addf(out, "%s %s", fb_cmd_get(l->command)->name, l->help);
}

static void explain(fb_app *app, fb_hint *hint)
{
    const help *h = app->state[FB_VIEW_HELP];
    int at = app->scroll[FB_VIEW_HELP].cursor;
    if (at >= h->n || h->lines[at].text || h->lines[at].sign) return;
    const fb_cmd_info *info = fb_cmd_get(h->lines[at].command);
    const char *why = why_not(app, h->lines[at].command);
    fb_str_addf(&hint->title, ":%s%s%s", info->name, *info->args ? " " : "", info->args);
    fb_str_add(&hint->line[0], h->lines[at].help);
    if (why) fb_str_addf(&hint->line[1], "off now: %s", why);
}

static const fb_view_key keys[] = {
    {FB_CMD_ABOUT, "in words", "the view in plain words, and a glossary"},
    {FB_CMD_NONE, NULL, NULL},
};

const fb_view fb_view_help = {
    .title = title,
    .count = count,
    .draw = draw,
    .text = text,
    .explain = explain,
    .opened = opened,
    .keys = keys,
    .about = "Every key, and what it does. First those that do something of their own in the view you came "
             "from. Commands in grey do not work just now; the box below says why.",
};
