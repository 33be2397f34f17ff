/* Building a nest: a draft for each stored value that no section stores yet, walked and changed until it stands.
 *
 * requires  the nodes of one group, a canonical graph
 * provides  sections with values, passes and kept values; equal sections rolled; facts counted before rolling
 */
#include "nest/build.h"

#include "base/debug.h"
#include "base/mutate.h"
#include "graph/deps.h"
#include "graph/storage.h"
#include "nest/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row buffer for kept values must leave room in a core's first cache for the row itself. */
enum { MAX_KEPT_BYTES = 16384 };
/* Variables of spaces are numbered space by space. */
enum { PLACES = 64 };

int64_t fb_space_points(const fb_space *s)
{
    int64_t points = 1;
    for (int d = 0; d < s->n; d++) points *= s->extent[d];
    return points;
}

/* ---- the builder ---- */

bool fb_builder_refuse_unseen(fb_builder *b, fb_verdict_kind kind, fb_rule rule, const char *format, ...)
{
    char text[sizeof b->why->text];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    *b->why = fb_verdict_make_unseen(kind, rule, "%s", text);
    return false;
}

static int by_id(const void *a, const void *b)
{
    fb_id x = *(const fb_id *)a, y = *(const fb_id *)b;
    return (x > y) - (x < y);
}

static int find_id(const fb_id *ids, int n, fb_id id)
{
    const fb_id *found = n ? bsearch(&id, ids, (size_t)n, sizeof *ids, by_id) : NULL;
    return found ? (int)(found - ids) : FB_NONE;
}

int fb_builder_stored(const fb_builder *b, fb_id node)
{
    return find_id(b->nest->kernel.stored, b->nest->kernel.n_stored, node);
}

bool fb_builder_inside(const fb_builder *b, fb_id node)
{
    return find_id(b->nest->kernel.nodes, b->nest->kernel.n_nodes, node) != FB_NONE;
}

static const char *variable_name(fb_arena *arena, char kind, int place)
{
    static const char rows[] = "ijklmnopqabcdefgh", inner[] = "rstuvwxyz";
    if (kind == 'm') return "member";
    place %= PLACES;
    if (kind == 'r' && place < (int)sizeof rows - 1) return fb_arena_printf(arena, "%c", rows[place]);
    if (kind == 'i' && place < (int)sizeof inner - 1) return fb_arena_printf(arena, "%c", inner[place]);
    return fb_arena_printf(arena, "%c%d", kind, place);
}

fb_ix fb_builder_var(fb_builder *b, char kind, int place, int64_t extent)
{
    for (int i = 0; i < b->vars.n; i++) {
        const struct cached_var *c = &b->vars.at[i];
        if (c->kind == kind && c->place == place && c->extent == extent) return c->var;
    }
    fb_ix var = fb_ix_var(b->nest->pool, variable_name(b->nest->arena, kind, place), extent);
    FB_VEC_PUSH(&b->vars, (struct cached_var){kind, place, extent, var});
    return var;
}

fb_ix fb_space_add(fb_builder *b, fb_space *s, char kind, int64_t extent)
{
    if (extent == 1) return fb_ix_const(b->nest->pool, 0);
    FB_ASSERT(s->n < FB_MAX_ROW_VARS);
    fb_ix var = fb_builder_var(b, kind, s->n, extent);
    s->var[s->n] = var;
    s->extent[s->n++] = extent;
    return var;
}

fb_space fb_builder_space(fb_builder *b, int n, const int64_t *extents, fb_ix *coords)
{
    fb_space space = {0};
    int shape = 0;
    for (int i = 0; i < n; i++)
        if (extents[i] != 1) space.extent[space.n++] = extents[i];
    for (; shape < b->shapes.n; shape++) {
        const fb_space *have = &b->shapes.at[shape];
        if (have->n == space.n && memcmp(have->extent, space.extent, sizeof space.extent) == 0) break;
    }
    if (shape == b->shapes.n) FB_VEC_PUSH(&b->shapes, space);
    for (int d = 0; d < space.n; d++) space.var[d] = fb_builder_var(b, 'i', PLACES * shape + d, space.extent[d]);
    for (int i = 0, d = 0; i < n; i++) coords[i] = extents[i] == 1 ? fb_ix_const(b->nest->pool, 0) : space.var[d++];
    return space;
}

/* ---- changing drafts ---- */

static fb_draft draft_copy(fb_builder *b, const fb_draft *d)
{
    fb_draft copy = *d;
    copy.roots = fb_arena_copy(b->scratch, d->roots, (size_t)d->n_roots * sizeof *d->roots);
    return copy;
}

static void draft_substitute(fb_builder *b, fb_draft *d, fb_ix var, fb_ix by)
{
    for (int r = 0; r < d->n_roots; r++) {
        fb_draft_root *root = &d->roots[r];
        for (int c = 0; c < b->nest->graph->nodes[root->node].shape.rank; c++)
            root->coords[c] = fb_ix_substitute(b->nest->pool, root->coords[c], var, by);
    }
}

/* Row variables take the names and places of their order. Two steps, since old and new variables may be the same ones.
 */
static void draft_renumber(fb_builder *b, fb_draft *d)
{
    fb_index_pool *pool = b->nest->pool;
    fb_space old = d->rows, parked = {0};
    for (int i = 0; i < old.n; i++) {
        parked.var[i] = fb_builder_var(b, 'p', i, old.extent[i]);
        draft_substitute(b, d, old.var[i], parked.var[i]);
    }
    d->rows = (fb_space){0};
    for (int i = 0; i < old.n; i++) {
        fb_ix at = old.extent[i] == 1 ? fb_ix_const(pool, 0) : fb_space_add(b, &d->rows, 'r', old.extent[i]);
        draft_substitute(b, d, parked.var[i], at);
    }
}

static void draft_factor(fb_builder *b, fb_draft *d, int row, int64_t q)
{
    fb_index_pool *pool = b->nest->pool;
    int64_t extent = d->rows.extent[row];
    fb_ix high = fb_builder_var(b, 'f', 0, extent / q), low = fb_builder_var(b, 'f', 1, q);
    draft_substitute(b, d, d->rows.var[row], fb_ix_add(pool, fb_ix_scale(pool, high, q), low));
    for (int i = d->rows.n; i > row + 1; i--) {
        d->rows.var[i] = d->rows.var[i - 1];
        d->rows.extent[i] = d->rows.extent[i - 1];
    }
    d->rows.n++;
    d->rows.var[row] = high;
    d->rows.extent[row] = extent / q;
    d->rows.var[row + 1] = low;
    d->rows.extent[row + 1] = q;
    draft_renumber(b, d);
}

