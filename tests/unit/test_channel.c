/* Channels and children: lines and raw bytes through pipes, every way a peer can misbehave, every way a process can
 * end. */
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "worker/protocol.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct {
    fb_channel *near;
    int to, from; /* the far ends: what is written to `to` arrives at near */
} wire;

static wire wire_new(void)
{
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    return (wire){.near = fb_channel_new(in[0], out[1]), .to = in[1], .from = out[0]};
}

static void wire_free(wire *w)
{
    fb_channel_free(w->near);
    if (w->to >= 0) close(w->to);
    if (w->from >= 0) close(w->from);
}

static void put(wire *w, const char *text)
{
    assert_int_equal(write(w->to, text, strlen(text)), (ssize_t)strlen(text));
}

static void half_lines_wait_for_their_end(void **state)
{
    (void)state;
    wire w = wire_new();
    size_t n = 0;
    put(&w, "{\"a\":");
    assert_true(fb_channel_pump(w.near, NULL));
    assert_null(fb_channel_line(w.near, &n));
    put(&w, "1}\r\n\nsecond\nthi");
    assert_true(fb_channel_pump(w.near, NULL));
    assert_string_equal(fb_channel_line(w.near, &n), "{\"a\":1}");
    assert_int_equal(n, 7);
    assert_string_equal(fb_channel_line(w.near, &n), "");
    assert_string_equal(fb_channel_line(w.near, NULL), "second");
    assert_null(fb_channel_line(w.near, &n));
    wire_free(&w);
}

static void raw_bytes_follow_a_line(void **state)
{
    (void)state;
    wire w = wire_new();
    char bytes[8];
    put(&w, "header\n12\n4");
    assert_true(fb_channel_pump(w.near, NULL));
    assert_string_equal(fb_channel_line(w.near, NULL), "header");
    assert_false(fb_channel_bytes(w.near, bytes, 6));
    assert_null(fb_channel_line(w.near, NULL)); /* what waits for bytes gives no lines */
    put(&w, "56next\n");
    assert_true(fb_channel_pump(w.near, NULL));
    assert_true(fb_channel_bytes(w.near, bytes, 6));
    assert_memory_equal(bytes, "12\n456", 6);
    assert_string_equal(fb_channel_line(w.near, NULL), "next");
    wire_free(&w);
}

static void what_was_said_before_the_end_is_still_read(void **state)
{
    (void)state;
    wire w = wire_new();
    fb_error err = {0};
    put(&w, "last words\nhal");
    close(w.to);
    close(w.from);
    w.to = w.from = -1;
    fb_channel_send(w.near, json_pack("{s:s}", "type", "hello"));
    fb_channel_pump(w.near, NULL);
    assert_string_equal(fb_channel_line(w.near, NULL), "last words");
    assert_false(fb_channel_pump(w.near, &err));
    assert_int_equal(err.kind, FB_ERR_CRASH);
    assert_non_null(strstr(err.text, "middle of a message"));
    assert_null(fb_channel_wait_line(w.near, NULL, 1000, &err));
    wire_free(&w);
}

/* The other end still talks, and takes nothing: no answer to what was lost will come. */
static void a_write_that_broke_wakes_whoever_waits(void **state)
{
    (void)state;
    struct pollfd fds[2];
    fb_error err = {0};
    wire w = wire_new();
    signal(SIGPIPE, SIG_IGN);
    close(w.from);
    w.from = -1;
    fb_channel_send(w.near, json_pack("{s:i}", "a", 1));
    assert_false(fb_channel_flush(w.near, 0, NULL));
    assert_true(poll(fds, (nfds_t)fb_channel_poll(w.near, fds), 5000) > 0);
    assert_false(fb_channel_pump(w.near, &err));
    assert_int_equal(err.kind, FB_ERR_CRASH);
    wire_free(&w);
}

