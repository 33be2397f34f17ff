/* Scripts that a grammar wrote from the bytes, run in this process as the confined one runs them, but for its sandbox:
 * with less memory, and a count of instructions in place of the clock. What the front would be sent goes nowhere; what
 * it would answer lies ready. */
#include "fuzz/decoders.h"
#include "fuzz/grammar.h"
#include "fuzz/must.h"

#include "base/json.h"
#include "graph/canon.h"
#include "graph/graph_json.h"
#include "script/process.h"

#include <fcntl.h>

enum { MEMORY = 8 << 20, INSTRUCTIONS = 200000, HOOK = 1000, ANSWERS = 40, NODES = 64 };

static fb_process process;
static const char *script; /* the text, told with a finding */
static size_t used;        /* by Lua */
static int turns;          /* of the hook */

/* Less than a script has, and given back when it ends. */
static void *allocate(void *ud, void *block, size_t old, size_t bytes)
{
    (void)ud;
    if (!block) old = 0;
    if (bytes > old && used + (bytes - old) > MEMORY) return NULL;
    used += bytes - old;
    if (bytes) return fb_try_realloc(block, bytes);
    fb_free(block);
    return NULL;
}

/* Raised anew each time, so that no pcall goes on for ever. */
static void count(lua_State *L, lua_Debug *ar)
{
    (void)ar;
    if (++turns * HOOK > INSTRUCTIONS) fb_lua_raise(L, "too many instructions");
}

static void begin(const char *answers)
{
    static int nowhere = -1;
    fb_error err = {0};
    if (nowhere < 0) nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    process = (fb_process){.in = nowhere, .out = nowhere, .name = "script.lua", .deferred = json_array()};
    used = 0;
    turns = 0;
    MUST(fb_lua_new(&process, &err));
    lua_setallocf(process.L, allocate, NULL);
    lua_sethook(process.L, count, LUA_MASKCOUNT, HOOK);
    process.input = fb_strdup(answers);
    process.input_n = process.input_room = strlen(answers);
}

static void end(void)
{
    fb_graph_free(process.graph);
    lua_close(process.L);
    json_decref(process.deferred);
    json_decref(process.held);
    json_decref(process.draft);
    json_decref(process.params);
    json_decref(process.variants);
    fb_free(process.input);
}

/* A refusal begins with the script's name and the line, which is said beside it too. */
static void check_refusal(const fb_error *err, int line)
{
    char start[40];
    snprintf(start, sizeof start, "script.lua:%d: ", line);
    check_error(err);
    if (err->kind == FB_ERR_LIMIT) return; /* of memory: where, is not always known */
    if (line < 1 || strncmp(err->text, start, strlen(start)) != 0 || !err->text[strlen(start)])
        fprintf(stderr, "%s\nline %d: %s\n", script, line, err->text);
    MUST(line > 0);
    MUST(strncmp(err->text, start, strlen(start)) == 0 && err->text[strlen(start)]);
}

static bool load(const fb_str *text)
{
    fb_error err = {0};
    int line = 0;
    script = fb_str_get(text);
    fb_module_load load = {.text = text->text, .n = text->n};
    if (fb_lua_call(&process, fb_module_run, &load, &err, &line)) return true;
    check_error(&err); /* what the script returned is of no line */
    return false;
}

/* ---- graphs ---- */

typedef struct {
    fb_graph_reader *reader;
    bool done;
} receiver;

static bool take_line(void *ctx, const char *text, size_t n)
{
    receiver *r = ctx;
    fb_error err = {0};
    bool fine = fb_graph_reader_feed(r->reader, text, n, &r->done, &err);
    if (!fine) fprintf(stderr, "%s\n%s\n%.*s\n", script, err.text, (int)n, text);
    MUST(fine);
    return true;
}

/* The front reads what it was sent, and finds the hash that was announced. */
static void check_graph(const fb_graph *g)
{
    receiver r = {.reader = fb_graph_reader_new()};
    fb_graph_write_lines(g, take_line, &r);
    MUST(r.done);
    fb_graph *again = fb_graph_reader_take(r.reader);
    MUST(again->canonical && fb_hash_equal(again->hash, g->hash));
    fb_graph_free(again);
    fb_graph_reader_free(r.reader);
}

void run_lua_graph(const uint8_t *bytes, size_t n)
{
    static const char answers[] = "{\"type\":\"file\",\"key\":\"0123456789abcdef0123456789abcdef\",\"shape\":[2,3],"
                                  "\"dtype\":\"f32\"}\n{\"type\":\"file\",\"error\":\"no\"}\n";
    fb_str text = {0}, ready = {0};
    fb_error err = {0};
    int line = 0;
    for (int i = 0; i < ANSWERS; i++) fb_str_add(&ready, answers);
    grammar_graph(bytes, n, &text);
    begin(fb_str_get(&ready));
    if (load(&text)) {
        fb_graph_request r = {.variant = "v", .params = NULL};
        if (fb_lua_call(&process, fb_process_build_graph, &r, &err, &line))
            check_graph(r.result);
        else
            check_refusal(&err, line);
        fb_graph_free(r.result);
    }
    end();
    fb_str_free(&text);
    fb_str_free(&ready);
}

