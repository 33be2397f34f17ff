/* Arenas: everything that belongs to one graph, plan or program is allocated from one and freed with it. */
#ifndef FB_BASE_ARENA_H
#define FB_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

typedef struct fb_arena fb_arena;

fb_arena *fb_arena_new(void);
void fb_arena_free(fb_arena *arena); /* frees all that came from it; NULL is fine */

void *fb_arena_alloc(fb_arena *arena, size_t bytes);              /* zeroed, 16-byte aligned, never NULL */
void *fb_arena_array(fb_arena *arena, size_t count, size_t size); /* as calloc */
void *fb_arena_copy(fb_arena *arena, const void *from, size_t bytes);
char *fb_arena_strdup(fb_arena *arena, const char *text); /* NULL stays NULL */
char *fb_arena_printf(fb_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Calls drop(what) when the arena is freed, last deferred first: for heap objects that the arena's owner stands for. */
void fb_arena_defer(fb_arena *arena, void (*drop)(void *what), void *what);

size_t fb_arena_used(const fb_arena *arena); /* bytes handed out */

/* A typed array of `n` zeroed elements. */
#define FB_NEW_ARRAY(arena, type, n) ((type *)fb_arena_array((arena), (size_t)(n), sizeof(type)))
#define FB_NEW(arena, type)          FB_NEW_ARRAY(arena, type, 1)

#endif
