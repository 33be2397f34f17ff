/* A loop's body whose threads go through all steps. A step is a few instructions that wait for those of the step before,
 * and what a thread waits for beside them is memory: so there are as many threads as there can be before each has
 * several neighbours, and each has many loads on their way. (256 steps of h · a + b over 8 × 1024 in f32 on an H200, each
 * thread four elements, all from memory and back at each step: 152 µs.) */
#include "schedule/through.h"

#include "base/integer.h"
#include "target/special.h"

enum {
    WIDEST = 4,          /* neighbours of a thread, as a rule; */
    MOST_ALONE = 16,     /* … of a row whose elements lie apart, which one thread has all of */
    MOST_OF_LANES = 8,   /* … of a row that fills a warp's lanes */
    FEW_THREADS = 192,   /* a multiprocessor: with fewer, a thread has one element */
    AHEAD = 32,          /* steps */
    REGISTERS = 65536,   /* of a multiprocessor: a thread's for what is loaded ahead, and was before, … */
    OTHERS = 64,         /* … beside these, … */
    LEAST = 24,          /* … are so many at least … */
    MOST = 160,          /* … and at most */
    INSTRUCTIONS = 1500, /* of the steps that are written out, which are to stay in the nearest cache */
    ROOM = 200,          /* registers of a thread, of values */
    BLOCK = 256,
};

static bool is_plain_value(const fb_nest *nest, const fb_value *v)
{
    switch (v->kind) {
    case FB_VALUE_CONST:
    case FB_VALUE_LOAD:
    case FB_VALUE_INDEX:
    case FB_VALUE_RANDOM:
    case FB_VALUE_OP:
    case FB_VALUE_SELECT:
    case FB_VALUE_FOLD: return true;
    case FB_VALUE_REDUCE: return nest->graph->nodes[v->node].op != FB_OP_RANK;
    case FB_VALUE_SCAN:
    case FB_VALUE_CHIP: break;
    }
    return false;
}

/* Elements of a row that is reduced; 0: none is, or spaces differ. */
static int64_t points_of(const fb_section *s)
{
    int64_t points = 0;
    for (int i = 0; i < s->n_passes; i++) {
        const fb_space *space = &s->spaces[s->passes[i].space];
        if (space->n != 1 || (points && space->extent[0] != points)) return 0;
        points = space->extent[0];
    }
    return points;
}

/* Neighbours that move together, of all passes. */
static int vector_of(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s)
{
    int vector = WIDEST;
    for (int i = 0; i < s->n_passes || i == 0; i++) {
        int own = fb_schedule_vector(nest, knobs, s, s->n_passes ? s->passes[i].space : FB_NONE);
        if (own < vector) vector = own;
    }
    return vector;
}

/* Neighbours of a thread: so many of a row's `points`; 0: a warp has no room for it. */
static int most_neighbours(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s, int64_t points)
{
    const int warp = nest->target->warp;
    int each = vector_of(nest, knobs, s);
    if (!s->n_passes) return each;
    if (fb_section_lies_across(nest->pool, s)) return fb_power_of_two(points, MOST_ALONE) == points ? (int)points : 0;
    while (each <= MOST_OF_LANES && points / each > warp) each *= 2;
    return each <= MOST_OF_LANES && points % each == 0 ? each : 0;
}

/* Registers of a thread with `each` neighbours: what it loads, for the step at hand and the next, and what it makes. */
static int64_t registers_with(const fb_nest *nest, const fb_section *s, int each)
{
    enum { REGISTER = 4 };
    int64_t registers = 0;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        const int64_t n = fb_through_varies(s, v) ? each : 1;
        if (v->kind == FB_VALUE_LOAD) registers += 2 * fb_ceil_div(n * fb_dtype_size(v->dtype), REGISTER);
    }
    for (int i = 0; i < s->n_roots; i++) {
        const int64_t n = !s->n_passes || s->roots[i].space != FB_NONE ? each : 1;
        registers += fb_ceil_div(n * fb_dtype_size(nest->graph->nodes[s->roots[i].node].dtype), REGISTER);
    }
    return registers;
}

/* Neighbours of a thread: as many as move together, halved while registers are short, and while there are too few threads
 * (fewer than `few`; 0: any number will do), as far as a warp's lanes have the rest. 0: a thread has no room. */
