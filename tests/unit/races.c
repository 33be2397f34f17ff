/* See races.h. The state of each place is a short list of marks: those accesses that a later one may still race with
 * (Flanagan and Freund 2009, with all reads and with fences). */
#include "unit/races.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint32_t cluster, epoch, turn; /* turn: shuffles that the thread had taken part in */
    const void *site;
    uint16_t who; /* part of a clock: a thread, its copies or its wgmmas */
    uint8_t what;
} mark;

/* Four bytes, or one of them where they were taken apart. */
typedef struct cell {
    uint32_t launch;           /* marks of another one are void */
    uint16_t n, room, n_other; /* n_other: of writes and atomics, which stand in front of the reads */
    bool apart;                /* in `bytes` */
    mark *at;
    struct cell *bytes;
} cell;

typedef struct {
    const char *at;
    size_t bytes;
    cell *cells;
} region;

/* What is known of other blocks: how far the clocks of each of them. Never changed once it is somewhere else, too. */
typedef struct known {
    const struct known *next;
    uint32_t cluster;
    uint32_t *clock;
} known;

typedef struct {
    const void *at;
    const known *released;
} place; /* of atomics */

typedef struct {
    const void *at;
    unsigned block;
    uint32_t *arrived, *ended;
} count;

typedef struct {
    const char *kernel, *name;
    const void *site[2];
    uint8_t what[2];
    unsigned block[2], thread[2], by[2];
    size_t offset;
} race;

typedef struct {
    const char *name, *at;
    size_t bytes;
} named;

enum { MAX_RACES = 64, MAX_NAMED = 4096 };

static struct {
    fb_arena *arena; /* of the launch */
    const char *kernel;
    unsigned threads, blocks, all; /* all: of them that are there at once */
    unsigned parts;                /* of a clock that are in use: threads, then copies, then wgmmas */
    uint32_t launch, cluster, first;
    uint32_t *turn;
    uint32_t *clock, *open; /* clock[thread * 3 all + part]; open: the epoch of the batch that is not marked yet */
    const known **others, **fenced, **acquired;
    bool any_fence;
    unsigned now, reached;
    region *dynamic, statics, memory, device; /* dynamic, of each block that is there, then the statics */
    unsigned n_dynamic;
    place *places;
    unsigned n_places, room_places;
    count *counts;
    unsigned n_counts, room_counts;
    race races[MAX_RACES];
    unsigned n_races;
    named named[MAX_NAMED];
    unsigned n_named;
} r = {.now = RACES_NOBODY, .reached = RACES_NOBODY};

/* Whose shared memory is meant. */
static unsigned block_of(void)
{
    return r.reached == RACES_NOBODY ? r.now / r.threads : r.reached;
}

static uint32_t *clock_of(unsigned thread)
{
    return r.clock + (size_t)thread * 3 * r.all;
}

static void join(uint32_t *to, const uint32_t *from)
{
    for (unsigned i = 0; i < r.parts; i++) to[i] = from[i] > to[i] ? from[i] : to[i];
}

static uint32_t *copy_of(const uint32_t *clock)
{
    return fb_arena_copy(r.arena, clock, (size_t)3 * r.all * sizeof *clock);
}

static const known *find_known(const known *k, uint32_t cluster)
{
    while (k && k->cluster != cluster) k = k->next;
    return k;
}

static bool covers(const known *all, const known *some)
{
    for (; some; some = some->next) {
        const known *k = find_known(all, some->cluster);
        if (!k) return false;
        for (unsigned i = 0; i < r.parts; i++)
            if (k->clock[i] < some->clock[i]) return false;
    }
    return true;
}

static const known *both_known(const known *a, const known *b)
{
    if (a == b || covers(a, b)) return a;
    if (covers(b, a)) return b;
    const known *all = NULL;
    for (int turn = 0; turn < 2; turn++)
        for (const known *k = turn ? b : a; k; k = k->next) {
            const known *other = find_known(turn ? a : b, k->cluster);
            if (turn && other) continue;
            known *one = fb_arena_alloc(r.arena, sizeof *one);
            *one = (known){all, k->cluster, copy_of(k->clock)};
            if (other) join(one->clock, other->clock);
            all = one;
        }
    return all;
}

/* ---- places ---- */

static void free_region(region *m)
{
    fb_free(m->cells);
    *m = (region){0};
}

static void set_region(region *m, const void *at, size_t bytes)
{
    if (m->at == at && m->bytes == bytes) return;
    free_region(m);
    *m = (region){at, bytes, fb_calloc(bytes / 4 + 2, sizeof *m->cells)};
}

