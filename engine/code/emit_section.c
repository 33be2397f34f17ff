/* Questions about a section of a nest that both languages ask while they print it: its types, the values of its rows,
 * how deep its loops go. Needs the nest alone.
 */
#include "code/emit_parts.h"

int fb_emit_deepest(const fb_section *s)
{
    int depth = 0;
    for (int i = 0; i < s->n_roots; i++)
        if (s->roots[i].depth > depth) depth = s->roots[i].depth;
    for (int i = 0; i < s->n_passes; i++)
        if (s->passes[i].depth > depth) depth = s->passes[i].depth;
    return depth;
}

const fb_data_var *fb_emit_added_row(fb_index_pool *pool, const fb_section *s)
{
    const fb_data_var *row = NULL;
    for (int i = 0; i < s->n_data; i++)
        if (fb_ix_uses(pool, s->roots[0].at, s->data[i].var)) row = &s->data[i];
    FB_ASSERT(row);
    return row;
}

const char *fb_emit_type(const fb_emitter *e, fb_val v)
{
    return e->spell->type[e->section->values[v].dtype].value;
}

const char *fb_emit_operand_type(const fb_emitter *e, fb_val v)
{
    return fb_emit_type(e, e->section->values[v].args[0]);
}

const char *fb_emit_mean_points(fb_emitter *e, fb_val v)
{
    const fb_value *x = &e->section->values[v];
    if (e->nest->graph->nodes[x->node].op != FB_OP_MEAN) return NULL;
    return fb_emit_literal(e, x->dtype, (double)fb_space_points(&e->section->spaces[x->over]));
}

void fb_emit_row_values(fb_emitter *e, const bool *needed)
{
    const fb_section *s = e->section;
    for (int i = 0; i < s->n_values; i++)
        if (needed[i] && s->values[i].space == FB_NONE && s->values[i].kind != FB_VALUE_REDUCE)
            fb_emit_needed(e, i, FB_NONE);
}
