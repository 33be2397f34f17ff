/* The printer of C: OpenMP over rows, SIMD inside, in the shapes of schedule/schedule.h.
 *
 * requires  a section, and its shape
 * provides  loops around the emitter's statements
 *
 * In lanes a chunk of rows is worked on together, vectorised across rows, and every row value is an array with an entry
 * a lane. Kernels too small for threads to pay have no pragma for them. */
#include "code/emit_parts.h"

#include "base/mutate.h"
#include "schedule/schedule.h"

#include <inttypes.h>
#include <string.h>

/* Arrays are aligned for vectors by word: left to itself, gcc 12 has been seen to store vectors to a misaligned array.
 */

typedef struct {
    fb_emitter *e;
    const fb_section *s;
    fb_loops_schedule x;
    const char *lane; /* FB_LOOPS_LANES: how a lane's entry is indexed: "j - j0" */
    int opened;
    bool *declared; /* a value: its accumulator is, or its elements ahead of a loop */
    bool sorts_in_block;
    const char **turned; /* a value: the element of the tile that stands for a load; NULL: none does */
} loops;

/* ---- the frame ---- */

static void open_kernel(fb_emitter *e)
{
    fb_emit(e, "%s", "");
}

static void print_head(const fb_part *p, const char *entry, fb_str *out)
{
    const fb_function *f = p->function;
    fb_str_addf(out, "%svoid %s(const fb_kernel_args *args)\n{\n", p->stage ? "static " : "", entry);
    for (int i = 0; i < f->n_parameters; i++) {
        const fb_parameter *a = &f->parameters[i];
        fb_str_addf(out, "    %s%s *%s%s = args->buffers[%d];\n", a->constant ? "const " : "", a->type,
                    a->restricted ? "restrict " : "", a->name, i);
    }
    if (f->steps) fb_str_add(out, "    const int64_t steps = args->steps;\n");
}

static const char *var(const loops *l, fb_ix v)
{
    return fb_ix_var_name(l->e->nest->pool, v);
}

static void open_for(loops *l, fb_ix v, int64_t extent)
{
    const char *name = var(l, v);
    const fb_chain *chain = l->e->nest->chain;
    bool blocked = l->s->blocked && v == l->s->rows.var[l->s->blocked - 1];
    if (chain && v == chain->member) return; /* the block's */
    if (chain && v == chain->row)
        fb_emit_for(l->e, NULL, name, "first", "last", NULL);
    else if (blocked)
        fb_emit_for(l->e, NULL, name, "args->first", "args->last", NULL);
    else
        fb_emit_for(l->e, NULL, name, "0", fb_emit_number(l->e, extent), NULL);
    l->opened++;
}

/* A loop's chunks begin at "j0". */
static const char *chunk_start(const loops *l, const char *name)
{
    return fb_arena_printf(l->e->arena, "%s0", name);
}

static void open_chunks(loops *l, const char *name, int64_t extent, int64_t by)
{
    fb_emit_for(l->e, NULL, chunk_start(l, name), "0", fb_emit_number(l->e, extent), fb_emit_number(l->e, by));
}

static void close_to(loops *l, int opened)
{
    for (; l->opened > opened; l->opened--) fb_emit_close(l->e);
}

/* " num_threads(4)", " simdlen(8)": what is asked for, "" where it is left open. */
static const char *clause(const loops *l, const char *name, int value)
{
    return value > 0 ? fb_arena_printf(l->e->arena, " %s(%d)", name, value) : "";
}

static const char *threads_words(const loops *l)
{
    return clause(l, "num_threads", l->x.threads);
}

static const char *vector_words(const loops *l)
{
    return clause(l, "simdlen", l->x.vector);
}

/* "schedule(static)", or in chunks; then how many threads. */
static const char *schedule_words(const loops *l)
{
    const char *chunk = l->x.chunk > 0 ? fb_arena_printf(l->e->arena, ", %" PRId64, l->x.chunk) : "";
    return fb_arena_printf(l->e->arena, "schedule(static%s)%s", chunk, threads_words(l));
}

static void pragma_simd(loops *l, const char *words)
{
    fb_emit_directive(l->e, "#pragma omp simd%s%s", words, vector_words(l));
    l->e->vectors = true;
}

/* "#pragma omp parallel for …", unless one thread does it all. */
static bool pragma_parallel(loops *l, const char *words)
{
    if (l->x.inside || l->x.threads == 1) return false;
    char condition[96] = "";
    if (l->s->blocked && !l->x.threads) {
        int64_t rows = l->s->rows.extent[0], each = l->x.work / (rows ? rows : 1) + 1;
        snprintf(condition, sizeof condition, " if (args->last - args->first > %" PRId64 ")",
                 FB_WORK_FOR_THREADS / each);
    }
    fb_emit_directive(l->e, "#pragma omp parallel for%s %s%s", words, schedule_words(l), condition);
    return true;
}

static const char *collapse_words(const loops *l, int n)
{
    return n > 1 ? fb_arena_printf(l->e->arena, " collapse(%d)", n) : "";
}

/* ---- roots ---- */

static void store_roots(loops *l, int space, int depth)
{
    const fb_section *s = l->s;
    for (int i = 0; i < s->n_roots; i++)
        if (s->roots[i].space == space && s->roots[i].depth == depth) fb_emit_store(l->e, &s->roots[i]);
}

/* ---- elements ---- */

/* Statements that only need the first `level` row variables, before the next loop opens. */
static void hoist(loops *l, int level)
{
    uint32_t inside = ~((1u << level) - 1);
    for (int i = 0; i < l->s->n_values; i++)
        if (!(l->s->values[i].rows & inside) && l->s->values[i].depth == 0) fb_emit_needed(l->e, i, FB_NONE);
}

/* Vectors whose places take divisions of the last variable are computed in 32 bits where all numbers on the way fit:
 * processors have no vectors of quotients, nor shifts of signed numbers, in 64. (226,000 elements of phases with a sigmoid
 * behind them, two cores: 767 µs, 132 so.) NULL: as all variables are. */
static const char *type_along(const loops *l, fb_ix v)
{
    fb_index_pool *pool = l->e->nest->pool;
    if (!fb_schedule_divides(l->e->nest, l->s, v, 1)) return NULL;
    for (int i = 0; i < l->s->n_values; i++) {
        const fb_value *x = &l->s->values[i];
        if (x->kind == FB_VALUE_INDEX || x->kind == FB_VALUE_RANDOM) return NULL; /* numbers of 64 bits */
        for (int c = x->when; c != FB_NONE; c = l->e->nest->whens[c].outer)
            if (fb_ix_reach(pool, l->e->nest->whens[c].at) > INT32_MAX / 2) return NULL;
        if (x->kind == FB_VALUE_LOAD && x->space == FB_NONE && fb_ix_reach(pool, x->at) > INT32_MAX / 2) return NULL;
    }
    for (int i = 0; i < l->s->n_roots; i++)
        if (fb_ix_reach(pool, l->s->roots[i].at) > INT32_MAX / 2) return NULL;
    return "int";
}

/* A chain's member is the block's, and no loop. */
static void pragma_simd_over(loops *l, fb_ix v)
{
    const fb_chain *chain = l->e->nest->chain;
    if (!chain || v != chain->member) pragma_simd(l, "");
}

static void elements_between(loops *l, fb_ix v, int64_t from, int64_t to)
{
    fb_emitter *e = l->e;
    if (from == to) return;
    bool *mark = fb_emit_mark(e);
    fb_emit_for(e, type_along(l, v), var(l, v), fb_emit_number(e, from), fb_emit_number(e, to), NULL);
    store_roots(l, FB_NONE, 0);
    fb_emit_close(e);
    fb_emit_forget(e, mark);
}

/* The innermost loop; where it goes beyond what is padded, its ends are loops of their own and the rest has no tests. */
static void inner_elements(loops *l, fb_ix v, int64_t extent)
{
    const fb_interior whole = l->e->inside, x = fb_section_interior(l->e->nest, l->s, FB_NONE);
    if (x.var == FB_NONE) {
        const char *type = l->e->nest->chain ? NULL : type_along(l, v);
        pragma_simd_over(l, v);
        if (type) {
            fb_emit_for(l->e, type, var(l, v), "0", fb_emit_number(l->e, extent), NULL);
            l->opened++;
        } else {
            open_for(l, v, extent);
        }
        store_roots(l, FB_NONE, 0);
        return;
    }
    elements_between(l, v, 0, x.from);
    l->e->inside = x;
    pragma_simd_over(l, v);
    elements_between(l, v, x.from, x.to);
    l->e->inside = whole;
    elements_between(l, v, x.to, extent);
}

/* Where a piece of `each` of a variable's elements ends. */
static const char *declare_end(loops *l, const char *name, int64_t extent, int each)
{
    if (extent % each == 0) return fb_arena_printf(l->e->arena, "%s0 + %d", name, each);
    const char *end = fb_emit_name(l->e, fb_arena_printf(l->e->arena, "%s_end", name));
    fb_emit(l->e, "const int64_t %s = %s0 + %d < %" PRId64 " ? %s0 + %d : %" PRId64 ";", end, name, each, extent, name,
            each, extent);
    return end;
}

/* One side of a tile: a variable, and where and how far the tile goes along it. */
typedef struct {
    const char *name, *start, *end, *length;
} side;

static side open_side(loops *l, fb_ix v, int64_t extent, int each)
{
    side s = {.name = var(l, v), .start = chunk_start(l, var(l, v))};
    open_chunks(l, s.name, extent, each);
    l->opened++;
    return s;
}

static void declare_side(loops *l, side *s, int64_t extent, int each)
{
    s->end = declare_end(l, s->name, extent, each);
    s->length =
        extent % each == 0 ? fb_emit_number(l->e, each) : fb_arena_printf(l->e->arena, "%s - %s", s->end, s->start);
}

static void open_along(loops *l, const side *s)
{
    fb_emit_for(l->e, NULL, s->name, s->start, s->end, NULL);
    l->opened++;
}

/* Copies a tile of each load that is turned, and lets that stand for the load. `piece`: how far a tile of elements goes along
 * the last variable; of rows it has all points. */
