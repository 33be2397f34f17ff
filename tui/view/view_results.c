/* Results: every column tried, or the rows of any results file, to be sorted, filtered, plotted and opened again. */
#include "base/json.h"
#include "base/str.h"
#include "session/results.h"
#include "tui/show/figure.h"
#include "tui/show/points.h"
#include "tui/view/tried.h"
#include "tui/view/ui.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

typedef enum { BY_WHEN, BY_SCRIPT, BY_COLUMN, BY_WALL, BY_LAUNCHES, BY_BYTES, BY_FLOOR, BY_RATE, FIELDS } field;

static const struct {
    const char *name, *label;
    bool text;
} fields[FIELDS] = {
    [BY_WHEN] = {"when", "when", false},
    [BY_SCRIPT] = {"script", "script", true},
    [BY_COLUMN] = {"column", "column", true},
    [BY_WALL] = {"wall", "wall", false},
    [BY_LAUNCHES] = {"launches", "launches", false},
    [BY_BYTES] = {"bytes", "moved", false},
    [BY_FLOOR] = {"floor", "× floor", false},
    [BY_RATE] = {"rate", "a second", false},
};

/* One row as it is shown. */
typedef struct {
    const json_t *row;
    int at; /* in the file */
    const char *script, *column, *params;
    double key[FIELDS];
    const double *most;    /* of the rates on its device: as long as a bar gets, for bars tell ratios */
    fb_figure_source kind; /* of its times */
} item;

typedef struct {
    const char *device;
    double most;
} scale;

typedef struct {
    fb_results *file;
    int n, n_scales;
    item *items;
    scale *scales;
    double most; /* of the rates of an experiment's rows; 0: there are none */
} list;

static list *state(fb_app *app)
{
    return app->state[FB_VIEW_RESULTS];
}

/* ---- reading ------------------------------------------------------------------------------------------------------
 */

static const char *params_text(fb_arena *arena, const json_t *params)
{
    fb_str out = {0};
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)params, name, value)
    {
        char *text = json_is_string(value) ? fb_strdup(json_string_value(value)) : fb_json_line(value);
        fb_str_addf(&out, "%s%s=%s", out.n ? " " : "", name, text);
        fb_free(text);
    }
    const char *copy = fb_arena_strdup(arena, fb_str_get(&out));
    fb_str_free(&out);
    return copy;
}

/* What an experiment calls so many a second: "vectors_per_s", whatever it counts. */
static double rate_of(const json_t *values)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)values, key, value)
    {
        size_t n = strlen(key);
        if (n > 6 && strcmp(key + n - 6, "_per_s") == 0 && json_is_number(value)) return json_number_value(value);
    }
    return NAN;
}

static item read_item(fb_arena *arena, const json_t *row, int at)
{
    const json_t *which = json_object_get(row, "case"), *of = which ? which : row,
                 *values = json_object_get(row, "row");
    const char *path = fb_json_string_or(row, "script", "");
    const char *variant = fb_json_string_or(of, "variant", ""), *device = fb_json_string_or(of, "device", "");
    item it = {.row = row, .at = at, .script = fb_arena_strdup(arena, fb_file_name(path))};
    char *dot = strrchr(it.script, '.');
    if (dot && !strcmp(dot, ".lua")) *dot = '\0'; /* as in the list of scripts */
    it.column = fb_arena_printf(arena, "%s%s%s%s%s", variant, *variant ? ":" : "", fb_json_string_or(of, "plan", "?"),
                                *device ? "@" : "", device);
    it.params = params_text(arena, json_object_get(of, "params"));
    for (int f = 0; f < FIELDS; f++) it.key[f] = NAN;
    it.key[BY_WHEN] = fb_json_number_or(row, "when", NAN);
    it.kind = fb_figure_kind(row);
    it.key[BY_WALL] = values ? fb_json_number_or(values, "us", NAN) : fb_figure_number(row, FB_FIGURE_WALL);
    it.key[BY_LAUNCHES] =
        values ? fb_json_number_or(values, "launches", NAN) : fb_figure_number(row, FB_FIGURE_LAUNCHES);
    it.key[BY_BYTES] = fb_figure_number(row, FB_FIGURE_MOVED);
    it.key[BY_FLOOR] = it.key[BY_WALL] / fb_figure_number(row, FB_FIGURE_FLOOR);
    it.key[BY_RATE] = rate_of(values);
    return it;
}

