/* The columns side by side: variant × plan × device, one row a figure. */
#include "tui/show/figure.h"
#include "tui/view/ui.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL = 15, NARROWEST = 10, WIDEST = 18 };

typedef struct {
    char text[80], brief[32]; /* brief: where the column is too narrow for the text; "": none */
    fb_role role;
} fb_cell;

static const fb_report *report_of(const fb_column *c)
{
    return c->report && !c->report->failed ? c->report : NULL;
}

static bool has_plan(const fb_column *c)
{
    return c->plan && isfinite(c->predicted.us);
}

/* ---- the figures
 * ------------------------------------------------------------------------------------------------------ */

static bool has_failed(const fb_column *c)
{
    return c->state == FB_COLUMN_FAILED || (c->report && (c->report->failed || fb_report_is_wrong(c->report)));
}

static void unknown(const fb_column *c, fb_cell *out)
{
    bool coming = c->state == FB_COLUMN_BUILDING || c->state == FB_COLUMN_QUEUED || c->state == FB_COLUMN_MEASURING;
    snprintf(out->text, sizeof out->text, "%s", coming ? "…" : "-");
    out->role = FB_ROLE_DIM;
}

/* With the sign of its kind, and a colour where it is no measurement. */
static void figure(fb_cell *out, double value, fb_unit unit, fb_figure_source kind)
{
    char text[48];
    snprintf(out->text, sizeof out->text, "%s", fb_figure_write(text, value, unit, kind));
    if (*fb_figure_sign(kind)) out->role = FB_ROLE_PREDICTED;
}

static void stat_cell(const fb_column *c, const fb_report *r, const fb_stat *s, fb_cell *out)
{
    if (!s || s->n == 0)
        unknown(c, out);
    else
        figure(out, s->median, FB_UNIT_US, r->source);
}

static void refused(const char *word, fb_cell *out)
{
    snprintf(out->text, sizeof out->text, "%s", word);
    out->role = FB_ROLE_BAD;
}

static void wall(const fb_column *first, const fb_column *c, fb_cell *out)
{
    const fb_report *r = report_of(c);
    (void)first;
    if (c->state == FB_COLUMN_FAILED || (c->report && c->report->failed)) {
        refused("failed", out);
    } else if (r && fb_report_is_wrong(r)) {
        refused("wrong", out);
    } else if (r && r->wall_us.n) {
        out->role = FB_ROLE_STRONG;
        stat_cell(c, r, &r->wall_us, out);
    } else {
        fb_figure_source kind;
        double us = fb_figure_column_wall(c, &kind);
        if (isfinite(us))
            figure(out, us, FB_UNIT_US, FB_SOURCE_PREDICTED);
        else
            unknown(c, out);
    }
}

static void ratio_cell(fb_cell *out, const char *before, double times, const char *after)
{
    char text[32];
    snprintf(out->text, sizeof out->text, "%s%s%s", before, fb_ratio_say(times, text), after);
    snprintf(out->brief, sizeof out->brief, "%s%s%s", before, fb_ratio_brief(times, text), after);
}

static void against_first(const fb_column *first, const fb_column *c, fb_cell *out)
{
    fb_figure_source kinds[2];
    double before = fb_figure_column_wall(first, &kinds[0]), after = fb_figure_column_wall(c, &kinds[1]),
           times = before / after;
    fb_figure_source kind = kinds[0] > kinds[1] ? kinds[0] : kinds[1]; /* the less certain of the two */
    const char *incomparable = first == c ? NULL : fb_not_comparable(FB_COMPARED(first), FB_COMPARED(c));
    if (!isfinite(times) || incomparable || has_failed(c) || has_failed(first)) {
        unknown(c, out);
        return;
    }
    bool both = kind != FB_SOURCE_PREDICTED;
    if (first != c && both) {
        fb_comparison told = fb_compare_reports(first->report, c->report, FB_TIME_WALL);
        if (told.what == FB_SAME) {
            snprintf(out->text, sizeof out->text, "same");
            return;
        }
        if (told.what == FB_CANNOT_TELL) {
            ratio_cell(out, fb_figure_sign(kind), times, "?");
            out->role = FB_ROLE_DIM;
            return;
        }
    }
    if (first == c)
        snprintf(out->text, sizeof out->text, "1 ×");
    else
        ratio_cell(out, fb_figure_sign(kind), times, "");
    out->role = first == c ? FB_ROLE_DIM : !both ? FB_ROLE_PREDICTED : times > 1 ? FB_ROLE_GOOD : FB_ROLE_BAD;
}

static void launches(const fb_column *first, const fb_column *c, fb_cell *out)
{
    const fb_report *r = report_of(c);
    (void)first;
    if (r && r->launches >= 0)
        snprintf(out->text, sizeof out->text, "%lld", (long long)r->launches);
    else if (has_plan(c)) /* without the copies that only its program has: constants laid out, states handed on */
        figure(out, c->predicted.launches, FB_UNIT_COUNT, FB_SOURCE_PREDICTED);
    else
        unknown(c, out);
}

