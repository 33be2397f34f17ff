/* Plots of plans: time against bytes moved, and the roofline. Columns stand as their numbers, kernels of the column in
 * focus as their letters, everything else that was tried as a dot. */
#include "session/results.h"
#include "tui/show/figure.h"
#include "tui/term/canvas.h"
#include "tui/view/tried.h"
#include "tui/view/ui.h"

#include "base/json.h"

#include <limits.h>
#include <math.h>
#include <string.h>

typedef enum { SCATTER, ROOFLINE, MODES } mode;

typedef struct {
    int n;
    fb_point *points;
    const fb_machine *machine; /* NULL: no roof */
    bool of_results, doubted;  /* doubted: no roof either, for its calibration is worth nothing */
} plot;

/* Logarithms of what the axes begin and end with. */
typedef struct {
    double x0, x1, y0, y1;
} range;

static plot *state(fb_app *app)
{
    return app->state[FB_VIEW_PLOT];
}

/* ---- what is plotted ----------------------------------------------------------------------------------------------
 */

static double known(double measured, double predicted)
{
    return isfinite(measured) ? measured : predicted;
}

static bool has_no_figures(const fb_column *c)
{
    return c->state == FB_COLUMN_FAILED || (c->report && (c->report->failed || fb_report_is_wrong(c->report)));
}

static int add_columns(fb_app *app, fb_point *to)
{
    int n = 0;
    for (int i = 0; i < fb_session_columns(app->session); i++) {
        const fb_column *c = fb_session_column(app->session, i);
        const fb_report *r = c->report;
        fb_figure_source kind;
        if (has_no_figures(c)) continue;
        bool planned = c->plan && isfinite(c->predicted.us);
        double us = fb_figure_column_wall(c, &kind);
        double bytes = known(r ? r->bytes_read + r->bytes_written : NAN,
                             planned ? (double)(c->predicted.bytes_read + c->predicted.bytes_written) : NAN);
        double flops = known(r ? r->flops : NAN, planned ? (double)c->predicted.flops : NAN);
        const fb_column *focus = app->model.column;
        bool elsewhere = focus && strcmp(c->device, focus->device) != 0;
        if (us > 0 && bytes > 0) to[n++] = (fb_point){c->text, bytes, us, flops, i, kind, elsewhere};
    }
    return n;
}

/* What was tried of the same graph on the same device earlier. */
static int add_history(fb_app *app, fb_arena *arena, fb_point **to, int n)
{
    char path[PATH_MAX], hex[33];
    const fb_column *c = app->model.column;
    fb_results *file = fb_tried_path(path, sizeof path) ? fb_results_skim(path, NULL) : NULL;
    if (!file || !c || !c->graph) {
        fb_results_close(file);
        return n;
    }
    int rows = fb_results_rows(file);
    fb_point *all = FB_NEW_ARRAY(arena, fb_point, n + rows + 1);
    memcpy(all, *to, (size_t)n * sizeof *all);
    fb_hash_hex(c->graph->hash, hex);
    for (int i = 0; i < rows; i++) {
        const json_t *row = fb_results_row(file, i),
                     *bytes = json_object_get(json_object_get(row, "bytes"), "modelled");
        double us = fb_json_number_or(json_object_get(row, "wall_us"), "median", NAN);
        double moved = fb_json_number_or(bytes, "read", NAN) + fb_json_number_or(bytes, "written", NAN);
        if (strcmp(fb_json_string_or(row, "graph_hash", ""), hex) != 0 || !(us > 0) || !(moved > 0)) continue;
        if (strcmp(fb_json_string_or(row, "device", ""), c->device) != 0 || fb_figure_is_wrong(row)) continue;
        all[n++] = (fb_point){fb_arena_strdup(arena, fb_json_string_or(row, "plan", "?")),
                              moved,
                              us,
                              fb_json_number_or(row, "flops", NAN),
                              .column = -1,
                              .kind = fb_figure_kind(row)};
    }
    fb_results_close(file);
    *to = all;
    return n;
}

/* Columns, and with them what they are called, come and go while the plot stands. */
static void keep_names(fb_arena *arena, plot *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->points[i].name) p->points[i].name = fb_arena_strdup(arena, p->points[i].name);
}

