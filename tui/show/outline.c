/* Builds the tree of scopes and nodes, finds repetitions, and remembers what is folded. Pure. */
#include "tui/show/outline.h"

#include "base/hash.h"
#include "base/str.h"
#include "base/vec.h"

#include <string.h>
#include <uthash.h>

enum { MANY_NODES = 2000, MAX_DEPTH = 64 };

/* ---- repetition classes --------------------------------------------------------------------------------------- */

typedef struct {
    char *key; /* "feature[*].tanh" */
    int number;
    UT_hash_handle hh;
} name_class;

static void star_indexes(fb_str *to, const char *name)
{
    fb_str_clear(to);
    for (const char *p = name; *p;) {
        const char *end = p + strcspn(p, "[");
        fb_str_add_n(to, p, (size_t)(end - p));
        if (!*end) break;
        fb_str_add(to, "[*]");
        p = end + strcspn(end, "]");
        if (*p) p++;
    }
}

static void classify(fb_outline *o)
{
    const fb_graph *g = o->graph;
    name_class *all = NULL, *c, *next;
    fb_str key = {0};
    o->class_of = fb_calloc((size_t)g->n_nodes + 1, sizeof *o->class_of);
    for (fb_id i = 0; i < g->n_nodes; i++) {
        star_indexes(&key, g->nodes[i].name);
        HASH_FIND_STR(all, fb_str_get(&key), c);
        if (!c) {
            c = fb_calloc(1, sizeof *c);
            c->key = fb_strdup(fb_str_get(&key));
            c->number = o->n_classes++;
            HASH_ADD_KEYPTR(hh, all, c->key, strlen(c->key), c);
        }
        o->class_of[i] = c->number;
    }
    HASH_ITER(hh, all, c, next)
    {
        HASH_DEL(all, c);
        fb_free(c->key);
        fb_free(c);
    }
    fb_str_free(&key);
    o->class_start = fb_calloc((size_t)o->n_classes + 1, sizeof *o->class_start);
    o->class_nodes = fb_calloc((size_t)g->n_nodes + 1, sizeof *o->class_nodes);
    for (fb_id i = 0; i < g->n_nodes; i++) o->class_start[o->class_of[i] + 1]++;
    for (int k = 0; k < o->n_classes; k++) o->class_start[k + 1] += o->class_start[k];
    int *at = fb_calloc((size_t)o->n_classes + 1, sizeof *at);
    for (fb_id i = 0; i < g->n_nodes; i++) o->class_nodes[o->class_start[o->class_of[i]] + at[o->class_of[i]]++] = i;
    fb_free(at);
}

int fb_outline_repetitions(const fb_outline *o, fb_id node)
{
    int c = o->class_of[node];
    return o->class_start[c + 1] - o->class_start[c];
}

/* ---- the tree, before repeats are found ------------------------------------------------------------------------- */

typedef struct {
    fb_entry_kind kind;
    fb_id id;
    int first_child, last_child, next; /* FB_NONE: none */
    uint64_t content;                  /* equal for repetitions of each other */
} tree_node;

typedef FB_VEC(tree_node) tree;

static int tree_add(tree *t, int parent, fb_entry_kind kind, fb_id id)
{
    int at = t->n;
    FB_VEC_PUSH(t, (tree_node){kind, id, FB_NONE, FB_NONE, FB_NONE, 0});
    tree_node *p = &t->at[parent];
    if (p->last_child == FB_NONE)
        p->first_child = at;
    else
        t->at[p->last_child].next = at;
    p->last_child = at;
    return at;
}

static bool left_out(const fb_node *n)
{
    return n->op == FB_OP_CONST && n->shape.rank == 0;
}

/* Outermost first; returns the number. */
static int scope_chain(const fb_graph *g, fb_id scope, fb_id to[MAX_DEPTH])
{
    int n = 0;
    for (fb_id s = scope; s != FB_NONE && n < MAX_DEPTH; s = g->scopes[s].parent) to[n++] = s;
    for (int i = 0; i < n / 2; i++) {
        fb_id swap = to[i];
        to[i] = to[n - 1 - i];
        to[n - 1 - i] = swap;
    }
    return n;
}

