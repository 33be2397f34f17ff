/* What the files of the trials share; nothing outside trial*.c includes it.
 *
 *     trial.c            what is asked for, cut into blocks; threads; blocks handed over
 *     trial_demand.c     which part of every node a block needs
 *     trial_eval.c       one block: nodes in order, freed after their last use; loops and assigns
 *     trial_round.c      how lanes round, and what they draw
 *     trial_pointwise.c  pointwise ops and their decisions
 *     trial_near.c       slow functions near the exact lane
 *     trial_reduce.c     reductions, running sums and products
 *     trial_view.c       sources, views, joins
 *     trial_contract.c   matmul, embedding, index_add
 *     trial_show.c       how a run was cut and where its time went, for FB_DEBUG
 *
 * A value is the part of a node inside a box, one plane of 8-byte cells a lane (doubles or int64_t), row-major within
 * the box; a value in which all lanes agree has one plane. Cells are counted and immutable once an evaluator has
 * returned.
 */
#ifndef FB_INTERP_TRIAL_PARTS_H
#define FB_INTERP_TRIAL_PARTS_H

/* Loops over planes are worth the vectoriser's trouble, whatever the build asks for. Before all else, so that inline
 * functions of other headers may join them. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC optimize("O3", "no-trapping-math", "no-math-errno")
#endif

/* The loops in which the time goes, in the widest vectors that the machine has. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && defined(__x86_64__) &&                        \
    defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FB_TRIAL_WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FB_TRIAL_WIDE
#endif

#include "base/rng.h"
#include "interp/trial.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { FB_LANES = 1 + FB_TRIALS, FB_TRIAL_CHUNK = 256, FB_SUM_PARTS = 8 };

/* lo … hi - 1 in each dimension of the node's shape. */
typedef struct {
    int64_t lo[FB_MAX_RANK], hi[FB_MAX_RANK];
} fb_box;

/* What sizes of errors need of a product's right operand: found once while its cells live. */
typedef struct {
    int64_t matrices, k, n;
    double *norm;        /* of columns, a matrix after the other */
    double *root;        /* the same: √Σm² of values that occur m times */
    double *parts;       /* sums of FB_SUM_PARTS parts of k each: part after part, of a matrix all columns */
    unsigned char *even; /* of columns: a bit for each part whose elements are nearly equal */
    double *alike;       /* of each matrix: the largest share of a column's norm that its parts' means make up */
    int lowest;          /* no element has a bit below 2^lowest; -64 or less: not looked for */
} fb_columns;
void fb_trial_free_columns(fb_columns *c);

typedef struct fb_cells {
    int refs;
    bool borrowed;       /* of a value that all threads share */
    int64_t room;        /* in cells */
    fb_columns *columns; /* may be NULL */
    float *alike;        /* of sums, an element each: how many terms are nearly equal; NULL: nowhere all of them */
    float *taken;        /* of sums of s->again, an element each: how large the product in it is; NULL */
    float *summed;       /* of sums of s->apart, an element each: how large what was added up is; NULL */
    double *margins;     /* of what comparisons decided, an element each: how many spreads from where it turns; NULL */
    struct fb_cells *next;
    union {
        double *f;
        int64_t *i;
        uint64_t *raw;
    } at;
} fb_cells;

typedef struct {
    bool wanted; /* of this block; with `box` */
    fb_box box;
    int64_t n; /* cells of the box: a plane */
    int lanes; /* 0: not there (yet); 1: all agree; else all */
    fb_cells *cells;
} fb_trial_value;

