/* The puzzle of a script on the screen: read the task, predict, then run, then see what was right and why. */
#include "session/progress.h"
#include "tui/view/puzzle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where h and l stop; digits give any other. Below 1: slower. */
static const double guesses[] = {0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1,  1.1, 1.25, 1.5, 2,
                                 2.5, 3,   4,    5,   6,    8,   10,  15, 20,  30,   50,  100};
enum { GUESSES = sizeof guesses / sizeof *guesses };
static const double first_guess = 2;

static void title(fb_app *app, fb_str *out)
{
    const fb_script_info *info = fb_session_script(app->session);
    fb_str_add(out, "puzzle");
    if (app->puzzle.place) fb_str_addf(out, " %d of %d", app->puzzle.place, app->puzzle.of);
    fb_str_addf(out, " · %s", info && info->title ? info->title : "");
}

static int count(fb_app *app)
{
    return fb_puzzle_page_now(app, 0)->rows.n;
}

static void opened(fb_app *app)
{
    app->scroll[FB_VIEW_PUZZLE] = (fb_scroll){0};
    app->puzzle.paged = false;
    if (app->columns_made) fb_puzzle_columns(app);
}

static void draw_part(const fb_rect *r, int y, const fb_why *why, fb_why_id id)
{
    enum { BAR = 16, FIGURE = 12 };
    char text[48];
    const fb_why_part *part = &why->part[id];
    int width = r->w - BAR - FIGURE;
    bool gain = part->us * why->us >= 0;
    fb_why_span span = fb_why_bar(why, id, width);
    fb_draw_run(r, y, BAR + span.from, span.n,
                id == FB_WHY_REST ? FB_ROLE_DIM
                : gain            ? FB_ROLE_GOOD
                                  : FB_ROLE_BAD,
                "█");
    fb_draw_right(r, y, r->w - 1, FB_ROLE_TEXT, fb_figure_part(text, why, id));
}

/* The first line in sight. On the first row the page begins; on any other all that can be chosen is to be seen, as far
 * as the cursor's own lines stay in sight. */
static int first_line(const fb_app *app, const fb_puzzle_page *p, int h)
{
    int cursor = app->scroll[FB_VIEW_PUZZLE].cursor, first = p->lines.n, top = p->lines.n > h ? p->lines.n - h : 0;
    if (app->puzzle.paged) return app->puzzle.top < top ? app->puzzle.top : top;
    for (int i = 0; i < p->lines.n; i++)
        if (p->lines.at[i].row == cursor && i < first) first = i;
    return !cursor ? 0 : first < top ? first : top;
}

static void turn_page(fb_app *app, int step)
{
    int h = app->layout.whole.h, top = first_line(app, fb_puzzle_page_now(app, 0), h) + step * (h > 2 ? h - 2 : 1);
    app->puzzle.top = top > 0 ? top : 0;
    app->puzzle.paged = true;
}

static int row_at(fb_app *app, int y, int x)
{
    const fb_puzzle_page *p = fb_puzzle_page_now(app, 0);
    int i = first_line(app, p, app->layout.whole.h) + y;
    (void)x;
    return i < p->lines.n ? p->lines.at[i].row : -1;
}

static void draw_pair(const fb_rect *r, int y, int x, const fb_puzzle_line *l)
{
    fb_draw_cut(r, y, 0, x - 1, l->role, l->text);
    fb_draw(r, y, x, FB_ROLE_FRAME, "│");
    fb_draw_cut(r, y, x + 2, r->w - x - 2, l->role, l->right);
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    const fb_puzzle_page *p = fb_puzzle_page_now(app, r->w - 4);
    int cursor = app->scroll[FB_VIEW_PUZZLE].cursor, top = first_line(app, p, r->h);
    for (int y = 0; y < r->h && top + y < p->lines.n; y++) {
        const fb_puzzle_line *l = &p->lines.at[top + y];
        bool here = l->row != FB_NONE && l->row == cursor && focused;
        fb_draw_ground(here ? FB_GROUND_CURSOR : FB_GROUND_PLAIN);
        if (here) fb_draw_blank(r, y);
        if (l->right)
            draw_pair(r, y, fb_puzzle_page_middle(p), l);
        else
            fb_draw(r, y, 0, l->role, l->text);
        if (l->part != FB_WHY_NONE) draw_part(r, y, &app->puzzle.why, l->part);
    }
    fb_draw_ground(FB_GROUND_PLAIN);
    if (top + r->h < p->lines.n) fb_draw_right(r, r->h - 1, r->w, FB_ROLE_KEY, "↓");
}

