/* Trials: what honest arithmetic may give. Nodes are evaluated in double from given values, and beside that once more
 * in each of several *trials*, in which every result is rounded as a device in the nodes' dtypes may round it. How far
 * the trials lie from the exact value is how far a right kernel may lie from it: measured, element by element, instead
 * of bounded by a worst case that grows with depth.
 *
 * Lane 0 is exact: double throughout, decisions as they fall. Lanes 1 … FB_TRIALS round:
 *   - a value that its dtype holds stays; any other goes to one of its two neighbours, up with the probability of its
 *     place between them. In one lane all values of a node that lie between the same two neighbours share one
 * threshold, for a device rounds equal values alike, and a tensor of almost equal values is off by almost the same
 * everywhere.
 *   - of values that a kernel need not store, casts among them, a lane rounds some to their dtype and keeps the others
 *     wider (16-bit ones in f32; f32 as a fused multiply-add keeps its product; lane 1 rounds all, lane 2 none, lane 3
 *     sums and products of matrices alone). What is wanted is always rounded, and so is f32 that is chosen by
 * comparison, or computed from what is given without a product that could go into a sum.
 *   - numbers of f32 and bf16 too small to be normal are 0 in half of the lanes: devices may flush them.
 *   - sums and products are off by what adding their terms in the accumulator (f32 at least) may cost: a random share
 * of u·√n·max(|partial sums|, ‖terms‖₂), of u·n where terms repeat (see parts.h, fb_bound_gamma), and for
 *     products of 16-bit and tf32 operands a share, one a lane, of what accumulators that cut off instead of rounding
 *     lose. tf32: half of the lanes cut the operands' bits off, half round them. Sums that no order rounds (of small
 *     whole numbers, say) are exact. In half of the lanes equal sums of a product are rounded unlike, by their places
 * in the whole tensor, as in the middle of a library's tile and at its edge; in two, those of rows whose terms come in
 * another order. In half of the lanes all elements of one
 * line of a cumsum or cumprod have one share, for what is lost early is missing from the rest. Factors next to 1 lose
 * about the same each time: products of parts of them show how much. Two products that are added up may share an
 *     accumulator: terms that are nearly equal lose alike, as much as the other sum is rounded by.
 *   - functions (exp, tanh …) are off by a share, one a lane and node or (half of the lanes) one a value, of the
 * accuracy that devices promise, in the precision that they compute in (f32 at least).
 *   - f64 has no wider type to round from: a result that is not exact is put off by up to two units in the last place.
 *     The exact lane itself is rounded there, so that a judge of f64 must allow for that.
 *   - decisions (comparisons, floor, sign, casts to integers, argmax, remainder) whose margin is within FB_TRIAL_MARGIN
 *     times what the lanes spread it are taken both ways: by one lane down for all that is open, by one up, and by each
 *     other as it draws for each. What compares values in which all lanes agree is certain. Divisors, and what a
 *     logarithm is taken of, are 0 in half of the
 * lanes where that lies as near. What relu, clamp and their like cut off may lie beyond their bound in a kernel though
 * it does so in no lane: where FB_TRIAL_CHANCE spreads of the operand lead there, one lane goes that share of the way.
 * So do the extremum of a row, and choices between values that meet where the choice turns. Casts to integers that do
 * not hold the value go several ways. All is a function of lane, node, value and place in the tensor alone: the same
 * whatever the number of threads or the way of cutting into blocks, but for the order in which BLAS adds in products of
 * other rows, which may turn the last bit of the exact lane and a draw with it.
 *
 * Evaluation goes from what is wanted: block by block of its elements, each with the part of every operand that it
 * needs, on all cores, so that memory is that of the blocks under way and not of the tensors. Wanted nodes that share
 * rows and work share blocks. Reductions of very long rows are computed slab by slab before all blocks. What blocks
 * cannot share is evaluated whole, and the work inside each node is split over the cores; so is that of a few blocks,
 * unless their nodes are small, as those of a loop of many steps: these blocks go beside each other.
 *
 * Loops: a wanted node of a loop's body is taken of a single step, without the loop, when all that changes from step to
 * step is given (CARRIED, ITEM and STEP nodes that it needs, parameters that the loop assigns). Otherwise the loop is
 * run, step by step and whole, and the value is that of the last step.
 */
#ifndef FB_INTERP_TRIAL_H
#define FB_INTERP_TRIAL_H

#include "interp/interp.h"

/* FB_TRIAL_CHANCE: lanes are few, so that all of an element's may lie near it by chance, while an honest value lies so
 * many of their spreads off. Hardly any lies further. */
enum { FB_TRIALS = 8, FB_TRIAL_MARGIN = 4, FB_TRIAL_CHANCE = 24 };

/* The value of a node as it is: all elements in the node's dtype, row-major; borrowed. Any node may be given, also one
 * that is computed: then it is a leaf. CARRIED, ITEM and STEP nodes of a loop whose body is looked at must be. */
typedef struct {
    fb_id node;
    const void *bytes;
} fb_given;

typedef struct {
    int n_given;
    const fb_given *given; /* ascending by node */
    uint64_t seed;         /* of sources that are not given */
    fb_file_values files;  /* may be NULL */
    void *files_ctx;
    int trials;  /* lanes beside the exact one: 0 … FB_TRIALS */
    int draw;    /* which lanes: others for each number from 0 on, of the same exact one. Less than 65536 */
    int threads; /* 0: all cores */
    /* 0: all elements; else at least so many of each wanted node, in blocks that hold its beginning, its end and places
     * between; of a node that shares the blocks of a larger one, what lies in these */
    int64_t sample;
    /* Elements of the only wanted node, ascending: the blocks that hold them are evaluated, and no others, whatever
     * `sample` says. NULL: there is no such list. */
    const int64_t *at;
    int64_t n_at;
    int64_t max_bytes; /* of blocks under way; 0: an eighth of the memory. More: FB_ERR_LIMIT, naming the node */
    /* of elements; from the calling thread alone; false cancels */
    bool (*progress)(void *ctx, int64_t done, int64_t total);
    void *progress_ctx;
} fb_trial_options;

/* Elements first … first + n - 1 of a wanted node. Floats are doubles in v, integers and bool in i. lanes: 1 + trials,
 * or 1 where all lanes agree throughout. Every lane but 0 holds values of the node's dtype. */
typedef struct {
    fb_id node;
    int want; /* which of those wanted */
    int64_t first, n;
    int lanes;
    const double *v[1 + FB_TRIALS];
    const int64_t *i[1 + FB_TRIALS];
} fb_trial_block;

/* Takes a block: each element of what is evaluated once, in any order, by several threads at a time; thread: 0 … one
 * less than fb_trial_threads(). */
typedef void (*fb_trial_sink)(void *ctx, int thread, const fb_trial_block *b);

/* The first value that its dtype could not hold: finite when computed, beyond the largest number of the dtype in a lane
 * that rounds it. */
typedef struct {
    fb_id node; /* FB_NONE: nothing overflowed */
    int64_t element;
    double value;
} fb_trial_overflow;

int fb_trial_threads(const fb_trial_options *o);

/* Evaluates `want` and hands it over. `overflow` may be NULL; only what was evaluated is looked at. ASSIGN stands for
 * its new value. Errors: FB_ERR_INPUT for a file that is not there, FB_ERR_LIMIT, FB_ERR_CANCELLED. */
bool fb_trial_run(const fb_graph *g, const fb_trial_options *o, const fb_id *want, int n_want, fb_trial_sink sink,
                  void *ctx, fb_trial_overflow *overflow, fb_error *err);

#endif