static const double *scaled(list *l, const item *it)
{
    const json_t *which = json_object_get(it->row, "case");
    const char *device = fb_json_string_or(which ? which : it->row, "device", "");
    int k = 0;
    while (k < l->n_scales && strcmp(l->scales[k].device, device) != 0) k++;
    if (k == l->n_scales) l->scales[l->n_scales++] = (scale){device, 0};
    if (it->key[BY_RATE] > l->scales[k].most) l->scales[k].most = it->key[BY_RATE];
    return &l->scales[k].most;
}

/* Every word of the filter is somewhere in the row. */
static bool passes(const item *it, const char *filter)
{
    char line[600], words[128];
    char *rest = NULL;
    snprintf(line, sizeof line, "%s %s %s", it->script, it->column, it->params);
    snprintf(words, sizeof words, "%s", filter);
    for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        if (!strcasestr(line, w)) return false;
    return true;
}

static int sort_field, sort_sign; /* qsort tells its comparison nothing */

/* What is not known comes last, whichever way. */
static int compare(const void *pa, const void *pb)
{
    const item *a = pa, *b = pb;
    int order = 0;
    if (sort_field == BY_SCRIPT) order = strcmp(a->script, b->script);
    if (sort_field == BY_COLUMN) order = strcmp(a->column, b->column);
    if (!fields[sort_field].text) {
        double x = a->key[sort_field], y = b->key[sort_field];
        if (isnan(x) || isnan(y)) return isnan(x) - isnan(y) ? isnan(x) - isnan(y) : a->at - b->at;
        order = (x > y) - (x < y);
    }
    return order ? sort_sign * order : b->at - a->at; /* the latest first */
}

static void sort(fb_app *app)
{
    list *l = state(app);
    sort_field = app->results.sort;
    sort_sign = app->results.down ? -1 : 1;
    qsort(l->items, (size_t)l->n, sizeof *l->items, compare);
}

static void drop_file(void *file)
{
    fb_results_close(file);
}

static void read_rows(fb_app *app)
{
    char history[PATH_MAX];
    fb_error err = {0};
    list *l = fb_view_state(app, FB_VIEW_RESULTS, sizeof *l);
    fb_arena *arena = app->arena[FB_VIEW_RESULTS];
    if (app->results.path)
        l->file = fb_results_skim(app->results.path, &err);
    else if (fb_tried_path(history, sizeof history))
        l->file = fb_results_skim(history, app->results.path ? &err : NULL);
    if (err.kind) fb_app_say(app, FB_ROLE_BAD, "%s", err.text);
    if (!l->file) return;
    fb_arena_defer(arena, drop_file, l->file);
    int n = fb_results_rows(l->file);
    l->items = FB_NEW_ARRAY(arena, item, n + 1);
    l->scales = FB_NEW_ARRAY(arena, scale, n + 1);
    for (int i = 0; i < n; i++) {
        item it = read_item(arena, fb_results_row(l->file, i), i);
        if (it.key[BY_RATE] > l->most) l->most = it.key[BY_RATE];
        it.most = scaled(l, &it);
        if (passes(&it, app->results.filter)) l->items[l->n++] = it;
    }
    if (app->results.sort == BY_RATE && l->most <= 0) app->results.sort = BY_WHEN;
    sort(app);
}

/* ---- the view -----------------------------------------------------------------------------------------------------
 */

static void opened(fb_app *app)
{
    app->scroll[FB_VIEW_RESULTS] = (fb_scroll){0};
    read_rows(app);
    list *l = state(app);
    bool untouched = app->results.sort == BY_WHEN && app->results.down;
    if (!app->results.path || !untouched || !l || l->most <= 0) return;
    app->results.sort = BY_RATE; /* a sweep is a ranking */
    sort(app);
}

static void title(fb_app *app, fb_str *out)
{
    const list *l = state(app);
    fb_str_add(out, app->results.path ? fb_file_name(app->results.path) : "history");
    fb_str_addf(out, " · %d by %s %s", l ? l->n : 0, fields[app->results.sort].name, app->results.down ? "↓" : "↑");
    if (*app->results.filter) fb_str_addf(out, " · only \"%s\"", app->results.filter);
}

static int count(fb_app *app)
{
    return state(app) ? state(app)->n : 0;
}

static void when_text(double when, char to[16])
{
    double age = difftime(time(NULL), (time_t)when);
    if (!isfinite(when))
        *to = '\0';
    else if (age < 3600)
        snprintf(to, 16, "%.0f min", fmax(age / 60, 0));
    else if (age < 48 * 3600)
        snprintf(to, 16, "%.0f h", age / 3600);
    else
        snprintf(to, 16, "%.0f d", age / 86400);
}

