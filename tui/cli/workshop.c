/* fusebox workshop and fusebox seat: one machine's GPU for a class. The first serves, and shows the lecturer who is
 * there, what runs and what the class predicts; the second is everything else fusebox does, on the workshop's device.
 */
#include "tui/cli/cli.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "session/library.h"
#include "session/progress.h"
#include "session/results.h"
#include "tui/show/table.h"
#include "workshop/workshop.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* ---- workshop ---- */

typedef struct {
    fb_workshop_options options;
    const char *out;
    bool predictions;
    fb_results *results;
    char class_name[40];
    fb_error failed; /* the results file could not be written */
} workshop;

enum { KEY_SOCKET = 256, KEY_OUT, KEY_LIMIT };

static int workshop_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    workshop *w = ctx;
    fb_error err = {0};
    switch (key) {
    case KEY_SOCKET: w->options.socket = arg; return 0;
    case KEY_OUT: w->out = arg; return 0;
    case KEY_LIMIT:
        if (!fb_workshop_limit_set(&w->options.limits, arg, &err))
            fb_cli_usage("%s: --limit: %s", state->name, err.text);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static char *workshop_help(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC) return (char *)text;
    fb_str out = {0};
    const char *name, *help;
    double otherwise;
    fb_str_add(&out, "Limits, of each seat unless it says otherwise:\n\n");
    for (int i = 0; fb_workshop_limit_at(i, &name, &otherwise, &help); i++)
        fb_str_addf(&out, "  %-10s %7g  %s\n", name, otherwise, help);
    char *copy = strdup(out.text); /* argp frees it */
    fb_str_free(&out);
    return copy;
}

/* A prediction as a row of a results file: the last row of a seat counts. */
static size_t keep_prediction(void *ctx, const fb_prediction *p)
{
    workshop *w = ctx;
    if (!w->results) return 0;
    json_t *row = json_pack("{s:{s:s, s:i, s:s}, s:{s:s}}", "case", "class", w->class_name, "seat", p->seat, "puzzle",
                            p->puzzle, "row", "chosen", p->chosen);
    fb_json_set_number(json_object_get(row, "row"), "guess", p->guess);
    fb_results_add(w->results, row, &w->failed);
    char *line = fb_json_line(row);
    size_t bytes = strlen(line) + 1;
    fb_free(line);
    json_decref(row);
    return bytes;
}

static volatile sig_atomic_t ended;

static void on_signal(int sig)
{
    (void)sig;
    ended = 1;
}

static void add_bar(fb_str *out, int n, int most)
{
    enum { WIDTH = 40 };
    int cells = most > WIDTH ? n * WIDTH / most : n;
    for (int i = 0; i < cells || (n && i < 1); i++) fb_str_add(out, "█");
}

/* By name, or from the one on that was answered last: a screen has room for so many. */
static void add_predictions(fb_str *out, const fb_workshop *w, bool last_first)
{
    int puzzles = fb_workshop_puzzles(w), first = last_first ? fb_workshop_puzzle_last(w) : 0;
    for (int p = 0; p < puzzles; p++) {
        int i = p == 0 ? first : p <= first ? p - 1 : p; /* the first, then the others */
        int n, seats, most = 0, all = 0;
        const char *puzzle = fb_workshop_puzzle(w, i, &n);
        for (int k = 0; k < n; k++) {
            fb_workshop_choice(w, i, k, &seats);
            if (seats > most) most = seats;
            all += seats;
        }
        fb_str_addf(out, "\n%s: %d prediction%s\n", puzzle, all, all == 1 ? "" : "s");
        for (int k = 0; k < n; k++) {
            const char *chosen = fb_workshop_choice(w, i, k, &seats);
            if (!seats) continue;
            fb_str_addf(out, "  %-14s %3d ", chosen, seats);
            add_bar(out, seats, most);
            fb_str_add(out, "\n");
        }
    }
}

