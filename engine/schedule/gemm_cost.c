/* How long a generated contraction takes: copies, instructions and waits of a step, whichever is longest. Needs a tiled
 * nest, and knobs that it has a tile with.
 */
#include "base/mem.h"
#include "nest/parts.h"
#include "schedule/gemm_parts.h"
#include "schedule/thread_cost.h"
#include "schedule/tile.h"
#include "schedule/tile_cost.h"
#include "target/special.h"

#include <math.h>

static bool divides(const fb_nest *nest, const fb_section *s)
{
    bool found = false;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        found |= v->kind == FB_VALUE_OP && v->space != FB_NONE && nest->graph->nodes[v->node].op == FB_OP_DIV;
    }
    return found;
}

/* A sigmoid or tangent in single precision: an exponential, and a division that waits for it. */
static bool is_long(const fb_nest *nest, const fb_value *v)
{
    fb_op op = v->kind == FB_VALUE_OP && v->space != FB_NONE ? nest->graph->nodes[v->node].op : FB_OP_ADD;
    return (op == FB_OP_SIGMOID && fb_dtype_size(v->dtype) > 2) || op == FB_OP_TANH;
}

static int long_ones(const fb_nest *nest, const fb_section *s)
{
    int n = 0;
    for (int i = 0; i < s->n_values; i++) n += is_long(nest, &s->values[i]);
    return n;
}

/* What places are divided by: quotients and remainders of one variable by one number are computed together, once. */
typedef struct {
    struct {
        fb_ix var;
        int64_t by;
    } at[32];
    int n;
} divisions;

static void add_divisions(const fb_nest *nest, fb_ix place, const fb_space *of, divisions *all)
{
    enum { ROOM = 8 };
    int64_t by[ROOM];
    for (int d = 0; d < of->n; d++) {
        int n = fb_ix_divisors(nest->pool, place, of->var[d], by, ROOM);
        for (int i = 0; i < n; i++) {
            bool known = all->n == (int)(sizeof all->at / sizeof *all->at);
            for (int k = 0; k < all->n && !known; k++) known = all->at[k].var == of->var[d] && all->at[k].by == by[i];
            if (!known) all->at[all->n].var = of->var[d], all->at[all->n++].by = by[i];
        }
    }
}

enum { EXP = 12 }; /* instructions of one: see target/special.c */

/* Instructions of an element for them: a window of 11 × 11 took 45 to 60 beyond the others for its three, by seven tiles on
 * an H100, one of 3 × 3 took 62 for three, and one of 3 × 3 × 3 took 40 for five: most of many stay as they are from one
 * element of a thread to its next. Beside tensor cores those of windows were measured alone: 3 × 3 in 16 bits took 112 to
 * 155 µs, where 42 were foreseen without. Few are not counted there. */
static double divided_of(const fb_nest *nest, const fb_section *s)
{
    enum { DIVISION = 18, MOST = 50, FEW = 3 };
    divisions all = {0};
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (v->kind != FB_VALUE_LOAD || v->space == FB_NONE) continue;
        const fb_space *spaces[] = {&s->rows, &s->spaces[v->space]};
        for (int k = 0; k < 2; k++) {
            add_divisions(nest, v->at, spaces[k], &all);
            for (int c = v->when; c != FB_NONE; c = nest->whens[c].outer)
                add_divisions(nest, nest->whens[c].at, spaces[k], &all);
        }
    }
    if (all.n < FEW && fb_tile_on_tensor_cores(nest->tiled)) return 0;
    return DIVISION * all.n < MOST ? DIVISION * all.n : MOST;
}

/* Instructions of a function that takes many, beside the one of any op. */
static double slow_part(const fb_nest *nest, const fb_value *v)
{
    if (v->kind != FB_VALUE_OP) return 0;
    return EXP * fb_special_cost(fb_node_computed_as(nest->graph, v->node), v->dtype, nest->target);
}

/* Instructions for each element of an operand, about: where and whether it is loaded, what is made of it, and which of
 * the parts of a join it is, all of which are computed. */
