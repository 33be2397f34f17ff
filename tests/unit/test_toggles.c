/* Every single-edge toggle of every bundled script, from the plans `none` and `max`, either gets a verdict or runs and
 * agrees with the reference: at the reduced sizes of tests/differential/scripts.sh. FB_TOGGLES says how many of a
 * variant are run (spread evenly; without it 2, of `max` alone); FB_FULL=1 runs them all. With FB_TURN (turn.h) those of
 * a third of the variants. */
#include "unit/script_harness.h"
#include "unit/scripts_help.h"
#include "unit/turn.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/vec.h"
#include "decide/preset.h"
#include "measure/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_MS = 180000, AT_ONCE = 24 };

typedef struct {
    fb_device *device;
    FB_VEC(fb_plan *) plans;
    int judged, refused, run;
    unsigned variants; /* of the scripts so far */
} bench;

/* Judges every edge on `plan`; what may be done is kept to be run. */
static void toggle_all(bench *b, const fb_plan *plan)
{
    const fb_graph *g = fb_planner_graph(fb_plan_planner(plan));
    const fb_deps *d = fb_planner_deps(fb_plan_planner(plan));
    for (int i = 0; i < d->n_edges; i++) {
        fb_id from = d->edges[i].producer, to = d->edges[i].consumer;
        if (!fb_node_is_computed(g, from) || !fb_node_is_computed(g, to)) continue;
        bool fused = fb_plan_group_of(plan, from) == fb_plan_group_of(plan, to);
        fb_edit edit = {.kind = fused ? FB_EDIT_CUT : FB_EDIT_FUSE, .a = from, .b = to};
        fb_plan *result = NULL;
        fb_verdict v = fb_plan_try(plan, &edit, &result);
        b->judged++;
        assert_true(strlen(v.text) > 10);
        assert_int_equal(result == NULL, v.kind >= FB_VERDICT_UNSUPPORTED);
        if (result)
            FB_VEC_PUSH(&b->plans, result);
        else
            b->refused++;
    }
}

static void run_some(bench *b, const char *what, const fb_fuzz_reference *reference, fb_plan **plans, int n)
{
    fb_fuzz_case cases[AT_ONCE];
    for (int i = 0; i < n; i++) cases[i] = (fb_fuzz_case){.plan = plans[i], .reference = reference};
    fb_fuzz_run(b->device, cases, n);
    for (int i = 0; i < n; i++) {
        fb_fuzz_kind k = cases[i].result.kind;
        if (k != FB_FUZZ_FINE && k != FB_FUZZ_REFUSED)
            fail_msg("%s, toggle %d: %s: %s", what, i, fb_fuzz_kind_name(k), cases[i].result.text);
        b->run += k == FB_FUZZ_FINE;
    }
}

static void run_toggles(bench *b, const char *what, const fb_graph *g, int otherwise)
{
    const char *limit = getenv("FB_TOGGLES");
    int most = getenv("FB_FULL") ? b->plans.n : limit ? atoi(limit) : otherwise, n = 0;
    fb_error err = {0};
    if (!b->plans.n || !most) return;
    fb_fuzz_reference *in = fb_fuzz_reference_new(g, &err);
    if (!in) fail_msg("%s: %s", what, err.text);
    if (most > b->plans.n) most = b->plans.n;
    fb_plan **chosen = fb_calloc((size_t)most + 1, sizeof *chosen);
    for (int i = 0; i < most; i++) chosen[n++] = b->plans.at[(int64_t)i * b->plans.n / most];
    for (int i = 0; i < n; i += AT_ONCE) run_some(b, what, in, chosen + i, n - i < AT_ONCE ? n - i : AT_ONCE);
    fb_free(chosen);
    fb_fuzz_reference_free(in);
}

static void toggle_variant(bench *b, const char *path, fb_script *s, const char *variant, const json_t *set)
{
    fb_script_event e;
    char what[256];
    snprintf(what, sizeof what, "%s %s", path, variant);
    fb_script_build(s, variant, set);
    assert_true(next_event(s, &e, LIMIT_MS));
    if (e.kind != FB_SCRIPT_GRAPH) fail_msg("%s: %s", what, e.error.text);
    fb_planner *planner = fb_planner_new(e.graph, b->device->ops->machine(b->device));
    static const char *const from[] = {"none", "max"};
    for (int i = 0; i < 2; i++) {
        fb_error err = {0};
        fb_plan *plan = fb_preset_find(from[i])->make(planner, &err);
        toggle_all(b, plan);
        run_toggles(b, what, e.graph, i ? 2 : 0);
        for (int k = 0; k < b->plans.n; k++) fb_plan_free(b->plans.at[k]);
        b->plans.n = 0;
        fb_plan_free(plan);
    }
    fb_planner_free(planner);
    fb_graph_free(e.graph);
}

static void toggle_script(bench *b, const char *path)
{
    char whole[4096], name[64];
    fb_error err = {0};
    snprintf(whole, sizeof whole, "%s/%s", source_dir(), path);
    script_name(path, name);
    json_t *set = reduced(name);
    fb_script *s = fb_script_start(whole, NULL, &err);
    if (!s) fail_msg("%s", err.text);
    fb_script_event e;
    assert_true(next_event(s, &e, LIMIT_MS));
    if (e.kind != FB_SCRIPT_INFO) fail_msg("%s: %s", path, e.error.text);
    for (int v = 0; v < e.info->n_variants; v++)
        if (is_our_turn(b->variants++)) toggle_variant(b, path, s, e.info->variants[v], set);
    fb_script_info_free(e.info);
    fb_script_free(s);
    json_decref(set);
}

static void every_edge_toggles_or_says_why(void **state)
{
    (void)state;
    fb_error err = {0};
    bench b = {.device = fb_device_open("host", &err)};
    if (!b.device) fail_msg("%s", err.text);
    const char *only = getenv("FB_SCRIPT");
    for (int i = 0; fb_embedded_files[i].path; i++)
        if (is_bundled(fb_embedded_files[i].path) && (!only || strstr(fb_embedded_files[i].path, only)))
            toggle_script(&b, fb_embedded_files[i].path);
    print_message("# %d toggles judged, %d refused with a reason, %d run\n", b.judged, b.refused, b.run);
    assert_true(b.run > 0);
    FB_VEC_FREE(&b.plans);
    b.device->ops->close(b.device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_edge_toggles_or_says_why)};
    return cmocka_run_group_tests_name("toggles", tests, NULL, NULL);
}