static bool busy_above_wall(const fb_column *c)
{
    const fb_report *r = report_of(c);
    return r && fb_report_busy_above_wall(r);
}

static void device_busy(const fb_column *first, const fb_column *c, fb_cell *out)
{
    const fb_report *r = report_of(c);
    (void)first;
    bool told = r && r->device_us.n > 0;
    if (has_failed(c))
        unknown(c, out);
    else if (!told && fb_figure_column_has_model(c))
        figure(out, c->predicted.us - c->predicted.launch_us, FB_UNIT_US, FB_SOURCE_PREDICTED);
    else
        stat_cell(c, r, r ? &r->device_us : NULL, out);
    if (has_failed(c) || !busy_above_wall(c)) return;
    size_t n = strlen(out->text);
    snprintf(out->text + n, sizeof out->text - n, "?");
    out->role = FB_ROLE_WARN;
}

static void device_idle(const fb_column *first, const fb_column *c, fb_cell *out)
{
    const fb_report *r = report_of(c);
    (void)first;
    if (has_failed(c) || busy_above_wall(c))
        unknown(c, out);
    else if (r && isfinite(r->gap_us))
        figure(out, r->gap_us, FB_UNIT_US, r->source);
    else if (fb_figure_column_has_model(c))
        figure(out, c->predicted.launch_us, FB_UNIT_US, FB_SOURCE_PREDICTED);
    else
        unknown(c, out);
}

static void bytes_cell(const fb_column *c, double bytes, fb_cell *out)
{
    char text[32];
    if (isfinite(bytes))
        snprintf(out->text, sizeof out->text, "%s", fb_format_bytes(text, bytes));
    else
        unknown(c, out);
}

/* The report's figure where it has one, else that of the plan as it stands. */
static double modelled(const fb_column *c, double reported, int64_t of_plan)
{
    return isfinite(reported) || !has_plan(c) ? reported : (double)of_plan;
}

static void read_modelled(const fb_column *first, const fb_column *c, fb_cell *out)
{
    (void)first;
    bytes_cell(c, modelled(c, report_of(c) ? c->report->bytes_read : NAN, c->predicted.bytes_read), out);
}

static void written_modelled(const fb_column *first, const fb_column *c, fb_cell *out)
{
    (void)first;
    bytes_cell(c, modelled(c, report_of(c) ? c->report->bytes_written : NAN, c->predicted.bytes_written), out);
}

static void moved(const fb_column *first, const fb_column *c, fb_cell *out)
{
    const fb_report *r = report_of(c);
    (void)first;
    bytes_cell(
        c,
        modelled(c, r ? r->bytes_read + r->bytes_written : NAN, c->predicted.bytes_read + c->predicted.bytes_written),
        out);
}

static void read_measured(const fb_column *first, const fb_column *c, fb_cell *out)
{
    (void)first;
    bytes_cell(c, report_of(c) ? c->report->measured_read : NAN, out);
}

static void written_measured(const fb_column *first, const fb_column *c, fb_cell *out)
{
    (void)first;
    bytes_cell(c, report_of(c) ? c->report->measured_written : NAN, out);
}

/* A doubted calibration has none. */
static double floor_of(const fb_column *c)
{
    const fb_report *r = report_of(c);
    bool doubted = c->machine && c->machine->doubted;
    return doubted ? NAN : r && isfinite(r->floor_us) ? r->floor_us : has_plan(c) ? c->predicted.floor_us : NAN;
}

/* It rests on a rate that nobody measured on the device. */
static bool floor_guessed(const fb_column *c)
{
    const fb_report *r = report_of(c);
    return r && isfinite(r->floor_us) ? r->floor_guessed : has_plan(c) && c->predicted.floor_guessed;
}

static void above_floor(const fb_column *first, const fb_column *c, fb_cell *out)
{
    fb_figure_source kind;
    double us = has_failed(c) ? NAN : fb_figure_column_wall(c, &kind), floor = floor_of(c);
    (void)first;
    if (!isfinite(us) || !(floor > 0)) {
        unknown(c, out);
        return;
    }
    bool impossible = kind != FB_SOURCE_PREDICTED && us < floor;
    if (floor_guessed(c)) kind = FB_SOURCE_PREDICTED;
    snprintf(out->text, sizeof out->text, "%s%.1f ×%s", fb_figure_sign(kind), us / floor, impossible ? "?" : "");
    out->role = impossible ? FB_ROLE_WARN : *fb_figure_sign(kind) ? FB_ROLE_PREDICTED : FB_ROLE_TEXT;
}

