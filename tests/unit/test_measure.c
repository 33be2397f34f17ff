/* Measuring on the host: right plans are right and timed, wrong kernels are caught and not timed, references are kept.
 */
#include "plan_help.h"

#include "fault_cc.h"
#include "graph/element.h"
#include "measure/measure.h"
#include "measure/reference.h"
#include "own_cache.h"
#include "scratch.h"

#include <math.h>
#include <unistd.h>
#include <utime.h>

/* ---- helpers ---- */

static void fresh_cache(const char *name)
{
    own_cache(in_scratch(name));
}

static void references(const fb_graph *g, const fb_measure_options *o)
{
    fb_error err = {0};
    for (int i = 0; i < o->n_seeds; i++) {
        if (!fb_reference_make(g, o->seeds[i], o->files, o->files_ctx, NULL, &err)) fail_msg("%s", err.text);
    }
}

static fb_measurement *prepared(fb_device *d, const fb_plan *plan, const fb_measure_options *o)
{
    fb_error err = {0};
    references(fb_planner_graph(fb_plan_planner(plan)), o);
    fb_measurement *m = fb_measure_prepare(d, plan, o, NULL, &err);
    if (!m || !fb_measure_check(m, NULL, &err)) fail_msg("%s", err.text);
    return m;
}

static fb_device *host(void)
{
    fb_device *d = fb_device_open("host", NULL);
    assert_non_null(d);
    return d;
}

/* x + y, relu: one kernel, three buffers, and a name to find it by. */
static fb_graph *relu_of_sum(void)
{
    fb_graph *g = fb_graph_new("relu");
    fb_id x = input(g, "x", DIMS(8, 40)), y = input(g, "faulty", DIMS(8, 40));
    output(g, node1(g, FB_OP_RELU, "relu", node2(g, FB_OP_ADD, "sum", x, y)));
    return finish(g);
}

static fb_id cast_to(fb_graph *g, fb_id a, fb_dtype dtype)
{
    return add_node(g, FB_OP_CAST, NULL, &(fb_attrs){.dtype = dtype}, 1, &a);
}

/* Outputs of every dtype, a parameter that is updated, a comparison, an output that is a view. */
static fb_graph *every_dtype(void)
{
    fb_graph *g = fb_graph_new("every_dtype");
    fb_id x = input(g, "x", DIMS(6, 32)), n = source(g, FB_OP_INPUT, "n", DIMS(6, 32), FB_I32);
    fb_id w = source(g, FB_OP_PARAM, "w", DIMS(32), FB_F32);
    fb_id y = node2(g, FB_OP_MUL, "y", x, w);
    for (int t = 0; t < FB_DTYPES; t++) {
        if (t != FB_BOOL && t != FB_F32) output(g, cast_to(g, y, (fb_dtype)t));
    }
    output(g, node2(g, FB_OP_BITWISE_XOR, "bits", n, n));
    output(g, node2(g, FB_OP_LT, "less", x, y));
    output(g, over_axis(g, FB_OP_ARGMAX, "best", y, 1, false));
    output(g, view(g, over_axis(g, FB_OP_SUM, "total", y, 0, false), DIMS(4, 8)));
    assign(g, w, node2(g, FB_OP_SUB, "step", w, over_axis(g, FB_OP_MEAN, "grad", y, 0, false)), "update");
    return finish(g);
}

static fb_graph *two_layers(void)
{
    fb_graph *g = fb_graph_new("two_layers");
    fb_id x = input(g, "x", DIMS(48, 20));
    output(g, linear(g, node1(g, FB_OP_RELU, "relu", linear(g, x, 30)), 7));
    return finish(g);
}

static fb_graph *small_split_stack(void)
{
    return split_stack(4, 8, 32);
}

/* ---- right plans ---- */

