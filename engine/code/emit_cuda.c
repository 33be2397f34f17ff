/* The printer of CUDA: writes out how sections are dealt to threads (schedule/schedule.h).
 *
 * requires  a nest, and its schedule, asked for section by section
 * provides  statements between the emitter's, and the launch's geometry
 *
 * Neighbouring elements move as vectors where they are aligned. Several sections share one launch by block range.
 * Threads past the last row work on it again and store nothing, so that all of a block meets at every barrier. */
#include "code/emit_cuda_parts.h"
#include "code/names.h"

#include "base/integer.h"
#include "base/mutate.h"
#include "graph/intmath.h"
#include "schedule/bands.h"
#include "schedule/long.h"
#include "schedule/schedule.h"
#include "schedule/team.h"
#include "schedule/windows.h"

#include <inttypes.h>
#include <string.h>

/* A section while it is written. */
typedef struct {
    fb_emitter *e;
    fb_section_schedule x;
    const fb_section *s; /* the schedule's */
    int unrolled;        /* steps of a pass that is not held; 0: as the compiler likes */
    const char *block;   /* the block's number within the section */
    const char *lane, *inside;
    bool *declared;
    bool *packed; /* a value: it is an element of a vector, loaded in this pass … */
    bool *in_row; /* … or of those that an earlier pass has kept in registers */
    /* of a long row's part (FB_DEAL_LONG): its first group, one behind its last, one behind the last that is held, and
     * where a group begins in a slot */
    const char *first, *last, *held, *within;
    const char *row;   /* FB_DEAL_COLUMNS: this thread's */
    const char **sums; /* by value: what an element is added to; NULL: to the value's own name */
    int pass;
    fb_replaced
        grouped; /* the last variable of a group's elements, where what it is divided by is the same for all of them */
} frame;

/* How one space (or the rows of an elementwise section) is walked. */
typedef struct {
    const fb_space *space;
    int vector;     /* elements at once along the last variable */
    int64_t points; /* groups of `vector` elements */
    fb_ix first;   /* stands for the last variable at the group's first element; the variable itself when vector is 1 */
    const char *v; /* counts within the group; NULL: it is of one element, and no loop goes through it */
    bool apart;    /* its elements do not move as one, and the last group may reach beyond the row */
    bool steps;    /* its variables go on to the next point */
} walk;

static const char *var_name(const fb_emitter *e, fb_ix v)
{
    return fb_ix_var_name(e->nest->pool, v);
}

/* A storage need not be a node: a copy of a source has one of its own. */
static fb_dtype dtype_of_storage(const fb_emitter *e, fb_id storage)
{
    for (int i = 0; i < e->n_args; i++)
        if (e->args[i].storage == storage) return e->args[i].dtype;
    return e->nest->graph->nodes[storage].dtype;
}

/* ---- walking a space ---- */

/* By groups of `vector` elements. */
static walk walk_by(const fb_emitter *e, const fb_space *space, int vector, int64_t points)
{
    walk w = {.space = space, .vector = vector, .points = points};
    int n = space->n;
    if (!n) return w;
    w.first = space->var[n - 1];
    if (vector > 1) {
        const char *name = fb_arena_printf(e->arena, "%s0", var_name(e, w.first));
        w.first = fb_ix_var(e->nest->pool, fb_arena_strdup(e->nest->arena, name), space->extent[n - 1]);
        w.v = "v";
    }
    return w;
}

/* As the schedule says. */
static walk walk_of(frame *f, int space)
{
    const fb_space *x = space == FB_NONE ? &f->s->rows : &f->s->spaces[space];
    const fb_cut *cut = space == FB_NONE ? NULL : f->x.cut;
    int vector = cut ? cut->vector : fb_schedule_vector(f->e->nest, f->e->knobs, f->s, space);
    return walk_by(f->e, x, vector, cut ? cut->groups : fb_space_points(x) / vector);
}

/* ---- groups of a long row ---- */

static bool is_ragged(const frame *f)
{
    return f->x.cut && f->x.cut->ragged;
}

/* ", c0, 50257" where a group may reach beyond its row. */
static const char *edges(frame *f, const walk *w)
{
    if (!is_ragged(f)) return "";
    return fb_arena_printf(f->e->arena, ", %s, (fb_at)%" PRId64, var_name(f->e, w->first), w->space->extent[0]);
}

/* Is a part only held to some place in it? */
static bool is_held_in_part(const frame *f)
{
    return f->x.cut && f->x.cut->held && f->x.cut->held < f->x.cut->each;
}

static int64_t slot_of(const frame *f, fb_val v)
{
    return f->x.cut ? f->x.cut->slot[v] : f->x.band ? f->x.band->slot[v] : FB_NONE;
}

static bool is_in_slot(const frame *f, fb_val v)
{
    return slot_of(f, v) != FB_NONE;
}

/* Is it in its slot before this pass? */
static bool is_there(const frame *f, fb_val v)
{
    const fb_value *x = &f->s->values[v];
    return is_in_slot(f, v) && ((x->kind == FB_VALUE_LOAD && f->x.cut) || x->kept_pass < f->pass);
}

/* Is it loaded into its slot in this pass? */
static bool is_brought_here(const frame *f, fb_val v)
{
    const fb_value *x = &f->s->values[v];
    return f->x.band && is_in_slot(f, v) && x->kind == FB_VALUE_LOAD && x->kept_pass == f->pass;
}

static bool is_made_here(const frame *f, fb_val v)
{
    return is_in_slot(f, v) && f->s->values[v].kind != FB_VALUE_LOAD && f->s->values[v].kept_pass == f->pass;
}

/* What passes keep of a row, in a thread's registers or in a slot of shared memory. */
static const char *held_name(frame *f, fb_val v)
{
    return fb_arena_printf(f->e->arena, "fb_row_%s", f->e->names[v]);
}

static const char *kept_name(frame *f, fb_val v)
{
    return fb_arena_printf(f->e->arena, "fb_kept_%s", f->e->names[v]);
}

static void declare_group(frame *f, const walk *w, const char *point)
{
    const char *start = "";
    int64_t known = 0;
    if (!fb_ix_is_const(f->e->nest->pool, f->x.cut->start, &known))
        start = " - fb_start";
    else if (known)
        start = fb_arena_printf(f->e->arena, " - %" PRId64, known);
    fb_emit(f->e, "const fb_at %s = %s * %d%s;", var_name(f->e, w->first), point, w->vector, start);
}

/* The variables of a space from the number of a group of elements: the last one (its first element) runs fastest. */
static void declare_variables(frame *f, const walk *w, const char *point)
{
    fb_emitter *e = f->e;
    int64_t below = 1;
    if (f->x.cut && w->vector > 1) {
        declare_group(f, w, point);
        return;
    }
    for (int d = w->space->n - 1; d >= 0; d--) {
        bool last = d == w->space->n - 1;
        int64_t extent = last ? w->space->extent[d] / w->vector : w->space->extent[d];
        const char *at = below == 1 ? point : fb_arena_printf(e->arena, "%s / %" PRId64, point, below);
        if (d > 0) at = extent == 1 ? "0" : fb_arena_printf(e->arena, "%s %% %" PRId64, at, extent);
        if (last && w->vector > 1)
            at = fb_arena_printf(e->arena, "%s * %d", d > 0 ? fb_arena_printf(e->arena, "(%s)", at) : at, w->vector);
        fb_emit(e, "%sfb_at %s = %s;", w->steps ? "" : "const ", var_name(e, last ? w->first : w->space->var[d]), at);
        below *= extent;
    }
}

/* Those of a space that is gone through element by element, from the number of one. */
static void declare_point(frame *f, const fb_space *space, const char *point)
{
    if (!space->n) return;
    walk w = walk_by(f->e, space, 1, fb_space_points(space));
    declare_variables(f, &w, point);
}

static const char *at_first(frame *f, const walk *w, fb_id storage, int table, fb_ix at)
{
    fb_ix moved = fb_ix_substitute(f->e->nest->pool, at, w->space->var[w->space->n - 1], w->first);
    return fb_emit_element(f->e, storage, table, moved);
}

static bool packs_load(const frame *f, const walk *w, int space, const fb_value *v)
{
    if (w->apart) return false;
    if (!f->x.cut || space == FB_NONE)
        return fb_packs_load(f->e->nest, f->s, v, w->space->var[w->space->n - 1], w->vector);
    bool plain = v->kind == FB_VALUE_LOAD && v->when == FB_NONE && v->table == FB_NONE;
    return plain && fb_cut_packs(f->e->nest, f->x.cut, f->s, v->node, v->at);
}

/* Do a block's columns of it go through shared memory? */
static bool is_turned(const frame *f, int root)
{
    return f->x.band && f->x.band->turned[root] != FB_NONE;
}

static bool packs_root(const frame *f, const walk *w, int space, const fb_root *r)
{
    if (w->apart || is_turned(f, (int)(r - f->s->roots))) return false;
    if (!f->x.cut || space == FB_NONE)
        return fb_packs_root(f->e->nest, f->s, r, w->space->var[w->space->n - 1], w->vector);
    return r->table == FB_NONE && fb_cut_packs(f->e->nest, f->x.cut, f->s, r->storage, r->at);
}

/* Elements that take turns in memory with others, which a thread moves beside them. */
static bool interleaves_load(const frame *f, const walk *w, const fb_value *v, fb_interleaved *by)
{
    return !w->apart && fb_interleaves_load(f->e->nest, f->s, v, w->space->var[w->space->n - 1], w->vector, by);
}

static bool interleaves_root(const frame *f, const walk *w, const fb_root *r, fb_interleaved *by)
{
    return w->space->n && !w->apart &&
           fb_interleaves_root(f->e->nest, f->s, r, w->space->var[w->space->n - 1], w->vector, by);
}

/* Where element w->v of such a pack is. */
static const char *place_in_pack(frame *f, const walk *w, const fb_interleaved *by)
{
    const char *first = fb_arena_printf(f->e->arena, "%d * %s", by->parts, w->v);
    return by->place ? fb_arena_printf(f->e->arena, "%s + %d", first, by->place) : first;
}

/* The pack that a load of such elements is in: that of the first value that reads one of them, which makes it. */
static const char *pack_of_interleaved(frame *f, const walk *w, const bool *needed, fb_val i, const fb_interleaved *by)
{
    fb_emitter *e = f->e;
    const fb_value *v = &f->s->values[i];
    for (int j = 0; j < i; j++) {
        fb_interleaved other;
        const fb_value *u = &f->s->values[j];
        if ((needed && !needed[j]) || u->space != v->space || u->node != v->node || !interleaves_load(f, w, u, &other))
            continue;
        if (other.from == by->from) return fb_arena_printf(e->arena, "fb_%s", e->names[j]);
    }
    const char *pack = fb_arena_printf(e->arena, "fb_%s", e->names[i]);
    fb_emit(e, "const auto %s = fb_load<%d>(&%s);", pack, w->vector * by->parts,
            at_first(f, w, v->node, v->table, by->from));
    return pack;
}

/* A group of a row from memory, the name of its function and its arguments. */
static const char *load_of(frame *f, const walk *w, const fb_value *v)
{
    return fb_arena_printf(f->e->arena, "%s<%d>(&%s%s)", is_ragged(f) ? "fb_long_load" : "fb_load", w->vector,
                           at_first(f, w, v->node, v->table, v->at), edges(f, w));
}

/* A group of what is held, from its slot. */
static void load_slot(frame *f, const walk *w, fb_val i)
{
    fb_emitter *e = f->e;
    const fb_value *v = &f->s->values[i];
    const char *pack = fb_arena_printf(e->arena, "fb_%s", e->names[i]);
    const char *slot = fb_arena_printf(e->arena, "fb_load<%d>(%s + %s)", w->vector, held_name(f, i), f->within);
    if (is_held_in_part(f))
        fb_emit(e, "const auto %s = fb_p < %s ? %s : %s;", pack, f->held, slot, load_of(f, w, v));
    else
        fb_emit(e, "const auto %s = %s;", pack, slot);
    const char *element = fb_arena_printf(e->arena, "%s.at[%s]", pack, w->v);
    e->whole[i] = v->kind == FB_VALUE_LOAD ? fb_emit_spell(e, e->spell->type[v->dtype].from, &element, 1) : element;
}

/* Loads of this space that move whole vectors, before the loop over the group's elements. */
static void load_packs(frame *f, const walk *w, int space, const bool *needed)
{
    fb_emitter *e = f->e;
    for (int i = 0; w->v && i < f->s->n_values; i++) {
        const fb_value *v = &f->s->values[i];
        if ((needed && !needed[i]) || v->space != space || e->whole[i]) continue;
        const bool there = is_there(f, i), brought = is_brought_here(f, i);
        fb_interleaved by;
        if (!there && interleaves_load(f, w, v, &by)) {
            const char *element = fb_arena_printf(e->arena, "%s.at[%s]", pack_of_interleaved(f, w, needed, i, &by),
                                                  place_in_pack(f, w, &by));
            e->whole[i] = fb_emit_spell(e, e->spell->type[v->dtype].from, &element, 1);
            if (f->packed) f->packed[i] = true;
            continue;
        }
        if (!there && !brought && !packs_load(f, w, space, v)) continue;
        if (f->packed) f->packed[i] = true;
        if (there) {
            load_slot(f, w, i);
            continue;
        }
        const char *pack = fb_arena_printf(e->arena, "fb_%s", e->names[i]);
        fb_emit(e, "const auto %s = %s;", pack, load_of(f, w, v));
        if (brought) fb_emit(e, "fb_store(%s + %s, %s);", held_name(f, i), f->within, pack);
        const char *element = fb_arena_printf(e->arena, "%s.at[%s]", pack, w->v);
        e->whole[i] = fb_emit_spell(e, e->spell->type[v->dtype].from, &element, 1);
    }
}

static void forget_packs(frame *f)
{
    for (int i = 0; i < f->s->n_values; i++) {
        if (f->packed[i]) f->e->whole[i] = NULL;
        f->packed[i] = false;
    }
}

static const char *pack_name(frame *f, int root)
{
    return fb_arena_printf(f->e->arena, "fb_out%d", root);
}

/* Of the roots whose elements take turns with a root's, the one that stores the first of each group; it has the pack. */
static int first_of_interleaved(const frame *f, const walk *w, int root, const fb_interleaved *by)
{
    for (int i = 0; i < f->s->n_roots; i++) {
        fb_interleaved other;
        if (f->s->roots[i].storage != f->s->roots[root].storage || !interleaves_root(f, w, &f->s->roots[i], &other))
            continue;
        if (other.place == 0 && other.from == by->from) return i;
    }
    return root;
}

static bool root_is_here(const fb_root *r, int space, int depth)
{
    return r->space == space && r->depth == depth;
}

/* Is there a pack for the root's elements, its own or of all that alternate with it? Then *by says of how many and from where. */
static bool has_pack(const frame *f, const walk *w, int space, const fb_root *r, fb_interleaved *by)
{
    if (interleaves_root(f, w, r, by)) return by->place == 0;
    *by = (fb_interleaved){.parts = 1, .from = r->at};
    return packs_root(f, w, space, r);
}

/* Does `at` divide `last` by something that groups of so many neighbours are a part of? All of one have the same quotient. */
static bool shares_quotient(const frame *f, fb_ix at, fb_ix last, int vector)
{
    enum { ROOM = 8 };
    int64_t by[ROOM];
    fb_index_pool *pool = f->e->nest->pool;
    const int n = fb_ix_uses(pool, at, last) ? fb_ix_divisors(pool, at, last, by, ROOM) : 0;
    for (int i = 0; i < n; i++)
        if (by[i] % vector == 0) return true;
    return false;
}

/* … anything of a section of elements. */
static bool any_shares_quotient(const frame *f, fb_ix last, int vector)
{
    const fb_nest *nest = f->e->nest;
    for (int i = 0; i < f->s->n_values; i++) {
        const fb_value *v = &f->s->values[i];
        if (v->kind != FB_VALUE_LOAD) continue;
        if (shares_quotient(f, v->at, last, vector)) return true;
        for (int c = v->when; c != FB_NONE; c = nest->whens[c].outer)
            if (shares_quotient(f, nest->whens[c].at, last, vector)) return true;
    }
    return false;
}

/* Writes the last variable as its group's number and the place in it, where quotients are then the same for all of a group
 * and made once: windows along lines of pictures. */
static void divide_group(frame *f, const walk *w)
{
    fb_emitter *e = f->e;
    fb_index_pool *pool = e->nest->pool;
    const fb_ix last = w->space->var[w->space->n - 1];
    const int64_t groups = w->space->extent[w->space->n - 1] / w->vector;
    if (w->apart || e->replaced || f->s->n_passes || f->s->scatter || !any_shares_quotient(f, last, w->vector)) return;
    const fb_ix group = fb_ix_var(pool, "fb_group", groups), place = fb_ix_var(pool, w->v, w->vector);
    fb_emit(e, "const fb_at fb_group = %s / %d;", var_name(e, w->first), w->vector);
    f->grouped = (fb_replaced){last, fb_ix_add(pool, fb_ix_scale(pool, group, w->vector), place)};
    e->replaced = &f->grouped;
}

/* Opens a group's elements, one after the other. */
static void open_each(frame *f, const walk *w)
{
    fb_ix last = w->space->var[w->space->n - 1];
    fb_emit_unrolled(f->e, w->v, fb_emit_number(f->e, w->vector));
    fb_emit(f->e, "const fb_at %s = %s + %s;", var_name(f->e, last), var_name(f->e, w->first), w->v);
    divide_group(f, w);
    if (w->apart) fb_emit_if(f->e, "%s < %" PRId64, var_name(f->e, last), w->space->extent[w->space->n - 1]);
}

static void close_each(frame *f, const walk *w)
{
    if (f->e->replaced == &f->grouped) f->e->replaced = NULL;
    if (w->apart) fb_emit_close(f->e);
    fb_emit_close(f->e);
}

static void open_vector(frame *f, const walk *w, int space, int depth)
{
    fb_emitter *e = f->e;
    if (!w->v) return;
    fb_ix last = w->space->var[w->space->n - 1];
    for (int i = 0; i < f->s->n_roots; i++) {
        const fb_root *r = &f->s->roots[i];
        fb_interleaved by;
        if (root_is_here(r, space, depth) && has_pack(f, w, space, r, &by))
            fb_emit(e, "fb_pack<%s, %d> %s;", e->spell->type[dtype_of_storage(e, r->storage)].memory,
                    w->vector * by.parts, pack_name(f, i));
    }
    for (int i = 0; space != FB_NONE && i < f->s->n_values; i++)
        if (is_made_here(f, i)) fb_emit(e, "fb_pack<%s, %d> %s;", fb_emit_type(e, i), w->vector, kept_name(f, i));
    open_each(f, w);
    if (space != FB_NONE && is_ragged(f))
        fb_emit_if(e, "fb_whole.is || (%s >= 0 && %s < %" PRId64 ")", var_name(e, last), var_name(e, last),
                   w->space->extent[0]);
}

static void close_vector(frame *f, const walk *w, int space, int depth, bool guarded)
{
    fb_emitter *e = f->e;
    if (!w->v) return;
    const bool ragged = space != FB_NONE && is_ragged(f);
    if (ragged) fb_emit_close(e);
    close_each(f, w);
    for (int i = 0; i < f->s->n_roots; i++) {
        const fb_root *r = &f->s->roots[i];
        fb_interleaved by;
        if (root_is_here(r, space, depth) && has_pack(f, w, space, r, &by))
            fb_emit(e, "%s%s(&%s, %s%s);", guarded ? fb_arena_printf(e->arena, "if (%s) ", f->inside) : "",
                    ragged ? "fb_long_store" : "fb_store", at_first(f, w, r->storage, r->table, by.from),
                    pack_name(f, i), ragged ? edges(f, w) : "");
    }
    for (int i = 0; space != FB_NONE && i < f->s->n_values; i++)
        if (is_made_here(f, i)) fb_emit(e, "fb_store(%s + %s, %s);", held_name(f, i), f->within, kept_name(f, i));
}

