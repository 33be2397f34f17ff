/* Finding loops that are written out.
 *
 * The nodes that compute something stand in one sequence, in the order in which they were written. Where it repeats
 * with a period, as far as ops go, members may follow each other (`find_runs`). Each such run is looked at closely, at
 * some of the places where a member may begin: what holds between a member and the next (`same_relation`) must hold
 * between all, and the longest stretch for which it does is the loop. The run that takes most nodes away is made one
 * (roll_make.c), and the graph is searched again: a loop and then the one that takes it back. */
#include "graph/roll_parts.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "graph/access.h"
#include "graph/build.h"
#include "graph/canon.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEAST_TRIPS = 3,
    MOST_PERIOD = 4096,
    MOST_RUNS = 12,   /* that are looked at closely */
    MOST_PHASES = 24, /* places where a member may begin, of one run */
    MOST_LOOPS = 64,
    MOST_NEAR = 6, /* of what is no loop, that are told */
    SMALL = 4,     /* pointwise nodes: fewer are one kernel as they stand */
};

static fb_op_class class_of(const fb_graph *g, fb_id id)
{
    return fb_op_get(g->nodes[id].op)->cls;
}

static bool is_view(const fb_graph *g, fb_id id)
{
    return class_of(g, id) == FB_CLASS_VIEW;
}

/* ---- the sequence ---- */

/* Alike for ops alone: what else differs is found later, and told. Effects and what belongs to loops is like nothing.
 */
static int kind_of(const fb_graph *g, fb_id id, int i)
{
    const fb_node *n = &g->nodes[id];
    bool alone = !fb_node_is_computed(g, id) || n->op == FB_OP_ASSIGN || n->region != 0;
    return alone ? -1 - i : (int)n->op * 64 + (n->n_args < 63 ? n->n_args : 63);
}

static fb_roll_search search_of(const fb_graph *g, fb_arena *arena)
{
    fb_roll_search s = {.g = g, .arena = arena};
    s.seq = FB_NEW_ARRAY(arena, fb_id, g->n_nodes + 1);
    s.place = FB_NEW_ARRAY(arena, int, g->n_nodes + 1);
    s.kind = FB_NEW_ARRAY(arena, int, g->n_nodes + 1);
    for (fb_id i = 0; i < g->n_nodes; i++) {
        s.place[i] = FB_NONE;
        if (is_view(g, i) || class_of(g, i) == FB_CLASS_SOURCE) continue;
        s.kind[s.n] = kind_of(g, i, s.n);
        s.place[i] = s.n;
        s.seq[s.n++] = i;
    }
    return s;
}

/* Nodes that a loop would take away, as far as ops go. */
static int64_t promise(const fb_roll_run *r)
{
    return (int64_t)(r->members - 1) * r->period;
}

static void keep_best(fb_roll_run *best, int *n, const fb_roll_run *r)
{
    int at = *n;
    while (at > 0 && promise(&best[at - 1]) < promise(r)) at--;
    if (at >= MOST_RUNS) return;
    int last = *n < MOST_RUNS ? (*n)++ : MOST_RUNS - 1;
    memmove(&best[at + 1], &best[at], (size_t)(last - at) * sizeof *best);
    best[at] = *r;
}

/* Where the sequence repeats with a period, for each period: from `start` on so many whole members. */
static int find_runs(const fb_roll_search *s, fb_roll_run best[MOST_RUNS])
{
    int n = 0;
    for (int period = 1; period <= MOST_PERIOD && period * LEAST_TRIPS <= s->n; period++) {
        for (int i = 0, from = 0; i + period <= s->n; i++) {
            if (i + period < s->n && s->kind[i] == s->kind[i + period]) continue;
            int members = (i - from + period) / period;
            fb_roll_run r = {.start = from, .period = period, .members = members};
            if (members >= LEAST_TRIPS) keep_best(best, &n, &r);
            from = i + 1;
        }
    }
    return n;
}

/* ---- what holds between two members ---- */

fb_id fb_roll_below(const fb_graph *g, fb_id arg, int level)
{
    while (level-- > 0) arg = g->nodes[arg].args[0];
    return arg;
}

/* Two operands, down through their views as far as these are the same. `level`: where a slice begins elsewhere. */
typedef struct {
    fb_id a, b;
    int level;
    int64_t move;
    bool alike;
} descent;

