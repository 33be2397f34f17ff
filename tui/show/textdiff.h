/* What changed from one text to another, line by line: a longest common subsequence. Pure. */
#ifndef FB_TUI_SHOW_TEXTDIFF_H
#define FB_TUI_SHOW_TEXTDIFF_H

#include "base/arena.h"

typedef struct {
    char sign; /* ' ' in both, '-' in the first alone, '+' in the second alone */
    const char *line;
} fb_diff_line;

/* Arena-owned. Texts too long to be compared come out as all '-' and then all '+'. */
int fb_show_text_diff(fb_arena *arena, const char *const *a, int na, const char *const *b, int nb, fb_diff_line **out);

#endif