static void plant(const fb_graph *g, tree *t)
{
    fb_id open[MAX_DEPTH], chain[MAX_DEPTH];
    int at[MAX_DEPTH + 1] = {0}, depth = 0;
    FB_VEC_PUSH(t, (tree_node){FB_ENTRY_SCOPE, FB_NONE, FB_NONE, FB_NONE, FB_NONE, 0});
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (left_out(&g->nodes[i])) continue;
        int n = scope_chain(g, g->nodes[i].scope, chain), same = 0;
        while (same < n && same < depth && chain[same] == open[same]) same++;
        for (depth = same; depth < n; depth++) {
            open[depth] = chain[depth];
            at[depth + 1] = tree_add(t, at[depth], FB_ENTRY_SCOPE, chain[depth]);
        }
        tree_add(t, at[depth], FB_ENTRY_NODE, i);
    }
}

static const char *last_element(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    return h * 0xff51afd7ed558ccdu;
}

/* Children have larger numbers than what contains them, so one backward walk sees contents first. */
static void fingerprint(const fb_graph *g, tree *t)
{
    for (int i = t->n - 1; i > 0; i--) {
        tree_node *n = &t->at[i];
        if (n->kind == FB_ENTRY_NODE) {
            const fb_node *node = &g->nodes[n->id];
            n->content = mix(fb_hash_text(last_element(node->name)).low, (uint64_t)node->op << 8 | node->dtype);
            for (int d = 0; d < node->shape.rank; d++) n->content = mix(n->content, (uint64_t)node->shape.dim[d]);
            continue;
        }
        n->content = fb_hash_text(g->scopes[n->id].name).low;
        for (int c = n->first_child; c != FB_NONE; c = t->at[c].next) n->content = mix(n->content, t->at[c].content);
    }
}

/* ---- flattening ------------------------------------------------------------------------------------------------- */

typedef FB_VEC(fb_entry) entries;

typedef FB_VEC(int) numbers;

typedef struct {
    const fb_graph *g;
    const tree *t;
    entries out;
    int *entry_of;
} flattening;

static bool is_member(const fb_graph *g, const tree_node *n)
{
    return n->kind == FB_ENTRY_SCOPE && g->scopes[n->id].index != FB_NONE;
}

/* The siblings from `first` on that are repetitions of it. Sources and views that stand in between (the parameters of
 * each layer, say) do not end the run: they go before it. */
static void find_members(const fb_graph *g, const tree *t, int first, numbers *members)
{
    const tree_node *a = &t->at[first];
    FB_VEC_PUSH(members, first);
    if (!is_member(g, a)) return;
    for (int at = a->next; at != FB_NONE; at = t->at[at].next) {
        const tree_node *b = &t->at[at];
        if (b->kind == FB_ENTRY_NODE && !fb_node_is_computed(g, b->id)) continue;
        if (!is_member(g, b) || b->content != a->content || strcmp(g->scopes[a->id].name, g->scopes[b->id].name) != 0)
            return;
        FB_VEC_PUSH(members, at);
    }
}

static void flatten(flattening *f, int parent_tree, int parent);

static void flatten_one(flattening *f, int at, int parent)
{
    const tree_node *n = &f->t->at[at];
    int me = f->out.n;
    FB_VEC_PUSH(&f->out, (fb_entry){.kind = n->kind, .fold = FB_OPEN, .id = n->id, .parent = parent, .members = 1});
    if (n->kind == FB_ENTRY_NODE) {
        f->out.at[me].first = f->out.at[me].last = n->id;
        f->entry_of[n->id] = me;
    } else {
        flatten(f, at, me);
        if (f->g->scopes[n->id].kind == FB_SCOPE_OP) f->out.at[me].fold = FB_FOLDED;
        f->out.at[me].first = f->out.at[me + 1].first;
        f->out.at[me].last = f->out.at[f->out.n - 1].last;
    }
    f->out.at[me].end = f->out.n;
}

/* ---- alike sources and views in a row ---- */

enum { MANY_ALIKE = 3, MAX_PERIOD = 4 };

