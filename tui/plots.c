#include "tui/plots.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/vec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

json_t *fb_plot_flat(const json_t *row)
{
    json_t *flat = json_object(), *which = json_object_get(row, "case");
    json_object_update(flat, which);
    json_object_del(flat, "params");
    if (json_object_get(which, "params")) json_object_update(flat, json_object_get(which, "params"));
    if (json_object_get(row, "row")) json_object_update(flat, json_object_get(row, "row"));
    if (json_object_get(row, "source")) json_object_set(flat, "source", json_object_get(row, "source"));
    return flat;
}

/* ---- rows that have what is plotted ---- */

typedef struct {
    char *name;
    double x, y, low, high; /* NAN: not known */
    fb_figure_source kind;
} point;

typedef FB_VEC(point) points;

static void add_value(fb_str *out, const json_t *value)
{
    char *line = json_is_string(value) ? fb_strdup(json_string_value(value)) : fb_json_line(value);
    fb_str_add(out, line);
    fb_free(line);
}

char *fb_plot_case_name(const json_t *row)
{
    const json_t *which = json_object_get(row, "case");
    const char *variant = fb_json_string_or(which, "variant", ""), *device = fb_json_string_or(which, "device", ""),
               *key;
    json_t *value;
    fb_str out = {0};
    fb_str_addf(&out, "%s%s%s%s%s", variant, *variant ? ":" : "", fb_json_string_or(which, "plan", ""),
                *device ? "@" : "", device);
    json_object_foreach(json_object_get(which, "params"), key, value)
    {
        fb_str_addf(&out, "%s%s=", strchr(fb_str_get(&out), '=') ? " " : "  ", key);
        add_value(&out, value);
    }
    char *name = fb_strdup(fb_str_get(&out));
    fb_str_free(&out);
    return name;
}

/* The values of the keys of `by`, which is one name or a list of them. */
static char *name_of_group(const json_t *flat, const json_t *by)
{
    fb_str out = {0};
    size_t n = json_is_array(by) ? json_array_size(by) : 1;
    for (size_t i = 0; by && i < n; i++) {
        const char *key = json_string_value(json_is_array(by) ? json_array_get(by, i) : by);
        const json_t *value = key ? json_object_get(flat, key) : NULL;
        if (i) fb_str_add(&out, " ");
        if (value) add_value(&out, value);
    }
    char *name = fb_strdup(fb_str_get(&out));
    fb_str_free(&out);
    return name;
}

static double figure(const json_t *flat, const json_t *plot, const char *what)
{
    const char *key = fb_json_string_or(plot, what, NULL);
    return key ? fb_json_number_or(flat, key, NAN) : NAN;
}

static bool is_ranking(const json_t *plot)
{
    return !fb_json_string_or(plot, "x", NULL) && fb_json_string_or(plot, "y", NULL);
}

static points points_of(const json_t *plot, const json_t *rows)
{
    points out = {0};
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row)
    {
        json_t *flat = fb_plot_flat(row);
        point p = {.x = figure(flat, plot, "x"),
                   .y = figure(flat, plot, "y"),
                   .low = figure(flat, plot, "low"),
                   .high = figure(flat, plot, "high"),
                   .kind = fb_figure_kind(flat)};
        if (isfinite(p.y) && (is_ranking(plot) || isfinite(p.x))) {
            p.name = is_ranking(plot) ? fb_plot_case_name(row) : name_of_group(flat, json_object_get(plot, "by"));
            FB_VEC_PUSH(&out, p);
        }
        json_decref(flat);
    }
    return out;
}

static void free_points(points *p)
{
    for (int i = 0; i < p->n; i++) fb_free(p->at[i].name);
    FB_VEC_FREE(p);
}

/* Some of them are no measurements. */
static bool any_of_kind(const points *p)
{
    for (int i = 0; i < p->n; i++)
        if (*fb_figure_sign(p->at[i].kind)) return true;
    return false;
}

static int largest_first(const void *a, const void *b)
{
    const point *p = a, *q = b;
    return p->y != q->y ? (p->y < q->y) - (p->y > q->y) : strcmp(p->name, q->name);
}

