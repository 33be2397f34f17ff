/* The page. Needs rows (tui/show/output.h) and what was kept of their columns; leaves one document on a stream. What
 * hides or explains is folded with <details>, so that nothing has to run. */
#include "tui/show/report.h"

#include "base/arena.h"
#include "base/embedded.h"
#include "base/json.h"
#include "base/mem.h"
#include "tui/show/code.h"
#include "tui/show/figure.h"
#include "tui/show/textdiff.h"

#include <string.h>

/* No page of another origin is ever asked for anything, whatever stands in this one. */
static const char policy[] = "default-src 'none'; style-src 'unsafe-inline'";

static void paragraph(fb_html *h, const char *class, const char *text)
{
    fb_html_leaf(h, "p", class, text);
}

/* What a page of paper holds, made smaller where need be, is not cut in two. */
void fb_page_picture(fb_html *h, fb_picture p, const char *label)
{
    enum { PAGE = 1500 };
    fb_html_open(h, "div", "class", p.h <= PAGE ? "wide whole" : "wide", NULL);
    fb_picture_inline(&p, label, &h->out);
    fb_html_close(h, "div");
}

static void open_section(fb_html *h, const char *id, const char *title)
{
    fb_html_open(h, "section", "id", id, NULL);
    fb_html_leaf(h, "h2", NULL, title);
}

/* ---- its head ---- */

static const char *help_of(const fb_script_info *info, const char *name)
{
    for (int i = 0; info && i < info->n_params; i++)
        if (!strcmp(info->params[i].name, name)) return info->params[i].help;
    return NULL;
}

/* Parameters with one value in all rows; the others are columns of the table. */
static void put_params(fb_html *h, const fb_output *o, const fb_script_info *info)
{
    json_t *shared = fb_figure_params(o->rows, false), *value;
    const char *name;
    if (json_object_size(shared)) fb_html_open(h, "dl", "class", "params", NULL);
    json_object_foreach(shared, name, value)
    {
        char *text = fb_figure_plain(value);
        fb_html_open(h, "div", "title", help_of(info, name), NULL);
        fb_html_leaf(h, "dt", NULL, name);
        fb_html_leaf(h, "dd", NULL, text);
        fb_html_close(h, "div");
        fb_free(text);
    }
    if (json_object_size(shared)) fb_html_close(h, "dl");
    json_decref(shared);
}

void fb_page_devices(fb_html *h, const json_t *devices)
{
    const char *device;
    json_t *told;
    json_object_foreach((json_t *)devices, device, told)
    {
        fb_str text = {0};
        fb_output_device_text(device, told, &text);
        paragraph(h, "dim", fb_str_get(&text));
        fb_str_free(&text);
    }
}

void fb_page_header(fb_html *h, const fb_output *o, const fb_script_info *info, const char *title)
{
    fb_html_open(h, "header", NULL);
    fb_html_leaf(h, "h1", NULL, title);
    paragraph(h, "dim", o->script);
    fb_page_devices(h, o->devices);
    put_params(h, o, info);
    fb_html_close(h, "header");
}

/* ---- waterfalls ---- */

static void why_name(const fb_output *o, const json_t *why, fb_str *out)
{
    json_t *varying = fb_figure_params(o->rows, true);
    int a = (int)fb_json_int_or(why, "a", 0), b = (int)fb_json_int_or(why, "b", 0);
    fb_picture_row_name(json_array_get(o->rows, (size_t)a), a + 1, varying, out);
    fb_str_add(out, "  →  ");
    fb_picture_row_name(json_array_get(o->rows, (size_t)b), b + 1, varying, out);
    json_decref(varying);
}

