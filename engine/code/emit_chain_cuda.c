/* Chains in CUDA: kernels/chain.cuh, or kernels/wgmma.cuh, with functions that say what an element of an operand is and
 * what becomes of the first product's elements; then what is made of the last product, from its tile in shared memory.
 *
 * requires  a chain of two sections: the middle, which stays on chip, and what is stored
 */
#include "base/integer.h"
#include "code/emit_cuda_parts.h"
#include "code/names.h"
#include "schedule/chain.h"
#include "schedule/schedule.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct {
    fb_emitter *e;
    const fb_chain *c;
    fb_chain_tile tile;
    const char *element, *sum; /* types of an operand's elements and of sums */
    bool *near;                /* of the emitter's args: it is brought to lie beside the tiles */
    double scale;              /* what is made of products is multiplied by it afterwards; 1: by nothing */
} writer;

int fb_emit_cuda_chain_threads(fb_emitter *e)
{
    fb_chain_tile tile = fb_schedule_chain_tile_had(e->nest, e->knobs);
    if (tile.copiers) e->function->sharing = 1; /* a block that moves registers between its warps stands alone */
    return tile.threads;
}

static const fb_chain_link *last_of(const fb_chain *c)
{
    return &c->link[c->n_links - 1];
}

static bool is_variable(const writer *w, fb_ix at)
{
    return fb_ix_is_var(w->e->nest->pool, at);
}

/* ---- operands ---- */

/* An operand's element in terms of the parameters of its function: `outer` (row or column) and k. */
typedef struct {
    fb_id base;
    fb_ix at, outer, k;
    int64_t n_outer, n_k;
} operand;

static fb_ix renamed(const writer *w, fb_ix *at, fb_ix var, const char *name, int64_t extent)
{
    if (!is_variable(w, var)) return var;
    fb_ix to = fb_ix_var(w->e->nest->pool, name, extent);
    *at = fb_ix_substitute(w->e->nest->pool, *at, var, to);
    return to;
}

static operand left_of(const writer *w, const fb_chain_link *l)
{
    operand o = {.base = l->a, .at = l->a_at, .outer = w->c->row, .n_outer = w->c->rows, .n_k = l->depth};
    o.k = renamed(w, &o.at, l->k, "fb_k", l->depth);
    return o;
}

static operand right_of(const writer *w, const fb_chain_link *l)
{
    operand o = {.base = l->b, .at = l->b_at, .n_outer = l->columns, .n_k = l->depth};
    o.k = renamed(w, &o.at, l->k, "fb_k", l->depth);
    o.outer = renamed(w, &o.at, l->n, "fb_n", l->columns);
    return o;
}

static bool lies_along_k(const writer *w, const operand *o)
{
    fb_index_pool *p = w->e->nest->pool;
    return fb_ix_steps_along(p, o->at, o->k) || !fb_ix_steps_along(p, o->at, o->outer);
}

/* Do pieces of 16 bytes along the contiguous dimension lie at multiples of 16 bytes, whole or not at all in the
 * operand? */
static bool comes_in_pieces(const writer *w, const operand *o)
{
    bool along_k = lies_along_k(w, o);
    int piece = 16 / fb_dtype_size(w->e->nest->graph->nodes[o->base].dtype);
    fb_ix last = along_k ? o->k : o->outer;
    if (!is_variable(w, last) || (along_k ? o->n_k : o->n_outer) % piece) return false;
    return fb_packs(w->e->nest, o->base, o->at, last, piece);
}

static void write_operand(const writer *w, const operand *o, bool piece, const char *inside)
{
    fb_emit_cuda_return(w->e, fb_emit_element(w->e, o->base, FB_NONE, o->at), piece, inside);
    fb_emit_close_by(w->e, "},");
}

/* The row, or the last one. */
static const char *last_row(const writer *w)
{
    return fb_arena_printf(w->e->arena, "min(m0 + fb_m, (fb_at)%" PRId64 ")", w->c->rows - 1);
}

