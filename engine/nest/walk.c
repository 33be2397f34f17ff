/* The walk: from the roots of a draft down to memory, one value for each node at each coordinates.
 *
 * requires  a draft whose roots' coordinates are over its rows and spaces
 * provides  values in order, each with the space it varies over and its depth; or what the draft must become first
 */
#include "base/str.h"

#include "base/integer.h"
#include "base/mutate.h"
#include "graph/storage.h"
#include "nest/build.h"

#define uthash_malloc(size)      fb_alloc(size)
#define uthash_free(block, size) fb_free(block)
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>

enum { MAX_LEVEL = 1000, MAX_PIECES = 4096, MAX_SELECTS = 64 };
/* A reduction that is computed again for every element of a larger row is refused beyond this many times, unless it is
 * small. */
enum { MAX_REPEATS = 16, SMALL_REPEAT = 1 << 16 };
/* Elements of a row of an index_add that is summed up on chip. */
enum { MAX_SUMMED = 1 << 16 };
/* Values of a section up to which short reductions are written out in it. */
enum { MAX_WRITTEN = 1 << 12 };
/* Values of a section: what overlaps itself is read in twice as many ways at each step back (a running product by
 * doubling). */
enum { MAX_VALUES = 1 << 13 };
/* A contraction that is no dot with a vector is only fused into a generated kernel while it is small. */
#define MAX_GENERATED_FLOPS ((int64_t)1 << 22)

typedef struct {
    struct {
        fb_id node;
        int when;
        fb_ix coords[FB_MAX_RANK];
    } key;
    fb_val value;
    UT_hash_handle hh;
} memo;

typedef struct {
    fb_builder *b;
    const fb_graph *g;
    fb_index_pool *pool;
    fb_draft *draft;
    fb_walk_result result;
    memo *memo;
    FB_VEC(fb_value) values;
    FB_VEC(fb_data_var) data;
    FB_VEC(fb_space) spaces;
    uint32_t reduced_at; /* row variables that reductions are kept apart by */
    bool reduces;
    uint32_t demote;   /* row variables that a scan runs along */
    fb_id reduction;   /* the innermost one being walked, for sentences */
    fb_id added;       /* the index_add that the section sums up row by row, FB_NONE … */
    bool inside_added; /* … of which source or index is being walked */
    int64_t written;   /* how often what is walked is written out, by the short reductions around it */
    bool short_rows;
    int level;
} walk;

typedef struct {
    uint32_t rows;
    int space; /* FB_NONE: none */
} place;

static fb_val walk_node(walk *w, fb_id node, const fb_ix *coords, int when);

static bool stopped(const walk *w)
{
    return w->result.end != FB_WALK_DONE;
}

