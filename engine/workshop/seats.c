/* Seats: connections that are not trusted. Each is read no faster than its limits, held to what admit.c takes, and
 * closed where nothing after what it said could be understood. Graphs and values of inputs are taken in here; whatever
 * asks for a device goes on to share.c. */
#include "workshop/parts.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "graph/graph_json.h"

#include "config.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_MOST = 2 << 20,    /* bytes */
    UNSENT_MOST = 8 << 20,  /* that a seat has not read */
    BURST_BYTES = 32 << 20, /* that it sends at once, and … */
    BYTES_A_SECOND = 8 << 20,
    REFUSED_MOST = 2000, /* then it is closed */
    GRAPHS_MOST = 64,    /* as many as a worker keeps */
    LINES_A_TURN = 2000, /* then others are heard */
    FILES_MOST = 100000, /* keys, of all seats; */
    FILES_OF_ONE = 1000, /* those that one was the first to send */
};
static const int64_t greet_ns = 10000000000; /* it says hello within */

/* ---- what a seat is told ---- */

static void close_seat(fb_workshop *w, fb_seat *s, const char *why)
{
    if (s->gone) return;
    if (*why) fb_workshop_say(w, "seat %d: closed: %s", s->number, why);
    fb_channel_flush(s->channel, 0, NULL);
    s->gone = true;
    fb_workshop_changed(w);
}

void fb_seat_send(fb_seat *s, json_t *message)
{
    if (s->gone || fb_channel_unsent(s->channel) > UNSENT_MOST)
        json_decref(message);
    else
        fb_channel_send(s->channel, message);
}

/* What a compiler said may name folders of this machine, which are nobody's business. */
static void without_home(const char *text, char *to, size_t room)
{
    const char *home = getenv("HOME");
    size_t n = home ? strlen(home) : 0, at = 0;
    while (*text && at + 1 < room) {
        bool here = n > 1 && strncmp(text, home, n) == 0;
        to[at++] = here ? '~' : *text;
        text += here ? n : 1;
    }
    to[at] = '\0';
    fb_trim_partial(to);
}

void fb_seat_error(fb_workshop *w, fb_seat *s, int64_t id, const fb_error *why)
{
    char text[sizeof why->text];
    (void)w;
    without_home(why->text, text, sizeof text);
    fb_seat_send(s, json_pack("{s:s, s:I, s:s, s:s}", "type", "error", "id", (json_int_t)id, "kind",
                              fb_error_kind_name(why->kind), "text", text));
}

void fb_seat_refuse(fb_workshop *w, fb_seat *s, int64_t id, fb_error_kind kind, const char *format, ...)
{
    fb_error why = {0};
    va_list ap;
    va_start(ap, format);
    fb_vfail(&why, kind, format, ap);
    va_end(ap);
    fb_seat_error(w, s, id, &why);
    w->refused++;
    s->refused++;
    fb_workshop_say(w, "seat %d: %s", s->number, why.text);
    if (s->refused > REFUSED_MOST) close_seat(w, s, "too much of what it said was refused");
}

/* ---- the disk ---- */

bool fb_seat_may_write(fb_workshop *w, fb_seat *s, int64_t id, double more)
{
    double most = w->options.limits.disk_mb * 1e6, held = fb_account_disk(s->account), left = most - held;
    char text[3][32];
    if (more < left) return true;
    fb_format_bytes(text[0], held);
    fb_format_bytes(text[1], most);
    fb_format_bytes(text[2], more);
    if (left <= 0)
        fb_seat_refuse(w, s, id, FB_ERR_LIMIT,
                       "%s of disk were written for this seat, which may have %s an hour: what others have measured it "
                       "is still told",
                       text[0], text[1]);
    else
        fb_seat_refuse(w, s, id, FB_ERR_LIMIT,
                       "its reference takes %s of disk: this seat may have %s, and %s were written for it", text[2],
                       text[1], text[0]);
    return false;
}

/* ---- graphs ---- */

void fb_workshop_unuse(fb_workshop *w, fb_known_graph *g)
{
    if (--g->users > 0) return;
    for (int i = 0; i < w->graphs.n; i++)
        if (w->graphs.at[i] == g) w->graphs.at[i] = w->graphs.at[--w->graphs.n];
    fb_graph_free(g->graph);
    fb_free(g);
}

