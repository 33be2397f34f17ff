/* A worker as the front sees it: a command that is started when first needed and replaced when it dies. */
#include "config.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "graph/graph_json.h"
#include "worker/messages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    STARTS = 3, /* at most, in … */
    STARTS_SECONDS = 10,
    GRAPHS = 32,       /* taken to be known over there: half of what a worker keeps */
    NOISE_LINES = 100, /* that a login shell may print before the worker speaks */
    MAX_WORDS = 64,
    OWN_PATIENCE_S = 30,      /* beyond the limit of a run, which our own supervisor keeps */
    COMMAND_PATIENCE_S = 600, /* of another's, which may stand in a queue or compile for long */
    MESSAGES_AT_ONCE = 5000,  /* more than these … */
    MESSAGES_A_SECOND = 500,  /* … and these is no worker's talk: ours sends 50 */
    MESSAGES_A_REQUEST = 8,   /* with what it tells on its way: we may ask as often as we like */
    MESSAGES_SAVED = 1 << 21, /* that a front which was stopped for long finds waiting */
};

/* A request that has not been answered. A case is asked for things one after the other: its id stands here once each.
 */
typedef struct {
    int64_t id;
    const char *type;
} outstanding;

struct fb_worker {
    char *self, *command;
    fb_child child;
    int errors; /* the read end of its stderr; -1 */
    char last_words[400],
        refusal[sizeof((fb_error *)0)->text]; /* of stderr; of an error that came in place of a greeting */
    int64_t starts[STARTS];                   /* ns, the latest first; 0: none */
    bool greeted;
    char seat[33]; /* who we are at a workshop, as it told: for the next process */
    int noise;
    int64_t last_id;
    int64_t alive_ns;   /* when it last did what it was asked for, or was asked after a pause */
    double limit_s;     /* the longest that a request of this process was given */
    double patience_s;  /* 0: as above */
    double may_send;    /* messages, before it counts as flooding */
    int64_t counted_ns; /* when that was reckoned */
    FB_VEC(outstanding) asked;
    FB_VEC(int64_t) prepared;
    fb_hash sent[GRAPHS]; /* graphs, the one last used first */
    int n_sent;
    FB_VEC(fb_worker_event) events;
};

fb_worker *fb_worker_new(const char *self, const char *command)
{
    fb_worker *w = fb_calloc(1, sizeof *w);
    w->self = fb_strdup(self ? self : "/proc/self/exe");
    w->command = command ? fb_strdup(command) : NULL;
    w->errors = -1;
    return w;
}

static void forget_process(fb_worker *w)
{
    fb_child_kill(&w->child);
    if (w->errors >= 0) close(w->errors);
    w->errors = -1;
    w->greeted = false;
    w->noise = 0;
    w->n_sent = 0;
    w->prepared.n = 0;
    w->last_words[0] = w->refusal[0] = '\0';
}

void fb_worker_event_clear(fb_worker_event *e)
{
    json_decref(e->message);
    fb_report_free(e->report);
    fb_timeline_free(e->timeline);
    fb_values_free(e->values);
    e->message = NULL;
    e->report = NULL;
    e->timeline = NULL;
    e->values = NULL;
}

void fb_worker_set_patience(fb_worker *w, double seconds)
{
    w->patience_s = seconds;
}

void fb_worker_free(fb_worker *w)
{
    if (!w) return;
    forget_process(w);
    for (int i = 0; i < w->events.n; i++) fb_worker_event_clear(&w->events.at[i]);
    FB_VEC_FREE(&w->events);
    FB_VEC_FREE(&w->asked);
    FB_VEC_FREE(&w->prepared);
    fb_free(w->self);
    fb_free(w->command);
    fb_free(w);
}

const char *fb_worker_command(const fb_worker *w)
{
    return w->command ? w->command : w->self;
}

/* ---- events ---- */

static void push_error(fb_worker *w, int64_t id, const fb_error *why)
{
    FB_VEC_PUSH(&w->events, (fb_worker_event){.kind = FB_WORKER_ERROR, .id = id, .error = *why});
}

/* Takes the first request of that id off the list; false when there is none. */
static bool answered(fb_worker *w, int64_t id)
{
    for (int i = 0; i < w->asked.n; i++) {
        if (w->asked.at[i].id != id) continue;
        memmove(w->asked.at + i, w->asked.at + i + 1, (size_t)(--w->asked.n - i) * sizeof *w->asked.at);
        return true;
    }
    return false;
}

