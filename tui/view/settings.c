/* Reads the settings file into themes, keys and switches, and says which line is wrong. */
#include "tui/view/settings.h"

#include "base/json.h"
#include "base/mem.h"
#include "tui/term/theme.h"
#include "tui/view/command.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONFIG_MAX = 1 << 20 };

static bool config_path(char to[PATH_MAX])
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n = -1;
    if (config && config[0] == '/')
        n = snprintf(to, PATH_MAX, "%s/fusebox/config", config);
    else if (home && home[0] == '/')
        n = snprintf(to, PATH_MAX, "%s/.config/fusebox/config", home);
    return n > 0 && n < PATH_MAX;
}

static char *next_word(char **rest)
{
    return strtok_r(NULL, " \t", rest);
}

static bool set_theme(fb_settings *c, char **rest, fb_error *err)
{
    const char *name = next_word(rest);
    (void)c;
    return (name && fb_theme_ask(name)) ||
           fb_fail(err, FB_ERR_INPUT, "no theme \"%s\": dark, light, mono or contrast", name ? name : "");
}

static bool set_colour(fb_settings *c, char **rest, fb_error *err)
{
    const char *role = next_word(rest), *number = next_word(rest);
    char *end = NULL;
    long colour = number ? strtol(number, &end, 10) : -1;
    (void)c;
    if (!number || *end || colour < 0 || colour > 255)
        return fb_fail(err, FB_ERR_INPUT, "color takes a role and a number from 0 to 255");
    return fb_theme_colour(role, (short)colour) || fb_fail(err, FB_ERR_INPUT, "no role \"%s\"", role);
}

static bool set_keys(fb_settings *c, char **rest, fb_error *err)
{
    const char *name = next_word(rest);
    fb_cmd command = name ? fb_cmd_find(name, strlen(name)) : FB_CMD_NONE;
    (void)c;
    if (command == FB_CMD_NONE) return fb_fail(err, FB_ERR_INPUT, "no command \"%s\"", name ? name : "");
    fb_cmd_clear_keys(command);
    for (const char *key; (key = next_word(rest));)
        if (!fb_cmd_add_key(command, key)) return fb_fail(err, FB_ERR_INPUT, "no key \"%s\"", key);
    return true;
}

static bool set_switch(bool *to, char **rest, fb_error *err)
{
    const char *word = next_word(rest);
    if (!word || (strcmp(word, "on") != 0 && strcmp(word, "off") != 0))
        return fb_fail(err, FB_ERR_INPUT, "on or off is expected");
    *to = !strcmp(word, "on");
    return true;
}

static bool set_mouse(fb_settings *c, char **rest, fb_error *err)
{
    return set_switch(&c->mouse, rest, err);
}

static bool set_reload(fb_settings *c, char **rest, fb_error *err)
{
    return set_switch(&c->reload, rest, err);
}

static bool set_auto(fb_settings *c, char **rest, fb_error *err)
{
    return set_switch(&c->automatic, rest, err);
}

static bool set_clipboard(fb_settings *c, char **rest, fb_error *err)
{
    return set_switch(&c->clipboard, rest, err);
}

static const struct {
    const char *name;
    bool (*set)(fb_settings *c, char **rest, fb_error *err);
} settings[] = {{"theme", set_theme},   {"color", set_colour}, {"key", set_keys},           {"mouse", set_mouse},
                {"reload", set_reload}, {"auto", set_auto},    {"clipboard", set_clipboard}};
enum { SETTINGS = sizeof settings / sizeof *settings };

static bool take_line(fb_settings *c, char *line, fb_error *err)
{
    char *rest = NULL;
    const char *name = strtok_r(line, " \t\r", &rest);
    if (!name || *name == '#') return true;
    for (int i = 0; i < SETTINGS; i++)
        if (!strcmp(settings[i].name, name)) return settings[i].set(c, &rest, err);
    return fb_fail(err, FB_ERR_INPUT, "no setting \"%s\": theme, color, key, mouse, reload, auto or clipboard", name);
}

bool fb_settings_parse(fb_settings *c, char *text, const char *path, fb_error *err)
{
    bool good = true;
    char *at = text;
    for (int number = 1; good && at && *at; number++) {
        char *end = strchr(at, '\n');
        if (end) *end = '\0';
        good = take_line(c, at, err) || fb_fail_prefix(err, "%s:%d", path, number);
        at = end ? end + 1 : NULL;
    }
    return good;
}

bool fb_settings_read(fb_settings *c, fb_error *err)
{
    char path[PATH_MAX];
    *c = (fb_settings){.mouse = true, .reload = true, .automatic = true, .clipboard = true};
    if (!config_path(path) || access(path, F_OK) != 0) return true;
    char *text = fb_read_file(path, CONFIG_MAX, NULL, err);
    bool good = text && fb_settings_parse(c, text, path, err);
    fb_free(text);
    return good;
}
