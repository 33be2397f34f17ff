/* The supervisor: `fusebox worker`.
 *
 *     front ── stdin/stdout ── supervisor ── device child      (device_child.c)
 *                                   ├────── reference process (helpers.c; while a prepared case wants one)
 *                                   └────── lister            (helpers.c; for a moment)
 *
 * It reads, validates and keeps graphs and files, hands the device child one request at a time, watches that it shows
 * signs of life, and answers for it when it dies. It never runs generated code and never blocks.
 */
#include "config.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "graph/graph_json.h"
#include "worker/messages.h"
#include "worker/worker_parts.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_GRAPHS = 64,
    MAX_QUEUE = 4096,
    MOST_REOPENED = 2, /* the host's runtime, and the kernels */
    LATE_MS = 50,      /* between looks at who was killed and has not ended */
    ENDING_MS = 2000,  /* between a process's last word and its end; a busy machine takes some of it */
};
static const int64_t quiet_ns = 5000000000; /* the front hears at least so often of what runs */
/* Between asking to cancel and killing: so much computing without an answer, for a child that a busy machine does not
 * let run has done nothing wrong; or so long, for one that waits for something that does not come. */
static const int64_t grace_cpu_ns = 200000000, grace_ns = 10000000000, look_ns = 20000000;

typedef struct {
    char hex[33]; /* of its graph */
    int64_t bytes;
} made_reference;

typedef struct {
    fb_graph *graph;
    char hex[33];
    bool in_child; /* the child has it */
    int64_t used;  /* a counter */
} kept_graph;

typedef struct {
    fb_request said; /* its texts are the message's */
    json_t *message;
} request;

/* A request for the list of devices. */
typedef struct {
    int64_t id;
    bool libraries;
} list_ask;

typedef struct {
    fb_channel *front;
    FB_VEC(kept_graph) graphs;
    int64_t uses;
    fb_graph_reader *reader; /* while a graph's lines arrive */
    char reading[33];        /* the hash it was announced with */
    bool skip_graph;         /* the rest of a graph that turned out bad */
    fb_worker_files files;
    char *file_key; /* while a file's bytes arrive, and where they go */
    double *file_values;
    int64_t file_bytes;

    FB_VEC(request) queue; /* queue.at[0] runs when `running` */
    bool running;
    fb_child child;
    int files_in_child;
    FB_VEC(int64_t) prepared; /* ids that the child holds */
    FB_VEC(double) limits;    /* of each */
    int64_t alive_ns;         /* when the child last said something */
    int64_t cancel_ns;        /* when it was asked to cancel; 0: it was not … */
    int64_t cancel_cpu_ns;    /* … and what it had computed by then */
    fb_error instead;         /* what the running request ends with, whatever the child says */
    char doing[160];          /* what the child last said it does */
    int reopened;             /* times that the running request was handed to another child */
    int64_t told_ns;          /* when the front was last told of progress */

    fb_child reference;
    fb_reference_job job;
    char job_hex[33];       /* its graph's hash */
    bool reference_made;    /* of that job, and found whole */
    bool reference_stopped; /* it waits, so that it disturbs no measurement */

    fb_written *child_wrote, *reference_wrote;
    FB_VEC(made_reference) made; /* that the front was not told of */

    fb_child lister;
    bool greeted;             /* hello was sent */
    bool lists_libraries;     /* the lister that runs, or ran last */
    FB_VEC(list_ask) listing; /* who waits for the list */
    bool quit;
    int status;
} supervisor;

/* ---- answers ---- */

/* What the reference process put in place belongs to the graph that it is for. */
static void note_reference(supervisor *s)
{
    made_reference r = {.bytes = fb_written_take(s->reference_wrote)};
    if (!r.bytes) return;
    memcpy(r.hex, s->job_hex, sizeof r.hex);
    FB_VEC_PUSH(&s->made, r);
}

