/* The family table. A row says which sets of nodes are of its kind, what it asks of them beyond a nest, and how long
 * its arithmetic takes. Rows stand in the order in which they are tried. */
#include "schedule/family.h"

#include "base/integer.h"
#include "graph/access.h"
#include "judge/library.h"
#include "judge/parts.h"
#include "schedule/chain.h"
#include "schedule/gemm.h"
#include "schedule/host_cost.h"
#include "schedule/schedule.h"

#include <math.h>
#include <string.h>

/* How often each class occurs. */
typedef struct {
    int n[FB_CLASS_CONTROL + 1];
} census;

typedef struct {
    fb_family family;
    fb_nest_kind kind;
    bool (*runs_on)(const fb_target *target); /* NULL: on all */
    /* What its refusal says beside others': more than those of rows after it; by this rule, more than any
     * (FB_RULE_NONE: never); nothing that rows before it have not said better. */
    bool telling;
    fb_rule tells_all;
    bool quiet;
    bool (*its_kind)(const fb_kernel_nodes *k, const census *c);
    /* beyond the nest; NULL: all */
    bool (*accepts)(const fb_machine *m, const fb_kernel_nodes *k, fb_verdict *why);
    bool (*preferred)(const fb_machine *m, const fb_kernel_nodes *k); /* when nobody asked for it; NULL: yes */
    /* of the nest that was built, with these knobs (NULL: all automatic); NULL: all */
    bool (*fits)(const fb_analysis *a, const fb_knobs *knobs, fb_verdict *why);
    double (*compute_us)(const fb_graph *g, const fb_machine *m, const fb_analysis *a);
    /* on a GPU, beside bytes and arithmetic; NULL: nothing */
    void (*grid_us)(const fb_machine *m, const fb_analysis *a, fb_group_cost *out);
} family_row;

static census count(const fb_kernel_nodes *k)
{
    census c = {0};
    for (int i = 0; i < k->n_nodes; i++) c.n[fb_node_class(k->graph, k->nodes[i])]++;
    return c;
}

/* ---- time of arithmetic ---- */

static fb_dtype widest(const fb_graph *g, const fb_analysis *a)
{
    for (int i = 0; i < a->kernel.n_nodes; i++)
        if (g->nodes[a->kernel.nodes[i]].dtype == FB_F64) return FB_F64;
    return FB_F32;
}

/* Of all but the products that a library makes. */
static double loops_us(const fb_graph *g, const fb_machine *m, const fb_analysis *a, double flops)
{
    fb_dtype dtype = widest(g, a);
    if (!m->target->grid) return fb_schedule_host_loops_us(m, a->nest, a->knobs, &a->facts, flops, dtype);
    if (a->nest) flops = fmax(flops - fb_schedule_ranked_flops(a->nest), 0);
    return fb_time_us(flops, m->gflops[dtype]) + fb_time_us((double)a->facts.specials, m->gspecial);
}

static double scalar_us(const fb_graph *g, const fb_machine *m, const fb_analysis *a)
{
    return loops_us(g, m, a, (double)a->facts.flops);
}

/* … and that without its contractions. */
static double rest_us(const fb_graph *g, const fb_machine *m, const fb_analysis *a)
{
    double rest = (double)a->facts.flops;
    for (int i = 0; i < a->kernel.n_contractions; i++) rest -= (double)fb_node_flops(g, a->kernel.contractions[i]);
    return loops_us(g, m, a, fmax(rest, 0));
}

/* A generated contraction reads both operands again for each product. Those reads come from the nearest cache, at about
 * 8 times the bandwidth behind it (the ratio that XLA's model takes for a GPU's L1). */
static double reduce_us(const fb_graph *g, const fb_machine *m, const fb_analysis *a)
{
    enum { NEAR_CACHE = 8 };
    double bytes = 0;
    if (!m->target->grid) return scalar_us(g, m, a);
    for (int i = 0; i < a->kernel.n_contractions; i++) {
        fb_id id = a->kernel.contractions[i];
        bytes += (double)fb_node_flops(g, id) * fb_dtype_size(g->nodes[id].dtype);
    }
    return fmax(scalar_us(g, m, a), fb_memory_us(m, bytes) / NEAR_CACHE);
}