/* Every request that was under way ends with this. */
static void fail_all(fb_worker *w, const fb_error *why)
{
    for (int i = 0; i < w->asked.n; i++) push_error(w, w->asked.at[i].id, why);
    w->asked.n = 0;
}

static bool is_prepared(const fb_worker *w, int64_t id)
{
    for (int i = 0; i < w->prepared.n; i++) {
        if (w->prepared.at[i] == id) return true;
    }
    return false;
}

static void forget_prepared(fb_worker *w, int64_t id)
{
    for (int i = 0; i < w->prepared.n; i++) {
        if (w->prepared.at[i] == id) w->prepared.at[i--] = w->prepared.at[--w->prepared.n];
    }
}

/* ---- starting ---- */

/* Splits a command line as a shell does, without expansions: blanks, '…', "…", backslash. */
static int split_words(const char *line, fb_arena *arena, char **words, fb_error *err)
{
    char *to = fb_arena_alloc(arena, strlen(line) + 1);
    int n = 0;
    char quote = 0;
    bool in_word = false;
    for (const char *c = line;; c++) {
        bool ends = !*c || (!quote && (*c == ' ' || *c == '\t' || *c == '\n'));
        if (!*c && quote) {
            fb_fail(err, FB_ERR_USAGE, "a quote is not closed in the worker's command: %s", line);
            return 0;
        }
        if (ends && in_word) *to++ = '\0';
        if (ends) in_word = false;
        if (!*c) break;
        if (ends) continue;
        if (!in_word) {
            if (n == MAX_WORDS - 8) {
                fb_fail(err, FB_ERR_USAGE, "the worker's command has more than %d words", MAX_WORDS - 8);
                return 0;
            }
            words[n++] = to;
            in_word = true;
        }
        if (quote && *c == quote)
            quote = 0;
        else if (!quote && (*c == '\'' || *c == '"'))
            quote = *c;
        else if (*c == '\\' && quote != '\'' && c[1])
            *to++ = *++c;
        else
            *to++ = *c;
    }
    if (!n) fb_fail(err, FB_ERR_USAGE, "the worker's command is empty");
    return n;
}

/* A front that draws on the terminal cannot have ssh ask for a password there, nor wait for a host that is gone. */
static int add_ssh_options(char **words, int n)
{
    static char *const options[] = {"-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15"};
    enum { OPTIONS = sizeof options / sizeof *options };
    const char *slash = strrchr(words[0], '/');
    if (strcmp(slash ? slash + 1 : words[0], "ssh") != 0) return n;
    memmove(words + 1 + OPTIONS, words + 1, (size_t)(n - 1) * sizeof *words);
    memcpy(words + 1, options, sizeof options);
    return n + OPTIONS;
}

static bool may_start(fb_worker *w, fb_error *err)
{
    int64_t now = fb_now_ns(), oldest = w->starts[STARTS - 1];
    if (oldest && now - oldest < STARTS_SECONDS * 1000000000ll)
        return fb_fail(err, FB_ERR_CRASH, "the worker was started %d times within %d s and is left alone for a moment",
                       STARTS, STARTS_SECONDS);
    memmove(w->starts + 1, w->starts, (STARTS - 1) * sizeof *w->starts);
    w->starts[0] = now;
    return true;
}

static bool start_words(fb_worker *w, char **words, fb_error *err)
{
    int errors[2];
    if (pipe2(errors, O_CLOEXEC) < 0)
        return fb_fail(err, FB_ERR_SYSTEM, "no pipe for a new process: %s", strerror(errno));
    /* what passes leave is for people to read: it goes where ours goes */
    bool ok = fb_child_start(&w->child, words, NULL, NULL, fb_debug_any() ? -1 : errors[1], err);
    close(errors[1]);
    if (!ok) {
        close(errors[0]);
        return false;
    }
    fcntl(errors[0], F_SETFL, O_NONBLOCK);
    w->errors = errors[0];
    w->alive_ns = w->counted_ns = fb_now_ns();
    w->limit_s = 0;
    w->may_send = MESSAGES_AT_ONCE;
    fb_channel_send(w->child.channel,
                    json_pack("{s:s, s:i, s:s, s:s*}", "type", "hello", "fusebox", FB_PROTOCOL_VERSION, "version",
                              PACKAGE_VERSION, "seat", w->seat[0] ? w->seat : NULL));
    return true;
}

