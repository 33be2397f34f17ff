/* Holding loops of two graphs against each other.
 *
 * What a body's nodes read is written down first: the node below the views, and where in it (`read_of`). Then a
 * one-to-one pairing of nodes is looked for, from the values that leave a step downwards (`solve`): operands in order,
 * or in any where the op does not mind. Colours, which say what a value is computed from as far as a few steps back,
 * keep the search short; what they allow is tried out. Where there is no pairing, one is looked for that asks less:
 * first not where things lie, then not in which order terms are added, then not what sizes they have. The first that is
 * found says what keeps the loops apart; else the sentences do (`tell_*`), from what a step computes. */
#include "graph/loop_compare.h"

#include "base/vec.h"
#include "graph/access.h"
#include "graph/build.h"
#include "graph/index.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 4, MOST_TRIED = 200000, MOST_NAMED = 4 };

/* What is asked of a pair: all; not where what is read lies; also not how sums are grouped; or neither sizes, dtypes
 * nor numbers. */
typedef enum { ASK_ALL, ASK_ANYWHERE, ASK_TERMS, ASK_SHAPELESS } asking;

/* What a node reads, or what leaves a step. */
typedef struct {
    fb_id base;  /* below the views */
    uint64_t at; /* where in it, for each place of the value */
    bool inside; /* `base` is computed or carried by the body */
    fb_shape shape;
    int state; /* what leaves a step: as which carried value; FB_NONE */
    int every; /* … collected: of so many steps the last; 0: not collected */
} reading;

typedef FB_VEC(reading) readings;

typedef struct {
    const fb_graph *g;
    const char *name;
    fb_id id;
    const fb_region *r;
    fb_arena *arena;
    fb_index_pool *pool;
    bool *inside;     /* a node: it is of the body, and no view */
    readings *reads;  /* a node of the body */
    readings leaves;  /* what goes out of a step */
    bool *is_leaving; /* a node */
    uint64_t *colour; /* a node of the body */
    int most_terms;   /* of one sum */
    fb_id sum;        /* that one */
    bool gave_up;     /* a search was too long */
} side;

/* ---- what a step reads ---- */

static bool is_inside(const side *s, fb_id id)
{
    return fb_region_within(s->g, s->g->nodes[id].region, s->id);
}

static bool is_own(const side *s, fb_id id, fb_op op)
{
    return s->g->nodes[id].op == op && s->g->nodes[id].region == s->id;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    const uint64_t both[2] = {a, b};
    return fb_digest(both, sizeof both);
}

/* Where in its base's memory an element lies, as text: equal for equal views, however they are written. */
static void add_place(const side *s, const fb_access *a, fb_str *out)
{
    fb_ix_print(s->pool, fb_access_offset(s->g, s->pool, a), false, out);
    for (int i = 0; i < a->n_guards; i++) {
        const fb_guard *guard = &a->guards[i];
        fb_str_addf(out, " %" PRId64 "<=", guard->low);
        fb_ix_print(s->pool, guard->at, false, out);
        fb_str_addf(out, "<%" PRId64 ":%a", guard->high, guard->otherwise);
    }
}

/* An item is a part of the tensor that is gone through: where that lies counts. */
static void add_place_of_item(const side *s, const fb_access *a, fb_ix step, fb_str *out)
{
    fb_ix coords[FB_MAX_RANK];
    fb_access whole;
    const fb_node *loop = &s->g->nodes[s->r->loop];
    coords[0] = step;
    for (int d = 0; d < a->rank && d + 1 < FB_MAX_RANK; d++) coords[d + 1] = a->coords[d];
    fb_access_at(s->g, s->pool, loop->args[s->r->n_carried + s->g->nodes[a->base].attrs->index], coords, &whole);
    add_place(s, &whole, out);
}

static reading read_of(const side *s, fb_id arg)
{
    static const char *const letters[FB_MAX_RANK] = {"i", "j", "k", "l", "m", "n", "o", "p"};
    reading r = {.shape = s->g->nodes[arg].shape, .state = FB_NONE};
    fb_ix step = fb_ix_var(s->pool, "t", s->r->trips), coords[FB_MAX_RANK];
    fb_access a;
    fb_str place = {0};
    for (int d = 0; d < r.shape.rank; d++) coords[d] = fb_ix_var(s->pool, letters[d], r.shape.dim[d]);
    fb_access_at(s->g, s->pool, arg, coords, &a);
    add_place(s, &a, &place);
    r.base = a.base;
    if (is_own(s, a.base, FB_OP_ITEM)) add_place_of_item(s, &a, step, &place);
    r.inside = is_inside(s, a.base) && !is_own(s, a.base, FB_OP_ITEM);
    const fb_op op = s->g->nodes[a.base].op;
    if (op == FB_OP_CONST || op == FB_OP_IOTA) r.inside = false;
    r.at = fb_digest(place.text, place.n);
    fb_str_free(&place);
    return r;
}

