/* Runs fuzzing in processes and watches them: limits, findings, their confirmation and shrinking. Needs
 * measure/fuzz.h for what one round does. */
#include "worker/fuzz.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/str.h"
#include "base/vec.h"
#include "graph/graph_json.h"
#include "target/target.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AT_ONCE = 16, MAX_JOBS = 64, TRIAL_LIMIT_S = 240, POLL_NS = 20000000, GRACE_S = 15 };

/* How long a phase may last, s. */
static const int limit_s[] = {
    [FB_FUZZ_IDLE] = 60, [FB_FUZZ_MAKING] = 120, [FB_FUZZ_COMPUTING] = 240, [FB_FUZZ_RUNNING] = 900};

/* Shared by all processes of a run. */
typedef struct {
    _Atomic int64_t next; /* graph */
    _Atomic bool stop;
    fb_error error; /* of a device that cannot be opened */
    _Atomic bool failed;
    fb_fuzz_result trial;
    fb_fuzz_coverage coverage;
    struct {
        fb_fuzz_board board;
        _Atomic int64_t first, count; /* the round under way */
    } job[MAX_JOBS];
} shared;

typedef struct {
    uint64_t seed;
    int plan; /* FB_NONE: not known which */
    fb_fuzz_kind kind;
    char text[400];
} suspect;

typedef struct {
    const fb_fuzz_options *o;
    shared *s;
    char cache[64];
    int jobs;
    pid_t pid[MAX_JOBS];
    int taken[MAX_JOBS]; /* findings taken from the board */
    int alive;           /* jobs */
    fb_fuzz_totals done; /* of boards that were cleared */
    fb_fuzz_totals *totals;
    FB_VEC(suspect) suspects;
    double start_us;
    fb_machine machine;
} state;

/* ---- the processes ---- */

static void empty_cache(const char *sub)
{
    char path[2200];
    if (fb_cache_dir(sub, path, sizeof path, NULL)) fb_cache_empty(path);
}

/* A process of its own: with a cache that does not disturb the user's, and a few threads, whatever there are cores. */
static void become_child(const state *st, int job)
{
    char path[128];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN);
    snprintf(path, sizeof path, "%s/%d", st->cache, job);
    mkdir(path, 0700);
    setenv("XDG_CACHE_HOME", path, 1);
    setenv("OMP_NUM_THREADS", "3", 0);
    setenv("OMP_WAIT_POLICY", "passive", 0);
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
}

static fb_device *open_device(const state *st)
{
    fb_error err = {0};
    fb_device *d = fb_device_open(st->o->device, &err);
    if (!d) {
        st->s->error = err;
        st->s->failed = true;
    }
    return d;
}

static _Noreturn void job_main(const state *st, int job)
{
    const fb_fuzz_options *o = st->o;
    become_child(st, job);
    fb_device *d = open_device(st);
    while (d && !st->s->stop) {
        int64_t first = atomic_fetch_add(&st->s->next, AT_ONCE), count = o->count - first;
        if (count <= 0) break;
        if (count > AT_ONCE) count = AT_ONCE;
        st->s->job[job].first = first;
        st->s->job[job].count = count;
        fb_fuzz_round(d, o->seed + (uint64_t)first, (int)count, o->plans, o->only, &st->s->job[job].board);
        for (int i = 0; fb_target_written(i); i++) empty_cache(fb_target_written(i)->device);
    }
    _exit(d ? 0 : 1);
}

static bool start_job(state *st, int job)
{
    fflush(NULL);
    if (st->o->coverage) st->s->job[job].board.coverage = &st->s->coverage;
    st->pid[job] = fork();
    if (st->pid[job] == 0) job_main(st, job);
    return st->pid[job] > 0;
}

/* ---- the jobs, looked after ---- */

