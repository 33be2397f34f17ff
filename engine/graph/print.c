/* A graph as text, a node a line, and for Graphviz. Needs a graph in any state; prints into a string. */
#include "graph/print.h"

#include "base/json.h"
#include "base/mem.h"
#include "graph/build.h"

#include <stdlib.h>
#include <string.h>

#define uthash_malloc(bytes)      fb_alloc(bytes)
#define uthash_free(block, bytes) fb_free(block)
#include <uthash.h>

/* ---- one node ---- */

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

static void print_ints(fb_str *out, const char *name, const int *v, int n)
{
    fb_str_addf(out, ", %s=[", name);
    for (int i = 0; i < n; i++) fb_str_addf(out, i ? ",%d" : "%d", v[i]);
    fb_str_add(out, "]");
}

static void print_padding(fb_str *out, const fb_attrs *at, int rank)
{
    fb_str_add(out, ", by=[");
    for (int d = 0; d < rank; d++)
        fb_str_addf(out, "%s%lld+%lld", d ? "," : "", (long long)at->before[d], (long long)at->after[d]);
    fb_str_add(out, "]");
}

/* What dtype and shape, printed anyhow, do not say; each preceded by a comma. */
static void print_attrs(const fb_graph *g, const fb_node *n, fb_str *out)
{
    static const char *const dists[FB_DISTS] = {
        [FB_DIST_UNIFORM] = "uniform",   [FB_DIST_NORMAL] = "normal", [FB_DIST_INTEGER] = "integer",
        [FB_DIST_CONSTANT] = "constant", [FB_DIST_FILE] = "file",
    };
    const fb_attrs *at = n->attrs;
    unsigned reads = fb_op_attrs(n->op);
    if (reads & FB_AT_AXES) print_ints(out, "axes", at->axes, at->n_axes);
    if ((reads & FB_AT_KEEPDIM) && at->keepdim) fb_str_add(out, ", keepdim");
    if (reads & FB_AT_DIM) fb_str_addf(out, ", dim=%d", at->dim);
    if (reads & FB_AT_STOP) {
        fb_str_addf(out, ", %lld:%lld", (long long)at->start, (long long)at->stop);
        if (at->step != 1) fb_str_addf(out, ":%lld", (long long)at->step);
    } else if (n->op == FB_OP_RANK) {
        if (at->start) fb_str_add(out, ", largest first");
    } else if (reads & FB_AT_START) {
        fb_str_addf(out, ", rows=%lld", (long long)at->start);
    }
    if (reads & FB_AT_PADDING) print_padding(out, at, g->nodes[n->args[0]].shape.rank);
    if (reads & FB_AT_DIST) fb_str_addf(out, ", %s", dists[at->dist]);
    if ((reads & FB_AT_FILE) && at->file) fb_str_addf(out, " %s", at->file);
    if ((reads & FB_AT_VALUE) && !at->file) fb_str_addf(out, ", %.9g", at->value);
    if ((reads & FB_AT_HIGH) && !at->file) fb_str_addf(out, ", %.9g", at->high);
    if ((reads & FB_AT_PRECISION) && at->precision == FB_PRECISION_TF32) fb_str_add(out, ", tf32");
    if (reads & FB_AT_INDEX) fb_str_addf(out, ", %d", at->index);
    if (reads & FB_AT_TRIPS) fb_str_addf(out, ", trips=%lld", (long long)at->trips);
    if (reads & FB_AT_SEED) fb_str_addf(out, ", seed=%llu", (unsigned long long)at->seed);
}

void fb_node_print_attrs(const fb_graph *g, fb_id id, fb_str *out)
{
    print_attrs(g, &g->nodes[id], out);
}

void fb_node_print(const fb_graph *g, fb_id id, fb_str *out)
{
    const fb_node *n = &g->nodes[id];
    char shape[192];
    fb_str inside = {0};
    for (int i = 0; i < n->n_args; i++)
        fb_str_addf(&inside, ", %%%d %s", n->args[i], last_part(g->nodes[n->args[i]].name));
    print_attrs(g, n, &inside);
    fb_str_addf(out, "%%%d = %s(%s)  %s  %s", id, fb_op_get(n->op)->name, inside.n ? fb_str_get(&inside) + 2 : "",
                fb_shape_format(&n->shape, n->dtype, shape), n->name);
    fb_str_free(&inside);
}

