/* One group as one kernel's text. */
#ifndef FB_CODE_EMIT_H
#define FB_CODE_EMIT_H

#include "code/printer.h"
#include "code/statement.h"
#include "plan/plan.h"

typedef struct {
    fb_id storage; /* the node whose value the buffer holds */
    bool written;
    int64_t offset;   /* bytes that the launch adds to the pointer */
    const char *name; /* in the text */
} fb_kernel_arg;

typedef struct {
    const fb_function *function; /* NULL: it is a file of the user's own (code/eject.h) */
    const char *text;            /* all of it; equal for kernels that do the same to other buffers */
    const char *entry;
    int n_args;
    fb_kernel_arg *args;   /* in the kernel's order */
    int grid[3], block[3]; /* CUDA geometry; 0 on the host */
    int dynamic_shared;    /* bytes */
    fb_needs needs;
    fb_stage stage;
} fb_kernel_text;

/* A name for the kernel, from the ops of its nodes: "layer_norm_tanh_stack". */
const char *fb_emit_kernel_name(const fb_graph *g, int n_nodes, const fb_id *nodes, fb_arena *arena);

/* Writes the kernel of a nest; its entry is NAME_kernel. All is in `arena`. text NULL: there is nothing to do (a
 * library call without an epilogue, only empty tensors). */
fb_kernel_text fb_emit_kernel(const fb_nest *nest, fb_family family, const fb_knobs *knobs, const fb_target *target,
                              const char *name, fb_arena *arena);
/* The same kernel by another name. */
void fb_emit_rename(fb_kernel_text *text, const char *name, fb_arena *arena);

#endif
