/* How a node enters a graph: checked, named, its attributes shared. The canonicalising pass and the JSON reader come
 * in below the naming. Leaves the graph as it was when it refuses. */
#include "graph/build.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "graph/storage.h"

#include <stdio.h>
#include <string.h>

#define uthash_malloc(bytes)      fb_alloc(bytes)
#define uthash_free(block, bytes) fb_free(block)
#include <uthash.h>

/* A path that is taken, and the suffix to try first when it is asked for again. */
typedef struct {
    const char *path;
    int next;
    UT_hash_handle hh;
} taken_name;

/* Attribute records are shared by the nodes that have equal ones: a model of many equal layers holds each once. */
typedef struct {
    const fb_attrs *at;
    UT_hash_handle hh;
} shared_attrs;

typedef struct {
    fb_id region, scope; /* scope: what was open when the region opened */
    fb_id *operands;     /* inits, then scanned tensors */
    int line;
} open_region;

struct fb_graph_builder {
    taken_name *names; /* of nodes and scopes */
    taken_name *output_names;
    shared_attrs *attrs;
    int node_room, scope_room, region_room, output_room;
    fb_id scope, region; /* innermost open */
    FB_VEC(open_region) open;
    FB_VEC(fb_id) detached;
    fb_arena *scratch; /* the tables' entries */
};

/* Grows a heap array of the graph so that one more fits. */
#define RESERVE(array, n, room)                                                                                        \
    do {                                                                                                               \
        if ((n) == (room)) {                                                                                           \
            (room) = (room) ? 2 * (room) : 16;                                                                         \
            (array) = fb_realloc((array), (size_t)(room) * sizeof *(array));                                           \
        }                                                                                                              \
    } while (0)

fb_graph *fb_graph_new(const char *title)
{
    fb_arena *arena = fb_arena_new();
    fb_graph *g = FB_NEW(arena, fb_graph);
    g->arena = arena;
    g->title = fb_arena_strdup(arena, title ? title : "");
    g->builder = fb_calloc(1, sizeof *g->builder);
    g->builder->scope = FB_NONE;
    g->builder->scratch = fb_arena_new();
    fb_build_region(g, &(fb_region){.parent = FB_NONE, .loop = FB_NONE}, NULL);
    return g;
}

void fb_build_discard(fb_graph *g)
{
    struct fb_graph_builder *b = g->builder;
    if (!b) return;
    HASH_CLEAR(hh, b->names);
    HASH_CLEAR(hh, b->output_names);
    HASH_CLEAR(hh, b->attrs);
    FB_VEC_FREE(&b->open);
    FB_VEC_FREE(&b->detached);
    fb_arena_free(b->scratch);
    fb_free(b);
    g->builder = NULL;
}

/* ---- records as they stand ---- */

static taken_name *find_name(taken_name *table, const char *path)
{
    taken_name *found;
    HASH_FIND_STR(table, path, found);
    return found;
}

bool fb_build_taken(const fb_graph *g, const char *path)
{
    return find_name(g->builder->names, path) != NULL;
}

/* Takes `path`, which must be free; the copy in the graph's arena is returned. */
static const char *take_name(fb_graph *g, taken_name **table, const char *path)
{
    taken_name *entry = FB_NEW(g->builder->scratch, taken_name);
    entry->path = fb_arena_strdup(g->arena, path);
    entry->next = 2;
    HASH_ADD_KEYPTR(hh, *table, entry->path, strlen(path), entry);
    return entry->path;
}

static const fb_attrs *share_attrs(fb_graph *g, const fb_attrs *at)
{
    if (fb_attrs_equal(at, &fb_attrs_none)) return &fb_attrs_none;
    shared_attrs *entry;
    HASH_FIND(hh, g->builder->attrs, at, sizeof *at, entry);
    if (!entry) {
        entry = FB_NEW(g->builder->scratch, shared_attrs);
        entry->at = fb_arena_copy(g->arena, at, sizeof *at);
        HASH_ADD_KEYPTR(hh, g->builder->attrs, entry->at, sizeof *at, entry);
    }
    return entry->at;
}