/* A root's value, as it is stored. */
static const char *stored_value(frame *f, int root)
{
    fb_emitter *e = f->e;
    const fb_root *r = &f->s->roots[root];
    const char *value = fb_emit_ref(e, r->value);
    return fb_emit_spell(e, e->spell->type[dtype_of_storage(e, r->storage)].to, &value, 1);
}

/* … as element `at` of a pack that is stored whole. */
static void put_in(frame *f, int root, const char *pack, const char *at)
{
    fb_emit(f->e, "%s.at[%s] = %s;", pack, at, stored_value(f, root));
}

static void put_in_pack(frame *f, int root, const char *at)
{
    put_in(f, root, pack_name(f, root), at);
}

static const char *tile_name(frame *f, int root)
{
    return fb_arena_printf(f->e->arena, "fb_turned%d", root);
}

/* A root's element of column `at` of the thread's neighbours, to be stored when all of the block's are there. */
static void put_in_tile(frame *f, int root, const char *at)
{
    fb_emitter *e = f->e;
    const fb_band *b = f->x.band;
    const fb_root *r = &f->s->roots[root];
    fb_emit(e, "%s[(fb_beside * %d + %s) * %" PRId64 " + %s] = %s;", tile_name(f, root), f->x.each, at,
            fb_band_line(e->nest, b, r), b->parts > 1 ? "(fb_p - fb_first)" : "fb_p", stored_value(f, root));
}

/* Stores of a space's roots at one element; into packs where whole vectors are stored. */
static void store_elements(frame *f, const walk *w, int space, int depth, bool guarded)
{
    fb_emitter *e = f->e;
    for (int i = 0; i < f->s->n_roots; i++) {
        const fb_root *r = &f->s->roots[i];
        if (!root_is_here(r, space, depth)) continue;
        fb_emit_needed(e, r->value, space);
        fb_interleaved by;
        if (interleaves_root(f, w, r, &by)) {
            put_in(f, i, pack_name(f, first_of_interleaved(f, w, i, &by)), place_in_pack(f, w, &by));
            continue;
        }
        if (is_turned(f, i)) {
            put_in_tile(f, i, w->v);
            continue;
        }
        bool packed = w->space->n && packs_root(f, w, space, r);
        if (packed) {
            put_in_pack(f, i, w->v);
            continue;
        }
        if (guarded) fb_emit_if(e, FB_MUTATE(55, "%s", "%s || true"), f->inside);
        fb_emit_store(e, r);
        if (guarded) fb_emit_close(e);
    }
}

/* ---- elements ---- */

/* What is loaded for all of a group of elements, whose place is known. */
static void load_all(frame *f, const walk *w)
{
    fb_emitter *e = f->e;
    uint32_t last = w->space->n ? 1u << (w->space->n - 1) : 0;
    for (int i = 0; w->v && i < f->s->n_values; i++)
        if (!(f->s->values[i].rows & last)) fb_emit_needed(e, i, FB_NONE);
    load_packs(f, w, FB_NONE, NULL);
}

/* Where one is, and what is loaded for all of it. */
static void load_group(frame *f, const walk *w, const char *point)
{
    if (w->space->n) declare_variables(f, w, point);
    load_all(f, w);
}

/* Its elements; `inside` (may be NULL) writes what comes first for each of them. */
static void store_group(frame *f, const walk *w, int depth, void (*inside)(void *ctx), void *ctx)
{
    open_vector(f, w, FB_NONE, depth);
    if (inside) inside(ctx);
    store_elements(f, w, FB_NONE, depth, false);
    close_vector(f, w, FB_NONE, depth, false);
}

static void emit_elements(frame *f)
{
    fb_emitter *e = f->e;
    walk w = walk_of(f, FB_NONE);
    const char *point = fb_emit_name(e, "point");
    int each = f->x.each > 1 ? f->x.each : 1;
    bool ragged = w.points % ((int64_t)f->x.threads * each) != 0;
    if (each > 1) {
        fb_emit_unrolled(e, "fb_g", fb_emit_number(e, each));
        fb_emit(e, "const fb_at %s = ((fb_at)%s * %d + fb_g) * %d + threadIdx.x;", point, f->block, each, f->x.threads);
    } else {
        fb_emit(e, "const fb_at %s = (fb_at)%s * %d + threadIdx.x;", point, f->block, f->x.threads);
    }
    if (ragged) fb_emit_if(e, "%s < %" PRId64, point, w.points);
    load_group(f, &w, point);
    store_group(f, &w, 0, NULL, NULL);
    if (ragged) fb_emit_close(e);
    if (each > 1) fb_emit_close(e);
}

/* A stretch of a few lines: the last variable is the thread's, the others the block's. */
static void emit_lines(frame *f)
{
    fb_emitter *e = f->e;
    walk w = walk_of(f, FB_NONE);
    fb_space lines = *w.space;
    int last = --lines.n, each = f->x.each;
    int64_t along = w.space->extent[last] / w.vector, n = fb_space_points(&lines);
    bool ragged = along % f->x.threads != 0, rest = n % each != 0;
    const char *line = fb_emit_name(e, "line"), *group = var_name(e, w.first);
    const char *at = "threadIdx.x", *width = w.vector > 1 ? fb_arena_printf(e->arena, " * %d", w.vector) : "";
    if (f->x.parts > 1)
        at = fb_arena_printf(e->arena, "(fb_at)%s %% %d * %d + threadIdx.x", f->block, f->x.parts, f->x.threads);
    fb_emit(e, w.vector > 1 ? "const fb_at %s = (%s)%s;" : "const fb_at %s = %s%s;", group, at, width);
    if (ragged) fb_emit_if(e, "%s < %" PRId64, group, w.space->extent[last]);
    if (w.vector > 1) { /* a line's vectors are enough to wait for, and the next line's would crowd out their places */
        fb_emit_directive(e, "#pragma unroll 1");
        fb_emit_for(e, "int", "fb_l", "0", fb_emit_number(e, each), "1");
    } else {
        fb_emit_unrolled(e, "fb_l", fb_emit_number(e, each));
    }
    fb_emit(e, "const fb_at %s = (fb_at)%s / %d * %d + fb_l;", line, f->block, f->x.parts, each);
    if (rest) fb_emit_if(e, "%s < %" PRId64, line, n);
    declare_point(f, &lines, line);
    load_all(f, &w);
    store_group(f, &w, 0, NULL, NULL);
    if (rest) fb_emit_close(e);
    fb_emit_close(e);
    if (ragged) fb_emit_close(e);
}

/* ---- squares ---- */

/* A square and where in it a thread is. */
typedef struct {
    const char *across, *along;             /* names of the two variables … */
    const char *first_across, *first_along; /* … and of where the square begins */
    int64_t high, wide;                     /* as far as they go */
    int side, each;                         /* elements along either side, which move by so many */
} square;

static void declare_square(frame *f, square *q)
{
    fb_emitter *e = f->e;
    const fb_space *rows = &f->s->rows;
    int last = rows->n - 1, across = f->x.across;
    *q = (square){.across = var_name(e, rows->var[across]),
                  .along = var_name(e, rows->var[last]),
                  .first_across = fb_emit_name(e, "fb_across"),
                  .first_along = fb_emit_name(e, "fb_along"),
                  .high = rows->extent[across],
                  .wide = rows->extent[last],
                  .side = fb_schedule_side(&f->x),
                  .each = f->x.each > 1 ? f->x.each : 1};
    int64_t high = fb_ceil_div(q->high, q->side), wide = fb_ceil_div(q->wide, q->side);
    fb_space outer = {0};
    for (int d = 0; d < last; d++) {
        if (d == across) continue;
        outer.var[outer.n] = rows->var[d];
        outer.extent[outer.n++] = rows->extent[d];
    }
    fb_emit(e, "const fb_at %s = (fb_at)%s %% %" PRId64 " * %d;", q->first_along, f->block, wide, q->side);
    fb_emit(e, "const fb_at %s = (fb_at)%s / %" PRId64 " %% %" PRId64 " * %d;", q->first_across, f->block, wide, high,
            q->side);
    if (!outer.n) return;
    const char *point = fb_emit_name(e, "point");
    fb_emit(e, "const fb_at %s = (fb_at)%s / %" PRId64 ";", point, f->block, high * wide);
    declare_point(f, &outer, point);
}

/* Goes through a square, lanes along one of its sides, `each` elements at a time: of the first, that side's variable has the
 * name that `w` gives it. */
static void open_square(frame *f, const square *q, const walk *w, bool lanes_across)
{
    fb_emitter *e = f->e;
    const int lanes = q->side / q->each, step = f->x.threads / lanes;
    const char *lane = fb_arena_printf(e->arena, "threadIdx.x %% %d%s", lanes,
                                       q->each > 1 ? fb_arena_printf(e->arena, " * %d", q->each) : ""),
               *line = fb_arena_printf(e->arena, "threadIdx.x / %d + %d * fb_s", lanes, step),
               *across = lanes_across ? var_name(e, w->first) : q->across,
               *along = lanes_across ? q->along : var_name(e, w->first);
    fb_emit_unrolled(e, "fb_s", fb_emit_number(e, q->side / step));
    fb_emit(e, "const fb_at %s = %s + %s;", across, q->first_across, lanes_across ? lane : line);
    fb_emit(e, "const fb_at %s = %s + %s;", along, q->first_along, lanes_across ? line : lane);
    if (q->high % q->side || q->wide % q->side)
        fb_emit_if(e, "%s < %" PRId64 " && %s < %" PRId64, across, q->high, along, q->wide);
}

static void close_square(frame *f, const square *q)
{
    if (q->high % q->side || q->wide % q->side) fb_emit_close(f->e);
    fb_emit_close(f->e);
}

/* Brings what is turned into shared memory; `turned`: where each value's element is there, NULL where it is none. */
static void turn_square(frame *f, const square *q, const char **turned)
{
    fb_emitter *e = f->e;
    const fb_space side = {.n = 1, .var = {f->s->rows.var[f->x.across]}, .extent = {q->high}};
    const walk w = walk_by(e, &side, q->each, q->high / q->each);
    open_square(f, q, &w, true);
    for (int i = 0; i < f->s->n_values; i++) {
        const fb_value *v = &f->s->values[i];
        if (!turned[i]) continue;
        if (q->each == 1) {
            fb_emit(e, "%s = %s;", turned[i], fb_emit_element(e, v->node, v->table, v->at));
            continue;
        }
        const char *pack = fb_emit_name(e, fb_arena_printf(e->arena, "fb_%s", e->names[i]));
        fb_emit(e, "const auto %s = %s;", pack, load_of(f, &w, v));
        open_each(f, &w);
        fb_emit(e, "%s = %s.at[%s];", turned[i], pack, w.v);
        close_each(f, &w);
    }
    close_square(f, q);
}

/* A line has one element more than a square, so that its columns are in banks of their own; of 16 bits, two. */
static void emit_squares(frame *f)
{
    fb_emitter *e = f->e;
    const char **turned = FB_NEW_ARRAY(e->arena, const char *, f->s->n_values);
    square q;
    declare_square(f, &q);
    const walk w = walk_by(e, &f->s->rows, q.each, fb_space_points(&f->s->rows) / q.each);
    for (int i = 0; i < f->s->n_values; i++) {
        const fb_value *v = &f->s->values[i];
        turned[i] = NULL;
        if (!fb_schedule_turns(e->nest, f->s, v, f->x.across)) continue;
        const char *name = fb_emit_name(e, fb_arena_printf(e->arena, "fb_turned_%s", e->names[i]));
        fb_emit(e, "__shared__ %s %s[%d][%d];", e->spell->type[dtype_of_storage(e, v->node)].memory, name, q.side,
                q.side + (q.each > 1 ? 2 : 1));
        turned[i] =
            fb_arena_printf(e->arena, "%s[%s - %s][%s - %s]", name, q.along, q.first_along, q.across, q.first_across);
    }
    turn_square(f, &q, turned);
    fb_emit(e, "fb_meet<%d>();", f->x.threads);
    open_square(f, &q, &w, false);
    for (int i = 0; i < f->s->n_values; i++)
        if (turned[i]) e->whole[i] = fb_emit_spell(e, e->spell->type[f->s->values[i].dtype].from, &turned[i], 1);
    load_all(f, &w);
    store_group(f, &w, 0, NULL, NULL);
    for (int i = 0; i < f->s->n_values; i++)
        if (turned[i]) e->whole[i] = NULL;
    close_square(f, &q);
}

/* The next point: the last variable runs fastest. */
static void step_variables(frame *f, const fb_space *space)
{
    fb_emitter *e = f->e;
    int opened = 0;
    for (int d = space->n - 1; d > 0; d--) {
        if (space->extent[d] > 1) {
            fb_emit_if(e, "++%s == %" PRId64, var_name(e, space->var[d]), space->extent[d]);
            fb_emit(e, "%s = 0;", var_name(e, space->var[d]));
            opened++;
        }
    }
    fb_emit(e, "++%s;", var_name(e, space->var[0]));
    while (opened--) fb_emit_close(e);
}

/* A few points one behind the other, stored together. */
static void emit_runs(frame *f)
{
    fb_emitter *e = f->e;
    walk w = walk_by(e, &f->s->rows, 1, fb_space_points(&f->s->rows));
    const char *point = fb_emit_name(e, "point");
    int each = f->x.each;
    w.steps = true;
    fb_emit(e, "const fb_at %s = ((fb_at)%s * %d + threadIdx.x) * %d;", point, f->block, f->x.threads, each);
    bool ragged = w.points % ((int64_t)f->x.threads * each) != 0;
    if (ragged) fb_emit_if(e, "%s < %" PRId64, point, w.points);
    declare_variables(f, &w, point);
    for (int i = 0; i < f->s->n_roots; i++)
        fb_emit(e, "fb_pack<%s, %d> %s;", e->spell->type[dtype_of_storage(e, f->s->roots[i].storage)].memory, each,
                pack_name(f, i));
    fb_emit_unrolled(e, "fb_g", fb_emit_number(e, each));
    for (int i = 0; i < f->s->n_roots; i++) {
        fb_emit_needed(e, f->s->roots[i].value, FB_NONE);
        put_in_pack(f, i, "fb_g");
    }
    step_variables(f, w.space);
    fb_emit_close(e);
    fb_index_pool *pool = e->nest->pool;
    fb_ix first = fb_ix_var(pool, fb_arena_strdup(e->nest->arena, point), w.points);
    for (int i = 0; i < f->s->n_roots; i++) {
        const fb_root *r = &f->s->roots[i];
        int64_t from = 0;
        fb_schedule_flat(e->nest, f->s, r, &from);
        fb_ix at = fb_ix_add(pool, first, fb_ix_const(pool, from));
        fb_emit(e, "fb_store(&%s, %s);", fb_emit_element(e, r->storage, r->table, at), pack_name(f, i));
    }
    if (ragged) fb_emit_close(e);
}

/* ---- reductions ---- */

static const char *best_of(frame *f, fb_val v)
{
    return fb_arena_printf(f->e->arena, "fb_best_%s", f->e->names[v]);
}

static void declare_accumulators(frame *f, fb_pass p)
{
    fb_emitter *e = f->e;
    for (int i = 0; i < f->s->n_values; i++) {
        if (!fb_value_reduces(&f->s->values[i], p)) continue;
        fb_reduction r = fb_emit_reduction(e, i);
        if (r.arg) fb_emit(e, "%s %s = %s;", fb_emit_operand_type(f->e, i), best_of(f, i), r.start);
        fb_emit(e, "%s %s = %s;", fb_emit_type(f->e, i), e->names[i], r.arg ? "0" : r.start);
    }
}

static const char *operation_of(const fb_reduction *r)
{
    switch (r->op) {
    case FB_OP_AMAX: return "fb_larger";
    case FB_OP_AMIN: return "fb_smaller";
    case FB_OP_PROD: return "fb_times";
    default: return "fb_plus";
    }
}

static bool is_on_chip(const frame *f)
{
    return f->x.cut || f->x.band || f->x.fetched;
}

/* In a long row, on hardware that has an instruction for it. */
static const char *long_operation(const frame *f, const fb_reduction *r)
{
    return f->e->nest->clusters && r->op == FB_OP_AMAX ? "fb_long_larger" : operation_of(r);
}

/* One element into the accumulator; a thread's come in order. */
static void step(frame *f, fb_val v)
{
    fb_emitter *e = f->e;
    const fb_value *x = &f->s->values[v];
    fb_reduction r = fb_emit_reduction(e, v);
    const char *acc = f->sums ? f->sums[v] : e->names[v], *a = fb_emit_ref(e, x->args[0]);
    if (r.arg) {
        fb_emit(e, "fb_better_next<%s>(%s, %s, %s, (int64_t)%s);", r.op == FB_OP_ARGMAX ? "true" : "false",
                best_of(f, v), acc, a,
                fb_emit_index(e, f->s->spaces[x->over].n ? f->s->spaces[x->over].var[0] : fb_ix_const(e->nest->pool, 0),
                              true));
        return;
    }
    bool real = fb_dtype_is_float(x->dtype);
    if (r.op == FB_OP_RANK) {
        fb_emit(e, "%s += %s;", acc, fb_emit_before(e, v));
    } else if (x->n_args == 2) {
        const char *b = fb_emit_ref(e, x->args[1]);
        fb_emit(e, real ? "%s += %s * %s;" : "%s = fb_wrap_add(%s, fb_wrap_mul(%s, %s));", acc, real ? a : acc,
                real ? b : a, b);
    } else if (r.op == FB_OP_SUM || r.op == FB_OP_MEAN || r.op == FB_OP_MATMUL) {
        fb_emit_add(e, x->dtype, acc, a);
    } else {
        fb_emit(e, "%s = %s::of(%s, (%s)%s);", acc, is_on_chip(f) ? long_operation(f, &r) : operation_of(&r), acc,
                fb_emit_type(f->e, v), a);
    }
}

/* "fb_team<fb_plus, 32>" and the like for the frame's kind of team. */
static const char *across(frame *f, const char *suffix, const char *what)
{
    if (f->x.deal == FB_DEAL_COLUMNS)
        return fb_arena_printf(f->e->arena, "fb_columns%s<%s, %d>", suffix, what, f->x.team);
    if (f->x.team > f->e->target->warp)
        return fb_arena_printf(f->e->arena, "fb_block%s<%s, %d>", suffix, what, f->x.threads);
    return fb_arena_printf(f->e->arena, "fb_team%s<%s, %d>", suffix, what, f->x.team);
}

/* The sums of a long row's blocks: among a cluster, and a word or two of memory for each of several clusters. */
static void combine_row(frame *f, fb_val v)
{
    fb_emitter *e = f->e;
    fb_reduction r = fb_emit_reduction(e, v);
    const fb_cut *c = f->x.cut;
    if (c->cluster == c->parts) {
        fb_emit(e, "%s = fb_long_exchange<%s, %d, %d, %d>(%s, fb_part);", e->names[v], long_operation(f, &r),
                f->x.threads, c->parts, v, e->names[v]);
        return;
    }
    const int words = c->parts / c->cluster;
    fb_emit(e, "static __device__ fb_long_words<%s> fb_words_%s[%" PRId64 "];", fb_emit_type(e, v), e->names[v],
            f->x.rows * words);
    fb_emit(e, "%s = fb_long_combine<%s, %d, %d, %d, %d>(%s, %s, &fb_words_%s[fb_row * %d], fb_part);", e->names[v],
            long_operation(f, &r), f->x.threads, c->parts, c->cluster, v, e->names[v], r.start, e->names[v], words);
}

