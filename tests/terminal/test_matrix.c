/* Key scripts in eight environments: many a process, each from the same script opened again. `make check` plays a fixed
 * slice, in which every script and every environment occurs; `make check-full` (FB_FULL) plays all in all, and lets a
 * monkey of 10,000 keys loose. Over the session of fake_session.c. */
#include "harness.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tui/view/command.h"

enum { PATIENCE_MS = 180000 }; /* the machine may be busy */

static char folder[] = "/tmp/fb-matrix-XXXXXX", state_home[64], config_home[64];

static bool full(void)
{
    const char *asked = getenv("FB_FULL");
    return asked && *asked;
}

static const char *program(void)
{
    const char *path = getenv("FAKE_FUSEBOX");
    return path ? path : "tests/terminal/fake_fusebox";
}

/* ---- where --------------------------------------------------------------------------------------------------------
 */

typedef struct {
    const char *name;
    int rows, cols;
    const char *env[2];
    bool ascii, plain; /* nothing above ASCII is sent; no colours */
    bool refused;
} environment;

static const environment environments[] = {
    {"xterm-256color", 30, 100, {NULL}, false, false, false},
    {"screen", 24, 80, {"TERM=screen"}, false, false, false},
    {"vt100", 24, 80, {"TERM=vt100"}, false, true, false},
    {"linux", 25, 80, {"TERM=linux"}, false, false, false},
    {"C locale", 24, 80, {"LC_ALL=C", "TERM=screen"}, true, false, false},
    {"NO_COLOR", 40, 132, {"NO_COLOR=1"}, false, true, false},
    {"large", 70, 250, {NULL}, false, false, false},
    {"dumb", 24, 80, {"TERM=dumb"}, false, false, true},
};
enum { ENVIRONMENTS = sizeof environments / sizeof *environments, PLAYED = ENVIRONMENTS - 1 };

/* ---- what ---------------------------------------------------------------------------------------------------------
 */

/* Played in a workbench that has just opened "demo"; `after` undoes what opening it again would leave. */
typedef struct {
    const char *keys, *want, *after;
} script;