static void error(const fb_column *first, const fb_column *c, fb_cell *out)
{
    const fb_report *r = report_of(c);
    (void)first;
    if (r && r->error.state == FB_CHECK_CHECKING) {
        snprintf(out->text, sizeof out->text, "%s", fb_check_state_name(FB_CHECK_CHECKING));
        out->role = FB_ROLE_DIM;
        return;
    }
    if (!r || !isfinite(r->error.max_rel) || !isfinite(r->error.bound)) {
        unknown(c, out);
        return;
    }
    if (fb_report_error_says_nothing(&r->error)) {
        snprintf(out->text, sizeof out->text, "undecided");
        out->role = FB_ROLE_DIM;
        return;
    }
    char number[32];
    snprintf(number, sizeof number, "%.0e", r->error.max_rel);
    char *e = strchr(number, 'e'), *digits = e ? e + 2 : NULL;
    if (digits && digits[0] == '0' && digits[1]) memmove(digits, digits + 1, strlen(digits)); /* 1e-07 → 1e-7 */
    if (r->error.max_rel == 0) snprintf(number, sizeof number, "0");
    snprintf(out->text, sizeof out->text, "%s %s", number, r->error.ok ? "✓" : "✗");
    out->role = r->error.ok ? FB_ROLE_GOOD : FB_ROLE_BAD;
}

static void prediction(const fb_column *first, const fb_column *c, fb_cell *out)
{
    fb_figure_source wall_is;
    (void)first;
    fb_figure_column_wall(c, &wall_is);
    if (fb_figure_column_has_model(c) && fb_figure_stands(FB_FIGURE_PREDICTED, wall_is))
        figure(out, c->predicted.us, FB_UNIT_US, FB_SOURCE_PREDICTED);
    else
        unknown(c, out);
}

static void cold(const fb_column *first, const fb_column *c, fb_cell *out)
{
    const fb_report *r = report_of(c);
    (void)first;
    stat_cell(c, r, r ? &r->cold_us : NULL, out);
}

static void spread(const fb_column *first, const fb_column *c, fb_cell *out)
{
    const fb_report *r = report_of(c);
    char low[32], high[32];
    (void)first;
    if (!r || !r->wall_us.n || !isfinite(r->wall_us.p90 - r->wall_us.p10)) {
        unknown(c, out);
        return;
    }
    fb_format_us(low, r->wall_us.p10);
    fb_format_us(high, r->wall_us.p90);
    const char *unit_low = strchr(low, ' '), *unit_high = strchr(high, ' ');
    bool same = unit_low && unit_high && !strcmp(unit_low, unit_high);
    const char *sign = fb_figure_sign(r->source);
    if (same)
        snprintf(out->text, sizeof out->text, "%s%.*s–%s", sign, (int)(unit_low - low), low, high);
    else
        snprintf(out->text, sizeof out->text, "%s%s–%s", sign, low, high);
    double median = r->wall_us.median;
    double below = 100 * (1 - r->wall_us.p10 / median), above = 100 * (r->wall_us.p90 / median - 1);
    if (below < 99.5 && above < 99.5)
        snprintf(out->brief, sizeof out->brief, "-%.0f +%.0f%%", below, above);
    else
        snprintf(out->brief, sizeof out->brief, "±%.0f%%", fmax(below, above));
}

static void samples(const fb_column *first, const fb_column *c, fb_cell *out)
{
    const fb_report *r = report_of(c);
    (void)first;
    if (r && r->wall_us.n && r->source != FB_SOURCE_PREDICTED)
        snprintf(out->text, sizeof out->text, "%d", r->wall_us.n);
    else
        unknown(c, out);
}

static void flops(const fb_column *first, const fb_column *c, fb_cell *out)
{
    const fb_report *r = report_of(c);
    double n = modelled(c, r ? r->flops : NAN, c->predicted.flops);
    (void)first;
    if (!isfinite(n))
        unknown(c, out);
    else if (n < 1e6)
        snprintf(out->text, sizeof out->text, "%.1f k", n / 1e3);
    else if (n < 1e9)
        snprintf(out->text, sizeof out->text, "%.1f M", n / 1e6);
    else if (n < 1e12)
        snprintf(out->text, sizeof out->text, "%.1f G", n / 1e9);
    else
        snprintf(out->text, sizeof out->text, "%.2f T", n / 1e12);
}

static void peak(const fb_column *first, const fb_column *c, fb_cell *out)
{
    const fb_report *r = report_of(c);
    (void)first;
    bytes_cell(c, modelled(c, r ? r->peak_bytes : NAN, c->predicted.peak_bytes), out);
}

static void floor_time(const fb_column *first, const fb_column *c, fb_cell *out)
{
    double us = floor_of(c);
    (void)first;
    if (us > 0)
        figure(out, us, FB_UNIT_US, floor_guessed(c) ? FB_SOURCE_PREDICTED : FB_SOURCE_MEASURED);
    else
        unknown(c, out);
}