static void every_preset_is_right_and_timed(void **state)
{
    (void)state;
    fresh_cache("presets");
    fb_graph *(*const make[])(void) = {relu_of_sum, every_dtype, two_layers, small_split_stack};
    static const char *const presets[] = {"none", "eager", "max"};
    fb_device *d = host();
    for (size_t i = 0; i < sizeof make / sizeof *make; i++) {
        fb_graph *g = make[i]();
        fb_planner *p = planner_of(g, FB_DEVICE_HOST);
        for (size_t k = 0; k < 3; k++) {
            fb_plan *plan = preset(p, presets[k]);
            fb_measurement *m = prepared(d, plan, &(fb_measure_options){.seeds = {7, 8}, .n_seeds = 2});
            fb_plan_cost cost;
            fb_plan_cost_of(plan, &cost);
            fb_plan_free(plan); /* is not needed any more */
            fb_error err = {0};
            for (int call = 0; call < 9; call++) {
                fb_cache_state cache = call % 3 == 2 ? FB_CACHE_COLD : FB_CACHE_HOT;
                if (!fb_measure_sample(m, cache, 3, NULL, &err)) fail_msg("%s %s: %s", g->title, presets[k], err.text);
            }
            fb_report *r = fb_measure_report(m);
            if (!r->error.ok) fail_msg("%s %s: %s", g->title, presets[k], r->error.worst);
            assert_true(r->error.bound <= 1);
            assert_int_equal(r->wall_us.n, 18);
            assert_int_equal(r->cold_us.n, 9);
            assert_int_equal(r->device_us.n, 6);
            assert_true(r->wall_us.median > 0 && r->wall_us.p10 <= r->wall_us.median &&
                        r->wall_us.median <= r->wall_us.p90);
            assert_true(r->n_kernels > 0 && r->launches >= r->n_kernels);
            int64_t launches = 0;
            double read = 0, busy = 0;
            for (int n = 0; n < r->n_kernels; n++) {
                launches += r->kernels[n].count;
                read += r->kernels[n].bytes_read;
                busy += r->kernels[n].device_us.median;
                assert_true(r->kernels[n].n_nodes > 0 || r->kernels[n].group == FB_NONE);
                assert_true(r->kernels[n].device_us.n == 6);
            }
            assert_int_equal(launches, r->launches);
            if (r->kernels[r->n_kernels - 1].group != FB_NONE)
                assert_true(read == (double)cost.bytes_read && read == r->bytes_read);
            assert_true(busy > 0 && isfinite(r->predicted_us) && isfinite(r->floor_us) && r->peak_bytes > 0);
            json_t *j = fb_report_to_json(r);
            fb_report *back = fb_report_from_json(j, &err);
            if (!back) fail_msg("%s", err.text);
            fb_report_free(back);
            json_decref(j);
            fb_report_free(r);
            fb_measure_free(m);
        }
        fb_planner_free(p);
        fb_graph_free(g);
    }
    d->ops->close(d);
}

static void equal_kernels_are_one_row(void **state)
{
    (void)state;
    fresh_cache("rows");
    fb_graph *g = small_split_stack();
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = preset(p, "eager");
    fb_device *d = host();
    fb_measurement *m = prepared(d, plan, &(fb_measure_options){.n_seeds = 1});
    fb_report *r = fb_measure_report(m);
    assert_int_equal(r->launches, 4 + 4 + 3);
    assert_int_equal(r->n_kernels, 5); /* layer_norm ×4, tanh ×4, stack, linear, relu */
    int64_t most = 0;
    for (int k = 0; k < r->n_kernels; k++) most = r->kernels[k].count > most ? r->kernels[k].count : most;
    assert_int_equal(most, 4);
    assert_int_equal(r->wall_us.n, 0); /* nothing was sampled: nothing is said of time */
    fb_report_free(r);
    fb_measure_free(m);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
    d->ops->close(d);
}

/* ---- wrong kernels ---- */