static const script scripts[] = {
    {"", "110 µs", ""},
    {"j", "feature ×4", ""},
    {"Down Down", "slice", ""},
    {"j j j", "layer_norm", ""},
    {"j j j j", "layer_norm → tanh", ""},
    {"j j j j ]", "edge 2 of 2", ""},
    {"j j j j [", "tanh → stack", ""},
    {"j j j j Space", "fused layer_norm into tanh", ""},
    {"j j j j Space u", "undone:", ""},
    {"j j j j Space u C-r", "done again:", ""},
    {"j j j j Space Space", "1 mine", ""},
    {"u", "nothing to undo", ""},
    {"C-r", "nothing to do again", ""},
    {"g Space", "no kernel edge", ""},
    {"j j j M M", "2 marked", "Esc"},
    {"j j j M M Space u", "undone:", ""},
    {"j j j j ] J", "tanh → stack · cut · edge 1 of 2", ""},
    {"w Enter", "kernel, ", ""},
    {"j j j j i", "1 ", ""},
    {"i", "no computed node", ""},
    {"j j j j R", "tanh", ""},
    {"/ \"linear\" Enter l j b", "matmul", ""},
    {"L", "test machine", ""},
    {": \"launch nowhere\" Enter", "no launch mode", ""},
    {"U", "nothing to gain", ""},
    {": \"roll maybe\" Enter", "roll is on or off", ""},
    {"v", "graph · combined", ""},
    {": \"variant combined\" Enter", "graph · combined", ""},
    {": \"variant nothing\" Enter", "no variant", ""},
    {"p", ":plan", "Esc"},
    {": \"plan none\" Enter", "1 none", ""},
    {": \"plan nothing\" Enter", "no plan", ""},
    {"B @wait Esc", "cancelled", ""},
    {"D", ":device", "Esc"},
    {": \"device cuda:9\" Enter", "no device", ""},
    {"A", ":add", "Esc"},
    {": \"add split:none\" Enter", "3 none", ""},
    {": \"add combined\" Enter", "combined", ""},
    {"c", "kernels of 3", ""},
    {"X", "graph · split · 1 max", ""},
    {"X X", "no column", ""},
    {">", "graph · split · 2 eager", ""},
    {"2 <", "graph · split · 1 max", ""},
    {"2", "kernels of 2", ""},
    {"9", "no column 9", ""},
    {"m", "110 µs", ""},
    {"a", "nothing is measured before", "a"},
    {"C-g", "nothing is being measured", ""},
    {"C", "is not calibrated here", ""},
    {"w", "why", ""},
    {"w j j", "bytes", ""},
    {"w Esc", "kernels of 1", ""},
    {"2 S", "decisions of 2 max", ""},
    {"2 S g @wait", "0 of", ""},
    {"2 S k k", "decisions of 2 max", ""},
    {"F", "go to a decision first", ""},
    {"P", "batch_size", ""},
    {"P l", "32", "h"},
    {"P h h h h h h h", "batch_size", ": \"set batch_size=16\" Enter"},
    {";", ":set", "Esc"},
    {": \"set x=1\" Enter", "no parameter", ""},
    {": \"set nonsense\" Enter", "set takes name=value", ""},
    {"C-e", ":export", "Esc"},
    {".", "the script has no experiment", ""},
    {": \"export nowhere\" Enter", "the ending says how", ""},
    {": \"export /nowhere/x.csv\" Enter", "No such file", ""},
    {"W", ":save", "Esc"},
    {": \"save /nowhere/x\" Enter", "nothing is saved here", ""},
    {"h", "feature ×4", ""},
    {"l", "feature ×4", ""},
    {"h", "▸ feature ×4", ""},
    {"PgDn", "relu", ""},
    {"PgDn PgUp", "input_da", ""},
    {"C-f C-b", "input_da", ""},
    {"G", "relu", ""},
    {"G g", "input_da", ""},
    {"End Home", "input_da", ""},
    {"Tab", "wall", ""},
    {"Tab j", "How many times as fast", ""},
    {"Tab Tab", "reduce kernel", ""},
    {": previous-pane Enter", "reduce kernel", ""},
    {"x", "feature[1]", ""},
    {"g x", "no repetition", ""},
    {"-", "▸ feature ×4", ""},
    {"- =", "variance", ""},
    {"/ \"stack\" Enter", "tanh → stack", ""},
    {"/ \"tanh\" Enter n N", "tanh", ""},
    {"/ \"nowhere\" Enter", "no row here holds", ""},
    {"/ \"x\" Esc", "kernels of 1", ""},
    {"/ \"stack\"", "1 of 11 rows", "Esc"},
    {"j j j j d @wait", "corner", ""},
    {"I", "The workbench", ""},
    {"Tab Y", "copied", ""},
    {"Z", "theme", ": \"theme dark\" Enter"},
    {"j j j Enter", "source · a layer_norm", ""},
    {"j j j s", "source · a layer_norm", ""},
    {"j j j s ]", "source · b tanh", ""},
    {"s Tab Tab Tab Tab @wait", "diff ·", ""},
    {"s S-Tab", "mine = function", ""},
    {"s / \"restrict\" Enter", "restrict", ""},
    {"+", "predicted", "+"},
    {"Tab #", "vs 1", "Tab #"},
    {"z", "graph · split", ""},
    {"z Tab", "columns", ""},
    {"t", "asks no puzzle", ""},
    {"y", "mine = function", ""},
    {": \"lua /nowhere/x\" Enter", "/nowhere/x", ""},
    {"H", "history", ""},
    {"H , ,", "history", ": \"sort when\" Enter"},
    {"H : \"sort size\" Enter", "no field", ""},
    {"H f \"nothing at all\" Enter", "no row passes", "f Enter"},
    {": \"history /nowhere.jsonl\" Enter", "No such file", ": history Enter"},
    {"O", "time against bytes", ""},
    {"O l", "roofline", ""},
    {"T @wait", "timeline", ""},
    {"T @wait @wait + + -", "timeline", ""},
    {"!", "hello from the script", ""},
    {"o", "puzzlers, models", ""},
    {"o / \"lora\" Enter", "lora", ""},
    {"C-o", ":open", "Esc"},
    {": \"open nowhere\" Enter", "no such script", ": \"open demo\" Enter"},
    {": \"open broken\" Enter", "has an error", ""},
    {": \"open puzzle\" Enter", "graph", "Esc"},
    {"r", "loading demo again", ""},
    {"?", "Fusing and cutting", ""},
    {"F1 G", "suspend", ""},
    {"? / \"roofline\" Enter", "plot", ""},
    {":", ":", "Esc"},
    {": \"frobnicate\" Enter", "no command", ""},
    {": \"und\" Enter", "nothing to undo", ""},
    {": \"zo\" Tab", ":zoom", "Esc"},
    {": \"undo\" Enter : Up", ":undo", "Esc"},
    {"C-l", "110 µs", ""},
    {"&", "& is no key here", ""},
    {"@50x10 @wait", "too small", ""},
    {"j j @60x16", "layer_norm", ""},
    {"@61x17 @200x60 j", "110 µs", ""},
};
enum { SCRIPTS = sizeof scripts / sizeof *scripts };

