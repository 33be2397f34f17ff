/* Elements by themselves, where there are many: lines that a block shares, and runs across the ends of short ones; sums by
 * an index that blocks share. By execution on an emulated GPU against the interpreter. FB_KEEP prints the text of a kernel that is wrong. */
#include "unit/emulate_cuda.h"
#include "unit/plan_help.h"
#include "unit/turn.h"

static fb_id values(fb_graph *g, fb_shape shape, fb_dtype dtype)
{
    return source(g, FB_OP_INPUT, "x", shape, dtype);
}

/* With a zero behind each element of a line; a part of each line of that. */
static fb_id set_apart(fb_graph *g, fb_id x, int64_t from, int64_t to)
{
    fb_shape s = g->nodes[x].shape;
    fb_attrs behind = {.after = {0, 0, 0, 1}};
    fb_id apart = view(g, x, DIMS(s.dim[0], s.dim[1], s.dim[2], 1));
    apart = add_node(g, FB_OP_PAD, NULL, &behind, 1, &apart);
    return slice(g, view(g, apart, DIMS(s.dim[0], s.dim[1], 2 * s.dim[2])), 2, from, to);
}

/* All windows of 3 × 3 over the last two dimensions, so many apart, the windows' elements before their places. */
static fb_id windows(fb_graph *g, fb_id x, int step)
{
    fb_shape s = g->nodes[x].shape;
    fb_attrs high = {.dim = 1, .stop = 3, .step = step}, wide = {.dim = 2, .stop = 3, .step = step};
    fb_id at = add_node(g, FB_OP_UNFOLD, NULL, &high, 1, &x);
    at = add_node(g, FB_OP_UNFOLD, NULL, &wide, 1, &at);
    fb_attrs order = {.n_axes = 5, .axes = {0, 3, 4, 1, 2}};
    at = add_node(g, FB_OP_PERMUTE, NULL, &order, 1, &at);
    return view(g, at, DIMS(9 * s.dim[0], ((s.dim[1] - 3) / step + 1) * ((s.dim[2] - 3) / step + 1)));
}

static fb_graph *finished(fb_graph *g, fb_id first, fb_id second)
{
    fb_error err = {0};
    output(g, first);
    if (second != FB_NONE) output(g, second);
    if (!fb_graph_finish(g, &err)) fail_msg("%s", err.text);
    fb_graph *canonical = fb_graph_canonical(g, &err);
    if (!canonical) fail_msg("%s", err.text);
    fb_graph_free(g);
    return canonical;
}

static fb_graph *apart(int64_t rows, int64_t lines, int64_t along, fb_dtype dtype, int outputs)
{
    fb_graph *g = fb_graph_new("apart");
    fb_id x = set_apart(g, values(g, DIMS(rows, lines, along), dtype), 0, 2 * along - 1);
    fb_id neg = node1(g, FB_OP_NEG, "neg", x);
    return finished(g, neg, outputs > 1 ? node1(g, FB_OP_EXP, "exp", neg) : FB_NONE);
}

static fb_graph *apart_halves(void)
{
    fb_graph *g = fb_graph_new("halves");
    fb_id x = set_apart(g, values(g, DIMS(8, 1199, 64), FB_F32), 1, 127);
    return finished(g, node1(g, FB_OP_NEG, "neg", x), FB_NONE);
}

static fb_graph *windows_of(fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("windows");
    return finished(g, node1(g, FB_OP_NEG, "neg", windows(g, values(g, DIMS(5, 34, 34), dtype), 1)), FB_NONE);
}

static fb_graph *windows_apart(int64_t high, int64_t wide, fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("windows");
    return finished(g, node1(g, FB_OP_NEG, "neg", windows(g, values(g, DIMS(2, high, wide), dtype), 2)), FB_NONE);
}

/* x turned, and y; their sum. */
static fb_graph *turned(int64_t batch, int64_t high, int64_t wide, fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("turned");
    fb_attrs order = {.n_axes = 3, .axes = {0, 2, 1}};
    fb_id x = values(g, DIMS(batch, high, wide), dtype),
          y = source(g, FB_OP_INPUT, "y", DIMS(batch, wide, high), dtype);
    fb_id both[] = {add_node(g, FB_OP_PERMUTE, NULL, &order, 1, &x), y};
    return finished(g, add_node(g, FB_OP_ADD, "sum", NULL, 2, both), FB_NONE);
}

/* `sum` of so many points by an index into `rows` rows that names those below `high`, times 2; `members` of them. */
static fb_graph *added(int members, int64_t points, int64_t rows, int64_t width, double high, fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("added");
    fb_id out[4] = {FB_NONE, FB_NONE};
    for (int m = 0; m < members; m++) {
        fb_attrs places = {.dtype = FB_I64, .shape = DIMS(points), .dist = FB_DIST_INTEGER, .value = -1, .high = high},
                 all = {.start = rows};
        fb_id at = add_node(g, FB_OP_INPUT, m ? "other" : "at", &places, 0, NULL);
        fb_id x = source(g, FB_OP_INPUT, m ? "y" : "x", DIMS(points, width), dtype), both[] = {x, at};
        fb_id sum = add_node(g, FB_OP_SCATTER_ADD, m ? "second" : "sum", &all, 2, both);
        out[m] = node1(g, FB_OP_NEG, m ? "less" : "neg", sum);
    }
    return finished(g, out[0], out[1]);
}

