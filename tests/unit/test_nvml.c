/* The state of a GPU beside its samples: NVML, stood in for by a library of our own, and what becomes of samples that a
 * slowed GPU gave. Timed is a host, whose device says what the library does. */
#include "own_cache.h"
#include "plan_help.h"
#include "scratch.h"

#include "device/cuda/nvml.h"
#include "measure/measure.h"
#include "measure/reference.h"

#include <dlfcn.h>
#include <math.h>

static const char bus[] = "0000:1B:00.0";
static fb_nvml *nvml;

static void *standin(const char *name)
{
    static void *library;
    if (!library) library = dlopen(STANDIN, RTLD_NOW);
    if (!library) fail_msg("%s", dlerror());
    void *at = dlsym(library, name);
    assert_non_null(at);
    return at;
}

static void set(unsigned sm, unsigned long long reasons)
{
    *(unsigned *)standin("standin_sm") = sm;
    *(unsigned long long *)standin("standin_reasons") = reasons;
}

static void what_it_tells(void **state)
{
    (void)state;
    static const struct {
        unsigned long long reasons;
        bool slowed, capped;
    } rows[] = {{0x0, false, false}, {0x1, false, false},  {0x2, false, false}, {0x4, false, true},
                {0x8, true, false},  {0x20, true, false},  {0x40, true, false}, {0x80, true, false},
                {0x44, true, true},  {0x100, false, false}};
    fb_nvml *n = fb_nvml_open(STANDIN, bus, NULL);
    assert_non_null(n);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fb_machine_state s = {0};
        set(1410, rows[i].reasons);
        fb_nvml_state(n, &s);
        assert_int_equal(s.slowed, rows[i].slowed);
        assert_int_equal(s.capped, rows[i].capped);
        assert_true(s.sm_mhz == 1410 && s.memory_mhz == 3201 && s.most_sm_mhz == 1980);
        assert_true(s.watts == 412.5 && s.celsius == 61);
    }
    set(1980, 0);
    fb_nvml_close(n);
    assert_int_equal(*(int *)standin("standin_started"), 0);
}

static void what_is_not_there(void **state)
{
    (void)state;
    char why[160];
    assert_null(fb_nvml_open("libnothing-of-ours.so.1", bus, why));
    assert_string_equal(why, "libnothing-of-ours.so.1 is not there");
    assert_null(fb_nvml_open(STANDIN, "0000:00:00.0", why));
    assert_string_equal(why, "it knows no GPU at 0000:00:00.0");
    assert_null(fb_nvml_open("libm.so.6", bus, why));
    assert_string_equal(why, "it has no nvmlInit_v2");
    fb_machine_state s = {.sm_mhz = NAN};
    fb_nvml_state(NULL, &s);
    assert_true(isnan(s.sm_mhz) && !s.slowed);
    fb_nvml_close(NULL);
}

/* ---- beside samples ---- */

static fb_device_ops ops; /* the host's, with that GPU's state */

static void state_of_gpu(fb_device *d, fb_machine_state *out)
{
    (void)d;
    fb_nvml_state(nvml, out);
}

typedef struct {
    fb_graph *g;
    fb_planner *planner;
    fb_plan *plan;
    fb_device *device;
    fb_measurement *m;
} fixture;

static fixture prepared(void)
{
    fb_error err = {0};
    fixture f = {.g = fb_graph_new("one"), .device = fb_device_open("host", &err)};
    fb_machine machine;
    if (!f.device) fail_msg("%s", err.text);
    output(f.g, node1(f.g, FB_OP_TANH, "a", input(f.g, "x", DIMS(64, 8))));
    f.g = finish(f.g);
    fb_machine_default(&machine, FB_DEVICE_HOST);
    f.planner = fb_planner_new(f.g, &machine);
    f.plan = fb_plan_new(f.planner);
    ops = *f.device->ops;
    ops.state = state_of_gpu;
    f.device->ops = &ops;
    nvml = fb_nvml_open(STANDIN, bus, NULL);
    const fb_measure_options o = {.seeds = {1}, .n_seeds = 1};
    if (!fb_reference_make(f.g, 1, NULL, NULL, NULL, &err)) fail_msg("%s", err.text);
    f.m = fb_measure_prepare(f.device, f.plan, &o, NULL, &err);
    if (!f.m || !fb_measure_check(f.m, NULL, &err)) fail_msg("%s", err.text);
    return f;
}

