/* The points of what an experiment plots (e:plot), and where they lie between the ends of an axis: what pictures in a
 * file and charts in a terminal are drawn from. Pure. A plot without `x` is a ranking: its points are bars. */
#ifndef FB_TUI_SHOW_POINTS_H
#define FB_TUI_SHOW_POINTS_H

#include "base/vec.h"
#include "tui/show/figure.h"

typedef struct {
    char *name;             /* of a ranking's row: the case; else the values of `by` */
    double x, y, low, high; /* NAN: not known */
    double most;            /* the end of the longest bar on its device, its spread included; 0 at least */
    fb_figure_source kind;
    int row; /* in the rows */
    int of;  /* fb_points_largest: how many rows it is the largest of; else 1 */
} fb_point_of;

typedef FB_VEC(fb_point_of) fb_points;

/* A row's case, parameters and figures side by side: a new reference. */
json_t *fb_plot_flat(const json_t *row);
/* "cat:max@host  N=64 dtype=f16": all that tells one case of a sweep from another. Yours to free. */
char *fb_plot_case_name(const json_t *row);
bool fb_plot_is_ranking(const json_t *plot);

/* Of the rows ({"case", "row"} each) that have what the plot shows: a ranking the largest first, lines by name and x.
 */
fb_points fb_points_of(const json_t *plot, const json_t *rows);
/* Of a ranking the largest of each model: of the values of the plot's `by`, else of the variants where rows are of
 * several, else of the plans. Named so, the largest first. */
fb_points fb_points_largest(const json_t *plot, const json_t *rows);
void fb_points_free(fb_points *p);

bool fb_points_guessed(const fb_points *p); /* some of them are no measurements */

/* 2.62 M, 811 k, 0.12 */
const char *fb_points_text(char to[32], double v);

/* ---- axes ---- */

typedef struct {
    double low, high;
    bool log; /* asked for, and all values are above 0 */
} fb_scale;

fb_scale fb_points_scale(const fb_points *p, const json_t *plot, bool vertical);
double fb_scale_at(const fb_scale *s, double v); /* 0 … 1 from its low end to its high one */

enum { FB_MOST_TICKS = 24 };
/* Values that the axis is marked at, ascending; returns how many. */
int fb_scale_ticks(const fb_scale *s, double at[FB_MOST_TICKS]);

#endif