/* Sums as they are. */
static fb_graph *only_added(int64_t points, int64_t rows, int64_t width, fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("only_added");
    fb_attrs places = {.dtype = FB_I64,
                       .shape = DIMS(points),
                       .dist = FB_DIST_INTEGER,
                       .value = -1,
                       .high = rows + 1.0},
             all = {.start = rows}, few = {.dtype = dtype, .shape = DIMS(points, width), .dist = FB_DIST_INTEGER};
    few.value = -3, few.high = 9;
    fb_id at = add_node(g, FB_OP_INPUT, "at", &places, 0, NULL);
    fb_id x = fb_dtype_is_float(dtype) ? source(g, FB_OP_INPUT, "x", DIMS(points, width), dtype)
                                       : add_node(g, FB_OP_INPUT, "x", &few, 0, NULL);
    return finished(g, add_node(g, FB_OP_SCATTER_ADD, "sum", &all, 2, (fb_id[]){x, at}), FB_NONE);
}

/* Of `high` × `wide` along the first dimension, of small whole numbers if `ties`. */
static fb_graph *down(fb_op op, int64_t high, int64_t wide, fb_dtype dtype, bool ties)
{
    fb_graph *g = fb_graph_new("down");
    fb_attrs of = {.n_axes = 1, .axes = {0}}, few = {.shape = DIMS(high, wide), .dist = FB_DIST_INTEGER, .high = 7};
    few.dtype = dtype;
    fb_id x = ties ? add_node(g, FB_OP_INPUT, "x", &few, 0, NULL) : values(g, DIMS(high, wide), dtype);
    return finished(g, add_node(g, op, "down", &of, 1, &x), FB_NONE);
}

/* Squares of what is less than a row of its own, added up along the first dimension. */
static fb_graph *spread_down(int64_t high, int64_t wide, fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("spread");
    fb_attrs of = {.n_axes = 1, .axes = {0}};
    fb_id less[] = {values(g, DIMS(high, wide), dtype), source(g, FB_OP_INPUT, "middle", DIMS(wide), dtype)};
    fb_id sub = add_node(g, FB_OP_SUB, "sub", NULL, 2, less), twice[] = {sub, sub};
    fb_id square = add_node(g, FB_OP_MUL, "square", NULL, 2, twice);
    return finished(g, add_node(g, FB_OP_MEAN, "spread", &of, 1, &square), FB_NONE);
}

/* What becomes of windows of `side` × `side` of each channel, with zeros around: `op` of them, times weights if it is a sum. */
static fb_graph *windows_made(fb_op op, int64_t channels, int64_t high, int64_t wide, int64_t side, fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("windows");
    fb_attrs around = {.before = {0, side / 2, side / 2}, .after = {0, side / 2, side / 2}};
    fb_attrs down = {.dim = 1, .stop = side, .step = 1}, across = {.dim = 2, .stop = side, .step = 1};
    fb_attrs of = {.n_axes = 2, .axes = {3, 4}};
    fb_id x = values(g, DIMS(channels, high, wide), dtype);
    x = add_node(g, FB_OP_PAD, NULL, &around, 1, &x);
    x = add_node(g, FB_OP_UNFOLD, NULL, &down, 1, &x);
    x = add_node(g, FB_OP_UNFOLD, NULL, &across, 1, &x);
    fb_id w = view(g, source(g, FB_OP_PARAM, "w", DIMS(channels, side, side), dtype), DIMS(channels, 1, 1, side, side));
    if (op == FB_OP_SUM) x = add_node(g, FB_OP_MUL, "mul", NULL, 2, (fb_id[]){x, w});
    x = add_node(g, op, "window", &of, 1, &x);
    fb_id b = view(g, source(g, FB_OP_PARAM, "b", DIMS(channels), dtype), DIMS(channels, 1, 1));
    return finished(g, node1(g, FB_OP_RELU, "relu", add_node(g, FB_OP_ADD, "add", NULL, 2, (fb_id[]){x, b})), FB_NONE);
}

/* Distances of all x from all y, component by component times a weight; what becomes of them is y's. */
static fb_graph *distances(int64_t of_x, int64_t of_y, int64_t components, fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("distances");
    fb_attrs of = {.n_axes = 1, .axes = {2}};
    fb_id x = view(g, values(g, DIMS(of_x, components), dtype), DIMS(of_x, 1, components));
    fb_id y = view(g, source(g, FB_OP_INPUT, "y", DIMS(of_y, components), dtype), DIMS(1, of_y, components));
    fb_id w = source(g, FB_OP_PARAM, "w", DIMS(components), dtype), b = source(g, FB_OP_PARAM, "b", DIMS(of_y), dtype);
    fb_id far = node1(g, FB_OP_ABS, "abs", add_node(g, FB_OP_SUB, "sub", NULL, 2, (fb_id[]){x, y}));
    far = add_node(g, FB_OP_MUL, "mul", NULL, 2, (fb_id[]){far, w});
    far = add_node(g, FB_OP_SUM, "far", &of, 1, &far);
    return finished(g,
                    add_node(g, FB_OP_MUL, "near", NULL, 2,
                             (fb_id[]){node1(g, FB_OP_EXP, "exp", node1(g, FB_OP_NEG, "neg", far)), b}),
                    FB_NONE);
}

