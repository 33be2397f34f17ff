/* Views and the prompt, keys in and screen out: filtering as one types, the bar's keys, the rail, values, the page
 * "what am I looking at", copying, completing. Over the session of fake_session.c. */
#include "harness.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tui/view/command.h"

enum { PATIENCE_MS = 180000 }; /* the machine may be busy */

static char folder[64], state_home[96], config_home[96];

typedef struct {
    const char *name;
    int cols, rows;
    const char *env;  /* may be NULL */
    const char *path; /* NULL: the start list */
    const char *keys;
    const char *want[8], *without[4];
} view_case;

static const view_case cases[] = {
    /* ---- filtering as one types ---- */
    {"rows that hold the text are shown alone",
     100,
     30,
     NULL,
     "demo",
     "/ \"nh\"",
     {"1 of 11 rows", "  tanh"},
     {"input_data", "▸ linear"}},
    {"the first of them is the cursor's", 100, 30, NULL, "demo", "/ \"relu\"", {"relu = relu("}, {NULL}},
    {"what is folded away counts for its scope",
     100,
     30,
     NULL,
     "demo",
     "/ \"variance\"",
     {"1 of 11 rows", "▸ layer_norm"},
     {"input_data"}},
    {"another text, other rows",
     100,
     30,
     NULL,
     "demo",
     "/ \"relx\" Backspace \"u\"",
     {"1 of 11 rows", "relu out"},
     {"input_data"}},
    {"Esc goes back to where one was",
     100,
     30,
     NULL,
     "demo",
     "j j j / \"relu\" Esc",
     {"input_data", "feature[0].layer_norm is one call"},
     {"rows ·"}},
    {"arrows choose among them",
     100,
     30,
     NULL,
     "demo",
     "g / \"layer_norm\" Esc g / \"a\" Down Down Enter",
     {"input_data", "feature[0].tanh = tanh("},
     {"rows ·"}},
    {"Enter goes to the row", 100, 30, NULL, "demo", "/ \"stack\" Enter", {"stack = stack(", "input_data"}, {"rows ·"}},
    {"no row holds it", 100, 30, NULL, "demo", "/ \"nowhere\"", {"0 of 11 rows"}, {"input_data"}},
    {"indices are any by a star", 100, 30, NULL, "demo", "x / \"feature[*].layer\"", {"4 of "}, {"input_data"}},
    {"in the columns", 100, 30, NULL, "demo", "Tab / \"idle\"", {"device idle", "1 of "}, {"device busy"}},
    {"in the kernels", 100, 30, NULL, "demo", "Tab Tab / \"tanh\"", {"b tanh ×4", "1 of 5 rows"}, {"a layer_norm ×4"}},
    {"in the help",
     100,
     30,
     NULL,
     "demo",
     "? / \"clipb\" Backspace Backspace Backspace Backspace Backspace \"suspend\"",
     {"back to the shell"},
     {"fuse/cut", "edge-back"}},
    {"in the start list", 100, 30, NULL, NULL, "/ \"transpose\"", {"transpose", "puzzlers"}, {"over_fusion"}},
    {"in the history", 100, 30, NULL, "demo", "H / \"max\"", {"1 of 2 rows", "split:max@host"}, {"split:eager@host"}},
    {"in the timeline", 100, 30, NULL, "demo", "T @wait @wait / \"nowhere\"", {"0 of 11 rows"}, {"12.0 µs"}},
    {"in a plot", 100, 30, NULL, "demo", "O / \"max\"", {" rows · Up Down choose", "max: 10.0 µs"}, {NULL}},
    {"in a source", 100, 30, NULL, "demo", "j j j Enter @wait / \"sqrt\"", {"sqrt"}, {"/* layer_norm"}},
    {"in the decisions",
     100,
     30,
     NULL,
     "demo",
     "2 S / \"stack\"",
     {"2 of 14 rows", "`tanh` and `stack`"},
     {"every operation its own"}},
    {"in the decisions, and the column follows",
     100,
     30,
     NULL,
     "demo",
     "2 S / \"stack\" Enter",
     {"graph · split · 2 max[:36]", "36 of 39"},
     {NULL}},
    {"on the smallest screen, in ASCII",
     60,
     16,
     "LC_ALL=C",
     "demo",
     "/ \"tanh\"",
     {"1 of 11 rows - Up Down"},
     {"input_data"}},
    {"where nothing can be found", 100, 30, NULL, "broken", "/ \"x\" Enter", {"find: there is no list here"}, {NULL}},

    /* ---- the rail ---- */
    {"what the row reads, and who reads it",
     100,
     30,
     NULL,
     "demo",
     "j j j j",
     {"╭─┊ ▸ layer_norm", "◆ ┊   tanh", "╰▸  stack"},
     {NULL}},
    {"through rows that have nothing to do with it",
     100,
     30,
     NULL,
     "demo",
     "j j j j j",
     {"╭─┊   tanh", "◆   stack", "│   weight", "│   bias", "╰▸▸ linear"},
     {NULL}},
    {"in one cell where the pane is narrow",
     80,
     24,
     NULL,
     "demo",
     "j j j j",
     {"╭┊ ▸ layer", "◆┊   tanh", "╰  stack"},
     {NULL}},
    {"in ASCII", 100, 30, "LC_ALL=C", "demo", "j j j j", {"+-: > layer_norm", "* :   tanh", "+>  stack"}, {"?????"}},

    /* ---- values ---- */
    {"what a node holds",
     100,
     30,
     NULL,
     "demo",
     "j j j j d",
     {"values · feature[0].tanh · 1 eager", "error against the reference: largest 0.5", "[15,63] 1023, expected 1022.5",
      "min        max       mean", "corner", "[5,0]           320        321", "1024 elements, stored by kernel"},
     {"kernels of"}},
    {"its histogram beside", 100, 30, NULL, "demo", "j j j j d", {"from   elements", "█ 64"}, {NULL}},
    {"and below where there is no room beside", 80, 24, NULL, "demo", "j j j j d @wait G", {"959 ███", "█ 64"}, {NULL}},
    {"of the next row", 100, 30, NULL, "demo", "j j j j d @wait ]", {"values · stack · 1 eager"}, {NULL}},
    {"of a node by its name, with a star",
     100,
     30,
     NULL,
     "demo",
     ": \"values feature[*].tanh\" Enter",
     {"values · feature[0].tanh, the first of 4"},
     {NULL}},
    {"of a node that is not there",
     100,
     30,
     NULL,
     "demo",
     ": \"values nothing\" Enter",
     {"values: no node \"nothing\""},
     {NULL}},
    {"of the same node in another column",
     100,
     30,
     NULL,
     "demo",
     "j j j j d @wait 2",
     {"values · feature[0].tanh · 2 max", "corner"},
     {NULL}},
    {"node names are completed",
     100,
     30,
     NULL,
     "demo",
     ": \"values feature[2].ta\" Tab",
     {":values feature[2].tanh"},
     {NULL}},

    /* ---- the waterfall ---- */
    {"all sentences at once where they fit",
     100,
     30,
     NULL,
     "demo",
     "w",
     {"-20.0 µs     20 %", "11 → 1 launches: 22.0", "8.0 µs → 0.7 µs because", "not explained; most of it in"},
     {NULL}},
    {"the part's own alone where they do not",
     60,
     16,
     NULL,
     "demo",
     "w k",
     {"11 → 1 launches: 22.0", "rest"},
     {"8.0 µs → 0.7 µs because"}},
    {"parts without a difference are one line",
     100,
     30,
     NULL,
     "demo",
     "2 : \"plan eager\" Enter @wait w",
     {"alike in both: launches, bytes, occupancy, rest"},
     {"│ launches"}},

    /* ---- help, and what one looks at ---- */
    {"the view's own keys come first in the help",
     100,
     30,
     NULL,
     "demo",
     "?",
     {"Here: graph", "choose another edge"},
     {"Here: columns"}},
    {"of the pane that has the keys", 100, 30, NULL, "demo", "Tab ?", {"Here: columns", "copy the figure"}, {NULL}},
    {"of a view over the panes", 100, 30, NULL, "demo", "P ?", {"Here: parameters", "the next choice"}, {NULL}},
    {"and in its bar", 100, 30, NULL, "demo", "H", {"Enter open  , sort  f filter  O plot", "Esc back"}, {NULL}},
    {"what am I looking at",
     100,
     30,
     NULL,
     "demo",
     "I",
     {"The workbench", "Left: the graph", "Upper right: the columns"},
     {"kernels of 1"}},
    {"asked from the help too", 100, 30, NULL, "demo", "P ? I", {"The script's parameters: sizes"}, {NULL}},
    {"by a function key too", 100, 30, NULL, "demo", "F2", {"what am I looking at?"}, {NULL}},
    {"with what is so just now",
     100,
     30,
     NULL,
     "demo",
     "I",
     {"Just now", "There are 2 columns. The cursor is on column 1: plan eager of the variant split",
      "run in 11 kernels. Its figures are measured."},
     {NULL}},
    {"and a glossary", 100, 30, NULL, "demo", "I G", {"spill", "p10–p90", "eight of ten runs"}, {NULL}},
    {"of a view over the panes too", 80, 24, NULL, "demo", "2 S I", {"A compiler decides one pair"}, {NULL}},
    {"in ASCII too", 60, 16, "LC_ALL=C", "demo", "I", {"The workbench has three panes"}, {"?????"}},

    /* ---- the prompt ---- */
    {"commands that begin with what is typed",
     100,
     30,
     NULL,
     "demo",
     ": \"undo\" Enter : \"zoom\" Enter : \"zoom\" Enter : \"un\" Up",
     {":undo"},
     {NULL}},
    {"bundled scripts are completed", 100, 30, NULL, "demo", ": \"open over_f\" Tab", {":open over_fusion"}, {NULL}},
    {"other themes",
     100,
     30,
     NULL,
     "demo",
     ": \"theme light\" Enter",
     {"theme light; \"theme light\" in the settings"},
     {NULL}},
    {"no such theme", 100, 30, NULL, "demo", ": \"theme pink\" Enter", {"no theme \"pink\": dark, light"}, {NULL}},
    {"no theme without colours",
     100,
     30,
     "NO_COLOR=1",
     "demo",
     ": \"theme dark\" Enter",
     {"theme: this terminal has no colours"},
     {NULL}},
    {"themes are completed", 100, 30, NULL, "demo", ": \"theme co\" Tab", {":theme contrast"}, {NULL}},

    /* ---- without AltGr ---- */
    {"edges by round brackets", 100, 30, NULL, "demo", "j j j j )", {"tanh → stack", "edge 2 of 2"}, {NULL}},
    {"and back", 100, 30, NULL, "demo", "j j j j ) (", {"layer_norm → tanh", "edge 1 of 2"}, {NULL}},
    {"a row hidden by Delete", 100, 30, NULL, "demo", "Tab j j Delete", {"vs 1", "device busy"}, {"launches  "}},

    /* ---- copying ---- */
    {"a figure is copied", 100, 30, NULL, "demo", "Tab Y", {"copied \"wall 110 µs, 1 eager", "fusebox/copied"}, {NULL}},
    {"a source is copied", 100, 30, NULL, "demo", "j j j Enter @wait Y", {" lines to the clipboard, and to "}, {NULL}},
    {"not to a console that would print it", 100, 30, "TERM=linux", "demo", "Tab Y", {"copied \"wall"}, {"clipboard"}},
};

