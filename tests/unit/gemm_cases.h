/* Kernels of family gemm, one of each kind: what is run on an emulated GPU (test_gemm) and what NVRTC compiles
 * (test_nvrtc). All nodes of a case are one group. */
#ifndef TESTS_UNIT_GEMM_CASES_H
#define TESTS_UNIT_GEMM_CASES_H

#include "base/mem.h"
#include "base/vec.h"
#include "unit/nest_help.h"

#define OP1(OP, X)    NODE(g, FB_OP_##OP, NULL, NULL, X)
#define OP2(OP, X, Y) NODE(g, FB_OP_##OP, NULL, NULL, X, Y)
#define MATMUL(X, Y)  OP2(MATMUL, X, Y)

static inline fb_id in(fb_graph *g, const char *name, fb_dtype d, fb_shape shape)
{
    return source(g, FB_OP_INPUT, name, shape, d);
}

static inline fb_id turned(fb_graph *g, fb_id x)
{
    fb_attrs at = {.n_axes = g->nodes[x].shape.rank};
    for (int d = 0; d < at.n_axes; d++) at.axes[d] = d < at.n_axes - 2 ? d : 2 * at.n_axes - 3 - d;
    return NODE(g, FB_OP_PERMUTE, NULL, &at, x);
}

static inline fb_id slice_of(fb_graph *g, fb_id x, int dim, int64_t start, int64_t stop, int64_t step)
{
    return NODE(g, FB_OP_SLICE, NULL, &((fb_attrs){.dim = dim, .start = start, .stop = stop, .step = step}), x);
}

static inline fb_id constant(fb_graph *g, fb_dtype d, double value)
{
    return node(g, FB_OP_CONST, NULL, &(fb_attrs){.dtype = d, .value = value}, 0, NULL);
}

static inline fb_id over(fb_graph *g, fb_op op, fb_id x, int axis, bool keep)
{
    return NODE(g, op, NULL, &((fb_attrs){.n_axes = 1, .axes = {axis}, .keepdim = keep}), x);
}

static inline fb_id view_of(fb_graph *g, fb_id x, fb_shape shape)
{
    return NODE(g, FB_OP_VIEW, NULL, &((fb_attrs){.shape = shape}), x);
}

static inline void out(fb_graph *g, fb_id x)
{
    fb_error err;
    if (!fb_graph_output(g, x, NULL, &err)) fail_msg("%s", err.text);
}

/* relu(x) · w + b, gelu. */
static inline void case_plain(fb_graph *g, fb_dtype d)
{
    out(g, MATMUL(in(g, "x", d, SHAPE(37, 29)), in(g, "w", d, SHAPE(29, 41))));
}

static inline void case_dense(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(72, 96)), w = in(g, "w", d, SHAPE(96, 80)), b = in(g, "b", d, SHAPE(80));
    fb_id y = OP2(ADD, MATMUL(OP1(RELU, x), w), b);
    out(g, OP1(TANH, y));
    out(g, y);
}

/* Every operand as it lies in PyTorch: weights [out, in], and a left operand that is turned, too. */
static inline void case_turned(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(64, 48)), w = in(g, "w", d, SHAPE(40, 64)), r = in(g, "r", d, SHAPE(48, 40));
    out(g, OP2(ADD, OP1(GELU, MATMUL(turned(g, x), turned(g, w))), r));
}

static inline void case_tf32(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(40, 50)), w = in(g, "w", d, SHAPE(50, 36));
    out(g, OP1(RELU, NODE(g, FB_OP_MATMUL, NULL, &((fb_attrs){.precision = FB_PRECISION_TF32}), x, w)));
}

static inline void case_batched(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(2, 3, 20, 24)), w = in(g, "w", d, SHAPE(3, 24, 40)), b = in(g, "b", d, SHAPE(40));
    out(g, OP1(RELU, OP2(ADD, MATMUL(x, w), b)));
}

