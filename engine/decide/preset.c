/* The table of presets, those that need no file of their own (none, max, eager), and what is written behind a name in
 * brackets. A preset decides on a decider, which keeps the record and knows what the user refused.
 */
#include "decide/preset.h"

#include "decide/decide.h"
#include "decide/whole_loop.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <string.h>

static fb_plan *run_none(fb_decider *d)
{
    return fb_plan_new(d->planner);
}

static void score_buffers(double score, fb_str *out)
{
    fb_str_addf(out, "%.0f buffer%s", score, score == 1 ? "" : "s");
}

static void score_us(double score, fb_str *out)
{
    char text[32];
    if (score < 0) fb_str_add(out, "-");
    fb_str_add(out, fb_format_us(text, fabs(score)));
}

static void score_bytes(double score, fb_str *out)
{
    char text[32];
    fb_str_add(out, fb_format_bytes(text, score));
}

/* ---- edges to grow along ---- */

/* Edges that carry a value to one of `nodes` from one inside `scope`, in topological order: by consumer. */
static void value_edges(const fb_planner *p, const fb_id *nodes, int n, fb_id scope, fb_pairs *out)
{
    const fb_deps *d = p->deps;
    for (int i = 0; i < n; i++) {
        for (int k = d->in_start[nodes[i]]; k < d->in_start[nodes[i] + 1]; k++) {
            fb_id from = d->edges[k].producer;
            if (d->edges[k].order_only || !fb_node_is_computed(p->g, from)) continue;
            if (fb_scope_within(p->g, p->g->nodes[from].scope, scope)) FB_VEC_PUSH(out, (fb_pair){from, nodes[i]});
        }
    }
}

static void grow_inside(fb_plan *plan, const fb_id *nodes, int n, fb_id scope)
{
    fb_pairs edges = {0};
    fb_growth growth = {.keep_library = true};
    value_edges(plan->planner, nodes, n, scope, &edges);
    fb_plan_grow(plan, edges.at, edges.n, &growth);
    FB_VEC_FREE(&edges);
}

/* ---- max ---- */

/* Every edge is a decision; those that stand beside it are the next ones. */
static void decide_edges(fb_decider *d, const fb_pairs *edges)
{
    const fb_graph *g = d->planner->g;
    fb_candidates all = {0};
    for (int i = 0; i < edges->n; i++) {
        fb_candidate c = {FB_STEP_FUSE, edges->at[i].a, edges->at[i].b, (double)fb_node_bytes(g, edges->at[i].a)};
        FB_VEC_PUSH(&all, c);
    }
    for (int i = 0; i < all.n && !fb_decider_done(d); i++) {
        fb_beside beside = {all.at + i + 1, all.n - i - 1};
        fb_decide(d, all.at[i], beside, "the next edge from the inputs on: fused, `%s` is not stored for `%s`",
                  g->nodes[all.at[i].a].name, g->nodes[all.at[i].b].name);
    }
    FB_VEC_FREE(&all);
}

/* Its only rule is our legality, so that what that refuses the preset refuses; and around contractions the faster one
 * of a library call and a generated kernel, of one kernel and two, as predicted. */
static fb_plan *run_max(fb_decider *d)
{
    const fb_planner *p = d->planner;
    fb_pairs edges = {0};
    fb_ids nodes = {0};
    for (fb_id i = 0; i < p->g->n_nodes; i++)
        if (fb_node_is_computed(p->g, i)) FB_VEC_PUSH(&nodes, i);
    value_edges(p, nodes.at, nodes.n, FB_NONE, &edges);
    decide_edges(d, &edges);
    FB_VEC_FREE(&edges);
    FB_VEC_FREE(&nodes);
    return fb_decisions_apply(d, FB_LIBRARY_WEIGH);
}

/* ---- eager: one kernel for each of the framework's own calls ---- */

/* The op scope nearest below `above` (FB_NONE: the graph) on the way down to `scope`; FB_NONE when there is none. */
static fb_id op_scope_below(const fb_graph *g, fb_id scope, fb_id above)
{
    fb_id found = FB_NONE;
    for (; scope != above && scope != FB_NONE; scope = g->scopes[scope].parent)
        if (g->scopes[scope].kind == FB_SCOPE_OP) found = scope;
    return found;
}

/* One group of all these nodes, where that is a kernel. */
static bool join_nodes(fb_plan *plan, const fb_id *nodes, int n)
{
    fb_verdict why;
    fb_analysis *to;
    fb_ids slots = {0};
    for (int i = 0; i < n; i++) FB_VEC_PUSH(&slots, plan->owner[nodes[i]]);
    bool good =
        n == 1 || (fb_plan_may_join(plan, slots.at, n, &why) && fb_plan_judge_join(plan, slots.at, n, &to, &why));
    if (good && n > 1) fb_commit_join(plan, slots.at, n, to);
    FB_VEC_FREE(&slots);
    return good;
}

