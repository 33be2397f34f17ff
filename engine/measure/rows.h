/* The rows of a report: one a kernel or library call, however often launched, with what the plan tells of it (nodes,
 * modelled bytes, predicted time) and what tracing added. Private to measure/. */
#ifndef FB_MEASURE_ROWS_H
#define FB_MEASURE_ROWS_H

#include "device/device.h"
#include "measure/report.h"

typedef struct fb_kernel_rows fb_kernel_rows;

fb_kernel_rows *fb_kernel_rows_new(const fb_plan *plan, const fb_program *p); /* needs neither afterwards */
void fb_kernel_rows_free(fb_kernel_rows *rows);
/* What a span of that index is called; NULL for one that belongs to no row. */
const char *fb_kernel_rows_name(const fb_kernel_rows *rows, int index);
int fb_kernel_rows_find(const fb_kernel_rows *rows, int index); /* which kernel of the report; FB_NONE: none */
/* Adds one traced run; returns the sum of its spans, µs; NAN, with nothing added, when a library's work was not seen.
 */
double fb_kernel_rows_trace(fb_kernel_rows *rows, fb_cache_state cache, const fb_span *spans, int64_t n);
/* Takes what a device recalls instead. */
void fb_kernel_rows_recall(fb_kernel_rows *rows, const fb_recall *recall);
/* Takes measured traffic, where the device has counters; an error where it has none. */
bool fb_kernel_rows_count(fb_kernel_rows *rows, fb_device *d, fb_loaded *l, fb_error *err);
/* Fills the report's kernels and its modelled figures; `l` is NULL where nothing was loaded. */
void fb_kernel_rows_report(const fb_kernel_rows *rows, const fb_device *d, const fb_loaded *l, fb_report *r);

#endif
