/* Plan files: there and back, for other graphs, and for what is no plan at all. */
#include "plan_help.h"

#include "base/json.h"

static fb_plan *again(const fb_plan *plan, fb_planner *p, bool strict, fb_str *dropped)
{
    fb_error err = {0};
    json_t *o = fb_plan_to_json(plan);
    char *text = fb_json_line(o);
    json_t *parsed = fb_json_parse(text, strlen(text), &err);
    fb_plan *back = fb_plan_from_json(p, parsed, strict, dropped, &err);
    if (!back) fail_msg("%s\n%s", err.text, text);
    json_decref(o);
    json_decref(parsed);
    fb_free(text);
    return back;
}

static void every_plan_comes_back(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++) {
        fb_graph *g = seed == 0 ? split_stack(16, 64, 32) : random_graph(seed, 40);
        fb_planner *p = planner_of(g, FB_DEVICE_HOST);
        for (int i = 0; i < fb_presets(); i++) {
            fb_plan *plan = preset(p, fb_preset_at(i)->name), *back = again(plan, p, true, NULL);
            check_plan(back);
            assert_true(fb_plan_equal(plan, back));
            assert_true(fb_hash_equal(fb_plan_hash(plan), fb_plan_hash(back)));
            fb_plan_free(plan);
            fb_plan_free(back);
        }
        fb_planner_free(p);
        fb_graph_free(g);
    }
}

static fb_plan *edited(fb_plan *plan, fb_edit e)
{
    fb_plan *next = NULL;
    fb_verdict v = fb_plan_try(plan, &e, &next);
    if (!next) fail_msg("%s", v.text);
    fb_plan_free(plan);
    return next;
}

static fb_graph *fan(void)
{
    fb_graph *g = fb_graph_new("fan");
    fb_id x = input(g, "x", DIMS(256, 256)), w = source(g, FB_OP_PARAM, "w", DIMS(256, 256), FB_F32);
    fb_id a = node1(g, FB_OP_NEG, "a", x);
    output(g, node2(g, FB_OP_ADD, "b", node2(g, FB_OP_MATMUL, "product", x, w), a));
    output(g, node1(g, FB_OP_RELU, "c", a));
    return finish(g);
}

static void recompute_family_knobs_come_back(void **state)
{
    (void)state;
    fb_graph *g = fan();
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = fb_plan_new(p);
    plan = edited(plan, (fb_edit){.kind = FB_EDIT_LIBRARY, .a = named(g, "product")});
    plan = edited(plan, (fb_edit){.kind = FB_EDIT_FUSE, .a = named(g, "product"), .b = named(g, "b")});
    plan = edited(plan, (fb_edit){.kind = FB_EDIT_RECOMPUTE, .a = named(g, "a")});
    plan = edited(plan, (fb_edit){.kind = FB_EDIT_KNOB, .a = named(g, "c"), .knob = FB_KNOB_ROWS, .value = 32});
    fb_plan *back = again(plan, p, true, NULL);
    assert_true(fb_plan_equal(plan, back));
    assert_true(fb_plan_recomputed(back, named(g, "a")));
    fb_str lua = {0};
    fb_plan_to_lua(plan, NULL, &lua);
    assert_non_null(strstr(fb_str_get(&lua), "pl:recompute(\"a\")\n"));
    assert_non_null(strstr(fb_str_get(&lua), "pl:library(\"product\")\npl:fuse_all { \"product\", \"b\" }\n"));
    assert_non_null(strstr(fb_str_get(&lua), "pl:knob(\"c\", \"rows\", 32)\n"));
    fb_str_free(&lua);
    fb_plan_free(plan);
    fb_plan_free(back);
    fb_planner_free(p);
    fb_graph_free(g);
}

/* A file that is a kernel goes along by its path; what it holds is the planner's to know. */
static void kernels_in_files_come_back(void **state)
{
    (void)state;
    fb_graph *g = split_stack(16, 64, 32);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = preset(p, "eager"), *to = NULL;
    fb_hash generated = fb_plan_hash(plan);
    fb_edit e = {.kind = FB_EDIT_SOURCE, .a = named(g, "feature[3].tanh"), .b = FB_NONE, .source = "/home/\"a\"/own.c"};
    fb_plan_try_repeated(plan, &e, &to);
    assert_non_null(to);
    fb_plan *back = again(to, p, true, NULL);
    assert_true(fb_plan_equal(to, back));
    assert_false(fb_plan_equal(to, plan));
    assert_true(fb_hash_equal(fb_plan_hash(to), fb_plan_hash(back)));
    assert_false(fb_hash_equal(fb_plan_hash(to), generated));
    const fb_group *group = fb_plan_group(back, fb_plan_group_of(back, named(g, "feature[15].tanh")));
    assert_string_equal(group->source->path, e.source);
    json_t *o = fb_plan_to_json(to);
    assert_int_equal(json_array_size(json_object_get(o, "groups")), 3); /* all members are one entry */
    json_decref(o);
    fb_str lua = {0};
    fb_plan_to_lua(to, "/home/\"a\"", &lua);
    assert_non_null(strstr(fb_str_get(&lua), "  pl:kernel((\"feature[%d].tanh\"):format(i), \"own.c\")\n"));
    fb_str_clear(&lua);
    fb_plan_to_lua(to, NULL, &lua);
    assert_non_null(strstr(fb_str_get(&lua), "\"/home/\\\"a\\\"/own.c\")\n"));
    fb_str_free(&lua);
    fb_plan_free(back);
    e.source = NULL;
    fb_plan_try_repeated(to, &e, &back);
    assert_true(fb_plan_equal(back, plan));
    fb_plan_free(plan);
    fb_plan_free(to);
    fb_plan_free(back);
    fb_planner_free(p);
    fb_graph_free(g);
}