static void explain(fb_app *app, fb_hint *hint)
{
    static const char *const text[] = {
        [FB_PUZZLE_ROW_TASK] = "j goes on, PgDn and PgUp turn the page, y shows the whole script",
        [FB_PUZZLE_ROW_CHOICE] = "Enter, or the number: this is your answer",
        [FB_PUZZLE_ROW_GUESS] =
            "Digits, or h and l: your guess of how many times as fast the second is; below 1 it is slower",
        [FB_PUZZLE_ROW_RUN] = "Enter: measure both, and see what was right",
        [FB_PUZZLE_ROW_SEE] = "Enter: what the waterfall says",
        [FB_PUZZLE_ROW_HINT] = "Enter shows a hint; hints are counted",
        [FB_PUZZLE_ROW_OURS] = "Enter: what can be had here instead",
        [FB_PUZZLE_ROW_WHY] = "Enter: each part of the difference with a sentence, and the kernels behind it",
        [FB_PUZZLE_ROW_AGAIN] = "Enter: answer anew",
        [FB_PUZZLE_ROW_WORKBENCH] = "Enter: graph, columns and kernels; t comes back here",
        [FB_PUZZLE_ROW_NEXT] = "Enter opens it",
        [FB_PUZZLE_ROW_SKIP] = "Enter: it is not asked again by itself; t still opens it",
        [FB_PUZZLE_ROW_LIST] = "Enter: the list",
    };
    const fb_puzzle_page *p = fb_puzzle_page_now(app, 0);
    int at = app->scroll[FB_VIEW_PUZZLE].cursor;
    fb_str_add(&hint->title, app->puzzle.stage == FB_PUZZLE_TURNED     ? "predict again"
                             : app->puzzle.stage == FB_PUZZLE_PREDICT  ? "predict first"
                             : app->puzzle.stage == FB_PUZZLE_ANSWERED ? "answered"
                                                                       : "puzzle");
    if (at < p->rows.n) fb_str_add(&hint->line[0], text[p->rows.at[at].kind]);
    fb_str_add(&hint->line[1], app->lesson.info ? "Esc goes back to the lesson, t comes back here"
                                                : "Esc goes to the workbench, t comes back");
}

static void choose(fb_app *app, int choice)
{
    app->puzzle.choice = choice;
    app->puzzle.paged = false;
    const fb_puzzle_page *p = fb_puzzle_page_now(app, 0);
    for (int i = 0; i < p->rows.n; i++) {
        fb_puzzle_row_kind kind = p->rows.at[i].kind;
        if ((kind == FB_PUZZLE_ROW_GUESS && app->puzzle.guess == 0) || kind == FB_PUZZLE_ROW_SEE)
            app->scroll[FB_VIEW_PUZZLE].cursor = i;
    }
}

static void choose_number(fb_app *app, int number)
{
    fb_puzzle_stage stage = app->puzzle.stage;
    int shown[64], n = fb_puzzle_of(app) ? fb_puzzle_choices(app, shown) : 0;
    if ((stage == FB_PUZZLE_PREDICT || stage == FB_PUZZLE_TURNED) && number >= 1 && number <= n)
        choose(app, shown[number - 1]);
}

/* The next one of the list, whatever was typed. */
static void change_guess(fb_app *app, int step)
{
    fb_puzzle_run *z = &app->puzzle;
    double from = z->guess, to = first_guess;
    *z->typed = '\0';
    for (int i = 0; i < GUESSES && from > 0; i++) {
        int at = step > 0 ? i : GUESSES - 1 - i;
        to = guesses[at];
        if (step > 0 ? to > from : to < from) break;
    }
    z->guess = to;
}

