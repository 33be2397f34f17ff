/* Trials of a whole graph, put together from their blocks. */
#ifndef TESTS_UNIT_TRIAL_HELP_H
#define TESTS_UNIT_TRIAL_HELP_H

#include "base/mem.h"
#include "interp/trial.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* All lanes of a wanted node as doubles; seen counts how often an element was handed over. */
typedef struct {
    fb_id node;
    int64_t n;
    double *v[1 + FB_TRIALS];
    int *seen;
    int blocks, most_lanes;
} trial_result;

typedef struct {
    int n, trials;
    trial_result *at;
    fb_trial_overflow overflow;
    pthread_mutex_t lock;
} trials;

static inline void trial_take(void *ctx, int thread, const fb_trial_block *b)
{
    trials *t = ctx;
    trial_result *r = &t->at[b->want];
    (void)thread;
    pthread_mutex_lock(&t->lock);
    r->blocks++;
    if (b->lanes > r->most_lanes) r->most_lanes = b->lanes;
    for (int64_t k = 0; k < b->n; k++) r->seen[b->first + k]++;
    for (int l = 0; l <= t->trials; l++) {
        int from = l < b->lanes ? l : 0;
        for (int64_t k = 0; k < b->n; k++) r->v[l][b->first + k] = b->v[from] ? b->v[from][k] : (double)b->i[from][k];
    }
    pthread_mutex_unlock(&t->lock);
}

static inline trials *trials_of(const fb_graph *g, const fb_trial_options *o, const fb_id *want, int n, fb_error *err)
{
    trials *t = fb_calloc(1, sizeof *t);
    *t = (trials){.n = n, .trials = o->trials, .at = fb_calloc((size_t)n + 1, sizeof *t->at)};
    pthread_mutex_init(&t->lock, NULL);
    for (int i = 0; i < n; i++) {
        trial_result *r = &t->at[i];
        r->node = want[i];
        r->n = fb_shape_elements(&g->nodes[want[i]].shape);
        r->seen = fb_calloc((size_t)r->n + 1, sizeof *r->seen);
        for (int l = 0; l <= o->trials; l++) r->v[l] = fb_calloc((size_t)r->n + 1, sizeof *r->v[l]);
    }
    if (!fb_trial_run(g, o, want, n, trial_take, t, &t->overflow, err)) fail_msg("%s", err->text);
    return t;
}

static inline void trials_free(trials *t)
{
    for (int i = 0; i < t->n; i++) {
        fb_free(t->at[i].seen);
        for (int l = 0; l <= t->trials; l++) fb_free(t->at[i].v[l]);
    }
    pthread_mutex_destroy(&t->lock);
    fb_free(t->at);
    fb_free(t);
}

/* Largest |lane − exact| of an element. */
static inline double spread_at(const trials *t, int which, int64_t k)
{
    double most = 0;
    for (int l = 1; l <= t->trials; l++) {
        double d = fabs(t->at[which].v[l][k] - t->at[which].v[0][k]);
        if (d > most || isnan(d)) most = d;
    }
    return most;
}

#endif
