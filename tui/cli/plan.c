/* Commands that look at graphs and plans without measuring: explain, emit, eject, graph. */
#include "tui/cli/cli.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "decide/preset.h"
#include "graph/graph_json.h"
#include "graph/print.h"
#include "nest/print.h"
#include "plan/loops.h"
#include "plan/procedure.h"
#include "schedule/print.h"
#include "session/names.h"
#include "tui/cli/emit.h"
#include "tui/cli/loops.h"
#include "tui/cli/steps.h"
#include "tui/cli/theirs.h"
#include "tui/show/picture.h"
#include "tui/show/table.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

/* ---- what the three share ---- */

typedef struct {
    fb_cli cli;
    const char *edge_from, *edge_to; /* explain */
    const char *format;              /* graph, explain --steps and --loops */
    bool steps, loops;               /* explain … */
    int prints;                      /* … how many of these are asked for */
    void (*print)(const fb_plan *plan, fb_str *out);
    fb_cli_emit_target target; /* emit */
    const char *arch;          /* emit, eject; NULL: the device's */
    const char *kernel;        /* emit: NULL all of them; eject */
    fb_machine machine;        /* emit, eject: of that architecture */
    bool force;                /* eject */
    bool single;               /* one column only */
    bool two;                  /* a second column may be named */
    fb_session *session;
    int status;
} look;

/* The columns asked for, or one a variant with the plan `otherwise`, each with its plan made. */
static bool columns_ready(look *l, const char *otherwise)
{
    fb_session *s = l->session;
    fb_error err = {0};
    if (!fb_cli_case(&l->cli, s, 0, &err)) {
        l->status = fb_cli_fail(&err);
        return false;
    }
    bool fine = l->cli.n_args > 1 || fb_cli_each_variant(s, otherwise, &l->status);
    for (int i = 1; fine && i < l->cli.n_args && i <= 1 + l->two; i++)
        fine = fb_cli_columns(s, l->cli.args[i], otherwise, l->single || l->cli.n_args > 2, &l->status);
    for (int i = 0; fine && i < fb_session_columns(s); i++) fine = fb_cli_plan(s, i, &l->status);
    return fine;
}

static int look_main(look *l, const fb_command *me, const struct argp_option *options, int argc, char **argv,
                     const char *otherwise, void (*show)(look *l))
{
    l->cli.ctx = l;
    fb_cli_parse(&l->cli, me, options, argc, argv);
    if (fb_cli_cases(&l->cli) > 1)
        fb_cli_usage("%s: --set takes one value here; several sweep in \"fusebox run\"", argv[0]);
    l->session = fb_cli_open(&l->cli, l->cli.args[0], &l->status);
    if (l->session && columns_ready(l, otherwise)) show(l);
    fb_session_free(l->session);
    fb_cli_free(&l->cli);
    return l->status;
}

static const char *name_of(const fb_graph *g, fb_id node)
{
    return g->nodes[node].name;
}

/* ---- explain ---- */

/* Each kernel as the loops that code generation is given. */
static void print_nests(const fb_plan *plan, fb_str *out)
{
    for (int i = 0; i < fb_plan_groups(plan); i++) {
        const fb_group *group = fb_plan_group(plan, i);
        fb_str_addf(out, "kernel %d: %s\n", i + 1, fb_family_name(group->family));
        if (group->nest) fb_nest_print(group->nest, out);
    }
}

/* … and how these are dealt to threads. */
static void print_schedules(const fb_plan *plan, fb_str *out)
{
    fb_arena *arena = fb_arena_new();
    for (int i = 0; i < fb_plan_groups(plan); i++) {
        const fb_group *group = fb_plan_group(plan, i);
        const fb_nest *nest = group->nest;
        fb_str_addf(out, "kernel %d: %s\n", i + 1, fb_family_name(group->family));
        if (nest && fb_plan_is_stage(plan, group)) nest = fb_nest_as_stage(nest, arena);
        if (nest) fb_schedule_print(nest, group->family, &group->knobs, out);
    }
    fb_arena_free(arena);
}

/* What shows a column's whole plan. */
static const struct {
    int key;
    void (*print)(const fb_plan *plan, fb_str *out);
} prints[] = {{'p', fb_plan_print_procedure}, {'n', print_nests}, {'S', print_schedules}};

