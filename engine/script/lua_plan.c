/* Plans in Lua: the function of a script that turns a graph into a plan, edit by edit. Nodes are named as everywhere
 * ("feature[*].tanh" stands for one in every repetition), edges come from pl:edges(). An edit that is refused raises
 * the verdict's sentence; pl:verdict asks without doing. Every edit gives the plan back, so that edits chain. */
#include "script/process.h"

#include "base/arena.h"
#include "decide/preset.h"
#include "decide/search.h"
#include "plan/plan.h"

#include <math.h>
#include <string.h>

static const char plan_type[] = "plan", edge_type[] = "edge";

typedef struct {
    fb_planner *planner; /* of the graph as written; the plan's may be another one */
    fb_plan *plan;
    fb_arena *arena; /* names looked up */
} lua_plan;

typedef struct {
    fb_id a, b;
} edge;

static const fb_graph *graph_of(const lua_plan *p)
{
    return fb_planner_graph(fb_plan_planner(p->plan));
}

static lua_plan *check_plan(lua_State *L)
{
    lua_plan *p = luaL_checkudata(L, 1, plan_type);
    if (!p->plan) fb_lua_raise(L, "this plan is finished");
    return p;
}

static int close_plan(lua_State *L)
{
    lua_plan *p = luaL_checkudata(L, 1, plan_type);
    fb_plan_free(p->plan);
    fb_planner_free(p->planner);
    fb_arena_free(p->arena);
    *p = (lua_plan){0};
    return 0;
}

/* ---- nodes and edges ---- */

typedef struct {
    int n;
    fb_id *at;
} nodes;

static nodes nodes_named(lua_State *L, lua_plan *p, int i, const char *what)
{
    nodes out = {0};
    if (lua_type(L, i) != LUA_TSTRING)
        fb_lua_raise(L, "%s: a node's name is expected, not %s", what, luaL_typename(L, i));
    out.n = fb_match_nodes(graph_of(p), lua_tostring(L, i), p->arena, &out.at);
    if (!out.n) fb_lua_raise(L, "%s: there is no node \"%.200s\"", what, lua_tostring(L, i));
    return out;
}

/* One after the other until none of them gives progress: an early one may need a later one done first. */
static void apply_all(lua_State *L, lua_plan *p, const fb_edit *edits, int n, const char *what)
{
    bool *done = fb_arena_array(p->arena, (size_t)n, sizeof *done);
    fb_verdict refused = {0};
    int left = n;
    for (bool progress = true; progress && left;) {
        progress = false;
        bool kept = false;
        for (int i = 0; i < n; i++) {
            if (done[i]) continue;
            fb_plan *result = NULL;
            fb_verdict v = fb_plan_try(p->plan, &edits[i], &result);
            if (result) {
                fb_plan_free(p->plan);
                p->plan = result;
            }
            if (result || v.rule == FB_RULE_SAME_GROUP) {
                done[i] = progress = true;
                left--;
            } else if (!kept) {
                refused = v;
                kept = true;
            }
        }
    }
    if (!left) return;
    /* Which launch modes there are is the device's affair: a sweep over plans leaves out what a machine lacks. */
    fb_process_of(L)->away = edits[0].kind == FB_EDIT_LAUNCH && refused.kind == FB_VERDICT_UNSUPPORTED;
    fb_lua_raise(L, "%s: %s (%s)", what, refused.text, fb_verdict_kind_name(refused.kind));
}

static int done(lua_State *L)
{
    lua_settop(L, 1);
    return 1;
}

static bool connected(const lua_plan *p, fb_id a, fb_id b)
{
    return fb_deps_find(fb_planner_deps(fb_plan_planner(p->plan)), a, b) != FB_NONE;
}

/* The edits that `kind` between the nodes at 2 and 3 (or the edge at 2) comes to: one for each pair with an edge; for a
 * single pair in any case, so that its verdict says why not. Fusing many nodes with one is one edit. */
