/* Rolling: sections that do the same over other memory become one with a member number as its outermost row variable.
 * Collapsing: neighbouring loops that no index tells apart become one loop.
 *
 * requires  sections with passes
 * provides  fewer sections and fewer loops that touch the same elements in the same order
 */
#include "nest/build.h"

#include "base/hash.h"
#include "base/mutate.h"

#include <string.h>

/* ---- equal sections ---- */

static fb_hash outline(const fb_nest *nest, const fb_section *s)
{
    fb_hasher *h = fb_hasher_new();
    fb_hasher_add(h, s->rows.extent, (size_t)s->rows.n * sizeof *s->rows.extent);
    fb_hasher_add_i64(h, s->n_roots);
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        fb_hasher_add_i64(h, v->kind);
        fb_hasher_add_i64(h, v->kind == FB_VALUE_LOAD ? -1 : (int)nest->graph->nodes[v->node].op);
        fb_hasher_add(h, v->args, (size_t)v->n_args * sizeof *v->args);
    }
    return fb_hasher_end(h);
}

static bool same_space(const fb_space *a, const fb_space *b)
{
    return a->n == b->n && memcmp(a->extent, b->extent, (size_t)a->n * sizeof *a->extent) == 0;
}

static bool shifted(fb_index_pool *pool, fb_ix a, fb_ix b, int64_t *shift)
{
    return fb_ix_is_const(pool, fb_ix_sub(pool, b, a), shift);
}

static bool same_computation(const fb_node *a, const fb_node *b)
{
    if (a->op != b->op || a->dtype != b->dtype) return false;
    if (a->op == FB_OP_RANDOM) return memcmp(a->attrs, b->attrs, sizeof *a->attrs) == 0;
    if (a->op == FB_OP_RANK && a->attrs->start != b->attrs->start) return false;
    return memcmp(&a->attrs->value, &b->attrs->value, sizeof a->attrs->value) == 0 &&
           memcmp(&a->attrs->high, &b->attrs->high, sizeof a->attrs->high) == 0;
}

static bool same_value(const fb_nest *nest, const fb_value *a, const fb_value *b)
{
    const fb_node *x = &nest->graph->nodes[a->node], *y = &nest->graph->nodes[b->node];
    int64_t shift;
    if (a->kind != b->kind || a->dtype != b->dtype || a->when != b->when || a->over != b->over ||
        a->n_args != b->n_args || a->kept != b->kept ||
        memcmp(a->args, b->args, (size_t)a->n_args * sizeof *a->args) != 0)
        return false;
    switch (a->kind) {
    case FB_VALUE_CONST: return memcmp(&a->number, &b->number, sizeof a->number) == 0;
    case FB_VALUE_LOAD: return shifted(nest->pool, a->at, b->at, &shift) && x->dtype == y->dtype;
    case FB_VALUE_INDEX: return a->at == b->at;
    case FB_VALUE_RANDOM: return a->at == b->at && same_computation(x, y);
    case FB_VALUE_SELECT: return true;
    case FB_VALUE_FOLD: return same_computation(x, y) && a->number == b->number;
    default: return same_computation(x, y);
    }
}

static bool equal_sections(const fb_nest *nest, const fb_section *a, const fb_section *b)
{
    if (!same_space(&a->rows, &b->rows) || a->n_spaces != b->n_spaces || a->n_values != b->n_values ||
        a->n_roots != b->n_roots || a->n_data || b->n_data || a->scatter || b->scatter || a->blocked || b->blocked)
        return false;
    for (int i = 0; i < a->n_spaces; i++)
        if (!same_space(&a->spaces[i], &b->spaces[i])) return false;
    for (int i = 0; i < a->n_values; i++)
        if (!same_value(nest, &a->values[i], &b->values[i])) return false;
    for (int i = 0; i < a->n_roots; i++) {
        const fb_root *x = &a->roots[i], *y = &b->roots[i];
        int64_t shift;
        if (x->value != y->value || x->space != y->space || !shifted(nest->pool, x->at, y->at, &shift) ||
            nest->graph->nodes[x->node].dtype != nest->graph->nodes[y->node].dtype)
            return false;
    }
    return true;
}

/* ---- rolling ---- */

typedef struct {
    fb_section *rolled;
    int n;
    fb_id *base;
    int64_t *shift;
} member_access;

