/* A run of members as a loop.
 *
 *     before    all that stands before the first member, and sources and views among them that need none
 *     items     tensors of all steps, of what members read in parts that lie equally far apart
 *     loop      one member as its body: the *model*; what the member before gives it is carried
 *     results   what is read of members elsewhere: the last one's carried values, else what was collected of all
 *     after     the rest. A join of all members' values is what was collected.
 *
 * Runs backwards where most of what moves is read from its end on. */
#include "graph/roll_parts.h"

#include "base/mem.h"
#include "base/vec.h"
#include "graph/access.h"
#include "graph/build.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    fb_id of;    /* what is cut, in the new graph */
    fb_id slice; /* what the loop's first member reads of it, in the old one */
    int64_t move;
    fb_shape shape;
} item;

typedef struct {
    const fb_roll_search *s;
    const fb_graph *g;
    const fb_roll_run *r;
    fb_graph *out;
    fb_error *err;
    bool failed;
    fb_id last_id; /* of members */
    int model;     /* the member that the body is made of */
    fb_id *to;     /* outside the body */
    fb_id *in;     /* what stands for a node in the body */
    fb_id *scope_to, *scope_in;
    fb_id region, loop;
    bool backwards;
    int *number;       /* a node of a member: which carried value, FB_NONE */
    fb_id *last, *all; /* … its RESULT, as the last step leaves it; of all steps */
    FB_VEC(item) items;
    FB_VEC(fb_id) scanned;
    fb_id *was;
    int room;
} maker;

/* ---- names ---- */

static const char *element_of(const fb_graph *g, fb_id id)
{
    const fb_node *n = &g->nodes[id];
    return n->scope == FB_NONE ? n->name : n->name + strlen(g->scopes[n->scope].path) + 1;
}

/* "scope.element", with a number behind it where that is taken. */
static const char *free_name(const maker *m, fb_id scope, const char *element, const char *more, char to[FB_MAX_PATH])
{
    char own[96];
    int length = (int)(56 - strlen(more));
    snprintf(own, sizeof own, "%.*s%s", length, element, more);
    fb_scope_spell(m->out, scope, own, FB_NONE, to);
    for (int i = 2; fb_build_taken(m->out, to); i++) {
        snprintf(own, sizeof own, "%.*s%s_%d", length, element, more, i);
        fb_scope_spell(m->out, scope, own, FB_NONE, to);
    }
    return to;
}

static fb_id failed(maker *m)
{
    m->failed = true;
    return FB_NONE;
}

/* ---- nodes ---- */

static fb_id noted(maker *m, fb_id id, fb_id was)
{
    if (id == FB_NONE) return failed(m);
    if (id >= m->room) {
        int room = 2 * id + 64;
        m->was = fb_realloc(m->was, (size_t)room * sizeof *m->was);
        for (int i = m->room; i < room; i++) m->was[i] = FB_NONE;
        m->room = room;
    }
    m->was[id] = was;
    return id;
}

/* A new node outside any scope that the script knows. */
static fb_id put(maker *m, fb_op op, const fb_id *args, int n, const fb_attrs *at, const char *element,
                 const char *more, int line)
{
    char path[FB_MAX_PATH];
    for (int i = 0; i < n; i++)
        if (args[i] == FB_NONE) return failed(m);
    if (m->failed) return FB_NONE;
    fb_node node = {.op = op, .n_args = n, .args = args, .attrs = at, .scope = FB_NONE, .line = line};
    node.name = free_name(m, FB_NONE, element, more, path);
    return noted(m, fb_build_node(m->out, &node, m->err), FB_NONE);
}

static fb_id put_view(maker *m, fb_id of, fb_shape shape, const char *element)
{
    return put(m, FB_OP_VIEW, &of, 1, &(fb_attrs){.shape = shape}, element, "_view", 0);
}

static fb_id put_slice(maker *m, fb_id of, int dim, int64_t start, int64_t stop, int64_t step, const char *element)
{
    fb_attrs at = {.dim = dim, .start = start, .stop = stop, .step = step};
    return put(m, FB_OP_SLICE, &of, 1, &at, element, "_part", 0);
}

