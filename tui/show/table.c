/* Tables of text: measured in cells, aligned, and spelled in ASCII where the locale has no other signs. */
#include "tui/show/table.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"

#include <langinfo.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

typedef struct {
    char *title, *under, *help; /* help: NULL none */
    bool left;
} column;

typedef struct {
    FB_VEC(char *) cells;
    char *rest; /* follows the cells; NULL none */
} row;

struct fb_table {
    FB_VEC(column) columns;
    FB_VEC(row) rows;
};

bool fb_table_parse_format(const char *name, fb_format *out)
{
    static const char *const names[] = {[FB_FORMAT_TABLE] = "table",
                                        [FB_FORMAT_JSON] = "json",
                                        [FB_FORMAT_CSV] = "csv",
                                        [FB_FORMAT_MARKDOWN] = "markdown"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (fb_format)i;
            return true;
        }
    return false;
}

/* ---- text ---- */

static const struct {
    const char *sign, *spelled;
} spellings[] = {{"×", "x"},     {"µ", "u"},  {"✓", "ok"},  {"✗", "FAIL"}, {"–", "-"},  {"—", "-"},
                 {"·", "|"},     {"→", "->"}, {"…", "..."}, {"≤", "<="},   {"≈", "~="}, {"±", "+-"},
                 {"σ", "sigma"}, {"²", "^2"}, {"─", "-"},   {"“", "\""},   {"”", "\""}};

/* A sign that has no spelling here becomes one '?'. */
static char *spell(const char *text)
{
    fb_str out = {0};
    while (*text) {
        size_t k = 0, n = sizeof spellings / sizeof *spellings;
        while (k < n && strncmp(text, spellings[k].sign, strlen(spellings[k].sign)) != 0) k++;
        if (k < n) {
            fb_str_add(&out, spellings[k].spelled);
            text += strlen(spellings[k].sign);
        } else if ((unsigned char)*text < 0x80) {
            fb_str_add_n(&out, text++, 1);
        } else {
            fb_str_add(&out, "?");
            do text++;
            while ((*text & 0xc0) == 0x80);
        }
    }
    return fb_str_take(&out);
}