static int by_name_and_x(const void *a, const void *b)
{
    const point *p = a, *q = b;
    int order = strcmp(p->name, q->name);
    return order ? order : (p->x > q->x) - (p->x < q->x);
}

static double most_of(const points *p)
{
    double most = 0;
    for (int i = 0; i < p->n; i++) most = fmax(most, isfinite(p->at[i].high) ? p->at[i].high : p->at[i].y);
    return most;
}

/* 2.62 M, 811 k, 0.12 */
static const char *figure_text(char to[32], double v)
{
    static const struct {
        double unit;
        const char *sign;
    } units[] = {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}, {0, ""}};
    int i = 0;
    while (units[i].unit > 0 && fabs(v) < 0.9995 * units[i].unit) i++;
    double shown = units[i].unit > 0 ? v / units[i].unit : v;
    snprintf(to, 32, fabs(shown) >= 999.5 ? "%.0f%s" : "%.3g%s", shown, units[i].sign);
    return to;
}

/* ---- rankings as text ---- */

enum { BAR_CELLS = 32, MOST_TEXT = 40 };

/* Solid up to the least that was seen, shaded up to the most. */
static void add_bar(fb_str *out, const point *p, double most)
{
    bool utf8 = fb_cli_utf8();
    double low = isfinite(p->low) ? p->low : p->y, high = isfinite(p->high) ? p->high : p->y;
    int solid = (int)lround(BAR_CELLS * low / most), all = (int)lround(BAR_CELLS * high / most);
    for (int i = 0; i < all; i++) fb_str_add(out, utf8 ? i < solid ? "█" : "░" : i < solid ? "#" : "-");
}

static void print_ranking(const json_t *plot, const json_t *rows, FILE *out)
{
    points p = points_of(plot, rows);
    double most = most_of(&p);
    bool spread = fb_json_string_or(plot, "low", NULL) || fb_json_string_or(plot, "high", NULL);
    if (p.n) qsort(p.at, (size_t)p.n, sizeof *p.at, largest_first);
    fb_table *t = fb_table_new();
    fb_table_column(t, "largest first", "", true);
    fb_table_column(t, fb_json_string_or(plot, "y", ""), "", false);
    if (spread) fb_table_column(t, "spread", "", false);
    fb_table_column(t, "", "", true);
    for (int i = 0; i < p.n && i < MOST_TEXT; i++) {
        char text[32], low[32], high[32];
        fb_str bar = {0};
        fb_table_row(t);
        fb_table_cell(t, p.at[i].name);
        fb_table_cellf(t, "%s%s", fb_figure_sign(p.at[i].kind), figure_text(text, p.at[i].y));
        if (spread && isfinite(p.at[i].low) && isfinite(p.at[i].high))
            fb_table_cellf(t, "%s–%s", figure_text(low, p.at[i].low), figure_text(high, p.at[i].high));
        else if (spread)
            fb_table_cell(t, NULL);
        if (most > 0) add_bar(&bar, &p.at[i], most);
        fb_table_cell(t, fb_str_get(&bar));
        fb_str_free(&bar);
    }
    if (p.n) {
        fputc('\n', out);
        fb_table_print(t, FB_FORMAT_TABLE, out);
    }
    if (p.n && any_of_kind(&p)) {
        fb_put(out, fb_figure_legend);
        fputc('\n', out);
    }
    if (p.n > MOST_TEXT) fprintf(out, "and %d more\n", p.n - MOST_TEXT);
    fb_table_free(t);
    free_points(&p);
}

void fb_plots_print(const json_t *plots, const json_t *rows, FILE *out)
{
    size_t i;
    json_t *plot;
    json_array_foreach((json_t *)plots, i, plot)
    {
        if (is_ranking(plot)) print_ranking(plot, rows, out);
    }
}

/* ---- pictures ---- */

enum { WIDTH = 760, NAME = 300, FIGURE = 70, LINE = 18, PLOT_H = 320, LEFT = 70, RIGHT = 190, TOP = 14, BOTTOM = 36 };

