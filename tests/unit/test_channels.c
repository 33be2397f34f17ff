/* Values between convolutions on tensor cores lie channels last, and nothing else does; what lies so is read and written
 * right by kernels and library calls of both kinds of devices. */
#include "code/lower.h"
#include "decide/preset.h"
#include "graph/access.h"
#include "graph/channels.h"
#include "graph/storage.h"
#include "judge/library.h"
#include "unit/emulate_cuda.h"
#include "unit/graph_help.h"

/* ---- pictures, as scripts/lib/pictures.lua has them ---- */

typedef struct {
    fb_graph *g;
    fb_dtype dtype;
    fb_precision precision;
    int made; /* parameters, which have names */
} net;

static fb_id drawn(net *n, fb_op op, const char *what, fb_shape shape)
{
    char name[32];
    fb_error err = {0};
    fb_attrs at = {.dtype = n->dtype, .shape = shape, .dist = FB_DIST_NORMAL, .high = 1};
    snprintf(name, sizeof name, "%s%d", what, n->made++);
    return must(fb_graph_add(n->g, op, NULL, 0, &at, name, 0, &err), &err);
}

static fb_id view(net *n, fb_id x, fb_shape shape)
{
    return add_op(n->g, FB_OP_VIEW, ARGS(x), &(fb_attrs){.shape = shape});
}

/* All windows of a picture, k by k, one place on each side padded where k is 3. */
static fb_id windows(net *n, fb_id x, int64_t k, int64_t step, double fill)
{
    fb_attrs pad = {.value = fill, .before = {0, 0, k / 2, k / 2}, .after = {0, 0, k / 2, k / 2}};
    if (k > 1) x = add_op(n->g, FB_OP_PAD, ARGS(x), &pad);
    for (int d = 2; d < 4; d++) x = add_op(n->g, FB_OP_UNFOLD, ARGS(x), &(fb_attrs){.dim = d, .stop = k, .step = step});
    return x;
}

/* [N, C, H, W] to [N, out, H', W']; *product: before it is a picture. */
static fb_id convolution(net *n, fb_id x, int64_t out, int64_t k, int64_t step, fb_id *product)
{
    const fb_shape in = n->g->nodes[x].shape;
    int64_t depth = in.dim[1] * k * k;
    fb_id w = view(n, drawn(n, FB_OP_PARAM, "w", SHAPE(out, in.dim[1], k, k)), SHAPE(out, depth));
    fb_id seen = k > 1 || step > 1 ? windows(n, x, k, step, 0) : x;
    int64_t high = n->g->nodes[seen].shape.dim[2], wide = n->g->nodes[seen].shape.dim[3];
    if (seen != x) seen = add_op(n->g, FB_OP_PERMUTE, ARGS(seen), &(fb_attrs){.n_axes = 6, .axes = {0, 1, 4, 5, 2, 3}});
    fb_id y = add_op(n->g, FB_OP_MATMUL, ARGS(w, view(n, seen, SHAPE(in.dim[0], depth, high * wide))),
                     &(fb_attrs){.precision = n->precision});
    if (product) *product = y;
    return view(n, y, SHAPE(in.dim[0], out, high, wide));
}

static fb_id biased(net *n, fb_id x)
{
    return add_op(n->g, FB_OP_ADD, ARGS(x, drawn(n, FB_OP_PARAM, "b", SHAPE(n->g->nodes[x].shape.dim[1], 1, 1))), NULL);
}

static fb_id relu(net *n, fb_id x)
{
    return add_op(n->g, FB_OP_RELU, ARGS(x), NULL);
}

static fb_id pool(net *n, fb_id x)
{
    return add_op(n->g, FB_OP_AMAX, ARGS(windows(n, x, 3, 2, -INFINITY)), &(fb_attrs){.n_axes = 2, .axes = {4, 5}});
}

