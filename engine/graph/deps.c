/* Finds the edges of the whole graph in one pass, each pair once, and the order edges that assignments ask for. Views
 * are looked through; what a loop's body needs from outside becomes the loop's.
 */
#include "graph/deps.h"

#include "base/mem.h"
#include "base/mutate.h"
#include "base/vec.h"
#include "graph/access.h"

#include <stdlib.h>

typedef struct {
    const fb_graph *g;
    FB_VEC(fb_edge) edges;
    fb_id late_reader, late_param;
} collector;

/* The node that stands for `id` in region `region`: itself, or the loop around it; FB_NONE when it lies outside. */
static fb_id lift(const fb_graph *g, fb_id id, fb_id region)
{
    while (id != FB_NONE && g->nodes[id].region != region) id = g->regions[g->nodes[id].region].loop;
    return id;
}

/* The innermost region that both nodes are in or below. */
static fb_id common_region(const fb_graph *g, fb_id a, fb_id b)
{
    fb_id r = g->nodes[a].region;
    while (lift(g, b, r) == FB_NONE) r = g->regions[r].parent;
    return r;
}

static void add_edge(collector *c, fb_id producer, fb_id consumer, bool order_only)
{
    fb_id region = common_region(c->g, producer, consumer);
    fb_edge e = {lift(c->g, producer, region), lift(c->g, consumer, region), order_only, order_only};
    if (e.producer != e.consumer) FB_VEC_PUSH(&c->edges, e);
}

/* What computes `id`, views looked through: a computed node, the loop of a result, or FB_NONE for a source. */
static fb_id computer(const fb_graph *g, fb_id id, fb_id *base)
{
    *base = fb_access_base(g, id);
    if (g->nodes[*base].op == FB_OP_RESULT) return g->nodes[*base].args[0];
    return fb_node_is_computed(g, *base) ? *base : FB_NONE;
}

/* Does `node` need `on`, a node or loop of its own region? A loop needs what its body does. */
static bool depends_on(const fb_graph *g, fb_id node, fb_id on)
{
    if (g->user_start[on] == g->user_start[on + 1]) return false;
    bool *reached = fb_calloc((size_t)g->n_nodes, sizeof *reached);
    reached[on] = true;
    for (fb_id i = on + 1; i <= node; i++) {
        for (int k = 0; k < g->nodes[i].n_args && !reached[i]; k++) reached[i] = reached[g->nodes[i].args[k]];
        if (g->nodes[i].op == FB_OP_LOOP) {
            const fb_region *r = &g->regions[g->nodes[i].attrs->region];
            for (int k = 0; k < r->n_carried && !reached[i]; k++) reached[i] = reached[r->yields[k]];
            for (int k = 0; k < r->n_stacked && !reached[i]; k++) reached[i] = reached[r->stacked[k]];
        }
        if (reached[i] && g->nodes[i].region) reached[g->regions[g->nodes[i].region].loop] = true;
    }
    bool yes = reached[node];
    fb_free(reached);
    return yes;
}

static fb_id assign_to(const fb_graph *g, fb_id param)
{
    for (int i = g->user_start[param]; i < g->user_start[param + 1]; i++) {
        const fb_node *n = &g->nodes[g->users[i]];
        if (n->op == FB_OP_ASSIGN && n->args[0] == param) return g->users[i];
    }
    return FB_NONE;
}

bool fb_assign_is_late(const fb_graph *g, fb_id assign)
{
    fb_id at = assign;
    int steps = 0;
    do {
        fb_id base = fb_access_base(g, g->nodes[at].args[1]);
        at = g->nodes[base].op == FB_OP_PARAM ? assign_to(g, base) : FB_NONE;
        steps++;
    } while (at > assign && steps < g->n_nodes); /* the first of the round is the late one */
    return FB_MUTATE(22, at == assign && steps > 1, false);
}

/* Readers of each assigned parameter come before the assignment. Reading an assign's own result and the old value both
 * is ordered by the value alone. */
static void add_order(collector *c, const fb_edge *reads, int n_reads, const fb_id *assign_of)
{
    for (int i = 0; i < n_reads; i++) {
        fb_id assign = assign_of[reads[i].producer], reader = reads[i].consumer;
        if (assign == FB_NONE || assign == reader) continue;
        fb_id region = common_region(c->g, reader, assign);
        fb_id writes = lift(c->g, assign, region), reads_it = lift(c->g, reader, region);
        if (writes == reads_it || (writes == assign && fb_assign_is_late(c->g, assign))) continue;
        if (!depends_on(c->g, reads_it, writes)) {
            if (FB_MUTATE(21, true, false)) add_edge(c, reader, assign, true);
        } else if (writes != assign) {
            c->late_reader = reader;
            c->late_param = reads[i].producer;
        }
    }
}

