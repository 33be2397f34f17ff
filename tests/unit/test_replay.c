/* Recordings and the device that serves them: what is recorded, composed, predicted and stale, and files that are not
 * what they should be. */
#include "plan_help.h"
#include "scratch.h"

#include "base/embedded.h"
#include "base/gzip.h"
#include "base/json.h"
#include "code/lower.h"
#include "device/replay/head.h"
#include "device/replay/recording.h"
#include "measure/compare.h"
#include "measure/measure.h"

#include <math.h>
#include <unistd.h>

/* x → tanh → exp → relu, and where `more` something beside it, so that the graph is another one. */
static fb_graph *chain(bool more)
{
    fb_graph *g = fb_graph_new("chain");
    fb_id x = input(g, "x", DIMS(64, 32));
    output(g, node1(g, FB_OP_RELU, "c", node1(g, FB_OP_EXP, "b", node1(g, FB_OP_TANH, "a", x))));
    if (more) output(g, node1(g, FB_OP_COS, "d", x));
    return finish(g);
}

typedef struct {
    fb_graph *g;
    fb_machine m;
    fb_planner *planner;
    fb_plan *none, *ab; /* ab: a and b fused */
    fb_recording *r;
    const fb_target *target;
} fixture;

static fb_plan *fused(const fb_plan *plan, const char *a, const char *b)
{
    const fb_graph *g = fb_planner_graph(fb_plan_planner(plan));
    const fb_edit edit = {.kind = FB_EDIT_FUSE, .a = fb_graph_find(g, a), .b = fb_graph_find(g, b)};
    fb_plan *result = NULL;
    fb_plan_try(plan, &edit, &result);
    assert_non_null(result);
    return result;
}

static fixture fixture_new(fb_device_kind kind, bool more)
{
    fixture f = {.g = chain(more), .target = kind == FB_DEVICE_HOST ? &fb_target_c : &fb_target_cuda};
    fb_machine_default(&f.m, kind);
    f.planner = fb_planner_new(f.g, &f.m);
    f.none = fb_plan_new(f.planner);
    f.ab = fused(f.none, "a", "b");
    f.r = fb_recording_new(&f.m);
    return f;
}

static void fixture_free(fixture *f)
{
    fb_recording_free(f->r);
    fb_plan_free(f->ab);
    fb_plan_free(f->none);
    fb_planner_free(f->planner);
    fb_graph_free(f->g);
}

/* The kernels of a plan take `us`, `us` + 1, … */
static void record_kernels(fixture *f, const fb_plan *plan, double us)
{
    fb_program *p = fb_lower(plan, f->target, NULL);
    for (int i = 0; i < p->n_launches; i++, us++) {
        char code[FB_SIGNATURE], signature[FB_SIGNATURE];
        const char *codes[] = {fb_recording_code_name(p, &p->launches[i], code)};
        const fb_recorded_kernel k = {.hot_us = {us, us, us, 30},
                                      .cold_us = {2 * us, 2 * us, 2 * us, 10},
                                      .dram_read = 100 * us,
                                      .dram_written = 200,
                                      .l2_bytes = NAN,
                                      .resources = {32, 0, -1, 0.5}};
        fb_recording_set_kernel(f->r, code, &k);
        fb_recording_set_group(f->r, fb_recording_group_signature(plan, p->launches[i].group, signature), 1, codes);
    }
    fb_program_free(p);
}

static void record_whole(fixture *f, const fb_plan *plan, double us)
{
    fb_program *p = fb_lower(plan, f->target, NULL);
    char signature[FB_SIGNATURE];
    fb_recorded_plan whole = {.wall_us = {{us, us, us, 30}},
                              .device_us = {us / 2, us / 2, us / 2, 15},
                              .max_abs = 1e-7,
                              .max_rel = 2e-7,
                              .bound = 0.25};
    fb_recording_program_code(p, whole.code);
    fb_recording_set_plan(f->r, fb_recording_plan_signature(plan, signature), &whole);
    fb_program_free(p);
}

static void save_as(const fixture *f, const char *name)
{
    fb_error err = {0};
    if (!fb_recording_write(f->r, in_scratch(name), &err)) fail_msg("%s", err.text);
}

/* As a worker would have it. */
static fb_report *ask(const fb_plan *plan, const char *device)
{
    fb_error err = {0};
    const fb_measure_options o = {.seeds = {1}, .n_seeds = 1};
    fb_device *d = fb_device_open(device, &err);
    if (!d) fail_msg("%s", err.text);
    fb_measurement *m = fb_measure_prepare(d, plan, &o, NULL, &err);
    if (!m || !fb_measure_check(m, NULL, &err)) fail_msg("%s", err.text);
    assert_true(fb_measure_sample(m, FB_CACHE_HOT, 5, NULL, &err));
    assert_true(fb_measure_sample(m, FB_CACHE_COLD, 5, NULL, &err));
    fb_report *r = fb_measure_report(m);
    fb_measure_free(m);
    d->ops->close(d);
    return r;
}

static void close_to(double a, double b)
{
    if (!(fabs(a - b) <= 1e-3 * fabs(b))) fail_msg("%g is not %g", a, b);
}

/* ---- recorded, composed, predicted, stale ---- */

