/* A chain's tile: the widest whose sums fit the registers and whose operands fit the shared memory; as whole rows in
 * warpgroups where the machine and the types allow it. And what the chain is predicted to take. Needs a nest.
 */
#include "schedule/chain.h"

#include "base/integer.h"
#include "base/mem.h"
#include "base/str.h"
#include "nest/parts.h"
#include "schedule/schedule.h"
#include "schedule/tile_cost.h"
#include "target/special.h"

enum {
    MOST_ROWS = 128,
    LEAST_ROWS = 32,
    MOST_TILE = 64,
    LEAST_TILE = 16,
    SUMS = 160, /* registers of a thread that sums may take, of 255 */
    /* where the first product's rows are kept whole */
    WHOLE_WARPS = FB_CHAIN_WARPS_M * FB_CHAIN_WARPS_N,
    WHOLE_SUMS = 128,
    WHOLE_STEP = 32,
    WHOLE_STAGES = 3,
    LEAST_WIDTH = 64,
    /* where whole warpgroups multiply */
    WIDE_WIDTH = 256,
    WIDE_STAGES = 4,
    /* … and rows of scores go by in tiles */
    ATTEND_DEPTH = 256,
    ATTEND_PIECE = 8,  /* elements of a copy, and columns that an instruction can leave out */
    ATTEND_STEP = 16,  /* k of an instruction */
    ATTEND_LEAST = 64, /* rows and columns of scores, where whole warpgroups make them unasked */
    ATTEND_FEW = 128,  /* rows of which several small blocks on a multiprocessor take less than pairs of warpgroups */
    ATTEND_STAGES = 3,
    ATTEND_MOST_STAGES = 4,
    ATTEND_MOST_ROWS = 192,
    MOST_BLOCKS = 1 << 30,
};

static const fb_chain_link *last_of(const fb_chain *c)
{
    return &c->link[c->n_links - 1];
}

static bool has_first(const fb_chain *c)
{
    return c->n_links == 2;
}

static fb_dtype dtype_of(const fb_nest *nest)
{
    return nest->graph->nodes[last_of(nest->chain)->node].dtype;
}

/* Is it a 16-bit type, whose operands go from one product to the next in registers? */
static bool on_tensor_cores(const fb_nest *nest)
{
    const fb_chain *c = nest->chain;
    fb_dtype d = dtype_of(nest);
    bool tf32 = d == FB_F32 && c->capability >= 8;
    for (int i = 0; i < c->n_links; i++)
        tf32 &= nest->graph->nodes[c->link[i].node].attrs->precision == FB_PRECISION_TF32;
    return fb_dtype_is_half(d) || tf32;
}

