/* Tiled nests (family gemm): contractions that stay on chip, with what is done to their operands and results.
 *
 * requires  nodes with at least one contraction that needs no other one of them
 * provides  before the sections: the products, which sections read as loads; after: the strips of a tile, the phases in
 *           which they are accumulated, and a section for each operand
 *
 * Products that are only added to each other are summed in one strip, `x W + s (u A)` as well: what was summed before
 * is multiplied by the ratio of the factors when a phase begins.
 */
#include "nest/build.h"

#include <math.h>
#include <string.h>

enum { MAX_PRODUCTS = 32, MAX_STRIPS = 8 };

/* A product as one summand of a strip. */
typedef struct {
    fb_val load, anchor; /* the load that it was, and the one that stands for the sum */
    int product;
    double factor;
    fb_ix at; /* within a row of the product */
} term;

typedef FB_VEC(term) terms;

typedef struct {
    fb_val load, child; /* the summand: the load, or its product with a constant */
    double factor;
} leaf;

typedef struct {
    fb_builder *b;
    fb_section *s;
    int *uses;
    bool *seen, *removed;
    fb_val *alias;
    FB_VEC(leaf) leaves; /* of one sum */
    terms terms;
} summing;

static const fb_node *node_of(const fb_builder *b, fb_id id)
{
    return &b->nest->graph->nodes[id];
}

static bool refuse_pair(fb_builder *b, fb_id one, fb_id other, const char *what)
{
    return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION, "`%s` and `%s` %s", node_of(b, one)->name,
                             node_of(b, other)->name, what);
}

/* ---- before the sections ---- */

/* Marks what is made of a contraction of the group, contractions included; ascending ids are a topological order. */
static void mark_made(const fb_builder *b, bool *made, bool *of_product)
{
    const fb_graph *g = b->nest->graph;
    for (int i = 0; i < b->nest->kernel.n_nodes; i++) {
        fb_id id = b->nest->kernel.nodes[i];
        bool from = false;
        for (int k = 0; k < g->nodes[id].n_args; k++) {
            fb_id base = fb_access_base(g, g->nodes[id].args[k]);
            from |= made[base];
        }
        of_product[id] = from;
        made[id] = from || fb_node_class(g, id) == FB_CLASS_CONTRACTION;
    }
}

static bool same_rows(const fb_shape *a, const fb_shape *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, (size_t)(a->rank - 1) * sizeof *a->dim) == 0;
}

bool fb_tiled_begin(fb_builder *b)
{
    fb_nest *nest = b->nest;
    const fb_graph *g = nest->graph;
    bool *made = FB_NEW_ARRAY(b->scratch, bool, g->n_nodes), *of_product = FB_NEW_ARRAY(b->scratch, bool, g->n_nodes);
    fb_tiled *t = FB_NEW(nest->arena, fb_tiled);
    t->products = FB_NEW_ARRAY(nest->arena, fb_product, MAX_PRODUCTS);
    mark_made(b, made, of_product);
    for (int i = 0; i < nest->kernel.n_contractions; i++) {
        fb_id id = nest->kernel.contractions[i];
        const fb_node *n = &g->nodes[id];
        if (of_product[id]) continue;
        if (t->n_products == MAX_PRODUCTS)
            return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                     "`%s` would be one product more than the %d that one kernel can add up", n->name,
                                     MAX_PRODUCTS);
        fb_contraction c = fb_contraction_of(g, id),
                       head = t->n_products ? fb_contraction_of(g, t->products[0].node) : c;
        const fb_node *first = node_of(b, head.node);
        if (!same_rows(&n->shape, &first->shape))
            return fb_builder_refuse(
                b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                "`%s` has %lld rows and `%s` has %lld, or other batches: one tile cannot hold parts of both",
                first->name, (long long)(head.batch * head.rows), n->name, (long long)(c.batch * c.rows));
        if (n->dtype != first->dtype || n->attrs->precision != first->attrs->precision)
            return refuse_pair(b, t->products[0].node, id, "are multiplied in different dtypes or precisions");
        t->products[t->n_products++] = (fb_product){.node = id, .k = c.depth, .columns = c.columns};
        if (!fb_shape_elements(&n->shape) || !c.depth)
            return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION, "`%s` multiplies nothing",
                                     n->name);
    }
    if (!t->n_products)
        return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION, "there is no product to tile");
    const fb_node *first = node_of(b, t->products[0].node);
    t->dtype = first->dtype;
    t->precision = first->attrs->precision;
    t->units = b->machine->units;
    t->shared_bytes = b->machine->shared_bytes;
    t->capability = b->machine->compute_major;
    nest->tiled = t;
    return true;
}

