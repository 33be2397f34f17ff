/* A workshop and its seats: what is shared, who waits, and what becomes of a seat that means ill. The workshop is the
 * command itself ($FUSEBOX), in a process of its own; seats are workers as the front knows them (fusebox seat --stdio),
 * or bare connections that say what they like. */
#include "plan_help.h"

#include "config.h"

#include "base/json.h"
#include "children.h"
#include "fault_cc.h"
#include "graph/graph_json.h"
#include "own_cache.h"
#include "plain_memory.h"
#include "scratch.h"
#include "worker/worker.h"
#include "workshop/admit.h"
#include "workshop/place.h"
#include "workshop/workshop.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 180000 }; /* the machine may be busy */

/* By how much the workshop's memory may differ, kB; a sanitizer's own is not looked at so closely. */
#ifdef FB_ASAN
enum { GROWTH_KB = 64 * 1024 };
#else
enum { GROWTH_KB = 8 * 1024 };
#endif

static const char *fusebox;
static char socket_path[256];

/* ---- the workshop ---- */

static pid_t server;

/* Until it listens: its socket is there a moment before. */
static void wait_for_server(void)
{
    fb_error err = {0};
    for (int i = 0; i < PATIENCE_MS / 10; i++) {
        int fd = fb_workshop_connect(socket_path, &err);
        if (fd >= 0) {
            close(fd);
            return;
        }
        usleep(10000);
    }
    fail_msg("the workshop did not begin: %s", err.text);
}

