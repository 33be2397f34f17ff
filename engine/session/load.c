/* Loading a script: its process, its parameters, and a slot for each variant with graph and planner. Slots are
 * shared by columns and dropped when the last one goes. */
#include "session/internal.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "graph/canon.h"
#include "graph/graph_json.h"
#include "measure/compare.h"
#include "session/library.h"
#include "session/names.h"

#include <math.h>
#include <string.h>

enum { GRAPH_FILE_MAX = 256 << 20 };

/* ---- parameters ---- */

static const fb_param *param_named(const fb_session *s, const char *name, fb_error *err)
{
    const fb_script_info *info = s->info;
    for (int i = 0; i < info->n_params; i++)
        if (strcmp(info->params[i].name, name) == 0) return &info->params[i];
    fb_arena *arena = fb_arena_new();
    const char **names = FB_NEW_ARRAY(arena, const char *, info->n_params);
    for (int i = 0; i < info->n_params; i++) names[i] = info->params[i].name;
    fb_fail_unknown(err, FB_ERR_USAGE, "parameter", name, names, info->n_params);
    fb_arena_free(arena);
    return NULL;
}

static bool wrong_value(const fb_param *p, const json_t *value, const char *wants, fb_error *err)
{
    char *text = fb_json_line(value);
    fb_fail(err, FB_ERR_USAGE, "parameter \"%s\" must be %s, not %.60s", p->name, wants, text);
    fb_free(text);
    return false;
}

static bool in_range(const fb_param *p, double v, fb_error *err)
{
    if (v < p->min)
        return fb_fail(err, FB_ERR_USAGE, "parameter \"%s\" must be at least %g, not %g", p->name, p->min, v);
    if (v > p->max)
        return fb_fail(err, FB_ERR_USAGE, "parameter \"%s\" must be at most %g, not %g", p->name, p->max, v);
    return true;
}

/* A choice is compared as text, so that --set bits=16 means the choice "16". */
static json_t *choice_value(const fb_param *p, const json_t *value, fb_error *err)
{
    char *line = json_is_string(value) ? fb_strdup(json_string_value(value)) : fb_json_line(value);
    json_t *found = NULL;
    for (int i = 0; i < p->n_choices && !found; i++)
        if (strcmp(line, p->choices[i]) == 0) found = json_string(line);
    if (!found) {
        char what[128];
        snprintf(what, sizeof what, "choice of parameter \"%s\"", p->name);
        fb_fail_unknown(err, FB_ERR_USAGE, what, line, p->choices, p->n_choices);
    }
    fb_free(line);
    return found;
}

/* The value as the parameter's kind has it: a new reference, or NULL with the reason. */
static json_t *param_value(const fb_param *p, const json_t *value, fb_error *err)
{
    switch (p->kind) {
    case FB_PARAM_INT: {
        double v = json_number_value(value);
        bool whole = json_is_integer(value) || (json_is_real(value) && v == floor(v) && fabs(v) < 0x1p53);
        if (!whole) return wrong_value(p, value, "a whole number", err), NULL;
        if (!in_range(p, v, err)) return NULL;
        return json_is_integer(value) ? json_integer(json_integer_value(value)) : json_integer((json_int_t)v);
    }
    case FB_PARAM_FLOAT:
        if (!json_is_number(value)) return wrong_value(p, value, "a number", err), NULL;
        return in_range(p, json_number_value(value), err) ? json_real(json_number_value(value)) : NULL;
    case FB_PARAM_BOOL:
        if (!json_is_boolean(value)) return wrong_value(p, value, "true or false", err), NULL;
        return json_boolean(json_is_true(value));
    case FB_PARAM_CHOICE: return choice_value(p, value, err);
    }
    return NULL;
}

static bool put_param(fb_session *s, json_t *params, const char *name, const json_t *value, fb_error *err)
{
    const fb_param *p = param_named(s, name, err);
    json_t *v = p ? param_value(p, value, err) : NULL;
    if (!v) return false;
    json_object_set_new(params, name, v);
    return true;
}

json_t *fb_params_merge(fb_session *s, const json_t *given, fb_error *err)
{
    json_t *params = json_deep_copy(s->params);
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)given, name, value)
    {
        if (put_param(s, params, name, value, err)) continue;
        json_decref(params);
        return NULL;
    }
    return params;
}

