/* Reports: the round trip through JSON, what is unknown stays absent, and what the statistics say. */
#include "base/json.h"
#include "base/mem.h"
#include "measure/report.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void quantiles_are_those_of_the_samples(void **state)
{
    (void)state;
    const double samples[] = {11, 1, 2, 3, 10, 4, 5, 6, 9, 7, 8};
    fb_stat s = fb_stat_of(samples, 11);
    assert_int_equal(s.n, 11);
    assert_true(s.median == 6 && s.p10 == 2 && s.p90 == 10);
    assert_true(samples[0] == 11);
    const double some[] = {NAN, 5, NAN, 7};
    s = fb_stat_of(some, 4);
    assert_int_equal(s.n, 2);
    assert_true(s.median == 6);
    s = fb_stat_of(NULL, 0);
    assert_true(s.n == 0 && isnan(s.median));
}

/* Version 1 knew neither kinds nor rounds; a prediction has no spread. */
static void both_versions_are_read(void **state)
{
    (void)state;
    static const char *const text[] = {
        "{\"wall_us\":{\"median\":3,\"p10\":2,\"p90\":4,\"n\":5},\"source\":\"recorded\"}",
        "{\"wall_us\":{\"median\":3,\"n\":1,\"kind\":\"predicted\",\"low\":2,\"high\":4},\"source\":\"predicted\","
        "\"rounds\":{\"at_us\":[1,2],\"wall_us\":[3,4],\"device_us\":[null,2]}}"};
    for (int v = 0; v < 2; v++) {
        fb_error err = {0};
        json_t *j = fb_json_parse(text[v], strlen(text[v]), &err);
        fb_report *r = fb_report_from_json(j, &err);
        assert_non_null(r);
        assert_true(r->wall_us.median == 3 && r->wall_us.n == (v ? 1 : 5));
        assert_true(v ? isnan(r->wall_us.p10) && isnan(r->wall_us.p90) : r->wall_us.p90 == 4);
        assert_int_equal(r->n_rounds, v ? 2 : 0);
        json_t *again = fb_report_to_json(r), *wall = json_object_get(again, "wall_us");
        assert_string_equal(json_string_value(json_object_get(wall, "kind")), v ? "predicted" : "recorded");
        assert_true(json_number_value(json_object_get(wall, "low")) < 3);
        assert_true(!v == !!json_object_get(wall, "p10"));
        json_decref(again);
        json_decref(j);
        fb_report_free(r);
    }
}

