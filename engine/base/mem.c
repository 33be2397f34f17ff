/* The pool: size classes (four to a doubling), a free list each, and a bump pointer. Blocks never change class and
 * are never joined: a script process lives for one turn's garbage, and a bound that is simple is worth more there
 * than the last byte. A block carries its class in a 16-byte header, so that free needs no size. */
#include "base/mem.h"

#include "base/error.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HEADER = 16, CLASSES = 160 };

static struct {
    char *base;
    size_t size, used;
    void *free_list[CLASSES];
    void (*exhausted)(void);
} pool;

/* Class c holds blocks of (4 + c % 4) << (c / 4 + 2) bytes: 16, 20, 24, 28, 32, 40 … rounded up to 16 when carved. */
static size_t class_size(int c)
{
    return (((size_t)(4 + c % 4) << (c / 4 + 2)) + 15) & ~(size_t)15;
}

static int class_of(size_t bytes)
{
    if (bytes < 16) bytes = 16;
    int log = 63 - __builtin_clzll(bytes);
    int c = (log - 4) * 4;
    while (c < CLASSES && class_size(c) < bytes) c++;
    return c;
}

bool fb_mem_use_pool(size_t bytes, void (*exhausted)(void))
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return false;
    pool.base = base;
    pool.size = bytes;
    pool.exhausted = exhausted;
    return true;
}

static bool in_pool(const void *block)
{
    return pool.base && (uintptr_t)block - (uintptr_t)pool.base < pool.size;
}

static void *pool_alloc(size_t bytes)
{
    if (bytes > pool.size) return NULL;
    int c = class_of(bytes);
    if (c >= CLASSES) return NULL;
    void *block = pool.free_list[c];
    if (block) {
        memcpy(&pool.free_list[c], block, sizeof(void *));
        return block;
    }
    size_t need = HEADER + class_size(c);
    if (need > pool.size - pool.used) return NULL;
    char *at = pool.base + pool.used;
    pool.used += need;
    memcpy(at, &c, sizeof c);
    return at + HEADER;
}

static int pool_class(const void *block)
{
    int c;
    memcpy(&c, (const char *)block - HEADER, sizeof c);
    return c;
}

void *fb_try_alloc(size_t bytes)
{
    return pool.base ? pool_alloc(bytes) : malloc(bytes ? bytes : 1);
}

void *fb_try_realloc(void *block, size_t bytes)
{
    if (!block) return fb_try_alloc(bytes);
    if (!in_pool(block)) return realloc(block, bytes ? bytes : 1);
    size_t have = class_size(pool_class(block));
    if (bytes <= have && bytes >= have / 4) return block;
    void *to = pool_alloc(bytes);
    if (!to) return bytes <= have ? block : NULL;
    memcpy(to, block, bytes < have ? bytes : have);
    fb_free(block);
    return to;
}

void *fb_try_alloc_large(size_t bytes)
{
    const uintptr_t page = 4096;
    const size_t worth = (size_t)4 << 20;
    char *block = fb_try_alloc(bytes);
    if (!block || bytes < worth || in_pool(block)) return block;
    size_t before = (size_t)(-(uintptr_t)block & (page - 1));
    /* A wish: refused, all is as it was. */
    madvise(block + before, (bytes - before) & ~(size_t)(page - 1), MADV_HUGEPAGE);
    return block;
}

static void *or_end(void *block)
{
    if (block) return block;
    if (pool.exhausted) pool.exhausted();
    fb_bug(__FILE__, __LINE__, "out of memory");
}

void *fb_alloc(size_t bytes)
{
    return or_end(fb_try_alloc(bytes));
}

void *fb_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) or_end(NULL);
    return memset(fb_alloc(bytes), 0, bytes);
}

void *fb_realloc(void *block, size_t bytes)
{
    return or_end(fb_try_realloc(block, bytes));
}

void fb_free(void *block)
{
    if (!in_pool(block)) {
        free(block);
        return;
    }
    int c = pool_class(block);
    memcpy(block, &pool.free_list[c], sizeof(void *));
    pool.free_list[c] = block;
}

char *fb_strdup(const char *text)
{
    size_t n = strlen(text) + 1;
    return memcpy(fb_alloc(n), text, n);
}
