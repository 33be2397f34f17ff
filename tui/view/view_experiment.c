/* The script's experiment: what it plots, drawn as its rows come in, and the rows. One cursor goes through both, a row
 * is a point; Tab goes through the pictures: each plot, of a ranking the largest of each model as well, and all rows as
 * they came. */
#include "base/json.h"
#include "base/mem.h"
#include "tui/view/chart.h"
#include "tui/view/ui.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum { LINES, RANKING, LARGEST, ALL } shape;

typedef struct {
    shape kind;
    int plot; /* of the experiment's; ALL: none */
} picture;

enum { MOST_PICTURES = 32, MOST_FIELDS = 24, FIELD = 48 };

/* A column of the rows: part of what tells cases apart, or a figure. */
typedef struct {
    char name[FIELD];
    int w;
    bool figure, several; /* several: it does not have the same value in all rows */
    json_t *first;
} field;

typedef struct {
    uint64_t run;
    int n_fields, taken; /* rows that the fields were widened for */
    field fields[MOST_FIELDS];
    int wished; /* the picture that the user went to; -1: the first there is */
    picture now;
    fb_points points; /* of it; ALL: none */
    int seen;         /* rows that they were made of */
    size_t plots;
    int top;               /* the first row shown: a chart above leaves less room than the view has */
    int first_line, lines; /* of the view, where rows are drawn */
    int chart;             /* lines above that; 0: there is none */
} state;

static void free_state(void *p)
{
    state *s = p;
    for (int i = 0; i < s->n_fields; i++) json_decref(s->fields[i].first);
    fb_points_free(&s->points);
}

static state *fresh(fb_app *app, int wished)
{
    state *s = fb_view_state(app, FB_VIEW_EXPERIMENT, sizeof *s);
    s->run = app->sweep.run;
    s->wished = wished;
    s->now.kind = ALL;
    fb_arena_defer(app->arena[FB_VIEW_EXPERIMENT], free_state, s);
    return s;
}

/* ---- fields ---------------------------------------------------------------------------------------------------------
 */

/* "us", "wall_us" are times, "bytes" and "read_bytes" bytes; what a case is of has no unit. */
static void cell_text(const json_t *flat, const field *f, char to[64])
{
    const json_t *v = json_object_get(flat, f->name);
    size_t n = strlen(f->name);
    bool time = !strcmp(f->name, "us") || (n > 3 && !strcmp(f->name + n - 3, "_us"));
    bool bytes = n >= 5 && !strcmp(f->name + n - 5, "bytes");
    char figure[48];
    *to = '\0';
    if (!v || json_is_null(v)) return;
    if (f->figure && json_is_number(v) && (time || bytes || json_is_real(v))) {
        fb_figure_source kind = json_is_real(v) ? fb_figure_kind(flat) : FB_SOURCE_MEASURED;
        double value = json_number_value(v);
        if (time || bytes)
            snprintf(to, 64, "%s", fb_figure_write(figure, value, time ? FB_UNIT_US : FB_UNIT_BYTES, kind));
        else
            snprintf(to, 64, "%s%s", fb_figure_sign(kind), fb_points_text(figure, value));
        return;
    }
    char *plain = fb_figure_plain(v);
    snprintf(to, 64, "%s", plain);
    fb_free(plain);
}

static field *field_named(state *s, const char *name, bool figure)
{
    for (int i = 0; i < s->n_fields; i++)
        if (!strcmp(s->fields[i].name, name)) return &s->fields[i];
    if (s->n_fields == MOST_FIELDS || strlen(name) >= FIELD) return NULL;
    field *f = &s->fields[s->n_fields++];
    *f = (field){.figure = figure, .w = fb_draw_text_width(name)};
    snprintf(f->name, sizeof f->name, "%s", name);
    return f;
}

