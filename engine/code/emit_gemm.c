/* The gemm family in CUDA: products accumulated by kernels/gemm.cuh, with functions that say what an element of an
 * operand is, and the epilogue on the tile of sums in shared memory: element by element, or row by row, a warp a row.
 *
 * requires  a tiled nest: one section, and a section for each operand
 */
#include "code/emit_cuda_parts.h"
#include "code/names.h"
#include "schedule/cluster.h"
#include "schedule/gemm.h"
#include "schedule/schedule.h"
#include "schedule/tile.h"

#include <inttypes.h>
#include <string.h>

typedef struct {
    fb_emitter *e;
    const fb_tiled *t;
    fb_gemm_tile tile;
    const char *element; /* type of a tile's elements */
    const char *sum;     /* of sums */
    const fb_section *s; /* the epilogue */
    fb_tile_epilogue by;
    const char *own; /* the condition for a thread to have elements; NULL: all have */
} writer;

static fb_cluster_tile cluster_of(const fb_emitter *e)
{
    fb_cluster_tile tile;
    FB_ASSERT(fb_cluster_tile_of(e->nest, e->knobs, &tile, NULL));
    return tile;
}

int fb_emit_cuda_gemm_threads(fb_emitter *e)
{
    return e->nest->tiled->round ? cluster_of(e).threads : fb_gemm_tile_had(e->nest, e->knobs).threads;
}

/* ---- operands ---- */

static bool is_variable(const writer *w, fb_ix at)
{
    return fb_ix_is_var(w->e->nest->pool, at);
}

static void declare(const writer *w, fb_ix var, const char *value)
{
    if (is_variable(w, var)) fb_emit(w->e, "const fb_at %s = %s;", fb_ix_var_name(w->e->nest->pool, var), value);
}

/* The statements of one operand's element, or of where a piece is and whether it is inside, its variables declared. */
static void return_element(const writer *w, int part, const fb_operand *o, bool piece, const char *inside)
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

static void write_left(const writer *w, int phase, bool piece)
{
    fb_emitter *e = w->e;
    const fb_phase *p = &w->t->phases[phase];
    bool guarded = fb_emit_cuda_is_guarded(w->t->rows, w->tile.m) || fb_emit_cuda_is_guarded(p->k, w->tile.k);
    fb_emit_open(e, "[&](fb_at fb_m, fb_at fb_k) -> %s", fb_emit_cuda_operand_type(w->e, w->element, piece, guarded));
    const char *inside = NULL;
    fb_emit_cuda_guard(w->e, "m0 + fb_m", w->t->rows, w->tile.m, piece, &inside);
    fb_emit_cuda_guard(w->e, "fb_k", p->k, w->tile.k, piece, &inside);
    declare(w, p->left.batch, "fb_batch");
    declare(w, p->left.outer, "m0 + fb_m");
    declare(w, p->left.k, "fb_k");
    return_element(w, e->nest->n_sections + phase, &p->left, piece, inside);
    fb_emit_close_by(e, "},");
}

/* The columns of all strips as one expression, where they are steps along one product; NULL where they are not. */
static const char *columns_of(const writer *w, const fb_phase *p, const char *own)
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

static void write_columns(const writer *w, int product, const char *column, bool piece, const char *inside)
{
    const fb_product *x = &w->t->products[product];
    declare(w, x->right.batch, "fb_batch");
    declare(w, x->right.k, "fb_k");
    declare(w, x->right.outer, column);
    return_element(w, w->e->nest->n_sections + w->t->n_phases + product, &x->right, piece, inside);
}