/* Dimension `from` moved to `to`, the others as they were. */
static fb_id put_moved(maker *m, fb_id of, int from, int to, const char *element)
{
    if (of == FB_NONE || m->failed) return FB_NONE;
    int rank = m->out->nodes[of].shape.rank, k = 0;
    fb_attrs at = {.n_axes = rank};
    if (from == to) return of;
    for (int d = 0; d < rank; d++) {
        if (d == to) {
            at.axes[d] = from;
            continue;
        }
        k += k == from;
        at.axes[d] = k++;
    }
    return put(m, FB_OP_PERMUTE, &of, 1, &at, element, "_turned", 0);
}

static fb_id put_flipped(maker *m, fb_id of, const char *element)
{
    return put(m, FB_OP_FLIP, &of, 1, &(fb_attrs){.n_axes = 1}, element, "_flipped", 0);
}

/* ---- scopes ---- */

static fb_id copy_scope(maker *m, fb_id id)
{
    if (id == FB_NONE || m->scope_to[id] != FB_NONE) return id == FB_NONE ? FB_NONE : m->scope_to[id];
    fb_scope s = m->g->scopes[id];
    s.parent = copy_scope(m, s.parent);
    fb_id made = fb_build_scope(m->out, &s, m->err);
    return m->scope_to[id] = made == FB_NONE ? failed(m) : made;
}

/* The model's scope `id`, which is `next` in the member after it: what differs in the index alone loses it. */
static fb_id body_scope(maker *m, fb_id id, fb_id next)
{
    if (id == FB_NONE) return FB_NONE;
    if (m->scope_in[id] != FB_NONE) return m->scope_in[id];
    const fb_scope *other = next == FB_NONE ? NULL : &m->g->scopes[next];
    if (id == next) return m->scope_in[id] = copy_scope(m, id);
    fb_scope s = m->g->scopes[id];
    char path[FB_MAX_PATH], name[80];
    s.parent = body_scope(m, s.parent, other ? other->parent : FB_NONE);
    if (other && s.index != other->index) s.index = FB_NONE;
    snprintf(name, sizeof name, "%s", s.name);
    fb_scope_spell(m->out, s.parent, name, s.index, path);
    for (int i = 2; fb_build_taken(m->out, path); i++) {
        snprintf(name, sizeof name, "%.56s_%d", s.name, i);
        fb_scope_spell(m->out, s.parent, name, s.index, path);
    }
    s.name = name;
    s.path = path;
    fb_id made = fb_build_scope(m->out, &s, m->err);
    return m->scope_in[id] = made == FB_NONE ? failed(m) : made;
}

/* ---- outside the body ---- */

static fb_id after(maker *m, fb_id id);

/* Ids of the old graph become those of the new one: `a`'s, else `b`'s. */
static void renumber(const fb_id *ids, int n, const fb_id *a, const fb_id *b)
{
    for (int i = 0; i < n; i++) {
        fb_id id = ids[i];
        if (id != FB_NONE) ((fb_id *)ids)[i] = a && a[id] != FB_NONE ? a[id] : b[id];
    }
}

/* As it stands, of operands that `operand` finds. */
static fb_id copy_node(maker *m, fb_id id)
{
    fb_node n = m->g->nodes[id];
    char path[FB_MAX_PATH];
    fb_id *args = FB_NEW_ARRAY(m->s->arena, fb_id, n.n_args + 1);
    for (int i = 0; i < n.n_args; i++)
        if ((args[i] = after(m, n.args[i])) == FB_NONE) return failed(m);
    n.args = args;
    n.scope = copy_scope(m, n.scope);
    if (m->failed) return FB_NONE;
    if (fb_build_taken(m->out, n.name)) n.name = free_name(m, n.scope, element_of(m->g, id), "", path);
    if (n.op == FB_OP_LOOP) {
        fb_region *r = &m->out->regions[n.attrs->region];
        renumber(r->carried, r->n_carried, NULL, m->to);
        renumber(r->yields, r->n_carried, NULL, m->to);
        renumber(r->items, r->n_items, NULL, m->to);
        renumber(r->stacked, r->n_stacked, NULL, m->to);
        r->loop = m->out->n_nodes;
    }
    return m->to[id] = noted(m, fb_build_node(m->out, &n, m->err), id);
}

