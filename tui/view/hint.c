/* The box under the panes, which speaks of the row under the cursor. */
#include "tui/show/figure.h"
#include "tui/view/ui.h"

#include <math.h>
#include <string.h>

/* ---- verdicts in words ----------------------------------------------------------------------------------------------
 */

static void short_name(const fb_app *app, fb_id node, bool whole_scope, fb_str *out)
{
    const fb_rows *r = &app->model.rows;
    int row = fb_rows_find(r, node);
    const char *path = app->model.outline->graph->nodes[node].name, *dot = strrchr(path, '.');
    bool folded = row != FB_NONE && r->outline->entries[r->rows.at[row].entry].kind != FB_ENTRY_NODE;
    if (folded && whole_scope)
        fb_str_add(out, fb_row_name(r, row));
    else
        fb_str_add(out, dot ? dot + 1 : path);
}

static void edge_text(const fb_app *app, const fb_row_edge *e, fb_str *out)
{
    if (e->inside) {
        const fb_scroll *s = &app->scroll[FB_VIEW_GRAPH];
        fb_str_addf(out, "inside %s", fb_row_name(&app->model.rows, s->cursor));
        return;
    }
    short_name(app, e->a, true, out);
    fb_str_add(out, " → ");
    short_name(app, e->b, true, out);
}

static const char *plural(int n)
{
    return n == 1 || n == -1 ? "" : "es";
}

/* Bytes are counted by the model as times are; launches are known. */
void fb_savings_text(const fb_verdict *v, fb_str *out)
{
    char size[48];
    int more = v->launches_saved < 0 ? -v->launches_saved : v->launches_saved;
    if (more) fb_str_addf(out, " · %s %d launch%s", v->launches_saved > 0 ? "saves" : "adds", more, plural(more));
    if (v->bytes_saved) {
        bool same = v->launches_saved && (v->launches_saved > 0) == (v->bytes_saved > 0);
        fb_str_addf(out, "%s%s",
                    same                 ? ", "
                    : v->bytes_saved > 0 ? " · saves "
                                         : " · adds ",
                    fb_figure_write(size, fabs((double)v->bytes_saved), FB_UNIT_BYTES, FB_SOURCE_PREDICTED));
    }
}

static void savings(const fb_column *c, const fb_verdict *v, fb_str *out)
{
    char before[48], after[48];
    fb_figure_source kind;
    fb_savings_text(v, out);
    double wall = c ? fb_figure_column_wall(c, &kind) : NAN, more_us = v->after_us - v->before_us;
    if (!isfinite(v->before_us) || !isfinite(v->after_us) || (c && !fb_figure_column_has_model(c))) return;
    if (isfinite(wall)) {
        /* of the whole plan, as the column's after the edit is */
        double then = fb_figure_anchored(wall, c->predicted.us, c->predicted.us + more_us);
        fb_str_addf(out, " · wall %s → %s", fb_figure_write(before, wall, FB_UNIT_US, kind),
                    fb_figure_write(after, then, FB_UNIT_US, FB_SOURCE_PREDICTED));
    } else {
        fb_str_addf(out, " · predicted %s → %s", fb_format_us(before, v->before_us), fb_format_us(after, v->after_us));
    }
}

void fb_toggle_text(fb_app *app, const fb_row_edge *e, bool done, const fb_verdict *v, fb_str *out)
{
    bool cut = fb_row_edge_state(e) == FB_EDGE_FUSED;
    if (e->inside) {
        const char *name = fb_row_name(&app->model.rows, app->scroll[FB_VIEW_GRAPH].cursor);
        fb_str_addf(out, cut ? "%s %s apart" : "%s all of %s",
                    cut    ? (done ? "took" : "take")
                    : done ? "fused"
                           : "fuse",
                    name);
    } else {
        fb_str_add(out, cut ? "cut " : done ? "fused " : "fuse ");
        short_name(app, cut ? e->b : e->a, true, out);
        fb_str_add(out, cut ? " from " : " into ");
        short_name(app, cut ? e->a : e->b, true, out);
    }
    if (e->count > 1) fb_str_addf(out, " (×%d)", e->count);
    if (v) savings(app->model.column, v, out);
}

static void marks_text(const fb_app *app, fb_str *out)
{
    const fb_verdict *v = &app->marks.verdict;
    int n = app->marks.entries.n;
    if (n < 2)
        fb_str_add(out, "one row is marked: M marks another, Esc forgets it");
    else if (v->kind > FB_VERDICT_SLOWER)
        fb_str_addf(out, "cannot fuse the %d marked rows · %s: %s", n, fb_verdict_kind_name(v->kind), v->text);
    else {
        fb_str_addf(out, "Space: fuse the %d marked rows", n);
        savings(app->model.column, v, out);
        if (v->kind == FB_VERDICT_SLOWER) fb_str_add(out, " · predicted slower");
    }
}

