/* What commands do, where it is not one view's business: one function a command, in a table. Those of columns stand in
 * actions_columns.c. */
#include "tui/view/actions.h"

#include "base/file.h"
#include "base/json.h"
#include "tui/term/terminal.h"
#include "tui/view/editor.h"

#include <ctype.h>
#include <math.h>
#include <ncurses.h>
#include <stdlib.h>
#include <string.h>

/* ---- edits ---- */

static void report_verdict(fb_app *app, const char *done, const fb_verdict *v, bool changed)
{
    static const fb_role roles[] = {[FB_VERDICT_FINE] = FB_ROLE_GOOD, [FB_VERDICT_SLOWER] = FB_ROLE_WARN};
    if (v->kind <= FB_VERDICT_SLOWER && changed)
        fb_tale_tell(app, roles[v->kind], done, v);
    else if (v->kind <= FB_VERDICT_SLOWER)
        fb_app_say(app, roles[v->kind], "%s", done);
    else
        fb_app_say(app, FB_ROLE_BAD, "%s%s: %s", changed ? "done in part; " : "", fb_verdict_kind_name(v->kind),
                   v->text);
}

/* Of repetitions some may be edited although others are refused: *changed says whether anything was. */
static fb_verdict do_edit(fb_app *app, const fb_edit *edit, bool repeated, bool *changed)
{
    fb_hash before = app->model.plan_hash;
    fb_tale_begin(app);
    fb_verdict v = fb_session_edit(app->session, app->column, edit, repeated);
    fb_model_update(app);
    *changed = !fb_hash_equal(before, app->model.plan_hash);
    if (*changed) app->dropped_last = false;
    app->touched |= *changed;
    return v;
}

/* The verdict alone on more would keep the keys waiting. */
enum { MOST_AT_ONCE = 1024 };

/* One kernel of all that is marked: what it would do, or done. */
static fb_verdict marks_edit(fb_app *app, bool done, bool *repeated, bool *changed)
{
    fb_id *nodes = fb_alloc(((size_t)app->model.outline->graph->n_nodes + 1) * sizeof *nodes);
    fb_edit edit = fb_marks_edit(&app->marks, &app->model.rows, nodes, repeated);
    fb_verdict v = edit.n_nodes > MOST_AT_ONCE
                       ? fb_verdict_make(FB_VERDICT_UNSUPPORTED, FB_RULE_NONE,
                                         "%d nodes are more than %d, the most at once", edit.n_nodes, MOST_AT_ONCE)
                   : done ? do_edit(app, &edit, *repeated, changed)
                          : fb_session_try(app->session, app->column, &edit, *repeated);
    fb_free(nodes);
    return v;
}

static void mark(fb_app *app, const char *arg)
{
    (void)arg;
    bool repeated, changed;
    fb_marks_toggle(&app->marks, fb_model_row(app)->entry);
    if (app->marks.entries.n > 1) app->marks.verdict = marks_edit(app, false, &repeated, &changed);
    fb_scroll_command(&app->scroll[FB_VIEW_GRAPH], app->model.rows.rows.n, 1, FB_CMD_DOWN);
    app->edge = 0;
}

static void fuse_marked(fb_app *app)
{
    bool repeated, changed = false;
    fb_str text = {0};
    const int n = app->marks.entries.n;
    fb_verdict v = marks_edit(app, true, &repeated, &changed); /* where it was done, they are forgotten */
    fb_str_addf(&text, "fused the %d marked rows%s", n, repeated ? " in each repetition" : "");
    report_verdict(app, fb_str_get(&text), &v, changed);
    fb_str_free(&text);
}

/* To the other end of the edge, which is the chosen one there as well. */
static void jump(fb_app *app, const char *arg)
{
    (void)arg;
    int n;
    const fb_row_edge *chosen = fb_model_edge(app, &n);
    if (!chosen) return;
    if (chosen->inside) {
        fb_app_say(app, FB_ROLE_WARN, "jump: the chosen edge lies inside of this scope: ] chooses another");
        return;
    }
    const fb_row_edge edge = *chosen;
    fb_model_go(app, edge.incoming ? edge.a : edge.b);
    const fb_row_edge *there = fb_model_edge(app, &n);
    for (int i = 0; there && i < n; i++) {
        const fb_row_edge *e = &fb_rows_edges(&app->model.rows, app->scroll[FB_VIEW_GRAPH].cursor, &n)[i];
        if (!e->inside && e->incoming != edge.incoming && e->a == edge.a && e->b == edge.b) app->edge = i;
    }
}

