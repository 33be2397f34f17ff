/* The front's side of a script: starts the process, keeps its time, answers its questions for files, and takes nothing
 * that comes back on trust. */
#include "script/script.h"

#include "base/clock.h"
#include "base/embedded.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "graph/canon.h"
#include "graph/graph_json.h"
#include "script/files.h"
#include "script/start.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_EVENTS = 200000, MAX_LOGS_A_TURN = 1100, MAX_NAMES = 1000 };

typedef enum { EXPERIMENT_NONE, EXPERIMENT_RUNS, EXPERIMENT_WAITS } experiment_state;

struct fb_script {
    char *path, *folder; /* folder: of the script, "" when it is bundled and has none */
    char name[64];       /* "script.lua", as it stands in messages */
    bool bundled;
    fb_child child;
    bool gone, said_why;
    int64_t last_id;
    FB_VEC(fb_script_event) events;
    int taken;               /* events given out */
    fb_graph_reader *reader; /* of the graph that is arriving */
    int64_t reader_id;
    fb_hash expected;
    int pending; /* requests not answered, experiments apart */
    experiment_state experiment;
    int64_t experiment_id;
    int64_t deadline_ns; /* when the turn is looked at, 0: nothing runs */
    int64_t wall_ns;     /* when it is over, whatever the process computed … */
    int64_t patience_ns; /* … this long after its beginning */
    int64_t turn_cpu_ns; /* what the process had computed when it began */
    int rows;            /* rows and plots of the experiment … */
    size_t row_bytes;    /* … and the bytes of their lines */
    size_t line_bytes;   /* of the message being taken */
    int logs;
    bool more; /* lines were left for the next pump */
    FB_VEC(fb_file_table) files;
};

/* Writes what the pipe takes without waiting, and reads nothing: what is read outside fb_script_pump would lie there
 * unseen. An end shows at the next pump. */
static void send_now(fb_script *s)
{
    fb_error ignored;
    fb_channel_flush(s->child.channel, 0, &ignored);
}

/* ---- events ---- */

static fb_script_event *push_event(fb_script *s, fb_script_event_kind kind, int64_t id)
{
    FB_VEC_PUSH(&s->events, (fb_script_event){.kind = kind, .id = id});
    return &s->events.at[s->events.n - 1];
}

static void push_error(fb_script *s, int64_t id, fb_error_kind kind, int line, const char *text)
{
    fb_script_event *e = push_event(s, FB_SCRIPT_ERROR, id);
    fb_fail(&e->error, kind, "%s", text);
    e->line = line;
}

bool fb_script_next(fb_script *s, fb_script_event *out)
{
    if (s->taken == s->events.n) {
        s->taken = s->events.n = 0;
        return false;
    }
    *out = s->events.at[s->taken++];
    return true;
}

void fb_script_event_clear(fb_script_event *e)
{
    fb_script_info_free(e->info);
    fb_graph_free(e->graph);
    json_decref(e->message);
    *e = (fb_script_event){0};
}

/* ---- time ---- */

static bool busy(const fb_script *s)
{
    return s->pending > 0 || s->experiment == EXPERIMENT_RUNS;
}

