/* Makes the rows of the graph view and their edges. Pure; edges are found when they are asked for. */
#include "tui/view/rows.h"

#include <string.h>

/* ---- rows ------------------------------------------------------------------------------------------------------- */

/* Marks what letters a node has; false once there are two different ones. */
static void meet_letter(const fb_rows *r, fb_row *row, fb_id node)
{
    int group = r->plan ? fb_plan_group_of(r->plan, node) : r->theirs[node];
    if (group == FB_NONE) {
        if (r->plan && fb_plan_recomputed(r->plan, node)) row->recomputed = true;
        return;
    }
    int letter = r->plan ? r->letters->of_group[group] : group;
    if (row->letter == FB_NONE)
        row->letter = letter;
    else if (row->letter != letter)
        row->several = true;
}

static void meet_node(const fb_rows *r, fb_row *row, fb_id node)
{
    const fb_outline *o = r->outline;
    if (!row->repeated) {
        meet_letter(r, row, node);
        return;
    }
    int c = o->class_of[node];
    for (int i = o->class_start[c]; i < o->class_start[c + 1]; i++) meet_letter(r, row, o->class_nodes[i]);
}

static void add_row(fb_rows *r, int entry, int depth, bool repeated)
{
    const fb_entry *e = &r->outline->entries[entry];
    fb_row row = {.entry = entry, .depth = depth, .repeated = repeated, .letter = FB_NONE, .first_edge = FB_NONE};
    bool hides = e->kind == FB_ENTRY_NODE || e->fold == FB_FOLDED;
    if ((r->plan || r->theirs) && hides)
        for (fb_id i = e->first; i <= e->last; i++) meet_node(r, &row, i);
    r->row_of_entry[entry] = r->rows.n;
    FB_VEC_PUSH(&r->rows, row);
}

static void add_rows(fb_rows *r, int from, int to, int depth, bool repeated)
{
    for (int at = from; at < to; at = r->outline->entries[at].end) {
        const fb_entry *e = &r->outline->entries[at];
        bool as_one = repeated || (e->kind == FB_ENTRY_REPEAT && e->fold != FB_MEMBERS);
        add_row(r, at, depth, as_one);
        if (e->kind == FB_ENTRY_NODE || e->fold == FB_FOLDED) continue;
        if (e->kind == FB_ENTRY_REPEAT && e->fold == FB_OPEN)
            add_rows(r, at + 2, r->outline->entries[at + 1].end, depth + 1,
                     true); /* the first member, without its own line */
        else
            add_rows(r, at + 1, e->end, depth + 1, repeated);
    }
}

/* Rows of one kernel that follow each other, with nothing but views and sources in between, are tied together. */
static void tie_rows(fb_rows *r)
{
    int above = FB_NONE;
    for (int i = 0; i < r->rows.n; i++) {
        fb_row *row = &r->rows.at[i], *up = above == FB_NONE ? NULL : &r->rows.at[above];
        if (row->letter == FB_NONE) continue;
        row->tie = FB_TIE_ALONE;
        if (up && !row->several && !up->several && up->letter == row->letter) {
            up->tie = up->tie == FB_TIE_LAST ? FB_TIE_MIDDLE : FB_TIE_FIRST;
            row->tie = FB_TIE_LAST;
            for (int k = above + 1; k < i; k++) r->rows.at[k].tie = FB_TIE_THROUGH;
        }
        above = i;
    }
}

static void make(fb_rows *r, const fb_outline *o)
{
    r->outline = o;
    r->rows.n = r->edges.n = 0;
    r->row_of_entry = fb_realloc(r->row_of_entry, ((size_t)o->n + 1) * sizeof *r->row_of_entry);
    for (int i = 0; i < o->n; i++) r->row_of_entry[i] = FB_NONE;
    add_rows(r, 0, o->n, 0, false);
    if (r->plan || r->theirs) tie_rows(r);
}

void fb_rows_make(fb_rows *r, const fb_outline *o, const fb_plan *plan, const fb_letters *letters)
{
    r->plan = plan;
    r->letters = letters;
    r->theirs = NULL;
    make(r, o);
}

void fb_rows_make_theirs(fb_rows *r, const fb_outline *o, const int *theirs)
{
    r->plan = NULL;
    r->letters = NULL;
    r->theirs = theirs;
    make(r, o);
}

void fb_rows_free(fb_rows *r)
{
    FB_VEC_FREE(&r->rows);
    FB_VEC_FREE(&r->edges);
    fb_free(r->row_of_entry);
    *r = (fb_rows){0};
}

