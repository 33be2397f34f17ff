/* Access maps: what reading a node at an index means once the views are looked through.
 *
 * fb_access_at(graph, node, coords) follows view ops from `node` to the first node that is not a view, its *base*
 * (a source, or a computed node), rewriting the coordinates on the way. `pad` adds a guard: outside it the value is the
 * pad constant. A walk that meets more pads than there is room for guards, or makes a coordinate larger than
 * FB_MAX_INDEX_SIZE, ends at that view, which then is the base and has to be stored.
 * Joins are computed nodes and end a walk, but fb_access_piece says what part of a join an index reads.
 *
 * Strided is the common case and the only one a library call takes: fb_access_strided gives offset and strides.
 */
#ifndef FB_GRAPH_ACCESS_H
#define FB_GRAPH_ACCESS_H

#include "graph/graph.h"
#include "graph/index.h"

enum { FB_MAX_GUARDS = 2 * FB_MAX_RANK, FB_MAX_INDEX_SIZE = 256 };

/* low <= at < high, or else the value is `otherwise`. */
typedef struct {
    fb_ix at;
    int64_t low, high;
    double otherwise;
} fb_guard;

typedef struct {
    fb_id base;
    int rank;
    fb_ix coords[FB_MAX_RANK]; /* of the base */
    int n_guards;              /* outermost first: the first that fails gives the value */
    fb_guard guards[FB_MAX_GUARDS];
} fb_access;

/* coords: one expression a dim of `node`. */
void fb_access_at(const fb_graph *g, fb_index_pool *p, fb_id node, const fb_ix *coords, fb_access *out);
/* … and no further down than to node `until`, which may be a view. */
void fb_access_until(const fb_graph *g, fb_index_pool *p, fb_id node, const fb_ix *coords, fb_id until, fb_access *out);
/* Element offset into the base's storage. */
fb_ix fb_access_offset(const fb_graph *g, fb_index_pool *p, const fb_access *a);

/* The coordinates of operand `arg` that element `coords` of pointwise `node` reads: broadcasting from the right. */
void fb_access_broadcast(const fb_graph *g, fb_index_pool *p, fb_id node, int arg, const fb_ix *coords,
                         fb_ix *arg_coords);

/* Operand `arg` of join `node` holds the part [*low, *high) of the result's dim *dim; arg_coords are the operand's own
 * coordinates, valid inside that part. */
void fb_access_piece(const fb_graph *g, fb_index_pool *p, fb_id node, int arg, const fb_ix *coords, fb_ix *arg_coords,
                     int *dim, int64_t *low, int64_t *high);

/* `node` through its views as one strided window on its base: element (i0, i1 …) lies at offset + Σ strides[d]·i_d.
 * False when a pad, or a reshape of something not contiguous, is in the way. */
bool fb_access_strided(const fb_graph *g, fb_id node, fb_id *base, int64_t *offset, int64_t strides[FB_MAX_RANK]);

/* Is `node` its base laid out anew: all of it, in order? */
bool fb_access_whole(const fb_graph *g, fb_id node, fb_id *base);

/* x to the power of a constant that is a few products, a quotient or a root: 2, 3, 4, -1 or 0.5; 0: `node` is not. */
double fb_node_power(const fb_graph *g, fb_id node);
/* The op that a node is as slow as: its own, or what is written for such a power. */
fb_op fb_node_computed_as(const fb_graph *g, fb_id node);

/* The first non-view node under `node` (itself when it is no view). */
fb_id fb_access_base(const fb_graph *g, fb_id node);

#endif
