/* The `fusebox` module: print, require, parameters, fb.script, and what a loaded script is asked about.
 *
 * The script's table stays in Lua's registry. Its parameters also exist as JSON (p->params), as the "script" message
 * carries them: one form for showing, checking, sweeping and building. */
#include "script/process.h"

#include "base/json.h"
#include "base/str.h"
#include "decide/preset.h"
#include "decide/search.h"
#include "measure/why.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char script_key[] = "fusebox.script", loaded_key[] = "fusebox.loaded";
static const char param_type[] = "fusebox.parameter", script_type[] = "fusebox.script_table";

/* ---- print and require ---- */

static int print(lua_State *L)
{
    fb_process *p = fb_process_of(L);
    int n = lua_gettop(L);
    luaL_Buffer b;
    lua_newtable(L); /* texts first: a buffer must not be interleaved with other pushes */
    for (int i = 1; i <= n; i++) {
        luaL_tolstring(L, i, NULL);
        lua_rawseti(L, n + 1, i);
    }
    luaL_buffinit(L, &b);
    for (int i = 1; i <= n; i++) {
        if (i > 1) luaL_addchar(&b, '\t');
        lua_rawgeti(L, n + 1, i);
        luaL_addvalue(&b);
    }
    luaL_pushresult(&b);
    size_t left;
    const char *text = lua_tolstring(L, -1, &left);
    for (;;) {
        if (p->prints == FB_PROCESS_PRINTS) {
            p->prints++;
            fb_process_send(p, json_pack("{s:s, s:s}", "type", "log", "text", "… more was printed than is shown"));
        }
        if (p->prints > FB_PROCESS_PRINTS) return 0;
        p->prints++;
        const char *end = memchr(text, '\n', left);
        size_t line = end ? (size_t)(end - text) : left;
        char clean[FB_PROCESS_LINE];
        fb_text_clean(clean, sizeof clean, text, line);
        fb_process_send(p, json_pack("{s:s, s:s}", "type", "log", "text", clean));
        if (!end) return 0;
        text += line + 1;
        left -= line + 1;
    }
}

static int all_results(lua_State *L, int status, lua_KContext ctx)
{
    (void)status;
    (void)ctx;
    return lua_gettop(L);
}

/* Calls upvalue 1. */
static int call_through(lua_State *L)
{
    int n = lua_gettop(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_callk(L, n, LUA_MULTRET, 0, all_results);
    return all_results(L, LUA_OK, 0);
}

/* Puts a C function before each function of the module on top. `return nn.linear(x, 1)` is a tail call, which takes the
 * script's line from the stack; a C function in between keeps it there for messages. */
static void keep_callers(lua_State *L)
{
    if (!lua_istable(L, -1)) return;
    int module = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, module); lua_pop(L, 1)) {
        if (!lua_isfunction(L, -1) || lua_iscfunction(L, -1)) continue;
        lua_pushvalue(L, -2);
        lua_pushvalue(L, -2);
        lua_pushcclosure(L, call_through, 1);
        lua_rawset(L, module);
    }
}

/* Files come from the front, once each; what a file returns is kept as Lua's own require keeps it. */
static int require(lua_State *L)
{
    fb_process *p = fb_process_of(L);
    const char *name = luaL_checkstring(L, 1);
    lua_settop(L, 1);
    lua_getfield(L, LUA_REGISTRYINDEX, loaded_key);
    lua_getfield(L, 2, name);
    if (lua_type(L, 3) == LUA_TLIGHTUSERDATA) return fb_lua_raise(L, "require: %.80s requires itself", name);
    if (!lua_isnil(L, 3)) return 1;
    char clean[128];
    fb_text_clean(clean, sizeof clean, name, strlen(name));
    fb_process_send(p, json_pack("{s:s, s:s}", "type", "require", "name", clean));
    const json_t *m = fb_process_await(p, "source");
    const char *error = fb_json_string_or(m, "error", NULL);
    if (error) return fb_lua_raise(L, "%s", error);
    const json_t *text = json_object_get(m, "text");
    bool bundled = fb_json_bool_or(m, "bundled", false);
    lua_pushfstring(L, "@%s", fb_json_string_or(m, "name", clean));
    if (luaL_loadbufferx(L, json_string_value(text), json_string_length(text), lua_tostring(L, -1), "t") != LUA_OK)
        return lua_error(L);
    lua_pushlightuserdata(L, p);
    lua_setfield(L, 2, name);
    lua_pushvalue(L, 1);
    if (!fb_lua_try(L, 1, 1)) {
        lua_pushnil(L);
        lua_setfield(L, 2, name);
        return lua_error(L);
    }
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_pushboolean(L, true);
    }
    keep_callers(L);
    if (bundled && lua_istable(L, -1)) {
        lua_pushfstring(L, "%s has no function", clean);
        lua_pushvalue(L, -2);
        fb_lua_close_table(L, lua_tostring(L, -2));
        lua_pop(L, 2);
    }
    lua_pushvalue(L, -1);
    lua_setfield(L, 2, name);
    return 1;
}

