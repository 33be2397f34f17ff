/* fusebox values: what a node of a column holds, to be looked at. */
#include "tui/cli/cli.h"
#include "tui/show/table.h"
#include "tui/show/values_text.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "decide/preset.h"

#include <string.h>

typedef struct {
    fb_cli cli;
    fb_format format;
    fb_session *session;
    int status;
} show;

enum { KEY_FORMAT = 256, BAR = 40 };

static const struct argp_option options[] = {
    {"format", KEY_FORMAT, "FORMAT", 0, "table (default) or json", 0},
    {0},
};

static int own_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    show *s = ctx;
    if (key != KEY_FORMAT) return ARGP_ERR_UNKNOWN;
    if (!fb_table_parse_format(arg, &s->format) || (s->format != FB_FORMAT_TABLE && s->format != FB_FORMAT_JSON))
        fb_cli_usage("%s: no format \"%s\"; there are: table, json", state->name, arg);
    return 0;
}

/* ---- printing ---- */

static void cell(fb_table *t, fb_dtype dtype, double x)
{
    fb_str s = {0};
    fb_show_value(dtype, x, &s);
    fb_table_cell(t, fb_str_get(&s));
    fb_str_free(&s);
}

static void print_head(const fb_values *v)
{
    fb_str s = {0};
    fb_show_values_head(v, &s);
    fb_str_add(&s, "\n\n");
    fb_put(stdout, fb_str_get(&s));
    fb_str_free(&s);
}

static void print_statistics(const fb_values *v)
{
    fb_table *t = fb_table_new();
    fb_str figure = {0};
    for (int i = 0; i < fb_show_values_statistics(); i++)
        fb_table_column(t, fb_show_values_statistic(v, i, &figure), "", false);
    fb_table_row(t);
    for (int i = 0; i < fb_show_values_statistics(); i++) {
        fb_str_clear(&figure);
        fb_show_values_statistic(v, i, &figure);
        fb_table_cell(t, fb_str_get(&figure));
    }
    fb_table_print(t, FB_FORMAT_TABLE, stdout);
    fb_table_free(t);
    fb_str_free(&figure);
}

/* The beginning of the last two dims, at 0 of the others. */
static void print_corner(const fb_values *v)
{
    char at[128];
    if (!v->rows) return;
    fb_str s = {0};
    fb_table *t = fb_table_new();
    fb_table_column(t, "corner", "", true);
    for (int c = 0; c < v->columns; c++) {
        char title[16];
        snprintf(title, sizeof title, "%d", c);
        fb_table_column(t, title, "", false);
    }
    int64_t wide = v->shape.rank ? v->shape.dim[v->shape.rank - 1] : 1;
    for (int r = 0; r < v->rows; r++) {
        fb_table_row(t);
        fb_table_cell(t, fb_values_at(&v->shape, r * wide, at));
        for (int c = 0; c < v->columns; c++) cell(t, v->dtype, v->corner[r * v->columns + c]);
    }
    fputc('\n', stdout);
    fb_table_print(t, FB_FORMAT_TABLE, stdout);
    fb_table_free(t);
    fb_str_free(&s);
}

static void print_histogram(const fb_values *v)
{
    const char *sign = fb_show_utf8() ? "█" : "#";
    double from, share;
    if (!fb_show_values_bin(v, 0, &from, &share)) return;
    fb_table *t = fb_table_new();
    fb_table_column(t, "from", "", false);
    fb_table_column(t, "elements", "", false);
    fb_table_column(t, "", "", true);
    for (int k = 0; k < FB_VALUES_BINS; k++) {
        fb_str bar = {0};
        fb_show_values_bin(v, k, &from, &share);
        for (int i = 0; i < (int)(share * BAR + 0.5); i++) fb_str_add(&bar, sign);
        fb_table_row(t);
        cell(t, FB_F64, from);
        fb_table_cellf(t, "%lld", (long long)v->bin[k]);
        fb_table_cell(t, fb_str_get(&bar));
        fb_str_free(&bar);
    }
    fputc('\n', stdout);
    fb_table_print(t, FB_FORMAT_TABLE, stdout);
    fb_table_free(t);
}

static void print_error(const fb_values *v)
{
    fb_str s = {0};
    fb_str_add(&s, "\n");
    fb_show_values_error(v, &s);
    fb_put(stdout, fb_str_get(&s));
    fb_str_free(&s);
}

static void print_table(const fb_values *v)
{
    print_head(v);
    print_statistics(v);
    print_corner(v);
    print_histogram(v);
    print_error(v);
}

static void print_json(const show *s, const fb_values *v)
{
    const fb_column *c = fb_session_column(s->session, 0);
    json_t *all =
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:o}", "fusebox", FB_REPORT_VERSION, "script", fb_session_path(s->session),
                  "variant", c->variant, "plan", c->plan_name, "device", c->device, "values", fb_values_to_json(v));
    char *text = fb_json_shown(all, JSON_INDENT(2));
    printf("%s\n", text);
    fb_free(text);
    json_decref(all);
}

/* ---- the command ---- */

static const fb_values *look(show *s)
{
    fb_error err = {0};
    const char *node = s->cli.args[2];
    if (!fb_cli_case(&s->cli, s->session, 0, &err)) {
        s->status = fb_cli_fail(&err);
        return NULL;
    }
    if (!fb_cli_columns(s->session, s->cli.args[1], fb_preset_recommended, true, &s->status) ||
        !fb_cli_plan(s->session, 0, &s->status) ||
        fb_cli_node(fb_session_column(s->session, 0)->graph, node, &s->status) == FB_NONE)
        return NULL;
    fb_session_look(s->session, 0, node);
    fb_cli_wait(s->session);
    const fb_values *v = fb_session_values(s->session, 0, &err);
    if (!v) s->status = fb_cli_fail_in(&err, fb_session_path(s->session));
    return v;
}

static int values_main(const fb_command *me, int argc, char **argv)
{
    show s = {.cli = {.least = 3, .most = 3, .own = own_key, .ctx = &s}};
    fb_cli_parse(&s.cli, me, options, argc, argv);
    if (fb_cli_cases(&s.cli) > 1) fb_cli_usage("%s: --set: one value a parameter; fusebox run sweeps", argv[0]);
    s.session = fb_cli_open(&s.cli, s.cli.args[0], &s.status);
    const fb_values *v = s.session ? look(&s) : NULL;
    if (v && s.format == FB_FORMAT_JSON) print_json(&s, v);
    if (v && s.format != FB_FORMAT_JSON) print_table(v);
    if (v && !v->right) s.status = FB_EXIT_WRONG;
    fb_session_free(s.session);
    fb_cli_free(&s.cli);
    return s.status;
}

const fb_command fb_command_values = {.name = "values",
                                      .args = "SCRIPT COLUMN NODE",
                                      .summary = "A tensor: corner, statistics, histogram, error by element",
                                      .run = values_main};
