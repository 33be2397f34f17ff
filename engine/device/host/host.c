/* The host device: generated C, compiled by the system's compiler, loaded into this process and called. */
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/mutate.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "base/str.h"
#include "device/host/parts.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/embedded.h"

enum {
    ALIGNMENT = 256,
    /* Between buffers, so that equal elements of equally long buffers do not compete for one cache set. */
    STAGGER = 768,
    /* a masked load whose mask is a constant is made a whole vector's by gcc 12, and so reads beside its buffer */
    VECTOR = 64,
    GUARD = FB_HOST_GUARD, /* at both ends: a kernel that runs wild there is stopped, not believed */
};

typedef struct {
    char *at;
    size_t bytes;
} gap;

struct fb_loaded {
    fb_host *host;
    const fb_program *program;
    void **handles;         /* of dlopen, at the first kernel of each unit; else NULL */
    fb_host_entry *entries; /* NULL for library calls */
    fb_host_gemm **gemms;
    size_t *at, *second_at;      /* of each buffer: where it goes, from the region's start */
    char *region;                /* in a mapping: guard, buffers, guard */
    size_t region_bytes, before; /* before: bytes of the mapping that nothing lies in */
    gap *gaps;                   /* between buffers: nobody's memory */
    int n_gaps;
    char **initial;               /* of each buffer: its storage */
    int *lies;                    /* … the buffer whose storage it has now; temporaries share addresses */
    char **now;                   /* the same after the swaps of the last run */
    char **saved;                 /* assigned parameters: what they are restored to */
    void ***args;                 /* of each launch */
    fb_host_products **products;  /* of each launch: a chain's; NULL */
    int *end_of;                  /* of each REPEAT: its END */
    int64_t alive_ns;             /* when somebody was last told that a run goes on */
    bool stop;                    /* and said that it should not */
    int64_t step[FB_MAX_REPEATS]; /* of the loops around the launch that is run */
    int64_t fewer;                /* steps that a merged kernel makes less than it should, for the check */
    bool swaps;
    bool doubles;           /* runs take turns between two places of some buffers */
    char **second;          /* of each buffer: its place in odd runs, NULL where there is one alone */
    fb_host_copies *copies; /* NULL: none */
    double compile_ms;
};

/* ---- opening ---- */

static int host_available(void)
{
    return 1;
}

static fb_device *host_open(const char *name, fb_error *err)
{
    if (strcmp(name, "host") != 0) {
        fb_fail(err, FB_ERR_UNAVAILABLE, "there is no device %s: the host is called \"host\"", name);
        return NULL;
    }
    fb_host *h = fb_calloc(1, sizeof *h);
    fb_host_machine(&h->machine, &h->sgemm);
    snprintf(h->device.name, sizeof h->device.name, "host");
    h->device.ops = &fb_device_host;
    h->blas = fb_blas_get(NULL);
    h->places = fb_host_places_new();
    return &h->device;
}

static fb_host *host_of(fb_device *d)
{
    return (fb_host *)d;
}

static void host_close(fb_device *d)
{
    fb_host *h = host_of(d);
    fb_copier_free(h->copier);
    fb_host_places_free(h->places);
    if (h->flush) munmap(h->flush, (size_t)h->flush_bytes);
    fb_cc_free(h->cc);
    fb_free(h);
}

static const fb_machine *host_machine(const fb_device *d)
{
    return &((const fb_host *)d)->machine;
}

static bool host_calibrate(fb_device *d, const fb_progress *progress, fb_error *err)
{
    return fb_host_calibrate(host_of(d), progress, err);
}