static void write_left(const writer *w, const fb_chain_link *l)
{
    operand o = left_of(w, l);
    bool piece = comes_in_pieces(w, &o);
    const char *inside = NULL;
    /* rows beyond the last are not stored: where no condition costs least, they are the last once more */
    bool again = (w->tile.wide || w->tile.attends) && lies_along_k(w, &o),
         ragged = fb_emit_cuda_is_guarded(w->c->rows, w->tile.rows);
    fb_emit_open(w->e, "[&](fb_at fb_m, fb_at fb_k) -> %s",
                 fb_emit_cuda_operand_type(w->e, w->element, piece,
                                           (ragged && !again) || fb_emit_cuda_is_guarded(l->depth, w->tile.depth)));
    if (!again) fb_emit_cuda_guard(w->e, "m0 + fb_m", w->c->rows, w->tile.rows, piece, &inside);
    fb_emit_cuda_guard(w->e, "fb_k", l->depth, w->tile.depth, piece, &inside);
    fb_emit_cuda_declare(w->e, w->c->row, again && ragged ? last_row(w) : "m0 + fb_m");
    write_operand(w, &o, piece, inside);
}

/* k_by, n_by: what the extents are rounded up to. */
static void write_right(const writer *w, const fb_chain_link *l, int k_by, int n_by)
{
    operand o = right_of(w, l);
    bool piece = comes_in_pieces(w, &o);
    const char *inside = NULL;
    fb_emit_open(w->e, "[&](fb_at fb_k, fb_at fb_n) -> %s",
                 fb_emit_cuda_operand_type(w->e, w->element, piece,
                                           fb_emit_cuda_is_guarded(l->depth, k_by) ||
                                               fb_emit_cuda_is_guarded(l->columns, n_by)));
    fb_emit_cuda_guard(w->e, "fb_k", l->depth, k_by, piece, &inside);
    fb_emit_cuda_guard(w->e, "fb_n", l->columns, n_by, piece, &inside);
    write_operand(w, &o, piece, inside);
}

static void write_nothing(const writer *w)
{
    fb_emit(w->e, "[&](fb_at, fb_at) -> %s { return {}; },", w->element);
}

/* ---- small operands beside the tiles ---- */

static bool is_loaded(const fb_nest *nest, fb_id storage)
{
    bool is = false;
    for (int i = 0; i < nest->n_sections; i++) {
        const fb_section *s = &nest->sections[i];
        for (int k = 0; k < s->n_values; k++) {
            const fb_value *v = &s->values[k];
            is |= v->kind == FB_VALUE_LOAD && v->table == FB_NONE && v->node == storage;
        }
        if (s->n_tables) return false;
    }
    return is;
}

/* Where whole warpgroups multiply, copies of tiles fill the way to memory: what is made of sums would wait behind them
 * for a bias, so small operands come with the first tile. Declares them, from the tiles' end on. */
static void declare_near(writer *w)
{
    enum { PIECE = 16, MOST = 4096 };
    fb_emitter *e = w->e;
    int64_t end = w->tile.shared_bytes;
    w->near = FB_NEW_ARRAY(e->arena, bool, e->n_args + 1);
    for (int i = 0; w->tile.wide && i < e->n_args; i++) {
        const fb_emit_arg *a = &e->args[i];
        if (a->written || a->storage < 0 || a->shift || !is_loaded(e->nest, a->storage)) continue;
        int64_t bytes = fb_node_bytes(e->nest->graph, a->storage);
        if (bytes > MOST || bytes % PIECE || end + bytes > w->tile.shared_bytes + FB_CHAIN_NEAR) continue;
        if (!fb_packs_in_steps(e->nest, a->storage, PIECE / fb_dtype_size(a->dtype))) continue;
        const char *type = e->spell->type[a->dtype].memory;
        fb_emit(e, "%s *const fb_near_%s = reinterpret_cast<%s *>(fb_shared + %" PRId64 ");", type, a->name, type, end);
        w->near[i] = true;
        end += bytes;
    }
    w->e->dynamic_shared = (int)end;
}

static void write_near(const writer *w)
{
    fb_emitter *e = w->e;
    fb_emit_open(e, "[&]");
    for (int i = 0; i < e->n_args; i++) {
        fb_emit_arg *a = &e->args[i];
        if (!w->near[i]) continue;
        fb_emit(e, "fb_tile::bring(fb_near_%s, %s, %" PRId64 ");", a->name, a->name,
                fb_node_bytes(e->nest->graph, a->storage));
        a->name = fb_arena_printf(e->arena, "fb_near_%s", a->name); /* what the sections call it */
    }
    fb_emit_close_by(e, "},");
}

