/* Loops on all cores.
 *
 * requires  nothing
 * provides  threads that wait for the next loop: starting and ending them takes longer than many a loop, and the system
 *           maps and unmaps their stacks while others of the process wait for memory
 *
 * One loop has them at a time; one that begins meanwhile, in another thread or inside a part, is its caller's alone. A
 * child that was forked has none of them and starts its own. */
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

enum { THREADS_MOST = 64, PIECE = 4 << 20 };

int fb_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* Asked for once, for loops of one part come by the hundred thousand. */
int fb_parallel_threads(void)
{
    static atomic_int known;
    int threads = atomic_load(&known);
    if (threads) return threads;
    int cores = fb_cores();
    threads = cores < THREADS_MOST ? cores : THREADS_MOST;
    atomic_store(&known, threads);
    return threads;
}

typedef struct {
    void (*fn)(void *ctx, int64_t first, int64_t last);
    void *ctx;
    int64_t n, grain;
    atomic_llong next;
} loop;

static void run_parts(loop *l)
{
    for (;;) {
        int64_t first = atomic_fetch_add(&l->next, l->grain);
        if (first >= l->n) return;
        l->fn(l->ctx, first, first + l->grain < l->n ? first + l->grain : l->n);
    }
}

/* ---- threads that wait ---- */

static struct {
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t begun, left;
    int threads;
    loop *now; /* NULL: none */
    int room;  /* threads that may still join it */
    int inside;
    bool forks;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .begun = PTHREAD_COND_INITIALIZER, .left = PTHREAD_COND_INITIALIZER};

static void start_anew(void)
{
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.begun, NULL);
    pthread_cond_init(&pool.left, NULL);
    pool.threads = pool.room = pool.inside = 0;
    pool.now = NULL;
}

static void *wait_for_loops(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (!pool.room) pthread_cond_wait(&pool.begun, &pool.lock);
        loop *l = pool.now;
        pool.room--;
        pool.inside++;
        pthread_mutex_unlock(&pool.lock);
        run_parts(l);
        pthread_mutex_lock(&pool.lock);
        if (--pool.inside == 0) pthread_cond_signal(&pool.left);
    }
    return NULL;
}

/* Signals are for the threads of others: who waits here has nothing to do with them. */
static void start_threads(int wanted)
{
    sigset_t all, before;
    pthread_attr_t detached;
    if (pool.threads >= wanted || pthread_attr_init(&detached) != 0) return;
    if (!pool.forks) pool.forks = pthread_atfork(NULL, NULL, start_anew) == 0;
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP, SIGABRT};
    for (size_t k = 0; k < sizeof own / sizeof *own; k++) sigdelset(&all, own[k]);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_t thread;
    while (pool.forks && pool.threads < wanted && pthread_create(&thread, &detached, wait_for_loops, NULL) == 0)
        pool.threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
}

/* False: others have a loop. */
static bool share_out(loop *l, int others)
{
    pthread_mutex_lock(&pool.lock);
    bool mine = !pool.now;
    if (mine) {
        start_threads(others);
        pool.now = l;
        pool.room = others < pool.threads ? others : pool.threads;
        pthread_cond_broadcast(&pool.begun);
    }
    pthread_mutex_unlock(&pool.lock);
    return mine;
}

static void take_back(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.room = 0;
    while (pool.inside) pthread_cond_wait(&pool.left, &pool.lock);
    pool.now = NULL;
    pthread_mutex_unlock(&pool.lock);
}

void fb_parallel_for_some(int threads, int64_t n, int64_t grain, void (*fn)(void *ctx, int64_t first, int64_t last),
                          void *ctx)
{
    loop l = {.fn = fn, .ctx = ctx, .n = n, .grain = grain};
    int64_t parts = n > 0 ? (n - 1) / grain + 1 : 0;
    int others = parts - 1 < threads - 1 ? (int)(parts - 1) : threads - 1;
    bool shared = others > 0 && share_out(&l, others < THREADS_MOST ? others : THREADS_MOST);
    run_parts(&l);
    if (shared) take_back();
}

void fb_parallel_for(int64_t n, int64_t grain, void (*fn)(void *ctx, int64_t first, int64_t last), void *ctx)
{
    fb_parallel_for_some(fb_parallel_threads(), n, grain, fn, ctx);
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
