/* Looks a path up in the generated table (engine/base/embedded_files.c, made by kernels/embed.sh). */
#include "base/embedded.h"

#include <stddef.h>
#include <string.h>

const fb_embedded_file *fb_embedded_find(const char *path)
{
    for (const fb_embedded_file *f = fb_embedded_files; f->path; f++)
        if (strcmp(f->path, path) == 0) return f;
    return NULL;
}

const char *fb_embedded(const char *path)
{
    const fb_embedded_file *f = fb_embedded_find(path);
    return f ? f->text : NULL;
}
