/* Tensors in Lua: userdata that name a node of the graph being built. Every op of ops.def is a method called as in
 * PyTorch; pointwise ops and reductions come straight from the table, the rest is spelled out below. Dimensions count
 * from 0. */
#include "script/process.h"

#include "graph/autodiff.h"
#include "graph/intmath.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char tensor_type[] = "tensor";

typedef struct {
    fb_id id;
    uint32_t build;
} tensor;

/* ---- tensors and operands ---- */

void fb_tensor_push(lua_State *L, fb_id id)
{
    tensor *t = lua_newuserdatauv(L, sizeof *t, 0);
    *t = (tensor){FB_NONE, 0};
    luaL_setmetatable(L, tensor_type);
    *t = (tensor){id, fb_process_of(L)->build};
}

bool fb_tensor_is(lua_State *L, int i)
{
    return luaL_testudata(L, i, tensor_type) != NULL;
}

fb_id fb_tensor_at(lua_State *L, int i)
{
    const tensor *t = luaL_checkudata(L, i, tensor_type);
    const fb_process *p = fb_process_of(L);
    if (!p->graph || t->build != p->build) fb_lua_raise(L, "this tensor belongs to a graph that is finished");
    return t->id;
}

const fb_node *fb_tensor_node(lua_State *L, int i)
{
    fb_id id = fb_tensor_at(L, i);
    return fb_node_at(fb_process_of(L)->graph, id);
}

int fb_tensor_add(lua_State *L, fb_op op, const fb_id *args, int n, const fb_attrs *at, const char *name)
{
    fb_error err;
    fb_graph *g = fb_process_graph_now(L);
    fb_id id = fb_graph_add(g, op, args, n, at, name, fb_lua_line(L), &err);
    if (id == FB_NONE) return fb_lua_raise(L, "%s", err.text);
    fb_tensor_push(L, id);
    return 1;
}

static fb_id constant(lua_State *L, double value, fb_dtype dtype)
{
    fb_error err;
    fb_attrs at = {.value = value, .dtype = dtype};
    fb_id id = fb_graph_add(fb_process_graph_now(L), FB_OP_CONST, NULL, 0, &at, NULL, fb_lua_line(L), &err);
    if (id == FB_NONE) fb_lua_raise(L, "%s", err.text);
    return id;
}

fb_id fb_tensor_operand(lua_State *L, int i, fb_dtype dtype, const char *op)
{
    if (fb_tensor_is(L, i)) return fb_tensor_at(L, i);
    if (lua_type(L, i) == LUA_TBOOLEAN && dtype == FB_BOOL) return constant(L, lua_toboolean(L, i), dtype);
    if (lua_type(L, i) != LUA_TNUMBER)
        fb_lua_raise(L, "%s: a tensor or a number is expected, not %s", op, luaL_typename(L, i));
    double value = lua_tonumber(L, i);
    if (!fb_dtype_is_float(dtype) && value != floor(value))
        fb_lua_raise(L, "%s: %g is no %s; cast the tensor to a float first", op, value, fb_dtype_name(dtype));
    return constant(L, value, dtype);
}

fb_id *fb_tensor_list(lua_State *L, int i, int *n, const char *what)
{
    if (!lua_istable(L, i)) fb_lua_raise(L, "%s: a list of tensors is expected, not %s", what, luaL_typename(L, i));
    i = lua_absindex(L, i);
    lua_Unsigned count = lua_rawlen(L, i);
    if (count > FB_MAX_NODES) fb_lua_raise(L, "%s: a list of %llu tensors", what, (unsigned long long)count);
    *n = (int)count;
    fb_id *ids = lua_newuserdatauv(L, (count + 1) * sizeof *ids, 0);
    for (int k = 0; k < *n; k++) {
        lua_rawgeti(L, i, k + 1);
        if (!fb_tensor_is(L, -1))
            fb_lua_raise(L, "%s: entry %d of the list is a %s, not a tensor", what, k + 1, luaL_typename(L, -1));
        ids[k] = fb_tensor_at(L, -1);
        lua_pop(L, 1);
    }
    return ids;
}

/* A name in a list would be passed over. */
static void check_list(lua_State *L, int i, lua_Integer n, const char *what)
{
    i = lua_absindex(L, i);
    for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) {
        int whole;
        lua_Integer k = lua_tointegerx(L, -2, &whole);
        if (lua_type(L, -2) != LUA_TNUMBER || !whole || k < 1 || k > n)
            fb_lua_raise(L, "%s: a list of whole numbers has no \"%s\"", what, luaL_tolstring(L, -2, NULL));
    }
}