/* ---- what its kernels take: counts are -1 where they are not known ---- */

static void most_of(const fb_column *c, size_t field, bool sum, fb_cell *out)
{
    const fb_report *r = report_of(c);
    int64_t most = -1;
    for (int k = 0; r && k < r->n_kernels; k++) {
        int v = *(const int *)((const char *)&r->kernels[k] + field);
        if (v < 0) continue;
        most = sum ? (most < 0 ? 0 : most) + v : v > most ? v : most;
    }
    if (most < 0)
        unknown(c, out);
    else
        snprintf(out->text, sizeof out->text, "%lld", (long long)most);
}

static void registers(const fb_column *first, const fb_column *c, fb_cell *out)
{
    (void)first;
    most_of(c, offsetof(fb_kernel_report, registers), false, out);
}

static void shared_memory(const fb_column *first, const fb_column *c, fb_cell *out)
{
    (void)first;
    most_of(c, offsetof(fb_kernel_report, shared_bytes), false, out);
}

static void spills(const fb_column *first, const fb_column *c, fb_cell *out)
{
    (void)first;
    most_of(c, offsetof(fb_kernel_report, spill_bytes), true, out);
    if (atoi(out->text) > 0) out->role = FB_ROLE_WARN;
}

static void local_memory(const fb_column *first, const fb_column *c, fb_cell *out)
{
    const fb_report *r = report_of(c);
    double sum = NAN;
    (void)first;
    for (int k = 0; r && k < r->n_kernels; k++)
        if (isfinite(r->kernels[k].local_bytes)) sum = (isfinite(sum) ? sum : 0) + r->kernels[k].local_bytes;
    bytes_cell(c, sum, out);
    if (sum > 0) out->role = FB_ROLE_WARN;
}

/* Kernels weighted with their time. */
static void occupancy(const fb_column *first, const fb_column *c, fb_cell *out)
{
    const fb_report *r = report_of(c);
    double us = 0, sum = 0;
    (void)first;
    for (int k = 0; r && k < r->n_kernels; k++) {
        const fb_kernel_report *kernel = &r->kernels[k];
        double weight = kernel->device_us.n ? kernel->device_us.median : kernel->predicted_us;
        if (!isfinite(kernel->occupancy) || !(weight > 0)) continue;
        us += weight;
        sum += weight * kernel->occupancy;
    }
    if (us > 0)
        snprintf(out->text, sizeof out->text, "%.0f %%", 100 * sum / us);
    else
        unknown(c, out);
}

static void compiling(const fb_column *first, const fb_column *c, fb_cell *out)
{
    const fb_report *r = report_of(c);
    (void)first;
    if (r && isfinite(r->compile_ms))
        snprintf(out->text, sizeof out->text, "%.0f ms", r->compile_ms);
    else
        unknown(c, out);
}

static void copied(const fb_column *first, const fb_column *c, fb_cell *out)
{
    const fb_report *r = report_of(c);
    char text[32];
    (void)first;
    if (r && r->copies)
        snprintf(out->text, sizeof out->text, "%s", fb_format_bytes(text, r->copied_in + r->copied_out));
    else
        unknown(c, out);
}

static void copies(const fb_column *first, const fb_column *c, fb_cell *out)
{
    const fb_report *r = report_of(c);
    (void)first;
    if (r && r->copy_us.n)
        figure(out, r->copy_us.median, FB_UNIT_US, fb_figure_kind_of(FB_FIGURE_COPIES, r->source));
    else if (fb_figure_column_has_model(c) && c->predicted.copy_in_us + c->predicted.copy_out_us > 0)
        figure(out, c->predicted.copy_in_us + c->predicted.copy_out_us, FB_UNIT_US, FB_SOURCE_PREDICTED);
    else
        unknown(c, out);
}

static void hidden(const fb_column *first, const fb_column *c, fb_cell *out)
{
    const fb_report *r = report_of(c);
    (void)first;
    if (r && r->copy_us.median > 0 && isfinite(r->copy_hidden_us))
        snprintf(out->text, sizeof out->text, "%s%.0f %%",
                 fb_figure_sign(fb_figure_kind_of(FB_FIGURE_HIDDEN, r->source)),
                 100 * r->copy_hidden_us / r->copy_us.median);
    else
        unknown(c, out);
}

static void source(const fb_column *first, const fb_column *c, fb_cell *out)
{
    const fb_report *r = report_of(c);
    (void)first;
    if (!r || !r->wall_us.n) {
        unknown(c, out);
        return;
    }
    snprintf(out->text, sizeof out->text, "%s%s", fb_report_source_name(r->source), r->stale ? ", stale" : "");
    char brief[16];
    if (r->stale) snprintf(out->brief, sizeof out->brief, "%s", fb_figure_stale(brief, r->source));
    out->role = r->source == FB_SOURCE_PREDICTED ? FB_ROLE_PREDICTED : FB_ROLE_TEXT;
}

