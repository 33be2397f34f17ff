/* How sections are dealt to threads: shape, team, vectors, and what stays in registers.
 *
 * requires  a nest; knobs (NULL: automatic)
 * provides  the same answer for the cost model and for the printer: nobody below decides again */
#include "schedule/schedule.h"

#include "base/integer.h"
#include "base/mem.h"
#include "base/mutate.h"
#include "schedule/bands.h"
#include "schedule/held.h"
#include "schedule/long.h"
#include "schedule/team.h"
#include "schedule/through.h"
#include "schedule/windows.h"

#include <string.h>

enum {
    HELD = 64, /* elements a thread may keep in registers */
    MOST_VECTOR = 8,
    ELEMENT_THREADS = 256,   /* a block where nothing is reduced */
    SEQUENTIAL_THREADS = 64, /* … where each row has one thread */
    EVEN = 64,               /* so many iterations keep any team even */
    THREADS_AT_ONCE = 2048,  /* of a multiprocessor */
};

/* ---- accesses that run along a variable ---- */

static bool is_multiple(fb_index_pool *pool, fb_ix at, int by)
{
    int64_t rest = 0;
    return FB_MUTATE(53, fb_ix_is_const(pool, fb_ix_mod(pool, at, by), &rest) && rest == 0, true);
}

/* Does `at` step by one along `last`, from places that are multiples of `vector`? */
static bool runs_along(const fb_nest *nest, fb_ix at, fb_ix last, int vector)
{
    int64_t stride;
    fb_ix rest;
    if (!fb_ix_coefficient(nest->pool, at, last, &stride) || stride != 1) return false;
    if (fb_ix_all_multiples(nest->pool, at, last, vector)) return true; /* most are, and need no new expression */
    fb_ix_stride(nest->pool, at, last, &stride, &rest);
    return is_multiple(nest->pool, rest, vector);
}

static bool table_fits(const fb_section *s, int table, int vector)
{
    for (int m = 0; m < s->members; m++)
        if (s->tables[table].shift[m] % vector) return false;
    return true;
}

/* A loop's step may move any pointer of its body by what is stored there: only whole vectors keep it aligned. */
bool fb_packs_in_steps(const fb_nest *nest, fb_id storage, int vector)
{
    fb_id node = storage >= 0 ? storage : nest->kernel.stored[0];
    const fb_node *n = &nest->graph->nodes[node];
    return n->region == 0 || fb_node_bytes(nest->graph, node) % (vector * fb_dtype_size(n->dtype)) == 0;
}

bool fb_packs(const fb_nest *nest, fb_id storage, fb_ix at, fb_ix last, int vector)
{
    return fb_packs_in_steps(nest, storage, vector) && runs_along(nest, at, last, vector);
}

/* Is its place read from memory anew for neighbours along `last`? */
static bool is_named_by_each(const fb_nest *nest, const fb_section *s, const fb_value *v, fb_ix last)
{
    bool named = false;
    for (int d = 0; d < s->n_data; d++) {
        const fb_value *place = &s->values[s->data[d].value];
        if (!fb_ix_uses(nest->pool, v->at, s->data[d].var)) continue;
        bool of_row = false;
        for (int r = 0; r < s->rows.n; r++) {
            if (s->rows.var[r] != last) continue;
            of_row = true;
            named |= place->rows >> r & 1;
        }
        named |= !of_row && place->space != FB_NONE;
    }
    return named;
}

bool fb_packs_tested(const fb_nest *nest, const fb_section *s, const fb_value *v, fb_ix last, int vector)
{
    if (v->kind != FB_VALUE_LOAD || vector == 1 || is_named_by_each(nest, s, v, last)) return false;
    for (int c = v->when; c != FB_NONE; c = nest->whens[c].outer)
        if (fb_ix_uses(nest->pool, nest->whens[c].at, last)) return false;
    return (v->table == FB_NONE || table_fits(s, v->table, vector)) && fb_packs(nest, v->node, v->at, last, vector);
}

bool fb_packs_load(const fb_nest *nest, const fb_section *s, const fb_value *v, fb_ix last, int vector)
{
    return v->when == FB_NONE && fb_packs_tested(nest, s, v, last, vector);
}

bool fb_packs_root(const fb_nest *nest, const fb_section *s, const fb_root *r, fb_ix last, int vector)
{
    if (vector == 1) return false;
    bool stacked = r->storage >= 0 && nest->graph->nodes[r->storage].op == FB_OP_RESULT;
    if (stacked && !fb_packs_in_steps(nest, r->node, vector)) return false;
    return (r->table == FB_NONE || table_fits(s, r->table, vector)) && fb_packs(nest, r->storage, r->at, last, vector);
}

/* ---- elements that take turns along a variable ---- */

/* Is all of each group inside the tensor? Groups begin at multiples of their size. */
static bool is_interleaved(const fb_nest *nest, fb_id storage, fb_ix at, fb_ix last, int vector, fb_interleaved *out)
{
    int64_t stride, place;
    fb_ix rest;
    if (storage < 0 || vector == 1 || !fb_ix_coefficient(nest->pool, at, last, &stride)) return false;
    if (stride != 2 && stride != FB_MAX_INTERLEAVED) return false;
    const fb_node *n = &nest->graph->nodes[storage];
    const int64_t group = vector * stride;
    if (fb_shape_elements(&n->shape) % group || !fb_packs_in_steps(nest, storage, (int)group)) return false;
    fb_ix_stride(nest->pool, at, last, &stride, &rest);
    if (!fb_ix_is_const(nest->pool, fb_ix_mod(nest->pool, rest, group), &place) || place >= stride) return false;
    *out = (fb_interleaved){(int)stride, (int)place, fb_ix_sub(nest->pool, at, fb_ix_const(nest->pool, place))};
    return true;
}

static bool has_elements_alone(const fb_section *s)
{
    return !s->n_passes && !s->scatter;
}

bool fb_interleaves_load(const fb_nest *nest, const fb_section *s, const fb_value *v, fb_ix last, int vector,
                         fb_interleaved *out)
{
    return has_elements_alone(s) && v->kind == FB_VALUE_LOAD && v->when == FB_NONE && v->table == FB_NONE &&
           !is_named_by_each(nest, s, v, last) && is_interleaved(nest, v->node, v->at, last, vector, out);
}

bool fb_interleaves_root(const fb_nest *nest, const fb_section *s, const fb_root *r, fb_ix last, int vector,
                         fb_interleaved *out)
{
    if (!has_elements_alone(s) || r->table != FB_NONE || !is_interleaved(nest, r->storage, r->at, last, vector, out))
        return false;
    int places = 0;
    for (int i = 0; i < s->n_roots; i++) {
        const fb_root *o = &s->roots[i];
        fb_interleaved t;
        if (o->storage != r->storage || o->table != FB_NONE) continue;
        if (is_interleaved(nest, o->storage, o->at, last, vector, &t) && t.from == out->from) places |= 1 << t.place;
    }
    return places == (1 << out->parts) - 1;
}

/* Bytes of an element; what a copy is stored in is no node. */
static int size_in(const fb_nest *nest, fb_id storage)
{
    return fb_dtype_size(nest->graph->nodes[storage >= 0 ? storage : nest->kernel.stored[0]].dtype);
}

/* The most that a thread moves at once of what values of `space` are, along the last variable of `x`. */
static int vector_along(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s, int space, const fb_space *x)
{
    if (!x->n) return 1;
    fb_ix last = x->var[x->n - 1];
    int largest = 0;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        fb_interleaved by = {.parts = 1};
        if (v->space != space) continue;
        if (!fb_packs_load(nest, s, v, last, 2) && !fb_interleaves_load(nest, s, v, last, 2, &by)) continue;
        int size = size_in(nest, v->node) * by.parts;
        if (size > largest) largest = size;
    }
    for (int i = 0; i < s->n_roots; i++) {
        const fb_root *r = &s->roots[i];
        fb_interleaved by = {.parts = 1};
        if (r->space != space) continue;
        if (!fb_packs_root(nest, s, r, last, 2) && !fb_interleaves_root(nest, s, r, last, 2, &by)) continue;
        int size = size_in(nest, r->storage) * by.parts;
        if (size > largest) largest = size;
    }
    if (!largest) return 1;
    int bytes = nest->target->vector_bytes, vector = bytes / largest < MOST_VECTOR ? bytes / largest : MOST_VECTOR;
    int64_t asked = fb_knob_of(knobs, FB_KNOB_VECTOR);
    while (asked > 0 && vector > asked) vector /= 2;
    while (vector > 1 && FB_MUTATE(54, x->extent[x->n - 1] % vector, false)) vector /= 2;
    return vector;
}

/* Of the largest element that runs along the space's last variable. */
int fb_schedule_vector(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s, int space)
{
    return vector_along(nest, knobs, s, space, space == FB_NONE ? &s->rows : &s->spaces[space]);
}

int fb_schedule_vector_across(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s, int space)
{
    return vector_along(nest, knobs, s, space, &s->rows);
}

/* ---- teams ---- */

bool fb_schedule_is_sequential(const fb_section *s)
{
    for (int i = 0; i < s->n_values; i++)
        if (s->values[i].kind == FB_VALUE_SCAN) return true;
    return false;
}