static fb_edit *pair_edits(lua_State *L, lua_plan *p, fb_edit_kind kind, int first, const char *what, int *n)
{
    const edge *e = luaL_testudata(L, first, edge_type);
    fb_edit *edits;
    if (e) {
        edits = FB_NEW(p->arena, fb_edit);
        edits[(*n = 1) - 1] = (fb_edit){.kind = kind, .a = e->a, .b = e->b};
        return edits;
    }
    nodes a = nodes_named(L, p, first, what), b = nodes_named(L, p, first + 1, what);
    if (kind == FB_EDIT_FUSE && a.n + b.n > 2 && (a.n == 1 || b.n == 1)) {
        fb_id *all = FB_NEW_ARRAY(p->arena, fb_id, a.n + b.n);
        memcpy(all, a.at, (size_t)a.n * sizeof *all);
        memcpy(all + a.n, b.at, (size_t)b.n * sizeof *all);
        edits = FB_NEW(p->arena, fb_edit);
        edits[(*n = 1) - 1] = (fb_edit){.kind = FB_EDIT_FUSE_ALL, .n_nodes = a.n + b.n, .nodes = all};
        return edits;
    }
    int room = a.n * b.n > 1 ? 0 : 1;
    for (int i = 0; i < a.n; i++)
        for (int k = 0; k < b.n; k++) room += connected(p, a.at[i], b.at[k]);
    edits = FB_NEW_ARRAY(p->arena, fb_edit, room ? room : 1);
    *n = 0;
    for (int i = 0; i < a.n; i++)
        for (int k = 0; k < b.n; k++)
            if (a.n * b.n == 1 || connected(p, a.at[i], b.at[k]))
                edits[(*n)++] = (fb_edit){.kind = kind, .a = a.at[i], .b = b.at[k]};
    if (!*n)
        fb_lua_raise(L, "%s: no edge leads from %s to %s", what, lua_tostring(L, first), lua_tostring(L, first + 1));
    return edits;
}

static int edit_pair(lua_State *L)
{
    fb_edit_kind kind = (fb_edit_kind)lua_tointeger(L, lua_upvalueindex(1));
    const char *what = lua_tostring(L, lua_upvalueindex(2));
    lua_plan *p = check_plan(L);
    int n;
    fb_edit *edits = pair_edits(L, p, kind, 2, what, &n);
    apply_all(L, p, edits, n, what);
    return done(L);
}

static int edit_node(lua_State *L)
{
    fb_edit_kind kind = (fb_edit_kind)lua_tointeger(L, lua_upvalueindex(1));
    const char *what = lua_tostring(L, lua_upvalueindex(2));
    lua_plan *p = check_plan(L);
    nodes a = nodes_named(L, p, 2, what);
    fb_edit *edits = FB_NEW_ARRAY(p->arena, fb_edit, a.n);
    for (int i = 0; i < a.n; i++) edits[i] = (fb_edit){.kind = kind, .a = a.at[i]};
    apply_all(L, p, edits, a.n, what);
    return done(L);
}

/* pl:fuse_all("a", "b[*]", …) or a list of names: one group. */
static int fuse_all(lua_State *L)
{
    lua_plan *p = check_plan(L);
    if (lua_istable(L, 2)) {
        lua_Integer n = (lua_Integer)lua_rawlen(L, 2);
        luaL_checkstack(L, n < 1000 ? (int)n : 1000, "fuse_all: too many names");
        for (lua_Integer i = 1; i <= n && i < 1000; i++) lua_rawgeti(L, 2, i);
        lua_remove(L, 2);
    }
    int names = lua_gettop(L) - 1, total = 0;
    nodes *found = FB_NEW_ARRAY(p->arena, nodes, names + 1);
    for (int i = 0; i < names; i++) total += (found[i] = nodes_named(L, p, i + 2, "fuse_all")).n;
    fb_edit e = {.kind = FB_EDIT_FUSE_ALL, .n_nodes = 0};
    fb_id *all = FB_NEW_ARRAY(p->arena, fb_id, total + 1);
    for (int i = 0; i < names; i++)
        for (int k = 0; k < found[i].n; k++) all[e.n_nodes++] = found[i].at[k];
    e.nodes = all;
    apply_all(L, p, &e, 1, "fuse_all");
    return done(L);
}

