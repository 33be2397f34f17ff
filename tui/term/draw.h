/* Drawing text on the screen, clipped to rectangles. All text that reaches the screen passes here: it is cleaned of
 * control and bidi characters, and where the locale is not UTF-8 spelled in ASCII. Coordinates are relative to the
 * rectangle. */
#ifndef FB_TUI_TERM_DRAW_H
#define FB_TUI_TERM_DRAW_H

#include "base/str.h"
#include "tui/term/layout.h"
#include "tui/term/theme.h"

/* Whether the screen takes UTF-8; before anything is drawn. */
void fb_draw_start(bool utf8);

/* Columns that the text takes as drawn. */
int fb_draw_text_width(const char *text);

/* What lies behind the text drawn from now on. */
void fb_draw_ground(fb_ground ground);

/* Each returns the column after the text. */
int fb_draw(const fb_rect *r, int y, int x, fb_role role, const char *text);
int fb_drawf(const fb_rect *r, int y, int x, fb_role role, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* In `w` columns from x, cut with "…" when longer. */
int fb_draw_cut(const fb_rect *r, int y, int x, int w, fb_role role, const char *text);
/* So that the text ends before column `right`. Returns its first column. */
int fb_draw_right(const fb_rect *r, int y, int right, fb_role role, const char *text);
/* The whole line blank, in the present ground. */
void fb_draw_blank(const fb_rect *r, int y);
/* A bar of at most `w` columns; eighths of a column where the screen has them; anything above 0 shows. */
void fb_draw_bar(const fb_rect *r, int y, int x, int w, fb_role role, double fraction);
/* `n` times the text (of one column). */
void fb_draw_run(const fb_rect *r, int y, int x, int n, fb_role role, const char *text);
/* Shows the terminal's own cursor there until fb_draw_no_cursor. */
void fb_draw_cursor(const fb_rect *r, int y, int x);
void fb_draw_no_cursor(void);
void fb_draw_show(void); /* all that was drawn, on the screen */
/* Words broken over lines, cut with "…" where they do not fit; returns the lines used, at most `max_rows`. */
int fb_draw_wrapped(const fb_rect *r, int y, int x, int max_rows, fb_role role, const char *text);

/* The words of *text that fit into a line of `width` columns, one at least, into `out`; *text goes on behind them.
 * False: there are none left. Words are parted by blanks and newlines. */
bool fb_draw_text_words(const char **text, int width, fb_str *out);

#endif
