/* The script's experiment. The script asks for one measurement at a time and waits; each is a hidden column with
 * parameters of its own, freed with its graph once the answer is sent, so that a sweep of thousands runs in the same
 * memory. */
#include "session/internal.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <string.h>

typedef struct fb_experiment_state {
    fb_experiment_hooks hooks;
    int64_t request;
    int process; /* the one that runs it; another one cannot go on */
    fb_column_record *measuring;
    bool asked; /* whether its report is known already */
    bool ended;
} fb_experiment_state;

bool fb_session_experiment(fb_session *s, const fb_experiment_hooks *hooks, fb_error *err)
{
    if (!s->info || !s->info->experiment || !s->script)
        return fb_fail(err, FB_ERR_INPUT, "the script has no experiment");
    if (s->experiment) return fb_fail(err, FB_ERR_INPUT, "the experiment is running already");
    s->experiment = fb_calloc(1, sizeof *s->experiment);
    s->experiment->hooks = *hooks;
    if (!fb_script_ready(s, err)) {
        fb_experiment_free(s);
        return false;
    }
    s->experiment->process = s->process;
    s->experiment->request = fb_script_experiment(s->script, s->params);
    s->experiment_error = (fb_error){0};
    return true;
}

const fb_error *fb_session_experiment_error(const fb_session *s)
{
    return &s->experiment_error;
}

static void drop_column(fb_session *s)
{
    fb_column_record *c = s->experiment->measuring;
    if (!c) return;
    for (int i = 0; i < s->hidden.n; i++)
        if (s->hidden.at[i] == c) s->hidden.at[i] = s->hidden.at[--s->hidden.n];
    fb_column_free(c);
    s->experiment->measuring = NULL;
}

static void end(fb_session *s, const fb_error *why)
{
    if (why) s->experiment_error = *why;
    s->experiment->ended = true;
}

/* ---- measure ---- */

static void reply(fb_session *s, json_t *report)
{
    fb_script_measured(s->script, report);
    json_decref(report);
}

static void reply_failed(fb_session *s, const fb_error *why)
{
    reply(s, json_pack("{s:s, s:s}", "failed", why->text, "failed_kind", fb_error_kind_name(why->kind)));
}

static fb_column_record *column_of_case(fb_session *s, const json_t *message, json_t **params, fb_error *err)
{
    const char *standard = s->info->n_variants == 1 ? s->info->variants[0] : NULL;
    const char *variant = fb_json_string_or(message, "variant", standard);
    const char *plan = fb_json_string_or(message, "plan", "max"), *device = fb_json_string_or(message, "device", NULL);
    if (!variant || (!variant[0] && s->info->n_variants > 1)) {
        fb_fail(err, FB_ERR_INPUT, "measure: name a variant: the script has %d", s->info->n_variants);
        return NULL;
    }
    *params = fb_params_merge(s, json_object_get(message, "params"), err);
    if (!*params) return NULL;
    fb_str spec = {0};
    fb_str_addf(&spec, "%s%s%s%s%s", variant, variant[0] ? ":" : "", plan, device && device[0] ? "@" : "",
                device && device[0] ? device : "");
    fb_column_record *c = fb_column_new(s, spec.text, err);
    fb_str_free(&spec);
    if (!c) {
        json_decref(*params);
        return NULL;
    }
    return c;
}

static void measure(fb_session *s, const json_t *message)
{
    fb_error why = {0};
    json_t *params = NULL;
    fb_column_record *c = column_of_case(s, message, &params, &why);
    if (!c) {
        reply_failed(s, &why);
        return;
    }
    c->hidden = true;
    c->params = params;
    s->experiment->measuring = c;
    s->experiment->asked = false;
    FB_VEC_PUSH(&s->hidden, c);
}

/* Its graph and plan are known: what was measured of the same ones before need not be measured again. */
static bool begin(fb_session *s, fb_column_record *c)
{
    fb_experiment_state *x = s->experiment;
    x->asked = true;
    json_t *known = x->hooks.known ? x->hooks.known(x->hooks.ctx, &c->shown) : NULL;
    if (!known) {
        fb_job_start(s, c, false);
        return false;
    }
    reply(s, known);
    return true;
}

/* A failure that is known is none to write down again. */
static bool is_known_failure(const fb_experiment_state *x, const fb_column_record *c, const fb_report *r)
{
    if (!r->failed) return false;
    json_t *known = x->hooks.known ? x->hooks.known(x->hooks.ctx, &c->shown) : NULL;
    const char *text = fb_json_string_or(known, "failed", NULL);
    bool same = text && strcmp(text, r->failed) == 0;
    json_decref(known);
    return same;
}

static void finish(fb_session *s, fb_column_record *c)
{
    fb_experiment_state *x = s->experiment;
    fb_error why = {0};
    fb_report *r = fb_column_report(c);
    if (!is_known_failure(x, c, r) && x->hooks.measured && !x->hooks.measured(x->hooks.ctx, r, &why))
        end(s, &why);
    else
        reply(s, fb_report_to_json(r));
    fb_report_free(r);
}

/* ---- events ---- */

void fb_experiment_event(fb_session *s, fb_script_event *e)
{
    fb_experiment_state *x = s->experiment;
    if (!x || x->ended) return;
    const fb_experiment_hooks *h = &x->hooks;
    fb_error why = {0};
    bool fine = true;
    switch (e->kind) {
    case FB_SCRIPT_MEASURE: measure(s, e->message); break;
    case FB_SCRIPT_ROW:
        fine = !h->row || h->row(h->ctx, json_object_get(e->message, "case"), json_object_get(e->message, "row"), &why);
        break;
    case FB_SCRIPT_PLOT: fine = !h->plot || h->plot(h->ctx, e->message, &why); break;
    case FB_SCRIPT_DONE: end(s, NULL); break;
    case FB_SCRIPT_ERROR:
        if (e->id == x->request || !e->id) end(s, &e->error);
        break;
    default: break;
    }
    if (!fine) end(s, &why);
}

void fb_experiment_pump(fb_session *s)
{
    fb_experiment_state *x = s->experiment;
    if (!x) return;
    if (!x->ended && x->process != s->process) end(s, &s->script_error);
    fb_column_record *c = x->ended ? NULL : x->measuring;
    fb_column_state state = c ? c->shown.state : FB_COLUMN_BUILDING;
    if (state == FB_COLUMN_READY && !x->asked && begin(s, c)) {
        drop_column(s);
    } else if (state == FB_COLUMN_DONE || state == FB_COLUMN_FAILED) {
        finish(s, c);
        drop_column(s);
    }
    if (x->ended) {
        drop_column(s);
        fb_free(x);
        s->experiment = NULL;
        fb_session_changed(s);
    }
}

void fb_experiment_free(fb_session *s)
{
    if (!s->experiment) return;
    drop_column(s);
    fb_free(s->experiment);
    s->experiment = NULL;
}
