/* fusebox run: measure columns, over all combinations of swept parameters, or drive the script's experiment. */
#include "tui/cli/cli.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "interp/input.h"
#include "session/gather.h"
#include "tui/cli/run.h"
#include "tui/show/output.h"
#include "tui/show/plots.h"
#include "tui/show/report.h"

#include <string.h>

typedef struct {
    fb_cli cli;
    fb_format format;
    bool html, svg; /* instead of the format */
    const char *pictures;
    json_t *kept; /* what html and pictures show of columns (kept.h); NULL: nothing asks */
    const char *out;
    const char *trace;
    json_t *events; /* of the trace */
    int traced;     /* columns in it */
    bool experiment, retry, metrics;
    fb_session *session;
    fb_results *results; /* NULL without --out */
    fb_output output;
    char said[sizeof((fb_error *)0)->text]; /* the last failure on stderr */
    int status;
} run;

enum { KEY_FORMAT = 256, KEY_EXPERIMENT, KEY_RETRY, KEY_TRACE, KEY_METRICS, KEY_SEARCH, KEY_PICTURES, KEY_VALUES };

static const struct argp_option options[] = {
    {"out", 'o', "F.jsonl", 0, "Append every row to this file, and leave out rows that it holds", 0},
    {"format", KEY_FORMAT, "FORMAT", 0, "table (default), json, csv, markdown, html or svg", 0},
    {"experiment", KEY_EXPERIMENT, NULL, 0,
     "Run the script's experiment instead; with --out, it goes on where it stopped", 0},
    {"retry", KEY_RETRY, NULL, 0, "Measure again what failed in --out", 0},
    {"values", KEY_VALUES, "VALUES", 0,
     "What inputs and parameters hold while columns are timed: noise (default), zeros or ones", 0},
    {"search", KEY_SEARCH, NULL, 0, "Search for the plan best anew, even if one was found earlier", 0},
    {"trace", KEY_TRACE, "FILE", 0, "Write launches and kernels of every column over time, for Perfetto or Chrome", 0},
    {"pictures", KEY_PICTURES, "FOLDER", 0,
     "Write kernels, roofline, time against bytes and every plan as SVG files to this folder", 0},
    {"metrics", KEY_METRICS, NULL, 0, "With --trace: also the device's metrics over time, where it has them", 0},
    {0},
};

