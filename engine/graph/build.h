/* Inside graph/: how records enter a graph that is being built, and the facts about attributes that building, hashing,
 * reading and writing share. The public builder (graph.h) names nodes and tracks open scopes and regions on top of
 * this; the canonicalising pass and the JSON reader append records as they stand. */
#ifndef FB_GRAPH_BUILD_H
#define FB_GRAPH_BUILD_H

#include "graph/graph.h"

/* Appends a copy of `node`: args, attrs (normalised) and name (a whole path, NULL refused) are copied, dtype and shape
 * inferred. Checks what can be checked at once: arity, operand ids, dtypes, shapes, attributes, a name not taken. */
fb_id fb_build_node(fb_graph *g, const fb_node *node, fb_error *err);
/* Append copies; id arrays are copied, ids in them are checked by the verifier alone. */
fb_id fb_build_scope(fb_graph *g, const fb_scope *scope, fb_error *err);
fb_id fb_build_region(fb_graph *g, const fb_region *region, fb_error *err);
bool fb_build_output(fb_graph *g, fb_id node, const char *name, fb_error *err);
bool fb_build_taken(const fb_graph *g, const char *path); /* by a node or a scope */
/* The last steps of fb_graph_finish: users and names, the content hash, and dropping the builder's own memory. */
void fb_build_index(fb_graph *g);
fb_hash fb_build_hash(const fb_graph *g);
void fb_build_discard(fb_graph *g);

/* What a closed loop collects grows by `value` of its body, of each `every` steps the last, which divides the trips;
 * unless it is collected already. Gives the number that a RESULT node calls it by. */
int fb_build_stack(fb_graph *g, fb_id region, fb_id value, int32_t every);
/* All that is added after a mark can be taken back, as long as the loops and scopes open then are still open: nodes,
 * regions, scopes and their names. Nothing that was there then may have been changed. */
typedef struct {
    int nodes, scopes, regions, open, detached;
    fb_id scope, region;
} fb_build_mark;
fb_build_mark fb_build_here(const fb_graph *g);
void fb_build_back(fb_graph *g, fb_build_mark to);

/* Infers n->dtype and n->shape and normalises `at` for a node whose operands are in the graph. */
bool fb_infer(const fb_graph *g, fb_node *n, fb_attrs *at, fb_error *err);

/* Which fields of fb_attrs an op reads. */
enum {
    FB_AT_AXES = 1 << 0,
    FB_AT_KEEPDIM = 1 << 1,
    FB_AT_DIM = 1 << 2,
    FB_AT_START = 1 << 3,
    FB_AT_STOP = 1 << 4, /* and step */
    FB_AT_SHAPE = 1 << 5,
    FB_AT_PADDING = 1 << 6, /* before, after: as long as the operand's rank */
    FB_AT_VALUE = 1 << 7,
    FB_AT_HIGH = 1 << 8,
    FB_AT_DTYPE = 1 << 9,
    FB_AT_DIST = 1 << 10,
    FB_AT_PRECISION = 1 << 11,
    FB_AT_INDEX = 1 << 12,
    FB_AT_REGION = 1 << 13,
    FB_AT_TRIPS = 1 << 14,
    FB_AT_SEED = 1 << 15,
    FB_AT_FILE = 1 << 16,
};
unsigned fb_op_attrs(fb_op op);
extern const fb_attrs fb_attrs_none;
bool fb_attrs_equal(const fb_attrs *a, const fb_attrs *b);

/* What the loop of `region` begins with while it is open: initial values, then scanned tensors. NULL when it is not. */
const fb_id *fb_build_loop_operands(const fb_graph *g, fb_id region);
/* Nodes through which no gradient passes: known while the graph is being built, and no part of it. */
void fb_build_detach(fb_graph *g, fb_id id);
int fb_build_detached(const fb_graph *g, const fb_id **ids);
/* The innermost op scope around `scope`, FB_NONE for none. */
fb_id fb_scope_op(const fb_graph *g, fb_id scope);
/* The path that a scope's fields spell: parent's path, dot, name, [index]. Into `to`, returned. */
enum { FB_MAX_PATH = 4096, FB_MAX_SCOPE_DEPTH = 32, FB_MAX_REGION_DEPTH = 16 };
const char *fb_scope_spell(const fb_graph *g, fb_id parent, const char *name, int index, char to[FB_MAX_PATH]);

#endif
