/* fusebox fuzz: random graphs under random plans against the reference. */
#include "tui/cli/cli.h"

#include "base/clock.h"
#include "base/str.h"
#include "tui/show/table.h"
#include "worker/fuzz.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_COUNT = 256,
    KEY_SEED,
    KEY_PLANS,
    KEY_PLAN,
    KEY_TIME,
    KEY_OUT,
    KEY_JOBS,
    KEY_MOST,
    KEY_TRIALS,
    KEY_COVERAGE
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

static uint64_t number_of(const char *option, const char *arg, uint64_t most)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(arg, &end, 10);
    if (arg[0] < '0' || arg[0] > '9' || *end || errno || n > most)
        fb_cli_usage("fuzz: %s %s: a whole number is needed", option, arg);
    return n;
}

/* What --coverage asks for, beside the rest. */
static fb_str coverage;

static int fuzz_key(void *ctx, int key, char *arg, struct argp_state *state)
{
    (void)state;
    fb_fuzz_options *o = ctx;
    switch (key) {
    case KEY_COUNT: o->count = (int64_t)number_of("--count", arg, INT64_MAX / 2); return 0;
    case KEY_SEED: o->seed = number_of("--seed", arg, UINT64_MAX); return 0;
    case KEY_PLANS: o->plans = (int)number_of("--plans", arg, 1000); return 0;
    case KEY_PLAN: o->only = (int)number_of("--plan", arg, 1000); return 0;
    case KEY_TIME: o->limit_s = (double)number_of("--time", arg, 1000000); return 0;
    case KEY_OUT: o->out = arg; return 0;
    case KEY_JOBS: o->jobs = (int)number_of("--jobs", arg, 64); return 0;
    case KEY_MOST: o->most = (int)number_of("--most", arg, 1000); return 0;
    case KEY_TRIALS: o->trials = (int)number_of("--trials", arg, 100000); return 0;
    case KEY_COVERAGE: o->coverage = &coverage; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"seed", KEY_SEED, "S", 0, "Seed of the first graph; graph i has seed S + i (default: a new one, which is printed)",
     0},
    {"count", KEY_COUNT, "N", 0, "Graphs (default: 1000)", 0},
    {"plans", KEY_PLANS, "P", 0, "Plans of each graph (default: 5)", 0},
    {"plan", KEY_PLAN, "K", 0, "Only plan number K of each graph", 0},
    {"time", KEY_TIME, "SECONDS", 0, "Stop after that long", 0},
    {"jobs", KEY_JOBS, "N", 0, "Processes side by side (default: one a core)", 0},
    {"out", KEY_OUT, "DIR", 0, "Where failing cases are written (default: fuzz)", 0},
    {"most", KEY_MOST, "N", 0, "Stop after N findings (default: 5)", 0},
    {"trials", KEY_TRIALS, "N", 0, "Runs to make a failing case small (default: 400; 0: leave it)", 0},
    {"coverage", KEY_COVERAGE, NULL, 0,
     "Also a table of the rules, verdicts and pairs of family and op that plans came by, those of which there was none "
     "first",
     0},
    {0},
};

static bool on_progress(void *ctx, const fb_fuzz_totals *t)
{
    double *last = ctx, now = fb_now_us() * 1e-6, each = isatty(STDERR_FILENO) ? 0.2 : 30;
    if (now - *last > each) {
        *last = now;
        fprintf(stderr, "%s%lld graphs, %lld plans, %.0f a second, %d findings%s",
                isatty(STDERR_FILENO) ? "\r" : "fusebox: fuzz: ", (long long)t->graphs, (long long)t->plans,
                t->seconds > 0 ? (double)t->plans / t->seconds : 0, t->findings, isatty(STDERR_FILENO) ? "  " : "\n");
    }
    return !interrupted;
}

static void on_finding(void *ctx, const fb_fuzz_finding *f, const char *command)
{
    (void)ctx;
    fb_str line = {0};
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%*s\r", 70, "");
    fb_str_addf(&line, "✗ seed %llu", (unsigned long long)f->seed);
    if (f->plan != FB_NONE) fb_str_addf(&line, " plan %d", f->plan);
    fb_str_addf(&line, " %s: %s\n", fb_fuzz_kind_name(f->kind), f->text);
    if (command[0]) fb_str_addf(&line, "  %s\n", command);
    fb_put(stdout, line.text);
    fflush(stdout);
    fb_str_free(&line);
}

static uint64_t fresh_seed(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return ((uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000) % 1000000000 * 1000;
}

static double percent(int64_t part, int64_t all)
{
    return all ? 100.0 * (double)part / (double)all : 0;
}

static int fuzz_main(const fb_command *me, int argc, char **argv)
{
    double last = 0;
    fb_fuzz_options o = {.seed = fresh_seed(),
                         .count = 1000,
                         .plans = 5,
                         .only = FB_NONE,
                         .most = 5,
                         .trials = 400,
                         .out = "fuzz",
                         .progress = on_progress,
                         .finding = on_finding,
                         .ctx = &last};
    fb_cli cli = {.own = fuzz_key, .ctx = &o};
    fb_cli_parse(&cli, me, options, argc, argv);
    if (cli.common.n_workers || cli.common.set) fb_cli_usage("fuzz: --worker and --set mean nothing here");
    o.device = cli.common.device ? cli.common.device : fb_target_everywhere()->device;
    if (o.only != FB_NONE && o.plans <= o.only) o.plans = o.only + 1;
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    fb_fuzz_totals t;
    fb_error err = {0};
    bool ok = fb_worker_fuzz(&o, &t, &err);
    fb_cli_free(&cli);
    if (!ok) return fb_cli_fail(&err);
    fb_str line = {0};
    fb_str_addf(
        &line,
        "%s %s, seed %llu: %lld graphs, %lld plans (%lld refused), %d findings; %lld elements compared, %.2f %% "
        "undecided (%.2f %% by their kernels too); %lld kernels on what they were given, %.2f %% undecided; %.1f s, "
        "%.1f plans a second\n",
        t.findings    ? "✗"
        : interrupted ? "stopped:"
                      : "✓",
        o.device, (unsigned long long)o.seed, (long long)t.graphs, (long long)t.plans, (long long)t.refused, t.findings,
        (long long)t.elements, percent(t.undecided, t.elements), percent(t.open, t.elements), (long long)t.kernels,
        percent(t.kernel_undecided, t.kernel_elements), t.seconds, t.seconds > 0 ? (double)t.plans / t.seconds : 0);
    for (int i = 0; i < FB_FUZZ_HAZY && t.hazy.at[i].undecided; i++)
        fb_str_addf(&line, "%s seed %llu %.2f %% of all elements",
                    i ? "," : "  undecided most:", (unsigned long long)t.hazy.at[i].seed,
                    percent(t.hazy.at[i].undecided, t.elements));
    if (t.undecided) fb_str_add(&line, "\n");
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%*s\r", 70, "");
    fb_put(stdout, line.text);
    if (o.coverage) fb_put(stdout, fb_str_get(o.coverage));
    fb_str_free(&line);
    fb_str_free(&coverage);
    return t.findings ? FB_EXIT_WRONG : FB_EXIT_FINE;
}

const fb_command fb_command_fuzz = {
    .name = "fuzz", .args = "", .summary = "Random graphs × random plans against the reference", .run = fuzz_main};