/* A loop inside the body reads what its steps yield, too. */
static void read_region(const side *s, const fb_region *r, readings *to)
{
    for (int i = 0; i < r->n_carried; i++) FB_VEC_PUSH(to, read_of(s, r->yields[i]));
    for (int i = 0; i < r->n_stacked; i++) FB_VEC_PUSH(to, read_of(s, r->stacked[i]));
}

static void read_leaving(side *s)
{
    const fb_region *r = s->r;
    for (int i = 0; i < r->n_carried + r->n_stacked; i++) {
        int k = i - r->n_carried;
        reading out = read_of(s, k < 0 ? r->yields[i] : r->stacked[k]);
        out.state = k < 0 ? i : FB_NONE;
        out.every = k < 0 ? 0 : (int)fb_region_every(r, k);
        FB_VEC_PUSH(&s->leaves, out);
    }
    for (fb_id i = 0; i < s->g->n_nodes; i++)
        if (s->g->nodes[i].region == s->id && fb_node_class(s->g, i) == FB_CLASS_EFFECT)
            FB_VEC_PUSH(&s->leaves, (reading){.base = i, .inside = true, .state = FB_NONE});
    for (int i = 0; i < s->leaves.n; i++) s->is_leaving[s->leaves.at[i].base] = true;
}

static void read_all(side *s)
{
    for (fb_id i = 0; i < s->g->n_nodes; i++) {
        const fb_node *n = &s->g->nodes[i];
        s->inside[i] = is_inside(s, i) && fb_node_class(s->g, i) != FB_CLASS_VIEW;
        if (!s->inside[i]) continue;
        for (int j = 0; j < n->n_args; j++) FB_VEC_PUSH(&s->reads[i], read_of(s, n->args[j]));
        if (n->op == FB_OP_LOOP) read_region(s, &s->g->regions[n->attrs->region], &s->reads[i]);
    }
    read_leaving(s);
}

static void drop_side(side *s)
{
    for (fb_id i = 0; i < s->g->n_nodes; i++) FB_VEC_FREE(&s->reads[i]);
    FB_VEC_FREE(&s->leaves);
    fb_index_pool_free(s->pool);
}

static side side_of(const fb_graph *g, const char *name, fb_id region, fb_arena *arena)
{
    size_t n = (size_t)g->n_nodes + 1;
    side s = {.g = g, .name = name, .id = region, .r = &g->regions[region], .arena = arena, .sum = FB_NONE};
    s.pool = fb_index_pool_new();
    s.inside = FB_NEW_ARRAY(arena, bool, n);
    s.is_leaving = FB_NEW_ARRAY(arena, bool, n);
    s.reads = FB_NEW_ARRAY(arena, readings, n);
    s.colour = FB_NEW_ARRAY(arena, uint64_t, n);
    read_all(&s);
    return s;
}

/* ---- sums as their terms ---- */

/* A sum that nothing but another one reads, as it is. */
static bool is_partial(const side *s, const reading *r)
{
    const fb_graph *g = s->g;
    bool alone = r->inside && g->user_start[r->base + 1] - g->user_start[r->base] == 1 && !s->is_leaving[r->base];
    return alone && g->nodes[r->base].op == FB_OP_ADD && fb_shape_equal(&g->nodes[r->base].shape, &r->shape) &&
           g->nodes[g->users[g->user_start[r->base]]].op == FB_OP_ADD;
}

static void add_terms(const side *s, const readings *of, readings *to)
{
    for (int i = 0; i < of->n; i++)
        if (is_partial(s, &of->at[i]))
            add_terms(s, &s->reads[of->at[i].base], to);
        else
            FB_VEC_PUSH(to, of->at[i]);
}

/* Sums that are part of others are read no more. */
static void take_sums_apart(side *s)
{
    for (fb_id i = s->g->n_nodes; i-- > 0;) { /* from the whole sums down: their parts come before them */
        if (!s->inside[i] || s->g->nodes[i].op != FB_OP_ADD) continue;
        readings terms = {0};
        add_terms(s, &s->reads[i], &terms);
        if (terms.n > s->most_terms) s->most_terms = terms.n, s->sum = i;
        FB_VEC_FREE(&s->reads[i]);
        s->reads[i] = terms;
    }
}

/* ---- colours ---- */

static uint64_t colour_of_shape(const fb_shape *s)
{
    return mix((uint64_t)s->rank, fb_digest(s->dim, (size_t)s->rank * sizeof *s->dim));
}

