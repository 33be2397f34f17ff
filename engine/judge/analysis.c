/* The planner: dependences, and a cache of analysed node sets by content, so that an edit analyses only what it
 * changes. */
#include "graph/access.h"
#include "judge/parts.h"
#include "nest/parts.h"

#include <math.h>

static void keep_base(fb_planner *p, fb_id node)
{
    if (node != FB_NONE) p->keep[fb_access_base(p->g, node)] = true;
}

static void find_kept(fb_planner *p)
{
    const fb_graph *g = p->g;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (fb_node_is_output(g, i)) keep_base(p, i);
        if (g->nodes[i].op == FB_OP_RECEIVE) keep_base(p, g->nodes[i].args[0]);
    }
    for (int r = 1; r < g->n_regions; r++) {
        for (int i = 0; i < g->regions[r].n_carried; i++) keep_base(p, g->regions[r].yields[i]);
        for (int i = 0; i < g->regions[r].n_stacked; i++) keep_base(p, g->regions[r].stacked[i]);
    }
}

fb_planner *fb_planner_new(const fb_graph *g, const fb_machine *m)
{
    FB_ASSERT(g->canonical);
    size_t n = (size_t)g->n_nodes + 1;
    fb_planner *p = fb_calloc(1, sizeof *p);
    *p = (fb_planner){.g = g, .machine = *m, .deps = fb_deps_new(g), .epoch = 1, .arena = fb_arena_new()};
    p->working_set = fb_judge_working_set(g);
    p->keep = fb_calloc(n, sizeof *p->keep);
    p->vertex = fb_calloc(n, sizeof *p->vertex);
    for (int i = 0; i < FB_MARKS; i++) p->mark[i] = fb_calloc(n, sizeof(int));
    for (fb_id i = 0; i < g->n_nodes; i++) {
        p->n_computed += fb_node_is_computed(g, i);
        p->vertex[i] = fb_node_is_computed(g, i) || g->nodes[i].op == FB_OP_LOOP;
    }
    find_kept(p);
    return p;
}

static void analysis_free(fb_planner *p, fb_analysis *a)
{
    HASH_DEL(p->cache, a);
    fb_arena_free(a->nest_arena);
    fb_arena_free(a->arena);
    fb_free(a);
}

void fb_planner_free(fb_planner *p)
{
    if (!p) return;
    fb_analysis *a, *next;
    fb_planner_free(p->rolled);
    if (!p->written) fb_roll_free(p->roll);
    HASH_ITER(hh, p->cache, a, next) analysis_free(p, a);
    for (int i = 0; i < FB_MARKS; i++) fb_free(p->mark[i]);
    while (p->sources.n) {
        fb_kernel_source *s = p->sources.at[--p->sources.n];
        fb_free((char *)s->path);
        fb_free((char *)s->text);
        fb_free(s);
    }
    FB_VEC_FREE(&p->sources);
    fb_deps_free(p->deps);
    fb_arena_free(p->arena);
    fb_free(p->keep);
    fb_free(p->vertex);
    fb_free(p);
}

const fb_graph *fb_planner_graph(const fb_planner *p)
{
    return p->g;
}

const fb_deps *fb_planner_deps(const fb_planner *p)
{
    return p->deps;
}

const fb_machine *fb_planner_machine(const fb_planner *p)
{
    return &p->machine;
}

void fb_planner_set_machine(fb_planner *p, const fb_machine *m)
{
    p->machine = *m;
    p->epoch++;
    if (p->rolled) fb_planner_set_machine(p->rolled, m);
}

/* ---- sources ---- */

/* Plans keep the record, so it stays where it is. */
fb_kernel_source *fb_planner_source(fb_planner *p, const char *path)
{
    for (int i = 0; i < p->sources.n; i++)
        if (strcmp(p->sources.at[i]->path, path) == 0) return p->sources.at[i];
    fb_kernel_source *s = fb_calloc(1, sizeof *s);
    s->path = fb_strdup(path);
    FB_VEC_PUSH(&p->sources, s);
    return s;
}

void fb_planner_set_source(fb_planner *p, const char *path, const char *text)
{
    fb_kernel_source *s = fb_planner_source(p, path);
    char *copy = text ? fb_strdup(text) : NULL;
    fb_free((char *)s->text);
    s->text = copy;
    if (p->rolled) fb_planner_set_source(p->rolled, path, text);
}

/* ---- steps as loops ---- */

fb_planner *fb_planner_written(fb_planner *p)
{
    return p->written ? p->written : p;
}

const fb_roll *fb_planner_roll(fb_planner *p)
{
    fb_planner *of = fb_planner_written(p);
    fb_error err = {0};
    if (!of->looked) of->roll = fb_graph_roll(of->g, &err);
    of->looked = true;
    return of->roll;
}

