/* Roles: what a piece of text means. A theme says how each looks: colours where there are some, attributes alone in a
 * monochrome one, where every difference that matters is also a letter or a sign. */
#ifndef FB_TUI_TERM_THEME_H
#define FB_TUI_TERM_THEME_H

#include <stdbool.h>

typedef enum {
    FB_ROLE_TEXT,
    FB_ROLE_DIM, /* there, but not to be looked at: views, shapes, frames' inner lines */
    FB_ROLE_TITLE,
    FB_ROLE_STRONG,
    FB_ROLE_FRAME,
    FB_ROLE_FOCUS, /* frame and title of the pane that has the keys */
    FB_ROLE_KEY,
    FB_ROLE_OFF, /* a command that cannot be used now */
    FB_ROLE_GOOD,
    FB_ROLE_BAD,
    FB_ROLE_WARN,
    FB_ROLE_PREDICTED, /* a figure nobody measured */
    FB_ROLE_TIME,      /* bars */
    FB_ROLE_BYTES,
    FB_ROLE_COMMENT, /* in source */
    FB_ROLE_WORD,    /* a keyword in source */
    FB_ROLE_GROUP,   /* the first of FB_GROUP_COLOURS; letter n has colour n modulo that */
    FB_GROUP_COLOURS = 8,
    FB_ROLES = FB_ROLE_GROUP + FB_GROUP_COLOURS,
} fb_role;

/* What lies behind the text. */
typedef enum { FB_GROUND_PLAIN, FB_GROUND_CURSOR, FB_GROUND_MARK, FB_GROUNDS } fb_ground;

typedef enum { FB_THEME_DARK, FB_THEME_LIGHT, FB_THEME_MONO, FB_THEME_CONTRAST, FB_THEMES } fb_theme;

/* Dark unless FUSEBOX_THEME or COLORFGBG say light; mono when the terminal has fewer than 8 colours or NO_COLOR is set.
 */
fb_theme fb_theme_choose(int colours);
/* The user's wishes, before fb_theme_choose: a theme ("dark", "light", "mono", "contrast"), a role's colour. False:
 * there is none of that name. */
bool fb_theme_ask(const char *name);
bool fb_theme_colour(const char *role, short colour);
const char *fb_theme_name(fb_theme theme);
fb_theme fb_theme_now(void);
/* From the next frame on. False: the terminal has no colours, or NO_COLOR is set. */
bool fb_theme_change(fb_theme theme);
/* After start_color; `colours` as the terminal has them. */
void fb_theme_start(fb_theme theme, int colours);
/* Attributes and colour pair for curses. */
unsigned fb_theme_attrs(fb_role role, fb_ground ground, short *pair);

#endif
