#include "tui/cli_html.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "codegen/lower.h"
#include "tui/figure.h"
#include "tui/picture.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

static const char style[] =
    ":root{--paper:#fff;--ink:#1c2024;--dim:#6b7280;--line:#d9dde3;--good:#2e7d32;--bad:#c62828}"
    "@media(prefers-color-scheme:dark){:root{--paper:#16181c;--ink:#e4e6ea;--dim:#969ca6;--line:#343a43;--good:#7cc47f;"
    "--bad:#ef7b74}}"
    "body{background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;"
    "padding:0 1rem}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}p.dim,td.dim{color:var(--dim)}"
    "table{border-collapse:collapse}td,th{padding:.25rem .8rem;border-bottom:1px solid var(--line);text-align:right}"
    "td:first-child,th:first-child{text-align:left}.wide{overflow-x:auto}.good{color:var(--good)}.bad{color:var(--bad)}"
    "pre{overflow-x:auto;font-size:.8rem;border:1px solid var(--line);padding:.8rem}";

static void put(FILE *out, const char *text)
{
    fb_str clean = {0};
    fb_xml_add(&clean, text);
    fputs(fb_str_get(&clean), out);
    fb_str_free(&clean);
}

static void put_picture(const fb_picture *p, const char *label, FILE *out)
{
    fb_str text = {0};
    fb_picture_inline(p, label, &text);
    fputs(fb_str_get(&text), out);
    fb_str_free(&text);
}

static double median(const json_t *row, const char *key)
{
    return fb_json_number_or(json_object_get(row, key), "median", NAN);
}

/* "3  split_stack:max@host  batch_size=128" */
static void put_name(FILE *out, const json_t *row, size_t i)
{
    fb_str name = {0};
    fb_picture_row_name(row, (int)i + 1, &name);
    put(out, fb_str_get(&name));
    fb_str_free(&name);
}

/* ---- the table of columns ---- */

static void put_columns(const fb_output *o, FILE *out)
{
    size_t i;
    json_t *row;
    fputs("<h2>Columns</h2><div class=wide><table><tr><th>column<th>wall<th>vs "
          "first<th>launches<th>device busy<th>moved (modelled)<th>× floor<th>error<th>kind</tr>\n",
          out);
    json_array_foreach(o->rows, i, row)
    {
        const char *failed = fb_json_string_or(row, "failed", NULL);
        const json_t *error = json_object_get(row, "error");
        double wall = median(row, "wall_us"), floor = fb_json_number_or(row, "floor_us", NAN);
        char text[48];
        const char *why;
        fputs("<tr><td>", out);
        put_name(out, row, i);
        if (failed) {
            fputs("<td class=bad colspan=8>", out);
            put(out, failed);
            fputs("</tr>\n", out);
            continue;
        }
        fputs("<td><b>", out);
        put(out, fb_figure_text(row, FB_FIGURE_WALL, text));
        fputs("</b><td>", out);
        put(out, fb_output_against(fb_output_base(o->rows, row), row, text, &why));
        if (why) fprintf(out, " <span class=dim>%s</span>", why);
        fprintf(out, "<td>%lld<td>", (long long)fb_json_int_or(row, "launches", 0));
        put(out, fb_figure_text(row, FB_FIGURE_DEVICE, text));
        fputs("<td>", out);
        put(out, fb_figure_text(row, FB_FIGURE_MOVED, text));
        fputs("<td>", out);
        put(out, fb_figure_write(text, wall / floor, FB_UNIT_TIMES, fb_figure_kind(row)));
        bool ok = fb_json_bool_or(error, "ok", false);
        if (error && fb_output_undecided(row))
            fputs("<td>undecided", out);
        else if (error)
            fprintf(out, "<td class=%s>%.0e %s", ok ? "good" : "bad", fb_json_number_or(error, "max_rel", 0),
                    ok ? "✓" : "✗");
        else
            fputs("<td>", out);
        fputs("<td class=dim>", out);
        put(out, fb_figure_source_name(fb_figure_kind(row)));
        fputs(fb_json_bool_or(row, "stale", false) ? ", stale</tr>\n" : "</tr>\n", out);
    }
    fputs("</table></div>\n<p class=dim>", out);
    put(out, fb_figure_legend);
    fputs("</p>\n", out);
}