/* Nobody has measured it, and the model knows the generated one alone. */
static void a_kernel_of_ones_own_has_no_record(void **state)
{
    (void)state;
    fb_error err = {0};
    fixture f = fixture_new(FB_DEVICE_CUDA, false);
    record_kernels(&f, f.none, 10);
    record_whole(&f, f.none, 50);
    save_as(&f, "own.json");
    bool *shares = fb_calloc((size_t)fb_plan_groups(f.none), sizeof *shares);
    fb_str text = {0};
    const fb_eject_origin from = {"a test", "none"};
    assert_true(fb_lower_eject(f.none, 0, f.target, &from, &text, shares, &err));
    fb_plan *own = NULL;
    fb_edit e = {.kind = FB_EDIT_SOURCE, .a = fb_plan_group(f.none, 0)->nodes[0], .b = FB_NONE, .source = "own.cu"};
    fb_plan_try(f.none, &e, &own);
    assert_non_null(own);
    fb_planner_set_source(f.planner, "own.cu", fb_str_get(&text));
    fb_device *d = fb_device_open("replay:own", &err);
    if (!d) fail_msg("%s", err.text);
    assert_null(fb_measure_prepare(d, own, &(fb_measure_options){.seeds = {1}, .n_seeds = 1}, NULL, &err));
    assert_int_equal(err.kind, FB_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "own.cu is a kernel of your own"));
    d->ops->close(d);
    fb_plan_free(own);
    fb_str_free(&text);
    fb_free(shares);
    fixture_free(&f);
}

static void a_plan_that_was_recorded_is_told_as_it_was(void **state)
{
    (void)state;
    fixture f = fixture_new(FB_DEVICE_CUDA, false);
    record_kernels(&f, f.none, 10);
    record_whole(&f, f.none, 50);
    save_as(&f, "gpu.json");
    fb_report *r = ask(f.none, "replay:gpu");
    assert_int_equal(r->source, FB_SOURCE_RECORDED);
    assert_false(r->stale);
    close_to(r->wall_us.median, 50);
    close_to(r->device_us.median, 25);
    close_to(r->gap_us, 25);
    close_to(r->error.bound, 0.25);
    assert_true(r->error.ok);
    assert_int_equal(r->launches, 3);
    assert_int_equal(r->n_kernels, 3);
    for (int i = 0; i < 3; i++) {
        const fb_kernel_report *k = &r->kernels[i];
        assert_int_equal(k->source, FB_SOURCE_RECORDED);
        close_to(k->device_us.median, 10 + i);
        close_to(k->cold_us.median, 20 + 2 * i);
        close_to(k->measured_read, 1000 + 100 * i);
        assert_int_equal(k->registers, 32);
        assert_int_equal(k->spill_bytes, -1);
        assert_true(isnan(k->l2_bytes));
    }
    fb_report_free(r);
    fixture_free(&f);
}

static void a_plan_of_recorded_kernels_is_composed(void **state)
{
    (void)state;
    fixture f = fixture_new(FB_DEVICE_CUDA, false);
    record_kernels(&f, f.none, 10);
    record_kernels(&f, f.ab, 20); /* c now takes 21 */
    record_whole(&f, f.none, 50);
    save_as(&f, "gpu.json");
    fb_report *r = ask(f.ab, "replay:gpu");
    assert_int_equal(r->source, FB_SOURCE_COMPOSED);
    close_to(r->device_us.median, 20 + 21);
    /* kernels longer than a launch hide it but for the gap between two */
    close_to(r->wall_us.median, 41 + 2 * f.m.launch_us + f.m.sync_us);
    close_to(r->cold_us.median, 82 + 2 * f.m.launch_us + f.m.sync_us);
    assert_true(isnan(r->error.bound)); /* nobody checked this plan */
    fb_report_free(r);
    fixture_free(&f);
}

/* What launching is told to take, and what it took of a plan that was recorded whole. */
static void record_launching(fixture *f, const fb_plan *plan, fb_launch_mode mode, double took)
{
    char signature[FB_SIGNATURE], code[FB_SIGNATURE];
    fb_program *p = fb_lower(plan, f->target, NULL);
    fb_recorded_plan whole = {
        .device_us = {40, 40, 40, 15}, .bound = NAN, .launches = (double)fb_program_launches(p), .calls = 0};
    whole.wall_us[mode] = (fb_stat){40 + took, 40 + took, 40 + took, 30};
    fb_recording_program_code(p, whole.code);
    fb_recording_graph_signature(f->g, whole.graph);
    fb_recording_set_plan(f->r, fb_recording_plan_signature(plan, signature), &whole);
    for (int i = 0; i < p->n_launches; i++) {
        const fb_stat one = {10, 10, 10, 30};
        fb_recording_set_plan_kernel(f->r, signature, fb_recording_code_name(p, &p->launches[i], code), &one);
    }
    fb_program_free(p);
}

static double told(const fixture *f, double launches)
{
    return launches * f->m.launch_us + f->m.sync_us;
}

