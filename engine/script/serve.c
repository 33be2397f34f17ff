/* The script process from outside: its messages, its end, and the order of things: pool, Lua state, sandbox, then the
 * script. Requests are rows of one table. */
#include "config.h"
#include "script/process.h"
#include "script/start.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "graph/graph_json.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* For the pool's `exhausted`, which is told nothing. */
static fb_process *the_process;

/* ---- lines out ---- */

static void flush_output(fb_process *p)
{
    for (size_t done = 0; done < p->output_n;) {
        ssize_t k = write(p->out, p->output + done, p->output_n - done);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) _exit(1); /* the front is gone */
        done += (size_t)k;
    }
    p->output_n = 0;
}

static void put(fb_process *p, const char *bytes, size_t n)
{
    while (n) {
        size_t k = sizeof p->output - p->output_n;
        if (k > n) k = n;
        memcpy(p->output + p->output_n, bytes, k);
        p->output_n += k;
        bytes += k;
        n -= k;
        if (p->output_n == sizeof p->output) flush_output(p);
    }
}

/* Nothing is allocated between a line's first byte and its end, so that fb_process_die always begins on a line of its
 * own. */
bool fb_process_write_line(void *process, const char *text, size_t n)
{
    put(process, text, n);
    put(process, "\n", 1);
    return true;
}

void fb_process_send(fb_process *p, json_t *message)
{
    char *line = fb_json_line(message);
    json_decref(message);
    fb_process_write_line(p, line, strlen(line));
    fb_free(line);
    flush_output(p);
}

_Noreturn void fb_process_die(fb_process *p, const char *sentence)
{
    char text[FB_PROCESS_NAME + 200], line[FB_PROCESS_NAME + 300];
    char where[24] = "";
    if (p->line) snprintf(where, sizeof where, ":%d", p->line);
    snprintf(text, sizeof text, "%s%s: %s", p->name, where, sentence);
    for (char *c = text; *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < 0x20) *c = '?';
    int n = snprintf(line, sizeof line,
                     "{\"fatal\":true,\"id\":0,\"kind\":\"limit\",\"line\":%d,\"text\":\"%s\",\"type\":\"error\"}",
                     p->line, text);
    fb_process_write_line(p, line, (size_t)n);
    flush_output(p);
    _exit(1);
}

static void exhausted(void)
{
    fb_process_die(the_process, "the script used more than 64 MB");
}

static void send_error(fb_process *p, int64_t id, const fb_error *err, int line, bool fatal)
{
    /* "fatal" sorts first: the front tells an error in the middle of a graph's lines by how it begins. */
    json_t *m = json_pack("{s:I, s:s, s:i, s:s, s:s}", "id", (json_int_t)id, "kind", fb_error_kind_name(err->kind),
                          "line", line, "text", err->text, "type", "error");
    if (!m)
        m = json_pack("{s:I, s:s, s:s}", "id", (json_int_t)id, "text", "the error's text is not valid UTF-8", "type",
                      "error");
    json_object_set_new(m, "fatal", json_boolean(fatal));
    fb_process_send(p, m);
}

/* ---- lines in ---- */

/* The next message; ends the process with its input. New reference. */
static json_t *read_message(fb_process *p)
{
    if (p->input_taken) memmove(p->input, p->input + p->input_taken, p->input_n - p->input_taken);
    p->input_n -= p->input_taken;
    p->input_taken = 0;
    for (size_t scanned = 0;;) {
        char *end = p->input_n > scanned ? memchr(p->input + scanned, '\n', p->input_n - scanned) : NULL;
        if (end) {
            size_t n = (size_t)(end - p->input);
            p->input_taken = n + 1;
            fb_error err;
            json_t *m = fb_json_parse(p->input, n, &err);
            if (!m) fb_process_die(p, "the front sent something that is no message");
            return m;
        }
        scanned = p->input_n;
        if (p->input_room - p->input_n < 4096) {
            p->input_room = p->input_room ? 2 * p->input_room : 1 << 16;
            p->input = fb_realloc(p->input, p->input_room);
        }
        ssize_t k = read(p->in, p->input + p->input_n, p->input_room - p->input_n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) _exit(0);
        p->input_n += (size_t)k;
    }
}

static const char *type_of(const json_t *message)
{
    return fb_json_string_or(message, "type", "");
}

static const json_t *hold(fb_process *p, json_t *message)
{
    json_decref(p->held);
    return p->held = message;
}

json_t *fb_process_draft(fb_process *p, json_t *message)
{
    json_decref(p->draft);
    return p->draft = message;
}

const json_t *fb_process_await(fb_process *p, const char *type)
{
    for (;;) {
        json_t *m = read_message(p);
        if (strcmp(type_of(m), type) == 0) return hold(p, m);
        json_array_append_new(p->deferred, m);
    }
}

