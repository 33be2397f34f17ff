#include "tui/cli_html.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "codegen/lower.h"

#include <math.h>
#include <string.h>

enum { COLOURS = 8 };

static const char style[] =
    ":root{--paper:#fff;--ink:#1c2024;--dim:#6b7280;--line:#d9dde3;--time:#2f7fb8;--bytes:#a5763c;--good:#2e7d32;"
    "--bad:#c62828;--c0:#2f7fb8;--c1:#3f8f4f;--c2:#b9770e;--c3:#8e44ad;--c4:#148f8f;--c5:#c0504d;--c6:#8a8a2c;--c7:#"
    "5b6abf}"
    "@media(prefers-color-scheme:dark){:root{--paper:#16181c;--ink:#e4e6ea;--dim:#969ca6;--line:#343a43;--time:#5fafd7;"
    "--bytes:#c8a06a;--good:#7cc47f;--bad:#ef7b74;--c0:#5fafff;--c1:#87d787;--c2:#ffaf5f;--c3:#d787d7;--c4:#5fd7d7;"
    "--c5:#ff8787;--c6:#d7d787;--c7:#afafff}}"
    "body{background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;"
    "padding:0 1rem}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}.dim{color:var(--dim)}"
    "table{border-collapse:collapse}td,th{padding:.25rem .8rem;border-bottom:1px solid var(--line);text-align:right}"
    "td:first-child,th:first-child{text-align:left}.wide{overflow-x:auto}"
    ".bar{display:inline-block;height:.75rem;vertical-align:middle}.time{background:var(--time)}.bytes{background:var(-"
    "-bytes)}"
    ".bars td:nth-child(3),.bars "
    "td:nth-child(5){text-align:left;width:24%}.good{color:var(--good)}.bad{color:var(--bad)}"
    ".plan{display:flex;flex-wrap:wrap;gap:.5rem;align-items:center}.group{border:2px "
    "solid;border-radius:.5rem;padding:.2rem .5rem;"
    "font-size:.85rem}.group b{margin-right:.4rem}pre{overflow-x:auto;font-size:.8rem;border:1px solid "
    "var(--line);padding:.8rem}"
    "svg text{fill:var(--dim);font-size:11px}svg .axis{stroke:var(--line)}svg .roof{stroke:var(--ink);fill:none}";

/* Text from outside, so that it stands for itself. */
static void put(FILE *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        switch (*p) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fputc(*p, out); break;
        }
    }
}

static double median(const json_t *row, const char *key)
{
    return fb_json_number_or(json_object_get(row, key), "median", NAN);
}

static double moved(const json_t *bytes)
{
    return fb_json_number_or(bytes, "read", NAN) + fb_json_number_or(bytes, "written", NAN);
}

static double row_bytes(const json_t *row)
{
    return moved(json_object_get(json_object_get(row, "bytes"), "modelled"));
}

static void put_name(FILE *out, const json_t *row)
{
    const char *variant = fb_json_string_or(row, "variant", "");
    put(out, variant);
    if (*variant) put(out, ":");
    put(out, fb_json_string_or(row, "plan", "?"));
}

static void put_us(FILE *out, double us)
{
    char text[32];
    put(out, isfinite(us) ? fb_format_us(text, us) : "");
}

static void put_bytes(FILE *out, double bytes)
{
    char text[32];
    put(out, isfinite(bytes) ? fb_format_bytes(text, bytes) : "");
}

/* ---- the table of columns ---- */

static void put_columns(const fb_output *o, FILE *out)
{
    size_t i;
    json_t *row;
    double first = median(json_array_get(o->rows, 0), "wall_us");
    fputs("<h2>Columns</h2><div class=wide><table><tr><th>column<th>device<th>parameters<th>wall<th>vs "
          "1<th>launches<th>device "
          "busy<th>moved (modelled)<th>× floor<th>error</tr>\n",
          out);
    json_array_foreach(o->rows, i, row)
    {
        const char *failed = fb_json_string_or(row, "failed", NULL), *name;
        const json_t *error = json_object_get(row, "error");
        double wall = median(row, "wall_us"), floor = fb_json_number_or(row, "floor_us", NAN);
        json_t *value;
        fprintf(out, "<tr><td>%d ", (int)i + 1);
        put_name(out, row);
        fputs("<td>", out);
        put(out, fb_json_string_or(row, "device", ""));
        fputs("<td class=dim>", out);
        json_object_foreach(json_object_get(row, "params"), name, value)
        {
            char *text = json_is_string(value) ? fb_str_take(&(fb_str){0}) : fb_json_line(value);
            put(out, name);
            put(out, "=");
            put(out, json_is_string(value) ? json_string_value(value) : text);
            put(out, " ");
            fb_free(text);
        }
        if (failed) {
            fputs("<td class=bad colspan=7>", out);
            put(out, failed);
            fputs("</tr>\n", out);
            continue;
        }
        fputs("<td><b>", out);
        put_us(out, wall);
        fputs("</b><td>", out);
        if (isfinite(first / wall)) fprintf(out, "%.2f ×", first / wall);
        fprintf(out, "<td>%lld<td>", (long long)fb_json_int_or(row, "launches", 0));
        put_us(out, median(row, "device_us"));
        fputs("<td>", out);
        put_bytes(out, row_bytes(row));
        fputs("<td>", out);
        if (isfinite(wall / floor)) fprintf(out, "%.1f ×", wall / floor);
        bool ok = fb_json_bool_or(error, "ok", false);
        fprintf(out, "<td class=%s>%.0e %s</tr>\n", ok ? "good" : "bad", fb_json_number_or(error, "max_rel", 0),
                ok ? "✓" : "✗");
    }
    fputs("</table></div>\n", out);
}

