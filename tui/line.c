/* The command line at the bottom: running what was typed, completing it, finding rows. */
#include "base/json.h"
#include "plan/preset.h"
#include "tui/ui.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* ---- finding ---- */

static bool row_holds(fb_app *app, const fb_view *view, int row)
{
    fb_str text = {0};
    view->text(app, row, &text);
    bool holds = strcasestr(fb_str_get(&text), app->find) != NULL;
    fb_str_free(&text);
    return holds;
}

void fb_find(fb_app *app, int step)
{
    fb_view_id id = fb_app_view(app);
    const fb_view *view = fb_view_at(id);
    fb_scroll *scroll = &app->scroll[id];
    int n = view->count(app);
    bool found = false;
    if (!*app->find) {
        fb_app_say(app, FB_ROLE_WARN, "nothing was looked for yet: / does");
        return;
    }
    if (view->find) {
        found = view->find(app, app->find, step);
    } else if (view->text) {
        for (int k = 1; k <= n && !found; k++) {
            int row = ((scroll->cursor + step * k) % n + n) % n;
            if (row_holds(app, view, row)) {
                scroll->cursor = row;
                found = true;
            }
        }
    }
    if (!found) fb_app_say(app, FB_ROLE_WARN, "no row here holds \"%s\"", app->find);
}

/* ---- running ---- */

static bool is_number(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isdigit((unsigned char)s[i])) return false;
    return n > 0;
}

/* The only command that begins with what was typed, or FB_CMD_NONE. */
static fb_cmd only_one(const char *name, size_t n)
{
    fb_cmd found = FB_CMD_NONE;
    for (int c = 0; c < FB_COMMANDS && n; c++) {
        if (strncmp(fb_cmd_get((fb_cmd)c)->name, name, n) != 0) continue;
        if (found != FB_CMD_NONE) return FB_CMD_NONE;
        found = (fb_cmd)c;
    }
    return found;
}

void fb_line_run(fb_app *app, const char *line)
{
    line += strspn(line, " ");
    size_t n = strcspn(line, " ");
    const char *arg = line + n + strspn(line + n, " ");
    if (!n) return;
    if (is_number(line, n)) {
        char *number = fb_strdup(line);
        number[n] = '\0';
        fb_app_run(app, FB_CMD_COLUMN, number);
        fb_free(number);
        return;
    }
    fb_cmd c = fb_cmd_find(line, n);
    if (c == FB_CMD_NONE) c = only_one(line, n);
    if (c == FB_CMD_NONE) {
        fb_app_say(app, FB_ROLE_BAD, "no command \"%.*s\"; ? lists them", (int)n, line);
        return;
    }
    const fb_cmd_info *info = fb_cmd_get(c);
    char *clean = fb_strdup(arg);
    for (size_t end = strlen(clean); end && clean[end - 1] == ' ';) clean[--end] = '\0';
    if (*clean && !*info->args)
        fb_app_say(app, FB_ROLE_BAD, "%s takes nothing after it", info->name);
    else {
        app->by_prompt = true;
        fb_app_run(app, c, clean);
        app->by_prompt = false;
    }
    fb_free(clean);
}

/* ---- completing ---- */

typedef FB_VEC(const char *) words;

static void presets_and_plans(fb_app *app, words *w)
{
    const fb_script_info *info = fb_session_script(app->session);
    for (int i = 0; i < fb_presets(); i++) FB_VEC_PUSH(w, fb_preset_at(i)->name);
    if (!fb_puzzle_hides(app, FB_SEARCH_NAME)) FB_VEC_PUSH(w, FB_SEARCH_NAME);
    for (int i = 0; info && i < info->n_plans; i++) FB_VEC_PUSH(w, info->plans[i]);
}

static void devices(fb_app *app, words *w)
{
    size_t i;
    json_t *d;
    json_array_foreach((json_t *)fb_session_devices(app->session), i, d)
    {
        const char *name = fb_json_string_or(d, "device", NULL);
        if (name && !json_object_get(d, "missing")) FB_VEC_PUSH(w, name);
    }
}

