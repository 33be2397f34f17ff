/* Which columns go by bands, how wide these are, and what of them is held where. Needs a nest that knows its chip; leaves
 * a fb_band, or nothing where columns are short, few, or read once.
 *
 * A band is as wide as memory moves well, a line or half of one, and is held in registers as long as a block of few
 * threads has them. Longer ones lie in the shared memory of a cluster, in parts as small as leave room for blocks that
 * move bytes while others wait. */
#include "schedule/bands.h"

#include "base/integer.h"
#include "schedule/held.h"

enum {
    SHORT = 16,          /* elements of a column that a thread has for itself */
    LEAST_ALL = 1 << 20, /* bytes of all columns that are worth it */
    LINE = 128,          /* bytes that memory moves best … */
    WIDEST = 512,        /* … and those of several lines, where columns are short */
    NARROW = 64,         /* … half of a line … */
    NARROWEST = 32,      /* … and a sector */
    REGISTERS = 32,      /* that a thread holds, … */
    FEW_REGISTERS = 24,  /* … of so many columns that their sums take more */
    MANY_COLUMNS = 8,
    ELEMENTS = 48, /* of a thread: those of 16 bits are converted once */
    FEWEST = 128,  /* threads of a block, … */
    USUAL = 256,
    MOST = 512,             /* … and of one that holds in registers */
    THREADS = 1024,         /* of a multiprocessor */
    OCCUPYING = 768,        /* … that are to have registers, where they hold all in them */
    MOST_CLUSTER = 8,       /* blocks */
    MOST_SHARING = 3,       /* blocks of a multiprocessor, of which one moves bytes while others wait */
    WAVES = 2,              /* blocks of each multiprocessor, where there are columns for so many */
    LEAST_PART = 8192,      /* bytes that are worth a block */
    WORD = 4,               /* bytes of a bank of shared memory */
    MOST_TURNED = 32 << 10, /* bytes of a block */
    RESERVE = 1024,         /* bytes of shared memory that the hardware takes of each block */
};

/* What all ways to deal a section have alike. */
typedef struct {
    const fb_nest *nest;
    const fb_section *s;
    const fb_long_life *of;
    int64_t columns, points;
    int width;       /* bytes of what a thread moves at once … */
    int each;        /* … and columns */
    int64_t element; /* bytes of what is held of an element */
    int registers;   /* … of a thread's group of neighbours */
    int sums;        /* bytes of a column's sums, of all passes, */
    int largest;     /* and of the largest */
    int64_t turned;  /* bytes that a block may have for what is turned */
} columns_of;

static bool is_such(const fb_nest *nest, const fb_section *s)
{
    bool alone = nest->n_sections == 1 && nest->kernel.kind == FB_NEST_LOOPS && !nest->stage;
    if (!alone || !nest->target->streams || nest->shared_bytes <= 0 || nest->units <= 0) return false;
    if (s->members > 1 || s->n_data || s->scatter || s->blocked || s->n_passes < 2 || s->n_spaces != 1) return false;
    return fb_long_reduces(nest, s) && fb_long_overwrites_in_place(s);
}

static bool varies(const fb_section *s, const fb_value *v)
{
    return v->rows >> (s->rows.n - 1) & 1;
}

/* Does every column have a sum of its own, in whole words, as blocks send them to each other, and no rank? */
static bool sums_by_columns(const fb_nest *nest, const fb_section *s)
{
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        const bool word = v->dtype != FB_BOOL && nest->graph->nodes[v->node].op != FB_OP_RANK;
        if (v->kind == FB_VALUE_REDUCE && (!varies(s, v) || !word)) return false;
    }
    return true;
}

/* Neighbours that a thread moves at once, if all that differs between them moves so. */
static int neighbours(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s)
{
    const fb_ix last = s->rows.var[s->rows.n - 1];
    const int each = fb_schedule_vector_across(nest, knobs, s, 0);
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (v->kind == FB_VALUE_LOAD && v->space == 0 && varies(s, v) && !fb_packs_load(nest, s, v, last, each))
            return 1;
    }
    return each;
}

/* A load that differs from column to column, and that no two columns share as windows do. */
static bool is_of_column(const fb_nest *nest, const fb_section *s, const fb_value *v)
{
    int64_t stride;
    if (v->kind != FB_VALUE_LOAD || v->space != 0 || v->when != FB_NONE || v->table != FB_NONE || !varies(s, v))
        return false;
    if (!fb_ix_coefficient(nest->pool, v->at, s->rows.var[s->rows.n - 1], &stride) || stride != 1) return false;
    return fb_space_points(&s->rows) * fb_space_points(&s->spaces[0]) * fb_long_size(nest, v) <=
           fb_node_bytes(nest->graph, v->node);
}