/* ---- parameters ---- */

static bool is_number(const json_t *v)
{
    return json_is_integer(v) || json_is_real(v);
}

static bool in_range(const json_t *param, const json_t *value, fb_error *err)
{
    const char *name = fb_json_string_or(param, "name", "");
    double v = json_number_value(value), min = fb_json_number_or(param, "min", NAN),
           max = fb_json_number_or(param, "max", NAN);
    if (v < min) return fb_fail(err, FB_ERR_INPUT, "parameter %s: %.17g is less than %.17g", name, v, min);
    if (v > max) return fb_fail(err, FB_ERR_INPUT, "parameter %s: %.17g is more than %.17g", name, v, max);
    return true;
}

bool fb_param_accepts(const json_t *param, const json_t *value, fb_error *err)
{
    const char *name = fb_json_string_or(param, "name", ""), *kind = fb_json_string_or(param, "kind", "");
    const json_t *choices = json_object_get(param, "choices"), *choice;
    if (strcmp(kind, "int") == 0) {
        if (!json_is_integer(value)) return fb_fail(err, FB_ERR_INPUT, "parameter %s takes a whole number", name);
        return in_range(param, value, err);
    }
    if (strcmp(kind, "float") == 0) {
        if (!is_number(value)) return fb_fail(err, FB_ERR_INPUT, "parameter %s takes a number", name);
        return in_range(param, value, err);
    }
    if (strcmp(kind, "bool") == 0)
        return json_is_boolean(value) || fb_fail(err, FB_ERR_INPUT, "parameter %s is true or false", name);
    fb_str list = {0};
    size_t i;
    bool found = false;
    json_array_foreach(choices, i, choice)
    {
        found = found || json_equal(choice, value);
        fb_str_addf(&list, "%s%s", i ? ", " : "", json_string_value(choice));
    }
    if (!found && json_is_string(value))
        fb_fail(err, FB_ERR_INPUT, "parameter %s: \"%.60s\" is none of %s", name, json_string_value(value),
                fb_str_get(&list));
    else if (!found)
        fb_fail(err, FB_ERR_INPUT, "parameter %s takes one of %s", name, fb_str_get(&list));
    fb_str_free(&list);
    return found;
}

/* fb.int { 1024, min = 64, max = 16384, step = "x2", help = "…" }, or fb.int(1024). The order of declaration is kept,
 * which a table's fields have not. */
