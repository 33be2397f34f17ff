/* What may be decided of one kernel without its nest: which nodes, how many, knobs, launch modes; and the table of all
 * rules. Each refusal is one of the rules (fb_rule_get) and names the nodes. plan/may.c has what a whole plan forbids.
 */
#include "judge/legality.h"

#include "base/mutate.h"
#include "graph/access.h"
#include "judge/parts.h"
#include "nest/parts.h"
#include "schedule/chain.h"
#include "schedule/gemm.h"
#include "schedule/schedule.h"

#include <math.h>

static const fb_rule_info table[] = {
    {FB_RULE_SAME_GROUP, "same group", "The two share a kernel already, or are apart already: there is nothing to do.",
     "same_group"},
    {FB_RULE_NOT_COMPUTED, "not computed",
     "Sources, views and loops belong to no kernel, so none of them can be fused or cut.", "not_computed"},
    {FB_RULE_NO_EDGE, "no edge", "A cut goes between a node and one that reads its value.", "no_edge"},
    {FB_RULE_CYCLE, "cycle", "A kernel cannot run both before and after another one.", "cycle"},
    {FB_RULE_REGION, "region", "Nodes inside a loop and nodes outside it, or in different loops, share no kernel.",
     "region"},
    {FB_RULE_WRITE_AFTER_READ, "write after read",
     "Every read of an assigned parameter must see the old value: in one kernel, only where it reads the very element "
     "that is written.",
     "write_after_read"},
    {FB_RULE_REDUCED_FIRST, "reduced first",
     "What needs all of a reduction before its first element cannot run in the kernel that reduces, unless a row is "
     "all.",
     "reduced_first"},
    {FB_RULE_ACCESS, "access", "Some access maps no family can follow inside a kernel.", "access_map"},
    {FB_RULE_GATHER, "gather", "Where an index is data, the value it points into must be complete in memory.",
     "gather"},
    {FB_RULE_CONTRACTION, "contraction", "A contraction stands where the family takes none, or more than it takes.",
     "contraction"},
    {FB_RULE_LIBRARY, "library", "A library call takes strided operands that are stored, and a pointwise epilogue.",
     "library"},
    {FB_RULE_SIZE, "size", "One kernel holds a limited number of nodes and buffers, and so much on chip as there is.",
     "size"},
    {FB_RULE_RECOMPUTE, "recompute",
     "Only pointwise values, joins and gathers that are no output are cheap enough to compute again.", "recompute"},
    {FB_RULE_KNOB, "knob", "The device, family or knob has no such setting.", "knob"},
    {FB_RULE_STEPS, "steps",
     "Steps that are written out are a loop where three or more in a row are equal and read each other, the same "
     "values "
     "from outside, or parts of one tensor that lie equally far apart.",
     "steps"},
};

_Static_assert(sizeof table / sizeof *table == FB_RULES - 1, "each rule that a verdict can name has a row here");

const fb_rule_info *fb_rule_get(fb_rule rule)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].rule == rule) return &table[i];
    return NULL;
}

/* ---- which nodes a kernel may hold ---- */

bool fb_may_own(const fb_planner *p, fb_id node, fb_verdict *why)
{
    if (node < 0 || node >= p->g->n_nodes)
        return FB_REFUSE(why, ILLEGAL, FB_RULE_NOT_COMPUTED, "there is no node %d in this graph", node);
    if (fb_node_is_computed(p->g, node)) return true;
    const fb_node *n = &p->g->nodes[node];
    fb_op_class cls = fb_node_class(p->g, node);
    if (cls == FB_CLASS_VIEW)
        return FB_REFUSE(why, ILLEGAL, FB_RULE_NOT_COMPUTED,
                         "`%s` is a view of `%s`: it is index arithmetic and belongs to no kernel", n->name,
                         p->g->nodes[fb_access_base(p->g, node)].name);
    if (cls == FB_CLASS_CONTROL)
        return FB_REFUSE(why, ILLEGAL, FB_RULE_NOT_COMPUTED, "`%s` is a loop: its body's nodes are fused, not the loop",
                         n->name);
    return FB_REFUSE(why, ILLEGAL, FB_RULE_NOT_COMPUTED, "`%s` is a source: it is in memory before any kernel runs",
                     n->name);
}

