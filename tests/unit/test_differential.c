/* Random small graphs under random legal plans, generated, compiled and run, against the interpreter. Set FB_SEED and
 * FB_COUNT for other graphs than the ones of every day; FB_KEEP prints the plan and text of the first that fails. */
#include "graph/canon.h"
#include "graph/print.h"
#include "plan/preset.h"
#include "unit/run_program.h"

#include "base/rng.h"

enum { MOST_ELEMENTS = 6000, NODES = 24, PLANS = 3 };

typedef struct {
    uint64_t state;
    fb_graph *g;
    FB_VEC(fb_id) values;
} maker;

static int64_t below(maker *m, int64_t n)
{
    m->state = fb_splitmix64(m->state + 1);
    return (int64_t)(m->state % (uint64_t)n);
}

static fb_id add(maker *m, fb_op op, const fb_attrs *at, int n, const fb_id *args)
{
    fb_error err;
    fb_id id = fb_graph_add(m->g, op, args, n, at, NULL, 0, &err);
    if (id != FB_NONE && fb_shape_elements(&m->g->nodes[id].shape) <= MOST_ELEMENTS) FB_VEC_PUSH(&m->values, id);
    return id;
}

static fb_id any(maker *m)
{
    /* mostly recent ones, so that graphs are deep */
    int64_t n = m->values.n, back = below(m, 3) ? below(m, n < 6 ? n : 6) : below(m, n);
    return m->values.at[n - 1 - back];
}

static fb_id any_like(maker *m, fb_id x, bool same_shape)
{
    for (int i = 0; i < 12; i++) {
        fb_id y = any(m);
        if (m->g->nodes[y].dtype != m->g->nodes[x].dtype) continue;
        if (!same_shape || fb_shape_equal(&m->g->nodes[y].shape, &m->g->nodes[x].shape)) return y;
    }
    return x;
}

static int64_t any_dim(maker *m)
{
    static const int64_t dims[] = {1, 2, 3, 4, 5, 7, 8, 12, 17, 33, 1, 4, 8, 0};
    int64_t i = below(m, 40);
    return dims[i < 14 ? i : i % 13];
}

static fb_id source(maker *m, fb_shape shape, fb_dtype dtype)
{
    bool f = fb_dtype_is_float(dtype);
    fb_attrs at = {.shape = shape,
                   .dtype = dtype,
                   .dist = f ? FB_DIST_NORMAL : FB_DIST_INTEGER,
                   .value = f ? 0 : -3,
                   .high = f ? 1 : 9};
    if (dtype == FB_BOOL) at.value = 0, at.high = 2;
    return add(m, below(m, 3) ? FB_OP_INPUT : FB_OP_PARAM, &at, 0, NULL);
}

static fb_shape any_shape(maker *m)
{
    fb_shape s = {.rank = (int)below(m, 4)};
    for (int d = 0; d < s.rank; d++) s.dim[d] = any_dim(m);
    return s;
}

static fb_dtype any_dtype(maker *m)
{
    static const fb_dtype dtypes[] = {FB_F32, FB_F32,  FB_F32, FB_F32, FB_F32, FB_F64,
                                      FB_F16, FB_BF16, FB_I32, FB_I64, FB_BOOL};
    return dtypes[below(m, 11)];
}

static void add_pointwise(maker *m)
{
    fb_op op = (fb_op)(FB_OP_NEG + below(m, FB_OP_WHERE - FB_OP_NEG + 1));
    fb_id x = any(m), args[3] = {x, any_like(m, x, false), any_like(m, x, false)};
    fb_attrs at = {.dtype = any_dtype(m), .value = -0.5, .high = 1.5};
    if (op == FB_OP_WHERE) {
        args[2] = any_like(m, args[1], false);
        for (int i = 0; i < 8 && m->g->nodes[args[0]].dtype != FB_BOOL; i++) args[0] = any(m);
    }
    int n = fb_op_get(op)->min_args;
    add(m, op, &at, n, args);
}

