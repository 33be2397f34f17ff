/* Loops and memory on all cores: every index once, in parts as asked for, and nothing beside what was named. */
#include "base/mem.h"
#include "base/parallel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE = 4 << 20, BEYOND = 64 }; /* PIECE: of memory, what one thread takes at a time */

typedef struct {
    int64_t n, grain;
    atomic_int *seen; /* an index */
    atomic_llong parts, bad;
} counted;

static void count_part(void *ctx, int64_t first, int64_t last)
{
    counted *c = ctx;
    atomic_fetch_add(&c->parts, 1);
    bool whole = last - first == c->grain, end = last == c->n && last - first <= c->grain;
    if (first % c->grain || first >= last || (!whole && !end)) atomic_fetch_add(&c->bad, 1);
    for (int64_t i = first; i < last; i++) atomic_fetch_add(&c->seen[i], 1);
}

static void every_index_comes_once(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 7, 64, 65, 1000, 4099}, grains[] = {1, 2, 7, 64, 1000, 5000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
            counted c = {.n = sizes[s], .grain = grains[g]};
            c.seen = fb_calloc((size_t)c.n, sizeof *c.seen);
            fb_parallel_for(c.n, c.grain, count_part, &c);
            assert_int_equal(c.parts, (c.n - 1) / c.grain + 1);
            assert_int_equal(c.bad, 0);
            for (int64_t i = 0; i < c.n; i++) assert_int_equal(c.seen[i], 1);
            fb_free(c.seen);
        }
    }
}

static void nothing_is_not_called(void **state)
{
    (void)state;
    counted c = {.grain = 1};
    fb_parallel_for(0, 1, count_part, &c);
    fb_parallel_for(-5, 1, count_part, &c);
    assert_int_equal(c.parts, 0);
}

static void note_thread(void *ctx, int64_t first, int64_t last)
{
    (void)first;
    (void)last;
    *(pthread_t *)ctx = pthread_self();
}

static void one_part_is_the_callers(void **state)
{
    (void)state;
    pthread_t ran = {0};
    fb_parallel_for(100, 100, note_thread, &ran);
    assert_true(pthread_equal(ran, pthread_self()));
}

/* What was written before the loop is seen in it, and what is written in it after it; loops stand in loops. */
static void fill_row(void *ctx, int64_t first, int64_t last)
{
    int *row = ctx;
    for (int64_t i = first; i < last; i++) row[i] += (int)i;
}

static void fill_rows(void *ctx, int64_t first, int64_t last)
{
    int **rows = ctx;
    for (int64_t r = first; r < last; r++) fb_parallel_for(100, 9, fill_row, rows[r]);
}

static void loops_stand_in_loops(void **state)
{
    (void)state;
    enum { ROWS = 20 };
    int *rows[ROWS];
    for (int r = 0; r < ROWS; r++) {
        rows[r] = fb_calloc(100, sizeof **rows);
        for (int i = 0; i < 100; i++) rows[r][i] = 1000 * r;
    }
    fb_parallel_for(ROWS, 1, fill_rows, rows);
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < 100; i++) assert_int_equal(rows[r][i], 1000 * r + i);
        fb_free(rows[r]);
    }
}

/* Parts that wait for each other: so many threads are there, whatever the cores. Again and again, as loops come. */
typedef struct {
    int wanted;
    pthread_mutex_t lock;
    pthread_cond_t all;
    int there;
} meeting;

static void meet(void *ctx, int64_t first, int64_t last)
{
    meeting *m = ctx;
    (void)first;
    (void)last;
    pthread_mutex_lock(&m->lock);
    if (++m->there == m->wanted) pthread_cond_broadcast(&m->all);
    while (m->there < m->wanted) pthread_cond_wait(&m->all, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

static void as_many_threads_as_asked_for(void **state)
{
    (void)state;
    for (int k = 0; k < 300; k++) {
        meeting m = {.wanted = 1 + k % 7, .lock = PTHREAD_MUTEX_INITIALIZER, .all = PTHREAD_COND_INITIALIZER};
        fb_parallel_for_some(m.wanted, m.wanted, 1, meet, &m);
        assert_int_equal(m.there, m.wanted);
    }
}

static void *count_alone(void *ctx)
{
    counted *c = ctx;
    for (int k = 0; k < 200; k++) fb_parallel_for_some(4, c->n, c->grain, count_part, c);
    return NULL;
}

static void loops_of_several_threads(void **state)
{
    (void)state;
    enum { THREADS = 3 };
    pthread_t thread[THREADS];
    counted c[THREADS];
    for (int t = 0; t < THREADS; t++) {
        c[t] = (counted){.n = 50, .grain = 3, .seen = fb_calloc(50, sizeof(atomic_int))};
        assert_int_equal(pthread_create(&thread[t], NULL, count_alone, &c[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
        assert_int_equal(c[t].bad, 0);
        for (int i = 0; i < 50; i++) assert_int_equal(c[t].seen[i], 200);
        fb_free(c[t].seen);
    }
}

/* Its parent's threads are not there, and it has its own. */
static void a_child_has_its_own_threads(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    return; /* it follows no child that starts threads */
#endif
    meeting m = {.wanted = 4, .lock = PTHREAD_MUTEX_INITIALIZER, .all = PTHREAD_COND_INITIALIZER};
    fb_parallel_for_some(4, 4, 1, meet, &m);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        m.there = 0;
        fb_parallel_for_some(4, 4, 1, meet, &m);
        _exit(m.there == 4 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void memory_is_copied_set_and_compared(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * (size_t)PIECE + 5};
    size_t most = 3 * (size_t)PIECE + 5 + BEYOND;
    char *a = fb_alloc(most), *b = fb_alloc(most);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t n = sizes[s];
        memset(a, 1, most);
        memset(b, 2, most);
        for (size_t i = 0; i < n; i += 4093) a[i] = (char)(i % 251);
        fb_parallel_copy(b, a, n);
        assert_memory_equal(a, b, n);
        for (size_t i = n; i < n + BEYOND; i++) assert_int_equal(b[i], 2); /* and not a byte more */
        assert_true(fb_parallel_equal(a, b, n));
        const size_t at[] = {0, n / 2, PIECE - 1, PIECE, n - 1}; /* one byte, wherever it is */
        for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
            if (at[k] >= n) continue;
            b[at[k]] ^= 1;
            assert_false(fb_parallel_equal(a, b, n));
            b[at[k]] ^= 1;
        }
        b[n] = (char)(a[n] + 1);
        assert_true(fb_parallel_equal(a, b, n)); /* what lies behind is not compared */
        b[n] = 2;
        fb_parallel_set(b, 7, n);
        for (size_t i = 0; i < n; i += i < 16 || n - i < 16 ? 1 : 977) assert_int_equal(b[i], 7);
        for (size_t i = n; i < n + BEYOND; i++) assert_int_equal(b[i], 2);
    }
    fb_free(a);
    fb_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_index_comes_once),   cmocka_unit_test(as_many_threads_as_asked_for),
        cmocka_unit_test(loops_of_several_threads), cmocka_unit_test(a_child_has_its_own_threads),
        cmocka_unit_test(nothing_is_not_called),    cmocka_unit_test(one_part_is_the_callers),
        cmocka_unit_test(loops_stand_in_loops),     cmocka_unit_test(memory_is_copied_set_and_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
