/* A worker from both sides: what the front gets for good requests, and what becomes of crashes, hangs, garbage,
 * cancelled requests, wrong versions and dead processes. The worker is tests/unit/worker_main.c beside this program. */
#include "plan_help.h"

#include "base/checked.h"
#include "base/confine.h"
#include "children.h"
#include "fault_cc.h"
#include "graph/graph_json.h"
#include "measure/best.h"
#include "own_cache.h"
#include "scratch.h"
#include "worker/messages.h"
#include "worker/worker_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static char worker_path[512];

enum { PATIENCE_MS = 180000 }; /* the machine may be busy */

/* Long enough for a busy machine, and less than what is cancelled would take (sleep 1000, or for ever). */
#define AT_ONCE_NS 500000000000

/* ---- helpers ---- */

static void fresh_cache(const char *name)
{
    own_cache(in_scratch(name));
    unsetenv("CC");
}

/* x op y then relu; `name` marks the kernel for fault_compiler. */
static fb_graph *small_graph(const char *name, fb_op op)
{
    fb_graph *g = fb_graph_new(name);
    fb_id x = input(g, name, DIMS(8, 40)), y = input(g, "y", DIMS(8, 40));
    output(g, node1(g, FB_OP_RELU, "relu", node2(g, op, "op", x, y)));
    return finish(g);
}

typedef struct {
    fb_graph *g;
    fb_planner *planner;
    fb_plan *plan;
} subject;

static subject subject_of(fb_graph *g)
{
    subject s = {.g = g, .planner = planner_of(g, FB_DEVICE_HOST)};
    s.plan = preset(s.planner, "max");
    return s;
}

static void subject_free(subject *s)
{
    fb_plan_free(s->plan);
    fb_planner_free(s->planner);
    fb_graph_free(s->g);
}

static int64_t ask_prepare(fb_worker *w, const subject *s, double limit_s)
{
    return fb_worker_prepare(w, s->g, s->plan, "host",
                             &(fb_measure_options){.seeds = {1}, .n_seeds = 1, .limit_s = limit_s});
}

static bool next_event(fb_worker *w, int64_t deadline, fb_worker_event *e)
{
    while (!fb_worker_next(w, e)) {
        struct pollfd fds[3];
        int64_t left = (deadline - fb_now_ns()) / 1000000;
        if (left <= 0) return false;
        poll(fds, (nfds_t)fb_worker_poll(w, fds), left > 100 ? 100 : (int)left);
        fb_worker_pump(w);
    }
    return true;
}

/* Waits for an event of that kind (or an error) with that id; others are dropped, progress is noted. What gets on is
 * waited for: on a busy machine a calibration takes minutes. */
static fb_worker_event wait_event(fb_worker *w, fb_worker_event_kind kind, int64_t id, const char *progress)
{
    fb_worker_event e;
    bool seen = !progress;
    int64_t deadline = fb_now_ns() + PATIENCE_MS * 1000000ll;
    while (next_event(w, deadline, &e)) {
        if (progress && e.kind == FB_WORKER_PROGRESS && strstr(e.text, progress)) seen = true;
        if (e.kind == FB_WORKER_PROGRESS && e.id == id) deadline = fb_now_ns() + PATIENCE_MS * 1000000ll;
        if (e.id == id && (e.kind == kind || e.kind == FB_WORKER_ERROR)) {
            if (kind != FB_WORKER_ERROR && e.kind == FB_WORKER_ERROR) fail_msg("%s", e.error.text);
            if (!seen) fail_msg("no progress said \"%s\"", progress);
            return e;
        }
        fb_worker_event_clear(&e);
    }
    fail_msg("no event of kind %d for request %lld", (int)kind, (long long)id);
    return e;
}

static void expect(fb_worker *w, fb_worker_event_kind kind, int64_t id)
{
    fb_worker_event e = wait_event(w, kind, id, NULL);
    fb_worker_event_clear(&e);
}

static void wait_progress(fb_worker *w, int64_t id, const char *what)
{
    fb_worker_event e;
    int64_t deadline = fb_now_ns() + PATIENCE_MS * 1000000ll;
    while (next_event(w, deadline, &e)) {
        bool seen = e.kind == FB_WORKER_PROGRESS && e.id == id && strstr(e.text, what);
        if (e.kind == FB_WORKER_ERROR) fail_msg("%s", e.error.text);
        fb_worker_event_clear(&e);
        if (seen) return;
    }
    fail_msg("no progress said \"%s\"", what);
}

static void expect_error(fb_worker *w, int64_t id, fb_error_kind kind, const char *says)
{
    fb_worker_event e = wait_event(w, FB_WORKER_ERROR, id, NULL);
    if (e.error.kind != kind || !strstr(e.error.text, says))
        fail_msg("%s (%s), expected %s with \"%s\"", e.error.text, fb_error_kind_name(e.error.kind),
                 fb_error_kind_name(kind), says);
    fb_worker_event_clear(&e);
}

static fb_worker *worker(void)
{
    return fb_worker_new(NULL, worker_path);
}

/* An answer without names refreshes what was told with them. */
static void check_brief(fb_worker *w, int64_t id, fb_report *told)
{
    int nodes = 0, named = 0;
    for (int i = 0; i < told->n_kernels; i++) nodes += told->kernels[i].n_nodes;
    assert_true(nodes > 0);
    fb_worker_sample(w, id, 3, FB_CACHE_HOT, true);
    fb_worker_event e = wait_event(w, FB_WORKER_SAMPLED, id, NULL);
    assert_true(json_is_true(json_object_get(e.message, "brief")));
    assert_int_equal(e.report->n_kernels, told->n_kernels);
    for (int i = 0; i < told->n_kernels; i++) assert_int_equal(e.report->kernels[i].n_nodes, 0);
    assert_true(fb_report_refresh(told, e.report));
    assert_int_equal(told->wall_us.n, 8);
    for (int i = 0; i < told->n_kernels; i++) {
        assert_int_equal(told->kernels[i].device_us.n, e.report->kernels[i].device_us.n);
        named += told->kernels[i].n_nodes;
    }
    assert_int_equal(named, nodes);
    fb_report *other = fb_report_new();
    assert_false(fb_report_refresh(told, other));
    fb_report_free(other);
    fb_worker_event_clear(&e);
}