static void take_findings(state *st, int job)
{
    const fb_fuzz_board *b = &st->s->job[job].board;
    for (int n = b->n_findings; st->taken[job] < n; st->taken[job]++) {
        const fb_fuzz_finding *f = &b->finding[st->taken[job]];
        suspect s = {.seed = f->seed, .plan = f->plan, .kind = f->kind};
        snprintf(s.text, sizeof s.text, "%s", f->text);
        FB_VEC_PUSH(&st->suspects, s);
    }
}

static void add_board(fb_fuzz_totals *t, const fb_fuzz_board *b)
{
    t->graphs += b->graphs, t->plans += b->plans, t->refused += b->refused;
    t->elements += b->elements, t->undecided += b->undecided, t->open += b->open;
    t->kernels += b->kernels, t->kernel_elements += b->kernel_elements, t->kernel_undecided += b->kernel_undecided;
    for (int i = 0; i < FB_FUZZ_HAZY; i++) fb_fuzz_hazy_add(&t->hazy, b->hazy.at[i].seed, b->hazy.at[i].undecided);
}

static double seconds(const state *st)
{
    return (fb_now_us() - st->start_us) * 1e-6;
}

static void add_up(state *st)
{
    fb_fuzz_totals t = st->done;
    for (int j = 0; j < st->jobs; j++) add_board(&t, &st->s->job[j].board);
    t.findings = st->totals->findings;
    t.seconds = seconds(st);
    *st->totals = t;
}

/* A board is cleared when its process is no more, and the totals keep what was on it. */
static void clear_board(state *st, int job)
{
    fb_fuzz_board *b = &st->s->job[job].board;
    add_board(&st->done, b);
    memset(b, 0, sizeof *b);
    st->taken[job] = 0;
}

/* All that its round held is under suspicion; while plans were made, the one that was. */
static void suspect_round(state *st, int job, fb_fuzz_kind kind)
{
    const fb_fuzz_board *b = &st->s->job[job].board;
    if (b->phase == FB_FUZZ_MAKING || b->phase == FB_FUZZ_COMPUTING) {
        suspect s = {.seed = b->seed, .plan = b->plan, .kind = kind};
        FB_VEC_PUSH(&st->suspects, s);
    }
    if (b->phase == FB_FUZZ_IDLE) return;
    for (int64_t i = 0; i < st->s->job[job].count; i++) {
        suspect s = {.seed = st->o->seed + (uint64_t)(st->s->job[job].first + i), .plan = FB_NONE, .kind = kind};
        if (b->phase == FB_FUZZ_RUNNING || s.seed != b->seed) FB_VEC_PUSH(&st->suspects, s);
    }
}

static bool job_ended(state *st, int job)
{
    int status;
    const fb_fuzz_board *b = &st->s->job[job].board;
    bool hung = false;
    pid_t got = waitpid(st->pid[job], &status, WNOHANG);
    if (got == 0) {
        hung = b->since_ns && fb_now_ns() - b->since_ns > limit_s[b->phase] * 1000000000ll;
        if (!hung) return false;
        kill(st->pid[job], SIGKILL);
        waitpid(st->pid[job], &status, 0);
    }
    take_findings(st, job);
    st->pid[job] = 0;
    bool fine = !hung && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!fine && !st->s->failed) suspect_round(st, job, hung ? FB_FUZZ_HUNG : FB_FUZZ_CRASHED);
    clear_board(st, job);
    if (!fine && !st->s->failed && !st->s->stop) start_job(st, job);
    return st->pid[job] == 0;
}

static bool enough(const state *st)
{
    return st->totals->findings >= st->o->most;
}

static void end_jobs(state *st)
{
    for (int j = 0; j < st->jobs; j++)
        if (st->pid[j] > 0) kill(st->pid[j], SIGKILL); /* all at once: each may take seconds to go */
    for (int j = 0; j < st->jobs; j++) {
        if (st->pid[j] <= 0) continue;
        waitpid(st->pid[j], NULL, 0);
        take_findings(st, j);
        st->pid[j] = 0;
    }
}

