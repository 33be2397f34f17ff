/* Draws points of an experiment into a canvas, with axes and letters. Pure: leaves cells. */
#include "tui/view/chart.h"

#include <math.h>
#include <string.h>

enum { SIGN = 1 }; /* cells left of the first point, for its "~" */

char fb_chart_letter(int group)
{
    return (char)('a' + group % 26);
}

/* Marks stand in the middle of their cells, from the first one to the last. */
static double inside(double at, int first, int cells)
{
    return cells > first + 1 ? (first + 0.5 + at * (cells - 1 - first)) / cells : 0.5;
}

static int cell_of(double at, int first, int cells)
{
    int cell = (int)(inside(at, first, cells) * cells);
    return cell < 0 ? 0 : cell >= cells ? cells - 1 : cell;
}

static void add_ticks(fb_chart *c, const fb_scale *s, bool vertical, int cells)
{
    double at[FB_MOST_TICKS];
    int n = fb_scale_ticks(s, at);
    for (int i = 0; i < n; i++) {
        int cell = cell_of(fb_scale_at(s, at[i]), vertical ? 0 : SIGN, cells);
        if (vertical) {
            c->y[i].at = cells - 1 - cell;
            fb_points_text(c->y[i].text, at[i]);
        } else {
            c->x[i].at = cell;
            fb_points_text(c->x[i].text, at[i]);
        }
    }
    *(vertical ? &c->n_y : &c->n_x) = n;
}

void fb_chart_make(fb_chart *c, fb_arena *arena, const fb_points *points, const json_t *plot, int w, int h, int chosen)
{
    const fb_scale x = fb_points_scale(points, plot, false), y = fb_points_scale(points, plot, true);
    *c = (fb_chart){.canvas = fb_canvas_new(arena, w, h)};
    if (!points->n || w < 1 || h < 1) return;
    double *px = FB_NEW_ARRAY(arena, double, points->n), *py = FB_NEW_ARRAY(arena, double, points->n);
    int *group = FB_NEW_ARRAY(arena, int, points->n);
    c->cell = fb_arena_array(arena, (size_t)points->n, sizeof *c->cell);
    for (int i = 0; i < points->n; i++) {
        bool same = i && strcmp(points->at[i].name, points->at[i - 1].name) == 0;
        px[i] = inside(fb_scale_at(&x, points->at[i].x), SIGN, w);
        py[i] = inside(fb_scale_at(&y, points->at[i].y), 0, h);
        c->cell[i].x = cell_of(fb_scale_at(&x, points->at[i].x), SIGN, w);
        c->cell[i].y = h - 1 - cell_of(fb_scale_at(&y, points->at[i].y), 0, h);
        group[i] = i ? group[i - 1] + !same : 0;
        c->canvas->ink = (short)group[i];
        if (same) fb_canvas_line(c->canvas, px[i - 1], py[i - 1], px[i], py[i], false);
    }
    /* The chosen one first: it is seen whatever else lies there. */
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < points->n; i++) {
            if ((i == chosen) == (pass == 1)) continue;
            int role = i == chosen ? FB_CHART_CURSOR : group[i];
            fb_canvas_mark(c->canvas, px[i], py[i], fb_chart_letter(group[i]), role, false);
            if (*fb_figure_sign(points->at[i].kind))
                fb_canvas_mark(c->canvas, px[i] - 1.0 / w, py[i], '~', role, false);
        }
    add_ticks(c, &x, false, w);
    add_ticks(c, &y, true, h);
}
