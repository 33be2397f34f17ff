/* Reference files: made by the trials of a whole graph, in a process that loads no generated code.
 *
 * requires  a graph; a place to write: the cache, or where there is none or no room in it, the user's own folder among
 *           the temporary files
 * provides  the values that leave the graph, each element with the spread that honest roundings have, and for each
 * tensor what the lanes did as a whole
 *
 * Beyond `most_elements` only samples are kept: the backward slice of at least SAMPLE elements of each tensor. */
#include "measure/reference.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/str.h"
#include "base/vec.h"
#include "interp/source_hash.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Raise the number when the format of files changes. What the interpreter's sources say is in FB_SOURCE_HASH. */
static const char magic[8] = "fbref07";
static const int64_t keep_bytes[FB_REFERENCE_PLACES] = {(int64_t)4 << 30, (int64_t)1 << 30}, most_elements = 200000000;
enum { SAMPLE = 1 << 17 };

typedef struct {
    char magic[8], source[33];
    uint64_t hash[2], seed;
    int64_t n_tensors, n_blocks, index;
    uint64_t digest; /* of the index, and of this header while this is 0 */
} file_header;

typedef struct {
    int64_t node, is_int, n;
    fb_spread spread;
} file_tensor;

/* Values (8 bytes an element) at `at`, spreads (4) behind them. */
typedef struct {
    int64_t tensor, first, n, at;
    uint64_t digest;
} file_block;

int fb_reference_nodes(const fb_graph *g, fb_arena *arena, fb_id **out)
{
    FB_VEC(fb_id) nodes = {0};
    for (fb_id i = 0; i < g->n_nodes; i++) {
        const fb_node *n = &g->nodes[i];
        bool leaves = n->op == FB_OP_ASSIGN || (n->region == 0 && fb_node_is_output(g, i) && n->op != FB_OP_FEED);
        if (leaves) FB_VEC_PUSH(&nodes, i);
    }
    int n = nodes.n;
    *out = fb_arena_copy(arena, nodes.at, (size_t)n * sizeof *nodes.at);
    FB_VEC_FREE(&nodes);
    return n;
}

/* ---- places ---- */

/* The folder of temporary files is also that of locks, which are not for trimming: references have one below it. */
bool fb_reference_folder(int place, char *to, size_t room, fb_error *err)
{
    char temporary[64];
    if (place == 0) return fb_cache_dir("reference", to, room, err);
    if (!fb_temporary_dir(temporary, sizeof temporary, err)) return false;
    snprintf(to, room, "%s/reference", temporary);
    return fb_private_folder(to, err);
}

bool fb_reference_path(const fb_graph *g, uint64_t seed, int place, char *to, size_t room, fb_error *err)
{
    char dir[2048], hex[33];
    if (!fb_reference_folder(place, dir, sizeof dir, err)) return false;
    int n = snprintf(to, room, "%s/%s-%llu-%.12s.%s", dir, fb_hash_hex(g->hash, hex), (unsigned long long)seed,
                     FB_SOURCE_HASH, magic);
    return n < (int)room || fb_fail(err, FB_ERR_SYSTEM, "the path of the cache folder is too long");
}

bool fb_reference_there(const fb_graph *g, uint64_t seed)
{
    char path[2200];
    for (int place = 0; place < FB_REFERENCE_PLACES; place++)
        if (fb_reference_path(g, seed, place, path, sizeof path, NULL) && access(path, R_OK) == 0) return true;
    return false;
}

/* ---- making ---- */

typedef struct {
    fb_new_file file;
    const fb_progress *progress;
    _Atomic int64_t end; /* of what is written, or spoken for */
    _Atomic int failed;  /* errno of the first write that failed */
    int n_threads;
    file_tensor *tensors;
    fb_judge_shape *shapes;
    fb_spread *spreads; /* a thread and tensor each */
    int64_t n_tensors;
    pthread_mutex_t lock;
    FB_VEC(file_block) blocks;
} making;

static bool put_at(making *m, const void *bytes, size_t n, int64_t at)
{
    const char *from = bytes;
    while (n) {
        ssize_t done = pwrite(m->file.fd, from, n, at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            int none = 0;
            atomic_compare_exchange_strong(&m->failed, &none, done < 0 ? errno : ENOSPC);
            return false;
        }
        from += done;
        n -= (size_t)done;
        at += done;
    }
    return true;
}

