/* The event loop: waits for keys, signals and the session's processes, never for anything else; draws at most every 16
 * ms, what a key changed sooner. */
#include "tui/view/app.h"

#include "base/clock.h"
#include "tui/term/terminal.h"
#include "tui/view/ui.h"

#include <errno.h>
#include <ncurses.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FRAME_NS = 16000000, ANSWER_NS = 3000000, WORK_NS = 8000000 };

static const fb_view *const views[FB_VIEWS] = {
#define VIEW(id, name)            [FB_VIEW_##id] = &fb_view_##name,
#define OPENED(id, name, command) [FB_VIEW_##id] = &fb_view_##name,
#include "tui/view/views.def"
#undef VIEW
#undef OPENED
};
_Static_assert((int)FB_VIEW_GRAPH == FB_PANE_GRAPH && (int)FB_VIEW_COLUMNS == FB_PANE_COLUMNS &&
                   (int)FB_VIEW_KERNELS == FB_PANE_KERNELS,
               "the panes come first in views.def");

const fb_view *fb_view_at(fb_view_id id)
{
    return views[id];
}

const fb_view_key *fb_view_key_of(fb_view_id id, fb_cmd c)
{
    const fb_view_key *k = views[id]->keys;
    if ((int)id < FB_PANES) return NULL;
    while (k && k->command != FB_CMD_NONE && k->command != c) k++;
    return k && k->command == c ? k : NULL;
}

/* ---- what is shown ------------------------------------------------------------------------------------------------
 */

fb_view_id fb_app_view(const fb_app *app)
{
    return app->n_over ? app->over[app->n_over - 1] : app->focus;
}

void fb_app_show(fb_app *app, fb_view_id id)
{
    for (int i = 0; i < app->n_over; i++) /* shown once: what lay below comes to the top */
        if (app->over[i] == id) {
            memmove(app->over + i, app->over + i + 1, sizeof *app->over * (size_t)(app->n_over - i - 1));
            app->n_over--;
            break;
        }
    app->over[app->n_over++] = id;
    app->dirty = true;
    if (views[id]->opened) views[id]->opened(app);
}

bool fb_app_hide(fb_app *app)
{
    if (!app->n_over) return false;
    app->n_over--;
    app->dirty = true;
    return true;
}

void fb_app_say(fb_app *app, fb_role role, const char *format, ...)
{
    va_list ap;
    fb_str_clear(&app->message);
    va_start(ap, format);
    fb_str_vaddf(&app->message, format, ap);
    va_end(ap);
    app->message_role = role;
    app->dirty = true;
}

void *fb_view_state(fb_app *app, fb_view_id id, size_t bytes)
{
    fb_arena_free(app->arena[id]);
    app->arena[id] = fb_arena_new();
    app->state[id] = fb_arena_alloc(app->arena[id], bytes);
    return app->state[id];
}

/* ---- scripts ------------------------------------------------------------------------------------------------------
 */

static void watch(fb_app *app)
{
    fb_watch_free(app->watch);
    app->watch = fb_watch_new(app->settings.reload ? fb_session_path(app->session) : NULL);
    if (app->settings.reload) fb_lesson_watch(app);
}

/* Of what was open nothing stays. `path` is the app's from now on. */
static void begin_anew(fb_app *app, char *path)
{
    fb_free(app->path);
    fb_keep_free(app);
    fb_sweep_forget(app);
    fb_tale_free(&app->tale);
    app->path = path;
    app->leaving = false;
    app->columns_made = app->first_measured = false;
    app->n_asked = 0;
    app->error_shown = false;
    app->column = app->edge = 0;
    app->chosen = app->placed = false;
    app->focus = FB_VIEW_GRAPH;
    app->zoomed = false;
    fb_puzzle_free(app);
    memset(app->scroll, 0, sizeof app->scroll);
    app->n_over = 0;
    watch(app);
    fb_model_update(app);
}

bool fb_app_open_page(fb_app *app, const char *path, const json_t *params, fb_error *err)
{
    char *copy = fb_strdup(path);
    if (!fb_session_open(app->session, copy, err)) {
        fb_free(copy);
        return false;
    }
    if (params) fb_session_give(app->session, params);
    begin_anew(app, copy);
    return true;
}

void fb_app_close(fb_app *app)
{
    fb_session_close(app->session);
    begin_anew(app, NULL);
}

