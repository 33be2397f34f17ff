/* Takes all of a GPU's memory but so many MiB, says "ready", and keeps it until its input ends. */
#include "device/cuda/libs.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    size_t leave = (size_t)(argc > 1 ? atoi(argv[1]) : 1024) << 20, unused = 0, total = 0;
    fb_error err = {0};
    const fb_cuda_functions *f = fb_cuda_get(FB_CUDA_DRIVER, &err);
    CUdevice device;
    CUcontext context;
    CUdeviceptr memory;
    if (!f) return fprintf(stderr, "hog: %s\n", err.text), 77;
    CUresult status = f->cuInit(0);
    if (status == CUDA_SUCCESS) status = f->cuDeviceGet(&device, 0);
    if (status == CUDA_SUCCESS) status = f->cuDevicePrimaryCtxRetain(&context, device);
    if (status == CUDA_SUCCESS) status = f->cuCtxSetCurrent(context);
    if (status == CUDA_SUCCESS) status = f->cuMemGetInfo(&unused, &total);
    if (status == CUDA_SUCCESS && unused > leave) status = f->cuMemAlloc(&memory, unused - leave);
    if (status != CUDA_SUCCESS) {
        fb_cuda_fail(&err, status, "taking memory");
        return fprintf(stderr, "hog: %s\n", err.text), 1;
    }
    puts("ready");
    fflush(stdout);
    char ignored;
    while (read(STDIN_FILENO, &ignored, 1) > 0) continue;
    return 0;
}