typedef FB_VEC(fb_edge) edges;

/* `node` reads `id`: an edge, or, of a parameter, one more of `reads`. */
static void add_read(collector *c, fb_id id, fb_id node, edges *reads)
{
    fb_id base, from = computer(c->g, id, &base);
    if (from != FB_NONE)
        add_edge(c, from, node, false);
    else if (c->g->nodes[base].op == FB_OP_PARAM)
        FB_VEC_PUSH(reads, (fb_edge){.producer = base, .consumer = node});
}

/* What a body hands on may come from outside of it. */
static void add_handed_on(collector *c, fb_id loop, edges *reads)
{
    const fb_region *r = &c->g->regions[c->g->nodes[loop].attrs->region];
    for (int i = 0; i < r->n_carried; i++) add_read(c, r->yields[i], loop, reads);
    for (int i = 0; i < r->n_stacked; i++) add_read(c, r->stacked[i], loop, reads);
}

static void collect(collector *c)
{
    const fb_graph *g = c->g;
    fb_id *assign_of = fb_alloc((size_t)g->n_nodes * sizeof *assign_of + 1);
    edges reads = {0}; /* of parameters */
    for (fb_id i = 0; i < g->n_nodes; i++) assign_of[i] = FB_NONE;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        const fb_node *n = &g->nodes[i];
        if (n->op == FB_OP_ASSIGN) assign_of[n->args[0]] = i;
        if (!fb_node_is_computed(g, i) && n->op != FB_OP_LOOP) continue;
        for (int k = n->op == FB_OP_ASSIGN; k < n->n_args; k++) add_read(c, n->args[k], i, &reads);
        if (n->op == FB_OP_LOOP) add_handed_on(c, i, &reads);
    }
    add_order(c, reads.at, reads.n, assign_of);
    FB_VEC_FREE(&reads);
    fb_free(assign_of);
}

static int by_consumer(const void *a, const void *b)
{
    const fb_edge *x = a, *y = b;
    if (x->consumer != y->consumer) return x->consumer < y->consumer ? -1 : 1;
    if (x->producer != y->producer) return x->producer < y->producer ? -1 : 1;
    return (int)x->order_only - (int)y->order_only;
}

/* Keeps the first of each pair: an edge that carries a value also orders. */
static int unique(fb_edge *e, int n)
{
    int kept = 0;
    for (int i = 0; i < n; i++) {
        bool again = kept && e[kept - 1].consumer == e[i].consumer && e[kept - 1].producer == e[i].producer;
        if (again)
            e[kept - 1].orders |= e[i].orders;
        else
            e[kept++] = e[i];
    }
    return kept;
}

static void index_edges(fb_deps *d)
{
    size_t n = (size_t)d->graph->n_nodes;
    d->in_start = fb_calloc(n + 2, sizeof(int));
    d->out_start = fb_calloc(n + 2, sizeof(int));
    d->out = fb_calloc((size_t)d->n_edges + 1, sizeof(int));
    for (int i = 0; i < d->n_edges; i++) {
        d->in_start[d->edges[i].consumer + 1]++;
        d->out_start[d->edges[i].producer + 2]++;
    }
    for (size_t i = 1; i <= n; i++) {
        d->in_start[i] += d->in_start[i - 1];
        d->out_start[i + 1] += d->out_start[i];
    }
    /* out_start is one entry ahead, so that filling a bucket moves its start to where it belongs. */
    for (int i = 0; i < d->n_edges; i++) d->out[d->out_start[d->edges[i].producer + 1]++] = i;
}

fb_deps *fb_deps_new(const fb_graph *g)
{
    collector c = {.g = g, .late_reader = FB_NONE, .late_param = FB_NONE};
    collect(&c);
    if (c.edges.n) qsort(c.edges.at, (size_t)c.edges.n, sizeof *c.edges.at, by_consumer);
    fb_deps *d = fb_calloc(1, sizeof *d);
    d->graph = g;
    d->late_reader = c.late_reader;
    d->late_param = c.late_param;
    d->edges = c.edges.at;
    d->n_edges = unique(d->edges, c.edges.n);
    index_edges(d);
    return d;
}

void fb_deps_free(fb_deps *d)
{
    if (!d) return;
    fb_free(d->edges);
    fb_free(d->in_start);
    fb_free(d->out_start);
    fb_free(d->out);
    fb_free(d);
}

int fb_deps_find(const fb_deps *d, fb_id producer, fb_id consumer)
{
    int low = d->in_start[consumer], high = d->in_start[consumer + 1];
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (d->edges[mid].producer < producer)
            low = mid + 1;
        else
            high = mid;
    }
    return low < d->in_start[consumer + 1] && d->edges[low].producer == producer ? low : FB_NONE;
}
