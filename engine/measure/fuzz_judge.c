/* What a random graph's outputs may be: trials of all of them, in memory.
 *
 * requires  a canonical graph; inputs are those of FB_FUZZ_DATA_SEED
 * provides  the judge of the whole (measure/judge.h), and the plain interpreter's second opinion of the exact lane */
#include "measure/fuzz_parts.h"

#include "base/mem.h"
#include "base/str.h"
#include "graph/element.h"
#include "interp/interp.h"
#include "measure/judging.h"
#include "measure/measure.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* One output: the exact lane, and how far the others went. */
typedef struct {
    fb_id node;
    fb_judge_shape shape;
    double *v;
    int64_t *i;
    float *spread;
    fb_spread sums;
} value;

struct fb_fuzz_reference {
    const fb_graph *g;
    fb_arena *arena;
    int n;
    value *at;
    pthread_mutex_t lock;
};

static void take_block(void *ctx, int thread, const fb_trial_block *b)
{
    (void)thread;
    fb_fuzz_reference *r = ctx;
    value *t = &r->at[b->want];
    size_t bytes = (size_t)b->n * sizeof *t->v;
    if (!b->n) return;
    memcpy(t->v ? (void *)(t->v + b->first) : (void *)(t->i + b->first), t->v ? (const void *)b->v[0] : b->i[0], bytes);
    pthread_mutex_lock(&r->lock);
    fb_spread_add(&t->sums, &t->shape, b, t->spread + b->first);
    pthread_mutex_unlock(&r->lock);
}

fb_fuzz_reference *fb_fuzz_reference_new(const fb_graph *g, fb_error *err)
{
    fb_fuzz_reference *r = fb_calloc(1, sizeof *r);
    fb_id *nodes;
    r->g = g;
    r->arena = fb_arena_new();
    r->n = fb_reference_nodes(g, r->arena, &nodes);
    r->at = fb_calloc((size_t)r->n + 1, sizeof *r->at);
    pthread_mutex_init(&r->lock, NULL);
    for (int k = 0; k < r->n; k++) {
        value *t = &r->at[k];
        t->node = nodes[k];
        t->shape = fb_judgement_shape_of(&g->nodes[nodes[k]]);
        size_t n = (size_t)t->shape.elements + 1;
        if (fb_dtype_is_float(t->shape.dtype))
            t->v = fb_calloc(n, sizeof *t->v);
        else
            t->i = fb_calloc(n, sizeof *t->i);
        t->spread = fb_calloc(n, sizeof *t->spread);
    }
    fb_trial_options o = {.seed = FB_FUZZ_DATA_SEED, .trials = FB_TRIALS, .threads = FB_FUZZ_THREADS};
    if (fb_trial_run(g, &o, nodes, r->n, take_block, r, NULL, err)) return r;
    fb_fuzz_reference_free(r);
    return NULL;
}

void fb_fuzz_reference_free(fb_fuzz_reference *r)
{
    if (!r) return;
    for (int k = 0; k < r->n; k++) {
        fb_free(r->at[k].v);
        fb_free(r->at[k].i);
        fb_free(r->at[k].spread);
    }
    pthread_mutex_destroy(&r->lock);
    fb_free(r->at);
    fb_arena_free(r->arena);
    fb_free(r);
}

static const value *find(const fb_fuzz_reference *r, fb_id node)
{
    for (int k = 0; k < r->n; k++)
        if (r->at[k].node == node) return &r->at[k];
    return NULL;
}

bool fb_fuzz_reference_judge(const fb_fuzz_reference *r, fb_id node, const void *bytes, fb_error_report *out)
{
    const value *t = find(r, node);
    if (!t) return false;
    fb_judgement j;
    fb_judgement_clear(&j);
    fb_judgement_add(&j, &t->shape, 0, t->shape.elements, t->v, t->i, t->spread, bytes);
    if (!fb_judgement_end(&j, &t->sums, &t->shape, &r->g->nodes[node], out)) return true;
    const fb_judging again = {
        .g = r->g, .o = {.seed = FB_FUZZ_DATA_SEED, .threads = FB_FUZZ_THREADS}, .want = &node, .got = &bytes, .n = 1};
    fb_error_report second;
    if (fb_judgement_again(&again, &second, NULL)) *out = second;
    return true;
}