static bool start(fb_worker *w, fb_error *err)
{
    char *words[MAX_WORDS + 1] = {w->self, "worker"};
    if (w->child.pid) return true;
    if (!may_start(w, err)) return false;
    forget_process(w);
    fb_arena *arena = fb_arena_new();
    int n = w->command ? split_words(w->command, arena, words, err) : 2;
    if (n) words[w->command ? add_ssh_options(words, n) : n] = NULL;
    bool ok = n && start_words(w, words, err);
    fb_arena_free(arena);
    return ok;
}

/* ---- the end of a process ---- */

/* What it prints is not for our screen; the last line may say why it ended. */
static void read_errors(fb_worker *w)
{
    char text[4096];
    ssize_t n = -1;
    while (w->errors >= 0 && (n = read(w->errors, text, sizeof text)) > 0) {
        while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r')) n--;
        ssize_t from = n;
        while (from > 0 && text[from - 1] != '\n') from--;
        if (n > from) fb_text_clean(w->last_words, sizeof w->last_words, text + from, (size_t)(n - from));
    }
    if (w->errors >= 0 && n == 0) {
        close(w->errors);
        w->errors = -1;
    }
}

static void process_ended(fb_worker *w)
{
    char how[80] = "closed its connection";
    fb_error why = {0};
    for (int i = 0; i < 100 && !fb_child_ended(&w->child, how, sizeof how); i++) usleep(1000);
    read_errors(w);
    const char *words = w->refusal[0] ? w->refusal : w->last_words;
    fb_fail(&why, FB_ERR_CRASH, "the worker (%s) %s%s%s", fb_worker_command(w), how, *words ? ": " : "", words);
    forget_process(w);
    fail_all(w, &why);
}

static double patience(const fb_worker *w)
{
    enum { RUN_S = 60 }; /* as the supervisor takes it where nothing else is asked */
    double run = w->limit_s > RUN_S ? w->limit_s : RUN_S;
    if (w->patience_s > 0) return w->patience_s;
    return w->command ? (run > COMMAND_PATIENCE_S ? run : COMMAND_PATIENCE_S) : run + OWN_PATIENCE_S;
}

int64_t fb_worker_deadline(const fb_worker *w)
{
    bool waits = w->child.pid && (!w->greeted || w->asked.n);
    return waits ? w->alive_ns + (int64_t)(patience(w) * 1e9) : INT64_MAX;
}

static void give_up(fb_worker *w, fb_error_kind kind, const char *text)
{
    fb_error why = {0};
    fb_fail(&why, kind, "the worker (%s) %s", fb_worker_command(w), text);
    forget_process(w);
    if (!w->asked.n) push_error(w, 0, &why);
    fail_all(w, &why);
}

/* ---- requests ---- */

/* Sends a request, or answers it with why that cannot be. */
static bool ask(fb_worker *w, int64_t id, json_t *message)
{
    fb_error why = {0};
    const char *type = json_string_value(json_object_get(message, "type"));
    if (!start(w, &why)) {
        push_error(w, id, &why);
        json_decref(message);
        return false;
    }
    if (!w->asked.n && w->greeted) w->alive_ns = fb_now_ns();
    double limit = fb_json_number_or(message, "limit_s", 0);
    if (limit > w->limit_s) w->limit_s = limit < FB_MOST_LIMIT_S ? limit : FB_MOST_LIMIT_S;
    const char *kinds[] = {"prepare", "sample", "check",     "trace",  "values",
                           "release", "search", "calibrate", "devices"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(type, kinds[i]) == 0) FB_VEC_PUSH(&w->asked, (outstanding){.id = id, .type = kinds[i]});
    }
    fb_channel_send(w->child.channel, message);
    fb_channel_flush(w->child.channel, 0, NULL); /* writes alone: what is read only fb_worker_pump may read */
    return true;
}

static bool send_line(void *ctx, const char *text, size_t n)
{
    fb_channel_send_bytes(ctx, text, n);
    fb_channel_send_bytes(ctx, "\n", 1);
    return true;
}