static void take_row(state *s, const json_t *row)
{
    json_t *flat = fb_plot_flat(row), *value;
    const char *name;
    json_object_foreach(flat, name, value)
    {
        bool figure = json_object_get(json_object_get(row, "row"), name) != NULL;
        char text[64];
        if (json_is_null(value) || !strcmp(name, "failed") || !strcmp(name, "source")) continue;
        field *f = field_named(s, name, figure);
        if (!f) continue;
        cell_text(flat, f, text);
        if (fb_draw_text_width(text) > f->w) f->w = fb_draw_text_width(text);
        if (!f->first)
            f->first = json_incref(value);
        else if (!json_equal(f->first, value))
            f->several = true;
    }
    json_decref(flat);
}

/* What all rows have in common is said once, of the case under the cursor, but for what a column is called by. */
static bool is_shown(const field *f)
{
    const char *first = json_string_value(f->first);
    bool named = !strcmp(f->name, "plan") || !strcmp(f->name, "variant");
    return f->figure || f->several || (named && first && *first);
}

/* ---- pictures -------------------------------------------------------------------------------------------------------
 */

static int pictures_of(const fb_app *app, picture out[MOST_PICTURES])
{
    const json_t *plots = app->sweep.of.plots;
    int n = 0;
    for (int i = 0; i < (int)json_array_size(plots) && n < MOST_PICTURES - 3; i++) {
        bool ranking = fb_plot_is_ranking(json_array_get(plots, (size_t)i));
        if (ranking) out[n++] = (picture){LARGEST, i};
        out[n++] = (picture){ranking ? RANKING : LINES, i};
    }
    out[n++] = (picture){ALL, 0};
    return n;
}

static const json_t *plot_of(const fb_app *app, const state *s)
{
    return json_array_get(app->sweep.of.plots, (size_t)s->now.plot);
}

static int row_at(const state *s, int cursor)
{
    return s->now.kind == ALL ? cursor : cursor >= 0 && cursor < s->points.n ? s->points.at[cursor].row : FB_NONE;
}

static int count_of(const state *s)
{
    return s->now.kind == ALL ? s->taken : s->points.n;
}

/* A long experiment's points are sorted anew when they have become a few per cent more, and at its end. */
static bool is_due(const fb_app *app, const state *s, picture wanted)
{
    int n = (int)json_array_size(app->sweep.of.cases);
    if (wanted.kind != s->now.kind || wanted.plot != s->now.plot || s->plots != json_array_size(app->sweep.of.plots))
        return true;
    return n != s->seen && (!app->sweep.runs || n - s->seen > s->seen / 64);
}

/* The cursor stays on its row, wherever that stands now, but at the top it stays there; at the end of all rows it goes
 * on with them. */
static void make_points(fb_app *app, state *s, picture wanted)
{
    fb_scroll *at = &app->scroll[FB_VIEW_EXPERIMENT];
    const json_t *cases = app->sweep.of.cases;
    int row = row_at(s, at->cursor);
    fb_points_free(&s->points);
    s->now = wanted;
    s->seen = (int)json_array_size(cases);
    s->plots = json_array_size(app->sweep.of.plots);
    s->points = wanted.kind == ALL       ? (fb_points){0}
                : wanted.kind == LARGEST ? fb_points_largest(plot_of(app, s), cases)
                                         : fb_points_of(plot_of(app, s), cases);
    if (wanted.kind == ALL && row != FB_NONE) at->cursor = row;
    for (int i = 0; i < s->points.n; i++)
        if (s->points.at[i].row == row && at->cursor > 0) at->cursor = i;
}

static state *now(fb_app *app)
{
    state *s = app->state[FB_VIEW_EXPERIMENT];
    picture all[MOST_PICTURES];
    int n = pictures_of(app, all), rows = (int)json_array_size(app->sweep.of.cases);
    if (!s || s->run != app->sweep.run) s = fresh(app, s && app->sweep.begun ? s->wished : -1);
    fb_scroll *at = &app->scroll[FB_VIEW_EXPERIMENT];
    bool last = s->now.kind == ALL && at->cursor >= s->taken - 1;
    while (s->taken < rows) take_row(s, json_array_get(app->sweep.of.cases, (size_t)s->taken++));
    picture wanted = all[s->wished >= 0 && s->wished < n ? s->wished : 0];
    if (is_due(app, s, wanted)) make_points(app, s, wanted);
    if (last && s->now.kind == ALL && app->sweep.runs) at->cursor = s->taken - 1;
    return s;
}

