/* The graph of a graph's gradients: a copy of it, grown by reverse-mode differentiation of a sum over its outputs, each
 * times the gradient that will be given for it. Needs a finished graph; leaves a canonical one without what the
 * gradients do not need. */
#include "graph/backward.h"

#include "graph/autodiff.h"
#include "graph/build.h"
#include "graph/canon.h"

#include <string.h>

static bool is_source(const fb_node *n)
{
    return (n->op == FB_OP_INPUT || n->op == FB_OP_PARAM) && fb_dtype_is_float(n->dtype);
}

/* Is output `i` a float, and no output before it? One that is a source leaves as a copy, with a gradient of its own. */
static bool counts(const fb_graph *g, int i)
{
    if (!fb_dtype_is_float(g->nodes[g->outputs[i]].dtype)) return false;
    for (int k = 0; k < i; k++)
        if (g->outputs[k] == g->outputs[i]) return false;
    return true;
}

static bool has_gradient(const fb_graph *g, fb_error *err)
{
    bool sources = false, outputs = false;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        const fb_node *n = &g->nodes[i];
        if (n->op == FB_OP_ASSIGN)
            return fb_fail(err, FB_ERR_LIMIT, "it changes `%s` in place, and such a step is not differentiated",
                           g->nodes[n->args[0]].name);
        if (fb_op_get(n->op)->cls == FB_CLASS_EFFECT)
            return fb_fail(err, FB_ERR_LIMIT, "it copies `%s` between host and device on the way", n->name);
        sources |= is_source(n);
    }
    for (int i = 0; i < g->n_outputs; i++) outputs |= counts(g, i);
    if (!outputs) return fb_fail(err, FB_ERR_LIMIT, "none of its outputs is a float");
    if (!sources) return fb_fail(err, FB_ERR_LIMIT, "nothing that it is given is a float");
    return true;
}

/* As it stands: ids stay the same. */
static bool copy(const fb_graph *g, fb_graph *to, fb_error *err)
{
    for (fb_id i = 0; i < g->n_scopes; i++)
        if (fb_build_scope(to, &g->scopes[i], err) == FB_NONE) return false;
    for (fb_id i = 1; i < g->n_regions; i++)
        if (fb_build_region(to, &g->regions[i], err) == FB_NONE) return false;
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (fb_build_node(to, &g->nodes[i], err) == FB_NONE) return false;
    return true;
}

static fb_id add(fb_graph *g, fb_op op, fb_id a, fb_id b, const fb_attrs *at, fb_error *err)
{
    if (a == FB_NONE) return FB_NONE;
    return fb_graph_add(g, op, (fb_id[]){a, b}, b == FB_NONE ? 1 : 2, at, NULL, 0, err);
}

/* The sum over an output, each element times its gradient; in the widest type that any of them has. */
static fb_id weighed(fb_graph *to, fb_id output, fb_dtype wide, const char **arrives, fb_error *err)
{
    const fb_node n = to->nodes[output];
    const fb_attrs given = {.shape = n.shape, .dtype = n.dtype, .dist = FB_DIST_NORMAL, .value = 0, .high = 1};
    fb_id slope = fb_graph_add(to, FB_OP_INPUT, NULL, 0, &given, "gradient", 0, err);
    if (slope == FB_NONE) return FB_NONE;
    *arrives = fb_arena_strdup(to->arena, to->nodes[slope].name);
    fb_id product = add(to, FB_OP_MUL, output, slope, NULL, err);
    fb_id sum = n.shape.rank && product != FB_NONE ? add(to, FB_OP_SUM, product, FB_NONE, NULL, err) : product;
    return n.dtype == wide ? sum : add(to, FB_OP_CAST, sum, FB_NONE, &(fb_attrs){.dtype = wide}, err);
}

static fb_id loss_of(const fb_graph *g, fb_graph *to, fb_backward *out, fb_error *err)
{
    fb_dtype wide = FB_F32;
    fb_id loss = FB_NONE;
    for (int i = 0; i < g->n_outputs; i++)
        if (g->nodes[g->outputs[i]].dtype == FB_F64) wide = FB_F64;
    for (int i = 0; i < g->n_outputs; i++) {
        if (!counts(g, i)) continue;
        fb_id more = weighed(to, g->outputs[i], wide, &out->arrives[i], err);
        if (more == FB_NONE) return FB_NONE;
        loss = loss == FB_NONE ? more : add(to, FB_OP_ADD, loss, more, NULL, err);
        if (loss == FB_NONE) return FB_NONE;
    }
    return loss;
}

/* A gradient may be that of several, and it is one output then. */
static bool leave(fb_graph *to, fb_backward *out, const fb_id *gradients, fb_error *err)
{
    for (int i = 0; i < out->n; i++) {
        out->leaves[i] = 0;
        while (out->leaves[i] < to->n_outputs && to->outputs[out->leaves[i]] != gradients[i]) out->leaves[i]++;
        if (out->leaves[i] == to->n_outputs && !fb_graph_output(to, gradients[i], NULL, err)) return false;
    }
    return true;
}

static bool differentiate(const fb_graph *g, fb_graph *to, fb_arena *arena, fb_backward *out, fb_error *err)
{
    out->arrives = FB_NEW_ARRAY(arena, const char *, g->n_outputs + 1);
    out->source = FB_NEW_ARRAY(arena, fb_id, g->n_nodes + 1);
    out->leaves = FB_NEW_ARRAY(arena, int, g->n_nodes + 1);
    fb_id *gradients = FB_NEW_ARRAY(arena, fb_id, g->n_nodes + 1);
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (is_source(&g->nodes[i])) out->source[out->n++] = i;
    fb_id loss = copy(g, to, err) ? loss_of(g, to, out, err) : FB_NONE;
    if (loss == FB_NONE || !fb_autodiff(to, loss, out->source, out->n, gradients, 0, err)) return false;
    for (int i = 0; i < g->n_outputs; i++)
        if (out->arrives[i]) out->arrives[i] = fb_arena_strdup(arena, out->arrives[i]);
    return leave(to, out, gradients, err) && fb_graph_finish(to, err);
}

bool fb_graph_backward(const fb_graph *g, fb_arena *arena, fb_backward *out, fb_error *err)
{
    *out = (fb_backward){0};
    if (!has_gradient(g, err)) return false;
    fb_graph *to = fb_graph_new(g->title);
    if (differentiate(g, to, arena, out, err)) out->graph = fb_graph_canonical(to, err);
    fb_graph_free(to);
    return out->graph != NULL;
}
