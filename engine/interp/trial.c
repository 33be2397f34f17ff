/* What is asked for becomes tasks: blocks of its leading rows, each evaluated with what it needs of every other node.
 *
 * requires  a finished graph
 * provides  every element of the wanted nodes, once, block by block
 *
 * Wanted nodes that share rows and work form one group (the mean, the deviation and the result of a layer_norm). Blocks
 * are as small as the cache likes, unless a block needs so much of the operands that all blocks together would repeat
 * too much of the work: then they are larger, down to one that is the whole, whose nodes are then split over the
 * threads instead. */
#include "interp/trial.h"

#include "base/debug.h"
#include "base/integer.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/str.h"
#include "graph/element.h"
#include "interp/parts.h"
#include "interp/trial_parts.h"

#include <stdlib.h>
#include <unistd.h>

enum {
    BLOCK = 1 << 15,
    SAMPLE_BLOCK = 1 << 12,
    PLACE_BLOCK = 1 << 6, /* around an element that is asked for */
    HANDED = 1 << 14,     /* elements that are worth a thread where they are handed over */
    HELD = 6,             /* values as large as the result that a block may hold */
    GROUPING_MOST = 1 << 22,
    LOOKS_MOST = 1 << 20, /* slots looked at for cuts that leave dimensions whole */
    RUN_LEAST = 256,      /* elements of such a block that lie together */
    LONG_MOST = 1 << 22,  /* elements of an operand that may be held as a whole */
    LONG_ROW = 1 << 18,   /* terms of a result from which on slabs are thought of */
    LONG_RESULTS = 1 << 14,
    NARROW = 16, /* terms of a result from which on it is little beside its operand */
    SLAB = 1 << 19,
    SPLIT_LEAST = 1 << 18, /* cost of what is worth several threads */
};

/* ---- what is needed ---- */

typedef struct {
    const fb_graph *g;
    const void **given; /* a node each */
    bool *needed;       /* a node each */
    bool *runs;         /* a region each */
} marks;

static bool set_by_loop(fb_op op)
{
    return op == FB_OP_CARRIED || op == FB_OP_ITEM || op == FB_OP_STEP;
}

/* Is the parameter assigned in a loop around a node of `region`? */
static bool changes_in_loop(const fb_graph *g, fb_id param, fb_id region)
{
    while (g->regions[region].parent > 0) region = g->regions[region].parent;
    for (fb_id id = 0; id < g->n_nodes; id++) {
        const fb_node *node = &g->nodes[id];
        if (node->op == FB_OP_ASSIGN && node->args[0] == param && fb_region_within(g, node->region, region))
            return true;
    }
    return false;
}

/* A node of a body can be had of one step where all is given that changes from step to step. */
static bool needs_its_loop(const marks *m, fb_id wanted)
{
    const fb_graph *g = m->g;
    fb_id region = g->nodes[wanted].region;
    if (region == 0) return false;
    bool *seen = fb_calloc((size_t)g->n_nodes, sizeof *seen), found = false;
    seen[wanted] = true;
    for (fb_id id = wanted; id >= 0 && !found; id--) {
        const fb_node *node = &g->nodes[id];
        if (!seen[id] || m->given[id] || !fb_shape_elements(&node->shape)) continue;
        found = set_by_loop(node->op) || (node->op == FB_OP_PARAM && changes_in_loop(g, id, region));
        for (int a = node->op == FB_OP_ASSIGN; a < node->n_args; a++) seen[node->args[a]] = true;
    }
    fb_free(seen);
    return found;
}

static void need_body(marks *m, fb_id loop)
{
    const fb_graph *g = m->g;
    fb_id region = g->nodes[loop].attrs->region;
    const fb_region *r = &g->regions[region];
    m->runs[region] = true;
    for (int i = 0; i < r->n_carried; i++) m->needed[r->yields[i]] = true;
    for (int i = 0; i < r->n_stacked; i++) m->needed[r->stacked[i]] = true;
    for (fb_id id = loop - 1; id >= 0 && fb_region_within(g, g->nodes[id].region, region); id--) {
        if (g->nodes[id].op != FB_OP_ASSIGN) continue;
        for (fb_id k = id; g->nodes[k].region != region; k = g->regions[g->nodes[k].region].loop)
            m->needed[g->regions[g->nodes[k].region].loop] = true;
        m->needed[id] = true;
    }
}

static bool in_running_body(const fb_graph *g, const bool *runs, fb_id id)
{
    for (fb_id r = g->nodes[id].region; r > 0; r = g->regions[r].parent) {
        if (runs[r]) return true;
    }
    return false;
}

static void mark(marks *m, const fb_id *want, int n_want)
{
    const fb_graph *g = m->g;
    for (int i = 0; i < n_want; i++) {
        m->needed[want[i]] = true;
        if (m->given[want[i]] || !needs_its_loop(m, want[i])) continue;
        for (fb_id r = g->nodes[want[i]].region; r > 0; r = g->regions[r].parent) m->needed[g->regions[r].loop] = true;
    }
    for (fb_id id = g->n_nodes - 1; id >= 0; id--) {
        const fb_node *node = &g->nodes[id];
        if (!m->needed[id] || m->given[id]) continue;
        if (node->op == FB_OP_LOOP) need_body(m, id);
        bool old = node->op == FB_OP_ASSIGN && !in_running_body(g, m->runs, id);
        for (int a = old; a < node->n_args; a++) m->needed[node->args[a]] = true;
    }
}

static fb_id stand_in(const fb_graph *g, fb_id id, fb_id region)
{
    while (g->nodes[id].region != region && g->nodes[id].region > 0) id = g->regions[g->nodes[id].region].loop;
    return id;
}

/* Windows are views of views of views: what only views of steps read is never copied by itself. */
static void find_through(fb_trial_shared *s)
{
    const fb_graph *g = s->g;
    bool *steps = fb_calloc((size_t)s->n_slots + 1, sizeof *steps);
    for (int k = 0; k < s->n_slots; k++) {
        steps[k] = fb_trial_steps(g->nodes[s->order[k]].op) && !s->leaf[k] && !s->in_body[k];
        s->through[k] = steps[k] && !s->kept[k];
    }
    for (int k = 0; k < s->n_slots; k++) {
        const fb_node *node = &g->nodes[s->order[k]];
        for (int a = 0; a < node->n_args && !steps[k] && !s->leaf[k]; a++)
            if (s->slot[node->args[a]] >= 0) s->through[s->slot[node->args[a]]] = false;
    }
    fb_free(steps);
}

/* Readers first, for what is read through a view lives as long as what the view would have been. */
static void find_last_uses(fb_trial_shared *s)
{
    const fb_graph *g = s->g;
    for (int k = s->n_slots - 1; k >= 0; k--) {
        const fb_node *node = &g->nodes[s->order[k]];
        for (int a = 0; a < node->n_args && !s->leaf[k]; a++) {
            int from = s->slot[node->args[a]];
            if (from < 0) continue;
            fb_id reader = s->through[k] && s->last_use[k] != FB_NONE ? s->last_use[k] : s->order[k];
            fb_id user = stand_in(g, reader, g->nodes[node->args[a]].region);
            if (user > s->last_use[from]) s->last_use[from] = user;
        }
    }
    for (fb_id r = 1; r < g->n_regions; r++) {
        for (int i = 0; i < g->regions[r].n_carried && s->runs[r]; i++)
            s->kept[s->slot[g->regions[r].yields[i]]] = true;
        for (int i = 0; i < g->regions[r].n_stacked && s->runs[r]; i++)
            s->kept[s->slot[g->regions[r].stacked[i]]] = true;
    }
}

/* How often a node is evaluated in a block. */
static double steps_of(const fb_trial_shared *s, int slot)
{
    double steps = 1;
    fb_id region = s->in_body[slot] && !s->fixed[slot] ? s->g->nodes[s->order[slot]].region : 0;
    for (fb_id r = region; r > 0; r = s->g->regions[r].parent)
        if (s->runs[r]) steps *= fmax((double)s->g->regions[r].trips, 1);
    return steps;
}

/* About how long an element takes in all lanes, next to a pointwise op. */
static double cost_of(const fb_trial_shared *s, int slot)
{
    const fb_node *node = &s->g->nodes[s->order[slot]];
    double cost = 1;
    if (s->leaf[slot]) return 0.1;
    switch (fb_op_get(node->op)->cls) {
    case FB_CLASS_POINTWISE: cost = fb_op_get(node->op)->special ? 4 : 1; break;
    case FB_CLASS_CONTRACTION: {
        const fb_shape *a = &s->g->nodes[node->args[0]].shape;
        cost = 1 + 0.05 * (double)a->dim[a->rank - 1];
        break;
    }
    case FB_CLASS_VIEW: cost = fb_trial_passes(s, slot) ? 0.01 : 0.5; break;
    default: break;
    }
    return cost * steps_of(s, slot);
}

/* An element that a product reads is loaded, packed and measured, by each block anew: about as long as six of its
 * multiplications in all lanes, or twenty of the exact one. */
static void find_costs(fb_trial_shared *s)
{
    const double operand = s->lanes > 1 ? 0.3 : 1;
    for (int k = 0; k < s->n_slots; k++) s->cost[k] = cost_of(s, k);
    for (int k = 0; k < s->n_slots; k++) {
        const fb_node *node = &s->g->nodes[s->order[k]];
        if (s->leaf[k] || fb_op_get(node->op)->cls != FB_CLASS_CONTRACTION) continue;
        for (int a = 0; a < node->n_args; a++)
            if (s->slot[node->args[a]] >= 0) s->cost[s->slot[node->args[a]]] += operand * steps_of(s, k);
    }
}

