/* Asks for one verdict at a time while nothing else waits, and keeps the answers until the plan changes. */
#include "tui/view/verdicts.h"

#include <uthash.h>

typedef struct {
    fb_id a, b;
    bool inside, repeated, fused;
} key; /* zeroed before it is filled: padding is hashed too */

typedef struct {
    key k;
    fb_verdict verdict;
    UT_hash_handle hh;
} found;

typedef struct {
    int row, edge;
} wanted;

struct fb_verdicts {
    found *all;
    FB_VEC(wanted) queue; /* the last is taken first */
};

fb_verdicts *fb_verdicts_new(void)
{
    return fb_calloc(1, sizeof(fb_verdicts));
}

void fb_verdicts_clear(fb_verdicts *v)
{
    found *f, *next;
    HASH_ITER(hh, v->all, f, next)
    {
        HASH_DEL(v->all, f);
        fb_free(f);
    }
    v->queue.n = 0;
}

void fb_verdicts_free(fb_verdicts *v)
{
    if (!v) return;
    fb_verdicts_clear(v);
    FB_VEC_FREE(&v->queue);
    fb_free(v);
}

static found *look_up(fb_verdicts *v, const fb_row_edge *e, key *k)
{
    found *f;
    memset(k, 0, sizeof *k);
    k->a = e->a;
    k->b = e->b;
    k->inside = e->inside;
    k->repeated = e->repeated;
    k->fused = fb_row_edge_state(e) == FB_EDGE_FUSED;
    HASH_FIND(hh, v->all, k, sizeof *k, f);
    return f;
}

const fb_verdict *fb_verdicts_get(fb_verdicts *v, fb_rows *rows, int row, int edge, bool urgent)
{
    int n;
    key k;
    const fb_row_edge *edges = fb_rows_edges(rows, row, &n);
    found *f = look_up(v, &edges[edge], &k);
    if (f) return &f->verdict;
    for (int i = 0; i < v->queue.n && !urgent; i++)
        if (v->queue.at[i].row == row && v->queue.at[i].edge == edge) return NULL;
    FB_VEC_PUSH(&v->queue, (wanted){row, edge});
    if (!urgent) {
        for (int i = v->queue.n - 1; i > 0; i--) v->queue.at[i] = v->queue.at[i - 1];
        v->queue.at[0] = (wanted){row, edge};
    }
    return NULL;
}

bool fb_verdicts_waiting(const fb_verdicts *v)
{
    return v->queue.n > 0;
}

fb_edit fb_toggle_edit(fb_rows *rows, int row, const fb_row_edge *e, fb_id *nodes, int room)
{
    bool cut = fb_row_edge_state(e) == FB_EDGE_FUSED;
    fb_edit edit = {.kind = cut ? FB_EDIT_CUT : FB_EDIT_FUSE, .a = e->a, .b = e->b};
    if (e->inside) {
        edit.kind = cut ? FB_EDIT_ISOLATE : FB_EDIT_FUSE_ALL;
        edit.n_nodes = fb_rows_inside(rows, row, nodes, room);
        edit.nodes = nodes;
    }
    return edit;
}

void fb_verdicts_work(fb_verdicts *v, const fb_session *s, int column, fb_rows *rows)
{
    if (!v->queue.n) return;
    wanted w = v->queue.at[--v->queue.n];
    int n, room = rows->outline->graph->n_nodes;
    key k;
    if (w.row >= rows->rows.n) return;
    const fb_row_edge *edges = fb_rows_edges(rows, w.row, &n);
    if (w.edge >= n || look_up(v, &edges[w.edge], &k)) return;
    fb_id *nodes = fb_alloc(((size_t)room + 1) * sizeof *nodes);
    fb_edit edit = fb_toggle_edit(rows, w.row, &edges[w.edge], nodes, room);
    found *f = fb_calloc(1, sizeof *f);
    f->k = k;
    f->verdict = fb_session_try(s, column, &edit, edges[w.edge].repeated);
    HASH_ADD(hh, v->all, k, sizeof f->k, f);
    fb_free(nodes);
}