/* ---- what is held ---- */

static void measure(columns_of *c, const fb_long_life *of, fb_band *b)
{
    int n_slots;
    c->element = fb_long_slots(c->nest, c->s, of, b->held, b->slot, &n_slots);
    c->registers = fb_held_registers(c->nest, c->s, of, b->held, c->each);
}

/* Marks what is loaded several times, and slow functions as well where these take no more room than what they are made of. */
static void choose_held(columns_of *c, fb_section *s, fb_long_life *of, fb_band *b)
{
    for (int i = 0; i < s->n_values; i++) s->values[i].kept = false;
    fb_long_lives(s, of);
    for (int i = 0; i < s->n_values; i++) b->held[i] = of[i].times > 1 && is_of_column(c->nest, s, &s->values[i]);
    measure(c, of, b);
    const int64_t element = c->element;
    if (!element) return;
    if (!fb_held_slow(c->nest, s, of, false, b->held)) return;
    fb_long_lives(s, of);
    measure(c, of, b);
    if (c->element <= element) return;
    for (int i = 0; i < s->n_values; i++) {
        if (s->values[i].kept) b->held[i] = false;
        s->values[i].kept = false;
    }
    fb_long_lives(s, of);
    measure(c, of, b);
}

/* What registers have is loaded ahead of all passes, so that nothing else is waited for later: also what only the last ones
 * need. */
static void fetch_ahead(columns_of *c, bool *held)
{
    const fb_section *s = c->s;
    for (int i = 0; i < s->n_values; i++) held[i] |= c->of[i].times > 0 && is_of_column(c->nest, s, &s->values[i]);
    c->registers = fb_held_registers(c->nest, s, c->of, held, c->each);
}

/* ---- what is turned ---- */

int64_t fb_band_line(const fb_nest *nest, const fb_band *b, const fb_root *r)
{
    const int size = fb_dtype_size(nest->graph->nodes[r->storage].dtype), each = size < WORD ? WORD / size : 1;
    return (fb_ceil_div(b->points, each) | 1) * each;
}

int fb_band_stores(const fb_nest *nest, const fb_section *s, const fb_band *b, const fb_root *r)
{
    const int size = fb_dtype_size(nest->graph->nodes[r->storage].dtype), each = size < WORD ? WORD / size : 1;
    const bool whole = s->spaces[0].extent[0] % each == 0 && (b->parts == 1 || b->points % each == 0);
    return whole && each > 1 && fb_packs_root(nest, s, r, s->spaces[0].var[0], each) ? each : 1;
}

/* Is it stored along columns, and not across them? */
static bool lies_along(const columns_of *c, const fb_root *r)
{
    const fb_section *s = c->s;
    int64_t along, across;
    if (r->space != 0 || r->table != FB_NONE || r->storage < 0 || s->spaces[0].n != 1) return false;
    if (!fb_ix_coefficient(c->nest->pool, r->at, s->spaces[0].var[0], &along) || along != 1) return false;
    if (!fb_ix_coefficient(c->nest->pool, r->at, s->rows.var[s->rows.n - 1], &across) || across == 1) return false;
    for (int i = 0; i < s->n_values; i++)
        if (s->values[i].kind == FB_VALUE_LOAD && s->values[i].node == r->storage) return false;
    return true;
}

/* Those of a block's columns have room behind what is held. */
static void turn(const columns_of *c, fb_band *b)
{
    enum { ALIGNED = 16 };
    const int64_t held = fb_ceil_div(b->held_bytes, ALIGNED) * ALIGNED, columns = (int64_t)b->beside * c->each;
    b->shared_bytes = held;
    for (int i = 0; i < c->s->n_roots; i++) {
        const fb_root *r = &c->s->roots[i];
        b->turned[i] = FB_NONE;
        if (!lies_along(c, r)) continue;
        const int64_t bytes =
            columns * fb_band_line(c->nest, b, r) * fb_dtype_size(c->nest->graph->nodes[r->storage].dtype);
        if (b->shared_bytes + bytes > held + MOST_TURNED || b->shared_bytes + bytes > c->nest->shared_bytes) continue;
        b->turned[i] = b->shared_bytes;
        b->shared_bytes += fb_ceil_div(bytes, ALIGNED) * ALIGNED;
    }
}

