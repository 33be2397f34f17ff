/* A loop's body in CUDA whose threads go through all steps by themselves.
 *
 * requires  a section that is dealt so (schedule/through.h), in a stage whose last argument is how many steps there are
 * provides  its statements:
 *
 *     what no step changes, and the states → registers
 *     items of the first steps → registers
 *     loop over groups of steps
 *         items of the next group, whose loads are on their way meanwhile
 *         steps of this group: elements, sums across lanes, stores of what is stacked; next states
 *     states → memory
 *
 * What a step stores in memory as it stores it, rounded, it hands on so in registers. */
#include "code/emit_cuda_parts.h"

#include "schedule/through.h"

#include <inttypes.h>

typedef struct {
    fb_emitter *e;
    const fb_section *s;
    const fb_section_schedule *x;
    const fb_through *t;
    fb_ix *first;       /* a space, and the rows behind them all: its last variable at the thread's first element */
    const char *here;   /* what must hold for this lane to have elements; NULL: each has */
    const char *inside; /* … for this thread's row to be one of its own; NULL: it is */
    int opened;         /* blocks of text around all of it */
} writer;

static fb_ix first_of(const writer *w, int space)
{
    return w->first[space == FB_NONE ? w->s->n_spaces : space];
}

static const fb_space *space_of(const writer *w, int space)
{
    return space == FB_NONE ? &w->s->rows : &w->s->spaces[space];
}

static const char *var_name(const writer *w, fb_ix v)
{
    return fb_ix_var_name(w->e->nest->pool, v);
}

static fb_emit_arg *arg_of(const writer *w, fb_id storage)
{
    for (int i = 0; i < w->e->n_args; i++)
        if (w->e->args[i].storage == storage) return &w->e->args[i];
    return NULL;
}

static const char *memory_type(const writer *w, fb_id storage)
{
    return w->e->spell->type[arg_of(w, storage)->dtype].memory;
}

/* ---- what is in registers ---- */

/* The root whose element a step leaves to the next, and this value is; FB_NONE: it is none. */
static int state_of(const writer *w, const fb_value *v)
{
    for (int i = 0; v->kind == FB_VALUE_LOAD && i < w->s->n_roots; i++)
        if (w->s->roots[i].storage == v->node && !fb_nest_moved(w->t, v->node)) return i;
    return FB_NONE;
}

static bool is_state(const writer *w, const fb_root *r)
{
    return !fb_nest_moved(w->t, r->storage);
}

static bool is_item(const writer *w, const fb_value *v)
{
    return v->kind == FB_VALUE_LOAD && fb_nest_moved(w->t, v->node);
}

/* Of a root: is there one for each of the thread's elements? */
static bool is_wide(const writer *w, const fb_root *r)
{
    return !w->s->n_passes || r->space != FB_NONE;
}

static int width(const writer *w, bool wide)
{
    return wide ? w->x->each : 1;
}

static const char *pack_of(const writer *w, fb_val v)
{
    return fb_arena_printf(w->e->arena, "fb_%s", w->e->names[v]);
}

static const char *numbered(const writer *w, const char *what, int number)
{
    return fb_arena_printf(w->e->arena, "fb_%s%d", what, number);
}

/* Which of a pack's elements is meant inside of a loop over them. */
static const char *element_of(const writer *w, const char *pack, bool wide)
{
    return fb_arena_printf(w->e->arena, "%s.at[%s]", pack, width(w, wide) > 1 ? "v" : "0");
}

/* ---- the thread's elements ---- */

/* Opens them, one after the other; returns how many blocks of text were opened. */
static int open_elements(const writer *w, int space)
{
    const fb_space *x = space_of(w, space);
    if (w->x->each == 1) return 0;
    const fb_ix last = x->var[x->n - 1];
    fb_emit_unrolled(w->e, "v", fb_emit_number(w->e, w->x->each));
    fb_emit(w->e, "const fb_at %s = %s + v;", var_name(w, last), var_name(w, first_of(w, space)));
    return 1;
}

static void close_all(const writer *w, int opened)
{
    while (opened--) fb_emit_close(w->e);
}

static int open_if(const writer *w, const char *condition)
{
    if (condition) fb_emit_if(w->e, "%s", condition);
    return condition != NULL;
}