#define FAIL_WITH_SCREEN(t, ...)                                                                                       \
    do {                                                                                                               \
        fprintf(stderr, "%s", term_screen(t));                                                                         \
        fail_msg(__VA_ARGS__);                                                                                         \
    } while (0)

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/fb-views-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(state_home, sizeof state_home, "XDG_STATE_HOME=%s/state", folder);
    snprintf(config_home, sizeof config_home, "XDG_CONFIG_HOME=%s/config", folder);
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    drop_tree(folder);
    return 0;
}

static term *start(int rows, int cols, const char *env, const char *path)
{
    const char *program = getenv("FAKE_FUSEBOX");
    const char *envs[] = {state_home, config_home, env, NULL},
               *argv[] = {program ? program : "tests/terminal/fake_fusebox", path, NULL};
    term *t = term_start(rows, cols, envs, argv);
    if (!term_wait(t, path && !strcmp(path, "demo") ? "110" : "? help", PATIENCE_MS))
        FAIL_WITH_SCREEN(t, "nothing was drawn");
    return t;
}

static void must_show(term *t, const char *name, const char *text)
{
    if (!term_wait(t, text, PATIENCE_MS)) FAIL_WITH_SCREEN(t, "%s: no \"%s\"", name, text);
}

static void must_hide(term *t, const char *name, const char *text)
{
    for (int ms = 0; ms < PATIENCE_MS / 4 && term_shows(t, text); ms += 50) term_rest(t, 50, 50);
    if (term_shows(t, text)) FAIL_WITH_SCREEN(t, "%s: \"%s\" is on", name, text);
}

