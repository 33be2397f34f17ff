/* The settings file, and the files of state that one run leaves to the next. */
#include "fuzz/decoders.h"
#include "fuzz/must.h"

#include "base/json.h"
#include "session/library.h"
#include "session/progress.h"
#include "session/results.h"
#include "tui/view/command.h"
#include "tui/view/keep.h"
#include "tui/view/prompt.h"
#include "tui/view/settings.h"
#include "tui/view/tried.h"

/* Keys are the process's: they are taken away first, so that a run depends on its bytes alone. What a command has after
 * that are keys that can be read, and that do it. */
void run_config(const uint8_t *bytes, size_t n)
{
    fb_error err = {0};
    fb_settings c = {.mouse = true, .reload = true, .automatic = true, .clipboard = true};
    char *text = text_of(bytes, n);
    for (int i = 0; i < FB_COMMANDS; i++) fb_cmd_clear_keys((fb_cmd)i);
    if (!fb_settings_parse(&c, text, "config", &err)) {
        check_error(&err);
        MUST(strncmp(err.text, "config:", 7) == 0);
    }
    for (int i = 0; i < FB_COMMANDS; i++)
        for (const char *key = fb_cmd_get((fb_cmd)i)->keys; *key;) {
            size_t length = strcspn(key, " ");
            MUST(length && fb_key_parse(key, length) != FB_KEY_NONE);
            MUST(fb_cmd_of_key(fb_key_parse(key, length)) == (fb_cmd)i);
            key += length + strspn(key + length, " ");
        }
    fb_free(text);
}

static void run_progress(const char *text, size_t n)
{
    fb_arena *arena = fb_arena_new();
    fb_puzzles p;
    fb_puzzles_parse(arena, text, n, &p);
    for (int i = 0; i < p.n; i++) {
        MUST(p.at[i].name && p.at[i].state >= FB_PUZZLE_SKIPPED && p.at[i].state <= FB_PUZZLE_DONE);
        fb_puzzles_of(&p, p.at[i].name);
    }
    fb_arena_free(arena);
}

/* A row that holds a plan is not looked at further: the plan would be written to a file. */
static void run_history(const char *text, size_t n)
{
    fb_error err = {0};
    fb_results *r = fb_results_parse(text, n, "history", true, &err);
    MUST(r);
    for (int i = 0; i < fb_results_rows(r); i++) {
        const json_t *row = fb_results_row(r, i);
        fb_str spec = {0};
        if (!json_object_get(row, "edited") && !fb_tried_spec(row, &spec, &err)) check_error(&err);
        fb_str_free(&spec);
    }
    fb_results_close(r);
}

static void run_commands(char *text)
{
    fb_prompt p = {0};
    int lines = fb_past_parse(&p, text);
    MUST(p.past.n <= lines && p.past.n <= FB_PROMPT_PAST);
    fb_prompt_free(&p);
}

static void run_columns(const char *text, size_t n)
{
    fb_error err = {0};
    json_t *all = fb_keep_parse(text, n, &err);
    if (!all) check_error(&err);
    MUST(!all || json_is_array(json_object_get(all, "columns")));
    json_decref(all);
}

static void run_recent(char *text)
{
    fb_arena *arena = fb_arena_new();
    const char **list;
    int n = fb_recent_parse(arena, text, &list);
    for (int i = 0; i < n; i++) MUST(*list[i] && !strchr(list[i], '\n'));
    fb_arena_free(arena);
}

/* What was agreed to is found again by its whole line, and by nothing less. */
static void run_trusted(const char *text)
{
    char line[80];
    size_t n = strcspn(text, "\n");
    if (!n || n >= sizeof line) return;
    snprintf(line, sizeof line, "%.*s", (int)n, text);
    MUST(fb_state_has_line(text, line));
    line[n - 1] = '\x01';
    if (!strchr(text, '\x01')) MUST(!fb_state_has_line(text, line));
}

/* The first byte says which file. */
void run_state(const uint8_t *bytes, size_t n)
{
    if (!n) return;
    char *text = text_of(bytes + 1, n - 1);
    switch (bytes[0] % 6) {
    case 0: run_progress(text, n - 1); break;
    case 1: run_history(text, n - 1); break;
    case 2: run_commands(text); break;
    case 3: run_columns(text, n - 1); break;
    case 4: run_recent(text); break;
    default: run_trusted(text); break;
    }
    fb_free(text);
}
