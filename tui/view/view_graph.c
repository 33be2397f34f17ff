/* The graph: scopes that fold, nodes, which kernel each is in, how its edges are. */
#include "tui/view/ui.h"

#include <string.h>

enum { MARKS = 4 };

static int count(fb_app *app)
{
    return app->model.outline ? app->model.rows.rows.n : 0;
}

static void title(fb_app *app, fb_str *out)
{
    const fb_column *c = app->model.column;
    fb_str_add(out, "graph");
    if (!c) return;
    if (*c->variant) fb_str_addf(out, " · %s", c->variant);
    fb_str_addf(out, " · %d %s", app->column + 1, fb_file_name(c->plan_name));
    const fb_theirs *theirs = fb_model_theirs(app);
    if (theirs) fb_str_addf(out, theirs->unavailable ? " · its plan is not available" : " · as %s has it", theirs->by);
}

/* ---- drawing --------------------------------------------------------------------------------------------------------
 */

/* The letter and how the row hangs together with its neighbours: "b╭", "b│", "b╰". Of what was just edited the line is
 * heavy. */
static void draw_gutter(const fb_row *row, bool heavy, const fb_rect *r, int y, int w)
{
    static const char *const usual[] = {[FB_TIE_NONE] = " ",   [FB_TIE_ALONE] = "╶", [FB_TIE_FIRST] = "╭",
                                        [FB_TIE_MIDDLE] = "│", [FB_TIE_LAST] = "╰",  [FB_TIE_THROUGH] = "│"};
    static const char *const edited[] = {[FB_TIE_NONE] = " ",   [FB_TIE_ALONE] = "╺", [FB_TIE_FIRST] = "┏",
                                         [FB_TIE_MIDDLE] = "┃", [FB_TIE_LAST] = "┗",  [FB_TIE_THROUGH] = "┃"};
    const char *const *ties = heavy ? edited : usual;
    char name[8];
    if (row->tie == FB_TIE_THROUGH) {
        fb_draw(r, y, w, FB_ROLE_DIM, ties[row->tie]);
        return;
    }
    if (row->letter == FB_NONE) {
        if (row->recomputed) fb_draw_right(r, y, w, FB_ROLE_DIM, "↻");
        return;
    }
    fb_role role = row->several ? FB_ROLE_DIM : (fb_role)(FB_ROLE_GROUP + row->letter % FB_GROUP_COLOURS);
    fb_draw_right(r, y, w, role, fb_letter_name(row->letter, name));
    fb_draw(r, y, w, role, row->several ? "+" : ties[row->tie]);
}

static int letters_width(const fb_app *app)
{
    int n = app->model.letters.n;
    for (int i = 0; !n && i < app->model.theirs.n; i++)
        if (app->model.theirs.at[i] >= 26) return 3 + (app->model.theirs.n > 26 * 27);
    return n <= 26 ? 2 : n <= 26 * 27 ? 3 : 4;
}

/* One mark an incoming edge: fused, cut, cannot. Verdicts that are not known yet are asked for. Returns how many. */
static int draw_marks(fb_app *app, const fb_rect *r, int y, int right, int row)
{
    int n, shown = 0, x = right;
    fb_rows_edges(&app->model.rows, row, &n);
    for (int i = n - 1; i >= 0; i--) {
        const fb_row_edge e = fb_rows_edges(&app->model.rows, row, &n)[i];
        if (!e.incoming) continue;
        if (shown++ == MARKS - 1) {
            fb_draw(r, y, x - 1, FB_ROLE_DIM, "+");
            return MARKS;
        }
        fb_edge_state state = fb_row_edge_state(&e);
        const fb_verdict *v =
            state == FB_EDGE_FUSED ? NULL : fb_verdicts_get(app->verdicts, &app->model.rows, row, i, false);
        bool cannot = v && (v->kind == FB_VERDICT_ILLEGAL || v->kind == FB_VERDICT_UNSUPPORTED);
        const char *mark = state == FB_EDGE_FUSED ? "●" : state == FB_EDGE_MIXED ? "◐" : cannot ? "✗" : "○";
        fb_draw(r, y, --x, cannot ? FB_ROLE_BAD : state == FB_EDGE_CUT ? FB_ROLE_DIM : FB_ROLE_TEXT, mark);
    }
    return shown;
}

