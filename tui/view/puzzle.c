/* The course of a script's puzzle: what is compared, what the user has chosen, when it is measured, how it is graded.
 */
#include "tui/view/puzzle.h"

#include "session/library.h"
#include "session/names.h"
#include "session/progress.h"

#include <stdlib.h>
#include <string.h>

const fb_puzzle *fb_puzzle_of(const fb_app *app)
{
    const fb_script_info *info = fb_session_script(app->session);
    return info ? info->puzzle : NULL;
}

/* ---- the columns that are compared --------------------------------------------------------------------------------
 */

static bool is_of(const fb_column *c, const char *text)
{
    fb_column_spec spec;
    if (!fb_column_spec_parse(text, &spec, NULL)) return false;
    size_t n = spec.device ? strlen(spec.device) : 0;
    bool same = (n || !strchr(c->text, '@')) && (!spec.variant || !strcmp(spec.variant, c->variant)) &&
                !strcmp(spec.plan, c->plan_name) && fb_column_spec_has(&spec, c->values) &&
                (!n || (!strncmp(c->device, spec.device, n) && (!c->device[n] || c->device[n] == ':')));
    fb_column_spec_free(&spec);
    return same;
}

int fb_puzzle_column(const fb_app *app, const char *text)
{
    for (int i = 0; i < fb_session_columns(app->session); i++)
        if (is_of(fb_session_column(app->session, i), text)) return i;
    return FB_NONE;
}

/* One of the columns cannot be had here. */
const fb_column *fb_puzzle_absent(const fb_app *app)
{
    for (int i = 0; i < 2; i++) {
        int at = fb_puzzle_column(app, app->puzzle.spec[i]);
        const fb_column *c = at == FB_NONE ? NULL : fb_session_column(app->session, at);
        if (c && c->state == FB_COLUMN_FAILED) return c;
    }
    return NULL;
}

const char *fb_puzzle_recording(const fb_app *app)
{
    const json_t *device;
    size_t i;
    json_array_foreach(fb_session_devices(app->session), i, device)
    {
        const char *name = json_string_value(json_object_get(device, "device"));
        if (name && !strncmp(name, "replay:", 7)) return name;
    }
    return NULL;
}

/* The same variant with a plan of our own, on the device that is there. */
static char *ours(const char *text)
{
    fb_column_spec spec;
    fb_str out = {0};
    if (!fb_column_spec_parse(text, &spec, NULL)) return fb_strdup(text);
    if (spec.variant) fb_str_addf(&out, "%s:", spec.variant);
    fb_str_add(&out, spec.device && !fb_preset_find(spec.plan) ? "eager" : spec.plan);
    fb_column_spec_free(&spec);
    return fb_str_take(&out);
}

static char *spec_of(const fb_app *app, const char *asked, fb_puzzle_stand_in how)
{
    fb_str out = {0};
    if (how == FB_PUZZLE_OUR_OWN) return ours(asked);
    fb_str_add(&out, asked);
    if (how == FB_PUZZLE_RECORDED) fb_str_addf(&out, "@%s", fb_puzzle_recording(app));
    return fb_str_take(&out);
}

void fb_puzzle_set_columns(fb_app *app, fb_puzzle_stand_in how)
{
    const fb_puzzle *p = fb_puzzle_of(app);
    for (int i = 0; i < 2; i++) {
        fb_free(app->puzzle.spec[i]);
        app->puzzle.spec[i] = p ? spec_of(app, p->compare[i], how) : NULL;
    }
    fb_puzzle_code_read(&app->puzzle.code, app->session, app->puzzle.spec);
}

bool fb_puzzle_names_device(const fb_app *app)
{
    return (app->puzzle.spec[0] && strchr(app->puzzle.spec[0], '@')) ||
           (app->puzzle.spec[1] && strchr(app->puzzle.spec[1], '@'));
}

/* The same in plans of our own, where they are another device's; what was recorded, where this machine cannot launch
 * them. */
fb_puzzle_stand_in fb_puzzle_offered(const fb_app *app)
{
    const fb_puzzle *p = fb_puzzle_of(app);
    bool foreign = strchr(p->compare[0], '@') || strchr(p->compare[1], '@'), named = fb_puzzle_names_device(app);
    if (!fb_puzzle_absent(app) && app->puzzle.stage != FB_PUZZLE_STUCK) return FB_PUZZLE_AS_ASKED;
    if (foreign) return named ? FB_PUZZLE_OUR_OWN : FB_PUZZLE_AS_ASKED;
    return !named && fb_puzzle_recording(app) ? FB_PUZZLE_RECORDED : FB_PUZZLE_AS_ASKED;
}