static void write_right(const writer *w, const fb_phase *p, bool piece)
{
    fb_emitter *e = w->e;
    const fb_tiled *t = w->t;
    const char *own = "n0 + fb_n", *all = columns_of(w, p, t->n_strips > 1 ? "fb_column" : own);
    bool guarded =
        !all || fb_emit_cuda_is_guarded(t->columns, w->tile.strip) || fb_emit_cuda_is_guarded(p->k, w->tile.k);
    fb_emit_open(e, "[&](fb_at fb_k, fb_at fb_n) -> %s", fb_emit_cuda_operand_type(w->e, w->element, piece, guarded));
    if (t->n_strips > 1) {
        fb_emit(e, "const fb_at fb_strip = fb_n / %d, fb_column = n0 + fb_n %% %d;", w->tile.strip, w->tile.strip);
        own = "fb_column";
    }
    const char *inside = NULL;
    fb_emit_cuda_guard(w->e, own, t->columns, w->tile.strip, piece, &inside);
    fb_emit_cuda_guard(w->e, "fb_k", p->k, w->tile.k, piece, &inside);
    if (all) {
        write_columns(w, p->product[0], all, piece, inside);
    } else {
        for (int s = 0; s < t->n_strips; s++) {
            if (p->product[s] == FB_NONE) continue;
            fb_emit_if(e, "fb_strip == %d", s);
            const char *column = p->column[s] ? fb_arena_printf(e->arena, "%s + %" PRId64, own, p->column[s]) : own;
            write_columns(w, p->product[s], column, piece, inside);
            fb_emit_close(e);
        }
        fb_emit(e, "return {};");
    }
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
    fb_emit_list(e, "fb_tile::%s<%s, %s>(", w->t->kept ? "accumulate_kept" : "accumulate",
                 left.along_k ? "true" : "false", right.along_k ? "true" : "false");
    if (w->t->kept)
        fb_emit(e, "fb_sums, fb_shared, %s, fb_fresh, %s,", kept_at(w, phase), last);
    else
        fb_emit(e, "fb_sums, fb_shared, %s, %s,", first, last);
    write_left(w, phase, left.pieces);
    write_right(w, p, right.pieces);
    fb_emit_close_by(e, NULL);
}

/* ---- the epilogue ---- */

/* Where in the tile of sums a product is read; `own`: the element's own column within its strip, where it is read
 * there. */
static const char *sum_at(const writer *w, fb_val v, const char *own)
{
    fb_emitter *e = w->e;
    int64_t stride, offset = (int64_t)w->t->strip_of[v] * w->tile.strip;
    fb_ix rest = w->s->values[v].at;
    if (w->s->blocked) FB_ASSERT(fb_ix_stride(e->nest->pool, rest, w->s->rows.var[0], &stride, &rest));
    const char *column = w->t->whole ? fb_emit_index(e, rest, false) : own;
    return offset ? fb_arena_printf(e->arena, "fb_c[fb_m * fb_tile::LINE + %s + %" PRId64 "]", column, offset)
                  : fb_arena_printf(e->arena, "fb_c[fb_m * fb_tile::LINE + %s]", column);
}

static bool is_sum(const writer *w, fb_val v)
{
    return w->s->values[v].kind == FB_VALUE_LOAD && fb_nest_is_product(w->e->nest, w->s->values[v].node);
}

/* Sums at one element, by name. */
static void name_sums(void *ctx)
{
    const writer *w = ctx;
    const char *own = w->by.vector > 1 ? "fb_n + v" : "fb_n";
    for (int v = 0; v < w->s->n_values; v++)
        if (is_sum(w, v)) fb_emit(w->e, "const %s %s = %s;", w->sum, w->e->names[v], sum_at(w, v, own));
}

static const char *row_of(const writer *w)
{
    return w->t->batch > 1 ? fb_arena_printf(w->e->arena, "(fb_batch * %" PRId64 " + m0 + fb_m)", w->t->rows)
                           : "(m0 + fb_m)";
}

static void write_point(writer *w, const char *point)
{
    const char *column =
        w->by.vector > 1 ? fb_arena_printf(w->e->arena, "(n0 + fb_n) / %d", w->by.vector) : "n0 + fb_n";
    fb_emit(w->e, "const fb_at %s = %s * %" PRId64 " + %s;", point, row_of(w), w->by.columns / w->by.vector, column);
}

static void find_sums(writer *w)
{
    for (int v = 0; v < w->s->n_values; v++)
        if (is_sum(w, v)) w->e->whole[v] = w->e->names[v];
}

/* Threads that have no elements load those of others, and store nothing. */
static void write_early(writer *w)
{
    fb_emitter *e = w->e;
    const fb_tiled *t = w->t;
    int64_t across = w->by.groups, all = w->tile.m * across;
    bool rows = w->by.few_rows, ragged = w->by.few_columns;
    const char *i = all < w->tile.threads ? fb_arena_printf(e->arena, "min((int)threadIdx.x, %" PRId64 ")", all - 1)
                                          : "threadIdx.x";
    fb_emit_section(e, 0);
    find_sums(w);
    fb_emit(e, "const int fb_i = %s;", i);
    const char *m = fb_arena_printf(e->arena, "fb_i / %" PRId64, across);
    const char *n = fb_arena_printf(e->arena, "fb_i %% %" PRId64 " * %d", across, w->by.vector);
    fb_str own = {0};
    if (all < w->tile.threads) fb_str_addf(&own, "threadIdx.x < %" PRId64, all);
    if (rows) fb_str_addf(&own, "%sm0 + %s < %" PRId64, own.n ? " && " : "", m, t->rows);
    if (ragged) fb_str_addf(&own, "%sn0 + %s < %" PRId64, own.n ? " && " : "", n, t->columns);
    if (rows) m = fb_arena_printf(e->arena, "min(%s, (int)(%" PRId64 " - m0))", m, t->rows - 1);
    if (ragged) n = fb_arena_printf(e->arena, "min(%s, (int)(%" PRId64 " - n0))", n, t->columns - w->by.vector);
    fb_emit(e, "const int fb_m = %s, fb_n = %s;", m, n);
    w->own = own.n ? fb_arena_strdup(e->arena, fb_str_get(&own)) : NULL;
    if (w->own) fb_emit(e, "const bool fb_own = %s;", w->own);
    fb_str_free(&own);
    const char *point = fb_emit_name(e, "point");
    write_point(w, point);
    fb_emit_cuda_load_group(e, w->by.vector, point);
}