static void shape_of(const fb_graph *g, fb_id node, fb_str *out)
{
    const fb_node *n = &g->nodes[node];
    char text[192];
    fb_str_add(out, fb_shape_format(&n->shape, n->dtype == FB_F32 ? FB_DTYPES : n->dtype, text));
}

/* Of alike views: "…" where their sizes differ. */
static void shape_of_all(const fb_outline *o, const fb_entry *e, fb_str *out)
{
    const fb_node *n = &o->graph->nodes[e->id];
    if (n->dtype != FB_F32) fb_str_add(out, fb_dtype_name(n->dtype));
    fb_str_add(out, "[");
    for (int d = 0; d < n->shape.rank; d++) {
        bool same = true;
        for (fb_id i = e->first; same && i <= e->last; i++)
            same = o->entry_of[i] != o->entry_of[e->id] || o->graph->nodes[i].shape.dim[d] == n->shape.dim[d];
        fb_str_add(out, d ? "," : "");
        if (same)
            fb_str_addf(out, "%lld", (long long)n->shape.dim[d]);
        else
            fb_str_add(out, "…");
    }
    fb_str_add(out, "]");
}

/* What the row shows at its right end: of a node or folded scope the shape of its last node. */
static void shape_text(const fb_app *app, int at, fb_str *out)
{
    const fb_outline *o = app->model.outline;
    const fb_entry *e = &o->entries[app->model.rows.rows.at[at].entry];
    if (e->kind == FB_ENTRY_NODE && e->members > 1)
        shape_of_all(o, e, out);
    else if (e->kind == FB_ENTRY_NODE || e->fold == FB_FOLDED)
        shape_of(o->graph, e->last, out);
}

/* What stands after a row's name: how many it is or that it is in a loop, and whether it is a result. */
static void after_name(const fb_outline *o, const fb_entry *e, char many[24], char out[24])
{
    bool node = e->kind == FB_ENTRY_NODE;
    *many = *out = '\0';
    if (e->members > 1) snprintf(many, 24, " ×%d", e->members);
    if (node && o->graph->nodes[e->id].region > 0) snprintf(many, 24, " ↻");
    if (node && fb_node_is_output(o->graph, e->id)) snprintf(out, 24, " out");
}

/* What a row wants between its fold sign and its shape: indentation, name, what stands after it, and marks. */
static int wanted(fb_app *app, int at)
{
    const fb_row row = app->model.rows.rows.at[at];
    const fb_entry *e = &app->model.outline->entries[row.entry];
    char many[24], out[24];
    int n, marks = 0;
    after_name(app->model.outline, e, many, out);
    const fb_row_edge *edges = fb_rows_edges(&app->model.rows, at, &n);
    for (int i = 0; i < n && marks < MARKS; i++) marks += edges[i].incoming;
    return 2 * row.depth + fb_draw_text_width(fb_row_name(&app->model.rows, at)) + fb_draw_text_width(many) +
           fb_draw_text_width(out) + marks + (marks > 0);
}

/* Cells of the rail: one where the pane is narrow. */
static int rail_width(const fb_rect *r)
{
    enum { ROOM = 36 };
    return r->w >= ROOM ? 2 : 1;
}

/* The shapes in sight are one column, as wide as its widest, but no wider than leaves names some room. */
static int shape_column(fb_app *app, const fb_rect *r)
{
    int widest = 0, left = 0;
    for (int y = 0, at; y < r->h && (at = fb_shown_row(app, FB_VIEW_GRAPH, y, count(app))) != FB_NONE; y++) {
        fb_str text = {0};
        shape_text(app, at, &text);
        int w = fb_draw_text_width(fb_str_get(&text)), row = wanted(app, at);
        if (w > widest) widest = w;
        if (row > left) left = row;
        fb_str_free(&text);
    }
    enum { NAME = 15, AROUND = 6, LEAST = 8 };
    int most = r->w - letters_width(app) - AROUND - rail_width(r) - (left < NAME ? left : NAME);
    if (most > r->w * 2 / 5) most = r->w * 2 / 5;
    if (most < LEAST) most = LEAST;
    return widest > most ? most : widest;
}

static const char *fold_sign(const fb_entry *e)
{
    return e->kind == FB_ENTRY_NODE ? " " : e->fold == FB_FOLDED ? "▸" : "▾";
}

