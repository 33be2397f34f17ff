/* Measuring: prepare (lower, compile, allocate, fill, run once, verify) → sample as often as wanted → finish.
 *
 * Lives in the worker's child. The reference is computed elsewhere (a process that never loads generated code) and
 * arrives as a file.
 */
#ifndef FB_MEASURE_MEASURE_H
#define FB_MEASURE_MEASURE_H

#include "device/device.h"
#include "graph/interp.h"
#include "measure/report.h"

/* ---- the reference, cached on disk by graph hash and seed ---- */

/* The path of the reference file (it may not exist yet). */
bool fb_reference_path(const fb_graph *g, uint64_t seed, char *to, size_t room, fb_error *err);
/* Computes it if it is not there; atomic; drops the oldest files beyond 4 GiB. Run in the reference process. */
bool fb_reference_make(const fb_graph *g, uint64_t seed, const fb_progress *progress, fb_error *err);

/* Compares one output as read from a device with the reference: values in the node's dtype. */
bool fb_verify(const char *reference_path, const fb_graph *g, fb_id node, const void *bytes, fb_error_report *out,
               fb_error *err);

/* ---- one prepared case ---- */

typedef struct fb_measurement fb_measurement;

typedef struct {
    uint64_t seeds[4]; /* rotating inputs; the first is verified at prepare, the others at finish */
    int n_seeds;
    const char *const *reference; /* one path a seed */
    bool counters;
} fb_measure_options;

/* On a wrong answer the measurement still exists (its report says so) but refuses to sample. */
fb_measurement *fb_measure_prepare(fb_device *d, const fb_plan *plan, const fb_measure_options *o,
                                   const fb_progress *progress, fb_error *err);
/* Adds n samples to those there are. */
bool fb_measure_sample(fb_measurement *m, fb_cache_state cache, int n, fb_error *err);
/* The report as it stands; script, variant, plan, device names are left to the caller. The caller frees. */
fb_report *fb_measure_report(fb_measurement *m);
void fb_measure_free(fb_measurement *m);

#endif