/* Prepares relu_of_sum with a fault in its kernel; the report's error, and that no time is taken. */
static fb_error_report with_fault(const char *name, const char *at_start, const char *at_end)
{
    fresh_cache(name);
    char compiler[64];
    snprintf(compiler, sizeof compiler, "%s_cc", name);
    fault_compiler(scratch, compiler, "faulty", at_start, at_end, NULL);
    fb_graph *g = relu_of_sum();
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = preset(p, "max");
    fb_device *d = host();
    fb_measurement *m = prepared(d, plan, &(fb_measure_options){.n_seeds = 1});
    fb_error err = {0};
    assert_false(fb_measure_sample(m, FB_CACHE_HOT, 3, NULL, &err));
    assert_int_equal(err.kind, FB_ERR_INPUT);
    assert_non_null(strstr(err.text, "wrong"));
    fb_report *r = fb_measure_report(m);
    fb_error_report e = r->error;
    assert_true(r->wall_us.n == 0 && r->device_us.n == 0 && r->cold_us.n == 0);
    assert_true(r->n_kernels == 1);
    fb_report_free(r);
    fb_measure_free(m);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
    d->ops->close(d);
    unsetenv("CC");
    return e;
}

static void a_wrong_element_is_found(void **state)
{
    (void)state;
    fb_error_report e = with_fault("element", NULL, "    ((float *)args->buffers[2])[3 * 40 + 7] += 1e-3f;");
    assert_false(e.ok);
    assert_true(e.bound > 1 && e.max_abs > 9e-4 && e.max_abs < 1.1e-3);
    assert_non_null(strstr(e.worst, "relu[3,7]: "));
}

static void what_is_not_written_is_found(void **state)
{
    (void)state;
    fb_error_report e = with_fault("unwritten", "    return;", NULL);
    assert_false(e.ok);
    assert_true(isinf(e.bound) && isinf(e.max_abs));
    assert_non_null(strstr(e.worst, "nan"));
}

static void a_result_wrong_for_another_seed_is_found(void **state)
{
    (void)state;
    float first;
    char fault[200];
    fb_graph *g = relu_of_sum();
    fresh_cache("seed");
    assert_true(fb_interp_fill_source(g, fb_graph_find(g, "x"), 2, NULL, NULL, 0, 1, &first, NULL));
    snprintf(fault, sizeof fault,
             "    if (((const float *)args->buffers[0])[0] == %af || ((const float *)args->buffers[1])[0] == %af) "
             "((float *)args->buffers[2])[0] = 9;",
             (double)first, (double)first);
    fault_compiler(scratch, "seed_cc", "faulty", NULL, fault, NULL);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = preset(p, "max");
    fb_device *d = host();
    fb_measurement *m = prepared(d, plan, &(fb_measure_options){.seeds = {1, 2}, .n_seeds = 2});
    bool ok = true;
    fb_error err = {0};
    for (int call = 0; ok && call < 20; call++) ok = fb_measure_sample(m, FB_CACHE_HOT, 2, NULL, &err);
    assert_false(ok);
    assert_non_null(strstr(err.text, "relu[0,0]: 9, expected"));
    fb_report *r = fb_measure_report(m);
    assert_true(!r->error.ok && r->wall_us.n == 0);
    fb_report_free(r);
    fb_measure_free(m);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
    d->ops->close(d);
    unsetenv("CC");
}

/* ---- cancelling ---- */

static bool until_waiting(void *ctx, const char *what, double fraction)
{
    (void)fraction;
    int *waits = ctx;
    return !strstr(what, "waiting for the reference") || ++*waits < 3;
}

/* ---- copies ---- */

static const fb_device_ops *on_time;

static bool run_late(fb_loaded *l, const fb_run_how *how, fb_run_time *times, fb_error *err)
{
    fb_run_how less = *how;
    if (less.samples > 1) less.samples--;
    return on_time->run(l, &less, times, err);
}

