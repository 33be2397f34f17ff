/* In which order the elements of a value lie in memory: row by row, or in one of two other ways.
 *
 * As the one permutation lies through which all read it: attention's result is made head by head and read token by token;
 * written as it is read, it is one matrix for what follows, and otherwise as many as there are sequences.
 *
 * Channels last, between convolutions in 16 bits or tf32: tensor cores add up along channels, and a library that finds
 * them apart copies every picture to such an order and back. (3 × 3 over 64 channels of 56 × 56, 16 pictures, f16, cuDNN on
 * an H200: 25.5 µs, of which 10 are those copies.)
 *
 * It is a property of the graph alone (g->lies_as), so that legality, cost, kernels, library calls and checks agree. */
#ifndef FB_GRAPH_STORAGE_H
#define FB_GRAPH_STORAGE_H

#include "graph/graph.h"
#include "graph/index.h"

/* Fills g->lies_as of a graph whose users are known. */
void fb_storage_order(fb_graph *g);

/* Does the value, through views, leave the graph, enter a loop or become a parameter? Then it lies row by row. */
bool fb_storage_leaves(const fb_graph *g, fb_id node);

/* The dim whose elements lie side by side though it is not the last, as channels do; FB_NONE: it is the last. */
int fb_storage_innermost(const fb_graph *g, fb_id node);
/* Does `node`, which has the elements of `product` in their order, lie by the columns of its matrices: are neighbours in
 * memory neighbours in a column? A library then computes the transposed product. */
bool fb_storage_is_turned(const fb_graph *g, fb_id product, fb_id node);

/* Strides of the node's own dims in memory, in elements. */
void fb_storage_strides(const fb_graph *g, fb_id node, int64_t strides[FB_MAX_RANK]);
/* Where the element at `coords` of the node lies. */
fb_ix fb_storage_offset(const fb_graph *g, fb_index_pool *p, fb_id node, const fb_ix *coords);

/* The node's bytes from the order of memory to its own, row by row, or the other way; `bytes` holds all of it. False
 * where there is no memory for a second copy; nothing is done to a node that lies row by row. */
bool fb_storage_to_own(const fb_graph *g, fb_id node, void *bytes);
bool fb_storage_from_own(const fb_graph *g, fb_id node, void *bytes);

/* How a library call comes by operand `arg` of a product: rows or columns at one stride are read where they lie, and
 * what is no such matrix is laid out first, row by row. Batches of them that no one stride serves are left to loops. */
typedef enum { FB_OPERAND_LIES, FB_OPERAND_LAID_OUT, FB_OPERAND_UNEVEN } fb_operand_way;
fb_operand_way fb_storage_operand(const fb_graph *g, fb_id product, int arg, int64_t strides[FB_MAX_RANK]);
/* The view that is laid out for it then: the operand, or what it is the transpose of, where more neighbours of that are
 * neighbours in memory (windows before their places: runs of three elements, and of a picture's line the other way round). */
fb_id fb_storage_laid(const fb_graph *g, fb_id product, int arg);
/* A matrix that BLAS takes, of these extents and strides (in elements): one of the strides is 1 and the other steps over
 * whole lines. */
bool fb_storage_is_matrix(int64_t rows, int64_t cols, int64_t row, int64_t col);
/* Do `batch` such matrices, `step` elements from one to the next, follow each other as one, `batch` times as tall? Not where
 * rows go backwards, or lie in each other as windows do. */
bool fb_storage_is_one(int64_t batch, int64_t rows, int64_t cols, int64_t row, int64_t col, int64_t step);
/* The one stride from batch to batch of an operand that is not uneven; 0: all of them read the same. */
int64_t fb_storage_batch_stride(const fb_shape *result, const fb_shape *operand, const int64_t *strides);
/* Do all batches read one right operand, and their left rows follow each other? Then they are one matrix. */
bool fb_storage_is_tall(const fb_graph *g, fb_id product);

#endif