static void combine(frame *f, fb_pass p)
{
    fb_emitter *e = f->e;
    for (int i = 0; f->x.cut && f->x.parts > 1 && i < f->s->n_values; i++)
        if (fb_value_reduces(&f->s->values[i], p)) combine_row(f, i);
    if (f->x.cut && f->x.parts > 1) return;
    for (int i = 0; f->x.team > 1 && i < f->s->n_values; i++) {
        if (!fb_value_reduces(&f->s->values[i], p)) continue;
        fb_reduction r = fb_emit_reduction(e, i);
        if (r.arg)
            fb_emit(e, "%s(%s, %s);", across(f, "_arg", r.op == FB_OP_ARGMAX ? "true" : "false"), best_of(f, i),
                    e->names[i]);
        else
            fb_emit(e, "%s = %s(%s);", e->names[i], across(f, "", operation_of(&r)), e->names[i]);
    }
}

static void finish_pass(frame *f, fb_pass p)
{
    for (int i = 0; i < f->s->n_values; i++) {
        if (!fb_value_reduces(&f->s->values[i], p)) continue;
        const char *points = fb_emit_mean_points(f->e, i);
        if (points) fb_emit(f->e, "%s /= %s;", f->e->names[i], points);
        f->e->known[i] = true;
        fb_emit_as_index(f->e, i);
    }
}

static void declare_scans(frame *f, fb_pass p, const bool *needed)
{
    for (int i = 0; i < f->s->n_values; i++) {
        const fb_value *v = &f->s->values[i];
        if (!needed[i] || v->kind != FB_VALUE_SCAN || v->over != p.space) continue;
        fb_emit(f->e, "%s%s%s = %s;", f->declared[i] ? "" : fb_emit_type(f->e, i), f->declared[i] ? "" : " ",
                f->e->names[i], fb_emit_reduction(f->e, i).start);
        f->declared[i] = true;
    }
}

/* ---- what passes keep ---- */

static int64_t steps_of(const frame *f, const walk *w)
{
    return fb_schedule_steps(&f->x, w->space, w->vector);
}

static void declare_held(frame *f, const walk *w, fb_pass p, const bool *needed)
{
    for (int i = 0; f->x.held && i < f->s->n_values; i++) {
        const fb_value *v = &f->s->values[i];
        if (v->kept && needed[i] && v->space == p.space && !f->e->whole[i])
            fb_emit(f->e, "%s %s[%" PRId64 "];", fb_emit_type(f->e, i), held_name(f, i), steps_of(f, w) * w->vector);
    }
}

static const char *held_element(frame *f, const walk *w, fb_val v)
{
    return w->vector > 1 ? fb_arena_printf(f->e->arena, "%s[fb_s * %d + %s]", held_name(f, v), w->vector, w->v)
                         : fb_arena_printf(f->e->arena, "%s[fb_s]", held_name(f, v));
}

/* What registers hold of memory, as it lies there … */
static void declare_fetched(frame *f, const walk *w, const bool *held, int64_t steps)
{
    fb_emitter *e = f->e;
    for (int i = 0; i < f->s->n_values; i++) {
        const fb_value *v = &f->s->values[i];
        if (held[i] && v->kind == FB_VALUE_LOAD)
            fb_emit(e, "fb_pack<%s, %d> %s[%" PRId64 "];", e->spell->type[dtype_of_storage(e, v->node)].memory,
                    w->vector, held_name(f, i), steps);
    }
}

/* … all on its way before the first pass begins: a step's groups of it. */
static void fetch_held(frame *f, const walk *w, const bool *held)
{
    fb_emitter *e = f->e;
    for (int i = 0; i < f->s->n_values; i++) {
        const fb_value *v = &f->s->values[i];
        if (!held[i] || v->kind != FB_VALUE_LOAD) continue;
        fb_emit(e, "%s[fb_s] = %s;", held_name(f, i), load_of(f, w, v));
        const char *element = fb_arena_printf(e->arena, "%s[fb_s].at[%s]", held_name(f, i), w->v ? w->v : "0");
        e->whole[i] = fb_emit_spell(e, e->spell->type[v->dtype].from, &element, 1);
        f->in_row[i] = true;
    }
}

/* First pass over a kept value: compute it, and keep it. */
static void fill_held(frame *f, const walk *w, fb_pass p, const bool *needed)
{
    fb_emitter *e = f->e;
    for (int i = 0; f->x.held && i < f->s->n_values; i++) {
        const fb_value *v = &f->s->values[i];
        if (!v->kept || !needed[i] || v->space != p.space || f->in_row[i]) continue;
        fb_emit_needed(e, i, p.space);
        fb_emit(e, "%s = %s;", held_element(f, w, i), fb_emit_ref(e, i));
    }
}

/* The same, of what is held in shared memory. */
static void fill_slots(frame *f, const walk *w, fb_pass p)
{
    fb_emitter *e = f->e;
    for (int i = 0; i < f->s->n_values; i++) {
        if (!is_made_here(f, i)) continue;
        fb_emit_needed(e, i, p.space);
        fb_emit(e, "%s.at[%s] = %s;", kept_name(f, i), w->v, fb_emit_ref(e, i));
    }
}

static void refer_held(frame *f, const walk *w, fb_pass p, const bool *needed)
{
    for (int i = 0; f->x.held && i < f->s->n_values; i++) {
        const fb_value *v = &f->s->values[i];
        if (!v->kept || !needed[i] || v->space != p.space || f->in_row[i]) continue;
        f->e->whole[i] = held_element(f, w, i);
        f->in_row[i] = true;
    }
}

/* ---- passes ---- */

static void open_groups(frame *f, const walk *w, const char *first, const char *last)
{
    fb_emit_for(f->e, NULL, "fb_p", first, last, fb_emit_number(f->e, f->x.threads));
    declare_variables(f, w, "fb_p");
}

/* A group that may reach beyond its row is done by a function of its own, so that all others need no tests. */
static void close_pass(frame *f, const walk *w, int opened)
{
    fb_emitter *e = f->e;
    if (is_ragged(f)) {
        fb_emit_close_by(e, "};");
        fb_emit(e, "fb_long_group<%d>(fb_group%s);", w->vector, edges(f, w));
    }
    while (opened--) fb_emit_close(e);
}

/* Does the place of an element that the pass loads take divisions of its one variable, as those of a product's windows do? */
static bool is_divided(const frame *f, const walk *w)
{
    int64_t by;
    for (int i = 0; i < f->s->n_values && w->space->n == 1; i++) {
        const fb_value *v = &f->s->values[i];
        if (v->kind == FB_VALUE_LOAD && fb_ix_divisors(f->e->nest->pool, v->at, w->space->var[0], &by, 1)) return true;
    }
    return false;
}

/* A thread's own window, whose elements' places are numbers where it is written out. Compilers do so with a short one by
 * themselves. */
static bool is_window_of_one(const frame *f, const walk *w)
{
    enum { SHORT = 32, SHORT_PRODUCT = 64, SHORTER = 16 };
    bool alone = f->x.deal == FB_DEAL_COLUMNS && f->x.team == 1 && !f->unrolled && !fb_schedule_is_sequential(f->s);
    bool product = w->points > SHORTER && w->points <= SHORT_PRODUCT && is_divided(f, w);
    return alone && (product || (w->space->n > 1 && w->points <= SHORT));
}

/* Columns of which several blocks have a part each. */
static bool in_parts(const frame *f)
{
    return f->x.deal == FB_DEAL_COLUMNS && f->x.parts > 1 && !f->x.scans;
}

/* Opens the loop that takes this thread along its row; returns how many blocks of text were opened. */
static int open_pass(frame *f, const walk *w)
{
    fb_emitter *e = f->e;
    const int of_part = f->x.deal == FB_DEAL_SPLIT ? f->x.threads : f->x.team;
    const bool parts = f->x.deal == FB_DEAL_SPLIT || in_parts(f);
    const int64_t stride = parts ? (int64_t)f->x.parts * of_part : f->x.team;
    const char *start = parts ? fb_arena_printf(e->arena, "fb_part * %d + %s", of_part, f->lane) : f->lane;
    if (!w->space->n) { /* a row of one element */
        fb_emit_if(e, "%s == 0", start);
        return 1;
    }
    if (f->x.cut) {
        open_groups(f, w, f->first, f->last);
        if (is_ragged(f)) fb_emit_open(e, "const auto fb_group = [&](auto fb_whole)");
        return 1;
    }
    if (f->x.held || f->x.stepped) {
        int64_t steps = steps_of(f, w);
        bool ragged = w->points % stride != 0;
        fb_emit_unrolled(e, "fb_s", fb_emit_number(e, steps));
        fb_emit(e, "const fb_at fb_p = fb_s * %" PRId64 " + %s;", stride, start);
        if (ragged) fb_emit_if(e, "fb_p < %" PRId64, w->points);
        declare_variables(f, w, "fb_p");
        return 1 + ragged;
    }
    if (f->unrolled) fb_emit_directive(e, "#pragma unroll %d", f->unrolled);
    if (is_window_of_one(f, w)) fb_emit_directive(e, "#pragma unroll");
    fb_emit_for(e, NULL, "fb_p", start, fb_emit_number(e, w->points), fb_emit_number(e, stride));
    declare_variables(f, w, "fb_p");
    return 1;
}

static const char *each_name(frame *f, fb_val v)
{
    return fb_arena_printf(f->e->arena, "fb_each_%s", f->e->names[v]);
}

static const char *of_each(frame *f, fb_val v)
{
    return fb_arena_printf(f->e->arena, "%s[v]", each_name(f, v));
}

/* The divisors of neighbouring columns, whose numbers are in an array; NULL: they are not. */
static const char *divisors_of_each(frame *f, fb_val v, const char *name)
{
    fb_emitter *e = f->e;
    fb_str all = {0};
    if (!e->whole[v] || strcmp(e->whole[v], of_each(f, v))) return NULL;
    for (int i = 0; i < f->x.each; i++) fb_str_addf(&all, "%s%s[%d]", i ? ", " : "", each_name(f, v), i);
    fb_emit(e, "const fb_long_divisor %s[] = {%s};", name, fb_str_get(&all));
    fb_str_free(&all);
    return fb_arena_printf(e->arena, "%s[v]", name);
}

/* What a whole row is divided by: once for the row, and a product for each element. */
static void declare_divisors(frame *f, const bool *needed)
{
    fb_emitter *e = f->e;
    if (!f->x.inverts && !e->divides_rows) return;
    if (!e->divisors) e->divisors = FB_NEW_ARRAY(e->arena, const char *, f->s->n_values);
    for (int i = 0; i < f->s->n_values; i++) {
        const fb_value *v = &f->s->values[i];
        if (!needed[i] || v->kind != FB_VALUE_OP || v->space == FB_NONE || v->dtype == FB_F64) continue;
        if (e->nest->graph->nodes[v->node].op != FB_OP_DIV || !fb_dtype_is_float(v->dtype)) continue;
        const fb_value *by = &f->s->values[v->args[1]];
        if (by->space != FB_NONE || by->kind == FB_VALUE_CONST || e->divisors[v->args[1]]) continue;
        const char *name = fb_arena_printf(e->arena, "fb_by_%s", e->names[v->args[1]]);
        if (f->x.band && (by->rows & 1u << (f->s->rows.n - 1))) {
            e->divisors[v->args[1]] = divisors_of_each(f, v->args[1], name);
            continue;
        }
        e->divisors[v->args[1]] = name;
        fb_emit(e, "const fb_long_divisor %s(%s);", name, fb_emit_ref(e, v->args[1]));
    }
}

/* One group of elements of a pass, where this thread is on its way: what is loaded, made, added up and stored. */
static void emit_group(frame *f, const walk *w, fb_pass p, const bool *needed)
{
    fb_emitter *e = f->e;
    const bool guarded = f->inside != NULL;
    load_packs(f, w, p.space, needed);
    open_vector(f, w, p.space, p.depth);
    fill_held(f, w, p, needed);
    fill_slots(f, w, p);
    for (int i = 0; i < f->s->n_values; i++)
        if (needed[i] && f->s->values[i].space == p.space) fb_emit_needed(e, i, p.space);
    for (int i = 0; i < f->s->n_values; i++)
        if (fb_value_reduces(&f->s->values[i], p)) step(f, i);
    store_elements(f, w, p.space, p.depth, guarded);
    close_vector(f, w, p.space, p.depth, guarded);
}

/* ---- running values that a team goes along together ---- */

static const char *scan_name(frame *f, const char *what, fb_val v)
{
    return fb_arena_printf(f->e->arena, "fb_%s_%s", what, f->e->names[v]);
}

static bool scans_here(const frame *f, fb_val v, fb_pass p, const bool *needed)
{
    return needed[v] && f->s->values[v].kind == FB_VALUE_SCAN && f->s->values[v].over == p.space;
}

static bool any_scans(const frame *f, fb_pass p, const bool *needed)
{
    bool any = false;
    for (int i = 0; f->x.scans && i < f->s->n_values; i++) any |= scans_here(f, i, p, needed);
    return any;
}

/* Marks what v is made of in this pass, running values as they are. */
static void mark_made(const frame *f, fb_val v, bool *made)
{
    const fb_value *x = &f->s->values[v];
    if (made[v]) return;
    made[v] = true;
    for (int i = 0; i < x->n_args && x->kind != FB_VALUE_SCAN; i++) mark_made(f, x->args[i], made);
}

/* A thread's own elements: what they come to together, and that on the way. */
static void run_own(frame *f, const walk *w, fb_pass p, const bool *needed)
{
    fb_emitter *e = f->e;
    bool *made = FB_NEW_ARRAY(e->arena, bool, f->s->n_values), *mark = fb_emit_mark(e);
    for (int i = 0; i < f->s->n_values; i++)
        if (scans_here(f, i, p, needed)) mark_made(f, f->s->values[i].args[0], made);
    load_packs(f, w, p.space, made);
    if (w->vector > 1) open_each(f, w);
    for (int i = 0; i < f->s->n_values; i++) {
        if (!scans_here(f, i, p, needed)) continue;
        fb_val x = f->s->values[i].args[0];
        fb_emit_needed(e, x, p.space);
        fb_emit_run_on(e, i, scan_name(f, "own", i), fb_emit_ref(e, x));
        fb_emit(e, "%s[%s] = %s;", scan_name(f, "run", i), w->vector > 1 ? w->v : "0", scan_name(f, "own", i));
    }
    if (w->vector > 1) close_each(f, w);
    fb_emit_forget(e, mark);
    forget_packs(f);
}

/* What follows from the running values at a thread's elements: of what threads before it have, and of its own. */
static void store_own(frame *f, const walk *w, fb_pass p, const bool *needed)
{
    fb_emitter *e = f->e;
    bool *made = FB_NEW_ARRAY(e->arena, bool, f->s->n_values);
    for (int i = 0; i < f->s->n_roots; i++)
        if (root_is_here(&f->s->roots[i], p.space, p.depth)) mark_made(f, f->s->roots[i].value, made);
    for (int i = 0; i < f->s->n_values; i++)
        if (fb_value_reduces(&f->s->values[i], p))
            for (int k = 0; k < f->s->values[i].n_args; k++) mark_made(f, f->s->values[i].args[k], made);
    for (int i = 0; i < f->s->n_values; i++) {
        made[i] = made[i] && needed[i];
        if (scans_here(f, i, p, needed))
            e->whole[i] = fb_arena_printf(e->arena, "(%s)",
                                          fb_emit_running(e, i, scan_name(f, "before", i),
                                                          fb_arena_printf(e->arena, "%s[%s]", scan_name(f, "run", i),
                                                                          w->vector > 1 ? w->v : "0")));
    }
    emit_group(f, w, p, made);
    for (int i = 0; i < f->s->n_values; i++)
        if (scans_here(f, i, p, needed)) e->whole[i] = NULL;
}

/* A thread has neighbours to go along, also where these cannot move as one: the team meets a few times less. */
static walk by_neighbours(const frame *f, const walk *w)
{
    int64_t points = fb_space_points(w->space), groups = fb_ceil_div(points, FB_SCAN_EACH);
    if (w->vector > 1 || w->space->n != 1 || groups < f->x.team) return *w;
    walk apart = walk_by(f->e, w->space, FB_SCAN_EACH, groups);
    apart.apart = true;
    return apart;
}

/* A row of which several blocks go along a part each. */
static bool scans_in_parts(const frame *f)
{
    return f->x.scans && f->x.parts > 1;
}

static void declare_own(frame *f, const walk *w, fb_pass p, const bool *needed)
{
    fb_emitter *e = f->e;
    for (int i = 0; i < f->s->n_values; i++)
        if (scans_here(f, i, p, needed))
            fb_emit(e, "%s %s = %s, %s[%d] = {}, %s;", fb_emit_type(e, i), scan_name(f, "own", i),
                    fb_emit_reduction(e, i).start, scan_name(f, "run", i), w->vector, scan_name(f, "all", i));
}

/* What a step's element of a thread is, if there is one. */
static void open_step(frame *f, const walk *w)
{
    if (w->points % f->x.team != 0)
        fb_emit_if(f->e, "fb_p < %" PRId64, w->points);
    else
        fb_emit_open(f->e, "%s", "");
    declare_variables(f, w, "fb_p");
}

/* What a step's or a part's threads before this one have, by the name `before`, and all of them by that of
 * scan_name(all). */
static void scan_along(frame *f, fb_val v, const char *own, const char *before, const char *more)
{
    fb_emitter *e = f->e;
    const fb_reduction r = fb_emit_reduction(e, v);
    const char *text =
        fb_arena_printf(e->arena, "fb_scan_%s<%s, %d>(%s, %s)", f->x.deal == FB_DEAL_COLUMNS ? "columns" : "team",
                        operation_of(&r), f->x.team, own, scan_name(f, "all", v));
    fb_emit(e, "const %s %s = %s;", fb_emit_type(e, v), before, more ? fb_emit_running(e, v, more, text) : text);
}

/* What all threads of this block have of a part, and those of the parts before, of one row. */
static void give_row(frame *f, fb_val v, const char *words)
{
    fb_emitter *e = f->e;
    const fb_reduction r = fb_emit_reduction(e, v);
    const int parts = f->x.parts, threads = f->x.threads;
    const char *total = scan_name(f, "total", v), *carry = scan_name(f, "carry", v);
    fb_emit(e, "%s = fb_block<%s, %d>(%s);", total, operation_of(&r), threads, total);
    fb_emit(e, "if (threadIdx.x == 0) fb_long_give(&%s[%s * %d + fb_part], %s);", words, f->block, parts, total);
    fb_emit_for(e, "int", "fb_before", "threadIdx.x", "fb_part", fb_emit_number(e, threads));
    fb_emit_run_on(e, v, carry,
                   fb_arena_printf(e->arena, "fb_long_take(&%s[%s * %d + fb_before])", words, f->block, parts));
    fb_emit_close(e);
    fb_emit(e, "%s = fb_block<%s, %d>(%s);", carry, operation_of(&r), threads, carry);
}

/* Of a row of a warp's, in the words of a part. */
static const char *column_word(const frame *f, const char *words, const char *part)
{
    const int warp = f->e->target->warp;
    return fb_arena_printf(f->e->arena, "&%s[(%s * %d + %s) * %d + threadIdx.x %% %d]", words, f->block, f->x.parts,
                           part, warp, warp);
}

