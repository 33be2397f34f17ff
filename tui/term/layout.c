/* From a size to rectangles. Pure. */
#include "tui/term/layout.h"

enum {
    FRAMES = 4,
    HINT_ROWS = 2,
    TALL = 28,
    MIN_GRAPH = 26,
    MIN_TABLE = 32,
    MAX_GRAPH = 96,
    MIN_TEXT = 46,
    MAX_TEXT = 86,
    MIN_KERNELS = 3,
    AROUND_BESIDE = 14
};

static int clamp(int v, int low, int high)
{
    return v > high ? (high < low ? low : high) : v < low ? low : v;
}

int fb_layout_most_table(int cols)
{
    return (cols - FRAMES) * 5 / 8;
}

/* The graph wants names and shapes, the table its columns: each gets at least its minimum, the table what it wishes up
 * to five eighths of the rest, and the graph what is left. */
static int graph_width(const fb_layout_wish *wish)
{
    int free = wish->cols - FRAMES;
    int table = clamp(wish->column_cells, MIN_TABLE, fb_layout_most_table(wish->cols));
    int graph = clamp(free - table, MIN_GRAPH, MAX_GRAPH);
    return clamp(graph, MIN_GRAPH, free - MIN_TABLE);
}

/* Text is read in lines of some length: it has the room before the table. */
static int text_width(const fb_layout_wish *wish)
{
    int free = wish->cols - FRAMES;
    int least = clamp(wish->cols * 9 / 20, MIN_TEXT, MAX_TEXT);
    return clamp(free - clamp(wish->column_cells, MIN_TABLE, free), least, MAX_TEXT);
}

fb_layout fb_layout_make(const fb_layout_wish *wish)
{
    fb_layout l = {.too_small = wish->rows < FB_MIN_ROWS || wish->cols < FB_MIN_COLS};
    if (l.too_small) return l;
    int cols = wish->cols, hint = wish->rows >= TALL ? HINT_ROWS + 1 : HINT_ROWS;
    if (wish->hint_rows > hint) hint = clamp(wish->hint_rows, hint, wish->rows / 3); /* to be read to its end */
    l.header = (fb_rect){0, 0, 1, cols};
    l.keys = (fb_rect){wish->rows - 1, 0, 1, cols};
    l.hint = (fb_rect){wish->rows - 2 - hint, 2, hint, cols - 4};
    int top = 2, bottom = l.hint.y - 1; /* rows of the panes: [top, bottom) */
    fb_rect body = {top, 1, bottom - top, cols - 2};
    if (wish->whole || (wish->zoomed >= 0 && !wish->left)) {
        l.whole = body;
        l.beside = wish->whole && wish->beside && cols >= wish->beside + MIN_GRAPH + AROUND_BESIDE;
        if (l.beside) {
            int graph = clamp(cols * 2 / 5, MIN_GRAPH, cols - wish->beside);
            l.pane[FB_PANE_GRAPH] = (fb_rect){top, 1, body.h, graph};
            l.whole = (fb_rect){top, graph + 3, body.h, cols - graph - 4};
        }
        if (!wish->whole) l.pane[wish->zoomed] = body;
        return l;
    }
    int graph = wish->left ? text_width(wish) : graph_width(wish), table_x = graph + 3, table = cols - graph - 4;
    int table_h = clamp(wish->table_rows, 3, body.h - 1 - MIN_KERNELS);
    l.pane[FB_PANE_GRAPH] = (fb_rect){top, 1, body.h, graph};
    l.pane[FB_PANE_COLUMNS] = (fb_rect){top, table_x, table_h, table};
    l.pane[FB_PANE_KERNELS] = (fb_rect){top + table_h + 1, table_x, body.h - table_h - 1, table};
    l.left = wish->left;
    if (l.left) {
        l.whole = l.pane[FB_PANE_GRAPH];
        l.pane[FB_PANE_GRAPH] = (fb_rect){0, 0, 0, 0};
    }
    return l;
}