static fb_draft draft_piece(fb_builder *b, const fb_draft *d, int row, int64_t from, int64_t to)
{
    fb_index_pool *pool = b->nest->pool;
    fb_draft piece = draft_copy(b, d);
    fb_ix part = to - from == 1 ? fb_ix_const(pool, 0) : fb_builder_var(b, 'f', 0, to - from);
    draft_substitute(b, &piece, d->rows.var[row], fb_ix_add(pool, part, fb_ix_const(pool, from)));
    piece.rows.var[row] = part;
    piece.rows.extent[row] = to - from;
    draft_renumber(b, &piece);
    return piece;
}

/* Does the root lie over the variables of an inner space already? */
static bool is_over_space(fb_builder *b, const fb_draft_root *root)
{
    int rank = b->nest->graph->nodes[root->node].shape.rank;
    for (int s = 0; s < b->shapes.n; s++) {
        const fb_space *shape = &b->shapes.at[s];
        for (int d = 0; d < shape->n; d++) {
            fb_ix var = fb_builder_var(b, 'i', PLACES * s + d, shape->extent[d]);
            for (int c = 0; c < rank; c++)
                if (fb_ix_uses(b->nest->pool, root->coords[c], var)) return true;
        }
    }
    return false;
}

static bool is_demoted(fb_builder *b, const fb_draft *d, const fb_draft_root *root, uint32_t keep)
{
    int rank = b->nest->graph->nodes[root->node].shape.rank;
    for (int i = 0; i < d->rows.n; i++)
        for (int c = 0; c < rank; c++)
            if (!(keep >> i & 1) && fb_ix_uses(b->nest->pool, root->coords[c], d->rows.var[i])) return true;
    return false;
}

/* A root goes along one inner space. One that went along another before is stored by a section of its own; false: that
 * is the draft's first. */
static bool leave_over_two(fb_builder *b, fb_draft *d, uint32_t keep)
{
    int n = 0;
    for (int i = 0; i < d->n_roots; i++) {
        fb_draft_root *root = &d->roots[i];
        if (!is_over_space(b, root) || !is_demoted(b, d, root, keep)) {
            d->roots[n++] = *root;
            continue;
        }
        if (i == 0)
            return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_ACCESS,
                                     "`%s` is gone through in two orders, one inside the other: it has to be stored",
                                     b->nest->graph->nodes[root->node].name);
        int stored = fb_builder_stored(b, root->node);
        if (stored != FB_NONE) b->done[stored] = false;
    }
    d->n_roots = n;
    return true;
}

static bool draft_demote(fb_builder *b, fb_draft *d, uint32_t keep)
{
    if (!leave_over_two(b, d, keep)) return false;
    fb_space rows = {0}, inner;
    int64_t extents[FB_MAX_ROW_VARS] = {0};
    fb_ix demoted[FB_MAX_ROW_VARS], coords[FB_MAX_ROW_VARS];
    int n = 0;
    for (int i = 0; i < d->rows.n; i++) {
        if (keep >> i & 1) {
            rows.var[rows.n] = d->rows.var[i];
            rows.extent[rows.n++] = d->rows.extent[i];
        } else {
            demoted[n] = d->rows.var[i];
            extents[n++] = d->rows.extent[i];
        }
    }
    inner = fb_builder_space(b, n, extents, coords);
    for (int i = 0; i < n; i++) draft_substitute(b, d, demoted[i], coords[i]);
    d->rows = rows;
    fb_space *spaces = FB_NEW_ARRAY(b->scratch, fb_space, d->n_spaces + 1);
    if (d->n_spaces) memcpy(spaces, d->spaces, (size_t)d->n_spaces * sizeof *spaces);
    spaces[d->n_spaces++] = inner;
    d->spaces = spaces;
    draft_renumber(b, d);
    return true;
}

/* ---- sections ---- */

static int pass_order(const void *a, const void *b)
{
    const fb_pass *x = a, *y = b;
    return x->depth != y->depth ? x->depth - y->depth : x->space - y->space;
}

static void add_pass(fb_pass *passes, int *n, int space, int depth)
{
    for (int i = 0; i < *n; i++)
        if (passes[i].space == space && passes[i].depth == depth) return;
    passes[(*n)++] = (fb_pass){space, depth};
}

static void find_passes(fb_builder *b, fb_section *s)
{
    s->passes = FB_NEW_ARRAY(b->nest->arena, fb_pass, s->n_values + s->n_roots);
    s->n_passes = 0;
    for (int i = 0; i < s->n_values; i++)
        if (s->values[i].kind == FB_VALUE_REDUCE)
            add_pass(s->passes, &s->n_passes, s->values[i].over, s->values[i].depth - 1);
    for (int i = 0; i < s->n_roots; i++)
        if (s->roots[i].space != FB_NONE) add_pass(s->passes, &s->n_passes, s->roots[i].space, s->roots[i].depth);
    qsort(s->passes, (size_t)s->n_passes, sizeof *s->passes, pass_order);
}

static void need(const fb_section *s, fb_val v, const bool *ready, bool *needed)
{
    if (needed[v]) return;
    needed[v] = true;
    if (s->values[v].kind == FB_VALUE_REDUCE || ready[v]) return;
    for (int i = 0; i < s->values[v].n_args; i++) need(s, s->values[v].args[i], ready, needed);
}

static void need_of_pass(const fb_section *s, fb_pass p, const bool *ready, bool *needed)
{
    memset(needed, 0, (size_t)s->n_values);
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (!fb_value_reduces(v, p)) continue;
        for (int a = 0; a < v->n_args; a++) need(s, v->args[a], ready, needed);
    }
    for (int i = 0; i < s->n_roots; i++)
        if (s->roots[i].space == p.space && s->roots[i].depth == p.depth) need(s, s->roots[i].value, ready, needed);
}

void fb_section_needed(const fb_section *s, int pass, bool *needed)
{
    bool *ready = fb_calloc((size_t)s->n_values + 1, 1);
    for (int i = 0; i < s->n_values; i++) ready[i] = s->values[i].kept && s->values[i].kept_pass < pass;
    need_of_pass(s, s->passes[pass], ready, needed);
    fb_free(ready);
}

/* Slow functions that several passes need are computed in the first. */
static void find_kept(fb_builder *b, fb_section *s)
{
    bool *needed = FB_NEW_ARRAY(b->scratch, bool, s->n_values);
    bool *ready = FB_NEW_ARRAY(b->scratch, bool, s->n_values); /* none is kept yet */
    int *passes = FB_NEW_ARRAY(b->scratch, int, s->n_values);
    for (int p = 0; p < s->n_passes; p++) {
        need_of_pass(s, s->passes[p], ready, needed);
        for (int i = 0; i < s->n_values; i++) passes[i] += needed[i] && s->values[i].space == s->passes[p].space;
    }
    for (int i = 0; i < s->n_values; i++) {
        fb_value *v = &s->values[i];
        if (passes[i] < 2 || v->kind != FB_VALUE_OP) continue;
        int64_t bytes = fb_space_points(&s->spaces[v->space]) * (v->dtype == FB_F64 ? 8 : 4);
        v->kept = fb_op_get(fb_node_computed_as(b->nest->graph, v->node))->special && bytes <= MAX_KEPT_BYTES;
        v->kept_pass = s->n_passes;
    }
    for (int p = 0; p < s->n_passes; p++) {
        need_of_pass(s, s->passes[p], ready, needed);
        for (int i = 0; i < s->n_values; i++) {
            fb_value *v = &s->values[i];
            if (!v->kept || ready[i] || !needed[i] || v->space != s->passes[p].space) continue;
            v->kept_pass = p;
            ready[i] = true;
        }
    }
}