/* The longest pass, in groups of elements that move together. */
static int64_t longest_pass(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s)
{
    int64_t longest = 1;
    for (int p = 0; p < s->n_passes; p++) {
        int space = s->passes[p].space;
        int64_t points = fb_space_points(&s->spaces[space]) / fb_schedule_vector(nest, knobs, s, space);
        if (points > longest) longest = points;
    }
    return longest;
}

static void choose_team(const fb_nest *nest, fb_section_schedule *x, int64_t longest)
{
    fb_team t = fb_team_of(nest->target, x->deal == FB_DEAL_COLUMNS, nest->stage, x->rows, longest);
    x->team = t.team;
    x->threads = t.threads;
    x->rows_a_block = t.rows_a_block;
}

/* Threads of the blocks that another section of the kernel would have by itself, where these are many; else 0. */
static int threads_beside(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s)
{
    enum { MANY = 2 }; /* blocks of each multiprocessor */
    const int64_t rows = fb_space_points(&s->rows);
    fb_team t = {.threads = ELEMENT_THREADS, .rows_a_block = ELEMENT_THREADS};
    if (s->scatter || fb_schedule_is_sequential(s)) return 0;
    if (s->n_passes)
        t = fb_team_of(nest->target, fb_section_lies_across(nest->pool, s), false, rows, longest_pass(nest, knobs, s));
    else
        t.rows_a_block *= fb_schedule_vector(nest, knobs, s, FB_NONE);
    return rows / t.rows_a_block >= MANY * nest->units ? t.threads : 0;
}

/* Blocks are as large as the largest of any section: those of columns leave the threads of many others' blocks idle, and can as
 * well be smaller and more. (Means of the rows and of the columns of 4096 × 4096 in f32 in one kernel, by 1024 threads of which
 * rows take 256: 101 µs on an H200.) */
static void fit_columns(const fb_nest *nest, const fb_knobs *knobs, fb_section_schedule *x)
{
    const int warp = nest->target->warp;
    if (x->deal != FB_DEAL_COLUMNS || x->team == 1 || nest->stage) return;
    for (int i = 0; i < nest->n_sections; i++) {
        const int threads = &nest->sections[i] == x->section ? 0 : threads_beside(nest, knobs, &nest->sections[i]);
        if (threads < ELEMENT_THREADS || threads >= x->threads) continue;
        x->threads = threads;
        x->team = threads / warp;
    }
}

/* One short row after the other would wait for what it loads each time. (The gradient of a softmax over 16 columns,
 * measured on an H200: 7.5 µs of a warp with 16 such rows.) */
int fb_schedule_tile_team(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s, bool all)
{
    if (fb_schedule_is_sequential(s)) return 1;
    if (!all) return nest->target->warp;
    int team = fb_power_of_two(longest_pass(nest, knobs, s), nest->target->warp);
    return team < 2 ? 2 : team;
}

/* Threads that the knob asks for, in whole warps, as far as the hardware has them; 0: it asks for none. */
static int threads_asked(const fb_target *t, const fb_knobs *knobs)
{
    int64_t threads = fb_knob_of(knobs, FB_KNOB_THREADS);
    if (threads <= 0) return 0;
    return threads < t->warp ? t->warp : threads > t->most_threads ? t->most_threads : (int)threads / t->warp * t->warp;
}

/* Does somebody ask how elements or rows are dealt? Then they are so, and not by another way that pays. */
static bool is_asked_for(const fb_knobs *knobs)
{
    static const fb_knob own[] = {FB_KNOB_ROWS, FB_KNOB_THREADS, FB_KNOB_VECTOR, FB_KNOB_GRID};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (fb_knob_of(knobs, own[i])) return true;
    return false;
}

/* Several rows of a block share warps evenly, and a row of its own has the block. */
static void apply_knobs(const fb_target *t, const fb_knobs *knobs, fb_section_schedule *x)
{
    int64_t rows = fb_knob_of(knobs, FB_KNOB_ROWS);
    int threads = threads_asked(t, knobs);
    if (x->deal == FB_DEAL_COLUMNS) {
        if (threads) x->threads = threads;
        if (threads && x->team == 1)
            x->rows_a_block = threads;
        else if (threads)
            x->team = threads / t->warp;
        if (!x->scans) return;
        x->team = fb_power_of_two(x->team, t->warp);
        x->threads = t->warp * x->team;
        return;
    }
    bool whole_block = rows == 1 || (!rows && x->rows_a_block == 1);
    if (threads) x->threads = threads;
    if (!rows && !threads) return;
    if (whole_block) {
        x->team = x->threads;
        x->rows_a_block = 1;
        return;
    }
    if (!rows) {
        x->rows_a_block = x->threads / x->team;
        return;
    }
    x->rows_a_block = fb_power_of_two(rows, t->most_threads);
    x->team = threads             ? fb_power_of_two(fb_ceil_div(x->threads, x->rows_a_block), t->warp)
              : x->team < t->warp ? x->team
                                  : t->warp;
    while (x->team * x->rows_a_block > t->most_threads) x->team /= 2;
    while (x->team * x->rows_a_block < t->warp) x->team *= 2;
    x->threads = x->team * (int)x->rows_a_block;
}

/* ---- what passes keep ---- */

int64_t fb_schedule_steps(const fb_section_schedule *x, const fb_space *space, int vector)
{
    return fb_ceil_div(fb_space_points(space) / vector, x->team);
}

static int64_t registers_of(const fb_nest *nest, const fb_knobs *knobs, const fb_section_schedule *x, const fb_value *v)
{
    const fb_section *s = x->section;
    const fb_space *space = v->space == FB_NONE ? &s->rows : &s->spaces[v->space];
    int vector = fb_schedule_vector(nest, knobs, s, v->space);
    return fb_schedule_steps(x, space, vector) * vector * (v->dtype == FB_F64 || v->dtype == FB_I64 ? 2 : 1);
}

/* What several passes need, and one of them for something that it alone has: the last that they have in common. Of
 * windows that are that instead of all that they were made of. */
static void find_common(const fb_section *s, const int *times, bool *common, fb_arena *arena)
{
    bool *needed = FB_NEW_ARRAY(arena, bool, s->n_values);
    memset(common, 0, (size_t)s->n_values);
    for (int p = 0; p < s->n_passes; p++) {
        fb_section_needed(s, p, needed);
        for (int i = 0; i < s->n_values; i++) {
            const fb_value *v = &s->values[i];
            if (!fb_value_reduces(v, s->passes[p]) && (!needed[i] || times[i] > 1)) continue;
            for (int k = 0; k < v->n_args; k++) common[v->args[k]] = true;
        }
        for (int i = 0; i < s->n_roots; i++)
            if (s->roots[i].space == s->passes[p].space && s->roots[i].depth == s->passes[p].depth)
                common[s->roots[i].value] = true;
    }
    for (int i = 0; i < s->n_values; i++)
        common[i] = common[i] && times[i] > 1 && s->values[i].space != FB_NONE && s->values[i].kind != FB_VALUE_CONST;
}

static int first_pass(const fb_section *s, fb_val v, bool *needed)
{
    for (int p = 0; p < s->n_passes; p++) {
        fb_section_needed(s, p, needed);
        if (needed[v] && s->values[v].space == s->passes[p].space) return p;
    }
    return s->n_passes;
}

/* Not where a pass written out for each element that is held would be a long text. */
static bool is_short(const fb_nest *nest, const fb_knobs *knobs, const fb_section_schedule *x)
{
    enum { LONG = 1024 };
    const fb_section *s = x->section;
    int64_t loads = fb_section_loads(s), steps = 0;
    for (int p = 0; p < s->n_passes; p++) {
        const fb_space *space = &s->spaces[s->passes[p].space];
        int64_t own = fb_schedule_steps(x, space, fb_schedule_vector(nest, knobs, s, s->passes[p].space));
        if (own > steps) steps = own;
    }
    return steps * loads <= LONG;
}

typedef enum { KEEP_SLOW, KEEP_COMMON, KEEP_LOADS, KEEP_MADE } keeping;

static bool is_slow(const fb_nest *nest, const fb_value *v)
{
    return v->kind == FB_VALUE_OP && fb_op_get(fb_node_computed_as(nest->graph, v->node))->special;
}

/* Registers of what is kept, where what is made takes the place of what no later pass needs. */
static int64_t registers_in_turn(const fb_nest *nest, const fb_knobs *knobs, const fb_section_schedule *x,
                                 const fb_section *s, fb_arena *arena)
{
    int64_t most = 0;
    bool *seen = FB_NEW_ARRAY(arena, bool, s->n_values), *later = FB_NEW_ARRAY(arena, bool, s->n_values),
         *needed = FB_NEW_ARRAY(arena, bool, s->n_values);
    for (int p = 0; p + 1 < s->n_passes; p++) {
        int64_t registers = 0;
        fb_section_needed(s, p, needed);
        for (int i = 0; i < s->n_values; i++) seen[i] |= needed[i];
        memset(later, 0, (size_t)s->n_values);
        for (int k = p + 1; k < s->n_passes; k++) {
            fb_section_needed(s, k, needed);
            for (int i = 0; i < s->n_values; i++) later[i] |= needed[i];
        }
        for (int i = 0; i < s->n_values; i++)
            if (s->values[i].kept && seen[i] && later[i]) registers += registers_of(nest, knobs, x, &s->values[i]);
        if (registers > most) most = registers;
    }
    return most;
}

