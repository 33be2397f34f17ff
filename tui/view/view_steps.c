/* A preset's decisions, one at a time, beside the graph. The cursor is where the procedure stands: the column has the
 * plan of the decisions down to it, so that moving is replaying. Saying no at a decision lets the procedure go on
 * without it. Esc leaves the column with all decisions, Enter with those down to the cursor. */
#include "tui/show/step_roll.h"
#include "tui/view/ui.h"

#include <math.h>
#include <string.h>

/* The record is made anew when another decision is refused or the graph is another. */
typedef struct {
    int column;
    fb_hash graph;
    fb_preset_use use; /* with the refusals; its limit is the cursor */
    int limit;         /* as the column had it */
    fb_step_rows rows; /* below row 0, where nothing is decided */
    bool one_by_one;   /* nothing is rolled */
    bool fine;
    fb_error err;
} state;

enum { DETAILS = 8, NUMBER = 5, OUTCOME = 7, WHAT = 17, ROOM_FOR_PATHS = 76, ROOM_FOR_WORDS = 52 };

/* How a decision is written in the list: with whole paths, with the last part of them, or without words too. Then it is
 * written out below the list. */
typedef enum { FORM_WHOLE, FORM_BRIEF, FORM_SHORT } row_form;

/* Decisions taken down to a row. */
static int taken(const state *s, int row)
{
    return row > 0 && row <= s->rows.n ? s->rows.at[row - 1].first + s->rows.at[row - 1].n : 0;
}

/* The row in which so many are taken; -1: all of them. */
static int row_of(const state *s, int limit)
{
    for (int row = 0; row < s->rows.n && limit >= 0; row++)
        if (taken(s, row) >= limit) return row;
    return s->rows.n;
}

static const fb_column *column_of(const fb_app *app)
{
    const state *s = app->state[FB_VIEW_STEPS];
    return s && s->column < fb_session_columns(app->session) ? fb_session_column(app->session, s->column) : NULL;
}

/* As written: where steps become a loop on the way, the column's own is another one before and afterwards. */
static const fb_graph *graph_of(const fb_app *app)
{
    const fb_column *c = column_of(app);
    return !c ? NULL : c->written ? c->written : c->graph;
}

/* NULL while the column has no plan. */
static const fb_graph *graph_of_step(const fb_app *app, const fb_step *step)
{
    const fb_column *c = column_of(app);
    return c && c->plan ? fb_step_graph(step, fb_plan_planner(c->plan)) : NULL;
}

/* Rolled as the graph of the last decision is; one before it that is of another graph stands alone. */
static void roll_rows(fb_app *app, state *s)
{
    const fb_step *last = fb_steps_at(app->steps, fb_steps_kept(app->steps) - 1);
    const fb_graph *g = last && !s->one_by_one && s->column == app->column ? graph_of_step(app, last) : NULL;
    bool shown = g && app->model.outline && app->model.outline->graph == g;
    fb_outline *own = g && !shown ? fb_outline_new(g) : NULL;
    fb_show_step_roll(app->steps, shown ? app->model.outline : own, &s->rows);
    fb_outline_free(own);
}

static void record(fb_app *app, state *s)
{
    fb_preset_use all = s->use;
    const fb_graph *g = graph_of(app);
    all.limit = -1;
    fb_steps_free(app->steps);
    app->steps = fb_session_steps(app->session, s->column, &all, &s->err);
    s->fine = app->steps != NULL;
    if (g) s->graph = g->hash;
    s->rows.n = 0;
    if (s->fine) roll_rows(app, s);
}

static void drop_rows(void *s)
{
    FB_VEC_FREE(&((state *)s)->rows);
}

static void replay(fb_app *app, state *s);

