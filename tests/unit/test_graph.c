/* The builder: inference and its refusals, names, scopes, loops, users, hash, the verifier. */
#include "graph_help.h"

#include "base/str.h"
#include "graph/fold.h"
#include "graph/intmath.h"
#include "graph/print.h"

#include <time.h>

/* ---- inference ---- */

typedef struct {
    const char *want; /* dtype and shape, or the error */
    fb_op op;
    int n;
    struct {
        fb_dtype dtype;
        fb_shape shape;
    } x[3];
    fb_attrs at;
} inference;

#define F32(...)                                                                                                       \
    {                                                                                                                  \
        FB_F32,                                                                                                        \
        {                                                                                                              \
            .rank = sizeof((int[]){__VA_ARGS__}) / sizeof(int), .dim = { __VA_ARGS__ }                                 \
        }                                                                                                              \
    }
#define I64(...)                                                                                                       \
    {                                                                                                                  \
        FB_I64,                                                                                                        \
        {                                                                                                              \
            .rank = sizeof((int[]){__VA_ARGS__}) / sizeof(int), .dim = { __VA_ARGS__ }                                 \
        }                                                                                                              \
    }
#define LOGIC(...)                                                                                                     \
    {                                                                                                                  \
        FB_BOOL,                                                                                                       \
        {                                                                                                              \
            .rank = sizeof((int[]){__VA_ARGS__}) / sizeof(int), .dim = { __VA_ARGS__ }                                 \
        }                                                                                                              \
    }
#define SCALAR                                                                                                         \
    {                                                                                                                  \
        FB_F32,                                                                                                        \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }
#define AXES(...) .n_axes = sizeof((int[]){__VA_ARGS__}) / sizeof(int), .axes = {__VA_ARGS__}
#define TO(...)   .shape = {.rank = sizeof((int[]){__VA_ARGS__}) / sizeof(int), .dim = {__VA_ARGS__}}

