/* Single steps of loops that are one kernel.
 *
 * requires  a loaded program with merged kernels that take their trip count as an argument (code/merge.h), and leave
 *           the same whenever they are run
 * provides  the first step that is wrong, or that there is none
 *
 * A merged kernel shows nothing of its steps: it begins with the initial state and leaves the last one. So the same
 * binary is run twice from the same memory, for t and for t + 1 steps. What the first run leaves is the state that step
 * t begins with, what the second one leaves is what step t made of it; the judge holds the one against trials of the
 * loop's body from the other. However long the loop, an error is as large as it was in its own step. Looked at are the
 * first two steps, the last two, and one between, another for other inputs. */
#include "measure/check_parts.h"

#include "base/arena.h"
#include "base/rng.h"
#include "base/str.h"
#include "graph/access.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    fb_inner_step at;
    const fb_progress *progress;
    fb_check_result *out;
    fb_error *err;
} stepper;

/* ---- running as far as a step ---- */

static int end_of(const fb_program *p, int repeat)
{
    int depth = 1, i = repeat + 1;
    for (; depth; i++) depth += (p->launches[i].kind == FB_LAUNCH_REPEAT) - (p->launches[i].kind == FB_LAUNCH_END);
    return i - 1;
}

/* Launches `from` … `to` - 1, but of a loop that holds launch `to` only the beginning of its first step. */
static bool run_range(fb_inner_step *s, int from, int to, int depth, fb_error *err)
{
    const fb_program *p = s->job->program;
    const fb_stepping *stepping = s->job->device->ops->stepping;
    for (int i = from; i < to; i++) {
        const fb_launch *l = &p->launches[i];
        int end = l->kind == FB_LAUNCH_REPEAT ? end_of(p, i) : i;
        s->step[depth] = 0;
        if (l->kind == FB_LAUNCH_SWAP) {
            stepping->swap(s->job->loaded, l->swap_a, l->swap_b);
        } else if (l->kind == FB_LAUNCH_REPEAT && end > to) {
            s->level = ++depth;
        } else if (l->kind == FB_LAUNCH_REPEAT) {
            for (; s->step[depth] < l->count; s->step[depth]++)
                if (!run_range(s, i + 1, end, depth + 1, err)) return false;
            s->step[depth] = 0;
            i = end;
        } else if (l->kind != FB_LAUNCH_END && !stepping->launch(s->job->loaded, i, s->step, err)) {
            return false;
        }
    }
    return true;
}

/* A kernel exchanges a loop's buffers for itself: where its states are after so many steps. */
static void exchange(fb_inner_step *s, const fb_inner_loop *loop, int64_t steps)
{
    for (int i = 0; steps % 2 && i < loop->n_swaps; i++)
        s->job->device->ops->stepping->swap(s->job->loaded, loop->swaps[i][0], loop->swaps[i][1]);
}

bool fb_check_step_run(fb_inner_step *s, int64_t t, int64_t of, fb_error *err)
{
    fb_loaded *l = s->job->loaded;
    const fb_device_ops *ops = s->job->device->ops;
    s->level = 0;
    if (!ops->poison(l, err) || !ops->stepping->rewind(l, err)) return false;
    if (!run_range(s, s->job->first_launch, s->launch, 0, err)) return false;
    s->step[s->level] = 0;
    if (!ops->stepping->launch_steps(l, s->launch, s->step, s->loop->first + t, err)) return false;
    for (const fb_inner_loop *done = s->job->program->launches[s->launch].loops; done < s->loop; done++)
        exchange(s, done, done->count);
    exchange(s, s->loop, of);
    s->step[s->level] = of;
    return true;
}

/* ---- what a step is given and leaves ---- */

static bool is_inside(const fb_graph *g, fb_id region, fb_id outer)
{
    for (; region; region = g->regions[region].parent)
        if (region == outer) return true;
    return false;
}

static bool is_among(const fb_place *places, int n, fb_id node)
{
    for (int i = 0; i < n; i++)
        if (places[i].node == node) return true;
    return false;
}

