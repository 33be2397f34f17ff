/* Graphs as JSON: the whole as one document (files), and as lines (messages between processes).
 *
 * Document:
 * {"fusebox_graph":1,"title":…,"canonical":…,"scopes":[…],"regions":[…],"nodes":[…],"outputs":[{"name":…,"node":id}],
 * "hash":…} printed with one scope, region or node a line. Lines: the header object {"fusebox_graph":1,"title":…,
 * "canonical":…,"n_scopes":…,"n_regions":…,"n_nodes":…}, then one object a line in that order, then
 * {"outputs":[…],"hash":…}.
 *
 * A node: {"id":7,"op":"add","args":[3,5],"name":…,"dtype":"f32","shape":[4,256],"region":0,"scope":2,"line":12,
 * attributes…}. An attribute is there exactly where ops.def says that the op reads it (of value, high
 * and file those that the distribution needs); attributes `shape` and `dtype`
 * are the node's own; that of a loop which names its region is "body"; numbers that JSON lacks are "inf", "-inf" and
 * "nan". A scope:
 * {"id":2,"kind":"op","parent":0,"name":…,"index":3,"path":…,"op":…,"attrs":{…},"args":[…],"results":[…],"line":3}. A
 * region: {"id":1,"parent":0,"loop":9,"trips":8,"carried":[…],"yields":[…],"items":[…],"stacked":[…]}; region 0
 * {"id":0}. scope, parent, index, line are left out where there is none, -1 stands for no node in lists.
 *
 * Reading validates everything: dtype and shape are checked against inference, fields that are not known or not read
 * are refused, a graph that says it is canonical has to be. A graph that reads without an error is finished and
 * verified. A document written by hand may leave out title, canonical, scopes, regions (one, the whole) and hash. */
#ifndef FB_GRAPH_GRAPH_JSON_H
#define FB_GRAPH_GRAPH_JSON_H

#include "base/str.h"
#include "graph/graph.h"

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
