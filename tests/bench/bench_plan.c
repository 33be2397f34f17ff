/* Toggle → verdict and prediction, and the presets' own time, on generated graphs of several shapes.
 *
 * A toggle is what a key does in the workbench: an edge drawn at random is fused, or cut where its ends share a kernel;
 * the edit is judged, the edited plan made, and its predicted cost and that of the plan summed up. */
#include "bench/bench.h"
#include "bench/bench_graphs.h"

#include "base/rng.h"
#include "code/lower.h"
#include "decide/preset.h"
#include "plan/plan.h"

#include <string.h>

enum { TOGGLES = 300, PRESET_ROUNDS = 5 };
#define TOGGLE_PATIENCE_US 6e6 /* no further toggles of a plan after that long */
#define PRESET_PATIENCE_US 2e6 /* a preset that takes longer is timed once */

static fb_plan *make(fb_planner *p, const char *preset)
{
    fb_error err = {0};
    fb_plan *plan = fb_preset_find(preset)->make(p, &err);
    bench_need(plan != NULL, &err);
    return plan;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The tail is what a user feels: p95 and the longest beside the columns of the table. */
static void tail_row(const char *what, double *us, int n, const char *note)
{
    char more[160], p95[32], most[32];
    qsort(us, (size_t)n, sizeof *us, by_value);
    snprintf(more, sizeof more, "p95 %s, most %s%s%s", fb_format_us(p95, us[n * 95 / 100]),
             fb_format_us(most, us[n - 1]), note[0] ? "; " : "", note);
    bench_samples(what, us, n, more);
}

static fb_edit edit_of(const fb_plan *plan, const fb_edge *e)
{
    int from = fb_plan_group_of(plan, e->producer), to = fb_plan_group_of(plan, e->consumer);
    return (fb_edit){.kind = from == to ? FB_EDIT_CUT : FB_EDIT_FUSE, .a = e->producer, .b = e->consumer};
}

static double toggle(const fb_plan *plan, const fb_edit *edit, bool repeated, int *refused)
{
    fb_plan *edited = NULL;
    double start = fb_now_us();
    fb_verdict v = repeated ? fb_plan_try_repeated(plan, edit, &edited) : fb_plan_try(plan, edit, &edited);
    if (edited) {
        fb_plan_cost cost;
        fb_plan_cost_of(edited, &cost);
    }
    double us = fb_now_us() - start;
    *refused += v.kind >= FB_VERDICT_UNSUPPORTED;
    fb_plan_free(edited);
    return us;
}

static void toggles(const char *shape, const char *preset, fb_planner *p, bool repeated)
{
    const fb_deps *d = fb_planner_deps(p);
    fb_plan *plan = make(p, preset);
    double us[TOGGLES], end = fb_now_us() + TOGGLE_PATIENCE_US;
    uint64_t key = fb_rng_key(7, "edges");
    int refused = 0, n = 0;
    char what[96], note[96];
    while (n < TOGGLES && fb_now_us() < end) {
        fb_edit edit = edit_of(plan, &d->edges[fb_rng_bits(key, (uint64_t)n) % (uint64_t)d->n_edges]);
        us[n++] = toggle(plan, &edit, repeated, &refused);
    }
    snprintf(what, sizeof what, "%s, plan %s%s", shape, preset, repeated ? ", all repetitions" : "");
    snprintf(note, sizeof note, "%d groups, %d of %d refused", fb_plan_groups(plan), refused, n);
    tail_row(what, us, n, note);
    fb_plan_free(plan);
}

static fb_planner *planner(const fb_graph *g)
{
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_HOST);
    return fb_planner_new(g, &m);
}