/* ---- sums of products ---- */

static int product_of(const summing *w, fb_val v)
{
    const fb_tiled *t = w->b->nest->tiled;
    const fb_value *x = &w->s->values[v];
    for (int i = 0; i < t->n_products && x->kind == FB_VALUE_LOAD; i++)
        if (t->products[i].node == x->node) return i;
    return FB_NONE;
}

static bool is_op(const summing *w, fb_val v, fb_op op)
{
    const fb_value *x = &w->s->values[v];
    return x->kind == FB_VALUE_OP && w->b->nest->graph->nodes[x->node].op == op && fb_dtype_is_float(x->dtype);
}

static void count_uses(summing *w)
{
    const fb_section *s = w->s;
    for (int i = 0; i < s->n_values; i++)
        for (int a = 0; a < s->values[i].n_args; a++) w->uses[s->values[i].args[a]]++;
    for (int i = 0; i < s->n_roots; i++) w->uses[s->roots[i].value]++;
    for (int i = 0; i < s->n_data; i++) w->uses[s->data[i].value]++;
}

/* Summands of `v` that are products, each read nowhere else. */
static void collect(summing *w, fb_val v, bool top)
{
    enum { SMALL = -20, LARGE = 20 }; /* exponents of factors that lose nothing of a sum */
    const fb_value *x = &w->s->values[v];
    if (!top && w->uses[v] != 1) return;
    if (product_of(w, v) != FB_NONE) {
        FB_VEC_PUSH(&w->leaves, (leaf){v, v, 1});
    } else if (is_op(w, v, FB_OP_MUL) && !top) {
        for (int a = 0; a < 2; a++) {
            fb_val load = x->args[a];
            const fb_value *by = &w->s->values[x->args[1 - a]];
            if (by->kind != FB_VALUE_CONST || product_of(w, load) == FB_NONE || w->uses[load] != 1) continue;
            if (isfinite(by->number) && by->number != 0 && ilogb(by->number) > SMALL && ilogb(by->number) < LARGE)
                FB_VEC_PUSH(&w->leaves, (leaf){load, v, by->number});
        }
    } else if (is_op(w, v, FB_OP_ADD)) {
        w->seen[v] = true;
        collect(w, x->args[0], false);
        collect(w, x->args[1], false);
    }
}

/* Where in its row a product is read; FB_NONE never: nest.c has seen to it that rows are the section's own. */
static fb_ix in_row(const summing *w, fb_val load)
{
    fb_index_pool *pool = w->b->nest->pool;
    int64_t stride;
    fb_ix at = w->s->values[load].at, rest = at;
    if (w->s->blocked) FB_ASSERT(fb_ix_stride(pool, at, w->s->rows.var[0], &stride, &rest));
    return rest;
}

static int loads_of_products(const summing *w)
{
    int n = 0;
    for (int i = 0; i < w->s->n_values; i++) n += product_of(w, i) != FB_NONE;
    return n;
}

static void add_term(summing *w, fb_val load, fb_val anchor, double factor)
{
    FB_VEC_PUSH(&w->terms, (term){load, anchor, product_of(w, load), factor, in_row(w, load)});
}

