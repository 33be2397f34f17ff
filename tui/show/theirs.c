/* Writes out what a framework's compiler decided, and how a plan of ours differs from it. Needs the values of
 * measure/theirs.h; a preset's record of its decisions says which of its rules is meant. */
#include "tui/show/theirs.h"

#include <string.h>

static void print_resources(const fb_their_kernel *k, fb_str *out)
{
    if (k->registers >= 0) fb_str_addf(out, ", %d registers", k->registers);
    if (k->shared_bytes > 0) fb_str_addf(out, ", %d bytes shared", k->shared_bytes);
    if (k->spills > 0) fb_str_addf(out, ", %d spilled", k->spills);
}

void fb_show_theirs(const fb_theirs *t, fb_str *out)
{
    long long n = fb_theirs_launches(t);
    fb_str_addf(out, "%s %s: %lld kernel%s\n", t->by, t->version, n, n == 1 ? "" : "s");
    for (int i = 0; i < t->n_kernels; i++) {
        const fb_their_kernel *k = &t->kernels[i];
        fb_str_addf(out, "%4d  %-9s ", i + 1, k->kind);
        for (int j = 0; j < k->nodes.n; j++) fb_str_addf(out, " %s", k->nodes.at[j]);
        if (!k->nodes.n) fb_str_add(out, " (stands for no node)");
        if (k->count > 1) fb_str_addf(out, "  × %lld", (long long)k->count);
        fb_str_addf(out, "\n                 %s", *k->name ? k->name : "(no name)");
        print_resources(k, out);
        fb_str_add(out, "\n");
    }
    if (t->n_apart) fb_str_add(out, "apart\n");
    for (int i = 0; i < t->n_apart; i++)
        fb_str_addf(out, "  %s → %s: %s\n", t->apart[i].from, t->apart[i].to,
                    t->apart[i].why ? t->apart[i].why : "its log gives no reason");
}

bool fb_show_theirs_sources(const fb_theirs *t, fb_str *out)
{
    bool any = false;
    for (int i = 0; i < t->n_kernels; i++) {
        const fb_their_kernel *k = &t->kernels[i];
        bool seen = !k->source;
        for (int j = 0; j < i && !seen; j++) seen = t->kernels[j].source && strcmp(t->kernels[j].name, k->name) == 0;
        if (seen) continue;
        fb_str_addf(out, "%s# %s\n%s%s", any ? "\n" : "", k->name, k->source,
                    *k->source && k->source[strlen(k->source) - 1] == '\n' ? "" : "\n");
        any = true;
    }
    return any;
}

void fb_show_theirs_said(const fb_theirs_beside *b, fb_str *out)
{
    fb_str_addf(out, "%d of %d edge%s are fused in both or in neither", b->equal, b->edges, b->edges == 1 ? "" : "s");
    if (b->edges) fb_str_addf(out, " (%.1f %%)", 100.0 * b->equal / b->edges);
    fb_str_addf(out, "; %d of our %lld kernel%s hold the same as one of their %lld", b->alike, (long long)b->kernels,
                b->kernels == 1 ? "" : "s", (long long)b->their_kernels);
    if (b->nameless) fb_str_addf(out, ", of which %d stand for no node", b->nameless);
    if (b->unknown) fb_str_addf(out, "; of %d edges theirs is not known", b->unknown);
}

/* The decision that is about this edge, or about the kernels at its ends; -1. */
static int decision_on(const fb_plan *plan, const fb_steps *steps, const fb_their_edge *e)
{
    int a = fb_plan_group_of(plan, e->producer), b = fb_plan_group_of(plan, e->consumer), found = -1;
    for (int i = 0; steps && i < fb_steps_kept(steps); i++) {
        const fb_step *s = fb_steps_at(steps, i);
        bool taken = s->outcome == FB_STEP_TAKEN, inlines = s->what.kind == FB_STEP_INLINE;
        if (s->rolled || taken == e->theirs) continue;
        if (inlines && s->what.a == e->producer) return i;
        if (s->what.kind != FB_STEP_FUSE) continue;
        if (s->what.a == e->producer && s->what.b == e->consumer) return i;
        int x = fb_plan_group_of(plan, s->what.a), y = fb_plan_group_of(plan, s->what.b);
        if (found < 0 && ((x == a && y == b) || (x == b && y == a))) found = i;
    }
    return found;
}

void fb_show_theirs_beside(const fb_theirs_beside *b, const fb_plan *plan, const fb_steps *steps, fb_str *out)
{
    const fb_graph *g = fb_planner_deps(fb_plan_planner(plan))->graph;
    for (int i = 0; i < b->n; i++) {
        const fb_their_edge *e = &b->differ[i];
        int at = decision_on(plan, steps, e);
        fb_str_addf(out, "  %s → %s: %s\n", g->nodes[e->producer].name, g->nodes[e->consumer].name,
                    e->theirs ? "one kernel there, two here" : "two kernels there, one here");
        if (e->why) fb_str_addf(out, "      there: %s\n", e->why);
        if (at < 0) continue;
        const fb_step *s = fb_steps_at(steps, at);
        fb_str_addf(out, "      here: decision %d of `%s`, %s: ", at + 1, fb_steps_preset(steps),
                    fb_step_outcome_name(s->outcome));
        fb_candidate_text(g, &s->what, out);
        fb_str_addf(out, ": %s%s%s\n", s->why, s->verdict ? "; " : "", s->verdict ? s->verdict : "");
    }
}