static int declare(lua_State *L)
{
    const char *kind = lua_tostring(L, lua_upvalueindex(1));
    bool choice = strcmp(kind, "choice") == 0;
    if (!lua_istable(L, 1)) {
        lua_settop(L, 1);
        if (choice || lua_isnil(L, 1)) return fb_lua_raise(L, "fb.%s takes a table, like fb.%s { … }", kind, kind);
        lua_newtable(L);
        lua_insert(L, 1);
        lua_rawseti(L, 1, 1);
    }
    lua_settop(L, 1);
    lua_newtable(L);
    lua_pushstring(L, kind);
    lua_setfield(L, 2, "kind");
    if (choice) {
        lua_newtable(L);
        lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
        if (!n) return fb_lua_raise(L, "fb.choice: nothing to choose from");
        for (lua_Integer i = 1; i <= n; i++) {
            if (lua_rawgeti(L, 1, i) != LUA_TSTRING) return fb_lua_raise(L, "fb.choice: choice %d is not text", (int)i);
            lua_rawseti(L, 3, i);
        }
        lua_setfield(L, 2, "choices");
    }
    static const char *const known[] = {"min", "max", "step", "help", "default"};
    lua_pushnil(L);
    while (lua_next(L, 1)) {
        bool ok = lua_type(L, -2) == LUA_TNUMBER;
        for (size_t i = 0; !ok && i < sizeof known / sizeof *known; i++)
            if (lua_type(L, -2) == LUA_TSTRING && strcmp(lua_tostring(L, -2), known[i]) == 0) {
                ok = true;
                lua_pushvalue(L, -1);
                lua_setfield(L, 2, known[i]);
            }
        if (!ok) {
            lua_pushfstring(L, "fb.%s: unknown field", kind);
            fb_lua_unknown(L, lua_tostring(L, -1), lua_type(L, -3) == LUA_TSTRING ? lua_tostring(L, -3) : "?", known,
                           sizeof known / sizeof *known);
        }
        lua_pop(L, 1);
    }
    if (lua_getfield(L, 2, "default") == LUA_TNIL) {
        lua_rawgeti(L, 1, 1);
        lua_setfield(L, 2, "default");
    }
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_rawgeti(L, -1, 1);
    lua_Integer order = lua_tointeger(L, -1) + 1;
    lua_pop(L, 1);
    lua_pushinteger(L, order);
    lua_rawseti(L, -2, 1);
    lua_pushinteger(L, order);
    lua_setfield(L, 2, "order");
    lua_settop(L, 2);
    luaL_setmetatable(L, param_type);
    return 1;
}

/* ---- fb.script ---- */

static const struct {
    const char *name;
    int type;
} fields[] = {
    {"title", LUA_TSTRING},   {"params", LUA_TTABLE},  {"variants", LUA_TTABLE},
    {"model", LUA_TFUNCTION}, {"plans", LUA_TTABLE},   {"experiment", LUA_TFUNCTION},
    {"puzzle", LUA_TTABLE},   {"columns", LUA_TTABLE}, {"computes", LUA_TSTRING},
};

static _Noreturn int unknown_field(lua_State *L, const char *key)
{
    enum { FIELDS = sizeof fields / sizeof *fields };
    const char *known[FIELDS];
    for (size_t i = 0; i < FIELDS; i++) known[i] = fields[i].name;
    fb_lua_unknown(L, "fb.script: unknown field", key, known, FIELDS);
}

static const char *const puzzle_parts[] = {"order", "about", "compare", "premise", "ask",
                                           "hints", "tell",  "choices", "answer"};
enum { PUZZLE_PARTS = sizeof puzzle_parts / sizeof *puzzle_parts, PUZZLE_SHOWN = PUZZLE_PARTS - 2 };

static bool is_part(const char *name)
{
    int id = 0;
    while (id < FB_WHY_REST && strcmp(fb_why_name((fb_why_id)id), name) != 0) id++;
    return id < FB_WHY_REST;
}

static _Noreturn void unknown_part(lua_State *L, const char *what, const char *name)
{
    const char *parts[FB_WHY_REST]; /* the rest explains nothing */
    for (int id = 0; id < FB_WHY_REST; id++) parts[id] = fb_why_name((fb_why_id)id);
    fb_lua_unknown(L, what, name, parts, FB_WHY_REST);
}

/* A choice on top: { key, text, saves = part or costs = part, tell = text }. */
static void check_choice(lua_State *L, int n, bool has_answer)
{
    static const char *const fields_of[] = {"saves", "costs", "tell"};
    enum { FIELDS_OF = sizeof fields_of / sizeof *fields_of };
    int choice = lua_gettop(L);
    if (!lua_istable(L, choice) || lua_rawgeti(L, choice, 1) != LUA_TSTRING || lua_rawgeti(L, choice, 2) != LUA_TSTRING)
        fb_lua_raise(L, "fb.script: puzzle: choice %d is not { key, text }", n);
    bool conditional = false;
    for (lua_pushnil(L); lua_next(L, choice); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) continue;
        const char *field = lua_tostring(L, -2), *value = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
        int i = 0;
        while (i < FIELDS_OF && strcmp(fields_of[i], field) != 0) i++;
        if (i == FIELDS_OF) fb_lua_unknown(L, "fb.script: puzzle: a choice has no field", field, fields_of, FIELDS_OF);
        if (!value) fb_lua_raise(L, "fb.script: puzzle: %s of choice %d is no text", field, n);
        if (strcmp(field, "tell") == 0) continue;
        if (conditional) fb_lua_raise(L, "fb.script: puzzle: choice %d both saves and costs", n);
        if (!is_part(value)) unknown_part(L, "fb.script: puzzle: no part of a waterfall", value);
        conditional = true;
    }
    const char *key = lua_tostring(L, choice + 1);
    if (!conditional && !has_answer && !is_part(key))
        unknown_part(L, "fb.script: puzzle: a choice's key is no part of a waterfall", key);
    lua_settop(L, choice);
}

