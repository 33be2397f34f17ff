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
#include "schedule/cluster_parts.h"

#include <math.h>
#include <stdarg.h>

enum {
    CHUNK = 8,       /* columns of a strip that lie in one fragment, and rows of the state */
    STEP = 16,       /* of k */
    PIECE = 16,      /* bytes */
    WARPGROUP = 4,   /* warps */
    FRAGMENT = 512,  /* bytes, of a warp */
    MOST_WARPS = 16, /* of a block */
    MOST_ROWS = 48,  /* of a cluster: more, and threads run out of registers */
    MOST_WIDE_ROWS = 64,
    OTHER = 24, /* registers that a thread needs besides weights, sums and what is loaded early */
    OTHER_WIDE = 36,
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

/* Products of whole warpgroups take up to four strips, and no more rows than one of them. */
static bool may_be_wide(const fb_tiled *t)
{
    return t->capability == 9 && t->n_strips <= 4;
}

/* Lines of a column of the state: its strips, in twos. */
static int wide_lines(const fb_tiled *t)
{
    return t->n_strips > 2 ? 4 : t->n_strips;
}

bool fb_cluster_copies(const fb_nest *nest, int v)
{
    const fb_section *s = &nest->sections[0];
    const fb_value *load = &s->values[v];
    int64_t size = fb_dtype_size(load->dtype), row, column, first;
    fb_ix rest = load->at;
    if (s->rows.n != 2 || !fb_ix_is_var(nest->pool, s->rows.var[0]) || !fb_ix_is_var(nest->pool, s->rows.var[1]) ||
        load->kind != FB_VALUE_LOAD || load->when != FB_NONE || load->table != FB_NONE ||
        fb_nest_is_product(nest, load->node) || s->rows.extent[1] != nest->tiled->columns)
        return false;
    return fb_ix_stride(nest->pool, rest, s->rows.var[0], &row, &rest) &&
           fb_ix_stride(nest->pool, rest, s->rows.var[1], &column, &rest) && fb_ix_is_const(nest->pool, rest, &first) &&
           column == 1 && row * size % PIECE == 0 && first * size % PIECE == 0;
}

/* Bytes of three steps of them. */
static int64_t copied_bytes(const fb_nest *nest, const fb_cluster_tile *x)
{
    int64_t bytes = 0;
    for (int v = 0; v < nest->sections[0].n_values; v++)
        if (fb_cluster_copies(nest, v))
            bytes += 3 * x->rows * (x->columns * fb_dtype_size(nest->sections[0].values[v].dtype) + PIECE);
    return bytes;
}

int fb_cluster_early_loads(const fb_nest *nest, bool copied)
{
    const fb_section *s = &nest->sections[0];
    int n = 0;
    for (int i = 0; i < s->n_values; i++)
        n += s->values[i].kind == FB_VALUE_LOAD && !fb_nest_is_product(nest, s->values[i].node) &&
             !(copied && fb_cluster_copies(nest, i));
    return n;
}

typedef struct {
    int each, groups, tiles, steps, entries, mine, chains; /* as kernels/cluster.cuh has them */
} shares;

int fb_cluster_registers(int threads)
{
    enum { OF_MULTIPROCESSOR = 65536, GRANULE = 8, MOST = 255 };
    int most = OF_MULTIPROCESSOR / threads / GRANULE * GRANULE;
    return most < MOST ? most : MOST;
}

int fb_cluster_columns(const fb_tiled *t, int blocks, int unit)
{
    int columns = (int)fb_ceil_div(t->columns, (int64_t)unit * blocks) * unit;
    return blocks > 1 && (blocks / 2) * (int64_t)columns >= t->columns ? 0 : columns;
}

bool fb_cluster_has_room(const fb_tiled *t, const fb_cluster_tile *x)
{
    enum { MOST_GRID = 65535 };
    return x->shared_bytes <= t->shared_bytes && x->clusters * x->blocks <= MOST_GRID;
}

int64_t fb_cluster_at_once(const fb_nest *nest, int blocks)
{
    int64_t n = (int64_t)nest->tiled->units * 23 / 25 / blocks; /* they stand in groups of multiprocessors */
    return n > 0 ? n : 1;
}

/* Counts the cycles of a step, of 1.6 GHz. Measured on an H100 (2026-11), of LSTMs in clusters of 8, a step: 8 rows of
 * 384 took 1.59 µs in 12 warps that kept all weights in registers, and 1.23 µs by whole warpgroups; of these 0.54 were
 * the product and 0.5 the way to the other blocks. 40 rows took 3.84 µs, of which 1.43 were the product, 0.83 what is
 * made of it and 0.95 the way. 8 rows of 768 in clusters of 16 multiplied for 1.41 µs, half of the weights in shared
 * memory. A kernel of 132 multiprocessors had 15 clusters of 8. Before the first step blocks find each other and fetch
 * their weights: of recorded recurrences of 2 and 4 steps (script lstm_train, 16 rows of 64, an H200) 4 to 6 µs were
 * left beside their steps. */
static const double ALONE = 400, EACH = 21, SUMS = 60, A_BANK = 128, START = 8000;

double fb_cluster_turns(const fb_nest *nest, const fb_cluster_tile *x)
{
    return (double)fb_ceil_div(x->clusters, fb_cluster_at_once(nest, x->blocks));
}

/* What is made of a thread's sums; the busiest quarter of a multiprocessor has `around` warps. */
static double made(const fb_tiled *t, int around, int mine)
{
    return EACH * around * mine * t->n_strips;
}

/* The state's way round the cluster: every block sends what it made to all the others. */
static double way_round(const fb_cluster_tile *x, double exchange, double a_byte)
{
    const double more_blocks = 300;
    if (x->blocks == 1) return SUMS;
    double sent = (x->blocks - 1) * 2.0 * x->columns * x->rows;
    return exchange + sent * a_byte + (x->blocks > FB_CLUSTER_PORTABLE ? more_blocks : 0);
}

static double narrow_cycles(const fb_nest *nest, const fb_cluster_tile *x, const shares *h, int64_t streamed)
{
    const double mma = 8.2, a_warp = 17, exchange = 450, a_byte = 0.1;
    const fb_tiled *t = nest->tiled;
    int warps = x->across * x->deep, around = (warps + 3) / 4;
    double products = (double)h->each * h->tiles * h->steps * h->groups,
           product = products * fmax(mma * around, a_warp);
    double reads = (double)x->across * x->rows * h->steps * x->deep * STEP * 2 / A_BANK;
    double parts = x->deep > 1 ? SUMS + 2.0 * warps * (x->deep - 1) * h->mine * t->n_strips * 128 / A_BANK : 0;
    double round = way_round(x, exchange, a_byte);
    return fb_cluster_turns(nest, x) *
           (fmax(product, reads) + (double)streamed / A_BANK + parts + ALONE + made(t, around, h->mine) + round);
}

static double wide_cycles(const fb_nest *nest, const fb_cluster_tile *x, int mine, int steps, int64_t streamed)
{
    const double begin = 6.9, a_row = 0.62, exchange = 700, a_byte = 0.03, copied = 0.02, from_shared = 0.5;
    const fb_tiled *t = nest->tiled;
    int groups = x->threads / nest->target->warp / WARPGROUP;
    double product = (double)groups * x->each * steps * (begin + a_row * x->rows);
    double round = way_round(x, exchange, a_byte);
    return fb_cluster_turns(nest, x) * (product + from_shared * (double)streamed / A_BANK + SUMS +
                                        made(t, groups, mine) + round + copied * (double)copied_bytes(nest, x));
}

/* Fragments in registers, the others in shared memory. */
static bool fit_narrow(const fb_nest *nest, fb_cluster_tile *x)
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
    int most = fb_cluster_registers(x->threads);
    int sums = h.each * h.tiles * h.groups * 4 * h.chains, early = h.mine * fb_cluster_early_loads(nest, false);
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
    x->cycles = narrow_cycles(nest, x, &h, streamed);
    x->start = fb_cluster_turns(nest, x) * START;
    return room >= 0 && fb_cluster_has_room(t, x);
}

