/* Holds a nest against what its header promises.
 *
 * requires  a nest, built or made wrong on purpose
 * provides  true, or false with the first thing that does not hold
 * Indices are tried at points of their loops rather than by their ranges: a range is too wide for sums of remainders.
 */
#include "nest/verify.h"

#include "base/rng.h"
#include "nest/parts.h"

#include <inttypes.h>
#include <stdio.h>

enum { POINTS = 24 };

typedef struct {
    const fb_nest *nest;
    const fb_section *section;
    const char *where; /* "section 2" */
    fb_str *why;
    /* while an index is tried: */
    int space; /* whose variables may occur beside the rows'; FB_NONE: none */
    int point;
    bool by_data, stranger;
} verifier;

#define REFUSE(v, ...) (fb_str_addf((v)->why, __VA_ARGS__), false)

static const char *name_of(const verifier *v, fb_id node)
{
    return node >= 0 && node < v->nest->graph->n_nodes ? v->nest->graph->nodes[node].name : "?";
}

static int64_t elements_of(const verifier *v, fb_id node)
{
    return fb_shape_elements(&v->nest->graph->nodes[node].shape);
}

/* ---- indices ---- */

/* The first points are the corners, the others lie anywhere; the same for equal nests. */
static int64_t coordinate(const verifier *v, fb_ix var, int64_t extent)
{
    if (v->point == 0) return 0;
    if (v->point == 1) return extent - 1;
    uint64_t bits = fb_rng_bits(fb_splitmix64((uint64_t)var + 1), (uint64_t)v->point);
    if (v->point < POINTS / 2) return bits & 1 ? extent - 1 : 0;
    return (int64_t)((bits >> 1) % (uint64_t)extent);
}

static bool is_of(const fb_space *s, fb_ix var)
{
    for (int d = 0; d < s->n; d++)
        if (s->var[d] == var) return true;
    return false;
}

static int64_t value_of_var(void *ctx, fb_ix var)
{
    verifier *v = ctx;
    const fb_section *s = v->section;
    for (int i = 0; i < s->n_data; i++)
        if (s->data[i].var == var) v->by_data = true;
    bool known = v->by_data || is_of(&s->rows, var) || (v->space != FB_NONE && is_of(&s->spaces[v->space], var));
    v->stranger |= !known;
    int64_t extent = fb_ix_extent(v->nest->pool, var);
    return v->by_data || extent < 1 ? 0 : coordinate(v, var, extent);
}

static int64_t eval(verifier *v, fb_ix at)
{
    return fb_ix_eval(v->nest->pool, at, value_of_var, v);
}

static bool holds(verifier *v, int when)
{
    for (; when != FB_NONE; when = v->nest->whens[when].outer) {
        const fb_when *w = &v->nest->whens[when];
        int64_t at = eval(v, w->at);
        if (at < w->low || at >= w->high) return false;
    }
    return true;
}

/* Loops over empty tensors run over nothing, and neither is anything done that stands in front of them. */
static bool goes_nowhere(const fb_section *s)
{
    bool empty = fb_space_points(&s->rows) == 0;
    for (int i = 0; i < s->n_spaces; i++) empty |= fb_space_points(&s->spaces[i]) == 0;
    return empty;
}

/* `what` reads or writes element `at` of something with so many elements from `shift` on, where `when` holds. INT64_MAX:
 * of nothing in memory; a number drawn or counted outside of what is padded is chosen by nobody. */
static bool index_fits(verifier *v, const char *what, int number, fb_ix at, int when, int space, int64_t shift,
                       int64_t elements)
{
    v->space = space;
    v->stranger = false;
    if (goes_nowhere(v->section)) return true;
    for (v->point = 0; v->point < POINTS; v->point++) {
        v->by_data = false;
        bool inside = holds(v, when);
        int64_t element = eval(v, at) + shift;
        if (v->stranger)
            return REFUSE(v, "%s, %s %d: its index uses a variable that is none of its loops'", v->where, what, number);
        if (inside && !v->by_data && elements < INT64_MAX && (element < 0 || element >= elements))
            return REFUSE(v, "%s, %s %d: element %" PRId64 " of %" PRId64, v->where, what, number, element, elements);
    }
    return true;
}