static bool is_print(look *l, int key)
{
    for (size_t i = 0; i < sizeof prints / sizeof *prints; i++) {
        if (prints[i].key != key) continue;
        l->print = prints[i].print;
        l->prints++;
        return true;
    }
    return false;
}

static int explain_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    look *l = ctx;
    if (is_print(l, key)) return 0;
    if (key == 's') l->steps = true;
    if (key == 'l') l->loops = true;
    if (key == 'f') {
        if (strcmp(arg, "text") != 0 && strcmp(arg, "json") != 0)
            fb_cli_usage("%s: no format \"%s\"; there are: text, json", state->name, arg);
        l->format = arg;
    }
    if (key == ARGP_KEY_SUCCESS && l->format && !l->steps && !l->loops)
        fb_cli_usage("%s: --format goes with --steps and --loops", state->name);
    if (key == ARGP_KEY_SUCCESS && (l->edge_from != NULL) + l->steps + l->loops + l->prints > 1)
        fb_cli_usage("%s: --edge, --steps, --procedure, --nest, --schedule and --loops ask for different things",
                     state->name);
    if (key == 's' || key == 'l' || key == 'f' || key == ARGP_KEY_SUCCESS) return 0;
    if (key != 'e') return ARGP_ERR_UNKNOWN;
    if (state->next >= state->argc) fb_cli_usage("%s: --edge takes two nodes: --edge tanh stack", state->name);
    l->edge_from = arg;
    l->edge_to = state->argv[state->next++];
    return 0;
}

static void explain_edge(const look *l, int column, fb_id from, fb_id to)
{
    const fb_column *c = fb_session_column(l->session, column);
    int group = fb_plan_group_of(c->plan, from);
    bool fused = group != FB_NONE && group == fb_plan_group_of(c->plan, to);
    fb_edit edit = {.kind = fused ? FB_EDIT_CUT : FB_EDIT_FUSE, .a = from, .b = to};
    fb_verdict v = fb_session_try(l->session, column, &edit, false);
    fb_str line = {0};
    if (fb_session_columns(l->session) > 1) fb_str_addf(&line, "%s: ", c->variant);
    fb_str_addf(&line, "%s → %s: %s: %s: %s\n", name_of(c->graph, from), name_of(c->graph, to), fused ? "cut" : "fuse",
                fb_verdict_kind_name(v.kind), v.text);
    fb_put(stdout, line.text);
    fb_str_free(&line);
}

/* Says so when the graph has none of that name. */
static bool has_node(look *l, const fb_graph *g, const char *name)
{
    fb_arena *arena = fb_arena_new();
    fb_id *found;
    int n = fb_match_nodes(g, name, arena, &found);
    fb_arena_free(arena);
    return n || fb_cli_node(g, name, &l->status) != FB_NONE;
}

/* Edges between nodes of both names; for two single nodes without one, the verdict that says so. How many. */
static int explain_between(const look *l, int column)
{
    const fb_column *c = fb_session_column(l->session, column);
    const fb_deps *d = fb_planner_deps(fb_plan_planner(c->plan));
    fb_arena *arena = fb_arena_new();
    fb_id *from, *to;
    int n = fb_match_nodes(c->graph, l->edge_from, arena, &from);
    int m = fb_match_nodes(c->graph, l->edge_to, arena, &to);
    int found = n == 1 && m == 1;
    bool *wanted = FB_NEW_ARRAY(arena, bool, c->graph->n_nodes);
    for (int k = 0; k < m; k++) wanted[to[k]] = true;
    if (found) explain_edge(l, column, from[0], to[0]);
    for (int i = 0; i < n && n * m > 1; i++)
        for (int k = d->out_start[from[i]]; k < d->out_start[from[i] + 1]; k++) {
            fb_id consumer = d->edges[d->out[k]].consumer;
            if (!wanted[consumer]) continue;
            explain_edge(l, column, from[i], consumer);
            found++;
        }
    fb_arena_free(arena);
    return found;
}

/* In every variant that has both nodes; in none, the first variant's sentence. */
static void explain_some(look *l)
{
    int n = fb_session_columns(l->session), found = 0;
    for (int i = 0; i < n; i++) found += explain_between(l, i);
    const fb_graph *g = fb_session_column(l->session, 0)->graph;
    if (found || !has_node(l, g, l->edge_from) || !has_node(l, g, l->edge_to)) return;
    fb_cli_say("no edge leads from \"%s\" to \"%s\"", l->edge_from, l->edge_to);
    l->status = FB_EXIT_USAGE;
}

