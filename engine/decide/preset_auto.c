/* The preset `auto`: the plan that the cost model takes for the fastest, by decisions that can be followed, refused and
 * replayed. It begins with the preset that is predicted to be the fastest; then every move (decide/moves.h) is judged
 * on that plan, and those that save time are made, the best first, until none does. So it is never predicted to be
 * slower than another preset of the same graph. Unlike search it follows one plan and takes no step that does not pay
 * at once; nothing is measured.
 *
 * requires  the other presets of the table, moves, the cost model
 * provides  fb_auto_plan
 */
#include "decide/decide.h"
#include "decide/moves.h"

#include <math.h>
#include <stdlib.h>

enum { ROUNDS = 4, LEAST_JUDGED = 200, MOST_JUDGED = 4000, NODES_JUDGED = 2000000 };

static const double worth = 0.005; /* of the time of the kernels concerned: a prediction is no finer than that */

typedef struct {
    int move;
    fb_candidate what; /* its score is what it was predicted to save */
} open_move;

typedef struct {
    fb_decider *d;
    fb_arena *arena;
    fb_plan *plan;
    int n_moves, left; /* left: judgements that may still be made */
    const fb_move *moves;
    bool *declined; /* a move: the user said no */
    FB_VEC(open_move) open;
    fb_candidates ahead; /* of those still open, for the record */
} autopilot;

static double us_of(const fb_plan *plan)
{
    fb_plan_cost c;
    fb_plan_cost_of(plan, &c);
    return c.us;
}

/* ---- the beginning ---- */

typedef struct {
    int preset;
    fb_plan *plan;
    double us;
} beginning;

static int by_time(const void *a, const void *b)
{
    const beginning *x = a, *y = b;
    return x->us != y->us ? (x->us > y->us) - (x->us < y->us) : x->preset - y->preset;
}

/* The plans of all presets of the table but this one, fastest first as predicted, those that cannot run last. */
static int beginnings(fb_planner *p, beginning *out)
{
    const fb_preset *self = fb_preset_find("auto");
    int n = 0;
    for (int i = 0; i < fb_presets(); i++) {
        const fb_preset *preset = fb_preset_at(i);
        fb_plan *plan = preset == self ? NULL : preset->make(p, NULL);
        if (!plan) continue;
        double us = us_of(plan);
        out[n++] = (beginning){i, plan, !fb_plan_refusal(plan, NULL) && isfinite(us) ? us : INFINITY};
    }
    qsort(out, (size_t)n, sizeof *out, by_time);
    return n;
}

/* Takes the fastest that the user does not refuse. */
static fb_plan *begin(autopilot *w)
{
    if (fb_decider_done(w->d)) return fb_plan_new(w->d->planner); /* of no decision no plan need be made */
    beginning *at = FB_NEW_ARRAY(w->arena, beginning, fb_presets());
    int n = beginnings(w->d->planner, at);
    fb_candidate *all = FB_NEW_ARRAY(w->arena, fb_candidate, n);
    fb_plan *none = fb_plan_new(w->d->planner), *taken = NULL;
    double apart = us_of(none);
    for (int i = 0; i < n; i++) all[i] = (fb_candidate){FB_STEP_BEGIN, at[i].preset, FB_NONE, apart - at[i].us};
    for (int i = 0; i < n && !taken && !fb_decider_done(w->d); i++) {
        fb_beside beside = {all + i + 1, n - i - 1};
        if (fb_decide(w->d, all[i], beside, "of all presets `%s` is predicted to be the fastest%s",
                      fb_preset_at(at[i].preset)->name, i ? " of those that are left" : ""))
            taken = at[i].plan;
    }
    for (int i = 0; i < n; i++)
        if (at[i].plan != taken) fb_plan_free(at[i].plan);
    if (!taken) return none;
    fb_plan_free(none);
    return taken;
}

/* ---- moves ---- */