static void title_of(const fb_app *app, const state *s, fb_str *out)
{
    const json_t *plot = plot_of(app, s);
    const char *y = fb_json_string_or(plot, "y", "?");
    switch (s->now.kind) {
    case LINES: fb_str_addf(out, "%s by %s", y, fb_json_string_or(plot, "x", "?")); break;
    case RANKING: fb_str_addf(out, "%s, the largest first", y); break;
    case LARGEST: fb_str_addf(out, "the largest %s of each model", y); break;
    case ALL: fb_str_add(out, "all rows"); break;
    }
}

static void title(fb_app *app, fb_str *out)
{
    picture all[MOST_PICTURES];
    const state *s = now(app);
    int n = pictures_of(app, all), at = 0;
    while (at < n - 1 && (all[at].kind != s->now.kind || all[at].plot != s->now.plot)) at++;
    fb_str_add(out, "experiment · ");
    title_of(app, s, out);
    if (n > 1) fb_str_addf(out, " · %d of %d", at + 1, n);
    fb_str_addf(out, " · %d row%s%s", s->taken, s->taken == 1 ? "" : "s", app->sweep.runs ? " so far" : "");
    if (app->sweep.of.failed) fb_str_addf(out, ", %d failed", app->sweep.of.failed);
}

static int count(fb_app *app)
{
    return count_of(now(app));
}

/* ---- drawing --------------------------------------------------------------------------------------------------------
 */

static fb_role group_role(int group)
{
    return group == FB_CHART_CURSOR ? FB_ROLE_KEY : (fb_role)(FB_ROLE_GROUP + group % FB_GROUP_COLOURS);
}

static fb_role kind_role(fb_figure_source kind, fb_role measured)
{
    return *fb_figure_sign(kind) ? FB_ROLE_PREDICTED : measured;
}

enum { AXIS = 9, AROUND = 3 }; /* cells left of a chart; lines around it: what is up, the axis, its marks */

static void draw_cells(const fb_rect *body, const fb_chart *c)
{
    char cell[4];
    const fb_canvas *v = c->canvas;
    for (int i = 0; i < v->w * v->h; i++) {
        char mark[2] = {v->mark[i], '\0'};
        if (*mark)
            fb_draw(body, i / v->w, i % v->w, group_role(v->role[i]), mark);
        else if (*fb_canvas_cell(v, i % v->w, i / v->w, cell))
            fb_draw(body, i / v->w, i % v->w, group_role(v->ink_of[i]), cell);
    }
}

static void draw_axes(const fb_rect *r, const fb_rect *body, const fb_chart *c, const char *x_name)
{
    for (int y = 0; y < body->h; y++) fb_draw(r, 1 + y, AXIS - 1, FB_ROLE_FRAME, "│");
    fb_draw(r, 1 + body->h, AXIS - 1, FB_ROLE_FRAME, "└");
    fb_draw_run(r, 1 + body->h, AXIS, body->w, FB_ROLE_FRAME, "─");
    for (int i = 0, free = -1; i < c->n_y; i++) { /* from the foot up, as far as they do not stand on each other */
        if (free >= 0 && c->y[i].at >= free) continue;
        fb_draw_right(r, 1 + c->y[i].at, AXIS - 1, FB_ROLE_DIM, c->y[i].text);
        free = c->y[i].at;
    }
    int end = r->w - 1 - fb_draw_text_width(x_name);
    fb_draw(r, 2 + body->h, end, FB_ROLE_TITLE, x_name);
    for (int i = 0, free = 0; i < c->n_x; i++) {
        int w = fb_draw_text_width(c->x[i].text), x = AXIS + c->x[i].at - w / 2;
        if (x < free || x + w + 1 > end) continue;
        free = fb_draw(r, 2 + body->h, x, FB_ROLE_DIM, c->x[i].text) + 1;
    }
}

