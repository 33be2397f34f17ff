/* Goes through outputs, loops and groups, and asks of each what lowering would have to copy for it. */
#include "plan/copies.h"

#include "graph/access.h"
#include "judge/library.h"
#include "nest/parts.h"
#include "plan/parts.h"

typedef struct {
    const fb_plan *plan;
    const fb_graph *g;
    fb_arena *arena;
    FB_VEC(fb_copied_value) found;
} finder;

/* ---- outputs ---- */

fb_leaving fb_leaving_of(const fb_graph *g, fb_arena *arena)
{
    fb_leaving l = {.node = FB_NEW_ARRAY(arena, fb_id, g->n_outputs + g->n_nodes)};
    for (int i = 0; i < g->n_outputs; i++) l.node[l.n++] = g->outputs[i];
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == FB_OP_RECEIVE && g->nodes[i].region == 0) l.node[l.n++] = g->nodes[i].args[0];
    return l;
}

fb_id fb_leaving_stands_in(const fb_graph *g, const fb_leaving *l, fb_id node)
{
    for (int i = 0; i < l->n; i++)
        if (l->node[i] == node) return node;
    for (int i = 0; i < l->n; i++) {
        fb_id base, out = l->node[i];
        if (!fb_node_is_computed(g, out) && fb_access_whole(g, out, &base) && base == node) return out;
    }
    return FB_NONE;
}

static void add(finder *f, fb_id node, fb_id region)
{
    if (fb_node_bytes(f->g, node) > 0) FB_VEC_PUSH(&f->found, ((fb_copied_value){node, region}));
}

static void add_outputs(finder *f)
{
    fb_leaving l = fb_leaving_of(f->g, f->arena);
    bool *seen = FB_NEW_ARRAY(f->arena, bool, f->g->n_nodes + 1);
    for (int i = 0; i < l.n; i++) {
        fb_id out = l.node[i], base = fb_access_base(f->g, out);
        bool source = fb_node_class(f->g, base) == FB_CLASS_SOURCE || f->g->nodes[base].op == FB_OP_FEED;
        if (seen[out] || fb_node_is_computed(f->g, out) || (out == base && !source)) continue;
        seen[out] = true;
        if (source || fb_leaving_stands_in(f->g, &l, base) != out || !fb_access_whole(f->g, out, &base)) add(f, out, 0);
    }
}

/* ---- loops ---- */

static void add_loop(finder *f, fb_id region)
{
    fb_loop loop;
    fb_id around = f->g->regions[region].parent;
    fb_plan_loop(f->plan, region, f->arena, &loop);
    fb_through through;
    const bool goes = fb_plan_goes_through(f->plan, region, f->arena, &through);
    for (int i = 0; i < loop.n_carried; i++) {
        const fb_carry *c = &loop.carried[i];
        const bool written = !goes || !fb_nest_start(&through, c->state);
        if (c->state != FB_NONE && written) add(f, c->init, around);
        if (loop.trips && c->kind == FB_CARRY_COPY) add(f, c->yield, region);
    }
    for (int i = 0; i < loop.n_scanned && loop.trips; i++) {
        const fb_scanned *s = &loop.scanned[i];
        if (s->item != FB_NONE && s->base == FB_NONE) add(f, s->scanned, around);
    }
    for (int i = 0; i < loop.n_collected && loop.trips; i++) {
        const fb_collected *c = &loop.collected[i];
        if (c->result != FB_NONE && c->base == FB_NONE && c->also == FB_NONE) add(f, c->value, region);
    }
}

/* One kernel counts for all loops that ask at which step they are. */
static void add_counters(finder *f)
{
    fb_id longest = FB_NONE;
    int64_t most = 0;
    for (fb_id i = 0; i < f->g->n_nodes; i++) {
        if (f->g->nodes[i].op != FB_OP_STEP || f->g->regions[f->g->nodes[i].region].trips <= most) continue;
        most = f->g->regions[f->g->nodes[i].region].trips;
        longest = i;
    }
    if (longest != FB_NONE) FB_VEC_PUSH(&f->found, ((fb_copied_value){longest, 0}));
}

/* ---- what libraries and chains read ---- */

typedef FB_VEC(fb_id) sources;

static bool is_computed_as_read(const fb_graph *g, fb_id base)
{
    return fb_node_class(g, base) == FB_CLASS_SOURCE && !fb_judge_has_storage(g->nodes[base].op) &&
           g->nodes[base].op != FB_OP_STEP;
}

static void add_source(const fb_plan *plan, fb_id node, sources *to)
{
    const fb_graph *g = plan->planner->g;
    fb_id base = node == FB_NONE ? FB_NONE : fb_access_base(g, node);
    if (base == FB_NONE || !is_computed_as_read(g, base)) return;
    for (int i = 0; i < to->n; i++)
        if (to->at[i] == base) return;
    FB_VEC_PUSH(to, base);
}