/* Each thread's share of the sums of both products, and of the fragments that they are multiplied from. */
static int64_t registers_of(const fb_chain_tile *t, int size)
{
    int64_t width = t->columns + t->tile;
    return t->tensor ? width / 2 : width * 3 / 8 * (size == 8 ? 2 : 1);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Operands lie along either dimension, whichever is contiguous in memory, each line padded by 16 bytes. */
static int64_t operand_bytes(int64_t outer, int64_t k, int size)
{
    int64_t pad = 16 / size;
    return larger(outer * (k + pad), k * (outer + pad)) * size;
}

static int64_t shared_of(const fb_chain_tile *t, int size)
{
    int64_t tiles = operand_bytes(t->columns, t->tile, size);
    if (t->depth) tiles += operand_bytes(t->tile, t->depth, size);
    int64_t all = t->stages * tiles + (t->depth ? operand_bytes(t->rows, t->depth, size) : 0);
    if (size != 2) all += (int64_t)t->rows * (t->tile + 16 / size) * size;
    int64_t sums = (int64_t)t->rows * (t->columns + (t->tensor ? 8 : 4)) * (size == 8 ? 8 : 4);
    return larger(all, sums);
}

static bool fits(const fb_chain *c, fb_chain_tile *t, int size)
{
    t->shared_bytes = shared_of(t, size);
    return t->shared_bytes <= c->shared_bytes && registers_of(t, size) <= SUMS;
}

/* The widest tile, in two stages if they fit, of which rows of this height fit. */
static bool choose_tile(const fb_chain *c, fb_chain_tile *t, int size, const int64_t *knob)
{
    if (knob[FB_KNOB_TILE_K]) return false; /* a whole row of the left operand is there */
    for (t->tile = MOST_TILE; t->tile >= LEAST_TILE; t->tile /= 2) {
        if (knob[FB_KNOB_TILE_N] ? t->tile != knob[FB_KNOB_TILE_N]
                                 : t->tile > LEAST_TILE && t->tile / 2 >= last_of(c)->depth)
            continue;
        for (t->stages = 2; t->stages > 0; t->stages--)
            if ((!knob[FB_KNOB_STAGES] || t->stages == knob[FB_KNOB_STAGES]) && fits(c, t, size)) return true;
    }
    return false;
}

static int round_up(int64_t n, int by)
{
    return (int)(fb_ceil_div(n, by) * by);
}

/* Both products as tiles of rows × all columns, what is between them in shared memory: where there are columns enough
 * for every warp, and rows of no more than a thread's registers. Loads the weights once a block, as the other form
 * does, but each warp only fetches fragments of its own columns, and no thread has the sums of both products at once.
 */
static bool choose_whole(const fb_nest *nest, fb_chain_tile *out, int size, const int64_t *knob)
{
    const fb_chain *c = nest->chain;
    int64_t width = last_of(c)->depth, columns = last_of(c)->columns;
    if (size != 2 || !has_first(c) || c->online || width < LEAST_WIDTH || columns < LEAST_WIDTH) return false;
    fb_chain_tile t = *out;
    int each = FB_CHAIN_WARPS_N * 16;
    t.whole = true;
    t.tile = round_up(width, each);
    t.columns = round_up(columns, each);
    t.threads = nest->target->warp * WHOLE_WARPS;
    t.warp_rows = t.rows / FB_CHAIN_WARPS_M;
    t.step = knob[FB_KNOB_TILE_K] ? (int)knob[FB_KNOB_TILE_K] : WHOLE_STEP;
    t.depth = round_up(c->link[0].depth, t.step);
    if (knob[FB_KNOB_TILE_N] && knob[FB_KNOB_TILE_N] != t.tile) return false;
    if (t.rows * larger(t.tile, t.columns) / t.threads > WHOLE_SUMS || t.warp_rows % 16 || t.step % 16 ||
        t.tile % t.step)
        return false;
    int64_t middle = (int64_t)t.rows * (t.tile + 8) * size,
            sums = (int64_t)WHOLE_WARPS * 16 * (t.columns / FB_CHAIN_WARPS_N + 8) * 4;
    int64_t tiles = larger(operand_bytes(t.rows, t.step, size) + operand_bytes(t.tile, t.step, size),
                           operand_bytes(t.columns, t.step, size));
    for (t.stages = WHOLE_STAGES; t.stages > 1; t.stages--) {
        t.shared_bytes = larger(middle + t.stages * tiles, sums);
        if ((knob[FB_KNOB_STAGES] && t.stages != knob[FB_KNOB_STAGES]) || t.shared_bytes > c->shared_bytes) continue;
        *out = t;
        return true;
    }
    return false;
}

/* All columns of the first product as sums of whole warpgroups, what is between the products in their registers: where
 * there are columns enough for the instructions, and no more than registers. */
static bool choose_wide(const fb_nest *nest, fb_chain_tile *out, int size, const int64_t *knob)
{
    enum { GROUP = 64, THREADS = 128, COUNTS = 16 };
    const fb_chain *c = nest->chain;
    int64_t width = last_of(c)->depth, columns = last_of(c)->columns;
    if (!c->wide || size != 2 || !has_first(c) || c->online || out->rows % GROUP) return false;
    if (width < GROUP || columns < GROUP || c->link[0].depth < GROUP || width > WIDE_WIDTH) return false;
    fb_chain_tile t = *out;
    t.wide = true;
    t.step = FB_CHAIN_STRIP;
    t.tile = round_up(width, t.step);
    t.columns = round_up(columns, t.step);
    t.depth = round_up(c->link[0].depth, t.step);
    t.threads = (t.rows / GROUP + 1) * THREADS;
    t.warp_rows = GROUP / 4;
    if ((knob[FB_KNOB_TILE_N] && knob[FB_KNOB_TILE_N] != t.tile) ||
        (knob[FB_KNOB_TILE_K] && knob[FB_KNOB_TILE_K] != t.step))
        return false;
    int64_t stage = (int64_t)(t.rows + t.tile) * t.step * size;
    for (t.stages = WIDE_STAGES; t.stages > 1; t.stages--) {
        t.shared_bytes = t.stages * (stage + COUNTS) + COUNTS;
        if ((knob[FB_KNOB_STAGES] && t.stages != knob[FB_KNOB_STAGES]) ||
            t.shared_bytes + FB_CHAIN_NEAR > c->shared_bytes)
            continue;
        *out = t;
        return true;
    }
    return false;
}

/* Scores a tile at a time in whole warpgroups' registers, beside the sums of all columns. */
static bool attention_fits(const fb_chain *c, fb_chain_tile *t, int stages)
{
    enum { SIZE = 2, COUNT = 8, WORD = 4, WARP = 32 };
    int64_t depth = round_up(t->depth, FB_CHAIN_STRIP), columns = round_up(t->columns, FB_CHAIN_STRIP);
    int groups = t->rows / 64;
    t->stages = stages;
    t->copiers = groups == 2 ? 128 : 0; /* and with them registers move to those that multiply */
    t->threads = groups * 128 + t->copiers;
    t->shared_bytes = (t->rows * depth + stages * t->tile * (depth + columns)) * SIZE +
                      (2 + 4 * stages + groups) * COUNT + 2 * (t->threads / WARP + 1) * WORD;
    /* scores, P and sums: of 168 registers a thread where there are three warpgroups, else of 255 */
    int registers = t->tile / 2 + t->tile / 4 + t->columns / 2;
    return t->shared_bytes <= c->shared_bytes && registers <= (groups == 3 ? 128 : 176);
}

/* Loads that are made for each score, as of a mask or a bias that lies in memory; those of several at once where `packed`. */
static int loads_of_score(const fb_nest *nest, bool packed)
{
    const fb_section *s = &nest->sections[0];
    int space = s->values[nest->chain->made].space, n = 0;
    if (space == FB_NONE || !s->spaces[space].n) return 0;
    fb_ix column = s->spaces[space].var[0];
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        n += v->kind == FB_VALUE_LOAD && v->space == space && !fb_nest_is_product(nest, v->node) &&
             (!packed || fb_packs_load(nest, s, v, column, FB_CHAIN_TOGETHER));
    }
    return n;
}