/* "a eager  b max": which letter is which line. */
static void draw_legend(const fb_rect *r, int x, const fb_points *p)
{
    int group = -1;
    for (int i = 0; i < p->n; i++) {
        if (i && !strcmp(p->at[i].name, p->at[i - 1].name)) continue;
        char letter[3] = {fb_chart_letter(++group), ' ', '\0'};
        int w = 2 + fb_draw_text_width(p->at[i].name);
        if (x + w > r->w - 4) {
            fb_draw(r, 0, x, FB_ROLE_DIM, "…");
            return;
        }
        int after = fb_draw(r, 0, x, group_role(group), letter);
        x = fb_draw(r, 0, after, FB_ROLE_TEXT, p->at[i].name) + 3;
    }
}

/* The chart's cells within the lines that it has; the arena's. */
static fb_rect make_chart(fb_app *app, const state *s, const fb_rect *r, fb_chart *c, fb_arena *arena)
{
    fb_rect body = {r->y + 1, r->x + AXIS, r->h - AROUND, r->w - AXIS - 2};
    fb_chart_make(c, arena, &s->points, plot_of(app, s), body.w, body.h, app->scroll[FB_VIEW_EXPERIMENT].cursor);
    return body;
}

static void draw_chart(fb_app *app, const state *s, const fb_rect *r)
{
    const json_t *plot = plot_of(app, s);
    fb_arena *arena = fb_arena_new();
    fb_chart c;
    fb_rect body = make_chart(app, s, r, &c, arena);
    draw_legend(r, fb_draw(r, 0, 1, FB_ROLE_TITLE, fb_json_string_or(plot, "y", "")) + 3, &s->points);
    draw_axes(r, &body, &c, fb_json_string_or(plot, "x", ""));
    draw_cells(&body, &c);
    fb_arena_free(arena);
}

/* The point at that place of the view, or beside it; -1: none. */
static int point_under(fb_app *app, const state *s, int y, int x)
{
    fb_rect top = {0, 0, s->chart, app->layout.whole.w};
    fb_arena *arena = fb_arena_new();
    fb_chart c;
    fb_rect body = make_chart(app, s, &top, &c, arena);
    int found = -1;
    for (int i = 0; i < s->points.n; i++)
        if (c.cell[i].y == y - body.y && abs(c.cell[i].x - (x - body.x)) <= 1) found = i;
    fb_arena_free(arena);
    return found;
}

/* Which line the row's point lies on; FB_NONE: on none. */
static int group_of(const state *s, int cursor)
{
    int group = 0;
    if (s->now.kind != LINES) return FB_NONE;
    for (int i = 1; i <= cursor; i++) group += strcmp(s->points.at[i].name, s->points.at[i - 1].name) != 0;
    return group;
}

enum { GAP = 2, FROM = 3 };

static void draw_headings(const state *s, const fb_rect *r)
{
    for (int i = 0, x = FROM; i < s->n_fields; i++) {
        const field *f = &s->fields[i];
        if (!is_shown(f)) continue;
        if (x + f->w > r->w) break;
        if (json_is_string(f->first))
            fb_draw(r, 0, x, FB_ROLE_DIM, f->name);
        else
            fb_draw_right(r, 0, x + f->w, FB_ROLE_DIM, f->name);
        x += f->w + GAP;
    }
}

static void draw_cells_of_row(const state *s, const fb_rect *r, int y, const json_t *flat)
{
    const char *failed = fb_json_string_or(flat, "failed", NULL);
    char text[64];
    int x = FROM;
    for (int i = 0; i < s->n_fields; i++) {
        const field *f = &s->fields[i];
        if (!is_shown(f) || (failed && f->figure)) continue;
        if (x + f->w > r->w) break;
        cell_text(flat, f, text);
        fb_role role = f->figure ? kind_role(fb_figure_kind(flat), FB_ROLE_TEXT) : FB_ROLE_STRONG;
        if (json_is_string(f->first))
            fb_draw_cut(r, y, x, f->w, role, text);
        else
            fb_draw_right(r, y, x + f->w,
                          json_is_real(json_object_get(flat, f->name)) || !f->figure ? role : FB_ROLE_TEXT, text);
        x += f->w + GAP;
    }
    if (!failed) return;
    x = fb_draw(r, y, x, FB_ROLE_BAD, "✗ ");
    fb_draw_cut(r, y, x, r->w - x - 1, FB_ROLE_BAD, failed);
}

