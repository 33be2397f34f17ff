/* fusebox record: measures scripts for machines that do not have this one's GPU. */
#include "tui/cli/cli.h"

#include "config.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "session/library.h"
#include "session/recorder.h"
#include "tui/cli/emit.h"
#include "tui/show/table.h"
#ifdef FB_HAVE_CUDA
#include "device/cuda/compile.h"
#endif

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What is done of all scripts before the next is begun. */
typedef enum { STAGE_PLANS, STAGE_TOGGLES, STAGE_PEERS, STAGE_EXPERIMENTS, STAGES } stage;
static const char *const stage_name[STAGES] = {"plans", "toggles", "peers", "experiments"};

typedef struct {
    fb_cli cli;
    const char *out, *arch; /* arch: compile for it alone */
    fb_machine machine;     /* then: what plans are made for */
    bool no_counters, no_metrics, max_autotune, list;
    bool only[STAGES], some; /* some: those alone */
    double spread, seconds;
    int jobs; /* processes that compile */
    stage now;
    fb_session *session;   /* of the script that is recorded */
    fb_recorder *recorder; /* opened with the first script that loads */
    fb_table *listed;
} record;

enum {
    KEY_NO_COUNTERS = 256,
    KEY_COMPILE,
    KEY_MAX_AUTOTUNE,
    KEY_LIST,
    KEY_FOR,
    KEY_ONLY,
    KEY_SPREAD,
    KEY_JOBS,
    KEY_NO_METRICS
};

static double positive(const struct argp_state *state, const char *option, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (*end || end == text || !(value > 0) || !isfinite(value))
        fb_cli_usage("%s: --%s is a number above 0, not \"%s\"", state->name, option, text);
    return value;
}

static void only(record *r, const struct argp_state *state, const char *name)
{
    int i = 0;
    while (i < STAGES && strcmp(stage_name[i], name) != 0) i++;
    if (i == STAGES)
        fb_cli_usage("%s: nothing is called \"%s\"; there are: plans, toggles, peers, experiments", state->name, name);
    r->only[i] = r->some = true;
}

