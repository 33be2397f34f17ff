/* Index expressions: quasi-affine integer expressions over loop variables, hash-consed and simplified as they are
 * built: equal ids are equal expressions, and what chains of views make of equal indices has equal ids. They are what
 * views, joins and reshapes become: the access maps (graph/access.h) hold them, legality compares them, code generation
 * prints them.
 *
 * Kinds: constant, variable (with its extent: 0 <= v < extent), sum, constant × e, floor(e / c), e mod c (c > 0).
 * A sum is kept flat and sorted with collected coefficients: Σ cᵢ·tᵢ + c₀, terms tᵢ being variables, divs and mods.
 * Simplification uses ranges: (8·i + j) / 8 = i and (8·i + j) mod 8 = j when 0 <= j < 8; (e mod 12) mod 4 = e mod 4;
 * (e / 4) / 3 = e / 12; c·(e / c) + e mod c = e.
 */
#ifndef FB_GRAPH_INDEX_H
#define FB_GRAPH_INDEX_H

#include "base/arena.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct fb_index_pool fb_index_pool;
typedef int32_t fb_ix; /* an expression of one pool */

/* An expression lives as long as its pool. A pool is for one thread. */
fb_index_pool *fb_index_pool_new(void);
void fb_index_pool_free(fb_index_pool *pool);
size_t fb_index_pool_bytes(const fb_index_pool *pool); /* that it occupies, about */

fb_ix fb_ix_const(fb_index_pool *p, int64_t value);
/* A new variable; `name` is borrowed for the pool's life and is what printing shows. */
fb_ix fb_ix_var(fb_index_pool *p, const char *name, int64_t extent);
fb_ix fb_ix_add(fb_index_pool *p, fb_ix a, fb_ix b);
fb_ix fb_ix_sub(fb_index_pool *p, fb_ix a, fb_ix b);
fb_ix fb_ix_scale(fb_index_pool *p, fb_ix a, int64_t factor);
fb_ix fb_ix_div(fb_index_pool *p, fb_ix a, int64_t divisor); /* floor; divisor > 0 */
fb_ix fb_ix_mod(fb_index_pool *p, fb_ix a, int64_t divisor); /* in [0, divisor) */

/* Smallest and largest value over the variables' ranges (conservative for sums of related mods). */
void fb_ix_range(const fb_index_pool *p, fb_ix e, int64_t *low, int64_t *high);
/* Variables, divisions and remainders that printing would show. */
int fb_ix_size(const fb_index_pool *p, fb_ix e);
/* No number that computing e makes, its terms added up in any order, is further from 0. */
int64_t fb_ix_reach(const fb_index_pool *p, fb_ix e);
/* By what e divides, in quotients and remainders that use `var`: each once, at most `room` of them; how many. */
int fb_ix_divisors(const fb_index_pool *p, fb_ix e, fb_ix var, int64_t *out, int room);
/* Where e cuts `var` into digits: (var / 9) mod 3 has those of 9 and of 27. Those that are not in `out` yet follow its first
 * n, at most `room` in all; how many there are then. */
int fb_ix_digits(const fb_index_pool *p, fb_ix e, fb_ix var, int64_t *out, int n, int room);
/* Quotients and remainders in e that use both variables: those that are not in `out` yet follow its first n, at most
 * `room` in all; how many there are then. */
int fb_ix_mixed(const fb_index_pool *p, fb_ix e, fb_ix a, fb_ix b, fb_ix *out, int n, int room);
bool fb_ix_is_const(const fb_index_pool *p, fb_ix e, int64_t *value);
bool fb_ix_is_var(const fb_index_pool *p, fb_ix e); /* exactly one variable, coefficient 1 */
/* Does `var` occur in e at all? */
bool fb_ix_uses(const fb_index_pool *p, fb_ix e, fb_ix var);
/* The coefficient (0 when var does not occur) when e = coefficient · var + rest and rest does not use var; false when e
 * is not of that form. */
bool fb_ix_stride(fb_index_pool *p, fb_ix e, fb_ix var, int64_t *coefficient, fb_ix *rest);
/* The same without the rest, which is an expression to be made. */
bool fb_ix_coefficient(const fb_index_pool *p, fb_ix e, fb_ix var, int64_t *coefficient);
/* Are all factors of e's terms, but that of variable `but`, multiples of `by`? False says nothing. */
bool fb_ix_all_multiples(const fb_index_pool *p, fb_ix e, fb_ix but, int64_t by);
/* Are neighbours along the variable neighbours in e? Not where `var` is none, but a constant. */
bool fb_ix_steps_along(const fb_index_pool *p, fb_ix e, fb_ix var);
/* `by` must stay within var's range, which e was simplified by. */
fb_ix fb_ix_substitute(fb_index_pool *p, fb_ix e, fb_ix var, fb_ix by);
int64_t fb_ix_extent(const fb_index_pool *p, fb_ix var);
const char *fb_ix_var_name(const fb_index_pool *p, fb_ix var);
/* The value with variables set by `value_of(ctx, var)`. */
int64_t fb_ix_eval(const fb_index_pool *p, fb_ix e, int64_t (*value_of)(void *ctx, fb_ix var), void *ctx);

/* C syntax, least parentheses; a sum or anything that is not a name, call or literal comes parenthesised when
 * `inner`. Never negative operands of / and %, so that C's truncation is floor. */
void fb_ix_print(const fb_index_pool *p, fb_ix e, bool inner, fb_str *out);

/* Row-major: coordinates of a linear index, which lies within dims, and back. */
void fb_ix_unravel(fb_index_pool *p, fb_ix linear, int rank, const int64_t *dims, fb_ix *coords);
fb_ix fb_ix_ravel(fb_index_pool *p, int rank, const int64_t *dims, const fb_ix *coords);

#endif