static void send_graph(fb_worker *w, const fb_graph *g)
{
    char hex[33];
    int at = 0;
    while (at < w->n_sent && !fb_hash_equal(w->sent[at], g->hash)) at++;
    bool known = at < w->n_sent;
    if (!known && w->n_sent < GRAPHS) w->n_sent++;
    if (at == GRAPHS) at--;
    memmove(w->sent + 1, w->sent, (size_t)at * sizeof *w->sent);
    w->sent[0] = g->hash;
    if (known) return;
    fb_channel_send(w->child.channel, json_pack("{s:s, s:s}", "type", "graph", "hash", fb_hash_hex(g->hash, hex)));
    fb_graph_write_lines(g, send_line, w->child.channel);
}

static json_t *seeds_of(const fb_measure_options *o)
{
    json_t *seeds = json_array();
    for (int i = 0; i < o->n_seeds; i++) json_array_append_new(seeds, json_integer((json_int_t)o->seeds[i]));
    return seeds;
}

/* What the files hold that a plan names: a worker may be on another machine. */
static json_t *sources_of(const fb_plan *plan)
{
    fb_arena *arena = fb_arena_new();
    const fb_kernel_source **files;
    int n = fb_plan_sources(plan, arena, &files);
    json_t *texts = n ? json_object() : NULL;
    for (int i = 0; i < n; i++)
        if (files[i]->text) json_object_set_new(texts, files[i]->path, json_string(files[i]->text));
    fb_arena_free(arena);
    return texts;
}

/* Takes plan and sources; the latter may be NULL. */
static int64_t prepare(fb_worker *w, const fb_graph *g, json_t *plan, json_t *sources, const char *device,
                       const fb_measure_options *o)
{
    char hex[33];
    int64_t id = ++w->last_id;
    fb_error why = {0};
    if (!start(w, &why)) {
        push_error(w, id, &why);
        json_decref(plan);
        json_decref(sources);
        return id;
    }
    send_graph(w, g);
    json_t *seeds = seeds_of(o);
    json_t *message =
        json_pack("{s:s, s:I, s:s, s:o, s:s, s:o, s:b}", "type", "prepare", "id", (json_int_t)id, "graph",
                  fb_hash_hex(g->hash, hex), "plan", plan, "device", device, "seeds", seeds, "counters", o->counters);
    if (o->ahead) json_object_set_new(message, "ahead", json_true());
    if (o->limit_s > 0) json_object_set_new(message, "limit_s", json_real(o->limit_s));
    if (sources) json_object_set_new(message, "sources", sources);
    ask(w, id, message);
    return id;
}

int64_t fb_worker_prepare(fb_worker *w, const fb_graph *g, const fb_plan *plan, const char *device,
                          const fb_measure_options *o)
{
    return prepare(w, g, fb_plan_to_json(plan), sources_of(plan), device, o);
}

int64_t fb_worker_prepare_named(fb_worker *w, const fb_graph *g, const char *plan, const char *device,
                                const fb_measure_options *o)
{
    return prepare(w, g, json_string(plan), NULL, device, o);
}

int64_t fb_worker_prepare_json(fb_worker *w, const fb_graph *g, json_t *plan, const char *device,
                               const fb_measure_options *o)
{
    return prepare(w, g, json_incref(plan), NULL, device, o);
}

int64_t fb_worker_search(fb_worker *w, const fb_graph *g, const char *device, const fb_measure_options *o, bool again,
                         const fb_machine *plan_as)
{
    char hex[33];
    int64_t id = ++w->last_id;
    fb_error why = {0};
    if (!start(w, &why)) {
        push_error(w, id, &why);
        return id;
    }
    send_graph(w, g);
    json_t *message = json_pack("{s:s, s:I, s:s, s:s, s:o, s:b}", "type", "search", "id", (json_int_t)id, "graph",
                                fb_hash_hex(g->hash, hex), "device", device, "seeds", seeds_of(o), "again", again);
    if (o->limit_s > 0) json_object_set_new(message, "limit_s", json_real(o->limit_s));
    if (plan_as) json_object_set_new(message, "machine", fb_machine_to_json(plan_as));
    ask(w, id, message);
    return id;
}

