/* Which part of every node a block needs: from what is asked for back to the leaves, as boxes. A box may be larger than
 * what is needed, never smaller. */
#include "interp/trial_parts.h"

fb_box fb_box_whole(const fb_shape *s)
{
    fb_box b = {0};
    for (int d = 0; d < s->rank; d++) b.hi[d] = s->dim[d];
    return b;
}

int64_t fb_box_cells(const fb_box *b, int rank)
{
    int64_t cells = 1;
    for (int d = 0; d < rank; d++) cells *= b->hi[d] > b->lo[d] ? b->hi[d] - b->lo[d] : 0;
    return cells;
}

fb_shape fb_box_extents(const fb_box *b, int rank)
{
    fb_shape extents = {.rank = rank};
    for (int d = 0; d < rank; d++) extents.dim[d] = b->hi[d] - b->lo[d];
    return extents;
}

void fb_box_steps(const fb_box *b, int rank, int64_t *steps)
{
    fb_shape extents = fb_box_extents(b, rank);
    fb_shape_strides(&extents, steps);
}

void fb_box_join(fb_box *to, const fb_box *b, int rank)
{
    for (int d = 0; d < rank; d++) {
        if (b->lo[d] < to->lo[d]) to->lo[d] = b->lo[d];
        if (b->hi[d] > to->hi[d]) to->hi[d] = b->hi[d];
    }
}

/* Dimensions before the first in which the two elements differ are fixed, those after it whole. */
fb_box fb_box_of_range(const fb_shape *s, int64_t first, int64_t last)
{
    fb_box b = fb_box_whole(s);
    int64_t step = fb_shape_elements(s);
    for (int d = 0; d < s->rank; d++) {
        step /= s->dim[d];
        int64_t low = first / step % s->dim[d], high = last / step % s->dim[d];
        b.lo[d] = low;
        b.hi[d] = high + 1;
        if (low != high) break;
    }
    return b;
}

/* ---- what a node needs of its operands ---- */

static bool needs_broadcast(const fb_shape *of, int rank, const fb_box *box, fb_box *to)
{
    for (int d = of->rank - 1, r = rank - 1; d >= 0; d--, r--) {
        bool one = of->dim[d] == 1;
        to->lo[d] = one ? 0 : box->lo[r];
        to->hi[d] = one ? 1 : box->hi[r];
    }
    return true;
}

/* Dimensions from `at` on, up to `end`. */
static fb_shape part_of_shape(const fb_shape *s, int at, int end)
{
    fb_shape part = {.rank = end - at};
    for (int d = at; d < end; d++) part.dim[d - at] = s->dim[d];
    return part;
}

/* The same of a few dimensions that become others. */
static void needs_of_part(const fb_shape *view, const fb_box *box, int at, const fb_shape *of, fb_box *to, int to_at)
{
    int64_t first = 0, last = 0, steps[FB_MAX_RANK];
    fb_shape_strides(view, steps);
    for (int d = 0; d < view->rank; d++) {
        first += box->lo[at + d] * steps[d];
        last += (box->hi[at + d] - 1) * steps[d];
    }
    fb_box range = fb_box_of_range(of, first, last);
    for (int d = 0; d < of->rank; d++) to->lo[to_at + d] = range.lo[d], to->hi[to_at + d] = range.hi[d];
}

/* Dimensions are taken together only as far as they have to be: of [64, 9, 512 · 512] as [576, 512, 512] some rows of each
 * picture are some rows of each, and not all that lies between them. */
static bool needs_view(const fb_node *node, const fb_shape *of, const fb_box *box, fb_box *to)
{
    const fb_shape *view = &node->shape;
    *to = fb_box_whole(of);
    if (fb_shape_elements(of) == 0) return true;
    for (int d = 0, e = 0; d < view->rank || e < of->rank;) {
        int d0 = d, e0 = e;
        int64_t n = d < view->rank ? view->dim[d++] : 1, of_n = e < of->rank ? of->dim[e++] : 1;
        while (n != of_n) {
            if (n < of_n)
                n *= view->dim[d++];
            else
                of_n *= of->dim[e++];
        }
        fb_shape part = part_of_shape(view, d0, d), of_part = part_of_shape(of, e0, e);
        needs_of_part(&part, box, d0, &of_part, to, e0);
    }
    return true;
}