/* One sum: its summands join the first that has no factor. Factors need the accumulators for themselves. */
static void join_sum(summing *w, bool may_scale)
{
    const leaf *anchor = NULL;
    for (int i = 0; i < w->leaves.n && !anchor; i++)
        if (w->leaves.at[i].factor == 1) anchor = &w->leaves.at[i];
    for (int i = 0; i < w->leaves.n && anchor; i++) {
        const leaf *l = &w->leaves.at[i];
        const fb_tiled *t = w->b->nest->tiled;
        bool apart = t->whole &&
                     (in_row(w, l->load) != in_row(w, anchor->load) ||
                      t->products[product_of(w, l->load)].columns != t->products[product_of(w, anchor->load)].columns);
        if (l == anchor || apart || (l->factor != 1 && !may_scale)) continue;
        add_term(w, l->load, anchor->load, l->factor);
        w->removed[l->child] = w->removed[l->load] = true;
    }
}

/* Additions of what went elsewhere are their other operand. */
static void take_removed_out(summing *w)
{
    fb_section *s = w->s;
    for (int i = 0; i < s->n_values; i++) {
        fb_value *v = &s->values[i];
        w->alias[i] = i;
        if (is_op(w, i, FB_OP_ADD)) {
            fb_val x = v->args[0], y = v->args[1];
            if (w->removed[x] && w->removed[y])
                w->removed[i] = true;
            else if (w->removed[x] || w->removed[y])
                w->alias[i] = w->alias[w->removed[x] ? y : x];
        }
        for (int a = 0; a < v->n_args; a++) v->args[a] = w->alias[v->args[a]];
    }
    for (int i = 0; i < s->n_roots; i++) s->roots[i].value = w->alias[s->roots[i].value];
    for (int i = 0; i < s->n_data; i++) s->data[i].value = w->alias[s->data[i].value];
}

static void mark_live(const fb_section *s, fb_val v, bool *live)
{
    if (live[v]) return;
    live[v] = true;
    for (int a = 0; a < s->values[v].n_args; a++) mark_live(s, s->values[v].args[a], live);
}

/* Values that nobody reads any longer go; the others move up. */
static void compact(summing *w)
{
    fb_section *s = w->s;
    bool *live = FB_NEW_ARRAY(w->b->scratch, bool, s->n_values);
    fb_val *now = FB_NEW_ARRAY(w->b->scratch, fb_val, s->n_values);
    for (int i = 0; i < s->n_roots; i++) mark_live(s, s->roots[i].value, live);
    for (int i = 0; i < s->n_data; i++) mark_live(s, s->data[i].value, live);
    int n = 0;
    for (int i = 0; i < s->n_values; i++) {
        if (!live[i]) continue;
        now[i] = n;
        fb_value v = s->values[i];
        for (int a = 0; a < v.n_args; a++) v.args[a] = now[v.args[a]];
        s->values[n++] = v;
    }
    s->n_values = n;
    for (int i = 0; i < s->n_roots; i++) s->roots[i].value = now[s->roots[i].value];
    for (int i = 0; i < s->n_data; i++) s->data[i].value = now[s->data[i].value];
    for (int i = 0; i < w->terms.n; i++) w->terms.at[i].anchor = now[w->terms.at[i].anchor];
}

/* Of a tile that holds whole rows one strip serves all loads of a product. */
static bool is_summed(const summing *w, fb_val load)
{
    bool known = false;
    for (int i = 0; i < w->terms.n && w->b->nest->tiled->whole; i++)
        known |= w->terms.at[i].product == product_of(w, load);
    return known;
}