static bool moves(const fb_attrs *a, const fb_attrs *b)
{
    return a->dim == b->dim && a->step == b->step && a->stop - a->start == b->stop - b->start;
}

static descent descend(const fb_graph *g, fb_id a, fb_id b)
{
    descent d = {.a = a, .b = b, .level = FB_NONE, .alike = true};
    for (int depth = 0; d.a != d.b && is_view(g, d.a) && is_view(g, d.b); depth++) {
        const fb_node *x = &g->nodes[d.a], *y = &g->nodes[d.b];
        bool same = x->op == y->op && fb_attrs_equal(x->attrs, y->attrs);
        if (!same && x->op == FB_OP_SLICE && y->op == FB_OP_SLICE && d.level == FB_NONE && moves(x->attrs, y->attrs)) {
            d.level = depth;
            d.move = y->attrs->start - x->attrs->start;
        } else if (!same) {
            d.alike = false;
            return d;
        }
        d.a = x->args[0];
        d.b = y->args[0];
    }
    return d;
}

/* The same value, whichever node it is: sources are shared within an op scope alone. */
static bool same_source(const fb_graph *g, fb_id a, fb_id b)
{
    const fb_node *x = &g->nodes[a], *y = &g->nodes[b];
    if (a == b) return true;
    return x->op == y->op && (x->op == FB_OP_CONST || x->op == FB_OP_IOTA) && fb_attrs_equal(x->attrs, y->attrs) &&
           x->dtype == y->dtype;
}

typedef struct {
    const fb_roll_search *s;
    const fb_graph *g;
    fb_roll_run *r;
    fb_link *links;      /* of the first pair */
    fb_link_init *inits; /* a node of a member */
    fb_str *why;
    bool *alike; /* some members were, and it was refused for another reason */
} looker;

