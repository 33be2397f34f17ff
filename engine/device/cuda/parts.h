/* The cuda device, in parts: cuda.c (open, load, run), copy.c (feeds and receives), gemm.c (cuBLASLt), convolution.c (cuDNN), time.c (times of
 * single launches), cupti.c (times and counters), sampling.c (metrics over time), calibrate.c. Private to them. */
#ifndef FB_DEVICE_CUDA_PARTS_H
#define FB_DEVICE_CUDA_PARTS_H

#include "base/vec.h"
#include "device/cuda/compile.h"
#include "device/cuda/libs.h"
#include "device/cuda/nvml.h"
#include "device/device.h"

enum { FB_CUDA_ALIGN = 256, FB_CUDA_WORKSPACE = 32 << 20 };

/* Leaves the caller with false and the sentence for a status that is no success. */
#define FB_CUDA(d, call, doing)                                                                                        \
    do {                                                                                                               \
        CUresult cuda_status = (d)->f->call;                                                                           \
        if (cuda_status != CUDA_SUCCESS) return fb_cuda_fail(err, cuda_status, doing);                                 \
    } while (0)

/* What memory holds that is only timed with: small odd numbers of every type, for products of zeros run faster than
 * those of real data. */
#define FB_CUDA_NUMBERS 0x3c1f3a2bu

#define FB_CUDA_CHOICES "cublaslt" /* folder of the disk cache */

/* Which of the library's proposals was the fastest for products alike. */
typedef struct {
    fb_hash product;
    int which;
} fb_cuda_choice;

typedef struct {
    CUdeviceptr at;
    int64_t bytes;
} fb_cuda_room;

typedef struct fb_cuda_device {
    fb_device base;
    const fb_cuda_functions *f;
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUstream stream_in, stream_out; /* of copies beside kernels; NULL until a program has them */
    cublasLtHandle_t blas;          /* NULL without cuBLASLt */
    CUdeviceptr workspace;          /* of cuBLASLt */
    FB_VEC(fb_cuda_choice) choices; /* of its algorithms, made so far */
    cudnnHandle_t dnn;              /* NULL until a convolution is asked for */
    FB_VEC(fb_cuda_room) rooms;     /* of convolutions, each larger than those before */
    CUmodule digest_module;         /* of step.c; NULL until needed, with what it adds up in */
    CUfunction digest;
    CUdeviceptr digest_sum;
    CUmodule turn_module; /* of turn.c; NULL until needed */
    CUfunction turn[2];   /* elements of 2 and of 4 bytes */
    CUdeviceptr flush;    /* twice the L2, written to make the cache cold; 0 until needed */
    size_t flush_bytes;
    void *staged; /* pinned, of transfer.c: two halves; NULL until needed */
    size_t staged_half;
    fb_machine machine;
    char arch[16]; /* "sm_90" */
    int driver_version;
    fb_nvml *nvml;             /* NULL: clocks are not known */
    const fb_loaded *last_run; /* whose data the cache holds; NULL: none's */
} fb_cuda_device;

typedef struct {
    CUmodule module;
    CUfunction entry;
    int blocks; /* of a cooperative launch */
    fb_resources resources;
} fb_cuda_kernel;

typedef struct fb_cuda_gemm fb_cuda_gemm; /* descriptors and the chosen algorithm of one call */

typedef struct {
    int buffer;
    size_t bytes;
    void *outside[2];     /* pinned: what even and odd runs are given, or gave */
    CUdeviceptr place[2]; /* of even and odd runs; the same one where runs do not overlap */
} fb_cuda_copy;

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
    fb_cuda_copy *copies; /* those that arrive first */
    int n_copies, first_out;
    bool doubles;                 /* copies run beside the kernels of other runs */
    CUevent begun, arrived, left; /* where they do */
    int64_t turn;                 /* runs since the first of a call */
    CUgraphExec graphs[2]; /* of even and odd runs, the second only where something is copied; NULL until the first run
                            * in graph mode */
    int *sequence; /* in graph mode: the launch that each kernel on the device comes from, in order of execution */
    int64_t n_sequence;
    bool no_sequence;             /* a graph does not execute what a stream does */
    int64_t step[FB_MAX_REPEATS]; /* of the loops around the launch that is issued */
    int64_t fewer;                /* steps that a merged kernel makes less than it should, for the check */
    double compile_ms;
};

/* Issues one run: its launch list on the stream, and its copies. `watch` (may be NULL) is called before (after = false)
 * and after every launch and copy with its stream and number: kernel k, n_kernels + g for gemm g, n_kernels + n_gemms +
 * c for copy c. */
typedef struct {
    bool (*at)(void *ctx, int number, CUstream stream, bool after, fb_error *err);
    void *ctx;
} fb_cuda_watch;
bool fb_cuda_issue(fb_loaded *l, const fb_cuda_watch *watch, fb_error *err);
bool fb_cuda_issue_kernels(fb_loaded *l, const fb_cuda_watch *watch, fb_error *err); /* without copies */
/* One launch of the list, which is no REPEAT, END or SWAP, at the steps that l->step says; and a SWAP. */
bool fb_cuda_launch_one(fb_loaded *l, const fb_launch *launch, const fb_cuda_watch *watch, fb_error *err);
void fb_cuda_swap(fb_loaded *l, int a, int b);
extern const fb_stepping fb_cuda_stepping; /* step.c */
/* Launches one run as the program's mode says, and does not wait for it. In graph mode a graph must be there, which
 * fb_cuda_ready sees to. */
bool fb_cuda_launch(fb_loaded *l, fb_error *err);
bool fb_cuda_ready(fb_loaded *l, fb_error *err);
bool fb_cuda_restore(fb_loaded *l,
                     fb_error *err); /* assigned parameters back to their first values; buffers to their slots */