/* One base with evenly spaced shifts is index arithmetic; anything else is a table. */
static fb_ix place_members(fb_builder *b, member_access *m, bool store, fb_ix at, int *table)
{
    bool affine = true;
    int64_t step = m->n > 1 ? m->shift[1] - m->shift[0] : 0;
    for (int i = 1; i < m->n; i++)
        affine &=
            FB_MUTATE(48, m->base[i] == m->base[0], true) && FB_MUTATE(47, m->shift[i] - m->shift[i - 1] == step, true);
    if (affine) return fb_ix_add(b->nest->pool, at, fb_ix_scale(b->nest->pool, m->rolled->member, step));
    fb_section *s = m->rolled;
    for (int t = 0; t < s->n_tables; t++) {
        const fb_table *have = &s->tables[t];
        if (have->store == store && memcmp(have->base, m->base, (size_t)m->n * sizeof *m->base) == 0 &&
            memcmp(have->shift, m->shift, (size_t)m->n * sizeof *m->shift) == 0) {
            *table = t;
            return at;
        }
    }
    fb_arena *arena = b->nest->arena;
    *table = s->n_tables;
    s->tables[s->n_tables++] = (fb_table){store, fb_arena_copy(arena, m->base, (size_t)m->n * sizeof *m->base),
                                          fb_arena_copy(arena, m->shift, (size_t)m->n * sizeof *m->shift)};
    return at;
}

static fb_section roll_members(fb_builder *b, const int *members, int n)
{
    fb_nest *nest = b->nest;
    const fb_section *first = &b->sections.at[members[0]];
    fb_section s = *first;
    s.members = n;
    s.member = fb_builder_var(b, 'm', 0, n);
    s.values = fb_arena_copy(nest->arena, first->values, (size_t)first->n_values * sizeof *first->values);
    s.roots = fb_arena_copy(nest->arena, first->roots, (size_t)first->n_roots * sizeof *first->roots);
    s.tables = FB_NEW_ARRAY(nest->arena, fb_table, first->n_values + first->n_roots);
    for (int d = s.rows.n++; d > 0; d--) {
        s.rows.var[d] = s.rows.var[d - 1];
        s.rows.extent[d] = s.rows.extent[d - 1];
    }
    s.rows.var[0] = s.member;
    s.rows.extent[0] = n;
    member_access m = {&s, n, FB_NEW_ARRAY(b->scratch, fb_id, n), FB_NEW_ARRAY(b->scratch, int64_t, n)};
    for (int i = 0; i < s.n_values; i++) {
        fb_value *v = &s.values[i];
        if (v->kind != FB_VALUE_LOAD) continue;
        for (int k = 0; k < n; k++) {
            const fb_value *u = &b->sections.at[members[k]].values[i];
            m.base[k] = u->node;
            shifted(nest->pool, v->at, u->at, &m.shift[k]);
        }
        v->at = place_members(b, &m, false, v->at, &v->table);
    }
    for (int i = 0; i < s.n_roots; i++) {
        fb_root *r = &s.roots[i];
        for (int k = 0; k < n; k++) {
            const fb_root *u = &b->sections.at[members[k]].roots[i];
            m.base[k] = u->storage;
            shifted(nest->pool, r->at, u->at, &m.shift[k]);
        }
        r->at = place_members(b, &m, true, r->at, &r->table);
    }
    return s;
}

void fb_nest_roll(fb_builder *b)
{
    int n = b->sections.n;
    fb_hash *outlines = FB_NEW_ARRAY(b->scratch, fb_hash, n);
    bool *taken = FB_NEW_ARRAY(b->scratch, bool, n);
    int *members = FB_NEW_ARRAY(b->scratch, int, n);
    for (int i = 0; i < n; i++) outlines[i] = outline(b->nest, &b->sections.at[i]);
    fb_section *rolled = FB_NEW_ARRAY(b->scratch, fb_section, n);
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (taken[i]) continue;
        int n_members = 0;
        bool room = b->sections.at[i].rows.n < FB_MAX_ROW_VARS;
        for (int j = i; j < n && (j == i || room); j++) {
            if (taken[j] || !fb_hash_equal(outlines[i], outlines[j])) continue;
            if (j > i && !equal_sections(b->nest, &b->sections.at[i], &b->sections.at[j])) continue;
            taken[j] = true;
            members[n_members++] = j;
        }
        rolled[kept++] = n_members > 1 ? roll_members(b, members, n_members) : b->sections.at[i];
    }
    if (kept) memcpy(b->sections.at, rolled, (size_t)kept * sizeof *rolled);
    b->sections.n = kept;
}

