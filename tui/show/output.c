/* Rows as table, CSV, Markdown, JSON, HTML or SVG. Needs rows as results files have them; streams JSON as rows come. */
#include "tui/show/output.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "tui/show/figure.h"
#include "tui/show/plots.h"

#include <math.h>
#include <string.h>

void fb_output_init(fb_output *r, const char *script)
{
    *r = (fb_output){
        .script = script, .rows = json_array(), .cases = json_array(), .plots = json_array(), .devices = json_object()};
}

void fb_output_free(fb_output *r)
{
    json_decref(r->rows);
    json_decref(r->cases);
    json_decref(r->plots);
    json_decref(r->devices);
}

/* What its worker told of a device that plans for itself: there is no more to say of it. */
static json_t *foreign_device(const fb_session *s, const char *device)
{
    const json_t *entry = s ? fb_json_find(fb_session_devices(s), "device", device) : NULL;
    return entry ? json_deep_copy(entry) : json_pack("{s:s}", "name", device);
}

void fb_output_device(fb_output *r, const fb_session *s, const char *device)
{
    if (!device || !device[0]) return;
    const fb_machine *m = s ? fb_session_machine(s, device) : NULL;
    json_t *already = json_object_get(r->devices, device);
    if (already) {
        if (m && m->doubted) json_object_set_new(already, "doubted", json_true());
        return;
    }
    bool known = m && m->target->generates;
    json_t *told = known ? fb_machine_to_json(m) : foreign_device(s, device);
    if (strncmp(device, "replay:", 7) == 0) { /* the machine is the recorded one, and so is the date */
        json_t *entry = foreign_device(s, device);
        json_object_set_new(told, "kind", json_string("replay"));
        json_object_set_new(told, "recorded", json_string(fb_json_string_or(entry, "date", "")));
        json_decref(entry);
    }
    json_object_set_new(r->devices, device, told);
}

/* ---- JSON ---- */

static void print_json(const fb_output *r, FILE *out)
{
    json_t *whole = json_object();
    json_object_set_new(whole, "fusebox", json_integer(FB_REPORT_VERSION));
    json_object_set_new(whole, "script", json_string(r->script));
    json_object_set_new(whole, "params", fb_figure_params(r->rows, false));
    json_object_set(whole, "devices", r->devices);
    json_object_set(whole, "columns", r->rows);
    if (json_array_size(r->cases)) json_object_set(whole, "rows", r->cases);
    if (json_array_size(r->plots)) json_object_set(whole, "plots", r->plots);
    char *text = fb_json_shown(whole, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    fprintf(out, "%s\n", text);
    fb_free(text);
    json_decref(whole);
}

/* ---- CSV: every figure of a report, plain ---- */

/* The figures of the table that have a key, and what they leave out: texts, ends of intervals. */
static const struct {
    const char *title, *path[3];
} more_before[] = {{"script", {"script"}}, {"variant", {"variant"}}, {"plan", {"plan"}},
                   {"device", {"device"}}, {"nodes", {"nodes"}},     {"launch_mode", {"launch_mode"}}},
  more_after[] = {
      {"stale", {"stale"}},
      {"values", {"values"}},
      {"floor_kind", {"floor_kind"}},
      {"wall_p10_us", {"wall_us", "p10"}},
      {"wall_p90_us", {"wall_us", "p90"}},
      {"wall_low_us", {"wall_us", "low"}},
      {"wall_high_us", {"wall_us", "high"}},
      {"copies", {"copies"}},
      {"copied_in", {"bytes", "copied", "in"}},
      {"copied_out", {"bytes", "copied", "out"}},
      {"copy_hidden_us", {"copy_hidden_us"}},
      {"max_abs_error", {"error", "max_abs"}},
      {"error_over_bound", {"error", "bound"}},
      {"ok", {"error", "ok"}},
      {"check", {"error", "state"}},
      {"failed", {"failed"}},
};
enum { BEFORE = sizeof more_before / sizeof *more_before, AFTER = sizeof more_after / sizeof *more_after, FIRST = 4 };

static const json_t *figure_of(const json_t *row, const char *const path[3])
{
    for (int i = 0; i < 3 && path[i]; i++) row = json_object_get(row, path[i]);
    return row;
}

static void add_param_columns(fb_table *t, const json_t *params)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)params, name, value) fb_table_column(t, name, "", false);
}