static void toggle(fb_app *app, const char *arg)
{
    (void)arg;
    if (app->marks.entries.n) {
        if (app->marks.entries.n > 1)
            fuse_marked(app);
        else
            fb_app_say(app, FB_ROLE_WARN, "toggle: one row alone is marked: M marks another, Esc forgets it");
        return;
    }
    int n, row = app->scroll[FB_VIEW_GRAPH].cursor, room = app->model.outline->graph->n_nodes;
    const fb_row_edge *chosen = fb_model_edge(app, &n);
    if (!chosen) return;
    const fb_row_edge edge = *chosen;
    fb_id *nodes = fb_alloc(((size_t)room + 1) * sizeof *nodes);
    fb_edit edit = fb_toggle_edit(&app->model.rows, row, &edge, nodes, room);
    fb_str text = {0};
    bool changed;
    fb_verdict v = do_edit(app, &edit, edge.repeated, &changed);
    fb_toggle_text(app, &edge, true, NULL, &text);
    report_verdict(app, fb_str_get(&text), &v, changed);
    fb_str_free(&text);
    fb_free(nodes);
}

static void choose_edge(fb_app *app, int step)
{
    int n;
    fb_model_edge(app, &n);
    if (n) app->edge = (app->edge + step + n) % n;
}

static void edge_next(fb_app *app, const char *arg)
{
    (void)arg;
    choose_edge(app, 1);
}

static void edge_back(fb_app *app, const char *arg)
{
    (void)arg;
    choose_edge(app, -1);
}

static void edit_node(fb_app *app, fb_edit_kind kind, const char *done)
{
    const fb_row *row = fb_model_row(app);
    fb_edit edit = {.kind = kind, .a = fb_model_node(app), .b = FB_NONE};
    bool changed;
    fb_verdict v = do_edit(app, &edit, row->repeated, &changed);
    report_verdict(app, done, &v, changed);
}

static void isolate(fb_app *app, const char *arg)
{
    (void)arg;
    edit_node(app, FB_EDIT_ISOLATE, "a kernel of its own");
}

static void recompute(fb_app *app, const char *arg)
{
    (void)arg;
    bool already = fb_plan_recomputed(app->model.column->plan, fb_model_node(app));
    edit_node(app, already ? FB_EDIT_STORE : FB_EDIT_RECOMPUTE,
              already ? "stored again" : "computed again where it is read");
}

static void library(fb_app *app, const char *arg)
{
    (void)arg;
    const fb_plan *plan = app->model.column->plan;
    int group = fb_plan_group_of(plan, fb_model_node(app));
    bool is = group != FB_NONE && fb_family_row_of(fb_plan_group(plan, group)->family)->calls;
    edit_node(app, is ? FB_EDIT_GENERATE : FB_EDIT_LIBRARY, is ? "generated" : "a library call");
}

static void launch(fb_app *app, const char *arg)
{
    static const fb_launch_mode modes[] = {FB_LAUNCH_STREAM, FB_LAUNCH_GRAPH, FB_LAUNCH_MEGA};
    enum { N = sizeof modes / sizeof *modes };
    int at = -1;
    for (int i = 0; i < N; i++) {
        if (*arg && !strcmp(arg, fb_launch_mode_name(modes[i]))) at = i;
        if (!*arg && modes[i] == fb_plan_launch_mode(app->model.column->plan)) at = (i + 1) % N;
    }
    if (at < 0) {
        fb_app_say(app, FB_ROLE_BAD, "no launch mode \"%s\": stream, graph or mega", arg);
        return;
    }
    fb_edit edit = {.kind = FB_EDIT_LAUNCH, .a = FB_NONE, .b = FB_NONE, .launch = modes[at]};
    bool changed;
    for (int i = 1; i < N && !*arg; i++) { /* those that the device or the plan refuses are passed over */
        if (fb_session_try(app->session, app->column, &edit, false).kind <= FB_VERDICT_SLOWER) break;
        edit.launch = modes[at = (at + 1) % N];
    }
    if (!*arg && modes[at] == fb_plan_launch_mode(app->model.column->plan)) edit.launch = modes[at = (at + 1) % N];
    fb_verdict v = do_edit(app, &edit, false, &changed);
    report_verdict(app, fb_launch_mode_name(modes[at]), &v, changed);
}