static void finish_section(fb_builder *b, fb_section *s)
{
    find_passes(b, s);
    find_kept(b, s);
}

/* What nests of a kind ask for beside sections; one row a kind, at the end of this file. */
typedef struct {
    bool (*begin)(fb_builder *b);                         /* finds its products, before any section; NULL: none */
    bool (*first)(fb_builder *b);                         /* sections before those of what is stored; NULL: none */
    bool (*rows)(fb_builder *b, fb_id node, fb_draft *d); /* of a stored node; NULL: all its elements are */
    bool (*end)(fb_builder *b);                           /* when all sections are there; NULL: nothing */
    fb_rule rule;                                         /* that is broken where rows are not gone through … */
    const char *goes_by_rows;                             /* … as what is called so does */
    bool merges, rolls, collapses;                        /* what may become of its sections */
} kind_row;
static const kind_row *row_of(const fb_nest *nest);

/* The result is read row by row, so that its epilogue can be done in blocks of rows. */
static bool check_blocked(fb_builder *b, const fb_section *s)
{
    fb_nest *nest = b->nest;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (v->kind != FB_VALUE_LOAD || !fb_nest_is_product(nest, v->node)) continue;
        fb_contraction c = fb_contraction_of(nest->graph, v->node);
        if (c.batch * c.rows == 1) continue;
        int64_t stride, low = 0, high = 0;
        fb_ix rest;
        bool fine = fb_ix_stride(nest->pool, v->at, s->rows.var[0], &stride, &rest) && stride == c.columns;
        if (fine) fb_ix_range(nest->pool, rest, &low, &high);
        if (FB_MUTATE(26, !fine || low < 0 || high >= c.columns, false))
            return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, row_of(nest)->rule,
                                     "`%s` reads other rows of `%s` than its own, and %s goes row by row",
                                     nest->graph->nodes[s->roots[0].node].name, nest->graph->nodes[c.node].name,
                                     row_of(nest)->goes_by_rows);
    }
    return true;
}

/* Walks the draft, changing it as it asks, until sections stand for all of it. *short_rows as in fb_walk_result. */
static bool resolve_as(fb_builder *b, const fb_draft *first, bool *short_rows)
{
    FB_VEC(fb_draft) work = {0};
    FB_VEC_PUSH(&work, *first);
    bool fine = true;
    while (work.n && fine) {
        fb_draft draft = work.at[--work.n];
        fb_section section = {0};
        fb_walk_result r = fb_walk_draft(b, &draft, &section);
        *short_rows |= r.short_rows;
        switch (r.end) {
        case FB_WALK_DONE:
            fine = check_blocked(b, &section);
            finish_section(b, &section);
            FB_VEC_PUSH(&b->sections, section);
            FB_VEC_PUSH(&b->drafts, draft);
            break;
        case FB_WALK_REFUSED: fine = false; break;
        case FB_WALK_SPLIT:
            for (int i = r.n - 1; i > 0; i--) FB_VEC_PUSH(&work, draft_piece(b, &draft, r.row, r.at[i - 1], r.at[i]));
            break;
        case FB_WALK_FACTOR:
            draft_factor(b, &draft, r.row, r.at[0]);
            FB_VEC_PUSH(&work, draft);
            break;
        case FB_WALK_DEMOTE:
            fine = draft_demote(b, &draft, r.keep);
            FB_VEC_PUSH(&work, draft);
            break;
        }
    }
    FB_VEC_FREE(&work);
    return fine;
}

/* Where rows of short reductions do not go together with the rest, these are written out instead. */
static bool resolve(fb_builder *b, fb_draft *first)
{
    int sections = b->sections.n, stored = b->nest->kernel.n_stored;
    bool *done = fb_arena_copy(b->scratch, b->done, (size_t)stored * sizeof *done), short_rows = false;
    fb_draft again = draft_copy(b, first);
    if (resolve_as(b, first, &short_rows)) return true;
    if (!short_rows) return false;
    fb_verdict why = *b->why;
    memcpy(b->done, done, (size_t)stored * sizeof *done);
    b->sections.n = b->drafts.n = sections;
    again.writes_out = true;
    if (resolve_as(b, &again, &short_rows)) return true;
    *b->why = why;
    return false;
}

bool fb_builder_walk(fb_builder *b, fb_draft *draft, fb_section *section)
{
    fb_walk_result r = fb_walk_draft(b, draft, section);
    if (r.end == FB_WALK_DONE) return true;
    if (r.end == FB_WALK_REFUSED) return false;
    return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_ACCESS,
                             "`%s` is read in pieces that no single loop can follow: it has to be stored",
                             b->nest->graph->nodes[draft->roots[0].node].name);
}

/* Values worth sharing: computed ones, and loads that run over the whole section. */
static bool shares(const fb_section *a, const fb_section *b)
{
    for (int i = 0; i < b->n_values; i++) {
        const fb_value *v = &b->values[i];
        bool whole = v->rows == (1u << b->rows.n) - 1 && (b->n_spaces == 0 || v->space != FB_NONE);
        if (v->kind != FB_VALUE_LOAD || !whole) continue;
        for (int j = 0; j < a->n_values; j++) {
            const fb_value *u = &a->values[j];
            if (u->kind == FB_VALUE_LOAD && u->node == v->node && u->at == v->at && u->when == v->when) return true;
        }
    }
    return false;
}

static bool same_rows(const fb_space *a, const fb_space *b)
{
    return a->n == b->n && memcmp(a->extent, b->extent, (size_t)a->n * sizeof *a->extent) == 0;
}