static void add_param_cells(fb_table *t, const json_t *params, const json_t *row)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)params, name, value)
    {
        char *text = fb_figure_plain(json_object_get(json_object_get(row, "params"), name));
        fb_table_cell(t, text);
        fb_free(text);
    }
}

static void plain_cell(fb_table *t, const json_t *value)
{
    char *text = fb_figure_plain(value);
    fb_table_cell(t, text);
    fb_free(text);
}

static void plain_row(fb_table *t, const json_t *row, const json_t *params)
{
    fb_table_row(t);
    for (int i = 0; i < BEFORE; i++) {
        if (i == FIRST) add_param_cells(t, params, row);
        plain_cell(t, figure_of(row, more_before[i].path));
    }
    for (int id = 0; id < FB_FIGURES; id++)
        if (*fb_figures[id].key) plain_cell(t, fb_figure_value(row, (fb_figure_id)id));
    for (int i = 0; i < AFTER; i++) plain_cell(t, figure_of(row, more_after[i].path));
}

static void print_plain(const fb_output *r, FILE *out)
{
    const json_t *params = json_object_get(json_array_get(r->rows, 0), "params");
    fb_table *t = fb_table_new();
    for (int i = 0; i < BEFORE; i++) {
        if (i == FIRST) add_param_columns(t, params);
        fb_table_column(t, more_before[i].title, "", false);
    }
    for (int id = 0; id < FB_FIGURES; id++)
        if (*fb_figures[id].key) fb_table_column(t, fb_figures[id].key, "", false);
    for (int i = 0; i < AFTER; i++) fb_table_column(t, more_after[i].title, "", false);
    size_t k;
    json_t *row;
    json_array_foreach(r->rows, k, row) plain_row(t, row, params);
    fb_table_print(t, FB_FORMAT_CSV, out);
    fb_table_free(t);
}

/* ---- the table ---- */

static double number(const json_t *row, const char *a, const char *b, const char *c)
{
    const json_t *v = figure_of(row, (const char *const[3]){a, b, c});
    return json_is_number(v) ? json_number_value(v) : NAN;
}

/* As figures.def says that it is written, with the sign of its kind. */
static void figure_cell(fb_table *t, const json_t *row, fb_figure_id id)
{
    char text[48];
    fb_table_cell(t, fb_figure_text(row, id, text));
}

static void spread_cell(fb_table *t, const json_t *row)
{
    char text[48];
    fb_stat wall = fb_figure_stat(row, "wall_us");
    fb_table_cell(t, fb_figure_spread(text, &wall, fb_figure_kind(row)));
}

/* A row's times, without its kernels; NULL when it is no report. */
static fb_report *times_of(const json_t *row)
{
    json_t *brief = json_copy((json_t *)row);
    fb_error err = {0};
    json_object_del(brief, "kernels");
    fb_report *r = fb_report_from_json(brief, &err);
    json_decref(brief);
    return r;
}

static fb_comparison compared(const json_t *first, const json_t *row)
{
    fb_report *a = times_of(first), *b = times_of(row);
    fb_comparison c = {.times = NAN, .high = INFINITY};
    if (a && b) c = fb_compare_reports(a, b, FB_TIME_WALL);
    fb_report_free(a);
    fb_report_free(b);
    return c;
}

static fb_compared compared_of(const json_t *row)
{
    return (fb_compared){fb_json_string_or(row, "device", NULL), fb_json_string_or(row, "computes", NULL),
                         fb_json_string_or(row, "values", NULL)};
}

const char *fb_output_against(const json_t *first, const json_t *row, char to[48], const char **why)
{
    char times[32];
    *why = first == row ? NULL : fb_not_comparable(compared_of(first), compared_of(row));
    fb_comparison c = first == row ? (fb_comparison){FB_SAME, .times = 1} : compared(first, row);
    fb_figure_source a = fb_figure_kind(first), b = fb_figure_kind(row);
    *to = '\0';
    if (first != row && c.what == FB_CANNOT_TELL) /* nothing better is known than what the medians that are shown say */
        c.times = fb_figure_number(first, FB_FIGURE_WALL) / fb_figure_number(row, FB_FIGURE_WALL);
    if (*why)
        snprintf(to, 48, "-");
    else if (first != row && isfinite(c.times) && c.what == FB_SAME)
        snprintf(to, 48, "same");
    else if (isfinite(c.times))
        snprintf(to, 48, "%s%s%s", first == row ? "" : fb_figure_sign(a > b ? a : b), fb_ratio_say(c.times, times),
                 first != row && c.what == FB_CANNOT_TELL ? "?" : "");
    return to;
}

