/* The verifier: every invariant that graph.h states, checked from nothing but the records, whoever wrote them.
 *
 * requires  users, names and is_output in place (fb_build_index); every id in args, scope, region and parent fields in
 * range, as fb_build_… leave it. Ids in scopes' operands, region tables and outputs may be anything. */
#include "graph/build.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

static bool wrong(const fb_graph *g, fb_id id, fb_error *err, const char *what)
{
    return fb_fail(err, FB_ERR_INPUT, "node %d (%s): %s", id, g->nodes[id].name, what);
}

static bool verify_name(const fb_graph *g, fb_id id, fb_error *err)
{
    const fb_node *n = &g->nodes[id];
    const char *above = n->scope == FB_NONE ? "" : g->scopes[n->scope].path, *own = n->name;
    size_t length = strlen(above);
    if (length) {
        if (strncmp(own, above, length) != 0 || own[length] != '.')
            return wrong(g, id, err, "the name lacks the scope's path");
        own += length + 1;
    }
    return fb_str_is_name(own) || wrong(g, id, err, "the name's last part is no name");
}

static bool verify_node(const fb_graph *g, fb_id id, fb_error *err)
{
    const fb_node *n = &g->nodes[id];
    for (int i = 0; i < n->n_args; i++) {
        if (n->args[i] < 0 || n->args[i] >= id) return wrong(g, id, err, "an operand does not come before the node");
        if (!fb_region_within(g, n->region, g->nodes[n->args[i]].region))
            return wrong(g, id, err, "an operand lies inside a loop that the node is not in");
    }
    fb_node again = *n;
    fb_attrs at;
    memcpy(&at, n->attrs, sizeof at);
    if (!fb_infer(g, &again, &at, err)) return fb_fail_prefix(err, "node %d (%s)", id, n->name);
    if (again.dtype != n->dtype || !fb_shape_equal(&again.shape, &n->shape))
        return wrong(g, id, err, "dtype and shape are not what the operands give");
    if (!fb_attrs_equal(&at, n->attrs)) return wrong(g, id, err, "the attributes are not normalised");
    return verify_name(g, id, err);
}

static bool verify_scope(const fb_graph *g, fb_id id, fb_error *err)
{
    const fb_scope *s = &g->scopes[id];
    char path[FB_MAX_PATH];
    bool is_op = s->kind == FB_SCOPE_OP;
    if (s->parent >= id)
        return fb_fail(err, FB_ERR_INPUT, "scope %d (%s): its parent does not come before it", id, s->path);
    if (!fb_str_is_name(s->name) || s->index < FB_NONE ||
        strcmp(fb_scope_spell(g, s->parent, s->name, s->index, path), s->path) != 0)
        return fb_fail(err, FB_ERR_INPUT, "scope %d: path \"%.100s\" is not what its name and parents spell", id,
                       s->path);
    if (is_op != (s->op != NULL) || is_op != (s->attrs != NULL) || (s->op && !fb_str_is_name(s->op)))
        return fb_fail(err, FB_ERR_INPUT, "scope %d (%s): an op scope has an op and attributes, a region neither", id,
                       s->path);
    if (!is_op && (s->n_args || s->n_results))
        return fb_fail(err, FB_ERR_INPUT, "scope %d (%s): a region has no operands or results", id, s->path);
    for (int i = 0; i < s->n_args + s->n_results; i++) {
        fb_id x = i < s->n_args ? s->args[i] : s->results[i - s->n_args];
        if (x < FB_NONE || x >= g->n_nodes)
            return fb_fail(err, FB_ERR_INPUT, "scope %d (%s): there is no node %d", id, s->path, x);
    }
    return true;
}

static bool bad_region(fb_id id, fb_error *err, const char *what)
{
    return fb_fail(err, FB_ERR_INPUT, "region %d: %s", id, what);
}

/* A value that the region's end hands on: computed before the loop node, visible in the region. */
static bool value_of_region(const fb_graph *g, const fb_region *r, fb_id region, fb_id x)
{
    return x >= 0 && x < r->loop && fb_region_within(g, region, g->nodes[x].region);
}