/* Digits and a point go into the guess, whatever they do elsewhere. */
static bool type_guess(fb_app *app, int key)
{
    char *typed = app->puzzle.typed;
    size_t n = strlen(typed);
    bool point = key == '.' || key == ',';
    if (key == FB_KEY_BACKSPACE || key == FB_KEY_DELETE) {
        if (n) typed[n - 1] = '\0';
    } else if ((key >= '0' && key <= '9') || point) {
        if (n + 1 < sizeof app->puzzle.typed && !(point && strchr(typed, '.'))) {
            typed[n] = point ? '.' : (char)key;
            typed[n + 1] = '\0';
        }
    } else {
        return false;
    }
    app->puzzle.guess = strtod(typed, NULL);
    return true;
}

static void run(fb_app *app)
{
    const fb_puzzle *z = fb_puzzle_of(app);
    if (z->n_choices && app->puzzle.choice == FB_NONE)
        fb_app_say(app, FB_ROLE_WARN, "choose an answer first: a prediction is half of the puzzle");
    else if (app->puzzle.guess == 0)
        fb_app_say(app, FB_ROLE_WARN, "guess the speed-up first: type it on its row, or use h and l");
    else
        fb_puzzle_start(app);
}

static void see(fb_app *app)
{
    if (app->puzzle.choice == FB_NONE)
        fb_app_say(app, FB_ROLE_WARN, "choose an answer first");
    else
        fb_puzzle_conclude(app);
}

static void again(fb_app *app)
{
    app->puzzle.grade = (fb_grade){.winner = FB_WHY_NONE};
    app->puzzle.stage = FB_PUZZLE_PREDICT;
    app->puzzle.choice = FB_NONE;
    app->puzzle.guess = 0;
    *app->puzzle.typed = '\0';
    app->scroll[FB_VIEW_PUZZLE] = (fb_scroll){0};
}

static void show_waterfall(fb_app *app)
{
    int a = fb_puzzle_column(app, app->puzzle.spec[0]), b = fb_puzzle_column(app, app->puzzle.spec[1]);
    fb_why why;
    fb_error err = {0};
    if (a == FB_NONE || b == FB_NONE || !fb_session_why(app->session, a, b, &why, &err)) {
        fb_app_say(app, FB_ROLE_WARN, "why: the two have not been measured yet: predict, then run");
        return;
    }
    app->column = b;
    app->against = a;
    app->against_first = true;
    fb_model_update(app);
    fb_app_show(app, FB_VIEW_WHY);
}

static void next(fb_app *app)
{
    char *path = fb_strdup(app->puzzle.next);
    app->puzzle_wanted = fb_app_open(app, path);
    fb_free(path);
}

static void skip(fb_app *app)
{
    json_t *row = json_pack("{s:b}", "skipped", true);
    fb_puzzles_add(fb_session_path(app->session), row);
    json_decref(row);
    if (app->puzzle.next)
        next(app);
    else
        fb_app_run(app, FB_CMD_BACK, "");
}

static bool enter(fb_app *app)
{
    const fb_puzzle_page *p = fb_puzzle_page_now(app, 0);
    int at = app->scroll[FB_VIEW_PUZZLE].cursor;
    if (at >= p->rows.n) return true;
    const fb_puzzle_row *r = &p->rows.at[at];
    switch (r->kind) {
    case FB_PUZZLE_ROW_TASK: app->scroll[FB_VIEW_PUZZLE].cursor++; break;
    case FB_PUZZLE_ROW_CHOICE: choose(app, r->choice); break;
    case FB_PUZZLE_ROW_GUESS: app->scroll[FB_VIEW_PUZZLE].cursor++; break;
    case FB_PUZZLE_ROW_RUN: run(app); break;
    case FB_PUZZLE_ROW_SEE: see(app); break;
    case FB_PUZZLE_ROW_HINT:
        if (app->puzzle.hints < fb_puzzle_of(app)->n_hints) app->puzzle.hints++;
        break;
    case FB_PUZZLE_ROW_OURS:
        fb_puzzle_set_columns(app, fb_puzzle_offered(app));
        fb_session_drop_absent(app->session);
        if (app->puzzle.stage == FB_PUZZLE_STUCK) fb_puzzle_start(app);
        break;
    case FB_PUZZLE_ROW_WHY: show_waterfall(app); break;
    case FB_PUZZLE_ROW_AGAIN: again(app); break;
    case FB_PUZZLE_ROW_WORKBENCH: fb_app_run(app, FB_CMD_BACK, ""); break;
    case FB_PUZZLE_ROW_NEXT: next(app); break;
    case FB_PUZZLE_ROW_SKIP: skip(app); break;
    case FB_PUZZLE_ROW_LIST: fb_app_show(app, FB_VIEW_LIST); break;
    }
    return true;
}

