/* Lessons in the real program, on the shipped recording: the bundled ones page by page with their keys played, and
 * what a lecturer does: to the workbench and back, answers shown and hidden, the file edited in the middle. */
#include "expect.h"

#include <string.h>
#include <sys/stat.h>

static char folder[] = "/tmp/fb-lesson-XXXXXX";
static char cache[96], state[96];

static const char *program(void)
{
    const char *path = getenv("FUSEBOX");
    return path ? path : "./fusebox";
}

static term *start(const char *lesson, int rows, int cols, const char *more)
{
    const char *env[] = {cache, state, more, NULL};
    const char *argv[] = {program(), lesson, "--device", "replay:h200", NULL};
    return term_start(rows, cols, env, argv);
}

static const char *write_file(const char *name, const char *text)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_true(f && fputs(text, f) >= 0 && fclose(f) == 0);
    return path;
}

/* ---- the bundled ones
 * -------------------------------------------------------------------------------------------------
 */

/* Every page with its answer shown, so that its columns stand beside it; nothing on the screen says that something went
 * wrong, and columns that are there have figures of the recording. */
static void play_through(const char *lesson, int pages)
{
    static const char *const wrong[] = {"failed",    "left out",       "predicted",
                                        "no script", "asks no puzzle", "illegal key"};
    term *t = start(lesson, 40, 120, NULL);
    for (int i = 1; i <= pages; i++) {
        char page[48], next[48];
        snprintf(page, sizeof page, "page %d of %d", i, pages);
        snprintf(next, sizeof next, "l: %d ", i + 1);
        must_show(t, page);
        must_show(t, i < pages ? next : "this is the last page");
        term_rest(t, 100, 5000); /* the rest of the screen */
        bool text = term_shows(t, "c lists all pages"), last = term_shows(t, "this is the last page");
        bool plays = term_shows(t, "p plays");
        if (!text) term_keys(t, "a");
        if (!text) must_show(t, "kernels of");
        if (!text) must_show(t, "✓");
        must_lose(t, "predicted");
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) must_not_show(t, wrong[k]);
        if (plays) {
            term_keys(t, "p");
            must_show(t, "played");
            must_not_show(t, "failed");
            must_not_show(t, "may not");
            term_keys(t, "0");
            must_show(t, page);
        }
        assert_int_equal(last, i == pages);
        if (i < pages) term_keys(t, "l");
    }
    quit(t);
}

static void the_lecture(void **unused)
{
    (void)unused;
    play_through("lessons/lecture", 19);
}

static void the_puzzles(void **unused)
{
    (void)unused;
    play_through("lessons/puzzles", 10);
}

/* ---- what a page does
 * -------------------------------------------------------------------------------------------------
 */

/* Neither columns nor edits of one page are there on the next, or on the same one again. */
static void pages_begin_afresh(void **unused)
{
    (void)unused;
    term *t = start("lessons/lecture", 30, 100, NULL);
    must_show(t, "page 1 of 19");
    term_keys(t, "\":lesson 4\" Enter");
    must_show(t, "page 4 of 19");
    must_show(t, "kernels of");
    must_show(t, "1 eager");
    term_keys(t, "Tab");
    must_show(t, "0 comes back");
    term_keys(t, "A \"none\" Enter");
    must_show(t, "3 none");
    term_keys(t, "0 l");
    must_show(t, "page 5 of 19");
    term_keys(t, "Tab");
    must_show(t, "graph · ");
    must_lose(t, "none");
    term_keys(t, "0 h");
    must_show(t, "page 4 of 19");
    must_show(t, "2 max");
    must_lose(t, "none");
    quit(t);
}

/* A puzzle's columns are its answer: they come when it is answered, or when the answers are asked for. */
static void answers_are_hidden(void **unused)
{
    (void)unused;
    term *t = start("lessons/puzzles", 30, 100, NULL);
    must_show(t, "page 1 of 10");
    term_keys(t, "l");
    must_show(t, "page 2 of 10");
    must_show(t, "Enter asks it");
    term_rest(t, 150, 5000);
    must_not_show(t, "kernels of");
    must_not_show(t, "Each feature is launched");
    term_keys(t, "a");
    must_show(t, "Each feature is launched");
    must_show(t, "697 µs");
    term_keys(t, "A");
    must_show(t, "a shows it");
    must_lose(t, "kernels of");
    must_lose(t, "Each feature is launched");
    term_keys(t, "Enter");
    must_show(t, "predict first");
    term_keys(t, "1 4 j Enter");
    must_show(t, "you guessed 4");
    term_keys(t, "PgDn");
    must_show(t, "Back to the lesson");
    must_not_show(t, "The other puzzles");
    term_keys(t, "Esc");
    must_show(t, "The puzzle, answered");
    must_show(t, "kernels of");
    quit(t);
}