bool fb_show_utf8(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* All that a terminal gets of scripts, files, devices and compilers is cleaned here, whatever was done to it before. */
static char *shown(const char *text, const char *kept)
{
    fb_str clean = {0};
    fb_str_add_clean(&clean, text, kept);
    char *out = fb_show_utf8() ? fb_strdup(fb_str_get(&clean)) : spell(fb_str_get(&clean));
    fb_str_free(&clean);
    return out;
}

static const char lines[] = "\n\t";

void fb_put(FILE *out, const char *text)
{
    char *copy = shown(text, lines);
    fputs(copy, out);
    fb_free(copy);
}

void fb_put_plain(FILE *out, const char *text)
{
    fb_str clean = {0};
    fb_str_add_clean(&clean, text, lines);
    fputs(fb_str_get(&clean), out);
    fb_str_free(&clean);
}

void fb_put_source(FILE *out, const char *text)
{
    if (isatty(fileno(out)))
        fb_put_plain(out, text);
    else
        fputs(text, out);
}

/* In one line, of `most` bytes or about that. */
static char *shown_line(const char *text, size_t most)
{
    fb_str line = {0};
    for (const char *p = text; *p && line.n < most; p++) fb_str_add_n(&line, *p == '\n' || *p == '\r' ? " " : p, 1);
    if (line.n == most) {
        fb_trim_partial(line.text);
        line.n = strlen(line.text);
        fb_str_add(&line, "…");
    }
    char *out = shown(fb_str_get(&line), "");
    fb_str_free(&line);
    return out;
}

/* For people: one long text would make every row as wide. */
static char *shown_cell(const char *text)
{
    return shown_line(text, 400);
}

/* Columns on a terminal. */
static int width_of(const char *text)
{
    size_t n = mbstowcs(NULL, text, 0);
    if (n == (size_t)-1) return (int)strlen(text);
    wchar_t *wide = fb_calloc(n + 1, sizeof *wide);
    mbstowcs(wide, text, n + 1);
    int w = wcswidth(wide, n);
    fb_free(wide);
    return w < 0 ? (int)n : w;
}

/* ---- filling ---- */

fb_table *fb_table_new(void)
{
    return fb_calloc(1, sizeof(fb_table));
}

void fb_table_free(fb_table *t)
{
    for (int i = 0; i < t->columns.n; i++) {
        fb_free(t->columns.at[i].title);
        fb_free(t->columns.at[i].under);
        fb_free(t->columns.at[i].help);
    }
    for (int i = 0; i < t->rows.n; i++) {
        for (int k = 0; k < t->rows.at[i].cells.n; k++) fb_free(t->rows.at[i].cells.at[k]);
        FB_VEC_FREE(&t->rows.at[i].cells);
        fb_free(t->rows.at[i].rest);
    }
    FB_VEC_FREE(&t->columns);
    FB_VEC_FREE(&t->rows);
    fb_free(t);
}

void fb_table_column(fb_table *t, const char *title, const char *under, bool left)
{
    FB_VEC_PUSH(&t->columns, (column){.title = fb_strdup(title), .under = fb_strdup(under), .left = left});
}

void fb_table_help(fb_table *t, const char *help)
{
    column *c = &t->columns.at[t->columns.n - 1];
    fb_free(c->help);
    c->help = fb_strdup(help);
}

void fb_table_row(fb_table *t)
{
    FB_VEC_PUSH(&t->rows, (row){0});
}

void fb_table_cell(fb_table *t, const char *text)
{
    FB_VEC_PUSH(&t->rows.at[t->rows.n - 1].cells, fb_strdup(text ? text : ""));
}

void fb_table_cellf(fb_table *t, const char *format, ...)
{
    fb_str text = {0};
    va_list ap;
    va_start(ap, format);
    fb_str_vaddf(&text, format, ap);
    va_end(ap);
    fb_table_cell(t, fb_str_get(&text));
    fb_str_free(&text);
}

void fb_table_rest(fb_table *t, const char *text)
{
    t->rows.at[t->rows.n - 1].rest = fb_strdup(text);
}

static const char *cell_at(const row *r, int i)
{
    return i < r->cells.n ? r->cells.at[i] : "";
}

/* ---- for people ---- */

static int column_width(const fb_table *t, int i)
{
    char *title = shown_cell(t->columns.at[i].title), *under = shown_cell(t->columns.at[i].under);
    int w = width_of(title), u = width_of(under), most = w > u ? w : u;
    fb_free(title);
    fb_free(under);
    for (int k = 0; k < t->rows.n; k++) {
        char *cell = shown_cell(cell_at(&t->rows.at[k], i));
        int c = width_of(cell);
        if (c > most) most = c;
        fb_free(cell);
    }
    return most;
}

static void put_cell(FILE *out, const char *text, int width, bool left, bool last)
{
    char *cell = shown_cell(text);
    int pad = width - width_of(cell);
    fprintf(out, "%*s%s%*s%s", left || pad < 0 ? 0 : pad, "", cell, left && !last && pad > 0 ? pad : 0, "",
            last ? "" : "  ");
    fb_free(cell);
}

static void print_heading(const fb_table *t, const int *width, bool under, bool colour, FILE *out)
{
    bool any = !under;
    for (int i = 0; i < t->columns.n; i++) any |= t->columns.at[i].under[0] != '\0';
    if (!any) return;
    fputs(colour ? (under ? "\033[2m" : "\033[1m") : "", out);
    for (int i = 0; i < t->columns.n; i++) {
        const column *c = &t->columns.at[i];
        put_cell(out, under ? c->under : c->title, width[i], c->left, i == t->columns.n - 1);
    }
    fputs(colour ? "\033[0m\n" : "\n", out);
}

static void print_aligned(const fb_table *t, FILE *out)
{
    const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
    bool colour = isatty(fileno(out)) && !(no_colour && no_colour[0]) && term && strcmp(term, "dumb") != 0;
    int *width = fb_calloc((size_t)t->columns.n + 1, sizeof *width);
    for (int i = 0; i < t->columns.n; i++) width[i] = column_width(t, i);
    print_heading(t, width, false, colour, out);
    print_heading(t, width, true, colour, out);
    for (int k = 0; k < t->rows.n; k++) {
        const row *r = &t->rows.at[k];
        int n = r->rest ? r->cells.n : t->columns.n;
        for (int i = 0; i < n; i++)
            put_cell(out, cell_at(r, i), width[i], t->columns.at[i].left, !r->rest && i == t->columns.n - 1);
        char *rest = shown_line(r->rest ? r->rest : "", 4000);
        fprintf(out, "%s\n", rest);
        fb_free(rest);
    }
    fb_free(width);
}

/* ---- for programs ---- */

/* What a spreadsheet would take for a formula. */
static bool is_formula(const char *text)
{
    char *end;
    if (!*text || !strchr("=+-@\t\r", *text)) return false;
    strtod(text, &end);
    return end == text || *end;
}

/* RFC 4180; a formula is quoted and marked as text. */
static void csv_field(FILE *out, const char *text)
{
    fb_str clean = {0};
    fb_str_add_clean(&clean, text, "\r\n\t");
    const char *field = fb_str_get(&clean);
    bool formula = is_formula(field), quoted = formula || strpbrk(field, ",\"\r\n");
    fputs(formula ? "\"'" : quoted ? "\"" : "", out);
    for (const char *p = field; *p; p++) {
        if (*p == '"') fputc('"', out);
        fputc(*p, out);
    }
    if (quoted) fputc('"', out);
    fb_str_free(&clean);
}

static void print_csv(const fb_table *t, FILE *out)
{
    for (int i = 0; i < t->columns.n; i++) {
        if (i) fputc(',', out);
        csv_field(out, t->columns.at[i].title);
    }
    fputs("\r\n", out);
    for (int k = 0; k < t->rows.n; k++) {
        for (int i = 0; i < t->columns.n; i++) {
            if (i) fputc(',', out);
            csv_field(out, cell_at(&t->rows.at[k], i));
        }
        fputs("\r\n", out);
    }
}

static void markdown_cell(FILE *out, const char *text)
{
    fb_str clean = {0};
    fb_str_add_clean(&clean, text, "\r\n");
    fputs(" ", out);
    for (const char *p = fb_str_get(&clean); *p; p++) {
        if (*p == '|' || *p == '\\') fputc('\\', out);
        if (*p == '<')
            fputs("&lt;", out); /* Markdown takes HTML as it is */
        else
            fputc(*p == '\r' || *p == '\n' ? ' ' : *p, out);
    }
    fputs(" |", out);
    fb_str_free(&clean);
}

static void print_markdown(const fb_table *t, FILE *out)
{
    fputc('|', out);
    for (int i = 0; i < t->columns.n; i++) {
        const column *c = &t->columns.at[i];
        fb_str title = {0};
        fb_str_addf(&title, "%s%s%s%s", c->title, c->under[0] ? " (" : "", c->under, c->under[0] ? ")" : "");
        markdown_cell(out, fb_str_get(&title));
        fb_str_free(&title);
    }
    fputs("\n|", out);
    for (int i = 0; i < t->columns.n; i++) fputs(t->columns.at[i].left ? " --- |" : " ---: |", out);
    fputc('\n', out);
    for (int k = 0; k < t->rows.n; k++) {
        const row *r = &t->rows.at[k];
        fputc('|', out);
        for (int i = 0; i < t->columns.n; i++) markdown_cell(out, r->rest && i == r->cells.n ? r->rest : cell_at(r, i));
        fputc('\n', out);
    }
}

/* ---- for pages ---- */

static bool ends_in(const char *text, const char *sign)
{
    size_t n = strlen(text), m = strlen(sign);
    return n >= m && !strcmp(text + n - m, sign);
}

static const char *class_of(const column *c, const char *text)
{
    return ends_in(text, "✓") ? "good" : ends_in(text, "✗") ? "bad" : c->left ? "name" : NULL;
}

/* A column's name may be broken where its parts begin. */
static void html_name(fb_html *h, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, ":@");
        n += text[n] != '\0';
        fb_html_textf(h, "%.*s", (int)n, text);
        text += n;
        if (*text) fb_html_void(h, "wbr", NULL);
    }
}

