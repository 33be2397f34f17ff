/* A thread issues its instructions in order. It waits for its loads a few at a time: a warp has six barriers to wait on
 * (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018), so that loads whose values
 * are used one after the other cost a sixth of a wait each. What it computes waits for what it computed
 * before. A division is a branch, before which its operands have come, and beyond which no load is sent for. Many warps
 * hide all that behind each other until their scheduler is busy, which issues one instruction a cycle.
 *
 * All figures are cycles or instructions. Latencies are those of Luo et al. (see tile_cost.c); instructions are counted
 * in what nvcc 13.0 makes for compute capability 9.0. */
#include "schedule/thread_cost.h"

#include "base/integer.h"
#include "base/mem.h"
#include "schedule/bands.h"
#include "schedule/long.h"
#include "schedule/schedule.h"
#include "schedule/team.h"
#include "schedule/through.h"
#include "schedule/windows.h"
#include "target/special.h"

#include <math.h>
#include <stdlib.h>

enum {
    /* cycles */
    L2 = 273,      /* latency */
    SHARED = 30,   /* … of shared memory */
    RESULT = 4,    /* … of arithmetic: until the next instruction can use it */
    DIVISION = 60, /* a reciprocal, five steps that wait for each other, and two branches */
    EXCHANGE = 29, /* a shuffle, and a sum */
    WORD = 36,     /* a warp's points of an index_add's index of which none is the block's: read from shared memory, and
                      tested */
    FAR = 1300,    /* latency of DRAM, of a place in a table that no cache holds */
    /* a load that is made where a test holds: those behind its branch wait for some of it. Recorded on an H200: sums of
     * padded values (lstm_train, backward.cast_5 of 73 nodes: 39.6 µs) and scans written out (gru, pass[3].add) */
    TESTED = 180,
    TESTED_IN_ROW = 110,
    /* a step of columns that are gone along: all warps' loads, and what those before have, through shared memory and back. (An
     * H200: 1024 of 8192 in bf16, 64 steps, 61 µs; 131,072 of 1024, 8 steps of four rounds, 28.) */
    ALONG = 1100,
    WAIT = 375, /* a load from L2 and what is made of it, where nothing is done meanwhile: as in tile_cost.c */
    /* whether a block's work is in a section: a branch, to instructions that the first blocks wait for too (recorded on
     * an H200: basecaller, conv3.stack of 15 sections) */
    SECTION = 40,
    FETCHED = 60,
    /* instructions */
    LOAD = 3,
    BAND_STEP = 10, /* of columns in shared memory: where its elements are, in two memories */
    SELECT = 2,
    EXP = 12,
    DIVIDING = 14,         /* with its two branches */
    QUOTIENT = 5,          /* where the reciprocal is there */
    EXTREMUM = 3,          /* two comparisons, for what is no number, and a choice */
    NOTED = 12,            /* a point of an index_add's index: two comparisons, a vote and its word */
    WORD_INSTRUCTIONS = 4, /* … of which a warp's are passed over */
    /* counts */
    BARRIERS = 6,     /* that a warp waits for loads on */
    SIDE_BY_SIDE = 4, /* elements whose slow functions are computed step by step, where these are no branches */
    EXCHANGES = 5,    /* from lane to lane, until a warp has a row's sum */
    SCHEDULERS = 4,   /* of a multiprocessor, … */
    WARPS = 16,       /* … each with so many warps at once, … */
    BLOCKS = 32,      /* … of so many blocks at most */
    REGISTERS = 65536,
    SORTING = 48, /* registers of a thread that sorts points and sums them up; */
    OTHERS = 32,  /* beside values that are live: addresses, constants, what is being computed; … */
    MOST = 255,   /* … of a thread at all */
};

/* Of one thread, and of the blocks of its section. */
typedef struct {
    double chain; /* cycles that it takes alone */
    double instructions;
    double threads, blocks;
    double registers; /* of a thread, where they are more than leave room for all warps; else 0 */
    double at_once;   /* rows that a team takes together, where these are several; else 0 */
    bool meets;       /* warps of a block exchange what they have */
    bool whole;       /* its rows are dealt to whole blocks, however long they are */
} work;

static bool is_division(const fb_nest *nest, const fb_value *v)
{
    return v->kind == FB_VALUE_OP && nest->graph->nodes[v->node].op == FB_OP_DIV && v->dtype == FB_F32;
}

/* … by what is the same for all of a row. */
static bool is_of_inverse(const fb_nest *nest, const fb_section *s, const fb_value *v)
{
    return is_division(nest, v) && s->values[v->args[1]].space == FB_NONE;
}

/* A product that goes into one sum is part of a fused multiply-add, which waits once. */
static bool is_taken_in(const fb_nest *nest, const fb_value *v)
{
    const fb_graph *g = nest->graph;
    int first = g->user_start[v->node];
    if (g->nodes[v->node].op != FB_OP_MUL || g->user_start[v->node + 1] - first != 1) return false;
    fb_op user = g->nodes[g->users[first]].op;
    return user == FB_OP_ADD || user == FB_OP_SUB;
}

/* What value v takes, computed `times` times for each of `vector` neighbours, which are computed step by step;
 * `alone`: loads do not overlap, and are counted elsewhere. A load that is not made is not waited for. */
