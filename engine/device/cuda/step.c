/* A run on a GPU taken apart, launch by launch.
 *
 * requires  a loaded program; the calling thread's context is the device's
 * provides  fb_stepping: what lies in a buffer before and after each launch, and digests of it made on the device, so
 *           that what has not changed need not be copied to the host to be seen
 */
#include "device/cuda/parts.h"

#include "base/embedded.h"
#include "device/cuda/compile.h"

#include <stdio.h>
#include <string.h>

static bool ready(fb_cuda_device *d, fb_error *err)
{
    static const char loading[] = "loading the kernel that digests memory";
    const char *source = fb_embedded("kernels/digest.cuh");
    if (d->digest) return true;
    if (!fb_cuda_own_module(d, source, "digest", loading, &d->digest_module, err)) return false;
    FB_CUDA(d, cuMemAlloc(&d->digest_sum, sizeof(uint64_t)), "allocating a digest");
    FB_CUDA(d, cuModuleGetFunction(&d->digest, d->digest_module, "fb_digest"), loading);
    return true;
}

static CUdeviceptr place(const fb_loaded *l, int buffer, int64_t offset)
{
    return l->buffers[l->slots[buffer]] + (CUdeviceptr)offset;
}

static bool step_rewind(fb_loaded *l, fb_error *err)
{
    fb_cuda_device *d = l->device;
    l->turn = 0;
    fb_cuda_take_places(l);
    if (!fb_cuda_restore(l, err)) return false;
    for (int i = 0; i < l->first_out; i++)
        FB_CUDA(d, cuMemcpyHtoDAsync(l->copies[i].place[0], l->copies[i].outside[0], l->copies[i].bytes, d->stream),
                "copying a feed");
    d->last_run = NULL;
    return fb_cuda_wait(d, err);
}

static bool step_launch(fb_loaded *l, int i, const int64_t *step, fb_error *err)
{
    memcpy(l->step, step, sizeof l->step);
    return fb_cuda_launch_one(l, &l->program->launches[i], NULL, err) && fb_cuda_wait(l->device, err);
}

static bool step_launch_steps(fb_loaded *l, int i, const int64_t *step, int64_t steps, fb_error *err)
{
    l->fewer = l->program->launches[i].steps - steps;
    bool ok = step_launch(l, i, step, err);
    l->fewer = 0;
    return ok;
}

static bool step_peek(fb_loaded *l, int buffer, int64_t offset, int64_t bytes, void *to, fb_error *err)
{
    return !bytes || fb_cuda_copy_out(l->device, place(l, buffer, offset), to, (size_t)bytes, err);
}

static bool step_poke(fb_loaded *l, int buffer, int64_t offset, int64_t bytes, const void *from, fb_error *err)
{
    return !bytes || fb_cuda_copy_in(l->device, place(l, buffer, offset), from, (size_t)bytes, err);
}

static int step_storage(const fb_loaded *l, int buffer)
{
    return l->slots[buffer];
}

static bool step_digest(fb_loaded *l, int storage, int64_t offset, int64_t bytes, uint64_t *out, fb_error *err)
{
    fb_cuda_device *d = l->device;
    CUdeviceptr from = (storage == FB_NONE ? l->memory : l->buffers[storage]) + (CUdeviceptr)offset;
    if (!ready(d, err)) return false;
    FB_CUDA(d, cuMemsetD8Async(d->digest_sum, 0, sizeof *out, d->stream), "clearing a digest");
    long long n = bytes;
    void *args[] = {&from, &n, &d->digest_sum};
    int64_t blocks = (bytes / 4 + 1023) / 1024, most = 16 * (int64_t)d->machine.units;
    unsigned grid = (unsigned)(blocks < 1 ? 1 : blocks > most && most > 0 ? most : blocks);
    FB_CUDA(d, cuLaunchKernel(d->digest, grid, 1, 1, 256, 1, 1, 0, d->stream, args, NULL), "digesting memory");
    FB_CUDA(d, cuMemcpyDtoHAsync(out, d->digest_sum, sizeof *out, d->stream), "reading a digest");
    return fb_cuda_wait(d, err);
}

/* What the last run of a call leaves for fb_device_ops.read. */
static bool step_finish(fb_loaded *l, fb_error *err)
{
    fb_cuda_device *d = l->device;
    for (int i = l->first_out; i < l->n_copies; i++)
        FB_CUDA(
            d,
            cuMemcpyDtoHAsync(l->copies[i].outside[0], place(l, l->copies[i].buffer, 0), l->copies[i].bytes, d->stream),
            "copying what is received");
    l->turn = 1;
    return fb_cuda_wait(d, err);
}

const fb_stepping fb_cuda_stepping = {.rewind = step_rewind,
                                      .launch = step_launch,
                                      .launch_steps = step_launch_steps,
                                      .swap = fb_cuda_swap,
                                      .peek = step_peek,
                                      .poke = step_poke,
                                      .storage = step_storage,
                                      .digest = step_digest,
                                      .finish = step_finish};
