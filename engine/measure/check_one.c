/* One launch: its nodes evaluated from what it was given, and what it stored judged against that.
 *
 * requires  a launch with places; before it ran, what it reads; after it, what it stored
 * provides  a report of the worst of its stored values */
#include "measure/check_parts.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "graph/storage.h"
#include "measure/judging.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t fb_place_at(const fb_place *p, const int64_t *step)
{
    return p->offset + fb_advance_at(p->advance, step);
}

const char *fb_check_launch_name(const fb_program *p, const fb_launch *l)
{
    return l->kind == FB_LAUNCH_GEMM ? p->buffers[p->gemms[l->gemm].c].name : p->kernels[l->kernel].name;
}

static const fb_launch *launch_of(const fb_one_launch *one)
{
    return &one->job->program->launches[one->launch];
}

void fb_one_free(fb_one_launch *one)
{
    for (int k = 0; one->bytes && k < launch_of(one)->n_reads; k++) fb_free(one->bytes[k]);
    fb_free(one->bytes);
    fb_free(one->digest);
    one->bytes = NULL;
    one->digest = NULL;
}

void *fb_check_room(const fb_graph *g, fb_id node, fb_error *err)
{
    char text[32];
    int64_t bytes = fb_node_bytes(g, node);
    void *room = fb_try_alloc((size_t)bytes + 1);
    if (!room)
        fb_fail(err, FB_ERR_LIMIT, "%s: no %s of memory to check it in", g->nodes[node].name,
                fb_format_bytes(text, (double)bytes));
    return room;
}

static bool take(const fb_one_launch *one, const fb_place *p, void *to, fb_error *err)
{
    return one->job->device->ops->stepping->peek(one->job->loaded, p->buffer, fb_place_at(p, one->step),
                                                 fb_node_bytes(one->job->g, p->node), to, err);
}

/* From the order in which it lay in memory. */
static bool own_order(const fb_graph *g, fb_id node, void *bytes, fb_error *err)
{
    if (fb_storage_to_own(g, node, bytes)) return true;
    return fb_fail(err, FB_ERR_LIMIT, "%s: no memory to check it in", g->nodes[node].name);
}

bool fb_one_put(const fb_one_launch *one, int read, void *bytes, fb_error *err)
{
    const fb_check_job *job = one->job;
    const fb_place *p = &launch_of(one)->reads[read];
    if (!fb_storage_from_own(job->g, p->node, bytes))
        return fb_fail(err, FB_ERR_LIMIT, "%s: no memory to check it in", job->g->nodes[p->node].name);
    return job->device->ops->stepping->poke(job->loaded, p->buffer, fb_place_at(p, one->step),
                                            fb_node_bytes(job->g, p->node), bytes, err);
}

bool fb_one_take(fb_one_launch *one, fb_error *err)
{
    const fb_launch *l = launch_of(one);
    if (!one->bytes) one->bytes = fb_calloc((size_t)l->n_reads + 1, sizeof *one->bytes);
    if (!one->digest) one->digest = fb_calloc((size_t)l->n_reads + 1, sizeof *one->digest);
    for (int k = 0; k < l->n_reads; k++) {
        if (!one->bytes[k] && !(one->bytes[k] = fb_check_room(one->job->g, l->reads[k].node, err))) return false;
        if (!take(one, &l->reads[k], one->bytes[k], err)) return false;
        one->digest[k] = fb_digest(one->bytes[k], (size_t)fb_node_bytes(one->job->g, l->reads[k].node));
        if (!own_order(one->job->g, l->reads[k].node, one->bytes[k], err)) return false;
    }
    return true;
}

/* ---- what was right before ---- */

#define uthash_malloc(size)      fb_alloc(size)
#define uthash_free(block, size) fb_free(block)
#include <uthash.h>

typedef struct {
    fb_hash key;
    fb_error_report report;
    UT_hash_handle hh;
} right_one;

struct fb_check_memo {
    right_one *all;
};

fb_check_memo *fb_check_memo_new(void)
{
    return fb_calloc(1, sizeof(fb_check_memo));
}

static const right_one *memo_find(const fb_check_memo *memo, fb_hash key)
{
    right_one *r = NULL;
    if (memo) HASH_FIND(hh, memo->all, &key, sizeof key, r);
    return r;
}