static void draw_rows(fb_app *app, const state *s, const fb_rect *r, bool focused)
{
    draw_headings(s, r);
    for (int y = 1; y < r->h && s->top + y - 1 < count_of(s); y++) {
        int i = s->top + y - 1, group = group_of(s, i);
        json_t *flat = fb_plot_flat(json_array_get(app->sweep.of.cases, (size_t)row_at(s, i)));
        char letter[2] = {group == FB_NONE ? ' ' : fb_chart_letter(group), '\0'};
        fb_row_ground(app, FB_VIEW_EXPERIMENT, r, y, i, focused);
        fb_draw(r, y, 1, group_role(group == FB_NONE ? 0 : group), letter);
        draw_cells_of_row(s, r, y, flat);
        fb_draw_ground(FB_GROUND_PLAIN);
        json_decref(flat);
    }
}

/* Solid up to the least that was seen, shaded up to the most. */
static void draw_bar(const fb_rect *r, int y, int x, int w, const fb_point_of *p)
{
    double low = isfinite(p->low) ? p->low : p->y, high = isfinite(p->high) ? p->high : p->y;
    int solid = p->most > 0 ? (int)lround(w * low / p->most) : 0,
        all = p->most > 0 ? (int)lround(w * high / p->most) : 0;
    fb_role role = kind_role(p->kind, FB_ROLE_TIME);
    fb_draw_run(r, y, x, solid, role, "█");
    if (all > solid) fb_draw_run(r, y, x + solid, all - solid, role, "░");
    if (!all && p->y > 0) fb_draw(r, y, x, role, "▏");
}

/* What tells the case from others of its model. */
static void setting_text(const fb_app *app, const state *s, const fb_point_of *p, fb_str *out)
{
    json_t *flat = fb_plot_flat(json_array_get(app->sweep.of.cases, (size_t)p->row));
    char text[64];
    for (int i = 0; i < s->n_fields; i++) {
        const field *f = &s->fields[i];
        cell_text(flat, f, text);
        if (f->figure || !f->several || !*text || !strcmp(text, p->name)) continue;
        fb_str_addf(out, json_is_string(f->first) ? "%s%s" : "%s%s=", out->n ? " " : "",
                    json_is_string(f->first) ? text : f->name);
        if (!json_is_string(f->first)) fb_str_add(out, text);
    }
    if (p->of > 1) fb_str_addf(out, "%sbest of %d", out->n ? " · " : "", p->of);
    json_decref(flat);
}

static void draw_ranking(fb_app *app, const state *s, const fb_rect *r, bool focused)
{
    int name = 8, most_name = r->w * (s->now.kind == LARGEST ? 3 : 5) / 10, bar = r->w / 4;
    for (int i = 0; i < s->points.n; i++) {
        int w = fb_draw_text_width(s->points.at[i].name);
        if (w > name) name = w < most_name ? w : most_name;
    }
    int figure = 1 + name + 9, bars = figure + 1;
    if (s->now.kind == RANKING) bar = r->w - bars - 1;
    fb_draw_right(r, 0, figure, FB_ROLE_DIM, fb_json_string_or(plot_of(app, s), "y", ""));
    if (s->now.kind == LARGEST) fb_draw(r, 0, bars + bar + 2, FB_ROLE_DIM, "reached with");
    for (int y = 1; y < r->h && s->top + y - 1 < s->points.n; y++) {
        const fb_point_of *p = &s->points.at[s->top + y - 1];
        char text[32], figure_text[48];
        fb_str setting = {0};
        fb_row_ground(app, FB_VIEW_EXPERIMENT, r, y, s->top + y - 1, focused);
        fb_draw_cut(r, y, 1, name, FB_ROLE_STRONG, p->name);
        snprintf(figure_text, sizeof figure_text, "%s%s", fb_figure_sign(p->kind), fb_points_text(text, p->y));
        fb_draw_right(r, y, figure, kind_role(p->kind, FB_ROLE_TEXT), figure_text);
        draw_bar(r, y, bars, bar, p);
        if (s->now.kind == LARGEST) setting_text(app, s, p, &setting);
        fb_draw_cut(r, y, bars + bar + 2, r->w - bars - bar - 3, FB_ROLE_DIM, fb_str_get(&setting));
        fb_draw_ground(FB_GROUND_PLAIN);
        fb_str_free(&setting);
    }
}

