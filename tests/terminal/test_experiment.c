/* Experiments inside the workbench, the script in the editor, and the tale of an edit: keys in, screen out. Where
 * figures matter over the session of fake_session.c, else in the real program on the shipped recording. */
#include "expect.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char folder[] = "/tmp/fb-experiment-XXXXXX";
static char cache[96], state[96], data[96], editor[96];

static const char *named(const char *variable, const char *usual)
{
    const char *path = getenv(variable);
    return path ? path : usual;
}

/* A path in the folder; of the last four asked for. */
static const char *in_folder(const char *name)
{
    static char path[4][160];
    static int n;
    char *to = path[n++ % 4];
    snprintf(to, sizeof path[0], "%s/%s", folder, name);
    return to;
}

static term *fake(const char *script, int rows, int cols, const char *more)
{
    const char *env[] = {cache, state, more, NULL};
    const char *argv[] = {named("FAKE_FUSEBOX", "tests/terminal/fake_fusebox"), script, NULL};
    return term_start(rows, cols, env, argv);
}

static term *real(const char *script)
{
    const char *env[] = {cache, state, data, editor, NULL};
    const char *argv[] = {named("FUSEBOX", "./fusebox"), script, "--device", "replay:h200", NULL};
    return term_start(30, 100, env, argv);
}

/* The file's text, from a buffer that the next call uses again. */
static const char *text_of(const char *path)
{
    static char text[1 << 16];
    FILE *in = fopen(path, "r");
    text[in ? fread(text, 1, sizeof text - 1, in) : 0] = '\0';
    if (in) fclose(in);
    return text;
}

