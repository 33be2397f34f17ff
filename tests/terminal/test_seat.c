/* A seat in the terminals of other systems, as ssh brings them: the workbench draws in them, in the letters that they
 * have, follows their size, and says in a sentence what it cannot do. One workshop for all, of the host. */
#include "expect.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

static char folder[] = "/tmp/fb-seat-XXXXXX";
static char cache[96], state[96], path[96], script[96];
static const char *fusebox;
static pid_t workshop;

static int begin(void **unused)
{
    (void)unused;
    struct stat st;
    fusebox = getenv("FUSEBOX");
    if (!fusebox) fusebox = "./fusebox";
    if (!own_folder_of(folder, cache)) return -1;
    snprintf(state, sizeof state, "XDG_STATE_HOME=%s/state", folder);
    snprintf(path, sizeof path, "%s/socket", folder);
    snprintf(script, sizeof script, "%s/f.lua", folder);
    FILE *f = fopen(script, "w");
    if (!f) return -1;
    fputs("return function(g) return g:input('x', { 16, 8 }):tanh():relu() end\n", f);
    fclose(f);
    workshop = fork();
    if (workshop == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        putenv(cache);
        putenv(state);
        if (!freopen("/dev/null", "w", stdout)) _exit(1);
        execl(fusebox, fusebox, "workshop", "--device", "host", "--socket", path, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < PATIENCE_MS / 10 && stat(path, &st) != 0; i++) usleep(10000);
    return 0;
}

static int finish(void **unused)
{
    (void)unused;
    kill(workshop, SIGTERM);
    waitpid(workshop, NULL, 0);
    drop_tree(folder);
    return 0;
}

/* `more`: at most five settings. */
static term *seat(const char *const *more, const char *const *argv)
{
    const char *env[10] = {cache, state};
    for (int i = 0; more[i]; i++) env[2 + i] = more[i];
    return term_start(24, 80, env, argv);
}

static void draws_in_other_systems_terminals(void **unused)
{
    (void)unused;
    static const struct {
        const char *env[6];
        bool letters; /* beyond ASCII */
    } terminals[] = {
        /* macOS says no more of a language than its letters, which no other system has by that name */
        {{"TERM=xterm-256color", "LC_ALL=", "LC_CTYPE=UTF-8", "SSH_TTY=/dev/pts/9", NULL}, true},
        {{"TERM=xterm-256color", "LC_ALL=", "LC_CTYPE=", "LANG=xx_XX.UTF-8", "SSH_TTY=/dev/pts/9", NULL}, true},
        {{"TERM=xterm-256color", "LC_ALL=C", "WT_SESSION=0", NULL}, false}, /* Windows says nothing */
        {{"TERM=xterm", "LC_ALL=", "LC_CTYPE=", "LANG=C", NULL}, false},
        {{"TERM=screen-256color", "LC_ALL=C.UTF-8", "STY=1.x", NULL}, true},
    };
    const char *argv[] = {fusebox, "seat", "--at", path, script, "max", NULL};
    for (size_t i = 0; i < sizeof terminals / sizeof *terminals; i++) {
        term *t = seat(terminals[i].env, argv);
        must_show(t, "launches");
        must_show(t, "tanh");
        term_keys(t, "@120x36");
        must_show(t, "moved modelled"); /* there is room for it now */
        assert_int_equal(term_has_bytes_above_ascii(t), terminals[i].letters);
        quit(t);
    }
}

static void says_what_it_cannot(void **unused)
{
    (void)unused;
    static const struct {
        const char *env[3], *says;
    } terminals[] = {
        {{"TERM=xterm-of-tomorrow", NULL}, "is not known here: try"},
        {{"TERM=dumb", NULL}, "cannot move its cursor"},
        {{"TERM=", NULL}, "TERM is not set"},
    };
    const char *argv[] = {fusebox, "seat", "--at", path, script, NULL};
    for (size_t i = 0; i < sizeof terminals / sizeof *terminals; i++) {
        term *t = seat(terminals[i].env, argv);
        must_show(t, terminals[i].says);
        int status = term_end(t, PATIENCE_MS);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
        term_free(t);
    }
}

/* The forced command of a student who comes with a terminal and no fusebox, whatever was asked for. */
static void a_seat_is_no_shell(void **unused)
{
    (void)unused;
    static const char *const env[] = {"SSH_TTY=/dev/pts/9", "SSH_ORIGINAL_COMMAND=sh -i", NULL};
    const char *argv[] = {fusebox, "seat", "--stdio", "--at", path, NULL};
    term *t = seat(env, argv);
    must_show(t, "not with a person");
    int status = term_end(t, PATIENCE_MS);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 2);
    term_free(t);
}

/* Says what a seat says, and waits until it was heard. */
static void predict(int fd, const char *puzzle, const char *chosen)
{
    char text[200];
    size_t n = (size_t)snprintf(text, sizeof text, "{\"type\":\"predict\",\"puzzle\":\"%s\",\"chosen\":\"%s\"}\n",
                                puzzle, chosen);
    assert_int_equal(write(fd, text, n), (ssize_t)n);
}

/* What a class predicts grows on the lecturer's screen while it comes, and where there is no room for all, the puzzle
 * that is answered now is seen. */
static void a_lecturer_sees_predictions(void **unused)
{
    (void)unused;
    enum { SEATS = 3, PUZZLES = 8 };
    static const char hello[] = "{\"type\":\"hello\",\"fusebox\":1}\n";
    static const char *const env[] = {"TERM=xterm-256color", "LC_ALL=C.UTF-8", NULL};
    char own[sizeof path + 8], name[16];
    int fd[SEATS];
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(own, sizeof own, "%s.own", path);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", own);
    const char *argv[] = {fusebox, "workshop", "--device", "host", "--socket", own, NULL};
    term *t = seat(env, argv);
    must_show(t, "C-c ends it");
    for (int i = 0; i < SEATS; i++) {
        fd[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd[i], (struct sockaddr *)&a, sizeof a), 0);
        assert_int_equal(write(fd[i], hello, sizeof hello - 1), sizeof hello - 1);
    }
    must_show(t, "3 seats, ");
    predict(fd[0], "split_stack", "bytes");
    must_show(t, "split_stack: 1 prediction");
    predict(fd[1], "split_stack", "launches");
    predict(fd[2], "split_stack", "launches");
    must_show(t, "launches         2 \u2588\u2588");
    predict(fd[0], "split_stack", "launches"); /* it has changed its mind */
    must_show(t, "launches         3 \u2588\u2588\u2588");
    for (int i = 0; i < PUZZLES; i++) {
        snprintf(name, sizeof name, "a%d", i); /* before the other, by name */
        predict(fd[0], name, "x");
    }
    must_show(t, "a7: 1 prediction");
    predict(fd[1], "split_stack", "bytes");
    must_show(t, "split_stack: 3 predictions");
    for (int i = 0; i < SEATS; i++) close(fd[i]);
    term_keys(t, "C-c");
    must_show(t, "0 lost");
    assert_int_equal(term_end(t, PATIENCE_MS), 0);
    term_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_in_other_systems_terminals),
        cmocka_unit_test(says_what_it_cannot),
        cmocka_unit_test(a_seat_is_no_shell),
        cmocka_unit_test(a_lecturer_sees_predictions),
    };
    return cmocka_run_group_tests(tests, begin, finish);
}