static void put_why(fb_html *h, const json_t *why)
{
    size_t i;
    json_t *part;
    const char *failed = fb_json_string_or(why, "failed", NULL);
    if (failed) {
        paragraph(h, "dim", failed);
        return;
    }
    fb_picture p = fb_kept_picture(why);
    fb_html_open(h, "p", "class", "says", NULL);
    fb_html_textf(h, "%s. %s: %s", fb_json_string_or(why, "verdicts", ""), fb_json_string_or(why, "of", ""),
                  fb_json_string_or(why, "conclusion", ""));
    fb_html_close(h, "p");
    fb_page_picture(h, p, "the difference split into its causes");
    fb_html_open(h, "ul", "class", "parts", NULL);
    json_array_foreach(json_object_get(why, "parts"), i, part)
    {
        fb_html_open(h, "li", NULL);
        fb_html_leaf(h, "b", NULL, fb_json_string_or(part, "name", ""));
        fb_html_textf(h, ": %s", fb_json_string_or(part, "text", ""));
        fb_html_close(h, "li");
    }
    fb_html_close(h, "ul");
    fb_picture_free(&p);
}

/* The first is open, the others are folded; that of the puzzle stands with its answer. */
static void put_whys(fb_html *h, const fb_output *o, const json_t *kept)
{
    size_t i;
    json_t *why;
    bool any = false;
    json_array_foreach(json_object_get(kept, "whys"), i, why)
    {
        if (fb_json_bool_or(why, "puzzle", false)) continue;
        if (!any) {
            open_section(h, "why", "Why is one faster?");
            paragraph(
                h, "dim",
                "From the first column's time down to the second's: what the second gains (green) and loses (red) "
                "by each cause.");
        }
        fb_str name = {0};
        why_name(o, why, &name);
        fb_html_open(h, "details", any ? NULL : "open", "", NULL);
        fb_html_leaf(h, "summary", NULL, fb_str_get(&name));
        put_why(h, why);
        fb_html_close(h, "details");
        fb_str_free(&name);
        any = true;
    }
    if (any) fb_html_close(h, "section");
}

/* ---- the puzzle ---- */

static bool is_right(const json_t *answer, int choice)
{
    size_t i;
    json_t *right;
    json_array_foreach(json_object_get(answer, "right"), i, right)
    {
        if (json_integer_value(right) == choice) return true;
    }
    return false;
}

/* Why no choice is marked. */
static void put_ungraded(fb_html *h, const json_t *answer)
{
    const char *state = fb_json_string_or(answer, "state", "");
    if (!strcmp(state, "tie"))
        paragraph(h, NULL, "Here the two cannot be told apart, so no answer is right.");
    else if (fb_json_bool_or(answer, "turned", false))
        paragraph(h, NULL, "Here it is the other way round: the second is slower, so the question does not hold.");
    else if (!strcmp(state, "unexplained"))
        paragraph(h, NULL,
                  "Here more of the difference is not explained than any cause explains, so no answer is right.");
    else
        paragraph(h, NULL, "Here none of the answers is right; the waterfall shows what is.");
    if (json_object_get(answer, "cause")) paragraph(h, "right", fb_json_string_or(answer, "cause", ""));
}

static void put_answer(fb_html *h, const fb_output *o, const json_t *kept, const fb_puzzle *puzzle)
{
    const json_t *answer = json_object_get(kept, "puzzle");
    const json_t *why = NULL;
    size_t i;
    json_t *one;
    int told = 0;
    json_array_foreach(json_object_get(kept, "whys"), i, one)
    {
        if (!why && fb_json_bool_or(one, "puzzle", false)) why = one;
    }
    for (int k = 0; k < puzzle->n_choices; k++) {
        if (!is_right(answer, k)) continue;
        fb_html_open(h, "p", "class", "right", NULL);
        fb_html_textf(h, "%d  %s", k + 1, puzzle->choices[k]);
        fb_html_close(h, "p");
        told++;
    }
    if (!told && answer) put_ungraded(h, answer);
    if (why) {
        fb_str name = {0};
        why_name(o, why, &name);
        fb_html_leaf(h, "h3", NULL, fb_str_get(&name));
        put_why(h, why);
        fb_str_free(&name);
    } else {
        fb_html_open(h, "p", "class", "dim", NULL);
        fb_html_textf(h, "%s and %s are not both among the columns of this page.", puzzle->compare[0],
                      puzzle->compare[1]);
        fb_html_close(h, "p");
    }
    if (puzzle->tell) paragraph(h, NULL, puzzle->tell);
}

