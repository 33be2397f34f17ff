/* Tab at the prompt: commands, what they take, and files. As far as all words agree that fit; several are shown. */
#include "base/json.h"
#include "base/vec.h"
#include "decide/preset.h"
#include "session/library.h"
#include "tui/view/ui.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Words to choose from: those that begin with what is typed. */
typedef struct {
    const char *typed;
    FB_VEC(char *) fit;
    bool files;
} words;

static void offer(words *w, const char *word)
{
    if (!strncmp(word, w->typed, strlen(w->typed))) FB_VEC_PUSH(&w->fit, fb_strdup(word));
}

/* ---- what there is ---- */

static void presets_and_plans(fb_app *app, words *w)
{
    const fb_script_info *info = fb_session_script(app->session);
    for (int i = 0; i < fb_presets_all(); i++) offer(w, fb_preset_at(i)->name);
    if (!fb_puzzle_hides(app, FB_SEARCH_NAME)) offer(w, FB_SEARCH_NAME);
    for (int i = 0; info && i < info->n_plans; i++) offer(w, info->plans[i]);
}

static void devices(fb_app *app, words *w)
{
    size_t i;
    json_t *d;
    json_array_foreach((json_t *)fb_session_devices(app->session), i, d)
    {
        const char *name = fb_json_string_or(d, "device", NULL);
        if (name && !json_object_get(d, "missing")) offer(w, name);
    }
}

static void bundled(words *w)
{
    fb_arena *arena = fb_arena_new();
    const fb_bundled *list;
    int n = fb_bundled_list(arena, &list);
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].kind, "lib") != 0) offer(w, list[i].name);
    fb_arena_free(arena);
}

static bool ends_in(const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);
    return n > m && !strcmp(name + n - m, ending);
}

/* Folders, and files of one of the endings (blank-separated; "": any). Hidden ones are offered to who types the dot. */
static void files(words *w, const char *endings)
{
    enum { MOST = 2000 };
    const char *slash = strrchr(w->typed, '/');
    size_t n = slash ? (size_t)(slash - w->typed) + 1 : 0;
    char folder[PATH_MAX];
    struct dirent *entry;
    snprintf(folder, sizeof folder, "%.*s", (int)n, w->typed);
    DIR *dir = opendir(n ? folder : ".");
    for (int seen = 0; dir && seen < MOST && (entry = readdir(dir)); seen++) {
        char path[PATH_MAX];
        struct stat st;
        bool fits = !*endings, hidden = entry->d_name[0] == '.' && w->typed[n] != '.';
        int length = snprintf(path, sizeof path, "%s%s", folder, entry->d_name);
        if (hidden || length < 0 || length >= (int)sizeof path - 1) continue;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") || stat(path, &st) != 0) continue;
        for (const char *e = endings; *e && !fits; e += strcspn(e, " ") + strspn(e + strcspn(e, " "), " ")) {
            char one[16];
            snprintf(one, sizeof one, "%.*s", (int)strcspn(e, " "), e);
            fits = ends_in(entry->d_name, one);
        }
        if (S_ISDIR(st.st_mode)) memcpy(path + length, "/", 2);
        if (fits || S_ISDIR(st.st_mode)) offer(w, path);
    }
    if (dir) closedir(dir);
    w->files = true;
}

static void nodes(fb_app *app, words *w)
{
    const fb_graph *g = app->model.outline ? app->model.outline->graph : NULL;
    for (int i = 0; g && i < g->n_nodes; i++)
        if (app->model.outline->entry_of[i] != FB_NONE) offer(w, g->nodes[i].name);
}

