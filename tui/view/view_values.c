/* The numbers that a node holds: error against the reference, statistics, a corner, a histogram. What `fusebox values`
 * prints; the column is prepared for it, not timed, once nothing else of it is under way. */
#include "tui/show/values_text.h"
#include "tui/view/ui.h"

#include <math.h>
#include <string.h>

typedef enum { WAITS, ASKED, SHOWN, FAILED } phase;

typedef struct {
    const char *text;
    fb_role role;
    double share; /* of a bar behind the text; NAN: none */
} line;

typedef struct {
    phase phase;
    int column;
    fb_hash graph, plan;
    const char *node;
    int of; /* how many nodes the name stands for */
    fb_values *values;
    fb_error error;
    int n, n_bins;
    line lines[96], bins[FB_VALUES_BINS];
} state;

enum { CORNER_LABEL = 8, CORNER_CELL = 11, CORNER = 5, BESIDE = CORNER_LABEL + CORNER * CORNER_CELL + 2, BIN = 11 };
enum { ROOM_BESIDE = BESIDE + BIN + 14 };

static state *now(fb_app *app)
{
    return app->state[FB_VIEW_VALUES];
}

/* ---- what is shown ---- */

static void add(fb_app *app, state *s, fb_role role, const char *text)
{
    if (s->n == (int)(sizeof s->lines / sizeof *s->lines)) return;
    s->lines[s->n++] = (line){fb_arena_strdup(app->arena[FB_VIEW_VALUES], text), role, NAN};
}

static void add_error(fb_app *app, state *s, const fb_values *v)
{
    fb_str text = {0};
    fb_show_values_error(v, &text);
    char *rest = text.text;
    for (char *l; rest && (l = strsep(&rest, "\n"));) {
        const char *words = l;
        fb_str part = {0};
        for (int k = 0; fb_draw_text_words(&words, app->layout.header.w - 8, &part); k++) {
            char *text_line =
                fb_arena_printf(app->arena[FB_VIEW_VALUES], "%s%s", k || *l == ' ' ? "  " : "", fb_str_get(&part));
            add(app, s, v->right ? FB_ROLE_TEXT : FB_ROLE_BAD, text_line);
        }
        fb_str_free(&part);
    }
    if (v->compared && v->right) s->lines[0].role = FB_ROLE_GOOD;
    fb_str_free(&text);
}

static void add_statistics(fb_app *app, state *s, const fb_values *v)
{
    fb_str names = {0}, figures = {0};
    for (int i = 0; i < fb_show_values_statistics(); i++) {
        fb_str one = {0};
        int w = i < 4 ? CORNER_CELL : 6; /* figures, then counts */
        fb_str_addf(&names, "%*s", w, fb_show_values_statistic(v, i, &one));
        fb_str_addf(&figures, "%*s", w, fb_str_get(&one));
        fb_str_free(&one);
    }
    add(app, s, FB_ROLE_TEXT, "");
    add(app, s, FB_ROLE_DIM, fb_str_get(&names));
    add(app, s, FB_ROLE_TEXT, fb_str_get(&figures));
    fb_str_free(&names);
    fb_str_free(&figures);
}

/* The beginning of the last two dims, at 0 of the others. */
static void add_corner(fb_app *app, state *s, const fb_values *v)
{
    int64_t wide = v->shape.rank ? v->shape.dim[v->shape.rank - 1] : 1;
    if (!v->rows) return;
    fb_str text = {0};
    fb_str_addf(&text, "%*s", -CORNER_LABEL, "corner");
    for (int c = 0; c < v->columns && c < CORNER; c++) fb_str_addf(&text, "%*d", CORNER_CELL, c);
    add(app, s, FB_ROLE_TEXT, "");
    add(app, s, FB_ROLE_DIM, fb_str_get(&text));
    for (int r = 0; r < v->rows; r++) {
        char at[128];
        fb_str_clear(&text);
        fb_str_addf(&text, "%*s", -CORNER_LABEL, fb_values_at(&v->shape, r * wide, at));
        for (int c = 0; c < v->columns && c < CORNER; c++) {
            fb_str one = {0};
            fb_show_value(v->dtype, v->corner[r * v->columns + c], &one);
            fb_str_addf(&text, "%*s", CORNER_CELL, fb_str_get(&one));
            fb_str_free(&one);
        }
        add(app, s, FB_ROLE_TEXT, fb_str_get(&text));
    }
    fb_str_free(&text);
}

static void make_bins(fb_app *app, state *s, const fb_values *v)
{
    double from, share;
    for (int k = 0; k < FB_VALUES_BINS && fb_show_values_bin(v, k, &from, &share); k++)
        s->bins[s->n_bins++] =
            (line){fb_arena_printf(app->arena[FB_VIEW_VALUES], "%*.3g", BIN - 1, from), FB_ROLE_DIM, share};
}

static void make(fb_app *app, state *s, const fb_values *v)
{
    s->n = s->n_bins = 0;
    add_error(app, s, v);
    add_statistics(app, s, v);
    add_corner(app, s, v);
    make_bins(app, s, v);
}

/* ---- asking ---- */