static void turn_loads(loops *l, const side *across, const side *piece)
{
    fb_emitter *e = l->e;
    for (int i = 0; i < l->s->n_values; i++) {
        const fb_value *v = &l->s->values[i];
        int64_t step, wide = FB_LOOPS_WIDE;
        fb_ix var_along = fb_schedule_turned(e->nest, l->s, v, l->x.across, &step);
        if (var_along == FB_NONE) continue;
        side all = {.name = var(l, var_along), .start = "0"};
        const side *along = piece;
        if (!piece) {
            wide = fb_space_points(&l->s->spaces[v->space]);
            all.length = fb_emit_number(e, wide);
            along = &all;
        }
        fb_dtype dtype = e->nest->graph->nodes[v->node].dtype;
        const char *turned = fb_emit_name(e, fb_arena_printf(e->arena, "%s_turned", fb_emit_plain(e, v->node)));
        fb_emit(e, "_Alignas(64) %s %s[%d][%" PRId64 "];", e->spell->type[dtype].memory, turned, l->x.high, wide);
        fb_emit_open(e, "%s", "");
        fb_emit(e, "const int64_t %s = %s, %s = %s;", across->name, across->start, along->name, along->start);
        fb_emit(e, "fb_turn_%d(&%s, %" PRId64 ", %s, %s, %s, %" PRId64 ");", 8 * fb_dtype_size(dtype),
                fb_emit_element(e, v->node, v->table, v->at), step, across->length, along->length, turned, wide);
        fb_emit_close(e);
        const char *at = piece ? fb_arena_printf(e->arena, "%s - %s", along->name, along->start) : along->name;
        turned = fb_arena_printf(e->arena, "%s[%s - %s][%s]", turned, across->name, across->start, at);
        l->turned[i] = turned;
        e->whole[i] = fb_emit_spell(e, e->spell->type[v->dtype].from, &turned, 1);
    }
}

/* ---- strips ---- */

static void convert(loops *l, const side *along, const char *function, const char *from, const char *to)
{
    fb_emit_open(l->e, "%s", "");
    fb_emit(l->e, "const int64_t %s = %s;", along->name, along->start);
    fb_emit(l->e, "%s(%s, %s, %s);", function, from, to, along->length);
    fb_emit_close(l->e);
}

static const char *address(const loops *l, const char *element)
{
    return fb_arena_printf(l->e->arena, "&%s", element);
}

static const char *declare_strip(loops *l, fb_id node)
{
    const char *name = fb_emit_name(l->e, fb_arena_printf(l->e->arena, "%s_wide", fb_emit_plain(l->e, node)));
    fb_emit(l->e, "_Alignas(64) float %s[%d];", name, FB_LOOPS_STRIP);
    return name;
}

static void widen_loads(loops *l, const side *along)
{
    fb_emitter *e = l->e;
    for (int i = 0; i < l->s->n_values; i++) {
        const fb_value *v = &l->s->values[i];
        if (!fb_schedule_is_strip(e->nest, l->s, v, l->x.across)) continue;
        const char *element = l->turned[i] ? l->turned[i] : fb_emit_element(e, v->node, v->table, v->at),
                   *name = declare_strip(l, v->node);
        convert(l, along, "fb_widen", address(l, element), name);
        e->whole[i] = fb_arena_printf(e->arena, "%s[%s - %s]", name, along->name, along->start);
    }
}

/* The innermost loop, over a strip: what is f16 is converted ahead of it, and after it. */
static void emit_strip(loops *l, const side *along)
{
    fb_emitter *e = l->e;
    const fb_section *s = l->s;
    const char **wide = FB_NEW_ARRAY(e->arena, const char *, s->n_roots);
    widen_loads(l, along);
    for (int i = 0; i < s->n_roots; i++) {
        const fb_root *r = &s->roots[i];
        wide[i] = NULL;
        if (fb_schedule_stores_strip(e->nest, s, r)) wide[i] = declare_strip(l, r->node);
    }
    pragma_simd(l, "");
    open_along(l, along);
    for (int i = 0; i < s->n_roots; i++)
        if (wide[i])
            fb_emit_store_wide(e, &s->roots[i],
                               fb_arena_printf(e->arena, "%s[%s - %s]", wide[i], along->name, along->start));
        else
            fb_emit_store(e, &s->roots[i]);
    close_to(l, l->opened - 1);
    for (int i = 0; i < s->n_roots; i++) {
        const fb_root *r = &s->roots[i];
        if (wide[i])
            convert(l, along, "fb_narrow", wide[i], address(l, fb_emit_element(e, r->storage, r->table, r->at)));
    }
}

/* The loops outside of the last variable's, which threads share, with pieces of that one where it is cut or alone. */
static void open_outer(loops *l)
{
    const fb_space *rows = &l->s->rows;
    const int last = rows->n - 1;
    hoist(l, 0);
    pragma_parallel(l, collapse_words(l, last ? l->x.together + l->x.cut : 1));
    for (int d = 0; d < last; d++) {
        open_for(l, rows->var[d], rows->extent[d]);
        if (d + 1 >= l->x.together && !l->x.cut) hoist(l, d + 1);
    }
}

static void emit_strips(loops *l)
{
    const fb_space *rows = &l->s->rows;
    const int last = rows->n - 1;
    open_outer(l);
    side along = open_side(l, rows->var[last], rows->extent[last], FB_LOOPS_STRIP);
    declare_side(l, &along, rows->extent[last], FB_LOOPS_STRIP);
    if (l->x.cut) hoist(l, last);
    emit_strip(l, &along);
    close_to(l, 0);
}

/* Opens the loops that threads share over what is not in a tile, and over tiles of `across`. */
static void open_turned(loops *l, side *piece)
{
    const fb_space *rows = &l->s->rows;
    const int last = rows->n - 1, other = l->x.across;
    hoist(l, 0);
    pragma_parallel(l, collapse_words(l, l->x.together));
    for (int d = 0; d < rows->n; d++)
        if (d != other && (d != last || !piece)) open_for(l, rows->var[d], rows->extent[d]);
    if (piece) *piece = open_side(l, rows->var[last], rows->extent[last], FB_LOOPS_WIDE);
    side across = open_side(l, rows->var[other], rows->extent[other], l->x.high);
    if (piece) declare_side(l, piece, rows->extent[last], FB_LOOPS_WIDE);
    declare_side(l, &across, rows->extent[other], l->x.high);
    turn_loads(l, &across, piece);
    open_along(l, &across);
}

/* Tiles of two variables: what is loaded across is turned first. */
static void emit_tiles(loops *l)
{
    side piece;
    open_turned(l, &piece);
    hoist(l, l->s->rows.n - 1);
    if (l->x.strips) {
        emit_strip(l, &piece);
    } else {
        pragma_simd(l, "");
        open_along(l, &piece);
        store_roots(l, FB_NONE, 0);
    }
    close_to(l, 0);
}

static void emit_elements(loops *l)
{
    const fb_space *rows = &l->s->rows;
    int n = rows->n;
    if (l->x.across != FB_NONE) {
        emit_tiles(l);
        return;
    }
    if (n == 0) {
        store_roots(l, FB_NONE, 0);
        return;
    }
    if (l->x.strips) {
        emit_strips(l);
        return;
    }
    int64_t last = rows->extent[n - 1];
    bool cut = l->x.cut;
    if (n == 1) {
        hoist(l, 0);
        if (!pragma_parallel(l, fb_arena_printf(l->e->arena, " simd%s", vector_words(l))))
            pragma_simd_over(l, rows->var[0]);
        else
            l->e->vectors = true;
        open_for(l, rows->var[0], last);
        store_roots(l, FB_NONE, 0);
        close_to(l, 0);
        return;
    }
    open_outer(l);
    const char *name = var(l, rows->var[n - 1]);
    if (cut) {
        open_chunks(l, name, last, FB_LOOPS_CHUNK);
        l->opened++;
        hoist(l, n - 1);
        const side piece = {name, chunk_start(l, name), declare_end(l, name, last, FB_LOOPS_CHUNK), NULL};
        pragma_simd(l, "");
        open_along(l, &piece);
        store_roots(l, FB_NONE, 0);
    } else {
        inner_elements(l, rows->var[n - 1], last);
    }
    close_to(l, 0);
}

/* ---- reductions ---- */

static const char *best_name(const loops *l, fb_val v)
{
    return fb_arena_printf(l->e->arena, "best_%s", l->e->names[v]);
}

static bool is_float_value(const loops *l, fb_val v)
{
    return fb_dtype_is_float(l->s->values[v].dtype);
}

/* `to` becomes the larger or smaller of itself and x. */
static void keep_extremum(fb_emitter *e, fb_reduction r, bool is_float, const char *to, const char *x)
{
    if (is_float)
        fb_emit(e, "%s = %s(%s, %s);", to, r.clause, to, x);
    else
        fb_emit(e, "%s = %s %s %s ? %s : %s;", to, x, r.op == FB_OP_AMAX ? ">" : "<", to, x, to);
}

/* One step of reduction v, in terms of its accumulator's name (or array entry). */
static void step(loops *l, fb_val v, const char *entry)
{
    fb_emitter *e = l->e;
    const fb_value *x = &l->s->values[v];
    fb_reduction r = fb_emit_reduction(e, v);
    const char *acc = fb_arena_printf(e->arena, "%s%s", e->names[v], entry);
    const char *a = fb_emit_ref(e, x->args[0]);
    bool f = is_float_value(l, x->args[0]);
    if (r.arg) {
        const char *best = fb_arena_printf(e->arena, "%s%s", best_name(l, v), entry);
        const char *at = fb_emit_index(e, l->s->spaces[x->over].n ? l->s->spaces[x->over].var[0] : FB_NONE, false);
        const char *better = r.op == FB_OP_ARGMAX ? FB_MUTATE(41, ">", ">=") : "<";
        if (f)
            fb_emit_if(e, "%s %s %s || (%s != %s && %s == %s)", a, better, best, a, a, best, best);
        else
            fb_emit_if(e, "%s %s %s", a, better, best);
        fb_emit(e, "%s = %s;", best, a);
        fb_emit(e, "%s = %s;", acc, at);
        fb_emit_close(e);
        return;
    }
    if (r.op == FB_OP_RANK) {
        fb_emit(e, "%s += %s;", acc, fb_emit_before(e, v));
        return;
    }
    if (x->n_args == 2) {
        const char *b = fb_emit_ref(e, x->args[1]);
        if (f)
            fb_emit(e, "%s += %s * %s;", acc, a, b);
        else
            fb_emit(e, "%s = fb_wrap_add(%s, fb_wrap_mul(%s, %s));", acc, acc, a, b);
        return;
    }
    switch (r.op) {
    case FB_OP_AMAX:
    case FB_OP_AMIN: keep_extremum(e, r, f, acc, a); break;
    case FB_OP_PROD:
        if (f)
            fb_emit(e, "%s *= %s;", acc, a);
        else
            fb_emit(e, "%s = fb_wrap_mul(%s, %s);", acc, acc, a);
        break;
    default: fb_emit_add(e, l->s->values[x->args[0]].dtype, acc, a);
    }
}