/* Several values are all checked; the first one holds. */
static bool put_given(fb_session *s, const char *name, const json_t *value, fb_error *err)
{
    if (!json_is_array(value)) return put_param(s, s->params, name, value, err);
    for (size_t i = json_array_size(value); i-- > 0;)
        if (!put_param(s, s->params, name, json_array_get(value, i), err)) return false;
    return true;
}

/* Defaults, under what was set before a reload, under what the command line says. */
static bool start_params(fb_session *s, fb_error *err)
{
    json_t *params = json_object();
    for (int i = 0; i < s->info->n_params; i++) {
        const fb_param *p = &s->info->params[i];
        json_t *before = json_object_get(s->params, p->name), *kept = before ? param_value(p, before, NULL) : NULL;
        json_object_set_new(params, p->name, kept ? kept : json_deep_copy(p->standard));
    }
    json_decref(s->params);
    s->params = params;
    const char *name;
    json_t *value;
    bool fine = true;
    json_object_foreach(s->set, name, value) fine = fine && put_given(s, name, value, err);
    json_object_clear(s->set); /* a later reload keeps what is set by then */
    return fine;
}

const json_t *fb_session_param(const fb_session *s, const char *name)
{
    return json_object_get(s->params, name);
}

bool fb_session_set_param(fb_session *s, const char *name, const json_t *value, fb_error *err)
{
    if (!s->info) return fb_fail(err, FB_ERR_INPUT, "the script has not answered yet");
    json_t *old = json_incref(json_object_get(s->params, name));
    bool fine = put_param(s, s->params, name, value, err);
    if (fine && !json_equal(old, json_object_get(s->params, name))) {
        s->script_error = (fb_error){0};
        for (int i = 0; i < s->columns.n; i++) fb_column_rebuild(s->columns.at[i], true);
        fb_session_changed(s);
    }
    json_decref(old);
    return fine;
}

/* ---- the process ---- */

static bool gone(const fb_session *s)
{
    struct pollfd fds[2];
    int ms = -1;
    return !s->script || fb_script_poll(s->script, fds, &ms) == 0;
}

/* A process that died is replaced when the next request comes. */
bool fb_session_script_ready(fb_session *s, fb_error *err)
{
    if (!gone(s)) return true;
    if (!s->script || !s->info) return fb_fail(err, FB_ERR_CRASH, "%s: there is no script to ask", s->path);
    fb_script *next = fb_script_start(s->path, NULL, err);
    if (!next) return false;
    fb_script_free(s->script);
    s->script = next;
    s->process++;
    s->replaced = true;
    return true;
}

/* ---- slots ---- */

static fb_slot *slot_new(fb_session *s, const char *variant, const json_t *params)
{
    fb_slot *slot = fb_calloc(1, sizeof *slot);
    slot->variant = fb_strdup(variant);
    slot->params = json_deep_copy(params);
    slot->key = fb_json_line(params);
    slot->generation = s->generation;
    FB_VEC_PUSH(&s->slots, slot);
    return slot;
}

static void take_graph(const fb_session *s, fb_slot *slot, fb_graph *g)
{
    const char *said = s->info ? s->info->computes : NULL;
    char name[33];
    slot->graph = g;
    slot->texts = fb_arena_new();
    slot->said = said != NULL;
    slot->computes = said ? fb_arena_printf(slot->texts, "said:%s %s", fb_hash_hex(fb_hash_text(said), name), slot->key)
                          : fb_computes_of(g, slot->texts);
}

void fb_slot_computes(fb_session *s, fb_slot *slot, const char *text)
{
    slot->computes = fb_arena_strdup(slot->texts, text);
    for (int i = 0; i < s->columns.n; i++)
        if (s->columns.at[i]->slot == slot) s->columns.at[i]->shown.computes = slot->computes;
}

static void slot_free(fb_slot *slot)
{
    for (int i = 0; i < slot->planners.n; i++) {
        fb_planner_free(slot->planners.at[i].planner);
        fb_free(slot->planners.at[i].device);
    }
    FB_VEC_FREE(&slot->planners);
    fb_graph_free(slot->graph);
    fb_arena_free(slot->texts);
    json_decref(slot->params);
    fb_free(slot->variant);
    fb_free(slot->key);
    fb_free(slot);
}