/* As it would be handed out: the question, boxes to tick, and folded what gives it away. */
void fb_page_puzzle(fb_html *h, const fb_output *o, const json_t *kept, const fb_puzzle *puzzle, bool answers)
{
    fb_html_open(h, "section", "class", "puzzle", NULL);
    fb_html_leaf(h, "h2", NULL, "Puzzle");
    fb_html_open(h, "p", "class", "dim", NULL);
    fb_html_textf(h, "%s → %s", puzzle->compare[0], puzzle->compare[1]);
    fb_html_close(h, "p");
    if (puzzle->about) paragraph(h, NULL, puzzle->about);
    paragraph(h, "ask", puzzle->ask);
    if (puzzle->n_choices) fb_html_open(h, "ol", "class", "choices", NULL);
    for (int i = 0; i < puzzle->n_choices; i++) {
        fb_html_open(h, "li", NULL);
        fb_html_textf(h, "☐ %s", puzzle->choices[i]);
        fb_html_close(h, "li");
    }
    if (puzzle->n_choices) fb_html_close(h, "ol");
    fb_html_open(h, "p", NULL);
    fb_html_text(h, "How many times as fast? ");
    fb_html_leaf(h, "span", "blank", "");
    fb_html_close(h, "p");
    for (int i = 0; i < puzzle->n_hints && answers; i++) {
        fb_html_open(h, "details", NULL);
        fb_html_open(h, "summary", NULL);
        fb_html_textf(h, "hint %d", i + 1);
        fb_html_close(h, "summary");
        paragraph(h, NULL, puzzle->hints[i]);
        fb_html_close(h, "details");
    }
    if (answers) {
        fb_html_open(h, "details", NULL);
        fb_html_leaf(h, "summary", NULL, "answer");
        put_answer(h, o, kept, puzzle);
        fb_html_close(h, "details");
    }
    fb_html_close(h, "section");
}

/* ---- columns ---- */

static void add_kind(fb_html *h, const char *sign, const char *name, const char *help)
{
    fb_html_open(h, "dt", NULL);
    fb_html_textf(h, "%s%s%s", sign, *sign ? " " : "", name);
    fb_html_close(h, "dt");
    fb_html_leaf(h, "dd", NULL, help);
}

static bool any_stale(const json_t *rows)
{
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row)
    {
        if (fb_json_bool_or(row, "stale", false)) return true;
    }
    return false;
}

void fb_page_kinds(fb_html *h, const json_t *rows)
{
    const fb_figure_row *spread = &fb_figures[FB_FIGURE_SPREAD];
    fb_html_open(h, "dl", "class", "kinds", NULL);
    for (int k = FB_SOURCE_MEASURED; k <= FB_SOURCE_PREDICTED; k++)
        add_kind(h, fb_figure_sign((fb_figure_source)k), fb_report_source_name((fb_figure_source)k),
                 fb_figure_kind_help((fb_figure_source)k));
    if (any_stale(rows)) add_kind(h, "", "stale", "of source that has changed since it was recorded");
    add_kind(h, "", spread->label, spread->help);
    fb_html_close(h, "dl");
}

static void put_columns(fb_html *h, const fb_output *o)
{
    open_section(h, "columns", "Columns");
    fb_output_html(o, h);
    fb_page_kinds(h, o->rows);
    fb_html_close(h, "section");
}

/* A picture a column, so that paper may break between them; what they have in common is said once. */
static void put_kernels(fb_html *h, const fb_output *o)
{
    const fb_sheet *sheet = &fb_sheets[FB_SHEET_KERNELS];
    bool any = false;
    for (size_t i = 0; i < json_array_size(o->rows); i++) {
        fb_picture p = {0};
        fb_picture_bars(&p, o->rows, (int)i);
        if (p.body.n && !any) {
            open_section(h, sheet->name, sheet->title);
            paragraph(h, "dim", sheet->below);
            paragraph(
                h, "dim",
                "Pale bars and hollow points, here and below, are predicted or composed. A thin line over a bar's "
                "end or a point is the middle 80 % of its times.");
            any = true;
        }
        if (p.body.n) fb_page_picture(h, p, sheet->title);
        fb_picture_free(&p);
    }
    if (any) fb_html_close(h, "section");
}