/* ---- how wide bands are, and in how many parts ---- */

static int64_t groups_of(const columns_of *c, int beside)
{
    return fb_ceil_div(c->columns, (int64_t)beside * c->each);
}

static int beside_of(const columns_of *c, int bytes)
{
    const int warp = c->nest->target->warp, beside = bytes / c->width;
    return beside < 1 ? 1 : beside > warp ? warp : beside;
}

/* As many threads one behind the other as whole warps have, for so many steps at most. */
static int team_of(const columns_of *c, int beside, int steps)
{
    const int lanes = c->nest->target->warp / beside;
    return (int)fb_ceil_div(fb_ceil_div(c->points, steps), lanes) * lanes;
}

/* As many steps as there may be, but for some where fewer leave less of the threads without anything to do. */
static int even_steps(const columns_of *c, int beside, int most)
{
    enum { PART = 16 }; /* that may be so */
    int best = most;
    int64_t fewest = c->points + 1;
    for (int steps = most; steps >= 1 && 2 * steps >= most && fewest * PART > c->points; steps--) {
        const int team = team_of(c, beside, steps);
        const int64_t idle = fb_ceil_div(c->points, team) * team - c->points;
        if (idle < fewest && beside * team <= MOST) fewest = idle, best = steps;
    }
    return best;
}

/* In registers: a block each, of few threads, so that some have others to wait beside. */
static bool hold_in_registers(const columns_of *c, int asked, fb_section_schedule *x, fb_band *b)
{
    const int room = c->each < MANY_COLUMNS ? REGISTERS : FEW_REGISTERS;
    if (!c->registers || c->registers > room) return false;
    const int wide = room / c->registers, units = c->nest->units;
    const int most = wide * c->each > ELEMENTS ? ELEMENTS / c->each : wide;
    int beside = beside_of(c, LINE);
    while (beside > 1 && beside * team_of(c, beside, most) > MOST && beside * c->width > NARROW) beside /= 2;
    while (beside * 2 * c->width <= WIDEST && beside < c->nest->target->warp &&
           beside * 2 * team_of(c, beside * 2, most) <= USUAL && groups_of(c, beside * 2) >= 4 * WAVES * units)
        beside *= 2;
    while (beside * c->width > NARROW && groups_of(c, beside) < WAVES * units) beside /= 2;
    int steps = even_steps(c, beside, most);
    while (steps > 1 && beside * team_of(c, beside, steps) < FEWEST) steps--;
    int team = asked ? (int)fb_ceil_div(asked, beside) : team_of(c, beside, steps);
    if (beside * team > (asked ? THREADS : MOST)) return false;
    b->beside = beside;
    b->parts = 1;
    b->points = c->points;
    b->steps = (int)fb_ceil_div(c->points, team);
    b->held_bytes = 0;
    b->sharing = OCCUPYING / (beside * team);
    x->team = team;
    return b->steps <= most;
}

/* Bytes of shared memory that sums take: of a block's warps, and of each block of a cluster. */
static int64_t declared(const columns_of *c, int beside, int threads, int parts)
{
    const int64_t columns = (int64_t)beside * c->each, warps = threads / c->nest->target->warp;
    return columns * ((warps + 1) * c->largest + (parts > 1 ? (int64_t)parts * c->sums : 0));
}

static int64_t part_bytes(const columns_of *c, int beside, int parts)
{
    return fb_ceil_div(c->points, parts) * beside * c->each * c->element;
}

/* Threads of a block of which so many share a multiprocessor. */
static int threads_of(int sharing)
{
    return sharing >= MOST_SHARING ? USUAL : THREADS / sharing;
}

static bool fits(const columns_of *c, int beside, int parts, int sharing)
{
    const int64_t room = (c->nest->shared_bytes + RESERVE) / sharing - RESERVE - c->turned;
    return part_bytes(c, beside, parts) + declared(c, beside, threads_of(sharing), parts) <= room;
}