static bool should_end(const state *st)
{
    const fb_fuzz_options *o = st->o;
    return (o->limit_s > 0 && seconds(st) > o->limit_s) || enough(st);
}

/* After the time that was asked for, and some for rounds to end in (one may take minutes): nothing more is run. */
static bool is_late(const state *st)
{
    return st->o->limit_s > 0 && seconds(st) > st->o->limit_s + GRACE_S;
}

/* Takes what jobs found, starts those again that died; false: the user has had enough. How many go on is left in
 * `alive`. Called while a case is tried on its own too, which may take minutes. */
static bool tend(state *st)
{
    st->alive = 0;
    for (int j = 0; j < st->jobs; j++) {
        if (st->pid[j] > 0) take_findings(st, j);
        st->alive += st->pid[j] > 0 && !job_ended(st, j);
    }
    add_up(st);
    if (should_end(st)) st->s->stop = true;
    if (is_late(st)) end_jobs(st);
    return st->o->progress(st->o->ctx, st->totals);
}

/* ---- trials: one case in a process of its own ---- */

typedef struct {
    const fb_graph *g;
    const json_t *plan;
    uint64_t seed; /* for its machine; without a graph: the case of this seed and number … */
    int number;
    bool only_make; /* … which is made and not run */
    uint64_t first; /* … or among `count` graphs from this seed on, all plans of each */
    int count;
} trial_case;

static void run_given(fb_device *d, const trial_case *t, fb_fuzz_result *out)
{
    fb_error err;
    fb_fuzz_reference *in = fb_fuzz_reference_new(t->g, &err);
    fb_machine m = fb_fuzz_machine(d->ops->machine(d), t->seed);
    fb_planner *p = fb_planner_new(t->g, &m);
    fb_plan *plan = fb_plan_from_json(p, t->plan, true, NULL, &err);
    if (!in || !plan) return;
    out->kind = fb_fuzz_second_opinion(in, out->text) ? FB_FUZZ_FINE : FB_FUZZ_APART;
    if (out->kind != FB_FUZZ_FINE) return;
    for (int lightly = 0; lightly < 2 && out->kind == FB_FUZZ_FINE; lightly++) {
        fb_fuzz_case c = {.plan = plan, .reference = in, .lightly = lightly};
        fb_fuzz_run(d, &c, 1);
        *out = c.result;
    }
}

static json_t *make_case(const state *st, uint64_t seed, int number, fb_graph **g)
{
    fb_error err;
    *g = fb_fuzz_graph_of(seed, number, &err);
    fb_machine m = fb_fuzz_machine(&st->machine, seed);
    fb_planner *p = *g ? fb_planner_new(*g, &m) : NULL;
    fb_plan *plan = p ? fb_fuzz_plan(p, seed, number) : NULL;
    json_t *json = plan ? fb_plan_to_json(plan) : NULL;
    fb_plan_free(plan);
    fb_planner_free(p);
    return json;
}

static void trial_make(const state *st, const trial_case *t)
{
    fb_graph *g;
    json_decref(make_case(st, t->seed, t->number, &g));
}

/* Where the last words of a trial go. */
static void said_path(const state *st, char to[128])
{
    snprintf(to, 128, "%s/said", st->cache);
}

/* The round of a case once more: what became of the case? */
static void run_round(const state *st, fb_device *d, const trial_case *t, fb_fuzz_result *out)
{
    fb_fuzz_board *board = fb_calloc(1, sizeof *board);
    fb_fuzz_round(d, t->first, t->count, st->o->plans, st->o->only, board);
    for (int i = 0; i < board->n_findings; i++)
        if (board->finding[i].seed == t->seed && board->finding[i].plan == t->number)
            out->kind = board->finding[i].kind;
}

