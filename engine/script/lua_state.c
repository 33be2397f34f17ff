/* The Lua state: which of Lua's own library there is, how errors find the script's line, and JSON both ways. */
#include "script/process.h"

#include "base/mem.h"
#include "base/str.h"

#include <limits.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory and the end of it ---- */

static void *allocate(void *ud, void *block, size_t old, size_t bytes)
{
    (void)ud;
    (void)old;
    if (bytes) return fb_try_realloc(block, bytes);
    fb_free(block);
    return NULL;
}

static int panic(lua_State *L)
{
    fb_process_die(fb_process_of(L), "an error outside any protected call");
}

/* ---- what Lua brings ---- */

static const luaL_Reg libraries[] = {
    {LUA_GNAME, luaopen_base},       {LUA_TABLIBNAME, luaopen_table}, {LUA_STRLIBNAME, luaopen_string},
    {LUA_MATHLIBNAME, luaopen_math}, {LUA_UTF8LIBNAME, luaopen_utf8}, {LUA_COLIBNAME, luaopen_coroutine},
};

/* No way to files, to bytecode, to the collector, or to messages past `print`. */
static const char *const removed[][2] = {
    {LUA_GNAME, "dofile"}, {LUA_GNAME, "loadfile"},       {LUA_GNAME, "load"},
    {LUA_GNAME, "warn"},   {LUA_GNAME, "collectgarbage"}, {LUA_STRLIBNAME, "dump"},
};

/* setmetatable without finalisers: __gc runs where no limit of ours looks. */
static int set_metatable(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_argexpected(L, lua_isnil(L, 2) || lua_istable(L, 2), 2, "nil or table");
    if (lua_istable(L, 2)) {
        lua_pushliteral(L, "__gc");
        if (lua_rawget(L, 2) != LUA_TNIL)
            return fb_lua_raise(L, "setmetatable: scripts have no finalisers, so no __gc");
    }
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL)
        return fb_lua_raise(L, "setmetatable: the metatable is protected");
    lua_settop(L, 2);
    lua_setmetatable(L, 1);
    return 1;
}

static int open_libraries(lua_State *L)
{
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        luaL_requiref(L, libraries[i].name, libraries[i].func, 1);
        lua_pop(L, 1);
    }
    for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) {
        lua_getglobal(L, removed[i][0]);
        lua_pushnil(L);
        lua_setfield(L, -2, removed[i][1]);
        lua_pop(L, 1);
    }
    lua_register(L, "setmetatable", set_metatable);
    /* The same numbers in every run: what a script draws is part of what it builds. */
    lua_getglobal(L, LUA_MATHLIBNAME);
    lua_getfield(L, -1, "randomseed");
    lua_pushinteger(L, 1);
    lua_call(L, 1, 0);
    lua_pop(L, 1);
    fb_module_open(L);
    fb_tensor_open(L);
    fb_process_open_graph(L);
    fb_process_open_plan(L);
    fb_process_open_experiment(L);
    /* A misspelt variable is no value: { widht } would be another shape, and right by its own measure. */
    lua_pushglobaltable(L);
    fb_lua_close_table(L, "there is no variable");
    return 0;
}

bool fb_lua_new(fb_process *p, fb_error *err)
{
    p->L = lua_newstate(allocate, NULL);
    if (!p->L) return fb_fail(err, FB_ERR_LIMIT, "no memory for Lua");
    *(fb_process **)lua_getextraspace(p->L) = p;
    lua_atpanic(p->L, panic);
    return fb_lua_call(p, open_libraries, NULL, err, NULL);
}

/* ---- errors and lines ---- */

int fb_lua_line(lua_State *L)
{
    fb_process *p = fb_process_of(L);
    lua_Debug ar;
    enum { DEEPEST = 200 }; /* each level is looked for from the top */
    for (int level = 0; level < DEEPEST && lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "Sl", &ar);
        if (ar.currentline > 0 && ar.source[0] == '@' && strcmp(ar.source + 1, p->name) == 0)
            return p->line = ar.currentline;
    }
    return 0;
}

void fb_lua_blame(lua_State *L)
{
    fb_process *p = fb_process_of(L);
    lua_Debug ar;
    lua_pushvalue(L, -1);
    lua_getinfo(L, ">S", &ar);
    bool own = ar.source[0] == '@' && strcmp(ar.source + 1, p->name) == 0;
    p->blame = own && ar.linedefined > 0 ? ar.linedefined : 0;
}

/* The line that is being run, else the one that is to blame, else 0. */
static int line_at_fault(lua_State *L)
{
    int line = fb_lua_line(L);
    return line ? line : fb_process_of(L)->blame;
}

