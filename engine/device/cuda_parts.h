/* The cuda device, in parts: cuda.c (open, load, run), cuda_gemm.c (cuBLASLt), cuda_cupti.c (times and counters),
 * cuda_sampling.c (metrics over time), cuda_calibrate.c. Private to them. */
#ifndef FB_DEVICE_CUDA_PARTS_H
#define FB_DEVICE_CUDA_PARTS_H

#include "device/cuda_compile.h"
#include "device/cuda_libs.h"
#include "device/device.h"

enum { FB_CUDA_ALIGN = 256, FB_CUDA_WORKSPACE = 32 << 20 };

typedef struct fb_cuda_device {
    fb_device base;
    const fb_cuda_functions *f;
    CUdevice device;
    CUcontext context;
    CUstream stream;
    cublasLtHandle_t blas; /* NULL without cuBLASLt */
    CUdeviceptr workspace; /* of cuBLASLt */
    CUdeviceptr flush;     /* twice the L2, written to make the cache cold; 0 until needed */
    size_t flush_bytes;
    fb_machine machine;
    char arch[16]; /* "sm_90" */
    int driver_version;
    const fb_loaded *last_run; /* whose data the cache holds; NULL: none's */
} fb_cuda_device;

typedef struct {
    CUmodule module;
    CUfunction entry;
    int blocks; /* of a cooperative launch */
    fb_resources resources;
} fb_cuda_kernel;

typedef struct fb_cuda_gemm fb_cuda_gemm; /* descriptors and the chosen algorithm of one call */

struct fb_loaded {
    fb_cuda_device *device;
    const fb_program *program;
    fb_cuda_kernel *kernels;
    fb_cuda_gemm **gemms;
    CUdeviceptr memory; /* one block for everything */
    CUdeviceptr *buffers;
    int *slots;           /* which storage a buffer's number stands for just now: SWAP exchanges two */
    CUdeviceptr pristine; /* copies of assigned parameters, behind each other; 0 when there are none */
    int *graph_slots;     /* the slots as a run of the graph leaves them */
    CUgraphExec graph;    /* NULL until the first run in graph mode */
    int *sequence; /* in graph mode: the launch that each kernel on the device comes from, in order of execution */
    int64_t n_sequence;
    bool no_sequence;             /* a graph does not execute what a stream does */
    int64_t step[FB_MAX_REPEATS]; /* of the loops around the launch that is issued */
    double compile_ms;
};

/* Issues the whole launch list on the stream. `each` (may be NULL) is called before (after = false) and after every
 * launch with its number: kernel k, or n_kernels + g for gemm g. */
typedef struct {
    bool (*at)(void *ctx, int number, bool after, fb_error *err);
    void *ctx;
} fb_cuda_watch;
bool fb_cuda_issue(fb_loaded *l, const fb_cuda_watch *watch, fb_error *err);
/* Launches one run as the program's mode says, and does not wait for it. In graph mode a graph must be there, which
 * fb_cuda_ready sees to. */
bool fb_cuda_launch(fb_loaded *l, fb_error *err);
bool fb_cuda_ready(fb_loaded *l, fb_error *err);
bool fb_cuda_restore(fb_loaded *l,
                     fb_error *err); /* assigned parameters back to their first values; buffers to their slots */
bool fb_cuda_make_cold(fb_cuda_device *d, fb_error *err);
bool fb_cuda_wait(fb_cuda_device *d, fb_error *err);

fb_cuda_gemm *fb_cuda_gemm_new(fb_cuda_device *d, const fb_gemm_call *call, fb_error *err);
void fb_cuda_gemm_free(fb_cuda_device *d, fb_cuda_gemm *g);
/* Where its operands lie; 0 where the call has none. */
typedef struct {
    CUdeviceptr a, b, addend, bias, c;
} fb_cuda_gemm_args;
bool fb_cuda_gemm_run(fb_cuda_device *d, fb_cuda_gemm *g, const fb_cuda_gemm_args *at, fb_error *err);

/* Launches one run and reads its kernels' times from CUPTI's activity records; as fb_device_ops.trace. */
bool fb_cupti_trace(fb_loaded *l, fb_span *spans, int64_t room, int64_t *n, fb_error *err);
/* Before a trace in graph mode: a run from the stream tells which launch each kernel belongs to, since a graph is one
 * launch for all. Does nothing when that is known or not needed. */
bool fb_cupti_learn(fb_loaded *l, fb_error *err);
bool fb_cupti_count(fb_loaded *l, fb_counters *out, fb_error *err);
bool fb_cupti_sample(fb_loaded *l, double us, fb_metric_log *out, fb_error *err);

/* False, with the sentence for a status; `forbidden` knows those that mean a lack of permission. */
bool fb_cupti_fail(const fb_cuda_functions *f, fb_error *err, CUptiResult status, const char *doing);
bool fb_cupti_forbidden(const fb_cuda_functions *f, fb_error *err, CUptiResult status);
#define FB_CUPTI(f, call, doing)                                                                                       \
    do {                                                                                                               \
        CUptiResult cupti_status = (f)->call;                                                                          \
        if (cupti_status != CUPTI_SUCCESS) return fb_cupti_fail((f), err, cupti_status, doing);                        \
    } while (0)

bool fb_cuda_calibrate(fb_device *d, const fb_progress *progress, fb_error *err);
bool fb_cuda_calibration_load(fb_cuda_device *d); /* from the cache; false when there is none of this GPU and driver */

#endif
