/* Why one column is faster than another: the difference as a waterfall, and a sentence for the part under the cursor.
 */
#include "tui/show/figure.h"
#include "tui/show/loops.h"
#include "tui/view/ui.h"

#include <math.h>
#include <string.h>

/* Made anew when the session changed or other columns are compared. */
typedef struct {
    uint64_t serial;
    int a, b;
    bool fine, given; /* given: the time that Tab has chosen, else what can be told */
    fb_time of;
    fb_why why;
    fb_error err;
    int n, n_alike;
    fb_why_id shown[FB_WHY_PARTS], alike[FB_WHY_PARTS]; /* alike: of these there is no difference to speak of */
    int line[FB_WHY_PARTS];                             /* in which each shown one was drawn */
    bool has_loops;
    fb_hash graph[2]; /* that the loops are of */
    fb_loops loops;
} state;

/* What their loops have in common, of the plans as they are; kept while the graphs stay. */
static void look_at_loops(fb_app *app, state *s, const state *old)
{
    const fb_column *a = fb_session_column(app->session, s->a), *b = fb_session_column(app->session, s->b);
    if (s->a == s->b || !a->graph || !b->graph) return;
    s->graph[0] = a->graph->hash;
    s->graph[1] = b->graph->hash;
    if (old && old->a == s->a && old->b == s->b && memcmp(old->graph, s->graph, sizeof s->graph) == 0) {
        s->has_loops = old->has_loops;
        s->loops = old->loops;
    } else {
        s->has_loops = fb_show_loops_of_columns(a, b, false, &s->loops);
    }
}

static void add_loops(const state *s, fb_str *out)
{
    if (!s->has_loops) return;
    fb_str_add(out, "loops: ");
    fb_loops_says(&s->loops, out);
}

/* The column with the lower number stands first, so that the bars fall from it to the other; a puzzle says itself which
 * stands first. */
static state *now(fb_app *app)
{
    state *s = app->state[FB_VIEW_WHY];
    bool given = s && s->given;
    fb_time of = s ? s->of : FB_TIME_WALL;
    uint64_t serial = fb_session_serial(app->session);
    int n = fb_session_columns(app->session), with = app->against < n && app->against != app->column ? app->against : 0;
    bool own_first = !app->against_first && app->column < with;
    int a = own_first ? app->column : with, b = own_first ? with : app->column;
    if (s && s->serial == serial && s->a == a && s->b == b) return s;
    const state old = s ? *s : (state){.a = FB_NONE};
    s = fb_view_state(app, FB_VIEW_WHY, sizeof *s);
    *s = (state){.serial = serial, .a = a, .b = b, .given = given, .of = of};
    look_at_loops(app, s, &old);
    s->fine = a == b  ? fb_fail(&s->err, FB_ERR_USAGE, "there is one column alone: A adds another")
              : given ? fb_session_why_time(app->session, a, b, of, &s->why, &s->err)
                      : fb_session_why(app->session, a, b, &s->why, &s->err);
    if (s->fine) s->of = s->why.of;
    for (int id = 0; s->fine && id < FB_WHY_PARTS; id++)
        if (!fb_why_matters(&s->why, (fb_why_id)id))
            continue;
        else if (fb_why_alike(&s->why, (fb_why_id)id))
            s->alike[s->n_alike++] = (fb_why_id)id;
        else
            s->shown[s->n++] = (fb_why_id)id;
    return s;
}

static int count(fb_app *app)
{
    return fb_session_columns(app->session) ? now(app)->n : 0;
}

static void opened(fb_app *app)
{
    const state *s = now(app);
    fb_why_id largest = s->fine ? fb_why_largest(&s->why) : FB_WHY_NONE;
    app->scroll[FB_VIEW_WHY] = (fb_scroll){0};
    for (int i = 0; i < s->n; i++)
        if (s->shown[i] == largest) app->scroll[FB_VIEW_WHY].cursor = i;
}

static void title(fb_app *app, fb_str *out)
{
    const state *s = fb_session_columns(app->session) ? now(app) : NULL;
    fb_str_add(out, "why");
    if (s && s->a != s->b)
        fb_str_addf(out, " · %d %s → %d %s", s->a + 1, fb_session_column(app->session, s->a)->text, s->b + 1,
                    fb_session_column(app->session, s->b)->text);
}

/* Bar, µs, share, in columns from the left; the name stands before them. */
enum { NAME = 2, BAR = 14, FIGURES = 22 };

static void draw_span(const fb_rect *r, int y, fb_why_span span, fb_role role)
{
    fb_draw_run(r, y, BAR + span.from, span.n, role, "█");
}

