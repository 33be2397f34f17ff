/* The graph in Lua: sources, joins, scopes, loops, effects, and the building of a variant. */
#include "script/process.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "graph/autodiff.h"
#include "graph/canon.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char graph_type[] = "graph", graph_key[] = "fusebox.graph";

fb_graph *fb_process_graph_now(lua_State *L)
{
    fb_process *p = fb_process_of(L);
    if (!p->graph) fb_lua_raise(L, "no graph is being built here");
    return p->graph;
}

/* Every method's first argument: the graph itself, of this build. */
static fb_graph *check_graph(lua_State *L)
{
    const uint32_t *build = luaL_checkudata(L, 1, graph_type);
    const fb_process *p = fb_process_of(L);
    if (!p->graph || *build != p->build) fb_lua_raise(L, "this graph is finished");
    return p->graph;
}

static fb_id *scratch(lua_State *L, int n)
{
    return lua_newuserdatauv(L, ((size_t)n + 1) * sizeof(fb_id), 0);
}

static void push_list(lua_State *L, int from, int n)
{
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        lua_pushvalue(L, from + i);
        lua_rawseti(L, -2, i + 1);
    }
}

/* ---- sources ---- */

static double option_number(lua_State *L, int i, const char *key, double otherwise)
{
    if (!lua_istable(L, i)) return otherwise;
    lua_getfield(L, i, key);
    if (!lua_isnil(L, -1) && lua_type(L, -1) != LUA_TNUMBER)
        fb_lua_raise(L, "%s is a %s, not a number", key, luaL_typename(L, -1));
    double v = lua_isnil(L, -1) ? otherwise : lua_tonumber(L, -1);
    lua_pop(L, 1);
    return v;
}

static void check_options(lua_State *L, int i, const char *what, const char *const *known)
{
    if (lua_isnoneornil(L, i)) return;
    if (!lua_istable(L, i)) fb_lua_raise(L, "%s: options are a table, not %s", what, luaL_typename(L, i));
    for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        const char *const *k = known;
        while (*k && strcmp(*k, key) != 0) k++;
        if (*k) continue;
        char unknown[80];
        snprintf(unknown, sizeof unknown, "%s: unknown option", what);
        fb_lua_unknown(L, unknown, key, known, (int)(k - known));
    }
}

/* { dist = "uniform" | "normal" | "integer" | "constant", low, high, mean, std, value }: torch.rand where nothing is
 * said, integers from 0 to `high` for integer dtypes. */
static void read_dist(lua_State *L, int i, const char *what, fb_attrs *at)
{
    static const char *const known[] = {"dist", "low", "high", "mean", "std", "value", "seed", NULL};
    static const char *const names[] = {[FB_DIST_UNIFORM] = "uniform",
                                        [FB_DIST_NORMAL] = "normal",
                                        [FB_DIST_INTEGER] = "integer",
                                        [FB_DIST_CONSTANT] = "constant"};
    check_options(L, i, what, known);
    bool whole = !fb_dtype_is_float(at->dtype);
    const char *dist = names[whole ? FB_DIST_INTEGER : FB_DIST_UNIFORM];
    if (lua_istable(L, i) && lua_getfield(L, i, "dist") != LUA_TNIL) dist = luaL_checkstring(L, -1);
    at->dist = FB_DISTS;
    for (fb_dist d = 0; d < sizeof names / sizeof *names; d++)
        if (strcmp(names[d], dist) == 0) at->dist = d;
    switch (at->dist) {
    case FB_DIST_UNIFORM:
    case FB_DIST_INTEGER:
        at->value = option_number(L, i, "low", 0);
        at->high = option_number(L, i, "high", at->dtype == FB_BOOL ? 2 : at->dist == FB_DIST_INTEGER ? NAN : 1);
        if (isnan(at->high)) fb_lua_raise(L, "%s: integers need { high = … }, one more than the largest", what);
        break;
    case FB_DIST_NORMAL:
        at->value = option_number(L, i, "mean", 0);
        at->high = option_number(L, i, "std", 1);
        break;
    case FB_DIST_CONSTANT: at->value = option_number(L, i, "value", 0); break;
    default:
        fb_lua_raise(L, "%s: there is no distribution \"%.40s\" (there are uniform, normal, integer, constant)", what,
                     dist);
    }
}

