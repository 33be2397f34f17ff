/* A terminal for tests: runs a program on a pseudo-terminal behind libvterm, feeds it keys and reads its screen. */
#ifndef FB_TESTS_TERMINAL_HARNESS_H
#define FB_TESTS_TERMINAL_HARNESS_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct term term;

/* `env`: "NAME=value" strings after which the program is started, NULL-terminated; TERM is xterm-256color and LC_ALL
 * C.UTF-8 unless they say otherwise. `argv` NULL-terminated. */
term *term_start(int rows, int cols, const char *const *env, const char *const *argv);
void term_free(term *t); /* kills what still runs */

/* Keys by name, blank-separated: "j", "Space", "C-r", "PgDn", "text in quotes"; @wait lets the screen come to rest,
 * @80x24 resizes. */
void term_keys(term *t, const char *keys);
bool term_click(term *t, const char *text, int limit_ms); /* on its first sign, once it stands on the screen */
void term_resize(term *t, int rows, int cols);
void term_claim(term *t, int rows, int cols); /* a size that the terminal does not have */
void term_signal(term *t, int number);
pid_t term_pid(const term *t);
void term_hang_up(term *t); /* closes our side of the line */

/* Reads what comes until nothing has come for `quiet_ms`; false when that does not happen within `limit_ms`. */
bool term_rest(term *t, int quiet_ms, int limit_ms);
/* Reads until the screen holds the text; false when it never does, or when the program has ended without. */
bool term_wait(term *t, const char *text, int limit_ms);
bool term_ended(term *t); /* whether the program has */
/* Waits for the program's end: the status as waitpid gives it, -1 when it does not end in time. */
int term_end(term *t, int limit_ms);

/* The screen: rows ended by newlines, blanks at the end of a row left out. Valid until the next call. */
const char *term_screen(term *t);
const char *term_row(term *t, int row);
bool term_shows(term *t, const char *text);

bool term_on_alternate(const term *t);
bool term_cursor_visible(const term *t);
bool term_canonical(const term *t); /* the line is as a shell wants it: lines and echo */
bool term_has_colour(term *t);      /* any cell with a colour that is not the default */
/* Some cell of the row has a ground or is reversed, which others of the screen are not. */
bool term_row_stands_out(term *t, int row);
bool term_sent(const term *t, const char *bytes); /* the program has sent them at any time, if in one go */
bool term_has_bytes_above_ascii(const term *t);   /* in anything the program ever sent */

/* Removes a folder with all that is in it; links are not followed. */
void drop_tree(const char *folder);

#endif
