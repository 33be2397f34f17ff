/* A class: thirty workbenches at once on pseudo-terminals, each at a seat of one workshop, with keys at random; seats
 * are killed, lines are lost, others run commands or make noise beside them. What has to hold:
 *
 *   - no wrong figure: what a screen shows as measured is what the workshop told that seat, of a plan with the launches
 *     and bytes that the column's name says (shown.c, line.c);
 *   - nobody waits for ever: every request is answered within PATIENCE_S, and every workbench still there in the end
 *     takes its keys and leaves;
 *   - the workshop stays, in the same memory.
 *
 * A few seconds with a few seats, and until each of that has happened once; FB_FULL=1: thirty for ten minutes.
 * FB_CLASS_SEATS, FB_CLASS_SECONDS and FB_CLASS_DEVICE (what they share) say otherwise, FB_SEED which keys. Speaks TAP;
 * $FUSEBOX is the command. */
#include "../terminal/harness.h"
#include "../unit/children.h"
#include "../unit/plain_memory.h"
#include "line.h"
#include "shown.h"

#include "tui/show/figure.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    SEATS_MOST = 64,
    VISITORS = 2, /* beside them: one that runs a command, one that makes noise */
    SCRIPTS = 3,
    TICK_MS = 50,
    PATIENCE_S = 300, /* a seat that waits longer, on however busy a machine, waits for ever: 30 turns of 3 s, thrice */
    STANDS_S = 3,     /* a wrong figure that stays so long is no half drawn frame */
    GROWTH_KB = 32 * 1024,
};

typedef struct {
    term *t; /* NULL: nobody sits there */
    int script;
    double since_s;
    char suspect[400], seen[400]; /* what stands there and was never told; what was found right last */
    double suspect_s;
    char keys[256]; /* the last */
} seat;

typedef struct {
    pid_t pid; /* 0: nobody */
    int fd;    /* -1 */
    char out[128];
    double since_s;
} visitor;

static const char *fusebox, *device;
static char folder[64], workshop_path[100], line_path[100], scripts[SCRIPTS][128], puzzle[128], keys_file[128];
static seat seats[SEATS_MOST];
static visitor visitors[VISITORS];
static pid_t server;
static long sat_down, pressed, killed, left, shown, runs, refused_runs, wrong, stuck;
static uint64_t random_state;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static unsigned any_of(unsigned n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % n;
}

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void note(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fputs("# ", stdout);
    vprintf(format, ap);
    putchar('\n');
    fflush(stdout);
    va_end(ap);
}

static void show(const char *path)
{
    enum { LINES = 60 };
    char text[300];
    FILE *f = fopen(path, "r");
    for (int i = 0; f && i < LINES && fgets(text, sizeof text, f); i++) printf("# %s", text);
    if (f) fclose(f);
}

static bool holds(const char *path, const char *text)
{
    static char all[1 << 20];
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(all, 1, sizeof all - 1, f) : 0;
    if (f) fclose(f);
    all[n] = '\0';
    return strstr(all, text) != NULL;
}

/* ---- processes ---- */

/* A child of the driver's, with its output in a file. */
static pid_t start(const char *out, const char *const *argv)
{
    pid_t pid = fork();
    if (pid) return pid;
    int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    plain_memory();
    execv(fusebox, (char *const *)argv);
    _exit(127);
}

static bool start_server(void)
{
    char path[128];
    struct stat st;
    snprintf(path, sizeof path, "%s/server.out", folder);
    server = start(path, (const char *const[]){fusebox, "workshop", "--device", device, "--socket", workshop_path,
                                               "--limit", "turn_s=3", NULL});
    for (int i = 0; i < 6000; i++) {
        if (stat(workshop_path, &st) == 0) return true;
        usleep(10000);
    }
    return false;
}

/* Resident, kB; `all`: with its children and theirs. */
static long memory_of(pid_t pid, bool all)
{
    char path[64], text[256];
    long kb = 0;
    pid_t below[64];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(text, sizeof text, f))
        if (strncmp(text, "VmRSS:", 6) == 0) kb = atol(text + 6);
    if (f) fclose(f);
    if (all) add_children(pid, below, 64, &n);
    for (int i = 0; i < n; i++) kb += memory_of(below[i], true);
    return kb;
}

