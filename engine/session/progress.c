/* Reads the lines of answered puzzles and appends one an answer. A line that cannot be read is passed over. */
#include "session/progress.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "session/library.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { PROGRESS_MAX = 16 << 20 };
static const char file_name[] = "progress.jsonl";

void fb_session_puzzle_name(const char *path, char to[128])
{
    snprintf(to, 128, "%s", fb_file_name(path));
    size_t n = strlen(to);
    if (n > 4 && strcmp(to + n - 4, ".lua") == 0) to[n - 4] = '\0';
}

static void take(fb_arena *arena, fb_puzzles *p, const json_t *row)
{
    const char *name = fb_json_string_or(row, "puzzle", NULL);
    if (!name) return;
    fb_puzzle_state state = fb_json_bool_or(row, "right", false)     ? FB_PUZZLE_DONE
                            : fb_json_bool_or(row, "skipped", false) ? FB_PUZZLE_SKIPPED
                                                                     : FB_PUZZLE_TRIED;
    int i = 0;
    while (i < p->n && strcmp(p->at[i].name, name) != 0) i++;
    if (i == p->n) p->at[p->n++].name = fb_arena_strdup(arena, name);
    if (state > p->at[i].state) p->at[i].state = state;
}

void fb_puzzles_parse(fb_arena *arena, const char *text, size_t n, fb_puzzles *out)
{
    const char *at = text, *all = text + n;
    size_t lines = 0;
    for (size_t i = 0; i < n; i++) lines += text[i] == '\n';
    *out = (fb_puzzles){.at = fb_arena_array(arena, lines + 1, sizeof *out->at)};
    for (const char *end; (end = memchr(at, '\n', (size_t)(all - at))); at = end + 1) {
        json_t *row = fb_json_parse(at, (size_t)(end - at), NULL);
        take(arena, out, row);
        json_decref(row);
    }
}

void fb_puzzles_read(fb_arena *arena, fb_puzzles *out)
{
    char path[PATH_MAX];
    size_t n = 0;
    char *text = fb_state_path(file_name, path, sizeof path) ? fb_read_file(path, PROGRESS_MAX, &n, NULL) : NULL;
    fb_puzzles_parse(arena, text ? text : "", n, out);
    fb_free(text);
}

fb_puzzle_state fb_puzzles_of(const fb_puzzles *p, const char *script_path)
{
    char name[128];
    fb_session_puzzle_name(script_path, name);
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->at[i].name, name) == 0) return p->at[i].state;
    return FB_PUZZLE_NEW;
}

void fb_puzzles_add(const char *script_path, json_t *line)
{
    char path[PATH_MAX], name[128];
    fb_session_puzzle_name(script_path, name);
    json_object_set_new(line, "puzzle", json_string(name));
    if (fb_state_path(file_name, path, sizeof path)) fb_append_line(path, line, NULL);
}
