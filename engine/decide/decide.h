/* How a preset decides. The procedure of the compiler runs on the graph alone: it knows nothing of our families. It
 * puts every decision on record with fb_decide (which says whether to go on with it: the user may have said no, or
 * want the first N alone) or fb_decline_by_rule. What was taken is then made of our edits, as far as they are legal and
 * generated (fb_decisions_apply), and the record says where they are not. */
#ifndef FB_DECIDE_DECIDE_H
#define FB_DECIDE_DECIDE_H

#include "decide/preset.h"
#include "decide/steps.h"
#include "plan/parts.h"

typedef FB_VEC(fb_candidate) fb_candidates;

typedef struct {
    int step; /* its number, from 0 */
    fb_candidate what;
    int n_nodes; /* CALL */
    const fb_id *nodes;
} fb_taken;

typedef struct {
    fb_planner *planner;
    fb_steps *log; /* NULL: no record is wanted */
    const fb_preset_use *use;
    int n; /* decisions so far */
    FB_VEC(fb_taken) taken;
    fb_pairs declined; /* by the user; b FB_NONE for an inlined node */
} fb_decider;

/* The candidates that stand beside one: the best of `open` from `at` on, which is itself not counted. */
typedef struct {
    const fb_candidate *at;
    int n;
} fb_beside;

fb_steps *fb_steps_new(const char *preset, const char *score_name, void (*score)(double score, fb_str *out));

/* Enough? Nothing is decided beyond the limit. */
bool fb_decider_done(const fb_decider *d);
/* May the procedure go on with `what`? `why` is its reason. False: the user says no, or that was enough. */
bool fb_decide(fb_decider *d, fb_candidate what, fb_beside beside, const char *why, ...)
    __attribute__((format(printf, 4, 5)));
/* The procedure's own rules say no. */
void fb_decline_by_rule(fb_decider *d, fb_candidate what, fb_beside beside, const char *why, ...)
    __attribute__((format(printf, 4, 5)));
/* Ours say no to what was taken: decision `step`, from 0. */
void fb_step_unable(fb_decider *d, int step, const char *verdict, ...) __attribute__((format(printf, 3, 4)));

/* What may become of a library call: a generated kernel where a decision says so, never, or where that is predicted to
 * be faster. */
typedef enum { FB_LIBRARY_FREE, FB_LIBRARY_KEEP, FB_LIBRARY_WEIGH } fb_library_use;
/* The plan of what was taken. */
fb_plan *fb_decisions_apply(fb_decider *d, fb_library_use use);
/* For compilers that leave convolutions to a library: those that are kernels by themselves are calls of the device's, where
 * it has one. */
void fb_decide_convolutions(fb_plan *plan);
void fb_steps_set_kernels(fb_steps *s, int n);

/* Marks as recomputed in place; the caller orders (fb_order_all) and judges afterwards. */
void fb_decide_mark_recomputed(fb_plan *plan, fb_id node);
/* The same, unless `node` reads a parameter that would then have to be overwritten both before and after something:
 * then false, and nothing is changed. */
bool fb_decide_try_recomputed(fb_plan *plan, fb_id node);
/* Joins `node`, alone so far, to the one slot that reads it; false, and nothing is changed, where that would have to
 * run both before and after another. Positions are in order before and afterwards. */
bool fb_decide_try_inlined(fb_plan *plan, fb_id node, fb_id reader);

/* Edges that carry a value to one of `nodes` from one inside `scope` (FB_NONE: from anywhere), in topological order: by
 * consumer. */
void fb_decide_edges(const fb_planner *p, const fb_id *nodes, int n, fb_id scope, fb_pairs *out);
/* One group of all these nodes, where that is a kernel; false, and nothing is changed, where it is none. */
bool fb_decide_try_joined(fb_plan *plan, const fb_id *nodes, int n);

/* The procedures: fb_name_plan of each row. */
#define PRESET(name, ...) fb_plan *fb_##name##_plan(fb_decider *d);
#define BESIDE            PRESET
#include "decide/presets.def"
#undef PRESET
#undef BESIDE

#endif