/* … of a warp's rows side by side, of which each has a thread in all warps. */
static void give_columns(frame *f, fb_val v, const char *words)
{
    fb_emitter *e = f->e;
    const char *carry = scan_name(f, "carry", v), *all = scan_name(f, "all", v);
    fb_emit_open(e, "%s", "");
    fb_emit(e, "%s %s;", fb_emit_type(e, v), all);
    scan_along(f, v, scan_name(f, "total", v), scan_name(f, "inside", v), NULL);
    fb_emit(e, "if (threadIdx.x < %d) fb_long_give(%s, %s);", e->target->warp, column_word(f, words, "fb_part"), all);
    fb_emit_for(e, "int", "fb_before", f->lane, "fb_part", fb_emit_number(e, f->x.team));
    fb_emit_run_on(e, v, carry, fb_arena_printf(e->arena, "fb_long_take(%s)", column_word(f, words, "fb_before")));
    fb_emit_close(e);
    scan_along(f, v, carry, scan_name(f, "taken", v), NULL);
    fb_emit(e, "%s = %s;", carry, all);
    fb_emit_close(e);
}

/* What the blocks of the parts before this one have in all, which each says as soon as it knows it. */
static void carry_from_parts(frame *f, const walk *w, fb_pass p, const bool *needed)
{
    fb_emitter *e = f->e;
    const int parts = f->x.parts;
    const bool columns = f->x.deal == FB_DEAL_COLUMNS;
    const int64_t groups = f->x.blocks / parts, words_of = (int64_t)parts * (columns ? e->target->warp : 1);
    for (int i = 0; i < f->s->n_values; i++)
        if (scans_here(f, i, p, needed))
            fb_emit(e, "%s %s = %s;", fb_emit_type(e, i), scan_name(f, "total", i), fb_emit_reduction(e, i).start);
    fb_emit_for(e, NULL, "fb_s", "fb_begin", "fb_end", "1");
    fb_emit(e, "const fb_at fb_p = fb_s * %d + %s;", f->x.team, f->lane);
    declare_own(f, w, p, needed);
    open_step(f, w);
    run_own(f, w, p, needed);
    fb_emit_close(e);
    for (int i = 0; i < f->s->n_values; i++)
        if (scans_here(f, i, p, needed)) fb_emit_run_on(e, i, scan_name(f, "total", i), scan_name(f, "own", i));
    fb_emit_close(e);
    for (int i = 0; i < f->s->n_values; i++) {
        if (!scans_here(f, i, p, needed)) continue;
        const char *words = scan_name(f, "words", i);
        fb_emit(e, "static __device__ fb_long_words<%s> %s[%" PRId64 "];", fb_emit_type(e, i), words,
                groups * words_of);
        (columns ? give_columns : give_row)(f, i, words);
    }
    fb_emit(e, "static __device__ unsigned fb_left_%d[%" PRId64 "];", e->number, groups);
    fb_emit_if(e, "fb_long_is_last<%d>(&fb_left_%d[%s])", parts, e->number, f->block);
    for (int i = 0; i < f->s->n_values; i++)
        if (scans_here(f, i, p, needed))
            fb_emit(e, "fb_long_clear<%" PRId64 ">(&%s[%s * %" PRId64 "]);", words_of, scan_name(f, "words", i),
                    f->block, words_of);
    fb_emit_close(e);
    fb_needs_text(&e->needs, FB_TEXT_LONG);
    e->needs.meets = FB_MEETS_ROW;
    e->needs.row = parts;
}

static void go_along(frame *f, const walk *of, fb_pass p, const bool *needed)
{
    fb_emitter *e = f->e;
    const walk own = by_neighbours(f, of), *w = &own;
    const int64_t steps = fb_ceil_div(w->points, f->x.team);
    const bool parts = scans_in_parts(f);
    fb_needs_text(&e->needs, FB_TEXT_SCAN);
    fb_emit_open(e, "%s", ""); /* another pass may go along the same values */
    for (int i = 0; i < f->s->n_values; i++)
        if (scans_here(f, i, p, needed))
            fb_emit(e, "%s %s = %s;", fb_emit_type(e, i), scan_name(f, "carry", i), fb_emit_reduction(e, i).start);
    if (parts) {
        fb_emit(e, "const fb_at fb_begin = (fb_at)((int64_t)fb_part * %" PRId64 " / %d);", steps, f->x.parts);
        fb_emit(e, "const fb_at fb_end = (fb_at)((fb_part + (int64_t)1) * %" PRId64 " / %d);", steps, f->x.parts);
        carry_from_parts(f, w, p, needed);
    }
    fb_emit_for(e, NULL, "fb_s", parts ? "fb_begin" : "0", parts ? "fb_end" : fb_emit_number(e, steps), "1");
    fb_emit(e, "const fb_at fb_p = fb_s * %d + %s;", f->x.team, f->lane);
    declare_own(f, w, p, needed);
    for (int part = 0; part < 2; part++) {
        open_step(f, w);
        (part ? store_own : run_own)(f, w, p, needed);
        fb_emit_close(e);
        for (int i = 0; i < f->s->n_values && !part; i++) {
            if (!scans_here(f, i, p, needed)) continue;
            scan_along(f, i, scan_name(f, "own", i), scan_name(f, "before", i), scan_name(f, "carry", i));
            fb_emit_run_on(e, i, scan_name(f, "carry", i), scan_name(f, "all", i));
        }
    }
    fb_emit_close(e);
    fb_emit_close(e);
}

/* Where blocks leave what they have of their rows, and who does. */
typedef struct {
    const char *writes;  /* the threads that do */
    const char *at, *of; /* its own part's place, and that of `part` */
    const char *lane;    /* a thread's first part … */
    int step;            /* … and how many it goes on by */
    const char *group;   /* number of the blocks that share rows … */
    int64_t groups;      /* … of so many */
    bool several;        /* threads write */
} shared_parts;

static shared_parts parts_of_rows(frame *f)
{
    fb_arena *arena = f->e->arena;
    shared_parts s = {.writes = "threadIdx.x == 0",
                      .at = f->block,
                      .of = fb_arena_printf(arena, "fb_row * %d + part", f->x.parts),
                      .lane = "threadIdx.x",
                      .step = f->x.threads,
                      .group = "fb_row",
                      .groups = f->x.rows};
    if (!in_parts(f)) return s;
    s.writes = fb_arena_printf(arena, f->inside ? "%s == 0 && %s" : "%s == 0", f->lane, f->inside);
    s.at = fb_arena_printf(arena, "fb_part * %" PRId64 " + %s", f->x.rows, f->row);
    s.of = fb_arena_printf(arena, "part * %" PRId64 " + %s", f->x.rows, f->row);
    s.lane = f->lane;
    s.step = f->x.team;
    s.group = f->block;
    s.groups = f->x.blocks / f->x.parts;
    s.several = true;
    return s;
}

/* What a block has of this value's parts; `index`: of an extremum, where it is. */
static const char *part_name(frame *f, fb_val v, bool index)
{
    return fb_arena_printf(f->e->arena, index ? "fb_places_%s" : "fb_parts_%s", f->e->names[v]);
}

static void leave_part(frame *f, fb_val v, const shared_parts *s)
{
    fb_emitter *e = f->e;
    const bool arg = fb_emit_reduction(e, v).arg;
    fb_emit(e, "%s[%s] = %s;", part_name(f, v, false), s->at, arg ? best_of(f, v) : e->names[v]);
    if (arg) fb_emit(e, "%s[%s] = %s;", part_name(f, v, true), s->at, e->names[v]);
}

static void take_parts(frame *f, fb_val v, const shared_parts *s)
{
    fb_emitter *e = f->e;
    const fb_reduction r = fb_emit_reduction(e, v);
    const char *type = r.arg ? fb_emit_operand_type(e, v) : fb_emit_type(e, v);
    const char *loop =
        fb_arena_printf(e->arena, "for (int part = %s; part < %d; part += %d)", s->lane, f->x.parts, s->step);
    const char *part = fb_arena_printf(e->arena, "*(volatile %s *)&%s[%s]", type, part_name(f, v, false), s->of);
    if (!r.arg) {
        fb_emit(e, "%s = %s;", e->names[v], r.start);
        fb_emit(e, "%s %s = %s::of(%s, %s);", loop, e->names[v], operation_of(&r), e->names[v], part);
        return;
    }
    fb_emit(e, "%s = %s;", best_of(f, v), r.start);
    fb_emit(e, "%s = INT64_MAX;", e->names[v]);
    fb_emit(e, "%s fb_better<%s>(%s, %s, %s, *(volatile int64_t *)&%s[%s]);", loop,
            r.op == FB_OP_ARGMAX ? "true" : "false", best_of(f, v), e->names[v], part, part_name(f, v, true), s->of);
}

/* Every block adds up its part of a row and leaves it in memory; the block that comes last adds up the parts. The
 * counter is left at zero for the next launch. */
static void combine_parts(frame *f, fb_pass p)
{
    fb_emitter *e = f->e;
    const shared_parts s = parts_of_rows(f);
    for (int i = 0; i < f->s->n_values; i++) {
        if (!fb_value_reduces(&f->s->values[i], p)) continue;
        const bool arg = fb_emit_reduction(e, i).arg;
        fb_emit(e, "static __device__ %s %s[%" PRId64 "];", arg ? fb_emit_operand_type(e, i) : fb_emit_type(e, i),
                part_name(f, i, false), f->x.rows * f->x.parts);
        if (arg)
            fb_emit(e, "static __device__ int64_t %s[%" PRId64 "];", part_name(f, i, true), f->x.rows * f->x.parts);
    }
    fb_emit(e, "static __device__ unsigned fb_arrived_%d[%" PRId64 "];", e->number, s.groups);
    fb_emit(e, "__shared__ bool fb_is_last_%d;", e->number);
    fb_emit_if(e, "%s", s.writes);
    for (int i = 0; i < f->s->n_values; i++)
        if (fb_value_reduces(&f->s->values[i], p)) leave_part(f, i, &s);
    fb_emit(e, "__threadfence();");
    if (s.several) {
        fb_emit_close(e);
        fb_emit(e, "fb_meet<%d>();", f->x.threads);
        fb_emit_if(e, "threadIdx.x == 0");
    }
    fb_emit(e, "fb_is_last_%d = atomicAdd(&fb_arrived_%d[%s], 1u) == %d;", e->number, e->number, s.group,
            f->x.parts - 1);
    fb_emit_close(e);
    fb_emit(e, FB_MUTATE(52, "fb_meet<%d>();", ";"), f->x.threads);
    fb_emit(e, "if (!fb_is_last_%d) return;", e->number);
    fb_emit(e, "__threadfence();");
    for (int i = 0; i < f->s->n_values; i++)
        if (fb_value_reduces(&f->s->values[i], p)) take_parts(f, i, &s);
    combine(f, p);
    fb_emit(e, "if (threadIdx.x == 0) fb_arrived_%d[%s] = 0;", e->number, s.group);
}

static void emit_pass(frame *f, int number)
{
    fb_emitter *e = f->e;
    fb_pass p = f->s->passes[number];
    walk w = walk_of(f, p.space);
    bool *needed = FB_NEW_ARRAY(e->arena, bool, f->s->n_values);
    fb_section_needed(f->s, number, needed);
    f->pass = number;
    fb_emit_row_values(e, needed);
    declare_divisors(f, needed);
    declare_held(f, &w, p, needed);
    declare_accumulators(f, p);
    bool *mark = fb_emit_mark(e);
    if (any_scans(f, p, needed)) {
        go_along(f, &w, p, needed);
    } else {
        declare_scans(f, p, needed);
        int opened = open_pass(f, &w);
        emit_group(f, &w, p, needed);
        close_pass(f, &w, opened);
    }
    fb_emit_forget(e, mark);
    forget_packs(f);
    refer_held(f, &w, p, needed);
    combine(f, p);
    if (in_parts(f)) combine_parts(f, p);
    finish_pass(f, p);
}

/* Roots that have one element a row: one thread of the team stores. */
static void store_row_values(frame *f, int depth)
{
    fb_emitter *e = f->e;
    bool any = false;
    for (int i = 0; i < f->s->n_roots; i++) {
        if (!root_is_here(&f->s->roots[i], FB_NONE, depth)) continue;
        fb_emit_needed(e, f->s->roots[i].value, FB_NONE);
        any = true;
    }
    if (!any) return;
    const char *one = f->x.team > 1 ? fb_arena_printf(e->arena, "%s == 0", f->lane) : NULL;
    if (f->x.cut && f->x.parts > 1) one = "fb_part == 0 && threadIdx.x == 0";
    const char *condition = one && f->inside ? fb_arena_printf(e->arena, "%s && %s", one, f->inside)
                            : one            ? one
                                             : f->inside;
    if (condition) fb_emit_if(e, "%s", condition);
    for (int i = 0; i < f->s->n_roots; i++)
        if (root_is_here(&f->s->roots[i], FB_NONE, depth)) fb_emit_store(e, &f->s->roots[i]);
    if (condition) fb_emit_close(e);
}

/* Which row this thread works on, and which place it has in the row's team. */
static void declare_rows(frame *f)
{
    fb_emitter *e = f->e;
    const char *row = fb_emit_name(e, "row");
    bool columns = f->x.deal == FB_DEAL_COLUMNS && f->x.team > 1;
    if (f->x.team == 1)
        f->lane = "0";
    else if (columns)
        f->lane = fb_arena_printf(e->arena, "threadIdx.x / %d", e->target->warp);
    else if (f->x.team == f->x.threads)
        f->lane = "threadIdx.x";
    else {
        f->lane = fb_emit_name(e, "place");
        fb_emit(e, "const int %s = threadIdx.x %% %d;", f->lane, f->x.team);
    }
    const char *at = f->x.rows_a_block == 1 ? f->block : NULL;
    if (!at) {
        const char *within = "threadIdx.x";
        if (columns) within = fb_arena_printf(e->arena, "threadIdx.x %% %d", e->target->warp);
        if (!columns && f->x.team > 1) within = fb_arena_printf(e->arena, "threadIdx.x / %d", f->x.team);
        at = fb_arena_printf(e->arena, "(fb_at)%s * %" PRId64 " + %s", f->block, f->x.rows_a_block, within);
    }
    if (f->x.rows % f->x.rows_a_block) {
        const char *any = fb_emit_name(e, "any_row");
        f->inside = fb_emit_name(e, "inside");
        fb_emit(e, "const fb_at %s = %s;", any, at);
        fb_emit(e, "const bool %s = %s < %" PRId64 ";", f->inside, any, f->x.rows);
        fb_emit(e, "const fb_at %s = %s ? %s : %" PRId64 ";", row, f->inside, any, f->x.rows - 1);
    } else if (f->s->rows.n) {
        fb_emit(e, "const fb_at %s = %s;", row, at);
    }
    f->row = row;
    declare_point(f, &f->s->rows, row);
}

static void fetch_rows(frame *f)
{
    const walk w = walk_of(f, 0);
    bool *held = FB_NEW_ARRAY(f->e->arena, bool, f->s->n_values);
    for (int i = 0; i < f->s->n_values; i++) held[i] = f->s->values[i].kept;
    fb_needs_text(&f->e->needs, FB_TEXT_LONG);
    declare_fetched(f, &w, held, steps_of(f, &w));
    int opened = open_pass(f, &w);
    fetch_held(f, &w, held);
    while (opened--) fb_emit_close(f->e);
}

static void passes_of_row(frame *f)
{
    for (int depth = 0; depth <= fb_emit_deepest(f->s); depth++) {
        store_row_values(f, depth);
        for (int p = 0; p < f->s->n_passes; p++)
            if (f->s->passes[p].depth == depth) emit_pass(f, p);
    }
}

/* ---- neighbouring rows at once ---- */

/* A sum for each of the rows; returns what the group's element adds to, by value. */
static const char **declare_each(frame *f, fb_pass p)
{
    fb_emitter *e = f->e;
    const char **sums = FB_NEW_ARRAY(e->arena, const char *, f->s->n_values);
    for (int i = 0; i < f->s->n_values; i++) {
        if (!fb_value_reduces(&f->s->values[i], p)) continue;
        const char *name = each_name(f, i), *start = fb_emit_reduction(e, i).start;
        fb_emit(e, "%s %s[%d];", fb_emit_type(e, i), name, f->x.each);
        fb_emit(e, "for (int v = 0; v < %d; v++) %s[v] = %s;", f->x.each, name, start);
        sums[i] = of_each(f, i);
    }
    return sums;
}

/* Each row's sum, for the threads that finish it. */
static void combine_each(frame *f, fb_pass p)
{
    fb_emitter *e = f->e;
    for (int i = 0; i < f->s->n_values; i++) {
        if (!fb_value_reduces(&f->s->values[i], p)) continue;
        fb_reduction r = fb_emit_reduction(e, i);
        fb_emit(e, "%s %s = fb_columns_each<%s, %d>(%s);", fb_emit_type(e, i), e->names[i], operation_of(&r), f->x.team,
                each_name(f, i));
    }
}

/* The pass, of `each` rows that lie side by side; rows begin when their sums are there. */
static void emit_each(frame *f)
{
    fb_emitter *e = f->e;
    const fb_section *s = f->s;
    const fb_pass p = s->passes[0];
    const fb_space *along = &s->spaces[p.space];
    const int each = f->x.each, beside = e->target->warp / each, lanes = f->x.threads / beside;
    const char *lane = fb_arena_printf(e->arena, "threadIdx.x / %d", beside);
    if (in_parts(f)) lane = fb_arena_printf(e->arena, "fb_part * %d + %s", lanes, lane);
    walk w = walk_by(e, &s->rows, each, f->x.rows / each);
    bool *needed = FB_NEW_ARRAY(e->arena, bool, s->n_values);
    fb_section_needed(s, 0, needed);
    f->sums = declare_each(f, p);
    bool *mark = fb_emit_mark(e);
    fb_emit_for(e, NULL, "fb_p", lane, fb_emit_number(e, fb_space_points(along)),
                fb_emit_number(e, in_parts(f) ? (int64_t)f->x.parts * lanes : lanes));
    const char *group = fb_emit_name(e, "group");
    fb_emit(e, "const fb_at %s = (fb_at)%s * %d + threadIdx.x %% %d;", group, f->block, beside, beside);
    declare_variables(f, &w, group);
    declare_point(f, along, "fb_p");
    emit_group(f, &w, p, needed);
    fb_emit_close(e);
    fb_emit_forget(e, mark);
    forget_packs(f);
    f->sums = NULL;
    combine_each(f, p);
    declare_rows(f);
    if (in_parts(f)) combine_parts(f, p);
    store_row_values(f, p.depth);
    finish_pass(f, p);
    for (int depth = p.depth + 1; depth <= fb_emit_deepest(s); depth++) store_row_values(f, depth);
}

/* ---- windows of neighbouring rows ---- */

typedef struct {
    const frame *f;
    int space;
    fb_ix group, first; /* the number of the neighbours, and the first one's variable */
    bool asked;         /* something but loads hangs on where a point is */
    fb_window_place place;
} window_at;

static fb_ix index_there(const window_at *w, fb_ix at)
{
    return fb_window_index(w->f->e->nest->pool, w->f->s, w->space, w->group, w->f->x.each, w->place, at);
}

/* What is a multiple of as many as there are neighbours is asked whether it is at a multiple or beyond: so elements that move
 * together are tested alike. */
static fb_when test_there(const void *ctx, fb_when when)
{
    const window_at *w = ctx;
    const int each = w->f->x.each;
    fb_ix whole, at = index_there(w, when.at);
    int rest;
    when.at = at;
    if (!fb_window_whole(w->f->e->nest->pool, each, at, &whole, &rest)) return when;
    when.at = whole;
    when.low = fb_floor_div(when.low - rest + each - 1, each) * each;
    when.high = fb_floor_div(when.high - rest + each - 1, each) * each;
    return when;
}

/* Elements that are there already, by how they were loaded. */
typedef struct {
    const char **text, **name;
    int n;
} loaded_elements;

