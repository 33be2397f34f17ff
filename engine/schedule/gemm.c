/* A contraction's tile: begun large, halved until it fits and fills the machine, then as many stages as there is room
 * for; in single precision the one of all whose cycles are fewest (schedule/lanes.c); knobs go before all of it. Needs
 * a nest; says why where nothing fits. gemm_cost.c says how long it takes.
 */
#include "schedule/gemm.h"

#include "base/integer.h"
#include "nest/parts.h"
#include "schedule/gemm_parts.h"
#include "schedule/tile.h"

#include <math.h>

enum {
    LEAST = 16,            /* rows and columns of a tile: what tensor cores multiply at once */
    MOST_ROW = 1024,       /* columns of a tile that holds whole rows */
    MOST_SUMS = 128 * 128, /* of a block: more, and threads run out of registers */
    MOST_GRID = 65535,
    REGISTERS = 65536, /* of a multiprocessor; besides its sums a thread needs about OTHER */
    OTHER = 40,
};

int fb_gemm_sum_bytes(const fb_tiled *t)
{
    return t->dtype == FB_F64 ? 8 : 4;
}

static const char *name_of(const fb_nest *nest)
{
    return nest->graph->nodes[nest->tiled->products[0].node].name;
}

/* ---- sizes ---- */

int64_t fb_gemm_blocks(const fb_tiled *t, const fb_gemm_tile *x)
{
    int64_t across = t->whole ? 1 : fb_ceil_div(fb_tile_across(t, x), x->strip);
    return across * fb_ceil_div(t->rows, x->m) * (x->joined ? 1 : t->batch);
}

/* A tile lies along either dimension, whichever is contiguous in memory, and is padded by 16 bytes a line. */
static int64_t tile_bytes(const fb_tiled *t, int outer, int k)
{
    int64_t size = fb_dtype_size(t->dtype), pad = 16 / size;
    int64_t along = outer * (k + pad), across = k * (outer + pad);
    return (along > across ? along : across) * size;
}

int64_t fb_gemm_steps(const fb_tiled *t, const fb_gemm_tile *x, int phase)
{
    return fb_ceil_div(t->phases[phase].k, x->k);
}

static int64_t all_steps(const fb_tiled *t, const fb_gemm_tile *x)
{
    int64_t steps = 0;
    for (int p = 0; p < t->n_phases; p++) steps += fb_gemm_steps(t, x, p);
    return steps;
}

int64_t fb_gemm_kept_bytes(const fb_nest *nest, const fb_gemm_tile *tile, int phase)
{
    return fb_gemm_steps(nest->tiled, tile, phase) * tile_bytes(nest->tiled, tile->n, tile->k);
}

/* Steps of both operands and two counts for each; then the sums, or beside them the warps' parts of these. */
static int64_t wide_bytes(const fb_gemm_tile *x)
{
    int64_t steps = (int64_t)x->stages * ((x->m + x->n) * x->k * 2 + 2 * 8), sums = (int64_t)x->m * (x->n + 8) * 4;
    if (x->tma) return steps + (int64_t)x->m * FB_GEMM_TMA_LINE * 4 + FB_GEMM_TMA_MAP_BYTES;
    return steps > sums ? steps : sums;
}

int64_t fb_gemm_shared(const fb_tiled *t, const fb_gemm_tile *x)
{
    if (x->direct) return fb_direct_shared(x);
    if (x->wide) return wide_bytes(x);
    int64_t operands = x->stages * (tile_bytes(t, x->m, x->k) + (t->kept ? 0 : tile_bytes(t, x->n, x->k)));
    int64_t sums = (int64_t)x->m * (x->n + (x->tensor ? 8 : 4)) * fb_gemm_sum_bytes(t);
    return operands > sums ? operands : sums;
}