/* Of an answer: what was written to disk since the last one. */
static void add_written(supervisor *s, fb_str *out)
{
    int64_t bytes = fb_written_take(s->child_wrote);
    note_reference(s);
    if (bytes) fb_str_addf(out, "\"wrote_bytes\":%lld,", (long long)bytes);
    for (int i = 0; i < s->made.n; i++)
        fb_str_addf(out, "%s\"%s\":%lld%s", i ? "," : "\"references\":{", s->made.at[i].hex,
                    (long long)s->made.at[i].bytes, i + 1 < s->made.n ? "" : "},");
    s->made.n = 0;
}

/* `line` is an object in JSON. */
static void send_answer(supervisor *s, const char *line, size_t n)
{
    fb_str all = {0};
    fb_str_add(&all, "{");
    add_written(s, &all);
    fb_str_add_n(&all, line + 1, n - 1);
    fb_str_add(&all, "\n");
    fb_channel_send_bytes(s->front, all.text, all.n);
    fb_str_free(&all);
}

static void send_failure(supervisor *s, int64_t id, const fb_error *why)
{
    json_t *m = json_pack("{s:s, s:I, s:s, s:s}", "type", "error", "id", (json_int_t)id, "kind",
                          fb_error_kind_name(why->kind), "text", why->text);
    char *line = fb_json_line(m);
    send_answer(s, line, strlen(line));
    fb_free(line);
    json_decref(m);
}