static void contents_and_notes(void **unused)
{
    (void)unused;
    term *t = start("lessons/lecture", 24, 80, NULL);
    must_show(t, "page 1 of 19");
    must_not_show(t, "Ask who has ever");
    term_keys(t, "N G");
    must_show(t, "hardly anybody guesses");
    term_keys(t, "N c");
    must_show(t, "contents · To fuse or not to fuse · 60 minutes");
    term_keys(t, "j j Enter");
    must_show(t, "page 3 of 19");
    term_keys(t, "\":lesson 99\" Enter");
    must_show(t, "there are pages 1 to 19");
    term_keys(t, "G Space");
    must_show(t, "page 4 of 19");
    quit(t);
}

/* Below 100 columns the text has the screen, and the workbench is one key away. */
static void small_screens(void **unused)
{
    (void)unused;
    term *t = start("lessons/lecture", 24, 80, NULL);
    must_show(t, "page 1 of 19");
    term_keys(t, "l");
    must_show(t, "page 2 of 19");
    term_rest(t, 150, 5000);
    must_not_show(t, "kernels of");
    term_keys(t, "Tab");
    must_show(t, "kernels of");
    term_keys(t, "0");
    must_show(t, "page 2 of 19");
    term_keys(t, "@100x30");
    must_show(t, "kernels of");
    must_show(t, "page 2 of 19");
    quit(t);
}

/* ---- playing
 * ----------------------------------------------------------------------------------------------------------
 */

/* What a lesson's keys may not: files are written and programs started by people alone. And any key stops them. */
static void keys_write_nothing(void **unused)
{
    (void)unused;
    char out[160], text[900];
    snprintf(out, sizeof out, "%s/stolen.json", folder);
    snprintf(
        text, sizeof text,
        "local fb = require \"fusebox\"\nreturn fb.lesson { title = \"Keys\", pages = {\n"
        "fb.page { title = \"One\", script = \"add_relu\", columns = { \"max\" }, keys = 'Tab \":save %s\" Enter' },\n"
        "fb.page { title = \"Two\", script = \"add_relu\", columns = { \"eager\" }, keys = 'Tab @60000 Q' },\n"
        "fb.page { title = \"Three\", script = \"add_relu\", columns = { \"max\" }, keys = 'Tab Q' },\n"
        "} }\n",
        out);
    term *t = start(write_file("keys.lua", text), 30, 100, NULL);
    must_show(t, "page 1 of 3");
    must_show(t, "kernels of");
    term_keys(t, "p");
    must_show(t, "played");
    assert_int_equal(access(out, F_OK), -1);
    term_keys(t, "0 l");
    must_show(t, "page 2 of 3");
    must_show(t, "1 eager"); /* its own column, not that of the page before */
    term_keys(t, "p");
    must_show(t, "graph · ");
    term_keys(t, "x");
    must_show(t, "stopped");
    term_keys(t, "0 l");
    must_show(t, "page 3 of 3");
    must_show(t, "1 max");
    must_show(t, "✓");
    /* What was tried on the page is not there when its keys are played. */
    term_keys(t, "Tab A \"none\" Enter");
    must_show(t, "2 none");
    term_keys(t, "0 p");
    must_show(t, "played");
    must_show(t, "graph · ");
    must_lose(t, "2 none");
    /* Nor is a parameter that was changed: by its list, or by name. */
    term_keys(t, "0 Tab P");
    must_show(t, "128");
    term_keys(t, "l");
    must_show(t, "256");
    term_keys(t, "Esc 0 p");
    must_show(t, "played");
    must_show(t, "graph · ");
    term_keys(t, "P");
    must_show(t, "128");
    must_lose(t, "256");
    quit(t);
}

/* ---- the file is saved
 * ------------------------------------------------------------------------------------------------
 */

