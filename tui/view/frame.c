/* What surrounds the panes: the header line, the frames with their titles, shared lines joined. */
#include "tui/view/ui.h"

#include <math.h>
#include <ncurses.h>
#include <string.h>

static fb_rect screen(void)
{
    return (fb_rect){0, 0, LINES, COLS};
}

static void put(int y, int x, fb_role role, const char *text)
{
    fb_rect all = screen();
    fb_draw(&all, y, x, role, text);
}

static void across(int y, int x, int n)
{
    fb_rect all = screen();
    fb_draw_run(&all, y, x, n, FB_ROLE_FRAME, "─");
}

static void down(int y, int x, int n)
{
    for (int i = 0; i < n; i++) put(y + i, x, FB_ROLE_FRAME, "│");
}

/* Left, top and right of a pane; what lies below draws the line that it shares with this one. */
static void three_sides(const fb_rect *r, const char *left, const char *right)
{
    across(r->y - 1, r->x, r->w);
    put(r->y - 1, r->x - 1, FB_ROLE_FRAME, left);
    put(r->y - 1, r->x + r->w, FB_ROLE_FRAME, right);
    down(r->y, r->x - 1, r->h);
    down(r->y, r->x + r->w, r->h);
}

/* All four sides of what has the keys, in another line and another colour. Of lines that it shares its own is seen. */
static void focused_sides(const fb_rect *r)
{
    fb_rect all = screen();
    int top = r->y - 1, bottom = r->y + r->h, left = r->x - 1, right = r->x + r->w;
    fb_draw_run(&all, top, r->x, r->w, FB_ROLE_FOCUS, "═");
    fb_draw_run(&all, bottom, r->x, r->w, FB_ROLE_FOCUS, "═");
    for (int y = r->y; y < bottom; y++) {
        put(y, left, FB_ROLE_FOCUS, "║");
        put(y, right, FB_ROLE_FOCUS, "║");
    }
    put(top, left, FB_ROLE_FOCUS, "╔");
    put(top, right, FB_ROLE_FOCUS, "╗");
    put(bottom, left, FB_ROLE_FOCUS, "╚");
    put(bottom, right, FB_ROLE_FOCUS, "╝");
}

/* Where the cursor is in a list that is longer than its pane. The other views need the line for themselves. */
static void position(fb_app *app, fb_view_id id, const fb_rect *r, int from)
{
    static const bool lists[FB_VIEWS] = {[FB_VIEW_GRAPH] = true, [FB_VIEW_HELP] = true,    [FB_VIEW_LOG] = true,
                                         [FB_VIEW_LIST] = true,  [FB_VIEW_RESULTS] = true, [FB_VIEW_PARAMS] = true};
    int n = fb_view_at(id)->count(app), at = app->scroll[id].cursor + 1;
    char text[48];
    if (!lists[id] || n <= r->h) return;
    if (at > n) at = n;
    snprintf(text, sizeof text, " %d of %d ", at, n);
    fb_rect line = {r->y - 1, r->x, 1, r->w};
    if (from + fb_draw_text_width(text) + 2 <= r->w) fb_draw_right(&line, 0, r->w - 1, FB_ROLE_DIM, text);
}

static void title(fb_app *app, fb_view_id id, const fb_rect *r)
{
    fb_str text = {0};
    bool focused = fb_app_view(app) == id;
    fb_rect line = {r->y - 1, r->x, 1, r->w};
    fb_str_add(&text, focused ? " ▸ " : " "); /* a sign as well, where there are no colours */
    fb_view_at(id)->title(app, &text);
    fb_str_add(&text, " ");
    int end = fb_draw_cut(&line, 0, 0, r->w, focused ? FB_ROLE_FOCUS : FB_ROLE_TITLE, fb_str_get(&text));
    position(app, id, r, end);
    fb_str_free(&text);
}

/* ---- the header ---------------------------------------------------------------------------------------------------
 */

/* The columns' progress together: how many are done of those asked for, and how far the present one is. */
static bool progress(const fb_app *app, fb_str *text, double *fraction)
{
    int n = fb_session_columns(app->session), busy = 0;
    double done = 0;
    const fb_column *now = NULL;
    for (int i = 0; i < n; i++) {
        const fb_column *c = fb_session_column(app->session, i);
        bool running = c->state == FB_COLUMN_MEASURING || c->searching;
        if (running || c->state == FB_COLUMN_QUEUED || c->state == FB_COLUMN_BUILDING)
            busy++;
        else
            done++;
        if (running && isfinite(c->fraction)) done += c->fraction;
        if (running && (!now || !*now->progress)) now = c;
    }
    if (!busy) {
        *fraction =
            fb_session_experiment_column(app->session) ? fb_session_experiment_column(app->session)->fraction : 0;
        return fb_sweep_progress(app, text);
    }
    *fraction = done / n;
    if (now && *now->progress)
        fb_str_add(text, now->progress);
    else
        fb_str_add(text, fb_session_script(app->session) ? "waiting" : "loading");
    return true;
}

static int draw_progress(const fb_app *app, const fb_rect *r, int right)
{
    enum { CELLS = 8 };
    fb_str text = {0};
    double fraction = 0;
    if (progress(app, &text, &fraction)) {
        int full = isfinite(fraction) ? (int)(fraction * CELLS + 0.5) : 0, x = right - CELLS;
        fb_draw_run(r, 0, x, full, FB_ROLE_FOCUS, "▰");
        fb_draw_run(r, 0, x + full, CELLS - full, FB_ROLE_DIM, "▱");
        right = fb_draw_right(r, 0, x - 1, FB_ROLE_TEXT, fb_str_get(&text)) - 2;
    }
    fb_str_free(&text);
    return right;
}