static void waiting_has_an_end(void **state)
{
    (void)state;
    wire w = wire_new();
    fb_error err = {0};
    int64_t start = fb_now_ns();
    assert_null(fb_channel_wait_line(w.near, NULL, 60, &err));
    assert_int_equal(err.kind, FB_ERR_LIMIT);
    assert_true(fb_now_ns() - start < 30000000000);
    wire_free(&w);
}

static int echo_main(void *ctx, int in, int out)
{
    fb_channel *c = fb_channel_new(in, out);
    size_t n;
    for (const char *line; (line = fb_channel_wait_line(c, &n, -1, NULL));) {
        char *copy = fb_strdup(line);
        fb_channel_send_bytes(c, copy, n);
        fb_channel_send_bytes(c, "\n", 1);
        fb_free(copy);
        if (!fb_channel_flush(c, -1, NULL)) break;
    }
    fb_channel_free(c);
    return *(int *)ctx;
}

static void a_large_message_goes_both_ways(void **state)
{
    (void)state;
    enum { SIZE = 9 << 20 };
    char *text = fb_alloc(SIZE + 1);
    for (int i = 0; i < SIZE; i++) text[i] = (char)('a' + i % 23);
    text[SIZE] = '\0';
    int status = 0;
    fb_child child;
    fb_error err = {0};
    assert_true(fb_child_start(&child, NULL, echo_main, &status, -1, &err));
    fb_channel_send_bytes(child.channel, text, SIZE);
    fb_channel_send_bytes(child.channel, "\n", 1);
    size_t n = 0;
    const char *back = fb_channel_wait_line(child.channel, &n, 20000, &err);
    assert_non_null(back);
    assert_int_equal(n, SIZE);
    assert_memory_equal(back, text, SIZE);
    fb_free(text);
    fb_child_kill(&child);
    fb_child_kill(&child);
}

static int flood_main(void *ctx, int in, int out)
{
    (void)ctx, (void)in;
    static char block[1 << 16];
    memset(block, 'x', sizeof block);
    while (write(out, block, sizeof block) > 0) continue;
    return 0;
}

static void an_endless_line_is_an_error(void **state)
{
    (void)state;
    fb_child child;
    fb_error err = {0};
    assert_true(fb_child_start(&child, NULL, flood_main, NULL, -1, &err));
    assert_null(fb_channel_wait_line(child.channel, NULL, 60000, &err));
    assert_int_equal(err.kind, FB_ERR_INPUT);
    assert_non_null(strstr(err.text, "64 MiB"));
    fb_child_kill(&child);
}

static void wait_end(fb_child *child, char *how, size_t room)
{
    for (int i = 0; i < 60000 && !fb_child_ended(child, how, room); i++) usleep(1000);
}

static int die_main(void *ctx, int in, int out)
{
    (void)in, (void)out;
    signal(*(int *)ctx, SIG_DFL); /* sanitizers have handlers of their own */
    raise(*(int *)ctx);
    return 0;
}

