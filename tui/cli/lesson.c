/* fusebox lesson: what a lesson holds, on paper and put to the test. A page's columns are measured as the workbench
 * would measure them: the page's script afresh, with the page's columns and parameters. */
#include "tui/cli/cli.h"

#include "base/json.h"
#include "base/mem.h"
#include "session/library.h"
#include "tui/show/markup.h"
#include "tui/show/output.h"
#include "tui/show/report.h"
#include "tui/view/keys.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

typedef struct {
    fb_cli cli;
    fb_format format;
    bool html, printable, notes, check;
    fb_session *session;
    fb_script_info *info;
    char *path;
    int misses, status;
} lesson;

enum { KEY_FORMAT = 256, KEY_PRINTABLE, KEY_NOTES, KEY_CHECK };

static const struct argp_option options[] = {
    {"format", KEY_FORMAT, "FORMAT", 0, "The contents as table (default), csv or markdown; html: the hand-out", 0},
    {"printable", KEY_PRINTABLE, NULL, 0,
     "A sheet of questions as HTML: the texts and puzzles, nothing that answers them", 0},
    {"notes", KEY_NOTES, NULL, 0, "With --format html: the presenter's notes as well", 0},
    {"check", KEY_CHECK, NULL, 0, "Play it through, page by page: exit 1 where anything is missing", 0},
    {0},
};

