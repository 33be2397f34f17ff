/* A value against a reference with bounds, element by element. */
#include "measure/verify.h"
#include "base/mem.h"
#include "base/str.h"
#include "graph/element.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK = 4096 };

/* The worst element so far. */
typedef struct {
    int64_t at; /* -1: all are right */
    double got, expected, ratio;
    int64_t got_int, expected_int;
    double largest; /* of all finite expected magnitudes: what errors are set against */
} worst;

float fb_bound_rounded(double bound)
{
    float f = (float)bound;
    return (double)f < bound ? nextafterf(f, INFINITY) : f;
}

static double bound_at(const fb_bounded_values *t, int64_t i)
{
    return t->bound ? (double)t->bound[i] : 0;
}

/* How far beyond what is allowed; 0 when equal. NaN equals NaN: the reference says where one belongs. */
static double ratio_of(double got, double expected, double bound, double *distance)
{
    *distance = 0;
    if (got == expected || (isnan(got) && isnan(expected))) return 0;
    *distance = fabs(got - expected);
    if (!(*distance < INFINITY)) *distance = INFINITY;
    return *distance < INFINITY && bound > 0 ? *distance / bound : INFINITY;
}

static void compare_floats(const fb_bounded_values *t, fb_dtype dtype, const char *bytes, fb_error_report *out,
                           worst *w)
{
    double got[CHUNK];
    int size = fb_dtype_size(dtype);
    for (int64_t first = 0; first < t->n; first += CHUNK) {
        int64_t n = t->n - first < CHUNK ? t->n - first : CHUNK;
        fb_elements_load(dtype, n, bytes + first * size, got);
        for (int64_t i = 0; i < n; i++) {
            double expected = t->v[first + i], bound = bound_at(t, first + i), distance;
            if (isfinite(expected) && fabs(expected) > w->largest) w->largest = fabs(expected);
            if (isinf(bound)) {
                out->undecided++;
                continue;
            }
            double ratio = ratio_of(got[i], expected, bound, &distance);
            if (ratio == 0) continue;
            if (distance > out->max_abs) out->max_abs = distance;
            if (ratio <= w->ratio) continue;
            w->at = first + i;
            w->got = got[i];
            w->expected = expected;
            w->ratio = ratio;
        }
    }
}

static void compare_ints(const fb_bounded_values *t, fb_dtype dtype, const char *bytes, fb_error_report *out, worst *w)
{
    int64_t got[CHUNK];
    int size = fb_dtype_size(dtype);
    for (int64_t first = 0; first < t->n; first += CHUNK) {
        int64_t n = t->n - first < CHUNK ? t->n - first : CHUNK;
        fb_elements_load_int(dtype, n, bytes + first * size, got);
        /* bool: any byte but 0 and 1 is a kernel's mistake, whatever it means when read */
        for (int64_t i = 0; dtype == FB_BOOL && i < n; i++) got[i] = ((const unsigned char *)bytes)[first + i];
        for (int64_t i = 0; i < n; i++) {
            int64_t expected = t->i[first + i];
            w->largest = fmax(w->largest, fabs((double)expected));
            if (isinf(bound_at(t, first + i))) {
                out->undecided++;
                continue;
            }
            if (got[i] == expected) continue;
            double distance = fabs((double)got[i] - (double)expected);
            if (distance > out->max_abs) out->max_abs = distance;
            if (w->ratio == INFINITY) continue;
            w->at = first + i;
            w->got_int = got[i];
            w->expected_int = expected;
            w->ratio = INFINITY;
        }
    }
}

/* "relu[3,17,0]: 0.25, expected 0.5" */
static void say_worst(const fb_node *n, const worst *w, bool is_int, char *to, size_t room)
{
    fb_str s = {0};
    int64_t index[FB_MAX_RANK], rest = w->at;
    for (int d = n->shape.rank - 1; d >= 0; d--) {
        index[d] = rest % n->shape.dim[d];
        rest /= n->shape.dim[d];
    }
    fb_str_addf(&s, "%.48s", n->name);
    for (int d = 0; d < n->shape.rank; d++) fb_str_addf(&s, "%s%lld", d ? "," : "[", (long long)index[d]);
    if (n->shape.rank) fb_str_add(&s, "]");
    if (is_int)
        fb_str_addf(&s, ": %lld, expected %lld", (long long)w->got_int, (long long)w->expected_int);
    else
        fb_str_addf(&s, ": %.9g, expected %.9g",
                    isnan(w->got) ? (double)NAN : w->got, /* no NaN's sign means anything */
                    isnan(w->expected) ? (double)NAN : w->expected);
    fb_text_clean(to, room, s.text, s.n);
    fb_str_free(&s);
}

void fb_verify_values(const fb_bounded_values *t, const fb_node *n, const void *bytes, fb_error_report *out)
{
    worst w = {.at = -1, .ratio = 0};
    *out = (fb_error_report){.max_abs = 0, .max_rel = 0, .compared = t->n};
    if (t->i)
        compare_ints(t, n->dtype, bytes, out, &w);
    else
        compare_floats(t, n->dtype, bytes, out, &w);
    if (out->max_abs > 0) out->max_rel = w.largest > 0 ? out->max_abs / w.largest : INFINITY;
    out->bound = w.ratio;
    out->ok = w.ratio <= 1;
    if (!out->ok) say_worst(n, &w, t->i != NULL, out->worst, sizeof out->worst);
}