static const char *both(const writer *w, const char *a, const char *b)
{
    return a && b ? fb_arena_printf(w->e->arena, "%s && %s", a, b) : a ? a : b;
}

static const char *at_first(const writer *w, int space, fb_id storage, fb_ix at)
{
    const fb_space *x = space_of(w, space);
    if (w->x->each > 1) at = fb_ix_substitute(w->e->nest->pool, at, x->var[x->n - 1], first_of(w, space));
    return fb_emit_element(w->e, storage, FB_NONE, at);
}

static fb_ix last_of(const writer *w, int space)
{
    const fb_space *x = space_of(w, space);
    return x->n ? x->var[x->n - 1] : FB_NONE;
}

/* Where a value's elements lie: those of the rows, if none of a space. */
static int walked(const writer *w, const fb_value *v)
{
    return w->s->n_passes ? v->space : FB_NONE;
}

/* Loads value v, or what is in its place, into a pack. */
static void load(const writer *w, const char *pack, const fb_value *v)
{
    fb_emitter *e = w->e;
    const bool wide = fb_through_varies(w->s, v);
    const int space = walked(w, v), n = width(w, wide);
    const char *tests = fb_emit_tests(e, v->when);
    if (wide && n > 1 && fb_packs_load(e->nest, w->s, v, last_of(w, space), n)) {
        int opened = open_if(w, w->here);
        fb_emit(e, "%s = fb_load<%d>(&%s);", pack, n, at_first(w, space, v->node, v->at));
        close_all(w, opened);
        return;
    }
    int opened = open_if(w, wide ? w->here : NULL);
    if (wide) opened += open_elements(w, space);
    opened += open_if(w, tests);
    fb_emit(e, "%s = %s;", element_of(w, pack, wide), fb_emit_element(e, v->node, FB_NONE, v->at));
    close_all(w, opened);
}

/* The same number for all elements. */
static void start_root(const writer *w, const char *pack, const fb_root *r, double number)
{
    fb_emitter *e = w->e;
    const fb_dtype dtype = arg_of(w, r->storage)->dtype;
    const char *value = fb_emit_literal(e, dtype, number);
    const bool wide = is_wide(w, r), several = width(w, wide) > 1;
    if (several) fb_emit_unrolled(e, "v", fb_emit_number(e, width(w, wide)));
    fb_emit(e, "%s = %s;", element_of(w, pack, wide), fb_emit_spell(e, e->spell->type[dtype].to, &value, 1));
    if (several) fb_emit_close(e);
}

static void load_root(const writer *w, const char *pack, const fb_root *r)
{
    fb_emitter *e = w->e;
    const bool wide = is_wide(w, r);
    const int n = width(w, wide);
    const fb_start *start = fb_nest_start(w->t, r->storage);
    if (start) {
        start_root(w, pack, r, start->value);
        return;
    }
    int opened = open_if(w, both(w, wide ? w->here : NULL, w->inside)); /* the row's own thread may be done with it */
    if (wide && n > 1 && fb_packs_root(e->nest, w->s, r, last_of(w, r->space), n)) {
        fb_emit(e, "%s = fb_load<%d>(&%s);", pack, n, at_first(w, r->space, r->storage, r->at));
    } else {
        if (wide) opened += open_elements(w, r->space);
        fb_emit(e, "%s = %s;", element_of(w, pack, wide), fb_emit_element(e, r->storage, FB_NONE, r->at));
    }
    close_all(w, opened);
}

/* One of a team stores what there is once a row. */
static void store_root(const writer *w, const char *pack, const fb_root *r)
{
    fb_emitter *e = w->e;
    const bool wide = is_wide(w, r);
    const int n = width(w, wide);
    const char *one = wide ? w->here : w->x->team > 1 ? "fb_lane == 0" : NULL;
    int opened = open_if(w, both(w, one, w->inside));
    if (wide && n > 1 && fb_packs_root(e->nest, w->s, r, last_of(w, r->space), n)) {
        fb_emit(e, "fb_store(&%s, %s);", at_first(w, r->space, r->storage, r->at), pack);
    } else {
        if (wide) opened += open_elements(w, r->space);
        fb_emit(e, "%s = %s;", fb_emit_element(e, r->storage, FB_NONE, r->at), element_of(w, pack, wide));
    }
    close_all(w, opened);
}

/* ---- items ---- */