/* " reduction(+ : sum, mean) reduction(fb_maxf : amax)" for the pass. */
static const char *clauses(loops *l, fb_pass p, const char *array)
{
    fb_emitter *e = l->e;
    fb_str s = {0};
    static const char *const ids[] = {"+", "*", "max", "min", "fb_max", "fb_min", "fb_maxf", "fb_minf"};
    for (size_t k = 0; k < sizeof ids / sizeof *ids; k++) {
        bool first = true;
        for (int i = 0; i < l->s->n_values; i++) {
            if (!fb_value_reduces(&l->s->values[i], p)) continue;
            fb_reduction r = fb_emit_reduction(e, i);
            if (!r.clause || strcmp(r.clause, ids[k]) != 0) continue;
            fb_str_addf(&s, "%s%s%s",
                        first ? FB_MUTATE(42, fb_arena_printf(e->arena, " reduction(%s : ", ids[k]), " private(")
                              : ", ",
                        e->names[i], array);
            first = false;
        }
        if (!first) fb_str_add(&s, ")");
    }
    const char *text = fb_arena_strdup(e->arena, fb_str_get(&s));
    fb_str_free(&s);
    return text;
}

/* Scans and arg-reductions go element by element, in order. */
static bool in_order(const loops *l, fb_pass p, const bool *needed)
{
    for (int i = 0; i < l->s->n_values; i++) {
        const fb_value *v = &l->s->values[i];
        if (needed[i] && v->kind == FB_VALUE_SCAN && FB_MUTATE(43, v->over == p.space, false)) return true;
        if (fb_value_reduces(v, p) && fb_emit_reduction(l->e, i).arg) return true;
    }
    return false;
}

static void declare_scans(loops *l, fb_pass p, const bool *needed)
{
    for (int i = 0; i < l->s->n_values; i++) {
        const fb_value *v = &l->s->values[i];
        if (!needed[i] || v->kind != FB_VALUE_SCAN || v->over != p.space) continue;
        fb_emit(l->e, "%s%s%s = %s;", l->declared[i] ? "" : fb_emit_type(l->e, i), l->declared[i] ? "" : " ",
                l->e->names[i], fb_emit_reduction(l->e, i).start);
        l->declared[i] = true;
    }
}

/* ---- rows ---- */

/* What the pass computes at one point. */
static void pass_body(loops *l, fb_pass p, const char *entry)
{
    fb_emitter *e = l->e;
    bool *mark = fb_emit_mark(e);
    for (int i = 0; i < l->s->n_values; i++) {
        const fb_value *v = &l->s->values[i];
        if (!fb_value_reduces(v, p)) continue;
        for (int a = 0; a < v->n_args; a++) fb_emit_needed(e, v->args[a], p.space);
        step(l, i, entry);
    }
    store_roots(l, p.space, p.depth);
    fb_emit_forget(e, mark);
}

/* Slow values that later passes use again go to a row buffer, declared before and filled in this pass. */
static fb_ix row_point(const loops *l, const fb_space *space)
{
    return fb_ix_ravel(l->e->nest->pool, space->n, space->extent, space->var);
}

static void declare_kept(loops *l, fb_pass p, const bool *needed)
{
    for (int i = 0; i < l->s->n_values; i++) {
        const fb_value *v = &l->s->values[i];
        if (!v->kept || !needed[i] || v->space != p.space || l->e->whole[i]) continue;
        fb_emit(l->e, "_Alignas(64) %s %s_row[%" PRId64 "];", fb_emit_type(l->e, i), l->e->names[i],
                fb_space_points(&l->s->spaces[p.space]));
    }
}

static void fill_kept(loops *l, fb_pass p, const bool *needed)
{
    const char *at = fb_emit_index(l->e, row_point(l, &l->s->spaces[p.space]), false);
    for (int i = 0; i < l->s->n_values; i++) {
        const fb_value *v = &l->s->values[i];
        if (!v->kept || !needed[i] || v->space != p.space || l->e->whole[i]) continue;
        fb_emit_needed(l->e, i, p.space);
        fb_emit(l->e, "%s_row[%s] = %s;", l->e->names[i], at, l->e->names[i]);
    }
}

static void refer_kept(loops *l, fb_pass p, const bool *needed)
{
    const char *at = fb_emit_index(l->e, row_point(l, &l->s->spaces[p.space]), false);
    for (int i = 0; i < l->s->n_values; i++) {
        const fb_value *v = &l->s->values[i];
        if (v->kept && needed[i] && v->space == p.space && !l->e->whole[i])
            l->e->whole[i] = fb_arena_printf(l->e->arena, "%s_row[%s]", l->e->names[i], at);
    }
}

static void declare_accumulators(loops *l, fb_pass p)
{
    fb_emitter *e = l->e;
    for (int i = 0; i < l->s->n_values; i++) {
        if (!fb_value_reduces(&l->s->values[i], p)) continue;
        fb_reduction r = fb_emit_reduction(e, i);
        if (r.arg) fb_emit(e, "%s %s = %s;", fb_emit_operand_type(l->e, i), best_name(l, i), r.start);
        fb_emit(e, "%s %s = %s;", fb_emit_type(l->e, i), e->names[i], r.arg ? "0" : r.start);
    }
}

/* ---- passes that threads share ---- */

/* OpenMP combines what threads have reduced in the order in which they end, so that sums of floats would differ from
 * run to run. Threads share such a pass in parts of a fixed length instead, and what the parts come to is added up in
 * their order: neither chance nor the number of threads decides what is left. */
typedef struct {
    int64_t each, count; /* of the first dimension's steps in a part; of parts, 0: none are needed */
} pass_parts;

static bool depends_on_order(const loops *l, fb_pass p)
{
    for (int i = 0; i < l->s->n_values; i++) {
        if (!fb_value_reduces(&l->s->values[i], p) || !is_float_value(l, i)) continue;
        const char *by = fb_emit_reduction(l->e, i).clause;
        if (by && (strcmp(by, "+") == 0 || strcmp(by, "*") == 0)) return true;
    }
    return false;
}

/* At most so many parts, of at least so many points. */
static pass_parts parts_of(const loops *l, fb_pass p, int64_t most, int64_t fewest)
{
    enum { VECTORS = 16 };
    const fb_space *space = &l->s->spaces[p.space];
    int64_t points = space->n ? fb_space_points(space) : 0;
    if (!points || !depends_on_order(l, p)) return (pass_parts){0};
    int64_t n = space->extent[0], inner = points / n, each = (n + most - 1) / most;
    if (each * inner < fewest) each = (fewest + inner - 1) / inner;
    if (space->n == 1) each = (each + VECTORS - 1) / VECTORS * VECTORS;
    return (pass_parts){each, (n + each - 1) / each};
}

static const char *parts_name(const loops *l, fb_val v)
{
    return fb_arena_printf(l->e->arena, "fb_parts_%s", l->e->names[v]);
}

/* array: what is behind a name, "[512]" of lanes. */
static void declare_parts(loops *l, fb_pass p, pass_parts parts, const char *array)
{
    for (int i = 0; i < l->s->n_values; i++)
        if (fb_value_reduces(&l->s->values[i], p))
            fb_emit(l->e, "%s%s %s[%" PRId64 "]%s;", array[0] ? "_Alignas(64) " : "", fb_emit_type(l->e, i),
                    parts_name(l, i), parts.count, array);
}

/* Opens the loop over parts. Accumulators of the same names are to be declared in it. */
static void open_parts(loops *l, fb_pass p, pass_parts parts)
{
    const fb_space *space = &l->s->spaces[p.space];
    const char *n = fb_emit_number(l->e, space->extent[0]);
    fb_emit_directive(l->e, "#pragma omp parallel for schedule(static)%s", threads_words(l));
    fb_emit_for(l->e, NULL, "fb_part", "0", fb_emit_number(l->e, parts.count), NULL);
    fb_emit(l->e, "const int64_t fb_first = fb_part * %" PRId64 ";", parts.each);
    fb_emit(l->e, "const int64_t fb_last = fb_first + %" PRId64 " < %s ? fb_first + %" PRId64 " : %s;", parts.each, n,
            parts.each, n);
}

/* One step: what part fb_part left joins the sum. */
static void join_part(loops *l, fb_val v, const char *entry)
{
    fb_emitter *e = l->e;
    fb_reduction r = fb_emit_reduction(e, v);
    const char *to = fb_arena_printf(e->arena, "%s%s", e->names[v], entry);
    const char *part = fb_arena_printf(e->arena, "%s[fb_part]%s", parts_name(l, v), entry);
    bool f = is_float_value(l, v);
    switch (r.op) {
    case FB_OP_AMAX:
    case FB_OP_AMIN: keep_extremum(e, r, f, to, part); break;
    case FB_OP_PROD: fb_emit(e, f ? "%s = %s * %s;" : "%s = fb_wrap_mul(%s, %s);", to, to, part); break;
    default: fb_emit(e, f ? "%s = %s + %s;" : "%s = fb_wrap_add(%s, %s);", to, to, part);
    }
}

