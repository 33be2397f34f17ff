/* The start list: puzzlers, models, lessons and recent files. */
#include "session/library.h"
#include "session/progress.h"
#include "tui/view/ui.h"

#include <string.h>

typedef struct {
    const char *kind; /* "puzzlers", "models", "lessons", "recent" */
    const char *path, *name, *title;
    bool first; /* of its kind */
    int order;  /* of its puzzle; 0: none */
    fb_puzzle_state state;
} item;

typedef struct {
    int n, puzzlers, done;
    item *items;
} list;

static list *state(fb_app *app)
{
    return app->state[FB_VIEW_LIST];
}

static void opened(fb_app *app)
{
    list *l = fb_view_state(app, FB_VIEW_LIST, sizeof *l);
    fb_arena *arena = app->arena[FB_VIEW_LIST];
    const fb_bundled *bundled;
    const char **recent;
    fb_puzzles progress;
    fb_puzzles_read(arena, &progress);
    int nb = fb_bundled_list(arena, &bundled), nr = fb_recent_list(arena, &recent);
    l->items = FB_NEW_ARRAY(arena, item, nb + nr + 1);
    for (int i = 0; i < nb; i++) {
        const fb_bundled *b = &bundled[i];
        bool puzzler = !strcmp(b->kind, "puzzlers");
        fb_puzzle_state state = puzzler ? fb_puzzles_of(&progress, b->path) : FB_PUZZLE_NEW;
        if (!strcmp(b->kind, "lib")) continue;
        l->items[l->n++] = (item){b->kind, b->path, b->name, b->title, false, b->order, state};
        l->puzzlers += puzzler;
        l->done += state == FB_PUZZLE_DONE;
    }
    for (int i = 0; i < nr; i++) {
        const char *slash = strrchr(recent[i], '/');
        l->items[l->n++] =
            (item){"recent", recent[i], slash ? slash + 1 : recent[i], recent[i], false, 0, FB_PUZZLE_NEW};
    }
    for (int i = 0; i < l->n; i++) l->items[i].first = !i || strcmp(l->items[i].kind, l->items[i - 1].kind) != 0;
    fb_scroll_fit(&app->scroll[FB_VIEW_LIST], l->n, 1);
}

static void title(fb_app *app, fb_str *out)
{
    const list *l = state(app);
    fb_str_add(out, "puzzlers, models, lessons, recent files");
    if (l && l->done) fb_str_addf(out, " · %d of %d puzzles solved", l->done, l->puzzlers);
}

/* What was recorded on other machines, for those that have no GPU. */
static void add_recordings(const fb_app *app, fb_str *out)
{
    const json_t *devices = fb_session_devices(app->session), *device;
    size_t i;
    json_array_foreach(devices, i, device)
    {
        const char *name = json_string_value(json_object_get(device, "device"));
        if (name && !strncmp(name, "replay:", 7)) fb_str_addf(out, "%s%s", out->n ? ", " : "", name);
    }
}

static int count(fb_app *app)
{
    return state(app) ? state(app)->n : 0;
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    enum { KIND = 2, SIGN = 12, NAME = 15, TITLE = 39 };
    static const char *const signs[] = {[FB_PUZZLE_TRIED] = "◐", [FB_PUZZLE_DONE] = "✓"};
    const list *l = state(app);
    const char *kind = NULL; /* of the line above */
    if (!l->n) fb_draw(r, 1, 2, FB_ROLE_DIM, "nothing here yet: `fusebox new FILE` writes a script to start from");
    for (int y = 0, row; y < r->h && (row = fb_shown_row(app, FB_VIEW_LIST, y, l->n)) != FB_NONE; y++) {
        const item *it = &l->items[row];
        fb_row_ground(app, FB_VIEW_LIST, r, y, row, focused);
        if (it->first || !y || kind != it->kind) fb_draw_cut(r, y, KIND, SIGN - KIND - 1, FB_ROLE_FOCUS, it->kind);
        kind = it->kind;
        if (it->state >= FB_PUZZLE_TRIED)
            fb_draw(r, y, SIGN, it->state == FB_PUZZLE_DONE ? FB_ROLE_GOOD : FB_ROLE_WARN, signs[it->state]);
        if (it->order) fb_drawf(r, y, NAME - 1, FB_ROLE_DIM, "%2d", it->order);
        fb_draw_cut(r, y, NAME + 2, TITLE - NAME - 3, FB_ROLE_STRONG, it->name);
        fb_draw_cut(r, y, TITLE, r->w - TITLE - 1, FB_ROLE_DIM, it->title);
    }
}

static void text(fb_app *app, int row, fb_str *out)
{
    fb_str_addf(out, "%s %s", state(app)->items[row].name, state(app)->items[row].title);
}

static void explain(fb_app *app, fb_hint *hint)
{
    int at = app->scroll[FB_VIEW_LIST].cursor;
    fb_str_add(&hint->title, "open");
    if (at < count(app)) fb_str_addf(&hint->line[0], "Enter opens %s", state(app)->items[at].path);
    if (at < count(app) && state(app)->items[at].state >= FB_PUZZLE_TRIED)
        fb_str_addf(&hint->line[0], " · %s",
                    state(app)->items[at].state == FB_PUZZLE_DONE ? "solved" : "tried, not solved yet");
    fb_str recordings = {0};
    add_recordings(app, &recordings);
    if (recordings.n)
        fb_str_addf(&hint->line[1], "without a GPU: fusebox --device %s shows what was recorded on one · ",
                    fb_str_get(&recordings));
    fb_str_free(&recordings);
    fb_str_add(&hint->line[1], ":open FILE opens any script or graph in JSON");
}

static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    int at = app->scroll[FB_VIEW_LIST].cursor;
    (void)arg;
    if (c != FB_CMD_ENTER || at >= count(app)) return false;
    app->from_list = true;
    fb_app_open(app, state(app)->items[at].path);
    return true;
}

static const fb_view_key keys[] = {
    {FB_CMD_ENTER, "open", "open the script"},
    {FB_CMD_NONE, NULL, NULL},
};

const fb_view fb_view_list = {
    .title = title,
    .count = count,
    .draw = draw,
    .text = text,
    .explain = explain,
    .command = command,
    .opened = opened,
    .keys = keys,
    .about = "Scripts that come with fusebox, and those you opened lately. A puzzler asks a question about two "
             "plans: you predict, then it is measured. A model shows a larger program. A lesson is "
             "pages of text, each with a script that it works with.",
};
