/* What a nest touches and computes.
 *
 * Bytes are distinct: a strided access touches the product of the extents of the variables it moves with, exactly where
 * strides do not fold onto each other; anything else counts as the smaller of points visited and range spanned. Several
 * accesses of one base add up where they are apart and are taken together as one range where they are not.
 */
#include "nest/build.h"
#include "target/special.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    fb_id base;
    fb_ix at;
    int when;
    int64_t low, high, elements; /* touches `elements` of low … high */
} touch;

typedef FB_VEC(touch) touches;

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How many values of `var` pass the tests that are plainly about it. */
static int64_t values_tested(const fb_nest *nest, int when, fb_ix var, int64_t extent)
{
    int64_t low = 0, high = extent;
    for (int c = when; c != FB_NONE; c = nest->whens[c].outer) {
        int64_t stride, offset;
        fb_ix rest;
        if (!fb_ix_stride(nest->pool, nest->whens[c].at, var, &stride, &rest) || stride != 1) continue;
        if (!fb_ix_is_const(nest->pool, rest, &offset)) continue;
        if (nest->whens[c].low - offset > low) low = nest->whens[c].low - offset;
        if (nest->whens[c].high - offset < high) high = nest->whens[c].high - offset;
    }
    return high > low ? high - low : 0;
}

/* Elements that come along when `points` of `rows` are named, some of them twice: rows of `each` elements, or sectors
 * of memory where these hold several rows. */
static int64_t elements_named(int64_t rows, int64_t each, int size, int64_t points)
{
    enum { SECTOR = 32 };
    int64_t least = SECTOR / size > 1 ? SECTOR / size : 1, all = rows * each;
    if (each < least) {
        rows = (all + least - 1) / least;
        each = least;
    }
    return at_most(llround(fb_added_rows(&(fb_added){.rows = rows, .points = points}) * (double)each), all);
}

/* How often an index from memory is read. */
static int64_t times_read(const fb_section *s, const fb_data_var *d)
{
    const fb_value *v = &s->values[d->value];
    int64_t points = v->space == FB_NONE ? 1 : fb_space_points(&s->spaces[v->space]);
    for (int i = 0; i < s->rows.n; i++)
        if (v->rows >> i & 1) points *= s->rows.extent[i];
    return points;
}

/* `s`: whose data variables `at` may use; NULL: it uses none. */
static touch touch_of(const fb_nest *nest, const fb_section *s, const fb_space *rows, const fb_space *space, fb_id base,
                      fb_ix at, int when)
{
    touch t = {.base = base, .at = at, .when = when, .elements = 1};
    int64_t size = fb_shape_elements(&nest->graph->nodes[base].shape);
    fb_ix_range(nest->pool, at, &t.low, &t.high);
    if (t.low < 0) t.low = 0;
    if (t.high >= size) t.high = size - 1;
    const fb_space *both[] = {rows, space};
    bool alone = !fb_ix_is_const(nest->pool, at, &(int64_t){0});
    for (int k = 0; k < 2; k++) {
        for (int d = 0; both[k] && d < both[k]->n; d++) {
            if (!fb_ix_uses(nest->pool, at, both[k]->var[d])) continue;
            alone = false;
            t.elements = at_most(t.elements * values_tested(nest, when, both[k]->var[d], both[k]->extent[d]), size);
        }
    }
    for (int d = 0; s && d < s->n_data; d++) {
        if (!fb_ix_uses(nest->pool, at, s->data[d].var)) continue;
        alone = false;
        int64_t table = fb_ix_extent(nest->pool, s->data[d].var);
        t.elements = elements_named(table, t.elements, fb_dtype_size(nest->graph->nodes[base].dtype),
                                    times_read(s, &s->data[d]));
    }
    if (alone) t.elements = size;
    t.elements = at_most(t.elements, t.high - t.low + 1);
    if (t.elements < 0) t.elements = 0;
    return t;
}

/* Rows to which nothing is added are written too: with zeros. */
static touch whole_of(const fb_nest *nest, touch t)
{
    t.elements = fb_shape_elements(&nest->graph->nodes[t.base].shape);
    t.low = 0;
    t.high = t.elements - 1;
    return t;
}

static void note(touches *all, touch t)
{
    if (t.elements == 0) return;
    for (int i = 0; i < all->n; i++)
        if (all->at[i].base == t.base && all->at[i].at == t.at && all->at[i].when == t.when) return;
    FB_VEC_PUSH(all, t);
}

static int by_place(const void *a, const void *b)
{
    const touch *x = a, *y = b;
    if (x->base != y->base) return x->base < y->base ? -1 : 1;
    return (x->low > y->low) - (x->low < y->low);
}

