/* The host device, inside: what its files share.
 *
 *     host.c       the vtable: loading, running, timing
 *     copy.c       feeds and receives, beside or between the kernels
 *     cc.c         C text → shared object → dlopen, through the cache
 *     gemm.c       library contractions in blocks, with their epilogues
 *     convolution.c  … and convolutions
 *     calibrate.c  what fb_machine holds of this processor
 *     places.c     where buffers lie
 *     list.c       what `fusebox devices` says of it
 */
#ifndef FB_DEVICE_HOST_PARTS_H
#define FB_DEVICE_HOST_PARTS_H

#include "base/blas.h"
#include "base/dnnl.h"
#include "device/device.h"
#include "device/host/cc.h"
#include "device/host/places.h"

/* As kernels/prelude.h has it. */
typedef struct fb_host_args {
    void *const *buffers;
    int64_t first, last;
    void (*multiply)(const struct fb_host_args *args, int product, int64_t rows, const void *a, const void *b,
                     void *to);
    void *context;
    void (*gemm)(void *device, int number, void *const *buffers);
    void *device;
    int64_t steps;
} fb_host_args;
typedef void (*fb_host_entry)(const fb_host_args *args);

/* The entries of kernels/host_runtime.c, bound by name. */
#define FB_HOST_RUNTIME(X)                                                                                             \
    X(int, team_threads, (void))                                                                                       \
    X(void, team, (void (*part)(void *ctx, int index, int count), void *ctx))                                          \
    X(void, widen_f16, (float *to, const void *from, int64_t first, int64_t last))                                     \
    X(void, widen_bf16, (float *to, const void *from, int64_t first, int64_t last))                                    \
    X(void, narrow_f16, (void *to, const float *from, int64_t first, int64_t last))                                    \
    X(void, narrow_bf16, (void *to, const float *from, int64_t first, int64_t last))                                   \
    X(void, flush, (char *at, int64_t bytes))                                                                          \
    X(void, copy, (float *to, const float *from, int64_t n, int all_cores))                                            \
    X(void, nothing, (void *const *buffers, int64_t rows))                                                             \
    X(void, barriers, (int64_t count))                                                                                 \
    X(void, arithmetic_f32, (void *data, int64_t n, int64_t rounds, int64_t stride))                                   \
    X(void, arithmetic_f16, (void *data, int64_t n, int64_t rounds, int64_t stride))                                   \
    X(void, arithmetic_bf16, (void *data, int64_t n, int64_t rounds, int64_t stride))                                  \
    X(void, arithmetic_f64, (void *data, int64_t n, int64_t rounds, int64_t stride))                                   \
    X(void, arithmetic_i32, (void *data, int64_t n, int64_t rounds, int64_t stride))                                   \
    X(void, arithmetic_i64, (void *data, int64_t n, int64_t rounds, int64_t stride))                                   \
    X(void, arithmetic_bool, (void *data, int64_t n, int64_t rounds, int64_t stride))                                  \
    X(void, sums, (float *data, int64_t rows, int64_t n, int64_t stride))                                              \
    X(void, lanes_f32, (void *data, int64_t rows, int64_t stride))                                                     \
    X(void, lanes_f64, (void *data, int64_t rows, int64_t stride))                                                     \
    X(void, lanes_f16, (void *data, int64_t rows, int64_t stride))                                                     \
    X(void, lanes_bf16, (void *data, int64_t rows, int64_t stride))                                                    \
    X(void, lanes_few, (void *data, int64_t rows, int64_t stride))                                                     \
    X(void, gather, (float *data, int64_t n, int64_t step, int64_t stride))                                            \
    X(void, transpose, (float *to, const float *from, int64_t n))                                                      \
    X(void, turn, (float *to, const float *from, int64_t n))                                                           \
    X(void, specials, (float *data, int64_t n, int64_t rounds, int64_t stride))

typedef struct {
#define X(RESULT, NAME, ARGUMENTS) RESULT(*NAME) ARGUMENTS;
    FB_HOST_RUNTIME(X)
#undef X
    int threads; /* of the team */
} fb_host_runtime;

typedef struct fb_copier fb_copier; /* a thread that copies */

/* Which library multiplies floats, as calibration found it: where oneDNN is clearly the faster, oneDNN. */
typedef struct {
    char library[64]; /* oneDNN's description when that was found out; "": it was not there */
    int n;            /* cubes by FLOPs, ascending */
    double flops[FB_RATE_POINTS];
    bool dnnl[FB_RATE_POINTS];
    bool few_rows, few_steps; /* products of four rows; of sums of four */
} fb_host_sgemm;

