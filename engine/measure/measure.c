/* One prepared case: from a plan to samples. Its report's rows are in measure/rows.c. */
#include "measure/measure.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/str.h"
#include "base/vec.h"
#include "code/lower.h"
#include "graph/access.h"
#include "graph/storage.h"
#include "interp/input.h"
#include "measure/audit.h"
#include "measure/check.h"
#include "measure/compare.h"
#include "measure/judging.h"
#include "measure/reference.h"
#include "measure/rows.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    FILL_ELEMENTS = 1 << 18, /* between two looks at whether the user cancelled */
    TRACES = FB_ROUNDS,      /* a round each, so that device times are compared by pairs too */
    MAX_SPANS = 1 << 20,
    TURN_CALLS = 4, /* hot samples come this many calls at a time from one seed */
};
static const double chunk_us = 250e3; /* of samples between two looks */
static const double long_us = 500e3;  /* of one call's hot samples, where they were to take a fraction of it */
static const double metrics_us = 5e3; /* of runs under sampling: 250 samples */

typedef FB_VEC(double) samples;

struct fb_measurement {
    fb_device *device;
    const fb_graph *g;
    const fb_graph *written; /* what the reference is of: `g`, or the graph that it is with loops for steps */
    fb_measure_options o;
    fb_program *program;
    fb_program *apart; /* where kernels are merged: the same with each launched by itself; NULL */
    fb_loaded *loaded;
    fb_kernel_rows *rows; /* the report's kernels, as far as the plan tells */
    fb_recall recall;     /* where the device recalls instead of running */
    fb_arena *arena;
    const char *computes; /* fb_computes_found, once the whole was checked; NULL */
    fb_id *checked;       /* nodes whose values are verified … */
    fb_id *judged;        /* … against those of the graph as written */
    int n_checked;
    int seed;  /* whose inputs are on the device */
    int timed; /* the one seed of which samples are taken; FB_NONE: they rotate */
    bool verified[FB_SEEDS];
    void **images[FB_SEEDS];  /* of each seed and buffer: what is written; kept where seeds rotate */
    uint64_t *left[FB_SEEDS]; /* digests of what a run leaves in each of `checked` */
    bool is_checked;          /* its kernels, on the inputs of the first seed */
    bool order_varies; /* what is left differs in its last bits from run to run, or from its kernels' one by one */
    fb_error_report error, whole;
    samples hot, cold, busy, copied, hidden; /* µs */
    int n_rounds;
    fb_round rounds[FB_ROUNDS];                              /* of hot samples, the latest */
    samples sm_mhz, memory_mhz, watts, celsius, steal, load; /* beside each round */
    int64_t capped, dropped;                                 /* rounds; -1: the device does not tell */
    bool warm;
    double least_us;               /* of all hot samples; 0: none */
    double move_us, since_move_us; /* what allocating anew took; what was sampled since then */
    fb_span *spans;
    int calls;
    double compile_ms;
};

/* ---- inputs ---- */

static bool step(const fb_progress *p, const char *what, double fraction, fb_error *err)
{
    if (!p || !p->step || p->step(p->ctx, what, fraction)) return true;
    return fb_fail(err, FB_ERR_CANCELLED, "cancelled while %s", what);
}

static bool is_filled(const fb_buffer *b)
{
    return b->kind == FB_BUFFER_INPUT || b->kind == FB_BUFFER_PARAM;
}

/* Elements of a buffer that are filled side by side. */
typedef struct {
    const fb_measurement *m;
    const fb_buffer *b;
    uint64_t seed;
    char *to;
    int64_t from;
    pthread_mutex_t lock; /* of what follows */
    fb_error err;
} filling;

static void fill_part(void *ctx, int64_t first, int64_t last)
{
    filling *f = ctx;
    fb_error err = {0};
    int64_t at = f->from + first;
    if (fb_interp_fill_source(f->m->g, f->b->node, f->seed, f->m->o.files, f->m->o.files_ctx, at, last - first,
                              f->to + at * fb_dtype_size(f->b->dtype), &err))
        return;
    pthread_mutex_lock(&f->lock);
    f->err = err;
    pthread_mutex_unlock(&f->lock);
}

static bool fill_buffer(fb_measurement *m, const fb_buffer *b, uint64_t seed, char *to, const fb_progress *progress,
                        fb_error *err)
{
    filling f = {.m = m, .b = b, .seed = seed, .to = to};
    /* a file is read whole, and by one thread */
    bool whole = m->g->nodes[b->node].attrs->dist == FB_DIST_FILE;
    int64_t part = whole ? b->elements : FILL_ELEMENTS, turn = part * fb_parallel_threads() * 4;
    pthread_mutex_init(&f.lock, NULL);
    bool ok = true;
    for (int64_t n; ok && f.from < b->elements; f.from += n) {
        n = b->elements - f.from < turn ? b->elements - f.from : turn;
        fb_parallel_for(n, part, fill_part, &f);
        ok = f.err.kind == FB_OK ? step(progress, "filling the inputs", (double)(f.from + n) / (double)b->elements, err)
                                 : fb_fail(err, f.err.kind, "%s", f.err.text);
    }
    pthread_mutex_destroy(&f.lock);
    return ok;
}

static void free_images(const fb_program *p, void **images)
{
    for (int b = 0; images && b < p->n_buffers; b++) fb_free(images[b]);
    fb_free(images);
}

static void drop_images(fb_measurement *m, int seed)
{
    free_images(m->program, m->images[seed]);
    m->images[seed] = NULL;
}

/* What is written to each source of a program; NULL with an error. */
static void **images_of(fb_measurement *m, const fb_program *p, uint64_t seed, const fb_progress *progress,
                        fb_error *err)
{
    void **images = fb_calloc((size_t)p->n_buffers + 1, sizeof *images);
    for (int b = 0; b < p->n_buffers; b++) {
        if (!is_filled(&p->buffers[b])) continue;
        images[b] = fb_alloc((size_t)p->buffers[b].bytes + 1);
        if (fill_buffer(m, &p->buffers[b], seed, images[b], progress, err)) continue;
        free_images(p, images);
        return NULL;
    }
    return images;
}

static bool make_images(fb_measurement *m, int seed, const fb_progress *progress, fb_error *err)
{
    if (!m->images[seed]) m->images[seed] = images_of(m, m->program, m->o.seeds[seed], progress, err);
    return m->images[seed] != NULL;
}

static bool write_images(fb_measurement *m, fb_loaded *loaded, const fb_program *p, void *const *images, fb_error *err)
{
    bool ok = true;
    for (int b = 0; ok && b < p->n_buffers; b++)
        if (is_filled(&p->buffers[b])) ok = m->device->ops->write(loaded, b, images[b], err);
    return ok;
}

static bool write_inputs(fb_measurement *m, int seed, const fb_progress *progress, fb_error *err)
{
    bool ok = make_images(m, seed, progress, err) && write_images(m, m->loaded, m->program, m->images[seed], err);
    m->seed = ok ? seed : -1;
    /* a check looks at them again, and drops them */
    if (m->o.n_seeds < 2 && m->is_checked) drop_images(m, seed);
    return ok;
}

