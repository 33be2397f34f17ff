/* The plan as a value: edits, numbering, identity, figures, undo; and the machine that it is priced on. */
#include "plan_help.h"

#include <math.h>

static fb_plan *edited(fb_plan *plan, fb_edit e)
{
    fb_plan *next = NULL;
    fb_verdict v = fb_plan_try(plan, &e, &next);
    if (!next) fail_msg("%s", v.text);
    fb_plan_free(plan);
    check_plan(next);
    return next;
}

static void fusing_saves_what_it_says(void **state)
{
    (void)state;
    fb_graph *g = split_stack(2, 1024, 256);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = preset(p, "eager"), *to = NULL;
    fb_edit e = {.kind = FB_EDIT_FUSE, .a = named(g, "feature[1].tanh"), .b = named(g, "stack")};
    fb_verdict v = fb_plan_try(plan, &e, &to);
    assert_int_equal(v.kind, FB_VERDICT_FINE);
    assert_int_equal(v.launches_saved, 1);
    assert_int_equal(v.bytes_saved, 2 * 4 * 1024 * 256); /* written once, read once */
    assert_non_null(strstr(v.text, "fuse `feature[1].tanh` into `stack`: saves 1 launch and 2.1 MB"));
    fb_plan_cost before, after;
    fb_plan_cost_of(plan, &before);
    fb_plan_cost_of(to, &after);
    assert_int_equal(before.bytes_read + before.bytes_written - after.bytes_read - after.bytes_written, v.bytes_saved);
    assert_true(fabs((before.us - after.us) - (v.before_us - v.after_us)) < 1e-6);
    /* The plan that was tried is what it was. */
    assert_int_equal(fb_plan_groups(plan), fb_plan_groups(to) + 1);
    fb_plan_free(plan);
    fb_plan_free(to);
    fb_planner_free(p);
    fb_graph_free(g);
}

static void a_library_call_adds(fb_launch_mode mode, int64_t size, double least, double most)
{
    fb_graph *g = fb_graph_new("product");
    fb_id x = input(g, "x", DIMS(size, size)), w = input(g, "w", DIMS(size, size));
    output(g, node1(g, FB_OP_EXP, "last", node2(g, FB_OP_MATMUL, "product", x, w)));
    g = finish(g);
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    double us[2], launch_us[2];
    for (int measured = 0; measured < 2; measured++) {
        m.call_us = measured ? 7 : NAN;
        fb_planner *p = fb_planner_new(g, &m);
        fb_plan *plan = preset(p, "none");
        plan = edited(plan, (fb_edit){.kind = FB_EDIT_LIBRARY, .a = named(g, "product"), .b = FB_NONE});
        if (mode != FB_LAUNCH_STREAM)
            plan = edited(plan, (fb_edit){.kind = FB_EDIT_LAUNCH, .a = FB_NONE, .b = FB_NONE, .launch = mode});
        fb_plan_cost c;
        fb_plan_cost_of(plan, &c);
        us[measured] = c.us;
        launch_us[measured] = c.launch_us;
        fb_plan_free(plan);
        fb_planner_free(p);
    }
    double adds = us[1] - us[0];
    assert_true(adds >= least - 1e-6 && adds <= most + 1e-6);
    assert_true(fabs(launch_us[1] - launch_us[0] - adds) < 1e-6);
    fb_graph_free(g);
}

/* In a stream, a library's call takes the processor longer than a launch; in a graph it is a kernel like any other. While
 * the GPU multiplies for longer than that, nobody waits for the processor. */
static void a_library_call_costs_more_in_a_stream_alone(void **state)
{
    (void)state;
    static const struct {
        fb_launch_mode mode;
        int64_t size;
        double least, most; /* what a call of 7 µs adds */
    } cases[] = {{FB_LAUNCH_STREAM, 64, 3, 6}, {FB_LAUNCH_GRAPH, 64, 0, 0}, {FB_LAUNCH_STREAM, 2048, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        a_library_call_adds(cases[i].mode, cases[i].size, cases[i].least, cases[i].most);
}

/* A chain of `n` steps, all of which fit one kernel. */
static fb_graph *long_chain(int n)
{
    fb_graph *g = fb_graph_new("chain");
    fb_id x = input(g, "x", DIMS(64, 256)), y = input(g, "y", DIMS(64, 256));
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "step%d", i);
        x = node2(g, i % 2 ? FB_OP_ADD : FB_OP_MUL, name, x, y);
    }
    output(g, x);
    return finish(g);
}

