/* How a recurrence in single precision is dealt to clusters: of all ways that fit, the one whose step is shortest by a
 * count of cycles: what a quarter of a multiprocessor issues for a set of rows, or what goes through shared memory,
 * whichever takes longer, for all sets, and of the way to the other blocks what no other set's work hides.
 *
 * Needs a nest of family gemm whose one product is of f32 as it is (IEEE). */
#include "schedule/cluster_f32.h"

#include "base/integer.h"
#include "nest/parts.h"
#include "schedule/cluster_parts.h"

#include <math.h>

enum {
    CHUNK = 4, /* as in kernels/cluster_f32.cuh: of k that a lane takes at a time, */
    PIECE = 4, /* and columns that are sent together */
    MOST_WARPS = 32,
    OTHER = 24, /* registers that a thread needs besides what is counted below */
};

/* Columns of a lane, and lanes that share k. */
static const struct {
    int slices, each;
} lanes[] = {{16, 1}, {16, 2}, {32, 1}, {32, 2}, {32, 3}, {32, 4}};

static const int batches[] = {2, 4, 8};

typedef struct {
    int columns, chunks, split, mine; /* as the kernel has them */
} shares;

/* The cycles of a step, and those before the first one, in which blocks fetch their weights. Measured on an H200
 * (2026-11), an LSTM of 384: of about 20 ways to deal out 64 rows to clusters of 16 and 8, and 512 rows, which it was
 * fitted to, most took within 10 % of this, and the one furthest off 20. A warp's instructions are not always there to
 * be issued, and what is made of the sums is made by all warps at once: exponentials and divisions that wait for each
 * other. Clusters of 16 were 7 at a time, of 8 15. */
static double cycles_of(const fb_nest *nest, fb_cluster_tile *x, const shares *h)
{
    const double exchange = 500, a_set = 100, made = 130, a_batch = 30, stalls = 1.5, a_read = 4, a_shuffle = 2,
                 start = 20000;
    const fb_tiled *t = nest->tiled;
    int warps = x->threads / nest->target->warp, around = (warps + 3) / 4, left = h->chunks - x->held, turns = 0;
    while (x->slices / (x->batch * h->split) >> (turns + 1)) turns++;
    double multiplies = (double)h->chunks * CHUNK * x->batch * h->columns;
    double reads = h->chunks * x->batch + (double)left * h->columns;
    double shuffles = (x->batch - 1) * h->columns + (double)(h->split - 1 + turns) * h->columns / h->split;
    double issued = around * (multiplies + reads + 2 * shuffles + a_batch);
    double banks = warps * (a_read * reads + a_shuffle * shuffles);
    double each = stalls * x->passes * fmax(issued, banks) + a_set + around * made * h->mine * t->n_strips;
    double sets = (double)x->rows / (x->batch * x->passes), round = x->blocks > 1 ? exchange : 0;
    double rounds = fb_cluster_turns(nest, x);
    x->start = rounds * start;
    return rounds * (sets * each + fmax(round - (sets - 1) * each, 0));
}

static bool fit(const fb_nest *nest, fb_cluster_tile *x)
{
    const fb_tiled *t = nest->tiled;
    int a_warp = nest->target->warp / x->slices * x->each, set = x->batch * x->passes, warps = x->columns / a_warp;
    shares h = {.columns = x->each * t->n_strips, .chunks = (int)fb_ceil_div(t->columns, x->slices * CHUNK)};
    int even = h.columns & -h.columns, most_split = x->slices / x->batch;
    h.split = even < most_split ? even : most_split;
    if (warps > MOST_WARPS) return false;
    x->threads = warps * nest->target->warp;
    h.mine = (set * x->columns + x->threads - 1) / x->threads;
    int most = fb_cluster_registers(x->threads);
    int used = OTHER + h.columns * x->batch + CHUNK * x->batch + h.mine * fb_cluster_early_loads(nest, false);
    int room = (most - used) / (CHUNK * h.columns);
    if (room < h.chunks)
        room = (most - used - CHUNK) / (CHUNK * h.columns); /* the others pass through registers, too */
    x->held = room < 0 ? 0 : room < h.chunks ? room : h.chunks;
    int64_t depth = (int64_t)h.chunks * x->slices * CHUNK, width = (int64_t)x->blocks * x->columns;
    int64_t line = depth > width ? depth : fb_ceil_div(width, 32) * 32, sets = x->rows / set;
    int64_t chunk_bytes = (int64_t)x->threads * h.columns * CHUNK * 4;
    int64_t sums = (int64_t)(sets > 1 ? 2 : 1) * set * (x->columns * t->n_strips + 8) * 4;
    x->weight_bytes = h.chunks * chunk_bytes;
    x->shared_bytes = fb_ceil_div(sets * 24, 16) * 16 + 8 * x->rows * line + sums + (h.chunks - x->held) * chunk_bytes;
    x->clusters = fb_ceil_div(t->rows, x->rows);
    x->cycles = cycles_of(nest, x, &h);
    return room >= 0 && fb_cluster_has_room(t, x);
}

/* All rows of a cluster, in sets of all sizes. */
static void try_rows(const fb_nest *nest, int64_t wanted, fb_cluster_tile x, fb_cluster_tile *best)
{
    int64_t rows = nest->tiled->rows;
    for (x.passes = 1; x.batch * (x.passes - 1) < rows; x.passes++)
        for (int set = x.batch * x.passes, sets = 1; set * (int64_t)(sets - 1) < rows; sets++) {
            x.rows = set * sets;
            if (wanted && x.rows != wanted) continue;
            if (!fit(nest, &x)) break; /* nor do more */
            if (!best->blocks || x.cycles < best->cycles) *best = x;
        }
}

bool fb_cluster_f32_tile_of(const fb_nest *nest, const fb_knobs *knobs, fb_cluster_tile *out)
{
    const int64_t *set = (knobs ? knobs : &fb_knobs_automatic)->value;
    const fb_tiled *t = nest->tiled;
    fb_cluster_tile best = {0};
    for (int blocks = 1; blocks <= FB_CLUSTER_MOST_BLOCKS; blocks *= 2)
        for (size_t l = 0; l < sizeof lanes / sizeof *lanes; l++) {
            int a_warp = nest->target->warp / lanes[l].slices * lanes[l].each;
            while (a_warp % PIECE) a_warp += nest->target->warp / lanes[l].slices * lanes[l].each;
            int columns = fb_cluster_columns(t, blocks, a_warp);
            if (!columns) continue;
            if (set[FB_KNOB_TILE_N] && columns * t->n_strips != set[FB_KNOB_TILE_N]) continue;
            for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
                try_rows(nest, set[FB_KNOB_TILE_M],
                         (fb_cluster_tile){.blocks = blocks,
                                           .columns = columns,
                                           .slices = lanes[l].slices,
                                           .each = lanes[l].each,
                                           .batch = batches[b]},
                         &best);
        }
    if (best.blocks) *out = best;
    return best.blocks > 0;
}