static const fb_id *copy_ids(fb_graph *g, const fb_id *ids, int n)
{
    return n > 0 ? fb_arena_copy(g->arena, ids, (size_t)n * sizeof *ids) : NULL;
}

/* Operands: in the graph, in a region that the node's region can see, and of an op that gives a value. */
static bool check_operands(const fb_graph *g, const fb_node *n, fb_error *err)
{
    const char *op = fb_op_get(n->op)->name;
    for (int i = 0; i < n->n_args; i++) {
        fb_id id = n->args[i];
        if (id < 0 || id >= g->n_nodes)
            return fb_fail(err, FB_ERR_INPUT, "%s: operand %d is no node of this graph", op, i);
        const fb_node *x = &g->nodes[id];
        if (!fb_region_within(g, n->region, x->region))
            return fb_fail(err, FB_ERR_INPUT, "%s: %s is a value inside a loop and cannot be read outside it", op,
                           x->name);
        bool silent = x->op == FB_OP_ASSIGN || x->op == FB_OP_RECEIVE || (x->op == FB_OP_LOOP && n->op != FB_OP_RESULT);
        if (silent) return fb_fail(err, FB_ERR_INPUT, "%s: %s is an effect without a value to read", op, x->name);
    }
    return true;
}

#ifdef __SANITIZE_ADDRESS__
/* A node that somebody still points to while the next one is added is found at any add, not only at the one where the
 * table is full; in larger graphs at one add of some. Large ones grow as they always do: a copy at each add is work that
 * grows as the square (150 graphs of 4,000 nodes: minutes). */
static void move_nodes(fb_graph *g)
{
    enum { SMALL = 256, LARGE = 2048, SOME = 61 };
    if (g->n_nodes == 0 || g->n_nodes >= LARGE || (g->n_nodes >= SMALL && g->n_nodes % SOME)) return;
    size_t bytes = (size_t)g->builder->node_room * sizeof *g->nodes;
    fb_node *to = fb_alloc(bytes);
    memcpy(to, g->nodes, bytes);
    fb_free(g->nodes);
    g->nodes = to;
}
#else
static void move_nodes(fb_graph *g)
{
    (void)g;
}
#endif

fb_id fb_build_node(fb_graph *g, const fb_node *node, fb_error *err)
{
    fb_node n = *node;
    fb_attrs at;
    memset(&at, 0, sizeof at);
    memcpy(&at, n.attrs ? n.attrs : &fb_attrs_none, sizeof at);
    if ((unsigned)n.op >= FB_OPS) return fb_fail(err, FB_ERR_INPUT, "there is no op number %d", (int)n.op), FB_NONE;
    const char *op = fb_op_get(n.op)->name;
    if (g->n_nodes >= FB_MAX_NODES)
        return fb_fail(err, FB_ERR_LIMIT, "%s: a graph has at most %d nodes", op, FB_MAX_NODES), FB_NONE;
    if (n.region < 0 || n.region >= g->n_regions)
        return fb_fail(err, FB_ERR_INPUT, "%s: there is no region %d", op, n.region), FB_NONE;
    if (n.scope < FB_NONE || n.scope >= g->n_scopes)
        return fb_fail(err, FB_ERR_INPUT, "%s: there is no scope %d", op, n.scope), FB_NONE;
    if (find_name(g->builder->names, n.name))
        return fb_fail(err, FB_ERR_INPUT, "%s: the name %s is taken", op, n.name), FB_NONE;
    if (!check_operands(g, &n, err) || !fb_infer(g, &n, &at, err)) return FB_NONE;
    at.file = fb_arena_strdup(g->arena, at.file);
    n.attrs = share_attrs(g, &at);
    n.args = copy_ids(g, n.args, n.n_args);
    n.name = take_name(g, &g->builder->names, n.name);
    int room = g->builder->node_room;
    RESERVE(g->is_output, g->n_nodes, room);
    RESERVE(g->nodes, g->n_nodes, g->builder->node_room);
    move_nodes(g);
    g->is_output[g->n_nodes] = n.op == FB_OP_ASSIGN || n.op == FB_OP_RECEIVE;
    g->nodes[g->n_nodes] = n;
    return g->n_nodes++;
}