/* From nothing: the analyses are made too. */
static void preset_row(const bench_shape *shape, int n, const char *preset)
{
    fb_graph *g = bench_canonical(shape->make(n));
    double us[PRESET_ROUNDS];
    int rounds = 0, groups = 0;
    char what[96], note[96];
    do {
        fb_planner *p = planner(g);
        double start = fb_now_us();
        fb_plan *plan = make(p, preset);
        us[rounds++] = fb_now_us() - start;
        groups = fb_plan_groups(plan);
        fb_plan_free(plan);
        fb_planner_free(p);
    } while (rounds < PRESET_ROUNDS && us[0] < PRESET_PATIENCE_US);
    snprintf(what, sizeof what, "%s, %d nodes, preset %s", shape->name, g->n_nodes, preset);
    snprintf(note, sizeof note, "%d groups", groups);
    bench_samples(what, us, rounds, note);
    fb_graph_free(g);
}

/* What it takes from nodes to a program, for all of a graph and a node: near constant down the rows of a shape, where
 * no step is worse than n log n. */
static void compile_row(const bench_shape *shape, int n)
{
    enum { CANON, MAX, LOWER, STEPS };
    double at[STEPS + 1], node[STEPS];
    fb_error err = {0};
    char what[96], a[32], b[32], c[32];
    fb_graph *raw = shape->make(n);
    at[CANON] = fb_now_us();
    fb_graph *g = fb_graph_canonical(raw, &err);
    bench_need(g != NULL, &err);
    at[MAX] = fb_now_us();
    fb_planner *p = planner(g);
    fb_plan *plan = make(p, "max");
    int groups = fb_plan_groups(plan);
    at[LOWER] = fb_now_us();
    fb_program *program = fb_lower(plan, &fb_target_c, &err);
    at[STEPS] = fb_now_us();
    for (int i = 0; i < STEPS; i++) node[i] = (at[i + 1] - at[i]) / g->n_nodes;
    snprintf(what, sizeof what, "%s, %d nodes, %d groups", shape->name, g->n_nodes, groups);
    printf("  ");
    bench_cell(what, BENCH_NAME + 2);
    bench_cell(fb_format_us(a, at[MAX] - at[CANON]), BENCH_FIGURE);
    bench_cell(fb_format_us(b, at[LOWER] - at[MAX]), BENCH_FIGURE);
    bench_cell(program ? fb_format_us(c, at[STEPS] - at[LOWER]) : "refused", BENCH_FIGURE);
    printf("   %5.2f %5.2f %5.2f µs a node%s%s\n", node[CANON], node[MAX], node[LOWER], program ? "" : ": ", err.text);
    fflush(stdout);
    fb_program_free(program);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
    fb_graph_free(raw);
}

static void compile_rows(int n)
{
    printf("\n");
    bench_cell("compile time of a plan", BENCH_NAME);
    bench_cell("canonicalise", BENCH_FIGURE);
    bench_cell("max", BENCH_FIGURE);
    bench_cell("lower", BENCH_FIGURE);
    printf("\n");
    for (const bench_shape *s = bench_shapes; s->name; s++)
        for (int size = n / 10; size <= 5 * n; size *= size < n ? 10 : 5) compile_row(s, size);
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 10000;
    char title[96];
    snprintf(title, sizeof title, "toggle → verdict and prediction, %d nodes", n);
    bench_head(title);
    for (const bench_shape *s = bench_shapes; s->name; s++) {
        fb_graph *g = bench_canonical(s->make(n));
        fb_planner *p = planner(g);
        toggles(s->name, "none", p, false);
        toggles(s->name, "max", p, false);
        if (strcmp(s->name, "repeated") == 0) toggles(s->name, "none", p, true);
        fb_planner_free(p);
        fb_graph_free(g);
    }
    bench_head("presets, from nothing");
    for (const bench_shape *s = bench_shapes; s->name; s++)
        for (int size = n / 10; size <= n; size *= 10) preset_row(s, size, "max");
    preset_row(&bench_shapes[2], n, "none");
    preset_row(&bench_shapes[2], n, "eager");
    compile_rows(n);
    return 0;
}
