/* Threads live as long as one loop: what is worth several takes much longer than to start them. */
#include "base/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MOST = 64, PIECE = 4 << 20 };

/* Asked for once: the answer is a file of the system's, and loops of one part come by the hundred thousand. */
int fb_parallel_threads(void)
{
    static atomic_int known;
    int threads = atomic_load(&known);
    if (threads) return threads;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    threads = cores < 1 ? 1 : cores > THREADS_MOST ? THREADS_MOST : (int)cores;
    atomic_store(&known, threads);
    return threads;
}

typedef struct {
    void (*fn)(void *ctx, int64_t first, int64_t last);
    void *ctx;
    int64_t n, grain;
    atomic_llong next;
} loop;

static void *run_parts(void *ctx)
{
    loop *l = ctx;
    for (;;) {
        int64_t first = atomic_fetch_add(&l->next, l->grain);
        if (first >= l->n) return NULL;
        l->fn(l->ctx, first, first + l->grain < l->n ? first + l->grain : l->n);
    }
}

void fb_parallel_for(int64_t n, int64_t grain, void (*fn)(void *ctx, int64_t first, int64_t last), void *ctx)
{
    loop l = {.fn = fn, .ctx = ctx, .n = n, .grain = grain};
    int64_t parts = n > 0 ? (n - 1) / grain + 1 : 0;
    int most = fb_parallel_threads(), started = 0;
    pthread_t threads[THREADS_MOST];
    while (started < most - 1 && started < parts - 1 && pthread_create(&threads[started], NULL, run_parts, &l) == 0)
        started++;
    run_parts(&l);
    for (int k = 0; k < started; k++) pthread_join(threads[k], NULL);
}

/* ---- memory ---- */

typedef struct {
    char *to;
    const char *from;
    int byte;
    atomic_bool differs;
} memory;

static void copy_part(void *ctx, int64_t first, int64_t last)
{
    const memory *m = ctx;
    memcpy(m->to + first, m->from + first, (size_t)(last - first));
}

static void set_part(void *ctx, int64_t first, int64_t last)
{
    const memory *m = ctx;
    memset(m->to + first, m->byte, (size_t)(last - first));
}

static void compare_part(void *ctx, int64_t first, int64_t last)
{
    memory *m = ctx;
    if (memcmp(m->to + first, m->from + first, (size_t)(last - first)) != 0) atomic_store(&m->differs, true);
}

void fb_parallel_copy(void *to, const void *from, size_t n)
{
    fb_parallel_for((int64_t)n, PIECE, copy_part, &(memory){.to = to, .from = from});
}

void fb_parallel_set(void *to, int byte, size_t n)
{
    fb_parallel_for((int64_t)n, PIECE, set_part, &(memory){.to = to, .byte = byte});
}

bool fb_parallel_equal(const void *a, const void *b, size_t n)
{
    memory m = {.to = (char *)(uintptr_t)a, .from = b};
    fb_parallel_for((int64_t)n, PIECE, compare_part, &m);
    return !atomic_load(&m.differs);
}