static void add_value(const fb_nest *nest, const fb_value *v, double times, int vector, bool alone, work *w)
{
    double tests = 0, all = times * vector, steps = times * fmax(1, (double)vector / SIDE_BY_SIDE);
    if (v->kind == FB_VALUE_LOAD) {
        for (int c = v->when; c != FB_NONE; c = nest->whens[c].outer) tests++;
        double wait = alone ? 0 : (double)WAIT / BARRIERS;
        w->chain += all * (tests > 0 && !alone ? TESTED_IN_ROW : wait) + steps * tests * RESULT;
        w->instructions += all * (LOAD + tests);
    } else if (v->kind == FB_VALUE_SELECT) {
        w->chain += steps * RESULT;
        w->instructions += all * SELECT;
    } else if (is_division(nest, v)) {
        w->chain += all * DIVISION;
        w->instructions += all * DIVIDING;
    } else if (v->kind == FB_VALUE_OP) {
        fb_op op = fb_node_computed_as(nest->graph, v->node);
        double slow = EXP * fb_special_cost(op, v->dtype, nest->target);
        if (is_taken_in(nest, v)) steps = 0;
        w->chain += RESULT * (steps + (fb_special_branches(op) ? all * slow : all * slow / SIDE_BY_SIDE));
        w->instructions += all * (1 + slow);
    } else if (v->kind == FB_VALUE_FOLD) {
        fb_op op = nest->graph->nodes[v->node].op;
        w->chain += steps * RESULT;
        w->instructions += all * (op == FB_OP_AMAX || op == FB_OP_AMIN ? EXTREMUM : 1);
    } else if (v->kind == FB_VALUE_REDUCE) {
        fb_op op = nest->graph->nodes[v->node].op;
        w->instructions += all * (op == FB_OP_AMAX || op == FB_OP_AMIN ? EXTREMUM : 1);
    }
}

/* Is a load made once for a group of elements: as a vector, or because it is the same for all of them? */
static bool is_once(const fb_nest *nest, const fb_section *s, const fb_space *x, const fb_value *v, int vector)
{
    if (v->kind != FB_VALUE_LOAD || !x->n) return false;
    fb_ix last = x->var[x->n - 1];
    fb_interleaved by;
    return fb_packs_load(nest, s, v, last, vector) || fb_interleaves_load(nest, s, v, last, vector, &by) ||
           !fb_ix_uses(nest->pool, v->at, last);
}

/* Instructions that make a number of 32 bits of one of 16 from memory: every second one is moved first. */
static double converts(fb_dtype dtype)
{
    return fb_dtype_is_float(dtype) && fb_dtype_size(dtype) == 2 ? 1.5 : 0;
}

/* So many steps along a row, of a group of elements each, which are neighbours along x. `at_once`: they are written out,
 * and the loads of all of them sent for before one is used; `inverts`: what rows are divided by is inverted once. */
static void add_steps(const fb_nest *nest, const fb_section *s, int space, const fb_space *x, int vector,
                      const bool *needed, double steps, bool at_once, bool inverts, work *w)
{
    bool divides = false, groups = false, singles = false;
    for (int i = 0; i < s->n_values; i++)
        divides |= needed[i] && s->values[i].space == space && is_division(nest, &s->values[i]) &&
                   !(inverts && is_of_inverse(nest, s, &s->values[i]));
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (!needed[i] || v->space != space) continue;
        if (inverts && is_of_inverse(nest, s, v)) {
            w->chain += steps * fmax(1, (double)vector / SIDE_BY_SIDE) * QUOTIENT * RESULT;
            w->instructions += steps * vector * QUOTIENT;
            continue;
        }
        bool once = is_once(nest, s, x, v, vector);
        add_value(nest, v, steps, once ? 1 : vector, divides || at_once, w);
        if (v->kind == FB_VALUE_LOAD) w->instructions += steps * vector * converts(v->dtype);
        groups |= once;
        singles |= v->kind == FB_VALUE_LOAD && !once;
    }
    if (at_once)
        w->chain += groups || singles ? WAIT : 0;
    else if (divides)
        w->chain += steps * L2 * ((groups ? 1 : 0) + (singles ? vector : 0));
}

/* The other rows that a team takes beside the first: what they have to themselves. */
static void add_other_rows(const fb_nest *nest, const fb_section *s, const fb_section_schedule *x, const bool *needed,
                           int vector, double points, work *w)
{
    const double steps = ceil(points / x->team), others = x->each - 1;
    bool *own = fb_calloc((size_t)s->n_values + 1, 1);
    for (int i = 0; i < s->n_values; i++)
        own[i] = needed[i] && !(s->values[i].kind == FB_VALUE_LOAD && fb_shared_by_all(nest, s, &s->values[i]));
    add_steps(nest, s, s->passes[0].space, &s->spaces[s->passes[0].space], vector, own, steps * others, false,
              x->inverts, w);
    for (int i = 0; i < s->n_values; i++)
        if (s->values[i].space == FB_NONE) add_value(nest, &s->values[i], others, 1, false, w);
    fb_free(own);
    w->at_once = x->each;
}

/* A thread's windows, written out: each element that they share is loaded once, and all are sent for before one is used. */
static work of_windows(const fb_nest *nest, const fb_section *s, const fb_section_schedule *x)
{
    const double each = x->each, steps = (double)fb_space_points(&s->spaces[s->passes[0].space]) * each;
    const double loads = fb_window_loads(nest, s, x->each), all = fb_window_loads(nest, s, 1) * each;
    work w = {.threads = x->threads, .blocks = (double)x->blocks};
    bool *needed = fb_calloc((size_t)s->n_values + 1, 1);
    fb_section_needed(s, 0, needed);
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        const bool load = v->kind == FB_VALUE_LOAD;
        if (v->space == FB_NONE)
            add_value(nest, v, 1, x->each, false, &w);
        else if (needed[i])
            add_value(nest, v, load ? steps * loads / all : steps, 1, load, &w);
        if (load && needed[i]) w.instructions += steps * loads / all * converts(v->dtype);
    }
    w.chain += WAIT * fmax(loads / BARRIERS / 4, 1);
    fb_free(needed);
    return w;
}

