/* The gemm family in CUDA: products accumulated by kernels/gemm.cuh, with functions that say what an element of an
 * operand is, and the epilogue on the tile of sums in shared memory: element by element, or row by row, a warp a row.
 *
 * requires  a tiled nest: one section, and a section for each operand
 * provides  the kernel; where the nest is a step of a recurrence, code/emit_recurrence.c has written it
 */
#include "code/emit_tiled.h"
#include "code/names.h"
#include "schedule/gemm.h"
#include "schedule/schedule.h"
#include "schedule/tile.h"

#include <inttypes.h>
#include <string.h>

typedef fb_emit_tiled writer;

int fb_emit_cuda_gemm_threads(fb_emitter *e)
{
    return e->nest->tiled->round ? fb_emit_recurrence_threads(e) : fb_gemm_tile_had(e->nest, e->knobs).threads;
}

/* ---- operands ---- */

void fb_emit_tiled_element(const writer *w, int part, const fb_operand *o, bool piece, const char *inside)
{
    fb_emitter *e = w->e;
    int used = fb_names_count(e->used);
    fb_emit_section(e, part);
    const fb_value *plain = fb_tile_plain_load(e->nest, o);
    const char *value;
    if (plain) {
        value = fb_emit_element(e, plain->node, FB_NONE, plain->at);
    } else {
        fb_val v = o->section.roots[0].value;
        fb_emit_needed(e, v, 0);
        value = fb_emit_ref(e, v);
        value = fb_emit_spell(e, e->spell->type[w->t->dtype].to, &value, 1);
    }
    fb_emit_cuda_return(e, value, piece, inside);
    fb_names_forget(e->used, used);
}

bool fb_emit_cuda_is_guarded(int64_t extent, int64_t by)
{
    return extent % by != 0;
}

const char *fb_emit_cuda_operand_type(const fb_emitter *e, const char *element, bool piece, bool guarded)
{
    if (!piece) return element;
    return fb_arena_printf(e->arena, guarded ? "fb_piece<%s>" : "fb_inside<%s>", element);
}

void fb_emit_cuda_guard(fb_emitter *e, const char *what, int64_t extent, int64_t by, bool piece, const char **inside)
{
    if (!fb_emit_cuda_is_guarded(extent, by)) return;
    if (!piece)
        fb_emit(e, "if (%s >= %" PRId64 ") return {};", what, extent);
    else
        *inside =
            fb_arena_printf(e->arena, "%s%s%s < %" PRId64, *inside ? *inside : "", *inside ? " && " : "", what, extent);
}

void fb_emit_cuda_return(fb_emitter *e, const char *value, bool piece, const char *inside)
{
    if (inside)
        fb_emit(e, "return {&%s, %s};", value, inside);
    else
        fb_emit(e, "return %s%s;", piece ? "&" : "", value);
}

/* What the function of an operand returns: an element, or the place of one or of a piece. */
static const char *returned(const writer *w, const fb_tile_operand *x, bool guarded)
{
    if (x->words) return fb_arena_printf(w->e->arena, "fb_word<%s>", w->element);
    return fb_emit_cuda_operand_type(w->e, w->element, x->pieces, guarded);
}

/* Where a tile reaches beyond an operand whose pieces are copied by few threads, these copy its last rows (columns) once
 * more: what is made of them is not stored. */
static const char *clamped(const writer *w, const char *at, int64_t extent, int64_t by, bool along_k)
{
    enum { PIECE = 8 };
    if (!w->tile.wide || !fb_emit_cuda_is_guarded(extent, by)) return at;
    return fb_arena_printf(w->e->arena, "min(%s, (fb_at)%" PRId64 ")", at, extent - (along_k ? 1 : PIECE));
}

