/* The walk: a program run launch by launch, and who vouches for each byte that is read.
 *
 * requires  a loaded program with places (code/program.h), its sources written
 * provides  the first kernel that is wrong, or that there is none
 *
 * Custody: `known` holds, of each node, the digest of what was stored for it when it was stored and judged. A launch
 * that reads a node must find these bytes. Memory is cut into segments whose digests are kept up to date: after a
 * launch only those of its declared outputs may be others. In a loop, a carried value is what its yield was at the end
 * of the step before; an item is a slice of what is scanned. Steps that are not looked at vouch for nothing. */
#include "measure/check_parts.h"

#include "base/hash.h"
#include "base/integer.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/vec.h"
#include "graph/access.h"
#include "graph/storage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256 };
static const double most_digested = 3e10; /* bytes, in all; beyond, memory is looked at after every so many launches */

typedef struct {
    bool there;
    uint64_t digest;
} known;

/* A piece of memory: of a buffer's own storage, or (FB_NONE) of the pool of temporaries. */
typedef struct {
    int storage;
    int64_t offset, bytes;
    uint64_t digest;
} segment;

/* Supports of what the first launch of a kernel read. */
typedef struct {
    fb_hash code;
    int launch;
    fb_support *support;
} seen_kernel;

typedef struct {
    const fb_check_job *job;
    const fb_device_ops *ops;
    const fb_stepping *stepping;
    const fb_progress *progress;
    fb_check_result *out;
    fb_error *err;
    int64_t step[FB_MAX_REPEATS], trips[FB_MAX_REPEATS];
    fb_id region[FB_MAX_REPEATS];
    int depth;
    known *of; /* a node */
    FB_VEC(segment) memory;
    bool stale; /* launches went by unseen since digests were taken */
    int64_t every, since;
    FB_VEC(seen_kernel) seen;
    int64_t looked, to_look;
    uint64_t gaps;       /* digest of memory between buffers */
    bool stopped;        /* something is wrong */
    fb_watched *watched; /* NULL: kernels are judged; else nothing is, and what is stored for its node is taken */
} walk;

static const fb_graph *graph_of(const walk *w)
{
    return w->job->g;
}

static int last_buffer(const walk *w)
{
    return w->job->last_buffer ? w->job->last_buffer : w->job->program->n_buffers;
}

/* ---- memory ---- */