/* The same with products of whole warpgroups: no sums are shared, and a block sends what it made in one piece. */
static bool fit_wide(const fb_nest *nest, fb_cluster_tile *x)
{
    const fb_tiled *t = nest->tiled;
    int lines = wide_lines(t), tiles = x->columns * lines / STEP, steps = (int)fb_ceil_div(t->columns, STEP);
    int groups = x->rows / CHUNK;
    if (tiles % (WARPGROUP * x->each) || tiles / x->each > MOST_WARPS) return false;
    x->threads = tiles / x->each * nest->target->warp;
    int most = fb_cluster_registers(x->threads);
    int mine = x->each * groups * (4 / lines);
    int room = (most - OTHER_WIDE - x->each * groups * 4 - mine * fb_cluster_early_loads(nest, true)) / (x->each * 4);
    x->held = room < 0 ? 0 : room < steps ? room : steps;
    int64_t depth = (int64_t)steps * STEP, width = (int64_t)x->blocks * x->columns;
    int64_t fragments = (int64_t)tiles * FRAGMENT, streamed = (steps - x->held) * fragments;
    x->weight_bytes = steps * fragments;
    x->shared_bytes = 128 + 4 * x->rows * (depth > width ? depth : width) + streamed + copied_bytes(nest, x);
    x->clusters = fb_ceil_div(t->rows, x->rows);
    x->cycles = wide_cycles(nest, x, mine, steps, streamed);
    x->start = fb_cluster_turns(nest, x) * START;
    return room >= 0 && fb_cluster_has_room(t, x);
}