/* As the C locale shows it. */
static void to_ascii(const char *from, char *to)
{
    static const char *const signs[][2] = {{"→", "->"}, {"·", "-"}, {"µ", "u"}, {"×", "x"}, {"▸", ">"}};
    while (*from) {
        size_t k = 0, n = sizeof signs / sizeof *signs;
        while (k < n && strncmp(from, signs[k][0], strlen(signs[k][0])) != 0) k++;
        if (k == n) {
            *to++ = *from++;
            continue;
        }
        from += strlen(signs[k][0]);
        to = stpcpy(to, signs[k][1]);
    }
    *to = '\0';
}

/* ---- the stage ----------------------------------------------------------------------------------------------------
 */

#define FAIL_WITH_SCREEN(t, ...)                                                                                       \
    do {                                                                                                               \
        fprintf(stderr, "%s", term_screen(t));                                                                         \
        fail_msg(__VA_ARGS__);                                                                                         \
    } while (0)

static term *start(const environment *e, const char *path)
{
    /* No mouse of the Linux console: its library leaks, which is nothing of ours. */
    const char *env[] = {state_home, config_home, "NCURSES_GPM_TERMS=none", e->env[0], e->env[1], NULL},
               *argv[] = {program(), path, NULL};
    return term_start(e->rows, e->cols, env, argv);
}

static void must_show(term *t, const char *text, const char *what)
{
    if (!term_wait(t, text, PATIENCE_MS)) FAIL_WITH_SCREEN(t, "%s: no \"%s\"", what, text);
}

/* Every line between the header and the keys ends in a frame's sign; nothing stray stands anywhere. NULL, or what is
 * wrong. */
static const char *flaw_of(term *t, const environment *e, int *at)
{
    static const char *const ends[] = {"╮", "│", "┤", "╯", "╗", "║", "╝", "+", "|", "#"};
    for (int row = 1; row < e->rows - 1; row++) {
        const char *line = term_row(t, row);
        bool good = false;
        *at = row;
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            size_t n = strlen(line), m = strlen(ends[i]);
            good |= n >= m && !strcmp(line + n - m, ends[i]);
        }
        if (!good) return "does not end in a frame";
        if (strstr(line, "\xef\xbf\xbd") || strpbrk(line, "\x1b\x07\x7f")) return "has stray signs";
    }
    return NULL;
}

/* A frame drawn afresh arrives in pieces, between which a busy machine does other things for longer than any rest that
 * could be waited for: what stays wrong is wrong. */
static void check_screen(term *t, const environment *e, const char *what)
{
    enum { STEP_MS = 50 };
    const char *flaw = NULL;
    int row = 0;
    if (strchr(what, '@')) return; /* another size */
    for (int ms = 0; ms < PATIENCE_MS && (flaw = flaw_of(t, e, &row)); ms += STEP_MS)
        term_rest(t, STEP_MS, PATIENCE_MS);
    if (flaw) FAIL_WITH_SCREEN(t, "%s: row %d %s", what, row, flaw);
}