static fb_id means(net *n, fb_id x)
{
    return add_op(n->g, FB_OP_MEAN, ARGS(x), &(fb_attrs){.n_axes = 2, .axes = {2, 3}});
}

static net begin(fb_dtype dtype)
{
    return (net){.g = fb_graph_new("pictures"), .dtype = dtype};
}

static fb_id picture(net *n, int64_t channels)
{
    return drawn(n, FB_OP_INPUT, "x", SHAPE(2, channels, 7, 6));
}

static bool is_last(const fb_graph *g, fb_id node)
{
    return fb_storage_innermost(g, node) == 1;
}

/* ---- which ---- */

static void pictures_lie_channels_last(void **state)
{
    (void)state;
    net n = begin(FB_F16);
    fb_id first, second, one, x = picture(&n, 3);
    fb_id a = relu(&n, biased(&n, convolution(&n, x, 16, 3, 1, &first)));
    fb_id b = biased(&n, convolution(&n, a, 16, 3, 1, &second)), sum = add_op(n.g, FB_OP_ADD, ARGS(b, a), NULL);
    fb_id c = relu(&n, sum), d = pool(&n, c), e = relu(&n, convolution(&n, d, 24, 1, 1, &one));
    fb_id f = add_op(n.g, FB_OP_CAT, ARGS(e, d), &(fb_attrs){.dim = 1}), last, g = convolution(&n, f, 16, 3, 2, &last);
    fb_id mean = means(&n, g);
    output(n.g, mean, "out");
    finish(n.g);
    const fb_id all[] = {first, a, second, b, sum, c, d, one, e, f, last};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!is_last(n.g, all[i])) fail_msg("value %zu, `%s`", i, n.g->nodes[all[i]].name);
    assert_false(is_last(n.g, mean));
    assert_false(is_last(n.g, x));
    assert_true(fb_storage_is_turned(n.g, first, first));
    assert_true(fb_storage_is_turned(n.g, first, a));
    assert_false(fb_storage_is_turned(n.g, first, d));
    int64_t strides[FB_MAX_RANK];
    fb_storage_strides(n.g, first, strides);
    assert_memory_equal(strides, ((int64_t[]){42 * 16, 1, 16}), 3 * sizeof *strides);
    fb_storage_strides(n.g, a, strides);
    assert_memory_equal(strides, ((int64_t[]){42 * 16, 1, 6 * 16, 16}), 4 * sizeof *strides);
    /* to memory and back */
    int64_t elements = fb_shape_elements(&n.g->nodes[a].shape);
    uint16_t *was = fb_alloc((size_t)elements * sizeof *was), *is = fb_alloc((size_t)elements * sizeof *is);
    for (int64_t i = 0; i < elements; i++) was[i] = is[i] = (uint16_t)i;
    assert_true(fb_storage_from_own(n.g, a, is));
    for (int64_t i = 0; i < elements; i++) assert_int_equal(is[i / 672 * 672 + i / 42 % 16 + i % 42 * 16], was[i]);
    assert_true(fb_storage_to_own(n.g, a, is));
    assert_memory_equal(is, was, (size_t)elements * sizeof *was);
    fb_free(is), fb_free(was);
    fb_graph_free(n.g);
}

/* What two convolutions with something between them make of that. */
typedef fb_id between(net *n, fb_id a);

static fb_id nothing(net *n, fb_id a)
{
    (void)n;
    return a;
}

static fb_id also_an_output(net *n, fb_id a)
{
    output(n->g, a, "also");
    return a;
}

/* Groups of channels are added up with all of their places. */
static fb_id group_norm(net *n, fb_id a)
{
    const fb_shape s = n->g->nodes[a].shape;
    fb_id grouped = view(n, a, SHAPE(s.dim[0], 4, s.dim[1] / 4 * s.dim[2] * s.dim[3]));
    fb_id mean = add_op(n->g, FB_OP_MEAN, ARGS(grouped), &(fb_attrs){.n_axes = 1, .axes = {2}, .keepdim = true});
    return view(n, add_op(n->g, FB_OP_SUB, ARGS(grouped, mean), NULL), s);
}