static void draw_wall(const fb_rect *r, int y, int width, const state *s, const fb_app *app, int which)
{
    char us[48];
    double wall = which ? s->why.b_us : s->why.a_us;
    fb_drawf(r, y, NAME, FB_ROLE_TITLE, "%d %s", (which ? s->b : s->a) + 1, fb_comparison_time_name(s->why.of));
    draw_span(r, y, fb_why_wall_bar(&s->why, which, width), FB_ROLE_TIME);
    fb_draw_right(r, y, BAR + width + FIGURES / 2, FB_ROLE_TITLE,
                  fb_figure_write(us, wall, FB_UNIT_US, s->why.from[which]));
    (void)app;
}

static void draw_part(const fb_rect *r, int y, int width, const fb_why *why, fb_why_id id)
{
    const fb_why_part *p = &why->part[id];
    char text[48];
    bool gain = p->us * why->us >= 0;
    fb_draw(r, y, NAME, id == FB_WHY_REST ? FB_ROLE_DIM : FB_ROLE_TEXT, fb_why_name(id));
    if (!p->known) {
        fb_draw(r, y, BAR, FB_ROLE_DIM, "not known");
        return;
    }
    draw_span(r, y, fb_why_bar(why, id, width), id == FB_WHY_REST ? FB_ROLE_DIM : gain ? FB_ROLE_GOOD : FB_ROLE_BAD);
    fb_draw_right(r, y, BAR + width + FIGURES / 2, p->measured || id == FB_WHY_REST ? FB_ROLE_TEXT : FB_ROLE_PREDICTED,
                  fb_figure_part(text, why, id));
    if (why->tie) return; /* of no difference there are no shares */
    snprintf(text, sizeof text, "%.0f %%", fb_why_percent(why, id));
    fb_draw_right(r, y, BAR + width + FIGURES - 2, FB_ROLE_DIM, text);
}

enum { SENTENCE = 4 };

/* Lines of a text in so many columns. */
static int lines_of(const char *text, int width)
{
    fb_str part = {0};
    int n = 0;
    while (fb_draw_text_words(&text, width, &part)) n++;
    fb_str_free(&part);
    return n;
}

static void conclude(const state *s, fb_str *out)
{
    char conclusion[240], sources[32], verdicts[160];
    fb_why_conclusion(&s->why, conclusion);
    fb_str_addf(out, "%s. %s: %s", fb_why_verdicts(&s->why, verdicts), fb_comparison_time_name(s->why.of), conclusion);
    if (*fb_why_sources(&s->why, sources)) fb_str_addf(out, " (times: %s)", sources);
}

/* "alike in both: launches, spills" */
static void alike(const state *s, fb_str *out)
{
    for (int i = 0; i < s->n_alike; i++)
        fb_str_addf(out, "%s%s", i ? ", " : "alike in both: ", fb_why_name(s->alike[i]));
}

/* Lines that all of it takes with every part's sentence below it. */
static int whole_height(const state *s, const fb_rect *r, const char *conclusion, const char *loops)
{
    int n = 2 + (s->n_alike > 0) + 1 + lines_of(conclusion, r->w - 4) + lines_of(loops, r->w - 4);
    for (int i = 0; i < s->n; i++) n += 1 + lines_of(s->why.part[s->shown[i]].text, r->w - 2 * SENTENCE);
    return n;
}

/* The part's bar, and its sentence where there is room for all sentences; the lines taken. */
static int draw_shown(fb_app *app, const fb_rect *r, int y, int width, state *s, int i, bool told, bool focused)
{
    fb_rect inner = {r->y, r->x + SENTENCE, r->h, r->w - 2 * SENTENCE};
    fb_row_ground(app, FB_VIEW_WHY, r, y, i, focused);
    draw_part(r, y, width, &s->why, s->shown[i]);
    fb_draw_ground(FB_GROUND_PLAIN);
    s->line[i] = y;
    return told ? 1 + fb_draw_wrapped(&inner, y + 1, 0, r->h - y - 1, FB_ROLE_DIM, s->why.part[s->shown[i]].text) : 1;
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    state *s = now(app);
    const fb_scroll *at = &app->scroll[FB_VIEW_WHY];
    fb_rect inner = {r->y, r->x + 2, r->h, r->w - 4};
    fb_str said = {0}, same = {0}, loops = {0};
    int width = r->w - BAR - FIGURES;
    add_loops(s, &loops);
    if (!s->fine) {
        int below = 2 + fb_draw_wrapped(&inner, 1, 0, r->h - 1, FB_ROLE_DIM, s->err.text);
        fb_draw_wrapped(&inner, below, 0, r->h - below, FB_ROLE_STRONG, fb_str_get(&loops));
        fb_str_free(&loops);
        return;
    }
    conclude(s, &said);
    alike(s, &same);
    int whole = whole_height(s, r, fb_str_get(&said), fb_str_get(&loops));
    bool told = whole <= r->h, apart = told && whole + s->n + 1 <= r->h; /* with a line between where there is room */
    draw_wall(r, 0, width, s, app, 0);
    int y = 1 + apart;
    for (int i = told ? 0 : at->top; i < s->n && (told || y < r->h - 3); i++)
        y += draw_shown(app, r, y, width, s, i, told, focused) + apart;
    if (same.n) fb_draw_cut(r, y++, NAME, r->w - NAME, FB_ROLE_DIM, fb_str_get(&same));
    draw_wall(r, y++, width, s, app, 1);
    y += 1 + fb_draw_wrapped(&inner, y + 1, 0, r->h - y - 1, FB_ROLE_STRONG, fb_str_get(&said));
    fb_draw_wrapped(&inner, y, 0, r->h - y, FB_ROLE_STRONG, fb_str_get(&loops));
    fb_str_free(&loops);
    fb_str_free(&said);
    fb_str_free(&same);
}