static void memo_add(fb_check_memo *memo, fb_hash key, const fb_error_report *report)
{
    if (!memo || !report->ok || memo_find(memo, key)) return;
    right_one *r = fb_calloc(1, sizeof *r);
    r->key = key;
    r->report = *report;
    HASH_ADD(hh, memo->all, key, sizeof r->key, r);
}

/* The graph, which nodes were given what, and what came of it. */
static fb_hash memo_key(const fb_one_launch *one, const uint64_t *stored)
{
    const fb_launch *l = launch_of(one);
    const fb_graph *g = one->job->g;
    fb_hasher *h = fb_hasher_new();
    fb_hasher_add(h, &g->hash, sizeof g->hash);
    fb_hasher_add_i64(h, (int64_t)one->job->seed);
    fb_hasher_add_i64(h, one->sampled);
    for (int k = 0; k < l->n_reads; k++) {
        fb_hasher_add_i64(h, l->reads[k].node);
        fb_hasher_add_i64(h, (int64_t)one->digest[k]);
    }
    for (int k = 0; k < l->n_stores; k++) {
        fb_hasher_add_i64(h, -1 - l->stores[k].node);
        fb_hasher_add_i64(h, (int64_t)stored[k]);
    }
    return fb_hasher_end(h);
}

/* ---- judging ---- */

/* Beyond so many elements only samples have trials, and the rest is held against what is usual in these. */
enum { LARGE = 1 << 22, SAMPLE = 1 << 18 };

/* A value that rounding moves a little when its operands do: then what is usual in samples is so elsewhere. */
static bool is_smooth(fb_op op)
{
    switch (op) {
    case FB_OP_EQ:
    case FB_OP_NE:
    case FB_OP_LT:
    case FB_OP_LE:
    case FB_OP_GT:
    case FB_OP_GE:
    case FB_OP_FLOOR:
    case FB_OP_CEIL:
    case FB_OP_ROUND:
    case FB_OP_SIGN:
    case FB_OP_REMAINDER:
    case FB_OP_ARGMAX:
    case FB_OP_ARGMIN:
    case FB_OP_RANK: return false;
    default: return true;
    }
}

static bool is_large(const fb_one_launch *one)
{
    const fb_launch *l = launch_of(one);
    for (int k = 0; k < l->n_stores; k++)
        if (fb_shape_elements(&one->job->g->nodes[l->stores[k].node].shape) > LARGE) return true;
    return false;
}

/* All that lies between what is given and what is stored is smooth, and floats. */
static bool is_all_smooth(const fb_one_launch *one)
{
    const fb_launch *l = launch_of(one);
    const fb_graph *g = one->job->g;
    FB_VEC(fb_id) open = {0};
    bool *seen = fb_calloc((size_t)g->n_nodes + 1, sizeof *seen), smooth = true;
    for (int k = 0; k < l->n_reads; k++) seen[l->reads[k].node] = true;
    for (int k = 0; k < l->n_stores; k++) FB_VEC_PUSH(&open, l->stores[k].node);
    while (open.n && smooth) {
        fb_id node = open.at[--open.n];
        const fb_node *n = &g->nodes[node];
        if (seen[node]) continue;
        seen[node] = true;
        bool computed = fb_node_is_computed(g, node);
        smooth = !computed || (fb_dtype_is_float(n->dtype) && is_smooth(n->op));
        for (int a = 0; a < n->n_args; a++) FB_VEC_PUSH(&open, n->args[a]);
    }
    FB_VEC_FREE(&open);
    fb_free(seen);
    return smooth;
}

static int by_node(const void *a, const void *b)
{
    fb_id x = ((const fb_given *)a)->node, y = ((const fb_given *)b)->node;
    return (x > y) - (x < y);
}

void fb_given_sort(fb_given *given, int n)
{
    if (n) qsort(given, (size_t)n, sizeof *given, by_node);
}

static bool cancelled(void *ctx, int64_t done, int64_t total)
{
    const fb_progress *p = ctx;
    return !p || !p->step || p->step(p->ctx, "checking", total ? (double)done / (double)total : 0);
}

