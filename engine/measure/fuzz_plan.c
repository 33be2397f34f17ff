/* Random plans, through the edits that users have. */
#include "measure/fuzz_parts.h"

#include "base/vec.h"
#include "decide/preset.h"
#include "judge/library.h"

#include <string.h>

enum { EDITS = 30, MOST_NODES = 8, CROWD = 100, ODD = 10 };

typedef struct {
    fb_random r;
    const fb_deps *deps;
    const fb_graph *g;
    fb_id computed[1024]; /* nodes that belong to groups */
    int n_computed;
} chooser;

static int64_t below(chooser *c, int64_t n)
{
    return fb_random_below(&c->r, n);
}

static fb_id any_computed(chooser *c)
{
    return c->computed[below(c, c->n_computed)];
}

/* A few nodes that may want to be one group: connected ones, ones of the same op, or any. */
static int choose_nodes(chooser *c, fb_id *to)
{
    int n = 0, most = 2 + (int)below(c, MOST_NODES - 1);
    int64_t how = below(c, 3);
    fb_id first = to[n++] = any_computed(c);
    for (int tries = 0; tries < 40 && n < most; tries++) {
        fb_id x = any_computed(c);
        if (how == 0) {
            const fb_edge *e = &c->deps->edges[below(c, c->deps->n_edges)];
            fb_id other = FB_NONE;
            for (int i = 0; i < n; i++) {
                if (e->producer == to[i]) other = e->consumer;
                if (e->consumer == to[i]) other = e->producer;
            }
            if (other == FB_NONE) continue;
            x = other;
        }
        if (how == 1 && c->g->nodes[x].op != c->g->nodes[first].op) continue;
        bool there = false;
        for (int i = 0; i < n; i++) there |= to[i] == x;
        if (!there) to[n++] = x;
    }
    return n;
}

static fb_edit choose_edit(chooser *c, fb_id *nodes)
{
    static const fb_edit_kind kinds[] = {
        FB_EDIT_FUSE,     FB_EDIT_FUSE,     FB_EDIT_FUSE,    FB_EDIT_FUSE,      FB_EDIT_FUSE,      FB_EDIT_FUSE,
        FB_EDIT_FUSE,     FB_EDIT_FUSE,     FB_EDIT_FUSE,    FB_EDIT_FUSE_ALL,  FB_EDIT_FUSE_ALL,  FB_EDIT_FUSE_ALL,
        FB_EDIT_CUT,      FB_EDIT_CUT,      FB_EDIT_ISOLATE, FB_EDIT_RECOMPUTE, FB_EDIT_RECOMPUTE, FB_EDIT_STORE,
        FB_EDIT_GENERATE, FB_EDIT_GENERATE, FB_EDIT_LIBRARY, FB_EDIT_KNOB,      FB_EDIT_KNOB,
    };
    fb_edit e = {.kind = kinds[below(c, sizeof kinds / sizeof *kinds)]};
    const fb_edge *edge = &c->deps->edges[below(c, c->deps->n_edges)];
    e.a = edge->producer, e.b = edge->consumer;
    switch (e.kind) {
    case FB_EDIT_FUSE:
        if (below(c, 4) == 0) e.a = any_computed(c), e.b = any_computed(c);
        break;
    case FB_EDIT_FUSE_ALL:
        e.n_nodes = choose_nodes(c, nodes);
        e.nodes = nodes;
        break;
    case FB_EDIT_KNOB: {
        static const int64_t values[] = {0, 1, 2, 3, 4, 8, 16, 32, 64, 100, 128, 256};
        e.a = any_computed(c);
        e.knob = (fb_knob)below(c, FB_KNOBS);
        e.value = values[below(c, sizeof values / sizeof *values)];
        for (int i = 0; i < 20 && e.knob == FB_KNOB_ATOMICS && c->g->nodes[e.a].op != FB_OP_SCATTER_ADD; i++)
            e.a = any_computed(c), e.value = 1;
        break;
    }
    case FB_EDIT_GENERATE:
    case FB_EDIT_LIBRARY: /* of a contraction, where there is one */
        e.a = any_computed(c);
        for (int i = 0; i < 20 && c->g->nodes[e.a].op != FB_OP_MATMUL; i++) e.a = any_computed(c);
        break;
    default: break;
    }
    return e;
}

/* What people try as well: nodes that belong to no kernel, ones that have nothing to do with each other, settings that
 * there are not, a crowd in one kernel. */