static void before_edit(const fb_column *first, const fb_column *c, fb_cell *out)
{
    (void)first;
    stat_cell(c, c->before, c->before && !c->before->failed ? &c->before->wall_us : NULL, out);
    out->role = FB_ROLE_DIM;
}

/* ---- the rows
 * --------------------------------------------------------------------------------------------------------- */

/* What writes each figure of figures.def, in whose order they stand. */
static void (*const cells[FB_FIGURES])(const fb_column *first, const fb_column *c, fb_cell *out) = {
    [FB_FIGURE_WALL] = wall,
    [FB_FIGURE_AGAINST] = against_first,
    [FB_FIGURE_LAUNCHES] = launches,
    [FB_FIGURE_DEVICE] = device_busy,
    [FB_FIGURE_GAP] = device_idle,
    [FB_FIGURE_MOVED] = moved,
    [FB_FIGURE_OVER_FLOOR] = above_floor,
    [FB_FIGURE_ERROR] = error,
    [FB_FIGURE_PREDICTED] = prediction,
    [FB_FIGURE_COLD] = cold,
    [FB_FIGURE_SPREAD] = spread,
    [FB_FIGURE_SAMPLES] = samples,
    [FB_FIGURE_BEFORE] = before_edit,
    [FB_FIGURE_FLOOR] = floor_time,
    [FB_FIGURE_READ] = read_modelled,
    [FB_FIGURE_WRITTEN] = written_modelled,
    [FB_FIGURE_READ_COUNTED] = read_measured,
    [FB_FIGURE_WRITTEN_COUNTED] = written_measured,
    [FB_FIGURE_FLOPS] = flops,
    [FB_FIGURE_PEAK] = peak,
    [FB_FIGURE_REGISTERS] = registers,
    [FB_FIGURE_SHARED] = shared_memory,
    [FB_FIGURE_SPILLS] = spills,
    [FB_FIGURE_LOCAL] = local_memory,
    [FB_FIGURE_OCCUPANCY] = occupancy,
    [FB_FIGURE_COPIED] = copied,
    [FB_FIGURE_COPIES] = copies,
    [FB_FIGURE_HIDDEN] = hidden,
    [FB_FIGURE_SOURCE] = source,
    [FB_FIGURE_COMPILED] = compiling,
};
enum { ROWS = FB_FIGURES, FIRST_ROWS = FB_FIGURE_ERROR + 1 };
_Static_assert((int)ROWS <= (int)FB_MOST_ROWS, "fb_app.hidden_row");

static int shown_row(const fb_app *app, int at)
{
    int all = app->more ? ROWS : FIRST_ROWS;
    for (int i = 0; i < all; i++)
        if (!app->hidden_row[i] && !at--) return i;
    return 0;
}

static int count(fb_app *app)
{
    int all = app->more ? ROWS : FIRST_ROWS, n = 0;
    for (int i = 0; i < all; i++) n += !app->hidden_row[i];
    return n;
}

/* What a cell says as a number: its unit is the same in all of a row, but for the prefix. */
static double number_in(const char *text)
{
    static const struct {
        const char *unit;
        double factor;
    } units[] = {{" ns", 1e-3}, {" µs", 1},  {" ms", 1e3}, {" s", 1e6}, {" kB", 1e3}, {" MB", 1e6},
                 {" GB", 1e9},  {" k", 1e3}, {" M", 1e6},  {" G", 1e9}, {" T", 1e12}};
    char *end;
    while (*text == '~') text++;
    if (!strncmp(text, "≈", strlen("≈"))) text += strlen("≈");
    double v = strtod(text, &end);
    if (end == text) return NAN;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(end, units[i].unit)) return v * units[i].factor;
    return v;
}

double fb_columns_value(fb_app *app, int column)
{
    fb_cell cell = {.role = FB_ROLE_TEXT};
    int row = shown_row(app, app->scroll[FB_VIEW_COLUMNS].cursor);
    cells[row](fb_session_column(app->session, 0), fb_session_column(app->session, column), &cell);
    return number_in(cell.text);
}

const char *fb_columns_row_name(fb_app *app)
{
    return fb_figures[shown_row(app, app->scroll[FB_VIEW_COLUMNS].cursor)].label;
}

static bool has_variants(const fb_app *app)
{
    for (int i = 0; i < fb_session_columns(app->session); i++)
        if (*fb_session_column(app->session, i)->variant) return true;
    return false;
}

