/* What a loop that is one kernel keeps in shared memory from step to step: right operands of its products, as weights
 * are, where they stand still. Each block then reads its columns of them once, and not at every step.
 *
 * All stages of the loop share what a block has: the operands that stay, each in a place of its own, and the largest of
 * what a stage needs while it is at work. When that is too much, the largest goes. */
#include "base/str.h"
#include "nest/parts.h"
#include "plan/loops.h"
#include "plan/parts.h"
#include "schedule/gemm.h"

enum { RESERVE = 8 << 10 }; /* bytes a block: for what stages declare themselves */

typedef struct {
    const fb_plan *plan;
    const fb_graph *g;
    fb_id region;
    int n; /* groups of the plan */
    bool *kept;
    fb_gemm_tile *tile; /* a group: with its operands kept or not, where it is of family gemm */
    fb_arena *arena;
} keeper;

static bool is_inside(const keeper *k, fb_id region)
{
    return fb_region_within(k->g, region, k->region);
}

static bool is_assigned(const keeper *k, fb_id param)
{
    for (fb_id i = 0; i < k->g->n_nodes; i++) {
        const fb_node *n = &k->g->nodes[i];
        if (n->op == FB_OP_ASSIGN && is_inside(k, n->region) && fb_access_base(k->g, n->args[0]) == param) return true;
    }
    return false;
}

/* The first value that moves with the steps, or is not in memory at a place that is known; FB_NONE: none. */
static fb_id what_moves(const keeper *k, const fb_section *s)
{
    for (int i = 0; i < s->n_values; i++) {
        const fb_value *v = &s->values[i];
        if (v->kind == FB_VALUE_RANDOM) return v->node;
        if (v->kind != FB_VALUE_LOAD) continue;
        if (v->table != FB_NONE || is_inside(k, k->g->nodes[v->node].region) || is_assigned(k, v->node)) return v->node;
    }
    return FB_NONE;
}

static fb_id what_moves_right(const keeper *k, const fb_tiled *t)
{
    fb_id moves = FB_NONE;
    for (int p = 0; p < t->n_products && moves == FB_NONE; p++) moves = what_moves(k, &t->products[p].right.section);
    return moves;
}

fb_id fb_plan_moves_right(const fb_plan *plan, fb_id region, const fb_nest *nest)
{
    keeper k = {.plan = plan, .g = plan->planner->g, .region = region};
    return what_moves_right(&k, nest->tiled);
}

static const char *right_name(const keeper *k, const fb_tiled *t)
{
    const fb_section *s = &t->products[0].right.section;
    for (int i = 0; i < s->n_values; i++)
        if (s->values[i].kind == FB_VALUE_LOAD) return k->g->nodes[s->values[i].node].name;
    return k->g->nodes[t->products[0].node].name;
}

static bool is_tiled(const fb_group *group)
{
    return group->nest && group->nest->tiled;
}

static bool tile_of(keeper *k, int group, bool kept)
{
    const fb_group *of = fb_plan_group(k->plan, group);
    const fb_nest *nest = kept ? fb_nest_keep_right(of->nest, k->arena) : of->nest;
    fb_verdict why;
    return fb_gemm_tile_of(nest, &of->knobs, &k->tile[group], &why) ||
           fb_gemm_tile_of(nest, NULL, &k->tile[group], &why);
}

static void drop(keeper *k, int group)
{
    k->kept[group] = false;
    tile_of(k, group, false);
}

static int64_t moved_by(const fb_group *group)
{
    fb_nest_facts facts;
    int64_t bytes = 0;
    if (!group->nest) return 0;
    fb_nest_facts_of(group->nest, &facts);
    for (int i = 0; i < facts.n_reads; i++) bytes += facts.reads[i].bytes;
    for (int i = 0; i < facts.n_writes; i++) bytes += facts.writes[i].bytes;
    return bytes;
}

static int64_t shared_by(const keeper *k)
{
    int64_t most = 0, kept = 0;
    for (int i = 0; i < k->n; i++) {
        if (k->tile[i].shared_bytes > most) most = k->tile[i].shared_bytes;
        if (k->kept[i]) kept += k->tile[i].kept_bytes;
    }
    return most + kept;
}