/* At the first decision; where the column stopped at one, there. */
static void opened(fb_app *app)
{
    state *s = fb_view_state(app, FB_VIEW_STEPS, sizeof *s);
    *s = (state){.column = app->column};
    fb_arena_defer(app->arena[FB_VIEW_STEPS], drop_rows, s);
    fb_steps_free(app->steps);
    app->steps = NULL;
    app->scroll[FB_VIEW_STEPS] = (fb_scroll){0};
    if (!fb_session_preset(app->session, s->column, &s->use, &s->err)) return;
    s->limit = s->use.limit;
    record(app, s);
    app->scroll[FB_VIEW_STEPS].cursor = s->limit >= 0 ? row_of(s, s->limit) : 1;
    if (s->fine && s->rows.n && s->limit < 0) replay(app, s);
}

/* The same decisions on what the column has become: other parameters make other graphs, and columns come and go. */
static state *now(fb_app *app)
{
    state *s = app->state[FB_VIEW_STEPS];
    const fb_graph *g = graph_of(app);
    fb_preset_use is;
    if (!s || !s->fine) return s;
    s->fine = s->column < fb_session_columns(app->session) &&
              fb_session_preset(app->session, s->column, &is, &s->err) && is.preset == s->use.preset;
    if (!s->fine)
        fb_fail(&s->err, FB_ERR_USAGE, "column %d has another plan now: Esc goes back", s->column + 1);
    else if (g && memcmp(&g->hash, &s->graph, sizeof s->graph) != 0)
        record(app, s);
    return s;
}

static void title(fb_app *app, fb_str *out)
{
    const state *s = now(app);
    fb_str_add(out, "decisions");
    if (!s || !s->fine) return;
    fb_preset_use all = s->use;
    all.limit = -1;
    fb_str_addf(out, " of %d ", s->column + 1);
    fb_preset_write(&all, out);
    fb_str_addf(out, " · %d of %d", taken(s, app->scroll[FB_VIEW_STEPS].cursor), fb_steps_count(app->steps));
}

/* Row 0 is where nothing has been decided. */
static int count(fb_app *app)
{
    const state *s = now(app);
    return s && s->fine ? s->rows.n + 1 : 0;
}

/* ---- moving is replaying ---- */

static void replay(fb_app *app, state *s)
{
    fb_str text = {0};
    fb_error err = {0};
    int at = taken(s, app->scroll[FB_VIEW_STEPS].cursor);
    s->use.limit = at == fb_steps_kept(app->steps) ? -1 : at;
    fb_preset_write(&s->use, &text);
    if (!fb_session_set_plan(app->session, s->column, fb_str_get(&text), &err))
        fb_app_say(app, FB_ROLE_BAD, "%s", err.text);
    fb_str_free(&text);
}

/* Refuses decision k, from 1, or allows it again. Refusals after it belong to a run that is no more. */
static void refuse(fb_app *app, state *s)
{
    int row = app->scroll[FB_VIEW_STEPS].cursor, k = taken(s, row);
    const fb_step *step = row ? fb_steps_at(app->steps, k - 1) : NULL;
    if (!step) {
        fb_app_say(app, FB_ROLE_WARN, "nothing is decided yet: move to a decision");
        return;
    }
    if (s->rows.at[row - 1].n > 1) {
        fb_app_say(app, FB_ROLE_WARN, "these are %d decisions: x shows them one by one", s->rows.at[row - 1].n);
        return;
    }
    if (step->outcome == FB_STEP_REFUSED) {
        fb_app_say(app, FB_ROLE_WARN, "the preset itself refuses this one");
        return;
    }
    int n = 0;
    while (n < s->use.n_no && s->use.no[n] < k) n++;
    if (step->outcome != FB_STEP_DECLINED && n == FB_PRESET_REFUSALS) {
        fb_app_say(app, FB_ROLE_WARN, "no more than %d refusals", FB_PRESET_REFUSALS);
        return;
    }
    s->use.n_no = n;
    if (step->outcome != FB_STEP_DECLINED) s->use.no[s->use.n_no++] = k;
    record(app, s);
    app->scroll[FB_VIEW_STEPS].cursor = row_of(s, k);
    replay(app, s);
}

/* All decisions again, as far as the column had taken them when the view was opened. */
static void leave(fb_app *app, state *s)
{
    if (s->use.limit != s->limit) {
        app->scroll[FB_VIEW_STEPS].cursor = row_of(s, s->limit);
        replay(app, s);
    }
    fb_app_hide(app);
}

