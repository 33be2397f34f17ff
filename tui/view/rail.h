/* The rail beside the graph's rows: what the row under the cursor reads, and who reads it. Reads are the graph's own,
 * through views and sources too; scopes read and are read as the rows that they show. Pure; one look at each read a
 * row. */
#ifndef FB_TUI_VIEW_RAIL_H
#define FB_TUI_VIEW_RAIL_H

#include "base/vec.h"
#include "tui/view/rows.h"

typedef enum {
    FB_RAIL_NONE,
    FB_RAIL_PASSES, /* the line goes by */
    FB_RAIL_READ,   /* the row under the cursor reads this one */
    FB_RAIL_READER, /* this one reads the row under the cursor */
    FB_RAIL_BOTH,   /* rows of a loop may do both */
    FB_RAIL_HERE,
} fb_rail_sign;

typedef struct {
    const fb_outline *outline; /* of the rows it was made from; NULL: none */
    int row;
    int *row_of;                /* of each node of the graph */
    FB_VEC(unsigned char) sign; /* of each row */
    int first, last;            /* rows between which the line goes */
    int reads, readers;
} fb_rail;

/* For that row; made anew when another one is asked for, or after fb_rail_forget: the rows are others. */
void fb_rail_make(fb_rail *rail, const fb_rows *rows, int row);
void fb_rail_forget(fb_rail *rail);
void fb_rail_free(fb_rail *rail);
fb_rail_sign fb_rail_at(const fb_rail *rail, int row);
/* How it is drawn, in two cells. */
const char *fb_rail_text(const fb_rail *rail, int row);

#endif
