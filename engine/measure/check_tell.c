/* Inputs that tell: what a plan's own inputs may hide, a second set shows. Weights near zero hide a whole product, zero
 * biases a bias that is left out, a mean of zero one that is computed wrongly.
 *
 * Rows of the last dimension differ in kind. What a value was in the run says what it may be here: nothing negative
 * where nothing was (a variance, a moment), between 0 and 1 where all was, integers within the range that they had. */
#include "measure/check_parts.h"

#include "base/mem.h"
#include "base/rng.h"
#include "graph/element.h"

#include <math.h>

enum { CHUNK = 1024, KINDS = 8, FAR = 64 };

fb_support fb_support_of(fb_dtype dtype, int64_t n, const void *bytes)
{
    fb_support s = {INFINITY, -INFINITY, true};
    double x[CHUNK];
    int64_t whole[CHUNK];
    int size = fb_dtype_size(dtype);
    for (int64_t at = 0, m; at < n; at += m) {
        m = n - at < CHUNK ? n - at : CHUNK;
        const char *from = (const char *)bytes + at * size;
        if (fb_dtype_is_float(dtype))
            fb_elements_load(dtype, m, from, x);
        else
            fb_elements_load_int(dtype, m, from, whole);
        for (int64_t k = 0; k < m; k++) {
            double v = fb_dtype_is_float(dtype) ? x[k] : (double)whole[k];
            if (!isfinite(v)) continue;
            s.low = fmin(s.low, v);
            s.high = fmax(s.high, v);
        }
    }
    s.constant = !(s.low < s.high);
    return s;
}

/* Row `row` of noise x (mean 0, deviation 1): of one of eight kinds. */
static double kind_of(int64_t row, double x, double of_row)
{
    switch (row % KINDS) {
    case 1: return FAR + x;                  /* the mean far above the spread */
    case 2: return of_row;                   /* constant */
    case 3: return 1 + of_row + x * 0x1p-12; /* nearly so */
    case 4: return nearbyint(x);             /* ties */
    case 5: return 0;
    case 6: return 8 * x;
    default: return x;
    }
}

static double within(const fb_support *s, double x)
{
    bool known = s->low <= s->high;
    if (known && s->low >= 0 && s->high <= 1 && !s->constant) return fabs(x) - floor(fabs(x));
    return known && s->low >= 0 ? fabs(x) : x;
}

static void tell_floats(const fb_node *n, const fb_support *s, uint64_t key, int64_t rows, int64_t columns, char *to)
{
    double x[CHUNK];
    int size = fb_dtype_size(n->dtype);
    int64_t all = rows * columns;
    for (int64_t at = 0, m; at < all; at += m) {
        m = all - at < CHUNK ? all - at : CHUNK;
        for (int64_t k = 0; k < m; k++) {
            int64_t row = (at + k) / columns;
            double noise = fb_rng_normal(fb_rng_bits(key, (uint64_t)(at + k)), 0, 1);
            double of_row = fb_rng_normal(fb_rng_bits(~key, (uint64_t)row), 0, 1);
            x[k] = within(s, rows < KINDS ? noise : kind_of(row, noise, of_row));
        }
        fb_elements_store(n->dtype, m, x, to + at * size);
    }
}

/* Ids at the edges, the same again and again, and any. */
static void tell_ints(const fb_node *n, const fb_support *s, uint64_t key, int64_t all, char *to)
{
    int64_t x[CHUNK], low = s->low <= s->high ? (int64_t)s->low : 0, high = s->low <= s->high ? (int64_t)s->high : 0;
    int size = fb_dtype_size(n->dtype);
    for (int64_t at = 0, m; at < all; at += m) {
        m = all - at < CHUNK ? all - at : CHUNK;
        for (int64_t k = 0; k < m; k++) {
            uint64_t bits = fb_rng_bits(key, (uint64_t)(at + k));
            int64_t any = n->dtype == FB_BOOL ? (int64_t)(bits >> 40 & 1) : fb_rng_integer(bits, low, high + 1);
            x[k] = n->dtype == FB_BOOL ? any
                   : (at + k) % 8 == 0 ? low
                   : (at + k) % 8 == 1 ? high
                   : (at + k) % 8 < 4  ? (low + high) / 2
                                       : any;
        }
        fb_elements_store_int(n->dtype, m, x, to + at * size);
    }
}

void fb_tell(const fb_node *n, const fb_support *support, uint64_t key, void *to)
{
    int64_t all = fb_shape_elements(&n->shape), columns = n->shape.rank ? n->shape.dim[n->shape.rank - 1] : 1;
    if (!all) return;
    if (fb_dtype_is_float(n->dtype))
        tell_floats(n, support, key, all / columns, columns, to);
    else
        tell_ints(n, support, key, all, to);
}
