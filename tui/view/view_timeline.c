/* One traced run of the column in focus on a time axis: calls on the host, kernels on the device with the gaps between
 * them, what is copied in and out beside or between them, the device's metrics where it has any, and the launches as a
 * list. */
#include "tui/show/code.h"
#include "tui/view/ui.h"

#include <math.h>
#include <string.h>

enum { NAMES = 11, METRIC_NAMES = 21, LANES = 4, CLOSEST = 1 << 20, BESIDE = 96, LIST = 56 };

/* The source of the launch under the cursor, where there is room beside the list. */
typedef struct {
    int group; /* FB_NONE: there is none */
    fb_hash plan;
    int n;
    const char **lines;
} code;

static const fb_timeline *now(fb_app *app, fb_error *err)
{
    return app->model.column ? fb_session_timeline(app->session, app->column, err) : NULL;
}

/* ---- the window: what of the run is in sight ----------------------------------------------------------------------
 */

typedef struct {
    double from, to;
    int x, width; /* where it is drawn, right of the lanes' names */
} window;

static double length_of(const fb_timeline *t)
{
    double end = 0;
    for (int64_t i = 0; i < t->n_spans; i++) end = fmax(end, t->spans[i].end_us);
    return end > 0 ? end : 1;
}

/* The zoomed part holds the launch under the cursor in its middle. */
static window window_of(const fb_app *app, const fb_timeline *t, const fb_rect *r)
{
    int names = t->metrics.n_metrics ? METRIC_NAMES : NAMES;
    double all = length_of(t), width = all / app->timeline_zoom;
    int at = app->scroll[FB_VIEW_TIMELINE].cursor;
    double middle = at < t->n_spans ? (t->spans[at].start_us + t->spans[at].end_us) / 2 : 0;
    double from = fmin(fmax(middle - width / 2, 0), all - width);
    return (window){from, from + width, names, r->w - names - 1};
}

/* ---- lanes --------------------------------------------------------------------------------------------------------
 */

static int letter_of_kernel(const fb_app *app, const fb_report *r, int kernel)
{
    if (kernel < 0 || kernel >= r->n_kernels) return FB_NONE;
    int group = r->kernels[kernel].group;
    return group >= 0 && group < app->model.letters.n_groups ? app->model.letters.of_group[group] : FB_NONE;
}

/* Of what stands behind a span's index: two kernels may have one name. */
static int letter_of_index(const fb_app *app, const fb_timeline *t, int index)
{
    const fb_column *c = app->model.column;
    const fb_report *r = c ? c->report : NULL;
    if (!r || index < 0 || index >= t->n_names) return FB_NONE;
    if (t->kernels) return letter_of_kernel(app, r, t->kernels[index]);
    for (int k = 0; k < r->n_kernels; k++)
        if (!strcmp(r->kernels[k].name, t->names[index])) return letter_of_kernel(app, r, k);
    return FB_NONE;
}

static int letter_of(const fb_app *app, const fb_timeline *t, const fb_span *s)
{
    return letter_of_index(app, t, s->index);
}

static void block(const fb_rect *r, int y, const window *w, double start, double end, fb_role role, const char *sign,
                  const char *label)
{
    double scale = w->width / (w->to - w->from);
    int from = (int)floor((start - w->from) * scale), to = (int)ceil((end - w->from) * scale);
    if (!(end >= w->from) || !(start <= w->to)) return;
    if (from < 0) from = 0;
    if (to > w->width) to = w->width;
    if (to <= from) to = from + 1;
    fb_draw_run(r, y, w->x + from, to - from, role, sign);
    if (*label && to - from >= 3) fb_draw(r, y, w->x + (from + to) / 2, role, label);
}

static bool has_copies(const fb_timeline *t)
{
    for (int64_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].lane != FB_LANE_KERNEL) return true;
    return false;
}

/* Lanes above the metrics: with copies two more, around the kernels. */
static int lanes_of(const fb_timeline *t)
{
    return LANES + (has_copies(t) ? 2 : 0);
}

static int lane_row(const fb_timeline *t, fb_lane lane)
{
    if (!has_copies(t)) return 2;
    return lane == FB_LANE_IN ? 2 : lane == FB_LANE_KERNEL ? 3 : 4;
}