/* Closes the loop over parts, and adds up what they left. lanes: so many a value; 0: one. */
static void close_parts(loops *l, fb_pass p, pass_parts parts, int64_t lanes)
{
    fb_emitter *e = l->e;
    const char *entry = lanes ? "[lane]" : "", *all = lanes ? fb_emit_number(e, lanes) : NULL;
    for (int joins = 0; joins < 2; joins++) {
        if (joins) fb_emit_for(e, NULL, "fb_part", "0", fb_emit_number(e, parts.count), NULL);
        if (lanes) fb_emit_for(e, NULL, "lane", "0", all, NULL);
        for (int i = 0; i < l->s->n_values; i++) {
            if (!fb_value_reduces(&l->s->values[i], p)) continue;
            if (joins)
                join_part(l, i, entry);
            else
                fb_emit(e, "%s[fb_part]%s = %s%s;", parts_name(l, i), entry, e->names[i], entry);
        }
        if (lanes) fb_emit_close(e);
        fb_emit_close(e);
    }
}

/* Is anything read backwards along the pass's last variable? gcc 12 adds up a nest of such loops wrongly where it makes
 * vectors of the outer one by itself (the mean of 4 x 4 that are flipped: five elements of another row were in it). */
static bool goes_backwards(const loops *l, fb_pass p)
{
    const fb_space *space = &l->s->spaces[p.space];
    for (int i = 0; i < l->s->n_values && space->n; i++) {
        const fb_value *v = &l->s->values[i];
        int64_t stride;
        fb_ix rest;
        if (v->kind != FB_VALUE_LOAD || v->space != p.space) continue;
        if (fb_ix_stride(l->e->nest->pool, v->at, space->var[space->n - 1], &stride, &rest) && stride < 0) return true;
    }
    return false;
}

/* Loops over the points of a pass, in one part's where threads share it so. */
static void open_pass(loops *l, fb_pass p, bool ordered, bool threads, pass_parts parts)
{
    const fb_space *space = &l->s->spaces[p.space];
    const char *reductions = ordered ? "" : clauses(l, p, "");
    for (int d = 0; d < space->n; d++) {
        bool first = d == 0, last = d == space->n - 1;
        if (threads && first && !parts.count) {
            fb_emit_directive(l->e, "#pragma omp parallel for%s%s schedule(static)%s", last ? " simd" : "", reductions,
                              threads_words(l));
            l->e->vectors = last;
        } else if (last && !ordered && (!fb_space_is_window(space) || goes_backwards(l, p))) {
            pragma_simd(l, reductions);
        }
        if (parts.count && first) {
            fb_emit_for(l->e, NULL, var(l, space->var[d]), "fb_first", "fb_last", NULL);
            l->opened++;
        } else {
            open_for(l, space->var[d], space->extent[d]);
        }
    }
}

/* ---- what is computed ahead of a loop that goes in order ---- */

enum { AHEAD = 256 }; /* elements at a time: they stay in the nearest cache */

/* Does it wait for what the pass has come to so far? */
static bool waits_for_order(const loops *l, fb_pass p, fb_val v)
{
    const fb_value *x = &l->s->values[v];
    if (x->space != p.space) return false;
    if (x->kind == FB_VALUE_SCAN && x->over == p.space) return true;
    for (int a = 0; a < x->n_args; a++)
        if (waits_for_order(l, p, x->args[a])) return true;
    return false;
}

static bool is_slow(const loops *l, fb_pass p, fb_val v)
{
    const fb_value *x = &l->s->values[v];
    if (x->space != p.space || l->e->whole[v]) return false;
    if (x->kind == FB_VALUE_OP && fb_op_get(l->e->nest->graph->nodes[x->node].op)->special) return true;
    for (int a = 0; a < x->n_args; a++)
        if (is_slow(l, p, x->args[a])) return true;
    return false;
}

/* Marks operands of what goes in order that are slow functions of what does not: vectors of these are computed first.
 * (cumsum of softplus, 257 rows of 3001 on two cores: 4.1 ms element by element.) Where the pass only finds, all of its
 * operands are. */
static bool find_ahead(const loops *l, fb_pass p, const bool *needed, bool finds, bool *ahead)
{
    bool any = false;
    for (int i = 0; i < l->s->n_values; i++) {
        const fb_value *v = &l->s->values[i];
        bool scan = needed[i] && v->kind == FB_VALUE_SCAN && v->over == p.space;
        if (!scan && !(fb_value_reduces(v, p) && fb_emit_reduction(l->e, i).arg)) continue;
        fb_val of = v->args[0];
        ahead[of] = finds || (!l->s->values[of].kept && is_slow(l, p, of) && !waits_for_order(l, p, of));
        any |= ahead[of];
    }
    return any && l->s->spaces[p.space].n;
}

static const char *ahead_name(const loops *l, fb_val v)
{
    return fb_arena_printf(l->e->arena, "%s_ahead", l->e->names[v]);
}

/* Opens the pass in chunks, of whose elements what is marked is made. */
static void open_ahead(loops *l, fb_pass p, const bool *ahead)
{
    fb_emitter *e = l->e;
    const fb_space *space = &l->s->spaces[p.space];
    const char *last = var(l, space->var[space->n - 1]), *start = chunk_start(l, last);
    int64_t extent = space->extent[space->n - 1];
    for (int i = 0; i < l->s->n_values; i++) {
        if (!ahead[i] || l->declared[i]) continue; /* by a pass before this one, of the same row */
        fb_emit(e, "_Alignas(64) %s %s[%d];", fb_emit_type(e, i), ahead_name(l, i), AHEAD);
        l->declared[i] = true;
    }
    for (int d = 0; d < space->n - 1; d++) open_for(l, space->var[d], space->extent[d]);
    open_chunks(l, last, extent, AHEAD);
    l->opened++;
    fb_emit(e, "const int64_t fb_end = %s + %d < %" PRId64 " ? %s + %d : %" PRId64 ";", start, AHEAD, extent, start,
            AHEAD, extent);
    bool *mark = fb_emit_mark(e);
    pragma_simd(l, "");
    fb_emit_for(e, NULL, last, start, "fb_end", NULL);
    for (int i = 0; i < l->s->n_values; i++) {
        if (!ahead[i]) continue;
        fb_emit_needed(e, i, p.space);
        fb_emit(e, "%s[%s - %s] = %s;", ahead_name(l, i), last, start, fb_emit_ref(e, i));
    }
    fb_emit_close(e);
    fb_emit_forget(e, mark);
    for (int i = 0; i < l->s->n_values; i++)
        if (ahead[i]) e->whole[i] = fb_arena_printf(e->arena, "%s[%s - %s]", ahead_name(l, i), last, start);
}

/* … which are gone through in order. */
static void open_chunk(loops *l, fb_pass p)
{
    const fb_space *space = &l->s->spaces[p.space];
    const char *last = var(l, space->var[space->n - 1]);
    fb_emit_for(l->e, NULL, last, chunk_start(l, last), "fb_end", NULL);
    l->opened++;
}

/* Is the largest or the smallest of floats looked for, and nothing else made? (The nearest of 333, of 3,001 rows on two
 * cores: 1,280 us element by element.) */
static bool only_finds(const loops *l, fb_pass p, const bool *needed)
{
    enum { FEW = 16 };
    const fb_space *space = &l->s->spaces[p.space];
    bool any = false;
    if (space->n != 1 || space->extent[0] < FEW) return false;
    for (int i = 0; i < l->s->n_roots; i++)
        if (l->s->roots[i].space == p.space && l->s->roots[i].depth == p.depth) return false;
    for (int i = 0; i < l->s->n_values; i++) {
        const fb_value *v = &l->s->values[i];
        if (needed[i] && (v->kind == FB_VALUE_SCAN || (v->kept && v->space == p.space))) return false;
        if (!fb_value_reduces(v, p)) continue;
        fb_val among = v->args[0];
        if (!fb_emit_reduction(l->e, i).arg || !is_float_value(l, among) || l->e->whole[among]) return false;
        if (fb_value_is_leaf(&l->s->values[among]) || l->s->values[among].space != p.space) return false;
        any = true;
    }
    return any;
}

/* The best of a chunk, and only where it is better than what there was, its place: the first of equals, and of what is
 * no number. */
static void find_in_chunk(loops *l, fb_pass p, fb_val v)
{
    fb_emitter *e = l->e;
    const fb_space *space = &l->s->spaces[p.space];
    const char *start = chunk_start(l, var(l, space->var[0])), *best = best_name(l, v),
               *x = ahead_name(l, l->s->values[v].args[0]);
    fb_reduction r = fb_emit_reduction(e, v);
    bool largest = r.op == FB_OP_ARGMAX, wide = l->s->values[l->s->values[v].args[0]].dtype == FB_F64;
    const char *by = fb_arena_printf(e->arena, "fb_%s%s", largest ? "max" : "min", wide ? "" : "f");
    fb_emit_open(e, "%s", "");
    fb_emit(e, "%s fb_found = %s;", fb_emit_operand_type(e, v), r.start);
    pragma_simd(l, fb_arena_printf(e->arena, " reduction(%s : fb_found)", by));
    fb_emit_for(e, NULL, "fb_k", "0", fb_arena_printf(e->arena, "fb_end - %s", start), NULL);
    fb_emit(e, "fb_found = %s(fb_found, %s[fb_k]);", by, x);
    fb_emit_close(e);
    fb_emit_if(e, "fb_found %s %s || (fb_found != fb_found && %s == %s)", largest ? ">" : "<", best, best, best);
    fb_emit(e, "int fb_at = %d;", AHEAD);
    pragma_simd(l, " reduction(min : fb_at)");
    fb_emit_for(e, "int", "fb_k", "0", fb_arena_printf(e->arena, "(int)(fb_end - %s)", start), NULL);
    fb_emit(e, "const int fb_here = (%s[fb_k] == fb_found) | ((%s[fb_k] != %s[fb_k]) & (fb_found != fb_found));", x, x,
            x);
    fb_emit(e, FB_MUTATE(41, "fb_at = fb_here & (fb_k < fb_at) ? fb_k : fb_at;", "fb_at = fb_here ? fb_k : fb_at;"));
    fb_emit_close(e);
    fb_emit(e, "%s = fb_found;", best);
    fb_emit(e, "%s = %s + fb_at;", e->names[v], start);
    fb_emit_close(e);
    fb_emit_close(e);
}

static void end_reductions(loops *l, fb_pass p)
{
    for (int i = 0; i < l->s->n_values; i++) {
        if (!fb_value_reduces(&l->s->values[i], p)) continue;
        const char *points = fb_emit_mean_points(l->e, i);
        if (FB_MUTATE(46, points, false)) fb_emit(l->e, "%s /= %s;", l->e->names[i], points);
        l->e->known[i] = true;
        fb_emit_as_index(l->e, i);
    }
}