/* The worker can still do all of it. */
static void check_round(fb_worker *w, fb_graph *g)
{
    subject s = subject_of(g);
    int64_t id = ask_prepare(w, &s, 0);
    fb_worker_event e = wait_event(w, FB_WORKER_PREPARED, id, NULL);
    assert_non_null(e.report);
    if (!e.report->error.ok) fail_msg("%s", e.report->error.worst);
    assert_int_equal(e.report->wall_us.n, 0);
    fb_worker_event_clear(&e);
    fb_worker_sample(w, id, 5, FB_CACHE_HOT, false);
    e = wait_event(w, FB_WORKER_SAMPLED, id, NULL);
    assert_int_equal(e.report->wall_us.n, 5);
    fb_report *told = e.report;
    e.report = NULL;
    fb_worker_event_clear(&e);
    check_brief(w, id, told);
    fb_report_free(told);
    fb_worker_release(w, id);
    expect(w, FB_WORKER_RELEASED, id);
    subject_free(&s);
}

/* ---- as it should be ---- */

static void a_case_goes_its_way(void **state)
{
    (void)state;
    empty_cache(in_scratch("way"));
    fb_worker *w = worker();
    fb_worker_event e = wait_event(w, FB_WORKER_DEVICES, fb_worker_devices(w, false), NULL);
    assert_true(json_array_size(json_object_get(e.message, "devices")) >= 1);
    assert_int_equal(json_array_size(json_object_get(e.message, "libraries")), 0); /* loading them takes time */
    fb_worker_event_clear(&e);
    e = wait_event(w, FB_WORKER_DEVICES, fb_worker_devices(w, true), NULL);
    assert_true(json_array_size(json_object_get(e.message, "devices")) >= 1);
    assert_true(json_array_size(json_object_get(e.message, "libraries")) >= 2);
    fb_worker_event_clear(&e);

    subject a = subject_of(split_stack(4, 8, 32)), b = subject_of(small_graph("fine", FB_OP_ADD));
    int64_t first = ask_prepare(w, &a, 0), second = ask_prepare(w, &b, 0);
    assert_true(first != second);
    e = wait_event(w, FB_WORKER_PREPARED, first, "compiling");
    assert_true(e.report->error.ok && e.report->compile_ms > 0);
    assert_int_equal(e.report->n_kernels, 1);
    fb_worker_event_clear(&e);
    expect(w, FB_WORKER_PREPARED, second);
    for (int i = 1; i <= 3; i++) { /* A B A B, hot and cold */
        fb_worker_sample(w, first, 4, FB_CACHE_HOT, false);
        fb_worker_sample(w, second, 2, FB_CACHE_COLD, false);
        e = wait_event(w, FB_WORKER_SAMPLED, first, NULL);
        assert_int_equal(e.report->wall_us.n, 4 * i);
        fb_worker_event_clear(&e);
        e = wait_event(w, FB_WORKER_SAMPLED, second, NULL);
        assert_int_equal(e.report->cold_us.n, 2 * i);
        fb_worker_event_clear(&e);
    }
    fb_worker_release(w, first);
    expect(w, FB_WORKER_RELEASED, first);
    fb_worker_sample(w, first, 1, FB_CACHE_HOT, false);
    expect_error(w, first, FB_ERR_CRASH, "prepare it again");
    fb_worker_release(w, first); /* twice does no harm */
    expect(w, FB_WORKER_RELEASED, first);
    fb_worker_sample(w, second, 1, FB_CACHE_HOT, false);
    expect(w, FB_WORKER_SAMPLED, second);
    subject_free(&a);
    subject_free(&b);
    fb_worker_free(w);
}

static void calibration_gives_a_machine(void **state)
{
    (void)state;
    fresh_cache("calibrate");
    fb_worker *w = worker();
    int64_t id = fb_worker_calibrate(w, "host");
    fb_worker_event e = wait_event(w, FB_WORKER_MACHINE, id, "calibrating");
    fb_machine m;
    assert_string_equal(fb_json_string_or(e.message, "device", ""), "host");
    assert_true(fb_machine_from_json(&m, json_object_get(e.message, "machine"), NULL));
    assert_true(m.calibrated);
    fb_worker_event_clear(&e);
    expect_error(w, fb_worker_calibrate(w, "abacus"), FB_ERR_UNAVAILABLE, "there is no device abacus");
    fb_worker_free(w);
}

static void files_reach_the_inputs(void **state)
{
    (void)state;
    fresh_cache("files");
    fb_graph *g = fb_graph_new("file");
    fb_attrs at = {.shape = DIMS(6), .dtype = FB_F32, .dist = FB_DIST_FILE, .file = "some-key"};
    output(g, node1(g, FB_OP_NEG, "neg", add_node(g, FB_OP_INPUT, "x", &at, 0, NULL)));
    subject s = subject_of(finish(g));
    fb_worker *w = worker();
    expect_error(w, ask_prepare(w, &s, 0), FB_ERR_INPUT, "some-key");
    const double values[6] = {1, 2, 3, 4, 5, 6};
    fb_worker_send_file(w, "some-key", values, 6);
    int64_t id = ask_prepare(w, &s, 0);
    fb_worker_event e = wait_event(w, FB_WORKER_PREPARED, id, NULL);
    fb_worker_event_clear(&e);
    fb_worker_check(w, id, s.g, "host", &(fb_measure_options){.seeds = {1}, .n_seeds = 1});
    e = wait_event(w, FB_WORKER_CHECKED, id, NULL);
    assert_int_equal(e.report->error.state, FB_CHECK_RIGHT);
    assert_true(e.report->error.max_abs == 0);
    fb_worker_event_clear(&e);
    subject_free(&s);
    fb_worker_free(w);
}

static void plans_and_devices_that_are_not_there_are_refused(void **state)
{
    (void)state;
    fresh_cache("refused");
    fb_worker *w = worker();
    subject s = subject_of(small_graph("fine", FB_OP_ADD));
    const fb_measure_options o = {.seeds = {1}, .n_seeds = 1};
    expect_error(w, fb_worker_prepare(w, s.g, s.plan, "abacus:3", &o), FB_ERR_UNAVAILABLE, "abacus:3");
    expect_error(w, fb_worker_prepare_named(w, s.g, "no_such_plan", "host", &o), FB_ERR_INPUT, "no_such_plan");
    expect(w, FB_WORKER_PREPARED, fb_worker_prepare_named(w, s.g, "none", "host", &o));
    subject_free(&s);
    fb_worker_free(w);
}