/* ---- its course ---------------------------------------------------------------------------------------------------
 */

/* Nothing is measured by itself before there is a prediction. */
void fb_puzzle_hold(fb_app *app, bool on)
{
    if (on == app->puzzle.held) return;
    if (on && !fb_session_auto(app->session)) return; /* it was off before */
    app->puzzle.held = on;
    fb_session_set_auto(app->session, !on);
}

bool fb_puzzle_waits(const fb_app *app)
{
    bool page = fb_app_view(app) == FB_VIEW_LESSON && fb_lesson_asks(app);
    return app->puzzle.stage == FB_PUZZLE_PREDICT && (page || fb_app_view(app) == FB_VIEW_PUZZLE);
}

bool fb_puzzle_hides(const fb_app *app, const char *spec)
{
    const char *plan = strrchr(spec, ':') ? strrchr(spec, ':') + 1 : spec;
    size_t n = strcspn(plan, "@");
    return app->puzzle.secret && n == 4 && !strncmp(plan, "best", 4);
}

void fb_puzzle_free(fb_app *app)
{
    fb_puzzle_hold(app, false);
    for (int i = 0; i < 2; i++) fb_free(app->puzzle.spec[i]);
    fb_puzzle_code_free(&app->puzzle.code);
    fb_free(app->puzzle.next);
    app->puzzle = (fb_puzzle_run){.choice = FB_NONE};
}

static fb_hash asks(const fb_puzzle *p)
{
    fb_hasher *h = fb_hasher_new();
    const char *const texts[] = {p->compare[0], p->compare[1], p->ask, p->tell, p->about};
    for (int i = 0; i < 5; i++) fb_hasher_add_text(h, texts[i] ? texts[i] : "");
    for (int i = 0; i < p->n_choices; i++) fb_hasher_add_text(h, p->choice_keys[i]);
    for (int i = 0; i < p->n_choices; i++) fb_hasher_add_text(h, p->choices[i]);
    for (int i = 0; i < p->n_hints; i++) fb_hasher_add_text(h, p->hints[i]);
    return fb_hasher_end(h);
}

/* The same script has come again. What could not be judged may be judged now, and what asks something else begins anew;
 * a puzzle that is solved stays so as long as it asks the same. */
void fb_puzzle_reloaded(fb_app *app)
{
    fb_puzzle_run *z = &app->puzzle;
    const fb_puzzle *p = fb_puzzle_of(app);
    bool had = z->stage != FB_PUZZLE_NONE;
    if (!p && had) {
        fb_puzzle_free(app);
        if (fb_app_view(app) == FB_VIEW_PUZZLE) fb_app_hide(app);
    } else if (p && (!had || !fb_hash_equal(z->asks, asks(p)))) {
        if (!had || fb_app_view(app) == FB_VIEW_PUZZLE) {
            fb_puzzle_begin(app);
        } else {
            fb_puzzle_free(app);
            z->stage = FB_PUZZLE_PREDICT;
        }
    } else if (p && z->stage == FB_PUZZLE_STUCK) {
        z->stage = FB_PUZZLE_PREDICT;
    }
    if (!p) return;
    if (z->stage == FB_PUZZLE_PREDICT) fb_puzzle_set_columns(app, FB_PUZZLE_AS_ASKED);
    z->asks = asks(p);
    z->asked = false;
    app->dirty = true;
}

/* The two that are compared are there from the beginning, so that their plans can be looked at. */
void fb_puzzle_columns(fb_app *app)
{
    if (app->puzzle.stage != FB_PUZZLE_PREDICT || fb_app_view(app) != FB_VIEW_PUZZLE) return;
    for (int i = 0; i < 2; i++)
        if (fb_puzzle_column(app, app->puzzle.spec[i]) == FB_NONE &&
            fb_session_add(app->session, app->puzzle.spec[i], NULL) >= 0)
            app->first_measured = false; /* it joins the measurement */
}