/* ---- workbenches ---- */

static term *workbench(int slot, int rows, int cols, const char *const *argv)
{
    static char state[SEATS_MOST][128];
    snprintf(state[slot], sizeof state[slot], "XDG_STATE_HOME=%s/state.%d", folder, slot); /* each its own user's */
    return term_start(rows, cols, (const char *const[]){state[slot], NULL}, argv);
}

static void sit_down(seat *s)
{
    *s = (seat){.script = (int)any_of(SCRIPTS), .since_s = now_s()};
    bool small = any_of(8) == 0;
    int rows = (int)(small ? 10 + any_of(14) : 24 + any_of(20)),
        cols = (int)(small ? 40 + any_of(40) : 110 + any_of(50));
    s->t = workbench((int)(s - seats), rows, cols,
                     (const char *const[]){fusebox, "seat", "--at", line_path, scripts[s->script], NULL});
    sat_down++;
}

static void stand_up(seat *s)
{
    line_forget(term_pid(s->t));
    term_free(s->t); /* by SIGKILL, if it runs */
    s->t = NULL;
}

/* All that moves, opens, edits and measures, and at times back to where the figures are; nothing that leaves. */
static void press(seat *s, const char *keys)
{
    size_t n = strlen(keys) + 1, held = strlen(s->keys);
    if (held + n >= sizeof s->keys) {
        memmove(s->keys, s->keys + n, held - n + 1);
        held -= n;
    }
    snprintf(s->keys + held, sizeof s->keys - held, "%s ", keys);
    term_keys(s->t, keys);
    pressed++;
}

static void press_key(seat *s)
{
    static const char *const keys[] = {"j",     "k",     "h", "l", "g",   "G", "PgDn", "PgUp", "Tab",  "S-Tab", "Space",
                                       "Space", "Space", "u", "u", "C-r", "[", "]",    "v",    "1",    "2",     "3",
                                       "m",     "m",     "a", "c", "X",   "K", "+",    "_",    "-",    "=",     "x",
                                       "w",     "S",     "F", "T", "d",   "P", "?",    "n",    "N",    "<",     ">",
                                       "C-l",   "C-g",   "C", "y", "s",   "O", "L",    "i",    "Enter"};
    static const char *const words[] = {"A \"none\" Enter", "A \"b:max\" Enter",   "p \"eager\" Enter",
                                        "/ \"relu\" Enter", ": \"no such\" Enter", "\"\033\" \"\033\" K m"};
    unsigned which = any_of(12);
    if (which < 9) press(s, keys[any_of(sizeof keys / sizeof *keys)]);
    if (which == 9) press(s, words[any_of(sizeof words / sizeof *words)]);
    if (which > 9) press(s, "\"\033\"");
}

/* For whoever looks into it. */
static void tell(seat *s, const char *what)
{
    note("%s; its last keys: %s", what, s->keys);
    for (const char *p = term_screen(s->t); *p;) {
        size_t n = strcspn(p, "\n");
        note("%.*s", (int)n, p);
        p += n + (p[n] == '\n');
    }
}

/* ---- what a screen shows ---- */

/* A variant's launches and bytes under a preset, as its script makes them: x is [rows, 512] in f32. */
static bool as_named(const seat *s, const shown_column *c)
{
    static const struct {
        const char *variant, *plan, *launches;
        double row_bytes;
    } known[] = {{"a", "max", "1", 2048 + 4},
                 {"a", "none", "3", 3 * 2048 + 12},
                 {"b", "max", "1", 2 * 2048 + 4},
                 {"b", "none", "4", 6 * 2048 + 12}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char moved[48];
        if (strcmp(c->variant, known[i].variant) != 0 || strcmp(c->plan, known[i].plan) != 0) continue;
        fb_figure_write(moved, 64.0 * (s->script + 1) * known[i].row_bytes, FB_UNIT_BYTES, FB_SOURCE_MEASURED);
        return strcmp(c->f.launches, known[i].launches) == 0 && strcmp(c->f.moved, moved) == 0;
    }
    return true; /* an edited plan, or one that was not looked up */
}

