/* A value, its trials and what the right kernel stored for it, kept for many wrong kernels to be held against. */
#ifndef TESTS_UNIT_SCORE_KEPT_H
#define TESTS_UNIT_SCORE_KEPT_H

#include "base/mem.h"
#include "graph/element.h"
#include "measure/judging.h"

#include <math.h>
#include <string.h>

enum { DATA_SEED = 1 };

typedef struct {
    fb_id node;
    fb_judge_shape shape;
    double *v;
    int64_t *i;
    float *spread;
    fb_spread regions;
    float *furthest;         /* of FB_JUDGE_DRAWS draws, by which alone a value is called wrong */
    fb_spread widest, drawn; /* drawn: of one of them */
    void *right;             /* what the right kernel stores */
    int64_t bytes;
} kept_value;

typedef struct {
    int n, draw;
    kept_value *value;
} kept;

static inline void keep_block(void *ctx, int thread, const fb_trial_block *b)
{
    (void)thread;
    const kept *k = ctx;
    kept_value *to = &k->value[b->want];
    float *furthest = to->furthest + b->first, *spread = fb_alloc((size_t)b->n * sizeof *spread + 1);
    fb_spread other = {0};
    fb_spread_add(k->draw ? &other : &to->regions, &to->shape, b, spread);
    if (k->draw) fb_spread_join(&to->drawn, &other);
    for (int64_t i = 0; i < b->n; i++)
        if (spread[i] > furthest[i]) furthest[i] = spread[i];
    if (!k->draw) memcpy(to->spread + b->first, spread, (size_t)b->n * sizeof *spread);
    fb_free(spread);
    if (k->draw) return;
    if (b->v[0]) memcpy(to->v + b->first, b->v[0], (size_t)b->n * sizeof *to->v);
    if (b->i[0]) memcpy(to->i + b->first, b->i[0], (size_t)b->n * sizeof *to->i);
}

static inline void kept_free(kept *k)
{
    for (int i = 0; i < k->n; i++) {
        fb_free(k->value[i].v);
        fb_free(k->value[i].i);
        fb_free(k->value[i].spread);
        fb_free(k->value[i].furthest);
        fb_free(k->value[i].right);
    }
    fb_free(k->value);
    *k = (kept){0};
}

static inline kept kept_new(const fb_graph *g, const fb_id *want, int n)
{
    kept k = {.n = n, .value = fb_calloc((size_t)n + 1, sizeof *k.value)};
    for (int i = 0; i < n; i++) {
        kept_value *v = &k.value[i];
        const fb_node *node = &g->nodes[want[i]];
        *v = (kept_value){.node = want[i], .shape = fb_judgement_shape_of(node), .bytes = fb_node_bytes(g, want[i])};
        size_t elements = (size_t)v->shape.elements + 1;
        bool whole = fb_dtype_is_float(node->dtype);
        if (whole)
            v->v = fb_calloc(elements, sizeof *v->v);
        else
            v->i = fb_calloc(elements, sizeof *v->i);
        v->spread = fb_calloc(elements, sizeof *v->spread);
        v->furthest = fb_calloc(elements, sizeof *v->furthest);
        v->right = fb_calloc(1, (size_t)v->bytes + 1);
    }
    return k;
}

static inline bool keep(kept *k, const fb_graph *g, const fb_given *given, int n_given, fb_error *err)
{
    fb_id *want = fb_calloc((size_t)k->n + 1, sizeof *want);
    for (int i = 0; i < k->n; i++) want[i] = k->value[i].node;
    fb_trial_options o = {.n_given = n_given, .given = given, .seed = DATA_SEED, .trials = FB_TRIALS, .threads = 1};
    bool ok = true;
    for (k->draw = 0; ok && k->draw < FB_JUDGE_DRAWS; k->draw++) {
        o.draw = k->draw;
        ok = fb_trial_run(g, &o, want, k->n, keep_block, k, NULL, err);
        for (int i = 0; i < k->n; i++) {
            kept_value *v = &k->value[i];
            fb_spread_widen(&v->widest, k->draw ? &v->drawn : &v->regions);
            v->drawn = (fb_spread){0};
        }
    }
    fb_free(want);
    return ok;
}