void fb_puzzle_begin(fb_app *app)
{
    fb_arena *arena = fb_arena_new();
    fb_puzzles progress;
    bool wanted = app->puzzle_wanted;
    fb_puzzle_free(app);
    app->puzzle_wanted = false;
    if (fb_puzzle_of(app)) {
        const char *next = NULL; /* in a lesson its next page, which is the lesson's to say */
        if (!app->lesson.info)
            app->puzzle.place = fb_session_puzzle_place(fb_session_path(app->session), &app->puzzle.of, &next, arena);
        app->puzzle.next = next ? fb_strdup(next) : NULL;
        fb_puzzles_read(arena, &progress);
        fb_puzzle_state state = fb_puzzles_of(&progress, fb_session_path(app->session));
        app->puzzle.stage = FB_PUZZLE_PREDICT;
        app->puzzle.secret = state == FB_PUZZLE_NEW || state == FB_PUZZLE_SKIPPED;
        app->puzzle.asks = asks(fb_puzzle_of(app));
        fb_puzzle_set_columns(app, FB_PUZZLE_AS_ASKED);
        bool shows = wanted || state == FB_PUZZLE_NEW || (state == FB_PUZZLE_SKIPPED && app->from_list);
        if (app->lesson.info) {
            if (fb_lesson_asks(app) && fb_app_view(app) == FB_VIEW_LESSON) fb_puzzle_hold(app, true);
        } else if (shows && fb_app_view(app) != FB_VIEW_LIST) {
            fb_app_show(app, FB_VIEW_PUZZLE);
            fb_puzzle_hold(app, true);
        }
    }
    fb_arena_free(arena);
}

static bool has_hope(const fb_app *app, int column)
{
    return column != FB_NONE && fb_session_column(app->session, column)->state != FB_COLUMN_FAILED;
}

static void measure_all(fb_app *app)
{
    int n = fb_session_columns(app->session), wanted = 0;
    int *all = fb_calloc((size_t)n + 1, sizeof *all);
    for (int i = 0; i < n; i++)
        if (has_hope(app, i)) all[wanted++] = i;
    app->first_measured = true;
    app->own_columns = false; /* what is recorded was asked for */
    fb_session_measure(app->session, all, wanted);
    fb_free(all);
}

static void cannot(fb_app *app, const fb_error *why)
{
    app->puzzle.stage = FB_PUZZLE_STUCK;
    app->puzzle.error = *why;
    app->scroll[FB_VIEW_PUZZLE] = (fb_scroll){.cursor = 1}; /* the first thing to do about it */
}

/* Told before anything is measured: what the class expects. */
static void tell_prediction(fb_app *app)
{
    const fb_puzzle *p = fb_puzzle_of(app);
    char name[128];
    if (!p || app->puzzle.choice == FB_NONE) return;
    fb_session_puzzle_name(fb_session_path(app->session), name);
    fb_session_predict(app->session, name, p->choice_keys[app->puzzle.choice], app->puzzle.guess);
}

void fb_puzzle_start(fb_app *app)
{
    fb_error err = {0};
    tell_prediction(app);
    fb_puzzle_hold(app, false);
    app->puzzle.stage = FB_PUZZLE_RUNS;
    app->puzzle.asked = false;
    app->scroll[FB_VIEW_PUZZLE] = (fb_scroll){0};
    for (int i = 0; i < 2; i++)
        if (fb_puzzle_column(app, app->puzzle.spec[i]) == FB_NONE &&
            fb_session_add(app->session, app->puzzle.spec[i], &err) < 0) {
            cannot(app, &err);
            return;
        }
    measure_all(app);
    int a = fb_puzzle_column(app, app->puzzle.spec[0]), b = fb_puzzle_column(app, app->puzzle.spec[1]);
    if (has_hope(app, a) && has_hope(app, b)) fb_session_compare(app->session, a, b);
    fb_puzzle_follow(app);
}

bool fb_puzzle_makes_right(const fb_app *app, int choice)
{
    return choice != FB_NONE && choice < 64 && app->puzzle.grade.right >> choice & 1;
}

bool fb_puzzle_is_right(const fb_app *app)
{
    return fb_puzzle_makes_right(app, app->puzzle.choice);
}