/* Marks what is kept of what several passes need: what is loaded and slow functions, the last that they have in common,
 * or only what is loaded; or slow functions of rows however long, and what is loaded until then. Returns the registers that it
 * takes. */
static int64_t mark_kept(const fb_nest *nest, const fb_knobs *knobs, const fb_section_schedule *x, fb_section *s,
                         const int *times, keeping what, fb_arena *arena)
{
    int64_t registers = 0;
    bool *needed = FB_NEW_ARRAY(arena, bool, s->n_values), *common = FB_NEW_ARRAY(arena, bool, s->n_values);
    for (int i = 0; i < s->n_values; i++) s->values[i].kept = false;
    if (what == KEEP_COMMON) find_common(s, times, common, arena);
    for (int i = 0; i < s->n_values && what == KEEP_COMMON; i++)
        if (common[i]) s->values[i].kept_pass = first_pass(s, i, needed);
    for (int i = 0; i < s->n_values; i++) {
        fb_value *v = &s->values[i];
        bool loaded = v->kind == FB_VALUE_LOAD, on_chip = nest->tiled && loaded && fb_nest_is_product(nest, v->node);
        bool worth =
            loaded || (what == KEEP_SLOW && x->section->values[i].kept) || (what == KEEP_MADE && is_slow(nest, v));
        if (what == KEEP_COMMON) worth = common[i];
        v->kept = times[i] > 1 && v->space != FB_NONE && !on_chip && worth;
        if (v->kept && what == KEEP_MADE) v->kept_pass = first_pass(s, i, needed);
        if (v->kept) registers += registers_of(nest, knobs, x, v);
    }
    return what == KEEP_MADE ? registers_in_turn(nest, knobs, x, s, arena) : registers;
}

/* Is a slow function computed in several passes? */
static bool repeats_slow(const fb_nest *nest, const fb_section *s, const int *times)
{
    bool any = false;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        any |= times[i] > 1 && v->space != FB_NONE && !v->kept && is_slow(nest, v);
    }
    return any;
}

/* Keeps what later passes read again, if all of it fits the registers; else nothing is kept and passes compute anew. Of
 * rows that lie side by side many are on their way at a time, and the next pass would come from memory: there less is
 * kept before nothing is. */
void fb_schedule_held(const fb_nest *nest, const fb_knobs *knobs, fb_section_schedule *x, fb_arena *arena)
{
    enum { CROWDED = 24 /* registers, of which some are made */, FULL = 48 /* … and of what is loaded alone */ };
    fb_section *s = fb_arena_copy(arena, x->section, sizeof *s);
    s->values = fb_arena_copy(arena, s->values, (size_t)s->n_values * sizeof *s->values);
    bool *needed = FB_NEW_ARRAY(arena, bool, s->n_values);
    int *times = FB_NEW_ARRAY(arena, int, s->n_values);
    for (int i = 0; i < s->n_values; i++) s->values[i].kept = false;
    for (int p = 0; p < s->n_passes; p++) {
        fb_section_needed(s, p, needed);
        for (int i = 0; i < s->n_values; i++) times[i] += needed[i];
    }
    /* rows of a product's tile have no blocks of their own, and few registers */
    const bool own = x->deal == FB_DEAL_COLUMNS && x->rows_a_block > 0;
    const bool across = own && !fb_schedule_is_sequential(s) && is_short(nest, knobs, x);
    int64_t registers = mark_kept(nest, knobs, x, s, times, KEEP_SLOW, arena);
    x->crowded = x->deal == FB_DEAL_ROWS && x->rows_a_block == 1 && registers > FULL && registers <= HELD;
    if (x->deal == FB_DEAL_ROWS && x->rows_a_block == 1 && repeats_slow(nest, s, times)) {
        registers = mark_kept(nest, knobs, x, s, times, KEEP_MADE, arena);
        x->crowded = registers > CROWDED && registers <= HELD;
        if (registers > HELD) registers = mark_kept(nest, knobs, x, s, times, KEEP_SLOW, arena);
    }
    if (across && registers > HELD) registers = mark_kept(nest, knobs, x, s, times, KEEP_COMMON, arena);
    if (across && registers > HELD) registers = mark_kept(nest, knobs, x, s, times, KEEP_LOADS, arena);
    x->held = (x->deal == FB_DEAL_ROWS || across) && registers > 0 && registers <= HELD;
    for (int i = 0; !x->held && i < s->n_values; i++) s->values[i].kept = false;
    x->section = s;
}

/* A stage of a merged kernel waits for its loads and for little else. (Training steps of a network of 255 × 255, measured
 * on an H200: 7.2 µs a step, unrolled 6.2.) */
static bool is_stepped(const fb_nest *nest, const fb_knobs *knobs, const fb_section_schedule *x)
{
    const fb_section *s = x->section;
    bool few = nest->stage && x->deal == FB_DEAL_ROWS && x->team == nest->target->warp && is_short(nest, knobs, x);
    for (int p = 0; p < s->n_passes && few; p++) {
        int vector = fb_schedule_vector(nest, knobs, s, s->passes[p].space);
        few = fb_schedule_steps(x, &s->spaces[s->passes[p].space], vector) <= FB_TEAM_STEPS;
    }
    return few;
}

/* Is a divisor of whole rows inverted once, because each thread divides many elements of them? A division is a dozen
 * instructions and two branches, a product with the reciprocal, corrected, is five. */
static bool inverts(const fb_nest *nest, const fb_knobs *knobs, const fb_section_schedule *x)
{
    enum { MANY = 32 };
    const fb_section *s = x->section;
    if (x->deal != FB_DEAL_ROWS || x->rows_a_block != 1 || nest->stage) return false;
    for (int p = 0; p < s->n_passes; p++) {
        const int space = s->passes[p].space, vector = fb_schedule_vector(nest, knobs, s, space);
        if (fb_schedule_steps(x, &s->spaces[space], vector) * vector >= MANY) return true;
    }
    return false;
}

/* ---- columns ---- */

/* A number of a row that is loaded as it is: the pass loads it where it takes the row. */
static bool is_of_row_alone(const fb_value *v)
{
    return v->kind == FB_VALUE_LOAD && v->when == FB_NONE && v->table == FB_NONE && !v->n_args;
}

/* What one pass needs of a row is known without the row, or loaded, and what it makes of it is a number. */
static bool is_plain_pass(const fb_nest *nest, const fb_section *s)
{
    bool *needed = fb_calloc((size_t)s->n_values + 1, 1), plain = s->n_passes == 1 && !s->n_data;
    if (plain) fb_section_needed(s, 0, needed);
    for (int i = 0; i < s->n_values && plain; i++) {
        const fb_value *v = &s->values[i];
        fb_op op = v->kind == FB_VALUE_REDUCE ? nest->graph->nodes[v->node].op : FB_OP_SUM;
        plain = op != FB_OP_ARGMAX && op != FB_OP_ARGMIN && op != FB_OP_RANK && v->kind != FB_VALUE_SCAN;
        plain = plain && !(needed[i] && v->space == FB_NONE && v->kind != FB_VALUE_CONST && !is_of_row_alone(v));
    }
    for (int i = 0; i < s->n_roots; i++) plain &= s->roots[i].space == FB_NONE || s->roots[i].depth == 0;
    fb_free(needed);
    return plain;
}

/* Rows that lie side by side and are long: a thread moves neighbours at once, as many as are at hand, and so fewer
 * threads stand side by side and more share the long way. One element of 16 bits each leaves most of the way to memory
 * idle; larger ones were not measured, and go one by one. */
static int columns_each(const fb_nest *nest, const fb_knobs *knobs, const fb_section_schedule *x)
{
    enum { STEPS = 4, WIDEST = 8 }; /* steps of a thread, at least */
    const fb_section *s = x->section;
    int warp = nest->target->warp;
    if (x->deal != FB_DEAL_COLUMNS || x->team == 1 || x->rows_a_block != warp || x->rows % warp) return 1;
    if (!is_plain_pass(nest, s)) return 1;
    const fb_space *space = &s->spaces[s->passes[0].space];
    int each = fb_schedule_vector_across(nest, knobs, s, s->passes[0].space);
    if (each < WIDEST) return 1;
    while (each > 1 && fb_space_points(space) < (int64_t)STEPS * x->team * each) each /= 2;
    return each;
}

/* … of blocks half as large, of which a multiprocessor has four: they leave fewer of them idle at the end. (A vector by two
 * matrices of 4096 × 11,008 in bf16 on an H200: 344 blocks of 1024 threads 70 µs, of 512 58.) */
static void halve_columns(const fb_nest *nest, const fb_knobs *knobs, fb_section_schedule *x)
{
    if (x->each == 1 || x->deal != FB_DEAL_COLUMNS || x->team < nest->target->warp) return;
    if (threads_asked(nest->target, knobs)) return;
    x->team /= 2;
    x->threads = nest->target->warp * x->team;
}

/* Neighbouring rows by the thread or the team that has the first, where they load the same. */
static void join_rows(const fb_nest *nest, const fb_knobs *knobs, fb_section_schedule *x)
{
    const bool alone = x->deal == FB_DEAL_COLUMNS && x->team == 1,
               team = x->deal == FB_DEAL_ROWS && x->team > 1 && x->team <= nest->target->warp;
    if ((!alone && !team) || nest->stage || is_asked_for(knobs)) return;
    if (is_plain_pass(nest, x->section))
        x->each =
            alone ? fb_window_rows(nest, x->section, x->rows) : fb_shared_rows(nest, x->section, x->rows, x->team);
    else if (alone)
        x->each = fb_gathered_rows(nest, x->section, x->rows);
    x->gathers = x->each > 1 && x->section->n_data;
    x->rows_a_block = (int64_t)x->threads / x->team * x->each;
    x->blocks = fb_ceil_div(x->rows, x->rows_a_block);
}

