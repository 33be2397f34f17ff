/* Runs an experiment beside the panes: starts and stops it, and keeps its rows in a file of its own. */
#include "tui/view/sweep.h"

#include "base/json.h"
#include "base/mem.h"
#include "session/library.h"
#include "tui/view/ui.h"

#include <string.h>

static void close_file(fb_sweep *s)
{
    fb_results_close(s->of.results);
    s->of.results = NULL;
}

/* Rows that cannot be kept are shown all the same. */
static void open_file(fb_app *app, const char *file)
{
    fb_sweep *s = &app->sweep;
    fb_error err = {0};
    if (*file)
        snprintf(s->file, sizeof s->file, "%s", file);
    else if (!*s->file && !fb_keep_path(app, "experiment", "jsonl", s->file, sizeof s->file))
        *s->file = '\0';
    s->of.results = *s->file ? fb_results_open(s->file, &err) : NULL;
    if (s->of.results) return;
    if (err.kind)
        fb_app_say(app, FB_ROLE_WARN, "the rows are not kept: %s", err.text);
    else
        fb_app_say(app, FB_ROLE_WARN, "the rows are not kept: there is no place for them");
    *s->file = '\0';
}

void fb_sweep_start(fb_app *app, const char *file)
{
    fb_sweep *s = &app->sweep;
    fb_error err = {0};
    if (fb_session_experiment_runs(app->session)) {
        fb_app_say(app, FB_ROLE_WARN, "the experiment is running: x stops it");
        return;
    }
    close_file(s);
    open_file(app, file);
    json_decref(s->of.cases);
    json_decref(s->of.plots);
    s->of = (fb_gather){
        .session = app->session, .results = s->of.results, .retry = true, .cases = json_array(), .plots = json_array()};
    s->run++;
    s->begun = s->runs = fb_gather_start(&s->of, &err);
    if (s->runs) return;
    close_file(s);
    fb_app_say(app, FB_ROLE_BAD, "%s", err.text);
}

static void tell_end(fb_app *app)
{
    const fb_sweep *s = &app->sweep;
    size_t n = json_array_size(s->of.cases);
    if (s->ended.kind == FB_ERR_CANCELLED)
        fb_app_say(app, FB_ROLE_DIM, "%s after %zu row%s: m goes on where it stopped", s->ended.text, n,
                   n == 1 ? "" : "s");
    else if (s->ended.kind)
        fb_app_say(app, FB_ROLE_BAD, "%s", s->ended.text);
    else if (s->of.failed)
        fb_app_say(app, FB_ROLE_WARN, "the experiment has ended: %d of %d cases failed; the first: %s", s->of.failed,
                   s->of.n, s->of.first.text);
    else if (s->of.n && s->of.away == s->of.n)
        fb_app_say(app, FB_ROLE_WARN, "none of %d cases could be measured here", s->of.n);
    else
        fb_app_say(app, FB_ROLE_GOOD, "the experiment has ended: %zu row%s%s%s", n, n == 1 ? "" : "s",
                   *s->file ? ", kept in " : "", s->file);
}

void fb_sweep_follow(fb_app *app)
{
    fb_sweep *s = &app->sweep;
    if (!s->runs || fb_session_experiment_runs(app->session)) return;
    s->runs = false;
    s->ended = *fb_session_experiment_error(app->session);
    close_file(s);
    tell_end(app);
}

void fb_sweep_forget(fb_app *app)
{
    fb_sweep *s = &app->sweep;
    close_file(s);
    json_decref(s->of.cases);
    json_decref(s->of.plots);
    *s = (fb_sweep){.run = s->run + 1};
}

bool fb_sweep_progress(const fb_app *app, fb_str *text)
{
    const fb_column *c = fb_session_experiment_column(app->session);
    if (!fb_session_experiment_runs(app->session)) return false;
    size_t n = json_array_size(app->sweep.of.cases);
    fb_str_addf(text, "experiment: %zu row%s", n, n == 1 ? "" : "s");
    if (c && *c->progress) fb_str_addf(text, " · %s", c->progress);
    return true;
}

/* ---- one of its cases ---- */

static int column_of(const fb_app *app, const json_t *which)
{
    const char *variant = fb_json_string_or(which, "variant", ""), *plan = fb_json_string_or(which, "plan", ""),
               *device = fb_json_string_or(which, "device", "");
    for (int i = 0; i < fb_session_columns(app->session); i++) {
        const fb_column *c = fb_session_column(app->session, i);
        if (!strcmp(c->variant, variant) && !strcmp(c->plan_name, plan) && (!*device || !strcmp(c->device, device)))
            return i;
    }
    return FB_NONE;
}

static bool set_params(fb_app *app, const json_t *params)
{
    const char *name;
    json_t *value;
    fb_error err = {0};
    json_object_foreach((json_t *)params, name, value)
    {
        const json_t *now = fb_session_param(app->session, name);
        if (!now || json_equal((json_t *)now, value)) continue;
        if (!fb_session_set_param(app->session, name, value, &err)) {
            fb_app_say(app, FB_ROLE_BAD, "%s", err.text);
            return false;
        }
    }
    return true;
}

void fb_sweep_open_case(fb_app *app, const json_t *row)
{
    const json_t *which = json_object_get(row, "case"), *params = json_object_get(row, "params");
    fb_str spec = {0};
    fb_error err = {0};
    bool fine = fb_tried_spec(row, &spec, &err);
    if (!fine) {
        fb_app_say(app, FB_ROLE_BAD, "%s", err.text);
    } else if (fb_puzzle_hides(app, fb_str_get(&spec))) {
        fb_app_say(app, FB_ROLE_WARN, "hidden until the puzzle is answered: t shows it");
    } else if (set_params(app, params ? params : json_object_get(which, "params"))) {
        int at = column_of(app, which);
        bool new = at == FB_NONE;
        if (new) at = fb_session_add(app->session, fb_str_get(&spec), &err);
        if (at < 0) {
            fb_app_say(app, FB_ROLE_BAD, "%s", err.text);
        } else {
            app->column = at;
            app->chosen = app->touched = true;
            if (new) app->first_measured = false; /* it joins the measurement once it is there */
            app->n_over = 0;
            app->zoomed = false;
            app->focus = FB_VIEW_GRAPH;
            fb_app_say(app, FB_ROLE_DIM, "the columns with that case's parameters: . goes back to the experiment");
        }
    }
    fb_str_free(&spec);
    fb_model_update(app);
}