static void write_late(writer *w)
{
    if (w->own) fb_emit_if(w->e, "fb_own");
    fb_emit_cuda_store_group(w->e, w->by.vector, name_sums, w);
    if (w->own) fb_emit_close(w->e);
}

static void write_elements(writer *w)
{
    fb_emitter *e = w->e;
    int64_t across = w->by.groups;
    find_sums(w);
    fb_emit_for(e, "int", "fb_i", "threadIdx.x", fb_emit_number(e, w->tile.m * across), "fb_tile::THREADS");
    fb_emit(e, "const int fb_m = fb_i / %" PRId64 ", fb_n = fb_i %% %" PRId64 "%s;", across, across,
            w->by.vector > 1 ? fb_arena_printf(e->arena, " * %d", w->by.vector) : "");
    if (w->by.few_rows) fb_emit(e, "if (m0 + fb_m >= %" PRId64 ") break;", w->t->rows);
    if (w->by.few_columns) fb_emit(e, "if (n0 + fb_n >= %" PRId64 ") continue;", w->t->columns);
    const char *point = fb_emit_name(e, "point");
    write_point(w, point);
    fb_emit_cuda_load_group(e, w->by.vector, point);
    fb_emit_cuda_store_group(e, w->by.vector, name_sums, w);
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
        if (is_sum(w, v)) e->whole[v] = sum_at(w, v, "");
    bool shared = fb_emit_cuda_row_team(e) > 1;
    const char *by = shared ? fb_arena_printf(e->arena, " / %d", e->target->warp) : "";
    if (shared) fb_emit(e, "const int fb_lane = threadIdx.x %% %d;", e->target->warp);
    fb_emit_for(e, "int", "fb_r", fb_arena_printf(e->arena, "threadIdx.x%s", by), fb_emit_number(e, w->tile.m * a_row),
                fb_arena_printf(e->arena, "fb_tile::THREADS%s", by));
    fb_emit(e, "const int fb_m = %s;", a_row > 1 ? fb_arena_printf(e->arena, "fb_r / %" PRId64, a_row) : "fb_r");
    if (w->by.few_rows) fb_emit(e, "if (m0 + fb_m >= %" PRId64 ") break;", w->t->rows);
    if (w->s->blocked) declare(w, w->s->rows.var[0], row_of(w));
    if (others.n) fb_emit_cuda_variables(e, &others, fb_arena_printf(e->arena, "(fb_r %% %" PRId64 ")", a_row));
    e->divides_rows = w->tile.sharing != 0; /* then instructions are what rows wait for */
    fb_emit_cuda_row(e, w->tile.threads, "fb_lane");
    e->divides_rows = false;
    fb_emit_close(e);
}

/* ---- in a cluster (kernels/cluster.cuh, in single precision kernels/cluster_f32.cuh) ---- */

/* Is it in single precision? Rows are gone through in sets then. */
static bool in_sets(const fb_cluster_tile *x)
{
    return x->batch > 0;
}

static const char *set_of(const fb_cluster_tile *x)
{
    return x->rows > x->batch * x->passes ? "fb_set" : "0";
}

/* Have its blocks more columns than there are? */
static bool has_gaps(const writer *w, const fb_cluster_tile *x)
{
    return (int64_t)x->blocks * x->columns > w->t->columns;
}

static void write_state(const writer *w, const fb_cluster_tile *x)
{
    fb_emitter *e = w->e;
    const fb_phase *p = &w->t->phases[0];
    fb_emit_open(e, "[&](fb_at fb_m, fb_at fb_k) -> %s", w->element);
    if (w->t->rows % x->rows) fb_emit(e, "if (m0 + fb_m >= %" PRId64 ") return {};", w->t->rows);
    declare(w, p->left.outer, "m0 + fb_m");
    declare(w, p->left.k, "fb_k");
    return_element(w, e->nest->n_sections, &p->left, false, NULL);
    fb_emit_close_by(e, "},");
}