/* kernels/wgmma.cuh has some functions of its own: between its products arithmetic is what takes the time. */
static const char *wide_spelling(const fb_op_info *op)
{
    return strcmp(op->name, "relu") == 0 ? "fb_relu_wide($0)" : op->cuda;
}

/* ---- the middle ---- */

static const char *first_sum(fb_emitter *e, fb_id node, fb_ix at)
{
    (void)e, (void)node, (void)at; /* its own element: nest/chain.c has seen to it */
    return "fb_sum";
}

static const char *sum_of_several(fb_emitter *e, fb_id node, fb_ix at)
{
    (void)e, (void)node, (void)at;
    return "fb_c[v]";
}

/* A score is the product times a positive number (which the softmax applies along with its own): that; else 1. */
static double scale_of(const writer *w)
{
    const fb_section *s = &w->e->nest->sections[0];
    const fb_chain *c = w->c;
    const fb_value *v = &s->values[c->shown];
    if (v->kind != FB_VALUE_OP || w->e->nest->graph->nodes[v->node].op != FB_OP_MUL) return 1;
    for (int i = 0; i < 2; i++) {
        const fb_value *product = &s->values[v->args[i]], *by = &s->values[v->args[1 - i]];
        if (product->kind != FB_VALUE_CHIP || by->kind != FB_VALUE_CONST) continue;
        double scale = (float)by->number;
        bool fits = c->hidden == -INFINITY || fabs(c->hidden) / scale < 1e38;
        if (scale > 1e-6 && scale < 1e6 && (!c->n_seen || fits)) return scale;
    }
    return 1;
}

static const char *hidden_of(const writer *w)
{
    return fb_emit_literal(w->e, FB_F32, w->c->hidden / w->scale);
}

/* What is made of a product, which is called `sum`. */
static const char *score_of(const writer *w, fb_val value, int space, const char *sum)
{
    fb_emitter *e = w->e;
    bool whole = w->scale == 1, asks = value != w->c->shown;
    if (!whole && !asks) return sum;
    const fb_value *v = &e->nest->sections[0].values[value];
    fb_val made = whole ? value : v->args[0];
    fb_emit_needed(e, made, space);
    const char *text = fb_emit_ref(e, made);
    if (whole) return text;
    bool shows = v->args[1] == w->c->shown;
    return fb_arena_printf(e->arena, "%s ? %s : %s", text, shows ? sum : hidden_of(w), shows ? hidden_of(w) : sum);
}

/* What `value` of the middle becomes, of the first product's element. */
static void write_made(const writer *w, fb_val value, const char *end)
{
    fb_emitter *e = w->e;
    const fb_section *s = &e->nest->sections[0];
    int used = fb_names_count(e->used);
    bool several = w->tile.together > 1;
    e->on_chip = several ? sum_of_several : first_sum;
    fb_emit_section(e, 0);
    const fb_value *v = &s->values[w->c->made];
    if (several)
        fb_emit_open(e, "[&](fb_at fb_m, fb_at fb_n, %s (&fb_c)[%d])", w->sum, w->tile.together);
    else
        fb_emit_open(e, "[&](fb_at fb_m, fb_at fb_n, %s fb_sum) -> %s", w->sum, w->sum);
    fb_emit_cuda_declare(w->e, w->c->row, w->c->rows % w->tile.rows ? last_row(w) : "m0 + fb_m");
    if (several)
        fb_emit_cuda_open_together(e, v->space, w->tile.together, "fb_n");
    else if (v->space != FB_NONE && s->spaces[v->space].n)
        fb_emit_cuda_declare(w->e, s->spaces[v->space].var[0], "fb_n");
    else if (s->rows.n > s->blocked)
        fb_emit_cuda_declare(w->e, s->rows.var[s->blocked], "fb_n");
    const char *score = score_of(w, value, v->space, several ? "fb_c[v]" : "fb_sum");
    fb_emit(e, several ? "fb_c[v] = %s;" : "return %s;", score);
    if (several) fb_emit_close(e);
    fb_emit_close_by(e, end);
    fb_names_forget(e->used, used);
}

static void write_middle(const writer *w)
{
    if (w->tile.attends) write_made(w, w->c->shown, "},");
    write_made(w, w->c->made, w->tile.wide || w->tile.attends ? "}," : "});");
}