static int own_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    lesson *l = ctx;
    switch (key) {
    case KEY_PRINTABLE: l->printable = true; return 0;
    case KEY_NOTES: l->notes = true; return 0;
    case KEY_CHECK: l->check = true; return 0;
    case KEY_FORMAT:
        l->html = !strcmp(arg, "html");
        if (!l->html && (!fb_table_parse_format(arg, &l->format) || l->format == FB_FORMAT_JSON))
            fb_cli_usage("%s: no format \"%s\"; there are: table, csv, markdown, html", state->name, arg);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- a page's columns ---- */

typedef struct {
    int number;
    const fb_lesson_page *is;
    fb_output output;
    json_t *kept;
    const fb_script_info *script; /* of the session, until the next page; NULL: none */
} page;

/* What is missing of a page, in one line. */
__attribute__((format(printf, 3, 4))) static void miss(lesson *l, const page *p, const char *format, ...)
{
    fb_str text = {0};
    va_list ap;
    va_start(ap, format);
    fb_str_vaddf(&text, format, ap);
    va_end(ap);
    fb_cli_say("%s:%d: page %d, %s: %s", fb_file_name(l->path), p->is->line, p->number, p->is->title,
               fb_str_get(&text));
    fb_str_free(&text);
    l->misses++;
}

/* The page's script has said what it holds; false, and said, where it cannot be had. */
static bool open_script(lesson *l, page *p)
{
    fb_arena *arena = fb_arena_new();
    fb_error err = {0};
    fb_session *s = l->session;
    const char *path = fb_session_lesson_script(l->path, p->is->script, arena, &err);
    bool open = path && fb_session_open(s, path, &err);
    fb_arena_free(arena);
    if (open && p->is->params) fb_session_give(s, p->is->params);
    while (open && !fb_session_script(s) && !fb_session_script_error(s)->kind) fb_session_wait(s, -1);
    if (open) err = *fb_session_script_error(s);
    p->script = open ? fb_session_script(s) : NULL;
    if (p->script && p->script->lesson) fb_fail(&err, FB_ERR_INPUT, "%s is a lesson, not a script", p->is->script);
    if (!err.kind && p->is->puzzle && !p->script->puzzle)
        fb_fail(&err, FB_ERR_INPUT, "%s asks no puzzle", p->is->script);
    if (err.kind) miss(l, p, "%s", err.text);
    return !err.kind;
}

/* As the workbench chooses them; those that only a script suggests may be of a device that is not here. */
static void add_columns(lesson *l, page *p)
{
    const fb_script_info *info = p->script;
    bool own = p->is->n_columns, asks = p->is->puzzle;
    int n = own ? p->is->n_columns : 2;
    const char *const *specs = own ? p->is->columns : asks ? info->puzzle->compare : fb_script_columns(info, &n);
    for (int i = 0; i < n; i++) {
        fb_error err = {0};
        if (fb_session_add(l->session, specs[i], &err) >= 0) continue;
        if (own || asks || err.kind != FB_ERR_UNAVAILABLE) miss(l, p, "%s: %s", specs[i], err.text);
    }
}

static void take_column(lesson *l, page *p, int i)
{
    const fb_column *c = fb_session_column(l->session, i);
    fb_report *report = fb_session_report(l->session, i);
    json_t *row = fb_report_to_json(report);
    const char *failed = fb_json_string_or(row, "failed", NULL);
    bool suggested = !p->is->n_columns && !p->is->puzzle && c->error.kind == FB_ERR_UNAVAILABLE;
    if (failed && !suggested) miss(l, p, "%s: %s", c->text, failed);
    if (!failed && l->check && report->source == FB_SOURCE_PREDICTED)
        miss(l, p, "%s: no figure but a prediction", c->text);
    if (!failed) {
        fb_output_device(&p->output, l->session, c->device);
        json_array_append(p->output.rows, row);
        fb_kept_column(p->kept, c);
    }
    json_decref(row);
    fb_report_free(report);
}

/* The columns that are there are those of the rows, in their order. */
static void ask_puzzle(lesson *l, page *p, const int *columns, int n)
{
    fb_error err = {0};
    fb_why why;
    if (!fb_kept_puzzle_why(l->session, p->output.rows, columns, n, &why)) {
        miss(l, p, "the puzzle's two columns cannot be compared");
        return;
    }
    if (!fb_session_ask(l->session, &why, &err)) {
        miss(l, p, "%s", err.text);
        return;
    }
    while (fb_session_answer(l->session)->state == FB_ANSWER_ASKED) fb_session_wait(l->session, -1);
    fb_kept_answer(p->kept, l->session);
    const fb_answer *answer = fb_session_answer(l->session);
    if (answer->state == FB_ANSWER_FAILED) miss(l, p, "%s", answer->error.text);
    if (answer->state == FB_ANSWER_KNOWN && answer->grade.state != FB_GRADE_KNOWN)
        miss(l, p, "the puzzle cannot be told on this device");
}

static void measure(lesson *l, page *p)
{
    fb_session *s = l->session;
    add_columns(l, p);
    fb_cli_wait(s); /* their plans */
    int n = fb_session_columns(s), wanted = 0, shown = 0;
    int *columns = fb_calloc((size_t)n + 1, sizeof *columns);
    for (int i = 0; i < n; i++)
        if (fb_session_column(s, i)->state != FB_COLUMN_FAILED) columns[wanted++] = i;
    fb_session_measure(s, columns, wanted);
    fb_cli_wait(s);
    for (int i = 0; i < n; i++) {
        size_t before = json_array_size(p->output.rows);
        take_column(l, p, i);
        if (json_array_size(p->output.rows) > before) columns[shown++] = i;
    }
    if (!shown) miss(l, p, "there is no column");
    fb_kept_whys(p->kept, s, p->output.rows, columns, shown);
    if (p->is->puzzle) ask_puzzle(l, p, columns, shown);
    fb_free(columns);
}

static void check_keys(lesson *l, page *p)
{
    fb_error err = {0};
    if (!p->is->keys) return;
    fb_keys *k = fb_keys_parse(p->is->keys, "keys", &err);
    if (!k) miss(l, p, "%s", err.text);
    fb_keys_free(k);
}

/* All that a page shows; `columns`: measured, too. Freed with end_page. */
static page begin_page(lesson *l, int i, bool columns)
{
    page p = {.number = i + 1, .is = &l->info->lesson->pages[i], .kept = fb_kept_new()};
    fb_output_init(&p.output, p.is->script ? p.is->script : l->path);
    check_keys(l, &p);
    if (p.is->script && open_script(l, &p)) {
        if (columns) measure(l, &p);
    } else {
        p.script = NULL;
    }
    return p;
}

static void end_page(page *p)
{
    fb_output_free(&p->output);
    json_decref(p->kept);
}

/* ---- as HTML ---- */

static void put_runs(fb_html *h, const char *text)
{
    fb_run run;
    while (fb_markup_run(&text, &run)) {
        char *copy = fb_calloc(run.n + 1, 1);
        memcpy(copy, run.text, run.n);
        if (run.kind == FB_RUN_TEXT)
            fb_html_text(h, copy);
        else
            fb_html_leaf(h, run.kind == FB_RUN_STRONG ? "b" : "code", NULL, copy);
        fb_free(copy);
    }
}

static void put_text(fb_html *h, const char *text)
{
    fb_arena *arena = fb_arena_new();
    const fb_block *blocks;
    int n = text ? fb_markup_blocks(arena, text, &blocks) : 0;
    for (int i = 0; i < n; i++) {
        static const char *const elements[] = {
            [FB_BLOCK_PARAGRAPH] = "p", [FB_BLOCK_HEADING] = "h3", [FB_BLOCK_ITEM] = "li"};
        bool item = blocks[i].kind == FB_BLOCK_ITEM;
        if (blocks[i].kind == FB_BLOCK_CODE) {
            fb_html_leaf(h, "pre", NULL, blocks[i].text);
            continue;
        }
        if (item && (!i || blocks[i - 1].kind != FB_BLOCK_ITEM)) fb_html_open(h, "ul", NULL);
        fb_html_open(h, elements[blocks[i].kind], NULL);
        put_runs(h, blocks[i].text);
        fb_html_close(h, elements[blocks[i].kind]);
        if (item && (i + 1 == n || blocks[i + 1].kind != FB_BLOCK_ITEM)) fb_html_close(h, "ul");
    }
    fb_arena_free(arena);
}

static void put_folded(fb_html *h, const char *summary, const char *text)
{
    if (!text) return;
    fb_html_open(h, "details", NULL);
    fb_html_leaf(h, "summary", NULL, summary);
    put_text(h, text);
    fb_html_close(h, "details");
}

static void put_columns(fb_html *h, const page *p)
{
    if (!json_array_size(p->output.rows)) return;
    fb_html_open(h, "p", "class", "dim", NULL);
    fb_html_textf(h, "fusebox %s", p->is->script);
    const char *name;
    json_t *value;
    json_object_foreach(p->is->params, name, value)
    {
        char *text = json_dumps(value, JSON_ENCODE_ANY);
        fb_html_textf(h, " --set %s=%s", name, json_is_string(value) ? json_string_value(value) : text ? text : "");
        fb_free(text);
    }
    fb_html_close(h, "p");
    fb_html_open(h, "div", "class", "wide", NULL);
    fb_output_html(&p->output, h);
    fb_html_close(h, "div");
}

static void put_page(lesson *l, fb_html *h, const page *p)
{
    char id[32];
    snprintf(id, sizeof id, "page-%d", p->number);
    fb_html_open(h, "section", "id", id, NULL);
    fb_html_open(h, "h2", NULL);
    fb_html_textf(h, "%d  %s", p->number, p->is->title);
    fb_html_close(h, "h2");
    put_text(h, p->is->text);
    if (p->is->puzzle && p->script) fb_page_puzzle(h, &p->output, p->kept, p->script->puzzle, !l->printable);
    if (!l->printable) {
        if (!p->is->puzzle) put_columns(h, p);
        put_folded(h, "answer", p->is->answer);
        if (l->notes) put_folded(h, "notes", p->is->notes);
    } else if (p->is->answer && !p->is->puzzle) {
        fb_html_leaf(h, "p", "lines", "");
    }
    fb_html_close(h, "section");
}

static void put_contents(fb_html *h, const fb_lesson *all)
{
    fb_html_open(h, "ol", "class", "contents", NULL);
    for (int i = 0; i < all->n_pages; i++) {
        char to[32];
        snprintf(to, sizeof to, "#page-%d", i + 1);
        fb_html_open(h, "li", NULL);
        fb_html_open(h, "a", "href", to, NULL);
        fb_html_text(h, all->pages[i].title);
        fb_html_close(h, "a");
        fb_html_close(h, "li");
    }
    fb_html_close(h, "ol");
}

static void print_html(lesson *l)
{
    const fb_lesson *all = l->info->lesson;
    fb_html h = {0};
    json_t *rows = json_array(); /* of all pages: which kinds of figures there are */
    json_t *devices = json_object();
    fb_page_open(&h, l->info->title);
    fb_html_open(&h, "header", NULL);
    fb_html_leaf(&h, "h1", NULL, l->info->title);
    put_text(&h, all->about);
    fb_html_close(&h, "header");
    if (!l->printable) put_contents(&h, all);
    for (int i = 0; i < all->n_pages; i++) {
        page p = begin_page(l, i, !l->printable);
        put_page(l, &h, &p);
        json_array_extend(rows, p.output.rows);
        json_object_update(devices, p.output.devices); /* as they were last: a calibration may be in doubt by then */
        end_page(&p);
    }
    if (json_array_size(rows)) {
        fb_html_open(&h, "section", "id", "kinds", NULL);
        fb_html_leaf(&h, "h2", NULL, "What the figures are");
        fb_page_kinds(&h, rows);
        fb_page_devices(&h, devices);
        fb_html_close(&h, "section");
    }
    fb_page_close(&h, stdout);
    json_decref(devices);
    json_decref(rows);
}

/* ---- as a table, and put to the test ---- */

static void print_contents(const lesson *l)
{
    const fb_lesson *all = l->info->lesson;
    fb_table *t = fb_table_new();
    fb_table_column(t, "page", "", false);
    fb_table_column(t, "minutes", "", false);
    fb_table_column(t, "title", "", true);
    fb_table_column(t, "script", "", true);
    fb_table_column(t, "kind", "", true);
    for (int i = 0; i < all->n_pages; i++) {
        const fb_lesson_page *p = &all->pages[i];
        char number[16], minutes[32] = "";
        snprintf(number, sizeof number, "%d", i + 1);
        if (isfinite(p->minutes)) snprintf(minutes, sizeof minutes, "%g", p->minutes);
        fb_table_row(t);
        fb_table_cell(t, number);
        fb_table_cell(t, minutes);
        fb_table_cell(t, p->title);
        fb_table_cell(t, p->script ? p->script : "");
        fb_table_cell(t, p->puzzle ? "puzzle" : p->script ? "columns" : "text");
    }
    fb_table_print(t, l->format, stdout);
    fb_table_free(t);
}

static void play_through(lesson *l)
{
    for (int i = 0; i < l->info->lesson->n_pages; i++) {
        int before = l->misses;
        page p = begin_page(l, i, true);
        printf("%3d  %-8s  %s\n", p.number, l->misses > before ? "missed" : "fine", p.is->title);
        fflush(stdout);
        end_page(&p);
    }
}

static int lesson_main(const fb_command *me, int argc, char **argv)
{
    lesson l = {.cli = {.least = 1, .most = 1, .own = own_key, .ctx = &l, .lesson = true}};
    fb_cli_parse(&l.cli, me, options, argc, argv);
    if (l.notes && (!l.html || l.printable)) fb_cli_usage("%s: --notes is for --format html", argv[0]);
    if (l.check && (l.html || l.printable)) fb_cli_usage("%s: --check prints no page", argv[0]);
    if (l.cli.common.set) fb_cli_usage("%s: --set: a lesson's pages have their own parameters", argv[0]);
    l.session = fb_cli_open(&l.cli, l.cli.args[0], &l.status);
    if (l.session) {
        l.path = fb_strdup(fb_session_path(l.session));
        l.info = fb_session_take_lesson(l.session);
        if (l.check)
            play_through(&l);
        else if (l.html || l.printable)
            print_html(&l);
        else
            print_contents(&l);
        if (l.misses) l.status = FB_EXIT_WRONG;
    }
    fb_script_info_free(l.info);
    fb_free(l.path);
    fb_session_free(l.session);
    fb_cli_free(&l.cli);
    return l.status;
}

const fb_command fb_command_lesson = {.name = "lesson",
                                      .args = "LESSON",
                                      .summary =
                                          "A lesson: its pages, as a hand-out or a sheet of questions, or played "
                                          "through",
                                      .run = lesson_main};
