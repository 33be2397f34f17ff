/* The page of a puzzle as lines: the task, the choices, then what was found. */
#include "session/library.h"
#include "tui/show/figure.h"
#include "tui/view/puzzle.h"

#include <math.h>
#include <string.h>

static fb_puzzle_page *state(fb_app *app)
{
    return app->state[FB_VIEW_PUZZLE];
}

static void add_line(fb_app *app, fb_puzzle_page *p, const char *text, size_t n, int indent, fb_role role, int row)
{
    char *copy = fb_arena_printf(app->arena[FB_VIEW_PUZZLE], "%*s%.*s", indent, "", (int)n, text);
    FB_VEC_PUSH(&p->lines, (fb_puzzle_line){copy, NULL, role, row, FB_WHY_NONE});
}

/* Words broken over lines; what follows the first is indented as the text after its mark. */
static void add(fb_app *app, fb_puzzle_page *p, int indent, fb_role role, int row, const char *mark, const char *text)
{
    fb_str part = {0};
    int hang = indent + fb_draw_text_width(mark), first = p->lines.n;
    while (fb_draw_text_words(&text, p->width - hang, &part))
        add_line(app, p, fb_str_get(&part), part.n, hang, role, row);
    if (p->lines.n == first) add_line(app, p, "", 0, hang, role, row);
    fb_puzzle_line *l = &p->lines.at[first];
    if (*mark) l->text = fb_arena_printf(app->arena[FB_VIEW_PUZZLE], "%*s%s%s", indent, "", mark, l->text + hang);
    fb_str_free(&part);
}

static void gap(fb_app *app, fb_puzzle_page *p)
{
    add_line(app, p, "", 0, 0, FB_ROLE_TEXT, FB_NONE);
}

static int new_row(fb_puzzle_page *p, fb_puzzle_row_kind kind, int choice)
{
    FB_VEC_PUSH(&p->rows, (fb_puzzle_row){kind, choice});
    return p->rows.n - 1;
}

static void button(fb_app *app, fb_puzzle_page *p, fb_puzzle_row_kind kind, const char *text)
{
    add(app, p, 2, FB_ROLE_KEY, new_row(p, kind, 0), "", text);
}

static void add_hints(fb_app *app, fb_puzzle_page *p)
{
    const fb_puzzle *z = fb_puzzle_of(app);
    for (int i = 0; i < app->puzzle.hints && i < z->n_hints; i++) {
        char mark[32];
        snprintf(mark, sizeof mark, "hint %d: ", i + 1);
        add(app, p, 2, FB_ROLE_WARN, FB_NONE, mark, z->hints[i]);
    }
}

/* It stays where it is when there are no more: a key that goes on being pressed must not reach another row. */
static void add_hint_button(fb_app *app, fb_puzzle_page *p)
{
    bool left = app->puzzle.hints < fb_puzzle_of(app)->n_hints;
    add(app, p, 2, left ? FB_ROLE_KEY : FB_ROLE_DIM, new_row(p, FB_PUZZLE_ROW_HINT, 0), "",
        !left               ? "No more hints"
        : app->puzzle.hints ? "Another hint"
                            : "A hint");
}

static void add_choices(fb_app *app, fb_puzzle_page *p)
{
    const fb_puzzle *z = fb_puzzle_of(app);
    const fb_puzzle_run *run = &app->puzzle;
    bool graded = run->stage == FB_PUZZLE_ANSWERED && run->grade.state == FB_GRADE_KNOWN,
         open = run->stage == FB_PUZZLE_PREDICT || run->stage == FB_PUZZLE_TURNED;
    int shown[64], n = fb_puzzle_choices(app, shown);
    for (int k = 0; k < n; k++) {
        int i = shown[k];
        bool chosen = run->choice == i, right = graded && fb_puzzle_makes_right(app, i),
             wrong = graded && chosen && !right;
        fb_role role = right ? FB_ROLE_GOOD : wrong ? FB_ROLE_BAD : chosen ? FB_ROLE_STRONG : FB_ROLE_TEXT;
        char mark[24];
        snprintf(mark, sizeof mark, "%d %s ", k + 1, right ? "✓" : wrong ? "✗" : chosen ? "●" : "○");
        add(app, p, 2, role, open ? new_row(p, FB_PUZZLE_ROW_CHOICE, i) : FB_NONE, mark,
            run->grade.turned && run->stage >= FB_PUZZLE_TURNED ? fb_grade_cause((fb_why_id)z->conditions[i].part)
                                                                : z->choices[i]);
    }
}