/* "split" and "split_3" have one stem. */
static size_t stem(const char *name)
{
    size_t n = strlen(name), end = n;
    while (end && name[end - 1] >= '0' && name[end - 1] <= '9') end--;
    return end < n && end > 1 && name[end - 1] == '_' ? end - 1 : n;
}

/* They read the same, or views of one line, or what stands at the same place of a round, the first of which begins with
 * `start`. */
static bool read_alike(const flattening *f, fb_id x, fb_id y, fb_id start)
{
    const fb_node *a = &f->g->nodes[x], *b = &f->g->nodes[y];
    if (a->n_args != b->n_args) return false;
    if (!a->n_args || a->args[0] == b->args[0]) return true;
    int line = f->entry_of[a->args[0]];
    if (line != FB_NONE && line == f->entry_of[b->args[0]]) return true;
    return a->args[0] >= start && b->args[0] - y == a->args[0] - x;
}

/* Sizes may differ from view to view; what a source is like stays to be seen. */
static bool alike(const flattening *f, fb_id x, fb_id y, fb_id start)
{
    const fb_node *a = &f->g->nodes[x], *b = &f->g->nodes[y];
    size_t n = stem(a->name);
    bool sized = a->n_args ? a->shape.rank == b->shape.rank : fb_shape_equal(&a->shape, &b->shape);
    return a->op == b->op && a->dtype == b->dtype && a->scope == b->scope && sized && read_alike(f, x, y, start) &&
           n == stem(b->name) && !strncmp(a->name, b->name, n);
}

static bool is_plain(const flattening *f, int at)
{
    const tree_node *n = at == FB_NONE ? NULL : &f->t->at[at];
    return n && n->kind == FB_ENTRY_NODE && !fb_node_is_computed(f->g, n->id);
}

/* How often the `period` siblings from `first` on stand there, round after round. */
static int rounds_of(const flattening *f, int first, int period)
{
    int model[MAX_PERIOD], at = first, rounds = 1;
    for (int i = 0; i < period; i++, at = f->t->at[at].next) {
        if (!is_plain(f, at)) return 0;
        model[i] = f->t->at[at].id;
    }
    for (;; rounds++)
        for (int i = 0; i < period; i++, at = f->t->at[at].next)
            if (!is_plain(f, at) || !alike(f, model[i], f->t->at[at].id, model[0])) return rounds;
}

/* What repeats itself at `first` becomes one entry for each sibling of a round (slice ×26, unbind ×26). Returns the
 * last sibling of it; FB_NONE when nothing repeats. */
static int flatten_rounds(flattening *f, int first, int parent)
{
    int period = 1, rounds = 0;
    for (; period <= MAX_PERIOD; period++)
        if ((rounds = rounds_of(f, first, period)) >= MANY_ALIKE) break;
    if (period > MAX_PERIOD) return FB_NONE;
    int at = first, last = first, start = f->out.n;
    for (int i = 0; i < period * rounds; last = at, at = f->t->at[at].next, i++) {
        fb_id id = f->t->at[at].id;
        if (i < period) flatten_one(f, at, parent);
        fb_entry *e = &f->out.at[start + i % period];
        e->members = rounds;
        e->last = id;
        f->entry_of[id] = start + i % period;
    }
    return last;
}

/* ---- repeats ---- */

static void flatten_repeat(flattening *f, const numbers *members, int parent)
{
    int me = f->out.n;
    FB_VEC_PUSH(&f->out, (fb_entry){.kind = FB_ENTRY_REPEAT,
                                    .fold = FB_OPEN,
                                    .id = f->t->at[members->at[0]].id,
                                    .parent = parent,
                                    .members = members->n});
    for (int i = 0; i < members->n; i++) flatten_one(f, members->at[i], me);
    f->out.at[me].first = f->out.at[me + 1].first;
    f->out.at[me].last = f->out.at[f->out.n - 1].last;
    f->out.at[me].end = f->out.n;
}

