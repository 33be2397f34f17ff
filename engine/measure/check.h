/* Checks every kernel of a program on what it was given.
 *
 * The program runs launch by launch. What a launch reads is known by node and step: its bytes must be those that were
 * stored, and checked, for that node, or the generator's for a source; what it stores is judged against trials of its
 * own nodes from those bytes (measure/judge.h), so that depth blurs nothing; and nothing beside its declared outputs
 * may have changed. Then each kernel is given a second set of inputs directly: noise of order one, rows that are
 * constant or nearly so, a mean far above the spread, ties, zeros, ids repeated and at the edge.
 *
 * Of a loop of many steps the first two, two in the middle and the last two are looked at, each from the state that it
 * really began with. Merged kernels have no launches of their own to look at: give the program lowered apart
 * (fb_lower_apart), and compare what both leave. Of the merged kernel itself single steps of its loops are checked by
 * fb_check_steps.
 */
#ifndef FB_MEASURE_CHECK_H
#define FB_MEASURE_CHECK_H

#include "device/device.h"
#include "interp/trial.h"
#include "measure/report.h"

/* What was found right, so that the same values from the same values are not judged again: most plans of a graph share
 * most of their kernels. */
typedef struct fb_check_memo fb_check_memo;
fb_check_memo *fb_check_memo_new(void);

typedef struct {
    fb_device *device;
    fb_loaded *loaded; /* `program`, whose sources hold `images`; memory holds anything afterwards, sources too */
    const fb_program *program;
    const fb_graph *g;
    void *const *images; /* of each buffer that is a source: what was written to it */
    uint64_t seed;       /* of sources that kernels compute on the way */
    fb_file_values files;
    void *files_ctx;
    bool second; /* also on inputs that tell */
    /* Called when the last launch has ended and memory holds what the program leaves; may be NULL. False ends the
     * check. */
    bool (*walked)(void *ctx, fb_error *err);
    void *walked_ctx;
    fb_check_memo *memo;           /* may be NULL */
    int first_launch, last_launch; /* of the program, where it is one of several joined; 0, 0: all */
    int first_buffer, last_buffer; /* likewise; the buffers of others are not watched */
    int threads;                   /* of trials; 0: all cores */
} fb_check_job;

typedef struct {
    fb_error_report error; /* the worst of all; kernels, elements and undecided ones of all together */
    int64_t second;        /* kernels that were given a second set */
    int64_t steps;         /* of loops inside merged kernels, by fb_check_steps */
} fb_check_result;

/* Adds what was found of one value, or one kernel, to what was found of others: the worst counts. */
void fb_check_add_error(fb_error_report *all, const fb_error_report *one);

/* Ends with the first kernel that is wrong. False: it could not be checked (cancelled, no memory, the device is lost).
 */
bool fb_check_kernels(const fb_check_job *job, fb_check_result *out, const fb_progress *progress, fb_error *err);

/* Steps of the loops inside merged kernels: the same binary is run for t and for t + 1 steps, and what step t made of
 * what it was given is judged. For programs that leave the same in every run. Ends with the first step that is wrong;
 * false as above. */
bool fb_check_steps(const fb_check_job *job, fb_check_result *out, const fb_progress *progress, fb_error *err);

/* A node's value as it is stored and in the order in which it lies (graph/storage.h), the last time where a loop stores
 * it again and again. */
typedef struct {
    fb_id node;
    void *bytes;    /* the caller frees; NULL: no launch stores it */
    const char *by; /* the launch's name, the program's own */
} fb_watched;

/* Runs the program launch by launch as fb_check_kernels does, judges nothing, and takes one value on the way. */
bool fb_check_watch(const fb_check_job *job, fb_watched *watched, const fb_progress *progress, fb_error *err);

#endif
