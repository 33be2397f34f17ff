/* Columns: from what was typed to variant, plan and device, and on to a prediction. A column that fails keeps its
 * reason. Needs the slot with its graph; leaves plans to edits.c and figures to the worker's reports. */
#include "session/internal.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "interp/input.h"
#include "session/names.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PLAN_FILE_MAX = 16 << 20 };

static void set_text(char **to, const char *text)
{
    char *copy = fb_session_copy_text(text); /* `text` may be what is replaced */
    fb_free(*to);
    *to = copy;
}

/* Keeps the pointers of the public record on what the private one owns. */
static void show(fb_column_record *c)
{
    fb_str text = {0};
    if (c->variant && c->variant[0]) fb_str_addf(&text, "%s:", c->variant);
    fb_str_add(&text, c->plan_name);
    if (c->device) fb_str_addf(&text, "@%s", c->device);
    if (c->inputs) fb_str_addf(&text, "#%s", c->inputs);
    fb_free(c->text);
    c->text = fb_str_take(&text);
    c->shown.text = c->text;
    c->shown.variant = c->variant ? c->variant : "";
    c->shown.plan_name = c->plan_name;
    c->shown.report = c->report;
    c->shown.before = c->before;
    c->shown.search = c->searched && strcmp(c->plan_name, FB_SEARCH_NAME) == 0 ? &c->search : NULL;
    fb_session_changed(c->session);
}

void fb_column_set_state(fb_column_record *c, fb_column_state state)
{
    c->shown.state = state;
    if (state != FB_COLUMN_FAILED) c->shown.error = (fb_error){0};
    if (state != FB_COLUMN_MEASURING) {
        c->shown.progress[0] = '\0';
        c->shown.fraction = NAN;
    }
    show(c);
}

void fb_column_fail(fb_column_record *c, const fb_error *why)
{
    fb_job_forget(c);
    c->measure_wanted = c->verify_wanted = false;
    if (!c->shown.device[0]) {
        const char *device = fb_session_default_device(c->session);
        c->shown.device = device ? device : "";
    }
    fb_column_set_state(c, FB_COLUMN_FAILED);
    c->shown.error = *why;
    if (why->kind == FB_OK) c->shown.error.kind = FB_ERR_SYSTEM;
}

bool fb_column_foreign(const fb_column_record *c)
{
    return c->shown.machine && !c->shown.machine->target->generates;
}

/* ---- what a column may be of ---- */

static bool known_variant(const fb_script_info *info, const char *variant, fb_error *err)
{
    for (int i = 0; i < info->n_variants; i++)
        if (strcmp(info->variants[i], variant) == 0) return true;
    if (info->n_variants == 1 && !info->variants[0][0])
        return fb_fail(err, FB_ERR_USAGE, "no variant \"%.80s\": the script is a single model", variant);
    return fb_fail_unknown(err, FB_ERR_USAGE, "variant", variant, info->variants, info->n_variants);
}

static bool script_plan(const fb_script_info *info, const char *name)
{
    for (int i = 0; i < info->n_plans; i++)
        if (strcmp(info->plans[i], name) == 0) return true;
    return false;
}

static bool looks_like_file(const char *name)
{
    size_t n = strlen(name);
    return strchr(name, '/') || (n > 5 && strcmp(name + n - 5, ".json") == 0);
}