/* In f32 a fused multiply-add takes a product in as it is. Of a·b ± c·d it takes one of the two, and which one is the
 * compiler's choice. */
static void find_fused(fb_trial_shared *s)
{
    for (int k = 0; k < s->n_slots; k++) {
        const fb_node *node = &s->g->nodes[s->order[k]];
        bool sum = (node->op == FB_OP_ADD || node->op == FB_OP_SUB) && node->dtype == FB_F32 && !s->leaf[k];
        int products = 0;
        for (int a = 0; a < 2 && sum; a++) {
            int slot = s->slot[node->args[a]];
            if (slot < 0 || s->leaf[slot] || s->g->nodes[node->args[a]].op != FB_OP_MUL) continue;
            s->fused[slot] = true;
            products++;
        }
        s->again[k] = products > 0;
        if (products < 2 || node->args[0] == node->args[1]) continue;
        s->of_two[s->slot[node->args[0]]] = 1;
        s->of_two[s->slot[node->args[1]]] = 2;
    }
}

/* Of sums that take in products, those that several nodes read. */
static void find_again(fb_trial_shared *s)
{
    int *uses = fb_calloc((size_t)s->n_slots + 1, sizeof *uses);
    for (int k = 0; k < s->n_slots; k++) {
        const fb_node *node = &s->g->nodes[s->order[k]];
        for (int a = 0; a < node->n_args && !s->leaf[k]; a++)
            if (s->slot[node->args[a]] >= 0) uses[s->slot[node->args[a]]]++;
    }
    for (int k = 0; k < s->n_slots; k++) s->again[k] = s->again[k] && uses[k] > 1;
    fb_free(uses);
}

/* May a kernel that computes it anew have other bits than one that reads what was stored? A sum may be added up in
 * another order, a short product of matrices as well, 16 bits kept wider, a function be one of vectors in one loop and
 * of single numbers in another, and so what is made of such. `functions`: also where such a function is within a unit or
 * two of the other, which only a decision shows. */
static bool is_loose(const fb_trial_shared *s, const bool *loose, int slot, bool functions)
{
    const fb_node *node = &s->g->nodes[s->order[slot]];
    fb_op_class cls = fb_op_get(node->op)->cls;
    bool is_float = fb_dtype_is_float(node->dtype);
    if (s->leaf[slot]) return false;
    if (is_float && ((cls == FB_CLASS_REDUCTION && !fb_trial_is_extremum(node->op)) || cls == FB_CLASS_CONTRACTION))
        return true;
    if (cls != FB_CLASS_POINTWISE && cls != FB_CLASS_VIEW) return false;
    bool half = fb_dtype_is_half(node->dtype);
    bool function = functions && fb_bound_units(node->op) > 1; /* not one that is rounded correctly */
    bool composed = function || (node->op != FB_OP_MUL && !fb_bound_ends_rounded(node->op));
    if (is_float && cls == FB_CLASS_POINTWISE && (half || composed)) return true;
    for (int a = 0; a < node->n_args; a++)
        if (s->slot[node->args[a]] >= 0 && loose[s->slot[node->args[a]]]) return true;
    return false;
}

/* Of such values, and of whole numbers and truths that follow from them, those that several nodes read, through views or
 * as they are. */
static void find_apart(fb_trial_shared *s)
{
    size_t n = (size_t)s->n_slots + 1;
    int *base = fb_calloc(n, sizeof *base), *uses = fb_calloc(n, sizeof *uses);
    bool *loose = fb_calloc(n, sizeof *loose), *decided = fb_calloc(n, sizeof *decided);
    for (int k = 0; k < s->n_slots; k++) {
        const fb_node *node = &s->g->nodes[s->order[k]];
        bool view = fb_op_get(node->op)->cls == FB_CLASS_VIEW && !s->leaf[k] && s->slot[node->args[0]] >= 0;
        base[k] = view ? base[s->slot[node->args[0]]] : k;
        loose[k] = fb_dtype_is_float(node->dtype) && is_loose(s, loose, k, false);
        decided[k] = is_loose(s, decided, k, true);
        for (int a = 0; a < node->n_args && !s->leaf[k] && !view; a++)
            if (s->slot[node->args[a]] >= 0) uses[base[s->slot[node->args[a]]]]++;
    }
    for (int k = 0; k < s->n_slots; k++) {
        bool is_float = fb_dtype_is_float(s->g->nodes[s->order[k]].dtype);
        s->apart[k] = (is_float ? loose[k] : decided[k]) && uses[base[k]] > 1;
    }
    fb_free(decided);
    fb_free(loose);
    fb_free(uses);
    fb_free(base);
}

/* By the graph, whatever of it is needed. */
static void find_multiplied(fb_trial_shared *s)
{
    const fb_graph *g = s->g;
    bool *multiplied = fb_calloc((size_t)g->n_nodes + 1, sizeof *multiplied);
    for (fb_id id = g->n_nodes - 1; id >= 0; id--) {
        const fb_node *node = &g->nodes[id];
        fb_op_class cls = fb_op_get(node->op)->cls;
        bool reads = cls == FB_CLASS_CONTRACTION || (cls == FB_CLASS_VIEW && multiplied[id]);
        for (int a = 0; a < node->n_args && reads; a++) multiplied[node->args[a]] = true;
        if (s->slot[id] >= 0) s->multiplied[s->slot[id]] = multiplied[id];
    }
    fb_free(multiplied);
}

/* Values that have no choice: registers hold an f32, and where no product on the way may be fused into a sum or not,
 * all kernels round them alike, at each op. Two ways to the same value then end at the same bits. Products of matrices
 * and reductions are summed up once, to whatever bits; what is chosen among such sums has those bits. */
static bool is_steady(const fb_trial_shared *s, const fb_node *node)
{
    fb_op_class cls = fb_op_get(node->op)->cls;
    bool extremum = fb_trial_is_extremum(node->op), sums = cls == FB_CLASS_CONTRACTION || cls == FB_CLASS_REDUCTION;
    if (sums && !extremum) return node->dtype == FB_F32;
    if (node->dtype != FB_F32 && node->dtype != FB_BOOL) return false;
    if (cls != FB_CLASS_VIEW && !extremum && !(cls == FB_CLASS_POINTWISE && fb_bound_ends_rounded(node->op)))
        return false;
    for (int a = 0; a < node->n_args; a++) {
        int from = s->slot[node->args[a]];
        if (from < 0 || !s->steady[from]) return false;
    }
    return true;
}

/* Of steady values: is it a sum, or handed on as it is from one? */
static bool is_sum(const fb_trial_shared *s, const fb_node *node)
{
    fb_op_class cls = fb_op_get(node->op)->cls;
    bool extremum = fb_trial_is_extremum(node->op);
    if (!extremum && (cls == FB_CLASS_CONTRACTION || cls == FB_CLASS_REDUCTION)) return true;
    bool chooses = extremum || (fb_trial_chooses(node->op) && fb_bound_units(node->op) == 0), any = false;
    for (int a = 0; a < node->n_args && (chooses || cls == FB_CLASS_VIEW); a++)
        any = any || s->sum[s->slot[node->args[a]]];
    return any;
}

static void find_steady(fb_trial_shared *s)
{
    for (int k = 0; k < s->n_slots; k++) {
        const fb_node *node = &s->g->nodes[s->order[k]];
        s->steady[k] = s->leaf[k] || is_steady(s, node);
        s->sum[k] = s->steady[k] && !s->leaf[k] && is_sum(s, node);
    }
}

/* Those that hand on what they choose. */
static void number_choices(fb_trial_shared *s)
{
    unsigned before = 0;
    for (int k = 0; k < s->n_slots; k++) {
        s->led[k] = (unsigned char)(before % FB_TRIALS);
        before += fb_trial_chooses(s->g->nodes[s->order[k]].op);
    }
}

static void open_slots(fb_trial_shared *s, marks *m, const fb_id *want, int n_want)
{
    const fb_graph *g = s->g;
    for (fb_id id = 0; id < g->n_nodes; id++) s->n_slots += m->needed[id];
    size_t n = (size_t)s->n_slots + 1;
    s->order = fb_calloc(n, sizeof *s->order);
    s->slot = fb_calloc((size_t)g->n_nodes + 1, sizeof *s->slot);
    s->given = fb_calloc(n, sizeof *s->given);
    s->owned = fb_calloc(n, sizeof *s->owned);
    s->leaf = fb_calloc(n, sizeof *s->leaf);
    s->in_body = fb_calloc(n, sizeof *s->in_body);
    s->kept = fb_calloc(n, sizeof *s->kept);
    s->through = fb_calloc(n, sizeof *s->through);
    s->fused = fb_calloc(n, sizeof *s->fused);
    s->again = fb_calloc(n, sizeof *s->again);
    s->apart = fb_calloc(n, sizeof *s->apart);
    s->multiplied = fb_calloc(n, sizeof *s->multiplied);
    s->steady = fb_calloc(n, sizeof *s->steady);
    s->of_two = fb_calloc(n, sizeof *s->of_two);
    s->led = fb_calloc(n, sizeof *s->led);
    s->sum = fb_calloc(n, sizeof *s->sum);
    s->last_use = fb_calloc(n, sizeof *s->last_use);
    s->done = fb_calloc(n, sizeof *s->done);
    s->cost = fb_calloc(n, sizeof *s->cost);
    int k = 0;
    for (fb_id id = 0; id < g->n_nodes; id++) {
        s->slot[id] = m->needed[id] ? k : -1;
        if (!m->needed[id]) continue;
        const fb_node *node = &g->nodes[id];
        bool source = fb_op_get(node->op)->cls == FB_CLASS_SOURCE || node->op == FB_OP_FEED;
        s->order[k] = id;
        s->last_use[k] = FB_NONE;
        s->given[k] = m->given[id];
        s->leaf[k] = m->given[id] || (source && !set_by_loop(node->op));
        s->in_body[k] = in_running_body(g, s->runs, id);
        s->kept[k] = node->op == FB_OP_ASSIGN && s->in_body[k];
        k++;
    }
    for (int i = 0; i < n_want; i++) s->kept[s->slot[want[i]]] = true;
    find_through(s);
    find_last_uses(s);
    find_fused(s);
    find_again(s);
    find_apart(s);
    find_multiplied(s);
    find_steady(s);
    number_choices(s);
}