/* Puts section `of` into an earlier one over the same rows; false: they do not go as one, and nothing is changed. */
static bool join_sections(fb_builder *b, int to, int of)
{
    fb_section both = {0};
    const fb_draft *x = &b->drafts.at[to], *y = &b->drafts.at[of];
    fb_draft joint = *x;
    joint.n_roots = x->n_roots + y->n_roots;
    joint.roots = FB_NEW_ARRAY(b->scratch, fb_draft_root, joint.n_roots);
    memcpy(joint.roots, x->roots, (size_t)x->n_roots * sizeof *x->roots);
    memcpy(joint.roots + x->n_roots, y->roots, (size_t)y->n_roots * sizeof *y->roots);
    joint.spaces = FB_NEW_ARRAY(b->scratch, fb_space, x->n_spaces + y->n_spaces);
    if (x->n_spaces) memcpy(joint.spaces, x->spaces, (size_t)x->n_spaces * sizeof *x->spaces);
    for (int s = 0; s < y->n_spaces; s++) {
        bool known = false;
        for (int t = 0; t < joint.n_spaces; t++) known |= same_rows(&joint.spaces[t], &y->spaces[s]);
        if (!known) joint.spaces[joint.n_spaces++] = y->spaces[s];
    }
    fb_draft kept = draft_copy(b, &joint);
    if (fb_walk_draft(b, &kept, &both).end != FB_WALK_DONE) return false;
    finish_section(b, &both);
    b->sections.at[to] = both;
    b->drafts.at[to] = kept;
    for (int i = of + 1; i < b->sections.n; i++) {
        b->sections.at[i - 1] = b->sections.at[i];
        b->drafts.at[i - 1] = b->drafts.at[i];
    }
    b->sections.n--;
    b->drafts.n--;
    return true;
}

/* Puts the newest section into an earlier one over the same rows that reads the same memory. */
static void merge_newest(fb_builder *b)
{
    enum { NEIGHBOURS = 8 };
    int newest = b->sections.n - 1;
    for (int i = newest - 1; i >= 0 && i >= newest - NEIGHBOURS; i--) {
        const fb_section *into = &b->sections.at[i], *from = &b->sections.at[newest];
        if (into->scatter || from->scatter || !same_rows(&into->rows, &from->rows) || !shares(into, from)) continue;
        join_sections(b, i, newest);
        return;
    }
}

/* Do two sections store elements that alternate in memory, as parts do that are stacked along the last dim? Two blocks would
 * write each sector of memory twice, a part of it at a time. (Rotated pairs of 4 × 2048 × 32 × 64, bf16, on an H200: 269 µs
 * where torch.compile's kernel takes 47.) */
static bool are_interleaved(fb_builder *b, const fb_section *x, const fb_section *y)
{
    fb_index_pool *pool = b->nest->pool;
    int64_t stride, by, apart;
    if (x->scatter || x->n_passes || y->n_passes || y->n_roots != 1 || !x->rows.n || !same_rows(&x->rows, &y->rows))
        return false;
    const fb_root *a = &x->roots[0], *c = &y->roots[0];
    const fb_ix last = x->rows.var[x->rows.n - 1];
    return a->node == c->node && a->storage == c->storage && fb_ix_coefficient(pool, a->at, last, &stride) &&
           fb_ix_coefficient(pool, c->at, last, &by) && stride == by && stride <= FB_MAX_INTERLEAVED &&
           fb_ix_is_const(pool, fb_ix_sub(pool, c->at, a->at), &apart) && apart > 0 && apart < stride;
}

static void merge_interleaved(fb_builder *b, int first)
{
    for (int i = first; i < b->sections.n; i++)
        for (int j = i + 1; j < b->sections.n;)
            if (!are_interleaved(b, &b->sections.at[i], &b->sections.at[j]) || !join_sections(b, i, j)) j++;
}

/* ---- many values of one shape at once ---- */

static int component(int *to, int v)
{
    while (to[v] != v) v = to[v] = to[to[v]];
    return v;
}

/* Do all roots hang together by what they compute and by what they read over the whole section? */
static bool hangs_together(fb_builder *b, const fb_section *s)
{
    int *to = FB_NEW_ARRAY(b->scratch, int, s->n_values + 1);
    for (int i = 0; i < s->n_values; i++) to[i] = i;
    for (int i = 0; i < s->n_values; i++) {
        for (int a = 0; a < s->values[i].n_args; a++) {
            const fb_value *v = &s->values[s->values[i].args[a]];
            bool whole = v->rows == (1u << s->rows.n) - 1 && (s->n_spaces == 0 || v->space != FB_NONE);
            if (fb_value_is_leaf(v) || (v->kind == FB_VALUE_LOAD && !whole)) continue;
            to[component(to, s->values[i].args[a])] = component(to, i);
        }
    }
    for (int i = 1; i < s->n_roots; i++)
        if (component(to, s->roots[i].value) != component(to, s->roots[0].value)) return false;
    return true;
}

static bool first_draft(fb_builder *b, fb_id node, fb_draft *d);

/* Of the values that go into one draft: those that no section stores yet, and that are computed where they lie. */
static bool may_be_joint(const fb_builder *b, int stored)
{
    const fb_graph *g = b->nest->graph;
    fb_id node = b->nest->kernel.stored[stored];
    return !b->done[stored] && fb_node_class(g, node) != FB_CLASS_EFFECT && g->nodes[node].op != FB_OP_SCATTER_ADD;
}

/* The last one's shape; in a group so large that walking it again for every other value would be felt, that of the
 * majority, where there is one. */
static const fb_shape *joint_shape(const fb_builder *b)
{
    enum { LARGE = 1024 };
    const fb_kernel_nodes *k = &b->nest->kernel;
    const fb_shape *shape = NULL;
    int lead = 0;
    for (int i = k->n_stored - 1; i >= 0; i--) {
        const fb_shape *s = &b->nest->graph->nodes[k->stored[i]].shape;
        if (!may_be_joint(b, i)) continue;
        if (!shape || (lead == 0 && k->n_nodes >= LARGE)) shape = s;
        lead += fb_shape_equal(s, shape) ? 1 : -1;
        if (lead < 0) lead = 0;
    }
    return shape;
}

/* All values of that shape, as one draft; marks them stored. */
static fb_draft joint_draft(fb_builder *b)
{
    const fb_kernel_nodes *k = &b->nest->kernel;
    const fb_graph *g = b->nest->graph;
    const fb_shape *shape = joint_shape(b);
    fb_draft joint = {0};
    for (int i = k->n_stored - 1; i >= 0; i--) {
        fb_draft one;
        if (!may_be_joint(b, i) || !fb_shape_equal(&g->nodes[k->stored[i]].shape, shape)) continue;
        if (joint.n_roots && fb_storage_innermost(g, k->stored[i]) != fb_storage_innermost(g, joint.roots[0].node))
            continue;
        if (!first_draft(b, k->stored[i], &one)) continue;
        if (!joint.n_roots) {
            joint = one;
            joint.n_roots = 0;
            joint.roots = FB_NEW_ARRAY(b->scratch, fb_draft_root, k->n_stored);
        }
        joint.roots[joint.n_roots++] = one.roots[0];
        b->done[i] = true;
    }
    return joint;
}