/* g:input(name, shape, dtype, options); also param and feed. */
static int source(lua_State *L)
{
    fb_op op = (fb_op)lua_tointeger(L, lua_upvalueindex(1));
    const char *what = fb_op_get(op)->name;
    check_graph(L);
    lua_settop(L, 5);
    const char *name = fb_lua_name(L, 2, what);
    if (!lua_istable(L, 3))
        return fb_lua_raise(L, "%s %s: a shape like { 4, 256 } is expected, not %s", what, name, luaL_typename(L, 3));
    fb_attrs at = {.shape = fb_tensor_shape(L, 3, what), .dtype = fb_tensor_dtype(L, 4, FB_F32)};
    read_dist(L, 5, what, &at);
    return fb_tensor_add(L, op, NULL, 0, &at, name);
}

/* g:rand(shape, { dtype, seed, dist … }): random values that are part of the computation. */
static int rand_source(lua_State *L)
{
    check_graph(L);
    lua_settop(L, 4);
    luaL_checktype(L, 2, LUA_TTABLE);
    fb_attrs at = {.shape = fb_tensor_shape(L, 2, "random"), .dtype = fb_tensor_dtype(L, 3, FB_F32)};
    double seed = option_number(L, 4, "seed", 0);
    if (seed != floor(seed) || fabs(seed) > 0x1p53) fb_lua_raise(L, "random: a seed is a whole number, not %g", seed);
    at.seed = (uint64_t)(int64_t)seed;
    read_dist(L, 4, "random", &at);
    return fb_tensor_add(L, FB_OP_RANDOM, NULL, 0, &at, NULL);
}

static double number_or_boolean(lua_State *L, int i)
{
    return lua_isboolean(L, i) ? lua_toboolean(L, i) : luaL_checknumber(L, i);
}

/* A scalar, spread to the shape where there is one. */
static int full_of(lua_State *L, double value, fb_dtype dtype, const fb_shape *shape, const char *name)
{
    fb_attrs at = {.value = value, .dtype = dtype};
    fb_tensor_add(L, FB_OP_CONST, NULL, 0, &at, shape ? NULL : name);
    if (!shape || !shape->rank) return 1;
    fb_id x = fb_tensor_at(L, -1);
    fb_attrs spread = {.shape = *shape};
    return fb_tensor_add(L, FB_OP_EXPAND, &x, 1, &spread, name);
}

static int constant(lua_State *L)
{
    check_graph(L);
    return full_of(L, number_or_boolean(L, 2), fb_tensor_dtype(L, 3, lua_isboolean(L, 2) ? FB_BOOL : FB_F32), NULL,
                   NULL);
}