static void how_a_child_ended_is_said(void **state)
{
    (void)state;
    static const struct {
        int (*run)(void *, int, int);
        int value;
        const char *how;
    } cases[] = {
        {echo_main, 3, "exited with status 3"},
        {die_main, SIGSEGV, "was killed by SIGSEGV"},
        {die_main, SIGKILL, "was killed by SIGKILL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fb_child child;
        int value = cases[i].value;
        char how[80] = "";
        assert_true(fb_child_start(&child, NULL, cases[i].run, &value, -1, NULL));
        if (cases[i].run == echo_main) {
            assert_false(fb_child_ended(&child, how, sizeof how));
            fb_channel_free(child.channel); /* its input ends, so it does */
            child.channel = NULL;
        }
        wait_end(&child, how, sizeof how);
        assert_string_equal(how, cases[i].how);
        fb_child_kill(&child);
    }
}

static int told[2]; /* the pipe of our handler, which a child holds too */
static bool raises;

static void on_told(int number)
{
    (void)number;
    if (write(told[1], "x", 1) < 0) return;
}

/* The first thing that happens in the child. */
static void raise_in_child(void)
{
    if (raises) raise(SIGTERM);
}

/* A signal to a child that has just begun is the child's: our handler, which it has for a moment, does not run there.
 */
static void a_young_child_has_none_of_our_handlers(void **state)
{
    (void)state;
    fb_child child;
    char how[80] = "", byte;
    int value = 0;
    assert_int_equal(pipe2(told, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(pthread_atfork(NULL, NULL, raise_in_child), 0);
    struct sigaction ours = {.sa_handler = on_told}, before;
    sigemptyset(&ours.sa_mask);
    sigaction(SIGTERM, &ours, &before);
    raises = true;
    assert_true(fb_child_start(&child, NULL, echo_main, &value, -1, NULL));
    raises = false;
    wait_end(&child, how, sizeof how);
    assert_string_equal(how, "was killed by SIGTERM");
    assert_true(read(told[0], &byte, 1) < 0);
    raise(SIGTERM); /* and here it runs as before */
    assert_int_equal(read(told[0], &byte, 1), 1);
    sigaction(SIGTERM, &before, NULL);
    close(told[0]);
    close(told[1]);
    fb_child_kill(&child);
}

static void a_program_is_started(void **state)
{
    (void)state;
    char *argv[] = {"sh", "-c", "read line; echo \"got $line\"", NULL};
    fb_child child;
    assert_true(fb_child_start(&child, argv, NULL, NULL, -1, NULL));
    fb_channel_send(child.channel, json_pack("{s:i}", "n", 1));
    assert_string_equal(fb_channel_wait_line(child.channel, NULL, 10000, NULL), "got {\"n\":1}");
    fb_child_kill(&child);
}

static void a_missing_program_is_an_error(void **state)
{
    (void)state;
    char *argv[] = {"/nonexistent/program", NULL};
    fb_child child;
    fb_error err = {0};
    assert_false(fb_child_start(&child, argv, NULL, NULL, -1, &err));
    assert_int_equal(err.kind, FB_ERR_UNAVAILABLE);
    assert_string_equal(err.text, "cannot run /nonexistent/program: No such file or directory");
}

static void killing_takes_the_whole_group(void **state)
{
    (void)state;
    char *argv[] = {"sh", "-c", "sleep 1000 & echo $!; wait", NULL};
    fb_child child;
    assert_true(fb_child_start(&child, argv, NULL, NULL, -1, NULL));
    const char *line = fb_channel_wait_line(child.channel, NULL, 10000, NULL);
    assert_non_null(line);
    pid_t grandchild = (pid_t)strtol(line, NULL, 10);
    assert_int_equal(kill(grandchild, 0), 0);
    fb_child_kill(&child);
    char stat[64], text[256];
    snprintf(stat, sizeof stat, "/proc/%d/stat", (int)grandchild);
    bool gone = false;
    for (int i = 0; i < 60000 && !gone; i++) {
        FILE *f = fopen(stat, "r");
        gone = !f || !fgets(text, sizeof text, f) || strstr(text, ") Z ");
        if (f) fclose(f);
        usleep(1000);
    }
    assert_true(gone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_lines_wait_for_their_end),
        cmocka_unit_test(raw_bytes_follow_a_line),
        cmocka_unit_test(what_was_said_before_the_end_is_still_read),
        cmocka_unit_test(a_write_that_broke_wakes_whoever_waits),
        cmocka_unit_test(waiting_has_an_end),
        cmocka_unit_test(a_large_message_goes_both_ways),
        cmocka_unit_test(an_endless_line_is_an_error),
        cmocka_unit_test(how_a_child_ended_is_said),
        cmocka_unit_test(a_young_child_has_none_of_our_handlers),
        cmocka_unit_test(a_program_is_started),
        cmocka_unit_test(a_missing_program_is_an_error),
        cmocka_unit_test(killing_takes_the_whole_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
