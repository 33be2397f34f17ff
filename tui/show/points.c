/* Picks the points that a plot shows from its rows, groups them, and scales them to an axis. Pure. */
#include "tui/show/points.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

json_t *fb_plot_flat(const json_t *row)
{
    json_t *flat = json_object(), *which = json_object_get(row, "case");
    json_object_update(flat, which);
    json_object_del(flat, "params");
    if (json_object_get(which, "params")) json_object_update(flat, json_object_get(which, "params"));
    if (json_object_get(row, "row")) json_object_update(flat, json_object_get(row, "row"));
    if (json_object_get(row, "source")) json_object_set(flat, "source", json_object_get(row, "source"));
    return flat;
}

/* ---- rows that have what is plotted ---- */

static void add_value(fb_str *out, const json_t *value)
{
    char *line = json_is_string(value) ? fb_strdup(json_string_value(value)) : fb_json_line(value);
    fb_str_add(out, line);
    fb_free(line);
}

char *fb_plot_case_name(const json_t *row)
{
    const json_t *which = json_object_get(row, "case");
    const char *variant = fb_json_string_or(which, "variant", ""), *device = fb_json_string_or(which, "device", ""),
               *key;
    json_t *value;
    fb_str out = {0};
    fb_str_addf(&out, "%s%s%s%s%s", variant, *variant ? ":" : "", fb_json_string_or(which, "plan", ""),
                *device ? "@" : "", device);
    json_object_foreach(json_object_get(which, "params"), key, value)
    {
        fb_str_addf(&out, "%s%s=", strchr(fb_str_get(&out), '=') ? " " : "  ", key);
        add_value(&out, value);
    }
    char *name = fb_strdup(fb_str_get(&out));
    fb_str_free(&out);
    return name;
}

/* The values of the keys of `by`, which is one name or a list of them. */
static char *name_of_group(const json_t *flat, const json_t *by)
{
    fb_str out = {0};
    size_t n = json_is_array(by) ? json_array_size(by) : 1;
    for (size_t i = 0; by && i < n; i++) {
        const char *key = json_string_value(json_is_array(by) ? json_array_get(by, i) : by);
        const json_t *value = key ? json_object_get(flat, key) : NULL;
        if (i) fb_str_add(&out, " ");
        if (value) add_value(&out, value);
    }
    char *name = fb_strdup(fb_str_get(&out));
    fb_str_free(&out);
    return name;
}

static double figure(const json_t *flat, const json_t *plot, const char *what)
{
    const char *key = fb_json_string_or(plot, what, NULL);
    return key ? fb_json_number_or(flat, key, NAN) : NAN;
}

bool fb_plot_is_ranking(const json_t *plot)
{
    return !fb_json_string_or(plot, "x", NULL) && fb_json_string_or(plot, "y", NULL);
}

static int largest_first(const void *a, const void *b)
{
    const fb_point_of *p = a, *q = b;
    return p->y != q->y ? (p->y < q->y) - (p->y > q->y) : strcmp(p->name, q->name);
}

static int by_name_and_x(const void *a, const void *b)
{
    const fb_point_of *p = a, *q = b;
    int order = strcmp(p->name, q->name);
    return order ? order : (p->x > q->x) - (p->x < q->x);
}

static bool has_point(const json_t *plot, const fb_point_of *p)
{
    return isfinite(p->y) && (fb_plot_is_ranking(plot) || isfinite(p->x));
}

static const char *device_of(const json_t *rows, const fb_point_of *p)
{
    return fb_json_string_or(json_object_get(json_array_get(rows, (size_t)p->row), "case"), "device", "");
}

/* Bars tell ratios, and there are none from one device to another. */
static void scale_bars(fb_points *all, const json_t *rows)
{
    json_t *most = json_object(); /* device → its longest */
    for (int i = 0; i < all->n; i++) {
        const fb_point_of *p = &all->at[i];
        const char *device = device_of(rows, p);
        double end = isfinite(p->high) ? p->high : p->y;
        json_object_set_new(most, device, json_real(fmax(end, fb_json_number_or(most, device, 0))));
    }
    for (int i = 0; i < all->n; i++) all->at[i].most = fb_json_number_or(most, device_of(rows, &all->at[i]), 0);
    json_decref(most);
}

fb_points fb_points_of(const json_t *plot, const json_t *rows)
{
    fb_points out = {0};
    size_t i;
    json_t *row;
    bool ranking = fb_plot_is_ranking(plot);
    json_array_foreach((json_t *)rows, i, row)
    {
        json_t *flat = fb_plot_flat(row);
        fb_point_of p = {.x = figure(flat, plot, "x"),
                         .y = figure(flat, plot, "y"),
                         .low = figure(flat, plot, "low"),
                         .high = figure(flat, plot, "high"),
                         .kind = fb_figure_kind(flat),
                         .row = (int)i,
                         .of = 1};
        if (has_point(plot, &p)) {
            p.name = ranking ? fb_plot_case_name(row) : name_of_group(flat, json_object_get(plot, "by"));
            FB_VEC_PUSH(&out, p);
        }
        json_decref(flat);
    }
    if (ranking) scale_bars(&out, rows);
    if (out.n) qsort(out.at, (size_t)out.n, sizeof *out.at, ranking ? largest_first : by_name_and_x);
    return out;
}

