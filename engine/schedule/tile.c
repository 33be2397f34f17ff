/* How operands lie in memory, seen from a tile, and in what groups its sums are stored. Needs a tiled nest and its
 * tile.
 */
#include "schedule/tile.h"

#include "schedule/schedule.h"

enum { PIECE = 16, LINE = 128 }; /* bytes */

bool fb_tile_on_tensor_cores(const fb_tiled *t)
{
    bool tf32 = t->dtype == FB_F32 && t->precision == FB_PRECISION_TF32 && t->capability >= 8;
    return fb_dtype_size(t->dtype) == 2 || tf32;
}

/* ---- operands ---- */

/* Does one of its loads? */
static bool steps_along(const fb_nest *nest, const fb_operand *o, fb_ix var)
{
    for (int i = 0; i < o->section.n_values; i++) {
        const fb_value *v = &o->section.values[i];
        if (v->kind == FB_VALUE_LOAD && fb_ix_steps_along(nest->pool, v->at, var)) return true;
    }
    return false;
}

/* Unless some are neighbours in rows (columns) and none in k. */
static bool lies_along_k(const fb_nest *nest, const fb_operand *o)
{
    return steps_along(nest, o, o->k) || !steps_along(nest, o, o->outer);
}

const fb_value *fb_tile_plain_load(const fb_nest *nest, const fb_operand *o)
{
    const fb_value *v = &o->section.values[o->section.roots[0].value];
    bool plain = v->kind == FB_VALUE_LOAD && v->when == FB_NONE && v->table == FB_NONE;
    return plain && v->dtype == nest->tiled->dtype && !o->section.n_data ? v : NULL;
}

/* Do pieces along the contiguous dimension lie at multiples of their size, whole or not at all in the operand? */
static bool comes_in_pieces(const fb_nest *nest, const fb_operand *o, bool along_k, int64_t k, int64_t outer)
{
    const fb_value *v = fb_tile_plain_load(nest, o);
    int piece = PIECE / fb_dtype_size(nest->tiled->dtype);
    fb_ix last = along_k ? o->k : o->outer;
    if (!v || !fb_ix_is_var(nest->pool, last) || (along_k ? k : outer) % piece) return false;
    return fb_packs(nest, v->node, v->at, last, piece);
}

/* The same of lines of the cache; of an operand that comes in pieces. */
static bool comes_in_lines(const fb_nest *nest, const fb_operand *o, bool along_k)
{
    const fb_value *v = fb_tile_plain_load(nest, o);
    return fb_packs(nest, v->node, v->at, along_k ? o->k : o->outer, LINE / fb_dtype_size(nest->tiled->dtype));
}

/* Are elements copied in the background one by one, where pieces of them are not? */
static bool comes_in_words(const fb_nest *nest, const fb_operand *o)
{
    return !fb_tile_on_tensor_cores(nest->tiled) && fb_tile_plain_load(nest, o);
}

fb_tile_operand fb_tile_left(const fb_nest *nest, int phase)
{
    const fb_phase *p = &nest->tiled->phases[phase];
    fb_tile_operand x = {.along_k = lies_along_k(nest, &p->left)};
    x.pieces = comes_in_pieces(nest, &p->left, x.along_k, p->k, nest->tiled->rows);
    x.lines = x.pieces && comes_in_lines(nest, &p->left, x.along_k);
    x.words = !x.pieces && comes_in_words(nest, &p->left);
    return x;
}

fb_tile_operand fb_tile_right(const fb_nest *nest, int phase)
{
    const fb_tiled *t = nest->tiled;
    const fb_phase *p = &t->phases[phase];
    int along = 0, across = 0, piece = PIECE / fb_dtype_size(t->dtype);
    for (int s = 0; s < t->n_strips; s++) {
        if (p->product[s] == FB_NONE) continue;
        bool is = lies_along_k(nest, &t->products[p->product[s]].right);
        along += is;
        across += !is;
    }
    fb_tile_operand x = {.along_k = along >= across, .pieces = true, .lines = true, .words = true};
    for (int s = 0; s < t->n_strips; s++) {
        if (p->product[s] == FB_NONE) continue;
        const fb_operand *right = &t->products[p->product[s]].right;
        x.pieces &= comes_in_pieces(nest, right, x.along_k, p->k, t->columns) && p->column[s] % piece == 0;
        x.lines = x.lines && x.pieces && comes_in_lines(nest, right, x.along_k);
        x.words &= comes_in_words(nest, right);
    }
    x.words &= !x.pieces;
    return x;
}

