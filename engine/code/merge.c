/* Several launches as one kernel: the launches of a whole plan (launch mode `mega`) or those of a loop (family `scan`).
 *
 * requires  a program whose launches first … last - 1 are whole: every REPEAT with its END
 * provides  the same program with one launch in their place, and swaps where they leave buffers exchanged
 *
 * On a GPU the kernels' bodies become functions over one block each; a cooperative grid deals their blocks out and
 * meets where data flows. On the host they are called as they are, and library calls through the device. A loop is a
 * loop around the calls: pointers that move with a step are computed from its counter, states that change places are
 * pointers that do. How many steps it makes is an argument, so that the check can run the same binary for t and t + 1
 * of them. */
#include "code/merge.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "code/emit_parts.h"
#include "code/show.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

enum { MOST_ARGS = 400 };

/* A buffer as the merged kernel gets it: where the launch's own pointer starts. */
typedef struct {
    int buffer;
    fb_advance outer; /* moves with a loop around the merged launch */
    bool written;
    const char *name;
} argument;

typedef struct {
    fb_program *p;
    const fb_target *target;
    int first, last;
    int level; /* loops around the first launch */
    fb_statements to;
    FB_VEC(argument) args;
    bool *meet;   /* a launch: the grid meets before it */
    int *uses;    /* a kernel: how many launches use it */
    int *partner; /* a buffer: the one it changes places with, FB_NONE */
    int threads, shared;
    int64_t blocks;
    fb_needs needs;
    const char *round; /* where the one stage is a step of a recurrence in clusters (fb_stage); else NULL */
    bool from_end;     /* the next stage's blocks are dealt from the last one down */
    FB_VEC(fb_inner_loop) loops;
} merging;

static const fb_launch *at(const merging *m, int i)
{
    return &m->p->launches[i];
}

/* Does the launch keep something in shared memory from one step to the next? */
static bool keeps(const merging *m, int i)
{
    return at(m, i)->kind == FB_LAUNCH_KERNEL && m->p->kernels[at(m, i)->kernel].stage.kept_shared > 0;
}

static int end_of(const merging *m, int repeat)
{
    int depth = 1, i = repeat + 1;
    for (; depth; i++) depth += (at(m, i)->kind == FB_LAUNCH_REPEAT) - (at(m, i)->kind == FB_LAUNCH_END);
    return i - 1;
}

/* ---- what launches touch ---- */

typedef struct {
    bool *read, *written; /* a buffer */
} touched;