bool fb_app_open(fb_app *app, const char *path)
{
    fb_error err = {0};
    char *copy = fb_strdup(path);
    if (!fb_keep_leave(app)) {
        fb_free(copy);
        return false;
    }
    if (!fb_session_open(app->session, copy, &err)) { /* what is open stays */
        if (!app->path) fb_app_show(app, FB_VIEW_LIST);
        fb_app_say(app, FB_ROLE_BAD, "%s", err.text);
        fb_free(copy);
        return false;
    }
    fb_lesson_leave(app);
    begin_anew(app, copy);
    return true;
}

static bool plans_itself(const fb_column *c)
{
    return c->graph && !c->plan && c->state != FB_COLUMN_BUILDING && c->state != FB_COLUMN_FAILED;
}

/* Work begins on a column that can be edited, as soon as there is one. */
static void focus_editable(fb_app *app)
{
    int n = fb_session_columns(app->session);
    if (app->chosen || app->column >= n || !plans_itself(fb_session_column(app->session, app->column))) return;
    for (int i = 0; i < n; i++) {
        if (!fb_session_column(app->session, i)->plan) continue;
        app->column = i;
        return;
    }
}

/* Why the focused column cannot be edited, and which can. */
static const char *not_ours(fb_app *app)
{
    int n = fb_session_columns(app->session), first = 0, found = 0;
    fb_str which = {0};
    for (int i = 0; i < n; i++) {
        if (!fb_session_column(app->session, i)->plan) continue;
        if (!found++) first = i + 1;
        if (found <= 8) fb_str_addf(&which, "%s%d", found > 1 ? ", " : "", i + 1);
    }
    if (found)
        snprintf(app->reason, sizeof app->reason, "%s makes its own plan; column%s %s%s can be edited: press %d",
                 app->model.column->device, found > 1 ? "s" : "", fb_str_get(&which), found > 8 ? " …" : "", first);
    else
        snprintf(app->reason, sizeof app->reason, "%s makes its own plan; A adds a column that can be edited, as eager",
                 app->model.column->device);
    fb_str_free(&which);
    return app->reason;
}

/* A column that fails says why, once. */
static void tell_failures(fb_app *app)
{
    int n = fb_session_columns(app->session), failed = 0;
    const fb_column *last = NULL;
    for (int i = 0; i < n; i++) {
        const fb_column *c = fb_session_column(app->session, i);
        if (c->state != FB_COLUMN_FAILED) continue;
        failed++;
        last = c;
    }
    if (failed > app->failed && !app->error_shown) fb_app_say(app, FB_ROLE_BAD, "%s: %s", last->text, last->error.text);
    app->failed = failed;
}

static void follow_session(fb_app *app)
{
    fb_lesson_follow(app);
    if (fb_session_script(app->session) && fb_session_script(app->session)->lesson) fb_lesson_loaded(app);
    const fb_script_info *info = fb_session_script(app->session);
    bool wrong = fb_session_script_error(app->session)->kind != FB_OK;
    app->serial = fb_session_serial(app->session);
    bool again = info && app->columns_made && app->loads != fb_session_answers(app->session);
    app->loads = fb_session_answers(app->session);
    if (again) fb_puzzle_reloaded(app);
    if (info && !app->columns_made) fb_first_columns(app, info);
    if (app->columns_made && !app->first_measured && !fb_puzzle_waits(app)) fb_first_measure(app);
    fb_first_settle(app);
    if (wrong && !app->error_shown) fb_app_show(app, FB_VIEW_ERROR);
    if (!wrong && fb_app_view(app) == FB_VIEW_ERROR) fb_app_hide(app);
    app->error_shown = wrong;
    tell_failures(app);
    fb_view_watch_kernels(app);
    fb_trust_follow(app);
    fb_puzzle_follow(app);
    fb_sweep_follow(app);
    fb_tried_follow(app->tried, app->session);
    focus_editable(app);
    fb_model_update(app);
}

/* ---- commands -----------------------------------------------------------------------------------------------------
 */

const char *fb_app_why_no_plan(fb_app *app)
{
    const fb_column *c = app->model.column;
    return plans_itself(c)                ? not_ours(app)
           : c->state == FB_COLUMN_FAILED ? "the column failed, and has no plan"
                                          : "the plan is not made yet";
}