/* A long graph is planned by cutting it at each of its edges. What that looks at is kept while it is small: no plan holds it
 * any more, and the planner knows what it takes, the expressions of its nests as well. */
static void a_planner_keeps_few_of_what_no_plan_holds(void **state)
{
    (void)state;
    enum { STEPS = 300, MOST = 24 << 20 };
    fb_graph *g = long_chain(STEPS);
    fb_planner *p = planner_of(g, FB_DEVICE_CUDA);
    fb_plan *plan = preset(p, "max");
    size_t most = 0;
    assert_int_equal(fb_plan_groups(plan), 1);
    for (fb_id i = 0; i + 1 < g->n_nodes; i++) {
        if (!fb_node_is_computed(g, i) || !fb_node_is_computed(g, i + 1)) continue;
        fb_plan_try(plan, &(fb_edit){.kind = FB_EDIT_CUT, .a = i, .b = i + 1}, NULL);
        fb_planner_stock s = fb_planner_stock_of(p);
        assert_int_equal(s.analyses - s.idle, 1);
        if (s.idle_bytes > most) most = s.idle_bytes;
        assert_true(s.idle_bytes < MOST);
    }
    assert_true(most > MOST / 4); /* and they were swept */
    fb_plan_free(plan);
    fb_planner_stock s = fb_planner_stock_of(p);
    assert_int_equal(s.analyses, s.idle);
    fb_planner_free(p);
    fb_graph_free(g);
}

/* Channels that are normalised by groups of four: as one kernel each channel reads all of its group, in two passes. A cut
 * behind the statistics stores what both sides read, which costs more; with that computed again in each it saves, and
 * `auto` takes the two steps. */
static void auto_cuts_and_computes_again(void **state)
{
    (void)state;
    enum { BATCH = 128, CHANNELS = 64, GROUPS = 16, PIXELS = 15876 };
    fb_graph *g = fb_graph_new("group_norm");
    fb_id x = view(g, input(g, "x", DIMS(BATCH, CHANNELS, PIXELS)), DIMS(BATCH, GROUPS, CHANNELS / GROUPS * PIXELS));
    fb_id far = node2(g, FB_OP_SUB, "far", x, over_axis(g, FB_OP_MEAN, "mean", x, 2, true));
    fb_id variance = over_axis(g, FB_OP_MEAN, "variance", node2(g, FB_OP_MUL, NULL, far, far), 2, true);
    fb_id normal = node2(g, FB_OP_MUL, "normal", far, node1(g, FB_OP_RSQRT, "inverse", variance));
    fb_id weight = source(g, FB_OP_PARAM, "weight", DIMS(CHANNELS, 1), FB_F32);
    output(g, node1(g, FB_OP_TANH, "last",
                    node2(g, FB_OP_MUL, NULL, view(g, normal, DIMS(BATCH, CHANNELS, PIXELS)), weight)));
    g = finish(g);
    fb_planner *p = planner_of(g, FB_DEVICE_CUDA);
    fb_plan *together = preset(p, "max"), *best = preset(p, "auto");
    fb_plan_cost max, ours;
    fb_plan_cost_of(together, &max);
    fb_plan_cost_of(best, &ours);
    assert_int_equal(fb_plan_groups(together), 1);
    assert_int_equal(fb_plan_groups(best), 2);
    assert_true(fb_plan_recomputed(best, named(g, "far")));
    assert_true(ours.us < 0.9 * max.us);
    fb_plan_free(together);
    fb_plan_free(best);
    fb_planner_free(p);
    fb_graph_free(g);
}

static void cut_and_isolate_undo_a_fusion(void **state)
{
    (void)state;
    fb_graph *g = split_stack(4, 64, 32);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = preset(p, "max");
    assert_int_equal(fb_plan_groups(plan), 1);
    plan = edited(plan, (fb_edit){.kind = FB_EDIT_CUT, .a = named(g, "feature[2].tanh"), .b = named(g, "stack")});
    assert_int_not_equal(fb_plan_group_of(plan, named(g, "stack")),
                         fb_plan_group_of(plan, named(g, "feature[2].tanh")));
    assert_int_equal(fb_plan_group_of(plan, named(g, "stack")), fb_plan_group_of(plan, named(g, "relu")));
    plan = edited(plan, (fb_edit){.kind = FB_EDIT_FUSE, .a = named(g, "feature[2].tanh"), .b = named(g, "stack")});
    assert_int_equal(fb_plan_groups(plan), 1);
    fb_id alone = named(g, "feature[0].layer_norm.centred");
    plan = edited(plan, (fb_edit){.kind = FB_EDIT_ISOLATE, .a = alone});
    assert_int_equal(fb_plan_group(plan, fb_plan_group_of(plan, alone))->n_nodes, 1);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
}

