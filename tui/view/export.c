/* The columns with all their figures as a file: what `fusebox run --format` prints of them, by the name's ending. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tui/show/plots.h"
#include "tui/show/report.h"
#include "tui/view/ui.h"

#include <errno.h>
#include <string.h>

typedef enum { AS_TABLE, AS_HTML, AS_SVG, AS_ROWS } way;

static const struct {
    const char *ending;
    way way;
    fb_format format;
} ways[] = {
    {".json", AS_TABLE, FB_FORMAT_JSON}, {".csv", AS_TABLE, FB_FORMAT_CSV},   {".md", AS_TABLE, FB_FORMAT_MARKDOWN},
    {".txt", AS_TABLE, FB_FORMAT_TABLE}, {".html", AS_HTML, FB_FORMAT_TABLE}, {".svg", AS_SVG, FB_FORMAT_TABLE},
    {".jsonl", AS_ROWS, FB_FORMAT_JSON},
};
enum { WAYS = sizeof ways / sizeof *ways };
#define WHICH "%s: the ending says how: .json .csv .md .txt .html .svg .jsonl"

static int way_of(const char *path)
{
    size_t n = strlen(path);
    for (int i = 0; i < WAYS; i++) {
        size_t m = strlen(ways[i].ending);
        if (n > m && !strcmp(path + n - m, ways[i].ending)) return i;
    }
    return FB_NONE;
}

static void write_rows(const json_t *rows, FILE *out)
{
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row)
    {
        char *line = fb_json_shown_line(row);
        fprintf(out, "%s\n", line);
        fb_free(line);
    }
}

static bool write_output(fb_app *app, const fb_output *o, const json_t *kept, int how, FILE *out)
{
    const fb_script_info *info = fb_session_script(app->session);
    switch (ways[how].way) {
    case AS_HTML: fb_html_print(o, kept, info, out); break;
    case AS_SVG: fb_svg_print(o, kept, out); break;
    case AS_ROWS: write_rows(o->rows, out); break;
    case AS_TABLE: fb_output_print(o, ways[how].format, out); break;
    }
    bool good = !ferror(out);
    return fclose(out) == 0 && good;
}

/* Measured columns alone: the others have no figures to give. Returns how many there were. */
static int collect(fb_app *app, fb_output *o, json_t *kept, bool pictures)
{
    int n = 0, columns = fb_session_columns(app->session);
    int *shown = fb_calloc((size_t)columns + 1, sizeof *shown);
    for (int i = 0; i < columns; i++) {
        const fb_column *c = fb_session_column(app->session, i);
        if (!c->report) continue;
        fb_report *report = fb_session_report(app->session, i);
        json_array_append_new(o->rows, fb_report_to_json(report));
        if (pictures) fb_kept_column(kept, c);
        shown[n] = i;
        fb_output_device(o, app->session, c->device);
        fb_report_free(report);
        n++;
    }
    if (pictures) fb_kept_whys(kept, app->session, o->rows, shown, n);
    if (app->puzzle.stage == FB_PUZZLE_ANSWERED) fb_kept_answer(kept, app->session);
    fb_free(shown);
    return n;
}

/* ---- of an experiment ---- */

static bool write_cases(fb_app *app, const fb_output *o, int how, FILE *out)
{
    fb_str text = {0};
    switch (ways[how].way) {
    case AS_HTML: fb_html_print_cases(o, fb_session_script(app->session), out); break;
    case AS_SVG:
        fb_plots_svg(o->plots, o->cases, &text);
        fputs(fb_str_get(&text), out);
        break;
    case AS_ROWS: write_rows(o->cases, out); break;
    case AS_TABLE: fb_output_print(o, ways[how].format, out); break;
    }
    fb_str_free(&text);
    bool good = !ferror(out);
    return fclose(out) == 0 && good;
}

void fb_sweep_export(fb_app *app, const char *path)
{
    int how = way_of(path);
    size_t n = json_array_size(app->sweep.of.cases);
    fb_error why = {0};
    if (how == FB_NONE || !n) {
        fb_app_say(app, FB_ROLE_BAD, n ? WHICH : "%s: there are no rows yet", path);
        return;
    }
    fb_output o;
    fb_output_init(&o, fb_session_path(app->session));
    json_array_extend(o.cases, app->sweep.of.cases);
    json_array_extend(o.plots, app->sweep.of.plots);
    FILE *out = fb_file_stream(path, FB_FILE_WRITE, &why);
    if (!out)
        fb_app_say(app, FB_ROLE_BAD, "%s", why.text);
    else if (!write_cases(app, &o, how, out))
        fb_app_say(app, FB_ROLE_BAD, "%s: %s", path, strerror(errno));
    else
        fb_app_say(app, FB_ROLE_GOOD, "%zu row%s written to %s", n, n == 1 ? "" : "s", path);
    fb_output_free(&o);
}

/* ---- of the columns ---- */

void fb_view_export(fb_app *app, const char *path)
{
    int how = way_of(path);
    if (how == FB_NONE) {
        fb_app_say(app, FB_ROLE_BAD, WHICH, path);
        return;
    }
    fb_output o;
    json_t *kept = fb_kept_new();
    fb_output_init(&o, fb_session_path(app->session));
    int n = collect(app, &o, kept, ways[how].way == AS_HTML || ways[how].way == AS_SVG);
    fb_error why = {0};
    FILE *out = n ? fb_file_stream(path, FB_FILE_WRITE, &why) : NULL;
    if (!n)
        fb_app_say(app, FB_ROLE_WARN, "export: nothing has been measured yet: m does");
    else if (!out)
        fb_app_say(app, FB_ROLE_BAD, "%s", why.text);
    else if (!write_output(app, &o, kept, how, out))
        fb_app_say(app, FB_ROLE_BAD, "%s: %s", path, strerror(errno));
    else
        fb_app_say(app, FB_ROLE_GOOD, "%d column%s written to %s", n, n == 1 ? "" : "s", path);
    fb_output_free(&o);
    json_decref(kept);
}