typedef struct {
    fb_device device; /* first: an fb_device is one */
    fb_machine machine;
    fb_cc *cc;           /* found when first needed */
    fb_host_runtime rt;  /* bound when first needed: rt.threads is 0 before; stays loaded, for its threads live in it */
    const fb_blas *blas; /* NULL: there is none */
    fb_host_sgemm sgemm;
    const fb_loaded *last; /* what ran last, for "hot" */
    fb_host_places *places;
    fb_copier *copier; /* NULL until a program overlaps copies and kernels */
    char *flush;       /* twice the last-level cache, for "cold" */
    int64_t flush_bytes;
} fb_host;

extern const fb_device_ops fb_device_host;

/* Finds the compiler and loads the runtime. */
bool fb_host_ready(fb_host *h, const fb_progress *progress, fb_error *err);
/* Puts everything out of the caches. */
void fb_host_flush(fb_host *h);

/* ---- feeds and receives ---- */

typedef struct {
    int buffer;
    int64_t bytes;
    char *outside[2];        /* what even and odd runs are given, or gave: the program's own memory */
    char *place[2];          /* of even and odd runs; the same one where runs do not overlap */
    double start_us, end_us; /* of the last copy, on the clock */
} fb_host_copy;

typedef struct {
    int n, first_out;
    fb_host_copy *copy; /* those that arrive first */
    bool overlap;
    int64_t turn; /* runs since the pipeline was filled */
} fb_host_copies;

/* NULL where the program copies nothing. `place` and `second`: of each buffer; the caller sees that there is room. */
fb_host_copies *fb_host_copies_new(const fb_program *p, char *const *place, char *const *second);
void fb_host_copies_free(fb_host_copies *c);
/* NULL for a buffer that is not copied; c may be NULL. */
fb_host_copy *fb_host_copy_of(const fb_host_copies *c, int buffer);
/* Feeds of runs of that parity arrive, or their results leave. */
void fb_host_copy_in(fb_host_copies *c, int parity);
void fb_host_copy_out(fb_host_copies *c, int parity);
/* The thread does both, from begin on; finish waits for it. One pair at a time. */
fb_copier *fb_copier_new(fb_error *err);
void fb_copier_free(fb_copier *t);
void fb_copier_begin(fb_copier *t, fb_host_copies *c, int parity);
void fb_copier_finish(fb_copier *t);

/* ---- contractions ---- */

typedef struct fb_host_gemm fb_host_gemm;

/* Whether oneDNN is to multiply m × k by k × n floats. */
bool fb_host_takes_dnnl(const fb_host_sgemm *s, int64_t m, int64_t n, int64_t k);

/* FB_ERR_LIMIT when it is beyond what a BLAS takes. `call` is borrowed; `epilogue` NULL: none. */
fb_host_gemm *fb_host_gemm_new(fb_host *h, const fb_gemm_call *call, fb_host_entry epilogue, fb_error *err);
void fb_host_gemm_free(fb_host_gemm *g);
/* a, b, c: the buffers' bytes. `args`: the epilogue's pointers. */
void fb_host_gemm_run(fb_host_gemm *g, const void *a, const void *b, void *c, void *const *args);

/* ---- convolutions ---- */

typedef struct fb_host_convolution fb_host_convolution;

/* Both are borrowed. */
fb_host_convolution *fb_host_convolution_new(const fb_convolution *call, const fb_host_runtime *rt);
void fb_host_convolution_free(fb_host_convolution *c);
void fb_host_convolution_run(fb_host_convolution *c, const float *x, const float *w, float *y);

/* ---- products of chains ---- */

typedef struct fb_host_products fb_host_products;

/* The products of one launch, or NULL where it has none. FB_ERR_LIMIT as above. All is borrowed. */
bool fb_host_products_new(fb_host *h, const fb_program *p, const fb_launch *l, fb_host_products **out, fb_error *err);
void fb_host_products_free(fb_host_products *c);
/* Runs the launch's kernel; buffers: of the program, by number. */
void fb_host_products_run(fb_host_products *c, fb_host_entry entry, char *const *buffers, void *const *args);

/* ---- the machine ---- */

/* Name, cores, caches, memory: what the system says without measuring; guesses for the rest. */
void fb_host_system(fb_machine *m);
/* The calibration kept in the cache, or the above; of other libraries than are there now, it is not taken. `sgemm` may
 * be NULL. */
void fb_host_machine(fb_machine *m, fb_host_sgemm *sgemm);
/* Copy bandwidth of one core against bytes; empty when not calibrated. */
void fb_host_one_core(fb_rate_curve *c);
bool fb_host_calibrate(fb_host *h, const fb_progress *progress, fb_error *err);
/* A call that sums rows of `length`, in two sizes: what it takes beyond the sums is in both. */
typedef struct {
    int64_t length, less_rows, more_rows; /* a thread's */
    double less_us, more_us;
} fb_host_rows;
/* gsum and gsum_rows, from few long rows and many short ones with as many elements. */
void fb_host_sums(fb_machine *m, double threads, const fb_host_rows *few, const fb_host_rows *many);
void fb_host_list(json_t *devices, json_t *libraries);

#endif
