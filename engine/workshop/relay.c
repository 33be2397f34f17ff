/* The other end of a seat: bytes between a pair of descriptors and the workshop's socket, unread. */
#include "base/json.h"
#include "base/mem.h"
#include "workshop/admit.h"
#include "workshop/place.h"
#include "workshop/workshop.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CHUNK = 64 << 10 };

/* One way. It reads when it holds nothing and else waits to write, so that neither way waits for the other. */
typedef struct {
    int from, to;
    size_t head, tail;
    char at[CHUNK];
} way;

static struct pollfd wish_of(const way *w)
{
    bool full = w->tail > w->head;
    return (struct pollfd){.fd = full ? w->to : w->from, .events = full ? POLLOUT : POLLIN};
}

/* False at the end of either side. What a pipe takes at once is no more than PIPE_BUF. */
static bool carry(way *w)
{
    size_t held = w->tail - w->head;
    ssize_t n = held ? write(w->to, w->at + w->head, held < PIPE_BUF ? held : PIPE_BUF) : read(w->from, w->at, CHUNK);
    if (n < 0) return errno == EINTR || errno == EAGAIN;
    if (held) {
        w->head += (size_t)n;
        return true;
    }
    w->head = 0;
    w->tail = (size_t)n;
    return n > 0;
}

/* Where the client of an ssh connection is, as the system's ssh says: "ADDRESS PORT ADDRESS PORT". */
static json_t *origin_of(const char *connection)
{
    size_t n = connection ? strcspn(connection, " ") : 0;
    return n > 0 && n <= FB_ASK_NAME ? json_stringn(connection, n) : NULL;
}

/* The first line, always: whatever the seat says comes after it, and cannot say who it is for. */
static bool say_from(int fd, const char *name, fb_error *err)
{
    json_t *from =
        json_pack("{s:s, s:s*, s:o*}", "type", "from", "name", name, "origin", origin_of(getenv("SSH_CONNECTION")));
    char *line = fb_json_line(from);
    size_t n = strlen(line);
    line[n] = '\n';
    bool ok = send(fd, line, n + 1, MSG_NOSIGNAL) == (ssize_t)n + 1; /* an empty socket takes a line whole */
    fb_free(line);
    json_decref(from);
    return ok || fb_fail(err, FB_ERR_UNAVAILABLE, "the workshop has ended, or closed this seat");
}

bool fb_workshop_relay(const char *socket, const char *name, int in_fd, int out_fd, fb_error *err)
{
    int fd = fb_workshop_connect(socket, err);
    if (fd < 0) return false;
    if (!say_from(fd, name, err)) {
        close(fd);
        return false;
    }
    signal(SIGPIPE, SIG_IGN);
    way ways[] = {{.from = in_fd, .to = fd}, {.from = fd, .to = out_fd}};
    bool open = true, closed = false;
    while (open) {
        struct pollfd fds[] = {wish_of(&ways[0]), wish_of(&ways[1])};
        if (poll(fds, 2, -1) < 0 && errno != EINTR) break;
        for (int i = 0; i < 2 && open; i++)
            if (fds[i].revents && !(open = carry(&ways[i]))) closed = i ? !ways[1].tail : ways[0].tail > ways[0].head;
    }
    close(fd);
    return !closed || fb_fail(err, FB_ERR_UNAVAILABLE, "the workshop has ended, or closed this seat");
}