/* A loop whose steps may be run for some rows alone: nothing is assigned in it, no loop lies in it, what it hands on
 * from step to step is computed in it, and nobody looks into it. */
static bool goes_by_rows(const fb_trial_shared *s, fb_id region, const fb_id *want, int n_want)
{
    const fb_graph *g = s->g;
    const fb_region *r = &g->regions[region];
    if (!s->runs[region] || r->parent != 0) return false;
    for (fb_id k = 1; k < g->n_regions; k++)
        if (g->regions[k].parent == region) return false;
    for (int i = 0; i < n_want; i++)
        if (g->nodes[want[i]].region == region) return false;
    for (int i = 0; i < r->n_carried; i++)
        if (g->nodes[r->yields[i]].region != region || set_by_loop(g->nodes[r->yields[i]].op)) return false;
    for (fb_id id = r->loop - 1; id >= 0 && g->nodes[id].region == region; id--)
        if (g->nodes[id].op == FB_OP_ASSIGN) return false;
    return true;
}

/* Nothing but loops that go by rows scans it, and making it anew for some steps at a time costs no more. */
static bool is_streamed(const fb_trial_shared *s, int slot)
{
    const fb_graph *g = s->g;
    fb_id id = s->order[slot];
    if (s->leaf[slot]) return true;
    if (s->kept[slot] || g->nodes[id].region != 0) return false;
    for (int u = g->user_start[id]; u < g->user_start[id + 1]; u++) {
        const fb_node *user = &g->nodes[g->users[u]];
        if (s->slot[g->users[u]] >= 0 && (user->op != FB_OP_LOOP || !s->by_rows[user->attrs->region])) return false;
    }
    bool *seen = fb_calloc((size_t)id + 1, sizeof *seen), loops = false;
    seen[id] = true;
    for (fb_id k = id; k >= 0 && !loops; k--) {
        if (!seen[k] || s->slot[k] < 0 || s->leaf[s->slot[k]]) continue;
        loops = g->nodes[k].op == FB_OP_RESULT;
        for (int a = 0; a < g->nodes[k].n_args; a++) seen[g->nodes[k].args[a]] = true;
    }
    fb_free(seen);
    return !loops;
}

static void open_loops(fb_trial_shared *s, const fb_id *want, int n_want)
{
    const fb_graph *g = s->g;
    s->by_rows = fb_calloc((size_t)g->n_regions + 1, sizeof *s->by_rows);
    s->streams = fb_calloc((size_t)s->n_slots + 1, sizeof *s->streams);
    s->fixed = fb_calloc((size_t)s->n_slots + 1, sizeof *s->fixed);
    for (fb_id r = 1; r < g->n_regions; r++) s->by_rows[r] = goes_by_rows(s, r, want, n_want);
    for (fb_id id = 1; id < g->n_regions; id++) {
        const fb_region *r = &g->regions[id];
        const fb_node *loop = &g->nodes[r->loop];
        for (int i = 0; i < r->n_items && s->by_rows[id]; i++) {
            int scanned = s->slot[loop->args[r->n_carried + i]];
            if (scanned >= 0) s->streams[scanned] = is_streamed(s, scanned);
        }
    }
    for (int k = 0; k < s->n_slots; k++) {
        const fb_node *node = &g->nodes[s->order[k]];
        bool fixed = s->in_body[k] && s->by_rows[node->region] && (s->leaf[k] || !set_by_loop(node->op));
        for (int a = 0; a < node->n_args && fixed && !s->leaf[k]; a++) {
            int from = s->slot[node->args[a]];
            fixed = from >= 0 && (!s->in_body[from] || s->fixed[from]);
        }
        s->fixed[k] = fixed;
    }
}

static void open_shared(fb_trial_shared *s, const fb_id *want, int n_want)
{
    const fb_graph *g = s->g;
    marks m = {.g = g, .runs = s->runs = fb_calloc((size_t)g->n_regions + 1, sizeof *s->runs)};
    m.given = fb_calloc((size_t)g->n_nodes + 1, sizeof *m.given);
    m.needed = fb_calloc((size_t)g->n_nodes + 1, sizeof *m.needed);
    for (int i = 0; i < s->o->n_given; i++) m.given[s->o->given[i].node] = s->o->given[i].bytes;
    mark(&m, want, n_want);
    open_slots(s, &m, want, n_want);
    open_loops(s, want, n_want);
    find_costs(s);
    fb_free(m.given);
    fb_free(m.needed);
}

/* Files are read once, whole, and are as good as given then. */
static bool read_files(fb_trial_shared *s, fb_error *err)
{
    for (int k = 0; k < s->n_slots; k++) {
        const fb_node *node = &s->g->nodes[s->order[k]];
        bool draws =
            node->op == FB_OP_INPUT || node->op == FB_OP_PARAM || node->op == FB_OP_FEED || node->op == FB_OP_RANDOM;
        if (!draws || s->given[k] || node->attrs->dist != FB_DIST_FILE) continue;
        int64_t bytes = fb_node_bytes(s->g, s->order[k]);
        if (!(s->owned[k] = fb_try_alloc((size_t)bytes + 1)))
            return fb_fail(err, FB_ERR_LIMIT, "%s: no memory for the values of its file", node->name);
        if (!fb_interp_fill_source(s->g, s->order[k], s->o->seed, s->o->files, s->o->files_ctx, 0,
                                   fb_shape_elements(&node->shape), s->owned[k], err))
            return false;
        s->given[k] = s->owned[k];
    }
    return true;
}

static void close_shared(fb_trial_shared *s)
{
    for (int k = 0; k < s->n_slots; k++) fb_free(s->owned[k]);
    fb_free(s->owned);
    fb_free(s->given);
    fb_free(s->order);
    fb_free(s->slot);
    fb_free(s->leaf);
    fb_free(s->in_body);
    fb_free(s->runs);
    fb_free(s->by_rows);
    fb_free(s->streams);
    fb_free(s->fixed);
    fb_free(s->kept);
    fb_free(s->fused);
    fb_free(s->again);
    fb_free(s->apart);
    fb_free(s->multiplied);
    fb_free(s->steady);
    fb_free(s->of_two);
    fb_free(s->led);
    fb_free(s->sum);
    fb_free(s->last_use);
    fb_free(s->through);
    fb_free(s->cost);
    fb_free(s->done);
    pthread_mutex_destroy(&s->lock);
}

/* ---- blocks ---- */

/* Wanted nodes cut alike: dimensions before d one by one, d in ranges of `rows`; those in `whole`, and all after d, are
 * not cut. What a node is summed over, or what a loop runs along, is left whole, and its rows are cut behind that. */
typedef struct {
    int n, *members; /* indices of want */
    int *shift;      /* a member each: where its dimensions lie, next to the first one's */
    int d;
    unsigned whole;
    int64_t rows, outer, per; /* outer · per blocks; per: of one index before d */
    int64_t n_blocks;
    double cost, bytes; /* of one */
    double once;        /* the most that one evaluation of a node in it costs: of a loop's body, in one step */
} group;

typedef struct {
    fb_trial_shared *s;
    const fb_id *want;
    int n_want;
    fb_trial_sink sink;
    void *sink_ctx;
    fb_trial_value *trial; /* a slot each: for estimates */
    double *freed;         /* the same: cells that are not needed after it */
    bool *agrees;          /* the same: all lanes are one */
    group *groups;
    int n_groups;
    int64_t *tasks; /* group << 40 | block */
    int64_t n_tasks;
    int n_serial; /* the first tasks run one after the other, on all threads */
    atomic_llong next;
} run;

static const fb_shape *shape_of(const run *r, int want)
{
    return &r->s->g->nodes[r->want[want]].shape;
}

/* What blocks may hold together: beside what is kept, and a part for what was not foreseen. */
static double room_of(const run *r)
{
    double most = (double)r->s->bytes_max;
    return fmax(0.8 * (most - (double)atomic_load(&r->s->bytes)), most / 8);
}

static bool is_whole(const group *gr, int d)
{
    return gr->whole >> d & 1;
}

/* Cuts the group's first member into blocks of about `target` elements. */
static void cut(const run *r, group *gr, unsigned whole, int64_t target)
{
    const fb_shape *shape = shape_of(r, gr->members[0]);
    int64_t after = fb_shape_elements(shape);
    gr->outer = gr->per = gr->n_blocks = gr->rows = 1;
    gr->d = -1;
    gr->whole = whole;
    if (after <= target) return;
    int last = shape->rank - 1;
    while (is_whole(gr, last)) last--;
    for (gr->d = 0; gr->d < last; gr->d++) {
        if (is_whole(gr, gr->d)) continue;
        if (after / shape->dim[gr->d] <= target) break;
        after /= shape->dim[gr->d];
        gr->outer *= shape->dim[gr->d];
    }
    after /= shape->dim[gr->d];
    gr->rows = after > 0 && target / after > 0 ? target / after : 1;
    gr->per = fb_ceil_div(shape->dim[gr->d], gr->rows);
    gr->n_blocks = gr->outer * gr->per;
}

