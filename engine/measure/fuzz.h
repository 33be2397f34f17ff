/* The differential fuzzer: random valid graphs under random legal plans, against the double-precision interpreter.
 *
 * A case is a seed and a plan's number, and nothing else decides what it is: the graph is a function of the seed, the
 * plan one of the seed, the number and the kind of machine. Many cases are joined into one program (codegen/program.h),
 * so that a compiler starts once for all of them. Generated code may crash or hang whoever runs it: the callers of
 * fb_fuzz_round are processes of their own (worker/fuzz.h).
 */
#ifndef FB_MEASURE_FUZZ_H
#define FB_MEASURE_FUZZ_H

#include "device/device.h"
#include "graph/interp.h"
#include "plan/plan.h"

#include <stdatomic.h>

#include <jansson.h>

enum { FB_FUZZ_DATA_SEED = 0 }; /* of inputs: the one that `fusebox run` verifies with */

/* A canonical graph of some twenty nodes: every op and dtype, odd, empty and single dimensions, views of views, joins,
 * gathers, reductions, contractions, repeated scopes, gradients and updates. Magnitudes are kept where most elements
 * can be told right from wrong. NULL only for a bug in graph/, which the error names. The caller frees. */
fb_graph *fb_fuzz_graph(uint64_t seed, fb_error *err);

/* Plan 0 is `none`, plan 1 one of the presets in turn, others begin with a preset and take random edits. The caller
 * frees. */
fb_plan *fb_fuzz_plan(fb_planner *p, uint64_t seed, int number);

typedef enum {
    FB_FUZZ_FINE,
    FB_FUZZ_REFUSED, /* says that it is not supported, which is allowed */
    FB_FUZZ_WRONG,   /* another result than the reference's */
    FB_FUZZ_FAILED,  /* an error where there should be none */
    FB_FUZZ_CRASHED,
    FB_FUZZ_HUNG,
} fb_fuzz_kind;

const char *fb_fuzz_kind_name(fb_fuzz_kind k); /* "wrong" */

/* ---- one case whose graph and plan are there ---- */

typedef struct {
    fb_fuzz_kind kind;
    int64_t elements, undecided; /* compared with the reference; of these those that the bounds leave open */
    char text[400];              /* what is wrong, in one sentence */
} fb_fuzz_result;

/* Runs plans of one graph each with its reference (of FB_FUZZ_DATA_SEED, with bounds) together in one program. An error
 * of the device itself is given to all. */
typedef struct {
    const fb_plan *plan;
    const fb_interp *reference;
    fb_program *program; /* NULL: lowered by the call; freed by it in any case */
    fb_fuzz_result result;
} fb_fuzz_case;

void fb_fuzz_run(fb_device *d, fb_fuzz_case *cases, int n);

/* ---- many cases, watched from outside ---- */

typedef enum { FB_FUZZ_IDLE, FB_FUZZ_MAKING, FB_FUZZ_COMPUTING, FB_FUZZ_RUNNING } fb_fuzz_phase;

enum { FB_FUZZ_FINDINGS = 64 };

typedef struct {
    uint64_t seed;
    int plan;
    fb_fuzz_kind kind;
    char text[400];
} fb_fuzz_finding;

/* What a process that runs rounds tells the one that watches it, through shared memory. */
typedef struct {
    _Atomic int phase;     /* fb_fuzz_phase */
    _Atomic uint64_t seed; /* that it works on; of FB_FUZZ_RUNNING, all of the round's run */
    _Atomic int plan;
    _Atomic int64_t since_ns; /* on the monotonic clock: when the phase began */
    _Atomic int64_t graphs, plans, refused, elements, undecided, kernels;
    _Atomic int n_findings;
    fb_fuzz_finding finding[FB_FUZZ_FINDINGS];
} fb_fuzz_board;

/* Graphs of the seeds first … first + count - 1 with plans number 0 … plans - 1 each, or with plan `only` alone
 * (FB_NONE: all). */
void fb_fuzz_round(fb_device *d, uint64_t first, int count, int plans, int only, fb_fuzz_board *board);

/* ---- making a failure small ---- */

/* Does the case still fail as it did? `plan` is a plan file of that graph. */
typedef bool (*fb_fuzz_still)(void *ctx, const fb_graph *g, const json_t *plan);

/* Looks for a smaller graph and plan that fail the same way, with at most `trials` calls of `still`: fewer nodes,
 * smaller dimensions, simpler dtypes, fewer groups. *g and *plan are replaced (the old ones freed) as it gets smaller.
 */
void fb_fuzz_shrink(fb_graph **g, json_t **plan, const fb_machine *m, int trials, fb_fuzz_still still, void *ctx);

#endif
