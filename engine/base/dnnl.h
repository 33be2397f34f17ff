/* oneDNN's products and convolutions of floats, found when they are first asked for: beside the BLAS, since a library of
 * another year knows other processors, and since no BLAS has convolutions. Debian's libdnnl2 has them. Everything here may
 * be called from any thread. */
#ifndef FB_BASE_DNNL_H
#define FB_BASE_DNNL_H

#include "base/convolution.h"
#include "base/error.h"

#include <stdbool.h>

typedef struct {
    const char *library;     /* the file the loader chose */
    const char *description; /* "oneDNN 2.6.3" */
    void *handle;            /* the loader's, for what else is looked for in it */
    int major;               /* version */
    /* Of its pool of threads, which is OpenMP's, as the calling thread has it; NULL: it has none. */
    int (*max_threads)(void);
    void (*set_threads)(int);
} fb_dnnl;

/* The library, opened once for the process; NULL with FB_ERR_UNAVAILABLE and a sentence that says what was tried. */
const fb_dnnl *fb_dnnl_get(fb_error *err);
/* c = op(a) op(b), row by row, as cblas_sgemm has it with alpha 1 and beta 0, on the calling thread alone. False where
 * there is no library, or it takes the call not; then nothing is said of c. */
bool fb_dnnl_sgemm(int trans_a, int trans_b, int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                   float *c, int ldc);

/* ---- convolutions ---- */

/* Is there a library with convolutions, of the version whose calls are known here (2)? */
bool fb_dnnl_convolves(void);

/* One convolution, made ready for one thread to call: its operands are laid out as the library likes them, in memory of
 * its own. The caller frees it. */
typedef struct fb_dnnl_convolution fb_dnnl_convolution;
/* `threads` of the library's own take part. NULL where there is no library, or none of its kernels takes the call. */
fb_dnnl_convolution *fb_dnnl_convolution_new(const fb_convolution *c, int threads);
/* False where the library failed; then nothing is said of y. */
bool fb_dnnl_convolution_run(fb_dnnl_convolution *c, const float *x, const float *w, float *y);
void fb_dnnl_convolution_free(fb_dnnl_convolution *c);

#endif