static bool needs_pad(const fb_node *node, const fb_shape *of, const fb_box *box, fb_box *to)
{
    for (int d = 0; d < of->rank; d++) {
        int64_t low = box->lo[d] - node->attrs->before[d], high = box->hi[d] - node->attrs->before[d];
        to->lo[d] = low > 0 ? low : 0;
        to->hi[d] = high < of->dim[d] ? high : of->dim[d];
        if (to->lo[d] >= to->hi[d]) return false;
    }
    return true;
}

static bool needs_moved(const fb_node *node, const fb_shape *of, const fb_box *box, fb_box *to)
{
    const fb_attrs *at = node->attrs;
    *to = *box;
    switch (node->op) {
    case FB_OP_PERMUTE:
        for (int d = 0; d < node->shape.rank; d++) to->lo[at->axes[d]] = box->lo[d], to->hi[at->axes[d]] = box->hi[d];
        return true;
    case FB_OP_SLICE:
        to->lo[at->dim] = at->start + box->lo[at->dim] * at->step;
        to->hi[at->dim] = at->start + (box->hi[at->dim] - 1) * at->step + 1;
        return true;
    case FB_OP_FLIP:
        for (int a = 0; a < at->n_axes; a++) {
            int d = at->axes[a];
            to->lo[d] = of->dim[d] - box->hi[d];
            to->hi[d] = of->dim[d] - box->lo[d];
        }
        return true;
    case FB_OP_UNFOLD:
        to->lo[at->dim] = box->lo[at->dim] * at->step + box->lo[of->rank];
        to->hi[at->dim] = (box->hi[at->dim] - 1) * at->step + box->hi[of->rank];
        to->lo[of->rank] = to->hi[of->rank] = 0;
        return true;
    default: FB_ASSERT(!"a view op without a demand"); return false;
    }
}

static bool needs_joined(const fb_graph *g, const fb_node *node, int a, const fb_box *box, fb_box *to)
{
    int dim = node->attrs->dim, rank = node->shape.rank;
    if (node->op == FB_OP_STACK) {
        if (a < box->lo[dim] || a >= box->hi[dim]) return false;
        for (int d = 0, r = 0; r < rank; r++) {
            if (r == dim) continue;
            to->lo[d] = box->lo[r], to->hi[d++] = box->hi[r];
        }
        return true;
    }
    int64_t before = 0, extent = g->nodes[node->args[a]].shape.dim[dim];
    for (int k = 0; k < a; k++) before += g->nodes[node->args[k]].shape.dim[dim];
    *to = *box;
    to->lo[dim] = box->lo[dim] > before ? box->lo[dim] - before : 0;
    to->hi[dim] = box->hi[dim] - before < extent ? box->hi[dim] - before : extent;
    return to->lo[dim] < to->hi[dim];
}

static bool needs_reduced(const fb_node *node, const fb_shape *of, const fb_box *box, fb_box *to)
{
    bool reduced[FB_MAX_RANK] = {0};
    for (int a = 0; a < node->attrs->n_axes; a++) reduced[node->attrs->axes[a]] = true;
    for (int d = 0, r = 0; d < of->rank; d++) {
        to->lo[d] = reduced[d] ? 0 : box->lo[r];
        to->hi[d] = reduced[d] ? of->dim[d] : box->hi[r];
        if (!reduced[d] || node->attrs->keepdim) r++;
    }
    return true;
}