/* ---- the listing ---- */

/* Members of a repetition that hold the same are shown once: those with one parent, one name and one content. */
typedef struct {
    struct {
        fb_id parent;
        int unused;
        fb_hash name, content;
    } key;
    fb_id first;
    int count;
    UT_hash_handle hh;
} repetition;

typedef struct {
    const fb_graph *g;
    fb_str *out;
    repetition **folded; /* one a scope: the repetition that it is in, or NULL */
    fb_id scope, region; /* of the line before */
} listing;

static uint64_t mix(uint64_t h, const void *bytes, size_t n)
{
    fb_hash x = fb_hash_bytes(bytes, n);
    return (h ^ x.low) * 0x9e3779b97f4a7c15u + x.high;
}

/* A hash of what lies in each scope, as seen from within: names after the scope's own path, ops, dtypes and shapes. */
static uint64_t *scope_contents(const fb_graph *g)
{
    uint64_t *content = fb_calloc((size_t)g->n_scopes + 1, sizeof *content);
    for (fb_id i = 0; i < g->n_nodes; i++) {
        const fb_node *n = &g->nodes[i];
        char shape[192];
        fb_shape_format(&n->shape, n->dtype, shape);
        for (fb_id s = n->scope; s != FB_NONE; s = g->scopes[s].parent) {
            const char *inside = n->name + strlen(g->scopes[s].path);
            uint64_t h = mix(content[s], inside, strlen(inside));
            h = mix(h, fb_op_get(n->op)->name, strlen(fb_op_get(n->op)->name));
            content[s] = mix(h, shape, strlen(shape));
        }
    }
    return content;
}

static repetition *find_repetitions(const fb_graph *g, fb_arena *scratch, repetition **folded)
{
    repetition *table = NULL;
    uint64_t *content = scope_contents(g);
    for (fb_id i = 0; i < g->n_scopes; i++) {
        const fb_scope *s = &g->scopes[i];
        if (s->index == FB_NONE) continue;
        repetition *r = FB_NEW(scratch, repetition), *found;
        r->key.parent = s->parent;
        r->key.name = fb_hash_text(s->name);
        r->key.content.low = content[i];
        HASH_FIND(hh, table, &r->key, sizeof r->key, found);
        if (!found) {
            r->first = i;
            HASH_ADD(hh, table, key, sizeof r->key, r);
            found = r;
        }
        found->count++;
        folded[i] = found;
    }
    fb_free(content);
    return table;
}

static int depth_of(const listing *l, fb_id scope, fb_id region)
{
    int depth = 0;
    for (; scope != FB_NONE; scope = l->g->scopes[scope].parent) depth++;
    for (; region > 0; region = l->g->regions[region].parent) depth++;
    return depth;
}

static void indent(const listing *l, int depth)
{
    fb_str_addf(l->out, "%*s", 2 * depth, "");
}

/* As the script wrote them: 1e-5, where the graph's text, which must lose nothing, has 17 digits. */
static void add_attrs(const char *attrs, fb_str *out)
{
    json_t *value = json_loads(attrs, 0, NULL);
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9)) : NULL;
    fb_str_add(out, text ? text : attrs);
    fb_free(text);
    json_decref(value);
}

/* Lines for the scopes that are entered on the way to `scope`, outermost first. */
static void open_scopes(listing *l, fb_id scope, fb_id region)
{
    if (scope == FB_NONE || fb_scope_within(l->g, l->scope, scope)) return;
    const fb_scope *s = &l->g->scopes[scope];
    open_scopes(l, s->parent, region);
    const repetition *r = l->folded[scope];
    indent(l, depth_of(l, s->parent, region));
    if (r && r->count > 1)
        fb_str_addf(l->out, "%s ×%d", s->name, r->count);
    else
        fb_str_add(l->out, last_part(s->path));
    if (s->op) fb_str_addf(l->out, ": %s ", s->op);
    if (s->op) add_attrs(s->attrs, l->out);
    fb_str_add(l->out, "\n");
}

