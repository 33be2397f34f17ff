/* Chains in C: blocks of rows that threads share. For each the library makes the products, on the thread's own core,
 * into memory that stays in its cache, and the sections between and after them are loops over the same rows. */
#include "code/emit_parts.h"
#include "code/names.h"

#include <inttypes.h>

static const char *product_name(fb_emitter *e, int i)
{
    return e->chip[i];
}

/* The left operand of the last product shares the first one's memory where it replaces it. */
static const char *left_name(fb_emitter *e)
{
    return e->chip[e->nest->chain->in_place ? 0 : 2];
}

static const char *in_block(fb_emitter *e, const char *name, int64_t columns, fb_ix at)
{
    fb_index_pool *pool = e->nest->pool;
    const fb_chain *c = e->nest->chain;
    fb_ix first = c->rows == 1 ? fb_ix_const(pool, 0) : fb_ix_var(pool, "first", c->rows);
    fb_ix start = fb_ix_add(pool, fb_ix_scale(pool, c->member, c->rows), first);
    at = fb_ix_sub(pool, at, fb_ix_scale(pool, start, columns));
    return fb_arena_printf(e->arena, "%s[%s]", name, fb_emit_index(e, at, false));
}

static const char *on_chip(fb_emitter *e, fb_id node, fb_ix at)
{
    const fb_chain *c = e->nest->chain;
    if (node == FB_ON_CHIP) return in_block(e, left_name(e), c->link[c->n_links - 1].depth, at);
    int i = fb_chain_product(c, node);
    return in_block(e, product_name(e, i), c->link[i].columns, at);
}

/* Memory for a block's rows of a product, or of what it multiplies. */
static void declare(fb_emitter *e, int which, fb_id node, int product, int64_t columns)
{
    fb_dtype dtype = e->nest->graph->nodes[e->nest->chain->link[product].node].dtype;
    const char *type = e->spell->type[dtype].value;
    e->chip[which] = fb_emit_name(e, fb_emit_plain(e, node));
    int64_t n = e->nest->chain->block * columns;
    fb_emit(e, "%s *const %s = fb_block_new(%" PRId64 " * sizeof(%s));", type, e->chip[which], n, type);
    e->needs.block_bytes += fb_needs_block(n, dtype == FB_F64 ? sizeof(double) : sizeof(float));
}

static void declare_blocks(fb_emitter *e)
{
    const fb_chain *c = e->nest->chain;
    const fb_chain_link *last = &c->link[c->n_links - 1];
    for (int i = 0; i < c->n_links; i++) declare(e, i, c->link[i].node, i, c->link[i].columns);
    if (last->a == FB_NONE && !c->in_place)
        declare(e, 2, e->nest->graph->nodes[last->node].args[0], c->n_links - 1, last->depth);
}

static void free_blocks(fb_emitter *e)
{
    for (int i = 0; i < 3; i++)
        if (e->chip[i]) fb_emit(e, "fb_block_free(%s);", e->chip[i]);
}

/* Where a matrix of the operand starts: its element at k = n = 0, of the block's first row. */
static const char *start_of(fb_emitter *e, fb_id storage, fb_ix at, const fb_chain_link *p)
{
    fb_index_pool *pool = e->nest->pool;
    const fb_chain *c = e->nest->chain;
    fb_ix zero = fb_ix_const(pool, 0);
    if (p->depth > 1) at = fb_ix_substitute(pool, at, p->k, zero);
    if (p->columns > 1) at = fb_ix_substitute(pool, at, p->n, zero);
    if (c->rows > 1) at = fb_ix_substitute(pool, at, c->row, fb_ix_var(pool, "first", c->rows));
    return fb_arena_printf(e->arena, "&%s", fb_emit_element(e, storage, FB_NONE, at));
}

static void multiply(fb_emitter *e, int i)
{
    const fb_chain_link *p = &e->nest->chain->link[i];
    const char *a = p->a == FB_NONE ? left_name(e) : start_of(e, p->a, p->a_at, p);
    fb_emit(e, "args->multiply(args, %d, last - first, %s, %s, %s);", i, a, start_of(e, p->b, p->b_at, p),
            product_name(e, i));
}

static void section(fb_emitter *e, int i)
{
    int kept = fb_names_count(e->used);
    bool several = e->nest->n_sections > 1;
    if (several) fb_emit_open(e, "%s", "");
    fb_emit_section(e, i);
    fb_printer_of(e->target)->section[e->family](e);
    if (several) fb_emit_close(e);
    fb_names_forget(e->used, kept);
}

void fb_emit_chain_c(fb_emitter *e)
{
    const fb_chain *c = e->nest->chain;
    int64_t blocks = (c->rows + c->block - 1) / c->block, all = c->batch * blocks;
    e->on_chip = on_chip;
    if (all > 1) fb_emit_directive(e, "#pragma omp parallel");
    fb_emit_open(e, "%s", "");
    declare_blocks(e);
    const char *block = fb_emit_name(e, "block");
    if (all > 1) fb_emit_directive(e, "#pragma omp for schedule(dynamic)");
    fb_emit_for(e, NULL, block, "0", fb_emit_number(e, all), NULL);
    if (c->batch > 1)
        fb_emit(e, "const int64_t %s = %s;", fb_ix_var_name(e->nest->pool, c->member),
                blocks == 1 ? block : fb_arena_printf(e->arena, "%s / %" PRId64, block, blocks));
    if (blocks == 1)
        fb_emit(e, "const int64_t first = 0, last = %" PRId64 ";", c->rows);
    else {
        const char *within = c->batch > 1 ? fb_arena_printf(e->arena, "%s %% %" PRId64, block, blocks) : block;
        fb_emit(e, "const int64_t first = %s * %" PRId64 ";", within, c->block);
        fb_emit(e, "const int64_t last = first + %" PRId64 " < %" PRId64 " ? first + %" PRId64 " : %" PRId64 ";",
                c->block, c->rows, c->block, c->rows);
    }
    for (int i = 0, s = 0; i < c->n_links; i++) {
        for (; c->link[i].a == FB_NONE && s < c->n_middle; s++) section(e, s);
        multiply(e, i);
    }
    for (int s = c->n_middle; s < e->nest->n_sections; s++) section(e, s);
    fb_emit_close(e);
    free_blocks(e);
    fb_emit_close(e);
}
