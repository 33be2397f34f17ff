/* What of a puzzle's choices is right, by the waterfall of the columns that it compares. Pure.
 *
 * A choice is a condition with a sign: a part of the waterfall, as a gain or as a cost of the second column. It is
 * right where that part goes furthest in the direction of the difference. Nothing is graded where the two cannot be
 * told apart, where more of the difference is not explained than the largest part explains, or where no choice says
 * what was found. Where the question's premise does not hold ("why is it faster", and it is slower) another question is
 * asked, with the same parts as causes of the opposite. */
#ifndef FB_SESSION_GRADE_H
#define FB_SESSION_GRADE_H

#include "measure/why.h"
#include "script/script.h"

typedef enum {
    FB_GRADE_TIE,         /* the same, or it cannot be told */
    FB_GRADE_UNEXPLAINED, /* the rest outweighs what is known */
    FB_GRADE_OTHER,       /* none of the choices says it */
    FB_GRADE_KNOWN,
} fb_grade_state;

typedef struct {
    fb_grade_state state;
    bool turned;      /* the premise does not hold: state and `right` are of the other question */
    fb_why_id winner; /* the part that goes furthest; FB_WHY_NONE */
    uint64_t right;   /* a bit a choice */
} fb_grade;

void fb_grade_of(const fb_puzzle *p, const fb_why *why, fb_grade *out);
/* What the answer function gave instead: a choice's key, or a part's that no choice has, or "" for none of them. False
 * where it is neither. */
bool fb_grade_answer(const fb_puzzle *p, const char *key, fb_grade *g, fb_error *err);
/* A choice of the other question, by the part that is its cause: "It launches more kernels, or waits longer for them."
 */
const char *fb_grade_cause(fb_why_id part);

#endif