const char *fb_app_why_not(fb_app *app, fb_cmd c)
{
    fb_need need = fb_cmd_get(c)->needs;
    int n;
    if (need == NEED_NOTHING) return NULL;
    if (need == NEED_LESSON) return app->lesson.info ? NULL : "no lesson is open: o lists what there is";
    if (fb_app_view(app) == FB_VIEW_LESSON && !app->by_prompt && fb_view_key_of(FB_VIEW_LESSON, c))
        return fb_lesson_why_not(app, c);
    if (c == FB_CMD_UNDO && app->dropped_last) return NULL; /* the column that comes back needs no other */
    if (need == NEED_BUSY) return fb_session_busy(app->session) ? NULL : "nothing is being measured";
    if (!app->path) return "no script is open: o lists what there is";
    if (need == NEED_SCRIPT_PATH) return NULL;
    if (!fb_session_script(app->session)) return "the script has not been loaded";
    if (need == NEED_SCRIPT) return NULL;
    if (need == NEED_PUZZLE) return fb_session_script(app->session)->puzzle ? NULL : "the script asks no puzzle";
    if (!app->model.column) return "there is no column: A adds one";
    if (need == NEED_COLUMN) return NULL;
    if (!app->model.column->plan) return fb_app_why_no_plan(app);
    if (need == NEED_PLAN) return NULL;
    if (fb_view_key_of(fb_app_view(app), c)) return NULL; /* there it does something of the view's own */
    if (fb_app_view(app) != FB_VIEW_GRAPH) return "works in the graph: Tab goes there";
    if (c == FB_CMD_TOGGLE && app->marks.entries.n) return NULL; /* it speaks of them, wherever the cursor is */
    if (need == NEED_SCOPE) {
        const fb_row *row = fb_model_row(app);
        return row && app->model.outline->entries[row->entry].kind == FB_ENTRY_REPEAT ? NULL
                                                                                      : "the row is no repetition";
    }
    if (need == NEED_NODE) {
        fb_id node = fb_model_node(app);
        return node != FB_NONE && fb_node_is_computed(app->model.outline->graph, node) ? NULL
                                                                                       : "the row is no computed node";
    }
    return fb_model_edge(app, &n) ? NULL : "no kernel edge starts or ends here: sources and views belong to no kernel";
}

bool fb_scroll_command(fb_scroll *s, int count, int page, fb_cmd c)
{
    int step = page > 1 ? page - 1 : 1; /* one line stays in sight */
    switch (c) {
    case FB_CMD_DOWN: s->cursor++; break;
    case FB_CMD_UP: s->cursor--; break;
    case FB_CMD_PAGE_DOWN: s->cursor += step, s->top += step; break;
    case FB_CMD_PAGE_UP: s->cursor -= step, s->top -= step; break;
    case FB_CMD_TOP: s->cursor = 0; break;
    case FB_CMD_BOTTOM: s->cursor = count - 1; break;
    default: return false;
    }
    fb_scroll_fit(s, count, page);
    return true;
}

void fb_scroll_fit(fb_scroll *s, int count, int h)
{
    if (s->cursor >= count) s->cursor = count - 1;
    if (s->cursor < 0) s->cursor = 0;
    if (h < 1) h = 1;
    if (s->top > count - h) s->top = count - h;
    if (s->cursor < s->top) s->top = s->cursor;
    if (s->cursor >= s->top + h) s->top = s->cursor - h + 1;
    if (s->top < 0) s->top = 0;
}

bool fb_row_ground(fb_app *app, fb_view_id id, const fb_rect *r, int y, int row, bool focused)
{
    bool at = row == app->scroll[id].cursor && focused;
    fb_draw_ground(at ? FB_GROUND_CURSOR : FB_GROUND_PLAIN);
    if (at) fb_draw_blank(r, y);
    return at;
}

static const fb_rect *rect_of(const fb_app *app, fb_view_id id)
{
    return (int)id < FB_PANES && !app->n_over ? &app->layout.pane[id] : &app->layout.whole;
}

static void run(fb_app *app, fb_cmd c, const char *arg)
{
    fb_view_id id = fb_app_view(app);
    if (views[id]->command && views[id]->command(app, c, arg)) return;
    int before = app->scroll[id].cursor;
    if (fb_scroll_command(&app->scroll[id], views[id]->count(app), rect_of(app, id)->h, c)) {
        if (id == FB_VIEW_GRAPH && app->scroll[id].cursor != before) app->edge = 0;
        return;
    }
    fb_action(app, c, arg);
}