static bool is_busy(const fb_column *c)
{
    return c->state == FB_COLUMN_BUILDING || c->state == FB_COLUMN_QUEUED || c->state == FB_COLUMN_MEASURING;
}

static void begin(fb_app *app, const char *node, int of)
{
    char *name = fb_strdup(node); /* `node` may be the state's own */
    state *s = fb_view_state(app, FB_VIEW_VALUES, sizeof *s);
    *s = (state){.column = app->column, .graph = app->model.graph_hash, .plan = app->model.plan_hash, .of = of};
    s->node = fb_arena_strdup(app->arena[FB_VIEW_VALUES], name);
    app->scroll[FB_VIEW_VALUES] = (fb_scroll){0};
    fb_free(name);
}

static void drop_values(void *v)
{
    fb_values_free(v);
}

static void ask(fb_app *app, state *s)
{
    if (s->phase == WAITS) {
        s->phase = ASKED;
        fb_session_look(app->session, s->column, s->node);
        return;
    }
    const fb_values *v = fb_session_values(app->session, s->column, &s->error);
    json_t *copy = v ? fb_values_to_json(v) : NULL; /* the column's own goes with the column */
    s->values = copy ? fb_values_from_json(copy, &s->error) : NULL;
    json_decref(copy);
    s->phase = s->values ? SHOWN : FAILED;
    if (!s->values) return;
    fb_arena_defer(app->arena[FB_VIEW_VALUES], drop_values, s->values);
    make(app, s, s->values);
}

void fb_view_follow_values(fb_app *app)
{
    state *s = now(app);
    const fb_column *c = app->model.column;
    if (!s || fb_app_view(app) != FB_VIEW_VALUES || !c || !c->graph || !c->plan || is_busy(c)) return;
    bool other = s->column != app->column || !fb_hash_equal(s->graph, app->model.graph_hash) ||
                 !fb_hash_equal(s->plan, app->model.plan_hash);
    if (other && fb_graph_find(c->graph, s->node) == FB_NONE) {
        s->phase = FAILED;
        s->values = NULL;
        fb_fail(&s->error, FB_ERR_USAGE, "no node \"%s\" in this column's graph", s->node);
        return;
    }
    if (other) begin(app, s->node, s->of);
    s = now(app);
    if (s->phase == WAITS || s->phase == ASKED) ask(app, s);
}

/* The node of the graph's row: of a scope the last one, which is what it gives. */
static fb_id node_of_row(const fb_app *app)
{
    const fb_rows *rows = &app->model.rows;
    int at = app->scroll[FB_VIEW_GRAPH].cursor;
    if (!app->model.outline || at >= rows->rows.n) return FB_NONE;
    const fb_entry *e = &app->model.outline->entries[rows->rows.at[at].entry];
    return e->kind == FB_ENTRY_REPEAT ? app->model.outline->entries[rows->rows.at[at].entry + 1].last : e->last;
}

void fb_view_show_values(fb_app *app, const char *arg)
{
    const fb_graph *g = app->model.outline ? app->model.outline->graph : NULL;
    fb_arena *arena = fb_arena_new();
    fb_id *nodes = NULL, under = g ? node_of_row(app) : FB_NONE;
    if (fb_app_view(app) == FB_VIEW_SOURCE && fb_source_node(app) != FB_NONE) under = fb_source_node(app);
    int n = g && *arg ? fb_match_nodes(g, arg, arena, &nodes) : 0;
    fb_id node = n ? nodes[0] : *arg ? FB_NONE : under;
    if (node == FB_NONE && *arg)
        fb_app_say(app, FB_ROLE_BAD, "values: no node \"%s\"; / finds them in the graph", arg);
    else if (node == FB_NONE)
        fb_app_say(app, FB_ROLE_WARN, "values: no node is under the cursor of the graph");
    else {
        begin(app, g->nodes[node].name, n ? n : 1);
        fb_app_show(app, FB_VIEW_VALUES);
    }
    fb_arena_free(arena);
}

/* The row of the graph after this one, or before. */
static void another(fb_app *app, int step)
{
    fb_scroll *s = &app->scroll[FB_VIEW_GRAPH];
    int to = s->cursor + step;
    if (to < 0 || to >= app->model.rows.rows.n) {
        fb_app_say(app, FB_ROLE_DIM, "that is the %s row of the graph", step < 0 ? "first" : "last");
        return;
    }
    s->cursor = to;
    app->edge = 0;
    fb_id node = node_of_row(app);
    if (node == FB_NONE) return;
    begin(app, app->model.outline->graph->nodes[node].name, 1);
}

/* ---- the view ---- */

static void title(fb_app *app, fb_str *out)
{
    const state *s = now(app);
    fb_str_addf(out, "values · %s", s ? s->node : "");
    if (s && s->of > 1) fb_str_addf(out, ", the first of %d", s->of);
    fb_str_addf(out, " · %d", app->column + 1);
    if (app->model.column) fb_str_addf(out, " %s", app->model.column->plan_name);
}