fb_known_graph *fb_seat_graph(fb_seat *s, const char *hex)
{
    for (int i = 0; i < s->graphs.n; i++) {
        fb_known_graph *g = s->graphs.at[i];
        if (strcmp(g->hex, hex) != 0) continue;
        memmove(s->graphs.at + i, s->graphs.at + i + 1, (size_t)(s->graphs.n - 1 - i) * sizeof g);
        return s->graphs.at[s->graphs.n - 1] = g;
    }
    return NULL;
}

static void forget_oldest(fb_workshop *w, fb_seat *s)
{
    fb_known_graph *g = s->graphs.at[0];
    memmove(s->graphs.at, s->graphs.at + 1, (size_t)--s->graphs.n * sizeof g);
    s->graph_bytes -= g->text_bytes;
    fb_workshop_unuse(w, g);
}

/* Were every computed value stored, and every input. */
static double value_bytes(const fb_graph *g)
{
    double sum = 0;
    for (int i = 0; i < g->n_nodes; i++)
        if (fb_op_get(g->nodes[i].op)->cls != FB_CLASS_VIEW)
            sum += (double)fb_shape_elements(&g->nodes[i].shape) * fb_dtype_size(g->nodes[i].dtype);
    return sum;
}

static fb_known_graph *known(fb_workshop *w, const char *hex)
{
    for (int i = 0; i < w->graphs.n; i++)
        if (strcmp(w->graphs.at[i]->hex, hex) == 0) return w->graphs.at[i];
    return NULL;
}

/* Takes the graph. */
static void keep_graph(fb_workshop *w, fb_seat *s, fb_graph *g)
{
    char hex[33];
    fb_hash_hex(g->hash, hex);
    double most = w->options.limits.graph_mb * 1e6;
    if (strcmp(hex, s->reading) != 0) {
        fb_seat_refuse(w, s, 0, FB_ERR_INPUT, "a graph was announced as %s but is %s", s->reading, hex);
        fb_graph_free(g);
        return;
    }
    fb_known_graph *k = fb_seat_graph(s, hex) ? NULL : known(w, hex);
    if (k || fb_seat_graph(s, hex)) {
        fb_graph_free(g);
    } else {
        k = fb_calloc(1, sizeof *k);
        k->graph = g;
        k->text_bytes = s->read_bytes;
        k->value_bytes = value_bytes(g);
        memcpy(k->hex, hex, sizeof hex);
        FB_VEC_PUSH(&w->graphs, k);
    }
    if (!k) return; /* sent twice */
    k->users++;
    FB_VEC_PUSH(&s->graphs, k);
    s->graph_bytes += k->text_bytes;
    while (s->graphs.n > 1 && (s->graphs.n > GRAPHS_MOST || s->graph_bytes > most)) forget_oldest(w, s);
}

static void end_graph(fb_seat *s, bool skip)
{
    fb_graph_reader_free(s->reader);
    s->reader = NULL;
    s->skip_graph = skip;
}

/* The first line tells how many nodes follow. */
static bool few_enough(const fb_workshop *w, const char *line, size_t n, fb_error *err)
{
    json_t *head = fb_json_parse(line, n, NULL);
    int64_t nodes =
        fb_json_int_or(head, "n_nodes", 0) + fb_json_int_or(head, "n_scopes", 0) + fb_json_int_or(head, "n_regions", 0);
    json_decref(head);
    return nodes <= 2 * (int64_t)w->options.limits.nodes ||
           fb_fail(err, FB_ERR_LIMIT, "a graph of a workshop has at most %.0f nodes", w->options.limits.nodes);
}

static void feed_graph(fb_workshop *w, fb_seat *s, const char *line, size_t n)
{
    bool done = false, first = s->read_bytes == 0;
    fb_error why = {0};
    s->read_bytes += (double)n + 1;
    bool ok = !first || few_enough(w, line, n, &why);
    if (ok && s->read_bytes > w->options.limits.graph_mb * 1e6)
        ok = fb_fail(&why, FB_ERR_LIMIT, "a graph of a workshop has at most %.0f MB", w->options.limits.graph_mb);
    ok = ok && fb_graph_reader_feed(s->reader, line, n, &done, &why);
    if (ok && !done) return;
    fb_graph *g = ok ? fb_graph_reader_take(s->reader) : NULL;
    end_graph(s, !ok);
    if (g)
        keep_graph(w, s, g);
    else
        fb_seat_refuse(w, s, 0, why.kind, "%s", why.text);
}