static void start_server(const char *const *more)
{
    const char *argv[16] = {fusebox, "workshop", "--device", "host", "--socket", socket_path};
    int n = 6;
    if (server > 0) { /* of a test that failed */
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
    }
    while (more && *more) argv[n++] = *more++;
    server = fork();
    if (server == 0) {
        plain_memory();
        int out = open(in_scratch("server.out"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(out, STDOUT_FILENO);
        execv(fusebox, (char *const *)argv);
        _exit(127);
    }
    wait_for_server();
}

/* Ends it; its last words, which count what it did. The caller frees. */
static char *stop_server(void)
{
    int status = 0;
    kill(server, SIGTERM);
    waitpid(server, &status, 0);
    server = 0;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    struct stat st;
    assert_int_not_equal(stat(socket_path, &st), 0);
    return fb_read_file(in_scratch("server.out"), 1 << 20, NULL, NULL);
}

static void stop(void)
{
    fb_free(stop_server());
}

/* Resident memory, kB. */
static long memory_of(pid_t pid)
{
    char path[64], line[256];
    long kb = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r"); /* of a size that is not told */
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmRSS:", 6) == 0) kb = atol(line + 6);
    if (f) fclose(f);
    assert_true(kb > 0);
    return kb;
}

/* ---- seats as the front knows them ---- */

typedef struct {
    fb_graph *g;
    fb_planner *planner;
    fb_plan *plan;
} subject;

/* `rows` makes graphs differ; `name` marks the kernel for fault_compiler. */
static subject subject_of(const char *name, int64_t rows)
{
    fb_graph *g = fb_graph_new(name);
    fb_id x = input(g, name, DIMS(rows, 40)), y = input(g, "y", DIMS(rows, 40));
    output(g, node1(g, FB_OP_RELU, "relu", node2(g, FB_OP_ADD, "op", x, y)));
    subject s = {.g = finish(g)};
    s.planner = planner_of(s.g, FB_DEVICE_HOST);
    s.plan = preset(s.planner, "max");
    return s;
}

static void subject_free(subject *s)
{
    fb_plan_free(s->plan);
    fb_planner_free(s->planner);
    fb_graph_free(s->g);
}

static fb_worker *seat(void)
{
    char command[1024];
    snprintf(command, sizeof command, "%s seat --stdio --at %s", fusebox, socket_path);
    return fb_worker_new(NULL, command);
}

static const fb_measure_options options = {.seeds = {1}, .n_seeds = 1};

static int64_t ask_prepare(fb_worker *w, const subject *s)
{
    return fb_worker_prepare(w, s->g, s->plan, "host", &options);
}

/* The next event of a request that is no progress; `progress`, if not NULL, gets what was said meanwhile. */
static fb_worker_event answer(fb_worker *w, int64_t id, fb_str *progress)
{
    fb_worker_event e;
    int64_t deadline = fb_now_ns() + PATIENCE_MS * 1000000ll;
    while (fb_now_ns() < deadline) {
        while (fb_worker_next(w, &e)) {
            if (e.id == id && e.kind != FB_WORKER_PROGRESS) return e;
            if (progress && e.kind == FB_WORKER_PROGRESS) fb_str_addf(progress, "%s\n", e.text);
            fb_worker_event_clear(&e);
        }
        struct pollfd fds[3];
        poll(fds, (nfds_t)fb_worker_poll(w, fds), 50);
        fb_worker_pump(w);
    }
    fail_msg("request %lld was never answered", (long long)id);
    return e;
}

static void expect(fb_worker *w, int64_t id, fb_worker_event_kind kind)
{
    fb_worker_event e = answer(w, id, NULL);
    if (e.kind != kind) fail_msg("an event of kind %d instead of %d: %s", (int)e.kind, (int)kind, e.error.text);
    fb_worker_event_clear(&e);
}

static void expect_error(fb_worker *w, int64_t id, fb_error_kind kind, const char *says)
{
    fb_worker_event e = answer(w, id, NULL);
    if (e.kind != FB_WORKER_ERROR || e.error.kind != kind || !strstr(e.error.text, says))
        fail_msg("kind %d, %s (%s), expected %s with \"%s\"", (int)e.kind, e.error.text,
                 fb_error_kind_name(e.error.kind), fb_error_kind_name(kind), says);
    fb_worker_event_clear(&e);
}

/* A seat that means well is served: prepared, sampled, checked, right. */
static void is_served(void)
{
    subject s = subject_of("x", 8);
    fb_worker *w = seat();
    int64_t id = ask_prepare(w, &s);
    expect(w, id, FB_WORKER_PREPARED);
    fb_worker_sample(w, id, 5, FB_CACHE_HOT, false);
    expect(w, id, FB_WORKER_SAMPLED);
    fb_worker_check(w, id, s.g, "host", &options);
    fb_worker_event e = answer(w, id, NULL);
    assert_int_equal(e.kind, FB_WORKER_CHECKED);
    assert_int_equal(e.report->error.state, FB_CHECK_RIGHT);
    assert_true(e.report->wall_us.n >= 5 && e.report->wall_us.median > 0);
    fb_worker_event_clear(&e);
    fb_worker_free(w);
    subject_free(&s);
}

/* ---- seats that say what they like ---- */

static fb_channel *bare(void)
{
    fb_error err = {0};
    int fd = fb_workshop_connect(socket_path, &err);
    if (fd < 0) fail_msg("%s", err.text);
    return fb_channel_new(fd, fd);
}

static void say(fb_channel *c, const char *line)
{
    fb_channel_send_bytes(c, line, strlen(line));
    fb_channel_send_bytes(c, "\n", 1);
    fb_channel_flush(c, PATIENCE_MS, NULL);
}

static void greet(fb_channel *c)
{
    say(c, "{\"type\":\"hello\",\"fusebox\":1,\"version\":\"x\"}");
}

/* The next line of that type, parsed; NULL: the connection ended first. */
static json_t *hear(fb_channel *c, const char *type)
{
    size_t n;
    for (const char *line; (line = fb_channel_wait_line(c, &n, PATIENCE_MS, NULL));) {
        json_t *m = fb_json_parse(line, n, NULL);
        if (strcmp(fb_json_string_or(m, "type", ""), type) == 0) return m;
        json_decref(m);
    }
    return NULL;
}

static void hears_error(fb_channel *c, const char *says)
{
    json_t *m = hear(c, "error");
    const char *text = fb_json_string_or(m, "text", "the connection ended");
    if (!strstr(text, says)) fail_msg("\"%s\", expected \"%s\"", text, says);
    json_decref(m);
}

static bool send_line(void *ctx, const char *text, size_t n)
{
    fb_channel_send_bytes(ctx, text, n);
    fb_channel_send_bytes(ctx, "\n", 1);
    return true;
}

static void send_graph(fb_channel *c, const fb_graph *g, const char *as)
{
    char hex[33];
    fb_channel_send(c, json_pack("{s:s, s:s}", "type", "graph", "hash", as ? as : fb_hash_hex(g->hash, hex)));
    fb_graph_write_lines(g, send_line, c);
    fb_channel_flush(c, PATIENCE_MS, NULL);
}

/* A message to prepare, to be spoilt. */
static json_t *prepare_message(const subject *s, int64_t id)
{
    char hex[33];
    return json_pack("{s:s, s:I, s:s, s:o, s:s, s:[i], s:b}", "type", "prepare", "id", (json_int_t)id, "graph",
                     fb_hash_hex(s->g->hash, hex), "plan", fb_plan_to_json(s->plan), "device", "host", "seeds", 1,
                     "counters", false);
}

/* ---- what a message may say ---- */

static void only_what_is_listed_is_taken(void **state)
{
    (void)state;
    static const char h[] = "0123456789abcdef0123456789abcdef";
    static const struct {
        const char *line, *says;
    } refused[] = {
        {"{\"type\":\"calibrate\",\"id\":1,\"device\":\"host\"}", "calibrated by whoever runs it"},
        {"{\"type\":\"quit\"}", "ended by whoever runs it"},
        {"{\"type\":\"forget\",\"hash\":\"x\"}", "takes no such message"},
        {"{\"type\":\"environment\",\"id\":1}", "takes no such message"},
        {"{\"type\":\"hello\",\"fusebox\":1,\"worker\":\"sh\"}", "takes no field \"worker\""},
        {"{\"type\":\"hello\",\"fusebox\":1,\"seat\":\"3\"}", "not a hash"},
        {"{\"type\":\"from\",\"name\":\"../ada\"}", "not a name"},
        {"{\"type\":\"from\",\"uid\":0}", "takes no field \"uid\""},
        {"{\"type\":\"devices\",\"id\":1,\"trust\":true}", "takes no field \"trust\""},
        {"{\"type\":\"sample\",\"id\":1,\"n\":1000000}", "n"},
        {"{\"type\":\"sample\",\"id\":0,\"n\":1}", "id"},
        {"{\"type\":\"sample\",\"id\":1,\"n\":1,\"cache\":\"warm\"}", "hot or cold"},
        {"{\"type\":\"graph\",\"hash\":\"../../../etc/passwd\"}", "not a name"},
        {"{\"type\":\"graph\",\"hash\":\"abc\"}", "not a hash"},
        {"{\"type\":\"file\",\"key\":\"/etc/passwd\",\"bytes\":8}", "not a name"},
        {"{\"type\":\"file\",\"key\":\"x\",\"bytes\":-1}", "bytes"},
        {"{\"type\":\"values\",\"id\":1,\"node\":\"$(id)\"}", "not a name"},
        {"{\"type\":\"predict\",\"puzzle\":\"a b\",\"chosen\":\"x\"}", "not a name"},
        {"{\"type\":\"predict\",\"puzzle\":\"p\",\"chosen\":\"x\",\"name\":\"Ada\"}", "takes no field"},
        {"[]", "type"},
        {"7", "type"},
        {"{", ""},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        fb_ask ask;
        fb_error err = {0};
        bool taken = fb_ask_read(refused[i].line, strlen(refused[i].line), &ask, &err);
        if (taken || !strstr(err.text, refused[i].says))
            fail_msg("%s: \"%s\", expected \"%s\"", refused[i].line, err.text, refused[i].says);
    }
    /* of a request to prepare, each thing that is no graph, plan or input */
    static const struct {
        const char *more, *plan, *says;
    } cases[] = {
        {"", "{\"groups\":[]}", NULL},
        {"", "{\"fusebox_plan\":1,\"launch\":\"stream\",\"groups\":[{\"nodes\":[\"f[*].x\"],\"knobs\":{\"warps\":4}}]}",
         NULL},
        {"\"sources\":{\"/k.c\":\"int x;\"},", "{\"groups\":[]}", "no kernels from files"},
        {"\"ahead\":true,", "{\"groups\":[]}", "no frameworks"},
        {"\"limit_s\":1e9,", "{\"groups\":[]}", "limits are its own"},
        {"\"cwd\":\"/\",", "{\"groups\":[]}", "takes no field \"cwd\""},
        {"", "{\"groups\":[{\"nodes\":[\"x\"],\"source\":\"/home/k.c\"}]}", "no kernels from files"},
        {"", "{\"groups\":[],\"source\":\"/home/k.c\"}", "no kernels from files"},
        {"", "{\"groups\":[{\"nodes\":[\"x\"],\"compiler\":\"sh\"}]}", "compiler"},
        {"", "{\"groups\":[{\"nodes\":[\"x; rm\"]}]}", "no name"},
        {"", "{\"groups\":[{\"nodes\":[\"x\"],\"knobs\":{\"warps\":\"4\"}}]}", "knob"},
        {"", "{\"groups\":[7]}", "no object"},
        {"", "\"max\"", "not by a name"},
        {"", "{}", "groups"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fb_ask ask;
        fb_error err = {0};
        fb_str line = {0};
        fb_str_addf(&line,
                    "{\"type\":\"prepare\",\"id\":1,\"graph\":\"%s\",\"device\":\"host\",\"seeds\":[1],%s\"plan\":%s}",
                    h, cases[i].more, cases[i].plan);
        bool taken = fb_ask_read(line.text, line.n, &ask, &err);
        if (cases[i].says ? taken || !strstr(err.text, cases[i].says) : !taken)
            fail_msg("%s: \"%s\", expected \"%s\"", line.text, err.text, cases[i].says ? cases[i].says : "taken");
        if (taken) fb_ask_clear(&ask);
        fb_str_free(&line);
    }
}

/* ---- sharing ---- */

static void equal_requests_are_measured_once(void **state)
{
    (void)state;
    enum { SEATS = 6, SAMPLES = 8 };
    subject s = subject_of("x", 8);
    fb_worker *w[SEATS];
    int64_t id[SEATS];
    start_server(NULL);
    for (int i = 0; i < SEATS; i++) {
        w[i] = seat();
        id[i] = ask_prepare(w[i], &s);
    }
    for (int i = 0; i < SEATS; i++) expect(w[i], id[i], FB_WORKER_PREPARED);
    for (int i = 0; i < SEATS; i++) fb_worker_sample(w[i], id[i], SAMPLES, FB_CACHE_HOT, false);
    for (int i = 0; i < SEATS; i++) {
        fb_worker_event e = answer(w[i], id[i], NULL);
        assert_int_equal(e.kind, FB_WORKER_SAMPLED);
        assert_int_equal(e.report->wall_us.n, SAMPLES); /* one request of the six was measured */
        assert_true(fb_json_number_or(e.message, "took_us", NAN) > 0);
        fb_worker_event_clear(&e);
    }
    for (int i = 0; i < SEATS; i++) fb_worker_check(w[i], id[i], s.g, "host", &options);
    for (int i = 0; i < SEATS; i++) expect(w[i], id[i], FB_WORKER_CHECKED);
    fb_worker_sample(w[0], id[0], 2, FB_CACHE_HOT, false); /* more than there are: two of its own */
    fb_worker_event e = answer(w[0], id[0], NULL);
    assert_int_equal(e.report->wall_us.n, SAMPLES + 2);
    fb_worker_event_clear(&e);
    /* all others have gone, and one that comes later is answered with what they had */
    for (int i = 0; i < SEATS; i++) fb_worker_free(w[i]);
    w[0] = seat();
    int64_t later = ask_prepare(w[0], &s);
    e = answer(w[0], later, NULL);
    assert_int_equal(e.kind, FB_WORKER_PREPARED);
    assert_int_equal(e.report->wall_us.n, SAMPLES + 2);
    assert_int_equal(e.report->error.state, FB_CHECK_RIGHT);
    fb_worker_event_clear(&e);
    /* who asks for it again wants it measured again */
    fb_worker_release(w[0], later);
    expect(w[0], later, FB_WORKER_RELEASED);
    later = ask_prepare(w[0], &s);
    e = answer(w[0], later, NULL);
    assert_int_equal(e.report->wall_us.n, 0);
    fb_worker_event_clear(&e);
    fb_worker_free(w[0]);
    subject_free(&s);
    char *said = stop_server();
    if (!strstr(said, " 2 measured,")) fail_msg("%s", said);
    fb_free(said);
}

/* Who waits is told how many are ahead; a seat that dies takes what it waited for along. */
static void who_waits_is_told(void **state)
{
    (void)state;
    enum { SEATS = 3 };
    subject s[SEATS] = {subject_of("slow_compile", 8), subject_of("x", 16), subject_of("x", 24)};
    fb_worker *w[SEATS];
    int64_t id[SEATS];
    fault_compiler(scratch, "slow_cc", "slow_compile", NULL, NULL, "sleep 1000");
    start_server(NULL);
    unsetenv("CC");
    fb_str progress = {0};
    for (int i = 0; i < SEATS; i++) {
        w[i] = seat();
        id[i] = ask_prepare(w[i], &s[i]);
        int64_t deadline = fb_now_ns() + PATIENCE_MS * 1000000ll;
        const char *says[] = {"compiling", "waiting, 1 ahead", "waiting, 2 ahead"};
        for (bool seen = false; !seen;) { /* each is in line before the next comes */
            fb_worker_event e;
            struct pollfd fds[3];
            if (fb_now_ns() > deadline) fail_msg("seat %d was not told \"%s\"", i, says[i]);
            poll(fds, (nfds_t)fb_worker_poll(w[i], fds), 50);
            fb_worker_pump(w[i]);
            while (fb_worker_next(w[i], &e)) {
                seen |= e.kind == FB_WORKER_PROGRESS && strstr(e.text, says[i]);
                fb_worker_event_clear(&e);
            }
        }
    }
    fb_worker_free(w[0]); /* and with it, what it had running */
    fb_worker_event e = answer(w[2], id[2], &progress);
    assert_int_equal(e.kind, FB_WORKER_PREPARED);
    assert_non_null(strstr(fb_str_get(&progress), "waiting, 1 ahead"));
    fb_worker_event_clear(&e);
    expect(w[1], id[1], FB_WORKER_PREPARED);
    fb_str_free(&progress);
    for (int i = 0; i < SEATS; i++) {
        if (i) fb_worker_free(w[i]);
        subject_free(&s[i]);
    }
    stop();
}

static void hears_that_it_waits(fb_channel *c, const char *says)
{
    json_t *m = hear(c, "progress");
    assert_string_equal(fb_json_string_or(m, "what", "the connection ended"), says);
    json_decref(m);
}

/* Who comes is behind all who wait, so that nobody waits for ever where others come and go. */
static void who_comes_is_last(void **state)
{
    (void)state;
    enum { SEATS = 3 };
    fb_device_lock lock;
    fb_error err = {0};
    fb_channel *c[SEATS];
    subject s[SEATS];
    start_server(NULL);
    for (int i = 0; i < SEATS; i++) {
        s[i] = subject_of("x", 8 * (i + 1));
        if (i == 2) break;
        c[i] = bare();
        greet(c[i]);
        send_graph(c[i], s[i].g, NULL);
        fb_channel_send(c[i], prepare_message(&s[i], 1));
        json_decref(hear(c[i], "prepared"));
    }
    if (!fb_lock_enter(&lock, "host", &err)) fail_msg("%s", err.text);
    while (fb_lock_ahead(&lock) > 0) usleep(1000);
    say(c[1], "{\"type\":\"sample\",\"id\":1,\"n\":3}");
    hears_that_it_waits(c[1], "waiting, 1 ahead"); /* for the lock: it is its turn */
    say(c[0], "{\"type\":\"sample\",\"id\":1,\"n\":3}");
    hears_that_it_waits(c[0], "waiting, 1 ahead");
    c[2] = bare();
    greet(c[2]);
    send_graph(c[2], s[2].g, NULL);
    fb_channel_send(c[2], prepare_message(&s[2], 1));
    hears_that_it_waits(c[2], "waiting, 2 ahead");
    fb_lock_leave(&lock);
    for (int i = 0; i < SEATS; i++) {
        json_t *m = hear(c[i], i < 2 ? "sampled" : "prepared");
        assert_non_null(m);
        json_decref(m);
        fb_channel_free(c[i]);
        subject_free(&s[i]);
    }
    stop();
}

/* A case of its own for each, so that no two requests are one. */
static subject with_a_case(fb_channel *c, int id, int64_t rows)
{
    subject s = subject_of("x", rows);
    send_graph(c, s.g, NULL);
    fb_channel_send(c, prepare_message(&s, id));
    json_decref(hear(c, "prepared"));
    return s;
}

/* How many answers of that type are there by now, without waiting. */
static int heard_by_now(fb_channel *c, const char *type)
{
    size_t n;
    int found = 0;
    fb_channel_pump(c, NULL);
    for (const char *line; (line = fb_channel_line(c, &n));) {
        json_t *m = fb_json_parse(line, n, NULL);
        found += strcmp(fb_json_string_or(m, "type", ""), type) == 0;
        json_decref(m);
    }
    return found;
}

/* A request that has begun is let end, however long it takes; who had the device for so long is then passed over, and
 * the others have a turn more. */
static void who_takes_long_waits_longer(void **state)
{
    (void)state;
    enum { SEATS = 3, CASES = 2, HELD_MS = 3500 };
    const char *const more[] = {"--limit", "turn_s=0", NULL};
    fb_device_lock lock;
    fb_error err = {0};
    fb_channel *c[SEATS];
    subject s[SEATS][CASES];
    char line[100];
    start_server(more);
    for (int i = 0; i < SEATS; i++) {
        c[i] = bare();
        greet(c[i]);
        for (int k = 0; k < CASES; k++) s[i][k] = with_a_case(c[i], k + 1, 8 * (i * CASES + k + 1));
    }
    if (!fb_lock_enter(&lock, "host", &err)) fail_msg("%s", err.text);
    while (fb_lock_ahead(&lock) > 0) usleep(1000);
    say(c[0], "{\"type\":\"sample\",\"id\":1,\"n\":3}"); /* it has the device, as long as it takes */
    hears_that_it_waits(c[0], "waiting, 1 ahead");
    for (int i = SEATS - 1; i >= 0; i--) {
        for (int id = i ? 1 : 2; id <= CASES; id++) {
            snprintf(line, sizeof line, "{\"type\":\"sample\",\"id\":%d,\"n\":200}", id);
            say(c[i], line);
        }
        say(c[i], "{\"type\":\"devices\",\"id\":9}");
        json_decref(hear(c[i], "devices")); /* so all that was asked before waits */
    }
    usleep(HELD_MS * 1000);
    fb_lock_leave(&lock);
    for (int k = 0; k < CASES; k++) { /* its first request, and its second after both of the others' */
        json_t *m = hear(c[0], "sampled");
        assert_non_null(m);
        json_decref(m);
    }
    for (int i = 1; i < SEATS; i++) assert_int_equal(heard_by_now(c[i], "sampled"), CASES);
    for (int i = 0; i < SEATS; i++) {
        fb_channel_free(c[i]);
        for (int k = 0; k < CASES; k++) subject_free(&s[i][k]);
    }
    stop();
}

/* A kernel that kills its process is its seat's trouble: the others' cases are prepared again by themselves. */
static void a_fault_costs_the_others_one_try(void **state)
{
    (void)state;
    const char *const more[] = {"--limit", "faults=2", "--limit", "pause_s=100", NULL};
    subject good = subject_of("x", 8), bad = subject_of("faulty", 16), worse = subject_of("faulty", 24);
    fault_compiler(scratch, "crash_cc", "faulty", "    *(volatile int *)8 = 1;", NULL, NULL);
    start_server(more);
    unsetenv("CC");
    fb_worker *a = seat(), *b = seat();
    int64_t id = ask_prepare(a, &good);
    expect(a, id, FB_WORKER_PREPARED);
    fb_worker_check(a, id, good.g, "host", &options);
    expect(a, id, FB_WORKER_CHECKED);
    expect_error(b, ask_prepare(b, &bad), FB_ERR_CRASH, "SIGSEGV");
    fb_worker_sample(a, id, 5, FB_CACHE_HOT, false);
    fb_worker_event e = answer(a, id, NULL);
    if (e.kind != FB_WORKER_SAMPLED) fail_msg("%s", e.error.text);
    assert_int_equal(e.report->wall_us.n, 5);
    assert_int_equal(e.report->error.state, FB_CHECK_RIGHT); /* checked again before it was told */
    fb_worker_event_clear(&e);
    expect_error(b, ask_prepare(b, &worse), FB_ERR_CRASH, "SIGSEGV");
    expect_error(b, ask_prepare(b, &good), FB_ERR_LIMIT, "it may ask again in");
    fb_worker_sample(a, id, 5, FB_CACHE_COLD, false);
    expect(a, id, FB_WORKER_SAMPLED);
    fb_worker_free(a);
    fb_worker_free(b);
    subject_free(&good);
    subject_free(&bad);
    subject_free(&worse);
    stop();
}

/* Somebody who holds the device's lock holds up one request, for as long as a request may take; who dies with it,
 * nobody. */
static void a_lock_is_outlived(void **state)
{
    (void)state;
    const char *const more[] = {"--limit", "run_s=1", NULL};
    subject s = subject_of("x", 8);
    fb_device_lock lock;
    fb_error err = {0};
    start_server(more);
    fb_worker *w = seat();
    int64_t id = ask_prepare(w, &s);
    expect(w, id, FB_WORKER_PREPARED);
    if (!fb_lock_enter(&lock, "host", &err)) fail_msg("%s", err.text);
    while (fb_lock_ahead(&lock) > 0) usleep(1000);
    fb_worker_sample(w, id, 3, FB_CACHE_HOT, false);
    expect_error(w, id, FB_ERR_LIMIT, "stopped after 1 s, a limit of the workshop: waiting, 1 ahead");
    fb_lock_leave(&lock);
    is_served();
    pid_t holder = fork();
    if (holder == 0) {
        if (fb_lock_enter(&lock, "host", NULL)) raise(SIGKILL);
        _exit(0);
    }
    waitpid(holder, NULL, 0);
    is_served();
    fb_worker_free(w);
    subject_free(&s);
    stop();
}

/* What one has given up, and is being stopped, is begun anew for who asks next, be it the same seat. */
static void who_asks_after_a_cancel_is_answered(void **state)
{
    (void)state;
    subject s = subject_of("x", 8);
    fb_device_lock lock;
    fb_error err = {0};
    start_server(NULL);
    fb_channel *c = bare();
    greet(c);
    send_graph(c, s.g, NULL);
    fb_channel_send(c, prepare_message(&s, 1));
    json_decref(hear(c, "prepared"));
    if (!fb_lock_enter(&lock, "host", &err)) fail_msg("%s", err.text);
    while (fb_lock_ahead(&lock) > 0) usleep(1000);
    say(c, "{\"type\":\"sample\",\"id\":1,\"n\":3}");
    json_decref(hear(c, "progress")); /* it runs, and waits for the lock */
    say(c, "{\"type\":\"cancel\",\"id\":1}\n{\"type\":\"sample\",\"id\":1,\"n\":4}");
    hears_error(c, "cancelled");
    fb_lock_leave(&lock);
    json_t *m = hear(c, "sampled");
    assert_non_null(m);
    json_decref(m);
    fb_channel_free(c);
    subject_free(&s);
    stop();
}

/* ---- two devices ---- */

/* Stands in for the worker of a machine with two GPUs: fusebox's own, whose host goes by both their names. */
typedef struct {
    fb_channel *front;
    fb_child worker;
    char device[16]; /* that was last asked for */
} two_gpus;

/* "cuda:0" becomes "host", and is remembered; lines of graphs have no device. */
static void ask_host(two_gpus *t, const char *line, size_t n)
{
    json_t *m = fb_json_parse(line, n, NULL);
    const char *device = fb_json_string_or(m, "device", NULL);
    if (device) snprintf(t->device, sizeof t->device, "%s", device);
    if (device) json_object_set_new(m, "device", json_string("host"));
    fb_channel_send(t->worker.channel, m);
}

static json_t *both_of(const json_t *list)
{
    json_t *both = json_array(), *entry;
    size_t i;
    json_array_foreach(list, i, entry)
    {
        if (strcmp(fb_json_string_or(entry, "device", ""), "host") != 0) continue;
        for (int k = 0; k < 2; k++) {
            json_t *gpu = json_copy(entry);
            json_object_set_new(gpu, "device", json_string(k ? "cuda:1" : "cuda:0"));
            json_array_append_new(both, gpu);
        }
    }
    return both;
}

static void answer_as_gpu(two_gpus *t, const char *line, size_t n)
{
    json_t *m = fb_json_parse(line, n, NULL), *list = json_object_get(m, "devices");
    json_t *report = json_object_get(m, "report");
    if (list) json_object_set_new(m, "devices", both_of(list));
    if (report) json_object_set_new(report, "device", json_string(t->device));
    fb_channel_send(t->front, m);
}

static int stand_in_main(void)
{
    two_gpus t = {.front = fb_channel_new(0, 1)};
    char *argv[] = {getenv("FUSEBOX"), (char[]){"worker"}, NULL};
    bool open = fb_child_start(&t.worker, argv, NULL, NULL, -1, NULL);
    while (open) {
        struct pollfd fds[4];
        size_t n;
        int k = fb_channel_poll(t.front, fds);
        poll(fds, (nfds_t)(k + fb_channel_poll(t.worker.channel, fds + k)), -1);
        open = fb_channel_pump(t.front, NULL) && fb_channel_pump(t.worker.channel, NULL);
        for (const char *line; (line = fb_channel_line(t.front, &n));) ask_host(&t, line, n);
        for (const char *line; (line = fb_channel_line(t.worker.channel, &n));) answer_as_gpu(&t, line, n);
        fb_channel_flush(t.front, 0, NULL);
        fb_channel_flush(t.worker.channel, 0, NULL);
    }
    fb_child_kill(&t.worker);
    return 0;
}

/* A workshop that shares both, in a process of its own. */
static void start_two_gpus(void)
{
    static const char *const devices[] = {"cuda:0", "cuda:1"};
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    server = fork();
    if (server == 0) {
        fb_workshop_options o = {.self = self,
                                 .devices = devices,
                                 .n_devices = 2,
                                 .socket = socket_path,
                                 .limits = fb_workshop_limits_default()};
        fb_workshop *w = fb_workshop_new(&o, NULL);
        while (w && !fb_workshop_error(w)->kind) {
            struct pollfd fds[FB_WORKSHOP_FDS];
            int ms, k = fb_workshop_poll(w, fds, &ms);
            poll(fds, (nfds_t)k, ms < 0 || ms > 1000 ? 1000 : ms);
            fb_workshop_pump(w);
        }
        _exit(1);
    }
    wait_for_server();
}

/* A greeted connection, and the device that it was given. */
static fb_channel *given(const char *device)
{
    fb_channel *c = bare();
    greet(c);
    json_t *hello = hear(c, "hello"), *list = json_object_get(hello, "devices");
    assert_int_equal(json_array_size(list), 2); /* both are there to be named */
    assert_string_equal(fb_json_string_or(json_array_get(list, 0), "device", ""), device);
    json_decref(hello);
    return c;
}

/* A seat stays on the device that was least in use when it came; both work at once; what is equal is measured once on
 * each, and a figure says which it is of. */
static void two_devices_are_shared(void **state)
{
    (void)state;
    subject s = subject_of("x", 8), slow = subject_of("slow_compile", 8);
    fault_compiler(scratch, "slow_cc2", "slow_compile", NULL, NULL, "sleep 1000");
    start_two_gpus();
    unsetenv("CC");
    fb_channel *first = given("cuda:0"), *second = given("cuda:1"), *third = given("cuda:0");
    fb_channel_free(second);
    say(first, "{\"type\":\"devices\",\"id\":1}");
    json_decref(hear(first, "devices")); /* so it has heard of the other's end */
    second = given("cuda:1");
    fb_channel_free(second);
    fb_channel_free(third);

    fb_worker *a = seat(), *b = seat(), *c = seat();
    int64_t id[] = {fb_worker_prepare(a, s.g, s.plan, "cuda:0", &options),
                    fb_worker_prepare(b, s.g, s.plan, "cuda:1", &options), 0};
    expect(a, id[0], FB_WORKER_PREPARED);
    fb_worker_sample(a, id[0], 5, FB_CACHE_HOT, false);
    expect(a, id[0], FB_WORKER_SAMPLED);
    fb_worker_event e = answer(b, id[1], NULL);
    assert_int_equal(e.kind, FB_WORKER_PREPARED);
    assert_string_equal(e.report->device, "cuda:1");
    assert_int_equal(e.report->wall_us.n, 0); /* the other's samples are not of this one */
    fb_worker_event_clear(&e);
    id[2] = fb_worker_prepare(c, s.g, s.plan, "cuda:0", &options);
    e = answer(c, id[2], NULL);
    assert_string_equal(e.report->device, "cuda:0");
    assert_int_equal(e.report->wall_us.n, 5); /* … but these are */
    fb_worker_event_clear(&e);

    send_graph(first, slow.g, NULL); /* one device is busy, the other is not */
    json_t *m = prepare_message(&slow, 9);
    json_object_set_new(m, "device", json_string("cuda:0"));
    fb_channel_send(first, m);
    json_decref(hear(first, "progress"));
    fb_worker_sample(b, id[1], 3, FB_CACHE_HOT, false);
    expect(b, id[1], FB_WORKER_SAMPLED);
    fb_channel_free(first);
    fb_worker_free(a);
    fb_worker_free(b);
    fb_worker_free(c);
    subject_free(&s);
    subject_free(&slow);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    server = 0;
    unlink(socket_path);
}

/* ---- seats that mean ill ---- */

/* Whoever was the first to send values under a key cannot have them measured as somebody else's, nor read by those who
 * have not sent the same. `first` has sent a key "rows". */
static void measures_own_values(fb_channel *first)
{
    fb_error err = {0};
    fb_graph *g = fb_graph_new("file");
    fb_attrs file = {.dtype = FB_F32, .shape = {.rank = 2, .dim = {1, 1}}, .dist = FB_DIST_FILE, .file = "rows"};
    fb_id rows = fb_graph_add(g, FB_OP_INPUT, NULL, 0, &file, "rows", 1, &err);
    assert_int_not_equal(rows, FB_NONE);
    output(g, node1(g, FB_OP_RELU, "relu", rows));
    subject s = {.g = finish(g)};
    s.planner = planner_of(s.g, FB_DEVICE_HOST);
    s.plan = preset(s.planner, "max");
    fb_channel *other = bare();
    greet(other);
    send_graph(other, s.g, NULL);
    fb_channel_send(other, prepare_message(&s, 1));
    hears_error(other, "this seat has not sent the values of rows that the workshop has");
    say(other, "{\"type\":\"file\",\"key\":\"rows\",\"bytes\":8}");
    fb_channel_send_bytes(other, "abcdefgh", 8);
    fb_channel_send(other, prepare_message(&s, 2));
    hears_error(other, "other values were sent as rows before");
    hears_error(other, "this seat has not sent the values of rows");
    say(other, "{\"type\":\"file\",\"key\":\"rows\",\"bytes\":8}");
    fb_channel_send_bytes(other, "12345678", 8);
    fb_channel_send(other, prepare_message(&s, 3));
    json_t *m = hear(other, "prepared");
    assert_non_null(m);
    json_decref(m);
    fb_channel_free(other);
    send_graph(first, s.g, NULL);
    fb_channel_send(first, prepare_message(&s, 4));
    json_decref(hear(first, "prepared"));
    subject_free(&s);
}

static void nobody_is_another(void **state)
{
    (void)state;
    subject s = subject_of("x", 8), t = subject_of("x", 16);
    start_server(NULL);
    fb_worker *a = seat();
    int64_t id = ask_prepare(a, &s);
    expect(a, id, FB_WORKER_PREPARED);
    fb_channel *b = bare();
    greet(b);
    char line[200];
    const char *of_a_case[] = {"sample\",\"n\":5,", "trace\",\"metrics\":false,", "values\",\"node\":\"relu\","};
    for (int i = 0; i < 3; i++) {
        snprintf(line, sizeof line, "{\"type\":\"%s\"id\":%lld}", of_a_case[i], (long long)id);
        say(b, line);
        hears_error(b, "is not prepared");
    }
    snprintf(line, sizeof line, "{\"type\":\"cancel\",\"id\":%lld}", (long long)id);
    say(b, line);
    snprintf(line, sizeof line, "{\"type\":\"release\",\"id\":%lld}", (long long)id);
    say(b, line);
    json_decref(hear(b, "released"));
    fb_channel_send(b, prepare_message(&s, 1)); /* a graph that only the other has sent */
    hears_error(b, "was not sent");
    send_graph(b, t.g, "00000000000000000000000000000000"); /* … or under another's name */
    hears_error(b, "a graph was announced as");
    /* values under a key that another has given values to */
    say(b, "{\"type\":\"file\",\"key\":\"rows\",\"bytes\":8}");
    fb_channel_send_bytes(b, "12345678", 8);
    say(b, "{\"type\":\"file\",\"key\":\"rows\",\"bytes\":8}");
    fb_channel_send_bytes(b, "87654321", 8);
    hears_error(b, "other values were sent as rows before");
    measures_own_values(b);
    fb_worker_sample(a, id, 5, FB_CACHE_HOT, false);
    expect(a, id, FB_WORKER_SAMPLED);
    fb_channel_free(b);
    fb_worker_free(a);
    subject_free(&s);
    subject_free(&t);
    stop();
}

static void files_environment_and_kernels_are_refused(void **state)
{
    (void)state;
    subject s = subject_of("x", 8);
    start_server(NULL);
    fb_channel *c = bare();
    say(c, "{\"type\":\"devices\",\"id\":1}");
    hears_error(c, "devices came before hello");
    greet(c);
    json_t *hello = hear(c, "hello");
    assert_non_null(hello);
    assert_int_equal(json_array_size(json_object_get(hello, "libraries")), 0); /* no paths of this machine */
    assert_string_equal(fb_json_string_or(hello, "host", ""), "workshop");
    json_decref(hello);
    say(c, "{\"type\":\"file\",\"key\":\"../../../../etc/passwd\",\"bytes\":0}");
    hears_error(c, "not a name");
    say(c, "{\"type\":\"environment\",\"id\":3}");
    hears_error(c, "environment is refused");
    say(c, "{\"type\":\"calibrate\",\"id\":3,\"device\":\"host\"}");
    hears_error(c, "calibrate is refused");
    say(c, "{\"type\":\"quit\"}");
    hears_error(c, "quit is refused");
    send_graph(c, s.g, NULL);
    json_t *m = prepare_message(&s, 7);
    json_object_set_new(m, "sources", json_pack("{s:s}", "/tmp/kernel.c", "void f(void) { system(\"id\"); }"));
    fb_channel_send(c, m);
    hears_error(c, "no kernels from files");
    m = prepare_message(&s, 7);
    json_array_append_new(json_object_get(json_object_get(m, "plan"), "groups"),
                          json_pack("{s:[s], s:s}", "nodes", "relu", "source", "/tmp/kernel.c"));
    fb_channel_send(c, m);
    hears_error(c, "no kernels from files");
    m = prepare_message(&s, 7);
    json_object_set_new(m, "device", json_string("replay:../../x"));
    fb_channel_send(c, m);
    hears_error(c, "not a name");
    m = prepare_message(&s, 7);
    json_object_set_new(m, "device", json_string("replay:h200"));
    fb_channel_send(c, m);
    hears_error(c, "shares no device");
    fb_channel_send(c, prepare_message(&s, 7)); /* and after all this it may still measure */
    m = hear(c, "prepared");
    assert_non_null(m);
    json_decref(m);
    fb_channel_free(c);
    subject_free(&s);
    stop();
}

static void garbage_is_outlived(void **state)
{
    (void)state;
    start_server(NULL);
    uint64_t key = fb_rng_key((uint64_t)fb_now_ns(), "garbage");
    char bytes[4096];
    for (int round = 0; round < 20; round++) {
        fb_channel *c = bare();
        if (round % 2) greet(c);
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)fb_rng_bits(key, (uint64_t)round * sizeof bytes + i);
        fb_channel_send_bytes(c, bytes, sizeof bytes);
        fb_channel_flush(c, 1000, NULL);
        fb_channel_free(c);
    }
    fb_channel *half = bare(), *longest = bare(), *graph = bare();
    greet(half);
    fb_channel_send_bytes(half, "{\"type\":\"sam", 12); /* and nothing after it, ever */
    fb_channel_flush(half, 1000, NULL);
    greet(graph);
    say(graph, "{\"type\":\"graph\",\"hash\":\"0123456789abcdef0123456789abcdef\"}");
    say(graph, "{\"fusebox_graph\":1,\"n_nodes\":100000000}");
    hears_error(graph, "at most 20000 nodes");
    say(graph, "{\"id\":0}"); /* the rest of it, passed over */
    say(graph, "{\"type\":\"devices\",\"id\":9}");
    json_t *devices = hear(graph, "devices");
    assert_non_null(devices);
    json_decref(devices);
    greet(longest);
    char *line = fb_calloc(1, (size_t)3 << 20);
    memset(line, 'x', ((size_t)3 << 20) - 1);
    fb_channel_send_bytes(longest, line, (size_t)3 << 20);
    fb_channel_flush(longest, 5000, NULL);
    fb_free(line);
    json_t *why = hear(longest, "error");
    assert_true(!why || strstr(fb_json_string_or(why, "text", ""), "longer than"));
    json_decref(why);
    assert_null(hear(longest, "error")); /* it was closed */
    is_served();
    fb_channel_free(half);
    fb_channel_free(longest);
    fb_channel_free(graph);
    stop();
}

/* Requests without end, from one that reads no answers: the others are served meanwhile, in no more memory. */
static void a_flood_is_outlived(void **state)
{
    (void)state;
    const long requests = getenv("FB_FULL") ? 1000000 : 50000;
    start_server(NULL);
    is_served();
    long before = memory_of(server);
    pid_t flooder = fork();
    if (flooder == 0) {
        fb_channel *c = bare();
        greet(c);
        for (long i = 1; i <= requests; i++) {
            char line[80];
            int n = snprintf(line, sizeof line, "{\"type\":\"sample\",\"id\":%ld,\"n\":4096}\n", i);
            fb_channel_send_bytes(c, line, (size_t)n);
            if (i % 100 == 0 && !fb_channel_flush(c, PATIENCE_MS, NULL)) _exit(0); /* closed */
        }
        pause();
    }
    is_served();
    long after = memory_of(server);
    if (after > before + 64 * 1024) fail_msg("from %ld to %ld kB", before, after);
    kill(flooder, SIGKILL);
    waitpid(flooder, NULL, 0);
    is_served();
    stop();
}

/* Says and hears so many requests, a batch at a time; 0 when each was answered. */
static int ask_and_hear(long requests)
{
    enum { BATCH = 1000 };
    size_t n;
    long heard = 0;
    fb_channel *c = bare();
    greet(c);
    for (long said = 0; said < requests;) {
        for (int i = 0; i < BATCH; i++, said++) {
            char line[64];
            fb_channel_send_bytes(c, line,
                                  (size_t)snprintf(line, sizeof line, "{\"type\":\"release\",\"id\":%ld}\n", said + 1));
        }
        if (!fb_channel_flush(c, PATIENCE_MS, NULL)) return 1;
        while (heard < said) {
            const char *line = fb_channel_wait_line(c, &n, PATIENCE_MS, NULL);
            if (!line) return 2;
            heard += strstr(line, "\"released\"") != NULL;
        }
    }
    return 0;
}

/* Of one that asks on and on as fast as it is answered, every request is answered, and who asks beside it is served
 * (each answer within PATIENCE_MS, and how long it took is told). The rate that limits it is raised as far as it goes.
 */
static void a_million_requests_are_outlived(void **state)
{
    (void)state;
    const long requests = getenv("FB_FULL") ? 1000000 : 20000;
    const char *const more[] = {"--limit", "messages=100000", NULL};
    start_server(more);
    is_served();
    long before = memory_of(server);
    pid_t asker = fork();
    if (asker == 0) _exit(ask_and_hear(requests));
    int status = -1, others = 0;
    double longest = 0, begun = fb_now_us();
    do {
        double since = fb_now_us();
        is_served();
        longest = fmax(longest, (fb_now_us() - since) * 1e-6);
        others++;
    } while (waitpid(asker, &status, WNOHANG) == 0);
    long after = memory_of(server);
    print_message("# %ld requests in %.1f s; %d others were served meanwhile, after %.2f s at most; %ld kB, then %ld\n",
                  requests, (fb_now_us() - begun) * 1e-6, others, longest, before, after);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    if (after > before + GROWTH_KB) fail_msg("from %ld to %ld kB", before, after);
    stop();
}

/* What the workshop writes to disk for a seat is counted and bounded, by what it wrote and by what it would write;
 * nobody else pays for it, and what somebody else had measured is still told. */
static void disk_is_bounded(void **state)
{
    (void)state;
    enum { MOST = 40 };
    const char *const more[] = {"--limit", "disk_mb=0.3", NULL};
    start_server(more);
    fb_worker *a = seat(), *b = seat();
    subject large = subject_of("x", 4096); /* a reference of 12 bytes an element of 4096 × 40 */
    expect_error(a, ask_prepare(a, &large), FB_ERR_LIMIT,
                 "its reference takes 2.0 MB of disk: this seat may have 300 kB");
    int i = 0, prepared = 0;
    for (bool refused = false; i < MOST && !refused; i++) {
        subject s = subject_of("x", 96 + i);
        int64_t id = ask_prepare(a, &s);
        fb_worker_event e = answer(a, id, NULL);
        refused = e.kind == FB_WORKER_ERROR;
        prepared += !refused;
        if (refused && !strstr(e.error.text, "of disk")) fail_msg("%s", e.error.text);
        fb_worker_event_clear(&e);
        if (!refused) { /* so its reference is there, whatever was compiled before */
            fb_worker_check(a, id, s.g, "host", &options);
            expect(a, id, FB_WORKER_CHECKED);
        }
        fb_worker_release(a, id);
        subject_free(&s);
    }
    assert_in_range(prepared, 1, MOST - 1);
    subject other = subject_of("x", 80);
    expect(b, ask_prepare(b, &other), FB_WORKER_PREPARED); /* another seat has its own */
    fb_worker_free(a);
    a = seat(); /* whoever it is now, what was measured it is told */
    expect(a, ask_prepare(a, &other), FB_WORKER_PREPARED);
    fb_worker_free(a);
    fb_worker_free(b);
    subject_free(&large);
    subject_free(&other);
    char *said = stop_server();
    if (!strstr(said, " lost, ") || strstr(said, " lost, 0 B kept")) fail_msg("%s", said);
    fb_free(said);
}

/* Predictions are rows of a file, so a seat that changes its mind for ever is stopped. */
static void predictions_are_bounded(void **state)
{
    (void)state;
    char file[256];
    snprintf(file, sizeof file, "%s", in_scratch("many.jsonl"));
    const char *const more[] = {"--out", file, "--limit", "disk_mb=0.001", NULL};
    start_server(more);
    fb_channel *c = bare();
    greet(c);
    for (int i = 0; i < 40; i++)
        say(c, i % 2 ? "{\"type\":\"predict\",\"puzzle\":\"p\",\"chosen\":\"a\"}"
                     : "{\"type\":\"predict\",\"puzzle\":\"p\",\"chosen\":\"b\"}");
    hears_error(c, "of disk were written for this seat, which may have 1.0 kB");
    fb_channel_free(c);
    stop();
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    assert_true(st.st_size > 500 && st.st_size < 4000);
}

/* A connection that says who it is for, as `seat --stdio` does, greeted; `id`: as an earlier one was told. */
static fb_channel *comes(const char *name, const char *origin, const char *id)
{
    fb_channel *c = bare();
    fb_channel_send(c, json_pack("{s:s, s:s*, s:s*}", "type", "from", "name", name, "origin", origin));
    fb_channel_send(c, json_pack("{s:s, s:i, s:s*}", "type", "hello", "fusebox", FB_PROTOCOL_VERSION, "seat", id));
    fb_channel_flush(c, PATIENCE_MS, NULL);
    return c;
}

/* What it may write is used up: it predicts until that is said. */
static void uses_up(fb_channel *c)
{
    for (int i = 0; i < 40; i++)
        say(c, i % 2 ? "{\"type\":\"predict\",\"puzzle\":\"p\",\"chosen\":\"a\"}"
                     : "{\"type\":\"predict\",\"puzzle\":\"p\",\"chosen\":\"b\"}");
    hears_error(c, "of disk were written for this seat");
}

static bool may_predict(fb_channel *c)
{
    say(c, "{\"type\":\"predict\",\"puzzle\":\"q\",\"chosen\":\"a\"}\n{\"type\":\"devices\",\"id\":9}");
    size_t n;
    bool refused = false, answered = false;
    for (const char *line; !answered && (line = fb_channel_wait_line(c, &n, PATIENCE_MS, NULL));) {
        json_t *m = fb_json_parse(line, n, NULL);
        refused |= strstr(fb_json_string_or(m, "text", ""), "of disk were written") != NULL;
        answered = strcmp(fb_json_string_or(m, "type", ""), "devices") == 0;
        json_decref(m);
    }
    assert_true(answered);
    return !refused;
}

/* It has left once the workshop says so to somebody else: another may have its place then. */
static void leaves(fb_channel *c, fb_channel *other)
{
    fb_channel_free(c);
    for (int i = 0; i < 2; i++) {
        say(other, "{\"type\":\"devices\",\"id\":8}");
        json_decref(hear(other, "devices"));
    }
}

/* What is counted of a seat is counted on when it comes again, however it comes; and of nobody else. */
static void who_comes_back_is_who_it_was(void **state)
{
    (void)state;
    const char *const more[] = {"--limit", "disk_mb=0.001",          "--limit", "windows=2",
                                "--out",   in_scratch("back.jsonl"), NULL};
    start_server(more);
    fb_channel *c, *bob = comes("bob", NULL, NULL);
    /* by the name of its key */
    c = comes("ada", "192.0.2.1", NULL);
    uses_up(c);
    leaves(c, bob);
    c = comes("ada", "192.0.2.2", NULL);
    assert_false(may_predict(c));
    assert_true(may_predict(bob));
    fb_channel *second = comes("ada", NULL, NULL), *third = comes("ada", NULL, NULL);
    hears_error(third, "ada has as many seats of the workshop as one may have (2)");
    assert_null(hear(third, "error"));
    say(bob, "{\"type\":\"from\",\"name\":\"cleo\"}"); /* whose forced command says bob */
    hears_error(bob, "said by its connection, not by the seat");
    fb_channel_free(second);
    fb_channel_free(third);
    leaves(c, bob);
    /* by what it was told */
    c = comes(NULL, "192.0.2.3", NULL);
    json_t *hello = hear(c, "hello");
    const char *id = fb_json_string_or(hello, "seat", "");
    assert_int_equal(strlen(id), 32);
    uses_up(c);
    fb_channel *beside = comes(NULL, "192.0.2.3", NULL); /* another, from the same place at the same time */
    assert_true(may_predict(beside));
    leaves(c, bob);
    c = comes(NULL, "192.0.2.4", id);
    assert_false(may_predict(c));
    leaves(c, bob);
    /* by where it comes from, if it says nothing */
    c = comes(NULL, "192.0.2.3", NULL);
    assert_false(may_predict(c));
    fb_channel *elsewhere = comes(NULL, "192.0.2.5", NULL);
    assert_true(may_predict(elsewhere));
    /* what was told to one is of no use once another sits there, nor is what was made up */
    fb_channel *again = comes(NULL, "192.0.2.6", id), *made_up = comes("bob", NULL, "0123456789abcdef0123456789abcdef");
    assert_true(may_predict(again));
    json_decref(hello);
    fb_channel_free(made_up);
    fb_channel_free(again);
    fb_channel_free(elsewhere);
    fb_channel_free(beside);
    fb_channel_free(c);
    fb_channel_free(bob);
    stop();
}

/* Of those who left, the first are forgotten, and never who has just come. */
static void more_come_than_are_remembered(void **state)
{
    (void)state;
    enum { COME = 1040 }; /* a thousand are remembered */
    start_server(NULL);
    fb_channel *first = comes("first", NULL, NULL);
    for (int i = 0; i < COME; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        fb_channel *c = comes(name, NULL, NULL);
        json_decref(hear(c, "hello"));
        fb_channel_free(c);
    }
    assert_true(may_predict(first));
    fb_channel *last = comes("last", NULL, NULL);
    assert_true(may_predict(last));
    fb_channel_free(last);
    fb_channel_free(first);
    stop();
}

/* A child of this process that is no workshop: what carries a seat's line. */
static pid_t line_of_a_seat(void)
{
    pid_t all[64], found = 0;
    int n = 0;
    add_children(getpid(), all, 64, &n);
    for (int i = 0; i < n; i++)
        if (all[i] != server) found = all[i];
    return found;
}

/* A front whose line was cut says who it was: what it predicts then takes the place of what it predicted before. */
static void a_lost_line_is_no_other_seat(void **state)
{
    (void)state;
    start_server(NULL);
    fb_channel *other = bare();
    greet(other); /* it would sit in the place that was left */
    fb_worker *w = seat();
    const char *chosen[] = {"bytes", "launches"};
    for (int i = 0; i < 2; i++) {
        expect(w, fb_worker_devices(w, false), FB_WORKER_DEVICES);
        fb_worker_tell(w, json_pack("{s:s, s:s, s:s}", "type", "predict", "puzzle", "p", "chosen", chosen[i]));
        expect(w, fb_worker_devices(w, false), FB_WORKER_DEVICES); /* it has been heard */
        if (i) break;
        pid_t line = line_of_a_seat();
        assert_true(line > 0);
        kill(line, SIGKILL);
        for (bool lost = false; !lost;) { /* what was asked before that is noticed is lost with it */
            fb_worker_event e = answer(w, fb_worker_devices(w, false), NULL);
            lost = e.kind == FB_WORKER_ERROR;
            fb_worker_event_clear(&e);
        }
    }
    fb_worker_free(w);
    fb_channel_free(other);
    char *said = stop_server();
    if (!strstr(said, "p: 1 prediction\n") || !strstr(said, "launches         1")) fail_msg("%s", said);
    fb_free(said);
}

static void hears_limit(fb_channel *c, int id, const char *says)
{
    json_t *m = hear(c, "error");
    if (!strstr(fb_json_string_or(m, "text", ""), says) || fb_json_int_or(m, "id", -1) != id)
        fail_msg("%lld: \"%s\", expected %d: \"%s\"", (long long)fb_json_int_or(m, "id", -1),
                 fb_json_string_or(m, "text", ""), id, says);
    assert_string_equal(fb_json_string_or(m, "kind", ""), "limit");
    json_decref(m);
}

/* What a seat may have at a time, and how long a request may take: each beyond its limit is told which. */
static void limits_are_held(void **state)
{
    (void)state;
    const char *const more[] = {"--limit",  "memory_mb=1", "--limit",     "cases=1", "--limit",
                                "queued=2", "--limit",     "prepare_s=1", NULL};
    subject slow = subject_of("slow_compile", 8), large = subject_of("x", 8192);
    fault_compiler(scratch, "slow_cc3", "slow_compile", NULL, NULL, "sleep 1000");
    start_server(more);
    unsetenv("CC");
    fb_channel *c = bare(), *sender = bare();
    char hex[33], line[200];
    greet(c);
    send_graph(c, large.g, NULL);
    fb_channel_send(c, prepare_message(&large, 1));
    hears_limit(c, 1, "and a workshop takes 1: make its parameters smaller");
    send_graph(c, slow.g, NULL);
    fb_channel_send(c, prepare_message(&slow, 2));
    fb_channel_send(c, prepare_message(&slow, 3));
    for (int id = 4; id < 6; id++) {
        snprintf(line, sizeof line,
                 "{\"type\":\"search\",\"id\":%d,\"graph\":\"%s\",\"device\":\"host\",\"seeds\":[%d]}", id,
                 fb_hash_hex(slow.g->hash, hex), id);
        say(c, line);
    }
    hears_limit(c, 3, "a seat has at most 1 cases at a time");
    hears_limit(c, 5, "more than 2 requests of a seat wait");
    hears_limit(c, 2, "stopped after 1 s, a limit of the workshop");
    greet(sender);
    say(sender, "{\"type\":\"file\",\"key\":\"k\",\"bytes\":100000000}");
    hears_limit(sender, 0, "a seat sends at most 64 MB of values");
    assert_null(hear(sender, "error")); /* it was closed */
    fb_channel_free(c);
    fb_channel_free(sender);
    subject_free(&slow);
    subject_free(&large);
    stop();
}

static void seats_come_and_go_in_the_same_memory(void **state)
{
    (void)state;
    enum { WARM = 10, ROUNDS = 40 };
    subject s = subject_of("x", 8);
    start_server(NULL);
    long before = 0;
    for (int i = 0; i < WARM + ROUNDS; i++) {
        fb_channel *c = bare();
        greet(c);
        send_graph(c, s.g, NULL);
        fb_channel_send(c, prepare_message(&s, 1));
        if (i % 3) { /* else it is gone before there is an answer */
            json_t *m = hear(c, "prepared");
            assert_non_null(m);
            json_decref(m);
        }
        fb_channel_free(c);
        if (i == WARM) before = memory_of(server);
    }
    is_served();
    long after = memory_of(server);
    if (after > before + GROWTH_KB) fail_msg("from %ld to %ld kB", before, after);
    subject_free(&s);
    stop();
}

/* A seat that was greeted: a place may take a moment to be free. */
static fb_channel *seated(void)
{
    for (int i = 0; i < PATIENCE_MS / 20; i++) {
        fb_channel *c = bare();
        greet(c);
        json_t *hello = hear(c, "hello");
        if (hello) {
            json_decref(hello);
            return c;
        }
        fb_channel_free(c);
        usleep(20000);
    }
    fail_msg("every seat stays taken");
    return NULL;
}

static void only_so_many_seats(void **state)
{
    (void)state;
    const char *const more[] = {"--limit", "seats=2", NULL};
    start_server(more);
    fb_channel *a = seated(), *b = seated(), *c = bare();
    hears_error(c, "every seat of the workshop is taken");
    fb_channel_free(c);
    fb_channel_free(a);
    c = seated();
    fb_channel_free(b);
    fb_channel_free(c);
    stop();
}

/* Mode 0600; and where the mode was changed, another user is still another user. */
static void the_socket_is_this_users(void **state)
{
    (void)state;
    struct stat st;
    start_server(NULL);
    assert_int_equal(stat(socket_path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    fb_error err = {0};
    char path[256];
    assert_int_equal(fb_workshop_listen(socket_path, path, sizeof path, &err), -1);
    assert_non_null(strstr(err.text, "open at"));
    if (geteuid() == 0) {
        chmod(socket_path, 0666);
        chmod(scratch, 0755);
        pid_t other = fork();
        if (other == 0) {
            if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
            int fd = fb_workshop_connect(socket_path, NULL);
            char byte;
            _exit(fd >= 0 && read(fd, &byte, 1) == 0 ? 0 : 1); /* closed, without a word */
        }
        int status = 1;
        waitpid(other, &status, 0);
        assert_int_equal(status, 0);
    }
    is_served();
    stop();
}

/* What a class expects, counted by seats and kept as results; the last choice of a seat counts. */
static void predictions_are_counted(void **state)
{
    (void)state;
    char file[256];
    snprintf(file, sizeof file, "%s", in_scratch("predictions.jsonl"));
    const char *const more[] = {"--out", file, NULL};
    start_server(more);
    fb_channel *c[3];
    const char *chosen[] = {"bytes", "launches", "bytes"};
    for (int i = 0; i < 3; i++) {
        char line[120];
        c[i] = bare();
        greet(c[i]);
        snprintf(line, sizeof line, "{\"type\":\"predict\",\"puzzle\":\"split_stack\",\"chosen\":\"%s\",\"guess\":3}",
                 chosen[i]);
        say(c[i], line);
    }
    say(c[0], "{\"type\":\"predict\",\"puzzle\":\"split_stack\",\"chosen\":\"launches\"}");
    for (int i = 0; i < 3; i++) { /* it has heard all before it answers */
        say(c[i], "{\"type\":\"devices\",\"id\":1}");
        json_decref(hear(c[i], "devices"));
        fb_channel_free(c[i]);
    }
    char *said = stop_server();
    if (!strstr(said, "split_stack: 3 predictions") || !strstr(said, "bytes            1") ||
        !strstr(said, "launches         2"))
        fail_msg("%s", said);
    fb_free(said);
    char *rows = fb_read_file(file, 1 << 20, NULL, NULL);
    assert_non_null(rows);
    assert_non_null(strstr(rows, "\"chosen\":\"bytes\""));
    assert_non_null(strstr(rows, "\"puzzle\":\"split_stack\""));
    fb_free(rows);
}

static int set_up(void **state)
{
    fusebox = getenv("FUSEBOX");
    if (!fusebox || !*fusebox) fusebox = "./fusebox";
    if (make_scratch(state) != 0) return -1;
    own_cache(in_scratch("cache"));
    snprintf(socket_path, sizeof socket_path, "%s/socket", scratch);
    fb_json_init();
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "worker") == 0) return stand_in_main();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_listed_is_taken),
        cmocka_unit_test(equal_requests_are_measured_once),
        cmocka_unit_test(who_waits_is_told),
        cmocka_unit_test(who_comes_is_last),
        cmocka_unit_test(who_takes_long_waits_longer),
        cmocka_unit_test(a_fault_costs_the_others_one_try),
        cmocka_unit_test(a_lock_is_outlived),
        cmocka_unit_test(who_asks_after_a_cancel_is_answered),
        cmocka_unit_test(two_devices_are_shared),
        cmocka_unit_test(nobody_is_another),
        cmocka_unit_test(files_environment_and_kernels_are_refused),
        cmocka_unit_test(garbage_is_outlived),
        cmocka_unit_test(a_flood_is_outlived),
        cmocka_unit_test(a_million_requests_are_outlived),
        cmocka_unit_test(limits_are_held),
        cmocka_unit_test(disk_is_bounded),
        cmocka_unit_test(predictions_are_bounded),
        cmocka_unit_test(who_comes_back_is_who_it_was),
        cmocka_unit_test(more_come_than_are_remembered),
        cmocka_unit_test(a_lost_line_is_no_other_seat),
        cmocka_unit_test(seats_come_and_go_in_the_same_memory),
        cmocka_unit_test(only_so_many_seats),
        cmocka_unit_test(the_socket_is_this_users),
        cmocka_unit_test(predictions_are_counted),
    };
    return cmocka_run_group_tests(tests, set_up, remove_scratch);
}