fb_id fb_build_scope(fb_graph *g, const fb_scope *scope, fb_error *err)
{
    fb_scope s = *scope;
    int depth = 1;
    if (s.parent < FB_NONE || s.parent >= g->n_scopes)
        return fb_fail(err, FB_ERR_INPUT, "scope %s: there is no scope %d around it", s.path, s.parent), FB_NONE;
    for (fb_id at = s.parent; at != FB_NONE; at = g->scopes[at].parent) depth++;
    if (depth > FB_MAX_SCOPE_DEPTH)
        return fb_fail(err, FB_ERR_LIMIT, "scope %s: scopes nest at most %d deep", s.name, FB_MAX_SCOPE_DEPTH), FB_NONE;
    if (g->n_scopes >= FB_MAX_NODES)
        return fb_fail(err, FB_ERR_LIMIT, "scope %s: a graph has at most %d scopes", s.path, FB_MAX_NODES), FB_NONE;
    if (find_name(g->builder->names, s.path))
        return fb_fail(err, FB_ERR_INPUT, "scope %s: the name is taken", s.path), FB_NONE;
    s.name = fb_arena_strdup(g->arena, s.name);
    s.path = take_name(g, &g->builder->names, s.path);
    s.op = fb_arena_strdup(g->arena, s.op);
    s.attrs = s.attrs && strcmp(s.attrs, "{}") == 0 ? "{}" : fb_arena_strdup(g->arena, s.attrs);
    s.args = copy_ids(g, s.args, s.n_args);
    s.results = copy_ids(g, s.results, s.n_results);
    RESERVE(g->scopes, g->n_scopes, g->builder->scope_room);
    g->scopes[g->n_scopes] = s;
    return g->n_scopes++;
}

fb_id fb_build_region(fb_graph *g, const fb_region *region, fb_error *err)
{
    fb_region r = *region;
    int depth = 0;
    if (g->n_regions && (r.parent < 0 || r.parent >= g->n_regions))
        return fb_fail(err, FB_ERR_INPUT, "region %d: there is no region %d around it", g->n_regions, r.parent),
               FB_NONE;
    for (fb_id at = r.parent; at != FB_NONE; at = g->regions[at].parent) depth++;
    if (depth > FB_MAX_REGION_DEPTH || g->n_regions >= FB_MAX_NODES)
        return fb_fail(err, FB_ERR_LIMIT, "loops nest at most %d deep", FB_MAX_REGION_DEPTH), FB_NONE;
    r.carried = copy_ids(g, r.carried, r.n_carried);
    r.yields = copy_ids(g, r.yields, r.n_carried);
    r.items = copy_ids(g, r.items, r.n_items);
    r.stacked = copy_ids(g, r.stacked, r.n_stacked);
    if (r.every) r.every = copy_ids(g, r.every, r.n_stacked);
    RESERVE(g->regions, g->n_regions, g->builder->region_room);
    g->regions[g->n_regions] = r;
    return g->n_regions++;
}

int fb_build_stack(fb_graph *g, fb_id region, fb_id value, int32_t every)
{
    fb_region *r = &g->regions[region];
    for (int j = 0; j < r->n_stacked; j++)
        if (r->stacked[j] == value && fb_region_every(r, j) == every) return r->n_carried + j;
    fb_id *stacked = FB_NEW_ARRAY(g->arena, fb_id, r->n_stacked + 1);
    int32_t *intervals = FB_NEW_ARRAY(g->arena, int32_t, r->n_stacked + 1);
    for (int j = 0; j < r->n_stacked; j++) {
        stacked[j] = r->stacked[j];
        intervals[j] = (int32_t)fb_region_every(r, j);
    }
    stacked[r->n_stacked] = value;
    intervals[r->n_stacked++] = every;
    r->stacked = stacked;
    if (r->every || every > 1) r->every = intervals;
    return r->n_carried + r->n_stacked - 1;
}