static const char *name_once(frame *f, const char *type, const char *text, loaded_elements *all)
{
    fb_emitter *e = f->e;
    for (int i = 0; i < all->n; i++)
        if (strcmp(all->text[i], text) == 0) return all->name[i];
    const char *name = fb_emit_name(e, fb_arena_printf(e->arena, "fb_near_%d", all->n));
    fb_emit(e, "const %s %s = %s;", type, name, text);
    all->text[all->n] = text;
    all->name[all->n++] = name;
    return name;
}

/* An element of the window, by itself or with its neighbours. */
static const char *load_once(frame *f, const fb_value *v, const window_at *at, loaded_elements *all)
{
    fb_emitter *e = f->e;
    const char *tests = fb_emit_tests_at(e, v->when, test_there, at), *text;
    const fb_dtype dtype = dtype_of_storage(e, v->node);
    fb_ix index = index_there(at, v->at), group;
    int which;
    if (fb_window_group(e->nest, v, f->x.each, index, &group, &which)) {
        text = fb_arena_printf(e->arena, "fb_load<%d>(&%s)", f->x.each, fb_emit_element(e, v->node, v->table, group));
        if (tests)
            text = fb_arena_printf(e->arena, "%s ? %s : fb_pack<%s, %d>{}", tests, text, e->spell->type[dtype].memory,
                                   f->x.each);
        text = fb_arena_printf(e->arena, "%s.at[%d]", name_once(f, "auto", text, all), which);
        return fb_emit_spell(e, e->spell->type[v->dtype].from, &text, 1);
    }
    text = fb_emit_element(e, v->node, v->table, index);
    text = fb_emit_spell(e, e->spell->type[v->dtype].from, &text, 1);
    if (tests) text = fb_arena_printf(e->arena, "%s ? %s : 0", tests, text);
    return name_once(f, e->spell->type[v->dtype].value, text, all);
}

/* Does anything but an element's load hang on where a point is? */
static bool asks_where(const fb_section *s, const bool *needed, int space)
{
    bool asks = false;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        const bool plain = v->kind == FB_VALUE_CONST || (v->space == space && v->kind == FB_VALUE_OP);
        asks |= needed[i] && !plain && !(v->space == space && v->kind == FB_VALUE_LOAD);
    }
    return asks;
}

/* What is reduced from here on is row number `row`'s of those that are done at once. */
static void add_to_row(frame *f, int row)
{
    for (int i = 0; i < f->s->n_values; i++)
        if (fb_value_reduces(&f->s->values[i], f->s->passes[0]))
            f->sums[i] = fb_arena_printf(f->e->arena, "%s[%d]", each_name(f, i), row);
}

/* A point of one neighbour's window, in a block of its own; what is loaded stands before it. */
static void emit_window_point(frame *f, const window_at *at, const bool *needed, loaded_elements *all)
{
    fb_emitter *e = f->e;
    const fb_section *s = f->s;
    for (int i = 0; i < s->n_values; i++)
        if (needed[i] && s->values[i].kind == FB_VALUE_LOAD && s->values[i].space == at->space)
            e->whole[i] = load_once(f, &s->values[i], at, all);
    add_to_row(f, at->place.neighbour);
    bool *mark = fb_emit_mark(e);
    const int names = fb_names_count(e->used);
    fb_emit_open(e, "%s", "");
    if (at->asked) {
        fb_emit(e, "const fb_at %s = %s + %d;", var_name(e, s->rows.var[s->rows.n - 1]), var_name(e, at->first),
                at->place.neighbour);
        declare_point(f, &s->spaces[at->space], fb_emit_number(e, at->place.point));
    }
    for (int i = 0; i < s->n_values; i++)
        if (needed[i] && s->values[i].space == at->space) fb_emit_needed(e, i, at->space);
    for (int i = 0; i < s->n_values; i++)
        if (fb_value_reduces(&s->values[i], s->passes[0])) step(f, i);
    fb_emit_close(e);
    fb_names_forget(e->used, names);
    fb_emit_forget(e, mark);
}

static void refer_sums(frame *f, fb_pass p)
{
    fb_emitter *e = f->e;
    for (int i = 0; i < f->s->n_values; i++) {
        if (!fb_value_reduces(&f->s->values[i], p)) continue;
        const char *points = fb_emit_mean_points(e, i);
        if (points) fb_emit(e, "for (int v = 0; v < %d; v++) %s[v] /= %s;", f->x.each, each_name(f, i), points);
        e->whole[i] = of_each(f, i);
    }
}

/* What becomes of the rows' sums. */
static void store_neighbours(frame *f, const walk *rows, fb_pass p)
{
    load_all(f, rows);
    for (int depth = p.depth; depth <= fb_emit_deepest(f->s); depth++) {
        bool any = false;
        for (int i = 0; i < f->s->n_roots; i++) any |= root_is_here(&f->s->roots[i], FB_NONE, depth);
        if (any) store_group(f, rows, depth, NULL, NULL);
    }
    for (int i = 0; i < f->s->n_values; i++)
        if (fb_value_reduces(&f->s->values[i], p)) f->e->whole[i] = NULL;
}

/* Each thread takes a group of neighbouring rows, of which there may be fewer than threads: then a block is open. */
static bool open_group(frame *f, const walk *w)
{
    fb_emitter *e = f->e;
    const int64_t groups = f->x.rows / f->x.each;
    const bool ragged = groups % f->x.threads != 0;
    const char *group = fb_emit_name(e, "group");
    fb_emit(e, "const fb_at %s = (fb_at)%s * %d + threadIdx.x;", group, f->block, f->x.threads);
    if (ragged) fb_emit_if(e, "%s < %" PRId64, group, groups);
    declare_variables(f, w, group);
    return ragged;
}

/* A thread's windows are written out, so that what they share is loaded once. */
static void emit_windows(frame *f)
{
    fb_emitter *e = f->e;
    const fb_section *s = f->s;
    const fb_pass p = s->passes[0];
    const int64_t points = fb_space_points(&s->spaces[p.space]);
    const walk w = walk_by(e, &s->rows, f->x.each, f->x.rows / f->x.each);
    bool *needed = FB_NEW_ARRAY(e->arena, bool, s->n_values);
    loaded_elements all = {0};
    all.text = FB_NEW_ARRAY(e->arena, const char *, points * f->x.each * s->n_values);
    all.name = FB_NEW_ARRAY(e->arena, const char *, points * f->x.each * s->n_values);
    fb_section_needed(s, 0, needed);
    const bool ragged = open_group(f, &w);
    const char *number = fb_arena_printf(e->nest->arena, "%s_%d", var_name(e, w.first), f->x.each);
    const fb_ix by = fb_ix_var(e->nest->pool, number, s->rows.extent[s->rows.n - 1] / f->x.each);
    fb_emit(e, "const fb_at %s = %s / %d;", number, var_name(e, w.first), f->x.each);
    f->sums = declare_each(f, p);
    const bool asked = asks_where(s, needed, p.space);
    for (int64_t point = 0; point < points; point++)
        for (int v = 0; v < f->x.each; v++) {
            const window_at at = {f, p.space, by, w.first, asked, {point, v}};
            emit_window_point(f, &at, needed, &all);
        }
    for (int i = 0; i < s->n_values; i++)
        if (needed[i] && s->values[i].space == p.space) e->whole[i] = NULL;
    f->sums = NULL;
    refer_sums(f, p);
    store_neighbours(f, &w, p);
    if (ragged) fb_emit_close(e);
}

/* ---- columns of rows that an index names ---- */

/* Values of this space that are the same for a whole vector of neighbouring rows. */
static void same_for_neighbours(frame *f, int space, const bool *needed)
{
    fb_emitter *e = f->e;
    for (int i = 0; i < f->s->n_values; i++)
        if (needed[i] && !(f->s->values[i].rows & 1u << (f->s->rows.n - 1))) fb_emit_needed(e, i, space);
}

/* Whole vectors of what this space loads of neighbouring rows; zeros where a test says that there is none. */
static void load_tested(frame *f, const walk *w, int space, const bool *needed)
{
    fb_emitter *e = f->e;
    for (int i = 0; i < f->s->n_values; i++) {
        const fb_value *x = &f->s->values[i];
        if (!needed[i] || x->space != space || e->whole[i]) continue;
        if (!fb_packs_tested(e->nest, f->s, x, w->space->var[w->space->n - 1], w->vector)) continue;
        const char *tests = fb_emit_tests(e, x->when), *pack = fb_arena_printf(e->arena, "fb_%s", e->names[i]);
        const char *none =
            fb_arena_printf(e->arena, " : fb_pack<%s, %d>()", e->spell->type[x->dtype].memory, w->vector);
        fb_emit(e, "const auto %s = %s%s%s%s;", pack, tests ? tests : "", tests ? " ? " : "", load_of(f, w, x),
                tests ? none : "");
        const char *element = fb_arena_printf(e->arena, "%s.at[%s]", pack, w->v);
        e->whole[i] = fb_emit_spell(e, e->spell->type[x->dtype].from, &element, 1);
        f->packed[i] = true;
    }
}

/* A thread's neighbours: what is the same for them is loaded once at each point, and of each row that is named a vector. */
static void emit_gathered(frame *f)
{
    fb_emitter *e = f->e;
    const fb_section *s = f->s;
    const fb_pass p = s->passes[0];
    const fb_space *along = &s->spaces[p.space];
    const int64_t points = fb_space_points(along);
    const walk w = walk_by(e, &s->rows, f->x.each, f->x.rows / f->x.each);
    bool *needed = FB_NEW_ARRAY(e->arena, bool, s->n_values);
    fb_section_needed(s, 0, needed);
    const bool ragged = open_group(f, &w);
    fb_emit_row_values(e, needed);
    f->sums = declare_each(f, p);
    bool *mark = fb_emit_mark(e);
    const int at_once = points < FB_GATHERED_AT_ONCE ? (int)points : FB_GATHERED_AT_ONCE;
    if (at_once > 1) fb_emit_directive(e, "#pragma unroll %d", at_once);
    fb_emit_for(e, NULL, "fb_p", "0", fb_emit_number(e, points), "1");
    declare_point(f, along, "fb_p");
    same_for_neighbours(f, p.space, needed);
    load_tested(f, &w, p.space, needed);
    emit_group(f, &w, p, needed);
    fb_emit_close(e);
    fb_emit_forget(e, mark);
    forget_packs(f);
    f->sums = NULL;
    refer_sums(f, p);
    store_neighbours(f, &w, p);
    if (ragged) fb_emit_close(e);
}

/* ---- neighbouring rows of a team ---- */

/* What all of them load, where the team is on its way; returns which that is. */
static const bool *load_shared(frame *f, const walk *along, fb_pass p, const bool *needed)
{
    fb_emitter *e = f->e;
    bool *shared = FB_NEW_ARRAY(e->arena, bool, f->s->n_values);
    for (int i = 0; i < f->s->n_values; i++) {
        const fb_value *v = &f->s->values[i];
        shared[i] = needed[i] && v->kind == FB_VALUE_LOAD && v->space == p.space && fb_shared_by_all(e->nest, f->s, v);
    }
    load_packs(f, along, p.space, shared);
    for (int i = 0; i < f->s->n_values; i++) {
        if (shared[i] && along->vector == 1) fb_emit_needed(e, i, p.space);
        f->packed[i] = false; /* they stay until the step ends */
    }
    return shared;
}

static void emit_neighbour(frame *f, const walk *rows, const walk *along, int number, const bool *needed)
{
    fb_emitter *e = f->e;
    const fb_pass p = f->s->passes[0];
    add_to_row(f, number);
    bool *mark = fb_emit_mark(e);
    const int names = fb_names_count(e->used);
    fb_emit_open(e, "%s", "");
    fb_emit(e, "const fb_at %s = %s + %d;", var_name(e, rows->space->var[rows->space->n - 1]), var_name(e, rows->first),
            number);
    emit_group(f, along, p, needed);
    fb_emit_close(e);
    fb_names_forget(e->used, names);
    fb_emit_forget(e, mark);
    forget_packs(f);
}

static void combine_neighbours(frame *f, fb_pass p)
{
    fb_emitter *e = f->e;
    for (int i = 0; i < f->s->n_values; i++) {
        if (!fb_value_reduces(&f->s->values[i], p)) continue;
        const fb_reduction r = fb_emit_reduction(e, i);
        const char *name = each_name(f, i);
        fb_emit_unrolled(e, "v", fb_emit_number(e, f->x.each));
        fb_emit(e, "%s[v] = %s(%s[v]);", name, across(f, "", operation_of(&r)), name);
        fb_emit_close(e);
    }
}

/* Each step loads what the rows share once; then one row has its own after the other. The team's first thread stores. */
static void emit_shared_rows(frame *f)
{
    fb_emitter *e = f->e;
    const fb_section *s = f->s;
    const fb_pass p = s->passes[0];
    const int teams = f->x.threads / f->x.team;
    const int64_t groups = f->x.rows / f->x.each;
    const walk rows = walk_by(e, &s->rows, f->x.each, groups), along = walk_of(f, p.space);
    bool *needed = FB_NEW_ARRAY(e->arena, bool, s->n_values);
    fb_section_needed(s, 0, needed);
    f->lane = fb_emit_name(e, "place");
    fb_emit(e, "const int %s = threadIdx.x %% %d;", f->lane, f->x.team);
    const char *group = fb_emit_name(e, "group"), *any = group;
    if (groups % teams) any = fb_emit_name(e, "any_group");
    fb_emit(e, "const fb_at %s = (fb_at)%s * %d + threadIdx.x / %d;", any, f->block, teams, f->x.team);
    if (groups % teams)
        fb_emit(e, "const fb_at %s = %s < %" PRId64 " ? %s : %" PRId64 ";", group, any, groups, any, groups - 1);
    declare_variables(f, &rows, group);
    f->sums = declare_each(f, p);
    const int opened = open_pass(f, &along);
    const bool *shared = load_shared(f, &along, p, needed);
    for (int n = 0; n < f->x.each; n++) emit_neighbour(f, &rows, &along, n, needed);
    for (int i = 0; i < s->n_values; i++)
        if (shared[i]) e->whole[i] = NULL, e->known[i] = false;
    close_pass(f, &along, opened);
    f->sums = NULL;
    combine_neighbours(f, p);
    refer_sums(f, p);
    fb_emit_if(e, "%s == 0%s", f->lane, groups % teams ? fb_arena_printf(e->arena, " && %s == %s", any, group) : "");
    store_neighbours(f, &rows, p);
    fb_emit_close(e);
}

static void emit_rows(frame *f)
{
    if (f->x.deal == FB_DEAL_ROWS && f->x.each > 1) {
        emit_shared_rows(f);
        return;
    }
    if (f->x.deal == FB_DEAL_COLUMNS && f->x.team == 1 && f->x.each > 1) {
        (f->x.gathers ? emit_gathered : emit_windows)(f);
        return;
    }
    if (scans_in_parts(f)) {
        fb_emit(f->e, "const fb_at fb_row = %s / %d, fb_part = %s %% %d;", f->block, f->x.parts, f->block, f->x.parts);
        f->block = "fb_row";
    } else if (in_parts(f)) {
        fb_emit(f->e, "const fb_at fb_columns_of = %s / %d, fb_part = %s %% %d;", f->block, f->x.parts, f->block,
                f->x.parts);
        f->block = "fb_columns_of";
    }
    if (f->x.deal == FB_DEAL_COLUMNS && f->x.each > 1) {
        emit_each(f);
        return;
    }
    declare_rows(f);
    if (f->x.fetched) fetch_rows(f);
    passes_of_row(f);
}

/* ---- long rows that are held ---- */

static void declare_part(frame *f)
{
    fb_emitter *e = f->e;
    const fb_cut *c = f->x.cut;
    const bool cut = f->x.parts > 1;
    f->lane = "threadIdx.x";
    if (cut)
        fb_emit(e, "const fb_at fb_row = %s / %d, fb_part = %s %% %d;", f->block, f->x.parts, f->block, f->x.parts);
    else
        fb_emit(e, "const fb_at fb_row = %s;", f->block);
    declare_point(f, &f->s->rows, "fb_row");
    if (!fb_ix_is_const(e->nest->pool, c->start, &(int64_t){0})) {
        fb_emit(e, "const fb_at fb_start = %s;", fb_emit_index(e, c->start, false));
        fb_say_beside(e->to, "of the row in its first group of %d", c->vector);
    }
    f->first = "threadIdx.x";
    f->last = fb_arena_printf(e->arena, "%" PRId64, c->groups);
    f->held = is_held_in_part(f) ? fb_arena_printf(e->arena, "%" PRId64, c->held) : f->last;
    f->within = fb_arena_printf(e->arena, "fb_p * %d", c->vector);
    if (!cut) return;
    fb_emit(e, "const fb_at fb_first = fb_part * %" PRId64 ";", c->each);
    fb_emit(e, "const fb_at fb_last = fb_first + %" PRId64 " < %" PRId64 " ? fb_first + %" PRId64 " : %" PRId64 ";",
            c->each, c->groups, c->each, c->groups);
    f->first = "fb_first + threadIdx.x";
    f->held = f->last = "fb_last";
    if (is_held_in_part(f)) {
        f->held = "fb_held";
        fb_emit(e, "const fb_at fb_held = fb_first + %" PRId64 " < fb_last ? fb_first + %" PRId64 " : fb_last;",
                c->held, c->held);
    }
    f->within = fb_arena_printf(e->arena, "(fb_p - fb_first) * %d", c->vector);
}

static void declare_slots(frame *f)
{
    fb_emitter *e = f->e;
    fb_emit(e, "extern __shared__ __align__(16) unsigned char fb_shared[];");
    for (int i = 0; i < f->s->n_values; i++) {
        if (!is_in_slot(f, i)) continue;
        const fb_value *v = &f->s->values[i];
        const char *type = v->kind == FB_VALUE_LOAD ? e->spell->type[dtype_of_storage(e, v->node)].memory
                                                    : e->spell->type[v->dtype].value;
        fb_emit(e, "%s *const %s = reinterpret_cast<%s *>(fb_shared + %" PRId64 ");", type, held_name(f, i), type,
                slot_of(f, i));
    }
}

/* A group of what has a slot, on its way into it; `ahead`: only into the cache, for slots are full. */
static void fetch_group(frame *f, const walk *w, bool ahead)
{
    fb_emitter *e = f->e;
    for (int i = 0; i < f->s->n_values; i++) {
        const fb_value *v = &f->s->values[i];
        if (!is_in_slot(f, i) || v->kind != FB_VALUE_LOAD) continue;
        const char *from = at_first(f, w, v->node, v->table, v->at);
        if (ahead)
            fb_emit(e, "fb_long_ahead(&%s);", from);
        else
            fb_emit(e, "fb_long_fetch<%d>(%s + %s, &%s%s);", w->vector, held_name(f, i), f->within, from, edges(f, w));
    }
}

/* The part of the row that several passes read, on its way into shared memory before the first of them begins. */
static void fetch_part(frame *f)
{
    fb_emitter *e = f->e;
    const walk w = walk_of(f, 0);
    if (!f->x.cut->shared_bytes) return;
    declare_slots(f);
    open_groups(f, &w, f->first, f->held);
    fetch_group(f, &w, false);
    fb_emit_close(e);
    if (is_held_in_part(f)) {
        open_groups(f, &w, fb_arena_printf(e->arena, "%s + threadIdx.x", f->held), f->last);
        fetch_group(f, &w, true);
        fb_emit_close(e);
    }
    fb_emit(e, "fb_long_wait();");
    e->dynamic_shared = (int)f->x.cut->shared_bytes;
}

