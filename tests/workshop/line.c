/* Carries bytes, and hears lines: requests with an id and their answers, and of a report what stands in it. A plan is
 * known by what was asked (graph, plan, device), and by what it must be: as many launches and bytes whenever and to
 * whomever it is told. */
#include "line.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "tui/show/figure.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 1 << 16 };

/* One direction: bytes on their way, and the line that is being heard. */
typedef struct {
    int from, to;
    char bytes[CHUNK];
    size_t head, tail;
    FB_VEC(char) line;
} way;

typedef struct {
    char kind[16];
    int64_t id;
    double since_s;
    bool late;
} request;

/* What was asked for, and what it turned out to be. */
typedef struct {
    char *asked, *kernels;
    double launches, moved;
} subject;

typedef struct {
    int64_t id;
    int subject;
} prepared;

typedef struct {
    pid_t seat; /* the driver's own child that it belongs to */
    way there, back;
    FB_VEC(request) open;
    FB_VEC(prepared) cases;
    bool gone;
} connection;

typedef struct {
    pid_t seat;
    shown_figures f;
} told_figures;

static struct sockaddr_un workshop_address;
static int listener = -1;
static double patience_s;
static FB_VEC(connection *) connections;
static FB_VEC(subject) subjects;
static FB_VEC(told_figures) told;
static FB_VEC(double) waits;
static FB_VEC(pid_t) lost_lines; /* seats whose line was cut, and that were told nothing since */
static line_counts counts;
static pid_t last_late;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- what is heard ---- */

static void accuse(const connection *c, const char *what, const json_t *report)
{
    char *text = fb_json_line(report);
    counts.wrong++;
    printf("# seat %d: %s: %.600s\n", (int)c->seat, what, text);
    fflush(stdout);
    fb_free(text);
}

static int subject_of(const json_t *m)
{
    json_t *key =
        json_pack("{s:O, s:O, s:O, s:O}", "graph", json_object_get(m, "graph"), "device", json_object_get(m, "device"),
                  "seeds", json_object_get(m, "seeds"), "plan", json_object_get(m, "plan"));
    char *asked = key ? json_dumps(key, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(key);
    int at = 0;
    if (!asked) return -1;
    while (at < subjects.n && strcmp(subjects.at[at].asked, asked) != 0) at++;
    if (at == subjects.n)
        FB_VEC_PUSH(&subjects, (subject){.asked = asked});
    else
        free(asked);
    return at;
}

static bool is_request(const char *type)
{
    static const char *const types[] = {"prepare", "sample", "check", "trace", "values", "search", "devices"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i], type) == 0) return true;
    return false;
}

static void hear_seat(connection *c, const json_t *m, const char *type)
{
    if (!is_request(type)) return;
    request r = {.id = fb_json_int_or(m, "id", 0), .since_s = now_s()};
    snprintf(r.kind, sizeof r.kind, "%s", type);
    FB_VEC_PUSH(&c->open, r);
    if (strcmp(type, "prepare") == 0) {
        int of = subject_of(m);
        if (of >= 0) FB_VEC_PUSH(&c->cases, ((prepared){.id = r.id, .subject = of}));
    }
}

/* The kernels' nodes, in order: what a report is of. */
static char *kernels_of(const json_t *report)
{
    fb_str out = {0};
    const json_t *kernel, *node;
    size_t i, k;
    json_array_foreach(json_object_get(report, "kernels"), i, kernel)
    {
        json_array_foreach(json_object_get(kernel, "nodes"), k, node)
            fb_str_addf(&out, "%s ", json_string_value(node) ? json_string_value(node) : "?");
        fb_str_add(&out, "| ");
    }
    return fb_str_take(&out);
}

void line_undoubted(char *figure)
{
    size_t n = strlen(figure);
    if (n && figure[n - 1] == '?') figure[n - 1] = '\0';
}