/* Exponentials that take as long as what a score is made by. */
static double slow_of(const fb_nest *nest, fb_val value, bool *seen)
{
    const fb_value *v = &nest->sections[0].values[value];
    if (seen[value]) return 0;
    seen[value] = true;
    double all =
        v->kind == FB_VALUE_OP ? fb_special_cost(fb_node_computed_as(nest->graph, v->node), v->dtype, nest->target) : 0;
    for (int a = 0; a < v->n_args; a++) all += slow_of(nest, v->args[a], seen);
    return all;
}

static double slow_of_score(const fb_nest *nest)
{
    bool *seen = fb_calloc((size_t)nest->sections[0].n_values + 1, sizeof *seen);
    double all = slow_of(nest, nest->chain->shown, seen);
    fb_free(seen);
    return all;
}

/* A thread has two neighbours of each eight columns. Where rows of both right operands are columns of scores, they are
 * dealt out so that it has eight in a row instead, which come from memory at once. */
static int scores_together(const fb_nest *nest)
{
    const fb_chain_link *first = &nest->chain->link[0], *last = last_of(nest->chain);
    bool by_rows =
        fb_ix_steps_along(nest->pool, first->b_at, first->k) && fb_ix_steps_along(nest->pool, last->b_at, last->n);
    bool whole = last->depth % FB_CHAIN_TOGETHER == 0;
    return by_rows && whole && loads_of_score(nest, true) ? FB_CHAIN_TOGETHER : 1;
}

