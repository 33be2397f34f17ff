/* Predictions: what each seat chose last in each puzzle, counted. A seat is a number; nothing else of it is kept. */
#include "workshop/parts.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { VOTES_MOST = 20000, PUZZLES_MOST = 200, VOTES_OF_ONE = 300 };

static fb_tally *tally_of(fb_workshop *w, const char *puzzle)
{
    int at = 0;
    while (at < w->tallies.n && strcmp(w->tallies.at[at].puzzle, puzzle) < 0) at++;
    if (at < w->tallies.n && strcmp(w->tallies.at[at].puzzle, puzzle) == 0) return &w->tallies.at[at];
    FB_VEC_PUSH(&w->tallies, (fb_tally){0});
    memmove(w->tallies.at + at + 1, w->tallies.at + at, (size_t)(w->tallies.n - 1 - at) * sizeof *w->tallies.at);
    w->tallies.at[at] = (fb_tally){.puzzle = fb_strdup(puzzle)};
    return &w->tallies.at[at];
}

static fb_tally_choice *choice_of(fb_tally *t, const char *chosen)
{
    int at = 0;
    while (at < t->choices.n && strcmp(t->choices.at[at].chosen, chosen) < 0) at++;
    if (at < t->choices.n && strcmp(t->choices.at[at].chosen, chosen) == 0) return &t->choices.at[at];
    FB_VEC_PUSH(&t->choices, (fb_tally_choice){0});
    memmove(t->choices.at + at + 1, t->choices.at + at, (size_t)(t->choices.n - 1 - at) * sizeof *t->choices.at);
    t->choices.at[at] = (fb_tally_choice){.chosen = fb_strdup(chosen)};
    return &t->choices.at[at];
}

void fb_tally_add(fb_workshop *w, fb_seat *s, const fb_ask *ask)
{
    fb_vote *mine = NULL;
    for (int i = 0; i < w->votes.n && !mine; i++)
        if (w->votes.at[i].seat == s->number && strcmp(w->votes.at[i].puzzle, ask->puzzle) == 0) mine = &w->votes.at[i];
    if (mine && strcmp(mine->chosen, ask->chosen) == 0) return;
    if (w->votes.n >= VOTES_MOST || !fb_seat_may_write(w, s, 0, 0)) return;
    if (!mine && ++s->account->votes > VOTES_OF_ONE) { /* who comes again and again votes again and again */
        fb_seat_refuse(w, s, 0, FB_ERR_LIMIT, "this seat has predicted %d times", (int)VOTES_OF_ONE);
        return;
    }
    fb_tally *t = tally_of(w, ask->puzzle);
    if (w->tallies.n > PUZZLES_MOST || t->choices.n > PUZZLES_MOST) return;
    if (mine) {
        choice_of(t, mine->chosen)->seats--;
        fb_free(mine->chosen);
        mine->chosen = fb_strdup(ask->chosen);
    } else {
        FB_VEC_PUSH(&w->votes, (fb_vote){s->number, fb_strdup(ask->puzzle), fb_strdup(ask->chosen)});
    }
    choice_of(t, ask->chosen)->seats++;
    t->changed = ++w->clock;
    fb_workshop_changed(w);
    const fb_prediction p = {s->number, ask->puzzle, ask->chosen, ask->guess};
    if (w->options.predicted)
        fb_account_charge(w, s->account->serial, (double)w->options.predicted(w->options.ctx, &p));
}

void fb_tally_free(fb_workshop *w)
{
    for (int i = 0; i < w->tallies.n; i++) {
        fb_tally *t = &w->tallies.at[i];
        for (int k = 0; k < t->choices.n; k++) fb_free(t->choices.at[k].chosen);
        FB_VEC_FREE(&t->choices);
        fb_free(t->puzzle);
    }
    for (int i = 0; i < w->votes.n; i++) {
        fb_free(w->votes.at[i].puzzle);
        fb_free(w->votes.at[i].chosen);
    }
    FB_VEC_FREE(&w->tallies);
    FB_VEC_FREE(&w->votes);
}

int fb_workshop_puzzles(const fb_workshop *w)
{
    return w->tallies.n;
}

int fb_workshop_puzzle_last(const fb_workshop *w)
{
    int last = 0;
    for (int i = 1; i < w->tallies.n; i++)
        if (w->tallies.at[i].changed > w->tallies.at[last].changed) last = i;
    return last;
}

const char *fb_workshop_puzzle(const fb_workshop *w, int i, int *choices)
{
    *choices = w->tallies.at[i].choices.n;
    return w->tallies.at[i].puzzle;
}

const char *fb_workshop_choice(const fb_workshop *w, int puzzle, int choice, int *seats)
{
    *seats = w->tallies.at[puzzle].choices.at[choice].seats;
    return w->tallies.at[puzzle].choices.at[choice].chosen;
}