/* ---- places in a row that is sorted ---- */

/* The pass that goes over a space, at the least depth. */
static int pass_over(const loops *l, int space)
{
    int p = 0;
    while (l->s->passes[p].space != space) p++;
    return p;
}

static const char *key_of(fb_dtype dtype)
{
    return dtype == FB_F64 ? "fb_key" : fb_dtype_is_float(dtype) ? "fb_keyf" : "fb_keyi";
}

/* Keys in the order of the rank, of a piece of the row; from NULL: of all of it. */
static void emit_keys(loops *l, const char *from, const char *to)
{
    fb_emitter *e = l->e;
    const fb_value *rank = &l->s->values[l->x.ranked];
    const fb_space *space = &l->s->spaces[rank->over];
    const char *at = var(l, space->var[0]);
    fb_dtype dtype = l->s->values[rank->args[0]].dtype;
    bool largest = e->nest->graph->nodes[rank->node].attrs->start == 1;
    bool *mark = fb_emit_mark(e);
    fb_emit_for(e, NULL, at, from ? from : "0", from ? to : fb_emit_number(e, space->extent[0]), NULL);
    fb_emit_needed(e, rank->args[0], rank->over);
    fb_emit(e, "fb_keys[%s%s%s] = %s%s(%s);", at, from ? " - " : "", from ? from : "",
            FB_MUTATE(58, largest, false) ? "~" : "", key_of(dtype), fb_emit_ref(e, rank->args[0]));
    fb_emit_close(e);
    fb_emit_forget(e, mark);
}

/* What a row's sort needs: arrays on the stack, or parts of one block where the row is long. One, since the C library
 * gives back to the system what is larger than the largest block was, and the next run pays for its pages. */
typedef struct {
    const char *type, *name;
    int64_t size, n; /* elements, of so many bytes */
} array;

static void declare_arrays(loops *l, int count, const array *arrays)
{
    enum { MOST_ON_STACK = 1 << 14 }; /* elements of a row */
    fb_emitter *e = l->e;
    int64_t bytes = 0;
    l->sorts_in_block = fb_space_points(&l->s->spaces[l->s->values[l->x.ranked].over]) > MOST_ON_STACK;
    for (int i = 0; i < count; i++) bytes += fb_needs_block(arrays[i].n, (size_t)arrays[i].size);
    if (l->sorts_in_block) {
        fb_emit(e, "char *const fb_block = fb_block_new(%" PRId64 ");", bytes);
        e->needs.block_bytes += bytes;
    }
    bytes = 0;
    for (int i = 0; i < count; i++) {
        const array *a = &arrays[i];
        if (l->sorts_in_block)
            fb_emit(e, "%s *const %s = (%s *)(fb_block + %" PRId64 ");", a->type, a->name, a->type, bytes);
        else
            fb_emit(e, "%s %s[%" PRId64 "];", a->type, a->name, a->n);
        bytes += fb_needs_block(a->n, (size_t)a->size);
    }
}

/* All of a row's places. */
static void sort_row(loops *l, int64_t n, bool narrow, const char *ranks)
{
    const array arrays[] = {{"uint64_t", "fb_keys", 8, n},
                            {narrow ? "uint64_t" : "int32_t", "fb_room", narrow ? 8 : 4, narrow ? n : 2 * n},
                            {"int32_t", ranks, 4, n}};
    declare_arrays(l, 3, arrays);
    emit_keys(l, NULL, NULL);
    fb_emit(l->e, "%s(fb_keys, %" PRId64 ", fb_room, %s);", narrow ? "fb_ranks" : "fb_ranks_wide", n, ranks);
}

/* The first ones alone, of keys that are made piece by piece and not kept. */
static void find_first(loops *l, int64_t n, const char *ranks)
{
    enum { PIECE = 512, ROOM = 128 }; /* FB_FIRST_ROOM of the prelude */
    fb_emitter *e = l->e;
    int64_t first = l->x.first, room = 2 * first + ROOM;
    const array arrays[] = {{"uint64_t", "fb_kept", 8, room},
                            {"int32_t", "fb_at", 4, room},
                            {"int32_t", "fb_room", 4, 3 * first},
                            {"int32_t", ranks, 4, n}};
    const char *at = var(l, l->s->spaces[l->s->values[l->x.ranked].over].var[0]), *start = chunk_start(l, at);
    declare_arrays(l, 4, arrays);
    fb_emit(e, "fb_firsts fb_first = {.keys = fb_kept, .at = fb_at, .first = %" PRId64 ", .most = UINT64_MAX};", first);
    open_chunks(l, at, n, PIECE);
    fb_emit(e, "const int64_t fb_end = %s + %d < %" PRId64 " ? %s + %d : %" PRId64 ";", start, PIECE, n, start, PIECE,
            n);
    fb_emit(e, "uint64_t fb_keys[%d];", PIECE);
    emit_keys(l, start, "fb_end");
    fb_emit(e, "fb_first_keys(&fb_first, fb_keys, (int32_t)%s, (int32_t)(fb_end - %s));", start, start);
    fb_emit_close(e);
    fb_emit(e, "fb_first_ranks(&fb_first, %" PRId64 ", fb_room, %s);", n, ranks);
}

static void emit_ranks(loops *l)
{
    fb_emitter *e = l->e;
    const fb_value *rank = &l->s->values[l->x.ranked];
    const char *ranks = fb_arena_printf(e->arena, "%s_ranks", e->names[l->x.ranked]);
    fb_dtype dtype = l->s->values[rank->args[0]].dtype;
    int64_t n = l->s->spaces[rank->over].extent[0];
    bool *needed = FB_NEW_ARRAY(e->arena, bool, l->s->n_values);
    fb_section_needed(l->s, pass_over(l, rank->over), needed);
    fb_emit_count_uses(e, needed, rank->over, 0);
    if (l->x.first)
        find_first(l, n, ranks);
    else
        sort_row(l, n, fb_dtype_is_float(dtype) && dtype != FB_F64, ranks);
    fb_emit_count_uses(e, NULL, FB_NONE, 0);
}

/* Instead of the pass that would count it. */
static void read_rank(loops *l)
{
    fb_emitter *e = l->e;
    fb_val v = l->x.ranked;
    const char *at = var(l, l->s->rows.var[l->s->rows.n - 1]);
    fb_emit(e, "const %s %s = %s_ranks[%s];", fb_emit_type(e, v), e->names[v], e->names[v], at);
    e->known[v] = true;
    fb_emit_as_index(e, v);
}

static void emit_pass(loops *l, int number)
{
    enum { MOST = 256, FEWEST = 512 };
    fb_emitter *e = l->e;
    fb_pass p = l->s->passes[number];
    if (l->x.ranked != FB_NONE && fb_value_reduces(&l->s->values[l->x.ranked], p)) {
        read_rank(l);
        return;
    }
    bool *needed = FB_NEW_ARRAY(e->arena, bool, l->s->n_values);
    fb_section_needed(l->s, number, needed);
    fb_emit_count_uses(e, needed, p.space, p.depth);
    fb_emit_row_values(l->e, needed);
    declare_kept(l, p, needed);
    declare_accumulators(l, p);
    declare_scans(l, p, needed);
    bool ordered = in_order(l, p, needed), threads = l->x.shape == FB_LOOPS_LONG && l->x.threads != 1 && !ordered;
    pass_parts parts = threads ? parts_of(l, p, MOST, FEWEST) : (pass_parts){0};
    if (parts.count) {
        declare_parts(l, p, parts, "");
        open_parts(l, p, parts);
        declare_accumulators(l, p);
    }
    int outside = l->opened;
    bool *ahead = FB_NEW_ARRAY(e->arena, bool, l->s->n_values), finds = ordered && only_finds(l, p, needed);
    bool chunks = ordered && find_ahead(l, p, needed, finds, ahead);
    if (chunks)
        open_ahead(l, p, ahead);
    else
        open_pass(l, p, ordered, threads, parts);
    if (finds) {
        for (int i = 0; i < l->s->n_values; i++)
            if (fb_value_reduces(&l->s->values[i], p)) find_in_chunk(l, p, i);
    } else {
        if (chunks) open_chunk(l, p);
        bool *mark = fb_emit_mark(e);
        fill_kept(l, p, needed);
        pass_body(l, p, "");
        fb_emit_forget(e, mark);
    }
    close_to(l, outside);
    for (int i = 0; i < l->s->n_values; i++)
        if (ahead[i]) e->whole[i] = NULL;
    if (parts.count) close_parts(l, p, parts, 0);
    refer_kept(l, p, needed);
    end_reductions(l, p);
    fb_emit_count_uses(e, NULL, FB_NONE, 0);
}

static void row_body(loops *l)
{
    for (int depth = 0; depth <= fb_emit_deepest(l->s); depth++) {
        store_roots(l, FB_NONE, depth);
        for (int p = 0; p < l->s->n_passes; p++)
            if (l->s->passes[p].depth == depth) emit_pass(l, p);
    }
}

static void emit_rows(loops *l)
{
    const fb_space *rows = &l->s->rows;
    if (l->x.across != FB_NONE) {
        open_turned(l, NULL);
        row_body(l);
        close_to(l, 0);
        return;
    }
    hoist(l, 0);
    bool ranked = l->x.ranked != FB_NONE;
    if (ranked && rows->n == 1) emit_ranks(l);
    if (l->x.shape == FB_LOOPS_ROWS && rows->n) pragma_parallel(l, collapse_words(l, l->x.together));
    for (int d = 0; d < rows->n; d++) {
        if (ranked && d > 0 && d == rows->n - 1) emit_ranks(l);
        open_for(l, rows->var[d], rows->extent[d]);
    }
    row_body(l);
    if (l->sorts_in_block) {
        close_to(l, rows->n - 1);
        fb_emit(l->e, "fb_block_free(fb_block);");
    }
    close_to(l, 0);
}

/* ---- lanes ---- */

static const char *lanes_start(const loops *l)
{
    return chunk_start(l, var(l, l->s->rows.var[l->s->rows.n - 1]));
}