static uint64_t colour_of(const side *s, asking ask, const reading *r)
{
    const fb_node *n = &s->g->nodes[r->base];
    uint64_t c = r->inside ? s->colour[r->base] : mix(1, (uint64_t)(n->op == FB_OP_CONST || n->op == FB_OP_IOTA));
    if (ask != ASK_SHAPELESS) c = mix(c, colour_of_shape(&r->shape));
    if (ask == ASK_ALL || (ask != ASK_SHAPELESS && r->inside)) c = mix(c, r->at);
    return mix(c, (uint64_t)(2 * r->every + (r->state != FB_NONE)));
}

static uint64_t colour_of_node(const side *s, asking ask, fb_id id)
{
    const fb_node *n = &s->g->nodes[id];
    const readings *reads = &s->reads[id];
    uint64_t c = mix((uint64_t)n->op, (uint64_t)reads->n);
    bool any = fb_op_get(n->op)->any_order;
    if (ask != ASK_SHAPELESS) c = mix(mix(c, (uint64_t)n->dtype), colour_of_shape(&n->shape));
    uint64_t all = 0;
    for (int i = 0; i < reads->n; i++) {
        uint64_t one = colour_of(s, ask, &reads->at[i]);
        all = any ? all + one : mix(all, one);
    }
    return mix(c, all);
}

/* A carried value is first what it looks like, then what the step before made of it. */
static void colour(side *s, asking ask)
{
    const fb_graph *g = s->g;
    const fb_region *r = s->r;
    uint64_t *made = FB_NEW_ARRAY(s->arena, uint64_t, r->n_carried + 1);
    memset(s->colour, 0, (size_t)g->n_nodes * sizeof *s->colour);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; round && i < r->n_carried; i++) made[i] = colour_of(s, ask, &s->leaves.at[i]);
        for (int i = 0; round && i < r->n_carried; i++)
            if (r->carried[i] != FB_NONE) s->colour[r->carried[i]] = made[i];
        for (fb_id i = 0; i < g->n_nodes; i++)
            if (s->inside[i] && !(round && is_own(s, i, FB_OP_CARRIED))) s->colour[i] = colour_of_node(s, ask, i);
    }
}

/* ---- pairing ---- */

typedef struct {
    reading a, b;
} pair;

typedef struct {
    fb_id node[2]; /* outside, of each graph … */
    uint64_t at[2];
} outside_pair;

typedef struct {
    side *s[2];
    asking ask;
    fb_id *to[2];         /* a node of the one: that of the other, FB_NONE */
    int *state[2];        /* the same of carried values */
    FB_VEC(fb_id) paired; /* nodes of the first, in order */
    FB_VEC(outside_pair) outside;
    FB_VEC(pair) agenda;
    int64_t tried;
    fb_id differs[2]; /* the first pair that is one because less is asked; FB_NONE */
} pairing;

/* How far it was, to go back there. */
typedef struct {
    int paired, outside, agenda;
    fb_id differs[2];
} mark;

static mark mark_of(const pairing *p)
{
    return (mark){p->paired.n, p->outside.n, p->agenda.n, {p->differs[0], p->differs[1]}};
}

static void go_back(pairing *p, const mark *m)
{
    while (p->paired.n > m->paired) {
        fb_id a = p->paired.at[--p->paired.n];
        p->to[1][p->to[0][a]] = FB_NONE;
        p->to[0][a] = FB_NONE;
    }
    p->outside.n = m->outside;
    p->agenda.n = m->agenda;
    memcpy(p->differs, m->differs, sizeof p->differs);
}

static void differ(pairing *p, fb_id a, fb_id b)
{
    if (p->differs[0] != FB_NONE) return;
    p->differs[0] = a;
    p->differs[1] = b;
}

/* The same numbers and axes; which value of the loop it is, and which loop, stands elsewhere. */
static bool same_attrs(const fb_node *a, const fb_node *b)
{
    fb_attrs x = *a->attrs, y = *b->attrs;
    if (a->op == FB_OP_CARRIED || a->op == FB_OP_ITEM || a->op == FB_OP_LOOP)
        x.index = y.index = x.region = y.region = 0;
    return fb_attrs_equal(&x, &y);
}

static bool same_node(pairing *p, fb_id a, fb_id b)
{
    const fb_node *x = &p->s[0]->g->nodes[a], *y = &p->s[1]->g->nodes[b];
    if (x->op != y->op || p->s[0]->reads[a].n != p->s[1]->reads[b].n) return false;
    bool same = x->dtype == y->dtype && fb_shape_equal(&x->shape, &y->shape) && same_attrs(x, y);
    if (!same && p->ask == ASK_SHAPELESS) differ(p, a, b);
    return same || p->ask == ASK_SHAPELESS;
}