static uint64_t digest_of(const void *values, const float *spread, int64_t n)
{
    uint64_t both[2] = {fb_digest(values, (size_t)n * 8), fb_digest(spread, (size_t)n * sizeof *spread)};
    return fb_digest(both, sizeof both);
}

static void take_block(void *ctx, int thread, const fb_trial_block *b)
{
    making *m = ctx;
    if (m->failed) return;
    float *spread = fb_alloc((size_t)b->n * sizeof *spread + 1);
    fb_spread_add(&m->spreads[thread * m->n_tensors + b->want], &m->shapes[b->want], b, spread);
    int64_t bytes = b->n * 12 + b->n % 2 * 4, at = atomic_fetch_add(&m->end, bytes);
    const void *values = b->v[0] ? (const void *)b->v[0] : (const void *)b->i[0];
    if (put_at(m, values, (size_t)b->n * 8, at) && put_at(m, spread, (size_t)b->n * sizeof *spread, at + b->n * 8)) {
        pthread_mutex_lock(&m->lock);
        FB_VEC_PUSH(&m->blocks, ((file_block){b->want, b->first, b->n, at, digest_of(values, spread, b->n)}));
        pthread_mutex_unlock(&m->lock);
    }
    fb_free(spread);
}

static uint64_t digest_of_index(const file_header *h, const file_tensor *tensors, const file_block *blocks)
{
    file_header clean = *h;
    clean.digest = 0;
    uint64_t all[3] = {fb_digest(&clean, sizeof clean), fb_digest(tensors, (size_t)h->n_tensors * sizeof *tensors),
                       fb_digest(blocks, (size_t)h->n_blocks * sizeof *blocks)};
    return fb_digest(all, sizeof all);
}

static bool put_index(making *m, const fb_graph *g, uint64_t seed)
{
    file_header h = {.hash = {g->hash.high, g->hash.low},
                     .seed = seed,
                     .n_tensors = m->n_tensors,
                     .n_blocks = m->blocks.n,
                     .index = m->end};
    memcpy(h.magic, magic, sizeof h.magic);
    memcpy(h.source, FB_SOURCE_HASH, sizeof h.source);
    for (int t = 1; t < m->n_threads; t++)
        for (int64_t i = 0; i < m->n_tensors; i++) fb_spread_join(&m->spreads[i], &m->spreads[t * m->n_tensors + i]);
    for (int64_t i = 0; i < m->n_tensors; i++) m->tensors[i].spread = m->spreads[i];
    h.digest = digest_of_index(&h, m->tensors, m->blocks.at);
    size_t tensors = (size_t)m->n_tensors * sizeof *m->tensors, blocks = (size_t)m->blocks.n * sizeof *m->blocks.at;
    return put_at(m, m->tensors, tensors, h.index) && put_at(m, m->blocks.at, blocks, h.index + (int64_t)tensors) &&
           put_at(m, &h, sizeof h, 0);
}

/* All elements of a run of everything. */
static double elements_of(const fb_graph *g)
{
    double all = 0;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        double times = fb_node_is_computed(g, i) ? (double)fb_shape_elements(&g->nodes[i].shape) : 0;
        for (fb_id r = g->nodes[i].region; r != 0 && times > 0; r = g->regions[r].parent)
            times *= (double)g->regions[r].trips;
        all += times;
    }
    return all;
}

int64_t fb_reference_sample(const fb_graph *g)
{
    return elements_of(g) > (double)most_elements ? SAMPLE : 0;
}

double fb_reference_bytes(const fb_graph *g)
{
    const double an_element = sizeof(double) + sizeof(float);
    if (fb_reference_sample(g)) return 0;
    fb_arena *arena = fb_arena_new();
    fb_id *nodes;
    double all = 0;
    for (int n = fb_reference_nodes(g, arena, &nodes), i = 0; i < n; i++)
        all += (double)fb_shape_elements(&g->nodes[nodes[i]].shape);
    fb_arena_free(arena);
    return all * an_element;
}

