/* Marks the rows that the row under the cursor reads, and those that read it. Pure. */
#include "tui/view/rail.h"

static void meet(fb_rail *rail, int row, fb_rail_sign sign)
{
    unsigned char *at = &rail->sign.at[row];
    if (*at == FB_RAIL_HERE || *at == FB_RAIL_BOTH || *at == sign) return;
    rail->reads += sign == FB_RAIL_READ;
    rail->readers += sign == FB_RAIL_READER;
    *at = (unsigned char)(*at == FB_RAIL_NONE ? sign : FB_RAIL_BOTH);
    if (row < rail->first) rail->first = row;
    if (row > rail->last) rail->last = row;
}

void fb_rail_forget(fb_rail *rail)
{
    rail->outline = NULL;
}

static void find_rows(fb_rail *rail, const fb_rows *rows)
{
    int n = rows->outline->graph->n_nodes;
    rail->row_of = fb_realloc(rail->row_of, ((size_t)n + 1) * sizeof *rail->row_of);
    for (int i = 0; i < n; i++) rail->row_of[i] = fb_rows_find(rows, i);
}

void fb_rail_make(fb_rail *rail, const fb_rows *rows, int row)
{
    const fb_graph *g = rows->outline->graph;
    if (rail->row == row && rail->outline == rows->outline) return;
    if (rail->outline != rows->outline) find_rows(rail, rows); /* kept from row to row: it is what takes time */
    rail->row = rail->first = rail->last = row;
    rail->outline = rows->outline;
    rail->reads = rail->readers = 0;
    rail->sign.n = 0;
    for (int i = 0; i < rows->rows.n; i++) FB_VEC_PUSH(&rail->sign, FB_RAIL_NONE);
    if (row >= rows->rows.n) return;
    rail->sign.at[row] = FB_RAIL_HERE;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_args; k++) {
            int reader = rail->row_of[i], read = rail->row_of[g->nodes[i].args[k]];
            if ((reader != row && read != row) || reader == FB_NONE || read == FB_NONE || reader == read) continue;
            if (reader == row) meet(rail, read, FB_RAIL_READ);
            if (read == row) meet(rail, reader, FB_RAIL_READER);
        }
    for (int i = rail->first; i <= rail->last; i++)
        if (rail->sign.at[i] == FB_RAIL_NONE) rail->sign.at[i] = FB_RAIL_PASSES;
}

void fb_rail_free(fb_rail *rail)
{
    FB_VEC_FREE(&rail->sign);
    fb_free(rail->row_of);
    rail->row_of = NULL;
}

fb_rail_sign fb_rail_at(const fb_rail *rail, int row)
{
    return row >= 0 && row < rail->sign.n ? (fb_rail_sign)rail->sign.at[row] : FB_RAIL_NONE;
}

const char *fb_rail_text(const fb_rail *rail, int row)
{
    bool top = row == rail->first, bottom = row == rail->last;
    switch (fb_rail_at(rail, row)) {
    case FB_RAIL_NONE: return "  ";
    case FB_RAIL_PASSES: return "│ ";
    case FB_RAIL_HERE: return top && bottom ? "  " : "◆ ";
    case FB_RAIL_READ: return top ? "╭─" : bottom ? "╰─" : "├─";
    default: return bottom ? "╰▸" : top ? "╭▸" : "├▸";
    }
}