/* One storage, or that of each member, which the section's outermost row variable numbers. */
static bool element_fits(verifier *v, const char *what, int number, fb_id node, int table, fb_ix at, int when,
                         int space)
{
    const fb_section *s = v->section;
    if (table == FB_NONE) return node < 0 || index_fits(v, what, number, at, when, space, 0, elements_of(v, node));
    if (table < 0 || table >= s->n_tables || s->members < 2)
        return REFUSE(v, "%s, %s %d: there is no table %d", v->where, what, number, table);
    const fb_table *t = &s->tables[table];
    for (int m = 0; m < s->members; m++) {
        if (t->base[m] < 0) continue;
        if (!index_fits(v, what, number, at, when, space, t->shift[m], elements_of(v, t->base[m]))) return false;
    }
    return true;
}

/* ---- sections ---- */

static bool spaces_fit(verifier *v)
{
    const fb_section *s = v->section;
    for (int i = -1; i < s->n_spaces; i++) {
        const fb_space *space = i < 0 ? &s->rows : &s->spaces[i];
        if (space->n < 0 || space->n > FB_MAX_ROW_VARS) return REFUSE(v, "%s: a space of %d loops", v->where, space->n);
        for (int d = 0; d < space->n; d++) {
            if (space->extent[d] == 1 || space->extent[d] < 0 ||
                space->extent[d] != fb_ix_extent(v->nest->pool, space->var[d]))
                return REFUSE(v, "%s: a loop of %" PRId64 " whose variable goes to %" PRId64, v->where,
                              space->extent[d], fb_ix_extent(v->nest->pool, space->var[d]));
            if (i >= 0 && is_of(&s->rows, space->var[d]))
                return REFUSE(v, "%s: a variable of space %d is one of the rows' too", v->where, i);
        }
    }
    return true;
}

/* Constants have no place of their own, and neither has what they were made of. */
static bool operands_fit(verifier *v, int i)
{
    const fb_section *s = v->section;
    const fb_value *x = &s->values[i];
    int depth = 0;
    for (int a = 0; a < x->n_args; a++) {
        if (x->args[a] < 0 || x->args[a] >= i)
            return REFUSE(v, "%s, value %d: operand %d does not come before it", v->where, i, x->args[a]);
        const fb_value *y = &s->values[x->args[a]];
        if (y->depth > depth) depth = y->depth;
        if (y->space != FB_NONE && y->space != x->space && y->space != x->over)
            return REFUSE(v, "%s, value %d: operand %d varies over space %d, and it does not", v->where, i, x->args[a],
                          y->space);
    }
    depth += x->kind == FB_VALUE_REDUCE;
    if (x->depth != depth) return REFUSE(v, "%s, value %d: depth %d, not %d", v->where, i, depth, x->depth);
    return true;
}

static bool has_pass(const fb_section *s, int space, int depth)
{
    for (int i = 0; i < s->n_passes; i++)
        if (s->passes[i].space == space && s->passes[i].depth == depth) return true;
    return false;
}