static bool devices_differ(const fb_app *app)
{
    int n = fb_session_columns(app->session);
    for (int i = 1; i < n; i++)
        if (strcmp(fb_session_column(app->session, i)->device, fb_session_column(app->session, 0)->device) != 0)
            return true;
    return false;
}

int fb_columns_head(const fb_app *app)
{
    return 2 + devices_differ(app) + has_variants(app);
}

/* In a low pane the variant, which the graph's title tells, makes room for figures. */
static int head_in(const fb_app *app, const fb_rect *r)
{
    int head = fb_columns_head(app);
    return has_variants(app) && r->h < head + 3 ? head - 1 : head;
}

/* What the column's figures are, or what is being done about them; `stale` is room for it. */
static const char *figures_of(const fb_column *c, fb_role *role, char stale[16])
{
    const fb_report *r = report_of(c);
    *role = FB_ROLE_DIM;
    switch (c->state) {
    case FB_COLUMN_BUILDING: return c->searching ? "searching" : "building";
    case FB_COLUMN_QUEUED: return "waiting";
    case FB_COLUMN_MEASURING: return "measuring";
    case FB_COLUMN_FAILED: *role = FB_ROLE_BAD; return "failed";
    default: break;
    }
    if (!r || !r->wall_us.n) {
        *role = FB_ROLE_PREDICTED;
        return has_plan(c) ? "predicted" : "";
    }
    *role = r->stale                           ? FB_ROLE_WARN
            : r->source == FB_SOURCE_MEASURED  ? FB_ROLE_GOOD
            : r->source == FB_SOURCE_PREDICTED ? FB_ROLE_PREDICTED
                                               : FB_ROLE_KEY;
    return r->stale ? fb_figure_stale(stale, r->source) : fb_report_source_name(r->source);
}

/* As wide as titles want to be: what tells columns apart, the variant aside, is cut last. */
static int wanted_width(const fb_app *app)
{
    enum { MARK = 2, BLANK = 1, ENOUGH = 13 };
    int most = NARROWEST;
    bool differ = devices_differ(app);
    for (int i = 0; i < fb_session_columns(app->session); i++) {
        const fb_column *c = fb_session_column(app->session, i);
        int plan = (i < 9 ? 2 : 3) + fb_draw_text_width(fb_file_name(c->plan_name)) + MARK + BLANK;
        int device = differ ? fb_draw_text_width(c->device) + BLANK : 0;
        if (plan > most) most = plan;
        if (device > most) most = device;
    }
    return most < ENOUGH ? most : ENOUGH;
}

int fb_columns_wish(const fb_app *app, int cols)
{
    enum { EACH = 14 };
    int n = fb_session_columns(app->session), most = fb_layout_most_table(cols);
    if (n < 2) n = 2;
    int all = LABEL + EACH * n, fit = (most - LABEL) / wanted_width(app);
    return all <= most || fit < 1 ? all : LABEL + EACH * fit;
}

static int columns_in(const fb_app *app, const fb_rect *r)
{
    int room = (r->w - LABEL) / wanted_width(app);
    return room > 1 ? room : (r->w - LABEL) / NARROWEST; /* two are the least that can be compared */
}

/* Number and plan; below them the device and the variant where there are several, and what the figures are. */
static void draw_head(fb_app *app, const fb_rect *r, int at, int right, int width)
{
    const fb_column *c = fb_session_column(app->session, at);
    bool chosen = at == app->column;
    fb_str top = {0};
    fb_rect cell = {r->y, r->x + right - width, r->h, width - 1};
    fb_role what;
    char stale[16];
    const char *figures = figures_of(c, &what, stale), *mark = chosen ? " ◂" : "";
    fb_str_addf(&top, "%d %s", at + 1, fb_file_name(c->plan_name));
    const struct {
        const char *text;
        fb_role role;
    } line[] = {{fb_str_get(&top), chosen ? FB_ROLE_FOCUS : FB_ROLE_TITLE},
                {devices_differ(app) ? c->device : "", chosen ? FB_ROLE_FOCUS : FB_ROLE_TEXT},
                {head_in(app, r) == fb_columns_head(app) ? c->variant : "", chosen ? FB_ROLE_FOCUS : FB_ROLE_DIM},
                {figures, what}};
    int y = 0, n = head_in(app, r);
    for (int i = 0; i < 4; i++) {
        if (i && i < 3 && !*line[i].text) continue;
        int room = cell.w - (i ? 0 : fb_draw_text_width(mark)), w = fb_draw_text_width(line[i].text);
        int x = fb_draw_cut(&cell, i == 3 ? n - 1 : y, w < room ? room - w : 0, room, line[i].role, line[i].text);
        if (!i) fb_draw(&cell, 0, x, FB_ROLE_FOCUS, mark);
        y++;
    }
    fb_str_free(&top);
}

/* Which columns are in sight: the first, which all are compared with, and a window that holds the one with the focus.
 */