static bool reference_step(void *ctx, int64_t done, int64_t total)
{
    const making *m = ctx;
    const fb_progress *p = m->progress;
    if (m->failed) return false; /* nobody would keep the rest */
    return !p || !p->step || p->step(p->ctx, "computing the reference", total ? (double)done / (double)total : 0);
}

/* Told before the file is there: who waits for it may have ended us when we would tell it behind. */
static void computed(const making *m)
{
    const fb_progress *p = m->progress;
    if (p && p->step) p->step(p->ctx, "keeping the reference", 1);
}

static bool evaluate(making *m, const fb_graph *g, const fb_id *nodes, const fb_trial_options *o, fb_error *err)
{
    m->n_threads = fb_trial_threads(o);
    m->tensors = fb_calloc((size_t)m->n_tensors + 1, sizeof *m->tensors);
    m->shapes = fb_calloc((size_t)m->n_tensors + 1, sizeof *m->shapes);
    m->spreads = fb_calloc((size_t)(m->n_tensors * m->n_threads) + 1, sizeof *m->spreads);
    for (int64_t i = 0; i < m->n_tensors; i++) {
        m->shapes[i] = fb_judgement_shape_of(&g->nodes[nodes[i]]);
        m->tensors[i] = (file_tensor){
            .node = nodes[i], .is_int = !fb_dtype_is_float(g->nodes[nodes[i]].dtype), .n = m->shapes[i].elements};
    }
    return fb_trial_run(g, o, nodes, (int)m->n_tensors, take_block, m, NULL, err);
}

static bool make_file(making *m, const fb_graph *g, const fb_id *nodes, const fb_trial_options *o, const char *path,
                      fb_error *err)
{
    if (!fb_new_file_begin(&m->file, path, FB_FILE_PRIVATE, err)) return false;
    bool ok = evaluate(m, g, nodes, o, err);
    if (ok) computed(m);
    if (ok && !m->failed && put_index(m, g, o->seed)) return fb_new_file_commit(&m->file, false, err);
    fb_new_file_abandon(&m->file);
    if (!m->failed) return false;
    return fb_fail(err, FB_ERR_SYSTEM, "the reference cannot be written: %s: %s", path, strerror(m->failed));
}

static bool make_at(const fb_graph *g, uint64_t seed, int place, const fb_trial_options *with, making *m, fb_error *err)
{
    char path[2200];
    fb_trial_options o = *with;
    o.progress_ctx = m;
    if (!fb_reference_path(g, seed, place, path, sizeof path, err)) return false;
    fb_arena *arena = fb_arena_new();
    fb_id *nodes;
    m->n_tensors = fb_reference_nodes(g, arena, &nodes);
    m->end = (sizeof(file_header) + 7) & ~(size_t)7;
    pthread_mutex_init(&m->lock, NULL);
    bool ok = make_file(m, g, nodes, &o, path, err);
    pthread_mutex_destroy(&m->lock);
    FB_VEC_FREE(&m->blocks);
    fb_free(m->tensors);
    fb_free(m->shapes);
    fb_free(m->spreads);
    fb_arena_free(arena);
    if (ok && fb_reference_folder(place, path, sizeof path, NULL)) fb_cache_trim(path, keep_bytes[place]);
    return ok;
}

static bool is_made(const fb_graph *g, uint64_t seed)
{
    char path[2200];
    fb_reference have;
    for (int place = 0; place < FB_REFERENCE_PLACES; place++) {
        if (!fb_reference_path(g, seed, place, path, sizeof path, NULL) || !fb_reference_open(&have, path, g, NULL))
            continue;
        fb_reference_close(&have);
        fb_cache_touch(path);
        return true;
    }
    return false;
}

