/* JSON lines and raw bytes over a pair of descriptors, without blocking: what cannot be written waits, what arrived
 * is given out line by line. A line that is too long ends the channel with an error. */
#include "worker/protocol.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Read at most this much a pump, so that a talkative peer cannot keep an event loop from its other work. */
enum { READ_CHUNK = 64 << 10, READ_A_PUMP = 4 << 20 };

/* Bytes between `head` and `tail` are waiting; what is before `head` is reclaimed when room is needed. */
typedef struct {
    char *at;
    size_t head, tail, room;
} queue;

struct fb_channel {
    int in_fd, out_fd;
    int in_flags, out_flags; /* as they were: the descriptors may be shared with the shell that started us */
    queue in, out;
    size_t scanned;  /* bytes after in.head known to hold no newline */
    size_t expected; /* raw bytes the reader waits for: no limit of a line applies to them */
    size_t longest;  /* a line, and what is held of lines that nobody has taken */
    bool in_ended, out_broken, too_long, paused;
};

static void queue_reserve(queue *q, size_t more)
{
    if (q->room - q->tail >= more) return;
    size_t held = q->tail - q->head;
    if (q->head && q->room - held >= more && q->head >= held) {
        memcpy(q->at, q->at + q->head, held);
    } else {
        size_t room = q->room ? q->room : READ_CHUNK;
        while (room - held < more) room *= 2;
        char *at = fb_alloc(room);
        if (held) memcpy(at, q->at + q->head, held);
        fb_free(q->at);
        q->at = at;
        q->room = room;
    }
    q->head = 0;
    q->tail = held;
}

static int set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && !(flags & O_NONBLOCK)) fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    return flags;
}

fb_channel *fb_channel_new(int in_fd, int out_fd)
{
    /* A peer that is gone shows as EPIPE where it is written to, not as the end of this process. */
    struct sigaction pipe_action;
    if (sigaction(SIGPIPE, NULL, &pipe_action) == 0 && pipe_action.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);
    fb_channel *c = fb_calloc(1, sizeof *c);
    c->in_fd = in_fd;
    c->out_fd = out_fd;
    c->in_flags = set_nonblocking(in_fd);
    c->out_flags = set_nonblocking(out_fd);
    c->longest = FB_MAX_LINE;
    return c;
}

void fb_channel_limit(fb_channel *c, size_t longest)
{
    c->longest = longest;
}

void fb_channel_pause(fb_channel *c, bool paused)
{
    c->paused = paused;
}

size_t fb_channel_unsent(const fb_channel *c)
{
    return c->out.tail - c->out.head;
}

static void give_back(int fd, int flags)
{
    if (fd < 0) return;
    if (flags >= 0 && !(flags & O_NONBLOCK)) fcntl(fd, F_SETFL, flags);
    close(fd);
}

void fb_channel_free(fb_channel *c)
{
    if (!c) return;
    give_back(c->in_fd, c->in_flags);
    if (c->out_fd != c->in_fd) give_back(c->out_fd, c->out_flags);
    fb_free(c->in.at);
    fb_free(c->out.at);
    fb_free(c);
}

void fb_channel_send_bytes(fb_channel *c, const void *bytes, size_t n)
{
    if (c->out_broken || !n) return;
    queue_reserve(&c->out, n);
    memcpy(c->out.at + c->out.tail, bytes, n);
    c->out.tail += n;
}

void fb_channel_send(fb_channel *c, json_t *message)
{
    char *line = fb_json_line(message);
    json_decref(message);
    fb_channel_send_bytes(c, line, strlen(line));
    fb_channel_send_bytes(c, "\n", 1);
    fb_free(line);
}

/* A reader that leaves whole lines lying is not given more than one line's limit of them. */
static bool wants_input(const fb_channel *c)
{
    size_t held = c->in.tail - c->in.head;
    size_t limit = c->expected > c->longest ? c->expected : c->longest;
    return !c->paused && !c->in_ended && !c->too_long && held <= limit;
}

int fb_channel_poll(const fb_channel *c, struct pollfd out[2])
{
    int n = 0;
    /* one that broke while it was flushed wakes whoever waits: the next pump says so, and no answer will come */
    bool reads = wants_input(c), writes = c->out.tail > c->out.head || c->out_broken;
    if (reads) out[n++] = (struct pollfd){.fd = c->in_fd, .events = POLLIN};
    if (writes && reads && c->in_fd == c->out_fd)
        out[0].events |= POLLOUT;
    else if (writes)
        out[n++] = (struct pollfd){.fd = c->out_fd, .events = POLLOUT};
    return n;
}