static void explain_plans(const look *l, void (*print)(const fb_plan *plan, fb_str *out))
{
    for (int i = 0; i < fb_session_columns(l->session); i++) {
        const fb_column *c = fb_session_column(l->session, i);
        fb_str out = {0};
        if (fb_session_columns(l->session) > 1) fb_str_addf(&out, "%s%s\n", i ? "\n" : "", c->variant);
        print(c->plan, &out);
        fb_put(stdout, fb_str_get(&out));
        fb_str_free(&out);
    }
}

/* A framework's column is planned by the framework. */
static bool all_planned(look *l)
{
    fb_error err = {0};
    for (int i = 0; i < fb_session_columns(l->session) && !err.kind; i++) {
        const fb_column *c = fb_session_column(l->session, i);
        if (!c->plan) fb_fail(&err, FB_ERR_USAGE, "%s has no plan of ours", c->text);
    }
    if (err.kind) l->status = fb_cli_fail(&err);
    return !err.kind;
}

static void explain_show(look *l)
{
    bool plain = !l->edge_from && !l->steps && !l->loops && !l->prints;
    if (plain && fb_cli_any_theirs(l->session)) {
        l->status = fb_cli_theirs(l->session, false);
        return;
    }
    if (!all_planned(l)) return;
    if (l->cli.n_args > 2 && !l->loops) {
        fb_cli_say("two columns go with --loops, which holds their loops against each other, or with a framework's "
                   "column, whose plan is held against ours");
        l->status = FB_EXIT_USAGE;
        return;
    }
    if (l->edge_from) {
        explain_some(l);
        return;
    }
    if (l->print) {
        explain_plans(l, l->print);
        return;
    }
    if (l->loops) {
        fb_cli_loops(l->session, l->format && strcmp(l->format, "json") == 0, stdout);
        return;
    }
    if (l->steps) {
        fb_error err = {0};
        if (!fb_cli_steps(l->session, l->format && strcmp(l->format, "json") == 0, stdout, &err))
            l->status = fb_cli_fail(&err);
        return;
    }
    for (int i = 0; i < fb_session_columns(l->session); i++) {
        const fb_deps *d = fb_planner_deps(fb_plan_planner(fb_session_column(l->session, i)->plan));
        for (int k = 0; k < d->n_edges; k++) explain_edge(l, i, d->edges[k].producer, d->edges[k].consumer);
    }
}

static int explain_main(const fb_command *me, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"edge", 'e', "A B", 0, "Only the edge from node A to node B; feature[*].tanh is every feature's", 0},
        {"steps", 's', NULL, 0, "The decisions of the column's preset, one by one, with candidates and scores", 0},
        {"procedure", 'p', NULL, 0, "The column's kernels in order, a statement a node, with what it reads where", 0},
        {"nest", 'n', NULL, 0, "The column's kernels as loops: values, passes, what is stored where", 0},
        {"schedule", 'S', NULL, 0, "How these are dealt to threads: shape, threads, rows a block, vectors, tiles", 0},
        {"loops", 'l', NULL, 0,
         "Steps that are written out: which are a loop, what keeps the others apart, and what keeps the loops of two "
         "columns, or of all variants, from being one",
         0},
        {"format", 'f', "FORMAT", 0, "With --steps and --loops: text (default) or json", 0},
        {0},
    };
    look l = {.two = true, .cli = {.least = 1, .most = 3, .own = explain_key}};
    return look_main(&l, me, options, argc, argv, "none", explain_show);
}

const fb_command fb_command_explain = {.name = "explain",
                                       .args = "SCRIPT [COLUMN [COLUMN]]",
                                       .summary = "The verdict on every edge, or a preset's decisions",
                                       .run = explain_main};

/* ---- emit ---- */

enum { KEY_ARCH = 256 };