/* pl:knob("feature[*].tanh", "rows", 4). */
static int knob(lua_State *L)
{
    lua_plan *p = check_plan(L);
    nodes a = nodes_named(L, p, 2, "knob");
    fb_knob k;
    if (!fb_knob_parse(luaL_checkstring(L, 3), &k))
        return fb_lua_raise(L, "knob: there is no knob \"%.40s\"", lua_tostring(L, 3));
    fb_edit *edits = FB_NEW_ARRAY(p->arena, fb_edit, a.n);
    for (int i = 0; i < a.n; i++)
        edits[i] = (fb_edit){.kind = FB_EDIT_KNOB, .a = a.at[i], .knob = k, .value = luaL_checkinteger(L, 4)};
    apply_all(L, p, edits, a.n, "knob");
    return done(L);
}

/* pl:kernel("feature[*].tanh", "tanh.cu"): the group's kernel is the one in that file beside the script. */
static int kernel(lua_State *L)
{
    lua_plan *p = check_plan(L);
    nodes a = nodes_named(L, p, 2, "kernel");
    const char *file = lua_isnoneornil(L, 3) ? NULL : luaL_checkstring(L, 3);
    if (file && (!*file || *file == '/' || strstr(file, "..") || strlen(file) > 200))
        return fb_lua_raise(
            L, "kernel: files are named relative to the script's folder, without \"..\", not \"%.200s\"", file);
    fb_edit *edits = FB_NEW_ARRAY(p->arena, fb_edit, a.n);
    for (int i = 0; i < a.n; i++) edits[i] = (fb_edit){.kind = FB_EDIT_SOURCE, .a = a.at[i], .source = file};
    apply_all(L, p, edits, a.n, "kernel");
    return done(L);
}

static int launch(lua_State *L)
{
    lua_plan *p = check_plan(L);
    const char *name = luaL_checkstring(L, 2);
    for (fb_launch_mode m = FB_LAUNCH_STREAM; m <= FB_LAUNCH_MEGA; m++) {
        if (strcmp(fb_launch_mode_name(m), name) != 0) continue;
        fb_edit e = {.kind = FB_EDIT_LAUNCH, .launch = m};
        if (fb_plan_launch_mode(p->plan) != m) apply_all(L, p, &e, 1, "launch");
        return done(L);
    }
    return fb_lua_raise(L, "launch: \"%.40s\" is none of stream, graph, mega", name);
}

/* pl:overlap(true): feeds and receives beside the kernels; without a value as with true. One plan serves variants of
 * which not all copy something: for the others it changes nothing. */
static int overlap(lua_State *L)
{
    lua_plan *p = check_plan(L);
    bool on = lua_isnoneornil(L, 2) || lua_toboolean(L, 2);
    fb_edit e = {.kind = FB_EDIT_OVERLAP, .value = on};
    if (fb_plan_overlap(p->plan) != on && (!on || fb_graph_copies(graph_of(p)))) apply_all(L, p, &e, 1, "overlap");
    return done(L);
}

/* pl:roll(): steps that are written out are a loop from here on; pl:roll(false): as they are written. Nodes are named
 * as they are called in the one or the other. */
static int roll(lua_State *L)
{
    lua_plan *p = check_plan(L);
    bool on = lua_isnoneornil(L, 2) || lua_toboolean(L, 2);
    fb_edit e = {.kind = FB_EDIT_ROLL, .value = on};
    if (fb_plan_rolled(p->plan) != on) apply_all(L, p, &e, 1, "roll");
    return done(L);
}