typedef struct {
    int script, column, params, w_params, wall, launches, bytes, floor; /* figures: right edges */
} places;

static places place(const list *l, const fb_rect *r)
{
    bool dated = false; /* rows of the history are, those of --out are not */
    for (int i = 0; i < l->n && !dated; i++) dated = isfinite(l->items[i].key[BY_WHEN]);
    places p = {.script = dated ? 8 : 1, .floor = r->w - 1};
    p.bytes = p.floor - 9;
    p.launches = p.bytes - 10;
    p.wall = p.launches - 9;
    int room = p.wall - 11 - p.script, script = room >= 48 ? 16 : 12;
    p.column = p.script + script + 1;
    p.params = room > 60 ? p.column + (room - script) / 2 : p.wall;
    p.w_params = p.wall - 11 - p.params;
    return p;
}

static void draw_headings(fb_app *app, const fb_rect *r, const places *p)
{
    field last = state(app)->most > 0 ? BY_RATE : BY_FLOOR;
    const struct {
        int x;
        field f;
        bool right;
    } at[] = {{1, BY_WHEN, false},      {p->script, BY_SCRIPT, false},    {p->column, BY_COLUMN, false},
              {p->wall, BY_WALL, true}, {p->launches, BY_LAUNCHES, true}, {p->bytes, BY_BYTES, true},
              {p->floor, last, true}};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        fb_role role = (int)at[i].f == app->results.sort ? FB_ROLE_FOCUS : FB_ROLE_DIM;
        if (at[i].f == BY_WHEN && p->script == 1) continue;
        if (at[i].right)
            fb_draw_right(r, 0, at[i].x, role, fields[at[i].f].label);
        else
            fb_draw(r, 0, at[i].x, role, fields[at[i].f].label);
    }
}

/* A rate stands where a measured column has bytes and floor: as a bar beside the largest of its device, and as a
 * figure. */
