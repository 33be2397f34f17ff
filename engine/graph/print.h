/* Graphs for people: an indented listing, and Graphviz. */
#ifndef FB_GRAPH_PRINT_H
#define FB_GRAPH_PRINT_H

#include "base/str.h"
#include "graph/graph.h"

/* "%7 = add(%3 x, %5 b)  f32[4,256]  feature[0].add" a line, scopes indented, repeated scopes folded with a count
 * when `fold`. */
void fb_graph_print_text(const fb_graph *g, bool fold, fb_str *out);
/* `group_of` NULL or one entry a node: nodes of one group share a colour and cluster; FB_NONE for none. */
void fb_graph_print_dot(const fb_graph *g, const int *group_of, fb_str *out);
/* What of a node its op, dtype and shape do not say, as `fb_node_print` has it; each preceded by a comma. */
void fb_node_print_attrs(const fb_graph *g, fb_id id, fb_str *out);
/* One node in one line, without indentation: what hint lines and listings show. */
void fb_node_print(const fb_graph *g, fb_id id, fb_str *out);

#endif