/* pl:preset("max"), pl:preset("inductor[:12]"): begin with what a preset makes, or its first decisions. */
static int preset(lua_State *L)
{
    lua_plan *p = check_plan(L);
    const char *name = luaL_checkstring(L, 2);
    fb_preset_use use;
    fb_error err = {0};
    if (!fb_preset_parse(name, &use, &err)) {
        if (err.kind) return fb_lua_raise(L, "preset: %s", err.text);
        if (strcmp(name, FB_SEARCH_NAME) == 0)
            return fb_lua_raise(L, "preset: best is a search, which needs a device and goes on for seconds: ask for it "
                                   "as a column's plan");
        return fb_lua_raise(L, "preset: there is no preset \"%.40s\"", name);
    }
    fb_plan *made = fb_preset_make(&use, fb_plan_planner(p->plan), NULL, &err);
    if (!made) return fb_lua_raise(L, "preset: %s", err.text);
    fb_plan_free(p->plan);
    p->plan = made;
    return done(L);
}

/* ---- asking ---- */

static void set_number(lua_State *L, const char *key, double v)
{
    if (!isfinite(v)) return;
    lua_pushnumber(L, v);
    lua_setfield(L, -2, key);
}

static const struct {
    const char *name;
    fb_edit_kind kind;
    bool pair;
} askable[] = {
    {"fuse", FB_EDIT_FUSE, true},          {"cut", FB_EDIT_CUT, true},
    {"isolate", FB_EDIT_ISOLATE, false},   {"recompute", FB_EDIT_RECOMPUTE, false},
    {"store", FB_EDIT_STORE, false},       {"library", FB_EDIT_LIBRARY, false},
    {"generate", FB_EDIT_GENERATE, false},
};

/* pl:verdict("fuse", e) or pl:verdict("fuse", "a", "b"): { kind, text, saves_us, saves_bytes, saves_launches,
 * before_us, after_us }. */
static int verdict(lua_State *L)
{
    lua_plan *p = check_plan(L);
    const char *name = luaL_checkstring(L, 2);
    size_t i = 0, count = sizeof askable / sizeof *askable;
    while (i < count && strcmp(askable[i].name, name) != 0) i++;
    if (i == count)
        return fb_lua_raise(
            L, "verdict: \"%.40s\" is no edit (there are fuse, cut, isolate, recompute, store, library, generate)",
            name);
    fb_edit e = {.kind = askable[i].kind};
    int n = 1;
    if (askable[i].pair)
        e = *pair_edits(L, p, e.kind, 3, "verdict", &n);
    else
        e.a = nodes_named(L, p, 3, "verdict").at[0];
    fb_verdict v = fb_plan_try(p->plan, &e, NULL);
    lua_newtable(L);
    lua_pushstring(L, fb_verdict_kind_name(v.kind));
    lua_setfield(L, -2, "kind");
    lua_pushstring(L, v.text);
    lua_setfield(L, -2, "text");
    set_number(L, "before_us", v.before_us);
    set_number(L, "after_us", v.after_us);
    /* What is fine without a prediction changes nothing, as an edge inside a kernel; scripts may compare it. */
    double saves = v.before_us - v.after_us;
    set_number(L, "saves_us", v.kind == FB_VERDICT_FINE && isnan(saves) ? 0 : saves);
    lua_pushinteger(L, v.bytes_saved);
    lua_setfield(L, -2, "saves_bytes");
    lua_pushinteger(L, v.launches_saved);
    lua_setfield(L, -2, "saves_launches");
    return 1;
}

static int next_edge(lua_State *L)
{
    luaL_checkudata(L, lua_upvalueindex(1), plan_type);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_replace(L, 1);
    lua_settop(L, 1);
    lua_plan *p = check_plan(L);
    const fb_deps *d = fb_planner_deps(fb_plan_planner(p->plan));
    for (lua_Integer i = lua_tointeger(L, lua_upvalueindex(2)); i < d->n_edges; i++) {
        if (d->edges[i].order_only) continue;
        lua_pushinteger(L, i + 1);
        lua_replace(L, lua_upvalueindex(2));
        edge *e = lua_newuserdatauv(L, sizeof *e, 0);
        *e = (edge){d->edges[i].producer, d->edges[i].consumer};
        luaL_setmetatable(L, edge_type);
        lua_pushstring(L, fb_node_at(graph_of(p), e->a)->name);
        lua_pushstring(L, fb_node_at(graph_of(p), e->b)->name);
        return 3;
    }
    return 0;
}