/* Where and how the column runs, as much as there is room for: what is most worth saying has it first. */
static void where(fb_app *app, int room, fb_str *out)
{
    enum { DEVICE, MODE, OVERLAP, ROLLED, MANUAL, PARTS };
    static const int worth[PARTS] = {MANUAL, DEVICE, ROLLED, OVERLAP, MODE};
    const fb_column *c = app->model.column;
    const char *part[PARTS] = {0}, *between = " · ";
    bool said[PARTS] = {false};
    if (!c) return;
    part[DEVICE] = c->machine && *c->machine->name ? c->machine->name : c->device;
    if (c->plan) part[MODE] = fb_launch_mode_name(fb_plan_launch_mode(c->plan));
    if (c->plan && fb_plan_overlap(c->plan)) part[OVERLAP] = "overlap";
    if (c->plan && fb_plan_rolled(c->plan)) part[ROLLED] = "rolled";
    if (!fb_session_auto(app->session))
        part[MANUAL] = fb_puzzle_waits(app) ? "runs once you have predicted" : "auto off: m measures";
    for (int i = 0; i < PARTS; i++) {
        const char *text = part[worth[i]];
        int width = text ? fb_draw_text_width(text) : room + 1;
        said[worth[i]] = width <= room;
        if (width <= room) room -= width + fb_draw_text_width(between);
    }
    for (int i = 0; i < PARTS; i++)
        if (said[i]) fb_str_addf(out, "%s%s", out->n ? between : "", part[i]);
}

static void draw_header(fb_app *app)
{
    const fb_rect *r = &app->layout.header;
    const fb_column *c = app->model.column;
    fb_str text = {0};
    int right = draw_progress(app, r, r->w - 1);
    if (c && c->plan && c->machine) {
        const char *state = fb_session_calibrating(app->session, c->device) ? "calibrating"
                            : !c->machine->calibrated                       ? "uncalibrated"
                            : c->machine->doubted                           ? "calibration doubted"
                                                                            : "";
        right = *state ? fb_draw_right(r, 0, right, FB_ROLE_WARN, state) - 2 : right;
    }
    int x = fb_draw(r, 0, 1, FB_ROLE_FOCUS, "fusebox");
    if (app->path || app->lesson.path) {
        int room = right - x - 3;
        const char *path = app->path ? app->path : app->lesson.path;
        for (const char *slash; fb_draw_text_width(path) > room && (slash = strchr(path, '/'));) path = slash + 1;
        x = fb_draw_cut(r, 0, x + 2, room > 0 ? room : 0, FB_ROLE_TITLE, path);
    }
    where(app, right - x - 3, &text);
    fb_draw_right(r, 0, right, FB_ROLE_DIM, fb_str_get(&text));
    fb_str_free(&text);
}

/* ---- the frames ---------------------------------------------------------------------------------------------------
 */

static void hint_frame(const fb_app *app)
{
    const fb_rect *h = &app->layout.hint;
    int left = h->x - 2, right = h->x + h->w + 1, top = h->y - 1, bottom = h->y + h->h;
    across(top, left + 1, right - left - 1);
    across(bottom, left + 1, right - left - 1);
    down(h->y, left, h->h);
    down(h->y, right, h->h);
    put(top, left, FB_ROLE_FRAME, "├");
    put(top, right, FB_ROLE_FRAME, "┤");
    put(bottom, left, FB_ROLE_FRAME, "╰");
    put(bottom, right, FB_ROLE_FRAME, "╯");
}

void fb_frame_draw(fb_app *app)
{
    const fb_layout *l = &app->layout;
    bool one = l->whole.h > 0 && !l->left;
    draw_header(app);
    hint_frame(app);
    if (l->beside) {
        const fb_rect *graph = &l->pane[FB_PANE_GRAPH];
        three_sides(graph, "╭", "╮");
        title(app, FB_VIEW_GRAPH, graph);
        put(l->hint.y - 1, graph->x + graph->w, FB_ROLE_FRAME, "┴");
        put(l->hint.y - 1, l->whole.x - 1, FB_ROLE_FRAME, "┴");
    }
    if (one) {
        three_sides(&l->whole, "╭", "╮");
        focused_sides(&l->whole);
        title(app, fb_app_view(app), &l->whole);
        return;
    }
    const fb_rect *graph = l->left ? &l->whole : &l->pane[FB_PANE_GRAPH], *table = &l->pane[FB_PANE_COLUMNS];
    three_sides(graph, "╭", "╮");
    three_sides(table, "╭", "╮");
    three_sides(&l->pane[FB_PANE_KERNELS], "├", "┤");
    put(l->hint.y - 1, graph->x + graph->w, FB_ROLE_FRAME, "┴");
    put(l->hint.y - 1, table->x - 1, FB_ROLE_FRAME, "┴");
    focused_sides(l->left ? graph : &l->pane[fb_app_view(app)]);
    title(app, l->left ? fb_app_view(app) : FB_VIEW_GRAPH, graph);
    for (int p = FB_PANE_GRAPH + 1; p < FB_PANES; p++) title(app, (fb_view_id)p, &l->pane[p]);
}
