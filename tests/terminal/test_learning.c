/* What a student does, in the real program: puzzles read, answered and left, columns dropped and found again. On the
 * shipped recording, so that no figure depends on this machine. */
#include "expect.h"

#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char folder[] = "/tmp/fb-learning-XXXXXX";
static char cache[96], state[96];

static int fresh(void **unused);

static const char *program(void)
{
    const char *path = getenv("FUSEBOX");
    return path ? path : "./fusebox";
}

/* `sets`: parameters as "rows=37 columns=53", or NULL. */
static term *start_set(const char *script, const char *sets, const char *device, int rows, int cols, const char *more)
{
    enum { MOST = 24 };
    const char *env[] = {cache, state, more, NULL};
    const char *argv[MOST] = {program()};
    char words[256];
    int n = 1;
    if (script) argv[n++] = script;
    snprintf(words, sizeof words, "%s", sets ? sets : "");
    for (char *word = strtok(words, " "); word && n + 4 < MOST; word = strtok(NULL, " "))
        argv[n++] = "--set", argv[n++] = word;
    if (device) argv[n++] = "--device", argv[n++] = device;
    return term_start(rows, cols, env, argv);
}

static term *start_as(const char *script, const char *device, int rows, int cols, const char *more)
{
    return start_set(script, NULL, device, rows, cols, more);
}

static term *start(const char *script)
{
    return start_as(script, "replay:h200", 30, 100, NULL);
}

/* ---- keys inside a puzzle -------------------------------------------------------------------------------------------
 */

/* The waterfall is of the two that the puzzle compares, in its order, whatever their numbers are. */
static void why_is_of_the_pair(void **unused)
{
    (void)unused;
    term *t = start("over_fusion"); /* again:stored is column 1, again:max column 2; the puzzle asks the other way */
    must_show(t, "predict first");
    term_keys(t, "w");
    must_show(t, "have not been measured yet");
    term_keys(t, "1 l j Enter");
    must_show(t, "you guessed");
    term_keys(t, "w");
    must_show(t, "why · 2 again:max");
    must_show(t, "→ 1 again:stored");
    quit(t);
}

/* Digits are the guess's on its row, and an answer's elsewhere. */
static void digits_are_the_guess(void **unused)
{
    (void)unused;
    term *t = start("over_fusion");
    must_show(t, "predict first");
    term_keys(t, "3");
    must_show(t, "3 ●");
    term_keys(t, "1 2 . 5");
    must_show(t, "◂ 12.5_ × ▸");
    must_show(t, "3 ●");
    term_keys(t, "Backspace Backspace");
    must_show(t, "◂ 12_ × ▸");
    term_keys(t, "l");
    must_show(t, "◂ 15 × ▸");
    term_keys(t, "h h");
    must_show(t, "◂ 8 × ▸");
    term_keys(t, "k 2");
    must_show(t, "2 ●");
    must_show(t, "◂ 8 × ▸");
    quit(t);
}

/* Enter, pressed once more than there are hints. */
static void hints_do_not_run(void **unused)
{
    (void)unused;
    term *t = start("over_fusion");
    must_show(t, "predict first");
    term_keys(t, "1 2 j j Enter");
    must_show(t, "hint 1: ");
    term_keys(t, "Enter");
    must_show(t, "hint 2: ");
    must_show(t, "No more hints");
    term_keys(t, "Enter Enter Enter @wait");
    must_show(t, "predict first");
    must_show(t, "No more hints");
    must_not_show(t, "you guessed");
    quit(t);
}

