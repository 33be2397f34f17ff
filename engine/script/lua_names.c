/* Names that scripts misspell. A field that is not there is nil in Lua, and what was meant is lost without a word: so
 * parameters, cases, methods and bundled modules say that there is none, and which name is near. */
#include "script/process.h"

#include "base/near.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 10000, SHOWN = 61 };

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The text keys of the table at `table`, sorted: a table's own order is not the same in every run. Lua-owned, left on
 * the stack; the names stay the table's. */
static const char **keys_of(lua_State *L, int table, int *n)
{
    int room = 0;
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) room++;
    if (room > MOST_NAMES) room = MOST_NAMES;
    const char **names = lua_newuserdatauv(L, ((size_t)room + 1) * sizeof *names, 0);
    *n = 0;
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING && *n < room) names[(*n)++] = lua_tostring(L, -2);
    qsort(names, (size_t)*n, sizeof *names, by_name);
    return names;
}

_Noreturn void fb_lua_unknown(lua_State *L, const char *what, const char *name, const char *const *known, int n)
{
    char clean[SHOWN];
    const char *near = fb_nearest(name, known, n);
    fb_text_clean(clean, sizeof clean, name, strlen(name));
    if (near) fb_lua_raise(L, "%s \"%s\"; did you mean \"%s\"?", what, clean, near);
    luaL_Buffer list;
    enum { LISTED = 12 };
    if (!n || n > LISTED) fb_lua_raise(L, "%s \"%s\"", what, clean);
    luaL_buffinit(L, &list);
    for (int i = 0; i < n; i++) {
        if (i) luaL_addstring(&list, ", ");
        luaL_addstring(&list, known[i]);
    }
    luaL_pushresult(&list);
    fb_lua_raise(L, "%s \"%s\" (there are %s)", what, clean, lua_tostring(L, -1));
}

_Noreturn void fb_lua_unknown_key(lua_State *L, const char *what, const char *name, int table)
{
    int n;
    table = lua_absindex(L, table);
    const char **known = keys_of(L, table, &n);
    fb_lua_unknown(L, what, name, known, n);
}

/* ---- methods ---- */

/* Upvalues: the methods, and what is said where there is none of that name. */
static int find_method(lua_State *L)
{
    lua_pushvalue(L, 2);
    lua_rawget(L, lua_upvalueindex(1));
    if (!lua_isnil(L, -1)) return 1;
    const char *what = lua_tostring(L, lua_upvalueindex(2));
    if (lua_type(L, 2) != LUA_TSTRING) return fb_lua_raise(L, "%s \"%s\"", what, luaL_typename(L, 2));
    fb_lua_unknown_key(L, what, lua_tostring(L, 2), lua_upvalueindex(1));
}

void fb_lua_push_methods(lua_State *L, const char *what)
{
    lua_pushstring(L, what);
    lua_pushcclosure(L, find_method, 2);
}

/* ---- tables ---- */

/* Upvalue: what is said. Only names can be misspelt: `ipairs` and the like ask for numbers. */
static int no_field(lua_State *L)
{
    if (lua_type(L, 2) != LUA_TSTRING) return 0;
    fb_lua_unknown_key(L, lua_tostring(L, lua_upvalueindex(1)), lua_tostring(L, 2), 1);
}

void fb_lua_close_table(lua_State *L, const char *what)
{
    lua_createtable(L, 0, 1);
    lua_pushstring(L, what);
    lua_pushcclosure(L, no_field, 1);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
}

void fb_lua_lock_table(lua_State *L, const char *what)
{
    fb_lua_close_table(L, what);
    lua_getmetatable(L, -1);
    lua_getfield(L, -1, "__index");
    lua_setfield(L, -2, "__newindex");
    lua_pop(L, 1);
}