static const inference inferences[] = {
    {.want = "f32[4,5]", .op = FB_OP_ADD, .n = 2, .x = {F32(4, 1), F32(5)}},
    {.want = "f32[0]", .op = FB_OP_ADD, .n = 2, .x = {F32(0), F32(1)}},
    {.want = "f32[]", .op = FB_OP_TANH, .n = 1, .x = {SCALAR}},
    {.want = "add: f32 and i64 do not mix; cast one (a: f32[4], b: i64[4])",
     .op = FB_OP_ADD,
     .n = 2,
     .x = {F32(4), I64(4)}},
    {.want = "mul: the shapes do not broadcast (a: f32[4,3], b: f32[4])",
     .op = FB_OP_MUL,
     .n = 2,
     .x = {F32(4, 3), F32(4)}},
    {.want = "exp: takes floats, not i64; cast it first (x: i64[4])", .op = FB_OP_EXP, .n = 1, .x = {I64(4)}},
    {.want = "logical_not: takes bool, not f32; cast it first (x: f32[4])",
     .op = FB_OP_LOGICAL_NOT,
     .n = 1,
     .x = {F32(4)}},
    {.want = "add: takes 2 operands, not 1 (a: f32[4])", .op = FB_OP_ADD, .n = 1, .x = {F32(4)}},
    {.want = "bool[2,3]", .op = FB_OP_LT, .n = 2, .x = {F32(2, 1), F32(3)}},
    {.want = "f32[2,3]", .op = FB_OP_WHERE, .n = 3, .x = {LOGIC(2, 1), F32(3), SCALAR}},
    {.want = "where: the condition is f32, not bool (condition: f32[2], a: f32[2], b: f32[2])",
     .op = FB_OP_WHERE,
     .n = 3,
     .x = {F32(2), F32(2), F32(2)}},
    {.want = "f16[4]", .op = FB_OP_CAST, .n = 1, .x = {I64(4)}, .at = {.dtype = FB_F16}},
    {.want = "f32[]", .op = FB_OP_SUM, .n = 1, .x = {F32(3, 4)}},
    {.want = "f32[3]", .op = FB_OP_SUM, .n = 1, .x = {F32(3, 4)}, .at = {AXES(-1)}},
    {.want = "f32[1,4,1]", .op = FB_OP_MEAN, .n = 1, .x = {F32(3, 4, 5)}, .at = {AXES(2, 0), .keepdim = true}},
    {.want = "f32[3]", .op = FB_OP_SUM, .n = 1, .x = {F32(3, 0)}, .at = {AXES(1)}},
    {.want = "amax: dimension 1 is empty, there is nothing to take (x: f32[3,0])",
     .op = FB_OP_AMAX,
     .n = 1,
     .x = {F32(3, 0)},
     .at = {AXES(1)}},
    {.want = "sum: axis 1 is given twice (x: f32[3,4])",
     .op = FB_OP_SUM,
     .n = 1,
     .x = {F32(3, 4)},
     .at = {AXES(1, -1)}},
    {.want = "sum: dimension 2 is not between -2 and 1 (x: f32[3,4])",
     .op = FB_OP_SUM,
     .n = 1,
     .x = {F32(3, 4)},
     .at = {AXES(2)}},
    {.want = "i64[3]", .op = FB_OP_ARGMAX, .n = 1, .x = {F32(3, 4)}, .at = {AXES(1)}},
    {.want = "argmin: takes one axis, not 2 (x: f32[3,4])", .op = FB_OP_ARGMIN, .n = 1, .x = {F32(3, 4)}},
    {.want = "mean: takes floats, not i64; cast it first (x: i64[3])", .op = FB_OP_MEAN, .n = 1, .x = {I64(3)}},
    {.want = "f32[2,6]", .op = FB_OP_VIEW, .n = 1, .x = {F32(3, 4)}, .at = {TO(2, -1)}},
    {.want = "view: 12 elements do not fit shape [5,2] (x: f32[3,4])",
     .op = FB_OP_VIEW,
     .n = 1,
     .x = {F32(3, 4)},
     .at = {TO(5, 2)}},
    {.want = "view: only one dimension can be -1 (x: f32[3,4])",
     .op = FB_OP_VIEW,
     .n = 1,
     .x = {F32(3, 4)},
     .at = {TO(-1, -1)}},
    {.want = "f32[0,7]", .op = FB_OP_VIEW, .n = 1, .x = {F32(3, 0)}, .at = {TO(0, 7)}},
    {.want = "view: dimension 0 has the negative size -2 (x: f32[4])",
     .op = FB_OP_VIEW,
     .n = 1,
     .x = {F32(4)},
     .at = {TO(-2, -2)}},
    {.want = "f32[4,3]", .op = FB_OP_PERMUTE, .n = 1, .x = {F32(3, 4)}, .at = {AXES(1, 0)}},
    {.want = "permute: 1 axes for 2 dimensions (x: f32[3,4])",
     .op = FB_OP_PERMUTE,
     .n = 1,
     .x = {F32(3, 4)},
     .at = {AXES(1)}},
    {.want = "f32[3,2]",
     .op = FB_OP_SLICE,
     .n = 1,
     .x = {F32(3, 5)},
     .at = {.dim = 1, .start = 1, .stop = 5, .step = 2}},
    {.want = "f32[3,0]",
     .op = FB_OP_SLICE,
     .n = 1,
     .x = {F32(3, 5)},
     .at = {.dim = 1, .start = 5, .stop = 5, .step = 1}},
    {.want = "slice: 1 to 6 is not within dimension 1 of size 5 (x: f32[3,5])",
     .op = FB_OP_SLICE,
     .n = 1,
     .x = {F32(3, 5)},
     .at = {.dim = 1, .start = 1, .stop = 6, .step = 1}},
    {.want = "slice: step 0 is not positive (x: f32[3,5])",
     .op = FB_OP_SLICE,
     .n = 1,
     .x = {F32(3, 5)},
     .at = {.dim = 1, .stop = 5}},
    {.want = "slice: there is no dimension 0 in a scalar (x: f32[])",
     .op = FB_OP_SLICE,
     .n = 1,
     .x = {SCALAR},
     .at = {.step = 1}},
    {.want = "f32[2,3,5]", .op = FB_OP_EXPAND, .n = 1, .x = {F32(3, 1)}, .at = {TO(2, -1, 5)}},
    {.want = "expand: does not expand to [3,2] (x: f32[3,5])",
     .op = FB_OP_EXPAND,
     .n = 1,
     .x = {F32(3, 5)},
     .at = {TO(3, 2)}},
    {.want = "expand: dimension 0 has the negative size -1 (x: f32[3])",
     .op = FB_OP_EXPAND,
     .n = 1,
     .x = {F32(3)},
     .at = {TO(-1, 3)}},
    {.want = "f32[4,4]", .op = FB_OP_PAD, .n = 1, .x = {F32(3, 1)}, .at = {.before = {1, 0}, .after = {0, 3}}},
    {.want = "pad: cannot pad dimension 0 by -1 and 0 (x: f32[3])",
     .op = FB_OP_PAD,
     .n = 1,
     .x = {F32(3)},
     .at = {.before = {-1}}},
    {.want = "pad: there is no dimension 1 to pad (x: f32[3])",
     .op = FB_OP_PAD,
     .n = 1,
     .x = {F32(3)},
     .at = {.before = {0, 1}}},
    {.want = "f32[3,4]", .op = FB_OP_FLIP, .n = 1, .x = {F32(3, 4)}, .at = {AXES(-1)}},
    {.want = "f32[3,3,5]", .op = FB_OP_UNFOLD, .n = 1, .x = {F32(3, 10)}, .at = {.dim = -1, .stop = 5, .step = 2}},
    {.want = "f32[1,4,3]", .op = FB_OP_UNFOLD, .n = 1, .x = {F32(3, 4)}, .at = {.stop = 3, .step = 7}},
    {.want = "unfold: a window of 4 does not fit into dimension 0 of size 3 (x: f32[3])",
     .op = FB_OP_UNFOLD,
     .n = 1,
     .x = {F32(3)},
     .at = {.stop = 4, .step = 1}},
    {.want = "unfold: step 0 is not positive (x: f32[3])",
     .op = FB_OP_UNFOLD,
     .n = 1,
     .x = {F32(3)},
     .at = {.stop = 2}},
    {.want = "unfold: its windows would be one dimension more than 8 (x: f32[1,1,1,1,1,1,1,3])",
     .op = FB_OP_UNFOLD,
     .n = 1,
     .x = {F32(1, 1, 1, 1, 1, 1, 1, 3)},
     .at = {.dim = 7, .stop = 2, .step = 1}},
    {.want = "f32[3,9]", .op = FB_OP_CAT, .n = 2, .x = {F32(3, 4), F32(3, 5)}, .at = {.dim = 1}},
    {.want = "cat: tensor 1 differs from the first in more than dimension 1 (x0: f32[3,4], x1: f32[4,4])",
     .op = FB_OP_CAT,
     .n = 2,
     .x = {F32(3, 4), F32(4, 4)},
     .at = {.dim = 1}},
    {.want = "cat: takes at least 1 operand, not 0", .op = FB_OP_CAT, .n = 0},
    {.want = "f32[3,2,4]", .op = FB_OP_STACK, .n = 2, .x = {F32(3, 4), F32(3, 4)}, .at = {.dim = 1}},
    {.want = "f32[3,4,2]", .op = FB_OP_STACK, .n = 2, .x = {F32(3, 4), F32(3, 4)}, .at = {.dim = -1}},
    {.want = "stack: the result has more than the 8 dimensions there may be (x0: f32[1,1,1,1,1,1,1,1])",
     .op = FB_OP_STACK,
     .n = 1,
     .x = {F32(1, 1, 1, 1, 1, 1, 1, 1)}},
    {.want = "i64[3,4]", .op = FB_OP_CUMSUM, .n = 1, .x = {I64(3, 4)}, .at = {.dim = -1}},
    {.want = "f32[3,4]", .op = FB_OP_CUMPROD, .n = 1, .x = {F32(3, 4)}, .at = {.dim = -2}},
    {.want = "cumprod: takes numbers, not bool; cast it first (x: bool[3,4])",
     .op = FB_OP_CUMPROD,
     .n = 1,
     .x = {LOGIC(3, 4)}},
    {.want = "i64[3,4]", .op = FB_OP_RANK, .n = 1, .x = {F32(3, 4)}, .at = {.dim = -2, .start = 1}},
    {.want = "rank: starts at the smallest (0) or the largest (1), not at 2 (x: f32[3,4])",
     .op = FB_OP_RANK,
     .n = 1,
     .x = {F32(3, 4)},
     .at = {.start = 2}},
    {.want = "f32[5,2,3,7]", .op = FB_OP_MATMUL, .n = 2, .x = {F32(2, 3, 4), F32(5, 1, 4, 7)}},
    {.want = "f32[3,7]", .op = FB_OP_MATMUL, .n = 2, .x = {F32(3, 0), F32(0, 7)}},
    {.want = "matmul: inner sizes 4 and 5 differ (a: f32[3,4], b: f32[5,7])",
     .op = FB_OP_MATMUL,
     .n = 2,
     .x = {F32(3, 4), F32(5, 7)}},
    {.want = "matmul: takes matrices, at least two dimensions each (a: f32[4], b: f32[4,7])",
     .op = FB_OP_MATMUL,
     .n = 2,
     .x = {F32(4), F32(4, 7)}},
    {.want = "f32[2,6,5]", .op = FB_OP_EMBEDDING, .n = 2, .x = {F32(9, 5), I64(2, 6)}},
    {.want = "embedding: takes integers, not f32; cast it first (table: f32[9,5], index: f32[2])",
     .op = FB_OP_EMBEDDING,
     .n = 2,
     .x = {F32(9, 5), F32(2)}},
    {.want = "f32[9,5]", .op = FB_OP_SCATTER_ADD, .n = 2, .x = {F32(2, 6, 5), I64(2, 6)}, .at = {.start = 9}},
    {.want = "index_add: src does not begin with the dimensions of index (src: f32[2,5], index: i64[3])",
     .op = FB_OP_SCATTER_ADD,
     .n = 2,
     .x = {F32(2, 5), I64(3)}},
    {.want = "assign: x0 is no parameter (param: f32[2], value: f32[2])",
     .op = FB_OP_ASSIGN,
     .n = 2,
     .x = {F32(2), F32(2)}},
    {.want = "carried: only a loop makes it", .op = FB_OP_CARRIED, .n = 0},
    {.want = "step: a loop's counter only exists in a loop", .op = FB_OP_STEP, .n = 0},
    {.want = "result: x0 is no loop (loop: f32[2])", .op = FB_OP_RESULT, .n = 1, .x = {F32(2)}},
    {.want = "bf16[3]", .op = FB_OP_INPUT, .n = 0, .x = {SCALAR}, .at = {.dtype = FB_BF16, TO(3), .high = 1}},
    {.want = "input: 2 to 1 is no range to draw from",
     .op = FB_OP_INPUT,
     .n = 0,
     .x = {SCALAR},
     .at = {TO(3), .value = 2, .high = 1}},
    {.want = "input: dimension 0 has the negative size -3",
     .op = FB_OP_INPUT,
     .n = 0,
     .x = {SCALAR},
     .at = {TO(-3), .high = 1}},
    {.want = "input: values from a file need the file's key",
     .op = FB_OP_INPUT,
     .n = 0,
     .x = {SCALAR},
     .at = {TO(3), .dist = FB_DIST_FILE}},
    {.want = "input: 9 dimensions are more than the 8 there may be",
     .op = FB_OP_INPUT,
     .n = 0,
     .x = {SCALAR},
     .at = {.shape.rank = 9}},
    {.want = "iota: dimension 1 is not between -1 and 0",
     .op = FB_OP_IOTA,
     .n = 0,
     .x = {SCALAR},
     .at = {TO(3), .dim = 1}},
};