static void draw_rate(const fb_rect *r, int y, const places *p, double rate, double most, fb_figure_source kind)
{
    enum { CELLS = 8 };
    char text[40], signed_text[48];
    int eighths = (int)lround(8 * CELLS * rate / most);
    for (int i = 0; i < CELLS && eighths > 0; i++, eighths -= 8) {
        static const char *const part[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
        fb_draw(r, y, p->bytes - CELLS + i + 1, *fb_figure_sign(kind) ? FB_ROLE_PREDICTED : FB_ROLE_TIME,
                part[eighths > 8 ? 8 : eighths]);
    }
    fb_points_text(text, rate);
    snprintf(signed_text, sizeof signed_text, "%s%s", fb_figure_sign(kind), text);
    fb_draw_right(r, y, p->floor, *fb_figure_sign(kind) ? FB_ROLE_PREDICTED : FB_ROLE_TEXT, signed_text);
}

static void draw_item(const fb_rect *r, int y, const places *p, const item *it)
{
    char text[48], when[16];
    fb_role role = *fb_figure_sign(it->kind) ? FB_ROLE_PREDICTED : FB_ROLE_TEXT;
    const char *failed = fb_json_string_or(it->row, "failed", NULL);
    when_text(it->key[BY_WHEN], when);
    if (p->script > 1) fb_draw(r, y, 1, FB_ROLE_DIM, when);
    fb_draw_cut(r, y, p->script, p->column - p->script - 1, FB_ROLE_DIM, it->script);
    int right = (p->params < p->wall ? p->params : p->wall - 10) - 1;
    fb_draw_cut(r, y, p->column, right - p->column, FB_ROLE_STRONG, it->column);
    if (p->w_params > 8) fb_draw_cut(r, y, p->params, p->w_params, FB_ROLE_DIM, it->params);
    if (failed) {
        fb_draw_right(r, y, p->wall, FB_ROLE_BAD, "failed");
        return;
    }
    if (fb_figure_is_wrong(it->row)) {
        fb_draw_right(r, y, p->wall, FB_ROLE_BAD, "wrong");
        return;
    }
    fb_draw_right(r, y, p->wall, role, fb_figure_write(text, it->key[BY_WALL], FB_UNIT_US, it->kind));
    fb_draw_right(r, y, p->launches, FB_ROLE_DIM,
                  fb_figure_write(text, it->key[BY_LAUNCHES], FB_UNIT_COUNT, FB_SOURCE_MEASURED));
    fb_draw_right(r, y, p->bytes, FB_ROLE_DIM,
                  fb_figure_write(text, it->key[BY_BYTES], FB_UNIT_BYTES, FB_SOURCE_MEASURED));
    if (isfinite(it->key[BY_RATE])) draw_rate(r, y, p, it->key[BY_RATE], *it->most, it->kind);
    fb_draw_right(r, y, p->floor, FB_ROLE_DIM,
                  fb_figure_write(text, it->key[BY_FLOOR], FB_UNIT_TIMES, fb_figure_floor_kind(it->row)));
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    const list *l = state(app);
    fb_scroll *s = &app->scroll[FB_VIEW_RESULTS];
    if (!l || !l->n) {
        fb_draw_wrapped(r, 1, 2, r->h - 1, FB_ROLE_DIM,
                        *app->results.filter ? "no row passes the filter: f changes it"
                                             : "nothing has been measured yet: every column that is will stand here");
        return;
    }
    const places p = place(l, r);
    draw_headings(app, r, &p);
    fb_scroll_fit(s, l->n, r->h - 1);
    for (int y = 1, row; y < r->h && (row = fb_shown_row(app, FB_VIEW_RESULTS, y - 1, l->n)) != FB_NONE; y++) {
        fb_row_ground(app, FB_VIEW_RESULTS, r, y, row, focused);
        draw_item(r, y, &p, &l->items[row]);
    }
}

static void text(fb_app *app, int row, fb_str *out)
{
    const item *it = &state(app)->items[row];
    fb_str_addf(out, "%s %s %s", it->script, it->column, it->params);
}

static void explain(fb_app *app, fb_hint *hint)
{
    int at = app->scroll[FB_VIEW_RESULTS].cursor;
    char text[48];
    fb_str_add(&hint->title, "result");
    fb_str_add(&hint->line[1], "Enter opens it again · , sorts · f filters · O plots · Esc goes back");
    if (at >= count(app)) return;
    const item *it = &state(app)->items[at];
    const json_t *wall = json_object_get(it->row, "wall_us");
    const char *worst = fb_json_string_or(json_object_get(it->row, "error"), "worst", "");
    const char *failed = fb_json_string_or(it->row, "failed", NULL);
    if (failed) {
        fb_str_add(&hint->line[0], failed);
        hint->role[0] = FB_ROLE_BAD;
        return;
    }
    fb_str_addf(&hint->line[0], "%s  %s", it->column, it->params);
    fb_str_addf(&hint->line[0], " · %s%s", fb_report_source_name(it->kind),
                fb_json_bool_or(it->row, "stale", false) ? ", stale" : "");
    if (fb_figure_is_wrong(it->row)) {
        fb_str_addf(&hint->line[0], ": a wrong result%s%s", *worst ? ", " : "", worst);
        hint->role[0] = FB_ROLE_BAD;
        return;
    }
    fb_stat spread = {.n = (int)fb_json_int_or(wall, "n", 0),
                      .p10 = fb_json_number_or(wall, "p10", NAN),
                      .p90 = fb_json_number_or(wall, "p90", NAN)};
    if (*fb_figure_spread(text, &spread, it->kind)) fb_str_addf(&hint->line[0], ", %s, n %d", text, spread.n);
    const char *key;
    json_t *value;
    json_object_foreach(wall ? NULL : json_object_get(it->row, "row"), key, value)
    {
        char *line = fb_json_line(value);
        char figure[40] = "";
        bool number = json_is_number(value);
        if (number) fb_points_text(figure, json_number_value(value));
        fb_str_addf(&hint->line[0], " · %s %s%s", key, json_is_real(value) ? fb_figure_sign(it->kind) : "",
                    number ? figure : line);
        fb_free(line);
    }
}

/* ---- opening a case again -----------------------------------------------------------------------------------------
 */

static void reopen(fb_app *app, const item *it)
{
    fb_str spec = {0};
    fb_error err = {0};
    const char *path = fb_json_string_or(it->row, "path", fb_json_string_or(it->row, "script", NULL));
    if (!path && app->path) path = app->path; /* rows of an experiment name no script */
    if (!path)
        fb_app_say(app, FB_ROLE_WARN, "the row does not say which script it was");
    else if (!fb_tried_spec(it->row, &spec, &err))
        fb_app_say(app, FB_ROLE_BAD, "%s", err.text);
    else {
        const json_t *which = json_object_get(it->row, "case");
        const json_t *all = json_object_get(it->row, "params"); /* of an experiment's row, too; older ones have none */
        json_t *params = json_deep_copy(all ? all : json_object_get(which, "params"));
        char *copy = fb_strdup(path);
        bool opened = fb_app_open(app, copy);
        fb_free(copy);
        fb_free(app->reopen.spec);
        json_decref(app->reopen.params);
        app->reopen.spec = opened ? fb_strdup(fb_str_get(&spec)) : NULL;
        app->reopen.params = opened ? params : NULL;
        if (!opened) json_decref(params);
    }
    fb_str_free(&spec);
}

/* The script has answered: its parameters and the column as they were. */
void fb_view_results_reopened(fb_app *app)
{
    const char *name;
    json_t *value;
    fb_error err = {0};
    if (!app->reopen.spec) return;
    json_object_foreach(app->reopen.params, name, value)
    {
        if (!fb_session_set_param(app->session, name, value, &err)) fb_app_say(app, FB_ROLE_WARN, "%s", err.text);
    }
    bool hidden = fb_puzzle_hides(app, app->reopen.spec);
    int at = hidden ? FB_NONE : fb_session_add(app->session, app->reopen.spec, &err);
    if (hidden)
        fb_app_say(app, FB_ROLE_WARN, "hidden until the puzzle is answered: t shows it");
    else if (at < 0)
        fb_app_say(app, FB_ROLE_BAD, "%s", err.text);
    else
        app->column = at;
    fb_free(app->reopen.spec);
    json_decref(app->reopen.params);
    app->reopen.spec = NULL;
    app->reopen.params = NULL;
}

/* ---- commands -----------------------------------------------------------------------------------------------------
 */

static void sort_by(fb_app *app, const char *arg)
{
    bool down = *arg == '-';
    int f = app->results.sort;
    if (*arg) {
        for (f = 0; f < FIELDS && strcmp(fields[f].name, arg + down) != 0;) f++;
        if (f == FIELDS) {
            fb_app_say(app, FB_ROLE_WARN, "no field \"%s\": when, script, column, wall, launches, bytes, floor or rate",
                       arg + down);
            return;
        }
        app->results.down = down;
    } else {
        f = (f + 1) % FIELDS;
        if (f == BY_RATE && !(state(app)->most > 0)) f = BY_WHEN;
        app->results.down = f == BY_WHEN || f == BY_RATE;
    }
    app->results.sort = f;
    sort(app);
}

static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    int at = app->scroll[FB_VIEW_RESULTS].cursor;
    switch (c) {
    case FB_CMD_ENTER:
        if (at < count(app)) reopen(app, &state(app)->items[at]);
        return true;
    case FB_CMD_SORT: sort_by(app, arg); return true;
    case FB_CMD_FILTER:
        if (!*arg && !app->by_prompt) {
            fb_prompt_open(&app->prompt, ':', "filter ");
            return true;
        }
        snprintf(app->results.filter, sizeof app->results.filter, "%s", arg);
        opened(app);
        return true;
    default: return false;
    }
}

