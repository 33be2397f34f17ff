#include "base/embedded.h"

#include <stddef.h>
#include <string.h>

const char *fb_embedded(const char *path)
{
    for (const fb_embedded_file *f = fb_embedded_files; f->path; f++) {
        if (strcmp(f->path, path) == 0) return f->text;
    }
    return NULL;
}