static _Noreturn void trial_main(const state *st, const trial_case *t)
{
    become_child(st, MAX_JOBS);
    char path[128];
    said_path(st, path);
    bool quiet = freopen(path, "w", stderr) != NULL;
    fb_device *d = open_device(st);
    if (!d || !quiet) _exit(1);
    if (t->only_make) {
        trial_make(st, t);
    } else if (t->g) {
        run_given(d, t, &st->s->trial);
    } else if (t->count) {
        run_round(st, d, t, &st->s->trial);
    } else {
        fb_fuzz_board *board = fb_calloc(1, sizeof *board);
        fb_fuzz_round(d, t->seed, 1, t->number + 1, t->number, board);
        if (board->n_findings) {
            st->s->trial.kind = board->finding[0].kind;
            snprintf(st->s->trial.text, sizeof st->s->trial.text, "%s", board->finding[0].text);
        }
    }
    _exit(0);
}

static void died(const state *st, fb_fuzz_result *r, int status)
{
    char path[128];
    size_t n;
    said_path(st, path);
    char *said = fb_read_file(path, 1 << 20, &n, NULL);
    r->kind = FB_FUZZ_CRASHED;
    if (said && n) {
        fb_text_clean(r->text, sizeof r->text, said, strcspn(said, "\n"));
        fb_free(said);
        return;
    }
    fb_free(said);
    if (WIFSIGNALED(status))
        snprintf(r->text, sizeof r->text, "ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(r->text, sizeof r->text, "ended with status %d", WEXITSTATUS(status));
}

static void pause_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = POLL_NS / 10}, NULL);
}

static fb_fuzz_result run_trial(state *st, const trial_case *t)
{
    memset(&st->s->trial, 0, sizeof st->s->trial);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) trial_main(st, t);
    int status = 0;
    int64_t end = fb_now_ns() + TRIAL_LIMIT_S * 1000000000ll;
    bool over = pid < 0, unwanted = false;
    while (!over && waitpid(pid, &status, WNOHANG) == 0) {
        unwanted = !tend(st) || is_late(st);
        over = unwanted || fb_now_ns() > end;
        pause_a_little();
    }
    fb_fuzz_result r = st->s->trial;
    if (over && pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        r.kind = unwanted ? FB_FUZZ_FINE : FB_FUZZ_HUNG;
        snprintf(r.text, sizeof r.text, "not done after %d s", TRIAL_LIMIT_S);
    } else if (pid > 0 && status != 0) {
        died(st, &r, status);
    }
    return r;
}

/* ---- findings ---- */

typedef struct {
    state *st;
    fb_fuzz_kind kind;
    uint64_t seed;
    char text[400]; /* of the smallest so far */
} shrink_ctx;

static bool still_fails(void *ctx, const fb_graph *g, const json_t *plan)
{
    shrink_ctx *s = ctx;
    fb_fuzz_result r = run_trial(s->st, &(trial_case){.g = g, .plan = plan, .seed = s->seed});
    if (r.kind != s->kind) return false;
    snprintf(s->text, sizeof s->text, "%s", r.text);
    return true;
}

static bool write_case(const state *st, const fb_graph *g, const json_t *plan, const suspect *s, fb_str *command)
{
    char path[2][1024];
    fb_error err;
    fb_str text = {0};
    fb_make_folder(st->o->out, NULL);
    for (int i = 0; i < 2; i++)
        snprintf(path[i], sizeof path[i], "%s/%llu-%d.%s.json", st->o->out, (unsigned long long)s->seed, s->plan,
                 i ? "plan" : "graph");
    fb_graph_write_json(g, &text);
    bool ok = fb_write_file(path[0], fb_str_get(&text), text.n, &err);
    fb_str_free(&text);
    char *dumped = json_dumps(plan, JSON_INDENT(1));
    ok = ok && dumped && fb_write_file(path[1], dumped, strlen(dumped), &err);
    free(dumped);
    if (ok) fb_str_addf(command, "fusebox run %s %s@%s", path[0], path[1], st->o->device);
    return ok;
}