/* x, and beside it its halves the other way round, the first of them negative; each times something. */
static fb_graph *rotated(int64_t lines, int64_t wide, fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("rotated");
    fb_id x = values(g, DIMS(lines, wide), dtype), c = source(g, FB_OP_INPUT, "c", DIMS(wide), dtype),
          s = source(g, FB_OP_INPUT, "s", DIMS(wide), dtype);
    fb_attrs along = {.dim = 1};
    fb_id halves[] = {node1(g, FB_OP_NEG, "neg", slice(g, x, 1, wide / 2, wide)), slice(g, x, 1, 0, wide / 2)};
    fb_id turned = add_node(g, FB_OP_CAT, "cat", &along, 2, halves);
    fb_id both[] = {add_node(g, FB_OP_MUL, "straight", NULL, 2, (fb_id[]){x, c}),
                    add_node(g, FB_OP_MUL, "crossed", NULL, 2, (fb_id[]){turned, s})};
    return finished(g, add_node(g, FB_OP_ADD, "rotated", NULL, 2, both), FB_NONE);
}

/* Running values along rows. */
static fb_graph *along(fb_op op, int64_t rows, int64_t wide, fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("along");
    fb_attrs of = {.dim = 1};
    fb_id x = values(g, DIMS(rows, wide), dtype);
    return finished(g, add_node(g, op, "along", &of, 1, &x), FB_NONE);
}

/* Which elements are among the first `few` of their rows, the largest first; of whole numbers below `ties` if not 0. */
static fb_graph *first_of(int64_t rows, int64_t wide, double few, double ties, fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("first");
    fb_attrs whole = {.dtype = dtype, .shape = DIMS(rows, wide), .dist = FB_DIST_INTEGER, .high = ties};
    fb_attrs down = {.dim = 1, .start = 1}, of = {.dtype = FB_I64, .value = few};
    fb_id x = ties > 0 ? add_node(g, FB_OP_INPUT, "x", &whole, 0, NULL) : values(g, DIMS(rows, wide), dtype);
    fb_id both[] = {add_node(g, FB_OP_RANK, "rank", &down, 1, &x), add_node(g, FB_OP_CONST, "few", &of, 0, NULL)};
    return finished(g, add_node(g, FB_OP_LT, "first", NULL, 2, both), FB_NONE);
}

/* `parts` results stacked along the last dim, where x has as many in turn and `y` one for all: each of x's times y, and of the
 * last ones the first of x's less. */
static fb_graph *interleaved(int parts, int64_t rows, int64_t wide, fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("interleaved");
    fb_id x = values(g, DIMS(rows, wide, parts), dtype), y = source(g, FB_OP_INPUT, "y", DIMS(wide), dtype), part[4],
          of[4];
    for (int i = 0; i < parts; i++) of[i] = view(g, slice(g, x, 2, i, i + 1), DIMS(rows, wide));
    for (int i = 0; i < parts; i++) {
        part[i] = node2(g, FB_OP_MUL, "mul", of[i], y);
        if (i) part[i] = node2(g, FB_OP_SUB, "sub", part[i], of[0]);
    }
    return finished(g, add_node(g, FB_OP_STACK, "stack", &(fb_attrs){.dim = 2}, parts, part), FB_NONE);
}

/* Every `step`-th element of lines, from `from` on, and the one behind it. */
static fb_graph *every(int step, int from, int64_t rows, int64_t wide, fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("every");
    fb_id x = values(g, DIMS(rows, wide), dtype), two[2];
    for (int i = 0; i < 2; i++)
        two[i] =
            add_node(g, FB_OP_SLICE, NULL,
                     &(fb_attrs){.dim = 1, .start = from + i, .stop = wide + from + i + 1 - step, .step = step}, 1, &x);
    return finished(g, node2(g, FB_OP_ADD, "add", two[0], two[1]), FB_NONE);
}

/* All outputs by one kernel. */
static fb_plan *together(fb_plan *plan, const fb_graph *g)
{
    fb_id all[2] = {g->outputs[0], g->outputs[g->n_outputs - 1]};
    fb_plan *next = NULL;
    fb_verdict v = fb_plan_try(plan, &(fb_edit){.kind = FB_EDIT_FUSE_ALL, .n_nodes = 2, .nodes = all}, &next);
    if (!next) fail_msg("%s", v.text);
    fb_plan_free(plan);
    return next;
}

/* `max` with the knob, where it is not 0; on a GPU with a cache of no more than that and so many multiprocessors, where they are
 * not 0. */
static fb_plan *plan_of(fb_graph *g, fb_planner **planner, fb_knob knob, int64_t value, int64_t cache_bytes, int units)
{
    fb_machine m;
    fb_error err = {0};
    fb_machine_default(&m, FB_DEVICE_CUDA);
    if (cache_bytes) m.cache_bytes = cache_bytes;
    if (units) m.units = units;
    if (knob == FB_KNOB_ATOMICS) m.units = 4; /* all blocks meet, so all are emulated at once */
    *planner = fb_planner_new(g, &m);
    fb_plan *plan = fb_preset_find("max")->make(*planner, &err), *next = NULL;
    assert_non_null(plan);
    if (fb_plan_groups(plan) > 1) plan = together(plan, g);
    fb_edit e = {.kind = FB_EDIT_KNOB, .a = g->outputs[0], .b = FB_NONE, .knob = knob, .value = value};
    if (!value) return plan;
    fb_verdict v = fb_plan_try(plan, &e, &next);
    if (!next) fail_msg("%s", v.text);
    fb_plan_free(plan);
    return next;
}

static void check_run(const unit *u, int number, const fb_program *p, const fb_graph *g)
{
    char text[512];
    if (!runs_right(u, number, p, g, text)) fail_msg("%s: %s", g->title, text);
}

typedef struct {
    fb_graph *g;
    const char *text; /* which the kernel has, for it is dealt so … */
    fb_knob knob;     /* … with these (plan_of) */
    int64_t value, cache;
    bool otherwise; /* it is not, and has no such text */
} dealt;