/* Of member i. */
static fb_box block_box(const run *r, const group *gr, int i, int64_t block)
{
    const fb_shape *shape = shape_of(r, gr->members[i]);
    fb_box b = fb_box_whole(shape);
    if (gr->d < 0) return b;
    int64_t outer = block / gr->per, first = block % gr->per * gr->rows;
    int shift = gr->shift[i];
    for (int d = gr->d - 1; d >= 0; d--) {
        if (is_whole(gr, d)) continue;
        b.lo[d + shift] = outer % shape->dim[d + shift];
        b.hi[d + shift] = b.lo[d + shift] + 1;
        outer /= shape->dim[d + shift];
    }
    int d = gr->d + shift;
    b.lo[d] = first;
    if (first + gr->rows < b.hi[d]) b.hi[d] = first + gr->rows;
    return b;
}

/* Elements of a block of the first member that lie together. */
static int64_t run_of_cut(const run *r, const group *gr)
{
    const fb_shape *shape = shape_of(r, gr->members[0]);
    int64_t together = gr->rows;
    for (int d = gr->d + 1; d < shape->rank; d++) together *= shape->dim[d];
    return together;
}

/* Demands a block; returns the slots that may be needed. */
static int demand_block(const run *r, const group *gr, int64_t block, fb_trial_value *values)
{
    int end = 0;
    for (int i = 0; i < gr->n; i++) {
        fb_id id = r->want[gr->members[i]];
        fb_trial_value *v = &values[r->s->slot[id]];
        fb_box box = block_box(r, gr, i, block);
        if (fb_box_cells(&box, shape_of(r, gr->members[i])->rank) == 0) continue;
        /* A node of a loop's body is there when all that is needed of the loop is. */
        fb_id root = id;
        for (fb_id k = r->s->g->nodes[id].region; k > 0 && r->s->in_body[r->s->slot[id]];
             k = r->s->g->regions[k].parent) {
            if (r->s->runs[k]) root = r->s->g->regions[k].loop;
        }
        if (v->wanted)
            fb_box_join(&v->box, &box, shape_of(r, gr->members[i])->rank);
        else
            v->box = box;
        v->wanted = true;
        if (root != id) {
            fb_trial_value *loop = &values[r->s->slot[root]];
            loop->box = (fb_box){0};
            loop->wanted = true;
        }
        if (r->s->slot[root] + 1 > end) end = r->s->slot[root] + 1;
    }
    fb_trial_demand(r->s, values, end);
    return end;
}

/* Where all lanes agree a value has one plane: leaves, and what is moved of such. */
static void find_agreeing(const run *r, int end)
{
    const fb_trial_shared *s = r->s;
    for (int k = 0; k < end; k++) {
        const fb_node *node = &s->g->nodes[s->order[k]];
        fb_op_class cls = fb_op_get(node->op)->cls;
        bool moves = cls == FB_CLASS_VIEW || cls == FB_CLASS_JOIN;
        for (int a = 0; a < node->n_args && moves; a++) {
            int x = s->slot[node->args[a]];
            moves = x >= 0 && r->agrees[x];
        }
        r->agrees[k] = s->done[k].lanes ? s->done[k].lanes == 1 : s->leaf[k] || moves;
    }
}

/* The most that is held at a time: each value from where it is made to its last use, and as much again beside sums of
 * products and what is handed over. */
static double block_bytes(const run *r, int end)
{
    const fb_trial_shared *s = r->s;
    double cells = 0, most = 0;
    find_agreeing(r, end);
    for (int k = 0; k < end; k++) r->freed[k] = 0;
    for (int k = 0; k < end; k++) {
        double beside = 0;
        const fb_trial_value *v = &r->trial[k];
        if (v->wanted) {
            int lanes = fb_trial_passes(s, k) ? 0 : r->agrees[k] ? 1 : s->lanes;
            double own = (double)fb_box_cells(&v->box, s->g->nodes[s->order[k]].shape.rank) * lanes;
            int last = s->last_use[k] == FB_NONE || s->kept[k] || s->in_body[k] ? FB_NONE : s->slot[s->last_use[k]];
            cells += own;
            if (last >= 0 && last < end) r->freed[last] += own;
            fb_op_class cls = fb_op_get(s->g->nodes[s->order[k]].op)->cls;
            bool twice = s->kept[k] || cls == FB_CLASS_CONTRACTION || cls == FB_CLASS_GATHER;
            beside = twice && !s->leaf[k] ? own : 0;
        }
        most = fmax(most, cells + beside);
        cells -= r->freed[k];
    }
    return 8 * most;
}

static double costliest_of(const run *r, int end)
{
    const fb_trial_shared *s = r->s;
    double most = 0;
    for (int k = 0; k < end; k++) {
        if (!r->trial[k].wanted) continue;
        double cells = (double)fb_box_cells(&r->trial[k].box, s->g->nodes[s->order[k]].shape.rank);
        most = fmax(most, cells * s->cost[k] / steps_of(s, k));
    }
    return most;
}

/* The block that stands for all: never the last of an outer index's several, which may be cut short. */
static int64_t middle_of(const group *gr)
{
    int64_t block = (gr->n_blocks - 1) / 2;
    return gr->per > 1 && block % gr->per == gr->per - 1 ? block - 1 : block;
}

static double block_cost(const run *r, group *gr, int64_t block)
{
    for (int k = 0; k < r->s->n_slots; k++) r->trial[k].wanted = false;
    int end = demand_block(r, gr, block, r->trial);
    gr->bytes = block_bytes(r, end);
    gr->once = costliest_of(r, end);
    return fb_trial_cost(r->s, r->trial, end);
}

/* Has the node the dimensions that are cut, `shift` places on? */
static bool cuts_alike(const run *r, const group *gr, int want, int shift)
{
    const fb_shape *a = shape_of(r, gr->members[0]), *b = shape_of(r, want);
    if (gr->d < 0 || b->rank <= gr->d + shift) return false;
    for (int d = 0; d <= gr->d; d++) {
        if (is_whole(gr, d)) continue;
        if (d + shift < 0 || a->dim[d] != b->dim[d + shift]) return false;
    }
    return true;
}

/* The block that an element of the first member is in. */
static int64_t block_of(const run *r, const group *gr, int64_t element)
{
    const fb_shape *shape = shape_of(r, gr->members[0]);
    int64_t index[FB_MAX_RANK], outer = 0;
    if (gr->d < 0) return 0;
    for (int d = shape->rank - 1; d >= 0; d--) {
        index[d] = element % shape->dim[d];
        element /= shape->dim[d];
    }
    for (int d = 0; d < gr->d; d++)
        if (!is_whole(gr, d)) outer = outer * shape->dim[d] + index[d];
    return outer * gr->per + index[gr->d] / gr->rows;
}

/* The blocks that hold what is asked for, each once, into `to`, which has room for as many as there are elements. */
static int64_t blocks_asked(const run *r, const group *gr, int64_t *to)
{
    const fb_trial_options *o = r->s->o;
    int64_t n = 0;
    for (int64_t k = 0; k < o->n_at; k++) to[k] = block_of(r, gr, o->at[k]);
    qsort(to, (size_t)o->n_at, sizeof *to, fb_by_int64);
    for (int64_t k = 0; k < o->n_at; k++)
        if (!n || to[k] != to[n - 1]) to[n++] = to[k];
    return n;
}

/* The blocks of a group that are evaluated: all, or some evenly spread from first to last. Smaller members come along:
 * the mean of a row with the row. Of elements that are asked for, as many blocks at most. */
static int64_t blocks_of(const run *r, const group *gr)
{
    if (r->s->o->at) return r->s->o->n_at < gr->n_blocks ? r->s->o->n_at : gr->n_blocks;
    int64_t n = fb_shape_elements(shape_of(r, gr->members[0])), sample = r->s->o->sample;
    if (!sample || sample >= n || gr->n_blocks < 3) return gr->n_blocks;
    int64_t blocks = fb_ceil_div(sample * gr->n_blocks, n) + 1;
    return blocks < 3 ? 3 : blocks < gr->n_blocks ? blocks : gr->n_blocks;
}

static bool is_sampled(const fb_trial_options *o)
{
    return o->sample || o->at;
}

/* Elements of the smallest blocks. */
static int64_t block_least(const fb_trial_options *o)
{
    return o->at ? PLACE_BLOCK : o->sample ? SAMPLE_BLOCK : BLOCK;
}

/* What a group's cut is chosen from. */
typedef struct {
    int64_t n, target;
    double whole, least, most; /* costs of all in one, and of the best sample so far; bytes of a block */
    group largest;             /* that fits */
} choice;