static bool known_plan(const fb_script_info *info, const char *name, fb_error *err)
{
    fb_preset_use use;
    fb_error badly = {0};
    if (fb_preset_parse(name, &use, &badly) || strcmp(name, FB_SEARCH_NAME) == 0 || script_plan(info, name))
        return true;
    if (badly.kind) {
        if (err) *err = badly;
        return false;
    }
    if (access(name, R_OK) == 0) return true;
    if (looks_like_file(name)) return fb_fail(err, FB_ERR_INPUT, "%s: no such plan file", name);
    for (int i = 0; i < info->n_variants; i++)
        if (strcmp(info->variants[i], name) == 0)
            return fb_fail(err, FB_ERR_USAGE, "\"%s\" is a variant, not a plan: write \"%s:eager\" or the like", name,
                           name);
    fb_arena *arena = fb_arena_new();
    int n = 0;
    const char **names = FB_NEW_ARRAY(arena, const char *, fb_presets_all() + 1 + info->n_plans);
    for (int i = 0; i < fb_presets_all(); i++) names[n++] = fb_preset_at(i)->name;
    names[n++] = FB_SEARCH_NAME;
    for (int i = 0; i < info->n_plans; i++) names[n++] = info->plans[i];
    fb_fail_unknown(err, FB_ERR_USAGE, "preset or plan", name, names, n);
    fb_arena_free(arena);
    return false;
}

/* Foreign devices have plans of their own, which only they know. */
static bool plan_fits(fb_session *s, const char *plan, const char *device, fb_error *err)
{
    bool wait = false;
    fb_error why = {0};
    fb_device_record *d = fb_session_device_named(s, device, &wait, &why);
    if (!d && !wait) {
        if (err) *err = why;
        return false;
    }
    return (d && !d->target->generates) || known_plan(s->info, plan, err);
}

/* ---- making and freeing ---- */

static fb_column_record *record_new(fb_session *s, const fb_column_spec *spec)
{
    fb_column_record *c = fb_calloc(1, sizeof *c);
    c->session = s;
    c->variant = fb_session_copy_text(spec->variant);
    c->variant_given = spec->variant != NULL;
    c->plan_name = fb_strdup(spec->plan);
    c->base = fb_strdup(spec->plan);
    c->device = fb_session_copy_text(spec->device);
    c->shown.device = c->device ? c->device : "";
    const char *values = spec->values ? spec->values : s->options.values;
    if (values && strcmp(values, fb_input_kind_name(FB_INPUT_NOISE)) != 0) c->inputs = fb_strdup(values);
    c->shown.values = c->inputs;
    fb_column_set_state(c, FB_COLUMN_BUILDING);
    return c;
}

/* Said in full, whatever is usual in the session. */
static char *inputs_given(const fb_column_record *c)
{
    return c->inputs ? c->inputs : (char *)(uintptr_t)fb_input_kind_name(FB_INPUT_NOISE);
}

fb_column_record *fb_column_new(fb_session *s, const char *text, fb_error *err)
{
    fb_column_spec spec;
    if (!fb_column_spec_parse(text, &spec, err)) return NULL;
    if (s->info && s->info->n_variants == 1 && !spec.variant) spec.variant = fb_strdup(s->info->variants[0]);
    bool fine = !s->info || ((!spec.variant || known_variant(s->info, spec.variant, err)) &&
                             plan_fits(s, spec.plan, spec.device, err));
    fb_column_record *c = fine ? record_new(s, &spec) : NULL;
    fb_column_spec_free(&spec);
    return c;
}

void fb_column_free(fb_column_record *c)
{
    if (!c) return;
    fb_job_forget(c);
    fb_scheduler_unpair(c);
    fb_column_forget_plan(c, false);
    fb_slot_release(c->session, c->slot);
    fb_slot_release(c->session, c->next);
    fb_report_free(c->report);
    fb_report_free(c->before);
    fb_timeline_free(c->timeline);
    fb_values_free(c->values);
    fb_free(c->looked_at);
    FB_VEC_FREE(&c->names);
    json_decref(c->carried);
    json_decref(c->obeyed);
    json_decref(c->params);
    fb_free(c->text);
    fb_free(c->variant);
    fb_free(c->plan_name);
    fb_free(c->base);
    fb_free(c->device);
    fb_free(c->inputs);
    fb_session_changed(c->session);
    fb_free(c);
}

