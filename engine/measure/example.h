/* Inputs of a graph and what should come of them, for a program that checks itself (fusebox export): the bytes of each
 * source, and of each result every element's exact value with how far honest roundings may lead from it (judge.h). */
#ifndef FB_MEASURE_EXAMPLE_H
#define FB_MEASURE_EXAMPLE_H

#include "base/str.h"
#include "interp/interp.h"

typedef struct {
    fb_id node;
    bool given;
    int64_t elements; /* of the source's buffer */
    fb_id checked;    /* FB_NONE: nothing */
} fb_example_tensor;

/* Bytes that fb_example_write would add. */
int64_t fb_example_bytes(const fb_graph *g, const fb_example_tensor *t, int n);
/* For each tensor in order: the source's bytes, then of each checked element a double and, behind these, a float each
 * (INFINITY: undecided). Integers are doubles too. Evaluates the graph on all cores. */
bool fb_example_write(const fb_graph *g, const fb_example_tensor *t, int n, uint64_t seed, fb_file_values files,
                      void *files_ctx, fb_str *out, fb_error *err);

#endif