static void write_weights(const writer *w, const fb_cluster_tile *x)
{
    fb_emitter *e = w->e;
    const fb_phase *p = &w->t->phases[0];
    const char *all = columns_of(w, p, "fb_column");
    fb_emit_open(e, "[&](fb_at fb_k, fb_at fb_strip, fb_at fb_n) -> %s", w->element);
    fb_emit(e, "const fb_at fb_column = n0 + fb_n;");
    fb_emit(e, "if (fb_k >= %" PRId64 "%s) return {};", p->k,
            has_gaps(w, x) ? fb_arena_printf(e->arena, " || fb_column >= %" PRId64, w->t->columns) : "");
    for (int s = 0; s < w->t->n_strips && !all; s++) {
        if (p->product[s] == FB_NONE) continue;
        fb_emit_if(e, "fb_strip == %d", s);
        write_columns(w, p->product[s],
                      p->column[s] ? fb_arena_printf(e->arena, "fb_column + %" PRId64, p->column[s]) : "fb_column",
                      false, NULL);
        fb_emit_close(e);
    }
    if (all)
        write_columns(w, p->product[0], all, false, NULL);
    else
        fb_emit(e, "return {};");
    fb_emit_close_by(e, "});");
}

static bool is_early(const writer *w, fb_val v)
{
    const fb_value *x = &w->s->values[v];
    return x->kind == FB_VALUE_LOAD && x->when == FB_NONE && x->table == FB_NONE && !is_sum(w, v);
}

static bool is_read_early(const writer *w, fb_id node)
{
    for (int v = 0; v < w->s->n_values; v++)
        if (is_early(w, v) && w->s->values[v].node == node) return true;
    return false;
}

/* A carried value that its thread keeps in a register (fb_tiled.own): its number; FB_NONE: it is read and stored at
 * each step. */
static int kept_number(const writer *w, fb_id read)
{
    int number = 0;
    if (w->t->dtype == FB_F32) return read == FB_NONE ? 0 : FB_NONE; /* registers are few: rows go in sets */
    for (int i = 0; i < w->t->round->n_own; i++) {
        const fb_own *own = &w->t->round->own[i];
        fb_dtype dtype = w->e->nest->graph->nodes[own->made].dtype;
        if (!is_read_early(w, own->read) || !fb_dtype_is_float(dtype) || dtype == FB_F64) continue;
        if (own->read == read) return number;
        number++;
    }
    return read == FB_NONE ? number : FB_NONE;
}

static const char *kept_value(const writer *w, int number)
{
    return fb_arena_printf(w->e->arena, "fb_kept.own[%d][fb_e]", number);
}

static void open_elements(const writer *w)
{
    fb_emit_unrolled(w->e, "fb_e", "fb_cell::MINE");
}

/* Where element fb_e of a thread's is; nothing is done to one that is outside. */
static void place_element(const writer *w, const fb_cluster_tile *x)
{
    if (in_sets(x)) fb_emit(w->e, "if (!fb_cell::makes(fb_e)) continue;");
    fb_emit(w->e, "const int fb_m = fb_cell::row(%sfb_e), fb_n = fb_cell::column(fb_e);",
            in_sets(x) ? fb_arena_printf(w->e->arena, "%s, ", set_of(x)) : "");
    if (w->t->rows % x->rows) fb_emit(w->e, "if (m0 + fb_m >= %" PRId64 ") continue;", w->t->rows);
    if (has_gaps(w, x)) fb_emit(w->e, "if (n0 + fb_n >= %" PRId64 ") continue;", w->t->columns);
}

/* All of a thread's elements, one after the other, and where they are. */
static void open_placed(writer *w, const fb_cluster_tile *x, const char *point, const char *first)
{
    open_elements(w);
    if (first) fb_emit(w->e, "%s", first);
    place_element(w, x);
    const fb_space *rows = &w->s->rows;
    if (rows->n == 2 && rows->extent[1] == w->t->columns) {
        declare(w, rows->var[0], "m0 + fb_m");
        declare(w, rows->var[1], "n0 + fb_n");
        return;
    }
    write_point(w, point);
    fb_emit_cuda_load_group(w->e, 1, point);
}

static const char *loaded(const writer *w, fb_val v)
{
    const fb_value *load = &w->s->values[v];
    return fb_emit_element(w->e, load->node, load->table, load->at);
}

/* ---- … what it reads of memory (fb_items) ---- */

/* The step in elements of what a wide recurrence has copied into shared memory before it is wanted; 0: it has not.
 * Whole pieces of 16 bytes, of rows and columns as they lie. */
