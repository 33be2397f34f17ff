/* Roles to colours and attributes, by theme, terminal and the user's settings. */
#include "tui/term/theme.h"

#include <ncurses.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    short dark, light,
        few;        /* colour numbers of a 256-colour terminal for both themes, and of one with 8; -1: default */
    unsigned attrs; /* with colours */
    unsigned mono;
} fb_style;

static fb_style styles[FB_ROLES] = {
    [FB_ROLE_TEXT] = {-1, -1, -1, 0, 0},
    [FB_ROLE_DIM] = {245, 243, -1, 0, 0},
    [FB_ROLE_TITLE] = {252, 238, -1, A_BOLD, A_BOLD},
    [FB_ROLE_STRONG] = {-1, -1, -1, A_BOLD, A_BOLD},
    [FB_ROLE_FRAME] = {240, 249, -1, 0, 0},
    [FB_ROLE_FOCUS] = {110, 25, COLOR_CYAN, A_BOLD, A_BOLD},
    [FB_ROLE_KEY] = {180, 94, COLOR_YELLOW, 0, A_BOLD},
    [FB_ROLE_OFF] = {239, 250, -1, 0, 0},
    [FB_ROLE_GOOD] = {114, 28, COLOR_GREEN, 0, 0},
    [FB_ROLE_BAD] = {203, 160, COLOR_RED, 0, A_BOLD},
    [FB_ROLE_WARN] = {221, 130, COLOR_YELLOW, 0, A_BOLD},
    [FB_ROLE_PREDICTED] = {244, 244, -1, 0, 0},
    [FB_ROLE_TIME] = {74, 31, COLOR_CYAN, 0, 0},
    [FB_ROLE_BYTES] = {137, 137, COLOR_MAGENTA, 0, 0},
    [FB_ROLE_COMMENT] = {108, 65, COLOR_GREEN, 0, 0},
    [FB_ROLE_WORD] = {110, 25, COLOR_CYAN, 0, 0},
    [FB_ROLE_GROUP] = {75, 26, COLOR_BLUE, 0, 0},
    [FB_ROLE_GROUP + 1] = {114, 28, COLOR_GREEN, 0, 0},
    [FB_ROLE_GROUP + 2] = {215, 130, COLOR_YELLOW, 0, 0},
    [FB_ROLE_GROUP + 3] = {176, 90, COLOR_MAGENTA, 0, 0},
    [FB_ROLE_GROUP + 4] = {80, 30, COLOR_CYAN, 0, 0},
    [FB_ROLE_GROUP + 5] = {210, 124, COLOR_RED, 0, 0},
    [FB_ROLE_GROUP + 6] = {186, 100, COLOR_WHITE, 0, 0},
    [FB_ROLE_GROUP + 7] = {147, 61, COLOR_BLUE, 0, 0},
};

static const char *const theme_names[FB_THEMES] = {
    [FB_THEME_DARK] = "dark", [FB_THEME_LIGHT] = "light", [FB_THEME_MONO] = "mono", [FB_THEME_CONTRAST] = "contrast"};

static const char *const role_names[FB_ROLES] = {
    [FB_ROLE_TEXT] = "text",        [FB_ROLE_DIM] = "dim",          [FB_ROLE_TITLE] = "title",
    [FB_ROLE_STRONG] = "strong",    [FB_ROLE_FRAME] = "frame",      [FB_ROLE_FOCUS] = "focus",
    [FB_ROLE_KEY] = "key",          [FB_ROLE_OFF] = "off",          [FB_ROLE_GOOD] = "good",
    [FB_ROLE_BAD] = "bad",          [FB_ROLE_WARN] = "warn",        [FB_ROLE_PREDICTED] = "predicted",
    [FB_ROLE_TIME] = "time",        [FB_ROLE_BYTES] = "bytes",      [FB_ROLE_COMMENT] = "comment",
    [FB_ROLE_WORD] = "word",        [FB_ROLE_GROUP] = "group1",     [FB_ROLE_GROUP + 1] = "group2",
    [FB_ROLE_GROUP + 2] = "group3", [FB_ROLE_GROUP + 3] = "group4", [FB_ROLE_GROUP + 4] = "group5",
    [FB_ROLE_GROUP + 5] = "group6", [FB_ROLE_GROUP + 6] = "group7", [FB_ROLE_GROUP + 7] = "group8",
};