/* Walks it, as long as it stays one draft. */
static bool walk_as_one(fb_builder *b, fb_draft *d, fb_section *section)
{
    for (;;) {
        fb_walk_result r = fb_walk_draft(b, d, section);
        switch (r.end) {
        case FB_WALK_DONE: return hangs_together(b, section);
        case FB_WALK_FACTOR: draft_factor(b, d, r.row, r.at[0]); break;
        case FB_WALK_DEMOTE:
            if (!draft_demote(b, d, r.keep)) return false;
            break;
        default: return false;
        }
    }
}

/* A group that stores many values: merging section by section would walk all of them again for each. So they are tried
 * as one section first, and gone through one by one only where that cannot be. */
static void try_together(fb_builder *b)
{
    enum { MANY = 16 };
    int n = b->nest->kernel.n_stored;
    if (n < MANY || b->nest->kernel.kind != FB_NEST_LOOPS) return;
    bool *done = fb_arena_copy(b->scratch, b->done, (size_t)n * sizeof *done);
    fb_verdict why = *b->why;
    fb_draft joint = joint_draft(b);
    fb_section section = {0};
    if (joint.n_roots >= MANY && walk_as_one(b, &joint, &section)) {
        finish_section(b, &section);
        FB_VEC_PUSH(&b->sections, section);
        FB_VEC_PUSH(&b->drafts, joint);
        return;
    }
    memcpy(b->done, done, (size_t)n * sizeof *done);
    *b->why = why;
}

/* ---- first drafts ---- */

/* The rows of the (first) contraction's result first, then what the root has for each of them. */
static bool blocked_rows(fb_builder *b, fb_id node, fb_draft *d)
{
    fb_nest *nest = b->nest;
    const fb_node *n = &nest->graph->nodes[node];
    fb_contraction c = fb_contraction_of(nest->graph, nest->kernel.contractions[0]);
    int64_t rows = c.batch * c.rows, product = 1;
    int split = 0;
    while (split < n->shape.rank && product < rows) product *= n->shape.dim[split++];
    if (product != rows)
        return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, row_of(nest)->rule,
                                 "`%s` does not keep the %lld rows of `%s`, and %s goes row by row", n->name,
                                 (long long)rows, nest->graph->nodes[c.node].name, row_of(nest)->goes_by_rows);
    d->blocked = rows > 1;
    fb_ix row = fb_space_add(b, &d->rows, 'r', rows);
    fb_ix_unravel(nest->pool, row, split, n->shape.dim, d->roots[0].coords);
    for (int i = split; i < n->shape.rank; i++) d->roots[0].coords[i] = fb_space_add(b, &d->rows, 'r', n->shape.dim[i]);
    return true;
}

/* Where a value's last dim is not what lies side by side: its dims as they lie. */
static const int *order_in_memory(const fb_builder *b, fb_id node)
{
    const fb_graph *g = b->nest->graph;
    return fb_storage_innermost(g, node) == FB_NONE ? NULL : g->lies_as[node];
}

static bool first_draft(fb_builder *b, fb_id node, fb_draft *d)
{
    const fb_node *n = &b->nest->graph->nodes[node];
    *d = (fb_draft){.n_roots = 1, .roots = FB_NEW(b->scratch, fb_draft_root)};
    d->roots[0].node = node;
    d->scatter = n->op == FB_OP_SCATTER_ADD && fb_builder_inside(b, node); /* else it is there, to be copied */
    if (row_of(b->nest)->rows) return row_of(b->nest)->rows(b, node, d);
    const int *order = order_in_memory(b, node);
    for (int i = 0; i < n->shape.rank; i++) {
        int at = order ? order[i] : i;
        bool data = d->scatter && at == 0;
        d->roots[0].coords[at] =
            data ? fb_ix_const(b->nest->pool, 0) : fb_space_add(b, &d->rows, 'r', n->shape.dim[at]);
    }
    return true;
}

/* ---- library calls ---- */

static bool reaches_inside(fb_builder *b, fb_id node)
{
    return fb_builder_inside(b, fb_access_base(b->nest->graph, node));
}

static bool take_library(fb_builder *b)
{
    fb_nest *nest = b->nest;
    const fb_graph *g = nest->graph;
    const fb_kernel_nodes *k = &nest->kernel;
    if (k->n_contractions > 1)
        return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_LIBRARY,
                                 "`%s` and `%s` are two products: one library call makes one",
                                 g->nodes[k->contractions[0]].name, g->nodes[k->contractions[1]].name);
    if (!k->n_contractions)
        return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_LIBRARY,
                                 "there is no product to call a library for");
    nest->accumulator = k->contractions[0];
    const fb_node *c = &g->nodes[nest->accumulator];
    for (int i = 0; i < 2; i++)
        if (reaches_inside(b, c->args[i]))
            return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_LIBRARY,
                                     "`%s` is an operand of `%s`: a library call takes its operands from memory",
                                     g->nodes[fb_access_base(g, c->args[i])].name, c->name);
    return true;
}

/* No pass of the row follows the one that stores it. */
static bool is_stored_last(const fb_section *s, const fb_root *r)
{
    for (int i = 0; i < s->n_passes; i++) {
        bool own = s->passes[i].space == r->space && s->passes[i].depth == r->depth;
        if (!own && s->passes[i].depth >= r->depth) return false;
    }
    return true;
}

/* ---- a parameter that is read and assigned in one kernel ---- */

/* Is `base` an operand of a product that blocks of rows or tiles read at any time: of a library call, in a chain, in
 * tiles? */
static bool is_operand(const fb_nest *nest, fb_id base)
{
    const fb_graph *g = nest->graph;
    for (int i = 0; nest->accumulator != FB_NONE && i < 2; i++)
        if (fb_access_base(g, g->nodes[nest->accumulator].args[i]) == base) return true;
    for (int i = 0; i < fb_nest_links(nest); i++)
        if (nest->chain->link[i].a == base || nest->chain->link[i].b == base) return true;
    for (int i = nest->n_sections; i < fb_nest_parts(nest); i++) {
        const fb_section *s = fb_nest_part(nest, i);
        for (int k = 0; k < s->n_values; k++)
            if (s->values[k].kind == FB_VALUE_LOAD && s->values[k].node == base) return true;
    }
    return false;
}

bool fb_nest_overwrites(const fb_nest *nest, fb_id read, fb_id stored)
{
    if (is_operand(nest, read)) return false;
    for (int s = 0; s < nest->n_sections; s++) {
        const fb_section *section = &nest->sections[s];
        const fb_root *root = NULL;
        for (int r = 0; r < section->n_roots; r++)
            if (section->roots[r].storage == stored && section->roots[r].table == FB_NONE) root = &section->roots[r];
        for (int t = 0; t < section->n_tables; t++)
            for (int m = 0; m < section->members; m++)
                if (section->tables[t].base[m] == read || section->tables[t].base[m] == stored) return false;
        for (int i = 0; i < section->n_values; i++) {
            const fb_value *v = &section->values[i];
            if (v->kind != FB_VALUE_LOAD || v->node != read) continue;
            if (!root || v->at != root->at || !is_stored_last(section, root)) return false;
        }
    }
    return true;
}