static void add_state(fb_str *out, const fb_workshop *w)
{
    fb_workshop_state s;
    char written[32];
    fb_workshop_state_of(w, &s);
    fb_str_addf(out, "%d seat%s, %d request%s waiting · %lld measured, %lld shared, %lld refused, %lld lost, %s kept\n",
                s.seats, s.seats == 1 ? "" : "s", s.waiting, s.waiting == 1 ? "" : "s", (long long)s.measured,
                (long long)s.shared, (long long)s.refused, (long long)s.lost,
                fb_format_bytes(written, (double)s.written));
}

static void add_devices(fb_str *out, const fb_workshop *w)
{
    for (int i = 0; i < fb_workshop_devices(w); i++) {
        const char *title, *doing;
        int seat;
        const char *name = fb_workshop_device(w, i, &title, &doing, &seat);
        fb_str_addf(out, "%s: %s", name, title);
        if (doing && seat) fb_str_addf(out, ": seat %d: %s", seat, doing);
        fb_str_add(out, "\n");
    }
}

/* The lecturer's screen, drawn over what it was: plain text, so that it needs nothing of the workbench. Lines are cut
 * at the screen's width, and there are no more than it has. */
static void draw(const fb_workshop *w)
{
    fb_str page = {0}, out = {0};
    fb_workshop_state s;
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    if (size.ws_row < 2) size.ws_row = 24;
    fb_workshop_state_of(w, &s);
    fb_str_addf(&page, "fusebox workshop · C-c ends it · %s\n", s.socket);
    add_devices(&page, w);
    add_state(&page, w);
    if (*fb_workshop_note(w)) fb_str_addf(&page, "%s\n", fb_workshop_note(w));
    add_predictions(&page, w, true);
    fputs("\033[H\033[?7l", stdout); /* by itself: fb_put lets no text command the terminal */
    const char *at = fb_str_get(&page);
    for (int line = 1; *at && line < size.ws_row; line++) {
        size_t n = strcspn(at, "\n");
        fb_str_clear(&out);
        fb_str_add_n(&out, at, n);
        fb_put(stdout, fb_str_get(&out));
        fputs("\033[K\r\n", stdout);
        at += n + (at[n] == '\n');
    }
    fputs("\033[J\033[?7h", stdout);
    fflush(stdout);
    fb_str_free(&page);
    fb_str_free(&out);
}

/* What a log gets instead: where it is, once the devices are known. */
static void print_once(const fb_workshop *w, bool *said)
{
    fb_workshop_state s;
    if (*said || !fb_workshop_devices(w)) return;
    *said = true;
    fb_str out = {0};
    fb_workshop_state_of(w, &s);
    fb_str_addf(&out, "workshop at %s\n", s.socket);
    add_devices(&out, w);
    fb_put(stdout, fb_str_get(&out));
    fflush(stdout);
    fb_str_free(&out);
}

static void serve(workshop *me, fb_workshop *w)
{
    enum { FRAME_MS = 200 };
    bool terminal = isatty(STDOUT_FILENO), said = false;
    uint64_t drawn = UINT64_MAX;
    int64_t drawn_ns = 0;
    if (terminal) fputs("\033[2J", stdout);
    while (!ended && !fb_workshop_error(w)->kind && !me->failed.kind) {
        struct pollfd fds[FB_WORKSHOP_FDS];
        int ms, n = fb_workshop_poll(w, fds, &ms);
        if (ms < 0 || ms > 1000) ms = 1000;
        bool stale = terminal && drawn != fb_workshop_serial(w);
        if (stale && ms > FRAME_MS) ms = FRAME_MS;
        if (poll(fds, (nfds_t)n, ms) < 0 && ended) break;
        fb_workshop_pump(w);
        if (!terminal) print_once(w, &said);
        if (terminal && drawn != fb_workshop_serial(w) && fb_now_ns() - drawn_ns > FRAME_MS * 1000000ll) {
            drawn = fb_workshop_serial(w);
            drawn_ns = fb_now_ns();
            draw(w);
        }
    }
    if (!fb_workshop_devices(w)) return;
    fb_str out = {0};
    add_state(&out, w);
    add_predictions(&out, w, false);
    fb_put(stdout, fb_str_get(&out));
    fb_str_free(&out);
}