typedef struct {
    const fb_nest *nest;
    const int64_t *set;
    fb_cluster_tile *best;
    bool found;
} choice;

static void consider(choice *c, fb_cluster_tile x)
{
    if (c->set[FB_KNOB_TILE_M] && x.rows != c->set[FB_KNOB_TILE_M]) return;
    if (c->set[FB_KNOB_TILE_N] && x.columns * c->nest->tiled->n_strips != c->set[FB_KNOB_TILE_N]) return;
    if (!(x.wide ? fit_wide : fit_narrow)(c->nest, &x) || (c->found && x.cycles >= c->best->cycles)) return;
    *c->best = x;
    c->found = true;
}

/* Products of single warps: all ways to share columns and k among them. */
static void consider_narrow(choice *c, int blocks)
{
    const fb_tiled *t = c->nest->tiled;
    fb_cluster_tile x = {.blocks = blocks, .columns = fb_cluster_columns(t, blocks, CHUNK)};
    for (x.rows = CHUNK; x.columns && x.rows <= MOST_ROWS && x.rows < t->rows + CHUNK; x.rows += CHUNK)
        for (x.across = 1; x.across <= x.columns / CHUNK; x.across++)
            for (x.deep = 1; x.deep <= 4; x.deep *= 2) consider(c, x);
}

static void consider_wide(choice *c, int blocks)
{
    const fb_tiled *t = c->nest->tiled;
    if (!may_be_wide(t)) return;
    fb_cluster_tile x = {
        .wide = true, .blocks = blocks, .columns = fb_cluster_columns(t, blocks, WARPGROUP * STEP / wide_lines(t))};
    for (x.rows = CHUNK; x.columns && x.rows <= MOST_WIDE_ROWS && x.rows < t->rows + CHUNK; x.rows += CHUNK)
        for (x.each = 1; x.each <= 4; x.each *= 2) consider(c, x);
}

/* Large clusters only where a small one's registers and memory are too few: not every GPU has room for them. */
static void consider_all(choice *c)
{
    for (int blocks = 1; blocks <= FB_CLUSTER_MOST_BLOCKS; blocks *= 2) {
        if (c->found && blocks > FB_CLUSTER_PORTABLE) return;
        consider_narrow(c, blocks);
        consider_wide(c, blocks);
    }
}

bool fb_cluster_tile_of(const fb_nest *nest, const fb_knobs *knobs, fb_cluster_tile *out, fb_str *says)
{
    const int64_t *set = (knobs ? knobs : &fb_knobs_automatic)->value;
    const fb_tiled *t = nest->tiled;
    if (!suits(nest, says)) return false;
    choice c = {.nest = nest, .set = set, .best = out};
    if (t->dtype == FB_F32)
        c.found = fb_cluster_f32_tile_of(nest, knobs, out);
    else
        consider_all(&c);
    if (c.found) return true;
    if (set[FB_KNOB_TILE_M] || set[FB_KNOB_TILE_N])
        return refuse(says, "no cluster has room for the tiles that the knobs of `%s` ask for", name_of(nest));
    int64_t all = (int64_t)t->n_strips * t->columns * t->columns * (int64_t)fb_dtype_size(t->dtype);
    return refuse(
        says,
        "the weights of `%s` are %lld KiB, %lld a block in a cluster of %d, which its registers and %lld KiB of "
        "shared memory do not hold",
        name_of(nest), (long long)all >> 10, (long long)(all / FB_CLUSTER_MOST_BLOCKS) >> 10, FB_CLUSTER_MOST_BLOCKS,
        (long long)t->shared_bytes >> 10);
}
