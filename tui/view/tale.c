/* Tells an edit as it goes: done, predicted, measured. Needs the column before and after. */
#include "tui/view/tale.h"

#include "base/clock.h"
#include "tui/view/ui.h"

#include <math.h>
#include <string.h>

void fb_tale_free(fb_tale *t)
{
    fb_str_free(&t->what);
    fb_str_free(&t->more);
    fb_str_free(&t->fall);
    fb_merge_free(&t->merge);
    *t = (fb_tale){0};
}

/* ---- words ---- */

/* Without its unit where the next figure has the same. */
static void cut_unit(char *text, const char *next)
{
    char *unit = strrchr(text, ' ');
    const char *other = strrchr(next, ' ');
    if (unit && other && !strcmp(unit, other)) *unit = '\0';
}

void fb_tale_walls(double before, fb_figure_source kind, double guess, double after, fb_figure_source after_kind,
                   fb_str *out)
{
    const double us[] = {before, guess, after};
    const fb_figure_source kinds[] = {kind, FB_SOURCE_PREDICTED, after_kind};
    char text[3][48];
    int n = 0;
    for (int i = 0; i < 3; i++)
        if (isfinite(us[i])) fb_figure_write(text[n++], us[i], FB_UNIT_US, kinds[i]);
    for (int i = 0; i < n; i++) {
        if (i + 1 < n) cut_unit(text[i], text[i + 1]);
        fb_str_addf(out, "%s%s", i ? " → " : " · wall ", text[i]);
    }
}

static void add_part(const fb_why *why, fb_why_id id, double longest, fb_str *out)
{
    enum { CELLS = 8 };
    const fb_why_part *p = &why->part[id];
    char us[48];
    fb_str_addf(out, "%s%s %s ", out->n ? "  " : "", fb_why_name(id), fb_figure_part(us, why, id));
    int n = (int)lround(CELLS * fabs(p->us) / longest);
    for (int i = 0; i < n; i++) fb_str_add(out, "█");
    if (!n) fb_str_add(out, "▏");
}

void fb_tale_fall(const fb_why *why, fb_str *out)
{
    bool done[FB_WHY_PARTS] = {false};
    double longest = 0;
    for (int id = 0; id < FB_WHY_PARTS; id++)
        if (why->part[id].known) longest = fmax(longest, fabs(why->part[id].us));
    if (!(longest > 0)) return;
    for (;;) {
        fb_why_id next = FB_WHY_NONE;
        for (int id = 0; id < FB_WHY_PARTS; id++) {
            const fb_why_part *p = &why->part[id];
            if (done[id] || id == FB_WHY_REST || !p->known || !(fabs(p->us) >= 0.01 * longest)) continue;
            if (next == FB_WHY_NONE || fabs(p->us) > fabs(why->part[next].us)) next = (fb_why_id)id;
        }
        if (next == FB_WHY_NONE) break;
        done[next] = true;
        add_part(why, next, longest, out);
    }
    const fb_why_part *rest = &why->part[FB_WHY_REST];
    if (rest->known && fabs(rest->us) >= 0.01 * longest) add_part(why, FB_WHY_REST, longest, out);
}

/* ---- its course ---- */

void fb_tale_begin(fb_app *app)
{
    fb_tale *t = &app->tale;
    fb_tale_free(t);
    t->before = fb_figure_column_wall(app->model.column, &t->kind);
    fb_merge_begin(&t->merge, &app->model.rows, fb_merge_kernels(&app->model.rows), app->scroll[FB_VIEW_GRAPH].cursor);
}

void fb_tale_tell(fb_app *app, fb_role role, const char *what, const fb_verdict *v)
{
    fb_tale *t = &app->tale;
    fb_figure_source kind;
    t->told = true;
    t->plan = app->model.plan_hash;
    t->role = role;
    fb_str_add(&t->what, what);
    if (v) fb_savings_text(v, &t->more);
    t->guess = fb_figure_column_wall(app->model.column, &kind);
    if (kind != FB_SOURCE_PREDICTED) t->guess = NAN;
    fb_merge_end(&t->merge, &app->model.rows, fb_merge_kernels(&app->model.rows));
    t->next_ns = fb_now_ns() + FB_MERGE_STEP_MS * 1000000ll;
}

