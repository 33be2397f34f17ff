#include "tui/picture.h"

#include "measure/compare.h"
#include "tui/figure.h"

#include "base/json.h"
#include "base/mem.h"
#include "measure/report.h"
#include "plan/machine.h"
#include "tui/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void fb_picture_free(fb_picture *p)
{
    fb_str_free(&p->body);
    *p = (fb_picture){0};
}

/* ---- text ---- */

void fb_xml_add(fb_str *out, const char *text)
{
    fb_str clean = {0};
    fb_str_add_clean(&clean, text, "\n\t"); /* XML has no other control characters, not even as entities */
    for (const char *p = fb_str_get(&clean);;) {
        size_t n = strcspn(p, "<>&\"'");
        fb_str_add_n(out, p, n);
        p += n;
        switch (*p) {
        case '<': fb_str_add(out, "&lt;"); break;
        case '>': fb_str_add(out, "&gt;"); break;
        case '&': fb_str_add(out, "&amp;"); break;
        case '"': fb_str_add(out, "&quot;"); break;
        case '\'': fb_str_add(out, "&#39;"); break;
        default: fb_str_free(&clean); return;
        }
        p++;
    }
}

enum { GLYPH = 68 }; /* tenths of a pixel: about the mean width of a character at 12 pixels */

int fb_picture_text_width(const char *text)
{
    return (fb_text_width(text) * GLYPH + 9) / 10;
}

/* The bytes of `text` that fit the room, whole characters. */
static size_t fitting(const char *text, int most)
{
    size_t n = 0;
    int width = 0;
    while (text[n]) {
        width += GLYPH;
        if (width > 10 * most - GLYPH) break; /* "…" wants its place */
        do n++;
        while (((unsigned char)text[n] & 0xc0) == 0x80);
    }
    return n;
}

void fb_picture_text(fb_picture *p, double x, double y, const char *class, const char *anchor, int most,
                     const char *text)
{
    fb_str_addf(&p->body, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" text-anchor=\"%s\">", x, y, class, anchor);
    if (most && fb_picture_text_width(text) > most) {
        char *cut = fb_strdup(text);
        cut[fitting(text, most)] = '\0';
        fb_xml_add(&p->body, cut);
        fb_str_add(&p->body, "…");
        fb_free(cut);
    } else {
        fb_xml_add(&p->body, text);
    }
    fb_str_add(&p->body, "</text>\n");
}

void fb_picture_tick(fb_picture *p, const fb_picture_frame *frame, bool vertical, double at, const char *text)
{
    if (vertical) {
        fb_str_addf(&p->body, "<path class=\"axis\" d=\"M%d %.1fH%d\"/>", frame->left, at, frame->right);
        fb_picture_text(p, frame->left - 6, at + 4, "dim", "end", 0, text);
    } else {
        fb_str_addf(&p->body, "<path class=\"axis\" d=\"M%.1f %dV%d\"/>", at, frame->top, frame->bottom);
        fb_picture_text(p, at, frame->bottom + 15, "dim", "middle", 0, text);
    }
}

/* ---- style and documents ---- */

typedef struct {
    const char *paper, *ink, *dim, *line, *time, *bytes, *colour[FB_PICTURE_COLOURS];
} palette;

static const palette light = {"#ffffff",
                              "#1c2024",
                              "#6b7280",
                              "#d9dde3",
                              "#2f7fb8",
                              "#a5763c",
                              {"#2f7fb8", "#3f8f4f", "#b9770e", "#8e44ad", "#148f8f", "#c0504d", "#8a8a2c", "#5b6abf"}};
static const palette dark = {"#16181c",
                             "#e4e6ea",
                             "#969ca6",
                             "#343a43",
                             "#5fafd7",
                             "#c8a06a",
                             {"#5fafff", "#87d787", "#ffaf5f", "#d787d7", "#5fd7d7", "#ff8787", "#d7d787", "#afafff"}};

/* Colours stand in plain rules and not in variables, which not every viewer of SVG knows. */
static void add_palette(fb_str *out, const palette *c)
{
    fb_str_addf(out,
                ".fb .paper,.fb .box{fill:%s}.fb text{fill:%s}.fb .dim{fill:%s}.fb .axis{stroke:%s;fill:none}"
                ".fb .roof,.fb .flow{stroke:%s;fill:none}.fb .tip{fill:%s}.fb .time{fill:%s}.fb .bytes{fill:%s}"
                ".fb .guess{fill-opacity:.45}.fb .hollow{fill:none}",
                c->paper, c->ink, c->dim, c->line, c->dim, c->dim, c->time, c->bytes);
    for (int i = 0; i < FB_PICTURE_COLOURS; i++)
        fb_str_addf(out, ".fb .f%d{fill:%s}.fb .s%d{stroke:%s}", i, c->colour[i], i, c->colour[i]);
}