static void test_inference(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof inferences / sizeof *inferences; i++) {
        const inference *t = &inferences[i];
        fb_graph *g = fb_graph_new("");
        fb_error err = {0};
        fb_id args[3];
        char got[192];
        for (int k = 0; k < t->n; k++)
            args[k] = add_input(g, (const char *[]){"x0", "x1", "x2"}[k], t->x[k].dtype, t->x[k].shape);
        fb_id id = fb_graph_add(g, t->op, args, t->n, &t->at, NULL, 0, &err);
        assert_string_equal(id == FB_NONE ? err.text : fb_shape_format(&g->nodes[id].shape, g->nodes[id].dtype, got),
                            t->want);
        fb_graph_free(g);
    }
}

static void test_limits(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_error err = {0};
    fb_id x = add_input(g, "x", FB_F32, SHAPE(1 << 20, 1));
    fb_attrs huge = {.shape = SHAPE(1 << 20, (1 << 20) + 1)};
    assert_int_equal(fb_graph_add(g, FB_OP_EXPAND, ARGS(x), &huge, NULL, 0, &err), FB_NONE);
    assert_non_null(strstr(err.text, "more than the 1099511627776 elements"));
    huge.shape = SHAPE(INT64_MAX, INT64_MAX, 0);
    assert_int_equal(fb_graph_add(g, FB_OP_INPUT, NULL, 0, &huge, NULL, 0, &err), FB_NONE);
    assert_int_equal(fb_graph_add(g, FB_OP_TANH, ARGS(99), NULL, NULL, 0, &err), FB_NONE);
    assert_string_equal(err.text, "tanh: operand 0 is no node of this graph");
    assert_int_equal(fb_graph_add(g, FB_OP_TANH, ARGS(x), NULL, "a b", 0, &err), FB_NONE);
    assert_non_null(strstr(err.text, "is no name"));
    assert_int_equal(fb_graph_add(g, (fb_op)999, NULL, 0, NULL, NULL, 0, &err), FB_NONE);
    assert_false(fb_graph_finish(g, &err));
    assert_string_equal(err.text, "the graph has no output");
    fb_graph_free(g);
}

