/* Many cases in one program: made, joined, run once from poisoned memory, compared. */
#include "measure/fuzz_parts.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/vec.h"
#include "codegen/lower.h"
#include "measure/reference.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KERNELS_A_UNIT = 120, GUARD = 64 };

static const char *const names[] = {
    [FB_FUZZ_FINE] = "fine",     [FB_FUZZ_REFUSED] = "refused", [FB_FUZZ_WRONG] = "wrong",
    [FB_FUZZ_FAILED] = "failed", [FB_FUZZ_CRASHED] = "crashed", [FB_FUZZ_HUNG] = "hung"};

const char *fb_fuzz_kind_name(fb_fuzz_kind k)
{
    return names[k];
}

static void found(fb_fuzz_result *r, fb_fuzz_kind kind, const char *text)
{
    if (r->kind > FB_FUZZ_REFUSED) return;
    r->kind = kind;
    snprintf(r->text, sizeof r->text, "%.399s", text);
}

/* ---- one joined program ---- */

typedef struct {
    fb_device *d;
    fb_fuzz_case **cases;
    int n;
    fb_program *all;
    fb_loaded *loaded;
    int *first;    /* buffer of each case */
    bool *guarded; /* a buffer: it is longer by a guard, that nothing may write to */
    void **images;
} joined;

static const fb_graph *graph_of(const fb_fuzz_case *c)
{
    return fb_planner_graph(fb_plan_planner(c->plan));
}

/* Outputs get a guard behind their end; not those that change places with others, and so lie elsewhere in the end. */
static void guard(joined *j)
{
    const fb_program *p = j->all;
    for (int b = 0; b < p->n_buffers; b++) j->guarded[b] = p->buffers[b].kind == FB_BUFFER_OUTPUT;
    for (int i = 0; i < p->n_launches; i++)
        if (p->launches[i].kind == FB_LAUNCH_SWAP)
            j->guarded[p->launches[i].swap_a] = j->guarded[p->launches[i].swap_b] = false;
    for (int b = 0; b < p->n_buffers; b++)
        if (j->guarded[b]) p->buffers[b].bytes += GUARD;
}

static void unguard(joined *j)
{
    for (int b = 0; b < j->all->n_buffers; b++)
        if (j->guarded[b]) j->all->buffers[b].bytes -= GUARD;
}

static bool is_whole(const unsigned char *bytes)
{
    for (int i = 0; i < GUARD; i++)
        if (bytes[i] != 0xff) return false;
    return true;
}

static bool fill(joined *j, fb_error *err)
{
    for (int i = 0; i < j->n; i++) {
        const fb_program *p = j->cases[i]->program;
        for (int b = 0; b < p->n_buffers; b++) {
            const fb_buffer *buffer = &p->buffers[b];
            int at = j->first[i] + b;
            if (buffer->kind != FB_BUFFER_INPUT && buffer->kind != FB_BUFFER_PARAM) continue;
            j->images[at] = fb_alloc((size_t)buffer->bytes + 1);
            if (!fb_source_fill(graph_of(j->cases[i]), buffer->node, FB_FUZZ_DATA_SEED, NULL, NULL, 0, buffer->elements,
                                j->images[at], err) ||
                !j->d->ops->write(j->loaded, at, j->images[at], err))
                return false;
        }
    }
    return true;
}

/* Every second run gets other feeds, so that what is one run late or early shows: runs of odd numbers, or of even ones
 * with the first. *fed: there are any. */
static bool fill_others(joined *j, bool odd, bool *fed, fb_error *err)
{
    bool good = true;
    for (int i = 0; i < j->n; i++) {
        const fb_program *p = j->cases[i]->program;
        for (int b = 0; good && b < p->n_buffers; b++) {
            const fb_buffer *buffer = &p->buffers[b];
            int at = j->first[i] + b;
            if (!buffer->fed || !j->d->ops->write_second) continue;
            *fed = true;
            void *other = fb_alloc((size_t)buffer->bytes + 1);
            good = fb_source_fill(graph_of(j->cases[i]), buffer->node, FB_FUZZ_DATA_SEED + 1, NULL, NULL, 0,
                                  buffer->elements, other, err) &&
                   j->d->ops->write(j->loaded, at, odd ? j->images[at] : other, err) &&
                   j->d->ops->write_second(j->loaded, at, odd ? other : j->images[at], err);
            fb_free(other);
        }
    }
    return good;
}

static bool run(joined *j, int samples, fb_error *err)
{
    fb_run_time times[3];
    return j->d->ops->poison(j->loaded, err) &&
           j->d->ops->run(j->loaded, &(fb_run_how){.cache = FB_CACHE_COLD, .samples = samples}, times, err);
}

/* ---- comparing ---- */