static void add_reduction(maker *m)
{
    fb_id x = any(m);
    int rank = m->g->nodes[x].shape.rank;
    fb_attrs at = {.keepdim = below(m, 2)};
    for (int d = 0; d < rank; d++)
        if (below(m, 2)) at.axes[at.n_axes++] = d;
    fb_op op = (fb_op)(FB_OP_SUM + below(m, FB_OP_ARGMIN - FB_OP_SUM + 1));
    if ((op == FB_OP_ARGMAX || op == FB_OP_ARGMIN) && at.n_axes > 1) at.n_axes = 1;
    add(m, op, &at, 1, &x);
}

static void add_view(maker *m)
{
    fb_id x = any(m);
    const fb_shape *s = &m->g->nodes[x].shape;
    fb_attrs at = {.shape = *s, .step = 1};
    switch (below(m, 6)) {
    case 0: { /* move a factor, or flatten two dims */
        if (s->rank < 2 || !below(m, 2)) {
            at.shape = (fb_shape){.rank = 2, .dim = {1, fb_shape_elements(s)}};
            for (int64_t f = 2; f < 9; f++)
                if (below(m, 2) && at.shape.dim[1] % f == 0) at.shape.dim[0] *= f, at.shape.dim[1] /= f;
        } else {
            int d = (int)below(m, s->rank - 1);
            at.shape.dim[d] *= s->dim[d + 1];
            for (int e = d + 1; e < s->rank - 1; e++) at.shape.dim[e] = s->dim[e + 1];
            at.shape.rank--;
        }
        add(m, FB_OP_VIEW, &at, 1, &x);
        return;
    }
    case 1:
        at.n_axes = s->rank;
        for (int d = 0; d < s->rank; d++) at.axes[d] = d;
        for (int d = s->rank - 1; d > 0; d--) {
            int e = (int)below(m, d + 1), t = at.axes[d];
            at.axes[d] = at.axes[e];
            at.axes[e] = t;
        }
        add(m, FB_OP_PERMUTE, &at, 1, &x);
        return;
    case 2:
        if (!s->rank) return;
        at.dim = (int)below(m, s->rank);
        at.start = s->dim[at.dim] ? below(m, s->dim[at.dim]) : 0;
        at.stop = at.start + below(m, s->dim[at.dim] - at.start + 1);
        at.step = 1 + below(m, 3);
        add(m, FB_OP_SLICE, &at, 1, &x);
        return;
    case 3:
        for (int d = 0; d < s->rank; d++)
            if (s->dim[d] == 1) at.shape.dim[d] = any_dim(m);
        add(m, FB_OP_EXPAND, &at, 1, &x);
        return;
    case 4:
        for (int d = 0; d < s->rank; d++) at.before[d] = below(m, 3), at.after[d] = below(m, 2);
        at.value = below(m, 2) ? 0 : -1;
        add(m, FB_OP_PAD, &at, 1, &x);
        return;
    default:
        for (int d = 0; d < s->rank; d++)
            if (below(m, 2)) at.axes[at.n_axes++] = d;
        if (at.n_axes) add(m, FB_OP_FLIP, &at, 1, &x);
    }
}

static void add_join(maker *m)
{
    fb_id x = any(m), parts[5];
    const fb_shape copy = m->g->nodes[x].shape, *s = &copy;
    int n = 1 + (int)below(m, 4);
    for (int i = 0; i < n; i++) parts[i] = any_like(m, x, true);
    if (n == 3 && s->rank && below(m, 2)) { /* parts of unlike size */
        fb_attrs cut = {.dim = (int)below(m, s->rank), .step = 1};
        cut.stop = s->dim[cut.dim] / 2;
        parts[1] = add(m, FB_OP_SLICE, &cut, 1, &parts[1]);
        if (parts[1] == FB_NONE) return;
        add(m, FB_OP_CAT, &(fb_attrs){.dim = cut.dim}, n, parts);
        return;
    }
    bool stack = below(m, 2) || !s->rank;
    add(m, stack ? FB_OP_STACK : FB_OP_CAT, &(fb_attrs){.dim = (int)below(m, s->rank + stack)}, n, parts);
}