static void repeated_edits_take_all_members(void **state)
{
    (void)state;
    fb_graph *g = split_stack(5, 64, 32);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = preset(p, "eager"), *fused = NULL, *cut = NULL, *none = NULL;
    fb_edit e = {.kind = FB_EDIT_FUSE, .a = named(g, "feature[3].layer_norm.normal"), .b = named(g, "feature[3].tanh")};
    fb_verdict v = fb_plan_try_repeated(plan, &e, &fused);
    assert_int_equal(v.launches_saved, 5);
    assert_non_null(strstr(v.text, "`feature[*].tanh` (×5): saves 5 launches"));
    check_plan(fused);
    assert_int_equal(fb_plan_groups(fused), fb_plan_groups(plan) - 5);
    e = (fb_edit){.kind = FB_EDIT_FUSE, .a = named(g, "feature[0].tanh"), .b = named(g, "stack")};
    v = fb_plan_try_repeated(fused, &e, &none);
    assert_int_equal(fb_plan_groups(none), fb_plan_groups(fused) - 5);
    fb_plan_free(none);
    e = (fb_edit){.kind = FB_EDIT_CUT, .a = named(g, "feature[1].layer_norm.normal"), .b = named(g, "feature[1].tanh")};
    fb_plan_try_repeated(fused, &e, &cut);
    assert_true(fb_plan_equal(cut, plan));
    fb_arena *arena = fb_arena_new();
    fb_id *ids;
    assert_int_equal(fb_repeated_nodes(g, named(g, "feature[0].tanh"), arena, &ids), 5);
    assert_int_equal(fb_repeated_nodes(g, named(g, "stack"), arena, &ids), 1);
    assert_int_equal(fb_match_nodes(g, "feature[*].layer_norm.var", arena, &ids), 5);
    assert_int_equal(fb_match_nodes(g, "feature[*", arena, &ids), 0);
    assert_int_equal(fb_match_nodes(g, "[*]", arena, &ids), 0);
    fb_arena_free(arena);
    fb_plan_free(plan);
    fb_plan_free(fused);
    fb_plan_free(cut);
    fb_planner_free(p);
    fb_graph_free(g);
}

static void recomputing_drops_the_store(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("fan");
    fb_id x = input(g, "x", DIMS(256, 256)), y = input(g, "y", DIMS(256, 256)), a = node2(g, FB_OP_ADD, "a", x, y);
    output(g, node1(g, FB_OP_TANH, "b", a));
    output(g, node1(g, FB_OP_RELU, "c", a));
    g = finish(g);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = fb_plan_new(p), *first = fb_plan_copy(plan);
    plan = edited(plan, (fb_edit){.kind = FB_EDIT_RECOMPUTE, .a = named(g, "a")});
    assert_int_equal(fb_plan_groups(plan), 2);
    assert_true(fb_plan_recomputed(plan, named(g, "a")));
    assert_int_equal(fb_plan_group(plan, 0)->n_nodes, 2);
    assert_int_equal(fb_plan_group(plan, 1)->n_nodes, 2);
    assert_int_equal(fb_plan_group(plan, 0)->n_stored, 1);
    fb_plan_cost c;
    fb_plan_cost_of(plan, &c);
    assert_int_equal(c.bytes_read, 4 * 4 * 256 * 256);
    plan = edited(plan, (fb_edit){.kind = FB_EDIT_STORE, .a = named(g, "a")});
    assert_true(fb_plan_equal(plan, first));
    fb_plan_free(plan);
    fb_plan_free(first);
    fb_planner_free(p);
    fb_graph_free(g);
}

