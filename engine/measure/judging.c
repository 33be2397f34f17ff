/* Trials made for values that are to be judged, and made anew with other draws where one seems wrong.
 *
 * requires  values in their nodes' dtypes, and what the nodes are computed from
 * provides  a report of each
 *
 * Blocks come from several threads; each has sums of its own, which are joined at the end. */
#include "measure/judging.h"

#include "base/mem.h"

#include <math.h>

/* One value; a judgement and a spread each thread. */
typedef struct {
    fb_judge_shape shape;
    const char *got;
    fb_judgement *judge;
    fb_spread *spread;
    fb_spread widest;
    float *furthest; /* an element each, over all draws; NULL: there is one draw */
    fb_usual_spread usual;
} judged_value;

typedef struct {
    judged_value *value;
    int n_values, n_threads;
    bool exact; /* lane 0 alone: by what is usual */
    bool last;  /* of the draws: now elements are judged */
} judging;

static void take_furthest(float *furthest, int64_t n, float *spread)
{
    for (int64_t k = 0; k < n; k++) {
        if (spread[k] > furthest[k]) furthest[k] = spread[k];
        spread[k] = furthest[k];
    }
}

static void judge_block(void *ctx, int thread, const fb_trial_block *b)
{
    enum { PIECE = 1 << 14 };
    const judging *all = ctx;
    const judged_value *v = &all->value[b->want];
    int size = fb_dtype_size(v->shape.dtype);
    float spread[PIECE];
    if (all->exact) {
        fb_judgement_add_usual(&v->judge[thread], &v->shape, b->first, b->n, b->v[0], &v->usual,
                               v->got + b->first * size);
        return;
    }
    for (int64_t at = 0, n; at < b->n; at += n) {
        n = b->n - at < PIECE ? b->n - at : PIECE;
        fb_trial_block piece = {.node = b->node, .want = b->want, .first = b->first + at, .n = n, .lanes = b->lanes};
        for (int l = 0; l < b->lanes; l++) {
            piece.v[l] = b->v[l] ? b->v[l] + at : NULL;
            piece.i[l] = b->i[l] ? b->i[l] + at : NULL;
        }
        fb_spread_add(&v->spread[thread], &v->shape, &piece, spread);
        if (v->furthest) take_furthest(v->furthest + piece.first, n, spread);
        if (all->last)
            fb_judgement_add(&v->judge[thread], &v->shape, piece.first, n, piece.v[0], piece.i[0], spread,
                             v->got + piece.first * size);
    }
}

static bool open_values(judging *all, const fb_judging *j, bool many, fb_error *err)
{
    all->n_threads = fb_trial_threads(&j->o);
    all->n_values = j->n;
    all->value = fb_calloc((size_t)j->n + 1, sizeof *all->value);
    for (int i = 0; i < j->n; i++) {
        judged_value *v = &all->value[i];
        const fb_node *n = &j->g->nodes[j->want[i]];
        *v = (judged_value){.shape = fb_judgement_shape_of(n), .got = j->got[i]};
        v->judge = fb_calloc((size_t)all->n_threads, sizeof *v->judge);
        v->spread = fb_calloc((size_t)all->n_threads, sizeof *v->spread);
        for (int t = 0; t < all->n_threads; t++) fb_judgement_clear(&v->judge[t]);
        size_t bytes = (size_t)v->shape.elements * sizeof *v->furthest;
        if (!many) continue;
        if (!(v->furthest = fb_try_alloc(bytes + 1)))
            return fb_fail(err, FB_ERR_LIMIT, "%s: no memory to check it in", n->name);
        for (int64_t k = 0; k < v->shape.elements; k++) v->furthest[k] = 0;
    }
    return true;
}

static void close_values(judging *all)
{
    for (int i = 0; i < all->n_values; i++) {
        fb_free(all->value[i].judge);
        fb_free(all->value[i].spread);
        fb_free(all->value[i].furthest);
    }
    fb_free(all->value);
}

/* The threads' parts of one draw. */
static void join_threads(const judging *all)
{
    for (int i = 0; i < all->n_values; i++) {
        judged_value *v = &all->value[i];
        for (int t = 1; t < all->n_threads; t++) {
            fb_judgement_join(&v->judge[0], &v->judge[t]);
            fb_spread_join(&v->spread[0], &v->spread[t]);
            fb_judgement_clear(&v->judge[t]);
            v->spread[t] = (fb_spread){0};
        }
    }
}

static void join_draw(const judging *all)
{
    for (int i = 0; i < all->n_values; i++) {
        judged_value *v = &all->value[i];
        fb_spread_widen(&v->widest, &v->spread[0]);
        v->spread[0] = (fb_spread){0};
    }
}

/* *few: what is wrong is so in few elements, whatever value it is. */
static bool judge_draws(const fb_judging *j, int draws, fb_error_report *out, bool *few, fb_trial_overflow *overflow,
                        fb_error *err)
{
    judging all = {0};
    fb_trial_options o = j->o;
    bool ok = open_values(&all, j, draws > 1, err);
    o.trials = FB_TRIALS;
    for (o.draw = 0; ok && o.draw < draws; o.draw++) {
        all.last = o.draw == draws - 1;
        ok = fb_trial_run(j->g, &o, j->want, j->n, judge_block, &all, o.draw ? NULL : overflow, err);
        if (ok) join_threads(&all);
        if (ok) join_draw(&all);
    }
    if (ok && j->rest) {
        for (int i = 0; i < j->n; i++) all.value[i].usual = fb_spread_usual(&all.value[i].widest);
        all.exact = true;
        o.trials = 0;
        o.sample = 0;
        ok = fb_trial_run(j->g, &o, j->want, j->n, judge_block, &all, NULL, err);
        if (ok) join_threads(&all);
    }
    for (int i = 0; ok && i < j->n; i++) {
        const judged_value *v = &all.value[i];
        bool by_few = fb_judgement_end(&v->judge[0], &v->widest, &v->shape, &j->g->nodes[j->want[i]], &out[i]);
        *few = *few && (out[i].ok || by_few);
    }
    close_values(&all);
    return ok;
}

bool fb_judgement_again(const fb_judging *j, fb_error_report *out, fb_error *err)
{
    bool few = true;
    return judge_draws(j, FB_JUDGE_DRAWS, out, &few, NULL, err);
}

bool fb_judgement_make(const fb_judging *j, fb_error_report *out, fb_trial_overflow *overflow, fb_error *err)
{
    bool right = true, few = true;
    if (!judge_draws(j, 1, out, &few, overflow, err)) return false;
    for (int i = 0; i < j->n; i++) right = right && out[i].ok;
    return right || !few || fb_judgement_again(j, out, err);
}