static const double least_product_us = 1.7; /* of a few hundred FLOPs, recorded on an H200 */

/* Below the smallest product that was calibrated a GPU's library takes as long as the depth of the product makes it
 * take, which is the cube root of its work, beside what the smallest of all took. */
static double product_us(const fb_machine *m, const fb_rate_curve *c, double flops)
{
    if (!m->target->grid || c->n == 0 || flops >= c->size[0]) return fb_time_us(flops, fb_rate_at(c, flops));
    double first_us = fb_time_us(c->size[0], c->rate[0]);
    return least_product_us + fmax(first_us - least_product_us, 0) * cbrt(flops / c->size[0]);
}

/* What a product of few steps moves beyond a cube of as much work, which is what was calibrated: first tiles come
 * before anything is multiplied, and last sums go afterwards. Where there are tiles for each multiprocessor many times,
 * those of some move while others multiply, and it is the longer of both that takes the time. */
static double more_bytes_us(const fb_graph *g, const fb_machine *m, const fb_node *contraction, double flops, double us)
{
    enum { TILE = 128 * 128, MANY = 8 };
    const fb_node *n = contraction;
    double side = cbrt(flops / 2), cube = 3 * side * side * fb_dtype_size(n->dtype);
    double bytes = (double)(fb_node_bytes(g, n->args[0]) + fb_node_bytes(g, n->args[1])) +
                   (double)fb_shape_elements(&n->shape) * fb_dtype_size(n->dtype);
    if ((double)fb_shape_elements(&n->shape) > (double)MANY * TILE * m->units)
        return fmax(fb_memory_us(m, bytes) - us, 0) + 0.1 * fmin(fb_memory_us(m, bytes), us);
    return bytes > cube ? fb_memory_us(m, bytes) - fb_memory_us(m, cube) : 0;
}

/* Copying what the call cannot read as it lies. */
static double laying_out_us(const fb_graph *g, const fb_machine *m, fb_id contraction)
{
    double us = 0;
    for (int arg = 0; arg < 2; arg++) {
        if (!fb_library_lays_out(m, g, contraction, arg)) continue;
        fb_arena *arena = fb_arena_new();
        fb_verdict why;
        const fb_id laid = fb_storage_laid(g, contraction, arg);
        fb_analysis copy = {.kernel = {.graph = g, .n_stored = 1, .stored = &laid}};
        copy.nest = fb_nest_build(arena, &copy.kernel, m, &why);
        if (copy.nest) fb_nest_facts_of(copy.nest, &copy.facts);
        if (copy.nest) us += scalar_us(g, m, &copy);
        fb_arena_free(arena);
    }
    return us;
}

/* Tensor cores want pictures channels last: what lies otherwise is copied there, or back. (cuDNN on an H200, 3 × 3 in f16: 16
 * pictures of 64 × 56 × 56 take 15.3 µs, 20.6 where x lies by channels, 21.2 where y does, 25.5 where both do.) */
static double turning_us(const fb_machine *m, const fb_convolution *c, fb_dtype dtype, bool by_places)
{
    const double launch_us = 2;
    double size = 2.0 * fb_dtype_size(dtype), us = 0;
    if (c->x_channel != 1) us += launch_us + fb_memory_us(m, size * (double)fb_convolution_x(c));
    if (!by_places) us += launch_us + fb_memory_us(m, size * (double)fb_convolution_y(c));
    return us;
}

