/* Whether a loop that is one kernel runs in clusters (schedule/cluster.h): its body is one product of a state that it
 * carries, with all that is made of it, element by element. What a row's next state is must follow from that row alone;
 * the product then reads what blocks of its cluster have made, and all else only what the same thread stored at the
 * step before.
 *
 * Follows from the nest and from where the loop keeps its states (plan/loops.c); a device without clusters, and all
 * that is refused here, meets grid-wide at each step as before. */
#include "base/str.h"
#include "nest/parts.h"
#include "plan/loops.h"
#include "plan/parts.h"

typedef struct {
    const fb_plan *plan;
    const fb_graph *g;
    const fb_loop *loop;
    const fb_nest *nest;
    fb_str *says;
} finder;

static bool refuse(const finder *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(const finder *f, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    if (f->says) fb_str_vaddf(f->says, format, ap);
    va_end(ap);
    return false;
}

/* One group, and no copy or assignment beside it. */
static bool is_one_stage(const finder *f)
{
    const fb_loop *l = f->loop;
    const char *loop = f->g->nodes[l->node].name;
    if (l->first != l->last) return refuse(f, "the body of `%s` is several kernels one after the other", loop);
    for (fb_id r = l->region + 1; r < f->g->n_regions; r++)
        if (fb_region_within(f->g, r, l->region)) return refuse(f, "`%s` has a loop inside", loop);
    for (int i = 0; i < l->n_carried; i++)
        if (l->carried[i].kind == FB_CARRY_COPY)
            return refuse(f, "the next `%s` is copied at the end of each step", f->g->nodes[l->carried[i].init].name);
    for (int i = 0; i < l->n_collected; i++)
        if (l->collected[i].result != FB_NONE && l->collected[i].base == FB_NONE && l->collected[i].also == FB_NONE)
            return refuse(f, "`%s` is copied to its place at the end of each step",
                          f->g->nodes[l->collected[i].value].name);
    for (fb_id i = 0; i < f->g->n_nodes; i++)
        if (f->g->nodes[i].op == FB_OP_ASSIGN && f->g->nodes[i].region == l->region)
            return refuse(f, "`%s` assigns at each step", f->g->nodes[i].name);
    return true;
}

/* Is this the element of `row` (of so many columns) and `column`? A variable of one point is none. */
static bool is_element(const finder *f, fb_ix at, fb_ix row, fb_ix column, int64_t columns)
{
    fb_index_pool *pool = f->nest->pool;
    int64_t by = 0, left = 0;
    fb_ix rest = at;
    if (fb_ix_is_var(pool, row) && (!fb_ix_stride(pool, rest, row, &by, &rest) || by != columns)) return false;
    if (fb_ix_is_var(pool, column) && (!fb_ix_stride(pool, rest, column, &by, &rest) || by != 1)) return false;
    return fb_ix_is_const(pool, rest, &left) && left == 0;
}

/* The state that the product multiplies as it is; NULL: none. */
static const fb_carry *multiplied(const finder *f)
{
    const fb_phase *p = &f->nest->tiled->phases[0];
    const fb_section *s = &p->left.section;
    const fb_value *v = &s->values[s->roots[0].value];
    for (int i = 0; i < f->loop->n_carried; i++) {
        const fb_carry *c = &f->loop->carried[i];
        if (v->kind == FB_VALUE_LOAD && c->carried != FB_NONE && v->node == c->carried)
            return c->kind == FB_CARRY_SWAP && v->when == FB_NONE && v->table == FB_NONE &&
                           v->dtype == f->nest->tiled->dtype && is_element(f, v->at, p->left.outer, p->left.k, p->k)
                       ? c
                       : NULL;
    }
    return NULL;
}

static const fb_root *root_of(const finder *f, fb_id node)
{
    const fb_section *s = &f->nest->sections[0];
    for (int i = 0; i < s->n_roots; i++)
        if (s->roots[i].node == node && s->roots[i].table == FB_NONE) return &s->roots[i];
    return NULL;
}

/* Does the root lie row after row, as its points are counted? */
static bool lies_plainly(const finder *f, const fb_root *root)
{
    fb_index_pool *pool = f->nest->pool;
    const fb_space *rows = &f->nest->sections[0].rows;
    int64_t expect = 1, by, left;
    fb_ix rest = root->at;
    for (int d = rows->n - 1; d >= 0; d--) {
        if (!fb_ix_stride(pool, rest, rows->var[d], &by, &rest) || by != expect) return false;
        expect *= rows->extent[d];
    }
    return fb_ix_is_const(pool, rest, &left) && left == 0;
}

/* Is each state that the epilogue reads read where the same thread stores the next one? */
static bool keeps_to_its_own(const finder *f)
{
    const fb_section *s = &f->nest->sections[0];
    for (int i = 0; i < f->loop->n_carried; i++) {
        const fb_carry *c = &f->loop->carried[i];
        if (c->carried == FB_NONE || c->kind == FB_CARRY_SAME) continue;
        const fb_root *root = root_of(f, c->base);
        for (int v = 0; v < s->n_values; v++)
            if (s->values[v].kind == FB_VALUE_LOAD && s->values[v].node == c->carried &&
                (!root || s->values[v].at != root->at))
                return refuse(f, "`%s` is read where other blocks store it", f->g->nodes[c->carried].name);
        for (int p = 0; p < f->nest->tiled->n_products; p++) {
            const fb_section *right = &f->nest->tiled->products[p].right.section;
            for (int v = 0; v < right->n_values; v++)
                if (right->values[v].kind == FB_VALUE_LOAD && right->values[v].node == c->carried)
                    return refuse(f, "`%s` is multiplied by itself", f->g->nodes[c->carried].name);
        }
    }
    return true;
}

static bool find(finder *f, int *group, fb_id *made, fb_cluster_tile *tile)
{
    if (!is_one_stage(f)) return false;
    const fb_group *of = fb_plan_group(f->plan, f->loop->first);
    f->nest = of->nest;
    const char *loop = f->g->nodes[f->loop->node].name;
    if (!of->nest || !of->nest->tiled || of->source) return refuse(f, "the body of `%s` is no generated product", loop);
    fb_id moves = fb_plan_moves_right(f->plan, f->loop->region, of->nest);
    if (moves != FB_NONE) return refuse(f, "`%s`, by which it multiplies, changes", f->g->nodes[moves].name);
    if (!fb_cluster_tile_of(of->nest, &of->knobs, tile, f->says)) return false;
    const fb_carry *state = multiplied(f);
    const fb_root *root = state ? root_of(f, state->base) : NULL;
    if (!root || !lies_plainly(f, root) || f->g->nodes[root->node].dtype != of->nest->tiled->dtype)
        return refuse(f, "what `%s` multiplies is not a state as it was stored",
                      f->g->nodes[of->nest->tiled->products[0].node].name);
    if (!keeps_to_its_own(f)) return false;
    *group = f->loop->first;
    *made = root->node;
    return true;
}

static void tell(const finder *f, const fb_cluster_tile *x)
{
    if (!f->says) return;
    fb_str_addf(
        f->says,
        "each cluster of %d block%s takes %d of %lld rows through all steps: weights %lld KiB a block, in registers "
        "and shared memory, and the state goes round from block to block",
        x->blocks, x->blocks > 1 ? "s" : "", x->rows, (long long)f->nest->tiled->rows,
        (long long)x->weight_bytes >> 10);
}

bool fb_plan_recurrence(const fb_plan *plan, fb_id region, fb_recurrence *out, fb_str *says)
{
    const fb_machine *m = &plan->planner->machine;
    *out = (fb_recurrence){.group = FB_NONE, .made = FB_NONE};
    if (!m->target->clusters || plan->launch == FB_LAUNCH_MEGA || fb_plan_whole_loop(plan, region) != region)
        return false;
    fb_arena *arena = fb_arena_new();
    fb_loop loop;
    fb_str why = {0};
    fb_plan_loop(plan, region, arena, &loop);
    finder f = {.plan = plan, .g = plan->planner->g, .loop = &loop, .says = says ? &why : NULL};
    bool round = find(&f, &out->group, &out->made, &out->tile);
    if (round)
        tell(&f, &out->tile);
    else if (why.n)
        fb_str_addf(says, "the grid meets at each step: %s", fb_str_get(&why));
    if (round && why.n) fb_str_add(says, fb_str_get(&why));
    fb_str_free(&why);
    fb_arena_free(arena);
    return round;
}