/* Lowers all for a GPU of so many multiprocessors (0: as many as usual), which are freed, looks at how they are dealt, and runs
 * them; with FB_TURN (turn.h) a third. */
static void expect_dealt_on(int units, int n, const dealt *cases)
{
    enum { MOST = 16 };
    unit u = {0};
    fb_program *programs[MOST];
    int number[MOST];
    if (!emulation_exists()) {
        print_message("# skipped: there is no C++ compiler\n");
        skip();
    }
    assert_true(n <= MOST);
    for (int i = 0; i < n; i++) {
        fb_error err;
        fb_planner *planner;
        fb_plan *plan = plan_of(cases[i].g, &planner, cases[i].knob, cases[i].value, cases[i].cache, units);
        assert_int_equal(fb_plan_groups(plan), 1);
        programs[i] = fb_lower(plan, &fb_target_cuda, &err);
        if (!programs[i]) fail_msg("%s", err.text);
        if (!strstr(programs[i]->kernels[0].source, cases[i].text) != cases[i].otherwise)
            fail_msg("case %d: `%s` is %s\n%s", i, cases[i].text, cases[i].otherwise ? "in" : "not in",
                     programs[i]->kernels[0].source);
        number[i] = is_our_turn((unsigned)i) ? unit_add_cuda(&u, programs[i]) : FB_NONE;
        fb_plan_free(plan);
        fb_planner_free(planner);
    }
    unit_emulate(&u);
    for (int i = 0; i < n; i++) {
        if (number[i] != FB_NONE) check_run(&u, number[i], programs[i], cases[i].g);
        fb_program_free(programs[i]);
        fb_graph_free(cases[i].g);
    }
    unit_free(&u);
}

static void expect_dealt(int n, const dealt *cases)
{
    expect_dealt_on(0, n, cases);
}

static void test_many_elements(void **state)
{
    (void)state;
    const dealt cases[] = {
        {apart(16, 1009, 33, FB_F32, 1), "* 256 + threadIdx.x) * 4;", FB_KNOB_ROWS, 0, 0, false},
        {apart(8, 2017, 33, FB_F32, 2), "* 256 + threadIdx.x) * 4;", FB_KNOB_ROWS, 0, 0, false},
        {apart(8, 2020, 33, FB_F16, 1), "* 256 + threadIdx.x) * 8;", FB_KNOB_ROWS, 0, 0, false},
        {apart(16, 1009, 33, FB_F64, 1), "* 256 + threadIdx.x) * 2;", FB_KNOB_ROWS, 0, 0, false},
        {apart(3, 5381, 33, FB_F32, 1), "* 256 + threadIdx.x;", FB_KNOB_ROWS, 0, 0,
         false}, /* no multiple of four points */
        {apart(16, 101, 33, FB_F32, 1), "* 256 + threadIdx.x;", FB_KNOB_ROWS, 0, 0, false}, /* few */
        {apart_halves(), "* 256 + threadIdx.x) * 4;", FB_KNOB_ROWS, 0, 0, false},
        {windows_of(FB_F32), "#pragma unroll 1", FB_KNOB_ROWS, 4, 0, false},
        {windows_of(FB_BF16), "#pragma unroll 1", FB_KNOB_ROWS, 8, 0, false},
    };
    expect_dealt(sizeof cases / sizeof *cases, cases);
}

/* Whole squares, ragged ones, a matrix; by fours or one by one; not little, nor what is asked for element by element. */
static void squares_are_turned(void **state)
{
    (void)state;
    static const char square[] = "[32][33]", by_fours[] = "[64][66]";
    const dealt cases[] = {
        {turned(2, 416, 384, FB_F32), square, FB_KNOB_ROWS, 0, 0, false},
        {turned(3, 309, 479, FB_F32), square, FB_KNOB_ROWS, 0, 0, false},
        {turned(1, 1023, 703, FB_F16), square, FB_KNOB_ROWS, 0, 0, false},
        {turned(4, 416, 384, FB_BF16), by_fours, FB_KNOB_ROWS, 0, 0, false},
        {turned(4, 332, 476, FB_F16), by_fours, FB_KNOB_ROWS, 0, 0, false},
        {turned(64, 96, 96, FB_F16), square, FB_KNOB_ROWS, 0, 0, false}, /* of the larger squares half is not there */
        {turned(64, 65, 64, FB_F64), square, FB_KNOB_ROWS, 0, 0, true},  /* a third is not there */
        {turned(2, 416, 384, FB_F32), square, FB_KNOB_ROWS, 1, 0, true},
        {turned(2, 64, 96, FB_F32), square, FB_KNOB_ROWS, 0, 0, true},
    };
    expect_dealt(sizeof cases / sizeof *cases, cases);
}

/* One range a block, and several; fewer rows than points and many more; rows with too many points for a bucket, and for a
 * list; indices that name no row; two of a size in one kernel. */
