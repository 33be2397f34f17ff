/* Workers that come to harm, again and again at random: kernels that crash, hang, exit or write into whatever is open,
 * compilers that crash, processes killed or stopped at a random moment, no more memory, bytes that come one by one,
 * others that talk and do not answer. After each a right measurement, and nothing left: no process, zombie, folder of
 * work, half-written file, marker or lock.
 *
 * One of each kind but the killing; FB_FULL=1 (make check-full): a thousand. FB_SEED chooses them, FB_FAULTS their
 * number. */
#include "plan_help.h"

#include "base/file.h"
#include "children.h"
#include "own_cache.h"
#include "scratch.h"
#include "worker/worker.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    FULL = 1000,
    BOUND_S = 300, /* without a sign of life, on a machine as busy as can be: it hangs */
    WARM = 6,      /* graphs of different sizes whose kernels are compiled, or not yet */
};

static char worker_path[512], own_tmp[300];

/* ---- graphs and events ---- */

/* `name` marks the kernel for the compiler of this fault. */
static fb_graph *graph_of(const char *name, fb_op op, int64_t n)
{
    fb_graph *g = fb_graph_new(name);
    fb_id x = input(g, name, DIMS(8, n)), y = input(g, "y", DIMS(8, n));
    output(g, node1(g, FB_OP_RELU, "relu", node2(g, op, "op", x, y)));
    return finish(g);
}

static const fb_measure_options options = {.seeds = {1}, .n_seeds = 1, .limit_s = 0};

static int64_t ask(fb_worker *w, const fb_graph *g, double limit_s)
{
    fb_measure_options o = options;
    o.limit_s = limit_s;
    return fb_worker_prepare_named(w, g, "max", "host", &o);
}

/* The next event, or false when `until` has passed. */
static bool next_event(fb_worker *w, int64_t until, fb_worker_event *e)
{
    while (!fb_worker_next(w, e)) {
        struct pollfd fds[3];
        int64_t left = (until - fb_now_ns()) / 1000000;
        if (left <= 0) return false;
        poll(fds, (nfds_t)fb_worker_poll(w, fds), left > 20 ? 20 : (int)left);
        fb_worker_pump(w);
    }
    return true;
}

/* Waits for what ends the request `id`; false: it ended with an error, whose text is in `why`. */
static bool answer(fb_worker *w, int64_t id, fb_worker_event_kind kind, fb_check_state *state, char why[200])
{
    fb_worker_event e;
    int64_t until = fb_now_ns() + BOUND_S * 1000000000ll;
    while (next_event(w, until, &e)) {
        until = fb_now_ns() + BOUND_S * 1000000000ll;
        bool ends = e.id == id && (e.kind == kind || e.kind == FB_WORKER_ERROR), right = e.kind == kind;
        if (ends && right && state) *state = e.report->error.state;
        if (ends && !right) snprintf(why, 200, "%.199s", e.error.text);
        fb_worker_event_clear(&e);
        if (ends) return right;
    }
    fail_msg("request %lld is never answered", (long long)id);
    return false;
}

static char last_why[200]; /* of what was not measured */

/* A right figure: prepared, checked, sampled. False: it was hit by what had not shown yet. */
static bool measures(fb_worker *w)
{
    char why[200] = "";
    fb_check_state state = FB_CHECK_NONE;
    fb_graph *g = graph_of("fine", FB_OP_ADD, 40);
    int64_t id = ask(w, g, 0);
    bool ok = answer(w, id, FB_WORKER_PREPARED, NULL, why);
    if (ok) fb_worker_check(w, id, g, "host", &options);
    ok = ok && answer(w, id, FB_WORKER_CHECKED, &state, why);
    if (ok && state != FB_CHECK_RIGHT) fail_msg("a right kernel is not right: %d", (int)state);
    if (ok) fb_worker_sample(w, id, 3, FB_CACHE_HOT, false);
    ok = ok && answer(w, id, FB_WORKER_SAMPLED, NULL, why);
    fb_graph_free(g);
    if (!ok) snprintf(last_why, sizeof last_why, "%s", why);
    return ok;
}

/* ---- processes ---- */

typedef struct {
    pid_t at[256];
    int n;
} pids;

/* All below `parent`. */
static void all_below(pid_t parent, pids *to)
{
    to->n = 0;
    add_children(parent, to->at, 256, &to->n);
    for (int i = 0; i < to->n; i++) add_children(to->at[i], to->at, 256, &to->n);
}

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* Of the worker's own processes, the one that holds devices; 0: there is none. It is the one that stays: who lists
 * devices, which takes long on a busy machine, and who computes references come before it or after it, and end. */