static void draw_spans(fb_app *app, const fb_rect *r, const fb_timeline *t, const window *w)
{
    int cursor = app->scroll[FB_VIEW_TIMELINE].cursor;
    int *letters = fb_calloc((size_t)t->n_names + 1, sizeof *letters); /* there may be many spans of a few names */
    for (int i = 0; i < t->n_names; i++) letters[i] = letter_of_index(app, t, i);
    fb_draw(r, 1, 1, FB_ROLE_DIM, "launches");
    fb_draw(r, lane_row(t, FB_LANE_KERNEL), 1, FB_ROLE_DIM, "kernels");
    if (has_copies(t)) {
        fb_draw(r, lane_row(t, FB_LANE_IN), 1, FB_ROLE_DIM, "copies in");
        fb_draw(r, lane_row(t, FB_LANE_OUT), 1, FB_ROLE_DIM, "copies out");
    }
    for (int64_t i = 0; i < t->n_spans; i++) {
        const fb_span *s = &t->spans[i];
        char name[8] = "";
        double first = isfinite(s->issue_start_us) ? fmin(s->issue_start_us, s->start_us) : s->start_us;
        if (s->end_us < w->from || first > w->to) continue;
        int letter = s->index >= 0 && s->index < t->n_names ? letters[s->index] : FB_NONE;
        fb_role role = s->lane != FB_LANE_KERNEL ? FB_ROLE_BYTES
                       : letter == FB_NONE       ? FB_ROLE_TIME
                                                 : (fb_role)(FB_ROLE_GROUP + letter % FB_GROUP_COLOURS);
        int y = lane_row(t, s->lane);
        if (letter != FB_NONE) fb_letter_name(letter, name);
        if (isfinite(s->issue_start_us)) block(r, 1, w, s->issue_start_us, s->issue_end_us, FB_ROLE_DIM, "▪", "");
        block(r, y, w, s->start_us, s->end_us, i == cursor ? FB_ROLE_KEY : role, "█", name);
        if (i == cursor) block(r, lanes_of(t), w, s->start_us, s->end_us, FB_ROLE_KEY, "↑", "");
    }
    fb_free(letters);
}

static const char *const levels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

static const char *level(double share)
{
    return levels[share >= 1 ? 7 : share <= 0 ? 0 : (int)(share * 8)];
}

/* How much of each cell's time no kernel runs: gaps are seen even where they are narrower than a cell. */
static void draw_idle(const fb_rect *r, const fb_timeline *t, const window *w)
{
    int width = w->width;
    double step = (w->to - w->from) / width, all = length_of(t);
    double *busy = fb_calloc((size_t)width + 1, sizeof *busy);
    double done = 0; /* spans are in order of execution; what runs beside another counts once */
    int y = lanes_of(t) - 1;
    for (int64_t i = 0; i < t->n_spans; i++) {
        if (t->spans[i].lane != FB_LANE_KERNEL) continue;
        double from = fmax(t->spans[i].start_us, done), to = t->spans[i].end_us;
        int first = (int)floor((from - w->from) / step), last = (int)floor((to - w->from) / step);
        done = fmax(done, to);
        for (int x = first < 0 ? 0 : first; x <= last && x < width; x++)
            busy[x] += fmax(fmin(to, w->from + (x + 1) * step) - fmax(from, w->from + x * step), 0) / step;
    }
    fb_draw(r, y, 1, FB_ROLE_DIM, "idle");
    for (int x = 0; x < width; x++)
        if (busy[x] < 0.98 && w->from + x * step < all) fb_draw(r, y, w->x + x, FB_ROLE_WARN, level(1 - busy[x]));
    fb_free(busy);
}

static void draw_axis(const fb_rect *r, const window *w)
{
    char text[32];
    for (int i = 0; i <= 4; i++) {
        int x = w->x + w->width * i / 4;
        fb_format_us(text, w->from + (w->to - w->from) * i / 4);
        if (i == 4)
            fb_draw_right(r, 0, r->w - 1, FB_ROLE_DIM, text);
        else
            fb_draw(r, 0, x, FB_ROLE_DIM, text);
    }
}

/* The means of a metric in each cell over the runs that were sampled, each laid over the run that is shown. Where no
 * sample fell into a cell, the one before goes on. */