static bool inside(const region *m, const char *at)
{
    return at >= m->at && at < m->at + m->bytes;
}

static void add_race(const mark *before, unsigned who, int what, const void *site, const char *at, bool shared)
{
    for (unsigned i = 0; i < r.n_races; i++)
        if (r.races[i].site[0] == before->site && r.races[i].site[1] == site && !strcmp(r.races[i].kernel, r.kernel))
            return;
    if (r.n_races == MAX_RACES) return;
    race *x = &r.races[r.n_races++];
    *x = (race){.kernel = r.kernel,
                .name = "memory",
                .site = {before->site, site},
                .what = {before->what, (uint8_t)what},
                .thread = {before->who % r.all % r.threads, who % r.all % r.threads},
                .block = {before->cluster - r.first + before->who % r.all / r.threads,
                          r.cluster - r.first + who % r.all / r.threads},
                .by = {before->who / r.all, who / r.all}};
    if (shared) {
        bool fixed = inside(&r.statics, at);
        x->name = fixed ? "shared variables" : "dynamic shared memory";
        x->offset = (size_t)(at - (fixed ? r.statics.at : r.dynamic[0].at));
        return;
    }
    if (inside(&r.device, at)) {
        x->name = "device variables";
        x->offset = (size_t)(at - r.device.at);
        return;
    }
    for (unsigned i = 0; i < r.n_named; i++)
        if (at >= r.named[i].at && at < r.named[i].at + r.named[i].bytes) {
            x->name = r.named[i].name;
            x->offset = (size_t)(at - r.named[i].at);
            return;
        }
    x->offset = (size_t)(at - r.memory.at);
}

static bool is_ordered(const mark *m, int what)
{
    if (m->cluster == r.cluster) {
        if (m->epoch <= clock_of(r.now)[m->who]) return true;
        return m->what == RACES_READ && what == RACES_WRITE && m->who < r.all && /* itself, a lane of the same warp */
               m->who / r.threads == r.now / r.threads && m->who % r.threads / 32 == r.now % r.threads / 32 &&
               m->turn < r.turn[r.now];
    }
    const known *k = find_known(r.others[r.now], m->cluster);
    return k && m->epoch <= k->clock[m->who];
}

/* Whether an earlier mark says nothing more beside this access; it may be a race with it. */
static bool is_spent(const mark *m, const char *at, bool shared, int what, unsigned who, const void *site)
{
    if (m->cluster != r.cluster && shared) return true;
    if (is_ordered(m, what)) return what == RACES_WRITE || m->what == what; /* what races with it races with this one */
    if (what == RACES_ATOMIC && m->what == what) return true; /* atomics of one place are in order by themselves */
    if (what == RACES_READ && m->what == what) return false;
    add_race(m, who, what, site, at, shared);
    return what == RACES_WRITE;
}

/* Leaves out what is spent. Two blocks that read a place are enough for a third that writes. */
static void look_through(cell *c, const char *at, bool shared, int what, unsigned who, const void *site)
{
    unsigned n = 0, others = 0, strangers = 0;
    uint32_t stranger = 0;
    for (unsigned i = 0; i < c->n; i++) {
        const mark m = c->at[i];
        if (is_spent(&m, at, shared, what, who, site)) continue;
        if (what == RACES_READ && m.what == what && m.cluster != r.cluster) {
            if (strangers == 2 || (strangers && m.cluster == stranger)) continue;
            strangers++;
            stranger = m.cluster;
        }
        others += m.what != RACES_READ;
        c->at[n++] = m;
    }
    c->n = (uint16_t)n;
    c->n_other = (uint16_t)others;
}

/* A read looks at the writes and atomics alone, and through all once the list is full: hundreds of threads read one
 * place, and each would look at all others. */
static void touch(cell *c, const char *at, bool shared, int what, unsigned who, uint32_t epoch, const void *site)
{
    bool full = c->n == c->room;
    if (what != RACES_READ || full)
        look_through(c, at, shared, what, who, site);
    else
        for (unsigned i = 0; i < c->n_other; i++) is_spent(&c->at[i], at, shared, what, who, site);
    if (full && 2 * c->n >= c->room) {
        unsigned room = c->room ? 2 * c->room : 2;
        mark *more = fb_arena_alloc(r.arena, room * sizeof *more);
        if (c->n) memcpy(more, c->at, c->n * sizeof *more);
        c->at = more;
        c->room = (uint16_t)room;
    }
    unsigned to = c->n++;
    if (what != RACES_READ) {
        memmove(&c->at[c->n_other + 1], &c->at[c->n_other], (to - c->n_other) * sizeof *c->at);
        to = c->n_other++;
    }
    c->at[to] = (mark){r.cluster, epoch, r.turn[r.now], site, (uint16_t)who, (uint8_t)what};
}

