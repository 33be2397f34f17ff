/* Inputs that tell: what a plan's own inputs may hide, a second set shows. Weights near zero hide a whole product, zero
 * biases a bias that is left out, a mean of zero one that is computed wrongly.
 *
 * Lines differ in kind: those along which the kernel reduces, for the mean of a column shows nothing where rows are far
 * from 0 in turns; else rows of the last dimension. What a value was in the run says what it may be here: nothing negative
 * where nothing was (a variance, a moment), between 0 and 1 where all was, integers within the range that they had. */
#include "measure/check_parts.h"

#include "base/mem.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "base/vec.h"
#include "graph/element.h"

#include <math.h>
#include <pthread.h>

enum { CHUNK = 1024, PART = 1 << 18, KINDS = 8, FAR = 64 };

typedef struct {
    fb_dtype dtype;
    const char *bytes;
    pthread_mutex_t lock; /* of what follows */
    double low, high;
} looking;

static void look_part(void *ctx, int64_t first, int64_t last)
{
    looking *l = ctx;
    double low = INFINITY, high = -INFINITY, x[CHUNK];
    int64_t whole[CHUNK];
    bool floats = fb_dtype_is_float(l->dtype);
    for (int64_t at = first, m; at < last; at += m) {
        m = last - at < CHUNK ? last - at : CHUNK;
        const char *from = l->bytes + at * fb_dtype_size(l->dtype);
        if (floats)
            fb_elements_load(l->dtype, m, from, x);
        else
            fb_elements_load_int(l->dtype, m, from, whole);
        for (int64_t k = 0; k < m; k++) {
            double v = floats ? x[k] : (double)whole[k];
            if (!isfinite(v)) continue;
            low = v < low ? v : low;
            high = v > high ? v : high;
        }
    }
    pthread_mutex_lock(&l->lock);
    l->low = fmin(l->low, low);
    l->high = fmax(l->high, high);
    pthread_mutex_unlock(&l->lock);
}

fb_support fb_support_of(fb_dtype dtype, int64_t n, const void *bytes)
{
    looking l = {.dtype = dtype, .bytes = bytes, .low = INFINITY, .high = -INFINITY};
    pthread_mutex_init(&l.lock, NULL);
    fb_parallel_for(n, PART, look_part, &l);
    pthread_mutex_destroy(&l.lock);
    return (fb_support){l.low, l.high, !(l.low < l.high)};
}