static int own_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    record *r = ctx;
    fb_error err = {0};
    switch (key) {
    case 'o': r->out = arg; return 0;
    case KEY_COMPILE:
        r->arch = arg;
        if (!fb_cli_emit_machine(NULL, arg, &r->machine, &err)) fb_cli_usage("%s: %s", state->name, err.text);
        r->cli.plan_as = &r->machine;
        return 0;
    case KEY_NO_COUNTERS: r->no_counters = true; return 0;
    case KEY_NO_METRICS: r->no_metrics = true; return 0;
    case KEY_MAX_AUTOTUNE: r->max_autotune = true; return 0;
    case KEY_LIST: r->list = true; return 0;
    case KEY_FOR: r->seconds = positive(state, "for", arg); return 0;
    case KEY_SPREAD: r->spread = positive(state, "spread", arg); return 0;
    case KEY_JOBS: r->jobs = (int)fmin(256, fmax(1, positive(state, "jobs", arg))); return 0;
    case KEY_ONLY: only(r, state, arg); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void say(void *ctx, const char *line)
{
    (void)ctx;
    fb_cli_say("%s", line);
}

static bool file_of(void *ctx, const fb_node *node, fb_session_weights *out, fb_error *err)
{
    const record *r = ctx;
    return fb_session_file(r->session, node, out, err);
}

/* Into the cache of compiled kernels, as a device would. */
static bool compile(void *ctx, const fb_program *p, fb_error *err)
{
    const record *r = ctx;
#ifdef FB_HAVE_CUDA
    return fb_cuda_compile_ahead(p, r->arch, err);
#else
    (void)p;
    return fb_fail(err, FB_ERR_UNAVAILABLE, "%s: this fusebox was built without the CUDA toolkit's headers", r->arch);
#endif
}

/* Sessions of further scripts need not start a framework once more. */
static void leave_peer_to_recorder(record *r)
{
    int peer = fb_recorder_peer(r->recorder);
    const char **workers = r->cli.common.workers;
    if (peer < 0) return;
    memmove(workers + peer, workers + peer + 1, (size_t)(--r->cli.common.n_workers - peer) * sizeof *workers);
}

static bool open_recorder(record *r, const char *device, fb_error *err)
{
    if (r->recorder) return true;
    const fb_recorder_options o = {.self = fb_cli_self(),
                                   .n_workers = r->cli.common.n_workers,
                                   .workers = r->cli.common.workers,
                                   .max_autotune = r->max_autotune,
                                   .device = device,
                                   .out = r->out,
                                   .no_metrics = r->no_metrics,
                                   .counters = !r->no_counters,
                                   .spread = r->spread,
                                   .seconds = r->seconds,
                                   .list = r->list,
                                   .compile = r->arch ? compile : NULL,
                                   .machine = r->arch ? &r->machine : NULL,
                                   .file = file_of,
                                   .say = say,
                                   .ctx = r};
    if ((r->recorder = fb_recorder_new(&o, err)) == NULL) return false;
    leave_peer_to_recorder(r);
    r->cli.plan_as = fb_recorder_machine(r->recorder);
    r->cli.plan_as_gpus = true;
    return true;
}

/* "split_stack" of "scripts/puzzlers/split_stack.lua". */
static const char *script_name(const char *path, char to[128])
{
    snprintf(to, 128, "%s", fb_file_name(path));
    char *dot = strrchr(to, '.');
    if (dot) *dot = '\0';
    return to;
}

typedef FB_VEC(const fb_plan *) plan_list;

/* A variant's graph, with the plans that the script brings; without a graph when it could not be built. */
static fb_recorder_variant variant_of(fb_session *s, const char *name, plan_list *plans)
{
    const fb_graph *g = NULL;
    for (int i = 0; i < fb_session_columns(s); i++) {
        const fb_column *c = fb_session_column(s, i);
        if (strcmp(c->variant, name) != 0 || !c->graph) continue;
        g = c->graph;
        if (c->plan && strcmp(c->plan_name, "none") != 0) FB_VEC_PUSH(plans, c->plan);
    }
    return (fb_recorder_variant){.name = name, .graph = g, .n_plans = plans->n, .plans = plans->at};
}

static bool record_variants(record *r, fb_session *s, fb_error *err)
{
    static bool (*const does[])(fb_recorder *, const char *, int, const fb_recorder_variant *, fb_error *) = {
        [STAGE_PLANS] = fb_recorder_plans, [STAGE_TOGGLES] = fb_recorder_toggles, [STAGE_PEERS] = fb_recorder_peers};
    char name[128];
    const fb_script_info *info = fb_session_script(s);
    fb_recorder_variant *v = fb_calloc((size_t)info->n_variants + 1, sizeof *v);
    plan_list *plans = fb_calloc((size_t)info->n_variants + 1, sizeof *plans);
    int n = 0;
    for (int i = 0; i < info->n_variants; i++) {
        v[n] = variant_of(s, info->variants[i], &plans[i]);
        n += v[n].graph != NULL;
    }
    bool ok = does[r->now](r->recorder, script_name(fb_session_path(s), name), n, v, err);
    for (int i = 0; i < info->n_variants; i++) FB_VEC_FREE(&plans[i]);
    fb_free(plans);
    fb_free(v);
    return ok;
}

/* Columns stand for graphs and for the script's own plans; those that fail to build are said. */
static bool add_columns(fb_session *s, int *status)
{
    const fb_script_info *info = fb_session_script(s);
    if (!fb_cli_each_variant(s, "none", status)) return false;
    for (int i = 0; i < info->n_plans; i++)
        if (!fb_cli_each_variant(s, info->plans[i], status)) return false;
    for (int i = 0; i < fb_session_columns(s); i++) fb_cli_plan(s, i, status);
    return true;
}

/* ---- experiments: what a case asks for is measured here, and known to the script's session ---- */

typedef struct {
    record *record;
    char script[128];
} experiment;

static json_t *measure_case(void *ctx, const fb_column *c)
{
    experiment *x = ctx;
    return fb_recorder_case(x->record->recorder, x->script, c->graph, c->plan, c->plan_name, c->device);
}

/* A column that cannot be built comes to its end without being asked about. */
static bool ignore(void *ctx, const fb_report *report, fb_error *err)
{
    (void)ctx, (void)report, (void)err;
    return true;
}

static bool record_experiment(record *r, fb_session *s, fb_error *err)
{
    experiment x = {.record = r};
    script_name(fb_session_path(s), x.script);
    const fb_experiment_hooks hooks = {.ctx = &x, .known = measure_case, .measured = ignore};
    if (!fb_session_script(s)->experiment) return true;
    if (!fb_session_experiment(s, &hooks, err)) return false;
    while (fb_session_busy(s)) fb_session_wait(s, -1);
    const fb_error *why = fb_session_experiment_error(s);
    if (!why->kind) fb_recorder_experiment_done(r->recorder, x.script);
    /* Scripts may reckon with figures that nobody measured just now. */
    return true;
}

/* ---- scripts ---- */

static void list_script(record *r, const char *path, fb_recorder_counts before)
{
    char name[128];
    fb_recorder_counts n = fb_recorder_counted(r->recorder);
    int known = n.known - before.known, left = n.plans + n.toggles - before.plans - before.toggles;
    if (r->now != STAGE_TOGGLES && !known && !left) return;
    fb_table_row(r->listed);
    fb_table_cell(r->listed, script_name(path, name));
    fb_table_cell(r->listed, stage_name[r->now]);
    if (r->now == STAGE_TOGGLES)
        fb_table_cell(r->listed, "");
    else
        fb_table_cellf(r->listed, "%d", known);
    fb_table_cellf(r->listed, "%d", left);
}

/* False when there is no use in going on with other scripts; *gone when there is none in going on with this one. */
static bool record_script(record *r, const char *path, bool *gone, int *status)
{
    fb_error err = {0};
    int own = FB_EXIT_FINE;
    if ((r->list || r->arch) && !open_recorder(r, "", &err)) {
        *status = fb_cli_fail(&err);
        return false;
    }
    fb_session *s = r->session = fb_cli_open(&r->cli, path, &own);
    bool ok = true;
    if (s && fb_cli_case(&r->cli, s, 0, &err) && (r->now == STAGE_EXPERIMENTS || add_columns(s, &own))) {
        ok = open_recorder(r, fb_session_default_device(s), &err);
        fb_recorder_counts before = ok ? fb_recorder_counted(r->recorder) : (fb_recorder_counts){0};
        if (ok) ok = r->now == STAGE_EXPERIMENTS ? record_experiment(r, s, &err) : record_variants(r, s, &err);
        if (ok && r->list) list_script(r, path, before);
    }
    if (err.kind) own = fb_cli_fail(&err);
    if (own) *status = own;
    *gone = !s;
    fb_session_free(s);
    r->session = NULL;
    return ok;
}

/* Lessons show scripts that are recorded as themselves. */
static bool is_lesson(const fb_bundled *b)
{
    return !strcmp(b->kind, "lessons");
}

/* Of the bundled ones puzzlers come first. */
static void record_all(record *r, int *status)
{
    fb_arena *arena = fb_arena_new();
    const fb_bundled *bundled;
    int n_bundled = fb_bundled_list(arena, &bundled), n = r->cli.n_args ? r->cli.n_args : n_bundled;
    bool ok = true, *gone = fb_calloc((size_t)n + 1, sizeof *gone);
    for (r->now = 0; ok && r->now < STAGES; r->now++) {
        if (r->some && !r->only[r->now]) continue;
        for (int i = 0; ok && i < n && !(r->recorder && fb_recorder_over(r->recorder)); i++)
            if (!gone[i] && (r->cli.n_args || !is_lesson(&bundled[i])))
                ok = record_script(r, r->cli.n_args ? r->cli.args[i] : bundled[i].path, &gone[i], status);
    }
    fb_free(gone);
    fb_arena_free(arena);
}

/* ---- compiling with all cores: a process a script ---- */

typedef FB_VEC(const char *) words;

static void add_pair(words *w, const char *option, const char *value)
{
    if (!value) return;
    FB_VEC_PUSH(w, option);
    FB_VEC_PUSH(w, value);
}

static pid_t compile_apart(const record *r, const char *path)
{
    words w = {0};
    FB_VEC_PUSH(&w, fb_cli_self());
    FB_VEC_PUSH(&w, "record");
    FB_VEC_PUSH(&w, path);
    add_pair(&w, "--compile", r->arch);
    add_pair(&w, "--out", r->out);
    for (int i = 0; i < r->cli.common.n_workers; i++) add_pair(&w, "--worker", r->cli.common.workers[i]);
    for (int i = 0; i < STAGES; i++)
        if (r->only[i]) add_pair(&w, "--only", stage_name[i]);
    FB_VEC_PUSH(&w, NULL);
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        execv(fb_cli_self(), (char *const *)(uintptr_t)w.at);
        _exit(127);
    }
    FB_VEC_FREE(&w);
    return pid;
}