bool fb_build_output(fb_graph *g, fb_id node, const char *name, fb_error *err)
{
    struct fb_graph_builder *b = g->builder;
    if (node < 0 || node >= g->n_nodes) return fb_fail(err, FB_ERR_INPUT, "output %s: no node of this graph", name);
    if (find_name(b->output_names, name)) return fb_fail(err, FB_ERR_INPUT, "two outputs are named %s", name);
    int room = b->output_room;
    RESERVE(g->outputs, g->n_outputs, room);
    RESERVE(g->output_names, g->n_outputs, b->output_room);
    g->outputs[g->n_outputs] = node;
    g->output_names[g->n_outputs++] = take_name(g, &b->output_names, name);
    g->is_output[node] = true;
    return true;
}

/* ---- naming ---- */

const char *fb_scope_spell(const fb_graph *g, fb_id parent, const char *name, int index, char to[FB_MAX_PATH])
{
    const char *above = parent == FB_NONE ? "" : g->scopes[parent].path;
    int n = snprintf(to, FB_MAX_PATH, "%s%s%s", above, *above ? "." : "", name);
    if (index != FB_NONE && n < FB_MAX_PATH) snprintf(to + n, (size_t)(FB_MAX_PATH - n), "[%d]", index);
    return to;
}

/* The first of name, name_2, name_3 … that is free within the open scope; *path is what it spells. A name stays within
 * the 64 characters of a name, so the suffix may cost it its end. */
static void free_name(const fb_graph *g, const char *name, int index, char element[65], char path[FB_MAX_PATH])
{
    snprintf(element, 65, "%s", name);
    taken_name *first = find_name(g->builder->names, fb_scope_spell(g, g->builder->scope, element, index, path));
    for (taken_name *taken = first; taken;) {
        char suffix[16];
        int n = snprintf(suffix, sizeof suffix, "_%d", first->next++);
        snprintf(element, 65, "%.*s%s", 64 - n, name, suffix);
        taken = find_name(g->builder->names, fb_scope_spell(g, g->builder->scope, element, index, path));
    }
}

/* ---- taking back ---- */

fb_build_mark fb_build_here(const fb_graph *g)
{
    const struct fb_graph_builder *b = g->builder;
    return (fb_build_mark){g->n_nodes, g->n_scopes, g->n_regions, b->open.n, b->detached.n, b->scope, b->region};
}

static void free_path(fb_graph *g, const char *path)
{
    taken_name *entry = find_name(g->builder->names, path);
    if (entry) HASH_DEL(g->builder->names, entry);
}

void fb_build_back(fb_graph *g, fb_build_mark to)
{
    struct fb_graph_builder *b = g->builder;
    taken_name *entry, *next;
    for (int i = to.nodes; i < g->n_nodes; i++) free_path(g, g->nodes[i].name);
    for (int i = to.scopes; i < g->n_scopes; i++) free_path(g, g->scopes[i].path);
    HASH_ITER(hh, b->names, entry, next) entry->next = 2;
    g->n_nodes = to.nodes;
    g->n_scopes = to.scopes;
    g->n_regions = to.regions;
    b->open.n = to.open;
    b->detached.n = to.detached;
    b->scope = to.scope;
    b->region = to.region;
}

/* ---- the public builder ---- */

static fb_id add_node(fb_graph *g, fb_node *n, const char *name, fb_error *err)
{
    char element[65], path[FB_MAX_PATH];
    if (!name) name = fb_op_get(n->op)->name;
    if (!fb_str_is_name(name))
        return fb_fail(err, FB_ERR_INPUT,
                       "%s: \"%.80s\" is no name (a letter or _, then letters, digits and _, 64 at most)",
                       fb_op_get(n->op)->name, name),
               FB_NONE;
    free_name(g, name, FB_NONE, element, path);
    n->name = path;
    n->scope = g->builder->scope;
    n->region = g->builder->region;
    return fb_build_node(g, n, err);
}