static void ask_build(fb_session *s, fb_slot *slot)
{
    if (!fb_session_script_ready(s, &slot->error)) return;
    slot->process = s->process;
    slot->request = fb_script_build(s->script, slot->variant, slot->params);
}

int64_t fb_slot_ask_plan(fb_session *s, fb_slot *slot, const char *name, const fb_machine *m, fb_error *err)
{
    if (!fb_session_script_ready(s, err)) return 0;
    /* A new process has to build the graph before it can plan it; what it builds is what is here already. */
    if (slot->process != s->process) fb_script_build(s->script, slot->variant, slot->params);
    slot->process = s->process;
    return fb_script_plan(s->script, slot->graph, name, m);
}

fb_slot *fb_slot_get(fb_session *s, const char *variant, const json_t *params)
{
    char *key = fb_json_line(params);
    fb_slot *found = NULL;
    for (int i = 0; i < s->slots.n && !found; i++) {
        fb_slot *slot = s->slots.at[i];
        if (slot->generation == s->generation && strcmp(slot->variant, variant) == 0 && strcmp(slot->key, key) == 0)
            found = slot;
    }
    fb_free(key);
    if (found) return found;
    found = slot_new(s, variant, params);
    ask_build(s, found);
    return found;
}

void fb_slot_take(fb_slot *slot)
{
    slot->users++;
}

void fb_slot_release(fb_session *s, fb_slot *slot)
{
    if (!slot || --slot->users > 0) return;
    /* The one graph of a graph file cannot be built again. */
    if (!s->script && slot->generation == s->generation && slot->graph) return;
    for (int i = 0; i < s->slots.n; i++)
        if (s->slots.at[i] == slot) {
            s->slots.at[i] = s->slots.at[--s->slots.n];
            break;
        }
    slot_free(slot);
}

fb_planner *fb_slot_planner_for(fb_session *s, fb_slot *slot, const fb_device_record *d)
{
    for (int i = 0; i < slot->planners.n; i++)
        if (strcmp(slot->planners.at[i].device, d->name) == 0) return slot->planners.at[i].planner;
    bool ours = d->target->generates && !d->recalls;
    bool stands_in = d->target->stands_in || (ours && s->options.plan_as_gpus);
    const fb_machine *as = stands_in ? s->options.plan_as : NULL;
    fb_slot_planner p = {.device = fb_strdup(d->name), .planner = fb_planner_new(slot->graph, as ? as : &d->machine)};
    FB_VEC_PUSH(&slot->planners, p);
    return p.planner;
}

static fb_slot *slot_of_request(fb_session *s, int64_t id)
{
    for (int i = 0; i < s->slots.n; i++)
        if (id > 0 && s->slots.at[i]->request == id && s->slots.at[i]->generation == s->generation)
            return s->slots.at[i];
    return NULL;
}

/* ---- loading ---- */

static bool is_graph_file(const char *path)
{
    size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".json") == 0;
}

/* A graph in JSON stands for a script with one variant and no parameters. */
static fb_script_info *info_of_graph(const char *path, const fb_graph *g)
{
    fb_arena *arena = fb_arena_new();
    fb_script_info *info = FB_NEW(arena, fb_script_info);
    info->arena = arena;
    info->path = fb_arena_strdup(arena, path);
    info->title = fb_arena_strdup(arena, g->title && g->title[0] ? g->title : path);
    info->n_variants = 1;
    info->variants = FB_NEW_ARRAY(arena, const char *, 1);
    info->variants[0] = "";
    return info;
}

static fb_graph *read_graph(const char *path, fb_error *err)
{
    size_t n;
    char *text = fb_read_file(path, GRAPH_FILE_MAX, &n, err);
    if (!text) return NULL;
    fb_graph *raw = fb_graph_read_json(text, n, err), *g = NULL;
    if (raw) g = fb_graph_canonical(raw, err);
    if (!g) fb_fail_prefix(err, "%s", path);
    fb_graph_free(raw);
    fb_free(text);
    return g;
}

