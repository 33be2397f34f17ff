/* The record of decisions, its sentences, and the decider that presets ask before each of them (decide/decide.h). Texts
 * lie in the record's arena.
 */
#include "decide/steps.h"

#include "base/arena.h"
#include "base/vec.h"
#include "decide/decide.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { SENTENCE = 480 };

struct fb_steps {
    fb_arena *arena;
    const char *preset, *score_name;
    void (*score)(double score, fb_str *out);
    int count, kernels;
    FB_VEC(fb_step) kept;
};

fb_steps *fb_steps_new(const char *preset, const char *score_name, void (*score)(double score, fb_str *out))
{
    fb_steps *s = fb_calloc(1, sizeof *s);
    s->arena = fb_arena_new();
    s->preset = preset;
    s->score_name = score_name;
    s->score = score;
    return s;
}

void fb_steps_free(fb_steps *s)
{
    if (!s) return;
    FB_VEC_FREE(&s->kept);
    fb_arena_free(s->arena);
    fb_free(s);
}

const char *fb_steps_preset(const fb_steps *s)
{
    return s->preset;
}

int fb_steps_count(const fb_steps *s)
{
    return s->count;
}

int fb_steps_kept(const fb_steps *s)
{
    return s->kept.n;
}

int fb_steps_kernels(const fb_steps *s)
{
    return s->kernels;
}

void fb_steps_set_kernels(fb_steps *s, int n)
{
    s->kernels = n;
}

const fb_step *fb_steps_at(const fb_steps *s, int i)
{
    return i >= 0 && i < s->kept.n ? &s->kept.at[i] : NULL;
}

const fb_graph *fb_step_graph(const fb_step *s, fb_planner *p)
{
    fb_planner *of = s->rolled ? fb_planner_rolled(p) : fb_planner_written(p);
    return of ? fb_planner_graph(of) : NULL;
}

const char *fb_step_outcome_name(fb_step_outcome o)
{
    static const char *const name[] = {
        [FB_STEP_TAKEN] = "taken",
        [FB_STEP_REFUSED] = "refused",
        [FB_STEP_UNABLE] = "unable",
        [FB_STEP_DECLINED] = "declined",
    };
    return name[o];
}

/* A word for a record; what stands before a's name, and after it. */
static const struct {
    const char *word, *before, *after;
} kinds[] = {
    [FB_STEP_FUSE] = {"fuse", "fuse", " and"},
    [FB_STEP_INLINE] = {"inline", "inline", ""},
    [FB_STEP_CALL] = {"call", "one kernel for the call of", ""},
    [FB_STEP_CUT] = {"cut", "cut between", " and"},
    [FB_STEP_FUSE_READERS] = {"readers", "fuse", " with all that reads it"},
    [FB_STEP_FUSE_MEMBERS] = {"members", "one kernel for", " and all its repetitions"},
    [FB_STEP_STORE] = {"store", "store", ""},
    [FB_STEP_LIBRARY] = {"library", "a library call for", ""},
    [FB_STEP_GENERATE] = {"generate", "a generated kernel for", ""},
    [FB_STEP_BEGIN] = {"begin", "begin with the plan of", ""},
    [FB_STEP_ATOMICS] = {"atomics", "atomic additions for", ", in any order"},
    [FB_STEP_ORDERED] = {"ordered", "a fixed order of additions for", ""},
    [FB_STEP_ROLL] = {"roll", "a loop of the steps from", " on"},
};

const char *fb_step_kind_name(fb_step_kind k)
{
    return kinds[k].word;
}

const char *fb_candidate_name(const fb_graph *g, const fb_candidate *c)
{
    return c->kind == FB_STEP_BEGIN ? fb_preset_at(c->a)->name : g->nodes[c->a].name;
}

const char *fb_candidate_other(const fb_graph *g, const fb_candidate *c)
{
    return c->kind == FB_STEP_FUSE || c->kind == FB_STEP_CUT ? g->nodes[c->b].name : NULL;
}

void fb_candidate_text(const fb_graph *g, const fb_candidate *c, fb_str *out)
{
    const char *b = fb_candidate_other(g, c);
    fb_str_addf(out, "%s `%s`%s", kinds[c->kind].before, fb_candidate_name(g, c), kinds[c->kind].after);
    if (b) fb_str_addf(out, " `%s`", b);
}

const char *fb_steps_score_name(const fb_steps *s)
{
    return s->score_name;
}

void fb_steps_score(const fb_steps *s, double score, fb_str *out)
{
    if (s->score && isfinite(score)) s->score(score, out);
}

/* ---- writing the record ---- */

static const char *sentence(fb_steps *s, const char *format, va_list ap)
{
    char text[SENTENCE];
    int n = vsnprintf(text, sizeof text, format, ap);
    if (n >= (int)sizeof text) fb_trim_partial(text);
    return fb_arena_strdup(s->arena, text);
}

static void keep(fb_decider *d, fb_candidate what, fb_step_outcome outcome, fb_beside beside, const char *why,
                 va_list ap)
{
    fb_steps *s = d->log;
    d->n++;
    if (!s) return;
    s->count++;
    if (s->kept.n >= FB_STEPS_KEPT) return;
    fb_step step = {.what = what, .outcome = outcome, .n_open = beside.n, .why = sentence(s, why, ap)};
    step.rolled = fb_planner_written(d->planner) != d->planner;
    step.n_others = beside.n < FB_STEP_OTHERS ? beside.n : FB_STEP_OTHERS;
    if (step.n_others) step.others = fb_arena_copy(s->arena, beside.at, (size_t)step.n_others * sizeof *beside.at);
    FB_VEC_PUSH(&s->kept, step);
}

bool fb_decider_done(const fb_decider *d)
{
    return d->use && d->use->limit >= 0 && d->n >= d->use->limit;
}

static bool user_refuses(const fb_decider *d)
{
    for (int i = 0; d->use && i < d->use->n_no; i++)
        if (d->use->no[i] == d->n + 1) return true;
    return false;
}

bool fb_decide(fb_decider *d, fb_candidate what, fb_beside beside, const char *why, ...)
{
    if (fb_decider_done(d)) return false;
    bool no = user_refuses(d);
    if (no)
        FB_VEC_PUSH(&d->declined, (fb_pair){what.a, what.b});
    else
        FB_VEC_PUSH(&d->taken, (fb_taken){.step = d->n, .what = what});
    va_list ap;
    va_start(ap, why);
    keep(d, what, no ? FB_STEP_DECLINED : FB_STEP_TAKEN, beside, why, ap);
    va_end(ap);
    return !no;
}

void fb_decline_by_rule(fb_decider *d, fb_candidate what, fb_beside beside, const char *why, ...)
{
    if (fb_decider_done(d)) return;
    va_list ap;
    va_start(ap, why);
    keep(d, what, FB_STEP_REFUSED, beside, why, ap);
    va_end(ap);
}

void fb_step_unable(fb_decider *d, int step, const char *verdict, ...)
{
    if (!d->log || step >= d->log->kept.n) return;
    fb_step *s = &d->log->kept.at[step];
    if (s->outcome != FB_STEP_TAKEN) return;
    va_list ap;
    va_start(ap, verdict);
    s->verdict = sentence(d->log, verdict, ap);
    va_end(ap);
    s->outcome = FB_STEP_UNABLE;
}