fb_id fb_graph_add(fb_graph *g, fb_op op, const fb_id *args, int n_args, const fb_attrs *attrs, const char *name,
                   int line, fb_error *err)
{
    FB_ASSERT(g->builder);
    if ((unsigned)op >= FB_OPS) return fb_fail(err, FB_ERR_INPUT, "there is no op number %d", (int)op), FB_NONE;
    if (op == FB_OP_CARRIED || op == FB_OP_ITEM || op == FB_OP_LOOP)
        return fb_fail(err, FB_ERR_INPUT, "%s: only a loop makes it", fb_op_get(op)->name), FB_NONE;
    fb_node n = {.op = op, .n_args = n_args, .args = args, .attrs = attrs, .line = line};
    return add_node(g, &n, name, err);
}

fb_id fb_graph_scope_open(fb_graph *g, const char *name, int index, const char *op, const fb_id *args, int n_args,
                          const char *attrs_json, int line, fb_error *err)
{
    FB_ASSERT(g->builder);
    if (!fb_str_is_name(name) || (op && !fb_str_is_name(op)))
        return fb_fail(err, FB_ERR_INPUT, "\"%.80s\" is no name for a scope", fb_str_is_name(name) ? op : name),
               FB_NONE;
    if (index < FB_NONE) return fb_fail(err, FB_ERR_INPUT, "scope %s: index %d is negative", name, index), FB_NONE;
    for (int i = 0; i < n_args; i++)
        if (args[i] < 0 || args[i] >= g->n_nodes)
            return fb_fail(err, FB_ERR_INPUT, "scope %s: operand %d is no node of this graph", name, i), FB_NONE;
    char *attrs = NULL;
    if (op && attrs_json && strcmp(attrs_json, "{}") != 0) {
        json_t *value = fb_json_parse(attrs_json, strlen(attrs_json), err);
        if (value && json_is_object(value))
            attrs = fb_json_line(value);
        else if (value)
            fb_fail(err, FB_ERR_INPUT, "attributes are no JSON object");
        json_decref(value);
        if (!attrs) return fb_fail_prefix(err, "scope %s", name), FB_NONE;
    }
    char element[65], path[FB_MAX_PATH];
    free_name(g, name, index, element, path);
    fb_scope s = {.kind = op ? FB_SCOPE_OP : FB_SCOPE_REGION,
                  .parent = g->builder->scope,
                  .name = element,
                  .index = index,
                  .path = path,
                  .op = op,
                  .attrs = attrs ? attrs
                           : op  ? "{}"
                                 : NULL,
                  .n_args = op ? n_args : 0,
                  .args = args,
                  .line = line};
    fb_id id = fb_build_scope(g, &s, err);
    fb_free(attrs);
    if (id != FB_NONE) g->builder->scope = id;
    return id;
}

bool fb_graph_scope_close(fb_graph *g, const fb_id *results, int n_results, fb_error *err)
{
    struct fb_graph_builder *b = g->builder;
    FB_ASSERT(b);
    if (b->scope == FB_NONE || (b->open.n && b->scope == b->open.at[b->open.n - 1].scope))
        return fb_fail(err, FB_ERR_INPUT, "no scope is open here");
    fb_scope *s = &g->scopes[b->scope];
    if (s->kind == FB_SCOPE_REGION && n_results) return fb_fail(err, FB_ERR_INPUT, "scope %s has no results", s->path);
    for (int i = 0; i < n_results; i++)
        if (results[i] < 0 || results[i] >= g->n_nodes)
            return fb_fail(err, FB_ERR_INPUT, "scope %s: result %d is no node of this graph", s->path, i);
    s->n_results = n_results;
    s->results = copy_ids(g, results, n_results);
    b->scope = s->parent;
    return true;
}