static int member_at(const maker *m, fb_id id, int *at)
{
    int place = m->s->place[id] == FB_NONE ? -1 : m->s->place[id] - m->r->start;
    int member = place < 0 ? -1 : place / m->r->period - m->r->first;
    if (member < 0 || member >= m->r->trips) return FB_NONE;
    *at = place % m->r->period;
    return member;
}

static fb_id result_of(maker *m, int index, const char *element, const char *more)
{
    return put(m, FB_OP_RESULT, &m->loop, 1, &(fb_attrs){.index = index}, element, more, 0);
}

/* A node of all members: [trips, …] in the order in which a loop that runs forwards would collect it. */
static fb_id all_of(maker *m, int at)
{
    fb_id model = fb_roll_node(m->s, m->r, m->model, at);
    if (m->all[at] != FB_NONE) return m->all[at];
    int index = fb_build_stack(m->out, m->region, m->in[model], 1);
    return m->all[at] = result_of(m, index, element_of(m->g, model), "_all");
}

/* The value of one member. */
static fb_id value_of(maker *m, fb_id id, int member, int at)
{
    const char *element = element_of(m->g, id);
    if (member == m->r->trips - 1 && m->number[at] != FB_NONE) {
        if (m->last[at] == FB_NONE) m->last[at] = result_of(m, m->number[at], element, "_last");
        return m->last[at];
    }
    int64_t place = m->backwards ? m->r->trips - 1 - member : member;
    return put_view(m, put_slice(m, all_of(m, at), 0, place, place + 1, 1, element), m->g->nodes[id].shape, element);
}

/* What stands for a node of the old graph where the loop is over, or was never begun. */
static fb_id after(maker *m, fb_id id)
{
    int at, member;
    if (m->failed || m->to[id] != FB_NONE) return m->failed ? FB_NONE : m->to[id];
    member = member_at(m, id, &at);
    if (member == FB_NONE) return copy_node(m, id);
    if (m->loop == FB_NONE) {
        fb_fail(m->err, FB_ERR_INPUT, "loop: `%s` is read before it is over", m->g->nodes[id].name);
        return failed(m);
    }
    return m->to[id] = value_of(m, id, member, at);
}

/* Operands t … of a join that are all members' values of one node, in order or the other way round. */
typedef struct {
    int from, at;
    bool turned;
} stretch;

static bool find_stretch(const maker *m, const fb_node *n, stretch *out)
{
    int trips = m->r->trips, first, at, next;
    for (int i = 0; i + trips <= n->n_args; i++) {
        int member = member_at(m, n->args[i], &at), step = member == 0 ? 1 : -1, t = 1;
        if (member != 0 && member != trips - 1) continue;
        for (first = member; t < trips; t++)
            if (member_at(m, n->args[i + t], &next) != first + step * t || next != at) break;
        if (t < trips) continue;
        *out = (stretch){i, at, step < 0};
        return true;
    }
    return false;
}

static fb_id join_part(maker *m, fb_id id, int from, int to)
{
    const fb_node *n = &m->g->nodes[id];
    fb_id *args = FB_NEW_ARRAY(m->s->arena, fb_id, to - from + 1);
    for (int i = from; i < to; i++) args[i - from] = after(m, n->args[i]);
    return put(m, n->op, args, to - from, n->attrs, element_of(m->g, id), from ? "_behind" : "_before", n->line);
}

/* A join that holds all members' values holds what was collected instead. */
static void copy_join(maker *m, fb_id id)
{
    const fb_node *n = &m->g->nodes[id];
    const char *element = element_of(m->g, id);
    stretch s;
    if (!find_stretch(m, n, &s)) {
        copy_node(m, id);
        return;
    }
    int dim = n->attrs->dim, end = s.from + m->r->trips;
    fb_id all = all_of(m, s.at);
    if (s.turned != m->backwards) all = put_flipped(m, all, element);
    all = put_moved(m, all, 0, dim, element);
    if (n->op == FB_OP_CAT && !m->failed) {
        fb_shape shape = m->g->nodes[n->args[s.from]].shape;
        shape.dim[dim] *= m->r->trips;
        all = put_view(m, all, shape, element);
    }
    fb_id parts[3];
    int k = 0;
    if (s.from) parts[k++] = join_part(m, id, 0, s.from);
    parts[k++] = all;
    if (end < n->n_args) parts[k++] = join_part(m, id, end, n->n_args);
    if (k > 1) all = put(m, FB_OP_CAT, parts, k, &(fb_attrs){.dim = dim}, element, "", n->line);
    m->to[id] = all;
    if (all != FB_NONE && k > 1) m->was[all] = id;
}