/* One right operand for all: rows of all batches are rows of one product. */
static inline void case_folded(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(3, 14, 32)), w = in(g, "w", d, SHAPE(32, 24)), s = in(g, "s", d, SHAPE(3, 1, 1));
    out(g, OP2(MUL, MATMUL(x, w), s));
}

static inline void case_layer_norm(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(50, 40)), w = in(g, "w", d, SHAPE(40, 72)), b = in(g, "b", d, SHAPE(72));
    out(g, OP1(TANH, layer_norm(g, OP2(ADD, MATMUL(x, w), b))));
}

/* Each element of a row needs the one before it. */
static inline void case_running(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(37, 29)), w = in(g, "w", d, SHAPE(29, 41)), b = in(g, "b", d, SHAPE(41));
    fb_id y = NODE(g, FB_OP_CUMSUM, NULL, &((fb_attrs){.dim = 1}), OP2(ADD, MATMUL(x, w), b));
    out(g, OP2(SUB, y, over(g, FB_OP_AMAX, y, 1, true)));
}

/* The same in each of several heads, beside their sums. */
static inline void case_running_heads(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(37, 29)), w = in(g, "w", d, SHAPE(29, 42));
    fb_id y = view_of(g, MATMUL(x, w), SHAPE(37, 6, 7));
    fb_id running = NODE(g, FB_OP_CUMSUM, NULL, &((fb_attrs){.dim = 2}), y);
    out(g, OP2(SUB, running, over(g, FB_OP_SUM, y, 2, true)));
    out(g, over(g, FB_OP_ARGMAX, running, 2, true));
}

static inline void case_softmax(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(2, 40, 32)), w = in(g, "w", d, SHAPE(2, 33, 32));
    fb_id s = OP2(MUL, MATMUL(x, turned(g, w)), constant(g, d, 0.25));
    out(g, softmax(g, s));
}

/* Softmax of each head by itself, and the sum over all of a row beside it. */
static inline void case_heads(fb_graph *g, fb_dtype d)
{
    fb_id p = MATMUL(in(g, "x", d, SHAPE(36, 32)), in(g, "w", d, SHAPE(32, 48)));
    out(g, softmax(g, view_of(g, p, SHAPE(36, 3, 16))));
}

static inline void lstm_state(fb_graph *g, fb_dtype d, const fb_id *gate, int64_t n, int64_t h)
{
    fb_id c = in(g, "c", d, SHAPE(n, h));
    fb_id next = OP2(ADD, OP2(MUL, OP1(SIGMOID, gate[1]), c), OP2(MUL, OP1(SIGMOID, gate[0]), OP1(TANH, gate[2])));
    out(g, next);
    out(g, OP2(MUL, OP1(SIGMOID, gate[3]), OP1(TANH, next)));
}

/* Both products of an LSTM step, the gates side by side in columns, weights [4 H, in]. */
static inline void case_lstm(fb_graph *g, fb_dtype d)
{
    enum { N = 24, I = 40, H = 24 };
    fb_id x = in(g, "x", d, SHAPE(N, I)), h = in(g, "h", d, SHAPE(N, H));
    fb_id wi = in(g, "wi", d, SHAPE(4 * H, I)), wh = in(g, "wh", d, SHAPE(4 * H, H));
    fb_id bi = in(g, "bi", d, SHAPE(4 * H)), bh = in(g, "bh", d, SHAPE(4 * H)), gate[4];
    fb_id all = OP2(ADD, OP2(ADD, OP2(ADD, MATMUL(x, turned(g, wi)), bi), MATMUL(h, turned(g, wh))), bh);
    for (int i = 0; i < 4; i++) gate[i] = slice_of(g, all, 1, i * H, (i + 1) * H, 1);
    lstm_state(g, d, gate, N, H);
}

