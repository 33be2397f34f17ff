/* Generated graphs of about `n` nodes, canonical, of several shapes. */
#ifndef FB_TESTS_BENCH_GRAPHS_H
#define FB_TESTS_BENCH_GRAPHS_H

#include "graph/canon.h"
#include "graph/graph.h"

typedef struct {
    const char *name;
    fb_graph *(*make)(int n); /* finished, not canonical */
} bench_shape;

extern const bench_shape bench_shapes[]; /* ended by a row without a name */
fb_graph *bench_canonical(fb_graph *g);  /* takes g */

#endif