/* What the record calls a move that is this edit. */
static fb_candidate named(const fb_move *m, const fb_edit *e, double gain)
{
    fb_candidate c = {FB_STEP_FUSE, m->a, m->b, gain};
    switch (m->kind) {
    case FB_MOVE_EDGE:
    case FB_MOVE_BESIDE: c.kind = e->kind == FB_EDIT_CUT ? FB_STEP_CUT : FB_STEP_FUSE; break;
    case FB_MOVE_STAR: c.kind = FB_STEP_FUSE_READERS; break;
    case FB_MOVE_MEMBERS: c.kind = FB_STEP_FUSE_MEMBERS; break;
    case FB_MOVE_RECOMPUTE: c.kind = e->kind == FB_EDIT_STORE ? FB_STEP_STORE : FB_STEP_INLINE; break;
    case FB_MOVE_CHOICE: c.kind = e->kind == FB_EDIT_LIBRARY ? FB_STEP_LIBRARY : FB_STEP_GENERATE; break;
    }
    return c;
}

/* Is it worth making on the plan as it is? */
static bool pays(autopilot *w, int move, fb_edit *e, fb_candidate *what)
{
    const fb_move *m = &w->moves[move];
    if (w->declined[move] || w->left <= 0 || !fb_move_edit(w->plan, m, e)) return false;
    w->left--;
    fb_verdict v = fb_move_try(w->plan, m, e, NULL);
    double gain = fb_move_gain(w->plan, m, &v);
    *what = named(m, e, gain);
    return v.before_us - v.after_us > worth * v.before_us && gain > 0;
}

static int by_gain(const void *a, const void *b)
{
    const open_move *x = a, *y = b;
    return x->what.score != y->what.score ? (x->what.score < y->what.score) - (x->what.score > y->what.score)
                                          : x->move - y->move;
}

static void list_open(autopilot *w)
{
    w->open.n = w->ahead.n = 0;
    for (int i = 0; i < w->n_moves && w->left > 0; i++) {
        fb_edit e;
        open_move o = {.move = i};
        if (pays(w, i, &e, &o.what)) FB_VEC_PUSH(&w->open, o);
    }
    if (w->open.n) qsort(w->open.at, (size_t)w->open.n, sizeof *w->open.at, by_gain);
    for (int i = 0; i < w->open.n; i++) FB_VEC_PUSH(&w->ahead, w->open.at[i].what);
}

/* Makes the move, unless what was made before took its gain or the user refuses it. */
static bool make(autopilot *w, int at)
{
    int move = w->open.at[at].move;
    fb_edit e;
    fb_candidate what;
    char saved[32];
    if (!pays(w, move, &e, &what)) return false;
    bool yes = fb_decide(w->d, what, (fb_beside){w->ahead.at + at + 1, w->ahead.n - at - 1},
                         "predicted to save %s%s, the most of what is open", fb_format_us(saved, what.score),
                         w->moves[move].repeated ? " in all its repetitions" : "");
    w->declined[move] |= !yes;
    fb_plan *to = NULL;
    if (yes) fb_move_try(w->plan, &w->moves[move], &e, &to);
    if (!to) return false;
    fb_plan_free(w->plan);
    w->plan = to;
    return true;
}

static void improve(autopilot *w)
{
    bool any = true;
    for (int round = 0; round < ROUNDS && any && !fb_decider_done(w->d); round++) {
        any = false;
        list_open(w);
        for (int i = 0; i < w->open.n && !fb_decider_done(w->d); i++) any |= make(w, i);
    }
}

fb_plan *fb_auto_plan(fb_decider *d)
{
    autopilot w = {.d = d, .arena = fb_arena_new()};
    int room = NODES_JUDGED / (d->planner->g->n_nodes + 1);
    w.left = room < LEAST_JUDGED ? LEAST_JUDGED : room > MOST_JUDGED ? MOST_JUDGED : room;
    w.plan = begin(&w);
    w.n_moves = fb_moves_list(d->planner, w.arena, &w.moves);
    w.declined = FB_NEW_ARRAY(w.arena, bool, w.n_moves + 1);
    improve(&w);
    FB_VEC_FREE(&w.open);
    FB_VEC_FREE(&w.ahead);
    fb_arena_free(w.arena);
    return w.plan;
}
