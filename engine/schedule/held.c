/* What is held in registers. Needs a section that is dealt to teams; leaves which values are held, and larger teams where
 * a thread's share would be too much. */
#include "schedule/held.h"

#include "base/integer.h"

enum {
    REGISTER = 4,        /* bytes */
    MOST_REGISTERS = 48, /* of a thread, for what it holds */
    MANY_PASSES = 3,     /* fewer read again what the nearest cache has */
    PART = 3,            /* of the last cache: rows of fewer bytes are read from there */
    MOST_TEAM = 512,
    OCCUPYING = 768,  /* threads of a multiprocessor that are to have registers */
    FEW_ELEMENTS = 8, /* of a thread: a divisor is inverted for more */
};

int fb_held_registers(const fb_nest *nest, const fb_section *s, const fb_long_life *of, const bool *held, int each)
{
    int most = 0;
    for (int p = 0; p + 1 < s->n_passes; p++) {
        int registers = 0;
        for (int i = 0; i < s->n_values; i++) {
            const fb_value *v = &s->values[i];
            const bool load = v->kind == FB_VALUE_LOAD;
            const int own = fb_long_size(nest, v);
            const int size = load || own > REGISTER ? own : REGISTER; /* 16 bits are computed in 32 */
            if (held[i] && (load || of[i].first <= p) && of[i].last > p)
                registers += (int)fb_ceil_div((int64_t)each * size, REGISTER);
        }
        most = registers > most ? registers : most;
    }
    return most;
}

bool fb_held_slow(const fb_nest *nest, fb_section *s, const fb_long_life *of, bool halves, bool *held)
{
    bool any = false;
    for (int i = 0; i < s->n_values; i++) {
        fb_value *v = &s->values[i];
        const bool wide = v->dtype == FB_F32 || (halves && fb_dtype_is_half(v->dtype));
        if (v->kind != FB_VALUE_OP || v->space != 0 || !wide || of[i].times < 2 || !v->rows) continue;
        held[i] = v->kept = fb_op_get(fb_node_computed_as(nest->graph, v->node))->special;
        v->kept_pass = of[i].first;
        any |= v->kept;
    }
    return any;
}

/* ---- rows ---- */

static bool is_such(const fb_nest *nest, const fb_section *s)
{
    bool alone = nest->n_sections == 1 && nest->kernel.kind == FB_NEST_LOOPS && !nest->stage;
    if (!alone || !nest->target->streams || nest->units <= 0) return false;
    if (s->members > 1 || s->n_data || s->scatter || s->blocked || s->n_spaces != 1 || !s->rows.n) return false;
    return s->n_passes >= MANY_PASSES && fb_long_reduces(nest, s) && fb_long_overwrites_in_place(s);
}

/* A load that differs from row to row, in whole vectors along it. */
static bool is_of_row(const fb_nest *nest, const fb_section *s, const fb_value *v, int vector)
{
    const fb_space *along = &s->spaces[0];
    int64_t stride;
    if (v->kind != FB_VALUE_LOAD || v->space != 0 || v->when != FB_NONE || v->table != FB_NONE || !v->rows)
        return false;
    if (vector > 1) return fb_packs_load(nest, s, v, along->var[along->n - 1], vector);
    return fb_ix_coefficient(nest->pool, v->at, along->var[along->n - 1], &stride) && stride == 1;
}

/* Bytes of all rows that are held. */
static int64_t mark(const fb_nest *nest, fb_section *s, fb_long_life *of, int vector, bool *held)
{
    int64_t bytes = 0;
    for (int i = 0; i < s->n_values; i++) s->values[i].kept = false;
    fb_long_lives(s, of);
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        held[i] = of[i].last > 0 && is_of_row(nest, s, v, vector);
        if (held[i]) bytes += fb_node_bytes(nest->graph, v->node);
    }
    if (fb_held_slow(nest, s, of, true, held)) fb_long_lives(s, of);
    return bytes;
}

static bool overwrites(const fb_section *s)
{
    for (int i = 0; i < s->n_values; i++)
        for (int r = 0; r < s->n_roots; r++)
            if (s->values[i].kind == FB_VALUE_LOAD && s->values[i].node == s->roots[r].storage) return true;
    return false;
}

bool fb_held_rows(const fb_nest *nest, const fb_knobs *knobs, fb_section_schedule *x, fb_arena *arena)
{
    if (x->deal != FB_DEAL_ROWS || x->team < nest->target->warp || !is_such(nest, x->section)) return false;
    if (x->held && x->section->n_passes <= MANY_PASSES) return false;
    fb_section *s = fb_arena_copy(arena, x->section, sizeof *s);
    bool *held = FB_NEW_ARRAY(arena, bool, s->n_values);
    fb_long_life *of = FB_NEW_ARRAY(arena, fb_long_life, s->n_values);
    s->values = fb_arena_copy(arena, s->values, (size_t)s->n_values * sizeof *s->values);
    const int vector = fb_schedule_vector(nest, knobs, s, 0);
    const int64_t bytes = mark(nest, s, of, vector, held), groups = fb_space_points(&s->spaces[0]) / vector;
    const int registers = fb_held_registers(nest, s, of, held, vector);
    if (bytes * PART < nest->cache_bytes || !registers || registers > MOST_REGISTERS) return false;
    int team = x->team;
    while (team <= MOST_TEAM && fb_ceil_div(groups, team) * registers > MOST_REGISTERS) team *= 2;
    if (team > MOST_TEAM && team > x->team) return false;
    /* teams past the last row have it again, and would read what is overwritten meanwhile */
    if (team <= nest->target->warp && x->rows % x->rows_a_block && overwrites(s)) return false;
    if (team > nest->target->warp) {
        x->threads = team;
        x->rows_a_block = 1;
    }
    x->team = team;
    x->blocks = fb_ceil_div(x->rows, x->rows_a_block);
    x->section = s;
    x->held = x->fetched = true;
    x->crowded = false;
    x->inverts = fb_ceil_div(groups, team) * vector >= FEW_ELEMENTS;
    x->sharing = OCCUPYING / x->threads;
    for (int i = 0; i < s->n_values; i++) s->values[i].kept = held[i];
    return true;
}
