/* The graph that goes with another one to train by: from the gradients of its outputs to those of what it is given.
 *
 * requires  a finished graph without effects
 * provides  a canonical graph of its own. Its inputs are those of the first graph that the gradients need, under their
 *           names, and a gradient for each output that is a float; its outputs are the gradients of the float inputs
 *           and parameters. What the first graph computed on the way is computed again. It is the derivative of what
 *           the graph computes: what the script detached is not known any more.
 */
#ifndef FB_GRAPH_BACKWARD_H
#define FB_GRAPH_BACKWARD_H

#include "graph/graph.h"

typedef struct {
    fb_graph *graph;      /* the caller frees it */
    const char **arrives; /* for each output of the first graph, the input that is its gradient; NULL: it has none,
                             or is another output, too */
    int n;                /* float sources of the first graph … */
    fb_id *source;
    int *leaves; /* … and which of the outputs is the gradient of each; two may share one */
} fb_backward;

/* False with a sentence that says why there is no gradient. What `out` points to is the arena's, but for the graph. */
bool fb_graph_backward(const fb_graph *g, fb_arena *arena, fb_backward *out, fb_error *err);

#endif
