/* The lists of `fusebox` alone: bundled scripts from the binary, what was opened lately from a file of the user's. */
#include "session/library.h"

#include "base/embedded.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "session/names.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECENT = 20, TEXT_MAX = 1 << 20 };

static const char *const kinds[] = {"puzzlers", "models", "lessons"};

/* ---- bundled scripts ---- */

/* The text between the quotes of the first `title = "…"`, which is where every bundled script has it. */
static const char *title_of(const char *text, const char *otherwise, fb_arena *arena)
{
    const char *p = strstr(text, "title");
    p = p ? strchr(p, '"') : NULL;
    const char *end = p ? strpbrk(p + 1, "\"\n") : NULL;
    if (!end || *end != '"') return otherwise;
    return fb_arena_printf(arena, "%.*s", (int)(end - p - 1), p + 1);
}

/* The number after the puzzle's `order = `, which every bundled one has. */
static int order_of(const char *text)
{
    const char *puzzle = strstr(text, "\n  puzzle = {"), *order = puzzle ? strstr(puzzle, "\n    order = ") : NULL;
    return order ? atoi(order + strlen("\n    order = ")) : 0;
}

static int by_order(const void *a, const void *b)
{
    const fb_bundled *x = a, *y = b;
    int left = x->order ? x->order : INT_MAX, right = y->order ? y->order : INT_MAX;
    return left != right ? (left > right) - (left < right) : strcmp(x->name, y->name);
}

static bool bundled(const fb_embedded_file *f, const char *kind, fb_arena *arena, fb_bundled *out)
{
    char folder[64];
    int n = snprintf(folder, sizeof folder, "scripts/%s/", kind);
    size_t end = strlen(f->path);
    if (strncmp(f->path, folder, (size_t)n) != 0 || end < 4 || strcmp(f->path + end - 4, ".lua") != 0) return false;
    const char *name = fb_arena_printf(arena, "%.*s", (int)(end - 4 - (size_t)n), f->path + n);
    *out = (fb_bundled){.path = f->path,
                        .name = name,
                        .kind = kind,
                        .title = title_of(f->text, name, arena),
                        .text = f->text,
                        .order = order_of(f->text)};
    return true;
}

int fb_bundled_list(fb_arena *arena, const fb_bundled **out)
{
    int room = 0, n = 0;
    for (const fb_embedded_file *f = fb_embedded_files; f->path; f++) room++;
    fb_bundled *list = FB_NEW_ARRAY(arena, fb_bundled, room);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        int first = n;
        for (const fb_embedded_file *f = fb_embedded_files; f->path; f++)
            if (bundled(f, kinds[k], arena, &list[n])) n++;
        qsort(list + first, (size_t)(n - first), sizeof *list, by_order);
    }
    *out = list;
    return n;
}

int fb_session_puzzle_place(const char *script_path, int *of, const char **next, fb_arena *arena)
{
    const fb_bundled *list;
    int n = fb_bundled_list(arena, &list), place = 0;
    *of = 0;
    *next = NULL;
    for (int i = 0; i < n; i++) {
        if (!list[i].order) continue;
        ++*of;
        if (place && !*next) *next = list[i].path;
        if (script_path && !strcmp(fb_file_name(script_path), fb_file_name(list[i].path))) place = *of;
    }
    if (!place) *next = NULL;
    return place;
}

static bool is_called(const fb_bundled *b, const char *typed)
{
    char with_kind[256];
    snprintf(with_kind, sizeof with_kind, "%s/%s", b->kind, b->name);
    return strcmp(typed, b->name) == 0 || strcmp(typed, with_kind) == 0 || strcmp(typed, b->path) == 0;
}

static const char *find_bundled(const char *typed, int why, fb_arena *arena, fb_error *err)
{
    const fb_bundled *list;
    int n = fb_bundled_list(arena, &list);
    const char **names = FB_NEW_ARRAY(arena, const char *, n);
    for (int i = 0; i < n; i++) {
        if (is_called(&list[i], typed)) return list[i].path;
        names[i] = list[i].name;
    }
    const char *near = strchr(typed, '/') ? NULL : fb_nearest(typed, names, n);
    fb_fail(err, FB_ERR_INPUT, "%s: %s%s%s%s", typed, why ? strerror(why) : "not a regular file",
            near ? "; did you mean the bundled script \"" : "", near ? near : "", near ? "\"?" : "");
    return NULL;
}

const char *fb_find_bundled(const char *typed, fb_arena *arena, fb_error *err)
{
    return find_bundled(typed, ENOENT, arena, err);
}

const char *fb_find_script(const char *typed, fb_arena *arena, fb_error *err)
{
    struct stat st;
    bool exists = stat(typed, &st) == 0;
    if (exists && S_ISREG(st.st_mode)) return fb_arena_strdup(arena, typed);
    return find_bundled(typed, exists ? (S_ISDIR(st.st_mode) ? EISDIR : 0) : errno, arena, err);
}