/* Integers from a table at `i`, or from `i` to the last argument. */
static int integers(lua_State *L, int i, int64_t out[FB_MAX_RANK], const char *what)
{
    bool table = lua_istable(L, i);
    lua_Integer n = table ? (lua_Integer)lua_rawlen(L, i) : lua_gettop(L) >= i ? lua_gettop(L) - i + 1 : 0;
    if (n > FB_MAX_RANK) fb_lua_raise(L, "%s: %lld dimensions, there are at most %d", what, (long long)n, FB_MAX_RANK);
    if (table) check_list(L, i, n, what);
    for (int k = 0; k < n; k++) {
        if (table)
            lua_rawgeti(L, i, k + 1);
        else
            lua_pushvalue(L, i + k);
        int ok;
        out[k] = lua_tointegerx(L, -1, &ok);
        if (!ok) fb_lua_raise(L, "%s: a whole number is expected, not %s", what, luaL_tolstring(L, -1, NULL));
        lua_pop(L, 1);
    }
    return (int)n;
}

fb_shape fb_tensor_shape(lua_State *L, int i, const char *what)
{
    fb_shape s = {0};
    s.rank = integers(L, i, s.dim, what);
    return s;
}

fb_dtype fb_tensor_dtype(lua_State *L, int i, fb_dtype otherwise)
{
    fb_dtype dtype;
    if (lua_isnoneornil(L, i)) return otherwise;
    const char *name = lua_type(L, i) == LUA_TSTRING ? lua_tostring(L, i) : luaL_typename(L, i);
    if (!fb_dtype_parse(name, &dtype))
        fb_lua_raise(L, "there is no dtype \"%.40s\" (there are f32, f16, bf16, f64, i32, i64, bool)", name);
    return dtype;
}

static int whole(lua_State *L, int i, const char *what)
{
    int ok;
    lua_Integer v = lua_tointegerx(L, i, &ok);
    if (!ok) fb_lua_raise(L, "%s: a whole number is expected, not %s", what, luaL_typename(L, i));
    if (v < INT32_MIN || v > INT32_MAX) fb_lua_raise(L, "%s: %lld is out of range", what, (long long)v);
    return (int)v;
}

/* A dimension of x made non-negative; `extra` 1 where one past the last is meant (unsqueeze, stack). */
static int dimension(lua_State *L, int i, const fb_node *x, int extra, const char *what)
{
    int rank = x->shape.rank + extra, d = whole(L, i, what);
    char shape[192];
    if (d < -rank || d >= rank)
        fb_lua_raise(L, "%s: there is no dimension %d (x: %s)", what, d, fb_shape_format(&x->shape, x->dtype, shape));
    return d < 0 ? d + rank : d;
}

/* ---- pointwise and reductions, from the table ---- */

int fb_tensor_op(lua_State *L)
{
    fb_op op = (fb_op)lua_tointeger(L, lua_upvalueindex(1));
    const fb_op_info *info = fb_op_get(op);
    int n = info->min_args, first = op == FB_OP_WHERE, given = lua_gettop(L);
    fb_attrs at = {.value = info->params[0].otherwise, .high = info->params[1].otherwise};
    int most = n + !!info->params[0].name + !!info->params[1].name;
    if (most > n) at.value = luaL_optnumber(L, n + 1, at.value);
    if (most > n + 1) at.high = luaL_optnumber(L, n + 2, at.high);
    if (given < n || given > most)
        return fb_lua_raise(L, "%s takes %d value%s, not %d", info->name, most, most == 1 ? "" : "s", given);
    fb_dtype dtype = FB_F32;
    for (int i = first; i < n; i++)
        if (fb_tensor_is(L, i + 1)) {
            dtype = fb_tensor_node(L, i + 1)->dtype;
            break;
        }
    fb_id args[3];
    for (int i = 0; i < n; i++) args[i] = fb_tensor_operand(L, i + 1, i < first ? FB_BOOL : dtype, info->name);
    return fb_tensor_add(L, op, args, n, &at, NULL);
}

/* Lua hands unary operators their operand twice. */
static int negate(lua_State *L)
{
    fb_id x = fb_tensor_at(L, 1);
    return fb_tensor_add(L, FB_OP_NEG, &x, 1, NULL, NULL);
}

static int bitwise_not(lua_State *L)
{
    fb_id x = fb_tensor_at(L, 1);
    bool logic = fb_tensor_node(L, 1)->dtype == FB_BOOL;
    return fb_tensor_add(L, logic ? FB_OP_LOGICAL_NOT : FB_OP_BITWISE_NOT, &x, 1, NULL, NULL);
}