static void leave_row(frame *f)
{
    fb_emitter *e = f->e;
    const int words = f->x.parts / f->x.cut->cluster;
    fb_emit(e, "static __device__ unsigned fb_left[%" PRId64 "];", f->x.rows);
    fb_emit_if(e, "fb_long_is_last<%d>(&fb_left[fb_row])", f->x.parts);
    for (int i = 0; i < f->s->n_values; i++)
        if (f->s->values[i].kind == FB_VALUE_REDUCE)
            fb_emit(e, "fb_long_clear<%d>(&fb_words_%s[fb_row * %d]);", words, e->names[i], words);
    fb_emit_close(e);
}

static void emit_long(frame *f)
{
    const bool clusters = f->e->needs.cluster > 1; /* whose blocks have begun before one sends anything to another */
    fb_needs_text(&f->e->needs, FB_TEXT_LONG);
    declare_part(f);
    if (clusters) fb_emit(f->e, "fb_long_begin();");
    fetch_part(f);
    if (clusters) fb_emit(f->e, "fb_long_begun();");
    passes_of_row(f);
    if (f->x.parts > 1) f->e->needs.meets = FB_MEETS_ROW, f->e->needs.row = (int)f->x.parts;
    if (f->x.parts > f->x.cut->cluster) leave_row(f);
}

/* ---- bands of columns ---- */

/* A thread's neighbours, in a loop even of one. */
static walk by_band(frame *f)
{
    fb_emitter *e = f->e;
    walk w = walk_by(e, &f->s->rows, f->x.each, f->x.rows / f->x.each);
    if (w.v) return w;
    const char *name = fb_arena_printf(e->arena, "%s0", var_name(e, w.first));
    w.first = fb_ix_var(e->nest->pool, fb_arena_strdup(e->nest->arena, name), w.space->extent[w.space->n - 1]);
    w.v = "v";
    return w;
}

/* Which columns this thread has, and which of the places along them. */
static void declare_band(frame *f, const walk *w)
{
    fb_emitter *e = f->e;
    const fb_band *b = f->x.band;
    const char *block = f->block, *group = fb_emit_name(e, "group"), *any = group, *lane = "threadIdx.x";
    if (b->parts > 1) {
        fb_emit(e, "const fb_at fb_columns_of = %s / %d, fb_part = %s %% %d;", block, b->parts, block, b->parts);
        block = "fb_columns_of";
    }
    if (b->beside > 1) {
        fb_emit(e, "const int fb_beside = threadIdx.x %% %d, fb_lane = threadIdx.x / %d;", b->beside, b->beside);
        lane = "fb_lane";
    } else {
        fb_emit(e, "const int fb_beside = 0;");
    }
    if (w->points % b->beside) {
        any = fb_emit_name(e, "any_group");
        f->inside = fb_emit_name(e, "inside");
    }
    fb_emit(e, "const fb_at %s = (fb_at)%s * %d + fb_beside;", any, block, b->beside);
    if (f->inside) {
        fb_emit(e, "const bool %s = %s < %" PRId64 ";", f->inside, any, w->points);
        fb_emit(e, "const fb_at %s = %s ? %s : %" PRId64 ";", group, f->inside, any, w->points - 1);
    }
    declare_variables(f, w, group);
    const int64_t points = fb_space_points(&f->s->spaces[0]), columns = f->x.rows_a_block;
    f->lane = f->first = lane;
    f->last = fb_arena_printf(e->arena, "%" PRId64, points);
    f->within = fb_arena_printf(e->arena, "fb_p * %" PRId64 " + fb_beside * %d", columns, f->x.each);
    if (b->parts == 1) return;
    fb_emit(e, "const fb_at fb_first = fb_part * %" PRId64 ";", b->points);
    const char *last = fb_arena_printf(e->arena, "fb_first + %" PRId64, b->points);
    if (b->points * b->parts > points)
        last = fb_arena_printf(e->arena, "%s < %" PRId64 " ? %s : %" PRId64, last, points, last, points);
    fb_emit(e, "const fb_at fb_last = %s;", last);
    f->first = fb_arena_printf(e->arena, "fb_first + %s", lane);
    f->last = "fb_last";
    f->within = fb_arena_printf(e->arena, "(fb_p - fb_first) * %" PRId64 " + fb_beside * %d", columns, f->x.each);
}

/* Does a pass load vectors from memory? Then many of them are to be on their way together. */
static bool loads_in(const frame *f, const bool *needed)
{
    for (int i = 0; i < f->s->n_values; i++) {
        const fb_value *v = &f->s->values[i];
        if (needed[i] && v->kind == FB_VALUE_LOAD && v->space == 0 && !is_there(f, i)) return true;
    }
    return false;
}

/* Opens the loop that takes this thread along its columns; returns how many blocks of text were opened. */
static int go_along_band(frame *f, const bool *needed)
{
    enum { LOADS = 8, MOST = 4, ELEMENTS = 16 }; /* that are on their way together, and steps that only compute */
    fb_emitter *e = f->e;
    const fb_band *b = f->x.band;
    const int64_t points = fb_space_points(&f->s->spaces[0]);
    const bool ragged = (int64_t)b->steps * f->x.team != points;
    const int steps = f->x.each * MOST < ELEMENTS ? MOST : ELEMENTS / f->x.each;
    if (!b->steps) {
        fb_emit_directive(e, "#pragma unroll %d", needed && loads_in(f, needed) ? LOADS : steps);
        fb_emit_for(e, NULL, "fb_p", f->first, f->last, fb_emit_number(e, f->x.team));
    } else {
        fb_emit_unrolled(e, "fb_s", fb_emit_number(e, b->steps));
        fb_emit(e, "const fb_at fb_p = fb_s * %d + %s;", f->x.team, f->lane);
        if (ragged) fb_emit_if(e, "fb_p < %" PRId64, points);
    }
    declare_point(f, &f->s->spaces[0], "fb_p");
    return b->steps && ragged ? 2 : 1;
}

/* Where what is held, and what is turned, has its place. */
static void declare_places(frame *f, const walk *w)
{
    fb_emitter *e = f->e;
    const fb_band *b = f->x.band;
    if (b->shared_bytes) declare_slots(f);
    e->dynamic_shared = (int)b->shared_bytes;
    for (int i = 0; i < f->s->n_roots; i++) {
        const char *type = e->spell->type[dtype_of_storage(e, f->s->roots[i].storage)].memory;
        if (is_turned(f, i))
            fb_emit(e, "%s *const %s = reinterpret_cast<%s *>(fb_shared + %" PRId64 ");", type, tile_name(f, i), type,
                    b->turned[i]);
    }
    if (b->steps) declare_fetched(f, w, b->held, b->steps);
    for (int i = 0; b->steps && i < f->s->n_values; i++) {
        const fb_value *v = &f->s->values[i];
        if (b->held[i] && v->kind != FB_VALUE_LOAD)
            fb_emit(e, "%s %s[%d];", fb_emit_type(e, i), held_name(f, i), b->steps * w->vector);
    }
}

/* All copies of a thread, a group of them for each step. */
static void copy_band(frame *f, const walk *w)
{
    fb_emitter *e = f->e;
    const fb_band *b = f->x.band;
    fb_emit_unrolled(e, "fb_s", fb_emit_number(e, b->copies));
    fb_emit(e, "const fb_at fb_p = %s + fb_s * %d;", f->first, f->x.team);
    const bool ragged = (int64_t)b->copies * f->x.team * b->parts != fb_space_points(&f->s->spaces[0]);
    if (ragged) fb_emit_if(e, "fb_p < %s", f->last);
    declare_point(f, &f->s->spaces[0], "fb_p");
    for (int i = 0; i < f->s->n_values; i++) {
        const fb_value *v = &f->s->values[i];
        if (b->held[i] && v->kind == FB_VALUE_LOAD)
            fb_emit(e, "fb_band_fetch<%d>(%s + %s, &%s);", w->vector, held_name(f, i), f->within,
                    at_first(f, w, v->node, v->table, v->at));
    }
    if (ragged) fb_emit_close(e);
    fb_emit(e, "fb_band_mark();");
    fb_emit_close(e);
}

static void fetch_band(frame *f, const walk *w)
{
    if (f->x.band->copies) copy_band(f, w);
    if (!f->x.band->steps) return;
    int opened = go_along_band(f, NULL);
    fetch_held(f, w, f->x.band->held);
    while (opened--) fb_emit_close(f->e);
}

/* Is it a number of each column that has to be made of others? */
static bool is_of_each(const frame *f, fb_val v)
{
    const fb_value *x = &f->s->values[v];
    const bool made = x->space == FB_NONE && x->kind != FB_VALUE_REDUCE && !fb_value_is_leaf(x);
    return made && !f->e->whole[v] && (x->rows & 1u << (f->s->rows.n - 1));
}

/* Numbers of each column that a pass's elements are made with. */
static void make_each(frame *f, const walk *w, fb_pass p, const bool *needed)
{
    fb_emitter *e = f->e;
    bool *made = FB_NEW_ARRAY(e->arena, bool, f->s->n_values), any = false;
    for (int i = 0; i < f->s->n_values; i++) {
        const fb_value *v = &f->s->values[i];
        const bool here = needed[i] && v->space != FB_NONE;
        for (int a = 0; (here || fb_value_reduces(v, p)) && a < v->n_args; a++)
            made[v->args[a]] |= is_of_each(f, v->args[a]);
    }
    for (int i = 0; i < f->s->n_roots; i++)
        if (root_is_here(&f->s->roots[i], p.space, p.depth))
            made[f->s->roots[i].value] |= is_of_each(f, f->s->roots[i].value);
    for (int i = 0; i < f->s->n_values; i++) {
        if (!made[i]) continue;
        fb_emit(e, "%s %s[%d];", fb_emit_type(e, i), each_name(f, i), w->vector);
        any = true;
    }
    if (!any) return;
    bool *mark = fb_emit_mark(e);
    open_each(f, w);
    for (int i = 0; i < f->s->n_values; i++) {
        if (!made[i]) continue;
        fb_emit_needed(e, i, FB_NONE);
        fb_emit(e, "%s = %s;", of_each(f, i), fb_emit_ref(e, i));
    }
    close_each(f, w);
    fb_emit_forget(e, mark);
    for (int i = 0; i < f->s->n_values; i++)
        if (made[i]) e->whole[i] = of_each(f, i);
}

/* The block's sums, and those of its cluster. */
static void combine_band(frame *f, fb_pass p)
{
    fb_emitter *e = f->e;
    const fb_band *b = f->x.band;
    for (int i = 0; i < f->s->n_values; i++) {
        if (!fb_value_reduces(&f->s->values[i], p)) continue;
        fb_reduction r = fb_emit_reduction(e, i);
        if (b->parts > 1)
            fb_emit(e, "fb_band_exchange<%s, %d, %d, %d, %d, %d>(%s, fb_part);", long_operation(f, &r), f->x.threads,
                    b->beside, f->x.each, b->parts, i, each_name(f, i));
        else
            fb_emit(e, "fb_band<%s, %d, %d>(%s);", long_operation(f, &r), f->x.threads, b->beside, each_name(f, i));
    }
}

/* A block's columns of a root, each as it lies in memory. */
static void store_turned(frame *f, int root)
{
    fb_emitter *e = f->e;
    const fb_band *b = f->x.band;
    const fb_root *r = &f->s->roots[root];
    const int each = fb_band_stores(e->nest, f->s, b, r);
    const int64_t line = fb_band_line(e->nest, b, r), groups = b->points / each;
    const char *number = fb_emit_name(e, "column"), *tests = "";
    const bool part = b->points * b->parts > fb_space_points(&f->s->spaces[0]);
    fb_emit_for(e, "int", "fb_t", "threadIdx.x", fb_emit_number(e, f->x.rows_a_block * groups),
                fb_emit_number(e, f->x.threads));
    fb_emit(e, "const fb_at %s = (fb_at)%s * %" PRId64 " + fb_t / %" PRId64 ";", number,
            b->parts > 1 ? "fb_columns_of" : f->block, f->x.rows_a_block, groups);
    fb_emit(e, "const fb_at fb_p = %sfb_t %% %" PRId64 " * %d;", b->parts > 1 ? "fb_first + " : "", groups, each);
    if (f->inside) tests = fb_arena_printf(e->arena, "%s < %" PRId64 "%s", number, f->x.rows, part ? " && " : "");
    if (part) tests = fb_arena_printf(e->arena, "%sfb_p < fb_last", tests);
    if (*tests) fb_emit_if(e, "%s", tests);
    declare_point(f, &f->s->rows, number);
    declare_point(f, &f->s->spaces[0], "fb_p");
    fb_emit(e, "fb_store(&%s, fb_load<%d>(%s + fb_t / %" PRId64 " * %" PRId64 " + fb_t %% %" PRId64 " * %d));",
            fb_emit_element(e, r->storage, r->table, r->at), each, tile_name(f, root), groups, line, groups, each);
    if (*tests) fb_emit_close(e);
    fb_emit_close(e);
}

static void store_all_turned(frame *f, fb_pass p)
{
    bool met = false;
    for (int i = 0; i < f->s->n_roots; i++) {
        if (!is_turned(f, i) || !root_is_here(&f->s->roots[i], p.space, p.depth)) continue;
        if (!met) fb_emit(f->e, "__syncthreads();");
        met = true;
        store_turned(f, i);
    }
}

static void pass_of_band(frame *f, const walk *w, int number)
{
    fb_emitter *e = f->e;
    const fb_pass p = f->s->passes[number];
    bool *needed = FB_NEW_ARRAY(e->arena, bool, f->s->n_values);
    fb_section_needed(f->s, number, needed);
    f->pass = number;
    same_for_neighbours(f, FB_NONE, needed);
    make_each(f, w, p, needed);
    declare_divisors(f, needed);
    f->sums = declare_each(f, p);
    bool *mark = fb_emit_mark(e);
    int opened = go_along_band(f, needed);
    if (f->x.band->copies && number == 0) {
        fb_emit(e, "fb_band_mark();");
        fb_emit(e, "fb_band_await<%d>();", f->x.band->copies);
        fb_say_beside(e->to, "its own copies are there");
    }
    same_for_neighbours(f, p.space, needed);
    emit_group(f, w, p, needed);
    while (opened--) fb_emit_close(e);
    fb_emit_forget(e, mark);
    forget_packs(f);
    f->sums = NULL;
    store_all_turned(f, p);
    refer_held(f, w, p, needed);
    if (f->x.parts > 1 && number == 0) fb_emit(e, "fb_long_begun();"); /* before one sends anything to another */
    combine_band(f, p);
    refer_sums(f, p);
}

/* Numbers of columns: the first thread of those along one stores them. */
static void store_band(frame *f, const walk *w, int depth)
{
    fb_emitter *e = f->e;
    bool any = false;
    for (int i = 0; i < f->s->n_roots; i++) any |= root_is_here(&f->s->roots[i], FB_NONE, depth);
    if (!any) return;
    bool *mark = fb_emit_mark(e);
    fb_emit_if(e, "%s == 0%s%s%s", f->lane, f->x.parts > 1 ? " && fb_part == 0" : "", f->inside ? " && " : "",
               f->inside ? f->inside : "");
    store_group(f, w, depth, NULL, NULL);
    fb_emit_close(e);
    fb_emit_forget(e, mark);
}

static void emit_bands(frame *f)
{
    fb_emitter *e = f->e;
    const walk w = by_band(f);
    fb_needs_text(&e->needs, FB_TEXT_BANDS);
    declare_band(f, &w);
    load_all(f, &w);
    memset(f->packed, 0, (size_t)f->s->n_values); /* they stay */
    declare_places(f, &w);
    if (f->x.parts > 1) fb_emit(e, "fb_long_begin();");
    fetch_band(f, &w);
    for (int depth = 0; depth <= fb_emit_deepest(f->s); depth++) {
        store_band(f, &w, depth);
        for (int p = 0; p < f->s->n_passes; p++)
            if (f->s->passes[p].depth == depth) pass_of_band(f, &w, p);
    }
    if (f->x.parts > 1) e->needs.meets = FB_MEETS_CLUSTER;
}

/* ---- few long rows ---- */

static void emit_split(frame *f)
{
    fb_emitter *e = f->e;
    fb_emit(e, "const fb_at fb_row = %s / %d, fb_part = %s %% %d;", f->block, f->x.parts, f->block, f->x.parts);
    f->lane = "threadIdx.x";
    declare_point(f, &f->s->rows, "fb_row");
    fb_pass p = f->s->passes[0];
    walk w = walk_of(f, p.space);
    bool *needed = FB_NEW_ARRAY(e->arena, bool, f->s->n_values);
    fb_section_needed(f->s, 0, needed);
    fb_emit_row_values(e, needed);
    declare_accumulators(f, p);
    bool *mark = fb_emit_mark(e);
    int opened = open_pass(f, &w);
    emit_group(f, &w, p, needed);
    close_pass(f, &w, opened);
    fb_emit_forget(e, mark);
    forget_packs(f);
    combine(f, p);
    combine_parts(f, p);
    finish_pass(f, p);
    store_row_values(f, fb_emit_deepest(f->s));
}

/* ---- index_add ---- */

/* Where one of the index's points is, and the row of the result that it is added to. */
static void declare_added(frame *f, const fb_data_var *index, const char *point)
{
    const fb_section *s = f->s;
    if (s->n_spaces) declare_point(f, &s->spaces[0], point);
    fb_emit_needed(f->e, index->value, s->values[index->value].space);
}

/* A block's threads look at a chunk of the index together, each at a few points of it, and note in a word of bits a
 * warp which of them are rows of this block. */
static void note_chunk(frame *f, const fb_data_var *index, int each, int64_t points)
{
    fb_emitter *e = f->e;
    bool *mark = fb_emit_mark(e);
    fb_emit(e, "bool fb_here[%d];", each);
    fb_emit_unrolled(e, "fb_i", fb_emit_number(e, each));
    fb_emit(e, "const fb_at fb_point = fb_chunk + fb_i * %d + (fb_at)threadIdx.x;", f->x.threads);
    fb_emit(e, "fb_here[fb_i] = false;");
    if (points % ((int64_t)each * f->x.threads)) fb_emit_if(e, "fb_point < %" PRId64, points);
    declare_added(f, index, "fb_point");
    fb_emit(e,
            FB_MUTATE(57, "fb_here[fb_i] = %s >= fb_first && %s <= fb_last;",
                      "fb_here[fb_i] = %s > fb_first && %s <= fb_last;"),
            index->name, index->name);
    if (points % ((int64_t)each * f->x.threads)) fb_emit_close(e);
    fb_emit_close(e);
    fb_emit(e, "fb_vote<%d, %d>(fb_words, fb_here);", each, f->x.threads);
    fb_emit_forget(e, mark);
}

/* Each thread adds what of the noted points is its own element's, in the order of the index. */
static void add_chunk(frame *f, const fb_data_var *index, int each)
{
    fb_emitter *e = f->e;
    const fb_root *r = &f->s->roots[0];
    fb_emit_for(e, "int", "fb_word", "0", fb_emit_number(e, each * f->x.threads / e->target->warp), NULL);
    fb_emit_open(e, "for (unsigned fb_left = fb_words[fb_word]; fb_left; fb_left &= fb_left - 1)");
    fb_emit(e, "const fb_at fb_point = fb_chunk + fb_word * %d + __ffs(fb_left) - 1;", e->target->warp);
    declare_added(f, index, "fb_point");
    fb_emit_if(e, "%s == fb_owner", index->name);
    fb_emit_needed(e, r->value, f->s->values[r->value].space);
    fb_emit_add(e, e->nest->graph->nodes[r->node].dtype, "fb_sum", fb_emit_ref(e, r->value));
    fb_emit_close(e);
    fb_emit_close(e);
    fb_emit_close(e);
}