/* ---- what a run leaves ---- */

static void *read_left(fb_measurement *m, fb_loaded *loaded, const fb_program *p, fb_id node, fb_error *err)
{
    int b = fb_program_left(p, m->g, node);
    if (b == FB_NONE) {
        fb_fail(err, FB_ERR_SYSTEM, "no buffer holds %s", m->g->nodes[node].name);
        return NULL;
    }
    void *bytes = fb_try_alloc((size_t)p->buffers[b].bytes + 1);
    if (!bytes) fb_fail(err, FB_ERR_LIMIT, "%s: no memory to check it in", m->g->nodes[node].name);
    if (!bytes || m->device->ops->read(loaded, b, bytes, err)) return bytes;
    fb_free(bytes);
    return NULL;
}

/* Digests of the checked values: made where they lie, but for what the host was handed. */
static bool digest_left(fb_measurement *m, fb_loaded *loaded, const fb_program *p, uint64_t *to, fb_error *err)
{
    const fb_stepping *s = m->device->ops->stepping;
    for (int i = 0; i < m->n_checked; i++) {
        int b = fb_program_left(p, m->g, m->checked[i]);
        if (b != FB_NONE && s && !p->buffers[b].received) {
            int storage = s->storage(loaded, b);
            const fb_buffer *in = &p->buffers[storage];
            bool pool = in->kind == FB_BUFFER_TEMP;
            if (!s->digest(loaded, pool ? FB_NONE : storage, pool ? in->offset : 0, p->buffers[b].bytes, &to[i], err))
                return false;
            continue;
        }
        void *bytes = read_left(m, loaded, p, m->checked[i], err);
        if (!bytes) return false;
        to[i] = fb_digest(bytes, (size_t)p->buffers[b].bytes);
        fb_free(bytes);
    }
    return true;
}

/* ---- checking ---- */

static void found_wrong(fb_measurement *m, const char *format, const char *name)
{
    m->error.ok = false;
    m->error.state = FB_CHECK_WRONG;
    m->error.bound = INFINITY;
    m->error.kernel[0] = '\0';
    snprintf(m->error.worst, sizeof m->error.worst, format, name);
}

static bool look_step(void *ctx, int64_t done, int64_t total)
{
    const fb_progress *p = ctx;
    return step(p, "computing the reference", total ? (double)done / (double)total : 0, NULL);
}

static fb_trial_options trials_of(const fb_measurement *m, int seed, const fb_progress *progress)
{
    return (fb_trial_options){.seed = m->o.seeds[seed],
                              .files = m->o.files,
                              .files_ctx = m->o.files_ctx,
                              .progress = look_step,
                              .progress_ctx = (void *)(uintptr_t)progress};
}

/* Where all kernels are right, a whole that seems wrong in few elements is looked at once more: the reference has eight
 * lanes. */
static bool judge_once_more(const fb_measurement *m, int seed, int i, const void *bytes, fb_error_report *out,
                            const fb_progress *progress, fb_error *err)
{
    fb_judging j = {.g = m->written, .want = &m->judged[i], .got = &bytes, .n = 1};
    j.o = trials_of(m, seed, progress);
    j.o.sample = fb_reference_sample(m->written);
    return fb_judgement_again(&j, out, err);
}

/* The whole: what the timed program left, from the inputs of a seed. */
static bool judge_whole(fb_measurement *m, int seed, const fb_reference *reference, const fb_progress *progress,
                        fb_error *err)
{
    bool ok = true;
    for (int i = 0; i < m->n_checked && ok; i++) {
        fb_error_report one;
        bool few = false;
        const fb_node *n = &m->written->nodes[m->judged[i]];
        void *bytes = read_left(m, m->loaded, m->program, m->checked[i], err);
        if (!bytes) return false;
        ok = fb_reference_judge(reference, m->judged[i], n, bytes, &one, &few) ||
             fb_fail(err, FB_ERR_SYSTEM, "the reference holds no %s", n->name);
        if (ok && few && m->error.ok) ok = judge_once_more(m, seed, i, bytes, &one, progress, err);
        fb_free(bytes);
        if (ok) fb_check_add_error(&m->whole, &one);
    }
    return ok;
}

/* Opens what is new since it was tried: one that is damaged is being made again. One that could not be read is as it
 * was, and *why says so. */
static bool open_new(const fb_measurement *m, int seed, int place, struct stat *tried, fb_reference *out, fb_error *why)
{
    char path[2200];
    struct stat now;
    if (!fb_reference_path(m->written, m->o.seeds[seed], place, path, sizeof path, NULL) || stat(path, &now) != 0)
        return false;
    if (now.st_ino == tried->st_ino && now.st_mtime == tried->st_mtime) return false;
    fb_error err = {0};
    if (fb_reference_open(out, path, m->written, &err)) return true;
    if (err.kind == FB_ERR_SYSTEM)
        *tried = now;
    else
        *why = err;
    return false;
}