/* Can a bias or an addend of this call be such a source? (What the library's epilogue is takes longer to find out.) */
static bool may_add_source(const fb_graph *g, const fb_group *of)
{
    fb_contraction c = fb_contraction_of(g, of->nest->accumulator);
    for (int i = 0; i < of->n_nodes; i++) {
        const fb_node *n = &g->nodes[of->nodes[i]];
        for (int k = 0; k < n->n_args; k++) {
            bool single = fb_shape_elements(&g->nodes[n->args[k]].shape) == 1 && c.rows > 1 && c.columns > 1;
            if (!single && is_computed_as_read(g, fb_access_base(g, n->args[k]))) return true;
        }
    }
    return false;
}

static void add_operands(const fb_plan *plan, const fb_group *of, sources *to)
{
    const fb_graph *g = plan->planner->g;
    const fb_machine *m = &plan->planner->machine;
    const fb_chain *chain = of->nest->chain;
    for (int i = 0; chain && i < chain->n_links; i++) {
        add_source(plan, chain->link[i].b, to);
        add_source(plan, chain->link[i].a, to);
    }
    if (!fb_family_row_of(of->family)->calls) return;
    fb_id product = of->nest->accumulator;
    for (int arg = 0; arg < 2; arg++)
        if (!fb_library_lays_out(m, g, product, arg)) add_source(plan, g->nodes[product].args[arg], to);
    fb_library_epilogue epilogue;
    fb_verdict why;
    if (!m->target->library_epilogues || !may_add_source(g, of)) return;
    if (!fb_library_epilogue_of(m, &of->nest->kernel, &epilogue, &why)) return;
    add_source(plan, epilogue.bias, to);
    add_source(plan, epilogue.addend, to);
}

int fb_laid_sources(const fb_plan *plan, const fb_group *group, fb_arena *arena, fb_id **out)
{
    const fb_graph *g = plan->planner->g;
    sources found = {0};
    if (fb_judge_region_trips(g, g->nodes[group->nodes[0]].region) > 0) add_operands(plan, group, &found);
    int n = found.n;
    *out = fb_arena_copy(arena, found.at, (size_t)n * sizeof *found.at);
    FB_VEC_FREE(&found);
    return n;
}

/* ---- groups ---- */

static void add_laid_sources(finder *f, const fb_group *group, bool *seen)
{
    fb_id *source;
    int n = fb_laid_sources(f->plan, group, f->arena, &source);
    for (int k = 0; k < n; k++) {
        if (!seen[source[k]]) add(f, source[k], 0);
        seen[source[k]] = true;
    }
}

/* An assignment whose kernel stores beside its parameter. */
static void add_staged(finder *f, const fb_group *group)
{
    if (!fb_nest_staged(group->nest)) return;
    const fb_node *assign = &f->g->nodes[group->stored[0]];
    add(f, fb_access_base(f->g, assign->args[0]), assign->region);
}

/* By slots, for a search asks of plans that nobody has numbered. */
static void add_groups(finder *f)
{
    bool *seen = FB_NEW_ARRAY(f->arena, bool, f->g->n_nodes + 1);
    for (fb_id s = 0; s < f->g->n_nodes; s++) {
        if (!f->plan->slot[s].n || !fb_node_is_computed(f->g, s)) continue;
        const fb_analysis *a = fb_slots_analysis(f->plan, s);
        if (!a->nest) continue;
        const fb_group group = {.family = a->family,
                                .n_nodes = a->kernel.n_nodes,
                                .nodes = a->kernel.nodes,
                                .n_stored = a->kernel.n_stored,
                                .stored = a->kernel.stored,
                                .nest = a->nest};
        add_laid_sources(f, &group, seen);
        add_staged(f, &group);
    }
}

int fb_plan_copied_values(const fb_plan *plan, fb_arena *arena, fb_copied_value **out)
{
    finder f = {.plan = plan, .g = plan->planner->g, .arena = fb_arena_new()};
    add_counters(&f);
    for (fb_id r = 1; r < f.g->n_regions; r++) add_loop(&f, r);
    add_groups(&f);
    add_outputs(&f);
    int n = f.found.n;
    *out = fb_arena_copy(arena, f.found.at, (size_t)n * sizeof *f.found.at);
    FB_VEC_FREE(&f.found);
    fb_arena_free(f.arena);
    return n;
}

/* ---- cost ---- */

void fb_copying_cost(const fb_plan *plan, fb_id node, fb_group_cost *out)
{
    const fb_graph *g = plan->planner->g;
    fb_ids none = {0}, stored = {.n = 1, .at = &node};
    fb_analysis *a = fb_analyse(plan->planner, &none, &stored, FB_CHOICE_AUTO);
    *out = *fb_analysis_cost(plan->planner, a);
    fb_analysis_drop(plan->planner, a);
    if (g->nodes[node].op != FB_OP_STEP) return;
    out->bytes_read = 0;
    out->bytes_written = g->regions[g->nodes[node].region].trips * (int64_t)sizeof(int64_t);
}