static bool judge_stored(const fb_one_launch *one, fb_judging *j, fb_error_report *out, fb_trial_overflow *overflow,
                         const fb_progress *progress, fb_error *err)
{
    const fb_launch *l = launch_of(one);
    fb_given *given = fb_calloc((size_t)l->n_reads + 1, sizeof *given);
    for (int k = 0; k < l->n_reads; k++) given[k] = (fb_given){l->reads[k].node, one->bytes[k]};
    fb_given_sort(given, l->n_reads);
    bool large = is_large(one);
    j->rest = large && !one->sampled && is_all_smooth(one);
    j->o = (fb_trial_options){.n_given = l->n_reads,
                              .given = given,
                              .seed = one->job->seed,
                              .files = one->job->files,
                              .files_ctx = one->job->files_ctx,
                              .threads = one->job->threads,
                              .sample = large && (j->rest || one->sampled) ? SAMPLE : 0,
                              .progress = cancelled,
                              .progress_ctx = (void *)(uintptr_t)progress};
    bool ok = fb_judgement_make(j, out, overflow, err);
    fb_free(given);
    return ok;
}

void fb_check_add_error(fb_error_report *all, const fb_error_report *one)
{
    if (!(one->max_abs <= all->max_abs)) all->max_abs = one->max_abs;
    if (!(one->max_rel <= all->max_rel)) all->max_rel = one->max_rel;
    all->undecided += one->undecided;
    all->compared += one->compared;
    if (!one->ok && all->ok) {
        memcpy(all->worst, one->worst, sizeof all->worst);
        memcpy(all->kernel, one->kernel, sizeof all->kernel);
    }
    all->ok = all->ok && one->ok;
    if (!(one->bound <= all->bound)) all->bound = one->bound;
}

/* A dtype that cannot hold what the graph asks for is no kernel's fault. */
static void say_overflow(const fb_graph *g, const fb_trial_overflow *o, fb_error_report *out)
{
    fb_str s = {0};
    const fb_node *n = &g->nodes[o->node];
    fb_str_addf(&s, "%.48s: %.4g is more than %s holds", n->name, o->value, fb_dtype_name(n->dtype));
    out->state = FB_CHECK_OVERFLOW;
    fb_text_clean(out->worst, sizeof out->worst, s.text, s.n);
    fb_str_free(&s);
}

bool fb_one_judge(const fb_one_launch *one, uint64_t *stored, fb_error_report *out, const fb_progress *progress,
                  fb_error *err)
{
    const fb_launch *l = launch_of(one);
    const fb_graph *g = one->job->g;
    size_t n = (size_t)l->n_stores + 1;
    fb_id *want = fb_calloc(n, sizeof *want);
    void **got = fb_calloc(n, sizeof *got);
    fb_error_report *reports = fb_calloc(n, sizeof *reports);
    uint64_t *digest = fb_calloc(n, sizeof *digest);
    fb_judging j = {.g = g, .want = want, .got = (const void *const *)got, .n = l->n_stores};
    fb_trial_overflow overflow = {.node = FB_NONE};
    *out = (fb_error_report){.ok = true, .state = FB_CHECK_RIGHT};
    bool ok = true;
    for (int k = 0; ok && k < l->n_stores; k++) {
        want[k] = l->stores[k].node;
        got[k] = fb_check_room(g, want[k], err);
        ok = got[k] && take(one, &l->stores[k], got[k], err);
        if (ok) digest[k] = fb_digest(got[k], (size_t)fb_node_bytes(g, want[k]));
        if (ok && stored) stored[k] = digest[k];
        ok = ok && own_order(g, want[k], got[k], err);
    }
    fb_hash key = ok ? memo_key(one, digest) : (fb_hash){0};
    const right_one *before = ok ? memo_find(one->job->memo, key) : NULL;
    if (before) *out = before->report;
    if (!before) ok = ok && judge_stored(one, &j, reports, &overflow, progress, err);
    for (int k = 0; ok && !before && k < l->n_stores; k++) fb_check_add_error(out, &reports[k]);
    if (ok && !out->ok) {
        out->state = FB_CHECK_WRONG;
        snprintf(out->kernel, sizeof out->kernel, "%.63s", fb_check_launch_name(one->job->program, l));
    } else if (ok && overflow.node != FB_NONE && out->undecided) {
        say_overflow(g, &overflow, out);
    }
    if (ok && !before) memo_add(one->job->memo, key, out);
    for (int k = 0; k < l->n_stores; k++) fb_free(got[k]);
    fb_free(digest);
    fb_free(reports);
    fb_free(got);
    fb_free(want);
    return ok;
}