/* Waits until a whole file is there, in whichever place. */
static bool wait_for(fb_measurement *m, int seed, fb_reference *out, const fb_progress *progress, fb_error *err)
{
    enum { TRIES = 200 }; /* of one that is there and cannot be read: descriptors or memory may be short for a moment */
    struct stat tried[FB_REFERENCE_PLACES] = {0};
    for (int failed = 0;;) {
        fb_error why = {0};
        for (int place = 0; place < FB_REFERENCE_PLACES; place++)
            if (open_new(m, seed, place, &tried[place], out, &why)) return true;
        if (why.kind && ++failed == TRIES) return fb_fail(err, FB_ERR_SYSTEM, "%s", why.text);
        if (!step(progress, "waiting for the reference", 0, err)) return false;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

/* Every second run is given other feeds, of another seed: what comes a run late or early shows. */
static bool write_second(fb_measurement *m, uint64_t seed, const fb_progress *progress, fb_error *err)
{
    const fb_program *p = m->program;
    bool good = true;
    for (int b = 0; good && b < p->n_buffers; b++) {
        if (!p->buffers[b].fed) continue;
        char *other = fb_alloc((size_t)p->buffers[b].bytes + 1);
        uint64_t next = fb_input_kind_of(seed) == FB_INPUT_NOISE ? seed + 1 : seed;
        good = fill_buffer(m, &p->buffers[b], next, other, progress, err) &&
               m->device->ops->write_second(m->loaded, b, other, err);
        fb_free(other);
    }
    return good;
}

/* Does what is fed arrive while the run before computes? */
static bool is_late(const fb_measurement *m)
{
    return fb_program_is_fed(m->program) && m->program->overlap;
}

/* Runs from poisoned memory, of which the last counts; more than one where feeds may come late. */
static bool run_poisoned(fb_measurement *m, uint64_t seed, const fb_progress *progress, fb_error *err)
{
    fb_run_time times[3];
    bool late = is_late(m);
    const fb_device_ops *ops = m->device->ops;
    if (!step(progress, "running", 0, err) || (late && !write_second(m, seed, progress, err))) return false;
    const fb_run_how how = {.cache = FB_CACHE_ANY, .samples = late ? 3 : 1};
    return ops->poison(m->loaded, err) && ops->run(m->loaded, &how, times, err);
}

/* What a run from poisoned memory leaves for a seed's inputs, as digests; a second one must leave the same, or it has
 * no fixed order. */
static bool note_left(fb_measurement *m, int seed, const fb_progress *progress, fb_error *err)
{
    if (!run_poisoned(m, m->o.seeds[seed], progress, err)) return false;
    uint64_t *now = FB_NEW_ARRAY(m->arena, uint64_t, m->n_checked);
    if (!digest_left(m, m->loaded, m->program, now, err)) return false;
    for (int i = 0; m->left[seed] && i < m->n_checked; i++)
        if (now[i] != m->left[seed][i]) m->order_varies = true;
    m->left[seed] = now;
    return true;
}

static bool check_whole(fb_measurement *m, int seed, const fb_progress *progress, fb_error *err)
{
    fb_reference reference;
    if (!wait_for(m, seed, &reference, progress, err)) return false;
    bool ok = step(progress, "checking the whole", 0, err) && judge_whole(m, seed, &reference, progress, err);
    if (ok && seed == 0 && fb_input_kind_of(m->o.seeds[seed]) == FB_INPUT_NOISE)
        m->computes = fb_computes_found(m->written, &reference, m->arena);
    fb_reference_close(&reference);
    m->verified[seed] = ok;
    return ok;
}

/* The inputs of one seed, and what the program as it is timed leaves of them. */
typedef struct {
    uint64_t seed;
    void **images; /* of m->program */
    const uint64_t *left;
} inputs;

/* Each kernel by itself, and what they leave one by one against what the timed program left. */
typedef struct {
    fb_measurement *m;
    fb_loaded *apart;
    const fb_program *program;
    const uint64_t *left;
} comparing;

static bool compare_left(void *ctx, fb_error *err)
{
    const comparing *c = ctx;
    fb_measurement *m = c->m;
    uint64_t *now = FB_NEW_ARRAY(m->arena, uint64_t, m->n_checked);
    if (!digest_left(m, c->apart, c->program, now, err)) return false;
    /* A merged kernel may sum in another order than its stages do one by one; then both are judged. */
    for (int i = 0; i < m->n_checked && c->program == m->program && !m->order_varies; i++)
        if (now[i] != c->left[i])
            found_wrong(m, "run at a stretch, %.60s is another than launch by launch", m->g->nodes[m->checked[i]].name);
    return true;
}

static bool check_kernels_of(fb_measurement *m, fb_loaded *loaded, const fb_program *p, const inputs *in,
                             const fb_progress *progress, fb_error *err)
{
    comparing c = {m, loaded, p, in->left};
    fb_check_result found;
    void **own = p == m->program ? NULL : images_of(m, p, in->seed, progress, err);
    fb_check_job job = {.device = m->device,
                        .loaded = loaded,
                        .program = p,
                        .g = m->g,
                        .images = own ? own : in->images,
                        .seed = in->seed,
                        .files = m->o.files,
                        .files_ctx = m->o.files_ctx,
                        .second = true,
                        .memo = m->o.memo,
                        .walked = compare_left,
                        .walked_ctx = &c};
    bool ok = p == m->program || (own && write_images(m, loaded, p, own, err));
    ok = ok && fb_check_kernels(&job, &found, progress, err);
    free_images(p, own);
    if (ok && m->error.ok) m->error = found.error;
    return ok;
}

static bool is_merged(const fb_program *p)
{
    for (int k = 0; k < p->n_kernels; k++)
        if (p->kernels[k].merged) return true;
    return false;
}

/* Of the merged kernels as they are timed, steps of their loops. Where sums have no fixed order, a run for one step
 * more does not go through the state that the other one left. */
static bool check_steps(fb_measurement *m, const inputs *in, const fb_progress *progress, fb_error *err)
{
    fb_check_result found;
    fb_check_job job = {.device = m->device,
                        .loaded = m->loaded,
                        .program = m->program,
                        .g = m->g,
                        .images = in->images,
                        .seed = in->seed,
                        .files = m->o.files,
                        .files_ctx = m->o.files_ctx,
                        .memo = m->o.memo};
    if (m->order_varies || !m->device->ops->stepping->launch_steps) return true;
    if (!fb_check_steps(&job, &found, progress, err)) return false;
    if (!found.error.ok) m->error = found.error;
    return true;
}

/* Merged kernels are lists of their stages here; one program and the other must leave the same. */
static bool check_kernels(fb_measurement *m, const inputs *in, const fb_progress *progress, fb_error *err)
{
    const fb_device_ops *ops = m->device->ops;
    if (!ops->stepping) {
        m->error = (fb_error_report){.ok = true, .state = FB_CHECK_RIGHT, .scope = FB_JUDGED_WHOLE};
        return true;
    }
    if (!m->apart) return check_kernels_of(m, m->loaded, m->program, in, progress, err);
    fb_loaded *loaded = ops->load(m->device, m->apart, progress, err);
    bool ok = loaded && check_kernels_of(m, loaded, m->apart, in, progress, err);
    if (loaded) ops->unload(loaded);
    return ok && (!m->error.ok || check_steps(m, in, progress, err));
}

/* The worse of both scopes; a kernel that is wrong says more than a whole that is. */
static void conclude(fb_measurement *m)
{
    fb_error_report kernels = m->error, *e = &m->error;
    if (!kernels.ok) return;
    e->max_abs = m->whole.max_abs;
    e->max_rel = m->whole.max_rel;
    if (!(m->whole.bound <= e->bound)) e->bound = m->whole.bound;
    e->undecided = m->whole.undecided;
    e->compared = m->whole.compared;
    if (!m->whole.ok) {
        e->ok = false;
        e->state = FB_CHECK_WRONG;
        memcpy(e->worst, m->whole.worst, sizeof e->worst);
    }
    if (e->state == FB_CHECK_RIGHT && fb_report_error_says_nothing(e)) e->state = FB_CHECK_UNDECIDED;
}

/* Kernels from files once more, on inputs that they have not met and cannot know. What was found right stays as it was
 * reported. */
static bool check_unseen(fb_measurement *m, const fb_progress *progress, fb_error *err)
{
    const fb_error_report seen = m->error;
    inputs in = {.seed = fb_seed_unseen()};
    uint64_t *left = fb_alloc(((size_t)m->n_checked + 1) * sizeof *left);
    in.left = left;
    in.images = images_of(m, m->program, in.seed, progress, err);
    bool ok = in.images && write_images(m, m->loaded, m->program, in.images, err) &&
              run_poisoned(m, in.seed, progress, err) && digest_left(m, m->loaded, m->program, left, err) &&
              check_kernels(m, &in, progress, err);
    free_images(m->program, in.images);
    fb_free(left);
    if (ok && m->error.ok) m->error = seen;
    if (ok && m->error.ok) return write_inputs(m, 0, progress, err);
    if (ok) {
        char was[sizeof m->error.worst];
        memcpy(was, m->error.worst, sizeof was);
        snprintf(m->error.worst, sizeof m->error.worst, "on inputs drawn anew, %.*s", (int)sizeof was - 32, was);
    }
    return ok;
}

/* What is timed, end to end: zeros hide what noise shows, and are right or wrong beside that. */
static bool check_timed(fb_measurement *m, const fb_progress *progress, fb_error *err)
{
    char was[sizeof m->whole.worst];
    if (!write_inputs(m, m->timed, progress, err) || !note_left(m, m->timed, progress, err) ||
        !check_whole(m, m->timed, progress, err))
        return false;
    memcpy(was, m->whole.worst, sizeof was);
    if (!m->whole.ok)
        snprintf(m->whole.worst, sizeof m->whole.worst, "with %s for inputs, %.*s",
                 fb_input_kind_name(fb_input_kind_of(m->o.seeds[m->timed])), (int)sizeof was - 32, was);
    return true;
}

/* Kernels first: the reference may still be on its way. The timed program's own answer is what the whole is judged by.
 */
bool fb_measure_check(fb_measurement *m, const fb_progress *progress, fb_error *err)
{
    if (m->device->ops->recall || m->error.state != FB_CHECK_CHECKING) return true;
    m->whole = (fb_error_report){.ok = true};
    if (!write_inputs(m, 0, progress, err) || !note_left(m, 0, progress, err)) return false;
    if (!make_images(m, 0, progress, err)) return false;
    fb_error_report before = m->error;
    bool ok = check_kernels(m, &(inputs){m->o.seeds[0], m->images[0], m->left[0]}, progress, err);
    /* memory holds inputs that tell */
    if (ok && m->error.ok)
        ok = write_inputs(m, 0, progress, err) && run_poisoned(m, m->o.seeds[0], progress, err) &&
             check_whole(m, 0, progress, err);
    if (ok && m->error.ok && m->whole.ok && m->timed != FB_NONE) ok = check_timed(m, progress, err);
    if (ok && m->error.ok && m->device->ops->stepping && fb_audit_has_files(m->program))
        ok = check_unseen(m, progress, err);
    if (!ok) {
        m->error = before;
        return false;
    }
    conclude(m);
    m->is_checked = true;
    if (m->o.n_seeds < 2) drop_images(m, 0);
    return true;
}

/* ---- preparing ---- */

void fb_measure_free(fb_measurement *m)
{
    if (!m) return;
    for (int s = 0; s < FB_SEEDS; s++) {
        if (m->program) drop_images(m, s);
    }
    if (m->loaded) m->device->ops->unload(m->loaded);
    fb_program_free(m->program);
    fb_program_free(m->apart);
    fb_kernel_rows_free(m->rows);
    FB_VEC_FREE(&m->hot);
    FB_VEC_FREE(&m->cold);
    FB_VEC_FREE(&m->busy);
    FB_VEC_FREE(&m->copied);
    FB_VEC_FREE(&m->hidden);
    samples *states[] = {&m->sm_mhz, &m->memory_mhz, &m->watts, &m->celsius, &m->steal, &m->load};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) FB_VEC_FREE(states[i]);
    fb_free(m->spans);
    fb_arena_free(m->arena);
    fb_free(m);
}

/* Compiles, fills, and runs once. */
static bool prepare_run(fb_measurement *m, const fb_progress *progress, fb_error *err)
{
    m->loaded = m->device->ops->load(m->device, m->program, progress, err);
    if (!m->loaded) return false;
    m->compile_ms = m->device->ops->compile_ms(m->loaded);
    if (!write_inputs(m, 0, progress, err) || !note_left(m, 0, progress, err)) return false;
    m->error = fb_error_checking;
    return !m->o.counters || fb_kernel_rows_count(m->rows, m->device, m->loaded, err);
}

static bool prepare_recall(fb_measurement *m, const fb_plan *plan, fb_error *err)
{
    if (!m->device->ops->recall(m->device, plan, m->program, m->arena, &m->recall, err)) return false;
    fb_kernel_rows_recall(m->rows, &m->recall);
    m->compile_ms = NAN;
    m->error = (fb_error_report){.max_abs = m->recall.max_abs,
                                 .max_rel = m->recall.max_rel,
                                 .bound = m->recall.bound,
                                 .undecided = m->recall.undecided,
                                 .state = isnan(m->recall.bound) ? FB_CHECK_NONE : FB_CHECK_RIGHT,
                                 .ok = true};
    return true;
}

/* The values that leave the graph as written, and what they are called where its steps are loops: the answer is held
 * against what was written, so that a loop that is not what its steps were is found. */
static void find_checked(fb_measurement *m, fb_planner *p)
{
    const fb_graph *g = m->written = fb_planner_graph(fb_planner_written(p));
    m->n_checked = fb_reference_nodes(g, m->arena, &m->judged);
    m->checked = m->judged;
    if (g == m->g) return;
    m->checked = FB_NEW_ARRAY(m->arena, fb_id, m->n_checked + 1);
    for (int i = 0; i < m->n_checked; i++) {
        m->checked[i] = fb_planner_roll(p)->is[m->judged[i]];
        for (int k = 0; k < g->n_outputs; k++)
            if (g->outputs[k] == m->judged[i]) m->checked[i] = m->g->outputs[k];
    }
}

fb_measurement *fb_measure_prepare(fb_device *d, const fb_plan *plan, const fb_measure_options *o,
                                   const fb_progress *progress, fb_error *err)
{
    FB_ASSERT(o->n_seeds >= 1 && o->n_seeds <= FB_SEEDS);
    if (d->ops->recall && fb_input_kind_of(o->seeds[o->n_seeds - 1]) != FB_INPUT_NOISE) {
        fb_fail(err, FB_ERR_UNAVAILABLE, "%s was recorded with noise for inputs, and knows nothing of %s", d->name,
                fb_input_kind_name(fb_input_kind_of(o->seeds[o->n_seeds - 1])));
        return NULL;
    }
    fb_measurement *m = fb_calloc(1, sizeof *m);
    m->device = d;
    m->g = fb_planner_graph(fb_plan_planner(plan));
    m->o = *o;
    m->seed = -1;
    m->timed = fb_input_kind_of(o->seeds[o->n_seeds - 1]) == FB_INPUT_NOISE ? FB_NONE : o->n_seeds - 1;
    m->capped = m->dropped = -1;
    m->arena = fb_arena_new();
    m->error = (fb_error_report){.ok = true};
    find_checked(m, fb_plan_planner(plan));
    bool ok = step(progress, "lowering", 0, err) && (m->program = fb_lower(plan, d->ops->target, err)) != NULL;
    m->order_varies = ok && fb_program_sums_in_any_order(m->program);
    if (ok && !d->ops->recall && is_merged(m->program))
        ok = (m->apart = fb_lower_apart(plan, d->ops->target, err)) != NULL;
    if (ok) {
        m->rows = fb_kernel_rows_new(plan, m->program);
        ok = d->ops->recall ? prepare_recall(m, plan, err) : prepare_run(m, progress, err);
    }
    if (ok) return m;
    fb_measure_free(m);
    return NULL;
}

/* ---- sampling ---- */

static bool refuse_wrong(const fb_measurement *m, fb_error *err)
{
    if (m->error.ok) return true;
    return fb_fail(err, FB_ERR_INPUT, "the result is wrong, so no time is taken: %s%s%s", m->error.kernel,
                   m->error.kernel[0] ? ": " : "", m->error.worst);
}

/* Inputs of the next seed, once in a while; a seed whose reference is still being computed is left for later. */
static bool rotate(fb_measurement *m, fb_cache_state cache, const fb_progress *progress, fb_error *err)
{
    int turn = cache == FB_CACHE_COLD ? 1 : TURN_CALLS;
    int next = m->calls++ / turn % m->o.n_seeds;
    if (m->timed != FB_NONE)
        return m->seed == m->timed ||
               (write_inputs(m, m->timed, progress, err) && note_left(m, m->timed, progress, err));
    if (next == m->seed) return true;
    /* until the first is checked, and the next one's reference is there, it goes on alone */
    if (!m->verified[next] && next && m->seed >= 0 &&
        (m->error.state == FB_CHECK_CHECKING || !fb_reference_there(m->written, m->o.seeds[next])))
        return true;
    if (!write_inputs(m, next, progress, err)) return false;
    if (m->verified[next] || !next) return true;
    if (!note_left(m, next, progress, err) || !check_whole(m, next, progress, err)) return false;
    conclude(m);
    return true;
}

/* What the last timed run left is what the checked one did, bit by bit; where the order of sums is not fixed, it is
 * judged. */
static bool look_again(fb_measurement *m, fb_error *err)
{
    fb_reference reference;
    uint64_t *now = fb_alloc(((size_t)m->n_checked + 1) * sizeof *now);
    bool ok = digest_left(m, m->loaded, m->program, now, err), same = true;
    for (int i = 0; ok && i < m->n_checked; i++) {
        if (now[i] == m->left[m->seed][i]) continue;
        same = false;
        if (!m->order_varies)
            found_wrong(m, "after the samples %.60s was another than before them", m->g->nodes[m->checked[i]].name);
    }
    fb_free(now);
    if (!ok || same || !m->order_varies || !m->verified[m->seed]) return ok;
    if (!fb_reference_find(&reference, m->written, m->o.seeds[m->seed], err)) return false;
    ok = judge_whole(m, m->seed, &reference, NULL, err);
    fb_reference_close(&reference);
    conclude(m);
    return ok;
}

/* One run with its launches timed apart: in a pass of its own, so that the clock disturbs no wall time. Leaves its
 * spans in m->spans, *n of them. */
static bool trace_spans(fb_measurement *m, fb_cache_state cache, int64_t *n, fb_error *err)
{
    int64_t room = 2 * fb_program_launches(m->program) + m->program->n_buffers + 16; /* a library call may be several
                                                                                       kernels */
    if (!m->spans) m->spans = fb_alloc((size_t)room * sizeof *m->spans);
    if (!m->device->ops->trace(m->loaded, cache, m->spans, room, n, err)) return false;
    if (*n > room) *n = room;
    return true;
}

static bool trace(fb_measurement *m, fb_cache_state cache, fb_error *err)
{
    int64_t n;
    if (fb_program_launches(m->program) > MAX_SPANS) return true; /* a long loop: the wall time is all there is */
    if (!trace_spans(m, cache, &n, err)) return false;
    double us = fb_kernel_rows_trace(m->rows, cache, m->spans, n), hidden;
    double copied = fb_spans_copied_us(m->spans, n, &hidden);
    if (cache == FB_CACHE_HOT && isfinite(us)) {
        FB_VEC_PUSH(&m->busy, us);
        FB_VEC_PUSH(&m->copied, copied);
        FB_VEC_PUSH(&m->hidden, hidden);
    }
    return true;
}

static bool take_samples(fb_measurement *m, fb_cache_state cache, int n, const fb_progress *progress, fb_error *err)
{
    enum { MOST = 256 };
    fb_run_time times[MOST];
    samples *to = cache == FB_CACHE_COLD ? &m->cold : &m->hot;
    double began = fb_now_us();
    for (int done = 0, now = 1; done < n; done += now) {
        double each = done ? times[0].wall_us : INFINITY; /* the first alone tells how many fit between two looks */
        double fit = chunk_us / (each > 0.01 ? each : 0.01);
        now = !done || cache == FB_CACHE_COLD || fit < 1 ? 1 : fit > MOST ? MOST : (int)fit;
        if (now > n - done) now = n - done;
        if (is_late(m))
            now -= now % 2 == 0; /* every second run of a call is fed something else: the last is as the first */
        if (!step(progress, "measuring", (double)done / n, err)) return false;
        if (!m->device->ops->run(m->loaded, &(fb_run_how){.cache = cache, .samples = now}, times, err)) return false;
        for (int i = 0; i < now; i++) {
            FB_VEC_PUSH(to, times[i].wall_us);
            if (cache == FB_CACHE_HOT && !(m->least_us <= times[i].wall_us && m->least_us > 0))
                m->least_us = times[i].wall_us;
        }
        if (cache == FB_CACHE_HOT && fb_now_us() - began > long_us) break; /* disturbed: others wait for their turn */
    }
    return true;
}

/* What a comparison with another column pairs (measure/compare.h): the runs since `before`, the trace since `traced`.
 */
static void add_round(fb_measurement *m, double at_us, int before, int traced)
{
    if (m->n_rounds == FB_ROUNDS) memmove(m->rounds, m->rounds + 1, (size_t)--m->n_rounds * sizeof *m->rounds);
    m->rounds[m->n_rounds++] = (fb_round){.at_us = at_us,
                                          .wall_us = fb_stat_of(m->hot.at + before, m->hot.n - before).median,
                                          .device_us = m->busy.n > traced ? m->busy.at[m->busy.n - 1] : NAN};
}

/* Where kernels are a file's, a run from cleared memory comes at any place among the samples: it must leave the same.
 */
static bool sample_and_look(fb_measurement *m, fb_cache_state cache, int n, const fb_progress *progress, fb_error *err)
{
    enum { RARELY = 4 };
    uint64_t drawn = fb_seed_unseen();
    bool audit = fb_audit_has_files(m->program) && (n > 1 || drawn % RARELY == 0);
    int before = audit ? (int)(drawn / RARELY % (uint64_t)n) : n;
    if (!take_samples(m, cache, before, progress, err)) return false;
    if (audit && (!run_poisoned(m, m->o.seeds[m->seed], progress, err) || !look_again(m, err))) return false;
    return take_samples(m, cache, n - before, progress, err) && (!m->error.ok || look_again(m, err));
}

static void refuse_too_short(fb_measurement *m, const samples *taken, int from)
{
    char why[160];
    double wall_us = fb_stat_of(taken->at + from, taken->n - from).median;
    if (fb_files_left_out_work(m->program, m->device->ops->machine(m->device), wall_us, why))
        found_wrong(m, "%.159s", why);
}

double fb_measure_least_us(const fb_measurement *m)
{
    return m->least_us > 0 ? m->least_us : NAN;
}

/* ---- the machine beside the samples ---- */

static fb_machine_state state_of(fb_measurement *m)
{
    fb_machine_state s = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, false, false};
    if (m->device->ops->state) m->device->ops->state(m->device, &s);
    return s;
}