/* ---- items ---- */

/* What moves at operand j of node q of a member: as the loop's first member reads it. */
static item item_of(maker *m, int q, int j)
{
    const fb_link *link = &m->r->links[m->r->slot_of[q] + j];
    fb_id reads = m->g->nodes[fb_roll_node(m->s, m->r, m->r->first, q)].args[j];
    fb_id slice = fb_roll_below(m->g, reads, link->level);
    const fb_node *n = &m->g->nodes[slice];
    return (item){.of = after(m, n->args[0]), .slice = slice, .move = link->move, .shape = n->shape};
}

/* Which tensor of all steps that is; FB_NONE: none yet. */
static int find_item(const maker *m, const item *it)
{
    const fb_attrs *a = m->g->nodes[it->slice].attrs;
    for (int i = 0; i < m->items.n; i++) {
        const item *other = &m->items.at[i];
        const fb_attrs *b = m->g->nodes[other->slice].attrs;
        bool same = it->of == other->of && it->move == other->move && fb_attrs_equal(a, b);
        if (same) return i;
    }
    return FB_NONE;
}

/* The tensor whose step t is the t-th part; from its end on where the loop does not run that way. */
static fb_id tensor_of(maker *m, const item *it)
{
    const char *element = element_of(m->g, it->slice);
    const fb_attrs *at = m->g->nodes[it->slice].attrs;
    int trips = m->r->trips, d = at->dim;
    fb_roll_cut cut;
    if (!fb_roll_cut_of(m->g, it->slice, it->move, trips, &cut)) return failed(m);
    fb_shape shape = it->shape;
    fb_id of = it->of;
    bool single = cut.part == 1;
    int64_t stop = single ? cut.low + (trips - 1) * cut.step + 1 : cut.low + trips * cut.step;
    if (cut.beyond) {
        fb_attrs more = {0};
        more.after[d] = cut.beyond;
        of = put(m, FB_OP_PAD, &of, 1, &more, element, "_padded", 0);
    }
    of = put_slice(m, of, d, cut.low, stop, single ? cut.step : 1, element);
    shape.rank++; /* [.., trips, a step's, ..] */
    for (int k = shape.rank - 1; k > d; k--) shape.dim[k] = shape.dim[k - 1];
    shape.dim[d] = trips;
    shape.dim[d + 1] = single ? 1 : cut.step;
    of = put_view(m, of, shape, element);
    if (!single && cut.step != cut.part) of = put_slice(m, of, d + 1, cut.skip, cut.skip + cut.part, 1, element);
    of = put_moved(m, of, d, 0, element);
    return (it->move < 0) == m->backwards ? of : put_flipped(m, of, element);
}

static void find_items(maker *m)
{
    int forwards = 0;
    for (int q = 0; q < m->r->period; q++) {
        for (int k = m->r->slot_of[q]; k < m->r->slot_of[q + 1] && !m->failed; k++) {
            const fb_link *link = &m->r->links[k];
            if (link->kind != FB_LINK_OUTSIDE || link->level == FB_NONE) continue;
            item it = item_of(m, q, k - m->r->slot_of[q]);
            if (m->failed || find_item(m, &it) != FB_NONE) continue;
            FB_VEC_PUSH(&m->items, it);
            forwards += it.move > 0 ? 1 : -1;
        }
    }
    m->backwards = forwards < 0;
    for (int i = 0; i < m->items.n && !m->failed; i++) FB_VEC_PUSH(&m->scanned, tensor_of(m, &m->items.at[i]));
}

/* ---- the body ---- */

static fb_id stand_in(maker *m, fb_id id, fb_id scope);

static fb_id copy_in(maker *m, fb_id id, fb_id scope)
{
    fb_node n = m->g->nodes[id];
    char path[FB_MAX_PATH];
    fb_id *args = FB_NEW_ARRAY(m->s->arena, fb_id, n.n_args + 1);
    for (int i = 0; i < n.n_args; i++)
        if ((args[i] = stand_in(m, n.args[i], scope)) == FB_NONE) return failed(m);
    n.args = args;
    n.region = m->region;
    n.scope = scope;
    n.name = free_name(m, scope, element_of(m->g, id), "", path);
    return m->in[id] = noted(m, fb_build_node(m->out, &n, m->err), id);
}

