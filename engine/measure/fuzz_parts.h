/* The fuzzer, inside. */
#ifndef FB_MEASURE_FUZZ_PARTS_H
#define FB_MEASURE_FUZZ_PARTS_H

#include "base/rng.h"
#include "interp/interp.h"
#include "measure/fuzz.h"
#include "measure/report.h"

enum { FB_FUZZ_THREADS = 2 }; /* of trials: graphs are small, and processes many */

typedef struct {
    uint64_t state;
} fb_random;

static inline int64_t fb_random_below(fb_random *r, int64_t n)
{
    r->state = fb_splitmix64(r->state + 1);
    return n > 0 ? (int64_t)(r->state % (uint64_t)n) : 0;
}

/* One output or effect in its dtype. False when the reference has no such node. */
bool fb_fuzz_reference_judge(const fb_fuzz_reference *r, fb_id node, const void *bytes, fb_error_report *out);
/* Is the exact lane of node `same` of another graph, which means the same, what honest arithmetic may give for `node`?
 */
bool fb_fuzz_reference_allows(const fb_fuzz_reference *r, fb_id node, const fb_fuzz_reference *other, fb_id same,
                              char text[400]);

/* Seeds of which there is a twin: a graph of the same inputs and outputs whose values are written in another way. */
bool fb_fuzz_is_paired(uint64_t seed);
/* Before canonicalising. */
fb_graph *fb_fuzz_graph_raw(uint64_t seed, bool twin, fb_error *err);

#endif
