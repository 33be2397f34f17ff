/* The preset `auto`: the plan that the cost model takes for the fastest, by decisions that can be followed, refused and
 * replayed. It begins with the preset that is predicted to be the fastest; then every move (decide/moves.h) is judged
 * on that plan, and those that save time are made, the best first, until none does; on a GPU small kernels are at last
 * tried beside each other. So it is never predicted to be slower than another preset of the same graph. Unlike search
 * it follows one plan and takes no step that does not pay at once, or with the one after it: what a cut makes both
 * sides read may be computed again in each, and a product that was cut off may be a library's. Nothing is measured.
 *
 * requires  the other presets of the table, moves, the cost model
 * provides  fb_auto_plan
 */
#include "decide/decide.h"
#include "decide/moves.h"
#include "decide/whole_loop.h"
#include "plan/parts.h"

#include <math.h>
#include <stdlib.h>

enum { ROUNDS = 4, AHEAD_JUDGED = 150, LEAST_JUDGED = 200, MOST_JUDGED = 4000, NODES_JUDGED = 2000000 };

static const double worth = 0.005;      /* of the time of the kernels concerned: a prediction is no finer than that */
static const double worth_of_two = 0.1; /* the same of a pair of moves, whose predictions may both be wrong */
static const double much = 0.05;        /* of the whole plan's time: kernels that it is worth to look further for */

typedef struct {
    int move;
    fb_candidate what; /* its score is what it was predicted to save */
} open_move;

typedef struct {
    fb_decider *d;
    fb_arena *arena;
    fb_plan *plan;
    int n_moves, left; /* left: judgements that may still be made … */
    int left_ahead;    /* … and those beyond a move */
    double much_us;    /* of a kernel that is cut */
    const fb_move *moves;
    bool *declined; /* a move: the user said no */
    FB_VEC(open_move) open;
    fb_candidates ahead; /* of those still open, for the record */
} autopilot;

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
        double us = fb_plan_us(plan);
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
    double apart = fb_plan_us(none);
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

/* Loops of the script that no preset made one kernel. */
static void merge_loops(autopilot *w)
{
    const fb_planner *p = w->plan->planner;
    if (p != w->d->planner || !p->machine.target->grid_barrier) return;
    for (fb_id i = 0; i < p->g->n_nodes && !fb_decider_done(w->d); i++)
        if (p->g->nodes[i].op == FB_OP_LOOP && !fb_plan_whole_loop(w->plan, p->g->nodes[i].attrs->region))
            w->plan = fb_decide_loop(w->d, w->plan, i);
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
    case FB_MOVE_ORDER: c.kind = e->value ? FB_STEP_ATOMICS : FB_STEP_ORDERED; break;
    }
    return c;
}

static bool stores(const fb_plan *plan, fb_id node)
{
    int group = fb_plan_group_of(plan, node);
    return group >= 0 && fb_group_stores(fb_plan_group(plan, group), node);
}

/* May the move pay because `cut` was made: is what that stores computed again where it is read, or does a library multiply
 * what was in one kernel with the rest? */
static bool is_behind(const autopilot *w, const fb_plan *plan, const fb_move *cut, const fb_move *m)
{
    if (m->kind == FB_MOVE_RECOMPUTE) return stores(plan, m->a) && !stores(w->plan, m->a);
    return m->kind == FB_MOVE_CHOICE && (m->a == cut->a || m->a == cut->b);
}

/* Behind a cut that makes `plan`: the one move that saves most with it, and how much; FB_NONE. */
static int move_behind(autopilot *w, const fb_plan *plan, const fb_move *cut, double *gain)
{
    int best = FB_NONE;
    *gain = 0;
    for (int i = 0; i < w->n_moves && w->left_ahead > 0; i++) {
        const fb_move *m = &w->moves[i];
        fb_edit e;
        if (w->declined[i] || !is_behind(w, plan, cut, m) || !fb_move_edit(plan, m, &e)) continue;
        w->left_ahead--;
        fb_verdict v = fb_move_try(plan, m, &e, NULL);
        double own = fb_move_gain(plan, m, &v);
        if (own > *gain) *gain = own, best = i;
    }
    return best;
}

/* Is it worth making on the plan as it is, by itself or with the move `behind` it? */
static bool pays(autopilot *w, int move, fb_edit *e, fb_candidate *what, int *behind)
{
    const fb_move *m = &w->moves[move];
    *behind = FB_NONE;
    if (w->declined[move] || w->left <= 0 || !fb_move_edit(w->plan, m, e)) return false;
    w->left--;
    fb_verdict v = fb_move_try(w->plan, m, e, NULL);
    double gain = fb_move_gain(w->plan, m, &v), saved = v.before_us - v.after_us, more = 0;
    if (m->kind == FB_MOVE_EDGE && e->kind == FB_EDIT_CUT && gain < 0 && v.before_us > w->much_us &&
        w->left_ahead > 0) {
        fb_plan *to = NULL;
        w->left_ahead--;
        fb_move_try(w->plan, m, e, &to);
        if (to) *behind = move_behind(w, to, m, &more);
        if (to) fb_plan_free(to);
    }
    *what = named(m, e, gain + more);
    if (*behind == FB_NONE) return saved > worth * v.before_us && gain > 0;
    double trips = gain / saved;
    return gain + more > worth_of_two * v.before_us * trips;
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
    w->much_us = much * fb_plan_us(w->plan);
    for (int i = 0; i < w->n_moves && w->left > 0; i++) {
        fb_edit e;
        open_move o = {.move = i};
        int behind;
        if (pays(w, i, &e, &o.what, &behind)) FB_VEC_PUSH(&w->open, o);
    }
    if (w->open.n) qsort(w->open.at, (size_t)w->open.n, sizeof *w->open.at, by_gain);
    for (int i = 0; i < w->open.n; i++) FB_VEC_PUSH(&w->ahead, w->open.at[i].what);
}