static const char *lanes_end(const loops *l)
{
    return fb_arena_printf(l->e->arena, "%s + lanes", lanes_start(l));
}

static void open_lanes(loops *l, const char *first, const char *last)
{
    fb_emit_for(l->e, NULL, var(l, l->s->rows.var[l->s->rows.n - 1]), first, last, NULL);
}

static void lane_roots(loops *l, int depth)
{
    bool any = false;
    for (int i = 0; i < l->s->n_roots; i++) any |= l->s->roots[i].space == FB_NONE && l->s->roots[i].depth == depth;
    if (!any) return;
    bool *mark = fb_emit_mark(l->e);
    pragma_simd(l, "");
    open_lanes(l, lanes_start(l), lanes_end(l));
    store_roots(l, FB_NONE, depth);
    fb_emit_close(l->e);
    fb_emit_forget(l->e, mark);
}

static void lane_accumulators(loops *l, fb_pass p, const bool *needed)
{
    fb_emitter *e = l->e;
    bool any = false;
    for (int i = 0; i < l->s->n_values; i++) {
        const fb_value *v = &l->s->values[i];
        bool scan = needed[i] && v->kind == FB_VALUE_SCAN && v->over == p.space;
        if (!scan && !fb_value_reduces(v, p)) continue;
        any = true;
        if (!scan && fb_emit_reduction(e, i).arg)
            fb_emit(e, "_Alignas(64) %s %s[%" PRId64 "];", fb_emit_operand_type(l->e, i), best_name(l, i), l->x.lanes);
        if (!l->declared[i])
            fb_emit(e, "_Alignas(64) %s %s[%" PRId64 "];", fb_emit_type(l->e, i), e->names[i], l->x.lanes);
        l->declared[i] = true;
    }
    if (!any) return;
    fb_emit_for(e, NULL, "lane", "0", fb_emit_number(e, l->x.lanes), NULL);
    for (int i = 0; i < l->s->n_values; i++) {
        const fb_value *v = &l->s->values[i];
        bool scan = needed[i] && v->kind == FB_VALUE_SCAN && v->over == p.space;
        if (!scan && !fb_value_reduces(v, p)) continue;
        fb_reduction r = fb_emit_reduction(e, i);
        if (r.arg) fb_emit(e, "%s[lane] = %s;", best_name(l, i), r.start);
        fb_emit(e, "%s[lane] = %s;", e->names[i], r.arg ? "0" : r.start);
    }
    fb_emit_close(e);
}

/* Points of the innermost loop that are written out in a lane, so that sums stay in registers meanwhile; 0: none. Where
 * there is a test gcc 12 goes wrong with it (emit_value.c), and what is staged has none left. Of many points so many at a
 * time as go into them without a rest. */
static int64_t within(const loops *l, fb_pass p)
{
    enum { ALL = 16, MOST = 8, LEAST = 3 };
    const fb_loops_staged *x = &l->x.staged;
    const fb_space *space = &l->s->spaces[p.space];
    if (x->value == FB_NONE || l->s->passes[x->pass].space != p.space || p.depth != 0) return 0;
    int64_t extent = space->extent[space->n - 1], n = extent <= ALL ? extent : MOST;
    while (extent % n) n--;
    return n < LEAST && n < extent ? 0 : n;
}

/* Loops over the points of a pass; where threads share it, each part or thread has accumulators of its own. Gives how
 * many loops were open before those over points. */
static int open_lane_pass(loops *l, fb_pass p, const bool *needed, bool threads, pass_parts parts)
{
    fb_emitter *e = l->e;
    const fb_space *space = &l->s->spaces[p.space];
    if (parts.count) {
        declare_parts(l, p, parts, fb_arena_printf(e->arena, "[%" PRId64 "]", l->x.lanes));
        open_parts(l, p, parts);
        for (int i = 0; i < l->s->n_values; i++)
            if (fb_value_reduces(&l->s->values[i], p)) l->declared[i] = false;
        lane_accumulators(l, p, needed);
    } else if (threads) {
        fb_emit_directive(e, "#pragma omp parallel for%s schedule(static)%s",
                          clauses(l, p, fb_arena_printf(e->arena, "[:%" PRId64 "]", l->x.lanes)), threads_words(l));
    }
    int outside = l->opened;
    int64_t written_out = within(l, p);
    for (int d = 0; d < space->n; d++) {
        if (d == space->n - 1 && written_out) {
            if (written_out == space->extent[d]) break;
            open_chunks(l, var(l, space->var[d]), space->extent[d], written_out);
            l->opened++;
        } else if (parts.count && d == 0) {
            fb_emit_for(e, NULL, var(l, space->var[d]), "fb_first", "fb_last", NULL);
            l->opened++;
        } else {
            open_for(l, space->var[d], space->extent[d]);
        }
    }
    return outside;
}

typedef struct {
    fb_pass pass;
    const char *entry;
} at_point;

/* Lanes from `first` to `last` of one point of a pass. */
static void lanes_between(loops *l, const void *ctx, const char *first, const char *last)
{
    const at_point *at = ctx;
    fb_pass p = at->pass;
    const fb_space *space = &l->s->spaces[p.space];
    bool *mark = fb_emit_mark(l->e);
    open_lanes(l, first, last);
    int64_t written_out = within(l, p);
    if (written_out) {
        const char *point = var(l, space->var[space->n - 1]), *from = "0", *to = fb_emit_number(l->e, written_out);
        if (written_out < space->extent[space->n - 1]) {
            from = chunk_start(l, point);
            to = fb_arena_printf(l->e->arena, "%s + %s", from, to);
        }
        fb_emit_directive(l->e, "#pragma GCC unroll %" PRId64, written_out);
        fb_emit_for(l->e, NULL, point, from, to, NULL);
    }
    pass_body(l, p, at->entry);
    if (written_out) fb_emit_close(l->e);
    fb_emit_close(l->e);
    fb_emit_forget(l->e, mark);
}

typedef void between(loops *l, const void *ctx, const char *first, const char *last);

/* The larger or the smaller of a chunk's end and a number; the number where there is one chunk. */
static const char *end_within(const loops *l, bool chunk, const char *end, char than, int64_t number)
{
    if (!chunk) return fb_emit_number(l->e, number);
    return fb_arena_printf(l->e->arena, "(%s %c %" PRId64 " ? %s : %" PRId64 ")", end, than, number, end, number);
}

/* From start to end, a chunk's or of all `extent`, with the edges apart from the interior, which goes by vectors: it has
 * nothing to test, and vectors of it are loaded as they lie. Without an interior all goes by vectors. */
static void with_edges(loops *l, const fb_interior *x, bool chunk, int64_t extent, const char *start, const char *end,
                       between *f, const void *ctx)
{
    const fb_interior whole = l->e->inside;
    bool cut = x->var != FB_NONE && (x->from > 0 || x->to < extent);
    if (cut && x->from > 0) f(l, ctx, start, end_within(l, chunk, end, '<', x->from));
    l->e->inside = *x;
    pragma_simd(l, "");
    f(l, ctx, cut ? end_within(l, chunk, start, '>', x->from) : start,
      cut ? end_within(l, chunk, end, '<', x->to) : end);
    l->e->inside = whole;
    if (cut && x->to < extent) f(l, ctx, end_within(l, chunk, start, '>', x->to), end);
}

/* All lanes at one point. */
static void lanes_of_pass(loops *l, int number, const char *entry)
{
    const at_point at = {l->s->passes[number], entry};
    int64_t rows = l->s->rows.extent[l->s->rows.n - 1];
    bool staged = l->x.staged.value != FB_NONE && l->x.staged.pass == number;
    const fb_interior x = staged ? (fb_interior){.var = FB_NONE} : fb_section_interior(l->e->nest, l->s, number);
    with_edges(l, &x, l->x.lanes < rows, rows, lanes_start(l), lanes_end(l), lanes_between, &at);
}

/* ---- what windows have in common ---- */

static void staged_between(loops *l, const void *stand_in, const char *first, const char *last)
{
    fb_emitter *e = l->e;
    const fb_loops_staged *x = &l->x.staged;
    const fb_staged_dim *along = &x->dim[x->n - 1];
    bool *mark = fb_emit_mark(e);
    fb_emit_for(e, NULL, var(l, along->step == 1 ? along->row : along->point), first, last, NULL);
    fb_emit_needed(e, x->value, l->s->passes[x->pass].space);
    fb_emit(e, "%s = %s;", (const char *)stand_in, fb_emit_ref(e, x->value));
    fb_emit_close(e);
    fb_emit_forget(e, mark);
}

static void fill_along(loops *l, const char *stand_in)
{
    fb_emitter *e = l->e;
    const fb_loops_staged *x = &l->x.staged;
    const fb_staged_dim *along = &x->dim[x->n - 1];
    const fb_interior in = fb_schedule_staged_interior(e->nest, l->s, x);
    const char *start = x->chunk && along->step == 1 ? lanes_start(l) : "0", *end = fb_emit_number(e, along->extent);
    if (x->chunk && along->step == 1) end = fb_arena_printf(e->arena, "%s + %s", start, end);
    if (x->chunk) {
        const char *left = along->step == 1 ? fb_emit_number(e, x->places)
                                            : fb_arena_printf(e->arena, "%" PRId64 " - %" PRId64 " * %s", x->places,
                                                              along->step, lanes_start(l));
        fb_emit(e, "const int64_t fb_end = %s < %s ? %s : %s;", end, left, end, left);
        end = "fb_end";
    }
    with_edges(l, &in, x->chunk, x->places, start, end, staged_between, stand_in);
}