char *fb_session_script_text(const char *path)
{
    char *text = fb_read_file(path, TEXT_MAX, NULL, NULL);
    if (text) return text;
    const char *embedded = fb_embedded(path);
    return embedded ? fb_strdup(embedded) : NULL;
}

/* ---- the scripts of a lesson's pages ---- */

static bool is_plain(const char *name)
{
    if (!*name || *name == '/' || strlen(name) > 200 || strstr(name, "..")) return false;
    for (const char *c = name; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./", *c)) return false;
    return true;
}

const char *fb_session_lesson_script(const char *lesson, const char *name, fb_arena *arena, fb_error *err)
{
    static const char *const endings[] = {"", ".lua"};
    const char *slash = strrchr(lesson, '/');
    struct stat st;
    if (!is_plain(name)) {
        fb_fail(err, FB_ERR_INPUT,
                "script \"%.100s\": scripts are named relative to the lesson's folder, without \"..\"", name);
        return NULL;
    }
    for (size_t i = 0; i < sizeof endings / sizeof *endings && stat(lesson, &st) == 0; i++) {
        const char *path =
            fb_arena_printf(arena, "%.*s%s%s", (int)(slash ? slash - lesson + 1 : 0), lesson, name, endings[i]);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) return path;
    }
    return fb_find_bundled(name, arena, err);
}

/* ---- the user's state ---- */

/* NAME in fusebox's own folder below the one that `variable` names, or `usual` below the user's. */
static bool user_path(const char *variable, const char *usual, const char *name, char *to, size_t room, fb_error *err)
{
    const char *given = getenv(variable), *home = getenv("HOME");
    char folder[PATH_MAX];
    int n;
    if (given && given[0] == '/')
        n = snprintf(folder, sizeof folder, "%s/fusebox", given);
    else if (home && home[0] == '/')
        n = snprintf(folder, sizeof folder, "%s/%s/fusebox", home, usual);
    else
        return false;
    if (n >= (int)sizeof folder - 32 || !fb_private_folder(folder, err)) return false;
    return snprintf(to, room, "%s/%s", folder, name) < (int)room;
}

bool fb_state_path(const char *name, char *to, size_t room)
{
    return user_path("XDG_STATE_HOME", ".local/state", name, to, room, NULL);
}

bool fb_data_path(const char *name, char *to, size_t room)
{
    return user_path("XDG_DATA_HOME", ".local/share", name, to, room, NULL);
}

bool fb_state_usable(fb_error *err)
{
    char path[PATH_MAX];
    return user_path("XDG_STATE_HOME", ".local/state", "", path, sizeof path, err);
}

bool fb_state_has_line(const char *text, const char *line)
{
    size_t n = strlen(line);
    for (const char *at = text; at && *at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
        if (strncmp(at, line, n) == 0 && (at[n] == '\n' || !at[n])) return true;
    return false;
}

bool fb_append_line(const char *path, const json_t *value, fb_error *err)
{
    char *text = fb_json_line(value);
    bool good = fb_file_append(path, 0, text, err);
    fb_free(text);
    return good;
}

/* ---- recent files ---- */

int fb_recent_parse(fb_arena *arena, char *text, const char ***out)
{
    const char **list = FB_NEW_ARRAY(arena, const char *, RECENT);
    int n = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line && n < RECENT; line = strtok_r(NULL, "\n", &rest))
        list[n++] = fb_arena_strdup(arena, line);
    *out = list;
    return n;
}

static int read_recent(fb_arena *arena, const char ***out)
{
    char path[PATH_MAX], none[1] = "";
    char *text = fb_state_path("recent", path, sizeof path) ? fb_read_file(path, TEXT_MAX, NULL, NULL) : NULL;
    int n = fb_recent_parse(arena, text ? text : none, out);
    fb_free(text);
    return n;
}

int fb_recent_list(fb_arena *arena, const char ***out)
{
    int all = read_recent(arena, out), n = 0;
    for (int i = 0; i < all; i++)
        if (access((*out)[i], R_OK) == 0) (*out)[n++] = (*out)[i];
    return n;
}

void fb_recent_add(const char *path)
{
    char whole[PATH_MAX], file[PATH_MAX];
    if (!realpath(path, whole) || strchr(whole, '\n') || !fb_state_path("recent", file, sizeof file)) return;
    fb_arena *arena = fb_arena_new();
    const char **list;
    int n = read_recent(arena, &list);
    fb_str text = {0};
    fb_str_addf(&text, "%s\n", whole);
    for (int i = 0; i < n && i < RECENT - 1; i++)
        if (strcmp(list[i], whole) != 0) fb_str_addf(&text, "%s\n", list[i]);
    fb_write_file(file, text.text, text.n, NULL);
    fb_str_free(&text);
    fb_arena_free(arena);
}
