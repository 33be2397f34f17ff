/* Which contractions are convolutions: a product of weights with windows of a tensor, as nn.conv2d and its kind write
 * them, whatever views the windows came by. */
#ifndef FB_GRAPH_CONVOLUTION_H
#define FB_GRAPH_CONVOLUTION_H

#include "base/convolution.h"
#include "graph/graph.h"

/* False where `product` is none that a library's convolution computes: its right operand is no matrix of windows over up
 * to three dimensions of one tensor that lies strided in memory, or its left one no weights that do, or that a product
 * would have laid out (graph/storage.h). What windows reach outside of the tensor is 0. *base and *offset: where x begins,
 * in elements of that node's storage; weights begin where the left operand does. Nothing is set where it is
 * none; either may be NULL. */
bool fb_graph_convolution(const fb_graph *g, fb_id product, fb_convolution *out, fb_id *base, int64_t *offset);

#endif