static void add_guess(fb_app *app, fb_puzzle_page *p)
{
    const fb_puzzle_run *z = &app->puzzle;
    char text[96];
    if (*z->typed)
        snprintf(text, sizeof text, "How many times as fast? ◂ %s_ × ▸", z->typed);
    else if (z->guess == 0)
        snprintf(text, sizeof text, "How many times as fast? ◂ … ▸ (type it, or h and l)");
    else
        snprintf(text, sizeof text, "How many times as fast? ◂ %g × ▸", z->guess);
    add(app, p, 2, z->guess == 0 ? FB_ROLE_TEXT : FB_ROLE_STRONG, new_row(p, FB_PUZZLE_ROW_GUESS, 0), "", text);
}

/* Whether it was right, or why nothing is. */
static void add_grade(fb_app *app, fb_puzzle_page *p)
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
        add(app, p, 2, fb_puzzle_is_right(app) ? FB_ROLE_GOOD : FB_ROLE_BAD, FB_NONE, "",
            fb_puzzle_is_right(app) ? "Right." : "Not here.");
    else
        add(app, p, 2, FB_ROLE_WARN, FB_NONE, "",
            z->grade.state == FB_GRADE_TIE && why->verdict[why->of].what == FB_SAME
                ? "Nothing is graded: here the two are the same. Larger parameters (P) or another device may tell them "
                  "apart."
                : none[z->grade.state]);
}

/* What the waterfall says of the part that was chosen, where that was not it. */
static void add_chosen(fb_app *app, fb_puzzle_page *p)
{
    const fb_puzzle_run *z = &app->puzzle;
    const fb_why *why = &z->why;
    int id = z->choice == FB_NONE ? FB_WHY_NONE : fb_puzzle_of(app)->conditions[z->choice].part;
    if (id == FB_WHY_NONE || z->grade.state != FB_GRADE_KNOWN || fb_puzzle_is_right(app)) return;
    const fb_why_part *part = &why->part[id];
    const char *name = fb_why_name((fb_why_id)id);
    double gain = why->us < 0 ? -part->us : part->us;
    char text[400], us[48], most[48];
    if (!part->known)
        snprintf(text, sizeof text, "You chose %s: that is not known of both.", name);
    else if (fabs(part->us) < fabs(why->us) / 200)
        snprintf(text, sizeof text, "You chose %s: nothing of the difference is that.", name);
    else if (gain < 0)
        snprintf(text, sizeof text, "You chose %s: that goes the other way, by %s; it would make %s the faster one.",
                 name, fb_figure_write(us, -gain, FB_UNIT_US, why->source), z->spec[why->us > 0 ? 0 : 1]);
    else
        snprintf(text, sizeof text, "You chose %s: that is %s, %.0f %% of the difference; %s is more, %s, %.0f %%.",
                 name, fb_figure_write(us, gain, FB_UNIT_US, why->source), fb_why_percent(why, (fb_why_id)id),
                 fb_why_name(z->grade.winner),
                 fb_figure_write(most, fabs(why->part[z->grade.winner].us), FB_UNIT_US, why->source),
                 fb_why_percent(why, z->grade.winner));
    add(app, p, 2, FB_ROLE_TEXT, FB_NONE, "", text);
}

