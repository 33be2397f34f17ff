/* Memory by the chunk: an allocation moves a pointer, freeing gives all chunks back at once. What was deferred is
 * dropped with the arena. Needs base/mem.h alone. */
#include "base/arena.h"

#include "base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct chunk {
    struct chunk *next;
    size_t size, used;
} chunk;

enum { CHUNK_HEADER = (sizeof(chunk) + 15) & ~15, FIRST = 4096, LARGEST = 1 << 20 };

typedef struct deferred {
    struct deferred *next;
    void (*drop)(void *what);
    void *what;
} deferred;

struct fb_arena {
    chunk *head;
    deferred *deferred;
    size_t next_size, used;
};

fb_arena *fb_arena_new(void)
{
    fb_arena *arena = fb_calloc(1, sizeof *arena);
    arena->next_size = FIRST;
    return arena;
}

void fb_arena_free(fb_arena *arena)
{
    if (!arena) return;
    for (deferred *d = arena->deferred; d; d = d->next) d->drop(d->what);
    for (chunk *c = arena->head, *next; c; c = next) {
        next = c->next;
        fb_free(c);
    }
    fb_free(arena);
}

void *fb_arena_alloc(fb_arena *arena, size_t bytes)
{
    size_t need = (bytes + 15) & ~(size_t)15;
    if (!need) need = 16;
    chunk *c = arena->head;
    if (!c || need > c->size - c->used) {
        size_t size = arena->next_size;
        if (arena->next_size < LARGEST) arena->next_size *= 2;
        if (size < need) size = need;
        c = fb_alloc(CHUNK_HEADER + size);
        *c = (chunk){.size = size};
        /* A block of its own goes behind the head, so that the room left in the head is not lost. */
        if (arena->head && need == size) {
            c->next = arena->head->next;
            arena->head->next = c;
        } else {
            c->next = arena->head;
            arena->head = c;
        }
    }
    void *at = (char *)c + CHUNK_HEADER + c->used;
    c->used += need;
    arena->used += need;
    return memset(at, 0, need);
}

void *fb_arena_array(fb_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX / 2; /* ends as out of memory */
    return fb_arena_alloc(arena, bytes);
}

void *fb_arena_copy(fb_arena *arena, const void *from, size_t bytes)
{
    void *to = fb_arena_alloc(arena, bytes);
    if (bytes) memcpy(to, from, bytes);
    return to;
}

char *fb_arena_strdup(fb_arena *arena, const char *text)
{
    return text ? fb_arena_copy(arena, text, strlen(text) + 1) : NULL;
}

char *fb_arena_printf(fb_arena *arena, const char *format, ...)
{
    va_list ap, again;
    va_start(ap, format);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    char *text = fb_arena_alloc(arena, (size_t)(n < 0 ? 0 : n) + 1);
    vsnprintf(text, (size_t)(n < 0 ? 0 : n) + 1, format, again);
    va_end(again);
    return text;
}

void fb_arena_defer(fb_arena *arena, void (*drop)(void *what), void *what)
{
    deferred *d = FB_NEW(arena, deferred);
    *d = (deferred){arena->deferred, drop, what};
    arena->deferred = d;
}

size_t fb_arena_used(const fb_arena *arena)
{
    return arena->used;
}
