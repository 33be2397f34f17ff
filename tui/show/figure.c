/* Writing figures. */
#include "tui/show/figure.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const fb_figure_row fb_figures[FB_FIGURES] = {
#define FIGURE(ID, KEY, UNIT, RULE, LABEL, HEADING, UNDER, A, B, C, HELP)                                              \
    [FB_FIGURE_##ID] = {.key = KEY,                                                                                    \
                        .label = LABEL,                                                                                \
                        .heading = HEADING,                                                                            \
                        .under = UNDER,                                                                                \
                        .path = {A, B, C},                                                                             \
                        .help = HELP,                                                                                  \
                        .unit = FB_UNIT_##UNIT,                                                                        \
                        .rule = FB_KIND_##RULE},
#include "tui/show/figures.def"
#undef FIGURE
};

const char fb_figure_legend[] =
    "~ predicted by the cost model, not all of it was ever measured; ≈ composed of recorded "
    "kernels and launch costs";

const char *fb_figure_sign(fb_figure_source kind)
{
    return kind == FB_SOURCE_PREDICTED ? "~" : kind == FB_SOURCE_COMPOSED ? "≈" : "";
}

const char *fb_figure_kind_help(fb_figure_source kind)
{
    static const char *const text[] = {
        [FB_SOURCE_MEASURED] = "on the device that is named, when this was written",
        [FB_SOURCE_RECORDED] = "this plan as it was measured on the recording's machine",
        [FB_SOURCE_COMPOSED] = "of recorded kernels and the recorded machine's launch cost",
        [FB_SOURCE_PREDICTED] = "by the cost model, from the device's calibration: not all of it was ever measured",
    };
    return text[kind];
}

fb_figure_source fb_figure_kind_of(fb_figure_id id, fb_figure_source times)
{
    if (fb_figures[id].rule == FB_KIND_COPIES) return fb_report_copies_source(times);
    return fb_figures[id].rule == FB_KIND_TIME ? times : FB_SOURCE_MEASURED;
}

bool fb_figure_stands(fb_figure_id id, fb_figure_source wall)
{
    return fb_figures[id].rule != FB_KIND_BESIDE || wall != FB_SOURCE_PREDICTED;
}

/* ---- writing ---- */

const char *fb_figure_stale(char to[16], fb_figure_source kind)
{
    const char *sign = fb_figure_sign(kind);
    snprintf(to, 16, "%s%sstale", sign, *sign ? " " : "");
    return to;
}

static const char *with_prefix(char to[32], double n)
{
    static const struct {
        double unit;
        const char *sign;
        int digits;
    } units[] = {{1e12, " T", 2}, {1e9, " G", 1}, {1e6, " M", 1}, {1e3, " k", 1}};
    size_t i = 0;
    if (n < 1e4) {
        snprintf(to, 32, "%.0f", n);
        return to;
    }
    while (i < 3 && n < units[i].unit) i++;
    snprintf(to, 32, "%.*f%s", units[i].digits, n / units[i].unit, units[i].sign);
    return to;
}

const char *fb_figure_prefixed(char to[32], double v)
{
    static const char *const prefix[] = {"", "k", "M", "G", "T", "P"};
    int p = 0;
    for (; v >= 999.5 && p < 5; p++) v /= 1000;
    snprintf(to, 32, "%.*f %s", v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2, v, prefix[p]);
    return to;
}

const char *fb_figure_write(char to[48], double value, fb_unit unit, fb_figure_source kind)
{
    char text[40] = "", amount[32];
    *to = '\0';
    if (!isfinite(value)) return to;
    switch (unit) {
    case FB_UNIT_US: fb_format_us(text, value); break;
    case FB_UNIT_BYTES: fb_format_bytes(text, value); break;
    case FB_UNIT_COUNT: with_prefix(text, value); break;
    case FB_UNIT_TIMES:
        snprintf(text, sizeof text, value < 9.995 ? "%.2f ×" : value < 99.5 ? "%.1f ×" : "%.0f ×", value);
        break;
    case FB_UNIT_REL: snprintf(text, sizeof text, "%.0e", value); break;
    case FB_UNIT_PLAIN: snprintf(text, sizeof text, "%.6g", value); break;
    case FB_UNIT_BYTE_RATE: snprintf(text, sizeof text, "%sB/s", fb_figure_prefixed(amount, value)); break;
    case FB_UNIT_FLOP_RATE: snprintf(text, sizeof text, "%sFLOP/s", fb_figure_prefixed(amount, value)); break;
    }
    snprintf(to, 48, "%s%s", fb_figure_sign(kind), text);
    return to;
}

const char *fb_figure_gain(char to[48], double us, fb_figure_source kind)
{
    char amount[32];
    snprintf(to, 48, "%s%s%s", fb_figure_sign(kind), us > 0 ? "-" : us < 0 ? "+" : "", fb_format_us(amount, fabs(us)));
    return to;
}

const char *fb_figure_part(char to[48], const fb_why *why, fb_why_id id)
{
    return fb_figure_gain(to, why->part[id].us, fb_why_part_source(why, id));
}