/* The case that is being measured stands below the rows, as the next one. */
static void draw_next(fb_app *app, const state *s, const fb_rect *r, int y)
{
    const fb_column *c = fb_session_experiment_column(app->session);
    json_t *which =
        c ? json_pack("{s:{s:s, s:s, s:s}}", "case", "variant", c->variant, "plan", c->plan_name, "device", c->device)
          : NULL;
    char *name = which ? fb_plot_case_name(which) : NULL;
    fb_str text = {0};
    const char *key;
    json_t *value;
    fb_str_addf(&text, "… %s", name ? name : "the script says what comes next");
    json_object_foreach(c ? c->params : NULL, key, value)
    {
        bool swept = false;
        for (int i = 0; i < s->n_fields; i++) swept |= !s->fields[i].figure && !strcmp(s->fields[i].name, key);
        char *plain = fb_figure_plain(value);
        if (swept || !s->taken) fb_str_addf(&text, " %s=%s", key, plain);
        fb_free(plain);
    }
    if (c && *c->progress) fb_str_addf(&text, " · %s", c->progress);
    fb_draw_cut(r, y, 1, r->w - 2, FB_ROLE_DIM, fb_str_get(&text));
    fb_str_free(&text);
    fb_free(name);
    json_decref(which);
}

/* Below their headings. */
static void fit_rows(fb_app *app, state *s, const fb_rect *view, const fb_rect *rows)
{
    fb_scroll at = {.cursor = app->scroll[FB_VIEW_EXPERIMENT].cursor, .top = s->top};
    s->first_line = rows->y - view->y + 1;
    s->lines = rows->h - 1;
    fb_scroll_fit(&at, count_of(s), s->lines);
    s->top = at.top;
    app->scroll[FB_VIEW_EXPERIMENT] = at;
}

static int row_under(fb_app *app, int y, int x)
{
    const state *s = now(app);
    int line = y - s->first_line;
    if (y < s->chart) return s->points.n ? point_under(app, s, y, x) : -1;
    return line >= 0 && line < s->lines && s->top + line < count_of(s) ? s->top + line : -1;
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    enum { LEAST_CHART = 4, LEAST_ROWS = 4 };
    state *s = now(app);
    fb_rect rows = *r;
    if (app->sweep.runs && rows.h > 1) draw_next(app, s, r, --rows.h);
    int chart = rows.h * 3 / 5;
    s->chart = 0;
    if (s->now.kind == LINES && chart >= LEAST_CHART + AROUND && rows.h - chart >= LEAST_ROWS) {
        fb_rect top = {r->y, r->x, chart, r->w};
        s->chart = chart;
        if (s->points.n) draw_chart(app, s, &top);
        rows.y += chart;
        rows.h -= chart;
    }
    fit_rows(app, s, r, &rows);
    if (!count_of(s))
        fb_draw_wrapped(&rows, 0, 2, rows.h, FB_ROLE_DIM,
                        app->sweep.runs ? "no rows yet"
                        : s->taken      ? "no row has what this plots: Tab shows all rows"
                                        : "there are no rows: m runs the experiment");
    else if (s->now.kind == RANKING || s->now.kind == LARGEST)
        draw_ranking(app, s, &rows, focused);
    else
        draw_rows(app, s, &rows, focused);
}