static bool has_items(const writer *w)
{
    bool any = false;
    for (int i = 0; i < w->s->n_values; i++) any |= is_item(w, &w->s->values[i]);
    return any;
}

static void declare_items(const writer *w, const char *suffix)
{
    for (int i = 0; i < w->s->n_values; i++) {
        const fb_value *v = &w->s->values[i];
        if (is_item(w, v))
            fb_emit(w->e, "fb_pack<%s, %d> %s%s[%d] = {};", memory_type(w, v->node),
                    width(w, fb_through_varies(w->s, v)), pack_of(w, i), suffix, w->x->steps_ahead);
    }
}

/* Those of a group of steps, where `there` holds; then the pointers are at the next group's. */
static void load_items(const writer *w, const char *there, const char *suffix)
{
    fb_emitter *e = w->e;
    fb_emit_unrolled(e, "fb_u", fb_emit_number(e, w->x->steps_ahead));
    fb_emit_if(e, "%s", there);
    for (int a = 0; a < e->n_args; a++) {
        fb_emit_arg *arg = &e->args[a];
        const fb_moved *m = fb_nest_moved(w->t, arg->storage);
        const char *name = arg->name;
        if (!m || arg->written) continue;
        bool any = false;
        for (int i = 0; i < w->s->n_values; i++) {
            const fb_value *v = &w->s->values[i];
            if (!is_item(w, v) || v->node != arg->storage) continue;
            if (!any)
                fb_emit(e, "const %s *const fb_%s_from = %s + (int64_t)fb_u * %" PRId64 ";",
                        memory_type(w, arg->storage), name, name, m->stride);
            any = true;
            arg->name = fb_arena_printf(e->arena, "fb_%s_from", name);
            load(w, fb_arena_printf(e->arena, "%s%s[fb_u]", pack_of(w, i), suffix), v);
            arg->name = name;
        }
    }
    fb_emit_close(e);
    fb_emit_close(e);
}

/* To the items of the next group. */
static void pass_items(const writer *w)
{
    fb_emitter *e = w->e;
    for (int a = 0; a < e->n_args; a++) {
        const fb_moved *m = fb_nest_moved(w->t, e->args[a].storage);
        bool any = false;
        for (int i = 0; i < w->s->n_values; i++)
            any |= is_item(w, &w->s->values[i]) && w->s->values[i].node == e->args[a].storage;
        if (m && any) fb_emit(e, "%s += %" PRId64 ";", e->args[a].name, m->stride * w->x->steps_ahead);
    }
}

static void take_next(const writer *w)
{
    fb_emit_unrolled(w->e, "fb_u", fb_emit_number(w->e, w->x->steps_ahead));
    for (int i = 0; i < w->s->n_values; i++)
        if (is_item(w, &w->s->values[i])) fb_emit(w->e, "%s[fb_u] = %s_next[fb_u];", pack_of(w, i), pack_of(w, i));
    fb_emit_close(w->e);
}

/* ---- before the steps ---- */

static void declare_places(writer *w, const char *block)
{
    fb_emitter *e = w->e;
    const fb_section *s = w->s;
    w->first = FB_NEW_ARRAY(e->arena, fb_ix, s->n_spaces + 1);
    const char *row = fb_emit_name(e, s->n_passes ? "row" : "point");
    const bool ragged = w->x->rows % w->x->rows_a_block != 0;
    const char *within = "threadIdx.x";
    if (w->x->team > 1) {
        fb_emit(e, "const int fb_lane = threadIdx.x %% %d;", w->x->team);
        within = fb_arena_printf(e->arena, "threadIdx.x / %d", w->x->team);
    }
    const char *at = fb_arena_printf(e->arena, "(fb_at)%s * %" PRId64 " + %s", block, w->x->rows_a_block, within);
    if (ragged && w->x->team == 1) {
        fb_emit(e, "const fb_at %s = %s;", row, at);
        fb_emit_if(e, "%s < %" PRId64, row, w->x->rows);
        w->opened = 1;
    } else if (ragged) { /* threads past the last row work on it again, for lanes meet, and leave nothing */
        w->inside = "fb_inside";
        fb_emit(e, "const fb_at fb_any = %s;", at);
        fb_emit(e, "const bool fb_inside = fb_any < %" PRId64 ";", w->x->rows);
        fb_emit(e, "const fb_at %s = fb_inside ? fb_any : %" PRId64 ";", row, w->x->rows - 1);
    } else if (s->rows.n) {
        fb_emit(e, "const fb_at %s = %s;", row, at);
    }
    if (!s->n_passes) {
        w->first[s->n_spaces] = fb_emit_cuda_group(e, &s->rows, w->x->each, row);
        return;
    }
    fb_emit_cuda_variables(e, &s->rows, row);
    const int64_t groups = s->spaces[fb_through_space(s)].extent[0] / w->x->each;
    if (groups < w->x->team) {
        w->here = "fb_here";
        fb_emit(e, "const bool fb_here = fb_lane < %" PRId64 ";", groups);
    }
    for (int p = 0; p < s->n_passes; p++) {
        const int space = s->passes[p].space;
        bool seen = false;
        for (int k = 0; k < p; k++) seen |= s->passes[k].space == space;
        if (!seen)
            w->first[space] = fb_emit_cuda_group(e, &s->spaces[space], w->x->each, w->x->team > 1 ? "fb_lane" : "0");
    }
}