static void overlap(fb_app *app, const char *arg)
{
    bool on = *arg ? strcmp(arg, "on") == 0 : !fb_plan_overlap(app->model.column->plan), changed;
    if (*arg && !on && strcmp(arg, "off") != 0) {
        fb_app_say(app, FB_ROLE_BAD, "overlap is on or off, not \"%s\"", arg);
        return;
    }
    fb_edit edit = {.kind = FB_EDIT_OVERLAP, .a = FB_NONE, .b = FB_NONE, .value = on};
    fb_verdict v = do_edit(app, &edit, false, &changed);
    report_verdict(app, on ? "overlapped" : "in order", &v, changed);
}

static void roll(fb_app *app, const char *arg)
{
    bool on = *arg ? strcmp(arg, "on") == 0 : !fb_plan_rolled(app->model.column->plan), changed;
    if (*arg && !on && strcmp(arg, "off") != 0) {
        fb_app_say(app, FB_ROLE_BAD, "roll is on or off, not \"%s\"", arg);
        return;
    }
    fb_edit edit = {.kind = FB_EDIT_ROLL, .a = FB_NONE, .b = FB_NONE, .value = on};
    fb_verdict v = do_edit(app, &edit, false, &changed);
    report_verdict(app, on ? "steps as a loop" : "steps as written", &v, changed);
}

/* A step through the column's edits has a tale as an edit has. */
static void tell_step(fb_app *app, const char *step, const char *what)
{
    fb_str text = {0};
    fb_str_addf(&text, "%s: %s", step, what);
    fb_tale_tell(app, FB_ROLE_DIM, fb_str_get(&text), NULL);
    fb_str_free(&text);
}

static void undo(fb_app *app, const char *arg)
{
    (void)arg;
    if (app->dropped_last && fb_keep_bring_back(app)) {
        fb_model_update(app);
        return;
    }
    fb_tale_begin(app);
    const char *what = fb_session_undo(app->session, app->column);
    app->touched |= what != NULL;
    fb_model_update(app);
    if (what)
        tell_step(app, "undone", what);
    else
        fb_app_say(app, FB_ROLE_WARN, "nothing to undo in this column");
}

static void redo(fb_app *app, const char *arg)
{
    (void)arg;
    fb_tale_begin(app);
    const char *what = fb_session_redo(app->session, app->column);
    app->touched |= what != NULL;
    fb_model_update(app);
    if (what)
        tell_step(app, "done again", what);
    else
        fb_app_say(app, FB_ROLE_WARN, "nothing to do again in this column");
}

/* ---- moving about ---- */

static void change_pane(fb_app *app, int step)
{
    if (app->n_over) return;
    app->focus = (fb_view_id)(((int)app->focus + step + FB_PANES) % FB_PANES);
}

static void next_pane(fb_app *app, const char *arg)
{
    (void)arg;
    change_pane(app, 1);
}

static void previous_pane(fb_app *app, const char *arg)
{
    (void)arg;
    change_pane(app, -1);
}

static void find(fb_app *app, const char *arg)
{
    if (!*arg) {
        fb_prompt_open(&app->prompt, '/', "");
        fb_filter_begin(app);
        return;
    }
    snprintf(app->find, sizeof app->find, "%s", arg);
    fb_view_find(app, 1);
}

static void find_next(fb_app *app, const char *arg)
{
    (void)arg;
    fb_view_find(app, 1);
}

static void find_back(fb_app *app, const char *arg)
{
    (void)arg;
    fb_view_find(app, -1);
}

/* ---- views ---- */

static void source(fb_app *app, const char *arg)
{
    (void)arg;
    app->source_kind = FB_SOURCE_GENERATED;
    fb_app_show(app, FB_VIEW_SOURCE);
}

static void more(fb_app *app, const char *arg)
{
    (void)arg;
    app->more = !app->more;
}

static void unhide(fb_app *app, const char *arg)
{
    (void)arg;
    memset(app->hidden_row, 0, sizeof app->hidden_row);
}

static void zoom(fb_app *app, const char *arg)
{
    (void)arg;
    if (!app->n_over) app->zoomed = !app->zoomed;
}

