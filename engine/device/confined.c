/* Opens a device in a process that will run generated code on it, and gives up before what that code has no business
 * with.
 *
 * requires  a process of its own, with no compiler running
 * provides  the role of base/confine.h: `kernels`; on a machine with a driver, which needs what only its makers know,
 *           `driver`, for one process serves all devices of the machine */
#include "base/confine.h"
#include "device/device.h"
#include "device/host/cc.h"

#include <string.h>

/* What such a process writes: compiled kernels, what it measured, its place in line. Not references, which judge it. */
static const char *const kept[] = {"host", "opening", "machines", "best", "locks"};

enum { KEPT = sizeof kept / sizeof *kept, ROOM = 2048 };

static bool has_driver(const fb_device_ops *wanted)
{
    if (wanted->driver) return true;
    for (int i = 0; fb_device_table[i]; i++)
        if (fb_device_table[i]->driver && fb_device_table[i]->driver()) return true;
    return false;
}

static void enter(fb_role role, const fb_cc_place *place)
{
    static char paths[KEPT][ROOM];
    const char *list[KEPT + 2];
    int n = 0;
    for (int i = 0; i < KEPT; i++)
        if (fb_cache_dir(kept[i], paths[n], ROOM, NULL)) list[n] = paths[n], n++;
    /* without a cache, locks are among the temporary files */
    if (!n && fb_temporary_dir(paths[n], ROOM, NULL)) list[n] = paths[n], n++;
    if (place->path[0]) list[n++] = place->path;
    if (place->shared_memory) list[n++] = "/dev/shm";
    fb_confine(role, &(fb_confine_places){.write = list, .n_write = n});
}

fb_device *fb_device_open_confined(const char *name, fb_error *err)
{
    static fb_cc_place place;
    static bool apart, entered;
    const fb_device_ops *ops = fb_device_find(name, err);
    if (!ops || ops->recall || ops->recall_named) return ops ? ops->open(name, err) : NULL;
    if (!apart && !fb_cc_apart(&place, err)) return NULL;
    apart = true;
    bool driver = has_driver(ops);
    /* before its libraries start threads of theirs; a driver is opened first, for it may have to be loaded */
    if (!entered && !driver) enter(FB_ROLE_KERNELS, &place);
    fb_device *d = ops->open(name, err);
    if (!entered && driver && d) enter(FB_ROLE_DRIVER, &place);
    entered = entered || !driver || d;
    return d;
}

void fb_device_put_away(void)
{
    fb_cc_sweep();
}
