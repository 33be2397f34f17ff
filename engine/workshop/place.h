/* Where a workshop's socket is, and how it is listened at and found. */
#ifndef FB_WORKSHOP_PLACE_H
#define FB_WORKSHOP_PLACE_H

#include "base/error.h"

#include <stddef.h>
#include <sys/types.h>

/* A socket that listens, mode 0600: at `path`, or with NULL in the usual place, a private folder of this user's. What
 * lies there and nobody listens at is replaced. `to` gets its path. The descriptor, or -1. */
int fb_workshop_listen(const char *path, char *to, size_t room, fb_error *err);
/* Connected to the workshop at `path`, or with NULL to the one in the usual places; -1. */
int fb_workshop_connect(const char *path, fb_error *err);
/* Takes one connection: its descriptor and who is at its other end, by the system's word. -1 and no error: there is
 * none; -1 and FB_ERR_UNAVAILABLE: it was another user's, and is closed. */
int fb_workshop_accept(int listener, pid_t *pid, fb_error *err);

#endif