void fb_picture_style(fb_str *out)
{
    fb_str_add(out, ".fb text{font:12px system-ui,sans-serif}.fb text.strong{font-weight:600}.fb text.small{font-size:"
                    "10.5px}.fb .box{stroke-width:2}.fb .again{stroke-dasharray:5 4}");
    add_palette(out, &light);
    fb_str_add(out, "@media(prefers-color-scheme:dark){");
    add_palette(out, &dark);
    fb_str_add(out, "}");
}

void fb_picture_inline(const fb_picture *p, const char *label, fb_str *out)
{
    if (!p->body.n) return;
    fb_str_addf(out, "<svg class=\"fb\" viewBox=\"0 0 %d %d\" width=\"%d\" style=\"max-width:100%%\" role=\"img\" ",
                p->w, p->h, p->w);
    fb_str_add(out, "aria-label=\"");
    fb_xml_add(out, label);
    fb_str_addf(out, "\">\n%s</svg>\n", fb_str_get(&p->body));
}

void fb_picture_document(const fb_picture *pictures, const char *const *titles, int n, fb_str *out)
{
    enum { MARGIN = 16, HEAD = 26 };
    int w = 320, h = MARGIN;
    for (int i = 0; i < n; i++) {
        if (!pictures[i].body.n) continue;
        if (pictures[i].w > w) w = pictures[i].w;
        h += HEAD + pictures[i].h + MARGIN;
    }
    fb_str_addf(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fb\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                "height=\"%d\">\n<style>",
                w + 2 * MARGIN, h, w + 2 * MARGIN, h);
    fb_picture_style(out);
    fb_str_addf(out, "</style>\n<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n", w + 2 * MARGIN, h);
    int y = MARGIN;
    for (int i = 0; i < n; i++) {
        fb_picture head = {0};
        if (!pictures[i].body.n) continue;
        fb_picture_text(&head, MARGIN, y + 13, "strong", "start", w, titles[i]);
        fb_str_addf(out, "%s<g transform=\"translate(%d %d)\">\n%s</g>\n", fb_str_get(&head.body), MARGIN, y + HEAD,
                    fb_str_get(&pictures[i].body));
        y += HEAD + pictures[i].h + MARGIN;
        fb_picture_free(&head);
    }
    fb_str_add(out, "</svg>\n");
}

/* ---- rows ---- */

static double median(const json_t *row, const char *key)
{
    return fb_json_number_or(json_object_get(row, key), "median", NAN);
}

static double moved(const json_t *of)
{
    const json_t *bytes = json_object_get(json_object_get(of, "bytes"), "modelled");
    return fb_json_number_or(bytes, "read", NAN) + fb_json_number_or(bytes, "written", NAN);
}

void fb_picture_row_name(const json_t *row, int number, fb_str *out)
{
    const char *variant = fb_json_string_or(row, "variant", ""), *name;
    json_t *value;
    fb_str_addf(out, "%d  %s%s%s@%s", number, variant, *variant ? ":" : "", fb_json_string_or(row, "plan", "?"),
                fb_json_string_or(row, "device", "?"));
    json_object_foreach(json_object_get(row, "params"), name, value)
    {
        char *text = json_is_string(value) ? fb_strdup(json_string_value(value)) : fb_json_line(value);
        fb_str_addf(out, "  %s=%s", name, text);
        fb_free(text);
    }
}

/* What the marks of figures mean, below all that is drawn. */
void fb_picture_legend(fb_picture *p)
{
    p->h += 20;
    fb_picture_text(p, 0, p->h - 6, "dim", "start", 0, fb_figure_legend);
    p->h += 16;
    fb_picture_text(p, 0, p->h - 6, "dim", "start", 0, "pale bars and hollow points are of these kinds");
}

/* ---- bars ---- */

enum { NAME = 250, FIGURE = 80, BAR = 170, LINE = 20, WIDTH = NAME + 2 * (FIGURE + BAR) + 10, MOST_BARS = 32 };