/* ---- plans ---- */

static const char *const models[] = {
    "local x = g:input(\"x\", { 4, 8 }) local w = g:param(\"w\", { 8, 4 })\n"
    "return (x:matmul(w) + 1):relu():sum(1)",
    "local x = g:input(\"x\", { 16 }) local f = {}\n"
    "for i, p in ipairs(x:split(4)) do g:scope(\"feature\", i, function()\n"
    "f[i] = (p - p:mean(0, true)):tanh() end) end\nreturn g:stack(f):exp():sum(0)",
    "local x = g:input(\"x\", { 4, 3 })\n"
    "local s, y = g:scan({ x }, { g:zeros({ 3 }) }, function(a, h) local n = (a + h):tanh() return { n }, { n } end)\n"
    "return s[1]:exp(), y[1]:sum(0)",
};
enum { MODELS = sizeof models / sizeof *models };

/* Built once each: a plan is about edits. */
static const fb_graph *graph_of(int model)
{
    static fb_graph *made[MODELS];
    if (made[model]) return made[model];
    fb_str text = {0};
    fb_error err = {0};
    fb_graph_request r = {.variant = "v", .params = NULL};
    fb_str_addf(&text, "local fb = require \"fusebox\"\nreturn fb.script { variants = { v = function(g)\n%s\nend } }\n",
                models[model]);
    begin("");
    MUST(load(&text) && fb_lua_call(&process, fb_process_build_graph, &r, &err, NULL));
    end();
    fb_str_free(&text);
    return made[model] = r.result;
}

/* The front reads the plan as the script's process wrote it, with a planner that it has already. */
static void check_plan(int model, bool cuda, const fb_machine *m, const json_t *value)
{
    static fb_planner *planners[MODELS][2];
    fb_planner **planner = &planners[model][cuda];
    fb_error err = {0};
    if (!*planner) *planner = fb_planner_new(graph_of(model), m);
    fb_plan *plan = fb_plan_from_json(*planner, value, true, NULL, &err);
    if (!plan) fprintf(stderr, "%s\n", err.text);
    MUST(plan);
    fb_plan_free(plan);
}

/* The first byte says which graph, and whose machine. */
void run_lua_plan(const uint8_t *bytes, size_t n)
{
    if (!n) return;
    const fb_graph *g = graph_of(bytes[0] % MODELS);
    const char *names[NODES];
    int n_names = 0, line = 0;
    fb_str text = {0};
    fb_error err = {0};
    for (fb_id i = 0; i < g->n_nodes && n_names < NODES; i++) names[n_names++] = g->nodes[i].name;
    grammar_plan(bytes + 1, n - 1, names, n_names, &text);
    begin("");
    if (load(&text)) {
        fb_plan_request r = {.graph = g, .name = "p"};
        bool cuda = bytes[0] & 64;
        fb_machine_default(&r.machine, cuda ? FB_DEVICE_CUDA : FB_DEVICE_HOST);
        if (fb_lua_call(&process, fb_process_run_plan, &r, &err, &line))
            check_plan(bytes[0] % MODELS, cuda, &r.machine, r.result);
        else
            check_refusal(&err, line);
    }
    end();
    fb_str_free(&text);
}

/* ---- experiments ---- */

void run_lua_experiment(const uint8_t *bytes, size_t n)
{
    static const char *const replies[] = {
        "{\"type\":\"measured\",\"report\":{\"wall_us\":{\"median\":1.5,\"n\":3},\"variant\":\"v\",\"kernels\":[{}]}}"
        "\n",
        "{\"type\":\"measured\",\"report\":{\"failed\":\"no\"}}\n",
    };
    fb_str text = {0}, ready = {0};
    fb_error err = {0};
    int line = 0;
    for (int i = 0; i < ANSWERS; i++) fb_str_add(&ready, replies[i % 3 == 2]);
    fb_str_add(&ready, "{\"type\":\"measured\",\"stop\":true}\n");
    grammar_experiment(bytes, n, &text);
    begin(fb_str_get(&ready));
    if (load(&text)) {
        fb_run_request r = {.id = 1};
        process.measures = FB_SCRIPT_MEASURES - ANSWERS; /* no more than there are answers */
        if (!fb_lua_call(&process, fb_process_run_experiment, &r, &err, &line)) check_refusal(&err, line);
    }
    end();
    fb_str_free(&text);
    fb_str_free(&ready);
}