/* ---- running sums and products ---- */

/* A team goes along long ones together: each thread adds up its own elements, then knows what those before it have. On
 * an H100 32,768 rows of 1024 took 8.6 ms by a thread each, and memory needs 2.9. Not where one is made of another. */
static bool scans_in_teams(const fb_section *s)
{
    enum { LONG = 32 };
    bool *follows = fb_calloc((size_t)s->n_values + 1, 1); /* it is one, or made of one */
    bool may = !s->n_data;
    for (int i = 0; i < s->n_values && may; i++) {
        const fb_value *v = &s->values[i];
        for (int k = 0; k < v->n_args; k++) follows[i] |= follows[v->args[k]];
        if (v->kind != FB_VALUE_SCAN) continue;
        may = !follows[i] && fb_space_points(&s->spaces[v->over]) >= LONG;
        follows[i] = true;
    }
    fb_free(follows);
    return may;
}

/* ---- sections ---- */

static bool deals_points(fb_deal deal)
{
    return deal == FB_DEAL_OWNERS || deal == FB_DEAL_SORTED || deal == FB_DEAL_ADDED;
}

/* Not where blocks wait for each other or return early. */
static int64_t launched_of(const fb_knobs *knobs, const fb_section_schedule *x)
{
    int64_t most = fb_knob_of(knobs, FB_KNOB_GRID);
    if ((x->deal == FB_DEAL_COLUMNS || x->deal == FB_DEAL_ROWS) && x->parts > 1) return x->blocks;
    bool may = most > 0 && !deals_points(x->deal) && x->deal != FB_DEAL_SPLIT && x->deal != FB_DEAL_LONG;
    may = may && x->deal != FB_DEAL_BANDS;
    return may && most < x->blocks ? most : x->blocks;
}

/* Few long columns, only reduced: as many blocks a group of them as all multiprocessors hold at once, and none more. (Sums of
 * 65,536 rows of 256 by eight blocks were foreseen as 70 µs, four times what reading them takes. Of 65,536 rows of 1024 in
 * f32 on an H200: 256 blocks of 1024 threads 75 µs, 288 of them 96. A vector by 11,008 × 4096 in bf16: 128 blocks of 1024
 * threads 43 µs, 512 of 512 34.) */
static void share_columns(const fb_nest *nest, const fb_knobs *knobs, fb_section_schedule *x)
{
    enum {
        LONG = 128,
        STEPS = 16,
        LONG_OF_SEVERAL = 32,
        STEPS_OF_SEVERAL = 8
    }; /* steps of a thread, before and after */
    const bool several = x->each > 1;
    const int64_t room = (int64_t)THREADS_AT_ONCE / x->threads * nest->units;
    const int64_t asked = fb_knob_of(knobs, FB_KNOB_PARTS);
    if (x->deal != FB_DEAL_COLUMNS || x->team == 1 || x->scans || nest->stage) return;
    if (!fb_section_only_reduces(x->section)) return;
    int64_t steps = fb_section_longest(x->section) / x->team / x->each, parts = asked;
    if (!asked) {
        const int64_t most = steps / (several ? STEPS_OF_SEVERAL : STEPS);
        parts = room / x->blocks < most ? room / x->blocks : most;
        if (steps < (several ? LONG_OF_SEVERAL : LONG)) return;
    }
    if (parts < 2) return;
    x->parts = (int)parts;
    x->blocks *= parts;
    x->held = x->stepped = false;
}

/* Long rows of running values and nothing else: blocks first say what their parts come to. That reads all of a row twice,
 * and one block alone would have taken 680 µs for ten million. Or columns, of which a block has a warp's: 1024 of 8192 in
 * bf16 took 61 µs by 32 blocks, which wait for each of 64 steps. */
static void share_scan(const fb_nest *nest, const fb_knobs *knobs, int64_t longest, fb_section_schedule *x)
{
    enum { LONG = 64, STEPS = 4 }; /* steps of a thread, before and after */
    const fb_section *s = x->section;
    const bool columns = x->deal == FB_DEAL_COLUMNS;
    const int64_t asked = fb_knob_of(knobs, FB_KNOB_PARTS), steps = longest / x->team / (columns ? FB_SCAN_EACH : 1);
    const int64_t least = columns ? LONG / FB_SCAN_EACH : LONG;
    const int64_t fewest = columns && !asked ? 3 : 2; /* of two, each goes along as much as one would */
    const int64_t groups = columns ? x->blocks : x->rows, room = columns ? (int64_t)THREADS_AT_ONCE / x->threads : 1;
    bool alone = x->scans && s->n_passes == 1;
    alone &= columns ? x->team > 1 : x->deal == FB_DEAL_ROWS && x->team == x->threads && x->rows_a_block == 1;
    for (int i = 0; i < s->n_values; i++) alone &= s->values[i].kind != FB_VALUE_REDUCE;
    for (int i = 0; i < s->n_roots; i++) alone &= s->roots[i].space == s->passes[0].space;
    if (!alone || nest->stage || nest->n_sections > 1 || groups <= 0) return;
    int64_t parts = asked ? asked : nest->units * room / groups;
    if (!asked && parts > steps / STEPS) parts = steps / STEPS;
    if (parts > nest->units) parts = nest->units;
    if (parts < fewest || (!asked && steps < least)) return;
    x->parts = (int)parts;
    x->blocks = groups * parts;
}

static void deal_rows(const fb_nest *nest, const fb_knobs *knobs, fb_section_schedule *x, fb_arena *arena)
{
    enum { MANY_COLUMNS = 16 }; /* that keep half of a warp busy */
    const fb_section *s = x->section;
    int64_t longest = longest_pass(nest, knobs, s);
    fb_section_schedule cut = *x;
    const bool may = fb_cut_rows(nest, knobs, &cut, arena);
    const bool sequential = fb_schedule_is_sequential(s);
    const fb_deal lies = fb_section_lies_across(nest->pool, s) ? FB_DEAL_COLUMNS : FB_DEAL_ROWS;
    if (lies == FB_DEAL_COLUMNS && !sequential && fb_band_columns(nest, knobs, x, arena)) return;
    x->scans = sequential && scans_in_teams(s);
    if (x->scans) {
        x->deal = lies;
        choose_team(nest, x, longest);
        x->scans = x->team > 1;
    } else if (sequential) {
        x->deal = FB_DEAL_COLUMNS;
        x->threads = SEQUENTIAL_THREADS;
        x->rows_a_block = SEQUENTIAL_THREADS;
    } else if (fb_section_may_split(s, longest * 4) &&
               !(lies == FB_DEAL_COLUMNS && x->rows >= MANY_COLUMNS && !nest->stage)) {
        x->deal = FB_DEAL_SPLIT;
        x->threads = x->team = threads_asked(nest->target, knobs) ? x->threads : FB_TEAM_SPLIT;
        x->parts = fb_team_parts(x->rows, longest);
        x->blocks = x->rows * x->parts;
        return;
    } else {
        x->deal = lies;
        choose_team(nest, x, longest);
        fit_columns(nest, knobs, x);
    }
    apply_knobs(nest->target, knobs, x);
    x->blocks = fb_ceil_div(x->rows, x->rows_a_block);
    x->each = columns_each(nest, knobs, x);
    halve_columns(nest, knobs, x);
    if (!sequential) join_rows(nest, knobs, x);
    if (!x->scans) fb_schedule_held(nest, knobs, x, arena);
    x->stepped = !x->scans && !x->held && x->each == 1 && is_stepped(nest, knobs, x);
    x->inverts = inverts(nest, knobs, x);
    if (!may && x->each == 1 && !is_asked_for(knobs) && fb_held_rows(nest, knobs, x, arena)) return;
    if (may && (!x->held || x->crowded || cut.cut->ragged || fb_knob_of(knobs, FB_KNOB_PARTS))) *x = cut;
    if (!x->cut) share_columns(nest, knobs, x);
    share_scan(nest, knobs, longest, x);
}

/* Blocks that share an index look at each point twice and not once a block, and wait for each other once: so as many as
 * there is room for at once. A range of rows is as many points as are sorted at once, or half of it. */
static void share_index(const fb_nest *nest, const fb_knobs *knobs, const fb_added *a, int members, bool as_asked,
                        fb_section_schedule *x)
{
    enum {
        MANY = 1 << 15, /* points */
        FEWEST = 8,     /* blocks */
        THREADS = 512,
        SHARING = 2, /* blocks of a multiprocessor: one sorts while the other waits for memory */
        LIST = 1536, /* points: with what some ranges have more, four a thread */
        MOST = 8192, /* ranges: kernels/sorted.cuh counts so many */
    };
    const int64_t room = nest->units * (as_asked ? 1 : SHARING) / members, asked = fb_knob_of(knobs, FB_KNOB_PARTS);
    const int threads = as_asked ? x->threads : THREADS;
    int64_t blocks = asked && asked < room ? asked : room;
    if (blocks > threads) blocks = threads;
    if (blocks > a->rows) blocks = a->rows;
    if (nest->stage || nest->n_sections > 1 || blocks < 2 || a->points < blocks) return;
    if (a->points > UINT32_MAX || a->rows > UINT32_MAX) return;
    if (!asked && (a->points < MANY || blocks < FEWEST)) return;
    int64_t turns = fb_ceil_div(a->points, LIST * blocks);
    if (turns * blocks > a->rows) turns = a->rows / blocks;
    if (turns * blocks > MOST) turns = MOST / blocks;
    x->threads = threads;
    x->parts = (int)blocks;
    x->ranges = (int)(turns * blocks);
    x->blocks = members * blocks;
    x->sharing = as_asked ? 0 : SHARING;
}