/* Overlapping ranges of one base become one. */
static int sum_up(const fb_nest *nest, touches *all, const fb_traffic **out)
{
    if (all->n) qsort(all->at, (size_t)all->n, sizeof *all->at, by_place);
    fb_traffic *list = FB_NEW_ARRAY(nest->arena, fb_traffic, all->n);
    int n = 0;
    for (int i = 0; i < all->n;) {
        fb_id base = all->at[i].base;
        int64_t elements = 0;
        while (i < all->n && all->at[i].base == base) {
            int64_t low = all->at[i].low, high = all->at[i].high, touched = 0;
            for (; i < all->n && all->at[i].base == base && all->at[i].low <= high; i++) {
                touched += all->at[i].elements;
                if (all->at[i].high > high) high = all->at[i].high;
            }
            elements += at_most(touched, high - low + 1);
        }
        list[n++] = (fb_traffic){base, elements * fb_dtype_size(nest->graph->nodes[base].dtype)};
    }
    *out = list;
    return n;
}

/* An access along the innermost loop, whose variable is `along` (FB_NONE: there is none, or that is not in it). */
static void count_apart(fb_nest *nest, fb_ix at, fb_dtype dtype, fb_ix along, int64_t times)
{
    fb_nest_facts *f = &nest->facts;
    int64_t stride = 0;
    if (along == FB_NONE || at == FB_NONE || !fb_ix_uses(nest->pool, at, along)) return;
    bool even = fb_ix_coefficient(nest->pool, at, along, &stride);
    if (even && llabs(stride) <= 1) return;
    if (even && llabs(stride) * fb_dtype_size(dtype) >= FB_FAR_BYTES)
        f->far += times;
    else
        f->gathered += times;
}

static void count_access(fb_nest *nest, fb_ix at, fb_dtype dtype, fb_ix along, int64_t times)
{
    if (fb_dtype_size(dtype) == 2) nest->facts.converted[dtype] += times;
    count_apart(nest, at, dtype, along, times);
}

static fb_ix innermost(const fb_space *s)
{
    return s->n ? s->var[s->n - 1] : FB_NONE;
}

/* The loop that a pass is vectorised along; FB_NONE: it is written out. */
static fb_ix along_pass(const fb_space *space)
{
    return fb_space_is_window(space) ? FB_NONE : innermost(space);
}

/* Elements that a sum along a row adds up, as vectors of them; 0: few, which are written out. */
static int64_t summed_of(const fb_graph *g, const fb_section *s, const fb_value *v)
{
    enum { SHORT = 8, COMPARED = 4 }; /* a comparison and a choice take longer than a sum */
    int64_t points = fb_space_points(&s->spaces[v->over]);
    fb_op op = g->nodes[v->node].op;
    int64_t steps = op == FB_OP_SUM || op == FB_OP_MEAN || op == FB_OP_MATMUL ? 1 : COMPARED;
    return points < SHORT && !fb_space_is_window(&s->spaces[v->over]) ? 0 : points * steps;
}

/* What loads, stores and sums do to vectors. */
static void count_row_access(fb_nest *nest, const fb_section *s, const fb_value *v, bool across, int64_t rows)
{
    fb_nest_facts *f = &nest->facts;
    if (v->kind == FB_VALUE_LOAD)
        count_access(nest, v->at, nest->graph->nodes[v->node].dtype, s->n_passes ? FB_NONE : innermost(&s->rows), rows);
    if (across || (v->kind != FB_VALUE_REDUCE && v->kind != FB_VALUE_SCAN)) return;
    int64_t elements = summed_of(nest->graph, s, v);
    if (fb_space_is_window(&s->spaces[v->over]))
        f->gathered += rows * elements; /* loads of single elements, which go on beside the sums */
    else if (elements) {
        f->summed += rows * elements;
        f->sums += rows;
    }
}

void fb_section_row_sums(const fb_graph *g, const fb_section *s, int64_t *summed, int64_t *sums)
{
    int64_t rows = fb_space_points(&s->rows);
    *summed = *sums = 0;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        bool sum = v->kind == FB_VALUE_REDUCE || v->kind == FB_VALUE_SCAN;
        if (v->space != FB_NONE || !sum || fb_space_is_window(&s->spaces[v->over])) continue;
        int64_t elements = summed_of(g, s, v);
        *summed += rows * elements;
        *sums += elements ? rows : 0;
    }
}

static void count_stores(fb_nest *nest, const fb_section *s, bool across, int64_t rows)
{
    for (int i = 0; i < s->n_roots; i++) {
        const fb_root *r = &s->roots[i];
        const fb_space *space = r->space == FB_NONE ? NULL : &s->spaces[r->space];
        bool once = !space && s->n_passes && !across;
        fb_ix along = once ? FB_NONE : innermost(space && !across ? space : &s->rows);
        if (r->storage == FB_ON_CHIP) continue;
        count_access(nest, r->at, s->values[r->value].dtype, along, rows * (space ? fb_space_points(space) : 1));
    }
}