/* Keys from a file, with no word of waiting in it, come when the script is there. */
static void keys_wait_for_the_load(void **unused)
{
    char path[96];
    (void)unused;
    snprintf(path, sizeof path, "%s/keys", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("S G : \"open flops\" Enter I", f);
    fclose(f);
    const char *env[] = {cache, state, NULL};
    const char *argv[] = {program(), "--keys", path, "--device", "replay:h200", "lora_mlp", "inductor", NULL};
    term *t = term_start(30, 100, env, argv);
    must_show(t, "puzzle 3 of 19"); /* of the second script, which is opened by keys and waited for too */
    must_show(t, "A question about two plans");
    must_not_show(t, ", on .");
    quit(t);
}

/* ---- what a puzzle shows, and their order
 * ----------------------------------------------------------------------------
 */

static void task_and_programs_are_shown(void **unused)
{
    (void)unused;
    term *t = start("split_stack");
    must_show(t, "puzzle 1 of 19 · To fuse or not to fuse?");
    must_show(t, "What is compared");
    must_show(t, "split_stack = function(g, p)");
    must_show(t, "│ combined = function(g, p)");
    term_keys(t, "j");
    must_show(t, "Why is combined faster?");
    must_show(t, "Run and see");
    quit(t);
    t = start_as("flops", "replay:h200", 24, 80, NULL); /* two plans of one program, on a small screen */
    must_show(t, "chain = function(g, p)");
    must_show(t, "│ chain:max");
    term_keys(t, "PgDn");
    must_show(t, "8 × mul");
    must_show(t, "Run and see");
    term_keys(t, "PgUp");
    must_show(t, "What is compared");
    term_keys(t, "j");
    must_show(t, "1 ○ ");
    must_show(t, "Skip to the next puzzle, 4 of 19");
    quit(t);
}

static void leaving_is_no_skipping(void **unused)
{
    (void)unused;
    term *t = start("recompute");
    must_show(t, "predict first");
    term_keys(t, "Esc");
    must_show(t, "kernels of 1");
    quit(t);
    t = start("recompute");
    must_show(t, "predict first");
    quit(t);
}

static void one_puzzle_after_the_other(void **unused)
{
    (void)unused;
    term *t = start("split_stack");
    must_show(t, "puzzle 1 of 19");
    term_keys(t, "G Enter");
    must_show(t, "puzzle 2 of 19");
    must_show(t, "split_stack:compiled");
    term_keys(t, "1 l j Enter");
    must_show(t, "you guessed");
    term_keys(t, "G k k k Enter");
    must_show(t, "puzzle 3 of 19");
    quit(t);
    t = start("split_stack"); /* skipped: the workbench comes first */
    must_show(t, "kernels of ");
    must_not_show(t, "predict first");
    quit(t);
    t = start_as(NULL, "replay:h200", 30, 100, NULL);
    must_show(t, "1 split_stack ");
    must_show(t, "9 overlap ");
    must_show(t, "18 item ");
    quit(t);
}

/* ---- what is right --------------------------------------------------------------------------------------------------
 */

/* The shipped recording holds it, or what it can be composed of: its figures are no predictions. */
static bool is_recorded(const char *script, const char *column)
{
    char command[512], text[16384];
    snprintf(command, sizeof command, "env %s %s '%s' run %s %s --device replay:h200 --format csv 2>/dev/null", cache,
             state, program(), script, column);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    assert_int_equal(pclose(f), 0);
    return !strstr(text, ",predicted,"); /* the field of its kind */
}

/* Every bundled puzzle is solved by its right answer and refuses each other one. */
static void puzzlers_are_graded(void **unused)
{
    static const struct {
        const char *name;
        int choices, right;
        const char *column; /* one that is compared */
    } puzzlers[] = {
        {"split_stack", 5, 1, NULL},
        {"split_stack_compiled", 5, 2, NULL},
        {"flops", 3, 3, NULL},
        {"recompute", 4, 2, NULL},
        {"over_fusion", 4, 1, NULL},
        {"transpose", 4, 1, NULL},
        {"launch_order", 4, 2, NULL},
        {"precision", 4, 2, NULL},
        {"overlap", 4, 1, NULL},
        {"transposed_output", 4, 1, "across:apart"},
        {"horizontal", 4, 1, "together"},
        {"operator_order", 4, 2, "big_first:inductor"},
        {"launch_bound", 4, 1, "graph"},
        {"optimiser", 4, 1, "inside"},
        {"registers", 4, 1, "fused"},
        {"stored_scores", 4, 1, "online"},
        {"upload", 4, 1, "uploaded:max"},
        {"item", 4, 1, "each:none"},
        {"barrier", 4, 1, "barriers"},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof puzzlers / sizeof *puzzlers; i++) {
        char text[96];
        if (puzzlers[i].column && !is_recorded(puzzlers[i].name, puzzlers[i].column)) {
            print_message("%s: skipped: not recorded\n", puzzlers[i].name);
            continue;
        }
        term *t = start(puzzlers[i].name);
        snprintf(text, sizeof text, "puzzle %d of 19", (int)i + 1);
        must_show(t, text);
        for (int c = 1; c <= puzzlers[i].choices; c++) {
            must_show(t, "predict first");
            snprintf(text, sizeof text, "%d l", c);
            term_keys(t, text);
            snprintf(text, sizeof text, "%d ●", c);
            must_show(t, text);
            term_keys(t, "j Enter");
            must_show(t, "you guessed");
            snprintf(text, sizeof text, "%d ✓", puzzlers[i].right);
            must_show(t, text);
            must_show(t, c == puzzlers[i].right ? "Right." : "Not here.");
            must_not_show(t, c == puzzlers[i].right ? "Not here." : "Right.");
            term_keys(t, "G");
            must_show(t, "Predict again");
            if (c != puzzlers[i].right) must_show(t, "You chose ");
            term_keys(t, "k Enter");
        }
        must_show(t, "predict first");
        snprintf(text, sizeof text, "%d ○", puzzlers[i].choices + 1);
        must_not_show(t, text); /* all of its choices were tried */
        quit(t);
    }
}

/* ---- on a host no answer is known beforehand, but grading follows the waterfall on the page
 * ---------------
 */

/* A figure as "-4.4 µs" in µs, where the row of the part ends with one. */
static double figure_of(const char *row, const char *name)
{
    static const struct {
        const char *unit;
        double us;
    } units[] = {{" ns", 1e-3}, {" µs", 1}, {" ms", 1e3}, {" s", 1e6}};
    const char *at = strstr(row, name), *sign = NULL;
    for (const char *p = at; p && *p; p++)
        if ((*p == '+' || *p == '-') && p[1] >= '0' && p[1] <= '9') sign = p;
    if (!sign) return 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const char *unit = sign + strcspn(sign, " ");
        if (!strncmp(unit, units[i].unit, strlen(units[i].unit))) return atof(sign) * units[i].us;
    }
    return 0;
}