static void reloading_keeps_the_page(void **unused)
{
    (void)unused;
    const char *head = "local fb = require \"fusebox\"\nreturn fb.lesson { title = \"Mine\", pages = {\n";
    char text[1200];
    snprintf(
        text, sizeof text,
        "%sfb.page { title = \"One\", text = \"first\" },\nfb.page { title = \"Two\", script = \"add_relu\", columns = "
        "{ \"eager\" }, text = \"before\" },\n} }\n",
        head);
    term *t = start(write_file("saved.lua", text), 30, 100, NULL);
    must_show(t, "page 1 of 2");
    term_keys(t, "l");
    must_show(t, "before");
    must_show(t, "kernels of");
    /* Another page before it, and other words. */
    snprintf(
        text, sizeof text,
        "%sfb.page { title = \"One\", text = \"first\" },\nfb.page { title = \"New\" },\nfb.page { title = \"Two\", "
        "script = \"add_relu\", columns = { \"eager\" }, text = \"after\" },\n} }\n",
        head);
    write_file("saved.lua", text);
    must_show(t, "page 3 of 3");
    must_show(t, "after");
    must_show(t, "kernels of");
    /* What is no lesson is told, with its line, and the page stays. */
    snprintf(text, sizeof text, "%sfb.page { title = \"Two\", txet = \"x\" },\n} }\n", head);
    write_file("saved.lua", text);
    must_show(t, "saved.lua:3: fb.page: unknown field");
    must_show(t, "what was saved before is shown");
    must_show(t, "after");
    /* Mended, and with other columns. */
    snprintf(text, sizeof text,
             "%sfb.page { title = \"Two\", script = \"add_relu\", columns = { \"max\" }, text = \"at last\" },\n} }\n",
             head);
    write_file("saved.lua", text);
    must_show(t, "page 1 of 1");
    must_show(t, "at last");
    must_show(t, "1 max");
    must_lose(t, "what was saved before");
    quit(t);
}

/* On a page the editor has the lesson; what is bundled is nobody's to edit. */
static void editing(void **unused)
{
    (void)unused;
    const char *path =
        write_file("edited.lua", "local fb = require \"fusebox\"\nreturn fb.lesson { title = \"x\", pages = {\n"
                                 "fb.page { title = \"One\", text = \"before\" },\n} }\n");
    term *t = start(path, 30, 100, "VISUAL=sed -i s/before/after/");
    must_show(t, "before");
    term_keys(t, "E");
    must_show(t, "after");
    quit(t);
    t = start("lessons/puzzles", 30, 100, "VISUAL=true");
    must_show(t, "page 1 of 10");
    term_keys(t, "E");
    must_show(t, "--from lessons/puzzles");
    quit(t);
}

/* Trouble of a page is told on the page. */
static void trouble_is_told(void **unused)
{
    (void)unused;
    term *t =
        start(write_file("trouble.lua", "local fb = require \"fusebox\"\nreturn fb.lesson { title = \"x\", pages = {\n"
                                        "fb.page { title = \"One\", script = \"nowhere\" },\n"
                                        "fb.page { title = \"Two\", puzzle = \"add_relu\" },\n"
                                        "fb.page { title = \"Three\", script = \"trouble\" },\n"
                                        "fb.page { title = \"Four\", script = \"add_relu\", keys = \"Taab\" },\n} }\n"),
              30, 100, NULL);
    must_show(t, "trouble.lua:3: nowhere: ");
    term_keys(t, "l");
    must_show(t, "trouble.lua:4: add_relu asks no puzzle");
    term_keys(t, "l");
    must_show(t, "is a lesson, not a script");
    term_keys(t, "l");
    must_show(t, "trouble.lua:6: keys:1: no key \"Taab\"");
    term_keys(t, "\":open add_relu\" Enter");
    must_show(t, "graph · ");
    term_keys(t, "0");
    must_show(t, "no lesson is open");
    quit(t);
}

/* ---- */

static int set_up(void **unused)
{
    (void)unused;
    if (!own_folder_of(folder, cache)) return -1;
    snprintf(state, sizeof state, "XDG_STATE_HOME=%s/state", folder);
    return 0;
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
        cmocka_unit_test(the_lecture),        cmocka_unit_test(the_puzzles),
        cmocka_unit_test(pages_begin_afresh), cmocka_unit_test(answers_are_hidden),
        cmocka_unit_test(contents_and_notes), cmocka_unit_test(small_screens),
        cmocka_unit_test(keys_write_nothing), cmocka_unit_test(reloading_keeps_the_page),
        cmocka_unit_test(trouble_is_told),    cmocka_unit_test(editing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