/* `by_places`: y lies so. */
static double convolution_us(const fb_machine *m, const fb_convolution *c, const fb_rate_curve *rates, fb_dtype dtype,
                             bool by_places)
{
    enum {
        BLOCK = 8, /* channels that tensor cores take at a time, and multiply by zeros where there are fewer */
        /* channels that are made at a time. An H200: 3 × 3 of one channel to two, 16 pictures of 1024 × 1024: 721 µs where 83
         * were foreseen */
        MADE = 16,
    };
    double flops = fb_convolution_flops(c);
    if (m->target->grid && c->groups == 1 && c->out < MADE) flops *= (double)MADE / (double)c->out;
    if (m->target->grid && fb_dtype_is_half(dtype)) flops *= (double)fb_ceil_div(c->in, BLOCK) * BLOCK / (double)c->in;
    double us = fb_time_us(flops, fb_rate_at(&m->convolution, flops));
    if (!m->target->grid) return us + fb_schedule_host_copies_us(m, c, dtype);
    /* For groups there are no kernels of that quality, nor faster ones in 16 bits: on an H200 169 µs where 87 were foreseen,
     * and of one channel each 650 for 109; along one dimension 484 for 35. */
    if (c->groups > 1) return us * (c->in > 1 ? 2 : c->space == 1 ? 14 : 6);
    /* in 16 bits and tf32 as much faster as products are */
    us *= fb_rate_at(&m->gemm[FB_F32], flops) / fb_rate_at(rates, flops);
    return rates == &m->gemm[FB_F32] ? us : us + turning_us(m, c, dtype, by_places);
}

static bool stored_by_places(const fb_graph *g, const fb_analysis *a)
{
    return a->kernel.n_stored == 1 && fb_storage_is_turned(g, a->kernel.contractions[0], a->kernel.stored[0]);
}

/* Bytes that the lines of a matrix and its first element are whole multiples of, 16 at most. */
static int64_t aligned_to(int64_t rows, int64_t cols, int64_t row, int64_t col, int64_t offset, int64_t size)
{
    int64_t line = cols > 1 && col != 1 ? col : rows > 1 ? row : 0, bytes = 16;
    while (bytes > size && (line * size % bytes || offset * size % bytes)) bytes /= 2;
    return bytes;
}

/* Tensor cores are fed 16 bytes at a time, and of what begins elsewhere less. (An H200, bf16 4096 × 4096 × 4096, 166 µs:
 * with 4100 or 4098 columns 500, with 4097 1,440; of a depth of 4098 535, of 4097 1,060.) */
static double unaligned(const fb_graph *g, fb_id product, bool turned)
{
    const double by_word = 3.1, operand = 6.4, result = 8.7;
    const fb_node *n = &g->nodes[product];
    const fb_contraction c = fb_contraction_of(g, product);
    const int64_t size = fb_dtype_size(n->dtype), line = turned ? c.rows : c.columns;
    double times = 1;
    for (int arg = 0; arg < 2; arg++) {
        const fb_shape *s = &g->nodes[n->args[arg]].shape;
        int64_t strides[FB_MAX_RANK], offset;
        fb_id base;
        if (!fb_access_strided(g, n->args[arg], &base, &offset, strides)) continue; /* laid out */
        int r = s->rank - 2;
        int64_t to = aligned_to(s->dim[r], s->dim[r + 1], strides[r], strides[r + 1], offset, size);
        times = fmax(times, to >= 16 ? 1 : to >= 4 ? by_word : operand);
    }
    int64_t to = c.rows > 1 && c.columns > 1 ? aligned_to(2, 2, line, 1, 0, size) : 16;
    return fmax(times, to >= 16 ? 1 : to >= 4 ? by_word : result);
}

/* Each of a batch's products has a block of the library's at least, which begins and ends however small it is. (An H200: 16,384
 * of 16 × 16 × 16 in bf16 52.1 µs where 6 were foreseen, 32,768 of 7 × 7 × 7 in f32 65.6 for 7.5.) */
static double batch_us(const fb_graph *g, const fb_machine *m, fb_id product)
{
    enum { TILE = 128 };
    const double each_us = 0.3; /* of a multiprocessor, which has several at once */
    const fb_contraction c = fb_contraction_of(g, product);
    double blocks = (double)c.batch * (double)fb_ceil_div(c.rows, TILE) * (double)fb_ceil_div(c.columns, TILE);
    return c.batch > 1 ? least_product_us + blocks / fmax(m->units, 1) * each_us : 0;
}

/* A product that leaves multiprocessors idle takes as long as a cube of its depth, unless the library splits its sums:
 * which it did at a depth of 512, and not at 384 and less (recorded on an H200: lora_mlp, lstm_step). */