/* Against column 1, or in column 1 against the one beside it. One on another device says little of plans: the first
 * on the same device goes before it. */
static int usual_other(const fb_app *app)
{
    const char *device = app->model.column->device;
    int n = fb_session_columns(app->session), usual = app->column ? 0 : 1;
    if (usual >= n || !strcmp(fb_session_column(app->session, usual)->device, device)) return usual;
    for (int i = 0; i < n; i++)
        if (i != app->column && !strcmp(fb_session_column(app->session, i)->device, device)) return i;
    return usual;
}

static void show_why(fb_app *app, const char *arg)
{
    int n = fb_session_columns(app->session), with = *arg ? atoi(arg) - 1 : usual_other(app);
    if (n < 2)
        fb_app_say(app, FB_ROLE_WARN, "why: there is one column alone: A adds another");
    else if (with < 0 || with >= n || with == app->column)
        fb_app_say(app, FB_ROLE_WARN, "why: no other column %s", arg);
    else {
        app->against = with;
        app->against_first = false;
        fb_app_show(app, FB_VIEW_WHY);
    }
}

static void show_puzzle(fb_app *app, const char *arg)
{
    (void)arg;
    fb_app_show(app, FB_VIEW_PUZZLE);
}

static void show_lesson(fb_app *app, const char *arg)
{
    int page = atoi(arg);
    if (!*arg)
        fb_lesson_show(app);
    else if (page < 1 || page > fb_lesson_of(app)->n_pages)
        fb_app_say(app, FB_ROLE_WARN, "lesson: there are pages 1 to %d", fb_lesson_of(app)->n_pages);
    else
        fb_lesson_go(app, page - 1);
}

static void show_contents(fb_app *app, const char *arg)
{
    (void)arg;
    fb_app_show(app, FB_VIEW_CONTENTS);
}

static void play(fb_app *app, const char *arg)
{
    (void)arg;
    fb_lesson_play(app);
}

static void answers(fb_app *app, const char *arg)
{
    bool show = !strcmp(arg, "show"), hide = !strcmp(arg, "hide");
    if (*arg && !show && !hide)
        fb_app_say(app, FB_ROLE_WARN, "answers: show or hide");
    else
        fb_lesson_answers(app, *arg ? show : !app->lesson.answers);
}

static void notes(fb_app *app, const char *arg)
{
    (void)arg;
    app->lesson.notes = !app->lesson.notes;
    fb_lesson_show(app);
}

static void show_steps(fb_app *app, const char *arg)
{
    fb_preset_use use;
    fb_error err = {0};
    (void)arg;
    if (fb_session_preset(app->session, app->column, &use, &err))
        fb_app_show(app, FB_VIEW_STEPS);
    else
        fb_app_say(app, FB_ROLE_WARN, "steps: %s", err.text);
}

static void refuse(fb_app *app, const char *arg)
{
    (void)arg;
    fb_app_say(app, FB_ROLE_WARN, "refuse: go to a decision first: S lists them");
}

static void show_history(fb_app *app, const char *arg)
{
    fb_free(app->results.path);
    app->results.path = *arg ? fb_strdup(arg) : NULL;
    fb_app_show(app, FB_VIEW_RESULTS);
}

/* The next of them, or the one that is named. */
static void theme(fb_app *app, const char *arg)
{
    int to = *arg ? 0 : ((int)fb_theme_now() + 1) % FB_THEMES;
    while (*arg && to < FB_THEMES && strcmp(arg, fb_theme_name((fb_theme)to)) != 0) to++;
    if (to == FB_THEMES)
        fb_app_say(app, FB_ROLE_BAD, "no theme \"%s\": dark, light, mono or contrast", arg);
    else if (!fb_theme_change((fb_theme)to))
        fb_app_say(app, FB_ROLE_WARN, "theme: this terminal has no colours, or NO_COLOR is set");
    else
        fb_app_say(app, FB_ROLE_DIM, "theme %s; \"theme %s\" in the settings keeps it", fb_theme_name((fb_theme)to),
                   fb_theme_name((fb_theme)to));
}