static int visible(const fb_app *app, int room, int to[64])
{
    int n = fb_session_columns(app->session), shown = 0, from = 1;
    if (!n || room < 1) return 0;
    if (room > 64) room = 64;
    to[shown++] = 0;
    if (app->column >= room) from = app->column - room + 2;
    if (room == 1) to[0] = app->column;
    for (int i = from; i < n && shown < room; i++) to[shown++] = i;
    return shown;
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    fb_scroll *s = &app->scroll[FB_VIEW_COLUMNS];
    int n = fb_session_columns(app->session), head = head_in(app, r), at[64];
    int shown = visible(app, n ? columns_in(app, r) : 0, at);
    if (!n) {
        fb_draw_wrapped(r, 1, 2, r->h - 1, FB_ROLE_DIM, fb_session_script(app->session) ? "no column: A adds one" : "");
        return;
    }
    if (!shown) return;
    int width = (r->w - LABEL) / shown;
    if (width > WIDEST) width = WIDEST;
    const fb_column *first = fb_session_column(app->session, 0);
    for (int k = 0; k < shown; k++) draw_head(app, r, at[k], LABEL + (k + 1) * width, width);
    if (at[shown - 1] < n - 1) fb_draw(r, 0, r->w - 1, FB_ROLE_KEY, "→");
    if (shown > 1 && at[1] > 1) fb_draw(r, 0, LABEL - 2, FB_ROLE_KEY, "←");
    fb_scroll_fit(s, count(app), r->h - head);
    for (int y = 0, at_row; y < r->h - head; y++) {
        if ((at_row = fb_shown_row(app, FB_VIEW_COLUMNS, y, count(app))) == FB_NONE) break;
        int row = shown_row(app, at_row);
        bool here = fb_row_ground(app, FB_VIEW_COLUMNS, r, y + head, at_row, focused);
        fb_draw_cut(r, y + head, 1, LABEL, here ? FB_ROLE_TEXT : FB_ROLE_DIM, fb_figures[row].label);
        for (int k = 0; k < shown; k++) {
            fb_cell cell = {.role = FB_ROLE_TEXT};
            cells[row](first, fb_session_column(app->session, at[k]), &cell);
            bool narrow = fb_draw_text_width(cell.text) >= width && *cell.brief;
            fb_draw_right(r, y + head, LABEL + (k + 1) * width - 1, cell.role, narrow ? cell.brief : cell.text);
        }
    }
    fb_draw_ground(FB_GROUND_PLAIN);
    if (s->top + r->h - head < count(app)) fb_draw(r, r->h - 1, r->w - 1, FB_ROLE_KEY, "↓");
}

static void title(fb_app *app, fb_str *out)
{
    bool guess = false;
    fb_figure_source kind;
    for (int i = 0; i < fb_session_columns(app->session); i++) {
        fb_figure_column_wall(fb_session_column(app->session, i), &kind);
        guess |= kind == FB_SOURCE_PREDICTED;
    }
    fb_str_add(out, "columns");
    if (guess) fb_str_add(out, " · ~ predicted");
}

static void text(fb_app *app, int row, fb_str *out)
{
    fb_str_add(out, fb_figures[shown_row(app, row)].label);
}

