/* The nest of a chain: which contractions, what their operands are, and whether blocks of rows carry it all.
 *
 *     product 0      rows of A₀ · B₀, both in memory
 *     middle         sections that make rows of the last product's left operand, on chip, of product 0 and memory
 *     last product   those rows · B₁
 *     the others     what is stored, row by row, of any of these
 *
 * Product 0 may be missing (the middle reads memory alone), or the middle and what follows it (then the chain is a
 * contraction with whole rows of its result at hand). Rows go by *member* of the batch and *row* in it: two variables,
 * or fewer where there is but one of something; where all members share the right operands they are one tall member.
 */
#include "base/str.h"
#include "nest/build.h"

enum { LEAST_BLOCK = 8, WORTH_A_CALL = 32, MOST_BLOCK = 256 };

static const char *name_of(const fb_builder *b, fb_id node)
{
    return b->nest->graph->nodes[node].name;
}

static fb_ix lead_of(fb_builder *b, const fb_chain *c)
{
    return fb_ix_add(b->nest->pool, fb_ix_scale(b->nest->pool, c->member, c->rows), c->row);
}

/* ---- products ---- */

static fb_ix variable(fb_builder *b, const char *name, int64_t extent)
{
    return extent == 1 ? fb_ix_const(b->nest->pool, 0) : fb_ix_var(b->nest->pool, name, extent);
}

/* Coordinates of operand `arg` of contraction `id`: of the member and row of the result, and k; or of k and n. */
static void operand_coords(fb_builder *b, const fb_chain *c, fb_id id, int arg, fb_ix k, fb_ix n, fb_ix *at)
{
    const fb_graph *g = b->nest->graph;
    const fb_node *node = &g->nodes[id];
    const fb_shape *s = &g->nodes[node->args[arg]].shape;
    fb_ix lead[FB_MAX_RANK];
    int rank = node->shape.rank;
    fb_ix_unravel(b->nest->pool, lead_of(b, c), rank - 1, node->shape.dim, lead);
    for (int d = 0; d < s->rank - 2; d++)
        at[d] = s->dim[d] == 1 ? fb_ix_const(b->nest->pool, 0) : lead[rank - s->rank + d];
    at[s->rank - 2] = arg == 0 ? lead[rank - 2] : k;
    at[s->rank - 1] = arg == 0 ? k : n;
}

static bool operand(fb_builder *b, const fb_chain *c, fb_chain_link *p, int arg)
{
    const fb_graph *g = b->nest->graph;
    fb_id view = g->nodes[p->node].args[arg];
    fb_ix coords[FB_MAX_RANK];
    fb_access access;
    operand_coords(b, c, p->node, arg, p->k, p->n, coords);
    fb_access_at(g, b->nest->pool, view, coords, &access);
    if (access.n_guards)
        return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                 "`%s` reads `%s` with padding around it: a chain takes operands as they lie in memory",
                                 name_of(b, p->node), name_of(b, view));
    if (fb_builder_inside(b, access.base)) {
        if (arg == 0) return true; /* made by the middle */
        char bytes[32];
        fb_format_bytes(bytes, (double)fb_node_bytes(g, access.base));
        return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                 "`%s` needs all %s of `%s` for each of its %lld rows: it has to be stored",
                                 name_of(b, p->node), bytes, name_of(b, access.base), (long long)c->batch * c->rows);
    }
    fb_ix offset = fb_access_offset(g, b->nest->pool, &access);
    if (arg == 0)
        p->a = access.base, p->a_at = offset;
    else
        p->b = access.base, p->b_at = offset;
    return true;
}

static bool find_operands(fb_builder *b, fb_chain *c)
{
    c->member = c->batch == 1 ? fb_ix_const(b->nest->pool, 0) : fb_builder_var(b, 'r', 0, c->batch);
    c->row = c->rows == 1 ? fb_ix_const(b->nest->pool, 0) : fb_builder_var(b, 'r', c->batch > 1, c->rows);
    for (int i = 0; i < c->n_links; i++) {
        c->link[i].a = FB_NONE;
        if (!operand(b, c, &c->link[i], 0) || !operand(b, c, &c->link[i], 1)) return false;
    }
    return true;
}

/* All members by the same right operands, and the rows of one follow those of another: one tall member. */
static bool is_tall(fb_builder *b, const fb_chain *c)
{
    fb_index_pool *pool = b->nest->pool;
    for (int i = 0; i < c->n_links; i++) {
        const fb_chain_link *p = &c->link[i];
        int64_t member, row;
        fb_ix rest;
        if (fb_ix_uses(pool, p->b_at, c->member)) return false;
        if (p->a == FB_NONE) continue;
        if (!fb_ix_stride(pool, p->a_at, c->member, &member, &rest)) return false;
        if (c->rows > 1 && (!fb_ix_stride(pool, p->a_at, c->row, &row, &rest) || member != row * c->rows)) return false;
    }
    return true;
}

