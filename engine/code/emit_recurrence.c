/* A recurrence in CUDA: a step of a loop whose state goes round a cluster of blocks. What multiplies and sends stands
 * in kernels/cluster.cuh, cluster_wide.cuh (whole warpgroups) and cluster_f32.cuh (single precision); here is written
 * what an element of the state and of the weights is, and what becomes of the sums.
 *
 * requires  a tiled nest that is a step of a loop (fb_tiled.round)
 * provides  the stage's statements; its loop is code/merge.c's
 */
#include "code/emit_tiled.h"
#include "schedule/cluster.h"

#include <inttypes.h>
#include <string.h>

typedef fb_emit_tiled writer;

/* ---- the tile ---- */

static fb_cluster_tile cluster_of(const fb_emitter *e)
{
    fb_cluster_tile tile;
    FB_ASSERT(fb_cluster_tile_of(e->nest, e->knobs, &tile, NULL));
    return tile;
}

int fb_emit_recurrence_threads(const fb_emitter *e)
{
    return cluster_of(e).threads;
}

/* Is it in single precision? Rows are gone through in sets then. */
static bool in_sets(const fb_cluster_tile *x)
{
    return x->batch > 0;
}

/* In more than one? */
static bool has_sets(const fb_cluster_tile *x)
{
    return in_sets(x) && x->rows > x->batch * x->passes;
}

/* The number of the set that is at work. */
static const char *set_of(const fb_cluster_tile *x)
{
    return has_sets(x) ? "fb_set" : "0";
}

/* Have its blocks more columns than there are? */
static bool has_gaps(const writer *w, const fb_cluster_tile *x)
{
    return (int64_t)x->blocks * x->columns > w->t->columns;
}

/* ---- what it begins with ---- */

static void write_state(const writer *w, const fb_cluster_tile *x)
{
    fb_emitter *e = w->e;
    const fb_phase *p = &w->t->phases[0];
    fb_emit_open(e, "[&](fb_at fb_m, fb_at fb_k) -> %s", w->element);
    if (w->t->rows % x->rows) fb_emit(e, "if (m0 + fb_m >= %" PRId64 ") return {};", w->t->rows);
    fb_emit_cuda_declare(w->e, p->left.outer, "m0 + fb_m");
    fb_emit_cuda_declare(w->e, p->left.k, "fb_k");
    fb_emit_tiled_element(w, e->nest->n_sections, &p->left, false, NULL);
    fb_emit_close_by(e, "},");
}

static void write_weights(const writer *w, const fb_cluster_tile *x)
{
    fb_emitter *e = w->e;
    const fb_phase *p = &w->t->phases[0];
    const char *all = fb_emit_tiled_strips(w, p, "fb_column");
    fb_emit_open(e, "[&](fb_at fb_k, fb_at fb_strip, fb_at fb_n) -> %s", w->element);
    fb_emit(e, "const fb_at fb_column = n0 + fb_n;");
    fb_emit(e, "if (fb_k >= %" PRId64 "%s) return {};", p->k,
            has_gaps(w, x) ? fb_arena_printf(e->arena, " || fb_column >= %" PRId64, w->t->columns) : "");
    for (int s = 0; s < w->t->n_strips && !all; s++) {
        if (p->product[s] == FB_NONE) continue;
        fb_emit_if(e, "fb_strip == %d", s);
        fb_emit_tiled_right(
            w, p->product[s],
            p->column[s] ? fb_arena_printf(e->arena, "fb_column + %" PRId64, p->column[s]) : "fb_column", false, NULL);
        fb_emit_close(e);
    }
    if (all)
        fb_emit_tiled_right(w, p->product[0], all, false, NULL);
    else
        fb_emit(e, "return {};");
    fb_emit_close_by(e, "});");
}

/* ---- its elements ---- */

/* Is it loaded while the product is at work? */
static bool is_early(const writer *w, fb_val v)
{
    const fb_value *x = &w->s->values[v];
    return x->kind == FB_VALUE_LOAD && x->when == FB_NONE && x->table == FB_NONE && !fb_emit_tiled_is_sum(w, v);
}

static bool is_read_early(const writer *w, fb_id node)
{
    for (int v = 0; v < w->s->n_values; v++)
        if (is_early(w, v) && w->s->values[v].node == node) return true;
    return false;
}

