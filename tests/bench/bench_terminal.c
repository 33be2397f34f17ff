/* What a user waits for at the workbench, through a pseudo-terminal: until the first frame stands, until the graph
 * does, and from a key that toggles a fusion to the prediction and to the measured time on the screen; and from any key
 * to what it changes on the screen, with a graph of 20,000 nodes and a measurement under way.
 *
 *     bench_terminal SCRIPT [BIG]
 *
 * FUSEBOX is the binary, DEVICE what SCRIPT is measured on ("host" unless set), BIG the script of the large graph,
 * without which keys are not measured. XDG_STATE_HOME is a folder for this alone. */
#include "base/json.h"
#include "bench/bench.h"
#include "session/session.h"
#include "terminal/harness.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STARTS = 11, TOGGLES = 8, PATIENCE_MS = 120000, KEY_PATIENCE_MS = 10000, ROWS = 30, COLUMNS = 100 };
enum { LIMIT_S = 600 };

static const char *script, *device = "host", *doing = "starting";

static term *start(void)
{
    const char *argv[] = {getenv("FUSEBOX"), "--device", device, script, NULL};
    return term_start(ROWS, COLUMNS, NULL, argv);
}

/* Says what is missing and what the screen shows instead, which is where the reason stands. */
static void need(bool ok, term *t, const char *what)
{
    if (ok) return;
    printf("  (%s: not measured: %s%s; the screen was)\n%s", doing, what,
           term_shows(t, "the script has an error") ? ", for the script failed" : "", term_screen(t));
    term_free(t);
    exit(1);
}

/* However slow the machine: it ends. The workbench ends with its terminal. */
static void took_too_long(int number)
{
    (void)number;
    static const char text[] = "\n  (stopped: the workbench's benchmark took more than 10 minutes; it was at: ";
    if (write(STDOUT_FILENO, text, sizeof text - 1) < 0 || write(STDOUT_FILENO, doing, strlen(doing)) < 0 ||
        write(STDOUT_FILENO, ")\n", 2) < 0)
        _exit(2);
    _exit(1);
}

static void quit(term *t)
{
    term_keys(t, "q");
    if (term_end(t, 5000) < 0) printf("  (the workbench did not end within 5 s)\n");
    term_free(t);
}

static void starts(void)
{
    doing = "starting";
    double frame[STARTS], graph[STARTS];
    for (int i = 0; i < STARTS; i++) {
        double from = fb_now_us();
        term *t = start();
        need(term_wait(t, "help", PATIENCE_MS), t, "no first frame"); /* of the hint bar, which is drawn last */
        frame[i] = fb_now_us() - from;
        need(term_wait(t, "layer_norm", PATIENCE_MS), t, "no graph");
        graph[i] = fb_now_us() - from;
        quit(t);
    }
    char head[64];
    snprintf(head, sizeof head, "workbench, %d×%d, %s", COLUMNS, ROWS, device);
    bench_head(head);
    bench_samples("start → first screen", frame, STARTS, NULL);
    bench_samples("start → the script's graph on the screen", graph, STARTS, NULL);
}

/* The first column's figure in the row `wall`: what stands between the label and the next gap. */
static bool wall_figure(term *t, char to[64])
{
    const char *row = NULL;
    for (int i = 0; i < ROWS && !row; i++) row = strstr(term_row(t, i), " wall ");
    if (!row) return false;
    row += strspn(row, " ");
    row += strcspn(row, " ");
    row += strspn(row, " ");
    const char *gap = strstr(row, "  ");
    snprintf(to, 64, "%.*s", gap ? (int)(gap - row) : (int)strcspn(row, "\n"), row);
    return true;
}

static bool is_measured(const char *figure)
{
    return figure[0] >= '0' && figure[0] <= '9';
}

/* Everything shown has been measured: a figure, and no bar of progress. */
static bool wait_quiet(term *t)
{
    double end = fb_now_us() + PATIENCE_MS * 1e3;
    char figure[64];
    while (fb_now_us() < end) {
        term_rest(t, 200, 1000);
        if (wall_figure(t, figure) && is_measured(figure) && !term_shows(t, "▱") && !term_shows(t, "▰")) return true;
    }
    return false;
}

/* From the key to the first figure that is not the old plan's: a prediction ("~…"), then what was measured. */
static void toggle(term *t, double *predicted, double *measured)
{
    char before[64], figure[64];
    bool foretold = false;
    need(wall_figure(t, before), t, "no wall time on the screen");
    double from = fb_now_us(), end = from + PATIENCE_MS * 1e3;
    *predicted = NAN;
    term_keys(t, "Space");
    while (fb_now_us() < end) {
        term_rest(t, 2, 4);
        if (!wall_figure(t, figure)) continue;
        if (!foretold && !is_measured(figure)) {
            *predicted = fb_now_us() - from;
            foretold = true;
        } else if (is_measured(figure) && (foretold || strcmp(figure, before) != 0)) {
            *measured = fb_now_us() - from;
            return;
        }
    }
    need(false, t, "the toggle was never measured");
}