/* A frame may be half drawn: what is wrong is what stays. */
static void look(seat *s)
{
    shown_column c[SHOWN_COLUMNS];
    char suspect[sizeof s->suspect] = "", right[sizeof s->seen] = "";
    size_t bad = 0, good = 0;
    int n = shown_columns(term_screen(s->t), c);
    for (int i = 0; i < n; i++) {
        const shown_figures *f = &c[i].f;
        bool fine = line_told(term_pid(s->t), f) && as_named(s, &c[i]);
        char *to = fine ? right : suspect;
        size_t *at = fine ? &good : &bad;
        if (*at + 1 < sizeof suspect)
            *at += (size_t)snprintf(to + *at, sizeof suspect - *at, "%s:%s %s %s %s %s; ", c[i].variant, c[i].plan,
                                    f->wall, f->launches, f->device, f->moved);
    }
    if (good && strcmp(right, s->seen) != 0) {
        shown += n;
        memcpy(s->seen, right, sizeof right);
    }
    if (strcmp(suspect, s->suspect) != 0) {
        memcpy(s->suspect, suspect, sizeof suspect);
        s->suspect_s = now_s();
    } else if (bad && s->suspect_s > 0 && now_s() - s->suspect_s > STANDS_S) {
        wrong++;
        s->suspect_s = 0; /* said once */
        note("a screen shows what was never told of script %d: %s", s->script, suspect);
        tell(s, "it shows");
    }
}

/* It ended by itself: whoever was not killed ends well. */
static void look_at_end(seat *s)
{
    int status = term_end(s->t, 2000);
    left++;
    if (status != 0) {
        wrong++;
        note("a workbench ended with status %x", (unsigned)status);
        tell(s, "it ended");
    }
    stand_up(s);
}

static bool has_ended(const term *t)
{
    siginfo_t how = {0};
    return waitid(P_PID, (id_t)term_pid(t), &how, WEXITED | WNOHANG | WNOWAIT) == 0 && how.si_pid;
}

static void tick(seat *s)
{
    enum { KEY = 8, LOOK = 16, KILL = 1200, LOSE = 800 }; /* one in so many ticks */
    if (!s->t) sit_down(s);
    term_rest(s->t, 0, 0);
    if (has_ended(s->t)) {
        look_at_end(s);
        return;
    }
    if (any_of(KEY) == 0) press_key(s);
    if (any_of(LOOK) == 0 || s->suspect[0]) look(s);
    if (any_of(LOSE) == 0) line_lose(term_pid(s->t));
    if (any_of(KILL) == 0) {
        killed++;
        stand_up(s);
    }
}

/* ---- visitors ---- */

static void run_command(visitor *v)
{
    snprintf(v->out, sizeof v->out, "%s/run.out", folder);
    v->pid = start(v->out, (const char *const[]){fusebox, "seat", "--at", line_path, "run", scripts[any_of(SCRIPTS)],
                                                 "a:max", "b:none", "--format", "json", NULL});
}

static void make_noise(visitor *v)
{
    static const char *const lines[] = {
        "{\"type\":\"hello\",\"fusebox\":1}\n{\"type\":\"calibrate\",\"id\":1}\n", "GET / HTTP/1.0\n\n",
        "{\"type\":\"hello\",\"fusebox\":1}\n{\"type\":\"graph\",\"hash\":\"0123456789abcdef0123456789abcdef\"}\n{"
        "\"id\":1",
        "{\"type\":\"hello\",\"fusebox\":1}\n{\"type\":\"file\",\"key\":\"x\",\"bytes\":100000}\nabc"};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char bytes[2000];
    snprintf(a.sun_path, sizeof a.sun_path, "%s", workshop_path);
    v->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connect(v->fd, (struct sockaddr *)&a, sizeof a) != 0) return;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)any_of(256);
    const char *text = lines[any_of(sizeof lines / sizeof *lines)];
    if (any_of(2))
        send(v->fd, bytes, sizeof bytes, MSG_NOSIGNAL);
    else
        send(v->fd, text, strlen(text), MSG_NOSIGNAL);
}

static void go(visitor *v)
{
    if (v->pid) {
        kill(v->pid, SIGKILL);
        waitpid(v->pid, NULL, 0);
        line_forget(v->pid);
    }
    if (v->fd >= 0) close(v->fd);
    *v = (visitor){.fd = -1};
}