/* ---- what a row of scores sees ---- */

static const char *extreme_of(const writer *w, const fb_half_plane *p, bool most)
{
    fb_str s = {0};
    if (p->row) fb_str_addf(&s, "%" PRId64 " * (m0 + fb_m%s)", p->row, (p->row > 0) == most ? " + fb_ms - 1" : "");
    if (p->column)
        fb_str_addf(&s, "%s%" PRId64 " * (fb_n%s)", s.n ? " + " : "", p->column,
                    (p->column > 0) == most ? " + fb_ns - 1" : "");
    if (p->constant || !s.n) fb_str_addf(&s, "%s%" PRId64, s.n ? " + " : "", p->constant);
    const char *text = fb_arena_strdup(w->e->arena, fb_str_get(&s));
    fb_str_free(&s);
    return text;
}

/* Of a tile of scores: are none visible (0), some (1), all (2)? */
static void write_seen(const writer *w)
{
    fb_emitter *e = w->e;
    const fb_chain *c = w->c;
    if (!c->n_seen) {
        fb_emit(e, "[&](int, int, int, int) -> int { return 2; },");
        return;
    }
    fb_emit_open(e, "[&](int fb_m, int fb_ms, int fb_n, int fb_ns) -> int");
    for (int i = 0; i < c->n_seen; i++) fb_emit(e, "if (%s < 0) return 0;", extreme_of(w, &c->seen[i], true));
    for (int i = 0; i < c->n_seen; i++) fb_emit(e, "if (%s < 0) return 1;", extreme_of(w, &c->seen[i], false));
    fb_emit(e, "return 2;");
    fb_emit_close_by(e, "},");
}

/* ---- which rows ---- */

/* Which member, and which of its rows from m0 on, the block of rows with this number is. Where rows see but some of the
 * columns, what takes longest goes first: the last rows, of as many members as the cache has right operands of. */
static void place_of(const writer *w, const char *block, const char **member, const char **m0)
{
    fb_emitter *e = w->e;
    const fb_chain *c = w->c;
    int64_t each = fb_ceil_div(c->rows, w->tile.rows);
    if (w->tile.attends && c->n_seen && each > 1) {
        int64_t some = fb_schedule_chain_together(e->nest);
        const char *first = "";
        if (some < c->batch) {
            first = fb_arena_printf(e->arena, "%s / %" PRId64 " * %" PRId64 " + ", block, some * each, some);
            block = fb_arena_printf(e->arena, "%s %% %" PRId64, block, some * each);
        }
        *member = fb_arena_printf(e->arena, "%s%s %% %" PRId64, first, block, some);
        *m0 = fb_arena_printf(e->arena, "(%" PRId64 " - (int)(%s) / %" PRId64 ") * %d", each - 1, block, some,
                              w->tile.rows);
        return;
    }
    *member = each > 1 ? fb_arena_printf(e->arena, "%s / %" PRId64, block, each) : block;
    if (c->batch > 1) block = fb_arena_printf(e->arena, "%s %% %" PRId64, block, each);
    *m0 = each == 1 ? "0" : fb_arena_printf(e->arena, "%s * %d", block, w->tile.rows);
}

/* The rows that all functions speak of, by the number that was drawn. */
static void write_turn(const writer *w)
{
    fb_emitter *e = w->e;
    const char *member, *m0;
    place_of(w, "fb_block", &member, &m0);
    fb_emit_open(e, "[&](int fb_block) -> int");
    if (is_variable(w, w->c->member)) fb_emit(e, "%s = %s;", fb_ix_var_name(e->nest->pool, w->c->member), member);
    fb_emit(e, "m0 = %s;", m0);
    fb_emit(e, "return (int)(%" PRId64 " - m0);", w->c->rows);
    fb_emit_close_by(e, "},");
}

/* ---- the kernel ---- */

static void write_results(const writer *w);

/* Neighbours in a row that become results together. */
static int vector_of(const writer *w)
{
    const fb_section *s = &w->e->nest->sections[1];
    return s->rows.n > s->blocked ? fb_emit_cuda_vector(w->e, s) : 1;
}