/* A line of noise x (mean 0, deviation 1): of one of eight kinds. */
static double kind_of(int64_t line, double x, double of_line)
{
    switch (line % KINDS) {
    case 1: return FAR + x;                   /* the mean far above the spread */
    case 2: return of_line;                   /* constant */
    case 3: return 1 + of_line + x * 0x1p-12; /* nearly so */
    case 4: return nearbyint(x);              /* ties */
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

/* ---- lines ---- */

static int64_t lines_count(const fb_lines *l)
{
    int64_t n = 1;
    for (int d = 0; d < l->shape.rank; d++) n *= l->along >> d & 1 ? 1 : l->shape.dim[d];
    return n;
}

static bool is_read(const fb_launch *l, fb_id id)
{
    for (int r = 0; r < l->n_reads; r++)
        if (l->reads[r].node == id) return true;
    return false;
}

/* What the launch computes: all between what it stores and what it reads. */
static bool *computed_by(const fb_graph *g, const fb_launch *l)
{
    bool *of = fb_calloc((size_t)g->n_nodes + 1, sizeof *of);
    for (int s = 0; s < l->n_stores; s++) of[l->stores[s].node] = true;
    for (fb_id id = g->n_nodes - 1; id >= 0; id--) {
        if (!of[id] || is_read(l, id)) continue;
        for (int a = 0; a < g->nodes[id].n_args; a++) of[g->nodes[id].args[a]] = true;
    }
    return of;
}

fb_lines fb_lines_of(const fb_graph *g, const fb_launch *l, fb_id read, int pick)
{
    const fb_shape *own = &g->nodes[read].shape;
    fb_lines rows = {.shape = *own, .along = own->rank ? 1u << (own->rank - 1) : 0};
    FB_VEC(fb_lines) found = {0};
    bool *of = computed_by(g, l);
    for (fb_id id = 0; id < g->n_nodes; id++) {
        const fb_node *n = &g->nodes[id];
        if (!of[id] || is_read(l, id) || fb_op_get(n->op)->cls != FB_CLASS_REDUCTION) continue;
        fb_lines lines = {.shape = g->nodes[n->args[0]].shape};
        for (int i = 0; i < n->attrs->n_axes; i++) lines.along |= 1u << n->attrs->axes[i];
        if (fb_shape_elements(&lines.shape) == fb_shape_elements(own) && lines_count(&lines) >= KINDS)
            FB_VEC_PUSH(&found, lines);
    }
    fb_free(of);
    fb_lines lines = found.n ? found.at[pick % found.n] : rows;
    FB_VEC_FREE(&found);
    return lines;
}

/* A value that is made part by part. */
typedef struct {
    const fb_node *n;
    const fb_lines *lines;
    const fb_support *support;
    uint64_t key;
    int64_t many;                    /* lines */
    int64_t line_steps[FB_MAX_RANK]; /* from line to line, a dimension of the lines' shape each */
    char *to;
} telling;

static int64_t line_of(const telling *t, int64_t at)
{
    const fb_lines *l = t->lines;
    int64_t line = 0;
    for (int d = l->shape.rank - 1; d >= 0; d--) {
        line += at % l->shape.dim[d] * t->line_steps[d];
        at /= l->shape.dim[d];
    }
    return line;
}

static void tell_floats(void *ctx, int64_t first, int64_t last)
{
    const telling *t = ctx;
    double x[CHUNK];
    int size = fb_dtype_size(t->n->dtype);
    for (int64_t at = first, m; at < last; at += m) {
        m = last - at < CHUNK ? last - at : CHUNK;
        int64_t line = -1;
        double of_line = 0;
        for (int64_t k = 0; k < m; k++) {
            double noise = fb_rng_normal(fb_rng_bits(t->key, (uint64_t)(at + k)), 0, 1);
            int64_t own = line_of(t, at + k);
            if (own != line) of_line = fb_rng_normal(fb_rng_bits(~t->key, (uint64_t)own), 0, 1);
            line = own;
            x[k] = within(t->support, t->many < KINDS ? noise : kind_of(line, noise, of_line));
        }
        fb_elements_store(t->n->dtype, m, x, t->to + at * size);
    }
}

/* Ids at the edges, the same again and again, and any. */
static void tell_ints(void *ctx, int64_t first, int64_t last)
{
    const telling *t = ctx;
    const fb_support *s = t->support;
    fb_dtype dtype = t->n->dtype;
    int64_t x[CHUNK], low = s->low <= s->high ? (int64_t)s->low : 0, high = s->low <= s->high ? (int64_t)s->high : 0;
    int size = fb_dtype_size(dtype);
    for (int64_t at = first, m; at < last; at += m) {
        m = last - at < CHUNK ? last - at : CHUNK;
        for (int64_t k = 0; k < m; k++) {
            uint64_t bits = fb_rng_bits(t->key, (uint64_t)(at + k));
            int64_t any = dtype == FB_BOOL ? (int64_t)(bits >> 40 & 1) : fb_rng_integer(bits, low, high + 1);
            x[k] = dtype == FB_BOOL    ? any
                   : (at + k) % 8 == 0 ? low
                   : (at + k) % 8 == 1 ? high
                   : (at + k) % 8 < 4  ? (low + high) / 2
                                       : any;
        }
        fb_elements_store_int(dtype, m, x, t->to + at * size);
    }
}

void fb_tell(const fb_node *n, const fb_lines *lines, const fb_support *support, uint64_t key, void *to)
{
    int64_t all = fb_shape_elements(&n->shape);
    if (!all) return;
    telling t = {.n = n, .lines = lines, .support = support, .key = key, .many = lines_count(lines), .to = to};
    fb_shape kept = lines->shape;
    for (int d = 0; d < kept.rank; d++) kept.dim[d] = lines->along >> d & 1 ? 1 : kept.dim[d];
    fb_shape_strides(&kept, t.line_steps);
    for (int d = 0; d < kept.rank; d++) t.line_steps[d] = lines->along >> d & 1 ? 0 : t.line_steps[d];
    fb_parallel_for(all, PART, fb_dtype_is_float(n->dtype) ? tell_floats : tell_ints, &t);
}