/* The body's own node for a carried value (a whole tensor) or an item (without dim 0). */
static fb_id add_member(fb_graph *g, fb_op op, int index, const fb_node *of, int line, fb_error *err)
{
    fb_attrs at = {.index = index, .dtype = of->dtype};
    int drop = op == FB_OP_ITEM;
    at.shape = fb_shape_of(of->shape.rank - drop, of->shape.dim + drop);
    fb_node n = {.op = op, .attrs = &at, .line = line};
    return add_node(g, &n, NULL, err);
}

const fb_id *fb_build_loop_operands(const fb_graph *g, fb_id region)
{
    for (int i = 0; g->builder && i < g->builder->open.n; i++)
        if (g->builder->open.at[i].region == region) return g->builder->open.at[i].operands;
    return NULL;
}

void fb_build_detach(fb_graph *g, fb_id id)
{
    FB_VEC_PUSH(&g->builder->detached, id);
}

int fb_build_detached(const fb_graph *g, const fb_id **ids)
{
    *ids = g->builder->detached.at;
    return g->builder->detached.n;
}

static bool check_loop_operands(const fb_graph *g, int64_t trips, const fb_id *inits, int n_inits, const fb_id *scanned,
                                int n_scanned, fb_error *err)
{
    char shape[192];
    if (trips < 0) return fb_fail(err, FB_ERR_INPUT, "loop: %lld trips", (long long)trips);
    if (trips > FB_MAX_ELEMENTS) /* as many as a message can say */
        return fb_fail(err, FB_ERR_INPUT, "loop: %lld trips are more than the %lld there may be", (long long)trips,
                       (long long)FB_MAX_ELEMENTS);
    fb_node all = {.op = FB_OP_LOOP, .region = g->builder->region, .n_args = n_inits, .args = inits};
    if (!check_operands(g, &all, err)) return false;
    all.n_args = n_scanned;
    all.args = scanned;
    if (!check_operands(g, &all, err)) return false;
    for (int i = 0; i < n_scanned; i++) {
        const fb_node *x = &g->nodes[scanned[i]];
        if (x->shape.rank < 1 || x->shape.dim[0] != trips)
            return fb_fail(err, FB_ERR_INPUT, "loop: dimension 0 of a scanned tensor is the %lld trips (x%d: %s)",
                           (long long)trips, i, fb_shape_format(&x->shape, x->dtype, shape));
    }
    return true;
}

fb_id fb_graph_region_open(fb_graph *g, int64_t trips, const fb_id *inits, int n_inits, const fb_id *scanned,
                           int n_scanned, fb_id *carried, fb_id *items, int line, fb_error *err)
{
    struct fb_graph_builder *b = g->builder;
    FB_ASSERT(b);
    if (!check_loop_operands(g, trips, inits, n_inits, scanned, n_scanned, err)) return FB_NONE;
    fb_region r = {.parent = b->region,
                   .loop = FB_NONE,
                   .trips = trips,
                   .n_carried = n_inits,
                   .n_items = n_scanned,
                   .carried = inits,
                   .yields = inits,
                   .items = scanned};
    fb_id id = fb_build_region(g, &r, err);
    if (id == FB_NONE) return FB_NONE;
    open_region o = {.region = id, .scope = b->scope, .line = line};
    o.operands = FB_NEW_ARRAY(b->scratch, fb_id, n_inits + n_scanned);
    for (int i = 0; i < n_inits; i++) o.operands[i] = inits[i];
    for (int i = 0; i < n_scanned; i++) o.operands[n_inits + i] = scanned[i];
    FB_VEC_PUSH(&b->open, o);
    b->region = id;
    for (int i = 0; i < n_inits; i++)
        if ((carried[i] = add_member(g, FB_OP_CARRIED, i, &g->nodes[o.operands[i]], line, err)) == FB_NONE)
            return FB_NONE;
    for (int i = 0; i < n_scanned; i++)
        if ((items[i] = add_member(g, FB_OP_ITEM, i, &g->nodes[o.operands[n_inits + i]], line, err)) == FB_NONE)
            return FB_NONE;
    g->regions[id].carried = copy_ids(g, carried, n_inits);
    g->regions[id].items = copy_ids(g, items, n_scanned);
    return id;
}