/* Makes the case small and writes it; `command` is how to see it again. */
static void keep(state *st, suspect *s, fb_str *command)
{
    fb_graph *g = NULL;
    json_t *json = NULL;
    fb_fuzz_result made = run_trial(st, &(trial_case){.seed = s->seed, .number = s->plan, .only_make = true});
    if (made.kind == FB_FUZZ_FINE) json = make_case(st, s->seed, s->plan, &g);
    shrink_ctx ctx = {.st = st, .kind = s->kind, .seed = s->seed};
    fb_machine m = fb_fuzz_machine(&st->machine, s->seed);
    if (json && st->o->trials && still_fails(&ctx, g, json)) {
        fb_fuzz_shrink(&g, &json, &m, st->o->trials, still_fails, &ctx);
        snprintf(s->text, sizeof s->text, "%s", ctx.text);
        write_case(st, g, json, s, command);
    } else if (json && st->o->trials) {
        fb_str unused = {0}; /* as it is, to be looked at: its seed is how to see it fail */
        write_case(st, g, json, s, &unused);
        fb_str_free(&unused);
    }
    json_decref(json);
    if (g) fb_graph_free(g);
    if (!command->n)
        fb_str_addf(command, "fusebox fuzz --device %s --seed %llu --count 1 --plan %d", st->o->device,
                    (unsigned long long)s->seed, s->plan);
}

static void tell(state *st, suspect *s, bool confirmed)
{
    fb_str command = {0};
    fb_fuzz_finding f = {.seed = s->seed, .plan = s->plan, .kind = s->kind};
    if (confirmed && s->plan != FB_NONE) keep(st, s, &command);
    snprintf(f.text, sizeof f.text, "%s", s->text);
    st->totals->findings++;
    st->o->finding(st->o->ctx, &f, fb_str_get(&command));
    fb_str_free(&command);
}

/* What was right alone: whether its round gives it again, and which that is. */
static void say_round(state *st, suspect *s)
{
    enum { AGAIN = 3 };
    fb_str text = {0};
    int again = 0;
    int64_t first = (int64_t)(s->seed - st->o->seed) / AT_ONCE * AT_ONCE, left = st->o->count - first;
    trial_case round = {.seed = s->seed, .number = s->plan, .first = st->o->seed + (uint64_t)first};
    round.count = left < AT_ONCE ? (int)left : AT_ONCE;
    for (int i = 0; i < AGAIN; i++) again += run_trial(st, &round).kind == s->kind;
    fb_str_addf(&text, "not alone, and %d of %d times again among graphs %llu to %llu: %s", again, AGAIN,
                (unsigned long long)round.first, (unsigned long long)round.first + (uint64_t)round.count - 1, s->text);
    snprintf(s->text, sizeof s->text, "%.399s", fb_str_get(&text));
    fb_str_free(&text);
}

/* A suspect that there is no time left for is told as it is. */
static void tell_untried(state *st, suspect *s)
{
    fb_str text = {0};
    fb_str_addf(&text, "%s, and not tried alone, for the time was over",
                s->text[0] ? s->text : "in a round that did not end well");
    snprintf(s->text, sizeof s->text, "%.399s", fb_str_get(&text));
    fb_str_free(&text);
    tell(st, s, false);
}

/* A case that looked wrong among others, or one of a round that did not end well, on its own. */
static void confirm(state *st, suspect *s)
{
    if (enough(st)) return;
    if (is_late(st)) {
        tell_untried(st, s);
        return;
    }
    int first = s->plan == FB_NONE ? 0 : s->plan, last = s->plan == FB_NONE ? st->o->plans - 1 : s->plan;
    if (s->plan == FB_NONE && st->o->only != FB_NONE) first = last = st->o->only;
    for (int k = first; k <= last; k++) {
        fb_fuzz_result r = run_trial(st, &(trial_case){.seed = s->seed, .number = k});
        if (is_late(st) && r.kind <= FB_FUZZ_REFUSED) {
            tell_untried(st, s);
            return;
        }
        if (r.kind <= FB_FUZZ_REFUSED) continue;
        suspect one = {.seed = s->seed, .plan = k, .kind = r.kind};
        snprintf(one.text, sizeof one.text, "%s", r.text);
        tell(st, &one, true);
        if (s->plan == FB_NONE) s->kind = FB_FUZZ_FINE; /* found */
        return;
    }
    if (s->kind != FB_FUZZ_WRONG && s->kind != FB_FUZZ_APART) return;
    say_round(st, s);
    tell(st, s, false);
}