static bool choose_attention(const fb_nest *nest, fb_chain_tile *out, int size, const int64_t *knob)
{
    const fb_chain *c = nest->chain;
    if (!c->wide || size != 2 || !has_first(c) || !c->online) return false;
    if (c->link[0].depth > ATTEND_DEPTH || last_of(c)->columns > ATTEND_DEPTH) return false;
    if (knob[FB_KNOB_TILE_K] ? knob[FB_KNOB_TILE_K] != FB_CHAIN_STRIP
                             : c->rows < ATTEND_LEAST || last_of(c)->depth < ATTEND_LEAST)
        return false;
    bool small = c->rows <= ATTEND_FEW;
    for (int rows = knob[FB_KNOB_TILE_M] == ATTEND_MOST_ROWS ? ATTEND_MOST_ROWS : MOST_ROWS; rows >= 64; rows /= 2) {
        fb_chain_tile t = {.tensor = true, .attends = true, .rows = rows, .warp_rows = 16, .step = FB_CHAIN_STRIP};
        t.depth = round_up(c->link[0].depth, ATTEND_PIECE);
        t.columns = round_up(last_of(c)->columns, ATTEND_PIECE);
        t.blocks = c->batch * fb_ceil_div(c->rows, rows);
        bool few = rows > 64 && (small || t.blocks * 4 < (int64_t)c->units * 3);
        if ((knob[FB_KNOB_TILE_M] ? rows != knob[FB_KNOB_TILE_M] : few) || t.blocks >= MOST_BLOCKS) continue;
        for (t.tile = 128; t.tile >= 64; t.tile /= 2) {
            if (knob[FB_KNOB_TILE_N] ? knob[FB_KNOB_TILE_N] != t.tile : small && t.tile > 64) continue;
            int64_t stages = knob[FB_KNOB_STAGES] ? knob[FB_KNOB_STAGES] : ATTEND_STAGES;
            if (stages < 2 || stages > ATTEND_MOST_STAGES) continue;
            if (!attention_fits(c, &t, (int)stages) && (knob[FB_KNOB_STAGES] || !attention_fits(c, &t, 2))) continue;
            /* a multiprocessor has room for one block whose threads give registers to each other */
            t.launched = t.copiers && t.blocks > c->units ? c->units : t.blocks;
            t.together = scores_together(nest);
            *out = t;
            return true;
        }
    }
    return false;
}

static bool refuse_size(const fb_nest *nest, fb_chain_tile *t, int size, fb_verdict *why)
{
    const fb_chain *c = nest->chain;
    char row[32], all[32], chip[32];
    t->tile = LEAST_TILE;
    t->stages = 1;
    if (registers_of(t, size) > SUMS)
        return FB_REFUSE(why, UNSUPPORTED, FB_RULE_SIZE,
                         "a row of `%s` is %lld wide: its sums would take %lld of a thread's 255 registers, and %d are "
                         "free for them",
                         nest->graph->nodes[last_of(c)->node].name, (long long)last_of(c)->columns,
                         (long long)registers_of(t, size), SUMS);
    fb_format_bytes(row, (double)((int64_t)t->depth * size));
    fb_format_bytes(all, (double)shared_of(t, size));
    fb_format_bytes(chip, (double)c->shared_bytes);
    return FB_REFUSE(
        why, UNSUPPORTED, FB_RULE_SIZE,
        "the %lld-wide rows that `%s` is made of take %s each: a block would keep %d of them and a tile of "
        "both right operands, %s in all, and has %s on chip",
        (long long)c->link[0].depth, nest->graph->nodes[c->link[0].node].name, row, t->rows, all, chip);
}