/* A product of fewer steps than stages leaves the last tiles of the right operand unused. */
static int64_t unused_of(const fb_tiled *t, const fb_gemm_tile *x)
{
    int64_t steps = 1, sums = (int64_t)x->m * (x->n + (x->tensor ? 8 : 4)) * fb_gemm_sum_bytes(t), least;
    for (int p = 0; p < t->n_phases; p++) steps = fb_gemm_steps(t, x, p) > steps ? fb_gemm_steps(t, x, p) : steps;
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
    while (fb_gemm_blocks(t, x) < t->units) {
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
        if (t->kept && fb_gemm_blocks(t, &next) > t->units) break;
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
    while (x->m > LEAST && (x->m * x->n > MOST_SUMS || fb_gemm_blocks(t, x) < t->units || x->m / 2 >= t->rows))
        x->m /= 2;
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
    if (set[FB_KNOB_TILE_K] || t->dtype == FB_F64 || fb_gemm_blocks(t, x) > t->units) return;
    for (;;) {
        fb_gemm_tile twice = *x;
        twice.k *= 2;
        if (twice.k * fb_dtype_size(t->dtype) > (x->tensor ? MOST_BYTES : MOST_WITHOUT) || twice.k * 2 > deepest)
            return;
        if (fb_gemm_shared(t, &twice) > t->shared_bytes) return;
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
        if (fb_gemm_steps(t, x, p) > most) most = fb_gemm_steps(t, x, p);
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
        if (x->strip < LEAST)
            return FB_REFUSE(why, UNSUPPORTED, FB_RULE_KNOB,
                             "knob `tile_n` is shared by %d products side by side: it is %d at least", t->n_strips,
                             LEAST * t->n_strips);
        if (value[FB_KNOB_TILE_N] % (LEAST * t->n_strips))
            return FB_REFUSE(why, UNSUPPORTED, FB_RULE_KNOB, "knob `tile_n` is a multiple of %d here",
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

/* Few rows: what takes time is that the right operand comes. So many blocks have a part of k each, that every multiprocessor
 * waits for several, and for about as many. (8 × 4096 by two of 4096 × 11,008 in bf16 on an H200: 172 blocks 75 µs, 344 56, 688
 * 54.) */
static void split_few_rows(const fb_tiled *t, fb_gemm_tile *x)
{
    enum { FEW_ROWS = 64, SHARING = 3, LEAST_STEPS = 8, MOST = 8 };
    if (!x->tensor || !fb_dtype_is_half(t->dtype) || t->whole || t->kept || t->round || t->n_phases != 1) return;
    const int64_t blocks = fb_gemm_blocks(t, x), most = fb_gemm_steps(t, x, 0) / LEAST_STEPS;
    int64_t split = fb_ceil_div((int64_t)SHARING * t->units, blocks);
    if (t->rows > FEW_ROWS || blocks < t->units) return;
    if (split > most) split = most;
    if (split > MOST) split = MOST;
    if (split > 1 && blocks * split * x->m * x->n * fb_gemm_sum_bytes(t) <= FB_GEMM_MOST_PARTS) x->split = (int)split;
}

/* ---- all of it ---- */

/* Blocks are begun row of tiles by row of tiles, each of which reads all of the right operand. What the cache does not
 * hold of that would come from memory every time. (2048 × 768 × 50257 in bf16 on an H200 moved 1.4 GB, of 286 MB.) */
static int band_of(const fb_nest *nest, const fb_gemm_tile *x)
{
    enum { TOGETHER = 16 };
    const fb_tiled *t = nest->tiled;
    int64_t bytes = 0;
    for (int p = 0; p < t->n_products; p++)
        bytes += t->products[p].k * t->products[p].columns * fb_dtype_size(t->dtype);
    if (t->whole || x->near || x->grid[1] == 1 || bytes <= nest->cache_bytes / 2) return 0;
    return x->grid[1] < TOGETHER ? x->grid[1] : TOGETHER;
}

fb_gemm_turns fb_gemm_turns_of(const fb_nest *nest, const fb_gemm_tile *x)
{
    const fb_tiled *t = nest->tiled;
    fb_gemm_turns turns = {fb_ceil_div(t->rows, (int64_t)x->m * x->cluster), fb_ceil_div(t->columns, x->strip), 0, 0};
    turns.all = turns.rows * turns.columns * t->batch;
    turns.steps = fb_ceil_div(all_steps(t, x), x->split);
    return turns;
}

/* Blocks stay, a multiprocessor each, and clusters go through the tiles by bands: what a round of them reads is then
 * about as wide as it is high. */
static void stay(const fb_nest *nest, fb_gemm_tile *x)
{
    enum { BAND = 8 };
    const fb_gemm_turns turns = fb_gemm_turns_of(nest, x);
    const int units = nest->tiled->units;
    const int blocks = x->cluster * x->split;
    const int64_t clusters = units > blocks ? units / blocks : 1;
    x->grid[0] = (int)(turns.all < clusters ? turns.all : clusters) * blocks;
    x->grid[1] = x->grid[2] = 1;
    x->band = (int)(turns.rows < BAND ? turns.rows : BAND);
}

static bool fits(const fb_nest *nest, fb_gemm_tile *x, fb_verdict *why)
{
    const fb_tiled *t = nest->tiled;
    int64_t sums = (int64_t)x->m * x->n;
    bool has_warps = x->threads > 0 || choose_warps(nest->target->warp, x);
    if (!has_warps || sums + (int64_t)OTHER * x->threads > REGISTERS)
        return FB_REFUSE(
            why, UNSUPPORTED, FB_RULE_SIZE,
            "a tile of %d × %d of `%s` needs more registers than a multiprocessor has: %lld for its sums alone, of %d",
            x->m, x->n, name_of(nest), (long long)sums, REGISTERS);
    x->shared_bytes = fb_gemm_shared(t, x);
    if (x->shared_bytes > t->shared_bytes)
        return FB_REFUSE(why, UNSUPPORTED, FB_RULE_SIZE,
                         "tiles of `%s` need %lld KiB of shared memory, and a block has %lld", name_of(nest),
                         (long long)fb_ceil_div(x->shared_bytes, 1024), (long long)t->shared_bytes / 1024);
    x->blocks = fb_gemm_blocks(t, x);
    if (x->tma) {
        stay(nest, x);
        return true;
    }
    int64_t rows = fb_ceil_div(t->rows, x->m), batch = (x->joined ? 1 : t->batch) * (x->near ? 1 : x->split);
    if (rows > MOST_GRID || batch > MOST_GRID)
        return FB_REFUSE(why, UNSUPPORTED, FB_RULE_SIZE,
                         "`%s` needs more blocks than a grid may have: %lld tiles of rows, %lld of batches",
                         name_of(nest), (long long)rows, (long long)batch);
    if (x->split > 1 && x->blocks * x->split * sums * fb_gemm_sum_bytes(t) > FB_GEMM_MOST_PARTS)
        return FB_REFUSE(why, UNSUPPORTED, FB_RULE_KNOB,
                         "knob `split_k`: %d parts of `%s` would take %lld MiB, and 64 are the most", x->split,
                         name_of(nest), (long long)(x->blocks * x->split * sums * fb_gemm_sum_bytes(t)) >> 20);
    x->grid[0] = t->whole ? 1 : (int)fb_ceil_div(fb_tile_across(t, x), x->strip) * (x->near ? x->split : 1);
    x->grid[1] = (int)rows;
    x->grid[2] = (int)batch;
    x->band = band_of(nest, x);
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

/* How deep a tile is and how many are under way, by what there is room for. */
static void settle(const fb_nest *nest, const int64_t *set, fb_gemm_tile *x)
{
    const fb_tiled *t = nest->tiled;
    deepen(t, set, x);
    if (t->kept && x->tensor && !set[FB_KNOB_STAGES]) send_for_all(t, x);
    if (fb_gemm_shared(t, x) > t->shared_bytes && !set[FB_KNOB_STAGES]) x->stages = 2;
    while (fb_gemm_shared(t, x) > t->shared_bytes && x->m > LEAST && !set[FB_KNOB_TILE_M]) x->m /= 2;
    if (fb_gemm_shared(t, x) > t->shared_bytes && !set[FB_KNOB_TILE_K]) x->k /= 2;
}

enum {
    WIDE_ROWS = 64, /* of a warpgroup */
    WIDE_STEP = 64,
    WIDE_GROUP = 128, /* threads of one */
    WIDE_STAGES = 4,
    SMALL_STAGES = 8, /* … of 24 KiB and less: they take 4 % less (a number of stages is best a power of two) */
    SMALL_STAGE = 24 << 10,
    BOX = 64, /* columns of a copy */
};

static bool phase_lies_evenly(const fb_nest *nest, int phase)
{
    const fb_phase *p = &nest->tiled->phases[phase];
    const bool along_k = fb_tile_right(nest, phase).along_k;
    fb_tile_even even;
    if (!fb_tile_left_even(nest, phase, &even)) return false;
    for (int s = 0; s < nest->tiled->n_strips; s++)
        if (p->product[s] == FB_NONE || !fb_tile_right_even(nest, p->product[s], along_k, &even)) return false;
    return true;
}

/* Can the copy engine bring its operands, whatever the tile? */
static bool lies_evenly(const fb_nest *nest)
{
    for (int p = 0; p < nest->tiled->n_phases; p++)
        if (!phase_lies_evenly(nest, p)) return false;
    return true;
}

/* Does it, where they lie evenly? Each copy is of one strip. */
static bool comes_by_tma(const fb_nest *nest, const fb_gemm_tile *x)
{
    if (x->strip % BOX) return false;
    const fb_gemm_turns turns = fb_gemm_turns_of(nest, x);
    return turns.all <= INT32_MAX / turns.steps; /* all are counted in an int */
}

/* Pairs where blocks have several tiles of many steps: elsewhere they take longer to begin than sharing saves (on an
 * H200, 2048³: 28.1 µs, 27.3 alone; 4096³ with turned rows: 215, 222 alone). Not where a tile more than there are rows
 * for would be too many. */
static int cluster_of(const fb_nest *nest, const fb_gemm_tile *x)
{
    enum { MANY_ROWS = 8, MANY_STEPS = 16 };
    const fb_tiled *t = nest->tiled;
    const int64_t rows = fb_ceil_div(t->rows, x->m);
    if (fb_gemm_blocks(t, x) <= t->units || all_steps(t, x) < MANY_STEPS || x->n / BOX % 2) return 1;
    return rows % 2 == 0 || rows > MANY_ROWS ? 2 : 1;
}

/* May a cluster's blocks share the steps of each tile? They do where multiprocessors would have none, or as a knob asks for. All
 * clusters are there at once: larger ones leave multiprocessors of a GPC over (on an H200, 24 clusters of four are there at once,
 * 32 are not, nor 16 of eight). Each gets a part of every strip's columns, in whole lines of four threads. (Their sums have to have
 * room where the steps were: wide_fits.) */
static bool splits(const fb_tiled *t, const fb_gemm_tile *x, bool asked)
{
    enum { LINES = 32, LEAST_STEPS = 4, PAIR = 2 };
    const int64_t all = all_steps(t, x), part = fb_ceil_div(all, x->split);
    if (!x->tma || t->n_phases > 1 || x->strip % ((int64_t)x->split * LINES)) return false;
    const int64_t room = x->split > PAIR ? (int64_t)t->units * 3 / 4 : t->units;
    if (fb_gemm_blocks(t, x) * x->split > room || part * (x->split - 1) >= all) return false;
    return asked || part >= LEAST_STEPS;
}

/* A tile by whole warpgroups that has room, with as many stages as fit; `even`: its operands lie so. */
static bool wide_fits(const fb_nest *nest, const int64_t *set, bool even, fb_gemm_tile *x)
{
    const fb_tiled *t = nest->tiled;
    x->strip = x->n / t->n_strips;
    x->warp_m = WIDE_ROWS;
    x->warp_n = x->n;
    x->threads = WIDE_GROUP * (x->m / WIDE_ROWS + 1);
    if (x->n % t->n_strips || x->strip % LEAST) return false;
    x->cluster = x->split > 1 ? 1 : cluster_of(nest, x);
    x->tma = even && comes_by_tma(nest, x);
    x->near = x->split > 1;
    if (!x->tma) x->cluster = 1;
    if (!x->tma && (t->n_phases > 1 || x->m != 2 * WIDE_ROWS || (x->n != 128 && x->n != 256))) return false;
    if (x->split > 1 && !splits(t, x, set[FB_KNOB_SPLIT_K] != 0)) return false;
    const bool small = x->tma && (x->m + x->n) * WIDE_STEP * 2 <= SMALL_STAGE;
    const int usual = small ? SMALL_STAGES : WIDE_STAGES;
    for (x->stages = set[FB_KNOB_STAGES] ? (int)set[FB_KNOB_STAGES] : usual; x->stages > 1; x->stages--)
        if (fb_gemm_shared(t, x) <= t->shared_bytes)
            return x->split == 1 || (int64_t)x->m * x->n * 2 <= (int64_t)x->stages * (x->m + x->n) * x->k;
        else if (set[FB_KNOB_STAGES])
            return false;
    return false;
}

/* By whole warpgroups, where these have a product of 16 bits as it lies in memory; or where a knob asks for their step. The tile
 * is the one of which all rounds take least: small ones reach more multiprocessors. (In bf16 on an H200, with a gelu: 1024 ×
 * 3072 × 768 by 128 × 192 14.9 µs, by 128 × 128 19, by warps 33; 512 × 1024 × 1024 by 64 × 64 9.5, by 128 × 64 10.6, by warps
 * 12.8. 64 of 1024 × 1024 × 64, a step of k: 43 µs, 73 by warps.) Without the copy engine, only where there are tiles for all
 * multiprocessors. Not in a stage: a kernel of several has as many threads as the largest, and then too few registers for
 * each. */
static bool choose_wide(const fb_nest *nest, const int64_t *set, fb_gemm_tile *out)
{
    enum {
        LEAST_STEPS = 4, /* of k, where there are not … */
        MANY = 2,        /* … tiles of this many sums for each multiprocessor */
        TILE = 128 * 128,
        SPLITS = 4, /* 1, 2, 4, 8 */
    };
    static const struct {
        int m, n;
    } tiles[] = {{128, 256}, {128, 192}, {128, 128}, {128, 64}, {64, 64}};
    const fb_tiled *t = nest->tiled;
    bool machine = t->capability == 9 && nest->clusters, asked = set[FB_KNOB_TILE_K] == WIDE_STEP;
    int64_t k = 0;
    if (!machine || nest->stage || !fb_dtype_is_half(t->dtype) || t->whole || t->kept || t->round) return false;
    if (set[FB_KNOB_TILE_K] && !asked) return false;
    for (int p = 0; p < t->n_phases; p++) {
        if (!fb_tile_left(nest, p).pieces || !fb_tile_right(nest, p).pieces) return false;
        k += t->phases[p].k;
    }
    const bool even = lies_evenly(nest), many = t->batch * t->rows * t->columns >= (int64_t)MANY * TILE * t->units;
    const int64_t least = even && many ? 1 : LEAST_STEPS;
    if (!asked && (k < least * WIDE_STEP || t->rows < 2 * WIDE_ROWS)) return false;
    double best = INFINITY;
    for (size_t i = 0; i < SPLITS * (sizeof tiles / sizeof *tiles); i++) {
        fb_gemm_tile x = {.tensor = true, .wide = true, .split = 1 << i % SPLITS, .slices = 1, .k = WIDE_STEP};
        x.m = tiles[i / SPLITS].m;
        x.n = tiles[i / SPLITS].n;
        if ((set[FB_KNOB_TILE_M] && set[FB_KNOB_TILE_M] != x.m) || (set[FB_KNOB_TILE_N] && set[FB_KNOB_TILE_N] != x.n))
            continue;
        if (set[FB_KNOB_SPLIT_K] && set[FB_KNOB_SPLIT_K] != x.split) continue;
        if (!wide_fits(nest, set, even, &x)) continue;
        x.blocks = fb_gemm_blocks(t, &x);
        if (!asked && !x.tma && x.blocks < t->units) continue;
        const fb_wide_tile_work work = fb_gemm_wide_work(nest, &x);
        double cycles = fb_wide_tile_cycles(t->units, &work);
        if (cycles >= best) continue;
        best = cycles;
        *out = x;
    }
    return best < INFINITY;
}

static bool choose(const fb_nest *nest, const fb_knobs *knobs, fb_gemm_tile *out, fb_verdict *why)
{
    const fb_tiled *t = nest->tiled;
    bool halves = fb_dtype_size(t->dtype) == 2;
    fb_gemm_tile x = {.tensor = fb_tile_on_tensor_cores(t), .stages = 3, .split = 1, .slices = 1};
    x.k = halves ? 32 : t->dtype == FB_F64 ? 8 : 16;
    if (t->capability < 8 && t->dtype == FB_BF16)
        return FB_REFUSE(why, UNSUPPORTED, FB_RULE_SIZE,
                         "`%s` is a product in bf16, which tensor cores have from compute capability 8.0 on",
                         name_of(nest));
    const int64_t *set = (knobs ? knobs : &fb_knobs_automatic)->value;
    fb_gemm_tile lanes = x, direct, wide;
    double cycles, of_direct;
    if (choose_wide(nest, set, &wide)) {
        x = wide;
    } else if (fb_lanes_are_for(t) && take_knobs(nest, set, &lanes, why) &&
               fb_lanes_choose(nest, set, &lanes, &cycles)) {
        x = fb_direct_choose(nest, set, &direct, &of_direct) && of_direct < cycles ? direct : lanes;
    } else {
        if (!t->whole)
            choose_extents(t, &x);
        else if (!choose_whole(nest, &x, why))
            return false;
        if (!take_knobs(nest, set, &x, why)) return false;
        settle(nest, set, &x);
        if (!set[FB_KNOB_SPLIT_K] && !nest->stage) split_few_rows(t, &x);
    }
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
    return fb_ceil_div(fb_gemm_steps(nest->tiled, tile, phase), tile->split) * tile->k;
}
