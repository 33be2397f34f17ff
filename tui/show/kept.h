/* What a page and pictures show of columns besides their rows: plans, sources, waterfalls, the puzzle's answer. Taken
 * while the columns are there, since the next case of a sweep takes their place.
 *
 * A JSON object:
 *
 *     columns  one a row: null where it has no plan of ours, else {"w", "h", "body": the plan's picture
 *              (tui/show/picture.h), "language", "source": all kernels'}
 *     whys     [{"a", "b": rows, "w", "h", "body": the waterfall, "puzzle", "verdicts", "conclusion",
 *              "parts": [{"name", "text"}]}], or with "failed", why there is none, in place of the picture
 *     puzzle   {"right": [choices, from 0 on], "tie"} when its answer is known */
#ifndef FB_TUI_SHOW_KEPT_H
#define FB_TUI_SHOW_KEPT_H

#include "session/session.h"
#include "tui/show/picture.h"

json_t *fb_kept_new(void); /* the caller owns it */
/* The next row's. */
void fb_kept_column(json_t *kept, const fb_column *c);
/* The session's columns `columns`, of which `rows` holds the reports last: each one compared with the first one that
 * has anything in common with it, and what the script's puzzle compares. */
void fb_kept_whys(json_t *kept, const fb_session *s, const json_t *rows, const int *columns, int n);
/* The puzzle's waterfall among these columns. False: they are not there, or cannot be compared. */
bool fb_kept_puzzle_why(const fb_session *s, const json_t *rows, const int *columns, int n, fb_why *out);
/* The session knows the answer of the script's puzzle. */
void fb_kept_answer(json_t *kept, const fb_session *s);

/* The picture of a column's plan, or of a waterfall; empty where there is none. The caller frees. */
fb_picture fb_kept_picture(const json_t *of);

#endif