static double library_us(const fb_graph *g, const fb_machine *m, const fb_analysis *a)
{
    enum { SPLIT = 512 };
    fb_id product = a->kernel.contractions[0];
    const fb_node *n = &g->nodes[product];
    double flops = (double)fb_node_flops(g, product), depth = (double)fb_contraction_of(g, product).depth;
    double laid_us = laying_out_us(g, m, product);
    bool tf32 = n->attrs->precision == FB_PRECISION_TF32 && m->gemm_tf32.n;
    const fb_rate_curve *rates = tf32 ? &m->gemm_tf32 : &m->gemm[n->dtype];
    fb_convolution convolution;
    if (fb_library_convolves(m, g, product, &convolution, NULL, NULL))
        return laid_us + convolution_us(m, &convolution, rates, n->dtype, stored_by_places(g, a)) + rest_us(g, m, a);
    if (!m->target->grid) return laid_us + fb_schedule_host_product_us(g, m, product) + rest_us(g, m, a);
    double made_us = product_us(m, rates, flops);
    if (fb_dtype_is_half(n->dtype) && made_us > least_product_us)
        made_us += (made_us - least_product_us) * (unaligned(g, product, stored_by_places(g, a)) - 1);
    double us = laid_us + made_us + more_bytes_us(g, m, n, flops, made_us);
    if (depth < SPLIT) us = fmax(us, product_us(m, rates, 2 * depth * depth * depth));
    us = fmax(us, laid_us + batch_us(g, m, product));
    return us + rest_us(g, m, a);
}

/* On the host the library makes the products of blocks. */
static double chain_us(const fb_graph *g, const fb_machine *m, const fb_analysis *a)
{
    if (m->target->calls_library) return fb_schedule_host_chain_us(a->nest, m) + rest_us(g, m, a);
    double us = fb_schedule_chain_us(a->nest, a->knobs, m);
    if (fb_schedule_chain_attends(a->nest, a->knobs)) return us; /* what becomes of scores is in its tiles */
    return us + rest_us(g, m, a);
}

/* ---- library calls ---- */

static bool inside(const fb_kernel_nodes *k, fb_id id)
{
    for (int i = 0; i < k->n_nodes; i++)
        if (k->nodes[i] == id) return true;
    return false;
}

/* `laid`: where it lies otherwise than the library takes it, it is laid out first; `convolves`: or read where it lies. */
static bool library_operand(const fb_kernel_nodes *k, fb_id contraction, int number, bool laid, bool convolves,
                            fb_verdict *why)
{
    const fb_graph *g = k->graph;
    fb_id arg = g->nodes[contraction].args[number];
    const char *matmul = g->nodes[contraction].name, *name = g->nodes[arg].name;
    if (inside(k, fb_access_base(g, arg))) {
        *why = fb_verdict_make(FB_VERDICT_UNSUPPORTED, FB_RULE_LIBRARY,
                               "library call `%s` reads its operands from memory: `%s` must be stored first", matmul,
                               g->nodes[fb_access_base(g, arg)].name);
        return false;
    }
    fb_operand_way way = fb_storage_operand(g, contraction, number, (int64_t[FB_MAX_RANK]){0});
    if (convolves || way == FB_OPERAND_LIES || (way == FB_OPERAND_LAID_OUT && laid)) return true;
    *why = fb_verdict_make(
        FB_VERDICT_UNSUPPORTED, FB_RULE_LIBRARY,
        "`%s` reads `%s` through views that are no matrix of rows or columns at one stride, which is all "
        "that the library takes",
        matmul, name);
    return false;
}

static bool library_kind(const fb_kernel_nodes *k, const census *c)
{
    (void)c;
    return k->n_contractions > 0;
}

