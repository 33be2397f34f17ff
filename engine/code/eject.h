/* Kernels that the user takes over: the generated text as a file to be improved by hand, and that file instead of what
 * would be generated.
 *
 * The file begins with a comment of lines "@key value". They name the kernel's entry and, for a GPU, its launch
 * geometry, which may be changed; and what the kernel is given and has to compute, with a hash: where a group is
 * another one meanwhile, the file is refused. The hash knows nothing of names and of where in a buffer a launch starts,
 * so that one file serves all members of a repetition. */
#ifndef FB_CODE_EJECT_H
#define FB_CODE_EJECT_H

#include "base/error.h"
#include "base/hash.h"
#include "base/str.h"
#include "code/emit.h"

/* A generated kernel of a group. All borrowed. */
typedef struct {
    const fb_graph *graph;
    const fb_group *group;
    const fb_target *target;
    const fb_kernel_text *text;
} fb_eject_kernel;

typedef struct {
    const char *script, *column; /* where it is from, for people */
} fb_eject_origin;

/* Of what the kernel is given and computes: one file serves all groups of equal ones. */
fb_hash fb_eject_interface(const fb_eject_kernel *k);
/* The whole file: header and generated text. */
void fb_eject_write(const fb_eject_kernel *k, const fb_eject_origin *from, fb_str *out);
/* Puts the file's text, entry and geometry in the place of the generated ones; all in `arena`. False with one sentence
 * that names the file, and the line where there is one, when it is no such file or is stale. */
bool fb_eject_read(const fb_eject_kernel *k, const fb_kernel_source *file, fb_arena *arena, fb_kernel_text *text,
                   fb_error *err);

#endif
