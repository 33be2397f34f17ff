/* fusebox gate: do columns keep to limits? For continuous integration: an exit status, and a few lines of Markdown for
 * a pull request.
 *
 * Every limit is held against every column, by the figures and with the verdicts that `run` and `diff` show. A limit
 * holds, does not hold, or cannot be told; one that does not hold decides the exit status, then one that cannot be
 * told. Nothing is timed unless a limit is of time. */
#include "tui/cli/cli.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "decide/preset.h"
#include "session/results.h"
#include "tui/show/figure.h"
#include "tui/show/output.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum { GATE_HOLDS, GATE_UNKNOWN, GATE_BROKEN } gate_state;

typedef enum { LIMIT_FUSED, LIMIT_FASTER, LIMIT_NOT_SLOWER } limit_kind;

typedef struct {
    limit_kind kind;
    const char *a, *b; /* nodes, or a column (a) */
    int first, n;      /* the columns that it stands for, of the session */
} limit;

typedef struct {
    fb_cli cli;
    fb_format format;
    double max_launches, max_bytes; /* NAN: no limit */
    fb_time of;
    const char *before;
    FB_VEC(limit) limits;
    fb_results *earlier; /* of `before` */
    fb_session *session;
    int n;         /* columns that are held against limits: the session's first */
    json_t **rows; /* their reports */
    fb_table *table;
    json_t *found; /* the same rows in JSON */
    int count[3];  /* by gate_state */
    int status;
} gate;

static const char *const state_name[] = {
    [GATE_HOLDS] = "holds", [GATE_UNKNOWN] = "cannot tell", [GATE_BROKEN] = "does not hold"};
static const char *const state_sign[] = {[GATE_HOLDS] = "✓", [GATE_UNKNOWN] = "?", [GATE_BROKEN] = "✗"};

/* ---- options ---- */

enum { KEY_FORMAT = 256, KEY_LAUNCHES, KEY_BYTES, KEY_FUSED, KEY_FASTER, KEY_NOT_SLOWER, KEY_OF, KEY_BEFORE };

static const struct argp_option options[] = {
    {"max-launches", KEY_LAUNCHES, "N", 0, "At most so many launches a run", 0},
    {"max-bytes", KEY_BYTES, "SIZE", 0, "At most so many modelled bytes moved a run: 33.6MB, 4GiB, 1e6", 0},
    {"fused", KEY_FUSED, "A B", 0,
     "Node A is in a kernel with node B; feature[*].tanh is every feature's; may be repeated", 0},
    {"faster-than", KEY_FASTER, "COLUMN", 0,
     "Faster than this column, which is measured in turns with it; may be repeated", 0},
    {"not-slower-than", KEY_NOT_SLOWER, "COLUMN", 0, "Faster than this column, or the same (within 2 %)", 0},
    {"of", KEY_OF, "TIME", 0, "wall (default) or device: the time that is compared", 0},
    {"before", KEY_BEFORE, "F.jsonl", 0,
     "No more launches and bytes than the same column has in this results file, and not slower", 0},
    {"format", KEY_FORMAT, "FORMAT", 0, "table (default), markdown or json", 0},
    {0},
};

/* "33.6MB": bytes, with a unit or none. */
static bool parse_bytes(const char *text, double *to)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},     {"B", 1},         {"kB", 1e3},      {"KB", 1e3},     {"MB", 1e6},
                 {"GB", 1e9}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
    char *end;
    double value = strtod(text, &end);
    if (end == text || !isfinite(value) || value < 0) return false;
    end += strspn(end, " ");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name) != 0) continue;
        *to = value * units[i].bytes;
        return true;
    }
    return false;
}

static void parse_format(gate *g, const char *arg, const char *name)
{
    if (!fb_table_parse_format(arg, &g->format) || g->format == FB_FORMAT_CSV)
        fb_cli_usage("%s: no format \"%s\"; there are: table, markdown, json", name, arg);
}