static int64_t moves_by(const writer *w, const fb_cluster_tile *x, fb_val v)
{
    const fb_value *load = &w->s->values[v];
    if (!x->wide || !is_early(w, v) || !fb_cluster_copies(w->e->nest, v)) return 0;
    int64_t size = fb_dtype_size(load->dtype);
    if (has_gaps(w, x) && w->t->columns * size % 16) return 0;
    for (int i = 0; i < w->t->round->n_moving; i++)
        if (w->t->round->moving[i].item == load->node) return w->t->round->moving[i].stride;
    return 0;
}

static const char *items_of(const writer *w, const fb_cluster_tile *x, fb_val v)
{
    return fb_arena_printf(w->e->arena, "fb_items<%s, %d, %d, %d>", w->e->spell->type[w->s->values[v].dtype].memory,
                           x->rows, x->columns, x->threads);
}

/* Where they are, behind all that the recurrence has in shared memory; `items`, may be NULL: how many there are. */
static const char *items_at(const writer *w, const fb_cluster_tile *x, fb_val v)
{
    fb_str at = {0};
    fb_str_add(&at, "fb_shared + fb_cell::SHARED");
    for (int i = 0; i < v; i++)
        if (moves_by(w, x, i)) fb_str_addf(&at, " + %s::BYTES", items_of(w, x, i));
    const char *text = fb_arena_strdup(w->e->arena, fb_str_get(&at));
    fb_str_free(&at);
    return text;
}

static bool has_items(const writer *w, const fb_cluster_tile *x)
{
    for (int v = 0; v < w->s->n_values; v++)
        if (moves_by(w, x, v)) return true;
    return false;
}

/* Those of the step after next are asked for at the beginning of each step; of the first two, before the first one. */
static void fetch_items(writer *w, const fb_cluster_tile *x)
{
    fb_emitter *e = w->e;
    if (!has_items(w, x)) return;
    fb_emit_open(e, "const auto fb_fetch = [&](int fb_ahead)");
    fb_emit_if(e, "fb_left > fb_ahead");
    for (int v = 0; v < w->s->n_values; v++) {
        int64_t stride = moves_by(w, x, v);
        if (!stride) continue;
        bool few = w->t->rows % x->rows, gaps = has_gaps(w, x);
        fb_emit_list(e, "%s::fetch(%s, fb_step + fb_ahead,", items_of(w, x, v), items_at(w, x, v));
        fb_emit_open(e, "[&](int fb_m, int fb_n) -> fb_piece<%s>", e->spell->type[w->s->values[v].dtype].memory);
        declare(w, w->s->rows.var[0], "m0 + fb_m");
        declare(w, w->s->rows.var[1], "n0 + fb_n");
        const char *inside = few ? fb_arena_printf(e->arena, "m0 + fb_m < %" PRId64, w->t->rows) : NULL;
        if (gaps)
            inside = fb_arena_printf(e->arena, "%s%sn0 + fb_n < %" PRId64, few ? inside : "", few ? " && " : "",
                                     w->t->columns);
        fb_emit(e, "return {&%s + (int64_t)fb_ahead * %" PRId64 "%s%s};", loaded(w, v), stride, inside ? ", " : "",
                inside ? inside : "");
        fb_emit_close_by(e, "});");
        fb_emit_close_by(e, NULL);
    }
    fb_emit_close(e);
    fb_emit(e, "fb_copies_mark();");
    fb_emit_close_by(e, "};");
    fb_emit_if(e, "fb_step == 0");
    fb_emit(e, "fb_fetch(0);");
    fb_emit(e, "fb_fetch(1);");
    fb_emit(e, "fb_copies_wait<1>();");
    fb_emit(e, "__syncthreads();");
    fb_emit_close(e);
    fb_emit(e, "fb_fetch(2);");
    e->stage.fetches = true;
}

static void name_items(const writer *w, const fb_cluster_tile *x)
{
    fb_emitter *e = w->e;
    for (int v = 0; v < w->s->n_values; v++) {
        if (!moves_by(w, x, v)) continue;
        const char *value =
            fb_arena_printf(e->arena, "%s::at(%s, fb_step, fb_m, fb_n)", items_of(w, x, v), items_at(w, x, v));
        fb_emit(e, "const %s %s = %s;", e->spell->type[w->s->values[v].dtype].value, e->names[v],
                fb_emit_spell(e, e->spell->type[w->s->values[v].dtype].from, &value, 1));
    }
}