static void note_state(fb_measurement *m, const fb_machine_state *s)
{
    FB_VEC_PUSH(&m->sm_mhz, s->sm_mhz);
    FB_VEC_PUSH(&m->memory_mhz, s->memory_mhz);
    FB_VEC_PUSH(&m->watts, s->watts);
    FB_VEC_PUSH(&m->celsius, s->celsius);
    FB_VEC_PUSH(&m->steal, s->steal);
    FB_VEC_PUSH(&m->load, s->load);
    if (isnan(s->sm_mhz)) return;
    if (m->capped < 0) m->capped = m->dropped = 0;
    m->capped += s->capped;
}

/* A GPU that has rested clocks low, and takes a while until it does no more. */
static bool warm_up(fb_measurement *m, const fb_progress *progress, fb_error *err)
{
    static const double near_most = 0.95, steady = 0.01, apart_us = 2e4, patience = 3e5;
    double start = fb_now_us();
    fb_machine_state s = state_of(m);
    m->warm = true;
    while (s.sm_mhz < near_most * s.most_sm_mhz && fb_now_us() - start < patience) {
        double before = s.sm_mhz, since = fb_now_us();
        fb_run_time time;
        while (fb_now_us() - since < apart_us)
            if (!step(progress, "warming up", 0, err) ||
                !m->device->ops->run(m->loaded, &(fb_run_how){.cache = FB_CACHE_HOT, .samples = 1}, &time, err))
                return false;
        s = state_of(m);
        if (fabs(s.sm_mhz - before) <= steady * before) break;
    }
    return true;
}