/* Neighbours of a row that a thread sums: a vector of what is added or stored, else a few. */
static void choose_neighbours(const fb_nest *nest, const fb_added *a, fb_section_schedule *x)
{
    enum { FEW = 4 };
    const fb_section *s = x->section;
    const fb_ix last = s->rows.n ? s->rows.var[s->rows.n - 1] : FB_NONE;
    const int64_t width = a->width > 0 ? a->width : 1;
    int largest = 0, vector = 1;
    x->each = width < FEW ? fb_power_of_two(width, FEW) : FEW;
    for (int i = 0; i < s->n_values && width > 1; i++)
        if (s->values[i].space != FB_NONE && fb_packs_tested(nest, s, &s->values[i], last, 2) &&
            size_in(nest, s->values[i].node) > largest)
            largest = size_in(nest, s->values[i].node);
    if (largest) vector = nest->target->vector_bytes / largest;
    if (vector > MOST_VECTOR) vector = MOST_VECTOR;
    while (vector > 1 && s->rows.extent[s->rows.n - 1] % vector) vector /= 2;
    for (int d = 0; d < s->n_data; d++)
        if (s->data[d].value == a->sum) vector = 1;
    x->packed = vector > 1;
    if (x->packed) x->each = vector;
}

/* ---- by atomic additions ---- */

/* The sum that points are added to; of 16 bits it is one of 32. */
static fb_dtype sum_of(const fb_nest *nest, const fb_section *s, const fb_added *a)
{
    fb_dtype d = nest->graph->nodes[a->sum == FB_NONE ? s->roots[0].node : s->values[a->sum].node].dtype;
    return d == FB_F16 || d == FB_BF16 ? FB_F32 : d;
}

const char *fb_schedule_no_atomics(const fb_nest *nest, const fb_section *s, const fb_added *a)
{
    static const int64_t most_bytes = (int64_t)1 << 30; /* of sums beside the result */
    if (a->spares)
        return "rows that the index does not name stay as they are, and atomic additions would go through all";
    if (nest->stage || nest->n_sections > 1)
        return "other work shares its kernel, and additions have to have one alone";
    if (s->members > nest->units) return "there are more results than multiprocessors";
    if (sum_of(nest, s, a) == FB_BOOL) return "there are no atomic additions of bool";
    if ((double)s->members * (double)a->rows * (double)(a->width + 3) * 8 > (double)most_bytes)
        return "sums beside the result would take more than 1 GiB";
    return NULL;
}

/* Is all that is stored the sums, as they are and in whole vectors, so that points may be added there? */
static bool stores_sums(const fb_nest *nest, const fb_section *s, const fb_added *a, const fb_section_schedule *x)
{
    const fb_root *r = &s->roots[0];
    if (s->n_roots != 1 || r->storage < 0 || (a->sum != FB_NONE && r->value != a->sum)) return false;
    if (nest->graph->nodes[r->storage].dtype != sum_of(nest, s, a)) return false;
    if (x->each == 1) return true;
    return x->packed && fb_packs_root(nest, s, r, s->rows.var[s->rows.n - 1], x->each);
}

/* As many blocks as are there at once, for they meet. Integers are the same in any order: of many points they are added
 * so unasked. */
static bool deal_atomics(const fb_nest *nest, const fb_knobs *knobs, const fb_added *a, int members, bool as_asked,
                         fb_section_schedule *x)
{
    enum {
        MANY = 1 << 15,
        THREADS = 256,
        SHARING = 4,
        NEAR_BYTES = 32 << 10,
        NEAR_THREADS = 1024,
        FEWEST = 8,
        ONCE = 2,
        CLEARED_BYTES = 8 << 20
    };
    const bool asked = fb_knob_of(knobs, FB_KNOB_ATOMICS) > 0;
    const int64_t parts = fb_knob_of(knobs, FB_KNOB_PARTS);
    int sharing = as_asked ? 1 : SHARING;
    if (!asked && (fb_dtype_is_float(sum_of(nest, x->section, a)) || a->points < MANY || parts)) return false;
    if (fb_schedule_no_atomics(nest, x->section, a)) return false;
    if (!as_asked) x->threads = THREADS;
    choose_neighbours(nest, a, x);
    const int sum_bytes = fb_dtype_size(sum_of(nest, x->section, a));
    const int64_t groups = fb_ceil_div(a->width, x->each), most = a->points > a->rows ? a->points : a->rows;
    /* a small result is several points' in each block, which hands it on once */
    const int64_t sums = a->rows * groups * x->each * sum_bytes, points = a->points * groups;
    x->near = sums <= NEAR_BYTES && points >= ONCE * FEWEST * a->rows * groups;
    if (x->near && !as_asked) x->threads = NEAR_THREADS, sharing = 1;
    int64_t blocks = sharing * nest->units / members, needed = fb_ceil_div(most * groups, x->threads);
    if (x->near && needed > points / (ONCE * a->rows * groups)) needed = points / (ONCE * a->rows * groups);
    if (parts && parts < blocks) blocks = parts;
    if (blocks > needed) blocks = needed > 0 ? needed : 1;
    x->deal = FB_DEAL_ADDED;
    x->in_place = stores_sums(nest, x->section, a, x);
    x->clears = !x->in_place && members * a->rows * groups * x->each * sum_bytes > CLEARED_BYTES;
    x->parts = (int)blocks;
    x->blocks = members * blocks;
    x->rows = a->rows;
    x->rows_a_block = fb_ceil_div(a->rows * members, x->blocks);
    x->sharing = as_asked ? 0 : sharing;
    return true;
}

/* Each block goes through all of the index, once at least, if they do not share it. As long as that is little, threads that own an element each
 * are simplest; else there are as many blocks as are on the device at once, of all members together, unless that leaves
 * little or very much for each. */
static void deal_added(const fb_nest *nest, const fb_knobs *knobs, const fb_added *a, int members, bool asked,
                       fb_section_schedule *x)
{
    enum {
        LITTLE = 1 << 20,
        LONG = 1 << 14, /* points */
        LIST = 32,
        LONG_LIST = 2048,
        FILL = 512 * ELEMENT_THREADS, /* threads */
        STORED = 1 << 13,
        NAMED_ROWS = 1 << 16,
        EACH = 8,
        MANY = 4096, /* points: as many threads as a block can have go through them */
        MOST = 1024,
    };
    int64_t each = fb_ceil_div(a->points, x->threads);
    if (deal_atomics(nest, knobs, a, members, asked, x)) return;
    x->deal = FB_DEAL_OWNERS;
    x->each = each < 1 ? 1 : each < EACH ? (int)each : EACH; /* 1: also of an empty index */
    x->rows = a->rows;
    x->blocks = fb_ceil_div(a->rows * a->width, x->threads);
    if (a->sum == FB_NONE && (a->rows > UINT32_MAX || a->points > UINT32_MAX)) return;
    if (a->sum == FB_NONE && a->points <= LONG && (double)x->blocks * (double)a->points <= LITTLE) return;
    if (!asked && !nest->stage && a->points >= MANY) x->threads = MOST;
    int64_t blocks = fb_ceil_div(a->points, LIST), stored = fb_ceil_div(a->rows * a->width, STORED);
    const int64_t fill = fb_ceil_div(FILL / x->threads, members);
    if (!a->spares && stored > blocks) blocks = stored;
    if (blocks > fill) blocks = fill;
    if (blocks < fb_ceil_div(a->points, LONG_LIST)) blocks = fb_ceil_div(a->points, LONG_LIST);
    if (!a->spares && blocks < fb_ceil_div(a->rows, NAMED_ROWS)) blocks = fb_ceil_div(a->rows, NAMED_ROWS);
    x->deal = FB_DEAL_SORTED;
    x->parts = 1;
    choose_neighbours(nest, a, x);
    x->blocks = members * (blocks < a->rows ? blocks : a->rows > 0 ? a->rows : 1);
    share_index(nest, knobs, a, members, asked, x);
    x->rows_a_block = fb_ceil_div(a->rows * members, x->blocks);
}

/* Lines or groups that a thread is asked to take; 0: none, or it is asked of sections that reduce. */
static int64_t rows_asked(const fb_nest *nest, const fb_knobs *knobs)
{
    for (int i = 0; i < nest->n_sections; i++)
        if (nest->sections[i].n_passes) return 0;
    return fb_knob_of(knobs, FB_KNOB_ROWS);
}

bool fb_schedule_divides(const fb_nest *nest, const fb_section *s, fb_ix last, int vector)
{
    int64_t stride;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (v->kind == FB_VALUE_LOAD && v->space == FB_NONE && !fb_packs_load(nest, s, v, last, vector) &&
            fb_ix_uses(nest->pool, v->at, last) && !fb_ix_coefficient(nest->pool, v->at, last, &stride))
            return true;
    }
    return false;
}