static void words_after(fb_app *app, fb_cmd c, words *w)
{
    const fb_script_info *info = fb_session_script(app->session);
    switch (c) {
    case FB_CMD_PLAN:
    case FB_CMD_ADD: presets_and_plans(app, w); break;
    case FB_CMD_VARIANT:
        for (int k = 0; info && k < info->n_variants; k++) FB_VEC_PUSH(w, info->variants[k]);
        break;
    case FB_CMD_SET:
        for (int k = 0; info && k < info->n_params; k++) FB_VEC_PUSH(w, info->params[k].name);
        break;
    case FB_CMD_DEVICE: devices(app, w); break;
    case FB_CMD_LAUNCH:
        for (int m = FB_LAUNCH_STREAM; m <= FB_LAUNCH_MEGA; m++) FB_VEC_PUSH(w, fb_launch_mode_name((fb_launch_mode)m));
        break;
    case FB_CMD_OVERLAP:
        FB_VEC_PUSH(w, "on");
        FB_VEC_PUSH(w, "off");
        break;
    default: break;
    }
}

void fb_line_complete(fb_app *app)
{
    const char *line = fb_str_get(&app->prompt.text);
    size_t head = strcspn(line, " "), from = line[head] ? head + 1 : 0;
    words all = {0}, fit = {0};
    if (app->prompt.kind != ':' || app->prompt.at != app->prompt.text.n) return;
    const char *word = line + from;
    bool column = from && fb_cmd_find(line, head) == FB_CMD_ADD; /* [VARIANT:]PLAN[@DEVICE] */
    if (column && strchr(word, '@')) {
        word = strchr(word, '@') + 1;
        devices(app, &all);
    } else if (from) {
        words_after(app, fb_cmd_find(line, head), &all);
        if (column && strrchr(word, ':')) word = strrchr(word, ':') + 1;
    } else {
        for (int c = 0; c < FB_COMMANDS; c++) FB_VEC_PUSH(&all, fb_cmd_get((fb_cmd)c)->name);
    }
    for (int i = 0; i < all.n; i++)
        if (!strncmp(all.at[i], word, strlen(word))) FB_VEC_PUSH(&fit, all.at[i]);
    if (fit.n) {
        size_t common = strlen(fit.at[0]);
        for (int i = 1; i < fit.n; i++)
            for (size_t k = 0; k < common; k++)
                if (fit.at[i][k] != fit.at[0][k]) common = k;
        fb_str text = {0}, choices = {0};
        fb_str_add_n(&text, line, (size_t)(word - line));
        fb_str_add_n(&text, fit.at[0], common);
        bool takes = !from && fit.n == 1 && *fb_cmd_get(fb_cmd_find(fit.at[0], common))->args;
        if (takes) fb_str_add(&text, " ");
        for (int i = 0; i < fit.n; i++) fb_str_addf(&choices, "%s%s", i ? "  " : "", fit.at[i]);
        if (fit.n > 1) fb_app_say(app, FB_ROLE_DIM, "%s", fb_str_get(&choices));
        fb_prompt_replace(&app->prompt, fb_str_get(&text));
        fb_str_free(&text);
        fb_str_free(&choices);
    }
    FB_VEC_FREE(&all);
    FB_VEC_FREE(&fit);
}

const char *fb_line_ghost(fb_app *app)
{
    const char *line = fb_str_get(&app->prompt.text);
    size_t n = strlen(line);
    if (app->prompt.kind != ':' || !n || line[n - 1] != ' ') return "";
    fb_cmd c = fb_cmd_find(line, n - 1);
    return c == FB_CMD_NONE ? "" : fb_cmd_get(c)->args;
}

void fb_line_key(fb_app *app, int key)
{
    char kind = app->prompt.kind;
    if (key == FB_KEY_TAB) {
        fb_line_complete(app);
        return;
    }
    fb_str_clear(&app->message);
    switch (fb_prompt_key(&app->prompt, key)) {
    case FB_PROMPT_GOES_ON: return;
    case FB_PROMPT_LEFT: fb_prompt_close(&app->prompt, false); return;
    case FB_PROMPT_DONE: break;
    }
    char *typed = fb_strdup(fb_str_get(&app->prompt.text));
    fb_prompt_close(&app->prompt, true);
    if (kind == ':')
        fb_line_run(app, typed);
    else if (*typed)
        fb_app_run(app, FB_CMD_FIND, typed);
    fb_free(typed);
}
