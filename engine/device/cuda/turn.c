/* Matrices turned in a GPU's memory, for library calls that read the other order (kernels/turn.cuh). */
#include "device/cuda/parts.h"

#include "base/embedded.h"
#include "base/integer.h"

enum { SIDE = 64, THREADS = 256, RUN = 16 };

bool fb_cuda_turn_open(fb_cuda_device *d, fb_error *err)
{
    static const char loading[] = "loading the kernel that turns matrices";
    const char *source = fb_embedded("kernels/turn.cuh");
    if (d->turn[1]) return true;
    if (!d->turn_module && !fb_cuda_own_module(d, source, "turn", loading, &d->turn_module, err)) return false;
    FB_CUDA(d, cuModuleGetFunction(&d->turn[0], d->turn_module, "fb_turn_2"), loading);
    FB_CUDA(d, cuModuleGetFunction(&d->turn[1], d->turn_module, "fb_turn_4"), loading);
    return true;
}

int64_t fb_cuda_turn_blocks(const fb_cuda_turning *t)
{
    return t->matrices * fb_ceil_div(t->columns, SIDE) * fb_ceil_div(t->padded, SIDE);
}

bool fb_cuda_turn(fb_cuda_device *d, const fb_cuda_turning *t, int64_t size, CUdeviceptr from, CUdeviceptr to,
                  fb_error *err)
{
    fb_cuda_turning of = *t;
    long long evenly = 0;
    if (from % RUN == 0 && t->columns * size % RUN == 0 && t->from_step * size % RUN == 0) evenly |= 1;
    if (to % RUN == 0 && t->padded * size % RUN == 0) evenly |= 2;
    void *args[] = {&from, &to, &of.matrices, &of.rows, &of.columns, &of.padded, &of.from_step, &evenly};
    FB_CUDA(d,
            cuLaunchKernel(d->turn[size == 4], (unsigned)fb_cuda_turn_blocks(t), 1, 1, THREADS, 1, 1, 0, d->stream,
                           args, NULL),
            "turning matrices");
    return true;
}