/* Waits for one; false: there is none. */
static bool reap(int *status)
{
    int how;
    pid_t pid;
    while ((pid = wait(&how)) < 0 && errno == EINTR) continue;
    if (pid > 0 && (!WIFEXITED(how) || WEXITSTATUS(how))) *status = WIFEXITED(how) ? WEXITSTATUS(how) : FB_EXIT_WRONG;
    return pid > 0;
}

static int compile_all(const record *r)
{
    fb_arena *arena = fb_arena_new();
    const fb_bundled *bundled;
    int n_bundled = fb_bundled_list(arena, &bundled), n = r->cli.n_args ? r->cli.n_args : n_bundled;
    int status = FB_EXIT_FINE, running = 0;
    for (int i = 0; i < n; i++) {
        if (!r->cli.n_args && is_lesson(&bundled[i])) continue;
        if (running == r->jobs) running -= reap(&status);
        if (compile_apart(r, r->cli.n_args ? r->cli.args[i] : bundled[i].path) > 0)
            running++;
        else
            status = FB_EXIT_WRONG;
    }
    while (running-- > 0) reap(&status);
    fb_arena_free(arena);
    return status;
}

static void print_counts(record *r)
{
    fb_recorder_counts n = fb_recorder_counted(r->recorder);
    fb_put(stdout, r->arch ? r->arch : fb_recorder_path(r->recorder));
    printf(": %d plans and %d toggles %s, %d plans known before, %d new kernels, %d failed", n.plans, n.toggles,
           r->arch ? "compiled" : "measured", n.known, n.kernels, n.failed);
    if (n.disturbed) printf(", %d disturbed and left out", n.disturbed);
    if (fb_recorder_over(r->recorder)) printf("; the time is over, and the next run goes on from here");
    putchar('\n');
}