static void emit_staged(loops *l)
{
    fb_emitter *e = l->e;
    const fb_loops_staged *x = &l->x.staged;
    fb_pass p = l->s->passes[x->pass];
    bool *needed = FB_NEW_ARRAY(e->arena, bool, l->s->n_values);
    const char *name = fb_arena_printf(e->arena, "%s_staged", e->names[x->value]), *at = fb_emit_index(e, x->at, false);
    const fb_staged_dim *along = &x->dim[x->n - 1];
    if (x->chunk && along->step == 1)
        at = fb_arena_printf(e->arena, "%s - %s", at, lanes_start(l));
    else if (x->chunk)
        at = fb_arena_printf(e->arena, "%s - %" PRId64 " * %s", at, along->step, lanes_start(l));
    const char *stand_in = fb_arena_printf(e->arena, "%s[%s]", name, at);
    fb_section_needed(l->s, x->pass, needed);
    fb_emit_count_uses(e, needed, p.space, p.depth);
    fb_emit(e, "_Alignas(64) %s %s[%" PRId64 "];", fb_emit_type(e, x->value), name, x->elements);
    int outside = l->opened;
    for (int d = 0; d < x->n; d++) {
        const fb_staged_dim *dim = &x->dim[d];
        bool rows = dim->row != FB_NONE && dim->step == 1;
        fb_ix goes = rows ? dim->row : dim->point;
        if (d < x->n - 1) {
            fb_emit_for(e, NULL, var(l, goes), "0", fb_emit_number(e, dim->extent), NULL);
            l->opened++;
        } else if (l->opened == outside) {
            fb_emit_open(e, "%s", "");
            l->opened++;
        }
        if (dim->row != FB_NONE && dim->point != FB_NONE)
            fb_emit(e, "const int64_t %s = %s;", var(l, rows ? dim->point : dim->row),
                    !rows && d == x->n - 1 && x->chunk ? lanes_start(l) : "0");
    }
    fill_along(l, stand_in);
    close_to(l, outside);
    fb_emit_count_uses(e, NULL, FB_NONE, 0);
    e->whole[x->value] = stand_in;
}

static void lane_pass(loops *l, int number)
{
    enum { MOST = 32, FEWEST = 128 };
    fb_emitter *e = l->e;
    fb_pass p = l->s->passes[number];
    const fb_space *space = &l->s->spaces[p.space];
    bool *needed = FB_NEW_ARRAY(e->arena, bool, l->s->n_values);
    fb_section_needed(l->s, number, needed);
    fb_emit_count_uses(e, needed, p.space, p.depth);
    lane_accumulators(l, p, needed);
    const char *entry = fb_arena_printf(e->arena, "[%s]", l->lane), **plain;
    plain = FB_NEW_ARRAY(e->arena, const char *, l->s->n_values); /* what lanes' values are called outside of a lane */
    /* few chunks of long columns: threads share the passes, each with accumulators of its own */
    bool threads = l->x.inner && space->n && fb_space_points(space) >= 4096 && !in_order(l, p, needed) &&
                   l->x.threads != 1 && !l->x.inside;
    pass_parts parts = threads ? parts_of(l, p, MOST, FEWEST) : (pass_parts){0};
    int outside = open_lane_pass(l, p, needed, threads, parts);
    for (int i = 0; i < l->s->n_values; i++) {
        const fb_value *v = &l->s->values[i];
        plain[i] = e->names[i];
        if (v->kind == FB_VALUE_SCAN && v->over == p.space && needed[i])
            e->names[i] = fb_arena_printf(e->arena, "%s%s", e->names[i], entry);
    }
    lanes_of_pass(l, number, entry);
    close_to(l, outside);
    for (int i = 0; i < l->s->n_values; i++) e->names[i] = plain[i];
    if (parts.count) close_parts(l, p, parts, l->x.lanes);
    for (int i = 0; i < l->s->n_values; i++) {
        if (!fb_value_reduces(&l->s->values[i], p)) continue;
        const char *points = fb_emit_mean_points(l->e, i);
        if (points)
            fb_emit(e, "for (int64_t lane = 0; lane < %" PRId64 "; lane++) %s[lane] /= %s;", l->x.lanes, e->names[i],
                    points);
        e->whole[i] = fb_arena_printf(e->arena, "%s%s", e->names[i], entry);
    }
    fb_emit_count_uses(e, NULL, FB_NONE, 0);
}

static void emit_lanes(loops *l)
{
    const fb_space *rows = &l->s->rows;
    int n = rows->n;
    int64_t last = rows->extent[n - 1];
    const char *name = var(l, rows->var[n - 1]);
    l->lane = fb_arena_printf(l->e->arena, "%s - %s0", name, name);
    bool cut = l->x.lanes < last, staged = l->x.staged.value != FB_NONE;
    if (staged && !l->x.staged.before) emit_staged(l);
    if (!l->x.inner && l->x.together) pragma_parallel(l, collapse_words(l, l->x.together));
    for (int d = 0, at = 0; d < n; d++) {
        if (d == l->x.outside) {
            if (staged && at && l->x.staged.before == at) emit_staged(l);
            open_chunks(l, name, last, l->x.lanes);
            l->opened++;
            at++;
        }
        if (staged && at && l->x.staged.before == at) emit_staged(l);
        at++;
        if (d < n - 1) open_for(l, rows->var[d], rows->extent[d]);
    }
    if (cut && FB_MUTATE(44, last % l->x.lanes, false))
        fb_emit(l->e, "const int64_t lanes = %" PRId64 " - %s0 < %" PRId64 " ? %" PRId64 " - %s0 : %" PRId64 ";", last,
                name, l->x.lanes, last, name, l->x.lanes);
    else
        fb_emit(l->e, "const int64_t lanes = %" PRId64 ";", l->x.lanes);
    for (int depth = 0; depth <= fb_emit_deepest(l->s); depth++) {
        lane_roots(l, depth);
        for (int p = 0; p < l->s->n_passes; p++)
            if (l->s->passes[p].depth == depth) lane_pass(l, p);
    }
    close_to(l, 0);
}

/* Values that rows would keep in a row buffer are computed again in each pass across lanes. */
static fb_section without_kept(const loops *l)
{
    fb_section s = *l->s;
    s.values = fb_arena_copy(l->e->arena, s.values, (size_t)s.n_values * sizeof *s.values);
    for (int i = 0; i < s.n_values; i++) s.values[i].kept = false;
    return s;
}

/* ---- index_add ---- */

/* The row that is added to, as data: the root is stored at it. */
static void add_row(loops *l, bool half)
{
    fb_emitter *e = l->e;
    const fb_space *row = &l->s->rows;
    const fb_root *r = &l->s->roots[0];
    int outside = l->opened;
    for (int d = 0; d < row->n; d++) {
        if (d == row->n - 1) pragma_simd(l, "");
        open_for(l, row->var[d], row->extent[d]);
    }
    fb_emit_needed(e, r->value, l->s->values[r->value].space);
    const char *value = fb_emit_ref(e, r->value), *to = fb_emit_element(e, r->storage, FB_NONE, r->at);
    if (half) {
        fb_ix at = fb_ix_ravel(e->nest->pool, row->n, row->extent, row->var);
        to = fb_arena_printf(e->arena, "sums[%s]", fb_emit_index(e, at, false));
    }
    fb_emit_add(e, l->s->values[r->value].dtype, to, value);
    close_to(l, outside);
}

/* Of an index that is read: are any of a block's points of the rows that are asked for? Most have none where the index
 * names few of many points, as that of the first places of a row does. */
static void pass_over_block(loops *l, fb_val index, const char *point, const char *first, const char *last,
                            const char *from, const char *to)
{
    fb_emitter *e = l->e;
    bool *mark = fb_emit_mark(e);
    fb_emit(e, "int64_t fb_any = 0;");
    pragma_simd(l, " reduction(+ : fb_any)");
    fb_emit_for(e, NULL, point, from, to, NULL);
    fb_emit_needed(e, index, l->s->values[index].space);
    const char *row = fb_emit_ref(e, index);
    fb_emit(e, "fb_any += (%s >= %s) & (%s < %s);", row, first, row, last);
    fb_emit_close(e);
    fb_emit_forget(e, mark);
    fb_emit(e, "if (!fb_any) continue;");
}

enum { INDEX_BLOCK = 64 };

/* Is the index a load, of points enough for blocks, along one variable? */
static bool goes_by_blocks(const loops *l, fb_val index, const fb_space *space)
{
    const fb_value *v = &l->s->values[index];
    return v->kind == FB_VALUE_LOAD && v->when == FB_NONE && space->n && space->extent[space->n - 1] >= 8 * INDEX_BLOCK;
}

/* Opens loops over blocks of the last variable, whose points are those from …0 to fb_end - 1. */
static void open_blocks(loops *l, fb_val index, const char *point, int64_t extent, const char *first, const char *last)
{
    const char *start = chunk_start(l, point);
    open_chunks(l, point, extent, INDEX_BLOCK);
    fb_emit(l->e, "const int64_t fb_end = %s + %d < %" PRId64 " ? %s + %d : %" PRId64 ";", start, INDEX_BLOCK, extent,
            start, INDEX_BLOCK, extent);
    pass_over_block(l, index, point, first, last, start, "fb_end");
    fb_emit_for(l->e, NULL, point, start, "fb_end", NULL);
}

/* Threads own ranges of the result's rows and each goes through the whole index, so that no two add to one row and the
 * order of additions is the index's. Sixteen-bit sums need a wider accumulator: theirs go row by row. */
static void emit_scatter(loops *l)
{
    fb_emitter *e = l->e;
    const fb_section *s = l->s;
    const fb_node *n = &e->nest->graph->nodes[s->roots[0].node];
    const fb_data_var *row = fb_emit_added_row(l->e->nest->pool, l->s);
    const fb_space *space = s->n_spaces ? &s->spaces[0] : &(fb_space){0};
    int64_t rows = n->shape.dim[0], size = fb_space_points(&s->rows);
    bool half = fb_dtype_is_half(n->dtype);
    int64_t owners = l->x.owners;
    const char *out = fb_emit_storage(e, s->roots[0].storage);
    pragma_parallel(l, "");
    fb_emit_for(e, NULL, "owner", "0", fb_emit_number(e, owners), NULL);
    fb_emit(e,
            "const int64_t first = owner * %" PRId64 " / %" PRId64 ", last = (owner + 1) * %" PRId64 " / %" PRId64 ";",
            rows, owners, rows, owners);
    if (half)
        fb_emit(e, "_Alignas(64) float sums[%" PRId64 "] = {0};", size);
    else
        fb_emit(e, "for (int64_t at = first * %" PRId64 "; at < last * %" PRId64 "; at++) %s[at] = 0;", size, size,
                out);
    bool blocks = goes_by_blocks(l, row->value, space);
    for (int d = 0; d < space->n - blocks; d++) open_for(l, space->var[d], space->extent[d]);
    if (blocks)
        open_blocks(l, row->value, var(l, space->var[space->n - 1]), space->extent[space->n - 1], "first", "last");
    fb_emit_needed(e, row->value, s->values[row->value].space);
    fb_emit_if(e, FB_MUTATE(45, "%s >= first && %s < last", "%s >= first && %s <= last"), row->name, row->name);
    add_row(l, half);
    fb_emit_close(e);
    if (blocks) l->opened += 2;
    close_to(l, 0);
    if (half) {
        const char *sum = "sums[at]";
        fb_emit(e, "for (int64_t at = 0; at < %" PRId64 "; at++) %s[owner * %" PRId64 " + at] = %s;", size, out, size,
                fb_emit_spell(e, e->spell->type[n->dtype].to, &sum, 1));
    }
    fb_emit_close(e);
}

