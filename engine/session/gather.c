/* Rows of an experiment on their way into a results file and onto the screen. Needs the script's process; a case
 * whose row the file holds is answered from there. */
#include "session/gather.h"

#include "base/json.h"

#include <string.h>

static const json_t *find(const fb_gather *g, const fb_column *c)
{
    const json_t *row = g->results ? fb_results_find(g->results, fb_session_path(g->session), c) : NULL;
    bool again = row && g->retry && fb_json_string_or(row, "failed", NULL);
    return again ? NULL : row;
}

static json_t *known(void *ctx, const fb_column *c)
{
    fb_gather *g = ctx;
    json_t *row = json_incref((json_t *)find(g, c));
    g->known += row != NULL;
    return row;
}

static bool keep(fb_gather *g, json_t *row, fb_error *err)
{
    return !g->results || fb_results_add(g->results, row, err);
}

static bool measured(void *ctx, const fb_report *report, fb_error *err)
{
    json_t *row = fb_report_to_json(report);
    bool fine = keep(ctx, row, err);
    json_decref(row);
    return fine;
}

static void answered(void *ctx, const json_t *report)
{
    fb_gather *g = ctx;
    const char *why = fb_json_string_or(report, "failed", NULL);
    fb_error_kind kind = fb_error_kind_parse(fb_json_string_or(report, "failed_kind", ""));
    const char *device = fb_json_string_or(report, "device", NULL);
    if (g->devices && device) json_object_set_new(g->devices, device, json_true());
    g->n++;
    if (!why) return;
    if (kind == FB_ERR_UNAVAILABLE)
        g->away++;
    else if (!g->failed++)
        fb_fail(&g->first, kind, "%s", why);
}

/* What every parameter was set to: those that the case names, and the others as they are. */
static json_t *params_of(const fb_gather *g, const json_t *which)
{
    const fb_script_info *info = fb_session_script(g->session);
    json_t *all = json_object();
    for (int i = 0; info && i < info->n_params; i++) {
        const char *name = info->params[i].name;
        const json_t *own = json_object_get(json_object_get(which, "params"), name);
        json_object_set(all, name, own ? (json_t *)own : (json_t *)fb_session_param(g->session, name));
    }
    return all;
}

static bool row(void *ctx, const json_t *which, const json_t *values, fb_figure_source kind, fb_error *err)
{
    fb_gather *g = ctx;
    json_t *whole = json_pack("{s:O, s:O, s:s, s:o}", "case", which, "row", values, "source",
                              fb_report_source_name(kind), "params", params_of(g, which));
    const json_t *held = g->results ? fb_results_find_case(g->results, which) : NULL;
    bool same = held && json_equal((json_t *)held, whole), fine = same || keep(g, whole, err);
    json_array_append_new(g->cases, whole);
    return fine;
}

static bool plot(void *ctx, const json_t *what, fb_error *err)
{
    (void)err;
    fb_gather *g = ctx;
    json_t *copy = json_deep_copy(what);
    json_object_del(copy, "type");
    json_object_del(copy, "id");
    json_array_append_new(g->plots, copy);
    return true;
}

bool fb_gather_start(fb_gather *g, fb_error *err)
{
    const fb_experiment_hooks hooks = {
        .ctx = g, .known = known, .measured = measured, .answered = answered, .row = row, .plot = plot};
    g->n = g->known = g->away = g->failed = 0;
    return fb_session_experiment(g->session, &hooks, err);
}