static void overlap_comes_back_where_something_is_copied(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("fed"), *none = fan();
    fb_id x = source(g, FB_OP_FEED, "x", DIMS(64, 64), FB_F32);
    node1(g, FB_OP_RECEIVE, "r", node1(g, FB_OP_NEG, "y", x));
    g = finish(g);
    fb_planner *p = planner_of(g, FB_DEVICE_CUDA), *q = planner_of(none, FB_DEVICE_CUDA);
    const fb_edit edit = {.kind = FB_EDIT_OVERLAP, .value = 1};
    fb_plan *plan = fb_plan_new(p), *beside = NULL, *nowhere = fb_plan_new(q);
    fb_verdict v = fb_plan_try(plan, &edit, &beside);
    assert_true(beside && v.kind == FB_VERDICT_FINE && v.after_us < v.before_us);
    assert_false(fb_plan_equal(plan, beside));
    assert_false(fb_hash_equal(fb_plan_hash(plan), fb_plan_hash(beside)));
    fb_plan *back = again(beside, p, true, NULL);
    assert_true(fb_plan_overlap(back) && fb_plan_equal(back, beside));
    fb_str lua = {0}, dropped = {0};
    fb_plan_to_lua(back, NULL, &lua);
    assert_string_equal(fb_str_get(&lua), "pl:overlap(true)\n");
    v = fb_plan_try(nowhere, &edit, NULL);
    assert_int_equal(v.kind, FB_VERDICT_ILLEGAL);
    fb_plan *without = again(beside, q, false, &dropped);
    assert_false(fb_plan_overlap(without));
    assert_non_null(strstr(fb_str_get(&dropped), "feeds nothing"));
    fb_plan *const plans[] = {plan, beside, nowhere, back, without};
    for (int i = 0; i < 5; i++) fb_plan_free(plans[i]);
    fb_str_free(&lua);
    fb_str_free(&dropped);
    fb_planner_free(p);
    fb_planner_free(q);
    fb_graph_free(g);
    fb_graph_free(none);
}

/* Sixteen equal groups are one entry, and fit a graph of another size. */
static void repetitions_are_written_once(void **state)
{
    (void)state;
    fb_graph *g = split_stack(16, 64, 32), *other = split_stack(7, 128, 16);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST), *q = planner_of(other, FB_DEVICE_HOST);
    fb_plan *eager = preset(p, "eager"), *expect = preset(q, "eager");
    json_t *o = fb_plan_to_json(eager), *groups = json_object_get(o, "groups");
    assert_int_equal(json_array_size(groups), 2);
    assert_true(json_is_true(json_object_get(json_array_get(groups, 0), "each")));
    json_decref(o);
    fb_plan *back = again(eager, q, true, NULL);
    assert_true(fb_plan_equal(back, expect));
    fb_str lua = {0};
    fb_plan_to_lua(expect, NULL, &lua);
    const char *start =
        "for _, i in ipairs { 0, 1, 2, 3, 4, 5, 6 } do\n  pl:fuse_all { (\"feature[%d].layer_norm.mean\"):format(i), ";
    assert_int_equal(strncmp(fb_str_get(&lua), start, strlen(start)), 0);
    fb_str_free(&lua);
    fb_plan_free(eager);
    fb_plan_free(expect);
    fb_plan_free(back);
    fb_planner_free(p);
    fb_planner_free(q);
    fb_graph_free(g);
    fb_graph_free(other);
}

