/* The course of a lesson. Each page opens its script as if it were the only one: fresh, with the page's columns and
 * parameters and nothing of what was done on another page. */
#include "tui/view/lesson.h"

#include "base/clock.h"
#include "session/library.h"
#include "tui/view/ui.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

const fb_lesson *fb_lesson_of(const fb_app *app)
{
    return app->lesson.info ? app->lesson.info->lesson : NULL;
}

const fb_lesson_page *fb_lesson_now(const fb_app *app)
{
    const fb_lesson *l = fb_lesson_of(app);
    return l ? &l->pages[app->lesson.page] : NULL;
}

/* ---- opening and leaving ---- */

static fb_hash hash_of_file(const char *path)
{
    char *text = fb_session_script_text(path);
    fb_hasher *h = fb_hasher_new();
    fb_hasher_add_text(h, text ? text : "");
    fb_free(text);
    return fb_hasher_end(h);
}

void fb_lesson_loaded(fb_app *app)
{
    if (app->lesson.info) { /* a page names a lesson as its script */
        fb_fail(&app->lesson.trouble, FB_ERR_INPUT, "%s is a lesson, not a script", app->path);
        fb_app_close(app);
        fb_lesson_show(app);
        return;
    }
    char *path = fb_strdup(app->path);
    app->lesson = (fb_lesson_run){.info = fb_session_take_lesson(app->session), .path = path};
    app->lesson.text = hash_of_file(path);
    app->n_asked = 0;
    fb_lesson_go(app, 0);
}

void fb_lesson_free(fb_app *app)
{
    fb_keys_free(app->lesson.play);
    fb_script_info_free(app->lesson.info);
    fb_free(app->lesson.path);
    app->lesson = (fb_lesson_run){0};
}

void fb_lesson_leave(fb_app *app)
{
    fb_lesson_free(app);
}

/* Keys are read when the page is opened, so that a misspelt one is seen before a class sees it. */
static void check_keys(fb_app *app, const fb_lesson_page *page)
{
    char what[160];
    if (!page->keys) return;
    snprintf(what, sizeof what, "%s:%d: keys", fb_file_name(app->lesson.path), page->line);
    fb_keys_free(fb_keys_parse(page->keys, what, &app->lesson.trouble));
}

void fb_lesson_go(fb_app *app, int number)
{
    const fb_lesson *l = fb_lesson_of(app);
    fb_lesson_run *run = &app->lesson;
    fb_arena *arena = fb_arena_new();
    if (number < 0) number = 0;
    if (number >= l->n_pages) number = l->n_pages - 1;
    fb_lesson_stop(app, NULL);
    run->page = number;
    run->answers = false;
    run->top = 0;
    run->trouble = (fb_error){0};
    const fb_lesson_page *page = &l->pages[number];
    const char *script = page->script ? fb_session_lesson_script(run->path, page->script, arena, &run->trouble) : NULL;
    if (!script || !fb_app_open_page(app, script, page->params, &run->trouble)) fb_app_close(app);
    if (run->trouble.kind) fb_fail_prefix(&run->trouble, "%s:%d", fb_file_name(run->path), page->line);
    if (!run->trouble.kind) check_keys(app, page);
    fb_lesson_show(app);
    fb_arena_free(arena);
}

void fb_lesson_show(fb_app *app)
{
    fb_app_show(app, FB_VIEW_LESSON);
    if (fb_lesson_asks(app)) fb_puzzle_hold(app, true);
}

/* ---- the file is saved ---- */

void fb_lesson_watch(fb_app *app)
{
    char whole[PATH_MAX];
    if (app->lesson.info && app->watch && realpath(app->lesson.path, whole)) fb_watch_add(app->watch, whole);
}

void fb_lesson_saved(fb_app *app)
{
    if (app->lesson.info && !fb_hash_equal(app->lesson.text, hash_of_file(app->lesson.path))) fb_lesson_reload(app);
}

