/* The graph: an SSA DAG of ops with shapes and dtypes. What is computed, and nothing of how.
 *
 * Life: fb_graph_new → fb_graph_scope_open/close and fb_graph_add … → fb_graph_output → fb_graph_finish, which verifies
 * and fixes the hash. From then on a graph is immutable, may be shared freely, and lives until fb_graph_free, which
 * frees all of it. Node ids are dense and in order: operands come before users; a region's body lies between the
 * operands of its loop node and the loop node itself, and may read what lies around the loop.
 *
 * Plans are only ever made for canonical graphs (graph/canon.h).
 */
#ifndef FB_GRAPH_GRAPH_H
#define FB_GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/error.h"
#include "base/hash.h"
#include "graph/op.h"

#include <stdbool.h>
#include <stdint.h>

enum { FB_MAX_RANK = 8, FB_NONE = -1, FB_MAX_NODES = 1 << 20 };
#define FB_MAX_ELEMENTS ((int64_t)1 << 40)
/* Of a rank that counts, for each pair of elements: two comparisons of which one is taken, the choice, the sum. */
enum { FB_RANK_FLOPS = 4 };

typedef int32_t fb_id; /* a node, scope or region: an index; FB_NONE for none */

typedef struct {
    int rank; /* 0 … FB_MAX_RANK; rank 0 is a scalar with one element */
    int64_t dim[FB_MAX_RANK];
} fb_shape;

int64_t fb_shape_elements(const fb_shape *s); /* product of dims, 1 for a scalar, 0 where a dim is 0 */
bool fb_shape_equal(const fb_shape *a, const fb_shape *b);
/* Steps of a tensor that lies row by row, in elements; over an empty dim as over one element. */
void fb_shape_strides(const fb_shape *s, int64_t strides[FB_MAX_RANK]);
/* The same read as a tensor of `rank` dims, its own being the last: dims of one element, and those before, step by 0.
 */
void fb_shape_expanded_strides(const fb_shape *s, int rank, int64_t strides[FB_MAX_RANK]);
/* Does a tensor with these steps lie so? Dims of one element may step as they like. */
bool fb_shape_is_row_major(const fb_shape *s, const int64_t *strides);
fb_shape fb_shape_of(int rank, const int64_t *dims);
/* "f32[4,1000]"; dtype FB_DTYPES: "[4,1000]". */
const char *fb_shape_format(const fb_shape *s, fb_dtype dtype, char to[192]);

typedef enum { FB_DIST_UNIFORM, FB_DIST_NORMAL, FB_DIST_INTEGER, FB_DIST_CONSTANT, FB_DIST_FILE, FB_DISTS } fb_dist;
typedef enum { FB_PRECISION_IEEE, FB_PRECISION_TF32 } fb_precision;

/* Attributes: one flat record; ops.def says which fields an op reads. A node's record is normalised: unread fields are
 * zero; axes and dims are non-negative, axes of reductions and flips sorted and never left out; a slice's stop is just
 * past its last element; values are rounded to the dtype. */
typedef struct {
    int n_axes, axes[FB_MAX_RANK];
    bool keepdim;
    int dim;
    int64_t start, stop, step;
    fb_shape shape;
    int64_t before[FB_MAX_RANK], after[FB_MAX_RANK];
    double value, high; /* constant or pad value or clamp low; clamp high; distributions: low/mean and high/deviation */
    fb_dtype dtype;
    fb_dist dist;
    fb_precision precision;
    int index;
    fb_id region;
    int64_t trips;
    uint64_t seed;
    const char *file; /* FB_DIST_FILE: content key of bytes the front serves; arena-owned */
} fb_attrs;

typedef struct {
    fb_op op;
    fb_dtype dtype;
    fb_shape shape;
    int n_args;
    const fb_id *args;
    const fb_attrs *attrs; /* never NULL */
    fb_id scope;           /* innermost scope, FB_NONE at top */
    fb_id region;          /* 0: the whole graph */
    const char *name;      /* unique path: "feature[3].layer_norm.mean", "tanh", "tanh_2" */
    int line;              /* of the script, 0 unknown */
} fb_node;

typedef enum { FB_SCOPE_REGION, FB_SCOPE_OP } fb_scope_kind;

