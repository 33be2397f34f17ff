/* Letters: the names that a plan's groups have on screen. Groups that hold the same nodes of different repetitions
 * share one letter ("b ×16"); letters follow launch order: a … z, aa, ab … Pure; O(nodes) a plan. */
#ifndef FB_TUI_SHOW_LETTERS_H
#define FB_TUI_SHOW_LETTERS_H

#include "base/str.h"
#include "plan/plan.h"
#include "tui/show/outline.h"

typedef struct {
    int n_groups, n;  /* letters */
    int *of_group;    /* a group's letter */
    int *first_group; /* a letter's first group */
    int *count;       /* how many groups share it */
} fb_letters;

void fb_letters_make(fb_letters *l, const fb_plan *plan, const fb_outline *o);
void fb_letters_free(fb_letters *l);

/* "a", "z", "aa" …; into `to`, returned. */
const char *fb_letter_name(int letter, char to[8]);
/* What the letter's kernel does, from names: "layer_norm·tanh·stack". */
void fb_letter_title(const fb_letters *l, const fb_plan *plan, int letter, fb_str *out);
/* The group's nodes in the same words. */
void fb_show_group_title(const fb_plan *plan, int group, fb_str *out);
/* Why the group's kernel is of its family: "reduce: mean reduces rows of 256, and …". */
void fb_show_group_why(const fb_plan *plan, int group, fb_str *out);

#endif