/* ---- values of inputs ---- */

static int file_named(const fb_workshop *w, const char *key)
{
    for (int i = 0; i < w->files.n; i++)
        if (strcmp(w->files.at[i].key, key) == 0) return i;
    return FB_NONE;
}

static bool has_sent(const fb_seat *s, int file)
{
    for (int i = 0; i < s->files.n; i++)
        if (s->files.at[i] == file) return true;
    return false;
}

bool fb_seat_has_inputs(fb_workshop *w, fb_seat *s, int64_t id, const fb_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const char *key = g->nodes[i].attrs->file;
        if (!key || g->nodes[i].attrs->dist != FB_DIST_FILE) continue;
        int file = file_named(w, key);
        if (file != FB_NONE && has_sent(s, file)) continue;
        fb_seat_refuse(w, s, id, FB_ERR_INPUT,
                       file == FB_NONE ? "the values of %s were not sent"
                                       : "this seat has not sent the values of %s that the workshop has: measure it "
                                         "on a device of your own",
                       g->nodes[i].name);
        return false;
    }
    return true;
}

static void begin_file(fb_workshop *w, fb_seat *s, const fb_ask *ask)
{
    double most = w->options.limits.file_mb * 1e6;
    int file = file_named(w, ask->key);
    bool again = file != FB_NONE && has_sent(s, file) && w->files.at[file].n * 8 == ask->bytes;
    if (!again &&
        s->file_bytes + (double)ask->bytes > most) { /* what follows are raw bytes, which cannot be passed over */
        fb_seat_refuse(w, s, 0, FB_ERR_LIMIT, "a seat sends at most %.0f MB of values", w->options.limits.file_mb);
        close_seat(w, s, "it sent more values than it may");
        return;
    }
    s->file_bytes += again ? 0 : (double)ask->bytes; /* after a fault, say, it sends them again */
    s->file_key = fb_strdup(ask->key);
    s->file_n_bytes = ask->bytes;
    s->file_values = fb_alloc((size_t)ask->bytes + sizeof(double));
}

/* All files together have eight times as much as one seat's; of what goes, the sum stays. */
static void trim_files(fb_workshop *w)
{
    double held = 0, most = 8e6 * w->options.limits.file_mb;
    for (int i = 0; i < w->files.n; i++) held += w->files.at[i].values ? 8.0 * (double)w->files.at[i].n : 0;
    for (int i = 0; i < w->files.n && held > most; i++) {
        fb_known_file *f = &w->files.at[i];
        if (!f->values) continue;
        held -= 8.0 * (double)f->n;
        fb_free(f->values);
        f->values = NULL;
    }
}

/* What a key holds is settled by who sends it first: one seat cannot put other values under another's input. Takes key
 * and values. */
static void keep_file(fb_workshop *w, fb_seat *s)
{
    fb_known_file f = {.key = s->file_key, .values = s->file_values, .n = s->file_n_bytes / (int64_t)sizeof(double)};
    fb_sha256_hex(f.values, (size_t)s->file_n_bytes, f.sha);
    int at = file_named(w, f.key);
    if (at == FB_NONE && w->files.n < FILES_MOST && s->account->keys < FILES_OF_ONE) {
        s->account->keys++;
        FB_VEC_PUSH(&s->files, w->files.n);
        FB_VEC_PUSH(&w->files, f);
        trim_files(w);
        return;
    }
    fb_known_file *k = at == FB_NONE ? NULL : &w->files.at[at];
    if (!k || strcmp(k->sha, f.sha) != 0) {
        fb_seat_refuse(w, s, 0, FB_ERR_INPUT, k ? "other values were sent as %s before" : "too many inputs: %s", f.key);
    } else {
        if (!has_sent(s, at)) FB_VEC_PUSH(&s->files, at);
        if (!k->values) {
            k->values = f.values;
            f.values = NULL;
            trim_files(w);
        }
    }
    fb_free(f.key);
    fb_free(f.values);
}

/* False while bytes are still to come. */
static bool take_file(fb_workshop *w, fb_seat *s)
{
    if (!s->file_key) return true;
    if (!fb_channel_bytes(s->channel, s->file_values, (size_t)s->file_n_bytes)) return false;
    keep_file(w, s);
    s->file_key = NULL;
    s->file_values = NULL;
    return true;
}