const char *fb_figure_spread(char to[48], const fb_stat *s, fb_figure_source kind)
{
    static const struct {
        double us;
        const char *unit;
    } units[] = {{1e6, "s"}, {1e3, "ms"}, {1, "µs"}};
    *to = '\0';
    if (!s->n || kind == FB_SOURCE_PREDICTED || !isfinite(s->p10) || !isfinite(s->p90)) return to;
    int u = 0;
    while (u < 2 && s->p90 < units[u].us) u++;
    double low = s->p10 / units[u].us, high = s->p90 / units[u].us;
    char least[32], most[32];
    if (low < 0.02 * high) { /* "0–175 ms" would say that a run took no time */
        snprintf(to, 48, "%s%s–%s", fb_figure_sign(kind), fb_format_us(least, s->p10), fb_format_us(most, s->p90));
        return to;
    }
    int digits = high >= 99.95 ? 0 : high >= 9.995 ? 1 : 2;
    snprintf(to, 48, "%s%.*f–%.*f %s", fb_figure_sign(kind), digits, low, digits, high, units[u].unit);
    return to;
}

/* ---- of rows ---- */

fb_figure_source fb_figure_kind(const json_t *row)
{
    const char *source = fb_json_string_or(row, "source", "");
    for (int k = FB_SOURCE_MEASURED; k <= FB_SOURCE_PREDICTED; k++)
        if (strcmp(source, fb_report_source_name((fb_figure_source)k)) == 0) return (fb_figure_source)k;
    return FB_SOURCE_MEASURED;
}

fb_figure_source fb_figure_floor_kind(const json_t *row)
{
    bool guessed = strcmp(fb_json_string_or(row, "floor_kind", ""), fb_floor_guessed) == 0;
    return guessed ? FB_SOURCE_PREDICTED : fb_figure_kind(row);
}

bool fb_figure_is_wrong(const json_t *row)
{
    const json_t *error = json_object_get(row, "error");
    return json_object_get(error, "bound") && !fb_json_bool_or(error, "ok", true);
}

const json_t *fb_figure_value(const json_t *row, fb_figure_id id)
{
    const char *const *path = fb_figures[id].path;
    if (!path[0]) return NULL;
    for (int i = 0; i < 3 && path[i]; i++) row = json_object_get(row, path[i]);
    return json_is_null(row) ? NULL : row;
}

/* Bytes read and written, or fed and received, are one figure where the path ends above them. */
double fb_figure_number(const json_t *row, fb_figure_id id)
{
    const json_t *v = fb_figure_value(row, id);
    if (json_is_number(v)) return json_number_value(v);
    if (!json_is_object(v)) return NAN;
    bool copies = json_object_get(v, "in") || json_object_get(v, "out");
    return fb_json_number_or(v, copies ? "in" : "read", NAN) + fb_json_number_or(v, copies ? "out" : "written", NAN);
}

const char fb_figure_busy_help[] =
    "More than wall: the kernels were timed one by one, in runs of their own, and these took longer. The timer's own "
    "cost is in them, and the machine may have been busier.";

bool fb_figure_busy_above_wall(const json_t *row)
{
    return fb_figure_number(row, FB_FIGURE_DEVICE) > fb_figure_number(row, FB_FIGURE_WALL);
}

const char *fb_figure_text(const json_t *row, fb_figure_id id, char to[48])
{
    fb_figure_source kind = fb_figure_kind_of(id, fb_figure_kind(row));
    fb_figure_write(to, fb_figure_number(row, id), fb_figures[id].unit, kind);
    if (id == FB_FIGURE_DEVICE && fb_figure_busy_above_wall(row)) strncat(to, "?", 47 - strlen(to));
    return to;
}

fb_stat fb_figure_stat(const json_t *row, const char *key)
{
    const json_t *of = json_object_get(row, key);
    double n = fb_json_number_or(of, "n", 0);
    return (fb_stat){.median = fb_json_number_or(of, "median", NAN),
                     .p10 = fb_json_number_or(of, "p10", NAN),
                     .p90 = fb_json_number_or(of, "p90", NAN),
                     .n = n > 0 && n < 1e9 ? (int)n : 0};
}

static bool shared_value(const json_t *rows, const char *name, const json_t *value)
{
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row)
    {
        if (!json_equal((json_t *)value, json_object_get(json_object_get(row, "params"), name))) return false;
    }
    return true;
}

json_t *fb_figure_params(const json_t *rows, bool varying)
{
    json_t *out = json_object(), *value;
    const char *name;
    json_object_foreach(json_object_get(json_array_get(rows, 0), "params"), name, value)
    {
        if (shared_value(rows, name, value) != varying) json_object_set(out, name, value);
    }
    return out;
}

char *fb_figure_plain(const json_t *value)
{
    if (!value || json_is_null(value)) return fb_strdup("");
    if (json_is_string(value)) return fb_strdup(json_string_value(value));
    if (!json_is_real(value)) return fb_json_line(value);
    char number[32];
    snprintf(number, sizeof number, "%.6g", json_real_value(value));
    return fb_strdup(number);
}

/* ---- of columns ---- */

double fb_figure_anchored(double wall, double model_before, double model_after)
{
    double gain = model_before - model_after, part = wall * model_after / model_before;
    return gain > 0 ? fmax(wall - gain, part) : fmin(wall - gain, part);
}

bool fb_figure_column_has_model(const fb_column *c)
{
    return c->plan && isfinite(c->predicted.us) && !(c->machine && c->machine->doubted);
}

static bool tells_wall(const fb_report *r)
{
    return r && !r->failed && r->wall_us.n > 0;
}

double fb_figure_column_wall(const fb_column *c, fb_figure_source *kind)
{
    const fb_report *was = c->before;
    *kind = tells_wall(c->report) ? c->report->source : FB_SOURCE_PREDICTED;
    if (tells_wall(c->report)) return c->report->wall_us.median;
    if (!fb_figure_column_has_model(c)) return NAN;
    if (tells_wall(was) && was->predicted_us > 0)
        return fb_figure_anchored(was->wall_us.median, was->predicted_us, c->predicted.us);
    return c->predicted.us;
}