/* A weight for each gate. */
static inline void case_gates(fb_graph *g, fb_dtype d)
{
    enum { N = 20, I = 33, H = 24 };
    fb_id x = in(g, "x", d, SHAPE(N, I)), gate[4];
    for (int i = 0; i < 4; i++) gate[i] = OP2(ADD, MATMUL(x, in(g, NULL, d, SHAPE(I, H))), in(g, NULL, d, SHAPE(H)));
    lstm_state(g, d, gate, N, H);
}

/* A GRU: the candidate's state is multiplied before it is added. */
static inline void case_gru(fb_graph *g, fb_dtype d)
{
    enum { N = 18, H = 32 };
    fb_id x = in(g, "x", d, SHAPE(N, H)), h = in(g, "h", d, SHAPE(N, H));
    fb_id wx = in(g, "wx", d, SHAPE(H, 3 * H)), wh = in(g, "wh", d, SHAPE(H, 3 * H));
    fb_id a = MATMUL(x, wx), b = MATMUL(h, wh), ax[3], bx[3];
    for (int i = 0; i < 3; i++) {
        ax[i] = slice_of(g, a, 1, i * H, (i + 1) * H, 1);
        bx[i] = slice_of(g, b, 1, i * H, (i + 1) * H, 1);
    }
    fb_id r = OP1(SIGMOID, OP2(ADD, ax[0], bx[0])), z = OP1(SIGMOID, OP2(ADD, ax[1], bx[1]));
    fb_id n = OP1(TANH, OP2(ADD, ax[2], OP2(MUL, r, bx[2])));
    out(g, OP2(ADD, n, OP2(MUL, z, OP2(SUB, h, n))));
}

/* x W + s (u B) + b: one accumulator. */
static inline void case_low_rank(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(40, 64)), w = in(g, "w", d, SHAPE(64, 48)), u = in(g, "u", d, SHAPE(40, 16));
    fb_id b = in(g, "B", d, SHAPE(16, 48)), bias = in(g, "bias", d, SHAPE(48));
    fb_id update = OP2(MUL, constant(g, d, 0.5), MATMUL(u, b));
    out(g, OP1(RELU, OP2(ADD, OP2(ADD, MATMUL(x, w), update), bias)));
}

/* Operands that are made as they are read: a cast, a gather, a join. */
static inline void case_prologue(fb_graph *g, fb_dtype d)
{
    fb_id table = in(g, "table", FB_F32, SHAPE(11, 20)), index = in(g, "index", FB_I32, SHAPE(30));
    fb_id rows = NODE(g, FB_OP_EMBEDDING, NULL, NULL, table, index), y = in(g, "y", FB_F32, SHAPE(30, 13));
    fb_id x = NODE(g, FB_OP_CAT, NULL, &((fb_attrs){.dim = 1}), rows, y);
    fb_id cast = NODE(g, FB_OP_CAST, NULL, &((fb_attrs){.dtype = d}), x);
    fb_id w = OP2(MUL, in(g, "w", d, SHAPE(33, 28)), in(g, "scale", d, SHAPE(28)));
    out(g, OP1(SIGMOID, MATMUL(cast, w)));
}

/* The product is kept beside what is made of it. */
static inline void case_kept(fb_graph *g, fb_dtype d)
{
    fb_id p = MATMUL(in(g, "x", d, SHAPE(33, 40)), in(g, "w", d, SHAPE(40, 56)));
    out(g, p);
    out(g, OP1(GELU, p));
}

/* Pairs of columns: no strip of a tile has what one element needs. */
static inline void case_pairs(fb_graph *g, fb_dtype d)
{
    fb_id p = MATMUL(in(g, "x", d, SHAPE(21, 32)), in(g, "w", d, SHAPE(32, 48)));
    out(g, OP2(MUL, slice_of(g, p, 1, 0, 48, 2), OP1(SIGMOID, slice_of(g, p, 1, 1, 48, 2))));
}