/* for e, producer, consumer in pl:edges() do … end. */
static int edges(lua_State *L)
{
    check_plan(L);
    lua_settop(L, 1);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, next_edge, 2);
    return 1;
}

/* The names of the nodes that kernels compute, in order. */
static int node_names(lua_State *L)
{
    lua_plan *p = check_plan(L);
    const fb_graph *g = graph_of(p);
    lua_newtable(L);
    int n = 0;
    for (fb_id i = 0; i < g->n_nodes; i++) {
        if (!fb_node_is_computed(g, i)) continue;
        lua_pushstring(L, g->nodes[i].name);
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

/* { us, launch_us, floor_us, read, written, flops, launches }: the whole plan, predicted. */
static int cost(lua_State *L)
{
    lua_plan *p = check_plan(L);
    fb_plan_cost c;
    fb_plan_cost_of(p->plan, &c);
    lua_newtable(L);
    set_number(L, "us", c.us);
    set_number(L, "launch_us", c.launch_us);
    set_number(L, "floor_us", c.floor_us);
    set_number(L, "read", (double)c.bytes_read);
    set_number(L, "written", (double)c.bytes_written);
    set_number(L, "flops", (double)c.flops);
    lua_pushinteger(L, c.launches);
    lua_setfield(L, -2, "launches");
    return 1;
}

int fb_process_run_plan(lua_State *L)
{
    fb_plan_request *r = lua_touserdata(L, 1);
    fb_process *process = fb_process_of(L);
    lua_settop(L, 0);
    fb_module_push_function(L, "plans", r->name);
    fb_lua_blame(L);
    lua_plan *p = lua_newuserdatauv(L, sizeof *p, 0);
    *p = (lua_plan){0};
    luaL_setmetatable(L, plan_type);
    p->arena = fb_arena_new();
    p->planner = fb_planner_new(r->graph, &r->machine);
    p->plan = fb_plan_new(p->planner);
    lua_pushvalue(L, 2);
    lua_insert(L, 1);
    bool ok = fb_lua_try(L, 1, 0);
    if (ok) {
        json_decref(process->held);
        process->held = r->result = fb_plan_to_json(p->plan);
        lua_settop(L, 1);
    } else {
        lua_insert(L, 1);
        lua_settop(L, 2);
        lua_insert(L, 1);
    }
    /* At once, not when the collector comes by: the graph may not outlive this call. */
    lua_pushcfunction(L, close_plan);
    lua_pushvalue(L, 1);
    lua_call(L, 1, 0);
    return ok ? 0 : lua_error(L);
}

static int edge_field(lua_State *L)
{
    return fb_lua_raise(L, "an edge has no fields: pl:edges() gives e, producer, consumer");
}

void fb_process_open_plan(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"fuse_all", fuse_all}, {"knob", knob},        {"kernel", kernel}, {"launch", launch},
        {"overlap", overlap},   {"roll", roll},        {"preset", preset}, {"verdict", verdict},
        {"edges", edges},       {"nodes", node_names}, {"cost", cost},     {NULL, NULL},
    };
    luaL_newmetatable(L, edge_type);
    lua_pushcfunction(L, edge_field);
    lua_setfield(L, -2, "__index");
    lua_pushliteral(L, "edge");
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
    luaL_newmetatable(L, plan_type);
    luaL_newlib(L, methods);
    for (size_t i = 0; i < sizeof askable / sizeof *askable; i++) {
        lua_pushinteger(L, askable[i].kind);
        lua_pushstring(L, askable[i].name);
        lua_pushcclosure(L, askable[i].pair ? edit_pair : edit_node, 2);
        lua_setfield(L, -2, askable[i].name);
    }
    fb_lua_push_methods(L, "a plan has no method");
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, close_plan);
    lua_setfield(L, -2, "__gc");
    lua_pushliteral(L, "plan");
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
}
