/* Undo: plans in the order in which they were made, and a cursor. A push forgets what was undone. */
#include "plan/parts.h"

typedef struct {
    fb_plan *plan;
    char *label; /* of the edit that led here; NULL for the first */
} state;

struct fb_history {
    FB_VEC(state) states;
    int now;
};

fb_history *fb_history_new(fb_plan *first)
{
    fb_history *h = fb_calloc(1, sizeof *h);
    FB_VEC_PUSH(&h->states, (state){first, NULL});
    return h;
}

static void drop_after(fb_history *h, int last)
{
    while (h->states.n > last + 1) {
        state *s = &h->states.at[--h->states.n];
        fb_plan_free(s->plan);
        fb_free(s->label);
    }
}

void fb_history_free(fb_history *h)
{
    if (!h) return;
    drop_after(h, -1);
    FB_VEC_FREE(&h->states);
    fb_free(h);
}

const fb_plan *fb_history_now(const fb_history *h)
{
    return h->states.at[h->now].plan;
}

void fb_history_push(fb_history *h, fb_plan *plan, const char *label)
{
    drop_after(h, h->now);
    FB_VEC_PUSH(&h->states, (state){plan, fb_strdup(label)});
    h->now++;
}

const char *fb_history_undo(fb_history *h)
{
    return h->now > 0 ? h->states.at[h->now--].label : NULL;
}

const char *fb_history_redo(fb_history *h)
{
    return h->now + 1 < h->states.n ? h->states.at[++h->now].label : NULL;
}