void fb_app_run(fb_app *app, fb_cmd c, const char *arg)
{
    const char *may_not = fb_lesson_may_not(app, c, arg), *why = may_not ? may_not : fb_app_why_not(app, c);
    const int column = app->column;
    const bool own = fb_app_view(app) == FB_VIEW_LESSON && !app->by_prompt; /* there the key is not that command */
    app->dirty = true;
    if (why)
        fb_app_say(app, FB_ROLE_WARN, "%s%s%s", own ? "" : fb_cmd_get(c)->name, own ? "" : ": ", why);
    else
        run(app, c, arg);
    app->chosen |= app->column != column || c == FB_CMD_COLUMN;
}

/* ---- keys ---------------------------------------------------------------------------------------------------------
 */

void fb_app_key(fb_app *app, int key)
{
    app->dirty = true;
    if (app->prompt.kind) {
        fb_line_key(app, key);
        return;
    }
    if (fb_trust_key(app, key)) return;
    fb_str_clear(&app->message);
    fb_tale_key(app);
    const fb_view *view = views[fb_app_view(app)];
    if (view->key && view->key(app, key)) return;
    fb_cmd c = fb_cmd_of_key(key);
    char digit[2] = {(char)key, '\0'};
    if (c != FB_CMD_NONE)
        fb_app_run(app, c, c == FB_CMD_COLUMN ? digit : "");
    else if (key > ' ' && key < 0x7f)
        fb_app_say(app, FB_ROLE_DIM, "%c is no key here; ? lists those that are", key);
}

static void read_keys(fb_app *app)
{
    for (;;) {
        wint_t value;
        int kind = get_wch(&value);
        if (kind == ERR) return;
        if (kind == KEY_CODE_YES && value == KEY_RESIZE) continue; /* SIGWINCH told us */
        int key = fb_key_of_curses(kind == KEY_CODE_YES, value);
        app->answers = true;
        if (app->lesson.play && key != FB_KEY_NONE)
            fb_lesson_stop(app, "stopped");
        else if (key == FB_KEY_MOUSE)
            fb_mouse(app);
        else if (key != FB_KEY_NONE)
            fb_app_key(app, key);
    }
}

/* Before the script's columns are there, keys would meet an empty workbench. */
static bool is_loaded(const fb_app *app)
{
    return !app->path || app->columns_made || fb_session_script_error(app->session)->kind != FB_OK;
}

/* The next of a lesson's keys, or of those in a file: how long it has to wait (-1: until something happens), 0 when it
 * was pressed. */
static int play_one(fb_app *app, bool lesson)
{
    bool idle = !fb_session_busy(app->session) && (app->first_measured || !app->path || fb_puzzle_waits(app));
    bool ended = false;
    int wait = 0, key = fb_keys_next(lesson ? app->lesson.play : app->keys, idle, &wait, &ended);
    if (ended && lesson) {
        fb_lesson_stop(app, "played");
    } else if (ended) {
        fb_keys_free(app->keys);
        app->keys = NULL;
    } else if (key != FB_KEY_NONE && lesson) {
        fb_lesson_press(app, key);
    } else if (key != FB_KEY_NONE) {
        fb_app_key(app, key);
    }
    return wait;
}

static int play_keys(fb_app *app, int timeout)
{
    while ((app->keys || app->lesson.play) && !app->quit && is_loaded(app)) {
        int wait = app->lesson.play ? fb_lesson_wait(app) : 0;
        if (!wait) wait = play_one(app, app->lesson.play != NULL);
        if (wait) return wait > 0 && (timeout < 0 || wait < timeout) ? wait : timeout;
    }
    return timeout;
}

/* ---- the screen ---------------------------------------------------------------------------------------------------
 */

static void draw_view(fb_app *app, fb_view_id id, const fb_rect *r, bool focused)
{
    if (r->h < 1 || r->w < 1) return;
    fb_scroll_fit(&app->scroll[id], views[id]->count(app), r->h);
    fb_filter_fit(app, id, r->h - views[id]->head);
    views[id]->draw(app, r, focused);
    fb_draw_ground(FB_GROUND_PLAIN);
}

