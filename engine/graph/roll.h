/* Loops that are written out: members that are equal and follow from each other, found in a graph and made loops.
 *
 * A *member* is a stretch of computed nodes; the next member has the same ops, dtypes, shapes and attributes in the
 * same order. What a node of it reads stands in the same relation in all of them: a value of the same member, of the
 * member before, the same value from outside, or slices of one tensor that lie equally far apart. Names are not asked:
 * a Lua loop without g:scope is found too, and so is what autodiff wrote.
 *
 *     before   step[1] step[2] … step[16], each with its own nodes
 *     after    what is not repeated; a loop of 15 trips whose body is one of them; what reads the results
 *
 * The first and the last members are left as they are where they differ (a state of zeros that was folded, a last step
 * without an output): the loop is the longest run of members that agree. Same operations on the same values in the same
 * order: not a bit may differ.
 */
#ifndef FB_GRAPH_ROLL_H
#define FB_GRAPH_ROLL_H

#include "graph/graph.h"

/* A run of members, made a loop or not. */
typedef struct {
    const char *name; /* a node of the first, its index taken out where it has one: "step[*].matmul" */
    fb_id node;       /* that node, in the graph as written; FB_NONE where a loop found before has taken it */
    int members;      /* that follow each other, left ones included */
    int first, trips; /* the loop begins with this member (from 0) and has so many; trips 0: no loop */
    int nodes;        /* a member */
    int carried;      /* values that go from member to member */
    const char *left; /* why the first are left as they are; NULL: none is */
    const char *rest; /* why the last are */
    const char *why;  /* why it is no loop; NULL: it is one */
    bool differs;     /* … its members compute different things, or from what stands in different relations */
} fb_roll_find;

typedef struct {
    fb_arena *arena;
    fb_graph *graph; /* canonical; NULL where no loop was found */
    int n;
    const fb_roll_find *finds; /* loops first, then what is nearly one */
    /* A node of `graph`: what it was in the graph as written (in a body that of one member), FB_NONE for what only a
     * loop needs. A node of the graph as written: what computes it now, FB_NONE for views of members and what is gone;
     * and in which member of its loop, counted over all loops, 0: in none. */
    const fb_id *was, *is;
    const int *member;
} fb_roll;

/* `g` is canonical, and borrowed. NULL only on a bug that the verifier names. */
fb_roll *fb_graph_roll(const fb_graph *g, fb_error *err);
void fb_roll_free(fb_roll *r);

#endif