static void unroll(fb_app *app, state *s)
{
    int k = taken(s, app->scroll[FB_VIEW_STEPS].cursor);
    s->one_by_one = !s->one_by_one;
    record(app, s);
    app->scroll[FB_VIEW_STEPS].cursor = row_of(s, k);
    replay(app, s);
}

static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    state *s = now(app);
    (void)arg;
    if (!s || !s->fine || !graph_of(app)) return false;
    fb_scroll *at = &app->scroll[FB_VIEW_STEPS];
    int before = at->cursor;
    if (c == FB_CMD_TOGGLE || c == FB_CMD_REFUSE) {
        refuse(app, s);
        return true;
    }
    if (c == FB_CMD_BACK || c == FB_CMD_CLOSE) {
        leave(app, s);
        return true;
    }
    if (c == FB_CMD_ENTER) {
        fb_app_hide(app);
        return true;
    }
    if (c == FB_CMD_MEMBERS) {
        unroll(app, s);
        return true;
    }
    if (c == FB_CMD_RIGHT) c = FB_CMD_DOWN;
    if (c == FB_CMD_LEFT) c = FB_CMD_UP;
    if (!fb_scroll_command(at, count(app), app->layout.whole.h - DETAILS, c)) return false;
    if (at->cursor != before) replay(app, s);
    return true;
}

/* ---- drawing ---- */

static fb_role role_of(fb_step_outcome o)
{
    switch (o) {
    case FB_STEP_TAKEN: return FB_ROLE_GOOD;
    case FB_STEP_UNABLE: return FB_ROLE_WARN;
    case FB_STEP_DECLINED: return FB_ROLE_BAD;
    default: return FB_ROLE_DIM;
    }
}

static row_form form_of(const fb_rect *r)
{
    return r->w >= ROOM_FOR_PATHS ? FORM_WHOLE : r->w >= ROOM_FOR_WORDS ? FORM_BRIEF : FORM_SHORT;
}

/* "layer_norm.mean" of "feature[3].layer_norm.mean": where there is no room for whole paths. */
static const char *brief(const char *path)
{
    const char *at = path;
    for (const char *dot = strchr(path, ']'); dot && dot[1] == '.'; dot = strchr(at, ']')) at = dot + 2;
    return at;
}

static void candidate_text(const fb_graph *g, const fb_candidate *c, row_form form, fb_str *out)
{
    if (form == FORM_WHOLE) {
        fb_candidate_text(g, c, out);
        return;
    }
    const char *other = fb_candidate_other(g, c);
    bool words = form != FORM_SHORT || c->kind != FB_STEP_FUSE;
    if (words) fb_str_addf(out, "%s ", fb_step_kind_name(c->kind));
    fb_str_addf(out, "`%s`", brief(fb_candidate_name(g, c)));
    if (other) fb_str_addf(out, "%s `%s`", words ? " and" : " +", brief(other));
}

/* `of`: the decision that it is a candidate of; `times`: for so many members of a repetition. */
static void draw_candidate(const fb_app *app, const fb_rect *r, int y, int x, fb_role role, const fb_step *of,
                           const fb_candidate *c, int times)
{
    fb_str what = {0}, score = {0}, many = {0};
    const fb_graph *g = graph_of_step(app, of);
    if (g) candidate_text(g, c, form_of(r), &what);
    fb_steps_score(app->steps, c->score, &score);
    if (times > 1) fb_str_addf(&many, " ×%d", times);
    int room = r->w - x - fb_draw_text_width(fb_str_get(&score)) - 2 - fb_draw_text_width(fb_str_get(&many));
    int end = fb_draw_cut(r, y, x, room, role, fb_str_get(&what));
    fb_draw(r, y, end, FB_ROLE_KEY, fb_str_get(&many));
    fb_str_free(&many);
    fb_draw_right(r, y, r->w - 1, role, fb_str_get(&score));
    fb_str_free(&what);
    fb_str_free(&score);
}