static void put_away(fixture *f)
{
    fb_measure_free(f->m);
    f->device->ops->close(f->device);
    fb_plan_free(f->plan);
    fb_planner_free(f->planner);
    fb_graph_free(f->g);
    fb_nvml_close(nvml);
}

static fb_report *sampled(fixture *f, unsigned sm, unsigned long long reasons)
{
    fb_error err = {0};
    set(sm, reasons);
    if (!fb_measure_sample(f->m, FB_CACHE_HOT, 3, NULL, &err)) fail_msg("%s", err.text);
    return fb_measure_report(f->m);
}

static void slowed_samples_are_dropped_and_counted(void **state)
{
    (void)state;
    char text[200];
    fixture f = prepared();
    fb_report *r = sampled(&f, 1980, 0);
    assert_int_equal(r->wall_us.n, 3);
    assert_int_equal(r->state.dropped, 0);
    assert_false(fb_report_state_say(r, text));
    fb_report_free(r);
    r = sampled(&f, 700, 0x40);
    assert_int_equal(r->wall_us.n, 3);
    assert_int_equal(r->n_rounds, 1);
    assert_int_equal(r->state.dropped, 1);
    assert_true(fb_report_state_say(r, text));
    assert_string_equal(text, "1 rounds of samples are left out: the GPU was slowed down by heat or by its hardware");
    fb_report_free(r);
    put_away(&f);
}

static void a_limit_of_power_is_reported_with_its_clock(void **state)
{
    (void)state;
    char text[200];
    fb_error err = {0};
    fixture f = prepared();
    for (int i = 0; i < 2; i++) fb_report_free(sampled(&f, 1410, 0x4));
    fb_report *r = sampled(&f, 1980, 0);
    assert_int_equal(r->wall_us.n, 9);
    assert_int_equal(r->state.dropped, 0);
    assert_int_equal(r->state.capped, 2);
    assert_true(r->state.sm_mhz == 1410 && r->state.watts == 412.5);
    assert_true(fb_report_state_say(r, text));
    assert_string_equal(text, "the GPU was at its limit of power in 2 of 3 rounds, at 1410 MHz");
    json_t *told = fb_report_to_json(r);
    fb_report *back = fb_report_from_json(told, &err);
    assert_non_null(back);
    assert_true(back->state.sm_mhz == 1410 && back->state.celsius == 61 && back->state.capped == 2);
    assert_true(isnan(back->state.load));
    fb_report_free(back);
    fb_report_free(r);
    json_decref(told);
    put_away(&f);
}

/* The clock as it rises while the kernel runs. */
static void rising(fb_device *d, fb_machine_state *out)
{
    static const double mhz[] = {345, 900, 1500, 1900};
    static int asked;
    (void)d;
    out->sm_mhz = mhz[asked < 3 ? asked : 3];
    out->most_sm_mhz = 1980;
    asked++;
}

static void it_warms_up_first(void **state)
{
    (void)state;
    fb_error err = {0};
    fixture f = prepared();
    ops.state = rising;
    if (!fb_measure_sample(f.m, FB_CACHE_HOT, 3, NULL, &err)) fail_msg("%s", err.text);
    fb_report *r = fb_measure_report(f.m);
    assert_true(r->state.sm_mhz == 1900);
    assert_int_equal(r->wall_us.n, 3);
    fb_report_free(r);
    put_away(&f);
}

static void a_host_tells_its_load(void **state)
{
    (void)state;
    fb_error err = {0};
    fb_device *d = fb_device_open("host", &err);
    fb_machine_state s = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, false, false};
    d->ops->state(d, &s);
    d->ops->state(d, &s);
    assert_true(s.load >= 0);
    assert_true(isnan(s.steal) || (s.steal >= 0 && s.steal <= 1));
    assert_true(isnan(s.sm_mhz) && !s.slowed && !s.capped);
    d->ops->close(d);
}

static int set_up(void **state)
{
    int failed = make_scratch(state);
    if (!failed) own_cache(in_scratch("cache"));
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_tells),
        cmocka_unit_test(what_is_not_there),
        cmocka_unit_test(slowed_samples_are_dropped_and_counted),
        cmocka_unit_test(a_limit_of_power_is_reported_with_its_clock),
        cmocka_unit_test(it_warms_up_first),
        cmocka_unit_test(a_host_tells_its_load),
    };
    return cmocka_run_group_tests_name("nvml", tests, set_up, remove_scratch);
}