static int neighbours_of(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s, int64_t points, int64_t few)
{
    const int64_t all = fb_space_points(&s->rows) * points;
    const bool alone = s->n_passes && fb_section_lies_across(nest->pool, s);
    int each = most_neighbours(nest, knobs, s, points);
    while (!alone && each > 1 && (!s->n_passes || points / (each / 2) <= nest->target->warp) &&
           (all / each < few || registers_with(nest, s, each) > ROOM))
        each /= 2;
    return each && registers_with(nest, s, each) <= ROOM ? each : 0;
}

static bool section_fits(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s)
{
    bool fits = !s->scatter && !s->n_tables && !s->n_data && !s->blocked && s->members <= 1;
    for (int i = 0; i < s->n_values && fits; i++) fits = is_plain_value(nest, &s->values[i]);
    const int64_t points = points_of(s);
    return fits && (points > 0 || !s->n_passes) && neighbours_of(nest, knobs, s, s->n_passes ? points : 1, 0);
}

bool fb_through_fits(const fb_nest *nest, const fb_knobs *knobs)
{
    bool fits = nest->target->grid && nest->n_sections > 0;
    for (int i = 0; i < nest->n_sections && fits; i++)
        fits = section_fits(nest, knobs, &nest->sections[i]) && fb_space_points(&nest->sections[i].rows) > 0;
    return fits;
}

/* Registers of a step's items. */
static int64_t item_registers(const fb_nest *nest, const fb_section_schedule *x)
{
    enum { REGISTER = 4 };
    int64_t registers = 0;
    for (int i = 0; i < x->section->n_values; i++) {
        const fb_value *v = &x->section->values[i];
        if (v->kind != FB_VALUE_LOAD || !fb_nest_moved(nest->through, v->node)) continue;
        const int64_t n = fb_through_varies(x->section, v) ? x->each : 1;
        registers += fb_ceil_div(n * fb_dtype_size(v->dtype), REGISTER);
    }
    return registers;
}

/* Of one step, about. */
static int64_t instructions(const fb_nest *nest, const fb_section_schedule *x)
{
    enum { EXP = 12, ROW = 10, STEP = 10 };
    double n = STEP;
    for (int i = 0; i < x->section->n_values; i++) {
        const fb_value *v = &x->section->values[i];
        if (fb_value_is_leaf(v)) continue;
        double own = v->kind == FB_VALUE_REDUCE ? ROW : 1;
        if (v->kind == FB_VALUE_OP)
            own += EXP * fb_special_cost(fb_node_computed_as(nest->graph, v->node), v->dtype, nest->target);
        n += own * (fb_through_varies(x->section, v) ? x->each : 1);
    }
    return (int64_t)n;
}

static int count_ahead(const fb_nest *nest, const fb_section_schedule *x)
{
    const int64_t registers = item_registers(nest, x), all = instructions(nest, x);
    const int64_t threads = fb_ceil_div(x->rows * x->team, nest->units > 0 ? nest->units : 1),
                  room = REGISTERS / threads - OTHERS;
    const int64_t most = room < LEAST ? LEAST : room > MOST ? MOST : room;
    int ahead = AHEAD;
    while (ahead > 1 &&
           (ahead / 2 >= nest->through->trips || ahead * all > INSTRUCTIONS || 2 * ahead * registers > most))
        ahead /= 2;
    return ahead;
}

/* Rows of what a thread or a team has: x->rows. */
void fb_through_deal(const fb_nest *nest, const fb_knobs *knobs, fb_section_schedule *x)
{
    const fb_section *s = x->section;
    const int warp = nest->target->warp;
    const int64_t all = x->rows, points = s->n_passes ? points_of(s) : 1;
    const int64_t few = (int64_t)FEW_THREADS * nest->units;
    const int each = neighbours_of(nest, knobs, s, points, few);
    x->deal = FB_DEAL_THROUGH;
    x->each = each;
    x->team = 1;
    while (s->n_passes && x->team < fb_ceil_div(points, each)) x->team *= 2;
    x->rows = s->n_passes ? all : all / each;
    const bool asked = fb_knob_of(knobs, FB_KNOB_THREADS) > 0;
    if (!asked) x->threads = BLOCK;
    while (!asked && x->threads > warp && fb_ceil_div(x->rows * x->team, x->threads) < nest->units) x->threads /= 2;
    x->rows_a_block = x->threads / x->team;
    x->blocks = fb_ceil_div(x->rows, x->rows_a_block);
    x->steps_ahead = count_ahead(nest, x);
}