static void count_value(fb_nest *nest, const fb_section *s, const fb_value *v, int64_t times)
{
    const fb_node *n = &nest->graph->nodes[v->node];
    const fb_op_info *op = fb_op_get(n->op);
    fb_nest_facts *f = &nest->facts;
    if (v->kind == FB_VALUE_OP) {
        f->flops += op->flops * times;
        f->specials += (int64_t)llround(
            fb_special_cost(fb_node_computed_as(nest->graph, v->node), v->dtype, nest->target) * (double)times);
    } else if (v->kind == FB_VALUE_SCAN || v->kind == FB_VALUE_FOLD) {
        f->flops += times;
    } else if (v->kind == FB_VALUE_REDUCE) {
        int64_t each = op->cls == FB_CLASS_CONTRACTION ? 2 : n->op == FB_OP_RANK ? FB_RANK_FLOPS : 1;
        f->flops += each * times * fb_space_points(&s->spaces[v->over]);
    }
}

/* What is gone through row by row is touched where the index names rows, or in all of them. */
static touch of_rows_named(touch t, const fb_nest *nest, const fb_section *s, const fb_added *a)
{
    if (a->spares && fb_ix_uses(nest->pool, t.at, s->rows.var[0]))
        t.elements =
            elements_named(a->rows, t.elements / a->rows, fb_dtype_size(nest->graph->nodes[t.base].dtype), a->points);
    return t;
}

/* An index_add with what is made of it: the source once, and of what is read and stored row by row all rows, or those
 * that the index names. */
static void count_added(fb_nest *nest, const fb_section *s, const fb_added *a, touches *reads, touches *writes)
{
    int64_t visited = llround(a->spares ? fb_added_rows(a) : (double)a->rows) * a->width;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        const fb_space *space = v->space == FB_NONE ? NULL : &s->spaces[v->space];
        if (i == a->sum)
            nest->facts.flops += a->points * a->width;
        else
            count_value(nest, s, v, space ? a->points * (v->rows ? a->width : 1) : visited);
        if (v->kind != FB_VALUE_LOAD) continue;
        note(reads, of_rows_named(touch_of(nest, s, &s->rows, space, v->node, v->at, v->when), nest, s, a));
    }
    for (int i = 0; i < s->n_roots; i++) {
        const fb_root *r = &s->roots[i];
        fb_id base = r->storage == FB_COPY_OF_SOURCE ? r->node : r->storage;
        note(writes, of_rows_named(touch_of(nest, s, &s->rows, NULL, base, r->at, FB_NONE), nest, s, a));
    }
    if (visited > nest->facts.rows * nest->facts.inner) {
        nest->facts.rows = visited;
        nest->facts.inner = 1;
    }
}

static void count_section(fb_nest *nest, const fb_section *s, touches *reads, touches *writes)
{
    fb_nest_facts *f = &nest->facts;
    fb_added added;
    if (fb_section_adds(nest, s, &added) && added.sum != FB_NONE) {
        count_added(nest, s, &added, reads, writes);
        return;
    }
    int64_t rows = fb_space_points(&s->rows), inner = 1;
    bool across = s->n_passes && fb_section_lies_across(nest->pool, s);
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        f->has_reduction |= v->kind == FB_VALUE_REDUCE || v->kind == FB_VALUE_SCAN;
        if (v->space == FB_NONE) count_value(nest, s, v, rows);
        if (v->space == FB_NONE) count_row_access(nest, s, v, across, rows);
        if (v->kind != FB_VALUE_LOAD || fb_nest_is_product(nest, v->node)) continue;
        note(reads,
             touch_of(nest, s, &s->rows, v->space == FB_NONE ? NULL : &s->spaces[v->space], v->node, v->at, v->when));
    }
    bool *needed = fb_calloc((size_t)s->n_values + 1, 1), *computed = fb_calloc((size_t)s->n_values + 1, 1);
    for (int p = 0; p < s->n_passes; p++) {
        int64_t points = fb_space_points(&s->spaces[s->passes[p].space]);
        if (points > inner) inner = points;
        fb_section_needed(s, p, needed);
        for (int i = 0; i < s->n_values; i++) {
            if (!needed[i] || s->values[i].space != s->passes[p].space || (s->values[i].kept && computed[i])) continue;
            count_value(nest, s, &s->values[i], rows * points);
            fb_dtype stored = nest->graph->nodes[s->values[i].node].dtype;
            /* sums side by side have a rate for each dtype, in which widening is */
            if (s->values[i].kind == FB_VALUE_LOAD && across)
                count_apart(nest, s->values[i].at, stored, innermost(&s->rows), rows * points);
            else if (s->values[i].kind == FB_VALUE_LOAD)
                count_access(nest, s->values[i].at, stored, along_pass(&s->spaces[s->passes[p].space]), rows * points);
            computed[i] = true;
        }
    }
    fb_free(needed);
    fb_free(computed);
    count_stores(nest, s, across, rows);
    for (int i = 0; i < s->n_roots; i++) {
        const fb_root *r = &s->roots[i];
        if (r->storage == FB_ON_CHIP) continue;
        fb_id base = r->storage == FB_COPY_OF_SOURCE ? r->node : r->storage;
        const fb_space *space = r->space == FB_NONE ? NULL : &s->spaces[r->space];
        touch t = touch_of(nest, s, &s->rows, space, base, r->at, FB_NONE);
        note(writes, s->scatter ? whole_of(nest, t) : t);
    }
    if (rows * inner > f->rows * f->inner) {
        f->rows = rows;
        f->inner = inner;
    }
}