/* Some members may, one may not: the others are edited, and the verdict says what was in the way. */
static void repeated_edits_skip_what_is_refused(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("members");
    fb_id x = input(g, "x", DIMS(64, 64));
    for (int i = 0; i < 4; i++) {
        open_scope(g, "part", i, NULL, FB_NONE);
        fb_id a = node2(g, FB_OP_MUL, "a", x, input(g, "y", DIMS(64, 64)));
        if (i == 2) output(g, a);
        output(g, node1(g, FB_OP_TANH, "b", a));
        close_scope(g, FB_NONE);
    }
    g = finish(g);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = fb_plan_new(p), *to = NULL;
    fb_verdict v = fb_plan_try_repeated(plan, &(fb_edit){.kind = FB_EDIT_RECOMPUTE, .a = named(g, "part[0].a")}, &to);
    assert_int_equal(v.rule, FB_RULE_RECOMPUTE);
    assert_non_null(strstr(v.text, "`part[2].a`"));
    assert_int_equal(v.launches_saved, 3);
    assert_non_null(to);
    check_plan(to);
    assert_true(fb_plan_recomputed(to, named(g, "part[3].a")) && !fb_plan_recomputed(to, named(g, "part[2].a")));
    fb_plan_free(plan);
    fb_plan_free(to);
    fb_planner_free(p);
    fb_graph_free(g);
}

/* Random edits: every plan stays whole, positions stay an order, and hashes tell plans apart as equality does. */
static void random_edits_keep_plans_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        fb_graph *g = random_graph(seed, 40);
        fb_planner *p = planner_of(g, FB_DEVICE_HOST);
        const fb_deps *d = fb_planner_deps(p);
        fb_plan *plan = fb_plan_new(p);
        uint64_t key = fb_rng_key(seed, "random edits");
        for (int i = 0; i < 60; i++) {
            uint64_t r = fb_rng_bits(key, (uint64_t)i);
            const fb_edge *e = &d->edges[(r >> 16) % (uint64_t)d->n_edges];
            static const fb_edit_kind kind[] = {FB_EDIT_FUSE,  FB_EDIT_FUSE,     FB_EDIT_FUSE,
                                                FB_EDIT_CUT,   FB_EDIT_ISOLATE,  FB_EDIT_RECOMPUTE,
                                                FB_EDIT_STORE, FB_EDIT_GENERATE, FB_EDIT_LIBRARY};
            fb_edit edit = {.kind = kind[r % 9], .a = e->producer, .b = e->consumer};
            fb_plan *next = NULL;
            fb_verdict v = fb_plan_try(plan, &edit, &next);
            assert_true(v.text[0] != '\0');
            assert_int_equal(next != NULL, v.kind <= FB_VERDICT_SLOWER);
            if (!next) continue;
            check_plan(next);
            assert_int_equal(fb_plan_equal(plan, next), fb_hash_equal(fb_plan_hash(plan), fb_plan_hash(next)));
            fb_plan_free(plan);
            plan = next;
        }
        fb_plan_free(plan);
        fb_planner_free(p);
        fb_graph_free(g);
    }
}

static void undo_and_redo(void **state)
{
    (void)state;
    fb_graph *g = split_stack(2, 64, 32);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_history *h = fb_history_new(preset(p, "none"));
    assert_null(fb_history_undo(h));
    fb_history_push(h, preset(p, "eager"), "eager");
    fb_history_push(h, preset(p, "max"), "max");
    assert_string_equal(fb_history_undo(h), "max");
    assert_string_equal(fb_history_undo(h), "eager");
    assert_null(fb_history_undo(h));
    assert_string_equal(fb_history_redo(h), "eager");
    int groups = fb_plan_groups(fb_history_now(h));
    fb_history_push(h, preset(p, "none"), "none");
    assert_null(fb_history_redo(h));
    assert_string_equal(fb_history_undo(h), "none");
    assert_int_equal(fb_plan_groups(fb_history_now(h)), groups);
    fb_history_free(h);
    fb_planner_free(p);
    fb_graph_free(g);
}

static void floor_is_a_property_of_the_graph(void **state)
{
    (void)state;
    fb_graph *g = combined(16, 1024, 256);
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    int64_t in, out, flops;
    double us = fb_judge_floor_us(g, &m, &in, &out, &flops, NULL);
    assert_int_equal(in, 4 * (16 * 1024 * 256 + 256 + 1));
    assert_int_equal(out, 4 * 16 * 1024);
    assert_true(flops > 2 * 16 * 1024 * 256);
    assert_true(us > 3 && us < 12); /* 16.8 MB */
    fb_graph_free(g);
}