/* A carried value that its thread keeps in a register (fb_round.own): its number; FB_NONE: it is read and stored at
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
static void open_placed(const writer *w, const fb_cluster_tile *x, const char *point, const char *first)
{
    open_elements(w);
    if (first) fb_emit(w->e, "%s", first);
    place_element(w, x);
    const fb_space *rows = &w->s->rows;
    if (rows->n == 2 && rows->extent[1] == w->t->columns) {
        fb_emit_cuda_declare(w->e, rows->var[0], "m0 + fb_m");
        fb_emit_cuda_declare(w->e, rows->var[1], "n0 + fb_n");
        return;
    }
    fb_emit_tiled_point(w, point);
    fb_emit_cuda_load_group(w->e, 1, point);
}

static const char *loaded(const writer *w, fb_val v)
{
    const fb_value *load = &w->s->values[v];
    return fb_emit_element(w->e, load->node, load->table, load->at);
}

/* ---- what it reads of memory (fb_items) ---- */

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

/* Where those of value v are: behind all that the recurrence has in shared memory, and those of the values before. With
 * v the number of values, where all of them end. */
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
static void fetch_items(const writer *w, const fb_cluster_tile *x)
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
        fb_emit_cuda_declare(w->e, w->s->rows.var[0], "m0 + fb_m");
        fb_emit_cuda_declare(w->e, w->s->rows.var[1], "n0 + fb_n");
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

/* Names for this step's, which have come. */
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

/* ---- what its threads keep, and what it stores ---- */

/* What the loop begins with, of what threads keep. */
static void begin_kept(const writer *w, const fb_cluster_tile *x, const char *point)
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
static void load_early(const writer *w, const fb_cluster_tile *x, const char *point)
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
        if (fb_emit_tiled_is_sum(w, v))
            fb_emit(w->e, "const %s %s = fb_sums[fb_e][%d];", w->sum, w->e->names[v], w->t->strip_of[v]);
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
static void make_state(const writer *w, const fb_cluster_tile *x, const char *point)
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
static void store_remembered(const writer *w, const fb_cluster_tile *x, const char *point, bool end)
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

/* ---- the step ---- */

/* The recurrence's type, of kernels/cluster*.cuh. */
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

/* What is done at the first step alone. */
static void write_begin(const writer *w, const fb_cluster_tile *x, const char *cell, const char *point)
{
    fb_emitter *e = w->e;
    fb_emit_if(e, "fb_step == 0");
    fb_emit_list(e, "fb_cell::begin(fb_kept.held, fb_shared,");
    write_state(w, x);
    write_weights(w, x);
    fb_emit_close_by(e, NULL);
    fb_emit_section(e, 0);
    fb_emit_tiled_find_sums(w);
    if (has_items(w, x))
        fb_emit(e, "static_assert(%s <= %" PRId64 ", \"as launched\");",
                items_at(w, x, w->s->n_values) + strlen("fb_shared + "), x->shared_bytes);
    e->stage.round = fb_arena_printf(e->arena, "%s::kept<%d>", cell, kept_number(w, FB_NONE));
    begin_kept(w, x, point);
    fb_emit_close(e);
}

static void note_needs(fb_emitter *e, const fb_cluster_tile *x)
{
    fb_needs_text(&e->needs, in_sets(x) ? FB_TEXT_CLUSTER_F32 : x->wide ? FB_TEXT_CLUSTER_WIDE : FB_TEXT_CLUSTER);
    e->needs.warpgroups = x->wide;
    e->needs.cluster = x->blocks;
    e->needs.meets = FB_MEETS_CLUSTER;
}

/* A step of a loop: its number is fb_step, and fb_left of them are to be done, this one too (code/merge.c). */
void fb_emit_recurrence(const fb_emit_tiled *w)
{
    fb_emitter *e = w->e;
    const fb_cluster_tile x = cluster_of(e);
    const char *set = in_sets(&x) ? fb_arena_printf(e->arena, ", %s", set_of(&x)) : "", *cell = cell_of(w, &x);
    fb_emit(e, "using fb_cell = %s;", cell);
    fb_emit(e, "static_assert(fb_cell::THREADS == %d && fb_cell::SHARED %s %" PRId64 ", \"as launched\");", x.threads,
            x.wide ? "<=" : "==", x.shared_bytes);
    fb_emit(e, "extern __shared__ __align__(16) unsigned char fb_shared[];");
    fb_emit(e, "const fb_at m0 = " FB_BLOCK ".y * %d, n0 = " FB_BLOCK ".x * %d;", x.rows, x.columns);
    fb_emit(e, "const bool fb_more = fb_left > 1;");
    const char *point = fb_emit_name(e, "point");
    write_begin(w, &x, cell, point);
    fetch_items(w, &x);
    if (has_sets(&x)) {
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
    if (has_sets(&x)) fb_emit_close(e);
    if (!in_sets(&x)) fb_emit(e, "if (!fb_more) fb_cell::end();");
    e->grid[0] = x.blocks;
    e->grid[1] = (int)x.clusters;
    e->grid[2] = 1;
    e->dynamic_shared = (int)x.shared_bytes;
    note_needs(e, &x);
}