static int buffer_of(const fb_program *p, const fb_graph *g, fb_id node)
{
    const fb_node *n = &g->nodes[node];
    fb_id held = n->op == FB_OP_ASSIGN || n->op == FB_OP_RECEIVE ? n->args[0] : node;
    fb_buffer_kind kind = n->op == FB_OP_ASSIGN ? FB_BUFFER_PARAM : FB_BUFFER_OUTPUT;
    int found = FB_NONE;
    for (int b = 0; b < p->n_buffers; b++) {
        if (p->buffers[b].node != held) continue;
        if (p->buffers[b].kind == kind) return b;
        if (found == FB_NONE) found = b;
    }
    return found;
}

static void compare_value(joined *j, int i, fb_id node, fb_error *err)
{
    fb_fuzz_case *c = j->cases[i];
    const fb_graph *g = graph_of(c);
    const fb_tensor *t = fb_interp_get(c->reference, node);
    int b = buffer_of(c->program, g, node);
    char text[400];
    snprintf(text, sizeof text, "%s has no %s", g->nodes[node].name, t ? "buffer" : "reference");
    if (!t || b == FB_NONE) {
        found(&c->result, FB_FUZZ_FAILED, text);
        return;
    }
    float *bound = t->bound ? fb_alloc((size_t)t->n * sizeof *bound + 1) : NULL;
    for (int64_t k = 0; bound && k < t->n; k++) bound[k] = fb_reference_bound(t->bound[k]);
    fb_reference_tensor want = {.n = t->n, .v = t->v, .i = t->i, .bound = bound};
    fb_error_report report;
    int at = j->first[i] + b;
    int64_t end = fb_shape_elements(&g->nodes[c->program->buffers[b].node].shape) *
                  (int64_t)fb_dtype_size(c->program->buffers[b].dtype);
    unsigned char *bytes = fb_alloc((size_t)j->all->buffers[at].bytes + 1);
    if (j->d->ops->read(j->loaded, at, bytes, err)) {
        fb_verify_values(&want, &g->nodes[node], bytes, &report);
        snprintf(text, sizeof text, "%s was written beyond its end", g->nodes[node].name);
        if (j->guarded[at] && !is_whole(bytes + end)) found(&c->result, FB_FUZZ_WRONG, text);
        c->result.elements += t->n;
        c->result.undecided += report.undecided;
        if (!report.ok) found(&c->result, FB_FUZZ_WRONG, report.worst);
    } else {
        found(&c->result, FB_FUZZ_FAILED, err->text);
    }
    fb_free(bytes);
    fb_free(bound);
}

/* What nothing may write is as it was. */
static void compare_source(joined *j, int i, int b, fb_error *err)
{
    fb_fuzz_case *c = j->cases[i];
    const fb_buffer *buffer = &c->program->buffers[b];
    int at = j->first[i] + b;
    char text[400];
    if (!j->images[at] || buffer->assigned) return;
    void *bytes = fb_alloc((size_t)buffer->bytes + 1);
    snprintf(text, sizeof text, "%s was written to", buffer->name);
    if (j->d->ops->read(j->loaded, at, bytes, err) && memcmp(bytes, j->images[at], (size_t)buffer->bytes) != 0)
        found(&c->result, FB_FUZZ_WRONG, text);
    fb_free(bytes);
}

static void compare(joined *j)
{
    fb_error err;
    for (int i = 0; i < j->n; i++) {
        fb_arena *arena = fb_arena_new();
        fb_id *nodes;
        int n = fb_reference_nodes(graph_of(j->cases[i]), arena, &nodes);
        for (int k = 0; k < n; k++) compare_value(j, i, nodes[k], &err);
        for (int b = 0; b < j->cases[i]->program->n_buffers; b++) compare_source(j, i, b, &err);
        fb_arena_free(arena);
    }
}

/* From both places that a run's feeds and results may have, where there are two. */
static bool run_and_compare(joined *j, fb_error *err)
{
    bool fed = false;
    if (!fill(j, err) || !fill_others(j, true, &fed, err) || !run(j, fed ? 3 : 1, err)) return false;
    compare(j);
    if (!fed) return true;
    if (!fill_others(j, false, &fed, err) || !run(j, 2, err)) return false;
    compare(j);
    return true;
}