static pid_t device_child(void)
{
    int64_t until = fb_now_ns() + BOUND_S * 1000000000ll;
    for (;; wait_a_little()) {
        pids own = {0}, below = {0};
        add_children(getpid(), own.at, 256, &own.n);
        if (own.n) add_children(own.at[0], below.at, 256, &below.n);
        if (below.n < 2) return below.n ? below.at[0] : 0;
        if (fb_now_ns() > until)
            fail_msg("process %d, or one of %d others, does not end", (int)below.at[0], below.n - 1);
    }
}

static char state_of(pid_t pid, pid_t *parent)
{
    char path[64], state = '?';
    int above = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%*d (%*[^)]) %c %d", &state, &above) != 2) state = '?';
    if (f) fclose(f);
    *parent = above;
    return state;
}

/* Whoever started those that have ended waits for them; a moment may pass. */
static void no_zombie_stays(void)
{
    int64_t until = fb_now_ns() + BOUND_S * 1000000000ll;
    for (;;) {
        pids all;
        pid_t zombie = 0, parent = 0, above;
        all_below(getpid(), &all);
        for (int i = 0; i < all.n && !zombie; i++)
            if (state_of(all.at[i], &parent) == 'Z') zombie = all.at[i];
        if (!zombie) return;
        while (waitpid(-1, NULL, WNOHANG) > 0) continue; /* those that lost their parent are ours */
        if (fb_now_ns() > until)
            fail_msg("process %d has ended, and its parent %d (%c) does not wait for it", (int)zombie, (int)parent,
                     state_of(parent, &above));
        wait_a_little();
    }
}

static void no_process_stays(void)
{
    int64_t until = fb_now_ns() + BOUND_S * 1000000000ll;
    for (pids all; all_below(getpid(), &all), all.n; wait_a_little()) {
        while (waitpid(-1, NULL, WNOHANG) > 0) continue;
        if (fb_now_ns() > until) fail_msg("process %d stays, and %d others", (int)all.at[0], all.n - 1);
    }
}

/* ---- files ---- */

static char found[600], to_be_swept[600];

static bool is_free(const char *lock)
{
    int fd = open(lock, O_RDWR | O_CLOEXEC);
    bool free_now = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0) close(fd);
    return free_now;
}

/* A folder of work stays where who would have removed it was killed, and who would have done that as well: the next
 * start sweeps it. One without a lock was left between two system calls, and goes after a minute. */
static int look_at(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    char lock[700];
    const char *name = path + at->base;
    size_t n = strlen(name);
    bool work = strncmp(name, "fusebox-work-", 13) == 0 && kind == FTW_D;
    bool half = n > 4 && strcmp(name + n - 4, ".tmp") == 0;
    snprintf(lock, sizeof lock, "%s/lock", path);
    if (work && access(lock, F_OK) < 0) return 0;
    if (work && !to_be_swept[0] && is_free(lock))
        snprintf(to_be_swept, sizeof to_be_swept, "%s", path);
    else if (work || half || strstr(path, "/opening/"))
        snprintf(found, sizeof found, "%s", path);
    return 0;
}

static void no_file_stays(void)
{
    fb_device_lock lock;
    char cache[400];
    if (to_be_swept[0] && access(to_be_swept, F_OK) == 0) fail_msg("%s is left for good", to_be_swept);
    found[0] = to_be_swept[0] = '\0';
    snprintf(cache, sizeof cache, "%s/fusebox", getenv("XDG_CACHE_HOME"));
    nftw(cache, look_at, 16, FTW_PHYS);
    nftw(own_tmp, look_at, 16, FTW_PHYS);
    if (found[0]) fail_msg("%s is left", found);
    assert_true(fb_lock_enter(&lock, "host", NULL));
    assert_int_equal(fb_lock_ahead(&lock), 0);
    fb_lock_leave(&lock);
}

/* ---- faults: each returns when it was noticed, or when it was over ---- */

static uint64_t state;

static int below(int n)
{
    state = fb_splitmix64(state);
    return (int)(state % (uint64_t)n);
}

static int64_t number; /* of the fault */

/* Asks for a kernel that does what its name says. */
static int64_t bad_kernel(fb_worker *w, const char *name, double limit_s)
{
    char why[200];
    fb_graph *g = graph_of(name, FB_OP_MUL, 40);
    answer(w, ask(w, g, limit_s), FB_WORKER_PREPARED, NULL, why);
    fb_graph_free(g);
    return fb_now_ns();
}

static int64_t crashes(fb_worker *w)
{
    return bad_kernel(w, "crashes", 0);
}

static int64_t exits(fb_worker *w)
{
    return bad_kernel(w, "exits", 0);
}