/* Where buffers lie is a part of how fast they are met, and no part of a plan: they are allocated anew again and again,
 * as often as it takes an eighth of the time. */
static bool move(fb_measurement *m, const fb_progress *progress, fb_error *err)
{
    static const double rarely = 8;
    if (!m->device->ops->move || !m->n_rounds || is_late(m) || m->since_move_us < rarely * m->move_us) return true;
    double start = fb_now_us();
    if (!m->device->ops->move(m->loaded)) return true;
    if (!write_inputs(m, m->seed, progress, err)) return false;
    m->move_us = fb_now_us() - start;
    m->since_move_us = 0;
    return true;
}

static double middle(const samples *s)
{
    return s->n ? fb_stat_of(s->at, s->n).median : NAN;
}

bool fb_measure_sample(fb_measurement *m, fb_cache_state cache, int n, const fb_progress *progress, fb_error *err)
{
    if (m->device->ops->recall) return true; /* there is nothing to add */
    if (!refuse_wrong(m, err) || !rotate(m, cache, progress, err) || !refuse_wrong(m, err)) return false;
    samples *to = cache == FB_CACHE_COLD ? &m->cold : &m->hot;
    int before = m->hot.n, traced = m->busy.n, first = to->n;
    if (!m->warm && !warm_up(m, progress, err)) return false;
    if (cache == FB_CACHE_HOT && !move(m, progress, err)) return false;
    double at_us = fb_now_us();
    if (!sample_and_look(m, cache, n, progress, err)) return false;
    m->since_move_us += fb_now_us() - at_us;
    if (m->error.ok) refuse_too_short(m, to, first);
    fb_machine_state state = state_of(m);
    if (cache == FB_CACHE_HOT) note_state(m, &state);
    if (state.slowed) {
        to->n = first;
        m->dropped++;
        return true;
    }
    bool ok = (cache == FB_CACHE_HOT && m->busy.n >= TRACES) || trace(m, cache, err);
    if (ok && cache == FB_CACHE_HOT) add_round(m, at_us, before, traced);
    return ok;
}