static void draw_ranking(fb_picture *p, const points *all)
{
    double most = most_of(all), scale = (WIDTH - NAME - FIGURE - 8) / (most > 0 ? most : 1);
    int from = NAME + FIGURE;
    p->w = WIDTH;
    p->h = 4;
    for (int i = 0; i < all->n; i++) {
        const point *at = &all->at[i];
        char text[32], signed_text[48];
        fb_picture_text(p, 0, p->h + 13, "", "start", NAME - 8, at->name);
        snprintf(signed_text, sizeof signed_text, "%s%s", fb_figure_sign(at->kind), figure_text(text, at->y));
        fb_picture_text(p, from - 8, p->h + 13, "dim", "end", 0, signed_text);
        fb_str_addf(&p->body, "<rect class=\"time%s\" x=\"%d\" y=\"%d\" width=\"%.2f\" height=\"11\" rx=\"2\"/>\n",
                    *fb_figure_sign(at->kind) ? " guess" : "", from, p->h + 4, fmax(at->y * scale, 0.5));
        if (isfinite(at->low) && isfinite(at->high))
            fb_str_addf(&p->body, "<path class=\"roof\" d=\"M%.1f %dV%dM%.1f %dH%.1fM%.1f %dV%d\"/>\n",
                        from + at->low * scale, p->h + 6, p->h + 13, from + at->low * scale, p->h + 9,
                        from + at->high * scale, from + at->high * scale, p->h + 6, p->h + 13);
        p->h += LINE;
    }
}

/* A direction of a plot: from pixel `at` over `room`, in logarithms where that is asked for and can be. */
typedef struct {
    double low, high, at, room;
    bool log;
} scale;

static double place(const scale *s, double v)
{
    double from = s->log ? log10(s->low) : s->low, to = s->log ? log10(s->high) : s->high, x = s->log ? log10(v) : v;
    return s->at + s->room * (to > from ? (x - from) / (to - from) : 0.5);
}

static scale scale_of(const points *all, bool vertical, bool log)
{
    scale s = {.low = INFINITY, .high = -INFINITY};
    for (int i = 0; i < all->n; i++) {
        double v = vertical ? all->at[i].y : all->at[i].x;
        s.low = fmin(s.low, v);
        s.high = fmax(s.high, v);
    }
    s.log = log && s.low > 0;
    if (!s.log && s.low > 0) s.low = 0; /* lengths are compared from zero on */
    s.at = vertical ? PLOT_H - BOTTOM : LEFT;
    s.room = vertical ? -(PLOT_H - BOTTOM - TOP) : WIDTH - LEFT - RIGHT;
    return s;
}

static void draw_tick(fb_picture *p, const scale *s, bool vertical, double v)
{
    static const fb_picture_frame frame = {LEFT, WIDTH - RIGHT, TOP, PLOT_H - BOTTOM};
    char text[32];
    figure_text(text, v);
    fb_picture_tick(p, &frame, vertical, place(s, v), text);
}

static void draw_ticks(fb_picture *p, const scale *s, bool vertical)
{
    if (!(s->high > s->low)) {
        draw_tick(p, s, vertical, s->low);
        return;
    }
    if (s->log) {
        int n = 0;
        for (int e = (int)floor(log10(s->low)); e <= (int)floor(log10(s->high)); e++)
            for (int k = 1; k <= 5; k += k == 2 ? 3 : 1) { /* 1, 2, 5 */
                double v = k * pow(10, e);
                if (v < 0.999 * s->low || v > 1.001 * s->high) continue;
                draw_tick(p, s, vertical, v);
                n++;
            }
        if (n > 1) return;
        draw_tick(p, s, vertical, s->low);
        draw_tick(p, s, vertical, s->high);
        return;
    }
    double step = pow(10, floor(log10((s->high - s->low) / 2)));
    while ((s->high - s->low) / step > 6) step *= 2;
    double first = ceil(s->low / step);
    for (int i = 0; (first + i) * step <= s->high * 1.0001; i++) draw_tick(p, s, vertical, (first + i) * step);
}

