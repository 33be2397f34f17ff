/* What the interpreter's files share, and with trial*.c the meaning of ops; nothing else includes it.
 *
 *     interp.c     walks the nodes, frees what is done with, runs loops and assigns
 *     source.c     inputs, constants, iota, random
 *     pointwise.c  ops.def's f64 and i64 columns, block by block
 *     bound.c      one bound rule a pointwise op, the dtypes' and functions' accuracy
 *     view.c       views and joins, materialised; index arithmetic of its own on purpose
 *     reduce.c     reductions, running sums and products
 *     rank.c       where elements go when a row is sorted
 *     contract.c   matmul, embedding, index_add
 *
 * A value is two buffers of 8-byte cells: doubles for a float dtype, int64_t for the others, and the bounds. Buffers
 * are counted, so that a reshape or an output costs nothing, and immutable once a node's evaluator has returned.
 */
#ifndef FB_INTERP_PARTS_H
#define FB_INTERP_PARTS_H

#include "interp/interp.h"

#include <math.h>

typedef struct fb_buffer {
    int refs;
    int64_t cells;
    struct fb_buffer *next; /* in the pool of buffers to use again */
    union {
        double f[1];
        int64_t i[1];
        uint64_t raw[1];
    } * at;
} fb_buffer;

typedef struct {
    fb_buffer *data;  /* NULL: not computed */
    fb_buffer *bound; /* doubles; NULL: exact */
} fb_value;

/* What a LOOP node leaves for its RESULT nodes. */
typedef struct {
    int n;
    fb_value *results; /* final carried values, then stacked outputs */
} fb_loop_values;

struct fb_interp {
    const fb_graph *g;
    const fb_interp_options *o; /* only while fb_interp_run runs */
    fb_error *err;
    fb_value *values;      /* a node each */
    fb_tensor *tensors;    /* a node each; what fb_interp_get hands out */
    fb_loop_values *loops; /* a region each */
    fb_id *last_use;       /* a node each: the last node of its own region that needs it */
    bool *needed, *kept;
    fb_buffer *pool;
    int64_t bytes_live, bytes_pool, bytes_max;
    int64_t done, total; /* for progress */
};

/* A buffer for `cells` 8-byte cells, not zeroed, at least one; NULL with an error naming `node` beyond the limit. */
fb_buffer *fb_buffer_new(fb_interp *in, fb_id node, int64_t cells);
fb_buffer *fb_buffer_zeroed(fb_interp *in, fb_id node, int64_t cells);
fb_buffer *fb_buffer_keep(fb_buffer *b); /* one more reference; NULL stays NULL */
void fb_buffer_drop(fb_interp *in, fb_buffer *b);
fb_value fb_interp_keep_value(const fb_value *v);
void fb_interp_drop_value(fb_interp *in, fb_value *v);

/* The value of operand k of a node, and the node behind it. */
static inline const fb_value *fb_operand(const fb_interp *in, const fb_node *node, int k)
{
    return &in->values[node->args[k]];
}
static inline const fb_node *fb_operand_node(const fb_interp *in, const fb_node *node, int k)
{
    return &in->g->nodes[node->args[k]];
}

/* Evaluators: fill in->values[id] from the operands' values; false with in->err filled. */
bool fb_eval_source(fb_interp *in, fb_id id);
bool fb_eval_pointwise(fb_interp *in, fb_id id);
bool fb_eval_view(fb_interp *in, fb_id id);
bool fb_eval_join(fb_interp *in, fb_id id);
bool fb_eval_reduction(fb_interp *in, fb_id id);
bool fb_eval_scan(fb_interp *in, fb_id id);
bool fb_eval_rank(fb_interp *in, fb_id id);
bool fb_eval_contraction(fb_interp *in, fb_id id);
bool fb_eval_gather(fb_interp *in, fb_id id);

/* A line of n elements, `step` cells apart: of doubles, or of integers where `f` is NULL. */
typedef struct {
    const double *f;
    const int64_t *i;
    int64_t n, step;
    bool largest; /* it begins with the largest */
} fb_line;

/* to[k]: which element is the k-th of the sorted line; equals stay in their order, NaN is the largest. `room` is as
 * long as `to`. */
void fb_interp_sort_line(const fb_line *line, int64_t *to, int64_t *room);

/* The whole row-major tensor `shape`, read from `from` with a step (in cells, may be 0 or negative) a dimension. */
void fb_interp_copy_strided(uint64_t *to, const uint64_t *from, const fb_shape *shape, const int64_t *steps);
/* The same, with steps of its own where it is put. */
void fb_interp_copy_between(uint64_t *to, const uint64_t *from, const fb_shape *shape, const int64_t *to_steps,
                            const int64_t *from_steps);

