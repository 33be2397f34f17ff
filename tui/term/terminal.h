/* The terminal: taken over on open, given back on every way out, signals included. One at a time.
 *
 * Signals that the event loop must see arrive as bytes on fb_terminal_signals(): SIGWINCH, SIGTERM, SIGHUP, SIGINT,
 * SIGQUIT, SIGTSTP, SIGCONT. Signals of a bug (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT) restore the terminal and then
 * end the process as they would have. */
#ifndef FB_TUI_TERM_TERMINAL_H
#define FB_TUI_TERM_TERMINAL_H

#include "base/error.h"

#include <stddef.h>

/* Refuses (FB_ERR_UNAVAILABLE) where stdin or stdout is no terminal, or the terminal cannot move its cursor. */
bool fb_terminal_open(bool mouse, fb_error *err);
void fb_terminal_close(void); /* fine when not open */

int fb_terminal_signals(void); /* a descriptor to poll; each byte is a signal's number */
/* Stops this process as C-z does, and comes back with the screen redrawn. */
void fb_terminal_suspend(void);
/* Another program has the terminal from here on, as it was before us; until it is taken back, redrawn. C-c and C-z are
 * that program's business. */
void fb_terminal_lend(void);
void fb_terminal_take_back(void);
/* After SIGWINCH: takes the new size. */
void fb_terminal_resize(void);
/* Ends the process by signal `number`, after fb_terminal_close. */
_Noreturn void fb_terminal_die(int number);

/* Gives the text to the terminal's clipboard (OSC 52). False: it is too long, or the terminal is one that would show
 * it. Whether it was taken no terminal says. */
bool fb_terminal_copy(const char *text, size_t n);

#endif