/* N × N times N × N. */
static bool floor_of_product_is_guessed(const fb_machine *m, fb_dtype dtype, int64_t n)
{
    bool guessed;
    fb_graph *g = fb_graph_new("product");
    fb_id a = source(g, FB_OP_INPUT, "a", DIMS(n, n), dtype), b = source(g, FB_OP_INPUT, "b", DIMS(n, n), dtype);
    output(g, node2(g, FB_OP_MATMUL, "product", a, b));
    g = finish(g);
    fb_judge_floor_us(g, m, NULL, NULL, NULL, &guessed);
    fb_graph_free(g);
    return guessed;
}

/* On a calibrated GPU nobody measured what double precision adds: a floor that it makes is a guess, one of bytes is
 * none. */
static void a_floor_is_guessed_where_its_rate_is(void **state)
{
    (void)state;
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    assert_true(floor_of_product_is_guessed(&m, FB_F32, 1024));
    m.calibrated = true;
    assert_false(floor_of_product_is_guessed(&m, FB_F32, 1024));
    assert_false(floor_of_product_is_guessed(&m, FB_F64, 8));
    m.gemm[FB_F64].n = 0; /* no library multiplied any */
    assert_true(floor_of_product_is_guessed(&m, FB_F64, 1024));
    assert_false(floor_of_product_is_guessed(&m, FB_BF16, 4096));
    m.products_guessed = true;
    assert_true(floor_of_product_is_guessed(&m, FB_BF16, 4096));
}

static void machines_survive_json(void **state)
{
    (void)state;
    fb_error err = {0};
    for (fb_device_kind kind = FB_DEVICE_HOST; kind <= FB_DEVICE_FOREIGN; kind++) {
        fb_machine m, back;
        fb_machine_default(&m, kind);
        json_t *o = fb_machine_to_json(&m);
        assert_true(fb_machine_from_json(&back, o, &err));
        json_t *again = fb_machine_to_json(&back);
        assert_true(json_equal(o, again));
        json_object_set_new(o, "cache_bytes", json_string("many"));
        assert_false(fb_machine_from_json(&back, o, &err));
        assert_non_null(strstr(err.text, "cache_bytes"));
        json_decref(o);
        json_decref(again);
    }
    fb_rate_curve c = {.n = 2, .size = {10, 1000}, .rate = {1, 3}};
    assert_true(fb_rate_at(&c, 1) == 1 && fb_rate_at(&c, 1e9) == 3);
    assert_true(fabs(fb_rate_at(&c, 100) - 2) < 1e-12);
    c.n = 0;
    assert_true(isnan(fb_rate_at(&c, 5)));
}

static bool is_listed(const json_t *machine, const char *key)
{
    const json_t *guessed = json_object_get(machine, "guessed");
    for (size_t i = 0; i < json_array_size(guessed); i++)
        if (strcmp(json_string_value(json_array_get(guessed, i)), key) == 0) return true;
    return false;
}

/* A figure that nobody measured is listed as a guess, and stays one when the machine is read again. */
static void machines_say_what_is_guessed(void **state)
{
    static const char *const keys[] = {"launch_us", "copy_hot", "copy_in", "gemm.f32", "gflops.f32"};
    (void)state;
    fb_error err = {0};
    for (fb_device_kind kind = FB_DEVICE_HOST; kind <= FB_DEVICE_CUDA; kind++) {
        fb_machine m, back;
        fb_machine_default(&m, kind);
        json_t *guesses = fb_machine_to_json(&m);
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) assert_true(is_listed(guesses, keys[i]));
        assert_false(is_listed(guesses, "units"));
        assert_false(is_listed(guesses, "memory_bytes"));
        m.calibrated = true;
        json_t *o = fb_machine_to_json(&m);
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) assert_false(is_listed(o, keys[i]));
        /* what a calibration leaves out is no measurement of it */
        assert_int_equal(is_listed(o, "barrier_us"), kind == FB_DEVICE_CUDA);
        assert_int_equal(is_listed(o, "gflops.f64"), kind == FB_DEVICE_CUDA);
        json_object_del(o, "copy_in"); /* of a calibration from before that was measured */
        for (int again = 0; again < 2; again++) {
            assert_true(fb_machine_from_json(&back, o, &err));
            json_decref(o);
            o = fb_machine_to_json(&back);
            assert_true(is_listed(o, "copy_in") && is_listed(o, "copy_out"));
            assert_false(is_listed(o, "copy_hot"));
        }
        m.products_guessed = true;
        json_decref(o);
        o = fb_machine_to_json(&m);
        assert_true(fb_machine_from_json(&back, o, &err));
        assert_true(fb_machine_guessed(&back, "gemm.f32") && !fb_machine_guessed(&back, "launch_us"));
        json_decref(o);
        json_decref(guesses);
    }
}

