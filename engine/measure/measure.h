/* Measuring: prepare (lower, compile, allocate, fill, run once) → check, and sample as often as wanted → report.
 *
 * Lives in the worker's child. The reference is computed elsewhere (a process that never loads generated code); it
 * arrives as a file, and whoever needs one waits for it.
 */
#ifndef FB_MEASURE_MEASURE_H
#define FB_MEASURE_MEASURE_H

#include "device/device.h"
#include "interp/interp.h"
#include "measure/report.h"
#include "measure/timeline.h"
#include "measure/values.h"

/* ---- the reference, cached on disk by graph hash and seed ---- */

/* The values that leave a graph and are checked: outputs, what is received, what is assigned. Arena-owned; returns how
 * many. */
int fb_reference_nodes(const fb_graph *g, fb_arena *arena, fb_id **out);
/* Where it may lie, the better place first: the cache, and the user's own folder among the temporary files, for
 * machines without a cache or with a full disk. */
enum { FB_REFERENCE_PLACES = 2 };
/* The folder of references in a place, made where it is missing. */
bool fb_reference_folder(int place, char *to, size_t room, fb_error *err);
/* The path of the reference file in a place (it may not exist yet); false where there is no such folder. */
bool fb_reference_path(const fb_graph *g, uint64_t seed, int place, char *to, size_t room, fb_error *err);
/* There is one in some place, damaged or not. */
bool fb_reference_there(const fb_graph *g, uint64_t seed);
/* About how large its file will be. */
double fb_reference_bytes(const fb_graph *g);
/* Computes it if no place has it whole; atomic; drops the least recently used files beyond 4 GiB, 1 GiB of the
 * temporary ones. Run in the reference process. */
bool fb_reference_make(const fb_graph *g, uint64_t seed, fb_file_values files, void *files_ctx,
                       const fb_progress *progress, fb_error *err);

/* ---- one prepared case ---- */

typedef struct fb_measurement fb_measurement;

enum { FB_SEEDS = 4 };

typedef struct {
    /* Inputs rotate through them; the first is checked by fb_measure_check, each other, end to end, when it comes. A
     * last one of zeros or ones (interp/input.h) is what is timed, and nothing else; it is checked end to end by
     * fb_measure_check too, beside the first, which tells more. */
    uint64_t seeds[FB_SEEDS];
    int n_seeds;
    bool counters;
    bool ahead;                 /* of a framework: to compile is all that is asked for, nothing is timed */
    struct fb_check_memo *memo; /* see measure/check.h; may be NULL */
    double limit_s;             /* for one run; 0: 60. Enforced by the worker's supervisor */
    fb_file_values files;       /* values of FB_DIST_FILE inputs; may be NULL */
    void *files_ctx;
} fb_measure_options;

/* Lowers, compiles, fills, runs once. Its answer is yet to be checked, and its report says so. The plan is needed no
 * longer than the call, the graph until fb_measure_free. */
fb_measurement *fb_measure_prepare(fb_device *d, const fb_plan *plan, const fb_measure_options *o,
                                   const fb_progress *progress, fb_error *err);
/* Checks each kernel on what it was given (measure/check.h), what the program as it is timed leaves against what its
 * kernels leave one by one, and the whole against the reference of seeds[0], for which it waits as long as `progress`
 * agrees. On a wrong answer the measurement still exists (its report says so) but shows no time and refuses to sample.
 */
bool fb_measure_check(fb_measurement *m, const fb_progress *progress, fb_error *err);
/* Adds n samples to those there are, checked or not yet; what the last run left must be what was left before. */
bool fb_measure_sample(fb_measurement *m, fb_cache_state cache, int n, const fb_progress *progress, fb_error *err);
/* The shortest hot run so far; NAN: there is none. */
double fb_measure_least_us(const fb_measurement *m);
/* One more hot run, launch by launch, and with `metrics` some milliseconds of further runs under the device's sampling;
 * a device that has none says why in the timeline. The caller frees. */
fb_timeline *fb_measure_timeline(fb_measurement *m, bool metrics, const fb_progress *progress, fb_error *err);
/* A node's value, after a run of its own: of a parameter what the run leaves in it, of a loop's body that of the last
 * step. Errors: FB_ERR_INPUT where there is no such node, or no kernel stores it, with the kernel it is inside of and
 * what to cut; FB_ERR_UNAVAILABLE on a device that runs nothing. The caller frees. */
fb_values *fb_measure_values(fb_measurement *m, const char *node, const fb_progress *progress, fb_error *err);
/* The report as it stands; script, variant, plan, device names are left to the caller. The caller frees. */
fb_report *fb_measure_report(fb_measurement *m);
void fb_measure_free(fb_measurement *m);
/* What a device with recall_named knows of a plan of that name: a report with source recorded. The caller frees. */
fb_report *fb_measure_recall_named(fb_device *d, const fb_graph *g, const char *plan, fb_error *err);

#endif