/* What a step finds: states, items and counters of its loop, and values from outside. What its body computes, trials
 * compute too; and so what each step copies anew, for a library to read, though it is computed by nothing (a constant, a
 * random source, a view): before the first step that is not there. */
static bool is_given(const fb_graph *g, const fb_inner_loop *l, fb_id node)
{
    const fb_node *n = &g->nodes[node];
    fb_id region = l->region;
    if (n->region != region) return !is_inside(g, n->region, region) && !is_among(l->stores, l->n_stores, node);
    if (n->op == FB_OP_CARRIED || n->op == FB_OP_ITEM || n->op == FB_OP_STEP) return true;
    return !fb_node_is_computed(g, node) && n->op != FB_OP_RESULT && !is_among(l->stores, l->n_stores, node);
}

fb_launch fb_check_step_launch(const fb_inner_step *s, fb_arena *arena)
{
    const fb_graph *g = s->job->g;
    const fb_inner_loop *l = s->loop;
    fb_place *reads = FB_NEW_ARRAY(arena, fb_place, l->n_reads + 1);
    fb_place *stores = FB_NEW_ARRAY(arena, fb_place, l->n_stores + 1);
    fb_launch one = s->job->program->launches[s->launch];
    one.reads = reads;
    one.stores = stores;
    one.n_reads = one.n_stores = 0;
    for (int i = 0; i < l->n_reads; i++)
        if (is_given(g, l, l->reads[i].node) && !is_among(reads, one.n_reads, l->reads[i].node))
            reads[one.n_reads++] = l->reads[i];
    for (int i = 0; i < l->n_stores; i++)
        if (g->nodes[l->stores[i].node].region == l->region) stores[one.n_stores++] = l->stores[i];
    return one;
}

/* ---- findings ---- */

__attribute__((format(printf, 3, 4))) static void found(stepper *s, int64_t t, const char *format, ...)
{
    fb_error_report *e = &s->out->error;
    fb_str text = {0};
    va_list ap;
    fb_str_addf(&text, "in step %lld of %lld, ", (long long)t, (long long)s->at.loop->count);
    va_start(ap, format);
    fb_str_vaddf(&text, format, ap);
    va_end(ap);
    fb_text_clean(e->worst, sizeof e->worst, text.text, text.n);
    snprintf(e->kernel, sizeof e->kernel, "%.63s",
             fb_check_launch_name(s->at.job->program, &s->at.job->program->launches[s->at.launch]));
    fb_str_free(&text);
    e->ok = false;
    e->state = FB_CHECK_WRONG;
    if (!(e->bound > 1)) e->bound = INFINITY;
}

/* The bytes that were written for this source, where it is one; NULL. */
static const char *image_of(const stepper *s, fb_id node)
{
    const fb_program *p = s->at.job->program;
    int last = s->at.job->last_buffer ? s->at.job->last_buffer : p->n_buffers;
    for (int b = s->at.job->first_buffer; b < last; b++)
        if (p->buffers[b].node == node && !p->buffers[b].assigned && s->at.job->images[b]) return s->at.job->images[b];
    return NULL;
}

/* What a state begins with, where it begins with a source. */
static const char *initial_image_of(const stepper *s, fb_id node)
{
    const fb_graph *g = s->at.job->g;
    const fb_region *r = &g->regions[s->at.loop->region];
    for (int i = 0; i < r->n_carried; i++) {
        fb_id base;
        if (r->carried[i] != node || !fb_access_whole(g, g->nodes[r->loop].args[i], &base)) continue;
        return image_of(s, base);
    }
    return NULL;
}

/* Sources are as they were written, counters count, and a first step begins with what the loop is given. */
static void check_given(stepper *s, const fb_launch *one, void *const *bytes, int64_t t)
{
    const fb_graph *g = s->at.job->g;
    for (int k = 0; k < one->n_reads && s->out->error.ok; k++) {
        const fb_place *at = &one->reads[k];
        const fb_node *n = &g->nodes[at->node];
        const fb_buffer *b = &s->at.job->program->buffers[at->buffer];
        size_t size = (size_t)fb_node_bytes(g, at->node);
        bool source = (b->kind == FB_BUFFER_INPUT || b->kind == FB_BUFFER_PARAM) && !b->assigned;
        const char *image = source ? s->at.job->images[at->buffer] : NULL;
        if (image) image += fb_place_at(at, s->at.step);
        if (!image && t == 0) image = initial_image_of(s, at->node);
        int64_t count = t;
        if (n->op == FB_OP_STEP) memcpy(&count, bytes[k], sizeof count);
        if (count != t)
            found(s, t, "the counter %.48s is %lld", n->name, (long long)count);
        else if (image && memcmp(image, bytes[k], size) != 0)
            found(s, t, "what it reads as %.48s is not what was written for that", n->name);
    }
}

