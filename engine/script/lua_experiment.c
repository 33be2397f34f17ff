/* Experiments and puzzle answers: functions of the script that ask for measurements and say what they found. */
#include "script/process.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "decide/preset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char experiment_type[] = "experiment", why_type[] = "why";

typedef struct {
    int64_t id;
    bool running;
} experiment;

enum { SETTINGS = 1, FIGURES, PLOTS, COUNTS }; /* user values of an experiment */

static experiment *check_experiment(lua_State *L)
{
    experiment *e = luaL_checkudata(L, 1, experiment_type);
    if (!e->running) fb_lua_raise(L, "this experiment is over");
    return e;
}

/* ---- sweep ---- */

/* All values of a parameter that "*" stands for: the choices; true and false; from min to max by step ("x2" doubles, a
 * number adds). Pushes the list. */
static void push_range(lua_State *L, const json_t *param)
{
    enum { LONGEST = 10000 };
    const char *kind = fb_json_string_or(param, "kind", ""), *name = fb_json_string_or(param, "name", "");
    const json_t *choices = json_object_get(param, "choices");
    lua_newtable(L);
    if (choices) {
        lua_pop(L, 1);
        fb_lua_push_json(L, choices);
        return;
    }
    if (strcmp(kind, "bool") == 0) {
        for (int i = 0; i < 2; i++) {
            lua_pushboolean(L, i);
            lua_rawseti(L, -2, i + 1);
        }
        return;
    }
    double min = fb_json_number_or(param, "min", NAN), max = fb_json_number_or(param, "max", NAN);
    const json_t *step = json_object_get(param, "step");
    const char *text = json_string_value(step);
    bool factor = text && *text == 'x';
    double by = text ? atof(text + factor) : json_is_number(step) ? json_number_value(step) : 1;
    if (!isfinite(min) || !isfinite(max))
        fb_lua_raise(L, "sweep: parameter %s has no min and max to sweep over; list its values", name);
    if (!(factor ? by > 1 && min > 0 : by > 0))
        fb_lua_raise(L, "sweep: parameter %s does not advance by its step", name);
    int n = 0;
    for (double v = min; v <= max; v = factor ? v * by : v + by) {
        if (++n > LONGEST) fb_lua_raise(L, "sweep: parameter %s has more than %d values", name, LONGEST);
        if (strcmp(kind, "int") == 0)
            lua_pushinteger(L, (lua_Integer)v);
        else
            lua_pushnumber(L, v);
        lua_rawseti(L, -2, n);
    }
}

/* Pushes sweep[key] as a list: a single value is a list of one, "*" all values, nothing what `otherwise` pushes. */
static void push_values(lua_State *L, int sweep, const char *key, const json_t *all, const json_t *param)
{
    lua_getfield(L, sweep, key);
    if (lua_istable(L, -1)) return;
    bool star = lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "*") == 0;
    bool missing = lua_isnil(L, -1);
    if (star && !param && strcmp(key, "variant") != 0)
        fb_lua_raise(L, "sweep: \"*\" stands for parameters and variants, not for %s", key);
    if (star || missing) {
        lua_pop(L, 1);
        if (param)
            push_range(L, param);
        else
            fb_lua_push_json(L, all);
        return;
    }
    lua_newtable(L);
    lua_insert(L, -2);
    lua_rawseti(L, -2, 1);
}

/* Upvalues: keys, lists of values, the number of the next case, and what all parameters are set to. A case is {
 * variant, plan, device, params = { … } }, its parameters also at the top, and beside them those that are not swept. */