static void check_choices(lua_State *L, int puzzle)
{
    bool has_answer = lua_getfield(L, puzzle, "answer") == LUA_TFUNCTION;
    if (lua_getfield(L, puzzle, "choices") == LUA_TTABLE)
        for (int i = 1; lua_rawgeti(L, puzzle + 2, i) != LUA_TNIL; i++) {
            check_choice(L, i, has_answer);
            lua_pop(L, 1);
        }
    lua_settop(L, puzzle);
}

/* The puzzle on top, while the script's line is known. */
static void check_puzzle(lua_State *L)
{
    int puzzle = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, puzzle); lua_pop(L, 1)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        int i = 0;
        while (i < PUZZLE_PARTS && strcmp(puzzle_parts[i], key) != 0) i++;
        if (i == PUZZLE_PARTS) fb_lua_unknown(L, "fb.script: puzzle: unknown field", key, puzzle_parts, PUZZLE_PARTS);
    }
    check_choices(L, puzzle);
}

static int script(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_pushnil(L);
    while (lua_next(L, 1)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        size_t i = 0, n = sizeof fields / sizeof *fields;
        while (i < n && strcmp(fields[i].name, key) != 0) i++;
        if (i == n) return unknown_field(L, key);
        if (lua_type(L, -1) != fields[i].type)
            return fb_lua_raise(L, "fb.script: %s is a %s, not a %s", key, luaL_typename(L, -1),
                                lua_typename(L, fields[i].type));
        if (strcmp(key, "puzzle") == 0) check_puzzle(L);
        lua_pop(L, 1);
    }
    bool model = lua_getfield(L, 1, "model") != LUA_TNIL, variants = lua_getfield(L, 1, "variants") != LUA_TNIL;
    if (model == variants)
        return fb_lua_raise(L, "fb.script: give either model = function or variants = { name = function, … }");
    lua_settop(L, 1);
    luaL_setmetatable(L, script_type);
    return 1;
}

/* ---- the "script" message ---- */

typedef struct {
    const char *name; /* stays in the script's table */
    lua_Integer order;
} named;

static int by_order(const void *a, const void *b)
{
    const named *x = a, *y = b;
    return x->order != y->order ? (x->order > y->order) - (x->order < y->order) : strcmp(x->name, y->name);
}

/* Where a function begins, or the order of a parameter's declaration: the order that a reader of the script sees. */
static lua_Integer order_of(lua_State *L, int i)
{
    if (lua_istable(L, i)) {
        lua_getfield(L, i, "order");
        lua_Integer order = lua_tointeger(L, -1);
        lua_pop(L, 1);
        return order;
    }
    lua_Debug ar;
    lua_pushvalue(L, i);
    lua_getinfo(L, ">S", &ar);
    return ar.linedefined;
}

static bool is_instance(lua_State *L, int i, const char *type)
{
    if (!lua_getmetatable(L, i)) return false;
    luaL_getmetatable(L, type);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return same;
}

/* The names in script[field], in the script's order, in Lua-owned memory left on the stack (below: the table). NULL and
 * nothing on the stack where there is no such field. */
