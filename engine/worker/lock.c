/* A device's lock: whoever measures holds it, whoever wants to waits in order.
 *
 * One file a device and machine. Its first eight bytes count tickets. Ticket n is a lock on byte FIRST + n, held from
 * the moment it is drawn: the device belongs to the lowest ticket that is alive, and the locks below one's own are
 * those ahead. The system drops the locks of a process that ends, so nothing is ever left behind.
 */
#include "base/file.h"
#include "base/str.h"
#include "device/device.h"
#include "worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { FIRST = 1024 };
static const int64_t most_tickets = (int64_t)1 << 48; /* a thousand a second for ages */

static bool lock_path(const char *device, char *to, size_t room, fb_error *err)
{
    char dir[2048], host[128] = "";
    if (!fb_cache_dir("locks", dir, sizeof dir, NULL) && !fb_temporary_dir(dir, sizeof dir, err)) return false;
    gethostname(host, sizeof host - 1); /* home folders are shared between machines, devices are not */
    int n = snprintf(to, room, "%s/%s.%s", dir, host, device);
    for (char *c = to + strlen(dir) + 1; *c; c++) {
        if (*c == '/') *c = '_';
    }
    return n < (int)room || fb_fail(err, FB_ERR_SYSTEM, "the path of the lock of %s is too long", device);
}

/* The next number of the counter. Held briefly, under a lock on the whole file of another kind. */
static bool draw(int fd, int64_t *ticket)
{
    int64_t count = 0;
    while (flock(fd, LOCK_EX) < 0) {
        if (errno != EINTR) return false;
    }
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    bool ok = pread(fd, &count, sizeof count, 0) >= 0;
    if (count < 0 || count > most_tickets) count = 0; /* a kernel wrote into it: counting begins anew */
    *ticket = count++;
    l.l_start = FIRST + *ticket;
    ok = ok && fcntl(fd, F_OFD_SETLK, &l) == 0 && pwrite(fd, &count, sizeof count, 0) == (ssize_t)sizeof count;
    flock(fd, LOCK_UN);
    return ok;
}

bool fb_lock_enter(fb_device_lock *lock, const char *device, fb_error *err)
{
    char path[2400];
    *lock = (fb_device_lock){.fd = -1};
    if (!lock_path(device, path, sizeof path, err)) return false;
    lock->fd = fb_file_open(path, FB_FILE_UPDATE | FB_FILE_PRIVATE, err);
    if (lock->fd < 0) return fb_fail_prefix(err, "the lock of %s cannot be opened", device);
    if (draw(lock->fd, &lock->ticket)) return true;
    fb_fail(err, FB_ERR_SYSTEM, "the lock of %s cannot be taken: %s: %s", device, path, strerror(errno));
    fb_lock_leave(lock);
    return false;
}

/* Tickets alive in [from, to). The system tells of one that is in the way, not of which. */
static int alive(int fd, int64_t from, int64_t to)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = FIRST + from, .l_len = to - from};
    if (from >= to || fcntl(fd, F_OFD_GETLK, &l) < 0 || l.l_type == F_UNLCK) return 0;
    int64_t found = l.l_start - FIRST;
    return 1 + alive(fd, from, found) + alive(fd, found + 1, to);
}

int fb_lock_ahead(const fb_device_lock *lock)
{
    return lock->fd < 0 ? 0 : alive(lock->fd, 0, lock->ticket);
}

bool fb_lock_wanted(const fb_device_lock *lock)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = FIRST + lock->ticket + 1};
    return lock->fd >= 0 && fcntl(lock->fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

void fb_lock_leave(fb_device_lock *lock)
{
    if (lock->fd >= 0) close(lock->fd);
    *lock = (fb_device_lock){.fd = -1};
}