static fb_edit odd_edit(chooser *c, fb_id *nodes)
{
    static const int64_t values[] = {-1, 3, 5, 7, 24, 48, 511, 1 << 21};
    fb_id any = (fb_id)below(c, c->g->n_nodes), other = any_computed(c);
    switch (below(c, 7)) {
    case 0: return (fb_edit){.kind = FB_EDIT_CUT, .a = any_computed(c), .b = other};
    case 1: return (fb_edit){.kind = FB_EDIT_FUSE, .a = any, .b = other};
    case 2:
        return (fb_edit){.kind = FB_EDIT_KNOB,
                         .a = other,
                         .b = FB_NONE,
                         .knob = (fb_knob)below(c, FB_KNOBS),
                         .value = values[below(c, sizeof values / sizeof *values)]};
    case 3: {
        fb_edit e = {.kind = FB_EDIT_FUSE_ALL, .nodes = nodes};
        int64_t from = below(c, c->n_computed);
        while (e.n_nodes < CROWD && e.n_nodes < c->n_computed) {
            nodes[e.n_nodes] = c->computed[(from + e.n_nodes) % c->n_computed];
            e.n_nodes++;
        }
        return e;
    }
    case 4: return (fb_edit){.kind = FB_EDIT_LIBRARY, .a = any, .b = FB_NONE};
    case 5: return (fb_edit){.kind = FB_EDIT_ISOLATE, .a = any, .b = FB_NONE};
    default: return (fb_edit){.kind = FB_EDIT_RECOMPUTE, .a = any, .b = FB_NONE};
    }
}

/* What no plan may be, and what no machine does: asked for, and never taken. */
static void ask_nonsense(chooser *c, const fb_plan *plan)
{
    fb_id beyond = c->g->n_nodes + (fb_id)below(c, 3), any = (fb_id)below(c, c->g->n_nodes);
    const fb_edit asked[] = {
        {.kind = FB_EDIT_ISOLATE, .a = beyond, .b = FB_NONE},
        {.kind = FB_EDIT_FUSE, .a = any, .b = beyond},
        {.kind = FB_EDIT_KNOB, .a = any_computed(c), .b = FB_NONE, .knob = FB_KNOBS, .value = 1},
        {.kind = FB_EDIT_LAUNCH, .launch = (fb_launch_mode)(FB_LAUNCH_MEGA + 1)},
        {.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_GRAPH},
        {.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_MEGA},
        {.kind = FB_EDIT_SOURCE, .a = any, .b = FB_NONE, .source = "own.c"},
        {.kind = FB_EDIT_ROLL, .a = FB_NONE, .b = FB_NONE, .value = !fb_plan_rolled(plan)},
    };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) fb_plan_try(plan, &asked[i], NULL);
    /* a kernel of somebody's own, in what would be one kernel */
    fb_plan *own = NULL;
    const fb_edit source = {.kind = FB_EDIT_SOURCE, .a = any_computed(c), .b = FB_NONE, .source = "own.c"};
    fb_plan_try(plan, &source, &own);
    if (!own) return;
    fb_plan_try(own, &(fb_edit){.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_MEGA}, NULL);
    for (fb_id i = 0; i < c->g->n_nodes; i++)
        if (c->g->nodes[i].op == FB_OP_LOOP)
            fb_plan_try(own, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = i, .b = FB_NONE}, NULL);
    fb_plan_free(own);
}

static fb_plan *start(fb_planner *p, int which)
{
    fb_error err;
    const fb_preset *preset = fb_preset_at(which % fb_presets());
    /* a search takes its time, and is made of the edits below */
    bool quick = strcmp(preset->name, "best") != 0;
    fb_plan *plan = quick ? preset->make(p, &err) : NULL;
    return plan ? plan : fb_plan_new(p);
}

static fb_plan *edited(fb_plan *plan, const fb_edit *e, bool repeated)
{
    fb_plan *next = NULL;
    if (repeated)
        fb_plan_try_repeated(plan, e, &next);
    else
        fb_plan_try(plan, e, &next);
    if (!next) return plan;
    fb_plan_free(plan);
    return next;
}

/* A product as a library call or generated, and what follows it in the same kernel, one after the other. */
static fb_plan *dressed(chooser *c, fb_plan *plan)
{
    fb_id at = any_computed(c);
    for (int i = 0; i < 40 && c->g->nodes[at].op != FB_OP_MATMUL; i++) at = any_computed(c);
    if (c->g->nodes[at].op != FB_OP_MATMUL) return plan;
    fb_edit_kind how = below(c, 2) ? FB_EDIT_LIBRARY : FB_EDIT_GENERATE;
    plan = edited(plan, &(fb_edit){.kind = how, .a = at, .b = FB_NONE}, false);
    for (int64_t i = 1 + below(c, 5); i > 0; i--) {
        int n = 0;
        fb_id next = at;
        for (int k = 0; k < c->deps->n_edges; k++)
            if (c->deps->edges[k].producer == at && below(c, ++n) == 0) next = c->deps->edges[k].consumer;
        if (next == at) break;
        plan = edited(plan, &(fb_edit){.kind = FB_EDIT_FUSE, .a = at, .b = next}, false);
        at = next;
    }
    return plan;
}