/* What the loop begins with, of what threads keep. */
static void begin_kept(writer *w, const fb_cluster_tile *x, const char *point)
{
    fb_emitter *e = w->e;
    if (!kept_number(w, FB_NONE)) return;
    open_placed(w, x, point, NULL);
    for (int v = 0; v < w->s->n_values; v++) {
        int number = is_early(w, v) ? kept_number(w, w->s->values[v].node) : FB_NONE;
        if (number == FB_NONE) continue;
        const char *value = loaded(w, v);
        fb_emit(e, "%s = %s;", kept_value(w, number),
                fb_emit_spell(e, e->spell->type[w->s->values[v].dtype].from, &value, 1));
    }
    fb_emit_close(e);
}

/* What is loaded while the product is at work, for all of a thread's elements. */
static void load_early(writer *w, const fb_cluster_tile *x, const char *point)
{
    fb_emitter *e = w->e;
    fb_str fields = {0};
    for (int v = 0; v < w->s->n_values; v++) {
        if (!is_early(w, v)) continue;
        int number = kept_number(w, w->s->values[v].node);
        if (moves_by(w, x, v))
            e->whole[v] = e->names[v];
        else if (number != FB_NONE)
            e->whole[v] = kept_value(w, number);
        else
            fb_str_addf(&fields, " %s %s;", e->spell->type[w->s->values[v].dtype].memory, e->names[v]);
    }
    if (fields.n) {
        fb_emit(e, "struct {%s } fb_early[fb_cell::MINE];", fb_str_get(&fields));
        open_placed(w, x, point, NULL);
    }
    for (int v = 0; v < w->s->n_values; v++) {
        if (!is_early(w, v) || e->whole[v]) continue;
        const char *field = fb_arena_printf(e->arena, "fb_early[fb_e].%s", e->names[v]);
        fb_emit(e, "%s = %s;", field, loaded(w, v));
        e->whole[v] = fb_emit_spell(e, e->spell->type[w->s->values[v].dtype].from, &field, 1);
    }
    if (fields.n) fb_emit_close(e);
    fb_str_free(&fields);
}

static void name_round_sums(const writer *w)
{
    for (int v = 0; v < w->s->n_values; v++)
        if (is_sum(w, v)) fb_emit(w->e, "const %s %s = fb_sums[fb_e][%d];", w->sum, w->e->names[v], w->t->strip_of[v]);
}

static const fb_own *own_of_root(const writer *w, const fb_root *r)
{
    for (int i = 0; i < w->t->round->n_own; i++)
        if (w->t->round->own[i].made == r->node) return &w->t->round->own[i];
    return NULL;
}

/* Does nobody read what this root stores before the last step's? */
static bool is_for_the_end(const writer *w, const fb_root *r)
{
    const fb_own *own = own_of_root(w, r);
    bool read = own && kept_number(w, own->read) == FB_NONE && is_read_early(w, own->read);
    return own && own->home == r->storage && !read;
}

static const fb_root *made_root(const writer *w)
{
    int r = 0;
    while (w->s->roots[r].node != w->t->round->made) r++;
    return &w->s->roots[r];
}

/* A root's value where the threads still have it when the state has been sent, as it is stored; NULL: nowhere. */
static const char *remembered(const writer *w, const fb_root *r)
{
    fb_emitter *e = w->e;
    fb_dtype dtype = e->nest->graph->nodes[r->node].dtype;
    if (r->value == made_root(w)->value && dtype == w->t->dtype) return "fb_made[fb_e]";
    const fb_own *own = own_of_root(w, r);
    int number = own ? kept_number(w, own->read) : FB_NONE;
    if (number == FB_NONE) return NULL;
    const char *value = kept_value(w, number);
    return fb_emit_spell(e, e->spell->type[dtype].to, &value, 1);
}

/* The next value of what threads keep, rounded as it would be in memory: all of them are made before one changes. */
static void keep_next(const writer *w)
{
    fb_emitter *e = w->e;
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < w->t->round->n_own; i++) {
            int number = kept_number(w, w->t->round->own[i].read);
            if (number == FB_NONE) continue;
            const fb_root *root = NULL;
            for (int r = 0; r < w->s->n_roots; r++)
                if (w->s->roots[r].node == w->t->round->own[i].made) root = &w->s->roots[r];
            FB_ASSERT(root);
            const fb_type_spelling *type = &e->spell->type[e->nest->graph->nodes[root->node].dtype];
            const char *value = fb_emit_ref(e, root->value);
            value = fb_emit_spell(e, type->to, &value, 1);
            value = fb_emit_spell(e, type->from, &value, 1);
            if (turn)
                fb_emit(e, "%s = fb_next_%d;", kept_value(w, number), number);
            else
                fb_emit(e, "const float fb_next_%d = %s;", number, value);
        }
}

