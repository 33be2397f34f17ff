/* The bundled programs of Python: which interpreter runs them, and where from. They travel inside the binary and are
 * put into the user's cache. Leaves files there that are as they should be. */
#include "tui/cli/cli.h"

#include "base/embedded.h"
#include "base/file.h"
#include "base/mem.h"
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *fb_python(void)
{
    const char *given = getenv("FUSEBOX_PYTHON");
    return given && *given ? given : "python3";
}

static bool put(const fb_embedded_file *f, const char *path, fb_error *err)
{
    size_t n = 0;
    char *there = fb_read_file(path, f->size + 1, &n, NULL);
    bool same = there && n == f->size && memcmp(there, f->text, n) == 0;
    fb_free(there);
    return same || fb_write_file(path, f->text, f->size, err);
}

bool fb_python_files(const char *folder, char to[PATH_MAX], fb_error *err)
{
    char bundled[64], place[64], path[PATH_MAX];
    int n = snprintf(bundled, sizeof bundled, "scripts/%s/", folder);
    snprintf(place, sizeof place, "%s-%s", folder, PACKAGE_VERSION);
    if (!fb_cache_dir(place, to, PATH_MAX, err)) return false;
    for (const fb_embedded_file *f = fb_embedded_files; f->path; f++) {
        if (strncmp(f->path, bundled, (size_t)n) != 0) continue;
        if (snprintf(path, sizeof path, "%s/%s", to, f->path + n) >= (int)sizeof path)
            return fb_fail(err, FB_ERR_SYSTEM, "the name of the cache's folder is too long");
        if (!put(f, path, err)) return false;
    }
    return true;
}