/* The smallest blocks that do not repeat too much; of a sample, those that cost least. False: none yet. */
static bool cut_beside(const run *r, group *gr, unsigned whole, choice *c)
{
    int64_t before = 0;
    for (int64_t target = c->target; target < c->n; target *= 2) {
        group finer = *gr;
        cut(r, &finer, whole, target);
        if (finer.n_blocks == before || (whole && run_of_cut(r, &finer) < RUN_LEAST)) continue;
        before = finer.n_blocks;
        finer.cost = block_cost(r, &finer, middle_of(&finer));
        double all = finer.cost * (double)blocks_of(r, &finer);
        if (c->largest.n_blocks == 1 || finer.bytes <= c->most) c->largest = finer;
        if (is_sampled(r->s->o)) {
            if (all < c->least) c->least = all, *gr = finer;
            continue;
        }
        bool few = finer.n_blocks <= 4 * fb_trial_threads(r->s->o);
        if (all > (few ? 2 : 1.5) * c->whole || finer.bytes > c->most) continue;
        *gr = finer;
        return true;
    }
    return false;
}

/* Is there something to win by leaving dimensions whole? Not where each is looked at for very many nodes. */
static bool looks_beside(const run *r, const group *gr, const choice *c)
{
    int rank = shape_of(r, gr->members[0])->rank;
    if (rank < 2 || rank > 6 || (double)r->n_want * r->s->n_slots * (1 << (rank - 1)) > LOOKS_MOST) return false;
    if (!is_sampled(r->s->o)) return true;
    double part = fmin(1, (double)(r->s->o->at ? r->s->o->n_at : r->s->o->sample) / (double)c->n);
    return gr->n_blocks == 1 || c->least > 2 * part * c->whole;
}

/* As small as the cache likes; larger where blocks share too much, but no larger than memory. */
static void choose_cut(const run *r, group *gr, int64_t target)
{
    choice c = {.n = fb_shape_elements(shape_of(r, gr->members[0])), .target = target, .most = room_of(r)};
    cut(r, gr, 0, c.n);
    gr->cost = c.whole = c.least = block_cost(r, gr, 0);
    bool fits = gr->bytes <= c.most;
    c.largest = *gr;
    /* An element that is a sum of many is a block of many. */
    double share = HELD * 8.0 * (double)target * r->s->lanes / (gr->bytes + 1), fine = share * (double)c.n;
    if (fine < (double)target) c.target = fine > 1 ? (int64_t)fine : 1;
    bool good = cut_beside(r, gr, 0, &c);
    double all = gr->cost * (double)blocks_of(r, gr);
    if (good && !is_sampled(r->s->o) && all <= 1.1 * c.whole) return;
    unsigned masks = looks_beside(r, gr, &c) ? 1u << (shape_of(r, gr->members[0])->rank - 1) : 0;
    for (unsigned whole = 1; whole < masks; whole++) {
        group other = *gr;
        if (!cut_beside(r, &other, whole, &c) && !is_sampled(r->s->o)) continue;
        if (good && other.cost * (double)blocks_of(r, &other) >= all) continue;
        *gr = other;
        all = gr->cost * (double)blocks_of(r, gr);
        good = true;
    }
    /* Blocks that do not fit either would only compute the same again and again, where the whole is not too large. */
    bool helps = c.largest.bytes <= c.most || gr->bytes > (double)r->s->bytes_max;
    if (!fits && gr->n_blocks == 1 && helps) *gr = c.largest;
}

/* Does it share work when it is cut `shift` places on? */
static bool joins(const run *r, group *gr, int want, int shift)
{
    if (!cuts_alike(r, gr, want, shift)) return false;
    group alone = *gr;
    alone.n = 1;
    alone.members = &want;
    alone.shift = &shift;
    double own = block_cost(r, &alone, middle_of(gr)), bytes = gr->bytes;
    gr->members[gr->n] = want;
    gr->shift[gr->n++] = shift;
    double both = block_cost(r, gr, middle_of(gr));
    double most = room_of(r) / fb_trial_threads(r->s->o);
    if (both < 0.9 * (own + gr->cost) + 1 && gr->bytes <= fmax(most, 1.05 * bytes)) {
        gr->cost = both;
        return true;
    }
    gr->n--;
    gr->bytes = bytes;
    return false;
}

/* Others that are cut alike and share the work: at the same dimensions, or at the same from behind. */
static void gather_members(const run *r, group *gr, bool *taken)
{
    for (int w = 0; w < r->n_want && gr->n_blocks > 1; w++) {
        int behind = shape_of(r, w)->rank - shape_of(r, gr->members[0])->rank;
        if (!taken[w]) taken[w] = joins(r, gr, w, 0) || (behind && joins(r, gr, w, behind));
    }
}

/* The largest first. What cannot be cut is evaluated together: its parts may share anything. */
static void open_groups(run *r)
{
    bool *taken = fb_calloc((size_t)r->n_want + 1, sizeof *taken);
    int64_t target = block_least(r->s->o);
    bool compares = (int64_t)r->n_want * r->n_want < GROUPING_MOST / (r->s->n_slots + 1);
    r->groups = fb_calloc((size_t)r->n_want + 1, sizeof *r->groups);
    int together = -1;
    for (;;) {
        int best = -1;
        for (int w = 0; w < r->n_want; w++) {
            int64_t n = fb_shape_elements(shape_of(r, w));
            if (n == 0) taken[w] = true;
            if (!taken[w] && (best < 0 || n > fb_shape_elements(shape_of(r, best)))) best = w;
        }
        if (best < 0) break;
        group gr = {.n = 1,
                    .members = fb_alloc((size_t)r->n_want * sizeof *gr.members),
                    .shift = fb_calloc((size_t)r->n_want, sizeof *gr.shift)};
        gr.members[0] = best;
        taken[best] = true;
        choose_cut(r, &gr, target);
        if (compares) gather_members(r, &gr, taken);
        if (gr.n_blocks > 1 || together < 0) {
            if (gr.n_blocks == 1) together = r->n_groups;
            r->groups[r->n_groups++] = gr;
            continue;
        }
        r->groups[together].members[r->groups[together].n++] = best;
        fb_free(gr.members);
        fb_free(gr.shift);
    }
    for (int k = 0; k < r->n_groups; k++) r->groups[k].cost = block_cost(r, &r->groups[k], middle_of(&r->groups[k]));
    fb_free(taken);
}

static void close_groups(run *r)
{
    for (int k = 0; k < r->n_groups; k++) {
        fb_free(r->groups[k].members);
        fb_free(r->groups[k].shift);
    }
    fb_free(r->groups);
    r->groups = NULL;
    r->n_groups = 0;
}

/* ---- what many blocks would compute again ---- */

/* How often blocks ask for all of a slot, and what it costs them, parts as well. */
typedef struct {
    double *times, *cost; /* a slot each */
    bool *whole;          /* a slot each: several ask for all of it */
    bool *first;          /* a slot each: some node that is not whole reads it, or it is wanted itself */
    double all, again;
} sharing;

/* What small blocks of a wanted node alone would ask for; one of them stands for all. */
static void look_at_want(const run *r, int want, sharing *of)
{
    const fb_trial_shared *s = r->s;
    int shift = 0;
    group alone = {.n = 1, .members = &want, .shift = &shift}, *gr = &alone;
    if (fb_shape_elements(shape_of(r, want)) == 0) return;
    cut(r, gr, 0, block_least(s->o));
    double blocks = (double)blocks_of(r, gr);
    for (int k = 0; k < s->n_slots; k++) r->trial[k].wanted = false;
    int end = demand_block(r, gr, middle_of(gr), r->trial);
    for (int k = 0; k < end; k++) {
        const fb_shape *shape = &s->g->nodes[s->order[k]].shape;
        if (!r->trial[k].wanted) continue;
        int64_t cells = fb_box_cells(&r->trial[k].box, shape->rank);
        if (cells == fb_shape_elements(shape)) of->times[k] += blocks;
        of->cost[k] += blocks * s->cost[k] * (double)cells;
        of->all += blocks * s->cost[k] * (double)cells;
    }
}

/* Slots that are asked for again and again as a whole, and of these the ones to keep. */
static void look_at_slots(const run *r, sharing *of)
{
    const fb_trial_shared *s = r->s;
    for (int k = 0; k < s->n_slots; k++) {
        const fb_node *node = &s->g->nodes[s->order[k]];
        of->whole[k] = of->times[k] > 1 && !s->leaf[k];
        if (of->whole[k]) of->again += of->cost[k] - s->cost[k] * (double)fb_shape_elements(&node->shape);
    }
    for (int k = 0; k < s->n_slots; k++) {
        const fb_node *node = &s->g->nodes[s->order[k]];
        if (of->cost[k] == 0 || s->leaf[k] || s->in_body[k]) continue;
        for (int a = 0; a < node->n_args && !of->whole[k]; a++)
            if (s->slot[node->args[a]] >= 0) of->first[s->slot[node->args[a]]] = true;
        of->first[k] = of->first[k] || s->kept[k];
    }
    for (int k = 0; k < s->n_slots; k++) {
        fb_op op = s->g->nodes[s->order[k]].op;
        of->first[k] = of->first[k] && of->whole[k] && !s->in_body[k] && op != FB_OP_LOOP && op != FB_OP_ASSIGN;
    }
}

/* The value is there for all blocks, whole. */
static void keep_done(fb_trial_shared *s, int slot, fb_trial_value *v)
{
    s->done[slot] = *v;
    *v = (fb_trial_value){0};
    s->leaf[slot] = true;
}

/* What computing all of the firsts asks for; returns behind which slot nothing is. */
static int demand_firsts(const fb_trial_shared *s, const sharing *of, fb_trial_value *values)
{
    int end = 0;
    for (int k = 0; k < s->n_slots; k++) {
        values[k].wanted = of->first[k];
        if (!of->first[k]) continue;
        values[k].box = fb_box_whole(&s->g->nodes[s->order[k]].shape);
        end = k + 1;
    }
    fb_trial_demand(s, values, end);
    return end;
}