/* A second layer of one column is a sum over the row. */
static inline void case_head(fb_graph *g, fb_dtype d)
{
    fb_id p = OP1(RELU, MATMUL(in(g, "x", d, SHAPE(35, 32)), in(g, "w", d, SHAPE(32, 64))));
    out(g, OP1(SIGMOID, MATMUL(p, in(g, "v", d, SHAPE(64, 1)))));
}

/* A weight's gradient: few columns of sums, over many rows. */
static inline void case_gradient(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(301, 36)), dy = in(g, "dy", d, SHAPE(301, 44)), w = in(g, "w", d, SHAPE(44, 36));
    out(g, OP2(SUB, w, OP2(MUL, constant(g, d, 0.125), MATMUL(turned(g, dy), x))));
}

/* Windows of 3 × 3 over images with a border, as a product of few rows. */
static inline void windows(fb_graph *g, fb_dtype d, const int64_t x_dim[4], int64_t rows)
{
    enum { SIDE = 3 };
    const int64_t images = x_dim[0], channels = x_dim[1], area = x_dim[2] * x_dim[3];
    fb_id x = in(g, "x", d, SHAPE(images, channels, x_dim[2], x_dim[3])),
          w = in(g, "w", d, SHAPE(rows, channels * SIDE * SIDE));
    fb_attrs border = {.before = {0, 0, 1, 1}, .after = {0, 0, 1, 1}}, turn = {.n_axes = 6, .axes = {0, 1, 4, 5, 2, 3}};
    fb_id y = NODE(g, FB_OP_PAD, NULL, &border, x);
    for (int dim = 2; dim < 4; dim++)
        y = NODE(g, FB_OP_UNFOLD, NULL, &((fb_attrs){.dim = dim, .stop = SIDE, .step = 1}), y);
    y = view_of(g, NODE(g, FB_OP_PERMUTE, NULL, &turn, y), SHAPE(images, channels * SIDE * SIDE, area));
    out(g, OP1(RELU, OP2(ADD, MATMUL(w, y), in(g, "b", d, SHAPE(rows, 1)))));
}

static inline void case_windows(fb_graph *g, fb_dtype d)
{
    windows(g, d, (int64_t[]){60, 2, 16, 14}, 13);
}

/* More steps than a block has the left operand's rows of at once. */
static inline void case_deep_windows(fb_graph *g, fb_dtype d)
{
    windows(g, d, (int64_t[]){90, 22, 16, 14}, 15);
}

/* Eight channels at a time, two rounds of them and half a one. */
static inline void case_many_windows(fb_graph *g, fb_dtype d)
{
    windows(g, d, (int64_t[]){70, 40, 16, 14}, 15);
}

/* As many channels as nothing divides. */
static inline void case_odd_windows(fb_graph *g, fb_dtype d)
{
    windows(g, d, (int64_t[]){70, 13, 16, 14}, 15);
}

/* So few columns of an image that a tile takes those of several; the last one is not full. */
static inline void case_small_windows(fb_graph *g, fb_dtype d)
{
    windows(g, d, (int64_t[]){190, 24, 7, 5}, 40);
}

/* For whole warpgroups: more steps of k than stages, rows and columns beyond the last whole tile, and two results. */
static inline void case_wide(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(200, 400)), w = in(g, "w", d, SHAPE(400, 264)), b = in(g, "b", d, SHAPE(264));
    fb_id y = OP2(ADD, MATMUL(x, w), b);
    out(g, OP1(RELU, y));
    out(g, OP1(SIGMOID, y));
}

/* Neither operand lies along k; a last step that is not whole. */
static inline void case_wide_turned(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(72, 136)), w = in(g, "w", d, SHAPE(136, 72)), r = in(g, "r", d, SHAPE(136, 136));
    out(g, OP2(ADD, MATMUL(turned(g, x), turned(g, w)), r));
}

