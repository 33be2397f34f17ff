/* How a recurrence in single precision is dealt to clusters: of all ways that fit, the one whose step is shortest by a
 * count of cycles: what a quarter of a multiprocessor issues for a set of rows, or what goes through shared memory,
 * whichever takes longer, for all sets, and of the way to the other blocks what no other set's work hides.
 *
 * Needs a nest of family gemm whose one product is of f32 as it is (IEEE). */
#include "schedule/cluster_f32.h"

#include "base/integer.h"
#include "nest/parts.h"

#include <math.h>

enum {
    SLICES = 16,
    CHUNK = 4, /* as in kernels/cluster_f32.cuh: lanes that share k, and how many of it each takes */
    MOST_BLOCKS = 16,
    MOST_EACH = 4,
    MOST_BATCH = 8,
    MOST_WARPS = 32,
    REGISTERS = 65536, /* of a multiprocessor; besides what is counted below a thread needs about OTHER */
    MOST_REGISTERS = 255,
    OTHER = 20,
};

/* Values that are loaded before the product, for an element. */
static int early_loads(const fb_nest *nest)
{
    const fb_section *s = &nest->sections[0];
    int n = 0;
    for (int i = 0; i < s->n_values; i++)
        n += s->values[i].kind == FB_VALUE_LOAD && !fb_nest_is_product(nest, s->values[i].node);
    return n;
}

/* The cycles of a step. */
static double cycles_of(const fb_nest *nest, const fb_cluster_tile *x, int chunks)
{
    const double exchange = 1000, wide = 300, alone = 400, made = 50;
    const fb_tiled *t = nest->tiled;
    int warps = x->threads / nest->target->warp, around = (warps + 3) / 4, left = chunks - x->held;
    int columns = x->each * t->n_strips, spare = SLICES / (x->batch * x->passes), turns = 0;
    while (spare >> (turns + 1)) turns++;
    double multiplies = (double)x->passes * chunks * CHUNK * x->batch * columns;
    double reads = (double)x->passes * (chunks * x->batch + left * columns);
    double shuffles = (double)columns * (x->passes * (x->batch - 1) + x->passes - 1 + turns);
    double banks = warps * (x->passes * (2.0 * chunks * x->batch + 4.0 * left * columns) + shuffles);
    double issued = around * (multiplies + reads + 2 * shuffles + made * columns);
    double a_set = fmax(issued, banks), sets = (double)x->rows / (x->batch * x->passes);
    double round = alone + (x->blocks > 1 ? exchange + (x->blocks > FB_CLUSTER_PORTABLE ? wide : 0) : 0);
    return (double)fb_ceil_div(x->clusters, fb_cluster_at_once(nest, x->blocks)) *
           (sets * a_set + fmax(round - (sets - 1) * a_set, 0));
}

static bool fit(const fb_nest *nest, fb_cluster_tile *x)
{
    const fb_tiled *t = nest->tiled;
    int a_warp = 2 * x->each, columns = x->each * t->n_strips, set = x->batch * x->passes;
    int warps = x->columns / a_warp, chunks = (int)fb_ceil_div(t->columns, SLICES * CHUNK);
    if (x->columns % a_warp || warps > MOST_WARPS) return false;
    x->threads = warps * nest->target->warp;
    int most = REGISTERS / x->threads / 8 * 8;
    if (most > MOST_REGISTERS) most = MOST_REGISTERS;
    int used = OTHER + columns * (x->batch + x->passes - 1) + CHUNK * 4 + x->each * early_loads(nest);
    int room = (most - used) / (CHUNK * columns);
    if (room < chunks) room = (most - used - CHUNK) / (CHUNK * columns); /* the others pass through registers, too */
    x->held = room < 0 ? 0 : room < chunks ? room : chunks;
    int64_t depth = (int64_t)chunks * SLICES * CHUNK, width = (int64_t)x->blocks * x->columns;
    int64_t line = depth > width ? depth : fb_ceil_div(width, 32) * 32;
    int64_t chunk_bytes = (int64_t)x->threads * columns * CHUNK * 4;
    x->weight_bytes = chunks * chunk_bytes;
    x->shared_bytes = (int64_t)x->rows / set * 16 + 8 * x->rows * line + (chunks - x->held) * chunk_bytes;
    x->clusters = fb_ceil_div(t->rows, x->rows);
    x->cycles = cycles_of(nest, x, chunks);
    return room >= 0 && x->shared_bytes <= t->shared_bytes && x->clusters * x->blocks <= 65535;
}

bool fb_cluster_f32_tile_of(const fb_nest *nest, const fb_knobs *knobs, fb_cluster_tile *out)
{
    const int64_t *set = (knobs ? knobs : &fb_knobs_automatic)->value;
    const fb_tiled *t = nest->tiled;
    bool found = false;
    for (int blocks = 1; blocks <= MOST_BLOCKS; blocks *= 2)
        for (int each = 1; each <= MOST_EACH; each *= 2) {
            int columns = (int)fb_ceil_div(t->columns, (int64_t)2 * each * blocks) * 2 * each;
            if (blocks > 1 && (blocks / 2) * (int64_t)columns >= t->columns) break; /* half of them would have none */
            if (set[FB_KNOB_TILE_N] && columns * t->n_strips != set[FB_KNOB_TILE_N]) continue;
            for (int batch = 4; batch <= MOST_BATCH; batch *= 2)
                for (int passes = 1; batch * passes <= SLICES; passes *= 2)
                    for (int rows = batch * passes; rows < t->rows + batch * passes; rows += batch * passes) {
                        fb_cluster_tile x = {.blocks = blocks,
                                             .rows = rows,
                                             .columns = columns,
                                             .each = each,
                                             .batch = batch,
                                             .passes = passes};
                        if (set[FB_KNOB_TILE_M] && rows != set[FB_KNOB_TILE_M]) continue;
                        if (!fit(nest, &x)) break; /* nor do more */
                        if (found && x.cycles >= out->cycles) continue;
                        *out = x;
                        found = true;
                    }
        }
    return found;
}