/* By the language's name, by the kind that a list of devices has, and complete. */
static void targets_are_found(void **state)
{
    (void)state;
    static const char *const names[] = {"c", "cuda"}, *const devices[] = {"host", "cuda"};
    for (int i = 0; i < 2; i++) {
        const fb_target *t = fb_target_find(names[i]);
        assert_ptr_equal(t, fb_target_of_device(devices[i]));
        assert_ptr_equal(t, fb_target_of(t->kind));
        assert_true(t->generates && t->title[0] && t->called[0] && t->units[0] && t->near[0] && t->near[1]);
        assert_true(t->warp >= 1 && (!t->grid || (t->most_threads && t->vector_bytes)));
        for (int d = 0; d < FB_DTYPES; d++) assert_non_null(t->spelling.type[d].value);
    }
    assert_null(fb_target_find("ptx"));
    assert_false(fb_target_of_device("torch")->generates);
    assert_true(fb_target_of_device("replay")->grid);
    assert_true(fb_target_everywhere()->stands_in);
}

/* On a GPU small kernels and rows wait for latency, large ones for bytes alone. */
static void latency_counts_on_a_gpu(void **state)
{
    (void)state;
    static const struct {
        int64_t rows, columns;
        double least, most; /* of predicted over memory time */
    } cases[] = {{16, 16, 5, 1e9}, {16384, 256, 1.1, 5}, {16384, 16384, 1, 1.1}};
    for (int i = 0; i < 3; i++) {
        fb_graph *g = fb_graph_new("rows");
        output(g, over_axis(g, FB_OP_MEAN, "mean", input(g, "x", DIMS(cases[i].rows, cases[i].columns)), 1, false));
        g = finish(g);
        for (int cuda = 0; cuda < 2; cuda++) {
            fb_planner *p = planner_of(g, cuda ? FB_DEVICE_CUDA : FB_DEVICE_HOST);
            fb_plan *plan = fb_plan_new(p);
            fb_group_cost c;
            fb_plan_group_cost(plan, 0, &c);
            double most = fmax(c.memory_us, c.compute_us), ratio = c.us / most;
            if (cuda)
                assert_true(ratio >= cases[i].least && ratio <= cases[i].most);
            else
                assert_true(ratio <= 1.06);
            fb_plan_free(plan);
            fb_planner_free(p);
        }
        fb_graph_free(g);
    }
}

/* Predicted time of this group; frees all that it was asked of. */
static double us_of(fb_graph *g, fb_planner *p, fb_plan *plan, int group)
{
    fb_group_cost c;
    fb_plan_group_cost(plan, group, &c);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
    return c.us;
}

/* Columns from `from` on: whole vectors where these start at a multiple of their size. */
static double sliced_us(int64_t from)
{
    fb_graph *g = fb_graph_new("sliced");
    fb_id x = input(g, "x", DIMS(4096, 2048));
    fb_attrs part = {.dim = 1, .start = from, .stop = from + 1024, .step = 1};
    output(g, node1(g, FB_OP_TANH, "tanh", add_node(g, FB_OP_SLICE, "part", &part, 1, &x)));
    g = finish(g);
    fb_planner *p = planner_of(g, FB_DEVICE_CUDA);
    return us_of(g, p, fb_plan_new(p), 0);
}

/* One load of four neighbours, or four loads: the model counts what the printer writes. */
static void vectors_are_predicted(void **state)
{
    (void)state;
    assert_true(sliced_us(1) > sliced_us(0));
    assert_true(sliced_us(4) == sliced_us(0));
}

