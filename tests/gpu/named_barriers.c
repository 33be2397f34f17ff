/* A kernel whose warps meet as those of merged kernels do, and nothing else: first some of a block's warps, then more
 * of them, at barriers with a number. Every value that crosses a barrier is checked, so that the kernel itself says
 * whether it is right. That tells whether racecheck can be believed of such barriers (sanitize.sh).
 *
 *     named_barriers [ROUNDS] [cut]
 *
 * With "cut" the second meeting is left out, and values must be wrong: the proof that they can be. Exit status 0 when
 * no value was wrong, 1 otherwise, 2 when the kernel could not run, 77 without a GPU. */
#include "device/cuda/compile.h"
#include "device/cuda/libs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 64, THREADS = 256 };

/* A warp is late in every other round, so that no luck orders what a barrier must. */
static const char text[] =
    "#define MEET(barrier, threads) asm volatile(\"bar.sync %0, %1;\" ::\"n\"(barrier), \"n\"(threads) : \"memory\")\n"
    "extern \"C\" __global__ void named_barriers(unsigned rounds, unsigned *wrong)\n"
    "{\n"
    "    __shared__ unsigned s[128];\n"
    "    const unsigned t = threadIdx.x;\n"
    "    unsigned bad = 0;\n"
    "    for (unsigned r = 0; r < rounds; r++) {\n"
    "        if (t < 64) {\n"
    "            s[t] = r;\n"
    "            MEET(1, 64);\n"
    "            bad += s[63 - t] != r;\n"
    "            MEET(2, 64);\n"
    "        }\n"
    "        __syncthreads();\n"
    "        if (t < 128) {\n"
    "            if ((t / 32 + r) % 2) __nanosleep(500);\n"
    "            s[t] = r + t;\n"
    "            if (!CUT) MEET(1, 128);\n"
    "            bad += s[127 - t] != r + 127 - t;\n"
    "            MEET(2, 128);\n"
    "        }\n"
    "        __syncthreads();\n"
    "    }\n"
    "    if (bad) atomicAdd(wrong, bad);\n"
    "}\n";

/* How many values were wrong, or -1. */
static long wrong_values(const fb_cuda_functions *f, unsigned rounds, bool cut, fb_error *err)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr counter = 0;
    int major = 0, minor = 0;
    CUresult status = f->cuDeviceGet(&device, 0);
    if (status == CUDA_SUCCESS)
        status = f->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    if (status == CUDA_SUCCESS)
        status = f->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    if (status != CUDA_SUCCESS) {
        fb_cuda_fail(err, status, "asking for the device");
        return -1;
    }
    char arch[16];
    snprintf(arch, sizeof arch, "sm_%d%d", major, minor);
    char source[2048];
    snprintf(source, sizeof source, "#define CUT %d\n%s", cut, text);
    fb_cuda_code code;
    if (!fb_cuda_compile(source, "named_barriers", arch, FB_CUBIN, &code, err)) return -1;
    unsigned wrong = 0;
    void *args[] = {&rounds, &counter};
    status = f->cuDevicePrimaryCtxRetain(&context, device);
    if (status == CUDA_SUCCESS) status = f->cuCtxSetCurrent(context);
    if (status == CUDA_SUCCESS) status = f->cuModuleLoadData(&module, code.bytes);
    if (status == CUDA_SUCCESS) status = f->cuModuleGetFunction(&kernel, module, "named_barriers");
    if (status == CUDA_SUCCESS) status = f->cuMemAlloc(&counter, sizeof wrong);
    if (status == CUDA_SUCCESS) status = f->cuMemsetD32Async(counter, 0, 1, NULL);
    if (status == CUDA_SUCCESS) status = f->cuLaunchKernel(kernel, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, args, NULL);
    if (status == CUDA_SUCCESS) status = f->cuMemcpyDtoH(&wrong, counter, sizeof wrong);
    fb_cuda_code_clear(&code);
    if (status == CUDA_SUCCESS) return wrong;
    fb_cuda_fail(err, status, "meeting at barriers");
    return -1;
}

int main(int argc, char **argv)
{
    const unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
    const bool cut = argc > 2 && strcmp(argv[2], "cut") == 0;
    fb_error err = {0};
    const fb_cuda_functions *f = fb_cuda_get(FB_CUDA_DRIVER, &err);
    if (!f || f->cuInit(0) != CUDA_SUCCESS) {
        fprintf(stderr, "named_barriers: %s\n", f ? "no GPU" : err.text);
        return 77;
    }
    const long wrong = wrong_values(f, rounds, cut, &err);
    if (wrong < 0) return fprintf(stderr, "named_barriers: %s\n", err.text), 2;
    printf("%ld wrong values in %u rounds of %d blocks%s\n", wrong, rounds, BLOCKS, cut ? ", one barrier cut" : "");
    return wrong > 0;
}
