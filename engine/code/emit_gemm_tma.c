/* Tiles of the gemm family by kernels/gemm_tma.cuh: blocks stay and go from tile to tile, one warp asks for operands by
 * tensor maps, and each warp makes what becomes of its rows of sums, a part of their columns at a time.
 *
 * requires  a tiled nest, its tile one of tma
 * provides  the kernel
 */
#include "base/integer.h"
#include "code/emit_tiled.h"
#include "code/names.h"

#include <inttypes.h>

typedef fb_emit_tiled writer;

enum { LINE = 8 }; /* columns that a thread has in a row */

/* ---- operands ---- */

/* "fb_tile::describe(…": map number `map` of an operand, of which `box` lines are copied at once. */
static void write_map(const writer *w, int map, int part, const fb_operand *o, const fb_tile_even *x, const char *box)
{
    fb_emitter *e = w->e;
    fb_emit_list(e, "fb_tile::describe(fb_shared, fb_own, %d, ", map);
    fb_emit_open(e, "[&]() -> const %s *", w->element);
    fb_emit_cuda_declare(e, o->batch, "0");
    fb_emit_cuda_declare(e, o->k, "0");
    fb_emit_cuda_declare(e, o->outer, "0");
    fb_emit_tiled_element(w, part, o, true, NULL);
    fb_emit_close_by(e, fb_arena_printf(e->arena,
                                        "}(), %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %s);",
                                        x->inner, x->lines, x->batches, x->line, x->batch, box));
    fb_emit_close_by(e, NULL);
}

static const char *batch_in(const writer *w, const fb_tile_even *x)
{
    return x->batch && w->t->batch > 1 ? "fb_here.batch" : "0";
}

static bool lies_as_first(const writer *w, int phase)
{
    const fb_nest *nest = w->e->nest;
    return fb_tile_left(nest, phase).along_k == fb_tile_left(nest, 0).along_k &&
           fb_tile_right(nest, phase).along_k == fb_tile_right(nest, 0).along_k;
}

/* What a phase is multiplied by: its operands may lie in other ways than those of the first. */
static const char *tile_of(const writer *w, int phase)
{
    return lies_as_first(w, phase) ? "fb_tile" : fb_arena_printf(w->e->arena, "fb_tile%d", phase + 1);
}

static void write_type(const writer *w, int phase)
{
    const fb_gemm_tile *x = &w->tile;
    if (phase && lies_as_first(w, phase)) return;
    fb_emit(w->e, "using %s = fb_gemm_tma<%s, %d, %d, %d, %s, %s, %d, %d, %d>;", tile_of(w, phase), w->element, x->m,
            x->n, w->t->n_strips, fb_tile_left(w->e->nest, phase).along_k ? "true" : "false",
            fb_tile_right(w->e->nest, phase).along_k ? "true" : "false", x->stages, x->cluster, x->split);
}

/* Maps of left operands come first, one a phase; then those of products. */
static void write_maps(const writer *w)
{
    const fb_nest *nest = w->e->nest;
    fb_tile_even x;
    for (int i = 0; i < w->t->n_phases; i++) {
        const fb_phase *phase = &w->t->phases[i];
        const bool along_k = fb_tile_right(nest, i).along_k;
        FB_ASSERT(fb_tile_left_even(nest, i, &x));
        write_map(w, i, nest->n_sections + i, &phase->left, &x,
                  fb_arena_printf(w->e->arena, "%s::A_LINES", tile_of(w, i)));
        for (int s = 0; s < w->t->n_strips; s++) {
            const int product = phase->product[s];
            bool known = false;
            for (int before = 0; before < s; before++) known |= phase->product[before] == product;
            if (known) continue;
            FB_ASSERT(fb_tile_right_even(nest, product, along_k, &x));
            write_map(w, w->t->n_phases + product, nest->n_sections + w->t->n_phases + product,
                      &w->t->products[product].right, &x, fb_arena_printf(w->e->arena, "%s::B_LINES", tile_of(w, i)));
        }
    }
}

/* What a copy of strip `s` wants: map, column, batch. */
static const char *strip_of(const writer *w, int phase, int s)
{
    const fb_phase *p = &w->t->phases[phase];
    fb_tile_even x;
    FB_ASSERT(fb_tile_right_even(w->e->nest, p->product[s], fb_tile_right(w->e->nest, phase).along_k, &x));
    return fb_arena_printf(w->e->arena, "fb_ask(fb_own + %d, fb_here.column * %d + %" PRId64 ", %s);",
                           w->t->n_phases + p->product[s], w->tile.strip, p->column[s], batch_in(w, &x));
}

/* "min(…)" of a row or column in the tile, where the tile may reach beyond the last. */
static const char *inside(const writer *w, bool few, const char *at, const char *first, int64_t last)
{
    return few ? fb_arena_printf(w->e->arena, "min(%s, (int)(%" PRId64 " - %s))", at, last, first) : at;
}

