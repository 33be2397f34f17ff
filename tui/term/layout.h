/* Layout: where the panes are, from the size of the screen and what is zoomed. Pure geometry, in character cells.
 *
 * Inner rectangles leave the frame out; the frame's lines are shared between panes, as tui/view/frame.c draws them:
 *
 *     header
 *     ╭ graph ───────╮╭ columns ────────╮
 *     │              ││                 │
 *     │              │├ kernels ────────┤
 *     │              ││                 │
 *     ├ hint ────────┴┴─────────────────┤
 *     ╰─────────────────────────────────╯
 *     keys
 */
#ifndef FB_TUI_TERM_LAYOUT_H
#define FB_TUI_TERM_LAYOUT_H

#include <stdbool.h>

typedef struct {
    int y, x, h, w;
} fb_rect;

typedef enum { FB_PANE_GRAPH, FB_PANE_COLUMNS, FB_PANE_KERNELS, FB_PANES } fb_pane;

enum { FB_MIN_ROWS = 16, FB_MIN_COLS = 60, FB_LESSON_COLS = 100 };

typedef struct {
    int rows, cols;   /* of the screen */
    int zoomed;       /* a pane, or -1 */
    bool whole;       /* one view over all panes: source, help, log … */
    int beside;       /* cells that view needs to have the graph beside it, where there is room; 0: it wants none */
    int table_rows;   /* lines that the columns pane would like */
    int column_cells; /* width that the columns pane would like */
    int hint_rows;    /* lines that the hint's first sentence takes */
    bool left;        /* a view in the graph's place, the other panes beside it */
} fb_layout_wish;

typedef struct {
    bool too_small;
    bool left;                  /* `whole` stands in the graph's place, the other panes beside it */
    bool beside;                /* the graph pane stands to the left of `whole` */
    fb_rect header, keys, hint; /* one line, one line, two or three or as the sentence takes; hint without its frame */
    fb_rect pane[FB_PANES];     /* inner; h or w 0 when not shown */
    fb_rect whole;              /* inner; of the view over all panes or the zoomed pane */
} fb_layout;

fb_layout fb_layout_make(const fb_layout_wish *wish);
int fb_layout_most_table(int cols); /* no more cells go to the columns pane, however many it wishes for */

#endif