/* What all threads share. Nodes that are needed have a slot; slots are in the order of ids. */
typedef struct {
    const fb_graph *g;
    const fb_trial_options *o;
    int lanes; /* 1 + trials */
    int n_slots;
    fb_id *order;         /* the node of a slot */
    int *slot;            /* of a node; -1 */
    const void **given;   /* a slot each; its bytes or NULL. Values of files are read once and are given too */
    void **owned;         /* a slot each: of those, what is to be freed */
    bool *leaf;           /* a slot each: given, a source, or done before all blocks */
    fb_trial_value *done; /* a slot each: what is, whole; lanes 0: it is not */
    bool *in_body;        /* a slot each: evaluated when its loop runs */
    bool *runs;           /* a region each: its loop is run */
    bool *by_rows;        /* a region each: its loop may be run for some of the rows of what it carries */
    bool *streams;        /* a slot each: only loops read it, step by step: it is never there as a whole */
    bool *fixed;          /* a slot each: in a body, and the same in all steps */
    bool *kept;           /* a slot each: not to be dropped: asked for, or assigned in a body */
    bool *through;        /* a slot each: a view in steps that such views alone read: they read what it views */
    bool *fused;          /* a slot each: a product that a sum may take in as it is */
    bool *again;          /* a slot each: such a sum, which several nodes read and a kernel may compute for each */
    bool *apart;          /* a slot each: readers may have it as different kernels, or loops of one, rounded it */
    bool *multiplied;     /* a slot each: a product of matrices reads it, as it is or through views */
    bool *steady;         /* a slot each: f32 that all kernels compute alike from what is given */
    bool *sum;            /* a slot each: steady, and summed up, or handed on from what was: as wide as a lane has it */
    unsigned char *led;   /* a slot each: how many nodes before it hand on what they choose; modulo FB_TRIALS */
    char *of_two;         /* a slot each: the first (1), or the second (2), of two products that are added up; 0 */
    fb_id *last_use;      /* a slot each: the last node of its own region that needs it */
    double *cost;         /* a slot each, of one element, about */
    atomic_llong *took;   /* a slot each: ns, of all threads that evaluated it; NULL: nobody looks */
    int64_t bytes_max;
    atomic_llong bytes;
    _Atomic double cost_done;
    double cost_total;
    int64_t elements_total;
    atomic_bool stop;
    pthread_mutex_t lock; /* of what follows */
    fb_trial_overflow overflow;
    fb_error err;
} fb_trial_shared;

/* One evaluation under way, of one thread. */
typedef struct {
    fb_trial_shared *s;
    int thread;
    int workers;              /* threads for the work inside one node; 1 where blocks run beside each other */
    fb_trial_value *values;   /* a slot each */
    fb_trial_value **results; /* a region each: of its loop; carried values, then stacked */
    fb_cells *pool;
    int64_t pool_bytes;
} fb_trial_eval;

/* ---- boxes ---- */

fb_box fb_box_whole(const fb_shape *s);
int64_t fb_box_cells(const fb_box *b, int rank);
fb_shape fb_box_extents(const fb_box *b, int rank);           /* of its first dims */
void fb_box_steps(const fb_box *b, int rank, int64_t *steps); /* row-major within the box */
/* Grows `to` to hold b as well. */
void fb_box_join(fb_box *to, const fb_box *b, int rank);
/* The least box that holds elements first … last of a tensor. */
fb_box fb_box_of_range(const fb_shape *s, int64_t first, int64_t last);

/* ---- values ---- */

static inline fb_trial_value *fb_trial_at(const fb_trial_eval *e, fb_id id)
{
    return &e->values[e->s->slot[id]];
}
static inline const fb_node *fb_trial_node(const fb_trial_eval *e, fb_id id)
{
    return &e->s->g->nodes[id];
}
static inline const uint64_t *fb_trial_raw(const fb_trial_value *v, int lane)
{
    return v->cells->at.raw + (lane < v->lanes ? lane * v->n : 0);
}
static inline double *fb_trial_f(const fb_trial_value *v, int lane)
{
    return v->cells->at.f + (lane < v->lanes ? lane * v->n : 0);
}
static inline int64_t *fb_trial_i(const fb_trial_value *v, int lane)
{
    return v->cells->at.i + (lane < v->lanes ? lane * v->n : 0);
}

