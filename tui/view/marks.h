/* Rows of the graph that the user marked, to be made one kernel together. Forgotten when the plan or the graph changes.
 */
#ifndef FB_TUI_VIEW_MARKS_H
#define FB_TUI_VIEW_MARKS_H

#include "base/vec.h"
#include "plan/plan.h"
#include "tui/view/rows.h"

typedef struct {
    FB_VEC(int) entries; /* of the outline, in the order in which they were marked */
    fb_verdict verdict;  /* on making one kernel of them; valid from two on */
} fb_marks;

bool fb_marks_has(const fb_marks *m, int entry);
void fb_marks_toggle(fb_marks *m, int entry);
void fb_marks_clear(fb_marks *m);
void fb_marks_free(fb_marks *m);

/* The edit that makes one kernel of all that is marked. Rows of one repetition alone are fused in each of its members
 * (`*repeated`); beside others, all members go into the one kernel. `nodes` gives room for the graph's nodes and must
 * outlive the edit. */
fb_edit fb_marks_edit(const fb_marks *m, const fb_rows *rows, fb_id *nodes, bool *repeated);

#endif