static void run_joined(fb_device *d, fb_fuzz_case **cases, int n)
{
    fb_error err;
    joined j = {.d = d, .cases = cases, .n = n, .first = fb_calloc((size_t)n + 1, sizeof *j.first)};
    const fb_program **parts = fb_calloc((size_t)n + 1, sizeof *parts);
    for (int i = 0; i < n; i++) parts[i] = cases[i]->program;
    j.all = n == 1 ? NULL : fb_program_join(d->ops->dialect, parts, n, KERNELS_A_UNIT, j.first);
    if (n == 1) j.all = cases[0]->program; /* as it is, with the device's own units */
    j.images = fb_calloc((size_t)j.all->n_buffers + 1, sizeof *j.images);
    j.guarded = fb_calloc((size_t)j.all->n_buffers + 1, sizeof *j.guarded);
    guard(&j);
    j.all->fenced = true;
    j.loaded = d->ops->load(d, j.all, NULL, &err);
    if (!j.loaded || !run_and_compare(&j, &err)) {
        /* what takes a compiler too long by itself it refuses; of one among others that says nothing */
        fb_fuzz_kind kind = n == 1 && err.kind == FB_ERR_LIMIT ? FB_FUZZ_REFUSED : FB_FUZZ_FAILED;
        for (int i = 0; i < n; i++) found(&cases[i]->result, kind, err.text);
    }
    if (j.loaded) d->ops->unload(j.loaded);
    unguard(&j);
    for (int b = 0; b < j.all->n_buffers; b++) fb_free(j.images[b]);
    fb_free(j.guarded);
    if (n > 1) fb_program_free(j.all);
    fb_free(j.images);
    fb_free(j.first);
    fb_free(parts);
}

/* ---- cases ---- */

static void lower(fb_device *d, fb_fuzz_case *c)
{
    fb_error err;
    for (int i = 0; !c->program && i < fb_plan_groups(c->plan); i++) {
        const fb_verdict *v = fb_plan_group_refusal(c->plan, i);
        if (v) found(&c->result, FB_FUZZ_REFUSED, v->text);
        if (v) return;
    }
    if (!c->program && !(c->program = fb_lower(c->plan, d->ops->dialect, &err)))
        found(&c->result, err.kind == FB_ERR_LIMIT ? FB_FUZZ_REFUSED : FB_FUZZ_FAILED, err.text);
}

void fb_fuzz_run(fb_device *d, fb_fuzz_case *cases, int n)
{
    fb_fuzz_case **chosen = fb_calloc((size_t)n + 1, sizeof *chosen);
    for (int i = 0; i < n; i++) lower(d, &cases[i]);
    for (int way = 2 * FB_LAUNCH_STREAM; way <= 2 * FB_LAUNCH_MEGA + 1; way++) { /* programs of one way are joined */
        fb_launch_mode mode = (fb_launch_mode)(way / 2);
        int k = 0;
        for (int i = 0; i < n; i++)
            if (cases[i].program && cases[i].program->mode == mode && cases[i].program->overlap == way % 2)
                chosen[k++] = &cases[i];
        if (mode == FB_LAUNCH_MEGA) /* a kernel of its own each */
            for (int i = 0; i < k; i++) run_joined(d, &chosen[i], 1);
        else if (k)
            run_joined(d, chosen, k);
    }
    for (int i = 0; i < n; i++) {
        fb_program_free(cases[i].program);
        cases[i].program = NULL;
    }
    fb_free(chosen);
}

/* ---- rounds ---- */

typedef struct {
    fb_device *d;
    fb_fuzz_board *board;
    fb_graph **graphs;
    fb_planner **planners;
    fb_interp **references;
    FB_VEC(fb_fuzz_case) cases;
    FB_VEC(fb_fuzz_finding) names; /* seed and plan of each case */
} round_state;

static void enter(fb_fuzz_board *b, fb_fuzz_phase phase, uint64_t seed, int plan)
{
    b->seed = seed;
    b->plan = plan;
    b->since_ns = fb_now_ns();
    b->phase = phase;
}

static void report(fb_fuzz_board *b, uint64_t seed, int plan, const fb_fuzz_result *r)
{
    int n = b->n_findings;
    if (n == FB_FUZZ_FINDINGS) return;
    b->finding[n] = (fb_fuzz_finding){.seed = seed, .plan = plan, .kind = r->kind};
    snprintf(b->finding[n].text, sizeof b->finding[n].text, "%s", r->text);
    b->n_findings = n + 1;
}

static void report_error(fb_fuzz_board *b, uint64_t seed, int plan, const fb_error *err)
{
    fb_fuzz_result r = {.kind = FB_FUZZ_FAILED};
    snprintf(r.text, sizeof r.text, "%.399s", err->text);
    report(b, seed, plan, &r);
}

/* ---- canonicalising changes no value ---- */

static bool same_value(const fb_tensor *a, const fb_tensor *b)
{
    for (int64_t i = 0; i < a->n; i++) {
        double bound = (a->bound ? a->bound[i] : 0) + (b->bound ? b->bound[i] : 0);
        if (isinf(bound)) continue;
        double x = a->v ? a->v[i] : (double)a->i[i], y = b->v ? b->v[i] : (double)b->i[i];
        if (!(x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= bound)) return false;
    }
    return true;
}