static void answered(fb_session *s, fb_script_info *info)
{
    fb_script_info_free(s->info);
    s->info = info;
    s->answers++;
    s->script_loading = false;
    s->script_error = (fb_error){0};
    s->script_line = 0;
    fb_error why = {0};
    if (!start_params(s, &why)) s->script_error = why;
    fb_session_expand_columns(s);
    for (int i = 0; i < s->columns.n; i++) fb_column_rebuild(s->columns.at[i], true);
    fb_session_changed(s);
}

/* Of another script: its columns, its parameters, and what the command line said of them. */
static void forget(fb_session *s)
{
    while (s->columns.n) fb_session_drop(s, s->columns.n - 1);
    fb_script_info_free(s->info);
    s->info = NULL;
    json_object_clear(s->params);
    json_object_clear(s->set);
}

void fb_session_close(fb_session *s)
{
    fb_experiment_lost(s);
    forget(s);
    fb_script_free(s->script);
    s->script = NULL;
    fb_free(s->path);
    s->path = NULL;
    s->generation++;
    s->process++;
    s->script_loading = s->replaced = false;
    s->script_error = (fb_error){0};
    s->answer = (fb_answer){0};
    s->answer_request = 0;
    fb_session_changed(s);
}

void fb_session_give(fb_session *s, const json_t *params)
{
    json_object_update(s->set, (json_t *)params);
}

static bool load(fb_session *s, const char *typed, bool fresh, fb_error *err)
{
    fb_arena *arena = fb_arena_new();
    const char *path = fb_find_script(typed, arena, err);
    fb_graph *g = NULL;
    fb_script *script = NULL;
    if (path && is_graph_file(path)) {
        g = read_graph(path, err);
    } else if (path) {
        script = fb_script_start(path, NULL, err);
    }
    if (g || script) {
        fb_experiment_lost(s);
        if (s->path && (fresh || strcmp(s->path, path) != 0)) forget(s);
        fb_free(s->path);
        s->path = fb_strdup(path);
        fb_script_free(s->script);
        s->script = script;
        s->generation++;
        s->process++;
        s->replaced = false;
        s->script_loading = script != NULL;
        s->script_error = (fb_error){0};
        s->answer = (fb_answer){0};
        s->answer_request = 0;
        fb_session_changed(s);
        fb_recent_add(path);
    }
    if (g) {
        json_t *none = json_object();
        fb_slot *slot = slot_new(s, "", none);
        json_decref(none);
        take_graph(s, slot, g);
        answered(s, info_of_graph(path, g));
    }
    fb_arena_free(arena);
    return g || script;
}

bool fb_session_load(fb_session *s, const char *path, fb_error *err)
{
    return load(s, path, false, err);
}

bool fb_session_open(fb_session *s, const char *path, fb_error *err)
{
    return load(s, path, true, err);
}

uint64_t fb_session_answers(const fb_session *s)
{
    return s->answers;
}

const char *fb_session_path(const fb_session *s)
{
    return s->path;
}

const fb_script_info *fb_session_script(const fb_session *s)
{
    return s->info;
}

const fb_error *fb_session_script_error(const fb_session *s)
{
    return &s->script_error;
}

int fb_session_script_error_line(const fb_session *s)
{
    return s->script_line;
}

/* ---- what the script says ---- */

static fb_column_record *column_of_plan_request(fb_session *s, int64_t id)
{
    for (int i = 0; id > 0 && i < s->columns.n; i++)
        if (s->columns.at[i]->plan_request == id) return s->columns.at[i];
    for (int i = 0; id > 0 && i < s->hidden.n; i++)
        if (s->hidden.at[i]->plan_request == id) return s->hidden.at[i];
    return NULL;
}

static void plan_arrived(fb_session *s, const fb_script_event *e)
{
    fb_column_record *c = column_of_plan_request(s, e->id);
    if (!c) return; /* the column went another way meanwhile */
    c->plan_request = 0;
    fb_error why = {0};
    bool wait = false;
    fb_device_record *d = fb_session_device_named(s, c->device, &wait, &why);
    fb_planner *planner = d && c->slot ? fb_slot_planner_for(s, c->slot, d) : NULL;
    json_t *value = json_object_get(e->message, "plan");
    char folder[PATH_MAX];
    bool located = planner && fb_kernels_locate(value, fb_session_folder(s, folder), true, &why);
    fb_plan *plan = located ? fb_plan_from_json(planner, value, true, NULL, &why) : NULL;
    if (plan) {
        fb_column_take_plan(c, plan, c->base);
    } else {
        fb_fail_prefix(&why, "plan \"%s\"", c->base);
        fb_column_fail(c, &why);
    }
}

