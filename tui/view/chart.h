/* An experiment's lines as a chart in a terminal: from points to cells. Dots are braille (tui/term/canvas.h), one
 * letter a group stands on each of its points, with "~" before it where that is no measurement. Pure. */
#ifndef FB_TUI_VIEW_CHART_H
#define FB_TUI_VIEW_CHART_H

#include "tui/show/points.h"
#include "tui/term/canvas.h"

typedef struct {
    fb_canvas *canvas; /* inks and roles are the groups' numbers from 0 on, FB_CHART_CURSOR that of the chosen point */
    struct {
        int x, y;
    } * cell;     /* of each point */
    int n_x, n_y; /* marks of the axes: the cell they belong to, and what stands there */
    struct {
        int at;
        char text[32];
    } x[FB_MOST_TICKS], y[FB_MOST_TICKS];
} fb_chart;

enum { FB_CHART_CURSOR = 1000 };

/* `points` are those of a plot with an x (fb_points_of), `chosen` one of them or -1. */
void fb_chart_make(fb_chart *c, fb_arena *arena, const fb_points *points, const json_t *plot, int w, int h, int chosen);
char fb_chart_letter(int group); /* "a", "b" … */

#endif
