/* Loops and large pieces of memory on all cores. */
#ifndef FB_BASE_PARALLEL_H
#define FB_BASE_PARALLEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The cores that the process may run on: more threads would wait for each other. */
int fb_cores(void);
/* How many threads a loop may have: the cores there are, 64 at most. */
int fb_parallel_threads(void);
/* Calls fn for parts of 0 … n - 1, each `grain` long but the last, in any order and by several threads at a time; by
 * the caller alone where there is one part, or where another loop of the process is under way. */
void fb_parallel_for(int64_t n, int64_t grain, void (*fn)(void *ctx, int64_t first, int64_t last), void *ctx);
/* The same with so many threads at most, which may be more than there are cores. */
void fb_parallel_for_some(int threads, int64_t n, int64_t grain, void (*fn)(void *ctx, int64_t first, int64_t last),
                          void *ctx);

/* memcpy, memset and whether memcmp is 0. */
void fb_parallel_copy(void *to, const void *from, size_t n);
void fb_parallel_set(void *to, int byte, size_t n);
bool fb_parallel_equal(const void *a, const void *b, size_t n);

#endif
