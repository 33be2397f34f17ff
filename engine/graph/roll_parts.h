/* Inside graph/: a loop that was found, between finding (roll.c) and making it (roll_make.c). */
#ifndef FB_GRAPH_ROLL_PARTS_H
#define FB_GRAPH_ROLL_PARTS_H

#include "base/arena.h"
#include "graph/roll.h"

/* How an operand of a member stands to the members. Slots count the operands of a member's nodes in order. */
typedef enum { FB_LINK_INSIDE, FB_LINK_CARRIED, FB_LINK_OUTSIDE } fb_link_kind;

typedef struct {
    fb_link_kind kind;
    int at;       /* INSIDE, CARRIED: which node of a member */
    int level;    /* OUTSIDE: views above the slice that moves; FB_NONE: none does */
    int64_t move; /* by so much from member to member */
} fb_link;

/* What a carried value begins with: a node from before the loop, or a constant that was folded. */
typedef struct {
    fb_id node; /* FB_NONE: not carried */
    bool constant;
} fb_link_init;

typedef struct {
    int start, period, members; /* in the sequence of nodes */
    int first, trips;
    int n_slots;
    const fb_link *links; /* a slot */
    const int *slot_of;   /* a node of a member: its first slot; period + 1 entries */
    const fb_link_init *inits;
    int carried;
} fb_roll_run;

typedef struct {
    const fb_graph *g;
    fb_arena *arena;
    int n;
    fb_id *seq; /* nodes of the whole graph that are no views or sources, in order */
    int *place; /* a node: where in `seq`, FB_NONE */
    int *kind;  /* of seq[i]: equal for what may correspond */
} fb_roll_search;

static inline fb_id fb_roll_node(const fb_roll_search *s, const fb_roll_run *r, int member, int at)
{
    return s->seq[r->start + member * r->period + at];
}

/* The slice of an operand `level` views below it. */
fb_id fb_roll_below(const fb_graph *g, fb_id arg, int level);
/* How a slice that moves by `move` is cut from its operand as one tensor of all steps: a part of `part` elements each
 * `step`, the first piece from `low` on, with `skip` elements before the part; `beyond` elements are missing at the
 * end. */
typedef struct {
    int64_t low, step, part, skip, beyond;
} fb_roll_cut;
bool fb_roll_cut_of(const fb_graph *g, fb_id first_slice, int64_t move, int trips, fb_roll_cut *out);

/* The graph with the run as a loop, not canonical yet. was, is, member: as in fb_roll, of this step alone; arena-owned.
 */
typedef struct {
    fb_graph *graph;
    fb_id *was, *is;
    int *member;
} fb_rolled;
bool fb_roll_make(const fb_roll_search *s, const fb_roll_run *r, fb_rolled *out, fb_error *err);

#endif