static fb_role name_role(const fb_graph *g, const fb_entry *e)
{
    if (e->kind == FB_ENTRY_REPEAT) return FB_ROLE_STRONG;
    if (e->kind == FB_ENTRY_SCOPE) return FB_ROLE_TEXT;
    return fb_node_is_computed(g, e->id) ? FB_ROLE_TEXT : FB_ROLE_DIM;
}

static int draw_name(fb_app *app, const fb_rect *r, int y, int x, int right, int at)
{
    const fb_outline *o = app->model.outline;
    const fb_entry *e = &o->entries[app->model.rows.rows.at[at].entry];
    char after[2][24];
    after_name(o, e, after[0], after[1]);
    int room = right - x - fb_draw_text_width(after[0]) - fb_draw_text_width(after[1]);
    x = fb_draw_cut(r, y, x, room, name_role(o->graph, e), fb_row_name(&app->model.rows, at));
    x = fb_draw(r, y, x, e->members > 1 ? FB_ROLE_KEY : FB_ROLE_DIM, after[0]);
    return fb_draw(r, y, x, FB_ROLE_KEY, after[1]);
}

/* The row at the chosen edge's other end; FB_NONE. */
static int other_end(fb_app *app)
{
    int n;
    const fb_row_edge *e = fb_model_edge(app, &n);
    return !e || e->inside ? FB_NONE : fb_rows_find(&app->model.rows, e->incoming ? e->a : e->b);
}

static void draw_rail(fb_app *app, const fb_rect *r, int y, int x, int at)
{
    fb_role role = fb_rail_at(&app->rail, at) == FB_RAIL_HERE || at == other_end(app) ? FB_ROLE_KEY : FB_ROLE_DIM;
    fb_rect cells = {r->y, r->x + x, r->h, rail_width(r)};
    fb_draw(&cells, y, 0, role, fb_rail_text(&app->rail, at));
}

static void draw_row(fb_app *app, const fb_rect *r, int y, int at, int shapes)
{
    const fb_row *row = &app->model.rows.rows.at[at];
    const fb_entry *e = &app->model.outline->entries[row->entry];
    int gutter = letters_width(app), x = gutter + 2 + rail_width(r), right = r->w - 1, marks = right - shapes - 1;
    fb_str shape = {0};
    bool edited;
    const fb_row shown = fb_merge_row(fb_tale_merge(app), &app->model.rows, at, r->h, &edited);
    draw_gutter(&shown, edited, r, y, gutter);
    if (fb_marks_has(&app->marks, row->entry)) fb_draw(r, y, gutter + 1, FB_ROLE_KEY, "*");
    draw_rail(app, r, y, gutter + 2, at);
    for (int d = 0; d < row->depth; d++, x += 2) fb_draw(r, y, x, FB_ROLE_FRAME, "┊");
    fb_draw(r, y, x, FB_ROLE_DIM, fold_sign(e));
    shape_text(app, at, &shape);
    int w = fb_draw_text_width(fb_str_get(&shape));
    int taken = app->model.rows.plan ? draw_marks(app, r, y, marks, at) : 0;
    draw_name(app, r, y, x + 2, marks - taken - (taken > 0), at);
    fb_draw_cut(r, y, right - (w < shapes ? w : shapes), shapes, FB_ROLE_DIM, fb_str_get(&shape));
    fb_str_free(&shape);
}

/* While the cursor is in the kernel list, the rows of its kernel are marked here. */
static int marked_letter(const fb_app *app)
{
    int at = app->scroll[FB_VIEW_KERNELS].cursor;
    bool there = app->focus == FB_VIEW_KERNELS && !app->n_over && at < app->model.kernels.n;
    return there ? app->model.kernels.at[at].letter : FB_NONE;
}

