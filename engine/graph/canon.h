/* The canonicalising pass: dead code, common subexpressions, constants. Runs once, before any plan is made.
 *
 * requires  a finished graph
 * provides  a new finished graph with `canonical` set, in which every node is reachable from an output or effect; no
 * two nodes of one op scope (or both outside any) compute the same thing; pointwise ops and views of constants alone
 *           are constants; identity views (view to the same shape, full slice, identity permute, expand to the same
 *           shape) are gone, and so are zeros to which an index_add is added; views of views of one kind, within one
 *           op scope, are one view; an output that is a view of what is computed, and lies otherwise or is a part of
 *           it, is a `copy` of that view, a node that may be fused as any other.
 * Names, order and lines of what remains stay; copies come last. Scopes without nodes vanish. A scope keeps its operands
 * and results, renumbered, each in its place: FB_NONE stands for one that is dead. An output may have become another
 * one's node, or a source. The pass is idempotent: what it made, it leaves as it is. Equal nodes in different op scopes
 * are not merged: an op scope stands for a framework's own call, which computes its own.
 */
#ifndef FB_GRAPH_CANON_H
#define FB_GRAPH_CANON_H

#include "graph/graph.h"

/* The caller frees the result; `g` is left alone. NULL only on a bug in `g` that the verifier names. */
fb_graph *fb_graph_canonical(const fb_graph *g, fb_error *err);

#endif
