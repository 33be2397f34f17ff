/* Many cases in one program: made, joined, run once from poisoned memory, judged; then each walked launch by launch. */
#include "measure/fuzz_parts.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/vec.h"
#include "code/lower.h"
#include "measure/check.h"
#include "measure/measure.h"
#include "plan/loops.h"

#include <stdio.h>
#include <string.h>

enum { KERNELS_A_UNIT = 120, GUARD = 64 };

static const char *const names[] = {
    [FB_FUZZ_FINE] = "fine",     [FB_FUZZ_REFUSED] = "refused", [FB_FUZZ_WRONG] = "wrong", [FB_FUZZ_APART] = "apart",
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

/* A value that roundings alone may have made, end to end. Where the walk leaves the same bytes, each kernel was judged
 * on what it was given, and what these judgements leave open is all that is. */
typedef struct {
    int i; /* of which case */
    fb_id node;
    uint64_t digest;
    int64_t undecided;
    bool walked;
} doubt;

typedef struct {
    fb_device *d;
    fb_fuzz_case **cases;
    fb_program **parts; /* of each case, what is run here */
    int n;
    fb_program *all;
    fb_loaded *loaded;
    int *first;    /* buffer of each case */
    bool *guarded; /* a buffer: it is longer by a guard, that nothing may write to */
    void **images;
    bool walking;
    FB_VEC(doubt) doubts;
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
        const fb_program *p = j->parts[i];
        for (int b = 0; b < p->n_buffers; b++) {
            const fb_buffer *buffer = &p->buffers[b];
            int at = j->first[i] + b;
            if (buffer->kind != FB_BUFFER_INPUT && buffer->kind != FB_BUFFER_PARAM) continue;
            if (!j->images[at]) j->images[at] = fb_alloc((size_t)buffer->bytes + 1);
            if (!fb_interp_fill_source(graph_of(j->cases[i]), buffer->node, FB_FUZZ_DATA_SEED, NULL, NULL, 0,
                                       buffer->elements, j->images[at], err) ||
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
        const fb_program *p = j->parts[i];
        for (int b = 0; good && b < p->n_buffers; b++) {
            const fb_buffer *buffer = &p->buffers[b];
            int at = j->first[i] + b;
            if (!buffer->fed || !j->d->ops->write_second) continue;
            *fed = true;
            void *other = fb_alloc((size_t)buffer->bytes + 1);
            good = fb_interp_fill_source(graph_of(j->cases[i]), buffer->node, FB_FUZZ_DATA_SEED + 1, NULL, NULL, 0,
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
           j->d->ops->run(j->loaded, &(fb_run_how){.cache = FB_CACHE_ANY, .samples = samples}, times, err);
}

/* ---- comparing ---- */

static void doubted(joined *j, int i, fb_id node, uint64_t digest, int64_t undecided)
{
    if (!j->walking && undecided) FB_VEC_PUSH(&j->doubts, ((doubt){i, node, digest, undecided, false}));
    for (int k = 0; j->walking && k < j->doubts.n; k++) {
        doubt *d = &j->doubts.at[k];
        if (d->i == i && d->node == node) d->walked = d->digest == digest;
    }
}

/* What case `i` leaves open, now that its walk left so many elements to no judgement. */
static void count_open(joined *j, int i, int64_t left)
{
    for (int k = 0; k < j->doubts.n; k++) {
        const doubt *d = &j->doubts.at[k];
        if (d->i == i) j->cases[i]->result.open += d->walked && left < d->undecided ? left : d->undecided;
    }
}

static bool judge(const fb_fuzz_case *c, fb_id of, fb_id same, const void *bytes, fb_error_report *report)
{
    if (!fb_fuzz_reference_judge(c->reference, same, bytes, report)) return false;
    return report->ok || !c->own || fb_fuzz_reference_judge(c->own, of, bytes, report);
}

static void compare_value(joined *j, int i, fb_id node, fb_error *err)
{
    fb_fuzz_case *c = j->cases[i];
    const fb_program *p = j->parts[i];
    const fb_graph *g = graph_of(c);
    int b = fb_program_left(p, g, node);
    char text[400];
    snprintf(text, sizeof text, "%s has no buffer", g->nodes[node].name);
    if (b == FB_NONE) {
        found(&c->result, FB_FUZZ_FAILED, text);
        return;
    }
    fb_error_report report = {.ok = true};
    fb_id of = fb_plan_written_node(c->plan, node), same = c->same && of != FB_NONE ? c->same[of] : of;
    int at = j->first[i] + b;
    int64_t end = fb_shape_elements(&g->nodes[p->buffers[b].node].shape) * (int64_t)fb_dtype_size(p->buffers[b].dtype);
    unsigned char *bytes = fb_alloc((size_t)j->all->buffers[at].bytes + 1);
    snprintf(text, sizeof text, "%s has no reference", g->nodes[node].name);
    if (!j->d->ops->read(j->loaded, at, bytes, err)) {
        found(&c->result, FB_FUZZ_FAILED, err->text);
    } else if (same != FB_NONE && !judge(c, of, same, bytes, &report)) {
        found(&c->result, FB_FUZZ_FAILED, text);
    } else {
        snprintf(text, sizeof text, "%s was written beyond its end", g->nodes[node].name);
        if (j->guarded[at] && !is_whole(bytes + end)) found(&c->result, FB_FUZZ_WRONG, text);
        c->result.elements += report.compared;
        c->result.undecided += report.undecided;
        doubted(j, i, node, fb_digest(bytes, (size_t)end), report.undecided);
        if (!report.ok) found(&c->result, FB_FUZZ_WRONG, report.worst);
    }
    fb_free(bytes);
}

/* What nothing may write is as it was. */
static void compare_source(joined *j, int i, int b, fb_error *err)
{
    fb_fuzz_case *c = j->cases[i];
    const fb_buffer *buffer = &j->parts[i]->buffers[b];
    int at = j->first[i] + b;
    char text[400];
    if (!j->images[at] || buffer->assigned) return;
    void *bytes = fb_alloc((size_t)buffer->bytes + 1);
    snprintf(text, sizeof text, "%s was written to", buffer->name);
    if (j->d->ops->read(j->loaded, at, bytes, err) && memcmp(bytes, j->images[at], (size_t)buffer->bytes) != 0)
        found(&c->result, FB_FUZZ_WRONG, text);
    fb_free(bytes);
}

static void compare_case(joined *j, int i)
{
    fb_error err;
    fb_arena *arena = fb_arena_new();
    fb_id *nodes;
    int n = fb_reference_nodes(graph_of(j->cases[i]), arena, &nodes);
    for (int k = 0; k < n; k++) compare_value(j, i, nodes[k], &err);
    for (int b = 0; b < j->parts[i]->n_buffers; b++) compare_source(j, i, b, &err);
    fb_arena_free(arena);
}

static void compare(joined *j)
{
    for (int i = 0; i < j->n; i++) compare_case(j, i);
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

/* ---- each kernel on what it was given ---- */

typedef struct {
    joined *j;
    int i;
} walked_case;

/* What a walk leaves is judged like what a run leaves. */
static bool compare_walked(void *ctx, fb_error *err)
{
    const walked_case *w = ctx;
    (void)err;
    compare_case(w->j, w->i);
    return true;
}

static bool is_merged(const fb_program *p)
{
    for (int k = 0; k < p->n_kernels; k++)
        if (p->kernels[k].merged) return true;
    return false;
}

/* *left: elements that kernels left, and that are undecided by what each was given. */
static bool check_case(joined *j, int i, int first_launch, int64_t *left, fb_error *err)
{
    fb_fuzz_case *c = j->cases[i];
    walked_case walked = {j, i};
    fb_check_result out;
    char text[400];
    fb_check_job job = {.device = j->d,
                        .loaded = j->loaded,
                        .program = j->all,
                        .g = graph_of(c),
                        .images = j->images,
                        .seed = FB_FUZZ_DATA_SEED,
                        .second = true,
                        .walked = compare_walked,
                        .walked_ctx = &walked,
                        .first_launch = first_launch,
                        .last_launch = first_launch + j->parts[i]->n_launches,
                        .first_buffer = j->first[i],
                        .last_buffer = j->first[i] + j->parts[i]->n_buffers,
                        .threads = FB_FUZZ_THREADS};
    *left = 0;
    if (!j->parts[i]->n_launches) return true;
    *left = INT64_MAX;
    if (!(is_merged(j->parts[i]) ? fb_check_steps : fb_check_kernels)(&job, &out, NULL, err)) return false;
    c->result.kernels += out.error.kernels + out.second;
    c->result.kernel_elements += out.error.compared;
    c->result.kernel_undecided += out.error.undecided;
    snprintf(text, sizeof text, "%s: %s", out.error.kernel, out.error.worst);
    if (!out.error.ok) found(&c->result, FB_FUZZ_WRONG, text);
    if (out.error.ok) *left = out.error.undecided;
    return true;
}

/* Those that are found wrong already are not looked at: their memory may hold anything. */
static bool check_each(joined *j, fb_error *err)
{
    int first = 0;
    bool ok = !j->d->ops->stepping || fill(j, err);
    j->walking = true;
    for (int i = 0; ok && i < j->n; i++) {
        int64_t left = INT64_MAX;
        if (j->d->ops->stepping && j->cases[i]->result.kind <= FB_FUZZ_REFUSED)
            ok = check_case(j, i, first, &left, err);
        count_open(j, i, left);
        first += j->parts[i]->n_launches;
    }
    return ok;
}

/* Whole: also at a stretch, and judged end to end. */
static void run_joined(fb_device *d, fb_fuzz_case **cases, fb_program **programs, int n, bool whole)
{
    fb_error err;
    joined j = {.d = d, .cases = cases, .parts = programs, .n = n, .first = fb_calloc((size_t)n + 1, sizeof *j.first)};
    /* alone, a program is as it is, with the device's own units */
    j.all = n == 1 ? programs[0]
                   : fb_program_join(d->ops->target, (const fb_program *const *)programs, n, KERNELS_A_UNIT, j.first);
    j.images = fb_calloc((size_t)j.all->n_buffers + 1, sizeof *j.images);
    j.guarded = fb_calloc((size_t)j.all->n_buffers + 1, sizeof *j.guarded);
    guard(&j);
    j.all->fenced = true;
    j.all->lightly = cases[0]->lightly;
    j.loaded = d->ops->load(d, j.all, NULL, &err);
    if (!j.loaded || (whole && !run_and_compare(&j, &err)) || !check_each(&j, &err)) {
        /* what takes a compiler too long by itself it refuses; of one among others that says nothing */
        fb_fuzz_kind kind = n == 1 && err.kind == FB_ERR_LIMIT ? FB_FUZZ_REFUSED : FB_FUZZ_FAILED;
        for (int i = 0; i < n; i++) found(&cases[i]->result, kind, err.text);
    }
    if (j.loaded) d->ops->unload(j.loaded);
    unguard(&j);
    for (int b = 0; b < j.all->n_buffers; b++) fb_free(j.images[b]);
    fb_free(j.guarded);
    FB_VEC_FREE(&j.doubts);
    if (n > 1) fb_program_free(j.all);
    fb_free(j.images);
    fb_free(j.first);
}

/* ---- cases ---- */

static void lower(fb_device *d, fb_fuzz_case *c)
{
    fb_error err;
    const fb_verdict *v = c->program ? NULL : fb_plan_refusal(c->plan, NULL);
    if (v)
        found(&c->result, FB_FUZZ_REFUSED, v->text);
    else if (!c->program && !(c->program = fb_lower(c->plan, d->ops->target, &err)))
        found(&c->result, err.kind == FB_ERR_LIMIT ? FB_FUZZ_REFUSED : FB_FUZZ_FAILED, err.text);
}

/* Merged kernels as lists of their stages: these are what can be looked at one by one. */
static void lower_apart(fb_device *d, fb_fuzz_case *c)
{
    fb_error err;
    if (!c->program || c->apart || !d->ops->stepping || !is_merged(c->program)) return;
    if (!(c->apart = fb_lower_apart(c->plan, d->ops->target, &err)))
        found(&c->result, err.kind == FB_ERR_LIMIT ? FB_FUZZ_REFUSED : FB_FUZZ_FAILED, err.text);
}

/* Programs of one launch mode, way of copying and way of compiling are joined. */
static void run_alike(fb_device *d, fb_fuzz_case *cases, int n, fb_launch_mode mode, bool overlap, bool lightly,
                      bool whole)
{
    fb_fuzz_case **chosen = fb_calloc((size_t)n + 1, sizeof *chosen);
    fb_program **programs = fb_calloc((size_t)n + 1, sizeof *programs);
    int k = 0;
    for (int i = 0; i < n; i++) {
        fb_program *p = whole ? cases[i].program : cases[i].apart;
        if (!p || p->mode != mode || p->overlap != overlap || cases[i].lightly != lightly) continue;
        chosen[k] = &cases[i];
        programs[k++] = p;
    }
    if (mode == FB_LAUNCH_MEGA) /* a kernel of its own each */
        for (int i = 0; i < k; i++) run_joined(d, &chosen[i], &programs[i], 1, whole);
    else if (k)
        run_joined(d, chosen, programs, k, whole);
    fb_free(chosen);
    fb_free(programs);
}

void fb_fuzz_run(fb_device *d, fb_fuzz_case *cases, int n)
{
    for (int i = 0; i < n; i++) lower(d, &cases[i]);
    for (int i = 0; i < n; i++) lower_apart(d, &cases[i]);
    for (int way = 4 * FB_LAUNCH_STREAM; way <= 4 * FB_LAUNCH_MEGA + 3; way++) {
        run_alike(d, cases, n, (fb_launch_mode)(way / 4), way & 1, way & 2, true);
        run_alike(d, cases, n, (fb_launch_mode)(way / 4), way & 1, way & 2, false);
    }
    for (int i = 0; i < n; i++) {
        fb_program_free(cases[i].program);
        fb_program_free(cases[i].apart);
        cases[i].program = cases[i].apart = NULL;
    }
}

/* ---- rounds ---- */

typedef struct {
    fb_device *d;
    fb_fuzz_board *board;
    fb_graph **graphs, **twins;
    fb_planner **planners, **twin_planners;
    fb_id **same; /* a node of the twin: which of the graph it is */
    fb_fuzz_reference **references, **twin_references;
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

/* The node of the canonical graph that output or effect `i` of the raw one became: outputs are there in order, effects
 * by name. */
static fb_id became(const fb_graph *raw, fb_id i, const fb_graph *g)
{
    for (int k = 0; k < raw->n_outputs; k++)
        if (raw->outputs[k] == i) return g->outputs[k];
    return fb_graph_find(g, raw->nodes[i].name);
}

/* Canonicalising changes no value but by roundings: of constants, that it computes. */
static void compare_canonical(uint64_t seed, const fb_graph *g, const fb_fuzz_reference *r, fb_fuzz_board *board)
{
    fb_error err;
    fb_graph *raw = fb_fuzz_graph_raw(seed, false, &err);
    fb_fuzz_reference *before = raw ? fb_fuzz_reference_new(raw, &err) : NULL;
    bool wrong = false;
    char text[400];
    fb_arena *arena = fb_arena_new();
    fb_id *nodes = NULL;
    int n = before ? fb_reference_nodes(raw, arena, &nodes) : 0;
    for (int k = 0; k < n && !wrong; k++) {
        fb_id i = nodes[k], same = became(raw, i, g);
        if (same != FB_NONE && g->nodes[same].op == FB_OP_FEED) continue; /* no kernel makes it */
        wrong = same == FB_NONE || !fb_fuzz_reference_allows(before, i, r, same, text);
        if (wrong)
            fb_fail(&err, FB_ERR_INPUT, "%s has another value when canonical: %s", raw->nodes[i].name,
                    same == FB_NONE ? "none" : text);
    }
    if (!before || wrong) report_error(board, seed, 0, &err);
    fb_arena_free(arena);
    fb_fuzz_reference_free(before);
    if (raw) fb_graph_free(raw);
}

static bool refer(round_state *s, int i, uint64_t seed)
{
    fb_error err;
    fb_fuzz_result apart = {.kind = FB_FUZZ_APART};
    enter(s->board, FB_FUZZ_COMPUTING, seed, 0);
    s->references[i] = fb_fuzz_reference_new(s->graphs[i], &err);
    if (!s->references[i]) {
        report_error(s->board, seed, 0, &err);
        return false;
    }
    if (!fb_fuzz_second_opinion(s->references[i], apart.text))
        report(s->board, seed, 0, &apart);
    else
        compare_canonical(seed, s->graphs[i], s->references[i], s->board);
    return true;
}

/* Outputs and effects in order, before canonicalising. */
static fb_id effect_at(const fb_graph *g, int which)
{
    for (fb_id i = 0; i < g->n_nodes; i++)
        if ((g->nodes[i].op == FB_OP_ASSIGN || g->nodes[i].op == FB_OP_RECEIVE) && which-- == 0) return i;
    return FB_NONE;
}

/* Which node of graph `a` each output and effect of its twin `b` is. */
static fb_id *match(uint64_t seed, const fb_graph *a, const fb_graph *b)
{
    fb_error err;
    fb_graph *raw_a = fb_fuzz_graph_raw(seed, false, &err), *raw_b = fb_fuzz_graph_raw(seed, true, &err);
    fb_id *same = fb_alloc((size_t)(b->n_nodes + 1) * sizeof *same), x, y;
    for (fb_id i = 0; i < b->n_nodes; i++) same[i] = FB_NONE;
    for (int k = 0; k < a->n_outputs && k < b->n_outputs; k++) same[b->outputs[k]] = a->outputs[k];
    for (int k = 0; (x = effect_at(raw_a, k)) != FB_NONE && (y = effect_at(raw_b, k)) != FB_NONE; k++) {
        fb_id of_a = fb_graph_find(a, raw_a->nodes[x].name), of_b = fb_graph_find(b, raw_b->nodes[y].name);
        if (of_a != FB_NONE && of_b != FB_NONE) same[of_b] = of_a;
    }
    fb_graph_free(raw_a);
    fb_graph_free(raw_b);
    return same;
}

static fb_planner *planner_for(const round_state *s, const fb_graph *g, uint64_t seed)
{
    fb_machine m = fb_fuzz_machine(s->d->ops->machine(s->d), seed);
    return fb_planner_new(g, &m);
}

/* The twin gives what the graph does, to begin with by trials alone. */
static bool refer_twin(round_state *s, int i, uint64_t seed)
{
    fb_error err;
    char text[400];
    s->twins[i] = fb_fuzz_graph_of(seed, 1, &err);
    fb_fuzz_reference *r = s->twins[i] ? fb_fuzz_reference_new(s->twins[i], &err) : NULL;
    if (!r) {
        report_error(s->board, seed, 1, &err);
        return false;
    }
    s->same[i] = match(seed, s->graphs[i], s->twins[i]);
    bool good = true;
    for (fb_id k = 0; k < s->twins[i]->n_nodes && good; k++) {
        fb_id same = s->same[i][k];
        if (same == FB_NONE || s->graphs[i]->nodes[same].op == FB_OP_FEED) continue;
        good = s->twins[i]->nodes[k].op == FB_OP_FEED || fb_fuzz_reference_allows(s->references[i], same, r, k, text);
    }
    if (!good) {
        fb_fail(&err, FB_ERR_INPUT, "written in another way it has another value: %s", text);
        report_error(s->board, seed, 1, &err);
    }
    s->twin_references[i] = r;
    s->twin_planners[i] = planner_for(s, s->twins[i], seed);
    return good;
}

static bool is_compiled_lightly(uint64_t seed)
{
    return fb_splitmix64(seed + 0x11647) % 4 != 0;
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
    if (!refer(s, i, seed)) return;
    s->planners[i] = planner_for(s, s->graphs[i], seed);
    bool paired = fb_fuzz_is_paired(seed) && refer_twin(s, i, seed);
    for (int k = only == FB_NONE ? 0 : only; k < (only == FB_NONE ? plans : only + 1); k++) {
        enter(s->board, FB_FUZZ_MAKING, seed, k);
        fb_fuzz_watch *watch = s->board->coverage ? fb_fuzz_watch_new() : NULL;
        bool twin = paired && k % 2;
        fb_fuzz_case c = {.plan = fb_fuzz_plan(twin ? s->twin_planners[i] : s->planners[i], seed, k),
                          .reference = s->references[i],
                          .lightly = is_compiled_lightly(seed),
                          .same = twin ? s->same[i] : NULL,
                          .own = twin ? s->twin_references[i] : NULL};
        lower(s->d, &c);
        if (watch) fb_fuzz_watch_end(watch, c.plan, s->board->coverage);
        FB_VEC_PUSH(&s->cases, c);
        FB_VEC_PUSH(&s->names, (fb_fuzz_finding){.seed = seed, .plan = k});
    }
    s->board->graphs++;
}

void fb_fuzz_hazy_add(fb_fuzz_hazy *h, uint64_t seed, int64_t undecided)
{
    int at = 0;
    while (at < FB_FUZZ_HAZY && h->at[at].undecided >= undecided) at++;
    if (at == FB_FUZZ_HAZY || !undecided) return;
    memmove(h->at + at + 1, h->at + at, (size_t)(FB_FUZZ_HAZY - 1 - at) * sizeof h->at[0]);
    h->at[at].seed = seed, h->at[at].undecided = undecided;
}

static void account(round_state *s)
{
    int64_t undecided = 0; /* of a graph, whose plans are neighbours */
    for (int i = 0; i < s->cases.n; i++) {
        const fb_fuzz_result *r = &s->cases.at[i].result;
        undecided += r->undecided;
        if (i + 1 == s->cases.n || s->names.at[i + 1].seed != s->names.at[i].seed) {
            fb_fuzz_hazy_add(&s->board->hazy, s->names.at[i].seed, undecided);
            undecided = 0;
        }
        s->board->plans++;
        s->board->refused += r->kind == FB_FUZZ_REFUSED;
        s->board->elements += r->elements;
        s->board->undecided += r->undecided;
        s->board->open += r->open;
        s->board->kernels += r->kernels;
        s->board->kernel_elements += r->kernel_elements;
        s->board->kernel_undecided += r->kernel_undecided;
        if (r->kind > FB_FUZZ_REFUSED) report(s->board, s->names.at[i].seed, s->names.at[i].plan, r);
    }
}

void fb_fuzz_round(fb_device *d, uint64_t first, int count, int plans, int only, fb_fuzz_board *board)
{
    round_state s = {.d = d, .board = board};
    s.graphs = fb_calloc((size_t)count + 1, sizeof *s.graphs);
    s.planners = fb_calloc((size_t)count + 1, sizeof *s.planners);
    s.twins = fb_calloc((size_t)count + 1, sizeof *s.twins);
    s.twin_planners = fb_calloc((size_t)count + 1, sizeof *s.twin_planners);
    s.same = fb_calloc((size_t)count + 1, sizeof *s.same);
    s.references = fb_calloc((size_t)count + 1, sizeof *s.references);
    s.twin_references = fb_calloc((size_t)count + 1, sizeof *s.twin_references);
    for (int i = 0; i < count; i++) make(&s, i, first + (uint64_t)i, plans, only);
    enter(board, FB_FUZZ_RUNNING, first, only);
    fb_fuzz_run(d, s.cases.at, s.cases.n);
    account(&s);
    for (int i = 0; i < s.cases.n; i++) fb_plan_free((fb_plan *)s.cases.at[i].plan);
    for (int i = 0; i < count; i++) {
        fb_planner_free(s.planners[i]);
        fb_fuzz_reference_free(s.references[i]);
        fb_fuzz_reference_free(s.twin_references[i]);
        fb_planner_free(s.twin_planners[i]);
        fb_free(s.same[i]);
        if (s.twins[i]) fb_graph_free(s.twins[i]);
        if (s.graphs[i]) fb_graph_free(s.graphs[i]);
    }
    fb_free(s.graphs);
    fb_free(s.planners);
    fb_free(s.twins);
    fb_free(s.twin_planners);
    fb_free(s.same);
    fb_free(s.references);
    fb_free(s.twin_references);
    FB_VEC_FREE(&s.cases);
    FB_VEC_FREE(&s.names);
    enter(board, FB_FUZZ_IDLE, first, only);
}