static int64_t aligned(int64_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The pool is cut where any temporary begins or ends; what lies between belongs to nobody, and may not change either.
 * Of one part of several that are joined, only its own memory is looked at. */
static void cut_memory(walk *w)
{
    const fb_program *p = w->job->program;
    bool all = w->job->first_buffer == 0 && last_buffer(w) == p->n_buffers;
    int64_t *cuts = fb_alloc((2 * (size_t)p->n_buffers + 2) * sizeof *cuts);
    int n = 0;
    if (all) {
        cuts[n++] = 0;
        cuts[n++] = p->pool_bytes;
    }
    for (int b = w->job->first_buffer; b < last_buffer(w); b++) {
        const fb_buffer *buffer = &p->buffers[b];
        if (buffer->kind != FB_BUFFER_TEMP) {
            int64_t bytes = buffer->bytes, tail = aligned(bytes) - bytes;
            if (bytes) FB_VEC_PUSH(&w->memory, ((segment){b, 0, bytes, 0}));
            if (bytes && tail) FB_VEC_PUSH(&w->memory, ((segment){b, bytes, tail, 0}));
            continue;
        }
        int64_t end = buffer->offset + buffer->bytes;
        cuts[n++] = buffer->offset;
        cuts[n++] = end < p->pool_bytes ? end : p->pool_bytes;
    }
    if (n) qsort(cuts, (size_t)n, sizeof *cuts, fb_by_int64);
    for (int i = 1; i < n; i++)
        if (cuts[i] > cuts[i - 1]) FB_VEC_PUSH(&w->memory, ((segment){FB_NONE, cuts[i - 1], cuts[i] - cuts[i - 1], 0}));
    fb_free(cuts);
}

static int64_t memory_bytes(const walk *w)
{
    int64_t all = 0;
    for (int i = 0; i < w->memory.n; i++) all += w->memory.at[i].bytes;
    return all;
}

static bool digest_memory(walk *w)
{
    for (int i = 0; i < w->memory.n; i++) {
        segment *s = &w->memory.at[i];
        if (!w->stepping->digest(w->job->loaded, s->storage, s->offset, s->bytes, &s->digest, w->err)) return false;
    }
    if (w->stepping->digest_gaps) w->gaps = w->stepping->digest_gaps(w->job->loaded);
    w->stale = false;
    return true;
}

static bool covers(const walk *w, int buffer, const segment *s)
{
    int storage = w->stepping->storage(w->job->loaded, buffer);
    const fb_buffer *b = &w->job->program->buffers[storage];
    if (b->kind != FB_BUFFER_TEMP) return s->storage == storage && s->offset < b->bytes;
    return s->storage == FB_NONE && s->offset >= b->offset && s->offset + s->bytes <= b->offset + b->bytes;
}

static bool is_output_of(const walk *w, const fb_launch *l, const segment *s)
{
    for (int a = 0; a < l->n_args; a++)
        if ((!l->written || l->written[a]) && covers(w, l->args[a], s)) return true;
    for (int k = 0; k < l->n_stores; k++)
        if (covers(w, l->stores[k].buffer, s)) return true;
    return l->kind == FB_LAUNCH_GEMM && covers(w, w->job->program->gemms[l->gemm].c, s);
}

static const char *const beside = "memory between buffers";

static const char *owner_of(const walk *w, const segment *s)
{
    const fb_program *p = w->job->program;
    if (s->storage != FB_NONE && s->offset >= p->buffers[s->storage].bytes) return beside;
    if (s->storage != FB_NONE) return p->buffers[s->storage].name;
    for (int b = 0; b < p->n_buffers; b++) {
        const fb_buffer *t = &p->buffers[b];
        if (t->kind == FB_BUFFER_TEMP && s->offset >= t->offset && s->offset < t->offset + t->bytes) return t->name;
    }
    return beside;
}

/* ---- findings ---- */

__attribute__((format(printf, 3, 4))) static void found(walk *w, const fb_launch *l, const char *format, ...)
{
    fb_error_report *e = &w->out->error;
    fb_str s = {0};
    va_list ap;
    va_start(ap, format);
    fb_str_vaddf(&s, format, ap);
    va_end(ap);
    fb_text_clean(e->worst, sizeof e->worst, s.text, s.n);
    snprintf(e->kernel, sizeof e->kernel, "%.63s", l ? fb_check_launch_name(w->job->program, l) : "");
    fb_str_free(&s);
    e->ok = false;
    e->state = FB_CHECK_WRONG;
    e->bound = INFINITY;
    w->stopped = true;
}

/* Everything but the launch's outputs is as it was. */
static bool look_at_memory(walk *w, const fb_launch *l)
{
    for (int i = 0; i < w->memory.n; i++) {
        segment *s = &w->memory.at[i];
        uint64_t before = s->digest;
        if (!w->stepping->digest(w->job->loaded, s->storage, s->offset, s->bytes, &s->digest, w->err)) return false;
        if (before != s->digest && !w->stopped && !is_output_of(w, l, s))
            found(w, l, "it wrote to %.48s, which is none of its outputs", owner_of(w, s));
    }
    uint64_t gaps = w->stepping->digest_gaps ? w->stepping->digest_gaps(w->job->loaded) : w->gaps;
    if (gaps != w->gaps && !w->stopped) found(w, l, "it wrote to %s, which is none of its outputs", beside);
    w->gaps = gaps;
    return true;
}

/* ---- custody ---- */

static known known_of(const walk *w, fb_id node)
{
    fb_id base;
    if (w->of[node].there || !fb_access_whole(graph_of(w), node, &base)) return w->of[node];
    return w->of[base];
}

static void forget(walk *w, fb_id node)
{
    w->of[node].there = false;
}

/* The depth of the loop that owns the node's region among those that are open. */
static int level_of(const walk *w, fb_id node)
{
    for (int d = 0; d < w->depth; d++)
        if (w->region[d] == graph_of(w)->nodes[node].region) return d;
    return 0;
}

static bool is_custody_kept(walk *w, const fb_launch *l, const fb_one_launch *one)
{
    for (int k = 0; k < l->n_reads && !w->stopped; k++) {
        fb_id node = l->reads[k].node;
        const fb_node *n = &graph_of(w)->nodes[node];
        known was = known_of(w, node);
        uint64_t now = one->digest[k];
        if (n->op == FB_OP_STEP) {
            int64_t at;
            memcpy(&at, one->bytes[k], sizeof at);
            if (at != w->step[level_of(w, node)])
                found(w, l, "it reads %lld for step %lld of its loop", (long long)at,
                      (long long)w->step[level_of(w, node)]);
        } else if (was.there && was.digest != now) {
            found(w, l, "what it reads as %.48s is not what was stored for that", n->name);
        }
    }
    return !w->stopped;
}

/* Compares memory with the buffer's image, in pieces: a copy of all of it would cost as much again as the source, and
 * most of the time in fresh pages. `holds` is true before. */
static bool holds_image(walk *w, int b, bool *holds)
{
    enum { PIECE = 64 << 20 };
    const fb_buffer *buffer = &w->job->program->buffers[b];
    const char *image = w->job->images[b];
    void *now = fb_try_alloc((size_t)(buffer->bytes < PIECE ? buffer->bytes : PIECE) + 1);
    if (!now) return fb_fail(w->err, FB_ERR_LIMIT, "%s: no memory to check it in", buffer->name);
    bool ok = true;
    for (int64_t at = 0, n; ok && *holds && at < buffer->bytes; at += n) {
        n = buffer->bytes - at < PIECE ? buffer->bytes - at : PIECE;
        ok = w->stepping->peek(w->job->loaded, b, at, n, now, w->err);
        *holds = ok && fb_parallel_equal(now, image + at, (size_t)n);
    }
    fb_free(now);
    return ok;
}

/* Sources hold what was written to them. */
static bool check_sources(walk *w)
{
    const fb_program *p = w->job->program;
    for (int b = w->job->first_buffer; b < last_buffer(w); b++) {
        const fb_buffer *buffer = &p->buffers[b];
        bool holds = true;
        if (!w->job->images[b] || (buffer->kind != FB_BUFFER_INPUT && buffer->kind != FB_BUFFER_PARAM)) continue;
        if (!holds_image(w, b, &holds)) return false;
        if (!holds) found(w, NULL, "%.48s does not hold what was written to it", buffer->name);
        w->of[buffer->node] = (known){true, fb_digest(w->job->images[b], (size_t)buffer->bytes)};
    }
    return true;
}

/* What scanned tensors hold at this step, where it lies as a slice in what is scanned. */
static bool know_items(walk *w, fb_id region, int level)
{
    const fb_graph *g = graph_of(w);
    const fb_region *r = &g->regions[region];
    for (int i = 0; i < r->n_items; i++) {
        if (r->items[i] == FB_NONE) continue;
        forget(w, r->items[i]);
        fb_id base, scanned = g->nodes[r->loop].args[r->n_carried + i];
        if (!fb_access_whole(g, scanned, &base)) base = scanned;
        for (int b = w->job->first_buffer; b < last_buffer(w); b++) {
            const fb_buffer *buffer = &w->job->program->buffers[b];
            int64_t bytes = fb_node_bytes(g, r->items[i]);
            if (buffer->node != base || !w->job->images[b]) continue;
            w->of[r->items[i]] =
                (known){true, fb_digest((const char *)w->job->images[b] + fb_region_place(r, w->step[level]) * bytes,
                                        (size_t)bytes)};
        }
    }
    return true;
}

/* ---- one launch ---- */

static bool is_looked_at(const walk *w)
{
    for (int d = 0; d < w->depth; d++) {
        int64_t t = w->step[d], n = w->trips[d], middle = n / 2;
        if (t != 0 && t != 1 && t != middle && t != middle + 1 && t != n - 2 && t != n - 1) return false;
    }
    return true;
}

static void remember_support(walk *w, const fb_launch *l, int launch, const fb_one_launch *one)
{
    seen_kernel k = {fb_program_launch_code(w->job->program, l), launch, NULL};
    for (int i = 0; i < w->seen.n; i++)
        if (fb_hash_equal(w->seen.at[i].code, k.code)) return;
    k.support = fb_calloc((size_t)l->n_reads + 1, sizeof *k.support);
    for (int r = 0; r < l->n_reads; r++) {
        const fb_node *n = &graph_of(w)->nodes[l->reads[r].node];
        k.support[r] = fb_support_of(n->dtype, fb_shape_elements(&n->shape), one->bytes[r]);
    }
    FB_VEC_PUSH(&w->seen, k);
}

/* Takes over the report of one launch. */
static void add_report(walk *w, const fb_error_report *one)
{
    fb_error_report *all = &w->out->error;
    fb_check_add_error(all, one);
    if (one->state == FB_CHECK_OVERFLOW && all->state == FB_CHECK_RIGHT) {
        all->state = FB_CHECK_OVERFLOW;
        memcpy(all->worst, one->worst, sizeof all->worst);
    }
    if (one->ok) return;
    all->state = FB_CHECK_WRONG;
    w->stopped = true;
}

static void note_stores(walk *w, const fb_launch *l, const uint64_t *digest)
{
    for (int k = 0; k < l->n_stores; k++) {
        if (digest)
            w->of[l->stores[k].node] = (known){true, digest[k]};
        else
            forget(w, l->stores[k].node);
    }
}

static bool say_where(walk *w, const char *what, double part)
{
    const fb_progress *p = w->progress;
    if (!p || !p->step || p->step(p->ctx, what, part < 1 ? part : 1)) return true;
    return fb_fail(w->err, FB_ERR_CANCELLED, "cancelled while checking the kernels");
}

/* Of two sets of inputs each is half of the work. */
static bool say_first(walk *w)
{
    char what[64];
    double part = w->to_look ? (double)w->looked / (double)w->to_look : 0;
    snprintf(what, sizeof what, "checking kernel %lld of %lld", (long long)w->looked + 1, (long long)w->to_look);
    if (w->watched) snprintf(what, sizeof what, "running launch %lld", (long long)w->looked);
    return say_where(w, what, w->job->second ? part / 2 : part);
}

static bool say_second(walk *w, int number)
{
    char what[64];
    snprintf(what, sizeof what, "checking kernel %d of %d on other inputs", number + 1, w->seen.n);
    return say_where(w, what, 0.5 + 0.5 * number / w->seen.n);
}

static bool look(walk *w, int launch)
{
    const fb_launch *l = &w->job->program->launches[launch];
    fb_one_launch one = {.job = w->job, .launch = launch, .step = w->step};
    fb_error_report report = {.ok = true};
    uint64_t *digest = fb_calloc((size_t)l->n_stores + 1, sizeof *digest);
    bool ok = say_first(w) && (!w->stale || digest_memory(w)) && fb_one_take(&one, w->err);
    if (ok) remember_support(w, l, launch, &one);
    bool good = ok && is_custody_kept(w, l, &one);
    ok = ok && (!good || w->stepping->launch(w->job->loaded, launch, w->step, w->err));
    if (ok && good && l->n_stores) ok = fb_one_judge(&one, digest, &report, w->progress, w->err);
    if (ok && good) {
        add_report(w, &report);
        note_stores(w, l, digest);
        w->out->error.kernels += l->n_stores > 0;
        w->looked++;
        if (++w->since >= w->every) {
            ok = look_at_memory(w, l);
            w->since = 0;
        } else {
            w->stale = true;
        }
    }
    fb_one_free(&one);
    fb_free(digest);
    return ok;
}

static bool pass_by(walk *w, int launch)
{
    note_stores(w, &w->job->program->launches[launch], NULL);
    w->stale = true;
    return w->stepping->launch(w->job->loaded, launch, w->step, w->err);
}

/* ---- watching one value ---- */

static bool take_watched(walk *w, const char *by, int buffer, int64_t offset)
{
    fb_watched *to = w->watched;
    size_t bytes = (size_t)fb_node_bytes(graph_of(w), to->node);
    const char *name = graph_of(w)->nodes[to->node].name;
    if (!to->bytes) to->bytes = fb_try_alloc(bytes + 1);
    if (!to->bytes) return fb_fail(w->err, FB_ERR_LIMIT, "%s: no memory to look at it in", name);
    to->by = by;
    return w->stepping->peek(w->job->loaded, buffer, offset, (int64_t)bytes, to->bytes, w->err);
}

/* What a loop collected over its steps is there when it ends. */
static bool watch_result(walk *w, fb_id region)
{
    const fb_node *n = &graph_of(w)->nodes[w->watched->node];
    if (n->op != FB_OP_RESULT || n->args[0] != graph_of(w)->regions[region].loop) return true;
    for (int b = w->job->first_buffer; b < last_buffer(w); b++)
        if (w->job->program->buffers[b].node == w->watched->node) return take_watched(w, "its loop", b, 0);
    return true;
}

static bool watch(walk *w, int launch)
{
    const fb_launch *l = &w->job->program->launches[launch];
    w->looked++;
    if (!say_first(w) || !w->stepping->launch(w->job->loaded, launch, w->step, w->err)) return false;
    for (int k = 0; k < l->n_stores; k++)
        if (l->stores[k].node == w->watched->node &&
            !take_watched(w, fb_check_launch_name(w->job->program, l), l->stores[k].buffer,
                          fb_place_at(&l->stores[k], w->step)))
            return false;
    return true;
}

/* ---- loops ---- */

static void know_carried(walk *w, fb_id region, bool first)
{
    const fb_graph *g = graph_of(w);
    const fb_region *r = &g->regions[region];
    known *next = fb_calloc((size_t)r->n_carried + 1, sizeof *next);
    for (int i = 0; i < r->n_carried; i++) next[i] = known_of(w, first ? g->nodes[r->loop].args[i] : r->yields[i]);
    for (int i = 0; i < r->n_carried; i++)
        if (r->carried[i] != FB_NONE) w->of[r->carried[i]] = next[i];
    fb_free(next);
}

/* Parameters that the body assigns to hold the new value from the end of the step on. */
static void know_assigned(walk *w, fb_id region)
{
    const fb_graph *g = graph_of(w);
    for (fb_id i = 0; i < g->n_nodes; i++) {
        const fb_node *n = &g->nodes[i];
        if (n->op == FB_OP_ASSIGN && n->region == region) w->of[fb_access_base(g, n->args[0])] = w->of[i];
    }
}

/* Values of the body are those of the last step no longer; what is carried out of the loop is known as it was. */
static void leave_loop(walk *w, fb_id region)
{
    const fb_graph *g = graph_of(w);
    const fb_region *r = &g->regions[region];
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i].op != FB_OP_RESULT || g->nodes[i].args[0] != r->loop) continue;
        int index = g->nodes[i].attrs->index;
        w->of[i] = index < r->n_carried && r->carried[index] != FB_NONE ? w->of[r->carried[index]] : (known){0};
    }
}