static void pump_out(fb_channel *c)
{
    queue *q = &c->out;
    while (q->tail > q->head && !c->out_broken) {
        ssize_t k = write(c->out_fd, q->at + q->head, q->tail - q->head);
        if (k > 0)
            q->head += (size_t)k;
        else if (k < 0 && errno == EINTR)
            continue;
        else if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        else
            c->out_broken = true;
    }
    if (q->head == q->tail || c->out_broken) q->head = q->tail = 0;
}

static void pump_in(fb_channel *c)
{
    for (size_t got = 0; got < READ_A_PUMP && got <= c->longest && wants_input(c);) {
        queue_reserve(&c->in, READ_CHUNK);
        ssize_t k = read(c->in_fd, c->in.at + c->in.tail, c->in.room - c->in.tail);
        if (k > 0) {
            c->in.tail += (size_t)k;
            got += (size_t)k;
        } else if (k < 0 && errno == EINTR) {
            continue;
        } else if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return;
        } else {
            c->in_ended = true;
        }
    }
}

/* How many bytes, newline included, the first whole line has; 0 when there is none. */
static size_t line_length(fb_channel *c)
{
    size_t held = c->in.tail - c->in.head;
    if (held <= c->scanned) return 0;
    const char *start = c->in.at + c->in.head;
    const char *end = memchr(start + c->scanned, '\n', held - c->scanned);
    if (end) return (size_t)(end - start) + 1;
    c->scanned = held;
    return 0;
}

bool fb_channel_pump(fb_channel *c, fb_error *err)
{
    pump_out(c); /* first: when the peer is gone, what it said last is still read below */
    pump_in(c);
    bool whole = line_length(c) > 0;
    if (!whole && !c->expected && c->in.tail - c->in.head > c->longest) c->too_long = true;
    if (c->too_long) return fb_fail(err, FB_ERR_INPUT, "a message is longer than %zu MiB", c->longest >> 20);
    if (c->in_ended && !whole && c->in.tail > c->in.head)
        return fb_fail(err, FB_ERR_CRASH, "the other end closed the connection in the middle of a message");
    if (c->in_ended || c->out_broken) return fb_fail(err, FB_ERR_CRASH, "the other end closed the connection");
    return true;
}

const char *fb_channel_line(fb_channel *c, size_t *n)
{
    size_t length = c->expected ? 0 : line_length(c);
    if (!length) return NULL;
    char *line = c->in.at + c->in.head;
    line[length - 1] = '\0';
    c->in.head += length;
    c->scanned = 0;
    size_t text = length - 1;
    if (text && line[text - 1] == '\r') line[--text] = '\0';
    if (n) *n = text;
    return line;
}

bool fb_channel_bytes(fb_channel *c, void *to, size_t n)
{
    if (c->in.tail - c->in.head < n) {
        c->expected = n;
        return false;
    }
    if (n) memcpy(to, c->in.at + c->in.head, n);
    c->in.head += n;
    c->scanned = c->expected = 0;
    return true;
}

/* Waits for the descriptors of `fds`; false when the deadline (0: none) has passed. */
static bool wait_ready(struct pollfd *fds, int n, int64_t deadline_ns)
{
    int wait = -1;
    if (deadline_ns) {
        int64_t left = deadline_ns - fb_now_ns();
        if (left <= 0) return false;
        wait = (int)((left + 999999) / 1000000);
    }
    poll(fds, (nfds_t)n, wait);
    return true;
}

static int64_t deadline_of(int timeout_ms)
{
    return timeout_ms < 0 ? 0 : fb_now_ns() + (int64_t)timeout_ms * 1000000;
}

const char *fb_channel_wait_line(fb_channel *c, size_t *n, int timeout_ms, fb_error *err)
{
    int64_t deadline = deadline_of(timeout_ms);
    for (;;) {
        const char *line = fb_channel_line(c, n);
        if (line) return line;
        bool open = fb_channel_pump(c, err);
        if ((line = fb_channel_line(c, n))) return line;
        if (!open) return NULL;
        struct pollfd fds[2];
        if (!wait_ready(fds, fb_channel_poll(c, fds), deadline)) {
            fb_fail(err, FB_ERR_LIMIT, "no answer within %.1f s", timeout_ms / 1000.0);
            return NULL;
        }
    }
}

bool fb_channel_flush(fb_channel *c, int timeout_ms, fb_error *err)
{
    int64_t deadline = deadline_of(timeout_ms);
    for (;;) {
        pump_out(c);
        if (c->out_broken) return fb_fail(err, FB_ERR_CRASH, "the other end closed the connection");
        if (c->out.head == c->out.tail) return true;
        struct pollfd fd = {.fd = c->out_fd, .events = POLLOUT};
        if (!wait_ready(&fd, 1, deadline)) return fb_fail(err, FB_ERR_LIMIT, "the other end takes no more messages");
    }
}