static void test_attributes_are_normalised(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_id x = add_input(g, "x", FB_F32, SHAPE(3, 4, 5));
    fb_id s = add_op(g, FB_OP_SUM, ARGS(x), &(fb_attrs){.n_axes = 2, .axes = {-1, 0}, .dim = 77, .value = 3});
    const fb_attrs *at = fb_node_at(g, s)->attrs;
    assert_int_equal(at->axes[0], 0);
    assert_int_equal(at->axes[1], 2);
    assert_int_equal(at->dim, 0);
    assert_true(at->value == 0);
    fb_id sl = add_op(g, FB_OP_SLICE, ARGS(x), &(fb_attrs){.dim = 2, .start = 0, .stop = 5, .step = 3});
    assert_int_equal(fb_node_at(g, sl)->attrs->stop, 4);
    fb_id c = add_const(g, FB_BF16, 1.00390625);
    assert_true(fb_node_at(g, c)->attrs->value == 1.0);
    fb_id same = add_const(g, FB_BF16, 1);
    assert_ptr_equal(fb_node_at(g, c)->attrs, fb_node_at(g, same)->attrs);
    fb_graph_free(g);
}

/* ---- names, scopes, loops ---- */

static void test_names(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_error err = {0};
    fb_id x = add_input(g, "x", FB_F32, SHAPE(3));
    const char *want[] = {"tanh", "tanh_2", "tanh_2_2", "tanh_3"};
    const char *names[] = {NULL, NULL, "tanh_2", NULL};
    for (int i = 0; i < 4; i++) {
        fb_id id = must(fb_graph_add(g, FB_OP_TANH, ARGS(x), NULL, names[i], 0, &err), &err);
        assert_string_equal(fb_node_at(g, id)->name, want[i]);
    }
    for (int i = 0; i < 2; i++) {
        open_scope(g, "block", 3, NULL, NULL, 0);
        open_scope(g, "norm", FB_NONE, "layer_norm", ARGS(x));
        fb_id id = add_op(g, FB_OP_TANH, ARGS(x), NULL);
        assert_string_equal(fb_node_at(g, id)->name, i ? "block_2[3].norm.tanh" : "block[3].norm.tanh");
        close_scope(g, ARGS(id));
        close_scope(g, NULL, 0);
    }
    assert_string_equal(g->scopes[1].attrs, "{\"eps\":0.5}");
    char longest[65];
    memset(longest, 'n', 64);
    longest[64] = '\0';
    fb_id a = must(fb_graph_add(g, FB_OP_TANH, ARGS(x), NULL, longest, 0, &err), &err);
    fb_id b = must(fb_graph_add(g, FB_OP_TANH, ARGS(x), NULL, longest, 0, &err), &err);
    assert_string_equal(fb_node_at(g, a)->name, longest);
    assert_int_equal(strlen(fb_node_at(g, b)->name), 64);
    output(g, a, NULL);
    output(g, b, NULL);
    assert_false(fb_graph_output(g, a, "again", &err));
    assert_string_equal(g->output_names[1], "out_2");
    finish(g);
    for (fb_id i = 0; i < g->n_nodes; i++) assert_int_equal(fb_graph_find(g, g->nodes[i].name), i);
    assert_int_equal(fb_graph_find(g, "nothing"), FB_NONE);
    assert_true(fb_scope_within(g, 1, 0));
    assert_false(fb_scope_within(g, 0, 1));
    assert_false(fb_scope_within(g, 3, 0));
    fb_graph_free(g);
}