bool fb_schedule_chain_on_gpu(const fb_nest *nest)
{
    return nest->chain && nest->chain->units > 0;
}

static bool choose(const fb_nest *nest, const fb_knobs *knobs, fb_chain_tile *t, fb_verdict *why)
{
    const fb_chain *c = nest->chain;
    const int64_t *knob = (knobs ? knobs : &fb_knobs_automatic)->value;
    fb_dtype dtype = dtype_of(nest);
    int size = fb_dtype_size(dtype);
    if (choose_attention(nest, t, size, knob)) return true;
    *t = (fb_chain_tile){.tensor = on_tensor_cores(nest)};
    t->warp_rows = t->tensor ? 16 : 8;
    t->columns = round_up(last_of(c)->columns, fb_dtype_is_half(dtype) ? 16 : 8);
    if (has_first(c)) t->depth = round_up(c->link[0].depth, fb_dtype_is_half(dtype) ? 16 : 8);
    int most = t->tensor ? MOST_ROWS : MOST_ROWS / 2, least = t->tensor ? LEAST_ROWS : LEAST_ROWS / 2;
    for (t->rows = most; t->rows >= least; t->rows /= 2) {
        t->threads = t->rows / t->warp_rows * nest->target->warp;
        t->blocks = c->batch * fb_ceil_div(c->rows, t->rows);
        /* all multiprocessors busy, if there are rows for that */
        bool few = t->rows > least && (t->blocks * 4 < (int64_t)c->units * 3 || t->rows / 2 >= c->rows);
        if (knob[FB_KNOB_TILE_M] ? t->rows != knob[FB_KNOB_TILE_M] : few) continue;
        if (t->blocks >= MOST_BLOCKS) continue;
        if (choose_wide(nest, t, size, knob) || choose_whole(nest, t, size, knob) || choose_tile(c, t, size, knob))
            return true;
    }
    if (knob[FB_KNOB_TILE_M] || knob[FB_KNOB_TILE_N] || knob[FB_KNOB_TILE_K] || knob[FB_KNOB_STAGES])
        return FB_REFUSE(
            why, UNSUPPORTED, FB_RULE_KNOB,
            "no tile of these knobs fits: tile_m is %d to %d; either tile_n is %d to %d and stages 1 or 2, or tile_n "
            "is all columns (of a softmax's scores 64 or 128, with tile_k 64), tile_k 16, 32 or 64 and stages 2 to %d; "
            "and a block has %lld KiB on chip",
            least, most, LEAST_TILE, MOST_TILE, WHOLE_STAGES, (long long)c->shared_bytes / 1024);
    t->rows = least;
    return refuse_size(nest, t, size, why);
}

static int stages_of(const fb_nest *nest, const fb_knobs *knobs)
{
    fb_chain_tile t;
    fb_verdict ignored;
    return choose(nest, knobs, &t, &ignored) ? t.stages : 0;
}

bool fb_schedule_chain_tile(const fb_nest *nest, const fb_knobs *knobs, fb_chain_tile *out, fb_verdict *why)
{
    if (!choose(nest, knobs, out, why)) return false;
    out->usual = fb_usual_stages(nest, knobs, out->stages, stages_of);
    return true;
}

fb_chain_tile fb_schedule_chain_tile_had(const fb_nest *nest, const fb_knobs *knobs)
{
    fb_chain_tile tile;
    fb_verdict why;
    if (!fb_schedule_chain_tile(nest, knobs, &tile, &why)) FB_ASSERT(fb_schedule_chain_tile(nest, NULL, &tile, &why));
    return tile;
}

int64_t fb_schedule_chain_together(const fb_nest *nest)
{
    enum { CACHED = 24 << 20 }; /* bytes of right operands: half of an L2 cache */
    const fb_chain *c = nest->chain;
    int64_t each = last_of(c)->depth * (c->link[0].depth + last_of(c)->columns) * fb_dtype_size(dtype_of(nest));
    int64_t some = each > 0 ? CACHED / each : c->batch;
    if (some >= c->batch) return c->batch;
    while (some > 1 && c->batch % some) some--;
    return some < 1 ? 1 : some;
}

