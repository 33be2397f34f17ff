/* Looks for the parts of a library call's epilogue among what follows a product, from the product on; the first node
 * that is none ends it. Needs a graph and the group's nodes.
 */
#include "judge/library.h"

#include <math.h>

/* The group as it is read, from its product on. */
typedef struct {
    const fb_kernel_nodes *k;
    const fb_graph *g;
    bool convolves; /* cuDNN makes it */
    fb_library_epilogue *out;
    fb_verdict *why;
} reading;

static bool refuse(const reading *r, fb_id node, const char *what)
{
    const char *product = r->g->nodes[r->out->product].name, *name = r->g->nodes[node].name;
    if (r->convolves)
        *r->why = fb_verdict_make(FB_VERDICT_UNSUPPORTED, FB_RULE_LIBRARY,
                                  "cuDNN adds a stored tensor and a bias of each channel to the convolution `%s`, and "
                                  "takes relu of that; `%s` %s",
                                  product, name, what);
    else
        *r->why = fb_verdict_make(
            FB_VERDICT_UNSUPPORTED, FB_RULE_LIBRARY,
            "cuBLASLt scales `%s`, adds a stored tensor and a bias to it, and takes relu of that; `%s` %s", product,
            name, what);
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

/* The dim of a sum's shape that a bias goes along; FB_NONE: the product's rows are no dim of it. */
static int bias_dim(const reading *r, const fb_shape *sum)
{
    const fb_contraction c = fb_contraction_of(r->g, r->out->product);
    int64_t before = 1, all = fb_shape_elements(sum);
    if (!r->out->turned) return sum->rank - 1;
    for (int d = 0; d < sum->rank; before *= sum->dim[d++])
        if (before == c.batch && sum->dim[d] == c.rows && before * c.rows * c.columns == all) return d;
    return FB_NONE;
}

/* One value for each of the sum's elements along that dim, side by side. */
static bool is_bias(const reading *r, fb_id node, fb_id sum)
{
    const fb_node *n = &r->g->nodes[node];
    fb_contraction c = fb_contraction_of(r->g, r->out->product);
    int64_t extent = r->out->turned ? c.rows : c.columns;
    const fb_shape *s = &r->g->nodes[sum].shape;
    int dim = bias_dim(r, s), at = dim - (s->rank - n->shape.rank);
    fb_id base;
    int64_t strides[FB_MAX_RANK];
    if (dim == FB_NONE || at < 0 || n->shape.dim[at] != extent || fb_shape_elements(&n->shape) != extent) return false;
    return is_stored(r->k, node, &base, strides) && (extent <= 1 || strides[at] == 1);
}

/* A value for each element of the sum, which lies in memory as what is stored does: rows of columns side by side, and
 * batches that follow each other. */
static bool is_addend(const reading *r, fb_id node, fb_id sum)
{
    const fb_shape *s = &r->g->nodes[sum].shape;
    fb_id base;
    int64_t strides[FB_MAX_RANK], own[FB_MAX_RANK];
    if (!fb_shape_equal(&r->g->nodes[node].shape, s) || !is_stored(r->k, node, &base, strides)) return false;
    if (r->g->nodes[node].dtype != r->g->nodes[r->out->product].dtype) return false;
    if (!r->out->turned) {
        bool apart = s->rank == 2 && s->dim[1] > 0 && strides[0] > s->dim[1];
        if (apart) strides[0] = s->dim[1]; /* of one matrix, rows may lie apart */
        return fb_shape_is_row_major(s, strides);
    }
    fb_storage_strides(r->g, r->k->stored[0], own);
    bool alike = fb_shape_equal(&r->g->nodes[r->k->stored[0]].shape, s);
    for (int d = 0; d < s->rank && alike; d++) alike = s->dim[d] == 1 || strides[d] == own[d];
    return alike;
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

/* Is the operand what the call gives so far? A result that lies by columns may be seen in another shape in between, as
 * pictures are. */
static bool is_result(const reading *r, fb_id operand)
{
    while (r->out->turned && operand != r->out->result && r->g->nodes[operand].op == FB_OP_VIEW)
        operand = r->g->nodes[operand].args[0];
    return operand == r->out->result;
}

static bool add_sum(reading *r, fb_id id)
{
    fb_library_epilogue *out = r->out;
    const fb_node *n = &r->g->nodes[id];
    int at = is_result(r, n->args[0]) ? 0 : 1;
    fb_id other = n->args[1 - at];
    if (!is_result(r, n->args[at]) || is_result(r, other)) return refuse(r, id, "adds something else");
    bool plus = n->op == FB_OP_ADD;
    if (plus && out->bias == FB_NONE && is_bias(r, other, id)) {
        out->bias = other;
    } else if (out->addend == FB_NONE && is_addend(r, other, id) && (plus || (out->bias < 0 && !r->convolves))) {
        out->addend = other;
        if (n->op == FB_OP_SUB && at == 0) out->addend_scale = -1;
        if (n->op == FB_OP_SUB && at == 1) out->scale = -out->scale;
    } else {
        return refuse(r, id, "adds another tensor than those, or one that lies otherwise in memory");
    }
    out->result = id;
    return true;
}

/* Elements of the product in their order. */
static bool has_its_shape(const reading *r, fb_id id)
{
    const fb_shape *s = &r->g->nodes[id].shape, *product = &r->g->nodes[r->out->product].shape;
    return r->out->turned ? fb_shape_elements(s) == fb_shape_elements(product) : fb_shape_equal(s, product);
}

static bool add_node(reading *r, fb_id id)
{
    fb_library_epilogue *out = r->out;
    const fb_node *n = &r->g->nodes[id];
    bool plain = out->result == out->product && !r->convolves;
    double factor;
    if (!has_its_shape(r, id) || out->relu) return refuse(r, id, "is something else");
    if (n->op == FB_OP_RELU && is_result(r, n->args[0])) {
        out->relu = true;
        out->result = id;
        return true;
    }
    for (int a = 0; a < 2 && n->op == FB_OP_MUL && plain; a++) {
        if (!is_result(r, n->args[a]) || !is_factor(r->g, n->args[1 - a], &factor)) continue;
        out->scale = factor;
        out->result = id;
        return true;
    }
    if (n->op == FB_OP_ADD || n->op == FB_OP_SUB) return add_sum(r, id);
    return refuse(r, id, "is something else");
}

/* cuDNN has kernels that do more than convolve for pictures of 16 bits that lie channels last. */
static bool does_more(const reading *r, const fb_convolution *c)
{
    enum { PICTURES = 2 };
    return r->out->turned && c->space == PICTURES && fb_dtype_is_half(r->g->nodes[r->out->product].dtype);
}

bool fb_library_epilogue_of(const fb_machine *m, const fb_kernel_nodes *k, fb_library_epilogue *out, fb_verdict *why)
{
    const fb_graph *g = k->graph;
    fb_id product = k->contractions[0];
    fb_convolution convolution;
    *out = (fb_library_epilogue){
        .product = product, .bias = FB_NONE, .addend = FB_NONE, .result = product, .scale = 1, .addend_scale = 1};
    reading r = {.k = k, .g = g, .out = out, .why = why};
    r.convolves = fb_library_convolves(m, g, product, &convolution, NULL, NULL);
    out->turned = k->n_stored == 1 && fb_storage_is_turned(g, product, k->stored[0]);
    if (k->n_nodes > 1 && fb_contraction_of(g, product).depth == 0)
        return refuse(&r, product, "is a sum over nothing, which is only cleared");
    if (k->n_nodes > 1 && r.convolves && !does_more(&r, &convolution)) {
        fb_id other = k->nodes[k->nodes[0] == product ? 1 : 0];
        *why = fb_verdict_make(FB_VERDICT_UNSUPPORTED, FB_RULE_LIBRARY,
                               "cuDNN convolves and does nothing else where pictures are not of 16 bits and channels "
                               "last: `%s` is another kernel",
                               g->nodes[other].name);
        return false;
    }
    for (int i = 0; i < k->n_nodes; i++)
        if (k->nodes[i] != out->product && !add_node(&r, k->nodes[i])) return false;
    for (int i = 0; i < k->n_stored; i++)
        if (k->stored[i] != out->result) return refuse(&r, k->stored[i], "is read by others and not the last value");
    if (g->lies_as[out->result] && !out->turned)
        return refuse(&r, out->result, "lies in memory in another order than row by row");
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

/* Tensor cores take eight channels at a time, and where there are fewer cuDNN 9 has no kernel worth the name: a product with
 * windows that are laid out is left. (bf16 on an H200: 7 × 7 of three channels to 64, 32 pictures of 224 × 224, 317 µs; patches
 * of 16 × 16 to 768 321.) */
static bool has_few_channels(const fb_convolution *c, fb_dtype dtype)
{
    enum { BLOCK = 8 };
    return fb_dtype_is_half(dtype) && c->groups == 1 && c->in < BLOCK;
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
                     fb_graph_convolution(g, node, &call, tensor, first) &&
                     (!m->target->grid || (is_dense(&call) && !has_few_channels(&call, dtype)));
    if (convolves && out) *out = call;
    return convolves;
}

bool fb_library_lays_out(const fb_machine *m, const fb_graph *g, fb_id product, int arg)
{
    return fb_storage_operand(g, product, arg, (int64_t[FB_MAX_RANK]){0}) == FB_OPERAND_LAID_OUT &&
           !(arg == 1 && fb_library_convolves(m, g, product, NULL, NULL, NULL));
}
