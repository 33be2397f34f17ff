/* Verdicts on the edges in sight, asked for when there is nothing else to do, one at a time, so that no key waits for
 * them. Kept until the plan changes. */
#ifndef FB_TUI_VIEW_VERDICTS_H
#define FB_TUI_VIEW_VERDICTS_H

#include "session/session.h"
#include "tui/view/rows.h"

typedef struct fb_verdicts fb_verdicts;

fb_verdicts *fb_verdicts_new(void);
void fb_verdicts_free(fb_verdicts *v);
void fb_verdicts_clear(fb_verdicts *v); /* the plan has changed */

/* The verdict on toggling row `row`'s edge number `edge`; NULL: not known yet, and queued (first in the queue when
 * `urgent`). */
const fb_verdict *fb_verdicts_get(fb_verdicts *v, fb_rows *rows, int row, int edge, bool urgent);
bool fb_verdicts_waiting(const fb_verdicts *v);
/* Finds one of those queued. */
void fb_verdicts_work(fb_verdicts *v, const fb_session *s, int column, fb_rows *rows);

/* The edit that toggles the edge; `nodes` gives room for the graph's nodes and must outlive the edit. */
fb_edit fb_toggle_edit(fb_rows *rows, int row, const fb_row_edge *e, fb_id *nodes, int room);

#endif