static void words_after(fb_app *app, fb_cmd c, words *w)
{
    const fb_script_info *info = fb_session_script(app->session);
    switch (c) {
    case FB_CMD_PLAN:
        presets_and_plans(app, w);
        if (*w->typed) files(w, ".json");
        break;
    case FB_CMD_ADD: presets_and_plans(app, w); break;
    case FB_CMD_VARIANT:
        for (int k = 0; info && k < info->n_variants; k++) offer(w, info->variants[k]);
        break;
    case FB_CMD_SET:
        for (int k = 0; info && k < info->n_params; k++) offer(w, info->params[k].name);
        break;
    case FB_CMD_DEVICE: devices(app, w); break;
    case FB_CMD_LAUNCH:
        for (int m = FB_LAUNCH_STREAM; m <= FB_LAUNCH_MEGA; m++) offer(w, fb_launch_mode_name((fb_launch_mode)m));
        break;
    case FB_CMD_OVERLAP:
    case FB_CMD_ROLL:
        offer(w, "on");
        offer(w, "off");
        break;
    case FB_CMD_THEME:
        for (int t = 0; t < FB_THEMES; t++) offer(w, fb_theme_name((fb_theme)t));
        break;
    case FB_CMD_ANSWERS:
        offer(w, "show");
        offer(w, "hide");
        break;
    case FB_CMD_VALUES: nodes(app, w); break;
    case FB_CMD_OPEN:
        bundled(w);
        files(w, ".lua .json");
        break;
    case FB_CMD_HISTORY: files(w, ".jsonl"); break;
    case FB_CMD_SAVE:
    case FB_CMD_EXPORT:
    case FB_CMD_LUA:
    case FB_CMD_EJECT:
    case FB_CMD_YANK: files(w, ""); break;
    default: break;
    }
}

/* ---- the line ---- */

static int in_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Files are shown without the folder that all of them lie in. */
static void show(fb_app *app, const words *w)
{
    enum { MOST = 400 };
    fb_str all = {0};
    const char *slash = w->files ? strrchr(w->typed, '/') : NULL;
    size_t skip = slash ? (size_t)(slash - w->typed) + 1 : 0;
    for (int i = 0; i < w->fit.n && all.n < MOST; i++) fb_str_addf(&all, "%s%s", i ? "  " : "", w->fit.at[i] + skip);
    if (all.n >= MOST) fb_str_add(&all, " …");
    fb_app_say(app, FB_ROLE_DIM, "%s", fb_str_get(&all));
    fb_str_free(&all);
}

static void complete(fb_app *app, const words *w, const char *line, bool command)
{
    size_t common = strlen(w->fit.at[0]);
    for (int i = 1; i < w->fit.n; i++)
        for (size_t k = 0; k < common; k++)
            if (w->fit.at[i][k] != w->fit.at[0][k]) common = k;
    fb_str text = {0};
    fb_str_add_n(&text, line, (size_t)(w->typed - line));
    fb_str_add_n(&text, w->fit.at[0], common);
    if (command && w->fit.n == 1 && *fb_cmd_get(fb_cmd_find(w->fit.at[0], common))->args) fb_str_add(&text, " ");
    if (w->fit.n > 1) show(app, w);
    fb_prompt_replace(&app->prompt, fb_str_get(&text));
    fb_str_free(&text);
}

void fb_line_complete(fb_app *app)
{
    if (app->prompt.kind != ':' || app->prompt.at != app->prompt.text.n) return;
    char *line = fb_strdup(fb_str_get(&app->prompt.text));
    size_t head = strcspn(line, " "), from = line[head] ? head + 1 : 0;
    words w = {.typed = line + from};
    bool column = from && fb_cmd_find(line, head) == FB_CMD_ADD; /* [VARIANT:]PLAN[@DEVICE] */
    if (column && strchr(w.typed, '@')) {
        w.typed = strchr(w.typed, '@') + 1;
        devices(app, &w);
    } else if (from) {
        if (column && strrchr(w.typed, ':')) w.typed = strrchr(w.typed, ':') + 1;
        words_after(app, fb_cmd_find(line, head), &w);
    } else {
        for (int c = 0; c < FB_COMMANDS; c++) offer(&w, fb_cmd_get((fb_cmd)c)->name);
    }
    if (w.files && w.fit.n) qsort(w.fit.at, (size_t)w.fit.n, sizeof *w.fit.at, in_order);
    if (w.fit.n) complete(app, &w, line, !from);
    for (int i = 0; i < w.fit.n; i++) fb_free(w.fit.at[i]);
    FB_VEC_FREE(&w.fit);
    fb_free(line);
}