/* Of a sentence its part's. */
static int row_at(fb_app *app, int y, int x)
{
    const state *s = now(app);
    int row = -1;
    (void)x;
    for (int i = 0; i < s->n; i++)
        if (s->line[i] > 0 && s->line[i] <= y) row = i;
    return row;
}

static void text(fb_app *app, int row, fb_str *out)
{
    fb_str_add(out, fb_why_name(now(app)->shown[row]));
}

static void explain(fb_app *app, fb_hint *hint)
{
    const state *s = fb_session_columns(app->session) ? now(app) : NULL;
    int at = app->scroll[FB_VIEW_WHY].cursor;
    if (!s || at >= s->n) return;
    fb_str_add(&hint->title, fb_why_name(s->shown[at]));
    fb_str_add(&hint->line[0], s->why.part[s->shown[at]].text);
    fb_str_addf(&hint->line[1], "%sTab: the %s time instead",
                s->why.part[s->shown[at]].n_kernels ? "Enter goes to the kernel behind it · " : "",
                fb_comparison_time_name(s->of == FB_TIME_WALL ? FB_TIME_DEVICE : FB_TIME_WALL));
}

/* The line of the kernel list, of the column in focus, that the kernel called so stands in; FB_NONE. */
static int line_of(const fb_app *app, const char *name)
{
    const fb_model *m = &app->model;
    const fb_report *r = m->column ? m->column->report : NULL;
    char brief[sizeof((fb_why_part *)0)->kernel[0].name];
    for (int k = 0; r && k < r->n_kernels; k++) {
        if (strcmp(fb_kernel_short_name(brief, sizeof brief, r->kernels[k].name), name) != 0) continue;
        int group = r->kernels[k].group;
        for (int i = 0; i < m->kernels.n; i++) {
            const fb_kernel_line *line = &m->kernels.at[i];
            bool own = group >= 0 && group < m->letters.n_groups && line->letter == m->letters.of_group[group];
            if (own || (group < 0 && !strcmp(line->name, r->kernels[k].name))) return i;
        }
    }
    return FB_NONE;
}

/* To the kernel that contributes most, in the column that it makes slower. */
static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    (void)arg;
    if (c == FB_CMD_NEXT_PANE && fb_session_columns(app->session)) {
        state *own = now(app);
        own->given = true;
        own->of = own->of == FB_TIME_WALL ? FB_TIME_DEVICE : FB_TIME_WALL;
        own->serial = 0; /* made anew */
        return true;
    }
    if (c != FB_CMD_ENTER) return false;
    const state *s = now(app);
    int at = app->scroll[FB_VIEW_WHY].cursor;
    const fb_why_part *p = at < s->n ? &s->why.part[s->shown[at]] : NULL;
    if (!p || !p->n_kernels) {
        fb_app_say(app, FB_ROLE_WARN, "no kernel stands behind this part");
        return true;
    }
    char name[sizeof p->kernel[0].name];
    snprintf(name, sizeof name, "%s", p->kernel[0].name);
    app->column = p->kernel[0].us > 0 ? s->a : s->b;
    fb_model_update(app);
    int line = line_of(app, name);
    app->n_over = 0;
    app->zoomed = false;
    app->focus = FB_VIEW_KERNELS;
    app->scroll[FB_VIEW_KERNELS].cursor = line == FB_NONE ? 0 : line;
    return true;
}

static const fb_view_key keys[] = {
    {FB_CMD_ENTER, "kernel", "to the kernel behind the part under the cursor"},
    {FB_CMD_NEXT_PANE, "wall/device", "explain the kernels' time alone, or the whole run's"},
    {FB_CMD_NONE, NULL, NULL},
};

const fb_view fb_view_why = {
    .row_at = row_at,
    .title = title,
    .count = count,
    .draw = draw,
    .text = text,
    .explain = explain,
    .command = command,
    .opened = opened,
    .keys = keys,
    .about = "Why one column is faster or slower than another. The first bar is the first column's time, the "
             "last bar is the other's. Each bar between is one cause, and begins where the bar before ended: "
             "green takes time away, red adds some.\n"
             "The sentence below says which cause is the largest. Each part has a sentence of its own, with "
             "the figures that it was made from.",
};