static void write_run(const writer *w)
{
    fb_emitter *e = w->e;
    const fb_chain *c = w->c;
    const fb_chain_link *first = &c->link[0], *last = last_of(c);
    bool two = c->n_links == 2;
    operand a = left_of(w, first), b0 = right_of(w, first), b1 = right_of(w, last);
    bool along[] = {!two || lies_along_k(w, &a), !two || lies_along_k(w, &b0), lies_along_k(w, &b1)};
    bool groups = w->tile.wide || w->tile.attends;
    const char *first_of =
        groups ? fb_arena_printf(e->arena, "%d, %s, ", vector_of(w), w->c->rows % w->tile.rows ? "true" : "false") : "";
    fb_emit_list(e, "fb_tile::run<%s%s, %s, %s>(", first_of, along[0] ? "true" : "false", along[1] ? "true" : "false",
                 along[2] ? "true" : "false");
    if (w->tile.wide)
        fb_emit(e, "fb_shared, (int)(%" PRId64 " - m0),", w->c->rows);
    else if (w->tile.attends)
        fb_emit(e, "fb_shared, &fb_drawn, " FB_BLOCK ".x, %" PRId64 ", %" PRId64 ", %s, %s,", w->tile.launched,
                w->tile.blocks, fb_emit_literal(e, FB_F32, w->scale), hidden_of(w));
    else
        fb_emit(e, "fb_sums, fb_shared,");
    if (w->tile.attends) write_turn(w);
    if (two) {
        write_left(w, first);
        write_right(w, first, w->tile.depth, w->tile.tile);
    } else {
        write_nothing(w);
        write_nothing(w);
    }
    write_right(w, last, w->tile.tile, w->tile.columns);
    const fb_spelling *spell = e->spell;
    if (w->tile.wide) {
        write_near(w);
        fb_spelling *own = FB_NEW(e->arena, fb_spelling);
        *own = *spell;
        own->op = wide_spelling;
        e->spell = own;
    }
    if (w->tile.attends) write_seen(w);
    write_middle(w);
    if (groups) write_results(w);
    e->spell = spell;
    fb_emit_close_by(e, NULL);
}

static const char *last_sum(fb_emitter *e, fb_id node, fb_ix at)
{
    (void)node, (void)at;
    return e->chip[0];
}

static void write_results(const writer *w)
{
    fb_emitter *e = w->e;
    int64_t columns = last_of(w->c)->columns;
    bool groups = w->tile.wide || w->tile.attends, each = w->tile.whole || groups;
    if (!each) fb_emit(e, "%s *const fb_c = fb_tile::second::spread(fb_sums, fb_shared);", w->sum);
    e->on_chip = last_sum;
    fb_emit_section(e, 1);
    int vector = vector_of(w);
    int64_t across = columns / vector;
    const char *own = vector > 1 ? "fb_n + v" : "fb_n";
    e->chip[0] = each ? vector > 1 ? "fb_c[v]" : "*fb_c"
                      : fb_arena_printf(e->arena, "fb_c[fb_m * fb_tile::second::LINE + %s]", own);
    if (each) {
        const char *over =
            groups ? "" : fb_arena_printf(e->arena, "fb_tile::second::each<%d>(fb_sums, fb_shared, ", vector);
        fb_emit_open(e, "%s[&](const %s *fb_c, const int fb_m, const int fb_n)", over, w->sum);
        if (w->tile.columns > columns) fb_emit(e, "if (fb_n >= %" PRId64 ") return;", columns);
    } else {
        fb_emit_for(e, "int", "fb_i", "threadIdx.x", fb_emit_number(e, w->tile.rows * across), "fb_tile::THREADS");
        fb_emit(e, "const int fb_m = fb_i / %" PRId64 ", fb_n = fb_i %% %" PRId64 "%s;", across, across,
                vector > 1 ? fb_arena_printf(e->arena, " * %d", vector) : "");
    }
    if (w->c->rows % w->tile.rows && !groups)
        fb_emit(e, "if (m0 + fb_m >= %" PRId64 ") %s;", w->c->rows, each ? "return" : "break");
    const char *point = fb_emit_name(e, "point"), *row = "(m0 + fb_m)";
    if (is_variable(w, w->c->member))
        row = fb_arena_printf(e->arena, "(%s * %" PRId64 " + m0 + fb_m)", fb_ix_var_name(e->nest->pool, w->c->member),
                              w->c->rows);
    fb_emit(e, "const fb_at %s = %s * %" PRId64 " + %s;", point, row, across,
            vector > 1 ? fb_arena_printf(e->arena, "fb_n / %d", vector) : "fb_n");
    fb_emit_cuda_load_group(e, vector, point);
    fb_emit_cuda_store_group(e, vector, NULL, NULL);
    if (each) {
        fb_emit_close_by(e, "});");
    } else {
        fb_emit_close(e);
    }
}