static bool walk_range(walk *w, int from, int to);

static int end_of(const fb_program *p, int repeat)
{
    int depth = 1, i = repeat + 1;
    for (; depth; i++) depth += (p->launches[i].kind == FB_LAUNCH_REPEAT) - (p->launches[i].kind == FB_LAUNCH_END);
    return i - 1;
}

static bool walk_loop(walk *w, int repeat, int end)
{
    const fb_launch *l = &w->job->program->launches[repeat];
    int level = w->depth++;
    bool ok = true;
    w->region[level] = l->region;
    w->trips[level] = l->count;
    for (w->step[level] = 0; ok && !w->stopped && w->step[level] < l->count; w->step[level]++) {
        if (l->region) know_carried(w, l->region, w->step[level] == 0);
        ok = (!l->region || know_items(w, l->region, level)) && walk_range(w, repeat + 1, end);
        if (l->region) know_assigned(w, l->region);
    }
    if (l->region && l->count) know_carried(w, l->region, false);
    if (l->region) leave_loop(w, l->region);
    w->step[level] = 0;
    w->depth--;
    return ok && (!w->watched || !l->region || watch_result(w, l->region));
}

static bool walk_range(walk *w, int from, int to)
{
    const fb_program *p = w->job->program;
    for (int i = from; i < to && !w->stopped; i++) {
        const fb_launch *l = &p->launches[i];
        bool ok = true;
        switch (l->kind) {
        case FB_LAUNCH_REPEAT: {
            int end = end_of(p, i);
            ok = walk_loop(w, i, end);
            i = end;
            break;
        }
        case FB_LAUNCH_SWAP: w->stepping->swap(w->job->loaded, l->swap_a, l->swap_b); break;
        case FB_LAUNCH_END: break;
        case FB_LAUNCH_KERNEL:
        case FB_LAUNCH_GEMM: ok = w->watched ? watch(w, i) : is_looked_at(w) ? look(w, i) : pass_by(w, i);
        }
        if (!ok) return false;
    }
    return true;
}