static int next_case(lua_State *L)
{
    int keys = lua_upvalueindex(1), lists = lua_upvalueindex(2);
    lua_Integer n = (lua_Integer)lua_rawlen(L, keys), number = lua_tointeger(L, lua_upvalueindex(3)), rest = number;
    lua_settop(L, 0);
    lua_newtable(L); /* 1: the case */
    lua_newtable(L); /* 2: its parameters */
    for (lua_Integer k = n; k >= 1; k--) {
        lua_rawgeti(L, keys, k);
        lua_rawgeti(L, lists, k);
        lua_Integer size = (lua_Integer)lua_rawlen(L, 4);
        if (!size) return 0;
        lua_rawgeti(L, 4, rest % size + 1);
        rest /= size;
        lua_pushvalue(L, 3);
        lua_pushvalue(L, 5);
        lua_rawset(L, 1);
        if (k > 3) {
            lua_pushvalue(L, 3);
            lua_pushvalue(L, 5);
            lua_rawset(L, 2);
        }
        lua_settop(L, 2);
    }
    if (rest) return 0;
    fb_lua_close_table(L, "a case's params have no");
    lua_setfield(L, 1, "params");
    for (lua_pushnil(L); lua_next(L, lua_upvalueindex(4)); lua_pop(L, 1)) { /* 2: name, 3: value */
        lua_pushvalue(L, 2);
        bool swept = lua_rawget(L, 1) != LUA_TNIL;
        lua_pop(L, 1);
        if (swept) continue;
        lua_pushvalue(L, 2);
        lua_pushvalue(L, 3);
        lua_rawset(L, 1);
    }
    lua_pushinteger(L, number + 1);
    lua_replace(L, lua_upvalueindex(3));
    fb_lua_close_table(L, "a case has no");
    return 1;
}

static void add_key(lua_State *L, int keys, const char *key)
{
    lua_Integer n = (lua_Integer)lua_rawlen(L, keys) + 1;
    lua_rawseti(L, keys + 1, n); /* the list on top */
    lua_pushstring(L, key);
    lua_rawseti(L, keys, n);
}

static bool is_param(lua_State *L, const char *key)
{
    size_t i;
    json_t *param;
    json_array_foreach(fb_process_of(L)->params, i, param)
    {
        if (strcmp(key, fb_json_string_or(param, "name", "")) == 0) return true;
    }
    return false;
}

static _Noreturn void unknown_in_case(lua_State *L, const char *what, const char *key)
{
    const json_t *params = fb_process_of(L)->params;
    size_t n = json_array_size(params);
    const char **known = lua_newuserdatauv(L, (n + 3) * sizeof *known, 0);
    for (size_t i = 0; i < n; i++) known[i] = fb_json_string_or(json_array_get(params, i), "name", "");
    known[n] = "variant";
    known[n + 1] = "plan";
    known[n + 2] = "device";
    fb_lua_unknown(L, what, key, known, (int)n + 3);
}

/* e:sweep { plan = { "eager", "max" }, batch_size = "*" }: all combinations; what is named last varies fastest, in the
 * order variant, plan, device, parameters as declared. */
static int sweep(lua_State *L)
{
    fb_process *p = fb_process_of(L);
    check_experiment(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    lua_newtable(L); /* 3: keys */
    lua_newtable(L); /* 4: lists */
    push_values(L, 2, "variant", p->variants, NULL);
    add_key(L, 3, "variant");
    json_decref(p->held);
    p->held = json_pack("[s, s]", fb_presets_usual[0], fb_presets_usual[1]);
    push_values(L, 2, "plan", p->held, NULL);
    add_key(L, 3, "plan");
    lua_getfield(L, 2, "device");
    bool device = !lua_isnil(L, -1);
    lua_pop(L, 1);
    if (device) {
        push_values(L, 2, "device", NULL, NULL);
    } else { /* one value, "": the device that is there */
        lua_newtable(L);
        lua_pushliteral(L, "");
        lua_rawseti(L, -2, 1);
    }
    add_key(L, 3, "device");
    size_t i;
    json_t *param;
    json_array_foreach(p->params, i, param)
    {
        const char *name = fb_json_string_or(param, "name", "");
        lua_getfield(L, 2, name);
        bool given = !lua_isnil(L, -1);
        lua_pop(L, 1);
        if (!given) continue;
        push_values(L, 2, name, NULL, param);
        add_key(L, 3, name);
    }
    for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        bool known = strcmp(key, "variant") == 0 || strcmp(key, "plan") == 0 || strcmp(key, "device") == 0;
        if (!known && !is_param(L, key)) unknown_in_case(L, "sweep: there is no parameter", key);
    }
    lua_settop(L, 4);
    lua_pushinteger(L, 0);
    lua_getiuservalue(L, 1, SETTINGS);
    lua_pushcclosure(L, next_case, 4);
    return 1;
}