/* What is wrong with the first place is told where none will do: it is the one that its user knows of. */
bool fb_reference_make(const fb_graph *g, uint64_t seed, fb_file_values files, void *files_ctx,
                       const fb_progress *progress, fb_error *err)
{
    if (is_made(g, seed)) return true;
    const fb_trial_options o = {.seed = seed,
                                .files = files,
                                .files_ctx = files_ctx,
                                .trials = FB_TRIALS,
                                .sample = fb_reference_sample(g),
                                .progress = reference_step};
    fb_error first = {0}, why = {0};
    for (int place = 0; place < FB_REFERENCE_PLACES; place++) {
        making m = {.progress = progress};
        if (make_at(g, seed, place, &o, &m, &why)) return true;
        if (place == 0) first = why;
        if (why.kind != FB_ERR_SYSTEM && why.kind != FB_ERR_UNAVAILABLE) break; /* no fault of the place */
        if (place + 1 == FB_REFERENCE_PLACES) why = first;
    }
    if (err) *err = why;
    return false;
}

/* ---- reading ---- */

static const file_tensor *tensors_of(const fb_reference *r)
{
    const file_header *h = r->map;
    return (const file_tensor *)(const void *)((const char *)r->map + h->index);
}

static const file_block *blocks_of(const fb_reference *r)
{
    return (const file_block *)(const void *)(tensors_of(r) + ((const file_header *)r->map)->n_tensors);
}

static const float *spread_of(const fb_reference *r, const file_block *b)
{
    return (const float *)(const void *)((const char *)r->map + b->at + b->n * 8);
}

static bool index_whole(const fb_reference *r, const fb_graph *g)
{
    const file_header *h = r->map;
    if (r->bytes < sizeof *h || memcmp(h->magic, magic, sizeof magic) != 0) return false;
    if (strncmp(h->source, FB_SOURCE_HASH, sizeof h->source) != 0) return false;
    if (h->hash[0] != g->hash.high || h->hash[1] != g->hash.low) return false;
    if (h->n_tensors < 0 || h->n_blocks < 0 || h->index < (int64_t)sizeof *h || (uint64_t)h->index > r->bytes ||
        h->index % 8)
        return false;
    uint64_t room = r->bytes - (uint64_t)h->index;
    if ((uint64_t)h->n_tensors > room / sizeof(file_tensor)) return false;
    room -= (uint64_t)h->n_tensors * sizeof(file_tensor);
    if ((uint64_t)h->n_blocks > room / sizeof(file_block)) return false;
    return h->digest == digest_of_index(h, tensors_of(r), blocks_of(r));
}

static bool whole(const fb_reference *r, const fb_graph *g)
{
    if (!index_whole(r, g)) return false;
    const file_header *h = r->map;
    const file_tensor *t = tensors_of(r);
    const file_block *b = blocks_of(r);
    for (int64_t i = 0; i < h->n_tensors; i++)
        if (t[i].node < 0 || t[i].node >= g->n_nodes || t[i].n != fb_shape_elements(&g->nodes[t[i].node].shape))
            return false;
    for (int64_t i = 0; i < h->n_blocks; i++) {
        if (b[i].tensor < 0 || b[i].tensor >= h->n_tensors || b[i].first < 0 || b[i].n < 0 || b[i].at < 0) return false;
        if (b[i].first + b[i].n > t[b[i].tensor].n || b[i].at + b[i].n * 12 > h->index) return false;
        if (b[i].digest != digest_of((const char *)r->map + b[i].at, spread_of(r, &b[i]), b[i].n)) return false;
    }
    return true;
}

