/* The socket's place: a folder that is this user's alone, a socket that only this user may connect to, and a look at
 * the credentials of whoever did. */
#include "workshop/place.h"

#include "base/file.h"
#include "device/device.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 64, PLACES = 3 };
static const char name[] = "workshop.sock";

/* The ith usual place; false where there is no such folder. The session's own folder is not told to a command that
 * ssh starts, which therefore looks where it usually is as well. */
static bool usual(int i, char *to, size_t room)
{
    char dir[PATH_MAX - 32], own[PATH_MAX];
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (i == 0 && (!runtime || runtime[0] != '/')) return false;
    if (i == 0) snprintf(dir, sizeof dir, "%s", runtime);
    if (i == 1) snprintf(dir, sizeof dir, "/run/user/%u", (unsigned)geteuid());
    if (i < 2 && access(dir, W_OK | X_OK) != 0) return false;
    if (i < 2) snprintf(own, sizeof own, "%s/fusebox", dir);
    if (i < 2 ? !fb_private_folder(own, NULL) : !fb_temporary_dir(own, sizeof own, NULL)) return false;
    return snprintf(to, room, "%s/%s", own, name) < (int)room;
}

static bool address_of(const char *path, struct sockaddr_un *out, fb_error *err)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof out->sun_path)
        return fb_fail(err, FB_ERR_USAGE, "the path of a socket has at most %zu bytes: %s", sizeof out->sun_path - 1,
                       path);
    memcpy(out->sun_path, path, strlen(path) + 1);
    return true;
}

/* -1 with errno. */
static int connect_to(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) == 0) return fd;
    int why = errno;
    if (fd >= 0) close(fd);
    errno = why;
    return -1;
}

/* Clears the way: false when somebody listens there, or something else lies there. */
static bool make_room(const struct sockaddr_un *address, fb_error *err)
{
    struct stat st;
    if (lstat(address->sun_path, &st) != 0) return true;
    if (!S_ISSOCK(st.st_mode)) return fb_fail(err, FB_ERR_INPUT, "%s: not a socket", address->sun_path);
    int fd = connect_to(address);
    if (fd >= 0) {
        close(fd);
        return fb_fail(err, FB_ERR_UNAVAILABLE, "a workshop is open at %s already", address->sun_path);
    }
    if (errno != ECONNREFUSED) return fb_fail(err, FB_ERR_SYSTEM, "%s: %s", address->sun_path, strerror(errno));
    unlink(address->sun_path);
    return true;
}

static int listen_at(const char *path, fb_error *err)
{
    struct sockaddr_un address;
    if (!address_of(path, &address, err) || !make_room(&address, err)) return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t before = umask(0177); /* never open to others, not for a moment */
    bool ok = fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    umask(before);
    if (ok && chmod(path, 0600) == 0 && listen(fd, BACKLOG) == 0) return fd;
    fb_fail(err, FB_ERR_SYSTEM, "no socket at %s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return -1;
}

int fb_workshop_listen(const char *path, char *to, size_t room, fb_error *err)
{
    if (path) {
        snprintf(to, room, "%s", path);
        return listen_at(path, err);
    }
    for (int i = 0; i < PLACES; i++)
        if (usual(i, to, room)) return listen_at(to, err);
    fb_fail(err, FB_ERR_UNAVAILABLE, "there is no folder for a socket that is this user's alone; --socket names one");
    return -1;
}

int fb_workshop_connect(const char *path, fb_error *err)
{
    char at[PATH_MAX];
    struct sockaddr_un address;
    int fd = -1;
    if (path) {
        if (!address_of(path, &address, err)) return -1;
        if ((fd = connect_to(&address)) < 0)
            fb_fail(err, FB_ERR_UNAVAILABLE, "no workshop at %s: %s", path, strerror(errno));
        return fd;
    }
    for (int i = 0; i < PLACES && fd < 0; i++)
        if (usual(i, at, sizeof at) && address_of(at, &address, NULL)) fd = connect_to(&address);
    if (fd < 0) fb_fail(err, FB_ERR_UNAVAILABLE, "no workshop is open here; fusebox workshop opens one");
    return fd;
}

int fb_workshop_accept(int listener, pid_t *pid, fb_error *err)
{
    struct ucred who = {0};
    socklen_t n = sizeof who;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) return -1;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid()) {
        *pid = who.pid;
        return fd;
    }
    fb_fail(err, FB_ERR_UNAVAILABLE, "a connection of user %u was refused", (unsigned)who.uid);
    close(fd);
    return -1;
}