/* In shared memory: bands of a line in blocks of which three share a multiprocessor are best, then what comes nearest. */
static bool hold_in_parts(const columns_of *c, int parts_asked, int asked, fb_section_schedule *x, fb_band *b)
{
    static const struct {
        int bytes, sharing;
    } ways[] = {{LINE, MOST_SHARING}, {LINE, 2}, {NARROW, MOST_SHARING}, {NARROW, 2}, {NARROW, 1}, {NARROWEST, 1}};
    const int most = parts_asked ? parts_asked : c->nest->clusters ? MOST_CLUSTER : 1, units = c->nest->units;
    int parts = parts_asked ? parts_asked : 1, sharing = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways && !sharing; i++) {
        b->beside = beside_of(c, ways[i].bytes);
        for (parts = parts_asked ? parts_asked : 1; parts <= most && !sharing; parts++)
            if (fits(c, b->beside, parts, ways[i].sharing)) sharing = ways[i].sharing, parts--;
    }
    if (!sharing) return false;
    while (parts * 2 <= most && groups_of(c, b->beside) * parts < WAVES * units &&
           part_bytes(c, b->beside, parts * 2) >= LEAST_PART)
        parts *= 2;
    for (int even = parts; !parts_asked && even <= most && c->points % parts; even++)
        if (c->points % even == 0) parts = even;
    b->parts = parts;
    b->points = fb_ceil_div(c->points, parts);
    b->steps = 0;
    b->held_bytes = part_bytes(c, b->beside, parts);
    turn(c, b);
    int threads = asked ? asked : threads_of(sharing);
    while (!asked && threads > FEWEST && b->points * b->beside < 4 * threads) threads /= 2;
    x->team = threads / b->beside;
    b->sharing =
        (int)((c->nest->shared_bytes + RESERVE) / (b->shared_bytes + declared(c, b->beside, threads, parts) + RESERVE));
    if (b->sharing * threads > THREADS) b->sharing = THREADS / threads;
    return true;
}

/* Columns much longer than all shared memory: what is left is to move vectors. */
static bool read_again(const columns_of *c, int parts_asked, int asked, fb_section_schedule *x, fb_band *b)
{
    if (c->each == 1 && !parts_asked) return false;
    b->beside = beside_of(c, LINE);
    b->parts = parts_asked ? parts_asked : c->nest->clusters ? MOST_CLUSTER : 1;
    while (!parts_asked && b->parts > 1 && groups_of(c, b->beside) * b->parts > 2 * WAVES * c->nest->units)
        b->parts /= 2;
    while (b->beside * c->width > NARROW && groups_of(c, b->beside) * b->parts < WAVES * c->nest->units) b->beside /= 2;
    b->points = fb_ceil_div(c->points, b->parts);
    b->steps = 0;
    b->held_bytes = 0;
    b->sharing = WAVES;
    x->team = (asked ? asked : MOST) / b->beside;
    return true;
}

/* Steps of a thread whose copies a thread can tell apart, each as wide as a copy; smaller ones are no faster than loads. */
static int copies_of(const columns_of *c, const fb_section_schedule *x, const fb_band *b)
{
    enum { COPY = 16, GROUPS = 32 };
    const int64_t steps = fb_ceil_div(b->points, x->team);
    bool may = b->held_bytes && steps <= GROUPS;
    for (int i = 0; i < c->s->n_values; i++) {
        const fb_value *v = &c->s->values[i];
        if (b->held[i] && v->kind == FB_VALUE_LOAD) may &= c->each * fb_long_size(c->nest, v) % COPY == 0;
    }
    return may ? (int)steps : 0;
}

static void count_sums(columns_of *c)
{
    for (int i = 0; i < c->s->n_values; i++) {
        if (c->s->values[i].kind != FB_VALUE_REDUCE) continue;
        const int size = fb_dtype_size(c->s->values[i].dtype) > 4 ? 8 : 4;
        c->sums += size;
        c->largest = size > c->largest ? size : c->largest;
    }
}

/* Is a column's divisor inverted once, for each thread divides many elements by it? */
static bool inverts(const columns_of *c, const fb_section_schedule *x)
{
    enum { MANY = 2 };
    return fb_ceil_div(x->band->points, x->team) >= MANY && c->s->n_passes > 1;
}

/* Threads past the last column have its numbers again: what these are made of must not be overwritten meanwhile. */
static bool overwrites_again(const columns_of *c, const fb_band *b)
{
    const fb_section *s = c->s;
    if (c->columns / c->each % b->beside == 0) return false;
    for (int i = 0; i < s->n_values; i++)
        for (int r = 0; r < s->n_roots; r++)
            if (s->values[i].kind == FB_VALUE_LOAD && !b->held[i] && s->values[i].node == s->roots[r].storage)
                return true;
    return false;
}

static bool hold_most_in_registers(const columns_of *c, int threads, fb_section_schedule *x, fb_band *b,
                                   fb_arena *arena)
{
    const size_t bytes = (size_t)c->s->n_values * sizeof *b->held;
    bool *repeated = b->held;
    columns_of more = *c;
    b->held = fb_arena_copy(arena, repeated, bytes);
    fetch_ahead(&more, b->held);
    if (hold_in_registers(&more, threads, x, b)) return true;
    b->held = repeated;
    return hold_in_registers(c, threads, x, b);
}