/* An element by itself in each thread leaves memory waiting for the divisions that say where it is. Measured on an H100:
 * 281 million elements of windows of 11 × 11 took 931 µs, in lines 950, two lines a thread 613, four 511, eight 535; a bias
 * to 74 million, 3,025 in a line, 257 µs and 208. Neighbours that are stored together take them as well: 732 million of
 * windows of 3 × 5 × 5, on an H200, 1,231 µs, in four lines 718 (with all lines' loads before the first is used 1,097). */
static bool deal_lines(const fb_nest *nest, const fb_knobs *knobs, int vector, fb_section_schedule *x)
{
    enum { EACH = 4, MANY = 1 << 20, IDLE = 8 }; /* elements; one of so many threads may have nothing to do */
    const fb_section *s = x->section;
    int n = s->rows.n;
    int64_t rows = fb_knob_of(knobs, FB_KNOB_ROWS), each = rows ? rows : EACH, asked = rows_asked(nest, knobs);
    if (n < 2 || s->scatter || s->blocked || asked == 1 || x->rows == 0) return false;
    int64_t along = s->rows.extent[n - 1] / vector, parts = fb_ceil_div(along, x->threads);
    int64_t lines = x->rows / s->rows.extent[n - 1], idle = parts * x->threads - along;
    bool pays = x->rows / vector >= MANY && along >= x->threads && idle <= along / IDLE && lines >= each;
    pays = pays && (vector == 1 || fb_schedule_divides(nest, s, s->rows.var[n - 1], vector));
    if (!asked && !pays) return false;
    x->deal = FB_DEAL_LINES;
    x->each = (int)each;
    x->parts = (int)parts;
    x->blocks = parts * fb_ceil_div(lines, each);
    return true;
}

bool fb_schedule_flat(const fb_nest *nest, const fb_section *s, const fb_root *r, int64_t *from)
{
    fb_ix at = r->at;
    int64_t stride, below = 1;
    for (int d = s->rows.n - 1; d >= 0; d--) {
        if (s->rows.extent[d] > 1 && (!fb_ix_stride(nest->pool, at, s->rows.var[d], &stride, &at) || stride != below))
            return false;
        below *= s->rows.extent[d];
    }
    return fb_ix_is_const(nest->pool, at, from);
}

/* Lines too short for that: points one behind the other across their ends, where these are stored so. Where the next one
 * is follows from the last one without a division. Measured on an H200, 143 million elements between which there are
 * zeros, 65 in a line: 368 µs by itself each, 190 by four, 177 by eight; a warp a line 228. */
static bool deal_runs(const fb_nest *nest, const fb_knobs *knobs, int vector, fb_section_schedule *x)
{
    enum { MANY = 1 << 20 };
    const fb_section *s = x->section;
    int each = MOST_VECTOR, n = s->rows.n;
    if (n < 2 || s->scatter || s->blocked || x->rows < MANY) return false;
    if (rows_asked(nest, knobs) || fb_knob_of(knobs, FB_KNOB_VECTOR)) return false;
    for (int i = 0; i < s->n_roots; i++) {
        const fb_root *r = &s->roots[i];
        int most = nest->target->vector_bytes / size_in(nest, r->storage);
        each = most < each ? most : each;
    }
    bool pays = each > vector && x->rows % each == 0 && fb_schedule_divides(nest, s, s->rows.var[n - 1], 1);
    for (int i = 0; i < s->n_roots && pays; i++) {
        const fb_root *r = &s->roots[i];
        int64_t from;
        pays = r->space == FB_NONE && r->table == FB_NONE && fb_schedule_flat(nest, s, r, &from) && from % each == 0 &&
               fb_packs_in_steps(nest, r->storage, each) && fb_packs_in_steps(nest, r->node, each);
    }
    if (!pays) return false;
    x->deal = FB_DEAL_RUNS;
    x->each = each;
    x->blocks = fb_ceil_div(x->rows, (int64_t)x->threads * each);
    return true;
}

/* ---- squares ---- */

fb_ix fb_schedule_turned(const fb_nest *nest, const fb_section *s, const fb_value *v, int across, int64_t *step)
{
    enum { SECTOR = 32 }; /* bytes: neighbours that lie as far apart as this are in sectors of their own */
    int64_t side;
    fb_ix along = s->rows.var[s->rows.n - 1];
    if (v->kind != FB_VALUE_LOAD || v->when != FB_NONE || v->table != FB_NONE) return FB_NONE;
    if ((v->space == FB_NONE) != (s->n_passes == 0)) return FB_NONE;
    if (v->space != FB_NONE) {
        if (s->spaces[v->space].n != 1) return FB_NONE;
        along = s->spaces[v->space].var[0];
    }
    if (!fb_ix_coefficient(nest->pool, v->at, along, step) || llabs(*step) * size_in(nest, v->node) < SECTOR)
        return FB_NONE;
    return fb_ix_coefficient(nest->pool, v->at, s->rows.var[across], &side) && side == 1 ? along : FB_NONE;
}

bool fb_schedule_turns(const fb_nest *nest, const fb_section *s, const fb_value *v, int across)
{
    int64_t step;
    return fb_schedule_turned(nest, s, v, across, &step) != FB_NONE;
}

/* The first row variable of so many elements along which a load lies side by side that is turned; FB_NONE. */
static int found_across(const fb_nest *nest, const fb_section *s, int64_t least)
{
    for (int d = 0; d < s->rows.n; d++)
        for (int i = 0; i < s->n_values; i++)
            if (s->rows.extent[d] >= least && fb_schedule_turns(nest, s, &s->values[i], d)) return d;
    return FB_NONE;
}

/* How many loads do, and their bytes. */
static int turned_by(const fb_nest *nest, const fb_section *s, int across, int64_t *bytes)
{
    int turned = 0;
    *bytes = 0;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (!fb_schedule_turns(nest, s, v, across)) continue;
        int64_t points = v->space == FB_NONE ? 1 : fb_space_points(&s->spaces[v->space]);
        *bytes += fb_space_points(&s->rows) * points * size_in(nest, v->node);
        turned++;
    }
    return turned;
}

/* Do the elements of everything turned move by so many, and what is stored as well? */
static bool squares_move_by(const fb_nest *nest, const fb_section *s, int across, int each)
{
    const int last = s->rows.n - 1;
    bool may = s->rows.extent[last] % each == 0 && s->rows.extent[across] % each == 0;
    for (int i = 0; i < s->n_values && may; i++) {
        const fb_value *v = &s->values[i];
        if (!fb_schedule_turns(nest, s, v, across)) continue;
        may = size_in(nest, v->node) == 2 && fb_packs(nest, v->node, v->at, s->rows.var[across], each);
    }
    for (int i = 0; i < s->n_roots && may; i++) may = fb_packs_root(nest, s, &s->roots[i], s->rows.var[last], each);
    return may;
}

/* Is there a square for few elements that are not there? */
static bool fills_squares(int64_t wide, int64_t high, int side)
{
    enum { IDLE = 4 }; /* of so many elements one may not be there */
    int64_t squares = fb_ceil_div(wide, side) * fb_ceil_div(high, side);
    return squares * side * side <= wide * high + wide * high / IDLE;
}

/* What is loaded across the order of what is stored moves a sector for each element; by squares both sides move whole ones.
 * (On an H200, 32 × 512 × 512 elements and as many turned, added: 40 µs element by element, 24.6 at copy speed; 256 × 128 × 96
 * and 16 × 56 × 56 × 64 with their last dimension first or second, which the cache has: 22 and 8.5, 4.6 both.) Elements of 16
 * bits by fours: one by one, a warp asks for too little at a time (64 × 512 × 768, the last two turned: 59 µs, 29 by fours, 33
 * by pairs or eights). */
static bool deal_squares(const fb_nest *nest, const fb_knobs *knobs, fb_section_schedule *x)
{
    enum {
        MOST = 4, /* loads */
        FOUR = 4,
        LEAST = 1 << 20, /* bytes that are turned */
    };
    const fb_section *s = x->section;
    int last = s->rows.n - 1, across;
    int64_t bytes = 0;
    if (!nest->target->grid || nest->stage || nest->n_sections > 1 || s->scatter || s->blocked || s->n_data ||
        s->n_roots > 1)
        return false;
    if (is_asked_for(knobs)) return false;
    across = found_across(nest, s, 1);
    if (across == FB_NONE) return false;
    const int turned = turned_by(nest, s, across, &bytes);
    int64_t wide = s->rows.extent[last], high = s->rows.extent[across];
    if (bytes < LEAST || turned > MOST || !fills_squares(wide, high, FB_SQUARE)) return false;
    x->deal = FB_DEAL_SQUARES;
    x->across = across;
    x->each = fills_squares(wide, high, 2 * FB_SQUARE) && squares_move_by(nest, s, across, FOUR) ? FOUR : 1;
    const int side = fb_schedule_side(x);
    x->blocks = x->rows / (wide * high) * fb_ceil_div(wide, side) * fb_ceil_div(high, side);
    return true;
}

static bool has_slow_functions(const fb_nest *nest, const fb_section *s)
{
    for (int i = 0; i < s->n_values; i++)
        if (s->values[i].kind == FB_VALUE_OP && fb_op_get(nest->graph->nodes[s->values[i].node].op)->special)
            return true;
    return false;
}