static void draw_row(fb_app *app, const fb_rect *r, int y, int row)
{
    bool ahead = row > app->scroll[FB_VIEW_STEPS].cursor;
    if (row == 0) {
        fb_draw(r, y, form_of(r) == FORM_SHORT ? OUTCOME : WHAT, FB_ROLE_DIM,
                fb_steps_count(app->steps) ? "every operation its own kernel" : "nothing is decided edge by edge");
        return;
    }
    const fb_step_row *some = &((state *)app->state[FB_VIEW_STEPS])->rows.at[row - 1];
    const fb_step *s = fb_steps_at(app->steps, some->first);
    char number[32];
    int last = some->first + some->n;
    if (some->n > 1 && last < 100)
        snprintf(number, sizeof number, "%d-%d", some->first + 1, last);
    else
        snprintf(number, sizeof number, "%s%d", some->n > 1 ? "…" : "", last);
    fb_draw_right(r, y, NUMBER, FB_ROLE_DIM, number);
    fb_role role = ahead || s->outcome == FB_STEP_REFUSED ? FB_ROLE_DIM : FB_ROLE_TEXT;
    if (some->period > 1) {
        fb_drawf(r, y, OUTCOME, role, "the same for %d more, %d decisions", some->n / some->period, some->n);
        return;
    }
    fb_draw(r, y, OUTCOME, ahead ? FB_ROLE_DIM : role_of(s->outcome), fb_step_outcome_name(s->outcome));
    draw_candidate(app, r, y, WHAT, role, s, &s->what, some->n);
}

/* The decision of the cursor's row, the last of those that it stands for. */
static const fb_step *step_here(const fb_app *app)
{
    const state *s = app->state[FB_VIEW_STEPS];
    int k = s ? taken(s, app->scroll[FB_VIEW_STEPS].cursor) : 0;
    return k ? fb_steps_at(app->steps, k - 1) : NULL;
}

bool fb_view_steps_nodes(fb_app *app, fb_id nodes[2])
{
    const state *s = app->state[FB_VIEW_STEPS];
    if (fb_app_view(app) != FB_VIEW_STEPS || !s || !s->fine || s->column != app->column) return false;
    const fb_step *step = step_here(app);
    const fb_column *c = column_of(app);
    bool of_nodes = step && c && step->what.kind != FB_STEP_BEGIN && graph_of_step(app, step) == c->graph;
    nodes[0] = of_nodes ? step->what.a : FB_NONE;
    nodes[1] = of_nodes ? step->what.b : FB_NONE;
    return step != NULL;
}

/* Under the list: why, and what stood beside it. */
static void draw_details(const fb_app *app, const fb_rect *r, int y)
{
    const fb_step *s = step_here(app);
    if (!s) {
        fb_rect below = {r->y + y + 1, r->x + 2, r->h - y - 1, r->w - 4};
        fb_draw_wrapped(&below, 0, 0, below.h, FB_ROLE_DIM,
                        fb_steps_count(app->steps)
                            ? "j takes the next decision, G all of them"
                            : "Presets that decide edge by edge have steps to go through: max, inductor, xla, "
                              "tinygrad. p gives the column one of them.");
        return;
    }
    fb_rect inner = {r->y, r->x + 2, r->h, r->w - 3};
    fb_str text = {0};
    const fb_graph *g = graph_of_step(app, s);
    if (g && form_of(r) == FORM_SHORT) {
        fb_candidate_text(g, &s->what, &text);
        y += fb_draw_wrapped(&inner, y + 1, 0, 2, FB_ROLE_TEXT, fb_str_get(&text));
        fb_str_clear(&text);
    }
    y++;
    y += fb_draw_wrapped(&inner, y, 0, r->h - y, FB_ROLE_STRONG, s->why);
    if (s->verdict) {
        fb_str_addf(&text, "not here: %s", s->verdict);
        y += fb_draw_wrapped(&inner, y, 0, r->h - y, FB_ROLE_WARN, fb_str_get(&text));
    }
    fb_str_free(&text);
    if (s->n_others && y < r->h) fb_drawf(r, y++, 2, FB_ROLE_DIM, "beside it, %d open:", s->n_open);
    for (int i = 0; i < s->n_others && y < r->h; i++) draw_candidate(app, r, y++, 4, FB_ROLE_DIM, s, &s->others[i], 1);
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    const state *s = now(app);
    fb_scroll at = app->scroll[FB_VIEW_STEPS];
    if (!s || !s->fine || !graph_of(app)) {
        fb_rect inner = {r->y, r->x + 2, r->h, r->w - 4};
        fb_draw_wrapped(&inner, 1, 0, r->h - 1, FB_ROLE_DIM, s ? s->err.text : "no column");
        return;
    }
    int rows = r->h > 2 * DETAILS ? r->h - DETAILS : (r->h + 1) / 2;
    at.top = at.cursor - rows / 2;
    fb_scroll_fit(&at, count(app), rows);
    app->scroll[FB_VIEW_STEPS].top = at.top;
    fb_filter_fit(app, FB_VIEW_STEPS, rows);
    for (int y = 0, row; y < rows && (row = fb_shown_row(app, FB_VIEW_STEPS, y, count(app))) != FB_NONE; y++) {
        fb_row_ground(app, FB_VIEW_STEPS, r, y, row, focused);
        draw_row(app, r, y, row);
        fb_draw_ground(FB_GROUND_PLAIN);
    }
    draw_details(app, r, rows);
}