static int emit_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    look *l = ctx;
    fb_str known = {0};
    switch (key) {
    case 't':
        if (fb_cli_emit_target_parse(arg, &l->target)) return 0;
        fb_cli_emit_targets(&known);
        fb_cli_usage("%s: no target \"%s\"; there are: %s", state->name, arg, fb_str_get(&known));
    case KEY_ARCH: l->arch = arg; return 0;
    case 'k': l->kernel = arg; return 0;
    case ARGP_KEY_SUCCESS: {
        fb_error err = {0};
        const fb_target *t = l->target.written;
        bool for_gpu = t && t->grid;
        if (l->arch && !for_gpu)
            fb_cli_usage("%s: --arch goes with --target cuda, ptx, sass or resources", state->name);
        if (for_gpu && !fb_cli_emit_machine(t, l->arch, &l->machine, &err))
            fb_cli_usage("%s: %s", state->name, err.text);
        if (for_gpu) l->cli.plan_as = &l->machine;
        return 0;
    }
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void emit_show(look *l)
{
    const fb_column *c = fb_session_column(l->session, 0);
    if (!c->plan && !l->target.written && !l->kernel && !l->arch) {
        l->status = fb_cli_theirs(l->session, true);
        return;
    }
    bool stands_in = l->cli.plan_as && c->machine->target->stands_in, nothing = false;
    const fb_machine *m = stands_in || l->arch ? &l->machine : c->machine;
    fb_cli_emit_choice which = {.name = l->kernel};
    fb_arena *arena = fb_arena_new();
    fb_error err = {0};
    int *groups;
    if (l->kernel) which.n_groups = fb_session_kernels_named(l->session, 0, l->kernel, arena, &groups, NULL);
    if (which.n_groups) which.groups = groups;
    if (!c->plan)
        fb_fail(&err, FB_ERR_USAGE, "%s: the device generates its own code", c->text);
    else
        fb_cli_emit(c->plan, l->target, l->arch, &which, m, stdout, &nothing, &err);
    if (err.kind)
        l->status = fb_cli_fail(&err);
    else if (nothing)
        fb_cli_say("%s generates no kernel: each of its launches is a call of the library, which has no source",
                   c->text);
    fb_arena_free(arena);
}

static char *emit_help(int key, const char *text, void *input)
{
    (void)input;
    if (key != 't') return (char *)text;
    fb_str out = {0};
    fb_str_add(&out, text);
    fb_cli_emit_targets(&out);
    fb_str_add(&out, " (default: the language of the column's device)");
    char *copy = strdup(out.text); /* argp frees it */
    fb_str_free(&out);
    return copy;
}

static int emit_main(const fb_command *me, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"target", 't', "TARGET", 0, "What to print: ", 0},
        {"kernel", 'k', "K", 0, "This one alone: its name, its number in \"fusebox graph\", or a node in it", 0},
        {"arch", KEY_ARCH, "ARCH", 0, "The GPU's architecture, such as sm_90 (default: the device's, else sm_90)", 0},
        {0},
    };
    look l = {.single = true, .cli = {.least = 2, .most = 2, .own = emit_key, .help = emit_help}};
    return look_main(&l, me, options, argc, argv, fb_preset_recommended, emit_show);
}

const fb_command fb_command_emit = {.name = "emit",
                                    .args = "SCRIPT COLUMN",
                                    .summary = "The generated source of a column, or what a GPU makes of it",
                                    .run = emit_main};

/* ---- eject ---- */

enum { KEY_FORCE = 257 };

/* Whose kernels are in such a file: what its name ends in says it. An error of usage where it is nobody's. */
static const fb_target *target_of_file(const char *file, const char *command)
{
    const fb_target *t;
    fb_str known = {0};
    const char *dot = strrchr(file, '.');
    for (int i = 0; (t = fb_target_written(i)); i++) {
        if (dot && dot > file && strcmp(dot + 1, t->ending) == 0) break;
        fb_str_addf(&known, "%s.%s for %s", i ? ", or in " : "", t->ending, t->called);
    }
    if (!t) fb_cli_usage("%s: %s: a kernel's file ends in %s", command, file, fb_str_get(&known));
    fb_str_free(&known);
    return t;
}