static bool value_fits(verifier *v, int i)
{
    const fb_section *s = v->section;
    const fb_value *x = &s->values[i];
    if (x->space < FB_NONE || x->space >= s->n_spaces || x->when < FB_NONE || x->when >= v->nest->n_whens)
        return REFUSE(v, "%s, value %d: there is no such space or condition", v->where, i);
    bool over = x->kind == FB_VALUE_REDUCE || x->kind == FB_VALUE_SCAN;
    if (over != (x->over != FB_NONE) || x->over >= s->n_spaces)
        return REFUSE(v, "%s, value %d: it goes over space %d", v->where, i, x->over);
    if (!operands_fit(v, i)) return false;
    if (x->kind == FB_VALUE_REDUCE && !has_pass(s, x->over, x->depth - 1))
        return REFUSE(v, "%s, value %d: no pass over space %d at depth %d computes it", v->where, i, x->over,
                      x->depth - 1);
    if (x->kind == FB_VALUE_LOAD) return element_fits(v, "value", i, x->node, x->table, x->at, x->when, x->space);
    return !fb_value_is_indexed(x) || index_fits(v, "value", i, x->at, FB_NONE, x->space, 0, INT64_MAX);
}

/* An operand's root is a value and no more: nothing is stored. */
static bool root_fits(verifier *v, int i, bool stores)
{
    const fb_section *s = v->section;
    const fb_root *r = &s->roots[i];
    if (r->value < 0 || r->value >= s->n_values)
        return REFUSE(v, "%s stores value %d, of %d", v->where, r->value, s->n_values);
    if (r->depth != s->values[r->value].depth)
        return REFUSE(v, "%s stores value %d at depth %d", v->where, r->value, r->depth);
    if (r->space < FB_NONE || r->space >= s->n_spaces)
        return REFUSE(v, "%s stores %s over space %d", v->where, name_of(v, r->node), r->space);
    if (!stores) return true;
    if (r->space != FB_NONE && !s->scatter && !has_pass(s, r->space, r->depth))
        return REFUSE(v, "%s stores %s in no pass", v->where, name_of(v, r->node));
    return element_fits(v, "store", i, r->storage, r->table, r->at, FB_NONE, r->space);
}

static bool section_fits(verifier *v, bool stores)
{
    const fb_section *s = v->section;
    if (!spaces_fit(v)) return false;
    for (int i = 0; i < s->n_values; i++)
        if (!value_fits(v, i)) return false;
    for (int i = 0; i < s->n_data; i++)
        if (s->data[i].value < 0 || s->data[i].value >= s->n_values)
            return REFUSE(v, "%s: %s is read from no value", v->where, s->data[i].name);
    for (int i = 0; i < s->n_roots; i++)
        if (!root_fits(v, i, stores)) return false;
    for (int i = 1; i < s->n_passes; i++)
        if (s->passes[i].depth < s->passes[i - 1].depth) return REFUSE(v, "%s: pass %d is too late", v->where, i);
    return true;
}

/* ---- what is read and written ---- */

static bool is_listed(const fb_id *ids, int n, fb_id node)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == node) return true;
    return false;
}

static bool touches(const fb_section *s, bool store, int table, fb_id own, fb_id node)
{
    if (table == FB_NONE) return own == node;
    return s->tables[table].store == store && is_listed(s->tables[table].base, s->members, node);
}

static bool is_read(const fb_nest *nest, fb_id node)
{
    for (int i = 0; i < fb_nest_parts(nest); i++) {
        const fb_section *s = fb_nest_part(nest, i);
        for (int k = 0; k < s->n_values; k++)
            if (s->values[k].kind == FB_VALUE_LOAD && touches(s, false, s->values[k].table, s->values[k].node, node))
                return true;
    }
    for (int i = 0; i < fb_nest_links(nest); i++)
        if (nest->chain->link[i].a == node || nest->chain->link[i].b == node) return true;
    return false;
}

static bool is_written(const fb_nest *nest, fb_id node)
{
    for (int i = 0; i < nest->n_sections; i++) {
        const fb_section *s = &nest->sections[i];
        for (int k = 0; k < s->n_roots; k++)
            if (touches(s, true, s->roots[k].table, s->roots[k].storage, node)) return true;
    }
    return nest->accumulator != FB_NONE && nest->product == node;
}