static void add_contraction(maker *m)
{
    fb_id x = any(m);
    const fb_node copy = m->g->nodes[x], *n = &copy; /* adding moves nodes */
    if (n->shape.rank < 2 || n->dtype == FB_BOOL) return;
    fb_shape w = {.rank = 2, .dim = {n->shape.dim[n->shape.rank - 1], any_dim(m)}};
    bool turned = below(m, 2);
    if (turned) w = (fb_shape){.rank = 2, .dim = {w.dim[1], w.dim[0]}};
    fb_id args[2] = {x, source(m, w, n->dtype)};
    if (turned && args[1] != FB_NONE)
        args[1] = add(m, FB_OP_PERMUTE, &(fb_attrs){.n_axes = 2, .axes = {1, 0}}, 1, &args[1]);
    if (args[1] != FB_NONE) add(m, FB_OP_MATMUL, NULL, 2, args);
}

static void add_other(maker *m)
{
    fb_id x = any(m);
    const fb_node copy = m->g->nodes[x], *n = &copy;
    switch (below(m, 5)) {
    case 0:
        if (n->shape.rank) add(m, FB_OP_CUMSUM, &(fb_attrs){.dim = (int)below(m, n->shape.rank)}, 1, &x);
        return;
    case 1: {
        fb_shape rows = {.rank = 1 + (int)below(m, 2), .dim = {any_dim(m), any_dim(m)}};
        fb_id args[2] = {x, source(m, rows, below(m, 2) ? FB_I64 : FB_I32)};
        if (n->shape.rank) add(m, FB_OP_EMBEDDING, NULL, 2, args);
        return;
    }
    case 2: {
        if (!n->shape.rank) return;
        fb_shape rows = {.rank = 1, .dim = {n->shape.dim[0]}};
        fb_id args[2] = {x, source(m, rows, FB_I64)};
        add(m, FB_OP_SCATTER_ADD, &(fb_attrs){.start = 1 + below(m, 7)}, 2, args);
        return;
    }
    case 3:
        add(m, FB_OP_CONST, &(fb_attrs){.dtype = n->dtype, .value = 0.5 * (double)below(m, 7) - 1}, 0, NULL);
        return;
    default: {
        fb_shape s = any_shape(m);
        if (!s.rank) return;
        add(m, FB_OP_IOTA,
            &(fb_attrs){.shape = s, .dtype = below(m, 2) ? FB_I64 : FB_F32, .dim = (int)below(m, s.rank)}, 0, NULL);
    }
    }
}

static fb_graph *random_graph(uint64_t seed)
{
    maker m = {.state = seed, .g = fb_graph_new("random")};
    fb_error err;
    for (int i = 0; i < 3; i++) source(&m, any_shape(&m), i ? any_dtype(&m) : FB_F32);
    if (!m.values.n) source(&m, (fb_shape){.rank = 1, .dim = {4}}, FB_F32);
    for (int i = 0; i < NODES; i++) {
        int64_t what = below(&m, 20);
        if (what < 8)
            add_pointwise(&m);
        else if (what < 11)
            add_reduction(&m);
        else if (what < 15)
            add_view(&m);
        else if (what < 17)
            add_join(&m);
        else if (what < 18)
            add_contraction(&m);
        else
            add_other(&m);
    }
    for (int i = 0; i < 3; i++) {
        fb_id out = m.values.at[m.values.n - 1 - (i ? (int)below(&m, m.values.n) : 0)];
        fb_graph_output(m.g, out, NULL, &err);
    }
    for (fb_id i = 0; i < m.g->n_nodes; i++) { /* one parameter is updated */
        if (m.g->nodes[i].op != FB_OP_PARAM || below(&m, 2)) continue;
        for (int t = 0; t < 10; t++) {
            fb_id args[2] = {i, any_like(&m, i, true)};
            if (args[1] == i || fb_graph_add(m.g, FB_OP_ASSIGN, args, 2, NULL, NULL, 0, &err) == FB_NONE) continue;
            break;
        }
        break;
    }
    fb_graph *c = fb_graph_finish(m.g, &err) ? fb_graph_canonical(m.g, &err) : NULL;
    if (!c) fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    fb_graph_free(m.g);
    FB_VEC_FREE(&m.values);
    return c;
}

