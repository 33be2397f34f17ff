/* Hours in the workbench in seconds: random keys, sizes true and false, a script that is saved again and again, right
 * and broken, and processes of it that are killed at any moment. In the end it still answers, ends well, and leaves no
 * process; its memory is flat.
 *
 *     FB_SOAK_SECONDS   how long, 5 by default; from 60 on memory is looked at
 *     FB_SEED           which keys; told with a failure
 *
 * Under the address sanitizer (--enable-asan) that is two hours' work for FB_SOAK_SECONDS=7200. */
#include "../unit/children.h"
#include "../unit/plain_memory.h"
#include "expect.h"

#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { MOST_PROCESSES = 64, MEGABYTE = 1 << 20 };
enum { LOOKED_AT = 60 }; /* seconds from which on memory is */

static char folder[] = "/tmp/fb-soak-XXXXXX";
static char cache[96], state[96], script[128];
static uint64_t seed;

static int any(int n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)n);
}

/* All that moves, opens, edits and measures; nothing that leaves, writes a file or starts an editor. */
static const char *const keys[] = {"j",
                                   "k",
                                   "h",
                                   "l",
                                   "g",
                                   "G",
                                   "PgDn",
                                   "PgUp",
                                   "Tab",
                                   "S-Tab",
                                   "Space",
                                   "Space",
                                   "Space",
                                   "u",
                                   "u",
                                   "C-r",
                                   "[",
                                   "]",
                                   "v",
                                   "1",
                                   "2",
                                   "3",
                                   "m",
                                   "a",
                                   "c",
                                   "X",
                                   "K",
                                   "+",
                                   "_",
                                   "-",
                                   "=",
                                   "x",
                                   "w",
                                   "S",
                                   "F",
                                   "P",
                                   "Enter",
                                   "Enter",
                                   "Esc",
                                   "Esc",
                                   "J",
                                   "?",
                                   "n",
                                   "N",
                                   "<",
                                   ">",
                                   "#",
                                   "C-l",
                                   "C-g",
                                   "/ \"relu\" Enter",
                                   "A \"none\" Enter",
                                   "A \"max@host\" Enter",
                                   "; \"n=96\" Enter",
                                   "; \"n=nothing\" Enter",
                                   "p \"eager\" Enter",
                                   ": \"no such\" Enter"};

/* Two that are right, one whose names are others, and one that does not compile. */
static void save_script(int which)
{
    static const char *const models[] = {
        "return g:input('x', { p.n, 48 }):relu():tanh():exp():sum(1)",
        "local x = g:input('x', { p.n, 48 }); return (x:tanh() * x):mean(0)",
        "local y = g:input('other', { 48, p.n }); return y:exp(), y:t() + 1",
        "return g:input('x', { p.n, 48 }:relu()",
    };
    FILE *f = fopen(script, "w");
    assert_non_null(f);
    fprintf(f,
            "local fb = require 'fusebox'\n"
            "return fb.script { params = { n = fb.int { 64, min = 16, max = 256, step = 'x2' } },\n"
            "  model = function(g, p) %s end, columns = { 'none', 'max' } }\n",
            models[which]);
    fclose(f);
}

/* ---- its processes --------------------------------------------------------------------------------------------------
 */

/* Children and theirs. */
static int processes_of(pid_t front, pid_t all[MOST_PROCESSES])
{
    int n = 0;
    add_children(front, all, MOST_PROCESSES, &n);
    for (int i = 0; i < n && n < MOST_PROCESSES; i++) add_children(all[i], all, MOST_PROCESSES, &n);
    return n;
}

static void kill_one(pid_t front)
{
    static const int how[] = {SIGKILL, SIGKILL, SIGSEGV, SIGTERM};
    pid_t all[MOST_PROCESSES];
    int n = processes_of(front, all);
    if (n) kill(all[any(n)], how[any(4)]);
}

static long resident(pid_t of)
{
    char path[64];
    long pages = 0, all;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)of);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%ld %ld", &all, &pages) != 2) pages = 0;
    if (f) fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

/* Some process was started with our folder in its environment, and still runs. */
static bool anyone_left(void)
{
    DIR *d = opendir("/proc");
    bool found = false;
    for (struct dirent *e; !found && d && (e = readdir(d));) {
        static char text[1 << 16];
        char path[300];
        if (*e->d_name < '1' || *e->d_name > '9' || atoi(e->d_name) == (int)getpid()) continue;
        snprintf(path, sizeof path, "/proc/%s/environ", e->d_name);
        FILE *f = fopen(path, "r");
        size_t n = f ? fread(text, 1, sizeof text, f) : 0;
        if (f) fclose(f);
        found = memmem(text, n, folder, strlen(folder)) != NULL;
    }
    if (d) closedir(d);
    return found;
}

