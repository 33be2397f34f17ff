/* Feeds and receives on a GPU: asynchronous copies from and to pinned memory, as parts of a run.
 *
 *     in order      copies in ─ kernels ─ copies out                          all on one stream
 *     overlapped    ┬─ copies in of the next run ──────────────┬─             a stream of their own
 *                   ├─ kernels ────────────────────────────────┤
 *                   └─ copies out of the run before ───────────┘              and another
 *
 * Overlapped, a run begins with an event that the two other streams wait for, and ends when the kernels' stream has
 * waited for theirs; so a stream capture takes all three, and copies are nodes of the graph. Of what is copied there
 * are two, for even and odd runs: a graph of each is kept. */
#include "device/cuda/parts.h"

#include "base/mem.h"

#include <string.h>

/* ---- what there is ---- */

size_t fb_cuda_copies_bytes(const fb_program *p)
{
    size_t bytes = 0;
    for (int b = 0; b < p->n_buffers; b++)
        if (fb_program_buffer_is_double(p, b)) bytes += fb_cuda_aligned(p->buffers[b].bytes);
    return bytes;
}

static bool add_copy(fb_loaded *l, int buffer, CUdeviceptr *second, fb_error *err)
{
    fb_cuda_copy *c = &l->copies[l->n_copies++];
    *c = (fb_cuda_copy){.buffer = buffer, .bytes = (size_t)l->program->buffers[buffer].bytes};
    c->place[0] = c->place[1] = l->buffers[buffer];
    if (fb_program_buffer_is_double(l->program, buffer)) {
        c->place[1] = *second;
        *second += fb_cuda_aligned((int64_t)c->bytes);
    }
    for (int k = 0; k < 2; k++) {
        FB_CUDA(l->device, cuMemHostAlloc(&c->outside[k], c->bytes, 0), "pinning memory for what is copied");
        memset(c->outside[k], 0, c->bytes);
    }
    return true;
}

bool fb_cuda_copies_open(fb_loaded *l, CUdeviceptr second, fb_error *err)
{
    fb_cuda_device *d = l->device;
    int *buffers = fb_alloc(((size_t)l->program->n_buffers + 1) * sizeof *buffers);
    int n = fb_program_copies(l->program, buffers, &l->first_out);
    bool good = true;
    l->copies = fb_calloc((size_t)n + 1, sizeof *l->copies);
    for (int i = 0; i < n && good; i++) good = add_copy(l, buffers[i], &second, err);
    fb_free(buffers);
    l->doubles = good && n > 0 && l->program->overlap;
    if (!l->doubles) return good;
    if (!d->stream_in) FB_CUDA(d, cuStreamCreate(&d->stream_in, CU_STREAM_NON_BLOCKING), "creating a stream");
    if (!d->stream_out) FB_CUDA(d, cuStreamCreate(&d->stream_out, CU_STREAM_NON_BLOCKING), "creating a stream");
    FB_CUDA(d, cuEventCreate(&l->begun, CU_EVENT_DISABLE_TIMING), "creating an event");
    FB_CUDA(d, cuEventCreate(&l->arrived, CU_EVENT_DISABLE_TIMING), "creating an event");
    FB_CUDA(d, cuEventCreate(&l->left, CU_EVENT_DISABLE_TIMING), "creating an event");
    return true;
}

void fb_cuda_copies_close(fb_loaded *l)
{
    const fb_cuda_functions *f = l->device->f;
    CUevent events[] = {l->begun, l->arrived, l->left};
    for (int i = 0; i < 3; i++)
        if (events[i]) f->cuEventDestroy(events[i]);
    for (int i = 0; i < l->n_copies; i++)
        for (int k = 0; k < 2; k++)
            if (l->copies[i].outside[k]) f->cuMemFreeHost(l->copies[i].outside[k]);
    fb_free(l->copies);
}

fb_cuda_copy *fb_cuda_copy_of(const fb_loaded *l, int buffer)
{
    for (int i = 0; i < l->n_copies; i++)
        if (l->copies[i].buffer == buffer) return &l->copies[i];
    return NULL;
}

/* Both ends, for whom nothing else writes. */
bool fb_cuda_copies_poison(fb_loaded *l, fb_error *err)
{
    fb_cuda_device *d = l->device;
    for (int i = 0; i < l->n_copies; i++) {
        fb_cuda_copy *c = &l->copies[i];
        for (int k = 0; k < 2; k++) {
            FB_CUDA(d, cuMemsetD8Async(c->place[k], 0xff, c->bytes, d->stream), "poisoning");
            if (i >= l->first_out) memset(c->outside[k], 0xff, c->bytes);
        }
    }
    return true;
}

