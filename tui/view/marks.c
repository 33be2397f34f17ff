/* The set of marked nodes of a column, and the edits that make one kernel of them. */
#include "tui/view/marks.h"

#include "base/mem.h"

bool fb_marks_has(const fb_marks *m, int entry)
{
    for (int i = 0; i < m->entries.n; i++)
        if (m->entries.at[i] == entry) return true;
    return false;
}

void fb_marks_toggle(fb_marks *m, int entry)
{
    for (int i = 0; i < m->entries.n; i++) {
        if (m->entries.at[i] != entry) continue;
        m->entries.at[i] = m->entries.at[--m->entries.n];
        return;
    }
    FB_VEC_PUSH(&m->entries, entry);
}

void fb_marks_clear(fb_marks *m)
{
    m->entries.n = 0;
}

void fb_marks_free(fb_marks *m)
{
    FB_VEC_FREE(&m->entries);
}

/* The repetition, shown as one, that the entry lies in; FB_NONE: in none. */
static int repetition(const fb_outline *o, int entry)
{
    int found = FB_NONE;
    for (int e = entry; e != FB_NONE; e = o->entries[e].parent)
        if (o->entries[e].kind == FB_ENTRY_REPEAT && o->entries[e].fold != FB_MEMBERS) found = e;
    return found;
}

fb_edit fb_marks_edit(const fb_marks *m, const fb_rows *rows, fb_id *nodes, bool *repeated)
{
    const fb_outline *o = rows->outline;
    const fb_graph *g = o->graph;
    int n = 0, common = m->entries.n ? repetition(o, m->entries.at[0]) : FB_NONE;
    bool *in = fb_calloc((size_t)g->n_nodes + 1, sizeof *in); /* a scope may be marked beside what it holds */
    for (int i = 0; i < m->entries.n; i++)
        if (repetition(o, m->entries.at[i]) != common) common = FB_NONE;
    *repeated = common != FB_NONE;
    for (int i = 0; i < m->entries.n; i++) {
        const fb_entry *e = &o->entries[m->entries.at[i]];
        bool all = !*repeated && repetition(o, m->entries.at[i]) != FB_NONE;
        fb_id last =
            e->kind == FB_ENTRY_REPEAT ? o->entries[m->entries.at[i] + 1].last : e->last; /* the first member */
        for (fb_id id = e->first; id <= last; id++) {
            int c = o->class_of[id];
            in[id] = true;
            for (int k = o->class_start[c]; all && k < o->class_start[c + 1]; k++) in[o->class_nodes[k]] = true;
        }
    }
    for (fb_id id = 0; id < g->n_nodes; id++)
        if (in[id] && fb_node_is_computed(g, id)) nodes[n++] = id;
    fb_free(in);
    return (fb_edit){.kind = FB_EDIT_FUSE_ALL, .a = FB_NONE, .b = FB_NONE, .nodes = nodes, .n_nodes = n};
}