static void insert_at(fb_session *s, int at, fb_column_record *c)
{
    FB_VEC_PUSH(&s->columns, c);
    memmove(s->columns.at + at + 1, s->columns.at + at, (size_t)(s->columns.n - 1 - at) * sizeof c);
    s->columns.at[at] = c;
    fb_session_changed(s);
}

static void expand(fb_session *s, int at)
{
    fb_column_record *first = s->columns.at[at];
    const fb_script_info *info = s->info;
    for (int i = 0; i < info->n_variants; i++) {
        fb_column_spec spec = {(char *)info->variants[i], first->base, first->device, inputs_given(first)};
        fb_column_record *c = record_new(s, &spec);
        c->measure_wanted = first->measure_wanted;
        c->verify_wanted = first->verify_wanted;
        insert_at(s, at + 1 + i, c);
    }
    fb_column_free(first);
    memmove(s->columns.at + at, s->columns.at + at + 1, (size_t)(--s->columns.n - at) * sizeof first);
}

void fb_session_expand_columns(fb_session *s)
{
    for (int i = 0; i < s->columns.n; i++)
        if (!s->columns.at[i]->variant_given) {
            expand(s, i);
            i += s->info->n_variants - 1;
        }
}

/* ---- from spec to plan ---- */

void fb_column_rebuild(fb_column_record *c, bool carry)
{
    fb_job_forget(c);
    c->shown.searching = false;
    if (carry && fb_column_edited(c) && !c->carried) c->carried = fb_plan_to_json(fb_history_now(c->history));
    if (!carry) {
        json_decref(c->carried);
        c->carried = NULL;
    }
    fb_slot_release(c->session, c->next);
    c->next = NULL;
    if (c->slot && !c->slot->graph) { /* it failed: the next attempt is a new one */
        fb_slot_release(c->session, c->slot);
        c->slot = NULL;
        c->shown.params = NULL;
    }
    c->plan_request = 0;
    c->plan_wanted = true;
    fb_report_free(c->report);
    fb_report_free(c->before);
    c->report = c->before = NULL;
    c->changed_ns = fb_now_ns();
    fb_column_set_state(c, FB_COLUMN_BUILDING);
}

static const json_t *params_of(const fb_column_record *c)
{
    return c->params ? c->params : c->session->params;
}

/* The slot it waits for, once: whether the column has just come to its graph. */
static bool take_graph(fb_column_record *c)
{
    fb_session *s = c->session;
    if (!c->next) {
        fb_error why = {0};
        if (!known_variant(s->info, c->variant, &why)) {
            fb_column_fail(c, &why);
            return true;
        }
        c->next = fb_slot_get(s, c->variant, params_of(c));
        fb_slot_take(c->next);
    }
    if (!c->next->graph && !c->next->error.kind) return false;
    fb_column_forget_plan(c, true);
    fb_slot_release(s, c->slot);
    c->slot = c->next; /* also one that failed: the graph of other parameters must not stand for it */
    c->next = NULL;
    c->shown.graph = c->shown.written = c->slot->graph;
    c->shown.params = c->slot->params;
    c->shown.computes = c->slot->computes;
    if (c->slot->error.kind) fb_column_fail(c, &c->slot->error);
    return true;
}

