/* Moves: what may be changed in a plan of a graph, listed once. A move is tried on any plan of the graph, and is then
 * an edit: an edge is fused where its ends are two kernels and cut where they are one. What is repeated is one move, to
 * be made in all repetitions at once, as a user would; so a network of 48 equal layers has the moves of one.
 *
 * requires  a planner
 * provides  the moves that search and the preset `auto` go through
 */
#ifndef FB_DECIDE_MOVES_H
#define FB_DECIDE_MOVES_H

#include "base/arena.h"
#include "plan/plan.h"

typedef enum {
    FB_MOVE_EDGE,      /* a, b: fuse producer and consumer, or cut them apart */
    FB_MOVE_BESIDE,    /* a, b: two readers of one value share a kernel */
    FB_MOVE_STAR,      /* nodes: a value goes with all that read it */
    FB_MOVE_MEMBERS,   /* nodes: all members of a repetition share a launch */
    FB_MOVE_RECOMPUTE, /* a: computed where it is read, or stored again */
    FB_MOVE_CHOICE,    /* a: a library call, or a generated kernel */
    FB_MOVE_ORDER,     /* a, an index_add: added up by atomic additions in any order, or in a fixed one */
} fb_move_kind;

typedef struct {
    fb_move_kind kind;
    bool repeated; /* stands for its repetitions too */
    fb_id a, b;
    int n_nodes;
    const fb_id *nodes;
    double weight; /* bytes that it is about */
    int order;     /* in which it was found */
} fb_move;

enum { FB_MOVES_MOST = 1024 };

/* The moves, weightiest first; arena-owned. Where there are more than FB_MOVES_MOST the lightest are left out. */
int fb_moves_list(const fb_planner *p, fb_arena *arena, const fb_move **out);
/* What the move is on this plan; false where it is nothing. */
bool fb_move_edit(const fb_plan *plan, const fb_move *m, fb_edit *e);
/* fb_plan_try of that edit, in all repetitions where the move stands for them. */
fb_verdict fb_move_try(const fb_plan *plan, const fb_move *m, const fb_edit *e, fb_plan **result);
/* Predicted µs that the verdict's edit saves in a whole run, trips of loops counted; NAN where it cannot be made. */
double fb_move_gain(const fb_plan *plan, const fb_move *m, const fb_verdict *v);

#endif