static void write_left(const writer *w, int phase, const fb_tile_operand *x)
{
    fb_emitter *e = w->e;
    const fb_phase *p = &w->t->phases[phase];
    const bool piece = x->pieces || x->words;
    const bool rows = !w->tile.wide && fb_emit_cuda_is_guarded(w->t->rows, w->tile.m);
    bool guarded = rows || fb_emit_cuda_is_guarded(p->k, w->tile.k);
    fb_emit_open(e, "[&](fb_at fb_m, fb_at fb_k) -> %s", returned(w, x, guarded));
    const char *inside = NULL;
    if (rows) fb_emit_cuda_guard(w->e, "m0 + fb_m", w->t->rows, w->tile.m, piece, &inside);
    fb_emit_cuda_guard(w->e, "fb_k", p->k, w->tile.k, piece, &inside);
    if (!w->tile.joined) fb_emit_cuda_declare(w->e, p->left.batch, "fb_batch"); /* else it is the same in all */
    fb_emit_cuda_declare(w->e, p->left.outer, clamped(w, "m0 + fb_m", w->t->rows, w->tile.m, x->along_k));
    fb_emit_cuda_declare(w->e, p->left.k, "fb_k");
    fb_emit_tiled_element(w, e->nest->n_sections + phase, &p->left, piece, inside);
    fb_emit_close_by(e, "},");
}

const char *fb_emit_tiled_strips(const writer *w, const fb_phase *p, const char *own)
{
    int n = w->t->n_strips;
    int64_t step = n > 1 ? p->column[1] - p->column[0] : 0;
    for (int s = 0; s < n; s++)
        if (p->product[s] != p->product[0] || p->product[0] == FB_NONE || p->column[s] != p->column[0] + s * step)
            return NULL;
    const char *text = own;
    if (p->column[0]) text = fb_arena_printf(w->e->arena, "%s + %" PRId64, text, p->column[0]);
    return step ? fb_arena_printf(w->e->arena, "%s + fb_strip * %" PRId64, text, step) : text;
}

void fb_emit_tiled_right(const writer *w, int product, const char *column, bool piece, const char *inside)
{
    const fb_product *x = &w->t->products[product];
    fb_emit_cuda_declare(w->e, x->right.batch, "fb_batch");
    if (!w->e->replaced) fb_emit_cuda_declare(w->e, x->right.k, "fb_k");
    fb_emit_cuda_declare(w->e, x->right.outer, column);
    fb_emit_tiled_element(w, w->e->nest->n_sections + w->t->n_phases + product, &x->right, piece, inside);
}

/* What k is where steps are taken by periods. */
static fb_replaced periods_of(const writer *w, const fb_phase *p)
{
    if (!w->tile.period) return (fb_replaced){0};
    fb_ix k = w->t->products[p->product[0]].right.k;
    return (fb_replaced){k, fb_direct_step(w->e->nest, k, w->tile.period, "fb_period", "fb_step")};
}

/* Which batch's column it is, where tiles are laid across all. */
static void write_joined(const writer *w)
{
    const int64_t n = w->t->columns;
    if (w->tile.joined)
        fb_emit(w->e, "const fb_at fb_batch = (n0 + fb_n) / %" PRId64 ", fb_column = (n0 + fb_n) %% %" PRId64 ";", n,
                n);
}

static const char *column_in(const writer *w, const fb_phase *p, int strip, const char *own)
{
    return p->column[strip] ? fb_arena_printf(w->e->arena, "%s + %" PRId64, own, p->column[strip]) : own;
}

/* Strips of several products, by a branch for each. */
static void write_strips(const writer *w, const fb_phase *p, const char *own, bool piece, const char *inside)
{
    fb_emitter *e = w->e;
    for (int s = 0; s < w->t->n_strips; s++) {
        if (p->product[s] == FB_NONE) continue;
        fb_emit_if(e, "fb_strip == %d", s);
        fb_emit_tiled_right(w, p->product[s], column_in(w, p, s, own), piece, inside);
        fb_emit_close(e);
    }
    fb_emit(e, "return {};");
}

/* … or the places in all of them, of which one is taken: few threads copy for a whole tile, and branches between copies
 * would be what it waits for. */
static bool chooses_places(const writer *w, const fb_phase *p)
{
    bool all = w->tile.wide;
    for (int s = 0; s < w->t->n_strips; s++) all &= p->product[s] != FB_NONE;
    return all;
}