static void lua(fb_app *app, const char *arg)
{
    fb_str text = {0};
    fb_error err = {0};
    char folder[PATH_MAX];
    if (!*arg) {
        app->source_kind = FB_SOURCE_LUA;
        fb_app_show(app, FB_VIEW_SOURCE);
        return;
    }
    fb_plan_to_lua(app->model.column->plan, fb_session_folder(app->session, folder), &text);
    if (fb_write_file(arg, fb_str_get(&text), text.n, &err))
        fb_app_say(app, FB_ROLE_GOOD, "written to %s", arg);
    else
        fb_app_say(app, FB_ROLE_BAD, "%s", err.text);
    fb_str_free(&text);
}

/* The columns by the row under the cursor of their pane, the smallest first; where they are sorted, the other way. */
static void sort_columns(fb_app *app, const char *arg)
{
    (void)arg;
    int n = fb_session_columns(app->session), moved = 0;
    const fb_column *focused = n ? fb_session_column(app->session, app->column) : NULL;
    for (int pass = 0; pass < 2 && !moved; pass++)
        for (int i = 1; i < n; i++)
            for (int k = i; k > 0; k--) {
                double a = fb_columns_value(app, k - 1), b = fb_columns_value(app, k);
                if (isnan(b) || (!isnan(a) && (pass ? a >= b : a <= b))) break;
                fb_session_move(app->session, k, k - 1);
                moved++;
            }
    for (int i = 0; i < n; i++)
        if (fb_session_column(app->session, i) == focused) app->column = i;
    fb_app_say(app, FB_ROLE_DIM, "columns sorted by %s", fb_columns_row_name(app));
    fb_model_update(app);
}

static void filter_rows(fb_app *app, const char *arg)
{
    (void)arg;
    fb_app_say(app, FB_ROLE_WARN, "filter works on results: H shows them");
}

/* Shows it; what was never begun begins, as does one that is to go to another file. */
static void experiment(fb_app *app, const char *arg)
{
    if (!fb_session_script(app->session)->experiment) {
        fb_app_say(app, FB_ROLE_WARN, "the script has no experiment: experiment = function(e) … end would be one");
        return;
    }
    fb_app_show(app, FB_VIEW_EXPERIMENT);
    if (*arg || !app->sweep.begun) fb_sweep_start(app, arg);
}

static void open_script(fb_app *app, const char *arg)
{
    if (!*arg)
        fb_prompt_open(&app->prompt, ':', "open ");
    else
        fb_app_open(app, arg);
}

static void reload(fb_app *app, const char *arg)
{
    (void)arg;
    fb_error err = {0};
    app->error_shown = false;
    if (!fb_session_load(app->session, app->path, &err))
        fb_app_say(app, FB_ROLE_BAD, "%s", err.text);
    else
        fb_app_say(app, FB_ROLE_DIM, "loading %s again", app->path);
    fb_model_update(app);
}

static void prompt(fb_app *app, const char *arg)
{
    (void)arg;
    fb_prompt_open(&app->prompt, ':', "");
}

static bool measuring(const fb_app *app)
{
    if (fb_session_experiment_runs(app->session)) return true;
    for (int i = 0; i < fb_session_columns(app->session); i++) {
        fb_column_state s = fb_session_column(app->session, i)->state;
        if (s == FB_COLUMN_QUEUED || s == FB_COLUMN_MEASURING || fb_session_column(app->session, i)->searching)
            return true;
    }
    return false;
}

static void back(fb_app *app, const char *arg)
{
    bool bare_list = app->n_over == 1 && app->over[0] == FB_VIEW_LIST && !app->path;
    if (app->n_over && !bare_list)
        fb_app_hide(app);
    else if (app->marks.entries.n)
        fb_marks_clear(&app->marks);
    else if (app->zoomed)
        app->zoomed = false;
    else if (measuring(app))
        fb_do_cancel(app, arg);
}

/* The columns are there again the next time; where they cannot be kept, the second time leaves without. */
static void quit(fb_app *app, const char *arg)
{
    (void)arg;
    app->quit = fb_keep_leave(app);
}

static void close_view(fb_app *app, const char *arg)
{
    bool bare_list = app->n_over == 1 && app->over[0] == FB_VIEW_LIST && !app->path;
    if (!app->n_over || bare_list)
        quit(app, arg);
    else
        fb_app_hide(app);
}

static void redraw(fb_app *app, const char *arg)
{
    (void)arg;
    clearok(stdscr, TRUE);
    app->dirty = true;
}

static void suspend(fb_app *app, const char *arg)
{
    (void)arg;
    fb_terminal_suspend();
    app->dirty = true;
}