static int eject_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    look *l = ctx;
    fb_error err = {0};
    switch (key) {
    case 'k': l->kernel = arg; return 0;
    case KEY_ARCH: l->arch = arg; return 0;
    case KEY_FORCE: l->force = true; return 0;
    case ARGP_KEY_SUCCESS: {
        const char *file = l->cli.n_args > 2 ? l->cli.args[2] : NULL;
        if (!l->kernel)
            fb_cli_usage("%s: --kernel is missing: a kernel's name, its number or a node in it; \"fusebox graph %s "
                         "%s\" lists them",
                         state->name, l->cli.args[0], l->cli.args[1]);
        const fb_target *t = file ? target_of_file(file, state->name) : NULL;
        if (l->arch && t && !t->grid) fb_cli_usage("%s: --arch goes with a .cu file", state->name);
        if (!l->arch && !(t && t->grid)) return 0;
        if (!fb_cli_emit_machine(t, l->arch, &l->machine, &err)) fb_cli_usage("%s: %s", state->name, err.text);
        l->cli.plan_as = &l->machine;
        return 0;
    }
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* The plan that has the kernel goes beside it: gelu.cu, gelu.json. */
static bool eject(const look *l, fb_str *file, fb_str *plan, fb_error *err)
{
    fb_session *s = l->session;
    char path[PATH_MAX];
    int group = fb_session_kernel_named(s, 0, l->kernel, err);
    if (group == FB_NONE) return false;
    if (l->cli.n_args > 2)
        fb_str_add(file, l->cli.args[2]);
    else if (fb_session_eject_path(s, 0, group, "", path, err))
        fb_str_add(file, path);
    else
        return false;
    fb_str_addf(plan, "%.*s.json", (int)(strrchr(fb_str_get(file), '.') - file->text), file->text);
    for (int i = 0; i < 2 && !l->force; i++) {
        const char *there = i ? fb_str_get(plan) : fb_str_get(file);
        if (access(there, F_OK) == 0)
            return fb_fail(err, FB_ERR_USAGE, "%s is there already; --force overwrites it", there);
    }
    int at = fb_session_eject(s, 0, group, fb_str_get(file), l->force, err);
    return at >= 0 && fb_session_save_plan(s, at, fb_str_get(plan), err);
}

static void eject_show(look *l)
{
    fb_str file = {0}, plan = {0}, line = {0};
    fb_error err = {0};
    const char *spec = l->cli.args[1], *variant = fb_session_column(l->session, 0)->variant;
    const char *device = strrchr(spec, '@'), *name;
    json_t *values;
    if (eject(l, &file, &plan, &err)) {
        fb_str column = {0};
        fb_str_addf(&line, "edit %s, then: fusebox run --trust ", fb_str_get(&file));
        fb_str_add_word(&line, l->cli.args[0]);
        json_object_foreach(l->cli.common.set, name, values)
        {
            const json_t *value = json_array_get(values, 0);
            char *text = json_is_string(value) ? fb_strdup(json_string_value(value)) : fb_json_line(value);
            fb_str_addf(&line, " --set %s=", name);
            fb_str_add_word(&line, text);
            fb_free(text);
        }
        fb_str_add(&line, " ");
        fb_str_add_word(&line, spec);
        fb_str_addf(&column, "%s%s%s%s", variant, *variant ? ":" : "", fb_str_get(&plan),
                    device && !strchr(device, '/') ? device : "");
        fb_str_add(&line, " ");
        fb_str_add_word(&line, fb_str_get(&column));
        fb_str_add(&line, "\n");
        fb_put(stdout, fb_str_get(&line));
        fb_str_free(&column);
    } else {
        l->status = fb_cli_fail(&err);
    }
    fb_str_free(&file);
    fb_str_free(&plan);
    fb_str_free(&line);
}

static int eject_main(const fb_command *me, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"kernel", 'k', "K", 0, "The kernel: its name, its number in \"fusebox graph\", or a node in it", 0},
        {"arch", KEY_ARCH, "ARCH", 0, "Write CUDA for a GPU that is not here, such as sm_90 (a FILE.cu does so too)",
         0},
        {"force", KEY_FORCE, NULL, 0, "Overwrite files that are there", 0},
        {0},
    };
    look l = {.single = true, .cli = {.least = 2, .most = 3, .own = eject_key}};
    return look_main(&l, me, options, argc, argv, fb_preset_recommended, eject_show);
}

const fb_command fb_command_eject = {.name = "eject",
                                     .args = "SCRIPT COLUMN [FILE]",
                                     .summary = "A generated kernel as a file, to improve by hand",
                                     .run = eject_main};

/* ---- graph ---- */

