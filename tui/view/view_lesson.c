/* A page of a lesson: its text, at wide screens in the graph's place with the columns beside, else over all panes. What
 * would give a puzzle's or a question's answer away is hidden until it is asked for. */
#include "tui/view/lesson_page.h"
#include "tui/view/ui.h"

#include <math.h>
#include <string.h>

enum { SIDE = 1, WIDEST = 84 };

typedef struct {
    fb_lesson_lines lines;
} page;

static page *state(fb_app *app)
{
    return app->state[FB_VIEW_LESSON];
}

static void drop_lines(void *p)
{
    fb_lesson_lines_free(&((page *)p)->lines);
}

static void title(fb_app *app, fb_str *out)
{
    const fb_lesson *l = fb_lesson_of(app);
    if (!l) return;
    fb_str_addf(out, "page %d of %d · %s", app->lesson.page + 1, l->n_pages, fb_lesson_now(app)->title);
}

/* ---- the page as lines ---- */

static void add_heading(fb_lesson_lines *l, fb_arena *a, fb_role role, const char *text)
{
    fb_lesson_add_line(l, a, 0, FB_ROLE_TEXT, "");
    fb_lesson_add_line(l, a, SIDE, role, text);
}

static void add_puzzle(fb_app *app, fb_lesson_lines *l, fb_arena *a, int width)
{
    const fb_puzzle *z = fb_puzzle_of(app);
    if (!z) return;
    bool answered = app->puzzle.stage == FB_PUZZLE_ANSWERED;
    add_heading(l, a, FB_ROLE_TITLE, answered ? "The puzzle, answered" : "A puzzle");
    fb_lesson_add_words(l, a, SIDE, width, FB_ROLE_STRONG, z->ask);
    fb_lesson_add_words(l, a, SIDE, width, FB_ROLE_KEY, answered ? "Enter shows it again" : "Enter asks it");
}

static void add_answer(fb_app *app, fb_lesson_lines *l, fb_arena *a, int width)
{
    const fb_lesson_page *p = fb_lesson_now(app);
    if (!p->answer) return;
    add_heading(l, a, FB_ROLE_GOOD, "Answer");
    if (app->lesson.answers)
        fb_lesson_add(l, a, p->answer, SIDE, width, FB_ROLE_TEXT);
    else
        fb_lesson_add_words(l, a, SIDE, width, FB_ROLE_DIM, "a shows it");
}

static void add_notes(fb_app *app, fb_lesson_lines *l, fb_arena *a, int width)
{
    const fb_lesson_page *p = fb_lesson_now(app);
    if (!p->notes || !app->lesson.notes) return;
    add_heading(l, a, FB_ROLE_WARN, "Notes");
    fb_lesson_add(l, a, p->notes, SIDE, width, FB_ROLE_DIM);
}

static const fb_lesson_lines *make(fb_app *app, int width)
{
    page *p = fb_view_state(app, FB_VIEW_LESSON, sizeof *p);
    fb_arena *a = app->arena[FB_VIEW_LESSON];
    const fb_lesson_page *now = fb_lesson_now(app);
    fb_lesson_lines *l = &p->lines;
    fb_arena_defer(a, drop_lines, p);
    if (!now) return l;
    if (width > WIDEST) width = WIDEST;
    if (app->lesson.broken.kind) {
        fb_lesson_add_words(l, a, SIDE, width, FB_ROLE_BAD, app->lesson.broken.text);
        fb_lesson_add_words(l, a, SIDE, width, FB_ROLE_DIM, "what was saved before is shown");
        fb_lesson_add_line(l, a, 0, FB_ROLE_TEXT, "");
    }
    if (now->text) fb_lesson_add(l, a, now->text, SIDE, width, FB_ROLE_TEXT);
    if (app->lesson.trouble.kind) {
        fb_lesson_add_line(l, a, 0, FB_ROLE_TEXT, "");
        fb_lesson_add_words(l, a, SIDE, width, FB_ROLE_BAD, app->lesson.trouble.text);
    }
    if (now->puzzle) add_puzzle(app, l, a, width);
    add_answer(app, l, a, width);
    add_notes(app, l, a, width);
    return l;
}

