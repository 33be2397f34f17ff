/* Reference files: what the interpreter computed, once for a graph and seed.
 *
 * A file is a header, one entry a tensor, then the tensors: doubles or 64-bit integers, and the bounds as floats
 * rounded up. Written beside its name and renamed, so that a file that is there is whole; one that was cut short is as
 * good as none.
 */
#include "measure/reference.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Raise the number when the interpreter's results or bounds change: old files are then never read again. */
static const char magic[8] = "fbref05";
static const int64_t keep_bytes = (int64_t)4 << 30;

typedef struct {
    char magic[8];
    uint64_t hash[2], seed;
    int64_t n;
} file_header;

typedef struct {
    int64_t node, is_int, n;
    int64_t values, bounds; /* offsets; bounds 0: zero throughout */
} file_entry;

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

/* The cache's folder, or one of the user's own among the temporary files. */
static bool folder(char *to, size_t room, fb_error *err)
{
    if (fb_cache_dir("reference", to, room, err)) return true;
    snprintf(to, room, "/tmp/fusebox-%u", (unsigned)getuid());
    struct stat st;
    mkdir(to, 0700);
    return lstat(to, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == getuid();
}

bool fb_reference_path(const fb_graph *g, uint64_t seed, char *to, size_t room, fb_error *err)
{
    char dir[2048], hex[33];
    if (!folder(dir, sizeof dir, err)) return false;
    int n = snprintf(to, room, "%s/%s-%llu.%s", dir, fb_hash_hex(g->hash, hex), (unsigned long long)seed, magic);
    return n < (int)room || fb_fail(err, FB_ERR_SYSTEM, "the path of the cache folder is too long");
}

/* ---- writing ---- */

static bool put(FILE *f, const void *bytes, size_t n)
{
    return fwrite(bytes, 1, n, f) == n;
}

float fb_reference_bound(double bound)
{
    float f = (float)bound;
    return (double)f < bound ? nextafterf(f, INFINITY) : f;
}

static bool put_bounds(FILE *f, const double *bound, int64_t n)
{
    float chunk[1024];
    for (int64_t i = 0; i < n;) {
        int k = 0;
        do chunk[k++] = fb_reference_bound(bound[i++]);
        while (k < 1024 && i < n);
        if (!put(f, chunk, (size_t)k * sizeof *chunk)) return false;
    }
    return true;
}

/* `bounds` replace those of tensors that have some there. */
static bool put_tensors(FILE *f, const file_header *h, const file_entry *entries, const fb_tensor *const *tensors,
                        double *const *bounds)
{
    bool ok = put(f, h, sizeof *h) && put(f, entries, (size_t)h->n * sizeof *entries);
    for (int64_t i = 0; ok && i < h->n; i++) {
        const fb_tensor *t = tensors[i];
        ok = put(f, t->i ? (const void *)t->i : (const void *)t->v, (size_t)t->n * 8);
        if (ok && entries[i].bounds) ok = put_bounds(f, bounds[i] ? bounds[i] : t->bound, t->n);
        static const char padding[8];
        if (ok && entries[i].bounds) ok = put(f, padding, (size_t)(t->n % 2) * 4);
    }
    return ok;
}

static bool write_file(const char *path, const file_header *h, const file_entry *entries,
                       const fb_tensor *const *tensors, double *const *bounds, fb_error *err)
{
    char temporary[2300];
    snprintf(temporary, sizeof temporary, "%s.%d.tmp", path, (int)getpid());
    FILE *f = fopen(temporary, "wb");
    if (!f) return fb_fail(err, FB_ERR_SYSTEM, "the reference cannot be written: %s: %s", temporary, strerror(errno));
    bool ok = put_tensors(f, h, entries, tensors, bounds);
    int why = errno;
    if (fclose(f) != 0 && ok) ok = false, why = errno;
    if (ok && rename(temporary, path) < 0) ok = false, why = errno;
    if (ok) return true;
    unlink(temporary);
    return fb_fail(err, FB_ERR_SYSTEM, "the reference cannot be written: %s: %s", path, strerror(why));
}

/* ---- where the worst case decides nothing ---- */

/* Deep graphs of 16-bit values: their worst case grows from op to op until an interval holds zero where it divides, and
 * then nothing is known of all that follows. What the roundings really do is sampled instead: SAMPLES runs in which
 * each result is put off by a random part of a roundoff, so that an element may be off by SAFETY times the largest of
 * its own samples and the root mean square of its tensor's. Where that is no less than half of the values, the problem
 * is as bad as its worst case, and stays undecided. Elsewhere, and for integers, the worst case stands. */
enum { SAMPLES = 4, SAFETY = 16 };

static bool is_lost(const fb_tensor *t)
{
    int64_t lost = 0;
    for (int64_t k = 0; t->v && t->bound && k < t->n; k++) lost += isinf(t->bound[k]);
    return 2 * lost > t->n;
}

/* The largest deviation of each element so far, and the sums of all squares: of deviations and of values. */
typedef struct {
    double *most, squares, values;
} spread;

static void add_sample(spread *s, const fb_tensor *t, const fb_tensor *sample)
{
    for (int64_t k = 0; k < t->n; k++) {
        double off = fabs(sample->v[k] - t->v[k]);
        if (!(off < INFINITY)) off = isnan(t->v[k]) || isinf(t->v[k]) ? 0 : INFINITY;
        s->most[k] = fmax(s->most[k], off);
        if (!isfinite(off) || !isfinite(t->v[k])) continue;
        s->squares += off * off;
        s->values += t->v[k] * t->v[k];
    }
}

static void set_bounds(const spread *s, const fb_tensor *t, double *bound)
{
    FB_ASSERT(t->bound); /* something is lost there */
    double mean = t->n ? sqrt(s->squares / ((double)t->n * SAMPLES)) : 0;
    bool known = SAFETY * sqrt(s->squares) < 0.5 * sqrt(s->values);
    for (int64_t k = 0; k < t->n; k++)
        bound[k] = isfinite(t->bound[k]) || !known ? t->bound[k] : SAFETY * fmax(s->most[k], mean);
}

/* New bounds of what is lost: estimated[i] for tensors[i], NULL where it is not; the caller's. */
static bool estimate(const fb_graph *g, const fb_interp_options *o, const fb_tensor *const *tensors, int64_t n,
                     double **estimated, fb_error *err)
{
    bool any = false, good = true;
    spread *s = fb_calloc((size_t)n + 1, sizeof *s);
    for (int64_t i = 0; i < n; i++) {
        if (!is_lost(tensors[i])) continue;
        any = true;
        s[i].most = fb_calloc((size_t)tensors[i]->n + 1, sizeof *s[i].most);
    }
    for (int k = 0; any && good && k < SAMPLES; k++) {
        fb_interp_options jittered = *o;
        jittered.bounds = false;
        jittered.jitter = (uint64_t)k + 1;
        fb_interp *in = fb_interp_run(g, &jittered, NULL, 0, err);
        good = in != NULL;
        for (int64_t i = 0; good && i < n; i++)
            if (s[i].most) add_sample(&s[i], tensors[i], fb_interp_get(in, tensors[i]->node));
        if (in) fb_interp_free(in);
    }
    for (int64_t i = 0; i < n; i++) {
        if (good && s[i].most) {
            estimated[i] = fb_alloc(((size_t)tensors[i]->n + 1) * sizeof **estimated);
            set_bounds(&s[i], tensors[i], estimated[i]);
        }
        fb_free(s[i].most);
    }
    fb_free(s);
    return good;
}

static bool keep_results(const fb_graph *g, const fb_interp_options *o, const fb_interp *in, const char *path,
                         fb_error *err)
{
    fb_arena *arena = fb_arena_new();
    fb_id *nodes;
    file_header h = {.hash = {g->hash.high, g->hash.low}, .seed = o->seed, .n = fb_reference_nodes(g, arena, &nodes)};
    memcpy(h.magic, magic, sizeof h.magic);
    file_entry *entries = FB_NEW_ARRAY(arena, file_entry, h.n);
    const fb_tensor **tensors = FB_NEW_ARRAY(arena, const fb_tensor *, h.n);
    int64_t at = (int64_t)sizeof h + h.n * (int64_t)sizeof *entries;
    for (int64_t i = 0; i < h.n; i++) {
        const fb_tensor *t = tensors[i] = fb_interp_get(in, nodes[i]);
        FB_ASSERT(t);
        entries[i] = (file_entry){.node = nodes[i], .is_int = t->i != NULL, .n = t->n, .values = at};
        at += t->n * 8;
        if (t->bound) {
            entries[i].bounds = at;
            at += (t->n + 1) / 2 * 8;
        }
    }
    double **bounds = FB_NEW_ARRAY(arena, double *, h.n);
    bool ok = estimate(g, o, tensors, h.n, bounds, err) && write_file(path, &h, entries, tensors, bounds, err);
    for (int64_t i = 0; i < h.n; i++) fb_free(bounds[i]);
    fb_arena_free(arena);
    return ok;
}

typedef struct {
    const fb_progress *progress;
} interp_ctx;

static bool interp_step(void *ctx, int done, int total)
{
    const fb_progress *p = ((interp_ctx *)ctx)->progress;
    return !p || !p->step || p->step(p->ctx, "computing the reference", total ? (double)done / total : 0);
}

bool fb_reference_make(const fb_graph *g, uint64_t seed, fb_file_values files, void *files_ctx,
                       const fb_progress *progress, fb_error *err)
{
    char path[2200];
    fb_reference have;
    if (!fb_reference_path(g, seed, path, sizeof path, err)) return false;
    if (fb_reference_open(&have, path, g, NULL)) {
        fb_reference_close(&have);
        fb_cache_touch(path);
        return true;
    }
    interp_ctx ctx = {.progress = progress};
    /* The reference may take most of the machine: its process does nothing else, and a refusal names what it lacked. */
    int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    fb_interp_options o = {.seed = seed,
                           .bounds = true,
                           .files = files,
                           .files_ctx = files_ctx,
                           .max_bytes = memory / 5 * 3,
                           .progress = interp_step,
                           .progress_ctx = &ctx};
    fb_interp *in = fb_interp_run(g, &o, NULL, 0, err);
    if (!in) return false;
    bool ok = keep_results(g, &o, in, path, err);
    fb_interp_free(in);
    if (ok && folder(path, sizeof path, NULL)) fb_cache_trim(path, keep_bytes);
    return ok;
}

/* ---- reading ---- */

static bool whole(const fb_reference *r, const fb_graph *g)
{
    const file_header *h = r->map;
    if (r->bytes < sizeof *h || memcmp(h->magic, magic, sizeof magic) != 0) return false;
    if (h->hash[0] != g->hash.high || h->hash[1] != g->hash.low || h->n < 0) return false;
    const file_entry *e = (const file_entry *)(h + 1);
    if ((uint64_t)h->n > (r->bytes - sizeof *h) / sizeof *e) return false;
    for (int64_t i = 0; i < h->n; i++) {
        if (e[i].node < 0 || e[i].node >= g->n_nodes || e[i].n != fb_shape_elements(&g->nodes[e[i].node].shape))
            return false;
        if (e[i].values < 0 || (uint64_t)e[i].values + (uint64_t)e[i].n * 8 > r->bytes) return false;
        if (e[i].bounds < 0 || (e[i].bounds && (uint64_t)e[i].bounds + (uint64_t)e[i].n * 4 > r->bytes)) return false;
    }
    return true;
}

bool fb_reference_open(fb_reference *r, const char *path, const fb_graph *g, fb_error *err)
{
    struct stat st;
    *r = (fb_reference){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fb_fail(err, FB_ERR_SYSTEM, "there is no reference %s: %s", path, strerror(errno));
    if (fstat(fd, &st) == 0 && st.st_size > 0) {
        r->bytes = (size_t)st.st_size;
        r->map = mmap(NULL, r->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (r->map == MAP_FAILED) r->map = NULL;
    }
    close(fd);
    if (r->map && whole(r, g)) return true;
    fb_reference_close(r);
    return fb_fail(err, FB_ERR_SYSTEM, "the reference %s is of another graph or cut short", path);
}

bool fb_reference_get(const fb_reference *r, fb_id node, fb_reference_tensor *out)
{
    const file_header *h = r->map;
    const file_entry *e = (const file_entry *)(h + 1);
    for (int64_t i = 0; i < h->n; i++) {
        if (e[i].node != node) continue;
        const char *base = r->map;
        *out = (fb_reference_tensor){.n = e[i].n};
        if (e[i].is_int)
            out->i = (const int64_t *)(const void *)(base + e[i].values);
        else
            out->v = (const double *)(const void *)(base + e[i].values);
        if (e[i].bounds) out->bound = (const float *)(const void *)(base + e[i].bounds);
        return true;
    }
    return false;
}

void fb_reference_close(fb_reference *r)
{
    if (r->map) munmap(r->map, r->bytes);
    *r = (fb_reference){0};
}
