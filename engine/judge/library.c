/* Looks for the parts of a library call's epilogue among what follows a product, from the product on; the first node
 * that is none ends it. Needs a graph and the group's nodes.
 */
#include "judge/library.h"

#include <math.h>

static bool refuse(fb_verdict *why, const fb_graph *g, fb_id product, fb_id node, const char *what)
{
    *why =
        fb_verdict_make(FB_VERDICT_UNSUPPORTED, FB_RULE_LIBRARY,
                        "cuBLASLt scales `%s`, adds a stored tensor and a bias to it, and takes relu of that; `%s` %s",
                        g->nodes[product].name, g->nodes[node].name, what);
    return false;
}

/* In memory, and from outside the group; *base is where. */
static bool is_stored(const fb_kernel_nodes *k, fb_id node, fb_id *base, int64_t strides[FB_MAX_RANK])
{
    const fb_graph *g = k->graph;
    int64_t offset;
    if (!fb_access_strided(g, node, base, &offset, strides)) return false;
    for (int i = 0; i < k->n_nodes; i++)
        if (k->nodes[i] == *base) return false;
    fb_op op = g->nodes[*base].op; /* constants and the like are never in memory */
    return op == FB_OP_INPUT || op == FB_OP_PARAM || op == FB_OP_FEED || fb_node_is_computed(g, *base);
}

/* One value for each column, side by side. */
static bool is_bias(const fb_kernel_nodes *k, fb_id node, int64_t columns)
{
    const fb_shape *s = &k->graph->nodes[node].shape;
    fb_id base;
    int64_t strides[FB_MAX_RANK];
    if (s->rank < 1 || s->dim[s->rank - 1] != columns || fb_shape_elements(s) != columns) return false;
    return is_stored(k, node, &base, strides) && (columns <= 1 || strides[s->rank - 1] == 1);
}

/* A value for each element of the product: rows of columns side by side, and batches that follow each other. */
static bool is_addend(const fb_kernel_nodes *k, fb_id node, fb_id product)
{
    const fb_shape *s = &k->graph->nodes[product].shape;
    fb_id base;
    int64_t strides[FB_MAX_RANK];
    if (!fb_shape_equal(&k->graph->nodes[node].shape, s) || !is_stored(k, node, &base, strides)) return false;
    if (k->graph->nodes[node].dtype != k->graph->nodes[product].dtype) return false;
    bool apart = s->rank == 2 && s->dim[1] > 0 && strides[0] > s->dim[1];
    if (apart) strides[0] = s->dim[1]; /* of one matrix, rows may lie apart */
    return fb_shape_is_row_major(s, strides);
}

/* The constant that `node` is everywhere; false where it is none that an accumulator may be scaled by. */
static bool is_factor(const fb_graph *g, fb_id node, double *factor)
{
    const fb_node *base = &g->nodes[fb_access_base(g, node)];
    if (base->op != FB_OP_CONST || fb_node_class(g, node) == FB_CLASS_JOIN) return false;
    fb_id strided;
    int64_t offset, strides[FB_MAX_RANK];
    if (!fb_access_strided(g, node, &strided, &offset, strides)) return false; /* padding has other values */
    *factor = base->attrs->value;
    return isfinite(*factor);
}

static bool add_sum(const fb_kernel_nodes *k, fb_id id, fb_library_epilogue *out, fb_verdict *why)
{
    const fb_graph *g = k->graph;
    const fb_node *n = &g->nodes[id];
    int64_t columns = fb_contraction_of(g, out->product).columns;
    int at = n->args[0] == out->result ? 0 : 1;
    fb_id other = n->args[1 - at];
    if (n->args[at] != out->result || other == out->result)
        return refuse(why, g, out->product, id, "adds something else");
    if (n->op == FB_OP_ADD && out->bias == FB_NONE && is_bias(k, other, columns)) {
        out->bias = other;
    } else if (out->addend == FB_NONE && is_addend(k, other, out->product) && (n->op == FB_OP_ADD || out->bias < 0)) {
        out->addend = other;
        if (n->op == FB_OP_SUB && at == 0) out->addend_scale = -1;
        if (n->op == FB_OP_SUB && at == 1) out->scale = -out->scale;
    } else {
        return refuse(why, g, out->product, id, "adds another tensor than those, or one that lies otherwise in memory");
    }
    out->result = id;
    return true;
}

