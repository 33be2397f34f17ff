/* Reference files, mapped for reading. Private to measure/. */
#ifndef FB_MEASURE_REFERENCE_H
#define FB_MEASURE_REFERENCE_H

#include "measure/measure.h"

typedef struct {
    void *map;
    size_t bytes;
} fb_reference;

/* As fb_tensor: v or i, and the bound (NULL: zero; INFINITY: undecided). Borrowed until close. */
typedef struct {
    int64_t n;
    const double *v;
    const int64_t *i;
    const float *bound;
} fb_reference_tensor;

bool fb_reference_open(fb_reference *r, const char *path, const fb_graph *g, fb_error *err);
bool fb_reference_get(const fb_reference *r, fb_id node, fb_reference_tensor *out);
void fb_reference_close(fb_reference *r);

/* A bound as files hold it: a float, rounded up. */
float fb_reference_bound(double bound);
/* Compares a value in its node's dtype with the reference: fb_verify's other half. */
void fb_verify_values(const fb_reference_tensor *t, const fb_node *n, const void *bytes, fb_error_report *out);

#endif
