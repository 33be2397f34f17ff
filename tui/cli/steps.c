/* Prints a preset's decisions with what stood beside them. Needs the record of one run of the preset. */
#include "tui/cli/steps.h"

#include "base/json.h"
#include "base/mem.h"
#include "tui/cli/cli.h"
#include "tui/show/table.h"

#include <math.h>

static void candidate_with_score(const fb_graph *g, const fb_steps *steps, const fb_candidate *c, fb_str *out)
{
    fb_str score = {0};
    fb_candidate_text(g, c, out);
    fb_steps_score(steps, c->score, &score);
    if (score.n) fb_str_addf(out, " (%s)", fb_str_get(&score));
    fb_str_free(&score);
}

static void step_text(const fb_column *c, const fb_steps *steps, int i, fb_str *out)
{
    const fb_step *s = fb_steps_at(steps, i);
    const fb_graph *g = fb_step_graph(s, fb_plan_planner(c->plan));
    fb_str_addf(out, "%5d  %-8s  ", i + 1, fb_step_outcome_name(s->outcome));
    candidate_with_score(g, steps, &s->what, out);
    fb_str_addf(out, ": %s\n", s->why);
    if (s->verdict) fb_str_addf(out, "                 not here: %s\n", s->verdict);
    for (int k = 0; k < s->n_others; k++) {
        fb_str_add(out, k ? "                         " : "                 beside: ");
        candidate_with_score(g, steps, &s->others[k], out);
        fb_str_add(out, "\n");
    }
    if (s->n_open > s->n_others) fb_str_addf(out, "                         and %d more\n", s->n_open - s->n_others);
}

static void text_of(const fb_column *c, const fb_steps *steps, fb_str *out)
{
    fb_str_addf(out, "%s: %d decisions", c->text, fb_steps_count(steps));
    if (fb_steps_score_name(steps)[0]) fb_str_addf(out, "; in brackets the score: %s", fb_steps_score_name(steps));
    fb_str_add(out, "\n");
    for (int i = 0; i < fb_steps_kept(steps); i++) step_text(c, steps, i, out);
    if (fb_steps_kept(steps) < fb_steps_count(steps))
        fb_str_addf(out, "       and %d more, which are not kept\n", fb_steps_count(steps) - fb_steps_kept(steps));
    int here = fb_plan_groups(c->plan), there = fb_steps_kernels(steps);
    fb_str_addf(out, "       %d kernel%s", here, here == 1 ? "" : "s");
    if (there && there != here) fb_str_addf(out, "; %d if every decision could be generated", there);
    fb_str_add(out, "\n");
}

static json_t *candidate_json(const fb_graph *g, const fb_steps *steps, const fb_candidate *c)
{
    json_t *o = json_pack("{s:s, s:s}", "kind", fb_step_kind_name(c->kind), "a", fb_candidate_name(g, c));
    const char *other = fb_candidate_other(g, c);
    if (other) json_object_set_new(o, "b", json_string(other));
    if (isfinite(c->score) && fb_steps_score_name(steps)[0]) json_object_set_new(o, "score", json_real(c->score));
    return o;
}

static json_t *step_json(const fb_column *c, const fb_steps *steps, int i)
{
    const fb_step *s = fb_steps_at(steps, i);
    const fb_graph *g = fb_step_graph(s, fb_plan_planner(c->plan));
    json_t *o = candidate_json(g, steps, &s->what), *others = json_array();
    json_object_set_new(o, "number", json_integer(i + 1));
    json_object_set_new(o, "outcome", json_string(fb_step_outcome_name(s->outcome)));
    json_object_set_new(o, "why", json_string(s->why));
    if (s->verdict) json_object_set_new(o, "verdict", json_string(s->verdict));
    for (int k = 0; k < s->n_others; k++) json_array_append_new(others, candidate_json(g, steps, &s->others[k]));
    json_object_set_new(o, "open", json_integer(s->n_open));
    json_object_set_new(o, "others", others);
    return o;
}

static json_t *column_json(const fb_column *c, const fb_steps *steps)
{
    json_t *list = json_array();
    for (int i = 0; i < fb_steps_kept(steps); i++) json_array_append_new(list, step_json(c, steps, i));
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:o}", "variant", c->variant, "plan", c->plan_name, "preset",
                     fb_steps_preset(steps), "score", fb_steps_score_name(steps), "decisions", fb_steps_count(steps),
                     "kernels", fb_plan_groups(c->plan), "kernels_decided", fb_steps_kernels(steps), "steps", list);
}

bool fb_cli_steps(const fb_session *s, bool json, FILE *out, fb_error *err)
{
    json_t *columns = json_array();
    fb_str text = {0};
    bool good = true;
    for (int i = 0; good && i < fb_session_columns(s); i++) {
        const fb_column *c = fb_session_column(s, i);
        fb_preset_use use;
        good = fb_session_preset(s, i, &use, err);
        fb_steps *steps = good ? fb_session_steps(s, i, &use, err) : NULL;
        good = steps != NULL;
        if (good && json) json_array_append_new(columns, column_json(c, steps));
        if (good && !json) {
            if (i) fb_str_add(&text, "\n");
            text_of(c, steps, &text);
            fb_put(out, fb_str_get(&text));
            fb_str_clear(&text);
        }
        fb_steps_free(steps);
    }
    if (good && json) {
        json_t *all = json_pack("{s:i, s:O}", "fusebox_steps", 1, "columns", columns);
        char *shown = fb_json_shown(all, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        fprintf(out, "%s\n", shown);
        fb_free(shown);
        json_decref(all);
    }
    json_decref(columns);
    fb_str_free(&text);
    return good;
}