/* A scope is a region of the script (`feature[3]`) or a framework-level op (`layer_norm`) with its operands, attributes
 * and result, as the eager preset and the PyTorch peer take it. */
typedef struct {
    fb_scope_kind kind;
    fb_id parent;      /* scope or FB_NONE */
    const char *name;  /* "feature" or "layer_norm": one path element without index */
    int index;         /* 3 of feature[3]; FB_NONE where the scope is no member of a repetition */
    const char *path;  /* "feature[3].layer_norm" (a second scope of that name: "layer_norm_2") */
    const char *op;    /* FB_SCOPE_OP: the framework's name, "layer_norm"; else NULL */
    const char *attrs; /* FB_SCOPE_OP: JSON object text, "{}" when none; else NULL */
    int n_args;
    const fb_id *args; /* FB_SCOPE_OP: operand nodes; FB_NONE where canonicalising found the operand dead */
    int n_results;
    const fb_id *results; /* FB_SCOPE_OP: result nodes; FB_NONE likewise */
    int line;
} fb_scope;

/* Region 0 is the graph. Others belong to a loop node: carried[i] is the CARRIED node in the body (FB_NONE when the
 * body does not read it), yields[i] what it becomes; items[k] the ITEM nodes; stacked[j] body values collected over the
 * steps, which RESULT nodes number after the carried ones. `backwards`: the first step takes the last item of each
 * scanned tensor and puts what it stacks last, and so on; the counter counts up all the same. */
typedef struct {
    fb_id parent; /* region */
    fb_id loop;   /* LOOP node; FB_NONE for region 0 */
    int64_t trips;
    bool backwards;
    int n_carried;
    const fb_id *carried, *yields;
    int n_items;
    const fb_id *items;
    int n_stacked;
    const fb_id *stacked;
    const int32_t *every; /* of stacked[j]: of each so many steps only the last is kept; NULL: of all */
} fb_region;

typedef struct fb_graph {
    fb_arena *arena;
    const char *title;
    int n_nodes, n_scopes, n_regions, n_outputs;
    /* growing arrays on the heap, all else in the arena */
    fb_node *nodes;
    fb_scope *scopes;
    fb_region *regions;
    fb_id *outputs; /* results in order; assigns and receives are effects, kept alive like outputs. One node may be two
                       outputs of a canonical graph, where they were found to be equal. */
    const char **output_names;
    bool *is_output; /* one a node: output or effect */
    /* after fb_graph_finish: users of node i are users[user_start[i]] … users[user_start[i + 1] - 1], in order, each
     * once however many operands it has */
    int *user_start;
    fb_id *users;
    /* a node: its dims as they lie in memory, the outermost first; NULL: row by row (graph/storage.h) */
    const int **lies_as;
    fb_id *by_name; /* all nodes, sorted by name */
    fb_hash hash;
    bool finished, canonical;
    struct fb_graph_builder *builder; /* NULL once finished */
} fb_graph;

fb_graph *fb_graph_new(const char *title);
void fb_graph_free(fb_graph *g);

/* Adds a node: checks arity, dtypes, attributes; infers shape and dtype; names it. `name` NULL takes the op's name; a
 * taken name gets _2, _3 … (nodes and scopes share their names). `attrs` NULL is all zero; it is copied. Axes and dims
 * may count from the end (-1), one dim of a view may be -1 (what is left), dims of an expand may be -1 (as they are),
 * a reduction without axes takes all. Returns FB_NONE with an error like
 * "view: 12 elements do not fit shape [5,2] (x: f32[3,4])"; the caller adds the script line. */
fb_id fb_graph_add(fb_graph *g, fb_op op, const fb_id *args, int n_args, const fb_attrs *attrs, const char *name,
                   int line, fb_error *err);

/* Scopes nest (32 deep at most); nodes added in between belong to the innermost. index FB_NONE: no repetition. `op`
 * non-NULL makes an op scope; attrs_json is then a JSON object or NULL for none. close takes the results of an op scope
 * (n_results 0 for a region). */
fb_id fb_graph_scope_open(fb_graph *g, const char *name, int index, const char *op, const fb_id *args, int n_args,
                          const char *attrs_json, int line, fb_error *err);
bool fb_graph_scope_close(fb_graph *g, const fb_id *results, int n_results, fb_error *err);