static bool share_memory(const merging *m, int a, int b)
{
    const fb_buffer *x = &m->p->buffers[a], *y = &m->p->buffers[b];
    if (a == b) return true;
    if (x->kind != FB_BUFFER_TEMP || y->kind != FB_BUFFER_TEMP) return false;
    return x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

/* Two that change places are told apart by name, for the sets change places with them; against others each may lie
 * where its partner did. */
static bool may_share(const merging *m, int a, int b)
{
    if (a == b) return true;
    if (m->partner[a] == b) return false;
    if (share_memory(m, a, b)) return true;
    if (m->partner[a] != FB_NONE && share_memory(m, m->partner[a], b)) return true;
    return m->partner[b] != FB_NONE && share_memory(m, a, m->partner[b]);
}

static bool writes(const fb_launch *l, int arg)
{
    return !l->written || l->written[arg];
}

static fb_advance advance_of(const fb_launch *l, int arg)
{
    return l->advances ? l->advances[arg] : (fb_advance){0};
}

/* Does the launch need that what was touched is done with? */
static bool conflicts(const merging *m, const touched *t, const fb_launch *l)
{
    for (int a = 0; a < l->n_args; a++)
        for (int b = 0; b < m->p->n_buffers; b++)
            if ((t->written[b] || (t->read[b] && writes(l, a))) && may_share(m, b, l->args[a])) return true;
    return false;
}

static void touch(touched *t, const fb_launch *l)
{
    for (int a = 0; a < l->n_args; a++) {
        if (writes(l, a))
            t->written[l->args[a]] = true;
        else
            t->read[l->args[a]] = true;
    }
}

static void clear(const merging *m, touched *t)
{
    memset(t->read, 0, (size_t)m->p->n_buffers);
    memset(t->written, 0, (size_t)m->p->n_buffers);
}

static touched touched_new(const merging *m)
{
    size_t n = (size_t)m->p->n_buffers + 1;
    return (touched){fb_calloc(n, 1), fb_calloc(n, 1)};
}

static void touched_free(touched *t)
{
    fb_free(t->read);
    fb_free(t->written);
}

/* Adds what `more` holds; false when there was nothing new. */
static bool unite(const merging *m, touched *t, const touched *more)
{
    bool any = false;
    for (int b = 0; b < m->p->n_buffers; b++) {
        any |= (more->read[b] && !t->read[b]) || (more->written[b] && !t->written[b]);
        t->read[b] |= more->read[b];
        t->written[b] |= more->written[b];
    }
    return any;
}

static void exchange(bool *set, int a, int b)
{
    bool held = set[a];
    set[a] = set[b];
    set[b] = held;
}

static void place_range(merging *m, int from, int to, touched *t);

/* Do two of the launch's pointers, one of which it writes by, lead to one place by two ways? */
static bool may_alias(const merging *m, const fb_launch *l)
{
    for (int a = 0; a < l->n_args; a++) {
        for (int b = 0; b < l->n_args; b++) {
            const fb_advance x = advance_of(l, a), y = advance_of(l, b);
            bool same = l->args[a] == l->args[b] && x.bytes == y.bytes && x.every == y.every && x.level == y.level &&
                        (!l->offsets || l->offsets[a] == l->offsets[b]);
            if (writes(l, a) && !same && may_share(m, l->args[a], l->args[b])) return true;
        }
    }
    return false;
}

/* Does each thread go through the loop's steps by itself? Blocks are dealt out alike at each step, and a kernel in which
 * no thread needs another one deals its elements to threads alike. */
static bool is_apart(const merging *m, int repeat, int end)
{
    const fb_launch *l = at(m, repeat + 1);
    return at(m, repeat)->apart && end == repeat + 2 && l->kind == FB_LAUNCH_KERNEL &&
           m->p->kernels[l->kernel].stage.alone && !may_alias(m, l);
}

/* Is the loop's body one kernel that goes through the steps itself? */
static bool goes_through(const merging *m, int repeat)
{
    const fb_launch *l = at(m, repeat + 1);
    return l->kind == FB_LAUNCH_KERNEL && m->p->kernels[l->kernel].stage.through;
}

static bool is_empty(const merging *m, const touched *t)
{
    for (int b = 0; b < m->p->n_buffers; b++)
        if (t->read[b] || t->written[b]) return false;
    return true;
}

/* A step begins with what the step before left: until nothing new comes of it. What was before the loop is done with
 * once, before the first step, rather than at each. */
static void place_loop(merging *m, int repeat, int end, touched *t)
{
    touched start = touched_new(m);
    unite(m, &start, t);
    do {
        clear(m, t);
        unite(m, t, &start);
        place_range(m, repeat + 1, end, t);
    } while (unite(m, &start, t));
    touched_free(&start);
}

/* Marks where the grid meets. */
static void place_range(merging *m, int from, int to, touched *t)
{
    for (int i = from; i < to; i++) {
        const fb_launch *l = at(m, i);
        if (l->kind == FB_LAUNCH_REPEAT) {
            int end = end_of(m, i);
            m->meet[i] |= !is_empty(m, t);
            if (m->meet[i]) clear(m, t);
            if (goes_through(m, i) || is_apart(m, i, end))
                touch(t, at(m, i + 1));
            else
                place_loop(m, i, end, t);
            i = end;
        } else if (l->kind == FB_LAUNCH_SWAP) {
            exchange(t->read, l->swap_a, l->swap_b);
            exchange(t->written, l->swap_a, l->swap_b);
        } else if (l->kind == FB_LAUNCH_KERNEL) {
            m->meet[i] |= conflicts(m, t, l);
            if (m->meet[i]) clear(m, t);
            touch(t, l);
        }
    }
}

static void find_partners(merging *m)
{
    for (int b = 0; b < m->p->n_buffers; b++) m->partner[b] = FB_NONE;
    for (int i = m->first; i < m->last; i++) {
        if (at(m, i)->kind != FB_LAUNCH_SWAP) continue;
        m->partner[at(m, i)->swap_a] = at(m, i)->swap_b;
        m->partner[at(m, i)->swap_b] = at(m, i)->swap_a;
    }
}

/* ---- loops ---- */

/* Is there nothing but one loop? Then the argument is its trip count. */
static bool is_one_loop(const merging *m)
{
    return at(m, m->first)->kind == FB_LAUNCH_REPEAT && end_of(m, m->first) == m->last - 1;
}

/* Is the launch's value gone by the end of the step? A later launch may write where it lies, a loop inside may put
 * something else under its name. What changes places at the end of this step has its name until then. */
static bool is_overwritten(const merging *m, int launch, int end, int buffer)
{
    int depth = 0;
    for (int i = launch + 1; i < end; i++) {
        const fb_launch *l = at(m, i);
        depth += (l->kind == FB_LAUNCH_REPEAT) - (l->kind == FB_LAUNCH_END);
        if (l->kind == FB_LAUNCH_SWAP && depth > 0 && (l->swap_a == buffer || l->swap_b == buffer)) return true;
        if (l->kind == FB_LAUNCH_GEMM && share_memory(m, m->p->gemms[l->gemm].c, buffer)) return true;
        for (int a = 0; a < l->n_args; a++)
            if (writes(l, a) && share_memory(m, l->args[a], buffer)) return true;
    }
    return false;
}

static fb_inner_loop loop_of(const merging *m, int repeat, int end)
{
    fb_arena *arena = m->p->arena;
    fb_inner_loop loop = {.region = at(m, repeat)->region, .count = at(m, repeat)->count};
    FB_VEC(fb_place) reads = {0}, stores = {0};
    int(*swaps)[2] = fb_arena_alloc(arena, (size_t)(end - repeat) * sizeof *swaps), depth = 0;
    for (int i = repeat + 1; i < end; i++) {
        const fb_launch *l = at(m, i);
        depth += (l->kind == FB_LAUNCH_REPEAT) - (l->kind == FB_LAUNCH_END);
        if (l->kind == FB_LAUNCH_SWAP && !depth) {
            swaps[loop.n_swaps][0] = l->swap_a;
            swaps[loop.n_swaps++][1] = l->swap_b;
        }
        for (int k = 0; k < l->n_reads; k++) FB_VEC_PUSH(&reads, l->reads[k]);
        for (int k = 0; k < l->n_stores; k++)
            if (!is_overwritten(m, i, end, l->stores[k].buffer)) FB_VEC_PUSH(&stores, l->stores[k]);
    }
    loop.swaps = (const int(*)[2])swaps;
    loop.n_reads = reads.n;
    loop.reads = fb_arena_copy(arena, reads.at, (size_t)reads.n * sizeof *reads.at);
    loop.n_stores = stores.n;
    loop.stores = fb_arena_copy(arena, stores.at, (size_t)stores.n * sizeof *stores.at);
    FB_VEC_FREE(&reads);
    FB_VEC_FREE(&stores);
    return loop;
}

/* A loop of n steps has n + 1 numbers to stop at, so that its end and the beginning of the next one are told apart. */
static void find_loops(merging *m)
{
    int64_t first = 0;
    for (int i = m->first; i < m->last; i++) {
        if (at(m, i)->kind != FB_LAUNCH_REPEAT) continue;
        int end = end_of(m, i);
        fb_inner_loop loop = loop_of(m, i, end);
        loop.first = first;
        first += loop.count + 1;
        FB_VEC_PUSH(&m->loops, loop);
        i = end;
    }
}

/* What the argument is when nothing ends early; 0: there is no loop. */
static int64_t all_steps(const merging *m)
{
    const fb_inner_loop *last = m->loops.n ? &m->loops.at[m->loops.n - 1] : NULL;
    return !last ? 0 : is_one_loop(m) ? last->count : last->first + last->count + 1;
}

/* Is there nothing but one loop whose steps one kernel goes through? Then no blocks meet. */
static bool goes_through_alone(const merging *m)
{
    return m->target->grid && is_one_loop(m) && goes_through(m, m->first);
}

/* ---- arguments ---- */

/* "feature[3].layer_norm.mean" as a name that nothing else has. */
static const char *name_of(merging *m, int buffer)
{
    const char *from = m->p->buffers[buffer].name, *dot = strrchr(from, '.');
    char *to = fb_arena_printf(m->p->arena, "%.40s_at%d", dot ? dot + 1 : from, m->args.n);
    for (char *c = to; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    return to;
}

static int argument_of(merging *m, int buffer, fb_advance advance, bool written)
{
    fb_advance outer = advance.bytes && advance.level < m->level ? advance : (fb_advance){0};
    for (int i = 0; i < m->args.n; i++) {
        argument *a = &m->args.at[i];
        if (a->buffer != buffer || a->outer.bytes != outer.bytes || a->outer.level != outer.level ||
            a->outer.every != outer.every)
            continue;
        a->written |= written;
        return i;
    }
    FB_VEC_PUSH(&m->args, (argument){buffer, outer, written, name_of(m, buffer)});
    return m->args.n - 1;
}

/* A pointer: "h_at1 + 64 + 128 * step0", in elements; on the host in bytes. */
static const char *pointer(merging *m, int buffer, int64_t offset, fb_advance advance)
{
    const argument *a = &m->args.at[argument_of(m, buffer, advance, false)];
    int64_t size = m->target->grid ? fb_dtype_size(m->p->buffers[buffer].dtype) : 1;
    bool moves = advance.bytes && advance.level >= m->level;
    const char *text = a->name;
    if (offset) text = fb_arena_printf(m->p->arena, "%s + %" PRId64, text, offset / size);
    if (!moves) return text;
    int level = advance.level - m->level;
    if (advance.every > 1)
        return fb_arena_printf(m->p->arena, "%s + %" PRId64 " * (step%d / %" PRId64 ")", text, advance.bytes / size,
                               level, advance.every);
    return fb_arena_printf(m->p->arena, "%s + %" PRId64 " * step%d", text, advance.bytes / size, level);
}

static void find_args(merging *m)
{
    for (int i = m->first; i < m->last; i++) {
        const fb_launch *l = at(m, i);
        if (l->kind == FB_LAUNCH_SWAP) {
            argument_of(m, l->swap_a, (fb_advance){0}, true);
            argument_of(m, l->swap_b, (fb_advance){0}, true);
        }
        if (l->kind == FB_LAUNCH_GEMM) {
            const fb_gemm_call *g = &m->p->gemms[l->gemm];
            argument_of(m, g->a, g->a_advance, false);
            argument_of(m, g->b, g->b_advance, false);
            argument_of(m, g->c, g->c_advance, true);
        }
        if (l->kind != FB_LAUNCH_KERNEL && l->kind != FB_LAUNCH_GEMM) continue;
        for (int a = 0; a < l->n_args; a++) argument_of(m, l->args[a], advance_of(l, a), writes(l, a));
    }
}

/* ---- text ---- */

static void line(merging *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void line(merging *m, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fb_say_v(&m->to, FB_STATEMENT_LINE, "", format, ap);
    va_end(ap);
}

static void close_block(merging *m)
{
    fb_say_close(&m->to, "}");
}

/* Kernels of their own as functions that this one calls. */
static const fb_part *stages_of(merging *m, int *n)
{
    fb_part *stages = FB_NEW_ARRAY(m->p->arena, fb_part, m->p->n_kernels);
    *n = 0;
    for (int k = 0; k < m->p->n_kernels; k++) {
        const fb_kernel *x = &m->p->kernels[k];
        if (m->uses[k])
            stages[(*n)++] =
                (fb_part){.function = x->function, .stage = true, .often = m->uses[k] > 1, .keeps = x->stage};
    }
    return stages;
}

/* As they are at the steps at hand; those that move at `within` (FB_NONE: none) as they are before its first. */
static void add_pointers(merging *m, const fb_launch *l, int within, const char *separator, fb_str *call)
{
    for (int a = 0; a < l->n_args; a++) {
        fb_advance advance = advance_of(l, a);
        if (within != FB_NONE && advance.level == within) advance = (fb_advance){0};
        const char *text = pointer(m, l->args[a], l->offsets ? l->offsets[a] : 0, advance);
        fb_str_addf(call, "%s%s", a ? ", " : separator, text);
    }
}

static void add_call(merging *m, fb_str *call)
{
    line(m, "%s", fb_str_get(call));
    fb_str_free(call);
}

static int rounded(int bytes)
{
    enum { LINE = 128 };
    return (bytes + LINE - 1) / LINE * LINE;
}

/* Where the stage's operands stay, behind what all stages share and what those before keep, and whether the block's
 * columns are new. */
static void add_kept(merging *m, const fb_launch *l, const fb_kernel *k, fb_str *call)
{
    int from = rounded(m->shared), number = 0;
    for (int i = m->first; at(m, i) != l; i++) {
        if (!keeps(m, i)) continue;
        from += rounded(m->p->kernels[at(m, i)->kernel].stage.kept_shared);
        number++;
    }
    const char *columns = fb_arena_printf(m->p->arena, "at %% %d", k->grid[0]);
    if (k->grid[2] > 1)
        columns = fb_arena_printf(m->p->arena, "%s + at / %d * %d", columns, k->grid[0] * k->grid[1], k->grid[0]);
    fb_str_addf(call, ", fb_shared + %d, fb_keep(held%d, %s)", from, number, columns);
}

/* Stages that do not meet are at work side by side: every second one is dealt from the last block down, so that a small
 * one falls to blocks that the other leaves idle. */
static void open_blocks(merging *m, const fb_kernel *k, int64_t blocks)
{
    fb_say_loop(&m->to, &(fb_for){.type = "unsigned",
                                  .variable = "at",
                                  .first = m->from_end ? FB_GRID ".x - 1 - " FB_BLOCK ".x" : FB_BLOCK ".x",
                                  .last = fb_arena_printf(m->p->arena, "%" PRId64, blocks),
                                  .step = "gridDim.x",
                                  .also = fb_arena_printf(m->p->arena, "threadIdx.x < %d", k->block[0])});
    m->from_end = !m->from_end;
}

static void begin_block_call(const fb_kernel *k, fb_str *call)
{
    fb_str_addf(call, "%s(fb_block_at(at, %d, %d), {%d, %d, %d}", k->entry, k->grid[0], k->grid[1], k->grid[0],
                k->grid[1], k->grid[2]);
}

static void add_block_call(merging *m, const fb_launch *l)
{
    const fb_kernel *k = &m->p->kernels[l->kernel];
    int64_t blocks = (int64_t)k->grid[0] * k->grid[1] * k->grid[2];
    if (!blocks) return;
    open_blocks(m, k, blocks);
    fb_str call = {0};
    begin_block_call(k, &call);
    add_pointers(m, l, FB_NONE, ", ", &call);
    if (k->stage.kept_shared) add_kept(m, l, k, &call);
    fb_str_add(&call, ");");
    add_call(m, &call);
    if (!k->stage.alone) line(m, "fb_block_done<%d>();", k->block[0]);
    close_block(m);
}

/* All steps of the innermost of `loops` loops and the one at hand: so many of them, or as many as the argument says. */
static void add_through_call(merging *m, int repeat, const fb_inner_loop *outer, int loops)
{
    const fb_launch *l = at(m, repeat + 1);
    const fb_kernel *k = &m->p->kernels[l->kernel];
    const int64_t blocks = (int64_t)k->grid[0] * k->grid[1] * k->grid[2], count = at(m, repeat)->count;
    FB_ASSERT(end_of(m, repeat) == repeat + 2);
    if (!blocks) return;
    open_blocks(m, k, blocks);
    fb_str call = {0};
    begin_block_call(k, &call);
    add_pointers(m, l, m->level + loops, ", ", &call);
    if (!outer)
        fb_str_addf(&call, ", %" PRId64 ");", count);
    else if (is_one_loop(m))
        fb_str_add(&call, ", (int)steps);");
    else
        fb_str_addf(&call, ", (int)(steps - %" PRId64 " < %" PRId64 " ? steps - %" PRId64 " : %" PRId64 "));",
                    outer->first, count, outer->first, count);
    add_call(m, &call);
    close_block(m);
}

/* The step of a recurrence in clusters: each block has its own, and what it waits for comes from its cluster. */
static void add_round_call(merging *m, const fb_launch *l)
{
    const fb_kernel *k = &m->p->kernels[l->kernel];
    fb_str call = {0};
    fb_str_addf(&call, "%s(fb_block_at(blockIdx.x, %d, %d), {%d, %d, 1}", k->entry, k->grid[0], k->grid[1], k->grid[0],
                k->grid[1]);
    add_pointers(m, l, FB_NONE, ", ", &call);
    fb_str_add(&call, ", fb_kept, (int)step0, steps - step0);");
    add_call(m, &call);
}

static void add_plain_call(merging *m, const fb_launch *l)
{
    fb_str call = {0};
    if (l->kind == FB_LAUNCH_GEMM) {
        const fb_gemm_call *g = &m->p->gemms[l->gemm];
        fb_str_addf(&call, "args->gemm(args->device, args->first + %d, (void *[]){%s, ", l->gemm,
                    pointer(m, g->a, 0, g->a_advance));
        fb_str_addf(&call, "%s, ", pointer(m, g->b, 0, g->b_advance));
        fb_str_add(&call, pointer(m, g->c, 0, g->c_advance));
        add_pointers(m, l, FB_NONE, ", ", &call);
        fb_str_add(&call, "});");
        add_call(m, &call);
        return;
    }
    fb_str_addf(&call, "%s(&(fb_kernel_args){.buffers = (void *[]){", m->p->kernels[l->kernel].entry);
    add_pointers(m, l, FB_NONE, "", &call);
    fb_str_add(&call, "}, .last = INT64_MAX});");
    add_call(m, &call);
}

static void add_swap(merging *m, const fb_launch *l)
{
    const char *a = pointer(m, l->swap_a, 0, (fb_advance){0}), *b = pointer(m, l->swap_b, 0, (fb_advance){0});
    if (m->target->grid)
        line(m, "fb_exchange(%s, %s);", a, b);
    else
        line(m, "{ char *held = %s; %s = %s; %s = held; }", a, a, b, b);
}

/* Does a launch of first … last - 1 write where this buffer lies? */
static bool is_written(const merging *m, int first, int last, int buffer)
{
    for (int i = first; i < last; i++)
        for (int a = 0; a < at(m, i)->n_args; a++)
            if (writes(at(m, i), a) && may_share(m, at(m, i)->args[a], buffer)) return true;
    return false;
}

static bool was_fetched(const merging *m, int first, int launch, int arg)
{
    const fb_launch *l = at(m, launch);
    for (int i = first; i <= launch; i++) {
        const fb_launch *x = at(m, i);
        for (int a = 0; a < (i < launch ? x->n_args : arg); a++)
            if (x->args[a] == l->args[arg] && advance_of(x, a).bytes == advance_of(l, arg).bytes) return true;
    }
    return false;
}

/* What the steps of a loop read one after the other, and nothing in it makes, is asked for a step ahead. */
static void add_fetches(merging *m, int repeat, int loop)
{
    enum { LEAST = 128, MOST = 4 << 20 }; /* bytes a step */
    int end = end_of(m, repeat);
    for (int i = repeat + 1; i < end; i++) {
        const fb_launch *l = at(m, i);
        if (l->kind == FB_LAUNCH_KERNEL && m->p->kernels[l->kernel].stage.fetches) continue;
        for (int a = 0; l->kind == FB_LAUNCH_KERNEL && a < l->n_args; a++) {
            fb_advance advance = advance_of(l, a);
            const fb_buffer *b = &m->p->buffers[l->args[a]];
            int64_t bytes = advance.bytes, offset = l->offsets ? l->offsets[a] : 0, count = at(m, repeat)->count;
            bool back = bytes < 0 && at(m, repeat)->backwards;
            int64_t step = back ? -bytes : bytes;
            if (step < LEAST || step > MOST || advance.every > 1 || advance.level != m->level + loop || writes(l, a))
                continue;
            if (offset + (back ? step : step * count) > b->bytes) continue;
            if (is_written(m, repeat, end, l->args[a])) continue;
            if (was_fetched(m, repeat + 1, i, a)) continue;
            const char *trips = !loop && is_one_loop(m) ? "steps" : fb_arena_printf(m->p->arena, "%" PRId64, count);
            line(m, "if (step%d + 1 < %s) fb_fetch_ahead(%s + %" PRId64 ", %" PRId64 ");", loop, trips,
                 pointer(m, l->args[a], offset, advance), bytes / fb_dtype_size(b->dtype), step);
        }
    }
}

/* Of `count` steps, or as many as the argument says: outer. */
static void open_loop(merging *m, const fb_inner_loop *outer, int64_t count, int loops)
{
    fb_arena *arena = m->p->arena;
    fb_for loop = {.type = "int64_t",
                   .variable = fb_arena_printf(arena, "step%d", loops),
                   .first = "0",
                   .last = outer && is_one_loop(m) ? "steps" : fb_arena_printf(arena, "%" PRId64, count)};
    if (outer && !is_one_loop(m))
        loop.also = outer->first ? fb_arena_printf(arena, "step%d < steps - %" PRId64, loops, outer->first)
                                 : fb_arena_printf(arena, "step%d < steps", loops);
    fb_say_loop(&m->to, &loop);
}

/* Behind outermost loop number `outer`, whose END is launch `end`. */
static void end_outermost(merging *m, int end, int outer)
{
    if (end < m->last - 1)
        line(m, "if (steps <= %" PRId64 ") return;", m->loops.at[outer].first + m->loops.at[outer].count);
}

static void add_body(merging *m)
{
    int loops = 0, outer = 0;
    bool after = false, alone; /* after: a stage whose warps meet may still be at work in this block */
    for (int i = m->first; i < m->last; i++) {
        const fb_launch *l = at(m, i);
        switch (l->kind) {
        case FB_LAUNCH_REPEAT:
            if (m->meet[i]) line(m, "fb_meet_all();");
            if (goes_through(m, i)) {
                add_through_call(m, i, loops ? NULL : &m->loops.at[outer], loops);
                i = end_of(m, i);
                if (!loops) end_outermost(m, i, outer++);
                break;
            }
            open_loop(m, loops ? NULL : &m->loops.at[outer], l->count, loops);
            loops++;
            after = true;
            break;
        case FB_LAUNCH_END:
            close_block(m);
            if (!--loops) end_outermost(m, i, outer++);
            break;
        case FB_LAUNCH_SWAP: add_swap(m, l); break;
        case FB_LAUNCH_GEMM: add_plain_call(m, l); break;
        case FB_LAUNCH_KERNEL:
            if (!m->target->grid) {
                add_plain_call(m, l);
                break;
            }
            if (m->meet[i] && !m->round) line(m, "fb_meet_all();");
            alone = m->p->kernels[l->kernel].stage.alone;
            if (!m->meet[i] && after && !alone && !m->round) line(m, "__syncthreads();");
            after = !alone || (after && !m->meet[i]);
            if (i > m->first && at(m, i - 1)->kind == FB_LAUNCH_REPEAT) add_fetches(m, i - 1, loops - 1);
            (m->round ? add_round_call : add_block_call)(m, l);
            break;
        }
    }
}

/* Which columns' operands a block has for each stage that keeps some: none yet. */
static void declare_kept(merging *m)
{
    int number = 0;
    for (int i = m->first; i < m->last; i++) {
        if (!keeps(m, i)) continue;
        if (!number) line(m, "extern __shared__ __align__(16) unsigned char fb_shared[];");
        line(m, "unsigned held%d = ~0u;", number++);
    }
}

static const fb_function *function_of(merging *m, const char *name, const char *what)
{
    fb_arena *arena = m->p->arena;
    bool grid = m->target->grid;
    fb_function *f = FB_NEW(arena, fb_function);
    fb_parameter *parameters = FB_NEW_ARRAY(arena, fb_parameter, m->args.n);
    for (int i = 0; i < m->args.n; i++) {
        fb_dtype dtype = m->p->buffers[m->args.at[i].buffer].dtype;
        parameters[i] =
            (fb_parameter){.type = grid ? m->target->spelling.type[dtype].memory : "char", .name = m->args.at[i].name};
    }
    *f = (fb_function){.target = m->target,
                       .name = name,
                       .entry = fb_arena_printf(arena, "%s_kernel", name),
                       .about =
                           fb_arena_printf(arena, " * %s, one kernel behind the other%s */\n", what,
                                           m->round ? ": each cluster of blocks takes some rows through all steps"
                                           : goes_through_alone(m) ? ": each thread goes through all steps by itself"
                                           : grid ? ": blocks are dealt out, and the grid meets where data flows"
                                                  : ""),
                       .n_parameters = m->args.n,
                       .parameters = parameters,
                       .steps = m->loops.n > 0,
                       .threads = m->threads,
                       .sharing = m->round || goes_through_alone(m) ? 1 : 0,
                       .cluster = m->round ? m->needs.cluster : 0,
                       .apart = true};
    f->stages = stages_of(m, &f->n_stages);
    m->to = fb_say_to(arena, &f->body);
    if (!grid) line(m, "%s", "");
    if (grid) declare_kept(m);
    if (m->round) line(m, "%s fb_kept;", m->round);
    add_body(m);
    fb_say_end(&m->to);
    return f;
}

/* ---- the program with it ---- */

static void find_stages(merging *m)
{
    for (int i = m->first; i < m->last; i++) {
        if (at(m, i)->kind != FB_LAUNCH_KERNEL) continue;
        const fb_kernel *k = &m->p->kernels[at(m, i)->kernel];
        int64_t blocks = (int64_t)k->grid[0] * k->grid[1] * k->grid[2];
        m->uses[at(m, i)->kernel]++;
        if (k->block[0] > m->threads) m->threads = k->block[0];
        if (k->dynamic_shared > m->shared) m->shared = k->dynamic_shared;
        if (k->stage.round) m->round = k->stage.round, m->needs.cluster = k->needs.cluster;
        m->needs.texts |= k->needs.texts;
        m->needs.warpgroups |= k->needs.warpgroups;
        if (blocks > m->blocks) m->blocks = blocks;
    }
}

static int64_t blocks_of(const merging *m, int i)
{
    const fb_kernel *k = &m->p->kernels[at(m, i)->kernel];
    return (int64_t)k->grid[0] * k->grid[1] * k->grid[2];
}

/* Blocks for a stage and a much smaller one beside it, where no meeting of the grid parts them. */
static void count_beside(merging *m, int a, int b)
{
    enum { MUCH = 4 };
    if (a == FB_NONE || b == FB_NONE || m->meet[b]) return;
    int64_t x = blocks_of(m, a), y = blocks_of(m, b), most = x > y ? x : y, least = x + y - most;
    if (least * MUCH <= most && most + least > m->blocks) m->blocks = most + least;
}

static void make_room(merging *m)
{
    int last = FB_NONE, first[FB_MAX_REPEATS + 1], depth = 0;
    first[0] = FB_NONE;
    for (int i = m->first; i < m->last; i++) {
        switch (at(m, i)->kind) {
        case FB_LAUNCH_REPEAT: first[++depth] = FB_NONE; break;
        case FB_LAUNCH_END: count_beside(m, last, first[depth--]); break;
        case FB_LAUNCH_KERNEL:
            count_beside(m, last, i);
            last = i;
            for (int d = 0; d <= depth; d++)
                if (first[d] == FB_NONE) first[d] = i;
            break;
        case FB_LAUNCH_SWAP:
        case FB_LAUNCH_GEMM: break;
        }
    }
}

/* The more blocks meet, the longer that takes (three meetings a step on an H200: 2.9 µs of 132 blocks, 3.6 of 264, 4.9 of
 * 511), and threads of a stage wait for little: two blocks a multiprocessor, unless stages have work for many or keep
 * columns that others would have to read again. */
static void make_few(merging *m, int units)
{
    enum { EACH = 2, ROUNDS = 4 };
    bool keep = false;
    for (int i = m->first; i < m->last; i++) keep |= keeps(m, i);
    int64_t few = (int64_t)EACH * units;
    if (!keep && !m->round && m->blocks > few && m->blocks <= ROUNDS * few) m->blocks = few;
}

/* What stages need while they are at work is one place for all of them; what they keep is not. */
static int shared_of(const merging *m)
{
    int kept = 0;
    for (int i = m->first; i < m->last; i++)
        if (keeps(m, i)) kept += rounded(m->p->kernels[at(m, i)->kernel].stage.kept_shared);
    return kept ? rounded(m->shared) + kept : m->shared;
}

static int by_node(const void *a, const void *b)
{
    fb_id x = *(const fb_id *)a, y = *(const fb_id *)b;
    return (x > y) - (x < y);
}

/* All nodes of the kernels inside, each once; their figures once a step. */
static void sum_up(const merging *m, fb_kernel *to)
{
    FB_VEC(fb_id) nodes = {0};
    double times[FB_MAX_REPEATS + 1] = {1};
    int depth = 0;
    for (int i = m->first; i < m->last; i++) {
        const fb_launch *l = at(m, i);
        if (l->kind == FB_LAUNCH_REPEAT) times[depth + 1] = times[depth] * (double)l->count, depth++;
        if (l->kind == FB_LAUNCH_END) depth--;
        int number = l->kind == FB_LAUNCH_KERNEL ? l->kernel
                     : l->kind == FB_LAUNCH_GEMM ? m->p->gemms[l->gemm].epilogue
                                                 : FB_NONE;
        if (number == FB_NONE) continue;
        const fb_kernel *k = &m->p->kernels[number];
        to->cost.us += k->cost.us * times[depth];
        to->cost.memory_us += k->cost.memory_us * times[depth];
        to->cost.compute_us += k->cost.compute_us * times[depth];
        to->cost.bytes_read += (int64_t)((double)k->cost.bytes_read * times[depth]);
        to->cost.bytes_written += (int64_t)((double)k->cost.bytes_written * times[depth]);
        to->cost.flops += (int64_t)((double)k->cost.flops * times[depth]);
        to->cost.specials += (int64_t)((double)k->cost.specials * times[depth]);
        for (int n = 0; n < k->n_nodes; n++) FB_VEC_PUSH(&nodes, k->nodes[n]);
    }
    to->cost.launches = 1;
    if (nodes.n) qsort(nodes.at, (size_t)nodes.n, sizeof *nodes.at, by_node);
    int kept = 0;
    for (int i = 0; i < nodes.n; i++)
        if (!kept || nodes.at[kept - 1] != nodes.at[i]) nodes.at[kept++] = nodes.at[i];
    to->n_nodes = kept;
    to->nodes = fb_arena_copy(m->p->arena, nodes.at, (size_t)kept * sizeof *nodes.at);
    FB_VEC_FREE(&nodes);
}

static fb_launch launch_of(const merging *m, int kernel)
{
    fb_arena *arena = m->p->arena;
    int n = m->args.n;
    int *args = FB_NEW_ARRAY(arena, int, n + 1);
    bool *written = FB_NEW_ARRAY(arena, bool, n + 1), moves = false;
    fb_advance *advances = FB_NEW_ARRAY(arena, fb_advance, n + 1);
    for (int i = 0; i < n; i++) {
        args[i] = m->args.at[i].buffer;
        written[i] = m->args.at[i].written;
        advances[i] = m->args.at[i].outer;
        moves |= advances[i].bytes != 0;
    }
    return (fb_launch){.kind = FB_LAUNCH_KERNEL,
                       .kernel = kernel,
                       .gemm = 0,
                       .group = FB_NONE,
                       .n_args = n,
                       .args = args,
                       .written = written,
                       .advances = moves ? advances : NULL,
                       .steps = all_steps(m),
                       .n_loops = m->loops.n,
                       .loops = fb_arena_copy(arena, m->loops.at, (size_t)m->loops.n * sizeof *m->loops.at)};
}

/* Kernels that nothing launches any more go. */
static void drop_kernels(fb_program *p)
{
    int *to = fb_alloc(((size_t)p->n_kernels + 1) * sizeof *to), n = 0;
    for (int k = 0; k < p->n_kernels; k++) {
        bool used = false;
        for (int i = 0; i < p->n_launches && !used; i++)
            used = p->launches[i].kind == FB_LAUNCH_KERNEL && p->launches[i].kernel == k;
        for (int g = 0; g < p->n_gemms && !used; g++) used = p->gemms[g].epilogue == k;
        to[k] = used ? n : FB_NONE;
        if (used) p->kernels[n++] = p->kernels[k];
    }
    for (int i = 0; i < p->n_launches; i++)
        if (p->launches[i].kind == FB_LAUNCH_KERNEL) p->launches[i].kernel = to[p->launches[i].kernel];
    for (int g = 0; g < p->n_gemms; g++)
        if (p->gemms[g].epilogue != FB_NONE) p->gemms[g].epilogue = to[p->gemms[g].epilogue];
    p->n_kernels = n;
    fb_free(to);
}

/* The launches before, the merged one, the swaps it leaves, the launches after. */
static void replace(merging *m, const fb_kernel *kernel)
{
    fb_program *p = m->p;
    FB_VEC(fb_launch) list = {0};
    for (int i = 0; i < m->first; i++) FB_VEC_PUSH(&list, p->launches[i]);
    FB_VEC_PUSH(&list, launch_of(m, p->n_kernels));
    bool odd[FB_MAX_REPEATS + 1] = {true};
    int depth = 0;
    for (int i = m->first; i < m->last; i++) {
        const fb_launch *l = at(m, i);
        if (l->kind == FB_LAUNCH_REPEAT) odd[depth + 1] = odd[depth] && l->count % 2, depth++;
        if (l->kind == FB_LAUNCH_END) depth--;
        if (l->kind == FB_LAUNCH_SWAP && odd[depth]) FB_VEC_PUSH(&list, *l);
    }
    for (int i = m->last; i < p->n_launches; i++) FB_VEC_PUSH(&list, p->launches[i]);
    fb_kernel *kernels = FB_NEW_ARRAY(p->arena, fb_kernel, p->n_kernels + 1);
    if (p->n_kernels) memcpy(kernels, p->kernels, (size_t)p->n_kernels * sizeof *kernels);
    kernels[p->n_kernels++] = *kernel;
    p->kernels = kernels;
    p->launches = fb_arena_copy(p->arena, list.at, (size_t)list.n * sizeof *list.at);
    p->n_launches = list.n;
    FB_VEC_FREE(&list);
    drop_kernels(p);
}

static bool can_merge(merging *m, const char *what, fb_error *err)
{
    for (int i = m->first; i < m->last && !m->target->calls_library; i++)
        if (at(m, i)->kind == FB_LAUNCH_GEMM)
            return fb_fail(err, FB_ERR_LIMIT,
                           "%s is one kernel, and %s is a library call: a contraction inside must be generated", what,
                           m->p->buffers[m->p->gemms[at(m, i)->gemm].c].name);
    for (int i = m->first; i < m->last; i++)
        if (at(m, i)->n_products)
            return fb_fail(err, FB_ERR_LIMIT, "%s is one kernel, and the chain %s in it calls the library by itself",
                           what, m->p->kernels[at(m, i)->kernel].name);
    if (m->args.n <= MOST_ARGS) return true;
    return fb_fail(err, FB_ERR_LIMIT, "%s as one kernel would read and write %d tensors; %d is the most", what,
                   m->args.n, MOST_ARGS);
}

static void free_all(merging *m)
{
    FB_VEC_FREE(&m->args);
    FB_VEC_FREE(&m->loops);
    fb_free(m->meet);
    fb_free(m->uses);
    fb_free(m->partner);
}

static bool name_taken(const fb_program *p, const char *name)
{
    for (int i = 0; i < p->n_kernels; i++)
        if (strcmp(p->kernels[i].name, name) == 0) return true;
    return false;
}

bool fb_program_merge(fb_program *p, const fb_target *target, int units, int first, int last, const char *what,
                      const char *wish, fb_error *err)
{
    merging m = {.p = p, .target = target, .first = first, .last = last, .threads = target->warp};
    for (int i = 0; i < first; i++)
        m.level += (p->launches[i].kind == FB_LAUNCH_REPEAT) - (p->launches[i].kind == FB_LAUNCH_END);
    m.meet = fb_calloc((size_t)p->n_launches + 1, sizeof *m.meet);
    m.uses = fb_calloc((size_t)p->n_kernels + 1, sizeof *m.uses);
    m.partner = fb_calloc((size_t)p->n_buffers + 1, sizeof *m.partner);
    find_stages(&m);
    find_args(&m);
    if (!can_merge(&m, what, err)) {
        free_all(&m);
        return false;
    }
    find_partners(&m);
    find_loops(&m);
    touched t = touched_new(&m);
    if (target->grid) {
        place_range(&m, first, last, &t);
        make_room(&m);
        if (!goes_through_alone(&m)) make_few(&m, units);
    }
    touched_free(&t);
    const char *name = wish;
    for (int i = 2; name_taken(p, name); i++) name = fb_arena_printf(p->arena, "%s_%d", wish, i);
    const fb_function *f = function_of(&m, name, what);
    fb_kernel k = {.name = name,
                   .entry = f->entry,
                   .function = f,
                   .source = fb_function_text(f, p->arena),
                   .family = FB_FAMILY_SCAN,
                   .group = FB_NONE,
                   .n_args = m.args.n,
                   .needs = m.needs,
                   .merged = true};
    if (target->grid) {
        k.grid[0] = (int)(m.blocks < 1 ? 1 : m.blocks > 65535 ? 65535 : m.blocks);
        k.block[0] = m.threads;
        k.grid[1] = k.grid[2] = k.block[1] = k.block[2] = 1;
        k.dynamic_shared = shared_of(&m);
        k.needs.meets = m.round ? FB_MEETS_CLUSTER : goes_through_alone(&m) ? FB_MEETS_NOBODY : FB_MEETS_GRID;
    }
    fb_emit_show_merged(&k);
    sum_up(&m, &k);
    replace(&m, &k);
    free_all(&m);
    return true;
}