/* A part's figure on the page; 0 where it has no row. */
static double part_on_page(term *t, int rows, const char *name)
{
    char indented[32];
    snprintf(indented, sizeof indented, "║    %s ", name);
    for (int row = 0; row < rows; row++)
        if (strstr(term_row(t, row), indented)) return figure_of(term_row(t, row), indented);
    return 0;
}

/* The part that goes furthest in the direction of the difference; NULL where the rest outweighs it. */
static const char *winner_on_page(term *t, int rows, bool slower)
{
    static const char *const parts[] = {"dispatch", "launches", "copies", "bytes", "compute", "occupancy", "spills"};
    const char *best = NULL;
    double most = 0, sign = slower ? 1 : -1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        double us = part_on_page(t, rows, parts[i]) * sign;
        if (us > most) most = us, best = parts[i];
    }
    double rest = part_on_page(t, rows, "rest");
    return (rest < 0 ? -rest : rest) > most ? NULL : best;
}

/* What a choice says, as its script writes it: this part of the waterfall, saved by the second column or paid by it. */
typedef struct {
    char part[24];
    bool costs;
} said;

enum { MOST_CHOICES = 8, SCRIPT_MOST = 1 << 15 };

/* The word after `name = "` between `from` and `to`; false: there is none. */
static bool word_after(const char *from, const char *to, const char *name, char word[24])
{
    const char *at = strstr(from, name);
    if (!at || at >= to) return false;
    at += strlen(name);
    snprintf(word, 24, "%.*s", (int)strcspn(at, "\""), at);
    return true;
}