static int own_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    run *r = ctx;
    switch (key) {
    case 'o': r->out = arg; return 0;
    case KEY_EXPERIMENT: r->experiment = true; return 0;
    case KEY_RETRY: r->retry = true; return 0;
    case KEY_SEARCH: r->cli.search_again = true; return 0;
    case KEY_VALUES:
        if (!fb_input_kind_parse(arg, &(fb_input_kind){0}))
            fb_cli_usage("%s: no values \"%s\"; there are: noise, zeros, ones", state->name, arg);
        r->cli.values = arg;
        return 0;
    case KEY_TRACE: r->trace = arg; return 0;
    case KEY_METRICS: r->metrics = true; return 0;
    case KEY_PICTURES: r->pictures = arg; return 0;
    case KEY_FORMAT:
        r->html = !strcmp(arg, "html");
        r->svg = !strcmp(arg, "svg");
        if (!r->html && !r->svg && !fb_table_parse_format(arg, &r->format))
            fb_cli_usage("%s: no format \"%s\"; there are: table, json, csv, markdown, html, svg", state->name, arg);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- rows ---- */

/* A script's error is the same for all columns that need its graph: said once, and without their names. */
static void failed(run *r, const char *column, const char *why, fb_error_kind kind)
{
    fb_error err = {.kind = kind};
    const char *path = r->output.script, *name = fb_file_name(path);
    bool of_script = strncmp(why, name, strlen(name)) == 0;
    if (of_script)
        fb_fail(&err, kind, "%s", why);
    else
        fb_fail(&err, kind, "%s: %s", column, why);
    if (strcmp(err.text, r->said) != 0) fb_cli_fail_in(&err, path);
    snprintf(r->said, sizeof r->said, "%s", err.text);
    bool away = kind == FB_ERR_UNAVAILABLE && (!r->status || r->status == FB_EXIT_NO_DEVICE);
    r->status = away ? FB_EXIT_NO_DEVICE : FB_EXIT_WRONG;
}

/* A row that the file does not hold yet. False when it could not be written: the run ends there. */
static bool write_row(run *r, json_t *row, fb_error *err)
{
    return !r->results || fb_results_add(r->results, row, err);
}

static void show_row(run *r, json_t *row)
{
    fb_output_device(&r->output, r->session, fb_json_string_or(row, "device", NULL));
    json_array_append(r->output.rows, row);
}

/* What the file holds of a column, unless it failed and is to be tried again. */
static const json_t *known_row(const run *r, const fb_column *c)
{
    const json_t *row = r->results ? fb_results_find(r->results, r->output.script, c) : NULL;
    bool again = row && r->retry && fb_json_string_or(row, "failed", NULL);
    return again ? NULL : row;
}

/* ---- the trace ---- */

/* What tells a column from the others: "split_stack:max@cuda:0 batch_size=128", as far as there is more than one. */
static void name_process(const run *r, const fb_column *c, fb_str *to)
{
    const char *name;
    json_t *values;
    fb_str_addf(to, "%s%s%s@%s", c->variant, c->variant[0] ? ":" : "", c->plan_name, c->device);
    json_object_foreach(r->cli.common.set, name, values)
    {
        char *text = json_dumps(json_object_get(c->params, name), JSON_ENCODE_ANY | JSON_COMPACT);
        if (json_array_size(values) > 1) fb_str_addf(to, " %s=%s", name, text ? text : "?");
        fb_free(text);
    }
}

static void trace_column(run *r, int column, bool known)
{
    fb_error err = {0};
    const fb_column *c = fb_session_column(r->session, column);
    const fb_timeline *t = known ? NULL : fb_session_timeline(r->session, column, &err);
    if (!t) {
        if (known) fb_fail(&err, FB_ERR_UNAVAILABLE, "it stands in %s already", r->out);
        fb_cli_say("%s is not in the trace: %s", c->text, err.text);
        return;
    }
    if (t->no_metrics) fb_cli_say("%s: the trace has no metrics: %s", c->text, t->no_metrics);
    fb_str name = {0};
    name_process(r, c, &name);
    fb_timeline_events(t, ++r->traced, fb_str_get(&name), r->events);
    fb_str_free(&name);
}

/* ---- columns ---- */

static bool add_columns(run *r)
{
    const fb_script_info *info = fb_session_script(r->session);
    const char *const *specs = (const char *const *)r->cli.args + 1;
    int n = r->cli.n_args - 1;
    if (!n) specs = fb_script_columns(info, &n);
    for (int i = 0; i < n; i++) {
        fb_error err = {0};
        if (fb_session_add(r->session, specs[i], &err) >= 0) continue;
        bool suggested = r->cli.n_args == 1 && err.kind == FB_ERR_UNAVAILABLE;
        if (suggested && (i + 1 < n || fb_session_columns(r->session))) {
            fb_cli_say("%s is left out: %s", specs[i], err.text);
            continue;
        }
        r->status = fb_cli_fail(&err);
        return false;
    }
    return true;
}

/* Nothing is being measured yet: what is under way are graphs and plans. */
static void wait_built(fb_session *s)
{
    for (int i = 0; i < fb_session_columns(s); i++)
        if (fb_session_column(s, i)->state == FB_COLUMN_BUILDING) fb_cli_wait(s);
    for (int i = 0; i < fb_session_columns(s); i++) {
        const fb_column *c = fb_session_column(s, i);
        fb_str text = {0};
        if (c->search) fb_best_sentence(c->search, &text);
        if (c->search) fb_cli_say("%s: %s", c->text, fb_str_get(&text));
        fb_str_free(&text);
    }
}

/* A column that only the script asks for, and that cannot be had here, is left out where there are others. */
static bool is_left_out(const run *r, fb_error_kind why)
{
    bool others = false;
    for (int i = 0; i < fb_session_columns(r->session); i++)
        others |= fb_session_column(r->session, i)->state != FB_COLUMN_FAILED;
    return r->cli.n_args == 1 && why == FB_ERR_UNAVAILABLE && others;
}

/* Waterfalls of what was just measured, and what the puzzle's answer is. */
static void keep_case(run *r, const int *columns, int n)
{
    fb_error err = {0};
    fb_why why;
    fb_kept_whys(r->kept, r->session, r->output.rows, columns, n);
    if (!r->html || json_object_get(r->kept, "puzzle")) return;
    if (!fb_kept_puzzle_why(r->session, r->output.rows, columns, n, &why)) return;
    if (!fb_session_ask(r->session, &why, &err)) return;
    while (fb_session_answer(r->session)->state == FB_ANSWER_ASKED) fb_session_wait(r->session, -1);
    fb_kept_answer(r->kept, r->session);
}

/* All columns of one set of parameters: those the file does not hold are measured together. */
static bool run_case(run *r, fb_error *err)
{
    fb_session *s = r->session;
    int n = fb_session_columns(s), wanted = 0;
    int *columns = fb_calloc((size_t)n + 1, sizeof *columns);
    const json_t **known = fb_calloc((size_t)n + 1, sizeof *known);
    int *shown = fb_calloc((size_t)n + 1, sizeof *shown), n_shown = 0;
    wait_built(s);
    for (int i = 0; i < n; i++) {
        const fb_column *c = fb_session_column(s, i);
        known[i] = known_row(r, c);
        if (!known[i] && c->state != FB_COLUMN_FAILED) columns[wanted++] = i;
    }
    fb_session_measure(s, columns, wanted);
    fb_cli_wait(s);
    bool fine = true;
    for (int i = 0; i < n; i++) {
        fb_report *report = known[i] ? NULL : fb_session_report(s, i);
        json_t *row = known[i] ? json_incref((json_t *)known[i]) : fb_report_to_json(report);
        const char *why = fb_json_string_or(row, "failed", NULL), *text = fb_session_column(s, i)->text;
        const bool unchecked = report && !why && report->error.state == FB_CHECK_CHECKING;
        fb_error_kind kind = fb_error_kind_parse(fb_json_string_or(row, "failed_kind", ""));
        if (why && is_left_out(r, kind)) {
            fb_cli_say("%s is left out: %s", text, why);
            json_decref(row);
            fb_report_free(report);
            continue;
        }
        if (why)
            failed(r, text, why, kind);
        else if (unchecked)
            failed(r, text, "it was timed, and its check was not finished", FB_ERR_SYSTEM);
        else if (r->trace)
            trace_column(r, i, known[i] != NULL);
        show_row(r, row);
        if (r->kept) fb_kept_column(r->kept, fb_session_column(s, i));
        shown[n_shown++] = i;
        fine = fine && (known[i] || write_row(r, row, err));
        json_decref(row);
        fb_report_free(report);
    }
    if (r->kept) keep_case(r, shown, n_shown);
    fb_free(columns);
    fb_free(known);
    fb_free(shown);
    return fine;
}

static void run_columns(run *r)
{
    fb_error err = {0};
    if (!add_columns(r)) return;
    int n = fb_cli_cases(&r->cli);
    for (int i = 0; i < n; i++) {
        if (fb_cli_case(&r->cli, r->session, i, &err) && run_case(r, &err)) continue;
        r->status = fb_cli_fail(&err);
        break;
    }
    const fb_script_info *info = fb_session_script(r->session);
    if (r->html)
        fb_html_print(&r->output, r->kept, info, stdout);
    else if (r->svg)
        fb_svg_print(&r->output, r->kept, stdout);
    else
        fb_output_print(&r->output, r->format, stdout);
    if (fb_session_uncounted(r->session)) fb_cli_say("%s", fb_session_uncounted(r->session));
    if (r->pictures && !fb_svg_write(&r->output, r->kept, r->pictures, &err)) r->status = fb_cli_fail(&err);
    if (r->trace && !fb_timeline_write(r->trace, r->events, &err)) r->status = fb_cli_fail(&err);
}

/* ---- the experiment ---- */

/* What is not there is left out, as long as something is: a script cannot know what machine it will run on. */
static void judge_cases(run *r, const fb_gather *g)
{
    if (g->failed) {
        fb_cli_say("%d of %d cases failed; the first: %s", g->failed, g->n, g->first.text);
        r->status = FB_EXIT_WRONG;
    } else if (g->n && g->away == g->n && !r->status) {
        fb_cli_say("none of %d cases could be measured here", g->n);
        r->status = FB_EXIT_NO_DEVICE;
    }
}

static void run_experiment(run *r)
{
    fb_gather g = {.session = r->session,
                   .results = r->results,
                   .retry = r->retry,
                   .cases = r->output.cases,
                   .plots = r->output.plots,
                   .devices = json_object()};
    fb_error err = {0};
    const char *device;
    json_t *unused;
    if (!fb_cli_case(&r->cli, r->session, 0, &err) || !fb_gather_start(&g, &err)) {
        json_decref(g.devices);
        r->status = fb_cli_fail(&err);
        return;
    }
    fb_cli_wait(r->session);
    json_object_foreach(g.devices, device, unused) fb_output_device(&r->output, r->session, device);
    json_decref(g.devices);
    const fb_error *why = fb_session_experiment_error(r->session);
    if (why->kind) r->status = fb_cli_fail_in(why, fb_session_path(r->session));
    judge_cases(r, &g);
    const fb_script_info *info = fb_session_script(r->session);
    if (r->html) {
        fb_html_print_cases(&r->output, info, stdout);
        return;
    }
    if (!r->svg) {
        fb_output_print(&r->output, r->format, stdout);
        return;
    }
    fb_str text = {0};
    fb_plots_svg(r->output.plots, r->output.cases, &text);
    fputs(fb_str_get(&text), stdout);
    fb_str_free(&text);
}

/* ---- the command ---- */

static void run_script(run *r)
{
    fb_error err = {0};
    if (r->out && !(r->results = fb_results_open(r->out, &err))) {
        r->status = fb_cli_fail(&err);
        return;
    }
    fb_output_init(&r->output, fb_session_path(r->session));
    r->events = json_array();
    if (r->html || r->svg || r->pictures) r->kept = fb_kept_new();
    if (r->trace) fb_session_trace(r->session, r->metrics);
    if (r->experiment)
        run_experiment(r);
    else
        run_columns(r);
    fb_output_free(&r->output);
    json_decref(r->events);
    json_decref(r->kept);
    fb_results_close(r->results);
}

static int run_main(const fb_command *me, int argc, char **argv)
{
    run r = {.cli = {.least = 1, .most = -1, .own = own_key, .ctx = &r, .counters = true}};
    fb_cli_parse(&r.cli, me, options, argc, argv);
    if (r.experiment && r.cli.n_args > 1) fb_cli_usage("%s: --experiment chooses its own columns", argv[0]);
    if (r.experiment && r.pictures) fb_cli_usage("%s: --pictures is of columns, not of an experiment", argv[0]);
    if (r.experiment && r.trace) fb_cli_usage("%s: --trace is of columns, not of an experiment", argv[0]);
    if (r.experiment && r.cli.values) fb_cli_usage("%s: --values is of columns, not of an experiment", argv[0]);
    if (r.metrics && !r.trace) fb_cli_usage("%s: --metrics needs --trace FILE, which they go to", argv[0]);
    r.session = fb_cli_open(&r.cli, r.cli.args[0], &r.status);
    if (r.session) run_script(&r);
    fb_session_free(r.session);
    fb_cli_free(&r.cli);
    return r.status;
}

const fb_command fb_command_run = {
    .name = "run", .args = "SCRIPT [COLUMN]…", .summary = "Measure columns side by side", .run = run_main};

/* ---- results files ---- */

bool fb_cli_is_results(const char *path)
{
    size_t n = strlen(path);
    return n > 6 && strcmp(path + n - 6, ".jsonl") == 0;
}

int fb_cli_show_results(const char *path)
{
    fb_error err = {0};
    fb_results *results = fb_results_read(path, &err);
    if (!results) return fb_cli_fail(&err);
    fb_output rows;
    fb_output_init(&rows, path);
    for (int i = 0; i < fb_results_rows(results); i++) {
        const json_t *row = fb_results_row(results, i);
        bool is_case = json_object_get(row, "case") != NULL;
        json_array_append(is_case ? rows.cases : rows.rows, (json_t *)row);
        if (!is_case) fb_output_device(&rows, NULL, fb_json_string_or(row, "device", NULL));
    }
    fb_output_print(&rows, FB_FORMAT_TABLE, stdout);
    fb_output_free(&rows);
    fb_results_close(results);
    return FB_EXIT_FINE;
}
