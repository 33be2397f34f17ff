#include "plan/library.h"

static bool refuse(fb_verdict *why, const fb_graph *g, fb_id product, fb_id node, const char *what)
{
    *why = fb_verdict_make(FB_VERDICT_UNSUPPORTED, FB_RULE_LIBRARY,
                           "cuBLASLt adds a bias and takes relu on the way out of `%s`; `%s` %s",
                           g->nodes[product].name, g->nodes[node].name, what);
    return false;
}

/* One value for each column, side by side in memory, from outside the group. */
static bool is_bias(const fb_kernel_nodes *k, fb_id node, int64_t columns)
{
    const fb_graph *g = k->graph;
    const fb_shape *s = &g->nodes[node].shape;
    fb_id base;
    int64_t offset, strides[FB_MAX_RANK];
    if (s->rank < 1 || s->dim[s->rank - 1] != columns || fb_shape_elements(s) != columns) return false;
    if (!fb_access_strided(g, node, &base, &offset, strides) || (columns > 1 && strides[s->rank - 1] != 1))
        return false;
    for (int i = 0; i < k->n_nodes; i++)
        if (k->nodes[i] == base) return false;
    fb_op op = g->nodes[base].op; /* constants and the like are never in memory */
    return op == FB_OP_INPUT || op == FB_OP_PARAM || op == FB_OP_FEED || fb_node_is_computed(g, base);
}

static bool add_node(const fb_kernel_nodes *k, fb_id id, fb_library_epilogue *out, fb_verdict *why)
{
    const fb_graph *g = k->graph;
    const fb_node *n = &g->nodes[id];
    int64_t columns = g->nodes[out->product].shape.dim[g->nodes[out->product].shape.rank - 1];
    bool same_shape = fb_shape_equal(&n->shape, &g->nodes[out->product].shape);
    if (n->op == FB_OP_RELU && same_shape && n->args[0] == out->result && !out->relu) {
        out->relu = true;
        out->result = id;
        return true;
    }
    if (n->op != FB_OP_ADD || !same_shape || out->bias != FB_NONE || out->relu)
        return refuse(why, g, out->product, id, "is something else");
    int at = n->args[0] == out->result ? 0 : 1;
    if (n->args[at] != out->result || !is_bias(k, n->args[1 - at], columns))
        return refuse(why, g, out->product, id, "adds more than one stored value a column");
    out->bias = n->args[1 - at];
    out->result = id;
    return true;
}

bool fb_library_epilogue_of(const fb_kernel_nodes *k, fb_library_epilogue *out, fb_verdict *why)
{
    const fb_graph *g = k->graph;
    *out = (fb_library_epilogue){.product = FB_NONE, .bias = FB_NONE, .result = FB_NONE};
    for (int i = 0; i < k->n_nodes; i++)
        if (fb_node_class(g, k->nodes[i]) == FB_CLASS_CONTRACTION) out->product = out->result = k->nodes[i];
    for (int i = 0; i < k->n_nodes; i++)
        if (k->nodes[i] != out->product && !add_node(k, k->nodes[i], out, why)) return false;
    for (int i = 0; i < k->n_stored; i++)
        if (k->stored[i] != out->result)
            return refuse(why, g, out->product, k->stored[i], "is read by others and not the last value");
    return true;
}