static void read_axes(lua_State *L, int i, fb_attrs *at, const char *what)
{
    int64_t axes[FB_MAX_RANK];
    if (lua_isnoneornil(L, i)) return;
    if (lua_istable(L, i))
        at->n_axes = integers(L, i, axes, what);
    else {
        at->n_axes = 1;
        axes[0] = whole(L, i, what);
    }
    for (int k = 0; k < at->n_axes; k++) {
        if (axes[k] < -FB_MAX_RANK || axes[k] >= FB_MAX_RANK)
            fb_lua_raise(L, "%s: there is no dimension %lld", what, (long long)axes[k]);
        at->axes[k] = (int)axes[k];
    }
}

/* x:mean(dim, keepdim): dim a number, a list, or nil for all. */
static int reduce(lua_State *L)
{
    fb_op op = (fb_op)lua_tointeger(L, lua_upvalueindex(1));
    const fb_op_info *info = fb_op_get(op);
    fb_id x = fb_tensor_at(L, 1);
    fb_attrs at = {.keepdim = lua_toboolean(L, 3)};
    read_axes(L, 2, &at, info->name);
    if (info->result == FB_RESULT_I64 && !at.n_axes && fb_tensor_node(L, 1)->shape.rank != 1) {
        /* PyTorch's argmax without a dimension is an index into all elements. */
        fb_attrs flat = {.shape = {.rank = 1, .dim = {-1}}};
        fb_tensor_add(L, FB_OP_VIEW, &x, 1, &flat, NULL);
        x = fb_tensor_at(L, -1);
        at.keepdim = false;
    }
    return fb_tensor_add(L, op, &x, 1, &at, NULL);
}

/* Adds a node of the variance's own and gives its id: the stack keeps the tensors alive no longer than that. */
static fb_id step(lua_State *L, fb_op op, fb_id a, fb_id b, const fb_attrs *at)
{
    fb_tensor_add(L, op, (fb_id[]){a, b}, b == FB_NONE ? 1 : 2, at, NULL);
    fb_id id = fb_tensor_at(L, -1);
    lua_pop(L, 1);
    return id;
}

/* x:var(dim, keepdim, correction): the mean of squares around the mean, over n - correction (1, as in PyTorch). An op
 * scope. */
static int variance(lua_State *L)
{
    fb_error err;
    fb_id x = fb_tensor_at(L, 1);
    const fb_node *n = fb_tensor_node(L, 1);
    fb_attrs inner = {.keepdim = true}, outer = {.keepdim = lua_toboolean(L, 3)};
    read_axes(L, 2, &inner, "var");
    lua_Integer correction = luaL_optinteger(L, 4, 1);
    if (!fb_dtype_is_float(n->dtype))
        return fb_lua_raise(L, "var: takes floats, not %s; cast it first", fb_dtype_name(n->dtype));
    int64_t count = inner.n_axes ? 1 : fb_shape_elements(&n->shape);
    char axes[200] = "";
    for (int i = 0, at = 0; i < inner.n_axes; i++) {
        int d = inner.axes[i] < 0 ? inner.axes[i] + n->shape.rank : inner.axes[i];
        if (d < 0 || d >= n->shape.rank) return fb_lua_raise(L, "var: there is no dimension %d", inner.axes[i]);
        count *= n->shape.dim[d];
        at += snprintf(axes + at, sizeof axes - (size_t)at, "%s%d", i ? "," : "", d);
    }
    if (count <= correction)
        return fb_lua_raise(L, "var: %lld elements with a correction of %lld", (long long)count, (long long)correction);
    memcpy(outer.axes, inner.axes, sizeof outer.axes);
    outer.n_axes = inner.n_axes;
    char attrs[300];
    snprintf(attrs, sizeof attrs, "{\"dim\":[%s],\"keepdim\":%s,\"correction\":%lld}", axes,
             outer.keepdim ? "true" : "false", (long long)correction);
    fb_graph *g = fb_process_graph_now(L);
    fb_dtype dtype = n->dtype;
    if (fb_graph_scope_open(g, "var", FB_NONE, "var", &x, 1, attrs, fb_lua_line(L), &err) == FB_NONE)
        return fb_lua_raise(L, "%s", err.text);
    fb_id centred = step(L, FB_OP_SUB, x, step(L, FB_OP_MEAN, x, FB_NONE, &inner), NULL);
    fb_id sum = step(L, FB_OP_SUM, step(L, FB_OP_MUL, centred, centred, NULL), FB_NONE, &outer);
    fb_id result = step(L, FB_OP_MUL, sum, constant(L, 1.0 / (double)(count - correction), dtype), NULL);
    if (!fb_graph_scope_close(g, &result, 1, &err)) return fb_lua_raise(L, "%s", err.text);
    fb_tensor_push(L, result);
    return 1;
}

