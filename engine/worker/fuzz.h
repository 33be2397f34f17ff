/* Fuzzing in processes: several at a time, each with a device of its own, watched; what dies or hangs is a finding, and
 * the rest goes on. Every finding is confirmed alone, made small, and written to disk.
 */
#ifndef FB_WORKER_FUZZ_H
#define FB_WORKER_FUZZ_H

#include "measure/fuzz.h"

typedef struct {
    int64_t graphs, plans, refused, elements, undecided, open, kernels, kernel_elements, kernel_undecided;
    fb_fuzz_hazy hazy;
    int findings;
    double seconds;
} fb_fuzz_totals;

typedef struct {
    const char *device;
    uint64_t seed;    /* of the first graph; the next has seed + 1 */
    int64_t count;    /* graphs */
    int plans;        /* a graph */
    int only;         /* one plan's number, or FB_NONE for all */
    double limit_s;   /* 0: none */
    int jobs;         /* processes; 0: one a core */
    int most;         /* findings after which it stops */
    int trials;       /* runs to make one finding small; 0: leave it as it is */
    fb_str *coverage; /* gets the table of what plans came by (fb_fuzz_coverage_print); NULL: it is not counted */
    const char *out;  /* folder for findings, made when there is one */
    /* Called some times a second; false ends the run. */
    bool (*progress)(void *ctx, const fb_fuzz_totals *so_far);
    /* One confirmed finding; `command` reproduces it. */
    void (*finding)(void *ctx, const fb_fuzz_finding *f, const char *command);
    void *ctx;
} fb_fuzz_options;

/* False when the device cannot be used or no process started. Findings are no error. */
bool fb_worker_fuzz(const fb_fuzz_options *o, fb_fuzz_totals *totals, fb_error *err);

#endif