/* ---- collapsing ---- */

typedef struct {
    fb_builder *b;
    fb_ix outer, inner; /* neighbours */
    int64_t extent;     /* of the inner one */
    fb_ix from, to;     /* substitution */
} rewrite;

static bool tells_apart(rewrite *r, fb_ix at)
{
    const fb_index_pool *pool = r->b->nest->pool;
    int64_t outer, inner;
    if (!fb_ix_uses(pool, at, r->outer) && !fb_ix_uses(pool, at, r->inner)) return false;
    if (!fb_ix_coefficient(pool, at, r->outer, &outer) || !fb_ix_coefficient(pool, at, r->inner, &inner)) return true;
    return FB_MUTATE(51, outer != inner * r->extent, false);
}

static bool any_tells_apart(rewrite *r, const fb_section *s)
{
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        bool indexed = fb_value_is_indexed(v);
        if (indexed && tells_apart(r, v->at)) return true;
        for (int c = v->when; c != FB_NONE; c = r->b->whens.at[c].outer)
            if (tells_apart(r, r->b->whens.at[c].at)) return true;
    }
    for (int i = 0; i < s->n_roots; i++)
        if (tells_apart(r, s->roots[i].at)) return true;
    return false;
}

/* `made`: what each of the conditions has become, FB_NONE where it was not asked for. They are chains that share their outer
 * ends, and many values have the same one. */
static int rewrite_when(rewrite *r, int when, int *made)
{
    if (when == FB_NONE) return FB_NONE;
    if (made[when] != FB_NONE) return made[when];
    fb_when c = r->b->whens.at[when], old = c;
    c.outer = rewrite_when(r, c.outer, made);
    c.at = fb_ix_substitute(r->b->nest->pool, c.at, r->from, r->to);
    if (c.outer == old.outer && c.at == old.at) return made[when] = when;
    for (int i = 0; i < r->b->whens.n; i++) {
        const fb_when *have = &r->b->whens.at[i];
        if (have->outer == c.outer && have->at == c.at && have->low == c.low && have->high == c.high)
            return made[when] = i;
    }
    FB_VEC_PUSH(&r->b->whens, c);
    return made[when] = r->b->whens.n - 1;
}

static void substitute(fb_builder *b, fb_section *s, fb_ix from, fb_ix to)
{
    rewrite r = {.b = b, .from = from, .to = to};
    if (from == to) return;
    int *made = fb_alloc((size_t)b->whens.n * sizeof *made + 1);
    for (int i = 0; i < b->whens.n; i++) made[i] = FB_NONE;
    for (int i = 0; i < s->n_values; i++) {
        fb_value *v = &s->values[i];
        bool indexed = fb_value_is_indexed(v);
        if (indexed) v->at = fb_ix_substitute(b->nest->pool, v->at, from, to);
        v->when = rewrite_when(&r, v->when, made);
    }
    fb_free(made);
    for (int i = 0; i < s->n_roots; i++) s->roots[i].at = fb_ix_substitute(b->nest->pool, s->roots[i].at, from, to);
}

/* A name that no loop has otherwise: of loop d of a space (-1: the rows), or of what it and the next one have become. */
static fb_ix parked_var(fb_builder *b, int space, bool is_one, int d, int64_t extent)
{
    return fb_builder_var(b, 'p', (2 * (space + 2) + is_one) * FB_MAX_ROW_VARS + d, extent);
}

/* The name of loop d of a space (-1: the rows) by its place. */
static fb_ix place_var(fb_builder *b, const fb_section *s, int space, int d)
{
    int64_t extent = space < 0 ? s->rows.extent[d] : s->spaces[space].extent[d];
    return fb_builder_var(b, space < 0 ? 'r' : 'i', d - (space < 0 && s->n_tables > 0), extent);
}

static bool keeps_name(fb_builder *b, const fb_section *s, int space, int d)
{
    const fb_space *of = space < 0 ? &s->rows : &s->spaces[space];
    return (space < 0 && s->n_tables && of->var[d] == s->member) || of->var[d] == place_var(b, s, space, d);
}

/* The loops of all spaces, of the rows (-1) as well or from the first on, take the names of their places; a member variable
 * that numbers tables keeps its own, as does one whose place is what it was. The others leave their old names before one takes
 * a new one, which may have been another's, of another space too. */