/* Outputs are there in order, effects by name. */
static void compare_canonical(uint64_t seed, const fb_graph *g, const fb_interp *in, fb_fuzz_board *board)
{
    fb_error err;
    fb_graph *raw = fb_fuzz_graph_raw(seed, &err);
    fb_interp_options o = {.seed = FB_FUZZ_DATA_SEED, .bounds = true};
    fb_interp *before = raw ? fb_interp_run(raw, &o, NULL, 0, &err) : NULL;
    const char *wrong = NULL;
    for (fb_id i = 0; before && i < raw->n_nodes; i++) {
        const fb_tensor *a = fb_interp_get(before, i), *b = NULL;
        if (!fb_node_is_output(raw, i) || !a) continue;
        for (int k = 0; k < raw->n_outputs; k++)
            if (raw->outputs[k] == i) b = fb_interp_get(in, g->outputs[k]);
        fb_id same = b ? FB_NONE : fb_graph_find(g, raw->nodes[i].name);
        if (same != FB_NONE) b = fb_interp_get(in, same);
        if (!b || a->n != b->n || !same_value(a, b)) wrong = raw->nodes[i].name;
    }
    if (!before || wrong) {
        if (wrong) fb_fail(&err, FB_ERR_INPUT, "%s has another value when canonical", wrong);
        report_error(board, seed, 0, &err);
    }
    if (before) fb_interp_free(before);
    if (raw) fb_graph_free(raw);
}

/* The graph of a seed, its reference and its plans. */
static void make(round_state *s, int i, uint64_t seed, int plans, int only)
{
    fb_error err;
    enter(s->board, FB_FUZZ_MAKING, seed, 0);
    s->graphs[i] = fb_fuzz_graph(seed, &err);
    if (!s->graphs[i]) {
        report_error(s->board, seed, 0, &err);
        return;
    }
    enter(s->board, FB_FUZZ_COMPUTING, seed, 0);
    s->references[i] =
        fb_interp_run(s->graphs[i], &(fb_interp_options){.seed = FB_FUZZ_DATA_SEED, .bounds = true}, NULL, 0, &err);
    if (!s->references[i]) {
        report_error(s->board, seed, 0, &err);
        return;
    }
    compare_canonical(seed, s->graphs[i], s->references[i], s->board);
    s->planners[i] = fb_planner_new(s->graphs[i], s->d->ops->machine(s->d));
    for (int k = only == FB_NONE ? 0 : only; k < (only == FB_NONE ? plans : only + 1); k++) {
        enter(s->board, FB_FUZZ_MAKING, seed, k);
        fb_fuzz_case c = {.plan = fb_fuzz_plan(s->planners[i], seed, k), .reference = s->references[i]};
        lower(s->d, &c);
        FB_VEC_PUSH(&s->cases, c);
        FB_VEC_PUSH(&s->names, (fb_fuzz_finding){.seed = seed, .plan = k});
    }
    s->board->graphs++;
}

static void account(round_state *s)
{
    for (int i = 0; i < s->cases.n; i++) {
        const fb_fuzz_result *r = &s->cases.at[i].result;
        s->board->plans++;
        s->board->refused += r->kind == FB_FUZZ_REFUSED;
        s->board->elements += r->elements;
        s->board->undecided += r->undecided;
        if (r->kind > FB_FUZZ_REFUSED) report(s->board, s->names.at[i].seed, s->names.at[i].plan, r);
    }
}

void fb_fuzz_round(fb_device *d, uint64_t first, int count, int plans, int only, fb_fuzz_board *board)
{
    round_state s = {.d = d, .board = board};
    s.graphs = fb_calloc((size_t)count + 1, sizeof *s.graphs);
    s.planners = fb_calloc((size_t)count + 1, sizeof *s.planners);
    s.references = fb_calloc((size_t)count + 1, sizeof *s.references);
    for (int i = 0; i < count; i++) make(&s, i, first + (uint64_t)i, plans, only);
    enter(board, FB_FUZZ_RUNNING, first, only);
    fb_fuzz_run(d, s.cases.at, s.cases.n);
    account(&s);
    for (int i = 0; i < s.cases.n; i++) fb_plan_free((fb_plan *)s.cases.at[i].plan);
    for (int i = 0; i < count; i++) {
        fb_planner_free(s.planners[i]);
        if (s.references[i]) fb_interp_free(s.references[i]);
        if (s.graphs[i]) fb_graph_free(s.graphs[i]);
    }
    fb_free(s.graphs);
    fb_free(s.planners);
    fb_free(s.references);
    FB_VEC_FREE(&s.cases);
    FB_VEC_FREE(&s.names);
    enter(board, FB_FUZZ_IDLE, first, only);
}