static void access_memory(const void *first, size_t bytes, int what, int by, const void *site)
{
    if (r.now == RACES_NOBODY) return;
    const char *at = first;
    region *m = inside(&r.memory, at) ? &r.memory : inside(&r.device, at) ? &r.device : NULL;
    if (!m && inside(&r.dynamic[0], at)) m = &r.dynamic[block_of()];
    if (!m && inside(&r.statics, at)) m = &r.dynamic[r.blocks + block_of()];
    if (!m) return;
    bool shared = m != &r.memory && m != &r.device;
    unsigned who = (unsigned)by * r.all + r.now;
    if (r.parts < (unsigned)(by + 1) * r.all) r.parts = (unsigned)(by + 1) * r.all;
    uint32_t epoch = by == RACES_ITSELF ? clock_of(r.now)[who] : r.open[who];
    for (size_t i = (size_t)(at - m->at), end = i + bytes; i < end && i < m->bytes;) {
        cell *c = &m->cells[i / 4];
        bool whole = i % 4 == 0 && end - i >= 4;
        if (c->launch != r.launch) *c = (cell){.launch = r.launch};
        if (!whole && !c->apart) {
            c->apart = true;
            c->bytes = FB_NEW_ARRAY(r.arena, cell, 4);
            for (int b = 0; b < 4; b++) {
                c->bytes[b].n = c->bytes[b].room = c->n;
                c->bytes[b].n_other = c->n_other;
                c->bytes[b].at = c->n ? fb_arena_copy(r.arena, c->at, c->n * sizeof *c->at) : NULL;
            }
        }
        touch(c->apart ? &c->bytes[i % 4] : c, m->at + i, shared, what, who, epoch, site);
        i += c->apart ? 1 : 4;
    }
}

/* ---- order ---- */

static void begin_blocks(void)
{
    r.cluster += r.blocks;
    for (unsigned i = 0; i < r.all; i++) memset(clock_of(i), 0, r.parts * sizeof *r.clock);
    r.parts = r.all;
    for (unsigned i = 0; i < 3 * r.all; i++) r.open[i] = 1;
    for (unsigned i = 0; i < r.all; i++) {
        clock_of(i)[i] = 1;
        r.others[i] = r.fenced[i] = r.acquired[i] = NULL;
    }
    r.any_fence = false;
    r.n_counts = 0;
}

static void launch(const char *kernel, unsigned threads, unsigned blocks, const void *dynamic, size_t n_dynamic,
                   const void *statics, size_t n_statics, const void *device, size_t n_device)
{
    fb_arena_free(r.arena);
    r.arena = fb_arena_new();
    r.kernel = kernel;
    r.threads = threads;
    r.blocks = blocks;
    if (r.all != threads * blocks) {
        r.all = threads * blocks;
        fb_free(r.clock);
        r.clock = fb_calloc((size_t)r.all * 3 * r.all, sizeof *r.clock);
        r.parts = r.all;
    }
    r.launch++;
    r.first = r.cluster + blocks;
    r.open = FB_NEW_ARRAY(r.arena, uint32_t, 3 * r.all);
    r.turn = FB_NEW_ARRAY(r.arena, uint32_t, r.all);
    r.others = FB_NEW_ARRAY(r.arena, const known *, r.all);
    r.fenced = FB_NEW_ARRAY(r.arena, const known *, r.all);
    r.acquired = FB_NEW_ARRAY(r.arena, const known *, r.all);
    r.n_places = 0;
    if (r.n_dynamic != 2 * blocks) {
        for (unsigned b = 0; b < r.n_dynamic; b++) free_region(&r.dynamic[b]);
        fb_free(r.dynamic);
        r.dynamic = fb_calloc(2 * blocks, sizeof *r.dynamic);
        r.n_dynamic = 2 * blocks;
    }
    for (unsigned b = 0; b < blocks; b++) {
        set_region(&r.dynamic[b], dynamic, n_dynamic);
        set_region(&r.dynamic[blocks + b], statics, n_statics);
    }
    r.statics = (region){.at = statics, .bytes = n_statics};
    set_region(&r.device, device, n_device);
    if (r.memory.at && !r.memory.cells) r.memory.cells = fb_calloc(r.memory.bytes / 4 + 2, sizeof *r.memory.cells);
}