static bool go_to(term *t, const char *hint)
{
    for (int i = 0; i < ROWS; i++) {
        if (term_shows(t, hint)) return true;
        term_keys(t, "j");
        term_rest(t, 50, 500);
    }
    return false;
}

static void toggles(void)
{
    doing = "toggles";
    term *t = start();
    double predicted[TOGGLES], measured[TOGGLES];
    if (term_wait(t, "predict first", 3000)) term_keys(t, "Esc"); /* a puzzle's page */
    need(wait_quiet(t), t, "the columns were not measured");
    for (int i = 0; i < 8 && term_shows(t, "torch:"); i++) { /* what is recorded of a framework cannot be toggled */
        term_keys(t, "1 X");
        term_rest(t, 100, 1000);
    }
    need(go_to(t, "layer_norm → tanh"), t, "no edge from layer_norm to tanh");
    for (int i = 0; i < TOGGLES; i++) {
        toggle(t, &predicted[i], &measured[i]);
        need(wait_quiet(t), t, "measuring did not end");
    }
    bench_samples("toggle → prediction on the screen", predicted, TOGGLES, NULL);
    char note[64];
    snprintf(note, sizeof note, "compiles; %d ms of it wait for a next key", FB_SESSION_SETTLE_MS);
    bench_samples("toggle → measured, first time", measured, 1, note);
    bench_samples("toggle → measured, back and forth", measured + 1, TOGGLES - 1, NULL);
    quit(t);
}

/* What the hint says of the cursor: each of the keys below changes it, and nothing else does. */
static void hint_of(term *t, char to[512])
{
    to[0] = '\0';
    for (int row = ROWS - 5; row < ROWS - 2; row++) {
        size_t n = strlen(to);
        snprintf(to + n, 512 - n, "%s", term_row(t, row));
    }
}

/* From a key to the frame that answers it. */
static double answer(term *t, const char *key)
{
    char before[512], now[512], what[64];
    hint_of(t, before);
    double from = fb_now_us(), end = from + KEY_PATIENCE_MS * 1e3;
    term_keys(t, key);
    while (fb_now_us() < end) {
        term_rest(t, 0, 1);
        hint_of(t, now);
        if (strcmp(now, before) != 0) return fb_now_us() - from;
    }
    snprintf(what, sizeof what, "no frame answered the key %s within %d s", key, KEY_PATIENCE_MS / 1000);
    need(false, t, what);
    return NAN;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void keys(bool measuring)
{
    static const char *const one_round[] = {"j", "j", "k",    "PgDn", "j", "PgDn", "PgUp", "G",
                                            "k", "k", "PgUp", "g",    "j", "PgDn", "j",    "k"};
    enum { A_ROUND = sizeof one_round / sizeof *one_round, ROUNDS = 16, KEYS = ROUNDS * A_ROUND };
    static double us[KEYS];
    char text[32], note[64];
    int n = 0;
    doing = measuring ? "keys while it measures" : "keys";
    term *t = start();
    need(term_wait(t, "layer_1 ", PATIENCE_MS), t, "no graph");
    if (!measuring) term_keys(t, "a Esc");
    term_rest(t, 500, 3000);
    if (measuring) term_keys(t, "m");
    for (int i = 0; i < KEYS; i++) {
        if (measuring && !term_shows(t, "▱")) term_keys(t, "m");
        term_rest(t, 15, 40); /* as quick as fingers are */
        us[n++] = answer(t, one_round[i % A_ROUND]);
    }
    qsort(us, (size_t)n, sizeof *us, by_size);
    snprintf(note, sizeof note, "p95 %s", fb_format_us(text, us[n * 95 / 100]));
    bench_samples(measuring ? "key → screen, 20,000 nodes, measuring" : "key → screen, 20,000 nodes", us, n, note);
    term_signal(t, SIGTERM);
    term_end(t, 5000);
    term_free(t);
}

/* The puzzle of a script counts as seen, so that the workbench comes first. */
static bool pass_over_puzzle(const char *state, const char *name)
{
    char path[4096], seen[256];
    snprintf(path, sizeof path, "%s/fusebox", state);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/fusebox/progress.jsonl", state);
    snprintf(seen, sizeof seen, "{\"puzzle\":\"%s\",\"skipped\":true}\n", name);
    return fb_write_file(path, seen, strlen(seen), NULL);
}

int main(int argc, char **argv)
{
    const char *state = getenv("XDG_STATE_HOME");
    if (argc < 2 || argc > 3 || !getenv("FUSEBOX") || !state) {
        fputs("usage: FUSEBOX=BINARY XDG_STATE_HOME=FOLDER bench_terminal SCRIPT [BIG]\n", stderr);
        return 2;
    }
    if (!pass_over_puzzle(state, argv[1])) return perror(state), 1;
    if (getenv("DEVICE")) device = getenv("DEVICE");
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGALRM, took_too_long);
    alarm(LIMIT_S);
    script = argv[1];
    if (*script) { /* "": the keys alone */
        starts();
        toggles();
    } else {
        bench_head("workbench, 100×30");
    }
    if (argc < 3) return 0;
    script = argv[2];
    device = "host";
    keys(false);
    keys(true);
    return 0;
}