/* ---- the row under the cursor ---------------------------------------------------------------------------------------
 */

static const json_t *row_here(fb_app *app)
{
    const state *s = now(app);
    int at = row_at(s, app->scroll[FB_VIEW_EXPERIMENT].cursor);
    return at >= 0 && at < s->taken ? json_array_get(app->sweep.of.cases, (size_t)at) : NULL;
}

static void text(fb_app *app, int at, fb_str *out)
{
    const state *s = now(app);
    char *name = fb_plot_case_name(json_array_get(app->sweep.of.cases, (size_t)row_at(s, at)));
    fb_str_add(out, name);
    fb_free(name);
}

/* Its figures with what they are called, and what kind they are. */
static void figures_text(const state *s, const json_t *row, fb_str *out)
{
    json_t *flat = fb_plot_flat(row);
    char cell[64];
    bool guess = false;
    for (int i = 0; i < s->n_fields; i++) {
        const field *f = &s->fields[i];
        cell_text(flat, f, cell);
        if (!f->figure || !*cell) continue;
        fb_str_addf(out, "%s%s %s", out->n ? " · " : "", f->name, cell);
        guess |= json_is_real(json_object_get(flat, f->name));
    }
    if (guess) fb_str_addf(out, " · %s", fb_report_source_name(fb_figure_kind(flat)));
    json_decref(flat);
}

static void explain(fb_app *app, fb_hint *hint)
{
    picture all[MOST_PICTURES];
    const json_t *row = row_here(app);
    const char *failed = fb_json_string_or(json_object_get(row, "row"), "failed", NULL);
    char *name = row ? fb_plot_case_name(row) : NULL;
    fb_str_add(&hint->title, name ? name : "experiment");
    if (failed) {
        fb_str_add(&hint->line[0], failed);
        hint->role[0] = FB_ROLE_BAD;
    } else if (row) {
        figures_text(now(app), row, &hint->line[0]);
    }
    fb_str_add(&hint->line[1], app->sweep.runs ? "x stops it, Esc leaves it running" : "m: goes on, or again");
    if (row) fb_str_add(&hint->line[1], " · Enter: its columns");
    if (pictures_of(app, all) > 1) fb_str_add(&hint->line[1], " · Tab: next picture");
    if (row && !app->sweep.runs) fb_str_add(&hint->line[1], " · C-e: to a file · E: the script");
    fb_free(name);
}

/* ---- commands -------------------------------------------------------------------------------------------------------
 */

static void change_picture(fb_app *app, int step)
{
    picture all[MOST_PICTURES];
    state *s = now(app);
    int n = pictures_of(app, all), at = 0;
    while (at < n - 1 && (all[at].kind != s->now.kind || all[at].plot != s->now.plot)) at++;
    s->wished = (at + step + n) % n;
}

static bool key(fb_app *app, int key)
{
    if (key != 'x') return false;
    if (app->sweep.runs)
        fb_session_stop_experiment(app->session);
    else
        fb_app_say(app, FB_ROLE_WARN, "the experiment is not running: m runs it");
    return true;
}

static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    const json_t *row;
    switch (c) {
    case FB_CMD_ENTER:
        if ((row = row_here(app))) fb_sweep_open_case(app, row);
        return true;
    case FB_CMD_RIGHT:
    case FB_CMD_NEXT_PANE: change_picture(app, 1); return true;
    case FB_CMD_LEFT:
    case FB_CMD_PREVIOUS_PANE: change_picture(app, -1); return true;
    case FB_CMD_MEASURE: fb_sweep_start(app, ""); return true;
    case FB_CMD_EXPORT:
        if (!*arg) return false;
        fb_sweep_export(app, arg);
        return true;
    default: return false;
    }
}

static void opened(fb_app *app)
{
    now(app);
}

const fb_view fb_view_experiment = {
    .title = title,
    .count = count,
    .draw = draw,
    .text = text,
    .explain = explain,
    .command = command,
    .key = key,
    .row_at = row_under,
    .opened = opened,
};