static void test_scope_errors(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_error err = {0};
    fb_id x = add_input(g, "x", FB_F32, SHAPE(3));
    assert_false(fb_graph_scope_close(g, NULL, 0, &err));
    assert_int_equal(fb_graph_scope_open(g, "a.b", FB_NONE, NULL, NULL, 0, NULL, 0, &err), FB_NONE);
    assert_int_equal(fb_graph_scope_open(g, "a", FB_NONE, "op", ARGS(x), "[1]", 0, &err), FB_NONE);
    assert_string_equal(err.text, "scope a: attributes are no JSON object");
    open_scope(g, "a", FB_NONE, NULL, NULL, 0);
    assert_false(fb_graph_scope_close(g, ARGS(x), &err));
    assert_false(fb_graph_finish(g, &err));
    assert_string_equal(err.text, "scope a is not closed");
    for (int i = 1; i < 32; i++) open_scope(g, "a", FB_NONE, NULL, NULL, 0);
    assert_int_equal(fb_graph_scope_open(g, "a", FB_NONE, NULL, NULL, 0, NULL, 0, &err), FB_NONE);
    assert_string_equal(err.text, "scope a: scopes nest at most 32 deep");
    fb_graph_free(g);
}

static void test_loops(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_error err = {0};
    fb_id h = add_input(g, "h", FB_F32, SHAPE(2, 3)), xs = add_input(g, "xs", FB_F32, SHAPE(5, 2, 3)), carried, item;
    assert_int_equal(fb_graph_region_open(g, 6, ARGS(h), ARGS(xs), &carried, &item, 1, &err), FB_NONE);
    assert_string_equal(err.text, "loop: dimension 0 of a scanned tensor is the 6 trips (x0: f32[5,2,3])");
    must(fb_graph_region_open(g, 5, ARGS(h), ARGS(xs), &carried, &item, 1, &err), &err);
    fb_id next = add_op(g, FB_OP_ADD, ARGS(carried, item), NULL);
    fb_id wide = add_op(g, FB_OP_SUM, ARGS(next), &(fb_attrs){.n_axes = 1});
    assert_int_equal(fb_graph_region_close(g, &wide, ARGS(next), &err), FB_NONE);
    assert_string_equal(err.text, "loop: carried value 0 begins as f32[2,3] and becomes f32[3]");
    assert_false(fb_graph_finish(g, &err));
    assert_string_equal(err.text, "the loop of line 1 is not closed");
    fb_id loop = must(fb_graph_region_close(g, &next, ARGS(wide), &err), &err);
    assert_int_equal(fb_graph_add(g, FB_OP_TANH, ARGS(next), NULL, NULL, 0, &err), FB_NONE);
    assert_string_equal(err.text, "tanh: add is a value inside a loop and cannot be read outside it");
    assert_int_equal(fb_graph_add(g, FB_OP_CAST, ARGS(loop), NULL, NULL, 0, &err), FB_NONE);
    assert_int_equal(fb_graph_add(g, FB_OP_RESULT, ARGS(loop), &(fb_attrs){.index = 2}, NULL, 0, &err), FB_NONE);
    fb_id last = add_op(g, FB_OP_RESULT, ARGS(loop), NULL);
    fb_id all = add_op(g, FB_OP_RESULT, ARGS(loop), &(fb_attrs){.index = 1});
    char shape[192];
    assert_string_equal(fb_shape_format(&fb_node_at(g, last)->shape, FB_F32, shape), "f32[2,3]");
    assert_string_equal(fb_shape_format(&fb_node_at(g, all)->shape, FB_F32, shape), "f32[5,3]");
    output(g, last, NULL);
    finish(g);
    assert_int_equal(g->regions[1].loop, loop);
    assert_int_equal(fb_node_at(g, item)->region, 1);
    fb_graph_free(g);
}