static void against_cell(fb_table *t, const json_t *first, const json_t *row)
{
    const char *why;
    char text[48];
    fb_table_cell(t, fb_output_against(first, row, text, &why));
}

static bool is_undecided(const json_t *row)
{
    double undecided = number(row, "error", "undecided", NULL);
    return undecided > 0 && undecided == number(row, "error", "compared", NULL);
}

static bool is_checking(const json_t *row)
{
    return strcmp(fb_json_string_or(json_object_get(row, "error"), "state", ""),
                  fb_check_state_name(FB_CHECK_CHECKING)) == 0;
}

static void error_cell(fb_table *t, const json_t *row)
{
    double rel = number(row, "error", "max_rel", NULL);
    const json_t *ok = figure_of(row, (const char *const[3]){"error", "ok", NULL});
    if (is_checking(row))
        fb_table_cell(t, fb_check_state_name(FB_CHECK_CHECKING));
    else if (!ok)
        fb_table_cell(t, "");
    else if (is_undecided(row))
        fb_table_cell(t, "undecided");
    else if (isfinite(rel))
        fb_table_cellf(t, "%.0e %s", rel, json_is_true(ok) ? "✓" : "✗");
    else
        fb_table_cell(t, json_is_true(ok) ? "✓" : "✗");
}

static void counted_cell(fb_table *t, const json_t *row)
{
    char text[32];
    double bytes = fb_figure_number(row, FB_FIGURE_READ_COUNTED) + fb_figure_number(row, FB_FIGURE_WRITTEN_COUNTED);
    fb_table_cell(t, isfinite(bytes) ? fb_format_bytes(text, bytes) : "");
}

static void name_cell(fb_table *t, const json_t *row, bool device)
{
    const char *variant = fb_json_string_or(row, "variant", ""), *values = fb_json_string_or(row, "values", "");
    fb_table_cellf(t, "%s%s%s%s%s%s%s", variant, variant[0] ? ":" : "", fb_json_string_or(row, "plan", ""),
                   device ? "@" : "", device ? fb_json_string_or(row, "device", "") : "", values[0] ? "#" : "", values);
}

static bool any_has(const json_t *rows, const char *a, const char *b, const char *c)
{
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row)
    {
        if (isfinite(number(row, a, b, c))) return true;
    }
    return false;
}

/* Columns that hold nothing in any row are left out. */
typedef struct {
    bool number, device, cold, gap, copies, measured, predicted, source;
} shown_columns;

static void heading(fb_table *t, fb_figure_id id)
{
    fb_table_column(t, fb_figures[id].heading, fb_figures[id].under, false);
    fb_table_help(t, fb_figures[id].help);
}

static void headings(fb_table *t, const json_t *varying, const shown_columns *has)
{
    if (has->number) fb_table_column(t, "", "", false);
    fb_table_column(t, "column", "", true);
    add_param_columns(t, varying);
    heading(t, FB_FIGURE_WALL);
    heading(t, FB_FIGURE_SPREAD);
    heading(t, FB_FIGURE_AGAINST);
    heading(t, FB_FIGURE_LAUNCHES);
    if (has->device) heading(t, FB_FIGURE_DEVICE);
    if (has->cold) heading(t, FB_FIGURE_COLD);
    heading(t, FB_FIGURE_MOVED);
    if (has->measured) fb_table_column(t, "moved", "measured", false);
    if (has->copies) {
        heading(t, FB_FIGURE_COPIED);
        heading(t, FB_FIGURE_COPIES);
        heading(t, FB_FIGURE_HIDDEN);
    }
    heading(t, FB_FIGURE_OVER_FLOOR);
    heading(t, FB_FIGURE_ERROR);
    if (has->predicted) heading(t, FB_FIGURE_PREDICTED);
    if (!has->source) return;
    fb_table_column(t, fb_figures[FB_FIGURE_SOURCE].heading, "", true);
    fb_table_help(t, fb_figures[FB_FIGURE_SOURCE].help);
}

const json_t *fb_output_base(const json_t *rows, const json_t *row)
{
    size_t i;
    json_t *other;
    json_array_foreach((json_t *)rows, i, other)
    {
        if (json_equal(json_object_get(other, "params"), json_object_get(row, "params"))) return other;
    }
    return row;
}