/* ---- index_add with what is made of it ---- */

/* Where a point of the index is. */
static void declare_point(loops *l, const fb_space *space, const char *point)
{
    int64_t below = 1;
    for (int d = space->n - 1; d >= 0; d--) {
        const char *at = below > 1 ? fb_arena_printf(l->e->arena, "%s / %" PRId64, point, below) : point;
        if (d > 0) at = fb_arena_printf(l->e->arena, "%s %% %" PRId64, at, space->extent[d]);
        fb_emit(l->e, "const int64_t %s = %s;", var(l, space->var[d]), at);
        below *= space->extent[d];
    }
}

/* Loops over the elements of a row. */
static void open_within(loops *l, const fb_added *a)
{
    const fb_space *rows = &l->s->rows;
    for (int d = a->row + 1; d < rows->n; d++) {
        if (d == rows->n - 1) pragma_simd(l, "");
        open_for(l, rows->var[d], rows->extent[d]);
    }
}

static const char *sum_within(loops *l, const fb_added *a)
{
    const fb_space *rows = &l->s->rows;
    int first = a->row + 1;
    fb_ix at = fb_ix_ravel(l->e->nest->pool, rows->n - first, rows->extent + first, rows->var + first);
    return fb_arena_printf(l->e->arena, "sums[%s]", fb_emit_index(l->e, at, false));
}

/* Points of rows low … next - 1, as many as there is room for, sorted by row and place; fewer rows when they are more.
 * The next ones begin with twice as many as there was room for. */
static void collect_points(loops *l, const fb_added *a, fb_val index, const fb_space *space, int64_t room)
{
    fb_emitter *e = l->e;
    bool *mark = fb_emit_mark(e), blocks = space->n == 1 && goes_by_blocks(l, index, space);
    const char *point = blocks ? var(l, space->var[0]) : "fb_point";
    fb_emit(e, "int64_t fb_n;");
    fb_emit_open(e, "for (fb_next = last - fb_low < fb_span ? last : fb_low + fb_span;; fb_next = fb_low + (fb_next - "
                    "fb_low) / 2)");
    fb_emit(e, "fb_n = 0;");
    if (blocks) {
        open_blocks(l, index, point, a->points, "fb_low", "fb_next");
    } else {
        fb_emit_for(e, NULL, point, "0", fb_emit_number(e, a->points), NULL);
        declare_point(l, space, point);
    }
    fb_emit_needed(e, index, l->s->values[index].space);
    const char *row = fb_emit_ref(e, index);
    const char *is = fb_arena_printf(
        e->arena, FB_MUTATE(45, "%s >= fb_low && %s < fb_next", "%s >= fb_low && %s <= fb_next"), row, row);
    const char *word = fb_arena_printf(e->arena, "(uint64_t)(%s - fb_low) << 32 | (uint64_t)%s", row, point);
    if (blocks) { /* without a branch, of which a processor would guess every other one wrong */
        fb_emit(e, "fb_keys[fb_n] = %s;", word);
        fb_emit(e, "fb_n += %s;", is);
        fb_emit_close(e);
    } else {
        fb_emit_if(e, "%s", is);
        fb_emit(e, "fb_keys[fb_n++] = %s;", word);
        fb_emit_close(e);
    }
    fb_emit(e, "if (fb_n > %" PRId64 ") break;", room);
    fb_emit_close(e);
    fb_emit(e, "if (fb_n <= %" PRId64 " || fb_next - fb_low == 1) break;", room);
    fb_emit_close(e);
    fb_emit_forget(e, mark);
    fb_emit(e, "fb_span = 2 * (fb_next - fb_low);");
    fb_emit(e, "const bool fb_listed = fb_n <= %" PRId64 ";", room);
    fb_say_beside(e->to, "else they are all of one row");
    fb_emit(e, "if (fb_listed) fb_sort_points(fb_keys, fb_n, fb_room);");
}

/* The sum of one row, in the order of the index. */
static void sum_points(loops *l, const fb_added *a, const fb_space *space)
{
    fb_emitter *e = l->e;
    const fb_value *sum = &l->s->values[a->sum];
    bool *mark = fb_emit_mark(e);
    fb_emit(e, "%s sums[%" PRId64 "] = {0};", e->spell->type[sum->dtype].value, a->width);
    fb_emit_open(e, "for (; at < (fb_listed ? fb_n : %" PRId64 "); at++)", a->points);
    fb_emit(e, "if (fb_listed && fb_low + (int64_t)(fb_keys[at] >> 32) != fb_row) break;");
    fb_emit(e, "const int64_t fb_point = fb_listed ? (int64_t)(fb_keys[at] & UINT32_MAX) : at;");
    declare_point(l, space, "fb_point");
    fb_emit_needed(e, sum->args[1], l->s->values[sum->args[1]].space);
    fb_emit(e, "if (%s != fb_row) continue;", fb_emit_ref(e, sum->args[1]));
    int outside = l->opened;
    open_within(l, a);
    fb_emit_needed(e, sum->args[0], l->s->values[sum->args[0]].space);
    const char *to = sum_within(l, a), *value = fb_emit_ref(e, sum->args[0]);
    fb_emit_add(e, sum->dtype, to, value);
    close_to(l, outside);
    fb_emit_close(e);
    fb_emit_forget(e, mark);
}

/* Threads own ranges of rows, as above. Each sorts the points of its own rows, so that a row is summed before anything
 * is made of it; rows that nobody names are passed over where they stay as they are. */
static void emit_added(loops *l, const fb_added *a)
{
    enum { ROOM = 1 << 14 };
    fb_emitter *e = l->e;
    const fb_section *s = l->s;
    const fb_value *sum = &s->values[a->sum];
    const int64_t room = a->points < 1 ? 1 : a->points < ROOM ? a->points : ROOM;
    const fb_space *space = &s->spaces[sum->over];
    int64_t owners = l->x.owners;
    bool *mark = fb_emit_mark(e);
    pragma_parallel(l, "");
    fb_emit_for(e, NULL, "owner", "0", fb_emit_number(e, owners * s->members), NULL);
    fb_emit(e, "uint64_t fb_keys[%" PRId64 "], fb_room[%" PRId64 "];", room + INDEX_BLOCK, room);
    if (s->members > 1) fb_emit(e, "const int64_t %s = owner / %" PRId64 ";", var(l, s->rows.var[0]), owners);
    fb_emit(e, "const int64_t fb_part = owner%s;",
            s->members > 1 ? fb_arena_printf(e->arena, " %% %" PRId64, owners) : "");
    fb_emit(e, "const int64_t first = fb_part * %" PRId64 " / %" PRId64 ";", a->rows, owners);
    fb_emit(e, "const int64_t last = (fb_part + 1) * %" PRId64 " / %" PRId64 ";", a->rows, owners);
    fb_emit_open(e, "for (int64_t fb_low = first, fb_next, fb_span = last - first; fb_low < last; fb_low = fb_next)");
    collect_points(l, a, sum->args[1], space, room);
    fb_emit_open(e, "for (int64_t fb_row = fb_low, at = 0; fb_row < fb_next%s; fb_row++)",
                 a->spares ? " && at < fb_n" : "");
    if (a->spares) {
        fb_emit(e, "if (fb_listed) fb_row = fb_low + (int64_t)(fb_keys[at] >> 32);");
        fb_say_beside(e->to, "the next that is named");
    }
    sum_points(l, a, space);
    fb_emit(e, "const int64_t %s = fb_row;", var(l, s->rows.var[a->row]));
    open_within(l, a);
    fb_emit(e, "const %s %s = %s;", e->spell->type[sum->dtype].value, e->names[a->sum], sum_within(l, a));
    e->known[a->sum] = true;
    fb_emit_as_index(e, a->sum);
    for (int i = 0; i < s->n_roots; i++) fb_emit_store(e, &s->roots[i]);
    close_to(l, 0);
    fb_emit_close(e);
    fb_emit_close(e);
    fb_emit_close(e);
    fb_emit_forget(e, mark);
}

/* ---- the section ---- */

static void emit_section_c(fb_emitter *e)
{
    loops l = {.e = e, .s = e->section, .x = fb_schedule_loops(e->nest, e->knobs, e->section)};
    l.declared = FB_NEW_ARRAY(e->arena, bool, e->section->n_values);
    l.turned = FB_NEW_ARRAY(e->arena, const char *, e->section->n_values);
    const fb_section *s = e->section;
    fb_section plain;
    if (s->scatter) {
        emit_scatter(&l);
        return;
    }
    fb_added added;
    if (fb_section_adds(e->nest, s, &added)) {
        emit_added(&l, &added);
        return;
    }
    switch (l.x.shape) {
    case FB_LOOPS_ELEMENTS: emit_elements(&l); break;
    case FB_LOOPS_LANES:
        plain = without_kept(&l);
        l.s = e->section = &plain;
        emit_lanes(&l);
        e->section = s;
        break;
    default: emit_rows(&l);
    }
}

const fb_printer fb_printer_c = {
    .open = open_kernel,
    .head = print_head,
    .section = {[FB_FAMILY_POINTWISE] = emit_section_c,
                [FB_FAMILY_REDUCE] = emit_section_c,
                [FB_FAMILY_LIBRARY] = emit_section_c,
                [FB_FAMILY_CHAIN] = emit_section_c,
                [FB_FAMILY_COPY] = emit_section_c},
    .whole = {[FB_FAMILY_CHAIN] = fb_emit_chain_c},
};