/* ---- copying ---- */

static bool watched(const fb_loaded *l, const fb_cuda_watch *watch, int i, CUstream stream, bool after, fb_error *err)
{
    const fb_program *p = l->program;
    return !watch || watch->at(watch->ctx, p->n_kernels + p->n_gemms + i, stream, after, err);
}

static bool copy_in(fb_loaded *l, int parity, CUstream stream, const fb_cuda_watch *watch, fb_error *err)
{
    for (int i = 0; i < l->first_out; i++) {
        const fb_cuda_copy *c = &l->copies[i];
        if (!watched(l, watch, i, stream, false, err)) return false;
        FB_CUDA(l->device, cuMemcpyHtoDAsync(c->place[parity], c->outside[parity], c->bytes, stream), "copying a feed");
        if (!watched(l, watch, i, stream, true, err)) return false;
    }
    return true;
}

static bool copy_out(fb_loaded *l, int parity, CUstream stream, const fb_cuda_watch *watch, fb_error *err)
{
    for (int i = l->first_out; i < l->n_copies; i++) {
        const fb_cuda_copy *c = &l->copies[i];
        if (!watched(l, watch, i, stream, false, err)) return false;
        FB_CUDA(l->device, cuMemcpyDtoHAsync(c->outside[parity], c->place[parity], c->bytes, stream),
                "copying what is received");
        if (!watched(l, watch, i, stream, true, err)) return false;
    }
    return true;
}

/* What a loop's swaps have left elsewhere goes to where it is taken from. */
static bool settle(fb_loaded *l, fb_error *err)
{
    fb_cuda_device *d = l->device;
    for (int i = l->first_out; i < l->n_copies; i++) {
        const fb_cuda_copy *c = &l->copies[i];
        if (l->slots[c->buffer] == c->buffer) continue;
        FB_CUDA(d, cuMemcpyDtoDAsync(l->buffers[c->buffer], l->buffers[l->slots[c->buffer]], c->bytes, d->stream),
                "moving what is received");
    }
    return true;
}

void fb_cuda_take_places(fb_loaded *l)
{
    for (int i = 0; i < l->n_copies; i++) l->buffers[l->copies[i].buffer] = l->copies[i].place[l->turn & 1];
}

static bool overlapped(fb_loaded *l, const fb_cuda_watch *watch, fb_error *err)
{
    fb_cuda_device *d = l->device;
    int other = 1 - (int)(l->turn & 1);
    bool in = l->first_out > 0, out = l->n_copies > l->first_out;
    FB_CUDA(d, cuEventRecord(l->begun, d->stream), "recording an event");
    if (in) {
        FB_CUDA(d, cuStreamWaitEvent(d->stream_in, l->begun, 0), "waiting for an event");
        if (!copy_in(l, other, d->stream_in, watch, err)) return false;
        FB_CUDA(d, cuEventRecord(l->arrived, d->stream_in), "recording an event");
    }
    if (out) {
        FB_CUDA(d, cuStreamWaitEvent(d->stream_out, l->begun, 0), "waiting for an event");
        if (!copy_out(l, other, d->stream_out, watch, err)) return false;
        FB_CUDA(d, cuEventRecord(l->left, d->stream_out), "recording an event");
    }
    if (!fb_cuda_issue_kernels(l, watch, err) || !settle(l, err)) return false;
    if (in) FB_CUDA(d, cuStreamWaitEvent(d->stream, l->arrived, 0), "waiting for an event");
    if (out) FB_CUDA(d, cuStreamWaitEvent(d->stream, l->left, 0), "waiting for an event");
    return true;
}

bool fb_cuda_issue(fb_loaded *l, const fb_cuda_watch *watch, fb_error *err)
{
    int parity = (int)(l->turn & 1);
    CUstream stream = l->device->stream;
    fb_cuda_take_places(l);
    if (l->doubles) return overlapped(l, watch, err);
    return copy_in(l, parity, stream, watch, err) && fb_cuda_issue_kernels(l, watch, err) && settle(l, err) &&
           copy_out(l, parity, stream, watch, err);
}

bool fb_cuda_fill(fb_loaded *l, fb_error *err)
{
    l->turn = 0;
    return !l->doubles || copy_in(l, 0, l->device->stream, NULL, err);
}

bool fb_cuda_drain(fb_loaded *l, fb_error *err)
{
    if (!l->doubles) return true;
    return copy_out(l, (int)((l->turn + 1) & 1), l->device->stream, NULL, err) && fb_cuda_wait(l->device, err);
}