static int count(fb_app *app)
{
    return state(app) ? state(app)->lines.lines.n : 0;
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    const fb_lesson_lines *l = make(app, r->w - SIDE);
    int most = l->lines.n > r->h ? l->lines.n - r->h : 0;
    (void)focused;
    if (app->lesson.top > most) app->lesson.top = most;
    for (int y = 0; y < r->h && app->lesson.top + y < l->lines.n; y++) {
        const fb_lesson_line *line = &l->lines.at[app->lesson.top + y];
        for (int i = 0; i < line->n; i++) {
            const fb_lesson_piece *p = &l->pieces.at[line->first + i];
            fb_draw_cut(r, y, p->x, r->w - p->x, p->role, p->text);
        }
    }
    if (app->lesson.top + r->h < l->lines.n) fb_draw_right(r, r->h - 1, r->w, FB_ROLE_KEY, "↓");
}

/* ---- the box below ---- */

static void explain(fb_app *app, fb_hint *hint)
{
    const fb_lesson *l = fb_lesson_of(app);
    const fb_lesson_page *p = fb_lesson_now(app);
    int at = app->lesson.page;
    if (!p) return;
    fb_str_add(&hint->title, app->lesson.info->title);
    if (at + 1 < l->n_pages)
        fb_str_addf(&hint->line[0], "l: %d %s", at + 2, l->pages[at + 1].title);
    else
        fb_str_add(&hint->line[0], "this is the last page");
    if (p->keys) fb_str_add(&hint->line[0], " · p plays the page's keys");
    if (p->notes && !app->lesson.notes) fb_str_add(&hint->line[0], " · N shows the notes");
    if (p->script)
        fb_str_addf(&hint->line[1], "Tab goes to %s in the workbench, 0 comes back", p->script);
    else
        fb_str_add(&hint->line[1], "c lists all pages");
}

/* ---- commands ---- */

/* A screen on, with a line of what was seen; at the end of the text the next page. */
static void turn(fb_app *app, int step)
{
    int h = app->layout.whole.h, most = count(app) - h, by = h > 2 ? h - 1 : 1;
    if (most < 0) most = 0;
    if (step > 0 && app->lesson.top >= most)
        fb_app_run(app, FB_CMD_RIGHT, "");
    else if (step < 0 && !app->lesson.top)
        fb_app_run(app, FB_CMD_LEFT, "");
    else
        app->lesson.top = app->lesson.top + step * by < 0 ? 0 : app->lesson.top + step * by;
}

static void other_page(fb_app *app, int step)
{
    const char *why = fb_lesson_why_not(app, step > 0 ? FB_CMD_RIGHT : FB_CMD_LEFT);
    if (why)
        fb_app_say(app, FB_ROLE_DIM, "%s", why);
    else
        fb_lesson_go(app, app->lesson.page + step);
}

static void to_workbench(fb_app *app)
{
    if (!fb_lesson_now(app)->script) {
        fb_app_say(app, FB_ROLE_DIM, "this page has no script: l goes on");
        return;
    }
    fb_puzzle_hold(app, false);
    fb_app_hide(app);
    if (app->columns_made && !app->first_measured) fb_first_measure(app);
    fb_app_say(app, FB_ROLE_DIM, "0 comes back to the lesson");
}

static void enter(fb_app *app)
{
    if (fb_lesson_now(app)->puzzle && fb_puzzle_of(app))
        fb_app_show(app, FB_VIEW_PUZZLE);
    else
        other_page(app, 1);
}

static void scroll(fb_app *app, int by)
{
    app->lesson.top = app->lesson.top + by < 0 ? 0 : app->lesson.top + by;
}

