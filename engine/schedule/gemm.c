/* A contraction's tile: begun large, halved until it fits and fills the machine, then as many stages as there is room
 * for; knobs go before all of it. And its cost: copies, instructions and waits of a step, whichever is longest. Needs a
 * nest; says why where nothing fits.
 */
#include "schedule/gemm.h"

#include "base/integer.h"
#include "nest/parts.h"
#include "schedule/thread_cost.h"
#include "schedule/tile.h"
#include "schedule/tile_cost.h"
#include "target/special.h"

#include <math.h>

enum {
    LEAST = 16,            /* rows and columns of a tile: what tensor cores multiply at once */
    MOST_ROW = 1024,       /* columns of a tile that holds whole rows */
    MOST_SUMS = 128 * 128, /* of a block: more, and threads run out of registers */
    MOST_GRID = 65535,
    REGISTERS = 65536, /* of a multiprocessor; besides its sums a thread needs about OTHER */
    OTHER = 40,
};
#define MOST_PARTS ((int64_t)64 << 20) /* bytes of memory for the parts of split sums */

static int sum_bytes(const fb_tiled *t)
{
    return t->dtype == FB_F64 ? 8 : 4;
}

static const char *name_of(const fb_nest *nest)
{
    return nest->graph->nodes[nest->tiled->products[0].node].name;
}

/* ---- sizes ---- */

static int64_t blocks_of(const fb_tiled *t, const fb_gemm_tile *x)
{
    return (t->whole ? 1 : fb_ceil_div(t->columns, x->strip)) * fb_ceil_div(t->rows, x->m) * t->batch;
}

/* A tile lies along either dimension, whichever is contiguous in memory, and is padded by 16 bytes a line. */
static int64_t tile_bytes(const fb_tiled *t, int outer, int k)
{
    int64_t size = fb_dtype_size(t->dtype), pad = 16 / size;
    int64_t along = outer * (k + pad), across = k * (outer + pad);
    return (along > across ? along : across) * size;
}

static int64_t steps_of(const fb_tiled *t, const fb_gemm_tile *x, int phase)
{
    return fb_ceil_div(t->phases[phase].k, x->k);
}

int64_t fb_gemm_kept_bytes(const fb_nest *nest, const fb_gemm_tile *tile, int phase)
{
    return steps_of(nest->tiled, tile, phase) * tile_bytes(nest->tiled, tile->n, tile->k);
}

static int64_t shared_of(const fb_tiled *t, const fb_gemm_tile *x)
{
    int64_t operands = x->stages * (tile_bytes(t, x->m, x->k) + (t->kept ? 0 : tile_bytes(t, x->n, x->k)));
    int64_t sums = (int64_t)x->m * (x->n + (x->tensor ? 8 : 4)) * sum_bytes(t);
    return operands > sums ? operands : sums;
}

/* A product of fewer steps than stages leaves the last tiles of the right operand unused. */
static int64_t unused_of(const fb_tiled *t, const fb_gemm_tile *x)
{
    int64_t steps = 1, sums = (int64_t)x->m * (x->n + (x->tensor ? 8 : 4)) * sum_bytes(t), least;
    for (int p = 0; p < t->n_phases; p++) steps = steps_of(t, x, p) > steps ? steps_of(t, x, p) : steps;
    if (steps >= x->stages) return 0;
    least = x->stages * tile_bytes(t, x->m, x->k) + steps * tile_bytes(t, x->n, x->k);
    return x->shared_bytes - (least > sums ? least : sums);
}

/* As few warps as keep at most 64 sums a thread, in even shapes; but four where the tile has room for them. */
static bool choose_warps(int warp, fb_gemm_tile *x)
{
    enum { SUMS = 64, FEW_WARPS = 4, MOST_WARPS = 32 };
    int best = 0;
    x->warp_m = x->m >= 128 ? 64 : x->m >= 64 ? 32 : 16;
    for (int n = LEAST; n <= 64; n += LEAST) {
        int warps = x->m / x->warp_m * (x->n / n);
        if (x->n % n || x->warp_m * n / warp > SUMS || warps > MOST_WARPS) continue;
        if (!best || warps >= FEW_WARPS || (!x->tensor && n <= 32)) best = n;
    }
    x->warp_n = best;
    x->threads = best ? warp * (x->m / x->warp_m) * (x->n / best) : 0;
    return best != 0;
}

