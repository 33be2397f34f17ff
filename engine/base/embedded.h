/* Files that travel inside the binary: preludes, bundled scripts and the Lua library. The Makefile lists them in
 * EMBEDDED; kernels/embed.sh writes them into one generated table. */
#ifndef FB_BASE_EMBEDDED_H
#define FB_BASE_EMBEDDED_H

#include <stddef.h>

typedef struct {
    const char *path; /* relative to the source tree: "kernels/prelude.h", "scripts/lib/nn.lua" */
    size_t size;      /* bytes */
    const char *text; /* terminated */
} fb_embedded_file;

/* In the Makefile's order; ends with an entry whose path is NULL. */
extern const fb_embedded_file fb_embedded_files[];

/* The file, or its text; NULL when no file of that path was embedded. */
const fb_embedded_file *fb_embedded_find(const char *path);
const char *fb_embedded(const char *path);

#endif