static void draw_too_small(int rows, int cols)
{
    fb_rect all = {0, 0, rows, cols};
    char text[96];
    snprintf(text, sizeof text, "terminal too small: %d×%d, needs %d×%d", cols, rows, FB_MIN_COLS, FB_MIN_ROWS);
    fb_draw_wrapped(&all, 0, 0, rows, FB_ROLE_TEXT, text);
}

static void draw(fb_app *app)
{
    fb_view_follow_values(app);
    fb_view_id top = fb_app_view(app);
    bool left = top == FB_VIEW_LESSON && fb_lesson_beside(app) && COLS >= FB_LESSON_COLS;
    fb_layout_wish wish = {.rows = LINES,
                           .cols = COLS,
                           .zoomed = app->zoomed ? (int)app->focus : -1,
                           .whole = app->n_over > 0 && !left,
                           .left = left,
                           .beside = views[top]->beside,
                           .table_rows = fb_view_columns.count(app) + fb_columns_head(app),
                           .column_cells = fb_columns_wish(app, COLS),
                           .hint_rows = COLS >= FB_MIN_COLS ? fb_hint_make(app, COLS) : 0};
    erase();
    fb_draw_no_cursor();
    app->layout = fb_layout_make(&wish);
    if (app->layout.too_small) {
        draw_too_small(LINES, COLS);
    } else {
        fb_frame_draw(app);
        if (app->layout.beside) draw_view(app, FB_VIEW_GRAPH, &app->layout.pane[FB_PANE_GRAPH], false);
        if (app->n_over) draw_view(app, top, &app->layout.whole, true);
        if (!app->n_over || app->layout.left)
            for (int p = 0; p < FB_PANES; p++)
                draw_view(app, (fb_view_id)p, &app->layout.pane[p], !app->n_over && p == (int)app->focus);
        fb_hint_draw(app);
    }
    fb_draw_show();
    app->dirty = false;
}

/* ---- the loop -----------------------------------------------------------------------------------------------------
 */

static void take_signals(fb_app *app)
{
    unsigned char numbers[64];
    ssize_t n = read(fb_terminal_signals(), numbers, sizeof numbers);
    for (ssize_t i = 0; i < n; i++) {
        switch (numbers[i]) {
        case SIGWINCH:
            fb_terminal_resize();
            app->dirty = true;
            break;
        case SIGTSTP: fb_terminal_suspend(); break;
        case SIGCONT:
            clearok(stdscr, TRUE);
            app->dirty = true;
            break;
        default:
            app->died_of = numbers[i];
            app->quit = true;
            break;
        }
    }
}

/* The least time between two frames: progress can wait, a key cannot. */
static int64_t frame_ns(const fb_app *app)
{
    return app->answers ? ANSWER_NS : FRAME_NS;
}

/* Waits for the first of: a key, a signal, news for the session, the next frame. */
static void wait_for_news(fb_app *app, int64_t last_frame, int limit)
{
    struct pollfd fds[FB_SESSION_FDS + 4];
    int timeout = -1;
    int n = fb_session_poll(app->session, fds, &timeout);
    fds[n] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    fds[n + 1] = (struct pollfd){.fd = fb_terminal_signals(), .events = POLLIN};
    fds[n + 2] = (struct pollfd){.fd = fb_source_fd(app), .events = POLLIN};
    fds[n + 3] = (struct pollfd){.fd = fb_watch_fd(app->watch), .events = POLLIN};
    if (limit >= 0 && (timeout < 0 || limit < timeout)) timeout = limit;
    if (app->dirty) {
        int64_t left = (last_frame + frame_ns(app) - fb_now_ns()) / 1000000;
        if (left < 0) left = 0;
        if (timeout < 0 || left < timeout) timeout = (int)left;
    }
    int turns = fb_tale_wait(app);
    if (turns >= 0 && (timeout < 0 || turns < timeout)) timeout = turns;
    if (fb_verdicts_waiting(app->verdicts)) timeout = 0;
    if (poll(fds, (nfds_t)n + 4, timeout) < 0 && errno != EINTR) app->quit = true;
    if (fds[n + 1].revents) take_signals(app);
    if (fds[n + 2].revents) fb_source_pump(app);
    fb_saved saved = fds[n + 3].revents ? fb_watch_saved(app->watch) : (fb_saved){0};
    if (saved.script) fb_action(app, FB_CMD_RELOAD, "");
    if (saved.other) fb_view_kernels_saved(app);
    if (saved.script || saved.other) fb_lesson_saved(app);
    if (fds[n].revents & POLLIN)
        read_keys(app);
    else if (fds[n].revents & (POLLHUP | POLLERR | POLLNVAL)) { /* nobody is there any more */
        app->died_of = SIGHUP;
        app->quit = true;
    }
}

