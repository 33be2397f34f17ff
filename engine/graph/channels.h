/* Which values lie channels last, as pictures between convolutions on tensor cores do (graph/storage.h). */
#ifndef FB_GRAPH_CHANNELS_H
#define FB_GRAPH_CHANNELS_H

#include "graph/graph.h"

/* channel[i], of each node of a graph whose users are known: the dim of its channels where these are to lie side by side,
 * else FB_NONE. */
void fb_channels_last(const fb_graph *g, int *channel);

#endif
