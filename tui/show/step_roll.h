/* A preset's decisions rolled as the graph is: decisions that come again for the other members of a repetition are one
 * row. Pure; a row stands for decisions that follow each other, so that a row is a place to stop at. */
#ifndef FB_TUI_SHOW_STEP_ROLL_H
#define FB_TUI_SHOW_STEP_ROLL_H

#include "base/vec.h"
#include "decide/steps.h"
#include "tui/show/outline.h"

typedef struct {
    int first, n; /* decisions, from 0 */
    int period;   /* n / period times the same; 1: the same one for n members; n 1: a decision alone */
} fb_step_row;

typedef FB_VEC(fb_step_row) fb_step_rows;

/* `outline`: of the graph that the decisions are of; NULL: nothing is rolled. What was in *out is gone. */
void fb_show_step_roll(const fb_steps *steps, const fb_outline *outline, fb_step_rows *out);

#endif