static void write_places_of(const writer *w, const fb_phase *p, const char *own, const char *inside)
{
    fb_emitter *e = w->e;
    const char *at = NULL;
    for (int s = 0; s < w->t->n_strips; s++) {
        fb_emit_open(e, "const fb_inside<%s> fb_of%d = [&]() -> fb_inside<%s>", w->element, s, w->element);
        fb_emit_tiled_right(w, p->product[s], column_in(w, p, s, own), true, NULL);
        fb_emit_close_by(e, "}();");
        at = at ? fb_arena_printf(e->arena, "fb_strip == %d ? fb_of%d.at : %s", s, s, at) : "fb_of0.at";
    }
    if (inside)
        fb_emit(e, "return {%s, %s};", at, inside);
    else
        fb_emit(e, "return %s;", at);
}

static void write_right(const writer *w, const fb_phase *p, const fb_tile_operand *x)
{
    fb_emitter *e = w->e;
    const fb_tiled *t = w->t;
    const bool piece = x->pieces || x->words;
    const int64_t across = fb_tile_across(t, &w->tile);
    const bool strips = t->n_strips > 1, chooses = chooses_places(w, p);
    const char *own = strips ? fb_arena_printf(e->arena, "n0 + fb_n %% %d", w->tile.strip) : "n0 + fb_n";
    const char *column = clamped(w, own, across, w->tile.strip, x->along_k);
    const char *all = fb_emit_tiled_strips(w, p, strips || w->tile.joined ? "fb_column" : column);
    const int steps = w->tile.direct ? 1 : w->tile.k; /* a direct tile asks for no element beyond k */
    bool beyond = !w->tile.wide && fb_emit_cuda_is_guarded(across, w->tile.strip);
    bool guarded = (!all && !chooses) || beyond || fb_emit_cuda_is_guarded(p->k, steps);
    fb_emit_open(e, "[&](%s, fb_at fb_n) -> %s", w->tile.period ? "fb_at fb_period, fb_at fb_step" : "fb_at fb_k",
                 returned(w, x, guarded));
    if (strips) {
        fb_emit(e, "const fb_at fb_strip = fb_n / %d, fb_column = %s;", w->tile.strip, column);
        own = "fb_column";
    }
    const char *inside = NULL;
    if (!w->tile.wide) fb_emit_cuda_guard(w->e, own, across, w->tile.strip, piece, &inside);
    fb_emit_cuda_guard(w->e, "fb_k", p->k, steps, piece, &inside);
    write_joined(w);
    const fb_replaced steps_of_periods = periods_of(w, p);
    if (w->tile.period) e->replaced = &steps_of_periods;
    if (all)
        fb_emit_tiled_right(w, p->product[0], all, piece, inside);
    else if (chooses)
        write_places_of(w, p, own, inside);
    else
        write_strips(w, p, own, piece, inside);
    e->replaced = NULL;
    fb_emit_close_by(e, "});");
}

/* Where the right operands of a phase stay, behind those of the phases before. */
static const char *kept_at(const writer *w, int phase)
{
    int64_t at = 0;
    for (int p = 0; p < phase; p++) at += fb_gemm_kept_bytes(w->e->nest, &w->tile, p);
    return at ? fb_arena_printf(w->e->arena, "fb_kept + %" PRId64, at) : "fb_kept";
}

static void write_phase(const writer *w, int phase)
{
    fb_emitter *e = w->e;
    const fb_phase *p = &w->t->phases[phase];
    const fb_tile_operand left = fb_tile_left(e->nest, phase), right = fb_tile_right(e->nest, phase);
    const char *first = "0", *last = fb_arena_printf(e->arena, "%" PRId64, p->k);
    if (w->tile.split > 1) {
        int64_t part = fb_gemm_part(e->nest, &w->tile, phase);
        first = fb_arena_printf(e->arena, "fb_part * %" PRId64, part);
        last = fb_arena_printf(e->arena, "min(fb_part * %" PRId64 " + %" PRId64 ", %" PRId64 ")", part, part, p->k);
    }
    if (p->ratio != 1) fb_emit(e, "fb_tile::scale(fb_sums, %s);", fb_emit_literal(e, w->t->dtype, p->ratio));
    if (w->tile.period)
        fb_emit_list(e, "fb_tile::accumulate_periods<%s, %d, %d>(", left.along_k ? "true" : "false", w->tile.period,
                     w->tile.together);
    else
        fb_emit_list(e, "fb_tile::%s<%s, %s>(", w->t->kept ? "accumulate_kept" : "accumulate",
                     left.along_k ? "true" : "false", right.along_k ? "true" : "false");
    if (w->tile.period)
        fb_emit(e, "fb_sums, fb_shared, %" PRId64 ",", p->k / w->tile.period);
    else if (w->t->kept)
        fb_emit(e, "fb_sums, fb_shared, %s, fb_fresh, %s,", kept_at(w, phase), last);
    else
        fb_emit(e, "fb_sums, fb_shared, %s, %s,", first, last);
    write_left(w, phase, &left);
    write_right(w, p, &right);
    fb_emit_close_by(e, NULL);
}