/* What no step changes is loaded once, and so are the states. */
static void load_before(const writer *w)
{
    fb_emitter *e = w->e;
    for (int i = 0; i < w->s->n_values; i++) {
        const fb_value *v = &w->s->values[i];
        if (v->kind != FB_VALUE_LOAD || is_item(w, v) || state_of(w, v) != FB_NONE) continue;
        fb_emit(e, "fb_pack<%s, %d> %s = {};", memory_type(w, v->node), width(w, fb_through_varies(w->s, v)),
                pack_of(w, i));
        load(w, pack_of(w, i), v);
    }
    for (int i = 0; i < w->s->n_roots; i++) {
        const fb_root *r = &w->s->roots[i];
        if (!is_state(w, r)) continue;
        fb_emit(e, "fb_pack<%s, %d> %s = {};", memory_type(w, r->storage), width(w, is_wide(w, r)),
                numbered(w, "state", i));
        load_root(w, numbered(w, "state", i), r);
    }
}

/* How loads are written down in a step. */
static void refer(const writer *w)
{
    fb_emitter *e = w->e;
    for (int i = 0; i < w->s->n_values; i++) {
        const fb_value *v = &w->s->values[i];
        if (v->kind != FB_VALUE_LOAD) continue;
        const int state = state_of(w, v);
        const char *pack = state != FB_NONE ? numbered(w, "state", state)
                           : is_item(w, v)  ? fb_arena_printf(e->arena, "%s[fb_u]", pack_of(w, i))
                                            : pack_of(w, i);
        const char *element = element_of(w, pack, fb_through_varies(w->s, v));
        e->whole[i] = fb_emit_spell(e, e->spell->type[v->dtype].from, &element, 1);
    }
}

/* ---- a step ---- */

/* Of roots there is what is to be stored, and what becomes a state when all of the step has seen the one before. */
static void declare_made(const writer *w)
{
    for (int i = 0; i < w->s->n_roots; i++) {
        const fb_root *r = &w->s->roots[i];
        fb_emit(w->e, "fb_pack<%s, %d> %s = {};", memory_type(w, r->storage), width(w, is_wide(w, r)),
                numbered(w, "out", i));
    }
}

/* How what a step hands on is rounded. From memory it would come as it was stored; in a register a product may be taken
 * unrounded into a sum of the next step, and all that one step leaves would be off by that where the sum cancels. */
typedef enum {
    ROUNDED,    /* it is */
    BY_PRODUCT, /* it is a product, which no sum takes in then */
    BY_ONE,     /* it may end in one: times a number that compilers do not know to be 1 */
} rounding;

static rounding rounding_of(const writer *w, const fb_root *r)
{
    const fb_value *v = &w->s->values[r->value];
    const fb_dtype dtype = arg_of(w, r->storage)->dtype;
    const fb_graph *g = w->e->nest->graph;
    if (!is_state(w, r) || (dtype != FB_F32 && dtype != FB_F64) || v->dtype != dtype) return ROUNDED;
    if (v->kind == FB_VALUE_REDUCE && g->nodes[v->node].op != FB_OP_PROD) return ROUNDED;
    if (v->kind == FB_VALUE_OP) {
        const fb_op op = g->nodes[v->node].op;
        return op == FB_OP_ADD || op == FB_OP_SUB ? ROUNDED : op == FB_OP_MUL ? BY_PRODUCT : BY_ONE;
    }
    return v->kind == FB_VALUE_SELECT || v->kind == FB_VALUE_FOLD || v->kind == FB_VALUE_REDUCE ? BY_ONE : ROUNDED;
}