static void opened(fb_app *app)
{
    bool of_results = app->n_over > 1 && app->over[app->n_over - 2] == FB_VIEW_RESULTS;
    plot *p = fb_view_state(app, FB_VIEW_PLOT, sizeof *p);
    fb_arena *arena = app->arena[FB_VIEW_PLOT];
    app->scroll[FB_VIEW_PLOT] = (fb_scroll){0};
    p->of_results = of_results;
    if (of_results) {
        p->n = fb_view_results_points(app, arena, &p->points);
        keep_names(arena, p);
        return;
    }
    p->points = FB_NEW_ARRAY(arena, fb_point, fb_session_columns(app->session) + 1);
    p->n = add_columns(app, p->points);
    p->n = add_history(app, arena, &p->points, p->n);
    keep_names(arena, p);
    const fb_machine *machine = app->model.column ? app->model.column->machine : NULL;
    p->doubted = machine && machine->doubted;
    p->machine = machine && !p->doubted ? fb_arena_copy(arena, machine, sizeof *machine) : NULL;
}

/* ---- drawing ------------------------------------------------------------------------------------------------------
 */

static void place(const fb_point *p, mode m, double *x, double *y)
{
    *x = log10(m == SCATTER ? p->bytes : p->flops / p->bytes);
    *y = log10(m == SCATTER ? p->us : p->flops / p->us * 1e6);
}

static void widen(range *r, double x, double y)
{
    if (!isfinite(x) || !isfinite(y)) return;
    r->x0 = fmin(r->x0, x);
    r->x1 = fmax(r->x1, x);
    r->y0 = fmin(r->y0, y);
    r->y1 = fmax(r->y1, y);
}

/* A little room on every side, and at least a decade. */
static bool settle(range *r)
{
    if (!(r->x1 >= r->x0)) return false;
    for (double *low = &r->x0, *high = &r->x1;; low = &r->y0, high = &r->y1) {
        double middle = (*low + *high) / 2, half = fmax((*high - *low) * 0.58, 0.5);
        *low = middle - half;
        *high = middle + half;
        if (low == &r->y0) return true;
    }
}

static double at(double v, double from, double to)
{
    return (v - from) / (to - from);
}

static double peak_flops(const fb_machine *m)
{
    double best = m->gflops[FB_F32];
    for (int d = 0; d < FB_DTYPES; d++)
        for (int i = 0; i < m->gemm[d].n; i++) best = fmax(best, m->gemm[d].rate[i]);
    return best * 1e9;
}

/* What the device's copy curve and its arithmetic allow. */
static double roof_at(const fb_machine *m, mode kind, double x)
{
    double bandwidth = 0;
    for (int i = 0; i < m->copy_hot.n; i++) bandwidth = fmax(bandwidth, m->copy_hot.rate[i] * 1e9);
    return kind == SCATTER ? log10(fb_memory_us(m, pow(10, x))) : log10(fmin(pow(10, x) * bandwidth, peak_flops(m)));
}

static void draw_roof(fb_canvas *c, const fb_machine *m, mode kind, const range *r)
{
    for (int i = 0; i <= 4 * c->w; i++) {
        double x = r->x0 + (r->x1 - r->x0) * i / (4 * c->w);
        double y = roof_at(m, kind, x);
        fb_canvas_dot(c, at(x, r->x0, r->x1), at(y, r->y0, r->y1));
    }
}

static const char *tick_text(double exponent, mode m, bool vertical, char to[32])
{
    double v = pow(10, exponent);
    if (m == SCATTER) return vertical ? fb_format_us(to, v) : fb_format_bytes(to, v);
    if (!vertical)
        snprintf(to, 32, "%g FLOPs/byte", v);
    else if (v < 1e9)
        snprintf(to, 32, "%g MFLOP/s", v / 1e6);
    else if (v < 1e12)
        snprintf(to, 32, "%g GFLOP/s", v / 1e9);
    else
        snprintf(to, 32, "%g TFLOP/s", v / 1e12);
    return to;
}

enum { LEFT = 12, MOST_TICKS = 24 };