/* Cycles that loads wait whose place was read from memory: one after the other where that place was itself found so. */
static double found_places(const fb_nest *nest, const fb_section *s, int64_t cache_bytes)
{
    double *waited = fb_calloc((size_t)s->n_values + 1, sizeof *waited), longest = 0;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        for (int a = 0; a < v->n_args; a++) waited[i] = fmax(waited[i], waited[v->args[a]]);
        for (int d = 0; v->kind == FB_VALUE_LOAD && d < s->n_data; d++) {
            if (!fb_ix_uses(nest->pool, v->at, s->data[d].var)) continue;
            double wait = fb_node_bytes(nest->graph, v->node) > cache_bytes ? FAR : WAIT;
            waited[i] = fmax(waited[i], waited[s->data[d].value] + wait);
        }
        longest = fmax(longest, waited[i]);
    }
    fb_free(waited);
    return longest;
}

/* A thread's neighbours, of rows that an index names: a few points are on their way together, and their rows once it is known
 * which they are. */
static work of_gathered(const fb_nest *nest, const fb_section *s, const fb_section_schedule *x, int64_t cache_bytes)
{
    const double points = (double)fb_space_points(&s->spaces[s->passes[0].space]);
    const uint32_t last = 1u << (s->rows.n - 1);
    work w = {.threads = x->threads, .blocks = (double)x->blocks};
    bool *needed = fb_calloc((size_t)s->n_values + 1, 1);
    fb_section_needed(s, 0, needed);
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        const bool load = v->kind == FB_VALUE_LOAD, reduce = v->kind == FB_VALUE_REDUCE;
        const bool in_pass = reduce || (needed[i] && v->space != FB_NONE), one = (in_pass && load) || !(v->rows & last);
        if (in_pass || v->space == FB_NONE) add_value(nest, v, in_pass ? points : 1, one ? 1 : x->each, load, &w);
        if (in_pass && load) w.instructions += points * (v->rows & last ? x->each : 1) * converts(v->dtype);
    }
    w.chain += ceil(points / FB_GATHERED_AT_ONCE) * (WAIT + TESTED + found_places(nest, s, cache_bytes));
    fb_free(needed);
    return w;
}

static work of_rows(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s, const fb_section_schedule *x)
{
    if (x->held) s = x->section; /* which says what is kept */
    const bool split = x->deal == FB_DEAL_SPLIT || x->parts > 1;
    double parts = split ? x->scans ? x->parts / 2.0 : x->parts : 1; /* running values are gone along twice */
    work w = {.threads = x->threads, .blocks = (double)x->blocks};
    if (split) w.chain = FB_ROUND_CYCLES; /* adding up parts */
    w.meets = fb_schedule_meets(x, nest->target);
    bool *needed = fb_calloc((size_t)s->n_values + 1, 1);
    for (int i = 0; i < s->n_values; i++)
        if (s->values[i].space == FB_NONE) add_value(nest, &s->values[i], 1, 1, false, &w);
    for (int p = 0; p < s->n_passes; p++) {
        int space = s->passes[p].space, vector = fb_schedule_vector(nest, knobs, s, space);
        fb_section_needed(s, p, needed);
        bool each = x->deal == FB_DEAL_COLUMNS && x->each > 1; /* rows at once */
        double points = (double)fb_space_points(&s->spaces[space]) / (each ? x->each : vector);
        add_steps(nest, s, space, each ? &s->rows : &s->spaces[space], each ? x->each : vector, needed,
                  ceil(points / x->team / parts), x->stepped, x->inverts, &w);
        if (x->scans && x->deal == FB_DEAL_COLUMNS) w.chain += ALONG * ceil(points / x->team / parts / FB_SCAN_EACH);
        if (x->deal == FB_DEAL_ROWS && x->each > 1) add_other_rows(nest, s, x, needed, vector, points, &w);
    }
    fb_free(needed);
    return w;
}

/* Does a pass find it where an earlier one, or what was loaded ahead of all, has left it? */
static bool is_held(const fb_section_schedule *x, fb_val v, int pass)
{
    const fb_value *value = &x->section->values[v];
    const bool ever = x->cut ? x->cut->slot[v] != FB_NONE : x->band ? x->band->held[v] : value->kept;
    return ever && (value->kind == FB_VALUE_LOAD || value->kept_pass < pass);
}

/* A block's sums of a pass: from lane to lane, by way of shared memory, and back. */
static double exchanged(const fb_section_schedule *x)
{
    enum { ALWAYS = 20, LANES = 32, STEP = 2, LEFT = 3 };
    if (!x->band) return ALWAYS + STEP * EXCHANGES;
    return ALWAYS + x->each * (STEP * log2((double)LANES / x->band->beside) + LEFT);
}

/* A long row's part, or a band of columns, in steps that nothing waits for: loads come from shared memory or registers, a
 * group at a time, and what a row is divided by is made once. */