static void bar(fb_picture *p, double x, double y, const char *class, double value, double most, const char *figure)
{
    if (!isfinite(value)) return;
    fb_picture_text(p, x + FIGURE - 8, y + 14, "dim", "end", 0, figure);
    if (value > 0 && most > 0)
        fb_str_addf(&p->body, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"12\" rx=\"2\"/>\n",
                    class, x + FIGURE, y + 4, fmax(BAR * value / most, 0.5));
}

/* A kernel that was never run has the model's time. */
static double kernel_us(const json_t *kernel, fb_figure_source *kind)
{
    double us = median(kernel, "device_us");
    *kind = isfinite(us) ? fb_figure_kind(kernel) : FB_SOURCE_PREDICTED;
    return isfinite(us) ? us : fb_json_number_or(kernel, "predicted_us", NAN);
}

static void kernel_bars(fb_picture *p, const json_t *kernel, double most_us, double most_bytes)
{
    char text[48];
    fb_str name = {0};
    fb_figure_source kind;
    double us = kernel_us(kernel, &kind), bytes = moved(kernel);
    int64_t count = fb_json_int_or(kernel, "count", 1);
    char brief[96];
    fb_str_add(&name, fb_kernel_short_name(brief, sizeof brief, fb_json_string_or(kernel, "name", "?")));
    if (count > 1) fb_str_addf(&name, " ×%lld", (long long)count);
    fb_picture_text(p, 12, p->h + 14, "", "start", NAME - 16, fb_str_get(&name));
    bar(p, NAME, p->h, *fb_figure_sign(kind) ? "time guess" : "time", us, most_us,
        fb_figure_write(text, us, FB_UNIT_US, kind));
    bar(p, NAME + FIGURE + BAR, p->h, "bytes", bytes, most_bytes, isfinite(bytes) ? fb_format_bytes(text, bytes) : "");
    p->h += LINE;
    fb_str_free(&name);
}

/* Times of different devices have no scale in common. */
static double longest_on(const json_t *rows, const json_t *of)
{
    size_t i, k;
    json_t *row, *kernel;
    double most = 0;
    fb_figure_source kind;
    json_array_foreach((json_t *)rows, i, row)
    {
        if (fb_not_comparable(fb_json_string_or(row, "device", NULL), NULL, fb_json_string_or(of, "device", NULL),
                              NULL))
            continue;
        json_array_foreach(json_object_get(row, "kernels"), k, kernel) most = fmax(most, kernel_us(kernel, &kind));
    }
    return most;
}

void fb_picture_bars(fb_picture *p, const json_t *rows)
{
    size_t i, k;
    json_t *row, *kernel;
    double most_bytes = 0;
    int drawn = 0;
    bool guesses = false;
    json_array_foreach((json_t *)rows, i, row)
    {
        json_array_foreach(json_object_get(row, "kernels"), k, kernel)
        {
            fb_figure_source kind;
            if (isfinite(kernel_us(kernel, &kind))) guesses |= *fb_figure_sign(kind) != '\0';
            most_bytes = fmax(most_bytes, moved(kernel));
            drawn++;
        }
    }
    if (!drawn) return;
    p->w = WIDTH;
    p->h = LINE;
    fb_picture_text(p, NAME + FIGURE, 14, "dim", "start", 0, "time");
    fb_picture_text(p, NAME + 2 * FIGURE + BAR, 14, "dim", "start", 0, "bytes (modelled)");
    json_array_foreach((json_t *)rows, i, row)
    {
        const json_t *kernels = json_object_get(row, "kernels");
        fb_str name = {0};
        if (!json_array_size(kernels)) continue;
        fb_picture_row_name(row, (int)i + 1, &name);
        fb_picture_text(p, 0, p->h + 15, "strong", "start", WIDTH, fb_str_get(&name));
        p->h += LINE;
        json_array_foreach((json_t *)kernels, k, kernel)
        {
            if (k == MOST_BARS) break;
            kernel_bars(p, kernel, longest_on(rows, row), most_bytes);
        }
        if (json_array_size(kernels) > MOST_BARS) {
            fb_str_clear(&name);
            fb_str_addf(&name, "and %d more", (int)json_array_size(kernels) - MOST_BARS);
            fb_picture_text(p, 12, p->h + 14, "dim", "start", 0, fb_str_get(&name));
            p->h += LINE;
        }
        fb_str_free(&name);
        p->h += 6;
    }
    if (guesses) fb_picture_legend(p);
}

/* ---- points in two logarithms ---- */

enum { PLOT_H = 320, LEFT = 84, BOTTOM = 34, RIGHT = 12, TOP = 8 };

