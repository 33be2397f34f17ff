/* The CUDA libraries, opened at run time: libcuda, NVRTC, cuBLASLt, CUPTI, cuDNN. One binary runs with or without them and can
 * say of each where it was found, which version it is, or what is missing and what that costs the user.
 *
 * Looked for in this order: already in the process; the NVIDIA wheels of an active Python environment; conda; the
 * system's own search by soname, newest first; CUDA_PATH, CUDA_HOME, /usr/local/cuda. libcuda belongs to the driver and
 * is only taken from the system. Nothing else includes the toolkit's headers.
 */
#ifndef FB_DEVICE_CUDA_LIBS_H
#define FB_DEVICE_CUDA_LIBS_H

#include "base/error.h"

#include <cublasLt.h>
#include <cuda.h>

#include "device/cuda/cudnn.h"

#include <cupti.h>
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <jansson.h>
#include <nvrtc.h>

#define CUDA_DRIVER(name) __typeof__(name) *name;
#define CUDA_NVRTC(name)  __typeof__(name) *name;
#define CUDA_BLASLT(name) __typeof__(name) *name;
#define CUDA_CUPTI(name)  __typeof__(name) *name;
#define CUDA_DNN(name)    __typeof__(name) *name;

/* Every function of libs.def under its own name: `cu->cuMemAlloc(&p, n)`. */
typedef struct {
#include "device/cuda/libs.def"
} fb_cuda_functions;

#undef CUDA_DRIVER
#undef CUDA_NVRTC
#undef CUDA_BLASLT
#undef CUDA_CUPTI
#undef CUDA_DNN

typedef enum { FB_CUDA_DRIVER, FB_CUDA_NVRTC, FB_CUDA_BLASLT, FB_CUDA_CUPTI, FB_CUDA_DNN, FB_CUDA_LIBS } fb_cuda_lib;

/* Opens `lib` if it is not open and returns the one table, or NULL with FB_ERR_UNAVAILABLE: what was looked for, and
 * what it costs that it is not there. Thread-safe; the table lives for ever. */
const fb_cuda_functions *fb_cuda_get(fb_cuda_lib lib, fb_error *err);

/* Adds one object a library: {"name":"NVRTC","found":true,"path":…,"version":"13.0"} or {"found":false,"missing":…}. */
void fb_cuda_list_libraries(json_t *libraries);

/* "running the plan: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)". FB_ERR_CRASH when the
 * context is lost with it. */
bool fb_cuda_fail(fb_error *err, CUresult status, const char *doing);

#endif