/* ---- steps ---- */

static bool tell_progress(const stepper *s, int64_t t)
{
    char what[64];
    const fb_progress *p = s->progress;
    snprintf(what, sizeof what, "checking step %lld of %lld", (long long)t, (long long)s->at.loop->count);
    if (!p || !p->step || p->step(p->ctx, what, (double)t / (double)s->at.loop->count)) return true;
    return fb_fail(s->err, FB_ERR_CANCELLED, "cancelled while checking the steps of a loop");
}

static void add_report(stepper *s, const fb_error_report *one, int64_t t)
{
    char worst[sizeof one->worst];
    fb_error_report *all = &s->out->error;
    fb_check_add_error(all, one);
    if (one->state == FB_CHECK_OVERFLOW && all->state == FB_CHECK_RIGHT) {
        all->state = FB_CHECK_OVERFLOW;
        memcpy(all->worst, one->worst, sizeof all->worst);
    }
    if (one->ok) return;
    memcpy(worst, one->worst, sizeof worst);
    found(s, t, "%s", worst);
}

static bool check_step(stepper *s, int64_t t)
{
    fb_arena *arena = fb_arena_new();
    fb_launch step = fb_check_step_launch(&s->at, arena);
    fb_program program = *s->at.job->program;
    fb_check_job job = *s->at.job;
    program.launches = &step;
    job.program = &program;
    fb_one_launch one = {.job = &job, .launch = 0, .step = s->at.step};
    fb_error_report report = {.ok = true};
    bool ok = true;
    if (step.n_stores) {
        ok = tell_progress(s, t) && fb_check_step_run(&s->at, t, t, s->err) && fb_one_take(&one, s->err);
        if (ok) check_given(s, &step, one.bytes, t);
        ok = ok && (!s->out->error.ok || (fb_check_step_run(&s->at, t + 1, t, s->err) &&
                                          fb_one_judge(&one, NULL, &report, s->progress, s->err)));
        if (ok && s->out->error.ok) add_report(s, &report, t);
        s->out->steps++;
    }
    fb_one_free(&one);
    fb_arena_free(arena);
    return ok;
}

/* The first two, the last two, and one of those between. */
static bool check_loop(stepper *s)
{
    int64_t n = s->at.loop->count, at[] = {0, 1, n - 2, n - 2, n - 1}, before = -1;
    uint64_t drawn = fb_splitmix64(s->at.job->seed ^ (uint64_t)s->at.launch << 32);
    if (n > 4) at[2] = 2 + (int64_t)(drawn % (uint64_t)(n - 4));
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof at / sizeof *at && s->out->error.ok; i++) {
        if (at[i] <= before || at[i] >= n) continue;
        ok = check_step(s, at[i]);
        before = at[i];
    }
    return ok;
}

bool fb_check_steps(const fb_check_job *job, fb_check_result *out, const fb_progress *progress, fb_error *err)
{
    stepper s = {.at = {.job = job}, .progress = progress, .out = out, .err = err};
    *out = (fb_check_result){.error = {.ok = true, .state = FB_CHECK_RIGHT, .scope = FB_JUDGED_KERNELS}};
    int last = job->last_launch ? job->last_launch : job->program->n_launches;
    bool ok = true;
    for (s.at.launch = job->first_launch; ok && s.at.launch < last; s.at.launch++) {
        const fb_launch *l = &job->program->launches[s.at.launch];
        for (int k = 0; ok && out->error.ok && k < l->n_loops; k++) {
            s.at.loop = &l->loops[k];
            ok = check_loop(&s);
        }
    }
    return ok;
}
