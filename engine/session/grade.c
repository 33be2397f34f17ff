/* Grades a puzzle's choices by a waterfall, as grade.h says. Pure. */
#include "session/grade.h"

#include <math.h>
#include <string.h>

enum { CHOICES = 64 }; /* bits of `right` */

const char *fb_grade_cause(fb_why_id part)
{
    static const char *const causes[FB_WHY_REST] = {
        [FB_WHY_DISPATCH] = "It spends more time in the framework, before anything is launched.",
        [FB_WHY_LAUNCHES] = "It takes longer to launch, and to wait for what was launched.",
        [FB_WHY_COPIES] = "It waits longer for copies that nothing runs beside.",
        [FB_WHY_BYTES] = "It moves more bytes, or reads them in a worse order.",
        [FB_WHY_COMPUTE] = "It does more arithmetic, or slower arithmetic.",
        [FB_WHY_OCCUPANCY] = "Its kernels keep less of the device busy.",
        [FB_WHY_SPILLS] = "Its kernels run out of registers.",
    };
    return part >= 0 && part < FB_WHY_REST ? causes[part] : "Something else.";
}

static bool holds(const fb_puzzle *p, const fb_why *why)
{
    bool faster = why->us > 0;
    return p->premise == FB_PREMISE_DIFFERS || faster == (p->premise == FB_PREMISE_FASTER);
}

/* The part goes in the direction of the difference, so its sign is that of the difference. */
static bool is_right(const fb_condition *c, const fb_grade *g, const fb_why *why)
{
    return c->part == (int)g->winner && (g->turned || c->costs == (why->us < 0));
}

void fb_grade_of(const fb_puzzle *p, const fb_why *why, fb_grade *out)
{
    *out = (fb_grade){.state = FB_GRADE_TIE, .winner = FB_WHY_NONE};
    if (why->tie) return;
    out->turned = !holds(p, why);
    out->winner = fb_why_largest(why);
    bool known = out->winner != FB_WHY_NONE && fabs(why->part[out->winner].us) > fabs(why->part[FB_WHY_REST].us);
    for (int i = 0; known && i < p->n_choices && i < CHOICES; i++)
        if (is_right(&p->conditions[i], out, why)) out->right |= UINT64_C(1) << i;
    out->state = !known ? FB_GRADE_UNEXPLAINED : out->right ? FB_GRADE_KNOWN : FB_GRADE_OTHER;
}

bool fb_grade_answer(const fb_puzzle *p, const char *key, fb_grade *g, fb_error *err)
{
    bool part = !*key, unexplained = g->state == FB_GRADE_UNEXPLAINED;
    g->right = 0;
    for (int i = 0; i < p->n_choices && i < CHOICES; i++)
        if (!strcmp(key, p->choice_keys[i])) g->right |= UINT64_C(1) << i;
    for (int id = 0; id < FB_WHY_PARTS; id++) part |= !strcmp(key, fb_why_name((fb_why_id)id));
    if (unexplained && part && *key) g->right = 0; /* a function that knows parts alone knows no more than they */
    g->state = g->right ? FB_GRADE_KNOWN : unexplained && part ? FB_GRADE_UNEXPLAINED : FB_GRADE_OTHER;
    return g->right || part ||
           fb_fail(err, FB_ERR_INPUT,
                   "the puzzle's answer function gives \"%s\", which is neither the key of a choice nor a part of the "
                   "waterfall",
                   key);
}