/* Row fb_m and column fb_n of fb_row and fb_column: of those beyond the last, the last ones. */
static void write_place(const writer *w)
{
    fb_emit(w->e, "const int fb_m = %s, fb_n = %s;", inside(w, w->by.few_rows, "fb_row", "m0", w->t->rows - 1),
            inside(w, w->by.few_columns, "fb_column", "n0", w->t->columns - w->by.vector));
}

static void write_origin(const writer *w)
{
    fb_emit(w->e, "const fb_at m0 = fb_here.row * %d, n0 = fb_here.column * %d;", w->tile.m, w->tile.strip);
    if (w->t->batch > 1) fb_emit(w->e, "const fb_at fb_batch = fb_here.batch;");
}

/* Columns of which one line of memory has all that is loaded for them; 0: nothing is. */
static int touched(const writer *w)
{
    enum { BYTES = 128 };
    fb_emit_section(w->e, 0);
    const int size = fb_emit_cuda_touched(w->e);
    return size ? BYTES / size : 0;
}

static void write_touched(const writer *w)
{
    fb_emitter *e = w->e;
    const int used = fb_names_count(e->used);
    if (!touched(w)) {
        fb_emit(e, "[](int, int) {});");
        return;
    }
    fb_emit_open(e, "[&](const int fb_row, const int fb_column)");
    write_origin(w);
    write_place(w);
    fb_emit_tiled_touch(w);
    fb_emit_close_by(e, "});");
    fb_names_forget(e->used, used);
}

/* Steps of a phase, or of this block's part of them. All parts are as long, for wgmma wants to be under way in loops of
 * which the compiler knows the length: the last one may end beyond the operands, where all is zero. */
static const char *steps_of(const writer *w, int phase)
{
    return fb_emit_number(w->e, fb_ceil_div(fb_gemm_steps(w->t, &w->tile, phase), w->tile.split));
}

/* What is loaded beside the sums is touched while the last phase comes. */
static void write_copies_of(writer *w, int phase)
{
    fb_emitter *e = w->e;
    const bool last = phase + 1 == w->t->n_phases;
    fb_tile_even x;
    FB_ASSERT(fb_tile_left_even(e->nest, phase, &x));
    fb_emit_list(e, "%s::bring<%d>(fb_shared, fb_step, %s, %s, ", tile_of(w, phase), last ? touched(w) : 0,
                 w->tile.split > 1 ? "fb_from" : "0", steps_of(w, phase));
    fb_emit_open(e, "[&](auto fb_ask)");
    fb_emit(e, "fb_ask(fb_own + %d, fb_here.row * %d, %s);", phase, w->tile.m, batch_in(w, &x));
    fb_emit_close_by(e, "},");
    fb_emit_open(e, "[&](int fb_strip, auto fb_ask)");
    for (int s = 0; s + 1 < w->t->n_strips; s++) fb_emit(e, "if (fb_strip == %d) return %s", s, strip_of(w, phase, s));
    fb_emit(e, "%s", strip_of(w, phase, w->t->n_strips - 1));
    fb_emit_close_by(e, "},");
    if (last)
        write_touched(w);
    else
        fb_emit(e, "[](int, int) {});");
    fb_emit_close_by(e, NULL);
}

static void write_next_step(const writer *w, int phase)
{
    fb_emit(w->e, "fb_step += %s;", steps_of(w, phase));
}

static void write_copies(writer *w)
{
    for (int p = 0; p < w->t->n_phases; p++) {
        write_copies_of(w, p);
        write_next_step(w, p);
    }
}

/* ---- sums ---- */

/* What elements load comes first, for several of them at once, and what they become later: of those beyond the last row
 * (column) the last one's is loaded, and nothing stored. */
static void write_elements(writer *w)
{
    fb_emitter *e = w->e;
    fb_str own = {0};
    w->apart = w->by.vector >= FB_GEMM_TMA_FEW ? LINE : FB_GEMM_TMA_PART / w->t->n_strips;
    w->sums = "fb_c";
    fb_emit_open(e, "fb_tile::each<%d>(%s, fb_shared, [&](const int fb_row, const int fb_column)", w->by.vector,
                 w->tile.split > 1 ? "fb_all" : "fb_sums");
    fb_emit_section(e, 0);
    fb_emit_tiled_find_sums(w);
    if (w->by.few_rows) fb_str_addf(&own, "m0 + fb_row < %" PRId64, w->t->rows);
    if (w->by.few_columns) fb_str_addf(&own, "%sn0 + fb_column < %" PRId64, own.n ? " && " : "", w->t->columns);
    if (own.n) fb_emit(e, "const bool fb_own = %s;", fb_str_get(&own));
    write_place(w);
    fb_emit_tiled_load(w);
    for (int v = 0; v < w->s->n_values && w->by.vector == 1; v++)
        if (!fb_emit_tiled_is_sum(w, v)) fb_emit_load_first(e, v);
    fb_emit_open(e, "return [=](const %s *fb_c)", w->sum);
    if (own.n) fb_emit(e, "if (!fb_own) return;");
    fb_emit_tiled_store(w);
    fb_emit_close_by(e, "};");
    fb_emit_close_by(e, "});");
    fb_str_free(&own);
}