static bool contractions_of(fb_builder *b, fb_chain *c)
{
    const fb_graph *g = b->nest->graph;
    const fb_kernel_nodes *k = &b->nest->kernel;
    for (int i = 0; i < k->n_contractions; i++) {
        fb_id id = k->contractions[i];
        const fb_node *n = &g->nodes[id];
        fb_contraction product = fb_contraction_of(g, id);
        if (c->n_links == 2)
            return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                     "a chain is two products: `%s` would be one more beside `%s` and `%s`", n->name,
                                     name_of(b, c->link[0].node), name_of(b, c->link[1].node));
        if (n->region != 0)
            return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                     "`%s` is computed at each step of a loop, where no chain is generated", n->name);
        if (!fb_dtype_is_float(n->dtype) || fb_shape_elements(&n->shape) == 0 ||
            fb_shape_elements(&g->nodes[n->args[0]].shape) == 0)
            return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                     "`%s` is no product of floats with elements to compute, as a chain needs",
                                     n->name);
        fb_chain_link *p = &c->link[c->n_links++];
        *p =
            (fb_chain_link){.node = id, .a = FB_NONE, .b = FB_NONE, .columns = product.columns, .depth = product.depth};
        p->k = variable(b, "k", p->depth);
        p->n = variable(b, "n", p->columns);
    }
    return true;
}

/* Rows of the second product are rows of the first. */
static bool same_rows(fb_builder *b, const fb_chain *c)
{
    const fb_graph *g = b->nest->graph;
    const fb_chain_link *last = &c->link[c->n_links - 1];
    fb_id left = g->nodes[last->node].args[0];
    if (c->n_links == 2 && last->a != FB_NONE)
        return fb_builder_refuse(
            b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
            "neither of the products `%s` and `%s` is the left operand of the other, as a chain needs",
            name_of(b, c->link[0].node), name_of(b, last->node));
    if (c->n_links == 2 && c->link[0].a == FB_NONE)
        return fb_builder_refuse(
            b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
            "in the chain of `%s` and `%s` the first product reads memory: `%s` has to be stored before it",
            name_of(b, c->link[0].node), name_of(b, last->node),
            name_of(b, fb_access_base(g, g->nodes[c->link[0].node].args[0])));
    if (last->a == FB_NONE && fb_shape_elements(&g->nodes[left].shape) != c->batch * c->rows * last->depth)
        return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                 "`%s` reads rows of `%s` for several members of its batch: it has to be stored",
                                 name_of(b, last->node), name_of(b, left));
    fb_contraction first = fb_contraction_of(g, c->link[0].node);
    if (first.batch * first.rows != c->batch * c->rows)
        return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                 "`%s` has %lld rows and `%s` has %lld, and a chain goes row by row through both",
                                 name_of(b, c->link[0].node), (long long)(first.batch * first.rows),
                                 name_of(b, last->node), (long long)c->batch * c->rows);
    return true;
}

bool fb_chain_begin(fb_builder *b)
{
    fb_chain *c = b->nest->chain = FB_NEW(b->nest->arena, fb_chain);
    *c = (fb_chain){0};
    if (!contractions_of(b, c)) return false;
    if (!c->n_links)
        return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION, "a chain needs two products");
    fb_contraction last = fb_contraction_of(b->nest->graph, c->link[c->n_links - 1].node);
    c->batch = last.batch;
    c->rows = last.rows;
    for (int i = 0; i < c->n_links; i++) {
        fb_contraction t = fb_contraction_of(b->nest->graph, c->link[i].node);
        if (t.batch != c->batch || t.rows != c->rows)
            return fb_builder_refuse(
                b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                "`%s` makes %lld × %lld rows and `%s` %lld × %lld, and a chain goes row by row through both",
                name_of(b, c->link[i].node), (long long)t.batch, (long long)t.rows,
                name_of(b, c->link[c->n_links - 1].node), (long long)c->batch, (long long)c->rows);
    }
    if (!find_operands(b, c) || !same_rows(b, c)) return false;
    if (c->batch == 1 || !is_tall(b, c)) return true;
    c->rows *= c->batch;
    c->batch = 1;
    return find_operands(b, c);
}

int fb_chain_product(const fb_chain *c, fb_id node)
{
    for (int i = 0; i < c->n_links; i++)
        if (c->link[i].node == node) return i;
    return FB_NONE;
}