static bool same_type(const fb_node *a, const fb_node *b)
{
    return a->dtype == b->dtype && fb_shape_equal(&a->shape, &b->shape);
}

static bool verify_carried(const fb_graph *g, fb_id id, int i, fb_error *err)
{
    const fb_region *r = &g->regions[id];
    const fb_node *init = &g->nodes[g->nodes[r->loop].args[i]];
    fb_id in = r->carried[i], out = r->yields[i];
    if (in != FB_NONE && (in < 0 || in >= r->loop))
        return bad_region(id, err, "a carried value is no node of the body");
    if (in != FB_NONE) {
        const fb_node *n = &g->nodes[in];
        if (n->op != FB_OP_CARRIED || n->region != id || n->attrs->index != i || !same_type(n, init))
            return bad_region(id, err, "a carried value does not match its initial value");
    }
    if (!value_of_region(g, r, id, out)) return bad_region(id, err, "a yield is no value of the body");
    return same_type(&g->nodes[out], init) || bad_region(id, err, "a yield does not match its carried value");
}

static bool verify_item(const fb_graph *g, fb_id id, int k, fb_error *err)
{
    const fb_region *r = &g->regions[id];
    const fb_node *scanned = &g->nodes[g->nodes[r->loop].args[r->n_carried + k]];
    if (scanned->shape.rank < 1 || scanned->shape.dim[0] != r->trips)
        return bad_region(id, err, "dimension 0 of a scanned tensor is not the number of trips");
    if (r->items[k] == FB_NONE) return true;
    if (r->items[k] < 0 || r->items[k] >= r->loop) return bad_region(id, err, "an item is no node of the body");
    const fb_node *n = &g->nodes[r->items[k]];
    fb_node step = {.dtype = scanned->dtype, .shape = fb_shape_of(scanned->shape.rank - 1, scanned->shape.dim + 1)};
    return (n->op == FB_OP_ITEM && n->region == id && n->attrs->index == k && same_type(n, &step)) ||
           bad_region(id, err, "an item does not match its scanned tensor");
}

static bool verify_region(const fb_graph *g, fb_id id, fb_error *err)
{
    const fb_region *r = &g->regions[id];
    if (!id) {
        bool plain = r->parent == FB_NONE && r->loop == FB_NONE && !r->n_carried && !r->n_items && !r->n_stacked;
        return plain || bad_region(id, err, "the whole graph is no loop");
    }
    if (r->parent < 0 || r->parent >= id) return bad_region(id, err, "its parent does not come before it");
    if (r->loop < 0 || r->loop >= g->n_nodes) return bad_region(id, err, "it has no loop node");
    const fb_node *loop = &g->nodes[r->loop];
    if (loop->op != FB_OP_LOOP || loop->attrs->region != id || loop->region != r->parent)
        return bad_region(id, err, "its loop node belongs to another region");
    for (int i = 0; i < r->n_carried; i++)
        if (!verify_carried(g, id, i, err)) return false;
    for (int k = 0; k < r->n_items; k++)
        if (!verify_item(g, id, k, err)) return false;
    for (int j = 0; j < r->n_stacked; j++)
        if (!value_of_region(g, r, id, r->stacked[j]))
            return bad_region(id, err, "a stacked value is no value of the body");
    for (int j = 0; r->every && j < r->n_stacked; j++)
        if (r->every[j] < 1 || r->trips % r->every[j])
            return bad_region(id, err, "what is kept of a stacked value does not divide its trips");
    return true;
}

static fb_id last_operand(const fb_graph *g, const fb_region *r)
{
    fb_id last = FB_NONE;
    for (int k = 0; r->loop != FB_NONE && k < g->nodes[r->loop].n_args; k++)
        if (g->nodes[r->loop].args[k] > last) last = g->nodes[r->loop].args[k];
    return last;
}

/* Bodies lie between the operands of their loop and the loop, and CARRIED, ITEM and LOOP nodes are the ones that their
 * regions name. */
