/* SVG of rows and figures. Needs rows of a results file; leaves text that stands by itself. */
#include "tui/show/picture.h"

#include "measure/compare.h"
#include "tui/show/figure.h"

#include "base/json.h"
#include "base/mem.h"
#include "measure/report.h"
#include "target/machine.h"
#include "tui/show/html.h"
#include "tui/term/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void fb_picture_free(fb_picture *p)
{
    fb_str_free(&p->body);
    *p = (fb_picture){0};
}

/* ---- text ---- */

enum { GLYPH = 68 }; /* tenths of a pixel: about the mean width of a character at 12 pixels */

int fb_picture_text_width(const char *text)
{
    return (fb_draw_text_width(text) * GLYPH + 9) / 10;
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

void fb_picture_hover(fb_picture *p, const char *text)
{
    fb_str_add(&p->body, "<title>");
    fb_xml_add(&p->body, text);
    fb_str_add(&p->body, "</title>");
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
    const char *paper, *ink, *dim, *line, *time, *bytes, *gain, *loss, *colour[FB_PICTURE_COLOURS];
} palette;

static const palette light = {
    "#ffffff", "#1c2024", "#6b7280",
    "#d9dde3", "#2f7fb8", "#a5763c",
    "#3f8f4f", "#c0504d", {"#2f7fb8", "#3f8f4f", "#b9770e", "#8e44ad", "#148f8f", "#c0504d", "#8a8a2c", "#5b6abf"}};
static const palette dark = {
    "#16181c", "#e4e6ea", "#969ca6",
    "#343a43", "#5fafd7", "#c8a06a",
    "#6fbf73", "#e57f78", {"#5fafff", "#87d787", "#ffaf5f", "#d787d7", "#5fd7d7", "#ff8787", "#d7d787", "#afafff"}};

/* Colours stand in plain rules and not in variables, which not every viewer of SVG knows. */
static void add_palette(fb_str *out, const palette *c)
{
    fb_str_addf(out,
                ".fb .paper,.fb .box{fill:%s}.fb text{fill:%s}.fb .dim{fill:%s}.fb .axis{stroke:%s;fill:none}"
                ".fb .roof,.fb .flow{stroke:%s;fill:none}.fb .tip{fill:%s}.fb .time{fill:%s}.fb .bytes{fill:%s}"
                ".fb .gain{fill:%s}.fb .loss{fill:%s}.fb .rest{fill:%s}.fb .spread{stroke:%s;fill:none}"
                ".fb .guess{fill-opacity:.45}",
                c->paper, c->ink, c->dim, c->line, c->dim, c->dim, c->time, c->bytes, c->gain, c->loss, c->dim, c->ink);
    for (int i = 0; i < FB_PICTURE_COLOURS; i++)
        fb_str_addf(out, ".fb .f%d{fill:%s}.fb .s%d{stroke:%s}", i, c->colour[i], i, c->colour[i]);
    fb_str_addf(out, ".fb .hollow{fill:%s}", c->paper); /* after the colours, which it outweighs */
}

void fb_picture_style(fb_str *out)
{
    fb_str_add(out, ".fb text{font:12px system-ui,sans-serif}.fb text.strong{font-weight:600}.fb text.small{font-size:"
                    "10.5px}.fb .box{stroke-width:2}.fb .again{stroke-dasharray:5 4}");
    add_palette(out, &light);
    fb_str_add(out, "@media screen and (prefers-color-scheme:dark){"); /* paper is white */
    add_palette(out, &dark);
    fb_str_add(out, "}");
}

void fb_picture_inline(const fb_picture *p, const char *label, fb_str *out)
{
    if (!p->body.n) return;
    fb_str_addf(out,
                "<svg class=\"fb\" viewBox=\"0 0 %d %d\" width=\"%d\" style=\"max-width:100%%\" "
                "preserveAspectRatio=\"xMinYMin\" role=\"img\" ",
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

static double moved(const json_t *of)
{
    const json_t *bytes = json_object_get(json_object_get(of, "bytes"), "modelled");
    return fb_json_number_or(bytes, "read", NAN) + fb_json_number_or(bytes, "written", NAN);
}

void fb_picture_row_name(const json_t *row, int number, const json_t *params, fb_str *out)
{
    const char *variant = fb_json_string_or(row, "variant", ""), *values = fb_json_string_or(row, "values", ""), *name;
    json_t *value;
    fb_str_addf(out, "%d  %s%s%s@%s%s%s", number, variant, *variant ? ":" : "", fb_json_string_or(row, "plan", "?"),
                fb_json_string_or(row, "device", "?"), *values ? "#" : "", values);
    json_object_foreach((json_t *)params, name, value)
    {
        char *text = fb_figure_plain(json_object_get(json_object_get(row, "params"), name));
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

static void spread_legend(fb_picture *p)
{
    p->h += 20;
    fb_picture_text(p, 0, p->h - 6, "dim", "start", 0,
                    "a thin line over a bar's end or a point: the middle 80 % of its times (p10–p90)");
}

/* "31.7 µs (31.2–32.5 µs), recorded" */
static void add_time(fb_str *out, double us, const fb_stat *s, fb_figure_source kind)
{
    char text[48];
    fb_str_add(out, fb_figure_write(text, us, FB_UNIT_US, kind));
    if (*fb_figure_spread(text, s, kind)) fb_str_addf(out, " (%s)", text);
    fb_str_addf(out, ", %s", fb_report_source_name(kind));
}

static bool has_spread(const fb_stat *s, fb_figure_source kind)
{
    char text[48];
    return *fb_figure_spread(text, s, kind) && s->p90 > s->p10;
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
    double us = fb_figure_stat(kernel, "device_us").median;
    *kind = isfinite(us) ? fb_figure_kind(kernel) : FB_SOURCE_PREDICTED;
    return isfinite(us) ? us : fb_json_number_or(kernel, "predicted_us", NAN);
}

/* What is known of a kernel, for the pointer. */
static void kernel_text(const json_t *kernel, fb_str *out)
{
    static const struct {
        const char *key, *before, *after;
        fb_unit unit;
    } more[] = {{"registers", "", " registers a thread", FB_UNIT_COUNT},
                {"shared_bytes", "", " shared a block", FB_UNIT_BYTES},
                {"spill_bytes", "", " spilled a thread", FB_UNIT_BYTES},
                {"flops", "", " FLOPs", FB_UNIT_COUNT}};
    char text[48];
    fb_figure_source kind;
    double us = kernel_us(kernel, &kind), bytes = moved(kernel),
           occupancy = fb_json_number_or(kernel, "occupancy", NAN);
    fb_stat s = fb_figure_stat(kernel, "device_us");
    fb_str_addf(out, "%s · %s\n", fb_json_string_or(kernel, "name", "?"), fb_json_string_or(kernel, "family", ""));
    if (isfinite(us)) add_time(out, us, &s, kind);
    if (isfinite(bytes))
        fb_str_addf(out, "\n%s moved (modelled)", fb_figure_write(text, bytes, FB_UNIT_BYTES, FB_SOURCE_MEASURED));
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        double v = fb_json_number_or(kernel, more[i].key, NAN);
        if (v > 0)
            fb_str_addf(out, "\n%s%s%s", more[i].before, fb_figure_write(text, v, more[i].unit, FB_SOURCE_MEASURED),
                        more[i].after);
    }
    if (isfinite(occupancy)) fb_str_addf(out, "\noccupancy %.0f %%", 100 * occupancy);
    if (fb_json_string_or(kernel, "moved_more", NULL))
        fb_str_addf(out, "\n%s", fb_json_string_or(kernel, "moved_more", ""));
}

static void kernel_bars(fb_picture *p, const json_t *kernel, double most_us, double most_bytes)
{
    char text[48];
    fb_str name = {0};
    fb_figure_source kind;
    fb_stat s = fb_figure_stat(kernel, "device_us");
    double us = kernel_us(kernel, &kind), bytes = moved(kernel);
    int64_t count = fb_json_int_or(kernel, "count", 1);
    char brief[96];
    fb_str_add(&p->body, "<g>");
    kernel_text(kernel, &name);
    fb_picture_hover(p, fb_str_get(&name));
    fb_str_clear(&name);
    fb_str_add(&name, fb_kernel_short_name(brief, sizeof brief, fb_json_string_or(kernel, "name", "?")));
    if (count > 1) fb_str_addf(&name, " ×%lld", (long long)count);
    fb_picture_text(p, 12, p->h + 14, "", "start", NAME - 16, fb_str_get(&name));
    bar(p, NAME, p->h, *fb_figure_sign(kind) ? "time guess" : "time", us, most_us,
        fb_figure_write(text, us, FB_UNIT_US, kind));
    if (has_spread(&s, kind))
        fb_str_addf(&p->body, "<path class=\"spread\" d=\"M%.1f %dH%.1f\"/>", NAME + FIGURE + BAR * s.p10 / most_us,
                    p->h + 10, NAME + FIGURE + BAR * fmin(s.p90 / most_us, 1.05));
    bar(p, NAME + FIGURE + BAR, p->h, "bytes", bytes, most_bytes,
        fb_figure_write(text, bytes, FB_UNIT_BYTES, FB_SOURCE_MEASURED));
    fb_str_add(&p->body, "</g>\n");
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
        if (fb_not_comparable((fb_compared){.device = fb_json_string_or(row, "device", NULL)},
                              (fb_compared){.device = fb_json_string_or(of, "device", NULL)}))
            continue;
        json_array_foreach(json_object_get(row, "kernels"), k, kernel) most = fmax(most, kernel_us(kernel, &kind));
    }
    return most;
}

/* What all rows have in common: where the scale of bytes ends, and which marks there are. */
typedef struct {
    double most_bytes;
    bool guesses, spreads;
} bars;

static bars survey(const json_t *rows)
{
    size_t i, k;
    json_t *row, *kernel;
    bars b = {0};
    json_array_foreach((json_t *)rows, i, row)
    {
        json_array_foreach(json_object_get(row, "kernels"), k, kernel)
        {
            fb_figure_source kind;
            fb_stat stat = fb_figure_stat(kernel, "device_us");
            if (isfinite(kernel_us(kernel, &kind))) b.guesses |= *fb_figure_sign(kind) != '\0';
            b.spreads |= has_spread(&stat, kind);
            b.most_bytes = fmax(b.most_bytes, moved(kernel));
        }
    }
    return b;
}

static void row_bars(fb_picture *p, const json_t *rows, size_t i, const json_t *varying, const bars *b)
{
    const json_t *row = json_array_get(rows, i), *kernels = json_object_get(row, "kernels");
    double most_us = longest_on(rows, row);
    size_t k;
    json_t *kernel;
    fb_str name = {0};
    fb_picture_row_name(row, (int)i + 1, varying, &name);
    fb_picture_text(p, 0, p->h + 15, "strong", "start", WIDTH, fb_str_get(&name));
    p->h += LINE;
    json_array_foreach((json_t *)kernels, k, kernel)
    {
        if (k == MOST_BARS) break;
        kernel_bars(p, kernel, most_us, b->most_bytes);
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

void fb_picture_bars(fb_picture *p, const json_t *rows, int only)
{
    size_t i;
    json_t *row, *varying = fb_figure_params(rows, true);
    bars b = survey(rows);
    bool headed = false;
    json_array_foreach((json_t *)rows, i, row)
    {
        if (!json_array_size(json_object_get(row, "kernels"))) continue;
        if (only != FB_NONE && only != (int)i) {
            headed = true; /* by the first one, which stands above */
            continue;
        }
        if (!p->w) p->w = WIDTH;
        if (!headed) {
            p->h = LINE;
            fb_picture_text(p, NAME + FIGURE, 14, "dim", "start", 0, "time");
            fb_picture_text(p, NAME + 2 * FIGURE + BAR, 14, "dim", "start", 0, "bytes (modelled)");
            headed = true;
        }
        row_bars(p, rows, i, varying, &b);
    }
    if (p->w && only == FB_NONE && b.guesses) fb_picture_legend(p);
    if (p->w && only == FB_NONE && b.spreads) spread_legend(p);
    json_decref(varying);
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

/* A row as a point: its times are between `low` and `high` along y; NAN: no spread is known. */
typedef struct {
    int number;
    double x, y, low, high;
    fb_figure_source kind;
    char *text; /* for the pointer; its first line names the row */
} point;

/* Where the number of point i has most room: beside it, away from other points and their numbers. */
static void number_point(fb_picture *p, const axes *a, const point *all, int n, int i, double (*at)[2])
{
    static const int around[][2] = {{8, -5}, {8, 14}, {-15, -5}, {-15, 14}, {-4, -10}, {-4, 19}};
    enum { PLACES = sizeof around / sizeof *around, FREE = 12, CROWD = 200 }; /* of a crowd nobody reads numbers */
    char text[16];
    double x = at_x(a, all[i].x), y = at_y(a, all[i].y), most = -1;
    for (int k = 0; k < PLACES && most < FREE; k++) {
        double cx = x + around[k][0] + 4, cy = y + around[k][1] - 4, room = FREE;
        for (int j = 0; j < n && n <= CROWD; j++) {
            if (j != i) room = fmin(room, hypot(at_x(a, all[j].x) - cx, at_y(a, all[j].y) - cy));
            if (j < i) room = fmin(room, hypot(at[j][0] - cx, at[j][1] - cy));
        }
        if (room <= most) continue;
        most = room;
        at[i][0] = cx;
        at[i][1] = cy;
    }
    snprintf(text, sizeof text, "%d", all[i].number);
    fb_picture_text(p, at[i][0] - 4, at[i][1] + 4, "", "start", 0, text);
}

static void draw_points(fb_picture *p, const axes *a, const point *all, int n)
{
    double(*at)[2] = fb_calloc((size_t)n + 1, sizeof *at); /* where their numbers stand */
    for (int i = 0; i < n; i++) {
        int colour = (all[i].number - 1) % FB_PICTURE_COLOURS;
        double x = at_x(a, all[i].x);
        fb_str_add(&p->body, "<g>");
        fb_picture_hover(p, all[i].text);
        if (isfinite(all[i].low) && isfinite(all[i].high))
            fb_str_addf(&p->body, "<path class=\"spread\" d=\"M%.1f %.1fV%.1f\"/>", x,
                        fmin(at_y(a, all[i].low), PLOT_H - BOTTOM), fmax(at_y(a, all[i].high), TOP));
        fb_str_addf(&p->body, "<circle class=\"f%d s%d%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"/>", colour, colour,
                    *fb_figure_sign(all[i].kind) ? " hollow" : "", x, at_y(a, all[i].y));
        number_point(p, a, all, n, i, at);
        fb_str_add(&p->body, "</g>\n");
    }
    fb_free(at);
}

/* Which number is which row, below the plot. */
static void draw_legend(fb_picture *p, const point *all, int n)
{
    enum { MOST = 40 };
    p->h += 8;
    for (int i = 0; i < n && i < MOST; i++) {
        char *name = fb_strdup(all[i].text); /* its first line */
        int colour = (all[i].number - 1) % FB_PICTURE_COLOURS;
        name[strcspn(name, "\n")] = '\0';
        fb_str_addf(&p->body, "<circle class=\"f%d s%d%s\" cx=\"%d\" cy=\"%d\" r=\"4\"/>", colour, colour,
                    *fb_figure_sign(all[i].kind) ? " hollow" : "", LEFT + 5, p->h + 8);
        fb_picture_text(p, LEFT + 16, p->h + 12, "", "start", WIDTH - LEFT - 16, name);
        p->h += LINE - 2;
        fb_free(name);
    }
}

/* A curve over the whole width, from what it is at a place, with its device's name at the right end. */
static void draw_curve(fb_picture *p, const axes *a, const fb_machine *m, const char *name,
                       double (*of)(const fb_machine *m, double x))
{
    enum { STEPS = 120, ROOM = 220 };
    bool drawing = false;
    double end = of(m, pow(10, a->x1));
    fb_str_add(&p->body, "<path class=\"roof\" d=\"");
    for (int i = 0; i <= STEPS; i++) {
        double x = pow(10, a->x0 + (a->x1 - a->x0) * i / STEPS), y = of(m, x);
        bool inside = log10(y) >= a->y0 && log10(y) <= a->y1;
        if (inside) fb_str_addf(&p->body, "%s%.1f %.1f", drawing ? "L" : "M", at_x(a, x), at_y(a, y));
        drawing = inside;
    }
    fb_str_add(&p->body, "\"/>\n");
    if (!(log10(end) >= a->y0 && log10(end) <= a->y1)) return;
    double y = at_y(a, end); /* above the line, which rises, where there is room */
    fb_picture_text(p, WIDTH - RIGHT - 4, y > TOP + 24 ? y - 7 : y + 24, "dim small", "end", ROOM, name);
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

/* Is the device known well enough to have a roof? */
static bool has_roof(const json_t *device, fb_machine *m)
{
    fb_error err = {0};
    return json_object_get(device, "copy_hot") && fb_machine_from_json(m, device, &err);
}

/* The roofs of all devices that have one. */
static void draw_roofs(fb_picture *p, const axes *a, const json_t *devices, double (*of)(const fb_machine *m, double x))
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)devices, name, value)
    {
        fb_machine m;
        if (has_roof(value, &m)) draw_curve(p, a, &m, name, of);
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
        if (!has_roof(value, &m)) continue;
        double roof = log10(roof_at(&m, pow(10, a->x1)));
        if (isfinite(roof)) a->y1 = fmax(a->y1, roof + 0.2);
    }
}

/* A row where it stands: what it takes, or what it computes a second (`rate`), against what it moves or computes a
 * byte. False when one is not known. */
static bool point_of(const json_t *row, int number, const json_t *varying, bool rate, point *to)
{
    double flops = fb_json_number_or(row, "flops", NAN), bytes = moved(row);
    fb_stat wall = fb_figure_stat(row, "wall_us");
    char text[48];
    *to = (point){.number = number, .low = NAN, .high = NAN, .kind = fb_figure_kind(row)};
    to->x = rate ? flops / bytes : bytes;
    to->y = rate ? flops / wall.median * 1e6 : wall.median;
    if (!isfinite(log10(to->x)) || !isfinite(log10(to->y))) return false;
    if (has_spread(&wall, to->kind)) {
        to->low = rate ? flops / wall.p90 * 1e6 : wall.p10;
        to->high = rate ? flops / wall.p10 * 1e6 : wall.p90;
    }
    fb_str says = {0};
    fb_picture_row_name(row, number, varying, &says);
    fb_str_add(&says, "\nwall ");
    add_time(&says, wall.median, &wall, to->kind);
    fb_str_addf(&says, "\n%s moved (modelled)", fb_figure_write(text, bytes, FB_UNIT_BYTES, FB_SOURCE_MEASURED));
    if (rate) {
        char speed[32];
        rate_text(speed, round(to->y / 1e7) * 1e7);
        fb_str_addf(&says, "\n%s%s, %.3g FLOPs a byte", fb_figure_sign(to->kind), speed, to->x);
    }
    to->text = fb_str_take(&says);
    return true;
}

static void draw_plot(fb_picture *p, axes a, const json_t *rows, const json_t *devices, bool rate)
{
    size_t i;
    json_t *row, *varying = fb_figure_params(rows, true);
    point *all = fb_calloc(json_array_size(rows) + 1, sizeof *all);
    int n = 0;
    bool guesses = false, spreads = false;
    json_array_foreach((json_t *)rows, i, row)
    {
        if (!point_of(row, (int)i + 1, varying, rate, &all[n])) continue;
        widen(&a, all[n].x, all[n].y);
        guesses |= *fb_figure_sign(all[n].kind) != '\0';
        spreads |= isfinite(all[n].low);
        n++;
    }
    if (settle(&a)) {
        if (rate) show_roofs(&a, devices);
        draw_axes(p, &a, rate ? "FLOPs a byte (modelled)" : "bytes moved (modelled)", "");
        draw_roofs(p, &a, devices, rate ? roof_at : fb_memory_us);
        draw_points(p, &a, all, n);
        draw_legend(p, all, n);
        if (guesses) fb_picture_legend(p);
        if (spreads) spread_legend(p);
    }
    for (int k = 0; k < n; k++) fb_free(all[k].text);
    fb_free(all);
    json_decref(varying);
}

void fb_picture_roofline(fb_picture *p, const json_t *rows, const json_t *devices)
{
    draw_plot(p, (axes){INFINITY, -INFINITY, INFINITY, -INFINITY, intensity_text, rate_text}, rows, devices, true);
}

void fb_picture_scatter(fb_picture *p, const json_t *rows, const json_t *devices)
{
    draw_plot(p, (axes){INFINITY, -INFINITY, INFINITY, -INFINITY, bytes_text, us_text}, rows, devices, false);
}