/* Feeds and receives: their bytes, their time, and how much of it kernels hide. */
static void copies_cells(fb_table *t, const json_t *row)
{
    double us = number(row, "copy_us", "median", NULL), hidden = number(row, "copy_hidden_us", NULL, NULL);
    figure_cell(t, row, FB_FIGURE_COPIED);
    figure_cell(t, row, FB_FIGURE_COPIES);
    if (us > 0 && isfinite(hidden))
        fb_table_cellf(t, "%s%.0f %%", fb_figure_sign(fb_figure_kind_of(FB_FIGURE_HIDDEN, fb_figure_kind(row))),
                       100 * hidden / us);
    else
        fb_table_cell(t, "");
}

static bool has_prediction(const json_t *row)
{
    return fb_figure_stands(FB_FIGURE_PREDICTED, fb_figure_kind(row)) &&
           isfinite(fb_figure_number(row, FB_FIGURE_PREDICTED));
}

static bool any_prediction(const json_t *rows)
{
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row)
    {
        if (has_prediction(row)) return true;
    }
    return false;
}

static void prediction_cell(fb_table *t, const json_t *row)
{
    if (has_prediction(row))
        figure_cell(t, row, FB_FIGURE_PREDICTED);
    else
        fb_table_cell(t, "");
}

static void report_row(fb_table *t, const json_t *rows, int i, const json_t *varying, const shown_columns *has)
{
    const json_t *row = json_array_get(rows, (size_t)i);
    const char *failed = fb_json_string_or(row, "failed", NULL);
    fb_table_row(t);
    if (has->number) fb_table_cellf(t, "%d", i + 1);
    name_cell(t, row, true);
    add_param_cells(t, varying, row);
    if (failed) {
        fb_str text = {0};
        fb_str_addf(&text, "✗ %s", failed);
        fb_table_rest(t, text.text);
        fb_str_free(&text);
        return;
    }
    const json_t *base = fb_output_base(rows, row);
    double wall = fb_figure_number(row, FB_FIGURE_WALL), floor_us = fb_figure_number(row, FB_FIGURE_FLOOR);
    figure_cell(t, row, FB_FIGURE_WALL);
    spread_cell(t, row);
    against_cell(t, base, row);
    figure_cell(t, row, FB_FIGURE_LAUNCHES);
    if (has->device) figure_cell(t, row, FB_FIGURE_DEVICE);
    if (has->cold) figure_cell(t, row, FB_FIGURE_COLD);
    figure_cell(t, row, FB_FIGURE_MOVED);
    if (has->measured) counted_cell(t, row);
    if (has->copies) copies_cells(t, row);
    if (isfinite(wall) && floor_us > 0)
        fb_table_cellf(t, wall < 9.95 * floor_us ? "%s%.1f" : "%s%.0f", fb_figure_sign(fb_figure_floor_kind(row)),
                       wall / floor_us);
    else
        fb_table_cell(t, "");
    error_cell(t, row);
    if (has->predicted) prediction_cell(t, row);
    if (has->source)
        fb_table_cellf(t, "%s%s", fb_json_string_or(row, "source", ""),
                       fb_json_bool_or(row, "stale", false) ? ", stale" : "");
}

/* Its figures come from a recording. */
static bool is_recalled(const json_t *row)
{
    const char *source = fb_json_string_or(row, "source", NULL);
    return source && strcmp(source, fb_report_source_name(FB_SOURCE_MEASURED)) != 0;
}

void fb_output_device_text(const char *device, const json_t *told, fb_str *out)
{
    const char *date = fb_json_string_or(told, "date", ""), *recorded = fb_json_string_or(told, "recorded", NULL);
    bool says = json_object_get(told, "calibrated") != NULL, calibrated = fb_json_bool_or(told, "calibrated", false);
    fb_str_add_clean(out, device, "");
    fb_str_add(out, ": ");
    fb_str_add_clean(out, fb_json_string_or(told, "name", device), "");
    if (says && calibrated) fb_str_addf(out, " · calibrated %s", date);
    if (says && !calibrated)
        fb_str_add(out, " · uncalibrated: floor and predictions are guesses (fusebox devices calibrates)");
    if (fb_json_bool_or(told, "doubted", false))
        fb_str_add(out, ", and doubted: made while the machine was busy, or something ran faster than it allows "
                        "(fusebox devices --recalibrate)");
    if (recorded) fb_str_addf(out, " · recorded %s", recorded);
}