/* ---- hello, and the list of devices ---- */

/* A seat is given one device for as long as it stays, the one that is least in use when it comes: its list begins with
 * it, and what it measures without naming another is measured there. Single requests are not spread over devices that
 * are free, for the figures of two are not compared. */
static json_t *devices_for(const fb_workshop *w, const fb_seat *s)
{
    json_t *list = json_array();
    for (int i = 0; i < w->n_lanes; i++) json_array_append(list, w->lanes[(i + s->lane) % w->n_lanes].entry);
    return list;
}

static void send_machine(const fb_workshop_lane *l, fb_seat *s)
{
    if (l->machine)
        fb_seat_send(s, json_pack("{s:s, s:i, s:s, s:O}", "type", "machine", "id", 0, "device", l->device, "machine",
                                  l->machine));
}

static void send_hello(fb_workshop *w, fb_seat *s)
{
    fb_seat_send(s, json_pack("{s:s, s:i, s:s, s:s, s:b, s:s, s:o, s:[]}", "type", "hello", "fusebox",
                              FB_PROTOCOL_VERSION, "version", PACKAGE_VERSION, "host", "workshop", "workshop", true,
                              "seat", s->account->id, "devices", devices_for(w, s), "libraries"));
    for (int i = 0; i < w->n_lanes; i++) send_machine(&w->lanes[i], s);
}

static void hello(fb_workshop *w, fb_seat *s, const fb_ask *ask)
{
    if (ask->version != FB_PROTOCOL_VERSION) {
        fb_seat_refuse(w, s, 0, FB_ERR_UNAVAILABLE,
                       "this workshop (fusebox %s) speaks protocol %d, the seat protocol %lld: install the same "
                       "version on both",
                       PACKAGE_VERSION, FB_PROTOCOL_VERSION, (long long)ask->version);
        close_seat(w, s, "another version");
        return;
    }
    if (s->greeted) return;
    if (!fb_account_take(w, s, ask->seat)) {
        fb_seat_refuse(w, s, 0, FB_ERR_LIMIT, "%s has as many seats of the workshop as one may have (%.0f)",
                       *s->name ? s->name : "this seat", w->options.limits.windows);
        close_seat(w, s, "too many of one name");
        return;
    }
    s->lane = fb_lane_free(w);
    s->greeted = true;
    send_hello(w, s);
}

static void list_devices(fb_workshop *w, fb_seat *s, const fb_ask *ask)
{
    fb_seat_send(s, json_pack("{s:s, s:I, s:o, s:[]}", "type", "devices", "id", (json_int_t)ask->id, "devices",
                              devices_for(w, s), "libraries"));
}

/* What a connection says of whom it is for, before anything of a seat's own comes through it (relay.c). */
static void come_from(fb_workshop *w, fb_seat *s, const fb_ask *ask)
{
    if (s->heard) {
        fb_seat_refuse(w, s, 0, FB_ERR_INPUT, "who a seat is for is said by its connection, not by the seat");
        return;
    }
    memcpy(s->name, ask->name, sizeof s->name);
    memcpy(s->origin, ask->origin, sizeof s->origin);
}

/* ---- lines ---- */

static void begin_graph(fb_seat *s, const fb_ask *ask)
{
    memcpy(s->reading, ask->graph, sizeof s->reading);
    s->read_bytes = 0;
    s->reader = fb_graph_reader_new();
}

static void do_ask(fb_workshop *w, fb_seat *s, const fb_ask *ask)
{
    if (ask->kind == FB_ASK_FROM) {
        come_from(w, s, ask);
        return;
    }
    if (!s->greeted && ask->kind != FB_ASK_HELLO) {
        fb_seat_refuse(w, s, ask->id, FB_ERR_INPUT, "%s came before hello", fb_ask_name(ask->kind));
        return;
    }
    switch (ask->kind) {
    case FB_ASK_HELLO: hello(w, s, ask); break;
    case FB_ASK_GRAPH: begin_graph(s, ask); break;
    case FB_ASK_FILE: begin_file(w, s, ask); break;
    case FB_ASK_DEVICES: list_devices(w, s, ask); break;
    case FB_ASK_PREDICT: fb_tally_add(w, s, ask); break;
    default: fb_share_ask(w, s, ask); break;
    }
}