static void metric_cells(const fb_metric_log *m, int which, const window *w, int width, double *mean)
{
    int *n = fb_calloc((size_t)width + 1, sizeof *n);
    double before = NAN; /* the last sample left of the window */
    double before_at = -INFINITY;
    int64_t run = 0;
    for (int x = 0; x < width; x++) mean[x] = 0;
    for (int64_t i = 0; i < m->n; i++) {
        double v = m->value[i * m->n_metrics + which];
        while (run + 1 < m->n_runs && m->at_us[i] >= m->run_us[2 * (run + 1)]) run++;
        double at = m->at_us[i] - m->run_us[2 * run];
        if (!m->n_runs || !isfinite(v) || m->at_us[i] >= m->run_us[2 * run + 1] || at < 0) continue;
        int x = (int)floor((at - w->from) * width / (w->to - w->from));
        if (at < w->from && at > before_at) before = v, before_at = at;
        if (x < 0 || x >= width) continue;
        mean[x] += v;
        n[x]++;
    }
    for (int x = 0; x < width; x++) {
        if (n[x]) before = mean[x] / n[x];
        mean[x] = before;
    }
    fb_free(n);
}

/* What stands beside a lane's name is the mean of what is in sight. */
static void draw_metrics(const fb_rect *r, int y, const fb_timeline *t, const window *w)
{
    enum { FIGURE = 5 };
    static const double nothing = 0.005;
    const fb_metric_log *m = &t->metrics;
    double *mean = fb_calloc((size_t)w->width + 1, sizeof *mean);
    for (int k = 0; k < m->n_metrics && y + k < r->h; k++) {
        double sum = 0;
        int known = 0;
        char text[16];
        fb_draw_cut(r, y + k, 1, w->x - 2 - FIGURE, FB_ROLE_DIM, m->metric[k]);
        metric_cells(m, k, w, w->width, mean);
        for (int x = 0; x < w->width; x++) {
            if (!isfinite(mean[x])) continue;
            bool none = mean[x] < nothing;
            fb_draw(r, y + k, w->x + x, none ? FB_ROLE_DIM : FB_ROLE_BYTES, none ? "·" : level(mean[x]));
            sum += mean[x];
            known++;
        }
        if (!known) continue;
        snprintf(text, sizeof text, "%.0f %%", 100 * sum / known);
        fb_draw_right(r, y + k, w->x - 1, FB_ROLE_STRONG, text);
    }
    fb_free(mean);
}

/* ---- the list -----------------------------------------------------------------------------------------------------
 */

static const char *name_of(const fb_timeline *t, const fb_span *s)
{
    return s->index >= 0 && s->index < t->n_names ? t->names[s->index] : "?";
}

static void draw_list(fb_app *app, const fb_rect *r, int y, const fb_timeline *t, bool focused)
{
    fb_scroll *s = &app->scroll[FB_VIEW_TIMELINE];
    fb_rect list = {r->y + y, r->x, r->h - y, r->w};
    fb_scroll_fit(s, (int)t->n_spans, list.h);
    fb_filter_fit(app, FB_VIEW_TIMELINE, list.h);
    for (int i = 0, row; i < list.h && (row = fb_shown_row(app, FB_VIEW_TIMELINE, i, (int)t->n_spans)) != FB_NONE;
         i++) {
        const fb_span *span = &t->spans[row];
        char text[32], letter[8] = "", name[96];
        int l = letter_of(app, t, span), w = r->w;
        double gap = row ? span->start_us - t->spans[row - 1].end_us : NAN;
        fb_row_ground(app, FB_VIEW_TIMELINE, &list, i, row, focused);
        if (l != FB_NONE) fb_letter_name(l, letter);
        fb_draw(&list, i, 1, l == FB_NONE ? FB_ROLE_DIM : (fb_role)(FB_ROLE_GROUP + l % FB_GROUP_COLOURS), letter);
        fb_draw_cut(&list, i, 4, w - 40, FB_ROLE_TEXT, fb_kernel_short_name(name, sizeof name, name_of(t, span)));
        fb_draw_right(&list, i, w - 25, FB_ROLE_DIM, fb_format_us(text, span->start_us));
        fb_draw_right(&list, i, w - 13, FB_ROLE_STRONG, fb_format_us(text, span->end_us - span->start_us));
        if (gap > 0) fb_draw_right(&list, i, w - 1, FB_ROLE_WARN, fb_format_us(text, gap));
    }
}

/* ---- the launch's source ----------------------------------------------------------------------------------------
 */

static int group_of(const fb_app *app, const fb_timeline *t, int at)
{
    const fb_column *c = app->model.column;
    int letter = c && c->plan && at < t->n_spans ? letter_of(app, t, &t->spans[at]) : FB_NONE;
    return letter == FB_NONE ? FB_NONE : app->model.letters.first_group[letter];
}