static void explain(fb_app *app, fb_hint *hint)
{
    const fb_column *c = app->model.column;
    char was[48], is[48];
    int row = app->scroll[FB_VIEW_COLUMNS].cursor;
    if (row >= count(app)) return;
    row = shown_row(app, row);
    fb_str_add(&hint->title, fb_figures[row].label);
    fb_str_add(&hint->line[0], fb_figures[row].help);
    if (!c) return;
    if ((row == FB_FIGURE_DEVICE || row == FB_FIGURE_GAP) && busy_above_wall(c)) {
        fb_str_clear(&hint->line[0]);
        fb_str_add(&hint->line[0], fb_figure_busy_help);
        hint->role[0] = FB_ROLE_WARN;
    }
    if (c->state == FB_COLUMN_FAILED || (c->report && c->report->failed)) {
        fb_str_clear(&hint->line[0]);
        fb_str_addf(&hint->line[0], "column %d failed: %s", app->column + 1,
                    c->state == FB_COLUMN_FAILED ? c->error.text : c->report->failed);
        hint->role[0] = FB_ROLE_BAD;
    }
    bool of_floor = row == FB_FIGURE_OVER_FLOOR || row == FB_FIGURE_FLOOR || row == FB_FIGURE_PREDICTED;
    if (of_floor && c->plan && c->machine && c->machine->doubted) {
        fb_str_addf(&hint->line[1],
                    "The calibration of %s is doubted: it was made while the machine was busy, or something ran faster "
                    "than it allows. C calibrates again.",
                    c->device);
        hint->role[1] = FB_ROLE_WARN;
        return;
    }
    if (of_floor && c->plan && floor_guessed(c)) {
        bool calibrated = c->machine && c->machine->calibrated;
        fb_str_addf(&hint->line[1],
                    calibrated
                        ? "What the floor takes most of was never measured on %s: its rate is a guess, and so is this."
                        : "%s is uncalibrated: its rates are guesses, and so is this. C calibrates it.",
                    c->device);
        hint->role[1] = FB_ROLE_WARN;
        return;
    }
    fb_str_addf(&hint->line[1], "%d  %s", app->column + 1, c->text);
    const fb_column *first = fb_session_column(app->session, 0);
    const char *incomparable = fb_not_comparable(FB_COMPARED(first), FB_COMPARED(c));
    if (row == FB_FIGURE_AGAINST && app->column && incomparable)
        fb_str_addf(&hint->line[1], " · no ratio: %s than column 1's", incomparable);
    if (report_of(c) && c->report->wall_us.n && c->before && !c->before->failed && c->before->wall_us.n) {
        char said[64];
        fb_comparison told = fb_compare_reports(c->before, c->report, FB_TIME_WALL);
        fb_str_addf(&hint->line[1], " · the last edit: %s → %s, %s",
                    fb_figure_write(was, c->before->wall_us.median, FB_UNIT_US, c->before->source),
                    fb_figure_write(is, c->report->wall_us.median, FB_UNIT_US, c->report->source),
                    fb_comparison_say(&told, said));
    }
    if (report_of(c) && !c->report->error.ok && *c->report->error.worst)
        fb_str_addf(&hint->line[1], " · wrong: %s", c->report->error.worst);
}

/* "wall 110 µs, 1 eager on test machine" */
static void yank(fb_app *app, fb_str *out)
{
    const fb_column *c = app->model.column;
    int row = app->scroll[FB_VIEW_COLUMNS].cursor;
    fb_cell cell = {.role = FB_ROLE_TEXT};
    if (!c || row >= count(app)) return;
    row = shown_row(app, row);
    cells[row](fb_session_column(app->session, 0), c, &cell);
    fb_str_addf(out, "%s %s, %d %s on %s", fb_figures[row].label, cell.text, app->column + 1, c->text,
                c->machine && *c->machine->name ? c->machine->name : c->device);
}

static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    int n = fb_session_columns(app->session), to = app->column + (c == FB_CMD_RIGHT) - (c == FB_CMD_LEFT);
    (void)arg;
    if (c == FB_CMD_HIDE) {
        if (count(app) > 1) app->hidden_row[shown_row(app, app->scroll[FB_VIEW_COLUMNS].cursor)] = true;
        return true;
    }
    if (c != FB_CMD_LEFT && c != FB_CMD_RIGHT) return false;
    if (to >= 0 && to < n) {
        app->column = to;
        fb_model_update(app);
    }
    return true;
}

/* A click on a column goes to it. */
static int row_at(fb_app *app, int y, int x)
{
    const fb_rect *r = &app->layout.pane[FB_PANE_COLUMNS];
    int at[64], n = fb_session_columns(app->session), head = head_in(app, r);
    int shown = visible(app, n ? columns_in(app, r) : 0, at);
    int width = shown ? (r->w - LABEL) / shown : 1, k;
    if (width > WIDEST) width = WIDEST;
    k = (x - LABEL) / width;
    if (x >= LABEL && k < shown) {
        app->column = at[k];
        fb_model_update(app);
    }
    return y < head ? -1 : app->scroll[FB_VIEW_COLUMNS].top + y - head;
}

static const fb_view_key keys[] = {
    {FB_CMD_LEFT, "", "the column to the left"},
    {FB_CMD_RIGHT, "", "the column to the right"},
    {FB_CMD_SORT, "", "sort the columns by the row under the cursor"},
    {FB_CMD_HIDE, "", "hide the row under the cursor"},
    {FB_CMD_MORE, "", "more rows, or fewer"},
    {FB_CMD_YANK, "", "copy the figure"},
    {FB_CMD_WHY, "", "why this column is faster or slower than another"},
    {FB_CMD_NONE, NULL, NULL},
};

const fb_view fb_view_columns = {
    .row_at = row_at,
    .title = title,
    .count = count,
    .draw = draw,
    .text = text,
    .explain = explain,
    .command = command,
    .keys = keys,
    .yank = yank,
    .about = "One column is one plan for the same model: which operations share a kernel, and on which device "
             "it runs. A row is a figure; figures of one row may be compared.\n"
             "Look at three rows first. wall is how long one run takes. launches is how many kernels are "
             "started for it. moved is how many bytes they read and write.\n"
             "A figure with ~ is predicted, one with ≈ is put together from recordings, and one with no sign "
             "was measured. The box below explains the row under the cursor.",
};