double fb_gemm_instructions(const fb_nest *nest, const fb_section *s)
{
    enum { LOAD = 3, SELECT = 2 }; /* tests share most of what they compare */
    double n = 0;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (v->space == FB_NONE || is_long(nest, v)) continue;
        for (int c = v->kind == FB_VALUE_LOAD ? v->when : FB_NONE; c != FB_NONE; c = nest->whens[c].outer) n++;
        n += v->kind == FB_VALUE_LOAD ? LOAD : v->kind == FB_VALUE_SELECT ? SELECT : 1;
        n += slow_part(nest, v);
    }
    return n;
}

/* What a thread does while a tile of an operand is computed. It waits for each piece, whose elements are loaded
 * together; or for each element where there is a division, which is a branch. That of a sigmoid never goes the long way
 * round, for its operands are around 1. */
static fb_made_operand made_of(const fb_nest *nest, const fb_operand *o, int phase, bool right, bool along_k)
{
    return (fb_made_operand){.phase = phase,
                             .right = right,
                             .along_k = along_k,
                             .loads = fb_section_loads(&o->section),
                             .instructions = divided_of(nest, &o->section) + fb_gemm_instructions(nest, &o->section),
                             .long_ones = long_ones(nest, &o->section),
                             .divides = divides(nest, &o->section)};
}

/* The same of one that is copied word by word: the cost of a copied word has all but how places are divided. */
static void add_copied(const fb_nest *nest, const fb_operand *o, int phase, bool right, bool along_k,
                       fb_made_operands *all)
{
    double divided = divided_of(nest, &o->section);
    if (divided > 0)
        all->at[all->n++] =
            (fb_made_operand){.phase = phase, .right = right, .along_k = along_k, .instructions = divided};
}

fb_made_operands fb_gemm_made(const fb_nest *nest)
{
    const fb_tiled *t = nest->tiled;
    fb_made_operands all = {.at = fb_calloc((size_t)t->n_phases * (size_t)(t->n_strips + 1), sizeof *all.at)};
    for (int p = 0; p < t->n_phases; p++) {
        const fb_tile_operand left = fb_tile_left(nest, p), right = fb_tile_right(nest, p);
        if (!p) all.left_by_k = left.along_k, all.right_by_k = right.along_k;
        all.left_words |= left.words;
        all.right_words |= right.words;
        if (left.words)
            add_copied(nest, &t->phases[p].left, p, false, left.along_k, &all);
        else if (!left.pieces)
            all.at[all.n++] = made_of(nest, &t->phases[p].left, p, false, left.along_k);
        for (int s = 0; s < t->n_strips && !t->kept && !right.pieces; s++) {
            if (t->phases[p].product[s] == FB_NONE) continue;
            const fb_operand *o = &t->products[t->phases[p].product[s]].right;
            if (right.words)
                add_copied(nest, o, p, true, right.along_k, &all);
            else
                all.at[all.n++] = made_of(nest, o, p, true, right.along_k);
        }
    }
    return all;
}

/* Pieces of an operand's tile that a thread computes, and how much of each: where a tile is deeper than its product,
 * what is beyond is zero without being computed. Neighbours along k are beyond in every piece of a line alike; else
 * whole lines are. */
static double pieces_of(const fb_tiled *t, const fb_made_operand *o, const fb_gemm_tile *x, int piece, double *each)
{
    const int64_t depth = t->phases[o->phase].k;
    const double outer = o->right ? x->strip : x->m, lines = o->along_k || depth > x->k ? x->k : (double)depth;
    *each = o->along_k && depth < piece ? (double)depth : piece;
    return ceil(outer * lines / piece / x->threads);
}

static void make_operands(const fb_nest *nest, const fb_made_operands *all, const fb_gemm_tile *x, double *waits,
                          double *made)
{
    const double load = 0.12;     /* of a wait: those of a few elements overlap (schedule/thread_cost.c) */
    const double long_one = 0.32; /* of a wait: about 120 cycles, exponential and division one after the other */
    int piece = 16 / fb_dtype_size(nest->tiled->dtype);
    for (int i = 0; i < all->n; i++) {
        const fb_made_operand *o = &all->at[i];
        double tiles = (double)fb_gemm_part(nest, x, o->phase) / x->k;
        double each, pieces = tiles * pieces_of(nest->tiled, o, x, piece, &each);
        double elements = pieces * each, loads = each * load * o->loads;
        *waits += (o->divides ? elements : pieces * fmin(loads, 1)) + elements * long_one * o->long_ones;
        *made += elements * o->instructions;
    }
}