static int64_t hangs(fb_worker *w)
{
    return bad_kernel(w, "hangs", 0.5);
}

static int64_t waits(fb_worker *w)
{
    return bad_kernel(w, "waits", 0.5);
}

static int64_t garbage(fb_worker *w)
{
    return bad_kernel(w, below(2) ? "garbage" : "gibberish", 5);
}

static int64_t compiler_crashes(fb_worker *w)
{
    return bad_kernel(w, "broken", 0);
}

/* One that is compiled already, or one that nobody has seen yet. */
static fb_graph *some_graph(void)
{
    return graph_of("fine", FB_OP_SUB, below(2) ? 40 + 8 * below(WARM) : 1000 + number);
}

static int64_t killed(fb_worker *w)
{
    pids all;
    char why[200];
    fb_graph *g = some_graph();
    int64_t id = ask(w, g, 0), until = fb_now_ns() + below(400) * 1000000ll;
    for (fb_worker_event e; next_event(w, until, &e);) {
        bool over = e.id == id && (e.kind == FB_WORKER_PREPARED || e.kind == FB_WORKER_ERROR);
        fb_worker_event_clear(&e);
        if (over) id = 0;
    }
    all_below(getpid(), &all);
    if (all.n) kill(all.at[below(all.n)], SIGKILL);
    int64_t now = fb_now_ns();
    if (id) {
        answer(w, id, FB_WORKER_PREPARED, NULL, why);
        now = fb_now_ns();
    }
    fb_graph_free(g);
    return now;
}

static int64_t stopped(fb_worker *w)
{
    char why[200];
    fb_graph *g = some_graph();
    measures(w);
    pid_t device = device_child();
    int64_t id = ask(w, g, 0.5);
    if (device) kill(device, SIGSTOP);
    answer(w, id, FB_WORKER_PREPARED, NULL, why);
    fb_graph_free(g);
    return fb_now_ns();
}

static int64_t out_of_memory(fb_worker *w)
{
    char path[64], why[200];
    long pages = 0;
    fb_graph *g = graph_of("fine", FB_OP_SUB, 1 << 18);
    measures(w);
    pid_t device = device_child();
    snprintf(path, sizeof path, "/proc/%d/statm", (int)device);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%ld", &pages) != 1) pages = 0;
    if (f) fclose(f);
    struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY},
                  little = {(rlim_t)(pages * sysconf(_SC_PAGESIZE)) + ((rlim_t)(1 + below(8)) << 20), RLIM_INFINITY};
    if (device && pages) prlimit(device, RLIMIT_AS, &little, NULL);
    answer(w, ask(w, g, 0), FB_WORKER_PREPARED, NULL, why);
    if (device && pages) prlimit(device, RLIMIT_AS, &none, NULL);
    fb_graph_free(g);
    return fb_now_ns();
}

/* Its answers come a byte at a time: nothing is wrong with that. */
static int64_t slow_bytes(fb_worker *w)
{
    (void)w;
    return fb_now_ns();
}

/* Another command, which greets and drips. */
static int64_t drips(fb_worker *w)
{
    (void)w;
    char why[200];
    fb_worker *other = fb_worker_new(NULL, in_scratch("drips"));
    fb_worker_set_patience(other, 0.3);
    assert_false(answer(other, fb_worker_devices(other, false), FB_WORKER_DEVICES, NULL, why));
    fb_worker_free(other);
    return fb_now_ns();
}

static const struct {
    const char *name;
    int64_t (*happens)(fb_worker *w);
    int weight;
    bool slowly;
} faults[] = {
    {"a kernel crashes", crashes, 2, false},
    {"a kernel exits", exits, 1, false},
    {"a kernel computes for ever", hangs, 1, false},
    {"a kernel waits for ever", waits, 1, false},
    {"a kernel writes into what is open", garbage, 2, false},
    {"a compiler crashes", compiler_crashes, 1, false},
    {"a process is stopped", stopped, 1, false},
    {"no more memory", out_of_memory, 2, false},
    {"bytes come one by one", slow_bytes, 1, true},
    {"another worker drips", drips, 1, false},
    {"a process is killed", killed, 8, false},
};

enum { KINDS = sizeof faults / sizeof *faults, SAMPLE = KINDS - 1, TRIES = 4 };

static int any_fault(void)
{
    int all = 0, k = 0;
    for (int i = 0; i < KINDS; i++) all += faults[i].weight;
    for (int at = below(all); at >= faults[k].weight; k++) at -= faults[k].weight;
    return k;
}

/* How long after it was noticed there was a right figure, in seconds. What was hit and had not shown is noticed then.
 */
