/* The documents' own numbers, on the host device and by every preset: what a student reads there is what comes out
 * here. (test_interp holds the interpreter to the same tables.) */
#include "code/lower.h"
#include "device/device.h"
#include "tests/data/lecture_tables.h"
#include "tests/unit/own_cache.h"
#include "tests/unit/plan_help.h"
#include "tests/unit/scratch.h"

#include <math.h>

enum { ELEMENTS = LECTURE_ROWS * LECTURE_COLUMNS };

static fb_device *host;

/* relu(x + bias), and relu(x + s y + bias) behind it. */
static fb_graph *lecture_graph(void)
{
    fb_graph *g = fb_graph_new("lecture");
    fb_shape whole = DIMS(LECTURE_ROWS, LECTURE_COLUMNS);
    fb_id x = input(g, "x", whole), y = input(g, "y", whole), bias = input(g, "bias", DIMS(LECTURE_COLUMNS));
    fb_id s = add_node(g, FB_OP_CONST, "s", &(fb_attrs){.dtype = FB_F32, .value = LECTURE_SCALE}, 0, NULL);
    output(g, node1(g, FB_OP_RELU, "add_relu", node2(g, FB_OP_ADD, "add", x, bias)));
    fb_id scaled = node2(g, FB_OP_ADD, "add_2", x, node2(g, FB_OP_MUL, "mul", s, y));
    output(g, node1(g, FB_OP_RELU, "add_mul_relu", node2(g, FB_OP_ADD, "add_3", scaled, bias)));
    return finish(g);
}

/* relu(x + y) of ones, where y is a row: a matrix of twos. */
static fb_graph *ones_graph(void)
{
    fb_graph *g = fb_graph_new("ones");
    fb_attrs ones = {.dtype = FB_F32, .shape = DIMS(128, 512), .dist = FB_DIST_CONSTANT, .value = 1};
    fb_id x = add_node(g, FB_OP_INPUT, "x", &ones, 0, NULL);
    ones.shape = DIMS(512);
    fb_id y = add_node(g, FB_OP_INPUT, "y", &ones, 0, NULL);
    output(g, node1(g, FB_OP_RELU, "relu", node2(g, FB_OP_ADD, "add", x, y)));
    return finish(g);
}

static int buffer_named(const fb_program *p, const char *name)
{
    for (int i = 0; i < p->n_buffers; i++)
        if (strcmp(p->buffers[i].name, name) == 0) return i;
    fail_msg("no buffer %s", name);
    return FB_NONE;
}

static void give(fb_loaded *l, const fb_program *p, const char *name, const double *from, int n)
{
    float values[ELEMENTS];
    for (int i = 0; i < n; i++) values[i] = (float)from[i];
    assert_true(host->ops->write(l, buffer_named(p, name), values, NULL));
}

static void expect(fb_loaded *l, const fb_program *p, const char *preset, const char *name, const double *wanted,
                   double tolerance)
{
    float values[ELEMENTS];
    assert_true(host->ops->read(l, buffer_named(p, name), values, NULL));
    for (int i = 0; i < ELEMENTS; i++)
        if (!(fabs(values[i] - wanted[i]) <= tolerance))
            fail_msg("%s: %s[%d] is %g, not %g", preset, name, i, values[i], wanted[i]);
}

typedef void (*use)(fb_loaded *l, const fb_program *p, const char *preset, bool after);

/* Every preset's plan of the graph, compiled and run once; `fill` before and after. */
static void with_every_preset(fb_graph *g, use fill)
{
    fb_planner *planner = fb_planner_new(g, host->ops->machine(host));
    for (int i = 0; i < fb_presets(); i++) {
        fb_error err = {0};
        fb_run_time t;
        fb_plan *plan = fb_preset_at(i)->make(planner, &err);
        fb_program *p = plan ? fb_lower(plan, &fb_target_c, &err) : NULL;
        fb_loaded *l = p ? host->ops->load(host, p, NULL, &err) : NULL;
        if (!l) fail_msg("%s: %s", fb_preset_at(i)->name, err.text);
        fill(l, p, fb_preset_at(i)->name, false);
        assert_true(host->ops->run(l, &(fb_run_how){.cache = FB_CACHE_HOT, .samples = 1}, &t, NULL));
        fill(l, p, fb_preset_at(i)->name, true);
        host->ops->unload(l);
        fb_program_free(p);
        fb_plan_free(plan);
    }
    fb_planner_free(planner);
    fb_graph_free(g);
}

static void lecture(fb_loaded *l, const fb_program *p, const char *preset, bool after)
{
    if (!after) {
        give(l, p, "x", lecture_x, ELEMENTS);
        give(l, p, "y", lecture_y, ELEMENTS);
        give(l, p, "bias", lecture_bias, LECTURE_COLUMNS);
        return;
    }
    expect(l, p, preset, "add_relu", lecture_add_relu, LECTURE_ADD_RELU_TOLERANCE);
    expect(l, p, preset, "add_mul_relu", lecture_add_mul_relu, LECTURE_ADD_MUL_RELU_TOLERANCE);
}

static void ones(fb_loaded *l, const fb_program *p, const char *preset, bool after)
{
    static float values[128 * 512];
    if (!after) {
        for (int i = 0; i < 128 * 512; i++) values[i] = 1;
        assert_true(host->ops->write(l, buffer_named(p, "x"), values, NULL));
        assert_true(host->ops->write(l, buffer_named(p, "y"), values, NULL));
        return;
    }
    assert_true(host->ops->read(l, buffer_named(p, "relu"), values, NULL));
    for (int i = 0; i < 128 * 512; i++)
        if (values[i] != 2) fail_msg("%s: relu[%d] is %g, not 2", preset, i, values[i]);
}

static void the_lecture_s_tables_come_out(void **state)
{
    (void)state;
    with_every_preset(lecture_graph(), lecture);
}

static void the_lecture_s_ones_make_twos(void **state)
{
    (void)state;
    with_every_preset(ones_graph(), ones);
}

static int open_host(void **state)
{
    fb_error err = {0};
    if (make_scratch(state)) return -1;
    own_cache(in_scratch("cache"));
    host = fb_device_open("host", &err);
    if (!host) fail_msg("%s", err.text);
    return 0;
}

static int close_host(void **state)
{
    host->ops->close(host);
    return remove_scratch(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lecture_s_tables_come_out),
        cmocka_unit_test(the_lecture_s_ones_make_twos),
    };
    return cmocka_run_group_tests_name("tables", tests, open_host, close_host);
}