static void title_line(const fb_output *r, FILE *out)
{
    json_t *shared = fb_figure_params(r->rows, false), *value;
    const char *name;
    fb_str line = {0};
    fb_str_add_clean(&line, fb_file_name(r->script), "");
    json_object_foreach(shared, name, value)
    {
        char *text = fb_figure_plain(value);
        fb_str_addf(&line, "  %s=", name);
        fb_str_add_clean(&line, text, "");
        fb_free(text);
    }
    fb_str_add(&line, "\n");
    json_object_foreach(r->devices, name, value)
    {
        if (!json_object_get(value, "kind")) continue; /* of a results file: only its name is known */
        fb_output_device_text(name, value, &line);
        fb_str_add(&line, "\n");
    }
    fb_str_add(&line, "\n");
    fb_put(out, line.text);
    fb_str_free(&line);
    json_decref(shared);
}

static void add_short_name(fb_str *to, const json_t *row)
{
    const char *variant = fb_json_string_or(row, "variant", "");
    fb_str_addf(to, "%s%s%s", variant, *variant ? ":" : "", fb_json_string_or(row, "plan", ""));
}

/* All pairs beyond the first row, with which they are compared in the table, that may be compared and of which `what`
 * is known. */
static void pairs_line(const json_t *rows, fb_difference what, fb_str *out)
{
    enum { SAME_MOST = 12 };
    bool same = what == FB_SAME;
    int n = (int)json_array_size(rows), said = 0, from = 0; /* the row that is being told of */
    for (int i = 1; i < n && said < SAME_MOST; i++)
        for (int k = i + 1; k < n && said < SAME_MOST; k++) {
            const json_t *a = json_array_get(rows, (size_t)i), *b = json_array_get(rows, (size_t)k);
            if (!json_equal(json_object_get(a, "params"), json_object_get(b, "params")) || fb_output_base(rows, a) == a)
                continue;
            if (fb_not_comparable(compared_of(a), compared_of(b))) continue;
            fb_comparison c = compared(a, b);
            if (!isfinite(c.times) || c.what != what) continue;
            if (from != i) {
                fb_str_add(out, said ? "; " : same ? "the same: " : "not told apart: ");
                add_short_name(out, a);
            }
            fb_str_add(out, from != i ? same ? " = " : " and " : ", ");
            add_short_name(out, b);
            from = i;
            said++;
        }
    if (said) fb_str_add(out, "\n");
}

/* Why there is a dash and no ratio, each reason once. */
static void reason_lines(const json_t *rows, fb_str *out)
{
    const char *said = "", *why;
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row)
    {
        char text[48];
        if (json_object_get(row, "failed")) continue;
        fb_output_against(fb_output_base(rows, row), row, text, &why);
        if (!why || !strcmp(why, said)) continue;
        said = why;
        fb_str_addf(out, "-: no ratio, it is %s than the first row's\n", why);
    }
}

/* … of which the times carry a sign. */
static bool any_of_kind(const json_t *rows)
{
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row)
    {
        bool copies = isfinite(fb_figure_number(row, FB_FIGURE_COPIES));
        fb_figure_source of_copies = fb_figure_kind_of(FB_FIGURE_COPIES, fb_figure_kind(row));
        if (*fb_figure_sign(fb_figure_floor_kind(row)) || (copies && *fb_figure_sign(of_copies))) return true;
    }
    return false;
}

void fb_output_legend(FILE *out)
{
    fb_put(out, fb_figure_legend);
    fputc('\n', out);
}

/* Kernels that moved more than modelled, the first few. */
static void moved_lines(const json_t *rows, fb_str *out)
{
    enum { MOST = 6 };
    int said = 0;
    size_t i, k;
    json_t *row, *kernel;
    json_array_foreach((json_t *)rows, i, row)
    {
        json_array_foreach(json_object_get(row, "kernels"), k, kernel)
        {
            const char *more = fb_json_string_or(kernel, "moved_more", NULL);
            if (!more || said++ >= MOST) continue;
            fb_str_add(out, "! ");
            add_short_name(out, row);
            fb_str_addf(out, ", kernel %s %s\n", fb_json_string_or(kernel, "name", "?"), more);
        }
    }
    if (said > MOST) fb_str_addf(out, "! and %d more kernels\n", said - MOST);
}