static int largest(const keeper *k)
{
    int at = FB_NONE;
    for (int i = 0; i < k->n; i++)
        if (k->kept[i] && (at == FB_NONE || k->tile[i].kept_bytes > k->tile[at].kept_bytes)) at = i;
    return at;
}

/* A block that keeps much has a multiprocessor to itself: is it worth that to stages which move their bytes anew? */
static bool is_worth_it(const keeper *k)
{
    int64_t saved = 0, moved = 0;
    for (int i = 0; i < k->n; i++) {
        const fb_group *group = fb_plan_group(k->plan, i);
        if (k->kept[i])
            saved += k->tile[i].kept_bytes * k->tile[i].blocks;
        else if (is_inside(k, k->g->nodes[group->nodes[0]].region))
            moved += moved_by(group);
    }
    return saved >= moved;
}

static void say(fb_str *says, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(fb_str *says, const char *format, ...)
{
    va_list ap;
    if (!says) return;
    fb_str_add(says, says->n ? "; " : "");
    va_start(ap, format);
    fb_str_vaddf(says, format, ap);
    va_end(ap);
}

/* Groups whose right operands stand still, each as if it were alone. */
static void find_candidates(keeper *k, fb_str *says)
{
    for (int i = 0; i < k->n; i++) {
        const fb_group *group = fb_plan_group(k->plan, i);
        if (!is_inside(k, k->g->nodes[group->nodes[0]].region) || !is_tiled(group)) continue;
        const fb_tiled *t = group->nest->tiled;
        fb_id moves = what_moves_right(k, t);
        k->kept[i] = moves == FB_NONE && tile_of(k, i, true);
        if (moves != FB_NONE) say(says, "`%s` is read at each step, for it changes", k->g->nodes[moves].name);
        if (k->kept[i] && k->tile[i].blocks > t->units) {
            say(says, "`%s` is read at each step: it has %lld tiles, and the GPU %d multiprocessors to keep them on",
                right_name(k, t), (long long)k->tile[i].blocks, t->units);
            k->kept[i] = false;
        }
        if (!k->kept[i]) drop(k, i);
    }
}

void fb_plan_kept(const fb_plan *plan, fb_id region, bool *kept, fb_str *says)
{
    const fb_machine *m = &plan->planner->machine;
    int n = fb_plan_groups(plan);
    memset(kept, 0, (size_t)n * sizeof *kept);
    if (!m->target->keeps || plan->launch == FB_LAUNCH_MEGA) return;
    fb_arena *arena = fb_arena_new();
    keeper k = {.plan = plan, .g = plan->planner->g, .region = region, .n = n, .kept = kept, .arena = arena};
    k.tile = FB_NEW_ARRAY(arena, fb_gemm_tile, n + 1);
    find_candidates(&k, says);
    for (int at; (at = largest(&k)) != FB_NONE;) {
        const fb_tiled *t = fb_plan_group(plan, at)->nest->tiled;
        int64_t all = shared_by(&k) + RESERVE;
        if (all > m->shared_bytes) {
            say(says,
                "`%s` is read at each step: %lld KiB a block to keep it, of %lld that this kernel would have to have, "
                "and "
                "a block has %lld",
                right_name(&k, t), (long long)k.tile[at].kept_bytes >> 10, (long long)all >> 10,
                (long long)m->shared_bytes >> 10);
        } else if (!is_worth_it(&k)) {
            say(says, "`%s` is read at each step: keeping it would leave too few blocks to the other stages",
                right_name(&k, t));
        } else {
            break;
        }
        drop(&k, at);
    }
    for (int i = 0; i < n; i++)
        if (kept[i])
            say(says, "`%s` stays in shared memory, %lld KiB a block",
                right_name(&k, fb_plan_group(plan, i)->nest->tiled), (long long)k.tile[i].kept_bytes >> 10);
    fb_arena_free(arena);
}
