/* The puzzle of a script: read the task, predict, then run, then see what was right and why. */
#include "session/library.h"
#include "session/names.h"
#include "session/progress.h"
#include "tui/ui.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where h and l stop; digits give any other. Below 1: slower. */
static const double guesses[] = {0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1,  1.1, 1.25, 1.5, 2,
                                 2.5, 3,   4,    5,   6,    8,   10,  15, 20,  30,   50,  100};
enum { GUESSES = sizeof guesses / sizeof *guesses };
static const double first_guess = 2;

/* What a row of the cursor does. */
typedef enum {
    ROW_TASK, /* the first line: there the page begins */
    ROW_CHOICE,
    ROW_GUESS,
    ROW_RUN,
    ROW_SEE,
    ROW_HINT,
    ROW_OURS,
    ROW_WHY,
    ROW_AGAIN,
    ROW_WORKBENCH,
    ROW_NEXT,
    ROW_SKIP,
    ROW_LIST
} row_kind;

typedef struct {
    row_kind kind;
    int choice;
} entry;

/* One line on the screen. */
typedef struct {
    char *text;
    const char *right; /* beside it, from the page's middle on; NULL: it has the whole line */
    fb_role role;
    int row;        /* the cursor's; FB_NONE */
    fb_why_id part; /* a bar of the waterfall behind the text; FB_WHY_NONE */
} line;

typedef struct {
    FB_VEC(entry) rows;
    FB_VEC(line) lines;
    int width;
} page;

static const fb_puzzle *puzzle_of(const fb_app *app)
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
                !strcmp(spec.plan, c->plan_name) &&
                (!n || (!strncmp(c->device, spec.device, n) && (!c->device[n] || c->device[n] == ':')));
    fb_column_spec_free(&spec);
    return same;
}

static int column_of(const fb_app *app, const char *text)
{
    for (int i = 0; i < fb_session_columns(app->session); i++)
        if (is_of(fb_session_column(app->session, i), text)) return i;
    return FB_NONE;
}

/* One of the columns cannot be had here. */
static const fb_column *absent(const fb_app *app)
{
    for (int i = 0; i < 2; i++) {
        int at = column_of(app, app->puzzle.spec[i]);
        const fb_column *c = at == FB_NONE ? NULL : fb_session_column(app->session, at);
        if (c && c->state == FB_COLUMN_FAILED) return c;
    }
    return NULL;
}

/* What is compared: what the script says, or what stands in where that cannot be had here. */
typedef enum { AS_ASKED, OUR_OWN, RECORDED } stand_in;

/* A recording of another machine, by its device's name; NULL: there is none. */
static const char *recording(const fb_app *app)
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

static char *spec_of(const fb_app *app, const char *asked, stand_in how)
{
    fb_str out = {0};
    if (how == OUR_OWN) return ours(asked);
    fb_str_add(&out, asked);
    if (how == RECORDED) fb_str_addf(&out, "@%s", recording(app));
    return fb_str_take(&out);
}

static void set_specs(fb_app *app, stand_in how)
{
    const fb_puzzle *p = puzzle_of(app);
    for (int i = 0; i < 2; i++) {
        fb_free(app->puzzle.spec[i]);
        app->puzzle.spec[i] = p ? spec_of(app, p->compare[i], how) : NULL;
    }
    fb_puzzle_code_read(&app->puzzle.code, app->session, app->puzzle.spec);
}

static bool names_a_device(const fb_app *app)
{
    return (app->puzzle.spec[0] && strchr(app->puzzle.spec[0], '@')) ||
           (app->puzzle.spec[1] && strchr(app->puzzle.spec[1], '@'));
}

/* What can be compared where the two that were asked for cannot: the same in plans of our own, where they are another
 * device's; what was recorded, where this machine cannot launch them. AS_ASKED: nothing. */
static stand_in offered(const fb_app *app)
{
    const fb_puzzle *p = puzzle_of(app);
    bool foreign = strchr(p->compare[0], '@') || strchr(p->compare[1], '@');
    if (!absent(app) && (app->puzzle.stage != FB_PUZZLE_STUCK || !foreign)) return AS_ASKED;
    if (foreign) return names_a_device(app) ? OUR_OWN : AS_ASKED;
    return !names_a_device(app) && recording(app) ? RECORDED : AS_ASKED;
}

/* ---- its course ---------------------------------------------------------------------------------------------------
 */

/* Nothing is measured by itself before there is a prediction. */
static void hold(fb_app *app, bool on)
{
    if (on == app->puzzle.held) return;
    if (on && !fb_session_auto(app->session)) return; /* it was off before */
    app->puzzle.held = on;
    fb_session_set_auto(app->session, !on);
}

bool fb_puzzle_waits(const fb_app *app)
{
    return app->puzzle.stage == FB_PUZZLE_PREDICT && fb_app_view(app) == FB_VIEW_PUZZLE;
}

bool fb_puzzle_hides(const fb_app *app, const char *spec)
{
    const char *plan = strrchr(spec, ':') ? strrchr(spec, ':') + 1 : spec;
    size_t n = strcspn(plan, "@");
    return app->puzzle.secret && n == 4 && !strncmp(plan, "best", 4);
}