static bool call_accepts(const fb_machine *m, const fb_kernel_nodes *k, bool laid, fb_verdict *why)
{
    const fb_graph *g = k->graph;
    fb_id product = k->contractions[0];
    const fb_node *n = &g->nodes[product];
    if (k->n_contractions > 1) {
        *why = fb_verdict_make(FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                               "one library call makes one product, and here are %d, `%s` among them",
                               k->n_contractions, n->name);
        return false;
    }
    for (int i = 0; i < k->n_nodes; i++) {
        fb_op_class cls = fb_node_class(g, k->nodes[i]);
        if (cls == FB_CLASS_POINTWISE || cls == FB_CLASS_CONTRACTION || cls == FB_CLASS_EFFECT) continue;
        *why = fb_verdict_make(
            FB_VERDICT_UNSUPPORTED, FB_RULE_LIBRARY,
            "after its product, library call `%s` does element-wise work only, and `%s` is something else", n->name,
            g->nodes[k->nodes[i]].name);
        return false;
    }
    bool convolves = laid && fb_library_convolves(m, g, product, NULL, NULL, NULL);
    for (int arg = 0; arg < 2; arg++)
        if (!library_operand(k, product, arg, laid, convolves, why)) return false;
    fb_library_epilogue epilogue;
    if (m->target->library_epilogues) return fb_library_epilogue_of(m, k, &epilogue, why);
    for (int i = 0; i < k->n_stored && k->n_nodes > 1; i++) {
        if (k->stored[i] != product || !g->lies_as[product]) continue;
        *why =
            fb_verdict_make(FB_VERDICT_UNSUPPORTED, FB_RULE_LIBRARY,
                            "`%s` is stored channels last, and what follows it in its kernel goes row by row: it is a "
                            "call of its own",
                            n->name);
        return false;
    }
    return true;
}

static bool library_accepts(const fb_machine *m, const fb_kernel_nodes *k, fb_verdict *why)
{
    return call_accepts(m, k, false, why);
}

static bool laid_accepts(const fb_machine *m, const fb_kernel_nodes *k, fb_verdict *why)
{
    return call_accepts(m, k, true, why);
}

/* A tile of few rows, columns or steps is mostly empty, and a small product has few tiles: then loops with a team of
 * threads for each sum keep more of a GPU busy. A large one would read a matrix once for every row. */
static bool fills_tiles(const fb_graph *g, fb_id contraction)
{
    enum { FEW = 4, SMALL = 1 << 22 };
    fb_contraction c = fb_contraction_of(g, contraction);
    bool few = c.rows <= FEW || c.columns <= FEW || c.depth <= FEW;
    return c.rows > 1 && c.columns > 1 && !(few && c.batch * c.rows * c.columns * c.depth <= SMALL);
}

/* A product with a vector, or of vectors, is bound by memory: a reduction loop does as well and fuses with more. */
static bool library_preferred(const fb_machine *m, const fb_kernel_nodes *k)
{
    fb_contraction product = fb_contraction_of(k->graph, k->contractions[0]);
    if (m->target->tiles && !fills_tiles(k->graph, product.node)) return false;
    return product.columns > 1 && product.depth > 1;
}

/* Where nothing else makes tiles of operands that lie otherwise, laying out those of a large product costs less than
 * loops that read each element again for every sum: but for few rows by windows, of which loops keep near what they have
 * in common (schedule/staged.c). */
static bool laid_preferred(const fb_machine *m, const fb_kernel_nodes *k)
{
    enum { LARGE = 1 << 23, FEW = 6 };
    fb_contraction product = fb_contraction_of(k->graph, k->contractions[0]);
    bool few = product.rows <= FEW && fb_node_is_windows(k->graph, product.operand[1]);
    return !m->target->tiles && library_preferred(m, k) && fb_node_flops(k->graph, product.node) >= LARGE && !few;
}

/* A smaller one too, where neither loops nor a chain take it with all that it is to be one kernel with. */
static bool laid_instead(const fb_machine *m, const fb_kernel_nodes *k)
{
    return !m->target->tiles && library_preferred(m, k);
}

/* ---- generated contractions ---- */

/* What is no more than dots with vectors is a reduction. */
static bool gemm_kind(const fb_kernel_nodes *k, const census *c)
{
    (void)c;
    for (int i = 0; i < k->n_contractions; i++) {
        fb_contraction product = fb_contraction_of(k->graph, k->contractions[i]);
        if (product.rows > 1 && product.columns > 1) return true;
    }
    return false;
}

static bool tile_kind(const fb_kernel_nodes *k, const census *c)
{
    (void)c;
    for (int i = 0; i < k->n_contractions; i++)
        if (fills_tiles(k->graph, k->contractions[i])) return true;
    return false;
}

