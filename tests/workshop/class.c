/* A class: seats that come, press keys at random, measure, say what they like, are killed and lose their lines, all at
 * one workshop. What has to hold: who measures gets a right result or is told why not, nobody waits for ever, and the
 * workshop stays there in the same memory.
 *
 * A few seconds with a few seats; FB_FULL=1: ten minutes with thirty. FB_CLASS_SEATS, FB_CLASS_SECONDS and
 * FB_CLASS_DEVICE (what they share) say otherwise. Speaks TAP; $FUSEBOX is the command. */
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    SEATS_MOST = 64,
    TICK_MS = 50,
    PATIENCE_S = 300, /* a seat that waits longer, on however busy a machine, waits for ever */
    GROWTH_KB = 64 * 1024,
};

typedef enum { WORKBENCH, RUN, NOISE, KINDS } seat_kind;

typedef struct {
    seat_kind kind;
    pid_t pid; /* 0: nobody sits there */
    int fd;    /* pty or socket; -1 */
    double since_s;
    char out[256];
} seat;

static const char *fusebox, *device;
static char folder[64], socket_path[100], script[128], keys_file[128];
static seat seats[SEATS_MOST];
static pid_t server;
static long measured, refused, killed, wrong, stuck, pressed;
static uint64_t random_state;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static unsigned any_of(unsigned n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % n;
}

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void note(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fputs("# ", stdout);
    vprintf(format, ap);
    putchar('\n');
    fflush(stdout);
    va_end(ap);
}

/* ---- processes ---- */

static _Noreturn void become(const char *const *argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execv(fusebox, (char *const *)argv);
    _exit(127);
}

static bool start_server(void)
{
    char path[256];
    snprintf(path, sizeof path, "%s/server.out", folder);
    server = fork();
    if (server == 0) {
        int out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(out, 1);
        dup2(out, 2);
        become((const char *const[]){fusebox, "workshop", "--device", device, "--socket", socket_path, NULL});
    }
    struct stat st;
    for (int i = 0; i < 6000; i++) {
        if (stat(socket_path, &st) == 0) return true;
        usleep(10000);
    }
    return false;
}

static long memory_of(pid_t pid)
{
    char path[64], line[256];
    long kb = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmRSS:", 6) == 0) kb = atol(line + 6);
    if (f) fclose(f);
    return kb;
}

/* ---- seats ---- */

static void sit_at_workbench(seat *s)
{
    struct winsize size = {.ws_row = (unsigned short)(20 + any_of(20)), .ws_col = (unsigned short)(70 + any_of(60))};
    s->pid = forkpty(&s->fd, NULL, NULL, &size);
    if (s->pid == 0) {
        setenv("TERM", "xterm-256color", 1);
        become((const char *const[]){fusebox, "seat", "--at", socket_path, "--predictions", script, NULL});
    }
    fcntl(s->fd, F_SETFD, FD_CLOEXEC);
    fcntl(s->fd, F_SETFL, O_NONBLOCK);
}

/* One of a few cases, so that seats share some. */
static void sit_and_run(seat *s)
{
    char rows[32];
    snprintf(rows, sizeof rows, "rows=%u", 8 * (1 + any_of(3)));
    snprintf(s->out, sizeof s->out, "%s/out.%d", folder, (int)(s - seats));
    s->pid = fork();
    if (s->pid == 0) {
        int out = open(s->out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(out, 1);
        dup2(out, 2);
        become((const char *const[]){fusebox, "seat", "--at", socket_path, "run", script, "max", "none", "--set", rows,
                                     "--format", "json", NULL});
    }
}

static void make_noise(seat *s)
{
    static const char *const lines[] = {
        "{\"type\":\"hello\",\"fusebox\":1}\n{\"type\":\"calibrate\",\"id\":1}\n", "GET / HTTP/1.0\n\n",
        "{\"type\":\"hello\",\"fusebox\":1}\n{\"type\":\"graph\",\"hash\":\"0123456789abcdef0123456789abcdef\"}\n{"
        "\"id\":1",
        "{\"type\":\"hello\",\"fusebox\":1}\n{\"type\":\"file\",\"key\":\"x\",\"bytes\":100000}\nabc"};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", socket_path);
    s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connect(s->fd, (struct sockaddr *)&a, sizeof a) != 0) return;
    char bytes[2000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)any_of(256);
    const char *line = lines[any_of(sizeof lines / sizeof *lines)];
    if (any_of(2))
        send(s->fd, bytes, sizeof bytes, MSG_NOSIGNAL);
    else
        send(s->fd, line, strlen(line), MSG_NOSIGNAL);
}

static void sit_down(seat *s)
{
    unsigned which = any_of(10);
    *s = (seat){.kind = which < 5 ? WORKBENCH : which < 9 ? RUN : NOISE, .fd = -1, .since_s = now_s()};
    if (s->kind == WORKBENCH) sit_at_workbench(s);
    if (s->kind == RUN) sit_and_run(s);
    if (s->kind == NOISE) make_noise(s);
}