static void set_thread(unsigned now)
{
    r.now = now;
}

static void meet(const unsigned *threads, unsigned n)
{
    uint32_t *all = clock_of(threads[0]);
    for (unsigned i = 1; i < n; i++) join(all, clock_of(threads[i]));
    for (unsigned i = 1; i < n; i++) memcpy(clock_of(threads[i]), all, r.parts * sizeof *all);
    for (unsigned i = 0; i < n; i++) clock_of(threads[i])[threads[i]]++;
    if (!r.any_fence) return;
    const known **lists[] = {r.others, r.fenced, r.acquired};
    for (int l = 0; l < 3; l++) {
        const known *both = NULL;
        for (unsigned i = 0; i < n; i++) both = both_known(both, lists[l][threads[i]]);
        for (unsigned i = 0; i < n; i++) lists[l][threads[i]] = both;
    }
}

static void together(const unsigned *lanes, unsigned n)
{
    for (unsigned i = 0; i < n; i++) r.turn[lanes[i]]++;
}

static void fence(void)
{
    uint32_t *mine = clock_of(r.now);
    r.any_fence = true;
    for (const known *k = r.acquired[r.now]; k; k = k->next) {
        if (k->cluster == r.cluster) {
            join(mine, k->clock);
        } else {
            known *one = fb_arena_alloc(r.arena, sizeof *one);
            *one = (known){NULL, k->cluster, k->clock};
            r.others[r.now] = both_known(r.others[r.now], one);
        }
    }
    r.acquired[r.now] = NULL;
    known *now = fb_arena_alloc(r.arena, sizeof *now);
    *now = (known){r.others[r.now], r.cluster, copy_of(mine)};
    r.fenced[r.now] = now;
    mine[r.now]++;
}

static void atomic(const void *at, size_t bytes, const void *site)
{
    access_memory(at, bytes, RACES_ATOMIC, RACES_ITSELF, site);
    unsigned i = 0;
    while (i < r.n_places && r.places[i].at != at) i++;
    if (i == r.n_places) {
        if (i == r.room_places) {
            r.room_places = 2 * i + 16;
            r.places = fb_realloc(r.places, r.room_places * sizeof *r.places);
        }
        r.places[r.n_places++] = (place){at, NULL};
    }
    r.any_fence = true;
    r.acquired[r.now] = both_known(r.acquired[r.now], r.places[i].released);
    r.places[i].released = both_known(r.places[i].released, r.fenced[r.now]);
    clock_of(r.now)[r.now]++;
}

static void mark_batch(int by)
{
    r.open[(unsigned)by * r.all + r.now]++;
}

static void wait_batches(int by, unsigned left)
{
    unsigned who = (unsigned)by * r.all + r.now;
    if (r.parts < (unsigned)(by + 1) * r.all) r.parts = (unsigned)(by + 1) * r.all;
    if (r.open[who] > left + 1) {
        uint32_t done = r.open[who] - 1 - left, *mine = &clock_of(r.now)[who];
        *mine = done > *mine ? done : *mine;
    }
}

static count *count_at(const void *at)
{
    unsigned i = 0, block = block_of();
    while (i < r.n_counts && (r.counts[i].at != at || r.counts[i].block != block)) i++;
    if (i == r.n_counts) {
        if (i == r.room_counts) {
            r.room_counts = 2 * i + 16;
            r.counts = fb_realloc(r.counts, r.room_counts * sizeof *r.counts);
        }
        r.counts[r.n_counts++] =
            (count){at, block, FB_NEW_ARRAY(r.arena, uint32_t, 3 * r.all), FB_NEW_ARRAY(r.arena, uint32_t, 3 * r.all)};
    }
    return &r.counts[i];
}

static void arrive(const void *at, int by, bool last)
{
    count *c = count_at(at);
    if (by == RACES_ITSELF) {
        join(c->arrived, clock_of(r.now));
        clock_of(r.now)[r.now]++;
    } else {
        unsigned who = (unsigned)by * r.all + r.now;
        c->arrived[who] = r.open[who]++;
    }
    if (last) memcpy(c->ended, c->arrived, (size_t)3 * r.all * sizeof *c->ended);
}

static void await_count(const void *at)
{
    join(clock_of(r.now), count_at(at)->ended);
}

static void reach(unsigned block)
{
    r.reached = block;
}