/* Neighbours that move together, a group a thread: memory is busiest so. What also computes slow functions leaves it
 * waiting, unless a thread has sent for several groups by then, one a block's width after the other. Measured on an H200,
 * 134 million elements in 16 bits: gelu 174 µs, four groups 154; in 32 bits 256 and 253; relu 124 and 129, of 32 bits 249
 * and 261. */
static void deal_elements(const fb_nest *nest, const fb_knobs *knobs, int vector, fb_section_schedule *x)
{
    enum { EACH = 4, MANY = 1 << 22 };
    const fb_section *s = x->section;
    int64_t groups = x->rows / vector, asked = rows_asked(nest, knobs);
    if (!asked) asked = groups >= MANY && has_slow_functions(nest, s) ? EACH : 1;
    x->each = s->rows.n == 1 && vector > 1 && !s->scatter && !s->blocked ? (int)asked : 1;
    x->blocks = fb_ceil_div(groups, (int64_t)x->threads * x->each);
}

fb_section_schedule fb_schedule_section(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s,
                                        fb_arena *arena)
{
    int asked = threads_asked(nest->target, knobs);
    fb_section_schedule x = {.section = s,
                             .threads = asked ? asked : ELEMENT_THREADS,
                             .team = 1,
                             .rows = fb_space_points(&s->rows),
                             .rows_a_block = 1};
    fb_added added;
    if (nest->through) {
        fb_through_deal(nest, knobs, &x);
    } else if (fb_section_adds(nest, s, &added)) {
        deal_added(nest, knobs, &added, s->members, asked > 0, &x);
    } else if (!s->n_passes) {
        int vector = fb_schedule_vector(nest, knobs, s, FB_NONE);
        if (!deal_squares(nest, knobs, &x) && !deal_lines(nest, knobs, vector, &x) &&
            !deal_runs(nest, knobs, vector, &x))
            deal_elements(nest, knobs, vector, &x);
    } else if (!fb_schedule_deal_ranked(nest, s, asked, &x)) {
        deal_rows(nest, knobs, &x, arena);
    }
    x.launched = nest->through ? x.blocks : launched_of(knobs, &x);
    return x;
}

bool fb_schedule_halves(const fb_nest *nest)
{
    enum { FEW = 4 };
    return nest->n_sections > FEW;
}

static bool loads(const fb_section *s, fb_id storage)
{
    for (int i = 0; i < s->n_values; i++)
        if (s->values[i].kind == FB_VALUE_LOAD && s->values[i].node == storage) return true;
    return false;
}

int fb_schedule_readers(const fb_nest *nest, fb_id storage)
{
    int readers = 0;
    for (int i = 0; i < nest->n_sections; i++) readers += loads(&nest->sections[i], storage);
    return readers;
}

/* Does every section read something that the cache does not hold until the next one comes to it? */
static bool share_large(const fb_nest *nest)
{
    const fb_section *first = &nest->sections[0];
    for (int i = 0; i < first->n_values; i++) {
        const fb_value *v = &first->values[i];
        if (v->kind != FB_VALUE_LOAD || v->node < 0) continue;
        const bool large = fb_node_bytes(nest->graph, v->node) > nest->cache_bytes / 2;
        if (large && fb_schedule_readers(nest, v->node) == nest->n_sections) return true;
    }
    return false;
}

/* Halves that are put side by side and both made of all of a tensor (rotary embeddings) would each read it from memory.
 * (128 × 2048 × 128 in bf16 on an H200: 46 µs one half after the other, 34 in turn.) */
bool fb_schedule_in_turn(const fb_nest *nest, const fb_knobs *knobs)
{
    if (nest->n_sections < 2 || fb_schedule_halves(nest) || nest->stage || !share_large(nest)) return false;
    fb_arena *arena = fb_arena_new();
    int64_t blocks = 0;
    bool alike = true;
    for (int i = 0; i < nest->n_sections && alike; i++) {
        const fb_section_schedule x = fb_schedule_section(nest, knobs, &nest->sections[i], arena);
        alike = x.deal == FB_DEAL_ELEMENTS && x.launched == x.blocks && (i == 0 || x.blocks == blocks);
        blocks = x.blocks;
    }
    fb_arena_free(arena);
    return alike;
}

bool fb_schedule_meets(const fb_section_schedule *x, const fb_target *target)
{
    switch (x->deal) {
    case FB_DEAL_ELEMENTS:
    case FB_DEAL_LINES:
    case FB_DEAL_RUNS:
    case FB_DEAL_THROUGH: return false;
    case FB_DEAL_ROWS: return x->scans || x->team > target->warp;
    case FB_DEAL_COLUMNS: return x->team > 1;
    case FB_DEAL_SQUARES:
    case FB_DEAL_BANDS:
    case FB_DEAL_LONG:
    case FB_DEAL_SPLIT:
    case FB_DEAL_OWNERS:
    case FB_DEAL_RANKED:
    case FB_DEAL_SORTED:
    case FB_DEAL_ADDED: break;
    }
    return true;
}

int fb_schedule_threads(const fb_nest *nest, const fb_knobs *knobs)
{
    int threads = nest->target->warp;
    fb_arena *arena = fb_arena_new();
    for (int i = 0; i < nest->n_sections; i++) {
        fb_section_schedule x = fb_schedule_section(nest, knobs, &nest->sections[i], arena);
        if (x.threads > threads) threads = x.threads;
    }
    fb_arena_free(arena);
    return threads;
}

/* ---- loops ---- */

/* Rows that are done at once where they lie side by side: what they sum up stays in the nearest cache. */
static int64_t lanes_of(const fb_section *s)
{
    enum { MOST_LANES = 512 };
    int64_t last = s->rows.extent[s->rows.n - 1], lanes = last >= 16 * MOST_LANES ? MOST_LANES
                                                          : last >= 1024          ? 128
                                                                                  : 64;
    return lanes < last ? lanes : last;
}

/* As many outer loops as make enough iterations for any team: how many, of the first `n`. */
static int together_of(const fb_space *rows, int n, int64_t *shared)
{
    int c = 0;
    *shared = 1;
    while (c < n && *shared < EVEN) *shared *= rows->extent[c++];
    return c;
}

/* Do rows of loop d all read the same along the lanes, and more than the nearest cache keeps? */
static bool reads_again(const fb_section *s, int d)
{
    enum { NEAREST_CACHE = 32 << 10 };
    int last = s->rows.n - 1;
    int64_t bytes = 0;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (v->kind != FB_VALUE_LOAD || v->space == FB_NONE || !(v->rows >> last & 1)) continue;
        if (v->rows >> d & 1) return false;
        bytes += fb_space_points(&s->spaces[v->space]) * s->rows.extent[last] * fb_dtype_size(v->dtype);
    }
    return bytes > NEAREST_CACHE;
}

/* A row after the other would read a product's whole right operand each; the chunk's share of it stays in a core's
 * second cache while all rows go by. */
static int outside_of(const fb_section *s)
{
    int d = s->rows.n - 1;
    while (d > 0 && !s->blocked && reads_again(s, d - 1)) d--;
    return d;
}

/* Which loops threads share, that over chunks of rows among them. */
static void share_chunks(const fb_section *s, fb_loops_schedule *x)
{
    const fb_space *rows = &s->rows;
    fb_space order = {.n = rows->n};
    for (int d = 0; d < rows->n; d++)
        order.extent[d] = d < x->outside   ? rows->extent[d]
                          : d > x->outside ? rows->extent[d - 1]
                                           : fb_ceil_div(rows->extent[rows->n - 1], x->lanes);
    x->together = together_of(&order, order.n, &x->shared);
}

static void share_lanes(const fb_section *s, fb_loops_schedule *x)
{
    const fb_space *rows = &s->rows;
    int64_t last = rows->extent[rows->n - 1], chunks = fb_ceil_div(last, x->lanes);
    x->inner = last == 0 || fb_space_points(rows) / last * chunks < FB_LOOPS_FEW;
    x->outside = x->inner ? rows->n - 1 : outside_of(s);
    share_chunks(s, x);
}

/* Which loops of rows threads share. */
static void share_rows(const fb_section *s, fb_loops_schedule *x)
{
    const fb_space *rows = &s->rows;
    int n = rows->n, outer = n - (x->shape == FB_LOOPS_ELEMENTS);
    int64_t last = n ? rows->extent[n - 1] : 1;
    if (x->shape == FB_LOOPS_ELEMENTS && n == 1) outer = 1;
    x->together = together_of(rows, outer > 0 ? outer : 0, &x->shared);
    if (x->shape == FB_LOOPS_ELEMENTS && n > 1)
        x->cut = x->shared < EVEN && last >= 2 * FB_LOOPS_CHUNK && x->threads != 1 && !s->blocked;
    if (x->cut) x->shared *= fb_ceil_div(last, FB_LOOPS_CHUNK);
}

/* What is loaded across the order of what is stored comes a line at a time, of which one element is used, and where rows are a
 * power of two apart the others are gone from the cache before they are next: a tile of it is copied first, turned. Read in
 * place, it may be made vectors of by a compiler that loads all that lies between. (Two cores, as many elements turned as not,
 * added, in µs by tiles, in place and where both lie alike: 512 × 512 of f32 70,
 * 297 and 23; 2048 × 2048 of f32 3,070, 11,700 and 620, of bf16 2,020, 273,000 and 720.) */