/* The right operand along k, of each batch its own; columns that no eight divide. */
static inline void case_wide_batched(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(3, 70, 64)), w = in(g, "w", d, SHAPE(3, 131, 64));
    out(g, OP1(TANH, MATMUL(x, turned(g, w))));
}

/* Two products side by side, a gate and what it lets through. */
static inline void gated(fb_graph *g, fb_dtype d, int64_t k)
{
    fb_id x = in(g, "x", d, SHAPE(130, k)), w = in(g, "w", d, SHAPE(k, 136)), v = in(g, "v", d, SHAPE(k, 136));
    fb_id a = MATMUL(x, w);
    out(g, OP2(MUL, OP2(MUL, a, OP1(SIGMOID, a)), MATMUL(x, v)));
}

static inline void case_wide_gated(fb_graph *g, fb_dtype d)
{
    gated(g, d, 192);
}

/* Steps enough that two blocks share what they read. */
static inline void case_wide_gated_deep(fb_graph *g, fb_dtype d)
{
    gated(g, d, 1000);
}

static inline void case_wide_deep(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(200, 968)), w = in(g, "w", d, SHAPE(968, 264)), r = in(g, "r", d, SHAPE(200, 264));
    out(g, OP2(ADD, MATMUL(x, w), r));
}

/* The last pair of rows of tiles has but one; columns that no eight divide. */
static inline void case_wide_single(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(1090, 968)), w = in(g, "w", d, SHAPE(35, 968));
    out(g, OP1(TANH, MATMUL(x, turned(g, w))));
}

/* Columns of which two or four are stored at once, beside what is loaded for them. */
static inline void few_at_once(fb_graph *g, fb_dtype d, int64_t columns, int64_t k)
{
    fb_id x = in(g, "x", d, SHAPE(130, k)), w = in(g, "w", d, SHAPE(columns, k));
    fb_id r = in(g, "r", d, SHAPE(130, columns)), b = in(g, "b", d, SHAPE(columns));
    out(g, OP2(ADD, OP2(ADD, MATMUL(x, turned(g, w)), b), r));
}

static inline void case_wide_twos(fb_graph *g, fb_dtype d)
{
    few_at_once(g, d, 134, 64);
}

static inline void case_wide_twos_deep(fb_graph *g, fb_dtype d)
{
    few_at_once(g, d, 134, 456);
}

static inline void case_wide_fours(fb_graph *g, fb_dtype d)
{
    few_at_once(g, d, 268, 64);
}

static inline void case_wide_ones(fb_graph *g, fb_dtype d)
{
    few_at_once(g, d, 99, 64);
}

/* One left operand for all batches. */
static inline void case_wide_shared(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(72, 128)), w = in(g, "w", d, SHAPE(3, 128, 72));
    out(g, OP1(RELU, MATMUL(x, w)));
}

/* Rows that are so far apart but now and then: no copy engine takes them. */
static inline void case_wide_uneven(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(3, 50, 128)), w = in(g, "w", d, SHAPE(128, 136));
    fb_id rows = NODE(g, FB_OP_VIEW, NULL, &((fb_attrs){.shape = SHAPE(120, 128)}), slice_of(g, x, 1, 0, 40, 1));
    out(g, OP1(RELU, MATMUL(rows, w)));
}

/* x W + (u B) / 2, a thin product that lies in another way; of several rounds. */
static inline void case_wide_sum(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(200, 328)), w = in(g, "w", d, SHAPE(328, 264)), b = in(g, "b", d, SHAPE(264, 16));
    fb_id u = in(g, "u", d, SHAPE(16, 200)), update = MATMUL(turned(g, u), turned(g, b));
    fb_id sum = OP2(ADD, MATMUL(x, w), OP2(MUL, update, constant(g, d, 0.5)));
    out(g, OP1(TANH, OP2(ADD, sum, in(g, "r", d, SHAPE(200, 264)))));
}