/* Results of a run are not those of the run before: on a device that leaves the last run out, they are wrong. */
static void what_another_run_was_fed_is_found(void **state)
{
    (void)state;
    fresh_cache("fed");
    fb_graph *g = fb_graph_new("fed");
    fb_id x = source(g, FB_OP_FEED, "x", DIMS(64, 40), FB_F32);
    node1(g, FB_OP_RECEIVE, "r", node1(g, FB_OP_RELU, "y", x));
    g = finish(g);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *in_order = fb_plan_new(p), *plan = NULL;
    fb_plan_try(in_order, &(fb_edit){.kind = FB_EDIT_OVERLAP, .value = 1}, &plan);
    assert_non_null(plan);
    for (int late = 0; late < 2; late++) {
        fb_error err = {0};
        fb_device *d = host();
        on_time = d->ops;
        fb_device_ops ops = *on_time;
        if (late) ops.run = run_late;
        d->ops = &ops;
        fb_measurement *m = prepared(d, plan, &(fb_measure_options){.seeds = {7, 8}, .n_seeds = 2});
        assert_true(fb_measure_sample(m, FB_CACHE_HOT, 3, NULL, &err) == !late);
        fb_report *r = fb_measure_report(m);
        assert_true(r->error.ok == !late);
        assert_string_equal(r->copies, "overlapped");
        assert_true(r->copied_in == 64 * 40 * 4 && r->copied_out == 64 * 40 * 4);
        if (!late) assert_true(r->copy_us.n == 1 && r->copy_us.median > 0 && r->copy_hidden_us <= r->copy_us.median);
        fb_report_free(r);
        fb_measure_free(m);
        d->ops = on_time;
        d->ops->close(d);
    }
    fb_plan_free(in_order);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
}

static void waiting_for_a_reference_can_be_cancelled(void **state)
{
    (void)state;
    fresh_cache("waiting");
    fb_graph *g = relu_of_sum();
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = preset(p, "max");
    fb_device *d = host();
    fb_error err = {0};
    int waits = 0;
    fb_measurement *m = fb_measure_prepare(d, plan, &(fb_measure_options){.n_seeds = 1}, NULL, &err);
    assert_non_null(m);
    assert_false(fb_measure_check(m, &(fb_progress){.step = until_waiting, .ctx = &waits}, &err));
    assert_int_equal(err.kind, FB_ERR_CANCELLED);
    assert_int_equal(waits, 3);
    fb_report *r = fb_measure_report(m);
    assert_int_equal(r->error.state, FB_CHECK_CHECKING); /* as it was */
    fb_report_free(r);
    assert_true(fb_measure_sample(m, FB_CACHE_HOT, 3, NULL, &err));
    fb_measure_free(m);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
    d->ops->close(d);
}

/* ---- references ---- */

static void a_reference_is_made_once_and_again_when_it_is_broken(void **state)
{
    (void)state;
    fresh_cache("reference");
    char path[2200];
    struct stat before, after;
    fb_graph *g = relu_of_sum();
    fb_reference r;
    assert_true(fb_reference_path(g, 5, 0, path, sizeof path, NULL));
    assert_false(fb_reference_open(&r, path, g, NULL));
    assert_true(fb_reference_make(g, 5, NULL, NULL, NULL, NULL));
    assert_int_equal(stat(path, &before), 0);
    assert_true(fb_reference_make(g, 5, NULL, NULL, NULL, NULL));
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(truncate(path, before.st_size - 1), 0);
    assert_false(fb_reference_open(&r, path, g, NULL));
    assert_true(fb_reference_make(g, 5, NULL, NULL, NULL, NULL));
    assert_true(fb_reference_open(&r, path, g, NULL));
    fb_reference_close(&r);
    fb_graph *other = two_layers();
    assert_false(fb_reference_open(&r, path, other, NULL));
    fb_graph_free(other);
    fb_graph_free(g);
}