/* ---- plans and sources ---- */

static char *source_of(const fb_column *c)
{
    fb_arena *arena = fb_arena_new();
    const fb_dialect *dialect = fb_dialect_find(c->machine && c->machine->kind == FB_DEVICE_CUDA ? "cuda" : "c");
    const char *before = "";
    fb_str all = {0};
    for (int g = 0; dialect && g < fb_plan_groups(c->plan); g++) {
        const char *text = fb_lower_group_source(c->plan, g, dialect, arena);
        if (!text || !strcmp(text, before)) continue; /* repetitions are alike */
        fb_str_addf(&all, "%s%s", all.n ? "\n" : "", text);
        before = text;
    }
    fb_arena_free(arena);
    return fb_str_take(&all);
}

json_t *fb_html_column(const fb_column *c)
{
    if (!c->plan || !c->graph) return json_null();
    fb_picture p = {0};
    fb_picture_plan(&p, c->plan, c->report);
    char *source = source_of(c);
    json_t *kept = json_pack("{s:i, s:i, s:s, s:s}", "w", p.w, "h", p.h, "body", fb_str_get(&p.body), "source", source);
    fb_free(source);
    fb_picture_free(&p);
    return kept ? kept : json_null();
}

/* The picture of a column's plan as fb_html_column kept it. */
static fb_picture picture_of(const json_t *kept)
{
    fb_picture p = {.w = (int)fb_json_int_or(kept, "w", 0), .h = (int)fb_json_int_or(kept, "h", 0)};
    fb_str_add(&p.body, fb_json_string_or(kept, "body", ""));
    return p;
}

/* The first column with the same source, in a sweep often one for all sizes. */
static size_t same_source(const json_t *kept, size_t i)
{
    const char *own = fb_json_string_or(json_array_get(kept, i), "source", "");
    for (size_t k = 0; k < i; k++)
        if (!strcmp(fb_json_string_or(json_array_get(kept, k), "source", ""), own)) return k;
    return i;
}

static void put_plans(const fb_output *o, const json_t *kept, FILE *out)
{
    fputs("<h2>Plans</h2><p class=dim>A box is a kernel, or several alike; times with ~ are predicted. Arrows are what "
          "is "
          "stored and read again.</p>\n",
          out);
    for (size_t i = 0; i < json_array_size(kept); i++) {
        const json_t *column = json_array_get(kept, i);
        fb_picture p = picture_of(column);
        size_t same = same_source(kept, i);
        if (p.body.n) {
            fputs("<h3>", out);
            put_name(out, json_array_get(o->rows, i), i);
            fputs("</h3>\n<div class=wide>", out);
            put_picture(&p, "the plan's kernels", out);
            fputs("</div>", out);
            if (same < i) {
                fprintf(out, "<p class=dim>The source is that of column %d.</p>\n", (int)same + 1);
            } else {
                fputs("<details><summary>source</summary><pre>", out);
                put(out, fb_json_string_or(column, "source", ""));
                fputs("</pre></details>\n", out);
            }
        }
        fb_picture_free(&p);
    }
}

/* ---- the page ---- */

enum { BARS, ROOFLINE, SCATTER, PICTURES };

static void draw_all(const fb_output *o, fb_picture to[PICTURES])
{
    fb_picture_bars(&to[BARS], o->rows);
    fb_picture_roofline(&to[ROOFLINE], o->rows, o->devices);
    fb_picture_scatter(&to[SCATTER], o->rows, o->devices);
}