/* Bins follow where they do not stand beside. */
static int count(fb_app *app)
{
    const state *s = now(app);
    bool below = s && s->n_bins && app->layout.whole.w < ROOM_BESIDE;
    return s && s->phase == SHOWN ? s->n + (below ? s->n_bins + 2 : 0) : 0;
}

static void draw_bin(const fb_rect *r, int y, int x, const state *s, int k)
{
    if (k == 0) fb_draw(r, y, x, FB_ROLE_DIM, "      from   elements");
    if (k < 1 || k > s->n_bins) return;
    const line *l = &s->bins[k - 1];
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)s->values->bin[k - 1]);
    int end = fb_draw(r, y, x, l->role, l->text) + 1, width = r->w - end - 1 - fb_draw_text_width(number) - 1;
    if (width > 40) width = 40;
    fb_draw_bar(r, y, end, width, FB_ROLE_BYTES, l->share);
    fb_draw(r, y, end + (int)ceil(l->share * width) + 1, FB_ROLE_DIM, number);
}

static void draw_wait(fb_app *app, const fb_rect *r, const state *s)
{
    const fb_column *c = app->model.column;
    fb_rect inner = {r->y, r->x + 2, r->h, r->w - 4};
    if (s && s->phase == FAILED)
        fb_draw_wrapped(&inner, 1, 0, r->h - 1, FB_ROLE_BAD, s->error.text);
    else if (s && s->phase == WAITS)
        fb_draw_wrapped(&inner, 1, 0, r->h - 1, FB_ROLE_DIM,
                        "The column is still being measured. Its values are looked at after that.");
    else
        fb_draw_wrapped(&inner, 1, 0, r->h - 1, FB_ROLE_DIM,
                        c && *c->progress ? c->progress : "The column runs once, and every element is compared …");
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    const state *s = now(app);
    bool beside = r->w >= ROOM_BESIDE;
    fb_rect inner = {r->y, r->x + 1, r->h, r->w - 2};
    if (!s || s->phase != SHOWN) {
        draw_wait(app, r, s);
        return;
    }
    int top = app->scroll[FB_VIEW_VALUES].top, n = count(app), errors = 0;
    while (errors < s->n && *s->lines[errors].text) errors++;
    for (int y = 0, row; y < r->h && (row = fb_shown_row(app, FB_VIEW_VALUES, y, n)) != FB_NONE; y++) {
        fb_row_ground(app, FB_VIEW_VALUES, r, y, row, focused);
        if (row < s->n)
            fb_draw(&inner, y, 0, s->lines[row].role, s->lines[row].text);
        else
            draw_bin(&inner, y, 0, s, row - s->n - 1);
    }
    fb_draw_ground(FB_GROUND_PLAIN);
    for (int k = 0; k <= s->n_bins && beside && n > 0; k++) draw_bin(&inner, errors + 1 + k - top, BESIDE, s, k);
}

static void text(fb_app *app, int row, fb_str *out)
{
    const state *s = now(app);
    if (row < s->n)
        fb_str_add(out, s->lines[row].text);
    else if (row > s->n + 1)
        fb_str_addf(out, "%s %lld", s->bins[row - s->n - 2].text, (long long)s->values->bin[row - s->n - 2]);
}

static void yank(fb_app *app, fb_str *out)
{
    const state *s = now(app);
    if (!s || s->phase != SHOWN) return;
    fb_show_values_head(s->values, out);
    fb_str_add(out, "\n\n");
    for (int i = 0; i < s->n; i++) fb_str_addf(out, "%s\n", s->lines[i].text);
    for (int k = 0; k < s->n_bins; k++)
        fb_str_addf(out, "%s%s %lld\n", k ? "" : "\n", s->bins[k].text, (long long)s->values->bin[k]);
}

static void explain(fb_app *app, fb_hint *hint)
{
    const state *s = now(app);
    if (!s) return;
    fb_str_add(&hint->title, s->node);
    if (s->phase == SHOWN) fb_show_values_head(s->values, &hint->line[0]);
    fb_str_add(&hint->line[1], "[ ] another row · digits: the same in another column · Y copies · Esc back");
}

static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    (void)arg;
    if (c != FB_CMD_EDGE_BACK && c != FB_CMD_EDGE_NEXT) return false;
    another(app, c == FB_CMD_EDGE_NEXT ? 1 : -1);
    return true;
}

static const fb_view_key keys[] = {
    {FB_CMD_EDGE_NEXT, "[ ] row", "the values of the graph's next row"},
    {FB_CMD_EDGE_BACK, "", "the values of the row before"},
    {FB_CMD_COLUMN, "1-9 column", "the same node in another column"},
    {FB_CMD_YANK, "copy", "copy all of it as text"},
    {FB_CMD_NONE, NULL, NULL},
};

const fb_view fb_view_values = {
    .title = title,
    .count = count,
    .draw = draw,
    .text = text,
    .explain = explain,
    .command = command,
    .yank = yank,
    .keys = keys,
    .about = "The numbers that one operation gives, in this column's plan. First how far they are from a "
             "reference computed in double precision, and whether that is within what rounding explains.\n"
             "Then the smallest, the largest and the mean, the first numbers of the first rows (corner), and a "
             "histogram: how many numbers lie in each range.",
};
