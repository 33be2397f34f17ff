/* commands.def as a table, names of keys, and the user's own keys over it. */
#include "tui/view/command.h"

#include <ncurses.h>
#include <stdio.h>
#include <string.h>

static fb_cmd_info table[FB_COMMANDS] = {
/* but for keys of the user's own never changed */
#define COMMAND(ID, SECTION, NAME, KEYS, HINT, NEEDS, ARGS, HELP)                                                      \
    [FB_CMD_##ID] = {.section = FB_SECTION_##SECTION,                                                                  \
                     .name = NAME,                                                                                     \
                     .keys = KEYS,                                                                                     \
                     .hint = HINT,                                                                                     \
                     .args = ARGS,                                                                                     \
                     .help = HELP,                                                                                     \
                     .needs = NEEDS},
#include "tui/view/commands.def"
#undef COMMAND
};

static const struct {
    const char *name;
    int key;
    int curses; /* KEY_…; 0 for characters */
} names[] = {
    {"Up", FB_KEY_UP, KEY_UP},
    {"Down", FB_KEY_DOWN, KEY_DOWN},
    {"Left", FB_KEY_LEFT, KEY_LEFT},
    {"Right", FB_KEY_RIGHT, KEY_RIGHT},
    {"PgUp", FB_KEY_PAGE_UP, KEY_PPAGE},
    {"PgDn", FB_KEY_PAGE_DOWN, KEY_NPAGE},
    {"Home", FB_KEY_HOME, KEY_HOME},
    {"End", FB_KEY_END, KEY_END},
    {"S-Tab", FB_KEY_BACK_TAB, KEY_BTAB},
    {"Delete", FB_KEY_DELETE, KEY_DC},
    {"Backspace", FB_KEY_BACKSPACE, KEY_BACKSPACE},
    {"F1", FB_KEY_F1, KEY_F(1)},
    {"F2", FB_KEY_F2, KEY_F(2)},
    {"F3", FB_KEY_F3, KEY_F(3)},
    {"F4", FB_KEY_F4, KEY_F(4)},
    {"F5", FB_KEY_F5, KEY_F(5)},
    {"F6", FB_KEY_F6, KEY_F(6)},
    {"F7", FB_KEY_F7, KEY_F(7)},
    {"Enter", FB_KEY_ENTER, KEY_ENTER},
    {"Esc", FB_KEY_ESC, 0},
    {"Tab", FB_KEY_TAB, 0},
    {"Space", ' ', 0},
};
enum { NAMES = sizeof names / sizeof *names };

const fb_cmd_info *fb_cmd_get(fb_cmd c)
{
    return &table[c];
}

const char *fb_command_section_name(fb_section s)
{
    static const char *const text[FB_SECTIONS] = {
        [FB_SECTION_EDIT] = "Fusing and cutting",
        [FB_SECTION_COLUMNS] = "Columns",
        [FB_SECTION_MOVE] = "Moving about",
        [FB_SECTION_VIEW] = "Views",
    };
    return text[s];
}

fb_cmd fb_cmd_find(const char *name, size_t n)
{
    for (int c = 0; c < FB_COMMANDS; c++)
        if (strlen(table[c].name) == n && !strncmp(table[c].name, name, n)) return (fb_cmd)c;
    return FB_CMD_NONE;
}

int fb_key_parse(const char *name, size_t n)
{
    if (n == 1) return (unsigned char)*name;
    if (n == 3 && name[0] == 'C' && name[1] == '-' && name[2] >= 'a' && name[2] <= 'z') return name[2] - 'a' + 1;
    for (int i = 0; i < NAMES; i++)
        if (strlen(names[i].name) == n && !strncmp(names[i].name, name, n)) return names[i].key;
    return FB_KEY_NONE;
}

int fb_key_of_curses(bool code, unsigned value)
{
    if (code && value == KEY_MOUSE) return FB_KEY_MOUSE;
    if (!code) return value == 127 || value == 8 ? FB_KEY_BACKSPACE : value == '\n' ? FB_KEY_ENTER : (int)value;
    for (int i = 0; i < NAMES; i++)
        if (names[i].curses && (unsigned)names[i].curses == value) return names[i].key;
    return FB_KEY_NONE;
}

static char own_keys[FB_COMMANDS][64];

/* The command's keys without one of them. */
static void take_key(fb_cmd c, int key)
{
    char kept[sizeof own_keys[0]] = "";
    bool found = false;
    for (const char *p = table[c].keys; *p;) {
        size_t n = strcspn(p, " "), at = strlen(kept);
        if (fb_key_parse(p, n) == key)
            found = true;
        else if (at + n + 2 < sizeof kept)
            snprintf(kept + at, sizeof kept - at, "%s%.*s", at ? " " : "", (int)n, p);
        p += n + strspn(p + n, " ");
    }
    if (!found) return;
    memcpy(own_keys[c], kept, sizeof kept);
    table[c].keys = own_keys[c];
}

void fb_cmd_clear_keys(fb_cmd c)
{
    own_keys[c][0] = '\0';
    table[c].keys = own_keys[c];
}

bool fb_cmd_add_key(fb_cmd c, const char *name)
{
    int key = fb_key_parse(name, strlen(name));
    char all[sizeof own_keys[0]];
    if (key == FB_KEY_NONE || strlen(table[c].keys) + strlen(name) + 2 > sizeof all) return false;
    for (int other = 0; other < FB_COMMANDS; other++) take_key((fb_cmd)other, key);
    snprintf(all, sizeof all, "%s%s%s", table[c].keys, *table[c].keys ? " " : "", name);
    memcpy(own_keys[c], all, sizeof all);
    table[c].keys = own_keys[c];
    return true;
}

fb_cmd fb_cmd_of_key(int key)
{
    for (int c = 0; c < FB_COMMANDS; c++)
        for (const char *p = table[c].keys; *p;) {
            size_t n = strcspn(p, " ");
            if (fb_key_parse(p, n) == key) return (fb_cmd)c;
            p += n + strspn(p + n, " ");
        }
    return FB_CMD_NONE;
}