static work of_held(const fb_nest *nest, const fb_knobs *knobs, const fb_section_schedule *x)
{
    const fb_section *s = x->section;
    work w = {.threads = x->threads, .blocks = (double)x->blocks, .meets = true};
    bool *needed = fb_calloc((size_t)s->n_values + 1, 1);
    const bool in_registers = x->fetched || (x->band && x->band->steps), rows = x->fetched;
    const double vector = x->cut ? x->cut->vector : rows ? fb_schedule_vector(nest, knobs, s, 0) : x->each;
    const double groups = x->cut ? (double)x->cut->each / x->threads
                          : rows ? (double)fb_space_points(&s->spaces[0]) / vector / x->team
                                 : (double)x->band->points / x->team;
    for (int p = 0; p < s->n_passes; p++) {
        fb_section_needed(s, p, needed);
        for (int i = 0; i < s->n_values; i++) {
            const fb_value *v = &s->values[i];
            if (!needed[i] || v->space == FB_NONE) continue;
            if (is_held(x, i, p))
                w.instructions += groups * (in_registers ? 0 : LOAD);
            else if (x->inverts && is_of_inverse(nest, s, v))
                w.instructions += groups * vector * QUOTIENT;
            else
                add_value(nest, v, groups, v->kind == FB_VALUE_LOAD ? 1 : (int)vector, true, &w);
            const bool again = in_registers && p > 0 && is_held(x, i, p); /* converted already */
            if (!x->cut && v->kind == FB_VALUE_LOAD && !again) w.instructions += groups * vector * converts(v->dtype);
        }
        w.instructions += in_registers ? 0 : groups * (x->cut ? LOAD : BAND_STEP); /* the step itself */
        for (int i = 0; i < s->n_values; i++)
            if (s->values[i].kind == FB_VALUE_REDUCE && s->values[i].depth == s->passes[p].depth + 1)
                w.instructions += groups * vector * (1 + (nest->graph->nodes[s->values[i].node].op == FB_OP_AMAX)) +
                                  (x->cut ? 0 : exchanged(x));
    }
    if (!x->cut) w.instructions += groups * LOAD; /* ahead of all */
    fb_free(needed);
    return w;
}

/* Registers of a thread: values of one element that are live at once, in the order in which they are computed. 0: so few
 * that all warps have room. */
static double registers_of(const fb_nest *nest, const fb_section *s, int vector)
{
    const int full = REGISTERS / (SCHEDULERS * WARPS * nest->target->warp);
    int *last = fb_calloc((size_t)s->n_values + 1, sizeof *last),
        *ends = fb_calloc((size_t)s->n_values + 1, sizeof *ends);
    for (int i = 0; i < s->n_values; i++) {
        last[i] = FB_NONE;
        for (int a = 0; a < s->values[i].n_args; a++) last[s->values[i].args[a]] = i;
    }
    for (int r = 0; r < s->n_roots; r++) last[s->roots[r].value] = s->n_values;
    int live = 0, most = 0;
    for (int i = 0; i < s->n_values; i++) {
        bool held = last[i] != FB_NONE && s->values[i].kind != FB_VALUE_CONST;
        live += held;
        most = live > most ? live : most;
        if (held) ends[last[i]]++;
        live -= ends[i];
    }
    fb_free(ends);
    fb_free(last);
    double registers = fmin((double)most * vector + OTHERS, MOST);
    return registers > 3 * full ? registers : 0;
}

/* All loads of an element are sent for before any is used: that wait is part of what the bytes take. Those whose place
 * was read from memory come after it. */
static work of_elements(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s, const fb_section_schedule *x,
                        int64_t cache_bytes)
{
    int vector = fb_schedule_vector(nest, knobs, s, FB_NONE);
    work w = {.threads = x->threads, .blocks = (double)x->blocks, .registers = registers_of(nest, s, vector)};
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        int each = is_once(nest, s, &s->rows, v, vector) ? 1 : vector;
        add_value(nest, v, 1, each, true, &w);
        if (v->kind != FB_VALUE_LOAD) continue;
        w.chain += (each - 1) * LOAD; /* what is no vector is sent for one by one */
        if (v->when != FB_NONE) w.chain += TESTED;
    }
    w.chain += found_places(nest, s, cache_bytes);
    w.instructions *= x->each; /* all lines' or groups' loads are sent for before one is used */
    return w;
}

/* A block looks at the index in chunks, for which its threads wait and meet; then come the points whose row is one of
 * its own, one after the other. Rows are taken to be as likely as each other. */
static work of_scatter(const fb_nest *nest, const fb_section *s, const fb_section_schedule *x)
{
    double points = s->n_spaces ? (double)fb_space_points(&s->spaces[0]) : 1, threads = x->threads;
    double size = (double)fb_space_points(&s->rows);
    double rows = (double)nest->graph->nodes[s->roots[0].node].shape.dim[0];
    double chunks = ceil(points / (threads * x->each));
    double words = points / nest->target->warp, own = fmin(1, (threads / size + 1) / fmax(rows, 1)) * points;
    work w = {.threads = threads, .blocks = (double)x->blocks, .meets = true};
    w.chain = chunks * (WAIT + 2 * FB_ROUND_CYCLES) + words * WORD + own * fb_section_loads(s) * WAIT;
    w.instructions = points / threads * (LOAD + NOTED) + words * WORD_INSTRUCTIONS + own * LOAD * fb_section_loads(s);
    return w;
}

/* Cycles of a block until its points' rows are summed, of which so many are named by it; read off clocks in the kernel (an
 * H200: 16,384 points of 64 into 4,096 rows, 100,000 of 64 found by an index into 10,000, 50,000 of one into 5,000, 500,000
 * and 2,000,000 of 16 into 100,000 and 300,000). What no cache holds comes at a third of a copy's speed, row by row. */