/* ---- measure, row, plot ---- */

/* What a case leaves out, or leaves empty, is left to the front. */
static void add_text(lua_State *L, json_t *m, const char *key)
{
    int type = lua_getfield(L, 2, key);
    if (type != LUA_TNIL && type != LUA_TSTRING)
        fb_lua_raise(L, "a case's %s is text, not %s", key, luaL_typename(L, -1));
    const char *text = type == LUA_TSTRING ? lua_tostring(L, -1) : "";
    if (*text && json_object_set_new(m, key, json_string(text)) < 0)
        fb_lua_raise(L, "a case's %s is not valid UTF-8", key);
    lua_pop(L, 1);
}

/* What a sweep's case has beside its `params` is for reading: a value that is not what would be measured says so, and
 * is not passed over. At 2: the case; key and value on top. */
static void check_beside(lua_State *L, const char *key)
{
    int value = lua_gettop(L);
    if (lua_getfield(L, 2, "params") == LUA_TTABLE) {
        lua_pushstring(L, key);
        lua_rawget(L, -2);
    } else {
        lua_pushnil(L);
    }
    if (lua_isnil(L, -1)) {
        lua_getiuservalue(L, 1, SETTINGS);
        lua_pushstring(L, key);
        lua_rawget(L, -2);
    }
    bool same = lua_compare(L, value, -1, LUA_OPEQ);
    lua_settop(L, value);
    if (!same) fb_lua_raise(L, "a case's %s is set in its params: params = { %s = … }", key, key);
}

static void check_case(lua_State *L)
{
    static const char *const fields[] = {"variant", "plan", "device", "params"};
    for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) fb_lua_raise(L, "a case has names, not a list");
        const char *key = lua_tostring(L, -2);
        size_t i = 0, n = sizeof fields / sizeof *fields;
        while (i < n && strcmp(key, fields[i]) != 0) i++;
        if (i < n) continue;
        if (!is_param(L, key)) unknown_in_case(L, "a case has no", key);
        check_beside(L, key);
    }
}