static double after(int kind)
{
    char slowly[700];
    snprintf(slowly, sizeof slowly, "sh -c '%s | dd bs=1 2>/dev/null'", worker_path);
    fb_worker *w = fb_worker_new(NULL, faults[kind].slowly ? slowly : worker_path);
    int64_t noticed = faults[kind].happens(w);
    int tries = 0;
    while (!measures(w)) {
        noticed = fb_now_ns();
        if (++tries == TRIES) fail_msg("%s: nothing is measured after it: %s", faults[kind].name, last_why);
    }
    double took = (double)(fb_now_ns() - noticed) * 1e-9;
    no_zombie_stays();
    fb_worker_free(w);
    no_process_stays();
    no_file_stays();
    return took;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int from_environment(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && *text ? (int)strtol(text, NULL, 10) : otherwise;
}

static void after_each_fault_there_is_a_right_figure(void **unused)
{
    (void)unused;
    const char *full = getenv("FB_FULL");
    int n = from_environment("FB_FAULTS", full && *full ? FULL : SAMPLE), times[KINDS] = {0};
    double *took = calloc((size_t)n + 1, sizeof *took);
    state = (uint64_t)from_environment("FB_SEED", 1);
    for (number = 0; number < n; number++) {
        int kind = number < KINDS ? (int)number : any_fault(); /* each kind at least once */
        took[number] = after(kind);
        times[kind]++;
    }
    qsort(took, (size_t)n, sizeof *took, by_size);
    for (int k = 0; k < KINDS; k++) print_message("# %4d %s\n", times[k], faults[k].name);
    int late = 0;
    for (int i = 0; i < n; i++) late += took[i] > 3;
    print_message(
        "# %d faults: a right figure after %.2f s (median), %.2f s (99 %%), %.2f s (all); %d after more than 3 s\n", n,
        took[n / 2], took[n * 99 / 100], took[n - 1], late);
    free(took);
}

/* ---- */

/* What each marked kernel does; the host's own runtime is left alone. */
static void write_compiler(void)
{
    static const char text[] = "#!/bin/sh\n[ \"$1\" = --version ] && exec cc --version\nput() {\n"
                               "  grep -q \"$1\" \"$f\" || return\n  printf '%s\\n' \"$2\" >\"$f.start\"\n"
                               "  sed -i \"/^void .*_kernel(/{n;r $f.start\n}\" \"$f\"\n}\n"
                               "for f; do case $f in *.c) grep -q fb_team_threads \"$f\" || {\n"
                               "  put crashes '*(volatile int *)8 = 1;'\n"
                               "  put exits 'extern void _exit(int); _exit(0);'\n"
                               "  put hangs 'for (;;) __asm__ volatile(\"\");'\n"
                               "  put waits 'extern int pause(void); for (;;) pause();'\n"
                               "  put garbage 'extern long write(int, const void *, unsigned long); for (int d = 3; d "
                               "< 40; d++) write(d, \"\\\\1\\\\n{]\\\\n\", 6);'\n"
                               "  put gibberish 'extern long write(int, const void *, unsigned long); for (int d = 3; "
                               "d < 40; d++) write(d, \"x{\\\\0\", 3);'\n"
                               "  ! grep -q broken \"$f\" || kill -SEGV $$\n};; esac; done\nexec cc \"$@\"\n";
    static const char drip[] = "#!/bin/sh\necho '{\"type\":\"hello\",\"fusebox\":1,\"version\":\"0\",\"host\":\"h\","
                               "\"devices\":[],\"libraries\":[]}'\nwhile sleep 0.05; do printf x; done\n";
    assert_true(fb_write_file(in_scratch("cc"), text, sizeof text - 1, NULL));
    chmod(in_scratch("cc"), 0755);
    setenv("CC", in_scratch("cc"), 1);
    assert_true(fb_write_file(in_scratch("drips"), drip, sizeof drip - 1, NULL));
    chmod(in_scratch("drips"), 0755);
}

static int set_up(void **unused)
{
    ssize_t n = readlink("/proc/self/exe", worker_path, sizeof worker_path - 16);
    if (n < 0) return -1;
    worker_path[n] = '\0';
    strcpy(strrchr(worker_path, '/'), "/worker_main");
    if (make_scratch(unused) < 0) return -1;
    empty_cache(in_scratch("cache"));
    snprintf(own_tmp, sizeof own_tmp, "%s", in_scratch("tmp"));
    mkdir(own_tmp, 0700);
    setenv("TMPDIR", own_tmp, 1);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    write_compiler();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(after_each_fault_there_is_a_right_figure)};
    return cmocka_run_group_tests(tests, set_up, remove_scratch);
}