/* ---- time ---- */

void fb_process_begin_turn(fb_process *p)
{
    p->turn_ns = fb_now_ns();
    p->turn_cpu_ns = fb_cpu_ns();
    p->blame = 0;
    p->away = false;
    p->prints = 0;
}

/* A count hook stops what runs in Lua, and says where; the front stops the rest. It ends the process rather than
 * raising an error, because pcall catches errors. */
static void check_time(lua_State *L, lua_Debug *ar)
{
    (void)ar;
    fb_process *p = fb_process_of(L);
    fb_lua_line(L); /* kept: running out of memory is noticed where Lua cannot be asked */
    const int64_t most = FB_PROCESS_TURN_MS * 1000000ll;
    if (fb_now_ns() - p->turn_ns < most || fb_cpu_ns() - p->turn_cpu_ns < most) return; /* the first is cheap */
    fb_process_die(p, "ran for 2 s without coming to an end, and was stopped");
}

/* ---- requests ---- */

typedef struct {
    const char *type;
    bool (*serve)(fb_process *p, const json_t *message, int64_t id, fb_error *err, int *line);
    bool while_measuring; /* may come while an experiment waits */
} request;

static bool serve_load(fb_process *p, const json_t *m, int64_t id, fb_error *err, int *line)
{
    (void)id;
    const char *path, *text;
    if (!fb_json_get_string(m, "path", &path, err) || !fb_json_get_string(m, "text", &text, err)) return false;
    const char *name = fb_file_name(path);
    fb_text_clean(p->name, sizeof p->name, name, strlen(name));
    fb_module_load load = {
        .text = text, .n = json_string_length(json_object_get(m, "text")), .set = json_object_get(m, "set")};
    if (!fb_lua_call(p, fb_module_run, &load, err, line)) return false;
    p->loaded = true;
    fb_process_send(p, json_incref(load.info));
    return true;
}

static void drop_graph(fb_built *b)
{
    fb_graph_free(b->graph);
    b->graph = NULL;
}

static bool build(fb_process *p, const char *variant, const json_t *params, fb_graph **out, fb_error *err, int *line)
{
    fb_graph_request r = {.variant = variant, .params = params};
    bool ok = fb_lua_call(p, fb_process_build_graph, &r, err, line);
    fb_graph_free(p->graph);
    p->graph = NULL;
    *out = r.result;
    return ok;
}

static fb_built *find_built(fb_process *p, fb_hash hash)
{
    for (int i = 0; i < p->built.n; i++)
        if (fb_hash_equal(p->built.at[i].hash, hash)) return &p->built.at[i];
    return NULL;
}

/* Keeps the last few graphs, as long as they are small together: a sweep of thousands runs in the same memory. */
static void keep_graph(fb_process *p, fb_built b)
{
    enum { REMEMBERED = 4096 };
    fb_built *old = find_built(p, b.hash);
    if (!old && p->built.n == REMEMBERED) old = p->built.at;
    if (old) {
        drop_graph(old);
        fb_free(old->variant);
        json_decref(old->params);
        memmove(old, old + 1, (size_t)(p->built.at + p->built.n - (old + 1)) * sizeof *old);
        p->built.n--;
    }
    FB_VEC_PUSH(&p->built, b);
    int graphs = 0, nodes = 0;
    for (int i = p->built.n - 1; i >= 0; i--) {
        fb_built *at = &p->built.at[i];
        if (!at->graph) continue;
        graphs++;
        nodes += at->graph->n_nodes;
        if (graphs > FB_PROCESS_KEPT || nodes > FB_PROCESS_KEPT_NODES) drop_graph(at);
    }
}

static bool serve_build(fb_process *p, const json_t *m, int64_t id, fb_error *err, int *line)
{
    const char *variant;
    fb_graph *g;
    const json_t *params = json_object_get(m, "params");
    if (!fb_json_get_string(m, "variant", &variant, err) || !build(p, variant, params, &g, err, line)) return false;
    char hex[33];
    fb_process_send(
        p, json_pack("{s:s, s:I, s:s}", "type", "graph", "id", (json_int_t)id, "hash", fb_hash_hex(g->hash, hex)));
    fb_graph_write_lines(g, fb_process_write_line, p);
    flush_output(p);
    keep_graph(
        p, (fb_built){.hash = g->hash, .variant = fb_strdup(variant), .params = json_deep_copy(params), .graph = g});
    return true;
}

