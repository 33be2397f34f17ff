/* A canvas of dots for plots in a terminal: each cell holds 2 × 4 of them as a braille sign (tui/term/draw.h spells
 * those where there is only ASCII). Letters and digits may stand over the dots. Pure. */
#ifndef FB_TUI_TERM_CANVAS_H
#define FB_TUI_TERM_CANVAS_H

#include "base/arena.h"

#include <stdbool.h>

typedef struct {
    int w, h; /* cells */
    unsigned char *dots;
    short *ink_of; /* of a cell's dots, the last one's; whatever the caller means by it */
    short ink;     /* of dots set from now on */
    char *mark;    /* 0: none */
    short *role;   /* of a mark, whatever the caller means by it */
} fb_canvas;

fb_canvas *fb_canvas_new(fb_arena *arena, int w, int h);
/* x from the left in 0 … 1, y from the bottom in 0 … 1; outside nothing is drawn. */
void fb_canvas_dot(fb_canvas *c, double x, double y);
void fb_canvas_line(fb_canvas *c, double x0, double y0, double x1, double y1, bool dotted);
/* `aside`: it moves to a free cell beside when its own is taken; else it is left out then. */
void fb_canvas_mark(fb_canvas *c, double x, double y, char mark, int role, bool aside);
/* The cell's dots as UTF-8, or "" for none. */
const char *fb_canvas_cell(const fb_canvas *c, int x, int y, char to[4]);

#endif