/* `parts` and `threads` as they are asked for; 0: they are not. */
static bool choose(const columns_of *c, int parts, int threads, fb_section_schedule *x, fb_band *b, fb_arena *arena)
{
    bool *repeated = b->held;
    if (parts <= 1 && hold_most_in_registers(c, threads, x, b, arena)) {
        const int64_t blocks = groups_of(c, b->beside);
        fb_section_schedule shared = *x;
        fb_band more = *b;
        if (parts || blocks >= c->nest->units || !hold_in_parts(c, 0, threads, &shared, &more)) return true;
        if (groups_of(c, more.beside) * more.parts <= blocks) return true;
        *x = shared;
        *b = more;
        b->held = repeated;
        return true;
    }
    b->held = repeated;
    return hold_in_parts(c, parts, threads, x, b) || read_again(c, parts, threads, x, b);
}

bool fb_band_columns(const fb_nest *nest, const fb_knobs *knobs, fb_section_schedule *x, fb_arena *arena)
{
    const int64_t parts = fb_knob_of(knobs, FB_KNOB_PARTS), threads = fb_knob_of(knobs, FB_KNOB_THREADS);
    if (!is_such(nest, x->section) || !sums_by_columns(nest, x->section)) return false;
    if (fb_knob_of(knobs, FB_KNOB_ROWS) || fb_knob_of(knobs, FB_KNOB_GRID) || (threads && !parts)) return false;
    fb_section *s = fb_arena_copy(arena, x->section, sizeof *s);
    fb_band *b = FB_NEW(arena, fb_band);
    fb_long_life *of = FB_NEW_ARRAY(arena, fb_long_life, s->n_values);
    s->values = fb_arena_copy(arena, s->values, (size_t)s->n_values * sizeof *s->values);
    b->held = FB_NEW_ARRAY(arena, bool, s->n_values);
    b->slot = FB_NEW_ARRAY(arena, int64_t, s->n_values);
    b->turned = FB_NEW_ARRAY(arena, int64_t, s->n_roots);
    columns_of c = {.nest = nest,
                    .s = s,
                    .columns = x->rows,
                    .points = fb_space_points(&s->spaces[0]),
                    .each = neighbours(nest, knobs, s)};
    count_sums(&c);
    for (int i = 0; i < s->n_roots; i++)
        if (lies_along(&c, &s->roots[i])) c.turned = MOST_TURNED;
    choose_held(&c, s, of, b);
    c.of = of;
    if (!c.element || c.points < SHORT || !c.columns) return false;
    if (!parts && c.columns * c.points * c.element < LEAST_ALL) return false;
    for (int i = 0; i < s->n_values; i++) {
        const int width = c.each * fb_long_size(nest, &s->values[i]);
        if (b->held[i] && s->values[i].kind == FB_VALUE_LOAD && width > c.width) c.width = width;
    }
    const int most = parts > MOST_CLUSTER ? MOST_CLUSTER : (int)parts;
    const int asked = threads > THREADS ? THREADS : (int)fb_ceil_div(threads, nest->target->warp) * nest->target->warp;
    if (parts > 1 && !nest->clusters) return false;
    if (!choose(&c, most, asked, x, b, arena)) return false;
    b->copies = copies_of(&c, x, b);
    for (int i = 0; i < s->n_values; i++) {
        if (fb_band_reads_again(b)) b->held[i] = s->values[i].kept = false;
        if (b->slot[i] != FB_NONE) b->slot[i] *= b->points * b->beside * c.each;
        if (!b->held_bytes) b->slot[i] = FB_NONE;
        if (b->held[i] && s->values[i].kind == FB_VALUE_LOAD) s->values[i].kept_pass = b->copies ? -1 : of[i].first;
    }
    if (overwrites_again(&c, b)) return false;
    turn(&c, b);
    x->deal = FB_DEAL_BANDS;
    x->section = s;
    x->band = b;
    x->each = c.each;
    x->threads = x->team * b->beside;
    x->rows_a_block = (int64_t)b->beside * c.each;
    x->parts = b->parts;
    x->blocks = groups_of(&c, b->beside) * b->parts;
    x->sharing = b->sharing;
    x->held = b->steps > 0;
    x->inverts = inverts(&c, x);
    return true;
}