static void html_row(const fb_table *t, const row *r, fb_html *h)
{
    int n = r->rest ? r->cells.n : t->columns.n;
    char span[16];
    fb_html_open(h, "tr", NULL);
    for (int i = 0; i < n; i++) {
        const column *c = &t->columns.at[i];
        fb_html_open(h, "td", "class", class_of(c, cell_at(r, i)), NULL);
        if (c->left)
            html_name(h, cell_at(r, i));
        else
            fb_html_text(h, cell_at(r, i));
        fb_html_close(h, "td");
    }
    if (r->rest) {
        snprintf(span, sizeof span, "%d", t->columns.n > n ? t->columns.n - n : 1);
        fb_html_open(h, "td", "class", "bad name", "colspan", span, NULL);
        fb_html_text(h, r->rest);
        fb_html_close(h, "td");
    }
    fb_html_close(h, "tr");
}

void fb_table_html(const fb_table *t, fb_html *h)
{
    fb_html_open(h, "div", "class", "wide", NULL);
    fb_html_open(h, "table", NULL);
    fb_html_open(h, "thead", NULL);
    fb_html_open(h, "tr", NULL);
    for (int i = 0; i < t->columns.n; i++) {
        const column *c = &t->columns.at[i];
        fb_html_open(h, "th", "class", c->left ? "name" : NULL, "title", c->help, NULL);
        fb_html_text(h, c->title);
        if (*c->under) fb_html_leaf(h, "span", "under", c->under);
        fb_html_close(h, "th");
    }
    fb_html_close(h, "tr");
    fb_html_close(h, "thead");
    fb_html_open(h, "tbody", NULL);
    for (int i = 0; i < t->rows.n; i++) html_row(t, &t->rows.at[i], h);
    fb_html_close(h, "tbody");
    fb_html_close(h, "table");
    fb_html_close(h, "div");
}

void fb_table_print(const fb_table *t, fb_format format, FILE *out)
{
    switch (format) {
    case FB_FORMAT_TABLE: print_aligned(t, out); break;
    case FB_FORMAT_CSV: print_csv(t, out); break;
    case FB_FORMAT_MARKDOWN: print_markdown(t, out); break;
    case FB_FORMAT_JSON: break;
    }
}