void fb_puzzle_free(fb_app *app)
{
    hold(app, false);
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
    const fb_puzzle *p = puzzle_of(app);
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
    if (z->stage == FB_PUZZLE_PREDICT) set_specs(app, AS_ASKED);
    z->asks = asks(p);
    z->asked = false;
    app->dirty = true;
}

/* The two that are compared are there from the beginning, so that their plans can be looked at. */
void fb_puzzle_columns(fb_app *app)
{
    if (app->puzzle.stage != FB_PUZZLE_PREDICT || fb_app_view(app) != FB_VIEW_PUZZLE) return;
    for (int i = 0; i < 2; i++)
        if (column_of(app, app->puzzle.spec[i]) == FB_NONE &&
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
    if (puzzle_of(app)) {
        const char *next;
        app->puzzle.place = fb_puzzle_place(fb_session_path(app->session), &app->puzzle.of, &next, arena);
        app->puzzle.next = next ? fb_strdup(next) : NULL;
        fb_puzzles_read(arena, &progress);
        fb_puzzle_state state = fb_puzzles_of(&progress, fb_session_path(app->session));
        app->puzzle.stage = FB_PUZZLE_PREDICT;
        app->puzzle.secret = state == FB_PUZZLE_NEW || state == FB_PUZZLE_SKIPPED;
        app->puzzle.asks = asks(puzzle_of(app));
        set_specs(app, AS_ASKED);
        bool shows = wanted || state == FB_PUZZLE_NEW || (state == FB_PUZZLE_SKIPPED && app->from_list);
        if (shows && fb_app_view(app) != FB_VIEW_LIST) {
            fb_app_show(app, FB_VIEW_PUZZLE);
            hold(app, true);
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

static void start(fb_app *app)
{
    fb_error err = {0};
    hold(app, false);
    app->puzzle.stage = FB_PUZZLE_RUNS;
    app->puzzle.asked = false;
    app->scroll[FB_VIEW_PUZZLE] = (fb_scroll){0};
    for (int i = 0; i < 2; i++)
        if (column_of(app, app->puzzle.spec[i]) == FB_NONE &&
            fb_session_add(app->session, app->puzzle.spec[i], &err) < 0) {
            cannot(app, &err);
            return;
        }
    measure_all(app);
    int a = column_of(app, app->puzzle.spec[0]), b = column_of(app, app->puzzle.spec[1]);
    if (has_hope(app, a) && has_hope(app, b)) fb_session_compare(app->session, a, b);
    fb_puzzle_follow(app);
}

static bool makes_right(const fb_app *app, int choice)
{
    return choice != FB_NONE && choice < 64 && app->puzzle.grade.right >> choice & 1;
}

static bool is_right(const fb_app *app)
{
    return makes_right(app, app->puzzle.choice);
}

/* The choices of the question that is asked, by their numbers in the script. Of the other question's, one a part. */
static int choices_of(const fb_app *app, int shown[64])
{
    const fb_puzzle *p = puzzle_of(app);
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
    const fb_puzzle *p = puzzle_of(app);
    const fb_puzzle_run *z = &app->puzzle;
    const char *found = z->grade.winner == FB_WHY_NONE ? "" : fb_why_name(z->grade.winner);
    for (int i = p->n_choices - 1; i >= 0; i--)
        if (makes_right(app, i)) found = p->choice_keys[i];
    json_t *row =
        json_pack("{s:s, s:s, s:b, s:f, s:f, s:i}", "chosen", p->choice_keys[z->choice], "answer", found, "right",
                  is_right(app), "guess", z->guess, "times", z->why.a_us / z->why.b_us, "hints", z->hints);
    fb_puzzles_add(fb_session_path(app->session), row);
    json_decref(row);
    unveil(app);
}

/* What was chosen is right or wrong only where something was found that a choice says. */
static void conclude(fb_app *app)
{
    app->puzzle.stage = FB_PUZZLE_ANSWERED;
    app->scroll[FB_VIEW_PUZZLE] = (fb_scroll){0};
    if (app->puzzle.grade.state == FB_GRADE_KNOWN && app->puzzle.choice != FB_NONE) keep_answer(app);
}

static void judged(fb_app *app, const fb_answer *answer)
{
    app->puzzle.grade = answer->grade;
    if (!answer->grade.turned || answer->grade.state != FB_GRADE_KNOWN) {
        conclude(app);
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
    if (z->stage != FB_PUZZLE_RUNS || !puzzle_of(app)) return;
    for (int i = 0; i < 2; i++) {
        at[i] = column_of(app, z->spec[i]);
        const fb_column *c = at[i] == FB_NONE ? NULL : fb_session_column(app->session, at[i]);
        fb_error gone = {0};
        if (!c) fb_fail(&gone, FB_ERR_UNAVAILABLE, "%s is not there", z->spec[i]);
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

/* ---- the page -----------------------------------------------------------------------------------------------------
 */

static page *state(fb_app *app)
{
    return app->state[FB_VIEW_PUZZLE];
}

static void add_line(fb_app *app, page *p, const char *text, size_t n, int indent, fb_role role, int row)
{
    char *copy = fb_arena_printf(app->arena[FB_VIEW_PUZZLE], "%*s%.*s", indent, "", (int)n, text);
    FB_VEC_PUSH(&p->lines, (line){copy, NULL, role, row, FB_WHY_NONE});
}

/* Words broken over lines; what follows the first is indented as the text after its mark. */
static void add(fb_app *app, page *p, int indent, fb_role role, int row, const char *mark, const char *text)
{
    fb_str part = {0};
    int hang = indent + fb_text_width(mark), first = p->lines.n;
    while (fb_text_words(&text, p->width - hang, &part)) add_line(app, p, fb_str_get(&part), part.n, hang, role, row);
    if (p->lines.n == first) add_line(app, p, "", 0, hang, role, row);
    line *l = &p->lines.at[first];
    if (*mark) l->text = fb_arena_printf(app->arena[FB_VIEW_PUZZLE], "%*s%s%s", indent, "", mark, l->text + hang);
    fb_str_free(&part);
}

static void gap(fb_app *app, page *p)
{
    add_line(app, p, "", 0, 0, FB_ROLE_TEXT, FB_NONE);
}

static int new_row(page *p, row_kind kind, int choice)
{
    FB_VEC_PUSH(&p->rows, (entry){kind, choice});
    return p->rows.n - 1;
}

static void button(fb_app *app, page *p, row_kind kind, const char *text)
{
    add(app, p, 2, FB_ROLE_KEY, new_row(p, kind, 0), "", text);
}

static void add_hints(fb_app *app, page *p)
{
    const fb_puzzle *z = puzzle_of(app);
    for (int i = 0; i < app->puzzle.hints && i < z->n_hints; i++) {
        char mark[32];
        snprintf(mark, sizeof mark, "hint %d: ", i + 1);
        add(app, p, 2, FB_ROLE_WARN, FB_NONE, mark, z->hints[i]);
    }
}

/* It stays where it is when there are no more: a key that goes on being pressed must not reach another row. */
static void add_hint_button(fb_app *app, page *p)
{
    bool left = app->puzzle.hints < puzzle_of(app)->n_hints;
    add(app, p, 2, left ? FB_ROLE_KEY : FB_ROLE_DIM, new_row(p, ROW_HINT, 0), "",
        !left               ? "No more hints"
        : app->puzzle.hints ? "Another hint"
                            : "A hint");
}

static void add_choices(fb_app *app, page *p)
{
    const fb_puzzle *z = puzzle_of(app);
    const fb_puzzle_run *run = &app->puzzle;
    bool graded = run->stage == FB_PUZZLE_ANSWERED && run->grade.state == FB_GRADE_KNOWN,
         open = run->stage == FB_PUZZLE_PREDICT || run->stage == FB_PUZZLE_TURNED;
    int shown[64], n = choices_of(app, shown);
    for (int k = 0; k < n; k++) {
        int i = shown[k];
        bool chosen = run->choice == i, right = graded && makes_right(app, i), wrong = graded && chosen && !right;
        fb_role role = right ? FB_ROLE_GOOD : wrong ? FB_ROLE_BAD : chosen ? FB_ROLE_STRONG : FB_ROLE_TEXT;
        char mark[24];
        snprintf(mark, sizeof mark, "%d %s ", k + 1, right ? "✓" : wrong ? "✗" : chosen ? "●" : "○");
        add(app, p, 2, role, open ? new_row(p, ROW_CHOICE, i) : FB_NONE, mark,
            run->grade.turned && run->stage >= FB_PUZZLE_TURNED ? fb_grade_cause((fb_why_id)z->conditions[i].part)
                                                                : z->choices[i]);
    }
}

static void add_guess(fb_app *app, page *p)
{
    const fb_puzzle_run *z = &app->puzzle;
    char text[96];
    if (*z->typed)
        snprintf(text, sizeof text, "How many times as fast? ◂ %s_ × ▸", z->typed);
    else if (z->guess == 0)
        snprintf(text, sizeof text, "How many times as fast? ◂ … ▸ (type it, or h and l)");
    else
        snprintf(text, sizeof text, "How many times as fast? ◂ %g × ▸", z->guess);
    add(app, p, 2, z->guess == 0 ? FB_ROLE_TEXT : FB_ROLE_STRONG, new_row(p, ROW_GUESS, 0), "", text);
}

/* Whether it was right, or why nothing is. */
static void add_grade(fb_app *app, page *p)
{
    static const char *const none[] = {
        [FB_GRADE_TIE] =
            "Nothing is graded: here it cannot be told which of the two is faster. Larger parameters (P) or "
            "another device may tell them apart.",
        [FB_GRADE_UNEXPLAINED] =
            "Nothing is graded: more of the difference is not explained here than any part explains.",
        [FB_GRADE_OTHER] = "Nothing is graded: here none of the answers is right; the waterfall shows what is."};
    const fb_puzzle_run *z = &app->puzzle;
    const fb_why *why = &z->why;
    if (z->grade.state == FB_GRADE_KNOWN)
        add(app, p, 2, is_right(app) ? FB_ROLE_GOOD : FB_ROLE_BAD, FB_NONE, "", is_right(app) ? "Right." : "Not here.");
    else
        add(app, p, 2, FB_ROLE_WARN, FB_NONE, "",
            z->grade.state == FB_GRADE_TIE && why->verdict[why->of].what == FB_SAME
                ? "Nothing is graded: here the two are the same. Larger parameters (P) or another device may tell them "
                  "apart."
                : none[z->grade.state]);
}

/* What the waterfall says of the part that was chosen, where that was not it. */
static void add_chosen(fb_app *app, page *p)
{
    const fb_puzzle_run *z = &app->puzzle;
    const fb_why *why = &z->why;
    int id = z->choice == FB_NONE ? FB_WHY_NONE : puzzle_of(app)->conditions[z->choice].part;
    if (id == FB_WHY_NONE || z->grade.state != FB_GRADE_KNOWN || is_right(app)) return;
    const fb_why_part *part = &why->part[id];
    const char *name = fb_why_name((fb_why_id)id);
    double gain = why->us < 0 ? -part->us : part->us;
    char text[400], us[32], most[32];
    if (!part->known)
        snprintf(text, sizeof text, "You chose %s: that is not known of both.", name);
    else if (fabs(part->us) < fabs(why->us) / 200)
        snprintf(text, sizeof text, "You chose %s: nothing of the difference is that.", name);
    else if (gain < 0)
        snprintf(text, sizeof text, "You chose %s: that goes the other way, by %s; it would make %s the faster one.",
                 name, fb_format_us(us, -gain), z->spec[why->us > 0 ? 0 : 1]);
    else
        snprintf(text, sizeof text, "You chose %s: that is %s, %.0f %% of the difference; %s is more, %s, %.0f %%.",
                 name, fb_format_us(us, gain), fb_why_percent(why, (fb_why_id)id), fb_why_name(z->grade.winner),
                 fb_format_us(most, fabs(why->part[z->grade.winner].us)), fb_why_percent(why, z->grade.winner));
    add(app, p, 2, FB_ROLE_TEXT, FB_NONE, "", text);
}

/* What was found, in the script's words, then what always holds. Of the opposite of its question it knows nothing. */
static void add_closing(fb_app *app, page *p)
{
    const fb_puzzle *z = puzzle_of(app);
    bool own = !app->puzzle.grade.turned;
    add_chosen(app, p);
    for (int i = 0; own && i < z->n_choices; i++)
        if (app->puzzle.grade.state == FB_GRADE_KNOWN && makes_right(app, i) && z->conditions[i].tell)
            add(app, p, 2, FB_ROLE_TEXT, FB_NONE, "", z->conditions[i].tell);
    if (own && z->tell) add(app, p, 2, FB_ROLE_TEXT, FB_NONE, "", z->tell);
}

static void add_waterfall(fb_app *app, page *p)
{
    const fb_why *why = &app->puzzle.why;
    for (int id = 0; id < FB_WHY_PARTS; id++) {
        if (!fb_why_matters(why, (fb_why_id)id) || !why->part[id].known) continue;
        add(app, p, 4, FB_ROLE_TEXT, FB_NONE, "", fb_why_name((fb_why_id)id));
        p->lines.at[p->lines.n - 1].part = (fb_why_id)id;
    }
}

/* "11.00 times as fast", "1.25× slower" */
static const char *say_times(double times, char to[32])
{
    if (times < 1) return fb_ratio_say(times, to);
    snprintf(to, 32, "%.2f times as fast", times);
    return to;
}

static void add_times(fb_app *app, page *p)
{
    const fb_why *why = &app->puzzle.why;
    double times = why->a_us / why->b_us, guess = app->puzzle.guess, off = fmax(times / guess, guess / times);
    char text[400], a[32], b[32], ratio[32], verdicts[160];
    add(app, p, 2, FB_ROLE_TEXT, FB_NONE, "", fb_why_verdicts(why, verdicts));
    snprintf(text, sizeof text, "%s: %s → %s: %s; you guessed %g, which is %s",
             why->of == FB_TIME_WALL ? "wall time" : "the kernels alone", fb_format_us(a, why->a_us),
             fb_format_us(b, why->b_us), say_times(times, ratio), guess,
             off < 1.25 ? "as good as right"
             : off < 2  ? "close"
                        : "off by more than a factor of two");
    add(app, p, 2, FB_ROLE_STRONG, FB_NONE, "", text);
}

/* The script's question, or its opposite where the script's is of something that is not so. */
static const char *question(fb_app *app)
{
    const fb_puzzle_run *z = &app->puzzle;
    const fb_why *why = &z->why;
    char ratio[32];
    if (!z->grade.turned || z->stage < FB_PUZZLE_TURNED) return puzzle_of(app)->ask;
    return fb_arena_printf(app->arena[FB_VIEW_PUZZLE], "Here it is the other way round: beside %s, %s is %s. Why?",
                           z->spec[0], z->spec[1], say_times(why->a_us / why->b_us, ratio));
}

/* What stands in for a device that is not there. */
static void add_stand_in(fb_app *app, page *p)
{
    char text[300];
    for (int i = 0; i < 2; i++) {
        int at = column_of(app, app->puzzle.spec[i]);
        const char *device = at == FB_NONE ? NULL : fb_session_column(app->session, at)->device;
        const char *asked = strrchr(app->puzzle.spec[i], '@');
        if (!device || !asked || !strchr(device, ':') || !strcmp(device, asked + 1)) continue;
        snprintf(text, sizeof text, "%s is not here: what was recorded as %s stands in", asked + 1, device);
        add(app, p, 2, FB_ROLE_DIM, FB_NONE, "", text);
        break;
    }
}

static void add_compared(fb_app *app, page *p)
{
    char text[300];
    snprintf(text, sizeof text, "compared: %s → %s", app->puzzle.spec[0], app->puzzle.spec[1]);
    add(app, p, 2, FB_ROLE_DIM, FB_NONE, "", text);
    add_stand_in(app, p);
}

static void add_program(fb_app *app, page *p, const char *text)
{
    fb_str part = {0};
    int in = 0;
    while (text) {
        text = fb_code_wrap(text, p->width - 4, &in, &part);
        add_line(app, p, fb_str_get(&part), part.n, 4, FB_ROLE_TEXT, FB_NONE);
    }
    fb_str_free(&part);
}

static int middle(const page *p)
{
    return (p->width + 4) / 2;
}

static void add_pair(fb_app *app, page *p, fb_role role, const char *left, const char *right)
{
    add_line(app, p, left, strlen(left), 2, role, FB_NONE);
    p->lines.at[p->lines.n - 1].right = fb_arena_strdup(app->arena[FB_VIEW_PUZZLE], right);
}

static void add_sides(fb_app *app, page *p, const char *left, const char *right)
{
    const char *rest[2] = {left && *left ? left : NULL, right && *right ? right : NULL};
    int in[2] = {0, 0};
    fb_str part[2] = {{0}, {0}};
    while (rest[0] || rest[1]) {
        for (int i = 0; i < 2; i++) {
            fb_str_clear(&part[i]);
            if (rest[i]) rest[i] = fb_code_wrap(rest[i], middle(p) - 3, &in[i], &part[i]);
        }
        add_pair(app, p, FB_ROLE_TEXT, fb_str_get(&part[0]), fb_str_get(&part[1]));
    }
    for (int i = 0; i < 2; i++) fb_str_free(&part[i]);
}

/* What it is about, and what is compared: the program that both have, then what differs, side by side. */
static void add_task(fb_app *app, page *p)
{
    const fb_puzzle *z = puzzle_of(app);
    const fb_puzzle_code *code = &app->puzzle.code;
    fb_str kernels[2] = {{0}, {0}};
    add(app, p, 2, FB_ROLE_DIM, new_row(p, ROW_TASK, 0), "", "What is compared");
    if (z->about) add(app, p, 2, FB_ROLE_TEXT, FB_NONE, "", z->about);
    gap(app, p);
    if (code->both) {
        add_program(app, p, code->both);
        gap(app, p);
    }
    add_pair(app, p, FB_ROLE_TITLE, app->puzzle.spec[0], app->puzzle.spec[1]);
    add_sides(app, p, code->side[0], code->side[1]);
    for (int i = 0; i < 2; i++) {
        int at = column_of(app, app->puzzle.spec[i]);
        if (at != FB_NONE) fb_puzzle_kernels(fb_session_column(app->session, at), &kernels[i]);
    }
    add_sides(app, p, fb_str_get(&kernels[0]), fb_str_get(&kernels[1]));
    for (int i = 0; i < 2; i++) fb_str_free(&kernels[i]);
    gap(app, p);
    add(app, p, 2, FB_ROLE_STRONG, FB_NONE, "", z->ask);
    add_stand_in(app, p);
}

static void add_stand_in_button(fb_app *app, page *p)
{
    stand_in how = offered(app);
    if (how == OUR_OWN) button(app, p, ROW_OURS, "Compare the same with our own eager plans");
    if (how == RECORDED)
        button(app, p, ROW_OURS,
               fb_arena_printf(app->arena[FB_VIEW_PUZZLE], "Compare what was recorded as %s", recording(app)));
}

static const char *next_title(fb_app *app)
{
    fb_arena *arena = app->arena[FB_VIEW_PUZZLE];
    const fb_bundled *list;
    int n = fb_bundled_list(arena, &list);
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].path, app->puzzle.next)) return list[i].title;
    return app->puzzle.next;
}

/* Skipping is said, not guessed from who leaves. */
static void add_next(fb_app *app, page *p, bool skipping)
{
    char text[300];
    if (app->puzzle.next) {
        snprintf(text, sizeof text, "%s puzzle, %d of %d: %s", skipping ? "Skip to the next" : "The next",
                 app->puzzle.place + 1, app->puzzle.of, next_title(app));
        button(app, p, skipping ? ROW_SKIP : ROW_NEXT, text);
    } else if (skipping) {
        button(app, p, ROW_SKIP, "Skip this puzzle");
    }
}

static void make_prediction(fb_app *app, page *p)
{
    const fb_puzzle *z = puzzle_of(app);
    add_task(app, p);
    add_choices(app, p);
    add_guess(app, p);
    add_hints(app, p);
    if (offered(app) != AS_ASKED) add(app, p, 2, FB_ROLE_WARN, FB_NONE, "", absent(app)->error.text);
    button(app, p, ROW_RUN, "Run and see");
    if (z->n_hints) add_hint_button(app, p);
    add_stand_in_button(app, p);
    add_next(app, p, true);
}

static void make(fb_app *app, int width)
{
    const fb_puzzle *z = puzzle_of(app);
    page *p = fb_view_state(app, FB_VIEW_PUZZLE, sizeof *p);
    p->width = width;
    if (!z || !app->puzzle.spec[0]) return;
    if (app->puzzle.stage == FB_PUZZLE_PREDICT) {
        make_prediction(app, p);
        return;
    }
    add(app, p, 2, FB_ROLE_STRONG, new_row(p, ROW_TASK, 0), "", question(app));
    add_compared(app, p);
    gap(app, p);
    add_choices(app, p);
    gap(app, p);
    switch (app->puzzle.stage) {
    case FB_PUZZLE_RUNS: add(app, p, 2, FB_ROLE_DIM, FB_NONE, "", "Measuring; Esc stops it."); break;
    case FB_PUZZLE_TURNED: button(app, p, ROW_SEE, "See"); break;
    case FB_PUZZLE_STUCK:
        add(app, p, 2, FB_ROLE_BAD, FB_NONE, "", app->puzzle.error.text);
        add_stand_in_button(app, p);
        button(app, p, ROW_AGAIN, "Predict again");
        button(app, p, ROW_WORKBENCH, "To the workbench");
        add_next(app, p, false);
        break;
    case FB_PUZZLE_ANSWERED:
        add_grade(app, p);
        add_times(app, p);
        add_waterfall(app, p);
        gap(app, p);
        add_closing(app, p);
        gap(app, p);
        button(app, p, ROW_WHY, "The waterfall, part by part");
        add_next(app, p, false);
        button(app, p, ROW_WORKBENCH, "To the workbench");
        button(app, p, ROW_AGAIN, "Predict again");
        button(app, p, ROW_LIST, "The other puzzles");
        break;
    default: break;
    }
}

static page *now(fb_app *app, int width)
{
    page *before = state(app);
    if (width < 20) width = before && before->width ? before->width : 60;
    if (before) {
        FB_VEC_FREE(&before->rows);
        FB_VEC_FREE(&before->lines);
    }
    make(app, width);
    return state(app);
}

void fb_puzzle_forget(fb_app *app)
{
    page *p = state(app);
    if (!p) return;
    FB_VEC_FREE(&p->rows);
    FB_VEC_FREE(&p->lines);
}

/* ---- the view -----------------------------------------------------------------------------------------------------
 */

static void title(fb_app *app, fb_str *out)
{
    const fb_script_info *info = fb_session_script(app->session);
    fb_str_add(out, "puzzle");
    if (app->puzzle.place) fb_str_addf(out, " %d of %d", app->puzzle.place, app->puzzle.of);
    fb_str_addf(out, " · %s", info && info->title ? info->title : "");
}

static int count(fb_app *app)
{
    return now(app, 0)->rows.n;
}

static void opened(fb_app *app)
{
    app->scroll[FB_VIEW_PUZZLE] = (fb_scroll){0};
    app->puzzle.paged = false;
    if (app->columns_made) fb_puzzle_columns(app);
}

static void draw_part(const fb_rect *r, int y, const fb_why *why, fb_why_id id)
{
    enum { BAR = 16, FIGURE = 12 };
    char us[32], text[48];
    const fb_why_part *part = &why->part[id];
    int width = r->w - BAR - FIGURE;
    bool gain = part->us * why->us >= 0;
    fb_why_span span = fb_why_bar(why, id, width);
    fb_draw_run(r, y, BAR + span.from, span.n,
                id == FB_WHY_REST ? FB_ROLE_DIM
                : gain            ? FB_ROLE_GOOD
                                  : FB_ROLE_BAD,
                "█");
    snprintf(text, sizeof text, "%s%s", part->us > 0 ? "-" : "+", fb_format_us(us, fabs(part->us)));
    fb_draw_right(r, y, r->w - 1, FB_ROLE_TEXT, text);
}

/* The first line in sight. On the first row the page begins; on any other all that can be chosen is to be seen, as far
 * as the cursor's own lines stay in sight. */
static int first_line(const fb_app *app, const page *p, int h)
{
    int cursor = app->scroll[FB_VIEW_PUZZLE].cursor, first = p->lines.n, top = p->lines.n > h ? p->lines.n - h : 0;
    if (app->puzzle.paged) return app->puzzle.top < top ? app->puzzle.top : top;
    for (int i = 0; i < p->lines.n; i++)
        if (p->lines.at[i].row == cursor && i < first) first = i;
    return !cursor ? 0 : first < top ? first : top;
}

static void turn_page(fb_app *app, int step)
{
    int h = app->layout.whole.h, top = first_line(app, now(app, 0), h) + step * (h > 2 ? h - 2 : 1);
    app->puzzle.top = top > 0 ? top : 0;
    app->puzzle.paged = true;
}

static int row_at(fb_app *app, int y, int x)
{
    const page *p = now(app, 0);
    int i = first_line(app, p, app->layout.whole.h) + y;
    (void)x;
    return i < p->lines.n ? p->lines.at[i].row : -1;
}

static void draw_pair(const fb_rect *r, int y, int x, const line *l)
{
    fb_draw_cut(r, y, 0, x - 1, l->role, l->text);
    fb_draw(r, y, x, FB_ROLE_FRAME, "│");
    fb_draw_cut(r, y, x + 2, r->w - x - 2, l->role, l->right);
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    const page *p = now(app, r->w - 4);
    int cursor = app->scroll[FB_VIEW_PUZZLE].cursor, top = first_line(app, p, r->h);
    for (int y = 0; y < r->h && top + y < p->lines.n; y++) {
        const line *l = &p->lines.at[top + y];
        bool here = l->row != FB_NONE && l->row == cursor && focused;
        fb_draw_ground(here ? FB_GROUND_CURSOR : FB_GROUND_PLAIN);
        if (here) fb_draw_blank(r, y);
        if (l->right)
            draw_pair(r, y, middle(p), l);
        else
            fb_draw(r, y, 0, l->role, l->text);
        if (l->part != FB_WHY_NONE) draw_part(r, y, &app->puzzle.why, l->part);
    }
    fb_draw_ground(FB_GROUND_PLAIN);
    if (top + r->h < p->lines.n) fb_draw_right(r, r->h - 1, r->w, FB_ROLE_KEY, "↓");
}

static void explain(fb_app *app, fb_hint *hint)
{
    static const char *const text[] = {
        [ROW_TASK] = "j goes on, PgDn and PgUp turn the page, y shows the whole script",
        [ROW_CHOICE] = "Enter, or the number: this is your answer",
        [ROW_GUESS] = "Digits, or h and l: your guess of how many times as fast the second is; below 1 it is slower",
        [ROW_RUN] = "Enter: measure both, and see what was right",
        [ROW_SEE] = "Enter: what the waterfall says",
        [ROW_HINT] = "Enter shows a hint; hints are counted",
        [ROW_OURS] = "Enter: what can be had here instead",
        [ROW_WHY] = "Enter: each part of the difference with a sentence, and the kernels behind it",
        [ROW_AGAIN] = "Enter: answer anew",
        [ROW_WORKBENCH] = "Enter: graph, columns and kernels; t comes back here",
        [ROW_NEXT] = "Enter opens it",
        [ROW_SKIP] = "Enter: it is not asked again by itself; t still opens it",
        [ROW_LIST] = "Enter: the list",
    };
    const page *p = now(app, 0);
    int at = app->scroll[FB_VIEW_PUZZLE].cursor;
    fb_str_add(&hint->title, app->puzzle.stage == FB_PUZZLE_TURNED     ? "predict again"
                             : app->puzzle.stage == FB_PUZZLE_PREDICT  ? "predict first"
                             : app->puzzle.stage == FB_PUZZLE_ANSWERED ? "answered"
                                                                       : "puzzle");
    if (at < p->rows.n) fb_str_add(&hint->line[0], text[p->rows.at[at].kind]);
    fb_str_add(&hint->line[1], "Esc goes to the workbench, t comes back");
}

static void choose(fb_app *app, int choice)
{
    app->puzzle.choice = choice;
    app->puzzle.paged = false;
    const page *p = now(app, 0);
    for (int i = 0; i < p->rows.n; i++) {
        row_kind kind = p->rows.at[i].kind;
        if ((kind == ROW_GUESS && app->puzzle.guess == 0) || kind == ROW_SEE) app->scroll[FB_VIEW_PUZZLE].cursor = i;
    }
}

static void choose_number(fb_app *app, int number)
{
    fb_puzzle_stage stage = app->puzzle.stage;
    int shown[64], n = puzzle_of(app) ? choices_of(app, shown) : 0;
    if ((stage == FB_PUZZLE_PREDICT || stage == FB_PUZZLE_TURNED) && number >= 1 && number <= n)
        choose(app, shown[number - 1]);
}

/* The next one of the list, whatever was typed. */
static void change_guess(fb_app *app, int step)
{
    fb_puzzle_run *z = &app->puzzle;
    double from = z->guess, to = first_guess;
    *z->typed = '\0';
    for (int i = 0; i < GUESSES && from > 0; i++) {
        int at = step > 0 ? i : GUESSES - 1 - i;
        to = guesses[at];
        if (step > 0 ? to > from : to < from) break;
    }
    z->guess = to;
}

/* Digits and a point go into the guess, whatever they do elsewhere. */
static bool type_guess(fb_app *app, int key)
{
    char *typed = app->puzzle.typed;
    size_t n = strlen(typed);
    bool point = key == '.' || key == ',';
    if (key == FB_KEY_BACKSPACE || key == FB_KEY_DELETE) {
        if (n) typed[n - 1] = '\0';
    } else if ((key >= '0' && key <= '9') || point) {
        if (n + 1 < sizeof app->puzzle.typed && !(point && strchr(typed, '.'))) {
            typed[n] = point ? '.' : (char)key;
            typed[n + 1] = '\0';
        }
    } else {
        return false;
    }
    app->puzzle.guess = strtod(typed, NULL);
    return true;
}

static void run(fb_app *app)
{
    const fb_puzzle *z = puzzle_of(app);
    if (z->n_choices && app->puzzle.choice == FB_NONE)
        fb_app_say(app, FB_ROLE_WARN, "choose an answer first: a prediction is half of the puzzle");
    else if (app->puzzle.guess == 0)
        fb_app_say(app, FB_ROLE_WARN, "guess the speed-up first: type it on its row, or use h and l");
    else
        start(app);
}

static void see(fb_app *app)
{
    if (app->puzzle.choice == FB_NONE)
        fb_app_say(app, FB_ROLE_WARN, "choose an answer first");
    else
        conclude(app);
}

static void again(fb_app *app)
{
    app->puzzle.grade = (fb_grade){.winner = FB_WHY_NONE};
    app->puzzle.stage = FB_PUZZLE_PREDICT;
    app->puzzle.choice = FB_NONE;
    app->puzzle.guess = 0;
    *app->puzzle.typed = '\0';
    app->scroll[FB_VIEW_PUZZLE] = (fb_scroll){0};
}

static void show_waterfall(fb_app *app)
{
    int a = column_of(app, app->puzzle.spec[0]), b = column_of(app, app->puzzle.spec[1]);
    fb_why why;
    fb_error err = {0};
    if (a == FB_NONE || b == FB_NONE || !fb_session_why(app->session, a, b, &why, &err)) {
        fb_app_say(app, FB_ROLE_WARN, "why: the two have not been measured yet: predict, then run");
        return;
    }
    app->column = b;
    app->against = a;
    app->against_first = true;
    fb_model_update(app);
    fb_app_show(app, FB_VIEW_WHY);
}

static void next(fb_app *app)
{
    char *path = fb_strdup(app->puzzle.next);
    app->puzzle_wanted = fb_app_open(app, path);
    fb_free(path);
}

static void skip(fb_app *app)
{
    json_t *row = json_pack("{s:b}", "skipped", true);
    fb_puzzles_add(fb_session_path(app->session), row);
    json_decref(row);
    if (app->puzzle.next)
        next(app);
    else
        fb_app_run(app, FB_CMD_BACK, "");
}

static bool enter(fb_app *app)
{
    const page *p = now(app, 0);
    int at = app->scroll[FB_VIEW_PUZZLE].cursor;
    if (at >= p->rows.n) return true;
    const entry *r = &p->rows.at[at];
    switch (r->kind) {
    case ROW_TASK: app->scroll[FB_VIEW_PUZZLE].cursor++; break;
    case ROW_CHOICE: choose(app, r->choice); break;
    case ROW_GUESS: app->scroll[FB_VIEW_PUZZLE].cursor++; break;
    case ROW_RUN: run(app); break;
    case ROW_SEE: see(app); break;
    case ROW_HINT:
        if (app->puzzle.hints < puzzle_of(app)->n_hints) app->puzzle.hints++;
        break;
    case ROW_OURS:
        set_specs(app, offered(app));
        fb_session_drop_absent(app->session);
        if (app->puzzle.stage == FB_PUZZLE_STUCK) start(app);
        break;
    case ROW_WHY: show_waterfall(app); break;
    case ROW_AGAIN: again(app); break;
    case ROW_WORKBENCH: fb_app_run(app, FB_CMD_BACK, ""); break;
    case ROW_NEXT: next(app); break;
    case ROW_SKIP: skip(app); break;
    case ROW_LIST: fb_app_show(app, FB_VIEW_LIST); break;
    }
    return true;
}

/* Who leaves without an answer is asked again the next time. */
static void leave(fb_app *app)
{
    hold(app, false);
    if (app->puzzle.stage != FB_PUZZLE_RUNS) return;
    app->puzzle.stage = FB_PUZZLE_PREDICT;
    fb_session_cancel(app->session);
}

static bool guessing(fb_app *app)
{
    const page *p = now(app, 0);
    int at = app->scroll[FB_VIEW_PUZZLE].cursor;
    return at < p->rows.n && p->rows.at[at].kind == ROW_GUESS;
}

static bool key(fb_app *app, int pressed)
{
    return guessing(app) && type_guess(app, pressed);
}

static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    if (c == FB_CMD_DOWN || c == FB_CMD_UP || c == FB_CMD_TOP || c == FB_CMD_BOTTOM) app->puzzle.paged = false;
    switch (c) {
    case FB_CMD_PAGE_DOWN:
    case FB_CMD_PAGE_UP: turn_page(app, c == FB_CMD_PAGE_DOWN ? 1 : -1); return true;
    case FB_CMD_WHY:
        if (*arg) return false; /* another column, by its number */
        show_waterfall(app);
        return true;
    case FB_CMD_ENTER: return enter(app);
    case FB_CMD_LEFT:
    case FB_CMD_RIGHT:
        if (guessing(app)) change_guess(app, c == FB_CMD_RIGHT ? 1 : -1);
        return true;
    case FB_CMD_COLUMN: choose_number(app, atoi(arg)); return true;
    case FB_CMD_BACK:
    case FB_CMD_CLOSE:
        if (app->puzzle.stage == FB_PUZZLE_RUNS && c == FB_CMD_BACK) {
            leave(app);
            return true;
        }
        leave(app);
        fb_app_hide(app);
        return true;
    default: return false;
    }
}

static const fb_view_key keys[] = {
    {FB_CMD_ENTER, "choose", "what the row under the cursor says"},
    {FB_CMD_COLUMN, "1-9 answer", "choose an answer by its number"},
    {FB_CMD_LEFT, "", "a smaller guess, on the row of the guess"},
    {FB_CMD_RIGHT, "", "a larger guess, on the row of the guess"},
    {FB_CMD_WHY, "", "the waterfall of the two that are compared, once they are measured"},
    {FB_CMD_NONE, NULL, NULL},
};

const fb_view fb_view_puzzle = {
    .row_at = row_at,
    .title = title,
    .count = count,
    .draw = draw,
    .explain = explain,
    .command = command,
    .key = key,
    .opened = opened,
    .keys = keys,
    .about = "A question about two plans of the same computation. Read what is compared, choose an answer, "
             "guess how many times as fast the second one is, then run both.\n"
             "The answer is taken from what is measured here, so it may be another one on another device.",
};
