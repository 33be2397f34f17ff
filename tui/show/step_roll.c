/* Rolls decisions that repeat into one row. Pure. */
#include "tui/show/step_roll.h"

/* As many decisions a member are looked for. */
enum { MOST_PERIOD = 64 };

static bool same_place(const fb_outline *o, fb_id a, fb_id b)
{
    if (a == FB_NONE || b == FB_NONE) return a == b;
    return o->class_of[a] == o->class_of[b];
}

/* The same decision for another member of the repetition. */
static bool alike(const fb_steps *s, const fb_outline *o, int i, int k)
{
    const fb_step *a = fb_steps_at(s, i), *b = fb_steps_at(s, k);
    return a->what.kind == b->what.kind && a->what.kind != FB_STEP_BEGIN && a->outcome == b->outcome &&
           a->rolled == b->rolled && a->what.a != b->what.a && same_place(o, a->what.a, b->what.a) &&
           same_place(o, a->what.b, b->what.b);
}

/* How many decisions from `at` on are of whole rounds of `period`, the first round counted. */
static int rounds(const fb_steps *s, const fb_outline *o, int at, int period)
{
    int n = fb_steps_kept(s), k = at + period;
    while (k < n && alike(s, o, at + (k - at) % period, k)) k++;
    return (k - at) / period * period;
}

void fb_show_step_roll(const fb_steps *steps, const fb_outline *o, fb_step_rows *out)
{
    int n = fb_steps_kept(steps);
    out->n = 0;
    for (int at = 0; at < n;) {
        int best = 1, covered = 1;
        for (int p = 1; o && p <= MOST_PERIOD && at + p < n; p++) {
            int c = alike(steps, o, at, at + p) ? rounds(steps, o, at, p) : 0;
            if (c > p && c > covered) best = p, covered = c;
        }
        if (covered == 1) best = 1;
        if (best == 1) {
            FB_VEC_PUSH(out, (fb_step_row){at, covered, 1});
        } else {
            for (int i = 0; i < best; i++) FB_VEC_PUSH(out, (fb_step_row){at + i, 1, 1});
            FB_VEC_PUSH(out, (fb_step_row){at + best, covered - best, best});
        }
        at += covered;
    }
}