/* The choices of the question that is asked, by their numbers in the script. Of the other question's, one a part. */
int fb_puzzle_choices(const fb_app *app, int shown[64])
{
    const fb_puzzle *p = fb_puzzle_of(app);
    bool turned = app->puzzle.grade.turned && app->puzzle.stage >= FB_PUZZLE_TURNED;
    int n = 0;
    for (int i = 0; i < p->n_choices && i < 64; i++) {
        bool again = false;
        for (int k = 0; turned && k < n; k++) again |= p->conditions[shown[k]].part == p->conditions[i].part;
        if (!turned || (!again && p->conditions[i].part != FB_WHY_NONE)) shown[n++] = i;
    }
    return n;
}

/* The columns that were left out while there was something to find are there from now on. */
static void unveil(fb_app *app)
{
    const fb_script_info *info = fb_session_script(app->session);
    for (int i = 0; i < info->n_columns && app->puzzle.secret; i++) {
        if (!fb_puzzle_hides(app, info->columns[i])) continue;
        if (fb_session_add(app->session, info->columns[i], NULL) >= 0) app->first_measured = false;
    }
    app->puzzle.secret = false;
}

static void keep_answer(fb_app *app)
{
    const fb_puzzle *p = fb_puzzle_of(app);
    const fb_puzzle_run *z = &app->puzzle;
    const char *found = z->grade.winner == FB_WHY_NONE ? "" : fb_why_name(z->grade.winner);
    for (int i = p->n_choices - 1; i >= 0; i--)
        if (fb_puzzle_makes_right(app, i)) found = p->choice_keys[i];
    json_t *row =
        json_pack("{s:s, s:s, s:b, s:f, s:f, s:i}", "chosen", p->choice_keys[z->choice], "answer", found, "right",
                  fb_puzzle_is_right(app), "guess", z->guess, "times", z->why.a_us / z->why.b_us, "hints", z->hints);
    fb_puzzles_add(fb_session_path(app->session), row);
    json_decref(row);
    unveil(app);
}

/* What was chosen is right or wrong only where something was found that a choice says. */
void fb_puzzle_conclude(fb_app *app)
{
    app->puzzle.stage = FB_PUZZLE_ANSWERED;
    app->scroll[FB_VIEW_PUZZLE] = (fb_scroll){0};
    if (app->puzzle.grade.state == FB_GRADE_KNOWN && app->puzzle.choice != FB_NONE) keep_answer(app);
}

static void judged(fb_app *app, const fb_answer *answer)
{
    app->puzzle.grade = answer->grade;
    if (!answer->grade.turned || answer->grade.state != FB_GRADE_KNOWN) {
        fb_puzzle_conclude(app);
        return;
    }
    app->puzzle.stage = FB_PUZZLE_TURNED; /* what was asked is not so: the opposite is asked, of the same two */
    app->puzzle.choice = FB_NONE;
    app->scroll[FB_VIEW_PUZZLE] = (fb_scroll){0};
}

void fb_puzzle_follow(fb_app *app)
{
    fb_puzzle_run *z = &app->puzzle;
    int at[2];
    if (z->stage != FB_PUZZLE_RUNS || !fb_puzzle_of(app)) return;
    for (int i = 0; i < 2; i++) {
        fb_error gone = {0};
        at[i] = fb_puzzle_column(app, z->spec[i]);
        /* left out once the device had been asked what it can do: adding it says why */
        if (at[i] == FB_NONE) at[i] = fb_session_add(app->session, z->spec[i], &gone);
        const fb_column *c = at[i] < 0 ? NULL : fb_session_column(app->session, at[i]);
        if (!c || c->state == FB_COLUMN_FAILED) {
            cannot(app, c ? &c->error : &gone);
            return;
        }
        if (c->state == FB_COLUMN_READY && !fb_session_busy(app->session)) { /* it was cancelled */
            z->stage = FB_PUZZLE_PREDICT;
            return;
        }
        if (c->state != FB_COLUMN_DONE) return;
    }
    fb_error err = {0};
    if (!z->asked) {
        z->asked = true;
        if (!fb_session_why(app->session, at[0], at[1], &z->why, &err) ||
            !fb_session_ask(app->session, &z->why, &err)) {
            cannot(app, &err);
            return;
        }
    }
    const fb_answer *answer = fb_session_answer(app->session);
    if (answer->state == FB_ANSWER_FAILED) cannot(app, &answer->error);
    if (answer->state == FB_ANSWER_KNOWN) judged(app, answer);
}