static int graph_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    look *l = ctx;
    if (key != 'f') return ARGP_ERR_UNKNOWN;
    if (strcmp(arg, "text") != 0 && strcmp(arg, "dot") != 0 && strcmp(arg, "json") != 0 && strcmp(arg, "svg") != 0)
        fb_cli_usage("%s: no format \"%s\"; there are: text, dot, json, svg", state->name, arg);
    l->format = arg;
    return 0;
}

static void list_groups(const fb_column *c, fb_str *out)
{
    fb_str_addf(out, "\nkernels of %s\n", c->plan_name);
    for (int k = 0; k < fb_plan_groups(c->plan); k++) {
        const fb_group *group = fb_plan_group(c->plan, k);
        fb_str_addf(out, "%4d  %-9s", k + 1, fb_family_name(group->family));
        for (int i = 0; i < group->n_nodes; i++) fb_str_addf(out, " %s", name_of(c->graph, group->nodes[i]));
        fb_str_add(out, "\n");
    }
}

static void print_dot(const fb_column *c, bool grouped, fb_str *out)
{
    int *group_of = fb_calloc((size_t)c->graph->n_nodes + 1, sizeof *group_of);
    for (int i = 0; i < c->graph->n_nodes; i++) group_of[i] = c->plan ? fb_plan_group_of(c->plan, i) : FB_NONE;
    fb_graph_print_dot(c->graph, grouped ? group_of : NULL, out);
    fb_free(group_of);
}

static void print_svg(const fb_session *s)
{
    int n = fb_session_columns(s);
    fb_picture *pictures = fb_calloc((size_t)n + 1, sizeof *pictures);
    const char **titles = fb_calloc((size_t)n + 1, sizeof *titles);
    fb_str text = {0};
    for (int i = 0; i < n; i++) {
        const fb_column *c = fb_session_column(s, i);
        titles[i] = c->text;
        if (c->plan) fb_picture_plan(&pictures[i], c->plan, NULL);
    }
    fb_picture_document(pictures, titles, n, &text);
    fputs(fb_str_get(&text), stdout);
    fb_str_free(&text);
    for (int i = 0; i < n; i++) fb_picture_free(&pictures[i]);
    fb_free(pictures);
    fb_free(titles);
}

/* What a script says of its ops may hold any character. */
static void add_graph(const fb_graph *g, fb_str *out)
{
    fb_str json = {0};
    fb_graph_write_json(g, &json);
    fb_json_add_shown(out, fb_str_get(&json));
    fb_str_free(&json);
}

static void graph_show(look *l)
{
    int n = fb_session_columns(l->session);
    bool with_plan = l->cli.n_args > 1, json = strcmp(l->format, "json") == 0, text = strcmp(l->format, "text") == 0;
    if (json && n > 1) {
        const fb_script_info *info = fb_session_script(l->session);
        fb_cli_say("a JSON document holds one graph: name a variant, such as \"%s\"", info->variants[0]);
        l->status = FB_EXIT_USAGE;
        return;
    }
    if (strcmp(l->format, "svg") == 0) {
        print_svg(l->session);
        return;
    }
    for (int i = 0; i < n; i++) {
        const fb_column *c = fb_session_column(l->session, i);
        fb_str out = {0};
        if (text && n > 1) fb_str_addf(&out, "%s%s\n", i ? "\n" : "", c->variant);
        if (json)
            add_graph(c->graph, &out);
        else if (text)
            fb_graph_print_text(c->graph, true, &out);
        else
            print_dot(c, with_plan, &out);
        if (text && with_plan && c->plan) list_groups(c, &out);
        if (text)
            fb_put(stdout, fb_str_get(&out));
        else
            fb_put_plain(stdout, fb_str_get(&out));
        fb_str_free(&out);
    }
}

static int graph_main(const fb_command *me, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"format", 'f', "FORMAT", 0, "text (default), dot, json, or svg: the plan's kernels as a picture", 0},
        {0},
    };
    look l = {.cli = {.least = 1, .most = 2, .own = graph_key}, .format = "text"};
    return look_main(&l, me, options, argc, argv, "none", graph_show);
}

const fb_command fb_command_graph = {
    .name = "graph", .args = "SCRIPT [COLUMN]", .summary = "The graph, and the kernels of a column", .run = graph_main};
