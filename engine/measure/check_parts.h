/* Inside measure/check*.c.
 *
 *     check.c        the walk through a launch list, and the chain of custody
 *     check_steps.c  a step of a loop inside one kernel
 *     check_one.c    one launch: what it was given, what it stored, judged
 *     check_tell.c   inputs that tell
 *     check_derive.c what of them the others decide
 */
#ifndef FB_MEASURE_CHECK_PARTS_H
#define FB_MEASURE_CHECK_PARTS_H

#include "base/arena.h"
#include "interp/trial.h"
#include "measure/check.h"

/* What one value in memory looks like: what an input that tells may look like too. */
typedef struct {
    double low, high; /* of finite elements; low > high: none */
    bool constant;
} fb_support;

/* One launch under check. `bytes`: of each of its reads, in the node's dtype. */
typedef struct {
    const fb_check_job *job;
    int launch;
    const int64_t *step;
    void **bytes;
    uint64_t *digest; /* of these */
    bool sampled;     /* a second set: of a large value, samples are enough */
} fb_one_launch;

/* Where a place begins at these steps, in bytes from its buffer's start. */
int64_t fb_place_at(const fb_place *p, const int64_t *step);
const char *fb_check_launch_name(const fb_program *p, const fb_launch *l);

void fb_one_free(fb_one_launch *one);
/* For a value's bytes; NULL with an error where memory ends. Free with fb_free. */
void *fb_check_room(const fb_graph *g, fb_id node, fb_error *err);
/* Gives the launch what it reads; bytes come in the node's own order, and are left in that of memory. */
bool fb_one_put(const fb_one_launch *one, int read, void *bytes, fb_error *err);
/* Reads what the launch reads. */
bool fb_one_take(fb_one_launch *one, fb_error *err);
/* After the launch: reads what it stored and judges it. stored (may be NULL) gets the digest of each store's bytes. */
bool fb_one_judge(const fb_one_launch *one, uint64_t *stored, fb_error_report *out, const fb_progress *progress,
                  fb_error *err);

/* By node, as trials want it. */
void fb_given_sort(fb_given *given, int n);
/* Of each read of a launch: is all that it is made of read too, or needs nothing? Free with fb_free. */
bool *fb_reads_derived(const fb_graph *g, const fb_launch *l);
/* After fb_one_take(): makes those reads anew, here and in memory, so that they fit what else is read. */
bool fb_one_derive(fb_one_launch *one, const bool *derived, fb_error *err);

/* A loop inside a merged kernel, taken step by step. */
typedef struct {
    const fb_check_job *job;
    int launch; /* the merged one; loops around it stand at their first step */
    const fb_inner_loop *loop;
    int level;                    /* how many loops are around it */
    int64_t step[FB_MAX_REPEATS]; /* of these; and of this loop, as fb_check_step_run put it */
} fb_inner_step;

/* A launch that stands for one step of the loop. Memory in `arena`. */
fb_launch fb_check_step_launch(const fb_inner_step *s, fb_arena *arena);
/* From the beginning of the program t steps of the loop, and no further; then places are those of step `of`. */
bool fb_check_step_run(fb_inner_step *s, int64_t t, int64_t of, fb_error *err);

fb_support fb_support_of(fb_dtype dtype, int64_t n, const void *bytes);
/* Lines of a value whose elements are reduced together: those that differ in the dimensions of `along` (bits). */
typedef struct {
    fb_shape shape; /* of as many elements as the value, in its order */
    unsigned along;
} fb_lines;
/* Along which a launch reduces what it reads of that node: one of its reductions, by `pick`; else rows of the last
 * dimension. */
fb_lines fb_lines_of(const fb_graph *g, const fb_launch *l, fb_id read, int pick);
/* A value of that node that tells, within what its support shows to be meant. */
void fb_tell(const fb_node *n, const fb_lines *lines, const fb_support *support, uint64_t key, void *to);

#endif