static void test_assignments(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_error err = {0};
    fb_id w = add_param(g, "w", SHAPE(3)), v = add_op(g, FB_OP_TANH, ARGS(w), NULL);
    fb_id set = add_op(g, FB_OP_ASSIGN, ARGS(w, v), NULL);
    assert_int_equal(fb_graph_add(g, FB_OP_TANH, ARGS(set), NULL, NULL, 0, &err), FB_NONE);
    assert_true(fb_node_is_output(g, set));
    add_op(g, FB_OP_ASSIGN, ARGS(w, w), NULL);
    assert_false(fb_graph_finish(g, &err));
    assert_string_equal(err.text, "assign: parameter w is assigned twice");
    fb_graph_free(g);
}

/* ---- finished graphs ---- */

static void test_users(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("");
    fb_id x = add_input(g, "x", FB_F32, SHAPE(3));
    fb_id a = add_op(g, FB_OP_MUL, ARGS(x, x), NULL), b = add_op(g, FB_OP_ADD, ARGS(a, x), NULL);
    output(g, b, "y");
    finish(g);
    assert_int_equal(g->user_start[x + 1] - g->user_start[x], 2);
    assert_int_equal(g->users[g->user_start[x]], a);
    assert_int_equal(g->users[g->user_start[x] + 1], b);
    assert_int_equal(g->user_start[b + 1] - g->user_start[b], 0);
    assert_int_equal(fb_node_flops(g, b), 3);
    assert_int_equal(fb_node_bytes(g, b), 12);
    assert_true(fb_node_is_computed(g, b));
    assert_false(fb_node_is_computed(g, x));
    assert_true(fb_node_is_output(g, b));
    fb_graph_free(g);
}

static fb_hash hash_of(double value, const char *name, const char *title, int line)
{
    fb_graph *g = fb_graph_new(title);
    fb_error err = {0};
    fb_id x = add_input(g, "x", FB_F32, SHAPE(3));
    fb_id y =
        must(fb_graph_add(g, FB_OP_CLAMP, ARGS(x), &(fb_attrs){.value = value, .high = 9}, name, line, &err), &err);
    output(g, y, NULL);
    finish(g);
    fb_hash h = g->hash;
    fb_graph_free(g);
    return h;
}

static void test_hash(void **state)
{
    (void)state;
    fb_hash h = hash_of(1, "y", "", 1);
    assert_true(fb_hash_equal(h, hash_of(1, "y", "other", 2)));
    assert_false(fb_hash_equal(h, hash_of(2, "y", "", 1)));
    assert_false(fb_hash_equal(h, hash_of(1, "z", "", 1)));
    assert_false(fb_hash_equal(hash_of(0.0, "y", "", 1), hash_of(-0.0, "y", "", 1)));
}

/* Each corruption of a finished graph is found, and the sentence names the node. */
static void test_verifier(void **state)
{
    (void)state;
    fb_graph *g = varied_graph();
    fb_error err = {0};
    finish(g);
    assert_true(fb_graph_verify(g, &err));
    for (fb_id i = 0; i < g->n_nodes; i++) {
        fb_node kept = g->nodes[i];
        if (kept.n_args) {
            fb_id self = i;
            g->nodes[i].args = &self;
            g->nodes[i].n_args = 1;
            assert_false(fb_graph_verify(g, &err));
            g->nodes[i] = kept;
        }
        g->nodes[i].dtype = kept.dtype == FB_F16 ? FB_F32 : FB_F16;
        assert_false(fb_graph_verify(g, &err));
        g->nodes[i] = kept;
        g->nodes[i].shape.dim[g->nodes[i].shape.rank++] = 2;
        assert_false(fb_graph_verify(g, &err));
        g->nodes[i] = kept;
        g->nodes[i].name = "1x";
        assert_false(fb_graph_verify(g, &err));
        assert_non_null(strstr(err.text, "1x"));
        g->nodes[i] = kept;
    }
    for (fb_id i = 0; i < g->n_scopes; i++) {
        fb_scope kept = g->scopes[i];
        g->scopes[i].index++;
        assert_false(fb_graph_verify(g, &err));
        g->scopes[i] = kept;
    }
    fb_region kept = g->regions[1];
    for (int field = 0; field < 5; field++) {
        fb_id wrong = 0;
        if (field == 0) g->regions[1].carried = &wrong;
        if (field == 1) g->regions[1].yields = &wrong;
        if (field == 2) g->regions[1].items = &wrong;
        if (field == 3) g->regions[1].loop = 0;
        if (field == 4) g->regions[1].trips++;
        assert_false(fb_graph_verify(g, &err));
        g->regions[1] = kept;
    }
    assert_true(fb_graph_verify(g, &err));
    fb_graph_free(g);
}