/* Both are doubles, and differ by the order in which doubles were added: by little of what roundings in the dtype do,
 * unless roundings are all of it, as where 1 is divided by what a mean of equal values left, or its square is nothing that
 * the dtype can hold. f64 has no wider type, so that there the exact lane is as far off as any. A decision that roundings of
 * doubles turn, as the ceiling of what a sum of x - mean(x) leaves, is off by just what lanes that turn it are. */
static bool is_same(const value *t, int64_t k, double got)
{
    double v = t->v[k], small = 0x1p-40, little = 0x1p-8, few = 8; /* spreads: lanes are a sample */
    double share = t->spread[k] >= fabs(v) ? few : little;
    if (t->shape.dtype == FB_F64) share = 16;
    if (got == v || (isnan(got) && isnan(v)) || isinf(t->spread[k])) return true;
    if (fb_dtype_round(t->shape.dtype, v) == 0 && fb_dtype_round(t->shape.dtype, got) == 0) return true;
    double off = fabs(got - v), spread = (double)t->spread[k];
    return off <= small * fabs(v) + share * spread || fabs(off - spread) <= little * spread;
}

/* Is the exact lane of an output what the plain interpreter gives, wherever that has decided it? */
static bool agrees(const fb_fuzz_reference *r, fb_id node, const fb_tensor *other, char text[400])
{
    const value *t = find(r, node);
    const char *name = r->g->nodes[node].name;
    snprintf(text, 400, "%s is no output of both", name);
    if (!t || !other || other->n != t->shape.elements) return false;
    for (int64_t k = 0; k < other->n; k++) {
        if (t->v ? is_same(t, k, other->v[k]) : t->i[k] == other->i[k] || isinf(t->spread[k])) continue;
        if (other->bound && isinf(other->bound[k])) continue;
        if (t->v)
            snprintf(text, 400, "%s[%lld] is %.17g by the plain interpreter, and %.17g (± %.3g) by trials", name,
                     (long long)k, other->v[k], t->v[k], (double)t->spread[k]);
        else
            snprintf(text, 400, "%s[%lld] is %lld by the plain interpreter, and %lld by trials", name, (long long)k,
                     (long long)other->i[k], (long long)t->i[k]);
        return false;
    }
    return true;
}

bool fb_fuzz_reference_allows(const fb_fuzz_reference *r, fb_id node, const fb_fuzz_reference *other, fb_id same,
                              char text[400])
{
    const value *t = find(other, same);
    fb_error_report report = {.ok = false};
    snprintf(text, 400, "%s is no output of both", r->g->nodes[node].name);
    if (!t || !find(r, node) || find(r, node)->shape.elements != t->shape.elements) return false;
    char *bytes = fb_alloc((size_t)t->shape.elements * (size_t)fb_dtype_size(t->shape.dtype) + 1);
    if (t->v)
        fb_elements_store(t->shape.dtype, t->shape.elements, t->v, bytes);
    else
        fb_elements_store_int(t->shape.dtype, t->shape.elements, t->i, bytes);
    bool ok = fb_fuzz_reference_judge(r, node, bytes, &report) && report.ok;
    if (!ok) snprintf(text, 400, "%s", report.worst);
    fb_free(bytes);
    return ok;
}

static bool agrees_in_all(const fb_fuzz_reference *r, bool bounds, char text[400])
{
    fb_error err;
    fb_interp_options o = {.seed = FB_FUZZ_DATA_SEED, .bounds = bounds};
    fb_interp *in = fb_interp_run(r->g, &o, NULL, 0, &err);
    bool same = in != NULL;
    if (!in) snprintf(text, 400, "%.399s", err.text);
    for (int k = 0; same && k < r->n; k++) same = agrees(r, r->at[k].node, fb_interp_get(in, r->at[k].node), text);
    if (in) fb_interp_free(in);
    return same;
}

/* Two ways to add doubles up decide otherwise what nothing but their roundings decides, as whether a mean of equal values
 * less one of them is 0. The worst case tells where that is, and takes longer. */
bool fb_fuzz_second_opinion(const fb_fuzz_reference *r, char text[400])
{
    return agrees_in_all(r, false, text) || agrees_in_all(r, true, text);
}