static bool verify_body_node(const fb_graph *g, fb_id id, fb_id body_after, fb_error *err)
{
    const fb_node *n = &g->nodes[id];
    const fb_region *r = &g->regions[n->region];
    if (n->region && id > r->loop) return wrong(g, id, err, "it belongs to the body of a loop that comes before it");
    if (n->region && id < body_after) return wrong(g, id, err, "the body begins before the operands of its loop");
    if (n->op == FB_OP_CARRIED && r->carried[n->attrs->index] != id)
        return wrong(g, id, err, "its region names another node for the carried value");
    if (n->op == FB_OP_ITEM && r->items[n->attrs->index] != id)
        return wrong(g, id, err, "its region names another node for the item");
    if (n->op == FB_OP_LOOP && g->regions[n->attrs->region].loop != id)
        return wrong(g, id, err, "its region names another loop node");
    return true;
}

static bool verify_bodies(const fb_graph *g, fb_error *err)
{
    fb_id *after = fb_alloc((size_t)g->n_regions * sizeof *after);
    for (fb_id r = 0; r < g->n_regions; r++) after[r] = last_operand(g, &g->regions[r]);
    bool ok = true;
    for (fb_id i = 0; ok && i < g->n_nodes; i++) ok = verify_body_node(g, i, after[g->nodes[i].region], err);
    fb_free(after);
    return ok;
}

typedef struct {
    fb_id param, region, node;
} assignment;

static int compare_assignments(const void *a, const void *b)
{
    const assignment *x = a, *y = b;
    if (x->param != y->param) return x->param < y->param ? -1 : 1;
    return x->region < y->region ? -1 : x->region > y->region;
}

/* Two updates of one parameter at the end of one region have no order. */
static bool verify_assignments(const fb_graph *g, fb_error *err)
{
    FB_VEC(assignment) all = {0};
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == FB_OP_ASSIGN) FB_VEC_PUSH(&all, (assignment){g->nodes[i].args[0], g->nodes[i].region, i});
    bool ok = true;
    if (all.n) qsort(all.at, (size_t)all.n, sizeof *all.at, compare_assignments);
    for (int i = 1; ok && i < all.n; i++)
        if (compare_assignments(&all.at[i - 1], &all.at[i]) == 0)
            ok = fb_fail(err, FB_ERR_INPUT, "assign: parameter %s is assigned twice", g->nodes[all.at[i].param].name);
    FB_VEC_FREE(&all);
    return ok;
}

static bool verify_outputs(const fb_graph *g, fb_error *err)
{
    bool any = g->n_outputs > 0;
    for (int i = 0; i < g->n_outputs; i++) {
        fb_id id = g->outputs[i];
        if (id < 0 || id >= g->n_nodes) return fb_fail(err, FB_ERR_INPUT, "output %d is no node", i);
        const fb_node *n = &g->nodes[id];
        if (!fb_str_is_name(g->output_names[i])) return wrong(g, id, err, "the output's name is no name");
        if (n->region) return wrong(g, id, err, "an output lies inside a loop");
        if (n->op == FB_OP_ASSIGN || n->op == FB_OP_RECEIVE || n->op == FB_OP_LOOP)
            return wrong(g, id, err, "an effect has no value that could be an output");
    }
    for (fb_id i = 0; !any && i < g->n_nodes; i++) any = g->is_output[i];
    return any || fb_fail(err, FB_ERR_INPUT, "the graph has no output");
}

bool fb_graph_verify(const fb_graph *g, fb_error *err)
{
    for (fb_id i = 0; i < g->n_scopes; i++)
        if (!verify_scope(g, i, err)) return false;
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (!verify_node(g, i, err)) return false;
    for (fb_id i = 0; i < g->n_regions; i++)
        if (!verify_region(g, i, err)) return false;
    for (int i = 1; i < g->n_nodes; i++)
        if (strcmp(g->nodes[g->by_name[i - 1]].name, g->nodes[g->by_name[i]].name) == 0)
            return wrong(g, g->by_name[i], err, "another node has its name");
    return verify_bodies(g, err) && verify_assignments(g, err) && verify_outputs(g, err);
}