/* ---- bars of kernels, on one scale ---- */

static void put_bar(FILE *out, const char *kind, double value, double most)
{
    if (value > 0 && most > 0)
        fprintf(out, "<span class='bar %s' style='width:%.1f%%'></span>", kind, 100 * value / most);
}

static void put_kernels(const fb_output *o, FILE *out)
{
    size_t i, k;
    json_t *row, *kernel;
    double most_us = 0, most_bytes = 0;
    json_array_foreach(o->rows, i, row)
    {
        json_array_foreach(json_object_get(row, "kernels"), k, kernel)
        {
            most_us = fmax(most_us, median(kernel, "device_us"));
            most_bytes = fmax(most_bytes, moved(json_object_get(json_object_get(kernel, "bytes"), "modelled")));
        }
    }
    fputs("<h2>Kernels</h2><p class=dim>Time and modelled bytes, all columns on one scale.</p>\n", out);
    json_array_foreach(o->rows, i, row)
    {
        if (fb_json_string_or(row, "failed", NULL)) continue;
        fprintf(out, "<h3>%d ", (int)i + 1);
        put_name(out, row);
        fputs("</h3><table class=bars><tr><th>kernel<th>time<th><th>bytes<th></tr>\n", out);
        json_array_foreach(json_object_get(row, "kernels"), k, kernel)
        {
            double us = median(kernel, "device_us"),
                   bytes = moved(json_object_get(json_object_get(kernel, "bytes"), "modelled"));
            fputs("<tr><td>", out);
            put(out, fb_json_string_or(kernel, "name", "?"));
            int64_t count = fb_json_int_or(kernel, "count", 1);
            if (count > 1) fprintf(out, " ×%lld", (long long)count);
            fputs("<td>", out);
            put_us(out, us);
            fputs("<td>", out);
            put_bar(out, "time", us, most_us);
            fputs("<td>", out);
            put_bytes(out, bytes);
            fputs("<td>", out);
            put_bar(out, "bytes", bytes, most_bytes);
            fputs("</tr>\n", out);
        }
        fputs("</table>\n", out);
    }
}

/* ---- the roofline ---- */

enum { W = 680, H = 320, LEFT = 70, BOTTOM = 30 };

typedef struct {
    double x0, x1, y0, y1; /* logarithms */
} range;

static double at_x(const range *r, double x)
{
    return LEFT + (log10(x) - r->x0) / (r->x1 - r->x0) * (W - LEFT);
}

static double at_y(const range *r, double y)
{
    return (H - BOTTOM) * (1 - (log10(y) - r->y0) / (r->y1 - r->y0));
}

