/* The tile of a product of few rows in single precision whose right operand lies as no matrix does, windows of a
 * convolution above all: each thread has all rows of a few columns and reads their elements where they lie
 * (kernels/direct.cuh). What a tile in shared memory costs each element, copying it and saying where it is, it would give
 * back to few rows only.
 *
 * requires  a tiled nest for which fb_lanes_are_for
 * provides  that tile, and its cycles, to be held against those of lanes.c
 */
#include "base/integer.h"
#include "base/mem.h"
#include "schedule/gemm_parts.h"
#include "schedule/tile.h"

#include <math.h>

enum {
    PIECE = 4,
    WARP = 32,
    SECTOR = 8,        /* elements that memory is read by */
    MOST_ROWS = 32,    /* of a tile … */
    LEAST_ROWS = 16,   /* … where rows are shared out further */
    MOST_SUMS = 96,    /* of a thread */
    MOST_SECTORS = 16, /* that a warp's load touches, on average */
    LEAST_K = 16,
    MOST_LEFT = 12 << 10,       /* bytes of the left operand in shared memory … */
    MOST_OF_PERIODS = 48 << 10, /* … and of whole periods */
    MOST_TOGETHER = 8,          /* steps that are written out */
};

/* ---- how far apart neighbours lie ---- */

typedef struct {
    const fb_operand *o;
    int64_t k, outer;
} place;

static int64_t value_at(void *ctx, fb_ix var)
{
    const place *p = ctx;
    return var == p->o->k ? p->k : var == p->o->outer ? p->outer : 0;
}

/* Sectors that a warp's load of neighbouring columns touches, from column `outer` on. */
static int sectors_at(const fb_nest *nest, const fb_operand *o, const fb_value *v, int64_t k, int64_t outer)
{
    int64_t seen[WARP];
    int n = 0;
    for (int lane = 0; lane < WARP; lane++) {
        place p = {o, k, outer + lane};
        int64_t at = fb_ix_eval(nest->pool, v->at, value_at, &p), sector = at < 0 ? 0 : at / SECTOR;
        bool known = false;
        for (int i = 0; i < n && !known; i++) known = seen[i] == sector;
        if (!known) seen[n++] = sector;
    }
    return n;
}

/* On average, of all that an element is made of: from a few columns on, at a few steps. */
static double sectors_of(const fb_nest *nest, const fb_operand *o, int64_t k, int64_t columns)
{
    enum { PLACES = 4 };
    double all = 0;
    for (int i = 0; i < o->section.n_values; i++) {
        const fb_value *v = &o->section.values[i];
        if (v->kind != FB_VALUE_LOAD || v->space == FB_NONE) continue;
        for (int n = 0; n < PLACES; n++) {
            int64_t first = columns > WARP ? (columns - WARP) * n / PLACES / WARP * WARP : 0;
            all += sectors_at(nest, o, v, k * n / PLACES, first) / (double)PLACES;
        }
    }
    return all;
}

/* ---- periods ---- */

/* k = period · c + t */
static fb_ix step_of(fb_index_pool *p, fb_ix k, int period, const char *c, const char *t, fb_ix *of_c)
{
    *of_c = fb_ix_var(p, c, fb_ix_extent(p, k) / period);
    return fb_ix_add(p, fb_ix_scale(p, *of_c, period), fb_ix_var(p, t, period));
}

fb_ix fb_direct_step(const fb_nest *nest, fb_ix k, int period, const char *c, const char *t)
{
    fb_ix of_c;
    return step_of(nest->pool, k, period, c, t, &of_c);
}

/* Do all places lie along c then, and is nothing asked about it? */
static bool is_period(const fb_nest *nest, const fb_operand *o, int period)
{
    fb_index_pool *p = nest->pool;
    fb_ix c, rest, step = step_of(p, o->k, period, "c", "t", &c);
    int64_t stride;
    for (int i = 0; i < o->section.n_values; i++) {
        const fb_value *v = &o->section.values[i];
        if (v->kind != FB_VALUE_LOAD && v->kind != FB_VALUE_INDEX) continue;
        fb_ix at = fb_ix_substitute(p, v->at, o->k, step);
        if (v->kind == FB_VALUE_INDEX ? fb_ix_uses(p, at, c) : !fb_ix_stride(p, at, c, &stride, &rest)) return false;
        for (int w = v->when; w != FB_NONE; w = nest->whens[w].outer)
            if (fb_ix_uses(p, fb_ix_substitute(p, nest->whens[w].at, o->k, step), c)) return false;
    }
    return true;
}