/* Members of a repeat have equal contents, so an entry's place in the first one is at the same distance from its start.
 */
int fb_rows_find(const fb_rows *r, fb_id node)
{
    enum { DEEPEST = 128 };
    const fb_outline *o = r->outline;
    int chain[DEEPEST], n = 0, shift = 0;
    for (int e = o->entry_of[node]; e != FB_NONE && n < DEEPEST; e = o->entries[e].parent) chain[n++] = e;
    if (!n) return FB_NONE;
    for (int i = n - 1; i > 0; i--) {
        int at = chain[i] + shift;
        const fb_entry *e = &o->entries[at];
        if (e->fold == FB_FOLDED) return r->row_of_entry[at];
        if (e->kind == FB_ENTRY_REPEAT && e->fold == FB_OPEN) {
            shift += at + 1 - (chain[i - 1] + shift);
            i--; /* the first member has no line of its own and is never folded away */
        }
    }
    return r->row_of_entry[chain[0] + shift];
}

const char *fb_row_name(const fb_rows *r, int row)
{
    const fb_outline *o = r->outline;
    const fb_entry *e = &o->entries[r->rows.at[row].entry];
    const char *name = e->kind == FB_ENTRY_NODE     ? o->graph->nodes[e->id].name
                       : e->kind == FB_ENTRY_REPEAT ? o->graph->scopes[e->id].name
                                                    : o->graph->scopes[e->id].path;
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* ---- edges ------------------------------------------------------------------------------------------------------ */

fb_edge_state fb_row_edge_state(const fb_row_edge *e)
{
    return e->fused == 0 ? FB_EDGE_CUT : e->fused == e->count ? FB_EDGE_FUSED : FB_EDGE_MIXED;
}

static bool shown_as_one(const fb_outline *o, fb_id node)
{
    for (int e = o->entry_of[node]; e != FB_NONE; e = o->entries[e].parent)
        if (o->entries[e].kind == FB_ENTRY_REPEAT && o->entries[e].fold != FB_MEMBERS) return true;
    return false;
}

static bool holds(const fb_group *g, fb_id node)
{
    int low = 0, high = g->n_nodes - 1;
    while (low <= high) {
        int mid = low + (high - low) / 2;
        if (g->nodes[mid] == node) return true;
        if (g->nodes[mid] < node)
            low = mid + 1;
        else
            high = mid - 1;
    }
    return false;
}

static bool is_fused(const fb_plan *plan, fb_id a, fb_id b)
{
    int group = fb_plan_group_of(plan, b);
    if (group == FB_NONE)
        group = fb_plan_group_of(plan, a); /* b is recomputed wherever it is read */
    else if (fb_plan_group_of(plan, a) == group)
        return true;
    return group != FB_NONE && holds(fb_plan_group(plan, group), a) && holds(fb_plan_group(plan, group), b);
}

static void meet_edge(fb_rows *r, fb_row *row, const fb_edge *e, bool incoming)
{
    const fb_outline *o = r->outline;
    bool fused = is_fused(r->plan, e->producer, e->consumer);
    bool as_one = row->repeated || shown_as_one(o, incoming ? e->producer : e->consumer);
    for (int i = row->first_edge; i < r->edges.n; i++) {
        fb_row_edge *k = &r->edges.at[i];
        if (k->inside || k->incoming != incoming) continue;
        bool same = as_one
                        ? o->class_of[k->a] == o->class_of[e->producer] && o->class_of[k->b] == o->class_of[e->consumer]
                        : k->a == e->producer && k->b == e->consumer;
        if (!same) continue;
        k->count++;
        k->fused += fused;
        return;
    }
    if (r->edges.n - row->first_edge >= FB_MAX_ROW_EDGES) return;
    FB_VEC_PUSH(&r->edges, (fb_row_edge){.a = e->producer,
                                         .b = e->consumer,
                                         .incoming = incoming,
                                         .repeated = as_one,
                                         .order_only = e->order_only,
                                         .count = 1,
                                         .fused = fused});
}

/* The scope that stands around `node` as `levels` scopes further in stand around its counterpart. */
static fb_id scope_above(const fb_graph *g, fb_id node, int levels)
{
    fb_id s = g->nodes[node].scope;
    while (levels-- > 0 && s != FB_NONE) s = g->scopes[s].parent;
    return s;
}

static int levels_below(const fb_graph *g, fb_id node, fb_id scope)
{
    int n = 0;
    for (fb_id s = g->nodes[node].scope; s != FB_NONE && s != scope; s = g->scopes[s].parent) n++;
    return n;
}

/* Edges that cross the border of what the row stands for: of `node` itself (around FB_NONE), or of its scope. */
static void meet_crossing(fb_rows *r, fb_row *row, fb_id node, fb_id around, bool incoming)
{
    const fb_graph *g = r->outline->graph;
    const fb_deps *d = fb_planner_deps(fb_plan_planner(r->plan));
    const int *start = incoming ? d->in_start : d->out_start;
    for (int i = start[node]; i < start[node + 1]; i++) {
        const fb_edge *e = &d->edges[incoming ? i : d->out[i]];
        fb_id other = incoming ? e->producer : e->consumer;
        if (!fb_node_is_computed(g, node) || !fb_node_is_computed(g, other)) continue; /* nobody fuses a loop as such */
        if (around != FB_NONE && fb_scope_within(g, g->nodes[other].scope, around)) continue;
        meet_edge(r, row, e, incoming);
    }
}

int fb_rows_inside(const fb_rows *r, int at, fb_id *to, int room)
{
    const fb_outline *o = r->outline;
    const fb_row *row = &r->rows.at[at];
    const fb_entry *e = &o->entries[row->entry];
    int n = 0;
    if (e->kind == FB_ENTRY_REPEAT) e = &o->entries[row->entry + 1];
    for (fb_id i = e->first; i <= e->last && n < room; i++)
        if (fb_node_is_computed(o->graph, i)) to[n++] = i;
    return n;
}

/* Larger scopes are not fused as one: the verdict alone would keep the keys waiting. */
enum { MOST_INSIDE = 256 };

/* What the row's scope holds, as one thing to fuse or take apart; false when that is not two nodes. */
static bool inside_of(const fb_rows *r, int at, fb_row_edge *out)
{
    const fb_row *row = &r->rows.at[at];
    fb_id nodes[MOST_INSIDE + 1];
    int n = fb_rows_inside(r, at, nodes, MOST_INSIDE + 1), group = FB_NONE;
    bool one = true;
    if (n < 2 || n > MOST_INSIDE) return false;
    for (int i = 0; i < n; i++) {
        int g = fb_plan_group_of(r->plan, nodes[i]);
        if (g == FB_NONE) continue; /* recomputed where it is read */
        if (group != FB_NONE && g != group) one = false;
        group = g;
    }
    int times = row->repeated ? fb_outline_repetitions(r->outline, nodes[0]) : 1;
    *out = (fb_row_edge){.a = nodes[0],
                         .b = nodes[n - 1],
                         .inside = true,
                         .incoming = true,
                         .repeated = row->repeated,
                         .count = times,
                         .fused = one ? times : 0};
    return true;
}

const fb_row_edge *fb_rows_edges(fb_rows *r, int at, int *n)
{
    fb_row *row = &r->rows.at[at];
    *n = 0;
    if (!r->plan) return NULL;
    if (row->first_edge == FB_NONE) {
        const fb_outline *o = r->outline;
        const fb_entry *e = &o->entries[row->entry];
        bool scope = e->kind != FB_ENTRY_NODE;
        fb_id first = e->first, last = e->kind == FB_ENTRY_REPEAT ? o->entries[row->entry + 1].last : e->last;
        row->first_edge = r->edges.n;
        fb_row_edge inside;
        bool whole = scope && inside_of(r, at, &inside);
        if (whole && !inside.fused) FB_VEC_PUSH(&r->edges, inside);
        for (int incoming = 1; incoming >= 0; incoming--)
            for (fb_id i = first; i <= last; i++) {
                int c = o->class_of[i], levels = scope ? levels_below(o->graph, i, e->id) : 0;
                int from = row->repeated ? o->class_start[c] : 0, to = row->repeated ? o->class_start[c + 1] : 1;
                for (int k = from; k < to; k++) {
                    fb_id node = row->repeated ? o->class_nodes[k] : i;
                    meet_crossing(r, row, node, scope ? scope_above(o->graph, node, levels) : FB_NONE, incoming);
                }
            }
        if (whole && inside.fused) FB_VEC_PUSH(&r->edges, inside);
        row->n_edges = r->edges.n - row->first_edge;
    }
    *n = row->n_edges;
    return r->edges.at + row->first_edge;
}
