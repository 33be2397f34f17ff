/* Places in a sorted row. To count what goes before an element takes a row's length, and that for each of its elements;
 * a row whose places are all asked for is sorted once, ahead of the loop over them.
 *
 * requires  a section of rows that are done one after the other
 * provides  the value that is such a place, for cost and code */
#include "schedule/schedule.h"

/* What rank v sorts is made of what is read in its own pass, and of nothing that the last row variable moves. */
static bool is_fine(const fb_section *s, fb_val v, int space)
{
    const fb_value *x = &s->values[v];
    bool known = x->kind == FB_VALUE_LOAD || x->kind == FB_VALUE_OP || x->kind == FB_VALUE_SELECT;
    if (x->rows >> (s->rows.n - 1) & 1) return false;
    if (fb_value_is_leaf(x)) return true;
    if (!known || x->space != space || x->depth || x->table != FB_NONE) return false;
    for (int a = 0; a < x->n_args; a++)
        if (!is_fine(s, x->args[a], space)) return false;
    return true;
}

/* Is the last row variable, and that alone, the place that is asked for? */
static bool goes_along(const fb_nest *nest, const fb_section *s, const fb_value *rank)
{
    const fb_space *rows = &s->rows, *space = &s->spaces[rank->over];
    fb_ix at = s->values[rank->args[2]].at, rest;
    int64_t stride;
    if (space->n != 1 || rows->extent[rows->n - 1] != space->extent[0]) return false;
    if (!fb_ix_stride(nest->pool, at, rows->var[rows->n - 1], &stride, &rest) || stride != 1) return false;
    if (!fb_ix_stride(nest->pool, rest, space->var[0], &stride, &rest) || stride != -1) return false;
    int64_t low, high;
    fb_ix_range(nest->pool, rest, &low, &high);
    return low == 0 && high == 0;
}

/* Nothing else is done in its pass. */
static bool is_alone(const fb_section *s, fb_val v)
{
    const fb_value *rank = &s->values[v];
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *x = &s->values[i];
        bool goes = x->kind == FB_VALUE_REDUCE || x->kind == FB_VALUE_SCAN || x->kind == FB_VALUE_FOLD;
        if (i != v && goes && x->over == rank->over) return false;
    }
    for (int i = 0; i < s->n_roots; i++)
        if (s->roots[i].space == rank->over) return false;
    return true;
}

fb_val fb_schedule_ranked(const fb_nest *nest, const fb_section *s)
{
    enum { LEAST = 24, MOST = 1 << 14 }; /* elements: counted as fast, and more than a stack has room for */
    if (!s->rows.n || s->blocked || s->n_data || nest->chain) return FB_NONE;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (v->kind != FB_VALUE_REDUCE || nest->graph->nodes[v->node].op != FB_OP_RANK) continue;
        int64_t points = fb_space_points(&s->spaces[v->over]);
        if (points < LEAST || points > MOST || v->space != FB_NONE || v->depth != 1) continue;
        if (goes_along(nest, s, v) && is_alone(s, i) && is_fine(s, v->args[0], v->over)) return i;
    }
    return FB_NONE;
}
