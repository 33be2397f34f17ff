/* Median and deciles of samples. Sorts a copy; quantiles lie between samples. */
#include "base/mem.h"
#include "measure/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Linear between the order statistics, as numpy's percentile does. */
static double quantile(const double *sorted, int n, double q)
{
    double at = q * (n - 1);
    int low = (int)at;
    return low + 1 < n ? sorted[low] + (at - low) * (sorted[low + 1] - sorted[low]) : sorted[n - 1];
}

fb_stat fb_stat_of(const double *samples, int n)
{
    fb_stat s = {.median = NAN, .p10 = NAN, .p90 = NAN};
    double *sorted = fb_alloc((size_t)(n > 0 ? n : 1) * sizeof *sorted);
    for (int i = 0; i < n; i++) {
        if (!isnan(samples[i])) sorted[s.n++] = samples[i];
    }
    if (s.n) {
        qsort(sorted, (size_t)s.n, sizeof *sorted, ascending);
        s.median = quantile(sorted, s.n, 0.5);
        s.p10 = quantile(sorted, s.n, 0.1);
        s.p90 = quantile(sorted, s.n, 0.9);
    }
    fb_free(sorted);
    return s;
}