static double summing(const fb_nest *nest, const fb_section *s, const fb_section_schedule *x, const fb_added *a,
                      double own, double rows, int64_t cache_bytes)
{
    enum {
        BEGIN = 1000, /* which rows there are, and what is left at the end */
        STEP = 300,   /* points that are added up, beside what is waited for */
        NEAR = 8,     /* bytes a cycle, of a block of two on a multiprocessor: from the cache … */
        ALONE = 3,    /* … and from memory, of rows shorter … */
        LINE = 128,   /* … than this */
    };
    const double each = own / fmax(rows, 1), ahead = x->each > 4 ? 2 : 4;
    const int64_t groups = fb_ceil_div(a->width, x->each);
    const double lanes = fb_power_of_two(groups, nest->target->warp), turns = ceil((double)groups / lanes);
    const double split = fmin(fb_power_of_two((int64_t)ceil(each / ahead), 32), nest->target->warp / lanes);
    const double rounds = ceil(rows * lanes * split / x->threads), steps = ceil(each / (ahead * split));
    const double loads = fb_section_loads(s);
    double bytes = 0, rate = NEAR, shared = nest->units / fmax((double)x->blocks, 1);
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (v->kind != FB_VALUE_LOAD || v->space == FB_NONE) continue;
        const double of_row = (double)(a->width * fb_dtype_size(v->dtype));
        if (fb_node_bytes(nest->graph, v->node) > cache_bytes / 2) rate = of_row < LINE ? ALONE : 2 * ALONE;
        if (v->rows & 1u << (s->rows.n - 1)) bytes += own * of_row;
    }
    return BEGIN + fmax(rounds * steps * turns * (2 * loads * WAIT + STEP), bytes / (rate * fmax(2 * shared, 1)));
}

/* A block looks at the index, or at its part of it and then, when all have met, at ranges one after the other, sorts what
 * is its own, and sums it row by row. Rows that nobody names are stored side by side. */
static work of_sorted(const fb_nest *nest, const fb_section *s, const fb_section_schedule *x, const fb_added *a,
                      int64_t cache_bytes)
{
    enum {
        AT_ONCE = 8, /* points that a thread waits for together */
        LOOKED = 22, /* instructions of one */
        FEW = 128,   /* points that are compared each with each … */
        COMPARED = 2600,
        SORTED = 3000, /* … and cycles to sort more, whose number … */
        /* … counts so: */
        EACH = 4,
        LAID_OUT = 3000, /* a block's part, … */
        MET = 3600,      /* … until all have met, … */
        FOUND = 3800,    /* … and until a range's points are there */
        REST = 800,
        SUMMED = 20,
    };
    const double clusters = x->ranges ? (double)x->ranges : (double)x->blocks / s->members;
    const double ranges = ceil(clusters * s->members / (double)x->blocks), warps = x->threads / nest->target->warp;
    const double own = (double)a->points / clusters, named = fb_added_rows(a) / clusters;
    const double each = ceil((double)a->points / (x->ranges ? x->parts : 1) / x->threads);
    const double stored = a->spares ? 0 : ceil((double)a->rows / clusters * (double)a->width / x->each / x->threads);
    const double sort = own <= FEW ? COMPARED : SORTED + EACH * own;
    work w = {.threads = x->threads, .blocks = (double)x->blocks, .registers = SORTING, .meets = true};
    w.chain = ceil(each / AT_ONCE) * WAIT + each * LOOKED * warps / SCHEDULERS;
    w.chain += ranges * (sort + summing(nest, s, x, a, own, named, cache_bytes) + REST + stored * SUMMED);
    /* words of many ranges that are written here and there: 2 µs of 1,894 points, 40 of 7,575 */
    const double part = (double)a->points / fmax(x->parts, 1);
    if (x->ranges) w.chain += LAID_OUT + part * (EACH + part / 1000) + MET + ranges * FOUND;
    w.instructions = each * LOOKED + ranges * (own / x->threads * SUMMED * (double)a->width / x->each + stored * LOAD);
    return w;
}

/* Points are waited for a few at a time and sent on; all meet; rows are gone through once. The cache adds so many sectors a
 * cycle, and one after the other where they are of one line (an H200: 500,000 and 2,000,000 points of 16 floats into 100,000
 * and 300,000 rows, 100,000 and 1,000,000 of one float into 1,000 and 256, 16,384 of 64 into one row). */
static work of_atomics(const fb_nest *nest, const fb_section *s, const fb_section_schedule *x, const fb_added *a)
{
    enum {
        POINT = 24, /* instructions of one: where it is, its loads, and its addition */
        NEAR = 30,  /* … in shared memory, of each neighbour */
        ROW = 20,
        MET = 3600, /* cycles until all have met */
        SECTOR = 32,
        SECTORS = 90, /* a cycle beside what memory takes, of floats; of 8 bytes half as many */
        LINE = 128,
        BESIDE = 2000, /* bytes a cycle of sums beside the result, written and read */
    };
    static const double alone = 3.7, vector = 1; /* cycles of an addition to a line that others add to */
    const double groups = (double)fb_ceil_div(a->width, x->each), step = (double)x->parts * x->threads;
    const double each = ceil((double)a->points * groups / step), rows = ceil((double)a->rows * groups / step);
    const double ahead = x->each > 4 ? 2 : 4, loads = fb_section_loads(s) + 1;
    const fb_id sum = a->sum == FB_NONE ? s->roots[0].node : s->values[a->sum].node;
    const bool wide = fb_dtype_size(nest->graph->nodes[sum].dtype) > 4;
    const double of_row = (double)a->width * (wide ? 8 : 4), lines = fmax((double)a->rows * of_row / LINE, 1);
    const double added = x->near ? (double)x->parts * (double)a->rows : (double)a->points;
    const double sectors = s->members * added * ceil(of_row / SECTOR) * (wide ? 2 : 1);
    const double waits = added * groups / lines * (x->each > 1 && !wide ? vector : alone);
    work w = {.threads = x->threads, .blocks = (double)x->blocks, .registers = SORTING, .meets = true};
    w.instructions = each * (POINT + LOAD * loads * x->each + (x->near ? NEAR * x->each : 0)) + rows * ROW;
    const double beside = x->in_place ? 0 : 2 * s->members * (double)a->rows * groups * x->each * (wide ? 8 : 4);
    w.chain = ceil(each / ahead) * 2 * WAIT + rows * (x->in_place ? SHARED : WAIT / ahead);
    w.chain = fmax(w.chain, fmax(sectors / SECTORS, waits)) + beside / BESIDE + MET * (x->clears ? 2 : 1);
    return w;
}