/* c[m, n] = a[m, k] · b[k, n] without BLAS. */
void fb_matmul_plain(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c);

/* ops.def's columns over n elements; absent operands may be anything readable. The i64 form does not wrap its result.
 */
void fb_pointwise_f64(fb_op op, const fb_attrs *at, int n, const double *a, const double *b, const double *c,
                      double *to);
void fb_pointwise_i64(fb_op op, const fb_attrs *at, int n, const int64_t *a, const int64_t *b, const int64_t *c,
                      int64_t *to);
/* As fb_dtype_round, with all 64 bits of an integer: truncated and wrapped. */
int64_t fb_interp_int_of_double(fb_dtype dtype, double value);
/* What a pad node puts around its operand, as its dtype holds it: the bits of a cell. */
uint64_t fb_pad_cell(const fb_node *node);

/* ---- bounds ---- */

/* Error of one rounding into the dtype, relative; a little more than u, to cover the reference's own rounding in double
 * and devices that carry f16 in f32 between stores. */
double fb_bound_unit(fb_dtype dtype);
/* The same for the accumulator of a sum in that dtype: f32 at least. */
double fb_bound_sum_unit(fb_dtype dtype);
/* Absolute error where a result is too small for a normal number. */
double fb_bound_tiny(fb_dtype dtype);
/* γ of a sum of n terms with unit u; `repeats` is Σm², about, over the values that occur m times each. */
double fb_bound_gamma(int64_t n, double repeats, double u);
/* What rounding the sum itself into its dtype adds, relative: 0 where the accumulator has that dtype. */
double fb_bound_store_unit(fb_dtype dtype);
/* True where a device in this dtype may overflow, or where value or bound are not finite. */
bool fb_bound_overflows(fb_dtype dtype, double value, double bound);

/* How often values repeat in a sequence: a sketch of Σm² after Alon, Matias and Szegedy, right to some 20 %. Zeros
 * count for nothing. */
enum {
    FB_BOUND_BUCKETS = 64,
    FB_BOUND_SURE = 64 /* terms: up to so many γ is n, however they repeat: 8·√n is no less */
};
typedef struct {
    int64_t squares;
    int32_t bucket[FB_BOUND_BUCKETS];
} fb_bound_repeats;
void fb_bound_repeat(fb_bound_repeats *r, fb_dtype dtype, double x);

/* The terms of a sum, one after the other; n is told before. */
typedef struct {
    fb_dtype dtype, of;       /* of the sum, and of what is added */
    int64_t n;                /* all of them */
    int64_t added;            /* so far */
    double magnitude, spread; /* Σ|x|, Σe */
    int lowest;               /* no term has a bit below 2^lowest */
    fb_bound_repeats repeats;
} fb_bound_terms;
fb_bound_terms fb_bound_terms_new(fb_dtype dtype, fb_dtype of, int64_t n);
void fb_bound_term(fb_bound_terms *t, double x, double e);
/* The bound of the sum of those so far, which is `sum`. */
double fb_bound_sum(const fb_bound_terms *t, double sum);
/* The bound of a value that is not finite: certain when its operands were. */
static inline double fb_bound_special(bool certain)
{
    return certain ? 0 : INFINITY;
}

enum { FB_BLOCK = 512 };

/* A block of pointwise elements. Operands and bounds are as long as the block; bounds are never NULL here. */
typedef struct {
    const fb_attrs *at;
    fb_dtype dtype; /* of the result */
    int n;
    const double *x[3], *e[3];
    const double *v; /* the result as a double, also for comparisons */
} fb_bound_block;

/* The bounds of one block by the op's rule; `e` may not be one of the operands'. Results that are not finite get
 * INFINITY here, and the caller looks again. */
void fb_bound_pointwise(fb_op op, const fb_bound_block *b, double *e);
/* The accuracy allowed to devices for a pointwise op, in u of the result: 0 exact, 1 correctly rounded. */
int fb_bound_units(fb_op op);
/* What is rounded to the op's units beside its result, where the result may be smaller. False, and nothing is written:
 * there is no such thing. The bounds of the block do not matter. */
bool fb_bound_has_beside(fb_op op);
bool fb_bound_beside(fb_op op, const fb_bound_block *b, double *to);
/* Results of this size or less may be 0 though the dtype holds them: what they are made of was flushed. 0: none. */
double fb_bound_flushed(fb_op op, const fb_attrs *at, fb_dtype dtype);
/* Is a pointwise result rounded where it is computed, whatever becomes of it? A product that goes into a sum is not, in
 * a fused multiply-add, nor is a function that ends in a product. */
bool fb_bound_ends_rounded(fb_op op);
/* Does the op give exact results for exact operands? */
bool fb_bound_is_exact(fb_op op);

#endif