/* The case at 2 as a message, held by the process. */
static json_t *case_message(lua_State *L, const char *type, int64_t id)
{
    fb_process *p = fb_process_of(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    check_case(L);
    lua_getfield(L, 2, "params");
    json_t *params = lua_isnil(L, -1) ? json_object() : fb_lua_to_json(L, -1, "params");
    lua_pop(L, 1);
    json_t *m = json_object();
    json_decref(p->held);
    p->held = m;
    json_object_set_new(m, "type", json_string(type));
    json_object_set_new(m, "id", json_integer(id));
    json_object_set_new(m, "params", params);
    add_text(L, m, "variant");
    add_text(L, m, "plan");
    add_text(L, m, "device");
    return m;
}

/* An experiment that measures for ever is a loop without an end, or one that forgot to go on to the next case: it is
 * said early, and ends. `which` is the message to the front. */
static void count_measure(lua_State *L, const json_t *which)
{
    fb_process *p = fb_process_of(L);
    char *text = fb_json_line(which);
    fb_hash hash = fb_hash_bytes(text, strlen(text));
    fb_free(text);
    p->repeats = p->measures && fb_hash_equal(hash, p->last_case) ? p->repeats + 1 : 0;
    p->last_case = hash;
    if (p->repeats >= FB_PROCESS_REPEATS)
        fb_lua_raise(L, "measure: the same case was asked for %d times, one after the other", FB_PROCESS_REPEATS);
    if (++p->measures > FB_SCRIPT_MEASURES)
        fb_lua_raise(L, "measure: an experiment measures at most %d times", FB_SCRIPT_MEASURES);
    if (p->measures == 1000 || p->measures == 10000)
        fb_process_send(
            p, json_pack("{s:s, s:o}", "type", "log", "text",
                         json_sprintf("%s: the experiment has measured %d cases and goes on", p->name, p->measures)));
}

/* r = e:measure(c): the report of one column; r.failed is a sentence where there is none. */
static int measure(lua_State *L)
{
    fb_process *p = fb_process_of(L);
    experiment *e = check_experiment(L);
    if (p->graph) return fb_lua_raise(L, "measure: not while a graph is being built");
    if (p->stopped) return fb_lua_raise(L, "measure: the experiment was stopped"); /* by a script that caught it, too */
    json_t *which = case_message(L, "measure", e->id);
    count_measure(L, which);
    fb_process_send(p, json_incref(which));
    lua_State *before = p->L;
    p->L = L;
    const json_t *m = fb_process_await_measured(p);
    p->L = before;
    p->stopped = fb_json_bool_or(m, "stop", false);
    if (p->stopped) return fb_lua_raise(L, "measure: the experiment was stopped");
    fb_lua_push_json(L, json_object_get(m, "report"));
    return 1;
}

/* Sends a row or plot, which is what the front keeps; steals the reference. */
static void send_kept(lua_State *L, json_t *m, const char *what)
{
    fb_process *p = fb_process_of(L);
    char *line = fb_json_line(m);
    size_t n = strlen(line);
    fb_free(line);
    p->row_bytes += n;
    bool fine = ++p->rows <= FB_SCRIPT_ROWS && n <= FB_SCRIPT_ROW_BYTES && p->row_bytes <= FB_SCRIPT_ROWS_BYTES;
    if (fine) {
        fb_process_send(p, m);
        return;
    }
    json_decref(m);
    if (n > FB_SCRIPT_ROW_BYTES) fb_lua_raise(L, "%s: %zu bytes; one has at most %d", what, n, FB_SCRIPT_ROW_BYTES);
    if (p->rows > FB_SCRIPT_ROWS)
        fb_lua_raise(L, "%s: an experiment gives at most %d rows and plots", what, FB_SCRIPT_ROWS);
    fb_lua_raise(L, "%s: an experiment's rows have at most %d bytes together", what, FB_SCRIPT_ROWS_BYTES);
}

/* Keeps the names of an object's fields in the table on top. */
static void keep_names(lua_State *L, const json_t *object)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value)
    {
        if (json_is_null(value) || json_is_object(value)) continue;
        lua_pushboolean(L, true);
        lua_setfield(L, -2, name);
    }
}

/* What plots may name: the figures of rows, and what tells their cases apart. */
static void keep_figures(lua_State *L, const json_t *m)
{
    const json_t *which = json_object_get(m, "case"), *row = json_object_get(m, "row");
    lua_getiuservalue(L, 1, FIGURES);
    keep_names(L, which);
    keep_names(L, json_object_get(which, "params"));
    keep_names(L, row);
    int n = 0;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) n++;
    lua_pop(L, 1);
    if (n > FB_PROCESS_FIGURES) fb_lua_raise(L, "row: more than %d different figures", FB_PROCESS_FIGURES);
    if (fb_json_string_or(row, "failed", NULL)) return;
    lua_pushboolean(L, true);
    lua_setiuservalue(L, 1, COUNTS);
}

/* e:row(c, { us = … }). */
static int row(lua_State *L)
{
    fb_process *p = fb_process_of(L);
    experiment *e = check_experiment(L);
    luaL_checktype(L, 3, LUA_TTABLE);
    json_t *whole = json_incref(case_message(L, "case", e->id));
    json_t *m =
        fb_process_draft(p, json_pack("{s:s, s:I, s:o}", "type", "row", "id", (json_int_t)e->id, "case", whole));
    json_object_del(whole, "type");
    json_object_del(whole, "id");
    json_object_set_new(m, "row", fb_lua_to_json(L, 3, "row"));
    keep_figures(L, m);
    send_kept(L, json_incref(m), "row");
    return 0;
}