static void ask_prepared(fb_worker *w, int64_t id, json_t *message)
{
    fb_error why = {0};
    if (is_prepared(w, id)) {
        ask(w, id, message);
        return;
    }
    json_decref(message);
    fb_fail(&why, FB_ERR_CRASH, "case %lld went with the worker's process: prepare it again", (long long)id);
    push_error(w, id, &why);
}

void fb_worker_sample(fb_worker *w, int64_t id, int n, fb_cache_state cache, bool brief)
{
    ask_prepared(w, id,
                 json_pack("{s:s, s:I, s:i, s:s, s:b}", "type", "sample", "id", (json_int_t)id, "n", n, "cache",
                           cache == FB_CACHE_COLD ? "cold" : "hot", "brief", brief));
}

void fb_worker_check(fb_worker *w, int64_t id, const fb_graph *g, const char *device, const fb_measure_options *o)
{
    char hex[33];
    if (is_prepared(w, id)) send_graph(w, g);
    ask_prepared(w, id,
                 json_pack("{s:s, s:I, s:s, s:s, s:o}", "type", "check", "id", (json_int_t)id, "graph",
                           fb_hash_hex(g->hash, hex), "device", device, "seeds", seeds_of(o)));
}

void fb_worker_trace(fb_worker *w, int64_t id, bool metrics)
{
    ask_prepared(w, id, json_pack("{s:s, s:I, s:b}", "type", "trace", "id", (json_int_t)id, "metrics", metrics));
}

void fb_worker_values(fb_worker *w, int64_t id, const char *node)
{
    ask_prepared(w, id, json_pack("{s:s, s:I, s:s}", "type", "values", "id", (json_int_t)id, "node", node));
}

void fb_worker_release(fb_worker *w, int64_t id)
{
    if (is_prepared(w, id))
        ask(w, id, json_pack("{s:s, s:I}", "type", "release", "id", (json_int_t)id));
    else
        FB_VEC_PUSH(&w->events, (fb_worker_event){.kind = FB_WORKER_RELEASED, .id = id});
    forget_prepared(w, id);
}

void fb_worker_cancel(fb_worker *w, int64_t id)
{
    if (w->child.pid)
        fb_channel_send(w->child.channel, json_pack("{s:s, s:I}", "type", "cancel", "id", (json_int_t)id));
    if (w->child.pid) fb_channel_flush(w->child.channel, 0, NULL);
}

int64_t fb_worker_calibrate(fb_worker *w, const char *device)
{
    int64_t id = ++w->last_id;
    ask(w, id, json_pack("{s:s, s:I, s:s}", "type", "calibrate", "id", (json_int_t)id, "device", device));
    return id;
}

int64_t fb_worker_devices(fb_worker *w, bool libraries)
{
    int64_t id = ++w->last_id;
    json_t *message = json_pack("{s:s, s:I}", "type", "devices", "id", (json_int_t)id);
    if (libraries) json_object_set_new(message, "libraries", json_true());
    ask(w, id, message);
    return id;
}

void fb_worker_send_file(fb_worker *w, const char *key, const double *values, int64_t n)
{
    int64_t bytes = n * (int64_t)sizeof *values;
    if (!start(w, NULL)) return; /* whoever asks for a case next hears why */
    fb_channel_send(w->child.channel,
                    json_pack("{s:s, s:s, s:I}", "type", "file", "key", key, "bytes", (json_int_t)bytes));
    fb_channel_send_bytes(w->child.channel, values, (size_t)bytes);
}

void fb_worker_tell(fb_worker *w, json_t *message)
{
    if (!w->child.pid) {
        json_decref(message);
        return;
    }
    fb_channel_send(w->child.channel, message);
    fb_channel_flush(w->child.channel, 0, NULL);
}

/* ---- what comes back ---- */

/* Keeps who we are for the next process; false, and it is given up, where it speaks another protocol. */
static bool greet(fb_worker *w, const json_t *message)
{
    fb_error why = {0};
    char seat[sizeof w->seat];
    w->greeted = fb_reply_greets(message, seat, &why);
    if (w->greeted)
        memcpy(w->seat, seat, sizeof seat);
    else
        give_up(w, why.kind, why.text);
    return w->greeted;
}

static bool is_asked(const fb_worker *w, int64_t id)
{
    for (int i = 0; i < w->asked.n; i++)
        if (w->asked.at[i].id == id) return true;
    return false;
}