/* What was found, in the script's words, then what always holds. Of the opposite of its question it knows nothing. */
static void add_closing(fb_app *app, fb_puzzle_page *p)
{
    const fb_puzzle *z = fb_puzzle_of(app);
    bool own = !app->puzzle.grade.turned;
    add_chosen(app, p);
    for (int i = 0; own && i < z->n_choices; i++)
        if (app->puzzle.grade.state == FB_GRADE_KNOWN && fb_puzzle_makes_right(app, i) && z->conditions[i].tell)
            add(app, p, 2, FB_ROLE_TEXT, FB_NONE, "", z->conditions[i].tell);
    if (own && z->tell) add(app, p, 2, FB_ROLE_TEXT, FB_NONE, "", z->tell);
}

static void add_waterfall(fb_app *app, fb_puzzle_page *p)
{
    const fb_why *why = &app->puzzle.why;
    fb_str alike = {0};
    for (int id = 0; id < FB_WHY_PARTS; id++) {
        if (!fb_why_matters(why, (fb_why_id)id) || !why->part[id].known) continue;
        if (fb_why_alike(why, (fb_why_id)id)) {
            fb_str_addf(&alike, "%s %s", alike.n ? "," : "alike in both:", fb_why_name((fb_why_id)id));
            continue;
        }
        add(app, p, 4, FB_ROLE_TEXT, FB_NONE, "", fb_why_name((fb_why_id)id));
        p->lines.at[p->lines.n - 1].part = (fb_why_id)id;
    }
    if (alike.n) add(app, p, 4, FB_ROLE_DIM, FB_NONE, "", fb_str_get(&alike));
    fb_str_free(&alike);
}

/* "11.00 times as fast", "1.25× slower" */
static const char *say_times(double times, char to[32])
{
    if (times < 1) return fb_ratio_say(times, to);
    snprintf(to, 32, "%.2f times as fast", times);
    return to;
}