static const char *const plot_fields[] = {"x", "y", "by", "low", "high", "log"};
enum { PLOT_FIELDS = sizeof plot_fields / sizeof *plot_fields };

/* Keeps a figure that a plot names, with the line of the plot: rows may come after it. */
static void keep_plotted(lua_State *L, const json_t *figure)
{
    if (!json_is_string(figure)) fb_lua_raise(L, "plot: a figure is named by a text");
    lua_getiuservalue(L, 1, PLOTS);
    lua_createtable(L, 2, 0);
    lua_pushstring(L, json_string_value(figure));
    lua_rawseti(L, -2, 1);
    lua_pushinteger(L, fb_lua_line(L));
    lua_rawseti(L, -2, 2);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    lua_pop(L, 1);
}

/* `m` is held by the process. */
static void check_plot(lua_State *L, const json_t *m)
{
    const char *name;
    json_t *value, *one;
    size_t k;
    json_object_foreach((json_t *)m, name, value)
    {
        int i = 0;
        while (i < PLOT_FIELDS && strcmp(plot_fields[i], name) != 0) i++;
        if (i == PLOT_FIELDS) fb_lua_unknown(L, "plot: unknown field", name, plot_fields, PLOT_FIELDS);
        /* a spread is drawn where there is one: predictions have none */
        const char *text = json_is_string(value) ? json_string_value(value) : NULL;
        if (strcmp(name, "log") == 0 && (!text || text[strspn(text, "xy")]))
            fb_lua_raise(L, "plot: log is \"x\", \"y\" or \"xy\"");
        bool optional = strcmp(name, "log") == 0 || strcmp(name, "low") == 0 || strcmp(name, "high") == 0;
        if (optional) continue;
        if (!json_is_array(value)) keep_plotted(L, value);
        json_array_foreach(value, k, one) keep_plotted(L, one);
    }
}

/* At the end of the experiment, when all its rows are known. Where every case failed, nothing is known of figures. */
static void check_plotted(lua_State *L)
{
    bool counts = lua_getiuservalue(L, 1, COUNTS) == LUA_TBOOLEAN;
    lua_getiuservalue(L, 1, PLOTS);
    lua_getiuservalue(L, 1, FIGURES);
    int plots = lua_gettop(L) - 1, figures = plots + 1;
    lua_Integer n = counts ? (lua_Integer)lua_rawlen(L, plots) : 0;
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, plots, i);
        lua_rawgeti(L, -1, 2);
        lua_rawgeti(L, -2, 1);
        lua_pushvalue(L, -1);
        bool found = lua_rawget(L, figures) != LUA_TNIL;
        lua_pop(L, 1);
        if (!found) {
            fb_process_of(L)->blame = (int)lua_tointeger(L, -2);
            fb_lua_unknown_key(L, "plot: no row has a figure", lua_tostring(L, -1), figures);
        }
        lua_settop(L, figures);
    }
}

