/* The tile of a product in single precision, by multiply-adds: of all tiles, warps, shares of k in a block and parts of
 * k in several blocks the ones that take the fewest cycles (schedule/tile_cost.h). So a small product fills as many
 * multiprocessors as a large one: a weight's gradient, of few tiles and a long k, by parts.
 *
 * requires  a tiled nest for which fb_lanes_are_for
 * provides  the same tile for legality, cost and code: it asks the nest alone, never a machine's calibration
 */
#include "base/integer.h"
#include "base/mem.h"
#include "schedule/gemm_parts.h"
#include "schedule/tile.h"

#include <math.h>

enum {
    ROWS = 4,
    COLUMNS = 8,    /* of lanes in a warp */
    MOST_SUMS = 64, /* of a thread: more, and the compiler runs out of registers */
    MANY_SUMS = 32, /* … with more than these a block has fewer threads */
    MOST_THREADS = 512,
    THREADS_OF_MANY = 256,
    MOST_WIDE = 256, /* columns of all strips */
    LEAST_K = 32,    /* of a part */
};

/* In ascending order; 0 ends a list. A knob's value stands in place of it. */
static const int row_tiles[] = {16, 32, 64, 128, 0}, strips[] = {16, 32, 64, 96, 128, 0};
static const int warp_rows[] = {16, 32, 64, 0}, warp_columns[] = {16, 32, 64, 0};
static const int slices[] = {1, 2, 4, 0}, splits[] = {1, 2, 4, 8, 16, 32, 0};

typedef struct {
    const fb_nest *nest;
    const fb_tiled *t;
    const int64_t *value; /* knobs */
    fb_made_operands made;
    int64_t deepest; /* k of the longest phase */
    int least_threads;
    fb_gemm_tile best;
    double cycles; /* of the best; INFINITY: there is none yet */
} search;

bool fb_lanes_are_for(const fb_tiled *t)
{
    return t->dtype == FB_F32 && !fb_tile_on_tensor_cores(t) && !t->whole && !t->kept && !t->round;
}

static void judge(search *w, fb_gemm_tile x)
{
    x.shared_bytes = fb_gemm_shared(w->t, &x);
    if (x.shared_bytes > w->t->shared_bytes) return;
    fb_lanes_work work = fb_gemm_lanes(w->nest, &w->made, &x);
    work.usual = work.stages;
    double cycles = fb_lanes_cycles(w->t->units, w->t->shared_bytes, &work);
    if (!(cycles < w->cycles)) return;
    w->cycles = cycles;
    w->best = x;
}

/* Blocks of a cluster start together or not at all, and a cluster has to find its multiprocessors side by side: pairs
 * always do, of larger ones some multiprocessors stay without (recorded on an H100: 32 clusters of 4 took as long as
 * twice as many, 24 did not). */
static bool may_be_near(const search *w, const fb_gemm_tile *x)
{
    enum { MOST = 8, PAIR = 2, OF = 25, REACHED = 23 };
    if (!w->nest->clusters || !w->nest->shared_bytes || x->split > MOST || x->m % x->split) return false;
    if (x->split & (x->split - 1)) return false;
    int64_t room = x->split == PAIR ? w->t->units : (int64_t)w->t->units * REACHED / OF;
    return x->blocks * x->split <= room;
}

static void try_splits(search *w, fb_gemm_tile x)
{
    for (int i = 0; splits[i]; i++) {
        x.split = w->value[FB_KNOB_SPLIT_K] ? (int)w->value[FB_KNOB_SPLIT_K] : splits[i];
        bool fits = w->deepest / x.split >= LEAST_K &&
                    x.blocks * x.split * x.m * x.n * fb_gemm_sum_bytes(w->t) <= FB_GEMM_MOST_PARTS;
        if (x.split > 1 && !fits && !w->value[FB_KNOB_SPLIT_K]) return;
        x.near = x.split > 1 && may_be_near(w, &x);
        judge(w, x);
        if (w->value[FB_KNOB_SPLIT_K]) return;
    }
}

static void try_warps(search *w, fb_gemm_tile x)
{
    for (int i = 0; warp_rows[i]; i++) {
        for (int j = 0; warp_columns[j]; j++) {
            for (int s = 0; slices[s]; s++) {
                int sums = warp_rows[i] * warp_columns[j] / (ROWS * COLUMNS);
                if (x.m % warp_rows[i] || x.n % warp_columns[j] || sums > MOST_SUMS) continue;
                x.warp_m = warp_rows[i];
                x.warp_n = warp_columns[j];
                x.slices = slices[s];
                x.threads = ROWS * COLUMNS * (x.m / x.warp_m) * (x.n / x.warp_n) * x.slices;
                if (x.threads > (sums > MANY_SUMS ? THREADS_OF_MANY : MOST_THREADS)) continue;
                if (x.threads < w->least_threads) continue;
                if (x.k % (x.slices * 4)) continue;
                try_splits(w, x);
            }
        }
    }
}

/* No tile but the smallest is twice as large as the result, and the smallest is for what is no larger. */
static bool is_too_large(const int *list, int at, int64_t extent)
{
    return at > 0 && list[at - 1] >= extent;
}

static bool is_too_small(const int *list, int at, int64_t extent)
{
    return at == 0 && list[at] < extent;
}

static void try_tiles(search *w, fb_gemm_tile x)
{
    const bool rows_set = w->value[FB_KNOB_TILE_M], columns_set = w->value[FB_KNOB_TILE_N];
    for (int i = 0; row_tiles[i] && (!i || !rows_set); i++) {
        if (!rows_set && is_too_large(row_tiles, i, w->t->rows)) break;
        if (!rows_set && is_too_small(row_tiles, i, w->t->rows)) continue;
        if (!rows_set) x.m = row_tiles[i];
        for (int j = 0; strips[j] && (!j || !columns_set); j++) {
            if (!columns_set && is_too_large(strips, j, w->t->columns)) break;
            if (!columns_set && is_too_small(strips, j, w->t->columns)) continue;
            if (!columns_set) x.strip = strips[j];
            x.n = x.strip * w->t->n_strips;
            if (x.n > MOST_WIDE && !columns_set) break;
            x.blocks = fb_gemm_blocks(w->t, &x);
            try_warps(w, x);
        }
    }
}

bool fb_lanes_choose(const fb_nest *nest, const int64_t *value, fb_gemm_tile *x, double *cycles)
{
    enum { DEEP = 32, FLAT = 16, FEW_THREADS = 128 };
    search w = {.nest = nest, .t = nest->tiled, .value = value, .made = fb_gemm_made(nest), .cycles = INFINITY};
    for (int p = 0; p < w.t->n_phases; p++)
        if (w.t->phases[p].k > w.deepest) w.deepest = w.t->phases[p].k;
    if (!value[FB_KNOB_TILE_K]) x->k = w.deepest > FLAT ? DEEP : FLAT;
    /* one for each scheduler, if there are such tiles; of a batch many blocks are on a multiprocessor */
    if (w.t->batch == 1) w.least_threads = FEW_THREADS;
    try_tiles(&w, *x);
    w.least_threads = 0;
    if (!isfinite(w.cycles)) try_tiles(&w, *x);
    fb_free(w.made.at);
    if (!isfinite(w.cycles)) return false;
    *x = w.best;
    *cycles = w.cycles;
    return true;
}