bool fb_reference_open(fb_reference *r, const char *path, const fb_graph *g, fb_error *err)
{
    struct stat st;
    *r = (fb_reference){0};
    int fd = fb_file_open(path, FB_FILE_READ | FB_FILE_PRIVATE, err);
    if (fd < 0) return false;
    bool read = fstat(fd, &st) == 0;
    if (read && st.st_size > 0) {
        r->bytes = (size_t)st.st_size;
        r->map = mmap(NULL, r->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (r->map == MAP_FAILED) r->map = NULL;
        read = r->map != NULL;
    }
    if (!read) fb_fail(err, FB_ERR_INPUT, "the reference %s cannot be read: %s", path, strerror(errno));
    close(fd);
    if (!read) return false;
    if (r->map && whole(r, g)) return true;
    fb_reference_close(r);
    return fb_fail(err, FB_ERR_SYSTEM, "the reference %s is damaged, or of another graph", path);
}

bool fb_reference_find(fb_reference *r, const fb_graph *g, uint64_t seed, fb_error *err)
{
    char path[2200];
    for (int place = 0; place < FB_REFERENCE_PLACES; place++)
        if (fb_reference_path(g, seed, place, path, sizeof path, NULL) && fb_reference_open(r, path, g, NULL))
            return true;
    return fb_fail(err, FB_ERR_SYSTEM, "the reference is gone, or damaged");
}

int64_t fb_reference_elements(const fb_reference *r, fb_id node)
{
    const file_header *h = r->map;
    int64_t n = -1;
    for (int64_t i = 0; i < h->n_tensors; i++)
        if (tensors_of(r)[i].node == node) n = 0;
    for (int64_t i = 0; i < h->n_blocks && n >= 0; i++)
        if (tensors_of(r)[blocks_of(r)[i].tensor].node == node) n += blocks_of(r)[i].n;
    return n;
}

void fb_reference_each(const fb_reference *r, fb_id node, fb_reference_visit *visit, void *ctx)
{
    const file_header *h = r->map;
    for (int64_t i = 0; i < h->n_blocks; i++) {
        const file_block *b = &blocks_of(r)[i];
        const file_tensor *t = &tensors_of(r)[b->tensor];
        const void *values = (const char *)r->map + b->at;
        if (t->node == node) visit(ctx, b->first, b->n, t->is_int ? NULL : values, t->is_int ? values : NULL);
    }
}

/* Blocks of one tensor in shares, each of which somebody judges: how many they are does not hang on the machine, and
 * they are joined in order, so that sums come out alike everywhere. */
enum { SHARES = 64 };

typedef struct {
    const fb_reference *r;
    const int64_t *blocks;
    int64_t n_blocks;
    bool whole_numbers;
    fb_judge_shape shape;
    const char *got;
    fb_judgement of[SHARES];
} judged_tensor;

static void judge_share(judged_tensor *t, int share)
{
    int size = fb_dtype_size(t->shape.dtype);
    fb_judgement_clear(&t->of[share]);
    for (int64_t k = t->n_blocks * share / SHARES; k < t->n_blocks * (share + 1) / SHARES; k++) {
        const file_block *b = &blocks_of(t->r)[t->blocks[k]];
        const void *values = (const char *)t->r->map + b->at;
        fb_judgement_add(&t->of[share], &t->shape, b->first, b->n, t->whole_numbers ? NULL : values,
                         t->whole_numbers ? values : NULL, spread_of(t->r, b), t->got + b->first * size);
    }
}

static void judge_shares(void *ctx, int64_t first, int64_t last)
{
    for (int64_t share = first; share < last; share++) judge_share(ctx, (int)share);
}

bool fb_reference_judge(const fb_reference *r, fb_id node, const fb_node *n, const void *bytes, fb_error_report *out,
                        bool *few)
{
    const file_header *h = r->map;
    for (int64_t i = 0; i < h->n_tensors; i++) {
        const file_tensor *t = &tensors_of(r)[i];
        if (t->node != node) continue;
        int64_t *blocks = fb_alloc(((size_t)h->n_blocks + 1) * sizeof *blocks), n_blocks = 0;
        for (int64_t k = 0; k < h->n_blocks; k++)
            if (blocks_of(r)[k].tensor == i) blocks[n_blocks++] = k;
        judged_tensor *all = fb_calloc(1, sizeof *all);
        *all = (judged_tensor){.r = r, .blocks = blocks, .n_blocks = n_blocks, .whole_numbers = t->is_int};
        all->shape = fb_judgement_shape_of(n);
        all->got = bytes;
        enum { FEW = 1 << 16 }; /* elements that one thread is done with before others have started */
        fb_parallel_for(SHARES, all->shape.elements > FEW ? 1 : SHARES, judge_shares, all);
        for (int k = 1; k < SHARES; k++) fb_judgement_join(&all->of[0], &all->of[k]);
        bool by_few = fb_judgement_end(&all->of[0], &t->spread, &all->shape, n, out);
        if (few) *few = by_few;
        fb_free(blocks);
        fb_free(all);
        return true;
    }
    return false;
}

void fb_reference_close(fb_reference *r)
{
    if (r->map) munmap(r->map, r->bytes);
    *r = (fb_reference){0};
}
