/* A program as a folder of C that builds by itself: header, kernels, what launches them, build files and a test.
 *
 * The launch list is written out as statements (a REPEAT is a for, a SWAP exchanges two pointers), so that what runs
 * can be read. Inputs, parameters and outputs are the caller's memory; temporaries lie in a handle's workspace, and a
 * run allocates nothing. Pure: texts from a program; who calls writes them (tui/cli/export.c). docs/EXPORT.md is for
 * users. */
#ifndef FB_CODE_EXPORT_H
#define FB_CODE_EXPORT_H

#include "code/program.h"

/* What a GPU runs of one kernel. */
typedef struct {
    const void *cubin;
    size_t cubin_bytes;
    const char *ptx; /* NULL: it runs on its own architecture alone */
} fb_export_code;

typedef struct {
    const fb_program *program;
    const fb_graph *graph;
    const fb_target *target;
    const char *name;   /* fb_export_name's */
    const char *origin; /* "split_stack.lua, column combined:max@host, batch_size=64" */
    const char *version;
    const char *arch;            /* CUDA: "sm_90" */
    const fb_export_code *codes; /* CUDA: of each kernel */
    bool test;                   /* there is a test/data.bin */
} fb_export_job;

typedef struct {
    const char *path; /* in the folder */
    const char *text;
    size_t n;
} fb_export_file;

/* A name fit for C, CMake and a shell from any text: letters, digits and underscores, no keyword. Arena-owned. */
const char *fb_export_name(const char *wish, fb_arena *arena);

/* The tensors of a program that the caller owns, in the order of test/data.bin: buffers that are no temporaries. */
typedef struct {
    int buffer;
    const char *field; /* in the header's struct */
    bool given;        /* test/data.bin holds its bytes */
    fb_id checked;     /* … and what this node should be after a run; FB_NONE: nothing */
} fb_export_tensor;
int fb_export_tensors(const fb_program *p, const fb_graph *g, fb_arena *arena, fb_export_tensor **out);

/* All files but test/data.bin; 0 with a sentence for what cannot be exported. */
int fb_export_files(const fb_export_job *job, fb_arena *arena, fb_export_file **out, fb_error *err);

#endif
