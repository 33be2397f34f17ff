/* The walks of docs/ still play: the keys of docs/NAME.walk bring the screens of docs/walk_NAME.md. Where the screens
 * have changed, `make walks` writes them anew. */
#include "expect.h"

#include <string.h>

enum { LOOK_MS = 50, FILE_BYTES = 1 << 17, LINE_BYTES = 1024 };

static char folder[] = "/tmp/fb-walks-XXXXXX", cache[96], state[96];
static int started;

static char *read_doc(const char *name)
{
    const char *dir = getenv("FB_SRCDIR");
    char path[4200], *text = calloc(1, FILE_BYTES);
    snprintf(path, sizeof path, "%.4000s/docs/%s", dir ? dir : ".", name);
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("no %s", path);
    assert_true(fread(text, 1, FILE_BYTES - 1, f) < FILE_BYTES - 1);
    fclose(f);
    return text;
}

/* The next screen of the document: what stands between two fences. NULL where there is none. */
static const char *next_screen(char **at)
{
    char *from = strstr(*at, "\n```\n");
    if (!from) return NULL;
    from += 5;
    char *to = strstr(from, "\n```\n");
    assert_non_null(to);
    to[1] = '\0';
    *at = to + 5;
    return from;
}

static void must_become(term *t, const char *screen, const char *walk, int number)
{
    for (int ms = 0; ms < PATIENCE_MS; ms += LOOK_MS) {
        if (!strcmp(term_screen(t), screen)) return;
        term_rest(t, LOOK_MS, LOOK_MS);
    }
    fprintf(stderr, "%s\ninstead of\n%s", term_screen(t), screen);
    fail_msg("%s: screen %d is another one now; `make walks` writes it anew", walk, number);
}

static term *open_script(const char *script, int rows, int cols)
{
    const char *path = getenv("FUSEBOX");
    snprintf(state, sizeof state, "XDG_STATE_HOME=%s/state-%d", folder, started);
    return term_start(rows, cols, (const char *const[]){cache, state, NULL},
                      (const char *const[]){path ? path : "./fusebox", "--device", "replay:h200", script, NULL});
}

static void play(const char *name, int rows, int cols)
{
    char file[64], *steps, *screens, *at;
    int number = 0;
    term *t = NULL;
    started++; /* with nothing solved */
    snprintf(file, sizeof file, "%s.walk", name);
    steps = read_doc(file);
    snprintf(file, sizeof file, "walk_%s.md", name);
    at = screens = read_doc(file);
    for (char *line = strtok(steps, "\n"); line; line = strtok(NULL, "\n")) {
        if (strncmp(line, "! ", 2) != 0 && strncmp(line, "> ", 2) != 0) continue;
        if (*line == '!') {
            if (t) quit(t);
            t = open_script(line + 2, rows, cols);
        } else {
            term_keys(t, line + 2);
        }
        const char *screen = next_screen(&at);
        if (!screen) fail_msg("%s has no screen after \"%s\"", file, line);
        must_become(t, screen, file, ++number);
    }
    assert_null(next_screen(&at));
    if (t) quit(t);
    free(steps);
    free(screens);
}

static void a_student_solves_three_puzzlers(void **unused)
{
    (void)unused;
    play("student", 24, 80);
}

static void a_lecturer_shows_one_fusion(void **unused)
{
    (void)unused;
    play("lecturer", 40, 120);
}

static int make_folder(void **unused)
{
    (void)unused;
    return own_folder_of(folder, cache) ? 0 : -1;
}

static int drop_folder(void **unused)
{
    (void)unused;
    drop_tree(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_student_solves_three_puzzlers),
        cmocka_unit_test(a_lecturer_shows_one_fusion),
    };
    return cmocka_run_group_tests_name("walks", tests, make_folder, drop_folder);
}