static void renumber(fb_builder *b, fb_section *s, int from)
{
    for (int i = from; i < s->n_spaces; i++) {
        fb_space *space = i < 0 ? &s->rows : &s->spaces[i];
        for (int d = 0; d < space->n; d++) {
            if (keeps_name(b, s, i, d) || space->var[d] == parked_var(b, i, true, d, space->extent[d])) continue;
            fb_ix parked = parked_var(b, i, false, d, space->extent[d]);
            substitute(b, s, space->var[d], parked);
            space->var[d] = parked;
        }
    }
    for (int i = from; i < s->n_spaces; i++) {
        fb_space *space = i < 0 ? &s->rows : &s->spaces[i];
        for (int d = 0; d < space->n; d++) {
            if (keeps_name(b, s, i, d)) continue;
            fb_ix var = place_var(b, s, i, d);
            substitute(b, s, space->var[d], var);
            space->var[d] = var;
        }
    }
}

/* Of a space (-1: the rows). False: no two of its loops are one. */
static bool collapse_space(fb_builder *b, fb_section *s, int number)
{
    const char kind = number < 0 ? 'r' : 'i';
    fb_space *space = number < 0 ? &s->rows : &s->spaces[number];
    const int was = space->n;
    int first = kind != 'r' ? 0 : s->blocked ? s->blocked : s->n_tables > 0;
    fb_added added; /* which keeps the variable that numbers rows */
    if (kind == 'r' && fb_section_adds(b->nest, s, &added) && added.sum != FB_NONE) first = added.row + 1;
    for (int d = space->n - 2; d >= first; d--) {
        rewrite r = {.b = b, .outer = space->var[d], .inner = space->var[d + 1], .extent = space->extent[d + 1]};
        if (any_tells_apart(&r, s)) continue;
        int64_t extent = space->extent[d] * space->extent[d + 1];
        fb_ix both = parked_var(b, number, true, d, extent);
        substitute(b, s, r.outer, fb_ix_const(b->nest->pool, 0));
        substitute(b, s, r.inner, both);
        space->var[d] = both;
        space->extent[d] = extent;
        for (int e = d + 1; e < space->n - 1; e++) {
            space->var[e] = space->var[e + 1];
            space->extent[e] = space->extent[e + 1];
        }
        space->n--;
    }
    return space->n < was;
}

/* Which row variables each value varies with, after the rows have changed. */
static void recount_rows(fb_builder *b, fb_section *s)
{
    fb_index_pool *pool = b->nest->pool;
    for (int i = 0; i < s->n_values; i++) {
        fb_value *v = &s->values[i];
        bool indexed = fb_value_is_indexed(v);
        v->rows = 0;
        for (int a = 0; a < v->n_args; a++) v->rows |= s->values[v->args[a]].rows;
        for (int d = 0; d < s->rows.n; d++) {
            bool uses = indexed && fb_ix_uses(pool, v->at, s->rows.var[d]);
            uses |= v->table != FB_NONE && s->rows.var[d] == s->member;
            for (int c = v->when; c != FB_NONE && !uses; c = b->whens.at[c].outer)
                uses = fb_ix_uses(pool, b->whens.at[c].at, s->rows.var[d]);
            v->rows |= uses ? 1u << d : 0;
        }
        bool added = v->kind == FB_VALUE_REDUCE && b->nest->graph->nodes[v->node].op == FB_OP_SCATTER_ADD;
        if (added) v->rows = (1u << s->rows.n) - 1;
    }
}

void fb_section_collapse(fb_builder *b, fb_section *s)
{
    s->spaces = fb_arena_copy(b->nest->arena, s->spaces, (size_t)s->n_spaces * sizeof *s->spaces);
    for (int i = -1; i < s->n_spaces; i++) collapse_space(b, s, i);
    renumber(b, s, -1);
    recount_rows(b, s);
}

/* Fewer divisions; and NVRTC 13.0 falls over a tile's row that is read as (p / 3) · 3 + p % 3 in two ways. */
void fb_section_collapse_spaces(fb_builder *b, fb_section *s)
{
    s->spaces = fb_arena_copy(b->nest->arena, s->spaces, (size_t)s->n_spaces * sizeof *s->spaces);
    bool any = false;
    for (int i = 0; i < s->n_spaces; i++) any |= collapse_space(b, s, i);
    if (any) renumber(b, s, 0);
}