static void launching_is_what_it_was_nearby(void **state)
{
    (void)state;
    enum { WHOLE = 3 };
    fixture f = fixture_new(FB_DEVICE_CUDA, false), other = fixture_new(FB_DEVICE_CUDA, true);
    fb_plan *bc = fused(f.none, "b", "c"), *all = fused(f.ab, "b", "c");
    record_kernels(&f, f.none, 10);
    record_kernels(&f, f.ab, 20);                      /* c now takes 21 */
    record_launching(&f, f.none, FB_LAUNCH_GRAPH, 50); /* another mode says nothing */
    save_as(&f, "near.json");
    fb_report *r = ask(f.ab, "replay:near");
    close_to(r->wall_us.median, 41 + told(&f, 2));
    assert_true(r->wall_us.p10 < r->wall_us.median && r->wall_us.p90 > r->wall_us.median);
    fb_report_free(r);

    record_launching(&f, f.none, FB_LAUNCH_STREAM, 2 * told(&f, WHOLE)); /* twice as long, and so the edit */
    record_launching(&other, other.none, FB_LAUNCH_STREAM, 9 * told(&f, 4));
    save_as(&f, "near.json");
    r = ask(f.ab, "replay:near");
    close_to(r->wall_us.median, 41 + 2 * told(&f, 2));
    close_to(r->gap_us, 2 * told(&f, 2));
    fb_report_free(r);

    record_kernels(&f, bc, 30);
    record_kernels(&f, all, 40);
    record_launching(&f, all, FB_LAUNCH_STREAM, 3 * told(&f, 1)); /* half of its launches, none of its kernels */
    save_as(&f, "near.json");
    r = ask(bc, "replay:near");
    close_to(r->gap_us, 2 * told(&f, 2)); /* "none" has a kernel and two thirds of the launches */
    fb_report_free(r);
    fb_plan_free(bc);
    fb_plan_free(all);
    fixture_free(&other);
    fixture_free(&f);
}

static void another_launch_mode_is_composed(void **state)
{
    (void)state;
    fixture f = fixture_new(FB_DEVICE_CUDA, false);
    fb_plan *as_graph = NULL;
    const fb_edit edit = {.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_GRAPH};
    fb_plan_try(f.none, &edit, &as_graph);
    assert_non_null(as_graph);
    record_kernels(&f, f.none, 1);
    record_whole(&f, f.none, 50);
    save_as(&f, "gpu.json");
    fb_report *r = ask(as_graph, "replay:gpu"), *stream = ask(f.none, "replay:gpu");
    assert_int_equal(r->source, FB_SOURCE_COMPOSED);
    assert_int_equal(stream->source, FB_SOURCE_RECORDED);
    close_to(r->device_us.median, 25);
    close_to(r->wall_us.median, 6 + 3 * f.m.graph_launch_us + f.m.sync_us);
    fb_report_free(r);
    fb_report_free(stream);
    fb_plan_free(as_graph);
    fixture_free(&f);
}

static void what_was_not_recorded_is_predicted(void **state)
{
    (void)state;
    fixture f = fixture_new(FB_DEVICE_CUDA, false);
    record_kernels(&f, f.none, 10);
    save_as(&f, "gpu.json");
    fb_report *r = ask(f.ab, "replay:gpu");
    fb_group_cost cost;
    fb_plan_group_cost(f.ab, 0, &cost);
    assert_int_equal(r->source, FB_SOURCE_PREDICTED);
    assert_int_equal(r->kernels[0].source, FB_SOURCE_PREDICTED);
    assert_int_equal(r->kernels[0].device_us.n, 0);
    assert_int_equal(r->kernels[1].source, FB_SOURCE_RECORDED);
    close_to(r->device_us.median, cost.us + 12);
    assert_int_equal(r->cold_us.n, 0);
    fb_report_free(r);
    fixture_free(&f);
}

static void equal_code_in_another_graph_is_recorded(void **state)
{
    (void)state;
    fixture f = fixture_new(FB_DEVICE_CUDA, false), other = fixture_new(FB_DEVICE_CUDA, true);
    char mine[FB_SIGNATURE], theirs[FB_SIGNATURE];
    assert_string_not_equal(fb_recording_group_signature(f.none, 0, mine),
                            fb_recording_group_signature(other.none, 0, theirs));
    record_kernels(&f, f.none, 10);
    save_as(&f, "gpu.json");
    fb_report *r = ask(other.none, "replay:gpu");
    int recorded = 0;
    for (int i = 0; i < r->n_kernels; i++) recorded += r->kernels[i].source == FB_SOURCE_RECORDED;
    assert_int_equal(r->n_kernels, 4);
    assert_int_equal(recorded, 3);
    assert_false(r->stale);
    fb_report_free(r);
    fixture_free(&f);
    fixture_free(&other);
}