/* The smallest number of steps after which places come again, so much further on; 0: there is none, or too few of them. */
static int period_of(const fb_nest *nest, const fb_operand *o)
{
    enum { ROOM = 32 };
    int64_t k = fb_ix_extent(nest->pool, o->k), by[ROOM];
    int best = 0;
    for (int i = 0; i < o->section.n_values; i++) {
        const fb_value *v = &o->section.values[i];
        if (v->kind != FB_VALUE_LOAD) continue;
        int n = fb_ix_divisors(nest->pool, v->at, o->k, by, ROOM);
        for (int d = 0; d < n && d < ROOM; d++) {
            bool smaller = !best || by[d] < best;
            if (smaller && k % by[d] == 0 && by[d] < k && is_period(nest, o, (int)by[d])) best = (int)by[d];
        }
    }
    return best;
}

/* Of so many periods as many as are written out. */
static int together_of(int64_t periods)
{
    for (int n = MOST_TOGETHER; n > 1; n--)
        if (periods % n == 0) return n;
    return 0;
}

/* ---- the tile ---- */

static const fb_operand *right_of(const fb_tiled *t, int phase)
{
    return &t->products[t->phases[phase].product[0]].right;
}

/* Instructions that an element's conditions and place take in every thread: of what follows of a step or of a column alone
 * nothing is left, a sum of both takes two with its comparison, and is divided by a number once more. */
static double places_of(const fb_nest *nest, const fb_operand *o)
{
    enum { ROOM = 32, TEST = 2, DIVISION = 4 };
    fb_ix seen[ROOM];
    int n = 0, tests = 0;
    for (int i = 0; i < o->section.n_values; i++) {
        const fb_value *v = &o->section.values[i];
        if (v->kind != FB_VALUE_LOAD || v->space == FB_NONE) continue;
        n = fb_ix_mixed(nest->pool, v->at, o->k, o->outer, seen, n, ROOM);
        for (int c = v->when; c != FB_NONE; c = nest->whens[c].outer) {
            fb_ix at = nest->whens[c].at;
            tests += fb_ix_uses(nest->pool, at, o->k) && fb_ix_uses(nest->pool, at, o->outer);
            n = fb_ix_mixed(nest->pool, at, o->k, o->outer, seen, n, ROOM);
        }
    }
    return TEST * tests + DIVISION * n;
}

/* Instructions for an element of a phase's right operand: what it is loaded and made by, one more for each four sectors
 * that a load touches, and what says where it is. */
typedef struct {
    double all, place; /* place: of all, what says where it is, and whether it is inside */
} element_cost;

static element_cost element_of(const fb_nest *nest, int phase, double sectors)
{
    enum { ADDRESS = 2 };
    const fb_operand *o = right_of(nest->tiled, phase);
    element_cost c = {.place = places_of(nest, o)};
    c.all = fb_gemm_instructions(nest, &o->section) + c.place + sectors / 4;
    for (int i = 0; i < o->section.n_values; i++) {
        const fb_value *v = &o->section.values[i];
        if (v->kind != FB_VALUE_LOAD || v->space == FB_NONE) continue;
        c.place += ADDRESS;
        for (int w = v->when; w != FB_NONE; w = nest->whens[w].outer) c.place += w != v->when; /* one chooses a zero */
    }
    return c;
}

static double sectors_in(const fb_nest *nest, int phase)
{
    const fb_tiled *t = nest->tiled;
    return sectors_of(nest, right_of(t, phase), t->phases[phase].k, t->columns);
}

