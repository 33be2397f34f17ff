/* What the loops of one section are like: facts that code generation goes by, and the cost model with it. */
#include "base/mem.h"
#include "base/str.h"
#include "graph/intmath.h"
#include "nest/parts.h"

#include <inttypes.h>
#include <string.h>

/* Do rows that begin `apart` elements from each other overlap, of a space that goes by `inner` elements, or by none
 * that is the same everywhere? Where a row leaves elements out, the next one may take them. */
static bool is_window(const fb_space *space, int64_t apart, int64_t inner, bool even)
{
    enum { NEAR = 4 };
    if (apart < 1 || apart > NEAR) return false;
    int64_t width = space->extent[space->n - 1];
    if (inner > 1) return even && apart <= inner && width > 1;
    return !even || (inner == 1 && (apart < width || (apart == width && space->n > 1)));
}

bool fb_value_reduces(const fb_value *v, fb_pass p)
{
    return v->kind == FB_VALUE_REDUCE && v->over == p.space && v->depth - 1 == p.depth;
}

bool fb_section_lies_across(const fb_index_pool *pool, const fb_section *s)
{
    int n = s->rows.n, across = 0, along = 0;
    if (n == 0 || s->rows.extent[n - 1] < 8 || n <= s->blocked) return false;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (v->kind != FB_VALUE_LOAD || v->space == FB_NONE) continue;
        const fb_space *space = &s->spaces[v->space];
        int64_t row = 0, inner = 0;
        if (!space->n || !fb_ix_uses(pool, v->at, s->rows.var[n - 1])) continue;
        fb_ix_coefficient(pool, v->at, s->rows.var[n - 1], &row);
        bool even = fb_ix_coefficient(pool, v->at, space->var[space->n - 1], &inner);
        bool window = is_window(space, row, inner, even);
        across += window || (row == 1 && inner != 1);
        along += !window && inner == 1;
    }
    return across > along;
}

bool fb_space_is_window(const fb_space *space)
{
    enum { SHORT = 8 };
    return space->n > 1 && space->extent[space->n - 1] < SHORT;
}

fb_ix fb_interior_at(fb_index_pool *pool, const fb_interior *x, fb_ix at)
{
    int64_t stride;
    fb_ix rest;
    return x->holds && fb_ix_stride(pool, at, x->held, &stride, &rest) ? rest : at;
}

bool fb_interior_narrow(fb_index_pool *pool, const fb_when *w, fb_interior *x)
{
    int64_t stride, low, high;
    fb_ix rest, at = fb_interior_at(pool, x, w->at);
    if (!fb_ix_uses(pool, at, x->var)) return true;
    if (!fb_ix_stride(pool, at, x->var, &stride, &rest) || stride < 1) return false;
    fb_ix_range(pool, rest, &low, &high);
    int64_t from = -fb_floor_div(low - w->low, stride), to = fb_floor_div(w->high - 1 - high, stride) + 1;
    if (from > x->from) x->from = from;
    if (to < x->to) x->to = to;
    return true;
}

fb_interior fb_section_interior(const fb_nest *nest, const fb_section *s, int pass)
{
    enum { FEW = 8 };
    const fb_interior none = {.var = FB_NONE};
    int last = s->rows.n - 1;
    if (last < s->blocked || s->n_data) return none;
    fb_interior x = {.var = s->rows.var[last], .to = s->rows.extent[last]};
    bool *needed = fb_calloc((size_t)s->n_values + 1, 1), fine = true;
    if (pass != FB_NONE)
        fb_section_needed(s, pass, needed);
    else
        memset(needed, true, (size_t)s->n_values);
    for (int i = 0; i < s->n_values && fine; i++)
        for (int c = needed[i] ? s->values[i].when : FB_NONE; c != FB_NONE && fine; c = nest->whens[c].outer)
            fine = fb_interior_narrow(nest->pool, &nest->whens[c], &x);
    fb_free(needed);
    return fine && x.to - x.from < s->rows.extent[last] && x.to - x.from >= FEW ? x : none;
}