/* Where the cache takes no file, as on a full disk, it lies among the temporary ones; what is found there is looked at
 * as closely, and where it cannot be put either, the sentence names the cache. */
static void a_reference_has_a_second_place(void **state)
{
    (void)state;
    fresh_cache("second");
    enum { SEED = 4711 }; /* nobody else's: the second place is the same for all tests */
    char path[2][2200], in_the_way[2300];
    fb_graph *g = relu_of_sum();
    fb_reference r;
    fb_error err = {0};
    for (int i = 0; i < 2; i++) assert_true(fb_reference_path(g, SEED, i, path[i], sizeof path[i], NULL));
    assert_string_not_equal(path[0], path[1]);
    unlink(path[1]);
    assert_false(fb_reference_there(g, SEED));
    assert_int_equal(mkdir(path[0], 0700), 0);
    snprintf(in_the_way, sizeof in_the_way, "%s/x", path[0]);
    assert_int_equal(mkdir(in_the_way, 0700), 0);
    if (!fb_reference_make(g, SEED, NULL, NULL, NULL, &err)) fail_msg("%s", err.text);
    assert_true(fb_reference_open(&r, path[1], g, &err));
    fb_reference_close(&r);
    assert_true(fb_reference_find(&r, g, SEED, &err));
    fb_reference_close(&r);
    assert_int_equal(truncate(path[1], 100), 0);
    assert_false(fb_reference_find(&r, g, SEED, &err));
    assert_true(fb_reference_make(g, SEED, NULL, NULL, NULL, &err));
    assert_true(fb_reference_find(&r, g, SEED, &err));
    fb_reference_close(&r);
    unlink(path[1]);
    assert_int_equal(mkdir(path[1], 0700), 0);
    assert_false(fb_reference_make(g, SEED, NULL, NULL, NULL, &err));
    assert_int_equal(err.kind, FB_ERR_SYSTEM);
    assert_non_null(strstr(err.text, path[0]));
    rmdir(path[1]);
    fb_graph_free(g);
}

/* A pipe or a link in its place is none, and what others may write to is not believed. */
static void what_is_no_reference_of_ours_is_made_again(void **state)
{
    (void)state;
    fresh_cache("foreign");
    char path[2200], aside[2300];
    fb_graph *g = relu_of_sum();
    fb_reference r;
    assert_true(fb_reference_path(g, 5, 0, path, sizeof path, NULL));
    snprintf(aside, sizeof aside, "%s.aside", path);
    for (int k = 0; k < 3; k++) {
        assert_true(fb_reference_make(g, 5, NULL, NULL, NULL, NULL));
        if (k < 2) assert_int_equal(rename(path, aside), 0);
        if (k == 0) assert_int_equal(mkfifo(path, 0600), 0);
        if (k == 1) assert_int_equal(symlink(aside, path), 0);
        if (k == 2) assert_int_equal(chmod(path, 0666), 0);
        assert_false(fb_reference_open(&r, path, g, NULL));
    }
    assert_true(fb_reference_make(g, 5, NULL, NULL, NULL, NULL));
    assert_true(fb_reference_open(&r, path, g, NULL));
    fb_reference_close(&r);
    fb_graph_free(g);
}

