/* The script's experiment. The script asks for one measurement at a time and waits; each is a hidden column with
 * parameters of its own, freed with its graph once the answer is sent, so that a sweep of thousands runs in the same
 * memory. */
#include "session/internal.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "decide/preset.h"

#include <string.h>

typedef struct fb_experiment_state {
    fb_experiment_hooks hooks;
    int64_t request;
    int process; /* the one that runs it; another one cannot go on */
    fb_column_record *measuring;
    bool asked;            /* whether its report is known already */
    fb_figure_source kind; /* the least certain one measured since the last row, */
    json_t *kinds;         /* and of each case, by its line */
    char *line;            /* of the case being measured */
    bool stopping;         /* the script is told so as soon as it measures again */
    bool ended;
} fb_experiment_state;

bool fb_session_experiment(fb_session *s, const fb_experiment_hooks *hooks, fb_error *err)
{
    if (!s->info || !s->info->experiment || !s->script)
        return fb_fail(err, FB_ERR_INPUT, "the script has no experiment");
    if (s->experiment) return fb_fail(err, FB_ERR_INPUT, "the experiment is running already");
    s->experiment_error = (fb_error){0};
    s->experiment = fb_calloc(1, sizeof *s->experiment);
    s->experiment->hooks = *hooks;
    if (!fb_session_script_ready(s, err)) {
        fb_experiment_free(s);
        return false;
    }
    s->experiment->process = s->process;
    s->experiment->request = fb_script_experiment(s->script, s->params);
    fb_session_changed(s);
    return true;
}

bool fb_session_experiment_runs(const fb_session *s)
{
    return s->experiment != NULL;
}

const fb_column *fb_session_experiment_column(const fb_session *s)
{
    return s->experiment && s->experiment->measuring ? &s->experiment->measuring->shown : NULL;
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

static void state_free(fb_experiment_state *x)
{
    json_decref(x->kinds);
    fb_free(x->line);
    fb_free(x);
}

static void end(fb_session *s, const fb_error *why)
{
    if (s->experiment->stopping)
        fb_fail(&s->experiment_error, FB_ERR_CANCELLED, "the experiment was stopped");
    else if (why)
        s->experiment_error = *why;
    s->experiment->ended = true;
}

/* The script itself ends it: it stands in the middle of its function, and is to be asked for graphs again. */
void fb_session_stop_experiment(fb_session *s)
{
    fb_experiment_state *x = s->experiment;
    if (!x || x->ended) return;
    x->stopping = true;
    if (!x->measuring) return;
    drop_column(s);
    fb_script_stop(s->script);
    fb_session_changed(s);
}

/* The script's process gives way to another one. */
void fb_experiment_lost(fb_session *s)
{
    fb_experiment_state *x = s->experiment;
    if (!x || x->ended) return;
    drop_column(s);
    x->ended = true;
    fb_fail(&s->experiment_error, FB_ERR_CANCELLED, "the script was loaded again");
}

bool fb_experiment_asked(const fb_session *s, int64_t id)
{
    return s->experiment && id > 0 && id == s->experiment->request;
}

/* ---- kinds: a row is as certain as what was measured for it ---- */

static char *line_of(const json_t *which)
{
    json_t *of = json_object();
    static const char *const keys[] = {"variant", "plan", "device", "params"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(which, keys[i])) json_object_set(of, keys[i], json_object_get(which, keys[i]));
    char *line = fb_json_line(of);
    json_decref(of);
    return line;
}

static void note_kind(fb_experiment_state *x, const json_t *report)
{
    const char *source = fb_json_string_or(report, "source", "");
    fb_figure_source kind = FB_SOURCE_MEASURED;
    for (int k = FB_SOURCE_MEASURED; k <= FB_SOURCE_PREDICTED; k++)
        if (strcmp(source, fb_report_source_name((fb_figure_source)k)) == 0) kind = (fb_figure_source)k;
    if (kind > x->kind) x->kind = kind;
    if (!x->kinds) x->kinds = json_object();
    if (x->line) json_object_set_new(x->kinds, x->line, json_integer(kind));
}

static fb_figure_source kind_of(fb_experiment_state *x, const json_t *which)
{
    char *line = line_of(which);
    const json_t *known = json_object_get(x->kinds, line);
    fb_figure_source kind = known ? (fb_figure_source)json_integer_value(known) : x->kind;
    fb_free(line);
    x->kind = FB_SOURCE_MEASURED;
    return kind;
}

/* ---- measure ---- */

static void reply(fb_session *s, json_t *report)
{
    const fb_experiment_hooks *h = &s->experiment->hooks;
    if (h->answered) h->answered(h->ctx, report);
    note_kind(s->experiment, report);
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
    const char *plan = fb_json_string_or(message, "plan", fb_preset_recommended),
               *device = fb_json_string_or(message, "device", NULL);
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
    fb_free(s->experiment->line);
    s->experiment->line = line_of(message);
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
    case FB_SCRIPT_MEASURE:
        if (x->stopping)
            fb_script_stop(s->script);
        else
            measure(s, e->message);
        break;
    case FB_SCRIPT_ROW:
        fine = !h->row || h->row(h->ctx, json_object_get(e->message, "case"), json_object_get(e->message, "row"),
                                 kind_of(x, json_object_get(e->message, "case")), &why);
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
        state_free(x);
        s->experiment = NULL;
        fb_session_changed(s);
    }
}

void fb_experiment_free(fb_session *s)
{
    if (!s->experiment) return;
    drop_column(s);
    state_free(s->experiment);
    s->experiment = NULL;
}