static bool needs_matrix(const fb_node *node, int a, const fb_shape *of, const fb_box *box, fb_box *to)
{
    int rank = node->shape.rank;
    for (int d = of->rank - 3, r = rank - 3; d >= 0; d--, r--) {
        bool one = of->dim[d] == 1;
        to->lo[d] = one ? 0 : box->lo[r];
        to->hi[d] = one ? 1 : box->hi[r];
    }
    int kept = a == 0 ? of->rank - 2 : of->rank - 1, summed = a == 0 ? of->rank - 1 : of->rank - 2;
    to->lo[kept] = box->lo[a == 0 ? rank - 2 : rank - 1];
    to->hi[kept] = box->hi[a == 0 ? rank - 2 : rank - 1];
    to->lo[summed] = 0;
    to->hi[summed] = of->dim[summed];
    return true;
}

/* The table of an embedding is needed whole in its rows, the source of an index_add in its entries. */
static bool needs_gathered(const fb_graph *g, const fb_node *node, int a, const fb_shape *of, const fb_box *box,
                           fb_box *to)
{
    bool embeds = node->op == FB_OP_EMBEDDING;
    int count = g->nodes[node->args[1]].shape.rank;
    *to = fb_box_whole(of);
    if (a == 1) {
        for (int d = 0; d < of->rank && embeds; d++) to->lo[d] = box->lo[d], to->hi[d] = box->hi[d];
        return true;
    }
    int first = embeds ? 1 : count, first_of_box = embeds ? count : 1;
    for (int d = first, r = first_of_box; d < of->rank; d++, r++) to->lo[d] = box->lo[r], to->hi[d] = box->hi[r];
    return true;
}

bool fb_trial_needs(const fb_graph *g, const fb_node *node, int a, const fb_box *box, fb_box *of)
{
    const fb_shape *shape = &g->nodes[node->args[a]].shape;
    memset(of, 0, sizeof *of);
    switch (fb_op_get(node->op)->cls) {
    case FB_CLASS_POINTWISE: return needs_broadcast(shape, node->shape.rank, box, of);
    case FB_CLASS_REDUCTION: return needs_reduced(node, shape, box, of);
    case FB_CLASS_SCAN:
        *of = *box;
        of->lo[node->attrs->dim] = 0;
        if (node->op == FB_OP_RANK) of->hi[node->attrs->dim] = node->shape.dim[node->attrs->dim];
        return true;
    case FB_CLASS_VIEW:
        if (node->op == FB_OP_VIEW) return needs_view(node, shape, box, of);
        if (node->op == FB_OP_EXPAND) return needs_broadcast(shape, node->shape.rank, box, of);
        if (node->op == FB_OP_PAD) return needs_pad(node, shape, box, of);
        return needs_moved(node, shape, box, of);
    case FB_CLASS_JOIN: return needs_joined(g, node, a, box, of);
    case FB_CLASS_CONTRACTION: return needs_matrix(node, a, shape, box, of);
    case FB_CLASS_GATHER: return needs_gathered(g, node, a, shape, box, of);
    case FB_CLASS_EFFECT: *of = *box; return node->op != FB_OP_ASSIGN || a == 1;
    default: *of = fb_box_whole(shape); return true;
    }
}

static void demand(const fb_trial_shared *s, fb_trial_value *values, fb_id id, const fb_box *box)
{
    const fb_shape *shape = &s->g->nodes[id].shape;
    fb_trial_value *v = &values[s->slot[id]];
    if (fb_box_cells(box, shape->rank) == 0) return;
    if (v->wanted)
        fb_box_join(&v->box, box, shape->rank);
    else
        v->box = *box;
    v->wanted = true;
}

static void demand_whole(const fb_trial_shared *s, fb_trial_value *values, fb_id id)
{
    fb_box box = fb_box_whole(&s->g->nodes[id].shape);
    demand(s, values, id, &box);
}