static void more_than_modelled_has_a_likely_cause(void **state)
{
    (void)state;
    fb_kernel_report k;
    char text[200];
    fb_kernel_report_clear(&k);
    k.bytes_read = k.bytes_written = 16e6;
    assert_false(fb_kernel_moved_more(&k, text)); /* no counters */
    k.local_bytes = 5e6;
    assert_false(fb_kernel_moved_more(&k, text));
    k.local_bytes = 134e6; /* what the compiler tells is enough */
    assert_true(fb_kernel_moved_more(&k, text));
    assert_string_equal(text, "keeps 134 MB in local memory, 32.0 MB modelled: a table, or registers that spill");
    k.local_bytes = NAN;
    k.measured_read = 17e6;
    k.measured_written = 18e6;
    assert_false(fb_kernel_moved_more(&k, text));
    k.measured_read = 100e6;
    assert_true(fb_kernel_moved_more(&k, text));
    assert_string_equal(
        text, "moved 118 MB, 32.0 MB modelled: likely something is read again that no longer was in the cache");
    k.apart_bytes = 80e6;
    assert_true(fb_kernel_moved_more(&k, text) && strstr(text, "across rows"));
    k.measured_read = 17e6;
    assert_false(fb_kernel_moved_more(&k, text));
    k.l2_bytes = 90e6; /* memory does not show it, the cache does */
    assert_true(fb_kernel_moved_more(&k, text));
    assert_string_equal(text,
                        "moved 90.0 MB through its cache, 32.0 MB modelled: likely it reads across rows, a sector "
                        "for each element");
    k.apart_written = 80e6;
    assert_true(fb_kernel_moved_more(&k, text) && strstr(text, "writes across rows, a part of each sector"));
    k.apart_written = 40e6;
    assert_true(fb_kernel_moved_more(&k, text) && strstr(text, "reads and writes across rows"));
    k.l2_bytes = 500e6; /* something else moved them */
    assert_false(fb_kernel_moved_more(&k, text));
    k.measured_written = 98e6;
    assert_true(fb_kernel_moved_more(&k, text) && strstr(text, "likely it writes across rows, a part of each sector"));
    k.measured_read = 100e6, k.measured_written = 18e6;
    k.spill_bytes = 8;
    assert_true(fb_kernel_moved_more(&k, text) && strstr(text, "registers spill"));
    k.local_bytes = 134e6;
    assert_true(fb_kernel_moved_more(&k, text) && strstr(text, "134 MB in local memory"));
    fb_kernel_report_clear(&k);
    k.bytes_read = 67e6, k.bytes_written = 34e6; /* a product of 4096 × 4096 in 16 bits */
    k.measured_read = 150e6, k.measured_written = 48e6;
    assert_true(fb_kernel_moved_more(&k, text) && strstr(text, "clears or reads its result"));
    static const char *const products[] = {"library", "gemm"};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        k.family = products[i];
        assert_true(fb_kernel_moved_more(&k, text));
        assert_string_equal(text,
                            "moved 198 MB, 101 MB modelled: likely it reads tiles of its operands again, beyond what "
                            "the L2 holds");
    }
    k.family = "reduce"; /* each sum by itself */
    assert_true(fb_kernel_moved_more(&k, text) && strstr(text, "clears or reads its result"));
    k.family = "library";
    k.measured_read = 75e6, k.measured_written = 123e6; /* parts of its sums */
    assert_true(fb_kernel_moved_more(&k, text) && strstr(text, "more is written than the result"));
    k.measured_read = k.measured_written = 18e6;
    k.bytes_read = 1000, k.bytes_written = 1664; /* noise of counters is none */
    k.measured_read = 30e3, k.measured_written = 30e3;
    assert_false(fb_kernel_moved_more(&k, text));
}

static void an_unknown_report_says_nothing(void **state)
{
    (void)state;
    fb_report *r = fb_report_new();
    r->n_kernels = 1;
    r->kernels = FB_NEW(r->arena, fb_kernel_report);
    fb_kernel_report_clear(r->kernels);
    r->kernels->name = "relu";
    r->kernels->family = "pointwise";
    json_t *j = fb_report_to_json(r);
    char *line = fb_json_line(j);
    assert_string_equal(
        line, "{\"kernels\":[{\"family\":\"pointwise\",\"name\":\"relu\",\"nodes\":[]}],\"source\":\"measured\"}");
    fb_free(line);
    json_decref(j);
    fb_report_free(r);
}

static fb_report *full_report(void)
{
    fb_report *r = fb_report_new();
    r->script = "puzzlers/split_stack.lua";
    r->variant = "split_stack";
    r->plan = "eager";
    r->device = "host";
    r->params = json_pack("{s:i}", "batch_size", 1024);
    r->nodes = 131;
    r->launches = 35;
    r->launch_mode = "stream";
    r->wall_us = (fb_stat){100.5, 99, 102, 40};
    r->device_us = (fb_stat){90.25, 89, 92, 40};
    r->cold_us = (fb_stat){140, 139, 150, 20};
    r->predicted_us = 95;
    r->gap_us = 10.25;
    r->floor_us = 12;
    r->bytes_read = 16777216;
    r->bytes_written = 0;
    r->flops = 123;
    r->peak_bytes = 1e9;
    r->compile_ms = 0;
    r->source = FB_SOURCE_RECORDED;
    r->error = (fb_error_report){.max_abs = 1e-7,
                                 .max_rel = 0.125,
                                 .bound = 0.5,
                                 .undecided = 3,
                                 .ok = true,
                                 .state = FB_CHECK_RIGHT,
                                 .scope = FB_JUDGED_KERNELS,
                                 .kernels = 4};
    r->n_kernels = 1;
    r->kernels = FB_NEW(r->arena, fb_kernel_report);
    fb_kernel_report *k = r->kernels;
    fb_kernel_report_clear(k);
    k->name = "layer_norm";
    k->family = "reduce";
    k->n_nodes = 2;
    k->nodes = FB_NEW_ARRAY(r->arena, const char *, 2);
    k->nodes[0] = "feature[0].mean";
    k->nodes[1] = "feature[0].sub";
    k->count = 16;
    k->device_us = (fb_stat){1, 0.5, 2, 5};
    k->bytes_read = 1048576;
    k->bytes_written = 1048576;
    k->registers = 0;
    k->group = 3;
    return r;
}