static void sum_products(summing *w)
{
    int n = w->s->n_values, loads = loads_of_products(w);
    w->uses = FB_NEW_ARRAY(w->b->scratch, int, n);
    w->seen = FB_NEW_ARRAY(w->b->scratch, bool, n);
    w->removed = FB_NEW_ARRAY(w->b->scratch, bool, n);
    w->alias = FB_NEW_ARRAY(w->b->scratch, fb_val, n);
    count_uses(w);
    /* a whole tile has one strip a product, wherever it is read */
    bool may_join = !w->b->nest->tiled->whole || loads == w->b->nest->tiled->n_products;
    for (int v = n - 1; v >= 0 && may_join; v--) {
        if (!is_op(w, v, FB_OP_ADD) || w->seen[v]) continue;
        w->leaves.n = 0;
        collect(w, v, true);
        if (w->leaves.n > 1) join_sum(w, w->leaves.n == loads);
    }
    for (int v = 0; v < n; v++)
        if (product_of(w, v) != FB_NONE && !w->removed[v] && !is_summed(w, v)) add_term(w, v, v, 1);
    take_removed_out(w);
    compact(w);
}

/* ---- strips ---- */

/* The column of the section's elements, counted through its variables behind the row. */
static fb_ix column_of(const fb_builder *b, const fb_section *s, int64_t *columns)
{
    int from = s->blocked;
    *columns = 1;
    for (int d = from; d < s->rows.n; d++) *columns *= s->rows.extent[d];
    return fb_ix_ravel(b->nest->pool, s->rows.n - from, s->rows.extent + from, s->rows.var + from);
}

/* Are all products read at their own column plus a constant? */
static bool reads_own_column(const fb_builder *b, const summing *w)
{
    int64_t columns, offset;
    fb_ix own = column_of(b, w->s, &columns);
    if (w->s->n_passes) return false;
    for (int v = 0; v < w->s->n_values; v++) {
        if (product_of(w, v) == FB_NONE) continue;
        fb_ix shift = fb_ix_sub(b->nest->pool, in_row(w, v), own);
        if (!fb_ix_is_const(b->nest->pool, shift, &offset) || w->s->values[v].when != FB_NONE) return false;
    }
    return true;
}

/* Numbers strips by product and column, so that those of one product are steps along it. */
static void order_strips(fb_builder *b, const summing *w)
{
    fb_tiled *t = b->nest->tiled;
    fb_val load[MAX_STRIPS];
    int64_t columns, offset[MAX_STRIPS];
    fb_ix own = column_of(b, w->s, &columns);
    for (int v = 0, n = 0; v < w->s->n_values && !t->whole; v++) {
        if (t->strip_of[v] == FB_NONE) continue;
        int64_t at = 0;
        FB_ASSERT(fb_ix_is_const(b->nest->pool, fb_ix_sub(b->nest->pool, in_row(w, v), own), &at));
        int i = n++;
        for (; i > 0; i--) {
            int before = product_of(w, load[i - 1]), product = product_of(w, v);
            if (before < product || (before == product && offset[i - 1] < at)) break;
            load[i] = load[i - 1];
            offset[i] = offset[i - 1];
        }
        load[i] = v;
        offset[i] = at;
        for (int k = 0; k < n; k++) t->strip_of[load[k]] = k;
    }
}