static void text(fb_app *app, int row, fb_str *out)
{
    const state *st = now(app);
    const fb_step *s = st && st->fine && row ? fb_steps_at(app->steps, st->rows.at[row - 1].first) : NULL;
    const fb_graph *g = s ? graph_of_step(app, s) : NULL;
    if (g) fb_candidate_text(g, &s->what, out);
}

static void explain(fb_app *app, fb_hint *hint)
{
    const state *s = now(app);
    if (!s || !s->fine || !graph_of(app)) return;
    const fb_step *step = step_here(app);
    fb_str_add(&hint->title, step ? fb_step_outcome_name(step->outcome) : "start");
    const char *score = fb_steps_score_name(app->steps);
    if (!fb_steps_count(app->steps)) return;
    if (!step)
        fb_str_add(&hint->line[0], "nothing is decided yet: every operation is a kernel of its own");
    else if (step->outcome == FB_STEP_REFUSED)
        fb_str_add(&hint->line[0], "the preset's own rules say no");
    else if (step->outcome == FB_STEP_DECLINED)
        fb_str_add(&hint->line[0], "Space: allow it again");
    else
        fb_str_add(&hint->line[0], "Space: what if no here? The procedure goes on without it");
    fb_str_add(&hint->line[1], "j the next decision, k back, G all · Enter keeps this plan, Esc all");
    if (step && score[0]) fb_str_addf(&hint->line[0], " · right: %s", score);
}

static void moved(fb_app *app)
{
    state *s = now(app);
    if (s && s->fine && graph_of(app)) replay(app, s);
}

static const fb_view_key keys[] = {
    {FB_CMD_DOWN, "j next", "take the next decision; the column follows"},
    {FB_CMD_UP, "k back", "take the last decision back"},
    {FB_CMD_BOTTOM, "G all", "take all decisions"},
    {FB_CMD_MEMBERS, "x one by one", "decisions of repetitions one by one, or rolled"},
    {FB_CMD_ENTER, "keep", "back to the workbench, with the plan as it is at this decision"},
    {FB_CMD_BACK, "", "back, with all decisions taken"},
    {FB_CMD_TOGGLE, "no here", "what if no here? The procedure goes on without it; once more: it is allowed again"},
    {FB_CMD_NONE, NULL, NULL},
};

const fb_view fb_view_steps = {
    .title = title,
    .count = count,
    .draw = draw,
    .text = text,
    .explain = explain,
    .command = command,
    .opened = opened,
    .keys = keys,
    .moved = moved,
    .beside = 40,
    .about = "A compiler decides one pair of operations after the other. This is the record of such decisions, "
             "in order: what was considered, what was decided (taken, refused, unable), and why.\n"
             "The column holds the plan as it is after the decision under the cursor. Go on with j, and see "
             "how kernels grow together in the graph.",
};