static void an_index_is_shared(void **state)
{
    (void)state;
    const dealt cases[] = {
        {added(1, 5000, 700, 12, 710, FB_F32), ", true, 5000, 700, 4, 4, float", FB_KNOB_PARTS, 4, 0, false},
        {added(1, 9000, 333, 70, 333, FB_F32), ", true, 9000, 333, 2, 6, float", FB_KNOB_PARTS, 2, 0, false},
        {added(1, 4100, 100003, 3, 100003, FB_F64), ", true, 4100, 100003, 4, 4, double", FB_KNOB_PARTS, 4, 0, false},
        {added(1, 700, 20, 5, 3, FB_F32), ", true, 700, 20, 2, 2, float", FB_KNOB_PARTS, 2, 0, false},
        {added(1, 9000, 11, 2, 2, FB_BF16), ", true, 9000, 11, 2, 6, float", FB_KNOB_PARTS, 2, 0, false},
        {added(2, 5000, 900, 6, 900, FB_F32), ", true, 5000, 900, 3, 6, float", FB_KNOB_PARTS, 3, 0, false},
        {added(1, 5000, 700, 12, 710, FB_F32), "fb_sorted_together<1024", FB_KNOB_PARTS, 1, 0, true},
        {added(1, 5000, 700, 12, 710, FB_F32), "fb_sorted_together<1024", FB_KNOB_PARTS, 0, 0, true}, /* few */
    };
    expect_dealt(sizeof cases / sizeof *cases, cases);
}

/* Sums beside the result and in it, of vectors and single elements, by fewer rows than a block has threads and by many more;
 * points that name no row; two of a size in one kernel. Unasked only integers, of which there are many. */
static void points_are_added_in_any_order(void **state)
{
    (void)state;
    const dealt cases[] = {
        {added(1, 5000, 700, 12, 710, FB_F32), "fb_added<false, false, 256, 12, 4, ", FB_KNOB_ATOMICS, 1, 0, false},
        {added(1, 9000, 3, 1, 5, FB_F32), "fb_added<true, false, 1024, 1, 1, ", FB_KNOB_ATOMICS, 1, 0, false},
        {added(1, 700, 20011, 3, 20011, FB_F32), "fb_added<false, false, 256, 3, 4, ", FB_KNOB_ATOMICS, 1, 0, false},
        {added(1, 3000, 333, 70, 333, FB_F64), "fb_added<false, false, 256, 70, 2, ", FB_KNOB_ATOMICS, 1, 0, false},
        {added(1, 9000, 11, 8, 2, FB_BF16), "fb_added<true, false, 1024, 8, 8, ", FB_KNOB_ATOMICS, 1, 0, false},
        {added(2, 5000, 900, 6, 900, FB_F32), "fb_added<false, false, 256, 6, ", FB_KNOB_ATOMICS, 1, 0, false},
        {only_added(5000, 700, 12, FB_F32), "fb_added_in_place<false, 256, 12, 4, ", FB_KNOB_ATOMICS, 1, 0, false},
        {only_added(900, 5, 1, FB_F64), "fb_added_in_place<true, 1024, 1, 1, ", FB_KNOB_ATOMICS, 1, 0, false},
        {only_added(900, 70, 6, FB_F16), "fb_added<false, false, 256, 6, ", FB_KNOB_ATOMICS, 1, 0, false},
        {only_added(33000, 300, 1, FB_I64), "fb_added_in_place<true, 1024, 1, 1, ", FB_KNOB_ATOMICS, 0, 0, false},
        {only_added(33000, 30, 4, FB_I32), "fb_added_in_place<true, 1024, 4, 4, ", FB_KNOB_ATOMICS, 0, 0, false},
        {only_added(33000, 30, 4, FB_F32), "fb_added", FB_KNOB_ATOMICS, 0, 0, true},
    };
    expect_dealt(sizeof cases / sizeof *cases, cases);
}

/* Whole groups of 32 and a part of one, by single ones and eight neighbours; places of extrema, which many share. Of a row
 * by itself too. */
static void columns_have_parts(void **state)
{
    (void)state;
    const dealt cases[] = {
        {down(FB_OP_SUM, 999, 64, FB_F32, false), "fb_parts_down_2[320]", FB_KNOB_PARTS, 5, 0, false},
        {down(FB_OP_MEAN, 1000, 50, FB_F64, false), "fb_parts_down_2[150]", FB_KNOB_PARTS, 3, 0, false},
        {down(FB_OP_AMAX, 1000, 33, FB_F32, false), "fb_parts_down_2[231]", FB_KNOB_PARTS, 7, 0, false},
        {down(FB_OP_SUM, 4100, 64, FB_BF16, false), "fb_parts_down_2[128]", FB_KNOB_PARTS, 2, 0, false},
        {down(FB_OP_ARGMAX, 1000, 40, FB_F32, true), "fb_places_down_2[160]", FB_KNOB_PARTS, 4, 0, false},
        {down(FB_OP_ARGMIN, 300000, 1, FB_F32, true), "fb_places_down_2[", FB_KNOB_PARTS, 0, 0, false},
        {down(FB_OP_ARGMAX, 300000, 1, FB_I32, false), "fb_places_down_2[", FB_KNOB_PARTS, 0, 0, false},
        {down(FB_OP_SUM, 6000, 33, FB_F32, false), "fb_parts_down_2[", FB_KNOB_PARTS, 0, 0, false},
        {down(FB_OP_SUM, 3000, 64, FB_F32, false), "fb_parts_down_2[", FB_KNOB_PARTS, 0, 0, true}, /* few */
    };
    expect_dealt(sizeof cases / sizeof *cases, cases);
}

/* As many blocks as there is room for at once, of half as many threads where these move eight; what is loaded of a row by
 * itself. */
static void columns_fill_the_device(void **state)
{
    (void)state;
    const dealt cases[] = {
        {down(FB_OP_SUM, 9000, 96, FB_F32, false), "blockIdx.x / 2, fb_part", FB_KNOB_PARTS, 0, 0, false},
        {down(FB_OP_SUM, 9001, 96, FB_BF16, false), "blockIdx.x / 5, fb_part", FB_KNOB_PARTS, 0, 0, false},
        {spread_down(9001, 96, FB_F16), "fb_columns_each<fb_plus, 16>", FB_KNOB_PARTS, 0, 0, false},
        {spread_down(5000, 1024, FB_BF16), "fb_part", FB_KNOB_PARTS, 0, 0, true},
    };
    expect_dealt_on(4, sizeof cases / sizeof *cases, cases);
}