static int running(lua_State *L, fb_op op)
{
    fb_id x = fb_tensor_at(L, 1);
    fb_attrs at = {.dim = whole(L, 2, fb_op_get(op)->name)};
    return fb_tensor_add(L, op, &x, 1, &at, NULL);
}

static int cumsum(lua_State *L)
{
    return running(L, FB_OP_CUMSUM);
}

static int cumprod(lua_State *L)
{
    return running(L, FB_OP_CUMPROD);
}

static int rank_of(lua_State *L)
{
    fb_id x = fb_tensor_at(L, 1);
    fb_attrs at = {.dim = lua_isnoneornil(L, 2) ? -1 : whole(L, 2, "rank"), .start = lua_toboolean(L, 3)};
    return fb_tensor_add(L, FB_OP_RANK, &x, 1, &at, NULL);
}

static int to(lua_State *L)
{
    fb_id x = fb_tensor_at(L, 1);
    luaL_checkany(L, 2);
    fb_attrs at = {.dtype = fb_tensor_dtype(L, 2, FB_F32)};
    if (at.dtype == fb_tensor_node(L, 1)->dtype) return lua_settop(L, 1), 1;
    return fb_tensor_add(L, FB_OP_CAST, &x, 1, &at, NULL);
}

/* ---- views ---- */

static int view(lua_State *L)
{
    fb_id x = fb_tensor_at(L, 1);
    fb_attrs at = {.shape = fb_tensor_shape(L, 2, "view")};
    return fb_tensor_add(L, FB_OP_VIEW, &x, 1, &at, NULL);
}

/* The same values, which g:grad takes for constants. */
static int detach(lua_State *L)
{
    fb_error err;
    fb_id id = fb_autodiff_detach(fb_process_graph_now(L), fb_tensor_at(L, 1), fb_lua_line(L), &err);
    if (id == FB_NONE) return fb_lua_raise(L, "%s", err.text);
    fb_tensor_push(L, id);
    return 1;
}

static int view_as_shape(lua_State *L, fb_id x, const fb_shape *shape, const char *name)
{
    fb_attrs at = {.shape = *shape};
    return fb_tensor_add(L, FB_OP_VIEW, &x, 1, &at, name);
}

static int flatten(lua_State *L)
{
    const fb_node *x = fb_tensor_node(L, 1);
    if (!x->shape.rank) return view_as_shape(L, fb_tensor_at(L, 1), &(fb_shape){.rank = 1, .dim = {1}}, "flatten");
    int from = lua_isnoneornil(L, 2) ? 0 : dimension(L, 2, x, 0, "flatten");
    int last = lua_isnoneornil(L, 3) ? x->shape.rank - 1 : dimension(L, 3, x, 0, "flatten");
    if (last < from) return fb_lua_raise(L, "flatten: dimension %d comes after dimension %d", from, last);
    fb_shape s = {0};
    for (int d = 0; d < x->shape.rank; d++) {
        if (d > from && d <= last)
            s.dim[s.rank - 1] *= x->shape.dim[d];
        else
            s.dim[s.rank++] = x->shape.dim[d];
    }
    return view_as_shape(L, fb_tensor_at(L, 1), &s, "flatten");
}

static int squeeze(lua_State *L)
{
    const fb_node *x = fb_tensor_node(L, 1);
    int only = lua_isnoneornil(L, 2) ? FB_NONE : dimension(L, 2, x, 0, "squeeze");
    fb_shape s = {0};
    for (int d = 0; d < x->shape.rank; d++)
        if (x->shape.dim[d] != 1 || (only != FB_NONE && d != only)) s.dim[s.rank++] = x->shape.dim[d];
    return view_as_shape(L, fb_tensor_at(L, 1), &s, "squeeze");
}

static int unsqueeze(lua_State *L)
{
    const fb_node *x = fb_tensor_node(L, 1);
    char shape[192];
    if (x->shape.rank == FB_MAX_RANK)
        return fb_lua_raise(L, "unsqueeze: there are %d dimensions already (x: %s)", FB_MAX_RANK,
                            fb_shape_format(&x->shape, x->dtype, shape));
    int at = dimension(L, 2, x, 1, "unsqueeze");
    fb_shape s = {.rank = x->shape.rank + 1};
    for (int d = 0; d < s.rank; d++) s.dim[d] = d == at ? 1 : x->shape.dim[d - (d > at)];
    return view_as_shape(L, fb_tensor_at(L, 1), &s, "unsqueeze");
}

