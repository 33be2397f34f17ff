/* The kernels of the column that has the focus: one line a letter, with bars for time and bytes. */
#include "tui/show/figure.h"
#include "tui/view/ui.h"

#include <math.h>
#include <string.h>

static int count(fb_app *app)
{
    return app->model.kernels.n;
}

static void title(fb_app *app, fb_str *out)
{
    const fb_model *m = &app->model;
    fb_str_add(out, "kernels");
    if (!m->column) return;
    fb_str_addf(out, " of %d", app->column + 1);
    bool measured = false;
    for (int i = 0; i < m->kernels.n; i++) measured |= m->kernels.at[i].measured;
    if (m->kernels.n && !measured) fb_str_add(out, " · ~");
}

enum { GUTTER = 3, FIGURE = 10, ROOM_FOR_FIGURES = 58 };

typedef struct {
    bool figures;               /* numbers before the bars */
    int name, time, bytes, bar; /* widths of name and bars; where time and bytes start */
} places;

static places place(const fb_rect *r)
{
    places p = {.figures = r->w >= ROOM_FOR_FIGURES};
    int figure = p.figures ? FIGURE : 0;
    p.bar = p.figures ? (r->w - 2 * FIGURE) / 6 - 1 : r->w * 3 / 16;
    p.bytes = r->w - 1 - p.bar - figure;
    p.time = p.bytes - 1 - p.bar - figure;
    p.name = p.time - GUTTER - 1;
    return p;
}

static const fb_kernel_report *report_of_line(const fb_app *app, const fb_kernel_line *line)
{
    const fb_column *c = app->model.column;
    const fb_report *r = c ? c->report : NULL;
    for (int i = 0; r && i < r->n_kernels; i++)
        if (line->group != FB_NONE && r->kernels[i].group == line->group) return &r->kernels[i];
    return NULL;
}

/* Counters saw more than the model did. */
static bool moved_more(const fb_app *app, const fb_kernel_line *line, char to[200])
{
    const fb_kernel_report *k = report_of_line(app, line);
    return k && fb_kernel_moved_more(k, to);
}

/* With the sign of its kind. */
static const char *time_text(const fb_kernel_line *k, char to[48])
{
    return fb_figure_write(to, k->us, FB_UNIT_US, k->measured ? k->source : FB_SOURCE_PREDICTED);
}

static void draw_line(fb_app *app, const fb_rect *r, int y, const fb_kernel_line *k)
{
    const fb_model *m = &app->model;
    places p = place(r);
    char letter[16] = "", text[48], times[32] = "", brief[96];
    fb_role role = FB_ROLE_TEXT;
    if (k->letter != FB_NONE) {
        fb_letter_name(k->letter, letter);
        role = (fb_role)(FB_ROLE_GROUP + k->letter % FB_GROUP_COLOURS);
    }
    if (k->count > 1) snprintf(times, sizeof times, " ×%lld", (long long)k->count);
    fb_draw_right(r, y, GUTTER - 1, role, letter);
    int room = p.name - fb_draw_text_width(times), x = p.time;
    int at = fb_draw_cut(r, y, GUTTER, room > 0 ? room : 0, FB_ROLE_TEXT,
                         fb_kernel_short_name(brief, sizeof brief, k->name));
    fb_draw(r, y, at, FB_ROLE_KEY, times);
    if (p.figures && isfinite(k->us))
        fb_draw_right(r, y, x + FIGURE - 1, k->measured ? FB_ROLE_TEXT : FB_ROLE_PREDICTED, time_text(k, text));
    if (p.figures) x += FIGURE;
    fb_draw_bar(r, y, x, p.bar, k->measured ? FB_ROLE_TIME : FB_ROLE_PREDICTED, k->us / m->most_us);
    x = p.bytes;
    if (p.figures && isfinite(k->bytes))
        fb_draw_right(r, y, x + FIGURE - 1, FB_ROLE_DIM, fb_format_bytes(text, k->bytes));
    if (p.figures) x += FIGURE;
    char more[200];
    bool flagged = moved_more(app, k, more);
    fb_draw_bar(r, y, x, p.bar, flagged ? FB_ROLE_WARN : FB_ROLE_BYTES, k->bytes / m->most_bytes);
    if (flagged) fb_draw(r, y, p.bytes - 1, FB_ROLE_WARN, "!");
}

/* The bars' headings stand in the frame. Times say themselves whether they were measured; bytes are the model's, which
 * is said where there is room for it beside the time's heading. */
static void draw_headings(const fb_rect *r)
{
    static const char time[] = " time ", bytes[] = " bytes ", modelled[] = " bytes modelled ";
    fb_rect frame = {r->y - 1, r->x, 1, r->w};
    places p = place(r);
    int whole = r->w - (int)strlen(modelled), after = p.time - 1 + (int)strlen(time);
    bool room = whole >= after;
    fb_draw(&frame, 0, p.time - 1, FB_ROLE_DIM, time);
    fb_draw(&frame, 0, room && whole < p.bytes ? whole : p.bytes - 1, FB_ROLE_DIM, room ? modelled : bytes);
}

static void draw(fb_app *app, const fb_rect *r, bool focused)
{
    if (count(app)) draw_headings(r);
    for (int y = 0, row; y < r->h && (row = fb_shown_row(app, FB_VIEW_KERNELS, y, count(app))) != FB_NONE; y++) {
        fb_row_ground(app, FB_VIEW_KERNELS, r, y, row, focused);
        draw_line(app, r, y, &app->model.kernels.at[row]);
        fb_draw_ground(FB_GROUND_PLAIN);
    }
}