static void flatten(flattening *f, int parent_tree, int parent)
{
    const tree *t = f->t;
    numbers members = {0};
    for (int c = t->at[parent_tree].first_child; c != FB_NONE; c = t->at[c].next) {
        members.n = 0;
        find_members(f->g, t, c, &members);
        if (members.n == 1) {
            int last = flatten_rounds(f, c, parent);
            if (last == FB_NONE)
                flatten_one(f, c, parent);
            else
                c = last;
            continue;
        }
        int last = members.at[members.n - 1];
        for (int at = c; at != last; at = t->at[at].next)
            if (t->at[at].kind == FB_ENTRY_NODE) flatten_one(f, at, parent);
        flatten_repeat(f, &members, parent);
        c = last;
    }
    FB_VEC_FREE(&members);
}

fb_outline *fb_outline_new(const fb_graph *g)
{
    fb_outline *o = fb_calloc(1, sizeof *o);
    tree t = {0};
    o->graph = g;
    o->entry_of = fb_alloc(((size_t)g->n_nodes + 1) * sizeof *o->entry_of);
    for (fb_id i = 0; i < g->n_nodes; i++) o->entry_of[i] = FB_NONE;
    plant(g, &t);
    fingerprint(g, &t);
    flattening f = {.g = g, .t = &t, .entry_of = o->entry_of};
    flatten(&f, 0, FB_NONE);
    FB_VEC_FREE(&t);
    o->entries = f.out.at;
    o->n = f.out.n;
    o->arena = fb_arena_new();
    for (int e = 0; e < o->n; e++) {
        fb_entry *x = &o->entries[e];
        if (x->kind == FB_ENTRY_NODE) continue;
        x->path = fb_arena_strdup(o->arena, g->scopes[x->id].path);
        if (g->n_nodes > MANY_NODES && x->parent == FB_NONE) x->fold = FB_FOLDED;
    }
    classify(o);
    return o;
}

void fb_outline_free(fb_outline *o)
{
    if (!o) return;
    fb_arena_free(o->arena);
    fb_free(o->entries);
    fb_free(o->entry_of);
    fb_free(o->class_of);
    fb_free(o->class_start);
    fb_free(o->class_nodes);
    fb_free(o);
}

/* ---- folding ------------------------------------------------------------------------------------------------------
 */

typedef struct {
    const char *path;
    fb_fold fold[2]; /* of the scope, of the repeat that starts with it */
    UT_hash_handle hh;
} remembered;

void fb_outline_carry(fb_outline *o, const fb_outline *old)
{
    remembered *all = NULL, *r, *next;
    for (int e = 0; e < old->n; e++) {
        const fb_entry *x = &old->entries[e];
        if (x->kind == FB_ENTRY_NODE) continue;
        HASH_FIND_STR(all, x->path, r);
        if (!r) {
            r = fb_calloc(1, sizeof *r);
            r->path = x->path;
            HASH_ADD_KEYPTR(hh, all, r->path, strlen(r->path), r);
        }
        r->fold[x->kind == FB_ENTRY_REPEAT] = x->fold;
    }
    for (int e = 0; e < o->n; e++) {
        fb_entry *x = &o->entries[e];
        if (x->kind == FB_ENTRY_NODE) continue;
        HASH_FIND_STR(all, x->path, r);
        if (r) x->fold = r->fold[x->kind == FB_ENTRY_REPEAT];
    }
    HASH_ITER(hh, all, r, next)
    {
        HASH_DEL(all, r);
        fb_free(r);
    }
}

void fb_outline_reveal(fb_outline *o, fb_id node)
{
    int e = o->entry_of[node];
    if (e == FB_NONE) return;
    for (int at = e, p = o->entries[e].parent; p != FB_NONE; at = p, p = o->entries[p].parent) {
        fb_entry *x = &o->entries[p];
        bool first_member = at == p + 1;
        if (x->kind == FB_ENTRY_REPEAT && !first_member)
            x->fold = FB_MEMBERS;
        else if (x->fold == FB_FOLDED)
            x->fold = FB_OPEN;
    }
}

void fb_outline_fold_all(fb_outline *o, bool fold)
{
    for (int e = 0; e < o->n; e++)
        if (o->entries[e].kind != FB_ENTRY_NODE) o->entries[e].fold = fold ? FB_FOLDED : FB_OPEN;
}