static fb_action_fn *const actions[FB_COMMANDS] = {
    [FB_CMD_TOGGLE] = toggle,
    [FB_CMD_EDGE_BACK] = edge_back,
    [FB_CMD_EDGE_NEXT] = edge_next,
    [FB_CMD_MARK] = mark,
    [FB_CMD_JUMP] = jump,
    [FB_CMD_ISOLATE] = isolate,
    [FB_CMD_RECOMPUTE] = recompute,
    [FB_CMD_LIBRARY] = library,
    [FB_CMD_LAUNCH] = launch,
    [FB_CMD_OVERLAP] = overlap,
    [FB_CMD_ROLL] = roll,
    [FB_CMD_EJECT] = fb_view_eject,
    [FB_CMD_UNDO] = undo,
    [FB_CMD_REDO] = redo,
    [FB_CMD_VARIANT] = fb_do_variant,
    [FB_CMD_PLAN] = fb_do_plan,
    [FB_CMD_SEARCH] = fb_do_search,
    [FB_CMD_DEVICE] = fb_do_device,
    [FB_CMD_ADD] = fb_do_add,
    [FB_CMD_COPY] = fb_do_copy,
    [FB_CMD_DROP] = fb_do_drop,
    [FB_CMD_FRESH] = fb_do_fresh,
    [FB_CMD_MOVE_LEFT] = fb_do_move_left,
    [FB_CMD_MOVE_RIGHT] = fb_do_move_right,
    [FB_CMD_COLUMN] = fb_do_column,
    [FB_CMD_MEASURE] = fb_do_measure,
    [FB_CMD_AUTO] = fb_do_automatic,
    [FB_CMD_CANCEL] = fb_do_cancel,
    [FB_CMD_CALIBRATE] = fb_do_calibrate,
    [FB_CMD_WHY] = show_why,
    [FB_CMD_STEPS] = show_steps,
    [FB_CMD_REFUSE] = refuse,
    [FB_CMD_SET] = fb_do_set,
    [FB_CMD_EXPORT] = fb_do_export,
    [FB_CMD_SAVE] = fb_do_save,
    [FB_CMD_NEXT_PANE] = next_pane,
    [FB_CMD_PREVIOUS_PANE] = previous_pane,
    [FB_CMD_FIND] = find,
    [FB_CMD_FIND_NEXT] = find_next,
    [FB_CMD_FIND_BACK] = find_back,
    [FB_CMD_SOURCE] = source,
    [FB_CMD_MORE] = more,
    [FB_CMD_HIDE] = unhide,
    [FB_CMD_ZOOM] = zoom,
    [FB_CMD_PUZZLE] = show_puzzle,
    [FB_CMD_LUA] = lua,
    [FB_CMD_HISTORY] = show_history,
    [FB_CMD_SORT] = sort_columns,
    [FB_CMD_FILTER] = filter_rows,
    [FB_CMD_EXPERIMENT] = experiment,
    [FB_CMD_VALUES] = fb_view_show_values,
    [FB_CMD_YANK] = fb_yank,
    [FB_CMD_THEME] = theme,
    [FB_CMD_OPEN] = open_script,
    [FB_CMD_EDIT] = fb_edit_script,
    [FB_CMD_RELOAD] = reload,
    [FB_CMD_PROMPT] = prompt,
    [FB_CMD_LESSON] = show_lesson,
    [FB_CMD_CONTENTS] = show_contents,
    [FB_CMD_PLAY] = play,
    [FB_CMD_ANSWERS] = answers,
    [FB_CMD_NOTES] = notes,
    [FB_CMD_BACK] = back,
    [FB_CMD_CLOSE] = close_view,
    [FB_CMD_QUIT] = quit,
    [FB_CMD_REDRAW] = redraw,
    [FB_CMD_SUSPEND] = suspend,
};

/* Views that a command shows and does nothing else, one more than their number; 0: none. */
static const int shows[FB_COMMANDS] = {
#define VIEW(id, name)
#define OPENED(id, name, command) [FB_CMD_##command] = FB_VIEW_##id + 1,
#include "tui/view/views.def"
#undef VIEW
#undef OPENED
};

void fb_action(fb_app *app, fb_cmd c, const char *arg)
{
    if (actions[c])
        actions[c](app, arg);
    else if (shows[c])
        fb_app_show(app, (fb_view_id)(shows[c] - 1));
}