static named *names_of(lua_State *L, const char *field, bool functions, int *n)
{
    *n = 0;
    fb_module_push_field(L, field);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        return NULL;
    }
    int table = lua_gettop(L), count = 0;
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) count++;
    named *list = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *list, 0);
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) fb_lua_raise(L, "fb.script: %s has a field without a name", field);
        const char *name = fb_lua_name(L, -2, field);
        if (functions && !lua_isfunction(L, -1))
            fb_lua_raise(L, "fb.script: %s.%s is a %s, not a function", field, name, luaL_typename(L, -1));
        if (!functions && !is_instance(L, -1, param_type))
            fb_lua_raise(L, "fb.script: %s.%s is a %s, not fb.int, fb.float, fb.choice or fb.bool", field, name,
                         luaL_typename(L, -1));
        list[(*n)++] = (named){name, order_of(L, lua_gettop(L))};
    }
    qsort(list, (size_t)*n, sizeof *list, by_order);
    return list;
}

static json_t *names_json(lua_State *L, const char *field)
{
    int n, top = lua_gettop(L);
    named *list = names_of(L, field, true, &n);
    json_t *array = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(array, json_string(list[i].name));
    lua_settop(L, top);
    return array;
}

/* The function on top: its first and last line in the script. */
static json_t *lines_of(lua_State *L)
{
    lua_Debug ar;
    lua_pushvalue(L, -1);
    lua_getinfo(L, ">S", &ar);
    return json_pack("[i, i]", ar.linedefined, ar.lastlinedefined);
}

/* Of each of script[field]'s functions, in the order of `names`; of one made elsewhere than in the script too. */
static json_t *lines_json(lua_State *L, const char *field, const json_t *names)
{
    json_t *array = json_array();
    const json_t *name;
    size_t i;
    fb_module_push_field(L, field);
    json_array_foreach(names, i, name)
    {
        if (lua_istable(L, -1)) lua_getfield(L, -1, json_string_value(name));
        json_array_append_new(array, lua_isfunction(L, -1) ? lines_of(L) : json_pack("[i, i]", 0, 0));
        if (lua_istable(L, -2)) lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return array;
}

static bool taken_name(const char *name)
{
    static const char *const taken[] = {"variant", "plan", "device", "params"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(taken[i], name) == 0) return true;
    return false;
}

static const char no_parameter[] = "there is no parameter";

static _Noreturn void unknown_param(lua_State *L, const char *key)
{
    const json_t *params = fb_process_of(L)->params;
    size_t n = json_array_size(params);
    const char **known = lua_newuserdatauv(L, (n + 1) * sizeof *known, 0);
    for (size_t i = 0; i < n; i++) known[i] = fb_json_string_or(json_array_get(params, i), "name", "");
    fb_lua_unknown(L, no_parameter, key, known, (int)n);
}

/* `params` of the message, with --set over the script's own values. Kept in p->params, whatever goes wrong half-way. */
static void read_params(lua_State *L, const json_t *set)
{
    fb_process *p = fb_process_of(L);
    int n, top = lua_gettop(L);
    named *list = names_of(L, "params", false, &n);
    p->params = json_array();
    fb_error err;
    for (int i = 0; i < n; i++) {
        if (taken_name(list[i].name))
            fb_lua_raise(L, "fb.script: a parameter cannot be called %s, cases of a sweep have such a field",
                         list[i].name);
        lua_getfield(L, top + 1, list[i].name);
        json_t *param = fb_lua_to_json(L, -1, list[i].name);
        json_array_append_new(p->params, param);
        lua_pop(L, 1);
        json_object_set_new(param, "name", json_string(list[i].name));
        json_object_del(param, "order");
        const json_t *given = json_object_get(set, list[i].name);
        if (!fb_param_accepts(param, json_object_get(param, "default"), &err))
            fb_lua_raise(L, "the standard of %s", err.text);
        if (given && !fb_param_accepts(param, given, &err)) fb_lua_raise(L, "%s", err.text);
        if (given) json_object_set(param, "default", (json_t *)given);
    }
    lua_settop(L, top);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)set, key, value)
    {
        bool found = false;
        for (size_t i = 0; i < json_array_size(p->params) && !found; i++)
            found = strcmp(fb_json_string_or(json_array_get(p->params, i), "name", ""), key) == 0;
        if (!found) unknown_param(L, key);
    }
}