static void keep_told(const connection *c, const json_t *report)
{
    told_figures t = {.seat = c->seat};
    fb_figure_text(report, FB_FIGURE_WALL, t.f.wall);
    fb_figure_text(report, FB_FIGURE_LAUNCHES, t.f.launches);
    fb_figure_text(report, FB_FIGURE_DEVICE, t.f.device);
    fb_figure_text(report, FB_FIGURE_MOVED, t.f.moved);
    line_undoubted(t.f.device);
    counts.reports++;
    FB_VEC_PUSH(&told, t);
    for (int i = 0; i < lost_lines.n; i++)
        if (lost_lines.at[i] == c->seat) {
            lost_lines.at[i--] = lost_lines.at[--lost_lines.n];
            counts.back++;
        }
}

/* Whatever is told of a plan: the same kernels, launches and bytes; measured, where it has a time; never wrong. */
static void hear_report(connection *c, int64_t id, const json_t *report)
{
    subject *s = NULL;
    for (int i = 0; i < c->cases.n; i++)
        if (c->cases.at[i].id == id) s = &subjects.at[c->cases.at[i].subject];
    if (!s) {
        accuse(c, "a report of what was never asked for", report);
        return;
    }
    double launches = fb_json_number_or(report, "launches", -1), moved = fb_figure_number(report, FB_FIGURE_MOVED);
    char *kernels = kernels_of(report);
    if (!s->kernels) {
        s->kernels = fb_strdup(kernels);
        s->launches = launches;
        s->moved = moved;
    }
    const json_t *wall = json_object_get(report, "wall_us"), *error = json_object_get(report, "error");
    if (strcmp(kernels, s->kernels) != 0 || launches != s->launches || moved != s->moved)
        accuse(c, "a report of another plan", report);
    else if (error && json_is_false(json_object_get(error, "ok")))
        accuse(c, "a wrong result", report);
    else if (fb_figure_kind(report) != FB_SOURCE_MEASURED)
        accuse(c, "a figure that is not measured", report);
    else if (wall && !(fb_json_number_or(wall, "median", NAN) > 0 && fb_json_number_or(wall, "n", 0) > 0))
        accuse(c, "a time that is none", report);
    else if (wall)
        keep_told(c, report);
    fb_free(kernels);
}

static int open_request(const connection *c, int64_t id, const char *kind)
{
    for (int i = 0; i < c->open.n; i++)
        if (c->open.at[i].id == id && (!kind || strcmp(c->open.at[i].kind, kind) == 0)) return i;
    return -1;
}

/* The oldest open request that this answers; `kind` NULL: an error, which names no kind. It was perhaps of another than
 * the oldest, which is then closed by that one's answer. */
static void close_request(connection *c, int64_t id, const char *kind)
{
    int i = open_request(c, id, kind);
    if (i < 0) i = open_request(c, id, NULL);
    if (i < 0) return;
    request *r = &c->open.at[i];
    FB_VEC_PUSH(&waits, now_s() - r->since_s);
    memmove(r, r + 1, (size_t)(--c->open.n - i) * sizeof *r);
    counts.answers++;
}

/* What nobody asks for any more is not answered. */
static void released(connection *c, int64_t id)
{
    for (int i = 0; i < c->open.n; i++)
        if (c->open.at[i].id == id) {
            memmove(c->open.at + i, c->open.at + i + 1, (size_t)(--c->open.n - i) * sizeof(request));
            i--;
        }
    for (int i = 0; i < c->cases.n; i++)
        if (c->cases.at[i].id == id) c->cases.at[i--] = c->cases.at[--c->cases.n];
}

static void hear_error(connection *c, int64_t id, const json_t *m)
{
    const char *kind = fb_json_string_or(m, "kind", "");
    if (!id) {
        printf("# seat %d was told: %s\n", (int)c->seat, fb_json_string_or(m, "text", ""));
        return;
    }
    if (strcmp(kind, "cancelled") == 0)
        counts.cancelled++;
    else
        counts.refused++;
    close_request(c, id, NULL);
}

static void hear_workshop(connection *c, const json_t *m, const char *type)
{
    static const struct {
        const char *answer, *to;
    } answers[] = {{"prepared", "prepare"}, {"sampled", "sample"}, {"checked", "check"},  {"traced", "trace"},
                   {"values", "values"},    {"found", "search"},   {"devices", "devices"}};
    int64_t id = fb_json_int_or(m, "id", 0);
    if (strcmp(type, "error") == 0) hear_error(c, id, m);
    if (strcmp(type, "released") == 0) released(c, id);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        if (strcmp(type, answers[i].answer) != 0) continue;
        close_request(c, id, answers[i].to);
        if (i < 3) hear_report(c, id, json_object_get(m, "report"));
    }
}