/* Keys of a row in the registers of its team: exchanged within a thread, between lanes, and between warps by way of shared
 * memory. */
static work of_ranked_rows(const fb_section_schedule *x)
{
    enum {
        EXCHANGED = 9, /* instructions of a key's step, … */
        STEP = 40,     /* … and the cycles that it is waited for */
        FOUND = 8,     /* of a warp's least, one of five times */
    };
    const double each = x->each, bits = log2((double)x->rows_a_block);
    const double steps = bits * (bits + 1) / 2, far = fmax(bits - log2(32 * each), 0), across = far * (far + 1) / 2;
    work w = {.threads = x->threads, .blocks = (double)x->blocks, .registers = SORTING, .meets = true, .whole = true};
    w.chain = 2 * WAIT + steps * STEP + across * 2 * (FB_ROUND_CYCLES + SHARED);
    w.instructions = steps * each * EXCHANGED + across * each * 2 * LOAD + each * 4 * LOAD;
    if (!x->first_places) return w;
    w.chain = 2 * WAIT + (double)x->first_places * (each * RESULT + EXCHANGES * 2 * EXCHANGE);
    w.instructions = (double)x->first_places * (each * 4 + EXCHANGES * FOUND) + each * 4 * LOAD;
    return w;
}

/* A block sorts its own, then looks at each of the row: a few at a time are on their way, and each is found by halves.
 * Where these are many, lanes ask for words of the same bank. (An H200: all places of 100,000 took 170 µs, the first 50 of
 * 128,256 52, the first 40 of 8 rows of 32,000 32.) */
static work of_ranked(const fb_nest *nest, const fb_section *s, const fb_section_schedule *x)
{
    enum {
        AT_ONCE = 4,
        STEP = 60,     /* cycles of one of the sort's steps, with its barrier … */
        MOVED = 4,     /* … or as many keys a cycle */
        COMPARED = 12, /* instructions of it */
        HALVED = 8,
        FEW = 64,     /* that lanes can be told apart in without waiting for each other … */
        CROWDED = 75, /* … and with it */
        BYTES = 4,
        BYTE = 800,
        FEW_SORTED = 2600,
        MET = 3600,
    };
    const double own = (double)x->rows_a_block, each = own / x->threads, bits = log2(own);
    const double steps = bits * (bits + 1) / 2, n = (double)s->rows.extent[s->rows.n - 1];
    const double looked = x->first_places ? (double)x->parts * (double)x->first_places : n;
    const double found = ceil(looked / x->threads);
    const double halves = log2(fmin(fmax((double)fb_schedule_places(nest, s, x->ranked), 2), own));
    const double search = halves * HALVED + fmax(halves - log2(FEW), 0) * (CROWDED - HALVED);
    work w = {.threads = x->threads, .blocks = (double)x->blocks, .registers = SORTING, .meets = true, .whole = true};
    w.chain = 2 * WAIT + steps * fmax(STEP, own / MOVED) + 5 * FB_ROUND_CYCLES +
              ceil(found / AT_ONCE) * (WAIT + halves * SHARED);
    w.instructions = steps * COMPARED * fmax(each / 2, 1) + found * (2 * LOAD + search) + 2 * each * LOAD;
    if (!x->first_places) return w;
    /* the first of a block's own are found byte by byte, and a few sorted; the row's blocks meet */
    w.chain = 2 * WAIT + BYTES * BYTE + FEW_SORTED + MET + ceil(found / AT_ONCE) * (WAIT + halves * SHARED);
    w.instructions = BYTES * each * COMPARED + found * (2 * LOAD + search) + 2 * each * LOAD;
    return w;
}

/* Bytes of the widest element that a section reads along its rows. */
static double size_of_loads(const fb_nest *nest, const fb_section *s)
{
    int size = 0;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        int own = fb_dtype_size(nest->graph->nodes[v->node].dtype);
        if (v->kind == FB_VALUE_LOAD && v->space != FB_NONE && own > size) size = own;
    }
    return size ? size : 4;
}

/* Threads that rows are spread over, as the time of a wave was measured with: one for each 4 elements of a row up to a
 * warp, for each 8 of longer ones. */
static double spread_of(const fb_nest *nest, const fb_section *s, const work *w)
{
    enum { EACH = 4, EACH_OF_LONG = 8 };
    double inner = (double)fb_section_longest(s) * size_of_loads(nest, s) / 4;
    if (!s->n_passes || w->whole || fb_section_lies_across(nest->pool, s)) return w->blocks * w->threads;
    return fmax(fmin(fmax(inner / EACH, 1), nest->target->warp), inner / EACH_OF_LONG) *
           (double)fb_space_points(&s->rows);
}

