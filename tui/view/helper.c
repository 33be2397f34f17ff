/* Starts a program with a pipe behind it and gathers what it prints, until it ends or is ended. */
#include "tui/view/helper.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_TEXT = 16 << 20 };

struct fb_helper {
    pid_t pid; /* 0: gone */
    int fd;
    fb_str text;
};

static _Noreturn void be_child(const char *const *argv, int out)
{
    int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    for (int n = 1; n < 32; n++) signal(n, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execv(argv[0], (char *const *)argv);
    _exit(127);
}

fb_helper *fb_helper_start(const char *const *argv, fb_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        fb_fail(err, FB_ERR_SYSTEM, "pipe: %s", strerror(errno));
        return NULL;
    }
    sigset_t all, before; /* as fb_child_start does it: none of our handlers runs in the child */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) be_child(argv, ends[1]);
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (pid < 0) {
        fb_fail(err, FB_ERR_SYSTEM, "fork: %s", strerror(errno));
        close(ends[0]);
        return NULL;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fb_helper *h = fb_calloc(1, sizeof *h);
    h->pid = pid;
    h->fd = ends[0];
    return h;
}

static void end(fb_helper *h)
{
    if (h->fd >= 0) close(h->fd);
    h->fd = -1;
    if (h->pid > 0) {
        kill(h->pid, SIGKILL); /* it has closed its output, or nobody wants it any more */
        while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR) continue;
    }
    h->pid = 0;
}

void fb_helper_free(fb_helper *h)
{
    if (!h) return;
    end(h);
    fb_str_free(&h->text);
    fb_free(h);
}

int fb_helper_fd(const fb_helper *h)
{
    return h->fd;
}

bool fb_helper_pump(fb_helper *h)
{
    char bytes[65536];
    while (h->fd >= 0) {
        ssize_t n = read(h->fd, bytes, sizeof bytes);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
        if (n <= 0 || h->text.n > MOST_TEXT)
            end(h);
        else
            fb_str_add_n(&h->text, bytes, (size_t)n);
    }
    return true;
}

const char *fb_helper_text(const fb_helper *h)
{
    return fb_str_get(&h->text);
}