/* A prediction was measured not even once: no n is written, and it is known all the same when it is read. */
static void a_prediction_has_no_n(void **state)
{
    (void)state;
    fb_report *r = full_report();
    fb_error err = {0};
    r->copies = "in order";
    r->copy_us = (fb_stat){7, NAN, NAN, 1};
    r->copy_hidden_us = 0;
    for (fb_figure_source s = FB_SOURCE_MEASURED; s <= FB_SOURCE_PREDICTED; s++) {
        r->source = s;
        json_t *j = fb_report_to_json(r), *wall = json_object_get(j, "wall_us"), *copy = json_object_get(j, "copy_us");
        assert_int_equal(json_object_get(wall, "n") == NULL, s == FB_SOURCE_PREDICTED);
        assert_int_equal(json_object_get(copy, "n") == NULL, s != FB_SOURCE_MEASURED); /* recordings keep none */
        assert_string_equal(json_string_value(json_object_get(copy, "kind")),
                            s == FB_SOURCE_MEASURED ? "measured" : "predicted");
        fb_report *back = fb_report_from_json(j, &err);
        if (!back) fail_msg("%s", err.text);
        assert_int_equal(back->wall_us.n, s == FB_SOURCE_PREDICTED ? 1 : 40);
        assert_true(back->wall_us.median == 100.5 && back->copy_us.n == 1);
        fb_report_free(back);
        json_object_del(wall, "n"); /* of what was measured it is missed */
        json_object_set_new(wall, "kind", json_string("measured"));
        assert_null(fb_report_from_json(j, &err));
        json_decref(j);
    }
    fb_report_free(r);
}

static void a_report_survives_the_round_trip(void **state)
{
    (void)state;
    fb_report *r = full_report();
    json_t *first = fb_report_to_json(r);
    fb_error err = {0};
    fb_report *back = fb_report_from_json(first, &err);
    assert_non_null(back);
    json_t *second = fb_report_to_json(back);
    assert_true(json_equal(first, second));
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(json_object_get(second, "bytes"), "modelled"), "written")),
        0);
    assert_null(json_object_get(json_object_get(second, "bytes"), "measured"));
    assert_true(isnan(back->measured_read));
    assert_int_equal(back->kernels[0].registers, 0);
    assert_int_equal(back->kernels[0].spill_bytes, -1);
    json_decref(first);
    json_decref(second);
    fb_report_free(r);
    fb_report_free(back);
}

/* Before both scopes have passed nothing is right, and there is no error that could be told. */
static void what_is_being_checked_has_no_answer(void **state)
{
    (void)state;
    fb_report *r = full_report();
    fb_error err = {0};
    r->error = fb_error_checking;
    json_t *o = fb_report_to_json(r), *error = json_object_get(o, "error");
    assert_string_equal(json_string_value(json_object_get(error, "state")), "checking");
    assert_int_equal(json_object_size(error), 1);
    json_object_set_new(error, "ok", json_true()); /* as older makes wrote it */
    json_object_set_new(error, "max_rel", json_integer(0));
    json_object_set_new(error, "bound", json_integer(0));
    fb_report *back = fb_report_from_json(o, &err);
    assert_non_null(back);
    assert_int_equal(back->error.state, FB_CHECK_CHECKING);
    assert_true(isnan(back->error.bound) && isnan(back->error.max_rel) && !fb_report_is_wrong(back));
    json_decref(o);
    fb_report_free(r);
    fb_report_free(back);
}

