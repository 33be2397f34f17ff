/* Inside differentiation: the tape that rules write on, and what loops need of it.
 *
 * A loop is taken back by another loop. While that one's body is being built, the rules go on naming the nodes of the
 * first loop's body; what they read of them is replaced by what stands for it in the new body. */
#ifndef FB_GRAPH_AUTODIFF_PARTS_H
#define FB_GRAPH_AUTODIFF_PARTS_H

#include "graph/autodiff.h"

typedef struct fb_reversal fb_reversal;

typedef struct {
    fb_graph *g;
    fb_id *gradient; /* of each of the first n nodes; FB_NONE while nobody has added to it */
    bool *wanted;    /* float values that depend on what is differentiated by */
    bool *detached;  /* constants, whatever they depend on */
    int n, line;
    bool failed; /* from then on everything is FB_NONE and nothing more is added */
    fb_error *err;
    fb_through through;
    fb_reversal *inside; /* the loop that is being taken back, NULL for none */
} fb_tape;

/* ---- autodiff.c: building, for rules and loops alike ---- */

fb_id fb_tape_put(fb_tape *t, fb_op op, const fb_id *args, int n_args, const fb_attrs *attrs);
fb_id fb_tape_filled_like(fb_tape *t, fb_id id, double value);
fb_id fb_tape_view(fb_tape *t, fb_id a, fb_shape shape);
fb_id fb_tape_slice(fb_tape *t, fb_id a, int dim, int64_t start, int64_t stop, int64_t step);
fb_id fb_tape_padded(fb_tape *t, fb_id a, int dim, int64_t before, int64_t after);
/* The gradient of a matrix `b` in products a b, from all rows of a and of the products' gradients. */
fb_id fb_tape_product_gradient(fb_tape *t, fb_id b, fb_id a, fb_id dy, const fb_attrs *at);
bool fb_tape_wants(const fb_tape *t, fb_id id);
/* Adds `share` (of any shape that the operand was broadcast to) to the gradient of `id`. */
void fb_tape_give(fb_tape *t, fb_id id, fb_id share);
/* Gives the operands of `id` their shares of its gradient. */
bool fb_tape_differentiate(fb_tape *t, fb_id id);
/* Room for the nodes that came since. */
void fb_tape_grow(fb_tape *t);

/* ---- autodiff_loop.c ---- */

/* The gradients of what the loop read, from those of its results. */
bool fb_tape_loop(fb_tape *t, fb_id loop);
/* What stands for `id` where nodes are being added. */
fb_id fb_tape_value(fb_tape *t, fb_id id);
/* Does a share of `id` add up over the steps of the loop that is being taken back? Then fb_tape_collect keeps it. */
bool fb_tape_adds_up(const fb_tape *t, fb_id id);
void fb_tape_collect(fb_tape *t, fb_id id, fb_id share);
/* The same for the matrix `b` of a product: false where it is not to be one product after the loop. */
bool fb_tape_collect_product(fb_tape *t, fb_id b, fb_id a, fb_id dy, const fb_attrs *at);
/* A slice's share of its operand waits for the other slices of it. False outside of loops. */
bool fb_tape_collect_piece(fb_tape *t, fb_id id, int dim, int64_t start, fb_id share);

#endif