static const code *code_at(fb_app *app, const fb_timeline *t)
{
    code *now = app->state[FB_VIEW_TIMELINE];
    int group = group_of(app, t, app->scroll[FB_VIEW_TIMELINE].cursor);
    if (now && now->group == group && fb_hash_equal(now->plan, app->model.plan_hash)) return now;
    now = fb_view_state(app, FB_VIEW_TIMELINE, sizeof *now);
    now->group = group;
    now->plan = app->model.plan_hash;
    fb_arena *arena = app->arena[FB_VIEW_TIMELINE];
    if (group != FB_NONE) now->n = fb_code_lines(arena, fb_code_of(app->model.column, group, arena), &now->lines);
    return now;
}

static void draw_code(fb_app *app, const fb_rect *r, int y, const fb_timeline *t)
{
    const code *c = code_at(app, t);
    fb_rect beside = {r->y + y, r->x + LIST + 2, r->h - y, r->w - LIST - 2};
    bool comment = false;
    for (int i = 0; i < beside.h; i++) {
        fb_rect line = {r->y + y, r->x, r->h - y, r->w};
        fb_draw(&line, i, LIST, FB_ROLE_FRAME, "│");
        if (i < c->n) comment = fb_view_draw_code(&beside, i, 0, c->lines[i], comment);
    }
    if (!c->n) fb_draw(&beside, 0, 0, FB_ROLE_DIM, "its source is not known here");
}

/* ---- the whole ----------------------------------------------------------------------------------------------------
 */

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    fb_error err = {0};
    const fb_timeline *t = now(app, &err);
    const fb_column *c = app->model.column;
    if (!t || !t->n_spans) {
        bool coming = c && (c->state == FB_COLUMN_QUEUED || c->state == FB_COLUMN_MEASURING);
        fb_rect inner = {r->y, r->x + 2, r->h, r->w - 4};
        fb_draw_wrapped(&inner, 1, 0, r->h - 1, FB_ROLE_DIM,
                        coming        ? "a run is being traced …"
                        : err.text[0] ? err.text
                                      : "this device tells no launches apart");
        return;
    }
    const window w = window_of(app, t, r);
    int above = 1 + lanes_of(t), lanes = above + t->metrics.n_metrics;
    if (lanes > r->h - 3) lanes = above;
    fb_rect list = *r;
    if (r->w >= BESIDE) list.w = LIST;
    draw_axis(r, &w);
    draw_spans(app, r, t, &w);
    draw_idle(r, t, &w);
    if (lanes > above) draw_metrics(r, above, t, &w);
    fb_draw(&list, lanes, 4, FB_ROLE_DIM, "launch");
    fb_draw_right(&list, lanes, list.w - 25, FB_ROLE_DIM, "starts");
    fb_draw_right(&list, lanes, list.w - 13, FB_ROLE_DIM, "takes");
    fb_draw_right(&list, lanes, list.w - 1, FB_ROLE_DIM, "gap before");
    draw_list(app, &list, lanes + 1, t, focused);
    fb_draw_ground(FB_GROUND_PLAIN);
    if (list.w < r->w) draw_code(app, r, lanes, t);
}

/* ---- the view -----------------------------------------------------------------------------------------------------
 */

/* A run is traced when the view is first opened for a column, by measuring it again. */
static void opened(fb_app *app)
{
    const fb_column *c = app->model.column;
    app->scroll[FB_VIEW_TIMELINE] = (fb_scroll){0};
    app->timeline_zoom = 1;
    fb_view_state(app, FB_VIEW_TIMELINE, sizeof(code)); /* another column's source is forgotten */
    if (!c || now(app, NULL)) return;
    fb_session_trace(app->session, true);
    fb_session_measure(app->session, &app->column, 1);
}

/* What the table counts, a call of a library as one, which may be several kernels; -1: it counts none. */
static int64_t launches_of(const fb_app *app)
{
    const fb_column *c = app->model.column;
    return c && c->report && !c->report->failed ? c->report->launches : -1;
}

static void title(fb_app *app, fb_str *out)
{
    const fb_timeline *t = now(app, NULL);
    fb_str_addf(out, "timeline · %d", app->column + 1);
    if (app->model.column) fb_str_addf(out, " %s", app->model.column->plan_name);
    if (t && t->n_spans) {
        long long kernels = fb_timeline_kernels(t), launches = launches_of(app);
        fb_str_addf(out, " · %lld %s", kernels, kernels == launches || launches < 0 ? "launches" : "kernels");
        if (kernels != launches && launches >= 0) fb_str_addf(out, " of %lld launches", launches);
        fb_str_addf(out, ", busy %.0f %%", 100 * fb_timeline_busy_us(t) / length_of(t));
    }
    if (t && app->timeline_zoom > 1) fb_str_addf(out, " · ×%d", app->timeline_zoom);
}