/* Halves the tile while it is larger than the result, or leaves multiprocessors idle. What stays on chip needs a block
 * of its own for each tile: then there are no more of them than multiprocessors. */
static void choose_extents(const fb_tiled *t, fb_gemm_tile *x)
{
    int least = t->dtype == FB_F64 ? 16 : 32;
    x->m = t->dtype == FB_F64 ? 64 : 128;
    int strip = x->m / t->n_strips < LEAST ? LEAST : x->m / t->n_strips / LEAST * LEAST;
    while (x->m > LEAST && x->m / 2 >= t->rows) x->m /= 2;
    while (strip >= 2 * LEAST && strip / 2 >= t->columns) strip = strip / 2 / LEAST * LEAST;
    x->strip = strip;
    while (blocks_of(t, x) < t->units) {
        fb_gemm_tile next = *x;
        bool rows = x->m > least && x->m >= x->strip * t->n_strips;
        if (rows)
            next.m /= 2;
        else if (x->strip >= 2 * LEAST && x->strip * t->n_strips > least)
            next.strip = x->strip / 2 / LEAST * LEAST;
        else if (x->m > LEAST && t->dtype != FB_F64)
            next.m /= 2;
        else
            break;
        if (t->kept && blocks_of(t, &next) > t->units) break;
        *x = next;
    }
    x->n = x->strip * t->n_strips;
}

static bool choose_whole(const fb_nest *nest, fb_gemm_tile *x, fb_verdict *why)
{
    const fb_tiled *t = nest->tiled;
    int64_t unit = t->columns * t->n_strips > 256 ? 64 : LEAST, strip = fb_ceil_div(t->columns, unit) * unit;
    if (strip * t->n_strips > MOST_ROW)
        return FB_REFUSE(why, UNSUPPORTED, FB_RULE_REDUCED_FIRST,
                         "`%s` needs whole rows of `%s`: %s%lld columns, and a tile holds at most %d",
                         nest->graph->nodes[nest->sections[0].roots[0].node].name, name_of(nest),
                         t->n_strips > 1 ? "several times " : "", (long long)t->columns, MOST_ROW);
    x->strip = (int)strip;
    x->n = x->strip * t->n_strips;
    x->m = 128;
    while (x->m > LEAST && (x->m * x->n > MOST_SUMS || blocks_of(t, x) < t->units || x->m / 2 >= t->rows)) x->m /= 2;
    return true;
}

/* Where a multiprocessor has one block, nothing else hides how long a tile takes to come: so more of k at once, as far
 * as there is k and memory. */
static void deepen(const fb_tiled *t, const int64_t *set, fb_gemm_tile *x)
{
    enum { MOST_BYTES = 256, MOST_WITHOUT = 128 }; /* of k in a tile, with and without tensor cores */
    int64_t deepest = 0;
    for (int p = 0; p < t->n_phases; p++)
        if (t->phases[p].k > deepest) deepest = t->phases[p].k;
    if (set[FB_KNOB_TILE_K] || t->dtype == FB_F64 || blocks_of(t, x) > t->units) return;
    for (;;) {
        fb_gemm_tile twice = *x;
        twice.k *= 2;
        if (twice.k * fb_dtype_size(t->dtype) > (x->tensor ? MOST_BYTES : MOST_WITHOUT) || twice.k * 2 > deepest)
            return;
        if (shared_of(t, &twice) > t->shared_bytes) return;
        *x = twice;
    }
}

/* Where right operands stay, a step waits for the left one alone: all its tiles are sent for at once, if there is room.
 */
static void send_for_all(const fb_tiled *t, fb_gemm_tile *x)
{
    enum { MOST_STAGES = 8 };
    int64_t most = 0;
    for (int p = 0; p < t->n_phases; p++)
        if (steps_of(t, x, p) > most) most = steps_of(t, x, p);
    x->stages = (int)(most + 1 < MOST_STAGES ? most + 1 : MOST_STAGES);
    if (x->stages < 2) x->stages = 2;
}

/* ---- knobs ---- */

