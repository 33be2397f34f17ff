/* Which rows are cut into parts, into how many, and what of them is held where. Needs a nest that knows its chip;
 * leaves a fb_cut, or nothing where rows are short, are read once, or do not run along memory. */
#include "schedule/long.h"

#include "base/integer.h"
#include "base/mem.h"

enum {
    LEAST = 48 << 10,     /* bytes of a row that is worth cutting … */
    LEAST_ALL = 2 << 20,  /* … and of all rows: what takes long enough that waiting for it does not show */
    SHARING = 2,          /* blocks of a multiprocessor: while one waits, the other moves bytes … */
    MOST_SHARING = 3,     /* … and where many wait for each other */
    RESERVE = 1024,       /* bytes of shared memory that the hardware takes of each block … */
    DECLARED = 640,       /* … and that a kernel declares for its sums */
    THREADS = 1024,       /* of a multiprocessor */
    AT_ONCE = 3,          /* rows that are on chip together, whole … */
    LEAST_HELD = 60,      /* … or, two of them, so many % of them at least */
    LEAST_PART = 8 << 10, /* bytes that are worth a block */
    PIECE = 16,           /* bytes that are copied at once */
    MOST_VECTOR = 8,
    LEAST_SIZE = PIECE / MOST_VECTOR, /* of an element that is held */
    MOST_CLUSTER = 8,                 /* blocks of any kernel's cluster; more are for kernels that ask for it */
};

static fb_ix along(const fb_section *s)
{
    return s->spaces[0].var[0];
}

int fb_long_size(const fb_nest *nest, const fb_value *v)
{
    return fb_dtype_size(v->kind == FB_VALUE_LOAD ? nest->graph->nodes[v->node].dtype : v->dtype);
}

/* ---- is it such a section? ---- */

bool fb_long_reduces(const fb_nest *nest, const fb_section *s)
{
    bool any = false;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        fb_op op = nest->graph->nodes[v->node].op;
        if (v->kind == FB_VALUE_SCAN || v->kind == FB_VALUE_CHIP) return false;
        if (v->kind == FB_VALUE_REDUCE && (op == FB_OP_ARGMAX || op == FB_OP_ARGMIN)) return false;
        any |= v->kind == FB_VALUE_REDUCE;
    }
    return any;
}

bool fb_long_overwrites_in_place(const fb_section *s)
{
    for (int r = 0; r < s->n_roots; r++)
        for (int i = 0; i < s->n_values; i++)
            if (s->values[i].kind == FB_VALUE_LOAD && s->values[i].node == s->roots[r].storage &&
                s->values[i].at != s->roots[r].at)
                return false;
    return true;
}

static bool is_such(const fb_nest *nest, const fb_section *s)
{
    bool alone = nest->n_sections == 1 && nest->kernel.kind == FB_NEST_LOOPS;
    return alone && nest->target->streams && nest->shared_bytes > 0 && nest->units > 0 && s->members <= 1 &&
           s->n_passes > 1 && s->n_spaces == 1 && s->spaces[0].n == 1 && !fb_section_lies_across(nest->pool, s) &&
           fb_long_reduces(nest, s) && fb_long_overwrites_in_place(s);
}

/* ---- what is held ---- */

void fb_long_lives(const fb_section *s, fb_long_life *of)
{
    bool *needed = fb_calloc((size_t)s->n_values + 1, 1);
    for (int i = 0; i < s->n_values; i++) of[i] = (fb_long_life){.first = s->n_passes, .last = -1};
    for (int p = 0; p < s->n_passes; p++) {
        fb_section_needed(s, p, needed);
        for (int i = 0; i < s->n_values; i++) {
            if (!needed[i]) continue;
            if (!of[i].times++) of[i].first = p;
            of[i].last = p;
        }
    }
    fb_free(needed);
}

/* A load that differs from row to row and runs along it; `start`: where the row begins. */
static bool is_of_row(const fb_nest *nest, const fb_section *s, const fb_value *v, fb_ix *start)
{
    int64_t stride;
    if (v->kind != FB_VALUE_LOAD || v->space != 0 || v->when != FB_NONE || v->table != FB_NONE) return false;
    if (!fb_ix_stride(nest->pool, v->at, along(s), &stride, start) || stride != 1) return false;
    if (fb_long_size(nest, v) < LEAST_SIZE) return false;
    for (int d = 0; d < s->n_data; d++)
        if (fb_ix_uses(nest->pool, *start, s->data[d].var)) return false;
    return v->rows || !s->rows.n;
}

bool fb_cut_packs(const fb_nest *nest, const fb_cut *c, const fb_section *s, fb_id storage, fb_ix at)
{
    int64_t stride, rest = 0;
    fb_ix start;
    if (!fb_packs_in_steps(nest, storage, c->vector)) return false;
    if (!fb_ix_stride(nest->pool, at, along(s), &stride, &start) || stride != 1) return false;
    fb_ix apart = fb_ix_mod(nest->pool, fb_ix_sub(nest->pool, start, c->start), c->vector);
    return fb_ix_is_const(nest->pool, apart, &rest) && rest == 0;
}

