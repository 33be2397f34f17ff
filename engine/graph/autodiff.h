/* Reverse-mode differentiation, graph → graph: the gradient of a scalar is more nodes of the same graph, so that
 * forward, backward and update fuse like anything else. */
#ifndef FB_GRAPH_AUTODIFF_H
#define FB_GRAPH_AUTODIFF_H

#include "graph/graph.h"

/* Adds to the unfinished graph `g` the gradients of `loss` (one float element) with respect to wrt[0 … n - 1] (float
 * nodes); gradients[i] has wrt[i]'s shape and dtype, zeros where the loss does not depend on it. Integer and bool
 * values carry no gradient. Conventions are PyTorch's: relu and abs have derivative 0 at 0, clamp 1 at its ends, the
 * steps of sign, floor and remainder count for nothing, and the gradient of a maximum is shared evenly among equals.
 *
 * In a loop's body the step's own gradient may be taken: with respect to what the body carries, or to values from
 * outside that it reads. There is none through a loop. False with an error that names the node: the loss is no float
 * scalar, a value is no float, or a loop is in the way; what was added until then is read by nobody. */
bool fb_autodiff(fb_graph *g, fb_id loss, const fb_id *wrt, int n, fb_id *gradients, int line, fb_error *err);

/* The same value, a constant to every gradient (PyTorch's detach): a view that canonicalising takes out. */
fb_id fb_autodiff_detach(fb_graph *g, fb_id x, int line, fb_error *err);

#endif