static void play(term *t, const environment *e, const script *s)
{
    char want[128];
    if (!strcmp(e->name, "vt100") && strstr(s->keys, "S-Tab")) return; /* it has no such key */
    if (e->ascii)
        to_ascii(s->want, want);
    else
        snprintf(want, sizeof want, "%s", s->want);
    term_keys(t, "Esc : \"open broken\" Enter");
    must_show(t, "has an error", s->keys);
    for (int ms = 0; ms < PATIENCE_MS && term_shows(t, e->ascii ? "110 us" : "110 µs"); ms += 10) term_rest(t, 10, 100);
    term_keys(t, ": \"open demo\" Enter");
    must_show(t, e->ascii ? "110 us" : "110 µs", s->keys);
    term_keys(t, s->keys);
    must_show(t, want, s->keys);
    term_rest(t, 20, 500);
    check_screen(t, e, s->keys);
    if (strchr(s->keys, '@')) term_resize(t, e->rows, e->cols);
    term_keys(t, s->after);
}

static void play_environment(void **state)
{
    const environment *e = *state;
    int which = (int)(e - environments);
    term *t = start(e, "demo");
    if (e->refused) {
        must_show(t, "cannot move its cursor", e->name);
        assert_int_equal(WEXITSTATUS(term_end(t, PATIENCE_MS)), 2);
        term_free(t);
        return;
    }
    must_show(t, e->ascii ? "110 us" : "110 µs", e->name);
    for (int i = 0; i < SCRIPTS; i++)
        if (full() || (i + which) % PLAYED == 0) play(t, e, &scripts[i]);
    if (e->plain) assert_false(term_has_colour(t));
    if (e->ascii) assert_false(term_has_bytes_above_ascii(t));
    term_keys(t, "C-c");
    assert_int_equal(term_end(t, PATIENCE_MS), 0);
    assert_true(term_canonical(t) && term_cursor_visible(t) && !term_on_alternate(t));
    term_free(t);
}

/* ---- every command ------------------------------------------------------------------------------------------------
 */

static bool ends_it(fb_cmd c)
{
    return c == FB_CMD_QUIT || c == FB_CMD_CLOSE || c == FB_CMD_SUSPEND;
}

/* By its key and by its name at the prompt; help is looked at in test_terminal. */
static void every_command_is_reached(void **state)
{
    (void)state;
    const environment *e = &environments[0];
    term *t = start(e, "demo");
    must_show(t, "110 µs", "demo");
    for (int c = 0; c < FB_COMMANDS; c++) {
        const fb_cmd_info *info = fb_cmd_get((fb_cmd)c);
        char key[16], line[64];
        snprintf(key, sizeof key, "%.*s", (int)strcspn(info->keys, " "), info->keys);
        if (!*key) fail_msg("%s has no key", info->name);
        assert_int_equal(fb_cmd_find(info->name, strlen(info->name)), c);
        if (ends_it((fb_cmd)c)) continue;
        term_keys(t, key);
        term_rest(t, 1, 200);
        if (term_shows(t, "is no key here")) FAIL_WITH_SCREEN(t, "%s: %s is no key", info->name, key);
        snprintf(line, sizeof line, "Esc : \"%s\" Enter", info->name);
        term_keys(t, line);
        term_rest(t, 1, 200);
        if (term_shows(t, "no command")) FAIL_WITH_SCREEN(t, "%s cannot be typed", info->name);
        term_keys(t, "Esc");
    }
    term_keys(t, "Esc Esc Esc : \"open demo\" Enter");
    must_show(t, "110 µs", "after all commands");
    term_keys(t, ": quit Enter");
    assert_int_equal(term_end(t, PATIENCE_MS), 0);
    term_free(t);
}

/* ---- storms -------------------------------------------------------------------------------------------------------
 */

