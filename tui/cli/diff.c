/* fusebox diff: why the second column is faster than the first. */
#include "tui/cli/cli.h"
#include "tui/cli/theirs.h"
#include "tui/show/loops.h"
#include "tui/show/table.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "decide/preset.h"
#include "tui/show/figure.h"
#include "tui/show/output.h"

#include <math.h>
#include <string.h>

typedef struct {
    fb_cli cli;
    fb_format format;
    fb_session *session;
    fb_why why;
    bool given; /* which time is to be explained, `of` */
    fb_time of;
    int status;
} diff;

enum { KEY_FORMAT = 256, KEY_OF, WIDTH = 40 };

static const struct argp_option options[] = {
    {"format", KEY_FORMAT, "FORMAT", 0, "table (default) or json", 0},
    {"of", KEY_OF, "TIME", 0,
     "wall or device: what is explained; else the wall time, or the device's where only that differs", 0},
    {0},
};

static int own_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    diff *d = ctx;
    if (key == KEY_OF) {
        d->given = true;
        d->of = strcmp(arg, "device") == 0 ? FB_TIME_DEVICE : FB_TIME_WALL;
        if (strcmp(arg, fb_comparison_time_name(d->of)) != 0)
            fb_cli_usage("%s: no time \"%s\"; there are: wall, device", state->name, arg);
        return 0;
    }
    if (key != KEY_FORMAT) return ARGP_ERR_UNKNOWN;
    if (!fb_table_parse_format(arg, &d->format) || (d->format != FB_FORMAT_TABLE && d->format != FB_FORMAT_JSON))
        fb_cli_usage("%s: no format \"%s\"; there are: table, json", state->name, arg);
    return 0;
}

/* ---- measuring ---- */

static void name_column(const fb_column *c, fb_str *to)
{
    fb_str_addf(to, "%s%s%s@%s", c->variant, c->variant[0] ? ":" : "", c->plan_name, c->device);
}

static bool measure(diff *d)
{
    fb_error err = {0};
    for (int i = 0; i < 2; i++)
        if (!fb_cli_columns(d->session, d->cli.args[1 + i], fb_preset_recommended, true, &d->status)) return false;
    for (int i = 0; i < 2; i++)
        if (!fb_cli_plan(d->session, i, &d->status)) return false;
    fb_session_compare(d->session, 0, 1);
    fb_cli_wait(d->session);
    if (d->given ? fb_session_why_time(d->session, 0, 1, d->of, &d->why, &err)
                 : fb_session_why(d->session, 0, 1, &d->why, &err))
        return true;
    d->status = fb_cli_fail_in(&err, fb_session_path(d->session));
    return false;
}

/* What is said of their loops where a plan has one. */
static bool loops_of(const diff *d, fb_loops *out)
{
    return fb_show_loops_of_columns(fb_session_column(d->session, 0), fb_session_column(d->session, 1), false, out);
}

/* ---- printing ---- */

static void add_bar(fb_str *out, fb_why_span span, const char *sign)
{
    for (int i = 0; i < span.from; i++) fb_str_add(out, " ");
    for (int i = 0; i < span.n; i++) fb_str_add(out, sign);
    for (int i = span.from + span.n; i < WIDTH; i++) fb_str_add(out, " ");
}

/* Of a figure of this kind, in bytes: a sign takes one place. */
static int width_of(fb_figure_source kind)
{
    const char *sign = fb_figure_sign(kind);
    return 10 + (*sign ? (int)strlen(sign) - 1 : 0);
}

static void print_whole(const diff *d, int which)
{
    fb_str line = {0}, name = {0};
    char us[48];
    name_column(fb_session_column(d->session, which), &name);
    fb_str_addf(&line, "%-10s ", which ? "second" : "first");
    add_bar(&line, fb_why_wall_bar(&d->why, which, WIDTH), fb_show_utf8() ? "█" : "#");
    fb_figure_write(us, which ? d->why.b_us : d->why.a_us, FB_UNIT_US, d->why.from[which]);
    fb_str_addf(&line, " %*s  %s\n", width_of(d->why.from[which]), us, fb_str_get(&name));
    fb_put(stdout, fb_str_get(&line));
    fb_str_free(&line);
    fb_str_free(&name);
}