static int record_main(const fb_command *me, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"out", 'o', "FILE.json.gz", 0,
         "The recording, gone on with where it exists (default: the device's name, such as h200.json.gz); without .gz "
         "it is plain, and keeps no timelines",
         0},
        {"for", KEY_FOR, "SECONDS", 0, "Begin nothing after this long; the next run with the same file goes on", 0},
        {"only", KEY_ONLY, "WHAT", 0,
         "plans, toggles, peers (a framework's plans) or experiments, and no more; may be given several times", 0},
        {"spread", KEY_SPREAD, "RATIO", 0,
         "A column is disturbed where its p90 is more than this times its p10, and measured again (default: 2)", 0},
        {"list", KEY_LIST, NULL, 0, "Measure nothing: what is in --out, and what is to be done", 0},
        {"compile", KEY_COMPILE, "ARCH", 0,
         "Measure nothing: compile what would be measured, such as for sm_90, into the cache; needs no GPU. What a "
         "--worker for PyTorch would compile it compiles too, where it runs",
         0},
        {"jobs", KEY_JOBS, "N", 0, "With --compile: so many scripts at once", 0},
        {"no-counters", KEY_NO_COUNTERS, NULL, 0, "Times only, no measured traffic", 0},
        {"no-metrics", KEY_NO_METRICS, NULL, 0, "Timelines without the device's metrics over time", 0},
        {"max-autotune", KEY_MAX_AUTOTUNE, NULL, 0,
         "With a --worker for PyTorch, whose plans are recorded too: also this one, half a minute a graph", 0},
        {0},
    };
    record r = {.cli = {.least = 0, .most = -1, .own = own_key, .ctx = &r}};
    int status = FB_EXIT_FINE;
    fb_error err = {0};
    fb_cli_parse(&r.cli, me, options, argc, argv);
    if (fb_cli_cases(&r.cli) > 1) fb_cli_usage("%s: --set takes one value here", argv[0]);
    if (r.jobs && !r.arch) fb_cli_usage("%s: --jobs goes with --compile: what is measured is measured alone", argv[0]);
    if (r.jobs > 1) {
        status = compile_all(&r);
        fb_cli_free(&r.cli);
        return status;
    }
    if (r.list) {
        r.listed = fb_table_new();
        fb_table_column(r.listed, "script", "", true);
        fb_table_column(r.listed, "what", "", true);
        fb_table_column(r.listed, "done", "", false);
        fb_table_column(r.listed, "to do", "", false);
    }
    record_all(&r, &status);
    if (r.recorder && !fb_recorder_finish(r.recorder, &err)) status = fb_cli_fail(&err);
    if (r.list)
        fb_table_print(r.listed, FB_FORMAT_TABLE, stdout);
    else if (r.recorder)
        print_counts(&r);
    if (r.recorder && !r.list && !status) {
        fb_recorder_counts n = fb_recorder_counted(r.recorder);
        if (n.failed || n.disturbed) status = FB_EXIT_WRONG;
    }
    if (r.listed) fb_table_free(r.listed);
    fb_recorder_free(r.recorder);
    fb_cli_free(&r.cli);
    return status;
}

const fb_command fb_command_record = {.name = "record",
                                      .args = "[SCRIPT]…",
                                      .summary = "Measure scripts for machines without this GPU, into one file",
                                      .run = record_main};