static bool bind_runtime(fb_host_runtime *rt, void *handle, fb_error *err)
{
#define X(RESULT, NAME, ARGUMENTS)                                                                                     \
    {                                                                                                                  \
        void *symbol = dlsym(handle, "fb_" #NAME);                                                                     \
        if (!symbol) return fb_fail(err, FB_ERR_SYSTEM, "the host's runtime has no %s", #NAME);                        \
        memcpy(&rt->NAME, &symbol, sizeof symbol);                                                                     \
    }
    FB_HOST_RUNTIME(X)
#undef X
    rt->threads = rt->team_threads();
    return true;
}

bool fb_host_ready(fb_host *h, const fb_progress *progress, fb_error *err)
{
    if (h->rt.threads) return true;
    if (!h->cc && !(h->cc = fb_cc_find(err))) return false;
    const char *prelude = fb_printer_prelude(&fb_target_c);
    fb_cc_unit unit = {.name = "host_runtime", .source = fb_embedded("kernels/host_runtime.c")};
    fb_error why = {0};
    void *handle;
    bool ok = fb_cc_load(h->cc, prelude, &unit, 1, progress, &handle, NULL, &why);
    if (!ok && why.kind == FB_ERR_COMPILE) {
        fb_cc_without_openmp(h->cc);
        ok = fb_cc_load(h->cc, prelude, &unit, 1, progress, &handle, NULL, NULL);
    }
    if (ok) return bind_runtime(&h->rt, handle, err);
    if (err) *err = why;
    return false;
}

void fb_host_flush(fb_host *h)
{
    enum { MOST = 128 << 20 };
    if (!h->flush) {
        int64_t bytes = 2 * h->machine.cache_bytes;
        bytes +=
            2 * h->machine.shared_bytes * h->rt.threads; /* the cores' own caches may not be part of the last level */
        h->flush_bytes = bytes < MOST ? bytes : MOST;
        h->flush = mmap(NULL, (size_t)h->flush_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (h->flush == MAP_FAILED) h->flush = NULL, h->flush_bytes = 0;
        /* 32,768 small pages take longer to come than what is measured */
        if (h->flush) madvise(h->flush, (size_t)h->flush_bytes, MADV_HUGEPAGE);
    }
    h->rt.flush(h->flush, h->flush_bytes);
    h->last = NULL;
}

/* ---- memory ---- */

static size_t aligned(size_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* What may still be allocated; -1 when the system does not say. */
static int64_t memory_left(void)
{
    char line[128];
    long long kib = -1;
    FILE *f = fb_file_stream("/proc/meminfo", FB_FILE_READ, NULL);
    while (f && kib < 0 && fgets(line, sizeof line, f)) sscanf(line, "MemAvailable: %lld kB", &kib);
    if (f) fclose(f);
    return kib < 0 ? -1 : (int64_t)kib * 1024;
}

static bool own_storage(const fb_buffer *b)
{
    return b->kind != FB_BUFFER_TEMP;
}

/* The next buffer's place; *n: what is taken so far. Fenced ones stand behind an inaccessible page, every other one
 * close to the next such page, so that reads on both sides of buffers are met. */
static size_t next_place(const fb_program *p, int buffer, size_t *n)
{
    size_t bytes = aligned((size_t)p->buffers[buffer].bytes), room = (bytes + 2 * VECTOR + GUARD - 1) / GUARD * GUARD,
           at;
    *n = p->fenced ? (*n + 2 * GUARD - 1) / GUARD * GUARD : *n + STAGGER;
    at = !p->fenced ? *n : buffer % 2 ? *n + room - bytes - VECTOR : *n + VECTOR;
    *n += p->fenced ? room : bytes;
    return at;
}

static void fence(fb_loaded *l, size_t at)
{
    if (l->program->fenced) mprotect(l->region + (at - VECTOR) / GUARD * GUARD - GUARD, GUARD, PROT_NONE);
}

/* Where each buffer goes, from the region's start; returns the region's size. The pool of temporaries comes first. */
static size_t lay_out(const fb_program *p, size_t *at, size_t *second, size_t *saved_bytes)
{
    size_t n = GUARD + VECTOR + aligned((size_t)p->pool_bytes);
    *saved_bytes = 0;
    for (int b = 0; b < p->n_buffers; b++) {
        const fb_buffer *buffer = &p->buffers[b];
        if (!own_storage(buffer)) {
            at[b] = GUARD + VECTOR + (size_t)buffer->offset;
            continue;
        }
        at[b] = next_place(p, b, &n);
        if (buffer->assigned) *saved_bytes += (size_t)buffer->bytes;
        if (buffer->fed || buffer->received) *saved_bytes += 2 * (size_t)buffer->bytes;
        if (fb_program_buffer_is_double(p, b)) second[b] = next_place(p, b, &n);
    }
    return (n + VECTOR + 2 * GUARD - 1) / GUARD * GUARD;
}

/* What lies between the ends of buffers and the next ones. Fenced buffers have pages there that end whatever writes. */
static void find_gaps(fb_loaded *l)
{
    const fb_program *p = l->program;
    size_t end = GUARD + VECTOR + (size_t)p->pool_bytes;
    l->n_gaps = 0;
    for (int b = 0; b < p->n_buffers && !p->fenced; b++) {
        const size_t places[] = {l->at[b], l->second_at[b]};
        for (int k = 0; k < 2 && own_storage(&p->buffers[b]); k++) {
            if (k && !places[k]) continue;
            l->gaps[l->n_gaps++] = (gap){l->region + end, places[k] - end};
            end = places[k] + (size_t)p->buffers[b].bytes;
        }
    }
    if (!p->fenced) l->gaps[l->n_gaps++] = (gap){l->region + end, l->region_bytes - GUARD - end};
}

/* Every buffer is its own again. */
static void spread_out(fb_loaded *l)
{
    const fb_program *p = l->program;
    for (int i = 0; i < p->n_buffers; i++) {
        l->initial[i] = l->now[i] = l->region + l->at[i];
        l->lies[i] = i;
        if (l->second_at[i]) l->second[i] = l->region + l->second_at[i];
        if (own_storage(&p->buffers[i])) fence(l, l->at[i]);
        if (l->second_at[i]) fence(l, l->second_at[i]);
    }
    find_gaps(l);
}

static bool allocate(fb_loaded *l, fb_error *err)
{
    const fb_program *p = l->program;
    size_t saved;
    l->region_bytes = lay_out(p, l->at, l->second_at, &saved);
    int64_t left = memory_left(), need = (int64_t)(l->region_bytes + saved);
    char a[32], b[32];
    if (left >= 0 && need >= left - left / 16)
        return fb_fail(err, FB_ERR_LIMIT, "the plan's buffers need %s and the host has %s free",
                       fb_format_bytes(a, (double)need), fb_format_bytes(b, (double)left));
    l->region = fb_host_place_take(l->host->places, l->region_bytes);
    if (!l->region)
        return fb_fail(err, FB_ERR_LIMIT, "the host gives no %s for the plan's buffers",
                       fb_format_bytes(a, (double)need));
    spread_out(l);
    for (int i = 0; i < p->n_buffers; i++)
        if (p->buffers[i].assigned) l->saved[i] = fb_calloc(1, (size_t)p->buffers[i].bytes + 1);
    l->copies = fb_host_copies_new(p, l->initial, l->second);
    l->doubles = l->copies && l->copies->overlap;
    return !l->doubles || l->host->copier || (l->host->copier = fb_copier_new(err)) != NULL;
}

/* ---- loading ---- */

static bool load_kernels(fb_loaded *l, const fb_progress *progress, fb_error *err)
{
    const fb_program *p = l->program;
    fb_cc_unit *units = fb_calloc((size_t)p->n_kernels + 1, sizeof *units);
    void **handles = fb_calloc((size_t)p->n_kernels + 1, sizeof *handles);
    int n = 0;
    for (int k = 0; k < p->n_kernels; k++) {
        if (!p->kernels[k].source || fb_program_first_kernel(p, k) != k) continue;
        units[n++] = (fb_cc_unit){.name = p->kernels[k].name,
                                  .source = p->kernels[k].source,
                                  .file = p->kernels[k].file,
                                  .lightly = p->lightly};
    }
    const char *prelude = fb_printer_prelude(&fb_target_c);
    bool ok = fb_cc_load(l->host->cc, prelude, units, n, progress, handles, &l->compile_ms, err);
    for (int k = 0, i = 0; ok && k < p->n_kernels; k++) {
        if (p->kernels[k].source && fb_program_first_kernel(p, k) == k) l->handles[k] = handles[i++];
    }
    for (int k = 0; ok && k < p->n_kernels; k++) {
        if (!p->kernels[k].source) continue;
        void *symbol = dlsym(l->handles[fb_program_first_kernel(p, k)], p->kernels[k].entry);
        memcpy(&l->entries[k], &symbol, sizeof symbol);
        if (!symbol && p->kernels[k].file)
            ok = fb_fail(err, FB_ERR_INPUT, "%s: there is no function of the name that its line @entry gives",
                         p->kernels[k].file);
        else if (!symbol)
            ok = fb_fail(err, FB_ERR_SYSTEM, "the compiled kernel %s has no entry %s", p->kernels[k].name,
                         p->kernels[k].entry);
    }
    fb_free(units);
    fb_free(handles);
    return ok;
}

static bool load_gemms(fb_loaded *l, fb_error *err)
{
    const fb_program *p = l->program;
    for (int g = 0; g < p->n_gemms; g++) {
        int epilogue = p->gemms[g].epilogue;
        l->gemms[g] = fb_host_gemm_new(l->host, &p->gemms[g], epilogue == FB_NONE ? NULL : l->entries[epilogue], err);
        if (!l->gemms[g]) return false;
    }
    return true;
}

static char *moved(const fb_loaded *l, int buffer, fb_advance advance)
{
    return l->now[buffer] + fb_advance_at(advance, l->step);
}

static void fill_args(fb_loaded *l, int i)
{
    const fb_launch *launch = &l->program->launches[i];
    for (int a = 0; a < launch->n_args; a++) {
        const fb_advance advance = launch->advances ? launch->advances[a] : (fb_advance){0};
        l->args[i][a] = moved(l, launch->args[a], advance) + (launch->offsets ? launch->offsets[a] : 0);
    }
}

/* Pairs the repeats with their ends and readies the arguments. */
static bool load_launches(fb_loaded *l, fb_error *err)
{
    const fb_program *p = l->program;
    int open[FB_MAX_REPEATS], depth = 0;
    for (int i = 0; i < p->n_launches; i++) {
        const fb_launch *launch = &p->launches[i];
        if (launch->kind == FB_LAUNCH_REPEAT) {
            if (depth == FB_MAX_REPEATS) return fb_fail(err, FB_ERR_LIMIT, "loops nest deeper than %d", FB_MAX_REPEATS);
            open[depth++] = i;
        } else if (launch->kind == FB_LAUNCH_END) {
            FB_ASSERT(depth > 0);
            l->end_of[open[--depth]] = i;
        } else if (launch->kind == FB_LAUNCH_SWAP) {
            l->swaps = true;
        }
        if (!fb_host_products_new(l->host, p, launch, &l->products[i], err)) return false;
        l->args[i] = fb_calloc((size_t)launch->n_args + 1, sizeof *l->args[i]);
        fill_args(l, i);
    }
    FB_ASSERT(depth == 0);
    return true;
}

static void host_unload(fb_loaded *l)
{
    if (!l) return;
    const fb_program *p = l->program;
    if (l->host->last == l) l->host->last = NULL;
    for (int k = 0; k < p->n_kernels; k++) {
        if (l->handles[k]) dlclose(l->handles[k]);
    }
    for (int g = 0; g < p->n_gemms; g++) fb_host_gemm_free(l->gemms[g]);
    for (int b = 0; b < p->n_buffers; b++) fb_free(l->saved[b]);
    for (int i = 0; i < p->n_launches; i++) {
        fb_free(l->args[i]);
        fb_host_products_free(l->products[i]);
    }
    fb_host_copies_free(l->copies);
    fb_host_place_give(l->host->places, l->region, l->region_bytes);
    void *const blocks[] = {l->lies, l->gaps,  l->handles, l->entries, l->gemms,    l->initial, l->at,
                            l->now,  l->saved, l->args,    l->end_of,  l->products, l->second,  l->second_at};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) fb_free(blocks[i]);
    fb_free(l);
}

static fb_loaded *host_load(fb_device *d, const fb_program *p, const fb_progress *progress, fb_error *err)
{
    fb_host *h = host_of(d);
    if (p->mode != FB_LAUNCH_STREAM) {
        fb_fail(err, FB_ERR_LIMIT, "the host launches kernels one by one: it has no launch mode \"%s\"",
                fb_launch_mode_name(p->mode));
        return NULL;
    }
    if (!fb_host_ready(h, progress, err)) return NULL;
    fb_loaded *l = fb_calloc(1, sizeof *l);
    l->host = h;
    l->program = p;
    l->handles = fb_calloc((size_t)p->n_kernels + 1, sizeof *l->handles);
    l->entries = fb_calloc((size_t)p->n_kernels + 1, sizeof *l->entries);
    l->gemms = fb_calloc((size_t)p->n_gemms + 1, sizeof *l->gemms);
    l->initial = fb_calloc((size_t)p->n_buffers + 1, sizeof *l->initial);
    l->lies = fb_calloc((size_t)p->n_buffers + 1, sizeof *l->lies);
    l->at = fb_calloc((size_t)p->n_buffers + 1, sizeof *l->at);
    l->second_at = fb_calloc((size_t)p->n_buffers + 1, sizeof *l->second_at);
    l->gaps = fb_calloc(2 * (size_t)p->n_buffers + 1, sizeof *l->gaps);
    l->now = fb_calloc((size_t)p->n_buffers + 1, sizeof *l->now);
    l->saved = fb_calloc((size_t)p->n_buffers + 1, sizeof *l->saved);
    l->second = fb_calloc((size_t)p->n_buffers + 1, sizeof *l->second);
    l->args = fb_calloc((size_t)p->n_launches + 1, sizeof *l->args);
    l->products = fb_calloc((size_t)p->n_launches + 1, sizeof *l->products);
    l->end_of = fb_calloc((size_t)p->n_launches + 1, sizeof *l->end_of);
    if (load_kernels(l, progress, err) && allocate(l, err) && load_gemms(l, err) && load_launches(l, err)) return l;
    host_unload(l);
    return NULL;
}

static double host_compile_ms(const fb_loaded *l)
{
    return l->compile_ms;
}

/* A core has no figures of the kind a GPU's compiler gives. */
static bool host_resources(const fb_loaded *l, int kernel, fb_resources *out)
{
    (void)l, (void)kernel;
    *out = (fb_resources){.registers = -1, .shared_bytes = -1, .spill_bytes = -1, .local_bytes = NAN, .occupancy = NAN};
    return true;
}

/* ---- transfers ---- */

static bool host_write(fb_loaded *l, int buffer, const void *bytes, fb_error *err)
{
    (void)err;
    const fb_buffer *b = &l->program->buffers[buffer];
    const fb_host_copy *copy = fb_host_copy_of(l->copies, buffer);
    for (int k = 0; copy && k < 2; k++) memcpy(copy->outside[k], bytes, (size_t)b->bytes);
    if (!copy) fb_parallel_copy(l->initial[buffer], bytes, (size_t)b->bytes);
    if (b->assigned) fb_parallel_copy(l->saved[buffer], bytes, (size_t)b->bytes);
    l->host->last = NULL;
    return true;
}

static bool host_write_second(fb_loaded *l, int buffer, const void *bytes, fb_error *err)
{
    (void)err;
    const fb_host_copy *copy = fb_host_copy_of(l->copies, buffer);
    if (copy) memcpy(copy->outside[1], bytes, (size_t)copy->bytes);
    l->host->last = NULL;
    return true;
}

static bool host_read(fb_loaded *l, int buffer, void *bytes, fb_error *err)
{
    (void)err;
    const fb_buffer *b = &l->program->buffers[buffer];
    const fb_host_copy *copy = b->received ? fb_host_copy_of(l->copies, buffer) : NULL;
    memcpy(bytes, copy ? copy->outside[(l->copies->turn + 1) % 2] : l->now[buffer], (size_t)b->bytes);
    return true;
}

/* What is copied in and out has its places with the one who copies. */
static bool host_move(fb_loaded *l)
{
    fb_host_places *places = l->host->places;
    bool can = !l->copies && fb_host_places_take_turns(l->region_bytes);
    char *region = can ? fb_host_place_take(places, l->region_bytes) : NULL;
    if (!region) return false;
    fb_host_place_give(places, l->region, l->region_bytes);
    l->region = region;
    spread_out(l);
    for (int i = 0; i < l->program->n_launches; i++) fill_args(l, i);
    l->host->last = NULL;
    return true;
}

static bool host_poison(fb_loaded *l, fb_error *err)
{
    (void)err;
    const fb_program *p = l->program;
    fb_parallel_set(l->region + GUARD + VECTOR, 0xff, (size_t)p->pool_bytes);
    for (int i = 0; i < l->n_gaps; i++) memset(l->gaps[i].at, 0xff, l->gaps[i].bytes);
    for (int b = 0; b < p->n_buffers; b++) {
        if (p->buffers[b].kind == FB_BUFFER_OUTPUT) fb_parallel_set(l->initial[b], 0xff, (size_t)p->buffers[b].bytes);
    }
    for (int i = 0; l->copies && i < l->copies->n; i++) {
        const fb_host_copy *c = &l->copies->copy[i];
        for (int k = 0; k < 2; k++) {
            memset(c->place[k], 0xff, (size_t)c->bytes);
            if (i >= l->copies->first_out) memset(c->outside[k], 0xff, (size_t)c->bytes);
        }
    }
    return true;
}

/* ---- running ---- */

/* Where a run's launches are noted; NULL: nowhere. */
typedef struct {
    fb_span *spans;
    int64_t room, n;
    double start;
} trace;

static void note(trace *t, int index, double begin)
{
    double end = fb_now_us();
    if (t->n < t->room)
        t->spans[t->n] = (fb_span){.index = index, /* the call is the launch, and returns with its end */
                                   .start_us = begin - t->start,
                                   .end_us = end - t->start,
                                   .issue_start_us = begin - t->start,
                                   .issue_end_us = end - t->start};
    t->n++;
}

static void swap_buffers(fb_loaded *l, int a, int b)
{
    char *held = l->now[a];
    l->now[a] = l->now[b];
    l->now[b] = held;
    int lay = l->lies[a];
    l->lies[a] = l->lies[b];
    l->lies[b] = lay;
}

/* For kernels that call the library on the way. */
static void call_gemm(void *device, int number, void *const *buffers)
{
    fb_loaded *l = device;
    fb_host_gemm_run(l->gemms[number], buffers[0], buffers[1], buffers[2], buffers + 3);
}

/* The kernel's clock that costs least: there is a look at it for each launch. */
static int64_t coarse_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A loop of a million steps works for minutes: whoever waits hears of it. */
static void show_life(fb_loaded *l)
{
    enum { EVERY_NS = 1000000000 };
    const fb_progress *p = l->host->device.progress;
    int64_t now = p ? coarse_ns() : 0;
    if (!p || now - l->alive_ns < EVERY_NS) return;
    l->alive_ns = now;
    if (!p->step(p->ctx, "running", 0)) l->stop = true;
}

static void run_launch(fb_loaded *l, int i, trace *t)
{
    const fb_program *p = l->program;
    const fb_launch *launch = &p->launches[i];
    if (l->swaps || l->doubles || launch->advances) fill_args(l, i);
    double begin = t ? fb_now_us() : 0;
    if (launch->kind == FB_LAUNCH_GEMM) {
        const fb_gemm_call *g = &p->gemms[launch->gemm];
        fb_host_gemm_run(l->gemms[launch->gemm], moved(l, g->a, g->a_advance), moved(l, g->b, g->b_advance),
                         moved(l, g->c, g->c_advance), l->args[i]);
        if (t) note(t, p->n_kernels + launch->gemm, begin);
    } else {
        if (l->products[i])
            fb_host_products_run(l->products[i], l->entries[launch->kernel], l->now, l->args[i]);
        else
            l->entries[launch->kernel](&(fb_host_args){.buffers = l->args[i],
                                                       .first = p->kernels[launch->kernel].merged ? launch->gemm : 0,
                                                       .last = INT64_MAX,
                                                       .gemm = call_gemm,
                                                       .device = l,
                                                       .steps = launch->steps - l->fewer});
        if (t) note(t, launch->kernel, begin);
    }
    show_life(l);
}

static void run_range(fb_loaded *l, int from, int to, int depth, trace *t)
{
    for (int i = from; i < to && !l->stop; i++) {
        const fb_launch *launch = &l->program->launches[i];
        switch (launch->kind) {
        case FB_LAUNCH_REPEAT:
            for (l->step[depth] = 0; l->step[depth] < launch->count && !l->stop; l->step[depth]++)
                run_range(l, i + 1, l->end_of[i], depth + 1, t);
            i = l->end_of[i];
            break;
        case FB_LAUNCH_SWAP: swap_buffers(l, launch->swap_a, launch->swap_b); break;
        case FB_LAUNCH_END: break;
        case FB_LAUNCH_KERNEL:
        case FB_LAUNCH_GEMM: run_launch(l, i, t); break;
        }
    }
}

/* The state before a run: swaps undone, assigned parameters as they were written. */
static void restore(fb_loaded *l)
{
    const fb_program *p = l->program;
    for (int b = 0; l->swaps && b < p->n_buffers; b++) {
        l->now[b] = l->initial[b];
        l->lies[b] = b;
    }
    for (int b = 0; b < p->n_buffers; b++) {
        if (l->saved[b]) memcpy(l->initial[b], l->saved[b], (size_t)p->buffers[b].bytes);
    }
}

static void note_copies(const fb_loaded *l, trace *t)
{
    const fb_program *p = l->program;
    for (int i = 0; i < l->copies->n; i++, t->n++) {
        const fb_host_copy *c = &l->copies->copy[i];
        if (t->n >= t->room) continue;
        t->spans[t->n] = (fb_span){.lane = i < l->copies->first_out ? FB_LANE_IN : FB_LANE_OUT,
                                   .index = p->n_kernels + p->n_gemms + i,
                                   .start_us = c->start_us - t->start,
                                   .end_us = c->end_us - t->start,
                                   .issue_start_us = NAN,
                                   .issue_end_us = NAN,
                                   .stream = l->doubles};
    }
}

/* Of the two places of a buffer those that this run's kernels use. */
static void take_places(fb_loaded *l, int parity)
{
    for (int i = 0; i < l->copies->n; i++) {
        const fb_host_copy *c = &l->copies->copy[i];
        l->initial[c->buffer] = l->now[c->buffer] = c->place[parity];
    }
}

/* What a loop's swaps have left elsewhere goes to where it is taken from. */
static void settle(fb_loaded *l)
{
    for (int i = l->copies->first_out; l->swaps && i < l->copies->n; i++) {
        int b = l->copies->copy[i].buffer;
        if (l->now[b] != l->initial[b]) memcpy(l->initial[b], l->now[b], (size_t)l->copies->copy[i].bytes);
    }
}

/* One run with its copies. */
static void run_all(fb_loaded *l, trace *t)
{
    fb_host_copies *c = l->copies;
    int parity = c ? (int)(c->turn & 1) : 0;
    if (c) take_places(l, parity);
    if (l->doubles)
        fb_copier_begin(l->host->copier, c, FB_MUTATE(56, 1 - parity, parity));
    else if (c)
        fb_host_copy_in(c, parity);
    run_range(l, 0, l->program->n_launches, 0, t);
    if (c) settle(l);
    if (l->doubles)
        fb_copier_finish(l->host->copier);
    else if (c)
        fb_host_copy_out(c, parity);
    if (c && t) note_copies(l, t);
    if (c) c->turn++;
}

/* Before the first run of a call its feeds are there. */
static void fill_pipeline(fb_loaded *l)
{
    if (l->copies) l->copies->turn = 0;
    if (l->doubles) fb_host_copy_in(l->copies, 0);
}

/* And after the last one its results leave. */
static void drain_pipeline(fb_loaded *l)
{
    if (l->doubles) fb_host_copy_out(l->copies, (int)((l->copies->turn + 1) & 1));
}

/* Into the state of the caches that is asked for. */
static void make_ready(fb_loaded *l, fb_cache_state cache, bool first)
{
    if (first) fill_pipeline(l);
    if (cache == FB_CACHE_HOT && l->host->last != l) {
        restore(l);
        run_all(l, NULL);
        fill_pipeline(l);
    }
    restore(l);
    if (cache == FB_CACHE_COLD) fb_host_flush(l->host);
}

static bool host_run(fb_loaded *l, const fb_run_how *how, fb_run_time *times, fb_error *err)
{
    l->stop = false;
    l->alive_ns = coarse_ns();
    for (int i = 0; i < how->samples && !l->stop; i++) {
        make_ready(l, how->cache, i == 0);
        double start = fb_now_us();
        run_all(l, NULL);
        times[i] = (fb_run_time){.wall_us = fb_now_us() - start, .device_us = NAN};
        l->host->last = l;
    }
    drain_pipeline(l);
    if (!l->stop) return true;
    l->host->last = NULL;
    return fb_fail(err, FB_ERR_CANCELLED, "cancelled while running");
}

static bool host_trace(fb_loaded *l, fb_cache_state cache, fb_span *spans, int64_t room, int64_t *n, fb_error *err)
{
    (void)err;
    make_ready(l, cache, true);
    trace t = {.spans = spans, .room = room, .start = fb_now_us()};
    run_all(l, &t);
    drain_pipeline(l);
    l->host->last = l;
    *n = t.n;
    return true;
}

/* ---- a run taken apart ---- */

static bool step_rewind(fb_loaded *l, fb_error *err)
{
    (void)err;
    fill_pipeline(l);
    restore(l);
    if (!l->copies) return true;
    take_places(l, 0);
    if (!l->doubles) fb_host_copy_in(l->copies, 0);
    return true;
}

/* Also where the program swaps nothing: a loop that is one kernel and has an even number of steps, of which a check
 * runs another number. */
static void step_swap(fb_loaded *l, int a, int b)
{
    l->swaps = true;
    swap_buffers(l, a, b);
}

static bool step_launch(fb_loaded *l, int i, const int64_t *step, fb_error *err)
{
    (void)err;
    memcpy(l->step, step, sizeof l->step);
    fill_args(l, i);
    run_launch(l, i, NULL);
    l->host->last = NULL;
    return true;
}

static bool step_launch_steps(fb_loaded *l, int i, const int64_t *step, int64_t steps, fb_error *err)
{
    l->fewer = l->program->launches[i].steps - steps;
    bool ok = step_launch(l, i, step, err);
    l->fewer = 0;
    return ok;
}

static bool step_peek(fb_loaded *l, int buffer, int64_t offset, int64_t bytes, void *to, fb_error *err)
{
    (void)err;
    fb_parallel_copy(to, l->now[buffer] + offset, (size_t)bytes);
    return true;
}

static bool step_poke(fb_loaded *l, int buffer, int64_t offset, int64_t bytes, const void *from, fb_error *err)
{
    (void)err;
    fb_parallel_copy(l->now[buffer] + offset, from, (size_t)bytes);
    return true;
}

static int step_storage(const fb_loaded *l, int buffer)
{
    return l->lies[buffer];
}

static bool step_digest(fb_loaded *l, int storage, int64_t offset, int64_t bytes, uint64_t *out, fb_error *err)
{
    (void)err;
    const char *at = storage == FB_NONE ? l->region + GUARD + VECTOR : l->initial[storage];
    *out = fb_digest(at + offset, (size_t)bytes);
    return true;
}

static uint64_t step_digest_gaps(fb_loaded *l)
{
    uint64_t all = 0;
    for (int i = 0; i < l->n_gaps; i++) all = fb_splitmix64(all ^ fb_digest(l->gaps[i].at, l->gaps[i].bytes));
    return all;
}

static bool step_finish(fb_loaded *l, fb_error *err)
{
    (void)err;
    if (l->copies) {
        settle(l);
        fb_host_copy_out(l->copies, 0);
        l->copies->turn = 1;
    }
    return true;
}

static const fb_stepping stepping = {.rewind = step_rewind,
                                     .launch = step_launch,
                                     .launch_steps = step_launch_steps,
                                     .swap = step_swap,
                                     .peek = step_peek,
                                     .poke = step_poke,
                                     .storage = step_storage,
                                     .digest = step_digest,
                                     .digest_gaps = step_digest_gaps,
                                     .finish = step_finish};

/* Ticks of all processors: those that others had, and all. */
static bool stolen_ticks(double to[2])
{
    char line[256] = "";
    double t[8];
    FILE *f = fb_file_stream("/proc/stat", FB_FILE_READ, NULL);
    bool read = f && fgets(line, sizeof line, f);
    if (f) fclose(f);
    if (!read ||
        sscanf(line, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", t, t + 1, t + 2, t + 3, t + 4, t + 5, t + 6, t + 7) != 8)
        return false;
    to[0] = t[7];
    to[1] = 0;
    for (int i = 0; i < 8; i++) to[1] += t[i];
    return true;
}

/* What others took of the processors since it was asked before, by all processes of this one together. */
static void host_state(fb_device *d, fb_machine_state *out)
{
    static double before[2];
    double now[2], load;
    (void)d;
    if (getloadavg(&load, 1) == 1) out->load = load;
    if (!stolen_ticks(now)) return;
    if (now[1] > before[1] && before[1] > 0) out->steal = (now[0] - before[0]) / (now[1] - before[1]);
    if (now[1] > before[1]) memcpy(before, now, sizeof before);
}

const fb_device_ops fb_device_host = {
    .kind = "host",
    .target = &fb_target_c,
    .list = fb_host_list,
    .available = host_available,
    .open = host_open,
    .close = host_close,
    .machine = host_machine,
    .calibrate = host_calibrate,
    .load = host_load,
    .unload = host_unload,
    .compile_ms = host_compile_ms,
    .resources = host_resources,
    .write = host_write,
    .read = host_read,
    .write_second = host_write_second,
    .move = host_move,
    .poison = host_poison,
    .state = host_state,
    .run = host_run,
    .trace = host_trace,
    .stepping = &stepping,
    .count = NULL,
};