static int count(fb_app *app)
{
    const fb_timeline *t = now(app, NULL);
    return t ? (int)t->n_spans : 0;
}

static void text(fb_app *app, int row, fb_str *out)
{
    const fb_timeline *t = now(app, NULL);
    if (t && row < t->n_spans) fb_str_add(out, name_of(t, &t->spans[row]));
}

static void explain(fb_app *app, fb_hint *hint)
{
    const fb_timeline *t = now(app, NULL);
    int at = app->scroll[FB_VIEW_TIMELINE].cursor;
    char us[32], call[32];
    fb_str_add(&hint->title, "launch");
    fb_str_add(&hint->line[1], "j k: another launch · + -: zoom around it · Enter: its source");
    if (!t || at >= t->n_spans) return;
    if (t->metrics.n_metrics) fb_str_add(&hint->line[1], " · lanes: share of the peak, mean of what is in sight");
    const fb_span *s = &t->spans[at];
    fb_str_addf(&hint->line[0], "%s: %s on stream %d", name_of(t, s), fb_format_us(us, s->end_us - s->start_us),
                s->stream);
    if (isfinite(s->issue_start_us))
        fb_str_addf(&hint->line[0], " · its call took %s and returned %s before it began",
                    fb_format_us(call, s->issue_end_us - s->issue_start_us),
                    fb_format_us(us, fmax(s->start_us - s->issue_end_us, 0)));
    if (fb_timeline_kernels(t) > launches_of(app) && launches_of(app) >= 0)
        fb_str_add(&hint->line[1], " · one call of a library may be several kernels");
    if (t->no_metrics && !at) fb_str_addf(&hint->line[0], " · no metrics: %s", t->no_metrics);
}

static bool enter(fb_app *app)
{
    const fb_timeline *t = now(app, NULL);
    int at = app->scroll[FB_VIEW_TIMELINE].cursor,
        letter = t && at < t->n_spans ? letter_of(app, t, &t->spans[at]) : FB_NONE;
    for (int i = 0; i < app->model.kernels.n && letter != FB_NONE; i++) {
        if (app->model.kernels.at[i].letter != letter) continue;
        app->focus = FB_VIEW_KERNELS;
        app->scroll[FB_VIEW_KERNELS].cursor = i;
        app->source_kind = FB_SOURCE_GENERATED;
        fb_app_show(app, FB_VIEW_SOURCE);
        break;
    }
    return true;
}

static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    (void)arg;
    switch (c) {
    case FB_CMD_ENTER: return enter(app);
    case FB_CMD_LEFT: return fb_scroll_command(&app->scroll[FB_VIEW_TIMELINE], count(app), 1, FB_CMD_UP);
    case FB_CMD_RIGHT: return fb_scroll_command(&app->scroll[FB_VIEW_TIMELINE], count(app), 1, FB_CMD_DOWN);
    case FB_CMD_MORE:
    case FB_CMD_UNFOLD_ALL:
        if (app->timeline_zoom < CLOSEST) app->timeline_zoom *= 2;
        return true;
    case FB_CMD_FOLD_ALL:
        if (app->timeline_zoom > 1) app->timeline_zoom /= 2;
        return true;
    default: return false;
    }
}

static const fb_view_key keys[] = {
    {FB_CMD_RIGHT, "l next", "the next launch"},
    {FB_CMD_LEFT, "", "the launch before"},
    {FB_CMD_MORE, "+ zoom", "closer, around the launch under the cursor"},
    {FB_CMD_FOLD_ALL, "- out", "further away"},
    {FB_CMD_ENTER, "source", "the source of the launch's kernel"},
    {FB_CMD_NONE, NULL, NULL},
};

const fb_view fb_view_timeline = {
    .title = title,
    .count = count,
    .draw = draw,
    .text = text,
    .explain = explain,
    .command = command,
    .opened = opened,
    .keys = keys,
    .about = "One run from left to right. The upper lane shows when the program asked for each kernel, the "
             "lane below when the kernel ran. White space between kernels is time in which the device waits.\n"
             "The list below names the launches; where there is room the source of the one under the cursor "
             "stands beside it.",
};