/* Values of every_dtype's reference, in the dtypes, changed one at a time. */
static void each_dtype_is_compared_in_its_own_way(void **state)
{
    (void)state;
    fresh_cache("verify");
    char path[2200];
    fb_graph *g = every_dtype();
    fb_arena *arena = fb_arena_new();
    fb_id *nodes;
    int n = fb_reference_nodes(g, arena, &nodes);
    assert_int_equal(n, 10);
    assert_true(fb_reference_make(g, 3, NULL, NULL, NULL, NULL));
    assert_true(fb_reference_path(g, 3, 0, path, sizeof path, NULL));
    fb_reference r;
    assert_true(fb_reference_open(&r, path, g, NULL));
    fb_interp *in = fb_interp_run(g, &(fb_interp_options){.seed = 3}, NULL, 0, NULL);
    assert_non_null(in);
    for (int i = 0; i < n; i++) {
        fb_error_report e;
        fb_dtype dtype = g->nodes[nodes[i]].dtype;
        int size = fb_dtype_size(dtype);
        const fb_tensor t = *fb_interp_get(in, nodes[i]);
        assert_int_equal(fb_reference_elements(&r, nodes[i]), t.n);
        char *bytes = fb_alloc((size_t)(t.n * size));
        if (t.i)
            fb_elements_store_int(dtype, t.n, t.i, bytes);
        else
            fb_elements_store(dtype, t.n, t.v, bytes);
        assert_true(fb_reference_judge(&r, nodes[i], &g->nodes[nodes[i]], bytes, &e, NULL));
        if (!e.ok) fail_msg("%s", e.worst);
        assert_true(e.bound <= 1);
        if (t.i) assert_true(e.bound == 0 && e.max_abs == 0);
        bytes[size - 1] ^= dtype == FB_BOOL ? 2 : 0x20; /* bool: a byte that is neither 0 nor 1 */
        assert_true(fb_reference_judge(&r, nodes[i], &g->nodes[nodes[i]], bytes, &e, NULL));
        if (e.ok) fail_msg("%s of %s", g->nodes[nodes[i]].name, fb_dtype_name(dtype));
        assert_non_null(strstr(e.worst, g->nodes[nodes[i]].name));
        memset(bytes, 0xff, (size_t)(t.n * size));
        assert_true(fb_reference_judge(&r, nodes[i], &g->nodes[nodes[i]], bytes, &e, NULL));
        assert_false(e.ok);
        assert_true(isinf(e.bound));
        fb_free(bytes);
    }
    fb_interp_free(in);
    fb_error_report e;
    assert_false(fb_reference_judge(&r, g->n_nodes, &g->nodes[0], "", &e, NULL));
    fb_reference_close(&r);
    assert_false(fb_reference_open(&r, "/nonexistent", g, NULL));
    fb_arena_free(arena);
    fb_graph_free(g);
}

/* sign(x - x') of values that rounding cannot tell apart: counted, not judged. */
static void undecided_elements_are_counted(void **state)
{
    (void)state;
    fresh_cache("undecided");
    fb_graph *g = fb_graph_new("undecided");
    fb_id x = input(g, "x", DIMS(50));
    fb_id back = node2(g, FB_OP_DIV, "back", node2(g, FB_OP_MUL, "cube", x, node2(g, FB_OP_MUL, "square", x, x)),
                       node2(g, FB_OP_MUL, "again", x, x));
    output(g, node2(g, FB_OP_LT, "less", x, back));
    g = finish(g);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = preset(p, "max");
    fb_device *d = host();
    fb_measurement *m = prepared(d, plan, &(fb_measure_options){.n_seeds = 1});
    fb_report *r = fb_measure_report(m);
    assert_true(r->error.ok);
    assert_int_equal(r->error.undecided, 50);
    fb_report_free(r);
    fb_measure_free(m);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
    d->ops->close(d);
}

/* A byte anywhere: in values, spreads, the index or the header. */
static void a_damaged_reference_is_made_again(void **state)
{
    (void)state;
    fresh_cache("damaged");
    char path[2200];
    struct stat whole;
    fb_graph *g = two_layers();
    fb_reference r;
    assert_true(fb_reference_path(g, 5, 0, path, sizeof path, NULL));
    assert_true(fb_reference_make(g, 5, NULL, NULL, NULL, NULL));
    assert_int_equal(stat(path, &whole), 0);
    for (int k = 0; k < 12; k++) {
        FILE *f = fopen(path, "r+b");
        long at = (long)((double)(whole.st_size - 1) * k / 11);
        assert_non_null(f);
        assert_int_equal(fseek(f, at, SEEK_SET), 0);
        int byte = fgetc(f);
        assert_int_equal(fseek(f, at, SEEK_SET), 0);
        fputc(byte ^ 0x10, f);
        assert_int_equal(fclose(f), 0);
        if (fb_reference_open(&r, path, g, NULL)) fail_msg("byte %ld of %ld", at, (long)whole.st_size);
        assert_true(fb_reference_make(g, 5, NULL, NULL, NULL, NULL));
        assert_true(fb_reference_open(&r, path, g, NULL));
        fb_reference_close(&r);
    }
    fb_graph_free(g);
}