static bool refuse_knob(fb_verdict *why, const char *knob, const char *reason)
{
    return FB_REFUSE(why, UNSUPPORTED, FB_RULE_KNOB, "knob `%s` %s", knob, reason);
}

static bool take_knobs(const fb_nest *nest, const int64_t *value, fb_gemm_tile *x, fb_verdict *why)
{
    const fb_tiled *t = nest->tiled;
    if (value[FB_KNOB_TILE_M]) x->m = (int)value[FB_KNOB_TILE_M];
    if (value[FB_KNOB_TILE_N]) {
        if (t->whole) return refuse_knob(why, "tile_n", "is what whole rows need, which this kernel keeps on chip");
        x->strip = (int)value[FB_KNOB_TILE_N] / t->n_strips;
        if (x->strip % LEAST || x->strip < LEAST)
            return FB_REFUSE(why, UNSUPPORTED, FB_RULE_KNOB,
                             "knob `tile_n` is shared by %d products side by side: it is %d at least", t->n_strips,
                             LEAST * t->n_strips);
        x->n = x->strip * t->n_strips;
    }
    if (value[FB_KNOB_TILE_K]) x->k = (int)value[FB_KNOB_TILE_K];
    if (value[FB_KNOB_STAGES]) x->stages = (int)value[FB_KNOB_STAGES];
    if (value[FB_KNOB_SPLIT_K]) x->split = (int)value[FB_KNOB_SPLIT_K];
    int step = !x->tensor ? 16 / fb_dtype_size(t->dtype) : fb_dtype_size(t->dtype) == 2 ? 16 : 8;
    if (x->k % step) return FB_REFUSE(why, UNSUPPORTED, FB_RULE_KNOB, "knob `tile_k` is a multiple of %d here", step);
    if (x->stages < 2) return refuse_knob(why, "stages", "is 2 at least: one tile is loaded while another is used");
    return true;
}

/* ---- all of it ---- */

static bool fits(const fb_nest *nest, fb_gemm_tile *x, fb_verdict *why)
{
    const fb_tiled *t = nest->tiled;
    int64_t sums = (int64_t)x->m * x->n;
    if (!choose_warps(nest->target->warp, x) || sums + (int64_t)OTHER * x->threads > REGISTERS)
        return FB_REFUSE(
            why, UNSUPPORTED, FB_RULE_SIZE,
            "a tile of %d × %d of `%s` needs more registers than a multiprocessor has: %lld for its sums alone, of %d",
            x->m, x->n, name_of(nest), (long long)sums, REGISTERS);
    x->shared_bytes = shared_of(t, x);
    if (x->shared_bytes > t->shared_bytes)
        return FB_REFUSE(why, UNSUPPORTED, FB_RULE_SIZE,
                         "tiles of `%s` need %lld KiB of shared memory, and a block has %lld", name_of(nest),
                         (long long)fb_ceil_div(x->shared_bytes, 1024), (long long)t->shared_bytes / 1024);
    x->blocks = blocks_of(t, x);
    int64_t rows = fb_ceil_div(t->rows, x->m), batch = t->batch * x->split;
    if (rows > MOST_GRID || batch > MOST_GRID)
        return FB_REFUSE(why, UNSUPPORTED, FB_RULE_SIZE,
                         "`%s` needs more blocks than a grid may have: %lld tiles of rows, %lld of batches",
                         name_of(nest), (long long)rows, (long long)batch);
    if (x->split > 1 && x->blocks * x->split * sums * sum_bytes(t) > MOST_PARTS)
        return FB_REFUSE(why, UNSUPPORTED, FB_RULE_KNOB,
                         "knob `split_k`: %d parts of `%s` would take %lld MiB, and 64 are the most", x->split,
                         name_of(nest), (long long)(x->blocks * x->split * sums * sum_bytes(t)) >> 20);
    x->grid[0] = t->whole ? 1 : (int)fb_ceil_div(t->columns, x->strip);
    x->grid[1] = (int)rows;
    x->grid[2] = (int)batch;
    return true;
}

/* Whole rows are multiplied first and gone through afterwards: two blocks of a multiprocessor do one beside the other,
 * where both have room for it. Warps are square then, for the fewest fetches and registers (on an H100, 512 columns of
 * 64 products: 77 µs alone, 60 two of them, 58 with square warps). */