/* Waits of a thread that goes through the sums and loads what they are made into results with: for each group of
 * elements, where a row or column may be missing, which is a branch; else a few groups' loads overlap. What one group
 * needs is loaded while the product is at work. The figures are of groups of four: what goes in wider or narrower ones
 * (schedule/tile.h) is counted in fours. */
static double epilogue_waits(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s, const fb_gemm_tile *x)
{
    enum { GROUP = 4 };
    const double alone = 0.73, among_others = 0.25; /* latency of L2 */
    int loads = 0;
    for (int i = 0; i < s->n_values; i++)
        loads += s->values[i].kind == FB_VALUE_LOAD && !fb_nest_is_product(nest, s->values[i].node);
    if (!loads) return 0;
    const fb_tile_epilogue by = fb_tile_epilogue_of(nest, knobs, x);
    double groups = ceil((double)x->m * x->n / (by.vector > 1 ? GROUP : 1) / x->threads);
    return groups > 1 ? groups * (by.few_rows || by.few_columns ? alone : among_others) : 0;
}

/* Parts of sums go through memory, most likely L2: each is stored once, and the last block of a tile to come adds up
 * all. */
static double split_us(const fb_tiled *t, const fb_gemm_tile *x, const fb_machine *m)
{
    double bytes = 2.0 * (double)x->blocks * x->split * x->m * x->n * fb_gemm_sum_bytes(t), clock = fb_cycles_a_us(m);
    if (x->split == 1 || clock <= 0) return 0;
    return fb_time_us(bytes, fb_rate_peak(&m->copy_hot)) + FB_ROUND_CYCLES / clock;
}

fb_lanes_work fb_gemm_lanes(const fb_nest *nest, const fb_made_operands *made, const fb_gemm_tile *x)
{
    fb_lanes_work w = {.blocks = x->blocks,
                       .split = x->split,
                       .near = x->near,
                       .m = x->m,
                       .n = x->n,
                       .k = x->k,
                       .warp_m = x->warp_m,
                       .warp_n = x->warp_n,
                       .slices = x->slices,
                       .rows_by_k = made->left_by_k,
                       .columns_by_k = made->right_by_k,
                       .threads = x->threads,
                       .stages = x->stages,
                       .usual = x->usual,
                       .shared_bytes = x->shared_bytes,
                       .copied = (double)x->k * (x->m * made->left_words + x->n * made->right_words)};
    for (int p = 0; p < nest->tiled->n_phases; p++) w.tiles += (double)fb_gemm_part(nest, x, p) / x->k;
    make_operands(nest, made, x, &w.waits, &w.made);
    return w;
}

/* What a thread waits for with the sums in its hands. */
static double waits_after(const fb_nest *nest, const fb_knobs *knobs, const fb_gemm_tile *x)
{
    double waits = 0;
    for (int i = 0; i < nest->n_sections && !nest->tiled->whole; i++)
        waits += divides(nest, &nest->sections[i]) ? (double)x->m * x->n / x->threads
                                                   : epilogue_waits(nest, knobs, &nest->sections[i], x);
    return waits;
}