bool fb_cuda_make_cold(fb_cuda_device *d, fb_error *err);
bool fb_cuda_wait(fb_cuda_device *d, fb_error *err);

/* ---- copies ---- */

static inline size_t fb_cuda_aligned(int64_t bytes)
{
    return ((size_t)bytes + FB_CUDA_ALIGN - 1) & ~(size_t)(FB_CUDA_ALIGN - 1);
}

/* Both have ended when they return: no pageable memory is on its way any more. */
bool fb_cuda_copy_in(fb_cuda_device *d, CUdeviceptr to, const void *bytes, size_t n, fb_error *err);
bool fb_cuda_copy_out(fb_cuda_device *d, CUdeviceptr from, void *bytes, size_t n, fb_error *err);
void fb_cuda_transfer_close(fb_cuda_device *d);

size_t fb_cuda_copies_bytes(const fb_program *p); /* of second buffers on the device */
bool fb_cuda_copies_open(fb_loaded *l, CUdeviceptr second, fb_error *err);
void fb_cuda_copies_close(fb_loaded *l);
fb_cuda_copy *fb_cuda_copy_of(const fb_loaded *l, int buffer); /* NULL: it is not copied */
bool fb_cuda_copies_poison(fb_loaded *l, fb_error *err);
fb_lane fb_cuda_lane(const fb_loaded *l, int number); /* of a launch or copy */
/* The buffers of this turn, among those of which there are two. */
void fb_cuda_take_places(fb_loaded *l);
/* Before the first run of a call, and after the last one; drain waits, fill does not. */
bool fb_cuda_fill(fb_loaded *l, fb_error *err);
bool fb_cuda_drain(fb_loaded *l, fb_error *err);

/* Median µs of one of `count` launches that `issue` puts on the device's stream, run together as a graph, of `rounds`
 * such runs (15 at most). What it runs must have run before: a graph loads no code. */
typedef bool (*fb_cuda_issue_fn)(void *ctx, int i, fb_error *err);
bool fb_cuda_time(fb_cuda_device *d, fb_cuda_issue_fn issue, void *ctx, int count, int rounds, double *us,
                  fb_error *err);
double fb_cuda_median(double *times, int n); /* sorts them */

fb_cuda_gemm *fb_cuda_gemm_new(fb_cuda_device *d, const fb_gemm_call *call, fb_error *err);
void fb_cuda_gemm_free(fb_cuda_device *d, fb_cuda_gemm *g);
/* Where its operands lie; 0 where the call has none. */
typedef struct {
    CUdeviceptr a, b, addend, bias, c;
} fb_cuda_gemm_args;
bool fb_cuda_gemm_run(fb_cuda_device *d, fb_cuda_gemm *g, const fb_cuda_gemm_args *at, fb_error *err);
/* Compiles and loads kernels of the device's own, which no program has; `doing` is what an error says was being done. */
bool fb_cuda_own_module(fb_cuda_device *d, const char *source, const char *name, const char *doing, CUmodule *out,
                        fb_error *err);
/* Matrices that become lines of their columns, `padded` elements each, zeros behind `rows` of them; they follow each other in
 * the result, and begin `from_step` elements apart in the source. Needs fb_cuda_turn_open, once. */
typedef struct {
    int64_t matrices, rows, columns, padded, from_step;
} fb_cuda_turning;
bool fb_cuda_turn_open(fb_cuda_device *d, fb_error *err);
int64_t fb_cuda_turn_blocks(const fb_cuda_turning *t); /* which have to be fewer than 2³¹ */
bool fb_cuda_turn(fb_cuda_device *d, const fb_cuda_turning *t, int64_t size, CUdeviceptr from, CUdeviceptr to,
                  fb_error *err);

/* The same as a convolution: made with engines that cuDNN proposes for it, at least one; run with the one `which`. NULL
 * with the reason where there is no cuDNN, or it has no engine that computes as the plan says. */
typedef struct fb_cuda_convolution fb_cuda_convolution;
fb_cuda_convolution *fb_cuda_convolution_new(fb_cuda_device *d, const fb_gemm_call *call, int *n_proposed,
                                             fb_error *err);
/* a: the weights, b: x, each where its first element lies. */
bool fb_cuda_convolution_run(fb_cuda_device *d, fb_cuda_convolution *c, int which, const fb_cuda_gemm_args *at,
                             fb_error *err);
/* Takes the room that `which` needs: none can be had while a graph is made. Where there is none, the run says so. */
void fb_cuda_convolution_settle(fb_cuda_device *d, const fb_cuda_convolution *c, int which);
void fb_cuda_convolution_free(fb_cuda_device *d, fb_cuda_convolution *c);
bool fb_cuda_convolution_open(fb_cuda_device *d, fb_error *err); /* starts the library, if it has not been started */
void fb_cuda_convolution_close(fb_cuda_device *d);
/* Takes the algorithm that was the fastest for products alike, in this process or another one; false where none was
 * timed yet. */
bool fb_cuda_gemm_recall(fb_cuda_device *d, fb_cuda_gemm *g);
/* Times those that the library proposes, takes the fastest and keeps it, on disk too. Operands hold numbers; the
 * result's memory holds something else afterwards. */
bool fb_cuda_gemm_choose(fb_cuda_device *d, fb_cuda_gemm *g, const fb_cuda_gemm_args *at, fb_error *err);
void fb_cuda_gemm_forget(fb_cuda_device *d); /* all choices, those on disk too */

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
/* From the cache; false when there is none of this GPU (`m` describes it) and driver, or none with its products. */
bool fb_cuda_calibration_read(fb_machine *m, int driver_version, bool products);

#endif