/* ---- drafts ---- */

static void block_rows(fb_builder *b, fb_draft *d)
{
    const fb_chain *c = b->nest->chain;
    fb_space_add(b, &d->rows, 'r', c->batch);
    fb_space_add(b, &d->rows, 'r', c->rows);
    d->blocked = d->rows.n;
}

bool fb_chain_middle(fb_builder *b, fb_draft *d)
{
    const fb_chain *c = b->nest->chain;
    const fb_chain_link *p = &c->link[c->n_links - 1];
    if (p->a != FB_NONE) return false;
    *d = (fb_draft){.n_roots = 1, .roots = FB_NEW(b->scratch, fb_draft_root), .on_chip = true};
    d->roots[0].node = b->nest->graph->nodes[p->node].args[0];
    block_rows(b, d);
    fb_ix k = fb_space_add(b, &d->rows, 'r', p->depth);
    operand_coords(b, c, p->node, 0, k, p->n, d->roots[0].coords);
    return true;
}

bool fb_chain_draft(fb_builder *b, fb_id node, fb_draft *d)
{
    const fb_chain *c = b->nest->chain;
    const fb_node *n = &b->nest->graph->nodes[node];
    int split = 0;
    int64_t rows = c->batch * c->rows, product = 1;
    while (split < n->shape.rank && product < rows) product *= n->shape.dim[split++];
    *d = (fb_draft){.n_roots = 1, .roots = FB_NEW(b->scratch, fb_draft_root)};
    d->roots[0].node = node;
    if (product != rows || n->op == FB_OP_SCATTER_ADD)
        return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                 "`%s` does not keep the %lld rows of `%s`, and a chain goes row by row", n->name,
                                 (long long)rows, name_of(b, c->link[c->n_links - 1].node));
    block_rows(b, d);
    fb_ix_unravel(b->nest->pool, lead_of(b, c), split, n->shape.dim, d->roots[0].coords);
    for (int i = split; i < n->shape.rank; i++) d->roots[0].coords[i] = fb_space_add(b, &d->rows, 'r', n->shape.dim[i]);
    return true;
}

/* ---- when all sections are there ---- */

bool fb_section_reads_product(const fb_section *s, fb_id node)
{
    for (int i = 0; i < s->n_values; i++)
        if (s->values[i].kind == FB_VALUE_CHIP && s->values[i].node == node) return true;
    return false;
}

/* Each row reads the products' same row. */
static bool check_rows(fb_builder *b, const fb_chain *c)
{
    fb_index_pool *pool = b->nest->pool;
    for (int s = 0; s < b->sections.n; s++) {
        const fb_section *sec = &b->sections.at[s];
        for (int i = 0; i < sec->n_values; i++) {
            const fb_value *v = &sec->values[i];
            if (v->kind != FB_VALUE_CHIP) continue;
            int64_t columns = c->link[fb_chain_product(c, v->node)].columns, low, high;
            fb_ix rest = fb_ix_sub(pool, v->at, fb_ix_scale(pool, lead_of(b, c), columns));
            fb_ix_range(pool, rest, &low, &high);
            if (low >= 0 && high < columns && !fb_ix_uses(pool, rest, c->row) && !fb_ix_uses(pool, rest, c->member))
                continue;
            return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                     "`%s` reads other rows of `%s` than its own, and a chain goes row by row",
                                     name_of(b, sec->roots[0].node), name_of(b, v->node));
        }
    }
    return true;
}

/* The middle overwrites the first product element by element, and nobody reads that afterwards. */
static bool find_in_place(const fb_builder *b, const fb_chain *c, int n_middle)
{
    const fb_graph *g = b->nest->graph;
    if (n_middle != 1 || c->n_links != 2 || c->link[0].columns != c->link[1].depth) return false;
    if (g->nodes[c->link[0].node].dtype != g->nodes[c->link[1].node].dtype) return false;
    const fb_section *m = &b->sections.at[0];
    for (int i = 0; i < m->n_values; i++)
        if (m->values[i].kind == FB_VALUE_CHIP && m->values[i].at != m->roots[0].at) return false;
    for (int i = 0; i < m->n_passes; i++) {
        bool own = m->passes[i].space == m->roots[0].space && m->passes[i].depth == m->roots[0].depth;
        if (!own && m->passes[i].depth >= m->roots[0].depth) return false;
    }
    for (int s = 1; s < b->sections.n; s++)
        if (fb_section_reads_product(&b->sections.at[s], c->link[0].node)) return false;
    return true;
}

