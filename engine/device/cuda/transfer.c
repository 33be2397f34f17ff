/* Bytes between the host and a GPU.
 *
 * requires  the calling thread's context is the device's; nobody else uses its stream
 * provides  copies that have ended when they return
 *
 * What is large goes through two halves of pinned memory: one is on its way while all cores copy the other. The driver
 * itself takes pageable memory page by page on one core, and of gigabytes that are touched for the first time the pages
 * cost more than the copy. */
#include "device/cuda/parts.h"

#include "base/parallel.h"

#include <string.h>

enum { HALF = 32 << 20 };

/* The size of a half; 0: there is no pinned memory to be had. */
static size_t stage(fb_cuda_device *d)
{
    if (!d->staged_half) d->staged_half = HALF;
    if (!d->staged && d->f->cuMemHostAlloc(&d->staged, 2 * d->staged_half, 0) != CUDA_SUCCESS) d->staged = NULL;
    return d->staged ? d->staged_half : 0;
}

static bool is_large(const fb_cuda_device *d, size_t n)
{
    return n > (d->staged_half ? d->staged_half : HALF);
}

static char *half_of(const fb_cuda_device *d, size_t half, size_t at)
{
    return (char *)d->staged + at / half % 2 * half;
}

static size_t piece_of(size_t n, size_t half, size_t at)
{
    return n - at < half ? n - at : half;
}

/* On the stream that the kernels run on, and waited for: what cuMemcpyHtoD takes from pageable memory may still be on
 * its way when it returns, and a stream that is not blocked by the null stream does not wait for it. */
bool fb_cuda_copy_in(fb_cuda_device *d, CUdeviceptr to, const void *bytes, size_t n, fb_error *err)
{
    size_t half = is_large(d, n) ? stage(d) : 0;
    if (!half) FB_CUDA(d, cuMemcpyHtoDAsync(to, bytes, n, d->stream), "copying to the GPU");
    for (size_t at = 0; half && at < n; at += half) {
        char *from = half_of(d, half, at);
        size_t piece = piece_of(n, half, at);
        fb_parallel_copy(from, (const char *)bytes + at, piece);
        /* the other half's copy has ended, so that it may be written to next */
        FB_CUDA(d, cuStreamSynchronize(d->stream), "copying to the GPU");
        FB_CUDA(d, cuMemcpyHtoDAsync(to + at, from, piece, d->stream), "copying to the GPU");
    }
    FB_CUDA(d, cuStreamSynchronize(d->stream), "copying to the GPU");
    return true;
}

bool fb_cuda_copy_out(fb_cuda_device *d, CUdeviceptr from, void *bytes, size_t n, fb_error *err)
{
    size_t half = is_large(d, n) ? stage(d) : 0;
    if (!half) {
        FB_CUDA(d, cuMemcpyDtoHAsync(bytes, from, n, d->stream), "copying from the GPU");
        FB_CUDA(d, cuStreamSynchronize(d->stream), "copying from the GPU");
        return true;
    }
    FB_CUDA(d, cuMemcpyDtoHAsync(half_of(d, half, 0), from, piece_of(n, half, 0), d->stream), "copying from the GPU");
    for (size_t at = 0; at < n; at += half) {
        size_t next = at + half;
        FB_CUDA(d, cuStreamSynchronize(d->stream), "copying from the GPU");
        if (next < n)
            FB_CUDA(d, cuMemcpyDtoHAsync(half_of(d, half, next), from + next, piece_of(n, half, next), d->stream),
                    "copying from the GPU");
        fb_parallel_copy((char *)bytes + at, half_of(d, half, at), piece_of(n, half, at));
    }
    return true;
}

void fb_cuda_transfer_close(fb_cuda_device *d)
{
    if (d->staged) d->f->cuMemFreeHost(d->staged);
    d->staged = NULL;
}