/* Whole powers of ten; where few of them lie in the range, twice and five times them as well. Logarithms, ascending. */
static int ticks(double from, double to, double e[MOST_TICKS])
{
    static const double steps[] = {1, 2, 5};
    int n = 0, each = to - from < 2 ? 3 : 1;
    for (int decade = (int)floor(from); decade <= (int)floor(to); decade++)
        for (int k = 0; k < each && n < MOST_TICKS; k++) {
            double v = decade + log10(steps[k]);
            if (v >= from && v <= to) e[n++] = v;
        }
    return n;
}

static void draw_axes(const fb_rect *r, const fb_rect *body, const range *g, mode m)
{
    char text[32];
    double e[MOST_TICKS];
    for (int i = 0, n = ticks(g->y0, g->y1, e); i < n; i++) {
        int y = (int)lround((1 - at(e[i], g->y0, g->y1)) * (body->h - 1));
        fb_draw_right(r, y, LEFT - 1, FB_ROLE_DIM, tick_text(e[i], m, true, text));
    }
    for (int y = 0; y < body->h; y++) fb_draw(r, y, LEFT - 1, FB_ROLE_FRAME, "│");
    fb_draw_run(r, body->h, LEFT, body->w, FB_ROLE_FRAME, "─");
    for (int i = 0, n = ticks(g->x0, g->x1, e), free = LEFT; i < n; i++) {
        int x = LEFT + (int)lround(at(e[i], g->x0, g->x1) * (body->w - 1));
        int w = fb_draw_text_width(tick_text(e[i], m, false, text));
        if (x - w / 2 < free || x + w / 2 + 1 > r->w) continue;
        free = fb_draw(r, body->h + 1, x - w / 2, FB_ROLE_DIM, text) + 2;
    }
}

static void draw_canvas(const fb_rect *body, const fb_canvas *c)
{
    char cell[4];
    for (int y = 0; y < c->h; y++)
        for (int x = 0; x < c->w; x++) {
            char mark[2] = {c->mark[y * c->w + x], '\0'};
            if (*mark)
                fb_draw(body, y, x, (fb_role)c->role[y * c->w + x], mark);
            else if (*fb_canvas_cell(c, x, y, cell))
                fb_draw(body, y, x, FB_ROLE_DIM, cell);
        }
}

/* Roofline alone: the kernels of the column in focus. */
static void mark_kernels(fb_app *app, fb_canvas *c, const range *g)
{
    const fb_model *m = &app->model;
    for (int i = 0; i < m->kernels.n; i++) {
        const fb_kernel_line *k = &m->kernels.at[i];
        double x, y;
        if (k->letter == FB_NONE || k->letter >= 26) continue;
        place(&(fb_point){.bytes = k->bytes, .us = k->us, .flops = k->flops}, ROOFLINE, &x, &y);
        fb_canvas_mark(c, at(x, g->x0, g->x1), at(y, g->y0, g->y1), (char)('a' + k->letter),
                       k->measured ? FB_ROLE_GROUP + k->letter % FB_GROUP_COLOURS : FB_ROLE_PREDICTED, true);
    }
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    const plot *p = state(app);
    mode m = (mode)app->plot_mode;
    range g = {INFINITY, -INFINITY, INFINITY, -INFINITY};
    fb_rect body = {r->y, r->x + LEFT, r->h - 2, r->w - LEFT - 1};
    double x, y;
    (void)focused;
    for (int i = 0; i < p->n; i++) {
        place(&p->points[i], m, &x, &y);
        widen(&g, x, y);
    }
    for (int i = 0; i < app->model.kernels.n && m == ROOFLINE && !p->of_results; i++) {
        const fb_kernel_line *k = &app->model.kernels.at[i];
        place(&(fb_point){.bytes = k->bytes, .us = k->us, .flops = k->flops}, m, &x, &y);
        widen(&g, x, y);
    }
    if (p->machine && g.x1 >= g.x0) {
        widen(&g, g.x0, roof_at(p->machine, m, g.x0));
        widen(&g, g.x1, roof_at(p->machine, m, g.x1));
    }
    if (!settle(&g) || body.h < 3) {
        fb_draw(r, 1, 2, FB_ROLE_DIM, "no column has both a time and bytes yet");
        return;
    }
    fb_arena *arena = fb_arena_new();
    fb_canvas *c = fb_canvas_new(arena, body.w, body.h);
    if (p->machine) draw_roof(c, p->machine, m, &g);
    int cursor = app->scroll[FB_VIEW_PLOT].cursor;
    for (int i = 0; i < p->n; i++) {
        const fb_point *q = &p->points[i];
        bool here = i == cursor;
        if (!fb_filter_shows(app, FB_VIEW_PLOT, i)) continue;
        place(q, m, &x, &y);
        bool estimate = *fb_figure_sign(q->kind);
        char mark = q->column >= 0 && q->column < 9 ? (char)('1' + q->column) : here ? '*' : estimate ? '~' : 'o';
        fb_canvas_mark(c, at(x, g.x0, g.x1), at(y, g.y0, g.y1), mark,
                       here             ? FB_ROLE_KEY
                       : estimate       ? FB_ROLE_PREDICTED
                       : q->column >= 0 ? FB_ROLE_FOCUS
                                        : FB_ROLE_TIME,
                       here || q->column >= 0);
    }
    if (m == ROOFLINE && !p->of_results) mark_kernels(app, c, &g);
    draw_axes(r, &body, &g, m);
    draw_canvas(&body, c);
    fb_arena_free(arena);
}