/* Cells, not zeroed; NULL with an error that names the node. */
fb_cells *fb_trial_cells(fb_trial_eval *e, fb_id node, int64_t cells);
void fb_trial_cells_drop(fb_trial_eval *e, fb_cells *c);
/* Cells for the value of `id`, whose box is set. */
bool fb_trial_open(fb_trial_eval *e, fb_id id, int lanes);
void fb_trial_drop(fb_trial_eval *e, fb_trial_value *v);
bool fb_trial_fail(fb_trial_eval *e, fb_error_kind kind, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Calls fn for parts of 0 … n - 1, each at least `grain` long, on as many threads as the evaluation may use. */
void fb_trial_for(const fb_trial_eval *e, int64_t n, int64_t grain, void (*fn)(void *ctx, int64_t first, int64_t last),
                  void *ctx);

/* Gives the value's cells room for `alike`, all 0. */
float *fb_trial_alike(fb_trial_value *v);

/* The same for `taken`, and for `summed`. */
float *fb_trial_taken(fb_trial_value *v);
float *fb_trial_summed(fb_trial_value *v);
/* Gives the value's cells room for `margins`, all infinite: certain. */
double *fb_trial_margins(fb_trial_value *v);
/* Margins as a value of one lane beside `of`, which has them; lives as long as `cells` and those of `of`. */
fb_trial_value fb_trial_margins_of(const fb_trial_value *of, fb_cells *cells);

/* The most lanes that operands of the node have. */
int fb_trial_lanes_of(const fb_trial_eval *e, const fb_node *node);

/* ---- demand ---- */

/* From values[].wanted and box of what is asked for to those of all slots below `end`. */
void fb_trial_demand(const fb_trial_shared *s, fb_trial_value *values, int end);
/* Which part of operand `a` the box of the node needs; false: none. */
bool fb_trial_needs(const fb_graph *g, const fb_node *node, int a, const fb_box *box, fb_box *of);
double fb_trial_cost(const fb_trial_shared *s, const fb_trial_value *values, int end);

/* ---- evaluators: fill the value of id, whose box is set, from those of its operands ---- */

void fb_trial_eval_open(fb_trial_eval *e, fb_trial_shared *s, int thread);
void fb_trial_eval_close(fb_trial_eval *e);
void fb_trial_empty_pool(fb_trial_eval *e);
/* Is the slot never there, because all that read it read what it is a view of? Not where it is asked for after all. */
static inline bool fb_trial_passes(const fb_trial_shared *s, int slot)
{
    return s->through[slot] && !s->kept[slot] && !s->leaf[slot];
}
/* Slots first … end - 1 that are wanted: those in no body that runs (region 0), or those of one. */
bool fb_trial_evaluate(fb_trial_eval *e, int first, int end, fb_id region);
void fb_trial_clear(fb_trial_eval *e); /* all values, for the next block */
bool fb_trial_source(fb_trial_eval *e, fb_id id);
bool fb_trial_pointwise(fb_trial_eval *e, fb_id id);
bool fb_trial_view(fb_trial_eval *e, fb_id id);
/* Does a step a dimension lead from each element of the view to the next one's in its operand? */
bool fb_trial_steps(fb_op op);
bool fb_trial_join(fb_trial_eval *e, fb_id id);
bool fb_trial_reduction(fb_trial_eval *e, fb_id id);
bool fb_trial_scan(fb_trial_eval *e, fb_id id);

/* A reduction of floats (no argmax) whose operand comes slab by slab, in the order of its elements. */
typedef struct fb_trial_fold fb_trial_fold;
fb_trial_fold *fb_trial_fold_open(const fb_trial_eval *e, fb_id id);
void fb_trial_fold_add(fb_trial_fold *f, fb_trial_eval *e, const fb_box *of); /* `of` the operand, which e holds */
bool fb_trial_fold_close(fb_trial_fold *f, fb_trial_eval *e); /* fills the value of id, whose box is whole; frees f */

bool fb_trial_matmul(fb_trial_eval *e, fb_id id);
bool fb_trial_gather(fb_trial_eval *e, fb_id id);
bool fb_trial_loop(fb_trial_eval *e, fb_id id);

/* A slow function in lanes 1 … of a chunk, from its values v at x[0]; false: it has no expansion. */
bool fb_trial_near(fb_op op, const fb_attrs *at, int n, int lanes, const double *const *x, const double *v,
                   double (*y)[FB_TRIAL_CHUNK]);

/* The elements of a leaf inside a box, as cells. */
bool fb_trial_leaf(fb_trial_eval *e, fb_id id, const fb_box *box, uint64_t *to);
/* The cells of `box` out of a plane that holds the box `of`. */
void fb_trial_take(uint64_t *to, const uint64_t *plane, const fb_box *of, const fb_box *box, int rank);

/* ---- showing ---- */

/* Where FB_DEBUG has its letter: opens and shows `took`. Bodies of loops are in the time of their loop as well. */
void fb_trial_watch(fb_trial_shared *s);
void fb_trial_show_took(fb_trial_shared *s);

/* ---- rounding ---- */

/* How a lane rounds the results of a node. */
typedef struct {
    fb_dtype to;
    uint64_t key;
    bool flush;   /* what is too small for a normal number is 0 */
    bool by_rest; /* draws by what is cut off; else by what is left */
    bool nearest; /* rounds to the nearest and draws nothing */
} fb_rounding;

/* As a value in a kernel; stored: as what a kernel stores. Lanes 1 … */
fb_rounding fb_rounding_of(const fb_trial_shared *s, int lane, fb_id node, fb_dtype dtype, bool stored);
/* Rounds; `to` is not `from`. Returns the first element that overflowed, -1: none. */
int fb_round_lane(const fb_rounding *r, int n, const double *from, double *to);
/* Does the dtype hold all of them, whatever the device? */
bool fb_all_representable(fb_dtype dtype, int64_t n, const double *x);

/* 32 random bits of a value's bits. Products of 32 bits alone, which vectors have. */
static inline uint64_t fb_trial_draw_wide(uint64_t bits, uint64_t key)
{
    const uint64_t low = 0xffffffffu;
    uint64_t m = (((bits >> 32) ^ key) & low) * 0x9e3779b1u;
    m ^= bits & low;
    m = ((m ^ m >> 32 ^ key >> 32) & low) * 0x85ebca6bu;
    m = ((m ^ m >> 31) & low) * 0xc2b2ae35u;
    return (m ^ m >> 32) & low;
}
static inline uint32_t fb_trial_draw(uint64_t bits, uint64_t key)
{
    return (uint32_t)fb_trial_draw_wide(bits, key);
}
/* The same in [-1, 1). */
static inline double fb_trial_swing(uint64_t bits, uint64_t key)
{
    return (double)(int32_t)fb_trial_draw(bits, key) * 0x1p-31;
}
/* The bits of the f32 that a value falls into, so that what differs by the reference's own rounding alone draws alike.
 */
static inline uint64_t fb_trial_bits(double x)
{
    uint64_t bits;
    double f = (double)(float)x;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* What a lane draws once for a node: a key, and a share in [-1, 1], spread evenly over the lanes. */
typedef enum {
    FB_DRAW_ROUND,
    FB_DRAW_FUNCTION,
    FB_DRAW_SUM,
    FB_DRAW_CUT,
    FB_DRAW_OPERAND,
    FB_DRAW_MEAN,
    FB_DRAW_REST,
    FB_DRAW_PLACE,
    FB_DRAW_READ,
    FB_DRAW_SIGN
} fb_draw;
uint64_t fb_trial_key(const fb_trial_shared *s, int lane, fb_id node, fb_draw what);

/* What several read (s->apart), as one of them has it in the lanes from FB_TRIAL_READ_FIRST on: a loop that computes it
 * anew may round otherwise than another. x: in the exact lane; own: in this one, for others; size: of x, or of what it
 * was added up of, for little may be left of that. Nowhere further off than a lane was before, so that what a chain of
 * residuals adds up does not grow. What lies far apart was turned by a decision, which all readers see. */
enum { FB_TRIAL_READ_FIRST = 7 };
static inline double fb_trial_read(double x, double own, double spread, double size, uint64_t key)
{
    static const double far = 0x1p-4; /* of its size */
    return spread <= far * size && isfinite(own) ? x + fb_trial_swing(fb_trial_bits(x), key) * spread : own;
}

double fb_trial_share(const fb_trial_shared *s, int lane, fb_id node, fb_draw what);

/* A sum with its next term in the accumulator: one of doubles is `wide`, all others are of floats. */
static inline double fb_trial_accumulated(double sum, double term, bool wide)
{
    double next = sum + term;
    return wide ? next : (double)(float)next;
}

/* Which of two ways lane 1 … takes a decision that could go both: of each two lanes one. */
static inline bool fb_trial_takes(int lane, uint32_t draw)
{
    return ((draw >> ((lane - 1) / 2 % 16)) & 1) != (uint32_t)((lane - 1) & 1);
}

/* Which lane of a node that chooses goes where no lane went by chance, of an element with that value. Not the same of
 * two such nodes of a few in a row, whose elements may be equal: their difference would hide it. */
int fb_trial_led(const fb_trial_eval *e, fb_id id, double value);

/* u of what a dtype computes in: f32 at least. */
static inline double fb_trial_unit(fb_dtype dtype)
{
    return dtype == FB_F64 ? 0x1p-53 : 0x1p-24;
}

/* The same for a product, s · v of s · v - s · w: off by what adding s up again may change, and no further. Were it by
 * all that s spreads, each layer of a deep network would multiply what the one before it has. What is stored in 16 bits
 * is summed up in f32, and few such elements fall otherwise. */
static inline double fb_trial_read_again(double x, double own, double spread, fb_dtype dtype, uint64_t key)
{
    enum { UNITS = 64 };
    double most = UNITS * fb_trial_unit(dtype) * fabs(x);
    return isfinite(own) ? own + fb_trial_swing(fb_trial_bits(x), key) * fmin(spread, most) : own;
}

/* Notes that element `at` of the value of `id` overflowed. */
void fb_trial_overflowed(fb_trial_eval *e, fb_id id, int64_t at, double value);

/* Does the op hand on one of its operands' elements, by a comparison? */
bool fb_trial_chooses(fb_op op);
/* Rounds the results of one lane from `from` into cells at … at + n - 1 of the value of `id`; notes what overflows. */
void fb_trial_settle(fb_trial_eval *e, fb_id id, int lane, int64_t at, int n, const double *from);

/* ---- sums ---- */

/* Exactness: every term is a multiple of 2^lowest and all of them together fit the accumulator. */
typedef struct {
    double magnitude;
    int lowest;
    bool over; /* not exact any more */
} fb_exactness;
void fb_exactness_add(fb_exactness *x, bool wide, double term);
int fb_lowest_bit(double x);

/* Of a row: its result is one of the elements. */
static inline bool fb_trial_is_extremum(fb_op op)
{
    return op == FB_OP_AMAX || op == FB_OP_AMIN;
}

/* The γ of n terms of which `repeats` is Σm² (parts.h), as it is likely to be and not as it is at most. */
static inline double fb_trial_gamma(fb_dtype dtype, int64_t n, double repeats)
{
    return fmin((double)n, sqrt(fmax(repeats, (double)n))) * fb_trial_unit(dtype);
}

/* The error of a sum in a lane, whose size is γ·max(|partial sums|, ‖terms‖₂). */
static inline double fb_trial_sum_error(const fb_trial_shared *s, int lane, fb_id node, double sum, double size)
{
    return size == 0 ? 0 : fb_trial_swing(fb_trial_bits(sum), fb_trial_key(s, lane, node, FB_DRAW_SUM)) * size;
}

/* Terms in their order, those of the exact lane. */
typedef struct {
    uint64_t hash;
    int64_t terms; /* that are not 0 */
} fb_trial_order;

static inline void fb_trial_order_add(fb_trial_order *o, double term)
{
    o->hash = fb_splitmix64(o->hash ^ fb_trial_bits(term));
    o->terms += term != 0;
}

/* The same of a sum of such terms. Two sums of equal terms in unlike orders are equal, and a kernel need not round them
 * alike: two lanes draw by the order, opposite ways, so that which one is the larger is not certain by chance. Of two
 * terms both orders are rounded alike. */
static inline double fb_trial_ordered_error(const fb_trial_shared *s, int lane, fb_id node, double sum, double size,
                                            const fb_trial_order *of)
{
    enum { ONE = 2, OTHER = 6 };
    if ((lane != ONE && lane != OTHER) || size == 0 || of->terms < 3)
        return fb_trial_sum_error(s, lane, node, sum, size);
    double off = fb_trial_swing(of->hash, fb_trial_key(s, 0, node, FB_DRAW_PLACE)) * size;
    return lane == ONE ? off : -off;
}

#endif
