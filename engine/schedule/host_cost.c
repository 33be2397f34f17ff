/* A processor's loops.
 *
 * Arithmetic runs at the calibrated rate where the compiler makes vectors of it. What keeps it from that is counted
 * apart, each at a rate that calibration measures (device/host/calibrate.c): slow functions; sums along a row, each of
 * which waits for the one before, and the end of each row; elements that do not lie side by side along the innermost
 * loop, one load each, and those that lie pages apart, which the caches do not keep until their line is read again;
 * 16-bit elements, which are widened and narrowed. Sums side by side and what loops read again have their own rates, and
 * go on beside the rest. Kernels that are too small for the team run on one core. */
#include "schedule/host_cost.h"

#include "base/mem.h"
#include "graph/storage.h"
#include "nest/parts.h"
#include "schedule/schedule.h"

#include <math.h>
#include <stdlib.h>

/* What the calibrated arithmetic of 16 bits takes beyond that of f32 is a load and a store with their conversions, an
 * element and round of so many FLOPs. */
static double converted_us(const fb_machine *m, fb_dtype dtype, double elements)
{
    enum { FLOPS = 8 };
    return fmax(fb_time_us(FLOPS, m->gflops[dtype]) - fb_time_us(FLOPS, m->gflops[FB_F32]), 0) / 2 * elements;
}

static double conversion_us(const fb_machine *m, const fb_nest_facts *f)
{
    double us = 0;
    for (int d = 0; d < FB_DTYPES; d++)
        if (f->converted[d]) us += converted_us(m, (fb_dtype)d, (double)f->converted[d]);
    return us;
}

/* Strips were counted as elements that are converted one by one, and their arithmetic as such: an element takes as long as
 * so many FLOPs of f32 (0.03 ns on two cores). */
static double strips_us(const fb_machine *m, const fb_nest *nest, const fb_loops_schedule *x, double flops,
                        fb_dtype dtype)
{
    enum { FLOPS = 6 };
    double us = 0;
    bool all = dtype == FB_F16;
    for (int i = 0; i < nest->n_sections; i++) {
        double n = x[i].strips * (double)fb_space_points(&nest->sections[i].rows);
        us += fb_time_us(FLOPS * n, m->gflops[FB_F32]) - converted_us(m, FB_F16, n);
        all &= x[i].strips > 0;
    }
    return us + (all ? fb_time_us(flops, m->gflops[FB_F32]) - fb_time_us(flops, m->gflops[FB_F16]) : 0);
}

/* How much longer the slowest thread of a section takes than all cores would, each with its share. */
static double uneven(const fb_loops_schedule *x, double units)
{
    double threads = x->threads ? fmin(x->threads, units) : units, shared = (double)x->shared;
    if (!x->chunk || shared < 1) return units / threads;
    double chunk = (double)x->chunk, turns = ceil(ceil(shared / chunk) / threads);
    return fmax(units / threads, units * fmin(turns * chunk, shared) / shared);
}

static double blocks_of(const fb_nest *nest)
{
    const fb_chain *c = nest->chain;
    return (double)c->batch * ceil((double)c->rows / fmax((double)c->block, 1));
}

/* How often a core takes a block of a chain, of those that take most. */
static double turns_of(const fb_nest *nest, double units)
{
    return ceil(blocks_of(nest) / units);
}

/* The same of the nest: of the section that is shared best. A chain's blocks are shared, with all that is in them. */
static double uneven_of(const fb_nest *nest, const fb_loops_schedule *x, double units)
{
    double least = units;
    if (nest->chain) return turns_of(nest, units) * units / fmax(blocks_of(nest), 1);
    for (int i = 0; i < nest->n_sections; i++) least = fmin(least, uneven(&x[i], units));
    return least;
}

/* What is computed in vectors of fewer elements than the compiler would make, which is what the rates were measured
 * with: as much longer as they are shorter. */