/* On the host: rows of all products side by side in a core's cache, as many as are worth a library call. */
static bool choose_block(fb_builder *b, fb_chain *c)
{
    char row[32], all[32], cache[32];
    const fb_graph *g = b->nest->graph;
    const fb_chain_link *last = &c->link[c->n_links - 1];
    int64_t size = g->nodes[last->node].dtype == FB_F64 ? 8 : 4, width = c->link[0].columns;
    if (c->n_links == 2) width += last->columns;
    if (last->a == FB_NONE && !c->in_place) width += last->depth;
    int64_t fits = b->machine->shared_bytes / (width * size);
    if (fits < LEAST_BLOCK && c->rows > 1) {
        int64_t hidden = c->n_links == 2 || last->a != FB_NONE ? c->link[0].columns : last->depth;
        fb_id what = c->n_links == 2 || last->a == FB_NONE ? g->nodes[last->node].args[0] : last->node;
        fb_format_bytes(row, (double)(hidden * size));
        fb_format_bytes(all, (double)(LEAST_BLOCK * width * size));
        fb_format_bytes(cache, (double)b->machine->shared_bytes);
        return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_SIZE,
                                 "the %lld-wide row of `%s` takes %s: a block of %d rows and what is made of it would "
                                 "take %s, and a core's cache keeps %s",
                                 (long long)hidden, name_of(b, what), row, LEAST_BLOCK, all, cache);
    }
    int64_t share = c->batch * c->rows / (b->machine->units > 0 ? b->machine->units : 1), most = MOST_BLOCK;
    if (share < most) most = share > WORTH_A_CALL ? share : WORTH_A_CALL; /* work for all cores */
    c->block = fits / 2 < LEAST_BLOCK ? LEAST_BLOCK : fits / 2 > most ? most : fits / 2;
    if (c->block > c->rows) c->block = c->rows;
    return true;
}

/* A BLAS takes matrices: one of the strides is 1. */
static bool check_matrix(fb_builder *b, const fb_chain_link *p, fb_ix at, fb_id in, fb_ix u, int64_t rows, fb_ix v,
                         int64_t cols)
{
    int64_t x = 0, y = 0;
    fb_ix rest;
    bool fine = (rows == 1 || fb_ix_stride(b->nest->pool, at, u, &x, &rest)) &&
                (cols == 1 || fb_ix_stride(b->nest->pool, at, v, &y, &rest));
    if (rows == 1) x = cols > 1 && y != 1 ? 1 : cols;
    if (cols == 1) y = rows > 1 && x != 1 ? 1 : rows;
    if (fine && ((y == 1 && x >= cols) || (x == 1 && y >= rows))) return true;
    return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                             "`%s` reads `%s` through views that are no matrix of rows or columns at one stride, which "
                             "is all that the library takes",
                             name_of(b, p->node), name_of(b, in));
}

static bool fits_calls(fb_builder *b, fb_chain *c)
{
    for (int i = 0; i < c->n_links; i++) {
        const fb_chain_link *p = &c->link[i];
        if (p->a != FB_NONE && !check_matrix(b, p, p->a_at, p->a, c->row, c->rows, p->k, p->depth)) return false;
        if (!check_matrix(b, p, p->b_at, p->b, p->k, p->depth, p->n, p->columns)) return false;
    }
    return choose_block(b, c);
}

/* ---- on a GPU: what kernels/chain.cuh does ---- */

static fb_op op_of(const fb_builder *b, const fb_section *s, fb_val v)
{
    const fb_value *x = &s->values[v];
    return x->kind == FB_VALUE_OP || x->kind == FB_VALUE_REDUCE ? b->nest->graph->nodes[x->node].op : FB_OPS;
}

/* exp(x - max x) / sum of these, over the whole row: x. FB_NONE: it is something else. */
static fb_val scores_of(const fb_builder *b, const fb_section *s, int64_t width)
{
    fb_val v = s->roots[0].value;
    int reductions = 0;
    for (int i = 0; i < s->n_values; i++)
        reductions += s->values[i].kind == FB_VALUE_REDUCE || s->values[i].kind == FB_VALUE_SCAN;
    while (op_of(b, s, v) == FB_OP_CAST && fb_dtype_is_float(s->values[s->values[v].args[0]].dtype))
        v = s->values[v].args[0];
    if (reductions != 2 || op_of(b, s, v) != FB_OP_DIV) return FB_NONE;
    fb_val e = s->values[v].args[0], sum = s->values[v].args[1];
    if (op_of(b, s, sum) != FB_OP_SUM || s->values[sum].args[0] != e || op_of(b, s, e) != FB_OP_EXP) return FB_NONE;
    fb_val sub = s->values[e].args[0];
    if (op_of(b, s, sub) != FB_OP_SUB) return FB_NONE;
    fb_val x = s->values[sub].args[0], most = s->values[sub].args[1];
    if (op_of(b, s, most) != FB_OP_AMAX || s->values[most].args[0] != x) return FB_NONE;
    const fb_space *row = &s->spaces[s->values[sum].over];
    bool whole = s->values[most].over == s->values[sum].over && row->n == 1 && row->extent[0] == width;
    return whole && s->values[x].space == s->values[sum].over ? x : FB_NONE;
}