/* A thread owns one element of the result, so that nothing is added twice at once and the order of additions is the
 * index's. The index is read once a block and not once a thread: few of its points are rows of one block. */
static void emit_scatter(frame *f)
{
    fb_emitter *e = f->e;
    const fb_section *s = f->s;
    const fb_root *r = &s->roots[0];
    const fb_node *n = &e->nest->graph->nodes[r->node];
    int64_t size = fb_space_points(&s->rows), elements = n->shape.dim[0] * size;
    int64_t points = s->n_spaces ? fb_space_points(&s->spaces[0]) : 1;
    const int each = f->x.each;
    const fb_data_var *index = fb_emit_added_row(e->nest->pool, s);
    const char *out = NULL;
    for (int i = 0; i < e->n_args; i++)
        if (e->args[i].storage == r->storage) out = e->args[i].name;
    fb_emit(e, "__shared__ unsigned fb_words[%d];", each * f->x.threads / e->target->warp);
    fb_emit(e, "const fb_at fb_owned = (fb_at)%s * %d + threadIdx.x;", f->block, f->x.threads);
    fb_emit(e, "const fb_at fb_owner = fb_owned / %" PRId64 ", fb_within = fb_owned %% %" PRId64 ";", size, size);
    fb_emit(e, "const fb_at fb_first = (fb_at)%s * %d / %" PRId64 ", fb_last = ((fb_at)%s * %d + %d) / %" PRId64 ";",
            f->block, f->x.threads, size, f->block, f->x.threads, f->x.threads - 1, size);
    declare_point(f, &s->rows, "fb_within");
    fb_emit(e, "%s fb_sum = 0;", e->spell->type[n->dtype].value);
    fb_emit_for(e, NULL, "fb_chunk", "0", fb_emit_number(e, points), fb_emit_number(e, each * f->x.threads));
    fb_emit(e, "fb_meet<%d>();", f->x.threads);
    fb_say_beside(e->to, "the words of the chunk before have been read");
    note_chunk(f, index, each, points);
    fb_emit(e, "fb_meet<%d>();", f->x.threads);
    add_chunk(f, index, each);
    fb_emit_close(e);
    const char *sum = "fb_sum";
    const char *store = fb_emit_spell(e, e->spell->type[n->dtype].to, &sum, 1);
    const char *guard = fb_arena_printf(e->arena, "if (fb_owned < %" PRId64 ") ", elements);
    fb_emit(e, "%s%s[fb_owned] = %s;", elements % f->x.threads ? guard : "", out, store);
}

/* ---- values as functions ---- */

/* A function of the kernel that gives value `v` at a point, of `points` (NULL: of a single one). */
static void value_at(frame *f, const char *head, const fb_space *points, fb_val v)
{
    fb_emitter *e = f->e;
    const fb_section *s = f->s;
    bool *mark = fb_emit_mark(e);
    fb_emit_open(e, "const auto %s", head);
    if (points) declare_point(f, points, "fb_point");
    fb_emit_needed(e, v, s->values[v].space);
    fb_emit(e, "return %s;", fb_emit_ref(e, v));
    fb_emit_close_by(e, "};");
    fb_emit_forget(e, mark);
}

/* ---- rows that are sorted (kernels/ranked.cuh) ---- */

/* Among blocks that leave each other the first of what they have. */
static void rank_first_places(frame *f, const char *line, int64_t n)
{
    fb_emitter *e = f->e;
    const int64_t most = f->x.first_places, parts = f->x.parts, lines = f->x.blocks / parts;
    fb_emit(e, "static __device__ uint64_t fb_lists[%" PRId64 "];", lines * parts * most);
    fb_emit(e, "static __device__ unsigned fb_arrivals[%" PRId64 "];", lines);
    fb_emit(e,
            "const unsigned *const fb_ranks = fb_ranked<%d, %d, %" PRId64 ">((fb_at)%" PRId64 ", fb_first, %" PRId64
            "u, fb_order_at, fb_lists + (int64_t)(%s) * %" PRId64 ", fb_arrivals + %s);",
            f->x.threads, (int)f->x.rows_a_block, parts, n, most, line, parts * most, line);
    e->needs.meets = FB_MEETS_ROW;
    e->needs.row = (int)parts;
}

/* The pass is that of the ranks, and the only one: a block sorts, then each thread stores what is made of its own. */
static void emit_ranked(frame *f)
{
    fb_emitter *e = f->e;
    const fb_section *s = f->s;
    const fb_val v = f->x.ranked;
    const fb_value *rank = &s->values[v];
    const int last = s->rows.n - 1, own = (int)f->x.rows_a_block;
    const int64_t n = s->rows.extent[last];
    const char *at = var_name(e, s->rows.var[last]);
    const bool largest = e->nest->graph->nodes[rank->node].attrs->start == 1;
    fb_space lines = s->rows;
    lines.n = last;
    fb_needs_text(&e->needs, FB_TEXT_RANKED);
    const char *line = f->x.parts > 1 ? fb_arena_printf(e->arena, "%s / %d", f->block, f->x.parts) : f->block;
    const int team = f->x.parts > 1 ? f->x.threads : own / f->x.each, teams = f->x.threads / team;
    const bool ragged = fb_space_points(&lines) % teams != 0;
    if (teams > 1) line = fb_arena_printf(e->arena, "(%s * %d + threadIdx.x / %d)", line, teams, team);
    if (ragged) {
        fb_emit(e, "const bool fb_is_line = %s < %" PRId64 ";", line, fb_space_points(&lines));
        line = fb_arena_printf(e->arena, "(fb_is_line ? %s : 0)", line);
    }
    if (last) {
        fb_emit(e, "const fb_at fb_line = (fb_at)%s;", line);
        declare_point(f, &lines, "fb_line");
    }
    if (f->x.parts > 1) fb_emit(e, "const fb_at fb_first = (fb_at)%s %% %d * %d;", f->block, f->x.parts, own);
    bool *needed = FB_NEW_ARRAY(e->arena, bool, s->n_values);
    fb_section_needed(s, 0, needed);
    fb_emit_count_uses(e, needed, rank->over, 0);
    value_at(f, "fb_element_at = [&](fb_at fb_point)", &s->spaces[rank->over], rank->args[0]);
    fb_emit(e, "const auto fb_order_at = [&](fb_at fb_point) { return %sfb_order(fb_element_at(fb_point)); };",
            FB_MUTATE(60, largest, false) ? "~" : "");
    if (f->x.parts == 1)
        fb_emit(e,
                "const unsigned *const fb_ranks = fb_ranked_row<%d, %d, %d, %" PRId64 ">((fb_at)%" PRId64
                ", fb_order_at);",
                f->x.threads, team, own, f->x.first_places, n);
    else if (f->x.first_places)
        rank_first_places(f, line, n);
    else
        fb_emit(e,
                "const unsigned *const fb_ranks = fb_ranked<%d, %d>((fb_at)%" PRId64 ", fb_first, %" PRId64
                "u, fb_order_at);",
                f->x.threads, own, n, fb_schedule_places(e->nest, s, v));
    fb_emit_count_uses(e, NULL, FB_NONE, 0);
    if (ragged) fb_emit_if(e, "fb_is_line");
    const char *own_first = teams > 1 ? fb_arena_printf(e->arena, "threadIdx.x %% %d", team) : "threadIdx.x";
    fb_emit_for(e, "int", "fb_own", own_first, fb_emit_number(e, own), fb_emit_number(e, team));
    fb_emit(e, "const fb_at %s = %sfb_own;", at, f->x.parts > 1 ? "fb_first + " : "");
    if (n % own) fb_emit_if(e, "%s < %" PRId64, at, n);
    for (int depth = 0; depth <= fb_emit_deepest(s); depth++) {
        store_row_values(f, depth);
        if (s->passes[0].depth != depth) continue;
        fb_emit(e, "const %s %s = fb_ranks[fb_own];", fb_emit_type(e, v), e->names[v]);
        e->known[v] = true;
        fb_emit_as_index(e, v);
    }
    if (n % own) fb_emit_close(e);
    fb_emit_close(e);
    if (ragged) fb_emit_close(e);
}

/* ---- index_add, sorted (kernels/sorted.cuh) or by atomic additions (kernels/added.cuh) ---- */

/* The rows' variables but those that number members and rows. */
static fb_space within_row(const fb_section *s, const fb_added *a)
{
    if (a->sum == FB_NONE) return s->rows;
    fb_space in = {.n = s->rows.n - a->row - 1};
    memcpy(in.var, s->rows.var + a->row + 1, (size_t)in.n * sizeof *in.var);
    memcpy(in.extent, s->rows.extent + a->row + 1, (size_t)in.n * sizeof *in.extent);
    return in;
}

static void mark_needed(const fb_section *s, fb_val v, bool *needed)
{
    if (needed[v]) return;
    needed[v] = true;
    for (int i = 0; i < s->values[v].n_args; i++) mark_needed(s, s->values[v].args[i], needed);
}

/* A loop over neighbours of a row that are a group, of which the last may reach beyond it. */
static void open_neighbours(frame *f, const fb_space *in)
{
    const int each = f->x.each;
    const int64_t width = fb_space_points(in);
    fb_emit_unrolled(f->e, "v", fb_emit_number(f->e, each));
    fb_emit(f->e, "const int fb_within = fb_group * %d + v;", each);
    if (width % each) fb_emit_if(f->e, "fb_within < %" PRId64, width);
    declare_point(f, in, "fb_within");
}

static void close_neighbours(frame *f, const fb_space *in)
{
    if (fb_space_points(in) % f->x.each) fb_emit_close(f->e);
    fb_emit_close(f->e);
}

/* Neighbours of a row, of what a point adds. */
static void values_at(frame *f, const fb_space *points, const fb_space *in, fb_val v, const char *type)
{
    fb_emitter *e = f->e;
    const fb_section *s = f->s;
    const int each = f->x.each;
    bool *mark = fb_emit_mark(e), *needed = FB_NEW_ARRAY(e->arena, bool, s->n_values);
    fb_emit_open(e, "const auto fb_values_at = [&](fb_at fb_point, int fb_group) -> fb_pack<%s, %d>", type, each);
    fb_emit(e, "fb_pack<%s, %d> fb_values = {};", type, each);
    if (points) declare_point(f, points, "fb_point");
    mark_needed(s, v, needed);
    if (f->x.packed) {
        const walk w = walk_by(e, in, each, fb_space_points(in) / each);
        declare_variables(f, &w, "fb_group");
        same_for_neighbours(f, s->values[v].space, needed);
        load_tested(f, &w, s->values[v].space, needed);
        open_each(f, &w);
    } else {
        open_neighbours(f, in);
    }
    fb_emit_needed(e, v, s->values[v].space);
    fb_emit(e, "fb_values.at[v] = %s;", fb_emit_ref(e, v));
    if (f->x.packed)
        fb_emit_close(e);
    else
        close_neighbours(f, in);
    forget_packs(f);
    fb_emit(e, "return fb_values;");
    fb_emit_close_by(e, "};");
    fb_emit_forget(e, mark);
}

typedef struct {
    frame *f;
    const fb_added *a;
    const char *type;
} summed;

/* An element's sum by its own name. */
static void take_sum(void *ctx)
{
    const summed *m = ctx;
    fb_emitter *e = m->f->e;
    fb_emit(e, "const %s %s = fb_sums.at[v];", m->type, e->names[m->a->sum]);
    e->known[m->a->sum] = true;
    fb_emit_as_index(e, m->a->sum);
}

/* An index_add by itself: sums as they are. */
static void store_sums(frame *f, const fb_space *in)
{
    fb_emitter *e = f->e;
    const fb_root *r = &f->s->roots[0];
    const int each = f->x.each;
    const char *sum = "fb_sums.at[v]";
    const char *value = fb_emit_spell(e, e->spell->type[e->nest->graph->nodes[r->node].dtype].to, &sum, 1);
    const walk w = walk_by(e, in, each, fb_space_points(in) / each);
    if (f->x.packed && packs_root(f, &w, FB_NONE, r)) {
        declare_variables(f, &w, "fb_group");
        fb_emit(e, "fb_pack<%s, %d> fb_out;", e->spell->type[dtype_of_storage(e, r->storage)].memory, each);
        fb_emit(e, "for (int v = 0; v < %d; v++) fb_out.at[v] = %s;", each, value);
        fb_emit(e, "fb_store(&%s, fb_out);", at_first(f, &w, r->storage, FB_NONE, r->at));
        return;
    }
    open_neighbours(f, in);
    fb_emit(e, "%s = %s;", fb_emit_element(e, r->storage, FB_NONE, r->at), value);
    close_neighbours(f, in);
}

/* The variable of the row that is added to, which a function is given as fb_row. */
static void declare_added_row(frame *f, const fb_added *a)
{
    fb_emitter *e = f->e;
    const char *row =
        a->sum == FB_NONE ? fb_emit_added_row(e->nest->pool, f->s)->name : var_name(e, f->s->rows.var[a->row]);
    fb_emit(e, "const fb_at %s = (fb_at)fb_row;", row);
}

/* What is made of the sums of a row's neighbours, and where it is stored. */
static void finish_row(frame *f, const fb_added *a, const fb_space *in, const char *type)
{
    fb_emitter *e = f->e;
    const fb_section *s = f->s;
    const int each = f->x.each;
    bool *mark = fb_emit_mark(e);
    summed sums = {f, a, type};
    fb_emit_open(e, "const auto fb_finish = [&](int64_t fb_row, int fb_group, const fb_pack<%s, %d> &fb_sums)", type,
                 each);
    declare_added_row(f, a);
    if (a->sum == FB_NONE) {
        store_sums(f, in);
    } else if (f->x.packed) {
        const walk w = walk_by(e, in, each, fb_space_points(in) / each);
        declare_variables(f, &w, "fb_group");
        load_all(f, &w);
        for (int depth = 0; depth <= fb_emit_deepest(s); depth++) {
            bool *before = fb_emit_mark(e), any = false;
            for (int i = 0; i < s->n_roots; i++) any |= root_is_here(&s->roots[i], FB_NONE, depth);
            if (any) store_group(f, &w, depth, take_sum, &sums);
            fb_emit_forget(e, before);
        }
    } else {
        open_neighbours(f, in);
        take_sum(&sums);
        for (int i = 0; i < s->n_roots; i++) fb_emit_store(e, &s->roots[i]);
        close_neighbours(f, in);
    }
    forget_packs(f);
    fb_emit_close_by(e, "};");
    fb_emit_forget(e, mark);
}

/* A block works for one member: it picks its pointers once. */
static void pick_member(frame *f, const char *block, int64_t blocks)
{
    fb_emitter *e = f->e;
    const fb_section *s = f->s;
    const char *member = var_name(e, s->rows.var[0]);
    const char **picked = FB_NEW_ARRAY(e->arena, const char *, s->n_tables);
    fb_emit(e, "const fb_at %s = %s / %" PRId64 ";", member, block, blocks);
    for (int t = 0; t < s->n_tables; t++) {
        picked[t] = fb_emit_name(e, fb_arena_printf(e->arena, "%s_member", e->tables[t]));
        fb_emit(e, "auto *const %s = %s(%s);", picked[t], e->tables[t], member);
    }
    e->picked = picked;
}

/* Blocks of a member share its index: words of memory between them are the kernel's own. */
static void sort_together(frame *f, const fb_added *a, const char *block, const char *type)
{
    fb_emitter *e = f->e;
    const int members = f->s->members, blocks = f->x.parts, ranges = f->x.ranges;
    const char *words = "fb_laid_out, fb_begins, fb_arrivals";
    if (members > 1) {
        const char *member = var_name(e, f->s->rows.var[0]);
        words =
            fb_arena_printf(e->arena, "fb_laid_out + (int64_t)%s * %" PRId64 ", fb_begins + %s * %d, fb_arrivals + %s",
                            member, a->points, member, ranges * blocks, member);
    }
    fb_emit(e, "static __device__ uint64_t fb_laid_out[%" PRId64 "], fb_begins[%" PRId64 "];", members * a->points,
            (int64_t)members * ranges * blocks);
    fb_emit(e, "static __device__ unsigned fb_arrivals[%d];", members);
    fb_emit(e,
            "fb_sorted_together<%d, %" PRId64 ", %d, %s, %" PRId64 ", %" PRId64
            ", %d, %d, %s, fb_at>(%s, %s, fb_row_at, "
            "fb_values_at, fb_finish);",
            f->x.threads, a->width, f->x.each, a->spares ? "false" : "true", a->points, a->rows, blocks, ranges, type,
            block, words);
    e->needs.meets = FB_MEETS_ROW;
    e->needs.row = blocks;
}

/* Where the sums of a group are stored, as they are. */
static void place_of(frame *f, const fb_added *a, const fb_space *in, const char *type)
{
    fb_emitter *e = f->e;
    const fb_root *r = &f->s->roots[0];
    const int each = f->x.each;
    bool *mark = fb_emit_mark(e);
    fb_emit_open(e, "const auto fb_place_of = [&](int64_t fb_row, int fb_group) -> %s *", type);
    declare_added_row(f, a);
    if (each > 1) {
        const walk w = walk_by(e, in, each, fb_space_points(in) / each);
        declare_variables(f, &w, "fb_group");
        fb_emit(e, "return &%s;", at_first(f, &w, r->storage, r->table, r->at));
    } else {
        declare_point(f, in, "fb_group");
        fb_emit(e, "return &%s;", fb_emit_element(e, r->storage, r->table, r->at));
    }
    fb_emit_close_by(e, "};");
    fb_emit_forget(e, mark);
}

/* Threads add up in any order; sums beside the result are the kernel's own, and 0 between launches. */
static void add_atomically(frame *f, const fb_added *a, const fb_space *in, const char *block, const char *type)
{
    fb_emitter *e = f->e;
    const int members = f->s->members, blocks = f->x.parts, each = f->x.each;
    const int64_t groups = a->rows * fb_ceil_div(a->width, each);
    const char *member = members > 1 ? var_name(e, f->s->rows.var[0]) : "0";
    fb_needs_text(&e->needs, FB_TEXT_ADDED);
    fb_emit(e, "static __device__ unsigned fb_arrivals[%d];", members);
    if (f->x.in_place)
        place_of(f, a, in, type);
    else
        fb_emit(e, "static __device__ fb_pack<%s, %d> fb_words[%" PRId64 "];", type, each, members * groups + 1);
    const char *words = fb_arena_printf(e->arena, "fb_words + (int64_t)%s * %" PRId64 ", ", member, groups);
    fb_emit(e,
            "fb_added%s<%s, %s%d, %" PRId64 ", %d, %" PRId64 ", %" PRId64
            ", %d, %s, fb_at>(%s, %sfb_arrivals + %s, fb_row_at, fb_values_at, fb_finish%s);",
            f->x.in_place ? "_in_place" : "", f->x.near ? "true" : "false",
            f->x.in_place ? ""
            : f->x.clears ? "true, "
                          : "false, ",
            f->x.threads, a->width, each, a->points, a->rows, blocks, type, block, f->x.in_place ? "" : words, member,
            f->x.in_place ? ", fb_place_of" : "");
    e->needs.meets = FB_MEETS_ROW;
    e->needs.row = blocks;
}