/* A gate of two sums of products each. */
static inline void case_wide_sums(fb_graph *g, fb_dtype d)
{
    fb_id x = in(g, "x", d, SHAPE(130, 136)), h = in(g, "h", d, SHAPE(130, 200)), sum[2];
    for (int i = 0; i < 2; i++)
        sum[i] = OP2(ADD, MATMUL(x, in(g, NULL, d, SHAPE(136, 136))), MATMUL(h, in(g, NULL, d, SHAPE(200, 136))));
    out(g, OP2(MUL, OP1(SIGMOID, sum[0]), OP1(TANH, sum[1])));
}

/* Knobs of a tile by whole warpgroups. */
#define TILE(M, N)                                                                                                     \
    {FB_KNOB_TILE_K, 64}, {FB_KNOB_TILE_M, M},                                                                         \
    {                                                                                                                  \
        FB_KNOB_TILE_N, N                                                                                              \
    }
#define WIDE(M, N)                                                                                                     \
    {                                                                                                                  \
        TILE(M, N)                                                                                                     \
    }

static const struct gemm_case {
    const char *name;
    void (*build)(fb_graph *g, fb_dtype d);
    fb_dtype dtype;
    struct {
        fb_knob knob;
        int64_t value;
    } knobs[4]; /* value 0: none */
    int units;  /* multiprocessors; 0: a device's */
} gemm_cases[] = {
    {"plain f32", case_plain, FB_F32, {}, 0},
    {"plain f64", case_plain, FB_F64, {}, 0},
    {"plain bf16", case_plain, FB_BF16, {}, 0},
    {"plain in three parts", case_plain, FB_F32, {{FB_KNOB_SPLIT_K, 3}}, 0},
    {"dense f32", case_dense, FB_F32, {}, 0},
    {"dense f16", case_dense, FB_F16, {}, 0},
    {"dense f16, large tile", case_dense, FB_F16, {{FB_KNOB_TILE_M, 128}, {FB_KNOB_TILE_N, 128}}, 0},
    {"dense f32, tall tile", case_dense, FB_F32, {{FB_KNOB_TILE_M, 128}, {FB_KNOB_TILE_N, 64}}, 0},
    {"dense f16, deep tile", case_dense, FB_F16, {{FB_KNOB_TILE_K, 64}, {FB_KNOB_STAGES, 2}}, 0},
    {"dense bf16 in two parts", case_dense, FB_BF16, {{FB_KNOB_SPLIT_K, 2}}, 0},
    {"turned f32", case_turned, FB_F32, {}, 0},
    {"turned f16", case_turned, FB_F16, {}, 0},
    {"turned bf16", case_turned, FB_BF16, {}, 0},
    {"gradient f32", case_gradient, FB_F32, {}, 0},
    {"gradient f32 in two parts", case_gradient, FB_F32, {{FB_KNOB_SPLIT_K, 2}}, 0},
    {"gradient f32 in four parts", case_gradient, FB_F32, {{FB_KNOB_SPLIT_K, 4}, {FB_KNOB_TILE_M, 64}}, 0},
    {"gradient f64", case_gradient, FB_F64, {}, 0},
    {"tf32", case_tf32, FB_F32, {}, 0},
    {"batched f32", case_batched, FB_F32, {}, 0},
    {"batched f16 in two parts", case_batched, FB_F16, {{FB_KNOB_SPLIT_K, 2}}, 0},
    {"folded f16", case_folded, FB_F16, {}, 0},
    {"layer_norm f32", case_layer_norm, FB_F32, {}, 0},
    {"layer_norm f16", case_layer_norm, FB_F16, {}, 0},
    {"softmax bf16", case_softmax, FB_BF16, {}, 0},
    {"running f32", case_running, FB_F32, {}, 0},
    {"running f16", case_running, FB_F16, {}, 0},
    {"running heads f32", case_running_heads, FB_F32, {}, 0},
    {"heads f32", case_heads, FB_F32, {}, 0},
    {"lstm f32", case_lstm, FB_F32, {}, 0},
    {"lstm f16", case_lstm, FB_F16, {}, 0},
    {"gates f32", case_gates, FB_F32, {}, 0},
    {"gates bf16", case_gates, FB_BF16, {}, 0},
    {"gru f16", case_gru, FB_F16, {}, 0},
    {"low rank f32", case_low_rank, FB_F32, {}, 0},
    {"low rank bf16", case_low_rank, FB_BF16, {}, 0},
    {"prologue f16", case_prologue, FB_F16, {}, 0},
    {"prologue f32", case_prologue, FB_F32, {}, 0},
    {"windows f32", case_windows, FB_F32, {}, 0},
    {"windows f32 in a tile", case_windows, FB_F32, {{FB_KNOB_TILE_M, 16}}, 0},
    {"deep windows f32", case_deep_windows, FB_F32, {}, 0},
    {"many windows f32", case_many_windows, FB_F32, {}, 0},
    {"odd windows f32", case_odd_windows, FB_F32, {}, 0},
    {"small windows f32", case_small_windows, FB_F32, {}, 0},
    {"kept f16", case_kept, FB_F16, {}, 0},
    {"pairs f32", case_pairs, FB_F32, {}, 0},
    {"head f16", case_head, FB_F16, {}, 0},
    {"wide bf16", case_wide, FB_BF16, WIDE(128, 256), 0},
    {"wide f16, two stages", case_wide, FB_F16, {TILE(128, 256), {FB_KNOB_STAGES, 2}}, 0},
    {"wide f16, narrow", case_wide, FB_F16, WIDE(128, 128), 0},
    {"wide turned bf16", case_wide_turned, FB_BF16, WIDE(128, 256), 0},
    {"wide batched f16", case_wide_batched, FB_F16, WIDE(128, 256), 0},
    {"wide gated bf16", case_wide_gated, FB_BF16, WIDE(128, 256), 0},
    {"wide bf16, a block for all tiles", case_wide, FB_BF16, WIDE(128, 256), 1},
    {"wide batched f16, two blocks", case_wide_batched, FB_F16, WIDE(128, 256), 2},
    {"wide f16, a pair for all tiles", case_wide_deep, FB_F16, WIDE(128, 256), 2},
    {"wide gated bf16, a pair", case_wide_gated_deep, FB_BF16, WIDE(128, 256), 2},
    {"wide bf16, pairs, one of them single", case_wide_single, FB_BF16, WIDE(128, 256), 4},
    {"wide f16, shared rows", case_wide_shared, FB_F16, WIDE(128, 256), 2},
    {"wide f16, two columns at once", case_wide_twos, FB_F16, WIDE(128, 256), 0},
    {"wide bf16, four columns at once", case_wide_fours, FB_BF16, WIDE(128, 256), 0},
    {"wide bf16, one column at once", case_wide_ones, FB_BF16, WIDE(128, 256), 0},
    {"wide uneven f16", case_wide_uneven, FB_F16, WIDE(128, 256), 0},
    {"wide bf16, 192 columns", case_wide, FB_BF16, WIDE(128, 192), 0},
    {"wide turned f16, 192 columns", case_wide_turned, FB_F16, WIDE(128, 192), 1},
    {"wide batched bf16, 64 columns", case_wide_batched, FB_BF16, WIDE(128, 64), 0},
    {"wide f16, 64 rows", case_wide, FB_F16, WIDE(64, 64), 1},
    {"wide bf16, 64 rows, one column at once", case_wide_ones, FB_BF16, WIDE(64, 64), 2},
    {"wide f16, two products of 64 columns", case_wide_gated, FB_F16, WIDE(128, 128), 0},
    {"wide bf16, a sum of two", case_wide_sum, FB_BF16, WIDE(128, 128), 1},
    {"wide f16, a sum of two, many tiles", case_wide_sum, FB_F16, WIDE(64, 64), 2},
    {"wide f16, a gate of sums", case_wide_sums, FB_F16, WIDE(128, 256), 1},
    {"wide bf16, shared by 2", case_wide_deep, FB_BF16, {TILE(128, 256), {FB_KNOB_SPLIT_K, 2}}, 0},
    {"wide f16, shared by 4", case_wide, FB_F16, {TILE(128, 128), {FB_KNOB_SPLIT_K, 4}}, 0},
    {"wide bf16, shared by 8", case_wide_deep, FB_BF16, {TILE(128, 256), {FB_KNOB_SPLIT_K, 8}}, 0},
    {"wide turned f16, shared by 2", case_wide_turned, FB_F16, {TILE(64, 64), {FB_KNOB_SPLIT_K, 2}}, 0},
    {"wide gated f16, shared by 4", case_wide_gated_deep, FB_F16, {TILE(128, 256), {FB_KNOB_SPLIT_K, 4}}, 0},
    {"wide bf16, one column at once, shared by 2", case_wide_single, FB_BF16, {TILE(128, 64), {FB_KNOB_SPLIT_K, 2}}, 0},
    {"wide f16, two at once, shared by 4", case_wide_twos_deep, FB_F16, {TILE(128, 256), {FB_KNOB_SPLIT_K, 4}}, 0},
};
enum { GEMM_CASES = sizeof gemm_cases / sizeof *gemm_cases };

