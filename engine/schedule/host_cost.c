/* A processor's loops.
 *
 * Arithmetic runs at the calibrated rate where the compiler makes vectors of it. What keeps it from that is counted
 * apart, each at a rate that calibration measures (device/host/calibrate.c): slow functions; sums along a row, each of
 * which waits for the one before, and the end of each row; elements that do not lie side by side along the innermost
 * loop, one load each, and those that lie pages apart, which the caches do not keep until their line is read again;
 * 16-bit elements, which are widened and narrowed. Kernels that are too small for the team run on one core. */
#include "schedule/host_cost.h"

#include "nest/parts.h"
#include "schedule/schedule.h"

#include <math.h>

/* What the calibrated arithmetic of 16 bits takes beyond that of f32 is a load and a store with their conversions, an
 * element and round of so many FLOPs. */
static double conversion_us(const fb_machine *m, const fb_nest_facts *f)
{
    enum { FLOPS = 8 };
    double us = 0;
    for (int d = 0; d < FB_DTYPES; d++)
        if (f->converted[d])
            us += fmax(fb_time_us(FLOPS, m->gflops[d]) - fb_time_us(FLOPS, m->gflops[FB_F32]), 0) / 2 *
                  (double)f->converted[d];
    return us;
}

/* How much longer the slowest thread of a section takes than all cores would, each with its share. */
static double uneven(const fb_loops_schedule *x, double units)
{
    double threads = x->threads ? fmin(x->threads, units) : units, shared = (double)x->shared;
    if (!x->chunk || shared < 1) return units / threads;
    double chunk = (double)x->chunk, turns = ceil(ceil(shared / chunk) / threads);
    return fmax(units / threads, units * fmin(turns * chunk, shared) / shared);
}

/* The same of the nest: of the section that is shared best. */
static double uneven_of(const fb_nest *nest, const fb_knobs *knobs, double units)
{
    double least = units;
    for (int i = 0; i < nest->n_sections; i++) {
        fb_loops_schedule x = fb_schedule_loops(nest, knobs, &nest->sections[i]);
        least = fmin(least, uneven(&x, units));
    }
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

/* Each of the threads that share an index_add goes through all of the index. */
static double scatter_us(const fb_machine *m, const fb_nest *nest)
{
    double points = 0;
    fb_added added;
    for (int i = 0; i < nest->n_sections; i++)
        if (fb_section_adds(nest, &nest->sections[i], &added)) points += (double)added.points;
    return fb_time_us(FB_LOOPS_OWNERS * points, m->ggather);
}

double fb_schedule_host_loops_us(const fb_machine *m, const fb_nest *nest, const fb_knobs *knobs,
                                 const fb_nest_facts *f, double flops, fb_dtype dtype)
{
    double in_vectors = fb_time_us(flops, m->gflops[dtype]) + fb_time_us((double)f->specials, m->gspecial);
    double us = in_vectors * narrow(knobs, dtype) + fb_time_us((double)f->summed, m->gsum) +
                fb_time_us((double)f->sums, m->gsum_rows) + fb_time_us((double)f->gathered, m->ggather) +
                fb_time_us((double)f->far, m->gfar) + conversion_us(m, f);
    return nest ? (us + scatter_us(m, nest)) * uneven_of(nest, knobs, fmax(m->units, 1)) : us;
}

/* A product that the library makes on one core, where it is one of many or too small for the team: as fast as those of
 * its size that calibration made so. What it takes and leaves beyond a cube of as much work is packed and stored at
 * rates of their own. */
double fb_schedule_host_product_us(const fb_graph *g, const fb_machine *m, fb_id contraction)
{
    const fb_node *n = &g->nodes[contraction];
    fb_contraction c = fb_contraction_of(g, contraction);
    double flops = (double)fb_node_flops(g, contraction), size = fb_dtype_size(n->dtype) == 8 ? 8 : 4;
    double rows = (double)c.rows, columns = (double)c.columns, k = (double)c.depth;
    double each = 2 * rows * columns * k, batch = each > 0 ? (double)c.batch : 1, units = fmax(m->units, 1);
    bool alone = batch >= units || each < FB_SMALL_PRODUCT;
    double us = fb_time_us(flops, fb_rate_at(&m->gemm[n->dtype], each));
    if (alone && each < FB_SMALL_PRODUCT) us /= fmin(units, batch);
    if (rows == 1 || columns == 1) return us; /* a vector: nothing is packed */
    double side = cbrt(each / 2), in = (rows + columns) * k - 2 * side * side, out = rows * columns - side * side;
    return us + batch * size * (fb_time_us(fmax(in, 0), m->gemm_in) + fb_time_us(fmax(out, 0), m->gemm_out));
}