static void source_that_changed_is_stale(void **state)
{
    (void)state;
    fixture f = fixture_new(FB_DEVICE_CUDA, false);
    char signature[FB_SIGNATURE];
    const char *codes[] = {"0123456789abcdef"};
    const fb_recorded_kernel old = {.hot_us = {7, 7, 7, 30}, .dram_read = NAN, .dram_written = NAN, .l2_bytes = NAN};
    record_kernels(&f, f.ab, 20);
    fb_recording_set_kernel(f.r, codes[0], &old);
    fb_recording_set_group(f.r, fb_recording_group_signature(f.none, 0, signature), 1, codes);
    save_as(&f, "gpu.json");
    fb_report *r = ask(f.none, "replay:gpu");
    assert_true(r->stale);
    assert_true(r->kernels[0].stale);
    assert_int_equal(r->kernels[0].source, FB_SOURCE_RECORDED);
    close_to(r->kernels[0].device_us.median, 7);
    assert_false(r->kernels[2].stale);
    fb_report_free(r);
    /* a whole plan likewise */
    fb_recorded_plan whole = {.wall_us = {{50, 50, 50, 30}}, .bound = NAN, .code = "0123456789abcdef"};
    fb_recording_set_plan(f.r, fb_recording_plan_signature(f.ab, signature), &whole);
    save_as(&f, "gpu.json");
    r = ask(f.ab, "replay:gpu");
    assert_int_equal(r->source, FB_SOURCE_RECORDED);
    assert_true(r->stale);
    close_to(r->wall_us.median, 50);
    json_t *told = fb_report_to_json(r);
    fb_error err = {0};
    fb_report *back = fb_report_from_json(told, &err);
    assert_true(back && back->stale && back->source == FB_SOURCE_RECORDED);
    fb_report_free(back);
    json_decref(told);
    fb_report_free(r);
    fixture_free(&f);
}

/* A plan was recorded, then its kernels' text changed: in a launch mode that was recorded it is told as it was, and
 * said to be stale; in another one its times are of the new kernels alone, and agree with each other. */
static void changed_kernels_take_nothing_of_the_old_run(void **state)
{
    (void)state;
    fixture f = fixture_new(FB_DEVICE_CUDA, false);
    char signature[FB_SIGNATURE];
    fb_recorded_plan whole = {.wall_us = {{50, 50, 50, 30}},
                              .device_us = {25, 25, 25, 15},
                              .max_abs = 1e-7,
                              .max_rel = 2e-7,
                              .bound = 0.25,
                              .code = "0123456789abcdef"};
    fb_plan *as_graph = NULL;
    const fb_edit edit = {.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_GRAPH};
    fb_plan_try(f.none, &edit, &as_graph);
    assert_non_null(as_graph);
    fb_recording_set_plan(f.r, fb_recording_plan_signature(f.none, signature), &whole);
    record_kernels(&f, f.none, 100);
    save_as(&f, "gpu.json");
    fb_report *r = ask(f.none, "replay:gpu");
    assert_int_equal(r->source, FB_SOURCE_RECORDED);
    assert_true(r->stale);
    fb_report_free(r);
    r = ask(as_graph, "replay:gpu");
    assert_int_equal(r->source, FB_SOURCE_COMPOSED);
    close_to(r->device_us.median, 100 + 101 + 102);
    assert_true(r->wall_us.median >= r->device_us.median);
    assert_true(isnan(r->error.bound)); /* nobody checked these kernels together */
    fb_report_free(r);
    fb_plan_free(as_graph);
    fixture_free(&f);
}

/* What a toggle is predicted to take is what its column then shows, where nothing of it was recorded: one formula. And
 * a knob changes a kernel's text, so that what is recorded of the group as it was is not told. */
static void a_toggle_is_shown_as_it_was_predicted(void **state)
{
    (void)state;
    fixture f = fixture_new(FB_DEVICE_CUDA, false);
    fb_plan *turned = NULL;
    fb_plan_cost cost;
    record_kernels(&f, f.ab, 20);
    record_whole(&f, f.ab, 50);
    save_as(&f, "gpu.json");
    fb_report *r = ask(f.none, "replay:gpu"); /* of c alone there is a record */
    assert_int_equal(r->source, FB_SOURCE_PREDICTED);
    fb_report_free(r);
    for (int value = 1; !turned && value <= 8; value *= 2) {
        const fb_edit edit = {
            .kind = FB_EDIT_KNOB, .a = fb_graph_find(f.g, "a"), .b = FB_NONE, .knob = FB_KNOB_VECTOR, .value = value};
        char before[FB_SIGNATURE], after[FB_SIGNATURE];
        fb_plan_try(f.ab, &edit, &turned);
        if (!turned) continue;
        fb_program *old = fb_lower(f.ab, f.target, NULL), *now = fb_lower(turned, f.target, NULL);
        if (strcmp(fb_recording_code_name(old, &old->launches[0], before),
                   fb_recording_code_name(now, &now->launches[0], after)) == 0) {
            fb_plan_free(turned);
            turned = NULL;
        }
        fb_program_free(old);
        fb_program_free(now);
    }
    assert_non_null(turned);
    r = ask(turned, "replay:gpu");
    assert_int_equal(r->source, FB_SOURCE_PREDICTED);
    assert_false(r->stale);
    assert_int_equal(r->kernels[0].source, FB_SOURCE_PREDICTED);
    assert_int_equal(r->kernels[1].source, FB_SOURCE_RECORDED);
    fb_report_free(r);
    fb_plan_free(turned);
    fb_recording_free(f.r);
    f.r = fb_recording_new(&f.m);
    save_as(&f, "gpu.json");
    r = ask(f.ab, "replay:gpu");
    fb_plan_cost_of(f.ab, &cost);
    assert_int_equal(r->source, FB_SOURCE_PREDICTED);
    close_to(r->wall_us.median, cost.us);
    fb_report_free(r);
    fixture_free(&f);
}

