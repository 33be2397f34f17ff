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
/* The places of a launch's arguments, with commas between. */
void fb_export_arguments(fb_exporting *x, const fb_launch *l);
/* `static const TYPE products[]`, each as `product` writes it, and their number; nothing where there are none. */
bool fb_export_products(fb_exporting *x, const char *type, bool (*product)(fb_exporting *x, int i));
/* The launch list as statements: loops and swaps, and what `launch` writes for the others. */
void fb_export_launches(fb_exporting *x, void (*launch)(fb_exporting *x, int i, int depth));
/* What both targets' programs begin with: the table of tensors, and the checks of what a caller gives. */
void fb_export_checks(fb_exporting *x, fb_str *out);

/* How a target spells what it does to memory. */
typedef struct {
    const char *place;  /* the type of a place: "char *" */
    const char *home;   /* … and of a list of them: "char *const *" */
    const char *stream; /* a further parameter of settle(), and its name: ", CUstream stream"; "": none … */
    const char *unused; /* … ", (void)stream" … */
    const char *copy;   /* "memcpy(": to, from and bytes follow … */
    const char *end;    /* … and this: ", stream" */
} fb_export_memory;

/* `swap`, where there are swaps. */
void fb_export_swap(fb_exporting *x, const fb_export_memory *m);
/* `settle`: what swaps have left elsewhere goes to where the caller wants it, all of it aside first, for two of the
 * caller's own may have changed places. `place`: where temporaries lie in the workspace. */
void fb_export_settle(fb_exporting *x, const fb_export_memory *m);
void fb_export_temporaries(fb_exporting *x);
const char *fb_export_upper(const fb_exporting *x); /* the name, as macros have it */
void fb_export_origin(const fb_exporting *x, const char *what, fb_str *out);

bool fb_export_program_c(fb_exporting *x);
bool fb_export_program_cuda(fb_exporting *x);

#endif