void fb_graph_region_turn(fb_graph *g)
{
    FB_ASSERT(g->builder && g->builder->open.n);
    g->regions[g->builder->open.at[g->builder->open.n - 1].region].backwards = true;
}

fb_id fb_graph_region_close(fb_graph *g, const fb_id *yields, const fb_id *stacked, int n_stacked, fb_error *err)
{
    struct fb_graph_builder *b = g->builder;
    FB_ASSERT(b);
    if (!b->open.n) return fb_fail(err, FB_ERR_INPUT, "loop: no loop is open here"), FB_NONE;
    open_region o = b->open.at[b->open.n - 1];
    fb_region *r = &g->regions[o.region];
    if (b->scope != o.scope)
        return fb_fail(err, FB_ERR_INPUT, "loop: scope %s is still open", g->scopes[b->scope].path), FB_NONE;
    fb_node all = {.op = FB_OP_LOOP, .region = o.region, .n_args = r->n_carried, .args = yields};
    if (!check_operands(g, &all, err)) return FB_NONE;
    all.n_args = n_stacked;
    all.args = stacked;
    if (!check_operands(g, &all, err)) return FB_NONE;
    for (int i = 0; i < r->n_carried; i++) {
        const fb_node *from = &g->nodes[o.operands[i]], *to = &g->nodes[yields[i]];
        char was[192], is[192];
        if (from->dtype == to->dtype && fb_shape_equal(&from->shape, &to->shape)) continue;
        return fb_fail(err, FB_ERR_INPUT, "loop: carried value %d begins as %s and becomes %s", i,
                       fb_shape_format(&from->shape, from->dtype, was), fb_shape_format(&to->shape, to->dtype, is)),
               FB_NONE;
    }
    r->yields = copy_ids(g, yields, r->n_carried);
    r->stacked = copy_ids(g, stacked, n_stacked);
    r->n_stacked = n_stacked;
    b->region = r->parent;
    b->open.n--;
    fb_attrs at = {.region = o.region, .trips = r->trips};
    fb_node n = {
        .op = FB_OP_LOOP, .n_args = r->n_carried + r->n_items, .args = o.operands, .attrs = &at, .line = o.line};
    fb_id loop = add_node(g, &n, NULL, err);
    g->regions[o.region].loop = loop;
    return loop;
}

bool fb_graph_output(fb_graph *g, fb_id node, const char *name, fb_error *err)
{
    struct fb_graph_builder *b = g->builder;
    FB_ASSERT(b);
    if (node < 0 || node >= g->n_nodes) return fb_fail(err, FB_ERR_INPUT, "output: no node of this graph");
    if (g->is_output[node]) return fb_fail(err, FB_ERR_INPUT, "output: %s is one already", g->nodes[node].name);
    if (name) return fb_build_output(g, node, name, err);
    char free[24] = "out";
    taken_name *first = find_name(b->output_names, free);
    while (find_name(b->output_names, free)) snprintf(free, sizeof free, "out_%d", first->next++);
    return fb_build_output(g, node, free, err);
}

bool fb_graph_finish(fb_graph *g, fb_error *err)
{
    struct fb_graph_builder *b = g->builder;
    FB_ASSERT(b);
    if (b->open.n)
        return fb_fail(err, FB_ERR_INPUT, "the loop of line %d is not closed", b->open.at[b->open.n - 1].line);
    if (b->scope != FB_NONE) return fb_fail(err, FB_ERR_INPUT, "scope %s is not closed", g->scopes[b->scope].path);
    fb_build_index(g);
    if (!fb_graph_verify(g, err)) return false;
    fb_storage_order(g);
    fb_build_discard(g);
    g->hash = fb_build_hash(g);
    g->finished = true;
    return true;
}
