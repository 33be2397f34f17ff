/* Finishing a graph (outputs, hash), and what can be asked of a finished one: class, bytes and FLOPs of a node. A
 * name is part of the hash, a line of the script is not. */
#include "graph/build.h"

#include "base/integer.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- shapes ---- */

int64_t fb_shape_elements(const fb_shape *s)
{
    int64_t n = 1;
    for (int d = 0; d < s->rank; d++) n *= s->dim[d];
    return n;
}

void fb_shape_strides(const fb_shape *s, int64_t strides[FB_MAX_RANK])
{
    int64_t stride = 1;
    for (int d = s->rank - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= s->dim[d] > 0 ? s->dim[d] : 1;
    }
}

void fb_shape_expanded_strides(const fb_shape *s, int rank, int64_t strides[FB_MAX_RANK])
{
    int64_t own[FB_MAX_RANK];
    int before = rank - s->rank;
    fb_shape_strides(s, own);
    for (int d = 0; d < rank; d++) strides[d] = d < before || s->dim[d - before] == 1 ? 0 : own[d - before];
}

bool fb_shape_is_row_major(const fb_shape *s, const int64_t *strides)
{
    int64_t expect[FB_MAX_RANK];
    fb_shape_strides(s, expect);
    for (int d = 0; d < s->rank; d++)
        if (s->dim[d] > 1 && strides[d] != expect[d]) return false;
    return true;
}

bool fb_shape_equal(const fb_shape *a, const fb_shape *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0;
}

fb_shape fb_shape_of(int rank, const int64_t *dims)
{
    fb_shape s = {.rank = rank};
    for (int d = 0; d < rank; d++) s.dim[d] = dims[d];
    return s;
}

const char *fb_shape_format(const fb_shape *s, fb_dtype dtype, char to[192])
{
    int n = snprintf(to, 192, "%s[", dtype < FB_DTYPES ? fb_dtype_name(dtype) : "");
    for (int d = 0; d < s->rank; d++)
        n += snprintf(to + n, (size_t)(192 - n), "%s%lld", d ? "," : "", (long long)s->dim[d]);
    snprintf(to + n, (size_t)(192 - n), "]");
    return to;
}

/* ---- the life of a graph ---- */

void fb_graph_free(fb_graph *g)
{
    if (!g) return;
    fb_build_discard(g);
    fb_free(g->nodes);
    fb_free(g->scopes);
    fb_free(g->regions);
    fb_free(g->outputs);
    fb_free(g->output_names);
    fb_free(g->is_output);
    fb_arena_free(g->arena);
}

/* Calls the body once for each distinct operand; `seen` holds the last user of each node. */
#define EACH_OPERAND(g, i, seen, arg)                                                                                  \
    for (int k_ = 0, arg; k_ < (g)->nodes[i].n_args; k_++)                                                             \
        if ((arg = (g)->nodes[i].args[k_], (seen)[arg] != (i)) && ((seen)[arg] = (i), true))

static void index_users(fb_graph *g)
{
    int n = g->n_nodes;
    fb_id *seen = fb_alloc((size_t)(n + 1) * sizeof *seen);
    g->user_start = FB_NEW_ARRAY(g->arena, int, n + 1);
    memset(seen, 0xff, (size_t)n * sizeof *seen);
    for (fb_id i = 0; i < n; i++) EACH_OPERAND(g, i, seen, arg) g->user_start[arg + 1]++;
    for (int i = 0; i < n; i++) g->user_start[i + 1] += g->user_start[i];
    g->users = FB_NEW_ARRAY(g->arena, fb_id, g->user_start[n]);
    int *fill = fb_alloc((size_t)(n + 1) * sizeof *fill);
    memcpy(fill, g->user_start, (size_t)n * sizeof *fill);
    memset(seen, 0xff, (size_t)n * sizeof *seen);
    for (fb_id i = 0; i < n; i++) EACH_OPERAND(g, i, seen, arg) g->users[fill[arg]++] = i;
    fb_free(fill);
    fb_free(seen);
}

static int compare_names(const void *a, const void *b, void *nodes)
{
    const fb_node *n = nodes;
    return strcmp(n[*(const fb_id *)a].name, n[*(const fb_id *)b].name);
}

void fb_build_index(fb_graph *g)
{
    index_users(g);
    g->by_name = FB_NEW_ARRAY(g->arena, fb_id, g->n_nodes);
    for (fb_id i = 0; i < g->n_nodes; i++) g->by_name[i] = i;
    qsort_r(g->by_name, (size_t)g->n_nodes, sizeof *g->by_name, compare_names, g->nodes);
}