static void explain_edge(fb_app *app, fb_hint *hint)
{
    static const fb_role roles[] = {[FB_VERDICT_FINE] = FB_ROLE_GOOD,
                                    [FB_VERDICT_SLOWER] = FB_ROLE_WARN,
                                    [FB_VERDICT_UNSUPPORTED] = FB_ROLE_BAD,
                                    [FB_VERDICT_ILLEGAL] = FB_ROLE_BAD};
    int n, row = app->scroll[FB_VIEW_GRAPH].cursor;
    const fb_row_edge *e = fb_model_edge(app, &n);
    if (app->marks.entries.n) {
        fb_str_addf(&hint->title, "%d marked", app->marks.entries.n);
        marks_text(app, &hint->line[0]);
        hint->role[0] = app->marks.entries.n > 1 ? roles[app->marks.verdict.kind] : FB_ROLE_DIM;
        return;
    }
    if (!e) {
        const char *why = fb_app_why_not(app, FB_CMD_TOGGLE);
        if (why) fb_str_add(&hint->line[0], why);
        hint->role[0] = FB_ROLE_DIM;
        return;
    }
    edge_text(app, e, &hint->title);
    static const char *const states[] = {
        [FB_EDGE_FUSED] = "fused", [FB_EDGE_CUT] = "cut", [FB_EDGE_MIXED] = "partly fused"};
    fb_str_addf(&hint->title, " · %s", states[fb_row_edge_state(e)]);
    if (n > 1) fb_str_addf(&hint->title, " · edge %d of %d", app->edge + 1, n);
    const fb_row_edge edge = *e;
    const fb_verdict *v = fb_verdicts_get(app->verdicts, &app->model.rows, row, app->edge, true);
    bool refused = v && (v->kind == FB_VERDICT_UNSUPPORTED || v->kind == FB_VERDICT_ILLEGAL);
    if (refused) {
        bool cut = fb_row_edge_state(&edge) == FB_EDGE_FUSED;
        fb_str_addf(&hint->line[0], "cannot %s · %s: %s", cut ? "cut" : "fuse", fb_verdict_kind_name(v->kind), v->text);
    } else {
        fb_str_add(&hint->line[0], "Space: ");
        fb_toggle_text(app, &edge, false, v, &hint->line[0]);
        if (!v)
            fb_str_add(&hint->line[0], " · …");
        else if (v->kind == FB_VERDICT_SLOWER)
            fb_str_add(&hint->line[0], " · predicted slower");
    }
    hint->role[0] = v ? roles[v->kind] : FB_ROLE_DIM;
}

/* ---- the box
 * ---------------------------------------------------------------------------------------------------------- */

static fb_hint hint_of(fb_app *app)
{
    fb_view_id id = fb_app_view(app);
    fb_hint hint = {.role = {FB_ROLE_TEXT, FB_ROLE_DIM}};
    if (id == FB_VIEW_GRAPH) explain_edge(app, &hint);
    if (fb_view_at(id)->explain) fb_view_at(id)->explain(app, &hint);
    const fb_str *news = app->trust.asked ? &app->trust.question : &app->message;
    if (news->n) {
        fb_str_clear(&hint.line[0]);
        fb_str_add(&hint.line[0], fb_str_get(news));
        hint.role[0] = app->trust.asked ? FB_ROLE_WARN : app->message_role;
    }
    if ((int)id < FB_PANES && (!news->n || app->tale.passed_by)) fb_tale_hint(app, &hint);
    return hint;
}

void fb_hint_free(fb_app *app)
{
    fb_str_free(&app->hint.title);
    fb_str_free(&app->hint.line[0]);
    fb_str_free(&app->hint.line[1]);
    app->hint = (fb_hint){.role = {FB_ROLE_TEXT}};
}

int fb_hint_make(fb_app *app, int cols)
{
    enum { FRAME = 4, MOST = 16 };
    fb_rect nowhere = {0, 0, 0, cols - FRAME};
    fb_view_id id = fb_app_view(app);
    int n = fb_view_at(id)->count(app), *cursor = &app->scroll[id].cursor;
    if (*cursor >= n) *cursor = n - 1; /* before anything is drawn it may be beside its rows */
    if (*cursor < 0) *cursor = 0;
    fb_hint_free(app);
    app->hint = hint_of(app);
    return fb_draw_wrapped(&nowhere, 0, 0, MOST, FB_ROLE_TEXT, fb_str_get(&app->hint.line[0]));
}

static void draw_box(fb_app *app)
{
    const fb_rect *r = &app->layout.hint;
    fb_rect top = {r->y - 1, r->x - 1, 1, r->w + 2};
    const fb_hint *hint = &app->hint;
    if (hint->title.n) {
        fb_str title = {0};
        fb_str_addf(&title, " %s ", fb_str_get(&hint->title));
        fb_draw_cut(&top, 0, 0, top.w - 2, FB_ROLE_TITLE, fb_str_get(&title));
        fb_str_free(&title);
    }
    const char *first = fb_str_get(&hint->line[0]), *second = fb_str_get(&hint->line[1]);
    int used = fb_draw_wrapped(r, 0, 0, r->h, hint->role[0], first); /* a long sentence takes the second line's place */
    fb_rect nowhere = {0, 0, 0, r->w};
    if (!used && fb_draw_wrapped(&nowhere, 0, 0, r->h, hint->role[1], second) < r->h) used = 1; /* in its usual place */
    if (used < r->h) fb_draw_wrapped(r, used, 0, r->h - used, hint->role[1], second);
}

void fb_hint_draw(fb_app *app)
{
    draw_box(app);
    if (app->prompt.kind)
        fb_prompt_draw(&app->prompt, &app->layout.keys, fb_line_ghost(app));
    else
        fb_bar_draw(app);
}