/* ---- the epilogue ---- */

/* Where in the tile of sums a product is read; `own`: the element's own column within its strip, where it is read
 * there. */
static const char *sum_at(const writer *w, fb_val v, const char *own)
{
    fb_emitter *e = w->e;
    int64_t stride, offset = (int64_t)w->t->strip_of[v] * w->apart;
    fb_ix rest = w->s->values[v].at;
    if (w->s->blocked) FB_ASSERT(fb_ix_stride(e->nest->pool, rest, w->s->rows.var[0], &stride, &rest));
    if (w->sums) return fb_arena_printf(e->arena, "%s[%s%" PRId64 "]", w->sums, w->by.vector > 1 ? "v + " : "", offset);
    const char *column = w->t->whole ? fb_emit_index(e, rest, false) : own;
    return offset ? fb_arena_printf(e->arena, "fb_c[fb_m * fb_tile::LINE + %s + %" PRId64 "]", column, offset)
                  : fb_arena_printf(e->arena, "fb_c[fb_m * fb_tile::LINE + %s]", column);
}

bool fb_emit_tiled_is_sum(const writer *w, fb_val v)
{
    return w->s->values[v].kind == FB_VALUE_LOAD && fb_nest_is_product(w->e->nest, w->s->values[v].node);
}

/* Sums at one element, by name. */
static void name_sums(void *ctx)
{
    const writer *w = ctx;
    const char *own = w->by.vector > 1 ? "fb_n + v" : "fb_n";
    for (int v = 0; v < w->s->n_values; v++)
        if (fb_emit_tiled_is_sum(w, v)) fb_emit(w->e, "const %s %s = %s;", w->sum, w->e->names[v], sum_at(w, v, own));
}

static const char *row_of(const writer *w)
{
    return w->t->batch > 1 ? fb_arena_printf(w->e->arena, "(fb_batch * %" PRId64 " + m0 + fb_m)", w->t->rows)
                           : "(m0 + fb_m)";
}

void fb_emit_tiled_point(const writer *w, const char *point)
{
    const char *column = w->tile.joined ? "fb_column" : "n0 + fb_n";
    if (w->by.vector > 1) column = fb_arena_printf(w->e->arena, "(%s) / %d", column, w->by.vector);
    write_joined(w);
    fb_emit(w->e, "const fb_at %s = %s * %" PRId64 " + %s;", point, row_of(w), w->by.columns / w->by.vector, column);
}

void fb_emit_tiled_find_sums(const writer *w)
{
    for (int v = 0; v < w->s->n_values; v++)
        if (fb_emit_tiled_is_sum(w, v)) w->e->whole[v] = w->e->names[v];
}