static void log_dropped(fb_column_record *c, fb_str *dropped)
{
    char *rest = NULL;
    for (char *line = dropped->text ? strtok_r(dropped->text, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        fb_session_say(c->session, "%s: %s", c->text, line);
}

static fb_plan *plan_of_file(const char *path, fb_planner *planner, fb_error *err)
{
    size_t n;
    char *text = fb_read_file(path, PLAN_FILE_MAX, &n, err);
    if (!text) return NULL;
    json_t *value = fb_json_parse(text, n, err);
    char folder[PATH_MAX];
    bool located = value && fb_kernels_locate(value, fb_kernels_folder(path, folder), false, err);
    fb_plan *plan = located ? fb_plan_from_json(planner, value, true, NULL, err) : NULL;
    if (!plan) fb_fail_prefix(err, "%s", path);
    json_decref(value);
    fb_free(text);
    return plan;
}

static fb_plan *carried_plan(fb_column_record *c, fb_planner *planner, fb_error *err)
{
    fb_str dropped = {0};
    fb_plan *plan = fb_plan_from_json(planner, c->carried, false, &dropped, err);
    log_dropped(c, &dropped);
    fb_str_free(&dropped);
    json_decref(c->carried);
    c->carried = NULL;
    return plan;
}

/* ---- plans of ours for a framework's compiler ---- */

/* Its device says so, and calls no plan of its own by this name. */
static bool obeys(const fb_column_record *c, const fb_device_record *d)
{
    size_t i;
    json_t *own;
    json_array_foreach(json_object_get(d->entry, "plans"), i, own)
    {
        if (json_is_string(own) && strcmp(json_string_value(own), c->base) == 0) return false;
    }
    return fb_json_bool_or(d->entry, "obeys", false) && known_plan(c->session->info, c->base, NULL);
}

/* What the plan is made for: a framework runs on the hardware of our devices. */
static fb_device_record *beside(fb_session *s)
{
    for (int i = 0; i < s->devices.n; i++)
        if (s->devices.at[i]->target->generates && !fb_json_string_or(s->devices.at[i]->entry, "missing", NULL))
            return s->devices.at[i];
    return NULL;
}

static fb_plan *plan_to_obey(fb_column_record *c, fb_error *err)
{
    fb_session *s = c->session;
    fb_device_record *d = beside(s);
    fb_preset_use preset;
    if (!d) {
        fb_fail(err, FB_ERR_UNAVAILABLE, "no device of fusebox's is here to make the plan \"%s\" for", c->base);
        return NULL;
    }
    fb_planner *planner = fb_slot_planner_for(s, c->slot, d);
    if (fb_preset_parse(c->base, &preset, err)) return fb_preset_make(&preset, planner, NULL, err);
    if (strcmp(c->base, FB_SEARCH_NAME) != 0 && !script_plan(s->info, c->base))
        return plan_of_file(c->base, planner, err);
    fb_fail(err, FB_ERR_USAGE,
            "%s: a framework obeys presets and plan files: write this plan to a file first (fusebox plan)", c->base);
    return NULL;
}

json_t *fb_session_plan_as_groups(const fb_plan *plan, const char *name)
{
    if (fb_plan_rolled(plan)) return NULL;
    json_t *groups = json_array();
    for (int k = 0; k < fb_plan_groups(plan); k++) {
        const fb_group *group = fb_plan_group(plan, k);
        json_t *nodes = json_array();
        for (int i = 0; i < group->n_nodes; i++) json_array_append_new(nodes, json_integer(group->nodes[i]));
        json_array_append_new(groups, nodes);
    }
    return json_pack("{s:s, s:o}", "name", name, "groups", groups);
}

static void take_obeyed(fb_column_record *c)
{
    fb_error why = {0};
    fb_plan *plan = plan_to_obey(c, &why);
    if (plan) c->obeyed = fb_session_plan_as_groups(plan, c->base);
    if (plan && !c->obeyed)
        fb_fail(&why, FB_ERR_USAGE, "%s: its loops are not those of the graph as written, which a framework compiles",
                c->base);
    fb_plan_free(plan);
    if (c->obeyed)
        fb_column_take_plan(c, NULL, c->base);
    else
        fb_column_fail(c, &why);
}

/* The plan it waits for: whether it has come, or why it cannot. */
static bool take_plan(fb_column_record *c)
{
    fb_session *s = c->session;
    bool wait = false;
    fb_error why = {0};
    fb_device_record *d = fb_session_device_named(s, c->device, &wait, &why);
    if (wait || c->plan_request) return false;
    if (!d) {
        fb_column_fail(c, &why);
        return true;
    }
    c->shown.device = d->name;
    c->shown.machine = &d->machine;
    json_decref(c->obeyed);
    c->obeyed = NULL;
    if (!d->target->generates) {
        if (obeys(c, d))
            take_obeyed(c);
        else
            fb_column_take_plan(c, NULL, c->base);
        return true;
    }
    fb_planner *planner = fb_slot_planner_for(s, c->slot, d);
    fb_preset_use preset;
    fb_plan *plan = NULL;
    bool carried = c->carried != NULL;
    if (carried)
        plan = carried_plan(c, planner, &why);
    else if (strcmp(c->base, FB_SEARCH_NAME) == 0) {
        if (!c->job) fb_search_start(s, c, d);
        return false;
    } else if (fb_preset_parse(c->base, &preset, &why))
        plan = fb_preset_make(&preset, planner, NULL, &why);
    else if (script_plan(s->info, c->base)) {
        c->plan_request = fb_slot_ask_plan(s, c->slot, c->base, fb_planner_machine(planner), &why);
        if (c->plan_request > 0) return false;
    } else if (known_plan(s->info, c->base, &why)) {
        plan = plan_of_file(c->base, planner, &why);
    }
    if (plan)
        fb_column_take_plan(c, plan, carried ? NULL : c->base);
    else
        fb_column_fail(c, &why);
    return true;
}

bool fb_column_advance(fb_column_record *c)
{
    fb_session *s = c->session;
    if (!s->info || s->script_loading || !c->variant_given || c->shown.state != FB_COLUMN_BUILDING) return false;
    if (!c->slot || c->next || c->slot->generation != s->generation || strcmp(c->slot->variant, c->variant) != 0 ||
        !json_equal(c->slot->params, params_of(c))) {
        if (!take_graph(c)) return false;
        c->plan_wanted = true;
        return true;
    }
    return c->plan_wanted && take_plan(c);
}

void fb_column_take_plan(fb_column_record *c, fb_plan *plan, const char *name)
{
    fb_session *s = c->session;
    c->plan_wanted = false;
    if (plan) {
        char label[96];
        snprintf(label, sizeof label, "plan %s", name ? name : c->plan_name);
        fb_column_push(c, plan, name, label);
    } else {
        set_text(&c->plan_name, name);
    }
    fb_column_replanned(c);
    fb_error why = {0};
    if (plan && !fb_kernels_read(plan, &why)) {
        fb_column_fail(c, &why);
        return;
    }
    if (c->verify_wanted || c->measure_wanted) fb_job_start(s, c, c->verify_wanted && !c->measure_wanted);
    c->verify_wanted = c->measure_wanted = false;
}

void fb_column_keep_plan(fb_column_record *c)
{
    set_text(&c->plan_name, c->names.at[c->at]);
    if (!fb_column_edited(c)) set_text(&c->base, c->plan_name);
    c->measure_wanted = c->verify_wanted = false;
    fb_column_set_state(c, c->report ? FB_COLUMN_DONE : FB_COLUMN_READY);
}

void fb_column_predict(fb_column_record *c)
{
    if (c->shown.plan) fb_plan_cost_of(c->shown.plan, &c->shown.predicted);
}

void fb_column_replanned(fb_column_record *c)
{
    fb_job_forget(c);
    if (c->report) {
        fb_report_free(c->before);
        c->before = c->report;
        c->report = NULL;
    }
    c->changed_ns = fb_now_ns();
    if (c->history) set_text(&c->plan_name, c->names.at[c->at]);
    if (c->history && !fb_column_edited(c)) set_text(&c->base, c->plan_name);
    fb_column_predict(c);
    fb_column_set_state(c, FB_COLUMN_READY);
}

/* ---- rows ---- */

static void row_of_failure(const fb_column_record *c, fb_report *r)
{
    r->failed = fb_arena_strdup(r->arena, c->shown.error.text);
    r->failed_kind = c->shown.error.kind;
    if (c->report) r->error = c->report->error;
}

fb_report *fb_column_report(const fb_column_record *c)
{
    bool failed = c->shown.state == FB_COLUMN_FAILED;
    fb_report *r = NULL;
    if (c->report && !failed) {
        json_t *value = fb_report_to_json(c->report);
        r = fb_report_from_json(value, NULL);
        json_decref(value);
        return r;
    }
    char hex[33];
    r = fb_report_new();
    r->script = fb_arena_strdup(r->arena, c->session->path);
    r->variant = fb_arena_strdup(r->arena, c->shown.variant);
    r->plan = fb_arena_strdup(r->arena, c->plan_name);
    r->device = fb_arena_strdup(r->arena, c->shown.device);
    r->params = json_deep_copy(params_of(c));
    if (c->shown.search) r->search = fb_best_summary_to_json(c->shown.search);
    if (c->slot && c->slot->graph) r->graph_hash = fb_arena_strdup(r->arena, fb_hash_hex(c->slot->graph->hash, hex));
    if (c->shown.plan) r->plan_hash = fb_arena_strdup(r->arena, fb_hash_hex(fb_plan_hash(c->shown.plan), hex));
    if (failed) row_of_failure(c, r);
    return r;
}

/* ---- the header's functions ---- */

fb_report *fb_session_report(const fb_session *s, int i)
{
    const fb_column_record *c = fb_column_at(s, i);
    return c ? fb_column_report(c) : NULL;
}

fb_column_record *fb_column_at(const fb_session *s, int i)
{
    return i >= 0 && i < s->columns.n ? s->columns.at[i] : NULL;
}

int fb_session_columns(const fb_session *s)
{
    return s->columns.n;
}

const fb_column *fb_session_column(const fb_session *s, int i)
{
    fb_column_record *c = fb_column_at(s, i);
    return c ? &c->shown : NULL;
}

int fb_session_add(fb_session *s, const char *spec, fb_error *err)
{
    if (s->columns.n >= FB_SESSION_COLUMNS) {
        fb_fail(err, FB_ERR_LIMIT, "no more than %d columns", FB_SESSION_COLUMNS);
        return -1;
    }
    fb_column_record *c = fb_column_new(s, spec, err);
    if (!c) return -1;
    int first = s->columns.n;
    insert_at(s, first, c);
    if (s->info && !s->script_loading) fb_session_expand_columns(s);
    return first;
}

void fb_session_drop(fb_session *s, int i)
{
    fb_column_record *c = fb_column_at(s, i);
    if (!c) return;
    memmove(s->columns.at + i, s->columns.at + i + 1, (size_t)(--s->columns.n - i) * sizeof c);
    fb_column_free(c);
}

static bool is_absent(const fb_column_record *c)
{
    return c->shown.state == FB_COLUMN_FAILED && c->shown.error.kind == FB_ERR_UNAVAILABLE;
}

void fb_session_drop_absent(fb_session *s)
{
    int absent = 0;
    for (int i = 0; i < s->columns.n; i++) absent += is_absent(s->columns.at[i]);
    for (int i = s->columns.n - 1; i >= 0 && absent < s->columns.n; i--) {
        const fb_column_record *c = s->columns.at[i];
        char text[700];
        if (!is_absent(c)) continue;
        snprintf(text, sizeof text, "%.120s is left out: %s", c->shown.text, c->shown.error.text);
        fb_session_log(s, text, false);
        fb_session_drop(s, i);
        absent--;
    }
}

void fb_session_move(fb_session *s, int from, int to)
{
    fb_column_record *c = fb_column_at(s, from);
    if (!c || to < 0 || to >= s->columns.n) return;
    memmove(s->columns.at + from, s->columns.at + from + 1, (size_t)(s->columns.n - 1 - from) * sizeof c);
    memmove(s->columns.at + to + 1, s->columns.at + to, (size_t)(s->columns.n - 1 - to) * sizeof c);
    s->columns.at[to] = c;
    fb_session_changed(s);
}

int fb_session_duplicate(fb_session *s, int i)
{
    fb_column_record *from = fb_column_at(s, i);
    if (!from) return -1;
    fb_column_spec spec = {from->variant, from->base, from->device, inputs_given(from)};
    fb_column_record *c = record_new(s, &spec);
    insert_at(s, i + 1, c);
    if (!from->history || from->next) {
        c->carried = json_incref(from->carried);
        return i + 1;
    }
    c->slot = from->slot;
    fb_slot_take(c->slot);
    c->shown.graph = c->shown.written = from->slot->graph;
    c->shown.params = from->shown.params;
    c->shown.computes = from->shown.computes;
    c->shown.device = from->shown.device;
    c->shown.machine = from->shown.machine;
    c->searched = from->searched;
    c->search = from->search;
    fb_column_take_plan(c, fb_plan_copy(fb_history_now(from->history)),
                        fb_column_edited(from) ? NULL : from->plan_name);
    return i + 1;
}

bool fb_session_set_variant(fb_session *s, int i, const char *variant, fb_error *err)
{
    fb_column_record *c = fb_column_at(s, i);
    if (!c) return fb_fail(err, FB_ERR_INPUT, "no column %d", i + 1);
    if (s->info && !known_variant(s->info, variant, err)) return false;
    set_text(&c->variant, variant);
    c->variant_given = true;
    fb_column_rebuild(c, true);
    return true;
}

bool fb_session_set_device(fb_session *s, int i, const char *device, fb_error *err)
{
    fb_column_record *c = fb_column_at(s, i);
    if (!c) return fb_fail(err, FB_ERR_INPUT, "no column %d", i + 1);
    bool wait = false;
    fb_error why = {0};
    if (!fb_session_device_named(s, device, &wait, &why) && !wait) {
        if (err) *err = why;
        return false;
    }
    set_text(&c->device, device);
    c->shown.device = c->device ? c->device : "";
    fb_column_rebuild(c, true);
    fb_column_forget_plan(c, true); /* planners are of one device */
    return true;
}

bool fb_session_preset(const fb_session *s, int i, fb_preset_use *out, fb_error *err)
{
    const fb_column_record *c = fb_column_at(s, i);
    fb_error badly = {0};
    if (!c || !c->shown.plan) return fb_fail(err, FB_ERR_USAGE, "%s has no plan of ours", c ? c->text : "no column");
    if (fb_preset_parse(c->plan_name, out, &badly)) return true;
    return fb_fail(err, FB_ERR_USAGE, "plan %s is not made by a preset: there are no decisions to step through",
                   c->plan_name);
}

fb_steps *fb_session_steps(const fb_session *s, int i, const fb_preset_use *use, fb_error *err)
{
    const fb_column_record *c = fb_column_at(s, i);
    fb_steps *steps = NULL;
    if (c && c->shown.plan)
        fb_plan_free(fb_preset_make(use, fb_planner_written(fb_plan_planner(c->shown.plan)), &steps, err));
    else
        fb_fail(err, FB_ERR_USAGE, "%s has no plan of ours", c ? c->text : "no column");
    return steps;
}

bool fb_session_set_plan(fb_session *s, int i, const char *plan, fb_error *err)
{
    fb_column_record *c = fb_column_at(s, i);
    if (!c) return fb_fail(err, FB_ERR_INPUT, "no column %d", i + 1);
    if (s->info && !plan_fits(s, plan, c->device, err)) return false;
    fb_report *before = c->report;
    c->report = NULL;
    fb_column_rebuild(c, false);
    c->report = before; /* the graph stays, so the comparison does */
    set_text(&c->base, plan);
    show(c);
    return true;
}