/* Nodes of the op scope `scope`, in order: one kernel, or else a kernel for each op scope just below it and for each
 * other node, and then as few as its own edges allow. */
static void group_scope(fb_plan *plan, fb_id scope, const fb_id *nodes, int n)
{
    const fb_graph *g = plan->planner->g;
    if (join_nodes(plan, nodes, n)) return;
    fb_ids inner = {0};
    bool *done = fb_calloc((size_t)n, sizeof *done);
    for (int i = 0; i < n; i++) {
        fb_id child = op_scope_below(g, g->nodes[nodes[i]].scope, scope);
        if (child == FB_NONE || done[i]) continue;
        inner.n = 0;
        for (int k = i; k < n; k++) {
            if (!fb_scope_within(g, g->nodes[nodes[k]].scope, child)) continue;
            done[k] = true;
            FB_VEC_PUSH(&inner, nodes[k]);
        }
        group_scope(plan, child, inner.at, inner.n);
    }
    fb_free(done);
    FB_VEC_FREE(&inner);
    grow_inside(plan, nodes, n, scope);
}

static void decide_call(fb_decider *d, fb_plan *plan, const fb_scope *scope, const fb_ids *inside)
{
    fb_candidate what = {FB_STEP_CALL, inside->at[inside->n - 1], FB_NONE, NAN};
    if (fb_decide(d, what, (fb_beside){0}, "`%s` is one call of the framework: %d nodes", scope->path, inside->n))
        group_scope(plan, (fb_id)(scope - plan->planner->g->scopes), inside->at, inside->n);
}

static fb_plan *run_eager(fb_decider *d)
{
    fb_planner *p = d->planner;
    const fb_graph *g = p->g;
    fb_plan *plan = fb_plan_new(p);
    fb_ids *inside = fb_calloc((size_t)g->n_scopes + 1, sizeof *inside);
    for (fb_id i = 0; i < g->n_nodes; i++) {
        fb_id scope = fb_node_is_computed(g, i) ? op_scope_below(g, g->nodes[i].scope, FB_NONE) : FB_NONE;
        if (scope != FB_NONE) FB_VEC_PUSH(&inside[scope], i);
    }
    for (fb_id s = 0; s < g->n_scopes; s++) {
        if (inside[s].n > 1) decide_call(d, plan, &g->scopes[s], &inside[s]);
        FB_VEC_FREE(&inside[s]);
    }
    fb_free(inside);
    return plan;
}

/* ---- the compilers ---- */

static fb_plan *run_inductor(fb_decider *d)
{
    fb_inductor_decide(d);
    fb_plan *plan = fb_decisions_apply(d, FB_LIBRARY_KEEP);
    for (int i = 0; i < d->taken.n; i++) {
        const fb_taken *t = &d->taken.at[i];
        if (t->what.kind != FB_STEP_CALL || !t->n_nodes || join_nodes(plan, t->nodes, t->n_nodes)) continue;
        fb_step_unable(d, t->step, "no kernel here holds all %d nodes of the call", t->n_nodes);
    }
    return plan;
}

static fb_plan *run_xla(fb_decider *d)
{
    fb_xla_decide(d);
    return fb_decisions_apply(d, true);
}

static fb_plan *run_tinygrad(fb_decider *d)
{
    fb_tinygrad_decide(d);
    return fb_decisions_apply(d, FB_LIBRARY_FREE);
}

/* ---- auto ---- */

static fb_plan *run_auto(fb_decider *d)
{
    return fb_auto_plan(d);
}

/* ---- rolled: max, of the graph with its steps as loops ---- */

/* Is it a decision to have loops for steps? What is no loop is on record, with what keeps it from being one. */
static bool decide_roll(fb_decider *d)
{
    const fb_roll *r = fb_planner_roll(d->planner);
    if (!r || !r->n || fb_decider_done(d)) return false;
    fb_candidate what = {FB_STEP_ROLL, r->finds[0].node, FB_NONE, NAN};
    fb_plan *none = fb_plan_new(d->planner);
    fb_edit e = {.kind = FB_EDIT_ROLL, .a = FB_NONE, .b = FB_NONE, .value = 1};
    fb_verdict v = {0};
    if (d->log) v = fb_plan_try(none, &e, NULL);
    fb_plan_free(none);
    if (r->graph) return fb_decide(d, what, (fb_beside){0}, "%s", v.text);
    fb_decline_by_rule(d, what, (fb_beside){0}, "%s", v.text);
    return false;
}