static int workshop_main(const fb_command *me, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"socket", KEY_SOCKET, "PATH", 0, "Listen there (default: in a folder of this user's alone)", 0},
        {"out", KEY_OUT, "FILE", 0, "Append predictions to a results file, a row each", 0},
        {"limit", KEY_LIMIT, "NAME=VALUE", 0, "Another limit; may be repeated", 0},
        {0},
    };
    workshop w = {.options = {.limits = fb_workshop_limits_default(), .predicted = keep_prediction, .ctx = &w}};
    fb_cli cli = {.own = workshop_key, .ctx = &w, .help = workshop_help};
    fb_error err = {0};
    fb_cli_parse(&cli, me, options, argc, argv);
    if (cli.common.n_workers || cli.common.trust || cli.common.set)
        fb_cli_usage("%s: a workshop shares this machine's own devices and takes no --worker, --trust or --set",
                     argv[0]);
    w.options.self = fb_cli_self();
    w.options.devices = cli.common.devices;
    w.options.n_devices = cli.common.n_devices;
    time_t now = time(NULL);
    struct tm utc;
    strftime(w.class_name, sizeof w.class_name, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    if (w.out && !(w.results = fb_results_open(w.out, &err))) return fb_cli_fail(&err);
    const struct sigaction end = {.sa_handler = on_signal}; /* no SA_RESTART: the poll is to end */
    const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) sigaction(ends[i], &end, NULL);
    fb_workshop *shop = fb_workshop_new(&w.options, &err);
    int status = FB_EXIT_FINE;
    if (shop) {
        serve(&w, shop);
        const fb_error *why = fb_workshop_error(shop)->kind ? fb_workshop_error(shop) : &w.failed;
        if (why->kind) status = fb_cli_fail(why);
    } else {
        status = fb_cli_fail(&err);
    }
    fb_workshop_free(shop);
    fb_results_close(w.results);
    fb_cli_free(&cli);
    return status;
}

const fb_command fb_command_workshop = {
    .name = "workshop", .args = "", .summary = "Share this machine's GPU with a class", .run = workshop_main};

/* ---- seat ---- */

typedef struct {
    const char *at, *as;
    bool stdio, scores, predictions;
    fb_format format;
} seat;

enum { KEY_AT = 256, KEY_AS, KEY_STDIO, KEY_SCORES, KEY_FORMAT, KEY_PREDICTIONS };