/* The case's nodes as one generated kernel; the verdict of the edit that was refused is a failed test. */
static inline fb_plan *try_edit(fb_plan *plan, const fb_edit *e, fb_verdict *v)
{
    fb_plan *next = NULL;
    *v = fb_plan_try(plan, e, &next);
    if (!next) return NULL;
    fb_plan_free(plan);
    return next;
}

/* The machine that a case is planned for. */
static inline fb_machine gemm_machine(const fb_machine *m, const struct gemm_case *c)
{
    fb_machine own = *m;
    if (c->units) own.units = c->units;
    return own;
}

static inline fb_plan *gemm_plan(fb_planner *p, const struct gemm_case *c)
{
    const fb_graph *g = fb_planner_graph(p);
    fb_plan *plan = fb_plan_new(p);
    FB_VEC(fb_id) nodes = {0};
    fb_verdict v = {0};
    fb_id product = FB_NONE;
    for (fb_id i = 0; i < g->n_nodes && plan; i++) {
        if (!fb_node_is_computed(g, i)) continue;
        FB_VEC_PUSH(&nodes, i);
        if (fb_node_class(g, i) != FB_CLASS_CONTRACTION || product != FB_NONE) continue;
        product = i;
        plan = try_edit(plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = i, .b = FB_NONE}, &v);
    }
    if (plan && nodes.n > 1)
        plan = try_edit(plan, &(fb_edit){.kind = FB_EDIT_FUSE_ALL, .n_nodes = nodes.n, .nodes = nodes.at}, &v);
    for (size_t i = 0; i < sizeof c->knobs / sizeof *c->knobs && plan && c->knobs[i].value; i++)
        plan = try_edit(
            plan,
            &(fb_edit){
                .kind = FB_EDIT_KNOB, .a = product, .b = FB_NONE, .knob = c->knobs[i].knob, .value = c->knobs[i].value},
            &v);
    FB_VEC_FREE(&nodes);
    if (!plan) fail_msg("%s: %s", c->name, v.text);
    const fb_group *group = fb_plan_group(plan, 0);
    if (fb_plan_groups(plan) != 1 || group->family != FB_FAMILY_GEMM)
        fail_msg("%s: %d groups, of family %s", c->name, fb_plan_groups(plan), fb_family_name(group->family));
    return plan;
}

static inline fb_graph *gemm_graph(const struct gemm_case *c)
{
    fb_graph *g = fb_graph_new(c->name);
    c->build(g, c->dtype);
    return finished(g);
}

#endif