static bool keep_firsts(const run *r, fb_trial_eval *e, const sharing *of)
{
    fb_trial_shared *s = r->s;
    bool *kept = fb_alloc((size_t)s->n_slots * sizeof *kept + 1);
    memcpy(kept, s->kept, (size_t)s->n_slots * sizeof *kept);
    for (int k = 0; k < s->n_slots; k++) s->kept[k] |= of->first[k];
    int end = demand_firsts(s, of, e->values);
    bool ok = fb_trial_evaluate(e, 0, end, 0);
    for (int k = 0; k < end && ok; k++) {
        if (of->first[k] && e->values[k].lanes) keep_done(s, k, &e->values[k]);
    }
    fb_trial_clear(e);
    memcpy(s->kept, kept, (size_t)s->n_slots * sizeof *kept);
    fb_free(kept);
    find_costs(s);
    return ok;
}

static double cost_of_groups(const run *r)
{
    double all = 0;
    for (int k = 0; k < r->n_groups; k++) all += r->groups[k].cost * (double)blocks_of(r, &r->groups[k]);
    return all;
}

/* What it costs to compute the firsts once, and the blocks as they would be cut then. The groups that are there stay. */
static double cost_beside(const run *r, const sharing *of)
{
    fb_trial_shared *s = r->s;
    run beside = *r;
    beside.groups = NULL;
    beside.n_groups = 0;
    double cost = fb_trial_cost(s, r->trial, demand_firsts(s, of, r->trial));
    for (int k = 0; k < s->n_slots; k++) s->leaf[k] |= of->first[k];
    find_costs(s);
    open_groups(&beside);
    cost += cost_of_groups(&beside);
    close_groups(&beside);
    for (int k = 0; k < s->n_slots; k++) s->leaf[k] &= !of->first[k];
    find_costs(s);
    return cost;
}

/* What all need, the gradients behind those of all weights say, is computed once and kept, where that saves much and
 * takes little memory. Blocks are cut anew then: of samples, so that much less than all is computed. */
static bool compute_shared(run *r, fb_trial_eval *e)
{
    const fb_trial_shared *s = r->s;
    size_t n = (size_t)s->n_slots + 1;
    bool ok = true;
    if ((double)r->n_want * s->n_slots > GROUPING_MOST) return true;
    sharing of = {.times = fb_calloc(n, sizeof *of.times),
                  .cost = fb_calloc(n, sizeof *of.cost),
                  .whole = fb_calloc(n, 1),
                  .first = fb_calloc(n, 1)};
    for (int w = 0; w < r->n_want; w++) look_at_want(r, w, &of);
    look_at_slots(r, &of);
    double bytes = 0, now = cost_of_groups(r), most = 0;
    for (int k = 0; k < r->n_groups; k++) most = fmax(most, r->groups[k].bytes);
    bool pays = most > room_of(r) || of.all - of.again < 0.8 * now;
    for (int k = 0; k < s->n_slots; k++)
        if (of.first[k]) bytes += 8.0 * s->lanes * (double)fb_shape_elements(&s->g->nodes[s->order[k]].shape);
    bool fits = bytes > 0 && bytes < (double)s->bytes_max / 2;
    if (fits && !pays && is_sampled(s->o)) pays = cost_beside(r, &of) < 0.8 * now;
    if (fits && pays) {
        ok = keep_firsts(r, e, &of);
        close_groups(r);
        fb_trial_empty_pool(e);
        if (ok) open_groups(r);
    }
    fb_free(of.times);
    fb_free(of.cost);
    fb_free(of.whole);
    fb_free(of.first);
    return ok;
}

/* Are blocks evaluated beside each other, or one after the other with each node split over the threads? Few blocks
 * whose nodes are small, as those of a loop of many steps, would leave all threads but one idle. */
static bool beside_each_other(const run *r, const group *gr, int64_t blocks)
{
    int threads = fb_trial_threads(r->s->o);
    double at_once = (double)(blocks < threads ? blocks : threads);
    bool small = blocks > 1 && gr->once < SPLIT_LEAST && gr->cost >= SPLIT_LEAST;
    return (blocks >= 2 * threads || small) && gr->bytes * at_once <= room_of(r);
}

static void open_tasks(run *r)
{
    for (int k = 0; k < r->n_groups; k++) r->n_tasks += blocks_of(r, &r->groups[k]);
    r->tasks = fb_alloc((size_t)(r->n_tasks + 1) * sizeof *r->tasks);
    int64_t n = 0, *asked = fb_alloc((size_t)(r->s->o->n_at + 1) * sizeof *asked);
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < r->n_groups; k++) {
            const group *gr = &r->groups[k];
            int64_t blocks = r->s->o->at ? blocks_asked(r, gr, asked) : blocks_of(r, gr);
            if (beside_each_other(r, gr, blocks) != (pass == 1)) continue;
            for (int64_t b = 0; b < blocks; b++) {
                int64_t block = b;
                if (r->s->o->at)
                    block = asked[b];
                else if (blocks < gr->n_blocks)
                    block = b * (gr->n_blocks - 1) / (blocks - 1);
                r->tasks[n++] = (int64_t)k << 40 | block;
                r->s->cost_total += gr->cost;
                for (int i = 0; i < gr->n; i++) {
                    fb_box box = block_box(r, gr, i, block);
                    r->s->elements_total += fb_box_cells(&box, shape_of(r, gr->members[i])->rank);
                }
            }
        }
        if (pass == 0) r->n_serial = (int)n;
    }
    r->n_tasks = n;
    fb_free(asked);
}

static void show_groups(const run *r)
{
    fb_str text = {0};
    if (!r->s->took) return;
    for (int k = 0; k < r->n_groups; k++) {
        const group *gr = &r->groups[k];
        fb_str_addf(&text, "  %s:", beside_each_other(r, gr, blocks_of(r, gr)) ? "beside each other" : "in turn");
        for (int i = 0; i < gr->n && i < 4; i++)
            fb_str_addf(&text, " %s", r->s->g->nodes[r->want[gr->members[i]]].name);
        fb_str_addf(&text, "%s: %lld of %lld blocks, cost %.3g each (%.3g at once), %.1f MB\n", gr->n > 4 ? " …" : "",
                    (long long)blocks_of(r, gr), (long long)gr->n_blocks, gr->cost, gr->once, gr->bytes * 1e-6);
    }
    fb_debug_show("blocks of the trials", fb_str_get(&text));
    fb_str_free(&text);
}

/* ---- a slot by itself, before all blocks ---- */

static fb_box whole_of(const fb_trial_shared *s, int slot)
{
    return fb_box_whole(&s->g->nodes[s->order[slot]].shape);
}

/* What a part of a slot asks for; returns behind which slot nothing is. */
static int demand_part(const fb_trial_shared *s, fb_trial_value *values, int slot, const fb_box *box)
{
    values[slot].box = *box;
    values[slot].wanted = true;
    fb_trial_demand(s, values, slot + 1);
    return slot + 1;
}

/* What it costs; the run's estimates then hold what it asks for. */
static double cost_of_part(const run *r, int slot, const fb_box *box)
{
    for (int k = 0; k < r->s->n_slots; k++) r->trial[k].wanted = false;
    return fb_trial_cost(r->s, r->trial, demand_part(r->s, r->trial, slot, box));
}

/* ---- ids of computed tables ---- */

/* Are they little, and little work, beside the table? */
static bool ids_pay(const run *r, int table, int ids)
{
    fb_box all = whole_of(r->s, table), few = whole_of(r->s, ids);
    double of_table = cost_of_part(r, table, &all), of_ids = cost_of_part(r, ids, &few);
    return of_ids < 0.1 * of_table && block_bytes(r, ids + 1) < (double)r->s->bytes_max / 4;
}

/* The log of a probability that a target names is one element of a row of many: where targets are known, blocks compute
 * the rows that they are of alone (trial_demand.c). */
static bool compute_ids(const run *r, fb_trial_eval *e)
{
    fb_trial_shared *s = r->s;
    bool ok = true;
    for (int k = 0; ok && k < s->n_slots; k++) {
        const fb_node *node = &s->g->nodes[s->order[k]];
        if (node->op != FB_OP_EMBEDDING || s->leaf[k] || s->in_body[k]) continue;
        int table = s->slot[node->args[0]], ids = s->slot[node->args[1]];
        if (s->leaf[table] || s->in_body[table] || s->in_body[ids] || s->done[ids].lanes) continue;
        if (fb_shape_elements(&s->g->nodes[node->args[0]].shape) < LONG_MOST || !ids_pay(r, table, ids)) continue;
        bool kept = s->kept[ids];
        fb_box all = whole_of(s, ids);
        s->kept[ids] = true;
        ok = fb_trial_evaluate(e, 0, demand_part(s, e->values, ids, &all), 0);
        s->kept[ids] = kept;
        if (ok) keep_done(s, ids, &e->values[ids]);
        fb_trial_clear(e);
        find_costs(s);
    }
    return ok;
}

/* ---- long reductions, before all blocks ---- */