/* ---- the second set ---- */

static bool give(walk *w, const fb_one_launch *one, const seen_kernel *k, const bool *derived, int number)
{
    const fb_graph *g = graph_of(w);
    const fb_launch *l = &w->job->program->launches[one->launch];
    uint64_t key = fb_splitmix64(0x7e11 + (uint64_t)number);
    for (int r = 0; r < l->n_reads; r++) {
        const fb_place *p = &l->reads[r];
        const fb_node *n = &g->nodes[p->node];
        if (n->op == FB_OP_STEP || fb_op_is_made_up(n->op) || derived[r]) continue;
        void *bytes = fb_check_room(g, p->node, w->err);
        if (!bytes) return false;
        fb_lines lines = fb_lines_of(g, l, p->node, number);
        fb_tell(n, &lines, &k->support[r], fb_splitmix64(key + (uint64_t)r), bytes);
        bool ok = fb_one_put(one, r, bytes, w->err);
        fb_free(bytes);
        if (!ok) return false;
    }
    return true;
}

/* What was given is read back: two inputs may lie in the same memory. */
static bool check_second(walk *w, const seen_kernel *k, int number)
{
    const fb_launch *l = &w->job->program->launches[k->launch];
    fb_one_launch one = {.job = w->job, .launch = k->launch, .step = w->step, .sampled = true};
    fb_error_report report = {.ok = true};
    if (!l->n_reads || !l->n_stores) return true;
    bool *derived = fb_reads_derived(graph_of(w), l);
    bool ok = say_second(w, number) && give(w, &one, k, derived, number) && fb_one_take(&one, w->err) &&
              fb_one_derive(&one, derived, w->err) && w->stepping->launch(w->job->loaded, k->launch, w->step, w->err) &&
              fb_one_judge(&one, NULL, &report, w->progress, w->err);
    fb_one_free(&one);
    fb_free(derived);
    if (!ok) return false;
    w->out->second++;
    if (report.ok) return true;
    add_report(w, &report);
    return true;
}