const races_ops races_emulated = {
    .launch = launch,
    .begin = begin_blocks,
    .thread = set_thread,
    .access = access_memory,
    .meet = meet,
    .together = together,
    .fence = fence,
    .atomic = atomic,
    .mark = mark_batch,
    .wait = wait_batches,
    .arrive = arrive,
    .await = await_count,
    .reach = reach,
};

/* ---- what is watched, and what was found ---- */

void races_forget(void)
{
    free_region(&r.memory);
    r.n_named = 0;
}

void races_name(const char *name, const void *at, size_t bytes)
{
    if (r.n_named == MAX_NAMED || !bytes) return;
    r.named[r.n_named++] = (named){name, at, bytes};
    const char *low = at, *high = low + bytes;
    if (r.memory.at) {
        low = r.memory.at < low ? r.memory.at : low;
        high = r.memory.at + r.memory.bytes > high ? r.memory.at + r.memory.bytes : high;
    }
    low -= (uintptr_t)low % 4;
    region now = {.at = low, .bytes = (size_t)(high - low)};
    free_region(&r.memory);
    r.memory = now;
}

/* "fb_gemm<float>::spread<…>(…)" becomes "spread". */
static void shorten(char *name)
{
    char *to = name, *from = name;
    for (int depth = 0; *from && *from != '\n'; from++) {
        depth += *from == '<' || *from == '(';
        if (!depth && (*from == ':' || *from == ' ')) to = name;
        if (!depth && *from != ':' && *from != ' ') *to++ = *from;
        depth -= *from == '>' || *from == ')';
    }
    *to = 0;
}

/* Line `n` of a file that may be gone. A library that was compiled in another folder has its text beside it now. */
static void add_line(fb_str *out, const char *library, const char *path, int n)
{
    const char *folder = strrchr(library, '/'), *name = strrchr(path, '/');
    char *line = NULL;
    size_t room = 0;
    fb_str beside = {0};
    if (folder && name) fb_str_addf(&beside, "%.*s%s", (int)(folder - library), library, name);
    FILE *f = fopen(fb_str_get(&beside), "r");
    if (!f) f = fopen(path, "r");
    while (f && n > 0 && getline(&line, &room, f) > 0) n--;
    if (f && n == 0) {
        line[strcspn(line, "\n")] = 0;
        fb_str_addf(out, " `%s`", line + strspn(line, " "));
    }
    if (f) fclose(f);
    free(line);
    fb_str_free(&beside);
}

/* "spread (line 12) `text of the line`, in …": the innermost two functions that are not the emulator's. */
static void add_place(fb_str *out, const void *site)
{
    Dl_info info;
    char *name = NULL, *at = NULL;
    size_t name_room = 0, at_room = 0;
    int found = 0;
    if (!dladdr(site, &info)) return;
    size_t offset = (size_t)((const char *)site - (const char *)info.dli_fbase);
    fb_str command = {0};
    fb_str_addf(&command, "addr2line -Cfie %s 0x%zx 2>/dev/null", info.dli_fname, offset - 1);
    FILE *f = popen(fb_str_get(&command), "r");
    while (f && getline(&name, &name_room, f) > 0 && getline(&at, &at_room, f) > 0) {
        char *colon = strrchr(at, ':');
        if (!colon || strstr(at, "cuda_shim") || found == 2) continue;
        *colon = 0;
        shorten(name);
        fb_str_addf(out, "%s%s (line %d)", found++ ? ", in " : "", name, atoi(colon + 1));
        if (found == 1) add_line(out, info.dli_fname, at, atoi(colon + 1));
    }
    if (f) pclose(f);
    if (!found) fb_str_addf(out, "%s+0x%zx", info.dli_fname, offset);
    fb_str_free(&command);
    free(name);
    free(at);
}

char *races_found(void)
{
    static const char *const what[] = {"reads", "writes", "adds atomically to"};
    static const char *const by[] = {"", "'s copy in the background", "'s wgmma"};
    if (!r.n_races) return NULL;
    fb_str out = {0};
    for (unsigned i = 0; i < r.n_races; i++) {
        const race *x = &r.races[i];
        fb_str_addf(&out, "%s: a race at %s + 0x%zx:", x->kernel, x->name, x->offset);
        for (int k = 0; k < 2; k++) {
            fb_str_addf(&out, "%s block %u thread %u%s %s it in ", k ? ";" : "", x->block[k], x->thread[k],
                        by[x->by[k]], what[x->what[k]]);
            add_place(&out, x->site[k]);
        }
        fb_str_add(&out, "\n");
    }
    r.n_races = 0;
    return fb_str_take(&out);
}