static bool lists_fit(verifier *v)
{
    const fb_nest *nest = v->nest;
    for (int i = 0; i < nest->n_reads; i++)
        if (!is_read(nest, nest->reads[i]))
            return REFUSE(v, "%s is listed as read, and no value loads it", name_of(v, nest->reads[i]));
    for (int i = 0; i < nest->n_writes; i++)
        if (!is_written(nest, nest->writes[i]))
            return REFUSE(v, "%s is listed as written, and nothing stores it", name_of(v, nest->writes[i]));
    for (int i = 0; i < fb_nest_parts(nest); i++) {
        const fb_section *s = fb_nest_part(nest, i);
        for (int k = 0; k < s->n_values; k++) {
            const fb_value *x = &s->values[k];
            bool load = x->kind == FB_VALUE_LOAD && x->table == FB_NONE && !fb_nest_is_product(nest, x->node);
            if (load && !is_listed(nest->reads, nest->n_reads, x->node))
                return REFUSE(v, "%s is loaded, and not listed as read", name_of(v, x->node));
        }
        for (int k = 0; k < s->n_roots && i < nest->n_sections; k++) {
            const fb_root *r = &s->roots[k];
            if (r->table == FB_NONE && r->storage != FB_ON_CHIP && !is_listed(nest->writes, nest->n_writes, r->storage))
                return REFUSE(v, "%s is stored, and not listed as written", name_of(v, r->storage));
        }
    }
    return true;
}

/* Elements of the node that the section's stores go over, one by one or for each member of a loop. */
static int64_t points_stored(const fb_nest *nest, const fb_section *s, fb_id node)
{
    const fb_node *n = &nest->graph->nodes[node];
    fb_id storage = n->op == FB_OP_ASSIGN ? fb_access_base(nest->graph, n->args[0]) : node;
    int64_t points = 0;
    for (int r = 0; r < s->n_roots; r++) {
        const fb_root *root = &s->roots[r];
        int64_t each =
            fb_space_points(&s->rows) * (root->space == FB_NONE ? 1 : fb_space_points(&s->spaces[root->space]));
        if (root->table == FB_NONE) points += root->node == node ? each : 0;
        for (int m = 0; m < s->members && root->table != FB_NONE; m++)
            points += s->tables[root->table].base[m] == storage ? each / s->members : 0;
    }
    return points;
}

/* All of a tensor is stored, where its stores show it: not what is added up in memory, nor what a product's own tiles
 * keep. */
static bool stores_cover(verifier *v)
{
    const fb_nest *nest = v->nest;
    for (int i = 0; i < nest->kernel.n_stored; i++) {
        fb_id node = nest->kernel.stored[i];
        int64_t points = 0, elements = elements_of(v, node);
        bool shown = !nest->chain && node != nest->accumulator;
        for (int k = 0; k < nest->n_sections; k++) {
            points += points_stored(nest, &nest->sections[k], node);
            shown &= !nest->sections[k].scatter;
        }
        if (shown && points > 0 && points < elements)
            return REFUSE(v, "%s has %" PRId64 " elements, and %" PRId64 " are stored", name_of(v, node), elements,
                          points);
    }
    return true;
}

bool fb_nest_verify(const fb_nest *nest, fb_str *why)
{
    char where[32];
    verifier v = {.nest = nest, .where = where, .why = why, .space = FB_NONE};
    for (int i = 0; i < nest->n_whens; i++)
        if (nest->whens[i].outer >= i) return REFUSE(&v, "condition %d lies in condition %d", i, nest->whens[i].outer);
    for (int i = 0; i < fb_nest_parts(nest); i++) {
        v.section = fb_nest_part(nest, i);
        snprintf(where, sizeof where, i < nest->n_sections ? "section %d" : "operand %d",
                 i < nest->n_sections ? i : i - nest->n_sections);
        if (!section_fits(&v, i < nest->n_sections)) return false;
    }
    return lists_fit(&v) && stores_cover(&v);
}
