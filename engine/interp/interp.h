/* The reference: the graph evaluated in double precision (integers in int64), with a bound on the error that computing
 * in the nodes' own dtypes may add, element by element. Independent of plans, code generation and devices: it shares
 * with them only ops.def's meaning. Contractions go through CBLAS (dgemm).
 *
 * Bound: running error analysis. Every element carries value v and bound e ≥ |computed - v| for a device that evaluates
 * each op in the node's dtype or better, in any order of summation, rounding at each node or at none, and that keeps
 * the sums of f16 and bf16 in f32 at least:
 *
 *     pointwise    a rule an op (bound.c): the largest change of f over the operands' intervals + k·u·|v|, u the
 *                  dtype's roundoff, k the accuracy allowed to the function (half an ulp for + - *, 4 ulps for exp,
 *                  tanh …), and the smallest normal number where a device may flush
 *     sums         e = Σ eᵢ + γ·Σ|xᵢ|, γ = n·u for n ≤ 32, else the probabilistic λ·√n·u (λ = 8; Higham & Mary 2019)
 *     matmul       as sums of products; tf32 adds 2^-10 an operand, since hardware may cut off instead of rounding
 *     max, relu …  pass the operands' bound on
 *
 * Comparisons, argmax, floor, sign, casts to integers are *undecided* where the operands' bounds overlap: such elements,
 * and what depends on them, carry e = INFINITY and are counted apart. So are values that may overflow the dtype.
 * where() with an undecided condition is bounded by the distance of its branches. Infinities and NaNs that come out the
 * same at all ends of the operands' intervals are certain: e = 0.
 *
 * Loops: a body's assigns take effect between its steps, for the body; what lies outside goes on reading the old value
 * until its own region ends. An ASSIGN node's value is the new one (of the last step; the old one if there was none),
 * fetched under the ASSIGN node's id. Sources hold the same in every step.
 */
#ifndef FB_INTERP_INTERP_H
#define FB_INTERP_INTERP_H

#include "graph/graph.h"

/* One evaluated tensor. Floats use `v`, integers and bool `i`; the other is NULL. Row-major. */
typedef struct {
    fb_id node;
    int64_t n;
    double *v;
    int64_t *i;
    double *bound; /* NULL where it is zero throughout (sources, exact ops on them); INFINITY: undecided. Integers and
                    * bool are exact or undecided */
} fb_tensor;

/* Bytes of FB_DIST_FILE sources; returns false when it has none of that key. Values in the node's dtype order, doubles.
 */
typedef bool (*fb_file_values)(void *ctx, const char *key, int64_t n, double *out);

typedef struct {
    uint64_t seed;
    bool bounds;          /* also compute the bounds (about twice the time) */
    uint64_t jitter;      /* not 0: each computed float is put off by a random part of its dtype's roundoff, another one
                           * for each value of this, as a device's roundings would; for samples of what they do */
    fb_file_values files; /* may be NULL */
    void *files_ctx;
    bool (*progress)(void *ctx, int done, int total); /* false cancels; may be NULL */
    void *progress_ctx;
    int64_t max_bytes; /* of tensors alive at once: refuse beyond; 0: 8 GiB */
} fb_interp_options;

typedef struct fb_interp fb_interp; /* the results; owns its tensors */

/* Evaluates all outputs and effects. Tensors that no later node needs are freed as it goes; outputs, assigned and
 * received values are kept. `keep` (or NULL) lists further nodes to keep; of a node in a loop's body it is the last
 * step's value. The graph must outlive the result. Errors: FB_ERR_LIMIT beyond max_bytes, naming the node;
 * FB_ERR_INPUT for a file that is not there; FB_ERR_CANCELLED. */
fb_interp *fb_interp_run(const fb_graph *g, const fb_interp_options *o, const fb_id *keep, int n_keep, fb_error *err);
const fb_tensor *fb_interp_get(const fb_interp *in, fb_id node); /* NULL when not kept, and for a LOOP node */
void fb_interp_free(fb_interp *in);

/* The values of a source node under a seed, already rounded to its dtype: the one place that says what an input holds.
 * `out` has room for `count` elements starting at element `from`, stored in the node's dtype (f16/bf16 as their bits).
 */
bool fb_interp_fill_source(const fb_graph *g, fb_id node, uint64_t seed, fb_file_values files, void *files_ctx,
                           int64_t from, int64_t count, void *out, fb_error *err);

#endif