/* Groups are of what is read again: of the narrowest, and from where the first of it begins. */
static bool choose_groups(const fb_nest *nest, const fb_section *s, const fb_long_life *of, fb_cut *c)
{
    fb_ix start, first = FB_NONE;
    int narrowest = PIECE;
    for (int i = 0; i < s->n_values; i++) {
        if (of[i].times < 2 || !is_of_row(nest, s, &s->values[i], &start)) continue;
        if (first == FB_NONE) first = start;
        int size = fb_long_size(nest, &s->values[i]);
        narrowest = size < narrowest ? size : narrowest;
    }
    c->vector = PIECE / narrowest < MOST_VECTOR ? PIECE / narrowest : MOST_VECTOR;
    if (first == FB_NONE || c->vector < 2) return false;
    c->start = fb_ix_mod(nest->pool, first, c->vector);
    int64_t shift = c->vector - 1, columns = s->spaces[0].extent[0];
    bool known = fb_ix_is_const(nest->pool, c->start, &shift);
    c->ragged = !known || shift || columns % c->vector;
    c->groups = fb_ceil_div(columns + shift, c->vector);
    return true;
}

int64_t fb_long_slots(const fb_nest *nest, const fb_section *s, const fb_long_life *of, const bool *held, int64_t *slot,
                      int *n_slots)
{
    int64_t bytes = 0;
    int *last = fb_calloc((size_t)s->n_values + 1, sizeof *last); /* by slot */
    fb_dtype *dtype = fb_calloc((size_t)s->n_values + 1, sizeof *dtype);
    int64_t *from = fb_calloc((size_t)s->n_values + 1, sizeof *from);
    int n = 0;
    for (int turn = 0; turn < 2; turn++) /* loads first */
        for (int i = 0; i < s->n_values; i++) {
            const fb_value *v = &s->values[i];
            bool load = v->kind == FB_VALUE_LOAD;
            if (turn == 0) slot[i] = FB_NONE;
            if (load == (bool)turn || !held[i]) continue;
            int at = 0;
            while (at < n && (load || dtype[at] != v->dtype || last[at] > of[i].first)) at++;
            if (at == n) {
                const int size = fb_long_size(nest, v);
                dtype[n] = v->dtype;
                from[n] = fb_ceil_div(bytes, size) * size;
                bytes = from[n++] + size;
            }
            last[at] = of[i].last;
            slot[i] = from[at];
        }
    *n_slots = n;
    fb_free(last);
    fb_free(dtype);
    fb_free(from);
    return bytes;
}

/* Loads are there from the start. Returns the bytes of an element of a row. */
static int64_t deal_slots(const fb_nest *nest, const fb_section *s, const fb_long_life *of, fb_cut *c)
{
    bool *held = fb_calloc((size_t)s->n_values + 1, 1);
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        fb_ix start;
        held[i] = v->kind == FB_VALUE_LOAD
                      ? of[i].times > 1 && is_of_row(nest, s, v, &start) && fb_cut_packs(nest, c, s, v->node, v->at)
                      : v->kept;
    }
    const int64_t bytes = fb_long_slots(nest, s, of, held, c->slot, &c->n_slots);
    fb_free(held);
    return bytes;
}

/* Only what is loaded is held. Returns the bytes of an element of a row. */
static int64_t keep_none(const fb_nest *nest, fb_section *s, fb_long_life *of, fb_cut *c)
{
    for (int i = 0; i < s->n_values; i++) s->values[i].kept = false;
    fb_long_lives(s, of);
    return deal_slots(nest, s, of, c);
}

/* Slow functions are kept too where that takes no more room than what they are made of. */
static int64_t choose_held(const fb_nest *nest, fb_section *s, fb_long_life *of, fb_cut *c)
{
    int64_t plain = deal_slots(nest, s, of, c), bytes;
    bool any = false;
    for (int i = 0; i < s->n_values; i++) {
        fb_value *v = &s->values[i];
        if (v->kind != FB_VALUE_OP || v->space != 0 || v->dtype != FB_F32 || of[i].times < 2) continue;
        v->kept = fb_op_get(nest->graph->nodes[v->node].op)->special;
        v->kept_pass = of[i].first;
        any |= v->kept;
    }
    if (!any) return plain;
    fb_long_lives(s, of);
    bytes = deal_slots(nest, s, of, c);
    return bytes <= plain ? bytes : keep_none(nest, s, of, c);
}

/* ---- parts ---- */

/* Bytes that a block may hold where so many share a multiprocessor. */
static int64_t room_of(const fb_nest *nest, int sharing)
{
    return (nest->shared_bytes + RESERVE) / sharing - RESERVE - DECLARED;
}

/* A cluster of as few as leave room for a second block; where that is not enough, more and smaller ones, of which some
 * move bytes while others wait; and more of few rows, so that all multiprocessors have one. */