/* Does a section other than the root's, or another element of it, read where the root is stored? */
static bool is_read_elsewhere(const fb_nest *nest, const fb_section *of, const fb_root *root)
{
    for (int s = 0; s < nest->n_sections; s++) {
        const fb_section *section = &nest->sections[s];
        for (int i = 0; i < section->n_values; i++) {
            const fb_value *v = &section->values[i];
            if (v->kind == FB_VALUE_LOAD && v->node == root->storage && (section != of || v->at != root->at))
                return true;
        }
    }
    return false;
}

bool fb_nest_makes_each_alone(const fb_nest *nest, bool rows)
{
    if (nest->kernel.kind != FB_NEST_LOOPS || nest->staged) return false;
    for (int s = 0; s < nest->n_sections; s++) {
        const fb_section *section = &nest->sections[s];
        if ((section->n_passes && !rows) || section->scatter || section->n_tables) return false;
        for (int r = 0; r < section->n_roots; r++)
            if (is_read_elsewhere(nest, section, &section->roots[r])) return false;
    }
    return true;
}

static int replaced(fb_arena *arena, const fb_id *ids, int n, fb_id old, fb_id by, const fb_id **out)
{
    fb_id *copy = fb_arena_copy(arena, ids, (size_t)n * sizeof *ids);
    for (int i = 0; i < n; i++)
        if (copy[i] == old) copy[i] = by;
    if (n) qsort(copy, (size_t)n, sizeof *copy, by_id);
    *out = copy;
    return n;
}

/* Members that share a loop store by a table of where. */
static void store_tables_at(fb_section *section, fb_id stored, fb_id storage, fb_arena *arena)
{
    section->tables = fb_arena_copy(arena, section->tables, (size_t)section->n_tables * sizeof *section->tables);
    for (int t = 0; t < section->n_tables; t++) {
        fb_table *table = &section->tables[t];
        if (!table->store) continue;
        fb_id *base = fb_arena_copy(arena, table->base, (size_t)section->members * sizeof *base);
        for (int m = 0; m < section->members; m++)
            if (base[m] == stored) base[m] = storage;
        table->base = base;
    }
}

const fb_nest *fb_nest_store_at(const fb_nest *nest, fb_id stored, fb_id storage, fb_arena *arena)
{
    fb_nest *to = fb_arena_copy(arena, nest, sizeof *nest);
    to->sections = fb_arena_copy(arena, nest->sections, (size_t)nest->n_sections * sizeof *nest->sections);
    for (int s = 0; s < to->n_sections; s++) {
        fb_section *section = &to->sections[s];
        section->roots = fb_arena_copy(arena, section->roots, (size_t)section->n_roots * sizeof *section->roots);
        for (int r = 0; r < section->n_roots; r++)
            if (section->roots[r].storage == stored) section->roots[r].storage = storage;
        store_tables_at(section, stored, storage, arena);
    }
    if (to->product == stored) to->product = storage;
    to->n_writes = replaced(arena, nest->writes, nest->n_writes, stored, storage, &to->writes);
    return to;
}

bool fb_nest_stores_alike(const fb_nest *nest, fb_id stored)
{
    bool any = false, alike = !nest->staged && nest->n_writes < FB_MAX_KERNEL_BUFFERS;
    for (int s = 0; s < nest->n_sections; s++) {
        const fb_section *section = &nest->sections[s];
        for (int r = 0; r < section->n_roots; r++) {
            if (section->roots[r].node != stored) continue;
            any = true;
            alike &= section->roots[r].storage == stored && section->roots[r].table == FB_NONE && !section->scatter;
        }
        for (int t = 0; t < section->n_tables; t++)
            for (int m = 0; m < section->members; m++) alike &= section->tables[t].base[m] != stored;
    }
    return any && alike;
}

const fb_nest *fb_nest_store_also(const fb_nest *nest, fb_id stored, fb_id storage, fb_arena *arena)
{
    fb_nest *to = fb_arena_copy(arena, nest, sizeof *nest);
    to->sections = fb_arena_copy(arena, nest->sections, (size_t)nest->n_sections * sizeof *nest->sections);
    for (int s = 0; s < to->n_sections; s++) {
        fb_section *section = &to->sections[s];
        int n = section->n_roots;
        fb_root *roots = FB_NEW_ARRAY(arena, fb_root, 2 * n);
        memcpy(roots, section->roots, (size_t)n * sizeof *roots);
        for (int r = 0; r < n; r++) {
            if (roots[r].storage != stored) continue;
            roots[section->n_roots] = roots[r];
            roots[section->n_roots++].storage = storage;
        }
        section->roots = roots;
    }
    fb_id *writes = FB_NEW_ARRAY(arena, fb_id, nest->n_writes + 1);
    int at = 0;
    for (int i = 0; i < nest->n_writes; i++) {
        if (at == i && nest->writes[i] > storage) writes[at++] = storage;
        writes[at++] = nest->writes[i];
    }
    if (at == nest->n_writes) writes[at++] = storage;
    to->writes = writes;
    to->n_writes = at;
    return to;
}

const fb_nest *fb_nest_as_stage(const fb_nest *nest, fb_arena *arena)
{
    fb_nest *to = fb_arena_copy(arena, nest, sizeof *nest);
    to->shared_bytes = 0;
    to->stage = true;
    return to;
}

const fb_nest *fb_nest_keep_right(const fb_nest *nest, fb_arena *arena)
{
    fb_nest *to = fb_arena_copy(arena, nest, sizeof *nest);
    to->tiled = fb_arena_copy(arena, nest->tiled, sizeof *nest->tiled);
    to->tiled->kept = true;
    return to;
}

const fb_nest *fb_nest_send_round(const fb_nest *nest, const fb_round *round, fb_arena *arena)
{
    fb_nest *to = fb_arena_copy(arena, nest, sizeof *nest);
    to->tiled = fb_arena_copy(arena, nest->tiled, sizeof *nest->tiled);
    to->tiled->round = round;
    return to;
}

const fb_nest *fb_nest_go_through(const fb_nest *nest, const fb_through *through, fb_arena *arena)
{
    fb_nest *to = fb_arena_copy(arena, nest, sizeof *nest);
    to->through = through;
    return to;
}