/* The state of the next step, and what else is made and not remembered. */
static void make_state(writer *w, const fb_cluster_tile *x, const char *point)
{
    fb_emitter *e = w->e;
    const fb_section *s = w->s;
    open_placed(w, x, point, "fb_made[fb_e] = {};");
    name_round_sums(w);
    name_items(w, x);
    for (int r = 0; r < s->n_roots; r++) fb_emit_needed(e, s->roots[r].value, s->roots[r].space);
    for (int r = 0; r < s->n_roots; r++) {
        if (remembered(w, &s->roots[r])) continue;
        bool end = is_for_the_end(w, &s->roots[r]);
        if (end) fb_emit_if(e, "!fb_more");
        fb_emit_store(e, &s->roots[r]);
        if (end) fb_emit_close(e);
    }
    const char *value = fb_emit_ref(e, made_root(w)->value);
    fb_emit(e, "fb_made[fb_e] = %s;", fb_emit_spell(e, e->spell->type[w->t->dtype].to, &value, 1));
    keep_next(w);
    fb_emit_close(e);
}

/* What is remembered: nobody waits for it. */
static void store_remembered(writer *w, const fb_cluster_tile *x, const char *point, bool end)
{
    fb_emitter *e = w->e;
    bool any = false;
    for (int r = 0; r < w->s->n_roots; r++) {
        const fb_root *root = &w->s->roots[r];
        const char *value = remembered(w, root);
        if (!value || is_for_the_end(w, root) != end) continue;
        if (!any && end) fb_emit_if(e, "!fb_more");
        if (!any) open_placed(w, x, point, NULL);
        any = true;
        fb_emit(e, "%s = %s;", fb_emit_element(e, root->storage, root->table, root->at), value);
    }
    if (any) fb_emit_close(e);
    if (any && end) fb_emit_close(e);
}

static const char *cell_of(const writer *w, const fb_cluster_tile *x)
{
    fb_arena *arena = w->e->arena;
    const char *shape = fb_arena_printf(arena, "%d, %d, %" PRId64 ", %d, %d", x->blocks, w->t->n_strips, w->t->columns,
                                        x->rows, x->columns);
    if (in_sets(x))
        return fb_arena_printf(arena, "fb_recurrence_f32<%s, %d, %d, %d, %d, %d>", shape, x->slices, x->each, x->batch,
                               x->passes, x->held);
    if (x->wide)
        return fb_arena_printf(arena, "fb_wide_recurrence<%s, %s, %d, %d>", w->element, shape, x->each, x->held);
    return fb_arena_printf(arena, "fb_recurrence<%s, %s, %d, %d, %d>", w->element, shape, x->across, x->deep, x->held);
}

/* A step of a loop: its number is fb_step, and fb_left of them are to be done, this one too (code/merge.c). */
static void write_round(writer *w)
{
    fb_emitter *e = w->e;
    const fb_cluster_tile x = cluster_of(e);
    const char *set = in_sets(&x) ? fb_arena_printf(e->arena, ", %s", set_of(&x)) : "", *cell = cell_of(w, &x);
    const bool sets = in_sets(&x) && x.rows > x.batch * x.passes;
    fb_emit(e, "using fb_cell = %s;", cell);
    fb_emit(e, "static_assert(fb_cell::THREADS == %d && fb_cell::SHARED %s %" PRId64 ", \"as launched\");", x.threads,
            x.wide ? "<=" : "==", x.shared_bytes);
    fb_emit(e, "extern __shared__ __align__(16) unsigned char fb_shared[];");
    fb_emit(e, "const fb_at m0 = " FB_BLOCK ".y * %d, n0 = " FB_BLOCK ".x * %d;", x.rows, x.columns);
    fb_emit(e, "const bool fb_more = fb_left > 1;");
    const char *point = fb_emit_name(e, "point");
    fb_emit_if(e, "fb_step == 0");
    fb_emit_list(e, "fb_cell::begin(fb_kept.held, fb_shared,");
    write_state(w, &x);
    write_weights(w, &x);
    fb_emit_close_by(e, NULL);
    fb_emit_section(e, 0);
    find_sums(w);
    if (has_items(w, &x))
        fb_emit(e, "static_assert(%s <= %" PRId64 ", \"as launched\");",
                items_at(w, &x, w->s->n_values) + strlen("fb_shared + "), x.shared_bytes);
    e->stage.round = fb_arena_printf(e->arena, "%s::kept<%d>", cell, kept_number(w, FB_NONE));
    begin_kept(w, &x, point);
    fb_emit_close(e);
    fetch_items(w, &x);
    if (sets) {
        fb_emit_directive(e, "#pragma unroll 1");
        fb_emit_for(e, "int", "fb_set", "0", "fb_cell::SETS", NULL);
    }
    load_early(w, &x, point);
    fb_emit(e, "%s fb_sums[fb_cell::MINE][%d];", w->sum, w->t->n_strips);
    fb_emit(e, "fb_cell::multiply(fb_sums, fb_kept.held, fb_shared, fb_step%s);", set);
    fb_emit(e, "%s fb_made[fb_cell::MINE];", w->element);
    make_state(w, &x, point);
    if (has_items(w, &x)) fb_emit(e, "fb_copies_wait<1>();");
    fb_emit(e, "if (fb_more) fb_cell::send(fb_made, fb_shared, fb_step%s, n0);", set);
    store_remembered(w, &x, point, false);
    store_remembered(w, &x, point, true);
    if (sets) fb_emit_close(e);
    if (!in_sets(&x)) fb_emit(e, "if (!fb_more) fb_cell::end();");
    e->grid[0] = x.blocks;
    e->grid[1] = (int)x.clusters;
    e->grid[2] = 1;
    e->dynamic_shared = (int)x.shared_bytes;
    fb_needs_text(&e->needs, FB_TEXT_CLUSTER);
    if (in_sets(&x)) fb_needs_text(&e->needs, FB_TEXT_CLUSTER_F32);
    if (x.wide) fb_needs_text(&e->needs, FB_TEXT_CLUSTER_WIDE);
    if (x.wide) fb_needs_text(&e->needs, FB_TEXT_WGMMA);
    e->needs.warpgroups = x.wide;
    e->needs.cluster = x.blocks;
    e->needs.meets = FB_MEETS_CLUSTER;
}