static void a_guessed_floor_says_so(void **state)
{
    (void)state;
    fb_report *r = full_report();
    fb_error err = {0};
    json_t *o = fb_report_to_json(r);
    assert_null(json_object_get(o, "floor_kind"));
    json_decref(o);
    r->floor_guessed = true;
    o = fb_report_to_json(r);
    assert_string_equal(json_string_value(json_object_get(o, "floor_kind")), "guessed");
    fb_report *back = fb_report_from_json(o, &err);
    assert_non_null(back);
    assert_true(back->floor_guessed);
    json_decref(o);
    fb_report_free(r);
    fb_report_free(back);
}

static void a_wrong_answer_that_is_no_number_stays_wrong(void **state)
{
    (void)state;
    fb_report *r = fb_report_new();
    r->error = (fb_error_report){
        .max_abs = INFINITY, .max_rel = INFINITY, .bound = INFINITY, .worst = "relu[3]: nan, expected 0.5"};
    json_t *j = fb_report_to_json(r);
    fb_report *back = fb_report_from_json(j, NULL);
    assert_false(back->error.ok);
    assert_true(isinf(back->error.bound));
    assert_string_equal(back->error.worst, "relu[3]: nan, expected 0.5");
    json_decref(j);
    fb_report_free(r);
    fb_report_free(back);
}

static void a_failed_case_keeps_its_reason_alone(void **state)
{
    (void)state;
    fb_report *r = fb_report_new();
    r->failed = "the worker was killed by SIGSEGV";
    r->failed_kind = FB_ERR_CRASH;
    json_t *j = fb_report_to_json(r);
    assert_null(json_object_get(j, "kernels"));
    assert_null(json_object_get(j, "source"));
    fb_report *back = fb_report_from_json(j, NULL);
    assert_string_equal(back->failed, r->failed);
    assert_int_equal(back->failed_kind, FB_ERR_CRASH);
    json_decref(j);
    fb_report_free(r);
    fb_report_free(back);
}

static void what_is_malformed_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"[]", "not a JSON object"},
        {"{\"wall_us\":7}", "wall_us"},
        {"{\"wall_us\":{\"median\":1,\"p10\":1,\"p90\":1,\"n\":0}}", "\"n\""},
        {"{\"plan\":3}", "plan"},
        {"{\"nodes\":-4}", "nodes"},
        {"{\"nodes\":1.5}", "nodes"},
        {"{\"params\":[]}", "params"},
        {"{\"source\":\"guessed\"}", "guessed"},
        {"{\"error\":1}", "error"},
        {"{\"kernels\":{}}", "kernels"},
        {"{\"kernels\":[1]}", "kernels"},
        {"{\"kernels\":[{\"name\":\"a\",\"family\":\"b\",\"nodes\":[1]}]}", "nodes"},
        {"{\"kernels\":[{\"name\":\"a\",\"nodes\":[]}]}", "family"},
        {"{\"bytes\":{\"modelled\":{\"read\":\"many\"}}}", "read"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fb_error err = {0};
        json_t *j = fb_json_parse(cases[i].text, strlen(cases[i].text), &err);
        assert_non_null(j);
        assert_null(fb_report_from_json(j, &err));
        assert_int_equal(err.kind, FB_ERR_INPUT);
        if (!strstr(err.text, cases[i].says)) fail_msg("%s: %s", cases[i].text, err.text);
        json_decref(j);
    }
}