static bool make_strips(fb_builder *b, const summing *w)
{
    fb_tiled *t = b->nest->tiled;
    t->strip_of = FB_NEW_ARRAY(b->nest->arena, int, w->s->n_values);
    int *of_product = FB_NEW_ARRAY(b->scratch, int, t->n_products);
    for (int i = 0; i < t->n_products; i++) of_product[i] = FB_NONE;
    for (int v = 0; v < w->s->n_values; v++) {
        int product = product_of(w, v);
        t->strip_of[v] = FB_NONE;
        if (product == FB_NONE) continue;
        if (w->s->values[v].when != FB_NONE)
            return fb_builder_refuse(
                b, FB_VERDICT_UNSUPPORTED, FB_RULE_ACCESS,
                "`%s` is read through padding or a join, which no tile can follow: it has to be stored",
                node_of(b, t->products[product].node)->name);
        if (t->whole && of_product[product] != FB_NONE) {
            t->strip_of[v] = of_product[product];
            continue;
        }
        t->strip_of[v] = of_product[product] = t->n_strips++;
        if (t->n_strips > MAX_STRIPS)
            return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                     "with `%s`, more than %d products would stand side by side in one tile",
                                     node_of(b, t->products[product].node)->name, MAX_STRIPS);
        if (t->whole && t->products[product].columns != t->products[0].columns)
            return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                     "whole rows are needed of both, and `%s` has %lld columns where `%s` has %lld",
                                     node_of(b, t->products[0].node)->name, (long long)t->products[0].columns,
                                     node_of(b, t->products[product].node)->name,
                                     (long long)t->products[product].columns);
    }
    if (!t->n_strips)
        return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                 "nothing that is stored needs an element of `%s`: there is no tile of it",
                                 node_of(b, t->products[0].node)->name);
    order_strips(b, w);
    return true;
}

/* ---- phases ---- */

static bool fits_phase(const fb_builder *b, const fb_phase *p, double factor, fb_id left, const term *x, int strip,
                       double own_factor, fb_id own_left)
{
    return p->k == b->nest->tiled->products[x->product].k && factor == own_factor && left == own_left &&
           p->product[strip] == FB_NONE;
}

/* Products with a factor first: the factor is made good when those without begin. */
static bool make_phases(fb_builder *b, const summing *w)
{
    fb_tiled *t = b->nest->tiled;
    const terms *all = &w->terms;
    double *factor = FB_NEW_ARRAY(b->scratch, double, all->n);
    fb_id *left = FB_NEW_ARRAY(b->scratch, fb_id, all->n);
    t->phases = FB_NEW_ARRAY(b->nest->arena, fb_phase, all->n);
    int64_t columns;
    fb_ix own = column_of(b, w->s, &columns);
    for (int plain = 0; plain < 2; plain++) {
        for (int i = 0; i < all->n; i++) {
            const term *x = &all->at[i];
            if ((x->factor == 1) != plain) continue;
            fb_id operand = node_of(b, t->products[x->product].node)->args[0];
            int strip = t->strip_of[x->anchor], p = 0;
            while (p < t->n_phases && !fits_phase(b, &t->phases[p], factor[p], left[p], x, strip, x->factor, operand))
                p++;
            fb_phase *phase = &t->phases[p];
            if (p == t->n_phases) {
                *phase = (fb_phase){.k = t->products[x->product].k, .ratio = p ? factor[p - 1] / x->factor : 1};
                phase->product = FB_NEW_ARRAY(b->nest->arena, int, t->n_strips);
                phase->column = FB_NEW_ARRAY(b->nest->arena, int64_t, t->n_strips);
                for (int s = 0; s < t->n_strips; s++) phase->product[s] = FB_NONE;
                factor[p] = x->factor;
                left[p] = operand;
                t->n_phases++;
            }
            phase->product[strip] = x->product;
            int64_t offset = 0;
            if (!t->whole) FB_ASSERT(fb_ix_is_const(b->nest->pool, fb_ix_sub(b->nest->pool, x->at, own), &offset));
            phase->column[strip] = offset;
        }
    }
    int filled = all->n, room = t->n_phases * t->n_strips;
    for (int i = 1; i < all->n && 3 * filled < 2 * room; i++)
        if (all->at[i].product != all->at[0].product)
            return refuse_pair(b, t->products[all->at[0].product].node, t->products[all->at[i].product].node,
                               "share no left operand and are not added up: half of a tile would be empty");
    return true;
}

/* ---- operands ---- */

