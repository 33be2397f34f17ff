/* Reverse-mode differentiation, graph → graph: the gradient of a scalar is more nodes of the same graph, so that
 * forward, backward and update fuse like anything else. */
#ifndef FB_GRAPH_AUTODIFF_H
#define FB_GRAPH_AUTODIFF_H

#include "graph/graph.h"

/* How gradients go back through loops. */
typedef struct {
    bool recomputed; /* what the steps computed is computed again, from the states; else it is stored, except what
                        pointwise ops give from what is there */
    int64_t every;   /* recomputed: only each every-th state is stored, and the steps between run again; 0 and 1: all */
    /* No gradient goes from step n k to the step before, as if the state were detached there; 0: none ends. */
    int64_t truncate;
    bool step_by_step; /* a matrix gets its gradient in each step, and not from one product after the loop */
} fb_through;

/* Adds to the unfinished graph `g` the gradients of `loss` (one float element) with respect to wrt[0 … n - 1] (float
 * nodes); gradients[i] has wrt[i]'s shape and dtype, zeros where the loss does not depend on it. Integer and bool
 * values carry no gradient. Conventions are PyTorch's: relu and abs have derivative 0 at 0, clamp 1 at its ends, the
 * steps of sign, floor and remainder count for nothing, and the gradient of a maximum is shared evenly among equals.
 *
 * A loop on the way is taken back by a loop that runs backwards over the same steps, within a scope `through_time`;
 * what it needs of the first loop's steps is added to what that collects. In a loop's body the step's own gradient may
 * be taken: with respect to what the body carries, or to values from outside that it reads; there is none through the
 * loop that is still open, through a loop inside a loop, or through a body with effects.
 *
 * False with an error that names the node: the loss is no float scalar, a value is no float, or a loop is in the way;
 * the graph is as it was. `through` NULL: all stored, nothing truncated. */
bool fb_autodiff_through(fb_graph *g, fb_id loss, const fb_id *wrt, int n, fb_id *gradients, const fb_through *through,
                         int line, fb_error *err);
bool fb_autodiff(fb_graph *g, fb_id loss, const fb_id *wrt, int n, fb_id *gradients, int line, fb_error *err);

/* The same value, a constant to every gradient (PyTorch's detach): a view that canonicalising takes out. */
fb_id fb_autodiff_detach(fb_graph *g, fb_id x, int line, fb_error *err);

#endif
