/* Values against a reference with a bound for each element: the worst case of fb_interp_run's error analysis. The
 * fuzzer's plain and independent second opinion; plans are judged by measure/judge.h. */
#ifndef FB_MEASURE_VERIFY_H
#define FB_MEASURE_VERIFY_H

#include "graph/graph.h"
#include "measure/report.h"

/* As fb_tensor: v or i, and the bound (NULL: zero; INFINITY: undecided). */
typedef struct {
    int64_t n;
    const double *v;
    const int64_t *i;
    const float *bound;
} fb_bounded_values;

/* A bound as a float, rounded up. */
float fb_bound_rounded(double bound);
/* Compares a value in its node's dtype: max_abs, max_rel, bound, undecided, compared, ok and worst of `out`. */
void fb_verify_values(const fb_bounded_values *t, const fb_node *n, const void *bytes, fb_error_report *out);

#endif
