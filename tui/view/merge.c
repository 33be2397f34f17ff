/* How far an edit's change of colour has come, a row at a time from where it was made. Pure: the caller counts the
 * steps. */
#include "tui/view/merge.h"

#include "base/mem.h"

#include <stdint.h>
#include <string.h>

void fb_merge_free(fb_merge *m)
{
    fb_free(m->was);
    fb_free(m->kernel);
    fb_free(m->rank);
    *m = (fb_merge){0};
}

static uint64_t mixed(uint64_t value)
{
    value = (value ^ value >> 31) * 0x9e3779b97f4a7c15u;
    return value ^ value >> 29;
}

/* Letters will not do: they follow the order of launches, and alike kernels share one. */
uint64_t *fb_merge_kernels(const fb_rows *rows)
{
    const fb_plan *plan = rows->plan;
    const fb_outline *o = rows->outline;
    int n = plan ? fb_plan_groups(plan) : 0;
    uint64_t *group = fb_calloc((size_t)n + 1, sizeof *group),
             *of_row = fb_calloc((size_t)rows->rows.n + 1, sizeof *of_row);
    for (int i = 0; i < n; i++) {
        const fb_group *g = fb_plan_group(plan, i);
        for (int k = 0; k < g->n_nodes; k++) group[i] += mixed((uint64_t)g->nodes[k] + 1);
    }
    for (int i = 0; i < rows->rows.n && plan; i++) {
        const fb_entry *e = &o->entries[rows->rows.at[i].entry];
        bool folded = e->kind != FB_ENTRY_NODE && e->fold == FB_FOLDED;
        for (fb_id id = e->first; id <= e->last && (folded || e->kind == FB_ENTRY_NODE); id++) {
            int g = o->entry_of[id] == FB_NONE ? FB_NONE : fb_plan_group_of(plan, id);
            if (g != FB_NONE) of_row[i] += mixed(group[g]);
        }
    }
    fb_free(group);
    return of_row;
}

void fb_merge_begin(fb_merge *m, const fb_rows *rows, uint64_t *kernels, int at)
{
    fb_merge_free(m);
    m->kernel = kernels;
    if (!rows->rows.n || at < 0 || at >= rows->rows.n) return;
    m->n = rows->rows.n;
    m->at = at;
    m->was = fb_alloc((size_t)m->n * sizeof *m->was);
    memcpy(m->was, rows->rows.at, (size_t)m->n * sizeof *m->was);
}

void fb_merge_end(fb_merge *m, const fb_rows *rows, uint64_t *kernels)
{
    bool same = m->was && m->n == rows->rows.n && m->was[m->at].entry == rows->rows.at[m->at].entry;
    if (same) {
        m->rank = fb_alloc((size_t)m->n * sizeof *m->rank);
        for (int i = 0; i < m->n; i++) m->rank[i] = FB_NONE;
        for (int away = 0; away < m->n; away++)
            for (int side = -1; side <= 1; side += 2) {
                int i = m->at + side * away;
                if (i < 0 || i >= m->n || (away == 0 && side > 0)) continue;
                if (m->kernel[i] != kernels[i]) m->rank[i] = m->turning++;
            }
    }
    fb_free(kernels);
    if (!m->turning) fb_merge_free(m);
}

fb_row fb_merge_row(const fb_merge *m, const fb_rows *rows, int row, int view, bool *edited)
{
    fb_row shown = rows->rows.at[row];
    *edited = m && m->rank && m->n == rows->rows.n && m->rank[row] != FB_NONE;
    if (!*edited || m->step >= FB_MERGE_STEPS) return shown;
    int most = m->turning < view ? m->turning : view, each = (most + FB_MERGE_STEPS - 1) / FB_MERGE_STEPS;
    if (m->rank[row] < m->step * each) return shown;
    shown.letter = m->was[row].letter;
    shown.tie = m->was[row].tie;
    shown.several = m->was[row].several;
    return shown;
}