/* The row that the view beside speaks of, and the other one of a decision. */
static int row_beside(fb_app *app, int *other)
{
    fb_id nodes[2] = {FB_NONE, FB_NONE};
    *other = FB_NONE;
    if (!count(app) || !app->layout.beside) return FB_NONE;
    if (!fb_view_steps_nodes(app, nodes)) nodes[0] = fb_source_node(app);
    if (nodes[1] != FB_NONE) *other = fb_rows_find(&app->model.rows, nodes[1]);
    return nodes[0] == FB_NONE ? FB_NONE : fb_rows_find(&app->model.rows, nodes[0]);
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    fb_scroll *s = &app->scroll[FB_VIEW_GRAPH];
    int n = count(app), marked = marked_letter(app), shapes = n ? shape_column(app, r) : 0;
    int other_row, line_row = row_beside(app, &other_row);
    if (line_row != FB_NONE && (line_row < s->top || line_row >= s->top + r->h)) s->top = line_row - r->h / 2;
    if (s->top < 0) s->top = 0;
    if (n) fb_rail_make(&app->rail, &app->model.rows, s->cursor);
    for (int y = 0, here; y < r->h && (here = fb_shown_row(app, FB_VIEW_GRAPH, y, n)) != FB_NONE; y++) {
        const fb_row *row = &app->model.rows.rows.at[here];
        bool at = fb_row_ground(app, FB_VIEW_GRAPH, r, y, here, focused);
        bool mark = (marked != FB_NONE && row->letter == marked) ||
                    (line_row != FB_NONE && (here == line_row || here == other_row));
        if (!at && mark) fb_draw_ground(FB_GROUND_MARK);
        draw_row(app, r, y, here, shapes);
        fb_draw_ground(FB_GROUND_PLAIN);
    }
    if (n) return;
    const fb_column *c = app->model.column;
    const char *why = !c                             ? "no column: A adds one"
                      : c->state == FB_COLUMN_FAILED ? c->error.text
                                                     : "building the graph …";
    fb_draw_wrapped(r, 1, 2, r->h - 1, FB_ROLE_DIM, fb_session_script(app->session) ? why : "loading the script …");
}

/* ---- folding and finding
 * ---------------------------------------------------------------------------------------------- */

static void go_to_entry(fb_app *app, int entry)
{
    int row = app->model.rows.row_of_entry[entry];
    if (row != FB_NONE) app->scroll[FB_VIEW_GRAPH].cursor = row;
}

static void set_fold(fb_app *app, int entry, fb_fold fold)
{
    app->model.outline->entries[entry].fold = fold;
    fb_model_refold(app);
    go_to_entry(app, entry);
}

static void fold(fb_app *app, const fb_row *row)
{
    const fb_outline *o = app->model.outline;
    int at = row->entry;
    if (o->entries[at].kind == FB_ENTRY_NODE || o->entries[at].fold == FB_FOLDED) {
        int p = o->entries[at].parent;
        while (p != FB_NONE && app->model.rows.row_of_entry[p] == FB_NONE) p = o->entries[p].parent;
        if (p != FB_NONE) go_to_entry(app, p); /* first to what contains it, then that is folded */
        return;
    }
    set_fold(app, at, FB_FOLDED);
}

static void unfold(fb_app *app, const fb_row *row)
{
    const fb_entry *e = &app->model.outline->entries[row->entry];
    if (e->kind != FB_ENTRY_NODE && e->fold == FB_FOLDED) set_fold(app, row->entry, FB_OPEN);
}

static void members(fb_app *app, const fb_row *row)
{
    int at = row->entry;
    set_fold(app, at, app->model.outline->entries[at].fold == FB_MEMBERS ? FB_OPEN : FB_MEMBERS);
}

static void fold_all(fb_app *app, bool folded)
{
    fb_id node = app->model.outline->entries[fb_model_row(app)->entry].first;
    fb_outline_fold_all(app->model.outline, folded);
    fb_model_refold(app);
    fb_model_go(app, node);
}

static void enter(fb_app *app, const fb_row *row)
{
    const fb_entry *e = &app->model.outline->entries[row->entry];
    if (e->kind != FB_ENTRY_NODE && (row->several || row->letter == FB_NONE)) {
        set_fold(app, row->entry, e->fold == FB_FOLDED ? FB_OPEN : FB_FOLDED);
        return;
    }
    const fb_theirs *theirs = fb_model_theirs(app);
    const fb_column *c = app->model.column;
    if (row->letter == FB_NONE && !theirs && c && !c->plan)
        fb_app_say(app, FB_ROLE_WARN, "%s", fb_app_why_no_plan(app));
    else if (row->letter == FB_NONE)
        fb_app_say(app, FB_ROLE_WARN, "sources and views belong to no kernel");
    else if (theirs && row->letter < theirs->n_kernels)
        fb_app_say(app, FB_ROLE_TEXT, "%s, %s, of %s %s: \"fusebox emit\" prints its source",
                   *theirs->kernels[row->letter].name ? theirs->kernels[row->letter].name : "a kernel",
                   theirs->kernels[row->letter].kind, theirs->by, theirs->version);
    else {
        app->source_kind = FB_SOURCE_GENERATED;
        fb_app_show(app, FB_VIEW_SOURCE);
    }
}