/* ---- the size of a kernel ---- */

/* Tensors that the kernel reads from memory or stores: what the nest would count, before it is built. */
static int buffers_of(const fb_planner *p, const fb_kernel_nodes *k)
{
    const fb_graph *g = p->g;
    bool *marked = fb_calloc((size_t)g->n_nodes, sizeof *marked);
    for (int i = 0; i < k->n_nodes; i++) marked[k->nodes[i]] = true;
    int count = k->n_stored;
    for (int i = 0; i < k->n_nodes; i++) {
        const fb_node *n = &g->nodes[k->nodes[i]];
        for (int j = 0; j < n->n_args; j++) {
            fb_id base = fb_access_base(g, n->args[j]);
            bool stored = p->vertex[base] || fb_judge_has_storage(g->nodes[base].op);
            count += stored && !marked[base];
            marked[base] = true;
        }
    }
    fb_free(marked);
    return count;
}

bool fb_may_be_kernel(const fb_planner *p, const fb_kernel_nodes *k, fb_verdict *why)
{
    if (k->n_nodes > FB_KERNEL_NODES)
        return FB_REFUSE(why, UNSUPPORTED, FB_RULE_SIZE, "one kernel would hold %d nodes; %d is the most", k->n_nodes,
                         FB_KERNEL_NODES);
    int buffers = k->n_nodes > 1 ? buffers_of(p, k) : 0;
    if (buffers > FB_MAX_KERNEL_BUFFERS)
        return FB_REFUSE(why, UNSUPPORTED, FB_RULE_SIZE, "the kernel would read and write %d tensors; %d is the most",
                         buffers, FB_MAX_KERNEL_BUFFERS);
    return true;
}

/* ---- knobs and launch modes ---- */

#define IN(family) (1u << FB_FAMILY_##family)

/* Which families have a knob on a kind of device, and its values: from `low` to `high`, multiples of `step`, powers of
 * two where the hardware splits evenly. WARP and BLOCK are the target's. */
enum { WARP = -1, BLOCK = -2 };
typedef struct {
    unsigned families;
    int64_t low, high, step;
    bool power_of_two;
} knob_row;

static const knob_row grid_knobs[FB_KNOBS] = {
    [FB_KNOB_ROWS] = {IN(POINTWISE) | IN(REDUCE) | IN(COPY), 1, 32, 1, true},
    [FB_KNOB_VECTOR] = {IN(POINTWISE) | IN(REDUCE) | IN(COPY), 1, 16, 1, true},
    [FB_KNOB_THREADS] = {IN(POINTWISE) | IN(REDUCE) | IN(COPY), WARP, BLOCK, WARP, false},
    [FB_KNOB_TILE_M] = {IN(GEMM) | IN(CHAIN), 16, 256, 1, true},
    [FB_KNOB_TILE_N] = {IN(GEMM) | IN(CHAIN), 8, 256, 8, false},
    [FB_KNOB_TILE_K] = {IN(GEMM) | IN(CHAIN), 8, 128, 1, true},
    [FB_KNOB_STAGES] = {IN(GEMM) | IN(CHAIN), 1, 8, 1, false},
    [FB_KNOB_SPLIT_K] = {IN(GEMM), 1, 128, 1, false},
    [FB_KNOB_PARTS] = {IN(POINTWISE) | IN(REDUCE) | IN(COPY), 1, 512, 1, false},
    [FB_KNOB_GRID] = {IN(POINTWISE) | IN(REDUCE) | IN(COPY), 1, 1 << 20, 1, false},
    [FB_KNOB_ATOMICS] = {IN(POINTWISE) | IN(REDUCE) | IN(COPY), 1, 1, 1, false},
};

