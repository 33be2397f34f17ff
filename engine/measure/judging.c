/* Trials made for values that are to be judged, and made anew with other draws where one seems wrong.
 *
 * requires  values in their nodes' dtypes, and what the nodes are computed from
 * provides  a report of each
 *
 * Blocks come from several threads; each has sums of its own, which are joined at the end. */
#include "measure/judging.h"

#include "base/integer.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

/* One value; a judgement and a spread each thread. */
typedef struct {
    fb_judge_shape shape;
    const char *got;
    fb_judgement *judge;
    fb_spread *spread;
    fb_spread widest;
    float *furthest; /* an element each, over all draws; NULL: there is one draw */
    fb_usual_spread usual;
    fb_suspects *suspects; /* a thread each; then those of all in the first, ascending */
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

enum { PIECE = 1 << 14 };

static fb_trial_block part_of(const fb_trial_block *b, int64_t at, int64_t n)
{
    fb_trial_block part = {.node = b->node, .want = b->want, .first = b->first + at, .n = n, .lanes = b->lanes};
    for (int l = 0; l < b->lanes; l++) {
        part.v[l] = b->v[l] ? b->v[l] + at : NULL;
        part.i[l] = b->i[l] ? b->i[l] + at : NULL;
    }
    return part;
}

static void judge_block(void *ctx, int thread, const fb_trial_block *b)
{
    const judging *all = ctx;
    const judged_value *v = &all->value[b->want];
    int size = fb_dtype_size(v->shape.dtype);
    float spread[PIECE];
    if (all->exact) {
        fb_judgement_add_usual(&v->judge[thread], &v->shape, b->first, b->n, b->v[0], &v->usual,
                               v->got + b->first * size, &v->suspects[thread]);
        return;
    }
    for (int64_t at = 0, n; at < b->n; at += n) {
        n = b->n - at < PIECE ? b->n - at : PIECE;
        fb_trial_block piece = part_of(b, at, n);
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
        v->suspects = fb_calloc((size_t)all->n_threads, sizeof *v->suspects);
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
        for (int t = 0; t < all->n_threads; t++) FB_VEC_FREE(&all->value[i].suspects[t].at);
        fb_free(all->value[i].suspects);
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

/* ---- suspects ---- */

typedef struct {
    judged_value *value;
    float *furthest; /* a suspect each, over all draws */
    bool last;       /* of the draws */
} trying;

/* The first suspect from an element on. */
static int64_t suspect_from(const fb_suspects *s, int64_t element)
{
    int64_t low = 0, high = s->at.n;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (s->at.at[middle] < element)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void try_block(void *ctx, int thread, const fb_trial_block *b)
{
    const trying *w = ctx;
    judged_value *v = w->value;
    const fb_suspects *s = &v->suspects[0];
    int size = fb_dtype_size(v->shape.dtype);
    float spread[PIECE], allowed[PIECE];
    for (int64_t at = 0, n; at < b->n; at += n) {
        n = b->n - at < PIECE ? b->n - at : PIECE;
        fb_trial_block piece = part_of(b, at, n);
        int64_t from = suspect_from(s, piece.first), to = suspect_from(s, piece.first + n);
        if (from == to) continue;
        fb_spread_add(&v->spread[thread], &v->shape, &piece, spread);
        for (int64_t k = from; k < to; k++) take_furthest(&w->furthest[k], 1, &spread[s->at.at[k] - piece.first]);
        if (!w->last) continue;
        fb_judgement_allowed(&v->shape, n, piece.v[0], spread, allowed);
        for (int64_t k = from; k < to; k++) {
            int64_t element = s->at.at[k], here = element - piece.first;
            fb_judgement_add_suspect(&v->judge[thread], &v->shape, element, piece.v[0][here], allowed[here],
                                     v->got + element * size);
        }
    }
}

static void join_suspects(const judging *all, judged_value *v)
{
    fb_suspects *s = &v->suspects[0];
    for (int t = 1; t < all->n_threads; t++) {
        for (int64_t k = 0; k < v->suspects[t].at.n; k++) FB_VEC_PUSH(&s->at, v->suspects[t].at.at[k]);
        s->more += v->suspects[t].more;
    }
    if (s->at.n) qsort(s->at.at, (size_t)s->at.n, sizeof *s->at.at, fb_by_int64);
}

/* Gives suspects trials of their own. Where those that were tried are right, the others are undecided. */
static bool try_suspects(const fb_judging *j, const judging *all, int which, fb_error *err)
{
    judged_value *v = &all->value[which];
    fb_trial_options o = j->o;
    bool ok = true;
    join_suspects(all, v);
    if (!v->suspects[0].at.n) return true;
    trying w = {.value = v, .furthest = fb_calloc((size_t)v->suspects[0].at.n, sizeof *w.furthest)};
    o.trials = FB_TRIALS;
    o.at = v->suspects[0].at.at;
    o.n_at = v->suspects[0].at.n;
    for (o.draw = 0; ok && o.draw < FB_JUDGE_DRAWS; o.draw++) {
        w.last = o.draw == FB_JUDGE_DRAWS - 1;
        ok = fb_trial_run(j->g, &o, &j->want[which], 1, try_block, &w, NULL, err);
    }
    v->judge[0].undecided += v->suspects[0].more;
    fb_free(w.furthest);
    return ok;
}

/* Elements beyond the samples, by what is usual in these. */
static bool judge_rest(const fb_judging *j, judging *all, fb_error *err)
{
    enum { MOST_TRIED = 4096, LEAST_TRIED = 64 };
    fb_trial_options o = j->o;
    int64_t each = MOST_TRIED / all->n_threads;
    for (int i = 0; i < all->n_values; i++) {
        judged_value *v = &all->value[i];
        v->usual = fb_spread_usual(&v->widest);
        for (int t = 0; t < all->n_threads; t++) v->suspects[t].most = each > LEAST_TRIED ? each : LEAST_TRIED;
    }
    all->exact = true;
    o.trials = 0;
    o.sample = 0;
    bool ok = fb_trial_run(j->g, &o, j->want, j->n, judge_block, all, NULL, err);
    for (int i = 0; ok && i < j->n; i++) ok = try_suspects(j, all, i, err);
    if (ok) join_threads(all);
    return ok;
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
    if (ok && j->rest) ok = judge_rest(j, &all, err);
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