/* What B gained is a full bar; what it lost, which the other parts make up for, a light one. */
static void print_part(const fb_why *why, fb_why_id id)
{
    const fb_why_part *p = &why->part[id];
    fb_str line = {0};
    char amount[48];
    bool gain = p->us * why->us >= 0;
    const char *sign = fb_show_utf8() ? gain ? "█" : "░" : gain ? "#" : "+";
    fb_str_addf(&line, "%-10s ", fb_why_name(id));
    if (p->known) {
        fb_figure_part(amount, why, id);
        add_bar(&line, fb_why_bar(why, id, WIDTH), sign);
        fb_str_addf(&line, " %*s", width_of(why->source), amount);
        if (!why->tie)
            fb_str_addf(&line, " %5.0f %%", fb_why_percent(why, id)); /* of no difference there are no shares */
    } else {
        fb_str_addf(&line, "%*s %10s", WIDTH, "", "?");
    }
    fb_str_add(&line, "\n");
    fb_put(stdout, fb_str_get(&line));
    fb_str_free(&line);
}

static void print_sentence(const fb_why *why, fb_why_id id)
{
    fb_str line = {0};
    fb_str_addf(&line, "%s: %s\n", fb_why_name(id), why->part[id].text);
    fb_put(stdout, fb_str_get(&line));
    fb_str_free(&line);
}

static void print_table(const diff *d)
{
    const fb_why *why = &d->why;
    fb_str line = {0};
    fb_loops loops;
    char conclusion[240], sources[32], verdicts[160];
    print_whole(d, 0);
    for (int id = 0; id < FB_WHY_PARTS; id++)
        if (fb_why_matters(why, (fb_why_id)id)) print_part(why, (fb_why_id)id);
    print_whole(d, 1);
    fputc('\n', stdout);
    for (int id = 0; id < FB_WHY_PARTS; id++)
        if (fb_why_matters(why, (fb_why_id)id)) print_sentence(why, (fb_why_id)id);
    fputc('\n', stdout);
    fb_why_conclusion(why, conclusion);
    fb_str_addf(&line, "%s\n", fb_why_verdicts(why, verdicts));
    fb_str_addf(&line, "%s: %s", fb_comparison_time_name(why->of), conclusion);
    if (*fb_why_sources(why, sources)) fb_str_addf(&line, " (times: %s)", sources);
    fb_str_add(&line, "\n");
    if (loops_of(d, &loops)) {
        fb_str_add(&line, "loops: ");
        fb_loops_says(&loops, &line);
        fb_str_add(&line, "\n");
    }
    fb_str kernels = {0};
    if (fb_cli_theirs_beside(d->session, 0, 1, &kernels)) fb_str_addf(&line, "kernels: %s\n", fb_str_get(&kernels));
    fb_str_free(&kernels);
    fb_put(stdout, fb_str_get(&line));
    fb_str_free(&line);
}

static void print_json(const diff *d)
{
    json_t *columns = json_array();
    for (int i = 0; i < 2; i++) {
        fb_report *r = fb_session_report(d->session, i);
        json_array_append_new(columns, fb_report_to_json(r));
        fb_report_free(r);
    }
    json_t *all = json_pack("{s:i, s:s, s:o, s:o}", "fusebox", FB_REPORT_VERSION, "script", fb_session_path(d->session),
                            "columns", columns, "why", fb_why_to_json(&d->why));
    fb_loops loops;
    if (loops_of(d, &loops))
        json_object_set_new(
            all, "loops",
            fb_show_loops_to_json(fb_session_column(d->session, 0), fb_session_column(d->session, 1), &loops));
    char *text = fb_json_shown(all, JSON_INDENT(2));
    printf("%s\n", text);
    fb_free(text);
    json_decref(all);
}

/* ---- the command ---- */

static int diff_main(const fb_command *me, int argc, char **argv)
{
    diff d = {.cli = {.least = 3, .most = 3, .own = own_key, .ctx = &d}};
    fb_cli_parse(&d.cli, me, options, argc, argv);
    if (fb_cli_cases(&d.cli) > 1) fb_cli_usage("%s: --set: one value a parameter; fusebox run sweeps", argv[0]);
    d.session = fb_cli_open(&d.cli, d.cli.args[0], &d.status);
    if (d.session && measure(&d)) (d.format == FB_FORMAT_JSON ? print_json : print_table)(&d);
    fb_session_free(d.session);
    fb_cli_free(&d.cli);
    return d.status;
}

const fb_command fb_command_diff = {.name = "diff",
                                    .args = "SCRIPT COLUMN COLUMN",
                                    .summary = "Why the second is faster: the difference split into its causes",
                                    .run = diff_main};