static bool serve_plan(fb_process *p, const json_t *m, int64_t id, fb_error *err, int *line)
{
    const char *hex;
    fb_plan_request r = {0};
    fb_hash hash;
    if (!fb_json_get_string(m, "graph", &hex, err) || !fb_json_get_string(m, "name", &r.name, err)) return false;
    fb_built *b = fb_hash_parse(hex, &hash) ? find_built(p, hash) : NULL;
    if (!b) return fb_fail(err, FB_ERR_INPUT, "plan %s: the script has built no graph %.40s", r.name, hex);
    const json_t *machine = json_object_get(m, "machine");
    fb_machine_default(&r.machine, fb_target_everywhere()->kind);
    if (machine && !fb_machine_from_json(&r.machine, machine, err)) return false;
    fb_graph *again = NULL;
    if (!b->graph && !build(p, b->variant, b->params, &again, err, line)) return false;
    r.graph = again ? again : b->graph;
    bool ok = fb_lua_call(p, fb_process_run_plan, &r, err, line);
    if (ok) fb_process_send(p, json_pack("{s:s, s:I, s:O}", "type", "plan", "id", (json_int_t)id, "plan", r.result));
    fb_graph_free(again);
    return ok;
}

static bool serve_experiment(fb_process *p, const json_t *m, int64_t id, fb_error *err, int *line)
{
    fb_run_request r = {.id = id, .params = json_object_get(m, "params")};
    p->rows = p->measures = p->repeats = 0;
    p->stopped = false;
    p->row_bytes = 0;
    if (!fb_lua_call(p, fb_process_run_experiment, &r, err, line)) return false;
    fb_process_send(p, json_pack("{s:s, s:I}", "type", "done", "id", (json_int_t)id));
    return true;
}

static bool serve_answer(fb_process *p, const json_t *m, int64_t id, fb_error *err, int *line)
{
    fb_run_request r = {.id = id, .why = json_object_get(m, "why")};
    if (!fb_lua_call(p, fb_answer_run, &r, err, line)) return false;
    fb_process_send(p, json_pack("{s:s, s:I, s:O}", "type", "answer", "id", (json_int_t)id, "answer", r.result));
    return true;
}

static const request requests[] = {
    {"load", serve_load, false},    {"build", serve_build, true},
    {"plan", serve_plan, true},     {"experiment", serve_experiment, false},
    {"answer", serve_answer, true},
};

static const request *find_request(const char *type)
{
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        if (strcmp(requests[i].type, type) == 0) return &requests[i];
    return NULL;
}

/* Serves one request; the message stays the caller's. */
static void serve(fb_process *p, const json_t *message)
{
    const request *r = find_request(type_of(message));
    int64_t id = fb_json_int_or(message, "id", 0);
    fb_error err = {0};
    int line = 0;
    bool load = r && r->serve == serve_load;
    fb_process_begin_turn(p);
    p->line = 0;
    bool ok = !r ? fb_fail(&err, FB_ERR_INPUT, "unknown request \"%.40s\"", type_of(message))
              : load == p->loaded
                  ? fb_fail(&err, FB_ERR_INPUT, load ? "a script is loaded already" : "no script is loaded")
                  : r->serve(p, message, id, &err, &line);
    if (ok) return;
    send_error(p, id, &err, line, load);
    if (load) _exit(1);
}

const json_t *fb_process_await_measured(fb_process *p)
{
    for (;;) {
        json_t *m = read_message(p);
        const request *r = find_request(type_of(m));
        if (r && r->while_measuring) {
            serve(p, m);
            json_decref(m);
        } else if (strcmp(type_of(m), "measured") == 0) {
            fb_process_begin_turn(p);
            return hold(p, m);
        } else {
            json_array_append_new(p->deferred, m);
        }
    }
}

int fb_script_process(void *ctx, int in, int out)
{
    (void)ctx;
    /* The first two need memory of their own before the pool takes over; Lua must read and write 1.5 everywhere. */
    setlocale(LC_NUMERIC, "C");
    static fb_process process;
    fb_process *p = the_process = &process;
    *p = (fb_process){.in = in, .out = out, .name = "script"};
    fb_error err = {0};
    if (!fb_mem_use_pool(FB_SCRIPT_POOL, exhausted)) fb_process_die(p, "no memory for a script process");
    fb_json_init();
    json_object_seed(1); /* 0 would open /dev/urandom */
    p->deferred = json_array();
    if (!fb_lua_new(p, &err) || !fb_sandbox_enter(&err)) {
        send_error(p, 0, &err, 0, true);
        return 1;
    }
    lua_sethook(p->L, check_time, LUA_MASKCOUNT, 1000);
    for (;;) {
        json_t *m;
        if (json_array_size(p->deferred)) {
            m = json_incref(json_array_get(p->deferred, 0));
            json_array_remove(p->deferred, 0);
        } else {
            m = read_message(p);
        }
        serve(p, m);
        json_decref(m);
    }
}