/* Lines of a graph have no type. */
static void hear_line(connection *c, const way *w, const char *line, size_t n)
{
    if (!memmem(line, n, "\"type\":", 7)) return;
    json_t *m = json_loadb(line, n, 0, NULL);
    const char *type = fb_json_string_or(m, "type", "");
    if (w == &c->there)
        hear_seat(c, m, type);
    else
        hear_workshop(c, m, type);
    json_decref(m);
}

static void hear(connection *c, way *w, const char *bytes, size_t n)
{
    while (n) {
        const char *end = memchr(bytes, '\n', n);
        size_t part = end ? (size_t)(end - bytes) : n;
        for (size_t i = 0; i < part; i++) FB_VEC_PUSH(&w->line, bytes[i]);
        if (!end) return;
        hear_line(c, w, w->line.at, (size_t)w->line.n);
        w->line.n = 0;
        bytes += part + 1;
        n -= part + 1;
    }
}

/* ---- carrying ---- */

/* The process between the driver and the one that connected: 0 when there is none any more. */
static pid_t seat_of(pid_t pid)
{
    for (int i = 0; i < 16 && pid > 1; i++) {
        char path[64];
        int parent = 0;
        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        FILE *f = fopen(path, "r");
        if (!f || fscanf(f, "%*d (%*[^)]) %*c %d", &parent) != 1) parent = 0;
        if (f) fclose(f);
        if (parent == getpid()) return pid;
        pid = parent;
    }
    return 0;
}

static void take_one(void)
{
    struct ucred who = {0};
    socklen_t n = sizeof who;
    int seat = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (seat < 0) return;
    int there = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    getsockopt(seat, SOL_SOCKET, SO_PEERCRED, &who, &n);
    if (connect(there, (struct sockaddr *)&workshop_address, sizeof workshop_address) != 0) {
        close(seat);
        close(there);
        return;
    }
    fcntl(there, F_SETFL, O_NONBLOCK);
    connection *c = fb_calloc(1, sizeof *c);
    c->seat = seat_of(who.pid);
    c->there.from = c->back.to = seat;
    c->there.to = c->back.from = there;
    counts.opened++;
    FB_VEC_PUSH(&connections, c);
}

/* False when one of the ends is gone. */
static bool carry_way(connection *c, way *w)
{
    if (w->head == w->tail) {
        ssize_t n = read(w->from, w->bytes, sizeof w->bytes);
        if (n == 0 || (n < 0 && errno != EAGAIN)) return false;
        if (n < 0) return true;
        w->head = 0;
        w->tail = (size_t)n;
        hear(c, w, w->bytes, (size_t)n);
    }
    ssize_t n = send(w->to, w->bytes + w->head, w->tail - w->head, MSG_NOSIGNAL);
    if (n > 0) w->head += (size_t)n;
    return n >= 0 || errno == EAGAIN;
}

static void hang_up(connection *c)
{
    counts.forsaken += c->open.n;
    close(c->there.from);
    close(c->there.to);
    FB_VEC_FREE(&c->there.line);
    FB_VEC_FREE(&c->back.line);
    FB_VEC_FREE(&c->open);
    FB_VEC_FREE(&c->cases);
    fb_free(c);
}

static void drop_gone(void)
{
    for (int i = 0; i < connections.n; i++)
        if (connections.at[i]->gone) {
            hang_up(connections.at[i]);
            connections.at[i--] = connections.at[--connections.n];
        }
}

static void look_for_late(connection *c)
{
    for (int i = 0; i < c->open.n; i++) {
        request *r = &c->open.at[i];
        if (r->late || now_s() - r->since_s < patience_s) continue;
        r->late = true;
        counts.late++;
        last_late = c->seat;
        printf("# seat %d waits for ever: %s %lld; %zu and %zu bytes are on the line\n", (int)c->seat, r->kind,
               (long long)r->id, c->there.tail - c->there.head, c->back.tail - c->back.head);
    }
}