static void note_line(const json_t *row, const char *note, fb_str *out)
{
    fb_str_add(out, "! ");
    add_short_name(out, row);
    fb_str_addf(out, ": %s\n", note);
}

/* What slowed a machine down while a column was sampled, and whose results are not the same in each run. */
static void state_lines(const json_t *rows, fb_str *out)
{
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row)
    {
        const char *note = fb_json_string_or(row, "state_note", NULL), *sums = fb_json_string_or(row, "sums", NULL);
        if (note) note_line(row, note, out);
        if (sums) note_line(row, "sums are in any order: the last bits of its floats differ from run to run", out);
    }
}

static void busy_line(const json_t *rows, fb_str *out)
{
    bool any = false;
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row) any |= fb_figure_busy_above_wall(row);
    if (any) fb_str_addf(out, "device busy?: %s\n", fb_figure_busy_help);
}

/* What the table leaves to be said, a sentence a line: what cannot be told apart or compared, and what was measured. */
static void notes(const fb_output *r, fb_str *out)
{
    pairs_line(r->rows, FB_SAME, out);
    pairs_line(r->rows, FB_CANNOT_TELL, out);
    reason_lines(r->rows, out);
    moved_lines(r->rows, out);
    state_lines(r->rows, out);
    busy_line(r->rows, out);
}

static void samples_line(const fb_output *r, fb_str *out)
{
    int least = 0, most = 0;
    size_t i;
    json_t *row;
    json_array_foreach(r->rows, i, row)
    {
        int n = is_recalled(row) ? 0 : fb_figure_stat(row, "wall_us").n;
        if (n && (!least || n < least)) least = n;
        if (n > most) most = n;
    }
    if (!most) return;
    fb_str_addf(out, "measured: wall, device, cold, error (%d", least);
    if (most > least) fb_str_addf(out, "–%d", most);
    fb_str_add(out, " hot samples a column, interleaved); modelled: moved, floor, predicted\n");
}

static bool any_recalled(const json_t *rows)
{
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row)
    {
        if (is_recalled(row)) return true;
    }
    return false;
}

static void footer(const fb_output *r, FILE *out)
{
    fb_str text = {0};
    notes(r, &text);
    if (any_recalled(r->rows))
        fb_str_add(&text,
                   "replay: recorded = this plan as it was measured; composed = of recorded kernels and launch costs; "
                   "predicted = not all of its kernels were recorded; stale = of source that has changed since\n");
    if (any_of_kind(r->rows)) fb_str_addf(&text, "%s\n", fb_figure_legend);
    samples_line(r, &text);
    fb_put(out, fb_str_get(&text));
    fb_str_free(&text);
}

/* `numbered`: rows have the numbers that pictures call them by. */
static fb_table *table_of(const fb_output *r, bool numbered, bool source)
{
    json_t *varying = fb_figure_params(r->rows, true);
    shown_columns has = {.number = numbered,
                         .predicted = any_prediction(r->rows),
                         .device = any_has(r->rows, "device_us", "median", NULL),
                         .cold = any_has(r->rows, "cold_us", "median", NULL),
                         .copies = any_has(r->rows, "copy_us", "median", NULL),
                         .measured = any_has(r->rows, "bytes", "measured", "read"),
                         .source = source};
    fb_table *t = fb_table_new();
    headings(t, varying, &has);
    size_t i;
    json_t *row;
    json_array_foreach(r->rows, i, row) report_row(t, r->rows, (int)i, varying, &has);
    json_decref(varying);
    return t;
}

static void print_reports(const fb_output *r, fb_format format, FILE *out)
{
    if (!json_array_size(r->rows)) return;
    fb_table *t = table_of(r, false, any_recalled(r->rows));
    if (format == FB_FORMAT_TABLE) title_line(r, out);
    fb_table_print(t, format, out);
    if (format == FB_FORMAT_TABLE) {
        fputc('\n', out);
        footer(r, out);
    }
    if (format == FB_FORMAT_MARKDOWN && any_of_kind(r->rows)) {
        fputc('\n', out);
        fb_output_legend(out);
    }
    fb_table_free(t);
}