static void press_key(seat *s)
{
    static const char *const keys[] = {"j", "k",    " ", "u", "U", "h", "l",  "m", "v", "2", "1", "d", "\t", "w",
                                       "?", "\033", "g", "G", "[", "]", "\r", "p", "s", "a", "x", "C", "\f", "y"};
    const char *key = keys[any_of(sizeof keys / sizeof *keys)];
    if (write(s->fd, key, strlen(key)) > 0) pressed++;
    char screen[4096];
    while (read(s->fd, screen, sizeof screen) > 0) continue;
}

static void stand_up(seat *s)
{
    if (s->fd >= 0) close(s->fd); /* a line that is lost */
    if (s->pid > 0) {
        kill(s->pid, SIGKILL);
        waitpid(s->pid, NULL, 0);
    }
    s->pid = 0;
    s->fd = -1;
    killed++;
}

static bool holds(const char *path, const char *text)
{
    static char all[1 << 20];
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(all, 1, sizeof all - 1, f) : 0;
    if (f) fclose(f);
    all[n] = '\0';
    return strstr(all, text) != NULL;
}

static void show(const char *path)
{
    char line[300];
    FILE *f = fopen(path, "r");
    for (int i = 0; f && i < 12 && fgets(line, sizeof line, f); i++) printf("# %s", line);
    if (f) fclose(f);
}

/* It ended by itself: with right results, or with a sentence. */
static void look_at_end(seat *s, int status)
{
    s->pid = 0;
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
    if (s->kind != RUN) return;
    bool fine = WIFEXITED(status) && WEXITSTATUS(status) == 0 && holds(s->out, "\"ok\": true") &&
                holds(s->out, "\"wall_us\"") && !holds(s->out, "\"ok\": false");
    if (fine) {
        measured++;
    } else if (WIFEXITED(status) && WEXITSTATUS(status) < 4 && holds(s->out, "fusebox: ") &&
               !holds(s->out, "wrong result")) {
        refused++;
        note("a seat was refused:");
        show(s->out);
    } else {
        wrong++;
        note("a seat ended with status %x:", status);
        show(s->out);
    }
}

static void tick(seat *s)
{
    int status;
    if (s->pid > 0 && waitpid(s->pid, &status, WNOHANG) == s->pid) look_at_end(s, status);
    if (s->pid == 0 && s->fd < 0) {
        sit_down(s);
        return;
    }
    if (s->kind == WORKBENCH && s->fd >= 0 && any_of(3) == 0) press_key(s);
    unsigned odds = s->kind == NOISE ? 20 : s->kind == WORKBENCH ? 400 : 600;
    if (any_of(odds) == 0) stand_up(s);
    if (s->kind == RUN && s->pid > 0 && now_s() - s->since_s > PATIENCE_S) {
        stuck++;
        note("a seat waits for ever:");
        show(s->out);
        stand_up(s);
    }
}

/* ---- the class ---- */

static int number_of(const char *name, int usual, int full)
{
    const char *given = getenv(name);
    return given && *given ? atoi(given) : getenv("FB_FULL") ? full : usual;
}

static void report(int number, bool ok, const char *name)
{
    printf("%sok %d - %s\n", ok ? "" : "not ", number, name);
    fflush(stdout);
}

