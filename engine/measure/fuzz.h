/* The differential fuzzer: random valid graphs under random legal plans, judged in both scopes (measure/judge.h): each
 * kernel on what it was given and on inputs that tell, and the whole end to end, against trials whose exact lane the
 * plain interpreter has confirmed.
 *
 * A case is a seed and a plan's number, and nothing else decides what it is: the graph and the machine are functions of
 * the seed, the plan one of the seed, the number and the machine. Many cases are joined into one program
 * (code/program.h), so that a compiler starts once for all of them. Three graphs in four are compiled lightly: a
 * compiler's optimisations are most of what a plan costs, and what is looked for is in the generated code. Generated
 * code may crash or hang whoever runs it: the callers of fb_fuzz_round are processes of their own (worker/fuzz.h).
 */
#ifndef FB_MEASURE_FUZZ_H
#define FB_MEASURE_FUZZ_H

#include "base/str.h"
#include "device/device.h"
#include "plan/plan.h"

#include <stdatomic.h>

#include <jansson.h>

enum { FB_FUZZ_DATA_SEED = 0 }; /* of inputs: the one that `fusebox run` verifies with */

/* A canonical graph of some twenty nodes: every op and dtype, odd, empty and single dimensions, views of views, joins,
 * gathers, reductions, contractions, repeated scopes, gradients and updates; of one seed in eight a convolution. Magnitudes
 * are kept where most elements can be told right from wrong. NULL only for a bug in graph/, which the error names. The caller frees. */
fb_graph *fb_fuzz_graph(uint64_t seed, fb_error *err);
/* The one that plan `number` is made for. Of one seed in four, plans of odd numbers are for its twin: views by way of
 * other views, values and products in parts that are joined, products turned round, sums of sums; and what they give is
 * judged against trials of the first. */
fb_graph *fb_fuzz_graph_of(uint64_t seed, int number, fb_error *err);

/* The machine that plans of a seed are made for: of a host, another number of cores and other caches, so that schedules
 * for large machines are tried on small ones, and a seed means the same on both; of a GPU, as it is or with fewer
 * multiprocessors or less of a cache, so that small tensors are dealt as large ones are. Programs run on any. */
fb_machine fb_fuzz_machine(const fb_machine *own, uint64_t seed);
/* Plan 0 is `none`, plan 1 one of the presets in turn, others begin with a preset and take random edits. The caller
 * frees. */
fb_plan *fb_fuzz_plan(fb_planner *p, uint64_t seed, int number);

typedef enum {
    FB_FUZZ_FINE,
    FB_FUZZ_REFUSED, /* says that it is not supported, which is allowed */
    FB_FUZZ_WRONG,   /* another result than roundings may give: of a kernel on what it was given, or of the whole */
    FB_FUZZ_APART,   /* the plain interpreter and the exact lane of trials disagree: one of them is wrong */
    FB_FUZZ_FAILED,  /* an error where there should be none */
    FB_FUZZ_CRASHED,
    FB_FUZZ_HUNG,
} fb_fuzz_kind;

const char *fb_fuzz_kind_name(fb_fuzz_kind k); /* "wrong" */

/* ---- one case whose graph and plan are there ---- */

/* What a graph's outputs may be. `g`, which is canonical, must live as long. NULL: it cannot be evaluated. */
typedef struct fb_fuzz_reference fb_fuzz_reference;
fb_fuzz_reference *fb_fuzz_reference_new(const fb_graph *g, fb_error *err);
void fb_fuzz_reference_free(fb_fuzz_reference *r);
/* Is its exact lane what the plain interpreter gives? Else `text` says where not. */
bool fb_fuzz_second_opinion(const fb_fuzz_reference *r, char text[400]);

/* Elements: of outputs, judged end to end. Undecided: what honest roundings may turn into anything. Open: what is left
 * of them where a walk, which left the same bytes as the run at a stretch, judged each kernel on what it was given. */
typedef struct {
    fb_fuzz_kind kind;
    int64_t elements, undecided, open;
    int64_t kernels, kernel_elements, kernel_undecided; /* launches judged on what they were given */
    char text[400];                                     /* what is wrong, in one sentence */
} fb_fuzz_result;

/* Runs plans of one graph each with its reference together in one program. An error of the device itself is given to
 * all. */
typedef struct {
    const fb_plan *plan;
    const fb_fuzz_reference *reference;
    const fb_id *same; /* a node of the plan's graph: which node of the reference's it is; NULL: they are one graph */
    /* … then what the reference refuses may be right by this one, of the plan's own graph: parts that it has of what is
     * one node there need not be rounded alike. (The two references were held to each other before.) */
    const fb_fuzz_reference *own;
    fb_program *program; /* NULL: lowered by the call; freed by it in any case */
    fb_program *apart;   /* likewise, where kernels are merged: what its stages are */
    bool lightly;        /* compiled so (code/program.h) */
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

/* By how many plans each thing was reached, while they were made and lowered; may lie in memory of several processes.
 */
enum { FB_FUZZ_PLACES = 320 };
typedef struct {
    _Atomic int64_t plans, convolutions, place[FB_FUZZ_PLACES], kind[FB_VERDICT_ILLEGAL + 1],
        verdict[FB_VERDICT_ILLEGAL + 1][FB_RULES];
    _Atomic int64_t pair[FB_FAMILIES][FB_OPS];
} fb_fuzz_coverage;

/* From one to the other, a plan is made: adds what it came by, and frees. */
typedef struct fb_fuzz_watch fb_fuzz_watch;
fb_fuzz_watch *fb_fuzz_watch_new(void);
void fb_fuzz_watch_end(fb_fuzz_watch *w, const fb_plan *plan, fb_fuzz_coverage *c);
/* A line each, what was reached least first. gpu: families that only GPUs have belong to it. */
void fb_fuzz_coverage_print(const fb_fuzz_coverage *c, bool gpu, fb_str *out);

/* The graphs that left most elements undecided, all plans together, most first: where to look for a share that is too
 * large. */
enum { FB_FUZZ_HAZY = 4 };
typedef struct {
    struct {
        uint64_t seed;
        int64_t undecided; /* 0: no more */
    } at[FB_FUZZ_HAZY];
} fb_fuzz_hazy;

void fb_fuzz_hazy_add(fb_fuzz_hazy *h, uint64_t seed, int64_t undecided);

/* What a process that runs rounds tells the one that watches it, through shared memory. */
typedef struct {
    _Atomic int phase;     /* fb_fuzz_phase */
    _Atomic uint64_t seed; /* that it works on; of FB_FUZZ_RUNNING, all of the round's run */
    _Atomic int plan;
    _Atomic int64_t since_ns; /* on the monotonic clock: when the phase began */
    _Atomic int64_t graphs, plans, refused, elements, undecided, open, kernels, kernel_elements, kernel_undecided;
    fb_fuzz_coverage *coverage; /* NULL: not counted */
    fb_fuzz_hazy hazy;          /* of graphs that are done; read while it is written, one may look like another */
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