/* An index_add whose points are many: sorted, or added as they come. */
static void emit_added(frame *f)
{
    fb_emitter *e = f->e;
    const fb_section *s = f->s;
    fb_added a;
    fb_section_adds(e->nest, s, &a);
    const fb_space in = within_row(s, &a);
    bool alone = a.sum == FB_NONE;
    fb_val index = alone ? fb_emit_added_row(e->nest->pool, s)->value : s->values[a.sum].args[1];
    fb_val source = alone ? s->roots[0].value : s->values[a.sum].args[0];
    fb_id node = alone ? s->roots[0].node : s->values[a.sum].node;
    const char *type = e->spell->type[e->nest->graph->nodes[node].dtype].value, *block = f->block;
    int64_t blocks = f->x.blocks / s->members;
    if (s->members > 1) {
        pick_member(f, block, blocks);
        block = fb_arena_printf(e->arena, "(%s %% %" PRId64 ")", block, blocks);
    }
    fb_needs_text(&e->needs, FB_TEXT_SORTED);
    const fb_space *points = alone ? s->n_spaces ? &s->spaces[0] : NULL : &s->spaces[s->values[a.sum].over];
    value_at(f, "fb_row_at = [&](fb_at fb_point) -> int64_t", points, index);
    values_at(f, points, &in, source, type);
    finish_row(f, &a, &in, type);
    fb_str says = {0};
    fb_added_says(e->nest, &a, &says);
    fb_emit_remark(e, "%s", fb_str_get(&says));
    fb_str_free(&says);
    if (f->x.deal == FB_DEAL_ADDED) {
        add_atomically(f, &a, &in, block, type);
        e->needs.any_order = fb_dtype_is_float(e->nest->graph->nodes[node].dtype);
        return;
    }
    if (f->x.ranges) {
        sort_together(f, &a, block, type);
        return;
    }
    fb_emit(e, "const int64_t fb_part = %s, fb_first = fb_part * %" PRId64 " / %" PRId64 ";", block, a.rows, blocks);
    fb_emit(e, "const int64_t fb_last = (fb_part + 1) * %" PRId64 " / %" PRId64 ";", a.rows, blocks);
    fb_emit(e,
            "fb_sorted<%d, %" PRId64 ", %d, %s, %" PRId64 ", %" PRId64 ", %s, fb_at>(fb_first, fb_last, fb_row_at, "
            "fb_values_at, fb_finish);",
            f->x.threads, a.width, f->x.each, a.spares ? "false" : "true", a.points, a.rows, type);
}

/* ---- the section ---- */

/* Blocks before those of a section, counted on from the one that is written now. */
static int64_t blocks_before(fb_emitter *e, int section)
{
    int64_t blocks = e->grid[0];
    for (int i = e->number; i < section; i++)
        blocks += fb_schedule_section(e->nest, e->knobs, &e->nest->sections[i], e->arena).launched;
    return blocks;
}

/* A block of many sections finds its own by halves: if it asked one after the other, it would fetch instructions from
 * all over the kernel. */
static void find_section(fb_emitter *e, int section, bool begins)
{
    int first = 0, last = e->nest->n_sections;
    if (!fb_schedule_halves(e->nest)) return;
    while (last - first > 1) {
        int middle = (first + last) / 2;
        bool upper = section >= middle;
        if (begins && section == middle) fb_emit_if(e, FB_BLOCK ".x >= %d", e->grid[0]);
        if (begins && section == first) {
            e->number = section;
            fb_emit_if(e, FB_BLOCK ".x < %" PRId64, blocks_before(e, middle));
        }
        if (upper)
            first = middle;
        else
            last = middle;
        if (!begins && section == last - 1) fb_emit_close(e);
    }
}

/* What a block must be to work on the section that comes next: in its range, which it may be known to be. */
static const char *range_of(fb_emitter *e, int64_t launched)
{
    int64_t first = e->grid[0], last = first + launched;
    const char *below = fb_arena_printf(e->arena, FB_BLOCK ".x < %" PRId64 " && ", last);
    if (fb_schedule_halves(e->nest)) return e->number == e->nest->n_sections - 1 ? below : "";
    return first ? fb_arena_printf(e->arena, FB_BLOCK ".x >= %" PRId64 " && %s", first, below) : below;
}

static void emit_section_cuda(fb_emitter *e)
{
    frame f = {.e = e,
               .x = fb_schedule_section(e->nest, e->knobs, e->section, e->arena),
               .block = FB_BLOCK ".x",
               .declared = FB_NEW_ARRAY(e->arena, bool, e->section->n_values),
               .packed = FB_NEW_ARRAY(e->arena, bool, e->section->n_values),
               .in_row = FB_NEW_ARRAY(e->arena, bool, e->section->n_values)};
    int64_t launched = f.x.launched;
    f.s = f.x.section;
    bool shared = e->nest->n_sections > 1;
    const bool in_turn = fb_schedule_in_turn(e->nest, e->knobs);
    const char *own = in_turn ? fb_arena_printf(e->arena, FB_BLOCK ".x %% %d == %d && ", e->nest->n_sections, e->number)
                      : shared ? range_of(e, launched)
                               : "";
    if (shared) fb_emit_if(e, "%sthreadIdx.x < %d", own, f.x.threads);
    if (shared || launched < f.x.blocks) f.block = fb_emit_name(e, "block");
    const char *first =
        e->grid[0] ? fb_arena_printf(e->arena, FB_BLOCK ".x - %" PRId64, (int64_t)e->grid[0]) : FB_BLOCK ".x";
    if (launched < f.x.blocks)
        fb_emit_for(e, NULL, f.block, first, fb_emit_number(e, f.x.blocks), fb_emit_number(e, launched));
    else if (in_turn)
        fb_emit(e, "const fb_at %s = " FB_BLOCK ".x / %d;", f.block, e->nest->n_sections);
    else if (shared)
        fb_emit(e, "const fb_at %s = " FB_BLOCK ".x - %" PRId64 ";", f.block, (int64_t)e->grid[0]);
    const fb_section *kept = e->section;
    e->section = f.s;
    switch (f.x.deal) {
    case FB_DEAL_ELEMENTS: emit_elements(&f); break;
    case FB_DEAL_LINES: emit_lines(&f); break;
    case FB_DEAL_RUNS: emit_runs(&f); break;
    case FB_DEAL_SQUARES: emit_squares(&f); break;
    case FB_DEAL_OWNERS: emit_scatter(&f); break;
    case FB_DEAL_SORTED:
    case FB_DEAL_ADDED: emit_added(&f); break;
    case FB_DEAL_LONG: emit_long(&f); break;
    case FB_DEAL_BANDS: emit_bands(&f); break;
    case FB_DEAL_RANKED: emit_ranked(&f); break;
    case FB_DEAL_SPLIT: emit_split(&f); break;
    case FB_DEAL_THROUGH: fb_emit_cuda_through(e, &f.x, f.block); break;
    default: emit_rows(&f);
    }
    e->section = kept;
    if (launched < f.x.blocks) fb_emit_close(e);
    if (shared) fb_emit_close(e);
    e->grid[0] += launched;
}

/* ---- for kernels of other shapes ---- */

int fb_emit_cuda_vector(const fb_emitter *e, const fb_section *s)
{
    return fb_schedule_vector(e->nest, e->knobs, s, FB_NONE);
}

void fb_emit_cuda_load_group(fb_emitter *e, int vector, const char *point)
{
    frame f = {.e = e, .s = e->section};
    walk w = walk_by(e, &e->section->rows, vector, fb_space_points(&e->section->rows) / vector);
    load_group(&f, &w, point);
}

/* Is it loaded anew for each row and column? */
static bool is_touched(const fb_emitter *e, const fb_value *v)
{
    const fb_space *rows = &e->section->rows;
    const uint32_t last = rows->n ? 1u << (rows->n - 1) : 0;
    const bool plain =
        v->kind == FB_VALUE_LOAD && v->when == FB_NONE && v->table == FB_NONE && v->space == FB_NONE && !v->n_args;
    return plain && !fb_nest_is_product(e->nest, v->node) && (v->rows & last) && (v->rows & ~last);
}

int fb_emit_cuda_touched(const fb_emitter *e)
{
    int size = 0;
    for (int i = 0; i < e->section->n_values; i++) {
        const fb_value *v = &e->section->values[i];
        if (is_touched(e, v) && fb_dtype_size(v->dtype) > size) size = fb_dtype_size(v->dtype);
    }
    return size;
}

void fb_emit_cuda_touch_group(fb_emitter *e, int vector, const char *point)
{
    frame f = {.e = e, .s = e->section};
    walk w = walk_by(e, &e->section->rows, vector, fb_space_points(&e->section->rows) / vector);
    declare_variables(&f, &w, point);
    for (int i = 0; i < e->section->n_values; i++) {
        const fb_value *v = &e->section->values[i];
        if (!is_touched(e, v)) continue;
        fb_emit(e, "fb_touch(&%s);",
                vector > 1 ? at_first(&f, &w, v->node, v->table, v->at) : fb_emit_element(e, v->node, v->table, v->at));
    }
}

void fb_emit_cuda_store_group(fb_emitter *e, int vector, void (*inside)(void *ctx), void *ctx)
{
    frame f = {.e = e, .s = e->section};
    walk w = walk_by(e, &e->section->rows, vector, fb_space_points(&e->section->rows) / vector);
    store_group(&f, &w, 0, inside, ctx);
}

void fb_emit_cuda_open_together(fb_emitter *e, int space, int vector, const char *first)
{
    frame f = {.e = e, .s = e->section};
    walk w = walk_by(e, &e->section->spaces[space], vector, fb_space_points(&e->section->spaces[space]) / vector);
    fb_emit_cuda_declare(e, w.first, first);
    load_packs(&f, &w, space, NULL);
    open_each(&f, &w);
}

void fb_emit_cuda_row(fb_emitter *e, int threads, int team, const char *lane)
{
    enum { FEW_STEPS = 4 }; /* the blocks of a tile leave few registers: a whole row's loads at once would crowd them */
    frame f = {.e = e,
               .x = {.deal = team == 1 ? FB_DEAL_COLUMNS : FB_DEAL_ROWS,
                     .section = e->section,
                     .threads = threads,
                     .team = team},
               .unrolled = team == 1 ? FEW_STEPS : 0,
               .lane = team == 1 ? "0" : lane,
               .declared = FB_NEW_ARRAY(e->arena, bool, e->section->n_values),
               .packed = FB_NEW_ARRAY(e->arena, bool, e->section->n_values),
               .in_row = FB_NEW_ARRAY(e->arena, bool, e->section->n_values)};
    fb_schedule_held(e->nest, e->knobs, &f.x, e->arena);
    f.s = f.x.section;
    const fb_section *kept = e->section;
    e->section = f.s;
    passes_of_row(&f);
    e->section = kept;
}

void fb_emit_cuda_declare(fb_emitter *e, fb_ix index, const char *value)
{
    if (fb_ix_is_var(e->nest->pool, index)) fb_emit(e, "const fb_at %s = %s;", var_name(e, index), value);
}

void fb_emit_cuda_variables(fb_emitter *e, const fb_space *space, const char *point)
{
    frame f = {.e = e};
    declare_point(&f, space, point);
}

fb_ix fb_emit_cuda_group(fb_emitter *e, const fb_space *space, int vector, const char *point)
{
    frame f = {.e = e, .s = e->section};
    walk w = walk_by(e, space, vector, fb_space_points(space) / vector);
    if (space->n) declare_variables(&f, &w, point);
    return w.first;
}

/* Of a team of lanes. */
static frame team_of(fb_emitter *e, int team)
{
    return (frame){.e = e, .s = e->section, .x = {.deal = FB_DEAL_ROWS, .section = e->section, .team = team}};
}

void fb_emit_cuda_begin_sums(fb_emitter *e, fb_pass p)
{
    frame f = team_of(e, 1);
    declare_accumulators(&f, p);
}

void fb_emit_cuda_add_up(fb_emitter *e, fb_pass p)
{
    frame f = team_of(e, 1);
    for (int i = 0; i < e->section->n_values; i++)
        if (fb_value_reduces(&e->section->values[i], p)) step(&f, i);
}

void fb_emit_cuda_end_sums(fb_emitter *e, fb_pass p, int team)
{
    frame f = team_of(e, team);
    combine(&f, p);
    finish_pass(&f, p);
}

/* ---- the kernel ---- */

/* An operand is never gone through by the numbers of its points: windows are many more than what they are of. */
static bool reaches(const fb_emitter *e, const fb_section *s, int64_t limit)
{
    const fb_nest *nest = e->nest;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (v->kind == FB_VALUE_CONST || v->kind == FB_VALUE_OP) continue;
        if (v->kind != FB_VALUE_LOAD) return true; /* other places, too */
        if (fb_ix_reach(nest->pool, v->at) > limit) return true;
        for (int c = v->when; c != FB_NONE; c = nest->whens[c].outer)
            if (fb_ix_reach(nest->pool, nest->whens[c].at) > limit) return true;
    }
    return false;
}

static bool is_operand(const fb_emitter *e, int part)
{
    return e->nest->tiled && part >= e->nest->n_sections;
}

/* Do all offsets and thread numbers fit 32 bits? Threads that find nothing left to do are fewer than the room kept. */
static bool is_small(const fb_emitter *e)
{
    const int64_t limit = INT32_MAX - (1 << 25);
    for (int i = 0; i < e->n_args; i++) {
        fb_id storage = e->args[i].storage; /* negative: a copy, which is as large as the rows below */
        if (storage >= 0 && fb_shape_elements(&e->nest->graph->nodes[storage].shape) > limit) return false;
    }
    for (int i = 0; i < fb_nest_parts(e->nest); i++) {
        const fb_section *s = fb_nest_part(e->nest, i);
        int64_t most = fb_space_points(&s->rows);
        for (int k = 0; k < s->n_spaces; k++)
            if (fb_space_points(&s->spaces[k]) > most) most = fb_space_points(&s->spaces[k]);
        if (most > limit && (!is_operand(e, i) || reaches(e, s, limit))) return false;
    }
    return true;
}

/* Blocks of long rows, or of a shared index, that a multiprocessor is to have registers for; else 0. Those of a row may be a cluster. */
static int blocks_sharing(fb_emitter *e)
{
    enum { MOST_THREADS = 1024 }; /* beyond, registers would be short */
    if (e->nest->n_sections != 1) return 0;
    fb_section_schedule x = fb_schedule_section(e->nest, e->knobs, &e->nest->sections[0], e->arena);
    if (x.band && x.parts > 1) e->needs.cluster = x.parts;
    if (!x.cut) return x.sharing;
    if (x.cut->cluster > 1) e->needs.cluster = x.cut->cluster;
    return x.cut->sharing * x.threads > MOST_THREADS ? MOST_THREADS / x.threads : x.cut->sharing;
}

static int section_threads(fb_emitter *e)
{
    e->stage.alone = true;
    e->stage.through = e->nest->through != NULL;
    for (int i = 0; i < e->nest->n_sections && e->stage.alone; i++) {
        fb_section_schedule x = fb_schedule_section(e->nest, e->knobs, &e->nest->sections[i], e->arena);
        e->stage.alone = !fb_schedule_meets(&x, e->target);
    }
    int sharing = blocks_sharing(e);
    e->function->sharing = sharing > 1 ? sharing : 0;
    return fb_schedule_threads(e->nest, e->knobs);
}

static void open_kernel(fb_emitter *e)
{
    static int (*const threads[FB_FAMILIES])(fb_emitter * e) = {
        [FB_FAMILY_GEMM] = fb_emit_cuda_gemm_threads, [FB_FAMILY_CHAIN] = fb_emit_cuda_chain_threads};
    e->grid[1] = e->grid[2] = e->block[1] = e->block[2] = 1;
    e->block[0] = (threads[e->family] ? threads[e->family] : section_threads)(e);
    e->function->threads = e->block[0];
    e->function->cluster = e->needs.cluster;
    fb_emit(e, "using fb_at = %s;", is_small(e) ? "int" : "int64_t");
}

/* A stage's block and grid are arguments; what it reads may have been written by another stage of the same launch. */
static void print_head(const fb_part *p, const char *entry, fb_str *out)
{
    const fb_function *f = p->function;
    const char *before = p->stage ? ", " : "";
    if (p->stage) {
        fb_str_addf(out, "static __device__ %s void\n", p->often ? "__noinline__" : "__forceinline__");
        fb_str_addf(out, "%s(const fb_dims fb_block_index, const fb_dims fb_grid_size", entry);
    } else {
        fb_str_add(out, "extern \"C\" __global__ void ");
        if (f->cluster) fb_str_addf(out, "__cluster_dims__(%d, 1, 1) ", f->cluster);
        fb_str_addf(out, "__launch_bounds__(%d", f->threads);
        if (f->sharing) fb_str_addf(out, ", %d", f->sharing);
        fb_str_addf(out, ")\n%s(", entry);
    }
    for (int i = 0; i < f->n_parameters; i++, before = ", ") {
        const fb_parameter *a = &f->parameters[i];
        fb_str_addf(out, "%s%s%s *%s%s", before, a->constant ? "const " : "", a->type,
                    a->restricted && !p->stage ? "__restrict__ " : "", a->name);
    }
    if (f->steps) fb_str_addf(out, "%sconst int64_t steps", before);
    if (p->keeps.kept_shared) fb_str_add(out, ", unsigned char *fb_kept, bool fb_fresh");
    if (p->keeps.through) fb_str_add(out, ", const int fb_steps");
    if (p->keeps.round) fb_str_addf(out, ", %s &fb_kept, int fb_step, int64_t fb_left", p->keeps.round);
    fb_str_add(out, f->apart ? ")\n{\n" : "){\n");
}

const fb_printer fb_printer_cuda = {
    .pieces = {[FB_FAMILY_GEMM] = {"kernels/tile.cuh", "kernels/gemm.cuh"},
               [FB_FAMILY_CHAIN] = {"kernels/tile.cuh", "kernels/gemm.cuh", "kernels/chain.cuh"},
               [FB_FAMILY_SCAN] = {"kernels/tile.cuh", "kernels/gemm.cuh", "kernels/grid.cuh"}},
    .texts = {[FB_TEXT_WGMMA] = {"kernels/wgmma.cuh", "fb_chain_wide"},
              [FB_TEXT_GEMM_WIDE] = {"kernels/gemm_wide.cuh", "fb_gemm_wide"},
              [FB_TEXT_GEMM_TMA] = {"kernels/gemm_tma.cuh", "fb_gemm_tma"},
              [FB_TEXT_ATTENTION] = {"kernels/attention.cuh", "fb_attention"},
              [FB_TEXT_SORTED] = {"kernels/sorted.cuh", "fb_sorted"},
              [FB_TEXT_CLUSTER] = {"kernels/cluster.cuh", "fb_recurrence"},
              [FB_TEXT_CLUSTER_WIDE] = {"kernels/cluster_wide.cuh", "fb_wide_recurrence"},
              [FB_TEXT_CLUSTER_F32] = {"kernels/cluster_f32.cuh", "fb_recurrence_f32"},
              [FB_TEXT_LONG] = {"kernels/long.cuh", "fb_long_"},
              [FB_TEXT_BANDS] = {"kernels/bands.cuh", "fb_band"},
              [FB_TEXT_DIRECT] = {"kernels/direct.cuh", "fb_direct<"},
              [FB_TEXT_SCAN] = {"kernels/scan.cuh", "fb_scan_"},
              [FB_TEXT_RANKED] = {"kernels/ranked.cuh", "fb_ranked<"},
              [FB_TEXT_ADDED] = {"kernels/added.cuh", "fb_added"}},
    .block = {"blockIdx", "fb_block_index"},
    .grid = {"gridDim", "fb_grid_size"},
    .head = print_head,
    .open = open_kernel,
    .around = find_section,
    .section = {[FB_FAMILY_POINTWISE] = emit_section_cuda,
                [FB_FAMILY_REDUCE] = emit_section_cuda,
                [FB_FAMILY_LIBRARY] = emit_section_cuda,
                [FB_FAMILY_COPY] = emit_section_cuda},
    .whole = {[FB_FAMILY_GEMM] = fb_emit_cuda_gemm, [FB_FAMILY_CHAIN] = fb_emit_chain_cuda},
};
