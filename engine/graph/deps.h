/* Dependences between computed nodes, views looked through: the DAG whose edges users fuse and cut. Built once a graph.
 *
 * Node b depends on a when b reads a's value, through views or directly, or (order edge) when b assigns a parameter
 * that a reads the old value of, so that a must come first. Loop nodes stand for their whole body towards the outside;
 * inside a body, its own nodes have edges among themselves. So an edge's ends are computed nodes or loop nodes of one
 * region: whoever lists the edges that a user may fuse skips those at a loop (fb_node_is_computed). */
#ifndef FB_GRAPH_DEPS_H
#define FB_GRAPH_DEPS_H

#include "graph/graph.h"

typedef struct {
    fb_id producer, consumer; /* computed nodes, or loops */
    bool order_only;          /* write after read, no value flows */
    bool orders;              /* write after read, with a value or without: wherever the producer is computed again, it
                               * must come before the consumer too */
} fb_edge;

typedef struct fb_deps {
    const fb_graph *graph;
    int n_edges;
    fb_edge *edges;            /* sorted by consumer, then producer; each pair once */
    int *in_start, *out_start; /* n_nodes + 1 entries; in-edges of node i are edges[in_start[i]] … */
    int *out;                  /* edge numbers sorted by producer: out[out_start[i]] … */
    /* A node that reads the old value of a parameter and needs the loop that assigns it: no order of launches gives it
     * both, so that no plan can be lowered. FB_NONE: there is none. */
    fb_id late_reader, late_param;
} fb_deps;

fb_deps *fb_deps_new(const fb_graph *g);
void fb_deps_free(fb_deps *d);
/* Parameters may be handed round (a becomes b and b becomes a): in no order of assignments does each read the old
 * value. One assignment of each such round is late: its value goes to a temporary, and the parameter is overwritten at
 * the end of the region, so that nothing has to come before it. */
bool fb_assign_is_late(const fb_graph *g, fb_id assign);
/* The edge's number, or FB_NONE. */
int fb_deps_find(const fb_deps *d, fb_id producer, fb_id consumer);

#endif
