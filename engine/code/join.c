/* Programs as one: the kernels of several, each text once, so that one compilation serves what is measured together.
 * Needs lowered programs; what they share is found by the kernels' code.
 */
#include "code/program.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "code/printer.h"

#include <string.h>

#define uthash_malloc(size)      fb_alloc(size)
#define uthash_free(block, size) fb_free(block)
#include <uthash.h>

enum { ALIGNMENT = 256 };

typedef struct {
    fb_hash code;
    int kernel;
    UT_hash_handle hh;
} known_kernel;

/* An open translation unit. */
typedef struct {
    fb_str text;
    FB_VEC(int) kernels;
    unsigned texts;  /* that one of them stands on … */
    bool warpgroups; /* … and asks for (fb_needs) */
} unit;

typedef struct {
    fb_program *p;
    known_kernel *known;
    const fb_target *target;
    unit open[FB_FAMILIES]; /* at the first family that stands on the same text */
    int most;               /* kernels of a unit */
} joining;

static int64_t aligned(int64_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void close_unit(joining *j, unit *u)
{
    const char *text = fb_arena_strdup(j->p->arena, fb_str_get(&u->text));
    for (int i = 0; i < u->kernels.n; i++) {
        fb_kernel *k = &j->p->kernels[u->kernels.at[i]];
        k->source = text;
        k->needs.texts = u->texts;
        k->needs.warpgroups = u->warpgroups;
        k->shares = i ? u->kernels.at[0] + 1 : 0;
    }
    u->kernels.n = 0;
    u->texts = u->warpgroups = 0;
    fb_str_clear(&u->text);
}

static bool same_pieces(const fb_target *t, fb_family a, fb_family b)
{
    for (int i = 0;; i++) {
        const char *x = fb_printer_piece(t, a, i), *y = fb_printer_piece(t, b, i);
        if (x != y) return false;
        if (!x) return true;
    }
}

static void add_to_unit(joining *j, int number, const fb_kernel *from)
{
    if (from->merged) { /* its stages have names of their own */
        j->p->kernels[number].source = fb_arena_printf(j->p->arena, "#define %s %s\n%s#undef %s\n", from->entry,
                                                       j->p->kernels[number].entry, from->source, from->entry);
        return;
    }
    fb_family first = FB_FAMILY_POINTWISE;
    while (!same_pieces(j->target, first, from->family)) first++;
    unit *u = &j->open[first];
    fb_str_addf(&u->text, "\n#define %s %s\n%s#undef %s\n", from->entry, j->p->kernels[number].entry, from->source,
                from->entry);
    FB_VEC_PUSH(&u->kernels, number);
    u->texts |= from->needs.texts;
    u->warpgroups |= from->needs.warpgroups;
    if (u->kernels.n >= j->most) close_unit(j, u);
}

/* The kernel of a part: one already there when it does the same. */
static int join_kernel(joining *j, const fb_kernel *from)
{
    known_kernel *known = NULL;
    fb_hash code = fb_program_kernel_code(from);
    HASH_FIND(hh, j->known, &code, sizeof code, known);
    if (known) return known->kernel;
    fb_program *p = j->p;
    int number = p->n_kernels++;
    fb_kernel *k = &p->kernels[number];
    *k = *from;
    k->name = k->entry = fb_arena_printf(p->arena, "k%d", number);
    if (from->source) add_to_unit(j, number, from);
    known = FB_NEW(p->arena, known_kernel);
    *known = (known_kernel){.code = code, .kernel = number};
    HASH_ADD(hh, j->known, code, sizeof known->code, known);
    return number;
}

static const int *shifted(fb_arena *arena, const int *from, int n, int by)
{
    int *to = FB_NEW_ARRAY(arena, int, n);
    for (int i = 0; i < n; i++) to[i] = from[i] == FB_NONE ? FB_NONE : from[i] + by;
    return to;
}

static const fb_place *shifted_places(fb_arena *arena, const fb_place *from, int n, int by)
{
    fb_place *to = fb_arena_copy(arena, from, (size_t)n * sizeof *from);
    for (int i = 0; i < n; i++) to[i].buffer += by;
    return to;
}

static const fb_inner_loop *shifted_loops(fb_arena *arena, const fb_inner_loop *from, int n, int by)
{
    if (!n) return NULL;
    fb_inner_loop *to = fb_arena_copy(arena, from, (size_t)n * sizeof *to);
    for (int i = 0; i < n; i++) {
        int(*swaps)[2] = fb_arena_copy(arena, from[i].swaps, (size_t)from[i].n_swaps * sizeof *swaps);
        for (int s = 0; s < from[i].n_swaps; s++) swaps[s][0] += by, swaps[s][1] += by;
        to[i].swaps = (const int(*)[2])swaps;
        to[i].reads = shifted_places(arena, from[i].reads, from[i].n_reads, by);
        to[i].stores = shifted_places(arena, from[i].stores, from[i].n_stores, by);
    }
    return to;
}

static void join_part(joining *j, const fb_program *part)
{
    fb_program *p = j->p;
    int buffers = p->n_buffers, gemms = p->n_gemms;
    int *kernel = FB_NEW_ARRAY(p->arena, int, part->n_kernels + 1);
    for (int b = 0; b < part->n_buffers; b++) {
        fb_buffer *to = &p->buffers[p->n_buffers++];
        *to = part->buffers[b];
        if (to->kind == FB_BUFFER_TEMP) to->offset += p->pool_bytes;
    }
    p->pool_bytes = aligned(p->pool_bytes + part->pool_bytes);
    for (int k = 0; k < part->n_kernels; k++) kernel[k] = join_kernel(j, &part->kernels[k]);
    for (int i = 0; i < part->n_gemms; i++) {
        fb_gemm_call *g = &p->gemms[p->n_gemms++];
        *g = part->gemms[i];
        g->a += buffers, g->b += buffers, g->c += buffers;
        if (g->bias != FB_NONE) g->bias += buffers;
        if (g->addend != FB_NONE) g->addend += buffers;
        if (g->epilogue != FB_NONE) g->epilogue = kernel[g->epilogue];
    }
    for (int i = 0; i < part->n_launches; i++) {
        fb_launch *l = &p->launches[p->n_launches++];
        *l = part->launches[i];
        l->args = shifted(p->arena, l->args, l->n_args, buffers);
        if (l->offsets) l->offsets = fb_arena_copy(p->arena, l->offsets, (size_t)l->n_args * sizeof *l->offsets);
        if (l->advances) l->advances = fb_arena_copy(p->arena, l->advances, (size_t)l->n_args * sizeof *l->advances);
        if (l->kind == FB_LAUNCH_KERNEL) l->kernel = kernel[l->kernel];
        if (l->gemm != FB_NONE) l->gemm += gemms;
        fb_chain_product_call *calls = fb_arena_copy(p->arena, l->products, (size_t)l->n_products * sizeof *calls);
        for (int c = 0; c < l->n_products; c++) {
            if (calls[c].a != FB_NONE) calls[c].a += buffers;
            calls[c].b += buffers;
        }
        l->products = calls;
        if (l->kind == FB_LAUNCH_SWAP) l->swap_a += buffers, l->swap_b += buffers;
        l->reads = shifted_places(p->arena, l->reads, l->n_reads, buffers);
        l->stores = shifted_places(p->arena, l->stores, l->n_stores, buffers);
        l->loops = shifted_loops(p->arena, l->loops, l->n_loops, buffers);
    }
}

fb_program *fb_program_join(const fb_target *t, const fb_program *const *parts, int n, int most, int *first_buffer)
{
    fb_arena *arena = fb_arena_new();
    fb_program *p = FB_NEW(arena, fb_program);
    *p = (fb_program){
        .arena = arena, .language = parts[0]->language, .mode = parts[0]->mode, .overlap = parts[0]->overlap};
    int buffers = 0, kernels = 0, gemms = 0, launches = 0;
    for (int i = 0; i < n; i++) {
        buffers += parts[i]->n_buffers, kernels += parts[i]->n_kernels;
        gemms += parts[i]->n_gemms, launches += parts[i]->n_launches;
    }
    p->buffers = FB_NEW_ARRAY(arena, fb_buffer, buffers + 1);
    p->kernels = FB_NEW_ARRAY(arena, fb_kernel, kernels + 1);
    p->gemms = FB_NEW_ARRAY(arena, fb_gemm_call, gemms + 1);
    p->launches = FB_NEW_ARRAY(arena, fb_launch, launches + 1);
    joining j = {.p = p, .target = t, .most = most};
    fb_hasher *h = fb_hasher_new();
    for (int i = 0; i < n; i++) {
        first_buffer[i] = p->n_buffers;
        join_part(&j, parts[i]);
        fb_hasher_add(h, &parts[i]->hash, sizeof parts[i]->hash);
    }
    for (int f = 0; f < FB_FAMILIES; f++) {
        close_unit(&j, &j.open[f]);
        FB_VEC_FREE(&j.open[f].kernels);
        fb_str_free(&j.open[f].text);
    }
    p->total_bytes = p->pool_bytes;
    for (int b = 0; b < p->n_buffers; b++)
        if (p->buffers[b].kind != FB_BUFFER_TEMP)
            p->total_bytes += aligned(p->buffers[b].bytes) * (fb_program_buffer_is_double(p, b) ? 2 : 1);
    p->hash = fb_hasher_end(h);
    HASH_CLEAR(hh, j.known);
    return p;
}