static void graphs_beyond_what_is_kept_are_sent_again(void **state)
{
    (void)state;
    fresh_cache("graphs");
    fb_worker *w = worker();
    const fb_measure_options o = {.seeds = {1}, .n_seeds = 1};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 70; i++) { /* more than the worker keeps */
            fb_graph *g = fb_graph_new("one");
            output(g, node1(g, FB_OP_NEG, "neg", input(g, "x", DIMS(8 + i))));
            g = finish(g);
            int64_t id = fb_worker_prepare_named(w, g, "no_such_plan", "host", &o);
            expect_error(w, id, FB_ERR_INPUT, "no_such_plan");
            fb_graph_free(g);
        }
    }
    fb_worker_free(w);
}

/* ---- generated code gone wrong ---- */

static void a_crash_is_reported_and_the_next_case_runs(void **state)
{
    (void)state;
    fresh_cache("crash");
    fault_compiler(scratch, "crash_cc", "faulty", "    *(volatile int *)8 = 1;", NULL, NULL);
    fb_worker *w = worker();
    subject good = subject_of(small_graph("fine", FB_OP_ADD)), bad = subject_of(small_graph("faulty", FB_OP_MUL));
    int64_t kept = ask_prepare(w, &good, 0);
    expect(w, FB_WORKER_PREPARED, kept);
    expect_error(w, ask_prepare(w, &bad, 0), FB_ERR_CRASH, "was killed by SIGSEGV while running");
    check_round(w, small_graph("another", FB_OP_SUB));
    fb_worker_sample(w, kept, 1, FB_CACHE_HOT, false); /* went with the process that crashed */
    expect_error(w, kept, FB_ERR_CRASH, "went with");
    subject_free(&good);
    subject_free(&bad);
    fb_worker_free(w);
}