/* A matrix of what is a picture: its places are the left side's. */
static fb_id places_by_places(net *n, fb_id a)
{
    const fb_shape s = n->g->nodes[a].shape;
    fb_id flat = view(n, a, SHAPE(s.dim[0], s.dim[1], s.dim[2] * s.dim[3]));
    fb_id places =
        add_op(n->g, FB_OP_MATMUL,
               ARGS(flat, add_op(n->g, FB_OP_PERMUTE, ARGS(flat), &(fb_attrs){.n_axes = 3, .axes = {0, 2, 1}})), NULL);
    return view(n, add_op(n->g, FB_OP_MATMUL, ARGS(places, flat), NULL), s);
}

/* Over all pictures: there are as many sums as channels, and few threads side by side. */
static fb_id batch_norm(net *n, fb_id a)
{
    fb_id mean = add_op(n->g, FB_OP_MEAN, ARGS(a), &(fb_attrs){.n_axes = 3, .axes = {0, 2, 3}, .keepdim = true});
    return add_op(n->g, FB_OP_SUB, ARGS(a, mean), NULL);
}

/* The second one is of floats, which nothing adds up along channels. */
static fb_id of_floats(net *n, fb_id a)
{
    n->dtype = FB_F32;
    return add_op(n->g, FB_OP_CAST, ARGS(a), &(fb_attrs){.dtype = FB_F32});
}

static void others_lie_row_by_row(void **state)
{
    (void)state;
    static const struct {
        between *of;
        fb_dtype dtype;
        fb_precision precision;
        int64_t channels;
        bool last;
    } cases[] = {
        {nothing, FB_F16, FB_PRECISION_IEEE, 16, true},           {nothing, FB_BF16, FB_PRECISION_IEEE, 24, true},
        {nothing, FB_F32, FB_PRECISION_TF32, 16, true},           {nothing, FB_F32, FB_PRECISION_IEEE, 16, false},
        {nothing, FB_F64, FB_PRECISION_IEEE, 16, false},          {nothing, FB_F16, FB_PRECISION_IEEE, 12, false},
        {nothing, FB_F16, FB_PRECISION_IEEE, 8, false}, /* less than a sector */
        {also_an_output, FB_F16, FB_PRECISION_IEEE, 16, false},   {group_norm, FB_F16, FB_PRECISION_IEEE, 16, false},
        {places_by_places, FB_F16, FB_PRECISION_IEEE, 16, false}, {batch_norm, FB_F16, FB_PRECISION_IEEE, 16, false},
        {of_floats, FB_F16, FB_PRECISION_IEEE, 16, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        net n = begin(cases[i].dtype);
        n.precision = cases[i].precision;
        fb_id a = relu(&n, convolution(&n, picture(&n, 3), cases[i].channels, 3, 1, NULL));
        output(n.g, means(&n, relu(&n, convolution(&n, cases[i].of(&n, a), 16, 3, 1, NULL))), "out");
        finish(n.g);
        if (is_last(n.g, a) != cases[i].last) fail_msg("case %zu", i);
        fb_graph_free(n.g);
    }
}

/* ---- what a library does to a convolution on its way out ---- */

static fb_machine gpu(void)
{
    fb_machine m;
    fb_machine_default(&m, FB_DEVICE_CUDA);
    m.convolution = m.gemm[FB_F32];
    return m;
}

/* conv, bias, + a, relu, conv: the first convolution gives a, the second one is what is looked at. */
static fb_graph *residual(fb_dtype dtype, fb_op with, bool relus)
{
    net n = begin(dtype);
    fb_id a = convolution(&n, picture(&n, 16), 16, 3, 1, NULL), b = biased(&n, convolution(&n, a, 16, 3, 1, NULL));
    fb_id sum = add_op(n.g, with, ARGS(b, a), NULL);
    output(n.g, means(&n, convolution(&n, relus ? relu(&n, sum) : sum, 16, 3, 1, NULL)), "out");
    return finish_canonical(n.g);
}

static fb_id product(const fb_graph *g, int number)
{
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (fb_node_class(g, i) == FB_CLASS_CONTRACTION && number-- == 0) return i;
    fail_msg("no product");
    return FB_NONE;
}

static fb_id named(const fb_graph *g, fb_op op)
{
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == op) return i;
    return FB_NONE;
}