static bool check_assigns(fb_builder *b)
{
    const fb_graph *g = b->nest->graph;
    for (int s = 0; s < b->sections.n; s++) {
        for (int r = 0; r < b->sections.at[s].n_roots; r++) {
            const fb_root *root = &b->sections.at[s].roots[r];
            if (root->storage == root->node || root->storage == FB_COPY_OF_SOURCE) continue;
            if (is_operand(b->nest, root->storage))
                return fb_builder_refuse(
                    b, FB_VERDICT_UNSUPPORTED, FB_RULE_WRITE_AFTER_READ,
                    "`%s` overwrites `%s`, an operand of a product that the same kernel still reads",
                    g->nodes[root->node].name, g->nodes[root->storage].name);
            for (int t = 0; t < b->sections.n; t++) {
                const fb_section *u = &b->sections.at[t];
                for (int i = 0; i < u->n_values; i++) {
                    const fb_value *v = &u->values[i];
                    if (v->kind != FB_VALUE_LOAD || v->node != root->storage) continue;
                    /* the element itself is read before it is written, by the same iteration */
                    if (s == t && FB_MUTATE(25, v->at == root->at, true) && is_stored_last(u, root)) continue;
                    if (b->nest->kernel.n_nodes == 1) { /* alone, it is written elsewhere first */
                        b->nest->staged = true;
                        continue;
                    }
                    return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_WRITE_AFTER_READ,
                                             "`%s` overwrites elements of `%s` that the same kernel still reads",
                                             g->nodes[root->node].name, g->nodes[root->storage].name);
                }
            }
        }
    }
    return true;
}

/* An assignment that waits for the end of the region is alone in its kernel. */
static bool check_late(fb_builder *b)
{
    const fb_graph *g = b->nest->graph;
    for (int i = 0; i < b->nest->kernel.n_nodes; i++) {
        fb_id node = b->nest->kernel.nodes[i];
        if (g->nodes[node].op != FB_OP_ASSIGN || !fb_assign_is_late(g, node)) continue;
        if (b->nest->kernel.n_nodes > 1)
            return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_WRITE_AFTER_READ,
                                     "`%s` is one of several parameters that exchange values: its new one waits in "
                                     "memory until all are read",
                                     g->nodes[g->nodes[node].args[0]].name);
        b->nest->staged = true;
    }
    return true;
}

/* ---- the library's result, overwritten by what is made of it ---- */

/* The root reads its own element of the accumulator before it is stored, and nobody reads one afterwards. */
static bool in_place(const fb_nest *nest, const fb_section *s, const fb_root *r)
{
    const fb_node *c = &nest->graph->nodes[nest->accumulator], *n = &nest->graph->nodes[r->node];
    if (r->storage != r->node || n->dtype != c->dtype || fb_shape_elements(&n->shape) != fb_shape_elements(&c->shape))
        return false;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (v->kind == FB_VALUE_LOAD && v->node == nest->accumulator && v->at != r->at) return false;
    }
    return is_stored_last(s, r);
}

static void place_product(fb_builder *b)
{
    fb_nest *nest = b->nest;
    nest->product = nest->accumulator;
    if (nest->accumulator == FB_NONE || fb_builder_stored(b, nest->accumulator) != FB_NONE || b->sections.n != 1)
        return;
    const fb_section *s = &b->sections.at[0];
    for (int i = 0; i < s->n_roots && nest->product == nest->accumulator; i++)
        if (in_place(nest, s, &s->roots[i])) nest->product = s->roots[i].storage;
}

/* ---- all of it ---- */

static bool is_stored_elsewhere(const fb_builder *b, int i)
{
    const fb_nest *nest = b->nest;
    fb_id node = nest->kernel.stored[i];
    if (node == nest->accumulator) return true; /* by the library */
    return fb_shape_elements(&nest->graph->nodes[node].shape) == 0;
}

static bool chain_first(fb_builder *b)
{
    fb_draft middle;
    if (!fb_chain_middle(b, &middle)) return true;
    if (!resolve(b, &middle)) return false;
    b->nest->chain->n_middle = b->sections.n;
    return true;
}

static const kind_row *row_of(const fb_nest *nest)
{
    static const kind_row rows[] = {
        [FB_NEST_LOOPS] = {.merges = true, .rolls = true, .collapses = true},
        [FB_NEST_CALL] = {.begin = take_library,
                          .rows = blocked_rows,
                          .rule = FB_RULE_LIBRARY,
                          .goes_by_rows = "the library's result",
                          .merges = true,
                          .rolls = true,
                          .collapses = true},
        /* a tile's rows and columns stay what they are */
        [FB_NEST_TILES] = {.begin = fb_tiled_begin,
                           .rows = blocked_rows,
                           .end = fb_tiled_end,
                           .rule = FB_RULE_CONTRACTION,
                           .goes_by_rows = "a tile of products",
                           .merges = true},
        [FB_NEST_CHAIN] = {.begin = fb_chain_begin,
                           .first = chain_first,
                           .rows = fb_chain_draft,
                           .end = fb_chain_end,
                           .collapses = true},
    };
    return &rows[nest->kernel.kind];
}

static bool build(fb_builder *b)
{
    fb_nest *nest = b->nest;
    const kind_row *row = row_of(nest);
    if (row->begin && !row->begin(b)) return false;
    for (int i = 0; i < nest->kernel.n_stored; i++) b->done[i] = is_stored_elsewhere(b, i);
    if (row->first && !row->first(b)) return false;
    try_together(b);
    /* consumers first: they store what they meet */
    for (int i = nest->kernel.n_stored - 1; i >= 0; i--) {
        if (b->done[i]) continue;
        b->done[i] = true;
        fb_draft draft;
        int before = b->sections.n;
        if (!first_draft(b, nest->kernel.stored[i], &draft) || !resolve(b, &draft)) return false;
        if (row->merges) merge_interleaved(b, before);
        if (before && b->sections.n == before + 1 && row->merges) merge_newest(b);
    }
    if (row->end && !row->end(b)) return false;
    if (!check_assigns(b) || !check_late(b)) return false;
    for (int s = 0; s < b->sections.n && nest->staged; s++)
        for (int r = 0; r < b->sections.at[s].n_roots; r++) b->sections.at[s].roots[r].storage = FB_COPY_OF_SOURCE;
    return true;
}

static int collect(fb_arena *arena, fb_id *ids, int n, const fb_id **out)
{
    if (n) qsort(ids, (size_t)n, sizeof *ids, by_id);
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (kept == 0 || ids[kept - 1] != ids[i]) ids[kept++] = ids[i];
    *out = fb_arena_copy(arena, ids, (size_t)kept * sizeof *ids);
    return kept;
}