static void script_failed(fb_session *s, const fb_script_event *e)
{
    fb_slot *slot = slot_of_request(s, e->id);
    fb_column_record *c = column_of_plan_request(s, e->id);
    if (slot) {
        slot->request = 0;
        slot->error = e->error;
    }
    if (c) {
        c->plan_request = 0;
        fb_column_fail(c, &e->error);
    }
    if (!c && !fb_experiment_asked(s, e->id)) { /* what goes wrong in an experiment is told of that */
        s->script_error = e->error;
        s->script_line = e->line;
    }
    s->script_loading = false;
    s->blamed = slot || c;
    fb_session_say(s, "%s", e->error.text);
}

static void older(int64_t id, int64_t *least)
{
    if (id > 0 && (!*least || id < *least)) *least = id;
}

/* The process ended: what it was at, its oldest request, fails for that reason; the others are asked again of the next
 * one. */
static void script_gone(fb_session *s)
{
    int64_t culprit = 0;
    for (int i = 0; i < s->slots.n; i++)
        if (s->slots.at[i]->generation == s->generation) older(s->slots.at[i]->request, &culprit);
    for (int i = 0; i < s->columns.n; i++) older(s->columns.at[i]->plan_request, &culprit);
    for (int i = 0; i < s->hidden.n; i++) older(s->hidden.at[i]->plan_request, &culprit);
    if (!culprit) return;
    fb_column_record *c = column_of_plan_request(s, culprit);
    fb_slot *oldest = slot_of_request(s, culprit);
    if (c && !s->blamed) fb_column_fail(c, &s->script_error);
    if (oldest && !s->blamed) {
        oldest->request = 0;
        oldest->error = s->script_error;
    }
    for (int i = 0; i < s->columns.n; i++) s->columns.at[i]->plan_request = 0;
    for (int i = 0; i < s->hidden.n; i++) s->hidden.at[i]->plan_request = 0;
    for (int i = 0; i < s->slots.n; i++) {
        fb_slot *slot = s->slots.at[i];
        if (slot->generation != s->generation || !slot->request) continue;
        slot->request = 0;
        ask_build(s, slot);
    }
}

static void script_event(fb_session *s, fb_script_event *e)
{
    fb_slot *slot;
    switch (e->kind) {
    case FB_SCRIPT_INFO:
        if (s->replaced) break; /* it says what is known */
        answered(s, e->info);
        e->info = NULL;
        break;
    case FB_SCRIPT_LOG: fb_session_log(s, e->text, true); break;
    case FB_SCRIPT_GRAPH:
        if ((slot = slot_of_request(s, e->id))) {
            slot->request = 0;
            take_graph(s, slot, e->graph);
            e->graph = NULL;
        }
        break;
    case FB_SCRIPT_PLAN: plan_arrived(s, e); break;
    case FB_SCRIPT_ANSWER: fb_session_puzzle_event(s, e); break;
    case FB_SCRIPT_ERROR:
        if (fb_session_puzzle_event(s, e)) break;
        script_failed(s, e); /* fall through */
    case FB_SCRIPT_MEASURE:
    case FB_SCRIPT_ROW:
    case FB_SCRIPT_PLOT:
    case FB_SCRIPT_DONE: fb_experiment_event(s, e); break;
    }
    fb_session_changed(s);
}

void fb_load_pump(fb_session *s)
{
    if (!s->script) return;
    fb_script_pump(s->script);
    fb_script_event e;
    while (s->script && fb_script_next(s->script, &e)) {
        script_event(s, &e);
        fb_script_event_clear(&e);
    }
    if (gone(s)) {
        fb_session_puzzle_lost(s);
        script_gone(s);
    }
}

void fb_load_free(fb_session *s)
{
    fb_script_free(s->script);
    s->script = NULL;
    fb_script_info_free(s->info);
    for (int i = 0; i < s->slots.n; i++) slot_free(s->slots.at[i]);
    FB_VEC_FREE(&s->slots);
}