static void find_roundings(const writer *w)
{
    bool *unfused = FB_NEW_ARRAY(w->e->arena, bool, w->s->n_values), one = false;
    for (int i = 0; i < w->s->n_roots; i++) {
        const rounding x = rounding_of(w, &w->s->roots[i]);
        if (x == BY_PRODUCT) unfused[w->s->roots[i].value] = true;
        one |= x == BY_ONE;
    }
    w->e->unfused = unfused;
    if (one) fb_emit(w->e, "const float fb_one = 1 + threadIdx.y;");
}

static void make_root(const writer *w, int number)
{
    fb_emitter *e = w->e;
    const fb_root *r = &w->s->roots[number];
    fb_emit_needed(e, r->value, r->space);
    const char *value = fb_emit_ref(e, r->value);
    if (rounding_of(w, r) == BY_ONE)
        value = fb_arena_printf(e->arena, "fb_product%s(%s, fb_one)", arg_of(w, r->storage)->dtype == FB_F64 ? "" : "f",
                                value);
    value = fb_emit_spell(e, e->spell->type[arg_of(w, r->storage)->dtype].to, &value, 1);
    fb_emit(e, "%s = %s;", element_of(w, numbered(w, "out", number), is_wide(w, r)), value);
}

/* Without reductions: all of it. */
static void make_elements(const writer *w)
{
    fb_emitter *e = w->e;
    for (int i = 0; w->x->each > 1 && i < w->s->n_values; i++)
        if (!fb_through_varies(w->s, &w->s->values[i])) fb_emit_needed(e, i, FB_NONE);
    bool *mark = fb_emit_mark(e);
    int opened = open_elements(w, FB_NONE);
    for (int i = 0; i < w->s->n_roots; i++) make_root(w, i);
    close_all(w, opened);
    fb_emit_forget(e, mark);
}

static void make_pass(const writer *w, int number)
{
    fb_emitter *e = w->e;
    const fb_section *s = w->s;
    const fb_pass p = s->passes[number];
    bool *needed = FB_NEW_ARRAY(e->arena, bool, s->n_values);
    fb_section_needed(s, number, needed);
    fb_emit_row_values(e, needed);
    fb_emit_cuda_begin_sums(e, p);
    bool *mark = fb_emit_mark(e);
    int opened = open_if(w, w->here);
    opened += open_elements(w, p.space);
    if (!opened) fb_emit_open(e, "%s", ""); /* the next pass may name the same values */
    opened += !opened;
    for (int i = 0; i < s->n_values; i++)
        if (needed[i] && s->values[i].space == p.space) fb_emit_needed(e, i, p.space);
    fb_emit_cuda_add_up(e, p);
    for (int i = 0; i < s->n_roots; i++)
        if (s->roots[i].space == p.space && s->roots[i].depth == p.depth) make_root(w, i);
    close_all(w, opened);
    fb_emit_forget(e, mark);
    fb_emit_cuda_end_sums(e, p, w->x->team);
}

static void make_rows(const writer *w)
{
    for (int depth = 0; depth <= fb_emit_deepest(w->s); depth++) {
        for (int i = 0; i < w->s->n_roots; i++)
            if (w->s->roots[i].space == FB_NONE && w->s->roots[i].depth == depth) make_root(w, i);
        for (int p = 0; p < w->s->n_passes; p++)
            if (w->s->passes[p].depth == depth) make_pass(w, p);
    }
}

/* A stacked value goes to where this step's is: of each it is so far from where the group's first is. */
static void stack(const writer *w, int number)
{
    fb_emitter *e = w->e;
    const fb_root *r = &w->s->roots[number];
    const fb_moved *m = fb_nest_moved(w->t, r->storage);
    fb_emit_arg *arg = arg_of(w, r->storage);
    const char *name = arg->name;
    if (m->every == 1) {
        arg->name = fb_arena_printf(e->arena, "fb_%s_to", name);
        fb_emit(e, "%s *const %s = %s + (int64_t)fb_u * %" PRId64 ";", memory_type(w, r->storage), arg->name, name,
                m->stride);
    }
    store_root(w, numbered(w, "out", number), r);
    arg->name = name;
    if (m->every > 1)
        fb_emit(e, "if ((fb_step + fb_u + 1) %% %" PRId64 " == 0) %s += %" PRId64 ";", m->every, name, m->stride);
}