static bool is_of_column(const fb_app *app)
{
    const fb_tale *t = &app->tale;
    return t->told && app->model.column && app->model.column->plan && fb_hash_equal(t->plan, app->model.plan_hash);
}

static const fb_report *report_of(const fb_app *app)
{
    const fb_column *c = app->model.column;
    return c->state == FB_COLUMN_DONE && c->report && !c->report->failed && c->report->wall_us.n ? c->report : NULL;
}

void fb_tale_key(fb_app *app)
{
    fb_tale *t = &app->tale;
    if (!t->told) return;
    t->merge.step = FB_MERGE_STEPS;
    bool over = is_of_column(app) && (report_of(app) || app->model.column->state == FB_COLUMN_FAILED);
    if (over)
        fb_tale_free(t);
    else
        t->passed_by = true;
}

/* What the measured difference is made of; it is of the plan that was measured before, which may lie further back. */
static void find_fall(fb_app *app, const fb_report *r)
{
    fb_tale *t = &app->tale;
    const fb_report *before = app->model.column->before;
    fb_error err = {0};
    fb_why why;
    if (t->seen == r) return;
    t->seen = r;
    fb_str_clear(&t->fall);
    if (!before || before->failed || !before->wall_us.n) return;
    if (!fb_session_why_reports(app->session, app->column, app->column, before, r, &why, &err)) return;
    fb_str parts = {0};
    fb_tale_fall(&why, &parts);
    if (why.tie) fb_str_addf(&t->fall, "%s: ", fb_difference_name(why.verdict[why.of].what));
    fb_str_add(&t->fall, fb_str_get(&parts));
    fb_str_free(&parts);
}

bool fb_tale_hint(fb_app *app, fb_hint *hint)
{
    fb_tale *t = &app->tale;
    if (!is_of_column(app)) return false;
    const fb_column *c = app->model.column;
    const fb_report *r = report_of(app);
    fb_str *line = &hint->line[t->passed_by ? 1 : 0];
    hint->role[t->passed_by ? 1 : 0] = t->role;
    fb_str_clear(line);
    fb_str_add(line, fb_str_get(&t->what));
    if (!r) fb_str_add(line, fb_str_get(&t->more));
    fb_tale_walls(t->before, t->kind, t->guess, r ? r->wall_us.median : NAN, r ? r->source : FB_SOURCE_PREDICTED, line);
    if (r) {
        find_fall(app, r);
        if (t->fall.n && t->passed_by) fb_str_add(line, " · ");
        if (t->fall.n && !t->passed_by) fb_str_clear(&hint->line[1]);
        fb_str_add(&hint->line[1], fb_str_get(&t->fall));
        if (!t->passed_by && t->fall.n) hint->role[1] = FB_ROLE_TEXT;
    } else if (c->state == FB_COLUMN_QUEUED || c->state == FB_COLUMN_MEASURING) {
        fb_str_add(line, " → …");
    } else if (c->state == FB_COLUMN_READY && !fb_session_auto(app->session)) {
        fb_str_add(line, " · m measures it");
    }
    return true;
}

/* ---- its rows ---- */

const fb_merge *fb_tale_merge(const fb_app *app)
{
    return is_of_column(app) ? &app->tale.merge : NULL;
}

static bool is_turning(const fb_app *app)
{
    return app->tale.merge.rank && app->tale.merge.step < FB_MERGE_STEPS && is_of_column(app);
}

int fb_tale_wait(const fb_app *app)
{
    if (!is_turning(app)) return -1;
    int64_t left = (app->tale.next_ns - fb_now_ns()) / 1000000 + 1;
    return left < 0 ? 0 : (int)left;
}

void fb_tale_turn(fb_app *app)
{
    if (!is_turning(app) || fb_now_ns() < app->tale.next_ns) return;
    app->tale.merge.step++;
    app->tale.next_ns = fb_now_ns() + FB_MERGE_STEP_MS * 1000000ll;
    app->dirty = true;
}