/* ---- the kernel ---- */

static void write_places(const writer *w)
{
    fb_emitter *e = w->e;
    const fb_tiled *t = w->t;
    fb_emit(e, "const fb_at m0 = " FB_BLOCK ".y * %d, n0 = %s;", w->tile.m,
            t->whole ? "0" : fb_arena_printf(e->arena, FB_BLOCK ".x * %d", w->tile.strip));
    if (w->tile.split > 1) {
        fb_emit(e, "const int fb_part = " FB_BLOCK ".z %% %d;", w->tile.split);
        fb_emit(e,
                "const int fb_place = (" FB_BLOCK ".z / %d * " FB_GRID ".y + " FB_BLOCK ".y) * " FB_GRID
                ".x + " FB_BLOCK ".x;",
                w->tile.split);
        fb_emit(e, "static __device__ %s fb_parts[%" PRId64 "];", w->sum,
                w->tile.blocks * w->tile.split * w->tile.m * w->tile.n);
        fb_emit(e, "static __device__ unsigned fb_arrived[%" PRId64 "];", w->tile.blocks);
    }
    if (t->batch > 1)
        fb_emit(e, "const fb_at fb_batch = %s;",
                w->tile.split > 1 ? fb_arena_printf(e->arena, FB_BLOCK ".z / %d", w->tile.split) : FB_BLOCK ".z");
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
    if (t->round) {
        write_round(&w);
        return;
    }
    fb_emit(e, "using fb_tile = fb_gemm<%s, %s, %d, %d, %d, %d, %d, %d>;", w.element, w.tile.tensor ? "true" : "false",
            w.tile.m, w.tile.n, w.tile.k, w.tile.warp_m, w.tile.warp_n, w.tile.stages);
    fb_emit(e, "static_assert(fb_tile::THREADS == %d, \"as launched\");", w.tile.threads);
    fb_emit(e, "extern __shared__ __align__(16) unsigned char fb_shared[];");
    write_places(&w);
    w.by = fb_tile_epilogue_of(e->nest, e->knobs, &w.tile);
    if (w.by.early) write_early(&w);
    fb_emitter kept = *e;
    fb_emit(e, "fb_tile::registers fb_sums = {};");
    for (int p = 0; p < t->n_phases; p++) write_phase(&w, p);
    fb_emit(e, "%s *const fb_c = fb_tile::spread(fb_sums, fb_shared);", w.sum);
    if (w.tile.split > 1)
        fb_emit(e, "if (!fb_tile::combine<%d>(fb_c, fb_parts, fb_arrived, fb_place, fb_part)) return;", w.tile.split);
    if (w.by.early) {
        *e = kept; /* back to the epilogue's section, with what is known of it */
        write_late(&w);
    } else {
        fb_emit_section(e, 0);
        (w.s->n_passes ? write_rows : write_elements)(&w);
    }
    e->function->sharing = w.tile.sharing;
    memcpy(e->grid, w.tile.grid, sizeof e->grid);
    e->dynamic_shared = (int)w.tile.shared_bytes;
    e->stage.kept_shared = (int)w.tile.kept_bytes;
}
