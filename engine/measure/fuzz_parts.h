/* The fuzzer, inside. */
#ifndef FB_MEASURE_FUZZ_PARTS_H
#define FB_MEASURE_FUZZ_PARTS_H

#include "base/rng.h"
#include "measure/fuzz.h"

typedef struct {
    uint64_t state;
} fb_random;

static inline int64_t fb_random_below(fb_random *r, int64_t n)
{
    r->state = fb_splitmix64(r->state + 1);
    return n > 0 ? (int64_t)(r->state % (uint64_t)n) : 0;
}

/* Before canonicalising. */
fb_graph *fb_fuzz_graph_raw(uint64_t seed, fb_error *err);

#endif