static double narrow(const fb_knobs *knobs, fb_dtype dtype)
{
    enum { VECTOR_BYTES = 32 };
    int64_t asked = fb_knob_of(knobs, FB_KNOB_VECTOR), elements = VECTOR_BYTES / fb_dtype_size(dtype);
    return asked > 0 && asked < elements ? (double)elements / (double)asked : 1;
}

/* ---- sums side by side ---- */

/* Each element of a step is added to a sum of its own, which is loaded and stored again; the next step waits for that,
 * which few elements are too few to hide. */
static double lane_pass_us(const fb_machine *m, const fb_nest *nest, const fb_section *s, const fb_loops_schedule *x,
                           fb_pass p)
{
    double rows = (double)fb_space_points(&s->rows), points = (double)fb_space_points(&s->spaces[p.space]);
    double last = (double)s->rows.extent[s->rows.n - 1], chunks = ceil(last / (double)x->lanes), sums = 0, rate = NAN;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        sums += fb_value_reduces(v, p);
        if (v->kind == FB_VALUE_LOAD && v->space == p.space)
            rate = fmin(rate, m->glanes[nest->graph->nodes[v->node].dtype]);
    }
    if (sums == 0 || last < 1) return 0;
    return fmax(fb_time_us(sums * rows * points, rate), fb_time_us(rows / last * chunks * points, m->glane_steps));
}

static double lanes_us(const fb_machine *m, const fb_nest *nest, const fb_loops_schedule *x)
{
    double us = 0;
    for (int i = 0; i < nest->n_sections; i++) {
        const fb_section *s = &nest->sections[i];
        for (int p = 0; p < s->n_passes && x[i].shape == FB_LOOPS_LANES; p++)
            us += lane_pass_us(m, nest, s, &x[i], s->passes[p]);
    }
    return us;
}

/* Sums along rows that were counted as such and are none: these rows are turned, or sorted. */
static double turned_us(const fb_machine *m, const fb_nest *nest, const fb_loops_schedule *x)
{
    double us = 0;
    for (int i = 0; i < nest->n_sections; i++) {
        const fb_section *s = &nest->sections[i];
        int64_t summed, sums;
        if (x[i].ranked == FB_NONE && (x[i].shape != FB_LOOPS_LANES || fb_section_lies_across(nest->pool, s))) continue;
        fb_section_row_sums(nest->graph, s, &summed, &sums);
        us += fb_time_us((double)summed, m->gsum) + fb_time_us((double)sums, m->gsum_rows);
    }
    return us;
}

/* Loads that lie apart and are turned were counted one by one. The rate is one of tiles, whose results go to memory in short
 * pieces as well; rows have a better one (256 to 2048 a side, f32: 0.9 to 1.9 times). A machine calibrated before there was a
 * rate for them has that of loads which are not turned. */
static double turned_loads_us(const fb_machine *m, const fb_nest *nest, const fb_loops_schedule *x)
{
    const double faster_rows = 1.5;
    double us = 0;
    for (int i = 0; i < nest->n_sections; i++) {
        const fb_section *s = &nest->sections[i];
        const double rate = m->gturn * (s->n_passes ? faster_rows : 1);
        for (int k = 0; k < s->n_values && x[i].across != FB_NONE; k++) {
            const fb_value *v = &s->values[k];
            int64_t step;
            if (fb_schedule_turned(nest, s, v, x[i].across, &step) == FB_NONE) continue;
            double n = (double)fb_space_points(&s->rows), apart = m->ggather;
            if (v->space != FB_NONE) n *= (double)fb_space_points(&s->spaces[v->space]);
            if (llabs(step) * fb_dtype_size(nest->graph->nodes[v->node].dtype) >= FB_FAR_BYTES) apart = m->gfar;
            if (rate > 0) us += fb_time_us(n, rate) - fb_time_us(n, apart);
        }
    }
    return us;
}

/* ---- what is read again ----
 *
 * A load that does not move with a loop reads the same in each of its turns. The second time it comes from the nearest
 * cache that has kept it: the one with room for all that one turn reads. Out of the first-level cache that is what rates
 * were measured with; from farther away the bytes may take longer than the arithmetic. */