static void write_tile(writer *w)
{
    fb_emitter *e = w->e;
    fb_emit(e, "fb_tile::registers fb_sums = {};");
    for (int p = 0; p < w->t->n_phases; p++) {
        const double ratio = w->t->phases[p].ratio;
        if (ratio != 1) fb_emit(e, "fb_tile::scale(fb_sums, %s);", fb_emit_literal(e, w->t->dtype, ratio));
        fb_emit(e, "%s::multiply(fb_sums, fb_shared, fb_step, %s);", tile_of(w, p), steps_of(w, p));
        write_next_step(w, p);
    }
    if (w->tile.split > 1) {
        fb_emit(e, "fb_tile::owned fb_all;");
        fb_emit(e, "fb_tile::combine(fb_all, fb_sums, fb_shared, %s);", steps_of(w, 0));
    }
    write_origin(w);
    write_elements(w);
}

/* ---- the kernel ---- */

/* Where steps are shared a block has one tile, else all of its own one after the other. */
static void write_turns(writer *w, void (*write)(writer *))
{
    fb_emitter *e = w->e;
    const fb_gemm_turns turns = fb_gemm_turns_of(e->nest, &w->tile);
    const bool one = w->tile.split > 1;
    if (!one) fb_emit_for(e, "int", "fb_turn", "fb_first", fb_emit_number(e, turns.all), "fb_clusters");
    fb_emit(e, "const fb_tile_place fb_here = fb_tile::place<%" PRId64 ", %" PRId64 ", %d>(%s);", turns.rows,
            turns.columns, w->tile.band, one ? "fb_first" : "fb_turn");
    write(w);
    if (!one) fb_emit_close(e);
}

/* Which clusters there are, and which steps of their tiles a block has. */
static void write_shares(const writer *w)
{
    fb_emitter *e = w->e;
    const fb_gemm_tile *x = &w->tile;
    fb_emit(e, "int fb_step = 0;");
    fb_emit(e, "const int fb_first = " FB_BLOCK ".x / %d;", x->cluster * x->split);
    if (x->split == 1) {
        fb_emit(e, "const int fb_clusters = " FB_GRID ".x / %d;", x->cluster);
        return;
    }
    fb_emit(e, "const int fb_from = fb_tile::part() * %s;", steps_of(w, 0));
}

void fb_emit_gemm_tma(fb_emit_tiled *w)
{
    fb_emitter *e = w->e;
    const fb_gemm_tile *x = &w->tile;
    const fb_tiled *t = w->t;
    const int maps = t->n_phases + t->n_products, blocks = x->cluster * x->split;
    fb_needs_text(&e->needs, FB_TEXT_GEMM_TMA);
    e->needs.warpgroups = true;
    fb_emit_remark(e, "by whole warpgroups: 64 rows each multiply, a warp of the last asks for operands");
    for (int p = 0; p < t->n_phases; p++) write_type(w, p);
    fb_emit(e, "static_assert(fb_tile::THREADS == %d && fb_tile::LINE <= %d, \"as launched\");", x->threads,
            FB_GEMM_TMA_LINE);
    fb_emit(e, "extern __shared__ __align__(1024) unsigned char fb_shared[];");
    fb_emit(e, "static __device__ fb_tensor_map fb_maps[%d];", x->grid[0] * maps);
    fb_emit(e, "fb_tensor_map *const fb_own = fb_maps + " FB_BLOCK ".x %% %d * %d;", x->grid[0], maps);
    fb_emit(e, "fb_tile::begin(fb_shared);");
    write_shares(w);
    w->by = fb_tile_epilogue_of(e->nest, e->knobs, x);
    fb_emit_if(e, "fb_tile::brings()");
    fb_emit(e, "fb_tile::begin_bringing();");
    write_maps(w);
    fb_emit(e, "fb_tile::described<%d>(fb_own);", maps);
    write_turns(w, write_copies);
    if (x->split > 1) fb_emit(e, "fb_tile::meet_others();");
    fb_emit_close(e);
    fb_emit_if(e, "!fb_tile::brings()");
    fb_emit(e, "fb_tile::begin_multiplying();");
    write_turns(w, write_tile);
    fb_emit_close(e);
    fb_emit(e, "fb_tile::end();");
    if (blocks > 1) {
        e->function->cluster = e->needs.cluster = blocks;
        e->needs.meets = FB_MEETS_CLUSTER;
    }
}