static bool add_node(const fb_kernel_nodes *k, fb_id id, fb_library_epilogue *out, fb_verdict *why)
{
    const fb_graph *g = k->graph;
    const fb_node *n = &g->nodes[id];
    bool same_shape = fb_shape_equal(&n->shape, &g->nodes[out->product].shape), plain = out->result == out->product;
    double factor;
    if (!same_shape || out->relu) return refuse(why, g, out->product, id, "is something else");
    if (n->op == FB_OP_RELU && n->args[0] == out->result) {
        out->relu = true;
        out->result = id;
        return true;
    }
    for (int a = 0; a < 2 && n->op == FB_OP_MUL && plain; a++) {
        if (n->args[a] != out->result || !is_factor(g, n->args[1 - a], &factor)) continue;
        out->scale = factor;
        out->result = id;
        return true;
    }
    if (n->op == FB_OP_ADD || n->op == FB_OP_SUB) return add_sum(k, id, out, why);
    return refuse(why, g, out->product, id, "is something else");
}

bool fb_library_epilogue_of(const fb_kernel_nodes *k, fb_library_epilogue *out, fb_verdict *why)
{
    const fb_graph *g = k->graph;
    fb_id product = k->contractions[0];
    *out = (fb_library_epilogue){
        .product = product, .bias = FB_NONE, .addend = FB_NONE, .result = product, .scale = 1, .addend_scale = 1};
    if (k->n_nodes > 1 && fb_contraction_of(g, product).depth == 0)
        return refuse(why, g, out->product, out->product, "is a sum over nothing, which is only cleared");
    for (int i = 0; i < k->n_nodes; i++)
        if (k->nodes[i] != out->product && !add_node(k, k->nodes[i], out, why)) return false;
    for (int i = 0; i < k->n_stored; i++)
        if (k->stored[i] != out->result)
            return refuse(why, g, out->product, k->stored[i], "is read by others and not the last value");
    if (g->lies_as[out->result] != FB_NONE)
        return refuse(why, g, product, out->result, "lies in memory in another order than row by row");
    return true;
}

/* cuDNN's kernels read tensors whose channels, or whose rows, lie side by side and densely. */
static bool is_dense(const fb_convolution *c)
{
    int64_t rows = 1, pixels = c->groups * c->in, w = 1;
    bool by_rows = true, by_pixels = c->x_channel == 1 && pixels > 1, weights = true;
    for (int d = c->space - 1; d >= 0; d--) {
        const fb_convolution_dim *at = &c->dim[d];
        by_rows &= at->size == 1 || at->x_step == rows;
        by_pixels &= at->size == 1 || at->x_step == pixels;
        weights &= at->kernel == 1 || at->w_step == w;
        rows *= at->size, pixels *= at->size, w *= at->kernel;
    }
    by_rows &= pixels == 1 || c->groups * c->in == 1 || c->x_channel == rows;
    weights &= (c->in == 1 || c->w_in == w) && (c->groups * c->out == 1 || c->w_out == c->in * w);
    return weights && (by_rows || by_pixels) && (c->batch == 1 || c->x_batch >= pixels);
}

bool fb_library_convolves(const fb_machine *m, const fb_graph *g, fb_id node, fb_convolution *out, fb_id *tensor,
                          int64_t *first)
{
    int64_t strides[FB_MAX_RANK];
    fb_dtype dtype = g->nodes[node].dtype;
    fb_convolution call;
    bool convolves = m->convolution.n && fb_node_class(g, node) == FB_CLASS_CONTRACTION &&
                     (dtype == FB_F32 || fb_dtype_is_half(dtype)) &&
                     fb_storage_operand(g, node, 1, strides) != FB_OPERAND_LIES &&
                     fb_graph_convolution(g, node, &call, tensor, first) && (!m->target->grid || is_dense(&call));
    if (convolves && out) *out = call;
    return convolves;
}

bool fb_library_lays_out(const fb_machine *m, const fb_graph *g, fb_id product, int arg)
{
    return fb_storage_operand(g, product, arg, (int64_t[FB_MAX_RANK]){0}) == FB_OPERAND_LAID_OUT &&
           !(arg == 1 && fb_library_convolves(m, g, product, NULL, NULL, NULL));
}