/* A loop, outermost first: over row variable `row`, or a part of that; FB_NONE: over a pass. */
typedef struct {
    int row;
    double extent;
} level;

typedef struct {
    const fb_nest *nest;
    const fb_section *s;
    int n;
    level level[FB_MAX_ROW_VARS + 2];
} levels;

static levels levels_of(const fb_nest *nest, const fb_section *s, const fb_loops_schedule *x)
{
    levels l = {.nest = nest, .s = s};
    int last = s->rows.n - 1;
    bool lanes = x->shape == FB_LOOPS_LANES;
    for (int d = 0; d <= last; d++) {
        double extent = (double)s->rows.extent[d];
        if (lanes && d == x->outside)
            l.level[l.n++] = (level){last, ceil((double)s->rows.extent[last] / (double)x->lanes)};
        if (!lanes || d < last) l.level[l.n++] = (level){d, extent};
    }
    l.level[l.n++] = (level){FB_NONE, 1};
    if (lanes) l.level[l.n++] = (level){last, (double)x->lanes};
    return l;
}

/* How many elements of the load a loop makes of one. */
static double moves(const levels *l, int at, const fb_value *v)
{
    const level *x = &l->level[at];
    if (x->row == FB_NONE) return v->space == FB_NONE ? 1 : (double)fb_space_points(&l->s->spaces[v->space]);
    return v->rows >> x->row & 1 ? x->extent : 1;
}

/* Rows at a stride of many lines share few sets of a cache: as much of it as they leave empty is lost to them. */
static double crowding(const fb_machine *m, const levels *l, int at, const fb_value *v)
{
    enum { LINE = 64, WAYS = 8 };
    const fb_space *space = v->space == FB_NONE ? NULL : &l->s->spaces[v->space];
    int64_t stride = 0;
    fb_ix rest;
    if (!space || !space->n || l->level[l->n - 1].row == FB_NONE || at >= l->n - 2 || moves(l, l->n - 1, v) == 1)
        return 1;
    if (!fb_ix_stride(l->nest->pool, v->at, space->var[space->n - 1], &stride, &rest)) return 1;
    int64_t apart = llabs(stride) * fb_dtype_size(v->dtype), sets = m->shared_bytes / (LINE * WAYS),
            even = apart & -apart;
    double lines = (double)(even < sets * LINE ? even : sets * LINE) / LINE;
    double side_by_side = l->level[l->n - 1].extent * fb_dtype_size(v->dtype) / LINE;
    return fmax(lines / fmax(side_by_side, 1), 1);
}

/* Bytes that it reads in one turn of a loop. */
static double bytes_within(const levels *l, int at, const fb_value *v)
{
    double bytes = fb_dtype_size(v->dtype);
    for (int i = at + 1; i < l->n; i++) bytes *= moves(l, i, v);
    return fmin(bytes, (double)fb_node_bytes(l->nest->graph, v->node));
}

/* … and what all of them take of a cache. */
static double all_within(const fb_machine *m, const levels *l, int at)
{
    double bytes = 0;
    for (int i = 0; i < l->s->n_values; i++) {
        const fb_value *v = &l->s->values[i];
        if (v->kind == FB_VALUE_LOAD) bytes += bytes_within(l, at, v) * crowding(m, l, at, v);
    }
    return bytes;
}

static double section_again_us(const fb_machine *m, const levels *l)
{
    enum { NEAREST_CACHE = 32 << 10 };
    double us = 0, turns = 1;
    for (int at = 0; at < l->n && l->level[at].row != FB_NONE; at++) {
        double extent = l->level[at].extent, between = all_within(m, l, at), again = 0;
        for (int i = 0; i < l->s->n_values && between > NEAREST_CACHE; i++) {
            const fb_value *v = &l->s->values[i];
            if (v->kind == FB_VALUE_LOAD && moves(l, at, v) == 1) again += (extent - 1) * bytes_within(l, at, v);
        }
        us += fb_memory_again_us(m, turns * again, between);
        turns *= extent;
    }
    return us;
}