static double tile_us(const fb_nest *nest, const fb_knobs *knobs, const fb_made_operands *made, const fb_gemm_tile *x,
                      const fb_machine *m)
{
    const fb_tiled *t = nest->tiled;
    fb_tile_work w = {.dtype = t->dtype,
                      .tensor = x->tensor,
                      .blocks = x->blocks * x->split,
                      .shared_bytes = x->shared_bytes + x->kept_bytes,
                      .threads = x->threads,
                      .sharing = x->sharing,
                      .stages = x->stages,
                      .usual = x->usual,
                      .n_products = 1,
                      .product = {{.warp_m = x->warp_m, .warp_n = x->warp_n}}};
    for (int p = 0; p < t->n_phases; p++) {
        double tiles = (double)fb_gemm_part(nest, x, p) / x->k;
        w.tiles += t->kept ? 1 : tiles; /* else nothing is waited for but the left operand, once */
        w.product[0].k += tiles * x->k;
    }
    make_operands(nest, made, x, &w.waits, &w.made);
    w.bytes = w.product[0].k * (x->m + (t->kept ? 0 : x->n)) * fb_dtype_size(t->dtype);
    const double warps = x->threads / (double)nest->target->warp;
    for (int i = 0; i < nest->n_sections && t->whole; i++)
        w.after += fb_warp_row_cycles(nest, &nest->sections[i], fmin(warps, x->m)) * ceil(x->m / warps);
    w.waits += waits_after(nest, knobs, x);
    return fb_tile_us(m, &w) + split_us(t, x, m);
}

static double direct_us(const fb_nest *nest, const fb_gemm_tile *x, const fb_machine *m)
{
    const double beside_us = 0.1;
    double clock = fb_cycles_a_us(m);
    return clock > 0 ? fb_direct_cycles(nest, x) / clock + beside_us : 0;
}

/* Instructions of slow functions that become of each of a tile's sums. */
static double slow_instructions(const fb_nest *nest)
{
    double n = 0;
    for (int i = 0; i < nest->n_sections; i++) {
        const fb_section *s = &nest->sections[i];
        for (int v = 0; v < s->n_values; v++) n += slow_part(nest, &s->values[v]);
    }
    return n;
}

/* Bytes of an element that are loaded beside its sum, or stored beside one result of the operands' size. */
static double bytes_beside(const fb_nest *nest)
{
    double bytes = -fb_dtype_size(nest->tiled->dtype);
    for (int i = 0; i < nest->n_sections; i++) {
        const fb_section *s = &nest->sections[i];
        const uint32_t all = s->rows.n ? (1u << s->rows.n) - 1 : 0;
        for (int v = 0; v < s->n_values; v++)
            if (s->values[v].kind == FB_VALUE_LOAD && s->values[v].rows == all &&
                !fb_nest_is_product(nest, s->values[v].node))
                bytes += fb_dtype_size(s->values[v].dtype);
        for (int r = 0; r < s->n_roots; r++) bytes += fb_dtype_size(nest->graph->nodes[s->roots[r].node].dtype);
    }
    return fmax(bytes, 0);
}

fb_wide_tile_work fb_gemm_wide_work(const fb_nest *nest, const fb_gemm_tile *x)
{
    const fb_gemm_turns turns = fb_gemm_turns_of(nest, x);
    return (fb_wide_tile_work){.blocks = x->tma ? turns.all * x->cluster * x->split : x->blocks,
                               .tma = x->tma,
                               .split = x->split,
                               .lines = x->tma && fb_tile_epilogue_of(nest, NULL, x).vector > FB_GEMM_TMA_FEW,
                               .made = slow_instructions(nest),
                               .beside = bytes_beside(nest),
                               .m = x->m,
                               .n = x->n,
                               .step = x->k,
                               .a_lines = fb_tile_left(nest, 0).lines,
                               .b_lines = fb_tile_right(nest, 0).lines,
                               .steps = (double)turns.steps,
                               .stages = x->stages,
                               .usual = x->usual};
}

double fb_gemm_us(const fb_nest *nest, const fb_knobs *knobs, const fb_machine *m)
{
    const fb_gemm_tile x = fb_gemm_tile_had(nest, knobs);
    if (x.direct) return direct_us(nest, &x, m);
    if (x.wide) {
        const fb_wide_tile_work work = fb_gemm_wide_work(nest, &x);
        return fb_wide_tile_us(m, &work);
    }
    fb_made_operands made = fb_gemm_made(nest);
    double us;
    if (fb_lanes_are_for(nest->tiled)) {
        fb_lanes_work w = fb_gemm_lanes(nest, &made, &x);
        w.waits += waits_after(nest, knobs, &x) / x.split;
        us = fb_lanes_us(m, &w);
    } else {
        us = tile_us(nest, knobs, &made, &x, m);
    }
    fb_free(made.at);
    return us;
}
