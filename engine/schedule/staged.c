/* Windows of neighbouring rows lie over each other: a convolution of three by three reads, pads and computes each element
 * nine times. What they have in common is made once, ahead of the loops of rows, and read from the nearest cache. So is
 * what each row of an outer loop goes over again, turned (at the end of this file).
 *
 * requires  a section whose rows are done side by side
 * provides  the operand, the places that it is made at, and the loop that it is made ahead of
 *
 * Not a line at a time: a processor that reads what it has just written, but not as it has written it, waits for it to
 * arrive (a depthwise convolution of 144 x 56 x 50, two cores: 1,230 us as it was, 630 by lines, 300 by planes). */
#include "base/integer.h"
#include "base/mem.h"
#include "schedule/schedule.h"

#include <string.h>

typedef struct {
    const fb_nest *nest;
    const fb_section *s;
    int space;
    bool *inside; /* a value: the operand is made of it */
    bool fine, tests, computes;
    uint32_t rows; /* that values of rows alone vary with */
} operand;

/* All that value v is made of. */
static void collect(operand *o, fb_val v)
{
    const fb_value *x = &o->s->values[v];
    if (o->inside[v]) return;
    o->inside[v] = true;
    bool row = x->space == FB_NONE && !fb_value_is_leaf(x), known = x->kind == FB_VALUE_LOAD ||
                                                                    x->kind == FB_VALUE_OP ||
                                                                    x->kind == FB_VALUE_SELECT || fb_value_is_leaf(x);
    o->fine &= known && x->depth == 0 && x->table == FB_NONE && (x->space == FB_NONE || x->space == o->space);
    o->tests |= x->when != FB_NONE;
    o->computes |= x->kind == FB_VALUE_OP;
    if (row) o->rows |= x->rows;
    for (int a = 0; a < x->n_args; a++) collect(o, x->args[a]);
}

/* The caller frees `inside`. */
static operand operand_of(const fb_nest *nest, const fb_section *s, int pass, fb_val v)
{
    operand o = {.nest = nest,
                 .s = s,
                 .space = s->passes[pass].space,
                 .inside = fb_calloc((size_t)s->n_values + 1, 1),
                 .fine = true};
    collect(&o, v);
    return o;
}

/* ---- places ---- */

typedef bool visit(void *ctx, fb_ix at);

/* All indices and tests of the operand's elements, until one says no. */
static bool each_index(const operand *o, visit *f, void *ctx)
{
    for (int i = 0; i < o->s->n_values; i++) {
        const fb_value *x = &o->s->values[i];
        if (!o->inside[i]) continue;
        if (fb_value_is_indexed(x) && !f(ctx, x->at)) return false;
        for (int c = x->when; c != FB_NONE; c = o->nest->whens[c].outer)
            if (!f(ctx, o->nest->whens[c].at)) return false;
    }
    return true;
}

typedef struct {
    fb_index_pool *pool;
    fb_ix row, point;
    int64_t step, apart; /* 0: not known yet */
} pair;

static bool uses_not(void *ctx, fb_ix at)
{
    const pair *p = ctx;
    return !fb_ix_uses(p->pool, at, p->row);
}

static bool uses(const operand *o, fb_ix var)
{
    pair p = {.pool = o->nest->pool, .row = var};
    return !each_index(o, uses_not, &p);
}

/* Do row and point occur as multiples of one and the same step · row + apart · point? */
static bool goes_with(void *ctx, fb_ix at)
{
    pair *p = ctx;
    int64_t row, point;
    fb_ix rest;
    if (!fb_ix_uses(p->pool, at, p->row) && !fb_ix_uses(p->pool, at, p->point)) return true;
    if (!fb_ix_stride(p->pool, at, p->row, &row, &rest) || !fb_ix_stride(p->pool, rest, p->point, &point, &rest))
        return false;
    if (row < 1 || point < 1) return false;
    int64_t common = fb_gcd(row, point);
    if (!p->step) p->step = row / common, p->apart = point / common;
    return p->step == row / common && p->apart == point / common;
}

/* The row of whose windows that is a point: they lie over each other. */
static bool find_row(const operand *o, fb_ix point, int64_t points, uint32_t taken, int *row, fb_staged_dim *dim)
{
    const fb_space *rows = &o->s->rows;
    for (int d = rows->n - 1; d >= 0; d--) {
        pair p = {.pool = o->nest->pool, .row = rows->var[d], .point = point};
        if (taken >> d & 1 || o->rows >> d & 1 || !uses(o, p.row) || !each_index(o, goes_with, &p)) continue;
        if ((p.step != 1 && p.apart != 1) || p.step > p.apart * (points - 1)) continue;
        *row = d;
        *dim = (fb_staged_dim){.row = p.row, .point = point, .step = p.step, .apart = p.apart};
        return true;
    }
    return false;
}