/* Fills the instructions for an element, a phase each, which all tiles have alike. */
static bool is_for(const fb_nest *nest, const int64_t *value, element_cost *element)
{
    const fb_tiled *t = nest->tiled;
    static const fb_knob tiles[] = {FB_KNOB_TILE_M, FB_KNOB_TILE_N, FB_KNOB_TILE_K, FB_KNOB_STAGES, FB_KNOB_SPLIT_K};
    for (int i = 0; i < (int)(sizeof tiles / sizeof *tiles); i++)
        if (value[tiles[i]]) return false; /* it is asked for another one */
    if (!fb_lanes_are_for(t) || t->n_strips > 1 || t->columns < WARP) return false;
    for (int p = 0; p < t->n_phases; p++) {
        bool has = t->phases[p].product[0] != FB_NONE && t->phases[p].k >= LEAST_K;
        if (!has || fb_tile_right(nest, p).pieces) return false;
        const fb_operand *o = right_of(t, p);
        if (!fb_ix_is_var(nest->pool, o->outer) || o->section.n_data) return false;
        double sectors = sectors_in(nest, p);
        if (sectors > MOST_SECTORS * fb_section_loads(&o->section)) return false;
        element[p] = element_of(nest, p, sectors);
    }
    return true;
}

static bool section_uses(const fb_nest *nest, const fb_section *s, fb_ix var)
{
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if ((v->kind == FB_VALUE_LOAD || v->kind == FB_VALUE_INDEX) && fb_ix_uses(nest->pool, v->at, var)) return true;
        for (int w = v->when; w != FB_NONE; w = nest->whens[w].outer)
            if (fb_ix_uses(nest->pool, nest->whens[w].at, var)) return true;
    }
    return false;
}

/* Have all batches the same rows, so that a tile may take columns of several? Rows of sums are gone through batch by
 * batch. */
static bool may_join(const fb_nest *nest)
{
    const fb_tiled *t = nest->tiled;
    if (t->batch == 1 || nest->sections[0].n_passes || fb_tile_columns(&nest->sections[0]) != t->columns) return false;
    for (int p = 0; p < t->n_phases; p++)
        if (section_uses(nest, &t->phases[p].left.section, t->phases[p].left.batch)) return false;
    return true;
}

int64_t fb_direct_shared(const fb_gemm_tile *x)
{
    int64_t left = (int64_t)x->m * x->k * 4, sums = (int64_t)x->m * (x->n + PIECE) * 4;
    return left > sums ? left : sums;
}

/* A warp's instructions at a step are its multiply-adds, the rows it fetches four at a time, and its elements. Each takes
 * longer than a cycle, and fewer than that by periods, the more of these are written out. What is fetched comes by one
 * way to all four schedulers: two cycles for four rows, one for an element. What of the two is less is hidden but for a
 * third. Fitted to four convolutions (64 to 512 rows, images of 7² to 56²) in eleven tiles each on an H200, 216 to 559
 * µs: half of them within 6 %, all within 25 %. */
static double cycles_of(const fb_nest *nest, const element_cost *element, const fb_gemm_tile *x)
{
    enum { REGISTERS = 65536, OTHER = 44, UNIT = 8, MOST_THREADS = 2048, RESERVE = 1024, SCHEDULERS = 4 };
    const double issue = x->period ? 1.09 + 0.9 / x->together : 1.3, of_rows = 2, of_element = 1, both = 0.3,
                 alone = 60, begins = 1200, ends = 2480, spread = 0.22;
    const fb_tiled *t = nest->tiled;
    double each = (double)x->n / x->threads, warps = x->threads / (double)WARP, cycles = ends;
    double registers = fmin(ceil((x->m * each + each + OTHER) / UNIT) * UNIT, 255);
    double room = fmin(floor((double)t->shared_bytes / (double)(x->shared_bytes + RESERVE)),
                       fmin(floor(REGISTERS / (x->threads * registers)), floor((double)MOST_THREADS / x->threads)));
    double blocks = (double)x->blocks, together = fmax(fmin(room, ceil(blocks / t->units)), 1);
    double busy = ceil(warps * together / SCHEDULERS);
    double fetches = warps * together * (of_rows * x->m / PIECE + of_element * each);
    for (int p = 0; p < t->n_phases; p++) {
        double made = element[p].all - (x->period ? element[p].place * (1 - 1.0 / x->together) : 0);
        double step = x->m * each + x->m / (double)PIECE + each * made, k = (double)t->phases[p].k;
        double issued = busy * issue * step, longer = fmax(fmax(issued, fetches), alone + step);
        cycles += k * (longer + both * fmin(issued, fetches)) + begins * ceil(k / x->k);
    }
    cycles += spread * together * x->m * x->n;
    return cycles * fmax(1, blocks / (t->units * together));
}