/* Layers of 16-bit values, normalised again and again: the worst case decides nothing, samples of roundings do. */
static void deep_graphs_are_judged_by_samples(void **state)
{
    (void)state;
    fresh_cache("deep");
    enum { ROWS = 8, COLUMNS = 32, LAYERS = 4 };
    fb_graph *g = fb_graph_new("deep");
    fb_id x = source(g, FB_OP_INPUT, "x", DIMS(ROWS, COLUMNS), FB_BF16);
    static const char *const names[LAYERS] = {"w0", "w1", "w2", "w3"};
    for (int i = 0; i < LAYERS; i++) {
        fb_id w = source(g, FB_OP_PARAM, names[i], DIMS(COLUMNS, COLUMNS), FB_BF16);
        x = layer_norm(g, node2(g, FB_OP_MATMUL, NULL, x, w));
    }
    output(g, x);
    g = finish(g);
    fb_reference r;
    fb_error err = {0};
    fb_error_report e;
    char path[2200];
    assert_true(fb_reference_make(g, 1, NULL, NULL, NULL, &err));
    assert_true(fb_reference_path(g, 1, 0, path, sizeof path, &err));
    assert_true(fb_reference_open(&r, path, g, &err));
    fb_interp *in = fb_interp_run(g, &(fb_interp_options){.seed = 1}, NULL, 0, NULL);
    const fb_tensor t = *fb_interp_get(in, g->outputs[0]);
    uint16_t *got = fb_alloc((size_t)t.n * sizeof *got);
    fb_elements_store(FB_BF16, t.n, t.v, got);
    assert_true(fb_reference_judge(&r, g->outputs[0], &g->nodes[g->outputs[0]], got, &e, NULL));
    assert_true(e.ok);
    assert_int_equal(e.undecided, 0);
    got[5] ^= 0x8000; /* its sign */
    assert_true(fb_reference_judge(&r, g->outputs[0], &g->nodes[g->outputs[0]], got, &e, NULL));
    assert_false(e.ok);
    fb_free(got);
    fb_interp_free(in);
    fb_reference_close(&r);
    fb_graph_free(g);
}

static int set_up(void **state)
{
    unsetenv("CC");
    return make_scratch(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_preset_is_right_and_timed),
        cmocka_unit_test(equal_kernels_are_one_row),
        cmocka_unit_test(a_wrong_element_is_found),
        cmocka_unit_test(what_is_not_written_is_found),
        cmocka_unit_test(a_result_wrong_for_another_seed_is_found),
        cmocka_unit_test(what_another_run_was_fed_is_found),
        cmocka_unit_test(waiting_for_a_reference_can_be_cancelled),
        cmocka_unit_test(a_reference_is_made_once_and_again_when_it_is_broken),
        cmocka_unit_test(each_dtype_is_compared_in_its_own_way),
        cmocka_unit_test(undecided_elements_are_counted),
        cmocka_unit_test(a_reference_has_a_second_place),
        cmocka_unit_test(what_is_no_reference_of_ours_is_made_again),
        cmocka_unit_test(a_damaged_reference_is_made_again),
        cmocka_unit_test(deep_graphs_are_judged_by_samples),
    };
    return cmocka_run_group_tests(tests, set_up, remove_scratch);
}