fb_id fb_graph_find(const fb_graph *g, const char *name)
{
    int low = 0, high = g->n_nodes;
    while (low < high) {
        int middle = low + (high - low) / 2;
        int order = strcmp(name, g->nodes[g->by_name[middle]].name);
        if (!order) return g->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return FB_NONE;
}

/* ---- the content hash ---- */

static void hash_number(fb_hasher *h, double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    fb_hasher_add_i64(h, bits);
}

static void hash_ids(fb_hasher *h, const fb_id *ids, int n)
{
    fb_hasher_add_i64(h, n);
    for (int i = 0; i < n; i++) fb_hasher_add_i64(h, ids[i]);
}

static void hash_dims(fb_hasher *h, const int64_t *dims, int n)
{
    fb_hasher_add_i64(h, n);
    for (int i = 0; i < n; i++) fb_hasher_add_i64(h, dims[i]);
}

/* Only what the op reads, so that a field added to fb_attrs later changes no hash of a graph without it. */
static void hash_attrs(fb_hasher *h, fb_op op, const fb_attrs *at)
{
    unsigned reads = fb_op_attrs(op);
    if (reads & FB_AT_AXES) hash_ids(h, at->axes, at->n_axes);
    if (reads & FB_AT_KEEPDIM) fb_hasher_add_i64(h, at->keepdim);
    if (reads & FB_AT_DIM) fb_hasher_add_i64(h, at->dim);
    if (reads & FB_AT_START) fb_hasher_add_i64(h, at->start);
    if (reads & FB_AT_STOP) hash_dims(h, (const int64_t[]){at->stop, at->step}, 2);
    if (reads & FB_AT_SHAPE) hash_dims(h, at->shape.dim, at->shape.rank);
    if (reads & FB_AT_PADDING) {
        hash_dims(h, at->before, FB_MAX_RANK);
        hash_dims(h, at->after, FB_MAX_RANK);
    }
    if (reads & FB_AT_VALUE) hash_number(h, at->value);
    if (reads & FB_AT_HIGH) hash_number(h, at->high);
    if (reads & FB_AT_DTYPE) fb_hasher_add_text(h, fb_dtype_name(at->dtype));
    if (reads & FB_AT_DIST) fb_hasher_add_i64(h, at->dist);
    if (reads & FB_AT_PRECISION) fb_hasher_add_i64(h, at->precision);
    if (reads & FB_AT_INDEX) fb_hasher_add_i64(h, at->index);
    if (reads & FB_AT_REGION) fb_hasher_add_i64(h, at->region);
    if (reads & FB_AT_TRIPS) fb_hasher_add_i64(h, at->trips);
    if (reads & FB_AT_SEED) fb_hasher_add_i64(h, (int64_t)at->seed);
    if (reads & FB_AT_FILE) fb_hasher_add_text(h, at->file ? at->file : "");
}

fb_hash fb_build_hash(const fb_graph *g)
{
    fb_hasher *h = fb_hasher_new();
    for (int i = 0; i < g->n_nodes; i++) {
        const fb_node *n = &g->nodes[i];
        fb_hasher_add_text(h, fb_op_get(n->op)->name);
        fb_hasher_add_text(h, n->name);
        hash_ids(h, (const fb_id[]){n->scope, n->region}, 2);
        hash_ids(h, n->args, n->n_args);
        hash_attrs(h, n->op, n->attrs);
    }
    for (int i = 0; i < g->n_scopes; i++) {
        const fb_scope *s = &g->scopes[i];
        fb_hasher_add_text(h, s->path);
        fb_hasher_add_text(h, s->op ? s->op : "");
        fb_hasher_add_text(h, s->attrs ? s->attrs : "");
        hash_ids(h, (const fb_id[]){s->parent, s->index}, 2);
        hash_ids(h, s->args, s->n_args);
        hash_ids(h, s->results, s->n_results);
    }
    for (int i = 0; i < g->n_regions; i++) {
        const fb_region *r = &g->regions[i];
        hash_ids(h, (const fb_id[]){r->parent, r->loop}, 2);
        fb_hasher_add_i64(h, r->trips);
        hash_ids(h, r->carried, r->n_carried);
        hash_ids(h, r->yields, r->n_carried);
        hash_ids(h, r->items, r->n_items);
        hash_ids(h, r->stacked, r->n_stacked);
        if (r->backwards) fb_hasher_add_text(h, "backwards");
        if (r->every) hash_ids(h, r->every, r->n_stacked);
    }
    hash_ids(h, g->outputs, g->n_outputs);
    for (int i = 0; i < g->n_outputs; i++) fb_hasher_add_text(h, g->output_names[i]);
    return fb_hasher_end(h);
}

/* ---- questions ---- */

bool fb_node_is_computed(const fb_graph *g, fb_id id)
{
    fb_op op = g->nodes[id].op;
    return fb_class_is_computed(fb_op_get(op)->cls) && op != FB_OP_FEED && op != FB_OP_RECEIVE;
}

bool fb_node_is_copied(const fb_graph *g, fb_id id)
{
    const fb_node *n = &g->nodes[id];
    return n->op == FB_OP_FEED || (n->op == FB_OP_RECEIVE && n->region == 0);
}

bool fb_graph_copies(const fb_graph *g)
{
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (fb_node_is_copied(g, i)) return true;
    return false;
}

bool fb_node_is_output(const fb_graph *g, fb_id id)
{
    return g->is_output[id];
}

int64_t fb_node_flops(const fb_graph *g, fb_id id)
{
    const fb_node *n = &g->nodes[id];
    const fb_op_info *info = fb_op_get(n->op);
    int64_t elements = fb_shape_elements(&n->shape);
    if (info->cls == FB_CLASS_POINTWISE) return elements * info->flops;
    if (info->cls == FB_CLASS_REDUCTION) return fb_shape_elements(&g->nodes[n->args[0]].shape) * info->flops;
    if (fb_op_is_running(n->op)) return elements;
    if (n->op == FB_OP_RANK) return elements * fb_log2_ceil(n->shape.dim[n->attrs->dim]);
    if (n->op == FB_OP_SCATTER_ADD) return fb_shape_elements(&g->nodes[n->args[0]].shape);
    return n->op == FB_OP_MATMUL ? 2 * elements * fb_contraction_of(g, id).depth : 0;
}

int64_t fb_reduced_elements(const fb_graph *g, fb_id reduction)
{
    const fb_node *n = &g->nodes[reduction];
    const fb_shape *x = &g->nodes[n->args[0]].shape;
    int64_t elements = 1;
    for (int i = 0; i < n->attrs->n_axes; i++) elements *= x->dim[n->attrs->axes[i]];
    return elements;
}

bool fb_node_is_windows(const fb_graph *g, fb_id id)
{
    for (; fb_op_get(g->nodes[id].op)->cls == FB_CLASS_VIEW; id = g->nodes[id].args[0])
        if (g->nodes[id].op == FB_OP_UNFOLD) return true;
    return false;
}

bool fb_reduces_windows(const fb_graph *g, fb_id reduction)
{
    return fb_node_is_windows(g, g->nodes[reduction].args[0]);
}

bool fb_node_is_short_reduction(const fb_graph *g, fb_id node)
{
    fb_op op = g->nodes[node].op;
    if (fb_node_class(g, node) != FB_CLASS_REDUCTION || op == FB_OP_ARGMAX || op == FB_OP_ARGMIN) return false;
    int64_t elements = fb_reduced_elements(g, node);
    return elements > 1 && elements <= FB_SHORT_WINDOW &&
           (elements <= FB_SHORT_REDUCTION || fb_reduces_windows(g, node));
}

fb_contraction fb_contraction_of(const fb_graph *g, fb_id node)
{
    const fb_node *n = &g->nodes[node];
    const fb_shape *s = &n->shape, *left = &g->nodes[n->args[0]].shape;
    fb_contraction c = {.node = node,
                        .operand = {n->args[0], n->args[1]},
                        .batch = 1,
                        .rows = s->dim[s->rank - 2],
                        .columns = s->dim[s->rank - 1],
                        .depth = left->dim[left->rank - 1]};
    for (int d = 0; d < s->rank - 2; d++) c.batch *= s->dim[d];
    return c;
}

int64_t fb_node_bytes(const fb_graph *g, fb_id id)
{
    return fb_shape_elements(&g->nodes[id].shape) * fb_dtype_size(g->nodes[id].dtype);
}

bool fb_scope_within(const fb_graph *g, fb_id inner, fb_id outer)
{
    if (outer == FB_NONE) return true;
    while (inner > outer) inner = g->scopes[inner].parent; /* a parent's id is smaller than its children's */
    return inner == outer;
}

fb_id fb_scope_op(const fb_graph *g, fb_id scope)
{
    while (scope != FB_NONE && g->scopes[scope].kind != FB_SCOPE_OP) scope = g->scopes[scope].parent;
    return scope;
}

bool fb_region_within(const fb_graph *g, fb_id inner, fb_id outer)
{
    while (inner > outer) inner = g->regions[inner].parent;
    return inner == outer;
}