/* Blocks of products are small enough to stay near; an index_add goes its own way, and a row that is sorted is read
 * once. */
static double again_us(const fb_machine *m, const fb_nest *nest, const fb_loops_schedule *x)
{
    double us = 0;
    for (int i = 0; i < nest->n_sections && !nest->chain; i++) {
        const fb_section *s = &nest->sections[i];
        if (s->blocked || x[i].ranked != FB_NONE || fb_section_adds(nest, s, &(fb_added){0})) continue;
        levels l = levels_of(nest, s, &x[i]);
        us += section_again_us(m, &l);
    }
    return us;
}

/* One row, in steps of places that follow no order. Sorted: so many an element, the more the farther they lie apart;
 * keys of eight bytes take more. First places: one an element, and what is kept among them is sifted each time that it
 * has doubled. Measured on two cores of a Xeon. */
static double row_sorted(double points, double first, bool wide)
{
    if (first > 0) return 0.9 * points + 40 * first * fmax(log2(points / first), 1);
    return (wide ? 2.5 : 1) * points * fmax(2 * (log2(points) - 7), 10);
}

/* Rows that are sorted. What counting takes was counted: the pass, and for each element of it the comparisons. One row
 * alone is one core's. */
static double sorted_us(const fb_machine *m, const fb_nest *nest, const fb_loops_schedule *x, fb_dtype dtype)
{
    double us = 0;
    for (int i = 0; i < nest->n_sections; i++) {
        const fb_section *s = &nest->sections[i];
        fb_val v = x[i].ranked;
        if (v == FB_NONE) continue;
        fb_dtype of = s->values[s->values[v].args[0]].dtype;
        double rows = (double)fb_space_points(&s->rows), counted = FB_RANK_FLOPS,
               points = (double)fb_space_points(&s->spaces[s->values[v].over]);
        for (int k = 0; k < s->n_values; k++)
            if (s->values[k].kind == FB_VALUE_OP && s->values[k].space == s->values[v].over)
                counted += fb_op_get(nest->graph->nodes[s->values[k].node].op)->flops;
        double sorted = rows / points * row_sorted(points, (double)x[i].first, of == FB_F64 || !fb_dtype_is_float(of));
        if (s->rows.n == 1) sorted *= fmax(m->units, 1);
        us += fb_time_us(sorted, m->ggather) - fb_time_us(counted * rows * points, m->gflops[dtype]);
    }
    return us;
}

/* Each of the threads that share an index_add goes through all of the index. Where something is made of its sums the
 * points are sorted by row as well, as many as there are rows at least, if there are as many. */
static double scatter_us(const fb_machine *m, const fb_nest *nest, const fb_loops_schedule *x)
{
    enum { SORTED = 12 };
    double points = 0;
    fb_added added;
    for (int i = 0; i < nest->n_sections; i++) {
        if (!fb_section_adds(nest, &nest->sections[i], &added)) continue;
        points += (double)x[i].owners * (double)added.points;
        if (added.sum != FB_NONE) points += SORTED * fmin((double)added.points, (double)added.rows);
    }
    return fb_time_us(points, m->ggather);
}

double fb_schedule_host_loops_us(const fb_machine *m, const fb_nest *nest, const fb_knobs *knobs,
                                 const fb_nest_facts *f, double flops, fb_dtype dtype)
{
    double in_vectors = fb_time_us(flops, m->gflops[dtype]) + fb_time_us((double)f->specials, m->gspecial);
    double us = in_vectors * narrow(knobs, dtype) + fb_time_us((double)f->summed, m->gsum) +
                fb_time_us((double)f->sums, m->gsum_rows) + fb_time_us((double)f->gathered, m->ggather) +
                fb_time_us((double)f->far, m->gfar) + conversion_us(m, f);
    if (!nest) return us;
    fb_loops_schedule *x = fb_calloc((size_t)nest->n_sections + 1, sizeof *x);
    for (int i = 0; i < nest->n_sections; i++) x[i] = fb_schedule_loops(nest, knobs, &nest->sections[i]);
    us += sorted_us(m, nest, x, dtype) - turned_us(m, nest, x) + turned_loads_us(m, nest, x);
    us += strips_us(m, nest, x, flops, dtype);
    us = fmax(us, fmax(lanes_us(m, nest, x), again_us(m, nest, x))) + scatter_us(m, nest, x);
    us *= uneven_of(nest, x, fmax(m->units, 1));
    fb_free(x);
    return us;
}