static const knob_row team_knobs[FB_KNOBS] = {
    [FB_KNOB_ROWS] = {IN(POINTWISE) | IN(REDUCE) | IN(LIBRARY) | IN(COPY), 1, 1 << 20, 1, false},
    [FB_KNOB_VECTOR] = {IN(POINTWISE) | IN(REDUCE) | IN(LIBRARY) | IN(COPY), 1, 64, 1, true},
    [FB_KNOB_THREADS] = {IN(POINTWISE) | IN(REDUCE) | IN(LIBRARY) | IN(COPY), 1, 1024, 1, false},
};

static knob_row row_of(const fb_target *target, fb_knob knob)
{
    knob_row row = target->grid ? grid_knobs[knob] : team_knobs[knob];
    int64_t *values[] = {&row.low, &row.high, &row.step};
    for (int i = 0; i < 3; i++)
        if (*values[i] < 0) *values[i] = *values[i] == WARP ? target->warp : target->most_threads;
    return row;
}

/* A thread moves so many bytes at once at most: of the smallest elements there are, so many. */
static bool vector_fits(const fb_analysis *a, int most, int64_t value, fb_verdict *why)
{
    const fb_graph *g = a->kernel.graph;
    int smallest = most;
    fb_dtype dtype = FB_F32;
    for (int i = 0; i < a->kernel.n_nodes; i++) {
        const fb_node *n = &g->nodes[a->kernel.nodes[i]];
        for (int k = -1; k < n->n_args; k++) {
            fb_dtype d = k < 0 ? n->dtype : g->nodes[n->args[k]].dtype;
            if (fb_dtype_size(d) < smallest) smallest = fb_dtype_size(d), dtype = d;
        }
    }
    if (value * smallest <= most) return true;
    return FB_REFUSE(why, ILLEGAL, FB_RULE_KNOB, "a thread moves at most %d bytes at once: %d elements of %s, not %lld",
                     most, most / smallest, fb_dtype_name(dtype), (long long)value);
}

/* Nothing has parts that adds nothing up, and an index_add alone has atomic additions. */
static bool has_knob(const fb_analysis *a, knob_row row, fb_knob knob)
{
    if (!a->accepted || !(row.families & 1u << a->family)) return false;
    bool adds = knob != FB_KNOB_PARTS && knob != FB_KNOB_ATOMICS;
    for (int i = 0; i < a->kernel.n_nodes && !adds; i++) {
        const fb_id id = a->kernel.nodes[i];
        const fb_op_class class = fb_node_class(a->kernel.graph, id);
        adds = knob == FB_KNOB_PARTS && class != FB_CLASS_POINTWISE && class != FB_CLASS_VIEW &&
               class != FB_CLASS_JOIN && class != FB_CLASS_GATHER;
        adds |= a->kernel.graph->nodes[id].op == FB_OP_SCATTER_ADD;
    }
    return adds;
}

/* Which of its index_adds would not be done so, and why. */
static bool atomics_fit(const fb_analysis *a, fb_verdict *why)
{
    for (int i = 0; a->nest && i < a->nest->n_sections; i++) {
        const fb_section *s = &a->nest->sections[i];
        fb_added added;
        const char *no = fb_section_adds(a->nest, s, &added) ? fb_schedule_no_atomics(a->nest, s, &added) : NULL;
        if (no) return FB_REFUSE(why, UNSUPPORTED, FB_RULE_KNOB, "knob `atomics`: %s", no);
    }
    return true;
}