static void a_plan_for_another_graph(void **state)
{
    (void)state;
    fb_graph *g = split_stack(4, 64, 32), *other = combined(4, 64, 32);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST), *q = planner_of(other, FB_DEVICE_HOST);
    fb_plan *plan = preset(p, "eager");
    fb_error err = {0};
    json_t *o = fb_plan_to_json(plan);
    assert_null(fb_plan_from_json(q, o, true, NULL, &err));
    assert_non_null(
        strstr(err.text, "no node `feature[*].layer_norm.mean` in this graph, and the plan was made for another one"));
    fb_str dropped = {0};
    fb_plan *kept = fb_plan_from_json(q, o, false, &dropped, &err);
    assert_non_null(kept);
    check_plan(kept);
    assert_non_null(strstr(fb_str_get(&dropped), "feature[*].layer_norm.mean"));
    /* linear is there in both. */
    assert_int_equal(fb_plan_group_of(kept, named(other, "linear.matmul")),
                     fb_plan_group_of(kept, named(other, "linear.add")));
    fb_str_free(&dropped);
    json_decref(o);
    fb_plan_free(kept);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_planner_free(q);
    fb_graph_free(g);
    fb_graph_free(other);
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } file[] = {
        {"[]", "not a JSON object"},
        {"{}", "fusebox_plan"},
        {"{\"fusebox_plan\":2,\"groups\":[]}", "a plan of format 2, but this fusebox reads format 1"},
        {"{\"fusebox_plan\":1}", "groups"},
        {"{\"fusebox_plan\":1,\"groups\":[3]}", "group is not an object"},
        {"{\"fusebox_plan\":1,\"groups\":[{}]}", "nodes"},
        {"{\"fusebox_plan\":1,\"groups\":[{\"nodes\":[7]}]}", "item 1 is not a name"},
        {"{\"fusebox_plan\":1,\"groups\":[{\"nodes\":[\"nowhere\"]}]}", "no node `nowhere`"},
        {"{\"fusebox_plan\":1,\"groups\":[{\"nodes\":[\"x\"]}]}", "source"},
        {"{\"fusebox_plan\":1,\"groups\":[{\"nodes\":[\"a\",\"c\"]},{\"nodes\":[\"a\",\"b\"]}]}", "two groups"},
        {"{\"fusebox_plan\":1,\"groups\":[{\"nodes\":[\"a\"],\"family\":\"magic\"}]}", "no family `magic`"},
        {"{\"fusebox_plan\":1,\"groups\":[{\"nodes\":[\"a\"],\"family\":\"reduce\"}]}", "made by family pointwise"},
        {"{\"fusebox_plan\":1,\"groups\":[{\"nodes\":[\"a\"],\"knobs\":{\"rows\":\"x\"}}]}", "not an integer"},
        {"{\"fusebox_plan\":1,\"groups\":[{\"nodes\":[\"a\"],\"knobs\":{\"magic\":1}}]}", "no knob `magic`"},
        {"{\"fusebox_plan\":1,\"groups\":[],\"recompute\":[\"product\"]}", "product"},
        {"{\"fusebox_plan\":1,\"groups\":[],\"launch\":\"now\"}", "no launch mode `now`"},
        {"{\"fusebox_plan\":1,\"groups\":[],\"launch\":\"graph\"}", "launches no graphs"},
    };
    fb_graph *g = fan();
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        fb_error err = {0};
        json_t *o = fb_json_parse(file[i].text, strlen(file[i].text), &err);
        assert_non_null(o);
        fb_plan *plan = fb_plan_from_json(p, o, true, NULL, &err);
        if (plan || !strstr(err.text, file[i].says)) fail_msg("%s: %s", file[i].text, err.text);
        json_decref(o);
    }
    fb_planner_free(p);
    fb_graph_free(g);
}

/* A valid file with bytes changed, dropped and doubled: a plan or an error, never a crash. */
static void fuzzed_files_never_crash(void **state)
{
    (void)state;
    fb_graph *g = split_stack(3, 8, 8);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    fb_plan *plan = edited(preset(p, "eager"), (fb_edit){.kind = FB_EDIT_RECOMPUTE, .a = named(g, "feature[1].tanh")});
    json_t *o = fb_plan_to_json(plan);
    char *text = fb_json_line(o);
    size_t length = strlen(text);
    uint64_t key = fb_rng_key(1, "fuzz");
    int read = 0;
    for (uint64_t i = 0; i < 4000; i++) {
        char *bad = fb_strdup(text);
        for (uint64_t k = 0; k <= i % 4; k++) {
            uint64_t r = fb_rng_bits(key, 8 * i + k);
            size_t at = (size_t)(r >> 20) % length;
            if (r % 3 == 0)
                bad[at] = (char)(32 + (r >> 8) % 95);
            else if (r % 3 == 1)
                bad[at] = bad[(size_t)(r >> 40) % length];
            else
                bad[at] = ' ';
        }
        fb_error err = {0};
        json_t *value = fb_json_parse(bad, length, &err);
        fb_str dropped = {0};
        fb_plan *out = value ? fb_plan_from_json(p, value, i % 2, &dropped, &err) : NULL;
        if (out)
            check_plan(out), read++;
        else
            assert_true(err.text[0] != '\0');
        fb_plan_free(out);
        fb_str_free(&dropped);
        if (value) json_decref(value);
        fb_free(bad);
    }
    assert_true(read > 100);
    json_decref(o);
    fb_free(text);
    fb_plan_free(plan);
    fb_planner_free(p);
    fb_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_plan_comes_back),
        cmocka_unit_test(recompute_family_knobs_come_back),
        cmocka_unit_test(kernels_in_files_come_back),
        cmocka_unit_test(repetitions_are_written_once),
        cmocka_unit_test(a_plan_for_another_graph),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(overlap_comes_back_where_something_is_copied),
        cmocka_unit_test(fuzzed_files_never_crash),
    };
    return cmocka_run_group_tests_name("plan_file", tests, NULL, NULL);
}