/* [key, text, {"saves": part, "costs": part, "tell": text}] of each; the puzzle is on top. */
static json_t *choices_json(lua_State *L)
{
    static const char *const fields_of[] = {"saves", "costs", "tell"};
    json_t *all = json_array();
    int top = lua_gettop(L);
    if (lua_getfield(L, top, "choices") == LUA_TTABLE)
        for (int i = 1; lua_rawgeti(L, top + 1, i) == LUA_TTABLE; i++) {
            json_t *more = json_object();
            lua_rawgeti(L, top + 2, 1);
            lua_rawgeti(L, top + 2, 2);
            for (size_t f = 0; f < sizeof fields_of / sizeof *fields_of; f++) {
                if (lua_getfield(L, top + 2, fields_of[f]) == LUA_TSTRING)
                    json_object_set_new(more, fields_of[f], json_string(lua_tostring(L, -1)));
                lua_pop(L, 1);
            }
            json_array_append_new(all,
                                  json_pack("[s?, s?, o]", lua_tostring(L, top + 3), lua_tostring(L, top + 4), more));
            lua_settop(L, top + 1);
        }
    lua_settop(L, top);
    return all;
}

/* What of the puzzle can be shown; its answer function stays here. */
static void read_puzzle(lua_State *L, json_t *info)
{
    int top = lua_gettop(L);
    fb_module_push_field(L, "puzzle");
    if (lua_isnil(L, -1)) {
        lua_settop(L, top);
        return;
    }
    json_t *puzzle = json_object();
    json_object_set_new(info, "puzzle", puzzle);
    const char *const *parts = puzzle_parts;
    for (int i = 0; i < PUZZLE_SHOWN; i++) {
        lua_getfield(L, top + 1, parts[i]);
        if (!lua_isnil(L, -1)) json_object_set_new(puzzle, parts[i], fb_lua_to_json(L, -1, parts[i]));
        lua_pop(L, 1);
    }
    json_object_set_new(puzzle, "choices", choices_json(L));
    lua_getfield(L, top + 1, "answer");
    if (!lua_isnil(L, -1) && !lua_isfunction(L, -1))
        fb_lua_raise(L, "fb.script: puzzle.answer is a %s, not a function", luaL_typename(L, -1));
    json_object_set_new(puzzle, "has_answer", json_boolean(lua_isfunction(L, -1)));
    lua_settop(L, top);
}

static json_t *script_message(lua_State *L, const json_t *set)
{
    fb_process *p = fb_process_of(L);
    read_params(L, set);
    fb_module_push_field(L, "columns");
    json_t *columns = lua_isnil(L, -1) ? json_array() : fb_lua_to_json(L, -1, "columns");
    json_t *info = fb_process_draft(p, json_object());
    json_object_set_new(info, "columns", columns);
    lua_pop(L, 1);
    json_object_set_new(info, "type", json_string("script"));
    fb_module_push_field(L, "title");
    const char *title = lua_tostring(L, -1);
    char clean[200];
    fb_text_clean(clean, sizeof clean, title ? title : p->name, strlen(title ? title : p->name));
    json_object_set_new(info, "title", json_string(clean));
    lua_pop(L, 1);
    fb_module_push_field(L, "computes");
    if (lua_isstring(L, -1)) {
        fb_text_clean(clean, sizeof clean, lua_tostring(L, -1), strlen(lua_tostring(L, -1)));
        json_object_set_new(info, "computes", json_string(clean));
    }
    lua_pop(L, 1);
    json_object_set(info, "params", p->params);
    json_t *variants = names_json(L, "variants");
    json_object_set_new(info, "variants", variants);
    json_t *lines = lines_json(L, "variants", variants);
    json_object_set_new(info, "variant_lines", lines);
    fb_module_push_field(L, "model");
    if (!lua_isnil(L, -1)) {
        json_array_append_new(variants, json_string(""));
        json_array_append_new(lines, lines_of(L));
    }
    lua_pop(L, 1);
    p->variants = json_incref(variants);
    if (!json_array_size(variants)) fb_lua_raise(L, "fb.script: there is no variant");
    json_t *plans = names_json(L, "plans"), *plan;
    size_t i;
    json_object_set_new(info, "plans", plans);
    json_object_set_new(info, "plan_lines", lines_json(L, "plans", plans));
    json_array_foreach(plans, i, plan) if (fb_preset_find(json_string_value(plan)) ||
                                           strcmp(json_string_value(plan), FB_SEARCH_NAME) == 0)
        fb_lua_raise(L, "fb.script: plan %s has the name of a preset", json_string_value(plan));
    fb_module_push_field(L, "experiment");
    json_object_set_new(info, "experiment", json_boolean(lua_isfunction(L, -1)));
    lua_pop(L, 1);
    read_puzzle(L, info);
    return info;
}