static double us_of(const fb_plan *plan)
{
    fb_plan_cost c;
    fb_plan_cost_of(plan, &c);
    return c.us;
}

static void tell_whole(const fb_plan *before, const fb_plan *whole, const char *verdict, fb_str *why)
{
    char from[32], to[32];
    fb_format_us(from, us_of(before)), fb_format_us(to, us_of(whole));
    fb_str_addf(why,
                "with its products generated and all of a step in one stage, %s → %s predicted for the whole run: %s",
                from, to, verdict);
}

/* The plan with that loop as one kernel, as it has the loop's body or, where that is faster, with all of a step in one
 * stage. NULL where neither is predicted to be faster than loops of launches. */
static fb_plan *faster_as_one(const fb_plan *plan, fb_id loop, fb_str *why)
{
    fb_plan *plain = NULL;
    const fb_edit edit = {.kind = FB_EDIT_GENERATE, .a = loop, .b = FB_NONE};
    fb_verdict v = fb_plan_try(plan, &edit, &plain), all = {0};
    fb_plan *whole = fb_decide_whole_loop(plan, loop, &all);
    bool plain_pays = plain && v.kind == FB_VERDICT_FINE;
    bool whole_pays = whole && us_of(whole) < us_of(plain_pays ? plain : plan);
    if (whole && (whole_pays || !plain_pays))
        tell_whole(plan, whole, all.text, why);
    else
        fb_str_add(why, v.text);
    fb_plan *faster = whole_pays ? whole : plain_pays ? plain : NULL;
    if (faster != plain) fb_plan_free(plain);
    if (faster != whole) fb_plan_free(whole);
    return faster;
}

/* Decides on a loop that was found, and returns the plan that goes on. */
static fb_plan *merge_loop(fb_decider *d, fb_plan *plan, fb_id loop)
{
    const fb_candidate what = {FB_STEP_GENERATE, loop, FB_NONE, NAN};
    fb_str why = {0};
    fb_plan *next = faster_as_one(plan, loop, &why);
    if (!next) fb_decline_by_rule(d, what, (fb_beside){0}, "%s", fb_str_get(&why));
    bool taken = next && fb_decide(d, what, (fb_beside){0}, "%s", fb_str_get(&why));
    fb_str_free(&why);
    fb_plan_free(taken ? plan : next);
    return taken ? next : plan;
}

static fb_plan *merge_found(fb_decider *d, fb_plan *plan)
{
    fb_planner *p = plan->planner;
    for (fb_id i = 0; i < p->g->n_nodes && !fb_decider_done(d); i++)
        if (p->g->nodes[i].op == FB_OP_LOOP && fb_planner_roll(p)->was[i] == FB_NONE) plan = merge_loop(d, plan, i);
    return plan;
}

/* Where no step is a loop it is max. */
static fb_plan *run_rolled(fb_decider *d)
{
    bool already = fb_planner_written(d->planner) != d->planner;
    if (!already && !decide_roll(d)) return run_max(d);
    d->planner = fb_planner_rolled(d->planner);
    return merge_found(d, run_max(d));
}

/* ---- the table ---- */

#define PRESETS(ROW)                                                                                                   \
    ROW(none, "every operation its own kernel", "", NULL)                                                              \
    ROW(eager, "one kernel for each call of the framework: what PyTorch launches without a compiler", "", NULL)        \
    ROW(max, "every fusion that is legal and generated; around contractions, that which is predicted to be faster",    \
        "bytes not stored", score_bytes)                                                                               \
    ROW(inductor, "the kernels of torch.compile: TorchInductor's rules, held against the code of PyTorch 2.11",        \
        "bytes shared", score_bytes)                                                                                   \
    ROW(xla, "the kernels of XLA on a GPU: its published rules, held against what JAX 0.11.2 compiled for an H200",    \
        "predicted to save", score_us)                                                                                 \
    ROW(tinygrad, "the kernels of tinygrad: its rangeify rules, counts checked against the package",                   \
        "buffers it is computed from", score_buffers)                                                                  \
    ROW(auto, "the one of these that is predicted to be the fastest, with every change that is predicted to pay",      \
        "predicted to save", score_us)

/* Not of the list: these decide what the graph is before what its kernels are, and no other preset weighs them. */
#define BESIDE(ROW)                                                                                                    \
    ROW(rolled,                                                                                                        \
        "max, where steps that are written out are a loop; loops as one kernel where that is predicted to pay",        \
        "bytes not stored", score_bytes)

static fb_plan *decided(fb_plan *(*run)(fb_decider *d), fb_planner *p, const fb_preset_use *use, fb_steps *log)
{
    fb_decider d = {.planner = p, .log = log, .use = use};
    fb_plan *plan = run(&d);
    FB_VEC_FREE(&d.taken);
    FB_VEC_FREE(&d.declined);
    return plan;
}