static bool same_const(pairing *p, const reading *a, const reading *b)
{
    const fb_node *x = &p->s[0]->g->nodes[a->base], *y = &p->s[1]->g->nodes[b->base];
    if (x->op != y->op) return false;
    if (p->ask == ASK_SHAPELESS) return true;
    return x->dtype == y->dtype && x->attrs->value == y->attrs->value && (x->op == FB_OP_CONST || a->at == b->at);
}

/* What stands outside is asked what it looks like from inside, and to be one thing wherever it is read. */
static bool meet_outside(pairing *p, const reading *a, const reading *b)
{
    const fb_node *x = &p->s[0]->g->nodes[a->base], *y = &p->s[1]->g->nodes[b->base];
    bool constant = x->op == FB_OP_CONST || x->op == FB_OP_IOTA || y->op == FB_OP_CONST || y->op == FB_OP_IOTA;
    if (constant) return same_const(p, a, b);
    if (is_own(p->s[0], a->base, FB_OP_ITEM) != is_own(p->s[1], b->base, FB_OP_ITEM)) return false;
    if (p->ask != ASK_SHAPELESS && x->dtype != y->dtype) return false;
    for (int i = 0; i < p->outside.n; i++) {
        const outside_pair *o = &p->outside.at[i];
        bool left = o->node[0] == a->base && o->at[0] == a->at, right = o->node[1] == b->base && o->at[1] == b->at;
        if (left || right) return left && right;
    }
    if (a->at != b->at && p->ask != ASK_SHAPELESS) differ(p, a->base, b->base);
    FB_VEC_PUSH(&p->outside, (outside_pair){{a->base, b->base}, {a->at, b->at}});
    return true;
}

/* `fresh`: they were no pair before, so that what they read must be paired. */
static bool meet(pairing *p, const reading *a, const reading *b, bool *fresh)
{
    *fresh = false;
    if (a->inside != b->inside || colour_of(p->s[0], p->ask, a) != colour_of(p->s[1], p->ask, b)) return false;
    if (!a->inside) return meet_outside(p, a, b);
    fb_id x = a->base, y = b->base;
    if (p->to[0][x] != FB_NONE || p->to[1][y] != FB_NONE) return p->to[0][x] == y;
    bool carried = is_own(p->s[0], x, FB_OP_CARRIED);
    if (!same_node(p, x, y) || carried != is_own(p->s[1], y, FB_OP_CARRIED)) return false;
    if (carried && p->state[0][p->s[0]->g->nodes[x].attrs->index] != p->s[1]->g->nodes[y].attrs->index) return false;
    p->to[0][x] = y;
    p->to[1][y] = x;
    FB_VEC_PUSH(&p->paired, x);
    *fresh = true;
    return true;
}

static bool solve(pairing *p, int at);

static void set_state(pairing *p, const reading *a, const reading *b, bool on)
{
    if (a->state == FB_NONE || b->state == FB_NONE) return;
    p->state[0][a->state] = on ? b->state : FB_NONE;
    p->state[1][b->state] = on ? a->state : FB_NONE;
}

/* Each of these of the first with one of the second, from the k-th on; then the rest of the agenda. */
static bool choose(pairing *p, const readings *a, const readings *b, int k, bool *used, int at)
{
    if (k == a->n) return solve(p, at);
    for (int j = 0; j < b->n && p->tried < MOST_TRIED; j++) {
        const reading *x = &a->at[k], *y = &b->at[j];
        if (used[j] || colour_of(p->s[0], p->ask, x) != colour_of(p->s[1], p->ask, y)) continue;
        mark m = mark_of(p);
        used[j] = true;
        set_state(p, x, y, true);
        FB_VEC_PUSH(&p->agenda, (pair){*x, *y});
        if (choose(p, a, b, k + 1, used, at)) return true;
        set_state(p, x, y, false);
        used[j] = false;
        go_back(p, &m);
    }
    return false;
}

static bool solve(pairing *p, int at)
{
    for (; at < p->agenda.n; at++) {
        pair now = p->agenda.at[at];
        bool fresh;
        if (++p->tried > MOST_TRIED || !meet(p, &now.a, &now.b, &fresh)) return false;
        if (!fresh) continue;
        const readings *a = &p->s[0]->reads[now.a.base], *b = &p->s[1]->reads[now.b.base];
        if (fb_op_get(p->s[0]->g->nodes[now.a.base].op)->any_order)
            return choose(p, a, b, 0, FB_NEW_ARRAY(p->s[0]->arena, bool, b->n + 1), at + 1);
        for (int i = 0; i < a->n; i++) FB_VEC_PUSH(&p->agenda, (pair){a->at[i], b->at[i]});
    }
    return true;
}