static void say_error(supervisor *s, int64_t id, fb_error_kind kind, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void say_error(supervisor *s, int64_t id, fb_error_kind kind, const char *format, ...)
{
    fb_error why = {0};
    va_list ap;
    va_start(ap, format);
    fb_vfail(&why, kind, format, ap);
    va_end(ap);
    fb_send_error(s->front, id, &why);
}

/* ---- graphs ---- */

static kept_graph *graph_named(supervisor *s, const char *hex)
{
    for (int i = 0; i < s->graphs.n; i++) {
        if (strcmp(s->graphs.at[i].hex, hex) == 0) return &s->graphs.at[i];
    }
    return NULL;
}

static bool is_wanted(const supervisor *s, const kept_graph *k)
{
    if (s->reference.pid && s->job.graph == k->graph) return true;
    for (int i = 0; i < s->queue.n; i++) {
        const char *hex = s->queue.at[i].said.graph;
        if (hex && strcmp(hex, k->hex) == 0) return true;
    }
    return false;
}

static void drop_oldest_graph(supervisor *s)
{
    int oldest = -1;
    for (int i = 0; i < s->graphs.n; i++) {
        if (!is_wanted(s, &s->graphs.at[i]) && (oldest < 0 || s->graphs.at[i].used < s->graphs.at[oldest].used))
            oldest = i;
    }
    if (oldest < 0) return;
    kept_graph *k = &s->graphs.at[oldest];
    if (k->in_child && s->child.pid)
        fb_channel_send(s->child.channel, json_pack("{s:s, s:s}", "type", "forget", "hash", k->hex));
    fb_graph_free(k->graph);
    *k = s->graphs.at[--s->graphs.n];
}

static void keep_graph(supervisor *s, fb_graph *g)
{
    kept_graph k = {.graph = g, .used = ++s->uses};
    fb_hash_hex(g->hash, k.hex);
    if (strcmp(k.hex, s->reading) != 0) {
        say_error(s, 0, FB_ERR_INPUT, "a graph was announced as %s but is %s", s->reading, k.hex);
        fb_graph_free(g);
    } else if (graph_named(s, k.hex)) {
        fb_graph_free(g); /* sent twice: the first one stays, for it may be in use */
    } else {
        if (s->graphs.n >= MAX_GRAPHS) drop_oldest_graph(s);
        FB_VEC_PUSH(&s->graphs, k);
    }
}

static void feed_graph(supervisor *s, const char *line, size_t n)
{
    bool done = false;
    fb_error why = {0};
    bool ok = fb_graph_reader_feed(s->reader, line, n, &done, &why);
    if (ok && !done) return;
    if (ok)
        keep_graph(s, fb_graph_reader_take(s->reader));
    else
        fb_send_error(s->front, 0, &why);
    s->skip_graph = !ok;
    fb_graph_reader_free(s->reader);
    s->reader = NULL;
}

static bool send_graph_line(void *ctx, const char *text, size_t n)
{
    fb_channel_send_bytes(ctx, text, n);
    fb_channel_send_bytes(ctx, "\n", 1);
    return true;
}

/* ---- the device child ---- */

static void finish_request(supervisor *s)
{
    json_decref(s->queue.at[0].message);
    memmove(s->queue.at, s->queue.at + 1, (size_t)--s->queue.n * sizeof *s->queue.at);
    s->running = false;
    s->reopened = 0;
    s->cancel_ns = 0;
    s->instead = (fb_error){0};
    s->doing[0] = '\0';
}

/* Requests that run a program and check what it gives. */
static bool needs_reference(const request *r)
{
    fb_request_kind kind = r->said.kind;
    return kind == FB_REQUEST_PREPARE || kind == FB_REQUEST_SEARCH || kind == FB_REQUEST_CHECK;
}

static int prepared_index(const supervisor *s, int64_t id)
{
    for (int i = 0; i < s->prepared.n; i++) {
        if (s->prepared.at[i] == id) return i;
    }
    return -1;
}

static void note_prepared(supervisor *s, int64_t id, double limit_s)
{
    FB_VEC_PUSH(&s->prepared, id);
    FB_VEC_PUSH(&s->limits, limit_s);
}

static void note_released(supervisor *s, int64_t id)
{
    int i = prepared_index(s, id);
    if (i < 0) return;
    s->prepared.at[i] = s->prepared.at[--s->prepared.n];
    s->limits.at[i] = s->limits.at[--s->limits.n];
}

static void child_is_gone(supervisor *s)
{
    fb_child_kill(&s->child);
    fb_device_put_away();
    s->prepared.n = s->limits.n = 0;
    s->files_in_child = 0;
    for (int i = 0; i < s->graphs.n; i++) s->graphs.at[i].in_child = false;
}

static void stop_reference(supervisor *s)
{
    fb_child_kill(&s->reference);
    s->reference_stopped = false;
}

/* Ends the running request with an error, and the child with it. */
static void end_child(supervisor *s, const fb_error *why)
{
    child_is_gone(s);
    if (!s->running) return;
    send_failure(s, s->queue.at[0].said.id, s->instead.kind ? &s->instead : why);
    if (needs_reference(&s->queue.at[0])) stop_reference(s);
    finish_request(s);
}

/* After end of file a process is as good as ended, but the system may take a moment to say how. */
static void child_died(supervisor *s)
{
    char how[80] = "closed its connection";
    fb_error why = {0};
    for (int i = 0; i < ENDING_MS && !fb_child_ended(&s->child, how, sizeof how); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (s->running && strcmp(s->doing, FB_OPENING) == 0 && !s->instead.kind && s->reopened < MOST_REOPENED) {
        child_is_gone(s); /* the same request is handed to the next one, which finds nothing to open */
        s->running = false;
        s->doing[0] = '\0';
        s->reopened++;
        return;
    }
    fb_fail(&why, FB_ERR_CRASH, "the process on the device %s%s%s", how, s->doing[0] ? " while " : "", s->doing);
    end_child(s, &why);
}

static void child_progress(supervisor *s, const json_t *message, const char *line, size_t n)
{
    const char *what = fb_json_string_or(message, "what", "");
    fb_text_clean(s->doing, sizeof s->doing, what, strlen(what));
    /* the reference process says better what is being waited for, as long as it says anything */
    bool better = s->reference.pid && strstr(what, "waiting for the reference");
    if (better && fb_now_ns() - s->told_ns < quiet_ns) return;
    s->told_ns = fb_now_ns();
    fb_channel_send_bytes(s->front, line, n);
    fb_channel_send_bytes(s->front, "\n", 1);
}

static void child_line(supervisor *s, const char *line, size_t n)
{
    json_t *message = fb_json_parse(line, n, NULL);
    const char *type = fb_json_string_or(message, "type", "");
    int64_t id = fb_json_int_or(message, "id", 0);
    bool ends = s->running && id == s->queue.at[0].said.id && id;
    s->alive_ns = fb_now_ns();
    if (strcmp(type, "progress") == 0) {
        child_progress(s, message, line, n);
        json_decref(message);
        return;
    }
    if (strcmp(type, "prepared") == 0 && ends) note_prepared(s, id, s->queue.at[0].said.limit_s);
    if (strcmp(type, "released") == 0) note_released(s, id);
    if (ends && strcmp(type, "error") == 0 && needs_reference(&s->queue.at[0])) stop_reference(s);
    if (ends && s->instead.kind) {
        send_failure(s, id, &s->instead);
    } else if (ends && n && line[0] == '{') {
        send_answer(s, line, n);
    } else {
        fb_channel_send_bytes(s->front, line, n);
        fb_channel_send_bytes(s->front, "\n", 1);
    }
    bool lost = ends && strcmp(type, "error") == 0 && strcmp(fb_json_string_or(message, "kind", ""), "crash") == 0;
    if (ends) finish_request(s);
    if (lost) child_is_gone(s); /* it ends by itself as well, but the next request must not reach it before */
    json_decref(message);
}

static void pump_child(supervisor *s)
{
    size_t n;
    if (!s->child.pid) return;
    bool open = fb_channel_pump(s->child.channel, NULL);
    for (const char *line; s->child.pid && (line = fb_channel_line(s->child.channel, &n));) child_line(s, line, n);
    if (!open && s->child.pid) child_died(s);
}

/* What a process has computed, all its threads; 0 where nobody says. */
static int64_t computed_ns(pid_t pid)
{
    clockid_t clock;
    struct timespec t = {0};
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0) return 0;
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Asks the child to stop what it does; check_limits kills it when it does not listen. */
static void ask_to_cancel(supervisor *s, const fb_error *why)
{
    if (!s->running || s->cancel_ns) return;
    s->instead = *why;
    s->cancel_ns = fb_now_ns();
    s->cancel_cpu_ns = computed_ns(s->child.pid);
    fb_channel_send(s->child.channel,
                    json_pack("{s:s, s:I}", "type", "cancel", "id", (json_int_t)s->queue.at[0].said.id));
}

/* When the child is silent for too long, whatever it was asked. */
static int64_t silence_of(const supervisor *s)
{
    return s->running ? s->alive_ns + (int64_t)(s->queue.at[0].said.limit_s * 1e9) : INT64_MAX;
}

static bool does_not_listen(const supervisor *s)
{
    if (!s->running || !s->cancel_ns) return false;
    return fb_now_ns() - s->cancel_ns > grace_ns || computed_ns(s->child.pid) - s->cancel_cpu_ns > grace_cpu_ns;
}

/* When to look again. */
static int64_t deadline_of(const supervisor *s)
{
    int64_t silence = silence_of(s), look = s->running && s->cancel_ns ? fb_now_ns() + look_ns : INT64_MAX;
    return silence < look ? silence : look;
}

static void check_limits(supervisor *s)
{
    fb_error why = {0};
    if (fb_now_ns() < silence_of(s) && !does_not_listen(s)) return;
    fb_fail(&why, FB_ERR_LIMIT, "stopped after %g s without a sign of life%s%s", s->queue.at[0].said.limit_s,
            s->doing[0] ? " while " : "", s->doing);
    end_child(s, &why);
}

/* ---- references ---- */

static bool references_there(const fb_graph *g, const fb_reference_job *job)
{
    for (int i = 0; i < job->n_seeds; i++)
        if (!fb_reference_there(g, job->seeds[i])) return false;
    return true;
}

/* A device that runs nothing has nothing to verify. */
static bool wants_reference(const request *r)
{
    const fb_device_ops *ops = fb_device_find(r->said.device, NULL);
    return (!ops || ops->load) && !r->said.machine;
}

static bool start_reference(supervisor *s, const request *r, kept_graph *k, fb_error *err)
{
    fb_reference_job job = {
        .graph = k->graph, .n_seeds = r->said.n_seeds, .files = &s->files, .wrote = s->reference_wrote};
    memcpy(job.seeds, r->said.seeds, sizeof job.seeds);
    bool same = strcmp(s->job_hex, k->hex) == 0 && s->job.n_seeds == job.n_seeds &&
                memcmp(s->job.seeds, job.seeds, sizeof job.seeds) == 0;
    if (same && (s->reference.pid || (s->reference_made && references_there(k->graph, &job)))) return true;
    stop_reference(s);
    note_reference(s);
    s->reference_made = false;
    s->job = job;
    snprintf(s->job_hex, sizeof s->job_hex, "%s", k->hex);
    return fb_child_start(&s->reference, NULL, fb_worker_reference_main, &s->job, -1, err);
}

static void reference_line(supervisor *s, const char *line, size_t n)
{
    json_t *message = fb_json_parse(line, n, NULL);
    const char *type = fb_json_string_or(message, "type", "");
    bool preparing = s->running && needs_reference(&s->queue.at[0]);
    if (strcmp(type, "progress") == 0 && preparing && strstr(s->doing, "waiting for the reference")) {
        s->told_ns = fb_now_ns();
        json_object_set_new(message, "id", json_integer((json_int_t)s->queue.at[0].said.id));
        fb_channel_send(s->front, json_incref(message));
    } else if (strcmp(type, "error") == 0 && preparing) {
        fb_error why = {0};
        fb_fail(&why, fb_error_kind_parse(fb_json_string_or(message, "kind", "")), "%s",
                fb_json_string_or(message, "text", "the reference gave no reason"));
        ask_to_cancel(s, &why);
    }
    json_decref(message);
}

static void pump_reference(supervisor *s)
{
    size_t n;
    char how[80];
    if (!s->reference.pid) return;
    bool open = fb_channel_pump(s->reference.channel, NULL);
    for (const char *line; (line = fb_channel_line(s->reference.channel, &n));) reference_line(s, line, n);
    if (open) return;
    for (int i = 0; i < ENDING_MS && !fb_child_ended(&s->reference, how, sizeof how); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    s->reference_made = strcmp(how, "exited with status 0") == 0;
    if (strstr(how, "killed") && s->running && needs_reference(&s->queue.at[0])) {
        fb_error why = {0};
        fb_fail(&why, FB_ERR_CRASH, "the process that computes the reference %s", how);
        ask_to_cancel(s, &why);
    }
    stop_reference(s);
}

/* A reference for later must not take a core from a measurement. */
static void pause_reference(supervisor *s, bool pause)
{
    if (!s->reference.pid || s->reference_stopped == pause) return;
    kill(-s->reference.pid, pause ? SIGSTOP : SIGCONT);
    s->reference_stopped = pause;
}

/* ---- requests ---- */

static bool start_child(supervisor *s, fb_error *err)
{
    if (s->child.pid) return true;
    return fb_child_start(&s->child, NULL, fb_worker_device_main, s->child_wrote, -1, err);
}

static void send_files(supervisor *s)
{
    for (; s->files_in_child < s->files.n; s->files_in_child++) {
        const fb_worker_file *f = &s->files.at[s->files_in_child];
        int64_t bytes = f->n * (int64_t)sizeof *f->values;
        fb_channel_send(s->child.channel,
                        json_pack("{s:s, s:s, s:I}", "type", "file", "key", f->key, "bytes", (json_int_t)bytes));
        fb_channel_send_bytes(s->child.channel, f->values, (size_t)bytes);
    }
}

static bool ready_prepare(supervisor *s, const request *r, fb_error *err)
{
    const char *hex = r->said.graph;
    kept_graph *k = graph_named(s, hex);
    if (!k) return fb_fail(err, FB_ERR_INPUT, "graph %.40s was not sent, or long ago", hex);
    if (!start_child(s, err) || (wants_reference(r) && !start_reference(s, r, k, err))) return false;
    k->used = ++s->uses;
    send_files(s);
    if (k->in_child) return true;
    fb_channel_send(s->child.channel, json_pack("{s:s, s:s}", "type", "graph", "hash", k->hex));
    fb_graph_write_lines(k->graph, send_graph_line, s->child.channel);
    return k->in_child = true;
}

/* The reference of what is checked is under way, or there. */
static bool ready_check(supervisor *s, const request *r, fb_error *err)
{
    const char *hex = r->said.graph;
    kept_graph *k = graph_named(s, hex);
    if (!k) return fb_fail(err, FB_ERR_INPUT, "graph %.40s was not sent, or long ago", hex);
    k->used = ++s->uses;
    return !wants_reference(r) || start_reference(s, r, k, err);
}

/* Refuses what cannot be asked of the child as it is. */
static bool ready(supervisor *s, request *r, fb_error *err)
{
    bool check = r->said.kind == FB_REQUEST_CHECK;
    if (needs_reference(r) && !check) return ready_prepare(s, r, err);
    if (r->said.kind == FB_REQUEST_CALIBRATE) return start_child(s, err);
    int i = prepared_index(s, r->said.id);
    if (i < 0)
        return fb_fail(err, FB_ERR_CRASH, "case %lld is not prepared, or went with its process", (long long)r->said.id);
    r->said.limit_s = s->limits.at[i];
    return !check || ready_check(s, r, err);
}

/* Hands the child the next request it can be asked. */
static void next_request(supervisor *s)
{
    while (!s->running && s->queue.n) {
        request *r = &s->queue.at[0];
        fb_error why = {0};
        if (!ready(s, r, &why)) {
            if (r->said.kind == FB_REQUEST_RELEASE)
                fb_channel_send(s->front, json_pack("{s:s, s:I}", "type", "released", "id", (json_int_t)r->said.id));
            else
                fb_send_error(s->front, r->said.id, &why);
            finish_request(s);
            continue;
        }
        s->running = true;
        s->alive_ns = fb_now_ns();
        fb_channel_send(s->child.channel, json_incref(r->message));
        fb_channel_flush(s->child.channel, 0, NULL); /* writes alone: an answer read here would not wake the poll */
    }
    pause_reference(s, s->running && !needs_reference(&s->queue.at[0]));
}

static void enqueue(supervisor *s, const fb_request *r, json_t *message)
{
    if (s->queue.n >= MAX_QUEUE)
        say_error(s, r->id, FB_ERR_LIMIT, "more than %d requests are waiting", MAX_QUEUE);
    else
        FB_VEC_PUSH(&s->queue, (request){.said = *r, .message = json_incref(message)});
}

static void cancel(supervisor *s, const fb_request *r)
{
    int64_t id = r->id;
    fb_error why = {0};
    fb_fail(&why, FB_ERR_CANCELLED, "cancelled");
    for (int i = s->queue.n - 1; i >= 0; i--) {
        if (s->queue.at[i].said.id != id) continue;
        if (i == 0 && s->running) {
            ask_to_cancel(s, &why);
            continue;
        }
        if (s->queue.at[i].said.kind == FB_REQUEST_RELEASE) continue;
        fb_send_error(s->front, id, &why);
        json_decref(s->queue.at[i].message);
        memmove(s->queue.at + i, s->queue.at + i + 1, (size_t)(--s->queue.n - i) * sizeof *s->queue.at);
    }
}

/* ---- the list of devices, and hello ---- */

static void list_devices(supervisor *s, const fb_request *r)
{
    FB_VEC_PUSH(&s->listing, (list_ask){r->id, r->libraries});
}

static void send_list(supervisor *s, json_t *list)
{
    char host[128] = "";
    gethostname(host, sizeof host - 1);
    json_t *devices = json_object_get(list, "devices"), *libraries = json_object_get(list, "libraries"), *entry;
    if (!s->greeted) {
        fb_channel_send(s->front, json_pack("{s:s, s:i, s:s, s:s, s:O, s:O}", "type", "hello", "fusebox",
                                            FB_PROTOCOL_VERSION, "version", PACKAGE_VERSION, "host", host, "devices",
                                            devices, "libraries", libraries));
        s->greeted = true;
    }
    int waiting = 0; /* who came late with the wish for libraries gets another list */
    for (int i = 0; i < s->listing.n; i++) {
        list_ask *ask = &s->listing.at[i];
        if (ask->libraries && !s->lists_libraries)
            s->listing.at[waiting++] = *ask;
        else
            fb_channel_send(s->front, json_pack("{s:s, s:I, s:O, s:O}", "type", "devices", "id", (json_int_t)ask->id,
                                                "devices", devices, "libraries", libraries));
    }
    s->listing.n = waiting;
    size_t i;
    json_array_foreach(devices, i, entry)
    {
        json_t *machine = json_object_get(entry, "machine");
        if (machine)
            fb_channel_send(s->front, json_pack("{s:s, s:i, s:s, s:O}", "type", "machine", "id", 0, "device",
                                                fb_json_string_or(entry, "device", ""), "machine", machine));
    }
}

static void pump_lister(supervisor *s)
{
    size_t n;
    if (!s->lister.pid) return;
    bool open = fb_channel_pump(s->lister.channel, NULL);
    const char *line = fb_channel_line(s->lister.channel, &n);
    if (!line && open) return;
    json_t *list = line ? fb_json_parse(line, n, NULL) : NULL;
    if (!json_is_array(json_object_get(list, "devices")) || !json_is_array(json_object_get(list, "libraries"))) {
        json_decref(list);
        list = json_pack("{s:[], s:[]}", "devices", "libraries");
        s->lists_libraries = true; /* it is not asked again */
        say_error(s, 0, FB_ERR_CRASH, "the process that looks for devices ended before it was done");
    }
    fb_child_kill(&s->lister);
    send_list(s, list);
    json_decref(list);
}

static void start_lister(supervisor *s)
{
    fb_error why = {0};
    if (s->lister.pid || (s->greeted && !s->listing.n)) return;
    s->lists_libraries = false;
    for (int i = 0; i < s->listing.n; i++) s->lists_libraries |= s->listing.at[i].libraries;
    if (fb_child_start(&s->lister, NULL, fb_list_main, &s->lists_libraries, -1, &why)) return;
    fb_send_error(s->front, 0, &why);
    s->quit = true;
    s->status = 1;
}

/* ---- what the front says ---- */

static void hello(supervisor *s, const fb_request *r)
{
    int64_t theirs = r->protocol;
    if (theirs == FB_PROTOCOL_VERSION) return;
    say_error(s, 0, FB_ERR_UNAVAILABLE,
              "this worker (fusebox %s) speaks protocol %d, the front protocol %lld: install the same version on both",
              PACKAGE_VERSION, FB_PROTOCOL_VERSION, (long long)theirs);
    s->quit = true;
    s->status = 1;
}

static void begin_graph(supervisor *s, const fb_request *r)
{
    snprintf(s->reading, sizeof s->reading, "%s", r->hash);
    s->reader = fb_graph_reader_new();
}

static void begin_file(supervisor *s, const fb_request *r)
{
    s->file_bytes = r->bytes;
    s->file_key = fb_strdup(r->key);
    s->file_values = fb_alloc((size_t)r->bytes + 1);
}

static void quit(supervisor *s, const fb_request *r)
{
    (void)r;
    s->quit = true;
}

/* What is not here is the device child's work, and waits for its turn. */
static void (*const handlers[])(supervisor *s, const fb_request *r) = {
    [FB_REQUEST_HELLO] = hello,   [FB_REQUEST_GRAPH] = begin_graph,    [FB_REQUEST_FILE] = begin_file,
    [FB_REQUEST_CANCEL] = cancel, [FB_REQUEST_DEVICES] = list_devices, [FB_REQUEST_QUIT] = quit,
};

static void take_request(supervisor *s, json_t *message)
{
    fb_request r;
    fb_error why = {0};
    bool good = fb_request_read(message, &r, &why);
    if (good && r.kind == FB_REQUEST_FORGET) good = fb_fail(&why, FB_ERR_INPUT, "no front says \"forget\"");
    if (!good) {
        fb_send_error(s->front, r.id, &why);
        if (r.kind != FB_REQUEST_FILE) return;
        s->quit = true; /* how many bytes follow is not known: nothing after this can be understood */
        s->status = 1;
    } else if (fb_request_is_work(&r)) {
        enqueue(s, &r, message);
    } else {
        handlers[r.kind](s, &r);
    }
}

static void front_line(supervisor *s, const char *line, size_t n)
{
    fb_error why = {0};
    if (s->reader) {
        feed_graph(s, line, n);
        return;
    }
    json_t *message = fb_json_parse(line, n, &why);
    if (!message) {
        fb_send_error(s->front, 0, &why);
    } else if (!s->skip_graph || json_object_get(message, "type")) {
        s->skip_graph = false;
        take_request(s, message);
    }
    json_decref(message);
}

/* False while a file's bytes are still to come. */
static bool take_file(supervisor *s)
{
    if (!s->file_key) return true;
    if (!fb_channel_bytes(s->front, s->file_values, (size_t)s->file_bytes)) return false;
    fb_worker_files_put(&s->files, s->file_key, s->file_values, s->file_bytes / (int64_t)sizeof *s->file_values);
    fb_free(s->file_key);
    s->file_key = NULL;
    s->file_values = NULL;
    return true;
}

static void pump_front(supervisor *s)
{
    size_t n;
    fb_error why = {0};
    bool open = fb_channel_pump(s->front, &why);
    while (!s->quit && take_file(s)) {
        const char *line = fb_channel_line(s->front, &n);
        if (!line) break;
        front_line(s, line, n);
    }
    if (open || s->quit) return;
    if (why.kind == FB_ERR_INPUT) fb_send_error(s->front, 0, &why);
    s->quit = true;
    s->status = why.kind == FB_ERR_INPUT;
}

/* ---- the loop ---- */

static void wait_for_news(supervisor *s)
{
    struct pollfd fds[8];
    int n = fb_channel_poll(s->front, fds);
    const fb_child *children[] = {&s->child, &s->reference, &s->lister};
    for (size_t i = 0; i < sizeof children / sizeof *children; i++) {
        if (children[i]->pid) n += fb_channel_poll(children[i]->channel, fds + n);
    }
    int64_t deadline = deadline_of(s), left = deadline - fb_now_ns();
    int wait = deadline == INT64_MAX ? -1 : left <= 0 ? 0 : (int)(left / 1000000 + 1);
    if (fb_child_reap() && (wait < 0 || wait > LATE_MS)) wait = LATE_MS;
    poll(fds, (nfds_t)n, wait);
}

static void supervisor_free(supervisor *s)
{
    child_is_gone(s);
    fb_child_kill(&s->reference);
    fb_child_kill(&s->lister);
    while (s->queue.n) json_decref(s->queue.at[--s->queue.n].message);
    while (s->graphs.n) fb_graph_free(s->graphs.at[--s->graphs.n].graph);
    fb_graph_reader_free(s->reader);
    fb_worker_files_clear(&s->files);
    fb_free(s->file_key);
    fb_free(s->file_values);
    FB_VEC_FREE(&s->queue);
    FB_VEC_FREE(&s->graphs);
    FB_VEC_FREE(&s->prepared);
    FB_VEC_FREE(&s->limits);
    FB_VEC_FREE(&s->listing);
    FB_VEC_FREE(&s->made);
    fb_channel_free(s->front);
}

int fb_worker_serve(int in_fd, int out_fd)
{
    supervisor s = {
        .front = fb_channel_new(in_fd, out_fd), .child_wrote = fb_written_new(), .reference_wrote = fb_written_new()};
    while (!s.quit) {
        start_lister(&s);
        next_request(&s);
        if (s.quit) break;
        wait_for_news(&s);
        pump_front(&s);
        pump_child(&s);
        pump_reference(&s);
        pump_lister(&s);
        check_limits(&s);
    }
    fb_channel_flush(s.front, 1000, NULL);
    supervisor_free(&s);
    return s.status;
}
