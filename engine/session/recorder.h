/* Recording: measures what a replay device later serves, on any device of any worker, into one file.
 *
 * For every graph it is given: each preset's plan whole, in a stream and as a graph; and for each of those plans every
 * edge toggled, repeated edges at once. Of the toggled plans only kernels count that were not measured before, and
 * toggles that do not touch each other's kernels are measured in one plan. A case that fails is said and left out; what
 * the file holds already is not measured again, so that a second run goes on where the first ended.
 *
 * Where a given worker serves a framework that plans for itself (PyTorch), each of its plans of the same graph is
 * measured too, whole, for what a user would pick instead stands beside ours in a replay as well.
 *
 * Blocks while it measures: for the command line, not for a front with keys to answer.
 */
#ifndef FB_SESSION_RECORDER_H
#define FB_SESSION_RECORDER_H

#include "codegen/program.h"

typedef struct fb_recorder fb_recorder;

typedef struct {
    const char *self; /* this binary, for its own worker */
    int n_workers;    /* commands of workers: for the device instead of our own, for a peer */
    const char *const *workers;
    bool max_autotune;  /* record a peer's plan of that name too: it takes half a minute a graph */
    const char *device; /* "cuda:0" */
    const char *out;    /* the file; NULL: the device's name, such as h200.json */
    bool counters;      /* measured traffic too, where the device has counters */
    /* Instead of measuring: hands over each program that would be measured, in CUDA for `machine`, and writes no file.
     * So the kernels are in the cache before a GPU is there. NULL: measure. */
    bool (*compile)(void *ctx, const fb_program *p, fb_error *err);
    const fb_machine *machine;
    void (*say)(void *ctx, const char *line); /* what is being done; failures are whole sentences */
    void *ctx;
} fb_recorder_options;

typedef struct {
    int plans, toggles, kernels; /* measured now */
    int known;                   /* plans that the file held */
    int failed;
} fb_recorder_counts;

/* Opens the device, calibrates it unless the file holds its calibration. */
fb_recorder *fb_recorder_new(const fb_recorder_options *o, fb_error *err);
void fb_recorder_free(fb_recorder *r);
const char *fb_recorder_path(const fb_recorder *r);
/* Which of the given workers serves a peer, so that nobody else need start it; -1: none. */
int fb_recorder_peer(const fb_recorder *r);

/* One variant's graph (canonical). `plans`: more whole plans to record, of any planner of the same graph. False only
 * when recording cannot go on. */
bool fb_recorder_graph(fb_recorder *r, const char *script, const char *variant, const fb_graph *g, int n_plans,
                       const fb_plan *const *plans, fb_error *err);
/* Writes the file for good. */
bool fb_recorder_finish(fb_recorder *r, fb_error *err);
fb_recorder_counts fb_recorder_counted(const fb_recorder *r);

#endif