static fb_id *no_ids(fb_arena *arena, int n)
{
    fb_id *ids = FB_NEW_ARRAY(arena, fb_id, n + 1);
    for (int i = 0; i <= n; i++) ids[i] = FB_NONE;
    return ids;
}

/* Is there a pairing? `differs`: two that are paired because no more was asked, FB_NONE. */
static bool pairs(side *a, side *b, asking ask, fb_id differs[2])
{
    pairing p = {.s = {a, b}, .ask = ask, .differs = {FB_NONE, FB_NONE}};
    if (a->leaves.n != b->leaves.n || a->r->n_carried != b->r->n_carried) return false;
    for (int i = 0; i < 2; i++) {
        p.to[i] = no_ids(a->arena, p.s[i]->g->n_nodes);
        p.state[i] = no_ids(a->arena, p.s[i]->r->n_carried);
        colour(p.s[i], ask);
    }
    bool found = choose(&p, &a->leaves, &b->leaves, 0, FB_NEW_ARRAY(a->arena, bool, b->leaves.n + 1), 0);
    memcpy(differs, p.differs, sizeof p.differs);
    a->gave_up |= p.tried > MOST_TRIED;
    FB_VEC_FREE(&p.paired);
    FB_VEC_FREE(&p.outside);
    FB_VEC_FREE(&p.agenda);
    return found;
}

/* ---- telling ---- */