void fb_html_print(const fb_output *o, const json_t *kept, const char *title, FILE *out)
{
    static const struct {
        const char *title, *below;
    } heads[PICTURES] = {
        [BARS] = {"Kernels", "Time, on one scale for all columns of a device, and modelled bytes."},
        [ROOFLINE] = {"Roofline", "What a column computes a second, against what it computes a byte; the line is what "
                                  "the device's memory and arithmetic allow."},
        [SCATTER] = {"Time against bytes", "The line is what copying as many bytes takes."},
    };
    fb_picture pictures[PICTURES] = {0};
    fb_str rules = {0};
    const char *device;
    json_t *told;
    if (!title || !*title) title = o->script;
    fputs("<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>",
          out);
    put(out, title);
    fb_picture_style(&rules);
    fprintf(out, "</title><style>%s%s</style>\n<h1>", style, fb_str_get(&rules));
    fb_str_free(&rules);
    put(out, title);
    fputs("</h1><p class=dim>", out);
    put(out, o->script);
    json_object_foreach(o->devices, device, told)
    {
        put(out, " · ");
        put(out, device);
        put(out, ": ");
        put(out, fb_json_string_or(told, "name", ""));
    }
    fputs("</p>\n", out);
    put_columns(o, out);
    draw_all(o, pictures);
    for (int i = 0; i < PICTURES; i++) {
        if (pictures[i].body.n) {
            fprintf(out, "<h2>%s</h2><p class=dim>%s</p>\n<div class=wide>", heads[i].title, heads[i].below);
            put_picture(&pictures[i], heads[i].title, out);
            fputs("</div>\n", out);
        }
        fb_picture_free(&pictures[i]);
    }
    put_plans(o, kept, out);
    fputs("</html>\n", out);
}

/* ---- pictures on their own ---- */

/* The pictures of all rows with their plans; *n of them, and names for files and people. All are the caller's. */
typedef struct {
    int n;
    fb_picture *pictures;
    char **names, **titles;
} album;

static album album_of(const fb_output *o, const json_t *kept)
{
    static const char *const names[PICTURES] = {[BARS] = "kernels", [ROOFLINE] = "roofline", [SCATTER] = "scatter"};
    static const char *const titles[PICTURES] = {
        [BARS] = "Kernels", [ROOFLINE] = "Roofline", [SCATTER] = "Time against bytes"};
    size_t n = PICTURES + json_array_size(kept);
    album a = {.n = (int)n,
               .pictures = fb_calloc(n, sizeof *a.pictures),
               .names = fb_calloc(n, sizeof *a.names),
               .titles = fb_calloc(n, sizeof *a.titles)};
    draw_all(o, a.pictures);
    for (int i = 0; i < a.n; i++) {
        fb_str name = {0}, title = {0};
        int column = i - PICTURES;
        if (column < 0) {
            fb_str_add(&name, names[i]);
            fb_str_add(&title, titles[i]);
        } else {
            a.pictures[i] = picture_of(json_array_get(kept, (size_t)column));
            fb_str_addf(&name, "plan-%d", column + 1);
            fb_picture_row_name(json_array_get(o->rows, (size_t)column), column + 1, &title);
        }
        a.names[i] = fb_str_take(&name);
        a.titles[i] = fb_str_take(&title);
    }
    return a;
}

static void free_album(album *a)
{
    for (int i = 0; i < a->n; i++) {
        fb_picture_free(&a->pictures[i]);
        fb_free(a->names[i]);
        fb_free(a->titles[i]);
    }
    fb_free(a->pictures);
    fb_free(a->names);
    fb_free(a->titles);
}

void fb_svg_print(const fb_output *o, const json_t *kept, FILE *out)
{
    fb_str text = {0};
    album a = album_of(o, kept);
    fb_picture_document(a.pictures, (const char *const *)a.titles, a.n, &text);
    fputs(fb_str_get(&text), out);
    fb_str_free(&text);
    free_album(&a);
}

bool fb_svg_write(const fb_output *o, const json_t *kept, const char *folder, fb_error *err)
{
    if (!fb_make_folder(folder, err)) return false;
    album a = album_of(o, kept);
    bool good = true;
    for (int i = 0; i < a.n && good; i++) {
        fb_str text = {0}, path = {0};
        if (!a.pictures[i].body.n) continue;
        fb_picture_document(&a.pictures[i], (const char *const *)&a.titles[i], 1, &text);
        fb_str_addf(&path, "%s/%s.svg", folder, a.names[i]);
        good = fb_write_file(fb_str_get(&path), fb_str_get(&text), text.n, err);
        fb_str_free(&text);
        fb_str_free(&path);
    }
    free_album(&a);
    return good;
}