static bool says_no(const looker *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool says_no(const looker *l, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fb_str_clear(l->why);
    fb_str_vaddf(l->why, format, ap);
    va_end(ap);
    return false;
}

/* The member that a place lies in, FB_NONE for none. */
static int member_of(const fb_roll_run *r, int place)
{
    if (place < r->start || place >= r->start + r->members * r->period) return FB_NONE;
    return (place - r->start) / r->period;
}

/* How what member k reads stands to it. Nothing before a loop's first member is carried. */
static fb_link link_of(const looker *l, int k, bool begins, fb_id arg, fb_id *base)
{
    *base = fb_access_base(l->g, arg);
    int place = l->s->place[*base], member = place == FB_NONE ? FB_NONE : member_of(l->r, place);
    fb_link link = {.kind = FB_LINK_OUTSIDE, .level = FB_NONE};
    if (member == k || (member == k - 1 && member != FB_NONE && !begins)) {
        link.kind = member == k ? FB_LINK_INSIDE : FB_LINK_CARRIED;
        link.at = (place - l->r->start) % l->r->period;
    }
    return link;
}

static const char *name(const looker *l, fb_id id)
{
    return l->g->nodes[id].name;
}

/* What a carried value begins with, so that the first member reads it as the others read what is carried. */
static bool begins_with(const looker *l, fb_id first, fb_id next, int at, fb_id carried)
{
    fb_link_init init = {.node = first};
    const fb_node *want = &l->g->nodes[carried];
    for (fb_id down = next; down != carried; down = l->g->nodes[down].args[0]) {
        const fb_node *x = &l->g->nodes[init.node], *y = &l->g->nodes[down];
        if (x->op == FB_OP_CONST && y->op != FB_OP_PAD) {
            init.constant = true;
            break;
        }
        if (x->op != y->op || !is_view(l->g, init.node) || !fb_attrs_equal(x->attrs, y->attrs))
            return says_no(l, "`%s` is no beginning of what `%s` becomes", name(l, first), name(l, carried));
        init.node = x->args[0];
    }
    const fb_node *x = &l->g->nodes[init.node];
    if (x->dtype != want->dtype || (!init.constant && !fb_shape_equal(&x->shape, &want->shape)))
        return says_no(l, "`%s` is no beginning of what `%s` becomes", name(l, first), name(l, carried));
    fb_link_init *to = &l->inits[at];
    if (to->node == FB_NONE) *to = init;
    bool equal = to->node == init.node ||
                 (to->constant && init.constant && x->attrs->value == l->g->nodes[to->node].attrs->value);
    return equal || says_no(l, "`%s` begins with two values, `%s` and `%s`", name(l, carried), name(l, to->node),
                            name(l, init.node));
}

static bool same_node(const looker *l, fb_id a, fb_id b)
{
    const fb_node *x = &l->g->nodes[a], *y = &l->g->nodes[b];
    char is[192], was[192];
    if (x->n_args != y->n_args) return says_no(l, "`%s` has more operands than `%s`", y->name, x->name);
    if (x->dtype != y->dtype || !fb_shape_equal(&x->shape, &y->shape))
        return says_no(l, "`%s` is %s, `%s` is %s", y->name, fb_shape_format(&y->shape, y->dtype, is), x->name,
                       fb_shape_format(&x->shape, x->dtype, was));
    return fb_attrs_equal(x->attrs, y->attrs) ||
           says_no(l, "`%s` has other numbers or axes than `%s`", y->name, x->name);
}

static bool same_outside(const looker *l, fb_id a, fb_id b, const descent *d, fb_id of_a, fb_id of_b)
{
    if (d->alike && same_source(l->g, d->a, d->b)) return true;
    fb_id base = fb_access_base(l->g, d->b);
    if (fb_access_base(l->g, d->a) == base)
        return says_no(l, "`%s` and `%s` read `%s` through views that differ", name(l, a), name(l, b), name(l, base));
    return says_no(l, "`%s` reads `%s` where `%s` reads `%s`", name(l, b), name(l, fb_access_base(l->g, of_b)),
                   name(l, a), name(l, fb_access_base(l->g, of_a)));
}

/* Slot `slot`: operand j of node a, and of b which stands there in the next member, k + 1. */
static bool same_slot(const looker *l, int k, bool begins, int slot, int j, fb_id a, fb_id b)
{
    fb_id x = l->g->nodes[a].args[j], y = l->g->nodes[b].args[j], of_x, of_y;
    fb_link is = link_of(l, k + 1, false, y, &of_y), was = link_of(l, k, begins, x, &of_x);
    if (begins && is.kind == FB_LINK_CARRIED) {
        if (was.kind == FB_LINK_INSIDE)
            return says_no(l, "`%s` reads `%s`, which `%s` reads of the step before", name(l, a), name(l, of_x),
                           name(l, b));
        if (!begins_with(l, x, y, is.at, of_y)) return false;
        l->links[slot] = is;
        return true;
    }
    descent d = descend(l->g, x, y);
    if (is.kind != was.kind || (is.kind != FB_LINK_OUTSIDE && is.at != was.at)) {
        if (l->s->place[of_y] != FB_NONE && member_of(l->r, l->s->place[of_y]) != FB_NONE && is.kind == FB_LINK_OUTSIDE)
            return says_no(l, "`%s` reads `%s`, which is of a step further back", name(l, b), name(l, of_y));
        return says_no(l, "`%s` reads `%s` where `%s` reads `%s`", name(l, b), name(l, of_y), name(l, a),
                       name(l, of_x));
    }
    if (is.kind == FB_LINK_OUTSIDE) {
        int member = l->s->place[of_y] == FB_NONE ? FB_NONE : member_of(l->r, l->s->place[of_y]);
        if (of_x != of_y && member != FB_NONE && member > 0)
            return says_no(l, "`%s` reads `%s`, which is of a step further back", name(l, b), name(l, of_y));
        if (!same_outside(l, a, b, &d, x, y)) return false;
        is.level = d.level;
        is.move = d.move;
    } else if (!d.alike || d.level != FB_NONE) {
        return says_no(l, "`%s` and `%s` read `%s` and `%s` through views that differ", name(l, a), name(l, b),
                       name(l, of_x), name(l, of_y));
    }
    if (begins) {
        l->links[slot] = is;
        return true;
    }
    const fb_link *first = &l->links[slot];
    if (first->level == is.level && first->move == is.move) return true;
    return says_no(l, "the parts of `%s` that `%s` and `%s` read lie not as far apart as those of the steps before",
                   name(l, of_y), name(l, a), name(l, b));
}

/* What holds between members k and k + 1. `begins`: k is the first of a loop, and its links are noted; else they must
 * be those noted. */
static bool same_relation(const looker *l, int k, bool begins)
{
    const fb_roll_run *r = l->r;
    for (int q = 0; begins && q < r->period; q++) l->inits[q] = (fb_link_init){.node = FB_NONE};
    for (int q = 0; q < r->period; q++) {
        fb_id a = fb_roll_node(l->s, r, k, q), b = fb_roll_node(l->s, r, k + 1, q);
        if (!same_node(l, a, b)) return false;
        for (int j = 0; j < l->g->nodes[a].n_args; j++)
            if (!same_slot(l, k, begins, r->slot_of[q] + j, j, a, b)) return false;
    }
    return true;
}

bool fb_roll_cut_of(const fb_graph *g, fb_id first, int64_t move, int trips, fb_roll_cut *out)
{
    const fb_node *n = &g->nodes[first];
    const fb_attrs *at = n->attrs;
    int64_t step = move < 0 ? -move : move, last = at->start + (trips - 1) * move;
    int64_t part = n->shape.dim[at->dim], all = g->nodes[n->args[0]].shape.dim[at->dim];
    *out = (fb_roll_cut){.low = last < at->start ? last : at->start, .step = step, .part = part};
    if (n->shape.rank >= FB_MAX_RANK || step == 0) return false;
    if (part == 1) return true;
    if (at->step != 1 || step < part) return false; /* each second element, or parts that overlap */
    if (out->low + trips * step <= all) return true;
    if (out->low >= step - part) { /* what lies between two parts is taken from before the first instead */
        out->skip = step - part;
        out->low -= out->skip;
    } else {
        out->beyond = out->low + trips * step - all;
    }
    return true;
}

/* Can what moves be cut as one tensor? */
static bool may_scan(const looker *l, int first, int trips)
{
    const fb_roll_run *r = l->r;
    for (int q = 0; q < r->period; q++) {
        fb_id id = fb_roll_node(l->s, r, first, q);
        const fb_node *n = &l->g->nodes[id];
        for (int j = 0; j < n->n_args; j++) {
            const fb_link *link = &l->links[r->slot_of[q] + j];
            fb_roll_cut cut;
            if (link->kind != FB_LINK_OUTSIDE || link->level == FB_NONE) continue;
            fb_id slice = fb_roll_below(l->g, n->args[j], link->level);
            if (!fb_roll_cut_of(l->g, slice, link->move, trips, &cut))
                return says_no(l, "`%s` reads parts of `%s` that overlap, or of which each is not one piece", n->name,
                               name(l, fb_access_base(l->g, slice)));
        }
    }
    return true;
}

static int carried_of(const looker *l)
{
    int n = 0;
    for (int q = 0; q < l->r->period; q++) n += l->inits[q].node != FB_NONE;
    return n;
}

/* Does anything go round? What goes from a member to the next alone, because the place where members are taken to begin
 * lies between two nodes of what is one, depends on no member further back: taken out again and again, nothing is left.
 */
static bool goes_round(const looker *l)
{
    const fb_roll_run *r = l->r;
    bool *alive = FB_NEW_ARRAY(l->s->arena, bool, r->period + 1);
    bool *next = FB_NEW_ARRAY(l->s->arena, bool, r->period + 1);
    for (int q = 0; q < r->period; q++) alive[q] = true;
    for (bool changed = true; changed;) {
        changed = false;
        for (int q = 0; q < r->period; q++) {
            next[q] = false;
            for (int k = r->slot_of[q]; k < r->slot_of[q + 1]; k++) {
                const fb_link *link = &l->links[k];
                if (link->kind == FB_LINK_INSIDE) next[q] |= next[link->at];
                if (link->kind == FB_LINK_CARRIED) next[q] |= alive[link->at];
            }
            changed |= alive[q] && !next[q];
        }
        memcpy(alive, next, (size_t)r->period * sizeof *alive);
    }
    for (int q = 0; q < r->period; q++)
        if (alive[q]) return true;
    return false;
}

/* A few pointwise nodes a member become one kernel as they are, which no loop is faster than. */
static bool is_worth_it(const looker *l)
{
    for (int q = 0; q < l->r->period; q++)
        if (class_of(l->g, fb_roll_node(l->s, l->r, 0, q)) != FB_CLASS_POINTWISE) return true;
    return l->r->period >= SMALL || says_no(l, "%d pointwise operation%s a step: all steps together are one kernel",
                                            l->r->period, l->r->period == 1 ? "" : "s");
}

static void take(looker *l, int first, int trips, fb_roll_run *best)
{
    fb_roll_run *r = l->r;
    if (trips <= best->trips || trips < LEAST_TRIPS) return;
    *best = *r;
    best->first = first;
    best->trips = trips;
    best->carried = carried_of(l);
    best->links = fb_arena_copy(l->s->arena, l->links, ((size_t)r->n_slots + 1) * sizeof *l->links);
    best->inits = fb_arena_copy(l->s->arena, l->inits, (size_t)r->period * sizeof *l->inits);
}

/* The longest stretch of members between which the same holds. The first reason for which there is none longer stays
 * in `why`. */
static void look_at(looker *l, fb_roll_run *best)
{
    fb_roll_run *r = l->r;
    fb_str first_no = {0};
    for (int a = 0; a + 1 < r->members;) {
        int b = a;
        if (same_relation(l, a, true))
            for (b = a + 1; b + 1 < r->members && same_relation(l, b, false);) b++;
        if (b + 1 < r->members && !first_no.n) fb_str_add(&first_no, fb_str_get(l->why));
        bool runs = b > a && b - a + 1 >= LEAST_TRIPS;
        *l->alike |= runs;
        if (runs && may_scan(l, a, b - a + 1) && is_worth_it(l)) {
            if (goes_round(l))
                take(l, a, b - a + 1, best);
            else
                says_no(l, "no step reads another one's values: %d equal members, side by side", b - a + 1);
        }
        if (runs && !first_no.n) fb_str_add(&first_no, fb_str_get(l->why));
        a = b > a ? b : a + 1;
    }
    fb_str_clear(l->why);
    fb_str_add(l->why, fb_str_get(&first_no));
    fb_str_free(&first_no);
}

static void prepare(looker *l)
{
    fb_roll_run *r = l->r;
    int *slot_of = FB_NEW_ARRAY(l->s->arena, int, r->period + 1);
    for (int q = 0; q < r->period; q++) slot_of[q + 1] = slot_of[q] + l->g->nodes[fb_roll_node(l->s, r, 0, q)].n_args;
    r->slot_of = slot_of;
    r->n_slots = slot_of[r->period];
    l->links = FB_NEW_ARRAY(l->s->arena, fb_link, r->n_slots + 1);
    l->inits = FB_NEW_ARRAY(l->s->arena, fb_link_init, r->period);
}

/* ---- where a member begins ---- */

/* The outermost scope with an index around a node. */
static fb_id member_scope(const fb_graph *g, fb_id node)
{
    fb_id found = FB_NONE;
    for (fb_id s = g->nodes[node].scope; s != FB_NONE; s = g->scopes[s].parent)
        if (g->scopes[s].index != FB_NONE) found = s;
    return found;
}

/* Offsets from the run's start: first where a repetition of the script begins, then as they come. */
static int phases_of(const fb_roll_search *s, const fb_roll_run *r, int to[MOST_PHASES])
{
    int n = 0;
    for (int at = 0; at < r->period && n < MOST_PHASES / 3; at++) {
        int place = r->start + at;
        if (place == 0 || member_scope(s->g, s->seq[place]) == member_scope(s->g, s->seq[place - 1])) continue;
        to[n++] = at;
    }
    for (int at = 0; at < r->period && n < MOST_PHASES; at++) to[n++] = at;
    return n;
}

/* The best of the run's phases: most members, then fewest carried values, then the first. */
static bool look_closely(const fb_roll_search *s, const fb_roll_run *run, fb_roll_run *best, bool *alike, fb_str *why)
{
    int phase[MOST_PHASES], n = phases_of(s, run, phase);
    fb_str first_no = {0};
    int length = run->members * run->period; /* whole members; what is left over lets them begin later */
    for (int i = run->start + length; i < s->n && s->kind[i] == s->kind[i - run->period]; i++) length++;
    *best = (fb_roll_run){0};
    *alike = false;
    for (int i = 0; i < n; i++) {
        fb_roll_run at = *run, found = {0};
        looker l = {.s = s, .g = s->g, .r = &at, .why = why, .alike = alike};
        at.start += phase[i];
        at.members = (length - phase[i]) / at.period;
        if (at.members < LEAST_TRIPS) continue;
        prepare(&l);
        fb_str_clear(why);
        look_at(&l, &found);
        if (!first_no.n) fb_str_add(&first_no, fb_str_get(why));
        if (found.trips > best->trips || (found.trips == best->trips && found.carried < best->carried)) *best = found;
        if (best->trips == run->members) break;
    }
    fb_str_clear(why);
    fb_str_add(why, fb_str_get(&first_no));
    fb_str_free(&first_no);
    return best->trips > 0;
}

/* ---- telling ---- */

/* "step[3].tanh" as "step[*].tanh", the outermost index alone. */
static const char *without_index(fb_arena *arena, const char *name)
{
    const char *open = strchr(name, '['), *close = open ? strchr(open, ']') : NULL;
    if (!close) return fb_arena_strdup(arena, name);
    fb_str s = {0};
    fb_str_addf(&s, "%.*s[*%s", (int)(open - name), name, close);
    const char *copy = fb_arena_strdup(arena, fb_str_get(&s));
    fb_str_free(&s);
    return copy;
}

typedef FB_VEC(fb_roll_find) finds;

/* Why the members at either end are not in it. */
static const char *reason_of(const fb_roll_search *s, const fb_roll_run *r, int pair, fb_arena *arena)
{
    fb_roll_run run = *r;
    fb_str why = {0};
    looker l = {.s = s, .g = s->g, .r = &run, .why = &why};
    prepare(&l);
    bool same = pair >= r->first || same_relation(&l, pair, true);
    if (same) { /* among themselves; but as the loop's are? */
        memcpy(l.links, r->links, (size_t)r->n_slots * sizeof *l.links);
        same = same_relation(&l, pair, false);
    }
    const char *text = same ? "it stands in another relation to the next" : fb_arena_strdup(arena, fb_str_get(&why));
    fb_str_free(&why);
    return text;
}

static void tell(const fb_roll_search *s, const fb_roll_run *r, const char *why, bool differs, fb_arena *arena,
                 finds *out)
{
    fb_id node = fb_roll_node(s, r, r->first, 0);
    fb_roll_find f = {.name = without_index(arena, s->g->nodes[node].name),
                      .node = node,
                      .members = r->members,
                      .first = r->first,
                      .trips = why ? 0 : r->trips,
                      .nodes = r->period,
                      .carried = r->carried,
                      .why = why ? fb_arena_strdup(arena, why) : NULL,
                      .differs = differs};
    if (!why && r->first) f.left = reason_of(s, r, r->first - 1, arena);
    if (!why && r->first + r->trips < r->members) f.rest = reason_of(s, r, r->first + r->trips - 1, arena);
    FB_VEC_PUSH(out, f);
}

/* Is it written as a repetition, so that somebody may have wanted a loop? */
static bool is_meant(const fb_roll_search *s, const fb_roll_run *r)
{
    for (int at = 0; at < r->period; at++) {
        fb_id a = member_scope(s->g, fb_roll_node(s, r, 0, at)), b = member_scope(s->g, fb_roll_node(s, r, 1, at));
        if (a != b && a != FB_NONE && b != FB_NONE) return true;
    }
    return false;
}

/* What is nearly a loop, a place of the graph once. */
static void tell_near(const fb_roll_search *s, const fb_roll_run *r, const char *why, bool differs, fb_arena *arena,
                      bool *told, finds *out)
{
    if (out->n >= MOST_LOOPS + MOST_NEAR || !is_meant(s, r)) return;
    for (int i = r->start; i < r->start + r->members * r->period; i++)
        if (told[i]) return;
    for (int i = r->start; i < r->start + r->members * r->period; i++) told[i] = true;
    tell(s, r, why, differs, arena, out);
}

/* The run whose loop takes most nodes away. */
static bool find_best(const fb_roll_search *s, fb_roll_run *best, fb_arena *arena, finds *near)
{
    fb_roll_run runs[MOST_RUNS + 1];
    fb_str why = {0};
    bool *told = FB_NEW_ARRAY(s->arena, bool, s->n + 1);
    int n = find_runs(s, runs);
    int64_t most = 0;
    near->n = 0;
    for (int i = 0; i < n; i++) {
        fb_roll_run found;
        bool alike;
        if (promise(&runs[i]) <= most) break; /* in descending order */
        if (!look_closely(s, &runs[i], &found, &alike, &why)) {
            tell_near(s, &runs[i], fb_str_get(&why), !alike, arena, told, near);
        } else if ((int64_t)(found.trips - 1) * found.period > most) {
            most = (int64_t)(found.trips - 1) * found.period;
            *best = found;
        }
    }
    fb_str_free(&why);
    return most > 0;
}

/* ---- all loops ---- */

typedef struct {
    const fb_graph *now; /* so far; the given one at first */
    fb_id *was, *is;     /* against the given one */
    int *member, last;   /* numbers given to members so far */
    fb_arena *arena;
} chain;

/* After a step: `to` is what canonicalising made of the step's graph. */
static void follow(chain *c, const fb_graph *given, const fb_rolled *step, const fb_graph *to)
{
    fb_id *was = FB_NEW_ARRAY(c->arena, fb_id, to->n_nodes + 1);
    fb_id *stays = FB_NEW_ARRAY(c->arena, fb_id, step->graph->n_nodes + 1); /* made → canonical */
    for (fb_id i = 0; i < step->graph->n_nodes; i++) stays[i] = fb_graph_find(to, step->graph->nodes[i].name);
    for (fb_id i = 0; i < to->n_nodes; i++) was[i] = FB_NONE;
    for (fb_id i = 0; i < step->graph->n_nodes; i++)
        if (stays[i] != FB_NONE && step->was[i] != FB_NONE) was[stays[i]] = c->was[step->was[i]];
    int most = 0;
    for (fb_id i = 0; i < given->n_nodes; i++) {
        fb_id at = c->is[i];
        if (at == FB_NONE) continue;
        int member = step->member[at];
        c->is[i] = step->is[at] == FB_NONE ? FB_NONE : stays[step->is[at]];
        if (member) c->member[i] = c->last + member;
        if (member > most) most = member;
    }
    c->last += most;
    c->was = was;
}

static bool roll_once(chain *c, const fb_graph *given, finds *loops, finds *near, bool *found, fb_error *err)
{
    fb_arena *scratch = fb_arena_new();
    fb_roll_search s = search_of(c->now, scratch);
    fb_roll_run best;
    fb_rolled made = {0};
    fb_graph *to = NULL;
    bool ok = true;
    *found = find_best(&s, &best, c->arena, near);
    if (*found) {
        tell(&s, &best, NULL, false, c->arena, loops);
        ok = fb_roll_make(&s, &best, &made, err) && (to = fb_graph_canonical(made.graph, err));
    }
    if (ok && to) {
        fb_roll_find *f = &loops->at[loops->n - 1];
        f->node = c->was[f->node];
        follow(c, given, &made, to);
        if (c->now != given) fb_graph_free((fb_graph *)c->now);
        c->now = to;
    }
    if (made.graph) fb_graph_free(made.graph);
    fb_arena_free(scratch);
    return ok;
}

static fb_id *numbers(fb_arena *arena, int n)
{
    fb_id *ids = FB_NEW_ARRAY(arena, fb_id, n + 1);
    for (int i = 0; i < n; i++) ids[i] = i;
    return ids;
}

fb_roll *fb_graph_roll(const fb_graph *g, fb_error *err)
{
    FB_ASSERT(g->canonical);
    fb_arena *arena = fb_arena_new();
    fb_roll *r = FB_NEW(arena, fb_roll);
    chain c = {.now = g, .arena = arena};
    finds loops = {0}, near = {0};
    c.was = numbers(arena, g->n_nodes);
    c.is = numbers(arena, g->n_nodes);
    c.member = FB_NEW_ARRAY(arena, int, g->n_nodes + 1);
    bool ok = true;
    for (bool found = true; ok && found && loops.n < MOST_LOOPS;) ok = roll_once(&c, g, &loops, &near, &found, err);
    for (int i = 0; i < near.n; i++) {
        near.at[i].node = c.was[near.at[i].node];
        FB_VEC_PUSH(&loops, near.at[i]);
    }
    *r = (fb_roll){.arena = arena,
                   .graph = c.now == g ? NULL : (fb_graph *)c.now,
                   .n = loops.n,
                   .finds = fb_arena_copy(arena, loops.at, (size_t)loops.n * sizeof *loops.at),
                   .was = c.was,
                   .is = c.is,
                   .member = c.member};
    FB_VEC_FREE(&loops);
    FB_VEC_FREE(&near);
    if (ok) return r;
    fb_roll_free(r);
    return NULL;
}

void fb_roll_free(fb_roll *r)
{
    if (!r) return;
    if (r->graph) fb_graph_free(r->graph);
    fb_arena_free(r->arena);
}
