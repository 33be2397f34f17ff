/* What a puzzle compares, as text to be set side by side: the functions of the script that differ, and the kernels that
 * the columns' plans make of them. */
#ifndef FB_TUI_VIEW_PUZZLE_CODE_H
#define FB_TUI_VIEW_PUZZLE_CODE_H

#include "base/str.h"
#include "session/session.h"

typedef struct {
    char *both;    /* the program that both share; NULL where each has its own */
    char *side[2]; /* each one's own: its program, its plan's function, or a sentence on its preset; NULL: nothing */
} fb_puzzle_code;

/* From the script's text as it was loaded; `spec` are the two columns as the script names them. */
void fb_puzzle_code_read(fb_puzzle_code *c, const fb_session *s, char *const spec[2]);
void fb_puzzle_code_free(fb_puzzle_code *c);

/* The kernels of a column's plan, a line each, equal ones counted: "16 × layer_norm·tanh". Nothing where the device
 * plans for itself or the plan is not made yet. */
void fb_puzzle_kernels(const fb_column *c, fb_str *out);

/* The next line of `text` in `width` cells, into `to`: what is too long goes on in the next, four cells further in.
 * Returns what is left, NULL after the last; `*in`: how far in that begins, 0 to begin with. */
const char *fb_puzzle_wrap_code(const char *text, int width, int *in, fb_str *to);

#endif
