/* How a recurrence is dealt to clusters: of all ways that fit, the one whose step is shortest by a count of cycles:
 * tensor cores and shared memory while the product is at work, whichever takes longer, then the sums of several warps,
 * then what is made of them, then the way to the other blocks. Needs a nest of family gemm; says why where nothing
 * fits.
 */
#include "schedule/cluster.h"

#include "base/integer.h"
#include "base/str.h"
#include "nest/parts.h"
#include "schedule/cluster_f32.h"

#include <math.h>
#include <stdarg.h>

enum {
    CHUNK = 8,                      /* columns of a strip that lie in one fragment, and rows of the state */
    STEP = 16,                      /* of k */
    FRAGMENT = 512,                 /* bytes, of a warp */
    PORTABLE = FB_CLUSTER_PORTABLE, /* blocks of a cluster; more only where their registers and memory are too few, for
                                     * not every GPU has room for such a cluster */
    MOST_BLOCKS = 16,
    MOST_WARPS = 16, /* of a block */
    MOST_ROWS = 48,  /* of a cluster: more, and threads run out of registers */
    REGISTERS =
        65536, /* of a multiprocessor; besides weights, sums and what is loaded early a thread needs about OTHER */
    MOST_REGISTERS = 255,
    OTHER = 24,
};

static bool refuse(fb_str *says, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(fb_str *says, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    if (says) fb_str_vaddf(says, format, ap);
    va_end(ap);
    return false;
}

static const char *name_of(const fb_nest *nest)
{
    return nest->graph->nodes[nest->tiled->products[0].node].name;
}

/* ---- may it be? ---- */

static bool suits(const fb_nest *nest, fb_str *says)
{
    const fb_tiled *t = nest->tiled;
    const fb_section *s = &nest->sections[0];
    if (t->capability < 9)
        return refuse(says, "clusters of blocks need compute capability 9.0, and this GPU has %d", t->capability);
    bool tf32 = t->dtype == FB_F32 && t->precision == FB_PRECISION_TF32;
    if ((fb_dtype_size(t->dtype) != 2 && t->dtype != FB_F32) || tf32)
        return refuse(says, "`%s` multiplies %s, and clusters keep weights of 16 bits or f32 in IEEE precision",
                      name_of(nest), tf32 ? "f32 as tf32" : fb_dtype_name(t->dtype));
    if (t->n_phases != 1)
        return refuse(
            says,
            "`%s` and another product of other operands are one sum: a cluster takes the product of the state "
            "alone, so multiply the inputs of all steps before the loop",
            name_of(nest));
    if (t->batch > 1 || t->columns != t->phases[0].k || t->n_strips > 4 * CHUNK)
        return refuse(says, "`%s` does not make a state of as many columns as it multiplies", name_of(nest));
    if (t->whole || s->n_passes || s->n_data || s->n_tables || s->members > 1 || nest->n_sections > 1)
        return refuse(says,
                      "what is made of `%s` is not element by element, and a block has only some columns of a row",
                      name_of(nest));
    return true;
}

/* ---- sizes ---- */

/* Loads of an element that are under way while the product is at work. */
static int early_loads(const fb_nest *nest)
{
    const fb_section *s = &nest->sections[0];
    int n = 0;
    for (int i = 0; i < s->n_values; i++)
        n += s->values[i].kind == FB_VALUE_LOAD && !fb_nest_is_product(nest, s->values[i].node);
    return n;
}

typedef struct {
    int each, groups, tiles, steps, entries, mine, chains; /* as kernels/cluster.cuh has them */
} shares;

int64_t fb_cluster_at_once(const fb_nest *nest, int blocks)
{
    int64_t n = (int64_t)nest->tiled->units * 23 / 25 / blocks; /* they stand in groups of multiprocessors */
    return n > 0 ? n : 1;
}

/* Counts the cycles of a step. Measured on an H200 (2026-11): a step of 8 rows of an LSTM of 384 took 1.7 µs in 12
 * warps that kept all weights in registers, and 2.4 µs in 4 that kept two thirds; a kernel of 132 multiprocessors had
 * 15 clusters of 8. */
static double cycles_of(const fb_nest *nest, const fb_cluster_tile *x, const shares *h, int64_t streamed)
{
    const double mma = 8.2, a_warp = 17, a_bank = 128, exchange = 1000, wide = 300, alone = 400, each = 40, sums = 60;
    const fb_tiled *t = nest->tiled;
    int warps = x->across * x->deep, around = (warps + 3) / 4; /* on the busiest quarter of a multiprocessor */
    double products = (double)h->each * h->tiles * h->steps * h->groups,
           product = products * fmax(mma * around, a_warp);
    double reads = (double)x->across * x->rows * h->steps * x->deep * STEP * 2 / a_bank;
    double parts = x->deep > 1 ? sums + 2.0 * warps * (x->deep - 1) * h->mine * t->n_strips * 128 / a_bank : 0;
    double made = alone + each * around * h->mine * t->n_strips;
    double round = x->blocks > 1 ? exchange + (x->blocks > PORTABLE ? wide : 0) : sums;
    return (double)fb_ceil_div(x->clusters, fb_cluster_at_once(nest, x->blocks)) *
           (fmax(product, reads) + (double)streamed / a_bank + parts + made + round);
}

/* Fragments in registers, the others in shared memory. */
static bool fit(const fb_nest *nest, fb_cluster_tile *x)
{
    const fb_tiled *t = nest->tiled;
    int chunks = x->columns / CHUNK, warps = x->across * x->deep;
    shares h = {.each = chunks / x->across,
                .groups = x->rows / CHUNK,
                .tiles = (t->n_strips + 1) / 2,
                .steps = 2 * (int)fb_ceil_div(t->columns, 2 * STEP * x->deep)};
    h.entries = h.each * h.groups * 2;
    h.mine = h.entries / x->deep;
    if (chunks % x->across || h.entries % x->deep || warps > MOST_WARPS) return false;
    h.chains = h.each * h.tiles * h.groups < 4 ? 2 : 1;
    x->threads = warps * nest->target->warp;
    int most = REGISTERS / x->threads / 8 * 8;
    if (most > MOST_REGISTERS) most = MOST_REGISTERS;
    int sums = h.each * h.tiles * h.groups * 4 * h.chains, early = h.mine * early_loads(nest);
    int room = (most - OTHER - sums - early) / (h.each * h.tiles * 4);
    x->held = room < 0 ? 0 : room < h.steps ? room : h.steps;
    int64_t depth = (int64_t)h.steps * x->deep * STEP, width = fb_ceil_div(x->blocks * x->columns, STEP) * STEP;
    int64_t line = (depth > width ? depth : width) + CHUNK;
    int64_t fragments = (int64_t)warps * h.each * h.tiles * FRAGMENT;
    int64_t streamed = (h.steps - x->held) * fragments;
    int64_t parts = x->deep > 1 ? (int64_t)warps * (x->deep - 1) * h.mine * t->n_strips * 128 : 0;
    x->weight_bytes = h.steps * fragments;
    x->shared_bytes = 16 + 4 * x->rows * line + streamed + parts;
    x->clusters = fb_ceil_div(t->rows, x->rows);
    x->cycles = cycles_of(nest, x, &h, streamed);
    return room >= 0 && x->shared_bytes <= t->shared_bytes && x->clusters * x->blocks <= 65535;
}

bool fb_cluster_tile_of(const fb_nest *nest, const fb_knobs *knobs, fb_cluster_tile *out, fb_str *says)
{
    const int64_t *set = (knobs ? knobs : &fb_knobs_automatic)->value;
    const fb_tiled *t = nest->tiled;
    bool found = false;
    if (!suits(nest, says)) return false;
    if (t->dtype == FB_F32) found = fb_cluster_f32_tile_of(nest, knobs, out);
    for (int blocks = 1; t->dtype != FB_F32 && blocks <= MOST_BLOCKS && !(found && blocks > PORTABLE); blocks *= 2) {
        int columns = (int)fb_ceil_div(t->columns, (int64_t)CHUNK * blocks) * CHUNK;
        if (blocks > 1 && (blocks / 2) * (int64_t)columns >= t->columns) break; /* half of them would have none */
        if (set[FB_KNOB_TILE_N] && columns * t->n_strips != set[FB_KNOB_TILE_N]) continue;
        for (int rows = CHUNK; rows <= MOST_ROWS && rows < t->rows + CHUNK; rows += CHUNK)
            for (int across = 1; across <= columns / CHUNK; across++)
                for (int deep = 1; deep <= 4; deep *= 2) {
                    fb_cluster_tile x = {
                        .blocks = blocks, .rows = rows, .columns = columns, .across = across, .deep = deep};
                    if (set[FB_KNOB_TILE_M] && rows != set[FB_KNOB_TILE_M]) continue;
                    if (!fit(nest, &x) || (found && x.cycles >= out->cycles)) continue;
                    *out = x;
                    found = true;
                }
    }
    if (found) return true;
    if (set[FB_KNOB_TILE_M] || set[FB_KNOB_TILE_N])
        return refuse(says, "no cluster has room for the tiles that the knobs of `%s` ask for", name_of(nest));
    int64_t all = (int64_t)t->n_strips * t->columns * t->columns * (int64_t)fb_dtype_size(t->dtype);
    return refuse(
        says,
        "the weights of `%s` are %lld KiB, %lld a block in a cluster of %d, which its registers and %lld KiB of "
        "shared memory do not hold",
        name_of(nest), (long long)all >> 10, (long long)(all / MOST_BLOCKS) >> 10, MOST_BLOCKS,
        (long long)t->shared_bytes >> 10);
}