/* Fewer blocks than there is work for do so many blocks' work each. */
static void share_blocks(const fb_section_schedule *x, work *w)
{
    if (x->launched <= 0 || (double)x->launched >= w->blocks) return;
    double each = ceil(w->blocks / (double)x->launched);
    w->blocks = (double)x->launched;
    w->chain *= each;
    w->instructions *= each;
}

static work work_of(const fb_nest *nest, const fb_knobs *knobs, const fb_section *s, int64_t cache_bytes)
{
    fb_arena *arena = fb_arena_new();
    fb_section_schedule x = fb_schedule_section(nest, knobs, s, arena);
    fb_added added;
    bool adds = fb_section_adds(nest, s, &added), sorted = adds && x.deal == FB_DEAL_SORTED;
    bool atomics = adds && x.deal == FB_DEAL_ADDED;
    work w = sorted                         ? of_sorted(nest, s, &x, &added, cache_bytes)
             : atomics                      ? of_atomics(nest, s, &x, &added)
             : s->scatter                   ? of_scatter(nest, s, &x)
             : x.cut || x.band || x.fetched ? of_held(nest, knobs, &x)
             : x.deal == FB_DEAL_RANKED     ? x.parts > 1 ? of_ranked(nest, s, &x) : of_ranked_rows(&x)
                 : x.gathers ? of_gathered(nest, s, &x, cache_bytes)
             : x.deal == FB_DEAL_COLUMNS && x.team == 1 && x.each > 1 ? of_windows(nest, s, &x)
             : s->n_passes                                            ? of_rows(nest, knobs, s, &x)
                                                                      : of_elements(nest, knobs, s, &x, cache_bytes);
    if (!s->scatter && !sorted && !atomics) share_blocks(&x, &w);
    fb_arena_free(arena);
    return w;
}

/* Sections that a block looks at until it has its own. */
static double asked_for(const fb_nest *nest)
{
    if (nest->n_sections == 1) return 0;
    return fb_schedule_halves(nest) ? ceil(log2(nest->n_sections)) + 1 : nest->n_sections;
}

fb_thread_times fb_thread_times_of(const fb_nest *nest, const fb_knobs *knobs, const fb_machine *m)
{
    double clock = fb_cycles_a_us(m), units = fmax(m->units, 1), threads = 0;
    double alone = 0, turns = 0, busiest = 0, issued = 0, spread = 0, registers = 0;
    const int warp = nest->target->warp;
    double sections = asked_for(nest), found = sections * SECTION;
    double fetched = sections * FETCHED;
    fb_thread_times out = {0};
    if (clock <= 0) return out;
    work *all = fb_calloc((size_t)nest->n_sections + 1, sizeof *all);
    for (int i = 0; i < nest->n_sections; i++) {
        all[i] = work_of(nest, knobs, &nest->sections[i], m->cache_bytes);
        threads = fmax(threads, all[i].threads);
        registers = fmax(registers, all[i].registers);
    }
    double most = fmin(fmin(SCHEDULERS * WARPS / ceil(threads / warp), BLOCKS), REGISTERS / (threads * registers));
    double warps_of_block = ceil(threads / warp);
    double room = units * fmax(floor(most), 1) * warps_of_block;
    double full = units * fmax(floor(fmin(SCHEDULERS * WARPS / warps_of_block, BLOCKS)), 1) * warps_of_block;
    for (int i = 0; i < nest->n_sections; i++) {
        const work *w = &all[i];
        double warps = w->threads / warp / SCHEDULERS; /* of a block, for each scheduler */
        alone = fmax(alone, fetched + found + w->chain);
        /* blocks are as large as the largest of any section */
        turns += (FB_ROUND_CYCLES + found + w->chain) * w->blocks * threads / warp / room;
        busiest = fmax(busiest, w->instructions * ceil(w->blocks / units) * warps);
        issued += w->instructions * w->blocks / units * warps;
        spread += spread_of(nest, &nest->sections[i], w) / fmax(w->at_once, 1);
        out.meets |= w->meets;
    }
    fb_free(all);
    out.wait_us = WAIT / clock;
    out.alone_us = alone / clock;
    out.turns_us = turns / clock;
    out.turns_if_full_us = turns / clock * room / full;
    out.issued_us = fmax(busiest, issued) / clock;
    out.waves = spread / (room * warp);
    return out;
}

/* ---- all steps of a loop ---- */

/* Of one value at one step; of items a thread has only what it takes to ask for them. */
static work step_value(const fb_nest *nest, const fb_section_schedule *x, const fb_value *v)
{
    const int each = fb_through_varies(x->section, v) ? x->each : 1;
    work w = {0};
    if (v->kind == FB_VALUE_LOAD) {
        if (fb_nest_moved(nest->through, v->node)) w.instructions = LOAD + each;
    } else if (v->kind == FB_VALUE_REDUCE) {
        const double lanes = log2(x->team);
        w.chain = lanes * EXCHANGE + x->each * RESULT;
        w.instructions = 2 * lanes + x->each;
    } else {
        add_value(nest, v, 1, each, true, &w);
    }
    return w;
}