/* Windows of four neighbours and of two, with what is around them and without, of several channels; not where neighbours
 * are odd, where there are few rows, or where the text would be long. */
static void windows_are_joined(void **state)
{
    (void)state;
    static const char four[] = "fb_each_window[4]", two[] = "fb_each_window[2]";
    const dealt cases[] = {
        {windows_made(FB_OP_SUM, 5, 61, 60, 3, FB_F32), four, FB_KNOB_PARTS, 0, 0, false},
        {windows_made(FB_OP_SUM, 5, 61, 58, 3, FB_BF16), two, FB_KNOB_PARTS, 0, 0, false},
        {windows_made(FB_OP_MEAN, 5, 61, 60, 3, FB_F16), four, FB_KNOB_PARTS, 0, 0, false},
        {windows_made(FB_OP_AMAX, 10, 61, 60, 5, FB_F32), four, FB_KNOB_PARTS, 0, 0, false},
        {windows_made(FB_OP_SUM, 10, 61, 60, 7, FB_F64), four, FB_KNOB_PARTS, 0, 0, false},
        {windows_made(FB_OP_SUM, 5, 61, 59, 3, FB_F32), "fb_each_", FB_KNOB_PARTS, 0, 0, true},
        {windows_made(FB_OP_SUM, 2, 61, 60, 3, FB_F32), "fb_each_", FB_KNOB_PARTS, 0, 0, true},
        {windows_made(FB_OP_AMAX, 10, 61, 60, 9, FB_F32), "fb_each_", FB_KNOB_PARTS, 0, 0, true},
    };
    expect_dealt_on(4, sizeof cases / sizeof *cases, cases);
}

/* `op` of so many rows of a table for each of `bags`, some of which are not there; times a weight each if `weighed`, and what the
 * result has is added to a bias. */
static fb_graph *gathered(fb_op op, int64_t bags, int64_t points, int64_t wide, bool weighed, fb_dtype dtype)
{
    enum { ROWS = 90 };
    fb_graph *g = fb_graph_new("gathered");
    fb_attrs places = {.dtype = FB_I64,
                       .shape = DIMS(bags, points),
                       .dist = FB_DIST_INTEGER,
                       .value = -1,
                       .high = ROWS + 1.0},
             of = {.n_axes = 1, .axes = {1}};
    fb_id at = add_node(g, FB_OP_INPUT, "at", &places, 0, NULL);
    fb_id x = node2(g, FB_OP_EMBEDDING, NULL, source(g, FB_OP_INPUT, "table", DIMS(ROWS, wide), dtype), at);
    if (weighed) x = node2(g, FB_OP_MUL, NULL, x, source(g, FB_OP_INPUT, "w", DIMS(bags, points, 1), dtype));
    x = add_node(g, op, "bag", &of, 1, &x);
    x = weighed ? node2(g, FB_OP_ADD, NULL, x, source(g, FB_OP_INPUT, "bias", DIMS(wide), dtype))
                : node1(g, FB_OP_NEG, NULL, x);
    return finished(g, x, FB_NONE);
}

/* Vectors of each width, groups that are no whole blocks, more points than are on their way at once; fewer at a time where rows
 * are few. Not one by one where columns are odd, and not where it is asked otherwise. */
static void rows_are_looked_up_once(void **state)
{
    (void)state;
    static const char eight[] = "fb_each_bag[8]", four[] = "fb_each_bag[4]", two[] = "fb_each_bag[2]";
    const dealt cases[] = {
        {gathered(FB_OP_SUM, 150, 5, 64, true, FB_BF16), eight, FB_KNOB_PARTS, 0, 0, false},
        {gathered(FB_OP_MEAN, 171, 11, 56, false, FB_F16), eight, FB_KNOB_PARTS, 0, 0, false},
        {gathered(FB_OP_SUM, 90, 9, 52, true, FB_F32), four, FB_KNOB_PARTS, 0, 0, false},
        {gathered(FB_OP_AMAX, 90, 8, 52, false, FB_F32), four, FB_KNOB_PARTS, 0, 0, false},
        {gathered(FB_OP_PROD, 90, 3, 34, true, FB_F64), two, FB_KNOB_PARTS, 0, 0, false},
        {gathered(FB_OP_SUM, 90, 5, 64, true, FB_BF16), four, FB_KNOB_PARTS, 0, 0, false},
        {gathered(FB_OP_SUM, 160, 5, 63, true, FB_F32), "fb_each_", FB_KNOB_PARTS, 0, 0, true},
        {gathered(FB_OP_SUM, 150, 5, 64, true, FB_F32), "fb_each_", FB_KNOB_THREADS, 64, 0, true},
    };
    expect_dealt_on(1, sizeof cases / sizeof *cases, cases);
}

/* Four rows of a team, and two; by vectors and single elements, teams of all sizes, more rows than blocks have. Not few, and not
 * odd ones. */