/* Stacked values go to memory, and states are handed on. */
static void leave_step(const writer *w)
{
    for (int i = 0; i < w->s->n_roots; i++) {
        if (is_state(w, &w->s->roots[i]))
            fb_emit(w->e, "%s = %s;", numbered(w, "state", i), numbered(w, "out", i));
        else
            stack(w, i);
    }
}

/* To where the next group's steps are stacked. */
static void move_on(const writer *w)
{
    for (int i = 0; i < w->s->n_roots; i++) {
        const fb_moved *m = fb_nest_moved(w->t, w->s->roots[i].storage);
        if (m && m->every == 1)
            fb_emit(w->e, "%s += %" PRId64 ";", fb_emit_storage(w->e, w->s->roots[i].storage),
                    m->stride * w->x->steps_ahead);
    }
}

/* The steps of a group: all there are, or as many as are left. */
static void make_steps(const writer *w, const char *there)
{
    fb_emit_unrolled(w->e, "fb_u", fb_emit_number(w->e, w->x->steps_ahead));
    fb_emit_if(w->e, "%s", there);
    declare_made(w);
    if (w->s->n_passes)
        make_rows(w);
    else
        make_elements(w);
    leave_step(w);
    fb_emit_close(w->e);
    fb_emit_close(w->e);
}

static void load_first(const writer *w)
{
    declare_items(w, "");
    load_items(w, "fb_u < fb_steps", "");
    pass_items(w);
}

static void load_next(const writer *w, const char *there)
{
    load_items(w, there, "_next");
}

/* What is done for each step of a group: where all are there, without a test each, so that one's work is among another's. */
static void by_group(const writer *w, const char *name, const char *first, void (*each)(const writer *, const char *))
{
    fb_emitter *e = w->e;
    const char *there = fb_arena_printf(e->arena, "%s + fb_u < fb_steps", first);
    if (w->x->steps_ahead == 1) {
        each(w, there);
        return;
    }
    fb_emit_open(e, "const auto %s = [&](auto fb_whole)", name);
    each(w, fb_arena_printf(e->arena, "fb_whole.is || %s", there));
    fb_emit_close_by(e, "};");
    fb_emit(e, "if (%s + %d <= fb_steps)", first, w->x->steps_ahead);
    fb_emit(e, "    %s(fb_all_of_it{});", name);
    fb_emit(e, "else");
    fb_emit(e, "    %s(fb_part_of_it{});", name);
}

void fb_emit_cuda_through(fb_emitter *e, const fb_section_schedule *x, const char *block)
{
    writer w = {.e = e, .s = e->section, .x = x, .t = e->nest->through};
    const bool items = has_items(&w);
    if (x->steps_ahead > 1) {
        fb_emit(e, "struct fb_all_of_it { enum { is = 1 }; };");
        fb_emit(e, "struct fb_part_of_it { enum { is = 0 }; };");
    }
    declare_places(&w, block);
    load_before(&w);
    if (items) load_first(&w);
    refer(&w);
    find_roundings(&w);
    bool *mark = fb_emit_mark(e);
    fb_emit_for(e, "int", "fb_step", "0", "fb_steps", fb_emit_number(e, x->steps_ahead));
    if (items) {
        declare_items(&w, "_next");
        by_group(&w, "fb_load_next", fb_arena_printf(e->arena, "fb_step + %d", x->steps_ahead), load_next);
        pass_items(&w);
    }
    by_group(&w, "fb_group", "fb_step", make_steps);
    move_on(&w);
    if (items) take_next(&w);
    fb_emit_close(e);
    fb_emit_forget(e, mark);
    for (int i = 0; i < w.s->n_roots; i++)
        if (is_state(&w, &w.s->roots[i])) store_root(&w, numbered(&w, "state", i), &w.s->roots[i]);
    close_all(&w, w.opened);
    e->unfused = NULL;
}