/* ---- a timeline ---- */

static void name_copies(const fb_program *p, fb_timeline *t)
{
    int *buffers = fb_alloc(((size_t)p->n_buffers + 1) * sizeof *buffers), first_out;
    int n = fb_program_copies(p, buffers, &first_out);
    for (int i = 0; i < n; i++)
        t->names[t->n_names++] =
            fb_arena_printf(t->arena, "%s %s", i < first_out ? "feed" : "receive", p->buffers[buffers[i]].name);
    fb_free(buffers);
}

static void take_spans(const fb_measurement *m, fb_timeline *t, int64_t n)
{
    const fb_program *p = m->program;
    t->names = FB_NEW_ARRAY(t->arena, const char *, p->n_kernels + p->n_gemms + p->n_buffers);
    t->kernels = FB_NEW_ARRAY(t->arena, int, p->n_kernels + p->n_gemms + p->n_buffers);
    for (int i = 0; i < p->n_kernels + p->n_gemms + p->n_buffers; i++)
        t->kernels[i] = i < p->n_kernels + p->n_gemms ? fb_kernel_rows_find(m->rows, i) : FB_NONE;
    for (; t->n_names < p->n_kernels + p->n_gemms; t->n_names++) {
        const char *name = fb_kernel_rows_name(m->rows, t->n_names);
        t->names[t->n_names] = fb_arena_strdup(t->arena, name ? name : "");
    }
    name_copies(p, t);
    t->n_spans = n < FB_TIMELINE_SPANS ? n : FB_TIMELINE_SPANS;
    t->spans = FB_NEW_ARRAY(t->arena, fb_span, t->n_spans);
    fb_spans_sort(m->spans, n);
    memcpy(t->spans, m->spans, (size_t)t->n_spans * sizeof *t->spans);
}

static double *kept(const fb_timeline *t, const double *values, int64_t n)
{
    double *copy = FB_NEW_ARRAY(t->arena, double, n);
    if (n) memcpy(copy, values, (size_t)n * sizeof *copy);
    return copy;
}

/* That there are none is a remark on the timeline; that the device broke is an error. */
static bool take_metrics(fb_measurement *m, fb_timeline *t, fb_error *err)
{
    fb_metric_log log = {0};
    fb_error why = {0};
    const fb_device_ops *ops = m->device->ops;
    bool good = ops->sample_metrics ? ops->sample_metrics(m->loaded, metrics_us, &log, &why)
                                    : fb_fail(&why, FB_ERR_UNAVAILABLE, "%s has no metrics over time", m->device->name);
    if (good) {
        t->metrics = log;
        t->metrics.at_us = kept(t, log.at_us, log.n);
        t->metrics.value = kept(t, log.value, log.n * log.n_metrics);
        t->metrics.run_us = kept(t, log.run_us, 2 * log.n_runs);
    } else if (why.kind == FB_ERR_UNAVAILABLE) {
        t->no_metrics = fb_arena_strdup(t->arena, why.text);
    }
    fb_metric_log_clear(&log);
    return good || why.kind == FB_ERR_UNAVAILABLE || fb_fail(err, why.kind, "%s", why.text);
}

