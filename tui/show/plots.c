/* An experiment's plots as tables and as SVG, from the points of points.c. */
#include "tui/show/plots.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/vec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rankings as text ---- */

enum { BAR_CELLS = 32, MOST_TEXT = 40 };

/* Solid up to the least that was seen, shaded up to the most. */
static void add_bar(fb_str *out, const fb_point_of *p)
{
    bool utf8 = fb_show_utf8();
    double low = isfinite(p->low) ? p->low : p->y, high = isfinite(p->high) ? p->high : p->y;
    int solid = (int)lround(BAR_CELLS * low / p->most), all = (int)lround(BAR_CELLS * high / p->most);
    for (int i = 0; i < all; i++) fb_str_add(out, utf8 ? i < solid ? "█" : "░" : i < solid ? "#" : "-");
}

/* `rows`: each of the points is the largest of several, and which that is stands behind its bar; NULL: they are all
 * there are. */
static void print_bars(const fb_points *p, const json_t *plot, const char *heading, const json_t *rows, FILE *out)
{
    bool spread = fb_json_string_or(plot, "low", NULL) || fb_json_string_or(plot, "high", NULL);
    fb_table *t = fb_table_new();
    fb_table_column(t, heading, "", true);
    fb_table_column(t, fb_json_string_or(plot, "y", ""), "", false);
    if (spread) fb_table_column(t, "spread", "", false);
    fb_table_column(t, "", "", true);
    if (rows) fb_table_column(t, "reached with", "", true);
    for (int i = 0; i < p->n && i < MOST_TEXT; i++) {
        const fb_point_of *at = &p->at[i];
        char text[32], low[32], high[32];
        fb_str bar = {0};
        fb_table_row(t);
        fb_table_cell(t, at->name);
        fb_table_cellf(t, "%s%s", fb_figure_sign(at->kind), fb_points_text(text, at->y));
        if (spread && isfinite(at->low) && isfinite(at->high))
            fb_table_cellf(t, "%s–%s", fb_points_text(low, at->low), fb_points_text(high, at->high));
        else if (spread)
            fb_table_cell(t, NULL);
        if (at->most > 0) add_bar(&bar, at);
        fb_table_cell(t, fb_str_get(&bar));
        char *name = rows ? fb_plot_case_name(json_array_get(rows, (size_t)at->row)) : NULL;
        if (rows) fb_table_cell(t, name);
        fb_free(name);
        fb_str_free(&bar);
    }
    if (p->n) {
        fputc('\n', out);
        fb_table_print(t, FB_FORMAT_TABLE, out);
    }
    if (p->n > MOST_TEXT) fprintf(out, "and %d more\n", p->n - MOST_TEXT);
    fb_table_free(t);
}

/* A model of its own in each row, or one in all, is no choice. */
static bool worth_telling(const fb_points *largest, const fb_points *all)
{
    return largest->n > 1 && largest->n < all->n;
}

static void print_ranking(const json_t *plot, const json_t *rows, FILE *out)
{
    fb_points all = fb_points_of(plot, rows), largest = fb_points_largest(plot, rows);
    if (worth_telling(&largest, &all)) print_bars(&largest, plot, "model", rows, out);
    print_bars(&all, plot, "largest first", NULL, out);
    bool apart = false;
    for (int i = 1; i < all.n; i++) apart |= all.at[i].most < all.at[0].most || all.at[i].most > all.at[0].most;
    if (apart) fb_put(out, "bars are scaled for each device by itself\n");
    if (all.n && fb_points_guessed(&all)) {
        fb_put(out, fb_figure_legend);
        fputc('\n', out);
    }
    fb_points_free(&all);
    fb_points_free(&largest);
}

void fb_plots_print(const json_t *plots, const json_t *rows, FILE *out)
{
    size_t i;
    json_t *plot;
    json_array_foreach((json_t *)plots, i, plot)
    {
        if (fb_plot_is_ranking(plot)) print_ranking(plot, rows, out);
    }
}