static void because(fb_loops *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void because(fb_loops *out, const char *format, ...)
{
    if (out->n == FB_LOOPS_REASONS) return;
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(out->why[out->n], sizeof out->why[0], format, ap);
    va_end(ap);
    if (n >= (int)sizeof out->why[0]) fb_trim_partial(out->why[out->n]);
    out->n++;
}

static const char *node_name(const side *s, fb_id id)
{
    return s->g->nodes[id].name;
}

/* An item by the tensor that is gone through. */
static const char *outer_name(const side *s, fb_id id)
{
    const fb_node *loop = &s->g->nodes[s->r->loop];
    if (!is_own(s, id, FB_OP_ITEM)) return node_name(s, id);
    return node_name(s, fb_access_base(s->g, loop->args[s->r->n_carried + s->g->nodes[id].attrs->index]));
}

typedef struct {
    fb_id node;
    int64_t rows; /* of all its batches */
    int64_t inner, columns;
    bool waits; /* for what goes from step to step */
    bool matched;
} product;

typedef FB_VEC(product) products;

static product product_of(const fb_graph *g, fb_id id)
{
    fb_contraction c = fb_contraction_of(g, id);
    return (product){.node = id, .rows = c.batch * c.rows, .inner = c.depth, .columns = c.columns};
}

static void list_products(const side *s, products *to)
{
    bool *waits = FB_NEW_ARRAY(s->arena, bool, s->g->n_nodes + 1);
    for (fb_id i = 0; i < s->g->n_nodes; i++) {
        if (!s->inside[i]) continue;
        waits[i] = s->g->nodes[i].op == FB_OP_CARRIED;
        for (int k = 0; k < s->reads[i].n; k++) waits[i] |= waits[s->reads[i].at[k].base];
        if (s->g->nodes[i].op != FB_OP_MATMUL) continue;
        product p = product_of(s->g, i);
        p.waits = waits[i];
        FB_VEC_PUSH(to, p);
    }
}

static void add_product(const fb_graph *g, const product *p, fb_str *out)
{
    const fb_node *n = &g->nodes[p->node];
    char a[192], b[192];
    fb_str_addf(out, "%s×%s", fb_shape_format(&g->nodes[n->args[0]].shape, FB_DTYPES, a),
                fb_shape_format(&g->nodes[n->args[1]].shape, FB_DTYPES, b));
}

static void add_products(const side *s, const products *all, fb_str *out)
{
    fb_str_addf(out, "%d", all->n);
    for (int i = 0; i < all->n && i < MOST_NAMED; i++) {
        fb_str_add(out, i ? " and " : " of ");
        add_product(s->g, &all->at[i], out);
    }
    if (all->n > MOST_NAMED) fb_str_addf(out, " and %d more", all->n - MOST_NAMED);
    fb_str_addf(out, " in %s", s->name);
}

static bool alike(const product *p, const product *q)
{
    return p->rows == q->rows && p->inner == q->inner && p->columns == q->columns && p->waits == q->waits;
}

/* Which nodes around the loop make what it goes through step by step, or are made of what it gives; other loops in
 * between end it. */
static bool *beside_loop(const side *s, bool before)
{
    const fb_graph *g = s->g;
    const fb_node *loop = &g->nodes[s->r->loop];
    bool *is = FB_NEW_ARRAY(s->arena, bool, g->n_nodes + 1);
    for (int k = s->r->n_carried; before && k < loop->n_args; k++) is[loop->args[k]] = true;
    for (fb_id i = s->r->loop; before && i-- > 0;)
        for (int j = 0; is[i] && fb_node_class(g, i) != FB_CLASS_CONTROL && j < g->nodes[i].n_args; j++)
            is[g->nodes[i].args[j]] = true;
    for (fb_id i = before ? g->n_nodes : s->r->loop + 1; i < g->n_nodes; i++) {
        const fb_node *n = &g->nodes[i];
        if (n->op == FB_OP_RESULT) is[i] = n->args[0] == s->r->loop;
        for (int j = 0; fb_node_class(g, i) != FB_CLASS_CONTROL && j < n->n_args; j++) is[i] |= is[n->args[j]];
    }
    return is;
}

/* The product outside the loop that is `p` of all steps; FB_NONE. `p` gives its items, where it waits for no step, or
 * is made of what steps give: as many rows, or summed over as many. */
static fb_id of_all_steps(const side *s, const product *p)
{
    const bool *before = beside_loop(s, true), *after = beside_loop(s, false);
    for (fb_id i = 0; i < s->g->n_nodes && p->rows && p->inner && p->columns; i++) {
        if (s->g->nodes[i].op != FB_OP_MATMUL || s->g->nodes[i].region != s->r->parent) continue;
        if (!after[i] && (!before[i] || p->waits)) continue;
        product o = product_of(s->g, i);
        bool rows = o.inner == p->inner && o.rows % p->rows == 0 && o.rows / p->rows >= s->r->trips;
        bool sums = after[i] && o.rows == p->rows && o.inner % p->inner == 0 && o.inner / p->inner >= s->r->trips;
        if (o.columns == p->columns && (rows || sums)) return i;
    }
    return FB_NONE;
}

/* `node` of `other`, outside of its loop, is the product `p` of `s`, or a part of it. */
static void tell_outside(fb_loops *out, const side *s, const product *p, bool part, const side *other, fb_id node)
{
    fb_str text = {0};
    product all = product_of(other->g, node);
    add_product(other->g, &all, &text);
    const char *where = node < other->r->loop ? "before" : "after", *own = node_name(s, p->node);
    if (part)
        because(out, "a part of `%s` in %s stands %s the loop in %s, for all steps at once: `%s`, %s", own, s->name,
                where, other->name, node_name(other, node), fb_str_get(&text));
    else
        because(out, "`%s` in %s stands %s the loop in %s, for all steps at once: `%s`, %s", own, s->name, where,
                other->name, node_name(other, node), fb_str_get(&text));
    fb_str_free(&text);
}

/* What one side alone multiplies in a step: taken out of the other's loop, whole or as a part, or put together. */
static void tell_one_product(fb_loops *out, const side *s, const product *p, const side *other, const products *theirs)
{
    fb_id outside = of_all_steps(other, p);
    bool joined = s->g->nodes[s->reads[p->node].at[0].base].op == FB_OP_CAT;
    if (outside != FB_NONE) {
        tell_outside(out, s, p, false, other, outside);
        return;
    }
    product rest = *p;
    int parts = 0;
    for (int i = 0; i < theirs->n; i++) {
        const product *q = &theirs->at[i];
        if (q->matched || q->rows != p->rows || q->columns != p->columns) continue;
        rest.inner -= q->inner;
        parts++;
    }
    if (joined && parts > 1 && rest.inner == 0)
        because(out, "`%s` in %s is those %d of %s in one, side by side", node_name(s, p->node), s->name, parts,
                other->name);
    rest.waits = false; /* the part that does not */
    outside = joined && parts == 1 && rest.inner > 0 ? of_all_steps(other, &rest) : FB_NONE;
    if (outside != FB_NONE) tell_outside(out, s, p, true, other, outside);
}

static bool tell_products(fb_loops *out, side *s[2])
{
    products all[2] = {{0}};
    fb_str text = {0};
    bool differ = false;
    for (int k = 0; k < 2; k++) list_products(s[k], &all[k]);
    for (int i = 0; i < all[0].n; i++)
        for (int j = 0; j < all[1].n && !all[0].at[i].matched; j++)
            if (!all[1].at[j].matched && alike(&all[0].at[i], &all[1].at[j]))
                all[0].at[i].matched = all[1].at[j].matched = true;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < all[k].n; i++) differ |= !all[k].at[i].matched;
    if (differ) {
        add_products(s[0], &all[0], &text);
        fb_str_add(&text, ", ");
        add_products(s[1], &all[1], &text);
        because(out, "products a step: %s", fb_str_get(&text));
    }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < all[k].n; i++)
            if (!all[k].at[i].matched) tell_one_product(out, s[k], &all[k].at[i], s[1 - k], &all[1 - k]);
    for (int k = 0; k < 2; k++) FB_VEC_FREE(&all[k]);
    fb_str_free(&text);
    return differ;
}