static int lines_of(const char *text)
{
    int n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

static void write_text(const char *path, const char *text)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

/* ---- rows and pictures ----------------------------------------------------------------------------------------------
 */

static void rows_come_with_their_kinds(void **unused)
{
    (void)unused;
    term *t = fake("sweep", 30, 100, NULL);
    must_show(t, "110 µs");
    term_keys(t, ".");
    must_show(t, "the experiment has ended: 1 of 6 cases failed; the first: no room for it");
    must_show(t, "us by batch_size · 1 of 4 · 6 rows, 1 failed");
    must_show(t, "a eager   b max");
    must_show(t, "~b"); /* a point that is predicted */
    must_not_show(t, "~a");
    must_show(t, " a split    eager          16    400 µs");
    must_show(t, " b split    max            16   ~160 µs");
    must_not_show(t, "✗"); /* it has no point */
    term_keys(t, "Tab");
    must_show(t, "the largest rows_per_s of each model · 2 of 4");
    must_show(t, "batch_size=16 · best of 2");
    must_show(t, "~100 k ███");
    term_keys(t, "Tab");
    must_show(t, "rows_per_s, the largest first · 3 of 4");
    must_show(t, "split:eager  batch_size=32");
    term_keys(t, "Tab");
    must_show(t, "all rows · 4 of 4");
    must_show(t, "✗ no room for it");
    term_keys(t, "G");
    must_show(t, "split:max  batch_size=32"); /* the title of the box below */
    term_keys(t, "Tab");
    must_show(t, "1 of 4");
    quit(t);
}

/* The cursor's row is a point of the chart, and what it is stands below. */
static void the_cursor_is_a_point(void **unused)
{
    (void)unused;
    term *t = fake("sweep", 24, 80, NULL);
    must_show(t, "110 µs");
    term_keys(t, ".");
    must_show(t, "has ended");
    term_keys(t, "j");
    must_show(t, "split:eager  batch_size=16");
    must_show(t, "us 400 µs · launches 9");
    must_show(t, "· measured");
    term_keys(t, "G");
    must_show(t, "split:max  batch_size=16");
    must_show(t, "us ~160 µs");
    must_show(t, "· predicted");
    term_keys(t, "/ \"batch_size=32\" Enter");
    must_show(t, "split:eager  batch_size=32");
    quit(t);
}

static void enter_opens_the_case(void **unused)
{
    (void)unused;
    term *t = fake("sweep", 30, 100, NULL);
    must_show(t, "110 µs");
    term_keys(t, ".");
    must_show(t, "has ended");
    term_keys(t, "G Enter"); /* max, 16: the second column has that plan */
    must_show(t, "graph · split · 2 max");
    must_show(t, ". goes back to the experiment");
    term_keys(t, ". g j j Enter"); /* eager, 32 */
    must_show(t, "graph · split · 1 eager");
    must_show(t, "[32,64]");
    quit(t);
}

/* A click on a point is one on its row, a second one opens it. */
static void points_are_clicked(void **unused)
{
    (void)unused;
    char keys[96];
    int row = 0;
    term *t = fake("sweep", 30, 100, NULL);
    must_show(t, "110 µs");
    term_keys(t, ".");
    must_show(t, "has ended");
    while (row < 30 && !strstr(term_row(t, row), "│~b")) row++; /* max, 8: at the left end */
    assert_true(row < 30);
    snprintf(keys, sizeof keys, "\"\x1b[<0;12;%dM\x1b[<0;12;%dm\"", row + 1, row + 1);
    term_keys(t, keys);
    must_show(t, "split:max  batch_size=8");
    term_keys(t, "\"\x1b[<0;20;17M\x1b[<0;20;17m\""); /* the first row below the chart */
    must_show(t, "split:eager  batch_size=8");
    term_keys(t, keys);
    must_show(t, "split:max  batch_size=8");
    term_keys(t, keys);
    must_show(t, "graph · split · 2 max");
    quit(t);
}

static void stops_and_goes_on(void **unused)
{
    (void)unused;
    term *t = fake("endless", 24, 80, NULL);
    must_show(t, "110 µs");
    term_keys(t, ".");
    must_show(t, "2 rows so far");
    must_show(t, "experiment: 2 rows · sampling"); /* the header, and below the rows what is measured */
    must_show(t, "… split:eager@host");
    must_show(t, "x stops it, Esc leaves it running");
    term_keys(t, "x");
    must_show(t, "the experiment was stopped after 2 rows: m goes on where it stopped");
    term_keys(t, "x");
    must_show(t, "is not running");
    term_keys(t, "m");
    must_show(t, "2 rows so far");
    term_keys(t, "m");
    must_show(t, "is running: x stops it");
    term_keys(t, "Esc");
    must_show(t, "graph · split");
    must_show(t, "experiment: 2 rows");
    term_keys(t, "j"); /* the workbench goes on */
    term_keys(t, "Esc");
    must_show(t, "was stopped after 2 rows");
    term_keys(t, ".");
    must_show(t, "2 rows");
    must_lose(t, "so far"); /* what was stopped stays so until it is asked for */
    term_keys(t, "m");
    must_show(t, "so far");
    term_keys(t, "Esc C-g");
    must_show(t, "was stopped");
    quit(t);
}

/* Letters alone tell lines apart, and signs what was predicted, where there is no colour and no UTF-8. */
static void without_colours(void **unused)
{
    (void)unused;
    term *t = fake("sweep", 24, 80, "NO_COLOR=1");
    must_show(t, "110 µs");
    term_keys(t, ".");
    must_show(t, "has ended");
    assert_false(term_has_colour(t));
    must_show(t, "~b");
    quit(t);
    t = fake("sweep", 24, 80, "LC_ALL=C");
    must_show(t, "110 us");
    term_keys(t, ".");
    must_show(t, "has ended");
    must_show(t, "~160 us");
    assert_false(term_has_bytes_above_ascii(t));
    quit(t);
}

static void is_written_to_files(void **unused)
{
    (void)unused;
    char keys[256];
    term *t = fake("sweep", 30, 100, NULL);
    must_show(t, "110 µs");
    term_keys(t, ".");
    must_show(t, "has ended");
    snprintf(keys, sizeof keys, ": \"export %s\" Enter", in_folder("rows.svg"));
    term_keys(t, keys);
    must_show(t, "6 rows written to");
    assert_non_null(strstr(text_of(in_folder("rows.svg")), "<svg"));
    assert_non_null(strstr(text_of(in_folder("rows.svg")), "us by batch_size"));
    assert_non_null(strstr(text_of(in_folder("rows.svg")), "hollow")); /* a point that is predicted */
    snprintf(keys, sizeof keys, ": \"export %s\" Enter", in_folder("rows.csv"));
    term_keys(t, keys);
    must_show(t, "rows.csv");
    for (int ms = 0; ms < PATIENCE_MS && lines_of(text_of(in_folder("rows.csv"))) < 7; ms += 50) term_rest(t, 50, 50);
    assert_int_equal(lines_of(text_of(in_folder("rows.csv"))), 7);
    term_keys(t, ": \"export nowhere\" Enter");
    must_show(t, "the ending says how");
    quit(t);
}

static void says_where_there_is_none(void **unused)
{
    (void)unused;
    term *t = fake("demo", 24, 80, NULL);
    must_show(t, "110 µs");
    term_keys(t, ".");
    must_show(t, "the script has no experiment");
    quit(t);
}

/* ---- the real program
 * ------------------------------------------------------------------------------------------------
 */

static const char counted[] = "local fb = require 'fusebox'\n"
                              "return fb.script {\n"
                              "  title = 'first title',\n"
                              "  params = { n = fb.int { 64, min = 1, max = 4096 }, other = fb.int { 3 } },\n"
                              "  model = function(g, p) return g:input('x', { p.n, 32 }):relu():tanh() end,\n"
                              "  experiment = function(e)\n"
                              "    e:plot { x = 'n', y = 'us', by = 'plan' }\n"
                              "    for c in e:sweep { plan = { 'none', 'max' }, n = { 8, 16, 32 } } do\n"
                              "      local r = e:measure(c)\n"
                              "      e:row(c, { us = r.wall_us and r.wall_us.median or r.predicted_us })\n"
                              "    end\n"
                              "  end,\n"
                              "}\n";

/* Rows are in the file with their parameters, and are taken from there the next time. */
static void rows_are_kept(void **unused)
{
    (void)unused;
    char keys[256];
    const char *script = in_folder("counted.lua"), *rows = in_folder("rows.jsonl");
    write_text(script, counted);
    term *t = real(script);
    must_show(t, "relu");
    snprintf(keys, sizeof keys, ": \"experiment %s\" Enter", rows);
    term_keys(t, keys);
    must_show(t, "the experiment has ended: 6 rows, kept in");
    must_show(t, "us by n");
    quit(t);
    const char *text = text_of(rows);
    assert_int_equal(lines_of(text), 12); /* a report and a row each */
    assert_non_null(strstr(text, "\"params\":{\"n\":8,\"other\":3}"));
    t = real(script);
    must_show(t, "relu");
    term_keys(t, keys);
    must_show(t, "the experiment has ended: 6 rows");
    term_keys(t, "Tab");
    must_show(t, "all rows · 2 of 2 · 6 rows");
    quit(t);
    assert_int_equal(lines_of(text_of(rows)), 12);
}

/* A mistake in it is the experiment's, not the script's: the workbench stands as it was. */
static void a_mistake_is_told(void **unused)
{
    (void)unused;
    const char *script = in_folder("wrong.lua");
    char text[sizeof counted + 64];
    snprintf(text, sizeof text, "%s", counted);
    char *at = strstr(text, "e:row(c,");
    assert_non_null(at);
    memcpy(at, "e:rov(c,", 8);
    write_text(script, text);
    term *t = real(script);
    must_show(t, "relu");
    term_keys(t, ".");
    must_show(t, "wrong.lua:10:");
    must_show(t, "\"rov\"");
    term_keys(t, "Esc");
    must_show(t, "graph · 1");
    must_show(t, "relu");
    quit(t);
}

/* What another script's experiment gave is gone with it. */
static void another_script_has_its_own(void **unused)
{
    (void)unused;
    char keys[256];
    write_text(in_folder("counted.lua"), counted);
    term *t = real(in_folder("counted.lua"));
    must_show(t, "relu");
    term_keys(t, ".");
    must_show(t, "has ended: 6 rows");
    term_keys(t, "Esc : \"open models/softmax\" Enter");
    must_show(t, "softmax");
    must_show(t, "recorded");
    term_keys(t, ".");
    must_show(t, "us by columns");
    must_show(t, "has ended: 10 rows");
    must_show(t, "columns  launches");
    snprintf(keys, sizeof keys, "Esc : \"open %s\" Enter", in_folder("counted.lua"));
    term_keys(t, keys);
    must_show(t, "relu");
    quit(t);
}

/* ---- the script in the editor ---------------------------------------------------------------------------------------
 */

/* The terminal is the editor's as a shell has it, and ours again afterwards; what was saved is loaded. */
static void the_script_is_edited(void **unused)
{
    (void)unused;
    const char *script = in_folder("edited.lua");
    char command[512];
    write_text(script, counted);
    snprintf(command, sizeof command, "#!/bin/sh\nstty -a > %s\nsed -i 's/:relu():tanh()/:relu():sigmoid()/' \"$1\"\n",
             in_folder("stty"));
    write_text(in_folder("editor"), command);
    assert_int_equal(chmod(in_folder("editor"), 0755), 0);
    term *t = real(script);
    must_show(t, "tanh");
    term_keys(t, "E");
    must_show(t, "sigmoid");
    must_lose(t, "tanh");
    assert_true(term_on_alternate(t));
    assert_non_null(strstr(text_of(in_folder("stty")), " icanon"));
    assert_non_null(strstr(text_of(in_folder("stty")), " echo "));
    quit(t);
}

/* A bundled one cannot be changed: a copy of it is, and stays open. */
static void a_bundled_script_is_copied(void **unused)
{
    (void)unused;
    write_text(in_folder("editor"),
               "#!/bin/sh\nsed -i 's/nn.softmax(\\(.*\\), -1)/nn.softmax(\\1, -1):tanh()/' \"$1\"\n");
    assert_int_equal(chmod(in_folder("editor"), 0755), 0);
    term *t = real("models/softmax");
    must_show(t, "softmax");
    must_not_show(t, "tanh");
    term_keys(t, "E");
    must_show(t, "tanh");
    must_show(t, "data/fusebox/softmax.lua");
    quit(t);
    assert_non_null(strstr(text_of(in_folder("data/fusebox/softmax.lua")), "tanh"));
}

/* ---- the tale of an edit --------------------------------------------------------------------------------------------
 */

/* What was done stands with the prediction, then with the measurement and where the difference lies; its kernel is
 * drawn with a heavy line until the next key, after which all is as usual. */
static void an_edit_has_a_tale(void **unused)
{
    (void)unused;
    term *t = fake("demo", 24, 80, NULL);
    must_show(t, "110 µs");
    term_keys(t, "j j j j Space");
    must_show(t, "fused layer_norm into tanh (×4) · wall 110 → ~");
    must_show(t, "→ 70.0 µs");
    must_show(t, "launches -8.0 µs ███");
    must_show(t, "a┏");
    must_show(t, "a┗");
    term_keys(t, "k");
    must_show(t, "a╭");
    must_lose(t, "┏");
    must_lose(t, "→ 70.0 µs");
    term_keys(t, "u");
    must_show(t, "undone: an edit · wall 70.0 → ~");
    must_show(t, "→ 110 µs");
    must_show(t, "+8.0 µs"); /* what it cost */
    must_show(t, "b╺");
    quit(t);
}

/* Without measuring by itself it waits, also for one who goes on; and it is of its column alone. */
static void a_tale_waits(void **unused)
{
    (void)unused;
    term *t = fake("demo", 30, 100, NULL);
    must_show(t, "110 µs");
    term_keys(t, "a j j j j Space");
    must_show(t, "(×4) · saves 4 launches");
    must_show(t, "µs · m measures");
    term_keys(t, "j"); /* the first line is the cursor's again */
    must_show(t, "Space: fuse tanh into stack");
    must_show(t, "µs · m measures");
    term_keys(t, "2 @wait");
    must_lose(t, "µs · m measures");
    must_lose(t, "┏");
    term_keys(t, "1");
    must_show(t, "µs · m measures");
    term_keys(t, "m");
    must_show(t, "→ 70.0 µs");
    must_show(t, "-8.0 µs ███"); /* the line may break before it */
    term_keys(t, "k j");
    must_lose(t, "→ 70.0 µs");
    quit(t);
}

/* What is refused has none. */
static void a_refusal_has_no_tale(void **unused)
{
    (void)unused;
    term *t = fake("demo", 24, 80, NULL);
    must_show(t, "110 µs");
    term_keys(t, "u");
    must_show(t, "nothing to undo in this column");
    must_lose(t, "wall 110");
    quit(t);
}

/* ---- */

static int set_up(void **unused)
{
    (void)unused;
    if (!own_folder_of(folder, cache)) return -1;
    snprintf(state, sizeof state, "XDG_STATE_HOME=%s/state", folder);
    snprintf(data, sizeof data, "XDG_DATA_HOME=%s/data", folder);
    snprintf(editor, sizeof editor, "EDITOR=%s/editor", folder);
    return unsetenv("VISUAL");
}

static int tear_down(void **unused)
{
    (void)unused;
    drop_tree(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_with_their_kinds),
        cmocka_unit_test(the_cursor_is_a_point),
        cmocka_unit_test(enter_opens_the_case),
        cmocka_unit_test(stops_and_goes_on),
        cmocka_unit_test(points_are_clicked),
        cmocka_unit_test(without_colours),
        cmocka_unit_test(is_written_to_files),
        cmocka_unit_test(says_where_there_is_none),
        cmocka_unit_test(rows_are_kept),
        cmocka_unit_test(a_mistake_is_told),
        cmocka_unit_test(another_script_has_its_own),
        cmocka_unit_test(the_script_is_edited),
        cmocka_unit_test(a_bundled_script_is_copied),
        cmocka_unit_test(an_edit_has_a_tale),
        cmocka_unit_test(a_tale_waits),
        cmocka_unit_test(a_refusal_has_no_tale),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