/* What a framework decided comes back as it was; what makes no sense is not available, and the figures stay. */
static void a_framework_has_a_plan(void **state)
{
    (void)state;
    static const char good[] =
        "{\"launches\":2,\"their_plan\":{\"apart\":[{\"from\":\"a\",\"to\":\"b\",\"why\":\"so\"}],\"by\":\"X\","
        "\"calls\":"
        "[[\"a\",\"c\"]],\"kernels\":[{\"count\":3,\"kind\":\"extern\",\"name\":\"mm\",\"nodes\":[\"a\",\"c\"],"
        "\"registers\":7,\"source\":\"x\\ny\"}],\"version\":\"1\"}}";
    json_t *j = fb_json_parse(good, strlen(good), NULL);
    fb_report *r = fb_report_from_json(j, NULL);
    assert_non_null(r->theirs);
    assert_null(r->theirs->unavailable);
    assert_int_equal(fb_theirs_launches(r->theirs), 3);
    assert_int_equal(r->theirs->kernels[0].registers, 7);
    assert_int_equal(r->theirs->kernels[0].spills, -1);
    json_t *again = fb_report_to_json(r);
    assert_true(json_equal(json_object_get(again, "their_plan"), json_object_get(j, "their_plan")));
    json_decref(again);
    json_decref(j);
    fb_report_free(r);
    static const char bad[] = "{\"launches\":2,\"their_plan\":{\"by\":\"X\",\"version\":\"1\",\"kernels\":[{}]}}";
    j = fb_json_parse(bad, strlen(bad), NULL);
    r = fb_report_from_json(j, NULL);
    assert_int_equal(r->launches, 2);
    assert_non_null(strstr(r->theirs->unavailable, "cannot be read"));
    assert_int_equal(r->theirs->n_kernels, 0);
    json_decref(j);
    fb_report_free(r);
}

static void kernels_have_short_names(void **state)
{
    (void)state;
    static const struct {
        const char *name, *brief;
    } cases[] = {
        {"k_layer_norm_tanh", "k_layer_norm_tanh"},
        {"triton_poi_fused_add_0", "triton_poi_fused_add_0"},
        {"Memcpy DtoH (Device -> Pinned)", "Memcpy DtoH (Device -> Pinned)"},
        {"void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 2, 2, false, "
         "false>(cublasGemvParamsEx)",
         "gemv2T_kernel_val"},
        {"void at::native::vectorized_elementwise_kernel<4, at::native::tanh_kernel_cuda(a",
         "vectorized_elementwise_kernel"},
        {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, floa",
         "vectorized_layer_norm_kernel"},
        {"void at::native::(anonymous namespace)::CatArray(int, char*)", "CatArray"},
        {"at::native::kernel", "kernel"},
        {"void cutlass::Kernel2<cutlass_80_simt>(cutlass_80_simt::Params)", "Kernel2"},
        {"void a::Outer<int>::run<float>(int)", "run"},
        {"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEEEEviT0_T1_",
         "vectorized_elementwise_kernel"},
        {"_Z6squarePf", "square"},
        {"_ZN2at6native99cut_off", "native"},
        {"_Z", "_Z"},
        {"", ""},
        {"::", "::"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char to[96];
        assert_string_equal(fb_kernel_short_name(to, sizeof to, cases[i].name), cases[i].brief);
    }
    char little[5];
    assert_string_equal(fb_kernel_short_name(little, sizeof little, "a::kernel"), "kern");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_those_of_the_samples),
        cmocka_unit_test(both_versions_are_read),
        cmocka_unit_test(more_than_modelled_has_a_likely_cause),
        cmocka_unit_test(an_unknown_report_says_nothing),
        cmocka_unit_test(a_report_survives_the_round_trip),
        cmocka_unit_test(a_prediction_has_no_n),
        cmocka_unit_test(what_is_being_checked_has_no_answer),
        cmocka_unit_test(a_guessed_floor_says_so),
        cmocka_unit_test(a_wrong_answer_that_is_no_number_stays_wrong),
        cmocka_unit_test(a_failed_case_keeps_its_reason_alone),
        cmocka_unit_test(what_is_malformed_is_refused),
        cmocka_unit_test(a_framework_has_a_plan),
        cmocka_unit_test(kernels_have_short_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