/* Of one thread at one step. Its chain is what leads from the states to the next ones: all else can be done ahead. */
static work step_of(const fb_nest *nest, const fb_section_schedule *x)
{
    enum { STEP = 8, STORED = 4, NARROWED = 30 }; /* NARROWED: to 16 bits and back, cycles */
    const fb_section *s = x->section;
    work w = {.instructions = STEP + STORED * s->n_roots};
    double *path = fb_calloc((size_t)s->n_values + 1, sizeof *path); /* cycles since the states; 0: none is in it */
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        const work own = step_value(nest, x, v);
        w.instructions += own.instructions;
        for (int k = 0; k < v->n_args; k++) path[i] = fmax(path[i], path[v->args[k]]);
        if (path[i] > 0) path[i] += own.chain;
        if (v->kind == FB_VALUE_LOAD && nest->graph->nodes[v->node].op == FB_OP_CARRIED) path[i] = RESULT;
    }
    for (int i = 0; i < s->n_roots; i++) {
        const fb_root *r = &s->roots[i];
        const fb_node *to = &nest->graph->nodes[r->storage];
        if (fb_nest_moved(nest->through, r->storage)) continue; /* it is stacked and no state */
        w.chain = fmax(w.chain, path[r->value] + (fb_dtype_is_half(to->dtype) ? NARROWED : 0));
    }
    fb_free(path);
    return w;
}

/* Bytes that come and go with the steps. */
static double moved_bytes(const fb_nest *nest)
{
    double bytes = 0;
    for (int i = 0; i < nest->through->n_moved; i++) {
        const fb_moved *m = &nest->through->moved[i];
        const double size = fb_dtype_size(nest->graph->nodes[m->storage].dtype);
        const double entry = fmin((double)fb_node_bytes(nest->graph, m->storage), (double)llabs(m->stride) * size);
        bytes += entry * (double)(nest->through->trips / m->every);
    }
    return bytes;
}

/* A group of steps takes what its work does, or until the next group's items are there: all threads ask for these at about
 * the same time, so that they wait for memory, and then for as many bytes. Where there are more warps than find room the
 * others follow. Few warps issue less than one instruction a cycle. (An H200, µs: 256 steps of h · a + b over 8 × 1024 in f32
 * 6.4, in bf16 8.6; 512 of 16 × 512 24; an elementwise LSTM of 8 × 1024 43; a selective state space of 8 × 1024 × 16 45.) */
double fb_through_us(const fb_nest *nest, const fb_knobs *knobs, const fb_machine *m)
{
    enum { BEGIN = 2000, NEAR = 350, ROOM = 20 }; /* cycles before the first step; until L2 answers; warps */
    static const double stalls = 1.3;
    const double clock = fb_cycles_a_us(m), units = fmax(m->units, 1), trips = (double)nest->through->trips;
    const double bytes = moved_bytes(nest), memory_us = fb_memory_filled_us(m, bytes);
    const double wait = bytes <= (double)m->cache_bytes * 0.75 ? NEAR : FAR; /* it holds other things too */
    double alone = 0, issued = 0, warps = 0;
    if (clock <= 0) return 0;
    fb_arena *arena = fb_arena_new();
    for (int i = 0; i < nest->n_sections; i++) {
        const fb_section_schedule x = fb_schedule_section(nest, knobs, &nest->sections[i], arena);
        const work w = step_of(nest, &x);
        const double own = (double)x.blocks * x.threads / nest->target->warp, groups = ceil(trips / x.steps_ahead);
        const double each = fmax(w.chain, w.instructions) * stalls * x.steps_ahead;
        alone = fmax(alone, groups * fmax(each, wait + memory_us / groups * clock));
        issued += w.instructions * stalls * trips * own / (units * SCHEDULERS);
        warps += own;
    }
    fb_arena_free(arena);
    return (BEGIN + fmax(alone * fmax(warps / (units * ROOM), 1), issued)) / clock;
}

/* ---- rows of a product ---- */

/* A thread waits for memory once in each loop that uses anything loaded. */
static void add_wait(double loads, double steps, work *w)
{
    if (loads > 0) w->chain += steps * fmax(loads / BARRIERS, 1) * L2;
}

static bool reduces(const fb_section *s, int pass)
{
    for (int i = 0; i < s->n_values; i++)
        if (fb_value_reduces(&s->values[i], s->passes[pass])) return true;
    return false;
}

/* Loads from memory among these values; what is on chip, and what registers hold since an earlier pass, is none. */
static double loads_among(const fb_nest *nest, const fb_section *s, int space, const bool *needed, bool *seen)
{
    double loads = 0;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (v->kind != FB_VALUE_LOAD || v->space != space || (needed && !needed[i]) || seen[i]) continue;
        loads += !fb_nest_is_product(nest, v->node);
        seen[i] = true;
    }
    return loads;
}

double fb_warp_row_cycles(const fb_nest *nest, const fb_section *s, double warps)
{
    work w = {0};
    bool *needed = fb_calloc((size_t)s->n_values + 1, 1), *seen = fb_calloc((size_t)s->n_values + 1, 1);
    double loads = loads_among(nest, s, FB_NONE, NULL, seen); /* waited for where they are used */
    for (int i = 0; i < s->n_values; i++)
        if (s->values[i].space == FB_NONE) add_value(nest, &s->values[i], 1, 1, true, &w);
    for (int p = 0; p < s->n_passes; p++) {
        int space = s->passes[p].space, vector = fb_schedule_vector(nest, NULL, s, space);
        double steps = ceil((double)fb_space_points(&s->spaces[space]) / vector / nest->target->warp);
        fb_section_needed(s, p, needed);
        add_wait(loads + loads_among(nest, s, space, needed, seen), steps, &w);
        loads = 0;
        for (int i = 0; i < s->n_values; i++) {
            const fb_value *v = &s->values[i];
            if (!needed[i] || v->space != space || (v->kept && seen[i])) continue;
            add_value(nest, v, steps, vector, true, &w);
            seen[i] = true;
        }
        w.chain += steps * SHARED + (reduces(s, p) ? EXCHANGES * EXCHANGE : 0);
    }
    fb_free(needed);
    fb_free(seen);
    return fmax(w.chain, warps / SCHEDULERS * w.instructions);
}
