/* What am I looking at? The view that it was called from in plain words, what is on the screen just now, and a
 * glossary. */
#include "tui/view/ui.h"

#include <string.h>

typedef struct {
    const char *text;
    fb_role role;
} line;

typedef struct {
    fb_view_id of;
    int width;
    FB_VEC(line) lines;
} page;

static const struct {
    const char *word, *meaning;
} words[] = {
#define WORD(word, meaning) {word, meaning},
#include "tui/view/words.def"
#undef WORD
};
enum { WORDS = sizeof words / sizeof *words, MEANING = 15 };

/* ---- the page ---- */

static void add_line(fb_app *app, page *p, int indent, fb_role role, const char *text, size_t n)
{
    const char *copy = fb_arena_printf(app->arena[FB_VIEW_ABOUT], "%*s%.*s", indent, "", (int)n, text);
    FB_VEC_PUSH(&p->lines, (line){copy, role});
}

/* Words broken over lines; `mark` stands before the first. */
static void add(fb_app *app, page *p, int indent, fb_role role, const char *mark, const char *text)
{
    fb_str part = {0};
    int first = p->lines.n, pad = indent - 2 - fb_draw_text_width(mark);
    while (fb_draw_text_words(&text, p->width - indent, &part))
        add_line(app, p, indent, role, fb_str_get(&part), part.n);
    fb_str_free(&part);
    if (!*mark || p->lines.n == first) return;
    line *l = &p->lines.at[first];
    l->text = fb_arena_printf(app->arena[FB_VIEW_ABOUT], "  %s%*s%s", mark, pad > 1 ? pad : 1, "", l->text + indent);
}

static void add_heading(fb_app *app, page *p, const char *text)
{
    if (p->lines.n) add_line(app, p, 0, FB_ROLE_TEXT, "", 0);
    add_line(app, p, 1, FB_ROLE_FOCUS, text, strlen(text));
}

static void add_paragraphs(fb_app *app, page *p, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        char *one = fb_arena_printf(app->arena[FB_VIEW_ABOUT], "%.*s", (int)n, text);
        add(app, p, 2, FB_ROLE_TEXT, "", one);
        text += n + (text[n] == '\n');
    }
}

/* The column under the cursor, as it is just now. */
static void add_facts(fb_app *app, page *p)
{
    const fb_column *c = app->model.column;
    int n = fb_session_columns(app->session);
    fb_str text = {0};
    if (!c) return;
    add_heading(app, p, "Just now");
    fb_str_addf(&text, "There %s %d column%s. The cursor is on column %d: plan %s", n == 1 ? "is" : "are", n,
                n == 1 ? "" : "s", app->column + 1, c->plan_name);
    if (*c->variant) fb_str_addf(&text, " of the variant %s", c->variant);
    const char *on = c->machine && *c->machine->name ? c->machine->name : c->device;
    fb_str_addf(&text, *on ? ", on %s." : ".", on); /* nobody has said yet on which */
    if (c->graph && c->plan) {
        int computed = 0, groups = fb_plan_groups(c->plan);
        for (int i = 0; i < c->graph->n_nodes; i++) computed += fb_node_is_computed(c->graph, i);
        fb_str_addf(&text, " Its %d operation%s run in %d kernel%s.", computed, computed == 1 ? "" : "s", groups,
                    groups == 1 ? "" : "s");
    }
    if (c->report && c->report->wall_us.n)
        fb_str_addf(&text, " Its figures are %s.", fb_report_source_name(c->report->source));
    else if (c->state == FB_COLUMN_FAILED)
        fb_str_addf(&text, " It failed: %s", c->error.text);
    else
        fb_str_add(&text, " It has not been measured yet.");
    add(app, p, 2, FB_ROLE_TEXT, "", fb_str_get(&text));
    fb_str_free(&text);
}

static void add_workbench(fb_app *app, page *p)
{
    static const fb_view_id panes[] = {FB_VIEW_GRAPH, FB_VIEW_COLUMNS, FB_VIEW_KERNELS};
    static const char *const headings[] = {"Left: the graph", "Upper right: the columns", "Lower right: the kernels"};
    add(app, p, 2, FB_ROLE_TEXT, "",
        "The workbench has three panes; Tab goes from one to the next, and the one with the thick frame has the keys. "
        "You change the graph at the left, and see at the right what it costs.");
    for (int i = 0; i < 3; i++) {
        add_heading(app, p, headings[i]);
        add_paragraphs(app, p, fb_view_at(panes[i])->about);
    }
}

static void make(fb_app *app, page *p)
{
    const fb_view *view = fb_view_at(p->of);
    fb_str title = {0};
    p->lines.n = 0;
    add_facts(app, p);
    if ((int)p->of < FB_PANES) {
        add_heading(app, p, "The workbench");
        add_workbench(app, p);
    } else {
        view->title(app, &title);
        add_heading(app, p, fb_str_get(&title));
        add_paragraphs(app, p, view->about ? view->about : "");
    }
    add_heading(app, p, "Words");
    for (int i = 0; i < WORDS; i++) add(app, p, MEANING, FB_ROLE_TEXT, words[i].word, words[i].meaning);
    fb_str_free(&title);
}

/* ---- the view ---- */

static page *state(fb_app *app)
{
    return app->state[FB_VIEW_ABOUT];
}

static void drop_lines(void *p)
{
    FB_VEC_FREE(&((page *)p)->lines);
}

static void begin(fb_app *app, fb_view_id of, int width)
{
    page *p = fb_view_state(app, FB_VIEW_ABOUT, sizeof *p);
    *p = (page){.of = of, .width = width};
    fb_arena_defer(app->arena[FB_VIEW_ABOUT], drop_lines, p);
    make(app, p);
}

static void opened(fb_app *app)
{
    int below = app->n_over - 2;
    while (below >= 0 && app->over[below] == FB_VIEW_HELP) below--; /* asked there, it is about what lies below */
    fb_view_id of = below >= 0 ? app->over[below] : app->focus;
    app->scroll[FB_VIEW_ABOUT] = (fb_scroll){0};
    begin(app, of, app->layout.header.w > 8 ? app->layout.header.w - 4 : 76);
}

static void title(fb_app *app, fb_str *out)
{
    (void)app;
    fb_str_add(out, "what am I looking at?");
}

static int count(fb_app *app)
{
    return state(app) ? state(app)->lines.n : 0;
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    page *p = state(app);
    if (p->width != r->w - 2) begin(app, p->of, r->w - 2);
    p = state(app);
    for (int y = 0, row; y < r->h && (row = fb_shown_row(app, FB_VIEW_ABOUT, y, p->lines.n)) != FB_NONE; y++) {
        fb_row_ground(app, FB_VIEW_ABOUT, r, y, row, focused);
        fb_draw(r, y, 0, p->lines.at[row].role, p->lines.at[row].text);
    }
    fb_draw_ground(FB_GROUND_PLAIN);
    if (app->scroll[FB_VIEW_ABOUT].top + r->h < p->lines.n) fb_draw_right(r, r->h - 1, r->w, FB_ROLE_KEY, "↓");
}

static void text(fb_app *app, int row, fb_str *out)
{
    fb_str_add(out, state(app)->lines.at[row].text);
}

static void explain(fb_app *app, fb_hint *hint)
{
    (void)app;
    fb_str_add(&hint->title, "about");
    fb_str_add(&hint->line[0], "PgDn goes on · / finds a word · ? shows the keys · Esc goes back to where you were");
}

const fb_view fb_view_about = {
    .title = title,
    .count = count,
    .draw = draw,
    .text = text,
    .explain = explain,
    .opened = opened,
};