static void share(const fb_nest *nest, fb_gemm_tile *x)
{
    enum { TWO = 2, SIDE = 32, MOST_THREADS = 512, RESERVE = 1024 };
    const fb_tiled *t = nest->tiled;
    fb_gemm_tile two = *x;
    bool square = x->m == SIDE && x->n % SIDE == 0 && x->n / SIDE >= 8;
    if (!t->whole || !x->tensor || t->kept || x->blocks <= t->units || !square) return;
    two.shared_bytes -= unused_of(t, x);
    two.warp_m = two.warp_n = SIDE;
    two.threads = nest->target->warp * (x->n / SIDE);
    if (TWO * (two.shared_bytes + RESERVE) > t->shared_bytes + RESERVE || two.threads > MOST_THREADS) return;
    two.sharing = TWO;
    *x = two;
}

static bool choose(const fb_nest *nest, const fb_knobs *knobs, fb_gemm_tile *out, fb_verdict *why)
{
    const fb_tiled *t = nest->tiled;
    bool halves = fb_dtype_size(t->dtype) == 2, tf32 = t->dtype == FB_F32 && t->precision == FB_PRECISION_TF32;
    fb_gemm_tile x = {.tensor = halves || tf32, .stages = 3, .split = 1};
    x.k = halves ? 32 : t->dtype == FB_F64 ? 8 : 16;
    if (t->capability < 8)
        return FB_REFUSE(why, UNSUPPORTED, FB_RULE_SIZE,
                         "tiles of `%s` would be copied in the background, which needs compute capability 8.0",
                         name_of(nest));
    if (!t->whole)
        choose_extents(t, &x);
    else if (!choose_whole(nest, &x, why))
        return false;
    const int64_t *set = (knobs ? knobs : &fb_knobs_automatic)->value;
    if (!take_knobs(nest, set, &x, why)) return false;
    deepen(t, set, &x);
    if (t->kept && x.tensor && !set[FB_KNOB_STAGES]) send_for_all(t, &x);
    if (shared_of(t, &x) > t->shared_bytes && !set[FB_KNOB_STAGES]) x.stages = 2;
    while (shared_of(t, &x) > t->shared_bytes && x.m > LEAST && !set[FB_KNOB_TILE_M]) x.m /= 2;
    if (shared_of(t, &x) > t->shared_bytes && !set[FB_KNOB_TILE_K]) x.k /= 2;
    for (int p = 0; p < t->n_phases && t->kept; p++) x.kept_bytes += fb_gemm_kept_bytes(nest, &x, p);
    if (t->kept && x.split > 1)
        return FB_REFUSE(why, UNSUPPORTED, FB_RULE_KNOB, "knob `split_k`: `%s` cannot stay in shared memory in parts",
                         name_of(nest));
    if (!fits(nest, &x, why)) return false;
    share(nest, &x);
    *out = x;
    return true;
}

static int stages_of(const fb_nest *nest, const fb_knobs *knobs)
{
    fb_gemm_tile x;
    fb_verdict ignored;
    return choose(nest, knobs, &x, &ignored) ? x.stages : 0;
}

bool fb_gemm_tile_of(const fb_nest *nest, const fb_knobs *knobs, fb_gemm_tile *out, fb_verdict *why)
{
    if (!choose(nest, knobs, out, why)) return false;
    out->usual = fb_usual_stages(nest, knobs, out->stages, stages_of);
    return true;
}

fb_gemm_tile fb_gemm_tile_had(const fb_nest *nest, const fb_knobs *knobs)
{
    fb_gemm_tile tile;
    fb_verdict why;
    if (!fb_gemm_tile_of(nest, knobs, &tile, &why)) FB_ASSERT(fb_gemm_tile_of(nest, NULL, &tile, &why));
    return tile;
}

int64_t fb_gemm_part(const fb_nest *nest, const fb_gemm_tile *tile, int phase)
{
    return fb_ceil_div(steps_of(nest->tiled, tile, phase), tile->split) * tile->k;
}

/* ---- cost ---- */

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

/* Instructions for each element of an operand, about: where and whether it is loaded, what is made of it, and which of
 * the parts of a join it is, all of which are computed. */