static void rows_share_what_they_load(void **state)
{
    (void)state;
    static const char four[] = "fb_each_far[4]", two[] = "fb_each_far[2]";
    const dealt cases[] = {
        {distances(130, 132, 36, FB_F32), four, FB_KNOB_PARTS, 0, 0, false},
        {distances(131, 132, 64, FB_BF16), four, FB_KNOB_PARTS, 0, 0, false},
        {distances(90, 94, 33, FB_F32), two, FB_KNOB_PARTS, 0, 0, false},
        {distances(65, 132, 61, FB_F64), four, FB_KNOB_PARTS, 0, 0, false},
        {distances(130, 132, 40, FB_F16), four, FB_KNOB_PARTS, 0, 0, false},
        {distances(130, 133, 36, FB_F32), "fb_each_", FB_KNOB_PARTS, 0, 0, true},
        {distances(20, 24, 36, FB_F32), "fb_each_", FB_KNOB_PARTS, 0, 0, true},
    };
    expect_dealt_on(1, sizeof cases / sizeof *cases, cases);
}

/* What a softmax of long rows is, less 1 at a row's own class: with its slow function in two passes. */
static fb_graph *softmax_less_one(int64_t rows, int64_t classes, fb_dtype dtype)
{
    fb_graph *g = fb_graph_new("softmax");
    const fb_attrs wide = {.dtype = FB_F32}, numbers = {.dtype = FB_I64, .shape = DIMS(classes)};
    fb_id x = values(g, DIMS(rows, classes), dtype), t = source(g, FB_OP_INPUT, "t", DIMS(rows, 1), FB_I64);
    if (dtype != FB_F32) x = add_node(g, FB_OP_CAST, NULL, &wide, 1, &x);
    fb_id most = over_axis(g, FB_OP_AMAX, "most", x, 1, true);
    fb_id exp = node1(g, FB_OP_EXP, "exp", node2(g, FB_OP_SUB, NULL, x, most));
    fb_id y = node2(g, FB_OP_DIV, NULL, exp, over_axis(g, FB_OP_SUM, "total", exp, 1, true));
    fb_id hot = node2(g, FB_OP_EQ, NULL, t, add_node(g, FB_OP_IOTA, "classes", &numbers, 0, NULL));
    return finished(g, node2(g, FB_OP_SUB, NULL, y, add_node(g, FB_OP_CAST, NULL, &wide, 1, &hot)), FB_NONE);
}

/* What is slow takes the registers of what it was made of, and a row's divisor is inverted once; not of short rows. */
static void what_is_slow_is_kept(void **state)
{
    (void)state;
    static const char kept[] = "fb_row_exp_", inverted[] = "fb_long_divisor fb_by_total";
    const dealt cases[] = {
        {softmax_less_one(5, 16384, FB_F32), kept, FB_KNOB_ROWS, 0, 0, false},
        {softmax_less_one(3, 20008, FB_BF16), kept, FB_KNOB_ROWS, 0, 0, false},
        {softmax_less_one(3, 20008, FB_F16), inverted, FB_KNOB_ROWS, 0, 0, false},
        {softmax_less_one(3, 40000, FB_F32), kept, FB_KNOB_ROWS, 0, 0, true}, /* twice the room */
        {softmax_less_one(9, 4096, FB_F32), inverted, FB_KNOB_ROWS, 0, 0, true},
    };
    expect_dealt_on(1, sizeof cases / sizeof *cases, cases);
}

/* Halves that are both made of what the cache does not hold. */
static void halves_take_turns(void **state)
{
    (void)state;
    static const char turn[] = "blockIdx.x % 2 == 1";
    const dealt cases[] = {
        {rotated(300, 128, FB_F32), turn, FB_KNOB_ROWS, 0, 1 << 16, false},
        {rotated(301, 126, FB_BF16), turn, FB_KNOB_ROWS, 0, 1 << 16, false},
        {rotated(300, 128, FB_F32), turn, FB_KNOB_ROWS, 0, 0, true},
        {rotated(300, 128, FB_F32), turn, FB_KNOB_GRID, 5, 1 << 16, true},
    };
    expect_dealt(sizeof cases / sizeof *cases, cases);
}

/* What alternates in memory is read and written by whole packs, where groups of it are whole and lie evenly. */
static void what_alternates_is_one_pack(void **state)
{
    (void)state;
    static const char none[] = "fb_load<";
    const dealt cases[] = {
        {interleaved(2, 33, 64, FB_BF16), "fb_pack<fb_bf16, 8> fb_out0", FB_KNOB_ROWS, 0, 0, false},
        {interleaved(2, 7, 36, FB_F32), "fb_pack<float, 4> fb_out0", FB_KNOB_ROWS, 0, 0, false},
        {interleaved(4, 9, 20, FB_F16), "fb_pack<fb_f16, 8> fb_out0", FB_KNOB_ROWS, 0, 0, false},
        {interleaved(3, 9, 20, FB_F32), "blockIdx.x %", FB_KNOB_ROWS, 0, 0, true}, /* one thread writes all three */
        {interleaved(2, 3, 33, FB_F32), "fb_store(", FB_KNOB_ROWS, 0, 0, true},    /* no whole groups */
        {every(2, 0, 5, 64, FB_F32), "fb_x_2.at[2 * v + 1]", FB_KNOB_ROWS, 0, 0, false},
        {every(4, 1, 5, 64, FB_BF16), "fb_x_2.at[4 * v + 1]", FB_KNOB_ROWS, 0, 0, false},
        {every(2, 0, 1, 63, FB_F32), none, FB_KNOB_ROWS, 0, 0, true}, /* the last group would end beyond the tensor */
    };
    expect_dealt(sizeof cases / sizeof *cases, cases);
}