static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    const fb_row *row = fb_model_row(app);
    (void)arg;
    if (!row) return false;
    switch (c) {
    case FB_CMD_LEFT: fold(app, row); return true;
    case FB_CMD_RIGHT: unfold(app, row); return true;
    case FB_CMD_MEMBERS: members(app, row); return true;
    case FB_CMD_FOLD_ALL: fold_all(app, true); return true;
    case FB_CMD_UNFOLD_ALL: fold_all(app, false); return true;
    case FB_CMD_ENTER: enter(app, row); return true;
    default: return false;
    }
}

static bool is_in(const char *name, const char *text)
{
    const char *dot = strchr(text, '.') || strchr(text, '[') ? NULL : strrchr(name, '.');
    return fb_filter_holds(dot ? dot + 1 : name, text);
}

/* The entry, or one of the nodes that it stands for. */
static bool holds(const fb_outline *o, int at, const char *text)
{
    const fb_entry *e = &o->entries[at];
    if (e->kind != FB_ENTRY_NODE) return is_in(e->path, text);
    for (fb_id i = e->first; i <= e->last; i++)
        if (o->entry_of[i] == at && is_in(o->graph->nodes[i].name, text)) return true;
    return false;
}

/* The row itself, or what is folded away in it. */
static bool row_holds(fb_app *app, int row, const char *text)
{
    const fb_outline *o = app->model.outline;
    int at = app->model.rows.rows.at[row].entry;
    const fb_entry *e = &o->entries[at];
    bool folded = e->kind != FB_ENTRY_NODE && e->fold == FB_FOLDED,
         as_one = e->kind == FB_ENTRY_REPEAT && e->fold == FB_OPEN; /* its members have no lines of their own */
    if (holds(o, at, text)) return true;
    for (int i = at + 1; (folded || as_one) && i < e->end; i = folded ? i + 1 : o->entries[i].end)
        if (holds(o, i, text)) return true;
    return false;
}

/* All nodes are searched, folded away or not; of repetitions shown as one only the first. */
static bool find(fb_app *app, const char *text, int step)
{
    fb_model *m = &app->model;
    const fb_row *row = fb_model_row(app);
    if (!row) return false;
    int n = m->outline->n, here = row->entry;
    for (int k = 1; k <= n; k++) {
        int at = ((here + step * k) % n + n) % n;
        const fb_entry *e = &m->outline->entries[at];
        if (!holds(m->outline, at, text)) continue;
        int shown = fb_rows_find(&m->rows, e->first);
        if (e->kind != FB_ENTRY_NODE && m->rows.row_of_entry[at] == FB_NONE) continue;
        if (e->kind == FB_ENTRY_NODE && (shown == FB_NONE || m->rows.rows.at[shown].entry != at)) {
            bool hidden = shown != FB_NONE && m->outline->entries[m->rows.rows.at[shown].entry].kind != FB_ENTRY_NODE;
            if (!hidden) continue; /* another repetition of a row in sight */
            fb_outline_reveal(m->outline, e->id);
            fb_model_refold(app);
        }
        go_to_entry(app, at);
        app->edge = 0;
        return true;
    }
    return false;
}

/* ---- the hint's second line
 * --------------------------------------------------------------------------------------------- */

void fb_view_node_text(const fb_graph *g, fb_id id, fb_str *out)
{
    const fb_node *n = &g->nodes[id];
    char shape[192], size[32], value[32];
    fb_str_addf(out, "%s = %s(", n->name, fb_op_get(n->op)->name);
    for (int i = 0; i < n->n_args; i++) {
        const fb_node *a = &g->nodes[n->args[i]];
        const char *dot = strrchr(a->name, '.');
        bool literal = a->op == FB_OP_CONST && a->shape.rank == 0;
        if (literal) snprintf(value, sizeof value, "%g", a->attrs->value);
        fb_str_addf(out, "%s%s", i ? ", " : "", i == 4 ? "…" : literal ? value : dot ? dot + 1 : a->name);
        if (i == 4) break;
    }
    fb_str_addf(out, ")  %s  %s", fb_shape_format(&n->shape, n->dtype, shape),
                fb_format_bytes(size, (double)fb_node_bytes(g, id)));
    if (n->line) fb_str_addf(out, "  line %d", n->line);
}