/* Is the node a reduction of so much that a block should not hold all of it? Its result is little. */
static bool is_long(const fb_trial_shared *s, int slot)
{
    const fb_node *node = &s->g->nodes[s->order[slot]];
    if (fb_op_get(node->op)->cls != FB_CLASS_REDUCTION || s->leaf[slot] || s->in_body[slot]) return false;
    if (node->op == FB_OP_ARGMAX || node->op == FB_OP_ARGMIN || !fb_dtype_is_float(node->dtype)) return false;
    int64_t all = fb_shape_elements(&s->g->nodes[node->args[0]].shape), results = fb_shape_elements(&node->shape);
    if (all < LONG_MOST || results > LONG_RESULTS || all / results < LONG_ROW) return false;
    /* Blocks of a row each keep all cores busy as well, where a row can be held. */
    int threads = fb_trial_threads(s->o);
    double row = HELD * 8.0 * s->lanes * (double)(all / results);
    return results < 2 * threads || row * 2 * threads > (double)s->bytes_max;
}

/* Slabs are cut along the reduced dimensions of the operand, outermost first. */
typedef struct {
    fb_box box;                    /* of the operand; whole in what is kept */
    int n, dim[FB_MAX_RANK], last; /* dim[last] in ranges of `rows`, those before it one by one */
    int64_t rows, slabs;
} slabs;

static slabs slabs_of(const fb_trial_shared *s, const fb_node *node)
{
    const fb_shape *of = &s->g->nodes[node->args[0]].shape;
    slabs c = {.box = fb_box_whole(of), .n = node->attrs->n_axes, .slabs = 1};
    int64_t after = fb_shape_elements(of);
    for (int a = 0; a < c.n; a++) c.dim[a] = node->attrs->axes[a];
    for (; c.last < c.n - 1; c.last++) {
        int64_t extent = of->dim[c.dim[c.last]];
        if (after / extent <= SLAB) break;
        after /= extent;
        c.slabs *= extent;
    }
    int64_t extent = of->dim[c.dim[c.last]], each = after / extent;
    c.rows = each < SLAB ? SLAB / each : 1;
    c.slabs *= fb_ceil_div(extent, c.rows);
    return c;
}

static fb_box slab_box(const slabs *c, int64_t which)
{
    fb_box b = c->box;
    int d = c->dim[c->last];
    int64_t per = fb_ceil_div(c->box.hi[d], c->rows), outer = which / per;
    b.lo[d] = which % per * c->rows;
    if (b.lo[d] + c->rows < b.hi[d]) b.hi[d] = b.lo[d] + c->rows;
    for (int a = c->last - 1; a >= 0; a--) {
        int64_t extent = c->box.hi[c->dim[a]];
        b.lo[c->dim[a]] = outer % extent;
        b.hi[c->dim[a]] = b.lo[c->dim[a]] + 1;
        outer /= extent;
    }
    return b;
}

/* Where slabs would compute the same things again and again, a block holds all of it after all. */
static bool slabs_pay(const run *r, int operand, const slabs *c)
{
    fb_box slab = slab_box(c, c->slabs / 2);
    return cost_of_part(r, operand, &slab) * (double)c->slabs <= 2 * cost_of_part(r, operand, &c->box);
}

static bool reduce_slabs(fb_trial_eval *e, int slot, int operand, const slabs *c)
{
    fb_trial_shared *s = e->s;
    fb_trial_fold *f = fb_trial_fold_open(e, s->order[slot]);
    bool ok = true;
    for (int64_t k = 0; ok && k < c->slabs; k++) {
        fb_box box = slab_box(c, k);
        ok = fb_trial_evaluate(e, 0, demand_part(s, e->values, operand, &box), 0);
        if (ok) fb_trial_fold_add(f, e, &box);
        fb_trial_clear(e);
    }
    e->values[slot].box = whole_of(s, slot);
    if (!fb_trial_fold_close(f, e) || !ok) {
        fb_trial_drop(e, &e->values[slot]);
        return false;
    }
    keep_done(s, slot, &e->values[slot]);
    return true;
}

/* In order, so that a later one (the sum of a softmax) finds what an earlier one found (its maximum). */
static bool reduce_long_rows(const run *r, fb_trial_eval *e)
{
    for (int k = 0; k < r->s->n_slots; k++) {
        const fb_node *node = &r->s->g->nodes[r->s->order[k]];
        if (!is_long(r->s, k)) continue;
        slabs c = slabs_of(r->s, node);
        int operand = r->s->slot[node->args[0]];
        bool kept = r->s->kept[operand];
        if (!slabs_pay(r, operand, &c)) continue;
        r->s->kept[operand] = true;
        bool ok = reduce_slabs(e, k, operand, &c);
        r->s->kept[operand] = kept;
        if (!ok) return false;
    }
    return true;
}

/* ---- little that is made of much, where a block would not fit ---- */

/* What a block asks for as a whole and holds little itself, of an operand of many times as many elements: rows' sums under
 * a loss, say. */
static bool is_narrow(const run *r, int slot)
{
    const fb_trial_shared *s = r->s;
    const fb_node *node = &s->g->nodes[s->order[slot]];
    fb_op_class cls = fb_op_get(node->op)->cls;
    int64_t results = fb_shape_elements(&node->shape);
    if ((cls != FB_CLASS_REDUCTION && cls != FB_CLASS_GATHER) || s->leaf[slot] || s->in_body[slot]) return false;
    if (!r->trial[slot].wanted || fb_box_cells(&r->trial[slot].box, node->shape.rank) != results) return false;
    int64_t all = fb_shape_elements(&s->g->nodes[node->args[0]].shape);
    return all >= LONG_MOST && results > 0 && all / results >= NARROW &&
           64.0 * s->lanes * (double)results < (double)s->bytes_max;
}

/* Cuts the run's only node so that a block is made of about a slab. False: blocks would compute the same again and again,
 * or do not fit either. */
static bool cut_narrow(const run *one, group *gr)
{
    const fb_node *node = &one->s->g->nodes[one->want[0]];
    int64_t results = fb_shape_elements(&node->shape), all = fb_shape_elements(&one->s->g->nodes[node->args[0]].shape);
    group whole = *gr;
    cut(one, &whole, 0, results);
    cut(one, gr, 0, SLAB / (all / results) + 1);
    double once = block_cost(one, &whole, 0), each = block_cost(one, gr, middle_of(gr));
    return each * (double)gr->n_blocks <= 2 * once && gr->bytes <= (double)one->s->bytes_max;
}

/* The block's lanes to their place in the whole. */
static void put_block(const fb_trial_value *to, const fb_trial_value *of, const fb_shape *shape)
{
    int64_t to_steps[FB_MAX_RANK], of_steps[FB_MAX_RANK], at = 0;
    fb_shape extents = fb_box_extents(&of->box, shape->rank);
    fb_shape_strides(shape, to_steps);
    fb_box_steps(&of->box, shape->rank, of_steps);
    for (int d = 0; d < shape->rank; d++) at += of->box.lo[d] * to_steps[d];
    for (int l = 0; l < to->lanes; l++)
        fb_interp_copy_between(to->cells->at.raw + l * to->n + at, fb_trial_raw(of, l), &extents, to_steps, of_steps);
}

/* Computes the run's only node block by block, and keeps it. */
static bool compute_narrow(const run *one, const group *gr, fb_trial_eval *e)
{
    fb_trial_shared *s = one->s;
    int slot = s->slot[one->want[0]];
    const fb_shape *shape = shape_of(one, 0);
    bool kept = s->kept[slot], ok = true, agree = true;
    fb_trial_value all = {.box = fb_box_whole(shape), .n = fb_shape_elements(shape), .lanes = s->lanes};
    if (!(all.cells = fb_trial_cells(e, one->want[0], all.n * all.lanes))) return false;
    s->kept[slot] = true;
    for (int64_t b = 0; ok && b < gr->n_blocks; b++) {
        ok = fb_trial_evaluate(e, 0, demand_block(one, gr, b, e->values), 0);
        agree = agree && e->values[slot].lanes == 1;
        if (ok) put_block(&all, &e->values[slot], shape);
        fb_trial_clear(e);
    }
    s->kept[slot] = kept;
    if (!ok) {
        fb_trial_drop(e, &all);
        return false;
    }
    if (agree) all.lanes = 1;
    keep_done(s, slot, &all);
    find_costs(s);
    return true;
}

/* A mean of rows' sums is one block, of all rows: where that is more than memory holds, the sums are computed before,
 * some rows at a time. */
static bool compute_narrow_first(run *r, fb_trial_eval *e)
{
    fb_trial_shared *s = r->s;
    bool *narrow = fb_calloc((size_t)s->n_slots + 1, sizeof *narrow), any = false, ok = true;
    for (int k = 0; k < r->n_groups; k++) {
        group gr = r->groups[k];
        block_cost(r, &gr, middle_of(&gr));
        for (int i = 0; i < s->n_slots && gr.bytes > (double)s->bytes_max; i++) any |= narrow[i] |= is_narrow(r, i);
    }
    for (int k = 0; ok && any && k < s->n_slots; k++) {
        if (!narrow[k]) continue;
        int zero = 0;
        run one = *r;
        group gr = {.n = 1, .members = &zero, .shift = &zero};
        one.want = &s->order[k];
        one.n_want = 1;
        if (cut_narrow(&one, &gr)) ok = compute_narrow(&one, &gr, e);
    }
    fb_free(narrow);
    if (!any) return true;
    close_groups(r);
    fb_trial_empty_pool(e);
    if (ok) open_groups(r);
    return ok;
}

/* ---- handing over ---- */

typedef struct {
    fb_trial_eval *e;
    const fb_trial_block *b;
    fb_dtype dtype;
    double *to; /* plane behind plane */
} rounded_block;

