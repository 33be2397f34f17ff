#include "tui/watch.h"

#include "base/mem.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

struct fb_watch {
    int fd;
    char name[256];
};

fb_watch *fb_watch_new(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = path ? strrchr(path, '/') : NULL, *name = slash ? slash + 1 : path;
    if (!path || access(path, R_OK) != 0 || strlen(name) >= sizeof((fb_watch *)0)->name) return NULL;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0) return NULL;
    if (inotify_add_watch(fd, folder, IN_CLOSE_WRITE | IN_MOVED_TO) < 0) { /* editors write beside and rename */
        close(fd);
        return NULL;
    }
    fb_watch *w = fb_calloc(1, sizeof *w);
    w->fd = fd;
    snprintf(w->name, sizeof w->name, "%s", name);
    return w;
}

void fb_watch_free(fb_watch *w)
{
    if (!w) return;
    close(w->fd);
    fb_free(w);
}

int fb_watch_fd(const fb_watch *w)
{
    return w ? w->fd : -1;
}

bool fb_watch_saved(fb_watch *w)
{
    char bytes[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
    bool saved = false;
    ssize_t n;
    while (w && (n = read(w->fd, bytes, sizeof bytes)) > 0)
        for (char *at = bytes; at < bytes + n;) {
            const struct inotify_event *e = (const struct inotify_event *)(void *)at;
            size_t len = e->len ? strlen(e->name) : 0;
            saved |= len && (!strcmp(e->name, w->name) || (len > 4 && !strcmp(e->name + len - 4, ".lua")));
            at += sizeof *e + e->len;
        }
    return saved;
}