/* What fb_check_kernels says of these bytes. */
static inline bool is_accepted(const kept_value *v, const fb_graph *g, const void *bytes, fb_error_report *e)
{
    fb_judgement j;
    fb_judgement_clear(&j);
    fb_judgement_add(&j, &v->shape, 0, v->shape.elements, v->v, v->i, v->spread, bytes);
    if (!fb_judgement_end(&j, &v->regions, &v->shape, &g->nodes[v->node], e)) return e->ok;
    fb_judgement_clear(&j);
    fb_judgement_add(&j, &v->shape, 0, v->shape.elements, v->v, v->i, v->furthest, bytes);
    fb_judgement_end(&j, &v->widest, &v->shape, &g->nodes[v->node], e);
    return e->ok;
}

/* How far bytes are from the right kernel's: the largest difference over what roundings may do; beyond 1 it counts. */
typedef struct {
    double ratio, difference, spread;
} moved;

static inline void moved_more(moved *m, double difference, double spread, double times)
{
    double ratio = difference > 0 ? difference / (times * spread) : 0;
    if (!(ratio > m->ratio)) return;
    *m = (moved){ratio, difference, spread};
}

/* Roundings go up or down: what is stored in 16 bits may be the neighbour on either side, though eight lanes that drew
 * were all on the nearer one. */
static inline double either_neighbour(fb_dtype dtype, double exact, double stored, double spread)
{
    int e, digits = dtype == FB_F16 ? 11 : 8;
    if ((dtype != FB_F16 && dtype != FB_BF16) || !(spread > 0) || !isfinite(stored)) return spread;
    frexp(stored, &e);
    double step = fmax(stored == 0 ? 0 : ldexp(1, e - digits), dtype == FB_F16 ? 0x1p-24 : 0x1p-133);
    return fmax(spread, step - fabs(exact - stored));
}

static inline void add_moved(moved *m, const kept_value *v, const char *bytes)
{
    fb_dtype d = v->shape.dtype;
    int size = fb_dtype_size(d);
    int64_t n = v->shape.elements;
    if (!memcmp(bytes, v->right, (size_t)v->bytes)) return;
    double *right = fb_alloc((size_t)n * sizeof *right + 1);
    for (int64_t k = 0; k < n; k++) {
        double got;
        int64_t a, b;
        if (!isfinite(v->spread[k]) && v->v) right[k] = v->v[k];
        if (v->v) {
            fb_elements_load(d, 1, (char *)v->right + k * size, &right[k]);
            fb_elements_load(d, 1, bytes + k * size, &got);
            if (isinf(v->spread[k]) || got == right[k] || (isnan(got) && isnan(right[k]))) continue;
            double off = fabs(got - right[k]);
            double spread = either_neighbour(d, v->v[k], right[k], v->spread[k]);
            moved_more(m, isfinite(off) ? off : INFINITY, spread, FB_JUDGE_ELEMENT);
        } else {
            fb_elements_load_int(d, 1, (char *)v->right + k * size, &a);
            fb_elements_load_int(d, 1, bytes + k * size, &b);
            if (!isinf(v->spread[k]) && a != b) moved_more(m, fabs((double)a - (double)b), 0, 1);
        }
    }
    fb_judgement j;
    fb_judgement_clear(&j);
    if (v->v) fb_judgement_add(&j, &v->shape, 0, n, right, NULL, v->spread, bytes);
    for (int r = 0; v->v && r < FB_JUDGE_REGIONS; r++) {
        const fb_region_spread *l = &v->regions.region[r];
        double along = 0, offset = 0;
        if (l->n < 8) continue;
        for (int t = 0; t < FB_TRIALS; t++) {
            along = fmax(along, fabs(l->along[t]));
            offset = fmax(offset, fabs(l->offset[t]));
        }
        moved_more(m, fabs(j.region[r].along), along, FB_JUDGE_REGION);
        moved_more(m, fabs(j.region[r].offset), offset, FB_JUDGE_REGION);
    }
    fb_free(right);
}

#endif
