/* The system's CBLAS, found when it is first asked for. The reference interpreter and the host device both use it; a
 * machine without one still works, slowly. It computes in the thread that asks it: who wants more of them shares a
 * product out. Nothing is owned by the caller; everything here may be called from any thread. Matrices are row-major or
 * column-major as cblas.h has it; dimensions are 32-bit. */
#ifndef FB_BASE_BLAS_H
#define FB_BASE_BLAS_H

#include "base/error.h"

#include <stdbool.h>

enum { FB_BLAS_ROW_MAJOR = 101, FB_BLAS_COL_MAJOR = 102, FB_BLAS_NO_TRANS = 111, FB_BLAS_TRANS = 112 };

typedef struct {
    const char *library;     /* the file the loader chose */
    const char *description; /* "OpenBLAS 0.3.21 …" where the library says so, else its file */
    bool narrow;             /* it says that it uses half of this CPU's vectors, being older */

    /* Always there: c = alpha · op(a) op(b) + beta · c, with op(a) m × k and op(b) k × n. */
    void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                  const float *b, int ldb, float beta, float *c, int ldc);
    void (*dgemm)(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double *a, int lda,
                  const double *b, int ldb, double beta, double *c, int ldc);
    /* y = alpha · op(a) x + beta · y, a m × n. */
    void (*sgemv)(int order, int trans, int m, int n, float alpha, const float *a, int lda, const float *x, int step_x,
                  float beta, float *y, int step_y);
    void (*dgemv)(int order, int trans, int m, int n, double alpha, const double *a, int lda, const double *x,
                  int step_x, double beta, double *y, int step_y);
} fb_blas;

/* The library, opened once for the process; NULL with FB_ERR_UNAVAILABLE and a sentence that says what was tried. */
const fb_blas *fb_blas_get(fb_error *err);

#endif