/* Windows that lie apart: the line that all of a group's are on is found once, where lines are whole groups. */
static void groups_share_their_line(void **state)
{
    (void)state;
    static const char line[] = "fb_group / ";
    const dealt cases[] = {
        {windows_apart(9, 33, FB_BF16), line, FB_KNOB_ROWS, 0, 0, false},
        {windows_apart(7, 65, FB_F32), line, FB_KNOB_ROWS, 0, 0, false},
        {windows_apart(17, 25, FB_BF16), line, FB_KNOB_ROWS, 0, 0, true}, /* lines of 12 and groups of 8 */
    };
    expect_dealt(sizeof cases / sizeof *cases, cases);
}

/* Steps that are no multiple of the parts, parts without a step, several rows, products. */
static void a_row_of_running_values_has_parts(void **state)
{
    (void)state;
    const dealt cases[] = {
        {along(FB_OP_CUMSUM, 1, 20001, FB_F32), "fb_words_along_2[3]", FB_KNOB_PARTS, 3, 0, false},
        {along(FB_OP_CUMSUM, 3, 16384, FB_BF16), "fb_words_along_2[6]", FB_KNOB_PARTS, 2, 0, false},
        {along(FB_OP_CUMPROD, 2, 9000, FB_F64), "fb_words_along_2[10]", FB_KNOB_PARTS, 5, 0, false},
        {along(FB_OP_CUMSUM, 1, 5000, FB_I64), "fb_words_along_2[4]", FB_KNOB_PARTS, 4, 0, false},
        {along(FB_OP_CUMSUM, 2, 40000, FB_F32), "fb_words_along_2[", FB_KNOB_PARTS, 0, 0, true}, /* short */
    };
    expect_dealt(sizeof cases / sizeof *cases, cases);
}

/* Rows of two blocks and more, the last not whole; equal ones, so many that a list is all of a block's. */
static void first_places_are_listed(void **state)
{
    (void)state;
    static const char listed[] = "fb_ranked<256, 1024, 3>";
    const dealt cases[] = {
        {first_of(3, 2500, 20, 0, FB_F32), listed, FB_KNOB_THREADS, 256, 0, false},
        {first_of(2, 2999, 400, 1000, FB_F32), listed, FB_KNOB_THREADS, 256, 0, false},
        {first_of(2, 2100, 60, 3, FB_I32), listed, FB_KNOB_THREADS, 256, 0, false},
        {first_of(1, 2500, 100, 1, FB_F32), listed, FB_KNOB_THREADS, 256, 0, false},
        {first_of(1, 2500, 200, 50, FB_F16), "fb_ranked<64, 1024, 3>", FB_KNOB_THREADS, 64, 0, false},
        {first_of(3, 2500, 1000, 0, FB_F32), "fb_ranked<256, 1024>", FB_KNOB_THREADS, 256, 0, false}, /* many */
    };
    expect_dealt(sizeof cases / sizeof *cases, cases);
}

/* A warp a row, of rows that are no multiple of a block's warps; a block a row, by as many threads as asked; equal ones; few
 * first places; numbers of both kinds. */
static void rows_are_sorted_by_teams(void **state)
{
    (void)state;
    const dealt cases[] = {
        {first_of(37, 100, 60, 0, FB_F32), "fb_ranked_row<256, 32, 128, 0>", FB_KNOB_THREADS, 0, 0, false},
        {first_of(9, 64, 20, 5, FB_F32), "fb_ranked_row<64, 32, 64, 0>", FB_KNOB_THREADS, 64, 0, false},
        {first_of(9, 250, 20, 40, FB_I32), "fb_ranked_row<256, 32, 256, 0>", FB_KNOB_THREADS, 0, 0, false},
        {first_of(19, 70, 3, 2, FB_F32), "fb_ranked_row<256, 32, 128, 3>", FB_KNOB_THREADS, 0, 0, false},
        {first_of(5, 130, 8, 0, FB_F16), "fb_ranked_row<256, 32, 256, 8>", FB_KNOB_THREADS, 0, 0, false},
        {first_of(3, 700, 300, 0, FB_F32), "fb_ranked_row<256, 256, 1024, 0>", FB_KNOB_THREADS, 0, 0, false},
        {first_of(2, 2048, 300, 9, FB_F32), "fb_ranked_row<512, 512, 2048, 0>", FB_KNOB_THREADS, 0, 0, false},
        {first_of(2, 2000, 300, 0, FB_F32), "fb_ranked_row<1024, 1024, 2048, 0>", FB_KNOB_THREADS, 1024, 0, false},
        {first_of(2, 1500, 30, 0, FB_F32), "fb_ranked_row<256, 256, 2048, 0>", FB_KNOB_THREADS, 32, 0, false},
    };
    expect_dealt(sizeof cases / sizeof *cases, cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_elements),          cmocka_unit_test(squares_are_turned),
        cmocka_unit_test(an_index_is_shared),          cmocka_unit_test(points_are_added_in_any_order),
        cmocka_unit_test(columns_fill_the_device),     cmocka_unit_test(windows_are_joined),
        cmocka_unit_test(rows_are_looked_up_once),     cmocka_unit_test(what_is_slow_is_kept),
        cmocka_unit_test(halves_take_turns),           cmocka_unit_test(rows_share_what_they_load),
        cmocka_unit_test(columns_have_parts),          cmocka_unit_test(a_row_of_running_values_has_parts),
        cmocka_unit_test(first_places_are_listed),     cmocka_unit_test(rows_are_sorted_by_teams),
        cmocka_unit_test(what_alternates_is_one_pack), cmocka_unit_test(groups_share_their_line)};
    return cmocka_run_group_tests_name("deals", tests, NULL, NULL);
}