/* ---- one operand ---- */

static int place_of(const fb_loops_schedule *x, int row)
{
    return row < x->outside ? row : row + 1;
}

/* Dims in the order of the pass's points, that along the lanes last. `all`: of windows along all rows, not along the lanes
 * alone. False: no window goes along the lanes. */
static bool find_dims(const operand *o, bool all, fb_loops_staged *g, uint32_t *paired)
{
    const fb_space *space = &o->s->spaces[o->space];
    int last = o->s->rows.n - 1;
    fb_staged_dim along = {.row = FB_NONE};
    for (int q = 0; q < space->n; q++) {
        fb_staged_dim dim = {.row = FB_NONE, .point = space->var[q], .extent = space->extent[q]};
        int row = FB_NONE;
        if (!uses(o, dim.point)) continue;
        uint32_t taken = all ? *paired : ~(1u << last);
        if (find_row(o, dim.point, dim.extent, *paired | taken, &row, &dim)) {
            *paired |= 1u << row;
            dim.extent = dim.step * (o->s->rows.extent[row] - 1) + dim.apart * (space->extent[q] - 1) + 1;
        }
        if (row == last)
            along = dim;
        else
            g->dim[g->n++] = dim;
    }
    if (along.row == FB_NONE) return false;
    g->dim[g->n++] = along;
    g->places = along.extent;
    return true;
}

/* Loops that threads share. */
static int shared_of(const fb_loops_schedule *x)
{
    return x->threads == 1 || x->inside ? 0 : x->together;
}

/* Ahead of which loop: within all whose rows it varies with by themselves, and within those that threads share. These
 * are fewer where they do with that. */
static bool find_loop(const operand *o, const fb_loops_schedule *x, uint32_t paired, fb_loops_staged *g)
{
    int last = o->s->rows.n - 1, shared = shared_of(x);
    int64_t iterations = 1, rows = o->s->rows.extent[last];
    for (int d = 0; d < last; d++) {
        bool varies = o->rows >> d & 1 || uses(o, o->s->rows.var[d]);
        if (varies && !(paired >> d & 1)) g->before = place_of(x, d) + 1;
    }
    for (int d = 0; d < last; d++)
        if (place_of(x, d) < g->before) iterations *= o->s->rows.extent[d];
    if (x->outside < g->before) iterations *= fb_ceil_div(rows, x->lanes);
    if (iterations < FB_LOOPS_FEW && g->before < shared) g->before = shared;
    for (int d = 0; d < last; d++)
        if (paired >> d & 1 && place_of(x, d) < g->before) return false;
    g->chunk = x->outside < g->before;
    return true;
}

static void set_index(const operand *o, const fb_loops_schedule *x, fb_loops_staged *g)
{
    fb_index_pool *pool = o->nest->pool;
    fb_staged_dim *along = &g->dim[g->n - 1];
    int64_t rows = o->s->rows.extent[o->s->rows.n - 1];
    if (g->chunk) along->extent -= along->step * (rows - (x->lanes < rows ? x->lanes : rows));
    g->at = fb_ix_const(pool, 0);
    g->elements = 1;
    for (int d = 0; d < g->n; d++) {
        const fb_staged_dim *dim = &g->dim[d];
        fb_ix at = dim->point == FB_NONE ? fb_ix_const(pool, 0)
                                         : fb_ix_scale(pool, dim->point, dim->row == FB_NONE ? 1 : dim->apart);
        if (dim->row != FB_NONE) at = fb_ix_add(pool, at, fb_ix_scale(pool, dim->row, dim->step));
        g->at = fb_ix_add(pool, fb_ix_scale(pool, g->at, dim->extent), at);
        g->elements *= dim->extent;
    }
}

/* Is it read often enough, and does it stay near? */
static bool pays(const operand *o, const fb_loops_schedule *x, const fb_loops_staged *g, double least, int64_t few)
{
    enum { MOST_BYTES = 256 << 10 };
    const fb_space *rows = &o->s->rows;
    int last = rows->n - 1;
    double reads = (double)fb_space_points(&o->s->spaces[o->space]) *
                   (double)(g->chunk && x->lanes < rows->extent[last] ? x->lanes : rows->extent[last]);
    for (int d = 0; d < last; d++)
        if (place_of(x, d) >= g->before) reads *= (double)rows->extent[d];
    return rows->extent[last] >= few && g->elements * (int64_t)sizeof(double) <= MOST_BYTES &&
           reads >= least * (double)g->elements;
}