/* Plan 0 is `none`, plan 1 `max` or another preset, the rest come of random edits. */
static fb_plan *random_plan(fb_planner *p, uint64_t seed, int number)
{
    fb_error err;
    if (number == 1) return fb_preset_at(fb_presets() - 1 - (int)(seed % (uint64_t)(fb_presets() - 2)))->make(p, &err);
    fb_plan *plan = fb_plan_new(p);
    maker m = {.state = seed * 31 + (uint64_t)number};
    const fb_deps *deps = fb_planner_deps(p);
    for (int i = 0; i < 40 && number && deps->n_edges; i++) {
        const fb_edge *edge = &deps->edges[below(&m, deps->n_edges)];
        static const fb_edit_kind kinds[] = {FB_EDIT_FUSE,      FB_EDIT_FUSE,    FB_EDIT_FUSE,     FB_EDIT_FUSE,
                                             FB_EDIT_RECOMPUTE, FB_EDIT_LIBRARY, FB_EDIT_GENERATE, FB_EDIT_CUT};
        fb_edit edit = {.kind = kinds[below(&m, 8)], .a = edge->producer, .b = edge->consumer};
        fb_plan *next = NULL;
        fb_plan_try(plan, &edit, &next);
        if (!next) continue;
        fb_plan_free(plan);
        plan = next;
    }
    return plan;
}

static void print_failure(const fb_program *p, const fb_graph *g)
{
    fb_str s = {0};
    fb_graph_print_text(g, false, &s);
    fb_program_print(p, &fb_dialect_c, &s);
    const char *from = strstr(fb_str_get(&s), "#include <math.h>"),
               *to = strstr(fb_str_get(&s), "\n/* buffers\n *     ");
    fprintf(stderr, "%.*s%s\n", (int)(from ? from - fb_str_get(&s) : 0), fb_str_get(&s), to ? to : "");
    fb_str_free(&s);
}

static void run_some(uint64_t first, int count)
{
    unit u = {0};
    fb_graph **graphs = fb_calloc((size_t)count, sizeof *graphs);
    fb_program **programs = fb_calloc((size_t)count * PLANS, sizeof *programs);
    fb_machine machine;
    fb_error err;
    fb_machine_default(&machine, FB_DEVICE_HOST);
    for (int i = 0; i < count; i++) {
        graphs[i] = random_graph(first + (uint64_t)i);
        fb_planner *planner = fb_planner_new(graphs[i], &machine);
        for (int k = 0; k < PLANS; k++) {
            fb_plan *plan = random_plan(planner, first + (uint64_t)i, k);
            fb_program *p = fb_lower(plan, &fb_dialect_c, &err);
            if (!p) fail_msg("seed %llu: %s", (unsigned long long)(first + (uint64_t)i), err.text);
            programs[i * PLANS + k] = p;
            assert_int_equal(unit_add(&u, p), i * PLANS + k);
            fb_plan_free(plan);
        }
        fb_planner_free(planner);
    }
    unit_compile(&u, "-O2");
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        fb_interp *in = fb_interp_run(graphs[i], &(fb_interp_options){.seed = 7, .bounds = true}, NULL, 0, &err);
        if (!in) fail_msg("%s", err.text);
        for (int k = 0; k < PLANS; k++) {
            char text[512], *storage;
            const fb_program *p = programs[i * PLANS + k];
            void **buffers = run_program(&u, i * PLANS + k, p, graphs[i], 7, &storage);
            if (!check_program(p, buffers, graphs[i], in, text)) {
                fprintf(stderr, "seed %llu, plan %d: %s\n", (unsigned long long)(first + (uint64_t)i), k, text);
                if (!wrong++ && getenv("FB_KEEP")) print_failure(p, graphs[i]);
            }
            fb_free(storage);
            fb_free(buffers);
        }
        fb_interp_free(in);
    }
    for (int i = 0; i < count * PLANS; i++) fb_program_free(programs[i]);
    for (int i = 0; i < count; i++) fb_graph_free(graphs[i]);
    fb_free(programs);
    fb_free(graphs);
    unit_free(&u);
    assert_int_equal(wrong, 0);
}

static void test_random_graphs(void **state)
{
    (void)state;
    const char *seed = getenv("FB_SEED"), *count = getenv("FB_COUNT");
    int left = count ? atoi(count) : 60;
    uint64_t first = seed ? strtoull(seed, NULL, 10) : 1;
    enum { AT_ONCE = 20 };
    for (; left > 0; left -= AT_ONCE, first += AT_ONCE) run_some(first, left < AT_ONCE ? left : AT_ONCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_graphs)};
    return cmocka_run_group_tests_name("differential", tests, NULL, NULL);
}