/* As it was when it was recorded. */
static fb_timeline *recalled_timeline(fb_measurement *m, fb_error *err)
{
    const fb_device_ops *ops = m->device->ops;
    if (m->recall.source != FB_SOURCE_RECORDED || !m->recall.recorded || !ops->recall_timeline) {
        fb_fail(err, FB_ERR_UNAVAILABLE,
                "its times are %s, and only a plan that was recorded whole has a timeline; on a device that is here it "
                "is measured and traced",
                fb_report_source_name(m->recall.source));
        return NULL;
    }
    json_t *kept_json = ops->recall_timeline(m->device, m->recall.recorded, err);
    fb_timeline *t = kept_json ? fb_timeline_from_json(kept_json, err) : NULL;
    json_decref(kept_json);
    if (t && m->recall.stale) t->kernels = NULL; /* of another program */
    return t;
}

fb_timeline *fb_measure_timeline(fb_measurement *m, bool metrics, const fb_progress *progress, fb_error *err)
{
    int64_t n = 0;
    if (m->device->ops->recall) return recalled_timeline(m, err);
    if (!m->device->ops->trace) {
        fb_fail(err, FB_ERR_UNAVAILABLE, "%s runs nothing that could be traced", m->device->name);
        return NULL;
    }
    if (fb_program_launches(m->program) > MAX_SPANS) {
        fb_fail(err, FB_ERR_LIMIT, "more than %d launches are too many to trace", MAX_SPANS);
        return NULL;
    }
    if (!refuse_wrong(m, err) || !step(progress, "tracing", 0, err) || !trace_spans(m, FB_CACHE_HOT, &n, err))
        return NULL;
    fb_timeline *t = fb_timeline_new();
    take_spans(m, t, n);
    if (!metrics || (step(progress, "sampling metrics", 0.5, err) && take_metrics(m, t, err))) return t;
    fb_timeline_free(t);
    return NULL;
}

/* ---- one value ---- */

/* Where a value of that node is to be had: what a run leaves, what is given, or what a kernel stores. */
typedef struct {
    fb_id node; /* an effect for what a run leaves in a parameter, or hands out */
    fb_id held; /* the node whose bytes it has */
} wanted_value;

static wanted_value wanted_value_of(const fb_measurement *m, fb_id node)
{
    const fb_graph *g = m->g;
    wanted_value w = {node, node};
    if (!fb_access_whole(g, node, &w.held)) w.held = node;
    for (int i = 0; i < m->n_checked; i++) { /* a parameter stands for what training makes of it */
        const fb_node *n = &g->nodes[m->checked[i]];
        if (n->op == FB_OP_ASSIGN && n->args[0] == node) w.node = w.held = m->checked[i];
    }
    return w;
}

static bool is_effect(const fb_graph *g, fb_id node)
{
    return g->nodes[node].op == FB_OP_ASSIGN || g->nodes[node].op == FB_OP_RECEIVE;
}

static bool is_given(const fb_graph *g, fb_id node)
{
    fb_op op = g->nodes[node].op;
    bool by_loop = op == FB_OP_STEP || op == FB_OP_CARRIED || op == FB_OP_ITEM;
    return (fb_node_class(g, node) == FB_CLASS_SOURCE || op == FB_OP_FEED) && !by_loop;
}

static void *given_bytes(fb_measurement *m, fb_id node, fb_error *err)
{
    const fb_node *n = &m->g->nodes[node];
    void *bytes = fb_try_alloc((size_t)fb_node_bytes(m->g, node) + 1);
    bool ok = bytes ? fb_interp_fill_source(m->g, node, m->o.seeds[0], m->o.files, m->o.files_ctx, 0,
                                            fb_shape_elements(&n->shape), bytes, err)
                    : fb_fail(err, FB_ERR_LIMIT, "%s: no memory to look at it in", n->name);
    if (ok) return bytes;
    fb_free(bytes);
    return NULL;
}

/* The program with each kernel launched by itself, and what is written to its sources. */
static bool watch_stored(fb_measurement *m, fb_watched *watched, const fb_progress *progress, fb_error *err)
{
    const fb_device_ops *ops = m->device->ops;
    const fb_program *p = m->apart ? m->apart : m->program;
    fb_loaded *loaded = m->apart ? ops->load(m->device, p, progress, err) : m->loaded;
    void **images = loaded ? images_of(m, p, 0, progress, err) : NULL;
    bool ok = images != NULL;
    for (int b = 0; ok && b < p->n_buffers; b++)
        if (is_filled(&p->buffers[b])) ok = ops->write(loaded, b, images[b], err);
    fb_check_job job = {.device = m->device,
                        .loaded = loaded,
                        .program = p,
                        .g = m->g,
                        .images = images,
                        .seed = m->o.seeds[0],
                        .files = m->o.files,
                        .files_ctx = m->o.files_ctx};
    ok = ok && fb_check_watch(&job, watched, progress, err);
    free_images(p, images);
    if (m->apart && loaded) ops->unload(loaded);
    return ok;
}

/* Those that read `node` inside the kernel `k`, through views too: cutting it from them makes the kernel store it. */
static void add_readers(const fb_graph *g, fb_id node, const fb_kernel_report *k, fb_str *to)
{
    for (int u = g->user_start[node]; u < g->user_start[node + 1]; u++) {
        const char *name = g->nodes[g->users[u]].name;
        bool inside = false;
        for (int i = 0; i < k->n_nodes; i++) inside = inside || strcmp(k->nodes[i], name) == 0;
        if (inside)
            fb_str_addf(to, "%s%s", to->n ? ", " : "", name);
        else if (fb_node_class(g, g->users[u]) == FB_CLASS_VIEW)
            add_readers(g, g->users[u], k, to);
    }
}

static bool holds(const fb_kernel_report *k, const char *node)
{
    for (int i = 0; i < k->n_nodes; i++)
        if (strcmp(k->nodes[i], node) == 0) return true;
    return false;
}

static bool say_not_stored(fb_measurement *m, fb_id node, fb_error *err)
{
    const fb_graph *g = m->g;
    const char *name = g->nodes[node].name;
    fb_id base = fb_access_base(g, node);
    if (base != node) {
        const char *of = g->nodes[base].name;
        return fb_fail(err, FB_ERR_INPUT, "%s is a view of %s, and no kernel stores it: look at %s", name, of, of);
    }
    fb_report *r = fb_measure_report(m);
    int k = 0;
    while (k < r->n_kernels && !holds(&r->kernels[k], name)) k++;
    if (k == r->n_kernels) {
        fb_fail(err, FB_ERR_INPUT, "%s is nothing that a kernel stores%s", name,
                g->nodes[node].region ? ": its loop gives it to each step; look at what is made of it" : "");
    } else {
        fb_str readers = {0};
        add_readers(g, node, &r->kernels[k], &readers);
        fb_fail(
            err, FB_ERR_INPUT,
            "%s is inside the kernel %s, which never stores it: cut it from %s (Space on that edge in the workbench, "
            "pl:cut in a plan), or look at it in the plan none",
            name, r->kernels[k].name, readers.n ? fb_str_get(&readers) : "what reads it");
        fb_str_free(&readers);
    }
    fb_report_free(r);
    return false;
}