static int seat_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    seat *s = ctx;
    switch (key) {
    case KEY_AT: s->at = arg; return 0;
    case KEY_AS:
        s->as = arg;
        if (!fb_workshop_is_name(arg))
            fb_cli_usage("%s: --as: letters, digits, \"_\", \"-\" and \".\", 64 at most, not \"%s\"", state->name, arg);
        return 0;
    case KEY_STDIO: s->stdio = true; return 0;
    case KEY_SCORES: s->scores = true; return 0;
    case KEY_PREDICTIONS: s->predictions = true; return 0;
    case KEY_FORMAT:
        if (!fb_table_parse_format(arg, &s->format) || s->format == FB_FORMAT_JSON)
            fb_cli_usage("%s: no format \"%s\"; there are: table, csv, markdown", state->name, arg);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* How far this user has come, for whoever wants to hand it in: a row a puzzle, and no name. */
static int print_scores(fb_format format)
{
    static const char *const words[] = {"new", "skipped", "tried", "solved"};
    fb_arena *arena = fb_arena_new();
    fb_puzzles p;
    fb_puzzles_read(arena, &p);
    fb_table *t = fb_table_new();
    fb_table_column(t, "puzzle", "", true);
    fb_table_column(t, "state", "", true);
    for (int i = 0; i < p.n; i++) {
        fb_table_row(t);
        fb_table_cell(t, p.at[i].name);
        fb_table_cell(t, words[p.at[i].state]);
    }
    fb_table_print(t, format, stdout);
    fb_table_free(t);
    fb_arena_free(arena);
    return FB_EXIT_FINE;
}

static bool is_command(const char *word)
{
    for (int i = 0; word && fb_commands[i]; i++)
        if (strcmp(fb_commands[i]->name, word) == 0) return true;
    return false;
}

/* What follows the seat's own options is a command line of fusebox, given the workshop's device. */
static int run_rest(const seat *s, int n, char **rest)
{
    fb_error err = {0};
    char device[] = "--device=workshop", worker[] = "--worker", predictions[] = "--predictions", self[] = "fusebox";
    char *command = fb_cli_seat_command(s->at, &err);
    if (!command) fb_cli_usage("seat: --at: %s", err.text);
    char **argv = fb_calloc((size_t)n + 8, sizeof *argv);
    int to = 0, from = 0;
    argv[to++] = self;
    if (n && is_command(rest[0])) argv[to++] = rest[from++];
    argv[to++] = worker;
    argv[to++] = command;
    argv[to++] = device;
    if (s->predictions && !from) argv[to++] = predictions;
    while (from < n) argv[to++] = rest[from++];
    int status = fb_cli_main(to, argv);
    fb_free(argv);
    fb_free(command);
    return status;
}

/* The first word that is no option of the seat's. */
static int own_words(int argc, char **argv)
{
    int i = 1;
    while (i < argc && argv[i][0] == '-') {
        bool own = false;
        static const char *const words[] = {"--at",          "--as",   "--stdio", "--scores", "--format",
                                            "--predictions", "--help", "-?",      "--usage"};
        for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
            size_t n = strlen(words[k]);
            own |= strncmp(argv[i], words[k], n) == 0 && (!argv[i][n] || argv[i][n] == '=');
        }
        if (!own) break;
        i += 1 + (strcmp(argv[i], "--at") == 0 || strcmp(argv[i], "--as") == 0 || strcmp(argv[i], "--format") == 0);
    }
    return i < argc ? i : argc;
}

static int seat_main(const fb_command *me, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"at", KEY_AT, "WHERE", 0,
         "The workshop: its socket's path, or a machine that ssh reaches (default: on this "
         "machine)",
         0},
        {"stdio", KEY_STDIO, NULL, 0, "Speak for a seat on stdin and stdout: what ssh runs on the workshop's machine",
         0},
        {"as", KEY_AS, "NAME", 0, "With --stdio, in a key's forced command: whom the seat is for", 0},
        {"predictions", KEY_PREDICTIONS, NULL, 0, "Tell the workshop what is chosen in puzzles, without a name", 0},
        {"scores", KEY_SCORES, NULL, 0, "Print how far the puzzles are solved, and end", 0},
        {"format", KEY_FORMAT, "FORMAT", 0, "Of --scores: table (default), csv or markdown", 0},
        {0},
    };
    seat s = {0};
    fb_cli cli = {.own = seat_key, .ctx = &s};
    int own = own_words(argc, argv);
    fb_cli_parse(&cli, me, options, own, argv);
    fb_cli_free(&cli);
    fb_error err = {0};
    if (s.scores) return print_scores(s.format);
    if (s.as && !s.stdio) fb_cli_usage("%s: --as goes with --stdio, where ssh begins a seat", argv[0]);
    if (!s.stdio) return run_rest(&s, argc - own, argv + own);
    if (own < argc) fb_cli_usage("%s: --stdio takes no words: \"%s\"", argv[0], argv[own]);
    if (isatty(STDIN_FILENO)) /* somebody's ssh, where fusebox was meant */
        fb_cli_usage("%s: --stdio speaks with fusebox, not with a person: on your own machine, "
                     "\"fusebox seat --at MACHINE\" opens the workbench on this one's GPU",
                     argv[0]);
    return fb_workshop_relay(s.at, s.as, STDIN_FILENO, STDOUT_FILENO, &err) ? FB_EXIT_FINE : fb_cli_fail(&err);
}

const fb_command fb_command_seat = {.name = "seat",
                                    .args = "[COMMAND|SCRIPT]…",
                                    .summary = "Everything else, on a workshop's device",
                                    .run = seat_main};