#define MAKE(name, summary, score, write)                                                                              \
    static fb_plan *make_##name(fb_planner *p, fb_error *err)                                                          \
    {                                                                                                                  \
        (void)err;                                                                                                     \
        return decided(run_##name, p, NULL, NULL);                                                                     \
    }
PRESETS(MAKE)
BESIDE(MAKE)

#define PUBLIC(name, summary, score, write) {#name, summary, make_##name},
static const fb_preset table[] = {PRESETS(PUBLIC) BESIDE(PUBLIC)};

#define PRIVATE(name, summary, score, write) {run_##name, score, write},
static const struct {
    fb_plan *(*run)(fb_decider *d);
    const char *score_name;
    void (*score)(double score, fb_str *out);
} inside[] = {PRESETS(PRIVATE) BESIDE(PRIVATE)};

#define COUNTED(name, summary, score, write) +1
enum { LISTED = 0 PRESETS(COUNTED), ALL = LISTED BESIDE(COUNTED) };

const char *const fb_presets_usual[FB_PRESETS_USUAL] = {"eager", "auto"};
const char *const fb_preset_recommended = "auto";

int fb_presets(void)
{
    return LISTED;
}

int fb_presets_all(void)
{
    return ALL;
}

const fb_preset *fb_preset_at(int i)
{
    return i >= 0 && i < ALL ? &table[i] : NULL;
}

const fb_preset *fb_preset_find(const char *name)
{
    for (int i = 0; i < ALL; i++)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    return NULL;
}

/* ---- some decisions alone ---- */

static bool number(const char **at, int *out)
{
    if (!isdigit((unsigned char)**at)) return false;
    long long n = 0;
    for (; isdigit((unsigned char)**at) && n < INT_MAX; ++*at) n = 10 * n + (**at - '0');
    *out = n < INT_MAX ? (int)n : INT_MAX;
    return true;
}

/* "[no5,no9:12]" */
static bool parse_part(const char *at, fb_preset_use *out)
{
    at++;
    while (strncmp(at, "no", 2) == 0) {
        int k;
        at += 2;
        if (!number(&at, &k) || out->n_no == FB_PRESET_REFUSALS) return false;
        if (k < 1 || (out->n_no && k <= out->no[out->n_no - 1])) return false;
        out->no[out->n_no++] = k;
        if (*at == ',' && strncmp(at + 1, "no", 2) == 0) at++;
    }
    if (*at == ':') {
        at++;
        if (!number(&at, &out->limit)) return false;
    }
    return strcmp(at, "]") == 0 && (out->n_no || out->limit >= 0);
}

bool fb_preset_parse(const char *text, fb_preset_use *out, fb_error *err)
{
    const char *part = strchr(text, '[');
    size_t n = part ? (size_t)(part - text) : strlen(text);
    *out = (fb_preset_use){.limit = -1};
    for (int i = 0; i < ALL; i++)
        if (strlen(table[i].name) == n && memcmp(table[i].name, text, n) == 0) out->preset = &table[i];
    if (!out->preset) return false;
    if (!part || parse_part(part, out)) return true;
    return fb_fail(
        err, FB_ERR_USAGE,
        "\"%.80s\": the decisions of a preset are chosen as %s[:12] (the first 12), %s[no5] (refuse the 5th) "
        "or %s[no5,no9:12], with at most %d refusals in ascending order",
        text, out->preset->name, out->preset->name, out->preset->name, FB_PRESET_REFUSALS);
}

void fb_preset_write(const fb_preset_use *use, fb_str *out)
{
    fb_str_add(out, use->preset->name);
    if (!use->n_no && use->limit < 0) return;
    fb_str_add(out, "[");
    for (int i = 0; i < use->n_no; i++) fb_str_addf(out, "%sno%d", i ? "," : "", use->no[i]);
    if (use->limit >= 0) fb_str_addf(out, ":%d", use->limit);
    fb_str_add(out, "]");
}

fb_plan *fb_preset_make(const fb_preset_use *use, fb_planner *p, fb_steps **steps, fb_error *err)
{
    (void)err;
    int i = (int)(use->preset - table);
    bool withdrawn =
        inside[i].score == score_us && fb_planner_machine(p)->doubted; /* times that nothing stands behind */
    fb_steps *log = !steps      ? NULL
                    : withdrawn ? fb_steps_new(use->preset->name, "", NULL)
                                : fb_steps_new(use->preset->name, inside[i].score_name, inside[i].score);
    if (steps) *steps = log;
    return decided(inside[i].run, p, use, log);
}