void fb_output_html(const fb_output *r, fb_html *h)
{
    fb_str text = {0};
    fb_table *t = table_of(r, true, true);
    fb_table_html(t, h);
    fb_table_free(t);
    notes(r, &text);
    samples_line(r, &text);
    for (const char *line = fb_str_get(&text); *line;) {
        size_t n = strcspn(line, "\n");
        fb_html_open(h, "p", "class", "dim", NULL);
        fb_html_textf(h, "%.*s", (int)n, line);
        fb_html_close(h, "p");
        line += n + (line[n] == '\n');
    }
    fb_str_free(&text);
}

/* ---- rows of an experiment: columns are whatever its cases and rows hold ---- */

/* What could not be measured, in a table for people: a sentence once, with how many cases it is said of. */
static void print_failed(const json_t *failed, FILE *out)
{
    const char *sentence;
    json_t *cases;
    json_object_foreach((json_t *)failed, sentence, cases)
    {
        size_t n = json_array_size(cases);
        fb_str line = {0};
        fb_str_addf(&line, "✗ %s", sentence);
        if (n == 1) fb_str_addf(&line, " (%s)", json_string_value(json_array_get(cases, 0)));
        if (n > 1)
            fb_str_addf(&line, " (%zu cases, from %s to %s)", n, json_string_value(json_array_get(cases, 0)),
                        json_string_value(json_array_get(cases, n - 1)));
        fb_str_add(&line, "\n");
        fb_put(out, fb_str_get(&line));
        fb_str_free(&line);
    }
}

/* Parameters are nobody's estimate; what a row says in fractions is. */
static const char *case_sign(const fb_output *r, const json_t *flat, const char *name)
{
    const json_t *params = json_object_get(json_object_get(json_array_get(r->cases, 0), "case"), "params");
    return json_object_get(params, name) ? "" : fb_figure_sign(fb_figure_kind(flat));
}

void fb_output_case_cell(const fb_output *r, const json_t *flat, const char *name, fb_str *out)
{
    const json_t *cell = json_object_get(flat, name);
    char *text = fb_figure_plain(cell);
    fb_str_addf(out, "%s%s", json_is_real(cell) ? case_sign(r, flat, name) : "", text);
    fb_free(text);
}

static void print_cases(const fb_output *r, fb_format format, FILE *out)
{
    json_t *flat = json_array(), *keys = json_object(), *failed = json_object(), *value, *one;
    const char *name;
    size_t i;
    json_array_foreach(r->cases, i, one)
    {
        json_t *row = fb_plot_flat(one);
        const char *why = fb_json_string_or(row, "failed", NULL);
        if (why && format == FB_FORMAT_TABLE) {
            char *text = fb_plot_case_name(one);
            if (!json_object_get(failed, why)) json_object_set_new(failed, why, json_array());
            json_array_append_new(json_object_get(failed, why), json_string(text));
            fb_free(text);
            json_decref(row);
        } else {
            json_array_append_new(flat, row);
        }
    }
    json_array_foreach(flat, i, one)
    {
        json_object_foreach(one, name, value)
        {
            if (!json_is_null(value)) json_object_set(keys, name, value);
        }
    }
    fb_table *t = fb_table_new();
    json_object_foreach(keys, name, value) fb_table_column(t, name, "", json_is_string(value));
    json_array_foreach(flat, i, one)
    {
        fb_table_row(t);
        json_object_foreach(keys, name, value)
        {
            fb_str text = {0};
            char *plain = format == FB_FORMAT_CSV ? fb_figure_plain(json_object_get(one, name)) : NULL;
            if (!plain) fb_output_case_cell(r, one, name, &text);
            fb_table_cell(t, plain ? plain : fb_str_get(&text));
            fb_free(plain);
            fb_str_free(&text);
        }
    }
    if (json_array_size(flat)) fb_table_print(t, format, out);
    if (json_array_size(flat) && format != FB_FORMAT_CSV && any_of_kind(flat)) {
        fputc('\n', out);
        fb_output_legend(out);
    }
    print_failed(failed, out);
    if (format == FB_FORMAT_TABLE) fb_plots_print(r->plots, r->cases, out);
    fb_table_free(t);
    json_decref(flat);
    json_decref(keys);
    json_decref(failed);
}

void fb_output_print(const fb_output *r, fb_format format, FILE *out)
{
    if (format == FB_FORMAT_JSON)
        print_json(r, out);
    else if (json_array_size(r->cases))
        print_cases(r, format, out);
    else if (format == FB_FORMAT_CSV)
        print_plain(r, out);
    else
        print_reports(r, format, out);
}
