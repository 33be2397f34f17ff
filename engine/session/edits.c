/* An edit of a column: asked of legality first, then pushed onto the column's history, repeated members with it.
 * Undo, redo, plan files. Leaves the column to be predicted and measured again. */
#include "session/internal.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

static const char *edited_name(const fb_column_record *c)
{
    const fb_script_info *info = c->session->info;
    for (int i = 0; info && i < info->n_plans; i++)
        if (strcmp(info->plans[i], "mine") == 0) return "edited";
    return "mine";
}

bool fb_column_edited(const fb_column_record *c)
{
    return c->history && strcmp(c->names.at[c->at], edited_name(c)) == 0;
}

/* Where the plan has loops for steps, its graph is what there is to see and to edit. */
static void show_now(fb_column_record *c)
{
    const fb_plan *plan = c->shown.plan = c->history ? fb_history_now(c->history) : NULL;
    if (plan) c->shown.graph = fb_planner_graph(fb_plan_planner(plan));
}

void fb_column_show_plan(fb_column_record *c)
{
    show_now(c);
    fb_column_replanned(c);
    fb_error why = {0};
    if (c->shown.plan && !fb_kernels_read(c->shown.plan, &why)) fb_column_fail(c, &why);
}

/* `name` NULL: an edited plan. */
void fb_column_push(fb_column_record *c, fb_plan *plan, const char *name, const char *label)
{
    char *copy = fb_strdup(name ? name : edited_name(c));
    if (c->history) {
        while (c->names.n > c->at + 1) fb_free(c->names.at[--c->names.n]);
        fb_history_push(c->history, plan, label);
        c->at++;
    } else {
        c->history = fb_history_new(plan);
        c->at = 0;
    }
    FB_VEC_PUSH(&c->names, copy);
    show_now(c);
}

void fb_column_forget_plan(fb_column_record *c, bool carry)
{
    if (!c->history) return;
    if (carry && fb_column_edited(c) && !c->carried) c->carried = fb_plan_to_json(fb_history_now(c->history));
    c->shown.plan = NULL;
    c->shown.graph = c->slot ? c->slot->graph : NULL;
    fb_history_free(c->history);
    c->history = NULL;
    while (c->names.n) fb_free(c->names.at[--c->names.n]);
    c->at = 0;
}

/* ---- the header's functions ---- */

static fb_verdict judge(const fb_session *s, int column, const fb_edit *edit, bool repeated, fb_plan **result)
{
    const fb_column_record *c = fb_column_at(s, column);
    if (!c || !c->shown.plan || c->next || c->shown.state == FB_COLUMN_BUILDING)
        return fb_verdict_make(FB_VERDICT_UNSUPPORTED, FB_RULE_NONE, "the column has no plan yet");
    return (repeated ? fb_plan_try_repeated : fb_plan_try)(c->shown.plan, edit, result);
}

fb_verdict fb_session_try(const fb_session *s, int column, const fb_edit *edit, bool repeated)
{
    return judge(s, column, edit, repeated, NULL);
}

static const char *node_name(const fb_column_record *c, fb_id node)
{
    const fb_graph *g = c->shown.graph;
    return node >= 0 && node < g->n_nodes ? g->nodes[node].name : "?";
}

/* What undo says it undid. */
static void label_of(const fb_column_record *c, const fb_edit *e, char to[160])
{
    const char *a = node_name(c, e->a);
    switch (e->kind) {
    case FB_EDIT_FUSE: snprintf(to, 160, "fuse %.60s into %.60s", a, node_name(c, e->b)); break;
    case FB_EDIT_CUT: snprintf(to, 160, "cut %.60s from %.60s", node_name(c, e->b), a); break;
    case FB_EDIT_FUSE_ALL: snprintf(to, 160, "fuse %d nodes", e->n_nodes); break;
    case FB_EDIT_ISOLATE:
        if (e->n_nodes)
            snprintf(to, 160, "isolate %d nodes", e->n_nodes);
        else
            snprintf(to, 160, "isolate %.60s", a);
        break;
    case FB_EDIT_RECOMPUTE: snprintf(to, 160, "recompute %.60s", a); break;
    case FB_EDIT_STORE: snprintf(to, 160, "store %.60s", a); break;
    case FB_EDIT_LIBRARY: snprintf(to, 160, "library call for %.60s", a); break;
    case FB_EDIT_GENERATE: snprintf(to, 160, "generated kernel for %.60s", a); break;
    case FB_EDIT_KNOB:
        snprintf(to, 160, "knob %s = %lld of %.60s", fb_knob_name(e->knob), (long long)e->value, a);
        break;
    case FB_EDIT_SOURCE:
        snprintf(to, 160, "%.60s for %.60s", e->source ? fb_file_name(e->source) : "generated kernel", a);
        break;
    case FB_EDIT_LAUNCH: snprintf(to, 160, "launch mode %s", fb_launch_mode_name(e->launch)); break;
    case FB_EDIT_OVERLAP: snprintf(to, 160, "copies %s", e->value ? "overlapped" : "in order"); break;
    case FB_EDIT_ROLL: snprintf(to, 160, "steps %s", e->value ? "as a loop" : "as they are written"); break;
    }
}

fb_verdict fb_session_edit(fb_session *s, int column, const fb_edit *edit, bool repeated)
{
    fb_plan *result = NULL;
    fb_verdict v = judge(s, column, edit, repeated, &result);
    if (!result) return v;
    fb_column_record *c = fb_column_at(s, column);
    char label[160] = "";
    label_of(c, edit, label);
    fb_column_push(c, result, NULL, label);
    fb_column_replanned(c);
    return v;
}

const char *fb_session_undo(fb_session *s, int column)
{
    fb_column_record *c = fb_column_at(s, column);
    if (!c || !c->history || c->shown.state == FB_COLUMN_BUILDING) return NULL;
    const char *what = fb_history_undo(c->history);
    if (!what) return NULL;
    c->at--;
    fb_column_show_plan(c);
    return what;
}

const char *fb_session_redo(fb_session *s, int column)
{
    fb_column_record *c = fb_column_at(s, column);
    if (!c || !c->history || c->shown.state == FB_COLUMN_BUILDING) return NULL;
    const char *what = fb_history_redo(c->history);
    if (!what) return NULL;
    c->at++;
    fb_column_show_plan(c);
    return what;
}

bool fb_session_save_plan(const fb_session *s, int column, const char *path, fb_error *err)
{
    const fb_column_record *c = fb_column_at(s, column);
    if (!c || !c->shown.plan) return fb_fail(err, FB_ERR_INPUT, "the column has no plan to save");
    json_t *value = fb_plan_to_json(c->shown.plan);
    fb_kernels_relate(value, path);
    char *text = fb_json_shown(value, JSON_INDENT(2) | JSON_SORT_KEYS);
    json_decref(value);
    fb_str line = {0};
    fb_str_addf(&line, "%s\n", text);
    fb_free(text);
    bool fine = fb_write_file(path, line.text, line.n, err);
    fb_str_free(&line);
    return fine;
}