/* From one value of `var` to the next; 0 where there is but one. False: not always as far. */
static bool takes_steps(const fb_nest *nest, fb_ix *at, fb_ix var, int64_t *step)
{
    *step = 0;
    return !fb_ix_is_var(nest->pool, var) || fb_ix_stride(nest->pool, *at, var, step, at);
}

static bool lies_evenly(const fb_nest *nest, const fb_operand *o, bool along_k, fb_tile_even *x)
{
    const fb_value *v = fb_tile_plain_load(nest, o);
    const int64_t piece = PIECE / fb_dtype_size(nest->tiled->dtype), most = INT32_MAX;
    int64_t next, first;
    fb_ix at;
    if (!v) return false;
    at = v->at;
    if (!takes_steps(nest, &at, along_k ? o->k : o->outer, &next) || next != 1) return false;
    if (!takes_steps(nest, &at, along_k ? o->outer : o->k, &x->line) || x->line <= 0 || x->line % piece) return false;
    if (!takes_steps(nest, &at, o->batch, &x->batch) || x->batch < 0 || x->batch % piece) return false;
    x->batches = x->batch ? nest->tiled->batch : 1;
    return fb_ix_is_const(nest->pool, at, &first) && x->inner <= most && x->lines <= most;
}

bool fb_tile_left_even(const fb_nest *nest, int phase, fb_tile_even *out)
{
    const fb_phase *p = &nest->tiled->phases[phase];
    const int64_t rows = nest->tiled->rows;
    const bool along_k = lies_along_k(nest, &p->left);
    *out = (fb_tile_even){.inner = along_k ? p->k : rows, .lines = along_k ? rows : p->k};
    return lies_evenly(nest, &p->left, along_k, out);
}

bool fb_tile_right_even(const fb_nest *nest, int product, bool along_k, fb_tile_even *out)
{
    const fb_product *p = &nest->tiled->products[product];
    *out = (fb_tile_even){.inner = along_k ? p->k : p->columns, .lines = along_k ? p->columns : p->k};
    return lies_evenly(nest, &p->right, along_k, out);
}

/* ---- sums ---- */

static bool loads_early(const fb_nest *nest, const fb_gemm_tile *tile, const fb_tile_epilogue *x)
{
    enum { MOST = 128 }; /* bytes a thread, for which there are registers */
    const fb_section *s = &nest->sections[0];
    int64_t bytes = 0;
    if (s->n_passes || tile->split > 1 || x->vector == 1 || tile->m * x->groups > tile->threads) return false;
    for (int v = 0; v < s->n_values; v++)
        if (s->values[v].kind == FB_VALUE_LOAD && !fb_nest_is_product(nest, s->values[v].node))
            bytes += x->vector * fb_dtype_size(s->values[v].dtype);
    return bytes > 0 && bytes <= MOST;
}

int64_t fb_tile_across(const fb_tiled *t, const fb_gemm_tile *tile)
{
    return tile->joined ? t->columns * t->batch : t->columns;
}

int64_t fb_tile_columns(const fb_section *s)
{
    int64_t columns = 1;
    for (int d = s->blocked; d < s->rows.n; d++) columns *= s->rows.extent[d];
    return columns;
}

fb_tile_epilogue fb_tile_epilogue_of(const fb_nest *nest, const fb_knobs *knobs, const fb_gemm_tile *tile)
{
    enum { FEW = 4, IN_LINE = 8 };
    const fb_tiled *t = nest->tiled;
    const fb_section *s = &nest->sections[0];
    fb_tile_epilogue x = {.columns = fb_tile_columns(s),
                          .vector = 1,
                          .few_rows = t->rows % ((int64_t)tile->m * (tile->tma ? tile->cluster : 1)) != 0,
                          .few_columns = !t->whole && fb_tile_across(t, tile) % tile->strip != 0};
    int64_t line = t->whole ? x.columns : tile->tma ? tile->strip / tile->split : tile->strip;
    if (s->rows.n > s->blocked) x.vector = fb_schedule_vector(nest, knobs, s, FB_NONE);
    if (x.vector > FEW && t->n_strips > (tile->tma ? 2 : 1))
        x.vector = FEW;                                      /* or all strips' operands would crowd the registers */
    if (x.vector > IN_LINE && tile->tma) x.vector = IN_LINE; /* what a thread has in its registers */
    while (x.vector > 2 && tile->m * line / x.vector < tile->threads) x.vector /= 2;
    x.groups = line / x.vector;
    x.early = loads_early(nest, tile, &x);
    return x;
}