/* Who leaves without an answer is asked again the next time. */
static void leave(fb_app *app)
{
    fb_puzzle_hold(app, false);
    if (app->puzzle.stage != FB_PUZZLE_RUNS) return;
    app->puzzle.stage = FB_PUZZLE_PREDICT;
    fb_session_cancel(app->session);
}

static bool guessing(fb_app *app)
{
    const fb_puzzle_page *p = fb_puzzle_page_now(app, 0);
    int at = app->scroll[FB_VIEW_PUZZLE].cursor;
    return at < p->rows.n && p->rows.at[at].kind == FB_PUZZLE_ROW_GUESS;
}

static bool key(fb_app *app, int pressed)
{
    return guessing(app) && type_guess(app, pressed);
}

static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    if (c == FB_CMD_DOWN || c == FB_CMD_UP || c == FB_CMD_TOP || c == FB_CMD_BOTTOM) app->puzzle.paged = false;
    switch (c) {
    case FB_CMD_PAGE_DOWN:
    case FB_CMD_PAGE_UP: turn_page(app, c == FB_CMD_PAGE_DOWN ? 1 : -1); return true;
    case FB_CMD_WHY:
        if (*arg) return false; /* another column, by its number */
        show_waterfall(app);
        return true;
    case FB_CMD_ENTER: return enter(app);
    case FB_CMD_LEFT:
    case FB_CMD_RIGHT:
        if (guessing(app)) change_guess(app, c == FB_CMD_RIGHT ? 1 : -1);
        return true;
    case FB_CMD_COLUMN: choose_number(app, atoi(arg)); return true;
    case FB_CMD_BACK:
    case FB_CMD_CLOSE:
        if (app->puzzle.stage == FB_PUZZLE_RUNS && c == FB_CMD_BACK) {
            leave(app);
            return true;
        }
        leave(app);
        fb_app_hide(app);
        return true;
    default: return false;
    }
}

static const fb_view_key keys[] = {
    {FB_CMD_ENTER, "choose", "what the row under the cursor says"},
    {FB_CMD_COLUMN, "1-9 answer", "choose an answer by its number"},
    {FB_CMD_LEFT, "", "a smaller guess, on the row of the guess"},
    {FB_CMD_RIGHT, "", "a larger guess, on the row of the guess"},
    {FB_CMD_WHY, "", "the waterfall of the two that are compared, once they are measured"},
    {FB_CMD_NONE, NULL, NULL},
};

/* The page is turned to the next line that holds the text. */
static bool find(fb_app *app, const char *text, int step)
{
    const fb_puzzle_page *p = fb_puzzle_page_now(app, 0);
    int n = p->lines.n, from = first_line(app, p, app->layout.whole.h);
    for (int k = 1; k <= n; k++) {
        int i = ((from + step * k) % n + n) % n;
        if (!fb_filter_holds(p->lines.at[i].text, text)) continue;
        app->puzzle.top = i;
        app->puzzle.paged = true;
        return true;
    }
    return false;
}

const fb_view fb_view_puzzle = {
    .row_at = row_at,
    .find = find,
    .title = title,
    .count = count,
    .draw = draw,
    .explain = explain,
    .command = command,
    .key = key,
    .opened = opened,
    .keys = keys,
    .about = "A question about two plans of the same computation. Read what is compared, choose an answer, "
             "guess how many times as fast the second one is, then run both.\n"
             "The answer is taken from what is measured here, so it may be another one on another device.",
};
