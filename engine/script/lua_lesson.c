/* Lessons: fb.lesson { title = …, pages = { fb.page { … }, … } }, what a file of a class returns in place of fb.script.
 * A page is checked where it is written, so that an error names the page's own line; what is left is plain data, which
 * goes to the front as the "script" message's field "lesson". */
#include "script/process.h"

#include "base/json.h"
#include "base/str.h"
#include "script/script.h"

#include <string.h>

static const char page_type[] = "fusebox.page", lesson_type[] = "fusebox.lesson";

/* ---- fb.page ---- */

static const struct {
    const char *name;
    int type;
} page_fields[] = {
    {"title", LUA_TSTRING}, {"minutes", LUA_TNUMBER}, {"text", LUA_TSTRING},   {"answer", LUA_TSTRING},
    {"notes", LUA_TSTRING}, {"script", LUA_TSTRING},  {"puzzle", LUA_TSTRING}, {"columns", LUA_TTABLE},
    {"params", LUA_TTABLE}, {"keys", LUA_TSTRING},
};
enum { PAGE_FIELDS = sizeof page_fields / sizeof *page_fields };

static _Noreturn void unknown_field(lua_State *L, const char *key)
{
    const char *known[PAGE_FIELDS];
    for (int i = 0; i < PAGE_FIELDS; i++) known[i] = page_fields[i].name;
    fb_lua_unknown(L, "fb.page: unknown field", key, known, PAGE_FIELDS);
}

/* The value on top is of the field's type. */
static void check_field(lua_State *L, const char *key)
{
    int i = 0;
    while (i < PAGE_FIELDS && strcmp(page_fields[i].name, key) != 0) i++;
    if (i == PAGE_FIELDS) unknown_field(L, key);
    if (lua_type(L, -1) != page_fields[i].type)
        fb_lua_raise(L, "fb.page: %s is a %s, not a %s", key, luaL_typename(L, -1),
                     lua_typename(L, page_fields[i].type));
    if (lua_type(L, -1) == LUA_TSTRING && lua_rawlen(L, -1) > FB_LESSON_TEXT_MAX)
        fb_lua_raise(L, "fb.page: %s has %d bytes; %d is the most", key, (int)lua_rawlen(L, -1), FB_LESSON_TEXT_MAX);
}

static void check_columns(lua_State *L, int page)
{
    if (lua_getfield(L, page, "columns") != LUA_TNIL) {
        lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
        if (n > FB_LESSON_COLUMNS) fb_lua_raise(L, "fb.page: %d columns; %d is the most", (int)n, FB_LESSON_COLUMNS);
        for (lua_Integer i = 1; i <= n; i++) {
            if (lua_rawgeti(L, -1, i) != LUA_TSTRING)
                fb_lua_raise(L, "fb.page: column %d is a %s, not text like \"max\"", (int)i, luaL_typename(L, -1));
            lua_pop(L, 1);
        }
    }
    lua_pop(L, 1);
}

static void check_params(lua_State *L, int page)
{
    if (lua_getfield(L, page, "params") != LUA_TNIL)
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
            int type = lua_type(L, -1);
            if (lua_type(L, -2) != LUA_TSTRING) fb_lua_raise(L, "fb.page: params has a field without a name");
            if (type != LUA_TNUMBER && type != LUA_TSTRING && type != LUA_TBOOLEAN)
                fb_lua_raise(L, "fb.page: parameter %s is a %s", lua_tostring(L, -2), luaL_typename(L, -1));
        }
    lua_pop(L, 1);
}

static bool has(lua_State *L, int page, const char *field)
{
    bool is = lua_getfield(L, page, field) != LUA_TNIL;
    lua_pop(L, 1);
    return is;
}

/* What makes sense only with something else. */
static void check_together(lua_State *L, int page)
{
    static const char *const of_script[] = {"columns", "params", "keys"};
    if (!has(L, page, "title")) fb_lua_raise(L, "fb.page: a page has a title");
    if (has(L, page, "script") && has(L, page, "puzzle"))
        fb_lua_raise(L, "fb.page: a page has either a script or a puzzle, which is a script that asks one");
    if (has(L, page, "script") || has(L, page, "puzzle")) return;
    for (size_t i = 0; i < sizeof of_script / sizeof *of_script; i++)
        if (has(L, page, of_script[i]))
            fb_lua_raise(L, "fb.page: %s without a script or puzzle that they are of", of_script[i]);
}

static int page(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            return fb_lua_raise(L, "fb.page: a value without a name; text = [[…]] is what a page says");
        check_field(L, lua_tostring(L, -2));
    }
    check_together(L, 1);
    check_columns(L, 1);
    check_params(L, 1);
    lua_pushinteger(L, fb_lua_line(L));
    lua_setfield(L, 1, "line");
    luaL_setmetatable(L, page_type);
    return 1;
}

/* ---- fb.lesson ---- */

static bool is_of(lua_State *L, int i, const char *type)
{
    if (!lua_getmetatable(L, i)) return false;
    luaL_getmetatable(L, type);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return same;
}

static int lesson(lua_State *L)
{
    static const char *const known[] = {"title", "about", "pages"};
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        int i = 0;
        while (i < 3 && strcmp(known[i], key) != 0) i++;
        if (i == 3) fb_lua_unknown(L, "fb.lesson: unknown field", key, known, 3);
        if (lua_type(L, -1) != (i < 2 ? LUA_TSTRING : LUA_TTABLE))
            return fb_lua_raise(L, "fb.lesson: %s is a %s, not a %s", key, luaL_typename(L, -1),
                                i < 2 ? "string" : "table");
    }
    if (!has(L, 1, "title")) return fb_lua_raise(L, "fb.lesson: a lesson has a title");
    if (lua_getfield(L, 1, "pages") == LUA_TNIL || !lua_rawlen(L, 2))
        return fb_lua_raise(L, "fb.lesson: there are no pages: pages = { fb.page { … }, … }");
    lua_Integer n = (lua_Integer)lua_rawlen(L, 2);
    if (n > FB_LESSON_PAGES) return fb_lua_raise(L, "fb.lesson: %d pages; %d is the most", (int)n, FB_LESSON_PAGES);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, 2, i);
        if (!is_of(L, 3, page_type))
            return fb_lua_raise(L, "fb.lesson: page %d is a %s, not fb.page { … }", (int)i, luaL_typename(L, 3));
        lua_settop(L, 2);
    }
    lua_settop(L, 1);
    luaL_setmetatable(L, lesson_type);
    return 1;
}

/* ---- the message ---- */

bool fb_process_is_lesson(lua_State *L, int i)
{
    return is_of(L, i, lesson_type);
}

json_t *fb_process_lesson_message(lua_State *L)
{
    json_t *all = fb_lua_to_json(L, -1, "lesson");
    json_t *info = fb_process_draft(fb_process_of(L), json_object());
    json_object_set_new(info, "type", json_string("script"));
    json_object_set(info, "title", json_object_get(all, "title"));
    json_object_set_new(info, "lesson", all);
    return info;
}

void fb_process_open_lesson(lua_State *L)
{
    static const struct {
        const char *name, *type;
        lua_CFunction make;
    } functions[] = {{"page", page_type, page}, {"lesson", lesson_type, lesson}};
    for (size_t i = 0; i < 2; i++) {
        luaL_newmetatable(L, functions[i].type);
        lua_pushfstring(L, "fusebox %s", functions[i].name);
        lua_setfield(L, -2, "__metatable");
        lua_pop(L, 1);
        lua_pushcfunction(L, functions[i].make);
        lua_setfield(L, -2, functions[i].name);
    }
}