/* The second convolution as a call, with all up to `to` in it; its sentence where that is refused. */
static fb_plan *joined(fb_planner *planner, fb_id to, char why[512])
{
    const fb_graph *g = fb_planner_graph(planner);
    fb_error err = {0};
    fb_plan *plan = fb_preset_find("none")->make(planner, &err), *next = NULL;
    for (int c = 0; c < 3; c++) {
        fb_edit library = {.kind = FB_EDIT_LIBRARY, .a = product(g, c), .b = FB_NONE};
        fb_verdict v = fb_plan_try(plan, &library, &next);
        if (!next) fail_msg("%s", v.text);
        fb_plan_free(plan);
        plan = next;
    }
    why[0] = 0;
    for (fb_id i = product(g, 1) + 1, before = product(g, 1); i <= to; i++) {
        if (fb_node_class(g, i) != FB_CLASS_POINTWISE) continue;
        next = NULL;
        fb_verdict v = fb_plan_try(plan, &(fb_edit){.kind = FB_EDIT_FUSE, .a = before, .b = i}, &next);
        if (!next) {
            snprintf(why, 512, "%s", v.text);
            return plan;
        }
        fb_plan_free(plan);
        plan = next;
        before = i;
    }
    return plan;
}

static void a_call_does_what_follows_it(void **state)
{
    (void)state;
    const fb_machine m = gpu();
    for (int relus = 0; relus < 2; relus++) {
        char why[512];
        fb_error err = {0};
        fb_graph *g = residual(FB_F16, FB_OP_ADD, relus);
        fb_planner *planner = fb_planner_new(g, &m);
        fb_plan *plan = joined(planner, relus ? named(g, FB_OP_RELU) : product(g, 2) - 1, why);
        assert_string_equal(why, "");
        fb_program *p = fb_lower(plan, &fb_target_cuda, &err);
        if (!p) fail_msg("%s", err.text);
        assert_int_equal(p->n_gemms, 3);
        const fb_gemm_call *c = &p->gemms[1];
        assert_true(c->convolution.space == 2 && c->convolution.by_places);
        assert_true(c->bias != FB_NONE && c->addend == p->gemms[0].c && c->addend_scale == 1);
        assert_int_equal(c->relu, relus);
        assert_int_equal(c->convolution.x_channel, 1); /* as the first one leaves it */
        assert_int_equal(p->gemms[0].convolution.by_places, true);
        assert_false(fb_hash_equal(fb_program_gemm_code(c), fb_program_gemm_code(&p->gemms[0])));
        fb_program_free(p);
        fb_plan_free(plan);
        fb_planner_free(planner);
        fb_graph_free(g);
    }
}

static void it_does_no_more(void **state)
{
    (void)state;
    static const struct {
        fb_dtype dtype;
        fb_op with;
        const char *why;
    } cases[] = {
        {FB_F32, FB_OP_ADD, "cuDNN convolves and does nothing else where pictures are not of 16 bits"},
        {FB_F16, FB_OP_SUB, "adds another tensor than those"},
        {FB_F16, FB_OP_MUL, "is something else"},
    };
    const fb_machine m = gpu();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char why[512];
        fb_graph *g = residual(cases[i].dtype, cases[i].with, true);
        fb_planner *planner = fb_planner_new(g, &m);
        fb_plan *plan = joined(planner, named(g, FB_OP_RELU), why);
        if (!strstr(why, cases[i].why)) fail_msg("case %zu: %s", i, why);
        fb_plan_free(plan);
        fb_planner_free(planner);
        fb_graph_free(g);
    }
}