static void round_part(void *ctx, int64_t first, int64_t last)
{
    const rounded_block *s = ctx;
    const fb_trial_block *b = s->b;
    for (int l = 1; l < b->lanes; l++) {
        fb_rounding r = fb_rounding_of(s->e->s, l, b->node, s->dtype, true);
        for (int64_t at = first; at < last; at += FB_TRIAL_CHUNK) {
            int n = last - at < FB_TRIAL_CHUNK ? (int)(last - at) : FB_TRIAL_CHUNK;
            int lost = fb_round_lane(&r, n, b->v[l] + at, s->to + l * b->n + at);
            if (lost >= 0) fb_trial_overflowed(s->e, b->node, at + lost, b->v[l][at + lost]);
        }
    }
}

/* The lanes of a block as they are stored: 16-bit values that a lane kept in f32 are rounded now. */
static bool round_stored(fb_trial_eval *e, const fb_node *node, fb_trial_block *b, fb_cells **room)
{
    if (!fb_dtype_is_float(node->dtype) || node->dtype == FB_F64 || b->lanes == 1) return true;
    if (!(*room = fb_trial_cells(e, b->node, b->n * b->lanes))) return false;
    fb_trial_for(e, b->n, HANDED, round_part, &(rounded_block){e, b, node->dtype, (*room)->at.f});
    for (int l = 1; l < b->lanes; l++) b->v[l] = (*room)->at.f + l * b->n;
    return true;
}

typedef struct {
    const run *r;
    const fb_trial_block *b;
    const fb_box *box;
    int64_t piece;
    int cut; /* the last dimension that is cut; those before it are run through; -1: none */
    int first_thread, shares;
} handed;

/* A share of a block, piece by piece: what lies together in the tensor. */
static void hand_share(const handed *h, int64_t share)
{
    const fb_trial_block *b = h->b;
    const fb_shape *shape = &h->r->s->g->nodes[b->node].shape;
    fb_box whole = fb_box_whole(shape);
    int64_t steps[FB_MAX_RANK], end = b->n * (share + 1) / h->shares;
    fb_box_steps(&whole, shape->rank, steps);
    for (int64_t at = b->n * share / h->shares, n; at < end; at += n) {
        int64_t rest = at / h->piece, inside = at % h->piece;
        n = h->piece - inside < end - at ? h->piece - inside : end - at;
        fb_trial_block one = {.node = b->node, .want = b->want, .first = inside, .n = n, .lanes = b->lanes};
        if (h->cut >= 0) one.first += h->box->lo[h->cut] * steps[h->cut];
        for (int k = h->cut - 1; k >= 0; k--) {
            int64_t extent = h->box->hi[k] - h->box->lo[k];
            one.first += (h->box->lo[k] + rest % extent) * steps[k];
            rest /= extent;
        }
        for (int l = 0; l < b->lanes; l++) {
            one.v[l] = b->v[l] ? b->v[l] + at : NULL;
            one.i[l] = b->i[l] ? b->i[l] + at : NULL;
        }
        h->r->sink(h->r->sink_ctx, h->first_thread + (int)share, &one);
    }
}

static void hand_shares(void *ctx, int64_t first, int64_t last)
{
    for (int64_t k = first; k < last; k++) hand_share(ctx, k);
}

/* A large block that is evaluated alone is taken by all threads, a share each. */
static void hand_pieces(const run *r, const fb_trial_eval *e, const fb_trial_block *b, const fb_box *box)
{
    const fb_shape *shape = &r->s->g->nodes[b->node].shape;
    handed h = {.r = r, .b = b, .box = box, .piece = 1, .cut = shape->rank - 1, .first_thread = e->thread, .shares = 1};
    for (; h.cut > 0 && box->hi[h.cut] - box->lo[h.cut] == shape->dim[h.cut]; h.cut--) h.piece *= shape->dim[h.cut];
    if (h.cut >= 0) h.piece *= box->hi[h.cut] - box->lo[h.cut];
    if (e->workers > 1 && b->n >= 2 * HANDED) h.shares = e->workers;
    fb_parallel_for_some(h.shares, h.shares, 1, hand_shares, &h);
}

static bool hand_over(const run *r, fb_trial_eval *e, const group *gr, int64_t block, int member)
{
    fb_id id = r->want[gr->members[member]];
    const fb_node *node = fb_trial_node(e, id);
    fb_trial_value *v = fb_trial_at(e, id), part;
    fb_box box = block_box(r, gr, member, block);
    fb_trial_block b = {
        .node = id, .want = gr->members[member], .n = fb_box_cells(&box, node->shape.rank), .lanes = v->lanes};
    if (b.n == 0) return true;
    fb_cells *taken = NULL, *rounded = NULL;
    if (b.n != v->n) {
        if (!(taken = fb_trial_cells(e, id, b.n * v->lanes))) return false;
        for (int l = 0; l < v->lanes; l++)
            fb_trial_take(taken->at.raw + l * b.n, fb_trial_raw(v, l), &v->box, &box, node->shape.rank);
    }
    part = *v;
    if (taken) part.cells = taken, part.n = b.n;
    for (int l = 0; l < b.lanes; l++) {
        if (fb_dtype_is_float(node->dtype))
            b.v[l] = fb_trial_f(&part, l);
        else
            b.i[l] = fb_trial_i(&part, l);
    }
    bool ok = round_stored(e, node, &b, &rounded);
    if (ok) hand_pieces(r, e, &b, &box);
    fb_trial_cells_drop(e, taken);
    fb_trial_cells_drop(e, rounded);
    return ok;
}

static bool run_task(run *r, fb_trial_eval *e, int64_t task)
{
    const group *gr = &r->groups[task >> 40];
    int64_t block = task & (((int64_t)1 << 40) - 1);
    int end = demand_block(r, gr, block, e->values);
    bool ok = fb_trial_evaluate(e, 0, end, 0);
    for (int i = 0; ok && i < gr->n; i++) ok = hand_over(r, e, gr, block, i);
    fb_trial_clear(e);
    return ok;
}

/* ---- threads ---- */

typedef struct {
    run *r;
    fb_trial_eval e;
} worker;

static void work(worker *w)
{
    for (;;) {
        int64_t task = atomic_fetch_add(&w->r->next, 1);
        if (task >= w->r->n_tasks || atomic_load(&w->r->s->stop)) return;
        if (!run_task(w->r, &w->e, w->r->tasks[task])) return;
    }
}

static void work_some(void *ctx, int64_t first, int64_t last)
{
    worker *workers = ctx;
    for (int64_t k = first; k < last; k++) work(&workers[k]);
}

static void run_all(run *r)
{
    int threads = fb_trial_threads(r->s->o);
    worker *workers = fb_calloc((size_t)threads, sizeof *workers);
    for (int t = 0; t < threads; t++) {
        workers[t].r = r;
        fb_trial_eval_open(&workers[t].e, r->s, t);
    }
    workers[0].e.workers = threads;
    bool ok = compute_ids(r, &workers[0].e) && reduce_long_rows(r, &workers[0].e);
    fb_trial_empty_pool(&workers[0].e);
    if (ok) {
        open_groups(r);
        ok = compute_narrow_first(r, &workers[0].e) && compute_shared(r, &workers[0].e);
    }
    if (ok) {
        open_tasks(r);
        show_groups(r);
        atomic_store(&r->s->cost_done, 0);
    }
    for (int k = 0; ok && k < r->n_serial; k++) ok = run_task(r, &workers[0].e, r->tasks[k]);
    workers[0].e.workers = 1;
    fb_trial_empty_pool(&workers[0].e);
    atomic_store(&r->next, r->n_serial);
    if (ok && r->n_tasks > r->n_serial) fb_parallel_for_some(threads, threads, 1, work_some, workers);
    for (int k = 0; k < r->s->n_slots; k++) fb_trial_drop(&workers[0].e, &r->s->done[k]);
    for (int t = 0; t < threads; t++) fb_trial_eval_close(&workers[t].e);
    fb_free(workers);
}

int fb_trial_threads(const fb_trial_options *o)
{
    enum { MOST = 64 };
    int threads = o->threads > 0 ? o->threads : fb_parallel_threads();
    return threads > MOST ? MOST : threads;
}

static int64_t memory_share(const fb_trial_options *o)
{
    if (o->max_bytes) return o->max_bytes;
    int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? pages * page / 8 : (int64_t)1 << 30;
}

bool fb_trial_run(const fb_graph *g, const fb_trial_options *o, const fb_id *want, int n_want, fb_trial_sink sink,
                  void *ctx, fb_trial_overflow *overflow, fb_error *err)
{
    fb_trial_shared s = {.g = g, .o = o, .lanes = 1 + o->trials, .bytes_max = memory_share(o)};
    pthread_mutex_init(&s.lock, NULL);
    s.overflow.node = FB_NONE;
    open_shared(&s, want, n_want);
    bool ok = read_files(&s, err);
    if (ok) {
        run r = {.s = &s, .want = want, .n_want = n_want, .sink = sink, .sink_ctx = ctx};
        r.trial = fb_calloc((size_t)s.n_slots + 1, sizeof *r.trial);
        r.freed = fb_calloc((size_t)s.n_slots + 1, sizeof *r.freed);
        r.agrees = fb_calloc((size_t)s.n_slots + 1, sizeof *r.agrees);
        fb_trial_watch(&s);
        run_all(&r);
        fb_trial_show_took(&s);
        close_groups(&r);
        fb_free(r.tasks);
        fb_free(r.trial);
        fb_free(r.freed);
        fb_free(r.agrees);
        ok = s.err.kind == FB_OK;
        if (!ok && err) *err = s.err;
    }
    if (overflow) *overflow = s.overflow;
    close_shared(&s);
    return ok;
}