/* Threads that have no elements load those of others, and store nothing. */
static void write_early(writer *w)
{
    fb_emitter *e = w->e;
    const fb_tiled *t = w->t;
    int64_t across = w->by.groups, all = w->tile.m * across;
    bool rows = w->by.few_rows, ragged = w->by.few_columns;
    const int64_t columns = fb_tile_across(t, &w->tile);
    const char *i = all < w->tile.threads ? fb_arena_printf(e->arena, "min((int)threadIdx.x, %" PRId64 ")", all - 1)
                                          : "threadIdx.x";
    fb_emit_section(e, 0);
    fb_emit_tiled_find_sums(w);
    fb_emit(e, "const int fb_i = %s;", i);
    const char *m = fb_arena_printf(e->arena, "fb_i / %" PRId64, across);
    const char *n = fb_arena_printf(e->arena, "fb_i %% %" PRId64 " * %d", across, w->by.vector);
    fb_str own = {0};
    if (all < w->tile.threads) fb_str_addf(&own, "threadIdx.x < %" PRId64, all);
    if (rows) fb_str_addf(&own, "%sm0 + %s < %" PRId64, own.n ? " && " : "", m, t->rows);
    if (ragged) fb_str_addf(&own, "%sn0 + %s < %" PRId64, own.n ? " && " : "", n, columns);
    if (rows) m = fb_arena_printf(e->arena, "min(%s, (int)(%" PRId64 " - m0))", m, t->rows - 1);
    if (ragged) n = fb_arena_printf(e->arena, "min(%s, (int)(%" PRId64 " - n0))", n, columns - w->by.vector);
    fb_emit(e, "const int fb_m = %s, fb_n = %s;", m, n);
    w->own = own.n ? fb_arena_strdup(e->arena, fb_str_get(&own)) : NULL;
    if (w->own) fb_emit(e, "const bool fb_own = %s;", w->own);
    fb_str_free(&own);
    fb_emit_tiled_load(w);
}

static void write_late(writer *w)
{
    if (w->own) fb_emit_if(w->e, "fb_own");
    fb_emit_tiled_store(w);
    if (w->own) fb_emit_close(w->e);
}

void fb_emit_tiled_load(const writer *w)
{
    const char *point = fb_emit_name(w->e, "point");
    fb_emit_tiled_point(w, point);
    fb_emit_cuda_load_group(w->e, w->by.vector, point);
}

void fb_emit_tiled_touch(const writer *w)
{
    const char *point = fb_emit_name(w->e, "point");
    fb_emit_tiled_point(w, point);
    fb_emit_cuda_touch_group(w->e, w->by.vector, point);
}

void fb_emit_tiled_store(const writer *w)
{
    fb_emit_cuda_store_group(w->e, w->by.vector, name_sums, (void *)w);
}

/* All of the tile's, or this block's share of its rows. */
static void write_elements(writer *w)
{
    fb_emitter *e = w->e;
    int64_t across = w->by.groups;
    const int rows = w->tile.near ? w->tile.m / w->tile.split : w->tile.m;
    const char *first = w->tile.near ? fb_arena_printf(e->arena, "fb_part * %d + ", rows) : "";
    fb_emit_tiled_find_sums(w);
    fb_emit_for(e, "int", "fb_i", "threadIdx.x", fb_emit_number(e, rows * across), "fb_tile::THREADS");
    fb_emit(e, "const int fb_m = %sfb_i / %" PRId64 ", fb_n = fb_i %% %" PRId64 "%s;", first, across, across,
            w->by.vector > 1 ? fb_arena_printf(e->arena, " * %d", w->by.vector) : "");
    if (w->by.few_rows) fb_emit(e, "if (m0 + fb_m >= %" PRId64 ") break;", w->t->rows);
    if (w->by.few_columns) fb_emit(e, "if (n0 + fb_n >= %" PRId64 ") continue;", fb_tile_across(w->t, &w->tile));
    fb_emit_tiled_load(w);
    fb_emit_tiled_store(w);
    fb_emit_close(e);
}