/* ---- run ---- */

static fb_graph *whole_net(fb_dtype dtype)
{
    net n = begin(dtype);
    fb_id a = relu(&n, biased(&n, convolution(&n, picture(&n, 3), 16, 3, 1, NULL)));
    fb_id b = biased(&n, convolution(&n, a, 16, 3, 1, NULL));
    fb_id d = pool(&n, relu(&n, add_op(n.g, FB_OP_ADD, ARGS(b, a), NULL)));
    fb_id e = relu(&n, biased(&n, convolution(&n, d, 24, 1, 1, NULL)));
    fb_id f = convolution(&n, add_op(n.g, FB_OP_CAT, ARGS(e, d), &(fb_attrs){.dim = 1}), 16, 3, 2, NULL);
    output(n.g, means(&n, f), "out");
    return finish_canonical(n.g);
}

/* In every preset, on a device with a library that convolves and on one without. */
static void all_that_is_made_of_them_is_right(void **state)
{
    (void)state;
    static const char *const presets[] = {"none", "eager", "max", "inductor", "auto"};
    enum { PRESETS = sizeof presets / sizeof *presets, KINDS = 4, HALVES = 2 };
    fb_machine machine[KINDS];
    for (int k = 0; k < KINDS; k++) {
        fb_machine_default(&machine[k], k < 2 ? FB_DEVICE_HOST : FB_DEVICE_CUDA);
        if (k % 2) machine[k].convolution = machine[k].gemm[FB_F32];
    }
    for (int k = 0; k < KINDS; k++) {
        const bool cuda = k >= 2;
        unit u = {0};
        fb_program *programs[HALVES * PRESETS];
        fb_graph *graphs[HALVES] = {whole_net(FB_F16), whole_net(FB_BF16)};
        int number[HALVES * PRESETS], calls = 0;
        if (cuda && !emulation_exists()) {
            print_message("# no C++ compiler, which emulates a GPU\n");
            fb_graph_free(graphs[0]), fb_graph_free(graphs[1]);
            continue;
        }
        for (int i = 0; i < HALVES * PRESETS; i++) {
            fb_error err = {0};
            fb_planner *planner = fb_planner_new(graphs[i % HALVES], &machine[k]);
            fb_plan *plan = fb_preset_find(presets[i / HALVES])->make(planner, &err);
            if (!plan) fail_msg("%s", err.text);
            programs[i] = fb_lower(plan, cuda ? &fb_target_cuda : &fb_target_c, &err);
            if (!programs[i]) fail_msg("%s", err.text);
            for (int c = 0; c < programs[i]->n_gemms; c++) calls += programs[i]->gemms[c].convolution.space > 0;
            number[i] = cuda ? unit_add_cuda(&u, programs[i]) : unit_add(&u, programs[i]);
            fb_plan_free(plan);
            fb_planner_free(planner);
        }
        assert_int_equal(calls > 0, k % 2);
        if (cuda)
            unit_emulate(&u);
        else
            unit_compile(&u, "-O1");
        for (int i = 0; i < HALVES * PRESETS; i++) {
            char text[512];
            if (!runs_right(&u, number[i], programs[i], graphs[i % HALVES], text))
                fail_msg("device %d, %s: %s", k, presets[i / HALVES], text);
            fb_program_free(programs[i]);
        }
        fb_graph_free(graphs[0]), fb_graph_free(graphs[1]);
        unit_free(&u);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_lie_channels_last),        cmocka_unit_test(others_lie_row_by_row),
        cmocka_unit_test(a_call_does_what_follows_it),       cmocka_unit_test(it_does_no_more),
        cmocka_unit_test(all_that_is_made_of_them_is_right),
    };
    return cmocka_run_group_tests_name("channels", tests, NULL, NULL);
}
