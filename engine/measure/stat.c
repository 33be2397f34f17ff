/* Median and deciles of samples, which stay as they are; quantiles lie between samples. */
#include "base/mem.h"
#include "measure/report.h"

#include <math.h>

/* The k-th smallest to its place, what is smaller before it, what is larger behind: Hoare's selection, for a report is
 * asked for after every turn and has up to a hundred thousand samples, which would take milliseconds to sort. */
static void put_in_place(double *v, int n, int k)
{
    for (int low = 0, high = n - 1; low < high;) {
        double pivot = v[low + (high - low) / 2];
        int i = low, j = high;
        while (i <= j) {
            while (v[i] < pivot) i++;
            while (v[j] > pivot) j--;
            if (i > j) break;
            double held = v[i];
            v[i++] = v[j];
            v[j--] = held;
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            return;
    }
}

/* Linear between the order statistics, as numpy's percentile does. Reorders them. */
static double quantile(double *v, int n, double q)
{
    double at = q * (n - 1), next = INFINITY;
    int low = (int)at;
    put_in_place(v, n, low);
    for (int i = low + 1; i < n; i++)
        if (v[i] < next) next = v[i];
    return low + 1 < n ? v[low] + (at - low) * (next - v[low]) : v[low];
}

fb_stat fb_stat_of(const double *samples, int n)
{
    fb_stat s = {.median = NAN, .p10 = NAN, .p90 = NAN};
    double *known = fb_alloc((size_t)(n > 0 ? n : 1) * sizeof *known);
    for (int i = 0; i < n; i++) {
        if (!isnan(samples[i])) known[s.n++] = samples[i];
    }
    if (s.n) {
        s.median = quantile(known, s.n, 0.5);
        s.p10 = quantile(known, s.n, 0.1);
        s.p90 = quantile(known, s.n, 0.9);
    }
    fb_free(known);
    return s;
}