/* As the library is asked for it: a batch that is one tall matrix is one. */
typedef struct {
    double batch, rows, columns, k;
} product;

static product product_of(const fb_graph *g, fb_id contraction)
{
    fb_contraction c = fb_contraction_of(g, contraction);
    bool tall = c.batch > 1 && fb_storage_is_tall(g, contraction);
    return (product){.batch = tall ? 1 : (double)c.batch,
                     .rows = (double)(tall ? c.batch * c.rows : c.rows),
                     .columns = (double)c.columns,
                     .k = (double)c.depth};
}

static double packed_us(const fb_machine *m, const product *p, const fb_node *n)
{
    double size = fb_dtype_size(n->dtype) == 8 ? 8 : 4; /* 16-bit operands are widened */
    if (p->rows == 1 || p->columns == 1) return 0;      /* a vector: nothing is packed */
    double side = cbrt(p->rows * p->columns * p->k), in = (p->rows + p->columns) * p->k - 2 * side * side,
           out = p->rows * p->columns - side * side;
    return p->batch * size * (fb_time_us(fmax(in, 0), m->gemm_in) + fb_time_us(fmax(out, 0), m->gemm_out));
}

/* A product that the library makes on one core, where it is one of many or too small for the team: as fast as those of
 * its size that calibration made so. What it takes and leaves beyond a cube of as much work is packed and stored at
 * rates of their own. */
double fb_schedule_host_product_us(const fb_graph *g, const fb_machine *m, fb_id contraction)
{
    const fb_node *n = &g->nodes[contraction];
    product p = product_of(g, contraction);
    double flops = (double)fb_node_flops(g, contraction), each = 2 * p.rows * p.columns * p.k;
    double units = fmax(m->units, 1), us = fb_time_us(flops, fb_rate_at(&m->gemm[n->dtype], each));
    if (each > 0 && each < FB_SMALL_PRODUCT) us /= fmin(units, p.batch);
    return us + packed_us(m, &p, n);
}

double fb_schedule_host_copies_us(const fb_machine *m, const fb_convolution *c, fb_dtype dtype)
{
    int64_t elements = fb_convolution_x(c) + fb_convolution_w(c) + fb_convolution_y(c);
    int each = fb_dtype_size(dtype) + (int)sizeof(float); /* read and written; 16 bits are widened */
    return fb_memory_us(m, (double)elements * each);
}

/* Cores that have no block wait for those that do, and of few rows each core packs all of the right operand. */
double fb_schedule_host_chain_us(const fb_nest *nest, const fb_machine *m)
{
    const fb_chain *c = nest->chain;
    double us = 0, units = fmax(m->units, 1), turns = turns_of(nest, units);
    double shared = turns * units / fmax(blocks_of(nest), 1);
    for (int i = 0; i < c->n_links; i++) {
        fb_id id = c->link[i].node;
        product p = product_of(nest->graph, id), block = p;
        block.batch = turns * units, block.rows = (double)c->block;
        const fb_node *n = &nest->graph->nodes[id];
        bool one = p.batch == 1 && 2 * p.rows * p.columns * p.k < FB_SMALL_PRODUCT; /* a core's time already */
        us += fb_schedule_host_product_us(nest->graph, m, id) * (one ? 1 : shared);
        if (c->block < FB_FEW_ROWS) us += fmax(packed_us(m, &block, n) - packed_us(m, &p, n) * shared, 0);
    }
    return us;
}