double fb_direct_cycles(const fb_nest *nest, const fb_gemm_tile *x)
{
    element_cost *element = fb_alloc((size_t)nest->tiled->n_phases * sizeof *element);
    for (int p = 0; p < nest->tiled->n_phases; p++) element[p] = element_of(nest, p, sectors_in(nest, p));
    double cycles = cycles_of(nest, element, x);
    fb_free(element);
    return cycles;
}

static void try_tile(const fb_nest *nest, const element_cost *element, fb_gemm_tile x, fb_gemm_tile *best,
                     double *cycles)
{
    const fb_tiled *t = nest->tiled;
    x.n = x.strip;
    x.shared_bytes = fb_direct_shared(&x);
    if (x.shared_bytes > t->shared_bytes) return;
    x.blocks = fb_gemm_blocks(t, &x);
    if (x.blocks < t->units) return; /* sums in parts are what these want */
    double now = cycles_of(nest, element, &x);
    if (now < *cycles) *best = x, *cycles = now;
}

/* Steps by periods, where there are enough of them and those of one round have room. */
static void take_periods(const fb_nest *nest, fb_gemm_tile *x)
{
    const fb_tiled *t = nest->tiled;
    if (t->n_phases > 1) return;
    int period = period_of(nest, right_of(t, 0));
    if (!period) return;
    int together = together_of(t->phases[0].k / period);
    int64_t round = (int64_t)period * together, least = 4 * x->m * round;
    if (!together || least > MOST_OF_PERIODS) return;
    if (least < MOST_LEFT) round *= MOST_LEFT / least;
    if (round > t->phases[0].k) round = t->phases[0].k;
    if (round % PIECE && round < t->phases[0].k) return; /* the left operand is loaded in pieces */
    x->period = period;
    x->together = together;
    x->k = (int)fb_ceil_div(round, PIECE) * PIECE;
}

/* Of all columns that a thread may have, with `tiles` tiles of rows. */
static void try_rows(const fb_nest *nest, const element_cost *element, fb_gemm_tile x, int64_t tiles, fb_gemm_tile *out,
                     double *cycles)
{
    enum { FEW = 64, MANY = 256 };
    static const int columns[] = {1, 2, 3, 4, 6, 8, 0};
    const fb_tiled *t = nest->tiled;
    int64_t deepest = 1, most;
    for (int p = 0; p < t->n_phases; p++)
        if (t->phases[p].k > deepest) deepest = t->phases[p].k;
    x.m = (int)fb_ceil_div(fb_ceil_div(t->rows, tiles), PIECE) * PIECE;
    most = MOST_LEFT / 4 / x.m / PIECE * PIECE;
    x.k = (int)(deepest < most ? fb_ceil_div(deepest, PIECE) * PIECE : most);
    take_periods(nest, &x);
    for (x.threads = FEW; x.threads <= MANY; x.threads *= 2) {
        for (int i = 0; columns[i] && columns[i] * x.m <= MOST_SUMS; i++) {
            x.strip = x.threads * columns[i];
            if (x.strip / 2 < fb_tile_across(t, &x) || (x.threads == FEW && !i))
                try_tile(nest, element, x, out, cycles);
        }
    }
}

static void try_tiles(const fb_nest *nest, const element_cost *element, fb_gemm_tile *out, double *cycles)
{
    const fb_tiled *t = nest->tiled;
    int64_t fewest = fb_ceil_div(t->rows, MOST_ROWS), most = fb_ceil_div(t->rows, LEAST_ROWS);
    for (int joined = 0; joined <= may_join(nest); joined++) {
        fb_gemm_tile x = {.direct = true, .joined = joined, .stages = 2, .split = 1, .slices = 1};
        for (int64_t tiles = fewest; tiles <= most; tiles++) {
            bool whole = tiles == fewest || t->rows % tiles == 0;
            if (whole) try_rows(nest, element, x, tiles, out, cycles);
        }
    }
}

bool fb_direct_choose(const fb_nest *nest, const int64_t *value, fb_gemm_tile *out, double *cycles)
{
    element_cost *element = fb_alloc((size_t)nest->tiled->n_phases * sizeof *element);
    *cycles = INFINITY;
    if (is_for(nest, value, element)) try_tiles(nest, element, out, cycles);
    fb_free(element);
    return isfinite(*cycles);
}