fb_planner *fb_planner_rolled(fb_planner *p)
{
    fb_planner *of = fb_planner_written(p);
    const fb_roll *r = fb_planner_roll(of);
    if (!of->rolled && r && r->graph) {
        of->rolled = fb_planner_new(r->graph, &of->machine);
        of->rolled->written = of;
        for (int i = 0; i < of->sources.n; i++)
            fb_planner_set_source(of->rolled, of->sources.at[i]->path, of->sources.at[i]->text);
    }
    return of->rolled;
}

/* ---- the cache ---- */

/* More than a search looks at before it comes back to a plan that it has seen. */
static int idle_limit(const fb_planner *p)
{
    return 2 * p->n_computed + 1024;
}

static void sweep(fb_planner *p)
{
    fb_analysis *a, *next;
    HASH_ITER(hh, p->cache, a, next)
    {
        if (a->refs == 0) analysis_free(p, a);
    }
    p->n_idle = 0;
    p->idle_bytes = 0;
}

static size_t bytes_of(const fb_analysis *a)
{
    enum { LEAST = 4096 }; /* an arena's first block */
    size_t bytes = sizeof *a;
    if (a->arena) bytes += LEAST + fb_arena_used(a->arena);
    if (a->nest) bytes += LEAST + fb_arena_used(a->nest_arena) + fb_index_pool_bytes(a->nest->pool);
    return bytes;
}

void fb_analysis_hold(fb_planner *p, fb_analysis *a)
{
    if (a->refs++ > 0) return;
    p->n_idle--;
    p->idle_bytes -= a->bytes;
}

void fb_analysis_drop(fb_planner *p, fb_analysis *a)
{
    if (--a->refs > 0) return;
    p->n_idle++;
    a->bytes = bytes_of(a);
    p->idle_bytes += a->bytes;
}

fb_planner_stock fb_planner_stock_of(const fb_planner *p)
{
    return (fb_planner_stock){(int)HASH_COUNT(p->cache), p->n_idle, p->idle_bytes};
}

static fb_hash key_of(const fb_ids *nodes, const fb_ids *stored, fb_choice choice)
{
    fb_hasher *h = fb_hasher_new();
    fb_hasher_add_i64(h, choice);
    fb_hasher_add_i64(h, nodes->n);
    fb_hasher_add(h, nodes->at, (size_t)nodes->n * sizeof *nodes->at);
    fb_hasher_add(h, stored->at, (size_t)stored->n * sizeof *stored->at);
    return fb_hasher_end(h);
}

/* A refusal is its sentence; what led to it need not be kept. */
static void analyse(const fb_planner *p, fb_analysis *a, const fb_ids *nodes, const fb_ids *stored)
{
    a->arena = fb_arena_new();
    a->kernel = fb_nest_kernel_of(a->arena, p->g, nodes->at, nodes->n, stored->at, stored->n);
    if (fb_may_be_kernel(p, &a->kernel, &a->why)) fb_judge_family(p, a);
    if (a->accepted || nodes->n == 1) return;
    a->kernel = (fb_kernel_nodes){0};
    fb_arena_free(a->arena);
    a->arena = NULL;
}

fb_analysis *fb_analyse(fb_planner *p, const fb_ids *nodes, const fb_ids *stored, fb_choice choice)
{
    fb_hash key = key_of(nodes, stored, choice);
    fb_analysis *a = NULL;
    HASH_FIND(hh, p->cache, &key, sizeof key, a);
    if (a) {
        fb_analysis_hold(p, a);
        return a;
    }
    enum { IDLE_BYTES = 16 << 20 }; /* a script plans in 64 MB altogether */
    if (p->n_idle > idle_limit(p) || p->idle_bytes > IDLE_BYTES) sweep(p);
    a = fb_calloc(1, sizeof *a);
    a->key = key;
    a->refs = 1;
    a->choice = choice;
    a->family = FB_FAMILIES;
    analyse(p, a, nodes, stored);
    HASH_ADD(hh, p->cache, key, sizeof a->key, a);
    return a;
}

const fb_group_cost *fb_analysis_cost(fb_planner *p, fb_analysis *a)
{
    if (a->epoch != p->epoch) fb_cost_of_analysis(p, a, &a->cost);
    a->epoch = p->epoch;
    return &a->cost;
}

double fb_analysis_stage_saves_us(fb_planner *p, fb_analysis *a)
{
    if (a->stage_epoch == p->epoch) return a->stage_saves_us;
    a->stage_epoch = p->epoch;
    a->stage_saves_us = 0;
    if (!a->nest || !p->machine.target->grid_barrier) return 0;
    fb_arena *arena = fb_arena_new();
    fb_analysis stage = *a;
    fb_group_cost cost;
    stage.nest = fb_nest_as_stage(a->nest, arena);
    fb_cost_of_analysis(p, &stage, &cost);
    a->stage_saves_us = fmax(fb_analysis_cost(p, a)->us - cost.us, 0);
    fb_arena_free(arena);
    return a->stage_saves_us;
}