/* A contraction's operands that lie in memory, each whole. */
static void count_product(fb_nest *nest, fb_id product, bool left, touches *reads)
{
    const fb_graph *g = nest->graph;
    const fb_node *c = &g->nodes[product];
    nest->facts.flops += fb_node_flops(g, product);
    for (int a = !left; a < 2; a++) {
        const fb_node *x = &g->nodes[c->args[a]];
        fb_space rows = {.n = x->shape.rank};
        fb_access access;
        for (int d = 0; d < x->shape.rank; d++) {
            rows.extent[d] = x->shape.dim[d];
            rows.var[d] =
                x->shape.dim[d] > 1 ? fb_ix_var(nest->pool, "d", x->shape.dim[d]) : fb_ix_const(nest->pool, 0);
        }
        fb_access_at(g, nest->pool, c->args[a], rows.var, &access);
        fb_ix at = fb_access_offset(g, nest->pool, &access);
        for (int d = rows.n - 1; d >= 0; d--) {
            if (rows.extent[d] > 1) continue;
            for (int e = d; e < rows.n - 1; e++) {
                rows.var[e] = rows.var[e + 1];
                rows.extent[e] = rows.extent[e + 1];
            }
            rows.n--;
        }
        note(reads, touch_of(nest, NULL, &rows, NULL, access.base, at, FB_NONE));
    }
}

/* A library call's operands; and its own result when that is stored. */
static void count_library(fb_nest *nest, touches *reads, touches *writes)
{
    const fb_node *c = &nest->graph->nodes[nest->accumulator];
    count_product(nest, nest->accumulator, true, reads);
    for (int i = 0; i < nest->kernel.n_stored; i++) {
        int64_t size = fb_shape_elements(&c->shape);
        if (nest->kernel.stored[i] == nest->accumulator)
            note(writes, (touch){nest->accumulator, FB_NONE, FB_NONE, 0, size - 1, size});
    }
}

/* Operands of products on chip: each element is read from memory once, whatever the tiles read again from caches. */
static void count_operand(fb_nest *nest, const fb_operand *o, touches *reads)
{
    const fb_section *s = &o->section;
    int64_t points = s->n_spaces ? fb_space_points(&s->spaces[0]) : 1;
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        count_value(nest, s, v, v->space == FB_NONE ? 1 : points);
        if (v->kind != FB_VALUE_LOAD) continue;
        note(reads,
             touch_of(nest, s, &s->rows, v->space == FB_NONE ? NULL : &s->spaces[v->space], v->node, v->at, v->when));
    }
}

static void count_tiled(fb_nest *nest, touches *reads)
{
    const fb_tiled *t = nest->tiled;
    for (int i = 0; i < t->n_phases; i++) count_operand(nest, &t->phases[i].left, reads);
    for (int i = 0; i < t->n_products; i++) {
        count_operand(nest, &t->products[i].right, reads);
        nest->facts.flops += fb_node_flops(nest->graph, t->products[i].node);
    }
    nest->facts.has_reduction = true;
}

void fb_nest_count(fb_nest *nest, const fb_section *unrolled, int n)
{
    touches reads = {0}, writes = {0};
    nest->facts = (fb_nest_facts){.rows = 0, .inner = 1, .rolled = n ? 1 : 0};
    for (int i = 0; i < n; i++) count_section(nest, &unrolled[i], &reads, &writes);
    if (nest->accumulator != FB_NONE) count_library(nest, &reads, &writes);
    if (nest->tiled) count_tiled(nest, &reads);
    for (int i = 0; i < fb_nest_links(nest); i++)
        count_product(nest, nest->chain->link[i].node, nest->chain->link[i].a != FB_NONE, &reads);
    nest->facts.n_reads = sum_up(nest, &reads, &nest->facts.reads);
    nest->facts.n_writes = sum_up(nest, &writes, &nest->facts.writes);
    FB_VEC_FREE(&reads);
    FB_VEC_FREE(&writes);
}