/* Every product that the section reads, element by element of its own: `at` for the whole section. */
static bool reads_own(const fb_section *s, fb_id node, fb_ix at)
{
    for (int i = 0; i < s->n_values; i++)
        if (s->values[i].kind == FB_VALUE_CHIP && (s->values[i].node != node || s->values[i].at != at)) return false;
    return true;
}

static bool refuse_kernel(fb_builder *b, const fb_section *s, const char *what)
{
    return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                             "`%s` %s: a GPU's chain has no place for it", name_of(b, s->roots[0].node), what);
}

static bool fits_middle(fb_builder *b, fb_chain *c)
{
    const fb_section *s = &b->sections.at[0];
    const fb_chain_link *last = &c->link[c->n_links - 1];
    if (s->n_roots > 1)
        return refuse_kernel(b, s, "or what it is made of is read by others, and would be stored on the way");
    c->made = s->roots[0].value;
    if (s->n_passes) {
        c->made = scores_of(b, s, last->depth);
        c->online = true;
        if (c->made == FB_NONE) return refuse_kernel(b, s, "needs whole rows for something else than a softmax");
        fb_chain_find_hidden(b->nest, s);
    }
    if (c->n_links == 2 && !reads_own(s, c->link[0].node, s->roots[0].at))
        return refuse_kernel(b, s, "reads other elements than its own of the first product");
    return true;
}

static bool fits_generated(fb_builder *b, fb_chain *c)
{
    const fb_graph *g = b->nest->graph;
    const fb_chain_link *last = &c->link[c->n_links - 1];
    fb_dtype dtype = g->nodes[last->node].dtype;
    c->units = b->machine->units;
    c->shared_bytes = b->machine->shared_bytes;
    c->capability = b->machine->compute_major;
    c->wide = b->machine->compute_major == 9 && b->machine->compute_minor == 0;
    if (c->n_middle != 1 || b->sections.n != 2)
        return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                 "a chain on a GPU is one value between two products and one result after them; `%s` "
                                 "is not between two, or several are stored",
                                 name_of(b, c->link[0].node));
    if (g->nodes[c->link[0].node].dtype != dtype)
        return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                 "`%s` is %s and `%s` %s, and a GPU's chain needs one type for both",
                                 name_of(b, c->link[0].node), fb_dtype_name(g->nodes[c->link[0].node].dtype),
                                 name_of(b, last->node), fb_dtype_name(dtype));
    if (dtype == FB_BF16 && c->capability < 8)
        return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                 "`%s` is a chain in bf16, which tensor cores have from compute capability 8.0 on",
                                 name_of(b, last->node));
    if (!fits_middle(b, c)) return false;
    const fb_section *s = &b->sections.at[1];
    fb_ix at = fb_ix_scale(b->nest->pool, lead_of(b, c), last->columns);
    if (s->rows.n > s->blocked) at = fb_ix_add(b->nest->pool, at, s->rows.var[s->blocked]);
    if (s->n_passes || s->scatter || s->rows.n > s->blocked + 1)
        return refuse_kernel(b, s, "is made of whole rows, or of columns that are numbered anew");
    if (!reads_own(s, last->node, at) || fb_section_reads_product(s, c->link[0].node) != (c->n_links == 1))
        return refuse_kernel(b, s, "reads other elements than its own of what stays on chip");
    return true;
}

bool fb_chain_end(fb_builder *b)
{
    fb_chain *c = b->nest->chain;
    if (b->sections.n == c->n_middle)
        return fb_builder_refuse(b, FB_VERDICT_UNSUPPORTED, FB_RULE_CONTRACTION,
                                 "nothing that is made of `%s` has elements: there is no row to compute",
                                 name_of(b, c->link[c->n_links - 1].node));
    c->in_place = b->machine->target->calls_library && find_in_place(b, c, c->n_middle);
    if (!check_rows(b, c)) return false;
    return b->machine->target->calls_library ? fits_calls(b, c) : fits_generated(b, c);
}