/* Its bytes, and in `from` where they are from; NULL with an error. */
static void *value_bytes(fb_measurement *m, wanted_value w, fb_str *from, const fb_progress *progress, fb_error *err)
{
    const fb_graph *g = m->g;
    const fb_node *n = &g->nodes[w.held];
    if (is_effect(g, w.node)) {
        fb_str_add(from, n->op == FB_OP_ASSIGN ? "what a run leaves in it" : "received from a run");
        bool ran = write_inputs(m, 0, progress, err) && run_poisoned(m, 0, progress, err);
        return ran ? read_left(m, m->loaded, m->program, w.node, err) : NULL;
    }
    if (is_given(g, w.held)) {
        fb_str_addf(from, "given, %s", fb_op_get(n->op)->name);
        return given_bytes(m, w.held, err);
    }
    fb_watched watched = {.node = w.held};
    bool ok = watch_stored(m, &watched, progress, err);
    if (ok && !watched.bytes) ok = say_not_stored(m, w.node, err);
    /* a view that is all of it, in the order of memory, has the bytes as they are */
    if (ok && w.held == w.node && !fb_storage_to_own(g, w.held, watched.bytes))
        ok = fb_fail(err, FB_ERR_LIMIT, "%s: no memory to look at it in", n->name);
    if (!ok) {
        fb_free(watched.bytes);
        return NULL;
    }
    fb_str_addf(from, "stored by %s", watched.by);
    if (w.held != w.node) fb_str_addf(from, " as %s", n->name);
    if (n->region) fb_str_add(from, ", in the last step of its loop");
    return watched.bytes;
}

fb_values *fb_measure_values(fb_measurement *m, const char *node, const fb_progress *progress, fb_error *err)
{
    fb_id id = fb_graph_find(m->g, node);
    fb_str from = {0};
    if (!m->device->ops->stepping) {
        fb_fail(err, FB_ERR_UNAVAILABLE, "%s runs nothing: it has figures, and no values", m->device->name);
        return NULL;
    }
    if (id == FB_NONE) {
        fb_fail(err, FB_ERR_INPUT, "no node \"%.60s\"", node);
        return NULL;
    }
    wanted_value w = wanted_value_of(m, id);
    void *bytes = value_bytes(m, w, &from, progress, err);
    fb_values *v = bytes ? fb_values_of(m->g, w.node, fb_str_get(&from), bytes) : NULL;
    fb_trial_options o = trials_of(m, 0, progress);
    if (v && !is_given(m->g, w.held) && !fb_values_judge(v, m->g, w.node, bytes, &o, err)) {
        fb_values_free(v);
        v = NULL;
    }
    if (v) v->node = fb_arena_strdup(v->arena, node);
    fb_free(bytes);
    fb_str_free(&from);
    return v;
}

/* ---- the report ---- */

static void report_recalled(const fb_recall *recall, fb_report *r)
{
    r->source = recall->source;
    r->stale = recall->stale;
    r->wall_us = recall->wall_us;
    r->device_us = recall->device_us;
    r->cold_us = recall->cold_us;
    if (recall->rounds && recall->source == FB_SOURCE_RECORDED) {
        r->n_rounds = recall->rounds->n;
        memcpy(r->rounds, recall->rounds->at, sizeof r->rounds);
    }
    if (!r->copies) return;
    r->copy_us = (fb_stat){recall->copy_us, NAN, NAN, 1};
    r->copy_hidden_us = recall->copy_hidden_us;
}

static void report_measured(const fb_measurement *m, fb_report *r)
{
    r->source = FB_SOURCE_MEASURED;
    if (!m->error.ok) return; /* a plan whose answer is wrong shows no time */
    r->wall_us = fb_stat_of(m->hot.at, m->hot.n);
    r->cold_us = fb_stat_of(m->cold.at, m->cold.n);
    r->device_us = fb_stat_of(m->busy.at, m->busy.n);
    r->n_rounds = m->n_rounds;
    memcpy(r->rounds, m->rounds, sizeof r->rounds);
    r->state.sm_mhz = middle(&m->sm_mhz);
    r->state.memory_mhz = middle(&m->memory_mhz);
    r->state.watts = middle(&m->watts);
    r->state.celsius = middle(&m->celsius);
    r->state.steal = middle(&m->steal);
    r->state.load = middle(&m->load);
    r->state.capped = m->capped;
    r->state.dropped = m->dropped;
    if (!r->copies || !m->copied.n) return;
    r->copy_us = fb_stat_of(m->copied.at, m->copied.n);
    r->copy_hidden_us = fb_stat_of(m->hidden.at, m->hidden.n).median;
}

fb_report *fb_measure_report(fb_measurement *m)
{
    fb_report *r = fb_report_new();
    fb_kernel_rows_report(m->rows, m->device, m->loaded, r);
    r->compile_ms = m->compile_ms;
    r->error = m->error;
    r->computes = m->computes ? fb_arena_strdup(r->arena, m->computes) : NULL;
    if (m->device->ops->recall)
        report_recalled(&m->recall, r);
    else
        report_measured(m, r);
    r->gap_us = fb_report_gap(r);
    return r;
}

fb_report *fb_measure_recall_named(fb_device *d, const fb_graph *g, const char *plan, fb_error *err)
{
    fb_peer_plan p;
    if (!d->ops->recall_named(d, g, plan, &p, err)) return NULL;
    fb_report *r = fb_report_new();
    r->source = FB_SOURCE_RECORDED;
    r->nodes = g->n_nodes;
    r->launches = p.launches;
    r->launch_mode = fb_arena_strdup(r->arena, p.launch_mode);
    r->wall_us = p.wall_us;
    r->device_us = p.device_us;
    r->cold_us = p.cold_us;
    r->n_rounds = p.rounds.n;
    memcpy(r->rounds, p.rounds.at, sizeof r->rounds);
    r->error = (fb_error_report){.max_abs = p.max_abs,
                                 .max_rel = p.max_rel,
                                 .bound = p.bound,
                                 .ok = !(p.bound > 1),
                                 .scope = FB_JUDGED_WHOLE,
                                 .state = isnan(p.bound) ? FB_CHECK_NONE
                                          : p.bound > 1  ? FB_CHECK_WRONG
                                                         : FB_CHECK_RIGHT};
    r->n_kernels = p.n_kernels;
    r->kernels = FB_NEW_ARRAY(r->arena, fb_kernel_report, p.n_kernels);
    for (int i = 0; i < p.n_kernels; i++) {
        fb_kernel_report *k = &r->kernels[i];
        fb_kernel_report_clear(k);
        k->name = fb_arena_strdup(r->arena, p.kernels[i].name);
        k->family = fb_arena_strdup(r->arena, p.kernels[i].family);
        k->count = p.kernels[i].count;
        k->device_us = p.kernels[i].device_us;
        k->source = FB_SOURCE_RECORDED;
    }
    r->gap_us = fb_report_gap(r);
    return r;
}