/* ---- the soak -------------------------------------------------------------------------------------------------------
 */

static void another_size(term *t)
{
    static const int lies[][2] = {{0, 0}, {1, 1}, {65535, 65535}, {0, 80}, {24, 0}, {4000, 2}};
    if (any(3)) {
        term_resize(t, 1 + any(60), 1 + any(200));
        return;
    }
    int k = any(sizeof lies / sizeof *lies);
    term_claim(t, lies[k][0], lies[k][1]);
    term_rest(t, 20, 200);
}

/* The last keys before the workbench went, for whoever has to find out why. */
enum { LAST_KEYS = 12 };
static const char *last_keys[LAST_KEYS];
static int sent;

static void send_any_keys(term *t)
{
    enum { KEYS = sizeof keys / sizeof *keys };
    const char *now = keys[any(KEYS)];
    last_keys[sent++ % LAST_KEYS] = now;
    term_keys(t, now);
}

/* What it said, and how it came to that: 180 s of waiting for a screen would tell neither. */
static void must_live(term *t)
{
    if (!term_ended(t)) return;
    term_rest(t, 100, 1000);
    fprintf(stderr, "%s# keys before it ended:", term_screen(t));
    for (int i = sent < LAST_KEYS ? 0 : sent - LAST_KEYS; i < sent; i++)
        fprintf(stderr, " %s", last_keys[i % LAST_KEYS]);
    fail_msg("the workbench ended with status %#x", (unsigned)term_end(t, 0));
}

static void one_turn(term *t)
{
    int what = any(100);
    if (what < 90)
        send_any_keys(t);
    else if (what < 93)
        another_size(t);
    else if (what < 96)
        save_script(any(4));
    else if (what < 98)
        kill_one(term_pid(t));
    else
        term_rest(t, 30, 300);
    if (any(8) == 0) term_rest(t, 2, 50);
    must_live(t);
}

static void nothing_wears_it_down(void **unused)
{
    (void)unused;
    const char *asked = getenv("FB_SOAK_SECONDS"), *which = getenv("FB_SEED");
    double seconds = asked ? atof(asked) : 5;
    seed = which ? strtoull(which, NULL, 10) : (uint64_t)time(NULL);
    print_message("# FB_SEED=%llu\n", (unsigned long long)seed);
    if (seconds >= LOOKED_AT) plain_memory();
    save_script(0);
    const char *env[] = {cache, state, NULL};
    const char *argv[] = {getenv("FUSEBOX") ? getenv("FUSEBOX") : "./fusebox", script, "--device", "host", NULL};
    term *t = term_start(30, 100, env, argv);
    must_show(t, "graph · ");
    if (seconds >= LOOKED_AT) { /* the most that a screen ever takes, before memory is looked at first */
        term_claim(t, 65535, 65535);
        term_rest(t, 100, 2000);
    }
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    long early = 0;
    for (double spent = 0; spent < seconds; spent = (double)(now.tv_sec - begun.tv_sec)) {
        for (int i = 0; i < 20; i++) one_turn(t);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (!early && spent > seconds / 3) early = resident(term_pid(t));
    }
    long late = resident(term_pid(t));
    print_message("# resident: %ld MB, then %ld MB\n", early / MEGABYTE, late / MEGABYTE);
    if (seconds >= LOOKED_AT) assert_true(late < early + early / 2 + 64 * MEGABYTE);
    term_resize(t, 30, 100);
    save_script(1);
    term_keys(t, "Esc Esc Esc Esc Esc Esc Esc Esc @wait : \"help\" Enter g");
    must_show(t, "Fusing and cutting");
    quit(t);
    for (int i = 0; i < 300 && anyone_left(); i++) usleep(100000);
    assert_false(anyone_left());
}

static int set_up(void **unused)
{
    (void)unused;
    if (!own_folder_of(folder, cache)) return -1;
    snprintf(state, sizeof state, "XDG_STATE_HOME=%s/state", folder);
    snprintf(script, sizeof script, "%s/soak.lua", folder);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    drop_tree(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_wears_it_down)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