static void explain_scope(const fb_outline *o, const fb_entry *e, fb_str *out)
{
    const fb_scope *s = &o->graph->scopes[e->id];
    int nodes = 0;
    for (fb_id i = e->first; i <= e->last; i++) nodes += fb_node_is_computed(o->graph, i);
    if (e->kind == FB_ENTRY_REPEAT)
        fb_str_addf(out, "%s, %d repetitions shown as one: x shows each", s->name, e->members);
    else
        fb_str_addf(out, "%s %s", s->path,
                    s->kind == FB_SCOPE_OP ? "is one call of a framework" : "is a region of the script");
    fb_str_addf(out, ", %d computed nodes", nodes);
    if (s->line) fb_str_addf(out, ", line %d", s->line);
}

static void explain(fb_app *app, fb_hint *hint)
{
    const fb_row *row = fb_model_row(app);
    if (!row) return;
    const fb_outline *o = app->model.outline;
    const fb_entry *e = &o->entries[row->entry];
    const fb_theirs *theirs = fb_model_theirs(app);
    if (theirs && theirs->unavailable && !hint->line[0].n)
        fb_str_addf(&hint->line[0], "its plan is not available: %s", theirs->unavailable);
    if (!hint->title.n) fb_str_add(&hint->title, fb_row_name(&app->model.rows, app->scroll[FB_VIEW_GRAPH].cursor));
    if (e->kind == FB_ENTRY_NODE) {
        fb_view_node_text(o->graph, e->id, &hint->line[1]);
        if (e->members > 1) fb_str_addf(&hint->line[1], " · %d alike", e->members);
    } else
        explain_scope(o, e, &hint->line[1]);
}

static void yank(fb_app *app, fb_str *out)
{
    const fb_row *row = fb_model_row(app);
    if (!row) return;
    const fb_entry *e = &app->model.outline->entries[row->entry];
    if (e->kind == FB_ENTRY_NODE)
        fb_view_node_text(app->model.outline->graph, e->id, out);
    else
        fb_str_add(out, app->model.outline->graph->scopes[e->id].path);
}

static const fb_view_key keys[] = {
    {FB_CMD_TOGGLE, "", "fuse the row with its neighbour along the chosen edge, or cut them; a repetition as a whole"},
    {FB_CMD_EDGE_NEXT, "", "choose another edge of the row: the line below speaks of it"},
    {FB_CMD_LEFT, "", "fold the scope, or go to the one around"},
    {FB_CMD_RIGHT, "", "unfold the scope"},
    {FB_CMD_MEMBERS, "", "a repetition one by one, or as one line"},
    {FB_CMD_ENTER, "", "the source of the row's kernel; a scope: fold or unfold"},
    {FB_CMD_MARK, "", "mark the row: Space makes one kernel of all that are marked"},
    {FB_CMD_JUMP, "", "to the other end of the chosen edge"},
    {FB_CMD_ISOLATE, "", "give the row a kernel of its own"},
    {FB_CMD_VALUES, "", "the numbers that the row holds"},
    {FB_CMD_NONE, NULL, NULL},
};

const fb_view fb_view_graph = {
    .title = title,
    .count = count,
    .draw = draw,
    .explain = explain,
    .command = command,
    .find = find,
    .holds = row_holds,
    .keys = keys,
    .yank = yank,
    .about = "The model as a list, read from top to bottom. A line is one operation, or a scope that holds "
             "several (▸ folded, ▾ open); ×16 means that sixteen alike are shown as one.\n"
             "The letters at the left are kernels: all rows with one letter run together in one kernel, and a "
             "bracket ties neighbours. Beside them a rail shows, for the row under the cursor, what it reads "
             "(from above) and who reads it (below).\n"
             "At the right stand the shape of the result and one sign for each edge that comes from above: ● "
             "fused, ○ cut, ✗ cannot be fused.\n"
             "The box below says what Space would do to the chosen edge, and what that would save, before you "
             "press it.",
};
