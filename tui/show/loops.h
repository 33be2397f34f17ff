/* Loops of two columns, held against each other (graph/loop_compare.h): what they are called, and as JSON. */
#ifndef FB_TUI_SHOW_LOOPS_H
#define FB_TUI_SHOW_LOOPS_H

#include "session/session.h"

/* What tells the column from the other: its variant, or all of its name. */
const char *fb_show_loops_column(const fb_column *c, const fb_column *other);

/* `found`: steps that can become a loop count as one; else the loops that the plans have. False: there is nothing to
 * say, as neither has a loop, one of them has no plan of ours, or the graphs that are planned are the same. */
bool fb_show_loops_of_columns(const fb_column *a, const fb_column *b, bool found, fb_loops *out);

/* {"first", "second": names, "is": "same", "text": …, "why": […]} */
json_t *fb_show_loops_to_json(const fb_column *a, const fb_column *b, const fb_loops *l);

#endif