static bool gemm_fits(const fb_analysis *a, const fb_knobs *knobs, fb_verdict *why)
{
    fb_gemm_tile tile;
    return fb_gemm_tile_of(a->nest, knobs, &tile, why);
}

static double gemm_us(const fb_graph *g, const fb_machine *m, const fb_analysis *a)
{
    return fb_gemm_us(a->nest, a->knobs, m) + rest_us(g, m, a);
}

/* ---- the others ---- */

/* What computes nothing copies a view or source as it is. */
static bool copy_kind(const fb_kernel_nodes *k, const census *c)
{
    if (k->n_nodes == 0) return true;
    return k->n_nodes == 1 && (c->n[FB_CLASS_JOIN] || c->n[FB_CLASS_GATHER]);
}

static bool pointwise_kind(const fb_kernel_nodes *k, const census *c)
{
    return !c->n[FB_CLASS_REDUCTION] && !c->n[FB_CLASS_SCAN] && !k->n_contractions;
}

static bool reduce_kind(const fb_kernel_nodes *k, const census *c)
{
    return !pointwise_kind(k, c);
}

/* More than one contraction, or one with something else: that alone neither a library call nor a reduction loop takes.
 */
static bool chain_kind(const fb_kernel_nodes *k, const census *c)
{
    (void)c;
    return k->n_contractions > 1 || (k->n_contractions == 1 && k->n_nodes > 1);
}

/* A tile of a contraction could make a small one again for each of its elements: the chain goes first. */
static bool pair_kind(const fb_kernel_nodes *k, const census *c)
{
    (void)c;
    return k->n_contractions == 2;
}

static bool chain_fits(const fb_analysis *a, const fb_knobs *knobs, fb_verdict *why)
{
    fb_chain_tile tile;
    return !fb_schedule_chain_on_gpu(a->nest) || fb_schedule_chain_tile(a->nest, knobs, &tile, why);
}

static bool has_tiles(const fb_target *target)
{
    return target->tiles;
}

/* What a chain's products are made by: tiles, or calls from within the kernel. */
static bool has_chains(const fb_target *target)
{
    return target->tiles || target->calls_library;
}

static const family_row table[] = {
    {.family = FB_FAMILY_COPY, .its_kind = copy_kind, .compute_us = scalar_us, .grid_us = fb_grid_elements_us},
    {.family = FB_FAMILY_POINTWISE,
     .its_kind = pointwise_kind,
     .compute_us = scalar_us,
     .grid_us = fb_grid_elements_us},
    {.family = FB_FAMILY_LIBRARY,
     .kind = FB_NEST_CALL,
     .its_kind = library_kind,
     .accepts = library_accepts,
     .preferred = library_preferred,
     .compute_us = library_us},
    {.family = FB_FAMILY_CHAIN,
     .kind = FB_NEST_CHAIN,
     .runs_on = has_tiles,
     .tells_all = FB_RULE_SIZE,
     .its_kind = pair_kind,
     .fits = chain_fits,
     .compute_us = chain_us,
     .grid_us = fb_grid_tiles_us},
    {.family = FB_FAMILY_GEMM,
     .kind = FB_NEST_TILES,
     .runs_on = has_tiles,
     .telling = true,
     .its_kind = tile_kind,
     .fits = gemm_fits,
     .compute_us = gemm_us,
     .grid_us = fb_grid_tiles_us},
    {.family = FB_FAMILY_LIBRARY,
     .kind = FB_NEST_CALL,
     .its_kind = library_kind,
     .accepts = laid_accepts,
     .preferred = laid_preferred,
     .compute_us = library_us},
    {.family = FB_FAMILY_REDUCE, .its_kind = reduce_kind, .compute_us = reduce_us, .grid_us = fb_grid_rows_us},
    {.family = FB_FAMILY_GEMM,
     .kind = FB_NEST_TILES,
     .runs_on = has_tiles,
     .telling = true,
     .its_kind = gemm_kind,
     .fits = gemm_fits,
     .compute_us = gemm_us,
     .grid_us = fb_grid_tiles_us},
    {.family = FB_FAMILY_CHAIN,
     .kind = FB_NEST_CHAIN,
     .runs_on = has_chains,
     .tells_all = FB_RULE_SIZE,
     .its_kind = chain_kind,
     .fits = chain_fits,
     .compute_us = chain_us,
     .grid_us = fb_grid_tiles_us},
    {.family = FB_FAMILY_LIBRARY,
     .kind = FB_NEST_CALL,
     .quiet = true,
     .its_kind = library_kind,
     .accepts = laid_accepts,
     .preferred = laid_instead,
     .compute_us = library_us},
};
enum { ROWS = sizeof table / sizeof *table };