/* How often each op is computed in a step. */
static bool tell_operations(fb_loops *out, side *s[2])
{
    int count[2][FB_OPS] = {{0}}, told = 0;
    fb_str text = {0};
    for (int k = 0; k < 2; k++)
        for (fb_id i = 0; i < s[k]->g->n_nodes; i++)
            if (s[k]->inside[i] && fb_node_class(s[k]->g, i) != FB_CLASS_SOURCE) count[k][s[k]->g->nodes[i].op]++;
    for (int op = 0; op < FB_OPS; op++) {
        if (count[0][op] == count[1][op] || op == FB_OP_MATMUL) continue;
        if (told++ < MOST_NAMED)
            fb_str_addf(&text, "%s%d and %d %s", told > 1 ? ", " : "", count[0][op], count[1][op],
                        fb_op_get((fb_op)op)->name);
    }
    if (told > MOST_NAMED) fb_str_addf(&text, ", and %d more that differ", told - MOST_NAMED);
    if (told) because(out, "operations a step, in %s and %s: %s", s[0]->name, s[1]->name, fb_str_get(&text));
    fb_str_free(&text);
    return told > 0;
}

static bool tell_values(fb_loops *out, side *s[2])
{
    const fb_region *a = s[0]->r, *b = s[1]->r;
    if (a->n_carried != b->n_carried)
        because(out, "from step to step go %d value%s in %s, %d in %s", a->n_carried, a->n_carried == 1 ? "" : "s",
                s[0]->name, b->n_carried, s[1]->name);
    if (a->n_stacked != b->n_stacked)
        because(out, "of each step are kept %d value%s in %s, %d in %s", a->n_stacked, a->n_stacked == 1 ? "" : "s",
                s[0]->name, b->n_stacked, s[1]->name);
    return a->n_carried != b->n_carried || a->n_stacked != b->n_stacked;
}

/* The first node of `s` that no node of the other is like; FB_NONE. */
static fb_id first_unlike(const side *s, const side *other)
{
    for (fb_id i = 0; i < s->g->n_nodes; i++) {
        bool found = !s->inside[i] || fb_node_class(s->g, i) == FB_CLASS_SOURCE;
        for (fb_id k = 0; k < other->g->n_nodes && !found; k++)
            found = other->inside[k] && other->colour[k] == s->colour[i];
        if (!found) return i;
    }
    return FB_NONE;
}

static void tell_wiring(fb_loops *out, side *s[2])
{
    for (int k = 0; k < 2; k++) colour(s[k], ASK_ANYWHERE);
    fb_id a = first_unlike(s[0], s[1]), b = first_unlike(s[1], s[0]);
    if (a != FB_NONE && b != FB_NONE)
        because(out, "the same operations on other values, from `%s` in %s and `%s` in %s on", node_name(s[0], a),
                s[0]->name, node_name(s[1], b), s[1]->name);
    else
        because(out, "the same operations, put together in another way");
}

static void tell_size(fb_loops *out, side *s[2], const fb_id node[2])
{
    char text[2][192];
    const fb_node *n[2];
    for (int k = 0; k < 2; k++) {
        n[k] = &s[k]->g->nodes[node[k]];
        fb_shape_format(&n[k]->shape, n[k]->dtype, text[k]);
    }
    if (strcmp(text[0], text[1]) == 0)
        because(out, "the same operations with other numbers or axes: `%s` in %s, `%s` in %s", n[0]->name, s[0]->name,
                n[1]->name, s[1]->name);
    else
        because(out, "the same operations in another size: `%s` is %s in %s, `%s` %s in %s", n[0]->name, text[0],
                s[0]->name, n[1]->name, text[1], s[1]->name);
}

/* ---- one loop and one ---- */

static fb_loops_is apart(fb_loops *out, side *s[2])
{
    fb_id differs[2];
    if (pairs(s[0], s[1], ASK_SHAPELESS, differs) && differs[0] != FB_NONE) {
        tell_size(out, s, differs);
        return FB_LOOPS_APART;
    }
    if (s[0]->gave_up) {
        because(out, "too many operations are alike to try all of them against each other");
        return FB_LOOPS_APART;
    }
    bool told = tell_values(out, s);
    told |= tell_products(out, s);
    told |= tell_operations(out, s);
    if (!told) tell_wiring(out, s);
    return FB_LOOPS_APART;
}