static int own_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    gate *g = ctx;
    char *end;
    switch (key) {
    case KEY_FORMAT: parse_format(g, arg, state->name); return 0;
    case KEY_LAUNCHES:
        g->max_launches = (double)strtol(arg, &end, 10);
        if (end == arg || *end || g->max_launches < 0)
            fb_cli_usage("%s: --max-launches %s: it is a whole number", state->name, arg);
        return 0;
    case KEY_BYTES:
        if (!parse_bytes(arg, &g->max_bytes))
            fb_cli_usage("%s: --max-bytes %s: it is a size, such as 33.6MB, 4GiB or 1000000", state->name, arg);
        return 0;
    case KEY_FUSED:
        if (state->next >= state->argc) fb_cli_usage("%s: --fused takes two nodes: --fused tanh stack", state->name);
        FB_VEC_PUSH(&g->limits, ((limit){.kind = LIMIT_FUSED, .a = arg, .b = state->argv[state->next]}));
        state->next++;
        return 0;
    case KEY_FASTER: FB_VEC_PUSH(&g->limits, ((limit){.kind = LIMIT_FASTER, .a = arg})); return 0;
    case KEY_NOT_SLOWER: FB_VEC_PUSH(&g->limits, ((limit){.kind = LIMIT_NOT_SLOWER, .a = arg})); return 0;
    case KEY_OF:
        g->of = strcmp(arg, "device") == 0 ? FB_TIME_DEVICE : FB_TIME_WALL;
        if (strcmp(arg, fb_comparison_time_name(g->of)) != 0)
            fb_cli_usage("%s: no time \"%s\"; there are: wall, device", state->name, arg);
        return 0;
    case KEY_BEFORE: g->before = arg; return 0;
    case ARGP_KEY_SUCCESS:
        if (isnan(g->max_launches) && isnan(g->max_bytes) && !g->limits.n && !g->before)
            fb_cli_usage("%s: nothing is limited: --max-launches, --max-bytes, --fused, --faster-than, "
                         "--not-slower-than or --before",
                         state->name);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- columns ---- */

static bool add_columns(gate *g)
{
    fb_session *s = g->session;
    bool fine = g->cli.n_args > 1 || fb_cli_each_variant(s, fb_preset_recommended, &g->status);
    for (int i = 1; fine && i < g->cli.n_args; i++)
        fine = fb_cli_columns(s, g->cli.args[i], fb_preset_recommended, false, &g->status);
    g->n = fb_session_columns(s);
    for (int i = 0; fine && i < g->limits.n; i++) {
        limit *l = &g->limits.at[i];
        l->first = fb_session_columns(s);
        if (l->kind != LIMIT_FUSED) fine = fb_cli_columns(s, l->a, fb_preset_recommended, false, &g->status);
        l->n = fb_session_columns(s) - l->first;
    }
    return fine;
}

/* Which of the limit's columns this one is compared with: that of its variant, or the only one. */
static int peer_of(const gate *g, const limit *l, int column)
{
    for (int i = 0; i < l->n; i++)
        if (strcmp(fb_session_column(g->session, l->first + i)->variant,
                   fb_session_column(g->session, column)->variant) == 0)
            return l->first + i;
    return l->n == 1 ? l->first : FB_NONE;
}

/* What can be known before anything runs: every column has its plan, and a column to be compared with. */
static bool columns_ready(gate *g)
{
    for (int i = 0; i < fb_session_columns(g->session); i++)
        if (!fb_cli_plan(g->session, i, &g->status)) return false;
    for (int i = 0; i < g->limits.n; i++)
        for (int c = 0; c < g->n && g->limits.at[i].kind != LIMIT_FUSED; c++) {
            if (peer_of(g, &g->limits.at[i], c) != FB_NONE) continue;
            fb_cli_say("%s has no variant of %s to be compared with: name one, such as %s:max", g->limits.at[i].a,
                       fb_session_column(g->session, c)->text, fb_session_script(g->session)->variants[0]);
            g->status = FB_EXIT_USAGE;
            return false;
        }
    return true;
}

/* ---- rows of the answer ---- */

static void name_column(const fb_column *c, fb_str *to)
{
    fb_str_addf(to, "%s%s%s@%s%s%s", c->variant, c->variant[0] ? ":" : "", c->plan_name, c->device,
                c->values ? "#" : "", c->values ? c->values : "");
}

static void add_row(gate *g, const char *what, int column, const char *found, gate_state state)
{
    fb_str name = {0};
    name_column(fb_session_column(g->session, column), &name);
    fb_table_row(g->table);
    fb_table_cell(g->table, state_sign[state]);
    fb_table_cell(g->table, what);
    fb_table_cell(g->table, fb_str_get(&name));
    fb_table_cell(g->table, found);
    json_t *row = json_object();
    json_object_set_new(row, "limit", json_string(what));
    json_object_set_new(row, "column", json_string(fb_str_get(&name)));
    json_object_set_new(row, "found", json_string(found));
    json_object_set_new(row, "verdict", json_string(state_name[state]));
    json_array_append_new(g->found, row);
    g->count[state]++;
    fb_str_free(&name);
}

/* A figure that may not be above `most`; NAN: it is not known. */
static void add_figure(gate *g, const char *what, int column, double most, double value, fb_figure_id id)
{
    char text[48];
    gate_state state = isnan(value) ? GATE_UNKNOWN : value <= most ? GATE_HOLDS : GATE_BROKEN;
    add_row(g, what, column, isnan(value) ? "not known" : fb_figure_text(g->rows[column], id, text), state);
}

static void hold_counts(gate *g, int column)
{
    const json_t *row = g->rows[column];
    char what[80], bytes[32];
    if (!isnan(g->max_launches)) {
        snprintf(what, sizeof what, "at most %.0f launch%s", g->max_launches, g->max_launches == 1 ? "" : "es");
        add_figure(g, what, column, g->max_launches, fb_figure_number(row, FB_FIGURE_LAUNCHES), FB_FIGURE_LAUNCHES);
    }
    if (!isnan(g->max_bytes)) {
        snprintf(what, sizeof what, "at most %s moved, modelled", fb_format_bytes(bytes, g->max_bytes));
        add_figure(g, what, column, g->max_bytes, fb_figure_number(row, FB_FIGURE_MOVED), FB_FIGURE_MOVED);
    }
}

/* ---- nodes that share a kernel ---- */

/* The kernel that holds both, FB_NONE: none does. */
static int kernel_of_both(const fb_plan *plan, fb_id a, fb_id b)
{
    for (int i = 0; i < fb_plan_groups(plan); i++) {
        const fb_group *group = fb_plan_group(plan, i);
        bool has_a = false, has_b = false;
        for (int k = 0; k < group->n_nodes; k++) {
            has_a |= group->nodes[k] == a;
            has_b |= group->nodes[k] == b;
        }
        if (has_a && has_b) return i;
    }
    return FB_NONE;
}

static bool in_no_kernel(const fb_plan *plan, fb_id node)
{
    return fb_plan_group_of(plan, node) == FB_NONE && !fb_plan_recomputed(plan, node);
}

/* The first of `a` that shares no kernel with any of `b`, FB_NONE: all do, `kernel` being the first one's. */
static fb_id alone(const fb_plan *plan, const fb_id *a, int n, const fb_id *b, int m, int *kernel)
{
    for (int i = 0; i < n; i++) {
        int both = FB_NONE;
        for (int k = 0; k < m && both == FB_NONE; k++) both = kernel_of_both(plan, a[i], b[k]);
        if (both == FB_NONE) return a[i];
        if (!i) *kernel = both;
    }
    return FB_NONE;
}

static bool hold_fused(gate *g, const limit *l, int column)
{
    const fb_column *c = fb_session_column(g->session, column);
    fb_str what = {0}, found = {0};
    fb_arena *arena = fb_arena_new();
    fb_id *a, *b;
    int n = fb_match_nodes(c->graph, l->a, arena, &a), m = fb_match_nodes(c->graph, l->b, arena, &b), kernel = 0;
    bool there = (n || fb_cli_node(c->graph, l->a, &g->status) != FB_NONE) &&
                 (m || fb_cli_node(c->graph, l->b, &g->status) != FB_NONE);
    fb_str_addf(&what, "%s in a kernel with %s", l->a, l->b);
    if (there && !c->plan) {
        add_row(g, fb_str_get(&what), column, "the device plans for itself", GATE_UNKNOWN);
    } else if (there) {
        fb_id odd = alone(c->plan, a, n, b, m, &kernel);
        if (odd == FB_NONE)
            fb_str_addf(&found, "kernel %d%s", kernel + 1, n > 1 ? " and so on" : "");
        else if (in_no_kernel(c->plan, odd) || in_no_kernel(c->plan, b[0]))
            fb_str_addf(&found, "%s belongs to no kernel",
                        c->graph->nodes[in_no_kernel(c->plan, odd) ? odd : b[0]].name);
        else
            fb_str_addf(&found, "%s is in another", c->graph->nodes[odd].name);
        add_row(g, fb_str_get(&what), column, fb_str_get(&found), odd == FB_NONE ? GATE_HOLDS : GATE_BROKEN);
    }
    fb_arena_free(arena);
    fb_str_free(&what);
    fb_str_free(&found);
    return there;
}

/* ---- times ---- */

static gate_state state_of(const fb_comparison *c, bool same_will_do)
{
    if (c->what == FB_FASTER || (same_will_do && c->what == FB_SAME)) return GATE_HOLDS;
    return c->what == FB_CANNOT_TELL ? GATE_UNKNOWN : GATE_BROKEN;
}

static void add_time(fb_str *to, const fb_report *r, fb_time of)
{
    char text[48];
    const fb_stat *s = of == FB_TIME_WALL ? &r->wall_us : &r->device_us;
    fb_str_add(to, s->n ? fb_figure_write(text, s->median, FB_UNIT_US, r->source) : "not known");
}

/* `r` beside `than`, in one row. */
static void add_compared(gate *g, const char *what, int column, const fb_report *r, const fb_report *than,
                         bool same_will_do)
{
    fb_str found = {0};
    char text[64];
    const char *why = fb_not_comparable(FB_COMPARED(than), FB_COMPARED(r));
    fb_comparison c = fb_compare_reports(than, r, g->of);
    if (why)
        fb_str_addf(&found, "it is %s", why);
    else
        fb_str_addf(&found, "%s (%s ", fb_comparison_say(&c, text), fb_comparison_time_name(g->of));
    if (!why) {
        add_time(&found, r, g->of);
        fb_str_add(&found, " against ");
        add_time(&found, than, g->of);
        fb_str_add(&found, ")");
    }
    add_row(g, what, column, fb_str_get(&found), why ? GATE_UNKNOWN : state_of(&c, same_will_do));
    fb_str_free(&found);
}

/* The two take turns; nothing else is measured with them. */
static void hold_faster(gate *g, const limit *l, int column)
{
    int peer = peer_of(g, l, column);
    bool same_will_do = l->kind == LIMIT_NOT_SLOWER;
    fb_str what = {0};
    fb_session_compare(g->session, peer, column);
    fb_cli_wait(g->session);
    fb_report *than = fb_session_report(g->session, peer), *r = fb_session_report(g->session, column);
    fb_str_addf(&what, same_will_do ? "not slower than " : "faster than ");
    name_column(fb_session_column(g->session, peer), &what);
    if (than->failed) {
        add_row(g, fb_str_get(&what), column, than->failed, GATE_UNKNOWN);
    } else if (!r->failed) {
        add_compared(g, fb_str_get(&what), column, r, than, same_will_do);
    }
    fb_report_free(than);
    fb_report_free(r);
    fb_str_free(&what);
}

/* ---- an earlier version ---- */

static bool is_same_case(const json_t *row, const fb_column *c)
{
    return !strcmp(fb_json_string_or(row, "variant", ""), c->variant) &&
           !strcmp(fb_json_string_or(row, "plan", ""), c->plan_name) &&
           !strcmp(fb_json_string_or(row, "device", ""), c->device) &&
           !strcmp(fb_json_string_or(row, "values", ""), c->values ? c->values : "") &&
           json_equal(json_object_get(row, "params"), c->params);
}

/* The last row of the column in the file, whatever its graph and plan were then. */
static const json_t *earlier_row(const gate *g, const fb_column *c)
{
    const char *script = fb_file_name(fb_session_path(g->session));
    for (int i = fb_results_rows(g->earlier); i-- > 0;) {
        const json_t *row = fb_results_row(g->earlier, i);
        if (is_same_case(row, c) && !strcmp(fb_file_name(fb_json_string_or(row, "script", "")), script)) return row;
    }
    return NULL;
}

static void hold_earlier_figure(gate *g, int column, const json_t *row, fb_figure_id id)
{
    fb_str what = {0};
    char text[48];
    double then = fb_figure_number(row, id);
    if (isnan(then)) return;
    fb_str_addf(&what, "no more %s than the %s before", id == FB_FIGURE_MOVED ? "bytes" : "launches",
                fb_figure_text(row, id, text));
    add_figure(g, fb_str_get(&what), column, then, fb_figure_number(g->rows[column], id), id);
    fb_str_free(&what);
}

static void hold_earlier(gate *g, int column)
{
    const json_t *row = earlier_row(g, fb_session_column(g->session, column));
    fb_error err = {0};
    fb_report *then = row ? fb_report_from_json(row, &err) : NULL;
    if (!then || then->failed) {
        add_row(g, "as good as before", column,
                !row    ? "the file has no such column"
                : !then ? err.text
                        : then->failed,
                GATE_UNKNOWN);
    } else {
        hold_earlier_figure(g, column, row, FB_FIGURE_LAUNCHES);
        hold_earlier_figure(g, column, row, FB_FIGURE_MOVED);
        fb_report *r = fb_session_report(g->session, column);
        if (then->wall_us.n) add_compared(g, "not slower than before", column, r, then, true);
        fb_report_free(r);
    }
    fb_report_free(then);
}

/* ---- measuring and holding ---- */

static bool has_times(const gate *g)
{
    bool any = g->before != NULL;
    for (int i = 0; i < g->limits.n; i++) any |= g->limits.at[i].kind != LIMIT_FUSED;
    return any;
}

/* Every column is prepared and its answer checked; timed only where a limit is of time or the device tells of nothing
 * else. */
static void run_columns(gate *g)
{
    int *checked = fb_calloc((size_t)g->n + 1, sizeof *checked), *timed = fb_calloc((size_t)g->n + 1, sizeof *timed);
    int n_checked = 0, n_timed = 0;
    for (int i = 0; i < g->n; i++) {
        bool time = has_times(g) || !fb_session_column(g->session, i)->plan;
        if (time)
            timed[n_timed++] = i;
        else
            checked[n_checked++] = i;
    }
    if (n_timed) fb_session_measure(g->session, timed, n_timed);
    if (n_checked) fb_session_check(g->session, checked, n_checked);
    fb_cli_wait(g->session);
    fb_free(checked);
    fb_free(timed);
}

/* What its answer is, where that was checked; false when there are no figures to hold against anything. */
static bool hold_answer(gate *g, int column)
{
    fb_report *r = fb_session_report(g->session, column);
    bool fine = !r->failed;
    char to[64];
    g->rows[column] = fb_report_to_json(r);
    if (!fine) {
        add_row(g, "a right answer", column, r->failed,
                r->failed_kind == FB_ERR_UNAVAILABLE ? GATE_UNKNOWN : GATE_BROKEN);
    } else if (r->error.state == FB_CHECK_UNDECIDED || fb_report_error_says_nothing(&r->error)) {
        add_row(g, "a right answer", column, "undecided: rounding alone may change most elements", GATE_UNKNOWN);
    } else if (r->error.state == FB_CHECK_CHECKING) {
        add_row(g, "a right answer", column, "its check was not finished", GATE_UNKNOWN);
    } else if (!isnan(r->error.bound)) {
        snprintf(to, sizeof to, "error %.0e, %.2g of the bound", r->error.max_rel, r->error.bound);
        add_row(g, "a right answer", column, to, fb_report_is_wrong(r) ? GATE_BROKEN : GATE_HOLDS);
    }
    fb_report_free(r);
    return fine;
}

static bool hold_all(gate *g)
{
    for (int c = 0; c < g->n; c++) {
        if (!hold_answer(g, c)) continue;
        hold_counts(g, c);
        for (int i = 0; i < g->limits.n; i++)
            if (g->limits.at[i].kind == LIMIT_FUSED && !hold_fused(g, &g->limits.at[i], c)) return false;
        if (g->earlier) hold_earlier(g, c);
        for (int i = 0; i < g->limits.n; i++)
            if (g->limits.at[i].kind != LIMIT_FUSED) hold_faster(g, &g->limits.at[i], c);
    }
    return true;
}

/* ---- printing ---- */

static gate_state whole(const gate *g)
{
    return g->count[GATE_BROKEN] ? GATE_BROKEN : g->count[GATE_UNKNOWN] ? GATE_UNKNOWN : GATE_HOLDS;
}

static void add_params(const gate *g, fb_str *to)
{
    const char *name;
    json_t *values;
    json_object_foreach(g->cli.common.set, name, values)
    {
        char *text = fb_figure_plain(json_array_get(values, 0));
        fb_str_addf(to, " %s=", name);
        fb_str_add_clean(to, text, "");
        fb_free(text);
    }
}

/* "split_stack.lua batch_size=64: 2 of 3 limits hold, 1 cannot be told". */
static void add_summary(const gate *g, fb_str *to)
{
    int all = g->count[0] + g->count[1] + g->count[2];
    fb_str_add_clean(to, fb_file_name(fb_session_path(g->session)), "");
    add_params(g, to);
    if (g->count[GATE_HOLDS] == all)
        fb_str_addf(to, ": %s", all == 1 ? "the limit holds" : "all limits hold");
    else
        fb_str_addf(to, ": %d of %d limits hold", g->count[GATE_HOLDS], all);
    if (g->count[GATE_BROKEN]) fb_str_addf(to, ", %d broken", g->count[GATE_BROKEN]);
    if (g->count[GATE_UNKNOWN]) fb_str_addf(to, ", %d cannot be told", g->count[GATE_UNKNOWN]);
    fb_str_add(to, "\n");
}

static void print_table(const gate *g)
{
    fb_str summary = {0};
    add_summary(g, &summary);
    if (g->format == FB_FORMAT_MARKDOWN) {
        fb_str title = {0};
        fb_str_addf(&title, "### fusebox gate %s %s\n", state_sign[whole(g)], fb_str_get(&summary));
        fb_put(stdout, fb_str_get(&title));
        fb_str_free(&title);
    }
    fb_table_print(g->table, g->format, stdout);
    if (g->format == FB_FORMAT_TABLE) {
        fputc('\n', stdout);
        fb_put(stdout, fb_str_get(&summary));
    }
    fb_str_free(&summary);
}

static void print_json(const gate *g)
{
    json_t *all = json_object(), *columns = json_array();
    for (int i = 0; i < g->n; i++) json_array_append(columns, g->rows[i]);
    json_object_set_new(all, "fusebox", json_integer(FB_REPORT_VERSION));
    json_object_set_new(all, "script", json_string(fb_session_path(g->session)));
    json_object_set_new(all, "verdict", json_string(state_name[whole(g)]));
    json_object_set(all, "limits", g->found);
    json_object_set_new(all, "columns", columns);
    char *text = fb_json_shown(all, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    printf("%s\n", text);
    fb_free(text);
    json_decref(all);
}

/* ---- the command ---- */

static fb_table *answer_table(void)
{
    fb_table *t = fb_table_new();
    fb_table_column(t, "", "", true);
    fb_table_column(t, "limit", "", true);
    fb_table_column(t, "column", "", true);
    fb_table_column(t, "found", "", true);
    return t;
}

static void run_gate(gate *g)
{
    fb_error err = {0};
    if (g->before && !(g->earlier = fb_results_read(g->before, &err))) {
        g->status = fb_cli_fail(&err);
        return;
    }
    if (!fb_cli_case(&g->cli, g->session, 0, &err)) {
        g->status = fb_cli_fail(&err);
        return;
    }
    if (!add_columns(g) || !columns_ready(g)) return;
    g->rows = fb_calloc((size_t)g->n + 1, sizeof(json_t *));
    g->table = answer_table();
    g->found = json_array();
    run_columns(g);
    if (hold_all(g)) {
        (g->format == FB_FORMAT_JSON ? print_json : print_table)(g);
        gate_state state = whole(g);
        g->status = state == GATE_BROKEN ? FB_EXIT_WRONG : state == GATE_UNKNOWN ? FB_EXIT_NO_DEVICE : FB_EXIT_FINE;
    }
    for (int i = 0; i < g->n; i++) json_decref(g->rows[i]);
    fb_free(g->rows);
    fb_table_free(g->table);
    json_decref(g->found);
}

static int gate_main(const fb_command *me, int argc, char **argv)
{
    gate g = {.cli = {.least = 1, .most = -1, .own = own_key, .ctx = &g}, .max_launches = NAN, .max_bytes = NAN};
    fb_cli_parse(&g.cli, me, options, argc, argv);
    if (fb_cli_cases(&g.cli) > 1) fb_cli_usage("%s: --set: one value a parameter; fusebox run sweeps", argv[0]);
    g.session = fb_cli_open(&g.cli, g.cli.args[0], &g.status);
    if (g.session) run_gate(&g);
    fb_results_close(g.earlier);
    fb_session_free(g.session);
    FB_VEC_FREE(&g.limits);
    fb_cli_free(&g.cli);
    return g.status;
}

const fb_command fb_command_gate = {.name = "gate",
                                    .args = "SCRIPT [COLUMN]…",
                                    .summary =
                                        "Limits on launches, bytes, fusion and speed, for continuous integration",
                                    .run = gate_main};