static void put_roofline(const fb_output *o, const fb_session *s, FILE *out)
{
    size_t i;
    json_t *row;
    range r = {INFINITY, -INFINITY, INFINITY, -INFINITY};
    const fb_machine *m = fb_session_columns(s) ? fb_session_column(s, 0)->machine : NULL;
    double bandwidth = 0, peak = m ? m->gflops[FB_F32] * 1e9 : NAN;
    json_array_foreach(o->rows, i, row)
    {
        double flops = fb_json_number_or(row, "flops", NAN), x = log10(flops / row_bytes(row)),
               y = log10(flops / median(row, "wall_us") * 1e6);
        if (!isfinite(x) || !isfinite(y)) continue;
        r = (range){fmin(r.x0, x - 1), fmax(r.x1, x + 1), fmin(r.y0, y - 1), fmax(r.y1, y + 1)};
    }
    if (!(r.x1 > r.x0)) return;
    for (int k = 0; m && k < m->copy_hot.n; k++) bandwidth = fmax(bandwidth, m->copy_hot.rate[k] * 1e9);
    for (int d = 0; m && d < FB_DTYPES; d++)
        for (int k = 0; k < m->gemm[d].n; k++) peak = fmax(peak, m->gemm[d].rate[k] * 1e9);
    if (isfinite(peak)) r.y1 = fmax(r.y1, log10(peak) + 0.3);
    fprintf(
        out,
        "<h2>Roofline</h2><svg viewBox='0 0 %d %d' width='100%%' role=img aria-label='FLOP/s against FLOPs a byte'>\n",
        W, H);
    fprintf(out, "<path class=axis fill=none d='M%d 0V%dH%d'/>\n", LEFT, H - BOTTOM, W);
    for (int e = (int)ceil(r.x0); e <= (int)floor(r.x1); e++)
        fprintf(out, "<text x='%.0f' y='%d' text-anchor=middle>%g FLOPs/byte</text>\n", at_x(&r, pow(10, e)), H - 10,
                pow(10, e));
    for (int e = (int)ceil(r.y0); e <= (int)floor(r.y1); e++)
        fprintf(out, "<text x='%d' y='%.0f' text-anchor=end>%g GFLOP/s</text>\n", LEFT - 6, at_y(&r, pow(10, e)),
                pow(10, e - 9));
    if (bandwidth > 0 && isfinite(peak)) {
        double knee = fmin(fmax(peak / bandwidth, pow(10, r.x0)), pow(10, r.x1)), left = pow(10, r.x0);
        fprintf(out, "<path class=roof d='M%.1f %.1fL%.1f %.1fH%d'/>\n", at_x(&r, left),
                at_y(&r, fmin(left * bandwidth, peak)), at_x(&r, knee), at_y(&r, fmin(knee * bandwidth, peak)), W);
    }
    json_array_foreach(o->rows, i, row)
    {
        double flops = fb_json_number_or(row, "flops", NAN), x = flops / row_bytes(row),
               y = flops / median(row, "wall_us") * 1e6;
        if (!(x > 0) || !(y > 0)) continue;
        fprintf(out, "<circle cx='%.1f' cy='%.1f' r=5 fill='var(--c%d)'/><text x='%.1f' y='%.1f'>%d</text>\n",
                at_x(&r, x), at_y(&r, y), (int)i % COLOURS, at_x(&r, x) + 8, at_y(&r, y) + 4, (int)i + 1);
    }
    fputs("</svg>\n", out);
}

/* ---- plans and sources ---- */

static void put_plan(const fb_column *c, FILE *out)
{
    fputs("<div class=plan>", out);
    for (int g = 0; g < fb_plan_groups(c->plan); g++) {
        const fb_group *group = fb_plan_group(c->plan, g);
        fprintf(out, "%s<div class=group style='border-color:var(--c%d)'><b>%s</b>",
                g ? "<span class=dim>→</span>" : "", g % COLOURS, fb_family_name(group->family));
        for (int i = 0; i < group->n_nodes && i < 12; i++) {
            put(out, i ? " · " : "");
            put(out, c->graph->nodes[group->nodes[i]].name);
        }
        if (group->n_nodes > 12) fprintf(out, " and %d more", group->n_nodes - 12);
        fputs("</div>", out);
    }
    fputs("</div>\n", out);
}

static void put_sources(const fb_column *c, FILE *out)
{
    fb_arena *arena = fb_arena_new();
    const fb_dialect *dialect = fb_dialect_find(c->machine && c->machine->kind == FB_DEVICE_CUDA ? "cuda" : "c");
    const char *before = "";
    fputs("<details><summary>source</summary><pre>", out);
    for (int g = 0; dialect && g < fb_plan_groups(c->plan); g++) {
        const char *text = fb_lower_group_source(c->plan, g, dialect, arena);
        if (!text || !strcmp(text, before)) continue; /* repetitions are alike */
        put(out, text);
        put(out, "\n");
        before = text;
    }
    fputs("</pre></details>\n", out);
    fb_arena_free(arena);
}

void fb_html_print(const fb_output *o, const fb_session *s, FILE *out)
{
    const fb_script_info *info = fb_session_script(s);
    const char *title = info && info->title && *info->title ? info->title : o->script, *device;
    json_t *told;
    fputs("<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>",
          out);
    put(out, title);
    fprintf(out, "</title><style>%s</style>\n<h1>", style);
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
    put_kernels(o, out);
    put_roofline(o, s, out);
    fputs("<h2>Plans</h2><p class=dim>Each box is a kernel, in the order of launching.</p>\n", out);
    for (int i = 0; i < fb_session_columns(s); i++) {
        const fb_column *c = fb_session_column(s, i);
        if (!c->plan || !c->graph) continue;
        fputs("<h3>", out);
        put(out, c->text);
        fputs("</h3>\n", out);
        put_plan(c, out);
        put_sources(c, out);
    }
    fputs("</html>\n", out);
}
