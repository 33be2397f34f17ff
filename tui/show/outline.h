/* The outline: one graph as a tree of scopes and nodes, as people read it, and what of it is folded.
 *
 * Sibling scopes that are repetitions of each other (feature[0] … feature[15], same content) become one *repeat*, which
 * is shown folded (one line), as one (the first member stands for all, edits go to all), or member by member. Scalar
 * constants are left out: they are written into the kernels as literals. Three or more alike sources or views in a row
 * (split, split_2 …) are one entry, and so are those of rounds (slice, unbind, slice_2, unbind_2 …), one for each
 * place.
 *
 * Pure data: no session, no screen. Built once a graph in O(nodes); 20,000 nodes take some ten milliseconds. */
#ifndef FB_TUI_SHOW_OUTLINE_H
#define FB_TUI_SHOW_OUTLINE_H

#include "graph/graph.h"

typedef enum { FB_ENTRY_NODE, FB_ENTRY_SCOPE, FB_ENTRY_REPEAT } fb_entry_kind;
typedef enum { FB_FOLDED, FB_OPEN, FB_MEMBERS } fb_fold; /* FB_MEMBERS: repeats alone */

typedef struct {
    fb_entry_kind kind;
    fb_fold fold;
    fb_id id;          /* node; scope; for a repeat the first member's scope */
    int parent;        /* entry or FB_NONE */
    int end;           /* entries this + 1 … end - 1 lie inside */
    int members;       /* repeat: how many; node: how many alike sources or views it stands for */
    const char *path;  /* of the scope; NULL for nodes */
    fb_id first, last; /* nodes inside lie in this range of ids; others of the range belong to no kernel */
} fb_entry;

typedef struct {
    const fb_graph *graph; /* borrowed; fb_outline_carry and fb_outline_free do without it */
    fb_arena *arena;
    int n;
    fb_entry *entries; /* in order of appearance, contents after what contains them */
    int *entry_of;     /* a node's entry, FB_NONE for those left out */
    int n_classes;     /* repetition classes: nodes that stand in the same place of repeated scopes */
    int *class_of;     /* a node's class */
    int *class_start;  /* class c's nodes: class_nodes[class_start[c]] … class_start[c + 1] - 1, ascending */
    fb_id *class_nodes;
} fb_outline;

fb_outline *fb_outline_new(const fb_graph *g);
void fb_outline_free(fb_outline *o);

/* Takes over what is folded in `old` (another version of the graph) where scopes of the same path exist. */
void fb_outline_carry(fb_outline *o, const fb_outline *old);

/* Opens all that hides the node. */
void fb_outline_reveal(fb_outline *o, fb_id node);
void fb_outline_fold_all(fb_outline *o, bool fold);

/* How many nodes stand where `node` stands. */
int fb_outline_repetitions(const fb_outline *o, fb_id node);

#endif