static void put_plots(fb_html *h, const fb_output *o)
{
    fb_picture pictures[FB_SHEETS] = {0};
    fb_sheets_draw(o, pictures);
    for (int i = 0; i < FB_SHEETS; i++) {
        if (pictures[i].body.n && i != FB_SHEET_KERNELS) {
            open_section(h, fb_sheets[i].name, fb_sheets[i].title);
            paragraph(h, "dim", fb_sheets[i].below);
            fb_page_picture(h, pictures[i], fb_sheets[i].title);
            fb_html_close(h, "section");
        }
        fb_picture_free(&pictures[i]);
    }
}

/* ---- plans and sources ---- */

static void put_plans(fb_html *h, const fb_output *o, const json_t *kept)
{
    size_t i;
    json_t *column, *varying = fb_figure_params(o->rows, true);
    bool any = false;
    json_array_foreach(json_object_get(kept, "columns"), i, column)
    {
        const json_t *row = json_array_get(o->rows, i);
        fb_picture p = fb_kept_picture(column);
        fb_str name = {0};
        char wall[48];
        if (p.body.n && !any) {
            open_section(h, "plans", "Plans");
            paragraph(
                h, "dim",
                "A box is a kernel, or several alike, with its time and the bytes that it moves; arrows are what is "
                "stored and read again.");
            fb_html_open(h, "div", "class", "plans", NULL);
            any = true;
        }
        if (p.body.n) {
            fb_picture_row_name(row, (int)i + 1, varying, &name);
            fb_html_open(h, "figure", NULL);
            fb_html_open(h, "figcaption", NULL);
            fb_html_text(h, fb_str_get(&name));
            fb_html_open(h, "span", NULL);
            if (*fb_figure_text(row, FB_FIGURE_WALL, wall)) fb_html_textf(h, " · wall %s", wall);
            fb_html_close(h, "span");
            fb_html_close(h, "figcaption");
            fb_page_picture(h, p, "the plan's kernels");
            fb_html_close(h, "figure");
        }
        fb_str_free(&name);
        fb_picture_free(&p);
    }
    if (any) {
        fb_html_close(h, "div");
        fb_html_close(h, "section");
    }
    json_decref(varying);
}

static const char *source_of(const json_t *columns, size_t i)
{
    return fb_json_string_or(json_array_get(columns, i), "source", "");
}

/* The first column with the same source, in a sweep often one for all sizes. */
static size_t same_source(const json_t *columns, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (!strcmp(source_of(columns, k), source_of(columns, i))) return k;
    return i;
}

/* The first column with another source in the same language. */
static size_t other_source(const json_t *columns, size_t i)
{
    const char *language = fb_json_string_or(json_array_get(columns, i), "language", "");
    for (size_t k = 0; k < i; k++)
        if (!strcmp(fb_json_string_or(json_array_get(columns, k), "language", "-"), language) && *source_of(columns, k))
            return k;
    return i;
}

/* Lines that both have, but for those around what changed. */
static bool is_far(const fb_diff_line *lines, int n, int i)
{
    enum { AROUND = 3 };
    for (int k = i - AROUND; k <= i + AROUND; k++)
        if (k >= 0 && k < n && lines[k].sign != ' ') return false;
    return true;
}

static void put_diff(fb_html *h, const char *first, const char *second)
{
    fb_arena *arena = fb_arena_new();
    const char **a, **b;
    fb_diff_line *lines;
    int na = fb_code_lines(arena, first, &a), nb = fb_code_lines(arena, second, &b);
    int n = fb_show_text_diff(arena, a, na, b, nb, &lines);
    fb_html_open(h, "pre", NULL);
    for (int i = 0; i < n; i++) {
        int alike = 0;
        while (i + alike < n && is_far(lines, n, i + alike)) alike++;
        const char *element = lines[i].sign == '+' ? "ins" : lines[i].sign == '-' ? "del" : "i";
        fb_html_open(h, element, NULL);
        if (alike > 1)
            fb_html_textf(h, "⋯ %d lines alike", alike);
        else
            fb_html_textf(h, "%c %s", lines[i].sign, lines[i].line);
        fb_html_close(h, element);
        if (alike > 1) i += alike - 1;
    }
    fb_html_close(h, "pre");
    fb_arena_free(arena);
}

