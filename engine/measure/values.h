/* A tensor to look at: a corner, statistics, a histogram, and its error against the reference element by element. What
 * a worker answers when the front asks what a node's value is (fb_measure_values), as JSON on the way and for people.
 *
 * The caller frees a value with fb_values_free; its texts and arrays are the arena's. */
#ifndef FB_MEASURE_VALUES_H
#define FB_MEASURE_VALUES_H

#include "base/arena.h"
#include "measure/report.h"

#include "interp/trial.h"

enum { FB_VALUES_CORNER = 6, FB_VALUES_BINS = 16, FB_VALUES_WORST = 5 };

/* One element that is off: its place in row-major order. */
typedef struct {
    int64_t element;
    double got, expected;
} fb_value_error;

typedef struct {
    fb_arena *arena;
    const char *node, *from; /* from: "stored by layer_norm_tanh", "an input" … */
    fb_dtype dtype;
    fb_shape shape;
    int64_t elements, zeros, nans, infinities;
    double min, max, mean, deviation; /* of the finite elements; NAN where there are none */
    int64_t bin[FB_VALUES_BINS]; /* of the finite elements, between min and max in equal steps; the last holds max */
    int rows, columns;           /* of the corner: the beginning of the last two dims, at 0 of all others */
    double corner[FB_VALUES_CORNER * FB_VALUES_CORNER]; /* row by row */
    /* Against the reference; compared 0: there is nothing to compare with, for the value is what is given. */
    int64_t compared, undecided;
    bool right;
    double max_abs, max_rel, bound; /* as in fb_error_report */
    int n_worst;
    /* those that are furthest off, the furthest first; only what is off at all */
    fb_value_error worst[FB_VALUES_WORST];
    const char *wrong; /* what the judge says of it; NULL while it is right */
} fb_values;

/* Looks at all elements of a node, given in its dtype; `from` is copied. */
fb_values *fb_values_of(const fb_graph *g, fb_id node, const char *from, const void *bytes);
/* Sets them against trials of the graph from its sources (interp/trial.h); of very large tensors, samples. */
bool fb_values_judge(fb_values *v, const fb_graph *g, fb_id node, const void *bytes, const fb_trial_options *sources,
                     fb_error *err);
void fb_values_free(fb_values *v);

json_t *fb_values_to_json(const fb_values *v);
fb_values *fb_values_from_json(const json_t *value, fb_error *err);

/* The coordinates of an element, "[3,17]"; "" of a scalar. Into `to`, returned. */
const char *fb_values_at(const fb_shape *shape, int64_t element, char to[128]);

#endif