/* One kernel, of which one result lies as it is computed and the other across: a sector is touched for each element. */
static void a_sector_written_in_part_is_predicted(void **state)
{
    (void)state;
    fb_group_cost c[2];
    for (int across = 0; across < 2; across++) {
        fb_graph *g = fb_graph_new("two");
        fb_id y = node1(g, FB_OP_TANH, "tanh", input(g, "x", DIMS(1024, 512)));
        output(g, y);
        output(g, node1(g, FB_OP_RELU, "relu", across ? transpose(g, y) : y));
        g = finish(g);
        fb_planner *p = planner_of(g, FB_DEVICE_CUDA);
        fb_plan *plan = preset(p, "max");
        assert_int_equal(fb_plan_groups(plan), 1);
        fb_plan_group_cost(plan, 0, &c[across]);
        fb_plan_free(plan);
        fb_planner_free(p);
        fb_graph_free(g);
    }
    assert_true(c[0].apart_bytes == 0 && c[0].apart_written == 0);
    assert_true(c[1].apart_written == 1024.0 * 512 * 28); /* 4 bytes of 32 */
    assert_true(c[1].bytes_written == c[0].bytes_written && c[1].us > c[0].us + 0.9 * c[1].apart_us);
}

/* … on the host of the kernel that `node` alone is. */
static double host_us(fb_graph *g, const char *node)
{
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = fb_plan_new(p);
    return us_of(g, p, plan, fb_plan_group_of(plan, named(g, node)));
}

static fb_graph *relu_of(fb_op op, bool turned, int64_t beside)
{
    fb_graph *g = fb_graph_new("relu");
    fb_id x = input(g, "x", DIMS(512, 512)), other = input(g, "other", DIMS(beside));
    if (turned) x = add_node(g, FB_OP_PERMUTE, "turned", &(fb_attrs){.n_axes = 2, .axes = {1, 0}}, 1, &x);
    output(g, node1(g, op, "it", x));
    output(g, node1(g, FB_OP_NEG, "neg", other));
    return finish(g);
}

static fb_graph *product_of(int64_t rows, int64_t columns, int64_t k)
{
    fb_graph *g = fb_graph_new("product");
    output(g, node2(g, FB_OP_MATMUL, "it", input(g, "a", DIMS(rows, k)), input(g, "b", DIMS(k, columns))));
    return finish(g);
}

static void a_host_is_slow_where_vectors_end(void **state)
{
    (void)state;
    double plain = host_us(relu_of(FB_OP_RELU, false, 8), "it");
    assert_true(host_us(relu_of(FB_OP_RELU, true, 8), "it") > 1.5 * plain);        /* elements pages apart, turned */
    assert_true(host_us(relu_of(FB_OP_SIN, false, 8), "it") > 5 * plain);          /* both reductions, in vectors */
    assert_true(host_us(relu_of(FB_OP_LGAMMA, false, 8), "it") > 5 * plain);       /* a call each */
    assert_true(host_us(relu_of(FB_OP_EXP, false, 8), "it") < 10 * plain);         /* in vectors */
    assert_true(host_us(relu_of(FB_OP_RELU, false, 1 << 24), "it") > 1.2 * plain); /* out of caches meanwhile */
    /* as many FLOPs, but more to pack or to leave */
    double cube = host_us(product_of(128, 128, 128), "it");
    assert_true(host_us(product_of(8, 512, 512), "it") > 1.1 * cube);
    assert_true(host_us(product_of(512, 512, 8), "it") > 1.1 * cube);
}

/* Predicted time on a GPU of all that preset max makes of a graph of one kernel. */
static double gpu_us(fb_graph *g)
{
    fb_planner *p = planner_of(g, FB_DEVICE_CUDA);
    fb_plan *plan = preset(p, "max");
    assert_int_equal(fb_plan_groups(plan), 1);
    return us_of(g, p, plan, 0);
}

/* Sums over the first axis of so many inputs, each added to or divided by the next. */
static fb_graph *column_sums(fb_op op, int inputs, int64_t rows)
{
    fb_graph *g = fb_graph_new("sums");
    fb_id x = input(g, "x0", DIMS(rows, 64));
    for (int i = 1; i < inputs; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        x = node2(g, op, NULL, x, input(g, name, DIMS(rows, 64)));
    }
    output(g, over_axis(g, FB_OP_SUM, "sum", x, 0, false));
    return finish(g);
}