static void run_case(void **state)
{
    const view_case *c = *state;
    make_folder(NULL);
    term *t = start(c->rows, c->cols, c->env, c->path);
    term_keys(t, c->keys);
    for (int i = 0; i < 8 && c->want[i]; i++) must_show(t, c->name, c->want[i]);
    for (int i = 0; i < 4 && c->without[i]; i++) must_hide(t, c->name, c->without[i]);
    for (int i = 0; i < 8 && c->want[i]; i++)
        if (!term_shows(t, c->want[i])) FAIL_WITH_SCREEN(t, "%s: \"%s\" did not stay", c->name, c->want[i]);
    term_signal(t, SIGTERM);
    assert_true(term_end(t, PATIENCE_MS) != -1);
    term_free(t);
    drop_folder(NULL);
}

/* ---- cases of their own ---- */

static void write_file(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
}

static void files_are_completed(void **state)
{
    (void)state;
    char keys[160], want[160];
    write_file("mine.lua");
    write_file("mine.txt");
    write_file("my.jsonl");
    snprintf(keys, sizeof keys, "%s/deep", folder);
    mkdir(keys, 0700);
    term *t = start(30, 100, NULL, "demo");
    snprintf(keys, sizeof keys, ": \"open %s/mi\" Tab", folder);
    snprintf(want, sizeof want, ":open %s/mine.lua", folder);
    term_keys(t, keys);
    must_show(t, "a script", want);
    snprintf(keys, sizeof keys, "Esc : \"history %s/m\" Tab", folder);
    snprintf(want, sizeof want, ":history %s/my.jsonl", folder);
    term_keys(t, keys);
    must_show(t, "a results file", want);
    snprintf(keys, sizeof keys, "Esc : \"save %s/m\" Tab", folder);
    term_keys(t, keys);
    must_show(t, "any file, without the folder", "mine.lua  mine.txt  my.jsonl");
    snprintf(keys, sizeof keys, "Esc : \"open %s/de\" Tab", folder);
    snprintf(want, sizeof want, ":open %s/deep/", folder);
    term_keys(t, keys);
    must_show(t, "a folder", want);
    term_free(t);
}