/* A command ends with right results, or with a sentence. */
static void look_at_run(visitor *v, int status)
{
    bool fine = WIFEXITED(status) && WEXITSTATUS(status) == 0 && holds(v->out, "\"ok\": true") &&
                holds(v->out, "\"wall_us\"") && !holds(v->out, "\"ok\": false");
    line_forget(v->pid);
    v->pid = 0;
    if (fine) {
        runs++;
    } else if (WIFEXITED(status) && WEXITSTATUS(status) < 4 && holds(v->out, "fusebox: ") &&
               !holds(v->out, "wrong result")) {
        refused_runs++;
        note("a command was refused:");
        show(v->out);
    } else {
        wrong++;
        note("a command ended with status %x:", (unsigned)status);
        show(v->out);
    }
}

static void tick_visitor(visitor *v)
{
    int status;
    if (v->pid && waitpid(v->pid, &status, WNOHANG) == v->pid) look_at_run(v, status);
    if (v->fd >= 0 && any_of(20) == 0) go(v);
    if (v->pid || v->fd >= 0) return;
    v->since_s = now_s();
    if (v == visitors)
        run_command(v);
    else
        make_noise(v);
}

/* ---- the class ---- */

static int number_of(const char *name, int usual, int full)
{
    const char *given = getenv(name);
    return given && *given ? atoi(given) : getenv("FB_FULL") ? full : usual;
}

static void report(bool ok, const char *name)
{
    static int number;
    printf("%sok %d - %s\n", ok ? "" : "not ", ++number, name);
    fflush(stdout);
}

