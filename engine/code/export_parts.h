/* Export, inside: what its files share.
 *
 *     export.c        names, tensors, header, build files, the test
 *     export_c.c      the program of a host: kernels in C, products by CBLAS
 *     export_cuda.c   the program of a GPU: driver calls, cubins and PTX, products by cuBLASLt
 */
#ifndef FB_CODE_EXPORT_PARTS_H
#define FB_CODE_EXPORT_PARTS_H

#include "base/vec.h"
#include "code/export.h"

typedef struct {
    const fb_export_job *job;
    fb_arena *arena;
    int n_tensors;
    const fb_export_tensor *tensors;
    FB_VEC(fb_export_file) files;
    fb_str *out; /* of the program's file */
    fb_error *err;
} fb_exporting;

/* Adds a file; takes the text. */
void fb_export_add(fb_exporting *x, const char *path, fb_str *text);
/* The value of a buffer at this launch: "h->b[3] + 128 + t0 * 512". */
void fb_export_place(fb_str *out, int buffer, int64_t offset, fb_advance advance);
/* The launch list as statements: loops and swaps, and what `launch` writes for the others. */
void fb_export_launches(fb_exporting *x, void (*launch)(fb_exporting *x, int i, int depth));
/* What both targets' programs begin with: the table of tensors, and the checks of what a caller gives. */
void fb_export_checks(fb_exporting *x, fb_str *out);
bool fb_export_swaps(const fb_program *p);
/* Bytes of the caller's tensors that swaps leave elsewhere: they are put back after a run. */
int64_t fb_export_aside(const fb_program *p, fb_arena *arena, bool **swapped);
const char *fb_export_upper(const fb_exporting *x); /* the name, as macros have it */
void fb_export_origin(const fb_exporting *x, const char *what, fb_str *out);

bool fb_export_program_c(fb_exporting *x);
bool fb_export_program_cuda(fb_exporting *x);

#endif