/* What the model's nodes read, in the body. Views of what is outside stay there. */
static fb_id stand_in(maker *m, fb_id id, fb_id scope)
{
    if (m->failed || m->in[id] != FB_NONE) return m->failed ? FB_NONE : m->in[id];
    if (fb_op_get(m->g->nodes[id].op)->cls != FB_CLASS_VIEW) return after(m, id);
    fb_id below = stand_in(m, m->g->nodes[id].args[0], scope);
    if (below == FB_NONE) return failed(m);
    if (m->out->nodes[below].region == m->region) return copy_in(m, id, scope);
    return after(m, id);
}

static fb_id begin_of(maker *m, int at)
{
    const fb_link_init *init = &m->r->inits[at];
    const fb_node *n = &m->g->nodes[fb_roll_node(m->s, m->r, m->model, at)];
    if (!init->constant) return after(m, init->node);
    fb_attrs value = {.value = m->g->nodes[init->node].attrs->value, .dtype = n->dtype, .shape = n->shape};
    return put(m, FB_OP_CONST, NULL, 0, &value, element_of(m->g, init->node), "", 0);
}

/* Opens the loop; what is carried and scanned stands in the body for what the model reads. */
static void open_loop(maker *m)
{
    const fb_roll_run *r = m->r;
    fb_id *inits = FB_NEW_ARRAY(m->s->arena, fb_id, r->carried + 1);
    fb_id *carried = FB_NEW_ARRAY(m->s->arena, fb_id, r->carried + 1);
    fb_id *items = FB_NEW_ARRAY(m->s->arena, fb_id, m->items.n + 1);
    int n = 0;
    for (int q = 0; q < r->period; q++) {
        m->number[q] = m->last[q] = m->all[q] = FB_NONE;
        if (r->inits[q].node == FB_NONE) continue;
        m->number[q] = n;
        inits[n++] = begin_of(m, q);
    }
    if (m->failed) return;
    int line = m->g->nodes[fb_roll_node(m->s, r, m->model, 0)].line;
    m->region =
        fb_graph_region_open(m->out, r->trips, inits, n, m->scanned.at, m->scanned.n, carried, items, line, m->err);
    if (m->region == FB_NONE) {
        failed(m);
        return;
    }
    if (m->backwards) fb_graph_region_turn(m->out);
    for (int q = 0; q < r->period; q++)
        if (m->number[q] != FB_NONE) m->in[fb_roll_node(m->s, r, m->model - 1, q)] = carried[m->number[q]];
    for (int q = 0; q < r->period; q++) {
        for (int k = r->slot_of[q]; k < r->slot_of[q + 1] && !m->failed; k++) {
            if (r->links[k].kind != FB_LINK_OUTSIDE || r->links[k].level == FB_NONE) continue;
            item it = item_of(m, q, k - r->slot_of[q]);
            fb_id reads = m->g->nodes[fb_roll_node(m->s, r, m->model, q)].args[k - r->slot_of[q]];
            m->in[fb_roll_below(m->g, reads, r->links[k].level)] = items[find_item(m, &it)];
        }
    }
}

static void make_body(maker *m)
{
    const fb_roll_run *r = m->r;
    fb_id *yields = FB_NEW_ARRAY(m->s->arena, fb_id, r->carried + 1);
    open_loop(m);
    for (int q = 0; q < r->period && !m->failed; q++) {
        fb_id id = fb_roll_node(m->s, r, m->model, q), next = fb_roll_node(m->s, r, m->model + 1, q);
        copy_in(m, id, body_scope(m, m->g->nodes[id].scope, m->g->nodes[next].scope));
    }
    for (int q = 0; q < r->period && !m->failed; q++)
        if (m->number[q] != FB_NONE) yields[m->number[q]] = m->in[fb_roll_node(m->s, r, m->model, q)];
    if (m->failed) return;
    m->loop = fb_graph_region_close(m->out, yields, NULL, 0, m->err);
    if (m->loop == FB_NONE) failed(m);
}

/* ---- all of it ---- */

