/* What happened when in one run of a program: launches on the host, kernels on the device, and, when asked for, the
 * device's metrics over some more runs. Kept by whoever asked for it, and written as a trace that Perfetto and Chrome
 * show. */
#ifndef FB_MEASURE_TIMELINE_H
#define FB_MEASURE_TIMELINE_H

#include "base/arena.h"
#include "device/device.h"

enum { FB_TIMELINE_SPANS = 200000 }; /* the first so many of a run */

typedef struct fb_timeline {
    fb_arena *arena;
    int n_names;
    const char **names; /* of a span's index */
    int *kernels;       /* of a span's index: which of the report's; -1: none. NULL: not known */
    int64_t n_spans;
    fb_span *spans;         /* in order of execution */
    fb_metric_log metrics;  /* n_metrics 0: none; its arrays are the arena's */
    const char *no_metrics; /* why there are none though asked for; NULL */
} fb_timeline;

fb_timeline *fb_timeline_new(void);
void fb_timeline_free(fb_timeline *t);
json_t *fb_timeline_to_json(const fb_timeline *t);
fb_timeline *fb_timeline_from_json(const json_t *value, fb_error *err);

int64_t fb_timeline_kernels(const fb_timeline *t); /* spans that are no copies; a launch of a library may be several */
/* Sum of the kernels' times: what a report calls device_us, of this run. */
double fb_timeline_busy_us(const fb_timeline *t);
/* In order of execution, as a timeline has its spans. */
void fb_spans_sort(fb_span *spans, int64_t n);
/* Sum of the copies' times, and of it what kernels ran beside; of spans in any order. */
double fb_spans_copied_us(const fb_span *spans, int64_t n, double *hidden_us);

/* Appends the events of one process, called `name`, to an array in the Trace Event Format: the tracks "launches",
 * "kernels" and, where there are any, "copies in" and "copies out", arrows between them where the launch is a call of
 * its own, and behind them a counter a metric. */
void fb_timeline_events(const fb_timeline *t, int process, const char *name, json_t *events);
/* {"traceEvents":[…]} to a file; borrows `events`. */
bool fb_timeline_write(const char *path, json_t *events, fb_error *err);

#endif