/* ---- the view -----------------------------------------------------------------------------------------------------
 */

static void title(fb_app *app, fb_str *out)
{
    fb_str_add(out, app->plot_mode == SCATTER ? "time against bytes moved" : "roofline");
    if (state(app) && state(app)->of_results) fb_str_add(out, " · results");
}

static int count(fb_app *app)
{
    return state(app) ? state(app)->n : 0;
}

/* What the marks are, and how far the line may be believed. */
static void legend(const plot *p, fb_str *out)
{
    if (p && p->of_results) {
        fb_str_add(out, "o: measured or recorded, ~: composed or predicted");
        return;
    }
    fb_str_add(out, "digits: columns, letters: kernels, o ~: earlier ones, ");
    fb_str_add(out, !p || p->doubted         ? "no line: doubted"
                    : !p->machine            ? "no line"
                    : p->machine->calibrated ? "line: the limit"
                                             : "line: a guessed limit");
}

static void explain(fb_app *app, fb_hint *hint)
{
    const plot *p = state(app);
    int i = app->scroll[FB_VIEW_PLOT].cursor;
    char us[48], bytes[48];
    fb_str_add(&hint->title, "plot");
    legend(p, &hint->line[1]);
    if (!p || i >= p->n) return;
    const fb_point *q = &p->points[i];
    fb_str_addf(&hint->line[0], "%s: %s%s%s, %s", q->name, fb_figure_write(us, q->us, FB_UNIT_US, q->kind),
                *fb_figure_sign(q->kind) ? " " : "", *fb_figure_sign(q->kind) ? fb_report_source_name(q->kind) : "",
                fb_figure_write(bytes, q->bytes, FB_UNIT_BYTES, FB_SOURCE_MEASURED));
    if (isfinite(q->flops)) fb_str_addf(&hint->line[0], ", %.3g FLOPs a byte", q->flops / q->bytes);
    if (q->elsewhere && p->machine) fb_str_add(&hint->line[0], ", another device than the line's");
}

static void text(fb_app *app, int row, fb_str *out)
{
    fb_str_add(out, state(app)->points[row].name);
}

static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    (void)arg;
    if (c != FB_CMD_LEFT && c != FB_CMD_RIGHT) return false;
    app->plot_mode = (app->plot_mode + 1) % MODES;
    return true;
}

static const fb_view_key keys[] = {
    {FB_CMD_RIGHT, "l roofline", "time against bytes, or the roofline"},
    {FB_CMD_LEFT, "", "the other plot"},
    {FB_CMD_NONE, NULL, NULL},
};

const fb_view fb_view_plot = {
    .title = title,
    .count = count,
    .draw = draw,
    .text = text,
    .explain = explain,
    .command = command,
    .opened = opened,
    .keys = keys,
    .about = "Each digit or dot is one plan. The lower it stands, the less time it takes; the further to the "
             "left, the fewer bytes it moves.\n"
             "The line is the floor: nothing that moves so many bytes can be faster on the focused column's device. "
             "The other plot, the roofline, shows how many operations are done for each byte.",
};