static void find_verdicts(fb_app *app)
{
    int64_t until = fb_now_ns() + WORK_NS;
    while (fb_verdicts_waiting(app->verdicts) && fb_now_ns() < until) {
        fb_verdicts_work(app->verdicts, app->session, app->column, &app->model.rows);
        app->dirty = true;
    }
}

static void loop(fb_app *app)
{
    int64_t last_frame = 0;
    while (!app->quit) {
        int limit = play_keys(app, -1);
        if (app->quit) break;
        wait_for_news(app, last_frame, limit);
        fb_session_pump(app->session);
        if (fb_session_serial(app->session) != app->serial) follow_session(app);
        find_verdicts(app);
        fb_tale_turn(app);
        if (app->dirty && fb_now_ns() - last_frame >= frame_ns(app)) {
            draw(app);
            app->answers = false;
            last_frame = fb_now_ns();
        }
    }
}

static void free_app(fb_app *app)
{
    fb_model_free(&app->model);
    fb_puzzle_free(app);
    fb_lesson_free(app);
    fb_puzzle_forget(app);
    fb_keep_free(app);
    fb_sweep_forget(app);
    fb_tale_free(&app->tale);
    fb_verdicts_free(app->verdicts);
    fb_steps_free(app->steps);
    fb_tried_free(app->tried);
    fb_watch_free(app->watch);
    fb_free(app->results.path);
    fb_free(app->reopen.spec);
    json_decref(app->reopen.params);
    fb_marks_free(&app->marks);
    fb_prompt_free(&app->prompt);
    FB_VEC_FREE(&app->filter.rows);
    fb_rail_free(&app->rail);
    fb_keys_free(app->keys);
    fb_hint_free(app);
    fb_str_free(&app->message);
    fb_str_free(&app->trust.question);
    for (int i = 0; i < FB_VIEWS; i++) fb_arena_free(app->arena[i]);
    fb_free(app->path);
}

static int refuse(const fb_error *err, int status)
{
    char clean[sizeof err->text];
    fb_text_clean(clean, sizeof clean, err->text, strlen(err->text));
    fprintf(stderr, "fusebox: %s\n", clean);
    return status;
}

int fb_tui_main(const fb_tui_options *o)
{
    fb_error err = {0};
    fb_app app = {.session = o->session,
                  .dirty = true,
                  .asked = o->columns,
                  .n_asked = o->n_columns,
                  .filter = {.view = FB_VIEW_NONE},
                  .puzzle = {.choice = FB_NONE}};
    if (o->keys_file && !(app.keys = fb_keys_read(o->keys_file, &err))) return refuse(&err, 2);
    if (o->path && !fb_session_load(o->session, o->path, &err)) {
        fb_keys_free(app.keys);
        return refuse(&err, err.kind == FB_ERR_USAGE ? 2 : 1);
    }
    bool configured = fb_settings_read(&app.settings, &err);
    const fb_error wrong = err;
    if (!fb_terminal_open(app.settings.mouse, &err)) {
        fb_keys_free(app.keys);
        return refuse(&err, 2);
    }
    app.verdicts = fb_verdicts_new();
    app.tried = fb_tried_new();
    fb_past_read(&app.prompt);
    app.results.down = true;
    if (o->results) app.results.path = fb_strdup(o->results);
    if (o->path) app.path = fb_strdup(o->path);
    fb_session_set_auto(o->session, app.settings.automatic);
    watch(&app);
    if (!configured) fb_app_say(&app, FB_ROLE_WARN, "%s", wrong.text);
    if (!o->path || o->list) fb_app_show(&app, FB_VIEW_LIST);
    if (o->results) fb_app_show(&app, FB_VIEW_RESULTS);
    follow_session(&app);
    loop(&app);
    if (app.died_of) fb_keep_save(&app, NULL);
    fb_terminal_close();
    free_app(&app);
    if (app.died_of) fb_terminal_die(app.died_of);
    return 0;
}