static bool collect_buffers(fb_builder *b)
{
    fb_nest *nest = b->nest;
    FB_VEC(fb_id) reads = {0}, writes = {0};
    for (int s = 0; s < b->sections.n + fb_nest_parts(nest); s++) { /* of the nest, those of operands are there yet */
        const fb_section *sec = s < b->sections.n ? &b->sections.at[s] : fb_nest_part(nest, s - b->sections.n);
        for (int i = 0; i < sec->n_values; i++)
            if (sec->values[i].kind == FB_VALUE_LOAD && !fb_nest_is_product(nest, sec->values[i].node))
                FB_VEC_PUSH(&reads, sec->values[i].node);
        for (int i = 0; i < sec->n_roots && s < b->sections.n; i++)
            if (sec->roots[i].storage != FB_ON_CHIP) FB_VEC_PUSH(&writes, sec->roots[i].storage);
    }
    for (int i = 0; i < fb_nest_links(nest); i++) {
        const fb_chain_link *p = &nest->chain->link[i];
        if (p->a != FB_NONE) FB_VEC_PUSH(&reads, p->a);
        FB_VEC_PUSH(&reads, p->b);
    }
    nest->n_reads = collect(nest->arena, reads.at, reads.n, &nest->reads);
    nest->n_writes = collect(nest->arena, writes.at, writes.n, &nest->writes);
    FB_VEC_FREE(&reads);
    FB_VEC_FREE(&writes);
    int buffers = nest->n_reads + nest->n_writes;
    if (buffers <= FB_MAX_KERNEL_BUFFERS) return true;
    return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_SIZE,
                             "the kernel would read and write %d tensors; %d is the most", buffers,
                             FB_MAX_KERNEL_BUFFERS);
}

/* Joins multiply where they meet: two of 27 parts are 729 pieces, more than any compiler likes. */
static bool few_sections(fb_builder *b)
{
    if (b->sections.n <= FB_MAX_SECTIONS) return true;
    return fb_builder_refuse(
        b, FB_VERDICT_UNSUPPORTED, FB_RULE_SIZE,
        "the kernel would be written in %d pieces, one for each part of what is joined; %d is the most", b->sections.n,
        FB_MAX_SECTIONS);
}

static void drop_pool(void *pool)
{
    fb_index_pool_free(pool);
}

/* A nest that does not hold what its header promises ends here: in the build that CI tests with the sanitizers, and in
 * any where FB_DEBUG has a v. */
static void verify(const fb_nest *nest)
{
#ifdef FB_ASAN
    const bool always = true;
#else
    const bool always = false;
#endif
    fb_str why = {0};
    if (nest && (always || fb_debug('v')) && !fb_nest_verify(nest, &why)) fb_bug(__FILE__, __LINE__, why.text);
    fb_str_free(&why);
}

fb_kernel_nodes fb_nest_kernel_of(fb_arena *arena, const fb_graph *g, const fb_id *nodes, int n_nodes,
                                  const fb_id *stored, int n_stored)
{
    fb_kernel_nodes k = {.graph = g,
                         .n_nodes = n_nodes,
                         .nodes = fb_arena_copy(arena, nodes, (size_t)n_nodes * sizeof *nodes),
                         .n_stored = n_stored,
                         .stored = fb_arena_copy(arena, stored, (size_t)n_stored * sizeof *stored)};
    for (int i = 0; i < n_nodes; i++) k.n_contractions += fb_node_class(g, nodes[i]) == FB_CLASS_CONTRACTION;
    fb_id *contractions = FB_NEW_ARRAY(arena, fb_id, k.n_contractions);
    for (int i = 0, n = 0; n < k.n_contractions; i++)
        if (fb_node_class(g, nodes[i]) == FB_CLASS_CONTRACTION) contractions[n++] = nodes[i];
    k.contractions = contractions;
    return k;
}

fb_nest *fb_nest_build(fb_arena *arena, const fb_kernel_nodes *k, const fb_machine *m, fb_verdict *why)
{
    fb_nest *nest = FB_NEW(arena, fb_nest);
    *nest = (fb_nest){.arena = arena,
                      .graph = k->graph,
                      .target = m->target,
                      .units = m->units,
                      .shared_bytes = m->shared_bytes,
                      .cache_bytes = m->cache_bytes,
                      .clusters = m->compute_major >= 9,
                      .pool = fb_index_pool_new(),
                      .kernel = *k,
                      .accumulator = FB_NONE};
    fb_arena_defer(arena, drop_pool, nest->pool);
    nest->kernel.nodes = fb_arena_copy(arena, k->nodes, (size_t)k->n_nodes * sizeof *k->nodes);
    nest->kernel.contractions =
        fb_arena_copy(arena, k->contractions, (size_t)k->n_contractions * sizeof *k->contractions);
    nest->kernel.stored = fb_arena_copy(arena, k->stored, (size_t)k->n_stored * sizeof *k->stored);
    fb_builder b = {.nest = nest, .machine = m, .why = why, .scratch = fb_arena_new()};
    b.done = FB_NEW_ARRAY(b.scratch, bool, k->n_stored);
    bool fine = build(&b) && few_sections(&b) && collect_buffers(&b);
    if (fine) {
        place_product(&b);
        nest->whens = fb_arena_copy(arena, b.whens.at, (size_t)b.whens.n * sizeof *b.whens.at);
        nest->n_whens = b.whens.n;
        fb_nest_count(nest, b.sections.at, b.sections.n);
        const kind_row *row = row_of(nest);
        if (row->rolls) fb_nest_roll(&b);
        for (int i = 0; i < b.sections.n; i++)
            (row->collapses ? fb_section_collapse : fb_section_collapse_spaces)(&b, &b.sections.at[i]);
        nest->sections = fb_arena_copy(arena, b.sections.at, (size_t)b.sections.n * sizeof *b.sections.at);
        nest->n_sections = b.sections.n;
        /* collapsing may have rewritten conditions */
        nest->whens = fb_arena_copy(arena, b.whens.at, (size_t)b.whens.n * sizeof *b.whens.at);
        nest->n_whens = b.whens.n;
        nest->facts.sections = nest->n_sections;
        for (int i = 0; i < nest->n_sections; i++) {
            if (nest->sections[i].members > nest->facts.rolled) nest->facts.rolled = nest->sections[i].members;
            if (nest->sections[i].n_tables > nest->facts.tables) nest->facts.tables = nest->sections[i].n_tables;
        }
    }
    FB_VEC_FREE(&b.whens);
    FB_VEC_FREE(&b.sections);
    FB_VEC_FREE(&b.drafts);
    FB_VEC_FREE(&b.vars);
    FB_VEC_FREE(&b.shapes);
    fb_arena_free(b.scratch);
    verify(fine ? nest : NULL);
    return fine ? nest : NULL;
}

fb_id fb_nest_product(const fb_nest *nest)
{
    return nest->accumulator == FB_NONE ? FB_NONE : nest->product;
}

bool fb_nest_staged(const fb_nest *nest)
{
    return nest->staged;
}

void fb_nest_facts_of(const fb_nest *nest, fb_nest_facts *out)
{
    *out = nest->facts;
}