static int permute(lua_State *L)
{
    fb_id x = fb_tensor_at(L, 1);
    int64_t axes[FB_MAX_RANK];
    fb_attrs at = {.n_axes = integers(L, 2, axes, "permute")};
    for (int i = 0; i < at.n_axes; i++)
        at.axes[i] = axes[i] < -FB_MAX_RANK || axes[i] >= FB_MAX_RANK ? FB_MAX_RANK : (int)axes[i];
    return fb_tensor_add(L, FB_OP_PERMUTE, &x, 1, &at, NULL);
}

static int swap(lua_State *L, int a, int b, const char *name)
{
    fb_id x = fb_tensor_at(L, 1);
    fb_attrs at = {.n_axes = fb_tensor_node(L, 1)->shape.rank};
    for (int i = 0; i < at.n_axes; i++) at.axes[i] = i == a ? b : i == b ? a : i;
    return fb_tensor_add(L, FB_OP_PERMUTE, &x, 1, &at, name);
}

static int transpose(lua_State *L)
{
    const fb_node *x = fb_tensor_node(L, 1);
    return swap(L, dimension(L, 2, x, 0, "transpose"), dimension(L, 3, x, 0, "transpose"), "transpose");
}

static int t(lua_State *L)
{
    const fb_node *x = fb_tensor_node(L, 1);
    char shape[192];
    if (x->shape.rank > 2)
        return fb_lua_raise(L, "t: takes a matrix (x: %s); transpose names the dimensions",
                            fb_shape_format(&x->shape, x->dtype, shape));
    if (x->shape.rank < 2) return lua_settop(L, 1), 1;
    return swap(L, 0, 1, "t");
}

static int slice_of(lua_State *L, fb_id x, int dim, int64_t start, int64_t stop, int64_t step, const char *name)
{
    fb_attrs at = {.dim = dim, .start = start, .stop = stop, .step = step};
    return fb_tensor_add(L, FB_OP_SLICE, &x, 1, &at, name);
}

/* x:slice(dim, start, stop, step): Python's x[start:stop:step] along dim; negative positions count from the end. */
static int slice(lua_State *L)
{
    const fb_node *x = fb_tensor_node(L, 1);
    int dim = dimension(L, 2, x, 0, "slice");
    int64_t size = x->shape.dim[dim];
    int64_t start = luaL_optinteger(L, 3, 0), stop = luaL_optinteger(L, 4, size), step = luaL_optinteger(L, 5, 1);
    if (start < 0) start = start < -size ? 0 : start + size;
    if (stop < 0) stop = stop < -size ? 0 : stop + size;
    if (stop > size) stop = size;
    if (start > stop) start = stop;
    return slice_of(L, fb_tensor_at(L, 1), dim, start, stop, step, NULL);
}

static int narrow(lua_State *L)
{
    const fb_node *x = fb_tensor_node(L, 1);
    int dim = dimension(L, 2, x, 0, "narrow");
    int64_t start = luaL_checkinteger(L, 3), length = luaL_checkinteger(L, 4), size = x->shape.dim[dim];
    if (start < 0) start += size;
    if (start < 0 || length < 0 || start > size - length)
        return fb_lua_raise(L, "narrow: %lld elements from %lld do not fit dimension %d of size %lld",
                            (long long)length, (long long)start, dim, (long long)size);
    return slice_of(L, fb_tensor_at(L, 1), dim, start, start + length, 1, "narrow");
}

/* One position along dim, without the dimension: a slice and a view. Pushes it. */
static void push_selected(lua_State *L, fb_id x, int dim, int64_t at, const char *name)
{
    fb_shape s = {0};
    const fb_node *n = fb_node_at(fb_process_graph_now(L), x);
    for (int d = 0; d < n->shape.rank; d++)
        if (d != dim) s.dim[s.rank++] = n->shape.dim[d];
    slice_of(L, x, dim, at, at + 1, 1, NULL);
    view_as_shape(L, fb_tensor_at(L, -1), &s, name);
    lua_remove(L, -2);
}

static int select_at(lua_State *L)
{
    const fb_node *x = fb_tensor_node(L, 1);
    int dim = dimension(L, 2, x, 0, "select");
    int64_t i = luaL_checkinteger(L, 3), size = x->shape.dim[dim];
    if (i < -size || i >= size)
        return fb_lua_raise(L, "select: position %lld is outside dimension %d of size %lld", (long long)i, dim,
                            (long long)size);
    push_selected(L, fb_tensor_at(L, 1), dim, i < 0 ? i + size : i, "select");
    return 1;
}