typedef struct {
    double x0, x1, y0, y1; /* logarithms */
    void (*x_text)(char to[32], double v), (*y_text)(char to[32], double v);
} axes;

static double at_x(const axes *a, double x)
{
    return LEFT + (log10(x) - a->x0) / (a->x1 - a->x0) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const axes *a, double y)
{
    return TOP + (PLOT_H - BOTTOM - TOP) * (1 - (log10(y) - a->y0) / (a->y1 - a->y0));
}

static void us_text(char to[32], double v)
{
    fb_format_us(to, v);
}

static void bytes_text(char to[32], double v)
{
    fb_format_bytes(to, v);
}

static void intensity_text(char to[32], double v)
{
    snprintf(to, 32, "%g", v);
}

static void rate_text(char to[32], double v)
{
    if (v < 1e9)
        snprintf(to, 32, "%g MFLOP/s", v / 1e6);
    else if (v < 1e12)
        snprintf(to, 32, "%g GFLOP/s", v / 1e9);
    else
        snprintf(to, 32, "%g TFLOP/s", v / 1e12);
}

static void widen(axes *a, double x, double y)
{
    if (!isfinite(log10(x)) || !isfinite(log10(y))) return;
    a->x0 = fmin(a->x0, log10(x));
    a->x1 = fmax(a->x1, log10(x));
    a->y0 = fmin(a->y0, log10(y));
    a->y1 = fmax(a->y1, log10(y));
}

/* A little room on every side, and at least a decade. False: there is no point. */
static bool settle(axes *a)
{
    if (!(a->x1 >= a->x0)) return false;
    double x = (a->x0 + a->x1) / 2, y = (a->y0 + a->y1) / 2, half_x = fmax((a->x1 - a->x0) * 0.6, 0.6),
           half_y = fmax((a->y1 - a->y0) * 0.6, 0.6);
    a->x0 = x - half_x, a->x1 = x + half_x;
    a->y0 = y - half_y, a->y1 = y + half_y;
    return true;
}

static void draw_ticks(fb_picture *p, const axes *a, bool vertical)
{
    static const double steps[] = {1, 2, 5};
    static const fb_picture_frame frame = {LEFT, WIDTH - RIGHT, TOP, PLOT_H - BOTTOM};
    double low = vertical ? a->y0 : a->x0, high = vertical ? a->y1 : a->x1;
    int n = high - low > 2.2 ? 1 : 3; /* decades alone, where there are enough */
    for (int e = (int)floor(low); e <= (int)floor(high); e++)
        for (int i = 0; i < n; i++) {
            char text[32];
            double v = steps[i] * pow(10, e);
            if (log10(v) < low || log10(v) > high) continue;
            (vertical ? a->y_text : a->x_text)(text, v);
            fb_picture_tick(p, &frame, vertical, vertical ? at_y(a, v) : at_x(a, v), text);
        }
}