static void put_source(fb_html *h, const json_t *columns, size_t i)
{
    size_t same = same_source(columns, i), other = other_source(columns, i);
    if (same < i) {
        fb_html_open(h, "p", "class", "dim", NULL);
        fb_html_textf(h, "As that of column %zu.", same + 1);
        fb_html_close(h, "p");
        return;
    }
    fb_html_open(h, "details", NULL);
    fb_html_leaf(h, "summary", NULL, "source");
    fb_html_leaf(h, "pre", NULL, source_of(columns, i));
    fb_html_close(h, "details");
    if (other == i) return;
    fb_html_open(h, "details", NULL);
    fb_html_open(h, "summary", NULL);
    fb_html_textf(h, "difference to column %zu", other + 1);
    fb_html_close(h, "summary");
    put_diff(h, source_of(columns, other), source_of(columns, i));
    fb_html_close(h, "details");
}

static void put_sources(fb_html *h, const fb_output *o, const json_t *kept)
{
    const json_t *columns = json_object_get(kept, "columns");
    json_t *column, *varying = fb_figure_params(o->rows, true);
    size_t i;
    bool any = false;
    json_array_foreach((json_t *)columns, i, column)
    {
        fb_str name = {0};
        if (!*source_of(columns, i)) continue;
        if (!any) {
            fb_html_open(h, "section", "id", "source", "class", "source", NULL);
            fb_html_leaf(h, "h2", NULL, "Source");
            paragraph(h, "dim", "What the compiler gets, equal kernels once; - is the other column's, + this one's.");
        }
        any = true;
        fb_picture_row_name(json_array_get(o->rows, i), (int)i + 1, varying, &name);
        fb_html_leaf(h, "h3", NULL, fb_str_get(&name));
        put_source(h, columns, i);
        fb_str_free(&name);
    }
    if (any) fb_html_close(h, "section");
    json_decref(varying);
}

/* ---- the page ---- */

void fb_page_open(fb_html *h, const char *title)
{
    fb_str rules = {0};
    fb_html_raw(h, "<!doctype html>\n");
    fb_html_open(h, "html", "lang", "en", NULL);
    fb_html_open(h, "head", NULL);
    fb_html_void(h, "meta", "charset", "utf-8", NULL);
    fb_html_void(h, "meta", "http-equiv", "Content-Security-Policy", "content", policy, NULL);
    fb_html_void(h, "meta", "name", "viewport", "content", "width=device-width", NULL);
    fb_html_leaf(h, "title", NULL, title);
    fb_picture_style(&rules);
    fb_html_open(h, "style", NULL);
    fb_html_raw(h, fb_embedded("tui/show/page.css"));
    fb_html_raw(h, fb_str_get(&rules));
    fb_html_close(h, "style");
    fb_html_close(h, "head");
    fb_html_open(h, "body", NULL);
    fb_str_free(&rules);
}

void fb_page_close(fb_html *h, FILE *out)
{
    fb_html_close(h, "body");
    fb_html_close(h, "html");
    fputs(fb_str_get(&h->out), out);
    fb_html_free(h);
}

void fb_html_print(const fb_output *o, const json_t *kept, const fb_script_info *info, FILE *out)
{
    fb_html h = {0};
    const char *title = info && info->title && *info->title ? info->title : o->script;
    fb_page_open(&h, title);
    fb_page_header(&h, o, info, title);
    if (info && info->puzzle) fb_page_puzzle(&h, o, kept, info->puzzle, true);
    put_columns(&h, o);
    put_whys(&h, o, kept);
    put_kernels(&h, o);
    put_plots(&h, o);
    put_plans(&h, o, kept);
    put_sources(&h, o, kept);
    fb_page_close(&h, out);
}
