/* An export (code/export.h) as operators of PyTorch: a Python module beside the folders of the C libraries, which it
 * loads. `forward/` holds the program, `backward/` the one that gives its gradients, where there is one. Pure texts. */
#ifndef FB_CODE_EXPORT_TORCH_H
#define FB_CODE_EXPORT_TORCH_H

#include "code/export.h"
#include "graph/backward.h"

typedef struct {
    const fb_export_job *forward;
    const fb_export_job *backward; /* NULL: no gradient … */
    const fb_backward *gradient;   /* of `backward` */
    const char *why_none;          /* … and why: "it changes `w` in place, …" */
} fb_export_torch;

/* The module, its test and a Makefile; not what is in `forward/` and `backward/`. */
int fb_export_torch_files(const fb_export_torch *t, fb_arena *arena, fb_export_file **out);

#endif