/* What a step hands on may lie outside of the body as well. */
static void demand_of_region(const fb_trial_shared *s, fb_trial_value *values, const fb_region *r)
{
    for (int i = 0; i < r->n_carried; i++)
        if (s->slot[r->yields[i]] >= 0) demand_whole(s, values, r->yields[i]);
    for (int i = 0; i < r->n_stacked; i++)
        if (s->slot[r->stacked[i]] >= 0) demand_whole(s, values, r->stacked[i]);
}

/* All that the body of a loop reads of what lies around it, and its own nodes. */
static void demand_of_loop(const fb_trial_shared *s, fb_trial_value *values, fb_id loop)
{
    const fb_node *node = &s->g->nodes[loop];
    fb_id region = node->attrs->region;
    for (int a = 0; a < node->n_args; a++) {
        if (s->slot[node->args[a]] >= 0) demand_whole(s, values, node->args[a]);
    }
    for (fb_id r = 1; r < s->g->n_regions; r++)
        if (s->runs[r] && fb_region_within(s->g, r, region)) demand_of_region(s, values, &s->g->regions[r]);
    for (int k = s->slot[loop] - 1; k >= 0; k--) {
        const fb_node *inner = &s->g->nodes[s->order[k]];
        if (!fb_region_within(s->g, inner->region, region)) continue;
        demand_whole(s, values, s->order[k]);
        for (int a = 0; a < inner->n_args && !s->leaf[k]; a++) {
            if (s->slot[inner->args[a]] >= 0) demand_whole(s, values, inner->args[a]);
        }
    }
}

/* ---- loops of which only some rows are needed ---- */

/* What RESULT nodes ask of the loop: carried values, then what is stacked, whose first dimension are the steps. */
static void demand_of_results(const fb_trial_shared *s, fb_trial_value *values, fb_id loop)
{
    const fb_region *r = &s->g->regions[s->g->nodes[loop].attrs->region];
    for (int k = s->slot[loop] + 1; k < s->n_slots; k++) {
        const fb_node *node = &s->g->nodes[s->order[k]];
        if (node->op != FB_OP_RESULT || node->args[0] != loop || !values[k].wanted) continue;
        int index = node->attrs->index;
        fb_box box = values[k].box;
        if (index < r->n_carried) {
            demand(s, values, r->yields[index], &box);
            continue;
        }
        memmove(box.lo, box.lo + 1, sizeof box.lo - sizeof box.lo[0]);
        memmove(box.hi, box.hi + 1, sizeof box.hi - sizeof box.hi[0]);
        demand(s, values, r->stacked[index - r->n_carried], &box);
    }
}

/* Where ids are known, a table that is computed is needed from the first row that is asked for to the last. */
static void narrow_table(const fb_trial_shared *s, const fb_node *node, const fb_box *of, fb_box *table)
{
    const fb_trial_value *ids = &s->done[s->slot[node->args[1]]];
    const fb_shape *shape = &s->g->nodes[node->args[1]].shape;
    int64_t rows = table->hi[0], low = rows, high = -1, steps[FB_MAX_RANK], index[FB_MAX_RANK] = {0};
    if (ids->lanes != 1) return;
    fb_box_steps(&ids->box, shape->rank, steps);
    for (int64_t left = fb_box_cells(of, shape->rank); left > 0; left--) {
        int64_t at = 0;
        for (int d = 0; d < shape->rank; d++) at += (of->lo[d] + index[d]) * steps[d];
        int64_t id = fb_trial_i(ids, 0)[at];
        if (id >= 0 && id < rows) {
            low = id < low ? id : low;
            high = id > high ? id : high;
        }
        for (int d = shape->rank - 1; d >= 0 && ++index[d] == of->hi[d] - of->lo[d]; d--) index[d] = 0;
    }
    table->lo[0] = high < 0 ? 0 : low;
    table->hi[0] = high < 0 ? 1 : high + 1;
}