static void write_rows(writer *w)
{
    fb_emitter *e = w->e;
    fb_space others = {0};
    int64_t a_row = w->by.columns;
    for (int d = w->s->blocked; d < w->s->rows.n; d++) {
        others.var[others.n] = w->s->rows.var[d];
        others.extent[others.n++] = w->s->rows.extent[d];
    }
    for (int v = 0; v < w->s->n_values; v++)
        if (fb_emit_tiled_is_sum(w, v)) e->whole[v] = sum_at(w, v, "");
    int team = fb_schedule_tile_team(e->nest, e->knobs, w->s, !w->by.few_rows);
    const char *by = team > 1 ? fb_arena_printf(e->arena, " / %d", team) : "";
    if (team > 1) fb_emit(e, "const int fb_lane = threadIdx.x %% %d;", team);
    fb_emit_for(e, "int", "fb_r", fb_arena_printf(e->arena, "threadIdx.x%s", by), fb_emit_number(e, w->tile.m * a_row),
                fb_arena_printf(e->arena, "fb_tile::THREADS%s", by));
    fb_emit(e, "const int fb_m = %s;", a_row > 1 ? fb_arena_printf(e->arena, "fb_r / %" PRId64, a_row) : "fb_r");
    if (w->by.few_rows) fb_emit(e, "if (m0 + fb_m >= %" PRId64 ") break;", w->t->rows);
    if (w->s->blocked) fb_emit_cuda_declare(w->e, w->s->rows.var[0], row_of(w));
    if (others.n) fb_emit_cuda_variables(e, &others, fb_arena_printf(e->arena, "(fb_r %% %" PRId64 ")", a_row));
    e->divides_rows = w->tile.sharing != 0; /* then instructions are what rows wait for */
    fb_emit_cuda_row(e, w->tile.threads, team, "fb_lane");
    e->divides_rows = false;
    fb_emit_close(e);
}

/* ---- the kernel ---- */

static void write_parts(const writer *w)
{
    fb_emitter *e = w->e;
    fb_emit(e, "const int fb_part = " FB_BLOCK ".z %% %d;", w->tile.split);
    fb_emit(e,
            "const int fb_place = (" FB_BLOCK ".z / %d * " FB_GRID ".y + " FB_BLOCK ".y) * " FB_GRID ".x + " FB_BLOCK
            ".x;",
            w->tile.split);
    fb_emit(e, "static __device__ %s fb_parts[%" PRId64 "];", w->sum,
            w->tile.blocks * w->tile.split * w->tile.m * w->tile.n);
    fb_emit(e, "static __device__ unsigned fb_arrived[%" PRId64 "];", w->tile.blocks);
}

static void write_places(const writer *w)
{
    fb_emitter *e = w->e;
    const fb_tiled *t = w->t;
    const bool near = w->tile.near;
    const int band = w->tile.band;
    const char *column = near ? fb_arena_printf(e->arena, FB_BLOCK ".x / %d", w->tile.split) : FB_BLOCK ".x",
               *row = FB_BLOCK ".y";
    if (band) {
        const int all = band * w->tile.grid[0], rows = w->tile.grid[1];
        fb_emit(e, "const int fb_turn = " FB_BLOCK ".y * " FB_GRID ".x + " FB_BLOCK ".x, fb_first = fb_turn / %d * %d;",
                all, band);
        fb_emit(e, "const int fb_band = %s;",
                rows % band ? fb_arena_printf(e->arena, "min(%d - fb_first, %d)", rows, band)
                            : fb_emit_number(e, band));
        row = fb_arena_printf(e->arena, "(fb_first + fb_turn %% %d %% fb_band)", all);
        column = fb_arena_printf(e->arena, "fb_turn %% %d / fb_band", all);
    }
    fb_emit(e, "const fb_at m0 = %s * %d, n0 = %s;", row, w->tile.m,
            t->whole ? "0" : fb_arena_printf(e->arena, "%s * %d", column, w->tile.strip));
    if (near)
        fb_emit(e, "const int fb_part = " FB_BLOCK ".x %% %d;", w->tile.split);
    else if (w->tile.split > 1)
        write_parts(w);
    if (t->batch > 1 && !w->tile.joined)
        fb_emit(e, "const fb_at fb_batch = %s;",
                w->tile.split > 1 && !near ? fb_arena_printf(e->arena, FB_BLOCK ".z / %d", w->tile.split)
                                           : FB_BLOCK ".z");
}