static void a_processor_is_replayed_in_its_own_language(void **state)
{
    (void)state;
    fixture f = fixture_new(FB_DEVICE_HOST, false);
    record_kernels(&f, f.none, 10);
    save_as(&f, "cpu.json");
    fb_report *r = ask(f.none, "replay:cpu");
    assert_int_equal(r->source, FB_SOURCE_COMPOSED);
    close_to(r->wall_us.median, 33 + 3 * f.m.launch_us + f.m.sync_us);
    fb_report_free(r);
    fixture_free(&f);
}

/* A kernel's code does not hang on its name, its comments or its place in the program. */
static void codes_are_of_what_runs(void **state)
{
    (void)state;
    static const char *const sources[] = {"void k(int *x) { x[0] = 1; } /* of a */",
                                          "// of b\nvoid k2(int *x)\n{ x[0]=1; }", "void k(int *x) { x[0] = 2; }"};
    static const char *const entries[] = {"k", "k2", "k"};
    char code[3][FB_SIGNATURE];
    for (int i = 0; i < 3; i++) {
        fb_kernel kernel = {.source = sources[i], .entry = entries[i]};
        const fb_program p = {.language = "cuda", .n_kernels = 1, .kernels = &kernel};
        fb_recording_code_name(&p, &(fb_launch){.kind = FB_LAUNCH_KERNEL}, code[i]);
    }
    assert_string_equal(code[0], code[1]);
    assert_string_not_equal(code[0], code[2]);
}

/* ---- samples ---- */

static void record_rounds(fixture *f, const fb_plan *plan, double turn_us, double after_us, double us)
{
    char signature[FB_SIGNATURE];
    fb_recorded_plan *whole = fb_calloc(1, sizeof *whole);
    assert_true(fb_recording_plan(f->r, fb_recording_plan_signature(plan, signature), whole));
    for (int i = 0; i < 20; i++)
        whole->rounds[FB_LAUNCH_STREAM].at[i] =
            (fb_round){turn_us + 1000 * i + after_us, us * (1 + 0.001 * (i % 3)), i ? us / 2 : NAN};
    whole->rounds[FB_LAUNCH_STREAM].n = 20;
    fb_recording_set_plan(f->r, signature, whole);
    fb_free(whole);
}

/* 2 % apart, which a summary of 30 does not tell. */
static void rounds_of_one_turn_are_paired(void **state)
{
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        fixture f = fixture_new(FB_DEVICE_CUDA, false);
        record_kernels(&f, f.none, 10);
        record_kernels(&f, f.ab, 10);
        record_whole(&f, f.none, 51);
        record_whole(&f, f.ab, 50);
        record_rounds(&f, f.none, 1.8e15, 0, 51);
        record_rounds(&f, f.ab, apart ? 1.8e15 + 5e6 : 1.8e15, 500, 50);
        assert_true(fb_recording_write(f.r, in_scratch("gpu.json.gz"), NULL));
        fb_report *a = ask(f.none, "replay:gpu"), *b = ask(f.ab, "replay:gpu");
        a->device = b->device = "replay:gpu"; /* a session says so */
        assert_int_equal(a->n_rounds, 20);
        close_to(b->rounds[1].wall_us, 50.05);
        assert_true(isnan(a->rounds[0].device_us) && a->rounds[1].device_us > 25);
        fb_comparison c = fb_compare_reports(a, b, FB_TIME_WALL);
        assert_int_equal(c.pairs, apart ? 0 : 20);
        if (!apart) assert_int_equal(c.what, FB_FASTER);
        fb_report_free(a);
        fb_report_free(b);
        unlink(in_scratch("gpu.json.gz"));
        fixture_free(&f);
    }
}