/* Regions (16 deep at most): open returns the region id; nodes added until close belong to it. inits and scanned
 * tensors must lie outside. carried[] and items[] receive the body's nodes. close takes one yield per carried value and
 * the stacked values and returns the LOOP node; RESULT nodes are then added with fb_graph_add. */
fb_id fb_graph_region_open(fb_graph *g, int64_t trips, const fb_id *inits, int n_inits, const fb_id *scanned,
                           int n_scanned, fb_id *carried, fb_id *items, int line, fb_error *err);
void fb_graph_region_turn(fb_graph *g); /* the loop opened last runs backwards */
fb_id fb_graph_region_close(fb_graph *g, const fb_id *yields, const fb_id *stacked, int n_stacked, fb_error *err);

/* `name` NULL: "out", "out_2" …. A node may be output once. */
bool fb_graph_output(fb_graph *g, fb_id node, const char *name, fb_error *err);

/* Verifies, computes users and the content hash (ops, attributes, edges, names, scopes; not lines or title). */
bool fb_graph_finish(fb_graph *g, fb_error *err);

/* Checks every invariant above; the sentence names the node. Run after each pass in debug builds. */
bool fb_graph_verify(const fb_graph *g, fb_error *err);

static inline const fb_node *fb_node_at(const fb_graph *g, fb_id id)
{
    return &g->nodes[id];
}
/* A source that kernels compute as they go, also where one lies in memory for a library call. */
static inline bool fb_op_is_made_up(fb_op op)
{
    return op == FB_OP_CONST || op == FB_OP_IOTA || op == FB_OP_RANDOM;
}

static inline fb_op_class fb_node_class(const fb_graph *g, fb_id id)
{
    return fb_op_get(g->nodes[id].op)->cls;
}
/* What each run copies: a feed to the device, what is received from it. Inside loops, feeds alone: what they bring is
 * the same in every step. */
static inline int64_t fb_region_place(const fb_region *r, int64_t step) /* of the step's items and stacked values */
{
    return r->backwards ? r->trips - 1 - step : step;
}
static inline int64_t fb_region_every(const fb_region *r, int stacked)
{
    return r->every ? r->every[stacked] : 1;
}
bool fb_node_is_copied(const fb_graph *g, fb_id node);
bool fb_graph_copies(const fb_graph *g); /* is there such a node? */
/* True for nodes that a group must hold: the computed classes without `feed` and `receive`, which only move what is
 * there already. */
bool fb_node_is_computed(const fb_graph *g, fb_id id);
bool fb_node_is_output(const fb_graph *g, fb_id id);      /* output or effect */
fb_id fb_graph_find(const fb_graph *g, const char *name); /* by node name; FB_NONE */
/* FLOPs of one evaluation of the node (multiply-add counts 2); of a rank, the comparisons of a sort. */
int64_t fb_node_flops(const fb_graph *g, fb_id id);
int64_t fb_node_bytes(const fb_graph *g, fb_id id); /* elements × dtype size */
/* Elements of the operand for each of a reduction's. A short one may be computed anew wherever it is read: over a few
 * elements, or over a window of some more (a pool). Its result is an element, not the place of one. */
enum { FB_SHORT_REDUCTION = 8, FB_SHORT_WINDOW = 27 };
int64_t fb_reduced_elements(const fb_graph *g, fb_id reduction);
bool fb_node_is_windows(const fb_graph *g, fb_id id); /* a view of windows, which may lie over each other */
bool fb_reduces_windows(const fb_graph *g, fb_id reduction);
bool fb_node_is_short_reduction(const fb_graph *g, fb_id node);

/* A contraction: so many products of matrices, rows × depth by depth × columns. */
typedef struct {
    fb_id node, operand[2];
    int64_t batch, rows, columns, depth;
} fb_contraction;
fb_contraction fb_contraction_of(const fb_graph *g, fb_id node);

/* Is scope `inner` the scope `outer` or inside it? */
bool fb_scope_within(const fb_graph *g, fb_id inner, fb_id outer);
/* Is region `inner` the region `outer` or inside it? Then its nodes may read values of that. */
bool fb_region_within(const fb_graph *g, fb_id inner, fb_id outer);

#endif