/* Pushes "script.lua:12: ", or the library's line where the script is not on the stack. */
static void push_where(lua_State *L)
{
    int line = line_at_fault(L);
    if (line)
        lua_pushfstring(L, "%s:%d: ", fb_process_of(L)->name, line);
    else
        luaL_where(L, 1);
}

_Noreturn int fb_lua_raise(lua_State *L, const char *format, ...)
{
    char text[480];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    push_where(L);
    lua_pushstring(L, text);
    lua_concat(L, 2);
    lua_error(L);
    abort();
}

static bool begins_with_script(const fb_process *p, const char *text)
{
    size_t n = strlen(p->name);
    return strncmp(text, p->name, n) == 0 && text[n] == ':';
}

/* What is said after "script.lua:12: ", and the 12; all of it and 0 of any other text, which a script may have written
 * itself. */
static const char *after_line(const fb_process *p, const char *text, int *line)
{
    *line = 0;
    if (!begins_with_script(p, text)) return text;
    char *end;
    long n = strtol(text + strlen(p->name) + 1, &end, 10);
    if (n <= 0 || n >= INT_MAX || strncmp(end, ": ", 2) != 0) return text;
    *line = (int)n;
    return end + 2;
}

/* Every message leaves as text that begins with the script's line and says something. No metamethod is called: it might
 * raise. */
static int message_handler(lua_State *L)
{
    const fb_process *p = fb_process_of(L);
    int line;
    if (lua_type(L, 1) == LUA_TNUMBER) lua_tostring(L, 1);
    if (lua_type(L, 1) != LUA_TSTRING) {
        lua_pushfstring(L, "error(…) was called with a %s, not with a message", luaL_typename(L, 1));
        lua_replace(L, 1);
    }
    const char *said = after_line(p, lua_tostring(L, 1), &line);
    if (fb_text_is_blank(said)) {
        lua_pushliteral(L, "error(…) was called without a message");
        lua_replace(L, 1);
    } else if (line) {
        return 1;
    }
    if (!line) line = line_at_fault(L);
    if (line)
        lua_pushfstring(L, "%s:%d: ", p->name, line);
    else if (begins_with_script(p, lua_tostring(L, 1))) /* it was here before */
        return 1;
    else
        lua_pushfstring(L, "%s: ", p->name);
    lua_insert(L, 1);
    lua_concat(L, 2);
    return 1;
}

bool fb_lua_try(lua_State *L, int n_args, int n_results)
{
    int at = lua_gettop(L) - n_args;
    lua_pushcfunction(L, message_handler);
    lua_insert(L, at);
    bool ok = lua_pcall(L, n_args, n_results, at) == LUA_OK;
    lua_remove(L, at);
    return ok;
}

bool fb_lua_call(fb_process *p, lua_CFunction f, void *arg, fb_error *err, int *line)
{
    lua_State *L = p->L;
    int top = lua_gettop(L);
    if (!lua_checkstack(L, 8)) return fb_fail(err, FB_ERR_LIMIT, "%s: calls nest too deep", p->name);
    lua_pushcfunction(L, message_handler);
    lua_pushcfunction(L, f);
    lua_pushlightuserdata(L, arg);
    int status = lua_pcall(L, 1, 0, top + 1);
    p->L = L;
    if (status == LUA_OK) {
        lua_settop(L, top);
        return true;
    }
    const char *text = lua_tostring(L, -1);
    char clean[480];
    if (status == LUA_ERRMEM && p->line)
        snprintf(clean, sizeof clean, "%s:%d: the script used more than 64 MB", p->name, p->line);
    else if (status == LUA_ERRMEM)
        snprintf(clean, sizeof clean, "%s: the script used more than 64 MB", p->name);
    else if (text && begins_with_script(p, text))
        fb_text_clean(clean, sizeof clean, text, strlen(text));
    else
        snprintf(clean, sizeof clean, "%s: %s", p->name, text ? text : "an error without a message");
    int said_line = p->line;
    if (status != LUA_ERRMEM) after_line(p, clean, &said_line);
    if (line) *line = said_line;
    lua_settop(L, top);
    if (status == LUA_ERRMEM) lua_gc(L, LUA_GCCOLLECT);
    return fb_fail(err, status == LUA_ERRMEM ? FB_ERR_LIMIT : p->away ? FB_ERR_UNAVAILABLE : FB_ERR_INPUT, "%s", clean);
}