/* The commands of the last time, and not those of `/`. */
static void commands_are_kept(void **state)
{
    (void)state;
    term *t = start(30, 100, NULL, "demo");
    term_keys(t, ": \"undo\" Enter / \"tanh\" Enter : \"filter no\" Enter C-c");
    assert_int_equal(term_end(t, PATIENCE_MS), 0);
    term_free(t);
    t = start(30, 100, NULL, "demo");
    term_keys(t, ": Up");
    must_show(t, "the last one", ":filter no");
    term_keys(t, "Up");
    must_show(t, "the one before", ":undo");
    term_keys(t, "Down Down");
    must_hide(t, "and back to nothing", ":filter");
    term_free(t);
}

/* What is copied lies in a file, and goes to the terminal as OSC 52 in base 64. */
static void copies_reach_file_and_terminal(void **state)
{
    (void)state;
    char path[128], keys[160], text[64] = "";
    term *t = start(30, 100, NULL, "demo");
    term_keys(t, "Tab Y");
    must_show(t, "a figure", "to the clipboard, and to ");
    assert_true(term_sent(t, "\x1b]52;c;d2FsbCAxMTAgwrVzLCAxIGVhZ2Vy")); /* wall 110 µs, 1 eager */
    snprintf(path, sizeof path, "%s/mine.txt", folder);
    snprintf(keys, sizeof keys, ": \"yank %s\" Enter", path);
    term_keys(t, keys);
    must_show(t, "a file of one's own", "mine.txt");
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    assert_memory_equal(text, "wall 110 µs, 1 eager", strlen("wall 110 µs, 1 eager"));
    term_free(t);
}

static void the_clipboard_can_be_off(void **state)
{
    (void)state;
    char path[160];
    snprintf(path, sizeof path, "%s/config", folder);
    mkdir(path, 0700);
    strcat(path, "/fusebox");
    mkdir(path, 0700);
    strcat(path, "/config");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("clipboard off\n", f);
    fclose(f);
    term *t = start(30, 100, NULL, "demo");
    term_keys(t, "Tab Y");
    must_show(t, "a file alone", "fusebox/copied");
    assert_false(term_sent(t, "\x1b]52"));
    term_free(t);
}

/* German and French keyboards have [ ] { } \ | @ # ~ ^ ` under AltGr or as dead keys. */
static void every_key_is_within_reach(void **state)
{
    (void)state;
    for (int c = 0; c < FB_COMMANDS; c++) {
        const char *p = fb_cmd_get((fb_cmd)c)->keys;
        bool reachable = !*p;
        while (*p) {
            size_t n = strcspn(p, " ");
            reachable |= n > 1 || !strchr("[]{}\\|@#~^`", *p);
            p += n + strspn(p + n, " ");
        }
        if (!reachable) fail_msg("%s has no key without AltGr", fb_cmd_get((fb_cmd)c)->name);
    }
}

int main(void)
{
    static const struct CMUnitTest own[] = {
        cmocka_unit_test_setup_teardown(files_are_completed, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(commands_are_kept, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(copies_reach_file_and_terminal, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(the_clipboard_can_be_off, make_folder, drop_folder),
        cmocka_unit_test(every_key_is_within_reach),
    };
    enum { CASES = sizeof cases / sizeof *cases, OWN = sizeof own / sizeof *own };
    static struct CMUnitTest all[CASES + OWN];
    for (int i = 0; i < CASES; i++)
        all[i] = (struct CMUnitTest){.name = cases[i].name, .test_func = run_case, .initial_state = (void *)&cases[i]};
    memcpy(all + CASES, own, sizeof own);
    return _cmocka_run_group_tests("views", all, CASES + OWN, NULL, NULL);
}