/* ---- pictures ---- */

enum { WIDTH = 760, NAME = 300, FIGURE = 70, LINE = 18, PLOT_H = 320, LEFT = 70, RIGHT = 190, TOP = 14, BOTTOM = 36 };

static void draw_ranking(fb_picture *p, const fb_points *all)
{
    int from = NAME + FIGURE;
    p->w = WIDTH;
    p->h = 4;
    for (int i = 0; i < all->n; i++) {
        const fb_point_of *at = &all->at[i];
        double scale = (WIDTH - NAME - FIGURE - 8) / (at->most > 0 ? at->most : 1);
        char text[32], signed_text[48];
        fb_picture_text(p, 0, p->h + 13, "", "start", NAME - 8, at->name);
        snprintf(signed_text, sizeof signed_text, "%s%s", fb_figure_sign(at->kind), fb_points_text(text, at->y));
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

/* A direction of a plot: from pixel `at` over `room`. */
typedef struct {
    fb_scale of;
    double at, room;
} axis;

static double place(const axis *a, double v)
{
    return a->at + a->room * fb_scale_at(&a->of, v);
}

static axis axis_of(const fb_points *all, const json_t *plot, bool vertical)
{
    return (axis){.of = fb_points_scale(all, plot, vertical),
                  .at = vertical ? PLOT_H - BOTTOM : LEFT,
                  .room = vertical ? -(PLOT_H - BOTTOM - TOP) : WIDTH - LEFT - RIGHT};
}

static void draw_ticks(fb_picture *p, const axis *a, bool vertical)
{
    static const fb_picture_frame frame = {LEFT, WIDTH - RIGHT, TOP, PLOT_H - BOTTOM};
    double at[FB_MOST_TICKS];
    char text[32];
    for (int i = 0, n = fb_scale_ticks(&a->of, at); i < n; i++)
        fb_picture_tick(p, &frame, vertical, place(a, at[i]), fb_points_text(text, at[i]));
}

static void draw_lines(fb_picture *p, const json_t *plot, fb_points *all)
{
    axis x = axis_of(all, plot, false), y = axis_of(all, plot, true);
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

static void draw_plot(fb_picture *p, const json_t *plot, fb_points *points)
{
    if (!points->n) return;
    if (fb_plot_is_ranking(plot))
        draw_ranking(p, points);
    else
        draw_lines(p, plot, points);
    if (fb_points_guessed(points)) fb_picture_legend(p);
}

static char *title_of(const char *before, const json_t *plot, const char *by)
{
    fb_str title = {0};
    fb_str_addf(&title, "%s%s%s", before, fb_json_string_or(plot, "y", ""), by);
    char *text = fb_strdup(fb_str_get(&title));
    fb_str_free(&title);
    return text;
}

int fb_plots_draw(const json_t *plots, const json_t *rows, fb_picture **to, char ***named)
{
    size_t most = 2 * json_array_size(plots) + 1, i;
    fb_picture *pictures = *to = fb_calloc(most, sizeof *pictures);
    char **titles = *named = fb_calloc(most, sizeof *titles);
    json_t *plot;
    int n = 0;
    json_array_foreach((json_t *)plots, i, plot)
    {
        bool ranking = fb_plot_is_ranking(plot);
        fb_points all = fb_points_of(plot, rows), largest = ranking ? fb_points_largest(plot, rows) : (fb_points){0};
        if (worth_telling(&largest, &all)) {
            draw_plot(&pictures[n], plot, &largest);
            titles[n++] = title_of("The largest ", plot, " of each model");
        }
        fb_str by = {0};
        fb_str_addf(&by, " by %s", fb_json_string_or(plot, "x", "model and setting"));
        draw_plot(&pictures[n], plot, &all);
        titles[n++] = title_of("", plot, fb_str_get(&by));
        fb_str_free(&by);
        fb_points_free(&all);
        fb_points_free(&largest);
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
