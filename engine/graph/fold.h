/* Inside graph/: pointwise ops on constants, evaluated while the graph is simplified. */
#ifndef FB_GRAPH_FOLD_H
#define FB_GRAPH_FOLD_H

#include "graph/graph.h"

/* The value of pointwise node `n` whose operands hold `values` of dtype `in` (of operand 1 for `where`), as its dtype
 * holds it. False where a constant cannot hold the result exactly (an i64 past 2^53). */
bool fb_fold(const fb_node *n, fb_dtype in, const double values[3], double *out);

#endif
