/* How an edit is shown in the graph: rows of the kernels that it joined or took apart turn from what they were to what
 * they are one by one, outwards from where the edit was made. Pure. */
#ifndef FB_TUI_VIEW_MERGE_H
#define FB_TUI_VIEW_MERGE_H

#include "tui/view/rows.h"

#include <stdint.h>

enum { FB_MERGE_STEPS = 8, FB_MERGE_STEP_MS = 60 };

typedef struct {
    int n, at;        /* rows; the one where the edit was made */
    fb_row *was;      /* what each was before it; NULL: nothing is shown */
    uint64_t *kernel; /* the number of each then */
    int *rank;        /* the how manieth of those that turn, the nearest first; FB_NONE: its kernel is the same */
    int turning;      /* how many do */
    int step;         /* from 0 on; FB_MERGE_STEPS: all rows are as they are */
} fb_merge;

/* Of each row a number made of the kernels it is in: another one where they hold other nodes. The caller frees. */
uint64_t *fb_merge_kernels(const fb_rows *rows);
/* Before and after an edit, with these numbers, which fb_merge takes. Where the rows are others than before nothing is
 * shown. */
void fb_merge_begin(fb_merge *m, const fb_rows *rows, uint64_t *kernels, int at);
void fb_merge_end(fb_merge *m, const fb_rows *rows, uint64_t *kernels);
void fb_merge_free(fb_merge *m);

/* The row as it is to be drawn just now (`m` NULL: as it is); *edited: its kernel is another one than before. In the
 * steps there are `view` rows have turned, which is as many as are in sight. */
fb_row fb_merge_row(const fb_merge *m, const fb_rows *rows, int row, int view, bool *edited);

#endif