static int full(lua_State *L)
{
    check_graph(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    fb_shape s = fb_tensor_shape(L, 2, "full");
    return full_of(L, number_or_boolean(L, 3), fb_tensor_dtype(L, 4, FB_F32), &s, "full");
}

/* zeros and ones: upvalue 1 is the value, 2 the name. */
static int filled(lua_State *L)
{
    const char *name = lua_tostring(L, lua_upvalueindex(2));
    check_graph(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    fb_shape s = fb_tensor_shape(L, 2, name);
    return full_of(L, lua_tonumber(L, lua_upvalueindex(1)), fb_tensor_dtype(L, 3, FB_F32), &s, name);
}

/* g:arange(n, dtype). */
static int arange(lua_State *L)
{
    check_graph(L);
    fb_attrs at = {.shape = {.rank = 1, .dim = {luaL_checkinteger(L, 2)}}, .dtype = fb_tensor_dtype(L, 3, FB_I64)};
    return fb_tensor_add(L, FB_OP_IOTA, NULL, 0, &at, "arange");
}

/* g:load(name, file, { columns = { "a", 2 }, dtype = "f32", param = true }): a file beside the script, read by the
 * front. */
static int load(lua_State *L)
{
    static const char *const known[] = {"columns", "dtype", "param", NULL};
    fb_process *p = fb_process_of(L);
    check_graph(L);
    lua_settop(L, 4);
    const char *name = fb_lua_name(L, 2, "load"), *file = luaL_checkstring(L, 3);
    check_options(L, 4, "load", known);
    char clean[256];
    fb_text_clean(clean, sizeof clean, file, strlen(file));
    json_t *request = fb_process_draft(p, json_object());
    json_object_set_new(request, "type", json_string("load_file"));
    json_object_set_new(request, "name", json_string(clean));
    bool param = false;
    if (lua_istable(L, 4)) {
        lua_getfield(L, 4, "param");
        param = lua_toboolean(L, -1);
        lua_getfield(L, 4, "columns");
        if (!lua_isnil(L, -1)) json_object_set_new(request, "columns", fb_lua_to_json(L, -1, "columns"));
        lua_pop(L, 2);
    }
    fb_process_send(p, json_incref(request));
    const json_t *m = fb_process_await(p, "file");
    const char *error = fb_json_string_or(m, "error", NULL);
    if (error) return fb_lua_raise(L, "load: %s", error);
    fb_attrs at = {.dist = FB_DIST_FILE, .file = fb_json_string_or(m, "key", "")};
    if (!fb_dtype_parse(fb_json_string_or(m, "dtype", ""), &at.dtype))
        return fb_lua_raise(L, "load: %s has no dtype", clean);
    const json_t *shape = json_object_get(m, "shape"), *d;
    size_t i;
    json_array_foreach(shape, i, d) if (i < FB_MAX_RANK) at.shape.dim[at.shape.rank++] = json_integer_value(d);
    if (lua_istable(L, 4)) {
        lua_getfield(L, 4, "dtype");
        at.dtype = fb_tensor_dtype(L, -1, at.dtype);
        lua_pop(L, 1);
    }
    return fb_tensor_add(L, param ? FB_OP_PARAM : FB_OP_INPUT, NULL, 0, &at, name);
}

/* ---- joins, effects, outputs ---- */

static int join(lua_State *L)
{
    fb_op op = (fb_op)lua_tointeger(L, lua_upvalueindex(1));
    check_graph(L);
    int n;
    fb_attrs at = {.dim = (int)luaL_optinteger(L, 3, 0)};
    fb_id *ids = fb_tensor_list(L, 2, &n, fb_op_get(op)->name);
    return fb_tensor_add(L, op, ids, n, &at, NULL);
}

static int assign(lua_State *L)
{
    check_graph(L);
    fb_id args[2] = {fb_tensor_at(L, 2), fb_tensor_at(L, 3)};
    return fb_tensor_add(L, FB_OP_ASSIGN, args, 2, NULL, NULL);
}

static int64_t option_steps(lua_State *L, int i, const char *key)
{
    double v = option_number(L, i, key, 0);
    if (v != floor(v) || v < 0 || v > 0x1p53 || (v == 0 && lua_istable(L, i) && lua_getfield(L, i, key) != LUA_TNIL))
        fb_lua_raise(L, "grad: %s is a number of steps, 1 at least", key);
    lua_settop(L, i);
    return (int64_t)v;
}

static bool option_word(lua_State *L, int i, const char *key, const char *otherwise, const char *other)
{
    const char *said = otherwise;
    if (lua_istable(L, i) && lua_getfield(L, i, key) != LUA_TNIL) said = lua_tostring(L, -1);
    bool is_other = said && strcmp(said, other) == 0;
    if (!is_other && (!said || strcmp(said, otherwise) != 0))
        fb_lua_raise(L, "grad: %s is \"%s\" or \"%s\", not \"%.40s\"", key, otherwise, other,
                     said ? said : luaL_typename(L, -1));
    lua_settop(L, i);
    return is_other;
}

/* { through = "stored" | "recomputed", every = k, truncate = n, weights = "after" | "inside" } */
static fb_through read_through(lua_State *L, int i)
{
    static const char *const known[] = {"through", "every", "truncate", "weights", NULL};
    check_options(L, i, "grad", known);
    fb_through through = {.every = option_steps(L, i, "every"), .truncate = option_steps(L, i, "truncate")};
    through.recomputed = option_word(L, i, "through", "stored", "recomputed");
    through.step_by_step = option_word(L, i, "weights", "after", "inside");
    return through;
}

/* g:grad(loss, params, options): the gradients in the order of params, which may be one tensor. */
static int grad(lua_State *L)
{
    fb_error err;
    fb_graph *g = check_graph(L);
    lua_settop(L, 4);
    const fb_through through = read_through(L, 4);
    fb_id loss = fb_tensor_at(L, 2);
    if (fb_tensor_is(L, 3)) {
        push_list(L, 3, 1);
        lua_replace(L, 3);
    }
    int n;
    fb_id *wrt = fb_tensor_list(L, 3, &n, "grad"), *gradients = scratch(L, n);
    if (!fb_autodiff_through(g, loss, wrt, n, gradients, &through, fb_lua_line(L), &err))
        return fb_lua_raise(L, "%s", err.text);
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        fb_tensor_push(L, gradients[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static int receive(lua_State *L)
{
    check_graph(L);
    fb_id x = fb_tensor_at(L, 2);
    return fb_tensor_add(L, FB_OP_RECEIVE, &x, 1, NULL, lua_isnoneornil(L, 3) ? NULL : fb_lua_name(L, 3, "receive"));
}

static int output(lua_State *L)
{
    fb_error err;
    check_graph(L);
    fb_id x = fb_tensor_at(L, 2);
    const char *name = lua_isnoneornil(L, 3) ? NULL : fb_lua_name(L, 3, "output");
    if (!fb_graph_output(fb_process_graph_now(L), x, name, &err)) return fb_lua_raise(L, "%s", err.text);
    lua_settop(L, 2);
    return 1;
}

/* g:exp(x) for x:exp(): upvalue 1 is the tensor's method. */
static int as_function(lua_State *L)
{
    check_graph(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_replace(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

/* ---- scopes ---- */

/* An error leaves scopes and loops open, so that the graph is lost even if the script catches it. */
static int spoil(lua_State *L)
{
    fb_process *p = fb_process_of(L);
    const char *text = lua_tostring(L, -1);
    if (!*p->spoilt) snprintf(p->spoilt, sizeof p->spoilt, "%s", text ? text : "an error in a scope");
    return lua_error(L);
}

/* g:scope(name, fn) or g:scope(name, i, fn). */
static int scope(lua_State *L)
{
    fb_error err;
    fb_graph *g = check_graph(L);
    const char *name = fb_lua_name(L, 2, "scope");
    int f = lua_isfunction(L, 3) ? 3 : 4, index = FB_NONE;
    if (f == 4) {
        lua_Integer i = luaL_checkinteger(L, 3);
        if (i < 0 || i > INT32_MAX) return fb_lua_raise(L, "scope %s: index %lld is out of range", name, (long long)i);
        index = (int)i;
    }
    luaL_checktype(L, f, LUA_TFUNCTION);
    lua_settop(L, f);
    if (fb_graph_scope_open(g, name, index, NULL, NULL, 0, NULL, fb_lua_line(L), &err) == FB_NONE)
        return fb_lua_raise(L, "%s", err.text);
    lua_pushvalue(L, f);
    if (!fb_lua_try(L, 0, LUA_MULTRET)) return spoil(L);
    if (!fb_graph_scope_close(g, NULL, 0, &err)) return fb_lua_raise(L, "%s", err.text);
    return lua_gettop(L) - f;
}

/* g:op(kind, operands, attributes, fn, name): a framework-level op. Its results are the tensors that fn returns. */
static int op_scope(lua_State *L)
{
    fb_error err;
    fb_graph *g = check_graph(L);
    lua_settop(L, 6);
    const char *kind = fb_lua_name(L, 2, "op"), *name = lua_isnil(L, 6) ? kind : fb_lua_name(L, 6, kind);
    luaL_checktype(L, 5, LUA_TFUNCTION);
    int n;
    fb_id *ids = fb_tensor_list(L, 3, &n, kind);
    char *attrs = NULL;
    if (!lua_isnil(L, 4)) {
        luaL_checktype(L, 4, LUA_TTABLE);
        json_t *value = fb_lua_to_json(L, 4, kind);
        attrs = json_object_size(value) ? fb_json_line(value) : NULL;
        json_decref(value);
    }
    fb_id id = fb_graph_scope_open(g, name, FB_NONE, kind, ids, n, attrs, fb_lua_line(L), &err);
    fb_free(attrs);
    if (id == FB_NONE) return fb_lua_raise(L, "%s", err.text);
    int top = lua_gettop(L);
    lua_pushvalue(L, 5);
    if (!fb_lua_try(L, 0, LUA_MULTRET)) return spoil(L);
    int results = lua_gettop(L) - top;
    fb_id *out = lua_newuserdatauv(L, ((size_t)results + 1) * sizeof *out, 0);
    for (int i = 0; i < results; i++) {
        if (!fb_tensor_is(L, top + 1 + i)) {
            lua_pushfstring(L, "%s: the op's function returns a %s where a tensor is expected", kind,
                            luaL_typename(L, top + 1 + i));
            return spoil(L);
        }
        out[i] = fb_tensor_at(L, top + 1 + i);
    }
    if (!results) {
        lua_pushfstring(L, "%s: the op's function returns no tensor", kind);
        return spoil(L);
    }
    if (!fb_graph_scope_close(g, out, results, &err)) return fb_lua_raise(L, "%s", err.text);
    lua_pop(L, 1);
    return results;
}

/* ---- loops ---- */

/* Closes the open region and pushes its results: `carried` final values, then `stacked` collected ones. */
static void push_results(lua_State *L, const fb_id *yields, int carried, const fb_id *stacked, int n_stacked)
{
    fb_error err;
    fb_id loop = fb_graph_region_close(fb_process_graph_now(L), yields, stacked, n_stacked, &err);
    if (loop == FB_NONE) {
        lua_pushstring(L, err.text);
        spoil(L);
    }
    luaL_checkstack(L, carried + n_stacked + 8, "too many loop values");
    for (int i = 0; i < carried + n_stacked; i++) {
        fb_attrs at = {.index = i};
        fb_tensor_add(L, FB_OP_RESULT, &loop, 1, &at, NULL);
    }
}

static void open_region(lua_State *L, int64_t trips, const fb_id *inits, int n_inits, const fb_id *scanned,
                        int n_scanned, fb_id *carried, fb_id *items)
{
    fb_error err;
    if (fb_graph_region_open(fb_process_graph_now(L), trips, inits, n_inits, scanned, n_scanned, carried, items,
                             fb_lua_line(L), &err) == FB_NONE) {
        lua_pushstring(L, err.text);
        spoil(L);
    }
    luaL_checkstack(L, n_inits + n_scanned + 8, "too many loop values");
}

/* g:loop(trips, inits, fn): fn(step, …) gives the next values of what is carried; so does the loop, at its end. */
static int loop(lua_State *L)
{
    check_graph(L);
    lua_settop(L, 4);
    int64_t trips = luaL_checkinteger(L, 2);
    luaL_checktype(L, 4, LUA_TFUNCTION);
    int n;
    fb_id *inits = fb_tensor_list(L, 3, &n, "loop");
    fb_id *carried = scratch(L, n);
    open_region(L, trips, inits, n, NULL, 0, carried, NULL);
    int top = lua_gettop(L);
    lua_pushvalue(L, 4);
    fb_tensor_add(L, FB_OP_STEP, NULL, 0, NULL, NULL);
    for (int i = 0; i < n; i++) fb_tensor_push(L, carried[i]);
    if (!fb_lua_try(L, n + 1, LUA_MULTRET)) return spoil(L);
    int got = lua_gettop(L) - top;
    for (int i = 0; i < got && i < n; i++)
        if (!fb_tensor_is(L, top + 1 + i)) got = -1;
    if (got != n) {
        lua_pushfstring(L, "loop: the body gives back the %d tensors that it carries", n);
        return spoil(L);
    }
    for (int i = 0; i < n; i++) carried[i] = fb_tensor_at(L, top + 1 + i);
    push_results(L, carried, n, NULL, 0);
    return n;
}

/* g:scan(tensors, inits, fn, { backwards = true }): one step an entry of dimension 0 of the tensors, backwards from the
 * last to the first. fn(items…, carried…) gives { next carried }, { collected }; the scan gives { last carried },
 * { collected, stacked along a new dimension 0 }. */
static int scan(lua_State *L)
{
    static const char *const known[] = {"backwards", NULL};
    check_graph(L);
    lua_settop(L, 5);
    luaL_checktype(L, 4, LUA_TFUNCTION);
    check_options(L, 5, "scan", known);
    bool backwards = lua_istable(L, 5) && lua_getfield(L, 5, "backwards") != LUA_TNIL && lua_toboolean(L, -1);
    lua_settop(L, 4);
    int n_items, n;
    fb_id *scanned = fb_tensor_list(L, 2, &n_items, "scan");
    fb_id *inits = fb_tensor_list(L, 3, &n, "scan");
    if (!n_items) return fb_lua_raise(L, "scan: nothing to scan over");
    fb_id *items = scratch(L, n_items), *carried = scratch(L, n);
    const fb_node *first = fb_node_at(fb_process_graph_now(L), scanned[0]);
    int64_t trips = first->shape.rank ? first->shape.dim[0] : -1;
    if (trips < 0) return fb_lua_raise(L, "scan: a scalar has no dimension 0 to step over");
    open_region(L, trips, inits, n, scanned, n_items, carried, items);
    if (backwards) fb_graph_region_turn(fb_process_graph_now(L));
    lua_pushvalue(L, 4);
    for (int i = 0; i < n_items; i++) fb_tensor_push(L, items[i]);
    for (int i = 0; i < n; i++) fb_tensor_push(L, carried[i]);
    if (!fb_lua_try(L, n_items + n, 2)) return spoil(L);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_newtable(L);
    }
    int body = lua_gettop(L), n_yields, n_stacked;
    fb_id *yields = fb_tensor_list(L, body - 1, &n_yields, "scan: the body's first result");
    fb_id *stacked = fb_tensor_list(L, body, &n_stacked, "scan: the body's second result");
    if (n_yields != n) {
        lua_pushfstring(L, "scan: the body gives %d carried values, not %d", n_yields, n);
        return spoil(L);
    }
    int top = lua_gettop(L);
    push_results(L, yields, n, stacked, n_stacked);
    push_list(L, top + 1, n);
    push_list(L, top + 1 + n, n_stacked);
    return 2;
}

/* ---- building ---- */

/* Outputs are what the model returned: tensors, lists of tensors, or tables that name them. */
static void add_outputs(lua_State *L, int first)
{
    fb_error err;
    fb_graph *g = fb_process_graph_now(L);
    int last = lua_gettop(L);
    for (int i = first; i <= last; i++) {
        if (fb_tensor_is(L, i)) {
            if (!fb_graph_output(g, fb_tensor_at(L, i), NULL, &err)) fb_lua_raise(L, "%s", err.text);
            continue;
        }
        if (!lua_istable(L, i))
            fb_lua_raise(L, "the model returns a %s where a tensor is expected", luaL_typename(L, i));
        if (lua_rawlen(L, i)) {
            int n;
            fb_id *ids = fb_tensor_list(L, i, &n, "the model's result");
            for (int k = 0; k < n; k++)
                if (!fb_graph_output(g, ids[k], NULL, &err)) fb_lua_raise(L, "%s", err.text);
            continue;
        }
        /* By name: the order of a table's fields is not the script's, so the nodes' own order decides. */
        for (fb_id next = -1, node;; next = node) {
            const char *name = NULL;
            node = INT32_MAX;
            for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) {
                if (!fb_tensor_is(L, -1))
                    fb_lua_raise(L, "the model returns a %s where a tensor is expected", luaL_typename(L, -1));
                fb_id id = fb_tensor_at(L, -1);
                if (id <= next || id >= node) continue;
                name = fb_lua_name(L, -2, "the model's result");
                node = id;
            }
            if (!name) break;
            if (!fb_graph_output(g, node, name, &err)) fb_lua_raise(L, "%s", err.text);
        }
    }
}

static bool has_effect(const fb_graph *g)
{
    for (fb_id i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == FB_OP_ASSIGN || g->nodes[i].op == FB_OP_RECEIVE) return true;
    return g->n_outputs > 0;
}

int fb_process_build_graph(lua_State *L)
{
    fb_graph_request *r = lua_touserdata(L, 1);
    fb_process *p = fb_process_of(L);
    if (p->graph) return fb_lua_raise(L, "a graph is being built already");
    lua_settop(L, 0);
    if (*r->variant) {
        fb_module_push_function(L, "variants", r->variant);
    } else {
        fb_module_push_field(L, "model");
        if (!lua_isfunction(L, 1)) return fb_lua_raise(L, "the script has variants: name one");
    }
    uint32_t *build = lua_newuserdatauv(L, sizeof *build, 0);
    *build = 0;
    luaL_setmetatable(L, graph_type);
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, graph_key);
    fb_module_push_params(L, r->params);
    *p->spoilt = '\0';
    *build = ++p->build;
    p->graph = fb_graph_new(*r->variant ? r->variant : p->name);
    lua_pushvalue(L, 1);
    fb_lua_blame(L);
    lua_pop(L, 1);
    lua_call(L, 2, LUA_MULTRET);
    if (*p->spoilt)
        return fb_lua_raise(L, "the script caught an error that left its graph in pieces: %.400s", p->spoilt);
    add_outputs(L, 1);
    fb_error err;
    if (!has_effect(p->graph)) return fb_lua_raise(L, "%s returns no tensor", *r->variant ? r->variant : "the model");
    if (!fb_graph_finish(p->graph, &err)) return fb_lua_raise(L, "%s", err.text);
    r->result = fb_graph_canonical(p->graph, &err);
    return r->result ? 0 : fb_lua_raise(L, "%s", err.text);
}

/* ---- the method table ---- */

static const luaL_Reg methods[] = {
    {"rand", rand_source}, {"const", constant},  {"full", full},     {"arange", arange}, {"load", load},
    {"assign", assign},    {"receive", receive}, {"output", output}, {"scope", scope},   {"op", op_scope},
    {"loop", loop},        {"scan", scan},       {"grad", grad},     {NULL, NULL},
};

static const struct {
    const char *name;
    lua_CFunction f;
    fb_op op;
} by_op[] = {
    {"input", source, FB_OP_INPUT}, {"param", source, FB_OP_PARAM}, {"feed", source, FB_OP_FEED},
    {"cat", join, FB_OP_CAT},       {"stack", join, FB_OP_STACK},
};

static void add_functions(lua_State *L)
{
    int table = lua_gettop(L);
    lua_getfield(L, LUA_REGISTRYINDEX, "fusebox.tensor_methods");
    for (lua_pushnil(L); lua_next(L, table + 1); lua_pop(L, 1)) {
        lua_pushvalue(L, -2);
        lua_pushvalue(L, -2);
        lua_pushcclosure(L, as_function, 1);
        lua_rawset(L, table);
    }
    lua_pop(L, 1);
}

/* Every tensor method is a function of the graph too (`g:where(c, a, b)`), so the tensors are opened first. */
void fb_process_open_graph(lua_State *L)
{
    luaL_newmetatable(L, graph_type);
    lua_newtable(L);
    add_functions(L);
    luaL_setfuncs(L, methods, 0);
    for (size_t i = 0; i < sizeof by_op / sizeof *by_op; i++) {
        lua_pushinteger(L, by_op[i].op);
        lua_pushcclosure(L, by_op[i].f, 1);
        lua_setfield(L, -2, by_op[i].name);
    }
    for (int value = 0; value < 2; value++) {
        lua_pushnumber(L, value);
        lua_pushstring(L, value ? "ones" : "zeros");
        lua_pushcclosure(L, filled, 2);
        lua_setfield(L, -2, value ? "ones" : "zeros");
    }
    fb_lua_push_methods(L, "a graph has no method");
    lua_setfield(L, -2, "__index");
    lua_pushliteral(L, "graph");
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
}
