/* Times of single launches: many of them as one CUDA graph, so that what the host does for each is not in them. */
#include "device/cuda/parts.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double fb_cuda_median(double *times, int n)
{
    qsort(times, (size_t)n, sizeof *times, by_value);
    return times[n / 2];
}

static bool capture(fb_cuda_device *d, fb_cuda_issue_fn issue, void *ctx, int count, CUgraphExec *out, fb_error *err)
{
    CUgraph graph = NULL;
    FB_CUDA(d, cuStreamBeginCapture(d->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "timing launches");
    bool issued = true;
    for (int i = 0; i < count && issued; i++) issued = issue(ctx, i, err);
    CUresult ended = d->f->cuStreamEndCapture(d->stream, &graph);
    CUresult made = ended;
    if (issued && ended == CUDA_SUCCESS) made = d->f->cuGraphInstantiate(out, graph, 0);
    if (graph) d->f->cuGraphDestroy(graph);
    return issued && (made == CUDA_SUCCESS || fb_cuda_fail(err, made, "timing launches"));
}

bool fb_cuda_time(fb_cuda_device *d, fb_cuda_issue_fn issue, void *ctx, int count, int rounds, double *us,
                  fb_error *err)
{
    enum { MOST = 15 };
    FB_ASSERT(rounds >= 1 && rounds <= MOST);
    CUgraphExec exec = NULL;
    if (!capture(d, issue, ctx, count, &exec, err)) return false;
    double times[MOST] = {0};
    bool good = true;
    for (int r = -1; r < rounds && good; r++) { /* the first one is none of them */
        good = fb_cuda_wait(d, err);
        double start = fb_now_us();
        CUresult launched = d->f->cuGraphLaunch(exec, d->stream);
        good = good && (launched == CUDA_SUCCESS || fb_cuda_fail(err, launched, "timing launches")) &&
               fb_cuda_wait(d, err);
        if (r >= 0) times[r] = (fb_now_us() - start) / count;
    }
    d->f->cuGraphExecDestroy(exec);
    *us = good ? fb_cuda_median(times, rounds) : NAN;
    return good;
}
