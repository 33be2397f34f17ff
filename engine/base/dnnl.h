/* oneDNN's product of floats, found when it is first asked for: beside the BLAS, since a library of another year knows
 * other processors. Debian's libdnnl2 has it. Everything here may be called from any thread. */
#ifndef FB_BASE_DNNL_H
#define FB_BASE_DNNL_H

#include "base/error.h"

#include <stdbool.h>

typedef struct {
    const char *library;     /* the file the loader chose */
    const char *description; /* "oneDNN 2.6.3" */
} fb_dnnl;

/* The library, opened once for the process; NULL with FB_ERR_UNAVAILABLE and a sentence that says what was tried. */
const fb_dnnl *fb_dnnl_get(fb_error *err);
/* c = op(a) op(b), row by row, as cblas_sgemm has it with alpha 1 and beta 0, on the calling thread alone. False where
 * there is no library, or it takes the call not; then nothing is said of c. */
bool fb_dnnl_sgemm(int trans_a, int trans_b, int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                   float *c, int ldc);

#endif