const char *fb_lua_name(lua_State *L, int i, const char *what)
{
    if (lua_type(L, i) != LUA_TSTRING) fb_lua_raise(L, "%s: a name is expected, not %s", what, luaL_typename(L, i));
    size_t n;
    const char *name = lua_tolstring(L, i, &n);
    char shown[81];
    fb_text_clean(shown, sizeof shown, name, n);
    if (strlen(name) != n || !fb_str_is_name(name))
        fb_lua_raise(L, "%s: \"%s\" is no name (a letter or _, then letters, digits and _, 64 at most)", what, shown);
    return name;
}

/* ---- JSON ---- */

void fb_lua_push_json(lua_State *L, const json_t *value)
{
    luaL_checkstack(L, 4, "JSON nested too deep");
    const char *key;
    json_t *item;
    size_t i;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        lua_newtable(L);
        json_object_foreach((json_t *)value, key, item)
        {
            fb_lua_push_json(L, item);
            lua_setfield(L, -2, key);
        }
        break;
    case JSON_ARRAY:
        lua_newtable(L);
        json_array_foreach(value, i, item)
        {
            fb_lua_push_json(L, item);
            lua_rawseti(L, -2, (lua_Integer)i + 1);
        }
        break;
    case JSON_STRING: lua_pushlstring(L, json_string_value(value), json_string_length(value)); break;
    case JSON_INTEGER: lua_pushinteger(L, json_integer_value(value)); break;
    case JSON_REAL: lua_pushnumber(L, json_real_value(value)); break;
    case JSON_TRUE: lua_pushboolean(L, true); break;
    case JSON_FALSE: lua_pushboolean(L, false); break;
    case JSON_NULL: lua_pushnil(L); break;
    }
}

typedef struct {
    lua_State *L;
    int items;
    const char *why; /* what is wrong, set once */
} conversion;

static json_t *convert(conversion *c, int i, int depth);

static json_t *convert_string(lua_State *L, int i)
{
    size_t n;
    const char *text = lua_tolstring(L, i, &n);
    json_t *value = json_stringn(text, n);
    if (value) return value;
    char clean[512];
    fb_text_clean(clean, sizeof clean, text, n);
    return json_string(clean);
}

static json_t *convert_table(conversion *c, int i, int depth)
{
    lua_State *L = c->L;
    lua_Integer n = (lua_Integer)lua_rawlen(L, i);
    json_t *value = n ? json_array() : json_object();
    for (lua_Integer k = 1; k <= n && !c->why; k++) {
        lua_rawgeti(L, i, k);
        json_array_append_new(value, convert(c, lua_gettop(L), depth));
        lua_pop(L, 1);
    }
    if (n) return value;
    lua_pushnil(L);
    while (!c->why && lua_next(L, i)) {
        if (lua_type(L, -2) != LUA_TSTRING) {
            c->why = "a table is either a list or has names as keys";
        } else {
            json_t *item = convert(c, lua_gettop(L), depth);
            if (c->why) /* the stack is as the failure left it */
                json_decref(item);
            else if (json_object_set_new(value, lua_tostring(L, -2), item) < 0)
                c->why = "a key is not valid UTF-8";
        }
        lua_pop(L, 1);
    }
    return value;
}

static json_t *convert(conversion *c, int i, int depth)
{
    enum { DEPTH = 32, ITEMS = 100000 };
    if (depth > DEPTH) c->why = "tables nest more than 32 deep";
    if (++c->items > ITEMS) c->why = "more than 100000 values";
    if (!lua_checkstack(c->L, 4)) c->why = "tables nest too deep";
    if (c->why) return json_null();
    switch (lua_type(c->L, i)) {
    case LUA_TNIL: return json_null();
    case LUA_TBOOLEAN: return json_boolean(lua_toboolean(c->L, i));
    case LUA_TSTRING: return convert_string(c->L, i);
    case LUA_TTABLE: return convert_table(c, i, depth + 1);
    case LUA_TNUMBER: {
        if (lua_isinteger(c->L, i)) return json_integer(lua_tointeger(c->L, i));
        json_t *value = json_real(lua_tonumber(c->L, i));
        return value ? value : json_null(); /* not finite: not known */
    }
    default: c->why = "a value is no number, text, boolean or table"; return json_null();
    }
}

json_t *fb_lua_to_json(lua_State *L, int i, const char *what)
{
    conversion c = {.L = L};
    int top = lua_gettop(L);
    json_t *value = convert(&c, lua_absindex(L, i), 0);
    lua_settop(L, top);
    fb_process *p = fb_process_of(L);
    json_decref(p->held);
    p->held = value;
    if (c.why) fb_lua_raise(L, "%s: %s", what, c.why);
    return json_incref(value);
}