/* ---- watching ---- */

static void watch(state *st)
{
    while (tend(st)) {
        if (st->suspects.n) {
            suspect s = st->suspects.at[0];
            memmove(st->suspects.at, st->suspects.at + 1, (size_t)--st->suspects.n * sizeof s);
            confirm(st, &s);
        } else if (st->alive) {
            nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
        } else {
            return;
        }
    }
    /* Whoever does not want it any more does not want to wait for rounds to end either. */
    end_jobs(st);
    st->suspects.n = 0;
}

/* ---- the whole ---- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    remove(path); /* what cannot be removed stays */
    return 0;
}

static void remove_cache(const state *st)
{
    enum { OPEN = 16, TRIES = 250 };
    /* a compiler whose process was dropped may still be writing */
    for (int i = 0; i < TRIES && access(st->cache, F_OK) == 0; i++) {
        if (i) pause_a_little();
        nftw(st->cache, remove_one, OPEN, FTW_DEPTH | FTW_PHYS);
    }
}

/* The machine that plans are made for, as a child sees it: without the user's calibration, so that a seed means the
 * same everywhere. Asked in a process of its own, for a device is not to be opened in this one. */
static bool learn_machine(state *st, fb_error *err)
{
    fb_machine *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED) return fb_fail(err, FB_ERR_SYSTEM, "there is no memory to share: %s", strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        become_child(st, MAX_JOBS);
        fb_device *d = open_device(st);
        if (d) *m = *d->ops->machine(d);
        _exit(d ? 0 : 1);
    }
    int status = 1;
    if (pid > 0) waitpid(pid, &status, 0);
    st->machine = *m;
    munmap(m, sizeof *m);
    if (status == 0) return true;
    if (st->s->failed && err) *err = st->s->error;
    return st->s->failed ? false : fb_fail(err, FB_ERR_CRASH, "%s could not be opened", st->o->device);
}

bool fb_worker_fuzz(const fb_fuzz_options *o, fb_fuzz_totals *totals, fb_error *err)
{
    const char *tmp = getenv("TMPDIR");
    state st = {.o = o, .totals = totals, .jobs = o->jobs > 0 ? o->jobs : fb_cores(), .start_us = fb_now_us()};
    if (st.jobs > MAX_JOBS) st.jobs = MAX_JOBS;
    *totals = (fb_fuzz_totals){0};
    snprintf(st.cache, sizeof st.cache, "%.32s/fusebox-fuzz-XXXXXX", tmp && tmp[0] == '/' ? tmp : "/tmp");
    if (!mkdtemp(st.cache)) return fb_fail(err, FB_ERR_SYSTEM, "there is no place for temporary files: %s", st.cache);
    st.s = mmap(NULL, sizeof *st.s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FB_ASSERT(st.s != MAP_FAILED);
    bool ok = learn_machine(&st, err);
    for (int j = 0; ok && j < st.jobs; j++)
        if (!start_job(&st, j)) ok = fb_fail(err, FB_ERR_SYSTEM, "no process can be started: %s", strerror(errno));
    if (ok) watch(&st);
    add_up(&st);
    if (ok && o->coverage) fb_fuzz_coverage_print(&st.s->coverage, st.machine.target->grid, o->coverage);
    if (ok && st.s->failed) {
        ok = false;
        if (err) *err = st.s->error;
    }
    remove_cache(&st);
    FB_VEC_FREE(&st.suspects);
    munmap(st.s, sizeof *st.s);
    return ok;
}