static int64_t enough_parts(const fb_nest *nest, int64_t rows, int64_t bytes)
{
    int64_t least = fb_ceil_div(bytes, room_of(nest, SHARING)),
            all = fb_ceil_div(2 * (int64_t)nest->units, rows > 0 ? rows : 1);
    if (least > MOST_CLUSTER || !nest->clusters) least = fb_ceil_div(bytes, room_of(nest, MOST_SHARING));
    int64_t most = bytes / LEAST_PART < all ? bytes / LEAST_PART : all;
    if (least <= MOST_CLUSTER && most > MOST_CLUSTER && rows * MOST_CLUSTER >= nest->units) most = MOST_CLUSTER;
    return least > most ? least : most;
}

/* The groups of a part that a block has room for. */
static void hold(const fb_nest *nest, int64_t group, int64_t room, fb_cut *c)
{
    c->each = fb_ceil_div(c->groups, c->parts);
    c->held = room < c->each * group ? room / group : c->each;
    if (c->held * 100 < c->each * LEAST_HELD) c->held = 0;
    c->shared_bytes = c->held * group;
    const int64_t unit = nest->shared_bytes + RESERVE;
    c->sharing = (int)(unit / (c->shared_bytes + RESERVE + DECLARED));
    c->sharing = c->sharing > MOST_SHARING ? MOST_SHARING : c->sharing < 1 ? 1 : c->sharing;
}

/* Rows of which few are on chip at a time wait for each other: the second begins in what room the first leaves, and
 * ends behind it. So exactly two of them are there, a block of each on every multiprocessor, and one moves its bytes
 * while the other adds up. What they have no room for lies in the cache. One row alone takes all the room. */
static bool choose_parts(const fb_nest *nest, const fb_knobs *knobs, const fb_section_schedule *x, int64_t element,
                         fb_cut *c)
{
    int64_t group = element * c->vector, bytes = c->groups * group, asked = fb_knob_of(knobs, FB_KNOB_PARTS);
    if (!asked && (bytes < LEAST || bytes * x->rows < LEAST_ALL || room_of(nest, MOST_SHARING) < group)) return false;
    int64_t parts = asked ? asked : enough_parts(nest, x->rows, bytes), units = nest->units;
    const bool few = !asked && parts * (x->rows < AT_ONCE ? x->rows : AT_ONCE) > units * MOST_SHARING;
    c->parts = (int)(!few ? parts : x->rows == 1 ? units * SHARING : units);
    /* Several clusters that wait for each other are none: how many a GPU holds at once is not known here, and 25 of
     * them were too many for an H200. */
    c->cluster = nest->clusters && c->parts <= MOST_CLUSTER ? c->parts : 1;
    c->together = few && x->rows > 1 ? SHARING : 0;
    hold(nest, group, few ? room_of(nest, SHARING) : nest->shared_bytes - DECLARED, c);
    if (!c->held && !asked) {
        c->parts = (int)units * SHARING;
        c->cluster = 1;
        c->together = 0;
        hold(nest, group, 0, c);
    }
    return c->parts <= units * c->sharing; /* they wait for each other */
}

static bool keeps_any(const fb_section *s)
{
    for (int i = 0; i < s->n_values; i++)
        if (s->values[i].kept) return true;
    return false;
}

bool fb_cut_rows(const fb_nest *nest, const fb_knobs *knobs, fb_section_schedule *x, fb_arena *arena)
{
    if (!is_such(nest, x->section)) return false;
    fb_section *s = fb_arena_copy(arena, x->section, sizeof *s);
    fb_cut *c = FB_NEW(arena, fb_cut);
    fb_long_life *of = FB_NEW_ARRAY(arena, fb_long_life, s->n_values);
    s->values = fb_arena_copy(arena, s->values, (size_t)s->n_values * sizeof *s->values);
    for (int i = 0; i < s->n_values; i++) s->values[i].kept = false;
    c->slot = FB_NEW_ARRAY(arena, int64_t, s->n_values);
    fb_long_lives(s, of);
    if (!choose_groups(nest, s, of, c)) return false;
    int64_t element = choose_held(nest, s, of, c);
    if (!element || !choose_parts(nest, knobs, x, element, c)) return false;
    if (c->held < c->each && keeps_any(s)) { /* only what is loaded can be had again */
        element = keep_none(nest, s, of, c);
        if (!element || !choose_parts(nest, knobs, x, element, c)) return false;
    }
    for (int i = 0; i < s->n_values; i++) {
        if (c->slot[i] != FB_NONE) c->slot[i] *= c->held * c->vector;
        if (c->shared_bytes) continue;
        c->slot[i] = FB_NONE;
    }
    int64_t asked = fb_knob_of(knobs, FB_KNOB_THREADS);
    x->deal = FB_DEAL_LONG;
    x->section = s;
    x->cut = c;
    x->threads = x->team = asked > 0 ? (int)fb_ceil_div(asked, nest->target->warp) * nest->target->warp
                                     : THREADS / (c->sharing == 3 ? 4 : c->sharing);
    x->inverts = true;
    x->rows_a_block = 1;
    x->parts = c->parts;
    x->blocks = x->rows * x->parts;
    return true;
}