/* Compiled kernels that kill whoever opens them: nobody but the cache notices. */
static void deadly_entries_of_the_cache_are_compiled_again(void **state)
{
    (void)state;
    empty_cache(in_scratch("deadly")); /* its own alone */
    unsetenv("CC");
    char command[2000];
    subject good = subject_of(small_graph("fine", FB_OP_ADD));
    fb_worker *w = worker();
    expect(w, FB_WORKER_PREPARED, ask_prepare(w, &good, 0));
    fb_worker_free(w);
    snprintf(command, sizeof command,
             "printf '#include <signal.h>\n__attribute__((constructor)) void die(void) { raise(SIGBUS); }\n' >%s/die.c "
             "&& cc "
             "-shared -fPIC -o %s/die.so %s/die.c",
             scratch, scratch, scratch);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s/fusebox/host/*.so", getenv("XDG_CACHE_HOME"));
    glob_t files;
    assert_int_equal(glob(command, 0, NULL, &files), 0);
    size_t n;
    char *deadly = fb_read_file(in_scratch("die.so"), 1 << 20, &n, NULL);
    for (size_t i = 0; i < files.gl_pathc; i++)
        assert_true(fb_checked_write(files.gl_pathv[i], fb_file_name(files.gl_pathv[i]), deadly, n, NULL));
    fb_free(deadly);
    globfree(&files);
    w = worker();
    expect(w, FB_WORKER_PREPARED, ask_prepare(w, &good, 0));
    fb_worker_free(w);
    subject_free(&good);
}

static void a_kernel_without_end_is_stopped(void **state)
{
    (void)state;
    fresh_cache("hang");
    fault_compiler(scratch, "hang_cc", "faulty", "    for (;;) __asm__ volatile(\"\");", NULL, NULL);
    fb_worker *w = worker();
    subject bad = subject_of(small_graph("faulty", FB_OP_MUL));
    expect_error(w, ask_prepare(w, &bad, 1.5), FB_ERR_LIMIT,
                 "stopped after 1.5 s without a sign of life while running");
    check_round(w, small_graph("another", FB_OP_SUB));
    subject_free(&bad);
    fb_worker_free(w);
}

/* A limit beyond all clocks is a day's, and no deadline in the past. */
static void a_limit_without_measure_is_one(void **state)
{
    (void)state;
    fresh_cache("limit");
    fb_worker *w = worker();
    subject good = subject_of(small_graph("fine", FB_OP_ADD));
    int64_t id = ask_prepare(w, &good, 1e300);
    expect(w, FB_WORKER_PREPARED, id);
    subject_free(&good);
    fb_worker_free(w);
}

static void what_a_kernel_prints_is_no_message(void **state)
{
    (void)state;
    fresh_cache("print");
    fault_compiler(scratch, "print_cc", "faulty",
                   "    extern int puts(const char *); extern int fflush(void *); extern long write(int, const void *, "
                   "unsigned long); "
                   "puts(\"{}\"); fflush(0); write(1, \"garbage\", 7);",
                   NULL, NULL);
    fb_worker *w = worker();
    check_round(w, small_graph("faulty", FB_OP_MUL));
    check_round(w, small_graph("another", FB_OP_SUB));
    fb_worker_free(w);
}

static void a_wrong_result_is_prepared_but_not_sampled(void **state)
{
    (void)state;
    fresh_cache("wrong");
    fault_compiler(scratch, "wrong_cc", "faulty", NULL, "    ((float *)args->buffers[2])[7] += 1;", NULL);
    fb_worker *w = worker();
    subject bad = subject_of(small_graph("faulty", FB_OP_ADD));
    int64_t id = ask_prepare(w, &bad, 0);
    fb_worker_event e = wait_event(w, FB_WORKER_PREPARED, id, NULL);
    assert_int_equal(e.report->error.state, FB_CHECK_CHECKING);
    fb_worker_event_clear(&e);
    fb_worker_check(w, id, bad.g, "host", &(fb_measure_options){.seeds = {1}, .n_seeds = 1});
    e = wait_event(w, FB_WORKER_CHECKED, id, NULL);
    assert_false(e.report->error.ok);
    assert_int_equal(e.report->error.state, FB_CHECK_WRONG);
    assert_non_null(strstr(e.report->error.worst, "relu[0,7]"));
    fb_worker_event_clear(&e);
    fb_worker_sample(w, id, 1, FB_CACHE_HOT, false);
    expect_error(w, id, FB_ERR_INPUT, "the result is wrong");
    subject_free(&bad);
    fb_worker_free(w);
}

static void a_failing_compiler_leaves_prepared_cases_alone(void **state)
{
    (void)state;
    fresh_cache("ice");
    fault_compiler(scratch, "ice_cc", "faulty", NULL, NULL,
                   "echo \"cc: internal compiler error: Segmentation fault\" >&2; exit 4");
    fb_worker *w = worker();
    subject good = subject_of(small_graph("fine", FB_OP_ADD)), bad = subject_of(small_graph("faulty", FB_OP_MUL));
    int64_t kept = ask_prepare(w, &good, 0);
    expect(w, FB_WORKER_PREPARED, kept);
    expect_error(w, ask_prepare(w, &bad, 0), FB_ERR_COMPILE, "internal compiler error");
    fb_worker_sample(w, kept, 1, FB_CACHE_HOT, false);
    expect(w, FB_WORKER_SAMPLED, kept);
    subject_free(&good);
    subject_free(&bad);
    fb_worker_free(w);
}

/* ---- what its processes may do (base/confine.h; test_sandbox.c has the roles themselves) ---- */

static bool holds_files(void)
{
    char text[160];
    return fb_confinement_there(text, NULL) & FB_HOLDS_FILES;
}

/* Each of what it tries would make a file or crash it: it goes on, and its answer is right. */
static void a_kernel_reaches_nothing_but_its_buffers(void **state)
{
    (void)state;
    char text[2000], left[256];
    fresh_cache("hostile");
    snprintf(left, sizeof left, "%s", in_scratch("left"));
    unlink(left);
    snprintf(text, sizeof text,
             "    extern int creat(const char *, unsigned), system(const char *), socket(int, int, int), fork(void), "
             "kill(int, "
             "int), getppid(void); if (%s%s%s socket(2, 1, 0) >= 0 || system(\"touch %s\") == 0 || fork() >= 0 || "
             "kill(getppid(), 0) == 0) *(volatile int *)8 = 1;",
             holds_files() ? "creat(\"" : "", holds_files() ? left : "", holds_files() ? "\", 0600) >= 0 ||" : "",
             left);
    fault_compiler(scratch, "hostile_cc", "faulty", text, NULL, NULL);
    fb_worker *w = worker();
    check_round(w, small_graph("faulty", FB_OP_MUL));
    assert_true(access(left, F_OK) < 0);
    fb_worker_free(w);
}

static void a_compiler_writes_only_where_it_works(void **state)
{
    (void)state;
    char command[800], left[256];
    fresh_cache("greedy");
    snprintf(left, sizeof left, "%s", in_scratch("left"));
    unlink(left);
    snprintf(command, sizeof command, "touch %s; mkdir %s.d; : >\"$f.own\" || exit 9", left, left);
    fault_compiler(scratch, "greedy_cc", "greedy", NULL, NULL, command);
    fb_worker *w = worker();
    check_round(w, small_graph("greedy", FB_OP_MUL));
    if (holds_files()) assert_true(access(left, F_OK) < 0);
    fb_worker_free(w);
}

/* After its work it is what it was during it. */
static void the_reference_process_writes_references(void **state)
{
    (void)state;
    int status;
    char left[256];
    fresh_cache("reference");
    snprintf(left, sizeof left, "%s", in_scratch("left"));
    unlink(left);
    fb_graph *g = small_graph("fine", FB_OP_ADD);
    fb_worker_files files = {0};
    fb_reference_job job = {.graph = g, .seeds = {1}, .n_seeds = 1, .files = &files};
    pid_t pid = fork();
    if (pid == 0) {
        int in[2], out[2];
        if (pipe(in) < 0 || pipe(out) < 0) _exit(1);
        if (fb_worker_reference_main(&job, in[0], out[1]) != 0 || !fb_reference_there(g, 1)) _exit(2);
        if (holds_files() && creat(left, 0600) >= 0) _exit(3);
        if (socket(AF_INET, SOCK_STREAM, 0) >= 0) _exit(4);
        execl("/bin/true", "true", (char *)NULL);
        _exit(5);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 5 << 8);
    fb_graph_free(g);
}

/* ---- cancelling ---- */

static void a_request_is_cancelled_at_every_stage(void **state)
{
    (void)state;
    fresh_cache("cancel");
    fault_compiler(scratch, "cancel_cc", "slow_compile", NULL, NULL, "sleep 1000");
    fb_worker *w = worker();
    subject good = subject_of(small_graph("fine", FB_OP_ADD)),
            slow = subject_of(small_graph("slow_compile", FB_OP_MUL));
    int64_t kept = ask_prepare(w, &good, 0);
    expect(w, FB_WORKER_PREPARED, kept);
    int64_t compiling = ask_prepare(w, &slow, 0), queued = ask_prepare(w, &slow, 0);
    wait_progress(w, compiling, "compiling");
    int64_t start = fb_now_ns();
    fb_worker_cancel(w, queued);
    expect_error(w, queued, FB_ERR_CANCELLED, "cancelled");
    fb_worker_cancel(w, compiling);
    expect_error(w, compiling, FB_ERR_CANCELLED, "cancelled");
    assert_true(fb_now_ns() - start < AT_ONCE_NS);
    fb_worker_sample(w, kept, 1, FB_CACHE_HOT, false); /* nothing was lost */
    expect(w, FB_WORKER_SAMPLED, kept);
    fb_worker_cancel(w, 12345); /* nobody's */
    subject_free(&good);
    subject_free(&slow);
    fb_worker_free(w);
}

static const fb_measure_options search_options = {.seeds = {1}, .n_seeds = 1};

static void best_is_searched_for(void **state)
{
    (void)state;
    fresh_cache("best");
    fb_worker *w = worker();
    fb_graph *g = split_stack(3, 16, 32);
    fb_planner *p = planner_of(g, FB_DEVICE_HOST);
    for (int round = 0; round < 3; round++) {
        fb_machine gpu;
        fb_best_summary s;
        fb_error err = {0};
        fb_machine_default(&gpu, FB_DEVICE_CUDA);
        int64_t id = fb_worker_search(w, g, "host", &search_options, false, round == 2 ? &gpu : NULL);
        fb_worker_event e = wait_event(w, FB_WORKER_FOUND, id, round ? NULL : "searching");
        if (!fb_best_summary_from_json(&s, json_object_get(e.message, "summary"), &err)) fail_msg("%s", err.text);
        assert_int_equal(s.cached, round == 1);
        assert_int_equal(s.source, round == 2 ? FB_SOURCE_PREDICTED : FB_SOURCE_MEASURED);
        if (round == 2) fb_planner_set_machine(p, &gpu);
        fb_plan *plan = fb_plan_from_json(p, json_object_get(e.message, "plan"), true, NULL, &err);
        if (!plan) fail_msg("%s", err.text);
        check_plan(plan);
        fb_plan_free(plan);
        fb_worker_event_clear(&e);
    }
    check_round(w, g); /* takes the graph */
    fb_planner_free(p);
    fb_worker_free(w);
}

static void a_search_is_cancelled(void **state)
{
    (void)state;
    fresh_cache("cancel_search");
    fault_compiler(scratch, "slow_cc", "slow_compile", NULL, NULL, "sleep 1000");
    fb_worker *w = worker();
    subject good = subject_of(small_graph("fine", FB_OP_ADD));
    fb_graph *slow = small_graph("slow_compile", FB_OP_MUL);
    int64_t kept = ask_prepare(w, &good, 0);
    expect(w, FB_WORKER_PREPARED, kept);
    int64_t id = fb_worker_search(w, slow, "host", &search_options, false, NULL);
    wait_progress(w, id, "plan 1 of");
    int64_t start = fb_now_ns();
    fb_worker_cancel(w, id);
    expect_error(w, id, FB_ERR_CANCELLED, "cancelled");
    assert_true(fb_now_ns() - start < AT_ONCE_NS);
    fb_worker_sample(w, kept, 1, FB_CACHE_HOT, false); /* nothing was lost */
    expect(w, FB_WORKER_SAMPLED, kept);
    subject_free(&good);
    fb_graph_free(slow);
    fb_worker_free(w);
}

enum { YOUNGEST = -1 }; /* those before it may be of the test before, and not reaped yet */

/* The nth process that this one has started and that still runs; 0: there are not so many. */
static pid_t child_of(pid_t parent, int nth)
{
    pid_t all[64];
    int n = 0;
    assert_true(add_children(parent, all, 64, &n));
    if (nth == YOUNGEST) nth = n - 1;
    return nth >= 0 && nth < n ? all[nth] : 0;
}

/* A machine with more to do than it can does not let the child answer for a while: it loses nothing by that. */
static void a_child_that_may_not_run_keeps_what_it_has(void **state)
{
    (void)state;
    fresh_cache("busy");
    fault_compiler(scratch, "busy_cc", "slow_compile", NULL, NULL, "sleep 1000");
    fb_worker *w = worker();
    subject good = subject_of(small_graph("fine", FB_OP_ADD)),
            slow = subject_of(small_graph("slow_compile", FB_OP_MUL));
    expect(w, FB_WORKER_DEVICES, fb_worker_devices(w, false)); /* the process that lists has ended */
    int64_t kept = ask_prepare(w, &good, 0);
    expect(w, FB_WORKER_PREPARED, kept);
    int64_t id = ask_prepare(w, &slow, 0);
    wait_progress(w, id, "compiling");
    pid_t device = child_of(child_of(getpid(), YOUNGEST), 0); /* the first one: the reference's came behind it */
    assert_true(device > 0);
    kill(device, SIGSTOP);
    fb_worker_cancel(w, id);
    usleep(1000000);
    kill(device, SIGCONT);
    expect_error(w, id, FB_ERR_CANCELLED, "cancelled");
    fb_worker_sample(w, kept, 1, FB_CACHE_HOT, false);
    expect(w, FB_WORKER_SAMPLED, kept);
    subject_free(&good);
    subject_free(&slow);
    fb_worker_free(w);
}

static void a_kernel_that_runs_is_cancelled_by_force(void **state)
{
    (void)state;
    fresh_cache("force");
    fault_compiler(scratch, "force_cc", "faulty", "    for (;;) __asm__ volatile(\"\");", NULL, NULL);
    fb_worker *w = worker();
    subject bad = subject_of(small_graph("faulty", FB_OP_MUL));
    int64_t id = ask_prepare(w, &bad, 0);
    wait_progress(w, id, "running");
    int64_t start = fb_now_ns();
    fb_worker_cancel(w, id);
    expect_error(w, id, FB_ERR_CANCELLED, "cancelled");
    assert_true(fb_now_ns() - start < AT_ONCE_NS);
    check_round(w, small_graph("another", FB_OP_SUB));
    subject_free(&bad);
    fb_worker_free(w);
}

/* ---- processes that die or are none of ours ---- */

static fb_worker *command(const char *text)
{
    return fb_worker_new(NULL, text);
}

static void a_worker_that_ends_is_replaced_but_not_for_ever(void **state)
{
    (void)state;
    fb_worker *w = command("sh -c 'echo it hurts >&2; exit 3'");
    for (int i = 0; i < 3; i++)
        expect_error(w, fb_worker_devices(w, false), FB_ERR_CRASH, "exited with status 3: it hurts");
    expect_error(w, fb_worker_devices(w, false), FB_ERR_CRASH, "started 3 times within 10 s");
    fb_worker_free(w);
}

static void a_command_that_cannot_run_says_so(void **state)
{
    (void)state;
    static const struct {
        const char *command, *says;
        fb_error_kind kind;
    } cases[] = {
        {"/nonexistent/fusebox worker", "/nonexistent/fusebox", FB_ERR_UNAVAILABLE},
        {"sh -c 'echo", "quote", FB_ERR_USAGE},
        {"  ", "empty", FB_ERR_USAGE},
        {"yes garbage", "does not speak fusebox's protocol: garbage", FB_ERR_CRASH},
        {"echo '{\"type\":\"hello\",\"fusebox\":99,\"version\":\"9.9\"}'", "install the same version on both",
         FB_ERR_UNAVAILABLE},
        {"true", "exited with status 0", FB_ERR_CRASH},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_worker *w = command(cases[i].command);
        expect_error(w, fb_worker_devices(w, false), cases[i].kind, cases[i].says);
        fb_worker_free(w);
    }
}

/* Workers that talk and do not answer. Each greets, if it does, and then goes on for ever. */
static void a_worker_that_does_not_answer_is_given_up(void **state)
{
    (void)state;
    static const struct {
        const char *greets, *then, *says;
        fb_error_kind kind;
    } cases[] = {
        {"", "exec sleep 1000", "gave no sign of life for 2 s", FB_ERR_LIMIT},
        {"hello", "exec sleep 1000", "gave no answer for 2 s", FB_ERR_LIMIT},
        {"hello", "while sleep 0.05; do printf x; done", "gave no answer for 2 s", FB_ERR_LIMIT}, /* drips */
        {"", "while sleep 0.05; do printf x; done", "gave no sign of life for 2 s", FB_ERR_LIMIT},
        {"hello", "while sleep 0.05; do echo '{\"type\":\"devices\",\"id\":77,\"devices\":[],\"libraries\":[]}'; done",
         "gave no answer for 2 s", FB_ERR_LIMIT}, /* of another id */
        {"hello", "while sleep 0.05; do echo '{\"type\":\"progress\",\"id\":0,\"what\":\"x\",\"fraction\":0}'; done",
         "gave no answer for 2 s", FB_ERR_LIMIT},
        {"hello", "exec yes '{\"type\":\"progress\",\"id\":1,\"what\":\"x\",\"fraction\":0}'", "messages without end",
         FB_ERR_CRASH},
        {"hello", "exec yes '{\"type\":\"progress\",\"id\":9,\"what\":\"x\",\"fraction\":0}'", "messages without end",
         FB_ERR_CRASH},
        {"hello", "exec 3<&0; exec tr '\\0' x </dev/zero", /* what it is asked still finds a reader */
         "sent a message without end", FB_ERR_CRASH},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[300], text[700];
        snprintf(path, sizeof path, "%s", in_scratch("silent"));
        int n =
            snprintf(text, sizeof text, "#!/bin/sh\n%s\n%s\n",
                     cases[i].greets[0] ? "echo '{\"type\":\"hello\",\"fusebox\":1,\"version\":\"0\",\"host\":\"h\","
                                          "\"devices\":[],\"libraries\":[]}'"
                                        : "",
                     cases[i].then);
        assert_true(fb_write_file(path, text, (size_t)n, NULL));
        chmod(path, 0755);
        fb_worker *w = command(path);
        fb_error_kind kind = cases[i].kind;
        fb_worker_set_patience(w, PATIENCE_MS / 1000);
        int64_t id = fb_worker_devices(w, false);
        if (kind == FB_ERR_LIMIT && cases[i].greets[0]) expect(w, FB_WORKER_HELLO, 0); /* however long that takes */
        if (kind == FB_ERR_LIMIT) fb_worker_set_patience(w, 2);
        expect_error(w, id, kind, cases[i].says);
        assert_true(fb_worker_deadline(w) == INT64_MAX);
        fb_worker_free(w);
    }
}

static void ssh_never_asks(void **state)
{
    (void)state;
    char text[700];
    const char *path = in_scratch("ssh"), script[] = "#!/bin/sh\necho \"$*\" >&2\nexit 255\n";
    assert_true(fb_write_file(path, script, sizeof script - 1, NULL));
    chmod(path, 0755);
    snprintf(text, sizeof text, "%s \"gpu box\" fusebox\\ worker", path);
    fb_worker *w = command(text);
    expect_error(w, fb_worker_devices(w, false), FB_ERR_CRASH,
                 "-o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=15 gpu box fusebox worker");
    fb_worker_free(w);
}

static void what_a_login_shell_prints_is_passed_over(void **state)
{
    (void)state;
    fresh_cache("noise");
    char text[700];
    snprintf(text, sizeof text, "sh -c 'echo Welcome to the machine; echo; exec %s'", worker_path);
    fb_worker *w = command(text);
    check_round(w, small_graph("fine", FB_OP_ADD));
    fb_worker_free(w);
}

/* ---- the supervisor, spoken to by hand ---- */

static fb_child by_hand(void)
{
    fb_child c;
    fb_error err = {0};
    char *argv[] = {worker_path, NULL};
    if (!fb_child_start(&c, argv, NULL, NULL, -1, &err)) fail_msg("%s", err.text);
    return c;
}

static json_t *answer_of(fb_child *c, const char *type)
{
    size_t n;
    for (const char *line; (line = fb_channel_wait_line(c->channel, &n, PATIENCE_MS, NULL));) {
        json_t *message = fb_json_parse(line, n, NULL);
        if (strcmp(fb_json_string_or(message, "type", ""), type) == 0) return message;
        json_decref(message);
    }
    fail_msg("no message of type %s", type);
    return NULL;
}

static void say(fb_child *c, const char *text)
{
    fb_channel_send_bytes(c->channel, text, strlen(text));
    fb_channel_pump(c->channel, NULL);
}

static void bad_messages_are_answered_and_forgotten(void **state)
{
    (void)state;
    fresh_cache("bad");
    static const struct {
        const char *text, *says;
        fb_error_kind kind;
    } cases[] = {
        {"garbage\n", "not valid JSON", FB_ERR_INPUT},
        {"\n", "not valid JSON", FB_ERR_INPUT},
        {"[1,2]\n", "\"type\" is missing", FB_ERR_INPUT},
        {"{\"type\":\"dance\"}\n", "dance", FB_ERR_INPUT},
        {"{\"type\":7}\n", "\"type\"", FB_ERR_INPUT},
        {"{\"type\":\"prepare\"}\n", "\"id\"", FB_ERR_INPUT},
        {"{\"type\":\"prepare\",\"id\":-3}\n", "\"id\"", FB_ERR_INPUT},
        {"{\"type\":\"prepare\",\"id\":3,\"graph\":\"00\",\"device\":\"host\",\"seeds\":[1]}\n", "was not sent",
         FB_ERR_INPUT},
        {"{\"type\":\"prepare\",\"id\":3,\"graph\":\"00\",\"seeds\":[1]}\n", "\"device\"", FB_ERR_INPUT},
        {"{\"type\":\"check\",\"id\":3,\"graph\":\"00\",\"device\":\"host\",\"seeds\":[]}\n", "no seed", FB_ERR_INPUT},
        {"{\"type\":\"sample\",\"id\":3,\"n\":0}\n", "\"n\"", FB_ERR_INPUT},
        {"{\"type\":\"sample\",\"id\":3,\"n\":1,\"cache\":\"warm\"}\n", "hot or cold", FB_ERR_INPUT},
        {"{\"type\":\"forget\",\"hash\":\"00\"}\n", "forget", FB_ERR_INPUT},
        {"{\"type\":\"sample\",\"id\":3,\"n\":1}\n", "not prepared", FB_ERR_CRASH},
        {"{\"type\":\"calibrate\",\"id\":3}\n", "\"device\"", FB_ERR_INPUT},
        {"{\"type\":\"graph\",\"hash\":\"00\"}\n{\"fusebox_graph\":7}\n", "", FB_ERR_INPUT},
        {"{\"type\":\"graph\",\"hash\":\"00\"}\nnonsense\n{\"id\":3}\n{\"id\":4}\n", "", FB_ERR_INPUT},
    };
    fb_child c = by_hand();
    json_decref(answer_of(&c, "hello"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        say(&c, cases[i].text);
        json_t *e = answer_of(&c, "error");
        const char *text = fb_json_string_or(e, "text", "");
        if (!strstr(text, cases[i].says) || fb_error_kind_parse(fb_json_string_or(e, "kind", "")) != cases[i].kind)
            fail_msg("%s: %s (%s)", cases[i].text, text, fb_json_string_or(e, "kind", ""));
        json_decref(e);
        say(&c, "{\"type\":\"devices\",\"id\":9}\n"); /* it goes on */
        json_decref(answer_of(&c, "devices"));
    }
    say(&c, "{\"type\":\"release\",\"id\":3}\n");
    json_decref(answer_of(&c, "released"));
    fb_child_kill(&c);
}

/* What a worker says comes out whole and in range, whatever it was. */
static void what_a_worker_says_is_made_sense_of(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says; /* "": of an error */
        double fraction;
    } cases[] = {
        {"{\"type\":\"progress\",\"id\":1,\"what\":\"x\",\"fraction\":0.5}", NULL, 0.5},
        {"{\"type\":\"progress\",\"id\":1,\"what\":\"x\",\"fraction\":7}", NULL, 0},
        {"{\"type\":\"progress\",\"id\":1,\"what\":\"x\",\"fraction\":-1e300}", NULL, 0},
        {"{\"type\":\"error\",\"id\":1,\"kind\":\"limit\",\"text\":\"too long\"}", "too long", 0},
        {"{\"type\":\"error\",\"id\":1,\"kind\":\"ok\",\"text\":\"x\"}", "x", 0},
        {"{\"type\":\"error\",\"id\":1,\"kind\":\"input\",\"text\":\"\"}", "it gave no reason", 0},
        {"{\"type\":\"error\",\"id\":1,\"text\":\" \\n\"}", "it gave no reason", 0},
        {"{\"type\":\"error\",\"id\":1}", "it gave no reason", 0},
        {"{\"type\":\"prepared\",\"id\":1}", "", 0},
        {"{\"type\":\"traced\",\"id\":1,\"timeline\":[]}", "", 0},
        {"{\"type\":\"values\",\"id\":1,\"values\":7}", "", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool ends;
        fb_worker_event e = {.id = 1, .message = fb_json_parse(cases[i].text, strlen(cases[i].text), NULL)};
        assert_true(fb_reply_kind(e.message, &e.kind, &ends));
        fb_reply_read(&e);
        assert_true(e.fraction == cases[i].fraction);
        assert_int_equal(e.kind == FB_WORKER_ERROR, cases[i].says != NULL);
        if (cases[i].says) {
            assert_int_not_equal(e.error.kind, FB_OK);
            assert_true(e.error.text[0]);
            assert_non_null(strstr(e.error.text, cases[i].says));
        }
        fb_worker_event_clear(&e);
    }
}

static bool say_line(void *ctx, const char *text, size_t n)
{
    fb_channel_send_bytes(ctx, text, n);
    fb_channel_send_bytes(ctx, "\n", 1);
    return true;
}

static void a_graph_under_a_false_name_is_refused(void **state)
{
    (void)state;
    fresh_cache("name");
    fb_graph *g = small_graph("fine", FB_OP_ADD);
    fb_child c = by_hand();
    say(&c, "{\"type\":\"graph\",\"hash\":\"0123\"}\n");
    fb_graph_write_lines(g, say_line, c.channel);
    fb_channel_pump(c.channel, NULL);
    json_t *e = answer_of(&c, "error");
    assert_non_null(strstr(fb_json_string_or(e, "text", ""), "announced as 0123"));
    json_decref(e);
    fb_graph_free(g);
    fb_child_kill(&c);
}

static int exit_status(fb_child *c)
{
    char how[80] = "still runs";
    for (int i = 0; i < 60000 && !fb_child_ended(c, how, sizeof how); i++) usleep(1000);
    int status = -1;
    if (strncmp(how, "exited with status ", 19) == 0) status = (int)strtol(how + 19, NULL, 10);
    fb_child_kill(c);
    return status;
}

static void it_ends_with_its_input(void **state)
{
    (void)state;
    fresh_cache("end");
    fb_child c = by_hand();
    say(&c, "{\"type\":\"hello\",\"fusebox\":1}\n{\"type\":\"calibrate\",\"id\":1,\"device\":\"host\"}\n");
    json_decref(answer_of(&c, "progress")); /* the device child is at work */
    fb_channel_free(c.channel);
    c.channel = NULL;
    assert_int_equal(exit_status(&c), 0);

    c = by_hand();
    say(&c, "{\"type\":\"quit\"}\n");
    assert_int_equal(exit_status(&c), 0);

    c = by_hand();
    say(&c, "{\"type\":\"hello\",\"fusebox\":99}\n");
    json_t *e = answer_of(&c, "error");
    assert_non_null(strstr(fb_json_string_or(e, "text", ""), "protocol 99"));
    json_decref(e);
    assert_int_equal(exit_status(&c), 1);

    c = by_hand();
    say(&c, "{\"type\":\"file\",\"key\":\"k\"}\n");
    assert_int_equal(exit_status(&c), 1);
}

/* ---- locks ---- */

static void a_lock_is_served_in_order(void **state)
{
    (void)state;
    fresh_cache("locks");
    fb_device_lock a, b, c, other;
    assert_true(fb_lock_enter(&a, "cuda:0", NULL));
    assert_int_equal(fb_lock_ahead(&a), 0);
    assert_false(fb_lock_wanted(&a));
    assert_true(fb_lock_enter(&b, "cuda:0", NULL));
    assert_true(fb_lock_enter(&c, "cuda:0", NULL));
    assert_true(fb_lock_enter(&other, "cuda:1", NULL));
    assert_true(fb_lock_wanted(&a));
    assert_int_equal(fb_lock_ahead(&b), 1);
    assert_int_equal(fb_lock_ahead(&c), 2);
    assert_int_equal(fb_lock_ahead(&other), 0);
    fb_lock_leave(&b); /* gives up waiting */
    assert_int_equal(fb_lock_ahead(&c), 1);
    fb_lock_leave(&a);
    fb_lock_leave(&a);
    assert_int_equal(fb_lock_ahead(&c), 0);
    fb_lock_leave(&c);
    fb_lock_leave(&other);
}

static void a_lock_goes_with_its_process(void **state)
{
    (void)state;
    fresh_cache("locks");
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        fb_device_lock theirs;
        if (!fb_lock_enter(&theirs, "cuda:0", NULL)) _exit(1);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    fb_device_lock ours;
    assert_true(fb_lock_enter(&ours, "cuda:0", NULL));
    assert_int_equal(fb_lock_ahead(&ours), 1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(fb_lock_ahead(&ours), 0);
    fb_lock_leave(&ours);
    close(ready[0]);
    close(ready[1]);
}

static void who_measures_waits_for_the_device(void **state)
{
    (void)state;
    fresh_cache("wait");
    fb_device_lock ours;
    fb_worker *w = worker();
    subject s = subject_of(small_graph("fine", FB_OP_ADD));
    int64_t id = ask_prepare(w, &s, 0);
    expect(w, FB_WORKER_PREPARED, id);
    assert_true(fb_lock_enter(&ours, "host", NULL));
    fb_worker_sample(w, id, 1, FB_CACHE_HOT, false);
    wait_progress(w, id, "waiting, 1 ahead");
    fb_worker_cancel(w, id); /* also while it waits */
    expect_error(w, id, FB_ERR_CANCELLED, "cancelled");
    fb_worker_sample(w, id, 1, FB_CACHE_HOT, false);
    wait_progress(w, id, "waiting, 1 ahead");
    fb_lock_leave(&ours);
    expect(w, FB_WORKER_SAMPLED, id);
    /* it lets go when nothing is asked of it */
    assert_true(fb_lock_enter(&ours, "host", NULL));
    int64_t deadline = fb_now_ns() + PATIENCE_MS * 1000000ll;
    while (fb_lock_ahead(&ours) && fb_now_ns() < deadline) usleep(1000);
    assert_int_equal(fb_lock_ahead(&ours), 0);
    fb_lock_leave(&ours);
    subject_free(&s);
    fb_worker_free(w);
}

/* ---- */

static int set_up(void **state)
{
    ssize_t n = readlink("/proc/self/exe", worker_path, sizeof worker_path - 16);
    if (n < 0) return -1;
    worker_path[n] = '\0';
    strcpy(strrchr(worker_path, '/'), "/worker_main");
    return make_scratch(state);
}

/* However often it is asked, its answers are no flood. */
static void answers_are_no_flood(void **state)
{
    (void)state;
    enum { REQUESTS = 6000 };
    fb_worker *w = worker();
    subject s = subject_of(small_graph("asked", FB_OP_ADD));
    int64_t id = ask_prepare(w, &s, 0);
    fb_worker_event e = wait_event(w, FB_WORKER_PREPARED, id, NULL);
    fb_worker_event_clear(&e);
    for (int i = 0; i < REQUESTS; i++) {
        fb_worker_sample(w, id, 1, FB_CACHE_HOT, true);
        e = wait_event(w, FB_WORKER_SAMPLED, id, NULL);
        fb_worker_event_clear(&e);
    }
    subject_free(&s);
    fb_worker_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_case_goes_its_way),
        cmocka_unit_test(answers_are_no_flood),
        cmocka_unit_test(calibration_gives_a_machine),
        cmocka_unit_test(files_reach_the_inputs),
        cmocka_unit_test(plans_and_devices_that_are_not_there_are_refused),
        cmocka_unit_test(graphs_beyond_what_is_kept_are_sent_again),
        cmocka_unit_test(a_crash_is_reported_and_the_next_case_runs),
        cmocka_unit_test(deadly_entries_of_the_cache_are_compiled_again),
        cmocka_unit_test(a_kernel_without_end_is_stopped),
        cmocka_unit_test(a_limit_without_measure_is_one),
        cmocka_unit_test(what_a_kernel_prints_is_no_message),
        cmocka_unit_test(a_wrong_result_is_prepared_but_not_sampled),
        cmocka_unit_test(a_failing_compiler_leaves_prepared_cases_alone),
        cmocka_unit_test(a_kernel_reaches_nothing_but_its_buffers),
        cmocka_unit_test(a_compiler_writes_only_where_it_works),
        cmocka_unit_test(the_reference_process_writes_references),
        cmocka_unit_test(a_request_is_cancelled_at_every_stage),
        cmocka_unit_test(best_is_searched_for),
        cmocka_unit_test(a_search_is_cancelled),
        cmocka_unit_test(a_child_that_may_not_run_keeps_what_it_has),
        cmocka_unit_test(a_kernel_that_runs_is_cancelled_by_force),
        cmocka_unit_test(a_worker_that_ends_is_replaced_but_not_for_ever),
        cmocka_unit_test(a_command_that_cannot_run_says_so),
        cmocka_unit_test(a_worker_that_does_not_answer_is_given_up),
        cmocka_unit_test(ssh_never_asks),
        cmocka_unit_test(what_a_login_shell_prints_is_passed_over),
        cmocka_unit_test(bad_messages_are_answered_and_forgotten),
        cmocka_unit_test(what_a_worker_says_is_made_sense_of),
        cmocka_unit_test(a_graph_under_a_false_name_is_refused),
        cmocka_unit_test(it_ends_with_its_input),
        cmocka_unit_test(a_lock_is_served_in_order),
        cmocka_unit_test(a_lock_goes_with_its_process),
        cmocka_unit_test(who_measures_waits_for_the_device),
    };
    return cmocka_run_group_tests(tests, set_up, remove_scratch);
}
