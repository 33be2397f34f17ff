/* Rows that hold a text, shown alone while it is being typed: `/` in any view whose rows are a list. The cursor stays a
 * row's own number, so that all else of a view works as without it. */
#ifndef FB_TUI_VIEW_FILTER_H
#define FB_TUI_VIEW_FILTER_H

#include "base/vec.h"

typedef struct {
    int view; /* an fb_view_id; FB_VIEW_NONE: nothing is filtered */
    FB_VEC(int) rows;
    int all, top;
    bool typed, moved;                   /* something is typed; a row was chosen with the arrows */
    int cursor_before, top_before, edge; /* to come back to */
} fb_filter;

/* Whether the name holds the text in any case; "[*]" in the text is any index. */
bool fb_filter_holds(const char *name, const char *text);

#endif
