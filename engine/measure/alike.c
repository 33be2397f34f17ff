/* Do two lines of what came out tell of one computation? Needs the lines of computes.c. */
#include "measure/compare.h"
#include "measure/computes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* How near figures of one computation are: of narrow dtypes sources are rounded, and what comes of them. */
static bool alike(const fb_found *a, const fb_found *b)
{
    double size = sqrt(fmax(a->squares, b->squares)), n = (double)(a->n < FB_FOUND_SUMMED ? a->n : FB_FOUND_SUMMED);
    if (a->n != b->n) return false;
    if (!(fabs(sqrt(a->squares) - sqrt(b->squares)) <= 0.05 * size)) return false;
    if (!(fabs(a->sum - b->sum) <= 0.05 * sqrt(n) * size)) return false;
    for (int k = 0; k < 2; k++)
        if (!(fabs(a->along[k] - b->along[k]) <= 0.2 * size)) return false;
    return true;
}

static int read_found(const char *text, fb_found to[FB_FOUND_TENSORS])
{
    int n = 0;
    for (const char *at = strchr(text, ' '); at && n < FB_FOUND_TENSORS; at = strchr(at + 1, ' '), n++) {
        long long elements;
        if (sscanf(at, " %lld:%lf:%lf:%lf:%lf", &elements, &to[n].squares, &to[n].sum, &to[n].along[0],
                   &to[n].along[1]) != 5)
            return -1;
        to[n].n = elements;
    }
    return n;
}

/* Each tensor of one is one of the other: outputs may stand in another order. */
static bool found_alike(const char *a, const char *b)
{
    fb_found of_a[FB_FOUND_TENSORS], of_b[FB_FOUND_TENSORS];
    bool taken[FB_FOUND_TENSORS] = {0};
    int n = read_found(a, of_a), m = read_found(b, of_b);
    if (n < 0 || m < 0) return true;
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < m && (taken[k] || !alike(&of_a[i], &of_b[k]))) k++;
        if (k == m) return false;
        taken[k] = true;
    }
    return n == m;
}

bool fb_computes_alike(const char *a, const char *b)
{
    const char *in_a = strstr(a, FB_FOUND_BEHIND), *in_b = strstr(b, FB_FOUND_BEHIND);
    size_t n = in_a ? (size_t)(in_a - a) : strlen(a), m = in_b ? (size_t)(in_b - b) : strlen(b);
    if (n != m || memcmp(a, b, n) != 0) return false;
    if (!in_a || !in_b) return true;
    in_a += strlen(FB_FOUND_BEHIND), in_b += strlen(FB_FOUND_BEHIND);
    if (strncmp(in_a, in_b, 16) != 0) return true; /* of other sources */
    return found_alike(in_a, in_b);
}
