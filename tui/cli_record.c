/* fusebox record: measures scripts for machines that do not have this one's GPU. */
#include "tui/cli.h"

#include "config.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "session/library.h"
#include "session/recorder.h"
#include "tui/cli_emit.h"
#include "tui/cli_table.h"
#ifdef FB_HAVE_CUDA
#include "device/cuda_compile.h"
#endif

#include <string.h>
#include <unistd.h>

typedef struct {
    fb_cli cli;
    const char *out, *arch; /* arch: compile for it alone */
    fb_machine machine;     /* then: what plans are made for */
    bool no_counters, max_autotune;
    fb_recorder *recorder; /* opened with the first script that loads */
} record;

enum { KEY_NO_COUNTERS = 256, KEY_COMPILE, KEY_MAX_AUTOTUNE };

static int own_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    record *r = ctx;
    fb_error err = {0};
    switch (key) {
    case 'o': r->out = arg; return 0;
    case KEY_COMPILE:
        r->arch = arg;
        if (!fb_cli_emit_machine(arg, &r->machine, &err)) fb_cli_usage("%s: %s", state->name, err.text);
        r->cli.plan_as = &r->machine;
        return 0;
    case KEY_NO_COUNTERS: r->no_counters = true; return 0;
    case KEY_MAX_AUTOTUNE: r->max_autotune = true; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void say(void *ctx, const char *line)
{
    (void)ctx;
    fb_cli_say("%s", line);
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

static bool open_recorder(record *r, fb_session *s, fb_error *err)
{
    const char *device = fb_session_default_device(s);
    if (r->recorder) return true;
    const fb_recorder_options o = {.self = fb_cli_self(),
                                   .n_workers = r->cli.common.n_workers,
                                   .workers = r->cli.common.workers,
                                   .max_autotune = r->max_autotune,
                                   .device = device,
                                   .out = r->out,
                                   .counters = !r->no_counters,
                                   .compile = r->arch ? compile : NULL,
                                   .machine = &r->machine,
                                   .say = say,
                                   .ctx = r};
    if ((r->recorder = fb_recorder_new(&o, err)) == NULL) return false;
    leave_peer_to_recorder(r);
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

/* A variant's graph, with the plans that the script brings. */
static bool record_variant(record *r, fb_session *s, int v, fb_error *err)
{
    char name[128];
    const fb_script_info *info = fb_session_script(s);
    const fb_graph *g = NULL;
    FB_VEC(const fb_plan *) plans = {0};
    for (int i = 0; i < fb_session_columns(s); i++) {
        const fb_column *c = fb_session_column(s, i);
        if (strcmp(c->variant, info->variants[v]) != 0 || !c->graph) continue;
        g = c->graph;
        if (c->plan && strcmp(c->plan_name, "none") != 0) FB_VEC_PUSH(&plans, c->plan);
    }
    bool ok = !g || fb_recorder_graph(r->recorder, script_name(fb_session_path(s), name), info->variants[v], g, plans.n,
                                      plans.at, err);
    FB_VEC_FREE(&plans);
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

/* False when there is no use in going on with other scripts. */
static bool record_script(record *r, const char *path, int *status)
{
    fb_error err = {0};
    int own = FB_EXIT_FINE;
    fb_session *s = fb_cli_open(&r->cli, path, &own);
    bool ok = true;
    if (s && fb_cli_case(&r->cli, s, 0, &err) && add_columns(s, &own)) {
        ok = open_recorder(r, s, &err);
        for (int v = 0; ok && v < fb_session_script(s)->n_variants; v++) ok = record_variant(r, s, v, &err);
    }
    if (err.kind) own = fb_cli_fail(&err);
    if (own) *status = own;
    fb_session_free(s);
    return ok;
}

static void record_all(record *r, int *status)
{
    fb_arena *arena = fb_arena_new();
    const fb_bundled *bundled;
    int n_bundled = fb_bundled_list(arena, &bundled), n = r->cli.n_args ? r->cli.n_args : n_bundled;
    for (int i = 0; i < n; i++)
        if (!record_script(r, r->cli.n_args ? r->cli.args[i] : bundled[i].path, status)) break;
    fb_arena_free(arena);
}

static int record_main(const fb_command *me, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"out", 'o', "FILE.json", 0,
         "The recording, gone on with where it exists (default: the device's name, such as h200.json)", 0},
        {"compile", KEY_COMPILE, "ARCH", 0,
         "Measure nothing: compile what would be measured, such as for sm_90, into the cache; needs no GPU", 0},
        {"no-counters", KEY_NO_COUNTERS, NULL, 0, "Times only, no measured traffic", 0},
        {"max-autotune", KEY_MAX_AUTOTUNE, NULL, 0,
         "With a --worker for PyTorch, whose plans are recorded too: also this one, half a minute a graph", 0},
        {0},
    };
    record r = {.cli = {.least = 0, .most = -1, .own = own_key, .ctx = &r}};
    int status = FB_EXIT_FINE;
    fb_error err = {0};
    fb_cli_parse(&r.cli, me, options, argc, argv);
    if (fb_cli_cases(&r.cli) > 1) fb_cli_usage("%s: --set takes one value here", argv[0]);
    record_all(&r, &status);
    if (r.recorder) {
        fb_recorder_counts n = fb_recorder_counted(r.recorder);
        if (!fb_recorder_finish(r.recorder, &err)) status = fb_cli_fail(&err);
        fb_put(stdout, r.arch ? r.arch : fb_recorder_path(r.recorder));
        printf(": %d plans and %d toggles %s, %d plans known before, %d new kernels, %d failed\n", n.plans, n.toggles,
               r.arch ? "compiled" : "measured", n.known, n.kernels, n.failed);
        if (n.failed && !status) status = FB_EXIT_WRONG;
    }
    fb_recorder_free(r.recorder);
    fb_cli_free(&r.cli);
    return status;
}

const fb_command fb_command_record = {.name = "record",
                                      .args = "[SCRIPT]…",
                                      .summary = "Measure scripts for machines without this GPU, into one file",
                                      .run = record_main};