/* ---- all of it ---- */

static int64_t count_looks(const fb_program *p, int first, int last)
{
    int64_t n = 0, times = 1, at[FB_MAX_REPEATS];
    int depth = 0;
    for (int i = first; i < last; i++) {
        const fb_launch *l = &p->launches[i];
        if (l->kind == FB_LAUNCH_REPEAT) {
            at[depth++] = times;
            times *= l->count < 6 ? l->count : 6;
        } else if (l->kind == FB_LAUNCH_END) {
            times = at[--depth];
        } else if (l->kind != FB_LAUNCH_SWAP) {
            n += times;
        }
    }
    return n;
}

static bool walk_all(walk *w)
{
    const fb_program *p = w->job->program;
    cut_memory(w);
    int first = w->job->first_launch, last = w->job->last_launch ? w->job->last_launch : p->n_launches;
    w->to_look = count_looks(p, first, last);
    w->every = 1 + (int64_t)((double)memory_bytes(w) * (double)w->to_look / most_digested);
    w->stale = true;
    if (!w->ops->poison(w->job->loaded, w->err) || !w->stepping->rewind(w->job->loaded, w->err)) return false;
    if (!check_sources(w) || !walk_range(w, first, last)) return false;
    if (!w->stepping->finish(w->job->loaded, w->err)) return false;
    return w->stopped || !w->job->walked || w->job->walked(w->job->walked_ctx, w->err);
}

