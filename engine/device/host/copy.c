/* Feeds and receives on the host: plain copies between memory of the program's own and the buffers that kernels use, so
 * that a plan means the same here as on a device with memory of its own. Overlapped, a thread makes them beside the
 * kernels; it takes a core from them, and where the kernels leave none it saves nothing. */
#include "base/clock.h"
#include "base/mem.h"
#include "device/host/parts.h"

#include <pthread.h>
#include <string.h>

/* ---- what is copied ---- */

fb_host_copies *fb_host_copies_new(const fb_program *p, char *const *place, char *const *second)
{
    int *buffers = fb_alloc(((size_t)p->n_buffers + 1) * sizeof *buffers), first_out;
    int n = fb_program_copies(p, buffers, &first_out);
    if (!n) {
        fb_free(buffers);
        return NULL;
    }
    fb_host_copies *c = fb_calloc(1, sizeof *c);
    *c = (fb_host_copies){.n = n, .first_out = first_out, .overlap = p->overlap};
    c->copy = fb_calloc((size_t)n, sizeof *c->copy);
    for (int i = 0; i < n; i++) {
        int b = buffers[i];
        fb_host_copy *copy = &c->copy[i];
        *copy = (fb_host_copy){.buffer = b, .bytes = p->buffers[b].bytes, .place = {place[b], place[b]}};
        if (p->overlap) copy->place[1] = second[b];
        for (int k = 0; k < 2; k++) copy->outside[k] = fb_calloc(1, (size_t)copy->bytes);
    }
    fb_free(buffers);
    return c;
}

void fb_host_copies_free(fb_host_copies *c)
{
    if (!c) return;
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < 2; k++) fb_free(c->copy[i].outside[k]);
    fb_free(c->copy);
    fb_free(c);
}

fb_host_copy *fb_host_copy_of(const fb_host_copies *c, int buffer)
{
    for (int i = 0; c && i < c->n; i++)
        if (c->copy[i].buffer == buffer) return &c->copy[i];
    return NULL;
}

static void copy_range(fb_host_copies *c, int from, int to, int parity)
{
    for (int i = from; i < to; i++) {
        fb_host_copy *copy = &c->copy[i];
        char *outside = copy->outside[parity], *place = copy->place[parity];
        bool in = i < c->first_out;
        copy->start_us = fb_now_us();
        memcpy(in ? place : outside, in ? outside : place, (size_t)copy->bytes);
        copy->end_us = fb_now_us();
    }
}

void fb_host_copy_in(fb_host_copies *c, int parity)
{
    copy_range(c, 0, c->first_out, parity);
}

void fb_host_copy_out(fb_host_copies *c, int parity)
{
    copy_range(c, c->first_out, c->n, parity);
}

/* ---- the thread ---- */

struct fb_copier {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    fb_host_copies *work; /* what to copy; NULL: nothing to do */
    int parity;
    bool end;
};

static void *copier_main(void *ctx)
{
    fb_copier *t = ctx;
    pthread_mutex_lock(&t->lock);
    while (!t->end) {
        if (!t->work) {
            pthread_cond_wait(&t->change, &t->lock);
            continue;
        }
        fb_host_copies *c = t->work;
        int parity = t->parity;
        pthread_mutex_unlock(&t->lock);
        fb_host_copy_in(c, parity);
        fb_host_copy_out(c, parity);
        pthread_mutex_lock(&t->lock);
        t->work = NULL;
        pthread_cond_broadcast(&t->change);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

fb_copier *fb_copier_new(fb_error *err)
{
    fb_copier *t = fb_calloc(1, sizeof *t);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->change, NULL);
    if (pthread_create(&t->thread, NULL, copier_main, t) == 0) return t;
    fb_free(t);
    fb_fail(err, FB_ERR_SYSTEM, "the system gives no thread that could copy beside the kernels");
    return NULL;
}

void fb_copier_free(fb_copier *t)
{
    if (!t) return;
    pthread_mutex_lock(&t->lock);
    t->end = true;
    pthread_cond_broadcast(&t->change);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->change);
    pthread_mutex_destroy(&t->lock);
    fb_free(t);
}

void fb_copier_begin(fb_copier *t, fb_host_copies *c, int parity)
{
    pthread_mutex_lock(&t->lock);
    t->work = c;
    t->parity = parity;
    pthread_cond_broadcast(&t->change);
    pthread_mutex_unlock(&t->lock);
}

void fb_copier_finish(fb_copier *t)
{
    pthread_mutex_lock(&t->lock);
    while (t->work) pthread_cond_wait(&t->change, &t->lock);
    pthread_mutex_unlock(&t->lock);
}
