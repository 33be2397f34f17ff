/* Mappings of a few sizes, kept until the device is closed. Needs what the header says; leaves nothing behind. */
#include "device/host/places.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/vec.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum {
    SMALLEST = 64 << 10,
    LARGEST = 16 << 20,
    MOST = 12, /* of one size … */
    FEWEST = 4,
    MOST_BYTES = 64 << 20, /* … and no more than these together */
};

typedef struct {
    char *at;
    size_t bytes;
    bool taken;
} place;

struct fb_host_places {
    FB_VEC(place) all;
    uint64_t drawn;
};

fb_host_places *fb_host_places_new(void)
{
    fb_host_places *p = fb_calloc(1, sizeof *p);
    p->drawn = (uint64_t)fb_now_ns();
    return p;
}

void fb_host_places_free(fb_host_places *p)
{
    if (!p) return;
    for (int i = 0; i < p->all.n; i++) munmap(p->all.at[i].at, p->all.at[i].bytes);
    FB_VEC_FREE(&p->all);
    fb_free(p);
}

static size_t size_for(size_t bytes)
{
    size_t size = SMALLEST;
    while (size < bytes) size *= 4;
    return size;
}

bool fb_host_places_take_turns(size_t bytes)
{
    return bytes <= LARGEST;
}

static char *map(size_t bytes)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return NULL;
    madvise(at, bytes, MADV_HUGEPAGE);
    madvise(at, bytes, MADV_DONTFORK); /* so that starting a compiler does not copy page tables */
    return at;
}

/* The free one of that size whose turn it is by chance; -1: none is free. *n: how many there are, free or not. */
static int draw(fb_host_places *p, size_t size, int *n)
{
    int found = -1, seen = 0;
    *n = 0;
    for (int i = 0; i < p->all.n; i++) {
        if (p->all.at[i].bytes != size) continue;
        ++*n;
        if (!p->all.at[i].taken && fb_splitmix64(++p->drawn) % (uint64_t)++seen == 0) found = i;
    }
    return found;
}

/* As many as there may be, before any is met again. */
static int one_of(fb_host_places *p, size_t size)
{
    int n, most = (int)(MOST_BYTES / size), found = draw(p, size, &n);
    most = most > MOST ? MOST : most < FEWEST ? FEWEST : most;
    char *at = found < 0 || n < most ? map(size) : NULL;
    if (!at) return found;
    FB_VEC_PUSH(&p->all, ((place){at, size, false}));
    return p->all.n - 1;
}

/* At the end of its mapping; what lies before it belongs to the guard. */
char *fb_host_place_take(fb_host_places *p, size_t bytes)
{
    char *at = NULL;
    size_t before = 0;
    if (fb_host_places_take_turns(bytes)) {
        int i = one_of(p, size_for(bytes));
        if (i < 0) return NULL;
        p->all.at[i].taken = true;
        before = p->all.at[i].bytes - bytes;
        at = p->all.at[i].at;
        memset(at + before, 0, bytes);
    } else if (!(at = map(bytes))) {
        return NULL;
    }
    mprotect(at, before + FB_HOST_GUARD, PROT_NONE);
    mprotect(at + before + bytes - FB_HOST_GUARD, FB_HOST_GUARD, PROT_NONE);
    return at + before;
}

void fb_host_place_give(fb_host_places *p, char *at, size_t bytes)
{
    if (!at) return;
    if (!fb_host_places_take_turns(bytes)) {
        munmap(at, bytes);
        return;
    }
    for (int i = 0; i < p->all.n; i++) {
        place *one = &p->all.at[i];
        if (one->at + one->bytes != at + bytes) continue;
        mprotect(one->at, one->bytes, PROT_READ | PROT_WRITE); /* fences too */
        one->taken = false;
    }
}