/* No other value of the pass is tested: else the lanes would be cut into edges and an interior all the same. */
static bool has_all_tests(const operand *o, int pass)
{
    bool *needed = fb_calloc((size_t)o->s->n_values + 1, 1), all = true;
    fb_section_needed(o->s, pass, needed);
    for (int i = 0; i < o->s->n_values; i++) all &= !needed[i] || o->s->values[i].when == FB_NONE || o->inside[i];
    fb_free(needed);
    return all;
}

/* Windows along all rows, or where these are too much to stay near, along the lanes alone: some lines at a time. */
static bool stage(operand *o, const fb_loops_schedule *x, int pass, fb_val v, fb_loops_staged *g)
{
    enum { LEAST = 2, FEW = 8 };
    if (!o->fine || !(o->tests || o->computes) || o->s->values[v].space != o->space || !has_all_tests(o, pass))
        return false;
    for (int all = 1; all >= 0; all--) {
        uint32_t paired = 0;
        *g = (fb_loops_staged){.value = v, .pass = pass};
        if (!find_dims(o, all, g, &paired) || !find_loop(o, x, paired, g)) continue;
        set_index(o, x, g);
        if (pays(o, x, g, LEAST, FEW)) return true;
    }
    return false;
}

/* The first of the section's operands that can be. */
static fb_loops_staged find_staged(const fb_nest *nest, const fb_section *s, const fb_loops_schedule *x)
{
    fb_loops_staged g = {.value = FB_NONE};
    for (int p = 0; p < s->n_passes; p++)
        for (int i = 0; i < s->n_values && !s->passes[p].depth; i++) {
            const fb_value *v = &s->values[i];
            for (int a = 0; fb_value_reduces(v, s->passes[p]) && a < v->n_args; a++) {
                operand o = operand_of(nest, s, p, v->args[a]);
                bool found = stage(&o, x, p, v->args[a], &g);
                fb_free(o.inside);
                if (found) return g;
            }
        }
    return (fb_loops_staged){.value = FB_NONE};
}

void fb_schedule_stage(const fb_nest *nest, const fb_section *s, fb_loops_schedule *x)
{
    x->staged.value = FB_NONE;
    if (x->shape != FB_LOOPS_LANES || x->inner || s->n_data || s->blocked || nest->chain) return;
    x->staged = find_staged(nest, s, x);
    if (x->staged.value == FB_NONE) return;
    int shared = shared_of(x);
    x->together = shared < x->staged.before ? shared : x->staged.before;
}

bool fb_schedule_lies_staged(const fb_nest *nest, const fb_section *s, const fb_loops_staged *x)
{
    fb_ix last = s->rows.var[s->rows.n - 1];
    operand o = operand_of(nest, s, x->pass, x->value);
    bool side_by_side = true;
    int64_t stride;
    for (int i = 0; i < s->n_values && side_by_side; i++) {
        const fb_value *v = &s->values[i];
        if (o.inside[i] || v->kind != FB_VALUE_LOAD || !fb_ix_uses(nest->pool, v->at, last)) continue;
        side_by_side = fb_ix_coefficient(nest->pool, v->at, last, &stride) && stride == 1;
    }
    for (int i = 0; i < s->n_roots && side_by_side; i++)
        side_by_side = fb_ix_coefficient(nest->pool, s->roots[i].at, last, &stride) && stride == 1;
    fb_free(o.inside);
    return side_by_side;
}

/* ---- rows that are turned ----
 *
 * Where all is compared with all, the rows of one side are gone over again for each of the other's. Turned, neighbouring
 * rows lie side by side and are summed up at once, each in its lane, instead of a vector's lanes at the end of each row
 * (distances of 512 x 512 points in 64 dimensions, two cores: 1,050 us by rows, 250 turned; in 8 dimensions, the exponent
 * of 1,000 x 300: 1,240 and 113). */

static bool lies_apart(const operand *o, fb_ix row)
{
    bool apart = false;
    int64_t stride;
    for (int i = 0; i < o->s->n_values; i++) {
        const fb_value *v = &o->s->values[i];
        if (!o->inside[i] || v->kind != FB_VALUE_LOAD || !fb_ix_uses(o->nest->pool, v->at, row)) continue;
        apart |= !fb_ix_coefficient(o->nest->pool, v->at, row, &stride) || stride != 1;
    }
    return apart;
}