static void test_listing(void **state)
{
    (void)state;
    fb_graph *g = varied_graph();
    fb_str text = {0}, folded = {0}, dot = {0};
    finish(g);
    fb_graph_print_text(g, false, &text);
    fb_graph_print_text(g, true, &folded);
    assert_non_null(strstr(text.text, "feature[3]\n"));
    assert_null(strstr(folded.text, "feature[3]\n"));
    assert_non_null(strstr(folded.text,
                           "feature ×3\n  %3 = slice(%0 x, dim=1, 0:2)  f32[4,2]  feature[1].slice\n"
                           "  norm: norm {\"eps\":0.5}\n"
                           "    %4 = mean(%3 slice, axes=[1], keepdim)  f32[4,1]  feature[1].norm.mean\n"));
    assert_non_null(strstr(folded.text, "body of %26:\n"));
    assert_non_null(strstr(folded.text, "out = %"));
    int *groups = calloc((size_t)g->n_nodes, sizeof *groups);
    for (int i = 0; i < g->n_nodes; i++) groups[i] = i % 3 - 1;
    fb_graph_print_dot(g, groups, &dot);
    assert_non_null(strstr(dot.text, "subgraph cluster_1 {"));
    assert_non_null(strstr(dot.text, "n0 -> n3;"));
    free(groups);
    fb_str_free(&text);
    fb_str_free(&folded);
    fb_str_free(&dot);
    fb_graph_free(g);
}

/* 50,000 nodes: no step may be quadratic. The bound is generous, for slow machines and sanitizers. */
static void test_large(void **state)
{
    (void)state;
    clock_t begin = clock(); /* of this process alone: others may keep the machine busy */
    fb_graph *g = fb_graph_new("");
    fb_id x = add_input(g, "x", FB_F32, SHAPE(3));
    for (int i = 0; i < 50000; i++) x = add_op(g, FB_OP_TANH, ARGS(x), NULL);
    output(g, x, NULL);
    finish(g);
    assert_string_equal(fb_node_at(g, x)->name, "tanh_50000");
    fb_graph_free(g);
    assert_true(clock() - begin < 5 * CLOCKS_PER_SEC);
}

/* ---- the small arithmetic beneath ---- */

static void test_rounding(void **state)
{
    (void)state;
    assert_true(fb_dtype_round(FB_F16, 65519) == 65504);
    assert_true(isinf(fb_dtype_round(FB_F16, 65520)));
    assert_true(fb_dtype_round(FB_F16, 0x1p-25) == 0);
    assert_true(fb_dtype_round(FB_F16, 0x1.8p-24) == 0x1p-23);
    assert_true(fb_dtype_round(FB_BF16, 1 + 0x1p-8) == 1);
    assert_true(fb_dtype_round(FB_BF16, 1 + 0x1.8p-8) == 1 + 0x1p-7);
    assert_true(fb_dtype_round(FB_BF16, -0x1p-140) == 0 && signbit(fb_dtype_round(FB_BF16, -0x1p-140)));
    assert_true(fb_dtype_round(FB_I32, 0x1p31) == -0x1p31);
    assert_true(fb_dtype_round(FB_I32, -1.9) == -1);
    assert_true(fb_dtype_round(FB_I64, 0x1p63) == -0x1p63);
    assert_true(fb_dtype_round(FB_I64, -0x1p64 - 4096) == -4096);
    assert_true(fb_dtype_round(FB_I64, NAN) == 0);
    assert_true(fb_dtype_round(FB_BOOL, NAN) == 1);
    for (int i = 0; i < FB_DTYPES; i++) {
        fb_dtype d;
        assert_true(fb_dtype_parse(fb_dtype_name((fb_dtype)i), &d));
        assert_int_equal(d, i);
    }
    for (int i = 0; i < FB_OPS; i++) {
        fb_op op;
        assert_true(fb_op_parse(fb_op_get((fb_op)i)->name, &op));
        assert_int_equal(op, i);
    }
}

