/* Recording: measures what a replay device later serves, on any device of any worker, into one file.
 *
 * Of every script: each preset's plan and each plan of its own whole, in a stream and as a graph, those of all variants
 * together, so that their samples were taken in turns and can be paired (measure/compare.h); for each preset's plan
 * every edge toggled, repeated edges at once; the plans of a framework that plans for itself (PyTorch), where a given
 * worker serves one, in turns too; and the cases of its experiment. Of toggled plans only kernels count that were not
 * measured before, and toggles that do not touch each other's kernels are measured in one plan. A case that fails is
 * said and left out. What the file holds already is not measured again, so that a second run goes on where the first
 * ended; it is saved every few seconds.
 *
 * A column whose samples spread more than is allowed was disturbed: it is measured again by itself, and left out if
 * that does not help.
 *
 * Blocks while it measures: for the command line, not for a front with keys to answer.
 */
#ifndef FB_SESSION_RECORDER_H
#define FB_SESSION_RECORDER_H

#include "code/program.h"
#include "session/session.h"

#include <jansson.h>

typedef struct fb_recorder fb_recorder;

typedef struct {
    const char *self; /* this binary, for its own worker */
    int n_workers;    /* commands of workers: for the device instead of our own, for a peer */
    const char *const *workers;
    bool max_autotune;  /* record a peer's plan of that name too: it takes half a minute a graph */
    const char *device; /* "cuda:0" */
    const char *out;    /* the file; NULL: the device's name, such as h200.json.gz */
    bool no_metrics;    /* timelines without the device's metrics over time */
    bool counters;      /* measured traffic too, where the device has counters */
    double spread;      /* p90 over p10 of a column that was disturbed; 0: 2 */
    double seconds;     /* after these nothing more is begun, and what takes longer is given up; 0: no limit */
    /* Instead of measuring: counts what is there and what is to be done. The file must be there, or `machine`. */
    bool list;
    /* Instead of measuring: hands over each program that would be measured, in CUDA for `machine`, and writes no file.
     * So the kernels are in the cache before a GPU is there. A framework of a given worker compiles too. NULL: measure.
     */
    bool (*compile)(void *ctx, const fb_program *p, fb_error *err);
    const fb_machine *machine; /* of what `out` names instead, where that is there */
    /* As fb_session_file; NULL: no input has any. */
    bool (*file)(void *ctx, const fb_node *node, fb_session_weights *out, fb_error *err);
    void (*say)(void *ctx, const char *line); /* what is being done; failures are whole sentences */
    void *ctx;
} fb_recorder_options;

typedef struct {
    int plans, toggles, kernels; /* measured now; with `list`, to be measured */
    int known;                   /* plans that the file held */
    int failed, disturbed;
} fb_recorder_counts;

/* Opens the device, calibrates it unless the file holds its calibration. A file that cannot be written is refused now.
 */
fb_recorder *fb_recorder_new(const fb_recorder_options *o, fb_error *err);
void fb_recorder_free(fb_recorder *r);
const char *fb_recorder_path(const fb_recorder *r);
/* What plans are made for: the recorded machine, whatever is calibrated here by now. */
const fb_machine *fb_recorder_machine(const fb_recorder *r);
/* Which of the given workers serves a peer, so that nobody else need start it; -1: none. */
int fb_recorder_peer(const fb_recorder *r);
bool fb_recorder_over(
    const fb_recorder *r); /* its seconds have passed: what is asked for now is left for the next run */

/* A variant's graph (canonical), and plans beside the presets, of any planner of the same graph. */
typedef struct {
    const char *name;
    const fb_graph *graph;
    int n_plans;
    const fb_plan *const *plans;
} fb_recorder_variant;

/* Of one script. False only when recording cannot go on. */
bool fb_recorder_plans(fb_recorder *r, const char *script, int n, const fb_recorder_variant *v, fb_error *err);
bool fb_recorder_toggles(fb_recorder *r, const char *script, int n, const fb_recorder_variant *v, fb_error *err);
bool fb_recorder_peers(fb_recorder *r, const char *script, int n, const fb_recorder_variant *v, fb_error *err);

/* One case of the script's experiment: its report in JSON, a new reference. `plan` NULL: a peer's, called `plan_name`.
 */
json_t *fb_recorder_case(fb_recorder *r, const char *script, const fb_graph *g, const fb_plan *plan,
                         const char *plan_name, const char *device);
/* … which has come to its end: graphs that it had earlier and no longer has are forgotten. */
void fb_recorder_experiment_done(fb_recorder *r, const char *script);

/* Writes the file for good. */
bool fb_recorder_finish(fb_recorder *r, fb_error *err);
fb_recorder_counts fb_recorder_counted(const fb_recorder *r);

#endif
