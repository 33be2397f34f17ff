/* CUDA source to machine code through NVRTC, cached on disk by content: source, options, NVRTC version and
 * architecture. Needs no GPU: `emit` and the tests use it on machines that have none. */
#ifndef FB_DEVICE_CUDA_COMPILE_H
#define FB_DEVICE_CUDA_COMPILE_H

#include "device/device.h"

typedef enum { FB_CUBIN, FB_PTX } fb_cuda_code_kind;

/* What the compiler gave; `bytes` and `log` are freed with fb_cuda_code_clear. The resources come from ptxas's own
 * report, so that they are known without a GPU (spill_bytes counts stores and loads). */
typedef struct {
    void *bytes;
    size_t n;
    char *log;
    bool cached;
    double ms;
    int registers, shared_bytes, spill_bytes;
    int stack_bytes; /* of a thread's frame in local memory */
} fb_cuda_code;

/* One translation unit (prelude included) for `arch`: "sm_90". `name`: the kernel's, or with a dot that of the user's
 * file that holds it. On a compile error the sentence holds the first error line, with its place in such a file. */
bool fb_cuda_compile(const char *source, const char *name, const char *arch, fb_cuda_code_kind kind, fb_cuda_code *out,
                     fb_error *err);
/* A kernel with all that it stands on, for the variant of `arch` that has the instructions it needs. */
bool fb_cuda_compile_kernel(const fb_kernel *k, const char *arch, fb_cuda_code_kind kind, fb_cuda_code *out,
                            fb_error *err);
void fb_cuda_code_clear(fb_cuda_code *code);

/* Compiles the kernels of a program that have source, on as many threads as there are cores; codes[k] stays zero for
 * the others, and for all but the first of a unit that several share. Stops at the first error or when progress says
 * so. */
bool fb_cuda_compile_program(const fb_program *p, const char *arch, const fb_progress *progress, fb_cuda_code *codes,
                             fb_error *err);

/* The same for the cache alone: the code is not kept. */
bool fb_cuda_compile_ahead(const fb_program *p, const char *arch, fb_error *err);

/* The architectures NVRTC knows, ascending ("sm_75" … ); returns how many of `room` were written. */
int fb_cuda_archs(char to[][16], int room, fb_error *err);

/* Fills in what an architecture ("sm_90", "sm_90a") says of a multiprocessor: compute capability, registers, threads,
 * shared memory. Newer ones than this knows are taken to be as the newest it knows. FB_ERR_USAGE for what is no
 * architecture, or none that the NVRTC in this process can compile for. */
bool fb_cuda_arch_limits(const char *arch, fb_machine *m, fb_error *err);

/* Blocks resident on one multiprocessor over its thread limit: the theoretical occupancy of the CUDA occupancy
 * calculator (registers are given out per warp in units of 256, shared memory per block in units of 1 KiB plus 1 KiB of
 * the system). */
double fb_cuda_occupancy(const fb_machine *m, int registers, int shared_bytes, int threads);

#endif