/* e:plot { x = "batch_size", y = "us", by = "plan", log = "xy" }. */
static int plot(lua_State *L)
{
    experiment *e = check_experiment(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    json_t *m = fb_lua_to_json(L, 2, "plot");
    if (!json_is_object(m)) {
        json_decref(m);
        return fb_lua_raise(L, "plot: fields like x = \"batch_size\" are expected");
    }
    json_decref(m); /* held by the process */
    check_plot(L, m);
    json_object_set_new(m, "type", json_string("plot"));
    json_object_set_new(m, "id", json_integer(e->id));
    send_kept(L, json_incref(m), "plot");
    return 0;
}

/* What each parameter is set to, or declared as where that is not said. */
static void push_settings(lua_State *L, const json_t *set)
{
    size_t i;
    json_t *param;
    lua_newtable(L);
    json_array_foreach(fb_process_of(L)->params, i, param)
    {
        const char *name = fb_json_string_or(param, "name", "");
        const json_t *value = json_object_get(set, name);
        fb_lua_push_json(L, value ? value : json_object_get(param, "default"));
        lua_setfield(L, -2, name);
    }
}

int fb_process_run_experiment(lua_State *L)
{
    const fb_run_request *r = lua_touserdata(L, 1);
    lua_settop(L, 0);
    fb_module_push_field(L, "experiment");
    if (!lua_isfunction(L, 1)) return fb_lua_raise(L, "the script has no experiment");
    fb_lua_blame(L);
    experiment *e = lua_newuserdatauv(L, sizeof *e, COUNTS);
    *e = (experiment){r->id, true};
    luaL_setmetatable(L, experiment_type);
    push_settings(L, r->params);
    lua_setiuservalue(L, 2, SETTINGS);
    for (int i = FIGURES; i <= PLOTS; i++) {
        lua_newtable(L);
        lua_setiuservalue(L, 2, i);
    }
    lua_pushvalue(L, 2);
    lua_insert(L, 1);
    bool ok = fb_lua_try(L, 1, 0);
    e->running = false;
    if (!ok) return lua_error(L);
    check_plotted(L);
    return 0;
}

/* ---- puzzle answers ---- */

/* why:largest(): the part that goes furthest in the direction of the difference; the rest explains nothing. */
static int largest(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_getfield(L, 1, "parts");
    lua_getfield(L, 1, "us");
    double most = 0, sign = lua_tonumber(L, 3) < 0 ? -1 : 1;
    lua_settop(L, 2);
    lua_pushnil(L); /* 3: the answer */
    if (lua_istable(L, 2))
        for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
            if (lua_type(L, -2) != LUA_TSTRING || lua_type(L, -1) != LUA_TNUMBER) continue;
            if (strcmp(lua_tostring(L, -2), "rest") == 0) continue;
            double us = sign * lua_tonumber(L, -1);
            bool tie =
                us == most && lua_type(L, 3) == LUA_TSTRING && strcmp(lua_tostring(L, -2), lua_tostring(L, 3)) < 0;
            if (!(us > most) && !tie) continue;
            most = us;
            lua_pushvalue(L, -2);
            lua_replace(L, 3);
        }
    lua_settop(L, 3);
    return 1;
}

int fb_answer_run(lua_State *L)
{
    fb_run_request *r = lua_touserdata(L, 1);
    lua_settop(L, 0);
    fb_module_push_field(L, "puzzle");
    if (lua_istable(L, 1)) lua_getfield(L, 1, "answer");
    if (!lua_isfunction(L, -1)) return fb_lua_raise(L, "the script's puzzle has no answer function");
    fb_lua_blame(L);
    if (json_is_object(r->why))
        fb_lua_push_json(L, r->why);
    else
        lua_newtable(L);
    lua_pushnil(L); /* the field of that name would hide the method that finds it */
    lua_setfield(L, -2, "largest");
    luaL_setmetatable(L, why_type);
    lua_call(L, 1, 1);
    r->result = fb_lua_to_json(L, -1, "answer");
    json_decref(r->result); /* held by the process */
    return 0;
}

void fb_process_open_experiment(lua_State *L)
{
    static const luaL_Reg experiment_methods[] = {
        {"sweep", sweep}, {"measure", measure}, {"row", row}, {"plot", plot}, {NULL, NULL}};
    static const luaL_Reg why_methods[] = {{"largest", largest}, {NULL, NULL}};
    luaL_newmetatable(L, experiment_type);
    luaL_newlib(L, experiment_methods);
    fb_lua_push_methods(L, "an experiment has no method");
    lua_setfield(L, -2, "__index");
    lua_pushliteral(L, "experiment");
    lua_setfield(L, -2, "__metatable");
    luaL_newmetatable(L, why_type);
    luaL_newlib(L, why_methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 2);
}