/* What the tile is made by; without tensor cores also how its warps share k, and how the first phase's operands lie. */
static void write_type(const writer *w)
{
    const fb_gemm_tile *x = &w->tile;
    fb_str how = {0};
    if (x->direct) {
        fb_needs_text(&w->e->needs, FB_TEXT_DIRECT);
        fb_emit(w->e, "using fb_tile = fb_direct<%d, %d, %d, %d>;", x->m, x->n, x->k, x->threads);
        return;
    }
    if (x->wide) {
        fb_needs_text(&w->e->needs, FB_TEXT_GEMM_WIDE);
        w->e->needs.warpgroups = true;
        fb_emit_remark(w->e, "by whole warpgroups: 64 rows each multiply, the last copies");
        fb_emit(w->e, "using fb_tile = fb_gemm_wide<%s, %d, %d, %d>;", w->element, x->m, x->n, x->stages);
        fb_emit(w->e, "static_assert(fb_tile::THREADS == %d, \"as launched\");", x->threads);
        return;
    }
    if (!x->tensor)
        fb_str_addf(&how, ", %d, %s, %s", x->slices, fb_tile_left(w->e->nest, 0).along_k ? "true" : "false",
                    fb_tile_right(w->e->nest, 0).along_k ? "true" : "false");
    fb_emit(w->e, "using fb_tile = fb_gemm<%s, %s, %d, %d, %d, %d, %d, %d%s>;", w->element,
            x->tensor ? "true" : "false", x->m, x->n, x->k, x->warp_m, x->warp_n, x->stages, fb_str_get(&how));
    fb_emit(w->e, "static_assert(fb_tile::THREADS == %d, \"as launched\");", x->threads);
    fb_str_free(&how);
}

/* Parts of the sums that several blocks have; a cluster's blocks then go on together. */
static void write_combined(const writer *w)
{
    fb_emitter *e = w->e;
    if (w->tile.split == 1) return;
    if (!w->tile.near) {
        fb_emit(e, "if (!fb_tile::combine<%d>(fb_c, fb_parts, fb_arrived, fb_place, fb_part)) return;", w->tile.split);
        return;
    }
    fb_emit(e, "fb_tile::combine_near<%d>(fb_c, fb_part);", w->tile.split);
    e->function->cluster = e->needs.cluster = w->tile.split;
    e->needs.meets = FB_MEETS_CLUSTER;
}

void fb_emit_cuda_gemm(fb_emitter *e)
{
    const fb_tiled *t = e->nest->tiled;
    writer w = {.e = e,
                .t = t,
                .s = &e->nest->sections[0],
                .by = {.columns = fb_tile_columns(&e->nest->sections[0]), .vector = 1}};
    if (!t->round) w.tile = fb_gemm_tile_had(e->nest, e->knobs);
    w.element = e->spell->type[t->dtype].memory;
    w.sum = e->spell->type[t->dtype].value;
    w.apart = w.tile.strip;
    if (t->round) {
        fb_emit_recurrence(&w);
        return;
    }
    if (w.tile.tma) {
        fb_emit_gemm_tma(&w);
        memcpy(e->grid, w.tile.grid, sizeof e->grid);
        e->dynamic_shared = (int)w.tile.shared_bytes;
        return;
    }
    write_type(&w);
    fb_emit(e, "extern __shared__ __align__(%d) unsigned char fb_shared[];", w.tile.wide ? 1024 : 16);
    write_places(&w);
    w.by = fb_tile_epilogue_of(e->nest, e->knobs, &w.tile);
    if (w.by.early) write_early(&w);
    fb_emitter kept = *e;
    fb_emit(e, "fb_tile::registers fb_sums = {};");
    for (int p = 0; p < t->n_phases; p++) write_phase(&w, p);
    fb_emit(e, "%s *const fb_c = fb_tile::spread(fb_sums, fb_shared);", w.sum);
    write_combined(&w);
    if (w.by.early) {
        *e = kept; /* back to the epilogue's section, with what is known of it */
        write_late(&w);
    } else {
        fb_emit_section(e, 0);
        (w.s->n_passes ? write_rows : write_elements)(&w);
    }
    e->function->sharing = w.tile.sharing;
    if (w.tile.near) fb_emit(e, "fb_cluster_meet(); // nobody takes anything from this block any longer");
    memcpy(e->grid, w.tile.grid, sizeof e->grid);
    e->dynamic_shared = (int)w.tile.shared_bytes;
    e->stage.kept_shared = (int)w.tile.kept_bytes;
}