bool fb_may_set_knob(const fb_machine *m, const fb_analysis *a, const fb_knobs *have, fb_knob knob, int64_t value,
                     fb_verdict *why)
{
    if ((int)knob < 0 || knob >= FB_KNOBS) return FB_REFUSE(why, ILLEGAL, FB_RULE_KNOB, "there is no such knob");
    const char *name = fb_knob_name(knob);
    knob_row row = row_of(m->target, knob);
    if (!has_knob(a, row, knob))
        return FB_REFUSE(why, ILLEGAL, FB_RULE_KNOB, "kernels of family %s have no knob `%s` on %s",
                         fb_family_name(a->family), name, m->target->called);
    if (value != 0 && (value < row.low || value > row.high))
        return FB_REFUSE(why, ILLEGAL, FB_RULE_KNOB, "knob `%s` is from %lld to %lld, or 0 for automatic, not %lld",
                         name, (long long)row.low, (long long)row.high, (long long)value);
    if (row.power_of_two && (value & (value - 1)))
        return FB_REFUSE(why, ILLEGAL, FB_RULE_KNOB, "knob `%s` is a power of two, not %lld", name, (long long)value);
    if (value % row.step)
        return FB_REFUSE(why, ILLEGAL, FB_RULE_KNOB, "knob `%s` is a multiple of %lld, not %lld", name,
                         (long long)row.step, (long long)value);
    if (knob == FB_KNOB_VECTOR && !vector_fits(a, m->target->vector_bytes, value, why)) return false;
    if (knob == FB_KNOB_ATOMICS && value && !atomics_fit(a, why)) return false;
    fb_knobs knobs = have ? *have : (fb_knobs){0};
    knobs.value[knob] = value;
    return fb_judge_fits(a, &knobs, why);
}

bool fb_may_set_source(const fb_machine *m, const fb_analysis *a, const char *path, fb_verdict *why)
{
    if (!path || (a->accepted && (!m->target->library_epilogues || !fb_family_row_of(a->family)->calls))) return true;
    const char *node = a->kernel.graph->nodes[a->kernel.nodes[0]].name;
    if (!a->accepted)
        return FB_REFUSE(why, UNSUPPORTED, FB_RULE_KNOB, "`%s` alone is no kernel, and a file holds a kernel", node);
    return FB_REFUSE(why, UNSUPPORTED, FB_RULE_LIBRARY,
                     "`%s` is in a library call, which has no source: generate the product first", node);
}

bool fb_may_launch(const fb_machine *m, fb_launch_mode mode, fb_verdict *why)
{
    switch (mode) {
    case FB_LAUNCH_STREAM: return true;
    case FB_LAUNCH_GRAPH:
        if (isfinite(m->graph_launch_us)) return true;
        return FB_REFUSE(why, UNSUPPORTED, FB_RULE_KNOB,
                         "%s launches no graphs: launch mode `graph` is for CUDA devices", m->name);
    case FB_LAUNCH_MEGA:
        if (m->target->grid_barrier) return true;
        return FB_REFUSE(why, UNSUPPORTED, FB_RULE_KNOB,
                         "%s cannot make one kernel of a whole plan: launch mode `mega` is for CUDA devices", m->name);
    }
    return FB_REFUSE(why, ILLEGAL, FB_RULE_KNOB, "there is no such launch mode");
}

bool fb_may_overlap(const fb_planner *p, fb_verdict *why)
{
    if (fb_graph_copies(p->g)) return true;
    return FB_REFUSE(why, ILLEGAL, FB_RULE_KNOB,
                     "there are no copies to overlap: the graph feeds nothing and receives nothing");
}

bool fb_may_be_stage_of(const fb_planner *p, const fb_analysis *a, fb_id region, fb_verdict *why)
{
    const fb_graph *g = p->g;
    bool library = fb_family_row_of(a->family)->calls;
    if (!fb_judge_stands_alone(&p->machine, a->family)) return true;
    fb_id product = a->kernel.contractions[a->kernel.n_contractions - 1];
    return FB_REFUSE(
        why, UNSUPPORTED, FB_RULE_LIBRARY,
        library ? "`%s` is a library call, and %s as one kernel calls no library: it would have to be generated"
                : "`%s` is part of a chain, a kernel that stands by itself: %s cannot be one kernel with it",
        g->nodes[product].name, region ? "a loop" : "a plan");
}
