/* The table of devices: finds one by its name and opens it. A device is a file beside this one and a row here. */
#include "device/device.h"

#include "base/str.h"
#include "config.h"
#include "device/peers.h"

#include <string.h>

extern const fb_device_ops fb_device_host;
extern const fb_device_ops fb_device_cuda;
extern const fb_device_ops fb_device_replay;
#define EXTERN(KIND) extern const fb_device_ops fb_device_replay_##KIND;
FB_PEERS(EXTERN)
#define ADDRESS(KIND) &fb_device_replay_##KIND,

/* In the order in which a user who names none gets them. */
const fb_device_ops *const fb_device_table[] = {
#ifdef FB_HAVE_CUDA
    &fb_device_cuda,
#endif
    &fb_device_host,
    &fb_device_replay, /* a script asks for it */
    FB_PEERS(ADDRESS) NULL,
};

const fb_device_ops *fb_device_find(const char *name, fb_error *err)
{
    size_t n = strcspn(name, ":");
    fb_str known = {0};
    for (int i = 0; fb_device_table[i]; i++) {
        const char *kind = fb_device_table[i]->kind;
        if (strlen(kind) == n && memcmp(kind, name, n) == 0) {
            fb_str_free(&known);
            return fb_device_table[i];
        }
        fb_str_addf(&known, "%s%s", known.n ? ", " : "", kind);
    }
    fb_fail(err, FB_ERR_UNAVAILABLE, "there is no device %s here; known kinds: %s", name, fb_str_get(&known));
    fb_str_free(&known);
    return NULL;
}

fb_device *fb_device_open(const char *name, fb_error *err)
{
    const fb_device_ops *ops = fb_device_find(name, err);
    return ops ? ops->open(name, err) : NULL;
}
