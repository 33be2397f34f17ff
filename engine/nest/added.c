/* An index_add as a section: its size, and whether rows that its index does not name have to be touched at all.
 *
 * requires  a section that was walked
 * provides  what the schedule, the cost model and the printers ask of it
 */
#include "nest/parts.h"

#include "base/mem.h"

#include <math.h>

/* ---- rows that nobody names ---- */

/* What a value is in a row to which nothing is added. */
typedef enum {
    CHANGED,   /* anything */
    NOTHING,   /* 0 */
    UNCHANGED, /* what stands where the root is stored */
} at_rest;

static bool holds_all_of(fb_dtype wide, fb_dtype narrow)
{
    if (wide == narrow) return true;
    return fb_dtype_is_float(wide) && fb_dtype_is_float(narrow) && fb_dtype_size(wide) > fb_dtype_size(narrow);
}

static bool is_finite_constant(const fb_value *v)
{
    return v->kind == FB_VALUE_CONST && isfinite(v->number);
}

/* p - lr · 0 is p, whatever p is; 0 · lr is 0 for numbers that are known to be finite. */
static at_rest of_operation(const fb_nest *nest, const fb_section *s, const fb_value *v, const at_rest *rest,
                            fb_dtype stored)
{
    const fb_value *x = &s->values[v->args[0]], *y = v->n_args > 1 ? &s->values[v->args[1]] : NULL;
    at_rest a = rest[v->args[0]], b = y ? rest[v->args[1]] : CHANGED;
    bool both = a == NOTHING && b == NOTHING;
    switch (nest->graph->nodes[v->node].op) {
    case FB_OP_NEG: return a == NOTHING ? NOTHING : CHANGED;
    case FB_OP_CAST:
        if (a == UNCHANGED) return holds_all_of(v->dtype, stored) ? UNCHANGED : CHANGED;
        return a == NOTHING && fb_dtype_is_float(v->dtype) ? NOTHING : CHANGED;
    case FB_OP_MUL:
        if (both || (a == NOTHING && is_finite_constant(y)) || (b == NOTHING && is_finite_constant(x))) return NOTHING;
        return CHANGED;
    case FB_OP_DIV: return a == NOTHING && is_finite_constant(y) && y->number != 0 ? NOTHING : CHANGED;
    case FB_OP_ADD:
        if (both) return NOTHING;
        return (a == UNCHANGED && b == NOTHING) || (a == NOTHING && b == UNCHANGED) ? UNCHANGED : CHANGED;
    case FB_OP_SUB: return both ? NOTHING : a == UNCHANGED && b == NOTHING ? UNCHANGED : CHANGED;
    default: return CHANGED;
    }
}

/* Does the load read the element that the root overwrites, of each member? */
static bool is_own(const fb_section *s, const fb_value *load, const fb_root *r)
{
    if (load->kind != FB_VALUE_LOAD || load->when != FB_NONE || load->at != r->at) return false;
    if (load->table == FB_NONE || r->table == FB_NONE) return load->table == r->table && load->node == r->storage;
    const fb_table *from = &s->tables[load->table], *to = &s->tables[r->table];
    for (int m = 0; m < s->members; m++)
        if (from->base[m] != to->base[m] || from->shift[m] != to->shift[m]) return false;
    return true;
}

/* Does a row to which nothing is added keep what is stored there? If not, *moves is what changes it. */
static bool spares(const fb_nest *nest, const fb_section *s, fb_val sum, const fb_root *r, fb_id *moves)
{
    if (r->storage < 0) return false;
    fb_dtype stored = nest->graph->nodes[r->storage].dtype;
    at_rest *rest = fb_calloc((size_t)s->n_values + 1, sizeof *rest);
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (i == sum || (v->kind == FB_VALUE_CONST && v->number == 0))
            rest[i] = NOTHING;
        else if (is_own(s, v, r))
            rest[i] = UNCHANGED;
        else if (v->kind == FB_VALUE_OP)
            rest[i] = of_operation(nest, s, v, rest, stored);
        for (int k = 0; k < v->n_args && v->kind == FB_VALUE_OP && rest[i] == CHANGED; k++)
            if (rest[v->args[k]] == UNCHANGED && *moves == FB_NONE) *moves = v->node;
    }
    bool fine = rest[r->value] == UNCHANGED;
    fb_free(rest);
    return fine;
}

/* ---- the section ---- */

bool fb_section_adds(const fb_nest *nest, const fb_section *s, fb_added *out)
{
    *out = (fb_added){.sum = FB_NONE, .points = 1, .moves = FB_NONE};
    for (int i = 0; i < s->n_values && !s->scatter; i++)
        if (s->values[i].kind == FB_VALUE_REDUCE && nest->graph->nodes[s->values[i].node].op == FB_OP_SCATTER_ADD)
            out->sum = i;
    if (!s->scatter && out->sum == FB_NONE) return false;
    out->width = fb_space_points(&s->rows);
    if (s->scatter) {
        out->rows = nest->graph->nodes[s->roots[0].node].shape.dim[0];
        if (s->n_spaces) out->points = fb_space_points(&s->spaces[0]);
        return true;
    }
    out->row = s->members > 1;
    out->rows = s->rows.extent[out->row];
    out->width /= out->rows * s->members;
    out->points = fb_space_points(&s->spaces[s->values[out->sum].over]);
    out->spares = s->n_roots > 0;
    for (int i = 0; i < s->n_roots; i++) out->spares &= spares(nest, s, out->sum, &s->roots[i], &out->moves);
    if (out->spares) out->moves = FB_NONE;
    return true;
}

double fb_added_rows(const fb_added *a)
{
    double rows = (double)a->rows;
    return rows > 0 ? -rows * expm1((double)a->points * log1p(-1 / fmax(rows, 1 + 1e-9))) : 0;
}

void fb_added_says(const fb_nest *nest, const fb_added *a, fb_str *out)
{
    if (a->spares)
        fb_str_add(out, "rows that the index does not name stay as they are");
    else if (a->moves != FB_NONE)
        fb_str_addf(out, "all rows are stored: `%s` changes those, too, that the index does not name",
                    nest->graph->nodes[a->moves].name);
    else
        fb_str_add(out, "all rows are stored");
}