static void write_file(char *path, size_t room, const char *name, const char *text)
{
    snprintf(path, room, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

static void write_scripts(void)
{
    for (int i = 0; i < SCRIPTS; i++) {
        char text[1000], name[32];
        snprintf(name, sizeof name, "class%d.lua", i);
        snprintf(text, sizeof text,
                 "local fb = require \"fusebox\"\nlocal rows = %d\nreturn fb.script {\n  variants = {\n"
                 "    a = function(g) return g:input(\"x\", { rows, 512 }):tanh():sum(-1):relu() end,\n"
                 "    b = function(g)\n      local y = g:input(\"y\", { rows, 512 })\n"
                 "      return (g:input(\"x\", { rows, 512 }) * y):tanh():sum(-1):relu()\n    end,\n  },\n"
                 "  columns = { \"a:max\", \"a:none\", \"b:max\", \"b:none\" },\n}\n",
                 64 * (i + 1));
        write_file(scripts[i], sizeof scripts[i], name, text);
    }
    write_file(puzzle, sizeof puzzle, "puzzle.lua",
               "local fb = require \"fusebox\"\nreturn fb.script {\n  variants = {\n"
               "    a = function(g) return g:input(\"x\", { 8, 32 }):tanh():sum(-1):relu() end,\n"
               "    b = function(g) return g:input(\"x\", { 8, 32 }):sum(-1):relu() end,\n  },\n"
               "  puzzle = { compare = { \"a:none\", \"b:max\" }, ask = \"Why?\", tell = \"So.\",\n"
               "    choices = { { \"launches\", \"fewer launches\" }, { \"bytes\", \"fewer bytes\" } },\n"
               "    answer = function(why) return why:largest() end },\n}\n");
    write_file(keys_file, sizeof keys_file, "keys", "1 l j Enter @idle q q\n"); /* an answer, a guess, and see */
}

static void set_up(void)
{
    const char *tmp = getenv("TMPDIR");
    char path[128];
    snprintf(folder, sizeof folder, "%.30s/fusebox-class-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) _exit(99);
    snprintf(workshop_path, sizeof workshop_path, "%s/workshop", folder);
    snprintf(line_path, sizeof line_path, "%s/line", folder);
    write_scripts();
    snprintf(path, sizeof path, "%s/cache", folder);
    setenv("XDG_CACHE_HOME", path, 1);
    snprintf(path, sizeof path, "%s/state", folder);
    setenv("XDG_STATE_HOME", path, 1);
    setenv("HOME", folder, 1);
    setenv("EDITOR", "true", 1);
    unsetenv("VISUAL");
    if (chdir(folder) != 0 || !line_begin(line_path, workshop_path, PATIENCE_S)) _exit(99);
    for (int i = 0; i < VISITORS; i++) visitors[i].fd = -1;
}

/* A command that measures, while nothing else is said. */
static bool is_served(void)
{
    visitor v = {.fd = -1, .since_s = now_s()};
    run_command(&v);
    for (int status; now_s() - v.since_s < PATIENCE_S; line_carry(20)) {
        if (waitpid(v.pid, &status, WNOHANG) != v.pid) continue;
        long before = runs;
        look_at_run(&v, status);
        return runs > before;
    }
    go(&v);
    return false;
}

/* One that answers the puzzle, before any other has: it is told of where that was agreed to. */
static void predict(int slot, bool agreed)
{
    const char *argv[] = {fusebox, "seat", "--at", line_path, "--predictions", "--keys", keys_file, puzzle, NULL};
    if (!agreed) memmove(&argv[4], &argv[5], 4 * sizeof *argv);
    term *t = workbench(slot, 40, 120, argv);
    for (double since = now_s(); now_s() - since < PATIENCE_S && !has_ended(t); line_carry(10)) term_rest(t, 0, 0);
    line_forget(term_pid(t));
    term_free(t);
}

/* A lecturer's terminal: the page is drawn as a terminal takes it, and C-c ends the workshop. */
static bool is_drawn(void)
{
    term *t = workbench(
        0, 24, 80, (const char *const[]){fusebox, "workshop", "--device", device, "--socket", workshop_path, NULL});
    bool drawn = term_wait(t, "C-c ends it", PATIENCE_S * 1000) && term_wait(t, "0 seats", PATIENCE_S * 1000);
    term_keys(t, "C-c");
    drawn &= term_end(t, PATIENCE_S * 1000) == 0;
    term_free(t);
    return drawn;
}

/* Every workbench that is there takes its keys and leaves. One that only begins takes none before it has its screen. */
static void all_leave(int n)
{
    bool any = true;
    double since = now_s(), asked = 0;
    while (any && now_s() - since < PATIENCE_S) {
        bool again = now_s() - asked > 2;
        if (again) asked = now_s();
        any = false;
        line_carry(20);
        for (int i = 0; i < n; i++) {
            if (!seats[i].t) continue;
            any = true;
            term_rest(seats[i].t, 0, 0);
            if (has_ended(seats[i].t))
                look_at_end(&seats[i]);
            else if (again && term_on_alternate(seats[i].t))
                term_keys(seats[i].t, "\"\033\" C-l C-c");
        }
    }
    for (int i = 0; i < n; i++) {
        if (!seats[i].t) continue;
        stuck++;
        tell(&seats[i], "a workbench does not leave");
        stand_up(&seats[i]);
    }
    for (int i = 0; i < VISITORS; i++) go(&visitors[i]);
}

/* Each of what the class is for has happened; what has not is helped along. */
static bool enough(int n)
{
    line_counts c;
    line_count(&c);
    seat *s = &seats[any_of((unsigned)n)];
    if (!s->t) return false;
    bool told = line_reports_to(term_pid(s->t)) > 0;
    if (told && !c.lost) line_lose(term_pid(s->t));
    if (!c.back && any_of(10) == 0) term_keys(s->t, "\"\033\" K m");
    if (c.back && shown && !killed && told) {
        killed++;
        stand_up(s);
    }
    return killed && c.back && shown;
}

typedef struct {
    long own[3], all[3]; /* kB: of the workshop, and with its workers; when it began, half-way, in the end */
} memory;

static void remember(memory *m, int at)
{
    m->own[at] = memory_of(server, false);
    m->all[at] = memory_of(server, true);
}

static void hold(int n, int seconds, memory *m)
{
    double begun = now_s(), said = begun;
    bool half = false;
    remember(m, 0);
    while (now_s() - begun < seconds || (!enough(n) && now_s() - begun < PATIENCE_S)) {
        double until = now_s() + TICK_MS * 1e-3;
        for (int i = 0; i < n; i++) tick(&seats[i]);
        for (int i = 0; i < VISITORS; i++) tick_visitor(&visitors[i]);
        do line_carry(5);
        while (now_s() < until);
        pid_t late = line_late();
        for (int i = 0; i < n; i++)
            if (late && seats[i].t && term_pid(seats[i].t) == late) tell(&seats[i], "a seat waits for ever");
        if (!half && now_s() - begun > seconds / 2.0) {
            half = true;
            remember(m, 1);
        }
        if (now_s() - said < 30) continue;
        said = now_s();
        line_counts c;
        line_count(&c);
        note("%.0f s: %ld keys, %ld killed, %ld lines lost, %ld answers, %ld figures seen, %ld wrong; %ld kB",
             said - begun, pressed, killed, c.lost, c.answers, shown, wrong + c.wrong, memory_of(server, false));
    }
}

static void say_table(int n, double seconds, const memory *m)
{
    line_counts c;
    line_count(&c);
    note("| seats at once, for | %d, %.0f s |", n, seconds);
    note("| workbenches opened, killed, left by themselves | %ld, %ld, %ld |", sat_down, killed, left);
    note("| keys | %ld |", pressed);
    note("| lines, lost; seats measured again after that | %ld, %ld; %ld |", c.opened, c.lost, c.back);
    note("| requests answered; of these cancelled, refused | %ld; %ld, %ld |", c.answers, c.cancelled, c.refused);
    note("| … open when their seat or line went | %ld |", c.forsaken);
    note("| times told; figures seen on screens; commands | %ld; %ld; %ld |", c.reports, shown, runs);
    note("| wrong | %ld |", wrong + c.wrong);
    note("| waited for an answer: half, 99 %%, most | %.2f s, %.1f s, %.1f s |", c.p50_s, c.p99_s, c.most_s);
    note("| longer than %d s | %ld |", PATIENCE_S, c.late + stuck);
    note("| the workshop's memory at the start, half-way, in the end | %.1f, %.1f, %.1f MB |", (double)m->own[0] / 1e3,
         (double)m->own[1] / 1e3, (double)m->own[2] / 1e3);
    note("| … with its workers | %.0f, %.0f, %.0f MB |", (double)m->all[0] / 1e3, (double)m->all[1] / 1e3,
         (double)m->all[2] / 1e3);
}

int main(void)
{
    int n = number_of("FB_CLASS_SEATS", 4, 30), seconds = number_of("FB_CLASS_SECONDS", 4, 600);
    const char *seed = getenv("FB_SEED");
    fusebox = getenv("FUSEBOX");
    device = getenv("FB_CLASS_DEVICE");
    if (!device || !*device) device = "host";
    if (!fusebox || fusebox[0] != '/') {
        puts("1..0 # SKIP FUSEBOX does not name the command");
        return 0;
    }
    random_state = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    note("%d seats for %d s, FB_SEED=%llu", n, seconds, (unsigned long long)random_state);
    set_up();
    if (n > SEATS_MOST) n = SEATS_MOST;
    signal(SIGPIPE, SIG_IGN);
    bool there = start_server() && is_served();
    predict(0, true);
    predict(1, false);
    memory m = {0};
    double begun = now_s();
    hold(n, seconds, &m);
    double held = now_s() - begun;
    all_leave(n);
    bool served = is_served();
    remember(&m, 2);
    line_counts c;
    line_count(&c);
    int status = -1;
    bool alive = waitpid(server, &status, WNOHANG) == 0;
    kill(server, SIGTERM);
    if (alive) waitpid(server, &status, 0);
    say_table(n, held, &m);
    line_end();
    char path[128];
    snprintf(path, sizeof path, "%s/server.out", folder);
    show(path);
    report(there, "a seat is served");
    report(shown > 0 && wrong + c.wrong == 0, "no screen, report or command has a wrong figure");
    report(c.back > 0 && killed > 0, "lines were lost and seats killed, and others were measured for after that");
    report(c.late + stuck == 0, "nobody waits for ever");
    report(alive && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the workshop outlives them");
    report(served, "and serves who comes then");
    report(m.own[2] < m.own[0] + GROWTH_KB && m.own[2] < m.own[1] + GROWTH_KB, "in no more memory");
    report(holds(path, "puzzle: 1 prediction\n"), "what a workbench predicted has arrived, of those that agreed to it");
    report(is_drawn(), "a terminal shows it, until C-c");
    puts("1..9");
    drop_tree(folder);
    return 0;
}
