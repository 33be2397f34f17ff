/* Graphs as JSON: the whole as one document (files), and as lines (messages between processes).
 *
 * Document: {"fusebox_graph":1,"title":…,"scopes":[…],"regions":[…],"nodes":[…],"outputs":[{"name":…,"node":id}],"hash":…}
 * printed with one scope, region or node a line. Lines: the header object {"fusebox_graph":1,"title":…,"n_scopes":…,
 * "n_regions":…,"n_nodes":…}, then one object a line in that order, then {"outputs":[…],"hash":…}.
 * A node: {"id":7,"op":"add","args":[3,5],"name":…,"dtype":"f32","shape":[4,256],"region":0, "scope":2,"line":12, attributes…}
 * with an attribute only where ops.def says that the op reads it. dtype and shape are checked against inference.
 * Reading validates everything: a graph that reads without an error is finished and verified.
 */
#ifndef FB_GRAPH_GRAPH_JSON_H
#define FB_GRAPH_GRAPH_JSON_H

#include "base/str.h"
#include "graph/graph.h"

#include <jansson.h>

void fb_graph_write_json(const fb_graph *g, fb_str *out); /* the document */
fb_graph *fb_graph_read_json(const char *text, size_t n, fb_error *err);

/* Lines: calls `line` for each, without the newline; stops when it returns false. */
bool fb_graph_write_lines(const fb_graph *g, bool (*line)(void *ctx, const char *text, size_t n), void *ctx);

/* A reader is fed lines as they arrive. feed returns false on error; *done is set with the last line. take gives the
 * finished graph to the caller; free drops the reader (and a graph not taken). */
typedef struct fb_graph_reader fb_graph_reader;
fb_graph_reader *fb_graph_reader_new(void);
bool fb_graph_reader_feed(fb_graph_reader *r, const char *text, size_t n, bool *done, fb_error *err);
fb_graph *fb_graph_reader_take(fb_graph_reader *r);
void fb_graph_reader_free(fb_graph_reader *r);

#endif
