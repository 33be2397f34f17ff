/* Where memory comes from.
 *
 * Everything in the engine allocates through these four functions. By default they are malloc and friends and abort
 * when memory runs out. The script process, which may not map memory once its seccomp filter is in place, calls
 * fb_mem_use_pool once, before it allocates anything: from then on all of it (Lua, graph, JSON alike) comes from one
 * mapped region of a fixed size, and running out calls the pool's `exhausted` function, which must not return.
 */
#ifndef FB_BASE_MEM_H
#define FB_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

void *fb_alloc(size_t bytes);               /* never NULL; not zeroed; 16-byte aligned */
void *fb_calloc(size_t count, size_t size); /* never NULL; zeroed; overflow is "out of memory" */
void *fb_realloc(void *block, size_t bytes);
void fb_free(void *block); /* NULL is fine */
char *fb_strdup(const char *text);

/* As fb_alloc and fb_realloc, but NULL instead of an end when the pool is exhausted: for Lua, which has a plan. */
void *fb_try_alloc(size_t bytes);
void *fb_try_realloc(void *block, size_t bytes);

/* As fb_try_alloc, for cells that are filled once and are many: where the system has large pages, the block comes in
 * them, for first touching a gigabyte of small ones takes longer than filling it. */
void *fb_try_alloc_large(size_t bytes);

/* Maps `bytes` and serves all later allocations from them. False when the system refuses. */
bool fb_mem_use_pool(size_t bytes, void (*exhausted)(void));

#endif