static void add_times(fb_app *app, fb_puzzle_page *p)
{
    const fb_why *why = &app->puzzle.why;
    double times = why->a_us / why->b_us, guess = app->puzzle.guess, off = fmax(times / guess, guess / times);
    char text[400], a[48], b[48], ratio[32], verdicts[160];
    add(app, p, 2, FB_ROLE_TEXT, FB_NONE, "", fb_why_verdicts(why, verdicts));
    snprintf(text, sizeof text, "%s: %s → %s: %s; you guessed %g, which is %s",
             why->of == FB_TIME_WALL ? "wall time" : "the kernels alone",
             fb_figure_write(a, why->a_us, FB_UNIT_US, why->from[0]),
             fb_figure_write(b, why->b_us, FB_UNIT_US, why->from[1]), say_times(times, ratio), guess,
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
    if (!z->grade.turned || z->stage < FB_PUZZLE_TURNED) return fb_puzzle_of(app)->ask;
    return fb_arena_printf(app->arena[FB_VIEW_PUZZLE], "Here it is the other way round: beside %s, %s is %s. Why?",
                           z->spec[0], z->spec[1], say_times(why->a_us / why->b_us, ratio));
}

/* What stands in for a device that is not there. */
static void add_stand_in(fb_app *app, fb_puzzle_page *p)
{
    char text[300];
    for (int i = 0; i < 2; i++) {
        int at = fb_puzzle_column(app, app->puzzle.spec[i]);
        const char *device = at == FB_NONE ? NULL : fb_session_column(app->session, at)->device;
        const char *asked = strrchr(app->puzzle.spec[i], '@');
        if (!device || !asked || !strchr(device, ':') || !strcmp(device, asked + 1)) continue;
        snprintf(text, sizeof text, "%s is not here: what was recorded as %s stands in", asked + 1, device);
        add(app, p, 2, FB_ROLE_DIM, FB_NONE, "", text);
        break;
    }
}

static void add_compared(fb_app *app, fb_puzzle_page *p)
{
    char text[300];
    snprintf(text, sizeof text, "compared: %s → %s", app->puzzle.spec[0], app->puzzle.spec[1]);
    add(app, p, 2, FB_ROLE_DIM, FB_NONE, "", text);
    add_stand_in(app, p);
}

static void add_program(fb_app *app, fb_puzzle_page *p, const char *text)
{
    fb_str part = {0};
    int in = 0;
    while (text) {
        text = fb_puzzle_wrap_code(text, p->width - 4, &in, &part);
        add_line(app, p, fb_str_get(&part), part.n, 4, FB_ROLE_TEXT, FB_NONE);
    }
    fb_str_free(&part);
}

int fb_puzzle_page_middle(const fb_puzzle_page *p)
{
    return (p->width + 4) / 2;
}

static void add_pair(fb_app *app, fb_puzzle_page *p, fb_role role, const char *left, const char *right)
{
    add_line(app, p, left, strlen(left), 2, role, FB_NONE);
    p->lines.at[p->lines.n - 1].right = fb_arena_strdup(app->arena[FB_VIEW_PUZZLE], right);
}

static void add_sides(fb_app *app, fb_puzzle_page *p, const char *left, const char *right)
{
    const char *rest[2] = {left && *left ? left : NULL, right && *right ? right : NULL};
    int in[2] = {0, 0};
    fb_str part[2] = {{0}, {0}};
    while (rest[0] || rest[1]) {
        for (int i = 0; i < 2; i++) {
            fb_str_clear(&part[i]);
            if (rest[i]) rest[i] = fb_puzzle_wrap_code(rest[i], fb_puzzle_page_middle(p) - 3, &in[i], &part[i]);
        }
        add_pair(app, p, FB_ROLE_TEXT, fb_str_get(&part[0]), fb_str_get(&part[1]));
    }
    for (int i = 0; i < 2; i++) fb_str_free(&part[i]);
}

/* What it is about, and what is compared: the program that both have, then what differs, side by side. */
static void add_task(fb_app *app, fb_puzzle_page *p)
{
    const fb_puzzle *z = fb_puzzle_of(app);
    const fb_puzzle_code *code = &app->puzzle.code;
    fb_str kernels[2] = {{0}, {0}};
    add(app, p, 2, FB_ROLE_DIM, new_row(p, FB_PUZZLE_ROW_TASK, 0), "", "What is compared");
    if (z->about) add(app, p, 2, FB_ROLE_TEXT, FB_NONE, "", z->about);
    gap(app, p);
    if (code->both) {
        add_program(app, p, code->both);
        gap(app, p);
    }
    add_pair(app, p, FB_ROLE_TITLE, app->puzzle.spec[0], app->puzzle.spec[1]);
    add_sides(app, p, code->side[0], code->side[1]);
    for (int i = 0; i < 2; i++) {
        int at = fb_puzzle_column(app, app->puzzle.spec[i]);
        if (at != FB_NONE) fb_puzzle_kernels(fb_session_column(app->session, at), &kernels[i]);
    }
    add_sides(app, p, fb_str_get(&kernels[0]), fb_str_get(&kernels[1]));
    for (int i = 0; i < 2; i++) fb_str_free(&kernels[i]);
    gap(app, p);
    add(app, p, 2, FB_ROLE_STRONG, FB_NONE, "", z->ask);
    add_stand_in(app, p);
}

static void add_stand_in_button(fb_app *app, fb_puzzle_page *p)
{
    fb_puzzle_stand_in how = fb_puzzle_offered(app);
    if (how == FB_PUZZLE_OUR_OWN) button(app, p, FB_PUZZLE_ROW_OURS, "Compare the same with our own eager plans");
    if (how == FB_PUZZLE_RECORDED)
        button(
            app, p, FB_PUZZLE_ROW_OURS,
            fb_arena_printf(app->arena[FB_VIEW_PUZZLE], "Compare what was recorded as %s", fb_puzzle_recording(app)));
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
static void add_next(fb_app *app, fb_puzzle_page *p, bool skipping)
{
    char text[300];
    if (app->lesson.info) return;
    if (app->puzzle.next) {
        snprintf(text, sizeof text, "%s puzzle, %d of %d: %s", skipping ? "Skip to the next" : "The next",
                 app->puzzle.place + 1, app->puzzle.of, next_title(app));
        button(app, p, skipping ? FB_PUZZLE_ROW_SKIP : FB_PUZZLE_ROW_NEXT, text);
    } else if (skipping) {
        button(app, p, FB_PUZZLE_ROW_SKIP, "Skip this puzzle");
    }
}

static void add_back(fb_app *app, fb_puzzle_page *p)
{
    button(app, p, FB_PUZZLE_ROW_WORKBENCH, app->lesson.info ? "Back to the lesson" : "To the workbench");
}

static void make_prediction(fb_app *app, fb_puzzle_page *p)
{
    const fb_puzzle *z = fb_puzzle_of(app);
    add_task(app, p);
    add_choices(app, p);
    add_guess(app, p);
    add_hints(app, p);
    if (fb_puzzle_offered(app) != FB_PUZZLE_AS_ASKED)
        add(app, p, 2, FB_ROLE_WARN, FB_NONE, "", fb_puzzle_absent(app)->error.text);
    button(app, p, FB_PUZZLE_ROW_RUN, "Run and see");
    if (z->n_hints) add_hint_button(app, p);
    add_stand_in_button(app, p);
    add_next(app, p, true);
}

static void make(fb_app *app, int width)
{
    const fb_puzzle *z = fb_puzzle_of(app);
    fb_puzzle_page *p = fb_view_state(app, FB_VIEW_PUZZLE, sizeof *p);
    p->width = width;
    if (!z || !app->puzzle.spec[0]) return;
    if (app->puzzle.stage == FB_PUZZLE_PREDICT) {
        make_prediction(app, p);
        return;
    }
    add(app, p, 2, FB_ROLE_STRONG, new_row(p, FB_PUZZLE_ROW_TASK, 0), "", question(app));
    add_compared(app, p);
    gap(app, p);
    add_choices(app, p);
    gap(app, p);
    switch (app->puzzle.stage) {
    case FB_PUZZLE_RUNS: add(app, p, 2, FB_ROLE_DIM, FB_NONE, "", "Measuring; Esc stops it."); break;
    case FB_PUZZLE_TURNED: button(app, p, FB_PUZZLE_ROW_SEE, "See"); break;
    case FB_PUZZLE_STUCK:
        add(app, p, 2, FB_ROLE_BAD, FB_NONE, "", app->puzzle.error.text);
        add_stand_in_button(app, p);
        button(app, p, FB_PUZZLE_ROW_AGAIN, "Predict again");
        add_back(app, p);
        add_next(app, p, false);
        break;
    case FB_PUZZLE_ANSWERED:
        add_grade(app, p);
        add_times(app, p);
        add_waterfall(app, p);
        gap(app, p);
        add_closing(app, p);
        gap(app, p);
        button(app, p, FB_PUZZLE_ROW_WHY, "The waterfall, part by part");
        add_next(app, p, false);
        add_back(app, p);
        button(app, p, FB_PUZZLE_ROW_AGAIN, "Predict again");
        if (!app->lesson.info) button(app, p, FB_PUZZLE_ROW_LIST, "The other puzzles");
        break;
    default: break;
    }
}

fb_puzzle_page *fb_puzzle_page_now(fb_app *app, int width)
{
    fb_puzzle_page *before = state(app);
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
    fb_puzzle_page *p = state(app);
    if (!p) return;
    FB_VEC_FREE(&p->rows);
    FB_VEC_FREE(&p->lines);
}