static void go_by_tiles(const fb_nest *nest, const fb_section *s, const fb_knobs *knobs, fb_loops_schedule *x)
{
    enum { MOST = 4, LEAST = 16, SIDE = 2 }; /* loads; elements along the last variable, and across */
    const int last = s->rows.n - 1;
    int64_t bytes, other = 1;
    if (x->shape != FB_LOOPS_ELEMENTS || last < 1 || x->inside || s->blocked || s->scatter || s->n_data) return;
    if (s->rows.extent[last] < LEAST || fb_knob_of(knobs, FB_KNOB_ROWS)) return;
    const int across = found_across(nest, s, SIDE);
    if (across == FB_NONE || turned_by(nest, s, across, &bytes) > MOST) return;
    for (int d = 0; d < last; d++)
        if (d != across) other *= s->rows.extent[d];
    x->across = across;
    x->high = FB_LOOPS_HIGH;
    x->cut = false;
    x->together = last + 1;
    x->shared =
        other * fb_ceil_div(s->rows.extent[last], FB_LOOPS_WIDE) * fb_ceil_div(s->rows.extent[across], FB_LOOPS_HIGH);
}

static bool is_f16_along(const fb_nest *nest, const fb_section *s, fb_id node, fb_ix at)
{
    int64_t stride;
    return nest->graph->nodes[node].dtype == FB_F16 &&
           fb_ix_coefficient(nest->pool, at, s->rows.var[s->rows.n - 1], &stride) && stride == 1;
}

bool fb_schedule_is_strip(const fb_nest *nest, const fb_section *s, const fb_value *v, int across)
{
    if (v->kind != FB_VALUE_LOAD || v->when != FB_NONE || v->space != FB_NONE) return false;
    bool turned = across != FB_NONE && fb_schedule_turns(nest, s, v, across);
    return turned ? nest->graph->nodes[v->node].dtype == FB_F16 : is_f16_along(nest, s, v->node, v->at);
}

bool fb_schedule_stores_strip(const fb_nest *nest, const fb_section *s, const fb_root *r)
{
    return is_f16_along(nest, s, r->node, r->at);
}

/* Loops that convert f16 one by one do without the instructions for eight at once. (4.2 million elements added on two cores:
 * 1,950 µs, 440 by strips.) */
static void go_by_strips(const fb_nest *nest, const fb_section *s, fb_loops_schedule *x)
{
    enum { LEAST = 32 };
    if (x->shape != FB_LOOPS_ELEMENTS || x->inside || s->blocked || s->scatter || s->n_data || !s->rows.n) return;
    const int last = s->rows.n - 1;
    if (s->rows.extent[last] < LEAST || x->vector || fb_section_interior(nest, s, FB_NONE).var != FB_NONE) return;
    if (fb_schedule_divides(nest, s, s->rows.var[last], 1)) return;
    for (int i = 0; i < s->n_values; i++) x->strips += fb_schedule_is_strip(nest, s, &s->values[i], x->across);
    for (int i = 0; i < s->n_roots; i++) x->strips += fb_schedule_stores_strip(nest, s, &s->roots[i]);
}

/* The same where rows are summed up: of as many rows as make whole lines all points are copied first, and stay in a core's
 * second cache. (The sum along rows of as many elements turned as not, added, 2048 × 2048 on two cores, f32 and bf16: 14.2
 * and 11.7 ms in place, 3.3 and 1.3 so.) */
static void turn_rows(const fb_nest *nest, const fb_section *s, const fb_knobs *knobs, fb_loops_schedule *x)
{
    enum { SIDE = 8, LEAST = 1 << 10, USUAL = 128 << 10, MOST = 512 << 10 }; /* rows; bytes of a row, and of all */
    if (x->shape != FB_LOOPS_ROWS || x->staged.value != FB_NONE || x->ranked != FB_NONE || x->inside) return;
    if (!s->rows.n || s->blocked || s->scatter || s->n_data || fb_knob_of(knobs, FB_KNOB_ROWS)) return;
    const int across = found_across(nest, s, SIDE);
    const int64_t rows = fb_space_points(&s->rows);
    if (across == FB_NONE || !rows) return;
    int64_t bytes, extent = s->rows.extent[across];
    turned_by(nest, s, across, &bytes);
    bytes /= rows;
    int high = FB_LOOPS_HIGH;
    while (high > SIDE && bytes * high > USUAL) high /= 2;
    if (bytes * SIDE < LEAST || bytes * high > MOST) return;
    x->across = across;
    x->high = high;
    x->together = s->rows.n;
    x->shared = rows / extent * fb_ceil_div(extent, high);
}

int64_t fb_schedule_owners(int units)
{
    return units < 1 || units > FB_LOOPS_OWNERS ? FB_LOOPS_OWNERS : units;
}

/* Sixteen-bit sums are made row by row. */
static bool is_summed_apart(const fb_nest *nest, const fb_section *s)
{
    return s->scatter && fb_dtype_size(nest->graph->nodes[s->roots[0].node].dtype) == 2;
}

static void share_added(const fb_nest *nest, const fb_section *s, const fb_added *a, fb_loops_schedule *x)
{
    int64_t most = fb_schedule_owners(nest->units);
    int64_t rows = a->spares ? a->points : a->rows, each = s->scatter ? a->width : most;
    x->work = s->members * (rows * a->width + each * a->points);
    x->owners = is_summed_apart(nest, s) || a->rows < most ? a->rows : most;
    x->together = 1;
    x->shared = x->owners * s->members;
}

/* Rows that do not lie side by side are done so all the same where what does not is staged. */
static void go_across(const fb_nest *nest, const fb_section *s, fb_loops_schedule *x)
{
    if (x->shape != FB_LOOPS_ROWS || !s->rows.n || !s->rows.extent[s->rows.n - 1]) return;
    fb_loops_schedule across = *x;
    across.shape = FB_LOOPS_LANES;
    across.lanes = lanes_of(s);
    share_lanes(s, &across);
    const fb_loops_schedule apart = across;
    fb_schedule_stage(nest, s, &across);
    if (across.staged.value == FB_NONE || !fb_schedule_lies_staged(nest, s, &across.staged)) {
        across = apart;
        if (!fb_schedule_turn(nest, s, &across)) return;
        share_chunks(s, &across);
        if (across.staged.before && across.staged.before < across.together) across.together = across.staged.before;
    }
    *x = across;
}

/* A row is sorted within the loops that threads share, if there are any around it. To find a sixteenth of it takes as long
 * as to sort it, and so it does of short rows. */
static void sort_rows(const fb_nest *nest, const fb_section *s, fb_loops_schedule *x)
{
    enum { PART = 16, SHORT = 192 };
    if (x->shape != FB_LOOPS_ROWS) return;
    x->ranked = fb_schedule_ranked(nest, s);
    if (x->ranked == FB_NONE) return;
    if (s->rows.n > 1) x->together = together_of(&s->rows, s->rows.n - 1, &x->shared);
    int64_t points = fb_space_points(&s->spaces[s->values[x->ranked].over]), first;
    first = fb_schedule_places(nest, s, x->ranked);
    if (points >= SHORT && first <= points / PART) x->first = first;
}

fb_loops_schedule fb_schedule_loops(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s)
{
    enum { LONG_PASS = 1 << 15 };
    fb_loops_schedule x = {.shape = FB_LOOPS_ROWS,
                           .work = fb_section_operations(s),
                           .shared = 1,
                           .across = FB_NONE,
                           .inside = nest->chain != NULL,
                           .staged = {.value = FB_NONE},
                           .ranked = FB_NONE};
    bool few = fb_space_points(&s->rows) < FB_LOOPS_FEW && fb_section_longest(s) >= LONG_PASS && !s->blocked;
    if (!s->n_passes)
        x.shape = FB_LOOPS_ELEMENTS;
    else if (fb_section_lies_across(nest->pool, s))
        x.shape = FB_LOOPS_LANES;
    else if (few && !x.inside)
        x.shape = FB_LOOPS_LONG;
    if (x.shape == FB_LOOPS_LANES) x.lanes = lanes_of(s);
    x.inner = x.shape == FB_LOOPS_LONG;
    fb_added added;
    bool adds = fb_section_adds(nest, s, &added);
    if (adds) share_added(nest, s, &added, &x);
    x.threads = (int)fb_knob_of(knobs, FB_KNOB_THREADS);
    if (!x.threads && x.work < FB_WORK_FOR_THREADS && x.shape != FB_LOOPS_LONG) x.threads = 1;
    x.vector = (int)fb_knob_of(knobs, FB_KNOB_VECTOR);
    if (adds && x.threads == 1 && x.owners > 1 && !is_summed_apart(nest, s)) {
        x.owners = 1; /* one thread goes through the index once */
        x.shared = s->members;
    }
    if (!adds && x.shape == FB_LOOPS_LANES) {
        share_lanes(s, &x);
        fb_schedule_stage(nest, s, &x);
    } else if (!adds) {
        share_rows(s, &x);
        go_by_tiles(nest, s, knobs, &x);
        go_by_strips(nest, s, &x);
        go_across(nest, s, &x);
        sort_rows(nest, s, &x);
        turn_rows(nest, s, knobs, &x);
    }
    x.chunk = x.inner ? 0 : fb_knob_of(knobs, FB_KNOB_ROWS);
    return x;
}