static void draw_axes(fb_picture *p, const axes *a, const char *x_title, const char *y_title)
{
    p->w = WIDTH;
    p->h = PLOT_H;
    draw_ticks(p, a, false);
    draw_ticks(p, a, true);
    fb_str_addf(&p->body, "<path class=\"roof\" d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP, PLOT_H - BOTTOM, WIDTH - RIGHT);
    fb_picture_text(p, WIDTH - RIGHT, PLOT_H - 4, "dim", "end", 0, x_title);
    fb_picture_text(p, LEFT + 6, TOP + 10, "dim", "start", 0, y_title);
}

static void draw_point(fb_picture *p, const axes *a, double x, double y, int number)
{
    char text[16];
    if (!isfinite(log10(x)) || !isfinite(log10(y))) return;
    snprintf(text, sizeof text, "%d", number);
    fb_str_addf(&p->body, "<circle class=\"f%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"/>", (number - 1) % FB_PICTURE_COLOURS,
                at_x(a, x), at_y(a, y));
    fb_picture_text(p, at_x(a, x) + 8, at_y(a, y) - 5, "", "start", 0, text);
}

/* Which number is which row, below the plot. */
static void draw_legend(fb_picture *p, const json_t *rows)
{
    enum { MOST = 40 };
    size_t i;
    json_t *row;
    p->h += 8;
    json_array_foreach((json_t *)rows, i, row)
    {
        fb_str name = {0};
        if (i == MOST) break;
        if (fb_json_string_or(row, "failed", NULL)) continue;
        fb_picture_row_name(row, (int)i + 1, &name);
        fb_str_addf(&p->body, "<circle class=\"f%d\" cx=\"%d\" cy=\"%d\" r=\"4\"/>", (int)i % FB_PICTURE_COLOURS,
                    LEFT + 5, p->h + 8);
        fb_picture_text(p, LEFT + 16, p->h + 12, "", "start", WIDTH - LEFT - 16, fb_str_get(&name));
        p->h += LINE - 2;
        fb_str_free(&name);
    }
}

/* A curve over the whole width, from what it is at a place. */
static void draw_curve(fb_picture *p, const axes *a, const fb_machine *m, double (*of)(const fb_machine *m, double x))
{
    enum { STEPS = 120 };
    bool drawing = false;
    fb_str_add(&p->body, "<path class=\"roof\" d=\"");
    for (int i = 0; i <= STEPS; i++) {
        double x = pow(10, a->x0 + (a->x1 - a->x0) * i / STEPS), y = of(m, x);
        bool inside = log10(y) >= a->y0 && log10(y) <= a->y1;
        if (inside) fb_str_addf(&p->body, "%s%.1f %.1f", drawing ? "L" : "M", at_x(a, x), at_y(a, y));
        drawing = inside;
    }
    fb_str_add(&p->body, "\"/>\n");
}

static double peak_of(const fb_machine *m)
{
    double peak = m->gflops[FB_F32];
    for (int d = 0; d < FB_DTYPES; d++)
        for (int i = 0; i < m->gemm[d].n; i++) peak = fmax(peak, m->gemm[d].rate[i]);
    return peak * 1e9;
}

static double roof_at(const fb_machine *m, double intensity)
{
    double bandwidth = 0;
    for (int i = 0; i < m->copy_hot.n; i++) bandwidth = fmax(bandwidth, m->copy_hot.rate[i] * 1e9);
    return fmin(intensity * bandwidth, peak_of(m));
}

/* The roofs of all devices that are known well enough to have one. */
static void draw_roofs(fb_picture *p, const axes *a, const json_t *devices, double (*of)(const fb_machine *m, double x))
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)devices, name, value)
    {
        fb_machine m;
        fb_error err = {0};
        if (!json_object_get(value, "copy_hot") || !fb_machine_from_json(&m, value, &err)) continue;
        draw_curve(p, a, &m, of);
    }
}

/* What the roof allows at the right end should be in sight. */
static void show_roofs(axes *a, const json_t *devices)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)devices, name, value)
    {
        fb_machine m;
        fb_error err = {0};
        if (!json_object_get(value, "copy_hot") || !fb_machine_from_json(&m, value, &err)) continue;
        double roof = log10(roof_at(&m, pow(10, a->x1)));
        if (isfinite(roof)) a->y1 = fmax(a->y1, roof + 0.2);
    }
}

void fb_picture_roofline(fb_picture *p, const json_t *rows, const json_t *devices)
{
    size_t i;
    json_t *row;
    axes a = {INFINITY, -INFINITY, INFINITY, -INFINITY, intensity_text, rate_text};
    json_array_foreach((json_t *)rows, i, row)
    {
        double flops = fb_json_number_or(row, "flops", NAN);
        widen(&a, flops / moved(row), flops / median(row, "wall_us") * 1e6);
    }
    if (!settle(&a)) return;
    show_roofs(&a, devices);
    draw_axes(p, &a, "FLOPs a byte (modelled)", "");
    draw_roofs(p, &a, devices, roof_at);
    json_array_foreach((json_t *)rows, i, row)
    {
        double flops = fb_json_number_or(row, "flops", NAN);
        draw_point(p, &a, flops / moved(row), flops / median(row, "wall_us") * 1e6, (int)i + 1);
    }
    draw_legend(p, rows);
}

void fb_picture_scatter(fb_picture *p, const json_t *rows, const json_t *devices)
{
    size_t i;
    json_t *row;
    axes a = {INFINITY, -INFINITY, INFINITY, -INFINITY, bytes_text, us_text};
    json_array_foreach((json_t *)rows, i, row) widen(&a, moved(row), median(row, "wall_us"));
    if (!settle(&a)) return;
    draw_axes(p, &a, "bytes moved (modelled)", "");
    draw_roofs(p, &a, devices, fb_memory_us);
    json_array_foreach((json_t *)rows, i, row) draw_point(p, &a, moved(row), median(row, "wall_us"), (int)i + 1);
    draw_legend(p, rows);
}
