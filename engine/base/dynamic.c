/* Opens a library by the names it may have. Needs nothing at build time but the loader; leaves its handle and file. */
#include "base/dynamic.h"

#include "base/str.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

void *fb_dynamic_open(const char *const *names, size_t n, fb_dynamic_bind *bind, const char *missing, char file[256],
                      fb_error *err)
{
    fb_str tried = {0};
    void *found = NULL;
    for (size_t i = 0; i < n && !found; i++) {
        void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        const char *lacks = handle ? bind(handle) : NULL;
        if (handle && !lacks) {
            struct link_map *map;
            const char *path = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] ? map->l_name : names[i];
            fb_text_clean(file, 256, path, strlen(path));
            found = handle;
            continue;
        }
        fb_str_addf(&tried, "%s%s", tried.n ? ", " : "", names[i]);
        if (lacks) fb_str_addf(&tried, " (has no %s)", lacks);
        if (handle) dlclose(handle);
    }
    if (!found) fb_fail(err, FB_ERR_UNAVAILABLE, "%s; tried %s", missing, fb_str_get(&tried));
    fb_str_free(&tried);
    return found;
}

const char *fb_dynamic_take(void *handle, const fb_dynamic_function *wanted, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *symbol = dlsym(handle, wanted[i].symbol);
        if (!symbol) return wanted[i].symbol;
        memcpy(wanted[i].to, &symbol, sizeof symbol);
    }
    return NULL;
}
