/* Loops of two graphs, held against each other: are they one computation, and what keeps them apart?
 *
 * Bodies are compared as graphs. Not asked are names, the order of operands where that does not matter, the order of
 * carried and collected values, how views are written, what a state begins with, and what stands around the loop. A
 * graph's loops are taken in order; loops inside loops belong to their bodies. What is said stands in the value:
 * nothing is owned or borrowed.
 */
#ifndef FB_GRAPH_LOOP_COMPARE_H
#define FB_GRAPH_LOOP_COMPARE_H

#include "base/str.h"
#include "graph/graph.h"

/* From alike to apart. */
typedef enum {
    FB_LOOPS_NONE,   /* one of the graphs has no loop, or neither has */
    FB_LOOPS_SAME,   /* operation for operation, and what they read lies alike */
    FB_LOOPS_LAID,   /* … but lies otherwise in memory */
    FB_LOOPS_SUMMED, /* the same terms, added up in another order: equal but for rounding */
    FB_LOOPS_APART,
} fb_loops_is;

enum { FB_LOOPS_REASONS = 8 };

typedef struct {
    fb_loops_is is;
    int n; /* reasons; of what is the same there is none */
    char why[FB_LOOPS_REASONS][320];
} fb_loops;

/* Both canonical. The names are what sentences call them; both are taken to be loops of what is planned. */
void fb_loops_compare(const fb_graph *a, const char *name_a, const fb_graph *b, const char *name_b, fb_loops *out);

bool fb_graph_has_loop(const fb_graph *g);
const char *fb_loops_name(fb_loops_is is); /* "none" "same" "laid" "summed" "apart" */
/* "the same loop"; "no: products a step: …". */
void fb_loops_says(const fb_loops *l, fb_str *out);

#endif