static fb_graph *added_rows(int64_t indices, int inputs)
{
    fb_graph *g = fb_graph_new("added");
    fb_id index = source(g, FB_OP_INPUT, "index", DIMS(indices), FB_I64), x = input(g, "x0", DIMS(indices, 16));
    if (inputs > 1) x = node2(g, FB_OP_ADD, NULL, x, input(g, "x1", DIMS(indices, 16)));
    output(g, add_node(g, FB_OP_SCATTER_ADD, "added", &(fb_attrs){.start = 1000}, 2, (fb_id[]){x, index}));
    return finish(g);
}

static fb_graph *rows_at(bool gathered)
{
    fb_graph *g = fb_graph_new("rows");
    fb_id x = input(g, "x", DIMS(64, 16));
    if (gathered) x = node2(g, FB_OP_EMBEDDING, NULL, x, source(g, FB_OP_INPUT, "at", DIMS(64), FB_I64));
    output(g, node1(g, FB_OP_RELU, "relu", x));
    return finish(g);
}

/* A thread waits for what it loads, a few loads at a time, and for what it computes; where there are few threads,
 * nothing hides that. */
static void threads_wait_one_after_the_other(void **state)
{
    (void)state;
    double one = gpu_us(column_sums(FB_OP_ADD, 1, 128));
    assert_true(gpu_us(column_sums(FB_OP_ADD, 12, 128)) > 1.5 * one);
    assert_true(gpu_us(column_sums(FB_OP_DIV, 2, 128)) > 1.3 * one);
    assert_true(gpu_us(column_sums(FB_OP_ADD, 6, 512)) < 6 * gpu_us(column_sums(FB_OP_ADD, 6, 128))); /* more threads */
    double once = gpu_us(rows_at(false)), twice = gpu_us(rows_at(true));
    assert_true(once > 0.6 && twice > once + 0.1); /* µs: for a row, for where it is before */
    double few = gpu_us(added_rows(128, 1)), many = gpu_us(added_rows(1024, 1));
    assert_true(many > 1.05 * few && many < 9 * few); /* the index is looked at in chunks, by a block together */
    assert_true(gpu_us(added_rows(1024, 2)) > 1.05 * many);
    assert_true(gpu_us(added_rows(16384, 1)) > 4 * many);
}

/* Rows of a product that a warp reduces one after the other: each exchange of lanes and each division counts. */
static void rows_on_chip_take_time(void **state)
{
    (void)state;
    double us[3];
    for (int i = 0; i < 3; i++) {
        fb_graph *g = fb_graph_new("rows");
        fb_id a = input(g, "a", DIMS(128, 32)), b = input(g, "b", DIMS(32, 128));
        fb_id c = node2(g, FB_OP_MATMUL, "product", a, b);
        if (i > 0) c = node2(g, FB_OP_SUB, "sub", c, over_axis(g, FB_OP_AMAX, "amax", c, 1, true));
        if (i > 1) c = node2(g, FB_OP_DIV, "div", c, over_axis(g, FB_OP_SUM, "sum", c, 1, true));
        output(g, c);
        us[i] = gpu_us(finish(g));
    }
    assert_true(us[1] > 1.05 * us[0]);
    assert_true(us[2] > 1.2 * us[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_are_found),
        cmocka_unit_test(latency_counts_on_a_gpu),
        cmocka_unit_test(vectors_are_predicted),
        cmocka_unit_test(a_sector_written_in_part_is_predicted),
        cmocka_unit_test(threads_wait_one_after_the_other),
        cmocka_unit_test(rows_on_chip_take_time),
        cmocka_unit_test(a_host_is_slow_where_vectors_end),
        cmocka_unit_test(fusing_saves_what_it_says),
        cmocka_unit_test(cut_and_isolate_undo_a_fusion),
        cmocka_unit_test(a_library_call_costs_more_in_a_stream_alone),
        cmocka_unit_test(a_planner_keeps_few_of_what_no_plan_holds),
        cmocka_unit_test(auto_cuts_and_computes_again),
        cmocka_unit_test(repeated_edits_take_all_members),
        cmocka_unit_test(repeated_edits_skip_what_is_refused),
        cmocka_unit_test(recomputing_drops_the_store),
        cmocka_unit_test(random_edits_keep_plans_whole),
        cmocka_unit_test(undo_and_redo),
        cmocka_unit_test(floor_is_a_property_of_the_graph),
        cmocka_unit_test(a_floor_is_guessed_where_its_rate_is),
        cmocka_unit_test(machines_survive_json),
        cmocka_unit_test(machines_say_what_is_guessed),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
