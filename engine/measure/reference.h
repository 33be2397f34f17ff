/* Reference files: what the trials of a whole graph gave, once for a graph, seed and version of the interpreter's
 * sources. Private to measure/.
 *
 * A file is a header, blocks of values with their spreads in the order in which they came, and an index of the tensors
 * and their blocks at its end. Every block and the index carry a digest; written beside its name and renamed. A file
 * that is damaged is as good as none, and made anew. */
#ifndef FB_MEASURE_REFERENCE_H
#define FB_MEASURE_REFERENCE_H

#include "measure/judge.h"
#include "measure/measure.h"

typedef struct {
    void *map;
    size_t bytes;
} fb_reference;

/* Opens a file and reads all of it once: false when it is not there or cannot be read now (FB_ERR_INPUT), or is of
 * another graph or version, or damaged (FB_ERR_SYSTEM). */
bool fb_reference_open(fb_reference *r, const char *path, const fb_graph *g, fb_error *err);
/* The same in whichever place it lies: FB_ERR_SYSTEM when it is in none. */
bool fb_reference_find(fb_reference *r, const fb_graph *g, uint64_t seed, fb_error *err);
void fb_reference_close(fb_reference *r);
/* Of how many elements of each tensor it holds samples; 0: all. */
int64_t fb_reference_sample(const fb_graph *g);
/* Elements of a tensor that are there (less than all where a graph is so large that only samples are); -1: not this
 * node. */
int64_t fb_reference_elements(const fb_reference *r, fb_id node);
/* Visits the exact values of a tensor, a stretch at a time, in no order: n of them from element `first` on, `floats` or
 * `integers`. */
typedef void fb_reference_visit(void *ctx, int64_t first, int64_t n, const double *floats, const int64_t *integers);
void fb_reference_each(const fb_reference *r, fb_id node, fb_reference_visit *visit, void *ctx);
/* Judges a value, in its node's dtype; *few (may be NULL): what is wrong is few elements (fb_judgement_end). False when
 * the reference does not hold the node. */
bool fb_reference_judge(const fb_reference *r, fb_id node, const fb_node *n, const void *bytes, fb_error_report *out,
                        bool *few);

#endif