/* Makes the move on record, unless the user refuses it. */
static bool take(autopilot *w, int move, const fb_edit *e, fb_candidate what, fb_beside beside, const char *of_what)
{
    char saved[32];
    bool yes = fb_decide(w->d, what, beside, "predicted to save %s%s, %s", fb_format_us(saved, what.score),
                         w->moves[move].repeated ? " in all its repetitions" : "", of_what);
    w->declined[move] |= !yes;
    fb_plan *to = NULL;
    if (yes) fb_move_try(w->plan, &w->moves[move], e, &to);
    if (!to) return false;
    fb_plan_free(w->plan);
    w->plan = to;
    return true;
}

/* The same of a move that is open, unless what was made before took its gain, and of the one that it pays with. */
static bool make(autopilot *w, int at)
{
    fb_edit e;
    fb_candidate what;
    int behind, none;
    fb_beside beside = {w->ahead.at + at + 1, w->ahead.n - at - 1};
    if (!pays(w, w->open.at[at].move, &e, &what, &behind)) return false;
    if (!take(w, w->open.at[at].move, &e, what, beside,
              behind == FB_NONE ? "the most of what is open" : "the most of what is open, with what is decided next"))
        return false;
    if (behind != FB_NONE && pays(w, behind, &e, &what, &none))
        take(w, behind, &e, what, beside, "for which the cut was made");
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

/* ---- kernels that have nothing to do with each other ---- */

/* A kernel that hardly takes longer than its launch, and whose work may be sections that others stand beside. */
static bool is_small(const fb_plan *plan, int group)
{
    static const double small_us = 10;
    const fb_family_row *family = fb_family_row_of(fb_plan_group(plan, group)->family);
    fb_group_cost cost;
    if (family->calls || family->lone || !family->classes) return false;
    fb_slots_cost(plan, plan->view->slot_of[group], &cost);
    return cost.us < small_us;
}

/* Small kernels beside each of the next ones of their region. No move of the graph says so where they read nothing in
 * common. */
static int moves_beside(const autopilot *w, fb_move *out, int most)
{
    enum { NEAR = 6 };
    const fb_node *nodes = w->plan->planner->g->nodes;
    int n = 0, groups = fb_plan_groups(w->plan); /* numbers them */
    const fb_id *slot = w->plan->view->slot_of;
    for (int i = 0; i < groups; i++) {
        if (!is_small(w->plan, i)) continue;
        for (int k = i + 1, near = 0; k < groups && near < NEAR && n < most; k++) {
            if (nodes[slot[i]].region != nodes[slot[k]].region || !is_small(w->plan, k)) continue;
            out[n++] = (fb_move){.kind = FB_MOVE_BESIDE, .a = slot[i], .b = slot[k]};
            near++;
        }
    }
    return n;
}

/* On a GPU two such kernels in one launch take about as long as one. */
static void share_launches(autopilot *w)
{
    const fb_planner *p = w->plan->planner;
    if (!p->machine.target->grid || fb_decider_done(w->d)) return;
    fb_move *moves = FB_NEW_ARRAY(w->arena, fb_move, FB_MOVES_MOST);
    w->n_moves = moves_beside(w, moves, FB_MOVES_MOST);
    w->moves = moves;
    w->declined = FB_NEW_ARRAY(w->arena, bool, w->n_moves + 1);
    improve(w);
}

fb_plan *fb_auto_plan(fb_decider *d)
{
    autopilot w = {.d = d, .arena = fb_arena_new()};
    int room = NODES_JUDGED / (d->planner->g->n_nodes + 1);
    w.left = room < LEAST_JUDGED ? LEAST_JUDGED : room > MOST_JUDGED ? MOST_JUDGED : room;
    w.left_ahead = AHEAD_JUDGED;
    w.plan = begin(&w);
    merge_loops(&w);
    w.n_moves = fb_moves_list(d->planner, w.arena, &w.moves);
    w.declined = FB_NEW_ARRAY(w.arena, bool, w.n_moves + 1);
    improve(&w);
    share_launches(&w);
    FB_VEC_FREE(&w.open);
    FB_VEC_FREE(&w.ahead);
    fb_arena_free(w.arena);
    return w.plan;
}
