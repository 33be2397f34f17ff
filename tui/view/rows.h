/* Rows: what the graph view lists, one line each, from an outline, a plan and its letters. Pure. Built once a change (a
 * fold, an edit), never per key; the edges of a row are found when they are first asked for.
 *
 * A row stands for a node or a folded or open scope. Where a repeat is shown as one, the rows of its first member stand
 * for those of all members (`repeated`), and so do their edges. */
#ifndef FB_TUI_VIEW_ROWS_H
#define FB_TUI_VIEW_ROWS_H

#include "base/vec.h"
#include "tui/show/letters.h"
#include "tui/show/outline.h"

typedef enum {
    FB_EDGE_FUSED,
    FB_EDGE_CUT,
    FB_EDGE_MIXED, /* stands for several, of which some are fused */
} fb_edge_state;

/* An edge, or all edges that lie alike in the repetitions, as one thing to fuse or cut. */
typedef struct {
    fb_id a, b;    /* producer and consumer, of the first repetition */
    bool inside;   /* all that a scope holds, as one kernel: a and b are its first and last computed node */
    bool incoming; /* b is in the row; else a is */
    bool repeated; /* stands for all repetitions */
    bool order_only;
    int count, fused; /* how many edges it stands for, and how many of them are fused */
} fb_row_edge;

fb_edge_state fb_row_edge_state(const fb_row_edge *e);

/* How a row hangs together with its neighbours in one kernel. */
typedef enum { FB_TIE_NONE, FB_TIE_ALONE, FB_TIE_FIRST, FB_TIE_MIDDLE, FB_TIE_LAST, FB_TIE_THROUGH } fb_tie;

typedef struct {
    int entry, depth;
    bool repeated;
    bool recomputed; /* no group stores it */
    bool several;    /* holds more than one letter, or its repetitions differ */
    int letter;      /* the first; FB_NONE: in no kernel */
    fb_tie tie;
    int first_edge, n_edges; /* first_edge FB_NONE: not asked for yet */
} fb_row;

typedef struct {
    const fb_outline *outline;
    const fb_plan *plan;       /* NULL: a device that plans for itself */
    const fb_letters *letters; /* NULL likewise */
    const int *theirs;         /* … where it told its plan: a node's kernel, which is its letter; NULL */
    FB_VEC(fb_row) rows;
    FB_VEC(fb_row_edge) edges;
    int *row_of_entry;
} fb_rows;

enum { FB_MAX_ROW_EDGES = 64 };

void fb_rows_make(fb_rows *r, const fb_outline *o, const fb_plan *plan, const fb_letters *letters);
/* The same of a device that plans for itself: rows show its kernels, and have no edges to fuse or cut. `theirs` of each
 * node (measure/theirs.h) is kept as long as the rows. */
void fb_rows_make_theirs(fb_rows *r, const fb_outline *o, const int *theirs);
void fb_rows_free(fb_rows *r);

/* The row's edges: incoming, then outgoing. The inside of a scope stands before them while it is not fused, after them
 * else. Valid until the next call for another row. */
const fb_row_edge *fb_rows_edges(fb_rows *r, int row, int *n);
/* The row in which the node is to be seen, itself or folded away; FB_NONE for scalar constants. */
int fb_rows_find(const fb_rows *r, fb_id node);
/* Computed nodes of the row's scope (of the first repetition) into `to`, at most `room`; their number. */
int fb_rows_inside(const fb_rows *r, int row, fb_id *to, int room);
/* What the row is called: "tanh", "layer_norm", "feature". */
const char *fb_row_name(const fb_rows *r, int row);

#endif