static void copy_regions(maker *m)
{
    for (fb_id i = 1; i < m->g->n_regions && !m->failed; i++)
        if (fb_build_region(m->out, &m->g->regions[i], m->err) == FB_NONE) failed(m);
}

static void renumber_scopes(maker *m)
{
    for (fb_id i = 0; i < m->g->n_scopes; i++) {
        fb_id out = m->scope_to[i], in = m->scope_in[i];
        if (out != FB_NONE) {
            const fb_scope *s = &m->out->scopes[out];
            renumber(s->args, s->n_args, NULL, m->to);
            renumber(s->results, s->n_results, NULL, m->to);
        }
        if (in != FB_NONE && in != out) {
            const fb_scope *s = &m->out->scopes[in];
            renumber(s->args, s->n_args, m->in, m->to);
            renumber(s->results, s->n_results, m->in, m->to);
        }
    }
}

/* A node of those among which the members stand: a member's waits for who reads it. */
static bool is_free(const maker *m, fb_id id)
{
    int at;
    return member_at(m, fb_access_base(m->g, id), &at) == FB_NONE;
}

static void make_all(maker *m)
{
    const fb_graph *g = m->g;
    copy_regions(m);
    for (fb_id i = 0; i <= m->last_id && !m->failed; i++)
        if (m->to[i] == FB_NONE && is_free(m, i)) copy_node(m, i);
    if (!m->failed) find_items(m);
    if (!m->failed) make_body(m);
    for (fb_id i = m->last_id + 1; i < g->n_nodes && !m->failed; i++) {
        if (m->to[i] != FB_NONE) continue;
        if (g->nodes[i].op == FB_OP_STACK || g->nodes[i].op == FB_OP_CAT)
            copy_join(m, i);
        else
            copy_node(m, i);
    }
    for (int i = 0; i < g->n_outputs && !m->failed; i++)
        if (!fb_build_output(m->out, after(m, g->outputs[i]), g->output_names[i], m->err)) failed(m);
    if (!m->failed) renumber_scopes(m);
    if (!m->failed && !fb_graph_finish(m->out, m->err)) failed(m);
}

static fb_id *no_ids(fb_arena *arena, int n)
{
    fb_id *ids = FB_NEW_ARRAY(arena, fb_id, n + 1);
    for (int i = 0; i <= n; i++) ids[i] = FB_NONE;
    return ids;
}

static void hand_over(maker *m, fb_rolled *out)
{
    int n = m->g->n_nodes, at;
    *out = (fb_rolled){.graph = m->out};
    out->was = no_ids(m->s->arena, m->out->n_nodes);
    out->is = no_ids(m->s->arena, n);
    out->member = FB_NEW_ARRAY(m->s->arena, int, n + 1);
    for (fb_id i = 0; i < m->out->n_nodes && i < m->room; i++) out->was[i] = m->was[i];
    for (fb_id i = 0; i < n; i++) {
        int member = member_at(m, i, &at);
        out->is[i] = member == FB_NONE ? m->to[i] : m->in[fb_roll_node(m->s, m->r, m->model, at)];
        out->member[i] = member + 1;
    }
}

bool fb_roll_make(const fb_roll_search *s, const fb_roll_run *r, fb_rolled *out, fb_error *err)
{
    const fb_graph *g = s->g;
    fb_arena *arena = s->arena;
    maker m = {
        .s = s, .g = g, .r = r, .out = fb_graph_new(g->title), .err = err, .loop = FB_NONE, .model = r->first + 1};
    m.last_id = fb_roll_node(s, r, r->first + r->trips - 1, r->period - 1);
    m.to = no_ids(arena, g->n_nodes);
    m.in = no_ids(arena, g->n_nodes);
    m.scope_to = no_ids(arena, g->n_scopes);
    m.scope_in = no_ids(arena, g->n_scopes);
    m.number = no_ids(arena, r->period);
    m.last = no_ids(arena, r->period);
    m.all = no_ids(arena, r->period);
    make_all(&m);
    if (m.failed) {
        fb_graph_free(m.out);
        if (!err->kind) fb_fail(err, FB_ERR_INPUT, "a loop of %d steps could not be made", r->trips);
    } else {
        hand_over(&m, out);
    }
    FB_VEC_FREE(&m.items);
    FB_VEC_FREE(&m.scanned);
    fb_free(m.was);
    return !m.failed;
}
