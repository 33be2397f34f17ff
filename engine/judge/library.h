/* What libraries can do to a product on its way out. cuBLASLt: scale it, add a stored tensor of its shape, add a bias along
 * the columns, and relu. cuDNN to a convolution that lies channels last: the same with a bias of each channel, and no scale;
 * to another nothing. */
#ifndef FB_JUDGE_LIBRARY_H
#define FB_JUDGE_LIBRARY_H

#include "graph/convolution.h"
#include "graph/storage.h"
#include "nest/nest.h"
#include "target/machine.h"

typedef struct {
    fb_id product; /* the contraction */
    double scale;  /* of the product */
    /* a tensor of the product's shape, FB_NONE for none: any strided view whose columns are neighbours … */
    fb_id addend;
    double addend_scale; /* … times this: 1 or -1 */
    /* [n] of the product's columns, or of its rows where these lie side by side; FB_NONE for none: any strided view with
     * stride 1 */
    fb_id bias;
    bool relu;
    bool turned;  /* the result lies by columns of the product: a library makes its transpose (graph/storage.h) */
    fb_id result; /* the node whose value the call stores */
} fb_library_epilogue;

/* Does the machine's library convolve: is the node a product whose right operand is windows that do not lie as a matrix?
 * Then it reads the tensor itself: *tensor, from element *first of its storage on. Each of the three may be NULL. */
bool fb_library_convolves(const fb_machine *m, const fb_graph *g, fb_id node, fb_convolution *out, fb_id *tensor,
                          int64_t *first);
/* Is operand `arg` laid out for the call (graph/storage.h)? */
bool fb_library_lays_out(const fb_machine *m, const fb_graph *g, fb_id product, int arg);

/* Reads the group as such a call. False with a verdict that names the node the library cannot do, or the value that
 * would have to be stored half-way. */
bool fb_library_epilogue_of(const fb_machine *m, const fb_kernel_nodes *k, fb_library_epilogue *out, fb_verdict *why);

#endif