static fb_loops_is body_against(fb_loops *out, side *s[2])
{
    fb_id differs[2];
    if (pairs(s[0], s[1], ASK_ALL, differs)) return FB_LOOPS_SAME;
    if (pairs(s[0], s[1], ASK_ANYWHERE, differs)) {
        because(out, "`%s` in %s and `%s` in %s lie otherwise in memory", outer_name(s[0], differs[0]), s[0]->name,
                outer_name(s[1], differs[1]), s[1]->name);
        return FB_LOOPS_LAID;
    }
    for (int k = 0; k < 2; k++) take_sums_apart(s[k]);
    if (pairs(s[0], s[1], ASK_TERMS, differs)) {
        const side *most = s[0]->most_terms > 2 ? s[0] : s[1];
        because(out, "the %d terms of `%s` are added up in another order in %s", most->most_terms,
                node_name(most, most->sum), most == s[0] ? s[1]->name : s[0]->name);
        return FB_LOOPS_SUMMED;
    }
    for (int k = 0; k < 2; k++) { /* as they were */
        bool gave_up = s[k]->gave_up;
        drop_side(s[k]);
        *s[k] = side_of(s[k]->g, s[k]->name, s[k]->id, s[k]->arena);
        s[k]->gave_up = gave_up;
    }
    return apart(out, s);
}

static fb_loops_is loop_against(fb_loops *out, side *s[2])
{
    const fb_region *a = s[0]->r, *b = s[1]->r;
    int before = out->n;
    fb_loops_is is = body_against(out, s);
    if (a->trips == b->trips && a->backwards == b->backwards) return is;
    if (out->n == before) because(out, "a step is the same");
    if (a->trips != b->trips)
        because(out, "%lld steps in %s, %lld in %s", (long long)a->trips, s[0]->name, (long long)b->trips, s[1]->name);
    if (a->backwards != b->backwards)
        because(out, "%s goes from the last step to the first", a->backwards ? s[0]->name : s[1]->name);
    return FB_LOOPS_APART;
}

/* ---- all of them ---- */

/* The k-th loop that is in none; 0: there are no more. */
static fb_id loop_at(const fb_graph *g, int k)
{
    for (fb_id i = 1; i < g->n_regions; i++)
        if (g->regions[i].parent == 0 && k-- == 0) return i;
    return 0;
}

/* Which loop the reasons from `first` on speak of. */
static void number_reasons(fb_loops *out, int first, int loop)
{
    char why[sizeof out->why[0]];
    for (int i = first; i < out->n; i++) {
        memcpy(why, out->why[i], sizeof why);
        snprintf(out->why[i], sizeof why, "loop %d: %.*s", loop, (int)sizeof why - 24, why);
        fb_trim_partial(out->why[i]);
    }
}

static int loops_of(const fb_graph *g)
{
    int n = 0;
    while (loop_at(g, n)) n++;
    return n;
}

bool fb_graph_has_loop(const fb_graph *g)
{
    return loop_at(g, 0) != 0;
}

void fb_loops_compare(const fb_graph *a, const char *name_a, const fb_graph *b, const char *name_b, fb_loops *out)
{
    int n[2] = {loops_of(a), loops_of(b)};
    *out = (fb_loops){.is = n[0] && n[1] ? FB_LOOPS_SAME : FB_LOOPS_NONE};
    if (!n[0] && !n[1]) because(out, "neither has a loop");
    if (!n[0] != !n[1]) because(out, "%s has no loop", n[0] ? name_b : name_a);
    if (out->is == FB_LOOPS_NONE) return;
    for (int k = 0; k < n[0] && k < n[1]; k++) {
        fb_arena *arena = fb_arena_new();
        side of[2] = {side_of(a, name_a, loop_at(a, k), arena), side_of(b, name_b, loop_at(b, k), arena)};
        int before = out->n;
        fb_loops_is is = loop_against(out, (side *[2]){&of[0], &of[1]});
        if (is > out->is) out->is = is;
        if (n[0] > 1 || n[1] > 1) number_reasons(out, before, k + 1);
        for (int i = 0; i < 2; i++) drop_side(&of[i]);
        fb_arena_free(arena);
    }
    if (n[0] != n[1]) {
        because(out, "%d loop%s in %s, %d in %s", n[0], n[0] == 1 ? "" : "s", name_a, n[1], name_b);
        out->is = FB_LOOPS_APART;
    }
}

const char *fb_loops_name(fb_loops_is is)
{
    static const char *const name[] = {"none", "same", "laid", "summed", "apart"};
    return name[is];
}

void fb_loops_says(const fb_loops *l, fb_str *out)
{
    static const char *const says[] = {"", "the same loop", "the same loop, but ",
                                       "the same loop but for rounding: ", "not the same loop: "};
    fb_str_add(out, says[l->is]);
    for (int i = 0; i < l->n; i++) fb_str_addf(out, "%s%s", i ? "; " : "", l->why[i]);
}