static void set_up(void)
{
    const char *tmp = getenv("TMPDIR");
    char path[256];
    snprintf(folder, sizeof folder, "%.30s/fusebox-class-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) _exit(99);
    snprintf(socket_path, sizeof socket_path, "%s/socket", folder);
    snprintf(script, sizeof script, "%s/class.lua", folder);
    FILE *f = fopen(script, "w");
    fputs("local fb = require \"fusebox\"\nreturn fb.script {\n  params = { rows = fb.int { 8 } },\n  variants = {\n"
          "    a = function(g, p) return g:input(\"x\", { p.rows, 32 }):tanh():sum(-1):relu() end,\n"
          "    b = function(g, p) return g:input(\"x\", { p.rows, 32 }):sum(-1):relu() end,\n  },\n"
          "  puzzle = { compare = { \"a:none\", \"b:max\" }, ask = \"Why?\", tell = \"So.\",\n"
          "    choices = { { \"launches\", \"fewer launches\" }, { \"bytes\", \"fewer bytes\" } },\n"
          "    answer = function(why) return why:largest() end },\n}\n",
          f);
    fclose(f);
    snprintf(keys_file, sizeof keys_file, "%s/keys", folder);
    f = fopen(keys_file, "w");
    fputs("1 l j Enter @idle q q\n", f); /* an answer, a guess, and see */
    fclose(f);
    snprintf(path, sizeof path, "%s/cache", folder);
    setenv("XDG_CACHE_HOME", path, 1);
    snprintf(path, sizeof path, "%s/state", folder);
    setenv("XDG_STATE_HOME", path, 1);
    setenv("HOME", folder, 1);
    setenv("EDITOR", "true", 1);
    unsetenv("VISUAL");
    if (chdir(folder) != 0) _exit(99);
}

/* A seat that only measures, when all is over. */
static bool is_served(void)
{
    seat *s = &seats[0];
    *s = (seat){.kind = RUN, .fd = -1, .since_s = now_s()};
    sit_and_run(s);
    for (int status; now_s() - s->since_s < PATIENCE_S; usleep(20000)) {
        if (waitpid(s->pid, &status, WNOHANG) != s->pid) continue;
        long before = measured;
        look_at_end(s, status);
        return measured > before;
    }
    stand_up(s);
    return false;
}

/* One that predicts, before any other has. */
static void predict(void)
{
    seat s = {.kind = WORKBENCH, .fd = -1};
    s.pid = forkpty(&s.fd, NULL, NULL, &(struct winsize){.ws_row = 40, .ws_col = 120});
    if (s.pid == 0) {
        setenv("TERM", "xterm-256color", 1);
        become((const char *const[]){fusebox, "seat", "--at", socket_path, "--predictions", "--keys", keys_file, script,
                                     NULL});
    }
    fcntl(s.fd, F_SETFL, O_NONBLOCK);
    char screen[4096];
    int status;
    for (double since = now_s(); now_s() - since < PATIENCE_S && waitpid(s.pid, &status, WNOHANG) == 0; usleep(10000))
        while (read(s.fd, screen, sizeof screen) > 0) continue;
    close(s.fd);
    kill(s.pid, SIGKILL);
    waitpid(s.pid, &status, WNOHANG);
}

/* A lecturer's terminal: the page is drawn as a terminal takes it, and C-c ends the workshop. */
static bool is_drawn(void)
{
    static char all[1 << 16];
    size_t n = 0;
    int fd, status = -1;
    pid_t pid = forkpty(&fd, NULL, NULL, &(struct winsize){.ws_row = 24, .ws_col = 80});
    if (pid == 0) become((const char *const[]){fusebox, "workshop", "--device", device, "--socket", socket_path, NULL});
    fcntl(fd, F_SETFL, O_NONBLOCK);
    bool drawn = false;
    for (double since = now_s(); now_s() - since < PATIENCE_S && waitpid(pid, &status, WNOHANG) == 0; usleep(10000)) {
        ssize_t k = read(fd, all + n, sizeof all - 1 - n);
        if (k > 0) n += (size_t)k;
        all[n] = '\0';
        bool now = strstr(all, "\033[H") && strstr(all, "C-c ends it") && strstr(all, "0 seats");
        if (now && !drawn && write(fd, "\003", 1) == 1) drawn = true;
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, WNOHANG);
    close(fd);
    return drawn && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(void)
{
    int n = number_of("FB_CLASS_SEATS", 4, 30), seconds = number_of("FB_CLASS_SECONDS", 4, 600);
    const char *seed = getenv("FB_SEED");
    fusebox = getenv("FUSEBOX");
    device = getenv("FB_CLASS_DEVICE");
    if (!device || !*device) device = "host";
    if (!fusebox || fusebox[0] != '/') {
        puts("1..0 # SKIP FUSEBOX does not name the command");
        return 0;
    }
    random_state = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    note("%d seats for %d s, FB_SEED=%llu", n, seconds, (unsigned long long)random_state);
    set_up();
    if (n > SEATS_MOST) n = SEATS_MOST;
    signal(SIGPIPE, SIG_IGN);
    bool there = start_server() && is_served();
    predict();
    long early = 0, late = 0;
    double begun = now_s();
    for (double said = begun; now_s() - begun < seconds;) {
        for (int i = 0; i < n; i++) tick(&seats[i]);
        if (!early && now_s() - begun > seconds / 3.0) early = memory_of(server);
        if (now_s() - said > 30) {
            said = now_s();
            note("%.0f s: %ld measured, %ld refused, %ld killed, %ld keys, workshop %ld kB", said - begun, measured,
                 refused, killed, pressed, memory_of(server));
        }
        usleep(TICK_MS * 1000);
    }
    for (int i = 0; i < n; i++) stand_up(&seats[i]);
    bool served = is_served();
    late = memory_of(server);
    int status = -1;
    bool alive = waitpid(server, &status, WNOHANG) == 0;
    kill(server, SIGTERM);
    if (alive) waitpid(server, &status, 0);
    note("%ld measured, %ld refused, %ld killed, %ld keys; the workshop had %ld kB, then %ld", measured, refused,
         killed, pressed, early, late);
    char path[256];
    snprintf(path, sizeof path, "%s/server.out", folder);
    show(path);
    report(1, there, "a seat is served");
    report(2, wrong == 0, "no seat gets a wrong result or ends without a word");
    report(3, stuck == 0, "none waits for ever");
    report(4, alive && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the workshop outlives them");
    report(5, served, "and serves who comes then");
    report(6, late < early + GROWTH_KB, "in no more memory");
    report(7, holds(path, "class: ") && holds(path, " prediction"), "what a workbench predicted has arrived");
    report(8, is_drawn(), "a terminal shows it, until C-c");
    puts("1..8");
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 ? 0 : 1;
}