static bool is_folded_away(const listing *l, fb_id scope)
{
    for (; scope != FB_NONE; scope = l->g->scopes[scope].parent)
        if (l->folded[scope] && l->folded[scope]->first != scope) return true;
    return false;
}

static void print_line(listing *l, fb_id id)
{
    const fb_node *n = &l->g->nodes[id];
    if (is_folded_away(l, n->scope)) return;
    if (n->scope != FB_NONE) open_scopes(l, n->scope, n->region);
    if (n->region > l->region) {
        indent(l, depth_of(l, n->scope, n->region) - 1);
        const fb_region *r = &l->g->regions[n->region];
        fb_str_addf(l->out, "body of %%%d%s:\n", r->loop, r->backwards ? ", backwards" : "");
    }
    indent(l, depth_of(l, n->scope, n->region));
    fb_node_print(l->g, id, l->out);
    fb_str_add(l->out, "\n");
    l->scope = n->scope;
    l->region = n->region;
}

void fb_graph_print_text(const fb_graph *g, bool fold, fb_str *out)
{
    fb_arena *scratch = fb_arena_new();
    listing l = {.g = g, .out = out, .scope = FB_NONE, .folded = FB_NEW_ARRAY(scratch, repetition *, g->n_scopes)};
    repetition *table = fold ? find_repetitions(g, scratch, l.folded) : NULL;
    for (fb_id i = 0; i < g->n_nodes; i++) print_line(&l, i);
    for (int i = 0; i < g->n_outputs; i++) fb_str_addf(out, "%s = %%%d\n", g->output_names[i], g->outputs[i]);
    HASH_CLEAR(hh, table);
    fb_arena_free(scratch);
}

/* ---- Graphviz ---- */

typedef struct {
    int group;
    fb_id id;
} member;

static int by_group(const void *a, const void *b)
{
    const member *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void dot_node(const fb_graph *g, member m, fb_str *out)
{
    const fb_node *n = &g->nodes[m.id];
    char shape[192];
    bool plain = !fb_node_is_computed(g, m.id);
    fb_str_addf(out, "  n%d [label=\"%s\\n%s\"", m.id, n->name, fb_shape_format(&n->shape, n->dtype, shape));
    if (plain) fb_str_add(out, fb_node_class(g, m.id) == FB_CLASS_VIEW ? ", style=dashed" : ", shape=ellipse");
    /* The golden angle keeps the hues of neighbouring groups apart. */
    if (m.group != FB_NONE)
        fb_str_addf(out, ", style=filled, fillcolor=\"%.3f 0.25 0.98\"",
                    0.618034 * m.group - (int)(0.618034 * m.group));
    if (fb_node_is_output(g, m.id)) fb_str_add(out, ", peripheries=2");
    fb_str_add(out, "];\n");
}

void fb_graph_print_dot(const fb_graph *g, const int *group_of, fb_str *out)
{
    member *all = fb_alloc(((size_t)g->n_nodes + 1) * sizeof *all);
    for (fb_id i = 0; i < g->n_nodes; i++) all[i] = (member){group_of && group_of[i] >= 0 ? group_of[i] : FB_NONE, i};
    qsort(all, (size_t)g->n_nodes, sizeof *all, by_group);
    fb_str_add(out, "digraph fusebox {\n  node [shape=box, fontname=\"sans-serif\"];\n");
    for (int i = 0; i < g->n_nodes; i++) {
        bool first = i == 0 || all[i - 1].group != all[i].group;
        bool last = i + 1 == g->n_nodes || all[i + 1].group != all[i].group;
        if (first && all[i].group != FB_NONE) fb_str_addf(out, "  subgraph cluster_%d {\n", all[i].group);
        dot_node(g, all[i], out);
        if (last && all[i].group != FB_NONE) fb_str_add(out, "  }\n");
    }
    for (fb_id i = 0; i < g->n_nodes; i++)
        for (int u = g->user_start[i]; u < g->user_start[i + 1]; u++)
            fb_str_addf(out, "  n%d -> n%d;\n", i, g->users[u]);
    fb_str_add(out, "}\n");
    fb_free(all);
}