static int unbind(lua_State *L)
{
    const fb_node *x = fb_tensor_node(L, 1);
    fb_id id = fb_tensor_at(L, 1);
    if (!x->shape.rank) return fb_lua_raise(L, "unbind: a scalar has no dimensions");
    int dim = lua_isnoneornil(L, 2) ? 0 : dimension(L, 2, x, 0, "unbind");
    int64_t size = x->shape.dim[dim];
    if (size > FB_MAX_NODES) return fb_lua_raise(L, "unbind: dimension %d has %lld positions", dim, (long long)size);
    lua_createtable(L, (int)size, 0);
    for (int64_t i = 0; i < size; i++) {
        push_selected(L, id, dim, i, "unbind");
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* The list of pieces that begin at multiples of `size`. */
static int pieces(lua_State *L, int dim, int64_t size, const char *name)
{
    fb_id id = fb_tensor_at(L, 1);
    int64_t total = fb_tensor_node(L, 1)->shape.dim[dim];
    if (size < 1) return fb_lua_raise(L, "%s: pieces of %lld elements", name, (long long)size);
    if (total / size > FB_MAX_NODES) return fb_lua_raise(L, "%s: %lld pieces", name, (long long)(total / size));
    lua_newtable(L);
    int n = 0;
    for (int64_t at = 0; at < total; at += size) {
        slice_of(L, id, dim, at, at + size < total ? at + size : total, 1, name);
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

static int split(lua_State *L)
{
    const fb_node *x = fb_tensor_node(L, 1);
    fb_id id = fb_tensor_at(L, 1);
    if (!x->shape.rank) return fb_lua_raise(L, "split: a scalar has no dimensions");
    int dim = lua_isnoneornil(L, 3) ? 0 : dimension(L, 3, x, 0, "split");
    if (!lua_istable(L, 2)) return pieces(L, dim, luaL_checkinteger(L, 2), "split");
    int64_t at = 0, size = x->shape.dim[dim];
    lua_Integer n = (lua_Integer)lua_rawlen(L, 2);
    lua_settop(L, 2);
    lua_newtable(L);
    for (lua_Integer i = 1; i <= n; i++) {
        int ok;
        lua_rawgeti(L, 2, i);
        int64_t k = lua_tointegerx(L, -1, &ok);
        lua_pop(L, 1);
        if (!ok || k < 0 || k > size - at)
            return fb_lua_raise(L, "split: the sizes do not add up to %lld", (long long)size);
        slice_of(L, id, dim, at, at + k, 1, "split");
        lua_rawseti(L, 3, i);
        at += k;
    }
    return at == size ? 1
                      : fb_lua_raise(L, "split: the sizes add up to %lld, not to %lld", (long long)at, (long long)size);
}

/* As in PyTorch: pieces of ceil(size / n), so that there may be fewer than n. */
static int chunk(lua_State *L)
{
    const fb_node *x = fb_tensor_node(L, 1);
    if (!x->shape.rank) return fb_lua_raise(L, "chunk: a scalar has no dimensions");
    int n = whole(L, 2, "chunk"), dim = lua_isnoneornil(L, 3) ? 0 : dimension(L, 3, x, 0, "chunk");
    if (n < 1) return fb_lua_raise(L, "chunk: %d pieces", n);
    int64_t size = x->shape.dim[dim];
    return pieces(L, dim, size ? (size + n - 1) / n : 1, "chunk");
}

static int expand(lua_State *L)
{
    fb_id x = fb_tensor_at(L, 1);
    fb_attrs at = {.shape = fb_tensor_shape(L, 2, "expand")};
    return fb_tensor_add(L, FB_OP_EXPAND, &x, 1, &at, NULL);
}

static int expand_as(lua_State *L)
{
    fb_id x = fb_tensor_at(L, 1);
    fb_attrs at = {.shape = fb_tensor_node(L, 2)->shape};
    return fb_tensor_add(L, FB_OP_EXPAND, &x, 1, &at, "expand");
}

/* PyTorch's order: before and after of the last dimension, then of the one before it, … */
static int pad(lua_State *L)
{
    fb_id x = fb_tensor_at(L, 1);
    int rank = fb_tensor_node(L, 1)->shape.rank;
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_Integer n = (lua_Integer)lua_rawlen(L, 2);
    if (n % 2 || n > 2 * rank)
        return fb_lua_raise(L, "pad: %d amounts for %d dimensions, two each from the last on", (int)n, rank);
    fb_attrs at = {.value = luaL_optnumber(L, 3, 0)};
    for (int i = 0; i < n; i++) {
        lua_rawgeti(L, 2, i + 1);
        int64_t *to_set = i % 2 ? at.after : at.before;
        to_set[rank - 1 - i / 2] = luaL_checkinteger(L, -1);
        lua_pop(L, 1);
    }
    return fb_tensor_add(L, FB_OP_PAD, &x, 1, &at, NULL);
}

static int flip(lua_State *L)
{
    fb_id x = fb_tensor_at(L, 1);
    fb_attrs at = {0};
    int64_t axes[FB_MAX_RANK];
    at.n_axes = integers(L, 2, axes, "flip");
    for (int i = 0; i < at.n_axes; i++)
        at.axes[i] = axes[i] < -FB_MAX_RANK || axes[i] >= FB_MAX_RANK ? FB_MAX_RANK : (int)axes[i];
    return fb_tensor_add(L, FB_OP_FLIP, &x, 1, &at, NULL);
}

/* x:unfold(dim, size, step) as PyTorch's: the windows along dim, their places as a last dimension. */
static int unfold(lua_State *L)
{
    fb_id x = fb_tensor_at(L, 1);
    fb_attrs at = {.dim = dimension(L, 2, fb_tensor_node(L, 1), 0, "unfold"),
                   .stop = luaL_checkinteger(L, 3),
                   .step = luaL_optinteger(L, 4, 1)};
    return fb_tensor_add(L, FB_OP_UNFOLD, &x, 1, &at, NULL);
}

/* ---- contraction and gather ---- */

/* a:matmul(b, { precision = "tf32" }). A vector is a row on the left and a column on the right, as in PyTorch. */
static int matmul(lua_State *L)
{
    fb_id args[2] = {fb_tensor_at(L, 1), fb_tensor_at(L, 2)};
    fb_attrs at = {0};
    if (lua_istable(L, 3)) {
        lua_getfield(L, 3, "precision");
        const char *precision = luaL_optstring(L, -1, "ieee");
        if (strcmp(precision, "ieee") != 0 && strcmp(precision, "tf32") != 0)
            return fb_lua_raise(L, "matmul: precision \"%.20s\" is neither ieee nor tf32", precision);
        at.precision = strcmp(precision, "tf32") == 0 ? FB_PRECISION_TF32 : FB_PRECISION_IEEE;
    }
    bool row = fb_tensor_node(L, 1)->shape.rank == 1, column = fb_tensor_node(L, 2)->shape.rank == 1;
    if (row) {
        view_as_shape(L, args[0], &(fb_shape){.rank = 2, .dim = {1, -1}}, "row");
        args[0] = fb_tensor_at(L, -1);
    }
    if (column) {
        view_as_shape(L, args[1], &(fb_shape){.rank = 2, .dim = {-1, 1}}, "column");
        args[1] = fb_tensor_at(L, -1);
    }
    fb_tensor_add(L, FB_OP_MATMUL, args, 2, &at, NULL);
    if (!row && !column) return 1;
    const fb_node *y = fb_tensor_node(L, -1);
    fb_shape s = {0};
    for (int d = 0; d < y->shape.rank; d++)
        if (!(row && d == y->shape.rank - 2) && !(column && d == y->shape.rank - 1)) s.dim[s.rank++] = y->shape.dim[d];
    return view_as_shape(L, fb_tensor_at(L, -1), &s, NULL);
}

static int embedding(lua_State *L)
{
    fb_id args[2] = {fb_tensor_at(L, 1), fb_tensor_at(L, 2)};
    return fb_tensor_add(L, FB_OP_EMBEDDING, args, 2, NULL, NULL);
}

/* src:index_add(index, rows): a tensor of `rows` rows into which the rows of src are added. */
static int index_add(lua_State *L)
{
    fb_id args[2] = {fb_tensor_at(L, 1), fb_tensor_at(L, 2)};
    fb_attrs at = {.start = luaL_checkinteger(L, 3)};
    return fb_tensor_add(L, FB_OP_SCATTER_ADD, args, 2, &at, NULL);
}

/* ---- what a tensor is ---- */

static void push_shape(lua_State *L, const fb_shape *s)
{
    lua_createtable(L, s->rank, 0);
    for (int d = 0; d < s->rank; d++) {
        lua_pushinteger(L, s->dim[d]);
        lua_rawseti(L, -2, d + 1);
    }
}

static int size(lua_State *L)
{
    const fb_node *x = fb_tensor_node(L, 1);
    if (lua_isnoneornil(L, 2))
        push_shape(L, &x->shape);
    else
        lua_pushinteger(L, x->shape.dim[dimension(L, 2, x, 0, "size")]);
    return 1;
}

static int dim(lua_State *L)
{
    lua_pushinteger(L, fb_tensor_node(L, 1)->shape.rank);
    return 1;
}

static int numel(lua_State *L)
{
    lua_pushinteger(L, fb_shape_elements(&fb_tensor_node(L, 1)->shape));
    return 1;
}

static int to_string(lua_State *L)
{
    const tensor *x = luaL_checkudata(L, 1, tensor_type);
    const fb_process *p = fb_process_of(L);
    if (!p->graph || x->build != p->build) {
        lua_pushliteral(L, "tensor of a finished graph");
        return 1;
    }
    const fb_node *n = fb_node_at(p->graph, x->id);
    char shape[192];
    lua_pushfstring(L, "%s %s", n->name, fb_shape_format(&n->shape, n->dtype, shape));
    return 1;
}

/* Fields that are no methods; everything else is looked up among the methods (upvalue 1). */
static int index_tensor(lua_State *L)
{
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (strcmp(key, "shape") == 0) {
        push_shape(L, &fb_tensor_node(L, 1)->shape);
    } else if (strcmp(key, "dtype") == 0) {
        lua_pushstring(L, fb_dtype_name(fb_tensor_node(L, 1)->dtype));
    } else if (strcmp(key, "name") == 0) {
        lua_pushstring(L, fb_tensor_node(L, 1)->name);
    } else if (strcmp(key, "graph") == 0) {
        fb_tensor_at(L, 1);
        lua_getfield(L, LUA_REGISTRYINDEX, "fusebox.graph");
    } else {
        lua_pushvalue(L, 2);
        lua_rawget(L, lua_upvalueindex(1));
        if (lua_isnil(L, -1))
            fb_lua_unknown_key(L, "a tensor has no method", *key ? key : luaL_typename(L, 2), lua_upvalueindex(1));
    }
    return 1;
}

static const luaL_Reg methods[] = {
    {"to", to},
    {"cumsum", cumsum},
    {"cumprod", cumprod},
    {"rank", rank_of},
    {"view", view},
    {"reshape", view},
    {"detach", detach},
    {"flatten", flatten},
    {"squeeze", squeeze},
    {"unsqueeze", unsqueeze},
    {"permute", permute},
    {"transpose", transpose},
    {"t", t},
    {"slice", slice},
    {"narrow", narrow},
    {"select", select_at},
    {"unbind", unbind},
    {"split", split},
    {"chunk", chunk},
    {"expand", expand},
    {"expand_as", expand_as},
    {"pad", pad},
    {"flip", flip},
    {"unfold", unfold},
    {"matmul", matmul},
    {"embedding", embedding},
    {"index_add", index_add},
    {"size", size},
    {"dim", dim},
    {"numel", numel},
    {"var", variance},
    {NULL, NULL},
};

static const struct {
    const char *event;
    fb_op op;
} operators[] = {
    {"__add", FB_OP_ADD},          {"__sub", FB_OP_SUB},          {"__mul", FB_OP_MUL},
    {"__div", FB_OP_DIV},          {"__mod", FB_OP_REMAINDER},    {"__pow", FB_OP_POW},
    {"__idiv", FB_OP_FLOOR_DIV},   {"__band", FB_OP_BITWISE_AND}, {"__bor", FB_OP_BITWISE_OR},
    {"__bxor", FB_OP_BITWISE_XOR}, {"__shl", FB_OP_SHL},          {"__shr", FB_OP_SHR},
};

static void push_with_op(lua_State *L, lua_CFunction f, fb_op op)
{
    lua_pushinteger(L, op);
    lua_pushcclosure(L, f, 1);
}

void fb_tensor_open(lua_State *L)
{
    luaL_newmetatable(L, tensor_type);
    luaL_newlib(L, methods);
    for (fb_op op = 0; op < FB_OPS; op++) {
        const fb_op_info *info = fb_op_get(op);
        if (op == FB_OP_CAST || (info->cls != FB_CLASS_POINTWISE && info->cls != FB_CLASS_REDUCTION)) continue;
        push_with_op(L, info->cls == FB_CLASS_POINTWISE ? fb_tensor_op : reduce, op);
        lua_setfield(L, -2, info->name);
    }
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, "fusebox.tensor_methods");
    lua_pushcclosure(L, index_tensor, 1);
    lua_setfield(L, -2, "__index");
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        push_with_op(L, fb_tensor_op, operators[i].op);
        lua_setfield(L, -2, operators[i].event);
    }
    lua_pushcfunction(L, negate);
    lua_setfield(L, -2, "__unm");
    lua_pushcfunction(L, bitwise_not);
    lua_setfield(L, -2, "__bnot");
    lua_pushcfunction(L, to_string);
    lua_setfield(L, -2, "__tostring");
    lua_pushliteral(L, "tensor");
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
}