int fb_view_results_points(fb_app *app, fb_arena *arena, fb_point **out)
{
    const list *l = state(app);
    int n = 0;
    *out = FB_NEW_ARRAY(arena, fb_point, (l ? l->n : 0) + 1);
    for (int i = 0; l && i < l->n; i++) {
        const item *it = &l->items[i];
        double flops = fb_json_number_or(it->row, "flops", NAN);
        if (it->key[BY_WALL] > 0 && it->key[BY_BYTES] > 0 && !fb_figure_is_wrong(it->row))
            (*out)[n++] =
                (fb_point){it->column, it->key[BY_BYTES], it->key[BY_WALL], flops, .column = -1, .kind = it->kind};
    }
    return n;
}

static const fb_view_key keys[] = {
    {FB_CMD_ENTER, "open", "open the case again, with its parameters"},
    {FB_CMD_SORT, "sort", "sort by the next field"},
    {FB_CMD_FILTER, "filter", "show only rows that hold all these words"},
    {FB_CMD_PLOT, "plot", "time against bytes of the rows that are shown"},
    {FB_CMD_NONE, NULL, NULL},
};

const fb_view fb_view_results = {
    .head = 1,
    .title = title,
    .count = count,
    .draw = draw,
    .text = text,
    .explain = explain,
    .command = command,
    .opened = opened,
    .keys = keys,
    .about = "Every plan that was measured, with its figures, or the rows of a results file. Enter opens such "
             "a case again, with the parameters that it had.",
};