static void draw_lines(fb_picture *p, const json_t *plot, points *all)
{
    const char *log = fb_json_string_or(plot, "log", "");
    scale x = scale_of(all, false, strchr(log, 'x')), y = scale_of(all, true, strchr(log, 'y'));
    p->w = WIDTH;
    p->h = PLOT_H;
    draw_ticks(p, &x, false);
    draw_ticks(p, &y, true);
    fb_str_addf(&p->body, "<path class=\"roof\" d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP, PLOT_H - BOTTOM, WIDTH - RIGHT);
    fb_picture_text(p, WIDTH - RIGHT, PLOT_H - 4, "dim", "end", 0, fb_json_string_or(plot, "x", ""));
    fb_picture_text(p, 0, TOP - 4, "dim", "start", 0, fb_json_string_or(plot, "y", ""));
    int groups = 0;
    for (int i = 0, k; i < all->n; i = k, groups++) {
        int colour = groups % FB_PICTURE_COLOURS, label = TOP + 12 + groups * LINE;
        fb_str_addf(&p->body, "<path class=\"s%d\" fill=\"none\" stroke-width=\"1.5\" d=\"", colour);
        for (k = i; k < all->n && strcmp(all->at[k].name, all->at[i].name) == 0; k++)
            fb_str_addf(&p->body, "%s%.1f %.1f", k == i ? "M" : "L", place(&x, all->at[k].x), place(&y, all->at[k].y));
        fb_str_add(&p->body, "\"/>\n");
        for (int n = i; n < k; n++)
            fb_str_addf(&p->body, "<circle class=\"f%d s%d%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>", colour, colour,
                        *fb_figure_sign(all->at[n].kind) ? " hollow" : "", place(&x, all->at[n].x),
                        place(&y, all->at[n].y));
        fb_str_addf(&p->body, "<circle class=\"f%d\" cx=\"%d\" cy=\"%d\" r=\"4\"/>", colour, WIDTH - RIGHT + 14,
                    label - 4);
        fb_picture_text(p, WIDTH - RIGHT + 24, label, "", "start", RIGHT - 26, all->at[i].name);
        if (label + LINE > p->h) p->h = label + LINE;
    }
}

int fb_plots_draw(const json_t *plots, const json_t *rows, fb_picture **to, char ***named)
{
    int n = (int)json_array_size(plots);
    fb_picture *pictures = *to = fb_calloc((size_t)n + 1, sizeof *pictures);
    char **titles = *named = fb_calloc((size_t)n + 1, sizeof *titles);
    for (int i = 0; i < n; i++) {
        const json_t *plot = json_array_get(plots, (size_t)i);
        points all = points_of(plot, rows);
        fb_str title = {0};
        if (all.n) qsort(all.at, (size_t)all.n, sizeof *all.at, is_ranking(plot) ? largest_first : by_name_and_x);
        fb_str_addf(&title, "%s by %s", fb_json_string_or(plot, "y", ""),
                    fb_json_string_or(plot, "x", "model and setting"));
        titles[i] = fb_strdup(fb_str_get(&title));
        if (all.n && is_ranking(plot)) draw_ranking(&pictures[i], &all);
        if (all.n && !is_ranking(plot)) draw_lines(&pictures[i], plot, &all);
        if (all.n && any_of_kind(&all)) fb_picture_legend(&pictures[i]);
        fb_str_free(&title);
        free_points(&all);
    }
    return n;
}

void fb_plots_drop(fb_picture *pictures, char **titles, int n)
{
    for (int i = 0; i < n; i++) {
        fb_picture_free(&pictures[i]);
        fb_free(titles[i]);
    }
    fb_free(pictures);
    fb_free(titles);
}

void fb_plots_svg(const json_t *plots, const json_t *rows, fb_str *out)
{
    fb_picture *pictures;
    char **titles;
    int n = fb_plots_draw(plots, rows, &pictures, &titles);
    fb_picture_document(pictures, (const char *const *)titles, n, out);
    fb_plots_drop(pictures, titles, n);
}