static void write_place(const writer *w)
{
    fb_emitter *e = w->e;
    const char *member, *m0;
    place_of(w, FB_BLOCK ".x", &member, &m0);
    if (!w->tile.attends) {
        fb_emit_cuda_declare(w->e, w->c->member, member);
        fb_emit(e, "const fb_at m0 = %s;", m0);
        return;
    }
    bool named = is_variable(w, w->c->member);
    fb_emit(e, "fb_at %sm0;",
            named ? fb_arena_printf(e->arena, "%s, ", fb_ix_var_name(e->nest->pool, w->c->member)) : "");
    fb_emit(e, "static __device__ fb_draw fb_drawn;");
}

static void declare_tile(const writer *w)
{
    const fb_chain_link *last = last_of(w->c);
    const fb_chain_tile *t = &w->tile;
    const char *tensor = t->tensor ? "true" : "false";
    fb_emitter *e = w->e;
    if (t->wide || t->attends) {
        e->needs.warpgroups = true;
        fb_needs_text(&e->needs, t->attends ? FB_TEXT_ATTENTION : FB_TEXT_WGMMA);
    }
    if (t->wide) fb_emit_remark(e, "by whole warpgroups: 64 rows each multiply, the last copies");
    if (t->attends) fb_emit_remark(e, "by whole warpgroups of 64 rows each, with what fb_chain_wide stands on");
    if (t->attends)
        fb_emit(e, "using fb_tile = fb_attention<%s, %d, %d, %" PRId64 ", %d, %d, %d, %d, %s, %s, %d>;", w->element,
                t->rows, t->tile, last->depth, t->depth, t->columns, t->stages, t->copiers,
                w->c->n_seen ? "true" : "false", t->rows > 64 ? "true" : "false", t->together);
    else if (t->wide)
        fb_emit(e, "using fb_tile = fb_chain_wide<%s, %d, %d, %" PRId64 ", %d, %d, %d>;", w->element, t->rows, t->tile,
                last->depth, t->depth, t->columns, t->stages);
    else if (t->whole)
        fb_emit(e, "using fb_tile = fb_chain_whole<%s, %s, %d, %d, %" PRId64 ", %d, %d, %d, %d, %d, %d>;", w->element,
                tensor, t->rows, t->tile, last->depth, t->depth, t->columns, t->step, FB_CHAIN_WARPS_M,
                FB_CHAIN_WARPS_N, t->stages);
    else
        fb_emit(e, "using fb_tile = fb_chain<%s, %s, %d, %d, %d, %" PRId64 ", %d, %d, %d, %s>;", w->element, tensor,
                t->rows, t->warp_rows, t->tile, last->depth, t->depth, t->columns, t->stages,
                w->c->online ? "true" : "false");
    fb_emit(e, "static_assert(fb_tile::THREADS == %d, \"as launched\");", t->threads);
    fb_emit(e, "extern __shared__ __align__(%d) unsigned char fb_shared[];", t->wide || t->attends ? 1024 : 16);
}

void fb_emit_chain_cuda(fb_emitter *e)
{
    const fb_chain *c = e->nest->chain;
    writer w = {.e = e, .c = c, .tile = fb_schedule_chain_tile_had(e->nest, e->knobs)};
    fb_dtype dtype = e->nest->graph->nodes[last_of(c)->node].dtype;
    w.element = e->spell->type[dtype].memory;
    w.sum = e->spell->type[dtype].value;
    w.scale = w.tile.attends ? scale_of(&w) : 1;
    declare_tile(&w);
    write_place(&w);
    declare_near(&w);
    bool groups = w.tile.wide || w.tile.attends;
    if (!groups) fb_emit(e, "fb_tile::registers fb_sums = {};");
    write_run(&w);
    if (!groups) write_results(&w);
    e->grid[0] = (int)(w.tile.attends ? w.tile.launched : w.tile.blocks);
}