int fb_module_run(lua_State *L)
{
    fb_module_load *load = lua_touserdata(L, 1);
    fb_process *p = fb_process_of(L);
    lua_pushfstring(L, "@%s", p->name);
    /* A first line like "#!/usr/bin/env fusebox" is skipped as the Lua program skips it; line numbers stay. */
    const char *text = load->text;
    size_t n = load->n;
    if (n && text[0] == '#') {
        const char *end = memchr(text, '\n', n);
        n -= end ? (size_t)(end - text) : n;
        text = end ? end : "";
    }
    if (luaL_loadbufferx(L, text, n, lua_tostring(L, -1), "t") != LUA_OK) return lua_error(L);
    lua_call(L, 0, 1);
    if (lua_isfunction(L, -1)) {
        lua_newtable(L);
        lua_insert(L, -2);
        lua_setfield(L, -2, "model");
    } else if (fb_process_is_lesson(L, -1)) {
        load->info = fb_process_lesson_message(L);
        lua_newtable(L); /* there is nothing to build */
    } else if (!is_instance(L, -1, script_type)) {
        return fb_lua_raise(L, "the script returns %s, not fb.script { … } or a function(g)", luaL_typename(L, -1));
    }
    lua_setfield(L, LUA_REGISTRYINDEX, script_key);
    if (!load->info) load->info = script_message(L, load->set);
    return 0;
}

void fb_module_push_field(lua_State *L, const char *field)
{
    lua_getfield(L, LUA_REGISTRYINDEX, script_key);
    lua_getfield(L, -1, field);
    lua_remove(L, -2);
}

void fb_module_push_function(lua_State *L, const char *table, const char *name)
{
    fb_module_push_field(L, table);
    if (lua_istable(L, -1)) {
        lua_getfield(L, -1, name);
        lua_remove(L, -2);
    }
    if (!lua_isfunction(L, -1)) fb_lua_raise(L, "the script has no \"%.60s\" among its %s", name, table);
}

void fb_module_push_params(lua_State *L, const json_t *given)
{
    fb_process *p = fb_process_of(L);
    lua_newtable(L);
    size_t i, found = 0;
    json_t *param;
    fb_error err;
    json_array_foreach(p->params, i, param)
    {
        const char *name = fb_json_string_or(param, "name", "");
        const json_t *value = json_object_get(given, name);
        if (value) {
            found++;
            if (!fb_param_accepts(param, value, &err)) fb_lua_raise(L, "%s", err.text);
        } else {
            value = json_object_get(param, "default");
        }
        fb_lua_push_json(L, value);
        lua_setfield(L, -2, name);
    }
    const char *key;
    json_t *value;
    if (found < json_object_size(given)) json_object_foreach((json_t *)given, key, value)
        {
            lua_getfield(L, -1, key);
            if (lua_isnil(L, -1)) unknown_param(L, key);
            lua_pop(L, 1);
        }
    fb_lua_lock_table(L, no_parameter);
}

void fb_module_open(lua_State *L)
{
    static const char *const kinds[] = {"int", "float", "choice", "bool"};
    lua_register(L, "print", print);
    lua_register(L, "require", require);
    luaL_newmetatable(L, param_type);
    lua_pushliteral(L, "fusebox parameter");
    lua_setfield(L, -2, "__metatable");
    luaL_newmetatable(L, script_type);
    lua_pushliteral(L, "fusebox script");
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 2);
    lua_newtable(L); /* loaded */
    lua_newtable(L); /* fusebox */
    lua_pushcfunction(L, script);
    lua_setfield(L, -2, "script");
    fb_process_open_lesson(L);
    lua_newtable(L); /* counts declarations */
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        lua_pushstring(L, kinds[i]);
        lua_pushvalue(L, -2);
        lua_pushcclosure(L, declare, 2);
        lua_setfield(L, -3, kinds[i]);
    }
    lua_pop(L, 1);
    fb_lua_close_table(L, "fusebox has no function");
    lua_setfield(L, -2, "fusebox");
    lua_setfield(L, LUA_REGISTRYINDEX, loaded_key);
}