/* ---- choosing ---- */

static bool wanted(const fb_machine *m, const family_row *row, const fb_kernel_nodes *k, const census *c,
                   fb_choice choice)
{
    bool call = fb_family_row_of(row->family)->calls;
    if (row->runs_on && !row->runs_on(m->target)) return false;
    if (!row->its_kind(k, c) || (choice == FB_CHOICE_LIBRARY && k->n_contractions && !call)) return false;
    if (!call) return true;
    return choice == FB_CHOICE_LIBRARY || (choice == FB_CHOICE_AUTO && (!row->preferred || row->preferred(m, k)));
}

static bool try_row(const fb_planner *p, const family_row *row, fb_analysis *a, fb_verdict *why)
{
    if (row->accepts && !row->accepts(&p->machine, &a->kernel, why)) return false;
    a->kernel.kind = row->kind;
    a->nest_arena = fb_arena_new();
    a->nest = fb_nest_build(a->nest_arena, &a->kernel, &p->machine, why);
    if (!a->nest || (row->fits && !row->fits(a, NULL, why))) {
        fb_arena_free(a->nest_arena);
        a->nest_arena = NULL;
        a->nest = NULL;
        return false;
    }
    fb_nest_facts_of(a->nest, &a->facts);
    a->family = row->family;
    return true;
}

void fb_judge_family(const fb_planner *p, fb_analysis *a)
{
    census c = count(&a->kernel);
    bool said = false; /* a refusal that says more than what is to come */
    for (int i = 0; i < ROWS && !a->accepted; i++) {
        const family_row *row = &table[i];
        fb_verdict why = {0};
        if (!wanted(&p->machine, row, &a->kernel, &c, a->choice)) continue;
        a->accepted = try_row(p, row, a, &why);
        bool all = row->tells_all != FB_RULE_NONE && why.rule == row->tells_all;
        if (!a->accepted && (all || !said) && !row->quiet) a->why = why;
        said |= row->telling || all;
    }
}

bool fb_library_takes(const fb_planner *p, const fb_ids *nodes, const fb_ids *stored, fb_verdict *why)
{
    fb_arena *arena = fb_arena_new();
    fb_kernel_nodes k = fb_nest_kernel_of(arena, p->g, nodes->at, nodes->n, stored->at, stored->n);
    bool takes = library_accepts(&p->machine, &k, why);
    fb_arena_free(arena);
    return takes;
}

/* Rows of one family differ in what they accept alone. NULL: of what no row makes. */
static const family_row *row_of(fb_family f)
{
    for (int i = 0; i < ROWS; i++)
        if (table[i].family == f) return &table[i];
    return NULL;
}

double fb_judge_compute_us(const fb_graph *g, const fb_machine *m, const fb_analysis *a)
{
    const family_row *row = row_of(a->family);
    return row ? row->compute_us(g, m, a) : 0;
}

void fb_judge_grid_us(const fb_machine *m, const fb_analysis *a, fb_group_cost *out)
{
    const family_row *row = row_of(a->family);
    if (row && row->grid_us) row->grid_us(m, a, out);
}

bool fb_judge_fits(const fb_analysis *a, const fb_knobs *knobs, fb_verdict *why)
{
    const family_row *row = row_of(a->family);
    return !row || !row->fits || row->fits(a, knobs, why);
}

bool fb_judge_stands_alone(const fb_machine *m, fb_family f)
{
    const fb_family_row *row = fb_family_row_of(f);
    return row->lone || (row->calls && !m->target->calls_library);
}