/* Of one name the compressed file is taken. Plans of graphs that no script has any more go. */
static void compressed_files_are_the_same_every_time(void **state)
{
    (void)state;
    fixture f = fixture_new(FB_DEVICE_CUDA, false);
    fb_error err = {0};
    size_t n[2], used;
    char *bytes[2], signature[FB_SIGNATURE];
    record_kernels(&f, f.none, 10);
    record_whole(&f, f.none, 50);
    json_t *timeline = json_pack("{s:[s], s:[[i, f, f, n, n, i]]}", "names", "a", "spans", 0, 1.25, 3.5, 0);
    fb_recording_set_timeline(f.r, fb_recording_plan_signature(f.none, signature), timeline);
    for (int i = 0; i < 2; i++) {
        assert_true(fb_recording_write(f.r, in_scratch("same.json.gz"), &err));
        bytes[i] = fb_read_file(in_scratch("same.json.gz"), FB_RECORDING_MAX, &n[i], &err);
        fb_recording_free(f.r);
        assert_non_null(f.r = fb_recording_read(bytes[i], n[i], &err));
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    json_t *back = fb_recording_timeline(f.r, signature, &err);
    assert_true(json_equal(back, timeline));
    char *text = fb_gunzip(bytes[0], n[0], 1000, &used, &used, &err);
    assert_null(text);
    assert_non_null(strstr(err.text, "more than"));
    json_decref(back);
    json_decref(timeline);
    fb_free(bytes[0]);
    fb_free(bytes[1]);
    unlink(in_scratch("same.json.gz"));
    fixture_free(&f);
}

static void plans_of_forgotten_graphs_go(void **state)
{
    (void)state;
    fixture f = fixture_new(FB_DEVICE_CUDA, false);
    char signature[FB_SIGNATURE];
    fb_recorded_plan *have = fb_calloc(1, sizeof *have);
    record_kernels(&f, f.none, 10);
    record_whole(&f, f.none, 50);
    assert_true(fb_recording_plan(f.r, fb_recording_plan_signature(f.none, signature), have));
    fb_recording_graph_signature(f.g, have->graph);
    fb_recording_set_plan(f.r, signature, have);
    fb_recording_add_script(f.r, "chain", "", f.g->hash);
    fb_recording_prune(f.r);
    assert_true(fb_recording_plan(f.r, signature, have));
    fixture other = fixture_new(FB_DEVICE_CUDA, true);
    fb_recording_add_script(f.r, "chain", "", other.g->hash);
    json_t *graphs = json_pack("{s:b}", have->graph, 1);
    fb_recording_set_experiment(f.r, "chain", graphs);
    fb_recording_prune(f.r);
    assert_true(fb_recording_plan(f.r, signature, have)); /* an experiment has it */
    json_object_clear(graphs);
    fb_recording_set_experiment(f.r, "chain", graphs);
    fb_recording_prune(f.r);
    assert_false(fb_recording_plan(f.r, signature, have));
    json_decref(graphs);
    fb_free(have);
    fixture_free(&other);
    fixture_free(&f);
}

/* ---- files ---- */

static void pruning_keeps_what_is_launched(void **state)
{
    (void)state;
    fixture f = fixture_new(FB_DEVICE_CUDA, false);
    fb_recorded_kernel k = {.hot_us = {1, 1, 1, 1}, .dram_read = NAN, .dram_written = NAN, .l2_bytes = NAN};
    char code[FB_SIGNATURE];
    record_kernels(&f, f.none, 10);
    fb_recording_set_kernel(f.r, "00000000deadbeef", &k);
    fb_recording_prune(f.r);
    assert_false(fb_recording_kernel(f.r, "00000000deadbeef", &k));
    fb_program *p = fb_lower(f.none, f.target, NULL);
    assert_true(fb_recording_kernel(f.r, fb_recording_code_name(p, &p->launches[0], code), &k));
    fb_program_free(p);
    /* what is written is what is read */
    size_t n, again;
    save_as(&f, "gpu.json");
    const char *path = in_scratch("gpu.json");
    char *text = fb_read_file(path, FB_RECORDING_MAX, &n, NULL);
    fb_recording *back = fb_recording_read(text, n, NULL);
    assert_non_null(back);
    assert_true(fb_recording_write(back, path, NULL));
    char *second = fb_read_file(path, FB_RECORDING_MAX, &again, NULL);
    assert_int_equal(n, again);
    assert_memory_equal(text, second, n);
    fb_recording_free(back);
    fb_free(text);
    fb_free(second);
    fixture_free(&f);
}

static void recordings_are_listed(void **state)
{
    (void)state;
    fixture f = fixture_new(FB_DEVICE_CUDA, false);
    fb_recording_set_text(f.r, "date", "2026-01-02T03:04:05Z");
    fb_recording_add_script(f.r, "chain", "", f.g->hash);
    save_as(&f, "gpu.json");
    assert_true(fb_write_file(in_scratch("broken.json"), "{}", 2, NULL));
    json_t *devices = json_array(), *libraries = json_array(), *entry;
    const fb_device_ops *ops = fb_device_find("replay:gpu", NULL);
    ops->list(devices, libraries);
    size_t i;
    int seen = 0;
    json_array_foreach(devices, i, entry)
    {
        const char *name = fb_json_string_or(entry, "device", "");
        if (strcmp(name, "replay:gpu") == 0) {
            seen++;
            assert_string_equal(fb_json_string_or(entry, "date", ""), "2026-01-02T03:04:05Z");
            assert_non_null(json_object_get(json_object_get(entry, "scripts"), "chain"));
        }
        if (strcmp(name, "replay:broken") == 0) {
            seen++;
            assert_non_null(strstr(fb_json_string_or(entry, "missing", ""), "broken.json"));
        }
    }
    assert_int_equal(seen, 2);
    json_decref(devices);
    json_decref(libraries);
    fb_error err = {0};
    assert_null(fb_device_open("replay:nothing", &err));
    assert_int_equal(err.kind, FB_ERR_UNAVAILABLE);
    assert_null(fb_device_open("replay:../../etc/passwd", &err));
    unlink(in_scratch("broken.json"));
    fixture_free(&f);
}

/* A framework that plans for itself: its plans are names, and served as they were measured. */
static void a_peer_is_served_by_name(void **state)
{
    (void)state;
    fixture f = fixture_new(FB_DEVICE_CUDA, false), other = fixture_new(FB_DEVICE_CUDA, true);
    char graph[FB_SIGNATURE];
    const fb_peer_plan eager = {.wall_us = {425, 420, 431, 30},
                                .device_us = {95, 94, 96, 15},
                                .launches = 36,
                                .launch_mode = "stream",
                                .max_abs = 1e-7,
                                .max_rel = 2e-7,
                                .bound = 0.5,
                                .n_kernels = 2,
                                .kernels = {{"vectorized_layer_norm_kernel", "layer_norm", 16, {64, 63, 65, 15}},
                                            {"vectorized_elementwise_kernel", NULL, 16, {22, 21, 23, 15}}}};
    fb_recording_graph_signature(f.g, graph);
    assert_true(fb_recording_set_peer(f.r, "torch", "PyTorch 2.11 on a GPU", "2026-01-02T03:04:05Z"));
    fb_recording_set_peer_plan(f.r, graph, "torch", "eager", &eager);
    fb_recording_set_peer_plan(f.r, graph, "torch", "compile",
                               &(fb_peer_plan){.wall_us = {88, 87, 90, 30}, .launches = -1, .bound = NAN});
    save_as(&f, "gpu.json");
    fb_error err = {0};
    fb_device *d = fb_device_open("torch:gpu", &err);
    if (!d) fail_msg("%s", err.text);
    fb_report *r = fb_measure_recall_named(d, f.g, "eager", &err);
    if (!r) fail_msg("%s", err.text);
    assert_int_equal(r->source, FB_SOURCE_RECORDED);
    assert_int_equal(r->launches, 36);
    assert_true(r->wall_us.median == 425 && r->device_us.median == 95 && r->cold_us.n == 0);
    assert_true(r->gap_us == 330 && r->error.ok);
    assert_int_equal(r->n_kernels, 2);
    assert_string_equal(r->kernels[0].name, "vectorized_layer_norm_kernel");
    assert_string_equal(r->kernels[0].family, "layer_norm");
    assert_int_equal(r->kernels[0].count, 16);
    assert_null(r->kernels[1].family);
    fb_report_free(r);
    assert_null(fb_measure_recall_named(d, f.g, "max-autotune", &err));
    assert_int_equal(err.kind, FB_ERR_UNAVAILABLE);
    if (!strstr(err.text, "recorded: compile, eager (PyTorch 2.11 on a GPU)")) fail_msg("%s", err.text);
    assert_null(fb_measure_recall_named(d, other.g, "eager", &err));
    if (!strstr(err.text, "not recorded")) fail_msg("%s", err.text);
    d->ops->close(d);
    /* Another version of it is another peer: nothing of the old one stays. */
    assert_false(fb_recording_set_peer(f.r, "torch", "PyTorch 2.12 on a GPU", "2026-02-02T03:04:05Z"));
    fb_peer_plan none;
    assert_false(fb_recording_peer_plan(f.r, graph, "torch", "eager", &none));
    assert_null(fb_device_open("torch", &err));
    assert_null(fb_device_open("torch:nothing", &err));
    fixture_free(&f);
    fixture_free(&other);
}

/* Every recording that the binary carries can be opened. */
static void carried_recordings_are_whole(void **state)
{
    (void)state;
    static const char under[] = "scripts/recordings/";
    for (const fb_embedded_file *file = fb_embedded_files; file->path; file++) {
        if (strncmp(file->path, under, sizeof under - 1) != 0) continue;
        fb_error err = {0};
        fb_recording *r = fb_recording_read(file->text, file->size, &err);
        if (!r) fail_msg("%s: %s", file->path, err.text);
        assert_non_null(fb_recording_text(r, "date"));
        assert_true(json_object_size(fb_recording_scripts(r)) > 0);
        fb_recording_free(r);
    }
}

/* Lists of a recording are made of its head, which says the same and holds no figure. */
static void a_head_is_the_recording_without_figures(void **state)
{
    (void)state;
    const char **names, *script, *variant, *peers[] = {"torch", "jax", "onnx", "tinygrad"};
    fb_arena *arena = fb_arena_new();
    int n = fb_recording_names(arena, &names), peer_plans = 0;
    for (int i = 0; i < n; i++) {
        fb_error err = {0};
        fb_recording *whole = fb_recording_open(names[i], &err), *head = fb_recording_open_head(names[i], &err);
        json_t *variants, *graph;
        if (!whole || !head) fail_msg("%s: %s", names[i], err.text);
        assert_true(json_equal(fb_recording_scripts(whole), fb_recording_scripts(head)));
        assert_int_equal(fb_recording_text(whole, "date") != NULL, fb_recording_text(head, "date") != NULL);
        assert_string_equal(fb_recording_machine(whole)->name, fb_recording_machine(head)->name);
        json_object_foreach((json_t *)fb_recording_scripts(whole), script, variants)
        {
            json_object_foreach(variants, variant, graph)
            {
                for (size_t p = 0; p < sizeof peers / sizeof *peers; p++) {
                    fb_str all = {0}, in_head = {0};
                    fb_recording_peer_plans(whole, json_string_value(graph), peers[p], &all);
                    fb_recording_peer_plans(head, json_string_value(graph), peers[p], &in_head);
                    assert_string_equal(fb_str_get(&all), fb_str_get(&in_head));
                    peer_plans += all.n > 0;
                    fb_str_free(&all);
                    fb_str_free(&in_head);
                }
            }
        }
        fb_recording_free(whole);
        fb_recording_free(head);
    }
    assert_true(n > 0 && peer_plans > 0);
    fb_arena_free(arena);
}

/* Damaged figures are told by who opens the recording; a list does not look at them. */
static void damaged_figures_are_told_when_opened(void **state)
{
    (void)state;
    fixture f = fixture_new(FB_DEVICE_CUDA, false);
    record_kernels(&f, f.none, 10);
    fb_recording_set_text(f.r, "date", "2026-01-02T03:04:05Z");
    save_as(&f, "gpu.json");
    const char *path = in_scratch("gpu.json");
    size_t n;
    char *text = fb_read_file(path, FB_RECORDING_MAX, &n, NULL), *hot = strstr(text, "\"hot\":[");
    assert_non_null(hot);
    hot[6] = '-'; /* no JSON any more */
    assert_true(fb_write_file(path, text, n, NULL));
    fb_error err = {0};
    fb_recording *head = fb_recording_open_head("gpu", &err);
    if (head) fail_msg("a list where brackets do not match"); /* read whole, for what is wrong */
    assert_non_null(strstr(err.text, "gpu.json"));
    hot[6] = '[';
    memcpy(hot + 7, "-1", 2);
    assert_true(fb_write_file(path, text, n, NULL));
    head = fb_recording_open_head("gpu", &err);
    if (!head) fail_msg("%s", err.text);
    assert_string_equal(fb_recording_text(head, "date"), "2026-01-02T03:04:05Z");
    fb_recording_free(head);
    fb_device *d = fb_device_open("replay:gpu", &err);
    if (!d) fail_msg("%s", err.text);
    const fb_measure_options o = {.seeds = {1}, .n_seeds = 1};
    assert_null(fb_measure_prepare(d, f.none, &o, NULL, &err));
    assert_int_equal(err.kind, FB_ERR_INPUT);
    if (!strstr(err.text, "\"hot\"")) fail_msg("%s", err.text);
    d->ops->close(d);
    assert_null(fb_recording_read(text, n, &err));
    fb_free(text);
    fixture_free(&f);
}

/* A file with some bytes changed is refused with a sentence, or serves a plan; never anything else. */
static void damaged_files_do_no_harm(void **state)
{
    (void)state;
    enum { TRIES = 4000 };
    static const char signs[] = "0123456789abcdef-+.eE\"[]{},:nullx \n";
    fixture f = fixture_new(FB_DEVICE_CUDA, false);
    record_kernels(&f, f.none, 10);
    record_whole(&f, f.none, 50);
    save_as(&f, "gpu.json");
    const char *path = in_scratch("gpu.json");
    size_t n;
    char *text = fb_read_file(path, FB_RECORDING_MAX, &n, NULL);
    unsigned seed = 7;
    int read = 0;
    for (int i = 0; i < TRIES; i++) {
        char *bad = fb_alloc(n + 1);
        memcpy(bad, text, n);
        size_t length = n;
        for (int k = rand_r(&seed) % 3; k >= 0; k--)
            bad[(size_t)rand_r(&seed) % n] = signs[(size_t)rand_r(&seed) % (sizeof signs - 1)];
        if (rand_r(&seed) % 8 == 0) length = (size_t)rand_r(&seed) % n;
        fb_error err = {0};
        fb_recording *r = fb_recording_read(bad, length, &err);
        if (!r && (err.kind != FB_ERR_INPUT || !err.text[0])) fail_msg("no reason given");
        read += r != NULL;
        if (r && i % 16 == 0) { /* a reader that took it must be able to serve it */
            assert_true(fb_write_file(path, bad, length, NULL));
            fb_report_free(ask(f.none, "replay:gpu"));
        }
        fb_recording_free(r);
        fb_str head = {0};
        fb_recording_head(bad, length, &head, NULL); /* as safely */
        fb_str_free(&head);
        fb_free(bad);
    }
    assert_true(read > 0 && read < TRIES);
    fb_free(text);
    fixture_free(&f);
}

static int set_up(void **state)
{
    return make_scratch(state) == 0 ? setenv("FUSEBOX_RECORDINGS", scratch, 1) : -1;
}

int main(void)
{
    fb_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_of_ones_own_has_no_record),
        cmocka_unit_test(a_plan_that_was_recorded_is_told_as_it_was),
        cmocka_unit_test(a_plan_of_recorded_kernels_is_composed),
        cmocka_unit_test(launching_is_what_it_was_nearby),
        cmocka_unit_test(another_launch_mode_is_composed),
        cmocka_unit_test(what_was_not_recorded_is_predicted),
        cmocka_unit_test(equal_code_in_another_graph_is_recorded),
        cmocka_unit_test(source_that_changed_is_stale),
        cmocka_unit_test(changed_kernels_take_nothing_of_the_old_run),
        cmocka_unit_test(a_toggle_is_shown_as_it_was_predicted),
        cmocka_unit_test(a_processor_is_replayed_in_its_own_language),
        cmocka_unit_test(codes_are_of_what_runs),
        cmocka_unit_test(rounds_of_one_turn_are_paired),
        cmocka_unit_test(compressed_files_are_the_same_every_time),
        cmocka_unit_test(plans_of_forgotten_graphs_go),
        cmocka_unit_test(pruning_keeps_what_is_launched),
        cmocka_unit_test(recordings_are_listed),
        cmocka_unit_test(a_peer_is_served_by_name),
        cmocka_unit_test(carried_recordings_are_whole),
        cmocka_unit_test(a_head_is_the_recording_without_figures),
        cmocka_unit_test(damaged_figures_are_told_when_opened),
        cmocka_unit_test(damaged_files_do_no_harm),
    };
    return cmocka_run_group_tests_name("replay", tests, set_up, remove_scratch);
}