static void demand_operands(const fb_trial_shared *s, fb_trial_value *values, int k)
{
    const fb_node *node = &s->g->nodes[s->order[k]];
    for (int a = 0; a < node->n_args; a++) {
        fb_box box;
        int from = s->slot[node->args[a]];
        bool table = node->op == FB_OP_EMBEDDING && a == 0;
        /* Rows of a table are read where they lie. */
        if (from < 0 || (table && s->leaf[from] && !s->done[from].lanes)) continue;
        if (!fb_trial_needs(s->g, node, a, &values[k].box, &box)) continue;
        if (table && !s->leaf[from] && box.hi[0] > 0) narrow_table(s, node, &values[k].box, &box);
        demand(s, values, node->args[a], &box);
    }
}

static bool same_box(const fb_box *a, const fb_box *b, int rank)
{
    for (int d = 0; d < rank; d++)
        if (a->lo[d] != b->lo[d] || a->hi[d] != b->hi[d]) return false;
    return true;
}

/* A step needs of what is carried what the step before is asked for; false: then more was needed. */
static bool is_closed(const fb_trial_shared *s, fb_trial_value *values, const fb_region *r)
{
    bool closed = true;
    for (int i = 0; i < r->n_carried; i++) {
        int from = r->carried[i] == FB_NONE ? -1 : s->slot[r->carried[i]], to = s->slot[r->yields[i]];
        if (from < 0 || to < 0 || !values[from].wanted) continue;
        if (values[to].wanted && same_box(&values[from].box, &values[to].box, s->g->nodes[r->yields[i]].shape.rank))
            continue;
        closed = false;
        demand(s, values, r->yields[i], &values[from].box);
        demand(s, values, r->carried[i], &values[to].box);
    }
    return closed;
}

static void demand_of_rows(const fb_trial_shared *s, fb_trial_value *values, fb_id loop)
{
    const fb_node *node = &s->g->nodes[loop];
    const fb_region *r = &s->g->regions[node->attrs->region];
    int first = s->slot[loop];
    while (first > 0 && s->g->nodes[s->order[first - 1]].region == node->attrs->region) first--;
    demand_of_results(s, values, loop);
    do {
        for (int k = s->slot[loop] - 1; k >= first; k--)
            if (values[k].wanted && !s->leaf[k]) demand_operands(s, values, k);
    } while (!is_closed(s, values, r));
    for (int i = 0; i < r->n_carried; i++) {
        int k = s->slot[r->yields[i]];
        if (k >= 0 && values[k].wanted) demand(s, values, node->args[i], &values[k].box);
    }
    for (int i = 0; i < r->n_items; i++) {
        int k = r->items[i] == FB_NONE ? -1 : s->slot[r->items[i]];
        fb_id scanned = node->args[r->n_carried + i];
        if (k < 0 || !values[k].wanted || s->streams[s->slot[scanned]]) continue;
        fb_box box = {.hi = {r->trips}};
        int rank = s->g->nodes[r->items[i]].shape.rank;
        for (int d = 0; d < rank; d++) box.lo[d + 1] = values[k].box.lo[d], box.hi[d + 1] = values[k].box.hi[d];
        demand(s, values, scanned, &box);
    }
}

void fb_trial_demand(const fb_trial_shared *s, fb_trial_value *values, int end)
{
    for (int k = end - 1; k >= 0; k--) {
        const fb_node *node = &s->g->nodes[s->order[k]];
        if (!values[k].wanted || s->leaf[k] || s->in_body[k]) continue;
        if (node->op != FB_OP_LOOP)
            demand_operands(s, values, k);
        else if (s->by_rows[node->attrs->region])
            demand_of_rows(s, values, s->order[k]);
        else
            demand_of_loop(s, values, s->order[k]);
    }
}

double fb_trial_cost(const fb_trial_shared *s, const fb_trial_value *values, int end)
{
    double cost = 0;
    for (int k = 0; k < end; k++) {
        if (!values[k].wanted) continue;
        const fb_node *node = &s->g->nodes[s->order[k]];
        cost += s->cost[k] * (double)fb_box_cells(&values[k].box, node->shape.rank);
    }
    return cost;
}