/* Convolutions as a library's, where it has them: two of three. */
static fb_plan *convolving(chooser *c, fb_plan *plan)
{
    const fb_machine *m = fb_planner_machine(fb_plan_planner(plan));
    for (fb_id i = 0; i < c->g->n_nodes; i++)
        if (fb_library_convolves(m, c->g, i, NULL, NULL, NULL) && below(c, 3))
            plan = edited(plan, &(fb_edit){.kind = FB_EDIT_LIBRARY, .a = i, .b = FB_NONE}, false);
    return plan;
}

/* Some loops, or all of the plan, as one kernel, where they can be. */
static fb_plan *merged(chooser *c, fb_plan *plan)
{
    bool whole = below(c, 6) == 0;
    for (fb_id i = 0; i < c->g->n_nodes; i++)
        if (c->g->nodes[i].op == FB_OP_LOOP && below(c, 3) == 0)
            plan = edited(plan, &(fb_edit){.kind = FB_EDIT_GENERATE, .a = i, .b = FB_NONE}, false);
    return whole ? edited(plan, &(fb_edit){.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_MEGA}, false) : plan;
}

/* What there is to choose from. */
static void look(chooser *c, const fb_plan *plan)
{
    fb_planner *p = fb_plan_planner(plan);
    c->deps = fb_planner_deps(p);
    c->g = fb_planner_graph(p);
    c->n_computed = 0;
    for (fb_id i = 0; i < c->g->n_nodes && c->n_computed < 1024; i++)
        if (fb_node_is_computed(c->g, i)) c->computed[c->n_computed++] = i;
}

/* Steps that are written out, as a loop in two plans of three; in some written out again. */
static fb_plan *rolled(chooser *c, fb_plan *plan)
{
    if (!fb_planner_rolled(fb_plan_planner(plan))) return plan;
    for (int on = 1; on >= 0; on--)
        if (below(c, 3) < 1 + on) plan = edited(plan, &(fb_edit){.kind = FB_EDIT_ROLL, .value = on}, false);
    look(c, plan);
    return plan;
}

fb_machine fb_fuzz_machine(const fb_machine *own, uint64_t seed)
{
    enum { KIB = 1 << 10, MIB = 1 << 20 };
    static const int cores[] = {1, 2, 3, 4, 8, 16, 32, 96};
    static const int64_t core_bytes[] = {256 * KIB, 512 * KIB, 1 * MIB, 2 * MIB, 4 * MIB},
                         last_bytes[] = {4 * MIB, 32 * MIB, 256 * MIB};
    fb_machine m = *own;
    chooser c = {.r = {seed ^ 0x3c0735}};
    if (m.target->grid) { /* kernels for more than a GPU has do not start, those for less do */
        static const int shift[] = {0, 0, 0, 2, 5, 7};
        m.units = m.units >> shift[below(&c, sizeof shift / sizeof *shift)];
        if (m.units < 1) m.units = 1;
        if (below(&c, 3) == 0) m.cache_bytes = m.cache_bytes < MIB / 2 ? m.cache_bytes : MIB / 2;
        return m;
    }
    m.units = cores[below(&c, sizeof cores / sizeof *cores)];
    m.shared_bytes = core_bytes[below(&c, sizeof core_bytes / sizeof *core_bytes)];
    m.cache_bytes = last_bytes[below(&c, sizeof last_bytes / sizeof *last_bytes)];
    return m;
}

fb_plan *fb_fuzz_plan(fb_planner *p, uint64_t seed, int number)
{
    chooser c = {.r = {seed * 31 + (uint64_t)number}};
    if (number == 0) return fb_plan_new(p);
    fb_plan *plan = start(p, number == 1 ? (int)(seed % 5040) : (int)below(&c, fb_presets()));
    look(&c, plan);
    plan = rolled(&c, plan);
    int64_t edits = number == 1 ? 0 : 1 + below(&c, EDITS);
    fb_id nodes[CROWD + 1];
    for (int64_t i = 0; i < edits && c.deps->n_edges && c.n_computed; i++) {
        fb_edit e = below(&c, ODD) ? choose_edit(&c, nodes) : odd_edit(&c, nodes);
        plan = edited(plan, &e, below(&c, 4) == 0);
    }
    if (number > 1) plan = convolving(&c, plan);
    if (number > 1 && c.n_computed && below(&c, 3) == 0) plan = dressed(&c, plan);
    if (c.n_computed && below(&c, 12) == 0) ask_nonsense(&c, plan);
    if (fb_planner_machine(p)->target->graphs && below(&c, 2))
        plan = edited(plan, &(fb_edit){.kind = FB_EDIT_LAUNCH, .launch = FB_LAUNCH_GRAPH}, false);
    plan = merged(&c, plan);
    return below(&c, 2) ? edited(plan, &(fb_edit){.kind = FB_EDIT_OVERLAP, .value = 1}, false) : plan;
}