/* Ahead of a chunk of rows, where there are chunks for all threads, in smaller ones if need be; else ahead of all. */
static void place_turned(const operand *o, int varies, fb_loops_schedule *x)
{
    enum { LEAST_LANES = 32 };
    const fb_space *rows = &o->s->rows;
    int64_t outer = 1, last = rows->extent[rows->n - 1], lanes = x->lanes, few = 2 * fb_schedule_owners(o->nest->units);
    bool alone = x->threads == 1 || x->inside;
    if (few > FB_LOOPS_FEW) few = FB_LOOPS_FEW;
    for (int d = 0; d < varies; d++) outer *= rows->extent[d];
    while (!alone && lanes >= 2 * LEAST_LANES && outer * fb_ceil_div(last, lanes) < few) lanes /= 2;
    x->staged.chunk = alone || varies || outer * fb_ceil_div(last, lanes) >= few;
    x->staged.before = x->staged.chunk ? varies + 1 : 0;
    if (x->staged.chunk) x->lanes = lanes, x->outside = varies;
}

static bool turn(const operand *o, int pass, fb_val v, fb_loops_schedule *x)
{
    enum { LEAST = 16, FEW = 16 };
    const fb_space *space = &o->s->spaces[o->space];
    int last = o->s->rows.n - 1, varies = last;
    fb_ix row = o->s->rows.var[last];
    if (!o->fine || o->tests || o->rows || !uses(o, row) || !lies_apart(o, row) || !has_all_tests(o, pass))
        return false;
    if (space->n >= FB_MAX_ROW_VARS) return false; /* a dim for each point, and that along the lanes */
    while (varies > 0 && !uses(o, o->s->rows.var[varies - 1])) varies--;
    fb_loops_staged *g = &x->staged;
    *g = (fb_loops_staged){.value = v, .pass = pass};
    for (int q = 0; q < space->n; q++)
        if (uses(o, space->var[q]))
            g->dim[g->n++] = (fb_staged_dim){.row = FB_NONE, .point = space->var[q], .extent = space->extent[q]};
    g->dim[g->n++] = (fb_staged_dim){.row = row, .point = FB_NONE, .step = 1, .extent = o->s->rows.extent[last]};
    g->places = o->s->rows.extent[last];
    place_turned(o, varies, x);
    set_index(o, x, g);
    return pays(o, x, g, LEAST, FEW);
}

bool fb_schedule_turn(const fb_nest *nest, const fb_section *s, fb_loops_schedule *x)
{
    const fb_loops_schedule before = *x;
    x->staged.value = FB_NONE;
    if (x->inner || s->n_data || s->blocked || nest->chain) return false;
    for (int p = 0; p < s->n_passes; p++) {
        bool *needed = fb_calloc((size_t)s->n_values + 1, 1), found = false;
        fb_section_needed(s, p, needed);
        for (int i = s->n_values - 1; i >= 0 && !found && !s->passes[p].depth; i--) {
            if (!needed[i] || s->values[i].space != s->passes[p].space) continue;
            operand o = operand_of(nest, s, p, i);
            found = turn(&o, p, i, x) && fb_schedule_lies_staged(nest, s, &x->staged);
            if (!found) *x = before;
            fb_free(o.inside);
        }
        fb_free(needed);
        if (found) return true;
    }
    return false;
}

fb_interior fb_schedule_staged_interior(const fb_nest *nest, const fb_section *s, const fb_loops_staged *x)
{
    enum { FEW = 8 };
    const fb_staged_dim *along = &x->dim[x->n - 1];
    bool rows = along->step == 1, fine = true;
    fb_interior in = {.var = rows ? along->row : along->point,
                      .to = x->places,
                      .holds = true,
                      .held = rows ? along->point : along->row};
    operand o = operand_of(nest, s, x->pass, x->value);
    for (int i = 0; i < s->n_values && fine; i++)
        for (int c = o.inside[i] ? s->values[i].when : FB_NONE; c != FB_NONE && fine; c = nest->whens[c].outer)
            fine = fb_interior_narrow(nest->pool, &nest->whens[c], &in);
    fb_free(o.inside);
    if (!fine || in.to - in.from < FEW || (!rows && x->chunk)) in.var = FB_NONE;
    return in;
}
