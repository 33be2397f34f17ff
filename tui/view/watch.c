/* Watches folders for saves, since editors replace files rather than write them. */
#include "tui/view/watch.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

typedef struct {
    int folder; /* inotify's number of it */
    char *path;
} watched;

struct fb_watch {
    int fd;
    int folder; /* of the script; -1: there is none */
    char name[256];
    FB_VEC(watched) others;
};

/* Folders are watched, since editors write beside a file and rename. */
static int watch_folder_of(const fb_watch *w, const char *path)
{
    char folder[PATH_MAX];
    const char *name = fb_file_name(path);
    snprintf(folder, sizeof folder, "%.*s", name > path ? (int)(name - path) : 1, name > path ? path : ".");
    return inotify_add_watch(w->fd, folder, IN_CLOSE_WRITE | IN_MOVED_TO);
}

fb_watch *fb_watch_new(const char *path)
{
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0) return NULL;
    fb_watch *w = fb_calloc(1, sizeof *w);
    w->fd = fd;
    w->folder = -1;
    if (!path || access(path, R_OK) != 0 || strlen(fb_file_name(path)) >= sizeof w->name) return w;
    w->folder = watch_folder_of(w, path);
    snprintf(w->name, sizeof w->name, "%s", fb_file_name(path));
    return w;
}

void fb_watch_free(fb_watch *w)
{
    if (!w) return;
    while (w->others.n) fb_free(w->others.at[--w->others.n].path);
    FB_VEC_FREE(&w->others);
    close(w->fd);
    fb_free(w);
}

void fb_watch_add(fb_watch *w, const char *path)
{
    for (int i = 0; w && i < w->others.n; i++)
        if (strcmp(w->others.at[i].path, path) == 0) return;
    int folder = w ? watch_folder_of(w, path) : -1;
    if (folder >= 0) FB_VEC_PUSH(&w->others, (watched){.folder = folder, .path = fb_strdup(path)});
}

int fb_watch_fd(const fb_watch *w)
{
    return w ? w->fd : -1;
}

static bool is_script(const fb_watch *w, int folder, const char *name)
{
    size_t n = strlen(name);
    return folder == w->folder && (!strcmp(name, w->name) || (n > 4 && !strcmp(name + n - 4, ".lua")));
}

static bool is_other(const fb_watch *w, int folder, const char *name)
{
    for (int i = 0; i < w->others.n; i++)
        if (folder == w->others.at[i].folder && !strcmp(name, fb_file_name(w->others.at[i].path))) return true;
    return false;
}

fb_saved fb_watch_saved(fb_watch *w)
{
    char bytes[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
    fb_saved saved = {0};
    ssize_t n;
    while (w && (n = read(w->fd, bytes, sizeof bytes)) > 0)
        for (char *at = bytes; at < bytes + n;) {
            const struct inotify_event *e = (const struct inotify_event *)(void *)at;
            const char *name = e->len ? e->name : "";
            saved.script |= *name && is_script(w, e->wd, name);
            saved.other |= *name && is_other(w, e->wd, name);
            at += sizeof *e + e->len;
        }
    return saved;
}