/* What a model is called by: the plot's own word for it, else what tells rows apart. */
static json_t *model_key(const json_t *plot, const json_t *rows)
{
    json_t *by = json_object_get(plot, "by"), *row;
    const char *first = NULL;
    size_t i;
    if (by) return json_incref(by);
    json_array_foreach((json_t *)rows, i, row)
    {
        const char *variant = fb_json_string_or(json_object_get(row, "case"), "variant", "");
        if (first && strcmp(first, variant) != 0) return json_string("variant");
        first = variant;
    }
    return json_string("plan");
}

fb_points fb_points_largest(const json_t *plot, const json_t *rows)
{
    fb_points all = fb_points_of(plot, rows), out = {0};
    json_t *by = model_key(plot, rows);
    for (int i = 0; i < all.n; i++) { /* the first of a name is its largest */
        json_t *flat = fb_plot_flat(json_array_get(rows, (size_t)all.at[i].row));
        char *name = name_of_group(flat, by);
        int k = 0;
        while (k < out.n && strcmp(out.at[k].name, name) != 0) k++;
        if (k == out.n) {
            FB_VEC_PUSH(&out, all.at[i]);
            out.at[k].name = name;
        } else {
            out.at[k].of++;
            fb_free(name);
        }
        json_decref(flat);
    }
    json_decref(by);
    fb_points_free(&all);
    return out;
}

void fb_points_free(fb_points *p)
{
    for (int i = 0; i < p->n; i++) fb_free(p->at[i].name);
    FB_VEC_FREE(p);
}

bool fb_points_guessed(const fb_points *p)
{
    for (int i = 0; i < p->n; i++)
        if (*fb_figure_sign(p->at[i].kind)) return true;
    return false;
}

/* 2.62 M, 811 k, 0.12 */
const char *fb_points_text(char to[32], double v)
{
    static const struct {
        double unit;
        const char *sign;
    } units[] = {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}, {0, ""}};
    int i = 0;
    while (units[i].unit > 0 && fabs(v) < 0.9995 * units[i].unit) i++;
    double shown = units[i].unit > 0 ? v / units[i].unit : v;
    snprintf(to, 32, fabs(shown) >= 999.5 ? "%.0f%s" : "%.3g%s", shown, units[i].sign);
    return to;
}

/* ---- axes ---- */

fb_scale fb_points_scale(const fb_points *p, const json_t *plot, bool vertical)
{
    bool log = strchr(fb_json_string_or(plot, "log", ""), vertical ? 'y' : 'x') != NULL;
    fb_scale s = {.low = INFINITY, .high = -INFINITY};
    for (int i = 0; i < p->n; i++) {
        double v = vertical ? p->at[i].y : p->at[i].x;
        s.low = fmin(s.low, v);
        s.high = fmax(s.high, v);
    }
    s.log = log && s.low > 0;
    if (!s.log && s.low > 0) s.low = 0; /* lengths are compared from zero on */
    return s;
}

double fb_scale_at(const fb_scale *s, double v)
{
    double from = s->log ? log10(s->low) : s->low, to = s->log ? log10(s->high) : s->high, x = s->log ? log10(v) : v;
    return to > from ? (x - from) / (to - from) : 0.5;
}

/* Once, twice and five times powers of ten. */
static int log_ticks(const fb_scale *s, double at[FB_MOST_TICKS])
{
    int n = 0;
    for (int e = (int)floor(log10(s->low)); e <= (int)floor(log10(s->high)); e++)
        for (int k = 1; k <= 5; k += k == 2 ? 3 : 1) {
            double v = k * pow(10, e);
            if (v >= 0.999 * s->low && v <= 1.001 * s->high && n < FB_MOST_TICKS) at[n++] = v;
        }
    if (n > 1) return n;
    at[0] = s->low;
    at[1] = s->high;
    return 2;
}

int fb_scale_ticks(const fb_scale *s, double at[FB_MOST_TICKS])
{
    int n = 0;
    if (!(s->high > s->low)) {
        at[0] = s->low;
        return isfinite(s->low) ? 1 : 0;
    }
    if (s->log) return log_ticks(s, at);
    double step = pow(10, floor(log10((s->high - s->low) / 2)));
    while ((s->high - s->low) / step > 6) step *= 2;
    double first = ceil(s->low / step);
    for (int i = 0; (first + i) * step <= s->high * 1.0001 && n < FB_MOST_TICKS; i++) at[n++] = (first + i) * step;
    return n;
}