static void test_integers(void **state)
{
    (void)state;
    assert_true(fb_wrap_add(INT64_MAX, 1) == INT64_MIN);
    assert_true(fb_floor_div(-7, 2) == -4 && fb_mod_floor(-7, 2) == 1 && fb_mod_floor(7, -2) == -1);
    assert_true(fb_floor_div(INT64_MIN, -1) == INT64_MIN && fb_mod_floor(INT64_MIN, -1) == 0);
    assert_true(fb_floor_div(5, 0) == 0 && fb_mod_floor(5, 0) == 0);
    assert_true(fb_shl(1, 63) == INT64_MIN && fb_shl(1, 64) == 0 && fb_shl(1, -1) == 0);
    assert_true(fb_shr(-8, 1) == -4 && fb_shr(-8, 64) == -1 && fb_shr(8, 64) == 0);
    assert_true(fb_int_of(INFINITY) == INT64_MAX && fb_int_of(-INFINITY) == INT64_MIN && fb_int_of(NAN) == 0);
    assert_true(fb_fmod_floor(-7, 3) == 2 && fb_fmod_floor(7, -3) == -2);
    assert_true(fb_int_wrap(FB_I32, (int64_t)1 << 31) == INT32_MIN && fb_int_wrap(FB_BOOL, 4) == 1);
}

/* What the row says of the order of two operands, by the row's own expressions. */
static void test_orders(void **state)
{
    (void)state;
    static const double floats[] = {-2, 0.5, 1, 3, INFINITY, NAN}, whole[] = {-3, 0, 1, 2, 5, 1};
    for (fb_op op = 0; op < FB_OPS; op++) {
        const fb_op_info *info = fb_op_get(op);
        if (info->cls != FB_CLASS_POINTWISE || info->min_args != 2) {
            assert_false(info->any_order);
            continue;
        }
        bool is_float =
            info->accepts == FB_ACCEPTS_FLOAT || info->accepts == FB_ACCEPTS_NUMBER || info->accepts == FB_ACCEPTS_ANY;
        fb_dtype in = is_float ? FB_F32 : info->accepts == FB_ACCEPTS_LOGIC ? FB_BOOL : FB_I32;
        fb_attrs at = {0};
        fb_node n = {.op = (int)op, .attrs = &at, .dtype = info->result == FB_RESULT_BOOL ? FB_BOOL : in};
        bool same = true;
        for (int i = 0; i < 36; i++) {
            const double *from = is_float ? floats : whole;
            double a = from[i / 6], b = from[i % 6], one, other;
            if (in == FB_BOOL) a = a > 1, b = b > 1;
            assert_true(fb_fold(&n, in, (double[3]){a, b}, &one) && fb_fold(&n, in, (double[3]){b, a}, &other));
            same &= one == other || (isnan(one) && isnan(other));
        }
        if (same != info->any_order) fail_msg("%s: its order makes %s difference", info->name, same ? "no" : "a");
    }
}

static void test_strides(void **state)
{
    (void)state;
    static const struct {
        int rank;
        int64_t dim[4], stride[4], lies[4]; /* and other strides, at which it lies row by row all the same … */
        bool too;                           /* … or does not */
    } cases[] = {
        {0, {0}, {0}, {0}, true},
        {1, {5}, {1}, {2}, false},
        {3, {2, 3, 4}, {12, 4, 1}, {12, 4, 2}, false},
        {3, {2, 1, 4}, {4, 4, 1}, {4, 77, 1}, true},
        {3, {2, 0, 4}, {4, 4, 1}, {0, 4, 1}, false}, /* an empty dim is stepped over as one of one element */
        {4, {2, 3, 1, 1}, {3, 1, 1, 1}, {3, 1, 0, 9}, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_shape s = fb_shape_of(cases[i].rank, cases[i].dim);
        int64_t strides[FB_MAX_RANK];
        fb_shape_strides(&s, strides);
        assert_memory_equal(strides, cases[i].stride, (size_t)s.rank * sizeof *strides);
        assert_true(fb_shape_is_row_major(&s, strides));
        assert_int_equal(fb_shape_is_row_major(&s, cases[i].lies), cases[i].too);
    }
}

static void test_contractions(void **state)
{
    (void)state;
    fb_graph *g = fb_graph_new("products");
    fb_id x = add_input(g, "x", FB_F32, SHAPE(3, 2, 5, 7)), w = add_input(g, "w", FB_F32, SHAPE(7, 4));
    fb_id y = add_op(g, FB_OP_MATMUL, ARGS(x, w), NULL);
    output(g, y, NULL);
    finish(g);
    fb_contraction c = fb_contraction_of(g, y);
    assert_true(c.node == y && c.operand[0] == x && c.operand[1] == w);
    assert_true(c.batch == 6 && c.rows == 5 && c.columns == 4 && c.depth == 7);
    assert_int_equal(fb_node_flops(g, y), 2 * 6 * 5 * 4 * 7);
    fb_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inference),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_attributes_are_normalised),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_scope_errors),
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_assignments),
        cmocka_unit_test(test_users),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_verifier),
        cmocka_unit_test(test_listing),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_contractions),
    };
    return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