/* What the process has computed; 0 where it cannot be asked any more, which its closed pipe tells as well. */
static int64_t cpu_of(const fb_script *s)
{
    clockid_t clock;
    struct timespec t;
    if (s->child.pid <= 0 || clock_getcpuclockid(s->child.pid, &clock) != 0 || clock_gettime(clock, &t) != 0) return 0;
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A turn begins when the process gets something to do, and when one thing is done and the next waits. */
static void begin_turn(fb_script *s)
{
    s->logs = 0;
    int64_t now = fb_now_ns();
    s->wall_ns = now + s->patience_ns;
    s->deadline_ns = busy(s) ? now + FB_SCRIPT_TURN_MS * 1000000ll : 0;
    if (s->deadline_ns > s->wall_ns) s->deadline_ns = s->wall_ns;
    s->turn_cpu_ns = cpu_of(s);
}

/* A turn ends with each answer; who gives answers without end would never run out of turns. */
static bool is_awaited(const fb_script *s, fb_error *err)
{
    return s->pending > 0 || fb_fail(err, FB_ERR_INPUT, "an answer that nobody asked for");
}

static void answered(fb_script *s)
{
    if (s->pending) s->pending--;
    begin_turn(s);
}

/* The process is no more; what is left of it is one sentence. */
static void end(fb_script *s, fb_error_kind kind, const char *why)
{
    char text[400];
    snprintf(text, sizeof text, "%s: %s", s->name, why);
    if (!s->said_why) push_error(s, 0, kind, 0, text);
    s->said_why = s->gone = true;
    s->pending = 0;
    s->experiment = EXPERIMENT_NONE;
    s->deadline_ns = 0;
    fb_graph_reader_free(s->reader);
    s->reader = NULL;
    fb_child_kill(&s->child);
}

static void distrust(fb_script *s, const char *what)
{
    char text[400];
    snprintf(text, sizeof text, "the script process sent something that makes no sense: %.300s", what);
    end(s, FB_ERR_CRASH, text);
}

/* The limit is of CPU time: on a machine where everybody computes, the clock on the wall goes faster than the script.
 */
static void check_turn(fb_script *s, int64_t now)
{
    enum { SOONEST_NS = 20000000 };
    const int64_t used = cpu_of(s) - s->turn_cpu_ns, left = FB_SCRIPT_TURN_MS * 1000000ll - used;
    char text[160];
    if (now < s->wall_ns && left > 0) {
        s->deadline_ns = now + (left > SOONEST_NS ? left : SOONEST_NS);
        if (s->deadline_ns > s->wall_ns) s->deadline_ns = s->wall_ns;
        return;
    }
    if (left > 0)
        snprintf(text, sizeof text, "took more than %g s, in which it could compute for %.1f s, and was stopped",
                 (double)s->patience_ns * 1e-9, (double)used * 1e-9);
    else
        snprintf(text, sizeof text, "ran for %g s without coming to an end, and was stopped",
                 FB_SCRIPT_TURN_MS / 1000.0);
    end(s, FB_ERR_LIMIT, text);
}

/* ---- questions for files ---- */

/* Names that lead nowhere but downwards from the script's folder. */
static bool plain_path(const char *name)
{
    if (!*name || *name == '/' || strlen(name) > 200 || strstr(name, "..")) return false;
    for (const char *c = name; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./", *c)) return false;
    return true;
}

static char *read_bundled(const fb_script *s, const char *name, size_t *n, fb_error *err)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", s->folder, name);
    const fb_embedded_file *f = fb_embedded_find(path);
    if (!f) return fb_fail(err, FB_ERR_INPUT, "there is no file %s beside a bundled script", name), NULL;
    char *bytes = fb_alloc(f->size + 1);
    memcpy(bytes, f->text, f->size);
    bytes[f->size] = '\0';
    *n = f->size;
    return bytes;
}

/* Reads a file in the script's folder, wherever links may lead. */
static char *read_beside(const fb_script *s, const char *name, size_t limit, size_t *n, fb_error *err)
{
    char joined[PATH_MAX], folder[PATH_MAX], file[PATH_MAX];
    if (s->bundled) return read_bundled(s, name, n, err);
    if (!plain_path(name))
        return fb_fail(err, FB_ERR_INPUT, "%s: files are named relative to the script's folder, without \"..\"", name),
               NULL;
    if (snprintf(joined, sizeof joined, "%s/%s", s->folder, name) >= (int)sizeof joined ||
        !realpath(s->folder, folder) || !realpath(joined, file))
        return fb_fail(err, FB_ERR_INPUT, "there is no file %s beside the script", name), NULL;
    size_t length = strlen(folder);
    if (strncmp(file, folder, length) != 0 || (file[length] != '/' && strcmp(folder, "/") != 0))
        return fb_fail(err, FB_ERR_INPUT, "%s leads out of the script's folder", name), NULL;
    char *text = fb_read_file(file, limit, n, err);
    return text;
}

static const char *bundled_library(const fb_script *s, const char *relative)
{
    char path[512];
    snprintf(path, sizeof path, "scripts/lib/%s.lua", relative);
    const char *text = fb_embedded(path);
    if (text || !s->bundled) return text;
    snprintf(path, sizeof path, "%s/%s.lua", s->folder, relative);
    return fb_embedded(path);
}

static json_t *source_reply(fb_script *s, const char *name)
{
    fb_error err = {0};
    char relative[256], file[264];
    snprintf(relative, sizeof relative, "%s", name);
    if (!plain_path(name))
        return json_pack("{s:s, s:s+}", "type", "source", "error", "require: not a module's name: ", name);
    for (char *c = relative; *c; c++)
        if (*c == '.') *c = '/';
    const char *text = bundled_library(s, relative);
    snprintf(file, sizeof file, "%s.lua", relative);
    if (text) return json_pack("{s:s, s:s, s:s, s:b}", "type", "source", "name", file, "text", text, "bundled", true);
    size_t n;
    char *read = read_beside(s, file, FB_SCRIPT_TEXT_MAX, &n, &err);
    if (!read) return json_pack("{s:s, s:s+}", "type", "source", "error", "require: ", err.text);
    json_t *reply = json_pack("{s:s, s:s, s:s%}", "type", "source", "name", file, "text", read, n);
    fb_free(read);
    return reply ? reply
                 : json_pack("{s:s, s:s++}", "type", "source", "error", "require: ", file,
                             " is not a text file in UTF-8");
}

static json_t *shape_json(const fb_shape *shape)
{
    json_t *array = json_array();
    for (int d = 0; d < shape->rank; d++) json_array_append_new(array, json_integer(shape->dim[d]));
    return array;
}

static json_t *file_reply(fb_script *s, const char *name, const json_t *columns)
{
    fb_error err = {0};
    size_t n;
    fb_file_table table;
    char *bytes = read_beside(s, name, FB_FILE_MAX, &n, &err);
    bool ok = bytes && fb_script_parse_file(name, bytes, n, columns, &table, &err);
    fb_free(bytes);
    if (!ok) return json_pack("{s:s, s:s}", "type", "file", "error", err.text);
    bool known = fb_script_file(s, table.key, NULL) != NULL;
    json_t *reply = json_pack("{s:s, s:s, s:o, s:s}", "type", "file", "key", table.key, "shape",
                              shape_json(&table.shape), "dtype", fb_dtype_name(table.dtype));
    if (known)
        fb_free(table.values);
    else
        FB_VEC_PUSH(&s->files, table);
    return reply;
}

const double *fb_script_file(const fb_script *s, const char *key, int64_t *n)
{
    for (int i = 0; i < s->files.n; i++) {
        if (strcmp(s->files.at[i].key, key) != 0) continue;
        if (n) *n = s->files.at[i].n;
        return s->files.at[i].values;
    }
    return NULL;
}

/* ---- what comes back ---- */

static bool take_require(fb_script *s, const json_t *m, fb_error *err)
{
    const char *name;
    if (!fb_json_get_string(m, "name", &name, err)) return false;
    fb_channel_send(s->child.channel, source_reply(s, name));
    return true;
}

static bool take_load_file(fb_script *s, const json_t *m, fb_error *err)
{
    const char *name;
    if (!fb_json_get_string(m, "name", &name, err)) return false;
    fb_channel_send(s->child.channel, file_reply(s, name, json_object_get(m, "columns")));
    return true;
}

static bool take_script(fb_script *s, const json_t *m, fb_error *err)
{
    fb_error why = {0};
    if (!is_awaited(s, err)) return false;
    fb_script_info *info = fb_script_info_read(m, s->path, &why);
    if (!info) { /* the script's fault, not the process's */
        end(s, FB_ERR_INPUT, why.text);
        return true;
    }
    push_event(s, FB_SCRIPT_INFO, 0)->info = info;
    answered(s);
    return true;
}

static bool take_log(fb_script *s, const json_t *m, fb_error *err)
{
    const char *text;
    if (!fb_json_get_string(m, "text", &text, err)) return false;
    if (s->logs++ >= MAX_LOGS_A_TURN) return true;
    fb_script_event *e = push_event(s, FB_SCRIPT_LOG, 0);
    fb_text_clean(e->text, sizeof e->text, text, strlen(text));
    return true;
}

static bool take_graph(fb_script *s, const json_t *m, fb_error *err)
{
    const char *hash;
    if (!is_awaited(s, err) || !fb_json_get_int(m, "id", 1, s->last_id, &s->reader_id, err) ||
        !fb_json_get_string(m, "hash", &hash, err))
        return false;
    if (!fb_hash_parse(hash, &s->expected)) return fb_fail(err, FB_ERR_INPUT, "a graph's hash");
    s->reader = fb_graph_reader_new();
    return true;
}

/* PLAN, ROW, PLOT, ANSWER and MEASURE: the message itself, its parts checked by who uses them. */
static bool take_message(fb_script *s, const json_t *m, fb_script_event_kind kind, const char *key, bool object,
                         fb_error *err)
{
    int64_t id;
    if (!fb_json_get_int(m, "id", 1, s->last_id, &id, err)) return false;
    if (object && !json_is_object(json_object_get(m, key)))
        return fb_fail(err, FB_ERR_INPUT, "field \"%s\" is not an object", key);
    push_event(s, kind, id)->message = json_incref((json_t *)m);
    return true;
}

static bool take_plan(fb_script *s, const json_t *m, fb_error *err)
{
    if (!is_awaited(s, err) || !take_message(s, m, FB_SCRIPT_PLAN, "plan", true, err)) return false;
    answered(s);
    return true;
}

static bool take_answer(fb_script *s, const json_t *m, fb_error *err)
{
    if (!is_awaited(s, err) || !take_message(s, m, FB_SCRIPT_ANSWER, "answer", false, err)) return false;
    answered(s);
    return true;
}

static bool experiment_runs(const fb_script *s, fb_error *err)
{
    return s->experiment == EXPERIMENT_RUNS || fb_fail(err, FB_ERR_INPUT, "no experiment runs");
}

static bool take_measure(fb_script *s, const json_t *m, fb_error *err)
{
    if (!experiment_runs(s, err) || !take_message(s, m, FB_SCRIPT_MEASURE, "params", true, err)) return false;
    s->experiment = EXPERIMENT_WAITS;
    begin_turn(s);
    return true;
}

/* The process holds to these limits itself, with the script's line; here they are held to in any case. */
static bool count_row(fb_script *s, fb_error *err)
{
    s->row_bytes += s->line_bytes;
    return (++s->rows <= FB_SCRIPT_ROWS && s->line_bytes <= 2 * FB_SCRIPT_ROW_BYTES &&
            s->row_bytes <= 2 * FB_SCRIPT_ROWS_BYTES) ||
           fb_fail(err, FB_ERR_LIMIT, "more rows than an experiment may give");
}

static bool take_row(fb_script *s, const json_t *m, fb_error *err)
{
    return experiment_runs(s, err) && count_row(s, err) && take_message(s, m, FB_SCRIPT_ROW, "row", true, err);
}

static bool take_plot(fb_script *s, const json_t *m, fb_error *err)
{
    return experiment_runs(s, err) && count_row(s, err) && take_message(s, m, FB_SCRIPT_PLOT, "", false, err);
}

static bool take_done(fb_script *s, const json_t *m, fb_error *err)
{
    int64_t id;
    if (!fb_json_get_int(m, "id", 1, s->last_id, &id, err) || !experiment_runs(s, err)) return false;
    s->experiment = EXPERIMENT_NONE;
    push_event(s, FB_SCRIPT_DONE, id);
    begin_turn(s);
    return true;
}

static bool take_error(fb_script *s, const json_t *m, fb_error *err)
{
    const char *text;
    int64_t id, line;
    char clean[480];
    if (!fb_json_get_string(m, "text", &text, err) || !fb_json_get_int(m, "id", 0, s->last_id, &id, err)) return false;
    bool fatal = fb_json_bool_or(m, "fatal", false);
    bool of_experiment = s->experiment != EXPERIMENT_NONE && id == s->experiment_id;
    if (!fatal && !of_experiment && !is_awaited(s, err)) return false;
    line = fb_json_int_or(m, "line", 0);
    if (fb_text_is_blank(text)) text = "the script gave no reason";
    fb_text_clean(clean, sizeof clean, text, strlen(text));
    push_error(s, id, fb_error_kind_parse(fb_json_string_or(m, "kind", "input")),
               line > 0 && line < INT_MAX ? (int)line : 0, clean);
    if (fatal) {
        s->said_why = true;
        end(s, FB_ERR_CRASH, "");
        return true;
    }
    if (of_experiment) {
        s->experiment = EXPERIMENT_NONE;
        begin_turn(s);
    } else {
        answered(s);
    }
    return true;
}

static const struct {
    const char *type;
    bool (*take)(fb_script *s, const json_t *m, fb_error *err);
} answers[] = {
    {"script", take_script},   {"log", take_log},         {"graph", take_graph},
    {"plan", take_plan},       {"require", take_require}, {"load_file", take_load_file},
    {"measure", take_measure}, {"row", take_row},         {"plot", take_plot},
    {"done", take_done},       {"answer", take_answer},   {"error", take_error},
};

static void take_line(fb_script *s, const char *line, size_t n)
{
    fb_error err = {0};
    json_t *m = fb_json_parse(line, n, &err);
    s->line_bytes = n;
    const char *type = m ? fb_json_string_or(m, "type", "") : "";
    size_t i = 0, count = sizeof answers / sizeof *answers;
    while (i < count && strcmp(answers[i].type, type) != 0) i++;
    if (m && i == count) fb_fail(&err, FB_ERR_INPUT, "a message of type \"%.40s\"", type);
    if (!m || i == count || !answers[i].take(s, m, &err)) distrust(s, err.text);
    json_decref(m);
}

/* The whole graph is here: it must be what it says, and canonical. */
static void take_whole_graph(fb_script *s)
{
    fb_error err = {0};
    fb_graph *g = fb_graph_reader_take(s->reader);
    fb_graph_reader_free(s->reader);
    s->reader = NULL;
    if (!g->canonical) {
        fb_graph *canonical = fb_graph_canonical(g, &err);
        fb_graph_free(g);
        g = canonical;
    }
    if (!g || !fb_hash_equal(g->hash, s->expected)) {
        fb_graph_free(g);
        distrust(s, "a graph with another hash than was announced");
        return;
    }
    push_event(s, FB_SCRIPT_GRAPH, s->reader_id)->graph = g;
    answered(s);
}

static void take_graph_line(fb_script *s, const char *line, size_t n)
{
    static const char fatal[] = "{\"fatal\":true";
    fb_error err = {0};
    bool whole = false;
    if (n >= sizeof fatal - 1 && memcmp(line, fatal, sizeof fatal - 1) == 0)
        take_line(s, line, n);
    else if (!fb_graph_reader_feed(s->reader, line, n, &whole, &err))
        distrust(s, err.text);
    else if (whole)
        take_whole_graph(s);
}

static void say_how_it_ended(fb_script *s)
{
    static const struct {
        const char *how, *words;
        fb_error_kind kind;
    } known[] = {
        {"was killed by SIGSYS", "the script tried something that scripts may not do, and was stopped", FB_ERR_CRASH},
        {"was killed by SIGXCPU", "the script used up its time, and was stopped", FB_ERR_LIMIT},
    };
    char how[100] = "", text[200];
    /* The pipe closes a moment before the process can be waited for. */
    for (int i = 0; i < 100 && !fb_child_ended(&s->child, how, sizeof how); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(how, known[i].how) == 0) {
            end(s, known[i].kind, known[i].words);
            return;
        }
    snprintf(text, sizeof text, "the script process %s", *how ? how : "closed its connection");
    end(s, FB_ERR_CRASH, text);
}

void fb_script_pump(fb_script *s)
{
    if (s->gone) return;
    int64_t began = fb_now_ns();
    fb_error err = {0};
    bool open = fb_channel_pump(s->child.channel, &err);
    const char *line;
    size_t n;
    while (!s->gone && s->events.n < MAX_EVENTS && (line = fb_channel_line(s->child.channel, &n))) {
        if (s->reader)
            take_graph_line(s, line, n);
        else
            take_line(s, line, n);
    }
    if (s->gone) return;
    if (!open) {
        say_how_it_ended(s);
        return;
    }
    s->more = s->events.n >= MAX_EVENTS;
    send_now(s);
    int64_t now = fb_now_ns();
    if (s->deadline_ns && now > s->deadline_ns)
        check_turn(s, now);
    else if (s->deadline_ns)
        s->deadline_ns += now - began; /* the time that reading took here is not the script's */
}

int fb_script_poll(const fb_script *s, struct pollfd out[2], int *timeout_ms)
{
    if (s->gone) return 0;
    if (s->more && timeout_ms) *timeout_ms = 0;
    if (s->deadline_ns && timeout_ms) {
        int64_t left = (s->deadline_ns - fb_now_ns()) / 1000000 + 1;
        if (left < 0) left = 0;
        if (*timeout_ms < 0 || left < *timeout_ms) *timeout_ms = (int)left;
    }
    return fb_channel_poll(s->child.channel, out);
}

/* ---- requests ---- */

/* Sends a request; steals `m`, which has no id yet. */
static int64_t ask(fb_script *s, json_t *m)
{
    int64_t id = ++s->last_id;
    if (s->gone) {
        char text[120];
        snprintf(text, sizeof text, "%s: the script process has ended; load the script again", s->name);
        push_error(s, id, FB_ERR_CRASH, 0, text);
        json_decref(m);
        return id;
    }
    json_object_set_new(m, "id", json_integer(id));
    bool idle = !busy(s);
    if (strcmp(json_string_value(json_object_get(m, "type")), "experiment") == 0) {
        s->experiment = EXPERIMENT_RUNS;
        s->experiment_id = id;
        s->rows = 0;
        s->row_bytes = 0;
    } else {
        s->pending++;
    }
    fb_channel_send(s->child.channel, m);
    if (idle) begin_turn(s);
    send_now(s);
    return id;
}

int64_t fb_script_build(fb_script *s, const char *variant, const json_t *params)
{
    json_t *given = params ? json_deep_copy(params) : json_object();
    return ask(s, json_pack("{s:s, s:s, s:o}", "type", "build", "variant", variant, "params", given));
}

int64_t fb_script_plan(fb_script *s, const fb_graph *g, const char *name, const fb_machine *m)
{
    char hex[33];
    json_t *request = json_pack("{s:s, s:s, s:s}", "type", "plan", "graph", fb_hash_hex(g->hash, hex), "name", name);
    if (m) json_object_set_new(request, "machine", fb_machine_to_json(m));
    return ask(s, request);
}

int64_t fb_script_experiment(fb_script *s, const json_t *params)
{
    json_t *given = params ? json_deep_copy(params) : json_object();
    return ask(s, json_pack("{s:s, s:o}", "type", "experiment", "params", given));
}

int64_t fb_script_answer(fb_script *s, const json_t *why)
{
    return ask(s, json_pack("{s:s, s:o}", "type", "answer", "why", why ? json_deep_copy(why) : json_object()));
}

/* What the waiting experiment goes on with; steals `m`. */
static void go_on(fb_script *s, json_t *m)
{
    s->experiment = EXPERIMENT_RUNS;
    fb_channel_send(s->child.channel, m);
    begin_turn(s);
    send_now(s);
}

void fb_script_measured(fb_script *s, const json_t *report)
{
    if (s->gone || s->experiment != EXPERIMENT_WAITS) return;
    go_on(s, json_pack("{s:s, s:o}", "type", "measured", "report", json_deep_copy(report)));
}

void fb_script_stop(fb_script *s)
{
    if (s->gone || s->experiment != EXPERIMENT_WAITS) return;
    go_on(s, json_pack("{s:s, s:b}", "type", "measured", "stop", true));
}

/* ---- start and end ---- */

static char *read_script(fb_script *s, const char *path, size_t *n, fb_error *err)
{
    const char *embedded = access(path, F_OK) == 0 ? NULL : fb_embedded(path);
    s->bundled = embedded != NULL;
    s->path = fb_strdup(path);
    const char *slash = strrchr(s->path, '/'), *name = slash ? slash + 1 : s->path;
    fb_text_clean(s->name, sizeof s->name, name, strlen(name));
    s->folder = fb_strdup(slash ? s->path : ".");
    if (slash) s->folder[slash == s->path ? 1 : slash - s->path] = '\0';
    if (!embedded) return fb_read_file(path, FB_SCRIPT_TEXT_MAX, n, err);
    *n = strlen(embedded);
    return fb_strdup(embedded);
}

/* One value a parameter: the first where a sweep gives several. */
static json_t *first_values(const json_t *set)
{
    json_t *out = json_object(), *value;
    const char *name;
    json_object_foreach((json_t *)set, name, value)
        json_object_set_new(out, name, json_deep_copy(json_is_array(value) ? json_array_get(value, 0) : value));
    return out;
}

fb_script *fb_script_start(const char *path, const json_t *set, fb_error *err)
{
    return fb_script_start_as(fb_script_process, path, set, err);
}

fb_script *fb_script_start_as(int (*process)(void *ctx, int in, int out), const char *path, const json_t *set,
                              fb_error *err)
{
    fb_script *s = fb_calloc(1, sizeof *s);
    s->patience_ns = FB_SCRIPT_WALL_MS * 1000000ll;
    size_t n = 0;
    char *text = read_script(s, path, &n, err);
    json_t *load = text ? json_pack("{s:s, s:s, s:s%, s:o}", "type", "load", "path", s->path, "text", text, n, "set",
                                    first_values(set))
                        : NULL;
    if (text && !load) fb_fail(err, FB_ERR_INPUT, "%s: not a text file in UTF-8", path);
    fb_free(text);
    if (!load || !fb_child_start(&s->child, NULL, process, NULL, -1, err)) {
        json_decref(load);
        fb_script_free(s);
        return NULL;
    }
    fb_channel_send(s->child.channel, load);
    s->pending = 1;
    begin_turn(s);
    send_now(s);
    return s;
}

void fb_script_set_patience(fb_script *s, double seconds)
{
    s->patience_ns = (int64_t)(seconds * 1e9);
}

void fb_script_free(fb_script *s)
{
    if (!s) return;
    fb_script_event e;
    while (fb_script_next(s, &e)) fb_script_event_clear(&e);
    FB_VEC_FREE(&s->events);
    for (int i = 0; i < s->files.n; i++) fb_free(s->files.at[i].values);
    FB_VEC_FREE(&s->files);
    fb_graph_reader_free(s->reader);
    fb_child_kill(&s->child);
    fb_free(s->path);
    fb_free(s->folder);
    fb_free(s);
}