static void text(fb_app *app, int row, fb_str *out)
{
    fb_str_add(out, app->model.kernels.at[row].name);
}

/* What the compiler says of the kernel, where it says anything. */
static void add_resources(const fb_app *app, int group, fb_str *out)
{
    const fb_column *c = app->model.column;
    const fb_report *r = c ? c->report : NULL;
    for (int i = 0; r && i < r->n_kernels; i++) {
        const fb_kernel_report *k = &r->kernels[i];
        if (k->group != group || k->registers < 0) continue;
        fb_str_addf(out, " · %d registers", k->registers);
        if (k->spill_bytes > 0) fb_str_addf(out, ", %d bytes spilled", k->spill_bytes);
        if (isfinite(k->occupancy)) fb_str_addf(out, ", occupancy %.0f %%", 100 * k->occupancy);
        return;
    }
}

static void explain(fb_app *app, fb_hint *hint)
{
    int at = app->scroll[FB_VIEW_KERNELS].cursor;
    char letter[8] = "", us[32], low[32], high[32], read[32], written[32], brief[96];
    if (at >= app->model.kernels.n) return;
    const fb_kernel_line *k = &app->model.kernels.at[at];
    if (k->letter != FB_NONE) fb_letter_name(k->letter, letter);
    fb_kernel_short_name(brief, sizeof brief, k->name);
    fb_str_addf(&hint->title, "%s%s%s", letter, *letter ? " " : "", brief);
    fb_str_addf(&hint->line[0], "%s kernel, %lld launch%s", k->family ? k->family : "foreign", (long long)k->count,
                k->count == 1 ? "" : "es");
    const fb_plan *plan = app->model.column->plan;
    const fb_kernel_source *own = plan && k->group != FB_NONE ? fb_plan_group(plan, k->group)->source : NULL;
    if (own) fb_str_addf(&hint->line[0], " in %s", fb_file_name(own->path));
    if (isfinite(k->us))
        fb_str_addf(&hint->line[0], " · %s %s", k->measured ? fb_report_source_name(k->source) : "predicted",
                    fb_format_us(us, k->us));
    if (k->measured && isfinite(k->p10))
        fb_str_addf(&hint->line[0], " (%s–%s)", fb_format_us(low, k->p10), fb_format_us(high, k->p90));
    if (strcmp(brief, k->name) != 0) fb_str_addf(&hint->line[1], "%s%s", k->name, isfinite(k->bytes) ? " · " : "");
    if (isfinite(k->bytes))
        fb_str_addf(&hint->line[1], "modelled: reads %s, writes %s, %.3g FLOPs a byte", fb_format_bytes(read, k->read),
                    fb_format_bytes(written, k->written), k->bytes > 0 ? k->flops / k->bytes : 0);
    if (k->group != FB_NONE) add_resources(app, k->group, &hint->line[1]);
    char more[200];
    if (!moved_more(app, k, more)) return;
    fb_str_clear(&hint->line[1]);
    fb_str_add(&hint->line[1], more);
    hint->role[1] = FB_ROLE_WARN;
}

/* "a layer_norm ×4, 11.2 µs, 33.6 kB" */
static void yank(fb_app *app, fb_str *out)
{
    int at = app->scroll[FB_VIEW_KERNELS].cursor;
    char letter[8] = "", text[48];
    if (at >= app->model.kernels.n) return;
    const fb_kernel_line *k = &app->model.kernels.at[at];
    if (k->letter != FB_NONE) fb_letter_name(k->letter, letter);
    fb_str_addf(out, "%s%s%s", letter, *letter ? " " : "", k->name);
    if (k->count > 1) fb_str_addf(out, " ×%lld", (long long)k->count);
    if (isfinite(k->us)) fb_str_addf(out, ", %s", time_text(k, text));
    if (isfinite(k->bytes)) fb_str_addf(out, ", %s", fb_format_bytes(text, k->bytes));
}

static bool command(fb_app *app, fb_cmd c, const char *arg)
{
    int at = app->scroll[FB_VIEW_KERNELS].cursor;
    (void)arg;
    if (c != FB_CMD_ENTER || at >= app->model.kernels.n) return false;
    if (app->model.kernels.at[at].group == FB_NONE)
        fb_app_say(app, FB_ROLE_WARN, "this device does not tell its source");
    else {
        app->source_kind = FB_SOURCE_GENERATED;
        fb_app_show(app, FB_VIEW_SOURCE);
    }
    return true;
}

static const fb_view_key keys[] = {
    {FB_CMD_ENTER, "", "the kernel's generated source"},
    {FB_CMD_EJECT, "", "take the kernel over: edit it by hand"},
    {FB_CMD_YANK, "", "copy the kernel's line"},
    {FB_CMD_NONE, NULL, NULL},
};

const fb_view fb_view_kernels = {
    .title = title,
    .count = count,
    .draw = draw,
    .text = text,
    .explain = explain,
    .command = command,
    .keys = keys,
    .yank = yank,
    .about = "The kernels of the column under the cursor, one line each: its letter, as in the graph, what it "
             "computes, how often it is launched in a run, its time and the bytes that it moves.\n"
             "The longest bar is where the time goes. Enter shows the kernel's source.",
};