bool fb_section_only_reduces(const fb_section *s)
{
    if (s->n_passes != 1 || s->passes[0].depth != 0) return false;
    for (int i = 0; i < s->n_roots; i++)
        if (s->roots[i].space != FB_NONE || s->roots[i].depth != 1) return false;
    for (int i = 0; i < s->n_values; i++)
        if (s->values[i].kind == FB_VALUE_SCAN) return false;
    return true;
}

int64_t fb_section_longest(const fb_section *s)
{
    int64_t longest = 0;
    for (int p = 0; p < s->n_passes; p++) {
        int64_t points = fb_space_points(&s->spaces[s->passes[p].space]);
        if (points > longest) longest = points;
    }
    return longest;
}

int fb_section_loads(const fb_section *s)
{
    int n = 0;
    for (int i = 0; i < s->n_values; i++) n += s->values[i].kind == FB_VALUE_LOAD;
    return n;
}

bool fb_section_may_split(const fb_section *s, int64_t longest)
{
    enum { LONG_ROW = 1 << 15, FEW_ROWS = FB_UNITS_ABOUT };
    return longest >= LONG_ROW && fb_space_points(&s->rows) < FEW_ROWS && fb_section_only_reduces(s);
}

int64_t fb_section_operations(const fb_section *s)
{
    int64_t points = 1;
    for (int p = 0; p < s->n_passes; p++) points += fb_space_points(&s->spaces[s->passes[p].space]);
    int64_t each = 1 + s->n_values / (1 + s->n_passes);
    int64_t rows = fb_space_points(&s->rows);
    return points > INT64_MAX / each / (rows ? rows : 1) ? INT64_MAX : rows * points * each;
}

/* Steps of the reduction `node` that a section computes, written out. */
static int64_t steps_written(const fb_section *s, fb_id node)
{
    bool *needed = fb_calloc((size_t)s->n_values + 1, 1);
    int64_t rows = fb_space_points(&s->rows), steps = 0;
    for (int i = 0; i < s->n_values; i++)
        steps += s->values[i].kind == FB_VALUE_FOLD && s->values[i].node == node && s->values[i].space == FB_NONE;
    for (int p = 0; p < s->n_passes; p++) {
        int64_t points = fb_space_points(&s->spaces[s->passes[p].space]);
        fb_section_needed(s, p, needed);
        for (int i = 0; i < s->n_values; i++)
            if (needed[i] && s->values[i].kind == FB_VALUE_FOLD && s->values[i].node == node &&
                s->values[i].space == s->passes[p].space)
                steps += points;
    }
    fb_free(needed);
    return rows * steps;
}

static fb_id first_written(const fb_nest *nest)
{
    for (int s = 0; s < nest->n_sections; s++)
        for (int i = 0; i < nest->sections[s].n_values; i++)
            if (nest->sections[s].values[i].kind == FB_VALUE_FOLD) return nest->sections[s].values[i].node;
    return FB_NONE;
}

void fb_nest_says_written(const fb_nest *nest, fb_str *out)
{
    fb_id node = first_written(nest);
    if (node == FB_NONE) return;
    const fb_node *n = &nest->graph->nodes[node];
    int64_t each = fb_reduced_elements(nest->graph, node), steps = 0;
    for (int s = 0; s < nest->n_sections; s++) steps += steps_written(&nest->sections[s], node);
    /* 0: of one element each, or of none */
    int64_t once = (each - (n->op != FB_OP_MEAN)) * fb_shape_elements(&n->shape);
    int64_t times = once > 0 ? steps / once : 0;
    fb_str_addf(out, "`%s` is computed where it is read, of %" PRId64 " elements each time", n->name, each);
    if (times > 1) fb_str_addf(out, ", %" PRId64 " times over", times);
}