static double instructions_of(const fb_nest *nest, const fb_section *s)
{
    enum { LOAD = 3, SELECT = 2, EXP = 12 }; /* EXP: see target/special.c; tests share most of what they compare */
    double n = 0;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (v->space == FB_NONE || is_long(nest, v)) continue;
        for (int c = v->kind == FB_VALUE_LOAD ? v->when : FB_NONE; c != FB_NONE; c = nest->whens[c].outer) n++;
        n += v->kind == FB_VALUE_LOAD ? LOAD : v->kind == FB_VALUE_SELECT ? SELECT : 1;
        if (v->kind == FB_VALUE_OP)
            n += EXP * fb_special_cost(fb_node_computed_as(nest->graph, v->node), v->dtype, nest->target);
    }
    return n;
}

/* What a thread does while a tile of an operand is computed. It waits for each piece, whose elements are loaded
 * together; or for each element where there is a division, which is a branch. That of a sigmoid never goes the long way
 * round, for its operands are around 1. */
static void make_operand(const fb_nest *nest, const fb_operand *o, const fb_gemm_tile *x, int in_tile, double tiles,
                         fb_tile_work *w)
{
    const double load = 0.12;     /* of a wait: those of a few elements overlap (schedule/thread_cost.c) */
    const double long_one = 0.32; /* of a wait: about 120 cycles, exponential and division one after the other */
    const fb_tiled *t = nest->tiled;
    int piece = 16 / fb_dtype_size(t->dtype);
    double pieces = tiles * ceil((double)in_tile * x->k / piece / x->threads), elements = pieces * piece;
    double loads = piece * load * fb_section_loads(&o->section);
    w->waits += (divides(nest, &o->section) ? elements : pieces * fmin(loads, 1)) +
                elements * long_one * long_ones(nest, &o->section);
    w->made += elements * instructions_of(nest, &o->section);
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
    double bytes = 2.0 * (double)x->blocks * x->split * x->m * x->n * sum_bytes(t), clock = fb_cycles_a_us(m);
    if (x->split == 1 || clock <= 0) return 0;
    return fb_time_us(bytes, fb_rate_peak(&m->copy_hot)) + FB_ROUND_CYCLES / clock;
}

double fb_gemm_us(const fb_nest *nest, const fb_knobs *knobs, const fb_machine *m)
{
    const fb_tiled *t = nest->tiled;
    const fb_gemm_tile x = fb_gemm_tile_had(nest, knobs);
    fb_tile_work w = {.dtype = t->dtype,
                      .tensor = x.tensor,
                      .blocks = x.blocks * x.split,
                      .shared_bytes = x.shared_bytes + x.kept_bytes,
                      .threads = x.threads,
                      .sharing = x.sharing,
                      .stages = x.stages,
                      .usual = x.usual,
                      .n_products = 1,
                      .product = {{.warp_m = x.warp_m, .warp_n = x.warp_n}}};
    for (int p = 0; p < t->n_phases; p++) {
        double tiles = (double)fb_gemm_part(nest, &x, p) / x.k;
        bool right = !t->kept && !fb_tile_right(nest, p).pieces;
        if (!fb_tile_left(nest, p).pieces) make_operand(nest, &t->phases[p].left, &x, x.m, tiles, &w);
        for (int s = 0; s < t->n_strips && right; s++)
            if (t->phases[p].product[s] != FB_NONE)
                make_operand(nest, &t->products[t->phases[p].product[s]].right, &x, x.strip, tiles, &w);
        w.tiles += t->kept ? 1 : tiles; /* else nothing is waited for but the left operand, once */
        w.product[0].k += tiles * x.k;
    }
    w.bytes = w.product[0].k * (x.m + (t->kept ? 0 : x.n)) * fb_dtype_size(t->dtype);
    for (int i = 0; i < nest->n_sections && t->whole; i++)
        w.after += fb_warp_row_cycles(nest, &nest->sections[i]) * ceil(x.m / (x.threads / (double)nest->target->warp));
    for (int i = 0; i < nest->n_sections && !t->whole; i++)
        w.waits += divides(nest, &nest->sections[i]) ? (double)x.m * x.n / x.threads
                                                     : epilogue_waits(nest, knobs, &nest->sections[i], &x);
    return fb_tile_us(m, &w) + split_us(t, &x, m);
}