bool fb_check_kernels(const fb_check_job *job, fb_check_result *out, const fb_progress *progress, fb_error *err)
{
    walk w = {.job = job,
              .ops = job->device->ops,
              .stepping = job->device->ops->stepping,
              .progress = progress,
              .out = out,
              .err = err};
    *out = (fb_check_result){.error = {.ok = true, .state = FB_CHECK_RIGHT, .scope = FB_JUDGED_KERNELS}};
    w.of = fb_calloc((size_t)job->g->n_nodes + 1, sizeof *w.of);
    bool ok = walk_all(&w);
    for (int k = 0; ok && job->second && k < w.seen.n && !w.stopped; k++) ok = check_second(&w, &w.seen.at[k], k);
    for (int k = 0; k < w.seen.n; k++) fb_free(w.seen.at[k].support);
    FB_VEC_FREE(&w.seen);
    FB_VEC_FREE(&w.memory);
    fb_free(w.of);
    return ok;
}

bool fb_check_watch(const fb_check_job *job, fb_watched *watched, const fb_progress *progress, fb_error *err)
{
    fb_check_result none = {.error = {.ok = true}};
    walk w = {.job = job,
              .ops = job->device->ops,
              .stepping = job->device->ops->stepping,
              .progress = progress,
              .out = &none,
              .err = err,
              .watched = watched};
    w.of = fb_calloc((size_t)job->g->n_nodes + 1, sizeof *w.of);
    bool ok = walk_all(&w);
    FB_VEC_FREE(&w.memory);
    fb_free(w.of);
    return ok;
}