/* The section of an operand over (batch, outer, k). */
static bool make_operand(fb_builder *b, fb_id product, int which, const int64_t extent[3], fb_operand *out)
{
    fb_index_pool *pool = b->nest->pool;
    const fb_tiled *t = b->nest->tiled;
    const fb_node *c = node_of(b, product), *x = node_of(b, c->args[which]);
    fb_ix at[3], result[FB_MAX_RANK];
    fb_space space = fb_builder_space(b, 3, extent, at);
    int leading = c->shape.rank - 2, own = x->shape.rank - 2;
    /* rows of all batches in one, or each in its own */
    if (t->batch == 1 && which == 0)
        fb_ix_unravel(pool, at[1], leading + 1, c->shape.dim, result);
    else
        fb_ix_unravel(pool, at[0], leading, c->shape.dim, result);
    fb_draft draft = {.n_roots = 1, .roots = FB_NEW(b->scratch, fb_draft_root), .n_spaces = 1};
    draft.spaces = fb_arena_copy(b->scratch, &space, sizeof space);
    draft.roots[0].node = c->args[which];
    for (int d = 0; d < own; d++)
        draft.roots[0].coords[d] = x->shape.dim[d] == 1 ? fb_ix_const(pool, 0) : result[leading - own + d];
    fb_ix row = t->batch == 1 && which == 0 ? result[leading] : at[1];
    draft.roots[0].coords[own] = which ? at[2] : row;
    draft.roots[0].coords[own + 1] = which ? at[1] : at[2];
    b->operand = true;
    bool fine = fb_builder_walk(b, &draft, &out->section);
    b->operand = false;
    out->batch = at[0];
    out->outer = at[1];
    out->k = at[2];
    return fine;
}

static bool make_operands(fb_builder *b)
{
    fb_tiled *t = b->nest->tiled;
    for (int p = 0; p < t->n_phases; p++) {
        int some = 0;
        while (t->phases[p].product[some] == FB_NONE) some++;
        const int64_t extent[] = {t->batch, t->rows, t->phases[p].k};
        if (!make_operand(b, t->products[t->phases[p].product[some]].node, 0, extent, &t->phases[p].left)) return false;
    }
    for (int i = 0; i < t->n_products; i++) {
        const int64_t extent[] = {t->batch, t->products[i].columns, t->products[i].k};
        if (!make_operand(b, t->products[i].node, 1, extent, &t->products[i].right)) return false;
    }
    return true;
}

/* ---- all of it ---- */

static void count_rows(fb_builder *b)
{
    fb_tiled *t = b->nest->tiled;
    fb_contraction c = fb_contraction_of(b->nest->graph, t->products[0].node);
    t->batch = c.batch;
    t->rows = c.rows;
    bool batched = false;
    for (int i = 0; i < t->n_products; i++) {
        const fb_shape *right = &node_of(b, node_of(b, t->products[i].node)->args[1])->shape;
        for (int d = 0; d < right->rank - 2; d++) batched |= right->dim[d] > 1;
    }
    if (batched) return;
    t->rows *= t->batch;
    t->batch = 1;
}

bool fb_tiled_end(fb_builder *b)
{
    fb_tiled *t = b->nest->tiled;
    if (b->sections.n == 0)
        return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                 "nothing that is made of `%s` has elements: there is no tile to compute",
                                 node_of(b, t->products[0].node)->name);
    if (b->sections.n > 1) {
        const fb_id one = b->sections.at[0].roots[0].node, other = b->sections.at[1].roots[0].node;
        return refuse_pair(b, one, other, "go through the tile in different ways: one of them has to be stored first");
    }
    count_rows(b);
    summing w = {.b = b, .s = &b->sections.at[0]};
    w.s->values = fb_arena_copy(b->nest->arena, w.s->values, (size_t)w.s->n_values * sizeof *w.s->values);
    t->whole = !reads_own_column(b, &w);
    sum_products(&w);
    column_of(b, w.s, &t->columns);
    if (t->whole) t->columns = t->products[0].columns;
    bool fine = make_strips(b, &w) && make_phases(b, &w) && make_operands(b);
    FB_VEC_FREE(&w.leaves);
    FB_VEC_FREE(&w.terms);
    return fine;
}