void fb_lesson_reload(fb_app *app)
{
    app->lesson.text = hash_of_file(app->lesson.path);
    fb_session_peek(app->session, app->lesson.path);
    fb_app_say(app, FB_ROLE_DIM, "reading %s again", app->lesson.path);
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

/* Whether what stands beside the text may stay as it is. */
static bool same_work(const fb_lesson_page *a, const fb_lesson_page *b)
{
    bool same = same_text(a->script, b->script) && a->puzzle == b->puzzle && a->n_columns == b->n_columns &&
                (a->params == b->params || json_equal(a->params, b->params));
    for (int i = 0; same && i < a->n_columns; i++) same = !strcmp(a->columns[i], b->columns[i]);
    return same;
}

/* The page of that title, the nearest to where it was; else the one in its place. */
static int page_again(const fb_lesson *l, const char *title, int was)
{
    int best = FB_NONE;
    for (int i = 0; i < l->n_pages; i++)
        if (!strcmp(l->pages[i].title, title) && (best == FB_NONE || abs(i - was) < abs(best - was))) best = i;
    if (best != FB_NONE) return best;
    return was < l->n_pages ? was : l->n_pages - 1;
}

void fb_lesson_follow(fb_app *app)
{
    fb_script_info *next;
    fb_error err = {0};
    fb_lesson_run *run = &app->lesson;
    if (!fb_session_peeked(app->session, &next, &err)) return;
    if (next && !next->lesson) fb_fail(&err, FB_ERR_INPUT, "%s is no lesson any more", run->path);
    app->dirty = true;
    if (!run->info || err.kind) {
        if (run->info) run->broken = err;
        fb_script_info_free(next);
        return;
    }
    fb_script_info *before = run->info;
    const fb_lesson_page *was = fb_lesson_now(app);
    int at = page_again(next->lesson, was->title, run->page);
    bool stays = same_work(was, &next->lesson->pages[at]) && !run->trouble.kind;
    run->info = next;
    run->page = at;
    run->broken = (fb_error){0};
    fb_str_clear(&app->message);
    if (stays)
        check_keys(app, fb_lesson_now(app));
    else
        fb_lesson_go(app, at);
    fb_script_info_free(before);
}

/* ---- what is hidden ---- */

bool fb_lesson_asks(const fb_app *app)
{
    const fb_lesson_page *page = fb_lesson_now(app);
    return page && page->puzzle && !app->lesson.answers && app->puzzle.stage != FB_PUZZLE_ANSWERED;
}

/* The figures of a puzzle's columns are its answer. */
bool fb_lesson_beside(const fb_app *app)
{
    const fb_lesson_page *page = fb_lesson_now(app);
    return page && page->script && !app->lesson.trouble.kind && !fb_lesson_asks(app) &&
           fb_session_columns(app->session) > 0;
}

void fb_lesson_answers(fb_app *app, bool show)
{
    const fb_lesson_page *page = fb_lesson_now(app);
    app->lesson.answers = show;
    app->dirty = true;
    if (!page->puzzle) return;
    fb_puzzle_hold(app, fb_lesson_asks(app));
    if (show && app->columns_made) fb_first_measure(app);
}

const char *fb_lesson_why_not(const fb_app *app, fb_cmd c)
{
    const fb_lesson *l = fb_lesson_of(app);
    const fb_lesson_page *page = fb_lesson_now(app);
    switch (c) {
    case FB_CMD_RIGHT: return app->lesson.page + 1 < l->n_pages ? NULL : "this is the last page";
    case FB_CMD_LEFT: return app->lesson.page ? NULL : "this is the first page";
    case FB_CMD_PLAN: return page->keys ? NULL : "this page has no keys to play";
    case FB_CMD_FIND_BACK: return page->notes ? NULL : "this page has no notes";
    case FB_CMD_AUTO:
    case FB_CMD_ADD: return page->answer || page->puzzle ? NULL : "this page has no answer";
    case FB_CMD_NEXT_PANE: return page->script ? NULL : "this page has no script: l goes on";
    default: return NULL;
    }
}

/* ---- playing ---- */

void fb_lesson_play(fb_app *app)
{
    const fb_lesson_page *page = fb_lesson_now(app);
    fb_error err = {0};
    fb_lesson_run *run = &app->lesson;
    if (!page->keys) {
        fb_app_say(app, FB_ROLE_WARN, "this page has no keys to play");
        return;
    }
    if (app->touched || app->params_set) { /* keys are of the page as it is written */
        const bool answers = run->answers;
        fb_lesson_go(app, run->page);
        run->answers = answers;
    }
    fb_str text = {0};
    fb_str_addf(&text, "@idle %s", page->keys);
    fb_keys_free(run->play);
    run->play = fb_keys_parse(fb_str_get(&text), "keys", &err);
    fb_str_free(&text);
    if (!run->play) {
        fb_app_say(app, FB_ROLE_BAD, "%s", err.text);
        return;
    }
    run->next_ns = 0;
    fb_lesson_show(app); /* where the keys begin */
    fb_app_say(app, FB_ROLE_DIM, "playing, once all is measured: %s · any key stops it", page->keys);
}

void fb_lesson_stop(fb_app *app, const char *why)
{
    if (!app->lesson.play) return;
    fb_keys_free(app->lesson.play);
    app->lesson.play = NULL;
    if (why) fb_app_say(app, FB_ROLE_DIM, "%s · 0 goes back to the lesson", why);
}

int fb_lesson_wait(const fb_app *app)
{
    int64_t left = (app->lesson.next_ns - fb_now_ns()) / 1000000;
    return left > 0 ? (int)left : 0;
}

/* A class follows a key in its own time; who plays keys from a file waits for nobody. */
void fb_lesson_press(fb_app *app, int key)
{
    enum { PACE_NS = 400000000 };
    if (app->trust.asked) {
        fb_lesson_stop(app, "stopped: that is for you to answer");
        return;
    }
    app->lesson.plays = true;
    fb_app_key(app, key);
    app->lesson.plays = false;
    app->lesson.next_ns = app->keys ? 0 : fb_now_ns() + PACE_NS;
}

const char *fb_lesson_may_not(const fb_app *app, fb_cmd c, const char *arg)
{
    if (!app->lesson.plays) return NULL;
    switch (c) {
    case FB_CMD_EJECT:
    case FB_CMD_EXPORT:
    case FB_CMD_SAVE:
    case FB_CMD_EDIT:
    case FB_CMD_YANK:
    case FB_CMD_OPEN:
    case FB_CMD_LIST:
    case FB_CMD_CALIBRATE:
    case FB_CMD_QUIT:
    case FB_CMD_SUSPEND: return "a lesson's keys may not";
    case FB_CMD_LUA:
    case FB_CMD_HISTORY:
    case FB_CMD_EXPERIMENT: return *arg ? "a lesson's keys name no files" : NULL;
    case FB_CMD_CLOSE: return app->n_over ? NULL : "a lesson's keys may not";
    default: return NULL;
    }
}