static void survives_a_storm_of_signals(void **state)
{
    (void)state;
    term *t = start(&environments[0], "demo");
    must_show(t, "110 µs", "demo");
    for (int i = 0; i < 300; i++) term_signal(t, SIGWINCH);
    term_keys(t, "j j j j");
    must_show(t, "layer_norm → tanh", "after SIGWINCH");
    for (int i = 0; i < 20; i++) { /* there is no shell to go back to: it goes on (with one: test_terminal) */
        term_signal(t, SIGTSTP);
        term_signal(t, SIGCONT);
    }
    term_keys(t, "]");
    must_show(t, "tanh → stack", "after SIGTSTP");
    assert_true(term_on_alternate(t));
    term_signal(t, SIGHUP);
    int status = term_end(t, PATIENCE_MS);
    assert_true(status != -1 && (WIFSIGNALED(status) ? WTERMSIG(status) == SIGHUP : WEXITSTATUS(status) != 0));
    assert_true(term_canonical(t) && !term_on_alternate(t));
    term_free(t);
}

/* Any bytes in any order: keys of the table, control characters, sequences cut short, text above ASCII. */
static void survives_a_monkey(void **state)
{
    (void)state;
    static const char *const odd[] = {"\x1b[", "\x1b[<0;5;5M", "\x1b[1;5C", "µ", "\xff", "\x1bOP", "\x1b[200~", "\x01"};
    enum { SHORT = 800, LONG = 10000 };
    uint32_t seed = 2026;
    int keys = full() ? LONG : SHORT;
    term *t = start(&environments[0], "demo");
    must_show(t, "110 µs", "demo");
    for (int i = 0; i < keys; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t r = seed >> 8;
        char key[16] = {(char)(' ' + r % 95), '\0'};
        const fb_cmd_info *info = fb_cmd_get((fb_cmd)(r % FB_COMMANDS));
        if (r % 3 == 0)
            snprintf(key, sizeof key, "%.*s", (int)strcspn(info->keys, " "), info->keys);
        else if (r % 41 == 0)
            snprintf(key, sizeof key, "%s", odd[r / 41 % (sizeof odd / sizeof *odd)]);
        bool leaves = !strcmp(key, "q") || !strcmp(key, "Q") || !strcmp(key, "C-c") || !strcmp(key, "C-z");
        if (!leaves && *key != '"' && *key != '@') term_keys(t, key);
        if (r % 211 == 0) term_resize(t, 1 + (int)(r / 211) % 80, 1 + (int)(r / 977) % 260);
        if (r % 7 == 0) term_rest(t, 0, 20);
        int status = term_end(t, 0);
        if (status == -1) continue;
        if (!WIFEXITED(status) || WEXITSTATUS(status)) /* ":clo" and Enter ends it well */
            FAIL_WITH_SCREEN(t, "key %d (%s) ended it with status %x", i, key, (unsigned)status);
        term_free(t);
        t = start(&environments[0], "demo");
        must_show(t, "110 µs", "again");
    }
    term_resize(t, 30, 100);
    term_keys(t, "Esc Esc Esc Esc Esc Esc Esc : \"help\" Enter g");
    must_show(t, "Fusing and cutting", "after the monkey");
    term_keys(t, "C-c");
    assert_int_equal(term_end(t, PATIENCE_MS), 0);
    term_free(t);
}

/* ---- the folder ---------------------------------------------------------------------------------------------------
 */

static int make_folder(void **state)
{
    (void)state;
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

int main(void)
{
    static const struct CMUnitTest own[] = {
        cmocka_unit_test(every_command_is_reached),
        cmocka_unit_test(survives_a_storm_of_signals),
        cmocka_unit_test(survives_a_monkey),
    };
    enum { OWN = sizeof own / sizeof *own };
    static struct CMUnitTest all[ENVIRONMENTS + OWN];
    for (int i = 0; i < ENVIRONMENTS; i++)
        all[i] = (struct CMUnitTest){
            .name = environments[i].name, .test_func = play_environment, .initial_state = (void *)&environments[i]};
    memcpy(all + ENVIRONMENTS, own, sizeof own);
    return _cmocka_run_group_tests("matrix", all, ENVIRONMENTS + OWN, make_folder, drop_folder);
}
