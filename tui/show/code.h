/* The generated source of columns' plans as text and lines. */
#ifndef FB_TUI_SHOW_CODE_H
#define FB_TUI_SHOW_CODE_H

#include "base/str.h"
#include "session/session.h"

/* "c", "cuda": the language of the column's kernels. */
const char *fb_code_language(const fb_column *c);
/* The source of a group for the column's device; arena-owned, or a sentence that there is none. */
const char *fb_code_of(const fb_column *c, int group, fb_arena *arena);
/* All sources of the column's plan, equal ones once. */
void fb_code_of_plan(const fb_column *c, fb_str *out);
/* Lines of a text, tabs expanded; arena-owned. Returns how many. */
int fb_code_lines(fb_arena *arena, const char *text, const char ***out);

#endif