static fb_val refuse_unseen(walk *w, fb_verdict_kind kind, fb_rule rule, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#define refuse(w, ...) ((void)FB_VERDICT_PLACE(#__VA_ARGS__), refuse_unseen(w, __VA_ARGS__))

static fb_val refuse_unseen(walk *w, fb_verdict_kind kind, fb_rule rule, const char *format, ...)
{
    char text[sizeof w->b->why->text];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    w->result.end = FB_WALK_REFUSED;
    fb_builder_refuse_unseen(w->b, kind, rule, "%s", text);
    return FB_NONE;
}

static const char *name_of(const walk *w, fb_id node)
{
    return w->g->nodes[node].name;
}

/* ---- where things vary ---- */

static place place_of(const walk *w, fb_ix at)
{
    place p = {0, FB_NONE};
    for (int d = 0; d < w->draft->rows.n; d++) {
        if (fb_ix_uses(w->pool, at, w->draft->rows.var[d])) p.rows |= 1u << d;
    }
    for (int s = 0; s < w->spaces.n; s++) {
        const fb_space *space = &w->spaces.at[s];
        for (int d = 0; d < space->n; d++) {
            if (fb_ix_uses(w->pool, at, space->var[d])) p.space = s;
        }
    }
    for (int i = 0; i < w->data.n; i++) {
        if (!fb_ix_uses(w->pool, at, w->data.at[i].var)) continue;
        const fb_value *v = &w->values.at[w->data.at[i].value];
        p.rows |= v->rows;
        if (v->space != FB_NONE) p.space = v->space;
    }
    return p;
}

static void vary_with(const walk *w, fb_value *v, fb_ix at)
{
    place p = place_of(w, at);
    v->rows |= p.rows;
    if (p.space != FB_NONE) v->space = p.space;
}

/* Indices read from memory that `at` is made of become arguments, so that they are computed before. */
static void depend_on_data(const walk *w, fb_value *v, fb_ix at)
{
    for (int i = 0; i < w->data.n; i++) {
        if (!fb_ix_uses(w->pool, at, w->data.at[i].var)) continue;
        bool known = false;
        for (int a = 0; a < v->n_args; a++) known |= v->args[a] == w->data.at[i].value;
        if (!known && v->n_args < (int)(sizeof v->args / sizeof *v->args)) v->args[v->n_args++] = w->data.at[i].value;
    }
}

static fb_val add(walk *w, fb_value v)
{
    v.space = FB_NONE;
    if (fb_value_is_indexed(&v)) {
        vary_with(w, &v, v.at);
        depend_on_data(w, &v, v.at);
    }
    for (int c = v.kind == FB_VALUE_LOAD ? v.when : FB_NONE; c != FB_NONE; c = w->b->whens.at[c].outer) {
        vary_with(w, &v, w->b->whens.at[c].at);
        depend_on_data(w, &v, w->b->whens.at[c].at);
    }
    if (v.kind == FB_VALUE_SELECT) {
        vary_with(w, &v, w->b->whens.at[v.when].at);
        depend_on_data(w, &v, w->b->whens.at[v.when].at);
    }
    for (int i = 0; i < v.n_args; i++) {
        const fb_value *a = &w->values.at[v.args[i]];
        v.rows |= a->rows;
        if (a->space != FB_NONE && a->space != v.over) v.space = a->space;
        if (a->depth > v.depth) v.depth = a->depth;
    }
    if (v.kind == FB_VALUE_REDUCE) v.depth++;
    if (v.kind == FB_VALUE_SCAN) v.space = v.over;
    FB_VEC_PUSH(&w->values, v);
    return w->values.n - 1;
}

static fb_value value_of(fb_value_kind kind, fb_id node, fb_dtype dtype)
{
    return (fb_value){.kind = kind, .node = node, .dtype = dtype, .when = FB_NONE, .table = FB_NONE, .over = FB_NONE};
}

static fb_val constant(walk *w, fb_id node, fb_dtype dtype, double number)
{
    fb_value v = value_of(FB_VALUE_CONST, node, dtype);
    v.number = number;
    return add(w, v);
}

/* ---- conditions ---- */

static bool when_holds(const walk *w, int when, fb_ix at, int64_t low, int64_t high)
{
    for (const fb_when *c; when != FB_NONE; when = c->outer) {
        c = &w->b->whens.at[when];
        if (c->at == at && c->low == low && c->high == high) return true;
    }
    return false;
}

static int when_add(walk *w, int outer, fb_ix at, int64_t low, int64_t high)
{
    if (when_holds(w, outer, at, low, high)) return outer;
    for (int i = 0; i < w->b->whens.n; i++) {
        const fb_when *c = &w->b->whens.at[i];
        if (c->outer == outer && c->at == at && c->low == low && c->high == high) return i;
    }
    FB_VEC_PUSH(&w->b->whens, (fb_when){outer, at, low, high});
    return w->b->whens.n - 1;
}

static bool share_variable(const walk *w, fb_ix at, const fb_ix *coords, int n)
{
    place p = place_of(w, at);
    for (int i = 0; i < n; i++) {
        place c = place_of(w, coords[i]);
        if ((p.rows & c.rows) || (p.space != FB_NONE && p.space == c.space)) return true;
        for (int v = 0; v < w->data.n; v++)
            if (fb_ix_uses(w->pool, at, w->data.at[v].var) && fb_ix_uses(w->pool, coords[i], w->data.at[v].var))
                return true;
    }
    return false;
}

/* Tests over variables that the coordinates do not use say nothing about them. One that never holds does: the
 * coordinates may be of no element. */
static int when_relevant(walk *w, int when, const fb_ix *coords, int n)
{
    if (when == FB_NONE) return FB_NONE;
    fb_when c = w->b->whens.at[when];
    int64_t low, high;
    int outer = when_relevant(w, c.outer, coords, n);
    fb_ix_range(w->pool, c.at, &low, &high);
    bool never = c.low >= c.high || high < c.low || low >= c.high;
    bool relevant = never || share_variable(w, c.at, coords, n);
    return FB_MUTATE(27, relevant, false) ? when_add(w, outer, c.at, c.low, c.high) : outer;
}

/* A load that is not made gives zero: where that is what stands outside, the load has chosen already. */
static bool chooses_itself(const walk *w, const fb_guard *guard, fb_val v)
{
    const fb_value *x = &w->values.at[v];
    return x->kind == FB_VALUE_LOAD && guard->otherwise == 0 && !signbit(guard->otherwise) &&
           when_holds(w, x->when, guard->at, guard->low, guard->high);
}

static fb_val select_between(walk *w, fb_id node, int test, fb_val inside, fb_val otherwise)
{
    fb_value v = value_of(FB_VALUE_SELECT, node, w->g->nodes[node].dtype);
    v.when = test;
    v.n_args = 2;
    v.args[0] = inside;
    v.args[1] = otherwise;
    return add(w, v);
}

/* ---- roots met on the way ---- */

bool fb_covers(fb_index_pool *pool, fb_ix offset, const fb_space *rows, const fb_space *space, int64_t points)
{
    int64_t stride[2 * FB_MAX_ROW_VARS], extent[2 * FB_MAX_ROW_VARS], covered = 1;
    int n = 0;
    const fb_space *both[] = {rows, space};
    for (int s = 0; s < 2; s++) {
        for (int d = 0; both[s] && d < both[s]->n; d++) {
            fb_ix rest;
            if (!fb_ix_stride(pool, offset, both[s]->var[d], &stride[n], &rest) || stride[n] <= 0) return false;
            offset = rest;
            extent[n++] = both[s]->extent[d];
        }
    }
    int64_t zero;
    if (!fb_ix_is_const(pool, offset, &zero) || zero != 0) return false;
    for (int left = n; left > 0; left--) {
        int next = -1;
        for (int i = 0; i < n; i++)
            if (extent[i] && stride[i] == covered) next = i;
        if (next < 0) return false;
        covered *= extent[next];
        extent[next] = 0;
    }
    return FB_MUTATE(30, covered == points, true);
}

static void note_root(walk *w, fb_id node, const fb_ix *coords)
{
    bool apart = w->draft->scatter || w->inside_added || w->b->operand;
    int stored = apart ? FB_NONE : fb_builder_stored(w->b, node);
    if (stored == FB_NONE || w->b->done[stored]) return;
    const fb_node *n = &w->g->nodes[node];
    fb_ix offset = fb_ix_ravel(w->pool, n->shape.rank, n->shape.dim, coords);
    place p = place_of(w, offset);
    const fb_space *space = p.space == FB_NONE ? NULL : &w->spaces.at[p.space];
    if (!fb_covers(w->pool, offset, &w->draft->rows, space, fb_shape_elements(&n->shape))) return;
    fb_draft *d = w->draft;
    fb_draft_root *roots = FB_NEW_ARRAY(w->b->scratch, fb_draft_root, d->n_roots + 1);
    memcpy(roots, d->roots, (size_t)d->n_roots * sizeof *roots);
    roots[d->n_roots].node = node;
    memcpy(roots[d->n_roots].coords, coords, (size_t)n->shape.rank * sizeof *coords);
    d->roots = roots;
    d->n_roots++;
    w->b->done[stored] = true;
}

/* ---- changes to the draft ---- */

static fb_val want_split(walk *w, int row, int n, int64_t *at)
{
    w->result = (fb_walk_result){.end = FB_WALK_SPLIT, .row = row, .n = n, .at = at};
    return FB_NONE;
}

/* A row variable, from `first` on, of which `e` uses only quotient or remainder by one of the candidates becomes two. */
static bool want_factor_from(walk *w, int first, fb_ix e, const int64_t *candidates, int n)
{
    const fb_space *rows = &w->draft->rows;
    if (rows->n == FB_MAX_ROW_VARS || w->draft->scatter) return false;
    for (int d = first; d < rows->n; d++) {
        int64_t stride;
        if (!fb_ix_uses(w->pool, e, rows->var[d]) || fb_ix_coefficient(w->pool, e, rows->var[d], &stride)) continue;
        for (int i = 0; i < n; i++) {
            int64_t q = candidates[i];
            if (q <= 1 || q >= rows->extent[d] || rows->extent[d] % q != 0) continue;
            fb_ix a = fb_builder_var(w->b, 'f', 0, rows->extent[d] / q), c = fb_builder_var(w->b, 'f', 1, q);
            fb_ix both = fb_ix_add(w->pool, fb_ix_scale(w->pool, a, q), c);
            fb_ix seen = fb_ix_substitute(w->pool, e, rows->var[d], both);
            if (fb_ix_uses(w->pool, seen, a) && fb_ix_uses(w->pool, seen, c)) continue;
            int64_t *at = FB_NEW(w->b->scratch, int64_t);
            *at = q;
            w->result = (fb_walk_result){.end = FB_WALK_FACTOR, .row = d, .n = 1, .at = at};
            return true;
        }
    }
    return false;
}

static bool want_factor(walk *w, fb_ix e, const int64_t *candidates, int n)
{
    return want_factor_from(w, w->draft->blocked, e, candidates, n);
}

/* Does the printer write the section's loops out as they are? A thread of a grid works its place out once, and loops of
 * chains and of a tile's operands stay what they are. */
static bool has_plain_loops(const walk *w)
{
    return !w->b->nest->target->grid && !w->b->nest->chain && !w->b->operand;
}

/* Vectors go along the innermost of a processor's loops, where quotients and remainders cost more than all else: those
 * of its variable are made variables of their own; not where a pass goes inside of it. */
static bool want_plain_innermost(walk *w, const fb_ix *e, int n)
{
    enum { MOST = 4 };
    const fb_space *rows = &w->draft->rows;
    if (!has_plain_loops(w) || w->draft->n_spaces || rows->n <= w->draft->blocked) return false;
    for (int i = 0; i < n; i++) {
        int64_t by[MOST];
        int divisors = fb_ix_divisors(w->pool, e[i], rows->var[rows->n - 1], by, MOST);
        if (divisors && want_factor_from(w, rows->n - 1, e[i], by, divisors)) return true;
    }
    return false;
}

/* Products of the last dims: where a flattened index falls apart. */
static int suffix_products(const fb_shape *s, int64_t *out)
{
    int64_t product = 1;
    int n = 0;
    for (int d = s->rank - 1; d >= 0; d--) {
        product *= s->dim[d];
        if (product > 1) out[n++] = product;
    }
    return n;
}

/* ---- joins ---- */

typedef struct {
    fb_ix coords[FB_MAX_RANK]; /* the operand's */
    fb_id operand;
    int64_t low, high;
} part;

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

/* The join's coordinate is stride · v + c for one row variable v: cut v where the part changes. */
static bool split_at_parts(walk *w, fb_ix e, const part *parts, int n)
{
    const fb_space *rows = &w->draft->rows;
    if (n > MAX_PIECES || w->draft->scatter) return false;
    for (int d = w->draft->blocked; d < rows->n; d++) {
        int64_t stride, c;
        fb_ix rest;
        if (!fb_ix_stride(w->pool, e, rows->var[d], &stride, &rest) || stride <= 0) continue;
        if (!fb_ix_is_const(w->pool, rest, &c)) return false;
        int64_t *at = FB_NEW_ARRAY(w->b->scratch, int64_t, n + 1);
        int cuts = 0;
        at[cuts++] = 0;
        for (int p = 0; p < n; p++) {
            int64_t end = ceil_div(parts[p].high - c, stride);
            if (end > at[cuts - 1] && end < rows->extent[d]) at[cuts++] = end;
        }
        at[cuts++] = rows->extent[d];
        if (cuts == 2) return false;
        want_split(w, d, cuts, at);
        return true;
    }
    return false;
}

static fb_val walk_join(walk *w, fb_id node, const fb_ix *coords, int when)
{
    const fb_node *n = &w->g->nodes[node];
    int64_t first, last;
    int dim = n->attrs->dim, n_parts = 0;
    part *parts = FB_NEW_ARRAY(w->b->scratch, part, n->n_args);
    for (int i = 0; i < n->n_args; i++) {
        part *p = &parts[n_parts];
        fb_access_piece(w->g, w->pool, node, i, coords, p->coords, &dim, &p->low, &p->high);
        fb_ix_range(w->pool, coords[dim], &first, &last);
        p->operand = n->args[i];
        if (p->low < p->high && p->low <= last && FB_MUTATE(28, p->high > first, p->high > first + 1)) n_parts++;
    }
    if (n_parts == 0) return constant(w, node, n->dtype, 0); /* nothing is ever read: a pad around an empty join */
    if (n_parts == 1) return walk_node(w, parts[0].operand, parts[0].coords, when);
    fb_ix e = coords[dim];
    if (place_of(w, e).space == FB_NONE) {
        int64_t candidates[FB_MAX_RANK];
        int n_candidates = suffix_products(&n->shape, candidates);
        if (split_at_parts(w, e, parts, n_parts) || want_factor(w, e, candidates, n_candidates)) return FB_NONE;
    }
    if (n_parts > MAX_SELECTS)
        return refuse(w, FB_VERDICT_UNSUPPORTED, FB_RULE_ACCESS,
                      "one loop would read `%s` in %d of its parts: it has to be stored", name_of(w, node), n_parts);
    fb_val result = FB_NONE;
    for (int p = n_parts - 1; p >= 0 && !stopped(w); p--) {
        int inside = when_add(w, when, e, parts[p].low, parts[p].high);
        fb_val v = walk_node(w, parts[p].operand, parts[p].coords, inside);
        if (stopped(w)) break;
        result = result == FB_NONE
                     ? v
                     : select_between(w, node,
                                      when_add(w, FB_NONE, e, first, FB_MUTATE(29, parts[p].high, parts[p].high - 1)),
                                      v, result);
    }
    return result;
}

/* ---- reductions ---- */

/* The space of these extents, made when it is new. */
static int space_for(walk *w, int n, const int64_t *extents, fb_ix *coords)
{
    fb_space space = fb_builder_space(w->b, n, extents, coords);
    for (int s = 0; s < w->spaces.n; s++) {
        const fb_space *have = &w->spaces.at[s];
        if (have->n == space.n && memcmp(have->extent, space.extent, (size_t)space.n * sizeof *space.extent) == 0)
            return s;
    }
    FB_VEC_PUSH(&w->spaces, space);
    return w->spaces.n - 1;
}

static fb_val refuse_scattered(walk *w, fb_id node)
{
    char bytes[32];
    fb_format_bytes(bytes, (double)fb_node_bytes(w->g, node));
    return refuse(w, FB_VERDICT_UNSUPPORTED, FB_RULE_GATHER,
                  "`%s` adds rows in the order of an index: all %s of it must be there before it is read",
                  name_of(w, node), bytes);
}

/* "a block has 232 kB there" */
static const char *room_of(const walk *w, char to[64])
{
    char bytes[32];
    const char *const *near = w->b->machine->target->near;
    fb_format_bytes(bytes, (double)w->b->machine->shared_bytes);
    snprintf(to, 64, "%s %s %s", near[0], bytes, near[1]);
    return to;
}

static void refuse_inner(walk *w, fb_id node)
{
    char bytes[32], room[64];
    fb_id consumer = w->reduction != FB_NONE ? w->reduction : w->draft->roots[0].node;
    fb_format_bytes(bytes, (double)fb_node_bytes(w->g, w->g->nodes[node].args[0]));
    refuse(w, FB_VERDICT_UNSUPPORTED, FB_RULE_REDUCED_FIRST,
           "before its first element, `%s` needs all %lld of `%s`: the %s that `%s` reads would have to stay on chip, "
           "and %s",
           name_of(w, consumer), (long long)fb_shape_elements(&w->g->nodes[node].shape), name_of(w, node), bytes,
           name_of(w, node), room_of(w, room));
}

/* Do the tests, or their ranges alone, keep coordinates inside the node's shape? */
static bool is_inside(const walk *w, const fb_shape *s, const fb_ix *coords, int when)
{
    for (int d = 0; d < s->rank; d++) {
        int64_t low, high, by;
        fb_ix_range(w->pool, coords[d], &low, &high);
        bool inside = low >= 0 && high < s->dim[d];
        for (int c = when; c != FB_NONE && !inside; c = w->b->whens.at[c].outer) {
            const fb_when *test = &w->b->whens.at[c];
            inside = fb_ix_is_const(w->pool, fb_ix_sub(w->pool, coords[d], test->at), &by) && test->low + by >= 0 &&
                     test->high + by <= s->dim[d];
        }
        if (!inside) return false;
    }
    return true;
}

/* The tests that do not vary along a loop inside the row. */
static int when_of_rows(walk *w, int when)
{
    if (when == FB_NONE) return FB_NONE;
    fb_when c = w->b->whens.at[when];
    int outer = when_of_rows(w, c.outer);
    return place_of(w, c.at).space == FB_NONE ? when_add(w, outer, c.at, c.low, c.high) : outer;
}

/* Where a reduction's coordinates vary, and the tests that its row is read under. */
static place place_of_row(const walk *w, fb_id node, const fb_ix *coords)
{
    const fb_node *n = &w->g->nodes[node];
    place p = {0, FB_NONE};
    for (int d = 0; d < n->shape.rank; d++) {
        if (fb_op_is_running(n->op) && d == n->attrs->dim) continue; /* in order along it */
        place c = place_of(w, coords[d]);
        p.rows |= c.rows;
        if (c.space != FB_NONE) p.space = c.space;
    }
    return p;
}

/* Is it needed for each element of a row, and not once for the row? */
static bool is_inner(walk *w, fb_id node, const fb_ix *coords, int when)
{
    int of_rows = when_of_rows(w, when);
    return place_of_row(w, node, coords).space != FB_NONE ||
           (of_rows != when && !is_inside(w, &w->g->nodes[node].shape, coords, of_rows));
}

/* A row value must not depend on an inner variable: its whole row is needed before. Nor must the tests that it is read
 * under: those that do are left out of *when, which is fine as long as the rest keep its coordinates inside. */
static bool row_level(walk *w, fb_id node, const fb_ix *coords, int *when)
{
    if (w->draft->scatter || w->inside_added) {
        char bytes[32];
        fb_format_bytes(bytes, (double)fb_node_bytes(w->g, node));
        refuse(w, FB_VERDICT_UNSUPPORTED, FB_RULE_REDUCED_FIRST,
               "`%s` adds rows in the order of an index: it needs all %s of `%s` before the first",
               name_of(w, w->inside_added ? w->added : w->draft->roots[0].node), bytes, name_of(w, node));
        return false;
    }
    if (w->added != FB_NONE) {
        refuse_scattered(w, w->added);
        return false;
    }
    if (is_inner(w, node, coords, *when)) {
        refuse_inner(w, node);
        return false;
    }
    *when = when_of_rows(w, *when);
    w->reduces = true;
    w->reduced_at |= place_of_row(w, node, coords).rows;
    return true;
}

static fb_val empty_reduction(walk *w, fb_id node)
{
    const fb_node *n = &w->g->nodes[node];
    static const struct {
        fb_op op;
        double value;
    } of_nothing[] = {{FB_OP_MEAN, NAN}, {FB_OP_PROD, 1}, {FB_OP_AMAX, -INFINITY}, {FB_OP_AMIN, INFINITY}};
    for (size_t i = 0; i < FB_MUTATE(34, sizeof of_nothing / sizeof *of_nothing, 0); i++)
        if (of_nothing[i].op == n->op) return constant(w, node, n->dtype, of_nothing[i].value);
    return constant(w, node, n->dtype, 0);
}

static fb_val reduce(walk *w, fb_id node, int space, const fb_val *args, int n_args)
{
    fb_value v = value_of(FB_VALUE_REDUCE, node, w->g->nodes[node].dtype);
    v.over = space;
    v.n_args = n_args;
    memcpy(v.args, args, (size_t)n_args * sizeof *args);
    return add(w, v);
}

/* ---- short reductions, written out ----
 *
 * A reduction over few elements (a pool's window) need not be a row's: as an expression of its elements it is computed
 * anew wherever it is read, in a pass over something else, too. */

static bool may_write_out(const walk *w, fb_id node)
{
    bool loops = w->b->nest->kernel.kind == FB_NEST_LOOPS && !w->b->operand;
    if (!loops || w->draft->scatter || w->added != FB_NONE || !fb_node_is_short_reduction(w->g, node)) return false;
    return w->written * fb_reduced_elements(w->g, node) <= FB_SHORT_WINDOW && w->values.n <= MAX_WRITTEN;
}

static fb_val fold(walk *w, fb_id node, fb_val so_far, fb_val next)
{
    fb_value v = value_of(FB_VALUE_FOLD, node, w->g->nodes[node].dtype);
    v.n_args = 2;
    v.args[0] = so_far;
    v.args[1] = next;
    return add(w, v);
}

static fb_val divided(walk *w, fb_id node, fb_val sum, int64_t points)
{
    fb_value v = value_of(FB_VALUE_FOLD, node, w->g->nodes[node].dtype);
    v.n_args = 1;
    v.args[0] = sum;
    v.number = (double)points;
    return add(w, v);
}

/* The operand's coordinates, of the reduction's and those of what is reduced. */
static void reduced_coords(const walk *w, fb_id node, const fb_ix *coords, const fb_ix *inner, fb_ix *at)
{
    const fb_node *n = &w->g->nodes[node];
    uint32_t reduced = 0;
    for (int i = 0; i < n->attrs->n_axes; i++) reduced |= 1u << n->attrs->axes[i];
    for (int d = 0, i = 0, o = 0; d < w->g->nodes[n->args[0]].shape.rank; d++) {
        bool gone = reduced >> d & 1;
        at[d] = gone ? inner[i++] : coords[o];
        if (!gone || FB_MUTATE(33, n->attrs->keepdim, false)) o++;
    }
}

static fb_val write_out(walk *w, fb_id node, const fb_ix *coords, int when, int n_inner, const int64_t *extents)
{
    int64_t points = fb_reduced_elements(w->g, node);
    fb_val so_far = FB_NONE;
    w->written *= points;
    for (int64_t p = 0; p < points && !stopped(w); p++) {
        fb_ix inner[FB_MAX_RANK], at[FB_MAX_RANK];
        fb_ix_unravel(w->pool, fb_ix_const(w->pool, p), n_inner, extents, inner);
        reduced_coords(w, node, coords, inner, at);
        fb_val x = walk_node(w, w->g->nodes[node].args[0], at, when);
        if (!stopped(w)) so_far = p ? fold(w, node, so_far, x) : x;
    }
    w->written /= points;
    if (stopped(w)) return FB_NONE;
    return w->g->nodes[node].op == FB_OP_MEAN ? divided(w, node, so_far, points) : so_far;
}

static fb_val walk_reduction(walk *w, fb_id node, const fb_ix *coords, int when)
{
    const fb_node *n = &w->g->nodes[node], *x = &w->g->nodes[n->args[0]];
    uint32_t reduced = 0;
    int64_t extents[FB_MAX_RANK], candidates[FB_MAX_RANK + 1], points = 1;
    for (int i = 0; i < n->attrs->n_axes; i++) reduced |= 1u << n->attrs->axes[i];
    int n_inner = 0;
    for (int d = 0; d < x->shape.rank; d++) {
        if (!(reduced >> d & 1)) continue;
        extents[n_inner++] = x->shape.dim[d];
        points *= x->shape.dim[d];
    }
    if (points == 0) return empty_reduction(w, node);
    bool arg = n->op == FB_OP_ARGMAX || n->op == FB_OP_ARGMIN;
    if (points == 1 && arg) return constant(w, node, n->dtype, 0);
    if (may_write_out(w, node)) {
        if (w->draft->writes_out || is_inner(w, node, coords, when))
            return write_out(w, node, coords, when, n_inner, extents);
        w->short_rows |= fb_reduces_windows(w->g, node);
    }
    if (points > 1 && !row_level(w, node, coords, &when)) return FB_NONE;
    if (points > 1 && w->b->operand)
        return refuse(w, FB_VERDICT_UNSUPPORTED, FB_RULE_REDUCED_FIRST,
                      "a product reads `%s` tile by tile, and `%s` in it needs %lld elements before its first: it has "
                      "to be stored",
                      name_of(w, w->draft->roots[0].node), name_of(w, node), (long long)points);
    /* rows numbered together with what is reduced (a reshape in between) are taken apart */
    int n_candidates = suffix_products(&x->shape, candidates);
    candidates[n_candidates++] = points;
    for (int d = 0; d < n->shape.rank && points > 1; d++)
        if (want_factor(w, coords[d], candidates, n_candidates)) return FB_NONE;
    fb_ix inner[FB_MAX_RANK], at[FB_MAX_RANK];
    int space = space_for(w, n_inner, extents, inner);
    reduced_coords(w, node, coords, inner, at);
    fb_id outer = w->reduction;
    w->reduction = node;
    fb_val v = walk_node(w, n->args[0], at, when);
    w->reduction = outer;
    if (stopped(w) || points == 1) return v;
    return reduce(w, node, space, &v, 1);
}

static bool contraction_allowed(walk *w, fb_id node)
{
    const fb_builder *b = w->b;
    const fb_node *n = &w->g->nodes[node];
    fb_contraction c = fb_contraction_of(w->g, node);
    if (b->nest->tiled && c.columns > 1) {
        refuse(w, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
               "`%s` multiplies `%s` by a matrix, and a tile holds only a part of that: only a chain does two products",
               name_of(w, node), name_of(w, b->nest->tiled->products[0].node));
        return false;
    }
    if (c.rows == 1 || c.columns == 1 || b->nest->kernel.n_nodes == 1 ||
        fb_node_flops(w->g, node) <= MAX_GENERATED_FLOPS)
        return true;
    char shape[192];
    refuse(w, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
           "`%s` makes %s in %lld operations: too much for a kernel without tiles, which does %lld at most",
           name_of(w, node), fb_shape_format(&n->shape, n->dtype, shape), (long long)fb_node_flops(w->g, node),
           (long long)MAX_GENERATED_FLOPS);
    return false;
}

/* Coordinates of an operand of a contraction: of this element of the result, at `k`. */
static void operand_coords(walk *w, fb_id node, int a, const fb_ix *coords, fb_ix k, fb_ix *at)
{
    const fb_node *n = &w->g->nodes[node], *x = &w->g->nodes[n->args[a]];
    int batch = x->shape.rank - 2;
    for (int d = 0; d < batch; d++) /* batch dims broadcast from the right */
        at[d] = FB_MUTATE(31, x->shape.dim[d] == 1, false) ? fb_ix_const(w->pool, 0)
                                                           : coords[n->shape.rank - 2 - batch + d];
    at[batch] = a == 0 ? coords[n->shape.rank - 2] : k;
    at[batch + 1] = a == 0 ? k : FB_MUTATE(32, coords[n->shape.rank - 1], coords[n->shape.rank - 2]);
}

/* What a contraction of windows adds up is numbered through, and read by quotients and remainders of that number. A
 * processor's loops are those of the window instead. How many, from the outermost. Not inlined, as look_through. */
static __attribute__((noinline)) int depth_loops(walk *w, fb_id node, const fb_ix *coords, int64_t depth,
                                                 int64_t *extents)
{
    enum { MOST = 3 };
    int64_t by[MOST + 1];
    int n = 0;
    extents[0] = depth;
    if (!has_plain_loops(w)) return 1;
    fb_ix k = fb_builder_var(w->b, 'f', 0, depth);
    for (int a = 0; a < 2; a++) {
        fb_ix at[FB_MAX_RANK];
        fb_access access;
        operand_coords(w, node, a, coords, k, at);
        fb_access_at(w->g, w->pool, w->g->nodes[node].args[a], at, &access);
        for (int d = 0; d < access.rank; d++) n += fb_ix_divisors(w->pool, access.coords[d], k, by + n, MOST - n);
        for (int d = 0; d < access.n_guards; d++)
            n += fb_ix_divisors(w->pool, access.guards[d].at, k, by + n, MOST - n);
    }
    qsort(by, (size_t)n, sizeof *by, fb_by_int64);
    int loops = 0;
    by[n] = depth;
    for (int i = n; i >= 0; i--) {
        int64_t below = i ? by[i - 1] : 1;
        if (by[i] % below) {
            extents[0] = depth;
            return 1;
        }
        if (by[i] > below) extents[loops++] = by[i] / below;
    }
    return loops;
}

static fb_val walk_contraction(walk *w, fb_id node, const fb_ix *coords, int when)
{
    const fb_node *n = &w->g->nodes[node];
    if (!contraction_allowed(w, node) || !row_level(w, node, coords, &when)) return FB_NONE;
    int64_t depth = fb_contraction_of(w->g, node).depth;
    if (depth == 0) return empty_reduction(w, node);
    int64_t extents[FB_MAX_RANK];
    fb_ix loops[FB_MAX_RANK];
    int n_loops = depth_loops(w, node, coords, depth, extents), space = space_for(w, n_loops, extents, loops);
    fb_ix k = fb_ix_ravel(w->pool, n_loops, extents, loops);
    fb_id outer = w->reduction;
    w->reduction = node;
    fb_val args[2];
    for (int a = 0; a < 2 && !stopped(w); a++) {
        fb_ix at[FB_MAX_RANK];
        operand_coords(w, node, a, coords, k, at);
        args[a] = walk_node(w, n->args[a], at, when);
    }
    w->reduction = outer;
    return stopped(w) ? FB_NONE : reduce(w, node, space, args, 2);
}

static fb_val walk_scan(walk *w, fb_id node, const fb_ix *coords, int when)
{
    const fb_node *n = &w->g->nodes[node];
    int dim = n->attrs->dim;
    if (n->shape.rank == 0 || n->shape.dim[dim] == 1) return walk_node(w, n->args[0], coords, when);
    fb_ix along = coords[dim];
    if (!row_level(w, node, coords, &when)) return FB_NONE;
    int64_t candidates[FB_MAX_RANK];
    if (want_factor(w, along, candidates, suffix_products(&n->shape, candidates))) return FB_NONE;
    int space = FB_NONE;
    bool whole = fb_ix_is_var(w->pool, along) && fb_ix_extent(w->pool, along) == n->shape.dim[dim];
    for (int s = 0; s < w->spaces.n && whole; s++)
        if (w->spaces.at[s].n == 1 && w->spaces.at[s].var[0] == along) space = s;
    for (int d = 0; d < w->draft->rows.n && whole; d++) {
        if (w->draft->rows.var[d] != along) continue;
        if (d < w->draft->blocked)
            return refuse(w, FB_VERDICT_UNSUPPORTED, FB_RULE_ACCESS,
                          "`%s` runs along rows that the kernel cuts into blocks: it has to be stored",
                          name_of(w, node));
        w->demote |= 1u << d;
    }
    if (space == FB_NONE && !w->demote)
        return refuse(w, FB_VERDICT_UNSUPPORTED, FB_RULE_ACCESS,
                      "`%s` is a running value that is read in another order than its own: it has to be stored",
                      name_of(w, node));
    fb_val x = walk_node(w, n->args[0], coords, when);
    if (stopped(w) || space == FB_NONE) return x; /* walked again with that row variable inner */
    fb_value v = value_of(FB_VALUE_SCAN, node, n->dtype);
    v.over = space;
    v.n_args = 1;
    v.args[0] = x;
    return add(w, v);
}

/* Is this value made in the kernel, by arithmetic or as a product, and not read from memory? */
static bool is_made(const walk *w, fb_val v)
{
    const fb_value *x = &w->values.at[v];
    if (x->kind == FB_VALUE_OP || x->kind == FB_VALUE_REDUCE || x->kind == FB_VALUE_SCAN) return true;
    if (x->kind == FB_VALUE_FOLD) return true;
    if (x->kind == FB_VALUE_CHIP || (x->kind == FB_VALUE_LOAD && fb_nest_is_product(w->b->nest, x->node))) return true;
    for (int i = 0; i < x->n_args; i++)
        if (is_made(w, x->args[i])) return true;
    return false;
}

/* How many elements of its row go before an element: a sum over the row, whose operands are the other element, the
 * element itself, and how far the other lies before it. */
static fb_val walk_rank(walk *w, fb_id node, const fb_ix *coords, int when)
{
    const fb_node *n = &w->g->nodes[node];
    int dim = n->attrs->dim;
    int64_t points = n->shape.dim[dim];
    if (points == 1) return constant(w, node, n->dtype, 0);
    if (!row_level(w, node, coords, &when)) return FB_NONE;
    int64_t candidates[FB_MAX_RANK];
    if (want_factor(w, coords[dim], candidates, suffix_products(&n->shape, candidates))) return FB_NONE;
    fb_ix other[FB_MAX_RANK];
    memcpy(other, coords, (size_t)n->shape.rank * sizeof *other);
    int space = space_for(w, 1, &points, &other[dim]);
    fb_id outer = w->reduction;
    w->reduction = node;
    fb_val args[3];
    args[0] = walk_node(w, n->args[0], other, when);
    args[1] = stopped(w) ? FB_NONE : walk_node(w, n->args[0], coords, when);
    w->reduction = outer;
    if (stopped(w)) return FB_NONE;
    if (is_made(w, args[0]))
        return refuse(w, FB_VERDICT_UNSUPPORTED, FB_RULE_REDUCED_FIRST,
                      "`%s` sorts, and reads a whole row of `%s` for each element that it gives: `%s` has to be stored",
                      name_of(w, node), name_of(w, n->args[0]), name_of(w, n->args[0]));
    fb_value before = value_of(FB_VALUE_INDEX, node, n->dtype);
    before.at = fb_ix_sub(w->pool, coords[dim], other[dim]);
    args[2] = add(w, before);
    return reduce(w, node, space, args, 3);
}

/* ---- gathers ---- */

static fb_ix data_variable(walk *w, fb_val index, int64_t extent)
{
    for (int i = 0; i < w->data.n; i++)
        if (w->data.at[i].value == index) return w->data.at[i].var;
    char *name = fb_arena_printf(w->b->nest->arena, "index_%d", ++w->b->n_data);
    /* at least 2, so that the variable stays one: nothing else than the test may say that the index is 0 */
    fb_ix var = fb_ix_var(w->pool, name, extent > 2 ? extent : 2);
    FB_VEC_PUSH(&w->data, (fb_data_var){var, index, name});
    return var;
}

static fb_val walk_embedding(walk *w, fb_id node, const fb_ix *coords, int when)
{
    const fb_node *n = &w->g->nodes[node], *table = &w->g->nodes[n->args[0]], *index = &w->g->nodes[n->args[1]];
    fb_val row = walk_node(w, n->args[1], coords, when);
    if (stopped(w)) return FB_NONE;
    int64_t rows = table->shape.dim[0];
    if (rows == 0) return constant(w, node, n->dtype, 0);
    fb_ix at[FB_MAX_RANK] = {data_variable(w, row, rows)};
    for (int d = 1; d < table->shape.rank; d++) at[d] = coords[FB_MUTATE(35, index->shape.rank + d - 1, d)];
    fb_val v = walk_node(w, n->args[0], at, when_add(w, when, at[0], 0, rows));
    if (stopped(w)) return FB_NONE;
    return select_between(w, node, when_add(w, FB_NONE, at[0], 0, rows), v, constant(w, node, n->dtype, 0));
}

/* Is the index_add read at the section's own element: row by row, by rows.var[0], and nothing else reduced? */
static bool is_read_in_place(const walk *w, fb_id node, const fb_ix *coords, int when)
{
    const fb_nest *nest = w->b->nest;
    const fb_draft *d = w->draft;
    const fb_node *n = &w->g->nodes[node];
    bool loops = !w->b->operand && nest->kernel.kind == FB_NEST_LOOPS;
    bool first = w->added == FB_NONE && !w->reduces && !w->demote && !d->n_spaces && !d->scatter && when == FB_NONE;
    if (!loops || !first || !n->shape.rank || !d->rows.n || coords[0] != d->rows.var[0]) return false;
    if (n->shape.dim[0] != d->rows.extent[0]) return false;
    int64_t constant;
    for (int i = 1; i < n->shape.rank; i++) {
        bool own = coords[i] != coords[0] && place_of(w, coords[i]).space == FB_NONE;
        if (!own || (!fb_ix_is_var(w->pool, coords[i]) && !fb_ix_is_const(w->pool, coords[i], &constant))) return false;
    }
    return fb_shape_elements(&w->g->nodes[n->args[1]].shape) > 1 &&
           fb_space_points(&d->rows) / d->rows.extent[0] <= MAX_SUMMED;
}

/* With what is made of it: a row's sum is what is added at all points of the index that name the row. */
static fb_val walk_added(walk *w, fb_id node, const fb_ix *coords, int when)
{
    const fb_node *n = &w->g->nodes[node], *src = &w->g->nodes[n->args[0]], *index = &w->g->nodes[n->args[1]];
    if (!is_read_in_place(w, node, coords, when)) return refuse_scattered(w, node);
    fb_ix at[FB_MAX_RANK];
    int rank = index->shape.rank, space = space_for(w, rank, index->shape.dim, at);
    w->added = node;
    w->inside_added = true;
    fb_val args[2];
    args[1] = walk_node(w, n->args[1], at, FB_NONE);
    for (int d = rank; d < src->shape.rank; d++) at[d] = coords[d - rank + 1];
    args[0] = walk_node(w, n->args[0], at, FB_NONE);
    w->inside_added = false;
    if (stopped(w)) return FB_NONE;
    fb_val sum = reduce(w, node, space, args, 2);
    w->values.at[sum].rows = (1u << w->draft->rows.n) - 1;
    return sum;
}

static fb_val walk_scatter(walk *w, fb_id node, const fb_ix *coords, int when)
{
    if (!w->draft->scatter || node != w->draft->roots[0].node) return walk_added(w, node, coords, when);
    const fb_node *n = &w->g->nodes[node], *src = &w->g->nodes[n->args[0]], *index = &w->g->nodes[n->args[1]];
    fb_ix at[FB_MAX_RANK];
    int rank = index->shape.rank;
    space_for(w, rank, index->shape.dim, at);
    fb_val row = walk_node(w, n->args[1], at, FB_NONE);
    if (stopped(w)) return FB_NONE;
    for (int d = rank; d < src->shape.rank; d++) at[d] = w->draft->roots[0].coords[d - rank + 1];
    w->draft->roots[0].coords[0] = data_variable(w, row, n->shape.dim[0] ? n->shape.dim[0] : 1);
    return walk_node(w, n->args[0], at, FB_NONE);
}

/* ---- nodes ---- */

static fb_val walk_pointwise(walk *w, fb_id node, const fb_ix *coords, int when)
{
    const fb_node *n = &w->g->nodes[node];
    fb_value v = value_of(FB_VALUE_OP, node, n->dtype);
    for (int i = 0; i < n->n_args && !stopped(w); i++) {
        fb_ix at[FB_MAX_RANK];
        fb_access_broadcast(w->g, w->pool, node, i, coords, at);
        fb_val a = walk_node(w, n->args[i], at, when);
        v.args[v.n_args++] = a;
    }
    return stopped(w) ? FB_NONE : add(w, v);
}

/* A product's sums lie row by row in their tile, however they are stored. */
static fb_val load(walk *w, fb_id node, const fb_ix *coords, int when)
{
    const fb_node *n = &w->g->nodes[node];
    fb_value v = value_of(FB_VALUE_LOAD, node, n->dtype);
    v.at = fb_nest_is_product(w->b->nest, node) ? fb_ix_ravel(w->pool, n->shape.rank, n->shape.dim, coords)
                                                : fb_storage_offset(w->g, w->pool, node, coords);
    v.when = when;
    return add(w, v);
}

static fb_val on_chip(walk *w, fb_id node, const fb_ix *coords)
{
    const fb_node *n = &w->g->nodes[node];
    fb_value v = value_of(FB_VALUE_CHIP, node, n->dtype);
    v.at = fb_ix_ravel(w->pool, n->shape.rank, n->shape.dim, coords);
    return add(w, v);
}

static fb_val walk_source(walk *w, fb_id node, const fb_ix *coords, int when)
{
    const fb_node *n = &w->g->nodes[node];
    fb_value v = value_of(n->op == FB_OP_IOTA ? FB_VALUE_INDEX : FB_VALUE_RANDOM, node, n->dtype);
    switch (n->op) {
    case FB_OP_CONST: return constant(w, node, n->dtype, n->attrs->value);
    case FB_OP_IOTA: v.at = coords[n->attrs->dim]; return add(w, v);
    case FB_OP_RANDOM: v.at = fb_ix_ravel(w->pool, n->shape.rank, n->shape.dim, coords); return add(w, v);
    default: return load(w, node, coords, when);
    }
}

static fb_val walk_inside(walk *w, fb_id node, const fb_ix *coords, int when)
{
    const fb_node *n = &w->g->nodes[node];
    switch (fb_op_get(n->op)->cls) {
    case FB_CLASS_POINTWISE: return walk_pointwise(w, node, coords, when);
    case FB_CLASS_REDUCTION: return walk_reduction(w, node, coords, when);
    case FB_CLASS_CONTRACTION: return walk_contraction(w, node, coords, when);
    case FB_CLASS_SCAN:
        return n->op == FB_OP_RANK ? walk_rank(w, node, coords, when) : walk_scan(w, node, coords, when);
    case FB_CLASS_JOIN: return walk_join(w, node, coords, when);
    case FB_CLASS_GATHER:
        return n->op == FB_OP_EMBEDDING ? walk_embedding(w, node, coords, when) : walk_scatter(w, node, coords, when);
    case FB_CLASS_EFFECT:
        if (n->op == FB_OP_FEED) return load(w, node, coords, when);
        return walk_node(w, n->args[n->op == FB_OP_ASSIGN], coords, when);
    default: return load(w, node, coords, when);
    }
}

/* Not inlined: fb_access is large, and the walk recurses. */
static __attribute__((noinline)) void look_through(walk *w, fb_id node, const fb_ix *coords, int when, memo *key,
                                                   fb_guard *guards, int *n_guards)
{
    fb_access a;
    fb_access_at(w->g, w->pool, node, coords, &a);
    *n_guards = 0;
    for (int i = 0; i < a.n_guards; i++) {
        int64_t low, high;
        fb_ix_range(w->pool, a.guards[i].at, &low, &high);
        if (low >= a.guards[i].low && high < a.guards[i].high) continue;
        guards[(*n_guards)++] = a.guards[i];
        when = when_add(w, when, a.guards[i].at, a.guards[i].low, a.guards[i].high);
    }
    memset(key, 0, sizeof *key);
    key->key.node = a.base;
    memcpy(key->key.coords, a.coords, (size_t)a.rank * sizeof *a.coords);
    key->key.when = when_relevant(w, when, a.coords, a.rank);
}

static fb_val walk_base(walk *w, const memo *at)
{
    memo *found;
    HASH_FIND(hh, w->memo, &at->key, sizeof at->key, found);
    if (found) return found->value;
    fb_id node = at->key.node;
    const fb_ix *coords = at->key.coords;
    fb_op_class cls = fb_node_class(w->g, node);
    bool product = fb_nest_is_product(w->b->nest, node), inside = fb_builder_inside(w->b, node) && !product;
    const fb_chain *chain = w->b->nest->chain;
    fb_val value;
    if (product && w->b->operand)
        return refuse(w, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                      "`%s` is made of `%s`, of which a tile holds only a part: it has to be stored, or be a chain",
                      name_of(w, w->draft->roots[0].node), name_of(w, node));
    if (chain && fb_chain_product(chain, node) != FB_NONE) {
        value = on_chip(w, node, coords);
    } else if (cls == FB_CLASS_SOURCE) {
        value = walk_source(w, node, coords, at->key.when);
    } else if (inside) {
        if (at->key.when == FB_NONE) note_root(w, node, coords);
        value = walk_inside(w, node, coords, at->key.when);
    } else {
        value = load(w, node, coords, at->key.when);
    }
    if (stopped(w)) return FB_NONE;
    memo *m = fb_arena_copy(w->b->scratch, at, sizeof *at);
    m->value = value;
    HASH_ADD(hh, w->memo, key, sizeof m->key, m);
    return value;
}

static fb_val walk_node(walk *w, fb_id node, const fb_ix *coords, int when)
{
    if (stopped(w)) return FB_NONE;
    if (w->level >= MAX_LEVEL)
        return refuse(w, FB_VERDICT_UNSUPPORTED, FB_RULE_SIZE,
                      "with `%s`, one kernel would be more than %d operations deep", name_of(w, node), MAX_LEVEL);
    if (w->values.n >= MAX_VALUES)
        return refuse(w, FB_VERDICT_UNSUPPORTED, FB_RULE_SIZE,
                      "with `%s`, one kernel would compute more than %d values for each element", name_of(w, node),
                      MAX_VALUES);
    memo at;
    fb_guard guards[FB_MAX_GUARDS];
    int n_guards;
    look_through(w, node, coords, when, &at, guards, &n_guards);
    if (want_plain_innermost(w, at.key.coords, w->g->nodes[at.key.node].shape.rank)) return FB_NONE;
    for (int i = 0; i < n_guards; i++)
        if (want_plain_innermost(w, &guards[i].at, 1)) return FB_NONE;
    w->level++;
    fb_val v = walk_base(w, &at);
    w->level--;
    for (int i = n_guards - 1; i >= 0 && !stopped(w); i--) {
        if (chooses_itself(w, &guards[i], v)) continue;
        int test = when_add(w, FB_NONE, guards[i].at, guards[i].low, guards[i].high);
        v = select_between(w, at.key.node, test, v,
                           constant(w, at.key.node, w->g->nodes[node].dtype, guards[i].otherwise));
    }
    return v;
}

/* ---- the whole draft ---- */

/* How often the reduction v is computed for each of its elements, and how many steps that takes in all. */
static int64_t repeats_of(const walk *w, const fb_value *v, double *work)
{
    const fb_space *rows = &w->draft->rows;
    int64_t repeats = 1;
    if (v->kind == FB_VALUE_FOLD) { /* one step of it: at every point, wherever the elements lie */
        int64_t elements = fb_shape_elements(&w->g->nodes[v->node].shape);
        int64_t points = fb_space_points(rows) * (v->space == FB_NONE ? 1 : fb_space_points(&w->spaces.at[v->space]));
        *work = (double)points * (double)fb_reduced_elements(w->g, v->node);
        return points / (elements ? elements : 1);
    }
    for (int d = 0; d < rows->n; d++)
        if (!(v->rows >> d & 1)) repeats *= rows->extent[d];
    *work = (double)fb_space_points(rows) * (double)fb_space_points(&w->spaces.at[v->over]);
    return repeats;
}

/* A product of few terms makes each of its elements by itself, also where one operand is the same for all of them (as
 * the gradient of a plain sum is). */
static bool is_short_product(const walk *w, const fb_value *v)
{
    if (v->kind != FB_VALUE_REDUCE || fb_node_class(w->g, v->node) != FB_CLASS_CONTRACTION) return false;
    return fb_space_points(&w->spaces.at[v->over]) <= FB_SHORT_REDUCTION &&
           fb_space_points(&w->draft->rows) <= fb_shape_elements(&w->g->nodes[v->node].shape);
}

/* Reductions that a larger row repeats: fine a few times, or when they are small. */
static bool repeats_allowed(walk *w)
{
    for (int i = 0; i < w->values.n; i++) {
        const fb_value *v = &w->values.at[i];
        double work;
        if (v->kind != FB_VALUE_REDUCE && v->kind != FB_VALUE_FOLD) continue;
        int64_t repeats = repeats_of(w, v, &work);
        if (repeats <= MAX_REPEATS || work <= SMALL_REPEAT || is_short_product(w, v)) continue;
        char bytes[32], room[64];
        fb_format_bytes(bytes, (double)fb_node_bytes(w->g, v->node));
        refuse(w, FB_VERDICT_UNSUPPORTED, FB_RULE_REDUCED_FIRST,
               "`%s` would be computed %lld times over for `%s`, unless its %s stayed on chip, and %s",
               name_of(w, v->node), (long long)repeats, name_of(w, w->draft->roots[0].node), bytes, room_of(w, room));
        return false;
    }
    return true;
}

static void finish_values(walk *w, fb_section *s, fb_val *root_values)
{
    fb_nest *nest = w->b->nest;
    fb_draft *d = w->draft;
    *s = (fb_section){.rows = d->rows, .blocked = d->blocked, .scatter = d->scatter, .members = 1};
    s->n_values = w->values.n;
    s->values = fb_arena_copy(nest->arena, w->values.at, (size_t)w->values.n * sizeof *w->values.at);
    s->n_spaces = w->spaces.n;
    s->spaces = fb_arena_copy(nest->arena, w->spaces.at, (size_t)w->spaces.n * sizeof *w->spaces.at);
    s->n_data = w->data.n;
    s->data = fb_arena_copy(nest->arena, w->data.at, (size_t)w->data.n * sizeof *w->data.at);
    s->n_roots = d->n_roots;
    s->roots = FB_NEW_ARRAY(nest->arena, fb_root, d->n_roots);
    for (int i = 0; i < d->n_roots; i++) {
        const fb_node *n = &w->g->nodes[d->roots[i].node];
        fb_root *r = &s->roots[i];
        *r =
            (fb_root){.node = d->roots[i].node, .storage = d->roots[i].node, .value = root_values[i], .table = FB_NONE};
        fb_op_class cls = fb_op_get(n->op)->cls;
        bool copy = nest->kernel.n_nodes == 0 && cls != FB_CLASS_VIEW; /* of a value that lies in memory already */
        if (cls == FB_CLASS_SOURCE || n->op == FB_OP_FEED || copy) r->storage = FB_COPY_OF_SOURCE;
        if (i == 0 && d->on_chip) r->storage = FB_ON_CHIP;
        if (n->op == FB_OP_ASSIGN) r->storage = fb_access_base(w->g, n->args[0]);
        r->at = r->storage == FB_ON_CHIP || w->b->operand
                    ? fb_ix_ravel(w->pool, n->shape.rank, n->shape.dim, d->roots[i].coords)
                    : fb_storage_offset(w->g, w->pool, r->node, d->roots[i].coords);
        r->space = place_of(w, r->at).space;
        r->depth = s->values[r->value].depth;
    }
}

fb_walk_result fb_walk_draft(fb_builder *b, fb_draft *draft, fb_section *section)
{
    walk w = {.b = b,
              .g = b->nest->graph,
              .pool = b->nest->pool,
              .draft = draft,
              .reduction = FB_NONE,
              .added = FB_NONE,
              .written = 1};
    for (int s = 0; s < draft->n_spaces; s++) FB_VEC_PUSH(&w.spaces, draft->spaces[s]);
    FB_VEC(fb_val) values = {0};
    for (int i = 0; i < draft->n_roots && !stopped(&w); i++) {
        if (draft->scatter) {
            FB_VEC_PUSH(&values, walk_scatter(&w, draft->roots[i].node, NULL, FB_NONE));
            continue;
        }
        fb_draft_root root = draft->roots[i];
        FB_VEC_PUSH(&values, walk_node(&w, root.node, root.coords, FB_NONE));
    }
    uint32_t all = (1u << draft->rows.n) - 1, keep = (w.reduced_at & ~w.demote) | ((1u << draft->blocked) - 1);
    if (!stopped(&w) && w.reduces && !draft->scatter && keep != all) {
        w.result.end = FB_WALK_DEMOTE;
        w.result.keep = keep;
    }
    if (!stopped(&w) && repeats_allowed(&w)) finish_values(&w, section, values.at);
    w.result.short_rows = w.short_rows;
    HASH_CLEAR(hh, w.memo);
    FB_VEC_FREE(&values);
    FB_VEC_FREE(&w.values);
    FB_VEC_FREE(&w.data);
    FB_VEC_FREE(&w.spaces);
    return w.result;
}