static struct pollfd wish_of(const way *w)
{
    return w->head == w->tail ? (struct pollfd){.fd = w->from, .events = POLLIN}
                              : (struct pollfd){.fd = w->to, .events = POLLOUT};
}

void line_carry(int ms)
{
    int n = 0;
    struct pollfd *fds = fb_calloc(2 * (size_t)connections.n + 1, sizeof *fds);
    fds[n++] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (int i = 0; i < connections.n; i++) {
        fds[n++] = wish_of(&connections.at[i]->there);
        fds[n++] = wish_of(&connections.at[i]->back);
    }
    if (poll(fds, (nfds_t)n, ms) > 0) {
        for (int i = 0; i < connections.n; i++) {
            connection *c = connections.at[i];
            if (fds[1 + 2 * i].revents) c->gone |= !carry_way(c, &c->there);
            if (fds[2 + 2 * i].revents) c->gone |= !carry_way(c, &c->back);
        }
        if (fds[0].revents) take_one();
    }
    fb_free(fds);
    drop_gone();
    for (int i = 0; i < connections.n; i++) look_for_late(connections.at[i]);
}

int line_lose(pid_t seat)
{
    int lost = 0;
    for (int i = 0; i < connections.n; i++)
        if (connections.at[i]->seat == seat) {
            connections.at[i]->gone = true;
            lost++;
        }
    bool known = false;
    for (int i = 0; i < lost_lines.n; i++) known |= lost_lines.at[i] == seat;
    if (lost && !known) FB_VEC_PUSH(&lost_lines, seat);
    counts.lost += lost;
    drop_gone();
    return lost;
}

/* ---- what is known ---- */

void line_forget(pid_t seat)
{
    for (int i = 0; i < told.n; i++)
        if (told.at[i].seat == seat) told.at[i--] = told.at[--told.n];
    for (int i = 0; i < lost_lines.n; i++)
        if (lost_lines.at[i] == seat) lost_lines.at[i--] = lost_lines.at[--lost_lines.n];
}

static bool are_same(const shown_figures *a, const shown_figures *b)
{
    return strcmp(a->wall, b->wall) == 0 && strcmp(a->launches, b->launches) == 0 &&
           strcmp(a->device, b->device) == 0 && strcmp(a->moved, b->moved) == 0;
}

bool line_told(pid_t seat, const shown_figures *f)
{
    for (int i = told.n - 1; i >= 0; i--)
        if (told.at[i].seat == seat && are_same(&told.at[i].f, f)) return true;
    return false;
}

long line_reports_to(pid_t seat)
{
    long n = 0;
    for (int i = 0; i < told.n; i++) n += told.at[i].seat == seat;
    return n;
}

pid_t line_late(void)
{
    pid_t late = last_late;
    last_late = 0;
    return late;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void line_count(line_counts *out)
{
    *out = counts;
    if (!waits.n) return;
    qsort(waits.at, (size_t)waits.n, sizeof *waits.at, by_size);
    out->p50_s = waits.at[waits.n / 2];
    out->p99_s = waits.at[(int)(0.99 * (waits.n - 1))];
    out->most_s = waits.at[waits.n - 1];
}

/* ---- its life ---- */

static bool address_of(const char *path, struct sockaddr_un *to)
{
    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    return snprintf(to->sun_path, sizeof to->sun_path, "%s", path) < (int)sizeof to->sun_path;
}

bool line_begin(const char *at, const char *workshop, double patience)
{
    struct sockaddr_un own;
    patience_s = patience;
    if (!address_of(at, &own) || !address_of(workshop, &workshop_address)) return false;
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return bind(listener, (struct sockaddr *)&own, sizeof own) == 0 && listen(listener, 128) == 0;
}

void line_end(void)
{
    for (int i = 0; i < connections.n; i++) connections.at[i]->gone = true;
    drop_gone();
    close(listener);
    for (int i = 0; i < subjects.n; i++) {
        free(subjects.at[i].asked);
        fb_free(subjects.at[i].kernels);
    }
    FB_VEC_FREE(&connections);
    FB_VEC_FREE(&subjects);
    FB_VEC_FREE(&told);
    FB_VEC_FREE(&waits);
    FB_VEC_FREE(&lost_lines);
}