/* A puzzler's choices, read from its script. */
static int choices_of(const char *name, said out[MOST_CHOICES])
{
    static char text[SCRIPT_MOST];
    char path[512];
    const char *source = getenv("FB_SRCDIR");
    snprintf(path, sizeof path, "%s/scripts/puzzlers/%s.lua", source ? source : ".", name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    const char *at = strstr(text, "    choices = {\n"), *end = at ? strstr(at, "\n    },\n") : NULL;
    assert_non_null(end);
    int count = 0;
    for (at = strstr(at, "\n      { \""); at && at < end && count < MOST_CHOICES; count++) {
        const char *next = strstr(at + 1, "\n      { \""), *stop = next && next < end ? next : end;
        said *c = &out[count];
        c->costs = word_after(at, stop, "costs = \"", c->part);
        if (!c->costs && !word_after(at, stop, "saves = \"", c->part)) word_after(at, stop, "{ \"", c->part);
        at = next;
    }
    return count;
}

static int pages, graded_pages; /* seen by answer_and_check */

/* The answer `choice`, and what the page says of it: right where the choice is the part that explains most, not graded
 * where nothing does. False: the question was turned, and no choice of the script's stands there. */
static bool answer_and_check(term *t, int rows, int choice, int choices, const said *c)
{
    char text[32];
    must_show(t, "predict first");
    snprintf(text, sizeof text, "%d l j Enter", choice);
    term_keys(t, text);
    bool turned = false;
    for (int ms = 0; ms < PATIENCE_MS && !turned && !term_wait(t, "answered", 50); ms += 50)
        turned = term_shows(t, "Here it is the other way round");
    if (turned) return false;
    must_show(t, "you guessed");
    bool graded = !term_shows(t, "Nothing is graded"), slower = term_shows(t, "slower; you guessed");
    const char *winner = winner_on_page(t, rows, slower);
    pages++;
    graded_pages += graded;
    bool chosen = false;
    for (int i = 0; i < choices; i++) {
        snprintf(text, sizeof text, "%d ✓", i + 1);
        bool right = graded && winner && !strcmp(c[i].part, winner) && c[i].costs == slower;
        if (i == choice - 1) chosen = right;
        if (term_shows(t, text) == right) continue;
        fprintf(stderr, "%s", term_screen(t));
        fail_msg("choice %d: %s, and most is explained by %s", i + 1, right ? "not right" : "right",
                 winner ? winner : "the rest");
    }
    if (chosen) must_show(t, "Right.");
    if (chosen) must_not_show(t, "Not here.");
    if (!chosen) must_not_show(t, "Right.");
    term_keys(t, "G k Enter");
    return true;
}

/* What a host recorded is graded by its own waterfall, whatever that is: every puzzler that a host can run, at the
 * sizes of tests/terminal/recordings/host.json.gz (two cores, `fusebox record NAME --set … --device host --only
 * plans`). */
static void grading_follows_the_waterfall(void **unused)
{
    static const char *const puzzlers[][2] = {
        {"flops", "rows=64 size=64 hidden=96 n=20011 depth=8"},
        {"recompute", "rows=256 columns=512"},
        {"over_fusion", "n=20011 taps=9 rows=8 width=48"},
        {"transpose", "rows=512 columns=512"},
        {"launch_order", "blocks=4 size=20011"},
        {"precision", "batch=16 inputs=256 outputs=256"},
        {"overlap", "rows=256 width=64 depth=3"},
        {"transposed_output", "rows=512 columns=512"},
        {"horizontal", "features=8 rows=64 columns=128"},
        {"operator_order", "rows=256 columns=256"},
        {"optimiser", "batch=8 inputs=256 outputs=256"},
        {"registers", "n=20011 places=4099 hops=3 depth=20"},
        {"stored_scores", "heads=2 seq=128 head_dim=32"},
        {"upload", "batch=64 fields=3 words=64 rows=64 size=16"},
        {"item", "tasks=8 samples=4099"},
        {"barrier", "N=8 T=3 H=64"},
    };
    enum { ROWS = 60 };
    char recordings[512];
    const char *source = getenv("FB_SRCDIR");
    said c[MOST_CHOICES];
    (void)unused;
    snprintf(recordings, sizeof recordings, "FUSEBOX_RECORDINGS=%s/tests/terminal/recordings", source ? source : ".");
    for (size_t i = 0; i < sizeof puzzlers / sizeof *puzzlers; i++) {
        int n = choices_of(puzzlers[i][0], c);
        assert_true(n >= 3);
        term *t = start_set(puzzlers[i][0], puzzlers[i][1], "replay:host", ROWS, 100, recordings);
        for (int k = 1; k <= n && answer_and_check(t, ROWS, k, n, c); k++)
            ;
        quit(t);
        fresh(NULL);
    }
    print_message("# on a host %d pages were not turned, %d of them graded\n", pages, graded_pages);
    assert_true(graded_pages > 0);
    /* a recording that decides it shows that this test can tell, and live it is the same */
    const char *const devices[] = {"replay:h200", "host"};
    int n = choices_of("transpose", c);
    for (int d = 0; d < 2; d++) {
        term *t = start_as("transpose", devices[d], ROWS, 100, NULL);
        for (int k = 1; k <= (d ? 1 : n); k++)
            if (!answer_and_check(t, ROWS, k, n, c)) break;
        quit(t);
        fresh(NULL);
    }
}

/* Where this machine cannot launch what is compared, what was recorded stands in. */
static void recording_stands_in(void **unused)
{
    (void)unused;
    term *t = start_as("launch_bound", "host", 40, 100, NULL);
    must_show(t, "predict first");
    must_show(t, "launches no graphs");
    term_keys(t, "1 l j Enter");
    must_show(t, "Predict again"); /* a key before that, while it tries, would say nothing */
    must_show(t, "launches no graphs");
    must_show(t, "Compare what was recorded as replay:h200");
    term_keys(t, "Enter");
    must_show(t, "compared: stream@replay:h200 → graph@replay:h200");
    must_show(t, "1 ✓ Launches: ");
    must_show(t, "Right.");
    must_show(t, "alike in both: "); /* the same kernels: parts with no difference to speak of have no rows */
    must_not_show(t, "+0.0 µs");
    quit(t);
}

/* A bundled script with some of its text replaced, as a file of our own. */
static const char *changed(const char *name, const char *from, const char *to)
{
    static char path[128];
    char source[512], text[16384];
    const char *folder_of = getenv("FB_SRCDIR");
    snprintf(source, sizeof source, "%s/scripts/puzzlers/%s.lua", folder_of ? folder_of : ".", name);
    FILE *f = fopen(source, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    char *at = strstr(text, from);
    assert_non_null(at);
    snprintf(path, sizeof path, "%s/changed.lua", folder);
    f = fopen(path, "w");
    fprintf(f, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(f);
    return path;
}

/* Where the question is of something that is not so, its opposite is asked. */
static void question_is_turned(void **unused)
{
    (void)unused;
    term *t =
        start(changed("over_fusion", "{ \"again:max\", \"again:stored\" }", "{ \"again:stored\", \"again:max\" }"));
    must_show(t, "predict first");
    term_keys(t, "2 l j Enter");
    must_show(t, "Here it is the other way round: beside again:stored, again:max is");
    must_show(t, "1 ○ It does more arithmetic");
    must_not_show(t, "Right.");
    term_keys(t, "2 Enter");
    must_show(t, "Not here.");
    must_show(t, "1 ✓ It does more arithmetic");
    must_not_show(t, "Stored once"); /* the script's words are of its own question */
    quit(t);
}

static void nothing_is_graded_in_a_tie(void **unused)
{
    (void)unused;
    term *t = start(changed("over_fusion", "{ \"again:max\", \"again:stored\" }", "{ \"again:max\", \"again:max\" }"));
    must_show(t, "predict first");
    term_keys(t, "1 l j Enter");
    must_show(t, "Nothing is graded: here");
    must_not_show(t, "Right.");
    must_not_show(t, "1 ✓");
    quit(t);
}

/* ---- focus and cursor -----------------------------------------------------------------------------------------------
 */

static void must_be_at(term *t, int row, const char *beginning)
{
    for (int ms = 0; ms < PATIENCE_MS; ms += 50) {
        if (!strncmp(term_row(t, row), beginning, strlen(beginning))) return;
        term_rest(t, 50, 50);
    }
    fprintf(stderr, "%s", term_screen(t));
    fail_msg("row %d does not begin with \"%s\"", row, beginning);
}

static bool has_cursor_row(term *t)
{
    for (int ms = 0; ms < PATIENCE_MS; ms += 50, term_rest(t, 50, 50))
        for (int row = 2; row < 24; row++)
            if (term_row_stands_out(t, row)) return true;
    return false;
}

/* In every theme, also without colours, the border of what has the keys is another, there is a sign, and the cursor's
 * row is seen. */
static void focus_is_seen_in_every_theme(void **unused)
{
    static const char *const themes[] = {"FUSEBOX_THEME=dark", "FUSEBOX_THEME=light",    "FUSEBOX_THEME=mono",
                                         "NO_COLOR=1",         "FUSEBOX_THEME=contrast", "TERM=vt100"};
    (void)unused;
    for (size_t i = 0; i < sizeof themes / sizeof *themes; i++) {
        term *t = start_as("lstm_step", "replay:h200", 30, 100, themes[i]);
        must_show(t, "╔ ▸ graph");
        must_be_at(t, 5, "║");
        must_show(t, "? help");
        must_show(t, "╚");
        must_show(t, "├ kernels of");
        assert_true(has_cursor_row(t));
        term_keys(t, "Tab");
        must_show(t, "╔ ▸ columns");
        must_be_at(t, 5, "│");
        must_show(t, "? help");
        assert_true(has_cursor_row(t));
        assert_false(term_shows(t, "╔ ▸ graph"));
        quit(t);
    }
    term *t = start_as("lstm_step", "replay:h200", 30, 100, "LC_ALL=C");
    must_show(t, "# > graph");
    must_be_at(t, 5, "#");
    quit(t);
}

/* ---- what failed, and what is refused
 * ---------------------------------------------------------------------------------
 */

static void refusals_are_read_to_their_end(void **unused)
{
    (void)unused;
    term *t = start_as("transformer", "replay:h200", 24, 80, NULL);
    must_show(t, "graph · forward");
    must_show(t, " µs");
    term_keys(t, "= / \"out_proj\" Enter j j");
    must_show(t, "cannot fuse · unsupported: ");
    must_show(t, "tile of products goes row by row");
    term_keys(t, "g");
    must_show(t, "x = input()");
    must_not_show(t, "row by row");
    quit(t);
}

/* A column that failed has no figures of a time that it never took. */
static void failed_column_has_no_ratios(void **unused)
{
    char path[128];
    (void)unused;
    snprintf(path, sizeof path, "%s/failing.lua", folder);
    FILE *f = fopen(path, "w");
    fputs("local fb = require \"fusebox\"\n"
          "return fb.script {\n"
          "  model = function(g) return g:input(\"x\", { 64 }):relu() end,\n"
          "  plans = { own = function(pl) pl:kernel(\"relu\", \"own.cu\") end },\n"
          "  columns = { \"max\", \"own\" },\n"
          "}\n",
          f);
    fclose(f);
    snprintf(path, sizeof path, "%s/own.cu", folder);
    f = fopen(path, "w");
    fputs("/* nothing that could run */\n", f);
    fclose(f);
    snprintf(path, sizeof path, "%s/failing.lua", folder);
    term *t = start(path);
    must_show(t, "failed");
    term_keys(t, "2");
    must_show(t, "2 own ◂");
    must_show(t, "? help");
    static const char *const rows[] = {"║│ vs 1 ", "║│ × floor ", "║│ device busy ", "║│ device idle "};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool found = false;
        for (int ms = 0; ms < PATIENCE_MS && !found; ms += 50, term_rest(t, 50, 50))
            for (int row = 0; row < 30 && !found; row++) {
                const char *at = strstr(term_row(t, row), rows[i]);
                found = at && strlen(at) > 6 && !strcmp(at + strlen(at) - 6, " - │");
            }
        if (!found) fail_msg("%s: not \"-\"\n%s", rows[i], term_screen(t));
    }
    quit(t);
}

/* ---- recordings -----------------------------------------------------------------------------------------------------
 */

/* What was recorded elsewhere does not stand beside this machine's figures unless it is asked for. */
static void recordings_are_not_mixed_in(void **unused)
{
    (void)unused;
    term *t = start_as("split_stack", "host", 30, 100, NULL);
    must_show(t, "predict first");
    term_keys(t, "Esc");
    must_show(t, "left out: columns that were recorded elsewhere, as torch:h200; --device replay:h200 shows");
    must_show(t, "1 eager ◂");
    must_not_show(t, "h200   ");
    must_not_show(t, "torch:h200 ");
    term_keys(t, ": \"add split_stack:eager@torch:h200\" Enter"); /* who asks has it */
    must_show(t, "graph · split_stack · 5 eager");
    must_show(t, "torch:h200");
    quit(t);
    t = start("split_stack");
    must_show(t, "predict first");
    term_keys(t, "Esc");
    must_show(t, "torch:h200");
    must_not_show(t, "left out: ");
    quit(t);
    t = start_as(NULL, NULL, 30, 100, NULL);
    must_show(t, "fusebox --device replay:h200 shows what was recorded on one");
    quit(t);
}

/* ---- what is kept ---------------------------------------------------------------------------------------------------
 */

/* The first column's plan is an edited one: 14 launches are 13. */
static term *edited(void)
{
    term *t = start("lstm_step");
    must_show(t, "graph · gates · 1 eager");
    must_show(t, "88.2 µs");
    term_keys(t, "Space");
    must_show(t, "1 mine ◂");
    must_show(t, "matmul → add · fused");
    return t;
}

static const char *kept_file(void)
{
    static char path[256];
    char pattern[160];
    glob_t kept;
    snprintf(pattern, sizeof pattern, "%s/fusebox/columns-*.json", strchr(state, '=') + 1);
    if (glob(pattern, 0, NULL, &kept) != 0) return NULL;
    snprintf(path, sizeof path, "%s", kept.gl_pathv[0]);
    globfree(&kept);
    return path;
}

static void dropped_column_comes_back(void **unused)
{
    (void)unused;
    term *t = edited();
    term_keys(t, "X");
    must_show(t, "dropped 1 gates:mine: u brings it back");
    must_show(t, "1 eager ◂");
    must_not_show(t, "1 mine");
    term_keys(t, "X");
    must_show(t, "dropped 1 addmm:eager");
    term_keys(t, "u");
    must_show(t, "brought back: 1 addmm:eager");
    term_keys(t, "u");
    must_show(t, "brought back: 1 gates:");
    must_show(t, "1 mine ◂");
    must_show(t, "matmul → add · fused");
    term_keys(t, "u");
    must_show(t, "nothing to undo");
    quit(t);
}

static void columns_are_restored(void **unused)
{
    (void)unused;
    struct stat info;
    char path[128];
    term *t = edited();
    term_keys(t, ": \"add cat:max\" Enter");
    must_show(t, "cat · ");
    term_keys(t, "1 q");
    end(t);
    assert_non_null(kept_file());
    snprintf(path, sizeof path, "%s/fusebox", strchr(state, '=') + 1);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    t = start("lstm_step");
    must_show(t, "your columns as you left them, edits too");
    must_show(t, "1 mine ◂");
    must_show(t, "matmul → add · fused");
    term_keys(t, "K");
    must_show(t, "1 eager ◂");
    must_show(t, "matmul → add · cut");
    quit(t);
    assert_null(kept_file());
    t = start("lstm_step");
    must_show(t, "1 eager ◂");
    must_not_show(t, "as you left them");
    quit(t);
}

static void damaged_columns_are_left_out(void **unused)
{
    static const char *const damaged[] = {"{\"fusebox\":1,\"columns\":[{\"column\":\"gates:ea",
                                          "",
                                          "[]",
                                          "{\"fusebox\":1}",
                                          "{\"fusebox\":1,\"columns\":[{\"column\":\"nothing:of-it\"}]}",
                                          "{\"fusebox\":1,\"columns\":[1,{},{\"column\":7}]}"};
    (void)unused;
    term *t = edited();
    quit(t);
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        FILE *f = fopen(kept_file(), "w");
        assert_non_null(f);
        fputs(damaged[i], f);
        fclose(f);
        t = start("lstm_step");
        must_show(t, "the columns kept of this script are left out");
        must_show(t, "1 eager ◂");
        quit(t);
    }
}

static void nothing_is_lost_without_a_word(void **unused)
{
    (void)unused;
    snprintf(state, sizeof state, "XDG_STATE_HOME=/dev/null/nowhere");
    term *t = edited();
    term_keys(t, "q");
    must_show(t, "your columns cannot be kept: ");
    term_keys(t, "q");
    end(t);
}

/* ---- the folder -----------------------------------------------------------------------------------------------------
 */

static int drop_folder(void **unused)
{
    (void)unused;
    drop_tree(folder);
    return 0;
}

static int make_folder(void **unused)
{
    (void)unused;
    return own_folder_of(folder, cache) ? 0 : -1;
}

/* Each test begins with nothing answered and nothing kept. */
static int fresh(void **unused)
{
    static int n;
    (void)unused;
    snprintf(state, sizeof state, "XDG_STATE_HOME=%s/state-%d", folder, n++);
    return mkdir(strchr(state, '=') + 1, 0700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(why_is_of_the_pair, fresh),
        cmocka_unit_test_setup(digits_are_the_guess, fresh),
        cmocka_unit_test_setup(hints_do_not_run, fresh),
        cmocka_unit_test_setup(keys_wait_for_the_load, fresh),
        cmocka_unit_test_setup(task_and_programs_are_shown, fresh),
        cmocka_unit_test_setup(leaving_is_no_skipping, fresh),
        cmocka_unit_test_setup(one_puzzle_after_the_other, fresh),
        cmocka_unit_test_setup(puzzlers_are_graded, fresh),
        cmocka_unit_test_setup(grading_follows_the_waterfall, fresh),
        cmocka_unit_test_setup(recording_stands_in, fresh),
        cmocka_unit_test_setup(question_is_turned, fresh),
        cmocka_unit_test_setup(nothing_is_graded_in_a_tie, fresh),
        cmocka_unit_test_setup(focus_is_seen_in_every_theme, fresh),
        cmocka_unit_test_setup(refusals_are_read_to_their_end, fresh),
        cmocka_unit_test_setup(failed_column_has_no_ratios, fresh),
        cmocka_unit_test_setup(recordings_are_not_mixed_in, fresh),
        cmocka_unit_test_setup(dropped_column_comes_back, fresh),
        cmocka_unit_test_setup(columns_are_restored, fresh),
        cmocka_unit_test_setup(damaged_columns_are_left_out, fresh),
        cmocka_unit_test_setup(nothing_is_lost_without_a_word, fresh),
    };
    return cmocka_run_group_tests_name("learning", tests, make_folder, drop_folder);
}