static struct {
    int asked; /* a theme and one more; 0: none */
    fb_theme theme;
    int colours;
    bool grounds; /* the terminal has greys to put behind the cursor's row */
} now = {.theme = FB_THEME_MONO};

static bool background_is_light(void)
{
    /* "15;0": foreground;background, set by rxvt, konsole and others. */
    const char *hint = getenv("COLORFGBG"), *last = hint ? strrchr(hint, ';') : NULL;
    return last && (!strcmp(last + 1, "15") || !strcmp(last + 1, "7"));
}

static bool colourless(int colours)
{
    const char *no = getenv("NO_COLOR");
    return (no && *no) || colours < 8;
}

const char *fb_theme_name(fb_theme theme)
{
    return theme_names[theme];
}

fb_theme fb_theme_choose(int colours)
{
    const char *asked = getenv("FUSEBOX_THEME");
    if (colourless(colours)) return FB_THEME_MONO;
    for (int t = 0; asked && t < FB_THEMES; t++)
        if (!strcmp(asked, theme_names[t])) return (fb_theme)t;
    if (now.asked) return (fb_theme)(now.asked - 1);
    return background_is_light() ? FB_THEME_LIGHT : FB_THEME_DARK;
}

bool fb_theme_ask(const char *name)
{
    for (int t = 0; t < FB_THEMES; t++)
        if (!strcmp(name, theme_names[t])) now.asked = t + 1;
    return now.asked && !strcmp(name, theme_names[now.asked - 1]);
}

bool fb_theme_colour(const char *role, short colour)
{
    for (int r = 0; r < FB_ROLES; r++) {
        if (strcmp(role, role_names[r]) != 0) continue;
        styles[r].dark = styles[r].light = colour;
        if (colour < 8) styles[r].few = colour;
        return true;
    }
    return false;
}

static short pair_of(fb_role role, fb_ground ground)
{
    return (short)(1 + (int)role * FB_GROUNDS + (int)ground);
}

void fb_theme_start(fb_theme theme, int colours)
{
    static const short dark[FB_GROUNDS] = {-1, 236, 58}, light[FB_GROUNDS] = {-1, 254, 229};
    now.theme = theme;
    now.colours = colours;
    now.grounds =
        theme != FB_THEME_MONO && theme != FB_THEME_CONTRAST && colours >= 256 && COLOR_PAIRS > FB_ROLES * FB_GROUNDS;
    if (theme == FB_THEME_MONO) return;
    for (int r = 0; r < FB_ROLES; r++) {
        const fb_style *s = &styles[r];
        for (int g = 0; g < FB_GROUNDS; g++) {
            short fore = !now.grounds ? s->few : theme == FB_THEME_DARK ? s->dark : s->light;
            short back = !now.grounds ? -1 : theme == FB_THEME_DARK ? dark[g] : light[g];
            if (now.grounds || g == FB_GROUND_PLAIN) init_pair(pair_of((fb_role)r, (fb_ground)g), fore, back);
        }
    }
}

fb_theme fb_theme_now(void)
{
    return now.theme;
}

bool fb_theme_change(fb_theme theme)
{
    if (colourless(now.colours)) return false;
    fb_theme_start(theme, now.colours);
    return true;
}

unsigned fb_theme_attrs(fb_role role, fb_ground ground, short *pair)
{
    const fb_style *s = &styles[role];
    bool mono = now.theme == FB_THEME_MONO;
    unsigned attrs = mono || now.theme == FB_THEME_CONTRAST ? s->mono : s->attrs;
    if (!now.grounds && ground == FB_GROUND_CURSOR) attrs |= A_REVERSE;
    if (!now.grounds && ground == FB_GROUND_MARK) attrs |= A_UNDERLINE;
    *pair = mono ? 0 : pair_of(role, now.grounds ? ground : FB_GROUND_PLAIN);
    return attrs;
}