/* Keys that do something of their own here; typed at the prompt, commands are what they are anywhere. */
static bool own(fb_app *app, fb_cmd c)
{
    switch (c) {
    case FB_CMD_PLAN: fb_lesson_play(app); return true;
    case FB_CMD_COPY: fb_app_show(app, FB_VIEW_CONTENTS); return true;
    case FB_CMD_AUTO: fb_lesson_answers(app, true); return true;
    case FB_CMD_ADD: fb_lesson_answers(app, false); return true;
    case FB_CMD_FIND_BACK: app->lesson.notes = !app->lesson.notes; return true;
    case FB_CMD_RELOAD: fb_lesson_reload(app); return true;
    case FB_CMD_CLOSE:
        if (!fb_lesson_now(app)->script) return fb_app_run(app, FB_CMD_QUIT, ""), true;
        to_workbench(app);
        return true;
    case FB_CMD_TOGGLE: turn(app, 1); return true;
    default: return false;
    }
}

static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    (void)arg;
    if (!fb_lesson_of(app)) return false;
    if (!app->by_prompt && own(app, c)) return true;
    switch (c) {
    case FB_CMD_RIGHT: other_page(app, 1); return true;
    case FB_CMD_LEFT: other_page(app, -1); return true;
    case FB_CMD_PAGE_DOWN: turn(app, 1); return true;
    case FB_CMD_PAGE_UP: turn(app, -1); return true;
    case FB_CMD_DOWN: scroll(app, 1); return true;
    case FB_CMD_UP: scroll(app, -1); return true;
    case FB_CMD_TOP: app->lesson.top = 0; return true;
    case FB_CMD_BOTTOM: app->lesson.top = count(app); return true;
    case FB_CMD_ENTER: enter(app); return true;
    case FB_CMD_NEXT_PANE:
    case FB_CMD_PREVIOUS_PANE:
    case FB_CMD_BACK: to_workbench(app); return true;
    default: return false;
    }
}

/* The page is turned to the next line that holds the text. */
static bool find(fb_app *app, const char *text, int step)
{
    const fb_lesson_lines *l = state(app) ? &state(app)->lines : NULL;
    int n = l ? l->lines.n : 0;
    for (int k = 1; k <= n; k++) {
        int i = ((app->lesson.top + step * k) % n + n) % n;
        if (!fb_lesson_line_holds(l, i, text)) continue;
        app->lesson.top = i;
        return true;
    }
    return false;
}

static const fb_view_key keys[] = {
    {FB_CMD_RIGHT, "l next", "the next page (Space and PgDn first show the rest of this one)"},
    {FB_CMD_LEFT, "h back", "the page before"},
    {FB_CMD_NEXT_PANE, "Tab workbench", "the page's script in the workbench; 0 comes back"},
    {FB_CMD_PLAN, "play", "play the page's keys, once nothing is being measured; any key stops them"},
    {FB_CMD_AUTO, "answer", "show the answer, and the columns of a puzzle"},
    {FB_CMD_ADD, "", "hide them again"},
    {FB_CMD_COPY, "contents", "the table of contents"},
    {FB_CMD_FIND_BACK, "", "the presenter's notes, or none"},
    {FB_CMD_ENTER, "", "the page's puzzle; without one the next page"},
    {FB_CMD_TOGGLE, "", "go on: the rest of the page, then the next one"},
    {FB_CMD_EDIT, "", "the lesson's file in $VISUAL or $EDITOR"},
    {FB_CMD_RELOAD, "", "read the lesson's file again"},
    {FB_CMD_CLOSE, "", "to the workbench; from a page without a script leave fusebox"},
    {FB_CMD_BACK, "", "to the workbench"},
    {FB_CMD_NONE, NULL, NULL},
};

const fb_view fb_view_lesson = {
    .title = title,
    .count = count,
    .draw = draw,
    .explain = explain,
    .command = command,
    .find = find,
    .keys = keys,
    .about =
        "A page of a lesson. It opens a script of its own, afresh, whose columns stand beside the text where the "
        "screen is wide enough, and one key away where it is not.\n"
        "Answers are hidden until you ask for them, and so are a puzzle's columns. What you try in the workbench is "
        "yours to try: the page is as it was when you come to it again.",
};