void fb_schedule_chain_tiles(const fb_nest *nest, const fb_chain_tile *tile, int64_t *all, int64_t *most)
{
    const fb_chain *c = nest->chain;
    int64_t tiles = fb_ceil_div(last_of(c)->depth, tile->tile);
    *all = *most = 0;
    for (int64_t row = 0; row < c->rows; row += tile->rows) {
        int64_t some = c->n_seen ? 0 : tiles;
        for (int64_t t = 0; t < tiles && c->n_seen; t++)
            some += fb_chain_seen(c, row, tile->rows, t * tile->tile, tile->tile) > 0;
        *all += some * c->batch;
        *most = larger(*most, some);
    }
}

static double attention_us(const fb_nest *nest, const fb_machine *m, const fb_chain_tile *x)
{
    int packed = x->together > 1 ? loads_of_score(nest, true) : 0;
    fb_attention_work w = {.blocks = x->blocks,
                           .shared_bytes = x->shared_bytes,
                           .rows = x->rows,
                           .tile = x->tile,
                           .depth = round_up(x->depth, ATTEND_STEP),
                           .columns = x->columns,
                           .loads = loads_of_score(nest, false) - packed,
                           .packs = packed,
                           .slow = slow_of_score(nest)};
    fb_schedule_chain_tiles(nest, x, &w.all, &w.most);
    return fb_attention_us(m, &w);
}

bool fb_schedule_chain_attends(const fb_nest *nest, const fb_knobs *knobs)
{
    return fb_schedule_chain_on_gpu(nest) && fb_schedule_chain_tile_had(nest, knobs).attends;
}

double fb_schedule_chain_us(const fb_nest *nest, const fb_knobs *knobs, const fb_machine *m)
{
    const fb_chain *c = nest->chain;
    if (!fb_schedule_chain_on_gpu(nest)) return 0;
    const fb_chain_tile x = fb_schedule_chain_tile_had(nest, knobs);
    fb_dtype dtype = dtype_of(nest);
    fb_tile_work w = {.dtype = dtype,
                      .tensor = x.tensor,
                      .blocks = x.blocks,
                      .shared_bytes = x.shared_bytes,
                      .threads = x.threads,
                      .n_products = 2,
                      .stages = x.stages,
                      .usual = x.usual,
                      .in_turn = !x.whole && x.stages == 1};
    double size = fb_dtype_size(dtype);
    if (x.attends) return attention_us(nest, m, &x);
    if (x.wide)
        return fb_wide_us(m, &(fb_wide_work){.blocks = x.blocks,
                                             .rows = x.rows,
                                             .depth = x.depth,
                                             .width = x.tile,
                                             .columns = x.columns,
                                             .stages = x.stages,
                                             .usual = x.usual});
    if (x.whole) {
        w.product[0] = (fb_tile_product){x.warp_rows, x.tile / FB_CHAIN_WARPS_N, x.depth};
        w.product[1] = (fb_tile_product){x.warp_rows, x.columns / FB_CHAIN_WARPS_N, x.tile};
        w.tiles = (double)(x.depth + x.tile) / x.step;
        w.bytes = ((double)x.depth * (x.rows + x.tile) + (double)x.tile * x.columns) * size;
    } else {
        double tiles = (double)fb_ceil_div(last_of(c)->depth, x.tile);
        w.product[0] = (fb_tile_product){x.warp_rows, x.tile, tiles * x.depth};
        w.product[1] = (fb_tile_product){x.warp_rows, x.columns, tiles * x.tile};
        w.tiles = tiles;
        /* a softmax goes through a row's lanes, and rows that are not made here come from memory */
        w.waits = tiles * ((c->online ? 1 : 0) + (has_first(c) ? 0 : 3));
        w.bytes = ((double)x.depth * x.rows + tiles * x.tile * (x.depth + x.columns)) * size;
    }
    return fb_tile_us(m, &w);
}