/* What it says of what nobody asked for is no sign of life, and not passed on. */
static bool is_stray(const fb_worker *w, const fb_worker_event *e)
{
    if (e->kind == FB_WORKER_HELLO) return w->greeted;
    bool unasked = e->id == 0 && (e->kind == FB_WORKER_MACHINE || e->kind == FB_WORKER_ERROR);
    return !unasked && !is_asked(w, e->id);
}

/* False when it sends more than anybody would read. */
static bool within_measure(fb_worker *w)
{
    int64_t now = fb_now_ns();
    w->may_send += (double)(now - w->counted_ns) * 1e-9 * MESSAGES_A_SECOND - 1;
    if (w->may_send > MESSAGES_SAVED) w->may_send = MESSAGES_SAVED;
    w->counted_ns = now;
    return w->may_send > 0;
}

static void take_message(fb_worker *w, json_t *message)
{
    fb_worker_event e = {.id = fb_json_int_or(message, "id", 0), .message = message};
    bool ends = false;
    if (!fb_reply_kind(message, &e.kind, &ends) || is_stray(w, &e)) {
        json_decref(message);
        return;
    }
    if (e.id || e.kind == FB_WORKER_HELLO) w->alive_ns = fb_now_ns();
    if (e.kind == FB_WORKER_HELLO && !greet(w, message)) {
        json_decref(message);
        return;
    }
    fb_reply_read(&e);
    if (ends && answered(w, e.id)) w->may_send += MESSAGES_A_REQUEST;
    if (e.kind == FB_WORKER_PREPARED && !is_prepared(w, e.id)) FB_VEC_PUSH(&w->prepared, e.id);
    if (e.kind == FB_WORKER_ERROR && e.error.kind == FB_ERR_CRASH) forget_prepared(w, e.id);
    if (e.kind == FB_WORKER_ERROR && !w->greeted) snprintf(w->refusal, sizeof w->refusal, "%s", e.error.text);
    FB_VEC_PUSH(&w->events, e);
}

static void take_line(fb_worker *w, const char *line, size_t n)
{
    fb_error why = {0};
    char text[200];
    if (!within_measure(w)) {
        give_up(w, FB_ERR_CRASH, "sends messages without end");
        return;
    }
    json_t *message = fb_json_parse(line, n, &why);
    if (json_is_object(message)) {
        take_message(w, message);
        return;
    }
    json_decref(message);
    if (!w->greeted && ++w->noise <= NOISE_LINES) return;
    char clean[80];
    fb_text_clean(clean, sizeof clean, line, n < sizeof clean ? n : sizeof clean - 1);
    snprintf(text, sizeof text, "does not speak fusebox's protocol: %s", clean);
    give_up(w, FB_ERR_CRASH, text);
}

int fb_worker_poll(const fb_worker *w, struct pollfd out[3])
{
    if (!w->child.pid) return 0;
    int n = fb_channel_poll(w->child.channel, out);
    if (w->errors >= 0) out[n++] = (struct pollfd){.fd = w->errors, .events = POLLIN};
    return n;
}

void fb_worker_pump(fb_worker *w)
{
    size_t n;
    fb_error why = {0};
    fb_child_reap();
    if (!w->child.pid) return;
    read_errors(w);
    bool open = fb_channel_pump(w->child.channel, &why);
    for (const char *line; w->child.pid && (line = fb_channel_line(w->child.channel, &n));) take_line(w, line, n);
    if (open && w->child.pid && fb_now_ns() >= fb_worker_deadline(w)) {
        char text[80];
        snprintf(text, sizeof text, "gave no %s for %g s", w->greeted ? "answer" : "sign of life", patience(w));
        give_up(w, FB_ERR_LIMIT, text);
    }
    if (open || !w->child.pid) return;
    if (why.kind == FB_ERR_INPUT)
        give_up(w, FB_ERR_CRASH, "sent a message without end");
    else
        process_ended(w);
}

bool fb_worker_next(fb_worker *w, fb_worker_event *out)
{
    if (!w->events.n) return false;
    *out = w->events.at[0];
    memmove(w->events.at, w->events.at + 1, (size_t)--w->events.n * sizeof *w->events.at);
    return true;
}