/* The rest of a graph that turned out bad: its lines have no type. */
static bool is_rest_of_graph(fb_seat *s, const char *line, size_t n)
{
    if (!s->skip_graph) return false;
    json_t *m = fb_json_parse(line, n, NULL);
    bool rest = m && !json_object_get(m, "type");
    json_decref(m);
    s->skip_graph = rest;
    return rest;
}

static void seat_line(fb_workshop *w, fb_seat *s, const char *line, size_t n)
{
    fb_ask ask;
    fb_error why = {0};
    if (s->reader) {
        feed_graph(w, s, line, n);
        return;
    }
    if (is_rest_of_graph(s, line, n)) return;
    s->may_say -= 1;
    if (fb_ask_read(line, n, &ask, &why))
        do_ask(w, s, &ask);
    else
        fb_seat_refuse(w, s, ask.id, why.kind, "%s", why.text);
    s->heard = true;
    fb_ask_clear(&ask);
}

/* ---- its life ---- */

/* How much it may say again. */
static void refill(const fb_workshop *w, fb_seat *s)
{
    int64_t now = fb_now_ns();
    double passed = (double)(now - s->counted_ns) * 1e-9, rate = w->options.limits.messages;
    s->counted_ns = now;
    s->may_say = fmin(s->may_say + passed * rate, 2 * rate);
    s->may_send = fmin(s->may_send + passed * BYTES_A_SECOND, BURST_BYTES);
}

fb_seat *fb_seat_new(fb_workshop *w, int fd, pid_t pid)
{
    fb_seat *s = fb_calloc(1, sizeof *s);
    s->number = ++w->last_seat;
    s->channel = fb_channel_new(fd, fd);
    s->pid = pid;
    s->since_ns = s->counted_ns = fb_now_ns();
    s->may_say = 2 * w->options.limits.messages;
    s->may_send = BURST_BYTES;
    fb_channel_limit(s->channel, LINE_MOST);
    fb_channel_pause(s->channel, true); /* until it is known what there is to ask for */
    return s;
}

void fb_seat_free(fb_workshop *w, fb_seat *s)
{
    fb_share_drop_seat(w, s);
    fb_account_leave(w, s);
    while (s->graphs.n) forget_oldest(w, s);
    FB_VEC_FREE(&s->graphs);
    FB_VEC_FREE(&s->files);
    fb_graph_reader_free(s->reader);
    fb_free(s->file_key);
    fb_free(s->file_values);
    fb_channel_free(s->channel);
    fb_free(s);
}

static bool may_go_on(const fb_seat *s)
{
    return !s->gone && s->may_say > 0 && s->may_send > 0;
}

void fb_seat_pump(fb_workshop *w, fb_seat *s)
{
    size_t n;
    fb_error why = {0};
    refill(w, s);
    if (!w->n_lanes) {
        s->since_ns = s->counted_ns;
        return;
    }
    bool open = fb_channel_pump(s->channel, &why);
    int lines = 0;
    while (may_go_on(s) && lines++ < LINES_A_TURN && take_file(w, s)) {
        const char *line = fb_channel_line(s->channel, &n);
        if (!line) break;
        s->may_send -= (double)n + 1;
        seat_line(w, s, line, n);
    }
    s->more = lines > LINES_A_TURN;
    fb_channel_pause(s->channel, s->may_say <= 0 || s->may_send <= 0);
    if (!open) {
        bool long_line = why.kind == FB_ERR_INPUT;
        if (long_line) fb_seat_refuse(w, s, 0, FB_ERR_LIMIT, "%s", why.text);
        close_seat(w, s, long_line ? why.text : "");
    }
    if (fb_channel_unsent(s->channel) > UNSENT_MOST) close_seat(w, s, "it reads nothing");
    if (!s->greeted && fb_now_ns() - s->since_ns > greet_ns) close_seat(w, s, "it did not say hello");
}

int fb_seat_timeout(const fb_seat *s)
{
    enum { AGAIN_MS = 20, GREET_MS = 1000 };
    if (s->gone || s->more) return 0;
    if (s->may_say <= 0 || s->may_send <= 0) return AGAIN_MS;
    return s->greeted ? -1 : GREET_MS;
}
